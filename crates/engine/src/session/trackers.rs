//! Changes of its session that a client wants to hear of: the values of its `session_track_...`, and the part of an answer's changes that they
//! leave.
//!
//! Sources: `sql/session_tracker.cc` of both servers; their manuals' pages of the variables.

use std::borrow::Cow;

use sql::{Classification, TrackerVariable};
use wire::SessionChange;

use super::tracked_names::TrackedNames;

/// The values of a client's `session_track_...`, as far as they are not those of its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trackers {
    schema: bool,
    state_change: bool,
    variables: TrackedNames,
}

plain!(struct Trackers { schema, state_change, variables });

impl Default for Trackers {
    /// The values that the servers have where nobody has set anything else.
    fn default() -> Self {
        let variables =
            b"autocommit,character_set_client,character_set_connection,character_set_results,time_zone";
        Self { schema: true, state_change: false, variables: TrackedNames::new(variables) }
    }
}

/// The part of an answer's changes that its client is told.
#[derive(Clone, Copy)]
pub(crate) struct ToldChanges<'a> {
    pub(crate) trackers: &'a Trackers,
    /// True where the variables in the answer are those of the client's own list.
    pub(crate) by_own_list: bool,
    /// True for MariaDB. MySQL takes `*` for all variables only where nothing stands beside it (session_tracker.cc: `parse_var_list`).
    pub(crate) is_mariadb: bool,
    /// True where the client has one of the trackers on that its backend has like it.
    pub(crate) has_others: bool,
}

impl Trackers {
    /// Takes in a value, as the server shows or reports it.
    pub(crate) fn set(&mut self, tracker: TrackerVariable, value: &[u8]) {
        match tracker {
            TrackerVariable::Schema => self.schema = is_on(value),
            TrackerVariable::StateChange => self.state_change = is_on(value),
            TrackerVariable::SystemVariables => self.variables = TrackedNames::new(value),
        }
    }

    /// The value as a literal, which the server's own quotes nothing in: names of variables hold none.
    pub(crate) fn literal(&self, tracker: TrackerVariable) -> String {
        match tracker {
            TrackerVariable::Schema => u8::from(self.schema).to_string(),
            TrackerVariable::StateChange => u8::from(self.state_change).to_string(),
            TrackerVariable::SystemVariables => {
                let mut quoted = Vec::new();
                sql::quote_string(&mut quoted, self.variables.text(), sql::LexMode::default());
                String::from_utf8_lossy(&quoted).into_owned()
            }
        }
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.variables.bytes()
    }

    fn names(&self, name: &[u8], is_mariadb: bool) -> bool {
        let tracks_all = self.variables.text() == b"*" || (is_mariadb && self.variables.contains(b"*"));
        tracks_all || self.variables.contains(name)
    }

    fn are_off(&self) -> bool {
        !self.schema && !self.state_change && self.variables.text().is_empty()
    }

    /// The trackers as they are behind a statement that reports these changes: the statement tells of itself by the values that it sets.
    fn behind(&self, changes: &[u8]) -> Cow<'_, Self> {
        let mut behind = Cow::Borrowed(self);
        for change in wire::session_changes(changes).flatten() {
            if let SessionChange::SystemVariable { name, value } = change
                && let Some(tracker) = TrackerVariable::of(name)
            {
                behind.to_mut().set(tracker, value);
            }
        }
        behind
    }
}

impl ToldChanges<'_> {
    /// The part that the client is told of the changes that a backend reports in an OK.
    pub(crate) fn of<'c>(self, changes: &'c [u8]) -> Cow<'c, [u8]> {
        if changes.is_empty() {
            return Cow::Borrowed(changes);
        }
        let trackers = self.trackers.behind(changes);
        let hears = self.has_others || !trackers.are_off();
        let mut told = Vec::new();
        let mut items = wire::session_changes(changes);
        while let Some(Ok((change, bytes))) = items.next_with_bytes() {
            let tells = match change {
                SessionChange::SystemVariable { name, .. } => {
                    self.by_own_list || trackers.names(name, self.is_mariadb)
                }
                SessionChange::Schema(_) => trackers.schema,
                SessionChange::StateChange => trackers.state_change,
                SessionChange::Gtids(_)
                | SessionChange::TransactionCharacteristics(_)
                | SessionChange::TransactionState(_)
                | SessionChange::Other { .. } => hears,
            };
            if tells {
                told.extend_from_slice(bytes);
            }
        }
        if told.len() == changes.len() { Cow::Borrowed(changes) } else { Cow::Owned(told) }
    }

    /// Says whether the client is told anything at all: MySQL tells every client of some transactions that has any tracker on.
    pub(crate) fn hears(self) -> bool {
        self.has_others || !self.trackers.are_off()
    }
}

/// True for ON, as the trackers say it, and for 1, as a SELECT does.
pub(crate) fn is_on(value: &[u8]) -> bool {
    value == b"1" || value.eq_ignore_ascii_case(b"ON")
}

/// Says whether a statement sets the list of variables, so that the server reports by that from then on.
pub(crate) fn sets_list(statement: &Classification) -> bool {
    let list = TrackerVariable::SystemVariables.name().as_bytes();
    !statement.variables.for_its_duration && statement.variables.all.iter().any(|name| **name == *list)
}

/// The counter of statements, which MySQL 9 reports with each of them under `*`.
pub(crate) const COUNTER: &[u8] = b"statement_id";

/// Changes without [`COUNTER`].
pub(crate) fn without_counter(changes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut items = wire::session_changes(changes);
    while let Some(Ok((change, bytes))) = items.next_with_bytes() {
        if !matches!(change, SessionChange::SystemVariable { name: COUNTER, .. }) {
            kept.extend_from_slice(bytes);
        }
    }
    kept
}

/// The changes that MySQL tells of a BEGIN, or of the end of a transaction that only its client knew of. MySQL tells them to clients
/// that have not asked for that either (its `sql/transaction.cc` marks both whatever `session_track_transaction_info` is; seen with
/// 9.7.4). `None` where MySQL tells nothing. Of a BEGIN behind a BEGIN, MySQL says that there is something and tells nothing.
pub(crate) fn told_of_unstarted(before: bool, after: bool) -> Option<Vec<u8>> {
    let letters = match (before, after) {
        (false, false) => return None,
        (true, true) => return Some(Vec::new()),
        (false, true) => b"T_______",
        (true, false) => b"________",
    };
    let mut changes = Vec::new();
    wire::put_session_change(&mut changes, &SessionChange::TransactionState(letters));
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTOCOMMIT: &[u8] = b"\x00\x0f\x0aautocommit\x03OFF";
    const SQL_MODE: &[u8] = b"\x00\x0a\x08sql_mode\x00";
    const SCHEMA: &[u8] = b"\x01\x05\x04test";
    const STATE: &[u8] = b"\x02\x011";
    const GTIDS: &[u8] = b"\x03\x08\x00\x06uuid:1";

    fn heard(trackers: &Trackers, by_own_list: bool) -> ToldChanges<'_> {
        ToldChanges { trackers, by_own_list, is_mariadb: false, has_others: false }
    }

    fn told(trackers: &Trackers, changes: &[&[u8]]) -> Vec<u8> {
        heard(trackers, false).of(&changes.concat()).into_owned()
    }

    #[test]
    fn a_client_hears_what_it_has_asked_for() {
        let all = [AUTOCOMMIT, SQL_MODE, SCHEMA, STATE, GTIDS];
        let mut trackers = Trackers::default();
        assert_eq!(told(&trackers, &all), [AUTOCOMMIT, SCHEMA, GTIDS].concat());
        trackers.set(TrackerVariable::SystemVariables, b"time_zone, SQL_MODE");
        trackers.set(TrackerVariable::Schema, b"OFF");
        trackers.set(TrackerVariable::StateChange, b"ON");
        assert_eq!(told(&trackers, &all), [SQL_MODE, STATE, GTIDS].concat());
        trackers.set(TrackerVariable::SystemVariables, b"*");
        assert_eq!(told(&trackers, &all), [AUTOCOMMIT, SQL_MODE, STATE, GTIDS].concat());
        trackers.set(TrackerVariable::SystemVariables, b"*,autocommit");
        assert_eq!(told(&trackers, &[AUTOCOMMIT, SQL_MODE]), AUTOCOMMIT);
        let mariadb = ToldChanges { is_mariadb: true, ..heard(&trackers, false) };
        assert_eq!(*mariadb.of(SQL_MODE), *SQL_MODE);
        trackers.set(TrackerVariable::SystemVariables, b"");
        assert_eq!(told(&trackers, &[AUTOCOMMIT, SQL_MODE]), b"");
    }

    #[test]
    fn who_has_no_tracker_on_hears_of_no_transaction_either() {
        let mut trackers = Trackers::default();
        trackers.set(TrackerVariable::SystemVariables, b"");
        assert!(heard(&trackers, false).hears());
        trackers.set(TrackerVariable::Schema, b"0");
        assert_eq!(told(&trackers, &[GTIDS, SCHEMA]), b"");
        let others = ToldChanges { has_others: true, ..heard(&trackers, false) };
        assert_eq!(*others.of(GTIDS), *GTIDS);
    }

    #[test]
    fn what_sets_a_tracker_is_told_by_its_new_value() {
        let on = b"\x00\x1e\x1asession_track_state_change\x02ON".as_slice();
        let off = b"\x00\x1f\x1asession_track_state_change\x03OFF".as_slice();
        assert_eq!(told(&Trackers::default(), &[on, STATE]), STATE);
        let mut trackers = Trackers::default();
        trackers.set(TrackerVariable::StateChange, b"1");
        assert_eq!(told(&trackers, &[off, STATE]), b"");
    }

    #[test]
    fn the_servers_own_choice_of_variables_stands() {
        let trackers = Trackers::default();
        let changes = [SQL_MODE, STATE].concat();
        assert_eq!(*heard(&trackers, true).of(&changes), *SQL_MODE);
    }

    #[test]
    fn what_cannot_be_read_is_not_told() {
        assert_eq!(told(&Trackers::default(), &[SCHEMA, b"\x01\x09\x04te"]), SCHEMA);
    }

    #[test]
    fn the_counter_is_left_out() {
        let counter = b"\x00\x10\x0cstatement_id\x0242".as_slice();
        assert_eq!(
            without_counter(&[counter, AUTOCOMMIT, counter, SCHEMA].concat()),
            [AUTOCOMMIT, SCHEMA].concat()
        );
    }

    #[test]
    fn values_are_shown_as_the_server_shows_them() {
        let trackers = Trackers::default();
        assert_eq!(trackers.literal(TrackerVariable::Schema), "1");
        assert_eq!(trackers.literal(TrackerVariable::StateChange), "0");
        assert!(trackers.literal(TrackerVariable::SystemVariables).starts_with("'autocommit,character_set"));
    }
}
