//! The layer around a program that asks for TLS when it is told to and sends back what it hears, with rustls at the other end.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use seam::{ListenerId, Peer};

use super::*;
use crate::{Authorities, Identity, Pem};

mod away;
mod certificates;
mod clients;
mod ends;
mod servers;

/// What the program asks for and the layer cannot guess.
const ASK: &[u8] = b"tls please;";

/// Asks for TLS as a server when it hears [`ASK`], as a client when it is connected. Sends back what it hears after that.
#[derive(Default)]
struct Echo {
    outputs: VecDeque<Owned>,
    current: Option<Owned>,
    plain: Vec<u8>,
    starting: bool,
    secured: Vec<TlsSession>,
    heard: Vec<u8>,
    ends: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Send(Vec<u8>),
    StartServer,
    StartClient,
    Unread(Vec<u8>),
    Close,
    Abort,
}

const CONNECTION: ConnectionId = ConnectionId { index: 3, generation: 5 };

impl Program for Echo {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            Input::Connected { .. } => {
                self.starting = true;
                self.outputs.extend([Owned::Send(ASK.to_vec()), Owned::StartClient]);
            }
            Input::Bytes { bytes, .. } if !self.secured.is_empty() => {
                assert!(!bytes.is_empty());
                self.heard.extend_from_slice(bytes);
                self.outputs.push_back(Owned::Send(bytes.to_vec()));
            }
            Input::Bytes { bytes, .. } if self.starting => {
                self.outputs.push_back(Owned::Unread(bytes.to_vec()));
            }
            Input::Bytes { bytes, .. } => {
                self.plain.extend_from_slice(bytes);
                if let Some(rest) = self.plain.strip_prefix(ASK) {
                    self.starting = true;
                    self.outputs.push_back(Owned::StartServer);
                    if !rest.is_empty() {
                        self.outputs.push_back(Owned::Unread(rest.to_vec()));
                    }
                }
            }
            Input::Secured { session, .. } => self.secured.push(session),
            Input::TlsFailed { reason, .. } => self.ends.push(String::from(reason)),
            Input::Closed { reason, .. } => self.ends.push(format!("{reason:?}")),
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.current = self.outputs.pop_front();
        let connection = CONNECTION;
        Some(match self.current.as_ref()? {
            Owned::Send(bytes) => Output::Send { connection, bytes },
            Owned::StartServer => Output::StartTls { connection, side: TlsSide::Server { network: None } },
            Owned::StartClient => {
                Output::StartTls { connection, side: TlsSide::Client { server_name: "db.example" } }
            }
            Owned::Unread(bytes) => Output::Unread { connection, bytes },
            Owned::Close => Output::Close { connection },
            Owned::Abort => Output::Abort { connection },
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Certificates of a test.
struct Authority {
    pem: Pem,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        let pem = pem("the authority", &parameters.self_signed(&key).unwrap().pem());
        Self { pem, issuer: Issuer::new(parameters, key) }
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (Pem, Pem) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([String::from(name)]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap().pem();
        (pem("the certificate", &certificate), pem("the key", &key.serialize_pem()))
    }

    fn authorities(&self) -> Authorities {
        Authorities::from_pem(&self.pem).unwrap()
    }

    fn identity(&self, name: &str) -> Identity {
        let (certificate, key) = self.sign(name);
        Identity::from_pem(&certificate, &key).unwrap()
    }
}

fn pem(name: &str, text: &str) -> Pem {
    Pem { name: name.to_owned(), text: text.as_bytes().to_vec().into() }
}

fn chain_and_key(pair: &(Pem, Pem)) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    (pair.0.certificates().unwrap(), pair.1.key().unwrap())
}

fn client_config(
    authority: &Authority,
    version: &'static rustls::SupportedProtocolVersion,
    identity: Option<&(Pem, Pem)>,
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(authority.authorities().store);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let (chain, key) = chain_and_key(pair);
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

/// The layer and its peer, with what is between them.
struct Pair {
    layer: Tls<Echo>,
    peer: rustls::Connection,
    /// Bytes of the peer that the layer has not been given.
    wire: Vec<u8>,
    /// What came in the clear, before TLS.
    clear: Vec<u8>,
    closed: bool,
    /// Handshakes that were handed out come back in the same turn, or in the next but so many.
    away: VecDeque<Outcome>,
    turns_away: usize,
    turns: usize,
    heard: Vec<u8>,
    peer_error: Option<Error>,
}

impl Pair {
    fn client(acceptor: &Arc<Acceptor>, config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("db.example").unwrap();
        let peer = ClientConnection::new(Arc::clone(config), name).unwrap().into();
        let mut pair = Self::new(Tls::new(Echo::default(), Some(Arc::clone(acceptor)), None), peer);
        pair.wire = ASK.to_vec();
        let peer = Peer::Unix { uid: 0 };
        pair.input(Input::Accepted { connection: CONNECTION, listener: ListenerId(0), peer });
        pair
    }

    fn server(connector: Connector, config: ServerConfig) -> Self {
        let peer = ServerConnection::new(Arc::new(config)).unwrap().into();
        let mut pair = Self::new(Tls::new(Echo::default(), None, Some(Arc::new(connector))), peer);
        pair.input(Input::Connected { token: 1, connection: CONNECTION });
        pair.turn_end();
        assert!(pair.clear.starts_with(ASK));
        // What followed was TLS already.
        let hello = pair.clear.split_off(ASK.len());
        pair.peer_hears(&hello);
        pair
    }

    fn new(layer: Tls<Echo>, peer: rustls::Connection) -> Self {
        let (wire, clear, heard) = (Vec::new(), Vec::new(), Vec::new());
        let away = VecDeque::new();
        Self {
            layer,
            peer,
            wire,
            clear,
            closed: false,
            away,
            turns_away: 0,
            turns: 0,
            heard,
            peer_error: None,
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.layer.handle(Instant::START, input);
    }

    fn turn_end(&mut self) {
        self.turns += 1;
        if self.turns > self.turns_away {
            while let Some(outcome) = self.away.pop_front() {
                self.layer.take_outcome(Instant::START, outcome);
            }
        }
        self.input(Input::TurnEnd);
        while let Some(handshake) = self.layer.poll_handshake() {
            let outcome = handshake.carry_out();
            if self.turns_away == 0 {
                self.layer.take_outcome(Instant::START, outcome);
            } else {
                self.away.push_back(outcome);
                self.turns = 0;
            }
        }
        let mut sent = Vec::new();
        while let Some(output) = self.layer.poll_output() {
            match output {
                Output::Send { connection, bytes } => {
                    assert_eq!(connection, CONNECTION);
                    assert!(
                        !self.closed || bytes.is_empty(),
                        "nothing follows the end, in the clear least of all"
                    );
                    sent.extend_from_slice(bytes);
                }
                Output::Close { .. } | Output::Abort { .. } => self.closed = true,
                other => panic!("a driver knows nothing of {other:?}"),
            }
        }
        if matches!(self.peer, rustls::Connection::Server(_)) && self.clear.is_empty() {
            self.clear = sent;
        } else {
            self.peer_hears(&sent);
        }
    }

    fn peer_hears(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.peer_error.is_none() {
            self.peer.read_tls(&mut bytes).unwrap();
            if let Err(error) = self.peer.process_new_packets() {
                self.peer_error = Some(error);
            }
            let mut plain = [0; 4096];
            while let Ok(count @ 1..) = self.peer.reader().read(&mut plain) {
                self.heard.extend_from_slice(&plain[..count]);
            }
        }
    }

    /// Turns until neither side has anything to say. So many bytes arrive at a time, and so many times in one turn.
    fn run(&mut self, piece: usize, pieces_per_turn: usize) {
        loop {
            self.peer.write_tls(&mut self.wire).unwrap();
            let idle = self.wire.is_empty() && !self.peer.wants_write() && self.away.is_empty();
            if idle && self.layer.next_timeout().is_none() || self.closed {
                return;
            }
            for _ in 0..pieces_per_turn {
                let rest = self.wire.split_off(self.wire.len().min(piece));
                let bytes = std::mem::replace(&mut self.wire, rest);
                if !bytes.is_empty() {
                    self.input(Input::Bytes { connection: CONNECTION, bytes: &bytes });
                }
            }
            self.turn_end();
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.peer.writer().write_all(bytes).unwrap();
    }
}

fn acceptor(authority: &Authority, clients: bool) -> Arc<Acceptor> {
    let authorities = clients.then(|| authority.authorities());
    Arc::new(Acceptor::new(authority.identity("db.example"), authorities.as_ref()).unwrap())
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

fn served(authority: &Authority, version: usize) -> Pair {
    let config = client_config(authority, VERSIONS[version], None);
    let mut pair = Pair::client(&acceptor(authority, false), &config);
    pair.say(b"hello");
    pair.run(usize::MAX, 1);
    assert_eq!(pair.heard, b"hello");
    pair
}
