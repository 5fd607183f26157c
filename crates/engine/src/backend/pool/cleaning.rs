//! How a backend is cleaned behind a client that may have left something on it.

use sql::Effects;

use crate::backend::Afterwards;
use crate::ids::BackendKey;
use crate::server::control::facts::Facts;
use crate::server::stored_code::Hidden;
use crate::servers::Servers;
use crate::session::pins::Pins;
use crate::session::{Charset, SessionState, Sessions};

/// Returns the way to clean a backend behind a client with these pins. COM_RESET_CONNECTION does where it is known to undo what the pins
/// are for (tried for each on MariaDB 10.11 and MySQL 8.0.31). Else the connection is closed.
pub(in crate::backend) fn behind_pins(pins: Pins) -> Afterwards {
    // It does not undo: a role, in both servers (`THD::change_user` and `THD::cleanup_connection` in sql_class.cc do nothing about the
    // security context; that of a routine ends with it in MariaDB, not in MySQL); a prepared branch, which outlives its connection, and which MariaDB leaves
    // to others in good order only where that ends (after the command it is lost for whoever commits it); the texts of statements that
    // MariaDB's `profiling` and MySQL's `optimizer_trace` have kept. What was executed by name or in a routine, not understood, or read
    // in a character set that hides quotes may have been any of these. What it undoes on a server that is neither is not known.
    const UNDONE: Effects = Effects::USER_VARIABLE
        .union(Effects::TEMPORARY_TABLE)
        .union(Effects::LOCK_TABLES)
        .union(Effects::NAMED_LOCK)
        .union(Effects::HANDLER)
        .union(Effects::FOUND_ROWS)
        .union(Effects::NEXT_TRANSACTION)
        .union(Effects::SEQUENCE);
    match pins.effects().without(UNDONE).is_empty() && !pins.hides_statements() && !pins.has_no_trackers() {
        true => Afterwards::Reset,
        false => Afterwards::Close,
    }
}

impl Servers {
    /// Notes that a backend's session is as behind a login, but for the parts that a reset leaves.
    pub(in crate::backend) fn session_was_reset(&mut self, key: BackendKey, sessions: &mut Sessions) {
        // Where there are none, there is nothing to turn on again.
        let has_none = self.of(key).facts.as_ref().is_some_and(|facts| !facts.has_trackers());
        let backend = &mut self[key];
        backend.session.trackers = has_none;
        backend.session.variables = None;
        backend.session.wait_timeout = None;
        backend.session.failed = Hidden::NOTHING;
        let charset = backend.login.charset.clone();
        // MySQL brings back the global character sets instead of the login's: which, nobody says, so all are set again.
        let charset = if self.of(key).facts.as_ref().is_some_and(Facts::is_mariadb) {
            charset
        } else {
            Charset::default()
        };
        // It is in its schema still, but the character set of that has gone (`THD::init` of both servers), until the next USE: an
        // empty name has one go ahead of whoever's statement is next.
        let schema = sessions.state(self[key].session.id()).schema.as_ref().map(|_| Box::default());
        let session = sessions.hold(SessionState { schema, charset, ..SessionState::default() });
        self[key].session.becomes(session, sessions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reset_undoes_is_not_known_of_servers_without_trackers() {
        assert_eq!(behind_pins(Effects::USER_VARIABLE.into()), Afterwards::Reset);
        assert_eq!(
            behind_pins(Pins::from(Effects::USER_VARIABLE).with(Pins::NO_TRACKERS)),
            Afterwards::Close
        );
    }
}
