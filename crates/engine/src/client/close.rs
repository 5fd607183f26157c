//! The end of a client for any reason, of transactions that stay open, and of statements that nobody should wait for.
//! And a client's leave from this process for another.

use super::frozen::{Aside, Common, FrozenClient};
use super::login::attempt::Login;
use super::memory::client_memory::{LOGIN_MEMORY_USED_UP, MEMORY_USED_UP};
use super::memory::session_memory::{ONES_SHARE, USED_UP as SESSION_MEMORY_USED_UP};
use super::{LossKind, Phase, Running};
use crate::engine::Engine;
use crate::errors::{Bound, MySqlError, ServerError};
use crate::frozen::plain::{bytes_of, read};
use crate::frozen::{NotFrozen, NotThawed};
use crate::ids::ClientKey;
use crate::io::Role;
use crate::outside::event::Event;
use crate::outside::kills_under_way::LONGEST;
use crate::outside::named::{ClosedFor, Limit};
use crate::request::Request;
use crate::scheduling::overload::abandoned::Abandoned;
use crate::scheduling::overload::ending::{EndOfAbandoned, EndOfTransaction, Overdue, TooSlow};
use crate::scheduling::scheduler::frozen::FrozenWait;
use crate::server::control::facts::Facts;
use seam::{CloseReason, Instant};

impl Engine {
    /// Closes a client for a reason that an operator may want to read, in the log and by kind among the metrics.
    pub(crate) fn close_client(&mut self, key: ClientKey, closed_for: ClosedFor, reason: &str) {
        let Some(client) = self.clients.get(key) else { return };
        let (peer, id) = (client.peer, client.id);
        self.views.event(Event::ClientClosed { peer, client: id, closed_for, reason: reason.to_owned() });
        self.drop_client(key);
    }

    /// Closes a client that does not speak the protocol, or not in order.
    pub(crate) fn close_malformed(&mut self, key: ClientKey, reason: &str) {
        self.close_client(key, ClosedFor::Protocol, reason);
    }

    /// Ends a client that has been idle for too long, between two commands or within one. Both servers read the whole of a
    /// command with `wait_timeout` (`do_command`). They take `net_read_timeout` only for what they read behind it, files of
    /// LOAD DATA LOCAL. MariaDB says nothing then. MySQL gives the reason since 8.0.24 (net_serv.cc, `net_read_raw_loop`):
    /// ER_CLIENT_INTERACTION_TIMEOUT where the first header does not come, ER_NET_READ_INTERRUPTED behind that.
    pub(crate) fn end_idle_client(&mut self, key: ClientKey) {
        let headers = wire::headers_read(&self.clients[key].input);
        let (error, reason) = match headers {
            0 => (MySqlError::idle_too_long(), "idle for wait_timeout"),
            _ => (MySqlError::read_timeout(), "nothing more of its command for wait_timeout"),
        };
        if self.servers.primary().facts.as_ref().is_some_and(Facts::tells_idle_clients) {
            self.answers().error(key, headers, &error);
        }
        self.close_client(key, ClosedFor::WaitTimeout, reason);
    }

    /// Answers a request with the server's own error. Where the request was about a login's schema, the error ends the login.
    pub(crate) fn answer_server_error(&mut self, client: ClientKey, request: &Request, error: &ServerError) {
        if let Some(refused) = self.answers().server_error(client, request, error) {
            self.schema_refused(client, &refused.error, &refused.reason);
            self.close_client(client, ClosedFor::LoginRefused, &refused.reason);
        }
    }

    /// Ends the logins that wait for the schema check of the client that asked, with this error.
    pub(crate) fn schema_refused(&mut self, asked: ClientKey, error: &[u8], reason: &str) {
        for (key, sequence) in self.logins.schemas.end_check(asked, &self.clients) {
            self.io.send_packet_to(self.clients[key].connection, sequence, error);
            self.close_client(key, ClosedFor::LoginRefused, reason);
        }
    }

    /// Tells clients that another kind of server has taken the place of the one that they were greeted for, and lets them go.
    pub(crate) fn disappoint_clients(&mut self) {
        let keys: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in keys {
            // Closing one may take others with it.
            let Some(client) = self.clients.get_mut(key) else { continue };
            match *client.phase() {
                Phase::AwaitingServer => {}
                Phase::Login(_) => self.close_client(
                    key,
                    ClosedFor::ServerReplaced,
                    "the server was replaced during its login",
                ),
                Phase::Queued => {
                    if !client.loss.wants_end {
                        self.cancel_queued(key, &MySqlError::server_replaced());
                    }
                    self.close_client(
                        key,
                        ClosedFor::ServerReplaced,
                        "the server was replaced by another kind",
                    );
                }
                _ => client.loss.kind = Some(LossKind::Server),
            }
        }
    }

    /// Closes a client once what was sent to it is out.
    pub(crate) fn drop_client(&mut self, key: ClientKey) {
        if self.is_reader() {
            return self.return_guest(key, true);
        }
        let connection = self.clients[key].connection;
        self.io.outbox.close(connection);
        self.forget_client(key);
    }

    /// While draining, closes a client as soon as nothing of it is open.
    pub(crate) fn drain_client(&mut self, key: ClientKey) {
        if !self.orders.is_draining() || !self.clients.contains(key) {
            return;
        }
        let client = &self.clients[key];
        let waiting = matches!(client.phase(), Phase::Idle | Phase::Login(_) | Phase::AwaitingServer);
        // A replica waits for events that are to come, and connects again.
        let replicates = matches!(client.phase(), Phase::Running(Running::Replicating { .. }));
        if replicates || (waiting && !client.in_transaction() && client.session.unstarted().is_none()) {
            self.drop_client(key);
        }
    }

    /// Takes in the end of a client's connection, and its reason.
    pub(crate) fn client_ended(&mut self, key: ClientKey, reason: CloseReason) {
        if reason == CloseReason::TooMuchHeld && self.clients[key].identity().is_none() {
            self.note_refused(key, (Limit::LoginMemory, self.settings.login_memory as u64));
            return self.close_client(key, ClosedFor::Memory, LOGIN_MEMORY_USED_UP);
        }
        if reason == CloseReason::TooMuchHeld {
            self.note_refused(key, (Limit::StatementMemory, self.settings.statement_memory as u64));
            return self.close_client(key, ClosedFor::Memory, MEMORY_USED_UP);
        }
        self.client_gone(key);
    }

    /// Takes in the end of a client's connection that came by itself.
    pub(crate) fn client_gone(&mut self, key: ClientKey) {
        self.forget_client(key);
    }

    /// Takes a client out of everything. A statement of the client that waits never runs. One that runs is answered to nobody.
    pub(crate) fn forget_client(&mut self, key: ClientKey) {
        match self.clients[key].phase() {
            Phase::Queued => {
                self.views.totals.cancelled += 1;
                let (views, around) = self.slow_log();
                views.note_slow_wait(&around, key, None);
                self.coalescing().leave_group(key);
                self.scheduling.note_abandoned_wait(self.now, &self.settings, key, &self.clients[key]);
                self.scheduling.scheduler.remove(key);
            }
            Phase::Preparing | Phase::Running(_) | Phase::Settling => self.abandon_statement(key),
            Phase::Login(Login::AwaitingFinding(attempt)) => {
                let task = attempt.task;
                self.io.tasks.give_up(task);
            }
            Phase::Login(Login::AwaitingServer(attempt)) => {
                self.logins.claims.leave(self.clients.ref_to(key), &self.clients[key].peer, attempt);
            }
            &Phase::Login(Login::Refused(place)) => {
                self.logins.late_refusals.remove(place);
            }
            Phase::Reading(_) => {
                self.client_memory.forget_reading(&mut self.clients[key], &mut self.io.tasks);
            }
            Phase::Lent(_) => self.forget_lent(key),
            Phase::AwaitingServer
            | Phase::Login(_)
            | Phase::Idle
            | Phase::Following { .. }
            | Phase::Killing(_) => {}
        }
        self.take_request(key);
        if let Some((next, request)) = self.logins.schemas.client_left(key, &self.clients) {
            self.queue_request(next, request);
        }
        self.forget_session(key);
        self.client_memory.count_off_input(&mut self.clients[key]);
        let client = self.clients.remove(key);
        self.ids.gone(client.id);
        self.pool.workers.give_client();
        self.io.set_role(client.connection, Role::Free);
    }

    /// Lets the statement go on without its client. Its backend is cleaned before anybody else gets it.
    fn abandon_statement(&mut self, key: ClientKey) {
        if self.coalescing().hand_over(key) {
            return;
        }
        self.scheduling.note_abandoned_start(self.now, key, &self.clients[key]);
        let Some(backend) = self.clients[key].backend.take() else { return };
        self.clients[key].activity.stalled_since = None;
        let (views, around) = self.slow_log();
        views.note_slow_abandoned(&around, key, backend);
        self.overdue().note_abandoned(key, backend);
        let state = &mut self.servers[backend];
        state.is_abandoned(self.now, key);
        if let Some(backend) = self.servers.get_mut(backend) {
            backend.read_again(&mut self.io.outbox);
        }
        self.servers[backend].take_permit_back(&mut self.scheduling.scheduler);
        match *self.clients[key].phase() {
            // The server waits for the rest of a file that nobody will send.
            Phase::Running(Running::Uploading { .. }) => {
                self.close_backend(backend, "its client went away in the middle of LOAD DATA LOCAL INFILE");
            }
            // It would wait for events without an end.
            Phase::Running(Running::Replicating { .. }) => {
                self.close_backend(backend, "its client went away, which read the binary log");
            }
            _ => {}
        }
    }

    /// Answers the first command after a backend was lost with something that cannot be had again. The connection ends
    /// with the answer, as a direct one would have: going on would run the rest of a transaction outside of it. With
    /// several servers a transaction that is lost is said to be rolled back instead, and the connection goes on.
    pub(crate) fn answer_lost(&mut self, key: ClientKey, lost: LossKind, sequence: u8) {
        if lost == LossKind::Transaction && self.settings.cluster.several {
            return self.tell_rolled_back(key, sequence);
        }
        let error = match (lost, self.settings.overload.bound_behind(lost)) {
            (LossKind::IdleTooLong, Some(bound)) => MySqlError::transaction_idle(&bound),
            (LossKind::OpenTooLong, Some(bound)) => MySqlError::transaction_over(&bound),
            (LossKind::HeldIdle, Some(bound)) => MySqlError::held_idle(&bound),
            (LossKind::PinnedState, _) => MySqlError::pinned_state_lost(),
            (LossKind::Server, _) => MySqlError::server_replaced(),
            _ => MySqlError::server_lost(true),
        };
        if !self.clients[key].loss.wants_end || !error.is_clients() {
            self.answers().error(key, sequence, &error);
        }
        self.close_client(key, lost.closes_for(), &error.message);
    }

    /// Closes clients that have been idle for `wait_timeout`, their own or that of all, or have not taken a reply for `net_write_timeout`.
    pub(crate) fn sweep_clients(&mut self) {
        self.close_largest_holders();
        let (now, settings) = (self.now, &self.settings);
        let (idle, stalled) = (settings.wait_timeout, settings.net_write_timeout);
        // A KILL waits so long for a backend to be opened, and then for the server's answer.
        let kill_by_server = settings.backend_connect_timeout + LONGEST;
        let (mut idle_ones, mut stalled_ones, mut killers) = (Vec::new(), Vec::new(), Vec::new());
        for (key, client) in self.clients.iter() {
            match (client.phase(), client.activity.stalled_since) {
                (Phase::Idle, None) if client.is_idle_too_long(now, idle) => idle_ones.push(key),
                (_, Some(since)) if now.since(since) > stalled => stalled_ones.push(key),
                (Phase::Killing(killing), _) if killing.is_over(now, kill_by_server) => killers.push(key),
                _ => {}
            }
        }
        for key in killers {
            self.give_up_killing(key);
        }
        for key in idle_ones {
            self.end_idle_client(key);
        }
        for key in stalled_ones {
            self.close_client(
                key,
                ClosedFor::NetWriteTimeout,
                "took none of its reply for net_write_timeout",
            );
        }
    }

    /// Ends logins where they hold too much together.
    pub(super) fn keep_to_login_memory(&mut self) {
        let most = self.pool.login_memory(&self.settings);
        if self.client_memory.logins.bytes() <= most {
            return;
        }
        self.views.limit_reached(self.now, Limit::LoginMemory, self.settings.login_memory as u64);
        for key in self.client_memory.logins_to_end(&self.clients, most) {
            let error = MySqlError::login_memory(self.settings.login_memory);
            let client = &self.clients[key];
            match *client.phase() {
                Phase::AwaitingServer => self.io.send_early_error(client.connection, &error),
                Phase::Login(Login::StartingTls) => {}
                // The number that the packet has of which this is the beginning.
                _ => {
                    let next = client.input.get(wire::HEADER_LEN - 1).map_or(1, |last| last.wrapping_add(1));
                    self.answers().error(key, next, &error);
                }
            }
            self.close_client(key, ClosedFor::Memory, LOGIN_MEMORY_USED_UP);
        }
    }

    /// Ends clients that hold too much session memory alone. Where all clients hold too much together, ends the largest
    /// holders until a quarter of this worker's share is free, so that all are gone through seldom.
    pub(crate) fn keep_to_session_memory(&mut self) {
        for key in self.client_memory.beyond_ones_share(&self.clients) {
            self.end_for_session(key, ONES_SHARE);
        }
        let most = self.settings.session_memory / self.pool.workers.count() as usize;
        if !self.client_memory.lacks_session_memory(self.now, &mut self.sessions, most) {
            return;
        }
        let mut holders = self.sessions.states.holders(&self.clients);
        // How much an end frees hangs on who else has the same state.
        while self.client_memory.session_memory_held(&self.sessions) > most / 4 * 3 {
            let Some((_, key)) = holders.pop() else { return };
            self.end_for_session(key, SESSION_MEMORY_USED_UP);
        }
    }

    fn end_for_session(&mut self, key: ClientKey, reason: &str) {
        let limit = self.settings.session_memory;
        self.note_refused(key, (Limit::SessionMemory, limit as u64));
        self.answers().error(key, 1, &MySqlError::session_memory(limit));
        self.close_client(key, ClosedFor::Memory, reason);
    }

    /// True where there is no room for one more statement, after clients were closed to make some. A client may have gone.
    pub(crate) fn lacks_statement_memory(&mut self) -> bool {
        let limit = self.settings.statement_memory;
        if self.client_memory.statement_memory_held(&self.pool) <= limit {
            return false;
        }
        self.views.limit_reached(self.now, Limit::StatementMemory, limit as u64);
        self.close_holders_of_incomplete(true);
        self.client_memory.statement_memory_held(&self.pool) > limit
    }

    /// Closes the largest holders now and then: other workers' clients cannot be closed from where their memory is missed.
    fn close_largest_holders(&mut self) {
        let limit = self.settings.statement_memory;
        if self.client_memory.statement_memory_held(&self.pool) > limit / 8 * 7
            && self.close_holders_of_incomplete(false)
        {
            self.views.limit_reached(self.now, Limit::StatementMemory, limit as u64);
        }
    }

    /// Closes the clients that keep most of `statement_memory` from others. True where there were any.
    fn close_holders_of_incomplete(&mut self, others_too: bool) -> bool {
        let limit = self.settings.statement_memory;
        let held = self.client_memory.statement_memory_held(&self.pool);
        let to_close =
            self.client_memory.holders_to_close(self.now, &self.clients, (held, limit), others_too);
        for &key in &to_close {
            self.answers().error(key, 1, &MySqlError::statement_memory(limit));
            self.close_client(key, ClosedFor::Memory, MEMORY_USED_UP);
        }
        !to_close.is_empty()
    }

    /// Returns the view of all that may have lasted for too long.
    pub(crate) fn overdue(&mut self) -> Overdue<'_> {
        let Self { now, settings, clients, servers, scheduling, .. } = self;
        Overdue { now: *now, settings, clients, servers, scheduling }
    }

    /// Notes that a client is refused or loses something, since it has reached a limit.
    pub(crate) fn note_refused(&mut self, key: ClientKey, reached: (Limit, u64)) {
        self.views.note_refused(self.now, reached, &self.clients[key], &self.logins.identities);
    }

    /// Ends statements that are over their time, and those that nobody waits for.
    pub(crate) fn end_overdue(&mut self) {
        for key in self.overdue().with_slow_statements() {
            let Some(TooSlow { client, followers }) = self.overdue().end_slow(key) else { continue };
            let id = self.clients[client].id;
            let bound = Bound::time(Limit::QueryTimeout, self.settings.overload.query_timeout);
            for each in followers.into_iter().chain([client]) {
                self.note_refused(each, bound.reached());
            }
            self.end_group(key, &MySqlError::interrupted());
            self.kill(id, true);
        }
        for key in self.scheduling.to_be_ended.take_cancelled() {
            if let Some(client) = self.overdue().end_cancelled(key) {
                let id = self.clients[client].id;
                self.kill(id, true);
            }
            self.overdue().keep_to_be_cancelled(key);
        }
        for abandoned in self.scheduling.to_be_ended.take_abandoned() {
            self.end_abandoned(abandoned);
        }
    }

    fn end_abandoned(&mut self, abandoned: Abandoned) {
        let key = abandoned.backend;
        let several = self.settings.cluster.several;
        let backend = self.servers.get(key);
        let is_former = backend.is_some_and(|backend| self.following.is_former(several, backend.place()));
        match self.overdue().end_abandoned(&abandoned, is_former) {
            EndOfAbandoned::None => return,
            EndOfAbandoned::GiveUp => return self.give_up_backend(key, "nobody waits for what runs there"),
            EndOfAbandoned::Kill(carrier, ending) => return self.sending().kill(carrier, ending),
            EndOfAbandoned::Open => self.open_backend_like(key),
            EndOfAbandoned::Later => {}
        }
        self.scheduling.to_be_ended.goes_on(abandoned);
    }

    /// Closes the backends of statements that nobody has waited for since long.
    pub(crate) fn sweep_abandoned(&mut self) {
        for key in self.overdue().long_abandoned() {
            let limit = self.settings.overload.abandoned_timeout.as_secs();
            self.views.limit_reached(self.now, Limit::AbandonedTimeout, limit);
            let reason = "what runs on it has been waited for by nobody for abandoned_timeout";
            // Where its server is the primary no more, a request that has not arrived there must not do so later.
            match self.following.is_former(self.settings.cluster.several, self.servers[key].place()) {
                true => self.give_up_backend(key, reason),
                false => self.close_backend(key, reason),
            }
        }
    }

    /// Ends transactions that have been open, or idle, for too long. Takes from idle clients the backends that others
    /// need. Runs once a second, as other timeouts of clients do.
    pub(crate) fn sweep_transactions(&mut self) {
        let (scheduling, parties, clients, _) = self.queues();
        for key in scheduling.idle_holders_to_end(&parties, clients) {
            let bound = self.settings.overload.idle_hold_bound();
            self.note_refused(key, bound.reached());
            self.take_backend_from_idle(key, LossKind::HeldIdle);
        }
        for (key, lost) in self.overdue().transactions() {
            self.end_transaction(key, lost);
        }
    }

    fn end_transaction(&mut self, key: ClientKey, lost: LossKind) {
        let end = self.clients[key].end_of_transaction();
        if matches!(end, EndOfTransaction::Later) {
            return;
        }
        // Behind what follows, the client may be gone.
        if let Some(bound) = self.settings.overload.bound_behind(lost) {
            self.note_refused(key, bound.reached());
        }
        match end {
            EndOfTransaction::Later => {}
            EndOfTransaction::WithItsBackend => self.take_backend_from_idle(key, lost),
            EndOfTransaction::WithAnAnswer => {
                self.scheduling.scheduler.remove(key);
                let answer = self.take_request(key).map_or(1, |request| request.answer);
                self.clients[key].cancel();
                self.answer_lost(key, lost, answer);
            }
            EndOfTransaction::ByKill => {
                let id = self.clients[key].id;
                self.kill(id, false);
            }
        }
    }

    /// Takes an idle client's backend away, which rolls its transaction back and frees its locks at once. The client
    /// hears of it in the answer to its next command, after which its connection ends. An error that nobody has asked
    /// for would find no reader.
    fn take_backend_from_idle(&mut self, key: ClientKey, lost: LossKind) {
        let client = &mut self.clients[key];
        client.loss.kind = Some(lost);
        client.session.aftermath.insert_id_lost();
        if let Some(backend) = client.backend.take() {
            self.reset_backend(backend);
        }
        self.clients.server_keeps_up(key, &mut self.io.outbox);
    }

    /// Turns the client at this place in the table into bytes, and the bytes into a client that takes its place. Places
    /// go on from the first behind the last. Nobody may notice. Says whether a statement of the client waits. For
    /// tests: between two turns, at the time of the next one.
    ///
    /// `None` where there is no client.
    ///
    /// # Errors
    ///
    /// Where the client cannot be frozen as it is.
    ///
    /// # Panics
    ///
    /// If the bytes are not read as what they were made of, or something in them is unknown here.
    pub fn freeze_and_thaw_client(&mut self, now: Instant, place: usize) -> Option<Result<bool, NotFrozen>> {
        let place = place.checked_rem(self.clients.len())?;
        let (key, client) = self.clients.iter().nth(place)?;
        // The identities go along as a table, also those that nobody but clients hold.
        let identity = client.identity().map(|identity| self.logins.identities.hold_again(identity));
        let outcome = self.freeze_client(now, key).map(|(frozen, aside)| {
            let bytes = bytes_of(&frozen);
            self.thaw_client_at(now, key, &bytes, aside);
            // What has been lost on the way is missing in the second plain form.
            let (again, aside) = self.freeze_client(now, key).expect("it could be a moment ago");
            assert_eq!(again, frozen, "nothing of a client is lost");
            self.thaw_client_at(now, key, &bytes, aside);
            frozen.waits().is_some()
        });
        if let Some(identity) = identity {
            self.release_identity(identity);
        }
        Some(outcome)
    }

    /// Lets a client go on from bytes, in a place that is free and the next to be taken.
    fn thaw_client_at(&mut self, now: Instant, key: ClientKey, bytes: &[u8], aside: Aside) {
        let thawed = read::<FrozenClient>(bytes).ok_or(NotThawed::Unreadable);
        let there = thawed.and_then(|thawed| self.thaw_client(now, thawed, aside));
        assert_eq!(there, Ok(key), "a client takes the place that is free");
    }

    /// Takes a client out of everything, as plain data, and without a word to anybody.
    pub(super) fn freeze_client(
        &mut self,
        now: Instant,
        key: ClientKey,
    ) -> Result<(FrozenClient, Aside), NotFrozen> {
        self.clients[key].can_be_frozen()?;
        let (waits, aside) = self.scheduling.freeze_place(now, &self.clients, key)?;
        let client = self.clients.remove(key);
        if let Some(backend) = client.backend.and_then(|backend| self.servers.get_mut(backend)) {
            backend.leaves_holder();
        }
        if client.identity().is_some() {
            self.views.measures.logged_in -= 1;
        }
        self.client_memory.beyond_share.retain(|holder| holder.key != key);
        self.ids.gone(client.id);
        self.pool.workers.give_client();
        self.io.set_role(client.connection, Role::Free);
        let aside = Aside { goes_on: self.resume.forget(key), ..aside };
        Ok((client.freeze(waits, &mut self.common_of_clients(now)), aside))
    }

    /// Lets a client go on from plain data. A client that waits for another one's answer goes on behind that one.
    pub(super) fn thaw_client(
        &mut self,
        now: Instant,
        frozen: FrozenClient,
        aside: Aside,
    ) -> Result<ClientKey, NotThawed> {
        let waits = frozen.waits();
        let group = match waits {
            Some(FrozenWait::Follows { leader }) => {
                let leader = self.ids.client_with(leader);
                let group = leader.and_then(|leader| self.coalescing().group_led_by(leader));
                Some(group.ok_or(NotThawed::UnknownLeader)?)
            }
            _ => None,
        };
        let client = frozen.thaw(&mut self.common_of_clients(now))?;
        let (id, connection, backend) = (client.id, client.connection, client.backend);
        let has_logged_in = client.identity().is_some();
        let key = self.clients.insert(client);
        self.client_memory.count_session(key, &mut self.clients[key]);
        self.ids.come(id, key);
        self.pool.workers.take_client();
        self.io.set_role(connection, Role::Client(key));
        self.views.measures.logged_in += u32::from(has_logged_in);
        if let Some(backend) = backend.and_then(|backend| self.servers.get_mut(backend)) {
            backend.goes_to(key);
        }
        if let Some(FrozenWait::InQueue { place, leads }) = waits {
            self.clients[key].queue();
            self.scheduling.scheduler.thaw(now, key, place, aside.next_in_queue);
            if leads {
                self.coalescing().lead_again(key, aside.group);
            }
        }
        if let Some(group) = group {
            self.coalescing().follow_again(key, group);
        }
        if aside.goes_on {
            self.resume.push_later(key);
        }
        Ok(key)
    }

    fn common_of_clients(&mut self, now: Instant) -> Common<'_> {
        Common {
            now,
            sessions: &mut self.sessions,
            identities: &mut self.logins.identities,
            memory: &mut self.client_memory,
            servers: &self.servers,
            holdups: &self.scheduling.holdups,
            arrivals: self.pool.workers.arrivals(),
            prepared_statement_memory: self.settings.prepared_statement_memory,
        }
    }
}
