//! Clients and servers that do not keep up, and files that clients send.

use super::compression::is_compressed;
use super::{Afterwards, Summary};
use crate::client::{Backpressure, Phase as ClientPhase, Running};
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::outside::named::ClosedFor;

impl Engine {
    /// A client's connection does not take its reply as fast as the server sends it: the server has to wait, and
    /// somebody else may have the permit meanwhile.
    pub(crate) fn client_stalled(&mut self, client: ClientKey) {
        let state = &mut self.clients[client];
        state.activity.stalled_since = Some(self.now);
        let Some(key) = state.backend.filter(|&key| self.servers[key].answers(client)) else {
            return;
        };
        let backend = &mut self.servers[key];
        if backend.in_flight.front().is_some_and(|statement| statement.group.is_some()) {
            return; // nothing of that answer has been sent to it yet
        }
        if let Some(connection) = backend.connection.filter(|_| !backend.paused) {
            backend.paused = true;
            self.io.outbox.pause_reading(connection);
        }
        // One whose reply has not begun may still be executing: what is stalled is the reply before.
        if self.servers[key].in_flight.front().is_some_and(|statement| statement.summary.relayed > 0) {
            self.servers[key].lend_permit(&mut self.scheduling.scheduler);
        }
    }

    /// A client has caught up; it may have sent more meanwhile.
    pub(crate) fn client_drained(&mut self, client: ClientKey) {
        let state = &mut self.clients[client];
        state.activity.stalled_since = None;
        state.activity.last_heard = self.now;
        self.resume.push(client);
        if let Some(key) = state.backend.filter(|&key| self.servers[key].answers(client)) {
            self.resume_backend(key);
            self.servers[key].take_permit_back(&mut self.scheduling.scheduler);
        }
    }

    /// Reads from a backend again, if it was not.
    pub(crate) fn resume_backend(&mut self, key: BackendKey) {
        let Some(backend) = self.servers.get_mut(key) else { return };
        if std::mem::take(&mut backend.paused)
            && let Some(connection) = backend.connection
        {
            self.io.outbox.resume_reading(connection);
        }
    }

    /// The server takes a large statement or file slowly: its client has to wait.
    pub(crate) fn server_stalled(&mut self, key: BackendKey) {
        let Some(client) = self.servers[key].holder else { return };
        self.clients[client].backpressure.server_is_slow = true;
        self.update_reading(client);
    }

    /// The server has caught up with this client, or the client has nothing to do with it any more.
    pub(crate) fn server_keeps_up(&mut self, client: ClientKey) {
        if let Some(state) = self.clients.get_mut(client)
            && std::mem::take(&mut state.backpressure.server_is_slow)
        {
            self.update_reading(client);
        }
    }

    /// A client is read from unless it is too far ahead, or the server behind.
    pub(crate) fn update_reading(&mut self, client: ClientKey) {
        let state = &mut self.clients[client];
        let Backpressure { too_far_ahead, server_is_slow, .. } = state.backpressure;
        let pause = too_far_ahead || server_is_slow;
        if pause == state.backpressure.paused {
            return;
        }
        state.backpressure.paused = pause;
        if pause {
            self.io.outbox.pause_reading(state.connection);
        } else {
            self.io.outbox.resume_reading(state.connection);
        }
    }

    /// The first event of the binary log has come: what the client has sent meanwhile may follow.
    pub(crate) fn log_begins(&mut self, client: ClientKey) {
        if self.clients[client].begin_log() {
            self.resume.push(client);
        }
    }

    /// The end of an answer behind which the server may still read bytes of the client's that were no commands for us: the
    /// binary log (both servers close the connection behind it), or a file that was not at its end. True where the client and
    /// its backend are closed for that.
    pub(crate) fn closed_behind_answer(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        summary: &Summary,
    ) -> bool {
        if summary.file.uploaded && summary.error.is_some() {
            // Whether the server has read the file to its end, nobody says.
            self.servers[key].afterwards = Afterwards::Close;
        }
        let reason = match *self.clients[client].phase() {
            ClientPhase::Running(Running::Replicating { .. })
                if summary.log_begun || summary.error.is_none() =>
            {
                "the server has ended the binary log"
            }
            ClientPhase::Running(Running::Uploading { .. }) => {
                "the server has ended LOAD DATA LOCAL INFILE before its file"
            }
            _ => return false,
        };
        self.close_client(client, ClosedFor::BackendLost, reason);
        true
    }

    /// What a replica says while it reads the binary log: for the server, as it is. Its numbers are those of the events, which
    /// are the same on both sides. Gives the number of bytes.
    pub(crate) fn forward(&mut self, client: ClientKey, bytes: &[u8]) -> usize {
        if let Some(key) = self.clients[client].backend {
            self.servers[key].out.extend_from_slice(bytes);
            self.servers.of_mut(key).mark_dirty(key);
        }
        bytes.len()
    }

    /// Packets of a file for LOAD DATA LOCAL INFILE, up to the empty one that ends it. They are numbered as the server counts:
    /// what went ahead of the statement has moved its numbers against the client's.
    pub(crate) fn upload(
        &mut self,
        client: ClientKey,
        continues: bool,
        next: u8,
        bytes: &[u8],
    ) -> Result<usize, wire::WireError> {
        let Some(key) = self.clients[client].backend else { return Ok(0) };
        let Some(packet) = super::own_answers::first_packet(bytes) else { return Ok(0) };
        // One out of order would end the statement for the server, which would read the others as commands.
        if packet[3] != next {
            return Err(wire::WireError::WrongSequence { expected: next, found: packet[3] });
        }
        let backend = &mut self.servers[key];
        let Some(statement) = backend.in_flight.front_mut() else { return Ok(0) };
        let sequence = packet[3].wrapping_add(statement.reader.sequence_shift_to_backend());
        let start = backend.out.len();
        backend.out.extend_from_slice(packet);
        backend.out[start + 3] = match is_compressed(backend.login.capabilities) {
            // The layer below takes 0 for the beginning of a command. The server looks at other numbers (`my_net_read`).
            true => sequence.max(1),
            false => sequence,
        };
        let payload = packet.len() - wire::HEADER_LEN;
        let ends = payload == 0 && !continues;
        if ends {
            statement.reader.local_infile_sent(sequence);
            statement.summary.file.uploaded = true;
            self.servers[key].take_permit_back(&mut self.scheduling.scheduler);
        }
        let continues = payload == wire::MAX_PAYLOAD;
        match ends {
            true => self.clients[client].end_upload(),
            false => self.clients[client].upload(continues, next.wrapping_add(1)),
        }
        self.servers.of_mut(key).mark_dirty(key);
        Ok(packet.len())
    }
}
