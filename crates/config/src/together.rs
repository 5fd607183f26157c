//! Values that are fine by themselves and do not go together.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use engine::ServerName;
use proxy_protocol::Networks;

use crate::configuration::BackendTls;
use crate::options::OPTIONS;
use crate::{BackendUrl, Configuration, Error, Fault, ListenAddress, Place};

/// Two values that are fine by themselves and do not go together; each is named for what would come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// There may be fewer permits than there have to be.
    PermitsCross {
        /// `permits_max`.
        most: u32,
        /// `permits_min`.
        least: u32,
    },
    /// The largest statement would never fit.
    NoRoomForPacket {
        /// `statement_memory`, in bytes.
        memory: usize,
        /// `max_allowed_packet`, in bytes.
        packet: usize,
    },
    /// Some workers would have no backend.
    TooFewBackends {
        /// `workers`.
        workers: u32,
        /// `max_backends`.
        backends: u32,
    },
    /// There is no server, and none is to be started.
    NoBackend,
    /// The admin port would be anybody's.
    OpenAdminPort,
    /// So would be what HTTP tells, at this address.
    OpenHttp(ListenAddress),
    /// The servers would be logged in to as several users, or with several passwords.
    SeveralAccounts,
    /// A socket of this machine would be taken for an address.
    TrustedSocket,
    /// A key that nobody would use.
    KeyInsideTls,
    /// A certificate is to be verified, and there are no authorities.
    NothingToVerifyBy,
    /// There are authorities, and nothing is to be verified.
    NothingToVerify,
    /// An option has a value for a server that is none.
    UnknownServer {
        /// The option.
        option: &'static str,
        /// The server.
        server: ServerName,
        /// The first of those that there are.
        known: Vec<String>,
        /// How many there are beside these.
        more: usize,
    },
    /// A certificate is no use without its key.
    CertificateWithoutKey {
        /// The option of the certificate.
        certificate: &'static str,
        /// That of the key.
        key: &'static str,
    },
    /// Nor is a key without its certificate.
    KeyWithoutCertificate {
        /// The option of the certificate.
        certificate: &'static str,
        /// That of the key.
        key: &'static str,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PermitsCross { most, least } => {
                write!(f, "permits_max ({most}) is below permits_min ({least})")
            }
            Self::NoRoomForPacket { memory, packet } => write!(
                f,
                "statement_memory ({memory} bytes) is below max_allowed_packet ({packet} bytes): the largest statement would never fit"
            ),
            Self::TooFewBackends { workers, backends } => write!(
                f,
                "workers ({workers}) is above max_backends ({backends}): each worker needs a backend of its own"
            ),
            Self::NoBackend => f.write_str(
                "no backend is given, and private_server = off: say where the server is, as \
                 backend = \"mysql://user:password@host:port/\"",
            ),
            Self::OpenAdminPort => f.write_str(
                "admin_listen is given without admin_password: whoever reaches the admin port could do as they like; set \
                 one, best in the file or the environment",
            ),
            Self::OpenHttp(address) => write!(
                f,
                "http_listen ({address}) is given without http_password: whoever reaches it from another machine could look \
                 into Onramp; set one, best in the file or the environment, or listen on 127.0.0.1"
            ),
            Self::SeveralAccounts => f.write_str(
                "backend: all addresses carry the same user and password, those of the one service account",
            ),
            Self::TrustedSocket => f.write_str(
                "backend_trusted_networks: localhost stands for Unix sockets, which need no trust; write 127.0.0.1 for a \
                 port of this machine",
            ),
            Self::KeyInsideTls => f.write_str(
                "backend_public_key is given with backend_tls = required: inside TLS servers take no encrypted password; \
                 set backend_tls = verify-ca or verify-full, or disabled",
            ),
            Self::NothingToVerifyBy => {
                f.write_str("backend_tls: there is nothing to verify a certificate by; give backend_tls_ca")
            }
            Self::NothingToVerify => f.write_str(
                "backend_tls_ca is given, but nothing is verified by it; set backend_tls = verify-full or verify-ca",
            ),
            Self::UnknownServer { option, server, known, .. } if known.is_empty() => {
                write!(f, "{option} names {server}, and there is no backend to be named")
            }
            Self::UnknownServer { option, server, known, more } => {
                let known = known.join(", ");
                write!(f, "{option} names {server}, which is no server of backend; those are {known}")?;
                if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            Self::CertificateWithoutKey { certificate, key } => {
                write!(f, "{certificate} is given without {key}, the file with its private key")
            }
            Self::KeyWithoutCertificate { certificate, key } => {
                write!(f, "{key} is given without {certificate}, the certificate that it belongs to")
            }
        }
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::new(Place::Together, Fault::Conflict(conflict))
    }
}

/// Characters of a password that keep who guesses busy for long, also where all are small letters. At the port of HTTP,
/// which looks at one a second from each of a thousand networks (crates/web), 26^8 take six years. The admin port's delay holds up nobody
/// who hangs up before the answer, but each guess takes a connection, a thread and a handshake there: at ten thousand a second eight
/// months.
const SHORTEST_PASSWORD: usize = 8;

impl Configuration {
    /// What can be served with, and is hardly meant so: a line for each port that other machines reach, as far as its text says, and
    /// whose password is soon guessed.
    pub fn doubts(&self) -> Vec<String> {
        let admin = self
            .admin_listen
            .iter()
            .map(|address| (address, "admin_listen", "admin_password", &self.admin_password));
        let http = self
            .http_listen
            .iter()
            .map(|address| (address, "http_listen", "http_password", &self.http_password));
        let open = admin.chain(http).filter(|(address, .., password)| {
            // None at all is no doubt, but a conflict.
            let length = password.trim().chars().count();
            !address.is_local() && !password.is_empty() && length < SHORTEST_PASSWORD
        });
        open.map(|(address, listen, option, _)| {
            format!(
                "{option} has fewer than {SHORTEST_PASSWORD} characters, blanks around them not counted, and other machines reach \
                 {listen} ({address}): it is soon guessed; give a longer one"
            )
        })
        .collect()
    }
}

/// # Errors
/// The first two that do not go together, by the names of their options.
pub(crate) fn check_together(configuration: &Configuration) -> Result<(), Error> {
    conflicts(configuration).into_iter().next().map_or(Ok(()), |conflict| Err(conflict.into()))
}

/// All that do not go together.
pub(crate) fn conflicts(configuration: &Configuration) -> Vec<Conflict> {
    let Configuration { engine, tls, .. } = configuration;
    let verifies = matches!(tls.backend, BackendTls::VerifyCa | BackendTls::VerifyFull);
    let checks = [
        (engine.permits_max > 0 && engine.permits_max < engine.permits_min)
            .then_some(Conflict::PermitsCross { most: engine.permits_max, least: engine.permits_min }),
        (engine.statement_memory < engine.max_allowed_packet).then_some(Conflict::NoRoomForPacket {
            memory: engine.statement_memory,
            packet: engine.max_allowed_packet,
        }),
        (engine.max_backends > 0 && configuration.workers > engine.max_backends).then_some(
            Conflict::TooFewBackends { workers: configuration.workers, backends: engine.max_backends },
        ),
        accounts(configuration),
        http(configuration),
        certificate_and_key(["tls_certificate", "tls_key"], [&tls.certificate, &tls.key]),
        certificate_and_key(
            ["backend_tls_certificate", "backend_tls_key"],
            [&tls.backend_certificate, &tls.backend_key],
        ),
        (tls.backend == BackendTls::Required && is_given(&tls.backend_public_key))
            .then_some(Conflict::KeyInsideTls),
        (verifies && !is_given(&tls.backend_ca)).then_some(Conflict::NothingToVerifyBy),
        (!verifies && is_given(&tls.backend_ca)).then_some(Conflict::NothingToVerify),
        trusted_networks(&engine.trusted_servers),
    ];
    checks.into_iter().flatten().chain(unknown_servers(configuration)).collect()
}

/// So many of the servers that there are an error names: enough for most clusters, and for one to see how they are written.
const SHOWN: usize = 8;

/// The first server that is none, of each option that names servers.
fn unknown_servers(configuration: &Configuration) -> Vec<Conflict> {
    let known: BTreeSet<_> = configuration.backends.iter().map(|backend| backend.target.name()).collect();
    let mut scratch = configuration.clone();
    let unknown = OPTIONS.iter().filter_map(|option| {
        let server = option.kind.servers(&mut scratch).into_iter().find(|server| !known.contains(server))?;
        let shown = configuration.backends.iter().take(SHOWN).map(|backend| backend.target.to_string());
        let more = configuration.backends.len().saturating_sub(SHOWN);
        Some(Conflict::UnknownServer { option: option.name, server, known: shown.collect(), more })
    });
    unknown.collect()
}

fn is_given(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

fn accounts(configuration: &Configuration) -> Option<Conflict> {
    let private = configuration.backends.is_empty();
    if private && !configuration.private_server {
        return Some(Conflict::NoBackend);
    }
    if !configuration.admin_listen.is_empty() && configuration.admin_password.is_empty() && !private {
        return Some(Conflict::OpenAdminPort);
    }
    let same_account =
        |pair: &[BackendUrl]| pair[0].user == pair[1].user && pair[0].password == pair[1].password;
    (!configuration.backends.windows(2).all(same_account)).then_some(Conflict::SeveralAccounts)
}

fn http(configuration: &Configuration) -> Option<Conflict> {
    let address = configuration.http_listen.as_ref()?;
    (!address.is_local() && configuration.http_password.is_empty())
        .then(|| Conflict::OpenHttp(address.clone()))
}

/// Whoever writes `localhost` means the loopback addresses, which the word does not stand for.
fn trusted_networks(networks: &Networks) -> Option<Conflict> {
    networks.to_string().split(',').any(|word| word == "localhost").then_some(Conflict::TrustedSocket)
}

fn certificate_and_key(names: [&'static str; 2], paths: [&Path; 2]) -> Option<Conflict> {
    let [certificate, key] = names;
    match paths.map(is_given) {
        [true, false] => Some(Conflict::CertificateWithoutKey { certificate, key }),
        [false, true] => Some(Conflict::KeyWithoutCertificate { certificate, key }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::with_flags;

    #[test]
    fn a_password_that_is_soon_guessed_is_doubtful_where_others_reach_the_port() {
        let doubts =
            |flags: &[&str]| with_flags(&[&["--backend", "mysql://u@db/"], flags].concat()).unwrap().doubts();
        for password in [" ", "x", "1234567", "        ", "  1234567  ", "äöüäöüä"] {
            let found = doubts(&["--http-listen", "0.0.0.0:9126", "--http-password", password]);
            assert!(found.len() == 1 && found[0].contains("http_listen (0.0.0.0:9126)"), "{found:?}");
            assert!(
                password.trim().is_empty() || !found[0].contains(password.trim()) || password == "x",
                "{found:?}"
            );
            assert_eq!(
                doubts(&["--admin-listen", "[::]:1", "--admin-password", password]).len(),
                1,
                "{password:?}"
            );
            assert!(doubts(&["--http-listen", "[::1]:9126", "--http-password", password]).is_empty());
        }
        assert!(doubts(&["--http-listen", "0.0.0.0:9126", "--http-password", "12345678"]).is_empty());
        assert!(doubts(&["--admin-listen", "/run/admin.sock", "--admin-password", "x"]).is_empty());
    }
    #[test]
    fn an_option_names_servers_of_backend_alone() {
        let with = |extra: &[&str]| {
            let servers = [
                "--backend",
                "mysql://u@Db1/",
                "--backend",
                "mysql://u@[::1]:3307/",
                "--backend",
                "mysql://u@/?socket=/run/a",
            ];
            with_flags(&[&servers[..], extra].concat())
        };
        for option in ["--read-weights", "--server-zones"] {
            assert!(with(&[option, "db1=1,[0::1]:3307=2,/run/a=3,*=0"]).is_ok());
            let error = with(&[option, "db1:3307=1"]).err().unwrap().to_string();
            let name = option[2..].replace('-', "_");
            assert_eq!(
                error,
                format!(
                    "{name} names db1:3307, which is no server of backend; those are Db1:3306, [::1]:3307, /run/a"
                )
            );
            let error = with_flags(&[option, "db1=1"]).err().unwrap().to_string();
            assert_eq!(error, format!("{name} names db1:3306, and there is no backend to be named"));
        }
        let urls = (0..1_000).map(|number| format!("mysql://u@db{number}/")).collect::<Vec<_>>();
        let flags = urls.iter().flat_map(|url| ["--backend", url]).chain(["--read-weights", "db=0"]);
        let error = with_flags(&flags.collect::<Vec<_>>()).err().unwrap().to_string();
        assert!(error.ends_with(", db7:3306 and 992 more"), "{error}");
        let mut running = with(&["--read-weights", "db1=2"]).unwrap();
        assert!(
            running.set("read_weights", "db2=1").is_err() && running.set("read_weights", "/run/a=0").is_ok()
        );
    }
}
