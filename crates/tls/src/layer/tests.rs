//! The layer around a program that asks for TLS when it is told to and sends back what it hears, with rustls at the other end.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use seam::{CloseReason, ListenerId, Peer, PeerCertificate, TlsVersion};

use super::*;
use crate::{Authorities, Identity, Pem, ServerCheck};

mod away;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Cut anywhere, several to a turn: what is said arrives, the same both ways.
    #[test]
    fn a_client_is_served(
        old in any::<bool>(),
        piece in prop_oneof![1..50_usize, 50..20_000_usize],
        pieces in 1..4_usize,
        turns_away in 0..4_usize,
        said in prop::collection::vec(any::<u8>(), 0..30_000),
    ) {
        let authority = Authority::new();
        let config = client_config(&authority, VERSIONS[usize::from(!old)], None);
        let mut pair = Pair::client(&acceptor(&authority, false), &config);
        pair.turns_away = turns_away;
        pair.peer.set_buffer_limit(None);
        pair.say(&said);
        pair.run(piece, pieces);
        prop_assert_eq!(&pair.heard, &said);
        prop_assert_eq!(&pair.layer.inner.heard, &said);
        let session = &pair.layer.inner.secured[0];
        prop_assert_eq!(session.version, if old { TlsVersion::V1_2 } else { TlsVersion::V1_3 });
        prop_assert!(session.cipher.contains("AES"));
        prop_assert_eq!(&session.peer, &None);
        prop_assert!(pair.layer.inner.ends.is_empty());
    }

    /// Bytes that are no TLS end the connection, with an alert and one word to the program.
    #[test]
    fn noise_is_refused(
        noise in prop::collection::vec(any::<u8>(), 6..200),
        piece in 1..300_usize,
        turns_away in 0..3_usize,
    ) {
        let authority = Authority::new();
        let config = client_config(&authority, VERSIONS[1], None);
        let mut pair = Pair::client(&acceptor(&authority, false), &config);
        pair.turns_away = turns_away;
        pair.peer.write_tls(&mut Vec::new()).unwrap();
        // 22 is a handshake's: what could still become one is waited for.
        pair.wire.push(noise[0] | 0x80);
        pair.wire.extend_from_slice(&noise);
        pair.run(piece, 1);
        prop_assert!(pair.closed);
        prop_assert_eq!(pair.layer.inner.ends.len(), 1);
        prop_assert!(pair.layer.inner.heard.is_empty() && pair.layer.inner.secured.is_empty());
    }
}

fn served(authority: &Authority, version: usize) -> Pair {
    let config = client_config(authority, VERSIONS[version], None);
    let mut pair = Pair::client(&acceptor(authority, false), &config);
    pair.say(b"hello");
    pair.run(usize::MAX, 1);
    assert_eq!(pair.heard, b"hello");
    pair
}

#[test]
fn plain_connections_pass_through() {
    let mut pair = Pair::new(
        Tls::new(Echo::default(), None, None),
        ClientConnection::new(
            client_config(&Authority::new(), VERSIONS[1], None),
            ServerName::try_from("x").unwrap(),
        )
        .unwrap()
        .into(),
    );
    pair.input(Input::Bytes { connection: CONNECTION, bytes: b"plain" });
    assert_eq!(pair.layer.inner.plain, b"plain");
    pair.layer.inner.outputs.push_back(Owned::Send(b"answer".to_vec()));
    assert_eq!(pair.layer.poll_output(), Some(Output::Send { connection: CONNECTION, bytes: b"answer" }));
    assert_eq!(pair.layer.poll_output(), None);
    let reason = CloseReason::EndOfStream;
    pair.input(Input::Closed { connection: CONNECTION, reason });
    assert_eq!(pair.layer.inner.ends, ["EndOfStream"]);
}

#[test]
fn without_a_certificate_there_is_no_tls() {
    let config = client_config(&Authority::new(), VERSIONS[1], None);
    let mut pair = Pair::client(&acceptor(&Authority::new(), false), &config);
    pair.layer.table.acceptor = None;
    pair.run(usize::MAX, 1);
    assert!(pair.closed);
    assert_eq!(pair.layer.inner.ends, ["there is no certificate"]);
}

#[test]
fn the_peers_last_words_come_before_its_end() {
    for version in [0, 1] {
        let mut pair = served(&Authority::new(), version);
        pair.say(b" and goodbye");
        pair.peer.send_close_notify();
        pair.run(usize::MAX, 1);
        assert_eq!(pair.layer.inner.heard, b"hello and goodbye");
        assert_eq!(pair.layer.inner.ends, ["EndOfStream"]);
        assert!(pair.closed, "closed on our side too");
        // The driver has forgotten it; a late message changes nothing.
        pair.input(Input::Bytes { connection: ConnectionId { generation: 4, ..CONNECTION }, bytes: b"late" });
        assert_eq!(pair.layer.inner.ends.len(), 1);
    }
}

#[test]
fn our_end_is_said_inside_and_outside() {
    for version in [0, 1] {
        let mut pair = served(&Authority::new(), version);
        pair.layer.inner.outputs.extend([Owned::Send(b" bye".to_vec()), Owned::Close]);
        pair.turn_end();
        assert!(pair.closed);
        assert_eq!(pair.heard, b"hello bye");
        assert!(pair.peer.process_new_packets().unwrap().peer_has_closed());
        assert!(pair.layer.table.entries.iter().all(Option::is_none));
    }
}

#[test]
fn nothing_is_said_of_an_abort() {
    for version in [0, 1] {
        let mut pair = served(&Authority::new(), version);
        pair.layer.inner.outputs.extend([Owned::Abort, Owned::Send(b" bye".to_vec())]);
        pair.turn_end();
        assert!(pair.closed);
        assert_eq!(pair.heard, b"hello");
        assert!(!pair.peer.process_new_packets().unwrap().peer_has_closed());
        assert!(pair.layer.table.entries.iter().all(Option::is_none));
    }
}

#[test]
fn what_is_altered_on_its_way_ends_the_connection_with_an_alert() {
    for version in [0, 1] {
        let mut pair = served(&Authority::new(), version);
        pair.say(b"tampered");
        pair.peer.write_tls(&mut pair.wire).unwrap();
        *pair.wire.last_mut().unwrap() ^= 1;
        pair.run(usize::MAX, 1);
        assert!(pair.closed);
        assert_eq!(pair.layer.inner.heard, b"hello");
        assert_eq!(pair.layer.inner.ends.len(), 1);
        let alert = pair.peer_error.unwrap();
        assert_eq!(alert, Error::AlertReceived(rustls::AlertDescription::BadRecordMac));
    }
}

#[test]
fn a_handshake_without_an_end_is_not_waited_for() {
    let authority = Authority::new();
    let config = client_config(&authority, VERSIONS[1], None);
    let mut pair = Pair::client(&acceptor(&authority, false), &config);
    // A message of 16 MiB announced, in records of 1 KiB.
    pair.wire.extend_from_slice(&[22, 3, 1, 4, 0, 1, 0, 255, 255]);
    pair.wire.extend_from_slice(&[0; 1020]);
    for _ in 0..100 {
        pair.wire.extend_from_slice(&[22, 3, 1, 4, 0]);
        pair.wire.extend_from_slice(&[0; 1024]);
    }
    pair.run(999, 1);
    assert!(pair.closed);
    assert_eq!(pair.layer.inner.ends.len(), 1);
}

#[test]
fn a_clients_certificate_is_checked_and_named() {
    let authority = Authority::new();
    let acceptor = acceptor(&authority, true);
    for version in VERSIONS {
        let config = client_config(&authority, version, Some(&authority.sign("app")));
        let mut pair = Pair::client(&acceptor, &config);
        pair.run(usize::MAX, 1);
        let found = pair.layer.inner.secured[0].peer.as_deref();
        let expected = PeerCertificate { subject: "/CN=app".into(), issuer: "/CN=authority".into() };
        assert_eq!(found, Some(&expected));
        // None is fine for TLS; whether it is for the account is the server's to say.
        let mut pair = Pair::client(&acceptor, &client_config(&authority, version, None));
        pair.run(usize::MAX, 1);
        assert_eq!(pair.layer.inner.secured[0].peer, None);
        let stranger = Authority::new().sign("app");
        let mut pair = Pair::client(&acceptor, &client_config(&authority, version, Some(&stranger)));
        pair.run(usize::MAX, 1);
        assert!(pair.closed && pair.layer.inner.ends.len() == 1);
        assert!(matches!(pair.peer_error, Some(Error::AlertReceived(_))), "{:?}", pair.peer_error);
    }
}

#[test]
fn clients_come_back_with_tickets_until_the_certificate_changes() {
    for version in VERSIONS {
        let authority = Authority::new();
        let acceptor = acceptor(&authority, false);
        let config = client_config(&authority, version, None);
        let kind = || {
            let mut pair = Pair::client(&acceptor, &config);
            pair.say(b"x");
            pair.run(usize::MAX, 1);
            pair.peer.handshake_kind().unwrap()
        };
        assert_ne!(kind(), HandshakeKind::Resumed);
        assert_eq!(kind(), HandshakeKind::Resumed);
        acceptor.change(authority.identity("db.example"), None).unwrap();
        assert_ne!(kind(), HandshakeKind::Resumed);
        assert_eq!(kind(), HandshakeKind::Resumed);
    }
}

fn server_config(authority: &Authority, name: &str, clients: bool) -> ServerConfig {
    let (chain, key) = chain_and_key(&authority.sign(name));
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    if clients {
        let roots = authority.authorities().store;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
        return builder.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    }
    builder.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

/// What becomes of a connection to a server with a certificate of `signer` for `name`.
fn connected(
    check: ServerCheck,
    authority: &Authority,
    signer: &Authority,
    name: &str,
) -> Result<(), String> {
    let authorities = (check != ServerCheck::None).then(|| authority.authorities());
    let connector = Connector::new(check, authorities.as_ref(), None).unwrap();
    let mut pair = Pair::server(connector, server_config(signer, name, false));
    pair.say(b"greeting");
    pair.run(100, 2);
    match pair.layer.inner.ends.pop() {
        None => {
            assert_eq!(pair.heard, b"greeting", "sent back");
            Ok(())
        }
        Some(reason) => {
            assert!(pair.closed && pair.layer.inner.heard.is_empty());
            assert!(matches!(pair.peer_error, Some(Error::AlertReceived(_))));
            Err(reason)
        }
    }
}

#[test]
fn a_server_is_checked_as_far_as_asked_for() {
    let (ours, others) = (Authority::new(), Authority::new());
    for (check, signer, name, fine) in [
        (ServerCheck::Name, &ours, "db.example", true),
        (ServerCheck::Name, &ours, "other.example", false),
        (ServerCheck::Name, &others, "db.example", false),
        (ServerCheck::Authority, &ours, "other.example", true),
        (ServerCheck::Authority, &others, "db.example", false),
        (ServerCheck::None, &others, "other.example", true),
    ] {
        let outcome = connected(check, &ours, signer, name);
        assert_eq!(outcome.is_ok(), fine, "{check:?} {name}: {outcome:?}");
        if let Err(reason) = outcome {
            assert!(reason.contains("certificate"), "{reason}");
        }
    }
    assert!(Connector::new(ServerCheck::Name, None, None).is_err());
}

#[test]
fn a_server_that_asks_gets_our_certificate() {
    let authority = Authority::new();
    let identity = Some(authority.identity("onramp"));
    let connector = Connector::new(ServerCheck::None, None, identity).unwrap();
    let mut pair = Pair::server(connector, server_config(&authority, "db.example", true));
    pair.say(b"greeting");
    pair.run(usize::MAX, 1);
    assert_eq!(pair.heard, b"greeting");
    assert_eq!(pair.peer.peer_certificates().map(<[_]>::len), Some(1));
}

#[test]
fn a_key_has_to_belong_to_its_certificate() {
    let authority = Authority::new();
    let (certificate, _) = authority.sign("a");
    let (_, key) = authority.sign("b");
    let refused = |certificate: &Pem, key: &Pem| {
        let faults = Identity::from_pem(certificate, key).err().unwrap();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(refused(&certificate, &key), ["the key is not the key of the certificate in the certificate"]);
    assert_eq!(refused(&key, &key), ["the key holds no certificate (PEM)"]);
    let [fault] = &refused(&certificate, &certificate)[..] else { panic!("one is wrong") };
    assert!(fault.starts_with("the certificate holds no private key"), "{fault}");
    let [first, second] = &refused(&key, &certificate)[..] else { panic!("both are wrong") };
    assert_eq!(first, "the key holds no certificate (PEM)");
    assert!(second.starts_with("the certificate holds no private key"), "{second}");
    assert!(Acceptor::new(Identity::self_signed().unwrap(), None).is_ok());
}
