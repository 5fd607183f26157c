//! How a worker follows the choice of a primary: which backends it leaves, where new ones are opened, and what its clients are told.

use seam::Instant;
use wire::StatusFlags;

use super::Cluster;
use super::chosen::Choice;
use super::drain::{DrainOrder, DrainOutcome, NotDrained};
use super::refusal::{cannot_commit, is_commit_alone, may_be_sent_again};
use super::sent_before::SentBefore;
use super::switchover::{SwitchStep, Switching};
use crate::accounts::task::Asker;
use crate::backend::{Afterwards, InFlight, Owner};
use crate::client::{Phase, Running};
use crate::cluster::{Effect, Step};
use crate::coalescing::followers::followers_of;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::io::Role;
use crate::request::RequestKind;
use crate::session::aftermath::Diagnostics;
use crate::workers::letter::Letter;

impl Engine {
    /// Looks after the servers, and after what follows from them for this worker.
    pub(crate) fn cluster_turn(&mut self) {
        if !self.settings.cluster.several {
            return;
        }
        if self.cluster.is_watching() {
            self.cluster.connected = self.pool.workers.chosen.proof.asked_for();
            self.in_cluster(Cluster::turn);
            let chosen = &self.pool.workers.chosen;
            let told = || (chosen.get(), chosen.what_goes_on(), chosen.proof.is_wanted());
            let before = told();
            let news = self.cluster.choose(self.now, chosen, &self.settings);
            let is_proved = chosen.proof.proves(self.cluster.proved);
            if news.is_some() || is_proved || before != told() {
                self.pool.write_to_others(&Letter::Wake);
            }
            let (workers, max_lag) = (&self.pool.workers, self.settings.reads.max_lag);
            let replicas_have_news = self.cluster.say_replicas(&workers.chosen, &workers.replicas, max_lag);
            if replicas_have_news {
                self.pool.write_to_others(&Letter::Wake);
            }
            self.cluster.tell_clients(&self.pool.workers.chosen, &self.settings.server);
            for news in self.cluster.told.drain(..).chain(news) {
                self.views.event(news);
            }
        }
        self.following.proved = self.pool.workers.chosen.proof.proved();
        let choice = self.pool.workers.chosen.get();
        if choice != self.following.choice {
            self.follow(choice);
        } else if !self.following.refused.is_empty() && self.pool.workers.chosen.is_settled(choice) {
            self.tell_refused();
        }
        if self.following.leaves.is_some() {
            self.leave_backends();
        }
        self.take_up_proved();
        let fails_over = self.fails_over();
        if std::mem::replace(&mut self.following.failed_over, fails_over) && !fails_over {
            self.following.found_at = self.now;
        }
    }

    /// Takes a step of a planned change of the primary. Only the first worker needs to hear of it; the others do nothing. A turn has to
    /// follow, with an end.
    pub fn switch_over(&mut self, step: SwitchStep) {
        if !self.cluster.is_watching() {
            return;
        }
        match step {
            SwitchStep::Begin { to, lasts } => {
                self.cluster.switching = Some(Switching { to, until: self.now + lasts, over: None });
                self.cluster.hurry(self.now);
            }
            SwitchStep::EndTransactions => {
                self.pool.workers.chosen.end_transactions();
                self.pool.write_to_others(&Letter::Wake);
                self.cluster.hurry(self.now);
            }
            SwitchStep::Over => self.cluster.switching_ends(self.now),
        }
    }

    /// Takes a server out of the choice, or puts it back, where that does not change the primary, or all is ready for that; `None` on all
    /// workers but the first, which knows nothing of it. A turn has to follow, with an end.
    ///
    /// # Errors
    /// Why it may not be, and what to do.
    pub fn drain_server(&mut self, order: DrainOrder) -> Option<Result<DrainOutcome, NotDrained>> {
        let present = self.pool.workers.chosen.get().place;
        let is_ours = self.cluster.is_watching();
        is_ours.then(|| self.cluster.drain(order, present, &self.settings.server))
    }

    /// Takes a step of the checks, and carries out what follows from it.
    pub(crate) fn in_cluster(&mut self, take: impl FnOnce(&mut Cluster, &mut Step<'_>)) {
        let mut step = Step {
            now: self.now,
            settings: &self.settings,
            outbox: &mut self.io.outbox,
            effects: Vec::new(),
        };
        take(&mut self.cluster, &mut step);
        for effect in step.effects {
            match effect {
                Effect::Serves { connection, place } => self.io.set_role(connection, Role::Check(place)),
                Effect::Ended { connection } => self.io.set_role(connection, Role::Free),
                Effect::Encrypt { connection, work } => {
                    self.io.tasks.give(Asker::Check(connection), work, None);
                }
                Effect::Changed { place } => {
                    let address = self.settings.server[place].clone();
                    let changed = self.cluster.changed(place, address);
                    self.views.event(changed);
                }
            }
        }
    }

    fn follow(&mut self, choice: Choice) {
        self.following.choice = choice;
        // Statements that were refused go to the new primary.
        self.following.refused.clear();
        self.following.leaves = (self.servers.backend_count() > 0).then_some(self.now);
        let Some(place) = choice.place else {
            self.following.held_since.get_or_insert(self.now);
            return;
        };
        self.end_left_open(choice.place);
        if let Some(since) = self.following.held_since.take() {
            let oldest =
                self.scheduling.scheduler.oldest_in_need().map_or(self.now, |(_, queued)| queued.max(since));
            let waiting = self.scheduling.scheduler.waiting() as u64;
            self.pool.workers.chosen.tally.held(waiting, self.now.since(oldest));
        }
        if self.servers.primary().reachability.address != place || !self.following.is_known {
            self.move_to(place);
        }
    }

    /// The service account goes to another server, and backends behind it once it has found out what that is.
    pub(crate) fn move_to(&mut self, place: usize) {
        // For all workers.
        if self.cluster.is_watching() && self.servers.primary().reachability.address != place {
            self.pool.workers.begin_elsewhere(self.now);
        }
        self.following.is_known = false;
        self.servers.primary_mut().reachability.move_to(place);
        self.servers.primary_mut().full = None;
        self.servers.primary_mut().pending_facts = None;
        self.logins.known_schemas.clear();
        self.readers.primary_changes();
        self.pool.workers.way.forget();
        self.leave_control(self.servers.primary().key);
        self.judge_again();
    }

    /// Says whether a backend stands on a server that is not the primary.
    pub(crate) fn is_on_former_server(&self, backend: BackendKey) -> bool {
        let place = &self.servers[backend].place;
        place.is_former() || (self.settings.cluster.several && self.following.is_left(place))
    }

    /// Closes backends on servers that are not the primary. What runs there comes to its end, where the server is up; nothing more is sent
    /// to it.
    fn leave_backends(&mut self) {
        let since = self.following.leaves.take().unwrap_or(self.now);
        let in_time = self.now.since(since) < self.settings.cluster.hold;
        let may_end = in_time && self.pool.workers.chosen.may_end();
        let goes_on = self.pool.workers.chosen.transactions_go_on().filter(|_| in_time);
        let backends = self.servers.backends();
        let left: Vec<_> =
            backends.map(|(key, _)| key).filter(|&key| self.is_on_former_server(key)).collect();
        for key in left {
            let Some(backend) = self.servers.get_mut(key) else { continue };
            backend.afterwards = Afterwards::Close;
            if backend.holder.is_some() && goes_on.is_some_and(|former| backend.place.is(former)) {
                self.following.leaves = Some(since);
                continue;
            }
            if backend.is_idle() || !(backend.is_ready() || backend.is_changing()) {
                self.quit_backend(key);
                continue;
            }
            self.servers.of_mut(key).sharing.remove(key);
            let backend = &self.servers[key];
            let ends = !backend.in_flight.is_empty() && backend.in_flight.iter().all(ends_by_itself);
            if may_end && ends {
                self.following.leaves = Some(since);
            } else {
                // Down, or what is in flight there has had its time.
                self.give_up_backend(key, "its server is not the primary");
            }
        }
    }

    /// The service account has found out what the server is, and whether it has functions that a view could call.
    pub(crate) fn primary_is_known(&mut self, has_no_functions: bool) {
        // The former one says nothing of the next, and refuses to say what it has where it takes no statements any more.
        if !self.has_primary() || std::mem::replace(&mut self.following.is_known, true) {
            return;
        }
        for client in std::mem::take(&mut self.following.repeated) {
            if !has_no_functions && matches!(self.waits_again(client), Some(SentBefore::Lost)) {
                // The statement may have called a function that has written.
                self.pool.workers.chosen.tally.unknown();
                self.cancel_queued(client.key, &MySqlError::server_lost(false));
            }
        }
    }

    fn fails_over(&self) -> bool {
        self.settings.cluster.several
            && (self.following.held_since.is_some() || !self.servers.primary().reachability.is_up())
    }

    /// Until when a statement waits for a backend that has done so since then. What it has waited for a primary does not count once there is one:
    /// no backend could be opened before.
    pub(crate) fn waits_until(&self, since: Instant) -> Instant {
        if self.fails_over() {
            since + self.settings.cluster.hold
        } else {
            since.max(self.following.found_at) + self.settings.backend_connect_timeout
        }
    }

    /// Says whether the service account may connect: with several servers, once one is the primary.
    pub(crate) fn has_primary(&self) -> bool {
        self.takes_guests() && (!self.settings.cluster.several || self.following.has_primary())
    }

    /// Says whether backends may be opened.
    pub(crate) fn knows_primary(&self) -> bool {
        self.following.is_known && (!self.settings.cluster.several || self.following.has_primary())
    }

    /// What becomes of a statement whose backend is lost, where there may be another server: true where that is settled here, and its
    /// client goes on. What may have run is never sent again.
    pub(crate) fn survives_loss(&mut self, statement: &mut InFlight, begun: bool) -> bool {
        let (key, sent) = match statement.owner {
            _ if !self.settings.cluster.several => return false,
            Owner::Client { client, command: RequestKind::Query | RequestKind::Execute } => (client, true),
            // The choice of a schema changes nothing but the backend that is lost.
            Owner::Client { client, command: RequestKind::LoginSchema } => (client, false),
            Owner::ApplyState { client } | Owner::ApplyDefinition { client } | Owner::Prepare { client } => {
                (client, false)
            }
            _ => return false,
        };
        let Some(client) = self.clients.get(key) else { return false };
        let Some(request) = client.request.as_deref() else { return false };
        // A server that ends each connection at that question is not asked for ever.
        let is_login = request.command == RequestKind::LoginSchema;
        if is_login && request.tries.sent_before.is_so() && !self.is_held(key) {
            return false;
        }
        let goes_on = matches!(client.phase(), Phase::Preparing | Phase::Running(Running::OnServer));
        if begun || client.loss.killed || !client.session.pins.is_empty() || !goes_on {
            return false;
        }
        let autocommit = client.session.status.contains(StatusFlags::AUTOCOMMIT);
        let is_open =
            client.in_transaction() || (sent && (client.transaction.unstarted.is_some() || !autocommit));
        if is_open {
            let rolled_back = !sent || cannot_commit(request);
            if rolled_back {
                let answer = request.answer;
                self.take_request(key);
                self.tell_rolled_back(key, answer);
            }
            return rolled_back;
        }
        if sent {
            let repeats = request.statement.plain_read
                && !request.tries.sent_before.is_so()
                && !request.raw.is_empty()
                && (request.command == RequestKind::Query || request.is_plain_execution())
                && self.pins_of(key, request).is_empty();
            if !repeats {
                return false;
            }
            self.following.repeated.push(self.clients.ref_to(key));
            self.following.is_known = false;
            self.servers.primary_mut().rescues.want_to_know();
        }
        let was_sent = sent || is_login;
        self.wait_again(key, statement, if was_sent { SentBefore::Lost } else { SentBefore::No });
        true
    }

    /// Whether a client's statement has come so lately that it may wait for another server.
    fn is_held(&self, key: ClientKey) -> bool {
        let request = self.clients.get(key).and_then(|client| client.request.as_deref());
        request.is_some_and(|request| self.now.since(request.turn.arrival.at) < self.settings.cluster.hold)
    }

    /// A client's statement is queued once more, and each of those that waited for its answer goes alone.
    pub(crate) fn wait_again(&mut self, key: ClientKey, statement: &mut InFlight, sent_before: SentBefore) {
        let group = statement.group.take();
        let followers: Vec<_> = group.iter().flat_map(|group| followers_of(&self.clients, group)).collect();
        self.queue_again(key, statement.ends);
        if let Some(request) = &mut self.clients[key].request {
            request.tries.sent_before = sent_before;
        }
        for follower in followers {
            self.coalescing().goes_alone(follower);
        }
    }

    /// What was before, of a client's statement that was sent and is queued once more; `None` where it is not any more.
    fn waits_again(&self, client: ClientRef) -> Option<&SentBefore> {
        let client = self.clients.find(client).filter(|client| matches!(client.phase(), Phase::Queued))?;
        client.request.as_ref().map(|request| &request.tries.sent_before)
    }

    /// A statement of which nobody will ever know whether it ran.
    pub(crate) fn note_unknown(&self, statement: &InFlight) {
        if self.settings.cluster.several && matches!(statement.owner, Owner::Client { .. }) {
            self.pool.workers.chosen.tally.unknown();
        }
    }

    /// The client's open transaction has gone with its backend, and was not committed: it hears what a deadlock's victim hears, and
    /// goes on.
    pub(crate) fn tell_rolled_back(&mut self, key: ClientKey, sequence: u8) {
        let client = &mut self.clients[key];
        client.backend = None;
        client.end_statement();
        client.loss.lost = None;
        client.transaction.unstarted = None;
        client.session.status =
            client.session.status.without(StatusFlags::IN_TRANS).without(StatusFlags::IN_TRANS_READONLY);
        client.transaction.holds_locks = false;
        client.transaction.blocks_others = false;
        client.session.aftermath.insert_id_lost();
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        self.pool.workers.chosen.tally.rolled_back();
        self.answer_error(key, sequence, &MySqlError::rolled_back());
        self.resume.push(key);
    }

    /// Says whether the server's refusal of a statement may be kept from its client, since it goes elsewhere.
    pub(crate) fn may_go_elsewhere(&self, statement: &InFlight) -> bool {
        let Owner::Client { client, command: RequestKind::Query | RequestKind::Execute } = statement.owner
        else {
            return false;
        };
        if !self.settings.cluster.several {
            return false;
        }
        let is_held = self.is_held(client);
        let client = &self.clients[client];
        let Some(request) = client.request.as_deref() else { return false };
        statement.code_change.is_none()
            && client.session.pins.is_empty()
            && !client.loss.killed
            && is_held
            && matches!(client.phase(), Phase::Running(Running::OnServer))
            && match client.in_transaction() {
                true => cannot_commit(request) || is_commit_alone(request),
                false => may_be_sent_again(request) && !request.raw.is_empty(),
            }
            && self.pool.workers.chosen.believes_refusals(self.now, self.following.choice)
    }

    /// The server has refused a statement for what it is to the others: nothing of it has run.
    pub(crate) fn refused_by_role(&mut self, backend: BackendKey, key: ClientKey, statement: &mut InFlight) {
        let doubts = !self.is_on_former_server(backend);
        if doubts && self.pool.workers.chosen.doubt(self.following.choice) {
            self.pool.write_to_others(&Letter::Wake);
        }
        self.servers[backend].afterwards = Afterwards::Close;
        let client = &self.clients[key];
        // One that was to begin with this statement has done nothing yet, and begins anew.
        if client.in_transaction() {
            let answer = client.request.as_ref().map_or(1, |request| request.answer);
            self.take_request(key);
            self.servers[backend].holder = None;
            self.tell_rolled_back(key, answer);
            // The end of its connection rolls back.
            return self.close_backend(backend, "its server takes no statements any more");
        }
        self.servers[backend].holder = None;
        self.clients[key].session.aftermath.insert_id_at = None;
        let error = statement.summary.error.take().expect("a refusal is an error");
        self.wait_again(key, statement, SentBefore::Refused(Box::new(error)));
        if doubts {
            self.following.refused.push(self.clients.ref_to(key));
        }
    }

    /// Whoever was refused something hears of it: the server is what it was taken for, so that the refusal was the statement's own.
    fn tell_refused(&mut self) {
        for client in std::mem::take(&mut self.following.refused) {
            let key = client.key;
            let Some(SentBefore::Refused(error)) = self.waits_again(client) else { continue };
            let code = error.code;
            let Some(request) = self.take_queued(key, code) else { continue };
            let SentBefore::Refused(error) = &request.tries.sent_before else { continue };
            let reader = self.reader(key);
            self.clients[key].session.aftermath.row_count = -1;
            self.keep_diagnostics(key, Diagnostics::of_error(error, reader));
            self.answer_server_error(key, &request, error);
            self.resume.push(key);
        }
    }

    /// Says whether a statement that was sent before may be sent now: not while it has to be found out what became of the primary.
    pub(crate) fn may_send_again(&self) -> bool {
        self.knows_primary() && !self.pool.workers.chosen.is_in_doubt(self.following.choice)
    }
}

/// What is in flight comes to its end without anything more that is sent, and then nothing of a client's follows by itself.
fn ends_by_itself(statement: &InFlight) -> bool {
    match statement.owner {
        Owner::Client { .. }
        | Owner::Abandoned
        | Owner::SaveDiagnostics { .. }
        | Owner::SaveInsertId { .. }
        | Owner::ReadStatus { .. }
        | Owner::Reset
        | Owner::RestoreWaitTimeout
        | Owner::Closing
        | Owner::SetOption => true,
        // A client's statement would be next.
        Owner::Setup
        | Owner::ApplyState { .. }
        | Owner::ApplyDefinition { .. }
        | Owner::Prepare { .. }
        | Owner::ReadVariables { .. } => false,
    }
}

#[cfg(test)]
mod tests;
