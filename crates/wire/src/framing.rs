//! Packets (a header of four bytes and up to 16 MiB - 1 of payload) and messages (one or more packets).
//!
//! A header is the payload's length in three bytes and a sequence number. A payload of 16 MiB - 1 bytes or more takes
//! several packets; the one that ends it is shorter than the maximum, and so possibly empty. Sequence numbers start at
//! 0 with each command and wrap at 256. Source: `my_net_read`/`my_net_write` in the servers' `sql/net_serv.cc`.

use std::borrow::Cow;

use crate::WireError;

/// The largest payload of one packet: what three bytes can say. A packet of exactly this length is continued.
pub const MAX_PAYLOAD: usize = 0xff_ffff;

/// Bytes of a packet header: length (3) and sequence number (1).
pub const HEADER_LEN: usize = 4;

/// A whole message at the front of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The payloads of its packets, joined; borrowed where there is only one.
    pub payload: Cow<'a, [u8]>,
    /// The message as it came, headers included.
    pub raw: &'a [u8],
    /// Bytes that it took (the length of `raw`).
    pub consumed: usize,
    /// The sequence number of its last packet. An answer starts with the next one.
    pub last_sequence: u8,
}

/// Reads one message at the front of `bytes`, whose packets count up from `sequence` (modulo 256).
///
/// `None` means that more bytes are needed; [`message_len_hint`] says how many. Costs nothing but a look at the headers
/// until the message is complete.
///
/// # Errors
///
/// [`WireError::WrongSequence`] as soon as a header shows it, and [`WireError::TooLarge`] as soon as the headers seen
/// add up to a payload above `limit` bytes, long before the payload is there.
pub fn read_message(bytes: &[u8], sequence: u8, limit: usize) -> Result<Option<Message<'_>>, WireError> {
    let Some(Extent { consumed, length, last_sequence }) = message_extent(bytes, sequence, limit)? else {
        return Ok(None);
    };
    let raw = &bytes[..consumed];
    let payload = if length == consumed - HEADER_LEN {
        Cow::Borrowed(&raw[HEADER_LEN..])
    } else {
        Cow::Owned(join(raw, length))
    };
    Ok(Some(Message { payload, raw, consumed, last_sequence }))
}

/// How far a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of all its packets, headers included.
    pub consumed: usize,
    /// Bytes of its payload.
    pub length: usize,
    /// The sequence number of its last packet.
    pub last_sequence: u8,
}

/// Does the same as [`read_message`] without the payload: nothing is copied, however many packets there are.
///
/// # Errors
///
/// As [`read_message`].
pub fn message_extent(bytes: &[u8], sequence: u8, limit: usize) -> Result<Option<Extent>, WireError> {
    let mut at = 0;
    let mut length = 0;
    let mut expected = sequence;
    loop {
        let Some(header) = Header::parse(&bytes[at..]) else { return Ok(None) };
        header.check_sequence(expected)?;
        length += header.length;
        if length > limit {
            return Err(WireError::TooLarge { limit });
        }
        at += HEADER_LEN + header.length;
        if at > bytes.len() {
            return Ok(None);
        }
        if header.length < MAX_PAYLOAD {
            break;
        }
        expected = expected.wrapping_add(1);
    }
    Ok(Some(Extent { consumed: at, length, last_sequence: expected }))
}

/// Takes the headers out of a whole message, which leaves its payload in the same memory. What is no whole message stays as it is.
pub fn unpack_message(message: &mut Vec<u8>) {
    let first = message.get(HEADER_LEN - 1).copied().unwrap_or(0);
    let whole = matches!(message_extent(message, first, usize::MAX),
        Ok(Some(extent)) if extent.consumed == message.len());
    if !whole {
        return;
    }
    let (mut from, mut to) = (0, 0);
    while let Some(header) = message.get(from..).and_then(Header::parse) {
        let begins = from + HEADER_LEN;
        message.copy_within(begins..begins + header.length, to);
        from = begins + header.length;
        to += header.length;
    }
    message.truncate(to);
}

/// Makes a payload a message in the same memory, as [`put_message`] would append it elsewhere.
pub fn pack_message(payload: &mut Vec<u8>, sequence: &mut u8) {
    let length = payload.len();
    let packets = length / MAX_PAYLOAD + 1;
    // No more than there is need for: a vector would double.
    payload.reserve_exact(packets * HEADER_LEN);
    payload.resize(length + packets * HEADER_LEN, 0);
    for packet in (0..packets).rev() {
        let begins = packet * MAX_PAYLOAD;
        let ends = length.min(begins + MAX_PAYLOAD);
        let place = begins + packet * HEADER_LEN;
        payload.copy_within(begins..ends, place + HEADER_LEN);
        #[allow(clippy::cast_possible_truncation, reason = "they are counted modulo 256")]
        let number = sequence.wrapping_add(packet as u8);
        let header = Header { length: ends - begins, sequence: number };
        payload[place..place + HEADER_LEN].copy_from_slice(&header.to_bytes());
    }
    #[allow(clippy::cast_possible_truncation, reason = "they are counted modulo 256")]
    let counted = packets as u8;
    *sequence = sequence.wrapping_add(counted);
}

/// Bytes that the first message needs in all, headers included, as far as the headers seen so far tell; it may grow
/// when a further header comes. `None` before the first header is complete.
pub fn message_len_hint(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let Some(header) = bytes.get(end..).and_then(Header::parse) else {
            // Only the first header may be missing: any other is announced by a full packet before it.
            return (end > 0).then_some(end + HEADER_LEN);
        };
        end += HEADER_LEN + header.length;
        if header.length < MAX_PAYLOAD || end > bytes.len() {
            return Some(end);
        }
    }
}

/// How many headers of the first message's packets are there: the number, modulo 256, that an error has which a server sends
/// where the rest does not come (`net->pkt_nr` in the servers).
pub fn headers_read(bytes: &[u8]) -> u8 {
    let (mut end, mut count) = (0, 0_u8);
    while let Some(header) = bytes.get(end..).and_then(Header::parse) {
        count = count.wrapping_add(1);
        end += HEADER_LEN + header.length;
        if header.length < MAX_PAYLOAD {
            break;
        }
    }
    count
}

/// Appends `payload` as a message: one packet, or several where it is 16 MiB - 1 or longer (the last one is empty after
/// an exact multiple). Numbers them from `*sequence` on, which is left at the number after the last.
pub fn put_message(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (front, behind) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.extend_from_slice(&Header { length: front.len(), sequence: *sequence }.to_bytes());
        out.extend_from_slice(front);
        *sequence = sequence.wrapping_add(1);
        if front.len() < MAX_PAYLOAD {
            return;
        }
        rest = behind;
    }
}

/// Where a packet begun with [`begin_packet`] starts.
#[derive(Debug)]
#[must_use = "the header stays empty without end_packet"]
pub struct PacketStart(usize);

/// Reserves a header, so that a payload can be built in place behind it. [`end_packet`] fills it in.
pub fn begin_packet(out: &mut Vec<u8>) -> PacketStart {
    let start = PacketStart(out.len());
    out.extend_from_slice(&[0; HEADER_LEN]);
    start
}

/// Fills in the header of a packet whose payload is everything appended since [`begin_packet`], and advances
/// `*sequence`. A payload that needs several packets is split as by [`put_message`].
///
/// # Panics
///
/// If `start` is not from the same buffer.
#[allow(clippy::needless_pass_by_value, reason = "taken by value so that a start is ended once")]
pub fn end_packet(out: &mut Vec<u8>, start: PacketStart, sequence: &mut u8) {
    let length = out
        .len()
        .checked_sub(start.0 + HEADER_LEN)
        .expect("a packet is ended in the buffer in which it was begun");
    if length >= MAX_PAYLOAD {
        let payload = out.split_off(start.0 + HEADER_LEN);
        out.truncate(start.0);
        put_message(out, sequence, &payload);
        return;
    }
    let header = Header { length, sequence: *sequence };
    out[start.0..start.0 + HEADER_LEN].copy_from_slice(&header.to_bytes());
    *sequence = sequence.wrapping_add(1);
}

/// A packet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of payload that follow, at most [`MAX_PAYLOAD`].
    pub(crate) length: usize,
    pub(crate) sequence: u8,
}

impl Header {
    /// `None` where fewer than four bytes are there.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, sequence] = bytes.first_chunk::<HEADER_LEN>()?;
        let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        Some(Self { length, sequence })
    }

    pub(crate) fn check_sequence(self, expected: u8) -> Result<(), WireError> {
        if self.sequence == expected {
            Ok(())
        } else {
            Err(WireError::WrongSequence { expected, found: self.sequence })
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        debug_assert!(self.length <= MAX_PAYLOAD, "a packet's payload fits into three bytes of length");
        let [a, b, c, ..] = self.length.to_le_bytes();
        [a, b, c, self.sequence]
    }
}

/// The payloads of a complete message of several packets, `length` bytes in all.
fn join(raw: &[u8], length: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(length);
    let mut rest = raw;
    while let Some(header) = Header::parse(rest) {
        let end = HEADER_LEN + header.length;
        payload.extend_from_slice(&rest[HEADER_LEN..end]);
        rest = &rest[end..];
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: usize = usize::MAX;

    #[test]
    fn a_small_message_is_borrowed() {
        let bytes = [1, 0, 0, 0, 0x0e, 0xaa];
        let message = read_message(&bytes, 0, NO_LIMIT).unwrap().unwrap();
        assert!(matches!(message.payload, Cow::Borrowed([0x0e])));
        assert_eq!((message.raw, message.consumed, message.last_sequence), (&bytes[..5], 5, 0));
    }

    #[test]
    fn nothing_comes_before_the_last_byte_is_there() {
        let mut bytes = Vec::new();
        put_message(&mut bytes, &mut 3, b"select 1");
        for cut in 0..bytes.len() {
            assert_eq!(read_message(&bytes[..cut], 3, NO_LIMIT), Ok(None));
            assert_eq!(message_len_hint(&bytes[..cut]), (cut >= HEADER_LEN).then_some(bytes.len()));
        }
        assert!(read_message(&bytes, 3, NO_LIMIT).unwrap().is_some());
    }

    #[test]
    fn long_messages_are_split_and_joined() {
        for length in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD] {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut bytes = Vec::new();
            let mut sequence = 255;
            put_message(&mut bytes, &mut sequence, &payload);
            let packets = length / MAX_PAYLOAD + 1;
            assert_eq!(bytes.len(), length + packets * HEADER_LEN);
            assert_eq!(message_len_hint(&bytes), Some(bytes.len()));
            let message = read_message(&bytes, 255, NO_LIMIT).unwrap().unwrap();
            assert!(message.payload[..] == payload[..]);
            assert_eq!(message.last_sequence.wrapping_add(1), sequence);
            assert_eq!(message.consumed, bytes.len());
            assert_eq!(read_message(&bytes[..bytes.len() - 1], 255, NO_LIMIT), Ok(None));
        }
    }

    #[test]
    fn headers_go_and_come_in_place() {
        for length in
            [0, 1, 5, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD, 2 * MAX_PAYLOAD + 7]
        {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let (mut message, mut sequence) = (Vec::new(), 254);
            put_message(&mut message, &mut sequence, &payload);
            let mut packed = message.clone();
            unpack_message(&mut packed);
            assert!(packed == payload, "{length}");
            let mut counted = 254;
            pack_message(&mut packed, &mut counted);
            assert!(packed == message && counted == sequence, "{length}");
            // A part of a message, and more than one, are none.
            for other in [&message[..message.len() - 1], &[&message[..], &[0, 0, 0, 0]].concat()] {
                let mut same = other.to_vec();
                unpack_message(&mut same);
                assert!(same == other, "{length}");
            }
        }
    }

    #[test]
    fn a_packet_built_in_place_is_the_same_packet() {
        for length in [0, 5, MAX_PAYLOAD] {
            let payload = vec![7; length];
            let (mut built, mut put) = (vec![1, 2], vec![1, 2]);
            let (mut built_sequence, mut put_sequence) = (9, 9);
            let start = begin_packet(&mut built);
            built.extend_from_slice(&payload);
            end_packet(&mut built, start, &mut built_sequence);
            put_message(&mut put, &mut put_sequence, &payload);
            assert!(built == put);
            assert_eq!(built_sequence, put_sequence);
        }
    }

    #[test]
    fn the_headers_alone_show_what_is_too_large_or_out_of_order() {
        assert_eq!(read_message(&[11, 0, 0, 0], 0, 10), Err(WireError::TooLarge { limit: 10 }));
        assert_eq!(read_message(&[10, 0, 0, 0], 0, 10), Ok(None));
        let wrong = WireError::WrongSequence { expected: 0, found: 4 };
        assert_eq!(read_message(&[10, 0, 0, 4], 0, 10), Err(wrong));
    }

    #[test]
    fn the_hint_after_a_full_packet_asks_for_the_next_header() {
        let mut bytes = vec![0xff, 0xff, 0xff, 0];
        assert_eq!(message_len_hint(&bytes), Some(HEADER_LEN + MAX_PAYLOAD));
        bytes.resize(HEADER_LEN + MAX_PAYLOAD, 0);
        assert_eq!(message_len_hint(&bytes), Some(bytes.len() + HEADER_LEN));
        bytes.extend_from_slice(&[3, 0, 0]);
        assert_eq!(message_len_hint(&bytes), Some(HEADER_LEN + MAX_PAYLOAD + HEADER_LEN));
        bytes.push(1);
        assert_eq!(message_len_hint(&bytes), Some(bytes.len() + 3));
        assert_eq!(message_len_hint(&bytes[..3]), None);
    }
}
