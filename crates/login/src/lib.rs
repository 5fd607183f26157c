//! A client's login on a MySQL server: greeting, login request, a change of method where the server asks for one, OK.
//!
//! A state machine: bytes go in and out, and whoever holds the connection sends them. For the programs here that log in somewhere as
//! a client does.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::fmt;

use wire::sha2_password::{
    self, FAST_AUTHENTICATION, FULL_AUTHENTICATION, MORE_DATA_HEADER, REQUEST_PUBLIC_KEY,
};
use wire::{
    AuthSwitch, Capabilities, EOF_HEADER, ERR_HEADER, ErrPacket, Greeting, LoginRequest, OK_HEADER,
    WireError, native_password,
};
use zeroize::Zeroizing;

/// Why nobody is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The server said no.
    Refused {
        /// Its error number.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The account wants a method that is not spoken here, or may not be used: in words for the user.
    Method(String),
    /// The server does not follow the protocol: in words for the user.
    Protocol(String),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message } => write!(f, "error {code}: {message}"),
            Self::Method(text) | Self::Protocol(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for LoginError {}

/// Whether TLS comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    Off,
    /// Where the server offers it.
    WhereOffered,
    /// Or there is no login.
    Always,
}

/// Who logs in. It has no `Debug`, and what it holds is read by the methods of logins alone, so that it needs no other type around its
/// secrets than `Zeroizing`.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: Zeroizing<String>,
    schema: Option<String>,
    /// SHA1 and SHA256 of the password, computed once for all logins; `None` without a password. They are as good as the password, so that
    /// they are wiped like it.
    digests: Option<(Zeroizing<native_password::Stage1>, Zeroizing<sha2_password::Digest1>)>,
    /// Whether nobody else can read the connection (a Unix socket), so that a method may send the password itself.
    private_channel: bool,
    /// Whether TLS comes first.
    tls: Encryption,
    /// Whether a server that asks for another method than mysql_native_password is refused.
    native_only: bool,
    /// What of [`Capabilities::DEPRECATE_EOF`] and [`Capabilities::MULTI_STATEMENTS`] is asked for, where the server has it.
    class: Capabilities,
}

impl Credentials {
    /// A user with a password (empty for none) who uses a schema.
    pub fn new(user: &str, password: &str, schema: Option<&str>, private_channel: bool) -> Self {
        let digests = (!password.is_empty()).then(|| {
            let password = password.as_bytes();
            (
                Zeroizing::new(native_password::stage1(password)),
                Zeroizing::new(sha2_password::digest1(password)),
            )
        });
        Self {
            user: user.to_owned(),
            password: Zeroizing::new(password.to_owned()),
            schema: schema.map(str::to_owned),
            digests,
            private_channel,
            tls: Encryption::Off,
            native_only: false,
            class: Capabilities::DEPRECATE_EOF,
        }
    }

    /// The same, who answers with mysql_native_password and no other method: so whoever pretends to be the server never gets the
    /// password itself.
    #[must_use]
    pub fn with_native_password_only(self) -> Self {
        Self { native_only: true, ..self }
    }

    /// The same as older drivers log in: result sets end with EOF packets.
    #[must_use]
    pub fn with_eof_packets(mut self) -> Self {
        self.class = self.class.without(Capabilities::DEPRECATE_EOF);
        self
    }

    /// The same, whose texts may have several statements.
    #[must_use]
    pub fn with_multi_statements(mut self) -> Self {
        self.class |= Capabilities::MULTI_STATEMENTS;
        self
    }

    /// The same, inside TLS: nobody else can read it, so that the password itself may be sent.
    #[must_use]
    pub fn with_tls(self) -> Self {
        Self { tls: Encryption::Always, private_channel: true, ..self }
    }

    /// The same, inside TLS where the server offers it. Somebody between both could hide the offer, so that the password itself is not
    /// sent.
    #[must_use]
    pub fn with_tls_where_offered(self) -> Self {
        Self { tls: Encryption::WhereOffered, ..self }
    }

    /// The same password for another user and schema: those whose names have these numbers at their ends.
    #[must_use]
    pub fn numbered(&self, user: Option<u32>, schema: Option<u32>) -> Self {
        let with = |name: &str, number: Option<u32>| match number {
            Some(number) => format!("{name}{number}"),
            None => name.to_owned(),
        };
        Self {
            user: with(&self.user, user),
            schema: self.schema.as_deref().map(|name| with(name, schema)),
            ..self.clone()
        }
    }

    /// Who it is.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The schema that is chosen with the login.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// What of [`Capabilities::DEPRECATE_EOF`] and [`Capabilities::MULTI_STATEMENTS`] is asked for.
    pub fn class(&self) -> Capabilities {
        self.class
    }

    /// Whether TLS is asked for, of a server that greets so.
    fn asks_for_tls(&self, greeting: &[u8]) -> Result<bool, LoginError> {
        Ok(match self.tls {
            Encryption::Off => false,
            Encryption::Always => true,
            Encryption::WhereOffered => {
                Greeting::parse(greeting).map_err(in_login)?.capabilities.contains(Capabilities::SSL)
            }
        })
    }

    fn response(&self, plugin: &[u8], scramble: &[u8; 20]) -> Result<Vec<u8>, LoginError> {
        let Some((stage1, digest1)) = &self.digests else { return Ok(Vec::new()) };
        match plugin {
            NATIVE_PASSWORD => Ok(native_password::token(stage1, scramble).to_vec()),
            other if self.native_only => Err(LoginError::Method(format!(
                "the server asks for {}; only mysql_native_password is answered here, so that the password itself is never sent",
                String::from_utf8_lossy(other)
            ))),
            CACHING_SHA2_PASSWORD => Ok(sha2_password::token(digest1, scramble).to_vec()),
            other => Err(LoginError::Method(format!(
                "the account uses {}, which this program does not speak; give it mysql_native_password or \
                 caching_sha2_password",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// The password and its zero byte.
    fn terminated(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([self.password.as_bytes(), &[0]].concat())
    }
}

/// One login on its way. Lives only as long as it takes.
#[derive(Debug, Default)]
pub struct Login {
    /// Bytes of a message that is not complete yet.
    unread: Vec<u8>,
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Greeting,
    /// TLS has been asked for; the greeting is answered inside of it, with this sequence number.
    StartingTls { greeting: Vec<u8>, sequence: u8 },
    /// The request is sent; what comes has this sequence number.
    Answer { sequence: u8, scramble: [u8; 20], session: Session },
}

/// What a login agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Whether result sets end with an OK packet in place of the EOF packets.
    pub deprecate_eof: bool,
    /// What the server calls itself.
    pub server_version: String,
}

impl Login {
    /// Takes in bytes and appends what has to be sent to `out`. `Some` when the login is done.
    ///
    /// # Errors
    /// What the server said when it refused, or what of its words could not be understood.
    pub fn read(
        &mut self,
        bytes: &[u8],
        credentials: &Credentials,
        out: &mut Vec<u8>,
    ) -> Result<Option<Session>, LoginError> {
        self.unread.extend_from_slice(bytes);
        loop {
            let sequence = match &self.stage {
                Stage::Greeting => 0,
                Stage::StartingTls { .. } => {
                    return Err(in_login(WireError::Malformed { what: "bytes before TLS has begun" }));
                }
                Stage::Answer { sequence, .. } => *sequence,
            };
            let unread = std::mem::take(&mut self.unread);
            let Some(message) = wire::read_message(&unread, sequence, LONGEST_MESSAGE).map_err(in_login)?
            else {
                self.unread = unread;
                return Ok(None);
            };
            if message.payload.first() == Some(&ERR_HEADER) {
                let error = ErrPacket::parse(&message.payload).map_err(in_login)?;
                let message = String::from_utf8_lossy(error.message).into_owned();
                return Err(LoginError::Refused { code: error.code, message });
            }
            let next = message.last_sequence.wrapping_add(1);
            match std::mem::take(&mut self.stage) {
                Stage::Greeting if credentials.asks_for_tls(&message.payload)? => {
                    let sequence = ask_for_tls(&message.payload, next, credentials, out)?;
                    self.stage = Stage::StartingTls { greeting: message.payload.to_vec(), sequence };
                    return Ok(None);
                }
                Stage::Greeting | Stage::StartingTls { .. } => {
                    self.stage = greeted(&message.payload, next, false, credentials, out)?;
                }
                Stage::Answer { session, mut scramble, .. } => {
                    match answered(&message.payload, next, &mut scramble, credentials, out)? {
                        None => return Ok(Some(session)),
                        Some(sequence) => self.stage = Stage::Answer { sequence, scramble, session },
                    }
                }
            }
            self.unread = unread[message.consumed..].to_vec();
        }
    }

    /// The request for TLS is among what is to be sent: then TLS has to begin.
    pub fn starts_tls(&self) -> bool {
        matches!(self.stage, Stage::StartingTls { .. })
    }

    /// The random bytes of the greeting, once that has come: no two greetings have the same.
    pub fn scramble(&self) -> Option<[u8; 20]> {
        match &self.stage {
            Stage::Greeting => None,
            Stage::StartingTls { greeting, .. } => {
                Greeting::parse(greeting).ok().map(|greeting| greeting.scramble)
            }
            Stage::Answer { scramble, .. } => Some(*scramble),
        }
    }

    /// TLS stands: appends what the greeting asked for.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn secured(&mut self, credentials: &Credentials, out: &mut Vec<u8>) -> Result<(), LoginError> {
        if let Stage::StartingTls { greeting, sequence } = &self.stage {
            self.stage = greeted(greeting, *sequence, true, credentials, out)?;
        }
        Ok(())
    }
}

/// Appends the request. Returns the number of what follows.
fn ask_for_tls(
    greeting: &[u8],
    sequence: u8,
    credentials: &Credentials,
    out: &mut Vec<u8>,
) -> Result<u8, LoginError> {
    let greeting = Greeting::parse(greeting).map_err(in_login)?;
    if !greeting.capabilities.contains(Capabilities::SSL) {
        return Err(LoginError::Protocol(String::from("the server does not offer TLS")));
    }
    let request = LoginRequest {
        capabilities: wanted(&greeting, credentials),
        max_packet_size: wire::MAX_PAYLOAD as u32,
        collation: COLLATION,
        user: b"",
        auth_response: b"",
        schema: None,
        auth_plugin: Some(NATIVE_PASSWORD),
        attributes: b"",
    };
    Ok(put_payload(out, sequence, |payload| request.put_ssl_request(payload)))
}

/// What we want and the server has.
fn wanted(greeting: &Greeting<'_>, credentials: &Credentials) -> Capabilities {
    let wanted = Capabilities::LONG_PASSWORD
        | Capabilities::LONG_FLAG
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::MULTI_RESULTS
        | Capabilities::PS_MULTI_RESULTS
        | Capabilities::PLUGIN_AUTH;
    wanted | (greeting.capabilities & credentials.class)
}

const NATIVE_PASSWORD: &[u8] = b"mysql_native_password";
const CACHING_SHA2_PASSWORD: &[u8] = b"caching_sha2_password";

/// Nothing in a login is longer than a few hundred bytes, or an error text.
const LONGEST_MESSAGE: usize = 64 << 10;

/// utf8mb4_general_ci: every server since MySQL 5.5 and MariaDB 5.5 knows it.
const COLLATION: u8 = 45;

fn greeted(
    payload: &[u8],
    sequence: u8,
    inside_tls: bool,
    credentials: &Credentials,
    out: &mut Vec<u8>,
) -> Result<Stage, LoginError> {
    let greeting = Greeting::parse(payload).map_err(in_login)?;
    let secured = if inside_tls { Capabilities::SSL } else { Capabilities::NONE };
    let capabilities = wanted(&greeting, credentials) | secured;
    let deprecate_eof = capabilities.contains(Capabilities::DEPRECATE_EOF);
    // A method that we do not speak is the server's default and need not be the account's: the server asks for the
    // account's own when we answer with another.
    let plugin = match greeting.auth_plugin {
        CACHING_SHA2_PASSWORD if !credentials.native_only => CACHING_SHA2_PASSWORD,
        _ => NATIVE_PASSWORD,
    };
    let response = credentials.response(plugin, &greeting.scramble)?;
    let request = LoginRequest {
        capabilities,
        max_packet_size: wire::MAX_PAYLOAD as u32,
        collation: COLLATION,
        user: credentials.user.as_bytes(),
        auth_response: &response,
        schema: credentials.schema.as_deref().map(str::as_bytes),
        auth_plugin: Some(plugin),
        attributes: b"",
    };
    let sequence = put_payload(out, sequence, |payload| request.put(payload));
    // MariaDB before 11 puts this in front, for the sake of replicas that cannot read a major version of 10.
    let version = greeting.server_version.strip_prefix(b"5.5.5-").unwrap_or(greeting.server_version);
    let server_version = String::from_utf8_lossy(version).into_owned();
    let scramble = greeting.scramble;
    Ok(Stage::Answer { sequence, scramble, session: Session { deprecate_eof, server_version } })
}

/// The server's answer. `None` when we are in, else the sequence number of its next message.
fn answered(
    payload: &[u8],
    sequence: u8,
    scramble: &mut [u8; 20],
    credentials: &Credentials,
    out: &mut Vec<u8>,
) -> Result<Option<u8>, LoginError> {
    let mut put = |bytes: &[u8]| Some(put_payload(out, sequence, |payload| payload.extend_from_slice(bytes)));
    match payload {
        [OK_HEADER, ..] => Ok(None),
        [EOF_HEADER, ..] => {
            let switch = AuthSwitch::parse(payload).map_err(in_login)?;
            *scramble = switch.scramble().unwrap_or_default();
            Ok(put(&credentials.response(switch.plugin, scramble)?))
        }
        // https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html
        [MORE_DATA_HEADER, FAST_AUTHENTICATION] => Ok(Some(sequence)),
        [MORE_DATA_HEADER, ..] if credentials.native_only => {
            Err(in_login(WireError::Malformed { what: "answer to the login request" }))
        }
        [MORE_DATA_HEADER, FULL_AUTHENTICATION] if credentials.private_channel => {
            Ok(put(&credentials.terminated()))
        }
        [MORE_DATA_HEADER, FULL_AUTHENTICATION] => Ok(put(&[REQUEST_PUBLIC_KEY])),
        [MORE_DATA_HEADER, public_key @ ..] => {
            let mut mixed = credentials.terminated();
            sha2_password::mix_with_scramble(&mut mixed, scramble);
            let encrypted = keys::encrypt(public_key, &mixed)
                .map_err(|error| LoginError::Method(format!("during login: {error}")))?;
            Ok(put(&encrypted))
        }
        _ => Err(in_login(WireError::Malformed { what: "answer to the login request" })),
    }
}

fn put_payload(out: &mut Vec<u8>, sequence: u8, put: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let mut sequence = sequence;
    let start = wire::begin_packet(out);
    put(out);
    wire::end_packet(out, start, &mut sequence);
    sequence
}

fn in_login(error: WireError) -> LoginError {
    LoginError::Protocol(format!("during login: {error}"))
}
