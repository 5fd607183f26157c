//! The servers behind several addresses: the role of each, and the choice of the primary among them.
//!
//! The first worker watches them ([`watching`]), each by a check on a connection of its own ([`check`]). A server's answers ([`reading`])
//! are judged ([`verdict`]), and several checks in a row make its standing ([`standing`]). From all standings follows which server is the
//! primary ([`choice`], [`primary`]). An operator may leave some out ([`drain`]). All workers hear of the choice ([`chosen`]), and take it
//! up ([`taking_up`]). Statements on the way to the former primary may go to the next ([`elsewhere`]).

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
pub(crate) mod process_proof;
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
use self::chosen::{Choice, Chosen, FailoverCounts};
use self::drain::Drains;
use self::position::Behind;
use self::primary::{Failovers, Known};
use self::standing::{Checked, ServerStanding};
use self::switchover::Switching;
use self::verdict::Follows;
use crate::accounts::task::Work;
use crate::outbox::Outbox;
use crate::outside::event::Event;
use crate::outside::named::{ServerRole, ServerState};
use crate::readers::replicas::{Fitness, Replicas};
use crate::settings::Settings;

/// The servers of this worker. Empty where there is but one, and on all workers but the first.
pub(crate) struct Cluster {
    /// Checks by their places in the list of addresses.
    checks: Vec<Check>,
    standings: Vec<ServerStanding>,
    last_token: u64,
    /// The place of the primary, or of the last one.
    primary: Option<usize>,
    /// Time since which that server is the primary.
    primary_since: Instant,
    /// Set while the primary is asked whether it still is the primary, since it has refused a statement.
    doubt: Option<Doubt>,
    failovers: Failovers,
    /// Set while a planned change of the primary is under way.
    switching: Option<Switching>,
    /// Servers that are not to be chosen.
    drains: Drains,
    /// Events that are worth a line beside the choice.
    told: Vec<Event>,
    /// True where a server has been asked since clients were last told of all.
    has_news: bool,
    /// Position that the primary was known to have, or the last one.
    known: Known,
    /// Place of the server that would be the primary but lacks transactions, the time of its check, and the lack.
    behind: Option<(usize, Instant, Behind)>,
    /// Place of the server that would be the primary, and the time since which.
    next: Option<(usize, Instant)>,
    /// Time at which the primary was last found to be well. Below are the counts of that time.
    known_well: Instant,
    before: FailoverCounts,
    /// Number of the last backend that may wait for a proof, see [`process_proof`]. Below is the number up to which there is one.
    connected: u64,
    proved: u64,
}

impl Cluster {
    pub(crate) fn new(settings: &Settings, worker: usize) -> Self {
        let count = if settings.cluster.several && worker == 0 { settings.server.len() } else { 0 };
        Self {
            checks: (0..count).map(|_| Check::new()).collect(),
            standings: (0..count).map(|_| ServerStanding::new()).collect(),
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
            before: FailoverCounts::default(),
            connected: 0,
            proved: 0,
        }
    }

    /// Says whether this worker checks servers.
    pub(crate) fn is_watching(&self) -> bool {
        !self.checks.is_empty()
    }
}

/// A doubt about the primary. A server's answers from before this count no more.
struct Doubt {
    choice: Choice,
    since: Instant,
    /// True once the server has been asked later, or could not be.
    is_over: bool,
}

/// The parts that a step of the checks works with.
pub(crate) struct Step<'a> {
    now: Instant,
    settings: &'a Settings,
    outbox: &'a mut Outbox,
    effects: Vec<Effect>,
}

/// A consequence of a step beyond the servers.
pub(crate) enum Effect {
    /// The connection belongs to the check at this place.
    Serves { connection: ConnectionId, place: usize },
    /// The connection belongs to nobody any more.
    Ended { connection: ConnectionId },
    /// A password is to be encrypted for a check's login.
    Encrypt { connection: ConnectionId, work: Work },
    /// The standing of a server has changed.
    Changed { place: usize },
}

impl Cluster {
    /// Begins the checks that are due, and ends those that take too long.
    fn turn(&mut self, step: &mut Step<'_>) {
        for place in 0..self.checks.len() {
            self.check_turn(step, place);
        }
    }

    /// Takes in a check that began at this time. True where the server's standing has changed.
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

    /// Notes that the primary's check has answered a question that was put after these backends were connected.
    fn proves(&mut self, place: usize, covers: u64) {
        if self.primary == Some(place) && self.standings[place].is_certain() {
            self.proved = self.proved.max(covers);
        }
    }

    /// Says whether backends wait for a word of this server's check. While its standing is not certain, only a whole round says anything.
    fn is_to_prove(&self, place: usize) -> bool {
        let standing = &self.standings[place];
        self.primary == Some(place)
            && self.connected > self.proved
            && standing.believed().is_of_group()
            && standing.is_certain()
    }

    /// Returns the event of a server with a changed standing.
    fn changed(&self, place: usize, address: Address) -> Event {
        let standing = &self.standings[place];
        let (state, role) = (standing.state(), standing.believed().role);
        Event::ServerChanged { address, state, role, reason: standing.verdict().reason.clone() }
    }

    /// Tells which servers may be read from beside the primary. True where that has changed.
    fn say_replicas(&self, chosen: &Chosen, replicas: &Replicas, max_lag: Duration) -> bool {
        let primary = chosen.get().place;
        let is_node = |place: usize| self.standings[place].believed().role == ServerRole::Node;
        replicas.say_of_primary(primary.is_some_and(is_node));
        let say = |(place, standing): (usize, &ServerStanding)| {
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

    /// Says whether a server has all that the primary writes, sooner or later. A server that follows nobody may have data that the primary never
    /// had: it may be a former primary that is back.
    fn may_be_read_from(&self, standing: &ServerStanding, has_primary: bool, max_lag: Duration) -> bool {
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

    /// Returns the time at which [`Self::turn`] has something to do.
    pub(crate) fn next_turn(&self, settings: &Settings) -> Option<Instant> {
        let checks = self.checks.iter().filter_map(|check| check.next(settings.cluster.check_timeout));
        let drain = self.drains.ends(settings.cluster.hold);
        checks.chain(self.switching.as_ref().and_then(Switching::ends)).chain(drain).min()
    }
}
