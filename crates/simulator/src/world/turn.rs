//! The driver's side of a run: one turn as the seam's documentation has it, and what must hold after it.

use engine::ThreadHandling;
use seam::{ConnectionId, Input, Instant, ListenerId, Output, Peer};

use super::driver::{Life, News};
use super::{World, name};
use crate::faults::place_of;
use crate::network::{Event, Owner};
use crate::schedule::Happening;
use crate::server::Link;
use crate::subject::{Origin, Subject};
use crate::token::Token;
use crate::trace::Shown;

/// ECONNREFUSED.
const REFUSED: i32 = 111;

/// Turns without a tick of the clock, an input or an output that count as spinning.
const IDLE_TURNS: u32 = 50;

/// In microseconds: longer than most statements take here, and much shorter than any client's patience.
const LONGEST_TASK: u64 = 3_000;

/// Outputs in one turn that count as never ending.
const OUTPUTS_PER_TURN: u32 = 100_000;

impl<P: Subject> World<P> {
    /// One turn of a driver: what happened, the end of the turn, all outputs.
    pub(super) fn run_turn(&mut self, program: usize) {
        if self.drivers[program].life != Life::Runs {
            return;
        }
        self.turn += 1;
        let now = Instant::from_micros(self.now);
        self.freezing.between_turns(now, &mut self.drivers[program].program);
        let mut busy = self.tell_news(now, program);
        for link in self.network.ready_links(program) {
            for (connection, owner, event) in self.network.take_events(link) {
                busy = true;
                self.tell(now, program, link, (connection, owner), &event);
            }
        }
        self.drivers[program].program.handle(now, Input::TurnEnd);
        busy |= self.poll_outputs(program);
        self.hand_out_tasks(program);
        for event in self.drivers[program].program.events() {
            match self.onramps {
                None => self.note(format_args!("event: {event}")),
                Some(_) => self.note(format_args!("event of Onramp {program}: {event}")),
            }
        }
        self.check_killed(program);
        self.check_sent(program);
        self.check_limits(program);
        self.plan_next_turn(program, busy);
    }

    fn tell_news(&mut self, now: Instant, program: usize) -> bool {
        let news = std::mem::take(&mut self.drivers[program].news);
        let busy = !news.is_empty();
        for item in news {
            match item {
                News::Accepted(connection, client) => {
                    self.note(format_args!("accepted {connection:?} of client {client}"));
                    let host = u8::try_from(client % 250).unwrap_or(0) + 1;
                    let peer = Peer::Tcp(([10, 1, 0, host], 40_000).into());
                    self.drivers[program]
                        .program
                        .handle(now, Input::Accepted { connection, listener: ListenerId(0), peer });
                }
                News::Connected(token, connection) => {
                    self.note(format_args!("connected {connection:?} for token {token}"));
                    self.drivers[program].program.handle(now, Input::Connected { token, connection });
                }
                News::ConnectFailed(token) => {
                    self.note(format_args!("connect failed for token {token}"));
                    self.drivers[program].program.handle(now, Input::ConnectFailed { token, errno: REFUSED });
                }
                News::Found(worker, number, finding) => {
                    self.note(format_args!("task {number} of worker {worker} is done"));
                    self.drivers[program].program.found(worker, number, finding);
                }
                News::Signal(signal) => self.drivers[program].program.handle(now, Input::Signal(signal)),
            }
        }
        busy
    }

    /// Other threads take as long for what they are given as they like.
    fn hand_out_tasks(&mut self, program: usize) {
        for (worker, task) in self.drivers[program].program.tasks() {
            self.last_task += 1;
            let delay = self.random.below(LONGEST_TASK);
            self.schedule.at(self.now + delay, Happening::TaskDone(self.last_task));
            self.tasks.insert(self.last_task, (program, worker, task));
        }
    }

    fn tell(
        &mut self,
        now: Instant,
        program: usize,
        link: Link,
        (connection, owner): (ConnectionId, Owner),
        event: &Event,
    ) {
        let name = name(&self.link_keys, link, Some(owner));
        match event {
            Event::Bytes(bytes) => {
                self.note(format_args!("{name} -> {}", Shown(bytes)));
                self.note_heard(link);
                self.drivers[program].program.handle(now, Input::Bytes { connection, bytes });
            }
            Event::Stalled => {
                self.note(format_args!("{name} stalled"));
                self.drivers[program].program.handle(now, Input::Stalled { connection });
            }
            Event::Drained => {
                self.note(format_args!("{name} drained"));
                self.drivers[program].program.handle(now, Input::Drained { connection });
            }
            Event::Closed(reason) => {
                self.note(format_args!("{name} closed: {reason:?}"));
                if let Some(key) = self.link_keys.get(&link) {
                    self.checkers.told_of_end(*key, self.turn);
                }
                self.drivers[program].program.handle(now, Input::Closed { connection, reason: *reason });
            }
        }
    }

    fn poll_outputs(&mut self, program: usize) -> bool {
        for count in 0..OUTPUTS_PER_TURN {
            // The output borrows the program, so what it asks for is carried out on the other fields.
            let Some(output) = self.drivers[program].program.poll_output() else { return count > 0 };
            if let Some((connection, bytes)) = output.sent() {
                if let Some(link) = self.network.link_of(connection) {
                    let name = name(&self.link_keys, link, self.network.owner(link));
                    self.trace.line(self.now, format_args!("{name} <- {}", Shown(bytes)));
                    if let Some(kills) = self.checkers.kills() {
                        self.overheard.sent(kills, &self.link_keys, (program, link, bytes), self.now);
                    }
                    self.network.program_sends(self.now, &mut self.schedule, self.turn, link, bytes);
                    if self.cluster.is_some()
                        && let Some(way) = self.ways.get(&link)
                    {
                        let tokens = Token::find_all(bytes);
                        self.checkers.sent_to_server(&tokens);
                        self.sent.extend(tokens.into_iter().map(|token| (*way, token)));
                    }
                }
                continue;
            }
            match output {
                Output::Send { .. } | Output::SendWhole { .. } => unreachable!("sent above"),
                Output::Connect { token, address } => {
                    let delay = 1 + self.random.below(self.parameters.conditions.delay + 100);
                    self.trace.line(self.now, format_args!("program connects to {address}, token {token}"));
                    let server = self.cluster.as_ref().and_then(|_| place_of(&address)).unwrap_or(0);
                    let origin = self.drivers[program].program.origin(token);
                    let origin = Origin { program, ..origin };
                    let happening = Happening::ConnectDone { token, server, origin };
                    self.schedule.at(self.now + delay, happening);
                    self.checkers.connects();
                    *self.overheard.connects.entry(program).or_default() += 1;
                }
                Output::Close { connection } => self.program_closes(connection),
                Output::Abort { connection } => self.program_aborts(connection),
                Output::PauseReading { connection } => {
                    if let Some(link) = self.network.link_of(connection) {
                        self.network.set_paused(link, true);
                    }
                }
                Output::ResumeReading { connection } => {
                    if let Some(link) = self.network.link_of(connection) {
                        self.network.set_paused(link, false);
                    }
                }
                Output::StartTls { .. } | Output::StartCompression { .. } | Output::Unread { .. } => {
                    unreachable!("neither TLS nor compression here")
                }
                Output::StopListening => self.drivers[program].listening = false,
                Output::Finished => self.drivers[program].finished = true,
            }
        }
        self.checkers.violation(format!("more than {OUTPUTS_PER_TURN} outputs in turn {}", self.turn));
        true
    }

    fn program_closes(&mut self, connection: ConnectionId) {
        let Some(link) = self.network.link_of(connection) else { return };
        let name = name(&self.link_keys, link, self.network.owner(link));
        self.note(format_args!("program closes {name}"));
        self.note_left(link);
        self.left_in_turn.push(link);
        self.network.program_closes(self.now, &mut self.schedule, link);
    }

    fn program_aborts(&mut self, connection: ConnectionId) {
        let Some(link) = self.network.link_of(connection) else { return };
        let name = name(&self.link_keys, link, self.network.owner(link));
        self.note(format_args!("program aborts {name}"));
        self.note_left(link);
        self.network.program_aborts(self.now, &mut self.schedule, link);
    }

    /// The next turn comes when there is news, or when the program asked for it; a driver may be a little late.
    fn plan_next_turn(&mut self, program: usize, busy: bool) {
        if self.network.has_news(program) || !self.drivers[program].news.is_empty() {
            let delay = self.random.below(30);
            self.wake_program(program, delay);
        }
        let Some(timeout) = self.drivers[program].program.next_timeout() else { return };
        let timeout = timeout.as_micros();
        let driver = &mut self.drivers[program];
        if timeout <= self.now && !busy {
            driver.idle_turns += 1;
            if driver.idle_turns > IDLE_TURNS {
                let text = format!("the program spins: its timeout {timeout} us stays in the past");
                self.checkers.violation(text);
            }
        } else {
            driver.idle_turns = 0;
        }
        let late = self.random.below(300);
        self.plan_turn(program, timeout.max(self.now).saturating_add(late));
    }

    fn plan_turn(&mut self, program: usize, at: u64) {
        let next = &mut self.drivers[program].next_turn;
        if next.is_none_or(|planned| at < planned) {
            *next = Some(at);
            self.schedule.at(at, Happening::Turn(program));
        }
    }

    pub(super) fn wake_program(&mut self, program: usize, delay: u64) {
        self.plan_turn(program, self.now + delay);
    }

    /// Wakes the program that has this connection.
    pub(super) fn wake_program_of(&mut self, link: Link, delay: u64) {
        if let Some(program) = self.network.program_of(link) {
            self.wake_program(program, delay);
        }
    }

    pub(super) fn wake_for_news(&mut self, link: Link) {
        let program = self.network.program_of(link).unwrap_or(0);
        if self.network.has_news(program) {
            self.wake_program(program, 0);
        }
    }

    fn check_limits(&mut self, program: usize) {
        if !self.drivers[program].program.keeps_limits() {
            return;
        }
        // Each worker has a connection of the service account on top, and the one that replaces it; so do connections for
        // KILLs, which are needed most when all others are held.
        let backends = self.network.open_backends(program);
        let kills = if self.parameters.habits.kills { self.parameters.clients } else { 0 };
        let checks = self.cluster.as_ref().map_or(0, |cluster| 2 * u32::from(cluster.drawn.servers));
        let own = self.parameters.max_backends + 2 * self.parameters.workers;
        // Each server that is read from has as many once more.
        let split = self.cluster.as_ref().filter(|cluster| cluster.drawn.splits_reads());
        let of_readers = split.map_or(0, |cluster| u32::from(cluster.drawn.servers) * own);
        let limit = (own + of_readers + kills + checks) as usize;
        let pooled = self.parameters.thread_handling == ThreadHandling::PoolOfThreads;
        if pooled && backends > limit {
            self.checkers
                .violation(format!("{backends} connections to the server, max_backends allows {limit}"));
        }
        let stalled: Vec<Link> = self.client_links.values().copied().collect();
        for link in stalled {
            // What was read before the program could pause its backend, and answers of its own.
            let bound = 2 * self.parameters.conditions.receive_buffer + (64 << 10);
            let sent = self.network.sent_while_stalled(link);
            if sent > bound {
                self.checkers.violation(format!("{sent} bytes were sent to a client that reads nothing"));
            }
        }
    }
}
