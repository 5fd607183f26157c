//! One connection: what has arrived of the next compressed packet, and how the packets inside are numbered.

use seam::{Compression, CompressionSide};

use crate::codec::{Codec, Corrupt, HEADER, Header};

/// Packets are compressed together up to here: more of them hardly become smaller, and the first of them is of use only when
/// the last is there.
const TOGETHER: usize = 256 << 10;

/// And those for a server up to here, as its own clients put them together (`net_buffer_length`): it takes no compressed packet
/// that is larger opened than its `max_allowed_packet` (`net_realloc`).
const TOGETHER_FOR_SERVERS: usize = 16 << 10;

/// The state of one connection. Between packets it holds no bytes.
pub(crate) struct Stream {
    compression: Compression,
    /// The bytes that have arrived and have not been opened.
    arrived: Vec<u8>,
    /// The beginning of a packet for the peer that is not whole yet.
    held: Vec<u8>,
    /// Of our next compressed packet, but for one that begins a command.
    number: u8,
    side: Side,
}

/// The side that the numbers of packets go by.
enum Side {
    /// The peer is a client.
    Server {
        /// The last that went over the connection came from the peer.
        peer_spoke_last: bool,
        inbound: Framer,
        /// Of the peer's next packet inside.
        inner: u8,
    },
    /// The peer is a server.
    Client {
        /// The kind of message that has last gone to it.
        last: Sent,
    },
}

impl Stream {
    pub(crate) fn new(compression: Compression, side: CompressionSide) -> Self {
        let side = match side {
            CompressionSide::Server => {
                Side::Server { peer_spoke_last: false, inbound: Framer::default(), inner: 0 }
            }
            CompressionSide::Client => Side::Client { last: Sent::Short },
        };
        Self { compression, arrived: Vec::new(), held: Vec::new(), number: 0, side }
    }

    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// Says whether a whole packet has arrived.
    pub(crate) fn is_ready(&self) -> bool {
        Header::parse(&self.arrived).is_some_and(|header| self.arrived.len() >= HEADER + header.length)
    }

    /// How many bytes there are in the first packet, where that has arrived as a whole.
    pub(crate) fn first_content(&self) -> usize {
        if self.is_ready() { Header::parse(&self.arrived).map_or(0, Header::content) } else { 0 }
    }

    pub(crate) fn is_of_a_server(&self) -> bool {
        matches!(self.side, Side::Client { .. })
    }

    /// How many bytes have arrived and have not been opened.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Forgets the bytes that have arrived: they are of no use any more.
    pub(crate) fn forget(&mut self) {
        self.arrived = Vec::new();
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.arrived.capacity() + self.held.capacity()
    }

    /// Appends the packets inside of what has arrived, until these are as many bytes as `enough` or nothing is left: more
    /// only where the first packet has more.
    ///
    /// Clients number them as they number the compressed ones, after the first of a command (`net_flush` of MySQL's
    /// `net_serv.cc` synchronizes them); here they get the numbers that they would have without compression. Servers do
    /// likewise within an answer. Where one begins is for others to say, so that these keep their numbers.
    pub(crate) fn open(
        &mut self,
        codec: &mut Codec,
        enough: usize,
        plain: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        // What a large packet lacks comes in many pieces, and is not copied for each.
        if !self.is_ready() {
            return Ok(());
        }
        let arrived = std::mem::take(&mut self.arrived);
        let mut rest = &arrived[..];
        let before = plain.len();
        while plain.len() < enough
            && let Some(header) = Header::parse(rest)
            && (plain.len() == before || plain.len() + header.content() <= enough)
            && let Some(content) = rest.get(HEADER..HEADER + header.length)
        {
            let start = plain.len();
            match header.original {
                0 => plain.extend_from_slice(content),
                original => codec.open(self.compression, content, original, plain)?,
            }
            self.note_inbound(header.number, &mut plain[start..]);
            rest = &rest[HEADER + header.length..];
        }
        // A vector of its own size, or none.
        self.arrived = rest.to_vec();
        Ok(())
    }

    /// Notes the bytes that a compressed packet of this number held.
    fn note_inbound(&mut self, number: u8, plain: &mut [u8]) {
        if let Side::Server { peer_spoke_last, inbound, inner } = &mut self.side {
            // A command begins with 0; so may a packet in the middle of a long upload, after 255.
            let goes_on = *peer_spoke_last && self.number == 0;
            if number == 0 && !goes_on && inbound.is_between() {
                *inner = 0;
            }
            *peer_spoke_last = true;
            let mut at = 0;
            while let Some(index) = inbound.number(plain, &mut at) {
                plain[index] = *inner;
                *inner = inner.wrapping_add(1);
            }
        }
        self.number = number.wrapping_add(1);
    }

    /// Appends bytes for the peer as compressed packets. Of a packet that is not whole yet nothing goes: MySQL's server too
    /// compresses whole ones, and Connector/Python reads no packet from more than two compressed ones.
    pub(crate) fn put(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (mut start, mut end) = (0, 0);
        while let Some(&[low, middle, high, number]) = held[end..].first_chunk() {
            let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
            let next = end + 4 + length;
            if next > held.len() {
                break;
            }
            let place = self.note_outbound(number, length == LONGEST);
            let together = match place {
                Place::Anywhere => TOGETHER,
                Place::GoesOn => TOGETHER_FOR_SERVERS,
                Place::Begins | Place::Apart => 0,
            };
            if end > start && next - start > together {
                codec.put(self.compression, &mut self.number, &held[start..end], out);
                start = end;
            }
            if place == Place::Begins {
                self.number = 0;
            }
            end = next;
        }
        if end == 0 {
            self.held = held;
            return;
        }
        codec.put(self.compression, &mut self.number, &held[start..end], out);
        self.held = held[end..].to_vec();
    }

    /// Where a packet for the peer stands, which has this number and is `full` where another one continues it.
    fn note_outbound(&mut self, number: u8, full: bool) -> Place {
        match &mut self.side {
            Side::Server { peer_spoke_last, inner, .. } => {
                *peer_spoke_last = false;
                *inner = number.wrapping_add(1);
                Place::Anywhere
            }
            Side::Client { last } => {
                let before = *last;
                *last = match (before, full) {
                    (_, true) => Sent::Part,
                    (Sent::Part, false) => Sent::Long,
                    (Sent::Short | Sent::Long, false) => Sent::Short,
                };
                match (before, number) {
                    (Sent::Part, _) => Place::GoesOn,
                    (_, 0) => Place::Begins,
                    (Sent::Long, _) => Place::Apart,
                    (Sent::Short, _) => Place::GoesOn,
                }
            }
        }
    }
}

/// Where a packet for the peer stands among the compressed ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// They are numbered on and on.
    Anywhere,
    /// Behind others of its command, or of a file that the server has asked for.
    GoesOn,
    /// Likewise, but behind a message of several packets: MariaDB looks for what shares a compressed packet with the end of one
    /// in the wrong place (`save_char` in `my_net_read_packet_reallen`).
    Apart,
    /// A command begins, which a server reads from compressed packets of its own, numbered from 0 (`net_new_transaction`).
    Begins,
}

/// The message that has last gone to a server.
#[derive(Clone, Copy)]
enum Sent {
    /// A message of one packet, or nothing.
    Short,
    /// A packet of which the next one is the continuation.
    Part,
    /// The last packet of a message of several.
    Long,
}

/// The length of a packet that another one continues.
const LONGEST: usize = 0xff_ffff;

/// Finds the headers of packets in a stream that is cut anywhere.
#[derive(Default)]
struct Framer {
    /// Bytes of the header that have come, and the length that they say.
    seen: u8,
    length: usize,
    /// Bytes of the packet that are still to come.
    left: usize,
}

impl Framer {
    fn is_between(&self) -> bool {
        self.seen == 0 && self.left == 0
    }

    /// Where from `*at` on the next packet's number is; `*at` is moved behind it, or to the end.
    fn number(&mut self, bytes: &[u8], at: &mut usize) -> Option<usize> {
        while *at < bytes.len() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len() - *at);
                self.left -= skipped;
                *at += skipped;
                continue;
            }
            let index = *at;
            *at += 1;
            if self.seen == 3 {
                self.left = std::mem::take(&mut self.length);
                self.seen = 0;
                return Some(index);
            }
            self.length |= usize::from(bytes[index]) << (8 * self.seen);
            self.seen += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests;
