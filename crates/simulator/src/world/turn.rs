//! The driver's side of a run: one turn as the seam's documentation has it, and what must hold after it.

use engine::ThreadHandling;
use seam::{ConnectionId, Input, Instant, ListenerId, Output, Peer};

use super::{News, World, name};
use crate::faults::place_of;
use crate::network::{Event, Owner};
use crate::schedule::Happening;
use crate::server::Link;
use crate::subject::Subject;
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
    /// One turn of the driver: what happened, the end of the turn, all outputs.
    pub(super) fn run_turn(&mut self) {
        self.turn += 1;
        let now = Instant::from_micros(self.now);
        let mut busy = self.tell_news(now);
        for link in self.network.ready_links() {
            for (connection, owner, event) in self.network.take_events(link) {
                busy = true;
                self.tell(now, link, connection, owner, &event);
            }
        }
        self.program.handle(now, Input::TurnEnd);
        busy |= self.poll_outputs();
        self.hand_out_tasks();
        for event in self.program.events() {
            self.note(format_args!("event: {event}"));
        }
        self.check_sent();
        self.check_limits();
        self.plan_next_turn(busy);
    }

    fn tell_news(&mut self, now: Instant) -> bool {
        let news = std::mem::take(&mut self.news);
        let busy = !news.is_empty();
        for item in news {
            match item {
                News::Accepted(connection, client) => {
                    self.note(format_args!("accepted {connection:?} of client {client}"));
                    let host = u8::try_from(client % 250).unwrap_or(0) + 1;
                    let peer = Peer::Tcp(([10, 1, 0, host], 40_000).into());
                    self.program.handle(now, Input::Accepted { connection, listener: ListenerId(0), peer });
                }
                News::Connected(token, connection) => {
                    self.note(format_args!("connected {connection:?} for token {token}"));
                    self.program.handle(now, Input::Connected { token, connection });
                }
                News::ConnectFailed(token) => {
                    self.note(format_args!("connect failed for token {token}"));
                    self.program.handle(now, Input::ConnectFailed { token, errno: REFUSED });
                }
                News::Found(worker, number, finding) => {
                    self.note(format_args!("task {number} of worker {worker} is done"));
                    self.program.found(worker, number, finding);
                }
                News::Signal(signal) => self.program.handle(now, Input::Signal(signal)),
            }
        }
        busy
    }

    /// Other threads take as long for what they are given as they like.
    fn hand_out_tasks(&mut self) {
        for (worker, task) in self.program.tasks() {
            self.last_task += 1;
            let delay = self.random.below(LONGEST_TASK);
            self.schedule.at(self.now + delay, Happening::TaskDone(self.last_task));
            self.tasks.insert(self.last_task, (worker, task));
        }
    }

    fn tell(&mut self, now: Instant, link: Link, connection: ConnectionId, owner: Owner, event: &Event) {
        let name = name(&self.link_keys, link, Some(owner));
        match event {
            Event::Bytes(bytes) => {
                self.note(format_args!("{name} -> {}", Shown(bytes)));
                self.program.handle(now, Input::Bytes { connection, bytes });
            }
            Event::Stalled => {
                self.note(format_args!("{name} stalled"));
                self.program.handle(now, Input::Stalled { connection });
            }
            Event::Drained => {
                self.note(format_args!("{name} drained"));
                self.program.handle(now, Input::Drained { connection });
            }
            Event::Closed(reason) => {
                self.note(format_args!("{name} closed: {reason:?}"));
                if let Some(key) = self.link_keys.get(&link) {
                    self.checkers.told_of_end(*key, self.turn);
                }
                self.program.handle(now, Input::Closed { connection, reason: *reason });
            }
        }
    }

    fn poll_outputs(&mut self) -> bool {
        for count in 0..OUTPUTS_PER_TURN {
            // The output borrows the program, so what it asks for is carried out on the other fields.
            let Some(output) = self.program.poll_output() else { return count > 0 };
            if let Some((connection, bytes)) = output.sent() {
                if let Some(link) = self.network.link_of(connection) {
                    let name = name(&self.link_keys, link, self.network.owner(link));
                    self.trace.line(self.now, format_args!("{name} <- {}", Shown(bytes)));
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
                    let origin = self.program.origin(token);
                    let happening = Happening::ConnectDone { token, server, origin };
                    self.schedule.at(self.now + delay, happening);
                    self.checkers.connects();
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
                Output::StopListening => self.listening = false,
                Output::Finished => self.finished = true,
            }
        }
        self.checkers.violation(format!("more than {OUTPUTS_PER_TURN} outputs in turn {}", self.turn));
        true
    }

    fn program_closes(&mut self, connection: ConnectionId) {
        let Some(link) = self.network.link_of(connection) else { return };
        let name = name(&self.link_keys, link, self.network.owner(link));
        self.note(format_args!("program closes {name}"));
        self.network.program_closes(self.now, &mut self.schedule, link);
    }

    fn program_aborts(&mut self, connection: ConnectionId) {
        let Some(link) = self.network.link_of(connection) else { return };
        let name = name(&self.link_keys, link, self.network.owner(link));
        self.note(format_args!("program aborts {name}"));
        self.network.program_aborts(self.now, &mut self.schedule, link);
    }

    /// The next turn comes when there is news, or when the program asked for it; a driver may be a little late.
    fn plan_next_turn(&mut self, busy: bool) {
        if self.network.has_news() || !self.news.is_empty() {
            let delay = self.random.below(30);
            self.wake_program(delay);
        }
        let Some(timeout) = self.program.next_timeout() else { return };
        let timeout = timeout.as_micros();
        if timeout <= self.now && !busy {
            self.idle_turns += 1;
            if self.idle_turns > IDLE_TURNS {
                let text = format!("the program spins: its timeout {timeout} us stays in the past");
                self.checkers.violation(text);
            }
        } else {
            self.idle_turns = 0;
        }
        let late = self.random.below(300);
        let at = timeout.max(self.now).saturating_add(late);
        if self.next_turn.is_none_or(|planned| at < planned) {
            self.next_turn = Some(at);
            self.schedule.at(at, Happening::Turn);
        }
    }

    pub(super) fn wake_program(&mut self, delay: u64) {
        let at = self.now + delay;
        if self.next_turn.is_none_or(|planned| at < planned) {
            self.next_turn = Some(at);
            self.schedule.at(at, Happening::Turn);
        }
    }

    pub(super) fn wake_for_news(&mut self) {
        if self.network.has_news() {
            self.wake_program(0);
        }
    }

    fn check_limits(&mut self) {
        if !self.program.keeps_limits() {
            return;
        }
        // Each worker has a connection of the service account on top, and the one that replaces it; so do connections for
        // KILLs, which are needed most when all others are held.
        let backends = self.network.open_backends();
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
