//! Values for single servers, which options name as `backend` does.

use std::collections::BTreeMap;
use std::fmt;

use engine::{ByServer, NoZone, ServerName, named_parts};

use crate::BackendTarget;

/// The greatest weight: nobody needs to say more exactly how much less a server is to do than another.
pub(crate) const HEAVIEST: u32 = 1000;

/// Of a text that is wrong so many characters are repeated: the longest host has 253.
const LONGEST_SHOWN: usize = 300;

/// Why a text is no list of values by server. Texts are those parts of it that are wrong, or their beginnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoServerValues {
    /// There is no `=` in this part.
    OtherForm(String),
    /// Before the `=` of this part is no address.
    NoAddress(String),
    /// Behind the `=` of this part is no weight.
    NoWeight(String),
    /// Behind the `=` of this part is no name of a zone.
    NoZone(String, NoZone),
    /// This server has two values.
    Twice(String),
}

impl fmt::Display for NoServerValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherForm(part) => {
                write!(f, "{part:?} is no server=value: write a server as backend has it, = and its value")
            }
            Self::NoAddress(part) => write!(
                f,
                "{part:?} begins with no server: write host, host:port, an IPv6 address in brackets, the path of a socket, or * for \
                 all others"
            ),
            Self::NoWeight(part) => write!(f, "{part:?} has no weight from 0 to {HEAVIEST}"),
            Self::NoZone(part, why) => write!(f, "{part:?} has no zone: {why}"),
            Self::Twice(server) => write!(f, "{server} is there twice"),
        }
    }
}

impl std::error::Error for NoServerValues {}

/// Reads `server=value,...`, with `*` for all servers that are not named.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse<T>(
    text: &str,
    value_of: impl Fn(&str, String) -> Result<T, NoServerValues>,
) -> Result<ByServer<T>, NoServerValues> {
    let (mut named, mut others) = (BTreeMap::new(), None);
    for (part, parts) in named_parts(text) {
        let (server, value) = parts.ok_or_else(|| NoServerValues::OtherForm(shown(part)))?;
        let value = value_of(value, shown(part))?;
        let before = match server {
            "*" => others.replace(value),
            _ => named.insert(server_name(server, part)?, value),
        };
        if before.is_some() {
            return Err(NoServerValues::Twice(shown(server)));
        }
    }
    Ok(ByServer::new(named, others))
}

/// As [`parse`] takes it: a weight.
pub(crate) fn weight(text: &str, part: String) -> Result<u32, NoServerValues> {
    let number = text.parse().ok().filter(|number| (0..=HEAVIEST).contains(number));
    number.ok_or(NoServerValues::NoWeight(part))
}

/// Likewise, a zone.
pub(crate) fn zone(text: &str, part: String) -> Result<engine::Zone, NoServerValues> {
    text.parse().map_err(|why| NoServerValues::NoZone(part, why))
}

fn server_name(text: &str, part: &str) -> Result<ServerName, NoServerValues> {
    let target = BackendTarget::parse(text).map_err(|_| NoServerValues::NoAddress(shown(part)))?;
    Ok(target.name())
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_as_backend_has_them() {
        let weights =
            parse(" 10.0.0.2=2, 10.0.0.3:3307 = 0 ,[::1]=3,/run/a%2Cb=4,DB=5,*=7,", weight).unwrap();
        let of = |name| weights.of(&name).copied();
        let named = [
            ServerName::tcp("10.0.0.2", 3306),
            ServerName::tcp("10.0.0.3", 3307),
            ServerName::tcp("::1", 3306),
        ];
        assert_eq!(named.map(of), [Some(2), Some(0), Some(3)]);
        assert_eq!(of(ServerName::Unix("/run/a,b".into())), Some(4));
        assert_eq!((of(ServerName::tcp("db", 3306)), of(ServerName::tcp("db", 1))), (Some(5), Some(7)));
        assert_eq!(parse("", weight), Ok(ByServer::default()));
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, reason) in [
            ("db1", "\"db1\" is no server=value"),
            ("=2", "\"=2\" begins with no server"),
            ("::1=2", "an IPv6 address in brackets"),
            ("db1:0=2", "begins with no server"),
            ("db1=1001", "\"db1=1001\" has no weight from 0 to 1000"),
            ("db1=-1", "has no weight"),
            ("db1=", "has no weight"),
            ("db1=1,DB1:3306=2", "DB1:3306 is there twice"),
            ("[::1]=1,[0::1]=1", "[0::1] is there twice"),
            ("*=1,*=2", "* is there twice"),
        ] {
            let error = parse(text, weight).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(
            parse("db1=a b", zone)
                .unwrap_err()
                .to_string()
                .contains("has no zone: the name of a zone has 1 to 63")
        );
        let long = parse(&"x".repeat(1 << 20), weight).unwrap_err().to_string();
        assert!(long.len() < 500, "{}", long.len());
    }
}
