//! Servers that the program connects to.

use super::*;
use crate::ServerCheck;

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
