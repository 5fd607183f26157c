//! How connections end, by either side or by what happens between them.

use super::*;

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
