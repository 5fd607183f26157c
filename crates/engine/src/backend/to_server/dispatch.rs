//! The way from the queue to the server: which statement runs next, on which backend, and with which preludes.

use std::rc::Rc;

use wire::{Capabilities, CommandKind, Expect, ReplyReader};

use crate::backend::pool::opening::LONGEST_WAIT;
use crate::backend::scheduling::contended::NextContended;
use crate::backend::scheduling::sharing::{LOOK_FOR_FOLLOWERS, SharedReads, Sharing};
use crate::backend::to_server::ahead::Ahead;
use crate::backend::to_server::message::{LARGEST_JOINED, can_be_joined, reply_options};
use crate::backend::to_server::preparing::ToPrepare;
use crate::backend::{Ends, InFlight, Owner, Summary, scheduling::long::NextLong};
use crate::client::commands::prepared::put_statement_id;
use crate::client::{Client, Phase};
use crate::engine::Engine;
use crate::errors::{Bound, MySqlError};
use crate::ids::{BackendKey, ClientKey};
use crate::outside::waits::Lack;
use crate::request::{Request, RequestKind, may_be_several};
use crate::scheduling::scheduler::Grant;
use crate::scheduling::scheduler::lane::Class;
use crate::session::statements::DefinitionId;

/// How far down the queue statements of other users are looked for when the first one finds no backend.
const LOOK_BEHIND: usize = 32;

/// The fate of statements behind the first one, which finds no backend.
enum BehindFirst {
    /// Some of them have been started, or moved: there is more to look at.
    Started,
    /// There is a backend for one of them, and no permit.
    WaitsForPermit,
    /// There is no backend for any that was looked at.
    NoBackend,
}

impl Engine {
    /// Dispatches, together with as many of the statements that wait for their share as there is room for.
    pub(crate) fn dispatch_shares(&mut self) {
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.follow_crowding(&parties, clients, servers);
        self.dispatch_in_turns();
        // Said first and tried again: a worker that gives backends back in between tells nobody who has not said so.
        if self.scheduling.shares.say_who_is_held_up(&self.pool) {
            self.dispatch_in_turns();
            self.scheduling.shares.say_who_is_held_up(&self.pool);
        }
    }

    fn dispatch_in_turns(&mut self) {
        let mut rounds = 0;
        loop {
            rounds += 1;
            debug_assert!(rounds <= self.clients.len() + 2, "each starts a statement or holds up a user");
            let (scheduling, parties, clients, servers) = self.queues();
            let released = scheduling.release_shares(&parties, clients, servers);
            let before = self.scheduling.new_with_scheduler();
            self.dispatch();
            if !released || !self.scheduling.goes_round_again(before) {
                break;
            }
        }
        self.scheduling.shares.end_round();
    }

    /// Starts all that may start. Runs once per turn, so that statements that arrived together are put in order first, and leave in as few
    /// writes as there are backends.
    fn dispatch(&mut self) {
        for server in self.servers.iter_mut() {
            server.opening.begin_turn(self.now);
        }
        self.start_urgent();
        self.rescue_reads();
        self.scheduling.group_turn(self.now, &self.servers);
        let (settings, pool, servers) = (&self.settings, &mut self.pool, &mut self.servers);
        let (clients, identities) = (&self.clients, &self.logins.identities);
        self.views.totals.stalls +=
            self.scheduling.lend_stalled_permits(self.now, settings, pool, servers, clients, identities);
        self.scheduling.leave_long_lane(self.now, &self.settings, &mut self.clients);
        let mut wanting = self.start_contended();
        self.scheduling.want_long(&self.clients, true);
        let (mut backend_free, mut first_lacks_backend) = (true, false);
        let mut holdup = None;
        while let Some(key) = self.scheduling.scheduler.peek(backend_free) {
            if self.enter_contended_lane(key) {
                wanting |= self.start_contended();
                continue;
            }
            if self.enter_long_lane(key) {
                continue;
            }
            match self.start_shared(key) {
                Sharing::With(_) => continue,
                Sharing::Full => {
                    holdup = Some(Lack::StatementsInFlight);
                    self.start_followers(key);
                    break;
                }
                Sharing::Alone if self.leaves_room_for_others(key) => continue,
                Sharing::Alone => {}
            }
            let Some(grant) = self.scheduling.take_permit_or_want_it(key) else {
                if self.scheduling.scheduler.waits_for_long(key) {
                    continue; // another worker has been faster
                }
                if self.start_one_holder() {
                    continue;
                }
                wanting = true;
                self.start_followers(key);
                break;
            };
            let held = self.clients[key].backend;
            match held.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => self.start_alone(key, backend, grant),
                None => {
                    self.scheduling.scheduler.put_back(grant);
                    first_lacks_backend = true;
                    match self.start_behind(key) {
                        BehindFirst::Started => {}
                        BehindFirst::NoBackend => backend_free = false,
                        BehindFirst::WaitsForPermit => {
                            wanting = true;
                            break;
                        }
                    }
                }
            }
        }
        self.start_long_without_permits(backend_free);
        let parts = (&self.servers, &self.pool);
        self.scheduling.note_holdup(self.now, parts, holdup, wanting, backend_free);
        let scheduler = &mut self.scheduling.scheduler;
        self.pool.note_want_of_permits(self.now, &self.settings, scheduler, wanting);
        let full = holdup == Some(Lack::StatementsInFlight) || self.shared_reads().wait();
        self.pool.workers.note_saturation(self.pool.worker, self.now, wanting, full);
        let lacking = !backend_free || first_lacks_backend || (wanting && self.still_lacks_backend());
        self.note_lack_of_backends(lacking);
    }

    /// Starts statements of contended kinds, until no more may be in work or none finds a backend. True where one waits for nothing but a
    /// permit.
    pub(crate) fn start_contended(&mut self) -> bool {
        let mut backend_free = true;
        let wanting = loop {
            let (scheduling, parties, clients, servers) = self.queues();
            let (key, grant) = match scheduling.next_contended(&parties, clients, servers, backend_free) {
                NextContended::Starts(key, grant) => (key, grant),
                NextContended::WantsPermit => break true,
                NextContended::None => break false,
            };
            if let Some(backend) = self.clients[key].backend.or_else(|| self.idle_backend_for(key)) {
                self.servers.of_mut(backend).begin_contended(backend, grant);
                self.start_alone(key, backend, grant);
            } else {
                let (scheduling, parties, clients, servers) = self.queues();
                let waiting = scheduling.contended_lack_backend(&parties, clients, servers, grant);
                self.open_backends_for(&waiting);
                backend_free = false;
            }
        };
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.note_contended_room(&parties, clients, servers);
        wanting
    }

    /// Borrows the parts that decide which reads share backends.
    pub(super) fn shared_reads(&mut self) -> SharedReads<'_> {
        let (scheduling, parties, clients, servers) = self.queues();
        SharedReads { parties, scheduling, clients, servers }
    }

    /// Has a short read follow others on a backend that is reading already, where it may.
    pub(in crate::backend) fn start_shared(&mut self, key: ClientKey) -> Sharing {
        let sharing = self.shared_reads().place_of(key);
        if let Sharing::With(backend) = sharing {
            self.scheduling.scheduler.start(key, true);
            self.send_request(key, backend);
            self.views.totals.shared_reads += 1;
            let sent = self.servers[backend].in_flight.back();
            self.views.totals.schemas_brought += u64::from(sent.is_some_and(|sent| sent.preludes > 0));
        }
        sharing
    }

    /// Starts reads out of turn while the first statement waits for a permit, or for room among its own. They follow others of their account
    /// and state, which takes neither.
    pub(super) fn start_followers(&mut self, first: ClientKey) {
        let mut followed = self.shared_reads().followed_beside(first);
        if followed.is_empty() {
            return;
        }
        for key in self.scheduling.scheduler.behind(first, LOOK_FOR_FOLLOWERS) {
            let sharers = self.clients[key].sharers().filter(|sharers| followed.contains(sharers));
            let Some(sharers) = sharers else { continue };
            if !matches!(self.start_shared(key), Sharing::With(_)) {
                followed.remove(&sharers);
            }
        }
    }

    /// Says whether the first statement still lacks a backend. Without a permit nobody has looked for one, and a former lack may be over.
    fn still_lacks_backend(&self) -> bool {
        let first = self.scheduling.scheduler.peek(true);
        self.scheduling.lacking_since.is_some()
            && first.is_some_and(|key| {
                self.clients[key].backend.is_none() && self.idle_backend_for(key).is_none()
            })
    }

    /// Starts long statements that need no permit, so that they do not wait behind others that want one.
    fn start_long_without_permits(&mut self, mut backend_free: bool) {
        loop {
            self.scheduling.want_long(&self.clients, backend_free);
            let (scheduling, parties, clients, servers) = self.queues();
            let key = match scheduling.next_long_without_permit(&parties, clients, servers, backend_free) {
                NextLong::Starts(key) => key,
                NextLong::Moved => continue,
                NextLong::None => return,
            };
            let Some(backend) = self.clients[key].backend.or_else(|| self.idle_backend_for(key)) else {
                backend_free = false;
                self.open_backend_beside_others(key);
                continue;
            };
            let Some(grant) = self.scheduling.scheduler.take_beyond(key) else { return };
            self.start_alone(key, backend, grant);
        }
    }

    /// Starts a statement that has its permit: it leaves the queue.
    pub(crate) fn start_alone(&mut self, key: ClientKey, backend: BackendKey, grant: Grant) {
        self.scheduling.scheduler.start(key, grant.has_permit());
        self.servers.note_served(backend, &self.clients[key]);
        if grant.has_permit() {
            self.pool.workers.way.note_start();
        }
        debug_assert!(self.clients[key].backend.is_none_or(|held| held == backend), "on what it holds");
        let spared = self.scheduling.spared_by(&self.settings, &self.clients[key], grant);
        self.servers[backend].runs_long = grant.long();
        let scheduler = &mut self.scheduling.scheduler;
        self.servers[backend].begin_with_permit(self.now, scheduler, grant.has_permit(), spared);
        self.send_request(key, backend);
    }

    /// Has a statement wait for its share again, instead of starting, where its user has as many backends as allowed.
    pub(in crate::backend) fn leaves_room_for_others(&mut self, key: ClientKey) -> bool {
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.leaves_room_for_others(&parties, clients, servers, key)
    }

    /// Moves a statement to the contended lane, if that turns out as its turn comes. True where it moves.
    fn enter_contended_lane(&mut self, key: ClientKey) -> bool {
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.enter_contended_lane(&parties, clients, servers, key)
    }

    /// Moves a statement to the long lane, if that turns out as its turn comes. True where it moves.
    pub(crate) fn enter_long_lane(&mut self, key: ClientKey) -> bool {
        let (settings, workers) = (&self.settings, &self.pool.workers);
        self.scheduling.enter_long_lane(self.now, settings, workers, key, &mut self.clients)
    }

    fn start_one_holder(&mut self) -> bool {
        let next = self.scheduling.next_holder(&self.clients, &self.servers);
        let Some((holder, backend, grant)) = next else { return false };
        self.start_alone(holder, backend, grant);
        true
    }

    /// Starts statements of other users behind the first one, which finds no backend: its user's are still being opened, or none may be. First
    /// come clients of the account that an idle backend was opened for, then others with an idle backend. The rest has backends opened.
    fn start_behind(&mut self, first: ClientKey) -> BehindFirst {
        let may_wait = self.servers.note_lack(self.now, &self.clients[first]) < LONGEST_WAIT;
        let (settings, scheduling) = (&self.settings, &self.scheduling);
        if may_wait
            && let Some((client, backend)) =
                self.servers.by_affinity(self.now, settings, scheduling, &self.clients, &self.sessions)
        {
            if self.enter_contended_lane(client) || self.enter_long_lane(client) {
                return BehindFirst::Started; // its kind has become one of those that have a lane of their own
            }
            if let Some(grant) = self.scheduling.scheduler.take_permit(client) {
                self.start_alone(client, backend, grant);
                return BehindFirst::Started;
            }
        }
        let waiting = self.scheduling.scheduler.first_in_need(LOOK_BEHIND);
        self.open_backends_for(&waiting);
        let mut behind = BehindFirst::NoBackend;
        for key in waiting {
            let Some(backend) = self.idle_backend_for(key) else { continue };
            let (_, parties, clients, servers) = self.queues();
            if !parties.user_may_use_one_more(key, &clients[key], servers) {
                continue;
            }
            if self.enter_contended_lane(key) || self.enter_long_lane(key) {
                continue;
            }
            let Some(grant) = self.scheduling.take_permit_or_want_it(key) else {
                if self.scheduling.scheduler.waits_for_long(key) {
                    continue;
                }
                return BehindFirst::WaitsForPermit;
            };
            self.start_alone(key, backend, grant);
            behind = BehindFirst::Started;
        }
        behind
    }

    /// Starts statements that must not wait for a permit, since they may be the ones that free a permit: KILL, and the end of a transaction.
    fn start_urgent(&mut self) {
        for (client, since) in std::mem::take(&mut self.scheduling.urgent) {
            let waits = self.clients.find(client).is_some_and(|client| {
                let urgent = client.request.as_ref().is_some_and(|request| request.turn.is_urgent());
                urgent && matches!(client.phase(), Phase::Queued)
            });
            let key = client.key;
            if !waits || self.kill_is_over(key) {
                continue;
            }
            let held = self.clients[key].backend;
            match held.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => {
                    self.outside_kills().note_own(key, backend);
                    self.send_request(key, backend);
                }
                None if self.now >= self.why_no_backend().waits_until(since) => self.give_up_waiting(key),
                None => {
                    self.open_backend_for_urgent(key);
                    self.scheduling.urgent.push((client, since));
                }
            }
        }
    }

    /// Refuses statements that have waited too long, or are too many. Runs after dispatching.
    pub(crate) fn refuse_overload(&mut self) {
        self.give_up_held_up();
        for class in Class::ALL {
            while let Some((client, bound)) = self.scheduling.next_late(self.now, &self.settings, class) {
                self.refuse_new(client, &bound);
            }
            while let Some((client, bound)) =
                self.scheduling.next_surplus(&self.settings, &self.pool, &self.clients, class)
            {
                self.refuse_new(client, &bound);
            }
        }
        if let Some(longest) = self.scheduling.unfair_patience(self.now, &self.settings) {
            while let Some((client, bound)) =
                self.scheduling.next_passed_over(self.now, &self.settings, longest)
            {
                self.refuse_new(client, &bound);
            }
        }
    }

    fn refuse_new(&mut self, client: ClientKey, bound: &Bound) {
        self.note_refused(client, bound.reached());
        let request = self.clients[client].request.as_ref();
        let login = request.is_some_and(|request| request.command == RequestKind::LoginSchema);
        let error = if login { MySqlError::login_refused(bound) } else { MySqlError::refused(bound) };
        self.cancel_queued(client, &error);
    }

    /// Gives up statements that have waited too long for their user to use fewer backends.
    fn give_up_held_up(&mut self) {
        while let Some(key) = self.scheduling.held_up_too_long(self.now, &self.settings) {
            let lack = self.why_no_backend().held_up(&self.clients[key], &self.logins);
            self.give_up_for(key, lack);
        }
    }

    /// Notes that a client's statement starts.
    fn note_start(&mut self, key: ClientKey, request: &mut Request) {
        self.scheduling.note_start(self.now, request);
        self.views.note_start(&mut self.clients[key], request);
        let client = &mut self.clients[key];
        self.scheduling.note_begun(self.now, &self.settings, (key, client), request);
        self.slow_log().1.note_slow_start(key, request);
        let mode = || self.clients[key].lex_mode(&self.sessions.states, self.servers.primary());
        self.scheduling.note_digest(self.now, request, mode);
    }

    /// Sends a client's request to a backend. The preludes for the missing parts of its session state go ahead.
    pub(crate) fn send_request(&mut self, key: ClientKey, backend_key: BackendKey) {
        let mut request = self
            .client_memory
            .lift_request(&mut self.clients[key])
            .expect("a client that starts has a request");
        if request.turn.starts() {
            self.note_start(key, &mut request);
        }
        let (client, primary) = (&self.clients[key], self.servers.primary());
        self.pool.note_hidden_code(client, &self.sessions, primary, &mut request);
        let (servers, sessions) = (&self.servers, &self.sessions.states);
        self.clients[key].rewrite_calls(servers, sessions, &self.settings, &mut request);
        let (settings, tables, servers) = (&self.settings, &self.sessions, &self.servers);
        let ahead = match request.prepared {
            true => Ahead::default(),
            false => self.clients[key].preludes(settings, tables, servers, backend_key, &request),
        };
        // The state that a statement is prepared in has to be known: it may be prepared again elsewhere.
        if request.command == RequestKind::Prepare && self.clients[key].session.unreported().is_some() {
            return self.ask_unreported_first(key, backend_key, request);
        }
        if let Some(definition) = self.servers.of(backend_key).lacking_definition(backend_key, &request) {
            return self.prepare_first(key, backend_key, request, definition, &ahead);
        }
        let query = request.command == RequestKind::Query;
        let several = query && request.text().is_none_or(may_be_several);
        let client_several = self.clients[key].capabilities.contains(Capabilities::MULTI_STATEMENTS);
        let can_be_joined = !ahead.alone && can_be_joined(&request);
        let joined = !ahead.texts.is_empty() && can_be_joined && (client_several || !several);
        // Another statement may only follow where the session state stands already, or goes ahead alone, as each can bring its own along.
        let follows = ahead.texts.is_empty() || (joined && ahead.is_state_alone());
        let shared =
            follows && self.clients[key].backend.is_none() && self.shared_reads().may_share(key, &request);
        let only_kind = self.scheduling.only_kind(self.now, &request).filter(|_| shared);
        self.sending().begin_on(key, backend_key, shared, only_kind);
        if !ahead.texts.is_empty() && !joined {
            return self.apply_state_first(key, backend_key, request, &ahead);
        }
        if joined || several {
            self.sending().set_multi_statements(backend_key, joined || client_several);
        }
        let group = self.coalescing().begin_group(&mut request);
        self.pool.note_served(&mut request);
        if let Some(about) = request.about.as_deref().filter(|_| request.command == RequestKind::Execute) {
            let id = self.prepared().id_on(backend_key, about).expect("it is prepared there");
            put_statement_id(&mut request.raw, id);
        }
        // What shares a backend may have to be sent once more, see `rescue.rs`, and a text that is prepared is remembered.
        let kept = (shared && self.settings.rescue_reads)
            || request.command == RequestKind::Prepare
            // To another server, where this one refuses it or is lost.
            || (self.settings.cluster.several && request.raw.len() <= LARGEST_JOINED);
        self.put_request(key, backend_key, &mut request, &ahead, (shared, kept));
        if let Some(statement) = self.servers[backend_key].in_flight.back_mut() {
            statement.group = group;
        }
        let dumps = request.command == RequestKind::BinlogDump;
        self.clients[key].run(dumps);
        if !kept {
            request.forget_bytes();
        }
        self.client_memory.put_request_back(&mut self.clients[key], request);
    }

    /// Takes the next step towards a statement that is not prepared yet: sends the session state for it, or prepares it.
    fn prepare_first(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        request: Box<Request>,
        definition: DefinitionId,
        ahead: &Ahead,
    ) {
        if self.clients[key].session.unreported().is_some() {
            return self.ask_unreported_first(key, backend_key, request);
        }
        self.sending().begin_on(key, backend_key, false, None);
        let next = self.prepared().next_to_prepare(key, backend_key, definition, !ahead.is_empty());
        if matches!(next, ToPrepare::StateOfClient) {
            return self.apply_state_first(key, backend_key, request, ahead);
        }
        self.client_memory.put_request_back(&mut self.clients[key], request);
        self.clients[key].prepare();
        match next {
            ToPrepare::StateOfClient => {}
            ToPrepare::Statement(text) => {
                self.views.totals.prepared_again += 1;
                let owner = Owner::Prepare { client: key };
                self.sending().send_own(
                    backend_key,
                    owner,
                    CommandKind::StmtPrepare,
                    &text,
                    Expect::Prepare,
                    0,
                );
            }
            ToPrepare::State(text, preludes) => {
                self.sending().set_multi_statements(backend_key, true);
                let (owner, skip) = (Owner::ApplyDefinition { client: key }, preludes.saturating_sub(1));
                self.sending().send_own(
                    backend_key,
                    owner,
                    CommandKind::Query,
                    &text,
                    Expect::ResultSets,
                    skip,
                );
            }
        }
    }

    /// Asks for the values of the client's session state that are in doubt. The request follows.
    fn ask_unreported_first(&mut self, key: ClientKey, backend_key: BackendKey, request: Box<Request>) {
        debug_assert_eq!(self.clients[key].backend, Some(backend_key), "no other backend has its values");
        self.sending().begin_on(key, backend_key, false, None);
        self.client_memory.put_request_back(&mut self.clients[key], request);
        self.clients[key].prepare();
        self.ask_unreported(backend_key, key);
    }

    /// Sends the missing part of the session state by itself. The request follows when that stands.
    pub(crate) fn apply_state_first(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        mut request: Box<Request>,
        ahead: &Ahead,
    ) {
        request.prepared = true;
        // Whatever becomes of that, it concerns its client alone.
        if let Some(hash) = request.turn.leave_group() {
            self.coalescing().pass_on(hash);
        }
        self.client_memory.put_request_back(&mut self.clients[key], request);
        self.clients[key].prepare();
        self.sending().set_multi_statements(backend_key, true);
        self.sending().wait_timeout_goes_ahead(key, backend_key, ahead);
        let preludes = ahead.count();
        let text = ahead.texts.join(&b';');
        let owner = Owner::ApplyState { client: key };
        self.sending().send_own(
            backend_key,
            owner,
            CommandKind::Query,
            &text,
            Expect::ResultSets,
            preludes - 1,
        );
        if let Some(statement) = self.servers[backend_key].in_flight.back_mut() {
            statement.prelude_effects = ahead.effects;
        }
    }

    /// Writes the request, in one text with its preludes: a failure of a prelude then stops the request.
    fn put_request(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        request: &mut Request,
        ahead: &Ahead,
        (shared, kept): (bool, bool),
    ) {
        let Client { capabilities, .. } = self.clients[key];
        let status = self.clients[key].reader().status();
        let foreseen = self.clients[key].foreseen(request);
        let known_metadata = self.prepared().known_metadata(key, request);
        // It looks at the text.
        let primary = self.servers.primary();
        let code_change = self.pool.code_change(&self.clients[key], &self.sessions, primary, request);
        let parameters = self.sessions.parameters_of(request);
        let backend = &mut self.servers[backend_key];
        let handed_on = if kept { None } else { backend.hand_on(&mut self.io.outbox, request, &ahead.texts) };
        let first_sequence =
            handed_on.unwrap_or_else(|| backend.put_message(parameters, request, &ahead.texts));
        backend.note_last(self.clients[key].id);
        self.sending().wait_timeout_goes_ahead(key, backend_key, ahead);
        let session = self.clients[key].session.id().filter(|_| shared && !ahead.is_empty());
        let brings = session.map(|session| Rc::clone(self.sessions.states.shared_state(session)));
        let backend = &mut self.servers[backend_key];
        let preludes = ahead.count();
        let mut options = reply_options(backend.login.capabilities, capabilities, preludes, first_sequence);
        if let Some(known) = known_metadata {
            options.client_metadata = known;
        }
        options.may_open_cursor = request.wants_cursor();
        backend.put_in_flight(
            self.now,
            InFlight {
                owner: Owner::Client { client: key, command: request.command },
                reader: ReplyReader::new(request.expect, options)
                    .with_status(status)
                    .with_foreseen(foreseen)
                    .with_results(request.results())
                    .with_client_sequence(request.answer),
                summary: Summary::default(),
                preludes,
                fingerprint: request.fingerprint(),
                waited: request.turn.waited(),
                shared,
                brings,
                prelude_effects: ahead.effects,
                group: None,
                chooses_schema: request.chooses_schema(),
                ends: Ends::ByItself,
                code_change,
                library: request.changes.library,
            },
        );
        self.servers.of_mut(backend_key).mark_dirty(backend_key);
    }
}
