//! Where clients connect.

use std::fmt;
use std::path::PathBuf;

use engine::ClientTls;

/// An address to listen on, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A host (a name or an address without brackets) and a port; 0 lets the system choose one.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Says whether its clients may or must use TLS, where that is said for it alone.
        tls: Option<ClientTls>,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a text is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoListener {
    /// It is a list.
    Several(String),
    /// Nothing stands behind `unix:`.
    NoPath,
    /// It can be read in no way.
    OtherForm(String),
    /// It is a port.
    NoHost {
        /// The whole of it.
        text: String,
        /// That port.
        port: u16,
    },
    /// It is a host.
    NoPort(String),
    /// It is the word that switches other options off.
    Off,
    /// Its port is none.
    PortOutOfRange(String),
    /// Behind the `?` stands this.
    OtherParameter(String),
}

impl fmt::Display for NoListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Several(text) => {
                write!(f, "{text:?}: one address at a time; give the option once for each")
            }
            Self::NoPath => f.write_str("no path after unix:"),
            Self::OtherForm(text) => {
                write!(f, "{text:?} is no address: write host:port, [IPv6]:port or /path/of/a.socket")
            }
            Self::NoHost { text, port } => write!(f, "{text:?} has no host; did you mean 127.0.0.1:{port}?"),
            Self::NoPort(text) => write!(f, "{text:?} has no port; did you mean {text}:3306?"),
            Self::Off => f.write_str(
                "\"off\" is no address: leave admin_listen out for no admin port; listen has to be one",
            ),
            Self::PortOutOfRange(text) => write!(f, "{text:?}: the port is a number from 0 to 65535"),
            Self::OtherParameter(text) => {
                write!(f, "{text:?}: what may follow an address is ?tls=off, ?tls=allowed or ?tls=required")
            }
        }
    }
}

impl std::error::Error for NoListener {}

impl ListenAddress {
    /// Reads `host:port`, `[IPv6]:port`, either with `?tls=` and what holds there, `/path` or `unix:path`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, NoListener> {
        if text == "off" {
            return Err(NoListener::Off);
        }
        if text.contains(',') {
            return Err(NoListener::Several(String::from(text)));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(NoListener::NoPath)
            } else {
                Ok(Self::Unix(PathBuf::from(path)))
            };
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let (text, tls) = match text.split_once('?') {
            None => (text, None),
            Some((address, parameter)) => (address, Some(tls_of(parameter)?)),
        };
        let (host, port) = split_port(text).ok_or_else(|| NoListener::OtherForm(String::from(text)))?;
        let missing = || match text.parse::<u16>() {
            Ok(port) => NoListener::NoHost { text: String::from(text), port },
            Err(_) => NoListener::NoPort(String::from(text)),
        };
        let port =
            port.ok_or_else(missing)?.parse().map_err(|_| NoListener::PortOutOfRange(String::from(text)))?;
        Ok(Self::Tcp { host: String::from(host), port, tls })
    }
}

/// The rule for the clients of an address, by the words of the option `tls`.
const TLS_WORDS: [(&str, ClientTls); 3] =
    [("off", ClientTls::Off), ("allowed", ClientTls::Allowed), ("required", ClientTls::Required)];

fn tls_of(parameter: &str) -> Result<ClientTls, NoListener> {
    let word = parameter.strip_prefix("tls=");
    let found = TLS_WORDS.iter().find(|(name, _)| Some(*name) == word);
    found.map(|(_, tls)| *tls).ok_or_else(|| NoListener::OtherParameter(String::from(parameter)))
}

impl ListenAddress {
    /// Whether only this machine reaches it, as far as its text says: loopback addresses and `localhost`, Unix sockets.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
                host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }?;
        let word =
            TLS_WORDS.iter().find(|(_, tls)| matches!(self, Self::Tcp { tls: Some(own), .. } if own == tls));
        word.map_or(Ok(()), |(word, _)| write!(f, "?tls={word}"))
    }
}

/// Splits `host`, `host:port`, `[IPv6]` or `[IPv6]:port`; `None` for anything else, a bare IPv6 address included, as
/// its last group could be taken for a port.
pub(crate) fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
        return (!host.is_empty()).then_some((host, port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let plain = !host.is_empty() && !port.is_some_and(|port| port.contains(':'));
    plain.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Result<ListenAddress, NoListener> {
        Ok(ListenAddress::Tcp { host: String::from(host), port, tls: None })
    }

    #[test]
    fn all_the_ways_to_write_one() {
        assert_eq!(ListenAddress::parse("127.0.0.1:3306"), tcp("127.0.0.1", 3306));
        assert_eq!(ListenAddress::parse("localhost:0"), tcp("localhost", 0));
        assert_eq!(ListenAddress::parse("[::1]:3307"), tcp("::1", 3307));
        assert_eq!(ListenAddress::parse("/run/a.sock"), Ok(ListenAddress::Unix("/run/a.sock".into())));
        assert_eq!(ListenAddress::parse("unix:a.sock"), Ok(ListenAddress::Unix("a.sock".into())));
    }

    #[test]
    fn loopback_is_local() {
        for (text, local) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("LocalHost:1", true),
            ("/a", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
            ("localhost.example:1", false),
        ] {
            assert_eq!(ListenAddress::parse(text).unwrap().is_local(), local, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(
            ListenAddress::parse("127.0.0.1").unwrap_err().to_string(),
            "\"127.0.0.1\" has no port; did you mean 127.0.0.1:3306?"
        );
        assert_eq!(
            ListenAddress::parse("::1").unwrap_err().to_string(),
            "\"::1\" is no address: write host:port, [IPv6]:port or /path/of/a.socket"
        );
        assert_eq!(
            ListenAddress::parse("localhost:70000").unwrap_err().to_string(),
            "\"localhost:70000\": the port is a number from 0 to 65535"
        );
        assert_eq!(
            ListenAddress::parse("off").unwrap_err().to_string(),
            "\"off\" is no address: leave admin_listen out for no admin port; listen has to be one"
        );
        assert_eq!(ListenAddress::parse("unix:").unwrap_err().to_string(), "no path after unix:");
        assert_eq!(
            ListenAddress::parse("127.0.0.1:3306?tls=on").unwrap_err().to_string(),
            "\"tls=on\": what may follow an address is ?tls=off, ?tls=allowed or ?tls=required"
        );
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        for text in
            ["127.0.0.1:3306", "[::1]:3307", "/run/a.sock", "127.0.0.1:3306?tls=required", "[::1]:1?tls=off"]
        {
            assert_eq!(ListenAddress::parse(text).unwrap().to_string(), text);
        }
    }
}
