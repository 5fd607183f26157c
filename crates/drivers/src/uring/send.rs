//! Sending: one request at a time for each connection.

use rustix::io::Errno;
use seam::{ConnectionId, Input, Program};

use super::UringDriver;
use super::connection::Phase;
use super::outbox::{Asked, Outbox};

/// Bytes that are sent without a completion at most. They are kept as long as the wait lasts, of no more connections than
/// a turn has, and nearly all answers are smaller; to be woken for more than this is little beside copying it.
const MOST_SILENTLY: usize = 16 << 10;

impl UringDriver {
    /// Keeps the bytes until the turn is over; what a connection sends in one turn is one request.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.add(id, |outbox| outbox.push(bytes));
        }
    }

    /// The same with bytes that are ours to keep.
    pub(super) fn send_whole(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.add(id, |outbox| outbox.push_whole(bytes));
        }
    }

    fn add(&mut self, id: ConnectionId, push: impl FnOnce(&mut Outbox)) {
        let Some(connection) = self.connections.get_mut(id).filter(|connection| connection.is_open()) else {
            return;
        };
        let outbox = connection.outbox.get_or_insert_with(|| self.outboxes.take());
        let before = outbox.unsent();
        push(outbox);
        // Only those that pass the mark: the system may take them all before the program has to know.
        let high_water = self.settings.high_water;
        if !outbox.stalled && before <= high_water && outbox.unsent() > high_water {
            self.crowded.push(id);
        }
        if !outbox.is_in_flight() {
            self.list(id);
        }
    }

    /// Asks for what is next to be sent, unless a request is under way.
    pub(super) fn send_next(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !matches!(connection.phase, Phase::Reading | Phase::Paused { .. } | Phase::Flushing(_)) {
            return;
        }
        let Some(outbox) = connection.outbox.as_mut().filter(|outbox| !outbox.is_in_flight()) else { return };
        if outbox.next().is_empty() {
            return;
        }
        // What is being closed goes on when all is sent, and a stalled program too: a completion has to end the wait.
        let is_awaited = matches!(connection.phase, Phase::Flushing(_)) || outbox.stalled;
        let silently = !is_awaited && !outbox.crowded && outbox.next().len() <= MOST_SILENTLY;
        outbox.asked = if silently { Asked::Silently } else { Asked::Aloud };
        self.counters.sends += 1;
        let ring = &mut self.rings[usize::from(connection.ring)];
        // SAFETY: these bytes neither move nor change until the outbox advances, and the outbox stays with the
        // connection until all its requests have ended.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            if silently {
                ring.send_silently(id, connection.file, outbox.next());
            } else {
                ring.send(id, connection.file, outbox.next(), outbox.crowded);
            }
        }
    }

    /// Goes on with the connections whose silent requests are known to have succeeded.
    pub(super) fn settle_silent<P: Program>(&mut self, program: &mut P) {
        for ring in 0..self.rings.len() {
            let taken = self.rings[ring].taken;
            while let Some(id) = self.rings[ring].silent.next_certain(taken) {
                let outbox = self.connections.get(id).and_then(|connection| connection.outbox.as_ref());
                // Otherwise it has failed, and a completion has said so.
                if let Some(outbox) = outbox.filter(|outbox| outbox.asked == Asked::Silently) {
                    self.sent(id, Ok(outbox.next().len()), program);
                }
            }
        }
    }

    /// A request to send has ended.
    pub(super) fn sent<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(outbox) = &mut connection.outbox else { return };
        let sent = match outcome {
            Ok(sent) => sent,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => {
                outbox.asked = Asked::Nothing;
                self.drop_outbox(id);
                self.fail(id, errno);
                return self.remove_if_done(id);
            }
        };
        self.counters.bytes_sent += sent as u64;
        let was_crowded = outbox.crowded;
        outbox.advance(sent);
        let (left, was_stalled) = (outbox.unsent(), outbox.stalled);
        let is_drained = was_stalled && left <= self.settings.low_water;
        outbox.stalled = was_stalled && !is_drained;
        if let (Phase::Flushing(flush), false) = (&mut connection.phase, was_crowded) {
            // Where there was room, the system took them: that says nothing about the peer.
            flush.unsent = left;
        }
        let is_open = connection.is_open();
        let is_flushed = left == 0 && matches!(connection.phase, Phase::Flushing(_));
        if left == 0 {
            self.drop_outbox(id);
        } else {
            self.list(id);
        }
        if is_flushed {
            self.hear_out(id);
        }
        if is_open && is_drained {
            self.tell(program, Input::Drained { connection: id });
        } else if is_open && was_stalled {
            self.tell(program, Input::Stalled { connection: id });
        }
        self.remove_if_done(id);
    }

    /// Tells that a connection's peer does not keep up, unless the system has taken the bytes since.
    pub(super) fn report_stall<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id).filter(|connection| connection.is_open()) else {
            return;
        };
        let Some(outbox) = &mut connection.outbox else { return };
        if outbox.unsent() > self.settings.high_water && !outbox.stalled {
            outbox.stalled = true;
            self.tell(program, Input::Stalled { connection: id });
        }
    }

    /// Puts a connection's outbox back into the pool, with what is in it.
    pub(super) fn drop_outbox(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(outbox) = connection.outbox.take() {
            self.outboxes.give_back(outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::Settings;
    use crate::uring::connection::Connection;
    use crate::uring::{Nobody, probe};

    #[test]
    fn what_is_sent_at_once_is_certain_without_a_completion() {
        let Some((mut driver, id, mut peer)) = connected() else { return };
        driver.send(id, b"answer");
        turn(&mut driver);
        assert!(driver.completions.is_empty(), "{:?}", driver.completions);
        assert!(driver.connections.get(id).unwrap().outbox.is_none());
        assert_eq!(driver.counters.bytes_sent, 6);
        let mut answer = [0; 6];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }

    #[test]
    fn what_cannot_be_sent_in_full_is_told() {
        let Some((mut driver, id, mut peer)) = connected() else { return };
        let mut sent = 0;
        while driver.connections.get(id).unwrap().outbox.is_none() {
            driver.send(id, &[1; MOST_SILENTLY]);
            sent += MOST_SILENTLY;
            turn(&mut driver);
        }
        let outbox = driver.connections.get(id).unwrap().outbox.as_ref().unwrap();
        let unsent = outbox.unsent();
        assert!(outbox.crowded && unsent > 0 && unsent <= MOST_SILENTLY, "{unsent} bytes unsent");
        assert_eq!(outbox.asked, Asked::Nothing);
        // What is crowded waits for room, aloud.
        turn(&mut driver);
        let outbox = driver.connections.get(id).unwrap().outbox.as_ref().unwrap();
        assert_eq!((outbox.asked, outbox.unsent()), (Asked::Aloud, unsent));
        // Nothing more goes without a turn, so what is there is what was sent.
        assert_eq!(received(&mut peer), sent - unsent);
    }

    #[test]
    fn the_kernel_tells_of_a_part() {
        let Some((mut driver, id, mut peer)) = connected() else { return };
        // More than a Unix socket holds (net.core.wmem_default).
        let much = vec![1; 8 << 20];
        let Connection { ring, file, .. } = *driver.connections.get(id).unwrap();
        // SAFETY: the bytes outlive the wait, which the kernel carries the request out in.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            driver.rings[usize::from(ring)].send_silently(id, file, &much);
        }
        driver.wait(Some(Duration::from_millis(1))).unwrap();
        let sent = match &driver.completions[..] {
            [only] => only.outcome().unwrap(),
            other => panic!("{other:?}"),
        };
        assert!(sent < much.len());
        assert_eq!(sent, received(&mut peer));
    }

    #[test]
    fn what_cannot_be_sent_is_told() {
        let Some((mut driver, id, peer)) = connected() else { return };
        drop(peer);
        driver.send(id, b"answer");
        turn(&mut driver);
        let phase = &driver.connections.get(id).unwrap().phase;
        assert!(matches!(phase, Phase::Failed { errno: Errno::PIPE, .. }), "{phase:?}");
    }

    #[test]
    fn a_close_keeps_what_is_not_certain() {
        let Some((mut driver, id, _peer)) = connected() else { return };
        driver.send(id, b"answer");
        driver.prepare();
        // Before it is submitted.
        driver.start_closing(id);
        assert_eq!(driver.connections.get(id).unwrap().unsent_bytes(), 6);
        for _ in 0..3 {
            turn(&mut driver);
        }
        assert!(driver.connections.get(id).is_none());
        assert_eq!(driver.counters.bytes_sent, 6);
    }

    fn connected() -> Option<(UringDriver, ConnectionId, UnixStream)> {
        if let Err(reason) = probe() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut driver = UringDriver::new(Settings::default()).unwrap();
        driver.enable_rings().unwrap();
        // Armed here, so that its first completion is none of a test's.
        driver.prepare();
        let (ours, peer) = UnixStream::pair().unwrap();
        let (ring, file) = driver.take_file().unwrap();
        driver.rings[usize::from(ring)].install(file, ours.as_fd()).unwrap();
        let connection = Connection::new(ring, file, Phase::Paused { parked: true });
        let id = driver.connections.insert(connection).unwrap();
        Some((driver, id, peer))
    }

    /// How much there is to be read.
    fn received(peer: &mut UnixStream) -> usize {
        peer.set_nonblocking(true).unwrap();
        let (mut room, mut received) = (vec![0; 64 << 10], 0);
        while let Ok(length @ 1..) = peer.read(&mut room) {
            received += length;
        }
        received
    }

    fn turn(driver: &mut UringDriver) {
        driver.prepare();
        driver.wait(Some(Duration::from_millis(1))).unwrap();
        driver.hear(&mut Nobody { signalled: false });
    }
}
