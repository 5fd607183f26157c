//! Orders from outside: an operator's, who is nobody's client; and what is looked at from there.

pub(crate) mod given;
pub(crate) mod to_be_ended;

use std::rc::Rc;
use std::time::Duration;

use seam::{Address, Instant};
use wire::{CommandKind, Expect};

use self::given::KilledAtPeer;
use self::to_be_ended::{Kills, OutsideKill};
use crate::backend::{Afterwards, Owner, Permit, Place, Summary};
use crate::client::Phase;
use crate::client::kill::slot_of;
use crate::client::killing::PEER_ANSWER_TIMEOUT;
use crate::declared::Declared;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::learned::digests::Digests;
use crate::outside::event::Event;
use crate::outside::kills_under_way::{BackendRef, UnderWay};
use crate::outside::memory::HoldersOfMemory;
use crate::outside::named::ClosedFor;
use crate::outside::neighbours::Neighbours;
use crate::outside::orders::to_be_ended::Told;
use crate::outside::snapshot::{Figures, Tables};
use crate::settings::Settings;
use crate::workers::letter::{Ending, Kill, Killed, Killer, Letter, Outcome, Rights};
use crate::workers::serving::Serves;

/// So long an order to kill a client of another Onramp may take.
pub const KILL_AT_PEER_TIMEOUT: Duration = PEER_ANSWER_TIMEOUT;

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

impl Engine {
    /// The worker's tables, to look at row by row.
    pub fn tables(&self) -> Tables<'_> {
        let Self { now, settings, clients, ids, logins, sessions, scheduling, servers, readers, .. } = self;
        Tables { now: *now, settings, clients, ids, logins, sessions, scheduling, servers, readers }
    }

    /// What the worker counts and measures.
    pub fn figures(&self) -> Figures<'_> {
        let Self { now, settings, pool, clients, client_memory, sessions, scheduling, .. } = self;
        Figures {
            now: *now,
            settings,
            pool,
            clients,
            client_memory,
            sessions,
            scheduling,
            servers: &self.servers,
            following: &self.following,
            readers: &self.readers,
            views: &self.views,
            connections: self.ids.last,
            names_given: self.io.names_given(),
            paused: self.orders.paused,
        }
    }

    /// The servers behind the worker, and the other Onramps before them.
    pub fn neighbours(&self) -> Neighbours<'_> {
        let Self { now, settings, pool, cluster, servers, readers, .. } = self;
        Neighbours { now: *now, settings, pool, cluster, server: servers.primary(), readers }
    }

    /// What holds memory of the worker.
    pub fn holders_of_memory(&self) -> HoldersOfMemory<'_> {
        let Self { clients, ids, client_memory, sessions, scheduling, servers, views, readers, io, .. } =
            self;
        HoldersOfMemory { clients, ids, client_memory, sessions, scheduling, servers, views, readers, io }
    }

    /// How many clients of this worker there are, those that log in among them.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Numbers by digest, as of this worker.
    pub fn digests(&self) -> &Digests {
        &self.scheduling.digests
    }

    /// The layer of TLS holds so many bytes of unfinished handshakes, which count as memory too.
    pub fn note_handshakes(&mut self, bytes: usize) {
        self.client_memory.handshakes = bytes;
    }

    /// The layer that compresses holds so many bytes for connections of this engine, likewise.
    pub fn note_compression(&mut self, bytes: usize) {
        self.io.outbox.compression_bytes = bytes;
    }
}

impl Engine {
    /// Takes up what is declared as live in [`Settings`]. Everything else in `new` is ignored. Permits are common to all workers, so
    /// that the first of them changes them for all. A turn has to follow, with an end.
    pub fn change_settings(&mut self, new: &Settings) {
        self.settings.take_live(new);
        self.scheduling.shares.settings_changed();
        let latest = self.now + new.transaction_delay;
        self.scheduling.delayed.end_by(latest);
        self.end_logins_by(self.now + new.connect_timeout);
        self.scheduling.scheduler.change_settings(&self.settings);
        self.pool.workers.change_permits(new);
        self.readers.change_settings(&self.settings);
        self.readers.for_each(self.now, &mut self.io, |reader| reader.change_settings(new));
        if !self.scheduling.scheduler.keeps_permits() {
            self.give_kept_permits();
        }
    }

    /// The server at this place in the list of addresses is at another one from now on. New statements go there, once it has been found out
    /// what it is, and among several servers once its check has answered. What runs at the former address comes to its end: with one server
    /// open transactions and whatever keeps a backend too, as on a connection of the client's own; among several servers as behind any change
    /// of the primary. Only the first worker needs to hear of it; the others do nothing. A turn has to follow, with an end.
    pub fn move_server(&mut self, place: usize, to: &Address) {
        let Some(from) = self.settings.server.get(place).filter(|from| self.pool.worker == 0 && *from != to)
        else {
            return;
        };
        let name = self.settings.server_names.get(place).cloned().unwrap_or_default();
        self.views.event(Event::ServerMoved { name, from: from.clone(), to: to.clone() });
        if self.servers.primary().reachability.address == place {
            self.pool.workers.begin_elsewhere(self.now);
        }
        self.server_moves(place, to);
        self.in_cluster(|cluster, step| cluster.check_elsewhere(step, place));
        // By the time they read it nobody takes the server for the primary any more.
        self.pool.write_to_others(&Letter::ServerMoves { place, to: to.clone() });
    }

    /// See [`Self::move_server`].
    pub(crate) fn server_moves(&mut self, place: usize, to: &Address) {
        let from = Rc::new(std::mem::replace(&mut self.settings.server[place], to.clone()));
        if !self.readers.is_empty() {
            // Weights and zones may be given by addresses.
            self.readers.change_settings(&self.settings);
            self.readers.enter(place, self.now, &mut self.io, |reader| reader.server_moves(0, to));
        }
        let backends = self.servers.backends().filter(|(_, backend)| backend.place.is(place));
        for key in backends.map(|(key, _)| key).collect::<Vec<_>>() {
            self.leave_at_former(key, &from);
        }
        self.following.server_moves(place, &from);
        if self.servers.primary().reachability.address == place {
            self.move_to(place);
            if self.settings.cluster.several {
                self.following.leave(self.now);
            } else {
                // What comes of an attempt at the former address is not taken for one at the new one. Among several servers each has a name.
                self.io.last_token += 1;
                self.servers.primary_mut().control.token = self.io.last_token;
            }
        }
    }

    /// Says whether nothing can be sent before it is found out what stands at the new address of the one server.
    pub(crate) fn awaits_its_only_server(&self) -> bool {
        !self.settings.cluster.several && !self.knows_primary()
    }

    /// A backend leads to where its server is not any more.
    fn leave_at_former(&mut self, key: BackendKey, from: &Rc<Address>) {
        let backend = &mut self.servers[key];
        backend.place = Place::Former(Rc::clone(from));
        // Permits are for what stands at the new address. The former one may be dead, and what was sent there hang for long.
        backend.lend_permit(&mut self.scheduling.scheduler);
        backend.afterwards = Afterwards::Close;
        // The number of its thread is another one's where the server is now.
        backend.shown.serves = Serves::default();
        if backend.is_changing() {
            return self.give_up_backend(key, "the name of its server leads elsewhere");
        }
        if backend.is_idle() || !backend.is_ready() {
            return self.quit_backend(key);
        }
        self.servers.of_mut(key).sharing.remove(key);
    }

    /// Under other rules open transactions may have kept their permits between their statements.
    fn give_kept_permits(&mut self) {
        let between = self.servers.backends().filter(|(_, backend)| backend.in_flight.is_empty());
        let kept: Vec<_> =
            between.filter(|(_, it)| it.permit() == Permit::Held).map(|(key, _)| key).collect();
        for key in kept {
            self.servers[key].give_permit(&mut self.scheduling.scheduler);
        }
    }

    /// From now on no statement leaves the queues. What the server has goes on; clients wait, and may come and go. A turn has
    /// to follow, with an end.
    pub fn pause(&mut self) {
        self.orders.paused = true;
        // Nobody leaves a permit to us meanwhile.
        let scheduler = &mut self.scheduling.scheduler;
        self.pool.note_want_of_permits(self.now, &self.settings, scheduler, false);
        self.pool.workers.note_saturation(self.pool.worker, self.now, false, false);
        self.scheduling.scheduler.want_no_long();
        self.readers.for_each(self.now, &mut self.io, Self::pause);
    }

    /// The queues move again. A turn has to follow, with an end.
    pub fn resume(&mut self) {
        self.orders.paused = false;
        self.readers.for_each(self.now, &mut self.io, Self::resume);
    }

    /// Ends a client's connection, or only its statement. What waits is answered at once; of what runs the server is asked to
    /// end it, and the client hears the server's answer. False where this worker has no such client. A turn has to follow,
    /// with an end.
    pub fn kill(&mut self, id: u32, query_only: bool) -> bool {
        let Some(&victim) = self.ids.keys.get(&id) else { return false };
        if let Outcome::AskServer(ending) = self.end_for_client(victim, query_only) {
            self.end_by_its_user(id, query_only, ending, None);
        }
        true
    }

    /// The same at the Onramp whose clients have such ids, for one that no worker of this one has. What has become of it is told by
    /// [`Self::poll_killed_at_peer`] with the order's number, within [`KILL_AT_PEER_TIMEOUT`]. False where no other Onramp in front of the server
    /// has such ids, and on all workers but the first, which corresponds with the others. A turn has to follow, with an end.
    pub fn kill_for_operator_at_peer(&mut self, id: u32, query_only: bool, order: u64) -> bool {
        if self.pool.worker != 0 || self.pool.peer_of(id).is_none() {
            return false;
        }
        let (killer, rights) = (Killer::Operator(order), Rights::OF_OPERATOR);
        self.kill_at_peer(Kill { from: 0, killer, victim: id, query_only, rights, age: Duration::ZERO });
        true
    }

    /// What has become of the oldest of such orders of which it has not been told.
    pub fn poll_killed_at_peer(&mut self) -> Option<(u64, KilledAtPeer)> {
        self.orders.killed_at_peers.pop_front()
    }

    pub(crate) fn settle_kill_of_operator(&mut self, order: u64, killed: &Killed) {
        let outcome = match killed.outcome {
            Outcome::NoSuchClient | Outcome::OfServer(_) => KilledAtPeer::NoSuchClient,
            Outcome::Undelivered(why) => {
                let id = u64::from(killed.victim);
                KilledAtPeer::Failed(MySqlError::kill_undelivered(id, slot_of(id), why).message)
            }
            // Nothing is denied to an operator, and the other Onramp asks the server by itself.
            Outcome::Done | Outcome::Denied | Outcome::AskServer(_) => KilledAtPeer::Done,
        };
        self.orders.killed_at_peers.push_back((order, outcome));
    }

    /// The server is to end what runs of the client with this id, asked by its own user: who wants it has no connection here.
    pub(crate) fn end_by_its_user(&mut self, id: u32, query_only: bool, ending: Ending, told: Option<Told>) {
        let kill = self.outside_kill(id, query_only, ending, self.now);
        self.orders.kills.extend(kill.map(|kill| OutsideKill { told, ..kill }));
    }

    /// What is to be ended of one of this worker's clients, as somebody said at this time.
    pub(crate) fn outside_kill(
        &self,
        id: u32,
        query_only: bool,
        ending: Ending,
        since: Instant,
    ) -> Option<OutsideKill> {
        let &key = self.ids.keys.get(&id)?;
        Some(OutsideKill { victim: ClientRef { key, id }, ending, query_only, since, told: None })
    }

    /// The backend on which runs still what is to be ended: what has ended by itself is not, nor what its client has begun since.
    fn still_runs(&self, kill: &OutsideKill) -> Option<BackendKey> {
        self.clients
            .find(kill.victim)
            .filter(|client| matches!(client.phase(), Phase::Preparing | Phase::Running(_)))
            .filter(|client| !kill.query_only || client.command_age(self.now) >= self.now.since(kill.since))
            .and_then(|client| client.backend)
            .filter(|&backend| self.runs_thread(backend, kill.ending.thread_id))
    }

    /// A client's KILL has waited for a backend to ask on, and what it was to end has ended by itself: it is answered, and asked of nobody.
    pub(crate) fn kill_is_over(&mut self, killer: ClientKey) -> bool {
        let kills = self.clients[killer].request.as_ref().and_then(|request| request.kills.as_ref());
        let Some(Kills::Own(kill)) = kills else { return false };
        if self.still_runs(kill).is_some() {
            return false;
        }
        self.scheduling.scheduler.remove(killer);
        let answer = self.take_request(killer).map_or(1, |request| request.answer);
        self.clients[killer].cancel();
        self.answer_ok(killer, answer);
        self.resume.push(killer);
        true
    }

    /// The server has ended what a client of ours had there, as another one wants it. A thread that it does not know any more has
    /// come to its end meanwhile, and the client with it: that is no error, and the thread's id none that the killer has named.
    pub(crate) fn answer_kill(&mut self, killer: ClientKey, answer: u8, summary: &mut Summary) {
        if summary.error.as_ref().is_some_and(|error| error.code == NO_SUCH_THREAD) {
            summary.error = None;
            return self.answer_ok(killer, answer);
        }
        self.io.outbox.send(self.clients[killer].connection, &summary.kept);
    }

    /// Asks the server to end what is to be ended, as soon as there is a backend of the victim's user to ask on.
    pub(crate) fn carry_out_kills(&mut self) {
        for mut kill in std::mem::take(&mut self.orders.kills) {
            let told = kill.told.take();
            let victim = kill.victim.key;
            let runs_on = self.still_runs(&kill); // or it has ended by itself
            let carrier = runs_on.and_then(|_| self.idle_backend_for(victim));
            match (runs_on, carrier) {
                (Some(runs_on), _) if self.is_on_former_server(runs_on) => {
                    // Another server has become the primary since. There the number means another thread.
                    self.clients[victim].loss.killed |= !kill.query_only;
                    self.give_up_backend(runs_on, "its client was killed");
                }
                (Some(runs_on), Some(carrier)) => {
                    self.note_under_way(carrier, runs_on, kill.victim, told);
                    self.send_kill(carrier, kill.ending);
                    continue; // who wants it hears the server's answer
                }
                (Some(_), None) if self.now.since(kill.since) >= self.settings.backend_connect_timeout => {
                    self.give_up_kill(&kill);
                }
                (Some(_), None) => {
                    self.open_backend_for_urgent(victim);
                    self.orders.kills.push(kill);
                }
                (None, _) => {}
            }
            // One letter is under way at a time: those of others do not wait for a backend of this user's.
            if let Some((worker, killed)) = told {
                self.tell_killer(worker, killed);
            }
        }
    }

    /// A KILL goes to the server, on this backend, for what runs on the other one.
    fn note_under_way(
        &mut self,
        carrier: BackendKey,
        runs_on: BackendKey,
        client: ClientRef,
        told: Option<Told>,
    ) {
        let (carrier, victim) = (self.backend_ref(carrier), self.backend_ref(runs_on));
        self.orders.kills_under_way.push(UnderWay { carrier, victim, client, since: self.now, told });
    }

    fn backend_ref(&self, backend: BackendKey) -> BackendRef {
        BackendRef::new(backend, &self.servers[backend])
    }

    /// A client's urgent request goes to the server, which may be a KILL of another client of ours.
    pub(crate) fn note_own_kill(&mut self, killer: ClientKey, carrier: BackendKey) {
        let kills = self.clients[killer].request.as_ref().and_then(|request| request.kills.as_ref());
        let Some(Kills::Own(kill)) = kills else { return };
        if let Some(runs_on) = self.still_runs(kill) {
            self.note_under_way(carrier, runs_on, kill.victim, None);
        }
    }

    /// Says whether a client's next command waits: the server has not answered yet to a KILL of what ran on its backend.
    pub(crate) fn waits_for_kill(&self, client: ClientKey) -> bool {
        !self.orders.kills_under_way.is_empty()
            && self.clients[client]
                .backend
                .is_some_and(|backend| self.orders.kills_under_way.concern(self.backend_ref(backend)))
    }

    /// Nothing is in flight on this backend any more: what it was asked last is over, which may be a KILL, or never went out.
    pub(crate) fn kill_answered(&mut self, carrier: BackendKey) {
        if self.orders.kills_under_way.is_empty() {
            return;
        }
        let Some(kill) = self.orders.kills_under_way.answered(self.backend_ref(carrier)) else { return };
        self.go_on_behind_kill_of(kill.client);
        if let Some((worker, killed)) = kill.told {
            self.tell_killer(worker, killed);
        }
    }

    /// Once per turn: what waits for a KILL has been heard, and goes on once that has taken too long. Whoever wanted the KILL hears nothing then, but
    /// for one whose victim has lost its backend meanwhile.
    pub(crate) fn wait_for_kills(&mut self) {
        if self.orders.kills_under_way.is_empty() {
            return;
        }
        for kill in self.orders.kills_under_way.take_over(self.now, &self.servers) {
            self.go_on_behind_kill_of(kill.client);
            if let Some((worker, killed)) = kill.told.filter(|_| !kill.victim.is_there(&self.servers)) {
                self.tell_killer(worker, killed);
            }
        }
        for client in self.orders.kills_under_way.clients() {
            if let Some(client) = self.clients.find_mut(client).filter(|client| !client.input.is_empty()) {
                client.activity.last_heard = self.now;
            }
        }
    }

    fn go_on_behind_kill_of(&mut self, client: ClientRef) {
        if self.clients.find(client).is_some_and(|client| !client.input.is_empty()) {
            self.resume.push(client.key);
        }
    }

    /// Says whether a KILL waits for a backend of this one's user.
    pub(crate) fn is_awaited_by_kill(&self, backend: BackendKey) -> bool {
        let wanted = self.orders.kills.iter().filter_map(|kill| self.clients.find(kill.victim)?.identity);
        let mut wanted = wanted.chain(self.users_of_abandoned());
        wanted.any(|identity| identity == self.servers[backend].account.identity)
    }

    fn runs_thread(&self, backend: BackendKey, thread_id: u64) -> bool {
        self.servers.get(backend).is_some_and(|backend| u64::from(backend.login.thread_id) == thread_id)
    }

    /// Asks the server to end something, on an idle backend of the same user.
    pub(crate) fn send_kill(&mut self, backend: BackendKey, ending: Ending) {
        self.servers.of_mut(backend).idle.remove(backend);
        let text = ending.text();
        let owner = Owner::Abandoned;
        self.send_own(backend, owner, CommandKind::Query, text.as_bytes(), Expect::ResultSets, 0);
    }

    /// There is no way to the server: at least the client goes.
    fn give_up_kill(&mut self, kill: &OutsideKill) {
        if !kill.query_only {
            self.close_client(
                kill.victim.key,
                ClosedFor::Killed,
                "killed; its statement goes on, for want of a backend to end it",
            );
        }
    }
}
