//! A GTID of MariaDB's.

use std::fmt;

/// A GTID as MariaDB writes it, `domain-server-sequence` (its manual, "Global Transaction ID").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gtid {
    domain: u32,
    server: u32,
    sequence: u64,
}

plain!(struct Gtid { domain, server, sequence });

impl Gtid {
    /// `None` where it is none as MariaDB writes it.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.splitn(3, '-');
        let domain = parts.next()?.parse().ok()?;
        let server = parts.next()?.parse().ok()?;
        Some(Self { domain, server, sequence: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_the_server_writes_it() {
        for text in ["0-1-5", "4294967295-4294967295-18446744073709551615"] {
            assert_eq!(Gtid::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in ["", "0-1", "0-1-'", "0-1-5,1-1-5", "-1-5", "4294967296-1-1", "\u{ff10}-1-5"] {
            assert_eq!(Gtid::parse(text.as_bytes()), None, "{text}");
        }
    }
}
