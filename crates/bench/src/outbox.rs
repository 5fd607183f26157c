//! What a program wants its driver to do, kept until the end of the turn in two buffers that are used again and again.

use std::collections::VecDeque;

use seam::{Address, ConnectionId, Output, TlsSide};

/// A queue of outputs.
#[derive(Debug, Default)]
pub struct Outbox {
    entries: VecDeque<Entry>,
    /// The bytes of all sends of this turn.
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum Entry {
    Send { connection: ConnectionId, start: usize, end: usize },
    Connect { token: u64, address: Address },
    Close { connection: ConnectionId },
    StartTls { connection: ConnectionId },
    Finished,
}

impl Outbox {
    /// Sends what `put` appends; nothing where it appends nothing.
    pub fn send<T>(&mut self, connection: ConnectionId, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.bytes.len();
        let result = put(&mut self.bytes);
        let end = self.bytes.len();
        if end > start {
            self.entries.push_back(Entry::Send { connection, start, end });
        }
        result
    }

    /// Sends one command: `put` appends its payload, the header is put in front. The payload is under 16 MiB.
    pub fn send_command(&mut self, connection: ConnectionId, put: impl FnOnce(&mut Vec<u8>)) {
        self.send(connection, |bytes| {
            let start = wire::begin_packet(bytes);
            put(bytes);
            wire::end_packet(bytes, start, &mut 0);
        });
    }

    /// Opens a connection.
    pub fn connect(&mut self, token: u64, address: Address) {
        self.entries.push_back(Entry::Connect { token, address });
    }

    /// Says goodbye (COM_QUIT) and closes.
    pub fn quit(&mut self, connection: ConnectionId) {
        self.send_command(connection, |bytes| bytes.push(wire::CommandKind::Quit as u8));
        self.close(connection);
    }

    /// Closes a connection.
    pub fn close(&mut self, connection: ConnectionId) {
        self.entries.push_back(Entry::Close { connection });
    }

    /// TLS from here on.
    pub fn start_tls(&mut self, connection: ConnectionId) {
        self.entries.push_back(Entry::StartTls { connection });
    }

    /// Ends the driver's run.
    pub fn finish(&mut self) {
        self.entries.push_back(Entry::Finished);
    }

    /// The next output. `None` empties the buffers.
    pub fn poll(&mut self) -> Option<Output<'_>> {
        let Some(entry) = self.entries.pop_front() else {
            self.bytes.clear();
            return None;
        };
        Some(match entry {
            Entry::Send { connection, start, end } => {
                Output::Send { connection, bytes: &self.bytes[start..end] }
            }
            Entry::Connect { token, address } => Output::Connect { token, address },
            Entry::Close { connection } => Output::Close { connection },
            // The name is not checked.
            Entry::StartTls { connection } => {
                Output::StartTls { connection, side: TlsSide::Client { server_name: "localhost" } }
            }
            Entry::Finished => Output::Finished,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_come_in_order_and_buffers_are_emptied() {
        let connection = ConnectionId { index: 1, generation: 2 };
        let mut outbox = Outbox::default();
        outbox.send_command(connection, |bytes| bytes.extend_from_slice(b"\x03SELECT 1"));
        outbox.send(connection, |_| ());
        outbox.quit(connection);
        assert_eq!(outbox.poll(), Some(Output::Send { connection, bytes: b"\x09\0\0\0\x03SELECT 1" }));
        assert_eq!(outbox.poll(), Some(Output::Send { connection, bytes: b"\x01\0\0\0\x01" }));
        assert_eq!(outbox.poll(), Some(Output::Close { connection }));
        assert_eq!(outbox.poll(), None);
        assert!(outbox.bytes.is_empty());
    }
}
