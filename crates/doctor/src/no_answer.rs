//! Why a server has not been asked for its limits.

use std::fmt;

use wire::WireError;

/// Why there is no answer of a server. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It cannot be reached.
    Unreachable {
        /// The socket, the host or the address that was tried last.
        place: String,
        /// In the system's words.
        reason: String,
    },
    /// This host has no address.
    NoAddress(String),
    /// The connection broke, in the system's words.
    Broken(String),
    /// It closed the connection.
    Closed,
    /// It answered with an error.
    Refused {
        /// Its number.
        code: u16,
        /// Its text.
        message: String,
    },
    /// It wants a password in the clear where others may listen.
    WantsPassword,
    /// The account's method is this one, which is not spoken here.
    OtherMethod(String),
    /// It does not speak the protocol.
    Protocol(WireError),
    /// What it says is no answer to what was asked.
    OtherAnswer,
    /// It does not say how many connections it allows.
    NoLimit,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { place, reason } => write!(f, "{place}: {reason}"),
            Self::NoAddress(host) => write!(f, "{host} has no address"),
            Self::Broken(reason) => f.write_str(reason),
            Self::Closed => f.write_str("it closed the connection"),
            Self::Refused { code, message } => write!(f, "error {code}: {message}"),
            Self::WantsPassword => f.write_str(
                "caching_sha2_password wants the password itself, which is not sent in the clear over TCP; \
                 log in once with another client, or give the socket",
            ),
            Self::OtherMethod(method) => {
                write!(f, "the account uses {method}, which is not spoken here")
            }
            Self::Protocol(error) => error.fmt(f),
            Self::OtherAnswer => f.write_str("its answer is not a list of the variables that were asked for"),
            Self::NoLimit => f.write_str("its answer holds no number as max_connections"),
        }
    }
}

impl std::error::Error for NoAnswer {}

impl From<WireError> for NoAnswer {
    fn from(error: WireError) -> Self {
        Self::Protocol(error)
    }
}
