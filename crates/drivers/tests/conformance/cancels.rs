//! Closing whatever is under way.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use drivers::Settings;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use seam::{Address, ConnectionId, Input, Signal};

use crate::support::{Controls, TestDriver, listening, pattern, run, run_with_peer};

/// Times that each scenario is gone through with one driver, so that places are used again.
const ROUNDS: usize = 20;

pub fn closing_at_once<D: TestDriver>() {
    close_when::<D>(|_| {}, |step, _, _| step == Step::Accepted);
}

pub fn closing_with_bytes_arriving<D: TestDriver>() {
    // What comes after the close may find nobody.
    let peer = |peer: &mut TcpStream| {
        let _ = peer.write_all(&[0; 1 << 20]);
        let _ = peer.shutdown(Shutdown::Write);
    };
    close_when::<D>(peer, |step, _, _| step == Step::Bytes);
}

pub fn closing_while_sending<D: TestDriver>() {
    let send = |step, connection, controls: &mut Controls| {
        if step == Step::Accepted {
            controls.send(connection, pattern(0, 100_000));
        }
        step == Step::Accepted
    };
    close_when::<D>(|peer| assert_eq!(crate::support::read_pattern(peer), 100_000), send);
}

pub fn closing_while_paused<D: TestDriver>() {
    let pause = |step, connection, controls: &mut Controls| {
        if step == Step::Bytes {
            controls.pause(connection);
        }
        step == Step::Bytes
    };
    close_when::<D>(|peer| peer.write_all(b"stop").unwrap(), pause);
}

pub fn closing_while_stalled<D: TestDriver>() {
    let (stalled, is_stalled) = mpsc::channel();
    let fill = move |step, connection, controls: &mut Controls| {
        match step {
            Step::Accepted => controls.send(connection, vec![7; STALLING]),
            Step::Stalled => stalled.send(()).unwrap(),
            Step::Bytes => {}
        }
        step == Step::Stalled
    };
    let read = move |peer: &mut TcpStream| {
        is_stalled.recv().unwrap();
        // Their order is looked at elsewhere; here the last of them have to come.
        peer.read_exact(&mut vec![0; STALLING]).unwrap();
    };
    close_when::<D>(read, fill);
}

/// More than the kernel holds for a peer that does not read.
const STALLING: usize = 16 << 20;

/// What a script of [`close_when`] looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Accepted,
    Bytes,
    Stalled,
}

/// Has peers come one after the other, and closes each when `close` says so. Each peer waits for the end of the stream.
fn close_when<D: TestDriver>(
    mut peer: impl FnMut(&mut TcpStream) + Send,
    mut close: impl FnMut(Step, ConnectionId, &mut Controls) -> bool,
) {
    let (mut driver, address) = listening::<D>();
    let mut closed = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        let (step, connection) = match input {
            Input::Accepted { connection, .. } => (Step::Accepted, connection),
            Input::Bytes { connection, .. } => (Step::Bytes, connection),
            Input::Stalled { connection } => (Step::Stalled, connection),
            Input::Signal(Signal::Drain) => return controls.finish(),
            Input::Closed { connection, reason } => panic!("{connection:?} closed by itself: {reason:?}"),
            _ => return,
        };
        // Others of the same turn may follow.
        if !closed.contains(&connection) && close(step, connection, controls) {
            controls.close(connection);
            closed.push(connection);
        }
    };
    run_with_peer(&mut driver, react, |signaller| {
        for _ in 0..ROUNDS {
            let mut stream = TcpStream::connect(address).unwrap();
            peer(&mut stream);
            // An error is an end too: the peer may have written to nobody.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        signaller.send(Signal::Drain);
    });
    let counters = driver.counters();
    assert_eq!(closed.len(), ROUNDS);
    assert_eq!((counters.accepts, counters.open_connections), (ROUNDS as u64, 0));
    assert_eq!(counters.closes_abandoned, 0);
}

/// The program finishes while connections are being made that nobody answers.
pub fn finishing_while_connecting<D: TestDriver>() {
    // Neither accepted nor refused: the listener's queue is full, and more are not answered (listen(2)).
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&full, 0).unwrap();
    let remote = SocketAddr::try_from(getsockname(&full).unwrap()).unwrap();
    let _first = TcpStream::connect(remote).unwrap();
    let mut driver = D::create(Settings::default()).unwrap();
    let mut turns = 0;
    run(&mut driver, |now, input, controls| match input {
        Input::TurnEnd => {
            turns += 1;
            if turns == 1 {
                (0..10).for_each(|token| controls.connect(token, Address::Tcp { remote, local: None }));
                controls.wake_at(Some(now + Duration::from_millis(20)));
            } else {
                controls.finish();
            }
        }
        Input::Connected { .. } | Input::ConnectFailed { .. } => panic!("{input:?}"),
        _ => {}
    });
    assert_eq!(driver.counters().open_connections, 0);
}

/// The driver goes with connections of all kinds open: their peers are told, and nothing hangs.
pub fn dropping_a_driver_closes_everything<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let remote = server.local_addr().unwrap();
    let mut peers: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (mut accepted, mut begun) = (0, false);
    run(&mut driver, |_, input, controls| match input {
        Input::TurnEnd if !begun => {
            begun = true;
            controls.connect(0, Address::Tcp { remote, local: None });
        }
        Input::Accepted { connection, .. } => {
            accepted += 1;
            match accepted {
                1 => controls.pause(connection),
                2 => controls.send(connection, pattern(0, 10)),
                3 => controls.close(connection),
                _ => {}
            }
        }
        Input::TurnEnd if accepted == 4 => controls.finish(),
        _ => {}
    });
    drop(driver);
    for peer in &mut peers {
        // An end or a reset, but not silence.
        let _ = peer.read_to_end(&mut Vec::new());
    }
    let (mut outgoing, _) = server.accept().unwrap();
    let _ = outgoing.read_to_end(&mut Vec::new());
}
