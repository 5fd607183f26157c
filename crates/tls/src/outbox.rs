//! The layer's own requests to the driver: handshakes, alerts and the end of connections.

use std::collections::VecDeque;

use seam::{ConnectionId, Output};

/// Records in order, and one arena for their bytes.
#[derive(Default)]
pub(crate) struct Outbox {
    arena: Vec<u8>,
    records: VecDeque<Record>,
}

enum Record {
    Send { connection: ConnectionId, start: usize, end: usize },
    Close { connection: ConnectionId },
}

/// The arena is given back beyond this: a storm of handshakes must not stay in the resident size.
const ARENA_KEPT: usize = 64 << 10;

impl Outbox {
    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        if !bytes.is_empty() {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            self.records.push_back(Record::Send { connection, start, end: self.arena.len() });
        }
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.records.push_back(Record::Close { connection });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The oldest. Once all are taken the arena is empty again.
    pub(crate) fn poll(&mut self) -> Option<Output<'_>> {
        let Some(record) = self.records.pop_front() else {
            self.arena.clear();
            self.arena.shrink_to(ARENA_KEPT);
            return None;
        };
        Some(match record {
            Record::Send { connection, start, end } => {
                Output::Send { connection, bytes: &self.arena[start..end] }
            }
            Record::Close { connection } => Output::Close { connection },
        })
    }
}
