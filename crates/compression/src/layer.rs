//! The layer: which connections are compressed, and how much of theirs is opened in one turn.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use seam::{CloseReason, ConnectionId, Input, Instant, Output, Program};

use crate::codec::Codec;
use crate::stream::Stream;

/// The error of a connection whose packets cannot be opened: EPROTO, "Protocol error".
const PROTOCOL_ERROR: i32 = 71;

/// A client's packet of any size has to fit, so that no bound is below one of the largest, in a vector that may be twice as large.
const LEAST_FOR_CLIENTS: usize = 32 << 20;

/// Of one connection no more is opened in a turn, but for one packet's content: a few bytes can become a thousand times as
/// many, and the program has to be able to say that it wants no more.
const OPENED_PER_TURN: usize = 256 << 10;

/// And of all together that wait no more than this, but for one packet's content: opening the largest takes some ten milliseconds,
/// and hundreds of these, in as many packets of a few KiB, are not to hold up everybody else.
const OPENED_OF_WAITING: usize = 1 << 20;

/// Where more than this of one connection has arrived and waits to be opened, no more of it is read: what a server sends can
/// become smaller by a hundred times, and would come faster than it is opened.
const ARRIVED_MOST: usize = 64 << 10;

/// The bytes that a server has sent before it closed its connection are opened at once, in at most so many shares of a turn: some
/// 64 MiB, which is a thousand times what is held of it.
const SHARES_AT_THE_END: usize = 256;

/// The buffers are given back to the allocator beyond this: one large packet must not stay in the resident size.
const KEPT: usize = 256 << 10;

/// A program, with compression on those of its connections for which it asks. [`Input::Bytes`] and [`Output::Send`] of these are
/// what is inside.
pub struct Compressed<P> {
    inner: P,
    held: Held,
    /// Beyond so many bytes that clients have sent, the one that has sent most has to go.
    most_of_clients: usize,
    codec: Codec,
    /// By the connection's index.
    entries: Vec<Option<Box<Entry>>>,
    /// Connections with something to do in the next turn.
    waiting: VecDeque<ConnectionId>,
    closing: VecDeque<ConnectionId>,
    /// Connections of which no more is to be read, or more again.
    valves: VecDeque<(ConnectionId, Valve)>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    now: Instant,
}

#[derive(Clone, Copy)]
enum Valve {
    Shut,
    Open,
}

/// Bytes that are held for connections.
struct Held {
    all: Rc<Cell<usize>>,
    /// Bytes that clients have sent and that are not a whole packet yet, or wait for their turn.
    of_clients: usize,
}

struct Entry {
    generation: u32,
    stream: Stream,
    /// Of its bytes, what has been added to the sum.
    counted: usize,
    /// And to the sum of what clients have sent.
    counted_of_client: usize,
    /// The program wants to hear no more for now.
    paused: bool,
    /// No more is read, since enough waits to be opened.
    full: bool,
    /// True if the connection is in `waiting`.
    waits: bool,
    /// Its packets could not be opened; the program knows.
    over: bool,
}

impl<P: Program> Compressed<P> {
    /// A layer around `inner`. How many bytes it holds for connections is told by `held`. What clients have sent of packets that
    /// are not whole is `most_of_clients` bytes at most (or 32 MiB, where that is less): beyond it the one that has sent most
    /// ends ([`CloseReason::TooMuchHeld`]).
    pub fn new(inner: P, held: Rc<Cell<usize>>, most_of_clients: usize) -> Self {
        Self {
            inner,
            held: Held { all: held, of_clients: 0 },
            most_of_clients: most_of_clients.max(LEAST_FOR_CLIENTS),
            codec: Codec::new(),
            entries: Vec::new(),
            waiting: VecDeque::new(),
            closing: VecDeque::new(),
            valves: VecDeque::new(),
            plain: Vec::new(),
            packed: Vec::new(),
            now: Instant::START,
        }
    }

    /// The program inside.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Opens what has arrived and hands it on, as much as a turn allows. Gives how many bytes these were.
    fn open(&mut self, now: Instant, connection: ConnectionId) -> usize {
        let Some(entry) = entry(&mut self.entries, connection) else { return 0 };
        if entry.paused || entry.over {
            return 0;
        }
        self.plain.clear();
        let opened = entry.stream.open(&mut self.codec, OPENED_PER_TURN, &mut self.plain);
        if opened.is_err() {
            entry.over = true;
        } else if entry.stream.is_ready() {
            wait(entry, &mut self.waiting, connection);
        }
        if entry.full && !entry.stream.is_ready() {
            entry.full = false;
            self.valves.push_back((connection, Valve::Open));
        }
        entry.count(&mut self.held);
        if opened.is_err() {
            self.closing.push_back(connection);
            let reason = CloseReason::Failed(PROTOCOL_ERROR);
            self.inner.handle(now, Input::Closed { connection, reason });
        } else if !self.plain.is_empty() {
            self.inner.handle(now, Input::Bytes { connection, bytes: &self.plain });
        }
        let opened = self.plain.len();
        self.plain.clear();
        self.plain.shrink_to(KEPT);
        opened
    }

    /// Clients have sent too much of packets that are not whole: who has sent most has to go, so that nobody can keep the memory from
    /// all others.
    fn end_largest(&mut self, now: Instant) {
        let clients = self.entries.iter_mut().enumerate().filter_map(|(index, entry)| {
            let entry = entry.as_deref_mut().filter(|entry| !entry.over && !entry.stream.is_of_a_server())?;
            Some((entry.stream.arrived(), index, entry))
        });
        let Some((_, index, entry)) = clients.max_by_key(|&(arrived, ..)| arrived) else { return };
        let index = u32::try_from(index).expect("an index of a connection");
        let connection = ConnectionId { index, generation: entry.generation };
        entry.over = true;
        entry.stream.forget();
        entry.count(&mut self.held);
        self.closing.push_back(connection);
        self.inner.handle(now, Input::Closed { connection, reason: CloseReason::TooMuchHeld });
    }

    /// The connection is gone: what its server sent before that goes ahead of the news, whether the program wanted to wait with it
    /// or not. Behind the binary log the end comes at once. Gives whether the program has still to hear of it.
    fn open_rest(&mut self, now: Instant, connection: ConnectionId) -> bool {
        for _ in 0..SHARES_AT_THE_END {
            match entry(&mut self.entries, connection) {
                Some(entry) if !entry.over && entry.stream.is_of_a_server() && entry.stream.is_ready() => {
                    entry.paused = false;
                    self.open(now, connection);
                }
                _ => break,
            }
        }
        let knows = entry(&mut self.entries, connection).is_some_and(|entry| entry.over);
        if knows {
            self.closing.retain(|&closing| closing != connection);
        }
        !knows
    }
}

impl<P: Program> Program for Compressed<P> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = now;
        match input {
            Input::Bytes { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else {
                    return self.inner.handle(now, input);
                };
                if entry.over {
                    return;
                }
                entry.stream.keep(bytes);
                entry.count(&mut self.held);
                if self.held.of_clients > self.most_of_clients {
                    self.end_largest(now);
                }
                let Some(entry) = self::entry(&mut self.entries, connection) else { return };
                let arrived = entry.stream.arrived();
                // What waits already has its share in a turn, and what is large gets in line.
                if !entry.waits && entry.stream.first_content() <= OPENED_PER_TURN {
                    self.open(now, connection);
                    return;
                }
                wait(entry, &mut self.waiting, connection);
                if arrived > ARRIVED_MOST && !entry.full {
                    entry.full = true;
                    self.valves.push_back((connection, Valve::Shut));
                }
            }
            Input::TurnEnd => {
                let mut opened = 0;
                for _ in 0..self.waiting.len() {
                    if opened >= OPENED_OF_WAITING {
                        break;
                    }
                    let Some(connection) = self.waiting.pop_front() else { break };
                    if let Some(entry) = entry(&mut self.entries, connection) {
                        entry.waits = false;
                        opened += self.open(now, connection);
                    }
                }
                self.inner.handle(now, Input::TurnEnd);
            }
            Input::Closed { connection, .. } | Input::TlsFailed { connection, .. } => {
                let is_news = self.open_rest(now, connection);
                remove(&mut self.entries, connection, &mut self.held);
                if is_news {
                    self.inner.handle(now, input);
                }
            }
            input => self.inner.handle(now, input),
        }
    }

    /// One output for each of the program's, and those of this layer. What is left of a request that only this layer is concerned
    /// with is a send of no bytes.
    fn poll_output(&mut self) -> Option<Output<'_>> {
        if let Some(connection) = self.closing.pop_front() {
            remove(&mut self.entries, connection, &mut self.held);
            return Some(Output::Close { connection });
        }
        while let Some((connection, valve)) = self.valves.pop_front() {
            match (valve, entry(&mut self.entries, connection)) {
                (Valve::Shut, Some(_)) => return Some(Output::PauseReading { connection }),
                (Valve::Open, Some(entry)) if !entry.paused && !entry.full => {
                    return Some(Output::ResumeReading { connection });
                }
                _ => {}
            }
        }
        self.packed.clear();
        let Some(output) = self.inner.poll_output() else {
            self.packed.shrink_to(KEPT);
            return None;
        };
        match output {
            Output::StartCompression { connection, compression, side } => {
                let index = connection.index as usize;
                if self.entries.len() <= index {
                    self.entries.resize_with(index + 1, || None);
                }
                let mut fresh = Box::new(Entry::new(connection.generation, Stream::new(compression, side)));
                fresh.count(&mut self.held);
                self.entries[index] = Some(fresh);
                Some(Output::Send { connection, bytes: &[] })
            }
            Output::Send { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else { return Some(output) };
                entry.stream.put(&mut self.codec, bytes, &mut self.packed);
                entry.count(&mut self.held);
                Some(Output::Send { connection, bytes: &self.packed })
            }
            Output::SendWhole { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else {
                    return Some(Output::SendWhole { connection, bytes });
                };
                entry.stream.put(&mut self.codec, &bytes, &mut self.packed);
                entry.count(&mut self.held);
                Some(Output::Send { connection, bytes: &self.packed })
            }
            Output::Unread { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else { return Some(output) };
                entry.stream.keep(bytes);
                entry.count(&mut self.held);
                wait(entry, &mut self.waiting, connection);
                Some(Output::Send { connection, bytes: &[] })
            }
            Output::PauseReading { connection } => {
                if let Some(entry) = entry(&mut self.entries, connection) {
                    entry.paused = true;
                }
                Some(output)
            }
            Output::ResumeReading { connection } => {
                let Some(entry) = entry(&mut self.entries, connection) else { return Some(output) };
                entry.paused = false;
                if entry.stream.is_ready() {
                    wait(entry, &mut self.waiting, connection);
                }
                // Once what waits has been opened.
                Some(if entry.full { Output::Send { connection, bytes: &[] } } else { output })
            }
            Output::Close { connection } | Output::Abort { connection } => {
                remove(&mut self.entries, connection, &mut self.held);
                Some(output)
            }
            output => Some(output),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self.waiting.is_empty() {
            true => self.inner.next_timeout(),
            false => Some(self.now),
        }
    }
}

impl Entry {
    fn new(generation: u32, stream: Stream) -> Self {
        Self {
            generation,
            stream,
            counted: 0,
            counted_of_client: 0,
            paused: false,
            full: false,
            waits: false,
            over: false,
        }
    }

    /// Brings the sums up to date.
    fn count(&mut self, held: &mut Held) {
        let of_client = if self.stream.is_of_a_server() { 0 } else { self.stream.arrived() };
        self.count_as(size_of::<Self>() + self.stream.bytes(), of_client, held);
    }

    fn count_as(&mut self, bytes: usize, of_client: usize, held: &mut Held) {
        held.all.set(held.all.get() - self.counted + bytes);
        held.of_clients = held.of_clients - self.counted_of_client + of_client;
        (self.counted, self.counted_of_client) = (bytes, of_client);
    }
}

fn entry(entries: &mut [Option<Box<Entry>>], connection: ConnectionId) -> Option<&mut Entry> {
    let entry = entries.get_mut(connection.index as usize)?.as_deref_mut()?;
    (entry.generation == connection.generation).then_some(entry)
}

fn remove(entries: &mut [Option<Box<Entry>>], connection: ConnectionId, held: &mut Held) {
    if let Some(entry) = entry(entries, connection) {
        entry.count_as(0, 0, held);
        entries[connection.index as usize] = None;
    }
}

fn wait(entry: &mut Entry, waiting: &mut VecDeque<ConnectionId>, connection: ConnectionId) {
    if !entry.waits {
        entry.waits = true;
        waiting.push_back(connection);
    }
}

#[cfg(test)]
mod tests;
