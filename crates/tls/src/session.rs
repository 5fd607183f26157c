//! TLS on one connection.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{CipherSuite, ClientConfig, CommonState, Error, ProtocolVersion};
use rustls_pki_types::ServerName;
use seam::{TlsSession, TlsVersion};

use crate::acceptor::Shown;
use crate::certificate;

/// The state of one connection. Between records it holds no bytes of either side.
pub(crate) struct Session {
    side: Side,
    /// The front of a record that has not arrived as a whole.
    partial: Vec<u8>,
}

enum Side {
    /// And the digest of the certificate that it shows.
    Server(UnbufferedServerConnection, [u8; 32]),
    Client(UnbufferedClientConnection),
}

/// Where a session leaves its bytes: one for all connections, so that none has to keep any.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The bytes that have come and are being decrypted.
    pub(crate) arrived: Vec<u8>,
    /// The bytes that the peer has sent inside TLS.
    pub(crate) plain: Vec<u8>,
    /// The bytes to be sent.
    pub(crate) sealed: Vec<u8>,
}

/// The buffers are given back to the allocator beyond this: one burst must not stay in the resident size.
const KEPT: usize = 256 << 10;

/// Before its handshake is over a peer may make us hold so much: the longest chains of certificates have some 10 KiB.
pub(crate) const LARGEST_HANDSHAKE: usize = 32 << 10;

/// Room for what a record adds to its content: header, nonce, tag and content type of the costliest suite (RFC 5246,
/// section 6.2.3; RFC 8446, section 5.2), rounded up.
const RECORD_OVERHEAD: usize = 64;
/// The most content that a record has (RFC 8446, section 5.1).
const RECORD_CONTENT: usize = 16 << 10;

impl Session {
    pub(crate) fn server(shown: Shown) -> Result<Self, Error> {
        let connection = UnbufferedServerConnection::new(shown.config)?;
        Ok(Self { side: Side::Server(connection, shown.fingerprint), partial: Vec::new() })
    }

    pub(crate) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self { side: Side::Client(UnbufferedClientConnection::new(config, name)?), partial: Vec::new() })
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self.side, Side::Server(..))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Bytes that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.partial.capacity()
    }

    /// Keeps bytes for [`Self::read`] to begin with. False where they are too many for a handshake.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> bool {
        self.partial.extend_from_slice(bytes);
        self.partial.len() <= LARGEST_HANDSHAKE
    }

    /// Takes in bytes of the peer. What it says is appended to `plain`, what is to be sent to it to `sealed`: a part of the
    /// handshake, or an alert beside the error. True where the peer says no more.
    pub(crate) fn read(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<bool, Error> {
        buffers.arrived.clear();
        buffers.arrived.append(&mut self.partial);
        buffers.arrived.extend_from_slice(bytes);
        let mut arrived = std::mem::take(&mut buffers.arrived);
        let result = self.process(&mut arrived, buffers, &Wish::Read);
        let (used, closed) = *result.as_ref().unwrap_or(&(0, true));
        // A vector of its own size, or none: `append` above has taken the capacity too.
        self.partial = if used < arrived.len() && !closed { arrived[used..].to_vec() } else { Vec::new() };
        let too_long = self.is_handshaking() && self.partial.len() > LARGEST_HANDSHAKE;
        arrived.clear();
        buffers.arrived = arrived;
        result?;
        if too_long { Err(Error::General(String::from("its handshake has no end"))) } else { Ok(closed) }
    }

    /// Appends the encrypted bytes to `sealed`.
    pub(crate) fn write(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<(), Error> {
        self.say(&Wish::Write(bytes), buffers)
    }

    /// Appends what begins a handshake as the client.
    pub(crate) fn begin(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        self.say(&Wish::Read, buffers)
    }

    /// Appends the word that we say no more. Before the end of the handshake there is none.
    pub(crate) fn close(&mut self, buffers: &mut Buffers) {
        // Where it cannot be said the connection's end says it.
        let _ = self.say(&Wish::Close, buffers);
    }

    /// Returns the session that was agreed on, once the handshake is over.
    pub(crate) fn agreed(&self) -> TlsSession {
        let common = self.common();
        let peer = common.peer_certificates().and_then(|chain| certificate::names(chain.first()?));
        TlsSession {
            version: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => TlsVersion::V1_3,
                _ => TlsVersion::V1_2,
            },
            cipher: common.negotiated_cipher_suite().map_or("", |suite| openssl_name(suite.suite())),
            peer: peer.map(Box::new),
            own_fingerprint: match self.side {
                Side::Server(_, fingerprint) => Some(fingerprint),
                Side::Client(_) => None,
            },
        }
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection, _) => connection,
            Side::Client(connection) => connection,
        }
    }

    fn say(&mut self, wish: &Wish<'_>, buffers: &mut Buffers) -> Result<(), Error> {
        let mut partial = std::mem::take(&mut self.partial);
        let result = self.process(&mut partial, buffers, wish);
        if let Ok((used, _)) = &result {
            partial.drain(..*used);
            self.partial = partial;
        }
        result.map(|_| ())
    }

    /// Until nothing more can be done with these bytes. Returns how many were used, and whether the peer has closed.
    fn process(
        &mut self,
        arrived: &mut [u8],
        buffers: &mut Buffers,
        wish: &Wish<'_>,
    ) -> Result<(usize, bool), Error> {
        let mut used = 0;
        let mut closed = false;
        loop {
            let rest = &mut arrived[used..];
            let (discard, step) = match &mut self.side {
                Side::Server(connection, _) => step(connection.process_tls_records(rest), buffers, wish),
                Side::Client(connection) => step(connection.process_tls_records(rest), buffers, wish),
            };
            used += discard;
            match step {
                Step::Again => {}
                Step::PeerClosed => closed = true,
                Step::Done => return Ok((used, closed)),
                Step::Failed(error) => {
                    self.alert(buffers);
                    return Err(error);
                }
            }
        }
    }

    /// After an error: what the peer is to be told of it. What has arrived is not looked at again, as rustls has given up.
    fn alert(&mut self, buffers: &mut Buffers) {
        while self.common().wants_write() {
            let (_, step) = match &mut self.side {
                Side::Server(connection, _) => {
                    step(connection.process_tls_records(&mut []), buffers, &Wish::Read)
                }
                Side::Client(connection) => {
                    step(connection.process_tls_records(&mut []), buffers, &Wish::Read)
                }
            };
            if !matches!(step, Step::Again) {
                return;
            }
        }
    }
}

impl Buffers {
    /// Gives back what a burst has needed.
    pub(crate) fn shrink(&mut self) {
        for buffer in [&mut self.arrived, &mut self.plain, &mut self.sealed] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
    }
}

/// The purpose of a call.
enum Wish<'a> {
    Read,
    Write(&'a [u8]),
    Close,
}

/// The outcome of one state of the connection.
enum Step {
    Again,
    PeerClosed,
    Done,
    Failed(Error),
}

/// Handles one state. Returns how many bytes of what arrived are done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    buffers: &mut Buffers,
    wish: &Wish<'_>,
) -> (usize, Step) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Err(error) => Step::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Step::Again,
                Some(Err(error)) => break Step::Failed(error),
                Some(Ok(record)) => {
                    discard += record.discard;
                    buffers.plain.extend_from_slice(record.payload);
                }
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut buffers.sealed, |room| {
            data.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(needed) => Some(needed.required_size),
                EncodeError::AlreadyEncoded => None,
            })
        }),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // Behind what else is in `sealed`, which goes out as a whole.
            data.done();
            Step::Again
        }
        Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
        Ok(ConnectionState::WriteTraffic(traffic)) => speak(traffic, buffers, wish),
        Ok(ConnectionState::BlockedHandshake) => match wish {
            Wish::Write(_) => Step::Failed(Error::HandshakeNotComplete),
            Wish::Read | Wish::Close => Step::Done,
        },
        // Early data, which is not offered, and states to come.
        Ok(_) => Step::Done,
    };
    (discard, step)
}

fn speak<Data>(mut traffic: WriteTraffic<'_, Data>, buffers: &mut Buffers, wish: &Wish<'_>) -> Step {
    let needed = |error| match error {
        EncryptError::InsufficientSize(needed) => Some(needed.required_size),
        EncryptError::EncryptExhausted => None,
    };
    let step = match wish {
        Wish::Read => Step::Done,
        Wish::Write(bytes) => {
            // Room at the first try, so that nothing is encrypted twice.
            let records = bytes.len() / RECORD_CONTENT + 1;
            buffers.sealed.reserve(bytes.len() + records * RECORD_OVERHEAD);
            encode(&mut buffers.sealed, |room| traffic.encrypt(bytes, room).map_err(needed))
        }
        Wish::Close => encode(&mut buffers.sealed, |room| traffic.queue_close_notify(room).map_err(needed)),
    };
    match step {
        Step::Again => Step::Done,
        step => step,
    }
}

/// Appends what `put` writes; it is asked again with the room that it says it needs.
fn encode(sealed: &mut Vec<u8>, mut put: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Step {
    let start = sealed.len();
    let mut room = (sealed.capacity() - start).max(RECORD_OVERHEAD);
    loop {
        sealed.resize(start + room, 0);
        match put(&mut sealed[start..]) {
            Ok(written) => {
                sealed.truncate(start + written);
                return Step::Again;
            }
            Err(Some(required)) if required > room => room = required,
            Err(_) => {
                sealed.truncate(start);
                return Step::Failed(Error::EncryptError);
            }
        }
    }
}

/// The servers write OpenSSL's names, of which those of TLS 1.2 differ from the standard's.
fn openssl_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}
