//! Clients' handshakes while they are away from the layer.

use super::*;

/// A layer with clients whose first message has come.
fn greeted(clients: u32) -> Tls<Echo> {
    let authority = Authority::new();
    let config = client_config(&authority, VERSIONS[1], None);
    let mut layer = Tls::new(Echo::default(), Some(acceptor(&authority, false)), None);
    for index in 0..clients {
        let connection = ConnectionId { index, generation: 0 };
        layer.table.start(connection, TlsSide::Server, &mut Buffers::default());
        let name = ServerName::try_from("db.example").unwrap();
        let mut hello = Vec::new();
        ClientConnection::new(Arc::clone(&config), name).unwrap().write_tls(&mut hello).unwrap();
        layer.handle(Instant::START, Input::Bytes { connection, bytes: &hello });
    }
    layer
}

/// Which clients the layer answers.
fn answered(layer: &mut Tls<Echo>) -> Vec<u32> {
    let mut answered = Vec::new();
    while let Some(output) = layer.poll_output() {
        if let Output::Send { connection, bytes: [_, ..] } = output {
            answered.push(connection.index);
        }
    }
    answered.dedup();
    answered
}

#[test]
fn some_handshakes_are_away_at_a_time() {
    let mut layer = greeted(6);
    assert_eq!(layer.next_timeout(), Some(Instant::START), "at once");
    layer.handle(Instant::START, Input::TurnEnd);
    let mut away: VecDeque<_> = std::iter::from_fn(|| layer.poll_handshake()).collect();
    assert_eq!(away.len(), MOST_AWAY);
    assert_eq!(answered(&mut layer), []);
    assert_eq!(layer.next_timeout(), None, "the others wait until one is back");
    for expected in 0..6 {
        let outcome = away.pop_front().unwrap().carry_out();
        layer.take_outcome(Instant::START, outcome);
        layer.handle(Instant::START, Input::TurnEnd);
        away.extend(layer.poll_handshake());
        assert_eq!(answered(&mut layer), [expected]);
    }
    assert!(away.is_empty());
}

#[test]
fn a_client_that_goes_while_its_handshake_is_away_is_forgotten() {
    let mut layer = greeted(6);
    layer.handle(Instant::START, Input::TurnEnd);
    let away: Vec<_> = std::iter::from_fn(|| layer.poll_handshake()).collect();
    // Two of those that are away, and one that waits.
    for index in [0, 2, 4] {
        let connection = ConnectionId { index, generation: 0 };
        layer.handle(Instant::START, Input::Closed { connection, reason: CloseReason::EndOfStream });
    }
    // In the place of one of them there is another connection by now.
    let newcomer = ConnectionId { index: 0, generation: 1 };
    layer.table.start(newcomer, TlsSide::Server, &mut Buffers::default());
    for handshake in away {
        layer.take_outcome(Instant::START, handshake.carry_out());
    }
    let more: Vec<_> = std::iter::from_fn(|| layer.poll_handshake()).collect();
    assert_eq!(more.len(), 1, "nobody asks for the one that has gone");
    for handshake in more {
        layer.take_outcome(Instant::START, handshake.carry_out());
    }
    assert_eq!(answered(&mut layer), [1, 3, 5]);
    assert_eq!(layer.inner.ends, ["EndOfStream"; 3]);
    assert!(layer.next_timeout().is_none() && layer.table.away == 0);
}

#[test]
fn while_a_handshake_is_away_no_end_of_bytes_is_kept() {
    let mut layer = greeted(1);
    let away = layer.poll_handshake().unwrap();
    let connection = ConnectionId { index: 0, generation: 0 };
    for _ in 0..3 {
        layer.handle(Instant::START, Input::Bytes { connection, bytes: &[0; LARGEST_HANDSHAKE / 2] });
    }
    assert_eq!(layer.inner.ends, [ENDLESS]);
    layer.take_outcome(Instant::START, away.carry_out());
    assert_eq!(answered(&mut layer), []);
}
