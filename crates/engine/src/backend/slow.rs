//! Clients and servers that do not keep up, and files that clients send.

use super::Permit;
use crate::client::{Phase as ClientPhase, Running};
use crate::engine::Engine;

impl Engine {
    /// A client's connection does not take its reply as fast as the server sends it: the server has to wait, and
    /// somebody else may have the permit meanwhile.
    pub(crate) fn client_stalled(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.stalled_since = Some(self.now);
        let Some(key) = state.backend.filter(|&key| self.backends[key].answers(client)) else { return };
        if let Some(connection) = self.backends[key].connection {
            self.outbox.pause_reading(connection);
        }
        self.lend_permit(key);
    }

    pub(crate) fn client_drained(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.stalled_since = None;
        state.last_heard = self.now;
        if let Some(key) = state.backend.filter(|&key| self.backends[key].answers(client)) {
            self.resume_backend(key);
        }
    }

    pub(crate) fn resume_backend(&mut self, key: usize) {
        if let Some(connection) = self.backends[key].connection {
            self.outbox.resume_reading(connection);
        }
        self.take_permit_back(key);
    }

    pub(crate) fn lend_permit(&mut self, key: usize) {
        if self.backends[key].permit == Permit::Held {
            self.backends[key].permit = Permit::Lent;
            self.scheduler.finish();
        }
    }

    pub(crate) fn take_permit_back(&mut self, key: usize) {
        if self.backends[key].permit == Permit::Lent {
            self.backends[key].permit = Permit::Held;
            self.scheduler.resume();
        }
    }

    /// Packets of a file for LOAD DATA LOCAL INFILE, up to the empty one that ends it; partial packets are relayed as they
    /// come, so that a file of any size needs no memory here.
    pub(crate) fn upload(&mut self, client: usize, bytes: &[u8]) -> Result<usize, wire::WireError> {
        let Some(key) = self.clients[client].backend else { return Ok(0) };
        let Some(message) = super::kept::first_packet(bytes) else { return Ok(0) };
        self.put_to_backend(key, message);
        if message.len() == wire::HEADER_LEN {
            self.clients[client].phase = ClientPhase::Running(Running::OnServer);
            self.take_permit_back(key);
            if let Some(statement) = self.backends[key].in_flight.front_mut() {
                statement.reader.local_infile_sent(message[3]);
            }
        }
        Ok(message.len())
    }
}
