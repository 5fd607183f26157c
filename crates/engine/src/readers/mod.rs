//! Reads on replicas.
//!
//! Each replica has an engine of its own here, a *reader*: with backends, permits, limits, queues and facts of its own, all of which
//! find themselves as on any server. The engine of the clients lends it a client for one statement ([`guests`]), and decides which may go,
//! where, and when ([`lending`]). The reader's answer goes to the client's own connection. Whatever keeps a statement from being answered
//! comes back with the client, and the statement goes to the primary.
//!
//! A session reads its own writes on replicas, too: a replica is used for a session once it has all of them ([`freshness`]). Until then the
//! statement waits here, and holds nothing on any server.

mod by_server;
mod following;
pub(crate) mod freshness;
mod given;
pub(crate) mod guests;
pub(crate) mod lending;
pub(crate) mod lent;
mod load;
pub(crate) mod replicas;
mod route;
pub(crate) mod routing;
pub(crate) mod settings;
mod split;
pub(crate) mod view;
mod waiting;
mod weights;

use std::sync::Arc;

use seam::{ConnectionId, Input, Instant, Program};

pub use self::by_server::{ByServer, NoZone, ServerName, Zone};
use self::freshness::Freshness;
use self::given::Given;
use self::guests::Returned;
use self::load::Load;
use self::replicas::settings_at;
use self::routing::Routing;
pub use self::settings::{ReadConsistency, ReadSettings, ReadSplit};
use self::waiting::Waiting;
use self::weights::{TurnClock, Turns};
use crate::engine::Engine;
use crate::io::{Io, Role};
use crate::settings::Settings;
use crate::workers::Workers;
use crate::workers::letter::Letter;

/// Tokens and numbers of tasks of the readers have the reader's place and one more in their bits from this one on.
const READER_SHIFT: u32 = 48;

/// Above it are names that are not the readers'.
const LARGEST_TOKEN: u64 = 1 << 62;

/// All readers, one for each address; empty where reads are not split.
#[derive(Default)]
pub(crate) struct Readers {
    all: Vec<Reader>,
    waiting: Waiting,
    /// The load of the primary by reads that could have gone elsewhere.
    primary: Load,
    /// The places that statements went to.
    routing: Routing,
    /// The clock that says which server's turn it is, where weights differ.
    clock: TurnClock,
    /// True where weights or zones are others than in the turn before.
    has_moved: bool,
}

/// A server's weight and zone by the options.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stand {
    /// The server gets reads in proportion to its weight, and none where that is 0.
    weight: u32,
    zone: Option<Zone>,
    /// True where the server is in Onramp's own zone, or where Onramp has none.
    is_near: bool,
}

impl Stand {
    /// The weight and zone of the server at this place. This is the only place that looks names up.
    fn of(settings: &Settings, place: usize) -> Self {
        let reads = &settings.reads;
        let host = settings.server_names.get(place).map(|host| &**host);
        let name = ServerName::of(&settings.server[place], host);
        let zone = reads.zones.of(&name).cloned();
        let is_near = reads.zone.is_none() || reads.zone == zone;
        Self { weight: reads.weights.of(&name).copied().unwrap_or(1), zone, is_near }
    }

    /// True where reads may go to the server.
    fn takes_reads(&self) -> bool {
        self.weight > 0
    }
}

/// A server that is read from, with its engine.
struct Reader {
    engine: Engine,
    freshness: Freshness,
    given: Given,
    /// The connection on which that was found out.
    asked_on: Option<ConnectionId>,
    load: Load,
    stand: Stand,
    turns: Turns,
    /// True where the server gets what the primary writes.
    is_fit: bool,
    /// True where the server answers, so that statements that run there come to their end.
    is_up: bool,
    /// Reads that were sent there.
    sent: u64,
    /// True where something has happened there in this turn.
    is_touched: bool,
}

impl Readers {
    /// Makes the readers of this worker.
    pub(crate) fn new(settings: &Settings, workers: &Workers, worker: usize) -> Self {
        let reader = |(place, shared): (usize, &Arc<Workers>)| {
            let own = settings_at(settings, place);
            let mut engine = Engine::join(own, Arc::clone(shared), worker);
            engine.be_reader((place as u64 + 1) << READER_SHIFT);
            Reader {
                engine,
                freshness: Freshness::default(),
                given: Given::default(),
                asked_on: None,
                load: Load::default(),
                stand: Stand::of(settings, place),
                turns: Turns::default(),
                is_fit: false,
                is_up: false,
                sent: 0,
                is_touched: false,
            }
        };
        let all = workers.replicas.shared().iter().enumerate().map(reader).collect();
        Self { all, routing: Routing::new(settings.digests_size), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has a reader do something. Its requests to the driver stand among all others in the order in which they are made.
    pub(crate) fn enter<R>(
        &mut self,
        place: usize,
        now: Instant,
        io: &mut Io,
        act: impl FnOnce(&mut Engine) -> R,
    ) -> R {
        let reader = &mut self.all[place];
        reader.is_touched = true;
        std::mem::swap(&mut reader.engine.io.outbox, &mut io.outbox);
        reader.engine.now = now;
        let done = act(&mut reader.engine);
        std::mem::swap(&mut reader.engine.io.outbox, &mut io.outbox);
        done
    }

    /// The reader that this is for; none where it is for the engine of the clients.
    pub(crate) fn of_input(&self, input: &Input<'_>, io: &Io) -> Option<usize> {
        if self.all.is_empty() {
            return None;
        }
        match *input {
            Input::Connected { token, .. } | Input::ConnectFailed { token, .. } => self.of_number(token),
            Input::Bytes { connection, .. }
            | Input::Stalled { connection }
            | Input::Drained { connection }
            | Input::Closed { connection, .. }
            | Input::Secured { connection, .. }
            | Input::TlsFailed { connection, .. } => self.of_backend(connection, io),
            Input::Accepted { .. } | Input::Announced { .. } | Input::Signal(_) | Input::TurnEnd => None,
        }
    }

    /// The reader that has chosen this token, or has given out the task of this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<usize> {
        let place = usize::try_from(number >> READER_SHIFT).ok()?.checked_sub(1)?;
        (number < LARGEST_TOKEN && place < self.all.len()).then_some(place)
    }

    /// The reader with this connection to its server: a backend's, or the service account's.
    fn of_backend(&self, connection: ConnectionId, io: &Io) -> Option<usize> {
        if io.role(connection) != Role::Free {
            return None;
        }
        self.all.iter().position(|reader| reader.engine.io.role(connection) != Role::Free)
    }

    /// Clients that have been given back.
    fn returned(&mut self, place: usize) -> Vec<Returned> {
        self.all[place].engine.guests.as_mut().map(|guests| guests.take_returned()).unwrap_or_default()
    }

    /// The time at which a reader has something to do, or a read has waited for long enough, be it for its own zone alone.
    pub(crate) fn next_turn(&self, now: Instant, engine: &Engine) -> Option<Instant> {
        let readers =
            self.all.iter().filter(|reader| reader.is_open()).filter_map(|reader| {
                if reader.is_touched { Some(now) } else { reader.engine.next_timeout() }
            });
        let waiting = self.waiting.first().and_then(|client| engine.end_of_wait(client));
        readers.chain(waiting).chain(self.waiting.next_head_start()).min()
    }

    /// The next letter of a reader to that of another worker.
    pub(crate) fn next_letter(&mut self) -> Option<(usize, Letter)> {
        self.all.iter_mut().enumerate().find_map(|(place, reader)| {
            let (worker, letter) = reader.engine.poll_letter()?;
            Some((worker, Letter::OfReader { place, letter: Box::new(letter) }))
        })
    }

    /// Takes up what options say of servers.
    pub(crate) fn change_settings(&mut self, settings: &Settings) {
        for (place, reader) in self.all.iter_mut().enumerate() {
            let stand = Stand::of(settings, place);
            self.has_moved |= stand != reader.stand;
            reader.stand = stand;
        }
    }

    /// A read goes to the server at this place.
    fn take_turn(&mut self, place: usize) {
        if let Some(reader) = self.all.get_mut(place) {
            self.clock.take(&mut reader.turns, reader.stand.weight);
        }
    }

    /// The time before which all that was written is on some replica that may be read from.
    fn freshest(&self) -> Option<Instant> {
        self.all
            .iter()
            .filter(|reader| reader.is_fit && reader.stand.takes_reads())
            .filter_map(|reader| reader.freshness.as_of())
            .max()
    }

    /// Backends of servers that are known to be lost. There are to be none: a client that waits for one waits for nothing.
    pub(crate) fn lost_backends(&self) -> usize {
        let lost = self.all.iter().filter(|reader| !reader.is_up);
        lost.map(|reader| reader.engine.servers.backend_count()).sum()
    }

    /// The engines, to take something out.
    pub(crate) fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.all.iter_mut().map(|reader| &mut reader.engine)
    }

    /// Has each of them do something.
    pub(crate) fn for_each(&mut self, now: Instant, io: &mut Io, mut act: impl FnMut(&mut Engine)) {
        for place in 0..self.all.len() {
            self.enter(place, now, io, &mut act);
        }
    }

    /// Another server is the primary: what was known of how far replicas are is of the former one.
    pub(crate) fn primary_changes(&mut self) {
        self.all.iter_mut().for_each(|reader| reader.freshness.forget());
        self.primary = Load::default();
    }
}

impl Reader {
    /// True where statements may go to the reader, or some are there.
    fn is_open(&self) -> bool {
        let is_used = !self.engine.clients.is_empty() || self.engine.servers.backend_count() > 0;
        self.is_touched || self.engine.takes_guests() || is_used
    }
}
