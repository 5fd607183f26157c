//! One connection: what has arrived of the next compressed packet, and how the packets inside are numbered.

use seam::Compression;

use crate::codec::{Codec, Corrupt, HEADER, Header};

/// Packets are compressed together up to here: more of them hardly become smaller, and the first of them is of use only when
/// the last is there.
const TOGETHER: usize = 256 << 10;

/// The state of one connection. Between packets it holds no bytes.
pub(crate) struct Stream {
    compression: Compression,
    /// What has arrived and has not been opened.
    arrived: Vec<u8>,
    /// The beginning of a packet for the peer that is not whole yet.
    held: Vec<u8>,
    /// Of our next compressed packet.
    number: u8,
    /// The last that went over the connection came from the peer.
    peer_spoke_last: bool,
    inbound: Framer,
    /// Of the peer's next packet inside.
    inner: u8,
}

impl Stream {
    pub(crate) fn new(compression: Compression) -> Self {
        Self {
            compression,
            arrived: Vec::new(),
            number: 0,
            peer_spoke_last: false,
            inbound: Framer::default(),
            held: Vec::new(),
            inner: 0,
        }
    }

    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// Whether a whole packet has arrived.
    pub(crate) fn is_ready(&self) -> bool {
        Header::parse(&self.arrived).is_some_and(|header| self.arrived.len() >= HEADER + header.length)
    }

    /// Appends the packets inside of what has arrived, until these are as many bytes as `enough` or nothing is left.
    ///
    /// Clients number them as they number the compressed ones, after the first of a command (`net_flush` of MySQL's
    /// `net_serv.cc` synchronizes them); here they get the numbers that they would have without compression.
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
        while plain.len() < enough
            && let Some(header) = Header::parse(rest)
            && let Some(content) = rest.get(HEADER..HEADER + header.length)
        {
            let start = plain.len();
            match header.original {
                0 => plain.extend_from_slice(content),
                original => codec.open(self.compression, content, original, plain)?,
            }
            // A command begins with 0; so may a packet in the middle of a long upload, after 255.
            let goes_on = self.peer_spoke_last && self.number == 0;
            if header.number == 0 && !goes_on && self.inbound.is_between() {
                self.inner = 0;
            }
            self.number = header.number.wrapping_add(1);
            self.peer_spoke_last = true;
            self.renumber(&mut plain[start..]);
            rest = &rest[HEADER + header.length..];
        }
        // A vector of its own size, or none.
        self.arrived = rest.to_vec();
        Ok(())
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
            if next - start > TOGETHER && end > start {
                codec.put(self.compression, &mut self.number, &held[start..end], out);
                start = end;
            }
            self.inner = number.wrapping_add(1);
            end = next;
        }
        if end == 0 {
            self.held = held;
            return;
        }
        codec.put(self.compression, &mut self.number, &held[start..end], out);
        self.peer_spoke_last = false;
        self.held = held[end..].to_vec();
    }

    fn renumber(&mut self, plain: &mut [u8]) {
        let mut at = 0;
        while let Some(index) = self.inbound.number(plain, &mut at) {
            plain[index] = self.inner;
            self.inner = self.inner.wrapping_add(1);
        }
    }
}

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
mod tests {
    use super::*;

    fn packet(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[length, 0, 0, number], content].concat()
    }

    /// What a peer sends as one compressed packet.
    fn sent(number: u8, packets: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut number) = (Vec::new(), number);
        Codec::new().put(Compression::Zlib, &mut number, &packets.concat(), &mut out);
        out
    }

    fn opened(stream: &mut Stream, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        stream.keep(bytes);
        stream.open(&mut Codec::new(), usize::MAX, &mut plain).unwrap();
        plain
    }

    #[test]
    fn packets_get_the_numbers_that_they_would_have() {
        let mut stream = Stream::new(Compression::Zlib);
        assert_eq!(opened(&mut stream, &sent(0, &[packet(0, b"load")])), packet(0, b"load"));
        let (mut out, mut codec) = (Vec::new(), Codec::new());
        stream.put(&mut codec, &packet(1, b"which file"), &mut out);
        assert_eq!(Header::parse(&out).unwrap().number, 1);
        // Two in the first, of which the client knows one number only.
        let upload = sent(2, &[packet(2, b"a"), packet(3, b"b")]);
        assert_eq!(opened(&mut stream, &upload), [packet(2, b"a"), packet(3, b"b")].concat());
        assert_eq!(opened(&mut stream, &sent(3, &[packet(3, b"c")])), packet(4, b"c"));
        out.clear();
        stream.put(&mut codec, &packet(5, b"done"), &mut out);
        assert_eq!(Header::parse(&out).unwrap().number, 4);
        // The next command, and one that is sent ahead.
        let two = [sent(0, &[packet(0, b"x")]), sent(0, &[packet(0, b"y")])].concat();
        assert_eq!(opened(&mut stream, &two), [packet(0, b"x"), packet(0, b"y")].concat());
    }

    #[test]
    fn long_uploads_go_round() {
        let mut stream = Stream::new(Compression::Zlib);
        opened(&mut stream, &sent(0, &[packet(0, b"load")]));
        stream.put(&mut Codec::new(), &packet(1, b"which file"), &mut Vec::new());
        for number in 2..1000_u16 {
            let number = number.to_le_bytes()[0];
            assert_eq!(opened(&mut stream, &sent(number, &[packet(9, b"more")])), packet(number, b"more"));
        }
    }

    #[test]
    fn packets_go_whole() {
        let (mut stream, mut codec) = (Stream::new(Compression::Zlib), Codec::new());
        let large = [&[0x40, 0x42, 0x0f, 7][..], &[b'l'; 1_000_000]].concat();
        let all = [packet(6, b"small"), large, packet(8, b"last")].concat();
        let mut out = Vec::new();
        let mut before = 0;
        for piece in all.chunks(70_000) {
            stream.put(&mut codec, piece, &mut out);
            assert!(out.len() == before || Header::parse(&out[before..]).is_some());
            before = out.len();
        }
        let mut headers = Vec::new();
        let mut rest = &out[..];
        while let Some(header) = Header::parse(rest) {
            headers.push((header.number, header.original));
            rest = &rest[HEADER + header.length..];
        }
        // What was whole first, the large one with nothing of others, what came last.
        assert_eq!(headers, [(0, 0), (1, 1_000_004), (2, 0)]);
        assert!(stream.held.is_empty());
    }

    #[test]
    fn cut_anywhere() {
        let all = [sent(0, &[packet(0, &[b'a'; 200])]), sent(1, &[packet(1, b"b")])].concat();
        for piece in 1..all.len() {
            let mut stream = Stream::new(Compression::Zlib);
            let plain: Vec<u8> = all.chunks(piece).flat_map(|bytes| opened(&mut stream, bytes)).collect();
            assert_eq!(plain, [packet(0, &[b'a'; 200]), packet(1, b"b")].concat());
        }
    }
}
