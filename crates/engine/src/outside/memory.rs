//! How much memory the engine holds, counted and not guessed.

use std::ops::AddAssign;

use crate::backend::{Backend, InFlight};
use crate::client::ids::ClientIds;
use crate::client::memory::bytes_held::ClientMemory;
use crate::client::{Client, Phase};
use crate::ids::{ClientKey, Table};
use crate::io::{Io, Role};
use crate::outside::named::MemoryPart;
use crate::outside::views::Views;
use crate::readers::Readers;
use crate::scheduling::Scheduling;
use crate::scheduling::coalescing::group::CoalescedGroup;
use crate::servers::Servers;
use crate::session::SessionTables;

/// Bytes by what they are for, from the capacities of what holds them. What the allocator adds to each block is not among
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Clients, those that are logging in included.
    pub clients: usize,
    /// The table of clients, the table of connections, and the table of the queues: all that an idle client costs here.
    pub client_tables: usize,
    /// Statements that wait, and bytes of clients that are not a whole statement yet.
    pub statements: usize,
    /// Bytes sent by clients that have not logged in.
    pub logins: usize,
    /// Bytes kept of clients' TLS handshakes that are not over: [`crate::Engine::note_handshakes`].
    pub handshakes: usize,
    /// The texts that clients have prepared, and the findings in them.
    pub prepared_statements: usize,
    /// Warnings kept for clients that have given their backend back.
    pub diagnostics: usize,
    /// Backends with what is in flight on them, and bytes that go to the server at the end of the turn.
    pub backends: usize,
    /// Session states, each stored once.
    pub session_states: usize,
    /// The number of those states.
    pub session_state_count: usize,
    /// Numbers by digest.
    pub digests: usize,
    /// Replies on their way to the driver.
    pub outputs: usize,
    /// Bytes kept of compressed connections, with clients and with the server: [`crate::Engine::note_compression`].
    pub compression: usize,
}

impl Memory {
    /// All bytes together.
    pub fn total(&self) -> usize {
        self.client_tables
            + self.statements
            + self.logins
            + self.handshakes
            + self.prepared_statements
            + self.diagnostics
            + self.backends
            + self.session_states
            + self.digests
            + self.outputs
            + self.compression
    }
}

impl AddAssign for Memory {
    /// Several workers together; a session state that two of them hold is stored twice.
    fn add_assign(&mut self, other: Self) {
        self.clients += other.clients;
        self.client_tables += other.client_tables;
        self.statements += other.statements;
        self.logins += other.logins;
        self.handshakes += other.handshakes;
        self.prepared_statements += other.prepared_statements;
        self.diagnostics += other.diagnostics;
        self.backends += other.backends;
        self.session_states += other.session_states;
        self.session_state_count += other.session_state_count;
        self.digests += other.digests;
        self.outputs += other.outputs;
        self.compression += other.compression;
    }
}

/// Bytes by what they are for, as far as that is known without a look at each client: what grows with each of them beside its place in
/// the tables is not among them, nor what the driver holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts([u64; MemoryPart::ALL.len()]);

impl MemoryParts {
    /// All parts with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (MemoryPart, u64)> {
        MemoryPart::ALL.iter().copied().zip(self.0)
    }
}

impl AddAssign<&Self> for MemoryParts {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        for (bytes, more) in self.0.iter_mut().zip(other.0) {
            *bytes += more;
        }
    }
}

/// The table of clients is given back to the allocator beyond this many places, some MiB.
const PLACES_KEPT: usize = 4096;
/// The table is given back only where one place in so many is taken: moving the clients takes no longer than some milliseconds then.
const PLACES_PER_CLIENT: usize = 8;

impl Table<ClientKey, Client> {
    /// Gives back the memory that a crowd has left, as far as no client that is still there stands in the way.
    pub(crate) fn give_back(&mut self) {
        if self.capacity() > PLACES_KEPT.max(self.len() * PLACES_PER_CLIENT) {
            self.shrink_to_fit();
        }
    }
}

/// The parts of a worker that hold memory, to be counted. A look changes nothing.
pub struct HoldersOfMemory<'a> {
    pub(super) clients: &'a Table<ClientKey, Client>,
    pub(super) ids: &'a ClientIds,
    pub(super) client_memory: &'a ClientMemory,
    pub(super) sessions: &'a SessionTables,
    pub(super) scheduling: &'a Scheduling,
    pub(super) servers: &'a Servers,
    pub(super) views: &'a Views,
    pub(super) readers: &'a Readers,
    pub(super) io: &'a Io,
}

impl HoldersOfMemory<'_> {
    /// Memory by what it is for, from what is counted anyway, and a look at the backends and at the digests.
    pub fn parts(&self) -> MemoryParts {
        let mut parts = self.own_parts();
        self.readers.engines().for_each(|reader| parts += &reader.holders_of_memory().parts());
        parts
    }

    fn own_parts(&self) -> MemoryParts {
        let of = |part: &MemoryPart| match part {
            MemoryPart::ClientTables => self.client_table_bytes(),
            MemoryPart::Statements => self.client_memory.statements.bytes(),
            MemoryPart::Logins => self.client_memory.logins.bytes(),
            MemoryPart::Handshakes => self.client_memory.handshakes,
            MemoryPart::Sessions => self.client_memory.session_memory_held(self.sessions),
            MemoryPart::PreparedStatements => self.sessions.definitions.bytes(),
            MemoryPart::Warnings => self.client_memory.diagnostics,
            MemoryPart::Backends => self.servers.table_bytes(),
            MemoryPart::HeldAnswers => self.servers.held_answers(),
            MemoryPart::Digests => self.digest_bytes(),
            MemoryPart::Outputs => self.io.outbox.bytes(),
            MemoryPart::Compression => self.io.outbox.compression_bytes,
        };
        let mut parts = MemoryParts::default();
        for (bytes, part) in parts.0.iter_mut().zip(MemoryPart::ALL) {
            *bytes = of(part) as u64;
        }
        parts
    }

    /// Counts all of it, which takes a few nanoseconds for each client.
    pub fn memory(&self) -> Memory {
        let mut memory = self.own_memory();
        // Guests of readers are clients of this engine.
        let of_readers = self.readers.engines().map(|reader| reader.holders_of_memory().own_memory());
        of_readers.for_each(|of_reader| memory += Memory { clients: 0, ..of_reader });
        memory
    }

    fn own_memory(&self) -> Memory {
        let mut statements = 0;
        let mut diagnostics = 0;
        let mut prepared_statements = self.sessions.definitions.bytes();
        let mut named_resources = 0;
        for (_, client) in self.clients.iter() {
            statements += client.input.capacity().saturating_sub(client.memory.login.bytes());
            if let Some(request) = &client.request {
                statements += size_of_val(&**request) + request.raw.capacity() + request.attributes.bytes();
            }
            if let Phase::Lent(lent) = client.phase() {
                statements += lent.bytes();
            }
            prepared_statements +=
                client.session.statements.as_ref().map_or(0, |statements| statements.bytes());
            named_resources += client.session.named_resources.as_ref().map_or(0, |held| held.bytes());
            named_resources += client.session.variables.as_ref().map_or(0, |variables| variables.bytes());
            named_resources += client.session.aftermath.last_gtid().map_or(0, size_of_val);
            named_resources += client.session.trackers.as_ref().map_or(0, |trackers| trackers.bytes());
            diagnostics += client.session.aftermath.diagnostics().bytes();
        }
        Memory {
            clients: self.clients.len(),
            client_tables: named_resources + self.client_table_bytes(),
            statements: statements + self.scheduling.coalescer.bytes(),
            logins: self.client_memory.logins.bytes(),
            handshakes: self.client_memory.handshakes,
            prepared_statements,
            diagnostics,
            backends: self.servers.table_bytes(),
            session_states: self.sessions.states.bytes() + self.sessions.known_answers.bytes(),
            session_state_count: self.sessions.states.len(),
            digests: self.digest_bytes(),
            outputs: self.io.outbox.bytes(),
            compression: self.io.outbox.compression_bytes,
        }
    }

    fn client_table_bytes(&self) -> usize {
        self.clients.capacity() * size_of::<Client>()
            + self.io.roles_capacity() * size_of::<(u32, Role)>()
            // The nodes of a B-tree are at least half full.
            + self.ids.count() * 2 * size_of::<(u32, ClientKey)>()
            + self.scheduling.scheduler.table_bytes()
    }

    fn digest_bytes(&self) -> usize {
        self.scheduling.digests.bytes() + self.views.pin_counts.bytes() + self.readers.routing().bytes()
    }
}

impl Servers {
    fn table_bytes(&self) -> usize {
        let heap: usize = self.backends().map(|(_, backend)| backend.heap_bytes()).sum();
        self.backend_slots() * size_of::<Backend>() + heap
    }
}

impl Backend {
    fn heap_bytes(&self) -> usize {
        self.out.capacity()
            + self.in_flight.capacity() * size_of::<InFlight>()
            + self.in_flight.iter().filter_map(InFlight::group).map(CoalescedGroup::bytes).sum::<usize>()
            + self.session.prepared.bytes()
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Instant, Program as _};

    use super::*;
    use crate::Engine;

    #[test]
    fn a_crowd_leaves_no_table_behind() {
        let server = vec![seam::Address::Unix("/nowhere".into())];
        let mut engine = Engine::new(crate::Settings { server, ..crate::Settings::default() });
        let id = |index| seam::ConnectionId { index, generation: 1 };
        for index in 0..20_000 {
            let peer = seam::Peer::Unix { uid: 0 };
            let accepted = Input::Accepted { connection: id(index), listener: seam::ListenerId(0), peer };
            engine.handle(Instant::START, accepted);
        }
        let reason = seam::CloseReason::EndOfStream;
        for index in 1..20_000 {
            engine.handle(Instant::START, Input::Closed { connection: id(index), reason });
        }
        assert!(engine.clients.capacity() >= 20_000);
        engine.handle(Instant::from_micros(2_000_000), Input::TurnEnd);
        assert_eq!(engine.clients.len(), 1);
        assert!(engine.clients.capacity() < PLACES_KEPT);
    }

    /// Half of what an idle client may cost in all of Onramp, TLS aside: 1 KiB.
    #[test]
    fn an_idle_client_is_small() {
        let bytes = size_of::<Client>()
            + size_of::<(u32, Role)>()
            + 2 * size_of::<(u32, ClientKey)>()
            + crate::scheduling::scheduler::Scheduler::BYTES_PER_CLIENT;
        // Tables double as they grow, so that half of one may be empty.
        assert!(2 * bytes <= 1024, "{bytes} bytes");
    }
}
