//! The layer: which connections are compressed, and how much of theirs is opened in one turn.

use std::collections::VecDeque;

use seam::{CloseReason, ConnectionId, Input, Instant, Output, Program};

use crate::codec::Codec;
use crate::stream::Stream;

/// What is reported of a connection whose packets cannot be opened: EPROTO, "Protocol error".
const PROTOCOL_ERROR: i32 = 71;

/// Of one connection no more is opened in a turn, but for one packet's content: a few bytes can become a thousand times as
/// many, and the program has to be able to say that it wants no more.
const OPENED_PER_TURN: usize = 256 << 10;

/// The buffers are given back to the allocator beyond this: one large packet must not stay in the resident size.
const KEPT: usize = 256 << 10;

/// A program, with compression on those of its connections for which it asks. [`Input::Bytes`] and [`Output::Send`] of these are
/// what is inside.
pub struct Compressed<P> {
    inner: P,
    codec: Codec,
    /// By the connection's index.
    entries: Vec<Option<Box<Entry>>>,
    /// Those with something to do in the next turn.
    waiting: VecDeque<ConnectionId>,
    closing: VecDeque<ConnectionId>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    now: Instant,
}

struct Entry {
    generation: u32,
    stream: Stream,
    /// The program wants to hear no more for now.
    paused: bool,
    /// It is in `waiting`.
    waits: bool,
    /// Its packets could not be opened; the program knows.
    over: bool,
}

impl<P: Program> Compressed<P> {
    /// A layer around `inner`.
    pub fn new(inner: P) -> Self {
        Self {
            inner,
            codec: Codec::new(),
            entries: Vec::new(),
            waiting: VecDeque::new(),
            closing: VecDeque::new(),
            plain: Vec::new(),
            packed: Vec::new(),
            now: Instant::START,
        }
    }

    /// The program inside.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Opens what has arrived and hands it on, as much as a turn allows.
    fn open(&mut self, now: Instant, connection: ConnectionId) {
        let Some(entry) = entry(&mut self.entries, connection) else { return };
        if entry.paused || entry.over {
            return;
        }
        self.plain.clear();
        let opened = entry.stream.open(&mut self.codec, OPENED_PER_TURN, &mut self.plain);
        if opened.is_err() {
            entry.over = true;
        } else if entry.stream.is_ready() {
            wait(entry, &mut self.waiting, connection);
        }
        if opened.is_err() {
            self.closing.push_back(connection);
            let reason = CloseReason::Failed(PROTOCOL_ERROR);
            self.inner.handle(now, Input::Closed { connection, reason });
        } else if !self.plain.is_empty() {
            self.inner.handle(now, Input::Bytes { connection, bytes: &self.plain });
        }
        self.plain.clear();
        self.plain.shrink_to(KEPT);
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
                entry.stream.keep(bytes);
                // What waits already has its share in this turn.
                if !entry.waits {
                    self.open(now, connection);
                }
            }
            Input::TurnEnd => {
                for _ in 0..self.waiting.len() {
                    let Some(connection) = self.waiting.pop_front() else { break };
                    if let Some(entry) = entry(&mut self.entries, connection) {
                        entry.waits = false;
                        self.open(now, connection);
                    }
                }
                self.inner.handle(now, Input::TurnEnd);
            }
            Input::Closed { connection, .. } | Input::TlsFailed { connection, .. } => {
                remove(&mut self.entries, connection);
                self.inner.handle(now, input);
            }
            input => self.inner.handle(now, input),
        }
    }

    /// One output for each of the program's. What is left of a request that only this layer is concerned with is a send of no
    /// bytes.
    fn poll_output(&mut self) -> Option<Output<'_>> {
        if let Some(connection) = self.closing.pop_front() {
            remove(&mut self.entries, connection);
            return Some(Output::Close { connection });
        }
        self.packed.clear();
        let Some(output) = self.inner.poll_output() else {
            self.packed.shrink_to(KEPT);
            return None;
        };
        match output {
            Output::StartCompression { connection, compression } => {
                let index = connection.index as usize;
                if self.entries.len() <= index {
                    self.entries.resize_with(index + 1, || None);
                }
                let (generation, stream) = (connection.generation, Stream::new(compression));
                let fresh = Entry { generation, stream, paused: false, waits: false, over: false };
                self.entries[index] = Some(Box::new(fresh));
                Some(Output::Send { connection, bytes: &[] })
            }
            Output::Send { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else { return Some(output) };
                entry.stream.put(&mut self.codec, bytes, &mut self.packed);
                Some(Output::Send { connection, bytes: &self.packed })
            }
            Output::Unread { connection, bytes } => {
                let Some(entry) = entry(&mut self.entries, connection) else { return Some(output) };
                entry.stream.keep(bytes);
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
                if let Some(entry) = entry(&mut self.entries, connection) {
                    entry.paused = false;
                    if entry.stream.is_ready() {
                        wait(entry, &mut self.waiting, connection);
                    }
                }
                Some(output)
            }
            Output::Close { connection } => {
                remove(&mut self.entries, connection);
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

fn entry(entries: &mut [Option<Box<Entry>>], connection: ConnectionId) -> Option<&mut Entry> {
    let entry = entries.get_mut(connection.index as usize)?.as_deref_mut()?;
    (entry.generation == connection.generation).then_some(entry)
}

fn remove(entries: &mut [Option<Box<Entry>>], connection: ConnectionId) {
    if entry(entries, connection).is_some() {
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
