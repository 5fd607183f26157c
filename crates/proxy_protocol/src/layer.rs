//! The layer that looks at the first bytes of connections.

use std::collections::VecDeque;

use seam::{CloseReason, ConnectionId, Input, Instant, Output, Peer, Program};

use crate::header::{Parsed, parse};
use crate::networks::Networks;

/// The error of a connection without a proper header: EPROTO, "Protocol error".
const PROTOCOL_ERROR: i32 = 71;

/// A program whose trusted peers may say for whom they connect. In addition to what [`seam`] says, its program may hear
/// [`Input::Announced`] before the first bytes of a connection.
pub struct ProxyProtocol<P> {
    inner: P,
    trusted: Networks,
    /// Connections of trusted peers that have not said enough to tell, by their index, with what they have said.
    unheard: Vec<Slot>,
    closing: VecDeque<ConnectionId>,
}

/// A connection, and what it has said.
type Slot = Option<(ConnectionId, Vec<u8>)>;

impl<P: Program> ProxyProtocol<P> {
    /// A layer around `inner`.
    pub fn new(inner: P, trusted: Networks) -> Self {
        Self { inner, trusted, unheard: Vec::new(), closing: VecDeque::new() }
    }

    /// The program inside.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    fn accepted(&mut self, connection: ConnectionId, peer: &Peer) {
        if !self.trusted.contain(peer) {
            return;
        }
        let index = connection.index as usize;
        if self.unheard.len() <= index {
            self.unheard.resize_with(index + 1, || None);
        }
        self.unheard[index] = Some((connection, Vec::new()));
    }

    fn bytes(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        let Some(slot) = slot_of(&mut self.unheard, connection) else {
            return self.inner.handle(now, Input::Bytes { connection, bytes });
        };
        let Some((_, mut said)) = slot.take() else { return };
        said.extend_from_slice(bytes);
        let skipped = match parse(&said) {
            Ok(Parsed::Partial) => {
                *slot = Some((connection, said));
                return;
            }
            Ok(Parsed::Absent) => 0,
            Ok(Parsed::Header(header)) => {
                if let Some(source) = header.source {
                    self.inner.handle(now, Input::Announced { connection, peer: Peer::Tcp(source) });
                }
                header.length
            }
            Err(_) => {
                self.closing.push_back(connection);
                let reason = CloseReason::Failed(PROTOCOL_ERROR);
                return self.inner.handle(now, Input::Closed { connection, reason });
            }
        };
        if skipped < said.len() {
            self.inner.handle(now, Input::Bytes { connection, bytes: &said[skipped..] });
        }
    }
}

impl<P: Program> Program for ProxyProtocol<P> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Bytes { connection, bytes } => return self.bytes(now, connection, bytes),
            Input::Accepted { connection, ref peer, .. } => self.accepted(connection, peer),
            Input::Closed { connection, .. } => {
                forget(&mut self.unheard, connection);
            }
            _ => {}
        }
        self.inner.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        if let Some(connection) = self.closing.pop_front() {
            return Some(Output::Close { connection });
        }
        let output = self.inner.poll_output();
        // It need not wait until all is said: a login that takes too long.
        if let Some(Output::Close { connection } | Output::Abort { connection }) = output {
            forget(&mut self.unheard, connection);
        }
        output
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }
}

fn slot_of(unheard: &mut [Slot], connection: ConnectionId) -> Option<&mut Slot> {
    let slot = unheard.get_mut(connection.index as usize)?;
    slot.as_ref().is_some_and(|(found, _)| *found == connection).then_some(slot)
}

fn forget(unheard: &mut [Slot], connection: ConnectionId) {
    if let Some(slot) = slot_of(unheard, connection) {
        *slot = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seam::ListenerId;

    /// Notes what it hears.
    #[derive(Default)]
    struct Notes {
        bytes: Vec<u8>,
        announced: Vec<(Peer, usize)>,
        closed: bool,
        /// The connection that the layer wants to close.
        closes: Option<ConnectionId>,
    }

    impl Program for Notes {
        fn handle(&mut self, _now: Instant, input: Input<'_>) {
            match input {
                Input::Bytes { bytes, .. } => self.bytes.extend_from_slice(bytes),
                Input::Announced { peer, .. } => self.announced.push((peer, self.bytes.len())),
                Input::Closed { .. } => self.closed = true,
                _ => {}
            }
        }

        fn poll_output(&mut self) -> Option<Output<'_>> {
            self.closes.take().map(|connection| Output::Close { connection })
        }

        fn next_timeout(&self) -> Option<Instant> {
            None
        }
    }

    const CONNECTION: ConnectionId = ConnectionId { index: 2, generation: 1 };

    fn heard(peer: &str, said: &[u8], piece: usize) -> (Notes, bool) {
        let mut layer = ProxyProtocol::new(Notes::default(), "10.0.0.0/8".parse().unwrap());
        let peer = Peer::Tcp(peer.parse().unwrap());
        let accepted = Input::Accepted { connection: CONNECTION, listener: ListenerId(0), peer };
        layer.handle(Instant::START, accepted);
        for bytes in said.chunks(piece) {
            layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes });
        }
        let closes = layer.poll_output() == Some(Output::Close { connection: CONNECTION });
        (layer.inner, closes)
    }

    proptest! {
        #[test]
        fn a_header_is_taken_off(piece in 1..100_usize, rest in prop::collection::vec(any::<u8>(), 0..50)) {
            let said = [b"PROXY TCP4 192.0.2.1 10.0.0.1 7 3306\r\n", &rest[..]].concat();
            let (notes, closes) = heard("10.1.2.3:4", &said, piece);
            prop_assert_eq!(&notes.bytes, &rest);
            prop_assert_eq!(notes.announced, vec![(Peer::Tcp("192.0.2.1:7".parse().unwrap()), 0)]);
            prop_assert!(!closes && !notes.closed);
            // From anybody else it is what it looks like.
            let (notes, _) = heard("11.1.2.3:4", &said, piece);
            prop_assert_eq!(notes.bytes, said);
            prop_assert!(notes.announced.is_empty());
        }

        #[test]
        fn without_one_nothing_is_lost(piece in 1..100_usize, said in prop::collection::vec(any::<u8>(), 1..50)) {
            prop_assume!(said[0] != b'P' && said[0] != b'\r');
            let (notes, closes) = heard("10.1.2.3:4", &said, piece);
            prop_assert_eq!(notes.bytes, said);
            prop_assert!(!closes && notes.announced.is_empty());
        }
    }

    #[test]
    fn a_broken_one_ends_the_connection() {
        let (notes, closes) = heard("10.1.2.3:4", b"PROXY TCP9 nonsense\r\n", 5);
        assert!(closes && notes.closed && notes.bytes.is_empty());
    }

    #[test]
    fn nothing_is_kept_of_who_is_gone() {
        let closed = Input::Closed { connection: CONNECTION, reason: CloseReason::EndOfStream };
        for (closed, by_program) in [(Some(closed), None), (None, Some(CONNECTION))] {
            let mut layer = ProxyProtocol::new(Notes::default(), "10.0.0.0/8".parse().unwrap());
            let peer = Peer::Tcp("10.1.2.3:4".parse().unwrap());
            let accepted = Input::Accepted { connection: CONNECTION, listener: ListenerId(0), peer };
            layer.handle(Instant::START, accepted);
            layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes: b"PROXY TCP4" });
            assert!(layer.unheard[2].is_some());
            layer.inner.closes = by_program;
            if let Some(closed) = closed {
                layer.handle(Instant::START, closed);
            }
            while layer.poll_output().is_some() {}
            assert!(layer.unheard[2].is_none());
        }
    }
}
