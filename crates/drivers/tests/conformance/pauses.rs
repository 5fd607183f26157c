//! Pausing: nothing is read, nothing is lost, and what cannot wait is still noticed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use drivers::{Settings, Signaller};
use rustix::io::Errno;
use seam::{CloseReason, ConnectionId, Input, Signal};

use crate::support::{
    Controls, TestDriver, assert_pattern, listening, listening_on_unix, listening_with, pattern,
    read_pattern, reset_on_drop, run_with_peer,
};

pub fn paused_connections_are_not_read<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut script = PausedUntilSignal::default();
    run_with_peer(&mut driver, script.react(), |signaller| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"hello").unwrap();
        signaller.send(Signal::Drain);
        peer.write_all(b" again").unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(script.received, b"hello again");
    assert_eq!(script.closed, Some(CloseReason::EndOfStream));
}

pub fn paused_connections_still_send<D: TestDriver>() {
    // More than the kernel takes for a peer that does not read (tcp_wmem and tcp_rmem end at 4 and 6 MiB).
    const TOTAL: usize = 32 << 20;
    let (mut driver, address) = listening::<D>();
    let (stalled, is_stalled) = mpsc::channel();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => {
            controls.pause(connection);
            controls.send(connection, pattern(0, TOTAL));
        }
        Input::Stalled { .. } => {
            let _ = stalled.send(());
        }
        Input::Drained { connection } => {
            controls.close(connection);
            controls.finish();
        }
        Input::Bytes { .. } => panic!("read while paused"),
        _ => {}
    };
    let total = run_with_peer(&mut driver, react, move |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        // One that reads at once may be so fast that nothing is ever stalled, and then nothing is drained.
        is_stalled.recv().unwrap();
        read_pattern(&mut peer)
    });
    assert_eq!(total, TOTAL);
}

pub fn resets_are_noticed_while_paused<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut script = PausedUntilSignal::default();
    run_with_peer(&mut driver, script.react(), |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"unread").unwrap();
        reset_on_drop(&peer);
    });
    assert_eq!(script.received, b"");
    assert_eq!(script.closed, Some(CloseReason::Failed(Errno::CONNRESET.raw_os_error())));
}

pub fn unix_peers_that_are_gone_are_noticed_while_paused<D: TestDriver>() {
    let (mut driver, path) = listening_on_unix::<D>(Settings::default());
    let mut script = PausedUntilSignal::default();
    run_with_peer(&mut driver, script.react(), |_| drop(UnixStream::connect(&*path).unwrap()));
    assert_eq!(script.closed, Some(CloseReason::EndOfStream));
}

/// A hang-up cannot be switched off in epoll: a driver that forgets it loops.
pub fn bytes_left_behind_wait_for_the_program<D: TestDriver>() {
    let (mut driver, path) = listening_on_unix::<D>(Settings::default());
    let mut script = PausedUntilSignal::default();
    run_with_peer(&mut driver, script.react(), |signaller| {
        let mut peer = UnixStream::connect(&*path).unwrap();
        peer.write_all(b"last will").unwrap();
        drop(peer);
        leave_time_to_loop(&signaller);
    });
    assert_eq!(script.received, b"last will");
    assert_eq!(script.closed, Some(CloseReason::EndOfStream));
    assert!(driver.counters().turns < MANY_TURNS, "{:?}", driver.counters());
}

pub fn an_end_of_stream_waits_for_the_program<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut script = PausedUntilSignal::default();
    run_with_peer(&mut driver, script.react(), |signaller| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"last will").unwrap();
        drop(peer);
        leave_time_to_loop(&signaller);
    });
    assert_eq!(script.received, b"last will");
    assert_eq!(script.closed, Some(CloseReason::EndOfStream));
    assert!(driver.counters().turns < MANY_TURNS, "{:?}", driver.counters());
}

/// What came before the end is given in shares, and the end in a turn of its own: an answer to the last bytes is sent.
pub fn answers_to_the_last_bytes_are_sent_after_a_pause<D: TestDriver>() {
    const SHARE: usize = 8;
    const SHARES: usize = 5;
    let settings = Settings { receive_buffer: SHARE, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut peer = TcpStream::connect(address).unwrap();
    // In one piece, and the end too, before the driver looks.
    peer.write_all(&pattern(0, SHARE * SHARES)).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    let (mut received, mut in_this_turn, mut closed) = (0, 0, false);
    let mut paused = None;
    let react = |now: seam::Instant, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => {
            assert_eq!(paused, None, "read while paused");
            assert_pattern(received, bytes);
            received += bytes.len();
            in_this_turn += bytes.len();
            assert!(in_this_turn <= SHARE);
            controls.send(connection, pattern(received - bytes.len(), bytes.len()));
            // After the first with time for the rest to come in, and in the middle of what has come in.
            if received == SHARE || received == 3 * SHARE {
                controls.pause(connection);
                paused = Some((connection, now + Duration::from_millis(50)));
                controls.wake_at(paused.map(|(_, until)| until));
            }
            // At once, as a program does that has paused for nothing.
            if received == 4 * SHARE {
                controls.pause(connection);
                controls.resume(connection);
            }
        }
        Input::TurnEnd => {
            in_this_turn = 0;
            if let Some((connection, _)) = paused.take_if(|(_, until)| *until <= now) {
                controls.resume(connection);
                controls.wake_at(None);
            }
        }
        Input::Closed { reason, .. } => {
            assert_eq!((in_this_turn, reason), (0, CloseReason::EndOfStream));
            assert!(!std::mem::replace(&mut closed, true));
            controls.finish();
        }
        _ => {}
    };
    let echoed = run_with_peer(&mut driver, react, |_| read_pattern(&mut peer));
    assert_eq!((received, echoed, closed), (SHARE * SHARES, SHARE * SHARES, true));
}

/// A busy loop makes tens of thousands of turns in [`leave_time_to_loop`]; a driver that waits makes about ten.
const MANY_TURNS: u64 = 500;

fn leave_time_to_loop(signaller: &Signaller) {
    std::thread::sleep(Duration::from_millis(200));
    signaller.send(Signal::Drain);
}

/// Pauses its connection at once, resumes it at a signal, and finishes when it is closed.
#[derive(Default)]
struct PausedUntilSignal {
    connection: Option<ConnectionId>,
    resume_on_accept: bool,
    resumed: bool,
    received: Vec<u8>,
    closed: Option<CloseReason>,
}

impl PausedUntilSignal {
    fn react(&mut self) -> impl FnMut(seam::Instant, Input<'_>, &mut Controls) {
        |_, input, controls| match input {
            Input::Accepted { connection, .. } => {
                self.connection = Some(connection);
                controls.pause(connection);
                if self.resume_on_accept {
                    self.resumed = true;
                    controls.resume(connection);
                }
            }
            // The signal may overtake the connection.
            Input::Signal(Signal::Drain) => match self.connection {
                Some(connection) => {
                    assert_eq!(self.received, b"");
                    self.resumed = true;
                    controls.resume(connection);
                }
                None => self.resume_on_accept = true,
            },
            Input::Bytes { bytes, .. } => {
                assert!(self.resumed, "read while paused");
                self.received.extend(bytes);
            }
            Input::Closed { reason, .. } => {
                assert_eq!(self.closed.replace(reason), None);
                controls.finish();
            }
            _ => {}
        }
    }
}
