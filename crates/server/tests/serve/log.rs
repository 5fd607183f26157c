//! A log that nobody reads.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Onramp, TestFolder, WATCHDOG, command};

/// A stream that takes nothing more, and its other end.
fn full_stream() -> (UnixStream, UnixStream) {
    let (mut full, other) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    loop {
        match full.write(&[b'x'; 1 << 16]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    // One byte may find a place where many do not.
    while full.write(b"x").is_ok() {}
    full.set_nonblocking(false).unwrap();
    (full, other)
}

#[test]
fn onramp_ends_when_asked_though_nobody_reads_its_log() {
    let folder = TestFolder::new();
    let socket = folder.path().join("clients.sock");
    let (log, _unread) = full_stream();
    let child = command(&folder)
        .args(["serve", "--max-connections", "100", "--backend", "mysql://root@127.0.0.1:1/", "--listen"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(OwnedFd::from(log)))
        .spawn()
        .unwrap();
    let mut onramp = Onramp::of(child);
    let deadline = Instant::now() + WATCHDOG;
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < deadline, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    onramp.signal(Signal::TERM);
    assert!(onramp.wait().success());
}
