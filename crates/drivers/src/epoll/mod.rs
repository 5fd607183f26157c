//! The epoll driver: level-triggered, one thread, one receive buffer.
//!
//! Level-triggered, because then nothing has to be remembered between turns: a socket that is not read empty comes
//! back by itself, behind the others, which is also what keeps a busy connection from starving them.

mod accept;
mod close;
mod connect;
mod connection;
mod receive;
mod send;
mod token;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};
use rustix::io::Errno;
use seam::{ConnectionId, Input, Instant, Output, Program};

use crate::clock::Clock;
use crate::close_times::CloseDeadlines;
use crate::outputs::carry_out;
use crate::signaller::Mailbox;
use crate::slots::Slots;
use crate::{Counters, Settings, Signaller};
use accept::Listener;
use connection::{Connection, Phase};
use token::Token;

/// Runs a [`Program`] on epoll.
///
/// Call [`EpollDriver::attach`] as often as there are listeners, [`EpollDriver::signaller`] for each part that may end it, then
/// [`EpollDriver::run`], once. The order within a turn: the results of the outputs of the turn before, signals, connections as
/// epoll names them, new peers, the turn's end, outputs.
pub struct EpollDriver {
    settings: Settings,
    clock: Clock,
    /// The time of the turn: read after each wait and after every [`EVENTS_PER_CLOCK_READ`] events.
    now: Instant,
    epoll: OwnedFd,
    events: Vec<Event>,
    receive_buffer: Box<[u8]>,
    connections: Slots<Connection>,
    /// The place is the [`seam::ListenerId`].
    listeners: Vec<Listener>,
    notices: VecDeque<Notice>,
    close_deadlines: CloseDeadlines,
    mailbox: Mailbox,
    counters: Counters,
}

impl EpollDriver {
    /// A driver without listeners or connections. Its clock starts here.
    ///
    /// # Errors
    /// `InvalidInput` for [`Settings`] out of range, else what the system says when asked for two descriptors.
    pub fn new(settings: Settings) -> io::Result<Self> {
        settings.check()?;
        let clock = Clock::new();
        let mailbox = Mailbox::new()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, mailbox.wake(), Token::Signal.into(), EventFlags::IN)?;
        Ok(Self {
            clock,
            now: clock.now(),
            epoll,
            events: Vec::with_capacity(settings.events_per_turn),
            receive_buffer: vec![0; settings.receive_buffer].into_boxed_slice(),
            settings,
            connections: Slots::new(),
            listeners: Vec::new(),
            notices: VecDeque::new(),
            close_deadlines: CloseDeadlines::default(),
            mailbox,
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
    /// Where waiting itself fails, which is a bug or a kernel without memory. Trouble with a connection is the
    /// program's to hear.
    pub fn run<P: Program>(&mut self, program: &mut P) -> io::Result<()> {
        let mut timeout = Some(Duration::ZERO);
        loop {
            self.wait(timeout)?;
            self.turn(program);
            if self.carry_out(program) {
                return self.wind_down();
            }
            self.resume_listeners();
            timeout = self.timeout(program.next_timeout());
        }
    }

    /// Returns the counts of its work so far. Looks at every connection.
    pub fn counters(&self) -> Counters {
        let unsent = self.connections.iter().filter_map(|connection| connection.unsent.as_ref());
        let notices = self.notices.capacity() * size_of::<Notice>();
        let closes = self.close_deadlines.allocated();
        Counters {
            send_buffer_bytes: unsent.map(|unsent| unsent.allocated() as u64).sum(),
            receive_buffer_bytes: self.receive_buffer.len() as u64,
            connection_table_bytes: (self.connections.allocated() + notices + closes) as u64,
            ring_bytes: (self.events.capacity() * size_of::<Event>()) as u64,
            ..self.totals()
        }
    }

    /// The counters but for the bytes of memory, for which all connections have to be looked at.
    fn totals(&self) -> Counters {
        Counters { open_connections: self.connections.len() as u64, ..self.counters }
    }

    /// Fills `events`, waiting for the first no longer than `timeout`, or forever.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        let timeout = timeout.map(whole_milliseconds);
        self.counters.epoll_waits += 1;
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.now = self.clock.now();
        Ok(())
    }

    /// Tells the program all that happened, up to the turn's end.
    fn turn<P: Program>(&mut self, program: &mut P) {
        self.counters.turns += 1;
        self.deliver_notices(program);
        let events = std::mem::take(&mut self.events);
        if events.iter().any(|event| Token::from(event.data) == Token::Signal) {
            for signal in self.mailbox.take_and_report(|| self.counters(), || self.totals()) {
                program.handle(self.now, Input::Signal(signal));
            }
        }
        for (handled, event) in events.iter().enumerate() {
            if handled % EVENTS_PER_CLOCK_READ == EVENTS_PER_CLOCK_READ - 1 {
                self.now = self.clock.now();
            }
            if let Token::Connection(id) = Token::from(event.data) {
                self.connection_ready(id, event.flags, program);
            }
        }
        for event in &events {
            if let Token::Listener(listener) = Token::from(event.data) {
                self.accept(listener, program);
            }
        }
        self.events = events;
        self.give_up_closing();
        program.handle(self.now, Input::TurnEnd);
    }

    fn connection_ready<P: Program>(&mut self, id: ConnectionId, ready: EventFlags, program: &mut P) {
        let Some(connection) = self.connections.get(id) else { return };
        match connection.phase {
            Phase::Connecting { token } => self.finish_connecting(id, token, program),
            // Reading comes first: a server says why it closes before it does, and sending fails after that.
            Phase::Reading => {
                if ready.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(id, program);
                }
                if ready.contains(EventFlags::OUT) {
                    self.flush(id, program);
                }
            }
            Phase::Paused | Phase::Parked => {
                if ready.contains(EventFlags::OUT) {
                    self.flush(id, program);
                }
                if ready.intersects(EventFlags::HUP | EventFlags::ERR) {
                    self.hang_up_while_paused(id, ready, program);
                }
            }
            Phase::Failed { .. } => {}
            Phase::Flushing(_) | Phase::Discarding { .. } => self.closing_ready(id, ready),
        }
    }

    /// Takes the program's outputs until there are none. True where it has finished.
    fn carry_out<P: Program>(&mut self, program: &mut P) -> bool {
        carry_out!(self, program)
    }

    /// Tells the program what its own outputs of the last turn led to. It could not be told at once: it was being asked.
    fn deliver_notices<P: Program>(&mut self, program: &mut P) {
        while let Some(notice) = self.notices.pop_front() {
            match notice {
                Notice::Connected { token, connection } => {
                    program.handle(self.now, Input::Connected { token, connection });
                }
                Notice::ConnectFailed { token, errno } => {
                    let errno = errno.raw_os_error();
                    program.handle(self.now, Input::ConnectFailed { token, errno });
                }
                Notice::Stalled { connection } => {
                    if self.connections.get(connection).is_some_and(Connection::is_open) {
                        program.handle(self.now, Input::Stalled { connection });
                    }
                }
                Notice::Failed { connection } => self.report_failure(connection, program),
            }
        }
    }

    /// How long the next turn may wait.
    fn timeout(&mut self, next_timeout: Option<Instant>) -> Option<Duration> {
        if !self.notices.is_empty() {
            return Some(Duration::ZERO);
        }
        let paused_listeners = self.listeners.iter().filter_map(Listener::paused_until).min();
        let deadline =
            [next_timeout, self.next_close_deadline(), paused_listeners].into_iter().flatten().min()?;
        // Not the turn's time: carrying out the outputs took some.
        Some(deadline.since(self.clock.now()))
    }

    /// Sets what epoll watches on a connection to what its phase wants. A failure fails the connection.
    fn watch(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Err(errno) = connection.watch(&self.epoll, id) {
            self.fail(id, errno);
        }
    }
}

/// The result of an output, to be said in the next turn.
#[derive(Debug)]
enum Notice {
    Connected { token: u64, connection: ConnectionId },
    ConnectFailed { token: u64, errno: Errno },
    Stalled { connection: ConnectionId },
    Failed { connection: ConnectionId },
}

/// 64 events with a `recv` each take some 100 microseconds, so the time that a program sees is hardly older than that;
/// reading the clock for each would cost about 3 % of a `recv` and tell it nothing.
const EVENTS_PER_CLOCK_READ: usize = 64;

/// `epoll_wait` counts in milliseconds and rounding down would wake before the deadline, again and again. Finer waiting
/// needs `epoll_pwait2`, which Linux before 5.11 and the system-call filters of older containers do not have.
fn whole_milliseconds(timeout: Duration) -> Timespec {
    // The longest that `epoll_wait` takes, 24 days.
    const LONGEST: u128 = i32::MAX as u128;
    let milliseconds = timeout.as_micros().div_ceil(1000).min(LONGEST) as i64;
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_and_bounded() {
        let parts = |timeout| {
            let timespec = whole_milliseconds(timeout);
            (timespec.tv_sec, timespec.tv_nsec)
        };
        assert_eq!(parts(Duration::ZERO), (0, 0));
        assert_eq!(parts(Duration::from_micros(1)), (0, 1_000_000));
        assert_eq!(parts(Duration::from_micros(1_999_001)), (2, 0));
        assert_eq!(parts(Duration::MAX), (2_147_483, 647_000_000));
    }
}
