//! System variables of the virtual server: names, kinds and the values of a new session, as MariaDB 10.11 has them.

use std::collections::BTreeMap;
use std::rc::Rc;

/// How a variable is shown and set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ON and OFF in trackers, 1 and 0 in SELECT.
    Switch,
    /// Refuses strings (ER_WRONG_TYPE_FOR_VAR).
    Number,
    /// Anything.
    Text,
    /// A character set's name; `character_set_results` may be NULL.
    CharacterSet,
    /// A collation's name.
    Collation,
    /// Cannot be set in a session.
    ReadOnly,
}

/// One system variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The global value, which new sessions start with.
    pub initial: &'static str,
}

const fn variable(name: &'static str, kind: Kind, initial: &'static str) -> Variable {
    Variable { name, kind, initial }
}

/// All variables that the simulated programs and the engine use. The server's own charset differs from what clients
/// log in with, so that a DEFAULT in the wrong place shows.
pub const VARIABLES: [Variable; 43] = [
    variable("autocommit", Kind::Switch, "ON"),
    variable("character_set_client", Kind::CharacterSet, "latin1"),
    variable("character_set_connection", Kind::CharacterSet, "latin1"),
    variable("character_set_database", Kind::CharacterSet, "latin1"),
    variable("character_set_results", Kind::CharacterSet, "latin1"),
    variable("character_set_server", Kind::CharacterSet, "latin1"),
    variable("collation_connection", Kind::Collation, "latin1_swedish_ci"),
    variable("collation_database", Kind::Collation, "latin1_swedish_ci"),
    variable("collation_server", Kind::Collation, "latin1_swedish_ci"),
    variable("foreign_key_checks", Kind::Switch, "ON"),
    variable("group_concat_max_len", Kind::Number, "1048576"),
    variable("hostname", Kind::ReadOnly, "virtual"),
    variable("innodb_lock_wait_timeout", Kind::Number, "50"),
    variable("interactive_timeout", Kind::Number, "28800"),
    variable("last_insert_id", Kind::Number, "0"),
    variable("lc_time_names", Kind::Text, "en_US"),
    variable("license", Kind::ReadOnly, "GPL"),
    variable("lock_wait_timeout", Kind::Number, "86400"),
    variable("lower_case_table_names", Kind::ReadOnly, "0"),
    variable("max_allowed_packet", Kind::ReadOnly, "16777216"),
    variable("init_connect", Kind::ReadOnly, ""),
    variable("max_connections", Kind::ReadOnly, "151"),
    variable("max_prepared_stmt_count", Kind::ReadOnly, "60"),
    variable("max_sort_length", Kind::Number, "1024"),
    variable("net_read_timeout", Kind::Number, "30"),
    variable("net_write_timeout", Kind::Number, "60"),
    variable("session_track_schema", Kind::Switch, "ON"),
    variable("session_track_state_change", Kind::Switch, "OFF"),
    variable(
        "session_track_system_variables",
        Kind::Text,
        "autocommit,character_set_client,character_set_connection,character_set_results,time_zone",
    ),
    variable("session_track_transaction_info", Kind::Text, "OFF"),
    variable("skip_name_resolve", Kind::ReadOnly, "ON"),
    variable("sql_auto_is_null", Kind::Switch, "OFF"),
    variable(
        "sql_mode",
        Kind::Text,
        "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
    ),
    variable("sql_safe_updates", Kind::Switch, "OFF"),
    variable("sql_select_limit", Kind::Number, "18446744073709551615"),
    variable("system_time_zone", Kind::ReadOnly, "UTC"),
    variable("time_zone", Kind::Text, "SYSTEM"),
    variable("tx_isolation", Kind::Text, "REPEATABLE-READ"),
    variable("tx_read_only", Kind::Switch, "OFF"),
    variable("unique_checks", Kind::Switch, "ON"),
    variable("version", Kind::ReadOnly, super::VERSION),
    variable("version_comment", Kind::ReadOnly, "virtual server"),
    variable("wait_timeout", Kind::Number, "28800"),
];

/// The number of the server's own collation.
pub const COLLATION_OF_SERVER: u8 = 8;

/// Collation ids, names and character sets, as `information_schema.collations` has them; the first of a character set
/// is its default.
pub const COLLATIONS: [(u8, &str, &str); 7] = [
    (8, "latin1_swedish_ci", "latin1"),
    (47, "latin1_bin", "latin1"),
    (33, "utf8mb3_general_ci", "utf8mb3"),
    (45, "utf8mb4_general_ci", "utf8mb4"),
    (46, "utf8mb4_bin", "utf8mb4"),
    (224, "utf8mb4_unicode_ci", "utf8mb4"),
    (63, "binary", "binary"),
];

/// The variable of this name.
pub fn find(name: &str) -> Option<&'static Variable> {
    place_of(name).map(|place| &VARIABLES[place])
}

fn place_of(name: &str) -> Option<usize> {
    VARIABLES.iter().position(|variable| variable.name == name)
}

/// The values of a session: those that are others than a new session's, by their places in the table. Copies share them, since each statement of
/// a client keeps what its session was before.
#[derive(Clone, Debug, Default)]
pub struct Values(Rc<BTreeMap<usize, Option<String>>>);

impl Values {
    /// A variable's value; `None` where that is NULL, or there is no such variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        let place = place_of(name)?;
        self.0.get(&place).map_or(Some(VARIABLES[place].initial), Option::as_deref)
    }

    /// Sets one that is in the table.
    pub fn set(&mut self, name: &str, value: Option<String>) {
        let Some(place) = place_of(name) else { return };
        let values = Rc::make_mut(&mut self.0);
        if value.as_deref() == Some(VARIABLES[place].initial) {
            values.remove(&place);
        } else {
            values.insert(place, value);
        }
    }

    /// Those that are others than a new session's, in the order of the table.
    pub fn changed(&self) -> impl Iterator<Item = (&'static str, Option<&str>)> {
        self.0.iter().map(|(&place, value)| (VARIABLES[place].name, value.as_deref()))
    }
}

/// The default collation of a character set; `None` for an unknown one. `utf8` is the old name of `utf8mb3`.
pub fn default_collation(charset: &str) -> Option<(&'static str, &'static str)> {
    let charset = if charset.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { charset };
    COLLATIONS
        .iter()
        .find(|(_, _, found)| found.eq_ignore_ascii_case(charset))
        .map(|&(_, collation, charset)| (charset, collation))
}

/// A collation and its character set by name.
pub fn collation_by_name(name: &str) -> Option<(&'static str, &'static str)> {
    COLLATIONS
        .iter()
        .find(|(_, found, _)| found.eq_ignore_ascii_case(name))
        .map(|&(_, collation, charset)| (charset, collation))
}

/// A collation and its character set by the id in a login request; the server's own for an unknown one.
pub fn collation_by_id(id: u8) -> (&'static str, &'static str) {
    COLLATIONS
        .iter()
        .find(|(found, _, _)| *found == id)
        .map_or(("latin1", "latin1_swedish_ci"), |&(_, collation, charset)| (charset, collation))
}
