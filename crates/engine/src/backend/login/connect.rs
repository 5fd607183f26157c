//! Opens backends for statements that lack them, takes them through login and rest, and ends them, also where another server becomes the primary.

use std::sync::Arc;

use seam::{ConnectionId, Instant};
use wire::{CommandKind, Expect};

use crate::accounts::secret::Password;
use crate::backend::login::logging_in::{LoggingIn, LoginStep};
use crate::backend::login::reachability::connect_error;
use crate::backend::login::refused::{Reason, RefusedLogins, ServerRefusal};
use crate::backend::pool::building::{AsWhom, Building};
use crate::backend::pool::idle::{Rest, Resting};
use crate::backend::pool::lack::{Lack, WhyNoBackend};
use crate::backend::pool::taking_places::{FoundPlace, FullAccount, TakingPlaces};
use crate::backend::to_server::sending::Sending;
use crate::backend::{Owner, Phase, Summary};
use crate::client::login::attempt::LoginAnswer;
use crate::client::login::delegation::Unproved;
use crate::client::login::delegation::claims::Claim;
use crate::client::login::delegation::line::LoginOrigin;
use crate::cluster::elsewhere::Elsewhere;
use crate::cluster::taking_up::{Departure, TakenUp, TakingUp};
use crate::cluster::watching::Watching;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef, ServerKey};
use crate::io::Role;
use crate::outside::event::Event;
use crate::server::stored_code::questions::ReadCode;
use crate::workers::account_connections::AccountConnection;
use crate::workers::letter::Letter;
use crate::workers::places::Origin;

impl Engine {
    /// Borrows the servers' backends, to begin others and to take them out.
    pub(crate) fn building(&mut self) -> Building<'_> {
        let Self { now, settings, pool, logins, sessions, scheduling, servers, io, .. } = self;
        Building { now: *now, settings, pool, logins, sessions, scheduling, servers, io }
    }

    /// Borrows the clients and the backends on which their statements go to the servers.
    pub(crate) fn sending(&mut self) -> Sending<'_> {
        let Self { now, pool, logins, clients, servers, .. } = self;
        Sending { now: *now, pool, logins, clients, servers }
    }

    /// Begins a backend for a client's user, capabilities and character set. Its place has been taken.
    pub(crate) fn open_backend(&mut self, key: ClientKey, origin: Origin) {
        let client = &self.clients[key];
        let (server, whom) = (self.servers.serving(client), client.as_whom());
        self.building().open(server, whom, origin);
    }

    /// Makes an idle backend one of a client's account.
    pub(in crate::backend) fn change_account(&mut self, key: BackendKey, client: ClientKey) {
        let whom = self.clients[client].as_whom().expect("a client that waits for a backend has logged in");
        self.building().change(key, whom);
        self.views.totals.account_changes += 1;
    }

    /// Finds an idle backend for a client's statement.
    pub(crate) fn idle_backend_for(&self, key: ClientKey) -> Option<BackendKey> {
        let several = self.settings.cluster.several;
        let may_send_again = self.following.may_send_again(several, &self.pool.workers.chosen);
        self.servers.idle_for(&self.clients[key], &self.sessions, may_send_again)
    }

    /// Borrows the parts that say where a backend comes from for a statement that lacks one.
    pub(in crate::backend) fn taking_places(&mut self) -> TakingPlaces<'_> {
        let knows_primary = self.following.knows_primary(self.settings.cluster.several);
        let (_, parties, clients, servers) = self.queues();
        TakingPlaces { parties, knows_primary, clients, servers }
    }

    /// Opens backends for waiting statements, in their order, where a statement finds no idle backend and none is being opened for it. Opens
    /// no more in all than could run at once.
    pub(in crate::backend) fn open_backends_for(&mut self, waiting: &[ClientKey]) {
        for server in self.servers.keys() {
            let free_permits = self.scheduling.scheduler.free_permits();
            let mut to_come = self.taking_places().to_come(server, free_permits);
            for &key in waiting {
                match self.taking_places().place_for(key, waiting, &mut to_come) {
                    None => continue,
                    Some(FoundPlace::OfOtherWorker) => {
                        self.pool.ask_for_backends();
                        continue;
                    }
                    Some(FoundPlace::Free(origin)) => self.open_backend(key, origin),
                    Some(FoundPlace::Of(other)) => self.change_account(other, key),
                    Some(FoundPlace::OfFullAccount(full)) => {
                        self.make_room(server, full);
                        continue;
                    }
                    Some(FoundPlace::Behind(idle)) => {
                        self.quit_backend(idle);
                        let Some(origin) = self.pool.take_place(self.now) else { continue };
                        self.open_backend(key, origin);
                    }
                }
                to_come.one_opens();
            }
        }
    }

    /// Opens a backend for a statement that needs no permit, where there is a free place.
    pub(in crate::backend) fn open_backend_beside_others(&mut self, key: ClientKey) {
        if let Some(origin) = self.taking_places().free_place_for(key) {
            self.open_backend(key, origin);
        }
    }

    /// Opens a backend for a KILL, one over the limit if need be: a KILL is needed most when all backends are held.
    pub(crate) fn open_backend_for_urgent(&mut self, key: ClientKey) {
        let client = &self.clients[key];
        if let Some(whom) = client.as_whom() {
            self.open_urgently(self.servers.serving(client), whom);
        }
    }

    /// Opens a backend with the login of another one, over the limit if need be.
    pub(crate) fn open_backend_like(&mut self, key: BackendKey) {
        self.open_urgently(key.server(), self.servers[key].as_whom());
    }

    fn open_urgently(&mut self, server: ServerKey, whom: AsWhom) {
        if let Err(full) = self.taking_places().may_open_urgently(server, (whom.identity, whom.class)) {
            return full.into_iter().for_each(|full| self.make_room(server, full));
        }
        if let Some(origin) = self.take_any_place().or_else(|| self.pool.take_place_beyond_limit(self.now)) {
            self.building().open(server, Some(whom), origin);
        }
    }

    /// Makes room for a backend of an account of which the server takes no more, or says that it lacks.
    fn make_room(&mut self, server: ServerKey, full: FullAccount) {
        match full {
            FullAccount::Behind(idle) => self.quit_backend(idle),
            FullAccount::Unknown(identity) => {
                let event = self.refused_logins().note_full_account(server, identity, None);
                event.into_iter().for_each(|event| self.views.event(event));
            }
        }
    }

    /// Takes a place for a backend: a free one, or that of the backend that has been idle longest.
    fn take_any_place(&mut self) -> Option<Origin> {
        if let Some(origin) = self.pool.take_place(self.now) {
            return Some(origin);
        }
        let longest = self.servers.longest_idle()?;
        self.quit_backend(longest);
        self.pool.take_place(self.now)
    }

    /// Borrows the backends that come to rest, and the queues that may need them.
    pub(in crate::backend) fn resting(&mut self) -> Resting<'_> {
        let Self { now, pool, logins, orders, scheduling, clients, servers, .. } = self;
        Resting { now: *now, pool, identities: &logins.identities, orders, scheduling, clients, servers }
    }

    /// Frees a backend that nobody needs any more: it goes to the idle ones, or is reset or closed first.
    pub(crate) fn free_backend(&mut self, key: BackendKey) {
        match self.resting().free(key) {
            Rest::Idle => {}
            Rest::WaitTimeoutFirst => self.sending().restore_wait_timeout(key),
            Rest::Reset => self.sending().reset(key),
            Rest::Quit => self.quit_backend(key),
        }
    }

    /// Resets a backend that a client leaves with something of its own on it. A statement that still runs there is waited for.
    pub(crate) fn reset_backend(&mut self, key: BackendKey) {
        if self.resting().left(key) {
            self.free_backend(key);
        }
    }

    /// Replaces all backends by others as soon as nobody needs them.
    pub(crate) fn renew_backends(&mut self) {
        self.servers.keys().for_each(|server| self.renew_backends_on(server));
    }

    /// Replaces all backends of one server likewise.
    pub(crate) fn renew_backends_on(&mut self, server: ServerKey) {
        let idle = self.servers[server].renew_backends();
        idle.into_iter().for_each(|key| self.quit_backend(key));
    }

    /// Takes in the stored code that a server has told, now that it has been looked through.
    pub(crate) fn code_is_read(&mut self, server: ServerKey, task: u64, read: Option<ReadCode>) {
        if self.service_accounts().code_is_read(server, task, read) {
            self.renew_backends();
            self.pool.write_to_others(&Letter::CodeFound);
        }
    }

    /// Takes the server's defaults. Where sessions begin with other values, new backends alone have them, and the facts tell of them.
    pub(crate) fn take_defaults(&mut self, server: ServerKey, answer: Vec<u8>) {
        let (defaults, says_so) = (&mut self.servers[server].control.defaults, self.pool.worker == 0);
        if defaults.take(answer, &mut self.sessions, &mut self.views, says_so) {
            self.renew_backends_on(server);
            self.service_accounts().ask_what_it_is(server);
        }
    }

    /// Leaves idle backends to other workers, where the server takes no more of their accounts.
    pub(crate) fn leave_wanted_accounts(&mut self) {
        while let Some(idle) = self.resting().next_of_wanted_account() {
            self.quit_backend(idle);
        }
    }

    /// Closes backends that nobody needs, and those beyond what the server has room for.
    pub(crate) fn sweep_backends(&mut self) {
        self.pool.workers.users.full_accounts.forget_old(self.now);
        let needless = self.servers.needless(self.now, &self.settings, &self.logins.identities);
        needless.into_iter().for_each(|key| self.quit_backend(key));
        while let Some(surplus) = self.resting().next_surplus() {
            self.quit_backend(surplus);
        }
    }

    /// Notes the driver's answer that the connection stands.
    pub(crate) fn backend_connected(&mut self, token: u64, connection: ConnectionId) {
        let Some(key) = self.servers.backend_of(token) else {
            return self.io.outbox.close(connection);
        };
        // A reader's is for reads alone, of which the server's answers say how old they are.
        let unproved = (!self.is_reader()).then(|| self.pool.workers.chosen.proof.connected()).flatten();
        if unproved.is_some() && !self.cluster.is_watching() {
            self.pool.wake_worker(0);
        }
        self.building().connected(key, connection, unproved);
    }

    pub(crate) fn backend_connect_failed(&mut self, token: u64, errno: i32) {
        let Some(key) = self.servers.backend_of(token) else { return };
        self.logging_in().server_failed(key.server(), connect_error(errno));
        self.remove_backend(key);
    }

    /// Borrows the backends that log in.
    pub(in crate::backend) fn logging_in(&mut self) -> LoggingIn<'_> {
        let Self { now, settings, pool, logins, servers, views, io, .. } = self;
        LoggingIn { now: *now, settings, pool, logins, servers, views, io }
    }

    /// Takes bytes for a backend that is logging in.
    pub(crate) fn backend_login_bytes(&mut self, key: BackendKey, bytes: &[u8]) {
        match self.logging_in().read(key, bytes) {
            LoginStep::GoesOn => {}
            LoginStep::Asks(text, skipped) => {
                let (command, expect) = (CommandKind::Query, Expect::ResultSets);
                self.sending().send_own(key, Owner::Setup, command, text.as_bytes(), expect, skipped);
            }
            LoginStep::AnotherServer(version) => self.another_server_met(key, &version),
            LoginStep::Refused(refusal) => self.backend_refused(key, refusal),
            LoginStep::Broken(reason) => self.close_backend(key, &reason),
        }
    }

    /// Takes the answer to the setup.
    pub(crate) fn backend_set_up(&mut self, key: BackendKey, summary: &Summary) {
        if let Err(refusal) = self.logging_in().take_setup(key, summary) {
            return self.backend_refused(key, refusal);
        }
        if !self.claim_proved(key) {
            return;
        }
        let backend = &self.servers[key];
        if self.following.may_use(backend.opened.unproved, backend.token) {
            self.backend_ready(key);
        }
    }

    /// Takes backends into use that have logged in, where it is known by now which process they lead to.
    pub(crate) fn take_up_proved(&mut self) {
        for token in self.following.take_unproved() {
            let Some(key) = self.servers.backend_of(token) else { continue };
            if self.following.may_use(self.servers[key].opened.unproved, token) {
                self.backend_ready(key);
            }
        }
    }

    /// Notes that statements may run on a backend.
    fn backend_ready(&mut self, key: BackendKey) {
        self.logging_in().ready(key);
        self.free_backend(key);
    }

    /// Ends a backend on which nothing runs in the orderly way.
    pub(crate) fn quit_backend(&mut self, key: BackendKey) {
        self.building().say_goodbye(key);
        self.remove_backend(key);
    }

    /// Gives up a backend that has failed to change its account. Its connection has been closed.
    pub(in crate::backend) fn change_ended(&mut self, key: BackendKey, reason: &str) {
        let backend = &self.servers[key];
        let (thread_id, reason) = (backend.login.thread_id, self.logins.failure_of_change(backend, reason));
        self.remove_backend(key);
        self.views.event(Event::BackendClosed { thread_id, reason });
    }

    /// Meets a server of this version that is not the known one, as a backend's login says. The backend goes, and the service account has to
    /// find out which server it is.
    fn another_server_met(&mut self, key: BackendKey, version: &str) {
        self.building().hang_up(key);
        self.remove_backend(key);
        let reason = format!("it has been replaced by {version}");
        // Where the service account is just asking the new one, backends wait for that.
        if self.servers.of(key).control.can_refresh() && self.servers.of(key).pending_facts.is_none() {
            self.control_lost(key.server(), &reason);
        } else if self.servers.of(key).pending_facts.is_none() {
            self.logging_in().server_failed(key.server(), reason);
        }
    }

    /// Takes a place for a backend that asks the server about a client's password.
    pub(crate) fn place_for_claim(&mut self) -> Option<Origin> {
        let primary = self.servers.primary().key;
        if self.taking_places().may_connect(primary) { self.take_any_place() } else { None }
    }

    /// Asks the server whether a client's password is right: a backend logs in with it.
    pub(crate) fn ask_server(
        &mut self,
        client: ClientRef,
        guest: LoginOrigin,
        password: Arc<Password>,
        (origin, turn): (Origin, Option<AccountConnection>),
    ) {
        let Some((held, question, collation)) = self.authentication().identity_to_ask(client, &password)
        else {
            // Gone since: whoever looks again finds no such account.
            self.pool.workers.places.give(self.pool.worker);
            return self.judge_claim(client, LoginAnswer::Nonsense);
        };
        let (server, class) = (self.servers.primary().key, self.clients[client.key].class());
        self.building().open(server, Some(AsWhom { identity: held.id(), class, collation }), origin);
        self.logins.claims.asks(self.io.last_name(), Claim { client, guest, password, question }, turn);
        // The backend alone holds it.
        self.release_identity(held);
    }

    /// Lets a client in, since the server has taken its password: the backend is its account's now. False where that has gone with the claim.
    fn claim_proved(&mut self, backend: BackendKey) -> bool {
        let (token, claimed) = (self.servers[backend].token, self.servers[backend].account.identity());
        let Some((client, answer)) = self.authentication().claim_proved(token) else { return true };
        self.judge_claim(client, answer);
        let Some(identity) = self.authentication().identity_proved(client, claimed) else {
            // It has gone, or may not log in for another reason.
            self.quit_backend(backend);
            return false;
        };
        let claim = std::mem::replace(&mut self.servers[backend].account.identity, identity);
        self.release_identity(claim);
        true
    }

    /// Notes that a backend did not come about. True where it was for a claim, which is over by that.
    pub(crate) fn claim_failed(&mut self, token: u64, how: Unproved) -> bool {
        let was_for_claim = self.logins.claims.has_asked(token);
        let step = self.authentication().claim_failed(token, how);
        self.carry_out_claim(step);
        was_for_claim
    }

    /// Takes a backend out of all tables. Its connection has been closed, or has ended.
    pub(crate) fn remove_backend(&mut self, key: BackendKey) {
        let backend = self.building().take_out(key);
        self.pool.workers.places.give(self.pool.worker);
        if let Some(connection) = backend.connection {
            self.io.set_role(connection, Role::Free);
        }
        self.claim_failed(backend.token, Unproved::Lost);
    }

    /// Gives up attempts that have taken longer than `backend_connect_timeout`.
    pub(crate) fn expire_connects(&mut self) {
        for key in self.logging_in().too_slow() {
            let reason = self.why_no_backend().why_not_ready(&self.servers[key]);
            self.building().hang_up(key);
            if self.logging_in().change_failed(key) {
                self.change_ended(key, reason);
                continue;
            }
            self.logging_in().server_failed(key.server(), String::from(reason));
            self.remove_backend(key);
        }
    }

    /// Has the servers watched, and does the work that follows from the choice of a primary.
    pub(crate) fn cluster_turn(&mut self) {
        if !self.settings.cluster.several {
            return;
        }
        self.watching().turn();
        match self.taking_up().choice() {
            TakenUp::Nothing => {}
            TakenUp::Holds => self.tell_refused(),
            TakenUp::Primary { place, moves } => {
                self.following.end_left_open(&mut self.io.outbox, Some(place));
                if moves {
                    self.move_to(place);
                }
            }
        }
        self.leave_backends();
        self.take_up_proved();
        self.taking_up().turn_ends();
    }

    /// Borrows the servers, where this worker watches them.
    pub(crate) fn watching(&mut self) -> Watching<'_> {
        let Self { now, settings, pool, cluster, views, io, .. } = self;
        Watching { now: *now, settings, pool, cluster, views, io }
    }

    /// Borrows this worker's backends, and the choice that all workers follow.
    pub(crate) fn taking_up(&mut self) -> TakingUp<'_> {
        let Self { now, settings, pool, scheduling, servers, following, .. } = self;
        TakingUp { now: *now, settings, pool, scheduling, servers, following }
    }

    /// Borrows the clients with statements on servers, and the knowledge of the primary.
    pub(crate) fn elsewhere(&mut self) -> Elsewhere<'_> {
        let Self { now, settings, pool, sessions, clients, servers, following, .. } = self;
        Elsewhere { now: *now, settings, pool, sessions: &sessions.states, clients, servers, following }
    }

    /// Moves the service account to another server. Backends follow once it has found out which server that is.
    pub(crate) fn move_to(&mut self, place: usize) {
        let for_all = self.cluster.is_watching();
        self.taking_up().move_to(place, for_all);
        self.logins.schemas.forget_known();
        self.readers.primary_changes();
        let primary = self.servers.primary().key;
        self.service_accounts().leave(primary);
        self.judge_again();
    }

    /// Closes backends on servers that are not the primary, or lets them go on for a while.
    fn leave_backends(&mut self) {
        let Some(leaving) = self.taking_up().leaving() else { return };
        for &key in &leaving.backends {
            match self.taking_up().leave(key, &leaving) {
                Departure::Later => {}
                Departure::InOrder => self.quit_backend(key),
                Departure::GivenUp => self.give_up_backend(key, "its server is not the primary"),
            }
        }
    }

    /// Notes that the server has closed a backend, or that the connection broke.
    pub(crate) fn backend_gone(&mut self, key: BackendKey, reason: &str) {
        let backend = &self.servers[key];
        let in_login = !backend.is_ready() && !backend.is_changing();
        self.servers[key].connection = self.servers[key].connection.take().inspect(|&connection| {
            self.io.set_role(connection, Role::Free);
        });
        // What ends at a former address says nothing of the server where it is now.
        let in_work = !self.servers[key].in_flight.is_empty() && !self.servers[key].place.is_former();
        // Whoever waits for this login is told why.
        if in_login {
            self.logging_in().server_failed(
                key.server(),
                format!("it closed the connection in the middle of a login ({reason})"),
            );
        }
        self.lose_backend(key, reason);
        if in_work && self.settings.cluster.several && self.following.distrusts_idle(self.now) {
            // If the server has died, those that are idle have too, and what goes on is not to meet them.
            while let Some(&idle) = self.servers.of(key).idle.first() {
                self.quit_backend(idle);
            }
        }
    }

    /// Notes the loss of the service account's connection, which is made again after a pause. Logins go on with the accounts as they were last.
    pub(crate) fn control_lost(&mut self, server: ServerKey, reason: &str) {
        self.service_accounts().leave(server);
        self.servers[server].pending_facts = None;
        self.logging_in().server_failed(server, reason.to_owned());
        self.judge_again();
    }

    /// Gives a backend up, since nobody can say any more which of its bytes belong to which answer, or what state it is in.
    pub(crate) fn close_backend(&mut self, key: BackendKey, reason: &str) {
        self.building().hang_up(key);
        self.lose_backend(key, reason);
    }

    /// Gives a backend up with its server. Once another primary is known, requests in flight must not be carried out on the former one. The
    /// system would go on trying to deliver them, and would do so when the line is back.
    pub(crate) fn give_up_backend(&mut self, key: BackendKey, reason: &str) {
        let may_be_chosen_again = self.settings.cluster.several
            && !self.why_no_backend().may_connect()
            && !self.pool.workers.chosen.may_end();
        let backend = &self.servers[key];
        match backend.connection {
            // Its end is all that is to arrive, and tells the server at once that the session is over, which frees its locks.
            Some(connection) if backend.in_flight.is_empty() => self.io.outbox.close(connection),
            Some(connection) if may_be_chosen_again => {
                self.following.leave_open(connection, backend.place.clone());
            }
            Some(connection) => self.io.outbox.abort(connection),
            None => {}
        }
        self.lose_backend(key, reason);
    }

    /// Notes that the server refused a login of ours. The user's password was right a moment ago, or is a client's claim, or there is no room.
    pub(crate) fn backend_refused(&mut self, key: BackendKey, refusal: ServerRefusal) {
        debug_assert!(
            !matches!(self.servers[key].phase(), Phase::Ready),
            "a login is refused before its end"
        );
        let (server, code) = (key.server(), refusal.code);
        let is_changing = self.servers[key].is_changing();
        // Another server is the primary soon, or this one is back: who waits, waits for that.
        if refusal.is_of_all() && self.settings.cluster.several && !is_changing {
            self.logging_in()
                .server_failed(server, format!("it lets nobody in: error {code}: {}", refusal.message));
            self.claim_failed(self.servers[key].token, Unproved::NotNow);
            return self.close_backend(key, &refusal.message);
        }
        self.building().hang_up(key);
        if !refusal.has_room_soon() && self.logging_in().change_failed(key) {
            return self.change_ended(key, &refusal.message);
        }
        // A client's wrong password is no failure of ours.
        let how = refusal.of_claim(&self.servers[key]);
        let says_wrong = matches!(how, Unproved::Wrong);
        let is_wrong = self.claim_failed(self.servers[key].token, how) && says_wrong;
        if !is_changing && !is_wrong {
            self.views.measures.connect_failures += 1;
        }
        let reason = self.refused_logins().reason(key, &refusal);
        self.remove_backend(key);
        match reason {
            Reason::ServerIsFull(origin) if !self.refused_logins().note_full(server, origin) => {}
            Reason::ServerIsFull(_) => self.views.event(Event::NoRoom { reason: refusal.message }),
            Reason::NoRoom(event) => event.into_iter().for_each(|event| self.views.event(event)),
            Reason::Account(identity) => {
                let error = MySqlError::from(refusal);
                for client in self.refused_logins().who_hears(server, identity, code) {
                    self.cancel_queued(client, &error);
                }
            }
        }
    }

    pub(super) fn refused_logins(&mut self) -> RefusedLogins<'_> {
        let Self { now, pool, logins, clients, servers, .. } = self;
        RefusedLogins { now: *now, pool, logins, clients, servers }
    }

    /// Borrows the parts that say why statements find no backend.
    pub(crate) fn why_no_backend(&self) -> WhyNoBackend<'_> {
        let Self { now, settings, pool, servers, following, .. } = self;
        WhyNoBackend { now: *now, settings, pool, servers, following, guests: self.guests.as_ref() }
    }

    /// Remembers since when statements wait for a backend, and gives up those that have waited too long.
    pub(crate) fn note_lack_of_backends(&mut self, lacking: bool) {
        let Some(since) = self.scheduling.note_lack(self.now, &self.pool, lacking) else { return };
        while let Some((key, queued)) = self.scheduling.scheduler.oldest_in_need() {
            if self.why_no_backend().waits_until(queued.max(since)) > self.now {
                break;
            }
            self.give_up_waiting(key);
        }
    }

    /// Gives up a client's statement that has waited too long for a backend.
    pub(in crate::backend) fn give_up_waiting(&mut self, key: ClientKey) {
        let lack = self.why_no_backend().lack_of(&self.clients[key], &self.logins);
        self.give_up_for(key, lack);
    }

    /// Gives up a client's statement for this lack.
    pub(in crate::backend) fn give_up_for(&mut self, key: ClientKey, Lack { error, limit }: Lack) {
        if let Some((option, limit)) = limit {
            self.views.limit_reached(self.now, option, limit);
        }
        self.cancel_queued(key, &error);
    }

    /// Returns the time at which the next statement will have waited too long for a backend.
    pub(crate) fn next_giving_up(&self) -> Option<Instant> {
        let why = self.why_no_backend();
        self.scheduling.next_giving_up(&self.settings, |since| why.waits_until(since))
    }
}

#[cfg(test)]
mod tests;
