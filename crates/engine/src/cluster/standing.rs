//! The standing of a server after its last checks: not every check that fails means that the server is down.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;

use super::verdict::ServerVerdict;
use crate::outside::named::ServerState;

/// Number of failed checks in a row after which a server that was up is down: one lost packet is no failure.
const FALL: u32 = 2;

/// Number of checks in a row that work, after which a server is up again: one that comes and goes is not taken for a server each time.
const RISE: u32 = 2;

/// Number of checks in a row after which a member has heard of a change of members, if it still is one. That is five seconds at the usual
/// interval. After that time Galera gives up a silent node (evs.suspect_timeout). A node hears later behind a large change of a table.
const TOLD: usize = 10;

/// Number of checks of each address that are remembered: with two a second, the last half minute; with ten, without a primary, six seconds.
pub(crate) const REMEMBERED: usize = 60;

/// An outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(super) at: Instant,
    pub(super) took: Duration,
    pub(super) verdict: ServerVerdict,
}

/// A server by its checks.
#[derive(Debug)]
pub(crate) struct ServerStanding {
    state: ServerState,
    /// Time since which the server has had its state and role.
    since: Instant,
    /// Verdict of the last check, or the reason why there was no answer.
    verdict: ServerVerdict,
    /// Name that told the server from others when it last gave one.
    last_identity: String,
    /// Verdict that counts: the last one, but for failures that do not count yet.
    believed: ServerVerdict,
    /// The group that the server was last a member of, by its own word.
    group: Option<String>,
    /// Time since which its membership is what it is.
    view_since: Instant,
    in_a_row: u32,
    was_well: bool,
    /// True where its check has lost its connection since.
    is_cut_off: bool,
    /// True where the server has come to another address and has not been asked there yet.
    has_moved: bool,
    history: VecDeque<Checked>,
}

impl ServerStanding {
    pub(crate) fn new() -> Self {
        let verdict = ServerVerdict::unreached("not asked yet");
        Self {
            state: ServerState::Untried,
            since: Instant::START,
            last_identity: String::new(),
            believed: verdict.clone(),
            verdict,
            group: None,
            view_since: Instant::START,
            in_a_row: 0,
            was_well: false,
            is_cut_off: false,
            has_moved: false,
            history: VecDeque::new(),
        }
    }

    /// Takes in the outcome of a check. True where the server's state or role, or its taking writes, is another than before.
    pub(crate) fn take(&mut self, checked: Checked) -> bool {
        let (now, verdict) = (checked.at, checked.verdict.clone());
        self.in_a_row = if verdict.is_well == self.was_well { self.in_a_row.saturating_add(1) } else { 1 };
        self.was_well = verdict.is_well;
        (self.is_cut_off, self.has_moved) = (false, false);
        let answered = !verdict.identity.is_empty();
        if answered {
            self.last_identity.clone_from(&verdict.identity);
            let group = verdict.membership.as_ref().filter(|_| verdict.is_well && verdict.is_of_group());
            self.group = group.map(|own| own.cluster.clone()).or_else(|| self.group.take());
        }
        let state = match (self.state, verdict.is_well) {
            // What it says of itself counts at once.
            (_, false) if answered => ServerState::Unfit,
            (ServerState::Up | ServerState::Unfit, false) if self.in_a_row < FALL => self.state,
            (_, false) => ServerState::Down,
            (ServerState::Down, true) if self.in_a_row < RISE => ServerState::Down,
            (_, true) => ServerState::Up,
        };
        let before = (self.state, self.believed.role, self.believed.is_writable);
        if answered || state != ServerState::Up {
            // The role that it had is still worth knowing while it is down.
            let role = if answered { verdict.role } else { self.believed.role };
            if self.believed.membership != verdict.membership {
                self.view_since = now;
            }
            self.believed = ServerVerdict { role, ..verdict.clone() };
        }
        self.state = state;
        self.verdict = verdict;
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        // Sets of GTIDs may be long, and nobody asks for those of a minute ago.
        let verdict = ServerVerdict { position: String::new(), ..checked.verdict };
        self.history.push_back(Checked { verdict, ..checked });
        let is_new = before != (self.state, self.believed.role, self.believed.is_writable);
        if is_new {
            self.since = now;
        }
        is_new
    }

    /// Begins anew, since another server may be at this place from now on, and has yet to be asked. Nothing of this one holds for that.
    pub(crate) fn begin_anew(&mut self, now: Instant, reason: &str) {
        let unreached = ServerVerdict::unreached(reason);
        let believed = ServerVerdict { role: self.believed.role, ..unreached.clone() };
        let state = ServerState::Down;
        *self = Self { state, since: now, verdict: unreached, believed, has_moved: true, ..Self::new() };
    }

    /// Says whether the server has come to another address and has not been asked there yet.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Says whether statements on the server may come to their end: it is up, or was up before it came to another address.
    pub(crate) fn may_end(&self) -> bool {
        self.state == ServerState::Up || self.has_moved
    }

    /// Notes that the connection of its check has ended between two rounds: the server may differ from its last word by now.
    pub(crate) fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// Says whether the server's last word still holds, as far as can be told: the server was well then, and has been there since.
    pub(crate) fn is_certain(&self) -> bool {
        self.was_well && !self.is_cut_off
    }

    /// Says whether the server may have left its group unseen. Its check has lost its connection, or failed, and a process that is started
    /// anew is in no group at first. Connections from before are not affected: they end with their process.
    pub(crate) fn may_have_left(&self) -> bool {
        self.state == ServerState::Up && self.believed.is_of_group() && !self.is_certain()
    }

    /// Returns the group that the server was a member of and is not in now, as it says.
    pub(crate) fn left(&self) -> Option<&str> {
        self.group.as_deref().filter(|_| self.believed.membership.is_none())
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the time since which the server has its present view of its cluster or group.
    pub(crate) fn view_since(&self) -> Instant {
        self.view_since
    }

    /// Says whether [`TOLD`] checks in a row that began later have worked. A change that the server has not heard of by then it never hears of.
    pub(crate) fn was_asked_since(&self, since: Instant) -> bool {
        let is_later = |checked: &&Checked| checked.verdict.is_well && checked.at >= since + checked.took;
        self.history.iter().rev().take_while(is_later).count() >= TOLD
    }

    /// Returns the time at which the last check began.
    pub(crate) fn last_began(&self) -> Instant {
        self.history.back().map_or(Instant::START, |last| {
            Instant::START + (last.at.since(Instant::START).saturating_sub(last.took))
        })
    }

    /// Returns the outcome of the last check.
    pub(crate) fn verdict(&self) -> &ServerVerdict {
        &self.verdict
    }

    /// Returns the name that told the server from others when it last gave one, also while it is down. Empty where it never has.
    pub(crate) fn last_identity(&self) -> &str {
        &self.last_identity
    }

    /// Returns the verdict that counts.
    pub(crate) fn believed(&self) -> &ServerVerdict {
        &self.believed
    }

    /// Returns the last checks, the oldest first.
    pub(crate) fn history(&self) -> impl DoubleEndedIterator<Item = &Checked> {
        self.history.iter()
    }

    /// Says whether the server is up and takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.state == ServerState::Up && self.believed.is_writable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::named::ServerRole;

    fn well(writable: bool) -> ServerVerdict {
        ServerVerdict {
            role: ServerRole::Primary,
            is_well: true,
            is_writable: writable,
            identity: String::from("a"),
            ..ServerVerdict::unreached("read_only is off")
        }
    }

    fn lost() -> ServerVerdict {
        ServerVerdict::unreached("Connection refused")
    }

    fn states(verdicts: impl IntoIterator<Item = ServerVerdict>) -> Vec<(ServerState, bool)> {
        let mut standing = ServerStanding::new();
        let take = |verdict| {
            standing.take(Checked { at: Instant::START, took: Duration::ZERO, verdict });
            (standing.state(), standing.is_writable())
        };
        verdicts.into_iter().map(take).collect()
    }

    #[test]
    fn one_failed_check_is_no_failure_and_one_that_works_no_recovery() {
        use ServerState::{Down, Up};
        let seen = states([
            well(true),
            lost(),
            well(true),
            lost(),
            lost(),
            well(true),
            lost(),
            well(true),
            well(true),
        ]);
        let up = (Up, true);
        let down = (Down, false);
        assert_eq!(seen, [up, up, up, up, down, down, down, down, up]);
    }

    #[test]
    fn what_a_server_says_of_itself_counts_at_once() {
        let unfit = ServerVerdict { is_well: false, is_writable: false, ..well(true) };
        let seen = states([well(true), well(false), well(true), unfit, well(true)]);
        use ServerState::{Unfit, Up};
        assert_eq!(seen, [(Up, true), (Up, false), (Up, true), (Unfit, false), (Up, true)]);
    }

    #[test]
    fn the_first_check_decides_and_the_last_ones_are_remembered() {
        assert_eq!(states([lost()]), [(ServerState::Down, false)]);
        let mut standing = ServerStanding::new();
        for number in 0..REMEMBERED as u64 + 5 {
            let at = Instant::from_micros(number);
            standing.take(Checked { at, took: Duration::ZERO, verdict: well(true) });
        }
        assert_eq!(standing.history().count(), REMEMBERED);
        assert_eq!(standing.history().next().map(|checked| checked.at), Some(Instant::from_micros(5)));
    }
}
