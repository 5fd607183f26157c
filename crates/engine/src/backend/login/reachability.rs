//! The state of reaching the server, and the reason where it cannot be reached.

use std::io::ErrorKind;
use std::time::Duration;

use seam::{HOST_NOT_FOUND, Instant};

use crate::frozen::Distance;

/// The state of reaching the server, and the time of the next attempt.
#[derive(Debug)]
pub(crate) struct Reachability {
    state: Reach,
    /// Place of the address in use among the configured ones.
    pub(crate) address: usize,
    /// Time at which it was last said that the server does not get a password.
    pub(crate) withheld_at: Option<Instant>,
}

#[derive(Debug)]
enum Reach {
    /// Nobody has tried yet.
    Untried,
    Up,
    /// Attempts have failed: the next one is due at `retry`.
    Down {
        retry: Instant,
        pause: Duration,
        reason: String,
    },
}

/// The first pause after a failed attempt. A restarting server answers within seconds, so the pauses begin well below one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause: short enough that clients hardly notice the server's return, long enough not to flood its log.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The reason where a server takes connections and says nothing.
pub(crate) const NO_ANSWER: &str = "no answer within backend_connect_timeout";

/// The reason where a member of a group has let a backend log in and is not proved, see [`crate::cluster::process_proof`].
pub(crate) const NO_PROOF: &str = "it lets us log in, but its check has not answered within backend_connect_timeout since: it may be a new \
                                   process, in no group";

/// [`Reachability`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenReachability {
    state: FrozenReach,
    address: usize,
    withheld_at: Option<Distance>,
}

#[derive(Debug, PartialEq)]
enum FrozenReach {
    Untried,
    Up,
    Down { retry: Distance, pause: Duration, reason: String },
}

plain!(struct FrozenReachability { state, address, withheld_at });
plain!(enum FrozenReach { 0 => Untried, 1 => Up, 2 => Down { retry, pause, reason } });

impl Reachability {
    pub(crate) fn freeze(self, now: Instant) -> FrozenReachability {
        let Self { state, address, withheld_at } = self;
        let state = match state {
            Reach::Untried => FrozenReach::Untried,
            Reach::Up => FrozenReach::Up,
            Reach::Down { retry, pause, reason } => {
                FrozenReach::Down { retry: Distance::of(retry, now), pause, reason }
            }
        };
        FrozenReachability { state, address, withheld_at: withheld_at.map(|at| Distance::of(at, now)) }
    }

    pub(crate) fn thawed(frozen: FrozenReachability, now: Instant) -> Self {
        let FrozenReachability { state, address, withheld_at } = frozen;
        let state = match state {
            FrozenReach::Untried => Reach::Untried,
            FrozenReach::Up => Reach::Up,
            FrozenReach::Down { retry, pause, reason } => {
                Reach::Down { retry: retry.from(now), pause, reason }
            }
        };
        Self { state, address, withheld_at: withheld_at.map(|at| at.from(now)) }
    }
}

impl Reachability {
    pub(crate) fn new() -> Self {
        Self { state: Reach::Untried, address: 0, withheld_at: None }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, Reach::Up)
    }

    /// Says whether an attempt makes sense now.
    pub(crate) fn may_connect(&self, now: Instant) -> bool {
        self.next_attempt().is_none_or(|retry| retry <= now)
    }

    /// Returns the time of the next attempt; `None` while the server is up.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        match self.state {
            Reach::Up => None,
            Reach::Untried => Some(Instant::START),
            Reach::Down { retry, .. } => Some(retry),
        }
    }

    /// Returns the reason for which the server cannot be reached.
    pub(crate) fn reason(&self) -> &str {
        match &self.state {
            Reach::Up => "it is up",
            Reach::Untried => "not tried yet",
            Reach::Down { reason, .. } => reason,
        }
    }

    /// Says whether the latest attempts have failed.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, Reach::Down { .. })
    }

    pub(crate) fn answered(&mut self) {
        self.state = Reach::Up;
    }

    /// Notes that the server is at another address from now on, where nobody has tried yet.
    pub(crate) fn move_to(&mut self, address: usize) {
        self.address = address;
        self.state = Reach::Untried;
    }

    /// Notes that an attempt failed: the pause doubles. True where this is news.
    pub(crate) fn failed(&mut self, now: Instant, reason: String, next_address: Option<usize>) -> bool {
        let (pause, news) = match self.state {
            Reach::Up | Reach::Untried => (FIRST_PAUSE, true),
            // Several attempts under way fail together: only the first one counts.
            Reach::Down { retry, pause, .. } if retry > now => (pause, false),
            Reach::Down { pause, .. } => ((pause * 2).min(LONGEST_PAUSE), false),
        };
        self.state = Reach::Down { retry: now + pause, pause, reason };
        self.address = next_address.unwrap_or(self.address);
        news
    }
}

/// Returns the system's error about a connection that did not come about, and the first thing to look at.
pub(crate) fn connect_error(errno: i32) -> String {
    let error = std::io::Error::from_raw_os_error(errno);
    match error.kind() {
        _ if errno == HOST_NOT_FOUND => String::from(
            "its host cannot be found: check the name; it is looked for every backend_lookup_interval",
        ),
        // No socket of that name; nobody listens on it, or on that port.
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!("{error}: is it running, and listening there?")
        }
        _ => error.to_string(),
    }
}
