//! A worker of the pool: a real engine, the table of its connections, and what is on its way to it.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Engine, Letter, Settings, Workers};
use seam::ConnectionId;

/// One worker.
pub struct Worker {
    /// `None` only while it has its turn.
    pub engine: Option<Box<Engine>>,
    connections: Vec<Slot>,
    free: Vec<u32>,
    /// From clients, and from the server, each in the order of time: everything from there takes the same time to arrive.
    inboxes: [VecDeque<(u64, Arrival)>; 2],
    /// New connections, likewise: they wait in the kernel's queue for as long as a turn has enough of them.
    backlog: VecDeque<(u64, ConnectionId)>,
    letters: Vec<Letter>,
    /// When its next turn is planned; `u64::MAX` for never.
    pub turn_at: u64,
    /// Before this it is busy with its last turn.
    pub busy_until: u64,
}

struct Slot {
    generation: u32,
    end: End,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A client.
    Client(u32),
    /// A session of the server.
    Session(u32),
    /// It has gone, and the engine does not know it yet.
    Gone,
    /// There is no such connection.
    Free,
}

/// Where something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client.
    Client,
    /// The server, which may be farther away.
    Server,
}

/// Something on its way to a worker.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// A client has connected: it waits until it is accepted, see [`Worker::next_login`].
    Login(ConnectionId),
    /// A connection to the server stands.
    Connected(u64, ConnectionId),
    /// Bytes.
    Bytes(ConnectionId, Vec<u8>),
    /// The other end has hung up.
    Closed(ConnectionId),
}

impl Worker {
    /// All workers of a pool.
    pub fn fleet(settings: &Settings, count: u32) -> Vec<Self> {
        let workers = Workers::new(settings, count);
        let worker = |number: u32| {
            let mut settings = settings.clone();
            settings.entropy[0] ^= number.to_le_bytes()[0];
            Self {
                engine: Some(Box::new(Engine::join(settings, Arc::clone(&workers), number as usize))),
                connections: Vec::new(),
                free: Vec::new(),
                inboxes: Default::default(),
                backlog: VecDeque::new(),
                letters: Vec::new(),
                turn_at: u64::MAX,
                busy_until: 0,
            }
        };
        (0..count).map(worker).collect()
    }

    /// A new connection.
    pub fn open(&mut self, end: End) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Slot { generation: 0, end: End::Free });
            u32::try_from(self.connections.len() - 1).expect("a few million connections")
        });
        let slot = &mut self.connections[index as usize];
        slot.end = end;
        ConnectionId { index, generation: slot.generation }
    }

    /// Who is at the other end.
    pub fn end(&self, connection: ConnectionId) -> End {
        match self.connections.get(connection.index as usize) {
            Some(slot) if slot.generation == connection.generation => slot.end,
            _ => End::Free,
        }
    }

    /// The other end has hung up; the engine will hear of it.
    pub fn hang_up(&mut self, connection: ConnectionId) {
        self.connections[connection.index as usize].end = End::Gone;
    }

    /// The connection is over at both ends. False where it was before.
    pub fn close(&mut self, connection: ConnectionId) -> bool {
        if self.end(connection) == End::Free {
            return false;
        }
        let slot = &mut self.connections[connection.index as usize];
        slot.end = End::Free;
        slot.generation += 1;
        self.free.push(connection.index);
        true
    }

    /// Something will arrive at a time, which is not before what is on its way from there already.
    pub fn send(&mut self, at: u64, from: Side, arrival: Arrival) {
        let inbox = &mut self.inboxes[from as usize];
        debug_assert!(inbox.back().is_none_or(|(last, _)| *last <= at), "nothing overtakes");
        match arrival {
            Arrival::Login(connection) => self.backlog.push_back((at, connection)),
            arrival => inbox.push_back((at, arrival)),
        }
    }

    /// The next client that has connected by now.
    pub fn next_login(&mut self, now: u64) -> Option<ConnectionId> {
        if self.backlog.front()?.0 > now {
            return None;
        }
        self.backlog.pop_front().map(|(_, connection)| connection)
    }

    /// The next thing that has arrived by now.
    pub fn next_arrival(&mut self, now: u64) -> Option<Arrival> {
        let at = |inbox: &VecDeque<(u64, Arrival)>| inbox.front().map_or(u64::MAX, |(at, _)| *at);
        let inbox = self.inboxes.iter_mut().min_by_key(|inbox| at(inbox))?;
        if at(inbox) > now {
            return None;
        }
        inbox.pop_front().map(|(_, arrival)| arrival)
    }

    /// When the next thing arrives.
    pub fn next_arrival_at(&self) -> Option<u64> {
        let inboxes = self.inboxes.iter().filter_map(VecDeque::front).map(|(at, _)| *at);
        self.backlog.front().map(|(at, _)| *at).into_iter().chain(inboxes).min()
    }

    /// A message of another worker.
    pub fn write(&mut self, letter: Letter) {
        self.letters.push(letter);
    }

    /// All messages of others.
    pub fn letters(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.letters)
    }
}
