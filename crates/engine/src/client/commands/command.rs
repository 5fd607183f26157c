//! The commands that a client may send: one match over all of them.
//!
//! A COM_QUERY goes: [`Engine::client_bytes`] cuts packets, [`Engine::command`] finds the command, the lexer says what
//! the text does ([`crate::client::commands::reading`]), [`Engine::queue_request`] hands it to the scheduler;
//! `backend/to_server/dispatch.rs` takes it from there.

use sql::Kind;
use wire::{Capabilities, Command, CommandKind, Expect, Extent, WireError};

use crate::client::answers::answer::ToServer;
use crate::client::answers::held_answer::HeldFor;
use crate::client::commands::execution::Execution;
use crate::client::commands::process_list::ServedThreads;
use crate::client::commands::reading::{ReadText, with_text_of};
use crate::client::commands::statement_counters::Counter;
use crate::client::login::attempt::Login;
use crate::client::login::handshake::LARGEST_LOGIN;
use crate::client::memory::sent_ahead::SentAhead;
use crate::client::{Phase, Running};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef};
use crate::outside::named::{ClosedFor, Limit};
use crate::request::{QueryAttributes, Request, RequestKind};

/// Bytes of further commands that a client may send early. More is left in the socket until their turn comes.
const AHEAD: usize = 64 << 10;

/// Bytes of one client's commands, or of the answers to them, after which no more are answered here in a turn. A few bytes
/// can ask for a thousand times as many (SHOW WARNINGS), and only the next turn tells whether the client takes them.
const ANSWERED_AT_ONCE: usize = 64 << 10;

/// The commands that mariadb-admin sends to flush, to shut down and for the processlist of old. They are relayed like any other.
const REFRESH: u8 = CommandKind::Refresh as u8;
const SHUTDOWN: u8 = CommandKind::Shutdown as u8;
const REGISTER_REPLICA: u8 = CommandKind::RegisterSlave as u8;
const BINLOG_DUMP: u8 = CommandKind::BinlogDump as u8;
const BINLOG_DUMP_GTID: u8 = CommandKind::BinlogDumpGtid as u8;
const PROCESS_INFO: u8 = CommandKind::ProcessInfo as u8;

impl Engine {
    /// Takes in bytes of a client, cut anywhere.
    pub(crate) fn client_bytes(&mut self, key: ClientKey, bytes: &[u8]) {
        // The server would have ended it by now, and clients notice whether a statement is still answered.
        if self.clients[key].is_idle_too_long(self.now, self.settings.wait_timeout) {
            return self.end_idle_client(key);
        }
        self.clients[key].activity.last_heard = self.now;
        if self.clients[key].input.is_empty() {
            let used = self.client_messages(key, bytes);
            if used < bytes.len() && self.clients.contains(key) {
                self.keep_input(key, SentAhead::of(bytes[used..].to_vec()));
            }
        } else {
            let mut input = std::mem::take(&mut self.clients[key].input);
            self.client_memory.count_off_input(&mut self.clients[key]);
            input.push(bytes);
            self.work_off(key, input);
        }
    }

    /// Goes on with what a client had sent ahead.
    pub(crate) fn continue_client(&mut self, key: ClientKey) {
        let input = std::mem::take(&mut self.clients[key].input);
        self.client_memory.count_off_input(&mut self.clients[key]);
        self.clients[key].backpressure.too_far_ahead = false;
        self.work_off(key, input);
        if self.clients.contains(key) {
            self.clients[key].update_reading(&mut self.io.outbox);
        }
    }

    fn work_off(&mut self, key: ClientKey, mut input: SentAhead) {
        while let Some(extent) = self.large_text(key, &input) {
            let (mut text, behind) = input.split(extent.consumed);
            self.clients[key].activity.takes_command(self.now);
            let answer = extent.last_sequence.wrapping_add(1);
            match self.clients[key].large_command(&mut text) {
                Some((command, attributes)) => self.read_elsewhere(key, command, text, answer, attributes),
                None => self.answers().error(key, answer, &MySqlError::malformed_packet()),
            }
            if behind.is_empty() || !self.clients.contains(key) {
                return;
            }
            input = behind;
        }
        let logs_in = matches!(self.clients[key].phase(), Phase::Login(_));
        let used = self.client_messages(key, &input);
        if logs_in {
            // Its password may be among it.
            input.wipe(used);
        }
        if self.clients.contains(key) && used < input.len() {
            input.pass(used);
            self.keep_input(key, input);
        }
    }

    /// Keeps bytes for later, within the bounds of one client and of all.
    fn keep_input(&mut self, key: ClientKey, input: SentAhead) {
        let client = &mut self.clients[key];
        let logs_in =
            matches!(client.phase(), Phase::AwaitingServer | Phase::Login(_)) && client.identity().is_none();
        if logs_in && input.len() > wire::HEADER_LEN + LARGEST_LOGIN {
            // Not left in the socket: the driver may have taken in more, and who has not logged in is trusted with nothing.
            return self.close_malformed(key, "it has sent too much ahead of the end of its login");
        }
        let reads_on = match client.phase() {
            // What is whole waits until the answers before it are on their way.
            Phase::Idle => wire::message_len_hint(&input).is_none_or(|needed| needed > input.len()),
            Phase::Running(Running::Uploading { .. } | Running::Replicating { begun: true }) => true,
            Phase::Login(login) => !login.is_ours_to_go_on(),
            _ => false,
        };
        let waits_for_us = !reads_on || client.activity.stalled_since.is_some();
        client.backpressure.too_far_ahead |= waits_for_us && input.len() > AHEAD;
        // What peers send before they have logged in is bounded above, and must not use up what is for statements.
        // Nor is a file: it goes on packet by packet.
        let counts = client.identity().is_some()
            && !matches!(client.phase(), Phase::Running(Running::Uploading { .. }));
        self.client_memory
            .statements
            .set(&mut client.memory.statements, if counts { input.len() } else { 0 });
        let of_login = if client.identity().is_none() { input.capacity() } else { 0 };
        self.client_memory.logins.set(&mut client.memory.login, of_login);
        client.input = input;
        self.clients[key].update_reading(&mut self.io.outbox);
        self.keep_to_login_memory();
        if !self.clients.contains(key) {
            return;
        }
        if counts && self.lacks_statement_memory() && self.clients.contains(key) {
            let limit = self.settings.statement_memory;
            if matches!(self.clients[key].phase(), Phase::Idle) {
                self.answers().error(key, 1, &MySqlError::statement_memory(limit));
            }
            self.close_client(key, ClosedFor::Memory, "statement_memory is used up");
        }
    }

    /// Takes in whole messages as long as the client's phase allows. Returns how many bytes were used.
    fn client_messages(&mut self, key: ClientKey, bytes: &[u8]) -> usize {
        let mut used = 0;
        let answered = self.io.outbox.unsent();
        while let Some(client) = self.clients.get(key) {
            let rest = &bytes[used..];
            if rest.is_empty() {
                break;
            }
            let enough = used > ANSWERED_AT_ONCE || self.io.outbox.unsent() - answered > ANSWERED_AT_ONCE;
            if enough && matches!(client.phase(), Phase::Idle) {
                self.resume.push_later(key);
                break;
            }
            let step = match *client.phase() {
                _ if self.io.outbox.is_about_to_compress(client.connection) => {
                    Ok(self.io.unread(client.connection, rest))
                }
                // What it has sent ahead waits for the end of its login.
                Phase::Login(ref login) if login.is_ours_to_go_on() => Ok(0),
                Phase::Login(Login::StartingTls) => Ok(self.io.unread(client.connection, rest)),
                Phase::Login(_) => self.login_message(key, rest),
                // Its next answer would only make the heap of those higher that it does not take.
                Phase::Idle if client.activity.stalled_since.is_some() => Ok(0),
                Phase::Idle if self.waits_for_kill(key) => Ok(0),
                Phase::Idle => self.command_message(key, rest),
                Phase::Running(Running::Replicating { begun: true }) => {
                    Ok(self.servers.forward(&self.clients[key], rest))
                }
                Phase::Running(Running::Uploading { continues, next }) => {
                    let (client, scheduler) = (&mut self.clients[key], &mut self.scheduling.scheduler);
                    self.servers.upload(client, scheduler, (continues, next), rest)
                }
                _ => Ok(0),
            };
            match step {
                Ok(0) => break,
                Ok(step) => used += step,
                Err(error) => {
                    self.broken_client(key, &error);
                    return bytes.len();
                }
            }
        }
        used
    }

    fn login_message(&mut self, key: ClientKey, bytes: &[u8]) -> Result<usize, WireError> {
        let sequence = match (self.clients[key].phase(), bytes.get(3)) {
            (_, None) => return Ok(0),
            (Phase::Login(Login::Greeted), _) => 1,
            // Behind the request for TLS.
            (Phase::Login(Login::Secured), _) => 2,
            // Behind an auth switch, whose number depends on how the conversation began.
            (_, Some(&sequence)) => sequence,
        };
        let Some(message) = wire::read_message(bytes, sequence, LARGEST_LOGIN)? else {
            return Ok(0);
        };
        self.login_packet(key, &message.payload, message.last_sequence);
        Ok(message.consumed)
    }

    fn command_message(&mut self, key: ClientKey, bytes: &[u8]) -> Result<usize, WireError> {
        let most = self.servers.primary().max_allowed_packet(&self.settings);
        let Some(message) = wire::read_message(bytes, 0, most)? else { return Ok(0) };
        if message.payload.is_empty() {
            // The servers take it for COM_SLEEP (dispatch_command).
            self.answers().error(key, message.last_sequence.wrapping_add(1), &MySqlError::unknown_command());
            return Ok(message.consumed);
        }
        let command = Command::parse(&message.payload)?;
        self.command(key, command, message.raw, message.last_sequence);
        Ok(message.consumed)
    }

    /// Ends a client that does not speak the protocol, or exceeds a limit of it.
    fn broken_client(&mut self, key: ClientKey, error: &WireError) {
        let idle = matches!(self.clients[key].phase(), Phase::Idle);
        match error {
            WireError::TooLarge { .. } if idle => {
                let reached = (Limit::MaxAllowedPacket, self.settings.max_allowed_packet as u64);
                self.views.note_refused(self.now, reached, &self.clients[key], &self.logins.identities);
                self.answers().error(key, 1, &MySqlError::packet_too_large());
            }
            WireError::WrongSequence { found, .. } if idle => {
                self.answers().error(key, found.wrapping_add(1), &MySqlError::out_of_order());
            }
            _ => {}
        }
        self.close_malformed(key, &format!("broken protocol: {error}"));
    }

    /// Carries out one command of an idle client.
    fn command(&mut self, key: ClientKey, command: Command<'_>, raw: &[u8], sequence: u8) {
        let answer = sequence.wrapping_add(1);
        self.clients[key].activity.takes_command(self.now);
        if let Some(lost) = self.clients[key].loss_told_to(&command, self.settings.cluster.several) {
            return self.answer_lost(key, lost, answer);
        }
        let other = |expect| Request { answer, ..Request::plain(raw.to_vec(), expect, RequestKind::Other) };
        match command {
            Command::Quit => self.drop_client(key),
            Command::Query(body) => match self.clients[key].plain_query(body, raw) {
                Ok(plain) => self.query(key, plain.text, &plain.raw, answer, plain.attributes),
                Err(error) => self.answers().error(key, answer, &error),
            },
            Command::Ping if self.clients[key].server_watches_idleness(&self.servers) => {
                self.queue_request(key, other(Expect::Simple));
            }
            Command::Ping => self.ping(key, answer),
            Command::InitDb(_) | Command::Debug => self.queue_request(key, other(Expect::Simple)),
            Command::FieldList { .. } => self.queue_request(key, other(Expect::FieldList)),
            Command::Statistics => self.queue_request(key, other(Expect::Statistics)),
            Command::ProcessKill(id) => self.kill_command(key, u64::from(id), answer),
            Command::SetOption(option) => self.set_option(key, option, answer),
            Command::ResetConnection => self.reset_connection(key, raw, answer),
            Command::ChangeUser(body) => self.change_user(key, body, sequence),
            Command::StmtPrepare(text) => self.prepare(key, text, raw, answer),
            Command::StmtExecute { statement, flags, body } => {
                match self.prepared().plain_execution(key, statement, (flags, body), raw) {
                    Ok(plain) => self.execute(key, statement, plain.execution(), &plain.raw, answer),
                    Err(error) => self.answers().error(key, answer, &error),
                }
            }
            Command::StmtBulkExecute { statement, flags, body } => {
                self.execute(key, statement, Execution::Bulk { flags, body }, raw, answer);
            }
            Command::StmtFetch { statement, .. } => {
                let fetch = self.prepared().fetch(key, statement, raw, answer);
                self.queue_or_answer(key, fetch.map(Some), answer);
            }
            Command::StmtReset(statement) => {
                let reset = self.prepared().reset(key, statement, raw, answer);
                self.queue_or_answer(key, reset, answer);
            }
            Command::StmtSendLongData { statement, parameter, .. } => {
                self.send_long_data(key, statement, parameter, raw);
            }
            Command::StmtClose(statement) => {
                if self.prepared().close(key, statement) {
                    self.cursor_closed_between_statements(key);
                }
            }
            Command::Unsupported(REFRESH | SHUTDOWN) => self.queue_request(key, other(Expect::Simple)),
            Command::Unsupported(REGISTER_REPLICA) => {
                let (expect, command) = (Expect::Simple, RequestKind::RegisterReplica);
                self.queue_request(key, Request { command, ..other(expect) });
            }
            // It may go on for days, and is nothing that a permit is for.
            Command::Unsupported(BINLOG_DUMP | BINLOG_DUMP_GTID) => {
                let (expect, command) = (Expect::Events, RequestKind::BinlogDump);
                self.queue_request(key, Request { command, ..other(expect) }.urgently());
            }
            Command::Unsupported(PROCESS_INFO) => {
                let held_for = Some(HeldFor::ProcessList(ServedThreads::default()));
                self.queue_request(key, Request { held_for, ..other(Expect::ResultSets) });
            }
            Command::Unsupported(_) => self.answers().error(key, answer, &MySqlError::unknown_command()),
        }
    }

    /// Carries out COM_STMT_EXECUTE and COM_STMT_BULK_EXECUTE.
    fn execute(&mut self, key: ClientKey, number: u32, execution: Execution<'_>, raw: &[u8], answer: u8) {
        match self.execution_for_server(key, number, (execution, raw), answer) {
            Ok(Some(request)) => self.lend_or_queue(key, request),
            Ok(None) => {}
            Err(error) => self.answers().error(key, answer, &error),
        }
    }

    /// Returns the request of an execution. `None` where it was answered here.
    fn execution_for_server(
        &mut self,
        key: ClientKey,
        number: u32,
        (execution, raw): (Execution<'_>, &[u8]),
        answer: u8,
    ) -> Result<Option<Request>, MySqlError> {
        let begun = self.prepared().begin_execution(key, number, execution)?;
        if let Some(target) = begun.kills
            && self.kill_statement(key, target, answer, None)
        {
            return Ok(None);
        }
        self.prepared().check_long_data(key, &begun)?;
        let is_whole = execution.is_whole_without_parameters();
        if is_whole && self.answers().transaction_command(key, &begun.statement, answer) {
            return Ok(None);
        }
        self.prepared().execution(key, &begun, (execution, raw), answer).map(Some)
    }

    /// Queues what is for the server, and answers what is not.
    fn queue_or_answer(&mut self, key: ClientKey, request: Result<Option<Request>, MySqlError>, answer: u8) {
        match request {
            Ok(Some(request)) => self.queue_request(key, request),
            Ok(None) => self.answers().ok(key, answer),
            Err(error) => self.answers().error(key, answer, &error),
        }
    }

    fn send_long_data(&mut self, key: ClientKey, number: u32, parameter: u16, raw: &[u8]) {
        let keeps_more = self.prepared().send_long_data(key, number, parameter, raw);
        if keeps_more && self.lacks_statement_memory() && self.clients.contains(key) {
            let error = MySqlError::statement_memory(self.settings.statement_memory);
            self.prepared().long_data_is_wrong(key, number, error);
        }
    }

    /// Carries out a text, apart from what has come along with it.
    pub(crate) fn query(
        &mut self,
        key: ClientKey,
        text: &[u8],
        raw: &[u8],
        answer: u8,
        attributes: QueryAttributes,
    ) {
        if text.len() > self.settings.large_statement_size {
            return self.read_elsewhere(key, RequestKind::Query, raw.to_vec(), answer, attributes);
        }
        let mut request =
            Request::of_query(text, self.lex_mode(key), self.clients[key].wants(&self.settings), answer);
        if self.is_for_the_server(key, &mut request, text) {
            request.raw = raw.to_vec();
            request.attributes = attributes;
            self.lend_or_queue(key, request);
        }
    }

    /// True where a text has not been answered here. Of a large text, which has been read elsewhere, only KILL needs the text here.
    pub(super) fn is_for_the_server(&mut self, key: ClientKey, request: &mut Request, text: &[u8]) -> bool {
        let answer = request.answer;
        match request.statement.kind {
            Kind::Kill(target)
                if !request.statement.several && self.kill_statement(key, target, answer, None) =>
            {
                return false;
            }
            Kind::Kill(_) if self.kill_and_go_on(key, text, answer) => return false,
            _ => {}
        }
        let full_tickets = self.scheduling.scheduler.full_tickets();
        match self.answers().instead_of_server(key, request, text, full_tickets) {
            ToServer::AsItIs => return true,
            ToServer::Instead(request) => self.queue_request(key, *request),
            ToServer::Nothing => {}
        }
        false
    }

    fn prepare(&mut self, key: ClientKey, text: &[u8], raw: &[u8], answer: u8) {
        if text.len() > self.settings.large_statement_size {
            let (command, raw) = (RequestKind::Prepare, raw.to_vec());
            return self.read_elsewhere(key, command, raw, answer, QueryAttributes::None);
        }
        let request = Request::of_prepare(text, self.lex_mode(key), answer);
        if self.may_prepare(key, &request, text.len()) {
            self.queue_request(key, Request { raw: raw.to_vec(), ..request });
        }
    }

    /// True where a statement may be prepared. Otherwise its client has been told why not.
    pub(super) fn may_prepare(&mut self, key: ClientKey, request: &Request, length: usize) -> bool {
        let template = request.changes.template.as_ref();
        let error = if template.is_some_and(|template| template.statement.sets_pool_variable) {
            Some(MySqlError::not_to_be_prepared())
        } else {
            self.prepared().lack_of_room(request, length).err()
        };
        match &error {
            Some(error) => self.answers().error(key, request.answer, error),
            None => self.clients[key].count(Counter::Prepare),
        }
        error.is_none()
    }

    /// Answers COM_PING here: it asks whether we are there. As on a direct connection, it also resets ROW_COUNT().
    fn ping(&mut self, key: ClientKey, answer: u8) {
        self.clients[key].session.aftermath.changed_no_rows();
        self.answers().ok(key, answer);
    }

    /// Carries out COM_SET_OPTION: 0 turns multi-statements on, 1 off. Anything else is an unknown command (dispatch_command).
    fn set_option(&mut self, key: ClientKey, option: u16, answer: u8) {
        let client = &mut self.clients[key];
        // my_eof leaves -1, as a result set does.
        client.session.aftermath.has_no_row_count();
        match option {
            0 => client.capabilities |= Capabilities::MULTI_STATEMENTS,
            1 => client.capabilities = client.capabilities.without(Capabilities::MULTI_STATEMENTS),
            _ => return self.answers().error(key, answer, &MySqlError::unknown_command()),
        }
        self.answers().eof(key, answer);
    }

    /// Carries out COM_RESET_CONNECTION on the client's backend, where it holds one. Otherwise its state is only here.
    fn reset_connection(&mut self, key: ClientKey, raw: &[u8], answer: u8) {
        if self.clients[key].backend.is_some() {
            let request = Request::plain(raw.to_vec(), Expect::Simple, RequestKind::ResetConnection);
            return self.queue_request(key, request);
        }
        self.forget_state(key);
        self.answers().ok(key, answer);
    }

    /// Hands a request to the scheduler.
    pub(crate) fn queue_request(&mut self, key: ClientKey, mut request: Request) {
        if let Err(error) = self.clients[key].count_literals(&self.servers, &self.settings, &mut request) {
            return self.answers().error(key, request.answer, &error);
        }
        let bytes = request.bytes();
        self.client_memory.statements.set(&mut request.bytes.counted, bytes);
        self.views.measures.turn.note_statement(bytes, request.statement.fingerprint);
        let (client, primary) = (&self.clients[key], self.servers.primary());
        self.pool.note_hidden_code(client, &self.sessions, primary, &mut request);
        let (scheduling, parties, clients, servers) = self.queues();
        let enters = scheduling.admit(&parties, clients, servers, key, &mut request);
        let may_follow = enters.is_some() && self.settings.coalescing.reads;
        let follows = if may_follow { self.coalescing().join_group(key, &mut request) } else { None };
        let client = &mut self.clients[key];
        client.request = Some(Box::new(request));
        match follows {
            Some(group) => client.follow(group),
            None => client.queue(),
        }
        if let Some((lane, standing)) = enters.filter(|_| follows.is_none()) {
            let (scheduling, parties, clients, servers) = self.queues();
            scheduling.enqueue(&parties, clients, servers, key, (lane, standing));
        }
        if self.lacks_statement_memory() {
            let limit = self.settings.statement_memory;
            self.cancel_queued(key, &MySqlError::statement_memory(limit));
        }
    }

    /// Takes a client's statement out of its queue; an error with this code is about to answer it.
    pub(crate) fn take_queued(&mut self, key: ClientKey, error: u16) -> Option<Box<Request>> {
        self.coalescing().leave_group(key);
        self.scheduling.scheduler.remove(key);
        if !self.goes_to_primary(error) {
            let (views, around) = self.slow_log();
            views.note_slow_wait(&around, key, Some(error));
        }
        let request = self.take_request(key)?;
        self.clients[key].cancel();
        Some(request)
    }

    /// Takes a client's statement out of its queue and answers it with an error.
    pub(crate) fn cancel_queued(&mut self, key: ClientKey, error: &MySqlError) {
        let Some(request) = self.take_queued(key, error.code) else { return };
        self.views.totals.cancelled += u64::from(!self.is_reader());
        let login = request.command == RequestKind::LoginSchema;
        if login && error.code != MySqlError::interrupted().code {
            self.schema_refused(key, &error.packet(), &error.message);
        }
        self.answers().error(key, request.answer, error);
        if login {
            self.close_client(key, ClosedFor::LoginRefused, &error.message);
        } else {
            self.resume.push(key);
        }
    }

    /// Takes the request of a client, and takes its bytes off the account.
    pub(crate) fn take_request(&mut self, key: ClientKey) -> Option<Box<Request>> {
        self.scheduling.shares.ended(&self.settings.shares, key, self.now);
        let request = self.client_memory.lift_request(&mut self.clients[key])?;
        self.note_end_for_readers(key, &request);
        Some(request)
    }

    /// Says whether a client's next command waits for the server's answer to a KILL.
    fn waits_for_kill(&self, key: ClientKey) -> bool {
        self.orders.kills_under_way.hold_up(&self.clients[key], &self.servers)
    }

    /// Returns how far the first command goes, where it has a large text and may be taken up.
    fn large_text(&self, key: ClientKey, input: &[u8]) -> Option<Extent> {
        let client = &self.clients[key];
        let extent = client.large_text(&self.settings, self.servers.primary(), input)?;
        let waits = self.waits_for_kill(key) || self.io.outbox.is_about_to_compress(client.connection);
        (!waits).then_some(extent)
    }

    /// Has a large text read elsewhere. The outcome comes to [`Self::text_is_read`].
    pub(crate) fn read_elsewhere(
        &mut self,
        key: ClientKey,
        command: RequestKind,
        raw: Vec<u8>,
        answer: u8,
        attributes: QueryAttributes,
    ) {
        self.pool.take_up_code();
        let (known, asker) = ((&self.settings, &self.pool.known_code), self.clients.ref_to(key));
        let (sessions, server, client) =
            (&self.sessions.states, self.servers.primary(), &mut self.clients[key]);
        let text = client.text_to_read(known, sessions, server, (command, raw, attributes), answer);
        self.client_memory.begin_reading(asker, client, text, &mut self.io.tasks);
        if self.lacks_statement_memory() {
            self.cancel_reading(key, &MySqlError::statement_memory(self.settings.statement_memory));
        }
    }

    /// Gives up a text that was to be read: its statement is not to run.
    pub(crate) fn cancel_reading(&mut self, key: ClientKey, error: &MySqlError) {
        let client = &mut self.clients[key];
        self.client_memory.forget_reading(client, &mut self.io.tasks);
        let Some(answer) = self.client_memory.end_reading(client) else { return };
        self.answers().error(key, answer, error);
        self.resume.push(key);
    }

    /// Goes on with a client's statement, now that its large text has been read.
    pub(crate) fn text_is_read(&mut self, client: ClientRef, read: ReadText) {
        let key = client.key;
        let Some(client) = self.clients.find_mut(client) else { return };
        let Some(answer) = self.client_memory.end_reading(client) else { return };
        self.resume.push(key);
        let mut request = read.into_request();
        if let Some(lost) = self.clients[key].loss.kind {
            return self.answer_lost(key, lost, answer);
        }
        let mut raw = std::mem::take(&mut request.raw);
        let goes_on = match (request.command, request.statement.kind) {
            (RequestKind::Prepare, _) => self.may_prepare(key, &request, raw.len()),
            (_, Kind::Kill(_)) => {
                with_text_of(&mut raw, |text| self.is_for_the_server(key, &mut request, text))
            }
            // Nobody else looks at a large text any more, which may have to be put together for that.
            _ => self.is_for_the_server(key, &mut request, b""),
        };
        if goes_on {
            request.raw = raw;
            self.queue_request(key, request);
        }
        if self.clients.contains(key) && matches!(self.clients[key].phase(), Phase::Idle) {
            self.drain_client(key);
        }
    }

    /// Returns the mode in which the lexer has to read this client's text.
    pub(crate) fn lex_mode(&self, key: ClientKey) -> sql::LexMode {
        self.clients[key].lex_mode(&self.sessions.states, self.servers.primary())
    }
}

#[cfg(test)]
pub(crate) mod tests;
