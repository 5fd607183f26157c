//! Our side of a login on the server, for backends and for the service account alike.

use wire::{AuthSwitch, Capabilities, ErrPacket, Greeting, LoginRequest, WireError};
use zeroize::Zeroizing;

/// Who logs in, and how the connection is meant to behave.
pub(crate) struct Credentials {
    pub(crate) user: Vec<u8>,
    /// SHA1(password); `None` for an empty password or a plugin that asks for none (`unix_socket`).
    pub(crate) secret: Option<Zeroizing<[u8; 20]>>,
    /// The collation number for the handshake.
    pub(crate) collation: u8,
    /// Capabilities beyond those that every connection of ours has.
    pub(crate) extra: Capabilities,
}

/// What every connection to a server asks for: the trackers and the short ends of result sets above all.
pub(crate) const ALWAYS: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// A login under way.
pub(crate) struct ServerLogin {
    credentials: Credentials,
    phase: Phase,
    input: Vec<u8>,
}

enum Phase {
    Greeting,
    Answer(Established),
}

/// What the server said of itself in its greeting.
#[derive(Clone, Debug)]
pub(crate) struct Established {
    pub(crate) thread_id: u32,
    pub(crate) version: Vec<u8>,
    /// What the server offers, before it is cut to what we ask for.
    pub(crate) offered: Capabilities,
    /// What both sides agreed on.
    pub(crate) capabilities: Capabilities,
}

/// How a login ended.
pub(crate) enum Outcome {
    Established(Established),
    /// The server's own error, code and text.
    Refused {
        code: u16,
        message: Vec<u8>,
    },
}

impl ServerLogin {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, phase: Phase::Greeting, input: Vec::new() }
    }

    /// Takes in bytes of the server, appends answers to `out`, and says how the login ended once it has.
    pub(crate) fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Outcome>, WireError> {
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
    ) -> Result<Option<Outcome>, WireError> {
        if payload.first() == Some(&0xff) {
            let error = ErrPacket::parse(payload)?;
            return Ok(Some(Outcome::Refused { code: error.code, message: error.message.to_vec() }));
        }
        match &self.phase {
            Phase::Greeting => {
                let established = self.answer_greeting(&Greeting::parse(payload)?, sequence, out);
                self.phase = Phase::Answer(established);
                Ok(None)
            }
            Phase::Answer(established) => match payload.first() {
                Some(0x00) => Ok(Some(Outcome::Established(established.clone()))),
                Some(0xfe) => {
                    self.answer_switch(&AuthSwitch::parse(payload)?, sequence, out);
                    Ok(None)
                }
                _ => Err(WireError::Malformed { what: "answer to a login" }),
            },
        }
    }

    fn answer_greeting(&self, greeting: &Greeting<'_>, mut sequence: u8, out: &mut Vec<u8>) -> Established {
        let capabilities = (ALWAYS | self.credentials.extra) & greeting.capabilities;
        let response = self.native_response(&greeting.scramble);
        let mut payload = Vec::new();
        LoginRequest {
            capabilities,
            mariadb_extended: 0,
            // What libmysqlclient sends; the servers bound packets by their own max_allowed_packet.
            max_packet_size: 1 << 30,
            collation: self.credentials.collation,
            user: &self.credentials.user,
            auth_response: &response,
            schema: None,
            auth_plugin: Some(NATIVE_PASSWORD),
            attributes: &[],
        }
        .put(&mut payload);
        wire::put_message(out, &mut sequence, &payload);
        Established {
            thread_id: greeting.connection_id,
            version: greeting.server_version.to_vec(),
            offered: greeting.capabilities,
            capabilities,
        }
    }

    fn answer_switch(&self, switch: &AuthSwitch<'_>, mut sequence: u8, out: &mut Vec<u8>) {
        let response = match (switch.plugin, switch.data.first_chunk::<20>()) {
            (NATIVE_PASSWORD, Some(scramble)) => self.native_response(scramble),
            // unix_socket and auth_socket look at the socket's owner and want no bytes; any other plugin will refuse
            // an empty answer with an error of its own.
            _ => Vec::new(),
        };
        wire::put_message(out, &mut sequence, &response);
    }

    fn native_response(&self, scramble: &[u8; 20]) -> Vec<u8> {
        self.credentials
            .secret
            .as_ref()
            .map_or_else(Vec::new, |secret| wire::native_password::token(secret, scramble).to_vec())
    }
}

/// The one plugin that can be served without the password itself.
pub(crate) const NATIVE_PASSWORD: &[u8] = b"mysql_native_password";

/// Greetings and switches are a few hundred bytes; an error text is at most 512 (MYSQL_ERRMSG_SIZE).
const LARGEST_LOGIN_PACKET: usize = 1 << 16;
