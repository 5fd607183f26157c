//! How a connection begins: the server greets, the client logs in, and either side may ask for another way to
//! authenticate. `COM_CHANGE_USER`, a login on an open connection, belongs here too.
//!
//! Sources: `send_server_handshake_packet`, `parse_client_handshake_packet`, `parse_com_change_user_packet` in both
//! servers (MySQL `sql/auth/sql_authentication.cc`, MariaDB `sql/sql_acl.cc`).

use crate::codec::{put_lenenc_bytes, put_nul_terminated, put_u16, put_u32};
use crate::replies::EOF_HEADER;
use crate::{Capabilities, CommandKind, Reader, StatusFlags, WireError};

/// Bytes of a login request that an SSLRequest consists of: capabilities (4), packet size (4), collation (1), filler
/// (23).
const SSL_REQUEST_LEN: usize = 32;

/// The only greeting in use since MySQL 3.21.
const PROTOCOL_VERSION: u8 = 10;

/// The method of a peer that names none.
const DEFAULT_PLUGIN: &[u8] = b"mysql_native_password";

/// The first packet of a server. A server that is full or does not know the host sends an ERR instead: look for a first byte of
/// 0xff before [`Self::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// As the server writes it; MariaDB before 11 puts `5.5.5-` in front for the sake of old replicas.
    pub server_version: &'a [u8],
    /// The low four bytes of the connection's id.
    pub connection_id: u32,
    /// Random bytes without zeros, for the authentication method.
    pub scramble: [u8; 20],
    /// The capabilities that the server offers.
    pub capabilities: Capabilities,
    /// The low byte of the server's default collation.
    pub collation: u8,
    /// The new session's state.
    pub status: StatusFlags,
    /// The authentication method that the scramble is for.
    pub auth_plugin: &'a [u8],
}

impl<'a> Greeting<'a> {
    /// Reads a greeting's payload.
    ///
    /// # Errors
    ///
    /// [`WireError::Unsupported`] for servers before MySQL 4.1.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("greeting", payload);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(WireError::Unsupported { what: "greeting of another protocol version than 10" });
        }
        let server_version = reader.nul_terminated()?;
        let connection_id = reader.u32()?;
        let mut scramble = [0; 20];
        scramble[..8].copy_from_slice(reader.bytes(8)?);
        reader.u8()?; // filler
        let low = reader.u16()?;
        let collation = reader.u8()?;
        let status = StatusFlags(reader.u16()?);
        let high = reader.u16()?;
        let flags = u32::from(high) << 16 | u32::from(low);
        let capabilities = Capabilities::of_words(flags, 0);
        if !capabilities.contains(Capabilities::PROTOCOL_41.with(Capabilities::SECURE_CONNECTION)) {
            return Err(WireError::Unsupported { what: "server from before MySQL 4.1" });
        }
        let auth_data_len = usize::from(reader.u8()?);
        reader.bytes(6)?; // filler
        let capabilities = Capabilities::of_words(flags, reader.u32()?);
        // The second part has 12 bytes and a zero byte, or more where the length given (of both parts) says so.
        let mut second = Reader::of("greeting", reader.bytes(auth_data_len.saturating_sub(8).max(13))?);
        scramble[8..].copy_from_slice(second.bytes(12)?);
        let auth_plugin = if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            reader.nul_terminated_or_rest()
        } else {
            DEFAULT_PLUGIN
        };
        Ok(Self { server_version, connection_id, scramble, capabilities, collation, status, auth_plugin })
    }

    /// Appends the payload. The plugin's name is written where the capabilities have `PLUGIN_AUTH`, MariaDB's extended
    /// ones where they lack `LONG_PASSWORD`; `PROTOCOL_41` and `SECURE_CONNECTION` are always set.
    pub fn put(&self, out: &mut Vec<u8>) {
        let capabilities = self.capabilities | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        let [low0, low1, high0, high1] = capabilities.word().to_le_bytes();
        out.push(PROTOCOL_VERSION);
        put_nul_terminated(out, self.server_version);
        put_u32(out, self.connection_id);
        out.extend_from_slice(&self.scramble[..8]);
        out.push(0); // filler
        out.extend_from_slice(&[low0, low1]);
        out.push(self.collation);
        put_u16(out, self.status.0);
        out.extend_from_slice(&[high0, high1]);
        let names_plugin = capabilities.contains(Capabilities::PLUGIN_AUTH);
        // Both parts of the scramble and the zero byte; 0 where no plugin is named.
        out.push(if names_plugin { 21 } else { 0 });
        out.extend_from_slice(&[0; 6]);
        put_u32(out, capabilities.filler());
        out.extend_from_slice(&self.scramble[8..]);
        out.push(0);
        if names_plugin {
            put_nul_terminated(out, self.auth_plugin);
        }
    }
}

/// Says whether the payload of a client's first message asks for TLS: the first 32 bytes of a login request alone, with the
/// capability `SSL`. The login request follows inside TLS, numbered on.
pub fn is_ssl_request(payload: &[u8]) -> bool {
    payload.len() == SSL_REQUEST_LEN
        && payload.first_chunk().is_some_and(|flags| {
            Capabilities::of_words(u32::from_le_bytes(*flags), 0).contains(Capabilities::SSL)
        })
}

/// A client's answer to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// The capabilities that the client wants. The receiver must take off those that the server did not offer.
    pub capabilities: Capabilities,
    /// The largest message that the client takes, in bytes; 0 where it does not say.
    pub max_packet_size: u32,
    /// The low byte of a collation's number.
    pub collation: u8,
    /// The user's name, empty for anonymous.
    pub user: &'a [u8],
    /// The answer to the greeting's scramble, empty for no password.
    pub auth_response: &'a [u8],
    /// The schema to use; `None` where none or an empty one is named.
    pub schema: Option<&'a [u8]>,
    /// The method that made the auth response.
    pub auth_plugin: Option<&'a [u8]>,
    /// Connection attributes, for [`parse_attributes`].
    pub attributes: &'a [u8],
}

impl<'a> LoginRequest<'a> {
    /// Reads a login request's payload. Its own capabilities say which fields it has.
    ///
    /// # Errors
    ///
    /// [`WireError::Unsupported`] for clients before MySQL 4.1, besides those of [`Reader`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("login request", payload);
        // Clients before 4.1 send only two bytes of capabilities, and PROTOCOL_41 is in these.
        let mut low = reader;
        if !Capabilities::of_words(u32::from(low.u16()?), 0).contains(Capabilities::PROTOCOL_41) {
            return Err(WireError::Unsupported { what: "client from before MySQL 4.1" });
        }
        let flags = reader.u32()?;
        let max_packet_size = reader.u32()?;
        let collation = reader.u8()?;
        reader.bytes(19)?; // filler
        let capabilities = Capabilities::of_words(flags, reader.u32()?);
        let user = reader.nul_terminated()?;
        let auth_response = if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            reader.lenenc_bytes()?
        } else if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let length = reader.u8()?;
            reader.bytes(usize::from(length))?
        } else {
            reader.nul_terminated()?
        };
        let schema = if capabilities.contains(Capabilities::CONNECT_WITH_DB) {
            Some(reader.nul_terminated_or_rest()).filter(|schema| !schema.is_empty())
        } else {
            None
        };
        let auth_plugin = parse_plugin(&mut reader, capabilities);
        let attributes = parse_attribute_block(&mut reader, capabilities)?;
        // What follows (the zstd level) is about compression, which is another layer's.
        Ok(Self {
            capabilities,
            max_packet_size,
            collation,
            user,
            auth_response,
            schema,
            auth_plugin,
            attributes,
        })
    }

    /// Appends the payload. `PROTOCOL_41` and `SECURE_CONNECTION` are always set; `CONNECT_WITH_DB` and `PLUGIN_AUTH`
    /// follow the fields, `CONNECT_ATTRS` stays as the capabilities say. An auth response of more than 255 bytes sets
    /// `PLUGIN_AUTH_LENENC_DATA`. User, schema and plugin must not hold zero bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        let capabilities = self.effective_capabilities();
        put_login_front(out, capabilities, self.max_packet_size, self.collation);
        put_nul_terminated(out, self.user);
        if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            put_lenenc_bytes(out, self.auth_response);
        } else {
            put_short_bytes(out, self.auth_response);
        }
        if let Some(schema) = self.schema {
            put_nul_terminated(out, schema);
        }
        if let Some(plugin) = self.auth_plugin {
            put_nul_terminated(out, plugin);
        }
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            put_lenenc_bytes(out, self.attributes);
        }
    }

    /// Appends the payload of the SSLRequest that goes before this login request. Both must have the capability `SSL`.
    pub fn put_ssl_request(&self, out: &mut Vec<u8>) {
        let capabilities = self.effective_capabilities() | Capabilities::SSL;
        put_login_front(out, capabilities, self.max_packet_size, self.collation);
    }

    fn effective_capabilities(&self) -> Capabilities {
        let follows = |capabilities: Capabilities, flag, set| {
            if set { capabilities.with(flag) } else { capabilities.without(flag) }
        };
        let mut capabilities =
            self.capabilities | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        capabilities = follows(capabilities, Capabilities::CONNECT_WITH_DB, self.schema.is_some());
        capabilities = follows(capabilities, Capabilities::PLUGIN_AUTH, self.auth_plugin.is_some());
        if self.auth_response.len() > usize::from(u8::MAX) {
            capabilities |= Capabilities::PLUGIN_AUTH_LENENC_DATA;
        }
        capabilities
    }
}

/// The connection attributes of a [`LoginRequest`] or [`ChangeUser`], as pairs of key and value.
///
/// # Errors
///
/// Where the block is not a whole number of pairs; nothing is handed out then.
pub fn parse_attributes(raw: &[u8]) -> Result<impl Iterator<Item = (&[u8], &[u8])>, WireError> {
    fn pair<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), WireError> {
        Ok((reader.lenenc_bytes()?, reader.lenenc_bytes()?))
    }
    let reader = Reader::of("connection attributes", raw);
    let mut check = reader;
    while !check.is_empty() {
        pair(&mut check)?;
    }
    let mut pairs = reader;
    Ok(std::iter::from_fn(move || if pairs.is_empty() { None } else { pair(&mut pairs).ok() }))
}

/// The server wants another authentication method than the one so far. The client answers with a message that is the
/// method's response alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSwitch<'a> {
    /// The method.
    pub plugin: &'a [u8],
    /// The method's first data, as it is on the wire: for the methods with a scramble its 20 bytes and a zero byte.
    pub data: &'a [u8],
}

impl<'a> AuthSwitch<'a> {
    /// Reads the payload (first byte 0xfe).
    ///
    /// # Errors
    ///
    /// [`WireError::Unsupported`] for the packet of one byte that asks for the method from before MySQL 4.1.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("authentication switch", payload);
        if reader.u8()? != EOF_HEADER {
            return Err(WireError::Malformed { what: "header of an authentication switch" });
        }
        if reader.is_empty() {
            return Err(WireError::Unsupported { what: "password method from before MySQL 4.1" });
        }
        Ok(Self { plugin: reader.nul_terminated()?, data: reader.rest() })
    }

    /// The scramble, where the data are one, with its zero byte or without.
    pub fn scramble(&self) -> Option<[u8; 20]> {
        let (scramble, behind) = self.data.split_first_chunk()?;
        matches!(behind, [] | [0]).then_some(*scramble)
    }

    /// Appends the payload. Data of 20 bytes are a scramble and get the zero byte on which clients insist
    /// (`native_password_auth_client` in MySQL `sql-common/client.cc`: 21 bytes or an error).
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(EOF_HEADER);
        put_nul_terminated(out, self.plugin);
        out.extend_from_slice(self.data);
        if self.data.len() == 20 {
            out.push(0);
        }
    }
}

/// A login on an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeUser<'a> {
    /// The user's name, empty for anonymous.
    pub user: &'a [u8],
    /// The answer to the greeting's scramble, empty for no password.
    pub auth_response: &'a [u8],
    /// The schema to use; `None` for an empty name.
    pub schema: Option<&'a [u8]>,
    /// A collation's number.
    pub collation: Option<u16>,
    /// The method that made the auth response.
    pub auth_plugin: Option<&'a [u8]>,
    /// Connection attributes, for [`parse_attributes`].
    pub attributes: &'a [u8],
}

impl<'a> ChangeUser<'a> {
    /// Reads the body (the bytes behind the command byte) from a peer that has agreed on `capabilities`.
    pub fn parse(body: &'a [u8], capabilities: Capabilities) -> Result<Self, WireError> {
        let mut reader = Reader::of("change of user", body);
        let user = reader.nul_terminated()?;
        let auth_response = if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let length = reader.u8()?;
            reader.bytes(usize::from(length))?
        } else {
            reader.nul_terminated()?
        };
        let schema = Some(reader.nul_terminated_or_rest()).filter(|schema| !schema.is_empty());
        // Everything from here on may be left out, one after the other.
        let collation = if reader.remaining() >= 2 { Some(reader.u16()?) } else { None };
        let auth_plugin = parse_plugin(&mut reader, capabilities);
        let attributes = parse_attribute_block(&mut reader, capabilities)?;
        Ok(Self { user, auth_response, schema, collation, auth_plugin, attributes })
    }

    /// Appends the payload, command byte included, for a peer that has agreed on `SECURE_CONNECTION`, and on `PLUGIN_AUTH` where
    /// a plugin is named. Attributes are written behind a plugin only, and then always: servers with `CONNECT_ATTRS` refuse a
    /// request that lacks the block, others do not read it. User, schema and plugin must not hold zero bytes.
    ///
    /// # Panics
    ///
    /// If the auth response has more than 255 bytes, which the packet cannot hold. No first response is that long.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(CommandKind::ChangeUser as u8);
        put_nul_terminated(out, self.user);
        put_short_bytes(out, self.auth_response);
        put_nul_terminated(out, self.schema.unwrap_or_default());
        if self.collation.is_none() && self.auth_plugin.is_none() {
            return;
        }
        // 0 is no collation's number; the servers fall back to their default.
        put_u16(out, self.collation.unwrap_or(0));
        if let Some(plugin) = self.auth_plugin {
            put_nul_terminated(out, plugin);
            put_lenenc_bytes(out, self.attributes);
        }
    }
}

fn parse_plugin<'a>(reader: &mut Reader<'a>, capabilities: Capabilities) -> Option<&'a [u8]> {
    (capabilities.contains(Capabilities::PLUGIN_AUTH) && !reader.is_empty())
        .then(|| reader.nul_terminated_or_rest())
}

fn parse_attribute_block<'a>(
    reader: &mut Reader<'a>,
    capabilities: Capabilities,
) -> Result<&'a [u8], WireError> {
    if capabilities.contains(Capabilities::CONNECT_ATTRS) && !reader.is_empty() {
        reader.lenenc_bytes()
    } else {
        Ok(b"")
    }
}

/// Appends the part that login request and SSLRequest share.
fn put_login_front(out: &mut Vec<u8>, capabilities: Capabilities, max_packet_size: u32, collation: u8) {
    put_u32(out, capabilities.word());
    put_u32(out, max_packet_size);
    out.push(collation);
    out.extend_from_slice(&[0; 19]);
    put_u32(out, capabilities.filler());
}

/// A string after a length of one byte.
fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u8::try_from(bytes.len()).expect("an auth response of this form has at most 255 bytes");
    out.push(length);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
