//! Bytes on their way out of a connection, and the pool of what holds them.

/// Unsent bytes. Those that the kernel has been asked to send stay where they are until it says how far it got; what
/// comes meanwhile waits behind them.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Does not move or change while a request is under way.
    sending: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
    /// Behind `sending`.
    waiting: Vec<u8>,
    pub(super) asked: Asked,
    /// The system took less than it was given last time: no use in trying before it says that it has room.
    pub(super) crowded: bool,
    /// The program has been told that the peer does not keep up.
    pub(super) stalled: bool,
}

/// The request to the kernel about the bytes that are to be sent next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing.
    #[default]
    Nothing,
    /// To send it all at once, and to say so only where that cannot be.
    Silently,
    /// To send it when there is room, and to say how much.
    Aloud,
}

impl Outbox {
    /// Adds bytes behind all others.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.asked {
            Asked::Nothing if self.waiting.is_empty() => self.sending.extend_from_slice(bytes),
            _ => self.waiting.extend_from_slice(bytes),
        }
    }

    /// The same; where no more than one request's bytes stand before them, these very bytes are kept.
    pub(super) fn push_whole(&mut self, bytes: Vec<u8>) {
        if self.sending.is_empty() && self.asked == Asked::Nothing {
            self.sending = bytes;
        } else if self.waiting.is_empty() {
            self.waiting = bytes;
        } else {
            self.waiting.extend_from_slice(&bytes);
        }
    }

    /// Returns the bytes to send next.
    pub(super) fn next(&self) -> &[u8] {
        &self.sending[self.sent..]
    }

    /// How many bytes the system has not taken yet.
    pub(super) fn unsent(&self) -> usize {
        self.sending.len() - self.sent + self.waiting.len()
    }

    /// The request under way has ended after this many bytes.
    pub(super) fn advance(&mut self, sent: usize) {
        self.asked = Asked::Nothing;
        self.sent += sent;
        self.crowded = self.sent < self.sending.len();
        if !self.crowded {
            self.sending.clear();
            self.sent = 0;
            std::mem::swap(&mut self.sending, &mut self.waiting);
            return;
        }
        if self.sent >= self.sending.len() - self.sent {
            // What is sent goes, so that a peer that is always behind costs no more than it is behind. No more bytes move
            // than were sent since the last time.
            self.sending.drain(..self.sent);
            self.sent = 0;
        }
        if !self.waiting.is_empty() && self.waiting.len() <= self.sending.len() - self.sent {
            // The smaller part moves: what is left goes out in one request later on.
            self.sending.append(&mut self.waiting);
        }
    }

    /// True while the kernel may read from it.
    pub(super) fn is_in_flight(&self) -> bool {
        self.asked != Asked::Nothing
    }

    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        size_of::<Self>() + self.capacity()
    }

    fn capacity(&self) -> usize {
        self.sending.capacity() + self.waiting.capacity()
    }
}

/// Outboxes for the connections that send next, so that a small answer costs no allocation.
#[derive(Debug, Default)]
pub(super) struct OutboxPool {
    // Boxed, because a connection has room for a pointer.
    #[allow(clippy::vec_box, reason = "they come from connections and go back there")]
    spare: Vec<Box<Outbox>>,
    capacity: usize,
}

/// Bytes that the pool keeps at most: 1,000 answers of 4 KiB, more than one turn has.
const MOST_SPARE: usize = 4 << 20;

/// A larger outbox is given back to the system: it was for a result set, and a few of them would fill the pool.
const LARGEST_SPARE: usize = 64 << 10;

impl OutboxPool {
    /// An empty outbox.
    pub(super) fn take(&mut self) -> Box<Outbox> {
        let outbox = self.spare.pop().unwrap_or_default();
        self.capacity -= outbox.capacity().min(self.capacity);
        outbox
    }

    /// Takes an outbox back, whatever is in it. No request may be under way.
    pub(super) fn give_back(&mut self, mut outbox: Box<Outbox>) {
        debug_assert!(!outbox.is_in_flight(), "the kernel still reads from it");
        let capacity = outbox.capacity();
        if capacity > LARGEST_SPARE || self.capacity + capacity > MOST_SPARE {
            return;
        }
        outbox.sending.clear();
        outbox.waiting.clear();
        *outbox = Outbox {
            sending: std::mem::take(&mut outbox.sending),
            waiting: std::mem::take(&mut outbox.waiting),
            ..Outbox::default()
        };
        self.capacity += capacity;
        self.spare.push(outbox);
    }

    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        self.capacity + self.spare.len() * size_of::<Outbox>() + self.spare.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_around_a_request() {
        let mut outbox = Outbox::default();
        outbox.push(b"abc");
        outbox.push(b"def");
        outbox.asked = Asked::Aloud;
        let before = outbox.next().as_ptr();
        outbox.push(b"ghi");
        assert_eq!(outbox.next(), b"abcdef");
        assert_eq!(outbox.next().as_ptr(), before, "moved under the kernel's hands");
        outbox.advance(2);
        assert!(outbox.crowded);
        assert_eq!((outbox.next(), outbox.unsent()), (&b"cdefghi"[..], 7));
        outbox.asked = Asked::Aloud;
        outbox.push(b"j");
        outbox.advance(7);
        assert_eq!((outbox.next(), outbox.unsent()), (&b"j"[..], 1));
        outbox.asked = Asked::Aloud;
        outbox.advance(1);
        assert_eq!(outbox.unsent(), 0);
    }

    #[test]
    fn whole_bytes_are_kept_where_nothing_waits() {
        let mut outbox = Outbox::default();
        let large = vec![7; 100];
        let place = large.as_ptr();
        outbox.push_whole(large);
        assert_eq!((outbox.next().as_ptr(), outbox.unsent()), (place, 100));
        outbox.push_whole(vec![9; 50]);
        outbox.push(&[8; 2]);
        assert_eq!((outbox.next(), outbox.unsent()), (&[7; 100][..], 152));
        outbox.asked = Asked::Aloud;
        outbox.advance(100);
        assert_eq!(outbox.next(), [&[9; 50][..], &[8; 2]].concat());
        outbox.advance(52);
        assert_eq!(outbox.unsent(), 0);
        outbox.push_whole(vec![1]);
        outbox.asked = Asked::Silently;
        outbox.push_whole(vec![2; 3]);
        outbox.advance(1);
        assert_eq!(outbox.next(), [2; 3]);
    }

    #[test]
    fn a_peer_that_is_always_behind_costs_no_more_than_it_is_behind() {
        const BEHIND: usize = 1000;
        let mut outbox = Outbox::default();
        outbox.push(&[1; BEHIND]);
        for _ in 0..10_000 {
            outbox.asked = Asked::Aloud;
            outbox.push(&[1; 10]);
            outbox.advance(10);
            assert_eq!(outbox.unsent(), BEHIND);
        }
        // As much again that is sent already, and a vector's room to grow.
        assert!(outbox.capacity() <= 4 * BEHIND, "{} bytes", outbox.capacity());
    }

    #[test]
    fn the_pool_is_bounded_and_hands_out_empty_outboxes() {
        let mut pool = OutboxPool::default();
        for _ in 0..3 * MOST_SPARE / LARGEST_SPARE {
            let mut outbox = Box::new(Outbox::default());
            outbox.push(&[1; LARGEST_SPARE]);
            outbox.stalled = true;
            pool.give_back(outbox);
        }
        assert!(pool.capacity <= MOST_SPARE);
        let outbox = pool.take();
        assert_eq!((outbox.unsent(), outbox.stalled), (0, false));
        let held = pool.allocated();
        let mut large = Box::new(Outbox::default());
        large.push(&[1; LARGEST_SPARE + 1]);
        pool.give_back(large);
        assert_eq!(pool.allocated(), held);
    }
}
