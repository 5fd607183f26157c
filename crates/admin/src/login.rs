//! A login with `mysql_native_password`: the password's hash is all that is kept, and no client sends more than a proof.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};
use wire::native_password::{self, Stage2};
use wire::{AuthSwitch, Capabilities, Greeting, LoginRequest};

use crate::Schema;
use crate::errors::SqlError;
use crate::listener::{Encryption, Port};
use crate::reply::STATUS;
use crate::stream::{MESSAGE_TIMEOUT, NoMessage, Stream};

const PLUGIN: &[u8] = b"mysql_native_password";

/// utf8mb4_general_ci.
const COLLATION: u8 = 45;

/// The capabilities that the admin port has, TLS aside: no compression, no several statements in one.
const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::FOUND_ROWS.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::IGNORE_SPACE.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// The user who may log in.
pub(crate) struct Account {
    pub(crate) user: String,
    /// SHA1(SHA1(password)).
    pub(crate) stored: Stage2,
}

/// A client that has logged in.
pub(crate) struct LoggedIn {
    pub(crate) deprecate_eof: bool,
    pub(crate) schema: Option<Schema>,
    /// The number of the packet that says so.
    pub(crate) answer: u8,
    /// The proof by which MariaDB's clients trust a certificate that nobody vouches for; empty without TLS.
    pub(crate) proof: Vec<u8>,
}

/// Why a login did not come about: with an error for the client and the number of its packet, or because it has gone.
pub(crate) enum Failed {
    Refused(SqlError, u8),
    /// The login was right, but there is no place.
    Full(SqlError, u8),
    Gone,
}

/// Greets a client and checks what it answers.
pub(crate) fn log_in(
    stream: &mut Stream,
    port: &Port,
    encryption: Encryption,
    version: &str,
    connection: u32,
    host: &str,
) -> Result<LoggedIn, Failed> {
    let account = &port.account;
    let scramble = scramble().ok_or(Failed::Gone)?;
    let _greeted = Greeted::new(scramble);
    let acceptor = port.tls.as_deref().filter(|_| encryption != Encryption::Off && stream.is_tcp());
    let offered = if acceptor.is_some() { Capabilities::SSL } else { Capabilities::NONE };
    let greeting = Greeting {
        server_version: version.as_bytes(),
        connection_id: connection,
        scramble,
        capabilities: CAPABILITIES | offered,
        collation: COLLATION,
        status: STATUS,
        auth_plugin: PLUGIN,
    };
    let mut payload = Vec::new();
    greeting.put(&mut payload);
    send(stream, 0, &payload)?;
    let mut received = stream.receive(1, MESSAGE_TIMEOUT).map_err(no_message)?;
    let refused = |error: SqlError, answer| Failed::Refused(error, answer);
    if wire::is_ssl_request(&received.payload) {
        let Some(acceptor) = acceptor else {
            let error = SqlError::handshake("TLS is not offered here (tls); connect with --skip-ssl");
            return Err(refused(error, received.answer));
        };
        stream.start_tls(acceptor).map_err(|reason| {
            tracing::error!("admin: no TLS: {reason}");
            Failed::Gone
        })?;
        received = stream.receive(received.answer, MESSAGE_TIMEOUT).map_err(no_message)?;
    } else if encryption == Encryption::Required {
        return Err(refused(SqlError::tls_required(), received.answer));
    }
    let request = LoginRequest::parse(&received.payload)
        .map_err(|error| refused(SqlError::handshake(&error.to_string()), received.answer))?;
    let user = String::from_utf8_lossy(request.user).into_owned();
    let (mut token, mut answer) = (request.auth_response.to_vec(), received.answer);
    if request.auth_plugin.is_some_and(|plugin| plugin != PLUGIN) {
        // The scramble with the zero byte that the servers put behind it.
        let data = [&scramble[..], &[0]].concat();
        let mut payload = Vec::new();
        AuthSwitch { plugin: PLUGIN, data: &data }.put(&mut payload);
        send(stream, answer, &payload)?;
        let received = stream.receive(answer.wrapping_add(1), MESSAGE_TIMEOUT).map_err(no_message)?;
        (token, answer) = (received.payload, received.answer);
    }
    let right = native_password::verify(&token, &scramble, &account.stored).is_some();
    if !right || user != account.user {
        return Err(refused(SqlError::access_denied(&user, host, !token.is_empty()), answer));
    }
    let schema = match request.schema.map(String::from_utf8_lossy) {
        None => None,
        Some(name) => match Schema::find(&name) {
            Some(schema) => Some(schema),
            None => return Err(refused(SqlError::unknown_schema(&name), answer)),
        },
    };
    let deprecate_eof = request.capabilities.contains(Capabilities::DEPRECATE_EOF);
    let proof = stream.own_fingerprint().map_or(Vec::new(), |fingerprint| {
        native_password::certificate_proof(&account.stored, &scramble, &fingerprint)
    });
    Ok(LoggedIn { deprecate_eof, schema, answer, proof })
}

fn send(stream: &mut Stream, sequence: u8, payload: &[u8]) -> Result<(), Failed> {
    let mut bytes = Vec::new();
    wire::put_message(&mut bytes, &mut { sequence }, payload);
    stream.send(&bytes).map_err(|_| Failed::Gone)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_message(reason: NoMessage) -> Failed {
    match reason {
        NoMessage::Ended => Failed::Gone,
        NoMessage::Malformed(error) => Failed::Refused(SqlError::handshake(&error.to_string()), 2),
    }
}

/// The random bytes of all greetings of this process that have not been answered, or whose login is under way.
static GREETED: Mutex<BTreeSet<[u8; 20]>> = Mutex::new(BTreeSet::new());

/// One of them, until this is dropped.
struct Greeted([u8; 20]);

impl Greeted {
    fn new(scramble: [u8; 20]) -> Self {
        GREETED.lock().unwrap_or_else(PoisonError::into_inner).insert(scramble);
        Self(scramble)
    }
}

impl Drop for Greeted {
    fn drop(&mut self) {
        GREETED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Says whether a greeting with these random bytes is this process's.
pub(crate) fn is_own_greeting(scramble: &[u8; 20]) -> bool {
    GREETED.lock().unwrap_or_else(PoisonError::into_inner).contains(scramble)
}

/// 20 random bytes of seven bits without zeros and `$`, as the servers make them (generate_user_salt).
fn scramble() -> Option<[u8; 20]> {
    let mut bytes = [0_u8; 20];
    getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    Some(bytes.map(|byte| match byte & 0x7f {
        letter @ (0 | b'$') => letter + 1,
        letter => letter,
    }))
}
