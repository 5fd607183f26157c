//! The server's address and the service account, as one URL.

use std::fmt;
use std::path::PathBuf;

use engine::ServerName;
use zeroize::Zeroizing;

use crate::listen_address::split_port;

/// The port of MySQL and MariaDB servers, where the URL names none.
const DEFAULT_PORT: u16 = 3306;

/// `mysql://user:password@host:port/` or `mysql://user:password@localhost/?socket=/path`.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendUrl {
    /// The service account's name.
    pub user: String,
    /// Its password; empty for none. Shown by neither `Debug` nor `Display`, and wiped when dropped. The engine's settings take it in this
    /// form.
    pub password: Zeroizing<String>,
    /// Where the server is.
    pub target: BackendTarget,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendTarget {
    /// A host (a name, or an address without brackets) and its port.
    Tcp {
        /// The host.
        host: String,
        /// The port, from 1.
        port: u16,
    },
    /// A Unix socket on this machine.
    Unix(PathBuf),
}

/// Why a text is no server's address. It never holds any of the text: that has a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBackend {
    /// It does not begin with `mysql://`.
    OtherScheme,
    /// There is nobody to log in as.
    NoUser,
    /// There is no host, or one in another form.
    NoHost,
    /// The port is none.
    NoPort,
    /// It names a schema.
    Schema,
    /// Behind the `?` is something else than a socket.
    OtherParameter,
    /// The path of the socket begins nowhere.
    RelativeSocket,
    /// It names another machine and a socket.
    SocketElsewhere,
    /// The percent-encoding of this part is wrong.
    Encoding {
        /// `user`, `password`, `host` or `socket`.
        part: &'static str,
    },
}

impl fmt::Display for NoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherScheme => "a server is given as mysql://user:password@host:port/",
            Self::NoUser => "no user: write mysql://user:password@host:port/",
            Self::NoHost => {
                "no host that can be read: write mysql://user:password@host:port/, an IPv6 address in brackets"
            }
            Self::NoPort => {
                "the port is a number from 1 to 65535 (a password that holds one of :/?#[]@% has to be percent-encoded)"
            }
            Self::Schema => "no schema here: each client brings its own",
            Self::OtherParameter => "the one parameter of the URL is ?socket=/path",
            Self::RelativeSocket => "the socket's path starts with /",
            Self::SocketElsewhere => "a socket is on this machine: the host is localhost or left out",
            Self::Encoding { part } => {
                return write!(
                    f,
                    "the {part} has a % that is not followed by two hexadecimal digits of UTF-8 text"
                );
            }
        })
    }
}

impl std::error::Error for NoBackend {}

impl BackendUrl {
    /// Reads a URL. Each part may be percent-encoded, and has to be where it holds one of `:/?#[]@%`.
    ///
    /// # Errors
    /// What is wrong; it repeats nothing of the text, which holds a password.
    pub(crate) fn parse(text: &str) -> Result<Self, NoBackend> {
        let rest = text.strip_prefix("mysql://").ok_or(NoBackend::OtherScheme)?;
        let (authority, tail) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (account, host) = authority.rsplit_once('@').ok_or(NoBackend::NoUser)?;
        let (user, password) = account.split_once(':').unwrap_or((account, ""));
        let user = String::clone(&*decode(user, "user")?);
        if user.is_empty() {
            return Err(NoBackend::NoUser);
        }
        let target = match socket(tail)? {
            Some(path) if host.is_empty() || host == "localhost" => BackendTarget::Unix(path),
            Some(_) => {
                return Err(NoBackend::SocketElsewhere);
            }
            None => tcp(host)?,
        };
        Ok(Self { user, password: decode(password, "password")?, target })
    }
}

impl BackendTarget {
    /// Reads the address of a server as its URL has it, without all else: a host, with a port or without, or the path of a socket.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, NoBackend> {
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(decode(text, "socket")?.as_str())));
        }
        tcp(text)
    }

    /// As the engine knows the server.
    pub(crate) fn name(&self) -> ServerName {
        match self {
            Self::Tcp { host, port } => ServerName::tcp(host, *port),
            Self::Unix(path) => ServerName::Unix(path.clone()),
        }
    }
}

impl fmt::Debug for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BackendTarget {
    /// The address alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for BackendUrl {
    /// The URL without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            BackendTarget::Tcp { .. } => write!(f, "mysql://{}@{}/", self.user, self.target),
            BackendTarget::Unix(path) => {
                write!(f, "mysql://{}@localhost/?socket={}", self.user, path.display())
            }
        }
    }
}

fn tcp(host: &str) -> Result<BackendTarget, NoBackend> {
    let (host, port) = split_port(host).ok_or(NoBackend::NoHost)?;
    let port = match port {
        None => DEFAULT_PORT,
        Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or(NoBackend::NoPort)?,
    };
    Ok(BackendTarget::Tcp { host: String::clone(&*decode(host, "host")?), port })
}

/// The path after `?socket=`. The only thing that may follow the host.
fn socket(tail: &str) -> Result<Option<PathBuf>, NoBackend> {
    let query = match tail.strip_prefix('/').unwrap_or(tail) {
        "" => return Ok(None),
        other => other.strip_prefix('?').ok_or(NoBackend::Schema)?,
    };
    let path = query.strip_prefix("socket=").ok_or(NoBackend::OtherParameter)?;
    let path = decode(path, "socket")?;
    if !path.starts_with('/') {
        return Err(NoBackend::RelativeSocket);
    }
    Ok(Some(PathBuf::from(path.as_str())))
}

/// Undoes percent-encoding (RFC 3986, section 2.1).
fn decode(text: &str, part: &'static str) -> Result<Zeroizing<String>, NoBackend> {
    let wrong = || NoBackend::Encoding { part };
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let value = digit().zip(digit()).map(|(high, low)| high * 16 + low).ok_or_else(wrong)?;
            bytes.push(u8::try_from(value).map_err(|_| wrong())?);
        } else {
            bytes.push(byte);
        }
    }
    std::str::from_utf8(&bytes).map(|text| Zeroizing::new(String::from(text))).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, BackendTarget) {
        let url = BackendUrl::parse(text).unwrap();
        (url.user, String::clone(&url.password), url.target)
    }

    fn tcp_target(host: &str, port: u16) -> BackendTarget {
        BackendTarget::Tcp { host: String::from(host), port }
    }

    #[test]
    fn all_the_ways_to_write_one() {
        let expected =
            |user: &str, password: &str, target| (String::from(user), String::from(password), target);
        for (text, user, password, target) in [
            ("mysql://root@db", "root", "", tcp_target("db", 3306)),
            ("mysql://root:@db/", "root", "", tcp_target("db", 3306)),
            ("mysql://app:secret@10.0.0.1:3307/", "app", "secret", tcp_target("10.0.0.1", 3307)),
            ("mysql://app:a:b@[::1]:3307", "app", "a:b", tcp_target("::1", 3307)),
            ("mysql://a%40b:p%2Fw%25%C3%A9@[fe80::1]", "a@b", "p/w%é", tcp_target("fe80::1", 3306)),
            ("mysql://app:p@w@db/", "app", "p@w", tcp_target("db", 3306)),
            (
                "mysql://root@localhost/?socket=/run/a.sock",
                "root",
                "",
                BackendTarget::Unix("/run/a.sock".into()),
            ),
            ("mysql://root:x@?socket=%2Frun%2Fa", "root", "x", BackendTarget::Unix("/run/a".into())),
        ] {
            assert_eq!(parts(text), expected(user, password, target), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_repeating_the_password() {
        for (text, message) in [
            ("postgres://u:hush@h/", "a server is given as mysql://user:password@host:port/"),
            ("mysql://h:3306/", "no user: write mysql://user:password@host:port/"),
            ("mysql://:hush@h/", "no user: write mysql://user:password@host:port/"),
            (
                "mysql://u:hush@/",
                "no host that can be read: write mysql://user:password@host:port/, an IPv6 address in brackets",
            ),
            (
                "mysql://u:hush@h:0/",
                "the port is a number from 1 to 65535 (a password that holds one of :/?#[]@% has to be percent-encoded)",
            ),
            ("mysql://u:hush@h/shop", "no schema here: each client brings its own"),
            ("mysql://u:hush@h/?tls=1", "the one parameter of the URL is ?socket=/path"),
            ("mysql://u:hush@localhost/?socket=run", "the socket's path starts with /"),
            (
                "mysql://u:hush@db/?socket=/run/a",
                "a socket is on this machine: the host is localhost or left out",
            ),
            (
                "mysql://u:hush%zz@h/",
                "the password has a % that is not followed by two hexadecimal digits of UTF-8 text",
            ),
            (
                "mysql://u%FF:hush@h/",
                "the user has a % that is not followed by two hexadecimal digits of UTF-8 text",
            ),
        ] {
            assert_eq!(BackendUrl::parse(text).unwrap_err().to_string(), message, "{text}");
            assert!(!message.contains("hush"));
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = BackendUrl::parse("mysql://app:hush@[::1]:3307/").unwrap();
        assert_eq!(format!("{url} {url:?}"), "mysql://app@[::1]:3307/ mysql://app@[::1]:3307/");
    }
}
