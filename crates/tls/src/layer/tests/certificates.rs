//! Certificates: those of clients, one that changes, and keys that belong to them.

use rustls::HandshakeKind;
use seam::PeerCertificate;

use super::*;

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
