//! How connections end, from either side.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use drivers::Settings;
use rustix::io::Errno;
use seam::{CloseReason, Input, Signal};

use crate::support::{
    Controls, TestDriver, assert_pattern, listening, listening_on_unix, listening_with, pattern,
    read_pattern, reset_on_drop, run, run_with_peer,
};

pub fn end_of_stream_is_told_once<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let (mut received, mut reasons) = (Vec::new(), Vec::new());
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { bytes, .. } => received.extend_from_slice(bytes),
        Input::Closed { reason, .. } => reasons.push(reason),
        Input::Signal(Signal::Drain) => controls.finish(),
        _ => {}
    };
    run_with_peer(&mut driver, react, |signaller| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"goodbye").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        // The driver closes its side after it has told the program.
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        signaller.send(Signal::Drain);
    });
    assert_eq!(received, b"goodbye");
    assert_eq!(reasons, [CloseReason::EndOfStream]);
}

pub fn half_closed_is_closed<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Closed { connection, reason } = input {
            assert_eq!(reason, CloseReason::EndOfStream);
            controls.send(connection, "to nobody");
            controls.finish();
        }
    };
    let answer = run_with_peer(&mut driver, react, |_| {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).unwrap();
        answer
    });
    assert_eq!(answer, b"");
    assert_eq!(driver.counters().open_connections, 0);
}

pub fn resets_carry_their_errno<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut reasons = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Closed { reason, .. } = input {
            reasons.push(reason);
            controls.finish();
        }
    };
    run_with_peer(&mut driver, react, |_| reset_on_drop(&TcpStream::connect(address).unwrap()));
    assert_eq!(reasons, [CloseReason::Failed(Errno::CONNRESET.raw_os_error())]);
}

pub fn last_words_are_heard_when_sending_fails<D: TestDriver>() {
    // The peer's words take two turns, and the send in between fails.
    let settings = Settings { receive_buffer: 8, ..Settings::default() };
    let (mut driver, path) = listening_on_unix::<D>(settings);
    let mut peer = UnixStream::connect(&*path).unwrap();
    peer.write_all(b"server gone!").unwrap();
    drop(peer);
    let (mut received, mut reasons) = (Vec::new(), Vec::new());
    run(&mut driver, |_, input, controls| match input {
        Input::Bytes { connection, bytes } => {
            received.push(bytes.to_vec());
            controls.send(connection, "statement");
        }
        Input::Closed { reason, .. } => {
            reasons.push(reason);
            controls.finish();
        }
        _ => {}
    });
    assert_eq!(received, [&b"server g"[..], b"one!"]);
    assert_eq!(reasons, [CloseReason::Failed(Errno::PIPE.raw_os_error())]);
}

/// A server that shuts down, with a statement on its way over each of many connections: their last words take more
/// buffers and more turns than there are.
pub fn last_words_of_many_are_heard_when_sending_fails<D: TestDriver>() {
    const PEERS: usize = 100;
    const WORDS: &[u8] = b"shutdown in progress";
    for buffers_per_ring in [2, 16, 256] {
        let settings = Settings { buffers_per_ring, ..Settings::default() };
        let (mut driver, path) = listening_on_unix::<D>(settings);
        let mut peers: Vec<_> = (0..PEERS).map(|_| UnixStream::connect(&*path).unwrap()).collect();
        let mut heard = BTreeMap::new();
        let mut ends = Vec::new();
        run(&mut driver, |_, input, controls| match input {
            Input::Accepted { connection, .. } => {
                heard.insert(connection, Vec::new());
                if heard.len() == PEERS {
                    // All say so and go; nothing of that has been received when the statements are sent.
                    for mut peer in peers.drain(..) {
                        peer.write_all(WORDS).unwrap();
                    }
                    heard.keys().for_each(|connection| controls.send(*connection, "statement"));
                }
            }
            Input::Bytes { connection, bytes } => heard.entry(connection).or_default().extend(bytes),
            Input::Closed { connection, reason } => {
                ends.push((String::from_utf8(heard[&connection].clone()).unwrap(), reason));
                if ends.len() == PEERS {
                    controls.finish();
                }
            }
            _ => {}
        });
        let expected = CloseReason::Failed(Errno::PIPE.raw_os_error());
        for (words, reason) in ends {
            assert_eq!((words.as_bytes(), reason), (WORDS, expected));
        }
    }
}

pub fn closing_flushes_everything<D: TestDriver>() {
    const TOTAL: usize = 16 << 20;
    let (mut driver, address) = listening::<D>();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Accepted { connection, .. } => {
            controls.send(connection, pattern(0, TOTAL));
            controls.close(connection);
            controls.send(connection, "after the end");
        }
        Input::Signal(Signal::Drain) => controls.finish(),
        Input::TurnEnd => {}
        other => panic!("{other:?} after closing"),
    };
    let total = run_with_peer(&mut driver, react, |signaller| {
        let total = read_pattern(&mut TcpStream::connect(address).unwrap());
        signaller.send(Signal::Drain);
        total
    });
    assert_eq!(total, TOTAL);
    assert_eq!(driver.counters().closes_abandoned, 0);
}

pub fn finishing_flushes_what_was_closed<D: TestDriver>() {
    const TOTAL: usize = 16 << 20;
    let (mut driver, address) = listening::<D>();
    let mut peer = TcpStream::connect(address).unwrap();
    let mut idle = TcpStream::connect(address).unwrap();
    let mut accepted = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Accepted { connection, .. } = input {
            accepted.push(connection);
            if let [first, _] = accepted[..] {
                controls.send(first, pattern(0, TOTAL));
                controls.close(first);
                controls.finish();
            }
        }
    };
    let total = run_with_peer(&mut driver, react, |_| read_pattern(&mut peer));
    assert_eq!(total, TOTAL);
    // The other was open: the program's end is its end, while the driver still exists.
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    assert_eq!(driver.counters().open_connections, 0);
}

pub fn closing_with_unread_bytes_does_not_lose_the_farewell<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let mut peer = TcpStream::connect(address).unwrap();
    peer.write_all(&pattern(0, 10_000)).unwrap();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Accepted { connection, .. } = input {
            controls.send(connection, "packet too large");
            controls.close(connection);
            controls.finish();
        }
    };
    let farewell = run_with_peer(&mut driver, react, |_| {
        // The driver has to take this too, or it resets the connection.
        peer.write_all(&[0; 1 << 20]).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let mut farewell = String::new();
        peer.read_to_string(&mut farewell).unwrap();
        farewell
    });
    assert_eq!(farewell, "packet too large");
}

pub fn closing_does_not_hear_out_a_flood<D: TestDriver>() {
    // Far more than is thrown away and fits into buffers, and less than comes within the time of a close.
    const FLOOD: usize = 1 << 30;
    let (mut driver, address) = listening::<D>();
    let mut peer = TcpStream::connect(address).unwrap();
    // Something unread, or the connection is closed at once.
    peer.write_all(&[0; 1 << 16]).unwrap();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Accepted { connection, .. } = input {
            controls.close(connection);
            controls.finish();
        }
    };
    let taken = run_with_peer(&mut driver, react, |_| {
        let piece = [0; 1 << 16];
        (0..FLOOD / piece.len()).take_while(|_| peer.write_all(&piece).is_ok()).count() * piece.len()
    });
    assert!(taken < FLOOD / 2, "{taken} bytes were heard out");
}

pub fn closing_without_a_reader_ends<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let peer = TcpStream::connect(address).unwrap();
    run(&mut driver, |_, input, controls| {
        if let Input::Accepted { connection, .. } = input {
            controls.send(connection, pattern(0, 32 << 20));
            controls.close(connection);
            controls.finish();
        }
    });
    assert_eq!(driver.counters().closes_abandoned, 1);
    assert_eq!(driver.counters().open_connections, 0);
    drop(peer);
}

pub fn a_signal_cuts_the_last_closes_short<D: TestDriver>() {
    let (mut driver, address) = listening::<D>();
    let peer = TcpStream::connect(address).unwrap();
    let signaller = driver.signaller();
    // Made before the time of the close begins.
    let mut more_than_is_taken = Some(pattern(0, 32 << 20));
    run(&mut driver, |_, input, controls| {
        if let Input::Accepted { connection, .. } = input {
            controls.send(connection, more_than_is_taken.take().unwrap());
            controls.close(connection);
            controls.finish();
            signaller.send(Signal::Stop);
        }
    });
    // Given up by request, not because the time was over.
    assert_eq!(driver.counters().closes_abandoned, 0);
    assert_eq!(driver.counters().open_connections, 0);
    drop(peer);
}

pub fn other_signals_leave_the_last_closes_their_time<D: TestDriver>() {
    const TOTAL: usize = 32 << 20;
    let (mut driver, address) = listening::<D>();
    let mut peer = TcpStream::connect(address).unwrap();
    let signaller = driver.signaller();
    let react = |_, input: Input<'_>, controls: &mut Controls| {
        if let Input::Accepted { connection, .. } = input {
            controls.send(connection, pattern(0, TOTAL));
            controls.close(connection);
            controls.finish();
            // Heard when nearly all is unsent.
            signaller.send(Signal::Wake);
            signaller.send(Signal::Report);
        }
    };
    let total = run_with_peer(&mut driver, react, |signaller| {
        // More come while the peer reads.
        let mut all = vec![0; TOTAL];
        for piece in all.chunks_mut(TOTAL / 8) {
            signaller.send(Signal::Wake);
            peer.read_exact(piece).unwrap();
        }
        assert_pattern(0, &all);
        all.len() + peer.read(&mut [0]).unwrap()
    });
    assert_eq!(total, TOTAL);
    assert_eq!(driver.counters().closes_abandoned, 0);
}

pub fn nothing_is_heard_after_closing<D: TestDriver>() {
    let settings = Settings { receive_buffer: 16, ..Settings::default() };
    let (mut driver, address) = listening_with::<D>(settings);
    let mut heard = Vec::new();
    let react = |_, input: Input<'_>, controls: &mut Controls| match input {
        Input::Bytes { connection, bytes } => {
            heard.push(bytes.len());
            controls.close(connection);
        }
        Input::Signal(Signal::Drain) => controls.finish(),
        Input::Accepted { .. } | Input::TurnEnd => {}
        other => panic!("{other:?} after closing"),
    };
    run_with_peer(&mut driver, react, |signaller| {
        let mut peer = TcpStream::connect(address).unwrap();
        // In one piece, so that most is unread when the program closes after the first 16 bytes.
        peer.write_all(&[b'x'; 4096]).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        drop(peer);
        signaller.send(Signal::Drain);
    });
    assert_eq!(heard, [16]);
}
