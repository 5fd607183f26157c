//! The variables that client libraries ask a server for: `@@name`, and `SHOW VARIABLES` beside the options.

use std::fmt::Write as _;
use std::sync::OnceLock;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::Pool;
use crate::tables::Variable;

/// The variables that libraries ask for when they connect, and tools before they show anything, with the values that are true
/// here. Where an option has the name too, `@@name` gives this value, since libraries read a number.
pub(crate) const SERVER: [(&str, &str); 34] = [
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_storage_engine", "MEMORY"),
    ("have_ssl", "DISABLED"),
    ("init_connect", ""),
    ("interactive_timeout", "3600"),
    ("license", "Apache-2.0"),
    ("lower_case_table_names", "1"),
    ("max_allowed_packet", "1048576"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "10"),
    ("net_write_timeout", "30"),
    ("performance_schema", "1"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "1"),
    ("sql_mode", ""),
    ("sql_select_limit", "18446744073709551615"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("transaction_isolation", "READ-UNCOMMITTED"),
    ("transaction_read_only", "1"),
    ("tx_isolation", "READ-UNCOMMITTED"),
    ("version_comment", "Onramp's admin port"),
    ("wait_timeout", "3600"),
];

/// The variable by which MySQL's servers tell each other apart.
pub(crate) const IDENTITY: &str = "server_uuid";

/// What tells this process apart from all others, whatever addresses lead to it: a random UUID of version 4 (RFC 9562), another one at
/// each start.
pub(crate) fn identity() -> &'static str {
    static UUID: OnceLock<String> = OnceLock::new();
    UUID.get_or_init(|| {
        let mut bytes = [0_u8; 16];
        // Once the machine has been up for a moment this cannot fail for so few.
        let _ = getrandom(&mut bytes, GetRandomFlags::empty());
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = String::new();
        for (at, byte) in bytes.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            let _ = write!(text, "{dash}{byte:02x}");
        }
        text
    })
}

/// Returns the value that `@@name` stands for.
pub(crate) fn value(name: &str, version: &str, pool: &dyn Pool) -> Option<String> {
    if name.eq_ignore_ascii_case("version") {
        return Some(String::from(version));
    }
    if name.eq_ignore_ascii_case(IDENTITY) {
        return Some(String::from(identity()));
    }
    if let Some((_, value)) = SERVER.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(String::from(*value));
    }
    value_of_option(name, pool)
}

/// What an option is set to, as it is shown.
pub(crate) fn value_of_option(name: &str, pool: &dyn Pool) -> Option<String> {
    let settings = pool.settings();
    let name = own_name(name, pool);
    let setting = settings.into_iter().find(|setting| setting.name.eq_ignore_ascii_case(name))?;
    Some(setting.value.unwrap_or_default())
}

/// The name that an option has in the table of options, for any that it is known by.
pub(crate) fn own_name<'n>(name: &'n str, pool: &dyn Pool) -> &'n str {
    let mut others = pool.other_names().iter();
    others.find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or(name, |(_, own)| own)
}

/// Says whether a name is one of the variables that a client may set for itself, without an effect.
pub(crate) fn is_sessions_own(name: &str) -> bool {
    SERVER.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// The options, under all their names, and of the rest what is not an option.
pub(crate) fn all(version: &str, pool: &dyn Pool) -> Vec<Variable> {
    let settings = pool.settings();
    let is_option = |name: &str| settings.iter().any(|setting| setting.name == name);
    let server = SERVER
        .into_iter()
        .chain([("version", version), (IDENTITY, identity())])
        .filter(|(name, _)| !is_option(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options =
        settings.iter().map(|setting| (setting.name.to_owned(), setting.value.clone().unwrap_or_default()));
    let others = pool.other_names().iter().filter_map(|(other, own)| {
        let setting = settings.iter().find(|setting| setting.name == *own)?;
        Some(((*other).to_owned(), setting.value.clone().unwrap_or_default()))
    });
    let mut all: Vec<_> = server
        .chain(options)
        .chain(others)
        .map(|(variable_name, variable_value)| Variable { variable_name, variable_value })
        .collect();
    all.sort_by(|a, b| a.variable_name.cmp(&b.variable_name));
    all
}
