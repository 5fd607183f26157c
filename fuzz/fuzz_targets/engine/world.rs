//! The driver's part: connections, turns and time; and what must hold after each turn.

use std::collections::VecDeque;
use std::time::Duration;

use engine::{Engine, Settings, ThreadHandling};
use seam::{CloseReason, ConnectionId, Input, Instant, ListenerId, Output, Peer, Program, Signal};

use crate::server::{Answer, Kind, Session};

/// The service account's token: its connection is none of the backends that are counted.
const CONTROL_TOKEN: u64 = 0;

/// Turns at one time that bring neither an input nor an output; the real clock would not stand still for as long.
const IDLE_TURNS: u32 = 50;

/// Turns in a row without an operation in between: each answer to the engine may make it ask again, but not for ever.
const TURNS: u32 = 2000;

/// Stands around a client's number in what the client sends; garbage never holds it.
const MARK: &[u8] = b"~~";

/// The engine and all that it is connected to.
pub struct World {
    engine: Engine,
    settings: Settings,
    pub now: Instant,
    slots: Vec<Slot>,
    /// Attempts to connect that have not been answered.
    pub connects: VecDeque<u64>,
    next_thread: u32,
    next_client: u32,
    /// Whether connections and the engine's own questions are answered at once.
    pub automatic: bool,
    /// What answers at the server's address now.
    pub kind: Kind,
    pub listening: bool,
    pub finished: bool,
    /// Whether a permit can have been lent: those who lent theirs may take it back beyond the number of permits.
    pub lends: bool,
}

struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

struct Connection {
    end: End,
    paused: bool,
    stalled: bool,
}

enum End {
    Client(Client),
    Control(Session),
    Backend(Session),
}

/// What a client knows.
pub struct Client {
    pub number: u32,
    /// The end of what it has received, in which half a mark may stand.
    tail: Vec<u8>,
}

/// Which connections an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Clients,
    Servers,
}

impl World {
    pub fn new(settings: Settings, automatic: bool, kind: Kind) -> Self {
        Self {
            engine: Engine::new(settings.clone()),
            settings,
            now: Instant::START,
            slots: Vec::new(),
            connects: VecDeque::new(),
            next_thread: 100,
            next_client: 0,
            automatic,
            kind,
            listening: true,
            finished: false,
            lends: false,
        }
    }

    /// The connection that a number means on one side, if there is any on it.
    pub fn find(&self, side: Side, which: u8) -> Option<ConnectionId> {
        let count = self.of_side(side).count();
        self.of_side(side).nth(usize::from(which) % count.max(1))
    }

    /// All connections of one side.
    pub fn all(&self, side: Side) -> Vec<ConnectionId> {
        self.of_side(side).collect()
    }

    /// The client that connected last.
    pub fn newest_client(&self) -> Option<ConnectionId> {
        let newest = mark(self.next_client);
        self.of_side(Side::Clients).find(|&id| self.mark(id) == newest)
    }

    fn of_side(&self, side: Side) -> impl Iterator<Item = ConnectionId> {
        (0..).zip(&self.slots).filter_map(move |(index, slot)| {
            let connection = slot.connection.as_ref()?;
            let is_client = matches!(connection.end, End::Client(_));
            (is_client == (side == Side::Clients))
                .then_some(ConnectionId { index, generation: slot.generation })
        })
    }

    /// How a client marks its statements.
    pub fn mark(&self, id: ConnectionId) -> String {
        match self.connection(id).map(|connection| &connection.end) {
            Some(End::Client(client)) => mark(client.number),
            _ => String::new(),
        }
    }

    pub fn accept(&mut self) {
        if !self.listening || self.finished {
            return;
        }
        self.next_client += 1;
        let client = Client { number: self.next_client, tail: Vec::new() };
        let connection = self.open(End::Client(client));
        let peer = Peer::Tcp(([10, 0, 0, 1], 4000).into());
        self.handle(Input::Accepted { connection, listener: ListenerId(0), peer });
    }

    /// The oldest attempt to connect is answered.
    pub fn connect(&mut self, succeeds: bool) {
        let Some(token) = self.connects.pop_front() else { return };
        if !succeeds {
            // ECONNREFUSED
            return self.handle(Input::ConnectFailed { token, errno: 111 });
        }
        self.next_thread += 1;
        let session = Session::new(self.next_thread, self.kind);
        let is_control = token == CONTROL_TOKEN;
        let connection = self.open(if is_control { End::Control(session) } else { End::Backend(session) });
        self.handle(Input::Connected { token, connection });
    }

    /// Bytes arrive, unless the engine does not read. Marks are no bytes of strangers.
    pub fn garbage(&mut self, id: ConnectionId, bytes: &[u8]) {
        let bytes: Vec<u8> = bytes.iter().map(|&byte| if byte == MARK[0] { b'-' } else { byte }).collect();
        // A server that does not keep to the protocol may ask for files.
        self.lends = true;
        self.bytes(id, &bytes);
    }

    /// The same for bytes that make sense.
    pub fn bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let reads = self.connection(id).is_some_and(|connection| !connection.paused);
        if reads && !bytes.is_empty() {
            self.handle(Input::Bytes { connection: id, bytes });
        }
    }

    /// A server answers its oldest command, and so much of its answers arrives.
    pub fn answer(&mut self, id: ConnectionId, how: Answer, bytes: usize) {
        self.lends |= how.wants_file();
        if let Some(session) = self.session(id) {
            session.answer(how);
        }
        self.deliver(id, bytes);
    }

    /// What a server has said arrives, up to so many bytes.
    pub fn deliver(&mut self, id: ConnectionId, bytes: usize) {
        if self.connection(id).is_none_or(|connection| connection.paused) {
            return;
        }
        let Some(session) = self.session(id) else { return };
        let count = session.outgoing.len().min(bytes);
        let arrives: Vec<u8> = session.outgoing.drain(..count).collect();
        let ends = session.ends && session.outgoing.is_empty();
        self.bytes(id, &arrives);
        if ends {
            self.close(id);
        }
    }

    /// The peer closes.
    pub fn close(&mut self, id: ConnectionId) {
        if self.forget(id) {
            self.handle(Input::Closed { connection: id, reason: CloseReason::EndOfStream });
        }
    }

    /// The peer takes nothing any more, or, if that was so, has taken everything.
    pub fn stall_or_drain(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        connection.stalled = !connection.stalled;
        let stalled = connection.stalled;
        self.lends = true;
        self.handle(if stalled {
            Input::Stalled { connection: id }
        } else {
            Input::Drained { connection: id }
        });
    }

    pub fn signal(&mut self, signal: Signal) {
        self.handle(Input::Signal(signal));
        // Whoever still came in within that turn would go down with the process.
        if signal == Signal::Stop {
            self.end_turn();
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        // Lent permits come back when statements end, or their client goes.
        self.lends |=
            self.now.as_micros() >= u64::try_from(self.settings.stall_limit.as_micros()).unwrap_or(u64::MAX);
    }

    /// Waits until the engine wants to be called.
    pub fn wait_for_timeout(&mut self) {
        if let Some(timeout) = self.engine.next_timeout().filter(|timeout| *timeout > self.now) {
            self.wait(timeout - self.now);
        }
    }

    /// Ends the turn, and goes on for as long as something is due.
    pub fn end_turn(&mut self) {
        let mut idle = 0;
        self.turn();
        for _ in 0..TURNS {
            // Who has finished hears of nothing any more.
            let fed = self.automatic && !self.finished && self.feed();
            let due = self.engine.next_timeout().is_some_and(|timeout| timeout <= self.now);
            if self.finished || !(fed || due) {
                return;
            }
            if self.turn() || fed {
                idle = 0;
            } else {
                idle += 1;
                self.now = self.now + Duration::from_micros(1);
                assert!(idle < IDLE_TURNS, "next_timeout stays in the past, and nothing happens");
            }
        }
        panic!("the engine finds no rest");
    }

    /// Everybody goes. Nothing of anybody may be left.
    pub fn close_everything(&mut self) {
        self.automatic = false;
        while let Some(id) = self.find(Side::Clients, 0) {
            self.close(id);
        }
        self.end_turn();
        loop {
            while !self.connects.is_empty() {
                self.connect(false);
            }
            let Some(id) = self.find(Side::Servers, 0) else { break };
            self.close(id);
        }
        self.end_turn();
        self.assert_empty();
    }

    /// The engine is told to finish, and has the time that it asked for.
    pub fn drain(&mut self) {
        self.signal(Signal::Drain);
        self.end_turn();
        let end = self.now + self.settings.shutdown_timeout + Duration::from_secs(2);
        while !self.finished {
            assert!(self.now < end, "Drain does not come to its end: {:?}", self.engine.figures().snapshot());
            self.wait_for_timeout();
            self.end_turn();
        }
        self.assert_empty();
    }

    fn assert_empty(&self) {
        let left = self.engine.figures().snapshot();
        // Session states are held by answers that are known, too.
        let counts = [left.clients, left.backends, left.waiting, left.buffered];
        assert!(counts == [0; 4] && left.running == 0, "something is left: {left:?}");
    }

    fn handle(&mut self, input: Input<'_>) {
        if !self.finished {
            self.engine.handle(self.now, input);
        }
    }

    /// One turn's end. True where the engine asked for anything.
    fn turn(&mut self) -> bool {
        self.handle(Input::TurnEnd);
        let mut asked = false;
        // The peers here speak neither TLS nor the compressed protocol: they hang up.
        let mut hang_up = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            asked = true;
            if let Some((connection, bytes)) = output.sent() {
                if let Some(found) = find_mut(&mut self.slots, connection) {
                    found.end.receive(bytes);
                }
                continue;
            }
            match output {
                Output::Connect { token, .. } => self.connects.push_back(token),
                Output::Send { .. } | Output::SendWhole { .. } => unreachable!("sent above"),
                Output::Close { connection } | Output::Abort { connection } => {
                    if let Some(slot) = slot_mut(&mut self.slots, connection) {
                        slot.close();
                    }
                }
                Output::PauseReading { connection } => {
                    if let Some(found) = find_mut(&mut self.slots, connection) {
                        found.paused = true;
                    }
                }
                Output::ResumeReading { connection } => {
                    if let Some(found) = find_mut(&mut self.slots, connection) {
                        found.paused = false;
                    }
                }
                Output::StartTls { connection, .. } | Output::StartCompression { connection, .. } => {
                    hang_up.push(connection);
                }
                Output::Unread { .. } => {}
                Output::StopListening => self.listening = false,
                Output::Finished => self.finished = true,
            }
        }
        for connection in hang_up {
            self.close(connection);
        }
        while self.engine.poll_event().is_some_and(|event| !event.to_string().is_empty()) {}
        self.assert_bounds();
        asked
    }

    fn assert_bounds(&self) {
        let found = self.engine.figures().snapshot();
        let (mut clients, mut backends) = (0, 0);
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
            match connection.end {
                End::Client(_) => clients += 1,
                End::Backend(_) => backends += 1,
                End::Control(_) => {}
            }
        }
        let opening = self.connects.iter().filter(|token| **token != CONTROL_TOKEN).count();
        assert_eq!(found.clients, clients, "a client is a connection: {found:?}");
        assert!(
            found.backends >= backends && found.backends <= backends + opening,
            "a backend is a connection, or an attempt at one ({backends}, {opening}): {found:?}"
        );
        assert!(found.clients <= self.settings.max_connections as usize, "{found:?}");
        assert!(found.waiting <= found.clients, "{found:?}");
        assert!(found.running as usize <= found.backends, "a permit is held by a backend: {found:?}");
        let packet = self.settings.max_allowed_packet + wire::HEADER_LEN;
        assert!(found.buffered <= self.settings.statement_memory + packet, "{found:?}");
        if self.settings.thread_handling == ThreadHandling::PoolOfThreads {
            assert!(found.backends <= self.settings.max_backends as usize + 1, "{found:?}");
            // One is kept for who holds locks (`KEPT` of the workers).
            let permits = self.settings.permits + (self.settings.permits / 4).max(1);
            assert!(self.lends || found.running <= permits, "{found:?}");
        }
    }

    /// Answers what is not for the operations to answer. True where there was something.
    fn feed(&mut self) -> bool {
        let mut fed = !self.connects.is_empty();
        while !self.connects.is_empty() {
            self.connect(true);
        }
        for index in 0..self.slots.len() {
            let generation = self.slots[index].generation;
            let id = ConnectionId { index: u32::try_from(index).expect("few slots"), generation };
            if self.connection(id).is_none_or(|connection| connection.paused) {
                continue;
            }
            let Some(session) = self.session(id) else { continue };
            while session.is_asked_by_the_engine() {
                session.answer(Answer::default());
            }
            // What the engine has not asked for by itself is delivered by operations.
            if !session.outgoing.is_empty() && !session.is_asked() {
                self.deliver(id, usize::MAX);
                fed = true;
            }
        }
        fed
    }

    fn open(&mut self, end: End) -> ConnectionId {
        let connection = Some(Connection { end, paused: false, stalled: false });
        let free = self.slots.iter().position(|slot| slot.connection.is_none());
        let index = free.unwrap_or(self.slots.len());
        match free {
            Some(free) => {
                let generation = self.slots[free].generation + 1;
                self.slots[free] = Slot { generation, connection };
            }
            None => self.slots.push(Slot { generation: 0, connection }),
        }
        ConnectionId {
            index: u32::try_from(index).expect("few slots"),
            generation: self.slots[index].generation,
        }
    }

    fn forget(&mut self, id: ConnectionId) -> bool {
        slot_mut(&mut self.slots, id).is_some_and(|slot| slot.close())
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.connection.as_ref()
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        find_mut(&mut self.slots, id)
    }

    fn session(&mut self, id: ConnectionId) -> Option<&mut Session> {
        match &mut self.connection_mut(id)?.end {
            End::Client(_) => None,
            End::Control(session) | End::Backend(session) => Some(session),
        }
    }
}

impl Slot {
    fn close(&mut self) -> bool {
        self.connection.take().is_some()
    }
}

impl End {
    /// The engine sent something.
    fn receive(&mut self, bytes: &[u8]) {
        match self {
            Self::Client(client) => client.receive(bytes),
            Self::Control(session) | Self::Backend(session) => session.receive(bytes),
        }
    }
}

impl Client {
    /// No byte of an answer to somebody else may come here.
    fn receive(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let own = mark(self.number);
        let length = own.len();
        for piece in self.tail.windows(length) {
            let is_mark = piece.starts_with(MARK) && piece.ends_with(MARK);
            let found = String::from_utf8_lossy(piece);
            assert!(!is_mark || found == own, "client {own} got what is for {found}");
        }
        self.tail.drain(..self.tail.len().saturating_sub(length - 1));
    }
}

fn slot_mut(slots: &mut [Slot], id: ConnectionId) -> Option<&mut Slot> {
    slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)
}

fn find_mut(slots: &mut [Slot], id: ConnectionId) -> Option<&mut Connection> {
    slot_mut(slots, id)?.connection.as_mut()
}

fn mark(number: u32) -> String {
    let sign = std::str::from_utf8(MARK).expect("two tildes");
    format!("{sign}{number:04}{sign}")
}
