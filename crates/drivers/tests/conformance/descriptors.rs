//! Descriptors: none is lost, and having none left is survived. Each of these scenarios needs a process of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use drivers::{ListenAddress, Settings};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seam::{Address, CloseReason, Input, Signal};

use crate::support::{
    BACKLOG, Controls, TemporaryPath, TestDriver, listening, listening_with, report, reset_on_drop, run,
    run_with_peer,
};

pub fn opening_and_closing_leaks_nothing<D: TestDriver>() {
    const OPENS: usize = 20_000;
    let before = open_descriptors();
    let (mut driver, address) = listening::<D>();
    let path = TemporaryPath::new();
    driver.listen(&ListenAddress::Unix(path.to_owned()), BACKLOG).unwrap();
    let with_driver = open_descriptors();
    let mut highest = 0;
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => {
            highest = highest.max(connection.index);
            controls.send(connection, "?");
        }
        // The peer says who closes.
        Input::Bytes { connection, bytes: b"you" } => controls.close(connection),
        Input::Bytes { connection, .. } => controls.send(connection, "!"),
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |signaller| {
        for open in 0..OPENS {
            if open % 2 == 0 {
                let mut peer = TcpStream::connect(address).unwrap();
                // Leaves no TIME_WAIT behind, of which there are not 20,000 to be had.
                reset_on_drop(&peer);
                open_and_close(&mut peer, open % 4 == 0);
            } else {
                open_and_close(&mut UnixStream::connect(&*path).unwrap(), open % 4 == 1);
            }
        }
        signaller.send(Signal::Drain);
    });
    let counters = driver.counters();
    assert_eq!(counters.accepts, OPENS as u64);
    assert_eq!(counters.open_connections, 0);
    // One peer at a time, and the one before may not have been noticed yet.
    assert!(highest < 8, "slot {highest} was used");
    // The listeners have gone with the program.
    assert_eq!(open_descriptors(), with_driver - 2);
    drop(driver);
    assert_eq!(open_descriptors(), before);
}

pub fn running_out_of_descriptors_pauses_accepting<D: TestDriver>() {
    const PEERS: usize = 40;
    /// Descriptors left to the driver.
    const SPARE: u64 = 5;
    let (mut driver, address) = listening::<D>();
    let mut peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The next descriptor is the lowest free one, so with none free below the last the limit is just above it.
    let last = peers.last().unwrap().as_raw_fd() as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(last + 1 + SPARE), maximum: limit.maximum }).unwrap();
    let (mut accepted, mut closed) = (0, 0);
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { .. } => accepted += 1,
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
        // A driver that spins has time for it here.
        std::thread::sleep(Duration::from_millis(350));
        for mut peer in peers.drain(..) {
            peer.write_all(b"x").unwrap();
            peer.read_exact(&mut [0]).unwrap();
        }
    });
    assert_eq!((accepted, closed), (PEERS, PEERS));
    let counters = driver.counters();
    assert_eq!(counters.accept_pauses >= 1, D::TAKES_DESCRIPTORS, "{counters:?}");
    // A few per peer; a busy loop makes tens of thousands.
    assert!(counters.turns < 1000, "{counters:?}");
}

/// The driver runs out of descriptors at the end of a turn, gets some back, and hears of nothing else.
pub fn a_pause_of_accepting_is_over_by_itself<D: TestDriver>() {
    // With two connections in the first table the third needs another, and that a descriptor.
    let settings = Settings { connections_per_ring: 2, accepts_per_turn: 1, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut peers: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: limit.maximum }).unwrap();
    let (reported, is_reported) = mpsc::channel();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => controls.send(connection, "!"),
        Input::Signal(Signal::Report) => reported.send(()).unwrap(),
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, move |signaller| {
        while report(&signaller, &is_reported).accept_pauses == 0 {}
        // Time for a further pause, which nothing but its end can end.
        std::thread::sleep(Duration::from_millis(350));
        setrlimit(Resource::Nofile, limit).unwrap();
        peers.iter_mut().for_each(|peer| peer.read_exact(&mut [0]).unwrap());
        signaller.send(Signal::Drain);
    });
    let counters = driver.counters();
    assert_eq!(counters.accepts, 3);
    assert!(counters.accept_pauses >= 1, "{counters:?}");
}

/// A client that is paused resets its connection when nobody can open anything.
pub fn resets_are_noticed_without_descriptors<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut peer = Some(TcpStream::connect(address).unwrap());
    let limit = getrlimit(Resource::Nofile);
    let (mut turns, mut closed) = (0, None);
    run(&mut driver, |now, input, controls| match input {
        Input::Accepted { connection, .. } => controls.pause(connection),
        Input::TurnEnd if turns < 3 => {
            turns += 1;
            controls.wake_at(Some(now));
        }
        // Now it is watched, and not yet looked at.
        Input::TurnEnd => {
            controls.wake_at(None);
            if let Some(peer) = peer.take() {
                setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: limit.maximum }).unwrap();
                reset_on_drop(&peer);
            }
        }
        Input::Closed { reason, .. } => {
            closed = Some(reason);
            controls.finish();
        }
        _ => {}
    });
    assert_eq!(closed, Some(CloseReason::Failed(Errno::CONNRESET.raw_os_error())));
}

/// To a port that the system might have chosen for us, so that there is a question to ask first.
pub fn connecting_without_descriptors<D: TestDriver>() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let remote = listener.local_addr().unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: limit.maximum }).unwrap();
    let (mut begun, mut outcome) = (false, None);
    run(&mut driver, |_, input, controls| match input {
        Input::TurnEnd if !begun => {
            begun = true;
            controls.connect(0, Address::Tcp { remote, local: None });
        }
        Input::Connected { .. } => {
            outcome = Some(Ok(()));
            controls.finish();
        }
        Input::ConnectFailed { errno, .. } => {
            outcome = Some(Err(errno));
            controls.finish();
        }
        _ => {}
    });
    let expected = if D::TAKES_DESCRIPTORS { Err(Errno::MFILE.raw_os_error()) } else { Ok(()) };
    assert_eq!(outcome, Some(expected));
}

fn open_and_close(peer: &mut (impl Read + Write), by_driver: bool) {
    let mut byte = [0];
    peer.read_exact(&mut byte).unwrap();
    peer.write_all(if by_driver { b"you" } else { b"me!" }).unwrap();
    if by_driver {
        assert_eq!(peer.read(&mut byte).unwrap(), 0);
    } else {
        peer.read_exact(&mut byte).unwrap();
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
