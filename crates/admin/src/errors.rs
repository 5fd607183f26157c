//! The errors of the admin port, with the servers' codes and SQLSTATEs.

use crate::Refusal;
use crate::tokens::Token;

/// An error packet's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    pub(crate) code: u16,
    pub(crate) sql_state: [u8; 5],
    pub(crate) message: String,
}

impl SqlError {
    fn new(code: u16, sql_state: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, sql_state: *sql_state, message: message.into() }
    }

    /// ER_CON_COUNT_ERROR.
    pub(crate) fn too_many_connections(limit: u32) -> Self {
        Self::new(1040, b"08004", format!("Too many connections: admin_max_connections = {limit}"))
    }

    /// ER_HANDSHAKE_ERROR.
    pub(crate) fn handshake(why: &str) -> Self {
        Self::new(1043, b"08S01", format!("Bad handshake: {why}"))
    }

    /// ER_SECURE_TRANSPORT_REQUIRED.
    pub(crate) fn tls_required() -> Self {
        Self::new(3159, b"HY000", "Connections using insecure transport are prohibited while tls = required")
    }

    /// ER_ACCESS_DENIED_ERROR.
    pub(crate) fn access_denied(user: &str, host: &str, with_password: bool) -> Self {
        // As long as a name may be (USERNAME_CHAR_LENGTH).
        let user: String = user.chars().take(128).collect();
        let using = if with_password { "YES" } else { "NO" };
        Self::new(
            1045,
            b"28000",
            format!("Access denied for user '{user}'@'{host}' (using password: {using})"),
        )
    }

    /// ER_UNKNOWN_COM_ERROR.
    pub(crate) fn unknown_command() -> Self {
        Self::new(1047, b"08S01", "Unknown command: the admin port takes queries, pings and statistics")
    }

    /// ER_BAD_DB_ERROR.
    pub(crate) fn unknown_schema(name: &str) -> Self {
        Self::new(1049, b"42000", format!("Unknown database '{name}'"))
    }

    /// ER_NO_SUCH_TABLE.
    pub(crate) fn unknown_table(name: &str) -> Self {
        Self::new(1146, b"42S02", format!("Table '{name}' doesn't exist; SHOW TABLES lists all"))
    }

    /// ER_PARSE_ERROR, at a token or at the end.
    pub(crate) fn syntax(token: Option<&Token<'_>>) -> Self {
        let near = match token {
            None => String::from("at the end"),
            Some(Token::Word(word) | Token::Symbol(word)) => format!("near '{word}'"),
            Some(Token::Text(text) | Token::Name(text)) => format!("near '{text}'"),
            Some(Token::SystemVariable { name, .. }) => format!("near '@@{name}'"),
            Some(Token::UserVariable) => String::from("near a user variable"),
        };
        Self::new(
            1064,
            b"42000",
            format!("The admin port does not understand this, {near}; SHOW HELP says what it does"),
        )
    }

    /// ER_PARSE_ERROR for a quote or comment without an end.
    pub(crate) fn not_closed() -> Self {
        Self::new(1064, b"42000", "A quote or comment has no end")
    }

    /// ER_EMPTY_QUERY.
    pub(crate) fn empty() -> Self {
        Self::new(1065, b"42000", "Query was empty")
    }

    /// ER_INVALID_CHARACTER_STRING.
    pub(crate) fn not_utf8() -> Self {
        Self::new(1300, b"HY000", "Invalid utf8mb4 character string: the admin port takes UTF-8 alone")
    }

    /// ER_NET_PACKET_TOO_LARGE.
    pub(crate) fn packet_too_large() -> Self {
        Self::new(1153, b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
    }

    /// ER_UNKNOWN_SYSTEM_VARIABLE.
    pub(crate) fn unknown_variable(name: &str) -> Self {
        Self::new(1193, b"HY000", format!("Unknown system variable '{name}'; SHOW VARIABLES lists all"))
    }

    /// ER_GLOBAL_VARIABLE.
    pub(crate) fn only_global(name: &str) -> Self {
        Self::new(
            1229,
            b"HY000",
            format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL"),
        )
    }

    /// ER_UNSUPPORTED_PS.
    pub(crate) fn no_prepared_statements() -> Self {
        Self::new(
            1295,
            b"HY000",
            "The admin port has no prepared statements: let the library put the values into the text",
        )
    }

    /// Makes an error of a [`crate::Pool`]'s refusal, about a client's id or an option's name.
    pub(crate) fn refusal(about: &str, refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NoSuchClient => Self::new(1094, b"HY000", format!("Unknown thread id: {about}")),
            Refusal::UnknownOption => Self::unknown_variable(about),
            // ER_INCORRECT_GLOBAL_LOCAL_VAR
            Refusal::NotLive { advice } => {
                Self::new(1238, b"HY000", format!("Variable '{about}' is a read only variable: {advice}"))
            }
            // ER_WRONG_VALUE_FOR_VAR
            Refusal::WrongValue { reason } => {
                Self::new(1231, b"42000", format!("Variable '{about}' can't be set: {reason}"))
            }
            // ER_UNKNOWN_ERROR
            Refusal::Failed { reason } => Self::new(1105, b"HY000", reason.clone()),
        }
    }

    /// ER_QUERY_TIMEOUT.
    pub(crate) fn took_too_long(limit: std::time::Duration) -> Self {
        let seconds = limit.as_secs();
        Self::new(
            3024,
            b"HY000",
            format!("Query execution was interrupted: statements of the admin port have {seconds} seconds"),
        )
    }

    /// ER_OUT_OF_RESOURCES.
    pub(crate) fn too_much_memory(what: &str, limit: usize) -> Self {
        let kibibytes = limit >> 10;
        Self::new(1041, b"HY000", format!("Out of memory: {what} of the admin port may take {kibibytes} KiB"))
    }

    /// ER_TABLEACCESS_DENIED_ERROR, for what would not give rows.
    pub(crate) fn only_selects() -> Self {
        Self::new(1142, b"42000", "Command denied on the admin port: tables can only be read")
    }

    /// ER_PARSE_ERROR for a place where a value is wanted.
    pub(crate) fn parameters() -> Self {
        Self::new(1064, b"42000", "The admin port takes no parameters ($name, :name, ?): write the values")
    }

    /// Puts SQLite's refusal in MySQL's terms.
    pub(crate) fn sqlite(error: &rusqlite::Error) -> Self {
        let message = match error {
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
            rusqlite::Error::MultipleStatement => {
                return Self::new(1064, b"42000", "The admin port takes one statement at a time");
            }
            other => other.to_string(),
        };
        let after = |start: &str| message.strip_prefix(start).map(String::from);
        if let Some(table) = after("no such table: ") {
            Self::unknown_table(&table)
        } else if let Some(column) = after("no such column: ") {
            Self::new(1054, b"42S22", format!("Unknown column '{column}'"))
        } else if let Some(column) = after("ambiguous column name: ") {
            Self::new(1052, b"23000", format!("Column '{column}' is ambiguous"))
        } else if let Some(function) = after("no such function: ") {
            Self::new(1305, b"42000", format!("FUNCTION {function} does not exist"))
        } else if message.contains("not authorized") || message.contains("prohibited") {
            // ER_TABLEACCESS_DENIED_ERROR
            Self::new(1142, b"42000", format!("Command denied on the admin port: {message}"))
        } else {
            Self::new(1064, b"42000", message)
        }
    }
}
