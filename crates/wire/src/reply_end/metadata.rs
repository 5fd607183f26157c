//! Column definitions that a client may have already.
//!
//! Source: MariaDB `sql/protocol.cc`, `should_send_column_info`: the answers to preparing and executing a statement are
//! compared with what was sent last for that statement.

use super::outlet::{Front, Outlet};
use super::{ClientMetadata, ReplyEvent, ReplyReader, ReplySink, Stage};
use crate::framing::{HEADER_LEN, Header};
use crate::{DEFINITIONS_FOLLOW, Reader};

/// Behind the number of columns: the client has their definitions.
const DEFINITIONS_LEFT_OUT: u8 = 0;

impl ReplyReader {
    /// The number of columns, in the client's form.
    pub(super) fn relay_head<S: ReplySink>(&mut self, front: Front<'_>, outlet: &mut Outlet<'_, S>) {
        match self.options.client_metadata {
            ClientMetadata::Bare => outlet.packet(front, self.shift),
            ClientMetadata::Announced => self.put_head(front, DEFINITIONS_FOLLOW, outlet),
            ClientMetadata::Known(_) => {
                let mut held = front.bytes.to_vec();
                held[3] = front.sequence;
                self.held = Some(held);
            }
        }
    }

    /// Relays what was held back, or only the head of it, once no more can come.
    pub(super) fn release_held<S: ReplySink>(&mut self, outlet: &mut Outlet<'_, S>) {
        let Some(held) = self.held.take() else { return };
        let (head, definitions) = split_packet(&held).unwrap_or((&held, &[]));
        let head = Front { bytes: head, place: None, sequence: head[3] };
        let digest = Some(digest(packets(definitions)));
        let whole = !matches!(self.stage, Stage::Definitions { .. });
        let has_these = whole && self.options.client_metadata == ClientMetadata::Known(digest);
        // What comes behind a first result (BEGIN NOT ATOMIC ... END) the server describes each time.
        self.options.client_metadata = ClientMetadata::Known(None);
        if has_these {
            self.put_head(head, DEFINITIONS_LEFT_OUT, outlet);
            let left_out = packets(definitions).count();
            #[expect(clippy::cast_possible_truncation, reason = "numbers of packets are counted modulo 256")]
            let left_out = left_out as u8;
            self.shift = self.shift.wrapping_sub(left_out);
            return;
        }
        self.put_head(head, DEFINITIONS_FOLLOW, outlet);
        let first = head.sequence.wrapping_add(1);
        for (number, packet) in packets(definitions).enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "numbers of packets are counted modulo 256")]
            let sequence = first.wrapping_add(number as u8);
            outlet.packet(Front { bytes: packet, place: None, sequence }, self.shift);
        }
        if let Some(digest) = digest.filter(|_| whole) {
            outlet.event(ReplyEvent::Metadata(digest));
        }
    }

    fn put_head<S: ReplySink>(&self, head: Front<'_>, announcement: u8, outlet: &mut Outlet<'_, S>) {
        outlet.built(head.sequence.wrapping_add(self.shift), |out| {
            out.extend_from_slice(head.payload());
            out.push(announcement);
        });
    }
}

/// The digest of the column definitions in a whole answer to COM_STMT_PREPARE, with packets between them or not; `None` where
/// it has none.
pub fn digest_of_prepared(answer: &[u8]) -> Option<u64> {
    let (head, rest) = split_packet(answer)?;
    let mut reader = Reader::of("head of a prepare's reply", head.get(HEADER_LEN..)?);
    reader.bytes(5).ok()?;
    let (columns, parameters) = (reader.u16().ok()?, reader.u16().ok()?);
    // No definition begins like an EOF.
    let definitions = packets(rest).filter(|packet| packet.get(HEADER_LEN) != Some(&0xfe));
    let of_columns = definitions.skip(usize::from(parameters));
    (columns > 0).then(|| digest(of_columns))
}

/// FNV-1a (64 bits) over the payloads: their numbers depend on what went ahead of them.
fn digest<'a>(packets: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for packet in packets {
        let (length, payload) = (&packet[..HEADER_LEN - 1], &packet[HEADER_LEN..]);
        for &byte in length.iter().chain(payload) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    digest
}

/// The packets in some bytes, with their headers; what is not whole is left out.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (packet, rest) = split_packet(bytes)?;
        bytes = rest;
        Some(packet)
    })
}

fn split_packet(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = Header::parse(bytes)?;
    bytes.split_at_checked(HEADER_LEN + header.length)
}
