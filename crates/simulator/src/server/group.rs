//! A MySQL as a member of a group (Group Replication, single-primary mode): what it knows of the others, what it says of that, and which commits it holds
//! up.
//!
//! What it says is what members of an 9.7 have said while they were killed, stopped and left out (`replication_group_members`,
//! `replication_group_member_stats`, `super_read_only`, `offline_mode`). Who belongs to the group is decided in [`crate::world`], by all members together.

use std::collections::{BTreeMap, BTreeSet};

use super::database::Database;
use super::member::{Does, Member, ServerNumber, what_it_does};
use super::mysql;
use super::reply::{Answer, ServerError, Value};
use super::session::Session;
use super::statements::split;
use crate::protocol::command;

/// The group's name stands in its members' GTIDs as if it were a server's: no server has this number.
pub const GROUP: ServerNumber = 0;

/// The numbers that a member gives its transactions come from a block of its own (`group_replication_gtid_assignment_block_size`).
const BLOCK: u64 = 1_000_000;

/// A member's state, as it knows it (`MEMBER_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs without its group: after its start, or behind STOP GROUP_REPLICATION.
    Offline,
    /// It gets what the others have, to be one of them.
    Recovering,
    /// It takes part.
    Online,
    /// The others have left it out, or it has lost them for too long.
    Error,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Offline => "OFFLINE",
            Self::Recovering => "RECOVERING",
            Self::Online => "ONLINE",
            Self::Error => "ERROR",
        }
    }
}

/// The members of a group, as they have agreed on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// How often the group has begun.
    pub began: u64,
    /// How often its members have changed since.
    pub changes: u64,
    /// They, each with whether it recovers still. A change of that is no change of the view.
    pub members: BTreeMap<ServerNumber, State>,
    /// The one that takes writes. Nor is a change of that one by plan.
    pub primary: Option<ServerNumber>,
}

impl View {
    /// `VIEW_ID`.
    fn id(&self) -> String {
        format!("1795926746456178{}:{}", self.began, self.changes)
    }

    /// Whether so many of its members are more than half of them.
    pub fn is_majority(&self, count: usize) -> bool {
        count * 2 > self.members.len()
    }
}

/// What a member says of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its own state.
    pub state: State,
    /// The last view that it has heard of.
    pub view: View,
    /// Those of the view that it has not heard of for long.
    pub unreachable: BTreeSet<ServerNumber>,
}

impl Said {
    /// Whether it says that more than half of the members are alive.
    pub fn has_majority(&self) -> bool {
        self.view
            .is_majority(self.view.members.keys().filter(|member| !self.unreachable.contains(member)).count())
    }
}

/// A server's place in its group.
#[derive(Clone, Debug)]
pub struct Seat {
    /// What it says of the group.
    pub said: Said,
    /// No majority of the members would agree to a commit now. It is not aware of that at first.
    pub is_alone: bool,
    /// It is the primary, and has not carried out all that was agreed on before.
    pub has_backlog: bool,
    /// `offline_mode`: nobody may log in.
    pub is_offline: bool,
    /// It ends what it had on its way to the others.
    gives_up: bool,
    /// It was started without the plugin: it says nothing of any group.
    pub is_plain: bool,
    /// The process before this one was. A primary of no group stays that as it is started anew, until it says something else.
    pub was_plain: bool,
    /// On each session what it showed last.
    shown_on: BTreeMap<u32, Shows>,
    /// The same of each program: what it has shown, the latest first, and is known to have come to that but for the first.
    shown: BTreeMap<usize, [Shows; 2]>,
    /// To each program, how often in a row it has said that it is the primary and takes writes.
    claimed: BTreeMap<usize, u32>,
    /// On each session whether it has said last that it takes writes.
    writes_on: BTreeMap<u32, bool>,
    /// The newest session on which each program has asked. What is asked on one before it has been given up: its answers are not read.
    newest: BTreeMap<usize, u32>,
}

/// What a member says that it is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// No part of a group that goes on.
    Unfit,
    Secondary,
    /// The primary, and whether it takes writes.
    Primary(bool),
}

impl Seat {
    /// One of a group of so many, the first of which is the primary.
    pub fn new(count: ServerNumber) -> Self {
        let members = (1..=count).map(|number| (number, State::Online)).collect();
        let view = View { began: 1, changes: u64::from(count), members, primary: Some(1) };
        Self {
            said: Said { state: State::Online, view, unreachable: BTreeSet::new() },
            is_alone: false,
            has_backlog: false,
            is_offline: false,
            gives_up: false,
            is_plain: false,
            was_plain: false,
            shown_on: BTreeMap::new(),
            shown: BTreeMap::new(),
            claimed: BTreeMap::new(),
            writes_on: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Whether it takes itself for a member of the group.
    pub fn takes_part(&self) -> bool {
        matches!(self.said.state, State::Online | State::Recovering)
    }

    /// Whether it says that it is ONLINE, with a majority of members that are alive.
    pub fn says_well(&self) -> bool {
        self.said.state == State::Online && self.said.has_majority()
    }

    /// Whether it has said again and again to a program that it is no part of a group that goes on: the last answer that has come said so.
    pub fn is_known_unfit(&self, program: usize) -> bool {
        self.shown.get(&program) == Some(&[Shows::Unfit; 2])
    }

    /// The same of that it is a secondary.
    pub fn is_known_secondary(&self, program: usize) -> bool {
        self.shown.get(&program) == Some(&[Shows::Secondary; 2])
    }

    /// Whether it has said twice in a row to a program that it is the primary and takes writes. One without a plugin may be taken for one of no
    /// group, and stays the primary as that comes back.
    pub fn has_said_twice(&self, program: usize) -> bool {
        self.is_or_was_plain() || self.claimed.get(&program).is_some_and(|&times| times >= 2)
    }

    /// Whether it is of no group for whoever has asked this process, or the one before it.
    pub fn is_or_was_plain(&self) -> bool {
        self.is_plain || self.was_plain
    }

    /// It says to a program what it is, on this session.
    fn show(&mut self, own: ServerNumber, program: usize, thread: u32) {
        let newest = self.newest.entry(program).or_default();
        if thread < *newest {
            return;
        }
        *newest = thread;
        let shows = match self.says_well() {
            false => Shows::Unfit,
            true if self.said.view.primary != Some(own) => Shows::Secondary,
            true => Shows::Primary(self.writes_on.get(&thread) == Some(&true)),
        };
        // As with what it has shown of its GTIDs: that the answer before has come shows when the same session asks again.
        let came = self.shown_on.insert(thread, shows);
        match came {
            Some(came) => self.shown.insert(program, [shows, came]),
            None => self.shown.remove(&program),
        };
        let claimed = self.claimed.entry(program).or_default();
        if came.is_some_and(|came| came != Shows::Primary(true)) {
            *claimed = 0;
        }
        *claimed += u32::from(shows == Shows::Primary(true));
    }

    /// It says on this session whether it takes writes.
    pub(super) fn show_writes(&mut self, thread: u32, takes_writes: bool) {
        self.writes_on.insert(thread, takes_writes);
    }

    /// Its process has been started anew, and does not take part.
    pub fn restart(&mut self, has_plugin: bool) {
        self.was_plain = std::mem::replace(&mut self.is_plain, !has_plugin);
        self.said.state = State::Offline;
        self.said.unreachable.clear();
        (self.is_offline, self.is_alone) = (false, false);
        self.shown_on.clear();
        self.shown.clear();
        self.claimed.clear();
        self.writes_on.clear();
        self.newest.clear();
    }

    /// The rows of `replication_group_members`: id, state, role and view.
    fn rows(&self, own: ServerNumber) -> Vec<Vec<Value>> {
        let Said { state, view, unreachable } = &self.said;
        let text = |text: &str| Some(text.to_owned());
        if !self.takes_part() {
            // Of the others it says nothing, and no role of its own.
            let view = (*state == State::Error).then(|| view.id());
            return vec![vec![Some(mysql::uuid(own)), text(state.name()), text(""), view]];
        }
        let row = |(&number, of_view): (&ServerNumber, &State)| {
            let state = match number {
                number if number == own => state.name(),
                number if unreachable.contains(&number) => "UNREACHABLE",
                _ => of_view.name(),
            };
            let role = if view.primary == Some(number) { "PRIMARY" } else { "SECONDARY" };
            vec![Some(mysql::uuid(number)), text(state), text(role), Some(view.id())]
        };
        view.members.iter().map(row).collect()
    }
}

impl Member {
    /// The number of the next transaction that it commits: of those of the group.
    pub(super) fn number_in_group(&self, of_own: u64) -> u64 {
        u64::from(self.number - 1) * BLOCK + of_own
    }

    /// The variables that tell a member of a group.
    pub(super) fn variables_of_group(&self) -> Vec<(&'static str, String)> {
        let named = || {
            vec![
                ("group_replication_group_name", mysql::uuid(GROUP)),
                ("group_replication_single_primary_mode", "ON".to_owned()),
            ]
        };
        self.seat.as_ref().filter(|seat| !seat.is_plain).map_or(Vec::new(), |_| named())
    }
}

impl Database {
    /// Answers who the members of the group are; `None` for all other questions.
    pub(super) fn select_group(&mut self, session: &Session, text: &str) -> Option<Answer> {
        if !text.contains("replication_group_members") {
            return None;
        }
        let member = self.member.as_mut()?;
        let seat = member.seat.as_mut()?;
        seat.show(member.number, self.asker, session.thread_id);
        let columns = ["MEMBER_ID", "MEMBER_STATE", "MEMBER_ROLE", "VIEW_ID"].map(str::to_owned).to_vec();
        Some(Answer::Rows { columns, rows: seat.rows(member.number) })
    }

    /// Its seat, where it is one of a group.
    pub fn seat(&self) -> Option<&Seat> {
        self.member.as_ref()?.seat.as_ref()
    }

    /// Why nobody may log in.
    pub(super) fn turns_all_away(&self) -> Option<ServerError> {
        let message = "The server is currently in offline mode";
        self.seat().filter(|seat| seat.is_offline).map(|_| ServerError::new(3032, "HY000", message))
    }

    /// Whether a command waits: it may commit something, and no majority of the group would agree to that. It does so for as long as that lasts
    /// (`group_replication_unreachable_majority_timeout`), and reads go on.
    pub(super) fn holds_up(&self, session: &Session, payload: &[u8]) -> bool {
        let Some(seat) = self.seat().filter(|seat| seat.takes_part() && (seat.is_alone || seat.has_backlog))
        else {
            return false;
        };
        let is_read_only = self.member.as_ref().is_some_and(|member| member.read_only);
        let is_open = session.transaction.is_some();
        let may_commit = |text: &str| match what_it_does(session, text) {
            // What is refused is not held up.
            Does::Writes | Does::Commits if is_read_only => false,
            // Some that write end the transaction before them (LOCK TABLES), or come in several steps (LOAD DATA).
            Does::Writes => !is_open || text.trim_start().to_ascii_lowercase().starts_with("lo"),
            Does::Commits => is_open,
            // A new primary holds reads of tables up, too, until it has the backlog (BEFORE_ON_PRIMARY_FAILOVER).
            Does::Neither => {
                seat.has_backlog && session.user != super::SERVICE_USER && text.contains(" FROM ")
            }
        };
        match payload.split_first() {
            Some((&command::QUERY, text)) => {
                let text = String::from_utf8_lossy(text);
                split(&text).is_ok_and(|texts| texts.iter().any(|text| may_commit(text)))
            }
            Some((&command::STMT_EXECUTE, body)) => {
                let number =
                    body.get(..4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                number.and_then(|number| session.prepared.get(&number)).is_some_and(|it| may_commit(&it.text))
            }
            _ => false,
        }
    }

    /// What was held up ends with an error, since the member is none any more.
    pub(super) fn give_up_held(&mut self, gives_up: bool) {
        if let Some(seat) = self.member.as_mut().and_then(|member| member.seat.as_mut()) {
            seat.gives_up = gives_up && !seat.takes_part();
        }
    }

    /// ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of what had to be agreed on by members that are lost.
    pub(super) fn undecided(&self) -> Option<ServerError> {
        let message = "Plugin instructed the server to rollback the current transaction.";
        self.seat().filter(|seat| seat.gives_up).map(|_| ServerError::new(3101, "40000", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(seat: &Seat, own: ServerNumber) -> Vec<String> {
        let shown = |row: &Vec<Value>| {
            format!("{}/{}", row[1].as_deref().unwrap_or("-"), row[2].as_deref().unwrap_or("-"))
        };
        seat.rows(own).iter().map(shown).collect()
    }

    #[test]
    fn a_member_says_what_it_knows_of_the_others() {
        let mut seat = Seat::new(3);
        assert_eq!(states(&seat, 1), ["ONLINE/PRIMARY", "ONLINE/SECONDARY", "ONLINE/SECONDARY"]);
        assert!(seat.says_well());
        seat.said.unreachable = BTreeSet::from([2]);
        assert!(seat.says_well(), "two of three go on");
        seat.said.unreachable.insert(3);
        assert_eq!(states(&seat, 1), ["ONLINE/PRIMARY", "UNREACHABLE/SECONDARY", "UNREACHABLE/SECONDARY"]);
        assert!(!seat.says_well());
        seat.said.state = State::Error;
        assert_eq!(states(&seat, 1), ["ERROR/"]);
        seat.restart(true);
        assert_eq!(
            seat.rows(1),
            [vec![Some(mysql::uuid(1)), Some("OFFLINE".to_owned()), Some(String::new()), None]]
        );
    }
    #[test]
    fn what_is_said_on_a_session_that_was_given_up_counts_for_nothing() {
        let mut seat = Seat::new(3);
        for thread in [7, 8] {
            seat.show_writes(thread, true);
        }
        seat.show(1, 0, 7);
        seat.show(1, 0, 8);
        seat.show(1, 0, 8);
        assert!(seat.has_said_twice(0));
        // A question that stood in the old session's socket while the new one was asked already.
        seat.said.state = State::Error;
        seat.show(1, 0, 7);
        seat.said.state = State::Online;
        seat.show(1, 0, 8);
        assert!(seat.has_said_twice(0));
        assert!(!seat.is_known_unfit(0));
    }
}
