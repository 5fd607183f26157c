//! How a server stands after its last checks: not every check that fails means that the server is down.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;

use super::verdict::Verdict;
use crate::outside::named::ServerState;

/// A server that was up is down after so many failed checks in a row: one lost packet is no failure.
const FALL: u32 = 2;

/// And up again after so many that worked: one that comes and goes is not taken for a server each time.
const RISE: u32 = 2;

/// So many checks in a row after which a member has heard of a change of members, if it is one still: with the usual interval five seconds,
/// after which Galera takes who is not heard of for gone (evs.suspect_timeout). It hears later where a large change of a table is before it.
const TOLD: usize = 10;

/// The checks that are remembered, of each address: with two a second, the last half minute; with ten, while there is no primary, six seconds.
pub(crate) const REMEMBERED: usize = 60;

/// An outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) verdict: Verdict,
}

/// A server by its checks.
#[derive(Debug)]
pub(crate) struct Standing {
    state: ServerState,
    /// Since when it has had its state and role.
    since: Instant,
    /// What it last said of itself, or why it said nothing.
    verdict: Verdict,
    /// What told it from others when it last said so.
    last_identity: String,
    /// What it is taken for: that, but for the failures that do not count yet.
    believed: Verdict,
    /// The group that it was last a member of, by its own word.
    group: Option<String>,
    /// Since when its membership is what it is.
    view_since: Instant,
    in_a_row: u32,
    was_well: bool,
    /// Its check has lost its connection since.
    is_cut_off: bool,
    /// It has come to another address, where it has not been asked yet.
    has_moved: bool,
    history: VecDeque<Checked>,
}

impl Standing {
    pub(crate) fn new() -> Self {
        let verdict = Verdict::unreached("not asked yet");
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

    /// Takes in the outcome of a check. True where the server's state or role, or whether it takes writes, is another than before.
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
            self.believed = Verdict { role, ..verdict.clone() };
        }
        self.state = state;
        self.verdict = verdict;
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        // Sets of GTIDs may be long, and nobody asks for those of a minute ago.
        let verdict = Verdict { position: String::new(), ..checked.verdict };
        self.history.push_back(Checked { verdict, ..checked });
        let is_new = before != (self.state, self.believed.role, self.believed.is_writable);
        if is_new {
            self.since = now;
        }
        is_new
    }

    /// Another server may be at its place from now on, which has yet to be asked. What this one was is not known of that.
    pub(crate) fn begin_anew(&mut self, now: Instant, reason: &str) {
        let unreached = Verdict::unreached(reason);
        let believed = Verdict { role: self.believed.role, ..unreached.clone() };
        let state = ServerState::Down;
        *self = Self { state, since: now, verdict: unreached, believed, has_moved: true, ..Self::new() };
    }

    /// Whether it has come to another address, where it has not been asked yet.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Whether what runs on it may come to its end: it is up, or was that before it came to another address.
    pub(crate) fn may_end(&self) -> bool {
        self.state == ServerState::Up || self.has_moved
    }

    /// The connection of its check has ended between two rounds: it may be another one by now than it has said.
    pub(crate) fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// Whether it is what it said last, as far as can be told: it was up then, and has been there since.
    pub(crate) fn is_certain(&self) -> bool {
        self.was_well && !self.is_cut_off
    }

    /// Whether it may have left its group unseen: its check has lost its connection, or failed, and a process that is started anew is in no
    /// group at first. What is connected to it since before is not affected: that ends with its process.
    pub(crate) fn may_have_left(&self) -> bool {
        self.state == ServerState::Up && self.believed.is_of_group() && !self.is_certain()
    }

    /// The group that it was a member of and is none of now, as it says.
    pub(crate) fn left(&self) -> Option<&str> {
        self.group.as_deref().filter(|_| self.believed.membership.is_none())
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Since when it has its view of what it is a member of.
    pub(crate) fn view_since(&self) -> Instant {
        self.view_since
    }

    /// Whether it has been asked in [`TOLD`] checks in a row that began later and worked: what it has not heard of by then it does not hear.
    pub(crate) fn was_asked_since(&self, since: Instant) -> bool {
        let is_later = |checked: &&Checked| checked.verdict.is_well && checked.at >= since + checked.took;
        self.history.iter().rev().take_while(is_later).count() >= TOLD
    }

    /// When the last check began.
    pub(crate) fn last_began(&self) -> Instant {
        self.history.back().map_or(Instant::START, |last| {
            Instant::START + (last.at.since(Instant::START).saturating_sub(last.took))
        })
    }

    /// The outcome of the last check.
    pub(crate) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// What told it from others when it last said so, also while it is down; empty where it never has.
    pub(crate) fn last_identity(&self) -> &str {
        &self.last_identity
    }

    /// What the server is taken for.
    pub(crate) fn believed(&self) -> &Verdict {
        &self.believed
    }

    /// The last checks, the oldest first.
    pub(crate) fn history(&self) -> impl DoubleEndedIterator<Item = &Checked> {
        self.history.iter()
    }

    /// It is up and takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.state == ServerState::Up && self.believed.is_writable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::named::ServerRole;

    fn well(writable: bool) -> Verdict {
        Verdict {
            role: ServerRole::Primary,
            is_well: true,
            is_writable: writable,
            identity: String::from("a"),
            ..Verdict::unreached("read_only is off")
        }
    }

    fn lost() -> Verdict {
        Verdict::unreached("Connection refused")
    }

    fn states(verdicts: impl IntoIterator<Item = Verdict>) -> Vec<(ServerState, bool)> {
        let mut standing = Standing::new();
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
        let unfit = Verdict { is_well: false, is_writable: false, ..well(true) };
        let seen = states([well(true), well(false), well(true), unfit, well(true)]);
        use ServerState::{Unfit, Up};
        assert_eq!(seen, [(Up, true), (Up, false), (Up, true), (Unfit, false), (Up, true)]);
    }

    #[test]
    fn the_first_check_decides_and_the_last_ones_are_remembered() {
        assert_eq!(states([lost()]), [(ServerState::Down, false)]);
        let mut standing = Standing::new();
        for number in 0..REMEMBERED as u64 + 5 {
            let at = Instant::from_micros(number);
            standing.take(Checked { at, took: Duration::ZERO, verdict: well(true) });
        }
        assert_eq!(standing.history().count(), REMEMBERED);
        assert_eq!(standing.history().next().map(|checked| checked.at), Some(Instant::from_micros(5)));
    }
}
