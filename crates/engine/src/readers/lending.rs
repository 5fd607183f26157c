//! The side of the engine that has the clients: which reads go to a replica, when, and what becomes of those that come back.

use std::rc::Rc;
use std::time::Duration;

use seam::{Input, Instant, Program};
use sql::{Kind, ReadHint};
use wire::StatusFlags;

use super::guests::{Ended, Guest, Returned};
use super::lent::{At, Lent};
use super::replicas::Fitness;
use super::route::{Asked, HEAD_START, Route};
use super::routing::NotSplit;
use crate::backend::message::LARGEST_JOINED;
use crate::client::bytes_held::Counted;
use crate::client::{Client, Phase};
use crate::control::position::Said;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef};
use crate::outside::named::ClosedFor;
use crate::outside::waits::WaitReason;
use crate::request::{QueryAttributes, Request, RequestKind, TEXT_AT};
use crate::session::SessionTables;

impl SessionTables {
    /// The text that a request sends or has had prepared; `None` where it is of several packets.
    fn text_of<'a>(&'a self, request: &'a Request) -> Option<&'a [u8]> {
        match request.about.as_deref() {
            Some(about) => Some(&self.definitions.get(about.definition).text),
            None => request.text(),
        }
    }
}

impl Engine {
    /// Lends a client's read to a replica, or has it wait for one. Whatever else it is goes to the primary's queues.
    pub(crate) fn lend_or_queue(&mut self, key: ClientKey, mut request: Request) {
        if self.readers.is_empty() {
            return self.queue_request(key, request);
        }
        let needs = match self.needs_of(key, &mut request) {
            Ok(needs) => needs,
            Err(why) => {
                self.readers.routing.note_primary(request.statement.fingerprint, why);
                return self.queue_request(key, request);
            }
        };
        match self.route_for(key, needs, Duration::ZERO) {
            Route::Reader(place) => self.lend_to(place, key, request, self.now),
            Route::Wait => self.wait_for_replica(key, request, needs),
            Route::Primary(why) => self.queue_on_primary(key, request, why),
        }
    }

    /// Up to when a read has to see all that was written, where it may go to a replica.
    ///
    /// # Errors
    /// Why it is for the primary.
    fn needs_of(&mut self, key: ClientKey, request: &mut Request) -> Result<Instant, NotSplit> {
        if let Some(why) = self.is_for_primary(key, request) {
            return Err(why);
        }
        let client = &self.clients[key];
        let hint = self.sessions.text_of(request).and_then(sql::read_hint);
        match hint.unwrap_or_else(|| client.priority.reads(&self.settings.reads)) {
            ReadHint::Primary => Err(NotSplit::AsWanted),
            ReadHint::Session => Ok(client.wrote),
            ReadHint::Global => Ok(self.now),
            // Nobody had written anything by then.
            ReadHint::Eventual => Ok(Instant::START),
        }
    }

    fn wait_for_replica(&mut self, key: ClientKey, request: Request, needs: Instant) {
        self.views.totals.replica_reads_waited += 1;
        self.readers.routing.of(request.statement.fingerprint).waited += 1;
        let mut counted = Counted::default();
        self.client_memory.statements.set(&mut counted, request.bytes());
        let answer = request.answer;
        let number = self.readers.waiting.add(self.clients.ref_to(key), needs);
        if self.settings.reads.zone.is_some() {
            self.readers.waiting.give_head_start(self.now + HEAD_START);
        }
        let at = At::Waiting { request: Box::new(request), number };
        let lent = Lent { at, since: self.now, answer, raw: Vec::new(), about: None, counted };
        self.clients[key].lend(lent);
    }

    /// Queues a read that could have gone elsewhere, and counts it into the primary's load.
    fn queue_on_primary(&mut self, key: ClientKey, mut request: Request, why: NotSplit) {
        self.readers.routing.note_primary(request.statement.fingerprint, why);
        request.counts_for_primary = Some(self.now);
        self.readers.primary.begin();
        if why == NotSplit::Sooner
            && let Some(place) = self.pool.workers.chosen.get().place
        {
            self.readers.take_turn(place);
        }
        self.queue_request(key, request);
    }

    /// A request of a client is over.
    pub(crate) fn note_end_for_readers(&mut self, key: ClientKey, request: &Request) {
        if self.readers.is_empty() {
            return;
        }
        if let Some(since) = request.counts_for_primary {
            self.readers.primary.end(self.now, self.now.since(since));
        }
        // Whatever is not known to write nothing may have: a view may have called a function that does.
        let refresh = self.settings.accounts_refresh;
        let only_reads = request.statement.plain_read
            && !request.tries.came_back
            && self.servers.primary_mut().rescues.has_no_functions(self.now, refresh);
        if request.turn.started && !only_reads {
            self.clients[key].wrote = self.now;
        }
    }

    /// Where a client's read goes that has waited for a replica for so long.
    fn route_for(&self, key: ClientKey, needs: Instant, waited: Duration) -> Route {
        let identity = self.clients[key].identity.expect("a client with requests has logged in");
        let account = &self.logins.identities.identity(identity).account;
        let primary = self.pool.workers.chosen.get().place;
        self.readers.route(&Asked { now: self.now, needs, waited, account, primary }, &self.settings.reads)
    }

    /// Why a statement is for the primary alone, whatever replicas there are; `None` where it may go to one.
    fn is_for_primary(&mut self, key: ClientKey, request: &mut Request) -> Option<NotSplit> {
        let statement = &request.statement;
        let is_usual = request.command == RequestKind::Query || request.is_plain_execution();
        if !is_usual || !statement.plain_read || statement.kind != Kind::Select {
            return Some(NotSplit::NoPlainRead);
        }
        let of_session = !statement.calls.is_empty()
            || statement.sets_for_itself
            || request.changes.variables.is_some()
            || request.remember.is_some()
            || request.attributes != QueryAttributes::None;
        if of_session || statement.without_tables {
            return Some(NotSplit::OfSession);
        }
        if self.sessions.text_of(request).is_none_or(sql::may_name_system_schema) {
            return Some(NotSplit::OfServer);
        }
        if request.rows.found.is_unknown()
            || request.found_ahead.is_some()
            || request.raw.len() > LARGEST_JOINED
        {
            return Some(NotSplit::NoPlainRead);
        }
        // There too its client would keep the backend, and what it leaves on it.
        let keeps = || (!self.pins_of(key, request).is_empty()).then_some(NotSplit::HoldsState);
        if let Some(why) = self.is_bound(&self.clients[key]).or_else(keeps) {
            return Some(why);
        }
        // On a replica a function could write, in the name of whoever may do so in spite of read_only.
        let refresh = self.settings.accounts_refresh;
        if !self.servers.primary_mut().rescues.has_no_functions(self.now, refresh) {
            return Some(NotSplit::Functions);
        }
        let (client, primary) = (&self.clients[key], self.servers.primary());
        self.pool.note_hidden_code(client, &self.sessions, primary, request);
        if request.changes.hidden.may_change_session() || !request.changes.hidden.effects.is_empty() {
            return Some(NotSplit::StoredCode);
        }
        // The reader looks for itself: the server's code may not have come to it yet.
        request.changes.library = None;
        None
    }

    /// Why all statements of a client are for the primary at present.
    fn is_bound(&self, client: &Client) -> Option<NotSplit> {
        let is_open = client.in_transaction()
            || client.transaction.unstarted.is_some()
            || !client.session.status.contains(StatusFlags::AUTOCOMMIT);
        if is_open {
            return Some(NotSplit::Transaction);
        }
        let is_free = client.backend.is_none()
            && client.session.pins.is_empty()
            && client.session.unreported.is_none()
            && client.session.named_resources.is_none()
            && client.session.trackers.is_none()
            && client.loss.lost.is_none()
            && client.session.statements.as_ref().is_none_or(|statements| statements.answered.is_none());
        let state = client.session.id.map(|session| self.sessions.states.state(session));
        // What it writes does not get to any replica, and its reads are to see it.
        let unlogged: [&[u8]; 2] = [b"sql_log_bin", b"wsrep_on"];
        let is_logged =
            state.is_some_and(|state| !unlogged.iter().any(|&name| state.variables.contains_key(name)));
        let by_password = client.identity.is_some_and(|identity| {
            self.logins.identities.identity(identity).account.credential.delegated().is_none()
        });
        let is_in_system = state.and_then(|state| state.schema.as_deref()).is_some_and(sql::is_system_schema);
        if is_in_system {
            return Some(NotSplit::OfServer);
        }
        (!(is_free && is_logged && by_password)).then_some(NotSplit::HoldsState)
    }

    fn lend_to(&mut self, place: usize, key: ClientKey, request: Request, since: Instant) {
        let about = request.about.as_deref().map(|about| (*about, request.rows.found));
        let statement = about.map(|(about, _)| {
            let mut statement = self.lend_statement(key, about);
            self.readers.all[place].given.give(&mut statement.session);
            statement
        });
        let client = &mut self.clients[key];
        let (raw, answer) = (request.raw.clone(), request.answer);
        let fingerprint = request.statement.fingerprint;
        self.views.measures.turn.note_statement(request.bytes(), fingerprint);
        let has_begun = std::mem::replace(&mut client.activity.has_begun, true);
        let aftermath = std::mem::take(&mut client.session.aftermath);
        let mut counted = Counted::default();
        self.client_memory.statements.set(&mut counted, raw.len());
        client.lend(Lent { at: At::Reader(place), since, answer, raw, about, counted });
        let client = &self.clients[key];
        let identity = client.identity.expect("a client with requests has logged in");
        let identity = self.logins.identities.identity(identity);
        let session = client.session.id.expect("likewise");
        let mut state = self.sessions.states.state(session).clone();
        self.readers.all[place].given.give(&mut state);
        let guest = Guest {
            connection: client.connection,
            peer: client.peer,
            id: client.id,
            capabilities: client.capabilities,
            collation: client.login.collation,
            account: Rc::clone(&identity.account),
            user: identity.user.clone(),
            secret: identity.secret.clone(),
            session: state,
            aftermath,
            status: client.session.status,
            priority: client.priority,
            wants_end_for_loss: client.loss.wants_end,
            has_begun,
            request,
            statement,
        };
        self.views.totals.replica_reads += 1;
        self.readers.routing.of(fingerprint).sent += 1;
        let reader = &mut self.readers.all[place];
        reader.sent += 1;
        reader.load.begin();
        self.readers.take_turn(place);
        self.readers.enter(place, self.now, &mut self.io, |reader| reader.take_guest(guest));
    }

    /// Ends the turn of each reader in which something has happened, or is due. Clients that come back go on.
    pub(crate) fn turn_of_readers(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let others = self.follow_replicas();
        let fresher = self.take_positions();
        self.serve_waiting(others, fresher);
        for place in 0..self.readers.all.len() {
            let reader = &self.readers.all[place];
            let is_due = || reader.engine.next_timeout().is_some_and(|at| at <= self.now);
            if !(reader.is_touched || (reader.is_open() && is_due())) {
                continue;
            }
            let now = self.now;
            self.readers.enter(place, now, &mut self.io, |reader| reader.handle(now, Input::TurnEnd));
            self.readers.all[place].is_touched = false;
            self.take_back_from(place);
        }
    }

    fn take_back_from(&mut self, place: usize) {
        for returned in self.readers.returned(place) {
            self.take_back(place, returned);
        }
    }

    /// What waits for replicas, or has come back from them, waits for the primary.
    pub(crate) fn give_up_replicas(&mut self) {
        for place in 0..self.readers.all.len() {
            self.take_back_from(place);
        }
        for client in self.readers.waiting.all() {
            if let Some((request, _)) = self.take_waiting(client.key) {
                self.queue_on_primary(client.key, request, NotSplit::NotInTime);
            }
        }
    }

    /// Takes up which servers may be read from. True where that has changed.
    fn follow_replicas(&mut self) -> bool {
        let mut has_news = std::mem::take(&mut self.readers.has_moved);
        for place in 0..self.readers.all.len() {
            let Fitness { is_open, is_up, is_fit, is_node } = self.pool.workers.replicas.of(place);
            let reader = &mut self.readers.all[place];
            reader.engine.servers.primary_mut().control.position.of_galera = is_node;
            let primary = &self.servers.primary().control.defaults;
            reader.given.learn(primary, &reader.engine.servers.primary().control.defaults);
            has_news |= std::mem::replace(&mut reader.is_fit, is_fit) != is_fit;
            // Guests may be there whom nobody follows: the server was drained, or has become the primary, before it was lost.
            let is_lost = std::mem::replace(&mut reader.is_up, is_up) && !is_up;
            let changes = reader.engine.takes_guests() != is_open;
            has_news |= changes;
            if changes || is_lost {
                self.readers.enter(place, self.now, &mut self.io, |reader| {
                    reader.welcome_guests(is_open);
                    if is_lost {
                        reader.give_up_server();
                    }
                });
            }
        }
        has_news
    }

    /// Takes in how far servers are, and asks again. True where a replica is known to have more than before.
    fn take_positions(&mut self) -> bool {
        let (now, every) = (self.now, self.settings.cluster.check_interval);
        let latest_need = self.readers.waiting.latest_need();
        let primary = &mut self.servers.primary_mut().control.position;
        primary.of_galera = self.pool.workers.replicas.primary_is_node();
        if let Some(Said { asked, position, .. }) = primary.take() {
            let position = Rc::from(position);
            for reader in &mut self.readers.all {
                reader.freshness.primary_had(asked, now, &position);
            }
        }
        primary.keep(every);
        if latest_need.is_some_and(|needs| primary.latest().is_none_or(|asked| asked <= needs)) {
            primary.want(now);
        }
        let mut has_news = false;
        for reader in self.readers.all.iter_mut().filter(|reader| reader.engine.takes_guests()) {
            let control = &mut reader.engine.servers.primary_mut().control;
            if std::mem::replace(&mut reader.asked_on, control.connection()) != control.connection() {
                // A server that comes up again may have less than before.
                reader.freshness.forget_replica();
                control.position.take();
            }
            let watch = &mut control.position;
            if let Some(Said { asked, position, of_node }) = watch.take() {
                has_news |= reader.freshness.replica_has(&position, if of_node { asked } else { now });
            }
            watch.keep(every);
            if latest_need.is_some() && reader.stand.takes_reads() && reader.freshness.awaits() {
                watch.want(now);
            }
        }
        has_news
    }

    /// When a read has waited for long enough.
    pub(crate) fn end_of_wait(&self, client: ClientRef) -> Option<Instant> {
        match self.clients.find(client)?.phase() {
            Phase::Lent(lent) if matches!(lent.at, At::Waiting { .. }) => {
                Some(lent.since + self.settings.reads.wait_limit)
            }
            _ => None,
        }
    }

    /// Reads that wait go to a replica that has what they are to see or, when they have waited for long enough, to the primary. `others` where
    /// other servers may be read from than before, `fresher` where one of them has more than before.
    fn serve_waiting(&mut self, others: bool, fresher: bool) {
        let perhaps = match (others, fresher) {
            (true, _) => self.readers.waiting.all(),
            (false, true) => {
                self.readers.freshest().map(|as_of| self.readers.waiting.served_by(as_of)).unwrap_or_default()
            }
            (false, false) => Vec::new(),
        };
        for client in perhaps {
            self.serve_one(client.key, false);
        }
        while let Some(client) = self.readers.waiting.end_head_start(self.now) {
            self.serve_one(client.key, false);
        }
        while let Some(first) = self.readers.waiting.first()
            && self.end_of_wait(first).is_none_or(|end| end <= self.now)
        {
            self.serve_one(first.key, true);
        }
    }

    /// A read that waits goes where it can, by now; where its wait is over, in any case.
    fn serve_one(&mut self, key: ClientKey, is_over: bool) {
        let Phase::Lent(lent) = self.clients[key].phase() else { return };
        let At::Waiting { number, .. } = lent.at else { return };
        let waited = self.now.since(lent.since);
        let Some(needs) = self.readers.waiting.need_of(number) else { return };
        let route = self.route_for(key, needs, waited);
        if matches!(route, Route::Wait) && !is_over {
            return;
        }
        let Some((request, since)) = self.take_waiting(key) else { return };
        match route {
            Route::Reader(place) => self.lend_to(place, key, request, since),
            Route::Wait | Route::Primary(_) => {
                self.views.totals.replica_reads_returned += 1;
                self.queue_on_primary(key, request, NotSplit::NotInTime);
            }
        }
    }

    /// A client waits for a replica no more. Returns its statement, and since when it has waited.
    fn take_waiting(&mut self, key: ClientKey) -> Option<(Request, Instant)> {
        let lent = self.come_back(key)?;
        self.scheduling.waits.record(WaitReason::Replica, self.now.since(lent.since));
        match lent.at {
            At::Waiting { request, .. } => Some((*request, lent.since)),
            At::Reader(_) => None,
        }
    }

    fn come_back(&mut self, key: ClientKey) -> Option<Lent> {
        let mut lent = self.clients[key].come_back()?;
        self.client_memory.statements.give_back(&mut lent.counted);
        match lent.at {
            At::Reader(place) => self.readers.all[place].load.end(self.now, self.now.since(lent.since)),
            At::Waiting { number, .. } => self.readers.waiting.remove(number),
        }
        Some(lent)
    }

    /// A client comes back from a reader.
    fn take_back(&mut self, place: usize, returned: Returned) {
        let Some(&key) = self.ids.keys.get(&returned.id) else { return };
        let is_there = matches!(self.clients[key].phase(), Phase::Lent(lent) if matches!(lent.at, At::Reader(at) if at == place));
        let Some(lent) = is_there.then(|| self.come_back(key)).flatten() else { return };
        let client = &mut self.clients[key];
        client.session.status = returned.status;
        client.session.aftermath = returned.aftermath;
        client.activity.last_heard = self.now;
        if returned.is_paused {
            client.backpressure.paused = true;
            self.clients[key].update_reading(&mut self.io.outbox);
        }
        match returned.ended {
            Ended::Answered => {}
            Ended::Broken => return self.drop_client(key),
            Ended::NotRun(error) if error == MySqlError::interrupted() => {
                self.views.totals.cancelled += 1;
                self.answer_error(key, lent.answer, &error);
            }
            Ended::NotRun(_) => return self.read_on_primary(key, lent),
            Ended::Lost(error) => {
                // A function that a view has called may have written there, if its account may do so in spite of read_only.
                let refresh = self.settings.accounts_refresh;
                if self.servers.primary_mut().rescues.has_no_functions(self.now, refresh) {
                    return self.read_on_primary(key, lent);
                }
                self.answer_error(key, lent.answer, &error);
            }
        }
        self.resume.push(key);
        self.drain_client(key);
    }

    /// Has the primary do what a replica has not done.
    fn read_on_primary(&mut self, key: ClientKey, lent: Lent) {
        self.views.totals.replica_reads_returned += 1;
        let Lent { raw, about, answer, .. } = lent;
        let mut request = match about {
            Some((about, found)) => self.sessions.execution(about, found, raw, answer),
            None => {
                let request = Request::of_query(
                    &raw[TEXT_AT..],
                    self.lex_mode(key),
                    self.clients[key].wants(&self.settings),
                    answer,
                );
                Request { raw, ..request }
            }
        };
        request.tries.came_back = true;
        self.queue_on_primary(key, request, NotSplit::CameBack);
    }

    /// A lent client goes.
    pub(crate) fn forget_lent(&mut self, key: ClientKey) {
        let id = self.clients[key].id;
        match self.come_back(key).map(|lent| lent.at) {
            Some(At::Reader(place)) => {
                self.readers.enter(place, self.now, &mut self.io, |reader| reader.forget_guest(id));
            }
            Some(At::Waiting { .. }) => self.views.totals.cancelled += 1,
            None => {}
        }
    }

    /// KILL of a lent client, or of its statement alone.
    pub(crate) fn end_lent(&mut self, key: ClientKey, query_only: bool) {
        let id = self.clients[key].id;
        let Phase::Lent(lent) = self.clients[key].phase() else { return };
        match lent.at {
            // The client goes once the server has ended what it does there, as on the primary.
            At::Reader(place) => {
                self.readers.enter(place, self.now, &mut self.io, |reader| reader.kill(id, query_only));
            }
            At::Waiting { .. } if !query_only => self.close_client(key, ClosedFor::Killed, "killed"),
            At::Waiting { .. } => {
                let answer = lent.answer;
                self.take_waiting(key);
                self.views.totals.cancelled += 1;
                self.answer_error(key, answer, &MySqlError::interrupted());
                self.resume.push(key);
            }
        }
    }

    /// A lent client's connection takes less than comes, or has caught up.
    pub(crate) fn lent_stalled(&mut self, key: ClientKey, stalled: bool) {
        let connection = self.clients[key].connection;
        if let Phase::Lent(lent) = self.clients[key].phase()
            && let At::Reader(place) = lent.at
        {
            self.readers.enter(place, self.now, &mut self.io, |reader| reader.stalled(connection, stalled));
        }
    }
}
