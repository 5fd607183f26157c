//! What will happen when, in virtual time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::server::Link;
use crate::subject::Origin;
use crate::world::{Act, Fate};

/// Something that the world does at a certain time.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The driver of the program at this place wakes up.
    Turn(usize),
    /// The front of what is on its way to the program arrives.
    ArriveAtProgram(Link),
    /// The front of what is on its way to a client or server arrives.
    ArriveAtPeer(Link),
    /// A slow peer takes some bytes.
    SlowRead(Link),
    /// A connection attempt of the program is decided.
    ConnectDone {
        /// The program's token.
        token: u64,
        /// The place of the server.
        server: usize,
        /// Whose it is to be.
        origin: Origin,
    },
    /// The server's command on this connection is done.
    ServerWake(Link),
    /// A client does its next thing.
    ClientWake(u32),
    /// A task of the program is done: the one of this number.
    TaskDone(u64),
    /// The next fault strikes.
    Fault,
    /// The server at this place comes back.
    ServerUp(usize),
    /// A server greets who has connected, as soon as it runs.
    Greet(Link),
    /// Something happens to the servers of a cluster.
    Cluster(Act),
    /// Something happens to one of several Onramps.
    Onramps(Fate),
}

/// The queue of happenings: by time, then by the order in which they were planned.
#[derive(Debug, Default)]
pub struct Schedule {
    queue: BinaryHeap<Planned>,
    planned: u64,
}

/// A happening with its time and its number, by which the next one is the greatest.
#[derive(Debug)]
struct Planned {
    at: (u64, u64),
    happening: Happening,
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Planned {}

impl Schedule {
    /// Plans a happening.
    pub fn at(&mut self, micros: u64, happening: Happening) {
        self.planned += 1;
        self.queue.push(Planned { at: (micros, self.planned), happening });
    }

    /// The next happening and its time.
    pub fn pop(&mut self) -> Option<(u64, Happening)> {
        self.queue.pop().map(|Planned { at, happening }| (at.0, happening))
    }

    /// When the next happening is due.
    pub fn next_time(&self) -> Option<u64> {
        self.queue.peek().map(|planned| planned.at.0)
    }
}
