//! The engine's requests to its driver, collected over a turn.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use seam::{Address, Compression, CompressionSide, ConnectionId, Output, TlsSide};

/// The queue behind `poll_output`: records in order, and one arena for the bytes of all sends of a turn.
#[derive(Default)]
pub(crate) struct Outbox {
    arena: Vec<u8>,
    records: VecDeque<Record>,
    /// The name of the server with which TLS was last asked for.
    asked_last: Option<Arc<str>>,
    /// The bytes that the compressing layer below holds, as it has said.
    pub(crate) compression_bytes: usize,
    /// Bytes of the records that have their own.
    whole: usize,
    /// The connections whose compression is among the records: few, as logins are.
    about_to_compress: Vec<ConnectionId>,
}

enum Record {
    Send { connection: ConnectionId, start: usize, end: usize },
    SendWhole { connection: ConnectionId, bytes: Vec<u8> },
    Connect { token: u64, address: Address },
    Close { connection: ConnectionId },
    Abort { connection: ConnectionId },
    PauseReading { connection: ConnectionId },
    ResumeReading { connection: ConnectionId },
    StartTls { connection: ConnectionId, server_name: Arc<str> },
    AcceptTls { connection: ConnectionId, network: Option<IpAddr> },
    Unread { connection: ConnectionId, start: usize, end: usize },
    StartCompression { connection: ConnectionId, compression: Compression, side: CompressionSide },
    StopListening,
    Finished,
}

/// The arena is given back to the allocator where a turn needed more than this: one burst of large replies must not
/// stay in the resident size.
const ARENA_KEPT: usize = 1 << 20;

impl Outbox {
    /// Bytes for a connection, behind all earlier ones. Adjacent sends to one connection become one.
    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        let end = self.arena.len();
        if let Some(Record::Send { connection: last, end: last_end, .. }) = self.records.back_mut()
            && *last == connection
            && *last_end == start
        {
            *last_end = end;
            return;
        }
        self.records.push_back(Record::Send { connection, start, end });
    }

    /// The same with bytes that nobody needs afterwards: they are handed on, and not copied.
    pub(crate) fn send_whole(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.whole += bytes.capacity();
            self.records.push_back(Record::SendWhole { connection, bytes });
        }
    }

    pub(crate) fn connect(&mut self, token: u64, address: Address) {
        self.records.push_back(Record::Connect { token, address });
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.records.push_back(Record::Close { connection });
    }

    /// Without what was sent and has not arrived.
    pub(crate) fn abort(&mut self, connection: ConnectionId) {
        self.records.push_back(Record::Abort { connection });
    }

    pub(crate) fn pause_reading(&mut self, connection: ConnectionId) {
        self.records.push_back(Record::PauseReading { connection });
    }

    pub(crate) fn resume_reading(&mut self, connection: ConnectionId) {
        self.records.push_back(Record::ResumeReading { connection });
    }

    /// TLS with the server of this name.
    pub(crate) fn start_tls(&mut self, connection: ConnectionId, server_name: Arc<str>) {
        self.records.push_back(Record::StartTls { connection, server_name });
    }

    /// TLS with a client from this network.
    pub(crate) fn accept_tls(&mut self, connection: ConnectionId, network: Option<IpAddr>) {
        self.records.push_back(Record::AcceptTls { connection, network });
    }

    /// Compression of everything from here on.
    pub(crate) fn start_compression(
        &mut self,
        connection: ConnectionId,
        compression: Compression,
        side: CompressionSide,
    ) {
        self.about_to_compress.push(connection);
        self.records.push_back(Record::StartCompression { connection, compression, side });
    }

    /// Says whether a connection's bytes still come as they are on the wire, although compression has been asked for: nothing of
    /// a turn is carried out before its end.
    pub(crate) fn is_about_to_compress(&self, connection: ConnectionId) -> bool {
        self.about_to_compress.contains(&connection)
    }

    /// Bytes that are inside of what has just been asked for.
    pub(crate) fn unread(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.records.push_back(Record::Unread { connection, start, end: self.arena.len() });
    }

    pub(crate) fn stop_listening(&mut self) {
        self.records.push_back(Record::StopListening);
    }

    pub(crate) fn finished(&mut self) {
        self.records.push_back(Record::Finished);
    }

    /// Bytes that were put in since it was last dry.
    pub(crate) fn unsent(&self) -> usize {
        self.arena.len()
    }

    /// Bytes held, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.whole + self.arena.capacity() + self.records.capacity() * size_of::<Record>()
    }

    /// The oldest request. Once all are taken the arena is empty again.
    pub(crate) fn poll(&mut self) -> Option<Output<'_>> {
        let Some(record) = self.records.pop_front() else {
            self.arena.clear();
            self.arena.shrink_to(ARENA_KEPT);
            self.asked_last = None;
            self.about_to_compress.clear();
            return None;
        };
        Some(match record {
            Record::Send { connection, start, end } => {
                Output::Send { connection, bytes: &self.arena[start..end] }
            }
            Record::SendWhole { connection, bytes } => {
                self.whole -= bytes.capacity();
                Output::SendWhole { connection, bytes }
            }
            Record::Connect { token, address } => Output::Connect { token, address },
            Record::Close { connection } => Output::Close { connection },
            Record::Abort { connection } => Output::Abort { connection },
            Record::PauseReading { connection } => Output::PauseReading { connection },
            Record::ResumeReading { connection } => Output::ResumeReading { connection },
            Record::StartTls { connection, server_name } => {
                // It is lent to the caller, so it has to stay somewhere.
                let server_name = self.asked_last.insert(server_name);
                Output::StartTls { connection, side: TlsSide::Client { server_name } }
            }
            Record::AcceptTls { connection, network } => {
                Output::StartTls { connection, side: TlsSide::Server { network } }
            }
            Record::Unread { connection, start, end } => {
                Output::Unread { connection, bytes: &self.arena[start..end] }
            }
            Record::StartCompression { connection, compression, side } => {
                Output::StartCompression { connection, compression, side }
            }
            Record::StopListening => Output::StopListening,
            Record::Finished => Output::Finished,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    #[test]
    fn adjacent_sends_to_one_connection_become_one() {
        let mut outbox = Outbox::default();
        outbox.send(connection(1), b"ab");
        outbox.send(connection(1), b"cd");
        outbox.send(connection(2), b"ef");
        outbox.send(connection(1), b"gh");
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(1), bytes: b"abcd" }));
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(2), bytes: b"ef" }));
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(1), bytes: b"gh" }));
        assert_eq!(outbox.poll(), None);
    }

    #[test]
    fn what_is_handed_on_keeps_its_place_and_its_memory() {
        let mut outbox = Outbox::default();
        let whole = b"whole".to_vec();
        let (place, empty) = (whole.as_ptr(), outbox.bytes());
        outbox.send(connection(1), b"ab");
        outbox.send_whole(connection(1), whole);
        outbox.send(connection(1), b"cd");
        assert!(outbox.bytes() > empty + 5);
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(1), bytes: b"ab" }));
        match outbox.poll() {
            Some(Output::SendWhole { bytes, .. }) => {
                assert_eq!((bytes.as_ptr(), &bytes[..]), (place, &b"whole"[..]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(1), bytes: b"cd" }));
        assert_eq!(outbox.poll(), None);
        assert_eq!(outbox.whole, 0);
    }

    #[test]
    fn a_close_stays_behind_what_was_sent() {
        let mut outbox = Outbox::default();
        outbox.send(connection(1), b"bye");
        outbox.close(connection(1));
        assert_eq!(outbox.poll(), Some(Output::Send { connection: connection(1), bytes: b"bye" }));
        assert_eq!(outbox.poll(), Some(Output::Close { connection: connection(1) }));
        assert_eq!(outbox.poll(), None);
    }
}
