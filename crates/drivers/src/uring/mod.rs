//! The io_uring driver: direct descriptors, several rings, one thread.
//!
//! A connection's socket lives in the table of a ring and costs no file descriptor; a table may have as many places as
//! the process may have open files, so there are as many rings as the connections need. The thread waits in the first
//! ring; the others say through an eventfd, read by the first, that they have something.
//!
//! Each connection has a request to receive that lasts: every arrival takes a buffer from the ring's, is given to the
//! program, and frees the buffer at once, so that a few hundred buffers serve all. What a connection sends in a turn is one
//! request, and all requests of a turn are one call for each ring, the first's the one that waits for more. A send that is
//! done at once, as nearly all are, has no completion: the wait would end with it.

mod accept;
mod buffers;
mod close;
mod connect;
mod connection;
mod hang_up;
mod outbox;
mod probe;
mod receive;
mod requests;
mod ring;
mod send;
mod silent;
mod socket_address;
mod token;
mod waiting;

use std::cell::UnsafeCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use seam::{ConnectionId, Input, Instant, Output, Program, Signal};

use crate::clock::Clock;
use crate::close_times::CloseDeadlines;
use crate::outputs::carry_out;
use crate::signaller::Mailbox;
use crate::slots::Slots;
use crate::{Counters, Settings, Signaller};
use accept::Listener;
use connect::PortRange;
use connection::Connection;
use outbox::OutboxPool;
pub(crate) use probe::{Capabilities, probe, reason};
use receive::Deferred;
use ring::{Completion, Ring, RingSizes};
use token::{Request, Token};
use waiting::Wake;

/// Runs a [`Program`] on io_uring.
///
/// Call [`UringDriver::attach`] as often as there are listeners, [`UringDriver::signaller`] for each part that may end it, then
/// [`UringDriver::run`], once. It may be made on one thread and run on another. The order within a turn: the results of the
/// outputs of the turn before, signals, the rest of the turn before, completions in the order of their rings, failures, the
/// turn's end, outputs.
pub struct UringDriver {
    // The rings come first: they are closed before the memory goes that their requests point to.
    rings: Vec<Ring>,
    sizes: RingSizes,
    capabilities: Capabilities,
    settings: Settings,
    clock: Clock,
    /// The time of the turn: read after each wait and after every [`COMPLETIONS_PER_CLOCK_READ`] completions.
    now: Instant,
    /// Counts turns, to know what a connection has been given in this one. Wraps.
    turn: u32,
    /// The program has been told something that its turn has not ended on yet.
    told: bool,
    completions: Vec<Completion>,
    deferred: VecDeque<Deferred>,
    connections: Slots<Connection>,
    /// Connections whose requests have to be brought in line with the program's wishes.
    listed: Vec<ConnectionId>,
    /// The place is the [`seam::ListenerId`].
    listeners: Vec<Listener>,
    notices: VecDeque<Notice>,
    /// Connections with more unsent bytes than the high-water mark, as far as was known when they were added.
    crowded: Vec<ConnectionId>,
    /// Connections in [`connection::Phase::Failed`].
    failed: Vec<ConnectionId>,
    close_deadlines: CloseDeadlines,
    outboxes: OutboxPool,
    /// Written to by the kernel, read by nobody.
    discarded: Box<[u8]>,
    /// Written to by the kernel while it is asked for the errors of sockets.
    socket_errors: BTreeMap<ConnectionId, Box<UnsafeCell<libc::c_int>>>,
    mailbox: Mailbox,
    /// The request to be told of signals is under way.
    mailbox_armed: bool,
    wake: Option<Wake>,
    ports: PortRange,
    /// Rings that have been enabled.
    enabled: usize,
    counters: Counters,
}

impl UringDriver {
    /// A driver without listeners or connections. Its clock starts here.
    ///
    /// # Errors
    /// `InvalidInput` for [`Settings`] out of range, else what the system says when asked for two descriptors and the
    /// memory of a ring.
    pub fn new(settings: Settings) -> io::Result<Self> {
        settings.check()?;
        let clock = Clock::new();
        let sizes = waiting::ring_sizes(&settings);
        let first = Ring::new(&sizes)?;
        Ok(Self {
            capabilities: Capabilities::of(&first)?,
            rings: vec![first],
            sizes,
            clock,
            now: clock.now(),
            turn: 0,
            told: false,
            completions: Vec::with_capacity(settings.events_per_turn),
            deferred: VecDeque::new(),
            connections: Slots::new(),
            listed: Vec::new(),
            listeners: Vec::new(),
            notices: VecDeque::new(),
            crowded: Vec::new(),
            failed: Vec::new(),
            close_deadlines: CloseDeadlines::default(),
            outboxes: OutboxPool::default(),
            discarded: vec![0; DISCARD_BYTES].into_boxed_slice(),
            socket_errors: BTreeMap::new(),
            mailbox: Mailbox::new()?,
            mailbox_armed: false,
            wake: None,
            ports: PortRange::of_this_system(),
            enabled: 0,
            settings,
            counters: Counters::default(),
        })
    }

    /// See [`crate::Driver::signaller`].
    ///
    /// # Errors
    /// None at present.
    pub fn signaller(&self) -> io::Result<Signaller> {
        Ok(self.mailbox.signaller())
    }

    /// See [`crate::Driver::run`].
    ///
    /// # Errors
    /// Where waiting itself fails, which is a bug or a kernel without memory; or where another thread has run the driver
    /// before. Trouble with a connection is the program's to hear.
    pub fn run<P: Program>(&mut self, program: &mut P) -> io::Result<()> {
        self.enable_rings()?;
        // Over already: the first turn does not wait.
        let mut deadline = Some(Instant::START);
        loop {
            self.prepare();
            // Afterwards, because arming accepts may pause a listener.
            let timeout = self.timeout(deadline);
            self.wait(timeout)?;
            self.hear(program);
            // Completions that are of no interest to the program, of cancellations and the like, are no turn of its own.
            if self.told || deadline.is_some_and(|deadline| deadline <= self.now) {
                self.told = false;
                self.counters.turns += 1;
                program.handle(self.now, Input::TurnEnd);
                if self.carry_out(program) {
                    return self.wind_down();
                }
                deadline = program.next_timeout();
            }
            self.resume_listeners();
        }
    }

    /// Returns the counts of its work so far. Looks at every connection.
    pub fn counters(&self) -> Counters {
        let (mut sending, mut held) = (self.outboxes.allocated(), 0);
        for (to_send, received) in self.connections.iter().map(Connection::allocated) {
            sending += to_send;
            held += received;
        }
        let buffers = self.rings.iter().map(|ring| ring.buffers.allocated());
        let (buffer_bytes, entry_bytes) = buffers.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let queues: usize = self.rings.iter().map(Ring::queue_bytes).sum();
        Counters {
            send_buffer_bytes: sending as u64,
            receive_buffer_bytes: (buffer_bytes + self.discarded.len() + held) as u64,
            connection_table_bytes: self.table_bytes() as u64,
            ring_bytes: (queues + entry_bytes + self.completions.capacity() * size_of::<Completion>()) as u64,
            ..self.totals()
        }
    }

    /// The counters but for the bytes of memory, for which all connections have to be looked at.
    fn totals(&self) -> Counters {
        let total = |of: fn(&Ring) -> u64| self.rings.iter().map(of).sum();
        Counters {
            submissions: total(|ring| ring.enters),
            submission_entries: total(|ring| ring.requests),
            completions: total(|ring| ring.taken),
            rings: self.rings.len() as u64,
            open_connections: self.connections.len() as u64,
            ..self.counters
        }
    }

    /// Bytes of what has a place for each connection.
    fn table_bytes(&self) -> usize {
        self.connections.allocated()
            + self.rings.iter().map(|ring| ring.files.allocated()).sum::<usize>()
            + self.listed.capacity() * size_of::<ConnectionId>()
            + (self.crowded.capacity() + self.failed.capacity()) * size_of::<ConnectionId>()
            + self.notices.capacity() * size_of::<Notice>()
            + self.deferred.capacity() * size_of::<Deferred>()
            + self.close_deadlines.allocated()
            + self.rings.iter().map(|ring| ring.silent.allocated()).sum::<usize>()
            + self.listeners.iter().map(Listener::allocated).sum::<usize>()
    }

    /// Tells the program all that happened, but for the turn's end.
    fn hear<P: Program>(&mut self, program: &mut P) {
        self.turn = self.turn.wrapping_add(1);
        let failed = std::mem::take(&mut self.failed);
        let crowded = std::mem::take(&mut self.crowded);
        self.deliver_notices(program);
        let completions = std::mem::take(&mut self.completions);
        if completions.iter().any(|completion| Token::from(completion.token) == Token::Mailbox) {
            for signal in self.mailbox.take_and_report(|| self.counters(), || self.totals()) {
                self.tell(program, Input::Signal(signal));
            }
        }
        self.deliver_deferred(program);
        for (handled, completion) in completions.iter().enumerate() {
            if handled % COMPLETIONS_PER_CLOCK_READ == COMPLETIONS_PER_CLOCK_READ - 1 {
                self.now = self.clock.now();
            }
            self.complete(completion, program);
        }
        self.completions = completions;
        self.settle_silent(program);
        for id in failed {
            self.report_failure(id, program);
        }
        for id in crowded {
            self.report_stall(id, program);
        }
        self.give_up_closing();
    }

    fn complete<P: Program>(&mut self, completion: &Completion, program: &mut P) {
        let (request, id) = match Token::from(completion.token) {
            Token::Connection(request, id) => (request, id),
            Token::Accept(listener, place) => return self.accepted(listener, place, completion, program),
            Token::Mailbox => {
                self.mailbox_armed = completion.more();
                return;
            }
            Token::Rings => return self.rings_announced(),
            Token::Nobody => return,
        };
        match request {
            Request::Receive => self.received(id, completion, program),
            Request::Send => self.sent(id, completion.outcome(), program),
            Request::Connect => self.connected(id, completion.outcome(), program),
            Request::Identify => self.identified(id, completion.outcome(), program),
            Request::HangUp => self.hung_up(id, completion.outcome()),
            Request::SocketError => self.told_error(id, completion.outcome(), program),
            Request::Peek => self.peeked(id, completion.outcome(), program),
            Request::Discard => self.discarded(id, completion.outcome()),
            Request::ShutDown | Request::Close => self.other_request_ended(id),
        }
    }

    /// Takes the program's outputs until there are none. True where it has finished.
    fn carry_out<P: Program>(&mut self, program: &mut P) -> bool {
        carry_out!(self, program)
    }

    /// Tells the program what its own outputs of the last turn led to. It could not be told at once: it was being asked.
    fn deliver_notices<P: Program>(&mut self, program: &mut P) {
        // Those that are there now: what is left over of one is for the next turn.
        for _ in 0..self.notices.len() {
            let Some(notice) = self.notices.pop_front() else { return };
            match notice {
                Notice::Connected { token, connection } => {
                    self.tell(program, Input::Connected { token, connection });
                }
                Notice::ConnectFailed { token, errno } => {
                    self.tell(program, Input::ConnectFailed { token, errno });
                }
                Notice::Resumed { connection } => self.give_held(connection, program),
            }
        }
    }

    fn tell<P: Program>(&mut self, program: &mut P, input: Input<'_>) {
        self.told = true;
        program.handle(self.now, input);
    }

    /// How long the next turn may wait.
    fn timeout(&mut self, next_timeout: Option<Instant>) -> Option<Duration> {
        let at_once = !self.notices.is_empty()
            || !self.deferred.is_empty()
            || !self.failed.is_empty()
            || !self.crowded.is_empty();
        if at_once {
            return Some(Duration::ZERO);
        }
        let paused_listeners = self.listeners.iter().filter_map(Listener::paused_until).min();
        let deadline =
            [next_timeout, self.next_close_deadline(), paused_listeners].into_iter().flatten().min()?;
        // Not the turn's time: carrying out the outputs took some.
        Some(deadline.since(self.clock.now()))
    }

    /// Has a connection looked at before the kernel is asked again.
    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            if !std::mem::replace(&mut connection.listed, true) {
                self.listed.push(id);
            }
        }
    }
}

/// The result of an output, to be said in the next turn.
#[derive(Debug)]
enum Notice {
    Connected {
        token: u64,
        connection: ConnectionId,
    },
    ConnectFailed {
        token: u64,
        errno: i32,
    },
    /// There is something held for it.
    Resumed {
        connection: ConnectionId,
    },
}

/// A program that is gone: what there is to be told is for nobody.
struct Nobody {
    /// A signal came.
    signalled: bool,
}

impl Program for Nobody {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        self.signalled |= matches!(input, Input::Signal(Signal::Drain | Signal::Stop));
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

/// 64 completions with what the program does about each take some 100 microseconds, so the time that it sees is hardly
/// older than that; reading the clock for each would tell it nothing.
const COMPLETIONS_PER_CLOCK_READ: usize = 64;

/// The bytes that one request throws away of a peer that is heard out: as much as a socket's receive buffer holds at first.
const DISCARD_BYTES: usize = 64 << 10;
