//! The pool's variables as clients set them for themselves: by Percona's, MariaDB's and MySQL's names, and Onramp's own.

use sql::{PoolValue, PoolVariable, READ_HINTS, ReadHint};

use crate::errors::MySqlError;
use crate::readers::settings::ReadSettings;
use crate::scheduling::scheduler::lane::Lane;
use crate::settings::{HighPrioMode, PoolPriority, Settings};

/// The pool's variables that a client has set for itself. The pool's settings hold for the rest. Twelve bytes, since
/// each of 100,000 idle clients has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority {
    /// Set only where `has_tickets`.
    tickets: u32,
    has_tickets: bool,
    mode: Option<HighPrioMode>,
    preference: Option<PoolPriority>,
    high_connection: Option<bool>,
    /// The client's word on where its reads go, and what they have to see.
    reads: Option<ReadHint>,
}

plain!(struct Priority { tickets, has_tickets, mode, preference, high_connection, reads });

const _: () = assert!(size_of::<Priority>() == 12, "the bound of what it may cost each client");

/// MariaDB's names, by the numbers that stand for them (`sys_vars.cc`: `threadpool_priority_names`).
const PREFERENCES: [(&str, PoolPriority); 3] =
    [("high", PoolPriority::High), ("low", PoolPriority::Low), ("auto", PoolPriority::Auto)];

/// Percona Server's names, by the numbers that stand for them (`sys_vars.cc`: `threadpool_high_prio_mode_names`).
const MODES: [(&str, HighPrioMode); 3] = [
    ("transactions", HighPrioMode::Transactions),
    ("statements", HighPrioMode::Statements),
    ("none", HighPrioMode::None),
];

impl Priority {
    /// Returns the lane of all of the client's statements, whatever they are. `pool` and `pool_high` are what holds for
    /// clients in general. MySQL's variable goes before MariaDB's.
    pub(crate) fn lane(self, pool: PoolPriority, pool_high: bool) -> Option<Lane> {
        match self.preference.unwrap_or(pool) {
            _ if self.high_connection.unwrap_or(pool_high) => Some(Lane::High),
            PoolPriority::High => Some(Lane::High),
            PoolPriority::Low => Some(Lane::Low),
            PoolPriority::Auto => None,
        }
    }

    /// Returns the client's word on its reads, or else that of `settings`.
    pub(crate) fn reads(self, settings: &ReadSettings) -> ReadHint {
        self.reads.unwrap_or_else(|| settings.hint())
    }

    /// Returns the client's mode, or else `pool`, which is that of the pool.
    pub(crate) fn mode(self, pool: HighPrioMode) -> HighPrioMode {
        self.mode.unwrap_or(pool)
    }

    /// Returns how many tickets the client gets back. `pool` is how many clients get in general.
    pub(crate) fn tickets(self, pool: u32) -> u32 {
        if self.has_tickets { self.tickets } else { pool }
    }

    /// Takes in an assignment. An error leaves all as it was.
    pub(in crate::client) fn set(
        &mut self,
        variable: PoolVariable,
        value: &PoolValue,
    ) -> Result<(), MySqlError> {
        let wrong = || MySqlError::wrong_value(variable.name(), &shown(value));
        let is_default = *value == PoolValue::Default;
        match variable {
            PoolVariable::HighPrioMode if is_default => self.mode = None,
            PoolVariable::HighPrioMode => self.mode = Some(member(&MODES, value).ok_or_else(wrong)?),
            PoolVariable::Priority if is_default => self.preference = None,
            PoolVariable::Priority => self.preference = Some(member(&PREFERENCES, value).ok_or_else(wrong)?),
            PoolVariable::HighPrioTickets => {
                self.tickets = match value {
                    PoolValue::Default => 0,
                    PoolValue::Number(number) => u32::try_from(*number).map_err(|_| wrong())?,
                    PoolValue::Text(_) => return Err(wrong()),
                };
                self.has_tickets = !is_default;
            }
            PoolVariable::HighPriorityConnection if is_default => self.high_connection = None,
            PoolVariable::HighPriorityConnection => {
                self.high_connection = Some(truth(value).ok_or_else(wrong)?);
            }
            PoolVariable::Reads if is_default => self.reads = None,
            PoolVariable::Reads => self.reads = Some(member(&READ_HINTS, value).ok_or_else(wrong)?),
        }
        Ok(())
    }

    /// Returns the value of a variable as a literal for a SELECT.
    pub(crate) fn literal(self, variable: PoolVariable, settings: &Settings) -> String {
        let quoted = |name: Option<&str>| format!("'{}'", name.unwrap_or_default());
        match variable {
            PoolVariable::HighPrioMode => quoted(name_of(&MODES, self.mode(settings.high_prio_mode))),
            PoolVariable::HighPrioTickets => self.tickets(settings.high_prio_tickets).to_string(),
            PoolVariable::Priority => {
                quoted(name_of(&PREFERENCES, self.preference.unwrap_or(settings.priority)))
            }
            PoolVariable::HighPriorityConnection => {
                u8::from(self.high_connection.unwrap_or(settings.high_priority_connection)).to_string()
            }
            PoolVariable::Reads => quoted(name_of(&READ_HINTS, self.reads(&settings.reads))),
        }
    }
}

/// Returns the member of an enumeration that a value names, by its word or its number, as the servers take it (`Sys_var_enum`).
fn member<T: Copy>(names: &[(&str, T)], value: &PoolValue) -> Option<T> {
    let found = match value {
        PoolValue::Number(number) => names.get(usize::try_from(*number).ok()?),
        PoolValue::Text(text) => names.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)),
        PoolValue::Default => None,
    };
    found.map(|&(_, member)| member)
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], member: T) -> Option<&'static str> {
    names.iter().find(|(_, known)| *known == member).map(|&(name, _)| name)
}

/// Returns the truth that a value names, as the servers read it (`Sys_var_mybool`).
fn truth(value: &PoolValue) -> Option<bool> {
    let is = |text: &str, known: [&str; 2]| known.iter().any(|known| text.eq_ignore_ascii_case(known));
    match value {
        PoolValue::Number(0) => Some(false),
        PoolValue::Number(1) => Some(true),
        PoolValue::Text(text) if is(text, ["off", "false"]) => Some(false),
        PoolValue::Text(text) if is(text, ["on", "true"]) => Some(true),
        _ => None,
    }
}

fn shown(value: &PoolValue) -> String {
    match value {
        PoolValue::Default => String::from("DEFAULT"),
        PoolValue::Number(number) => number.to_string(),
        // The servers cut it likewise (ER_WRONG_VALUE_FOR_VAR: '%-.200s').
        PoolValue::Text(text) => text.chars().take(200).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> PoolValue {
        PoolValue::Text(value.to_owned())
    }

    #[test]
    fn values_are_what_the_servers_take() {
        let mut priority = Priority::default();
        priority.set(PoolVariable::HighPrioMode, &text("NONE")).unwrap();
        assert_eq!(priority.mode(HighPrioMode::Statements), HighPrioMode::None);
        priority.set(PoolVariable::HighPrioMode, &PoolValue::Number(1)).unwrap();
        assert_eq!(priority.mode(HighPrioMode::None), HighPrioMode::Statements);
        priority.set(PoolVariable::HighPrioMode, &PoolValue::Default).unwrap();
        assert_eq!(priority.mode(HighPrioMode::None), HighPrioMode::None);
        priority.set(PoolVariable::HighPrioTickets, &PoolValue::Number(0)).unwrap();
        assert_eq!(priority.tickets(7), 0);
        priority.set(PoolVariable::HighPrioTickets, &PoolValue::Default).unwrap();
        assert_eq!(priority.tickets(7), 7);
        assert_eq!(priority, Priority::default());
    }

    #[test]
    fn the_lane_of_a_client() {
        let mut priority = Priority::default();
        let lane = |priority: Priority| priority.lane(PoolPriority::Auto, false);
        assert_eq!(lane(priority), None);
        priority.set(PoolVariable::Priority, &text("low")).unwrap();
        assert_eq!(lane(priority), Some(Lane::Low));
        priority.set(PoolVariable::HighPriorityConnection, &text("on")).unwrap();
        assert_eq!(lane(priority), Some(Lane::High));
        priority.set(PoolVariable::HighPriorityConnection, &PoolValue::Number(0)).unwrap();
        priority.set(PoolVariable::Priority, &PoolValue::Number(0)).unwrap();
        assert_eq!(lane(priority), Some(Lane::High));
    }

    #[test]
    fn what_holds_for_all_holds_for_who_has_not_said_anything_else() {
        let mut priority = Priority::default();
        assert_eq!(priority.lane(PoolPriority::Low, false), Some(Lane::Low));
        assert_eq!(priority.lane(PoolPriority::Low, true), Some(Lane::High));
        priority.set(PoolVariable::HighPriorityConnection, &text("off")).unwrap();
        assert_eq!(priority.lane(PoolPriority::Low, true), Some(Lane::Low));
        priority.set(PoolVariable::Priority, &text("auto")).unwrap();
        assert_eq!(priority.lane(PoolPriority::Low, true), None);
        priority.set(PoolVariable::Priority, &PoolValue::Default).unwrap();
        priority.set(PoolVariable::HighPriorityConnection, &PoolValue::Default).unwrap();
        assert_eq!(priority, Priority::default());
        let settings =
            Settings { priority: PoolPriority::High, high_priority_connection: true, ..Settings::default() };
        assert_eq!(priority.literal(PoolVariable::Priority, &settings), "'high'");
        assert_eq!(priority.literal(PoolVariable::HighPriorityConnection, &settings), "1");
    }

    #[test]
    fn a_wrong_value_is_said_and_changes_nothing() {
        let mut priority = Priority::default();
        for (variable, value) in [
            (PoolVariable::HighPrioMode, text("some")),
            (PoolVariable::HighPrioMode, PoolValue::Number(3)),
            (PoolVariable::Priority, text("")),
            (PoolVariable::HighPriorityConnection, PoolValue::Number(2)),
        ] {
            let error = priority.set(variable, &value).unwrap_err();
            assert_eq!((error.code, error.sql_state), (1231, b"42000"), "{variable:?} {value:?}");
            assert!(error.message.contains(variable.name()), "{}", error.message);
        }
        assert_eq!(priority, Priority::default());
        let error = priority.set(PoolVariable::HighPrioTickets, &PoolValue::Number(1 << 32)).unwrap_err();
        assert_eq!(
            error.message,
            "Variable 'thread_pool_high_prio_tickets' can't be set to the value of '4294967296'"
        );
    }

    #[test]
    fn a_select_shows_what_holds() {
        let settings = Settings { high_prio_mode: HighPrioMode::None, ..Settings::default() };
        let priority = Priority::default();
        let shown = |variable| priority.literal(variable, &settings);
        assert_eq!(shown(PoolVariable::HighPrioMode), "'none'");
        assert_eq!(shown(PoolVariable::HighPrioTickets), "4294967295");
        assert_eq!(shown(PoolVariable::Priority), "'auto'");
        assert_eq!(shown(PoolVariable::HighPriorityConnection), "0");
    }
}
