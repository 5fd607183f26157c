//! What goes wrong, by error number, the way client libraries number it.

use std::collections::BTreeMap;

use login::LoginError;
use wire::ErrPacket;

/// Errors that no server sends; numbers and meaning as in the client library (`include/errmsg.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ClientError {
    /// CR_CONNECTION_ERROR: a Unix socket cannot be connected to.
    SocketConnect = 2002,
    /// CR_CONN_HOST_ERROR: a TCP address cannot be connected to.
    Connect = 2003,
    /// CR_SERVER_HANDSHAKE_ERR: the login does not follow the protocol, or takes too long.
    Handshake = 2012,
    /// CR_SERVER_LOST: the connection ended.
    Lost = 2013,
    /// CR_MALFORMED_PACKET: bytes that are no reply to what was asked.
    Malformed = 2027,
    /// CR_SERVER_LOST with more to say (CR_SERVER_LOST_EXTENDED): nothing came in the time that `--give-up` gives.
    GivenUp = 2055,
    /// CR_AUTH_PLUGIN_ERR: a password method that this program does not speak.
    AuthPlugin = 2061,
}

/// One error: a server's or our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The server's number, or a [`ClientError`].
    pub code: u16,
    /// For people.
    pub text: String,
}

impl Failure {
    /// An error of our own.
    pub fn new(code: ClientError, text: String) -> Self {
        Self { code: code as u16, text }
    }

    /// Whether the connection, and not a statement, has failed.
    pub fn is_of_connection(&self) -> bool {
        // Client libraries number from 2000 to 2999, servers below and above.
        (2000..3000).contains(&self.code)
    }

    /// Whether the server had no room, or no time, for one connection more. Any other refusal of a login is a refusal of
    /// all logins.
    pub fn is_of_capacity(&self) -> bool {
        [
            TOO_MANY_CONNECTIONS,
            OUT_OF_RESOURCES,
            CANNOT_CREATE_THREAD,
            TOO_MANY_USER_CONNECTIONS,
            USER_LIMIT_REACHED,
            TOO_MANY_PREPARED,
            ClientError::Handshake as u16,
        ]
        .contains(&self.code)
    }

    /// What to do about it, where that is known.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self.code {
            NO_SUCH_TABLE => "run `onramp bench prepare` for this workload first",
            UNKNOWN_DATABASE => "run `onramp bench prepare` first, or name another with --db",
            // Onramp has this number for a client that waited for a backend in vain, too, and says itself what to do.
            TOO_MANY_CONNECTIONS if self.text.contains("Too many") => {
                "the server's max_connections is reached: raise it, or use fewer --connections"
            }
            TOO_MANY_USER_CONNECTIONS => "raise the account's MAX_USER_CONNECTIONS, or the server's variable",
            CANNOT_CREATE_THREAD => {
                "the server's machine has a limit on threads: see ulimit -u and pids.max there"
            }
            ACCESS_DENIED => "see --user, and --password or ONRAMP_BENCH_PASSWORD",
            TOO_MANY_PREPARED => "raise the server's max_prepared_stmt_count, or run without --prepared",
            HOST_BLOCKED => "run FLUSH HOSTS on the server (mariadb-admin flush-hosts)",
            _ => return None,
        })
    }
}

impl From<ErrPacket<'_>> for Failure {
    fn from(error: ErrPacket<'_>) -> Self {
        Self { code: error.code, text: String::from_utf8_lossy(error.message).into_owned() }
    }
}

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Refused { code, message } => Self { code, text: message },
            LoginError::Method(text) => Self::new(ClientError::AuthPlugin, text),
            LoginError::Protocol(text) => Self::new(ClientError::Handshake, text),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error {}: {}", self.code, self.text)?;
        match self.advice() {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

// Servers' numbers, from `share/messages_to_clients.txt` (MySQL) and `share/errmsg-utf8.txt` (MariaDB).
/// ER_CON_COUNT_ERROR.
const TOO_MANY_CONNECTIONS: u16 = 1040;
/// ER_OUT_OF_RESOURCES.
const OUT_OF_RESOURCES: u16 = 1041;
/// ER_ACCESS_DENIED_ERROR.
const ACCESS_DENIED: u16 = 1045;
/// ER_BAD_DB_ERROR.
pub const UNKNOWN_DATABASE: u16 = 1049;
/// ER_HOST_IS_BLOCKED.
const HOST_BLOCKED: u16 = 1129;
/// ER_CANT_CREATE_THREAD.
const CANNOT_CREATE_THREAD: u16 = 1135;
/// ER_NO_SUCH_TABLE.
pub const NO_SUCH_TABLE: u16 = 1146;
/// ER_TOO_MANY_USER_CONNECTIONS.
const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
/// ER_USER_LIMIT_REACHED.
const USER_LIMIT_REACHED: u16 = 1226;
/// ER_MAX_PREPARED_STMT_COUNT_REACHED.
const TOO_MANY_PREPARED: u16 = 1461;

/// Which errors a run goes on after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoreErrors {
    /// Not even after a lost connection.
    None,
    /// All of them.
    All,
    /// The errors with these numbers, and after lost connections.
    Codes(Vec<u16>),
}

impl IgnoreErrors {
    /// sysbench's default: deadlock (1213), row has changed (1020), lock wait timeout (1205).
    pub const DEFAULT: &'static str = "1213,1020,1205";

    /// Whether the run goes on.
    pub fn tolerates(&self, failure: &Failure) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Codes(codes) => failure.is_of_connection() || codes.contains(&failure.code),
        }
    }
}

/// What stands among the numbers of errors and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoErrorNumber(String);

impl std::fmt::Display for NoErrorNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is no error number", self.0)
    }
}

impl std::error::Error for NoErrorNumber {}

impl std::str::FromStr for IgnoreErrors {
    type Err = NoErrorNumber;

    fn from_str(text: &str) -> Result<Self, NoErrorNumber> {
        match text {
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            _ => text
                .split(',')
                .map(|code| code.trim().parse().map_err(|_| NoErrorNumber(code.to_owned())))
                .collect::<Result<_, _>>()
                .map(Self::Codes),
        }
    }
}

/// Counts errors by number, with the first text of each as an example.
#[derive(Clone, Debug, Default)]
pub struct ErrorCounts(BTreeMap<u16, (u64, String)>);

impl ErrorCounts {
    /// One more.
    pub fn record(&mut self, failure: &Failure) {
        let entry = self.0.entry(failure.code).or_insert_with(|| (0, failure.text.clone()));
        entry.0 += 1;
    }

    /// Number, count and example, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64, &str)> {
        self.0.iter().map(|(code, (count, example))| (*code, *count, example.as_str()))
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u16) -> Failure {
        Failure { code, text: format!("text of {code}") }
    }

    #[test]
    fn lists_of_codes_are_read() {
        let listed: IgnoreErrors = IgnoreErrors::DEFAULT.parse().unwrap();
        assert_eq!(listed, IgnoreErrors::Codes(vec![1213, 1020, 1205]));
        assert!(listed.tolerates(&failure(1213)) && listed.tolerates(&failure(2013)));
        assert!(!listed.tolerates(&failure(1062)));
        assert!(!"none".parse::<IgnoreErrors>().unwrap().tolerates(&failure(2013)));
        assert!("all".parse::<IgnoreErrors>().unwrap().tolerates(&failure(1062)));
        let wrong = "1213,deadlock".parse::<IgnoreErrors>().unwrap_err();
        assert_eq!(wrong.to_string(), "\"deadlock\" is no error number");
    }

    #[test]
    fn counts_keep_the_first_text() {
        let mut counts = ErrorCounts::default();
        counts.record(&failure(1213));
        counts.record(&Failure { code: 1213, text: "another".to_owned() });
        counts.record(&failure(1040));
        let all: Vec<_> = counts.iter().collect();
        assert_eq!(all, [(1040, 1, "text of 1040"), (1213, 2, "text of 1213")]);
        assert_eq!(counts.total(), 3);
    }

    #[test]
    fn advice_is_part_of_the_line() {
        assert!(failure(NO_SUCH_TABLE).to_string().contains("bench prepare"));
        assert_eq!(failure(1213).to_string(), "error 1213: text of 1213");
    }

    #[test]
    fn only_too_many_connections_are_explained_by_max_connections() {
        let refused = |text: &str| Failure { code: TOO_MANY_CONNECTIONS, text: text.to_owned() };
        for text in ["Too many connections", "3 of 9 could not be made; the first one: Too many connections"]
        {
            assert!(
                refused(text).advice().is_some_and(|advice| advice.contains("max_connections")),
                "{text}"
            );
        }
        let held = "No backend became free within backend_connect_timeout: all max_backends = 4 are held";
        assert_eq!(refused(held).advice(), None);
    }
}
