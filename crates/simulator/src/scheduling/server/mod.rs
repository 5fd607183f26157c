//! The modelled server: sessions that run one command at a time, on common cores and with common locks.
//!
//! A statement takes its locks one after the other, then a core's time, then waits for what is not a core (a disk, the
//! log, a SLEEP), and gives back what it does not keep for its transaction. The server does not know what is behind its
//! sessions; only whose statement has begun is noted for the model.

mod command;
mod disks;
mod execution;
mod reply;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use command::{OTHER_USER, PASSWORD, Question, SERVICE_USER, USER, user_of_account};

use super::locks::{Key, Locks};
use super::machine::Cores;
use super::scenario::ServerModel;
use super::statement::Origin;
use crate::protocol::PacketBuffer;
use command::Command;
use disks::Disks;
use execution::Execution;

/// Something that the server does at a later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A core is done with something, unless the plan has changed since.
    Cores {
        /// Which plan this was.
        plan: u64,
    },
    /// A wait has ended, of a disk or for a lock, unless the session has gone on since.
    Session {
        /// The session.
        session: u32,
        /// What it was at.
        stage: u64,
    },
    /// Others on the same machine come, or go.
    Neighbours {
        /// They are there from now on.
        there: bool,
    },
}

/// What happened in the server, to be carried on by the world.
#[derive(Debug, Default)]
pub struct Effects {
    /// Bytes for the other end of a session.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Wakes and their times.
    pub planned: Vec<(u64, Wake)>,
    /// Statements that have begun.
    pub begun: Vec<Origin>,
    /// How many connections have logged in, those of the service account aside.
    pub logins: u64,
    /// How many have changed their account, by COM_CHANGE_USER.
    pub changed: u64,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    model: ServerModel,
    seed: u64,
    sessions: Vec<Option<Session>>,
    free: Vec<u32>,
    by_thread: BTreeMap<u32, u32>,
    last_thread: u32,
    cores: Cores,
    disks: Disks,
    locks: Locks,
    plan: u64,
    planned_end: Option<u64>,
    /// Counts stages of all sessions, so that a late wake finds nobody.
    stages: u64,
    /// Sessions that can go on.
    ready: Vec<u32>,
    /// Schemas that sessions have been in; the number of each is one more than its place.
    schemas: Vec<String>,
    unknown: BTreeSet<String>,
    effects: Effects,
}

#[derive(Debug)]
struct Session {
    thread: u32,
    user: Option<String>,
    /// The number of its default schema, 0 for none.
    schema: u16,
    input: PacketBuffer,
    commands: VecDeque<Command>,
    execution: Option<Execution>,
    in_transaction: bool,
    wrote: bool,
    /// Kept until the transaction ends.
    transaction_locks: Vec<Key>,
    /// Kept until UNLOCK TABLES, RELEASE_LOCK or the end of the session.
    session_locks: Vec<Key>,
    /// Its connection has ended: it goes when its statement does.
    closing: bool,
}

impl Server {
    /// A server without sessions.
    pub fn new(model: ServerModel, seed: u64) -> Self {
        Self {
            cores: Cores::new(model.cores, model.crowd),
            disks: Disks::new(model.disks),
            model,
            seed,
            sessions: Vec::new(),
            free: Vec::new(),
            by_thread: BTreeMap::new(),
            last_thread: 0,
            locks: Locks::default(),
            plan: 0,
            planned_end: None,
            stages: 0,
            ready: Vec::new(),
            schemas: Vec::new(),
            unknown: BTreeSet::new(),
            effects: Effects::default(),
        }
    }

    /// A connection has come in: a session begins with the server's greeting.
    pub fn accept(&mut self) -> u32 {
        self.last_thread += 1;
        let thread = self.last_thread;
        let session = Session {
            thread,
            user: None,
            schema: 0,
            input: PacketBuffer::default(),
            commands: VecDeque::new(),
            execution: None,
            in_transaction: false,
            wrote: false,
            transaction_locks: Vec::new(),
            session_locks: Vec::new(),
            closing: false,
        };
        let id = if let Some(id) = self.free.pop() {
            self.sessions[id as usize] = Some(session);
            id
        } else {
            self.sessions.push(Some(session));
            u32::try_from(self.sessions.len() - 1).expect("few sessions")
        };
        self.by_thread.insert(thread, id);
        self.effects.sent.push((id, reply::greeting(thread)));
        id
    }

    /// Bytes for a session.
    pub fn receive(&mut self, now: u64, id: u32, bytes: &[u8]) {
        let Some(session) = self.sessions[id as usize].as_mut() else { return };
        session.input.push(bytes);
        while let Some(packet) = session.input.next_packet() {
            if session.user.is_none() {
                let user = command::user_of_login(&packet.payload).unwrap_or_default();
                self.effects.logins += u64::from(user != SERVICE_USER);
                session.user = Some(user);
                session.execution = Some(Execution::login());
            } else {
                session.commands.push_back(Command::parse(&packet.payload));
            }
        }
        self.ready.push(id);
        self.go_on(now);
    }

    /// The connection behind a session has ended. As the real ones do, the server notices at the end of a statement.
    pub fn hang_up(&mut self, now: u64, id: u32) {
        let Some(session) = self.sessions[id as usize].as_mut() else { return };
        session.closing = true;
        session.commands.clear();
        self.ready.push(id);
        self.go_on(now);
    }

    /// A planned time has come.
    pub fn wake(&mut self, now: u64, wake: Wake) {
        match wake {
            Wake::Cores { plan } if plan == self.plan => {
                self.planned_end = None;
                while let Some(session) = self.cores.pop_ended(now) {
                    self.core_done(now, session);
                }
            }
            Wake::Session { session, stage } => {
                self.give_disk(now, stage);
                self.wait_ended(session, stage);
            }
            Wake::Cores { .. } => {}
            Wake::Neighbours { there } => {
                let cores = if there { (self.model.cores / 2).max(1) } else { self.model.cores };
                self.cores.set_count(now, cores);
            }
        }
        self.go_on(now);
    }

    /// What is to be carried on; empty afterwards.
    pub fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        self.by_thread.len()
    }

    /// Texts that the server was asked and did not understand.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(String::as_str)
    }

    /// Lets everybody who can go on do so, and plans when a core will be done.
    fn go_on(&mut self, now: u64) {
        while let Some(id) = self.ready.pop() {
            self.advance(now, id);
        }
        let end = self.cores.next_end();
        if end != self.planned_end {
            self.planned_end = end;
            self.plan += 1;
            if let Some(end) = end {
                self.effects.planned.push((end.max(now), Wake::Cores { plan: self.plan }));
            }
        }
    }

    /// The number of a schema.
    fn schema(&mut self, name: &str) -> u16 {
        let known = self.schemas.iter().position(|schema| schema == name);
        let place = known.unwrap_or_else(|| {
            self.schemas.push(name.to_owned());
            self.schemas.len() - 1
        });
        u16::try_from(place + 1).expect("few schemas")
    }

    /// The session has ended and holds nothing.
    fn remove(&mut self, id: u32) {
        if let Some(session) = self.sessions[id as usize].take() {
            self.by_thread.remove(&session.thread);
            for key in session.transaction_locks.into_iter().chain(session.session_locks) {
                self.locks.give(id, key, &mut self.ready);
            }
            self.free.push(id);
        }
    }
}
