//! Clients that are served, or are not.

use proptest::prelude::*;
use seam::{CloseReason, TlsVersion};

use super::*;

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
