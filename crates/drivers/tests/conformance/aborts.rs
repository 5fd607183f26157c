//! Connections that end without what was sent on them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use drivers::Settings;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use seam::{ConnectionId, Input, Signal};

use crate::support::{
    Controls, TestDriver, assert_pattern, listening, listening_on_unix, listening_with, pattern, run,
    run_with_peer,
};

/// As much as the system takes at once (2 MiB over loopback), and far more than the peer's does.
const TAKEN: usize = 256 << 10;

/// More than the system takes.
const MORE_THAN_TAKEN: usize = 32 << 20;

/// What the peer's system is asked to take at most. It may take some packets more.
const WINDOW: usize = 4 << 10;

pub fn what_the_system_has_arrives_after_a_close_and_not_after_an_abort<D: TestDriver>() {
    let closed = left_behind::<D>(TAKEN, Controls::close);
    assert_eq!(closed, Left { taken: TAKEN, arrived: TAKEN, end: None });
    let aborted = left_behind::<D>(TAKEN, Controls::abort);
    assert_eq!((aborted.taken, aborted.end), (TAKEN, Some(Errno::CONNRESET)));
    assert!(aborted.arrived < TAKEN / 2, "{aborted:?}");
}

pub fn what_the_system_does_not_have_is_not_sent_after_an_abort<D: TestDriver>() {
    let aborted = left_behind::<D>(MORE_THAN_TAKEN, Controls::abort);
    assert!(aborted.taken < MORE_THAN_TAKEN && aborted.arrived < TAKEN / 2, "{aborted:?}");
    assert_eq!(aborted.end, Some(Errno::CONNRESET));
}

pub fn an_aborted_unix_connection_ends<D: TestDriver>() {
    let (mut driver, path) = listening_on_unix::<D>(Settings::default());
    let mut peer = UnixStream::connect(&*path).unwrap();
    send_and_end(&mut driver, 3, Controls::abort);
    let mut arrived = Vec::new();
    peer.read_to_end(&mut arrived).unwrap();
    assert_eq!(arrived, pattern(0, 3), "it was with the peer");
    assert_eq!(driver.counters().open_connections, 0);
}

pub fn nothing_is_heard_after_an_abort<D: TestDriver>() {
    // A turn has so many bytes of a connection.
    let settings = Settings { receive_buffer: 16, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut aborted = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, .. } => {
            assert!(!aborted.contains(&connection), "{connection:?} is heard");
            aborted.push(connection);
            controls.abort(connection);
            // Nobody's any more.
            controls.send(connection, "statement");
            controls.resume(connection);
            controls.abort(connection);
            controls.close(connection);
        }
        Input::Closed { connection, reason } => panic!("{connection:?} closed by itself: {reason:?}"),
        Input::Stalled { connection } => panic!("{connection:?} is stalled"),
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    // Again and again, so that places are used again.
    run_with_peer(&mut driver, react, |signaller| {
        for _ in 0..20 {
            let mut peer = TcpStream::connect(address).unwrap();
            // What comes behind the abort finds nobody.
            // Whichever call is the next after the reset has its error, and those behind it find the end.
            let written = peer.write_all(&[0; 1 << 20]);
            let shut = peer.shutdown(Shutdown::Write);
            let mut heard = Vec::new();
            let ends = [written, shut, peer.read_to_end(&mut heard).map(|_| ())];
            assert!(ends.iter().any(Result::is_err) && heard.is_empty(), "{ends:?}, {heard:?}");
        }
        signaller.send(Signal::Drain);
    });
    assert_eq!(aborted.len(), 20);
    assert_eq!(driver.counters().open_connections, 0);
}

/// What became of bytes that a peer has not read before the end of its connection.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// Bytes that our system has taken.
    taken: usize,
    /// Bytes that the peer has found to read.
    arrived: usize,
    /// The error behind them.
    end: Option<Errno>,
}

/// Sends so many bytes to a peer that reads them once the connection has ended, and all that the driver does about that is done.
fn left_behind<D: TestDriver>(count: usize, end: fn(&mut Controls, ConnectionId)) -> Left {
    let (mut driver, address) = listening::<D>();
    let mut peer = narrow_peer(address);
    send_and_end(&mut driver, count, end);
    let counters = driver.counters();
    assert_eq!((counters.open_connections, counters.closes_abandoned), (0, 0));
    let mut arrived = Vec::new();
    let end = peer.read_to_end(&mut arrived).err().map(|error| Errno::from_io_error(&error).unwrap());
    assert_pattern(0, &arrived);
    Left { taken: counters.bytes_sent as usize, arrived: arrived.len(), end }
}

/// Runs a program that sends so many bytes to whoever comes, and ends the connection two turns later: the system has taken what it takes
/// by then, and has been asked to take the rest.
fn send_and_end<D: TestDriver>(driver: &mut D, count: usize, end: fn(&mut Controls, ConnectionId)) {
    let (mut accepted, mut turns) = (None, 0);
    run(driver, |now, input, controls| match (input, accepted) {
        (Input::Accepted { connection, .. }, _) => {
            accepted = Some(connection);
            controls.send(connection, pattern(0, count));
            controls.wake_at(Some(now));
        }
        (Input::TurnEnd, Some(connection)) => {
            turns += 1;
            if turns == 3 {
                end(controls, connection);
                controls.finish();
            }
        }
        _ => {}
    });
}

/// A peer whose system takes little that it does not read.
fn narrow_peer(address: SocketAddr) -> TcpStream {
    let peer = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    // Before it connects: the window is made for it (tcp(7)).
    sockopt::set_socket_recv_buffer_size(&peer, WINDOW).unwrap();
    connect(&peer, &address).unwrap();
    peer.into()
}
