//! Orders from outside: those of an operator, who is nobody's client, looks from outside, and KILL from wherever it comes.

pub(crate) mod given;
pub(crate) mod to_be_ended;

use std::rc::Rc;
use std::time::Duration;

use seam::{Address, Instant};
use sql::{KillTarget, Whom};

use self::given::KilledAtPeer;
use self::to_be_ended::{KillReport, Kills};
use crate::backend::pool::moving::MovingBackends;
use crate::backend::{Permit, Summary};
use crate::client::Phase;
use crate::client::commands::kill::{Begun, Killers, Settled};
use crate::client::commands::killing::{Killing, PEER_ANSWER_TIMEOUT, RestOfText, TextBehindKill};
use crate::client::commands::victims::{End, Victims};
use crate::cluster::drain::{DrainOrder, DrainOutcome, NotDrained};
use crate::cluster::switchover::SwitchStep;
use crate::cluster::taking_up::Departure;
use crate::declared::Declared;
use crate::engine::Engine;
use crate::errors::{MySqlError, Undelivered};
use crate::frozen::NotFrozen;
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::outside::event::Event;
use crate::outside::kills::{NextOfKill, OutsideKills};
use crate::outside::kills_under_way::UnderWay;
use crate::outside::memory::HoldersOfMemory;
use crate::outside::named::ClosedFor;
use crate::outside::neighbours::Neighbours;
use crate::outside::snapshot::{Figures, Tables};
use crate::request::{QueryAttributes, Request, RequestKind, TEXT_AT};
use crate::scheduling::learned::digests::Digests;
use crate::server::control::peers::mail::Delivery;
use crate::settings::Settings;
use crate::workers::letter::{Kill, KillOutcome, KillRights, Killed, Killer, Letter, ServerKill};

/// The longest time that an order to kill a client of another Onramp may take.
pub const KILL_AT_PEER_TIMEOUT: Duration = PEER_ANSWER_TIMEOUT;

impl Engine {
    /// The worker's tables, to look at row by row.
    pub fn tables(&self) -> Tables<'_> {
        let Self { now, settings, clients, ids, logins, sessions, scheduling, servers, readers, .. } = self;
        Tables { now: *now, settings, clients, ids, logins, sessions, scheduling, servers, readers }
    }

    /// The worker's counts and measurements.
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
            connections: self.ids.given(),
            names_given: self.io.names_given(),
            paused: self.orders.paused,
        }
    }

    /// The servers behind the worker, and the other Onramps before them.
    pub fn neighbours(&self) -> Neighbours<'_> {
        let Self { now, settings, pool, cluster, servers, readers, .. } = self;
        Neighbours { now: *now, settings, pool, cluster, server: servers.primary(), readers }
    }

    /// The holders of the worker's memory.
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
    /// Turns a backend into bytes, and these into a backend that takes its place, as
    /// [`freeze_and_thaw_client`](Self::freeze_and_thaw_client) does with a client.
    ///
    /// `None` where there is no backend.
    ///
    /// # Errors
    ///
    /// Where it is in use.
    ///
    /// # Panics
    ///
    /// If the bytes are not read as what they were made of, or something in them is unknown here.
    pub fn freeze_and_thaw_backend(&mut self, now: Instant, place: usize) -> Option<Result<(), NotFrozen>> {
        let Self { pool, logins, sessions, servers, io, .. } = self;
        MovingBackends { now, pool, logins, sessions, servers, io }.freeze_and_thaw(place)
    }

    /// Turns what is known of the servers into bytes, and these into what is known of them; likewise what has been learned of their
    /// statements, by this worker and by all together. For tests, as the others.
    ///
    /// # Errors
    ///
    /// Where a service account's connection has stayed as it was: something is under way there.
    pub fn freeze_and_thaw_servers(&mut self, now: Instant) -> Result<(), NotFrozen> {
        self.scheduling.freeze_and_thaw_learned(now);
        self.pool.workers.freeze_and_thaw(now);
        let of_servers = self.servers.iter_mut().map(|server| server.freeze_and_thaw(now));
        let of_readers = self.readers.engines_mut().map(|reader| reader.freeze_and_thaw_servers(now));
        of_servers.chain(of_readers).fold(Ok(()), Result::and)
    }
}

impl Engine {
    /// Takes a step of a planned change of the primary. Only the first worker needs to hear of it; the others do nothing. A turn has to
    /// follow, with an end.
    pub fn switch_over(&mut self, step: SwitchStep) {
        self.watching().switch_over(step);
    }

    /// Takes a server out of the choice, or puts it back, where that does not change the primary, or all is ready for that; `None` on all
    /// workers but the first, which knows nothing of it. A turn has to follow, with an end.
    ///
    /// # Errors
    /// Why it may not be, and what to do.
    pub fn drain_server(&mut self, order: DrainOrder) -> Option<Result<DrainOutcome, NotDrained>> {
        self.watching().drain(order)
    }

    /// Takes up what is declared as live in [`Settings`]. Everything else in `new` is ignored. Permits are common to all workers, so
    /// that the first of them changes them for all. A turn has to follow, with an end.
    pub fn change_settings(&mut self, new: &Settings) {
        self.settings.take_live(new);
        self.scheduling.shares.settings_changed();
        let latest = self.now + new.transaction_delay;
        self.scheduling.delayed.end_by(latest);
        self.logins.end_by(self.now + new.connect_timeout, &mut self.clients);
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
        self.watching().moved(place);
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
        let backends = self.servers.backends().filter(|(_, backend)| backend.place().is(place));
        for key in backends.map(|(key, _)| key).collect::<Vec<_>>() {
            match self.taking_up().leave_former(key, &from) {
                Departure::Later => {}
                Departure::InOrder => self.quit_backend(key),
                Departure::GivenUp => self.give_up_backend(key, "the name of its server leads elsewhere"),
            }
        }
        self.following.server_moves(place, &from);
        if self.servers.primary().reachability.address == place {
            self.move_to(place);
            if self.settings.cluster.several {
                self.following.leave(self.now);
            } else {
                // What comes of an attempt at the former address is not taken for one at the new one. Among several servers each has a name.
                self.servers.primary_mut().control.token = self.io.next_name();
            }
        }
    }

    /// Says whether nothing can be sent before it is found out what stands at the new address of the one server.
    pub(crate) fn awaits_its_only_server(&self) -> bool {
        !self.settings.cluster.several && !self.following.knows_primary(false)
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

    /// Stops statements from leaving the queues. Statements on the server go on. Clients wait, and may come and go. A turn
    /// has to follow, with an end.
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
}

impl Engine {
    /// Clients that kill others.
    pub(crate) fn killers(&mut self) -> Killers<'_> {
        let Self { now, settings, pool, ids, logins, sessions, clients, servers, .. } = self;
        Killers { now: *now, settings, pool, ids, logins, sessions: &sessions.states, clients, servers }
    }

    /// Clients that are killed.
    pub(crate) fn victims(&mut self) -> Victims<'_> {
        let Self { now, settings, clients, scheduling, servers, following, .. } = self;
        Victims { now: *now, settings, clients, scheduling, servers, following }
    }

    /// Clients of which the server is to end something.
    pub(crate) fn outside_kills(&mut self) -> OutsideKills<'_> {
        let Self { now, settings, orders, ids, clients, servers, following, .. } = self;
        OutsideKills { now: *now, settings, orders, ids, clients, servers, following }
    }

    /// Ends a client's connection, or only its statement. What waits is answered at once; of what runs the server is asked to
    /// end it, and the client hears the server's answer. False where this worker has no such client. A turn has to follow,
    /// with an end.
    pub fn kill(&mut self, id: u32, query_only: bool) -> bool {
        let Some(victim) = self.ids.client_with(id) else { return false };
        if let KillOutcome::AskServer(ending) = self.end_for_client(victim, query_only) {
            self.outside_kills().order(id, query_only, ending, None);
        }
        true
    }

    /// Does the same at the Onramp that gives out such ids, for a client that no worker here has. [`Self::poll_killed_at_peer`] tells the
    /// outcome by the order's number, within [`KILL_AT_PEER_TIMEOUT`]. Returns false where no other Onramp in front of the server has such ids,
    /// and on all workers but the first, which corresponds with the others. A turn has to follow, with an end.
    pub fn kill_for_operator_at_peer(&mut self, id: u32, query_only: bool, order: u64) -> bool {
        if self.pool.worker != 0 || self.pool.peer_of(id).is_none() {
            return false;
        }
        let (killer, rights) = (Killer::Operator(order), KillRights::OF_OPERATOR);
        self.kill_at_peer(Kill { from: 0, killer, victim: id, query_only, rights, age: Duration::ZERO });
        true
    }

    /// Takes the oldest outcome of such an order, with the order's number.
    pub fn poll_killed_at_peer(&mut self) -> Option<(u64, KilledAtPeer)> {
        self.orders.killed_at_peers.pop_front()
    }

    /// COM_PROCESS_KILL.
    pub(crate) fn kill_command(&mut self, key: ClientKey, id: u64, answer: u8) {
        let target = KillTarget { query_only: false, whom: Whom::Id(id) };
        if !self.kill_statement(key, target, answer, None) {
            self.queue_kill(key, ServerKill { thread_id: id, query_only: false }, None);
        }
    }

    /// Carries out a text of several statements that begins with a KILL of a client of ours. Returns false for any other.
    pub(crate) fn kill_and_go_on(&mut self, key: ClientKey, text: &[u8], answer: u8) -> bool {
        let found = self.killers().first_of_several(key, text);
        found.is_some_and(|(target, behind)| self.kill_statement(key, target, answer, Some(behind)))
    }

    /// Does what a KILL of a client of ours asks for. Returns false where it concerns none: then the server decides.
    pub(crate) fn kill_statement(
        &mut self,
        key: ClientKey,
        target: KillTarget,
        answer: u8,
        rest: RestOfText,
    ) -> bool {
        match self.killers().begin(key, target, answer, rest) {
            Begun::OfServer => return false,
            Begun::Elsewhere => {}
            Begun::InFront(kill) => self.kill_for_worker(&kill),
            Begun::Oneself { query_only: true } => {
                self.answers().error(key, answer, &MySqlError::interrupted());
            }
            // A client that kills itself hears of it as the servers say it.
            Begun::Oneself { query_only: false } => {
                self.answers().error(key, answer, &MySqlError::killed());
                self.close_client(key, ClosedFor::Killed, "killed");
            }
            Begun::Here(killing, rights) => {
                let (victim, query_only) = killing.whom();
                let outcome = self.kill_victim(victim, query_only, &rights, Duration::ZERO);
                self.kill_settled(key, killing, outcome);
            }
        }
        true
    }

    /// Sends a KILL to another Onramp. This worker, the first, corresponds with other Onramps for all.
    pub(crate) fn kill_at_peer(&mut self, kill: Kill) {
        let slot = self.pool.peer_of(kill.victim).unwrap_or(0);
        self.servers.primary_mut().kill_at_peer(self.now, slot, kill);
        self.take_from_peers();
    }

    /// Takes in what other Onramps have written.
    pub(crate) fn take_from_peers(&mut self) {
        if self.pool.worker != 0 {
            return;
        }
        for server in self.servers.keys() {
            while let Some(delivery) = self.servers[server].next_from_peers(self.now) {
                self.take_delivery(server, delivery);
            }
        }
    }

    fn take_delivery(&mut self, server: ServerKey, delivery: Delivery) {
        match delivery {
            Delivery::Kill { sender, victim, query_only, rights, age } => {
                let killer = Killer::Peer(server, sender);
                let kill = Kill { from: self.pool.worker, killer, victim, query_only, rights, age };
                if let Some(kill) = self.pool.hand_on_kill(kill) {
                    self.kill_for_worker(&kill);
                }
            }
            Delivery::Outcome(Kill { from, killer, victim, .. }, outcome) => {
                self.tell_killer((from, Killed { killer, victim, outcome }));
            }
        }
    }

    fn tell_killer(&mut self, (worker, killed): KillReport) {
        if worker == self.pool.worker {
            self.killed_by_worker(&killed);
        } else {
            self.pool.write_letter(worker, Letter::Killed(killed));
        }
    }

    /// A client of another worker, or of ours with more in its text, or somebody at another Onramp, wants one of ours killed.
    pub(crate) fn kill_for_worker(&mut self, kill: &Kill) {
        let outcome = self.kill_victim(kill.victim, kill.query_only, &kill.rights, kill.age);
        let killed = |outcome| (kill.from, Killed { killer: kill.killer, victim: kill.victim, outcome });
        let outcome = match (kill.killer, outcome) {
            // That one has no client here who could ask the server, or the client waits with the rest of its text: the server would read a
            // KILL in front of that behind what waits for a permit, and end the text where what was meant has ended by itself.
            (
                Killer::Peer(..) | Killer::Operator(_) | Killer::ClientWithRest(_),
                KillOutcome::AskServer(ending),
            ) => {
                let told = Some(killed(KillOutcome::Done));
                return self.outside_kills().order(kill.victim, kill.query_only, ending, told);
            }
            (Killer::Peer(..) | Killer::Operator(_), KillOutcome::OfServer(_)) => KillOutcome::NoSuchClient,
            (_, outcome) => outcome,
        };
        self.tell_killer(killed(outcome));
    }

    /// Another worker or Onramp has done what a client of ours asked for, unless that has gone meanwhile.
    pub(crate) fn killed_by_worker(&mut self, killed: &Killed) {
        match killed.killer {
            Killer::Client(killer) | Killer::ClientWithRest(killer) => {
                if self.killers().waits_for(killer, killed.victim) {
                    self.end_killing(killer.key, killed.outcome);
                }
            }
            Killer::Peer(server, sender) => self.servers[server].settle_kill_of_peer(sender, killed.outcome),
            Killer::Operator(order) => self.orders.killed_at_peer(order, killed),
        }
    }

    fn end_killing(&mut self, key: ClientKey, outcome: KillOutcome) {
        if let Some(killing) = self.clients[key].end_killing() {
            self.resume.push(key);
            self.kill_settled(key, killing, outcome);
        }
    }

    /// A worker that does not answer has ended, and its clients with it.
    pub(crate) fn give_up_killing(&mut self, key: ClientKey) {
        let of_peer = matches!(self.clients[key].phase(), Phase::Killing(killing) if killing.is_of_peer());
        let outcome =
            if of_peer { KillOutcome::Undelivered(Undelivered::NoAnswer) } else { KillOutcome::NoSuchClient };
        self.end_killing(key, outcome);
    }

    fn kill_settled(&mut self, killer: ClientKey, killing: Killing, outcome: KillOutcome) {
        match self.killers().settle(killer, killing, outcome) {
            Settled::AsksPeer(None) => {}
            Settled::AsksPeer(Some(kill)) => self.kill_at_peer(kill),
            Settled::Done { answer } => self.answers().ok(killer, answer),
            Settled::GoesOn { behind, answer } => self.go_on_behind_kill(killer, behind, answer),
            Settled::ByServer { ending, kills } => self.queue_kill(killer, ending, kills),
            Settled::Failed { killed, answer, error } => {
                self.answers().error_behind_kills(killer, killed, answer, &error);
            }
        }
    }

    /// A KILL of a text has been done here: what stands behind it may be another one.
    fn go_on_behind_kill(&mut self, key: ClientKey, mut behind: Box<TextBehindKill>, answer: u8) {
        if let Some(target) = self.killers().next_behind(key, &mut behind) {
            let ours = self.kill_statement(key, target, answer, Some(behind));
            debug_assert!(ours, "a client's id, of somebody who has logged in");
        } else {
            self.query_behind_kill(key, behind.as_query(), answer);
        }
    }

    /// The server answers the whole text, unless the killer has lost its transaction meanwhile, or what else it stands in.
    fn query_behind_kill(&mut self, key: ClientKey, raw: Vec<u8>, answer: u8) {
        if let Some(lost) = self.clients[key].loss.kind {
            return self.answer_lost(key, lost, answer);
        }
        if raw.len() > TEXT_AT + self.settings.large_statement_size {
            return self.read_elsewhere(key, RequestKind::Query, raw, answer, QueryAttributes::None);
        }
        self.query(key, &raw[TEXT_AT..], &raw, answer, QueryAttributes::None);
    }

    pub(crate) fn kill_victim(
        &mut self,
        id: u32,
        query_only: bool,
        rights: &KillRights,
        age: Duration,
    ) -> KillOutcome {
        match self.killers().victim(id, query_only, rights, age) {
            Ok(victim) => self.end_for_client(victim, query_only),
            Err(outcome) => outcome,
        }
    }

    /// Ends what a client does, or the client itself, as far as that can be done here.
    pub(crate) fn end_for_client(&mut self, victim: ClientKey, query_only: bool) -> KillOutcome {
        let mut end = self.victims().end(victim, query_only);
        if end == End::Runs {
            end = match self.coalescing().hand_over(victim) {
                true => self.victims().is_handed_over(victim, query_only),
                false => self.victims().end_running(victim, query_only),
            };
        }
        match end {
            End::Nothing | End::Runs => {}
            End::Waiting => self.cancel_queued(victim, &MySqlError::interrupted()),
            End::Reading => self.cancel_reading(victim, &MySqlError::interrupted()),
            End::Lent => self.end_lent(victim, query_only),
            End::Client(backend) => {
                self.close_client(victim, ClosedFor::Killed, "killed");
                if let Some(backend) = backend.filter(|&backend| self.servers.contains(backend)) {
                    self.close_backend(backend, "its client was killed, for which the server waited");
                }
            }
            End::Backend(backend) => self.give_up_backend(backend, "its client was killed"),
            End::ByServer(ending) => return KillOutcome::AskServer(ending),
        }
        KillOutcome::Done
    }

    fn queue_kill(&mut self, killer: ClientKey, ending: ServerKill, kills: Option<Kills>) {
        let request = Request::query(&ending.text());
        self.queue_request(killer, Request { kills, ..request }.urgently());
    }

    /// Answers a client's KILL that has waited for a backend to ask on, where its victim has ended by itself. Returns true where that was so.
    pub(crate) fn kill_is_over(&mut self, killer: ClientKey) -> bool {
        let chosen = self.pool.workers.chosen.get().number;
        if !self.outside_kills().is_over(killer, chosen) {
            return false;
        }
        self.scheduling.scheduler.remove(killer);
        let answer = self.take_request(killer).map_or(1, |request| request.answer);
        self.clients[killer].cancel();
        self.answers().ok(killer, answer);
        self.resume.push(killer);
        true
    }

    /// The server has ended what a client of ours had there, as another one wants it. A thread that it does not know any more has
    /// come to its end meanwhile: that is no error, and the thread's id none that the killer has named.
    pub(crate) fn answer_kill(&mut self, killer: ClientKey, answer: u8, summary: &mut Summary) {
        match summary.takes_no_such_thread_for_done() {
            true => self.answers().ok(killer, answer),
            false => self.io.outbox.send(self.clients[killer].connection, &summary.kept_answer),
        }
    }

    /// Asks the server to end what is to be ended, as soon as there is a backend of the victim's user to ask on.
    pub(crate) fn carry_out_kills(&mut self) {
        for mut kill in std::mem::take(&mut self.orders.kills) {
            let mut told = kill.told.take();
            let victim = kill.victim.key;
            let runs_on = self.outside_kills().still_runs(&kill);
            let carrier = runs_on.and_then(|_| self.idle_backend_for(victim));
            match self.outside_kills().next(&kill, runs_on, carrier) {
                NextOfKill::Nothing => {}
                NextOfKill::Asks { carrier, runs_on } => {
                    self.outside_kills().goes(carrier, runs_on, kill.victim, told);
                    self.sending().kill(carrier, kill.ending);
                    continue; // who wants it hears the server's answer
                }
                NextOfKill::GivesUp(runs_on) => self.give_up_backend(runs_on, "its client was killed"),
                NextOfKill::TooLate if kill.query_only => {}
                NextOfKill::TooLate => {
                    let reason = "killed; its statement goes on, for want of a backend to end it";
                    self.close_client(victim, ClosedFor::Killed, reason);
                }
                NextOfKill::Waits => {
                    self.open_backend_for_urgent(victim);
                    kill.told = told.take_if(|(_, killed)| killed.goes_on());
                    self.orders.kills.push(kill);
                }
            }
            // One letter is under way at a time: those of others do not wait for a backend of this user's. What stands behind a KILL does.
            if let Some(told) = told {
                self.tell_killer(told);
            }
        }
    }

    /// Notes that nothing is in flight on this backend any more: its latest request is over, which may be a KILL.
    pub(crate) fn kill_answered(&mut self, carrier: BackendKey) {
        if let Some(kill) = self.outside_kills().answered(carrier) {
            self.kill_under_way_ended(kill);
        }
    }

    /// Once per turn: what waits for a KILL goes on once that has taken too long.
    pub(crate) fn wait_for_kills(&mut self) {
        if self.orders.kills_under_way.is_empty() {
            return;
        }
        for kill in self.outside_kills().take_over() {
            self.kill_under_way_ended(kill);
        }
    }

    /// A KILL that the server was asked for holds up its victim no more.
    fn kill_under_way_ended(&mut self, kill: UnderWay) {
        if self.clients.find(kill.client).is_some_and(|client| !client.input.is_empty()) {
            self.resume.push(kill.client.key);
        }
        if let Some(told) = kill.told {
            self.tell_killer(told);
        }
    }
}
