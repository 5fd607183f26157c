//! Clients and servers that do not keep up, and files that clients send.

use seam::Instant;

use crate::backend::login::compression::is_compressed;
use crate::backend::{Afterwards, Backend, Summary};
use crate::client::{Client, Phase as ClientPhase, Running};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outbox::Outbox;
use crate::scheduling::scheduler::Scheduler;
use crate::servers::Servers;

impl Servers {
    /// Notes that a client's connection does not take its reply as fast as the server sends it. The server has to wait, and somebody else may
    /// have the permit meanwhile.
    pub(crate) fn client_stalled(
        &mut self,
        now: Instant,
        (key, client): (ClientKey, &mut Client),
        outbox: &mut Outbox,
        scheduler: &mut Scheduler,
    ) {
        client.activity.stalls(now);
        let Some(backend) = self.answering((key, client)) else { return };
        if backend.in_flight.front().is_some_and(|statement| statement.group.is_some()) {
            return; // nothing of that answer has been sent to it yet
        }
        if let Some(connection) = backend.connection.filter(|_| !backend.paused) {
            backend.paused = true;
            outbox.pause_reading(connection);
        }
        // One whose reply has not begun may still be executing: what is stalled is the reply before.
        if backend.in_flight.front().is_some_and(|statement| statement.summary.relayed > 0) {
            backend.lend_permit(scheduler);
        }
    }

    /// Notes that a client has caught up.
    pub(crate) fn client_drained(
        &mut self,
        now: Instant,
        (key, client): (ClientKey, &mut Client),
        outbox: &mut Outbox,
        scheduler: &mut Scheduler,
    ) {
        client.activity.catches_up(now);
        if let Some(backend) = self.answering((key, client)) {
            backend.read_again(outbox);
            backend.take_permit_back(scheduler);
        }
    }

    /// Returns the backend that sends a client its answer at present.
    fn answering(&mut self, (key, client): (ClientKey, &Client)) -> Option<&mut Backend> {
        let backend = client.backend.filter(|&backend| self[backend].answers(key))?;
        Some(&mut self[backend])
    }

    /// Forwards a replica's bytes to the server while the replica reads the binary log. Their packet numbers are those of the events, the same
    /// on both sides. Returns the number of bytes.
    pub(crate) fn forward(&mut self, client: &Client, bytes: &[u8]) -> usize {
        if let Some(key) = client.backend {
            self.of_mut(key).put_to_backend(key, bytes);
        }
        bytes.len()
    }

    /// Forwards packets of a file for LOAD DATA LOCAL INFILE, up to the empty one that ends it. The numbers follow the server's count:
    /// preludes have moved its numbers against the client's. Returns the number of bytes taken.
    pub(crate) fn upload(
        &mut self,
        client: &mut Client,
        scheduler: &mut Scheduler,
        (continues, next): (bool, u8),
        bytes: &[u8],
    ) -> Result<usize, wire::WireError> {
        let Some(key) = client.backend else { return Ok(0) };
        let Some(packet) = crate::backend::from_server::own_answers::first_packet(bytes) else {
            return Ok(0);
        };
        // One out of order would end the statement for the server, which would read the others as commands.
        if packet[3] != next {
            return Err(wire::WireError::WrongSequence { expected: next, found: packet[3] });
        }
        let backend = &mut self[key];
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
            backend.take_permit_back(scheduler);
        }
        let continues = payload == wire::MAX_PAYLOAD;
        match ends {
            true => client.end_upload(),
            false => client.upload(continues, next.wrapping_add(1)),
        }
        self.of_mut(key).mark_dirty(key);
        Ok(packet.len())
    }
}

impl Backend {
    /// Reads from the backend again, where reading was paused.
    pub(crate) fn read_again(&mut self, outbox: &mut Outbox) {
        if std::mem::take(&mut self.paused)
            && let Some(connection) = self.connection
        {
            outbox.resume_reading(connection);
        }
    }
}

impl Client {
    /// Has a client wait, since the server takes its large statement or file slowly.
    pub(crate) fn server_stalled(&mut self, outbox: &mut Outbox) {
        self.backpressure.server_stalls();
        self.update_reading(outbox);
    }

    /// Lets a client go on: the server has caught up with it, or has nothing to do with it any more.
    pub(crate) fn server_keeps_up(&mut self, outbox: &mut Outbox) {
        if self.backpressure.server_keeps_up() {
            self.update_reading(outbox);
        }
    }

    /// Reads from the client unless it is too far ahead, or the server behind.
    pub(crate) fn update_reading(&mut self, outbox: &mut Outbox) {
        let Some(pause) = self.backpressure.changed() else { return };
        if pause {
            outbox.pause_reading(self.connection);
        } else {
            outbox.resume_reading(self.connection);
        }
    }

    /// Returns the reason for which a client and its backend are to be closed behind an answer, where there is one. The server may then still
    /// read bytes of the client's that were no commands for us: in the binary log (both servers close the connection behind it), or in a file
    /// that was not at its end.
    pub(crate) fn ends_behind_answer(
        &self,
        key: BackendKey,
        servers: &mut Servers,
        summary: &Summary,
    ) -> Option<&'static str> {
        if summary.file.uploaded && summary.error.is_some() {
            // Whether the server has read the file to its end, nobody says.
            servers[key].afterwards = Afterwards::Close;
        }
        match *self.phase() {
            ClientPhase::Running(Running::Replicating { .. })
                if summary.log_begun || summary.error.is_none() =>
            {
                Some("the server has ended the binary log")
            }
            ClientPhase::Running(Running::Uploading { .. }) => {
                Some("the server has ended LOAD DATA LOCAL INFILE before its file")
            }
            _ => None,
        }
    }
}

impl Table<ClientKey, Client> {
    /// Lets a client go on, where it is still there: the server has caught up with it.
    pub(crate) fn server_keeps_up(&mut self, key: ClientKey, outbox: &mut Outbox) {
        if let Some(client) = self.get_mut(key) {
            client.server_keeps_up(outbox);
        }
    }
}
