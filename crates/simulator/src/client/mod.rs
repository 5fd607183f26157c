//! A virtual client: logs in, runs a random program, and checks each answer against its oracle.

mod awaited;
mod change;
mod failover;
mod leaving;
pub mod login;
pub mod moments;
pub mod oracle;
pub mod program;
pub mod promise;
pub mod reply;
pub mod versions;

use std::collections::VecDeque;

use self::awaited::{Awaited, INTERRUPTIONS, is_notice};
use self::login::LoginRequest;
use self::oracle::{Expected, Oracle, difference};
use self::program::{Author, Habits, Step};
use self::promise::Promise;
use self::reply::{Part, Progress, ReplyReader};
use crate::accounts::Choices;
use crate::checkers::Checkers;
use crate::protocol::{PacketBuffer, command, native_token, packet};
use crate::random::Random;
use crate::server::session::Session;
use crate::token::{ClientKey, Token};

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection.
    Connect,
    /// Send these bytes.
    Send(Vec<u8>),
    /// Close in an orderly way.
    Close,
    /// Break the connection off.
    Reset,
    /// Read slowly from now on, or no longer.
    ReadSlowly(bool),
    /// Call [`Client::wake`] after this many microseconds.
    WakeAfter(u64),
}

/// Answers that the calm must bring everyone: enough to meet a backend that was left in a wrong state.
const ANSWERS: u32 = 4;

/// One virtual client over all its logins.
#[derive(Debug)]
pub struct Client {
    /// Who it is now.
    pub key: ClientKey,
    habits: Habits,
    choices: Choices,
    random: Random,
    phase: Phase,
    input: PacketBuffer,
    /// The end of what was received, where a token may be cut.
    tail: Vec<u8>,
    actions: Vec<Action>,
    due: u64,
    /// Statements still to send before this login ends.
    left: u32,
    /// No new faults, no slow reading, and a last round of statements.
    calm: bool,
    /// Does not come back.
    leaving: bool,
    /// Statements answered since the calm began.
    answered_in_calm: u32,
}

#[derive(Debug)]
enum Phase {
    Away,
    Connecting,
    LoggingIn(LoginRequest),
    Working(Box<Work>),
    /// Something was sent that no server can answer rightly: only the end is awaited.
    Ruined,
}

/// A login that stands.
#[derive(Debug)]
struct Work {
    oracle: Oracle,
    author: Author,
    awaited: VecDeque<Awaited>,
    capabilities: u32,
    /// This login has, or may have had, something on its server that keeps it there, maybe for longer than it has to.
    has_held: bool,
    /// What its reads are promised where it has said nothing of them, and what it has said.
    promise: Promise,
    wanted: Option<Promise>,
}

impl Client {
    /// A client that has not connected yet.
    pub fn new(client: u32, habits: Habits, choices: Choices, random: Random) -> Self {
        Self {
            key: ClientKey { client, incarnation: 0 },
            habits,
            choices,
            random,
            phase: Phase::Away,
            input: PacketBuffer::default(),
            tail: Vec::new(),
            actions: Vec::new(),
            due: 0,
            left: 0,
            calm: false,
            leaving: false,
            answered_in_calm: 0,
        }
    }

    /// What the client wants done, oldest first.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// From now on behaves well; a few more statements must be answered.
    pub fn calm_down(&mut self) {
        self.calm = true;
        self.habits.slow = false;
        self.habits.kills = false;
        self.habits.hostile = false;
        self.actions.push(Action::ReadSlowly(false));
        self.actions.push(Action::WakeAfter(1));
    }

    /// Ends with the login that stands, if any: the program is being stopped.
    pub fn stay_away(&mut self) {
        self.leaving = true;
    }

    /// Whether the calm has brought this client what it must bring everyone: answers, and none outstanding.
    pub fn is_satisfied(&self) -> bool {
        let waits = matches!(&self.phase, Phase::Working(work) if !work.awaited.is_empty());
        self.is_content() && !waits
    }

    fn is_content(&self) -> bool {
        self.calm && self.answered_in_calm >= ANSWERS
    }

    /// What the client waits for, for people.
    pub fn waits_for(&self) -> String {
        match &self.phase {
            Phase::Away => "its time to connect".to_owned(),
            Phase::Connecting => "a greeting".to_owned(),
            Phase::LoggingIn(_) => "the end of its login".to_owned(),
            Phase::Ruined => "its connection's end".to_owned(),
            Phase::Working(work) => match work.awaited.front() {
                Some(front) => format!("the answer to {} sent at {} us", front.shown(), front.sent_at),
                None => "nothing".to_owned(),
            },
        }
    }

    /// The time asked for with [`Action::WakeAfter`] has come.
    pub fn wake(&mut self, now: u64, checkers: &mut Checkers) {
        if now < self.due {
            return;
        }
        match &self.phase {
            Phase::Away if self.leaving || self.is_content() => {}
            Phase::Away => {
                self.phase = Phase::Connecting;
                self.actions.push(Action::Connect);
            }
            // Whoever has what the calm must bring makes room for the others.
            Phase::Working(work) if self.is_content() => {
                if work.awaited.is_empty() {
                    self.quit(now);
                }
            }
            Phase::Working(_) => self.work(now, checkers),
            Phase::Connecting | Phase::LoggingIn(_) => {
                if !self.calm && self.habits.hostile {
                    self.leave(now); // a login given up half-way
                }
            }
            Phase::Ruined => self.leave(now),
        }
    }

    /// The connection could not be made, or has ended.
    pub fn lost(&mut self, now: u64, checkers: &mut Checkers) {
        let unanswered = match &self.phase {
            Phase::Away | Phase::Ruined => false,
            Phase::Connecting | Phase::LoggingIn(_) | Phase::Working(_) => true,
        };
        if unanswered && !checkers.tolerates_losses() {
            checkers.violation(format!(
                "client {} was closed while it waited for {}",
                self.key,
                self.waits_for()
            ));
        }
        self.go_away(now);
    }

    /// Bytes arrived.
    pub fn receive(&mut self, now: u64, bytes: &[u8], checkers: &mut Checkers) {
        if matches!(self.phase, Phase::Away) {
            return;
        }
        self.check_tokens(bytes, checkers);
        self.input.push(bytes);
        while let Some(packet) = self.input.next_packet() {
            match &mut self.phase {
                Phase::Away | Phase::Ruined => {}
                Phase::Connecting => self.greeting(now, packet.sequence, &packet.payload, checkers),
                Phase::LoggingIn(_) => self.login(now, packet.sequence, &packet.payload, checkers),
                Phase::Working(_) => self.answer(now, packet.sequence, &packet.payload, checkers),
            }
        }
    }

    /// Invariant 1: no byte of another client's answer.
    fn check_tokens(&mut self, bytes: &[u8], checkers: &mut Checkers) {
        /// Longer than any token.
        const LONGEST: usize = 40;
        self.tail.extend_from_slice(bytes);
        for token in Token::find_all(&self.tail) {
            if token.key != self.key {
                checkers.violation(format!("client {} received bytes of {token}", self.key));
            }
        }
        let keep = self.tail.len().min(LONGEST);
        self.tail.drain(..self.tail.len() - keep);
    }

    fn greeting(&mut self, now: u64, sequence: u8, payload: &[u8], checkers: &mut Checkers) {
        if payload.first() == Some(&0xff) {
            self.refused(now, payload, None, checkers);
            return;
        }
        // Most of those that ask for the same log in alike, so that they may be answered together.
        let alike = self.habits.popular && self.random.percent(75);
        let right = alike || self.calm || !self.habits.rare;
        let mut common = Random::new(1);
        let random = if alike { &mut common } else { &mut self.random };
        match LoginRequest::new(now, payload, &self.choices, right, random) {
            Some(request) if sequence == 0 => {
                self.actions.push(Action::Send(packet(1, &request.payload())));
                if let Some(kills) = checkers.kills() {
                    kills.tries(self.key, &request.credentials.user);
                }
                self.phase = Phase::LoggingIn(request);
            }
            _ => {
                checkers.violation(format!("client {} received a malformed greeting", self.key));
                self.leave(now);
            }
        }
    }

    fn login(&mut self, now: u64, sequence: u8, payload: &[u8], checkers: &mut Checkers) {
        let Phase::LoggingIn(request) = &mut self.phase else { return };
        match payload.first() {
            Some(0xfe) => match request.switch(payload) {
                Some(proof) => self.actions.push(Action::Send(packet(sequence.wrapping_add(1), &proof))),
                None => checkers.violation(format!("client {} was asked for an unknown plugin", self.key)),
            },
            Some(0xff) => {
                let request = request.clone();
                self.refused(now, payload, Some(&request), checkers);
            }
            Some(0x00) => {
                let request = request.clone();
                if request.credentials.wrong {
                    checkers.violation(format!("client {} logged in as {:?}", self.key, request.credentials));
                }
                self.begin_work(now, &request, checkers);
            }
            _ => checkers.violation(format!("client {} received no end of its login", self.key)),
        }
    }

    /// An ERR packet in the place of a greeting, or of a login's end.
    fn refused(&mut self, now: u64, payload: &[u8], request: Option<&LoginRequest>, checkers: &mut Checkers) {
        let code = payload.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
        let wrong = request.is_some_and(|request| request.credentials.wrong);
        let lasts = now - request.map_or(now, |request| request.sent_at);
        // Nothing of a login has run before its end: another server does it, as long as clients are held.
        let is_repeated = code == failover::LOST && checkers.hold().is_some_and(|hold| lasts < hold);
        let tolerated = checkers.tolerates_losses() && INTERRUPTIONS.contains(&code) && !is_repeated;
        if !wrong && !tolerated {
            let text = crate::trace::Shown(payload);
            checkers.violation(format!("client {} was refused: {code} {text}", self.key));
        }
        self.leave(now);
    }

    fn begin_work(&mut self, now: u64, request: &LoginRequest, checkers: &mut Checkers) {
        let credentials = &request.credentials;
        if let Some(kills) = checkers.kills() {
            kills.has_user(self.key, &credentials.user, now);
        }
        let session = Session::new(
            request.thread_id,
            &credentials.user,
            request.capabilities,
            credentials.schema.clone(),
            credentials.collation,
        )
        .on(request.kind);
        self.left = u32::try_from(self.random.between(3, 60) * self.habits.stays).unwrap_or(3);
        let author = Author::new(self.key, self.habits, self.random.fork());
        self.phase = Phase::Working(Box::new(Work {
            oracle: Oracle::new(session),
            author,
            awaited: VecDeque::new(),
            capabilities: request.capabilities,
            has_held: self.habits.holds || self.habits.pins,
            promise: self.habits.promise.unwrap_or(Promise::Primary),
            wanted: None,
        }));
        self.think(now);
    }

    /// Does the next thing of the program.
    fn work(&mut self, now: u64, checkers: &mut Checkers) {
        let Phase::Working(work) = &mut self.phase else { return };
        let busy = !work.awaited.is_empty();
        let exchange = work.awaited.iter().any(|awaited| !awaited.is_plain());
        if self.habits.slow && self.random.percent(20) {
            let slowly = self.random.percent(50);
            self.actions.push(Action::ReadSlowly(slowly));
        }
        if busy && !self.calm && self.habits.hostile && self.random.percent(10) {
            self.break_off(now);
            return;
        }
        if exchange || busy && (!self.habits.pipelines || work.awaited.len() >= 3) {
            self.think(now);
            return;
        }
        if self.left == 0 && !self.calm {
            if !busy {
                self.quit(now);
            } else {
                self.think(now);
            }
            return;
        }
        self.left = self.left.saturating_sub(1);
        if !self.calm && self.habits.hostile && self.random.percent(4) {
            self.send_nonsense(now);
            return;
        }
        let step = if self.calm && self.random.percent(50) {
            work.author.probe()
        } else {
            if self.habits.promise.is_some() {
                work.author.recent_rows = checkers.recent_rows();
            }
            if let Some(kills) = checkers.kills() {
                work.author.known_ids = kills.known_ids();
            }
            work.author.next_step(&work.oracle)
        };
        self.take_step(now, step, checkers);
        self.think(now);
    }

    fn take_step(&mut self, now: u64, step: Step, checkers: &mut Checkers) {
        let mut change = None;
        let (payload, shadow) = match step {
            Step::Command { payload, shadow } => (payload, shadow),
            Step::Kill(payload) => (payload.clone(), payload),
            Step::ChangeUser => {
                let Some((payload, credentials)) = self.change_of_user(checkers) else { return };
                change = Some(credentials);
                (payload.clone(), payload)
            }
        };
        let Phase::Working(work) = &mut self.phase else { return };
        let kind = payload.first().copied().unwrap_or(0);
        let kills = kind == command::PROCESS_KILL || payload[1..].starts_with(b"KILL ");
        if kills && !work.awaited.is_empty() {
            return;
        }
        if kind == command::RESET_CONNECTION {
            if !work.awaited.is_empty() {
                return; // ids of prepared statements are learned from answers
            }
            work.author.forget_prepared();
            work.wanted = None;
        }
        let text = text_of(&payload);
        let goes_on = checkers.has_several() && kind == command::QUERY && work.awaited.is_empty();
        let before = goes_on.then(|| Box::new(work.oracle.clone()));
        let wanted_before = work.wanted;
        let promise = work.promise_of(&text, &shadow);
        let may_leave = work.may_leave_transaction(&text, &shadow);
        let row = work.row_read_by(&text, &shadow);
        let (mut expected, executions) =
            if kills { work.oracle.run_kill(&shadow) } else { work.oracle.run(&shadow) };
        if kills || kind == command::STATISTICS {
            expected = Expected::Anything;
        }
        // What one that fails has left, alone or among others, is asked for on the same connection.
        work.has_held |= work.oracle.holds() || text.contains(';') || expected.fails();
        let is_free = !work.oracle.holds() && executions.iter().all(|execution| execution.harmless);
        let tokens: Vec<Token> = executions.iter().map(|execution| execution.token).collect();
        checkers.sent(executions, now, promise);
        if may_leave {
            checkers.may_leave_transaction(&tokens);
        }
        let question = row.map(|row| checkers.asks(self.key, row, promise, is_free));
        self.actions.push(Action::Send(packet(0, &payload)));
        if let Some(all) = checkers.kills().filter(|_| kills) {
            all.said(self.key, &payload, now);
        }
        if matches!(expected, Expected::Silence) {
            return;
        }
        work.awaited.push_back(Awaited {
            sent_at: now,
            floor: checkers.moment,
            payload,
            text,
            tokens,
            reader: ReplyReader::new(work.capabilities, kind),
            expected,
            change,
            kill: kills,
            prepares: kind == command::STMT_PREPARE,
            question,
            wanted_before,
            before,
        });
    }

    /// One packet of an answer.
    fn answer(&mut self, now: u64, sequence: u8, payload: &[u8], checkers: &mut Checkers) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(front) = work.awaited.front_mut() else {
            if !(is_notice(payload) && checkers.tolerates_losses()) {
                let text = crate::trace::Shown(payload);
                checkers.violation(format!("client {} received bytes it did not ask for: {text}", self.key));
            }
            self.leave(now);
            return;
        };
        match front.reader.push(sequence, payload) {
            Progress::More => {}
            // A server that is killed says so at any time, with a sequence number of its own. Nobody else may.
            Progress::Broken(_) if checkers.tolerates_notices() && is_notice(payload) => self.leave(now),
            Progress::Broken(what) => {
                let text = crate::trace::Shown(payload);
                let message =
                    format!("client {}: {what} in the answer to {}: {text}", self.key, front.shown());
                checkers.violation(message);
                self.leave(now);
            }
            Progress::SendFile => self.exchange(sequence, payload, checkers),
            Progress::Done => self.answered(now, checkers),
        }
    }

    /// The server wants a file, or the proof of a new scramble.
    fn exchange(&mut self, sequence: u8, payload: &[u8], checkers: &mut Checkers) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(front) = work.awaited.front_mut() else { return };
        let next = sequence.wrapping_add(1);
        if let Some(credentials) = &front.change {
            let scramble = payload.len().checked_sub(21).and_then(|start| payload.get(start..start + 20));
            let proof = native_token(credentials.password.as_bytes(), scramble.unwrap_or_default());
            front.reader.parts.clear();
            front.reader.sent(next);
            self.actions.push(Action::Send(packet(next, &proof)));
            return;
        }
        let Expected::File(parts, table) = &front.expected else {
            checkers.violation(format!(
                "client {} was asked for a file in the answer to {}",
                self.key,
                front.shown()
            ));
            return;
        };
        let mut expected = parts.clone();
        let mut contents = Vec::new();
        let mut bytes = Vec::new();
        let mut number = next;
        for _ in 0..self.random.below(4) {
            let line = b"one line of a local file\n".repeat(self.random.index(9) + 1);
            crate::protocol::put_packet(&mut bytes, &mut number, &line);
            contents.extend(line);
        }
        let last = number;
        crate::protocol::put_packet(&mut bytes, &mut number, b"");
        expected.extend(work.oracle.finish_load(table, &contents));
        front.expected = Expected::Reply(expected);
        front.reader.sent(last);
        self.actions.push(Action::Send(bytes));
    }

    /// A whole answer is there.
    fn answered(&mut self, now: u64, checkers: &mut Checkers) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(front) = work.awaited.pop_front() else { return };
        let interrupted = front.interrupted() && checkers.tolerates_losses();
        checkers.with_kill(|kills| front.note(self.key, now, kills));
        if front.prepares {
            work.author.note_prepared(front.reader.prepared.filter(|_| !interrupted));
        }
        let found = &front.reader.parts;
        if let (Some(credentials), [Part::End { .. }]) = (&front.change, found.as_slice()) {
            if let Some(kills) = checkers.kills() {
                kills.has_user(self.key, &credentials.user, now);
            }
            work.oracle.change_user(&credentials.user, credentials.schema.clone(), credentials.collation);
            work.author.forget_prepared();
            work.wanted = None;
        } else if front.change.is_some() {
            let tolerated = interrupted || checkers.tolerates_losses();
            if !tolerated {
                checkers.violation(format!("client {} could not change its user: {found:?}", self.key));
            }
            self.leave(now);
            return;
        }
        checkers.answers_with_moments(found, front.floor, front.shown());
        if checkers.has_several() && front.fails_with_servers() {
            return self.fails_with_servers(now, front, checkers);
        }
        let question = front.question.as_ref();
        checkers.read(self.key, question, &front.expected, (found, &front.tokens), front.shown());
        match &front.expected {
            Expected::Reply(expected) if !moments::same(expected, found) => {
                // Warnings are gone with the backend that kept them. How many they were is told.
                let forgotten =
                    checkers.tolerates_losses() && front.text == "SHOW WARNINGS" && says_what_was_lost(found);
                if !interrupted && !forgotten {
                    let difference = difference(expected, found);
                    checkers.violation(format!("client {}: {}: {difference}", self.key, front.shown()));
                }
                self.leave(now);
                return;
            }
            Expected::File(..) if interrupted || matches!(found.as_slice(), [Part::Error(..)]) => {
                self.leave(now);
                return;
            }
            Expected::Anything if interrupted => {
                self.leave(now);
                return;
            }
            _ => {}
        }
        if front.kill {
            work.oracle.note_kill(found);
        }
        checkers.answered(&front.tokens);
        self.answered_in_calm += u32::from(self.calm);
        self.think(now);
    }

    fn think(&mut self, now: u64) {
        let pause = if self.random.percent(100 - self.habits.pauses) { 2_000 } else { 100_000 };
        self.due = now + self.random.between(1, pause * self.habits.pace);
        self.actions.push(Action::WakeAfter(self.due - now));
    }
}

/// The text of a COM_QUERY; empty for other commands.
fn text_of(payload: &[u8]) -> String {
    let text = payload.strip_prefix(&[command::QUERY]);
    text.map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())
}

/// Whether an answer to SHOW WARNINGS has one row, in the place of those that were not kept.
fn says_what_was_lost(found: &[Part]) -> bool {
    let says = |packet: &Vec<u8>| packet.windows(9).any(|words| words == b"lost with");
    let mut rows = found.iter().filter(|part| matches!(part, Part::Packet(packet) if says(packet)));
    rows.next().is_some() && rows.next().is_none()
}
