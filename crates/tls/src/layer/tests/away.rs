//! Clients' handshakes while they are away from the layer.

use seam::CloseReason;

use super::*;

/// A layer with clients whose first message has come.
fn greeted(clients: u32) -> Tls<Echo> {
    greeted_from(&vec![1; clients as usize])
}

/// Likewise, each from one of several networks.
fn greeted_from(networks: &[u8]) -> Tls<Echo> {
    let authority = Authority::new();
    let config = client_config(&authority, VERSIONS[1], None);
    let mut layer = Tls::new(Echo::default(), Some(acceptor(&authority, false)), None);
    for (index, &last) in (0..).zip(networks) {
        let network = Some(IpAddr::from([10, 0, 0, last]));
        let connection = ConnectionId { index, generation: 0 };
        layer.table.start(Instant::START, connection, TlsSide::Server { network }, &mut Buffers::default());
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
    layer.table.start(Instant::START, newcomer, TlsSide::Server { network: None }, &mut Buffers::default());
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

/// However many handshakes one address has opened: who comes from elsewhere waits for those that are away, not for them.
#[test]
fn one_network_does_not_hold_up_the_others() {
    let mut networks = vec![1; 200];
    networks.extend([2, 3]);
    let mut layer = greeted_from(&networks);
    layer.handle(Instant::START, Input::TurnEnd);
    let mut order = Vec::new();
    while let Some(handshake) = layer.poll_handshake() {
        layer.take_outcome(Instant::START, handshake.carry_out());
        order.extend(answered(&mut layer));
    }
    assert_eq!(order[..4], [0, 200, 201, 1]);
    assert_eq!(order.len(), networks.len());
}

#[test]
fn a_handshake_that_is_lost_ends_its_connection_alone() {
    let mut layer = greeted(MOST_AWAY as u32 + 1);
    let away: Vec<_> = std::iter::from_fn(|| layer.poll_handshake()).collect();
    for handshake in &away {
        layer.take_outcome(Instant::START, handshake.lost());
    }
    assert_eq!(layer.inner.ends, [LOST; MOST_AWAY]);
    let last = layer.poll_handshake().expect("there is room again");
    layer.take_outcome(Instant::START, last.carry_out());
    assert_eq!(answered(&mut layer), [MOST_AWAY as u32]);
}

#[test]
fn handshakes_that_hold_most_and_longest_end_for_others() {
    let held = Rc::new(Cell::new(0));
    let most = 100_000;
    let mut layer = greeted(0).bounded(Rc::clone(&held), most);
    let begin = |layer: &mut Tls<Echo>, at: u64, index: u32, bytes: usize| {
        let connection = ConnectionId { index, generation: 0 };
        let side = TlsSide::Server { network: None };
        let now = Instant::from_micros(at);
        layer.table.start(now, connection, side, &mut Buffers::default());
        layer.handle(now, Input::Bytes { connection, bytes: &vec![22; bytes] });
        assert!(held.get() <= most);
    };
    for (at, index, bytes) in
        [(1, 1, 30_000), (2, 2, 500), (3, 3, 400), (4, 4, 31_000), (5, 5, 30_000), (6, 6, 9000)]
    {
        begin(&mut layer, at, index, bytes);
    }
    assert_eq!(closed(&mut layer), [4]);
    for index in 10..220 {
        begin(&mut layer, u64::from(index), index, 600);
    }
    let closed = closed(&mut layer);
    assert_eq!(closed[..5], [1, 5, 6, 2, 3]);
    assert!(closed[5..].is_sorted() && closed.iter().all(|&index| index < 200), "{closed:?}");
    for index in 0..220 {
        let reason = CloseReason::EndOfStream;
        layer.handle(
            Instant::from_micros(300),
            Input::Closed { connection: ConnectionId { index, generation: 0 }, reason },
        );
    }
    assert_eq!(held.get(), 0);
}

fn closed(layer: &mut Tls<Echo>) -> Vec<u32> {
    let mut closed = Vec::new();
    while let Some(output) = layer.poll_output() {
        if let Output::Close { connection } = output {
            closed.push(connection.index);
        }
    }
    closed
}
