//! The knowledge of a worker about the choice of a primary, and its open work behind a change.

use std::rc::Rc;
use std::time::Duration;

use seam::{Address, ConnectionId, Instant};

use super::chosen::{Choice, Chosen};
use crate::backend::ServerPlace;
use crate::backend::login::reachability::Reachability;
use crate::ids::ClientRef;
use crate::outbox::Outbox;
use crate::readers::guests::Guests;
use crate::settings::Settings;

/// Idle backends are trusted again after this time. All connections of a server that dies end at once. But a client that has the server end
/// its own again and again (KILL) is not to have everybody's connected anew each time.
const TRUST_AGAIN: Duration = Duration::from_secs(1);

/// The knowledge of a worker about the choice.
pub(crate) struct Following {
    /// The choice that the worker has taken up.
    pub(super) choice: Choice,
    /// Time since which there may be backends on a server that is not the primary.
    pub(super) leaves: Option<Instant>,
    /// Time since which there is no primary.
    pub(super) held_since: Option<Instant>,
    /// True once the service account has found out what the primary is: backends may be opened there.
    pub(super) is_known: bool,
    /// Clients with reads that were in flight as their backend was lost. The reads run once more unless the primary has functions, which a
    /// view may call.
    repeated: Vec<ClientRef>,
    /// Clients with statements that the primary has refused because of its role. They wait until it has been asked about that.
    pub(super) refused: Vec<ClientRef>,
    /// Time at which idle backends were last closed, since a busy one was lost.
    distrusted: Option<Instant>,
    /// True where there was no primary that could be reached at the end of the last turn.
    pub(super) failed_over: bool,
    /// Time at which there was one again.
    pub(super) found_at: Instant,
    /// Connections that were lost with their server, with a request in flight, and the server's place. They belong to nobody any more, and
    /// end with the next choice. There are no more than there were backends: without a primary none are opened.
    left_open: Vec<(ConnectionId, ServerPlace)>,
    /// Number up to which backends may be used, see [`super::process_proof`].
    pub(super) proved: u64,
    /// Tokens of the backends that have logged in and wait for that.
    unproved: Vec<u64>,
}

impl Following {
    /// Makes the state of a worker that has heard of no choice. With one server it never will; that server is known before anybody is let in.
    pub(crate) fn new(several: bool) -> Self {
        Self {
            choice: Choice::default(),
            leaves: None,
            held_since: Some(Instant::START),
            is_known: !several,
            repeated: Vec::new(),
            refused: Vec::new(),
            distrusted: None,
            failed_over: false,
            found_at: Instant::START,
            left_open: Vec::new(),
            proved: 0,
            unproved: Vec::new(),
        }
    }

    /// Says whether a server is the primary, as far as this worker has heard.
    pub(crate) fn has_primary(&self) -> bool {
        self.choice.place.is_some()
    }

    /// Says whether the service account may connect. With several servers it may once one is the primary. To a server that is read from it may
    /// where the server's guests are welcome.
    pub(crate) fn may_connect(&self, several: bool, guests: Option<&Guests>) -> bool {
        guests.is_none_or(Guests::are_welcome) && (!several || self.has_primary())
    }

    /// Says whether backends may be opened.
    pub(crate) fn knows_primary(&self, several: bool) -> bool {
        self.is_known && (!several || self.has_primary())
    }

    /// Says whether a statement that was sent before may be sent now. It may not while the primary's state has to be found out.
    pub(crate) fn may_send_again(&self, several: bool, chosen: &Chosen) -> bool {
        self.knows_primary(several) && !chosen.is_in_doubt(self.choice)
    }

    /// Says whether a backend at this place stands on a server that is not the primary.
    pub(crate) fn is_former(&self, several: bool, place: &ServerPlace) -> bool {
        let is_left = || !self.choice.place.is_some_and(|primary| place.is(primary));
        place.is_former() || (several && is_left())
    }

    /// Says whether there is no primary that can be reached, and another one may come.
    pub(super) fn fails_over(&self, several: bool, primary: &Reachability) -> bool {
        several && (self.held_since.is_some() || !primary.is_up())
    }

    /// Returns the time until which a statement waits for a backend that has waited since `since`. Once there is a primary, the wait for one
    /// does not count: no backend could be opened before.
    pub(crate) fn waits_until(&self, since: Instant, settings: &Settings, primary: &Reachability) -> Instant {
        if self.fails_over(settings.cluster.several, primary) {
            since + settings.cluster.hold
        } else {
            since.max(self.found_at) + settings.backend_connect_timeout
        }
    }

    /// Notes that a client's read is sent once more, unless the primary has functions: that has to be found out.
    pub(super) fn repeats(&mut self, client: ClientRef) {
        self.repeated.push(client);
        self.is_known = false;
    }

    /// Notes that the service account has found out what the primary is, and whether it has functions. Returns the clients with waiting reads.
    pub(crate) fn found_out(&mut self) -> Vec<ClientRef> {
        if std::mem::replace(&mut self.is_known, true) {
            return Vec::new();
        }
        std::mem::take(&mut self.repeated)
    }

    /// Takes out the clients with refused statements, since each refusal was the statement's own affair.
    pub(crate) fn take_refused(&mut self) -> Vec<ClientRef> {
        std::mem::take(&mut self.refused)
    }

    /// Says whether backends of this worker are left on a server that is not the primary, or may be, by the present choice.
    pub(crate) fn leaves_server(&self, several: bool, chosen: Choice) -> bool {
        several && (self.choice != chosen || self.leaves.is_some())
    }

    /// Says whether the idle backends are to be closed too, since a busy one is lost.
    pub(crate) fn distrusts_idle(&mut self, now: Instant) -> bool {
        let does = self.distrusted.is_none_or(|at| now.since(at) >= TRUST_AGAIN);
        if does {
            self.distrusted = Some(now);
        }
        does
    }

    /// Notes that the server at this place is not where it was. Connections that were left open there lead to no server that is asked now.
    pub(crate) fn server_moves(&mut self, place: usize, from: &Rc<Address>) {
        let left = self.left_open.iter_mut().filter(|(_, left)| left.is(place));
        left.for_each(|(_, left)| *left = ServerPlace::Former(Rc::clone(from)));
    }

    /// Notes that there are backends where the primary is not.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.leaves = Some(now);
    }

    /// Leaves a connection to the server at this place open. Its end follows from the next choice.
    pub(crate) fn leave_open(&mut self, connection: ConnectionId, place: ServerPlace) {
        self.left_open.push((connection, place));
    }

    /// Ends the connections that were left open until the primary is known again, or nobody will choose one any more. A connection to the same
    /// server is closed: the end arrives behind the requests in flight, and frees the session's locks.
    pub(crate) fn end_left_open(&mut self, outbox: &mut Outbox, primary: Option<usize>) {
        for (connection, place) in self.left_open.drain(..) {
            match primary.is_some_and(|primary| place.is(primary)) {
                true => outbox.close(connection),
                false => outbox.abort(connection),
            }
        }
    }

    /// Says whether a backend with this number may be used. Where it may not yet, its turn comes with [`Self::take_unproved`].
    pub(crate) fn may_use(&mut self, number: Option<u64>, token: u64) -> bool {
        let may = number.is_none_or(|number| number <= self.proved);
        if !may {
            self.unproved.push(token);
        }
        may
    }

    /// Says whether a backend waits for nothing but its proof.
    pub(crate) fn waits_for_proof(&self, token: u64) -> bool {
        self.unproved.contains(&token)
    }

    /// Takes out the tokens of the backends that have logged in and wait for their proof.
    pub(crate) fn take_unproved(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unproved)
    }

    /// Returns the time at which backends that were to come to their end have had long enough.
    pub(crate) fn next_turn(&self, hold: Duration) -> Option<Instant> {
        self.leaves.map(|since| since + hold)
    }
}

#[cfg(test)]
pub(super) mod tests;
