//! Bytes arrive complete and in order, whatever the sizes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use drivers::Settings;
use seam::{ConnectionId, Input, Instant, Signal};

use crate::support::{
    Controls, TestDriver, assert_pattern, listening, listening_on_unix, listening_with, pattern,
    read_pattern, report, run_with_peer,
};

const MIB: usize = 1 << 20;

pub fn echo_in_pieces<D: TestDriver>() {
    // Smaller than what the peer writes, so that most of it has to wait for later turns.
    let settings = Settings { receive_buffer: 1000, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => {
            assert!(bytes.len() <= 1000);
            controls.send(connection, bytes);
        }
        Input::Closed { .. } => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        let mut writer = peer.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut from = 0;
                // Odd sizes, from one byte to more than the receive buffer.
                for length in (1..).step_by(97).take_while(|length| *length < 14_000) {
                    writer.write_all(&pattern(from, length)).unwrap();
                    from += length;
                }
                writer.write_all(&pattern(from, 2 * MIB - from)).unwrap();
            });
            let mut echoed = vec![0; 2 * MIB];
            peer.read_exact(&mut echoed).unwrap();
            assert!(echoed == pattern(0, 2 * MIB));
        });
    });
    let counters = driver.counters();
    assert_eq!(counters.bytes_received, 2 * MIB as u64);
    assert_eq!(counters.bytes_sent, 2 * MIB as u64);
    assert_eq!(counters.accepts, 1);
}

pub fn many_small_writes_stay_in_order<D: TestDriver>() {
    const WRITES: usize = 50_000;
    const LENGTH: usize = 7;
    let (mut driver, address) = listening::<D>();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => {
            for write in 0..WRITES {
                controls.send(connection, pattern(write * LENGTH, LENGTH));
            }
            controls.close(connection);
            controls.finish();
        }
        Input::Closed { reason, .. } => panic!("closed: {reason:?}"),
        _ => {}
    };
    let total =
        run_with_peer(&mut driver, react, |_| read_pattern(&mut TcpStream::connect(address).unwrap()));
    assert_eq!(total, WRITES * LENGTH);
}

/// What the system has taken is known turns later than it was sent, to many, some of which are behind.
pub fn turns_of_one_event_lose_nothing<D: TestDriver>() {
    const PEERS: usize = 8;
    // More than a Unix socket holds, so that some of it is sent in part and some not at all.
    const TOTAL: usize = MIB;
    let settings = Settings { events_per_turn: 1, receive_buffer: 4096, ..Settings::default() };
    let (mut driver, path) = listening_on_unix::<D>(settings);
    let mut closed = 0;
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => controls.send(connection, bytes),
        Input::Closed { .. } => {
            closed += 1;
            if closed == PEERS {
                controls.finish();
            }
        }
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {
        std::thread::scope(|scope| {
            for number in 0..PEERS {
                let mut peer = UnixStream::connect(&*path).unwrap();
                scope.spawn(move || {
                    let mut writer = peer.try_clone().unwrap();
                    let write = move || writer.write_all(&pattern(number, TOTAL)).unwrap();
                    // Half of them begin to read when they have written all.
                    let mut writing = Some(std::thread::spawn(write));
                    if number % 2 == 0 {
                        writing.take().unwrap().join().unwrap();
                    }
                    let mut echoed = vec![0; TOTAL];
                    peer.read_exact(&mut echoed).unwrap();
                    assert_pattern(number, &echoed);
                    if let Some(writing) = writing {
                        writing.join().unwrap();
                    }
                });
            }
        });
    });
    assert_eq!(driver.counters().bytes_sent, (PEERS * TOTAL) as u64);
}

/// Sends to a connection as long as it does not stall.
struct Sender {
    connection: Option<ConnectionId>,
    sent: usize,
    stalled: bool,
    stalls: usize,
}

pub fn slow_readers_stall_and_drain_and_lose_nothing<D: TestDriver>() {
    const TOTAL: usize = 64 * MIB;
    let (mut driver, address) = listening::<D>();
    let (stalled, is_stalled) = mpsc::channel();
    let mut sender = Sender { connection: None, sent: 0, stalled: false, stalls: 0 };
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        match input {
            Input::Accepted { connection, .. } => sender.connection = Some(connection),
            // Said again as the peer takes some.
            Input::Stalled { .. } if sender.stalled => {}
            Input::Stalled { connection } => {
                sender.stalled = true;
                sender.stalls += 1;
                // Tells the peer to read, and must not lead to another `Stalled`.
                controls.send(connection, pattern(sender.sent, MIB));
                sender.sent += MIB;
                stalled.send(()).unwrap();
            }
            Input::Drained { .. } => {
                assert!(sender.stalled, "drained without being stalled");
                sender.stalled = false;
            }
            Input::Closed { reason, .. } => panic!("closed: {reason:?}"),
            _ => {}
        }
        // Goes on at once for as long as there is something to send.
        controls.wake_at(None);
        if let (Input::TurnEnd, Some(connection), false) = (&input, sender.connection, sender.stalled) {
            if sender.sent < TOTAL {
                controls.send(connection, pattern(sender.sent, MIB));
                sender.sent += MIB;
                controls.wake_at(Some(Instant::START));
            } else {
                controls.close(connection);
                controls.finish();
            }
        }
    };
    let total = run_with_peer(&mut driver, react, move |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        is_stalled.recv().unwrap();
        read_pattern(&mut peer)
    });
    assert!(sender.stalls >= 1);
    assert!(total >= TOTAL);
    assert_eq!(total, sender.sent);
    assert_eq!(driver.counters().bytes_sent, total as u64);
}

/// A peer that never takes all there is, and never falls behind by more: what it has taken is not kept.
pub fn peers_that_are_always_behind_cost_no_more_than_that<D: TestDriver>() {
    /// More than the kernel holds for a Unix socket, so that most of it is unsent all the time.
    const BEHIND: usize = 1_000_000;
    const PIECE: usize = 16 << 10;
    const PIECES: usize = 1500;
    let (mut driver, path) =
        listening_on_unix::<D>(Settings { high_water: 2 * BEHIND, ..Settings::default() });
    let (reported, is_reported) = mpsc::channel();
    let mut sent = 0;
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        let (connection, length) = match input {
            Input::Accepted { connection, .. } => (connection, BEHIND),
            Input::Bytes { connection, bytes } => (connection, bytes.len() * PIECE),
            Input::Stalled { .. } => panic!("there are never more than {BEHIND} unsent"),
            Input::Signal(Signal::Report) => return reported.send(()).unwrap(),
            Input::Signal(Signal::Drain) => return controls.finish(),
            _ => return,
        };
        controls.send(connection, pattern(sent, length));
        sent += length;
    };
    let mut peer = UnixStream::connect(&*path).unwrap();
    let counters = run_with_peer(&mut driver, react, move |signaller| {
        let mut piece = vec![0; PIECE];
        for number in 0..PIECES {
            peer.read_exact(&mut piece).unwrap();
            assert_pattern(number * PIECE, &piece);
            peer.write_all(b"m").unwrap();
        }
        let counters = report(&signaller, &is_reported);
        signaller.send(Signal::Drain);
        counters
    });
    // 23 MiB went through. What is unsent may be kept once more as already sent, and a vector has room to grow.
    assert!(counters.send_buffer_bytes <= 4 * BEHIND as u64, "{counters:?}");
}

pub fn drained_comes_at_the_low_water_mark<D: TestDriver>() {
    const TOTAL: usize = 48 * MIB;
    // More than the kernel holds for a peer with a small receive buffer: without reading, the rest cannot be sent.
    const LOW_WATER: usize = 24 * MIB;
    let settings = Settings { high_water: LOW_WATER, low_water: LOW_WATER, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let (stalled, is_stalled) = mpsc::channel();
    let (drained, is_drained) = mpsc::channel();
    let mut events = Vec::new();
    let told = &mut events;
    // The senders go with it: a driver that fails leaves no peer waiting.
    let react = move |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => controls.send(connection, pattern(0, TOTAL)),
        Input::Stalled { .. } => {
            told.push("stalled");
            stalled.send(()).unwrap();
        }
        Input::Drained { connection } => {
            told.push("drained");
            drained.send(()).unwrap();
            controls.close(connection);
            controls.finish();
        }
        _ => {}
    };
    run_with_peer(&mut driver, react, move |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 64 << 10).unwrap();
        // Whoever reads before that may take as much as is sent, so that nothing stalls.
        is_stalled.recv().unwrap();
        let mut first = vec![0; TOTAL - LOW_WATER];
        peer.read_exact(&mut first).unwrap();
        is_drained.recv().unwrap();
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).unwrap();
        assert_pattern(0, &first);
        assert_pattern(first.len(), &rest);
        assert_eq!(first.len() + rest.len(), TOTAL);
    });
    // Said again as the peer takes some, but once at its end.
    events.dedup();
    assert_eq!(events, ["stalled", "drained"]);
}

/// A writable socket is nearly always ready: a driver that goes on asking for it loops.
pub fn drained_connections_leave_the_driver_at_rest<D: TestDriver>() {
    const TOTAL: usize = 8 * MIB;
    let (mut driver, address) = listening::<D>();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => controls.send(connection, pattern(0, TOTAL)),
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |signaller| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.read_exact(&mut vec![0; TOTAL]).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        signaller.send(Signal::Drain);
    });
    // A turn per piece that the kernel takes is some hundred; a busy loop makes tens of thousands in that time.
    assert!(driver.counters().turns < 5000, "{:?}", driver.counters());
}
