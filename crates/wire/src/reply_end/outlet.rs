//! Hands bytes to a [`ReplySink`] in as few pieces as possible.

use std::borrow::Cow;
use std::ops::Range;

use super::{ReplyEvent, ReplySink};
use crate::EofPacket;
use crate::framing::{HEADER_LEN, begin_packet, end_packet};

/// The front of a packet: its header, and as much of its payload as was needed.
#[derive(Clone, Copy)]
pub(super) struct Front<'p> {
    pub(super) bytes: &'p [u8],
    /// Where in the input it lies; `None` where parts of it came in earlier.
    pub(super) place: Option<usize>,
    /// Its number, which is that of its header but where the backend compresses.
    pub(super) sequence: u8,
}

impl<'p> Front<'p> {
    /// The payload, as far as it is there.
    pub(super) fn payload(&self) -> &'p [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// Rows that wait for what the EOF in front of them has to say.
#[derive(Debug)]
pub(super) struct HeldRows {
    /// Of that EOF.
    sequence: u8,
    bytes: Vec<u8>,
    /// Of the rows that have begun.
    size: usize,
}

impl HeldRows {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// So much is held back: what servers collect before they send any of it (`net_buffer_length`), so that nothing comes later for it.
const MOST_HELD: usize = 16 << 10;

/// Collects neighbouring ranges of the input and relays them together.
pub(super) struct Outlet<'o, S> {
    bytes: &'o [u8],
    run: Range<usize>,
    sink: &'o mut S,
    rows: Option<HeldRows>,
}

impl<'o, S: ReplySink> Outlet<'o, S> {
    pub(super) fn new(bytes: &'o [u8], sink: &'o mut S, rows: Option<HeldRows>) -> Self {
        Self { bytes, run: 0..0, sink, rows }
    }

    /// Holds back what is relayed from now on. `sequence`: of the EOF that will stand in front of it.
    pub(super) fn hold_rows(&mut self, sequence: u8) {
        self.flush();
        self.rows = Some(HeldRows { sequence, bytes: Vec::new(), size: 0 });
    }

    /// A row of this length begins. Whether it is more than can be held back.
    pub(super) fn is_too_much(&mut self, length: usize) -> bool {
        self.rows.as_mut().is_some_and(|rows| {
            rows.size = rows.size.saturating_add(HEADER_LEN + length);
            rows.size > MOST_HELD
        })
    }

    /// Relays the EOF, and what was held back for it.
    pub(super) fn release_rows(&mut self, eof: EofPacket) {
        self.flush();
        if let Some(rows) = self.rows.take() {
            self.built(rows.sequence, |out| eof.put(out));
            if !rows.bytes.is_empty() {
                self.sink.relay(&rows.bytes);
            }
        }
    }

    /// Relays what is collected; gives back what is held.
    pub(super) fn end(mut self) -> Option<HeldRows> {
        self.flush();
        self.rows
    }

    fn relay(&mut self, bytes: &[u8]) {
        match &mut self.rows {
            Some(rows) => rows.bytes.extend_from_slice(bytes),
            None => self.sink.relay(bytes),
        }
    }

    pub(super) fn bytes(&self) -> &'o [u8] {
        self.bytes
    }

    /// Relays a part of the input as it is.
    pub(super) fn input(&mut self, range: Range<usize>) {
        if range.start == self.run.end {
            self.run.end = range.end;
        } else if !range.is_empty() {
            self.flush();
            self.run = range;
        }
    }

    /// Relays the front of a packet with `shift` added to its number.
    pub(super) fn packet(&mut self, front: Front<'_>, shift: u8) {
        let sequence = front.sequence.wrapping_add(shift);
        let stays = front.bytes[3] == sequence;
        match front.place {
            Some(place) if stays => self.input(place..place + front.bytes.len()),
            None if stays => {
                self.flush();
                self.relay(front.bytes);
            }
            place => {
                self.flush();
                let mut header = [0; HEADER_LEN];
                header.copy_from_slice(&front.bytes[..HEADER_LEN]);
                header[3] = sequence;
                self.relay(&header);
                match place {
                    Some(place) => self.input(place + HEADER_LEN..place + front.bytes.len()),
                    None if front.payload().is_empty() => {}
                    None => self.relay(front.payload()),
                }
            }
        }
    }

    /// Relays a packet of our own.
    pub(super) fn built(&mut self, mut sequence: u8, put: impl FnOnce(&mut Vec<u8>)) {
        self.flush();
        let mut packet = Vec::new();
        let start = begin_packet(&mut packet);
        put(&mut packet);
        end_packet(&mut packet, start, &mut sequence);
        self.relay(&packet);
    }

    pub(super) fn told<'c>(&mut self, changes: &'c [u8]) -> Cow<'c, [u8]> {
        self.sink.told(changes)
    }

    pub(super) fn event(&mut self, event: ReplyEvent<'_>) {
        self.sink.event(event);
    }

    /// Relays what is collected.
    fn flush(&mut self) {
        if !self.run.is_empty() {
            let run = &self.bytes[self.run.clone()];
            self.run.start = self.run.end;
            self.relay(run);
        }
    }
}
