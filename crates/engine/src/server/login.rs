//! Our side of a login on the server, for backends and for the service account alike.

use std::sync::Arc;

use wire::{
    AuthSwitch, Capabilities, ChangeUser, ErrPacket, Greeting, LoginRequest, WireError, sha2_password,
};
use zeroize::Zeroizing;

use crate::accounts::method::Method;
use crate::accounts::secret::Secret;
use crate::settings::{ServerCompression, ServerTls};

/// The user that logs in, and how the connection is meant to behave.
pub(crate) struct Credentials {
    pub(crate) user: Vec<u8>,
    pub(crate) secret: Secret,
    /// By which methods it may be proved: those of the account. A server that asks for another may be somebody else, who wants
    /// what tells more of the password.
    pub(crate) methods: Vec<Method>,
    /// The way to the server: could anybody else answer in its place?
    pub(crate) way: ServerChannel,
    /// The RSA keys that servers are known to have (PEM).
    pub(crate) known_keys: Arc<[Vec<u8>]>,
    /// Says whether TLS comes first.
    pub(crate) tls: ServerTls,
    /// The collation number for the handshake.
    pub(crate) collation: u8,
    /// Capabilities beyond those that every connection of ours has.
    pub(crate) extra: Capabilities,
    /// How everything behind the login is to be compressed, where the server offers it.
    pub(crate) compression: ServerCompression,
}

/// The way to the server. By any but the last, nobody else answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerChannel {
    /// A Unix socket.
    Socket,
    /// TCP to an address of `backend_trusted_networks`.
    Trusted,
    /// TCP: anybody on the way can answer, and on this machine any user who takes the port while the server is down.
    Open,
}

/// By which methods the service account may prove its password. Its plugin is known only once it is logged in.
pub(crate) const OF_SERVICE_ACCOUNT: [Method; 3] = [Method::Native, Method::CachingSha2, Method::Sha256];

/// Why a password was not given to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// Somebody else could have it.
    Way,
    /// The server asks for it by a method that is not the account's.
    Method,
    /// The server's RSA key is none of those that are known.
    Key,
}

impl Withheld {
    /// The number of the error that clients get.
    pub(crate) fn code(self) -> u16 {
        match self {
            // ER_SECURE_TRANSPORT_REQUIRED, ER_NOT_SUPPORTED_AUTH_MODE.
            Self::Way | Self::Key => 3159,
            Self::Method => 1251,
        }
    }

    /// Returns the advice about it.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Way => {
                "the password of this account goes to the server only where nobody else can have it: by TLS with a \
                 checked certificate (backend_tls = verify-ca or verify-full, backend_tls_ca = the server's ca.pem), \
                 by its Unix socket, without TLS encrypted with its known RSA key (backend_public_key), or within \
                 backend_trusted_networks; see docs/TLS.md"
            }
            Self::Method => {
                "the server asks for the password by another method than the account's, and does not get it; if the \
                 account's plugin has changed, log in again"
            }
            Self::Key => {
                "the server's RSA key is none of those in backend_public_key, so that the password is not sent; if \
                 the server has a new key, add it to that file"
            }
        }
    }
}

/// The capabilities that every connection to a server asks for: the trackers and the short ends of result sets above all.
pub(crate) const ALWAYS: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// The capabilities that backends ask for beyond that, for all clients alike: progress reports are cut out for clients that did
/// not ask for them, and nothing else changes where nobody uses it.
pub(crate) const OF_BACKENDS: Capabilities = Capabilities(
    Capabilities::PROGRESS.0
        | Capabilities::BULK_OPERATIONS.0
        | Capabilities::BULK_UNIT_RESULTS.0
        | Capabilities::QUERY_ATTRIBUTES.0,
);

/// The level that MySQL's own clients ask for (`default_zstd_compression_level` in `include/compression.h`).
pub(crate) const ZSTD_LEVEL: u8 = 3;

/// A login under way.
pub(crate) struct ServerLogin {
    credentials: Credentials,
    phase: Phase,
    input: Vec<u8>,
    /// TLS stands.
    encrypted: bool,
}

enum Phase {
    Greeting,
    /// TLS has been asked for; the greeting is answered inside of it.
    StartingTls {
        greeting: Vec<u8>,
        sequence: u8,
    },
    Answer(Exchange),
}

/// The points that have been agreed on so far.
struct Exchange {
    established: Established,
    /// How we answer; `None` for a plugin that asks for no more than we are.
    method: Option<Method>,
    /// Of our next packet.
    sequence: u8,
    /// The server's public key has been asked for. Any other that comes would be of somebody on the way, who wants the password.
    awaits_key: bool,
}

/// The server's description of itself in its greeting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Established {
    pub(crate) thread_id: u32,
    pub(crate) version: Vec<u8>,
    /// The capabilities that the server offers, before they are cut to those that we ask for.
    pub(crate) offered: Capabilities,
    /// The capabilities that both sides agreed on.
    pub(crate) capabilities: Capabilities,
    /// The method of its greeting, which it expects of most clients.
    pub(crate) method: Method,
    /// The latest that it has sent.
    scramble: [u8; 20],
    /// TLS stands. Inside of it, `sha256_password` sends the password as it is (sha256_password_auth_client).
    encrypted: bool,
}

plain!(struct Established { thread_id, version, offered, capabilities, method, scramble, encrypted });

#[cfg(test)]
impl Established {
    /// A server of this version.
    pub(crate) fn of_test(version: &str, capabilities: Capabilities) -> Self {
        let version = version.as_bytes().to_vec();
        Self {
            thread_id: 1,
            version,
            offered: capabilities,
            capabilities,
            method: Method::Native,
            scramble: [0; 20],
            encrypted: false,
        }
    }
}

/// The outcome of a login.
pub(crate) enum LoginOutcome {
    Established(Established),
    /// The request for TLS is among the answers; once they are sent, TLS is to begin, and then [`ServerLogin::secured`].
    StartTls,
    /// The server's own error, code and text.
    Refused {
        code: u16,
        message: Vec<u8>,
    },
    /// The server would have to get the password, and does not.
    Withheld(Withheld),
    /// The password has to be encrypted with the server's public key (PEM) before it goes on: [`ServerLogin::encrypted`].
    Encrypt {
        bytes: Zeroizing<Vec<u8>>,
        public_key: Vec<u8>,
    },
}

impl ServerLogin {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, phase: Phase::Greeting, input: Vec::new(), encrypted: false }
    }

    /// Begins COM_CHANGE_USER, on a connection that stands and is to be another account's. Both servers answer that with a switch
    /// to the account's own method (`send_plugin_request_packet`), or at once where that needs nothing from us.
    pub(crate) fn change(credentials: Credentials, established: &Established, out: &mut Vec<u8>) -> Self {
        let method = credentials.first_method(established.method);
        let mut exchange =
            Exchange { established: established.clone(), method, sequence: 0, awaits_key: false };
        // A first method sends no password.
        let response = exchange.response(&credentials).unwrap_or_default();
        let request = ChangeUser {
            user: &credentials.user,
            auth_response: &response,
            schema: None,
            collation: Some(u16::from(credentials.collation)),
            auth_plugin: Some(method.unwrap_or(Method::Native).name()),
            attributes: &[],
        };
        let mut payload = Vec::new();
        request.put(&mut payload);
        exchange.put(out, &payload);
        let encrypted = established.encrypted;
        Self { credentials, phase: Phase::Answer(exchange), input: Vec::new(), encrypted }
    }

    /// Returns the server's description of itself, once its greeting has been answered.
    pub(crate) fn found(&self) -> Option<&Established> {
        match &self.phase {
            Phase::Answer(exchange) => Some(&exchange.established),
            Phase::Greeting | Phase::StartingTls { .. } => None,
        }
    }

    /// Takes in bytes of the server, appends answers to `out`, and says how the login ended once it has.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<LoginOutcome>, WireError> {
        self.input.extend_from_slice(bytes);
        loop {
            let Some(&sequence) = self.input.get(3) else { return Ok(None) };
            let input = std::mem::take(&mut self.input);
            let Some(message) = wire::read_message(&input, sequence, LARGEST_LOGIN_PACKET)? else {
                self.input = input;
                return Ok(None);
            };
            let outcome = self.packet(&message.payload, message.last_sequence.wrapping_add(1), out)?;
            self.input = input[message.consumed..].to_vec();
            if matches!(outcome, Some(LoginOutcome::StartTls)) && !self.input.is_empty() {
                return Err(EARLY);
            }
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
    }

    fn packet(
        &mut self,
        payload: &[u8],
        sequence: u8,
        out: &mut Vec<u8>,
    ) -> Result<Option<LoginOutcome>, WireError> {
        if payload.first() == Some(&0xff) {
            let error = ErrPacket::parse(payload)?;
            return Ok(Some(LoginOutcome::Refused { code: error.code, message: error.message.to_vec() }));
        }
        match &mut self.phase {
            Phase::Greeting => {
                let greeting = Greeting::parse(payload)?;
                match (self.credentials.tls, greeting.capabilities.contains(Capabilities::SSL)) {
                    (ServerTls::Preferred | ServerTls::Required | ServerTls::Verified, true) => {
                        Ok(Some(self.ask_for_tls(&greeting, payload, sequence, out)))
                    }
                    // CR_SSL_CONNECTION_ERROR, as a client would say it.
                    (ServerTls::Required | ServerTls::Verified, false) => Ok(Some(LoginOutcome::Refused {
                        code: 2026,
                        message: b"TLS is required (backend_tls), but the server does not offer it".to_vec(),
                    })),
                    (ServerTls::Disabled, _) | (ServerTls::Preferred, false) => {
                        self.phase = Phase::Answer(self.answer_greeting(&greeting, sequence, out));
                        Ok(None)
                    }
                }
            }
            Phase::StartingTls { .. } => Err(EARLY),
            Phase::Answer(exchange) => {
                exchange.sequence = sequence;
                match payload {
                    [0x00, ..] => Ok(Some(LoginOutcome::Established(exchange.established.clone()))),
                    [0xfe, ..] => {
                        let switch = AuthSwitch::parse(payload)?;
                        Ok(exchange.answer_switch(&self.credentials, &switch, out))
                    }
                    // The first question has come with the switch; to others, of a second factor, there is no answer.
                    [question, ..]
                        if exchange.method == Some(Method::Dialog) && QUESTIONS.contains(question) =>
                    {
                        exchange.put(out, &[0]);
                        Ok(None)
                    }
                    [sha2_password::MORE_DATA_HEADER, more @ ..] => {
                        Ok(exchange.answer_more(&self.credentials, more, out))
                    }
                    _ => Err(WireError::Malformed { what: "answer to a login" }),
                }
            }
        }
    }

    fn ask_for_tls(
        &mut self,
        greeting: &Greeting<'_>,
        payload: &[u8],
        sequence: u8,
        out: &mut Vec<u8>,
    ) -> LoginOutcome {
        let mut request = Vec::new();
        self.login_request(greeting, &[], Method::Native).put_ssl_request(&mut request);
        let mut next = sequence;
        wire::put_message(out, &mut next, &request);
        self.phase = Phase::StartingTls { greeting: payload.to_vec(), sequence: next };
        LoginOutcome::StartTls
    }

    /// TLS stands: what the greeting asked for follows.
    ///
    /// # Errors
    ///
    /// None that the greeting had not before.
    pub(crate) fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Phase::StartingTls { greeting, sequence } = &mut self.phase else { return Ok(()) };
        let (greeting, sequence) = (std::mem::take(greeting), *sequence);
        self.encrypted = true;
        let exchange = self.answer_greeting(&Greeting::parse(&greeting)?, sequence, out);
        self.phase = Phase::Answer(exchange);
        Ok(())
    }

    /// The password has been encrypted for the server; `None` where its key was of no use, which ends in the server's own
    /// error.
    pub(crate) fn encrypted(&mut self, bytes: Option<&[u8]>, out: &mut Vec<u8>) {
        if let Phase::Answer(exchange) = &mut self.phase {
            exchange.put(out, bytes.unwrap_or_default());
        }
    }

    fn answer_greeting(&self, greeting: &Greeting<'_>, sequence: u8, out: &mut Vec<u8>) -> Exchange {
        let capabilities = self.capabilities(greeting);
        // What is asked for as it is comes with a switch, if at all.
        let greeted = Method::of_name(greeting.auth_plugin)
            .filter(|method| !matches!(method, Method::Clear | Method::Dialog))
            .unwrap_or(Method::Native);
        let method = self.credentials.first_method(greeted);
        let mut exchange = Exchange {
            established: Established {
                thread_id: greeting.connection_id,
                version: greeting.server_version.to_vec(),
                offered: greeting.capabilities,
                capabilities,
                method: greeted,
                scramble: greeting.scramble,
                encrypted: self.encrypted,
            },
            method,
            sequence,
            awaits_key: false,
        };
        let mut payload = Vec::new();
        // A first method sends no password.
        let response = exchange.response(&self.credentials).unwrap_or_default();
        self.login_request(greeting, &response, method.unwrap_or(Method::Native)).put(&mut payload);
        // The level of zstd stands behind all else (`send_client_reply_packet` in MySQL's `sql-common/client.cc`).
        if capabilities.contains(Capabilities::ZSTD_COMPRESSION) {
            payload.push(ZSTD_LEVEL);
        }
        exchange.put(out, &payload);
        exchange
    }

    fn capabilities(&self, greeting: &Greeting<'_>) -> Capabilities {
        (ALWAYS | self.credentials.extra | asked_for(self.credentials.compression)) & greeting.capabilities
    }

    fn login_request<'a>(
        &'a self,
        greeting: &Greeting<'_>,
        auth_response: &'a [u8],
        method: Method,
    ) -> LoginRequest<'a> {
        let secured = if self.encrypted { Capabilities::SSL } else { Capabilities::NONE };
        LoginRequest {
            capabilities: self.capabilities(greeting) | secured,
            // What libmysqlclient sends; the servers bound packets by their own max_allowed_packet.
            max_packet_size: 1 << 30,
            collation: self.credentials.collation,
            user: &self.credentials.user,
            auth_response,
            schema: None,
            auth_plugin: Some(method.name()),
            attributes: &[],
        }
    }
}

impl Exchange {
    fn answer_switch(
        &mut self,
        credentials: &Credentials,
        switch: &AuthSwitch<'_>,
        out: &mut Vec<u8>,
    ) -> Option<LoginOutcome> {
        self.established.scramble = switch.data.first_chunk().copied().unwrap_or_default();
        // unix_socket and auth_socket look at the socket's owner and want no bytes; any other plugin will refuse an empty
        // answer with an error of its own.
        self.method = Method::of_name(switch.plugin);
        match self.response(credentials) {
            Ok(response) => {
                self.put(out, &response);
                None
            }
            Err(withheld) => Some(LoginOutcome::Withheld(withheld)),
        }
    }

    /// The first answer of a method.
    fn response(&mut self, credentials: &Credentials) -> Result<Zeroizing<Vec<u8>>, Withheld> {
        let plain = |bytes: &[u8]| Zeroizing::new(bytes.to_vec());
        // A signature would need the password in the clear, which a login by signature does not give; another method may follow.
        let Some(method) = self.method.filter(|&method| method != Method::Ed25519) else {
            return Ok(Zeroizing::default());
        };
        if credentials.secret != Secret::None && !credentials.methods.contains(&method) {
            return Err(Withheld::Method);
        }
        Ok(match (method, &credentials.secret) {
            (Method::Native, secret) => Zeroizing::new(secret.native_token(&self.established.scramble)),
            (Method::CachingSha2 | Method::Ed25519, Secret::Native(_)) => Zeroizing::default(),
            // A zero byte says that there is no password (sha256_password_auth_client).
            (_, Secret::None) | (Method::Clear | Method::Dialog, Secret::Native(_)) => plain(&[0]),
            (Method::Clear | Method::Dialog, Secret::Password(password)) => {
                let may = credentials.way != ServerChannel::Open
                    || credentials.is_verified(self.established.encrypted);
                if !may {
                    return Err(Withheld::Way);
                }
                password.terminated()
            }
            (Method::CachingSha2 | Method::Ed25519, Secret::Password(password)) => {
                plain(&sha2_password::token(password.digest1(), &self.established.scramble))
            }
            // Inside TLS the server takes it as it is, and nothing else (sha256_password_authenticate).
            (Method::Sha256, Secret::Password(password)) if self.established.encrypted => {
                if !credentials.is_verified(true) {
                    return Err(Withheld::Way);
                }
                password.terminated()
            }
            (Method::Sha256, _) => {
                self.ask_for_key(credentials)?;
                plain(&[sha2_password::REQUEST_PUBLIC_KEY_SHA256])
            }
        })
    }

    /// Answers a SHA-2 method's message in the middle: it goes on by itself, wants the password, or this is its public key.
    fn answer_more(
        &mut self,
        credentials: &Credentials,
        more: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<LoginOutcome> {
        let password = credentials.secret.password().filter(|_| self.method.is_some_and(Method::is_sha2));
        match (more, password) {
            ([sha2_password::FAST_AUTHENTICATION], _) => {}
            ([sha2_password::FULL_AUTHENTICATION], Some(password)) => {
                let as_it_is = self.established.encrypted || credentials.way == ServerChannel::Socket;
                if as_it_is && credentials.is_verified(self.established.encrypted) {
                    self.put(out, &password.terminated());
                } else if as_it_is {
                    return Some(LoginOutcome::Withheld(Withheld::Way));
                } else if let Err(withheld) = self.ask_for_key(credentials) {
                    return Some(LoginOutcome::Withheld(withheld));
                } else {
                    self.put(out, &[sha2_password::REQUEST_PUBLIC_KEY]);
                }
            }
            (public_key, Some(password)) if std::mem::take(&mut self.awaits_key) => {
                if !credentials.takes_key(public_key) {
                    return Some(LoginOutcome::Withheld(Withheld::Key));
                }
                let mut bytes = password.terminated();
                sha2_password::mix_with_scramble(&mut bytes, &self.established.scramble);
                return Some(LoginOutcome::Encrypt { bytes, public_key: public_key.to_vec() });
            }
            // Nothing to send: the server will refuse it in its own words.
            _ => self.put(out, &[]),
        }
        None
    }

    /// The server's key is to come, where it can be told from somebody else's.
    fn ask_for_key(&mut self, credentials: &Credentials) -> Result<(), Withheld> {
        self.awaits_key = credentials.way != ServerChannel::Open || !credentials.known_keys.is_empty();
        if self.awaits_key { Ok(()) } else { Err(Withheld::Way) }
    }

    fn put(&mut self, out: &mut Vec<u8>, payload: &[u8]) {
        wire::put_message(out, &mut self.sequence, payload);
    }
}

impl Credentials {
    /// The method that a login begins with: what the server has greeted with where it is the account's, else one of the account's, of
    /// those that do not send the password itself. `None` where there is no such: the server asks for the account's then.
    fn first_method(&self, greeted: Method) -> Option<Method> {
        if matches!(self.secret, Secret::Native(_)) {
            // What only recovers SHA1(password) cannot answer otherwise.
            return Some(Method::Native);
        }
        let proves = |method: &Method| matches!(method, Method::Native | Method::CachingSha2);
        let of_account = || self.methods.iter().copied().find(proves);
        Some(greeted).filter(|method| proves(method) && self.methods.contains(method)).or_else(of_account)
    }

    /// Nobody else can read what is sent, nor has it been sent to anybody else.
    fn is_verified(&self, encrypted: bool) -> bool {
        match self.way {
            ServerChannel::Socket => true,
            ServerChannel::Trusted => encrypted,
            ServerChannel::Open => encrypted && self.tls == ServerTls::Verified,
        }
    }

    /// Says whether a key is the server's. Where keys are known, it is one of them; line ends do not matter.
    fn takes_key(&self, public_key: &[u8]) -> bool {
        let bytes =
            |key: &[u8]| key.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
        let known = self.known_keys.iter().any(|known| bytes(known) == bytes(public_key));
        known || self.known_keys.is_empty() && self.way != ServerChannel::Open
    }
}

/// Returns the capabilities that a login asks for.
fn asked_for(compression: ServerCompression) -> Capabilities {
    match compression {
        ServerCompression::Off => Capabilities::NONE,
        ServerCompression::Zlib => Capabilities::COMPRESS,
        ServerCompression::Zstd => Capabilities::ZSTD_COMPRESSION,
    }
}

/// How the questions of MariaDB's `dialog` begin: for something that may be seen or for a password, and either as the last one
/// (`ORDINARY_QUESTION`, `LAST_QUESTION`, `PASSWORD_QUESTION`, `LAST_PASSWORD` of `plugin_auth.h`).
const QUESTIONS: std::ops::RangeInclusive<u8> = 2..=5;

/// Nothing may come between the request for TLS and its beginning: it would be somebody else's on the way.
const EARLY: WireError = WireError::Malformed { what: "bytes before TLS has begun" };

/// Greetings and switches are a few hundred bytes; an error text is at most 512 (MYSQL_ERRMSG_SIZE).
const LARGEST_LOGIN_PACKET: usize = 1 << 16;

#[cfg(test)]
mod tests;
