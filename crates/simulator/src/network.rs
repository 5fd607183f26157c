//! The virtual network and the program's side of it, as a driver would show it: bytes cut and merged anywhere, delays,
//! slow readers, closes and resets. Within a connection and direction, order is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seam::{CloseReason, ConnectionId};

use crate::random::Random;
use crate::schedule::{Happening, Schedule};
use crate::server::Link;

/// ECONNRESET.
const RESET: i32 = 104;

/// Who is at the far end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A virtual client.
    Client(u32),
    /// The virtual server.
    Server,
}

/// What the network delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The other side closed in an orderly way.
    End,
    /// The connection broke.
    Reset,
}

/// What the driver tells the program about one connection in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes arrived.
    Bytes(Vec<u8>),
    /// Unsent bytes passed the high-water mark.
    Stalled,
    /// They are gone.
    Drained,
    /// The connection is gone.
    Closed(CloseReason),
}

/// How the network behaves in one run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Microseconds that a parcel takes at most.
    pub delay: u64,
    /// In how many of 100 sends the bytes are cut into several parcels.
    pub cut_percent: u64,
    /// Bytes that the driver reads at a time, at most.
    pub receive_buffer: usize,
    /// Unsent bytes at which a connection counts as stalled.
    pub high_water: usize,
    /// Bytes that a slow reader takes at a time, at most.
    pub slow_chunk: u64,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    conditions: Conditions,
    random: Random,
    links: BTreeMap<Link, Connection>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: BTreeSet<Link>,
    next_link: Link,
    /// For each connection to the server: up to which byte of its stream had been sent by which turn.
    sent_by_turn: BTreeMap<Link, Vec<(u64, u64)>>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    link: Option<Link>,
}

#[derive(Debug)]
struct Connection {
    owner: Owner,
    /// Which of the programs has it.
    program: usize,
    /// `None` once the program has closed the connection or been told of its end.
    id: Option<ConnectionId>,
    to_program: VecDeque<Parcel>,
    last_arrival: u64,
    arrived: Vec<u8>,
    ended: Option<CloseReason>,
    paused: bool,
    to_peer: VecDeque<Parcel>,
    last_departure: u64,
    unsent: Vec<u8>,
    closing: bool,
    slow: bool,
    stalled: Stall,
    /// Bytes that the program has sent since it was told of the stall.
    sent_while_stalled: usize,
    sent: u64,
}

/// What the program knows of a connection's unsent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stall {
    Flowing,
    ToBeTold,
    Told,
    DrainedToBeTold,
}

impl Network {
    /// A network without connections.
    pub fn new(conditions: Conditions, random: Random) -> Self {
        Self {
            conditions,
            random,
            links: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ready: BTreeSet::new(),
            next_link: 0,
            sent_by_turn: BTreeMap::new(),
        }
    }

    /// A new connection between a program and a peer. Slots are reused lowest-recent first, as the drivers do it.
    pub fn open(&mut self, owner: Owner, program: usize) -> (Link, ConnectionId) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, link: None });
            u32::try_from(self.slots.len() - 1).expect("few slots")
        });
        let slot = &mut self.slots[index as usize];
        slot.generation += 1;
        let id = ConnectionId { index, generation: slot.generation };
        let link = self.next_link;
        self.next_link += 1;
        slot.link = Some(link);
        let connection = Connection {
            owner,
            program,
            id: Some(id),
            to_program: VecDeque::new(),
            last_arrival: 0,
            arrived: Vec::new(),
            ended: None,
            paused: false,
            to_peer: VecDeque::new(),
            last_departure: 0,
            unsent: Vec::new(),
            closing: false,
            slow: false,
            stalled: Stall::Flowing,
            sent_while_stalled: 0,
            sent: 0,
        };
        self.links.insert(link, connection);
        (link, id)
    }

    /// Who is at the far end.
    pub fn owner(&self, link: Link) -> Option<Owner> {
        self.links.get(&link).map(|connection| connection.owner)
    }

    /// Which of the programs has, or has had, this connection.
    pub fn program_of(&self, link: Link) -> Option<usize> {
        self.links.get(&link).map(|connection| connection.program)
    }

    /// Connections that a program holds open.
    pub fn links_of(&self, program: usize) -> Vec<Link> {
        let open = self.links.iter().filter(|(_, found)| found.program == program && found.id.is_some());
        open.map(|(link, _)| *link).collect()
    }

    /// The connection behind an id of the program, unless it is dead.
    pub fn link_of(&self, id: ConnectionId) -> Option<Link> {
        let slot = self.slots.get(id.index as usize)?;
        slot.link.filter(|_| slot.generation == id.generation)
    }

    /// Connections to the server that a program holds open.
    pub fn open_backends(&self, program: usize) -> usize {
        let open = |found: &&Connection| found.owner == Owner::Server && found.id.is_some();
        self.links.values().filter(open).filter(|found| found.program == program).count()
    }

    /// Whether the program holds a connection open.
    pub fn is_open(&self, link: Link) -> bool {
        self.links.get(&link).is_some_and(|connection| connection.id.is_some())
    }

    /// Bytes waiting for a peer that does not read, beyond those that were there when the program was told.
    pub fn sent_while_stalled(&self, link: Link) -> usize {
        self.links.get(&link).map_or(0, |connection| connection.sent_while_stalled)
    }

    /// The turn in which the byte at `offset` of this connection's stream left the program.
    pub fn turn_of(&self, link: Link, offset: u64) -> Option<u64> {
        let turns = self.sent_by_turn.get(&link)?;
        let next = turns.partition_point(|(end, _)| *end <= offset);
        turns.get(next).map(|(_, turn)| *turn)
    }

    /// A peer sends.
    pub fn peer_sends(&mut self, now: u64, schedule: &mut Schedule, link: Link, bytes: &[u8]) {
        for part in self.cut(bytes) {
            self.toward_program(now, schedule, link, Parcel::Bytes(part));
        }
    }

    /// A peer closes in an orderly way. It takes nothing any more.
    pub fn peer_closes(&mut self, now: u64, schedule: &mut Schedule, link: Link) {
        self.toward_program(now, schedule, link, Parcel::End);
        self.forget_outward(link);
    }

    /// A peer's connection breaks. What it sent last may be lost.
    pub fn peer_resets(&mut self, now: u64, schedule: &mut Schedule, link: Link) {
        self.toward_program(now, schedule, link, Parcel::Reset);
        self.forget_outward(link);
    }

    /// A peer begins or stops to read slowly.
    pub fn set_slow(&mut self, now: u64, schedule: &mut Schedule, link: Link, slow: bool) {
        if let Some(connection) = self.links.get_mut(&link) {
            connection.slow = slow;
            if !slow {
                self.flush(now, schedule, link, usize::MAX);
            } else {
                schedule.at(now + 1000, Happening::SlowRead(link));
            }
        }
    }

    /// A slow peer takes some bytes.
    pub fn slow_read(&mut self, now: u64, schedule: &mut Schedule, link: Link) {
        if !self.links.get(&link).is_some_and(|connection| connection.slow) {
            return;
        }
        let chunk = usize::try_from(self.random.below(self.conditions.slow_chunk)).unwrap_or(usize::MAX);
        self.flush(now, schedule, link, chunk);
        let pause = self.random.between(200, 20_000);
        schedule.at(now + pause, Happening::SlowRead(link));
    }

    /// The program sends.
    pub fn program_sends(&mut self, now: u64, schedule: &mut Schedule, turn: u64, link: Link, bytes: &[u8]) {
        let Some(connection) = self.links.get_mut(&link) else { return };
        if connection.id.is_none() {
            return;
        }
        connection.sent += bytes.len() as u64;
        if connection.owner == Owner::Server {
            self.sent_by_turn.entry(link).or_default().push((connection.sent, turn));
        }
        connection.unsent.extend_from_slice(bytes);
        if connection.stalled == Stall::Told {
            connection.sent_while_stalled += bytes.len();
        }
        if !connection.slow {
            self.flush(now, schedule, link, usize::MAX);
        } else if connection.unsent.len() > self.conditions.high_water && connection.stalled == Stall::Flowing
        {
            connection.stalled = Stall::ToBeTold;
            self.ready.insert(link);
        }
    }

    /// The program closes: what it sent before still goes out. Bytes that it left unread make the kernel send a reset,
    /// which may overtake the last bytes at the far end.
    pub fn program_closes(&mut self, now: u64, schedule: &mut Schedule, link: Link) {
        let Some(connection) = self.links.get_mut(&link) else { return };
        self.ready.remove(&link);
        let unread = !connection.arrived.is_empty() || !connection.to_program.is_empty();
        self.free_slot(link);
        let resets = unread && self.random.percent(30);
        let Some(connection) = self.links.get_mut(&link) else { return };
        connection.closing = true;
        connection.slow = false; // the driver's lingering ends one way or the other
        self.flush(now, schedule, link, usize::MAX);
        self.toward_peer(now, schedule, link, if resets { Parcel::Reset } else { Parcel::End });
    }

    /// The program aborts: what it sent before and has not arrived never does. The reset arrives as soon as anything does: where it is
    /// lost on the way, the peer notices the end of the connection by itself.
    pub fn program_aborts(&mut self, now: u64, schedule: &mut Schedule, link: Link) {
        self.ready.remove(&link);
        self.free_slot(link);
        let Some(connection) = self.links.get_mut(&link) else { return };
        connection.closing = true;
        connection.unsent.clear();
        connection.to_peer.clear();
        self.toward_peer(now, schedule, link, Parcel::Reset);
    }

    /// The program has gone with its machine: nobody is told. What has left it is on its way still.
    pub fn program_vanishes(&mut self, link: Link) {
        self.ready.remove(&link);
        self.free_slot(link);
        if let Some(connection) = self.links.get_mut(&link) {
            connection.unsent.clear();
            connection.slow = true; // nothing leaves it any more
            connection.stalled = Stall::Flowing;
        }
    }

    /// Nobody is at the program's end of a connection any more, and its peer finds that out.
    pub fn forget(&mut self, link: Link) {
        self.links.remove(&link);
        self.ready.remove(&link);
    }

    /// The program reads no more, or again.
    pub fn set_paused(&mut self, link: Link, paused: bool) {
        if let Some(connection) = self.links.get_mut(&link) {
            connection.paused = paused;
            if !paused {
                self.ready.insert(link);
            }
        }
    }

    /// The front of what is on its way to the program arrives. Returns whether the program has a reason to wake.
    pub fn arrive_at_program(&mut self, link: Link) -> bool {
        let Some(connection) = self.links.get_mut(&link) else { return false };
        let Some(parcel) = connection.to_program.pop_front() else { return false };
        if connection.id.is_none() {
            return false;
        }
        match parcel {
            Parcel::Bytes(bytes) => connection.arrived.extend(bytes),
            Parcel::End => connection.ended = Some(CloseReason::EndOfStream),
            Parcel::Reset => {
                if self.random.percent(50) {
                    connection.arrived.clear();
                }
                connection.ended = Some(CloseReason::Failed(RESET));
            }
        }
        self.ready.insert(link);
        true
    }

    /// The front of what is on its way to a peer arrives.
    pub fn arrive_at_peer(&mut self, link: Link) -> Option<(Owner, Parcel)> {
        let connection = self.links.get_mut(&link)?;
        let parcel = connection.to_peer.pop_front()?;
        let owner = connection.owner;
        if parcel != Parcel::End && parcel != Parcel::Reset {
            return Some((owner, parcel));
        }
        self.links.remove(&link);
        self.ready.remove(&link);
        Some((owner, parcel))
    }

    /// Connections about which a program has something to hear, in a random order.
    pub fn ready_links(&mut self, program: usize) -> Vec<Link> {
        let is_its = |link: &Link| self.links.get(link).is_none_or(|found| found.program == program);
        let mut links: Vec<Link> = self.ready.iter().copied().filter(is_its).collect();
        self.random.shuffle(&mut links);
        links
    }

    /// Whether anything waits to be told to a program.
    pub fn has_news(&self, program: usize) -> bool {
        let found = self.ready.iter().filter_map(|link| self.links.get(link));
        found.filter(|found| found.program == program).any(Connection::has_news)
    }

    /// What the program hears about one connection now. The rest, if any, waits for the next turn.
    pub fn take_events(&mut self, link: Link) -> Vec<(ConnectionId, Owner, Event)> {
        let limit = self.random.between(1, self.conditions.receive_buffer as u64);
        let Some(connection) = self.links.get_mut(&link) else {
            self.ready.remove(&link);
            return Vec::new();
        };
        let (Some(id), owner) = (connection.id, connection.owner) else {
            self.ready.remove(&link);
            return Vec::new();
        };
        let mut events = Vec::new();
        match connection.stalled {
            Stall::ToBeTold => {
                connection.stalled = Stall::Told;
                events.push((id, owner, Event::Stalled));
            }
            Stall::DrainedToBeTold => {
                connection.stalled = Stall::Flowing;
                connection.sent_while_stalled = 0;
                events.push((id, owner, Event::Drained));
            }
            Stall::Flowing | Stall::Told => {}
        }
        let broken = matches!(connection.ended, Some(CloseReason::Failed(_)));
        if !connection.paused && !connection.arrived.is_empty() {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(connection.arrived.len());
            let rest = connection.arrived.split_off(limit);
            events.push((id, owner, Event::Bytes(std::mem::replace(&mut connection.arrived, rest))));
        }
        // An orderly close is seen by reading; a break is seen even while reading is paused.
        if let Some(reason) = connection.ended {
            if broken && connection.paused || !connection.paused && connection.arrived.is_empty() {
                events.push((id, owner, Event::Closed(reason)));
                self.free_slot(link);
                self.links.remove(&link);
            }
        }
        if !self.links.get(&link).is_some_and(Connection::has_news) {
            self.ready.remove(&link);
        }
        events
    }

    fn free_slot(&mut self, link: Link) {
        if let Some(id) = self.links.get_mut(&link).and_then(|connection| connection.id.take()) {
            self.slots[id.index as usize].link = None;
            self.free.push(id.index);
        }
    }

    /// A peer that is gone takes nothing: what was on its way to it is lost.
    fn forget_outward(&mut self, link: Link) {
        if let Some(connection) = self.links.get_mut(&link) {
            connection.to_peer.clear();
            connection.unsent.clear();
            connection.slow = true; // sends go nowhere until the program hears of the end
            connection.stalled = Stall::Flowing;
        }
    }

    /// Cuts bytes into parcels.
    fn cut(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut rest = bytes;
        while rest.len() > 1 && self.random.percent(self.conditions.cut_percent) {
            let (front, back) = rest.split_at(1 + self.random.index(rest.len() - 1));
            parts.push(front.to_vec());
            rest = back;
        }
        if !rest.is_empty() {
            parts.push(rest.to_vec());
        }
        parts
    }

    fn toward_program(&mut self, now: u64, schedule: &mut Schedule, link: Link, parcel: Parcel) {
        let delay = self.random.below(self.conditions.delay + 1);
        let Some(connection) = self.links.get_mut(&link) else { return };
        connection.last_arrival = connection.last_arrival.max(now + delay);
        connection.to_program.push_back(parcel);
        schedule.at(connection.last_arrival, Happening::ArriveAtProgram(link));
    }

    fn toward_peer(&mut self, now: u64, schedule: &mut Schedule, link: Link, parcel: Parcel) {
        let delay = self.random.below(self.conditions.delay + 1);
        let Some(connection) = self.links.get_mut(&link) else { return };
        connection.last_departure = connection.last_departure.max(now + delay);
        connection.to_peer.push_back(parcel);
        schedule.at(connection.last_departure, Happening::ArriveAtPeer(link));
    }

    /// Sends off up to `limit` unsent bytes.
    fn flush(&mut self, now: u64, schedule: &mut Schedule, link: Link, limit: usize) {
        let Some(connection) = self.links.get_mut(&link) else { return };
        let limit = limit.min(connection.unsent.len());
        let rest = connection.unsent.split_off(limit);
        let bytes = std::mem::replace(&mut connection.unsent, rest);
        if connection.unsent.is_empty() {
            match connection.stalled {
                Stall::Told => {
                    connection.stalled = Stall::DrainedToBeTold;
                    self.ready.insert(link);
                }
                Stall::ToBeTold => connection.stalled = Stall::Flowing,
                Stall::Flowing | Stall::DrainedToBeTold => {}
            }
        }
        for part in self.cut(&bytes) {
            self.toward_peer(now, schedule, link, Parcel::Bytes(part));
        }
    }
}

impl Connection {
    fn has_news(&self) -> bool {
        let ended = self.ended.is_some();
        let broken = matches!(self.ended, Some(CloseReason::Failed(_)));
        self.id.is_some()
            && (matches!(self.stalled, Stall::ToBeTold | Stall::DrainedToBeTold)
                || (!self.paused && (ended || !self.arrived.is_empty()))
                || broken)
    }
}

#[cfg(test)]
mod tests;
