//! The way from the server back to the client: relays an answer, and draws the consequences at its end, also for clients that wait for the
//! same answer ([`crate::scheduling::coalescing`]). Decides about statements in flight that get no answer: they go elsewhere, or are lost with their
//! backend.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use wire::StatusFlags;

use crate::backend::from_server::executed::Ended;
use crate::backend::from_server::relay::{LARGEST_KEPT, Relay, Withholds};
use crate::backend::from_server::unreported_variables::SessionOnBackend;
use crate::backend::scheduling::rescue::Rescued;
use crate::backend::to_server::preparing::LARGEST_ANSWER;
use crate::backend::{Ends, InFlight, Owner, Phase};
use crate::client::session::trackers::told;
use crate::client::{Client, Phase as ClientPhase};
use crate::cluster::elsewhere::Fate;
use crate::cluster::sent_before::SentBefore;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey};
use crate::outside::event::Event;
use crate::outside::named::{ClosedFor, Limit};
use crate::outside::slow_log::SlowEnd;
use crate::request::{Request, RequestKind};
use crate::scheduling::coalescing::Coalescing;
use crate::scheduling::coalescing::followers::followers_of;
use crate::scheduling::coalescing::group::CoalescedGroup;
use crate::scheduling::shares::Parties;
use crate::session::aftermath::Diagnostics;

/// Largest answer for a client that has gone which is read to its end, in bytes. A new backend costs less than reading more.
const LARGEST_UNWANTED: u64 = 1 << 20;

impl Engine {
    /// Takes bytes of the server on a backend, cut anywhere. Each byte belongs to the first statement in flight.
    pub(crate) fn backend_bytes(&mut self, key: BackendKey, mut bytes: &[u8]) {
        if matches!(self.servers[key].phase(), Phase::LoggingIn(_)) {
            return self.backend_login_bytes(key, bytes);
        }
        while !bytes.is_empty() && self.servers.contains(key) {
            let Some(statement) = self.servers[key].in_flight.front() else {
                return self.unasked_bytes(key, bytes);
            };
            let owner = statement.owner;
            let withholds = self.withholds(key, owner);
            let (to, keep) = self.goes_to(owner);
            let share = self.pool.held_answer_memory(&self.settings);
            let kept = self.servers.may_keep(key, keep, bytes.len(), share);
            if kept.lacks_memory {
                let limit = self.settings.held_answer_memory as u64;
                self.views.limit_reached(self.now, Limit::HeldAnswerMemory, limit);
            }
            let server = self.servers.of_mut(key);
            let statement = server.backends[key].in_flight.front_mut().expect("it is there");
            let client =
                statement.owner.client().filter(|_| to.is_some()).map(|client| &self.clients[client]);
            let mut relay = Relay {
                outbox: &mut self.io.outbox,
                to,
                keep: kept.bytes,
                holds: client.is_some_and(Client::holds_answer),
                group: statement.group.as_deref_mut().filter(|_| to.is_some()),
                told: client.and_then(|client| told(client, server.facts.as_ref(), &self.sessions.states)),
                keeps_changes: client.is_some_and(Client::keeps_changes),
                withholds,
                summary: &mut statement.summary,
            };
            let progress = match statement.reader.read(bytes, &mut relay) {
                Ok(progress) => progress,
                Err(error) => {
                    return self.close_backend(key, &format!("the server broke the protocol: {error}"));
                }
            };
            bytes = &bytes[progress.consumed..];
            let reply_size = self.settings.coalescing.reply_size;
            if statement.group.as_ref().is_some_and(|group| group.outgrown(reply_size)) {
                self.coalescing().dissolve_group(key);
            }
            let backend = &mut self.servers[key];
            if progress.done {
                let statement = backend.in_flight.pop_front().expect("it was the first");
                backend.locks.waits = false;
                let took = self.now.since(std::mem::replace(&mut backend.first.since, self.now));
                if std::mem::take(&mut backend.first.is_alone) {
                    self.pool.workers.way.note(took);
                }
                self.statement_ended(key, statement, took);
            } else {
                self.statement_goes_on(key);
            }
        }
    }

    /// Returns the errors of the server that the client does not hear, since its statement goes elsewhere.
    fn withholds(&mut self, key: BackendKey, owner: Owner) -> Withholds {
        let of_client =
            matches!(owner, Owner::Client { command: RequestKind::Query | RequestKind::Execute, .. });
        match self.is_reader() {
            // What a replica lacks, or has in another way, the primary may have.
            true if of_client => Withholds::Errors,
            false if self.elsewhere().may_go(key) => Withholds::Refusals,
            _ => Withholds::Nothing,
        }
    }

    /// Returns the connection of the client that hears an answer as it comes, and the number of its bytes that may be kept here.
    fn goes_to(&self, owner: Owner) -> (Option<seam::ConnectionId>, usize) {
        match owner {
            Owner::Client { client, .. } if owner.is_heard() => {
                let client = &self.clients[client];
                (Some(client.connection), client.keeps())
            }
            // The client has a number of its own for the statement, and the server may have to be asked again.
            Owner::Client { command: RequestKind::Prepare, .. } => (None, LARGEST_ANSWER),
            Owner::Client { .. } | Owner::Abandoned => (None, 0),
            _ => (None, LARGEST_KEPT),
        }
    }

    /// Closes a backend that the server speaks to out of turn: the server says why it is about to close (a shutdown, a timeout).
    fn unasked_bytes(&mut self, key: BackendKey, bytes: &[u8]) {
        let said = bytes.get(wire::HEADER_LEN..).filter(|payload| payload.first() == Some(&0xff));
        let reason = match said.and_then(|payload| wire::ErrPacket::parse(payload).ok()) {
            Some(error) => format!("the server said: {}", String::from_utf8_lossy(error.message)),
            None => String::from("the server sent bytes that answer nothing"),
        };
        self.close_backend(key, &reason);
    }

    /// Looks at an answer that is not complete: the server may have asked for a file, or nobody may want the rest.
    fn statement_goes_on(&mut self, key: BackendKey) {
        let backend = &mut self.servers[key];
        let alone = backend.in_flight.len() == 1;
        let Some(statement) = backend.in_flight.front_mut() else { return };
        match statement.owner {
            Owner::Client { client, command } => {
                if let Some(sequence) = statement.summary.file.asked.take() {
                    let shift = statement.reader.sequence_shift_to_backend();
                    let next = sequence.wrapping_add(1).wrapping_sub(shift);
                    self.clients[client].upload(false, next);
                    self.servers[key].lend_permit(&mut self.scheduling.scheduler);
                    self.resume.push(client);
                } else if command == RequestKind::BinlogDump && statement.summary.log_begun {
                    // What the client has sent meanwhile may follow.
                    if self.clients[client].begin_log() {
                        self.resume.push(client);
                    }
                }
            }
            Owner::Abandoned if statement.summary.file.asked.is_some() => {
                self.close_backend(
                    key,
                    "its client went away before LOAD DATA LOCAL INFILE asked for the file",
                );
            }
            Owner::Abandoned if alone && statement.summary.relayed > LARGEST_UNWANTED => {
                self.close_backend(key, "its client went away in the middle of a large result");
            }
            _ => {}
        }
    }

    /// Counts a statement for its user and schema, where anybody wants to know.
    fn tally(&mut self, statement: &InFlight, took: Duration) {
        let Owner::Client { client, .. } = statement.owner else { return };
        if self.settings.metrics_top == 0 {
            return;
        }
        let Some(client) = self.clients.get(client) else { return };
        let user = client.identity().map(|identity| &*self.logins.identities.identity(identity).user);
        let session = client.session.id().map(|session| self.sessions.states.state(session));
        let schema = session.and_then(|session| session.schema.as_deref());
        self.views.tallies.note(user.unwrap_or_default(), schema.unwrap_or_default(), took);
    }

    /// Draws the consequences of a complete answer.
    fn statement_ended(&mut self, key: BackendKey, mut statement: InFlight, took: Duration) {
        self.servers.of_mut(key).lock_wait_ended(self.now, key, &mut self.scheduling.waits);
        self.servers.of_mut(key).answered_before_closing(&mut self.pool, key);
        let (settings, in_use) = (&self.settings, self.servers.backends_in_use());
        let kind = || statement.kind(&self.clients, &self.sessions.states);
        if self.scheduling.note_progress(self.now, settings, &self.pool, in_use, kind) {
            let (scheduling, parties, clients, servers) = self.queues();
            scheduling.leave_contended_lanes(&parties, clients, servers);
        }
        let ended = (took, self.servers[key].runs_long.is_some());
        self.scheduling.note_history(self.now, &self.pool, &statement, ended);
        if let Some(command) = statement.owner.command() {
            let error = statement.summary.error.as_ref().map(|error| error.code);
            self.views.measures.note_ended(command, error, took);
        }
        self.tally(&statement, took);
        let (views, around) = self.slow_log();
        views.note_slow_end(&around, key, &statement, took);
        if statement.shared {
            self.servers.of_mut(key).rescues.answered();
            self.servers.of_mut(key).take_over_emptied(key, &mut statement, &self.clients);
        }
        let (settings, workers) = (&self.settings, &self.pool.workers);
        self.scheduling.note_long(self.now, settings, workers, &self.servers, (key, &statement), took);
        let owner = statement.owner.client().and_then(|client| self.clients.get(client));
        if let Some(backend) = self.servers.get_mut(key) {
            backend.note_diagnostics_area(owner.map(|client| client.id), &statement.summary);
            // Whoever was slow has its answer now, and what follows is for somebody else.
            backend.read_again(&mut self.io.outbox);
        }
        match statement.owner {
            Owner::Client { client, command } if statement.summary.withheld && self.is_reader() => {
                self.guest_refused(key, client, command, &mut statement);
            }
            Owner::Client { client, .. } if statement.summary.withheld => {
                self.refused_by_role(key, client, &mut statement);
            }
            Owner::Client { client, command } => match statement.group.take() {
                Some(group) => self.group_ended(key, client, &mut statement, group),
                None => {
                    let (servers, summary) = (&mut self.servers, &statement.summary);
                    match self.clients[client].ends_behind_answer(key, servers, summary) {
                        Some(reason) => self.close_client(client, ClosedFor::BackendLost, reason),
                        None => self.client_statement_ended(key, client, command, &mut statement),
                    }
                }
            },
            Owner::Setup => self.backend_set_up(key, &statement.summary),
            Owner::ApplyState { client } => self.state_applied(key, client, &statement),
            Owner::ApplyDefinition { client } => self.definition_state_applied(key, client, &statement),
            Owner::Prepare { client } => self.prepared_ahead(key, client, &statement),
            Owner::SaveDiagnostics { client } => {
                self.diagnostics_saved(key, client, &mut statement.summary);
                if let Some(group) = &statement.group {
                    self.share_diagnostics(client, group);
                }
            }
            Owner::SaveInsertId { client } => self.insert_id_saved(key, client, &statement.summary),
            Owner::ReadStatus { client } => self.status_told(key, client, &mut statement.summary),
            Owner::ReadVariables { client } => self.unreported_answered(key, client, &mut statement.summary),
            Owner::Reset => self.backend_was_reset(key, &statement.summary),
            Owner::RestoreWaitTimeout if statement.summary.error.is_some() => {
                self.close_backend(key, "its wait_timeout could not be set back");
            }
            Owner::RestoreWaitTimeout => self.servers[key].session.wait_timeout = None,
            Owner::Closing => self.servers.of_mut(key).closing_ended(&mut self.pool),
            Owner::Abandoned => {
                self.servers.abandoned_ended(&self.pool, &mut self.sessions.states, key, &statement);
            }
            Owner::SetOption => {}
        }
        self.backend_rests(key);
    }

    /// Puts a backend to rest where nothing is left in flight. Its permit goes back, and a backend that nobody holds becomes free.
    pub(crate) fn backend_rests(&mut self, key: BackendKey) {
        if self.servers.get(key).is_none_or(|backend| !backend.in_flight.is_empty() || !backend.is_ready()) {
            return;
        }
        self.kill_answered(key);
        let kept = self.scheduling.scheduler.keeps_permits()
            && self.servers[key].holder.is_some_and(|client| self.clients[client].in_transaction());
        if !kept {
            self.servers[key].give_permit(&mut self.scheduling.scheduler);
        }
        if let Some(allowed) = self.servers[key].runs_long.take() {
            self.scheduling.scheduler.finish_long(allowed);
        }
        self.servers.contender_rests(key, &self.clients);
        self.servers.of_mut(key).sharing.remove(key);
        if self.servers[key].holder.is_none() {
            self.free_backend(key);
        }
    }

    /// Borrows a client's session and the backend on which its statement has run.
    pub(in crate::backend) fn session_on(&mut self, key: BackendKey, own: ClientKey) -> SessionOnBackend<'_> {
        let Self { clients, servers, sessions, client_memory, .. } = self;
        SessionOnBackend { own, client: &mut clients[own], key, servers, sessions, client_memory }
    }

    /// Borrows the clients that have reads which run together.
    pub(crate) fn coalescing(&mut self) -> Coalescing<'_> {
        let Self { now, settings, pool, logins, sessions, scheduling, clients, client_memory, .. } = self;
        let parties = Parties::new(*now, settings, pool, logins, sessions);
        let (servers, outbox) = (&mut self.servers, &mut self.io.outbox);
        Coalescing { parties, scheduling, clients, client_memory, servers, outbox }
    }

    /// Tells the others that wait for a statement's answer that it is about to be ended, since it has run for too long.
    pub(crate) fn end_group(&mut self, backend_key: BackendKey, error: &MySqlError) {
        for follower in self.servers.followers_behind(backend_key, &self.clients) {
            self.cancel_queued(follower, error);
        }
    }

    /// Takes the request of a follower that is answered with the leader, and counts its wait.
    fn take_answered(&mut self, key: ClientKey) -> Option<Box<Request>> {
        self.coalescing().count_wait(key);
        self.take_request(key)
    }

    /// Draws the consequences of the complete reply to a group's statement.
    pub(crate) fn group_ended(
        &mut self,
        key: BackendKey,
        leader: ClientKey,
        statement: &mut InFlight,
        group: Box<CoalescedGroup>,
    ) {
        let followers = followers_of(&self.clients, &group);
        if statement.summary.prelude_failed {
            self.client_statement_ended(key, leader, RequestKind::Query, statement);
            // What failed for the leader would have failed for each of them.
            for follower in followers {
                if let Some(request) = self.take_answered(follower) {
                    self.prelude_failed(key, follower, &request, &statement.summary);
                }
            }
        } else if statement.summary.preludes_done < statement.preludes {
            self.statement_lost(leader, false);
            self.group_lost(&group);
            self.close_backend(key, "the server lost a part of a text of several statements");
        } else {
            for &member in std::iter::once(&leader).chain(&followers) {
                self.io.outbox.send(self.clients[member].connection, &group.reply);
            }
            self.client_statement_ended(key, leader, RequestKind::Query, statement);
            self.followers_answered(key, leader, statement, group, &followers);
        }
    }

    /// Gives each follower the statement's aftermath. The warnings come later where the leader asks for its own.
    fn followers_answered(
        &mut self,
        key: BackendKey,
        leader: ClientKey,
        statement: &mut InFlight,
        mut group: Box<CoalescedGroup>,
        followers: &[ClientKey],
    ) {
        let count = followers.len() as u64;
        self.scheduling.digests.record_coalesced(statement.fingerprint, count);
        self.views.totals.coalesced += count;
        // In case that the warnings cannot be had.
        statement.shared = true;
        for &follower in followers {
            let Some(request) = self.take_answered(follower) else { continue };
            if let Some(status) = statement.summary.status {
                // A transaction is the backend's, should a function in a view have opened one: its backend is closed then.
                self.clients[follower].session.status_told(status.without(StatusFlags::IN_TRANS));
            }
            self.answers().note_aftermath(key, follower, &request, statement);
        }
        let backend = self.servers.get_mut(key).filter(|_| !followers.is_empty());
        let asks = backend.and_then(|backend| backend.in_flight.back_mut());
        match asks.filter(|last| last.owner == Owner::SaveDiagnostics { client: leader }) {
            Some(asks) => {
                group.reply = Vec::new();
                asks.group = Some(group);
            }
            None => {
                for &follower in followers {
                    self.follower_rests(follower);
                }
            }
        }
    }

    /// Gives the followers the server's answer to SHOW WARNINGS after a group's statement.
    pub(crate) fn share_diagnostics(&mut self, leader: ClientKey, group: &CoalescedGroup) {
        let saved = self.clients.get(leader).map(|leader| leader.session.aftermath.diagnostics().clone());
        for follower in followers_of(&self.clients, group) {
            if let Some(saved @ (Diagnostics::Saved { .. } | Diagnostics::Counted { .. })) = &saved {
                self.answers().keep_diagnostics(follower, saved.clone());
            }
            self.follower_rests(follower);
        }
    }

    /// Tells the followers that the backend was lost before the answer's end, or is not to be trusted. Nobody knows whether the statement ran.
    pub(crate) fn group_lost(&mut self, group: &CoalescedGroup) {
        for follower in followers_of(&self.clients, group) {
            match self.clients[follower].request.is_some() {
                true => {
                    self.coalescing().count_wait(follower);
                    self.statement_lost(follower, false);
                }
                // It has had its answer, and waited for the warnings.
                false => self.follower_rests(follower),
            }
        }
    }

    fn follower_rests(&mut self, key: ClientKey) {
        let client = &mut self.clients[key];
        client.end_statement();
        client.activity.goes_on(self.now);
        self.resume.push(key);
        self.drain_client(key);
    }

    /// Lets reads go on that have waited for the service account. The account has found out what the server is, and whether it has functions
    /// that a view could call. Where it has, a read that may have written ends with an error.
    pub(crate) fn primary_is_known(&mut self, has_no_functions: bool) {
        // The former one says nothing of the next, and refuses to say what it has where it takes no statements any more.
        if !self.why_no_backend().may_connect() {
            return;
        }
        for client in self.following.found_out() {
            if !has_no_functions && self.elsewhere().may_have_written(client) {
                self.cancel_queued(client.key, &MySqlError::server_lost(false));
            }
        }
    }

    /// Tells clients of their refusal: the server is what it was taken for, so that the refusal was the statement's own.
    pub(in crate::backend) fn tell_refused(&mut self) {
        for client in self.following.take_refused() {
            let key = client.key;
            let Some(code) = self.elsewhere().refused_with(client) else { continue };
            let Some(request) = self.take_queued(key, code) else { continue };
            let SentBefore::Refused(error) = &request.tries.sent_before else { continue };
            self.answers().note_server_error(key, error);
            self.answer_server_error(key, &request, error);
            self.resume.push(key);
        }
    }

    /// Notes that the server has refused a statement because of its role: nothing of it has run.
    pub(super) fn refused_by_role(&mut self, key: BackendKey, client: ClientKey, statement: &mut InFlight) {
        let fate = self.elsewhere().refused(key, client, statement);
        let is_rolled_back = matches!(fate, Fate::RolledBack(..));
        self.meets_fate(fate, statement);
        if is_rolled_back {
            // The end of its connection rolls back.
            self.close_backend(key, "its server takes no statements any more");
        }
    }

    /// Carries out the fate of a statement that has left its server. False where its client has to hear of the loss.
    fn meets_fate(&mut self, fate: Fate, statement: &mut InFlight) -> bool {
        match fate {
            Fate::Lost => return false,
            Fate::RolledBack(client, answer) => {
                self.take_request(client);
                self.tell_rolled_back(client, answer);
            }
            Fate::WaitsAgain(client, sent_before) => self.wait_again(client, statement, sent_before),
        }
        true
    }

    /// Tells a client that its open transaction has gone with its backend, and was not committed.
    pub(crate) fn tell_rolled_back(&mut self, client: ClientKey, sequence: u8) {
        self.pool.workers.chosen.tally.rolled_back();
        self.answers().rolled_back(client, sequence);
    }

    /// Queues a client's statement once more that was sent. Each other client that waited for the same answer goes alone.
    pub(crate) fn wait_again(&mut self, key: ClientKey, statement: &mut InFlight, sent_before: SentBefore) {
        let group = statement.group.take();
        self.queue_again(key, statement.ends, group.as_deref());
        if let Some(request) = &mut self.clients[key].request {
            request.tries.sent_before = sent_before;
        }
    }

    /// Puts a client's statement back to its place in the queue, unless a KILL QUERY waits to end it: then it is over. Others that waited for
    /// the same answer ask for themselves.
    fn queue_again(&mut self, key: ClientKey, ends: Ends, group: Option<&CoalescedGroup>) {
        let followers = group.map_or_else(Vec::new, |group| followers_of(&self.clients, group));
        self.scheduling.queue_again(self.now, key, &mut self.clients[key]);
        if ends == Ends::WhenAlone {
            self.cancel_queued(key, &MySqlError::interrupted());
        }
        for follower in followers {
            self.coalescing().goes_alone(follower);
        }
    }

    /// Lets reads go on elsewhere that stand behind a stuck one.
    pub(in crate::backend) fn rescue_reads(&mut self) {
        for key in self.servers.with_stuck_reads(self.now, &self.settings, &self.clients) {
            self.scheduling.note_stuck(self.now, &self.servers[key]);
            for Rescued { client, ends, group } in self.servers.of_mut(key).rescue(key, &self.clients) {
                self.views.totals.rescues += 1;
                self.queue_again(client, ends, group.as_deref());
            }
        }
    }

    pub(in crate::backend) fn lose_backend(&mut self, key: BackendKey, reason: &str) {
        self.servers.of_mut(key).lock_wait_ended(self.now, key, &mut self.scheduling.waits);
        let reason = match self.logging_in().change_failed(key) {
            true => Cow::Owned(self.logins.failure_of_change(&self.servers[key], reason)),
            false => Cow::Borrowed(reason),
        };
        let backend = &mut self.servers[key];
        let (thread_id, holder) = (backend.login.thread_id, backend.holder.take());
        let statements = std::mem::take(&mut backend.in_flight);
        let (first_since, of_long_lane) = (backend.first.since, backend.runs_long.is_some());
        let quiet = matches!(reason, Cow::Borrowed(_)) && (statements.is_empty() && holder.is_none())
            || self.was_to_end(&statements);
        self.remove_backend(key);
        for (place, mut statement) in statements.into_iter().enumerate() {
            // Only the first can have been answered in part, and only where its client has heard of that does it matter.
            let is_heard = statement.owner.is_heard() && statement.group.is_none();
            let begun = place == 0 && statement.summary.relayed > 0 && is_heard;
            if place == 0 && statement.fingerprint != 0 {
                let ended = Ended { took: self.now.since(first_since), with_error: true, of_long_lane };
                self.scheduling.count_execution(self.now, &self.pool, &statement, ended);
            }
            if let Some(command) = statement.owner.command() {
                self.views.measures.note_lost(command);
            }
            let took = if place == 0 { self.now.since(first_since) } else { Duration::ZERO };
            let (views, around) = self.slow_log();
            views.note_slow(&around, thread_id, &statement, took, SlowEnd::BackendLost);
            let fate = self.elsewhere().lost(&statement, begun);
            if self.meets_fate(fate, &mut statement) {
                continue;
            }
            match statement.owner {
                Owner::Client { client, .. } => self.statement_lost(client, begun),
                Owner::ApplyState { client }
                | Owner::ApplyDefinition { client }
                | Owner::Prepare { client } => self.statement_lost(client, false),
                Owner::ReadVariables { client } if self.prepares(client) => {
                    self.statement_lost(client, false);
                }
                Owner::SaveDiagnostics { client }
                | Owner::SaveInsertId { client }
                | Owner::ReadStatus { client }
                | Owner::ReadVariables { client } => self.holder_lost(client),
                Owner::Closing => self.servers.of_mut(key).closing_ended(&mut self.pool),
                Owner::Abandoned
                | Owner::Setup
                | Owner::Reset
                | Owner::RestoreWaitTimeout
                | Owner::SetOption => {}
            }
            if let Some(group) = &statement.group {
                self.group_lost(group);
            }
        }
        if let Some(client) =
            holder.filter(|&client| self.clients.get(client).is_some_and(|c| c.backend == Some(key)))
        {
            self.holder_lost(client);
        }
        if !quiet {
            self.views.event(Event::BackendClosed { thread_id, reason: reason.into_owned() });
        }
    }

    /// Says whether the server was asked to end one of these clients.
    fn was_to_end(&self, statements: &VecDeque<InFlight>) -> bool {
        let clients = statements.iter().filter_map(|statement| self.clients.get(statement.owner.client()?));
        clients.into_iter().any(|client| client.loss.killed)
    }

    /// Says whether a step still goes ahead of the client's statement.
    fn prepares(&self, key: ClientKey) -> bool {
        self.clients.get(key).is_some_and(|client| matches!(client.phase(), ClientPhase::Preparing))
    }
}
