//! Listening: who comes in, and which addresses can be had.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use drivers::{ListenAddress, ListenSocket, Settings};
use rustix::io::Errno;
use seam::{Input, Instant, ListenerId, Peer, Signal};

use crate::support::{
    BACKLOG, Controls, TemporaryPath, TestDriver, listen_tcp, listening, listening_on_unix, listening_with,
    reset_on_drop, run, run_with_peer,
};

pub fn tcp_peers_are_named<D: TestDriver>() {
    let (mut driver, first) = listening::<D>();
    let second = listen_tcp(&mut driver, (Ipv4Addr::LOCALHOST, 0).into());
    let peers = [TcpStream::connect(first).unwrap(), TcpStream::connect(second).unwrap()];
    let mut expected = peers.map(|peer| Peer::Tcp(peer.local_addr().unwrap()));
    let mut accepted = accepted(&mut driver, 2);
    accepted.sort_by_key(|(listener, _)| listener.0);
    expected.reverse();
    assert_eq!(accepted.pop(), Some((ListenerId(1), expected[0])));
    assert_eq!(accepted.pop(), Some((ListenerId(0), expected[1])));
}

pub fn unix_peers_are_named_by_their_uid<D: TestDriver>() {
    let (mut driver, path) = listening_on_unix::<D>(Settings::default());
    let _peer = UnixStream::connect(&*path).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(accepted(&mut driver, 1), [(ListenerId(0), Peer::Unix { uid })]);
}

pub fn ipv6_listeners_work<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let Some(address) = listen_ipv6(&mut driver, Ipv6Addr::LOCALHOST) else { return };
    let peer = TcpStream::connect(address).unwrap();
    let expected = Peer::Tcp(peer.local_addr().unwrap());
    assert_eq!(accepted(&mut driver, 1), [(ListenerId(0), expected)]);
}

pub fn ipv4_peers_of_ipv6_listeners_are_ipv4_peers<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let Some(address) = listen_ipv6(&mut driver, Ipv6Addr::UNSPECIFIED) else { return };
    let peer = TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).unwrap();
    let expected = Peer::Tcp(peer.local_addr().unwrap());
    assert_eq!(accepted(&mut driver, 1), [(ListenerId(0), expected)]);
}

pub fn taken_tcp_addresses_are_refused<D: TestDriver>() {
    let (_driver, address) = listening::<D>();
    let mut other = D::create(Settings::default()).unwrap();
    let error = other.listen(&ListenAddress::Tcp(address), BACKLOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

pub fn stale_unix_sockets_are_replaced<D: TestDriver>() {
    let path = TemporaryPath::new();
    drop(UnixListener::bind(&*path).unwrap());
    assert!(path.exists());
    let mut driver = D::create(Settings::default()).unwrap();
    driver.listen(&ListenAddress::Unix(path.to_owned()), BACKLOG).unwrap();
    let _peer = UnixStream::connect(&*path).unwrap();
    assert_eq!(accepted(&mut driver, 1).len(), 1);
}

pub fn live_unix_sockets_are_left_alone<D: TestDriver>() {
    let path = TemporaryPath::new();
    let listener = UnixListener::bind(&*path).unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    let error = driver.listen(&ListenAddress::Unix(path.to_owned()), BACKLOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    drop(driver);
    let _peer = UnixStream::connect(&*path).unwrap();
    // The driver's probe came first; it is gone.
    let (mut probe, _) = listener.accept().unwrap();
    assert_eq!(probe.read(&mut [0]).unwrap(), 0);
    listener.accept().unwrap();
}

pub fn files_that_are_no_sockets_are_left_alone<D: TestDriver>() {
    let path = TemporaryPath::new();
    fs::write(&*path, "precious").unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    let error = driver.listen(&ListenAddress::Unix(path.to_owned()), BACKLOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    drop(driver);
    assert_eq!(fs::read(&*path).unwrap(), b"precious");
}

pub fn unix_socket_files_go_with_the_driver<D: TestDriver>() {
    let (driver, path) = listening_on_unix::<D>(Settings::default());
    assert!(path.exists());
    drop(driver);
    assert!(!path.exists());
    // Somebody else's file in the same place stays.
    let (driver, path) = listening_on_unix::<D>(Settings::default());
    let elsewhere = TemporaryPath::new();
    fs::rename(&*path, &*elsewhere).unwrap();
    fs::write(&*path, "another").unwrap();
    drop(driver);
    assert!(path.exists());
}

/// Listens no more once somebody is there, and echoes what that one says.
fn hears_only_the_first() -> impl FnMut(Instant, Input<'_>, &mut Controls) {
    |_, input, controls| match input {
        Input::Accepted { connection, .. } => {
            controls.stop_listening();
            controls.send(connection, "deaf");
        }
        Input::Bytes { connection, bytes } => controls.send(connection, bytes),
        Input::Closed { .. } => controls.finish(),
        _ => {}
    }
}

pub fn stopping_to_listen_keeps_connections<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    run_with_peer(&mut driver, hears_only_the_first(), |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        let mut word = [0; 4];
        peer.read_exact(&mut word).unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        peer.write_all(b"echo").unwrap();
        peer.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"echo");
    });
}

/// As where a supervisor has handed the socket over, or another worker has it: who comes then waits there for the next one.
pub fn a_listener_of_others_too_says_nothing_once_it_is_left<D: TestDriver>() {
    let path = TemporaryPath::new();
    let (mut shares, _) = ListenSocket::open(&ListenAddress::Unix(path.to_path_buf()), BACKLOG, 2).unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    driver.attach(shares.pop().unwrap()).unwrap();
    run_with_peer(&mut driver, hears_only_the_first(), |_| {
        let mut peer = UnixStream::connect(&*path).unwrap();
        let mut word = [0; 4];
        peer.read_exact(&mut word).unwrap();
        let _waits = UnixStream::connect(&*path).unwrap();
        // A driver that spins has time for it here.
        std::thread::sleep(Duration::from_millis(350));
        peer.write_all(b"echo").unwrap();
        peer.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"echo");
    });
    // A few; a busy loop makes tens of thousands.
    assert!(driver.counters().turns < 1000, "{:?}", driver.counters());
}

pub fn accepting_has_a_share_of_each_turn<D: TestDriver>() {
    const PEERS: usize = 30;
    const SHARE: usize = 4;
    let settings = Settings { accepts_per_turn: SHARE, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let _peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (mut in_this_turn, mut total) = (0, 0);
    run(&mut driver, |_, input, controls| match input {
        Input::Accepted { .. } => {
            in_this_turn += 1;
            assert!(in_this_turn <= SHARE);
        }
        Input::TurnEnd => {
            total += std::mem::take(&mut in_this_turn);
            if total == PEERS {
                controls.finish();
            }
        }
        _ => {}
    });
}

/// Each peer comes while accepts are armed that then lose it to those armed in its turn: there is no shortage in that.
pub fn accepts_that_lose_races_do_not_pause<D: TestDriver>() {
    /// More than the kernel lets an armed accept lose (128), for each of both.
    const PEERS: usize = 1500;
    let settings = Settings { accepts_per_turn: 2, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let connect = || {
        let peer = TcpStream::connect(address).unwrap();
        // No TIME_WAIT, and no descriptors of earlier peers.
        reset_on_drop(&peer);
        peer
    };
    let mut peer = connect();
    let (mut connected, mut accepted) = (1, 0);
    run(&mut driver, |_, input, controls| match input {
        Input::Accepted { .. } => accepted += 1,
        Input::TurnEnd if accepted == PEERS => controls.finish(),
        Input::TurnEnd if accepted == connected => {
            peer = connect();
            connected += 1;
        }
        _ => {}
    });
    drop(peer);
    assert_eq!(driver.counters().accept_pauses, 0);
}

/// Listens on an IPv6 address, or says that this machine has none.
fn listen_ipv6<D: TestDriver>(driver: &mut D, address: Ipv6Addr) -> Option<SocketAddr> {
    match driver.listen(&ListenAddress::Tcp((address, 0).into()), BACKLOG) {
        Ok(ListenAddress::Tcp(actual)) => Some(actual),
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            let errno = Errno::from_io_error(&error);
            assert!(
                matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)),
                "listening on {address}: {error}"
            );
            eprintln!("skipped: this machine has no IPv6");
            None
        }
    }
}

/// Runs until so many peers are in; returns them.
fn accepted<D: TestDriver>(driver: &mut D, count: usize) -> Vec<(ListenerId, Peer)> {
    let mut accepted = Vec::new();
    run(driver, |_, input, controls| match input {
        Input::Accepted { listener, peer, .. } => {
            accepted.push((listener, peer));
            if accepted.len() == count {
                controls.finish();
            }
        }
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    });
    accepted
}
