//! The values of a new session: the server's global values of session variables, which a `SET GLOBAL` may change.
//!
//! On the server a connection keeps what it has begun with, and the next one begins with the new values. Backends outlive clients:
//! behind a change, some would have the old values and some the new ones, and each client now these, now those. So Onramp
//! looks again and again, gives those who are logged in the old values as if they had set them, and renews the backends.

use std::time::Duration;

use seam::Instant;

use crate::backend::from_server::own_answers::rows_of;
use crate::frozen::Distance;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::session::SessionTables;

/// The shortest time between two copies, of the accounts too, that are asked for because somebody has seen that a copy is old.
pub(super) const SHORTEST_REFRESH: Duration = Duration::from_millis(20);

/// Asks for the variables of which three things hold: their global value begins a session, everybody may set them
/// for a session of their own, and they change what a statement does or how long it may take. Some more, which are
/// not carried, are asked for so that backends are renewed. A server leaves out a variable that it does not know.
/// The query does not ask for all variables: that takes the server ten times as long (4.7 ms on MariaDB 10.11),
/// and some change by themselves (GTIDs).
pub(crate) const QUERY: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('autocommit', \
    'collation_server', 'completion_type', 'default_storage_engine', 'default_week_format', \
    'div_precision_increment', 'foreign_key_checks', 'group_concat_max_len', 'init_connect', \
    'innodb_lock_wait_timeout', 'interactive_timeout', 'join_buffer_size', 'lc_messages', 'lc_time_names', 'lock_wait_timeout', 'long_query_time', \
    'max_allowed_packet', 'max_execution_time', 'max_heap_table_size', 'max_sort_length', \
    'max_statement_time', 'optimizer_search_depth', 'optimizer_switch', 'session_track_schema', \
    'session_track_state_change', 'session_track_system_variables', 'sort_buffer_size', 'sql_mode', \
    'sql_safe_updates', 'sql_select_limit', 'time_zone', 'tmp_table_size', 'transaction_isolation', \
    'transaction_read_only', 'tx_isolation', 'tx_read_only', 'unique_checks', 'updatable_views_with_limit', \
    'wait_timeout', 'wsrep_on', 'wsrep_provider')";

/// The variables that a client cannot have for itself, or not from here.
const NOT_SETTABLE: [&[u8]; 4] = [b"init_connect", b"max_allowed_packet", b"wsrep_on", b"wsrep_provider"];

/// Variables of these that change the result of a read, or end it with an error. Others only say how a server goes about it: they are each
/// server's own.
const OF_READS: [&[u8]; 13] = [
    b"default_week_format",
    b"div_precision_increment",
    b"group_concat_max_len",
    b"lc_messages",
    b"lc_time_names",
    b"max_execution_time",
    b"max_sort_length",
    b"max_statement_time",
    b"sql_mode",
    b"sql_select_limit",
    b"time_zone",
    b"transaction_isolation",
    b"tx_isolation",
];

/// Variables by which a session may not write, whatever its account may. MySQL has the former, MariaDB the latter, MySQL 5.7 both.
const READ_ONLY: [&[u8]; 2] = [b"transaction_read_only", b"tx_read_only"];

/// The values as the service account has seen them.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    /// The latest answer.
    seen: Option<Vec<u8>>,
    /// The number of different answers so far.
    version: u64,
    /// True where a login does more than a change of account does, by one of the variables; see `backend/pool/change.rs`.
    logins_differ: bool,
    /// The time at which the latest answer was asked for.
    asked: Instant,
    /// True if the service account has logged in since. The server may be another one then, and its values say nothing of sessions at the one
    /// before.
    anew: bool,
    /// True where the server does not answer such a question.
    refused: bool,
    /// True once a client has just changed some values.
    wanted: bool,
}

/// [`Defaults`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenDefaults {
    seen: Option<Vec<u8>>,
    version: u64,
    logins_differ: bool,
    asked: Distance,
    anew: bool,
    refused: bool,
    wanted: bool,
}

plain!(struct FrozenDefaults { seen, version, logins_differ, asked, anew, refused, wanted });

impl Defaults {
    pub(super) fn freeze(self, now: Instant) -> FrozenDefaults {
        let Self { seen, version, logins_differ, asked, anew, refused, wanted } = self;
        let asked = Distance::of(asked, now);
        FrozenDefaults { seen, version, logins_differ, asked, anew, refused, wanted }
    }
}

impl FrozenDefaults {
    pub(super) fn thaw(self, now: Instant) -> Defaults {
        let Self { seen, version, logins_differ, asked, anew, refused, wanted } = self;
        Defaults { seen, version, logins_differ, asked: asked.from(now), anew, refused, wanted }
    }
}

/// Variables with their values.
pub(crate) type Values = Vec<(Vec<u8>, Vec<u8>)>;

impl Defaults {
    /// The time at which the server is to be asked next.
    pub(crate) fn next(&self, every: Duration) -> Option<Instant> {
        let waits = self.seen.is_some() && !self.anew;
        let pause = if self.wanted { SHORTEST_REFRESH } else { every };
        (!self.refused).then_some(if waits { self.asked + pause } else { Instant::START })
    }

    /// Says whether a backend that changes its account is like one that logs in, as far as the server's variables tell.
    pub(crate) fn allow_changes(&self) -> bool {
        self.seen.is_some() && !self.anew && !self.refused && !self.logins_differ
    }

    /// Notes that the server may have other values by now.
    pub(crate) fn are_wanted(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn asked_anew(&mut self) {
        (self.anew, self.refused) = (true, false);
    }

    pub(crate) fn are_asked_for(&mut self, now: Instant) {
        (self.asked, self.wanted) = (now, false);
    }

    pub(crate) fn are_refused(&mut self) {
        self.refused = true;
    }

    /// The number of the latest answer; `None` where the answer is not known to hold still.
    pub(crate) fn version(&self) -> Option<u64> {
        (self.seen.is_some() && !self.anew).then_some(self.version)
    }

    /// The values that a session is given on another server, so that its reads give there what they give here. Values that the session has set
    /// itself stay.
    pub(crate) fn of_reads_at(&self, other: &Self) -> Values {
        let [here, there] = [self, other].map(|of| of.seen.as_deref().map(values).unwrap_or_default());
        let differs = |(name, value): &(Vec<u8>, Vec<u8>)| {
            OF_READS.contains(&name.as_slice())
                && there.iter().any(|(other, its)| other == name && its != value)
        };
        here.into_iter().filter(differs).collect()
    }

    /// The variable that keeps a session here from writing.
    pub(crate) fn read_only(&self) -> Option<&'static [u8]> {
        let known = values(self.seen.as_deref()?);
        READ_ONLY.into_iter().find(|name| known.iter().any(|(known, _)| known == name))
    }

    /// The values that were other ones before this answer.
    fn changed_by(&mut self, answer: Vec<u8>) -> Values {
        if self.seen.as_ref() == Some(&answer) {
            return Values::new();
        }
        let now = values(&answer);
        self.logins_differ = now.iter().any(|(name, value)| match name.as_slice() {
            b"init_connect" => !value.is_empty(),
            b"wsrep_on" => value.eq_ignore_ascii_case(b"ON"),
            // Percona's servers have the former for sessions alone.
            b"wsrep_provider" => !value.is_empty() && !value.eq_ignore_ascii_case(b"none"),
            _ => false,
        });
        self.version += 1;
        let before = self.seen.replace(answer).map(|before| values(&before)).unwrap_or_default();
        let changed = |(name, value): &(Vec<u8>, Vec<u8>)| now.iter().any(|(n, v)| n == name && v != value);
        before.into_iter().filter(changed).collect()
    }

    /// The server's answer. True where it had other values before: session states have kept what they rely on then, and the backends and
    /// the facts are of the past. One worker says so: each has its own account of the values, and one line is enough.
    pub(crate) fn take(
        &mut self,
        answer: Vec<u8>,
        sessions: &mut SessionTables,
        views: &mut Views,
        says_so: bool,
    ) -> bool {
        let mut old = self.changed_by(answer);
        let is_anew = std::mem::take(&mut self.anew);
        if old.is_empty() {
            return false;
        }
        if says_so {
            let names = old.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            views.event(Event::DefaultsChanged { names });
        }
        if !is_anew {
            old.retain(|(name, _)| !NOT_SETTABLE.contains(&name.as_slice()));
            sessions.states.keep_values(&old);
        }
        sessions.known_answers.clear(&mut sessions.states);
        true
    }
}

fn values(answer: &[u8]) -> Values {
    let pair = |row: Vec<Option<Vec<u8>>>| {
        let [name, value] = row.try_into().ok()?;
        Some((name?, value?))
    };
    rows_of(answer).into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use wire::{Capabilities, Column, ResultSetWriter, StatusFlags};

    use seam::{Input, Output, Program as _};

    use super::*;

    use crate::client::commands::command::tests::{connection, engine};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::session::SessionState;
    use crate::settings::Settings;

    /// Takes the answer to the question about the values. Returns true where they have changed.
    fn take(engine: &mut Engine, answer: Vec<u8>) -> bool {
        let primary = engine.servers.primary().key;
        let (sessions, views) = (&mut engine.sessions, &mut engine.views);
        let changed = engine.servers[primary].control.defaults.take(answer, sessions, views, true);
        if changed {
            engine.renew_backends_on(primary);
        }
        changed
    }

    fn answer(values: &[(&str, &str)]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        let columns = [Column::text("Variable_name"), Column::text("Value")];
        let mut rows = ResultSetWriter::begin(
            &mut out,
            &mut sequence,
            &columns,
            StatusFlags::AUTOCOMMIT,
            Capabilities::DEPRECATE_EOF,
        );
        for (name, value) in values {
            rows.row(&[Some(name.as_bytes()), Some(value.as_bytes())]);
        }
        rows.finish();
        out
    }

    /// The SET with which a fresh backend gets the state of the first client.
    fn set_of(engine: &Engine) -> String {
        let session = engine.clients[client_key(0)].session.id().expect("it is logged in");
        let mut out = Vec::new();
        let fresh = SessionState {
            charset: engine.sessions.states.state(session).charset.clone(),
            ..SessionState::default()
        };
        engine.sessions.states.state(session).put_set(&[&fresh], &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn clients_keep_what_has_changed() {
        let mut engine = engine(1, Settings::default());
        engine.servers.primary_mut().control.defaults.asked_anew();
        let first = answer(&[("sql_mode", "ANSI"), ("max_allowed_packet", "1024"), ("wait_timeout", "5")]);
        assert!(!take(&mut engine, first.clone()), "there was nothing before");
        assert!(!take(&mut engine, first));
        assert_eq!(set_of(&engine), "");
        let second = answer(&[("sql_mode", ""), ("max_allowed_packet", "4096"), ("wait_timeout", "6")]);
        assert!(take(&mut engine, second));
        assert_eq!(set_of(&engine), "SET @@session.sql_mode='ANSI'");
        assert!(take(&mut engine, answer(&[("sql_mode", "ORACLE")])));
        assert_eq!(set_of(&engine), "SET @@session.sql_mode='ANSI'", "it has it for itself by now");
    }

    /// The backend's connection may have been accepted before the change.
    #[test]
    fn a_backend_that_is_being_opened_is_renewed_too() {
        let mut engine = engine(1, Settings::default());
        take(&mut engine, answer(&[("sql_mode", "")]));
        engine.servers.primary_mut().reachability.answered();
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03SELECT 1");
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
        engine.handle(Instant::START, Input::TurnEnd);
        let opened = |output: &Output<'_>| matches!(output, Output::Connect { token: 1.., .. });
        assert!(std::iter::from_fn(|| engine.poll_output().map(|output| opened(&output))).any(|is| is));
        take(&mut engine, answer(&[("sql_mode", "ANSI")]));
        let mut backends = engine.servers.backends();
        assert!(backends.all(|(_, backend)| backend.is_closed_afterwards()));
        assert_eq!(engine.servers.backend_count(), 1);
    }

    #[test]
    fn another_server_says_nothing_of_sessions_at_the_one_before() {
        let mut engine = engine(1, Settings::default());
        take(&mut engine, answer(&[("optimizer_switch", "old=on")]));
        engine.servers.primary_mut().control.defaults.asked_anew();
        assert!(take(&mut engine, answer(&[("optimizer_switch", "new=on")])), "but backends are renewed");
        assert_eq!(set_of(&engine), "");
    }

    #[test]
    fn a_server_that_refuses_is_asked_no_more() {
        let second = Duration::from_secs(1);
        let mut defaults = Defaults::default();
        assert_eq!(defaults.next(second), Some(Instant::START));
        defaults.are_asked_for(Instant::START + second);
        defaults.changed_by(answer(&[]));
        assert_eq!(defaults.next(second), Some(Instant::START + 2 * second));
        defaults.are_wanted();
        assert_eq!(defaults.next(second), Some(Instant::START + second + SHORTEST_REFRESH));
        defaults.are_refused();
        assert_eq!(defaults.next(second), None);
        defaults.asked_anew();
        assert_eq!(defaults.next(second), Some(Instant::START));
    }
}
