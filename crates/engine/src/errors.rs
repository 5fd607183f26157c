//! The MySQL errors that Onramp gives of its own, with the codes and SQLSTATEs that clients know.

use std::time::Duration;

use crate::frozen::plain::Plain;
use crate::outside::named::Limit;

/// An error packet's content, before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MySqlError {
    pub(crate) code: u16,
    pub(crate) sql_state: &'static [u8; 5],
    pub(crate) message: String,
}

impl Plain for MySqlError {
    fn put(&self, out: &mut Vec<u8>) {
        (self.code, *self.sql_state).put(out);
        self.message.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (code, sql_state) = <(u16, [u8; 5])>::take(bytes)?;
        let sql_state = SQL_STATES.into_iter().find(|known| **known == sql_state)?;
        Some(Self { code, sql_state, message: Plain::take(bytes)? })
    }
}

/// So much of a variable's name, and of a value, stands in a message: as the servers cut them there (ER_WRONG_VALUE_FOR_VAR); characters.
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 200;

/// All that errors of our own have.
const SQL_STATES: [&[u8; 5]; 7] = [b"08004", b"08S01", b"28000", b"40001", b"42000", b"70100", b"HY000"];

impl MySqlError {
    fn new(code: u16, sql_state: &'static [u8; 5], message: impl Into<String>) -> Self {
        Self { code, sql_state, message: message.into() }
    }

    /// The payload of its packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let (code, sql_state, message) = (self.code, *self.sql_state, self.message.as_bytes());
        wire::ErrPacket { code, sql_state, message }.put(&mut payload);
        payload
    }

    /// ER_CON_COUNT_ERROR.
    pub(crate) fn too_many_connections() -> Self {
        Self::new(1040, b"08004", "Too many connections")
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn statement_memory(limit: usize) -> Self {
        Self::new(
            1041,
            b"HY000",
            format!("Out of memory: waiting statements exceed statement_memory = {limit} bytes"),
        )
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn login_memory(limit: usize) -> Self {
        Self::new(
            1041,
            b"HY000",
            format!("Out of memory: unfinished logins exceed login_memory = {limit} bytes"),
        )
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn session_memory(limit: usize) -> Self {
        Self::new(
            1041,
            b"HY000",
            format!("Out of memory: what sessions have set exceeds session_memory = {limit} bytes"),
        )
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn held_answer_memory(limit: usize) -> Self {
        Self::new(
            1041,
            b"HY000",
            format!(
                "Out of memory: what the server says of a statement that is prepared has no room in held_answer_memory = {limit} bytes"
            ),
        )
    }

    /// ER_HANDSHAKE_ERROR.
    pub(crate) fn handshake() -> Self {
        Self::new(1043, b"08S01", "Bad handshake")
    }

    /// ER_ACCESS_DENIED_ERROR, with the server's own text.
    pub(crate) fn access_denied(user: &[u8], host: &str, with_password: bool) -> Self {
        // The servers cut names to what a name may be long (USERNAME_CHAR_LENGTH).
        let user: String = String::from_utf8_lossy(user).chars().take(128).collect();
        let using = if with_password { "YES" } else { "NO" };
        Self::new(
            1045,
            b"28000",
            format!("Access denied for user '{user}'@'{host}' (using password: {using})"),
        )
    }

    /// ER_ACCESS_DENIED_NO_PASSWORD_ERROR: for methods that know no passwords.
    pub(crate) fn access_denied_by_name(user: &[u8], host: &str) -> Self {
        let user = String::from_utf8_lossy(user);
        Self::new(1698, b"28000", format!("Access denied for user '{user}'@'{host}'"))
    }

    /// ER_UNKNOWN_COM_ERROR.
    pub(crate) fn unknown_command() -> Self {
        Self::new(1047, b"08S01", "Unknown command")
    }

    /// ER_SERVER_SHUTDOWN.
    pub(crate) fn shutdown() -> Self {
        Self::new(1053, b"08S01", "Server shutdown in progress")
    }

    /// ER_NO_SUCH_THREAD.
    pub(crate) fn no_such_client(id: u64) -> Self {
        Self::new(1094, b"HY000", format!("Unknown thread id: {id}"))
    }

    /// ER_UNKNOWN_ERROR: a KILL of a client of another Onramp in front of the server, with that slot.
    pub(crate) fn kill_undelivered(id: u64, slot: u64, why: Undelivered) -> Self {
        let what = match why {
            Undelivered::NoSlot => {
                "this Onramp has no slot, so that the others do not know it: connect to that one for a KILL"
            }
            Undelivered::PeerGone => {
                "the connection to the server of one of the two Onramps has ended: say KILL again, if the client is still there"
            }
            Undelivered::NoPassword => {
                "it cannot be told without a password of the service account (backend), by which Onramps know each other's letters: connect to that one for a KILL"
            }
            Undelivered::NoLocks => {
                "the server has not given the named locks onramp.letter.*, without which it cannot be told: connect to that one for a KILL"
            }
            Undelivered::TooMany => "too many KILLs wait for that one: say KILL again",
            Undelivered::NoAnswer => {
                "that one has not answered within 5 seconds, and may or may not have done it"
            }
        };
        Self::new(
            1105,
            b"HY000",
            format!("{id} is the id of a client of the Onramp with slot {slot}; {what}"),
        )
    }

    /// ER_KILL_DENIED_ERROR.
    pub(crate) fn kill_denied(id: u64) -> Self {
        Self::new(1095, b"HY000", format!("You are not owner of thread {id}"))
    }

    /// ER_SECURE_TRANSPORT_REQUIRED.
    pub(crate) fn tls_required() -> Self {
        Self::new(3159, b"HY000", "Connections using insecure transport are prohibited while tls = required")
    }

    /// Likewise: the account's password comes as it is.
    pub(crate) fn clear_password_in_the_open() -> Self {
        Self::new(
            3159,
            b"HY000",
            "The password of this account is sent as it is: connect with TLS or over Onramp's Unix socket",
        )
    }

    /// ER_NET_PACKET_TOO_LARGE.
    pub(crate) fn packet_too_large() -> Self {
        Self::new(1153, b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
    }

    /// Likewise, of a text that is only too long with literals in it.
    pub(crate) fn literals_too_long(limit: usize) -> Self {
        let message = format!(
            "Got a packet bigger than 'max_allowed_packet' bytes: more than {limit} with the values of the session's variables \
             and functions in the place of their names"
        );
        Self { message, ..Self::packet_too_large() }
    }

    /// ER_UNKNOWN_STMT_HANDLER.
    pub(crate) fn unknown_prepared_statement(id: u32, function: &str) -> Self {
        Self::new(1243, b"HY000", format!("Unknown prepared statement handler ({id}) given to {function}"))
    }

    /// ER_STMT_HAS_NO_OPEN_CURSOR; MySQL ends it with a full stop.
    pub(crate) fn no_open_cursor(id: u32, is_mariadb: bool) -> Self {
        let end = if is_mariadb { "" } else { "." };
        Self::new(1421, b"HY000", format!("The statement ({id}) has no open cursor{end}"))
    }

    /// ER_WRONG_ARGUMENTS.
    pub(crate) fn wrong_arguments(function: &str) -> Self {
        Self::new(1210, b"HY000", format!("Incorrect arguments to {function}"))
    }

    /// ER_MAX_PREPARED_STMT_COUNT_REACHED, with the servers' words.
    pub(crate) fn too_many_prepared_statements(limit: u32) -> Self {
        let message =
            format!("Can't create more than max_prepared_stmt_count statements (current value: {limit})");
        Self::new(1461, b"42000", message)
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn prepared_statement_memory(limit: usize) -> Self {
        let message =
            format!("Out of memory: prepared statements exceed prepared_statement_memory = {limit} bytes");
        Self::new(1041, b"HY000", message)
    }

    /// ER_NOT_SUPPORTED_AUTH_MODE: the account's plugin is one that cannot be served.
    pub(crate) fn unsupported_plugin(user: &[u8], plugin: &[u8]) -> Self {
        let (user, plugin) = (String::from_utf8_lossy(user), String::from_utf8_lossy(plugin));
        Self::new(
            1251,
            b"08004",
            format!(
                "Account '{user}' uses the authentication plugin '{plugin}', which Onramp does not serve yet"
            ),
        )
    }

    /// ER_NOT_SUPPORTED_AUTH_MODE: the account's method is one that the client does not know of.
    pub(crate) fn client_too_old() -> Self {
        Self::new(
            1251,
            b"08004",
            "Client does not support authentication protocol requested by server; consider upgrading MySQL client",
        )
    }

    /// ER_NOT_SUPPORTED_YET: a part of the diagnostics that is no longer on any backend.
    pub(crate) fn diagnostics_moved() -> Self {
        Self::new(
            1235,
            b"42000",
            "Onramp kept the answer to SHOW WARNINGS only: what that does not tell of GET DIAGNOSTICS, and other selections from \
             the warnings, need an open transaction or the same multi-statement",
        )
    }

    /// ER_WRONG_VALUE_FOR_VAR.
    pub(crate) fn wrong_value(variable: &str, value: &str) -> Self {
        let value: String = value.chars().take(LONGEST_VALUE).collect();
        Self::new(1231, b"42000", format!("Variable '{variable}' can't be set to the value of '{value}'"))
    }

    /// ER_SPECIFIC_ACCESS_DENIED_ERROR: the pool's own settings are not for its clients.
    pub(crate) fn pool_variable_global(variable: &str) -> Self {
        let what_to_do = match variable.starts_with("thread_pool_") {
            true => "belongs to Onramp's thread pool; SET GLOBAL it on the admin port",
            // The option has another name than the sessions' variable.
            false => {
                "would be Onramp's; a session sets onramp_reads for itself, and SET GLOBAL read_consistency on the admin \
                 port is for all"
            }
        };
        let variable: String = variable.chars().take(LONGEST_NAME).collect();
        Self::new(1227, b"42000", format!("Access denied: '{variable}' {what_to_do}"))
    }

    /// ER_NOT_SUPPORTED_YET: no server computes the value of a variable that is Onramp's.
    pub(crate) fn pool_variable_literal(variable: &str) -> Self {
        let message = format!("Onramp takes only a literal or DEFAULT as the value of '{variable}'");
        Self::new(1235, b"42000", message)
    }

    /// ER_NOT_SUPPORTED_YET: the pool's variables cannot be told from the rest of the text with certainty.
    pub(crate) fn pool_variable_mixed() -> Self {
        let message = "Onramp takes SET of its own variables (thread_pool_..., onramp_reads) as a statement of its own, without GLOBAL \
                       assignments or comments beside them";
        Self::new(1235, b"42000", message)
    }

    /// ER_NOT_SUPPORTED_YET: too many calls whose answer the client carries with it.
    pub(crate) fn too_many_calls(limit: usize) -> Self {
        let message = format!(
            "Onramp takes statements with up to {limit} calls of CONNECTION_ID(), ROW_COUNT() and their like only"
        );
        Self::new(1235, b"42000", message)
    }

    /// ER_NOT_SUPPORTED_YET: with the one in its place the others would have to be looked for again.
    pub(crate) fn large_and_mixed() -> Self {
        let message = "Onramp prepares no statement above large_statement_size that asks for CONNECTION_ID() and for \
                       ROW_COUNT(), FOUND_ROWS() or their like";
        Self::new(1235, b"42000", message)
    }

    /// ER_NOT_SUPPORTED_YET: a SET of the pool's variables is read on the spot.
    pub(crate) fn pool_variable_too_long(limit: usize) -> Self {
        let message = format!(
            "Onramp takes SET of its own variables (thread_pool_..., onramp_reads) up to large_statement_size ({limit} bytes) only"
        );
        Self::new(1235, b"42000", message)
    }

    /// ER_UNSUPPORTED_PS: libraries send such a statement as a text then.
    pub(crate) fn not_to_be_prepared() -> Self {
        Self::new(1295, b"HY000", "This command is not supported in the prepared statement protocol yet")
    }

    /// ER_MALFORMED_PACKET.
    pub(crate) fn malformed_packet() -> Self {
        Self::new(1835, b"HY000", "Malformed communication packet.")
    }

    /// ER_LOCK_WAIT_TIMEOUT, for a statement that was refused before it ran: the one error that tells clients that their
    /// statement took no effect, that the same may work in a moment, and that the connection is as good as before.
    /// MySqlConnector (`MySqlException.IsTransient`), Doctrine (`RetryableException`), Spring (`CannotAcquireLockException`,
    /// a transient one) and Rails (`LockWaitTimeout`) know it as such. The others that come to mind are worse: 1040 has
    /// SQLSTATE 08004, for which pools such as HikariCP throw the connection away and log in again, in the middle of an
    /// overload; 1203 and 1226 have 42000, a mistake of the program's; 1317 and 3024 say that it ran, and was stopped.
    pub(crate) fn refused(bound: &Bound) -> Self {
        let message =
            format!("The server is busy and the statement was not run ({bound}); try restarting transaction");
        Self::new(1205, b"HY000", message)
    }

    /// Likewise, because its user uses as many backends as it may.
    pub(crate) fn user_backends(user: &str, backends: u32, percent: u32) -> Self {
        let message = format!(
            "The statement was not run: '{user}' uses {backends} backends, for its transactions, locks and statements, and the \
             others are for other users (user_backends_share = {percent}); try restarting transaction"
        );
        Self::new(1205, b"HY000", message)
    }

    /// ER_CON_COUNT_ERROR, for a login whose schema could not be looked at in time.
    pub(crate) fn login_refused(bound: &Bound) -> Self {
        Self::new(1040, b"08004", format!("Too many connections: the server is busy ({bound})"))
    }

    /// ER_QUERY_INTERRUPTED.
    pub(crate) fn interrupted() -> Self {
        Self::new(1317, b"70100", "Query execution was interrupted")
    }

    /// A replica has refused a read, of which nothing has run there.
    pub(crate) fn replica_refuses(error: &ServerError) -> Self {
        Self::new(error.code, b"HY000", String::from_utf8_lossy(&error.message))
    }

    /// ER_NET_READ_INTERRUPTED.
    pub(crate) fn read_timeout() -> Self {
        Self::new(1159, b"08S01", "Got timeout reading communication packets")
    }

    /// ER_WRONG_VALUE_FOR_VAR, of the character set that a login names.
    pub(crate) fn charset_of_client(name: &str) -> Self {
        let message = format!("Variable 'character_set_client' can't be set to the value of '{name}'");
        Self::new(1231, b"42000", message)
    }

    /// ER_CLIENT_INTERACTION_TIMEOUT, MySQL's.
    pub(crate) fn idle_too_long() -> Self {
        Self::new(
            4031,
            b"HY000",
            "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout \
             for configuring this behavior.",
        )
    }

    /// ER_CONNECTION_KILLED, MariaDB's.
    pub(crate) fn killed() -> Self {
        Self::new(1927, b"70100", "Connection was killed")
    }

    /// ER_MUST_CHANGE_PASSWORD_LOGIN.
    pub(crate) fn password_expired() -> Self {
        Self::new(
            1862,
            b"HY000",
            "Your password has expired. To log in you must change it using a client that supports expired passwords.",
        )
    }

    /// ER_ACCOUNT_HAS_BEEN_LOCKED, MySQL's.
    pub(crate) fn account_locked(user: &[u8], host: &str) -> Self {
        let user = String::from_utf8_lossy(user);
        Self::new(3118, b"HY000", format!("Access denied for user '{user}'@'{host}'. Account is locked."))
    }

    /// ER_ACCOUNT_HAS_BEEN_LOCKED, MariaDB's.
    pub(crate) fn account_locked_mariadb() -> Self {
        Self::new(4151, b"HY000", "Access denied, this account is locked")
    }

    /// ER_NET_PACKETS_OUT_OF_ORDER.
    pub(crate) fn out_of_order() -> Self {
        Self::new(1156, b"08S01", "Got packets out of order")
    }

    /// The server could not be reached in time: the text of CR_CONN_HOST_ERROR with the code of ER_NET_READ_ERROR, since
    /// client libraries take a client's code (2000 and above) from a server for a malformed packet.
    pub(crate) fn server_unreachable(server: &str, reason: &str) -> Self {
        Self::new(1158, b"08S01", format!("Can't connect to MySQL server on '{server}' ({reason})"))
    }

    /// ER_TOO_MANY_USER_CONNECTIONS, for a wait that ended with all backends held that the server takes of the account.
    pub(crate) fn account_is_full(account: &str) -> Self {
        let message = format!(
            "No backend became free within backend_connect_timeout: the server takes no more connections of {account} (MAX_USER_CONNECTIONS), and \
             those that there are are in use, by long statements, open transactions, pinned clients, or others than this Onramp"
        );
        Self::new(1203, b"42000", message)
    }

    /// ER_CON_COUNT_ERROR, for a wait that ended with the server up but every backend held.
    pub(crate) fn no_backend(limit: u32, of_server: bool) -> Self {
        let all = if of_server {
            format!("all {limit} that the server takes now (its max_connections)")
        } else {
            format!("all max_backends = {limit}")
        };
        let message = format!(
            "No backend became free within backend_connect_timeout: {all} are held by open transactions or pinned clients"
        );
        Self::new(1040, b"08004", message)
    }

    /// Says whether its code is one of those that client libraries give themselves (`errmsg.h`: CR_MIN_ERROR and above).
    pub(crate) fn is_clients(&self) -> bool {
        (2000..3000).contains(&self.code)
    }

    /// ER_NET_READ_ERROR, as where the server cannot be reached: with several servers, none of which is the primary.
    /// `within` names the option that bounded the wait.
    pub(crate) fn no_primary(within: &str, why: &str) -> Self {
        Self::new(1158, b"08S01", format!("No server takes writes within {within}: {why}"))
    }

    /// ER_LOCK_DEADLOCK, after which applications run their transaction again.
    pub(crate) fn rolled_back() -> Self {
        let message = "The server of the open transaction is not the primary any more, and has rolled it back; \
                       try restarting transaction";
        Self::new(1213, b"40001", message)
    }

    /// CR_SERVER_LOST.
    pub(crate) fn server_lost(transaction: bool) -> Self {
        let what = if transaction { "; the open transaction is lost" } else { "" };
        Self::new(2013, b"HY000", format!("Lost connection to server during query{what}"))
    }

    /// The state that pinned a client to its backend is gone with the backend.
    pub(crate) fn pinned_state_lost() -> Self {
        Self::new(2013, b"HY000", "Lost connection to server; the session state was lost with it")
    }

    /// Nothing of what a client knows of the server need be true any more.
    pub(crate) fn server_replaced() -> Self {
        Self::new(2013, b"HY000", "Lost connection to server; another kind of server has taken its place")
    }
}

/// An error of the server, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) sql_state: [u8; 5],
    pub(crate) message: Vec<u8>,
}

plain!(struct ServerError { code, sql_state, message });

impl From<&MySqlError> for ServerError {
    fn from(error: &MySqlError) -> Self {
        Self { code: error.code, sql_state: *error.sql_state, message: error.message.clone().into_bytes() }
    }
}

/// A bound that has been crossed: the option's name, its value for the log, and in words.
pub(crate) struct Bound {
    option: Limit,
    value: u64,
    unit: &'static str,
}

impl Bound {
    pub(crate) fn time(option: Limit, time: Duration) -> Self {
        Self { option, value: u64::try_from(time.as_millis()).unwrap_or(u64::MAX), unit: " ms" }
    }

    /// The option and its value, for the log.
    pub(crate) fn reached(&self) -> (Limit, u64) {
        (self.option, self.value)
    }

    pub(crate) fn count(option: Limit, count: u32) -> Self {
        Self { option, value: u64::from(count), unit: "" }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}{}", self.option, self.value, self.unit)
    }
}

/// Why a KILL has not come to the Onramp that has the client, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// This one has no slot, and the others do not know it.
    NoSlot,
    /// The service account has no password, by which letters are known from those of others.
    NoPassword,
    /// That one is not there any more, or one of both has lost its connection to the server.
    PeerGone,
    /// The server has not given the named locks that letters are made of.
    NoLocks,
    /// Too many wait for that one.
    TooMany,
    /// It has not answered in time.
    NoAnswer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_client_has_written_a_message_has_as_much_as_the_servers() {
        let letters = "\u{e4}".repeat(1_000);
        let of_value = MySqlError::wrong_value("onramp_reads", &letters);
        let of_name = MySqlError::pool_variable_global(&format!("thread_pool_{letters}"));
        assert_eq!(of_value.message.matches('\u{e4}').count(), LONGEST_VALUE);
        assert_eq!(of_name.message.matches('\u{e4}').count(), LONGEST_NAME - "thread_pool_".len());
    }
}
