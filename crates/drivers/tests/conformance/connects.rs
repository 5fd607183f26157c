//! Connections that the program asks for.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use drivers::Settings;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, getsockname, listen, socket};
use seam::{Address, Input, Instant};

use crate::support::{Controls, TemporaryPath, TestDriver, run, run_with_peer};

pub fn tcp_connects<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = Address::Tcp { remote: listener.local_addr().unwrap(), local: None };
    run_with_peer(&mut driver, greeting_script(address), |_| {
        let (mut peer, _) = listener.accept().unwrap();
        answer_greeting(&mut peer);
    });
    assert_eq!(driver.counters().connects, 1);
}

pub fn tcp_refusals_carry_their_errno<D: TestDriver>() {
    // Held, so that nobody else gets the port, but not listened on.
    let silent = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&silent, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&silent).unwrap()).unwrap();
    assert_eq!(failures::<D>(&[tcp(address)]), [(0, Errno::CONNREFUSED.raw_os_error())]);
}

pub fn unix_connects<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let path = TemporaryPath::new();
    let listener = UnixListener::bind(&*path).unwrap();
    run_with_peer(&mut driver, greeting_script(Address::Unix(path.to_owned())), |_| {
        let (mut peer, _) = listener.accept().unwrap();
        answer_greeting(&mut peer);
    });
}

pub fn unix_refusals_carry_their_errno<D: TestDriver>() {
    let (missing, stale) = (TemporaryPath::new(), TemporaryPath::new());
    drop(UnixListener::bind(&*stale).unwrap());
    let too_long = std::path::PathBuf::from("/".to_owned() + &"x".repeat(200));
    let addresses = [missing.to_owned(), stale.to_owned(), too_long].map(Address::Unix);
    let expected = [Errno::NOENT, Errno::CONNREFUSED, Errno::NAMETOOLONG].map(|errno| errno.raw_os_error());
    assert_eq!(failures::<D>(&addresses), [(0, expected[0]), (1, expected[1]), (2, expected[2])]);
}

pub fn full_unix_backlogs_are_told<D: TestDriver>() {
    let path = TemporaryPath::new();
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&*path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    let (mut connected, mut errnos) = (0, Vec::new());
    const ATTEMPTS: u64 = 8;
    let mut started = false;
    run(&mut driver, |_, input, controls| {
        match input {
            Input::Connected { .. } => connected += 1,
            Input::ConnectFailed { errno, .. } => errnos.push(errno),
            Input::TurnEnd if !started => {
                started = true;
                for token in 0..ATTEMPTS {
                    controls.connect(token, Address::Unix(path.to_owned()));
                }
            }
            _ => {}
        }
        if connected + errnos.len() as u64 == ATTEMPTS {
            controls.finish();
        }
    });
    // The kernel lets in one more than the backlog says.
    assert!((1..=2).contains(&connected), "{connected} connected");
    assert!(errnos.iter().all(|errno| *errno == Errno::AGAIN.raw_os_error()), "{errnos:?}");
}

pub fn local_addresses_are_bound<D: TestDriver>() {
    let mut driver = D::create(Settings::default()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let local = Ipv4Addr::new(127, 0, 0, 2).into();
    let address = Address::Tcp { remote: listener.local_addr().unwrap(), local: Some(local) };
    let peer_address = run_with_peer(&mut driver, greeting_script(address), |_| {
        let (mut peer, peer_address) = listener.accept().unwrap();
        answer_greeting(&mut peer);
        peer_address
    });
    assert_eq!(peer_address.ip(), local);
}

pub fn addresses_that_cannot_be_bound_are_told<D: TestDriver>() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // RFC 5737: an address for documentation, nobody's own.
    let local = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    let address = Address::Tcp { remote: listener.local_addr().unwrap(), local };
    assert_eq!(failures::<D>(&[address]), [(0, Errno::ADDRNOTAVAIL.raw_os_error())]);
}

fn tcp(remote: SocketAddr) -> Address {
    Address::Tcp { remote, local: None }
}

/// Connects by itself in its first turn, sends a greeting, and finishes when the answer is there.
fn greeting_script(address: Address) -> impl FnMut(Instant, Input<'_>, &mut Controls) {
    const TOKEN: u64 = 0xFEED_0000_0000_0001;
    let mut address = Some(address);
    let (mut ours, mut answer) = (None, Vec::<u8>::new());
    move |_, input, controls| match input {
        Input::TurnEnd => {
            if let Some(address) = address.take() {
                controls.connect(TOKEN, address);
            }
        }
        Input::Connected { token, connection } => {
            assert_eq!(token, TOKEN);
            assert_eq!(ours.replace(connection), None);
            controls.send(connection, "greeting");
        }
        Input::Bytes { connection, bytes } => {
            assert_eq!(Some(connection), ours);
            answer.extend(bytes);
            if answer == b"answer" {
                controls.finish();
            }
        }
        other => panic!("{other:?}"),
    }
}

fn answer_greeting(peer: &mut (impl Read + Write)) {
    let mut greeting = [0; 8];
    peer.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"greeting");
    peer.write_all(b"answer").unwrap();
    // Stays until the program has read it and finished.
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

/// Connects to all of them, with their places as tokens, and returns how each failed, by token.
fn failures<D: TestDriver>(addresses: &[Address]) -> Vec<(u64, i32)> {
    let mut driver = D::create(Settings::default()).unwrap();
    let mut failed = Vec::new();
    let mut started = false;
    run(&mut driver, |_, input, controls| match input {
        Input::TurnEnd if !started => {
            started = true;
            for (token, address) in (0..).zip(addresses) {
                controls.connect(token, address.clone());
            }
        }
        Input::TurnEnd => {}
        Input::ConnectFailed { token, errno } => {
            failed.push((token, errno));
            if failed.len() == addresses.len() {
                controls.finish();
            }
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(driver.counters().open_connections, 0);
    failed.sort_unstable();
    failed
}
