//! Few buffers, small tables: what is scarce is waited for, and nothing is lost or mixed up.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;

use drivers::{Counters, Settings};
use seam::{Address, ConnectionId, Input, Signal};

use crate::support::{
    Controls, TemporaryPath, TestDriver, assert_pattern, listening_with, pattern, reset_on_drop,
    run_with_peer,
};

pub fn more_arrivals_than_buffers<D: TestDriver>() {
    const PEERS: usize = 24;
    const TOTAL: usize = 200_000;
    let settings = Settings { buffers_per_ring: 4, receive_buffer: 100, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    // All have more to say than there are buffers before the driver looks.
    peers.iter_mut().for_each(|peer| peer.write_all(&pattern(0, 5000)).unwrap());
    let (mut received, mut ended) = (BTreeMap::new(), 0);
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => {
            let from = received.entry(connection).or_default();
            assert_pattern(*from, bytes);
            *from += bytes.len();
        }
        Input::Closed { .. } => {
            ended += 1;
            if ended == PEERS {
                controls.finish();
            }
        }
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {
        thread::scope(|scope| {
            for mut peer in peers.drain(..) {
                scope.spawn(move || {
                    peer.write_all(&pattern(5000, TOTAL - 5000)).unwrap();
                    peer.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
                });
            }
        });
    });
    assert!(received.values().all(|length| *length == TOTAL), "{received:?}");
    assert_eq!(received.len(), PEERS);
    let counters = driver.counters();
    assert_eq!(counters.buffers_exhausted > 0, D::SHARES_BUFFERS, "{counters:?}");
}

/// More connections than a table of direct descriptors has places, with as many again that the driver opens itself.
pub fn more_connections_than_a_table_has_places<D: TestDriver>() {
    const PEERS: u64 = 100;
    let settings = Settings { connections_per_ring: 7, accepts_per_turn: 5, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    // Each connection that the driver opens comes back in; both ends are its own.
    let (mut started, mut echoed) = (false, 0);
    let mut ours = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::TurnEnd if !started => {
            started = true;
            (0..PEERS)
                .for_each(|token| controls.connect(token, Address::Tcp { remote: address, local: None }));
        }
        Input::Connected { token, connection } => {
            ours.push(connection);
            controls.send(connection, pattern(token as usize, 1000));
        }
        Input::Bytes { connection, bytes } if ours.contains(&connection) => {
            echoed += bytes.len();
            if echoed == PEERS as usize * 1000 {
                controls.finish();
            }
        }
        Input::Bytes { connection, bytes } => controls.send(connection, bytes),
        Input::ConnectFailed { .. } | Input::Closed { .. } => panic!("{input:?}"),
        _ => {}
    };
    run_with_peer(&mut driver, react, |_| {});
    assert!(ours.iter().all(|connection| u64::from(connection.index) < 2 * PEERS), "{ours:?}");
    let counters = driver.counters();
    assert_eq!(counters.connects, PEERS);
    assert_eq!(counters.open_connections, 0);
    assert_eq!(counters.rings > 2 * PEERS / 7, D::SHARES_BUFFERS, "{counters:?}");
}

/// Opens and closes, and then has as much memory as before.
pub fn connecting_and_closing_leaks_nothing<D: TestDriver>() {
    let path = TemporaryPath::new();
    let unix = UnixListener::bind(&*path).unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addresses = [
        Address::Unix(path.to_owned()),
        Address::Tcp { remote: tcp.local_addr().unwrap(), local: None },
        Address::Tcp { remote: tcp.local_addr().unwrap(), local: Some(Ipv4Addr::new(127, 0, 0, 3).into()) },
    ];
    let mut driver = D::create(Settings::default()).unwrap();
    let signaller = driver.signaller();
    let peers = [
        thread::spawn(move || {
            unix.incoming().map_while(|peer| Some(peer.ok()?.read_exact(&mut [0]).is_ok())).find(|said| !said)
        }),
        thread::spawn(move || {
            tcp.incoming()
                .map_while(|peer| {
                    let mut peer = peer.ok()?;
                    // No TIME_WAIT, of which there are not 20,000 to be had.
                    reset_on_drop(&peer);
                    Some(peer.read_exact(&mut [0]).is_ok())
                })
                .find(|said| !said)
        }),
    ];
    let mut after = Vec::new();
    for opens in [3000, 20_000] {
        let pass = |connected: &mut usize, closed: &mut usize, controls: &mut Controls| {
            while *connected < opens && *connected - *closed < 16 {
                controls.connect(0, addresses[*connected % 3].clone());
                *connected += 1;
            }
            if *closed == opens {
                controls.finish();
            }
        };
        let (mut connected, mut closed) = (0, 0);
        crate::support::run(&mut driver, |_, input, controls| match input {
            Input::TurnEnd => pass(&mut connected, &mut closed, controls),
            Input::Connected { connection, .. } => controls.send(connection, "!"),
            Input::Closed { .. } => closed += 1,
            Input::ConnectFailed { .. } => panic!("{input:?}"),
            _ => {}
        });
        after.push(driver.counters());
    }
    drop(signaller);
    assert_eq!(after[1].connects, 23_000);
    assert_eq!(at_rest(&after[1]), at_rest(&after[0]));
    // A moment with more under way than ever before makes a list grow; a place lost for one connection in a hundred would
    // be more than that.
    let grown = after[1].connection_table_bytes.saturating_sub(after[0].connection_table_bytes);
    assert!(grown < 16 << 10, "{grown} bytes");
    // One that says nothing ends each thread.
    drop(std::os::unix::net::UnixStream::connect(&*path).unwrap());
    if let Address::Tcp { remote, .. } = addresses[1] {
        drop(TcpStream::connect(remote).unwrap());
    }
    for peer in peers {
        assert_eq!(peer.join().unwrap(), Some(false));
    }
}

/// What has to be the same after as before.
fn at_rest(counters: &Counters) -> (u64, u64, u64) {
    (counters.open_connections, counters.rings, counters.receive_buffer_bytes)
}

/// Peers that come, talk, and go in all ways, with a program that pauses, resumes, closes and aborts as it likes: nobody hears
/// another's bytes, and in the end nothing is left.
pub fn churn_mixes_nothing_up<D: TestDriver>() {
    const THREADS: u64 = 6;
    const VISITS: u64 = 150;
    let settings = Settings {
        connections_per_ring: 5,
        buffers_per_ring: 8,
        receive_buffer: 512,
        accepts_per_turn: 3,
        ..Settings::default()
    };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut dice = Dice(7);
    let mut paused: Vec<ConnectionId> = Vec::new();
    let react = |now: seam::Instant, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => {
            controls.send(connection, bytes);
            match dice.roll(200) {
                0 => {
                    controls.send(connection, pattern(0, 300_000));
                    controls.close(connection);
                }
                1 => controls.close(connection),
                2 => {
                    controls.send(connection, pattern(0, 300_000));
                    controls.abort(connection);
                }
                3 => controls.abort(connection),
                4..20 => {
                    controls.pause(connection);
                    paused.push(connection);
                }
                20..24 => {
                    controls.pause(connection);
                    controls.resume(connection);
                }
                _ => {}
            }
        }
        Input::TurnEnd => {
            if dice.roll(3) == 0 {
                paused.drain(..).for_each(|connection| controls.resume(connection));
            }
            controls.wake_at((!paused.is_empty()).then(|| now + std::time::Duration::from_millis(1)));
        }
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |signaller| {
        thread::scope(|scope| {
            for seed in 0..THREADS {
                scope.spawn(move || {
                    let mut dice = Dice(seed + 1);
                    (0..VISITS).for_each(|_| visit(TcpStream::connect(address).unwrap(), &mut dice));
                });
            }
        });
        signaller.send(Signal::Drain);
    });
    let counters = driver.counters();
    assert_eq!(counters.accepts, THREADS * VISITS);
    assert_eq!(counters.open_connections, 0);
}

/// Writes, reads the echo of some of it, and leaves. The driver may be first.
fn visit(mut peer: TcpStream, dice: &mut Dice) {
    let start = dice.roll(1 << 20) as usize;
    let (mut written, mut read) = (0, 0);
    let mut room = vec![0; 4096];
    for _ in 0..dice.roll(12) {
        let length = 1 + dice.roll(3000) as usize;
        if peer.write_all(&pattern(start + written, length)).is_err() {
            break;
        }
        written += length;
        while read < written && dice.roll(8) != 0 {
            let wanted = room.len().min(written - read);
            match peer.read(&mut room[..wanted]) {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    // What the program says before it closes is not an echo; it is the pattern from 0, and the last.
                    if room[..length] != pattern(start + read, length)[..] {
                        return check_farewell(&mut peer, start + read, &room[..length]);
                    }
                    read += length;
                }
            }
        }
    }
    match dice.roll(3) {
        0 => reset_on_drop(&peer),
        1 => {
            let _ = peer.shutdown(Shutdown::Write);
            while peer.read(&mut room).is_ok_and(|length| length > 0) {}
        }
        _ => {}
    }
}

/// The bytes end the echo somewhere and go on with the beginning of the farewell.
fn check_farewell(peer: &mut TcpStream, echo_from: usize, first: &[u8]) {
    let split = (0..=first.len()).find(|split| {
        first[..*split] == pattern(echo_from, *split)[..]
            && first[*split..] == pattern(0, first.len() - split)[..]
    });
    let split = split.unwrap_or_else(|| panic!("{} bytes of somebody else's", first.len()));
    let mut rest = Vec::new();
    // A reset may cut it short.
    let _ = peer.read_to_end(&mut rest);
    assert_pattern(first.len() - split, &rest);
}

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}
