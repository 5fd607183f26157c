//! Why what was given for an option is no value of it.

use std::fmt;

use engine::{NoNamedNumber, NoZone};
use proxy_protocol::NoNetwork;

use crate::admin_peers::NoAdminPeers;
use crate::backend_url::NoBackend;
use crate::listen_address::NoListener;
use crate::server_values::NoServerValues;

/// Why what was given for an option cannot be its value. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The file has something of another type.
    OtherType {
        /// What it has.
        found: &'static str,
        /// What would be right.
        wanted: &'static str,
    },
    /// The file has a number in quotes.
    NumberInQuotes(String),
    /// There is nothing, or more than one thing.
    NotOne,
    /// The list has nothing in it.
    EmptyList,
    /// The name has nothing in it.
    NoName,
    /// This is not a whole number.
    NoNumber(String),
    /// This is not a number of milliseconds.
    NoMilliseconds(String),
    /// This is not a time.
    NoTime(String),
    /// This is a number where a time is wanted.
    NoUnit(String),
    /// This is not a size.
    NoSize(String),
    /// This is not a size, though near to one.
    OtherUnit {
        /// What was given.
        text: String,
        /// What may be meant.
        meant: String,
    },
    /// Less than none.
    Negative(i64),
    /// It is not in the range of the option. All three are written as values are.
    OutOfRange {
        /// What was given.
        value: String,
        /// The least.
        from: String,
        /// The most.
        to: String,
    },
    /// It is none of the words.
    OtherWord {
        /// What was given.
        word: String,
        /// The word that may be meant.
        nearest: Option<&'static str>,
        /// All of them.
        words: Vec<&'static str>,
    },
    /// It is no server's address.
    Backend(NoBackend),
    /// It is no address to listen on.
    Listener(NoListener),
    /// It is no TCP address.
    NoTcpListener(String),
    /// It is an address with TLS, where none is spoken.
    TlsUnspoken(String),
    /// It is no list of numbers by name.
    Numbers(NoNamedNumber),
    /// It is no list of networks.
    Networks(NoNetwork),
    /// It is no list of admin ports.
    AdminPeers(NoAdminPeers),
    /// It is no list of values by server.
    Servers(NoServerValues),
    /// It is no name of a zone.
    Zone(NoZone),
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherType { found, wanted } => write!(f, "found {found} where {wanted} is wanted"),
            Self::NumberInQuotes(text) => write!(
                f,
                "found text where a whole number is wanted; did you mean {text} without the quotes?"
            ),
            Self::NotOne => f.write_str("one value is wanted here"),
            Self::EmptyList => f.write_str("the list is empty"),
            Self::NoName => f.write_str("a name is wanted here"),
            Self::NoNumber(text) => write!(f, "{text:?} is not a whole number"),
            Self::NoMilliseconds(text) => write!(f, "{text:?} is not a number of milliseconds"),
            Self::NoTime(text) => write!(
                f,
                "{text:?} is no time: write a whole number and a unit, such as 500ms, 10s, 5m, 8h or 1d"
            ),
            Self::NoUnit(number) => write!(f, "{number:?} has no unit; did you mean {number}s?"),
            Self::NoSize(text) => write!(
                f,
                "{text:?} is no size: write bytes, or a whole number and a unit, such as 64KiB, 64MiB or 1GiB"
            ),
            Self::OtherUnit { text, meant } => write!(f, "{text:?} is no size; did you mean {meant}?"),
            Self::Negative(number) => write!(f, "{number} is negative"),
            Self::OutOfRange { value, from, to } => write!(f, "{value} is out of range: from {from} to {to}"),
            Self::OtherWord { word, nearest: Some(name), .. } => {
                write!(f, "{word:?} is unknown; did you mean {name}?")
            }
            Self::OtherWord { word, nearest: None, words } => {
                write!(f, "{word:?} is unknown: one of {}", words.join(", "))
            }
            Self::Backend(wrong) => wrong.fmt(f),
            Self::Listener(wrong) => wrong.fmt(f),
            Self::NoTcpListener(text) => write!(f, "{text:?}: host:port, [IPv6]:port or off is wanted here"),
            Self::TlsUnspoken(text) => {
                write!(f, "{text:?}: TLS is not spoken there; write host:port alone")
            }
            Self::Numbers(wrong) => wrong.fmt(f),
            Self::Networks(wrong) => wrong.fmt(f),
            Self::AdminPeers(wrong) => wrong.fmt(f),
            Self::Servers(wrong) => wrong.fmt(f),
            Self::Zone(wrong) => wrong.fmt(f),
        }
    }
}

impl std::error::Error for NoValue {}

impl From<NoBackend> for NoValue {
    fn from(wrong: NoBackend) -> Self {
        Self::Backend(wrong)
    }
}

impl From<NoListener> for NoValue {
    fn from(wrong: NoListener) -> Self {
        Self::Listener(wrong)
    }
}

impl From<NoNamedNumber> for NoValue {
    fn from(wrong: NoNamedNumber) -> Self {
        Self::Numbers(wrong)
    }
}

impl From<NoNetwork> for NoValue {
    fn from(wrong: NoNetwork) -> Self {
        Self::Networks(wrong)
    }
}

impl From<NoServerValues> for NoValue {
    fn from(wrong: NoServerValues) -> Self {
        Self::Servers(wrong)
    }
}

impl From<NoZone> for NoValue {
    fn from(wrong: NoZone) -> Self {
        Self::Zone(wrong)
    }
}

impl From<NoAdminPeers> for NoValue {
    fn from(wrong: NoAdminPeers) -> Self {
        Self::AdminPeers(wrong)
    }
}
