//! Turns, time, signals and ids.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use drivers::Settings;
use seam::{ConnectionId, Input, Signal};

use crate::support::{Controls, TestDriver, listening, listening_with, run, run_with_peer};

pub fn signals_wake_the_loop_in_order<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let mut signals = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Signal(signal) = input {
            signals.push(signal);
            if signals.len() == 100 {
                controls.finish();
            }
        }
    };
    run_with_peer(&mut driver, react, |signaller| {
        for _ in 0..100 {
            // By a thread of its own, so that each may find the loop asleep or awake.
            let signaller = signaller.clone();
            std::thread::spawn(move || signaller.send(Signal::Drain)).join().unwrap();
        }
    });
    assert_eq!(signals, [Signal::Drain; 100]);

    let signaller = driver.signaller();
    signaller.send(Signal::Drain);
    signaller.send(Signal::Stop);
    signals.clear();
    run(&mut driver, |_, input, _| {
        if let Input::Signal(signal) = input {
            signals.push(signal);
        }
    });
    assert_eq!(signals, [Signal::Drain, Signal::Stop]);
}

/// Counting looks at every connection, which is too much for what workers send each other all the time; a look from outside gets
/// what is known without.
pub fn reports_are_counted_and_wakes_are_not<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let (heard, is_heard) = mpsc::channel();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => controls.send(connection, "!"),
        Input::Signal(Signal::Drain) => controls.finish(),
        Input::Signal(_) => heard.send(()).unwrap(),
        _ => {}
    };
    let seen = run_with_peer(&mut driver, react, move |signaller| {
        let mut peers = Vec::new();
        let mut seen = Vec::new();
        for signal in [Signal::Wake, Signal::Report, Signal::Wake, Signal::Look, Signal::Report] {
            let mut peer = TcpStream::connect(address).unwrap();
            peer.read_exact(&mut [0]).unwrap();
            peers.push(peer);
            signaller.send(signal);
            is_heard.recv().unwrap();
            let counters = signaller.counters();
            seen.push((counters.open_connections, counters.memory_bytes()));
        }
        signaller.send(Signal::Drain);
        seen
    });
    assert_eq!(seen, [(0, 0), (2, seen[1].1), (2, seen[1].1), (4, seen[1].1), (5, seen[4].1)]);
    assert!(seen[1].1 > 0, "{seen:?}");
}

pub fn timeouts_fire_without_a_busy_loop<D: TestDriver>() {
    const TIMEOUTS: u64 = 10;
    let mut driver = D::create(Settings::default()).unwrap();
    let (mut fired, mut next) = (0, None);
    run(&mut driver, |now, input, controls| {
        assert!(matches!(input, Input::TurnEnd), "{input:?}");
        // 20.5 ms: no whole number of what the kernel counts in.
        let deadline = *next.get_or_insert(now + Duration::from_micros(20_500));
        if now >= deadline {
            fired += 1;
            next = Some(now + Duration::from_micros(20_500));
        }
        controls.wake_at(next);
        if fired == TIMEOUTS {
            controls.finish();
        }
    });
    // The first turn, one for each timeout, and room for interruptions; a busy loop makes thousands.
    assert!(driver.counters().turns <= 3 * TIMEOUTS, "{:?}", driver.counters());
}

pub fn a_turn_ends_after_its_inputs<D: TestDriver>() {
    const PEERS: usize = 20;
    let (mut driver, address) = listening::<D>();
    let mut peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (mut accepted, mut in_this_turn, mut at_turn_end) = (0, 0, 0);
    let signaller = driver.signaller();
    run(&mut driver, |_, input, controls| match input {
        Input::Accepted { .. } => {
            accepted += 1;
            if accepted == PEERS {
                // All are ready at once; the signal comes first.
                peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
                signaller.send(Signal::Drain);
            }
        }
        Input::Signal(Signal::Drain) => assert_eq!(in_this_turn, 0),
        Input::Bytes { .. } => in_this_turn += 1,
        Input::TurnEnd => {
            at_turn_end = at_turn_end.max(in_this_turn);
            if in_this_turn > 0 {
                controls.finish();
            }
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(at_turn_end, PEERS);
}

pub fn stale_ids_are_ignored<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut accepted: Vec<ConnectionId> = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => {
            if let Some(gone) = accepted.first() {
                assert_eq!(connection.index, gone.index, "the slot is used again");
                assert_ne!(connection.generation, gone.generation);
                let never = ConnectionId { index: 1_000_000, generation: 0 };
                for stale in [*gone, never] {
                    controls.send(stale, "for somebody else");
                    controls.pause(stale);
                    controls.resume(stale);
                    controls.close(stale);
                }
            }
            accepted.push(connection);
        }
        Input::Bytes { connection, bytes } => controls.send(connection, bytes),
        Input::Closed { .. } if accepted.len() == 2 => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {
        for _ in 0..2 {
            let mut peer = TcpStream::connect(address).unwrap();
            peer.write_all(b"mine").unwrap();
            let mut echo = [0; 4];
            peer.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, b"mine");
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(peer.read(&mut echo).unwrap(), 0);
        }
    });
    assert_eq!(accepted.len(), 2);
}

pub fn the_largest_settings_are_taken<D: TestDriver>() {
    let settings = Settings {
        high_water: usize::MAX,
        low_water: usize::MAX,
        accepts_per_turn: usize::MAX,
        connections_per_ring: u32::MAX,
        buffers_per_ring: u16::MAX,
        ..Settings::default()
    };
    let (mut driver, address) = listening_with::<D>(settings);
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => controls.send(connection, bytes),
        Input::Closed { .. } => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"x").unwrap();
        peer.read_exact(&mut [0]).unwrap();
    });
}

pub fn settings_out_of_range_are_refused<D: TestDriver>() {
    let usual = Settings::default;
    for settings in [
        Settings { receive_buffer: 0, ..usual() },
        Settings { events_per_turn: 0, ..usual() },
        Settings { accepts_per_turn: 0, ..usual() },
        Settings { high_water: 10, low_water: 11, ..usual() },
    ] {
        let described = format!("{settings:?}");
        let error = D::create(settings).err().unwrap_or_else(|| panic!("{described} was taken"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
