//! The servers behind several addresses: what each is to the others, and which of them is the primary.
//!
//! The first worker watches them ([`watching`]), each by a check on a connection of its own ([`check`]). What a server says of itself ([`reading`]) is judged
//! ([`verdict`]), and what several checks in a row say is how it stands ([`standing`]). From how all of them stand follows which is the
//! primary ([`choice`], [`primary`]), whereby an operator may leave some out ([`drain`]); all workers hear of it ([`chosen`]), and take it
//! up ([`taking_up`]). What was on the way to the former one may go to the next ([`elsewhere`]).

pub(crate) mod aurora;
pub(crate) mod check;
pub(crate) mod choice;
pub(crate) mod chosen;
pub(crate) mod drain;
pub(crate) mod elsewhere;
pub(crate) mod following;
pub(crate) mod foreign;
pub(crate) mod position;
pub(crate) mod primary;
pub(crate) mod proof;
mod rds;
pub(crate) mod reading;
pub(crate) mod refusal;
pub(crate) mod sent_before;
pub(crate) mod settings;
pub(crate) mod standing;
pub(crate) mod switchover;
pub(crate) mod taking_up;
#[cfg(test)]
mod testing;
pub(crate) mod verdict;
pub(crate) mod view;
pub(crate) mod watching;

use std::time::Duration;

use seam::{Address, ConnectionId, Instant};

use self::check::Check;
use self::chosen::{Choice, Chosen, Counts};
use self::drain::Drains;
use self::position::Behind;
use self::primary::{Failovers, Known};
use self::standing::{Checked, Standing};
use self::switchover::Switching;
use self::verdict::Follows;
use crate::accounts::task::Work;
use crate::outbox::Outbox;
use crate::outside::event::Event;
use crate::outside::named::{ServerRole, ServerState};
use crate::readers::replicas::{Fitness, Replicas};
use crate::settings::Settings;

/// The servers of this worker; empty where there is but one, and on all workers but the first.
pub(crate) struct Cluster {
    /// By their places in the list of addresses.
    checks: Vec<Check>,
    standings: Vec<Standing>,
    last_token: u64,
    /// The place of the primary, or of the last one.
    primary: Option<usize>,
    /// Since when it is that.
    primary_since: Instant,
    /// The primary has refused a statement, and is asked whether it is that still.
    doubt: Option<Doubt>,
    failovers: Failovers,
    /// A planned change of the primary is under way.
    switching: Option<Switching>,
    /// Servers that are not to be chosen.
    drains: Drains,
    /// What is worth a line beside the choice.
    told: Vec<Event>,
    /// A server has been asked since clients would last have been told of all.
    has_news: bool,
    /// What the primary was known to have, or the last one.
    known: Known,
    /// The server at this place would be the primary, but lacks that, as its check at this time has said.
    behind: Option<(usize, Instant, Behind)>,
    /// The server at this place would be the primary since then.
    next: Option<(usize, Instant)>,
    /// When the primary was last found to be well, and what had been counted then.
    known_well: Instant,
    before: Counts,
    /// The number of the last backend that may wait for a proof, see [`proof`], and up to which one that has been had.
    connected: u64,
    proved: u64,
}

impl Cluster {
    pub(crate) fn new(settings: &Settings, worker: usize) -> Self {
        let count = if settings.cluster.several && worker == 0 { settings.server.len() } else { 0 };
        Self {
            checks: (0..count).map(|_| Check::new()).collect(),
            standings: (0..count).map(|_| Standing::new()).collect(),
            last_token: 0,
            primary: None,
            primary_since: Instant::START,
            doubt: None,
            failovers: Failovers::default(),
            switching: None,
            drains: Drains::new(count),
            told: Vec::new(),
            has_news: false,
            known: Known::default(),
            behind: None,
            next: None,
            known_well: Instant::START,
            before: Counts::default(),
            connected: 0,
            proved: 0,
        }
    }

    /// Whether this worker checks servers.
    pub(crate) fn is_watching(&self) -> bool {
        !self.checks.is_empty()
    }
}

/// What a server has said of itself before this counts no more.
struct Doubt {
    choice: Choice,
    since: Instant,
    /// It has been asked later, or could not be.
    is_over: bool,
}

/// What a step of the checks has at hand.
pub(crate) struct Step<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) effects: Vec<Effect>,
}

/// What follows from a step beyond the servers.
pub(crate) enum Effect {
    /// The connection is that of the check at this place.
    Serves { connection: ConnectionId, place: usize },
    /// The connection is nobody's any more.
    Ended { connection: ConnectionId },
    /// A password is to be encrypted for a check's login.
    Encrypt { connection: ConnectionId, work: Work },
    /// A server stands otherwise than before.
    Changed { place: usize },
}

impl Cluster {
    /// Begins the checks that are due, and ends those that take too long.
    fn turn(&mut self, step: &mut Step<'_>) {
        for place in 0..self.checks.len() {
            self.check_turn(step, place);
        }
    }

    /// A server has been asked, by a check that began at this time. Says whether it stands otherwise than before.
    fn asked(&mut self, place: usize, began: Instant, checked: Checked) -> bool {
        if let Some(doubt) = &mut self.doubt {
            doubt.is_over |= doubt.choice.place == Some(place) && began >= doubt.since;
        }
        if self.primary == Some(place) {
            self.known.take(&checked.verdict);
        }
        self.switching_asked(place, began);
        self.has_news = true;
        self.standings[place].take(checked)
    }

    /// The primary's check has answered what was asked after these backends were connected.
    fn proves(&mut self, place: usize, covers: u64) {
        if self.primary == Some(place) && self.standings[place].is_certain() {
            self.proved = self.proved.max(covers);
        }
    }

    /// Whether backends wait for a word of this server's check. As long as it is not certain itself, only a whole round says anything.
    fn is_to_prove(&self, place: usize) -> bool {
        let standing = &self.standings[place];
        self.primary == Some(place)
            && self.connected > self.proved
            && standing.believed().is_of_group()
            && standing.is_certain()
    }

    /// A server stands otherwise than before.
    fn changed(&self, place: usize, address: Address) -> Event {
        let standing = &self.standings[place];
        let (state, role) = (standing.state(), standing.believed().role);
        Event::ServerChanged { address, state, role, reason: standing.verdict().reason.clone() }
    }

    /// Says which servers may be read from beside the primary. True where that has changed.
    fn say_replicas(&self, chosen: &Chosen, replicas: &Replicas, max_lag: Duration) -> bool {
        let primary = chosen.get().place;
        let is_node = |place: usize| self.standings[place].believed().role == ServerRole::Node;
        replicas.say_of_primary(primary.is_some_and(is_node));
        let say = |(place, standing): (usize, &Standing)| {
            let is_other = primary.is_none_or(|primary| !self.is_same(primary, place));
            let is_first = (0..place).all(|other| !self.is_same(place, other));
            let is_up = standing.state() == ServerState::Up;
            let fitness = Fitness {
                is_open: is_up && is_other && is_first && !self.is_drained(place),
                is_up,
                is_fit: self.may_be_read_from(standing, primary.is_some(), max_lag),
                is_node: is_node(place),
            };
            replicas.say(place, fitness)
        };
        self.standings.iter().enumerate().map(say).fold(false, |before, news| before | news)
    }

    /// Whether a server has what the primary writes, sooner or later. One that follows nobody may have what the primary never had: a former
    /// primary that is back.
    fn may_be_read_from(&self, standing: &Standing, has_primary: bool, max_lag: Duration) -> bool {
        let found = standing.believed();
        let is_behind = matches!(found.follows, Follows::Storage(lag) if lag > max_lag);
        match found.role {
            ServerRole::Node => true,
            ServerRole::Replica if found.membership.is_some() => true,
            ServerRole::Replica if is_behind => false,
            // Whom it follows it has said before there was this primary, perhaps.
            ServerRole::Replica if has_primary => {
                matches!(found.follows, Follows::All | Follows::Storage(_))
                    && standing.last_began() >= self.primary_since
            }
            // Without a primary its source is gone, and what it has got holds.
            ServerRole::Replica => found.follows != Follows::Nobody,
            ServerRole::Primary | ServerRole::Unknown => false,
        }
    }

    /// When [`Self::turn`] has something to do.
    pub(crate) fn next_turn(&self, settings: &Settings) -> Option<Instant> {
        let checks = self.checks.iter().filter_map(|check| check.next(settings.cluster.check_timeout));
        let drain = self.drains.ends(settings.cluster.hold);
        checks.chain(self.switching.as_ref().and_then(Switching::ends)).chain(drain).min()
    }
}
