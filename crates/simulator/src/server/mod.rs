//! A virtual MariaDB, or MySQL: deterministic, tiny, and strict about what it is sent.

pub mod commands;
mod control;
pub mod database;
mod expression;
pub mod group;
pub mod kind;
mod lexer;
pub mod locks;
mod login;
pub mod member;
pub mod mysql;
pub mod prepared;
pub mod reply;
pub mod session;
mod settings;
pub mod statements;
pub mod variables;

use std::collections::BTreeMap;
use std::collections::VecDeque;

use memchr::memmem;

use self::commands::Reply;
use self::database::{Database, Kill};
use self::kind::Kind;
use self::locks::Lock;
use self::login::{Login, Verdict};
use self::reply::{ReplyWriter, ServerError};
use self::session::Session;
use crate::protocol::{Packet, PacketBuffer, command};
use crate::random::Random;
use crate::token::Token;

/// What the virtual MariaDB calls itself.
pub const VERSION: &str = "5.5.5-10.11.14-MariaDB-virtual";

/// The service account's name.
pub const SERVICE_USER: &str = "onramp";

/// Before the first session's number.
const FIRST_THREAD: u32 = 100;

/// And one of those takes so many microseconds at most.
const LONGEST_COUNT: u64 = 100_000;

/// Microseconds after which a statement that waits for a lock looks again.
const LOCK_RETRY: u64 = 5_000;

/// What the server wants done with one of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Close in an orderly way, after what was sent.
    Close,
    /// Call [`Server::wake`] after this many microseconds.
    WakeAfter(u64),
}

/// A connection's number in the virtual network.
pub type Link = u32;

/// How fast the server is, and how it takes logins.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Microseconds that a statement takes at most, most of the time.
    pub usual: u64,
    /// In how many of 100 statements it takes up to a hundred times as long.
    pub slow_percent: u64,
    /// In how many of 100 logins it asks for another scramble.
    pub switch_percent: u64,
    /// How many of 100 changes of user it refuses, as something in front of a server may.
    pub refused_change_percent: u64,
    /// An account without a role gets that of the one before by a change of user, as on a MariaDB.
    pub keeps_roles: bool,
}

/// Something a virtual MariaDB would never do by itself: the peer broke a rule.
#[derive(Clone, Debug)]
pub struct Complaint(pub String);

/// The server with all its sessions.
#[derive(Debug)]
pub struct Server {
    /// What the sessions share.
    pub database: Database,
    /// Broken rules, for the checkers.
    pub complaints: Vec<Complaint>,
    conversations: BTreeMap<Link, Conversation>,
    actions: Vec<(Link, Action)>,
    random: Random,
    speed: Speed,
    /// How many sessions it takes, those of the service account aside.
    max_connections: u32,
    next_thread: u32,
}

#[derive(Debug)]
struct Conversation {
    thread_id: u32,
    input: PacketBuffer,
    commands: VecDeque<Packet>,
    phase: Phase,
    running: Option<Packet>,
    /// That is held up, since no majority of a group would agree to it.
    is_held_up: bool,
    /// Who held which lock as that began, where it asks for that.
    locks_before: Option<BTreeMap<String, Lock>>,
    /// By the server's clock, when the peer was heard last.
    heard: u64,
    /// The peer has closed; what it had sent before may still run.
    gone: bool,
}

#[derive(Debug)]
enum Phase {
    LoggingIn(Login),
    Ready(Box<Session>),
    /// COM_CHANGE_USER waits for the answer to its scramble.
    ChangingUser(Box<Session>, Login),
    /// LOAD DATA LOCAL INFILE waits for the file.
    Loading {
        session: Box<Session>,
        table: String,
        contents: Vec<u8>,
    },
}

impl Server {
    /// A server without connections.
    pub fn new(mut database: Database, random: Random, speed: Speed, max_connections: u32) -> Self {
        let number = database.member.as_ref().map_or(0, |member| member.number);
        // The service account's come on top, and those that are to stay free.
        database.max_connections = max_connections.saturating_add(16);
        Self {
            database,
            complaints: Vec::new(),
            conversations: BTreeMap::new(),
            actions: Vec::new(),
            random,
            speed,
            max_connections,
            // Away from the small ids that the engine gives its clients, and those of each server apart.
            next_thread: FIRST_THREAD + 1_000_000 * number,
        }
    }

    /// A peer connected: greets it.
    pub fn accept(&mut self, link: Link) {
        self.next_thread += 1;
        let thread_id = self.next_thread;
        let login = Login::new(&mut self.random);
        self.send(link, login.greeting(self.database.kind, thread_id));
        let conversation = Conversation {
            thread_id,
            input: PacketBuffer::default(),
            commands: VecDeque::new(),
            phase: Phase::LoggingIn(login),
            running: None,
            is_held_up: false,
            locks_before: None,
            heard: self.database.clock.unwrap_or(0),
            gone: false,
        };
        self.conversations.insert(link, conversation);
        self.database.threads.push(thread_id);
    }

    /// A peer connected while the server has no connection to spare.
    pub fn turn_away(&mut self, link: Link) {
        self.send(link, crate::protocol::packet(0, &too_many_connections().payload()));
        self.actions.push((link, Action::Close));
    }

    /// Bytes arrived.
    pub fn receive(&mut self, link: Link, bytes: &[u8]) {
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        conversation.heard = self.database.clock.unwrap_or(0);
        conversation.input.push(bytes);
        while let Some(packet) = conversation.input.next_packet() {
            conversation.commands.push_back(packet);
        }
        self.advance(link);
    }

    /// The time asked for with [`Action::WakeAfter`] has come: the running command is done.
    pub fn wake(&mut self, link: Link) {
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        if let Some(packet) = conversation.running.take() {
            self.finish(link, &packet);
            self.carry_out_kills();
        }
        self.advance(link);
    }

    /// The peer closed, or the connection broke. What runs goes on; what waits runs only if the server had read it.
    pub fn lost(&mut self, link: Link) {
        let reads_on = self.random.percent(50);
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        conversation.gone = true;
        if !reads_on {
            conversation.commands.clear();
        }
        self.advance(link);
    }

    /// The process dies: every session is gone, open transactions are rolled back.
    pub fn crash(&mut self) {
        for (_, mut conversation) in std::mem::take(&mut self.conversations) {
            if let Some(session) = conversation.session() {
                session.end(&mut self.database);
            }
        }
        self.database.threads.clear();
        self.database.users.clear();
        self.database.locks.clear();
        if self.database.clock.is_some() {
            // It counts from the beginning: a number of before means somebody else.
            self.next_thread = FIRST_THREAD;
        }
        self.actions.clear();
    }

    /// Ends one connection from the server's side, as an operator's KILL or a timeout does.
    pub fn close(&mut self, link: Link) {
        if let Some(thread_id) = self.conversations.get(&link).map(|conversation| conversation.thread_id) {
            self.kill(Kill { thread_id, query_only: false });
        }
    }

    /// One connection breaks: the session ends, whatever it was doing.
    pub fn drop_link(&mut self, link: Link) {
        self.forget(link);
    }

    /// What the server wants done, oldest first.
    pub fn take_actions(&mut self) -> Vec<(Link, Action)> {
        std::mem::take(&mut self.actions)
    }

    /// Connections that stand and have not been given up by their peer.
    pub fn links(&self) -> impl Iterator<Item = Link> {
        self.conversations.iter().filter(|(_, conversation)| !conversation.gone).map(|(link, _)| *link)
    }

    /// The connection of the session with this number.
    pub fn link_of(&self, thread_id: u32) -> Option<Link> {
        let found = self.conversations.iter().find(|(_, conversation)| conversation.thread_id == thread_id);
        found.map(|(link, _)| *link)
    }

    /// Whether this connection belongs to the service account, as far as the server knows by now.
    pub fn is_service(&self, link: Link) -> bool {
        self.conversations
            .get(&link)
            .and_then(Conversation::session_ref)
            .is_some_and(|s| s.user == SERVICE_USER)
    }

    /// Whether the login on this connection is done.
    pub fn is_logged_in(&self, link: Link) -> bool {
        self.conversations.get(&link).and_then(Conversation::session_ref).is_some()
    }

    /// How many statements of clients run now that need a permit, on those of these connections that their peer has not given up.
    /// Statements that wait for nobody need none: what ends a transaction must not queue behind those who wait for it.
    pub fn running_statements(&self, is_meant: impl Fn(Link) -> bool) -> usize {
        const WAIT_FREE: [&[u8]; 8] =
            [b"COMMIT", b"ROLLBACK", b"BEGIN", b"START", b"SET", b"USE", b"UNLOCK TABLES", b"KILL"];
        let waits = |text: &[u8]| !WAIT_FREE.iter().any(|verb| text.trim_ascii().starts_with(verb));
        let of_clients = |packet: &Packet| {
            packet.payload.split_first().is_some_and(|(kind, text)| {
                let mut texts = text.split(|byte| *byte == b';');
                *kind == command::QUERY && texts.any(|text| waits(text) && !Token::find_all(text).is_empty())
            })
        };
        self.conversations
            .iter()
            .filter(|(link, conversation)| {
                is_meant(**link)
                    && !conversation.gone
                    && conversation.running.as_ref().is_some_and(of_clients)
            })
            .count()
    }

    fn send(&mut self, link: Link, bytes: Vec<u8>) {
        self.actions.push((link, Action::Send(bytes)));
    }

    /// Starts the next command, or takes the next packet of an exchange.
    fn advance(&mut self, link: Link) {
        loop {
            let Some(conversation) = self.conversations.get_mut(&link) else { return };
            if conversation.running.is_some() {
                return;
            }
            let Some(packet) = conversation.commands.pop_front() else {
                if conversation.gone {
                    self.forget(link);
                }
                return;
            };
            match &mut conversation.phase {
                Phase::Ready(_) => {
                    self.start(link, packet);
                    return;
                }
                Phase::LoggingIn(_) | Phase::ChangingUser(..) => self.continue_login(link, &packet),
                Phase::Loading { contents, .. } if !packet.payload.is_empty() => {
                    contents.extend_from_slice(&packet.payload);
                }
                Phase::Loading { .. } => self.finish_load(link, packet.sequence),
            }
        }
    }

    /// Lets the command run for a while. Commands without a statement are done within microseconds.
    fn start(&mut self, link: Link, packet: Packet) {
        if packet.sequence != 0 {
            self.complaints
                .push(Complaint(format!("a command came with sequence number {}", packet.sequence)));
        }
        let statement = matches!(packet.payload.first(), Some(&(command::QUERY | command::STMT_EXECUTE)));
        let sleeps = memmem::find(&packet.payload, b"SLEEP(").is_some();
        // Where Onramps count each other, that has to be done in some seconds.
        let counts = self.database.clock.is_some() && self.is_service(link);
        let slowly = if counts { LONGEST_COUNT.min(self.speed.usual * 10) } else { self.speed.usual * 100 };
        let duration = match statement {
            false => self.random.between(1, 20),
            // What checks ask: a server that does not answer is a fault, and drawn as one.
            true if is_asked_by_checks(&packet.payload[1..]) && self.database.member.is_some() => {
                self.random.between(1, 20)
            }
            true if sleeps || self.random.percent(self.speed.slow_percent) => self.random.between(1, slowly),
            true => self.random.between(1, self.speed.usual),
        };
        let looks = self.database.clock.is_some() && memmem::find(&packet.payload, b"IS_USED_LOCK").is_some();
        let locks = looks.then(|| self.database.locks.now());
        if let Some(conversation) = self.conversations.get_mut(&link) {
            conversation.running = Some(packet);
            conversation.locks_before = locks;
        }
        self.actions.push((link, Action::WakeAfter(duration)));
    }

    /// The command's time is over: its effects and its reply.
    fn finish(&mut self, link: Link, packet: &Packet) {
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        let thread_id = conversation.thread_id;
        if self.database.hot_row.is_some_and(|holder| holder != thread_id) && wants_hot_row(&packet.payload) {
            conversation.running = Some(packet.clone());
            self.database.hot_waiters.insert(thread_id);
            self.actions.push((link, Action::WakeAfter(LOCK_RETRY)));
            return;
        }
        self.database.hot_waiters.remove(&thread_id);
        if let Phase::Loading { .. } = conversation.phase {
            return self.finish_load(link, packet.sequence);
        }
        let Phase::Ready(session) = &mut conversation.phase else { return };
        if self.database.holds_up(session, &packet.payload) {
            (conversation.running, conversation.is_held_up) = (Some(packet.clone()), true);
            self.actions.push((link, Action::WakeAfter(LOCK_RETRY)));
            return;
        }
        self.database.give_up_held(std::mem::take(&mut conversation.is_held_up));
        let before = self.database.executions.len();
        let asked = || memmem::find_iter(&packet.payload, b"IS_USED_LOCK").count();
        let earlier = conversation.locks_before.take();
        self.database.locks.begin_look(earlier.map(|locks| (locks, self.random.index(asked() + 1))));
        let reply = commands::run(session, &mut self.database, &packet.payload);
        self.database.give_up_held(false);
        for execution in &mut self.database.executions[before..] {
            execution.sent_at = (link, packet.offset);
        }
        match reply {
            Reply::Packets(bytes) => self.send(link, bytes),
            Reply::Silence => {}
            Reply::WantsFile { packets, table } => {
                let session = session.clone();
                conversation.phase = Phase::Loading { session, table, contents: Vec::new() };
                self.send(link, packets);
            }
            Reply::Quit => self.hang_up(link),
            Reply::ChangeUser => {
                let refused = self.speed.refused_change_percent;
                let knows = refused == 0 || !self.random.percent(refused);
                let login = Login::change_user(&mut self.random, &packet.payload).filter(|_| knows);
                match login {
                    Some(login) => {
                        let bytes = login.switch(1);
                        conversation.phase = Phase::ChangingUser(session.clone(), login);
                        self.send(link, bytes);
                    }
                    None => {
                        let error = ServerError::new(1047, "08S01", "Unknown command");
                        self.refuse(link, 1, &error);
                    }
                }
            }
        }
    }

    /// One packet of a login or a change of user.
    fn continue_login(&mut self, link: Link, packet: &Packet) {
        let switches = self.random.percent(self.speed.switch_percent);
        let full = self.is_full();
        let turned_away = self.database.turns_all_away();
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        let thread_id = conversation.thread_id;
        let (Phase::LoggingIn(login) | Phase::ChangingUser(_, login)) = &mut conversation.phase else {
            return;
        };
        match login.answer(&packet.payload, &self.database.accounts, switches, &mut self.random) {
            Verdict::Switch => {
                let bytes = login.switch(packet.sequence.wrapping_add(1));
                self.send(link, bytes);
            }
            Verdict::Right if turned_away.is_some() => {
                let error = turned_away.expect("just seen");
                self.refuse(link, packet.sequence.wrapping_add(1), &error);
            }
            Verdict::Right => {
                let mut session = match &mut conversation.phase {
                    Phase::ChangingUser(session, login) => {
                        login.apply(session, &mut self.database, self.speed.keeps_roles);
                        session.clone()
                    }
                    Phase::LoggingIn(login) => {
                        let session = login.session(self.database.kind, thread_id);
                        if full && session.user != SERVICE_USER {
                            return self.refuse(
                                link,
                                packet.sequence.wrapping_add(1),
                                &too_many_connections(),
                            );
                        }
                        Box::new(session)
                    }
                    _ => return,
                };
                self.database.users.insert(thread_id, session.user.clone());
                let mut writer =
                    ReplyWriter::new(packet.sequence.wrapping_add(1), session.capabilities, false);
                let ending = session.ending(true);
                writer.ok(0x00, 0, 0, "", &ending);
                conversation.phase = Phase::Ready(session);
                self.send(link, writer.out);
            }
            Verdict::Wrong(error) => self.refuse(link, packet.sequence.wrapping_add(1), &error),
            Verdict::Broken(what) => {
                self.complaints.push(Complaint(what));
                self.hang_up(link);
            }
        }
    }

    /// Whether another session would be one too many. Only now is known who it is: MySQL, too, refuses at the end of the
    /// login where its last connection is kept for administrators.
    fn is_full(&self) -> bool {
        let sessions = self.conversations.values().filter_map(Conversation::session_ref);
        sessions.filter(|session| session.user != SERVICE_USER).count() >= self.max_connections as usize
    }

    fn finish_load(&mut self, link: Link, sequence: u8) {
        let Some(conversation) = self.conversations.get_mut(&link) else { return };
        if self.database.seat().is_some_and(|seat| seat.takes_part() && seat.is_alone) {
            let packet = Packet { sequence, payload: Vec::new(), offset: 0 };
            conversation.running = Some(packet);
            self.actions.push((link, Action::WakeAfter(LOCK_RETRY)));
            return;
        }
        let Phase::Loading { session, table, contents } = &mut conversation.phase else { return };
        let bytes =
            commands::finish_load(session, &mut self.database, table, contents, sequence.wrapping_add(1));
        conversation.phase = Phase::Ready(session.clone());
        self.send(link, bytes);
    }

    fn refuse(&mut self, link: Link, sequence: u8, error: &ServerError) {
        self.send(link, crate::protocol::packet(sequence, &error.payload()));
        self.hang_up(link);
    }

    fn hang_up(&mut self, link: Link) {
        self.actions.push((link, Action::Close));
        self.forget(link);
    }

    fn forget(&mut self, link: Link) {
        if let Some(mut conversation) = self.conversations.remove(&link) {
            if let Some(session) = conversation.session() {
                session.end(&mut self.database);
            }
            self.database.threads.retain(|id| *id != conversation.thread_id);
            self.database.users.remove(&conversation.thread_id);
        }
    }

    fn carry_out_kills(&mut self) {
        for kill in std::mem::take(&mut self.database.kills) {
            self.kill(kill);
        }
    }

    /// ER_QUERY_INTERRUPTED ends a running statement, which then has no effect. A killed session gets
    /// ER_CONNECTION_KILLED sometimes, as the servers do it, and is closed.
    fn kill(&mut self, kill: Kill) {
        let found = self.conversations.iter_mut().find(|(_, found)| found.thread_id == kill.thread_id);
        let Some((&link, conversation)) = found else { return };
        let interrupted = conversation.running.take_if(|_| kill.query_only).is_some();
        if interrupted {
            let error = ServerError::new(1317, "70100", "Query execution was interrupted");
            self.send(link, crate::protocol::packet(1, &error.payload()));
            self.advance(link);
        } else if !kill.query_only {
            let was_running = conversation.running.take().is_some();
            // A MySQL closes the connection before it could say so.
            let says_so = was_running || self.random.percent(30);
            if says_so && self.database.kind == Kind::MariaDb {
                let error = ServerError::new(1927, "70100", "Connection was killed");
                self.send(link, crate::protocol::packet(u8::from(was_running), &error.payload()));
            }
            self.hang_up(link);
        }
    }
}

/// Whether a text is one of those by which checks find out what a server is and how far it has come, or the one that comes before these on a new
/// connection.
fn is_asked_by_checks(text: &[u8]) -> bool {
    text.starts_with(b"SHOW ")
        || text.starts_with(b"SELECT @@global.gtid_executed")
        || text.starts_with(b"SET @@session.wsrep_sync_wait")
}

/// Whether a command changes the row that everybody wants.
fn wants_hot_row(payload: &[u8]) -> bool {
    memmem::find(payload, b"UPDATE hot").is_some()
}

impl Conversation {
    fn session(&mut self) -> Option<&mut Session> {
        match &mut self.phase {
            Phase::LoggingIn(_) => None,
            Phase::Ready(session) | Phase::ChangingUser(session, _) | Phase::Loading { session, .. } => {
                Some(session)
            }
        }
    }

    fn session_ref(&self) -> Option<&Session> {
        match &self.phase {
            Phase::LoggingIn(_) => None,
            Phase::Ready(session) | Phase::ChangingUser(session, _) | Phase::Loading { session, .. } => {
                Some(session)
            }
        }
    }
}

/// ER_CON_COUNT_ERROR.
fn too_many_connections() -> ServerError {
    ServerError::new(1040, "08004", "Too many connections")
}

#[cfg(test)]
mod tests;
