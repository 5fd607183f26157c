//! Session state: what SET, USE and the login leave behind, comparable by id and movable from backend to backend.

pub(crate) mod aftermath;
pub(crate) mod conditions;
pub(crate) mod frozen;
pub(crate) mod gtid;
pub(crate) mod known_answers;
pub(crate) mod literals;
pub(crate) mod named_resources;
pub(crate) mod pin_counts;
pub(crate) mod pins;
mod preparing;
pub(crate) mod sql_states;
pub(crate) mod statements;
mod table;
mod tracked_names;
pub(crate) mod trackers;
pub(crate) mod unreported;
pub(crate) mod user_variables;
pub(crate) mod wait_timeout;

use std::collections::BTreeMap;
use std::rc::Rc;

use known_answers::KnownAnswers;
use statements::{DefinitionHold, DefinitionId, Definitions};

pub(crate) use table::{SessionHold, SessionId, Sessions};

/// Session states, definitions and known answers of all clients and backends. Each is stored once.
#[derive(Default)]
pub(crate) struct SessionTables {
    pub(crate) states: Sessions,
    pub(crate) definitions: Definitions,
    /// Prepared statements of all clients of this worker.
    statement_count: u32,
    /// Answers to a `SET`, by what was asked in which state.
    pub(crate) known_answers: KnownAnswers,
}

impl SessionTables {
    /// A client has a statement of this definition from now on.
    pub(crate) fn statement_added(&mut self, definition: DefinitionId) {
        self.statement_count += 1;
        self.definitions.client_statement_added(definition);
    }

    /// A client's statement has gone, and gives up its hold on the definition.
    pub(crate) fn statement_removed(&mut self, definition: DefinitionHold) {
        self.statement_count -= 1;
        self.definitions.client_statement_removed(definition.id());
        self.release_definition(definition);
    }

    /// Returns the number of prepared statements of all clients of this worker.
    pub(crate) fn statement_count(&self) -> u32 {
        self.statement_count
    }
}

/// The state of a connection's session, as far as it can be moved. Equal states are stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionState {
    /// The default schema; `None` where there is none.
    pub(crate) schema: Option<Box<[u8]>>,
    /// The character sets of the connection.
    pub(crate) charset: Charset,
    /// System variables that differ from what a new connection has, sorted by name.
    pub(crate) variables: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

/// The four settings that `SET NAMES` and the login's collation touch. The server's trackers report the first three;
/// the collation of `SET NAMES x COLLATE y` comes from the lexer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Charset {
    pub(crate) client: Box<[u8]>,
    /// Empty stands for NULL (no conversion), as the trackers report it.
    pub(crate) results: Box<[u8]>,
    pub(crate) connection: Box<[u8]>,
    /// Empty stands for the default collation of `connection`.
    pub(crate) collation: Box<[u8]>,
}

plain!(struct SessionState { schema, charset, variables });
plain!(struct Charset { client, results, connection, collation });

impl Charset {
    /// Returns the state behind a login with this collation.
    pub(crate) fn of_login(charset: &[u8], collation: &[u8]) -> Self {
        Self {
            client: charset.into(),
            results: charset.into(),
            connection: charset.into(),
            collation: collation.into(),
        }
    }
}

impl Charset {
    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        [&self.client, &self.results, &self.connection, &self.collation].iter().map(|name| name.len()).sum()
    }

    /// Appends the assignments of a `SET` that began at `start`. All names here come from the server and are ASCII.
    fn put(&self, out: &mut Vec<u8>, start: usize) {
        if self.client == self.results && self.client == self.connection {
            // As the clients say it: it also gives the results' columns the collation.
            out.extend_from_slice(if out.len() == start { b"SET NAMES " } else { b",NAMES " });
            put_value(out, &self.client);
            if !self.collation.is_empty() {
                out.extend_from_slice(b" COLLATE ");
                put_value(out, &self.collation);
            }
            return;
        }
        for (name, value) in [
            (&b"character_set_client"[..], &self.client),
            (b"character_set_results", &self.results),
            (b"character_set_connection", &self.connection),
            (b"collation_connection", &self.collation),
        ] {
            if !value.is_empty() {
                put_name(out, start, name);
                put_value(out, value);
            } else if name == b"character_set_results" {
                put_name(out, start, name);
                out.extend_from_slice(b"NULL");
            }
        }
    }
}

/// String variables for which the empty string is a value. For others the trackers write NULL that way, and NULL is what
/// they have by default (innodb_tmpdir, enforce_storage_engine). `default_master_connection` is empty by default, and cannot be
/// set to that in EMPTY_STRING_IS_NULL.
const MAY_BE_EMPTY: [&[u8]; 7] = [
    b"log_disabled_statements",
    b"log_slow_disabled_statements",
    b"log_slow_filter",
    b"note_verbosity",
    b"old_mode",
    b"optimizer_adjust_secondary_key_costs",
    b"sql_mode",
];

/// String variables with values that may look like numbers: names.
const NAMED: [&[u8]; 2] = [b"default_master_connection", b"external_table_secondary_storage_engine"];

/// System variables that are never carried: the next statement consumes them, or they belong to the connection to the server and
/// not to the client, or the tracker reports them although nobody can set them. A statement that sets one of them pins (the
/// lexer's rule), so nothing is lost. Exceptions are `wait_timeout`, see [`crate::client::session::wait_timeout`], and the replica's
/// variables, of which all clients share one value.
const NOT_CARRIED: [&[u8]; 16] = [
    b"error_count",
    b"identity",
    b"insert_id",
    b"last_gtid",
    b"last_insert_id",
    b"max_relay_log_size",
    b"pseudo_thread_id",
    b"rand_seed1",
    b"rand_seed2",
    b"session_track_schema",
    b"session_track_state_change",
    b"session_track_system_variables",
    b"sql_slave_skip_counter",
    b"statement_id",
    b"timestamp",
    WAIT_TIMEOUT,
];

/// A variable that a client sets of its own, and that is kept apart from the rest.
pub(crate) const WAIT_TIMEOUT: &[u8] = b"wait_timeout";

/// Two names of one variable, or of two of which each sets the other: the one that was set last counts.
const TWO_NAMES: [(&[u8], &[u8]); 11] = [
    (b"alter_algorithm", b"old_alter_table"),
    (b"character_set_database", b"collation_database"),
    (b"character_set_server", b"collation_server"),
    (b"default_storage_engine", b"storage_engine"),
    (b"log_slow_min_examined_row_limit", b"min_examined_row_limit"),
    (b"log_slow_query", b"slow_query_log"),
    (b"log_slow_query_time", b"long_query_time"),
    (b"max_delayed_threads", b"max_insert_delayed_threads"),
    (b"tmp_memory_table_size", b"tmp_table_size"),
    (b"transaction_isolation", b"tx_isolation"),
    (b"transaction_read_only", b"tx_read_only"),
];

pub(crate) fn other_name(name: &[u8]) -> Option<&'static [u8]> {
    TWO_NAMES.iter().find_map(|&(one, other)| match name {
        _ if name == one => Some(other),
        _ if name == other => Some(one),
        _ => None,
    })
}

impl SessionState {
    /// Takes in a change that the server's tracker reported. Returns false where the variable is not carried.
    pub(crate) fn set_variable(&mut self, name: &[u8], value: &[u8]) -> bool {
        let name = name.to_ascii_lowercase();
        match name.as_slice() {
            b"character_set_client" => self.charset.client = value.into(),
            b"character_set_results" => self.charset.results = value.into(),
            b"character_set_connection" => {
                // SET NAMES reports no collation: it is the default one again (session_tracker.cc marks three variables).
                self.charset.connection = value.into();
                self.charset.collation = Box::default();
            }
            b"collation_connection" => {
                // Reported alone, without character_set_connection, which is the collation's own charset.
                self.charset.collation = value.into();
                let charset = value.split(|&b| b == b'_').next().unwrap_or_default();
                self.charset.connection = charset.into();
            }
            _ if NOT_CARRIED.contains(&name.as_slice()) => return false,
            _ => {
                if let Some(other) = other_name(&name) {
                    self.variables.remove(other);
                }
                self.variables.insert(name.into(), value.into());
            }
        }
        true
    }

    /// Gives it the values of those of these variables that it does not have.
    pub(crate) fn keep_values(&mut self, values: &[(Vec<u8>, Vec<u8>)]) {
        for (name, value) in values {
            let has = |name: &[u8]| self.variables.contains_key(name);
            if !has(name) && !other_name(name).is_some_and(has) {
                self.set_variable(name, value);
            }
        }
    }

    /// Says whether two states are the same but for their schemas.
    pub(crate) fn is_but_for_schema(&self, other: &Self) -> bool {
        self.charset == other.charset && self.variables == other.variables
    }

    /// Says whether a text in this state's own character set can name its schema, see [`Self::put_set`]. True without one.
    pub(crate) fn can_say_schema(&self) -> bool {
        self.schema.as_ref().is_none_or(|schema| schema.is_ascii() || is_utf8(&self.charset.client))
    }

    /// Says whether a transaction only reads by default (`SET SESSION TRANSACTION READ ONLY`).
    pub(crate) fn begins_read_only(&self) -> bool {
        let names = [&b"tx_read_only"[..], b"transaction_read_only"];
        names
            .iter()
            .filter_map(|name| self.variables.get(*name))
            .any(|value| matches!(&**value, b"ON" | b"1"))
    }

    /// Says whether COMMIT and ROLLBACK do no more than that (completion_type).
    pub(crate) fn has_plain_transactions(&self) -> bool {
        !self.variables.contains_key(&b"completion_type"[..])
    }

    /// Says whether a plain COMMIT or ROLLBACK ends the connection (completion_type).
    pub(crate) fn ends_with_transactions(&self) -> bool {
        self.variables.get(&b"completion_type"[..]).is_some_and(|value| matches!(&**value, b"RELEASE" | b"2"))
    }

    /// Says whether the client hears of its transactions; `None` where it does as for a new connection.
    pub(crate) fn tracks_transactions(&self) -> Option<bool> {
        let value = self.variables.get(&b"session_track_transaction_info"[..])?;
        Some(!value.eq_ignore_ascii_case(b"OFF"))
    }

    /// Says whether the client has a tracker on, of those that its backend has too.
    pub(crate) fn has_own_trackers(&self) -> bool {
        let names = [&b"session_track_gtids"[..], b"session_track_transaction_info"];
        let mut values = names.iter().filter_map(|name| self.variables.get(*name));
        values.any(|value| !value.eq_ignore_ascii_case(b"OFF"))
    }

    /// Says whether a `SET` that turns a backend in state `from` into this one takes effect on MySQL only behind the text in
    /// which it stands: up to there MySQL goes on telling of GTIDs. Tried on 8.0.31 and 9.7.
    pub(crate) fn changes_behind_text(&self, from: &Self) -> bool {
        let gtids = &b"session_track_gtids"[..];
        self.variables.get(gtids) != from.variables.get(gtids)
    }

    /// Says whether MariaDB reads texts as Oracle does.
    pub(crate) fn is_oracle_mode(&self) -> bool {
        let modes = self.variables.get(&b"sql_mode"[..]);
        modes.is_some_and(|modes| modes.split(|&byte| byte == b',').any(|mode| mode == b"ORACLE"))
    }

    /// Bytes of this state, its place in the two tables included. The nodes of a B-tree are at least half full.
    fn bytes(&self) -> usize {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2 * size_of::<(Box<[u8]>, Box<[u8]>)>());
        size_of::<Self>()
            + 2 * size_of::<(Rc<Self>, SessionId)>()
            + self.schema.as_ref().map_or(0, |schema| schema.len())
            + self.charset.bytes()
            + variables.sum::<usize>()
    }

    /// The names of variables that have other values in another state.
    pub(crate) fn changed_variables<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a [u8]> {
        let gone = self.variables.keys().filter(|name| !other.variables.contains_key(*name));
        let changed = other.variables.iter().filter(|(name, value)| self.variables.get(*name) != Some(value));
        gone.chain(changed.map(|(name, _)| name)).map(|name| &**name)
    }

    /// Forgets the variable that an error message of the server names in quotes. Returns false where the message names none of ours.
    pub(crate) fn forget_named(&mut self, message: &[u8]) -> bool {
        let before = self.variables.len();
        self.variables
            .retain(|name, _| !message.split(|&b| b == b'\'').any(|word| word.eq_ignore_ascii_case(name)));
        self.variables.len() < before
    }

    /// Appends the `SET` that turns a backend into this state that is in any of these, or between two of them; nothing where at most the schemas
    /// differ.
    pub(crate) fn put_set(&self, from: &[&Self], out: &mut Vec<u8>) {
        let start = out.len();
        for (place, state) in from.iter().enumerate() {
            let is_new = |name: &[u8]| !from[..place].iter().any(|other| other.variables.contains_key(name));
            for name in state.variables.keys().filter(|name| !self.variables.contains_key(*name)) {
                if is_new(name) {
                    put_name(out, start, name);
                    put_default(out, name);
                }
            }
        }
        if from.iter().any(|from| self.charset != from.charset) {
            self.charset.put(out, start);
        }
        let differs =
            |name: &[u8]| from.iter().any(|from| from.variables.get(name) != self.variables.get(name));
        // The one sets the other (sys_vars.cc: fix_max_join_size), and stands before it in the order of names.
        let sets_big_selects = differs(b"max_join_size");
        for (name, value) in &self.variables {
            if differs(name) || (sets_big_selects && **name == *b"sql_big_selects") {
                put_name(out, start, name);
                let null = value.is_empty() && !MAY_BE_EMPTY.contains(&&**name);
                if null || **value == *b"DEFAULT" {
                    put_default(out, name);
                } else if NAMED.contains(&&**name) {
                    put_string(out, value);
                } else {
                    put_value(out, value);
                }
            }
        }
    }
}

/// The next assignment of a `SET` that began at `start`.
fn put_name(out: &mut Vec<u8>, start: usize, name: &[u8]) {
    out.extend_from_slice(if out.len() == start { b"SET @@session." } else { b",@@session." });
    out.extend_from_slice(name);
    out.push(b'=');
}

/// Writes the value that a new connection has. For [`INVERTED`] variables it is written in full: MySQL takes their DEFAULT for
/// the opposite (seen with 9.7.4: `SET foreign_key_checks = DEFAULT` sets 0 where the global value is 1; `Sys_var_bit` in
/// sys_vars.h stores the bit reversed).
fn put_default(out: &mut Vec<u8>, name: &[u8]) {
    if INVERTED.contains(&name) {
        out.extend_from_slice(b"@@global.");
        out.extend_from_slice(name);
    } else {
        out.extend_from_slice(b"DEFAULT");
    }
}

/// Variables that are kept as a bit that says the opposite.
const INVERTED: [&[u8]; 2] = [b"foreign_key_checks", b"unique_checks"];

/// A tracked value as SQL. An empty one stands for NULL where the empty string is no value; what means the default is
/// said as such. Numbers are sent bare, since numeric variables refuse strings (ER_WRONG_TYPE_FOR_VAR); no other
/// string variable than [`NAMED`] that can be set in a session has a value that looks like a number. Strings go as hexadecimal
/// literals where a quote or backslash would make them depend on sql_mode.
fn put_value(out: &mut Vec<u8>, value: &[u8]) {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let number = digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        && digits.iter().filter(|b| **b == b'.').count() <= 1;
    if number {
        out.extend_from_slice(value);
    } else {
        put_string(out, value);
    }
}

fn put_string(out: &mut Vec<u8>, value: &[u8]) {
    if value.iter().all(|b| b.is_ascii() && !matches!(b, b'\'' | b'\\' | 0)) {
        out.push(b'\'');
        out.extend_from_slice(value);
        out.push(b'\'');
    } else {
        out.extend_from_slice(b"0x");
        for byte in value {
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Says whether a character set is the one in which the servers write names.
pub(crate) fn is_utf8(charset: &[u8]) -> bool {
    matches!(charset, b"utf8" | b"utf8mb3" | b"utf8mb4")
}

/// Returns the part of a `sql_mode` that matters to the lexer. A combination such as ANSI also lists the modes that it stands
/// for.
pub(crate) fn lex_mode(sql_mode: &[u8]) -> sql::LexMode {
    let has = |name: &[u8]| sql_mode.split(|&b| b == b',').any(|mode| mode == name);
    sql::LexMode {
        ansi_quotes: has(b"ANSI_QUOTES"),
        no_backslash_escapes: has(b"NO_BACKSLASH_ESCAPES"),
        ..sql::LexMode::default()
    }
}

/// The non-breaking blank of a `character_set_client`, where the servers take it for a blank between words (the tables `ctype_...` of
/// their strings/ctype-extra.c and ctype-latin1.c; tried with each of their character sets on MariaDB 10.11 and MySQL 9.7).
fn high_blank(charset: &[u8]) -> Option<u8> {
    match charset {
        b"armscii8" | b"cp1250" | b"dec8" | b"geostd8" | b"greek" | b"hebrew" | b"latin1" | b"latin2"
        | b"latin5" | b"latin7" => Some(0xa0),
        b"cp852" | b"cp866" | b"keybcs2" => Some(0xff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(from: &SessionState, to: &SessionState) -> String {
        let mut out = Vec::new();
        to.put_set(&[from], &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_difference_holds_what_changed_and_what_must_go_back() {
        let mut from = SessionState::default();
        from.set_variable(b"sql_mode", b"ANSI");
        from.set_variable(b"time_zone", b"+02:00");
        let mut to = SessionState::default();
        to.set_variable(b"time_zone", b"+02:00");
        to.set_variable(b"Lock_Wait_Timeout", b"100");
        assert!(!to.set_variable(b"Wait_Timeout", b"100"));
        assert_eq!(set(&from, &to), "SET @@session.sql_mode=DEFAULT,@@session.lock_wait_timeout=100");
        assert_eq!(set(&to, &to), "");
    }

    #[test]
    fn reversed_bits_go_back_to_the_global_value() {
        let mut from = SessionState::default();
        from.set_variable(b"foreign_key_checks", b"OFF");
        assert_eq!(
            set(&from, &SessionState::default()),
            "SET @@session.foreign_key_checks=@@global.foreign_key_checks"
        );
    }

    #[test]
    fn names_of_what_differs_are_told() {
        let (mut one, mut other) = (SessionState::default(), SessionState::default());
        one.set_variable(b"sql_mode", b"ANSI");
        for state in [&mut one, &mut other] {
            state.set_variable(b"lock_wait_timeout", b"5");
        }
        other.set_variable(b"time_zone", b"+02:00");
        let names = |from: &SessionState, to: &SessionState| -> Vec<Vec<u8>> {
            from.changed_variables(to).map(<[u8]>::to_vec).collect()
        };
        assert_eq!(names(&one, &other), [&b"sql_mode"[..], b"time_zone"]);
        assert_eq!(names(&one, &one.clone()), [b""; 0]);
    }

    #[test]
    fn of_two_names_the_one_that_was_set_last_counts() {
        let mut state = SessionState::default();
        state.set_variable(b"tx_isolation", b"SERIALIZABLE");
        state.set_variable(b"transaction_isolation", b"READ-COMMITTED");
        assert_eq!(
            set(&SessionState::default(), &state),
            "SET @@session.transaction_isolation='READ-COMMITTED'"
        );
        state.set_variable(b"tx_isolation", b"SERIALIZABLE");
        assert_eq!(set(&SessionState::default(), &state), "SET @@session.tx_isolation='SERIALIZABLE'");
    }

    #[test]
    fn what_another_variable_sets_is_set_behind_it() {
        let mut from = SessionState::default();
        from.set_variable(b"sql_big_selects", b"ON");
        let mut to = from.clone();
        to.set_variable(b"max_join_size", b"5");
        to.set_variable(b"default_master_connection", b"1");
        assert_eq!(
            set(&from, &to),
            "SET @@session.default_master_connection='1',@@session.max_join_size=5,@@session.sql_big_selects='ON'"
        );
        assert_eq!(
            set(&to, &from),
            "SET @@session.default_master_connection=DEFAULT,@@session.max_join_size=DEFAULT,\
             @@session.sql_big_selects='ON'"
        );
    }

    #[test]
    fn null_results_and_collations_come_back() {
        let from = SessionState {
            charset: Charset::of_login(b"utf8mb4", b"utf8mb4_general_ci"),
            ..Default::default()
        };
        let mut to = from.clone();
        to.set_variable(b"character_set_results", b"");
        assert_eq!(
            set(&from, &to),
            "SET @@session.character_set_client='utf8mb4',@@session.character_set_results=NULL,\
             @@session.character_set_connection='utf8mb4',@@session.collation_connection='utf8mb4_general_ci'"
        );
        to.set_variable(b"character_set_connection", b"latin1");
        assert!(to.charset.collation.is_empty(), "SET NAMES brings the default collation back");
    }

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        let mut to = SessionState::default();
        to.set_variable(b"lc_time_names", b"a';DROP TABLE t;'\\");
        assert_eq!(
            set(&SessionState::default(), &to),
            "SET @@session.lc_time_names=0x61273b44524f50205441424c4520743b275c"
        );
    }

    #[test]
    fn one_shot_variables_are_not_carried() {
        let mut state = SessionState::default();
        assert!(!state.set_variable(b"timestamp", b"12345"));
        assert_eq!(state, SessionState::default());
    }
}
