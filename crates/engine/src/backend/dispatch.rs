//! From the queue to the server: who runs next, on which backend, and what goes ahead of the statement.

use std::rc::Rc;

use sql::Reads;
use wire::{Capabilities, CommandKind, Expect, ReplyReader, StatusFlags};

use super::message::{LARGEST_JOINED, can_be_joined, reply_options};
use super::opening::LONGEST_WAIT;
use super::sharing::Sharing;
use super::{Backend, Ends, InFlight, Owner, Permit, PreludeEffects, Summary};
use crate::client::prepared::put_statement_id;
use crate::client::{Client, Phase};
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::outside::waits::WaitReason;
use crate::request::{Request, RequestKind, may_be_several};
use crate::scheduler::Grant;
use crate::scheduler::lane::Lane;
use crate::session::pins::Pins;

/// How far down the queue statements of other users are looked for when the first one finds no backend.
const LOOK_BEHIND: usize = 32;

/// What became of statements behind the first one, which finds no backend.
enum Behind {
    /// Some of them have been started, or moved: there is more to look at.
    Started,
    /// There is a backend for one of them, and no permit.
    WaitsForPermit,
    /// There is no backend for any of those that were looked at.
    NoBackend,
}

impl Engine {
    /// Dispatches, with as much of what waits for its share as there is room for.
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

    /// Starts all that may start. Once per turn, so that what arrived together is put in order first and leaves in as few
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
        self.scheduling.scheduler.want_long(true);
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
                    holdup = Some(WaitReason::StatementsInFlight);
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
                        Behind::Started => {}
                        Behind::NoBackend => backend_free = false,
                        Behind::WaitsForPermit => {
                            wanting = true;
                            break;
                        }
                    }
                }
            }
        }
        let parts = (&self.servers, &self.pool);
        self.scheduling.note_holdup(self.now, parts, holdup, wanting, backend_free);
        self.scheduling.scheduler.want_long(backend_free);
        let scheduler = &mut self.scheduling.scheduler;
        self.pool.note_want_of_permits(self.now, &self.settings, scheduler, wanting);
        let full = holdup == Some(WaitReason::StatementsInFlight) || self.shared_reads().wait();
        self.pool.workers.note_saturation(self.pool.worker, self.now, wanting, full);
        let lacking = !backend_free || first_lacks_backend || (wanting && self.still_lacks_backend());
        self.note_lack_of_backends(lacking);
    }

    /// Without a permit nobody has looked for a backend for the first statement: a lack that there was may be over.
    fn still_lacks_backend(&self) -> bool {
        let first = self.scheduling.scheduler.peek(true);
        self.scheduling.lacking_since.is_some()
            && first.is_some_and(|key| {
                self.clients[key].backend.is_none() && self.idle_backend_for(key).is_none()
            })
    }

    /// The statement, whose permit has been taken, leaves the queue.
    pub(crate) fn start_alone(&mut self, key: ClientKey, backend: BackendKey, grant: Grant) {
        self.scheduling.scheduler.start(key);
        let client = &self.clients[key];
        if let Some(identity) = client.identity {
            self.servers.of_mut(backend).opening.served((identity, client.class()));
        }
        if grant.has_permit() {
            self.pool.workers.way.note_start();
        }
        debug_assert!(self.clients[key].backend.is_none_or(|held| held == backend), "on what it holds");
        let spared = self.scheduling.spared_by(&self.settings, &self.clients[key], grant);
        self.servers[backend].runs_long = grant.is_long();
        let scheduler = &mut self.scheduling.scheduler;
        self.servers[backend].begin_with_permit(self.now, scheduler, grant.has_permit(), spared);
        self.send_request(key, backend);
    }

    /// Has a statement that would start wait for its share again where its user uses as many backends as it may.
    pub(super) fn leaves_room_for_others(&mut self, key: ClientKey) -> bool {
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.leaves_room_for_others(&parties, clients, servers, key)
    }

    /// Moves a statement whose turn has come to the contended lane, if it has turned out to belong there.
    fn enter_contended_lane(&mut self, key: ClientKey) -> bool {
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.enter_contended_lane(&parties, clients, servers, key)
    }

    /// Moves a statement whose turn has come to the long lane, if it has turned out to belong there.
    pub(crate) fn enter_long_lane(&mut self, key: ClientKey) -> bool {
        let (settings, workers) = (&self.settings, &self.pool.workers);
        self.scheduling.enter_long_lane(self.now, settings, workers, key, &mut self.clients[key])
    }

    /// While a statement that has waited too long waits for a permit before those who hold locks, one of these goes on at a
    /// time: all permits may be with statements that wait for it.
    fn start_one_holder(&mut self) -> bool {
        let Some(holder) = self.scheduling.scheduler.passed_over() else { return false };
        let Some(backend) = self.clients[holder].backend else { return false };
        let runs = |client: ClientKey| {
            self.clients[client]
                .request
                .as_ref()
                .is_some_and(|request| request.turn.lane == Some(Lane::Holding))
        };
        let one_runs = self
            .servers
            .backends()
            .any(|(_, backend)| backend.permit() == Permit::Held && backend.holder.is_some_and(runs));
        if one_runs {
            return false;
        }
        let Some(grant) = self.scheduling.scheduler.take_permit(holder) else { return false };
        self.start_alone(holder, backend, grant);
        true
    }

    /// The first statement in need finds no backend (its user's are still being opened, or none may be): those of other users
    /// behind it go on where backends are idle for them, first those of the account that one was opened for, and for the rest backends are opened.
    fn start_behind(&mut self, first: ClientKey) -> Behind {
        let may_wait = self.note_lack(first) < LONGEST_WAIT;
        let (settings, scheduling) = (&self.settings, &self.scheduling);
        if may_wait
            && let Some((client, backend)) =
                self.servers.by_affinity(self.now, settings, scheduling, &self.clients, &self.sessions)
        {
            if self.enter_contended_lane(client) || self.enter_long_lane(client) {
                return Behind::Started; // its kind has become one of those that have a lane of their own
            }
            if let Some(grant) = self.scheduling.scheduler.take_permit(client) {
                self.start_alone(client, backend, grant);
                return Behind::Started;
            }
        }
        let waiting = self.scheduling.scheduler.first_in_need(LOOK_BEHIND);
        self.open_backends_for(&waiting);
        let mut behind = Behind::NoBackend;
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
                return Behind::WaitsForPermit;
            };
            self.start_alone(key, backend, grant);
            behind = Behind::Started;
        }
        behind
    }

    /// What must not wait for a permit, since it may be what frees one: KILL, and the end of a transaction.
    fn start_urgent(&mut self) {
        for (client, since) in std::mem::take(&mut self.scheduling.urgent) {
            let waits = self.clients.find(client).is_some_and(|client| {
                let urgent = client.request.as_ref().is_some_and(|request| request.turn.urgent);
                urgent && matches!(client.phase(), Phase::Queued)
            });
            let key = client.key;
            if !waits || self.kill_is_over(key) {
                continue;
            }
            let held = self.clients[key].backend;
            match held.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => {
                    self.note_own_kill(key, backend);
                    self.send_request(key, backend);
                }
                None if self.now >= self.waits_until(since) => {
                    let error = self.lack_error(self.servers.serving(&self.clients[key]));
                    self.cancel_queued(key, &error);
                }
                None => {
                    self.open_backend_for_urgent(key);
                    self.scheduling.urgent.push((client, since));
                }
            }
        }
    }

    /// A client's statement starts.
    fn note_start(&mut self, key: ClientKey, request: &mut Request) {
        self.scheduling.note_start(self.now, request);
        self.views.note_start(&mut self.clients[key], request);
        let client = &mut self.clients[key];
        self.scheduling.note_begun(self.now, &self.settings, (key, client), request);
        self.slow_log().1.note_slow_start(key, request);
        let mode = || self.clients[key].lex_mode(&self.sessions.states, self.servers.primary());
        self.scheduling.note_digest(self.now, request, mode);
    }

    /// Sends a client's request to a backend; what is missing of its session state goes ahead of it.
    pub(crate) fn send_request(&mut self, key: ClientKey, backend_key: BackendKey) {
        let mut request = self
            .client_memory
            .lift_request(&mut self.clients[key])
            .expect("a client that starts has a request");
        if !std::mem::replace(&mut request.turn.started, true) {
            self.note_start(key, &mut request);
        }
        let (client, primary) = (&self.clients[key], self.servers.primary());
        self.pool.note_hidden_code(client, &self.sessions, primary, &mut request);
        let (servers, sessions) = (&self.servers, &self.sessions.states);
        self.clients[key].rewrite_calls(servers, sessions, &self.settings, &mut request);
        let ahead =
            if request.prepared { Ahead::default() } else { self.preludes(key, backend_key, &request) };
        // The state that a statement is prepared in has to be known: it may be prepared again elsewhere.
        if request.command == RequestKind::Prepare && self.clients[key].session.unreported.is_some() {
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
        self.begin_on(key, backend_key, shared, only_kind);
        if !ahead.texts.is_empty() && !joined {
            return self.apply_state_first(key, backend_key, request, &ahead);
        }
        if joined || several {
            self.set_multi_statements(backend_key, joined || client_several);
        }
        let group = self.coalescing().begin_group(&mut request);
        self.pool.note_served(&mut request);
        if let Some(about) = request.about.as_deref().filter(|_| request.command == RequestKind::Execute) {
            let id = self.prepared_statement_id(backend_key, about).expect("it is prepared there");
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

    /// Sends what is missing of the session state by itself; the request follows when it stands.
    pub(crate) fn apply_state_first(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        mut request: Box<Request>,
        ahead: &Ahead,
    ) {
        request.prepared = true;
        // Whatever becomes of that, it concerns its client alone.
        if let Some(hash) = request.turn.group.take() {
            self.coalescing().pass_on(hash);
        }
        self.client_memory.put_request_back(&mut self.clients[key], request);
        self.clients[key].prepare();
        self.set_multi_statements(backend_key, true);
        self.wait_timeout_goes_ahead(key, backend_key, ahead);
        let preludes = ahead.count();
        let text = ahead.texts.join(&b';');
        let owner = Owner::ApplyState { client: key };
        self.send_own(backend_key, owner, CommandKind::Query, &text, Expect::ResultSets, preludes - 1);
        if let Some(statement) = self.servers[backend_key].in_flight.back_mut() {
            statement.prelude_effects = ahead.effects;
        }
    }

    /// The client takes the backend, alone or beside others.
    pub(crate) fn begin_on(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        shared: bool,
        only_kind: Option<u64>,
    ) {
        let server = self.servers.of_mut(backend_key);
        let backend = &mut server.backends[backend_key];
        if backend.shown.used.is_none() {
            let usage = self.logins.identities.usage(backend.account.identity, &self.pool.workers.users);
            backend.shown.used = Some(usage.begin(self.pool.worker));
        }
        backend.opened.fresh = false;
        if backend.in_flight.is_empty() {
            backend.account.began_at = server.control.changes.seen();
        }
        if backend.is_idle() {
            backend.only_kind = only_kind;
            server.idle.remove(backend_key);
            if shared {
                let session = self.clients[key].session.id.expect("a client with requests has logged in");
                server.sharing.add(self.now, backend_key, (backend.account.identity, session));
            }
        }
        if shared {
            backend.shown.serves.nobody();
        } else {
            backend.holder = Some(key);
            backend.shown.serves.set(self.clients[key].id);
        }
        self.clients[key].backend = Some(backend_key);
    }

    /// What has to be true on the backend before the request, as statements; empty where it is true already.
    fn preludes(&self, key: ClientKey, backend_key: BackendKey, request: &Request) -> Ahead {
        let (client, backend) = (&self.clients[key], &self.servers[backend_key]);
        let mut ahead = Ahead::default();
        if request.resets_session() {
            return ahead;
        }
        if !backend.session.trackers {
            ahead.texts.push(super::connect::TRACKERS_ON.as_bytes().to_vec());
        }
        if backend.must_be_cleared(client.id, request) {
            ahead.effects.clear = true;
            ahead.texts.push(super::diagnostics_area::CLEAR.to_vec());
        }
        if client.session.id != Some(backend.session.id) || self.sessions.others_come(backend) {
            let wanted =
                self.sessions.states.state(client.session.id.expect("a client with requests has logged in"));
            let found = self.sessions.found_on(backend);
            ahead.alone = found.iter().any(|found| wanted.changes_behind_text(found));
            // A request for another schema has no use for the present one, which may have been dropped.
            let other = found.iter().any(|found| wanted.schema != found.schema);
            ahead.effects.schema = other && wanted.schema.is_some() && !request.chooses_schema();
            let texts = super::difference::statements(wanted, &found, ahead.effects.schema);
            ahead.of_state = texts.len();
            ahead.texts.extend(texts);
        }
        let variables = self.clients[key].variables_ahead(&self.servers, backend_key, request);
        if !variables.is_empty() {
            ahead.texts.push(variables);
        }
        let pins = !self.pins_of(key, request).is_empty();
        if let Some(set) = self.clients[key].wait_timeout_ahead(&self.servers[backend_key], request, pins) {
            ahead.sets_wait_timeout = true;
            ahead.texts.push(set);
        }
        // A pin makes the backend the client's own: LAST_INSERT_ID() has to be right there from now on. So it has to be
        // ahead of an insert that may or may not change it, where the next statement will be asked there too. On a backend
        // that nobody holds it is 0.
        // LAST_INSERT_ID(0) cannot be told from no change where 0 stood before.
        let reads_id =
            request.statement.reads.contains(Reads::LAST_INSERT_ID) || request.statement.sets_last_insert_id;
        let inserts = request.statement.inserts;
        // Without autocommit an insert may begin a transaction itself.
        let autocommit = client.session.status.contains(StatusFlags::AUTOCOMMIT);
        let begun = client.in_transaction() || client.transaction.unstarted.is_some() || !autocommit;
        let needed = pins || reads_id || (inserts && begun);
        let there = client.session.aftermath.last_insert_id == 0
            || client.session.aftermath.insert_id_at == Some(backend_key);
        if needed && !there {
            ahead.effects.set_insert_id = true;
            ahead
                .texts
                .push(format!("SET last_insert_id={}", client.session.aftermath.last_insert_id).into_bytes());
        }
        // Preparing a statement has no part in a transaction, but for being refused in one that only reads.
        let prepares = request.command == RequestKind::Prepare;
        if let Some(unstarted) =
            client.transaction.unstarted.filter(|unstarted| !prepares || unstarted.only_reads())
        {
            ahead.effects.begin = true;
            ahead.texts.push(unstarted.text().to_vec());
        }
        ahead
    }

    /// Should it fail after all, the backend is closed.
    fn wait_timeout_goes_ahead(&mut self, key: ClientKey, backend_key: BackendKey, ahead: &Ahead) {
        if ahead.sets_wait_timeout {
            self.servers[backend_key].session.wait_timeout = self.clients[key].session.wait_timeout;
        }
    }

    /// COM_SET_OPTION, where the backend's setting is another one.
    pub(crate) fn set_multi_statements(&mut self, backend_key: BackendKey, on: bool) {
        if self.servers[backend_key].session.multi_statements != on {
            self.servers[backend_key].session.multi_statements = on;
            let option = u16::from(!on).to_le_bytes();
            self.send_own(backend_key, Owner::SetOption, CommandKind::SetOption, &option, Expect::Simple, 0);
        }
    }

    /// Writes the request, in one text with what goes ahead of it: a failure of the latter then stops the former.
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
        let known_metadata = self.known_metadata(key, request);
        // It looks at the text.
        let primary = self.servers.primary();
        let code_change = self.pool.code_change(&self.clients[key], &self.sessions, primary, request);
        let parameters = self.sessions.parameters_of(request);
        let backend = &mut self.servers[backend_key];
        let handed_on = if kept { None } else { backend.hand_on(&mut self.io.outbox, request, &ahead.texts) };
        let first_sequence =
            handed_on.unwrap_or_else(|| backend.put_message(parameters, request, &ahead.texts));
        backend.note_last(self.clients[key].id);
        self.wait_timeout_goes_ahead(key, backend_key, ahead);
        let session = self.clients[key].session.id.filter(|_| shared && !ahead.is_empty());
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
                waited: request.turn.waited,
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

    /// The reasons for which a client will hold its backend beyond the end of this request.
    pub(crate) fn pins_of(&self, key: ClientKey, request: &Request) -> Pins {
        self.clients[key].pins_of(request, &self.settings, &self.servers, &self.sessions.states)
    }
}

/// What goes ahead of a request.
#[derive(Default)]
pub(crate) struct Ahead {
    texts: Vec<Vec<u8>>,
    /// So many of them set the client's session state.
    of_state: usize,
    effects: PreludeEffects,
    /// The client's `wait_timeout` is among it.
    sets_wait_timeout: bool,
    /// It has to be a text of its own.
    alone: bool,
}

impl Ahead {
    fn is_state_alone(&self) -> bool {
        self.texts.len() == self.of_state
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn count(&self) -> u8 {
        u8::try_from(self.texts.len()).expect("nine kinds of statements go ahead")
    }
}

impl Backend {
    /// Whether this client's statement is the one being answered now.
    pub(crate) fn answers(&self, client: ClientKey) -> bool {
        self.in_flight.front().is_some_and(|statement| statement.owner.client() == Some(client))
    }
}
