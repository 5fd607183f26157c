//! KILL, by the ids that clients see.
//!
//! Ids of clients start at [`FIRST_ID`], above any thread id that a server reaches in practice, so that an id read from
//! the server's own PROCESSLIST means the server's thread: such a KILL goes to the server as it is. Where the server's count has come
//! that far all the same, an id that no client has is the server's.

use std::collections::BTreeMap;
use std::time::Duration;

use sql::{KillTarget, Kind, LexMode, Whom};
use wire::{Capabilities, CommandKind, OkPacket, StatusFlags};

use super::killing::{Behind, Killing, Rest};
use super::{Phase, Running};
use crate::accounts::IdentityId;
use crate::backend::{Afterwards, Owner};
use crate::control::peers::mail::Delivery;
use crate::engine::Engine;
use crate::errors::{MySqlError, Undelivered};
use crate::ids::{ClientKey, ServerKey};
use crate::outside::named::ClosedFor;
use crate::outside::orders::to_be_ended::Kills;
use crate::pool::Pool;
use crate::request::{QueryAttributes, Request, RequestKind, TEXT_AT};
use crate::steps;
use crate::workers::letter::{Ending, Kill, Killed, Killer, Letter, Outcome, OwnBy, Rights};
use crate::workers::onramps::SLOTS;

/// The id of the first client. Behind it there are as many ids as in front of it: together what a signed INT can hold, in which
/// applications keep CONNECTION_ID() and drivers the id of a greeting.
pub(crate) const FIRST_ID: u32 = 1 << 30;

/// How many ids there are for clients, of all workers and of all Onramps in front of the server.
const IDS: u32 = 1 << 30;

/// How many of them each slot has (see [`crate::control::peers`]), so that ids of clients of different Onramps differ. The second half is for
/// those without a slot, of which nobody asks another Onramp.
const IDS_OF_SLOT: u32 = IDS / PARTS;
const PARTS: u32 = 2 * SLOTS;

/// The part of those without a slot, as slots are numbered.
const NO_SLOT: u32 = SLOTS + 1;

/// A shared read that has not moved for so long is held up by a lock; it will not end in the moment that a KILL takes.
const STUCK: Duration = Duration::from_secs(1);

/// So many KILLs at the beginning of a text are done; any further one is the server's, which knows no clients.
const MOST_KILLS: u32 = 64;

/// A KILL in front of others takes a few dozen bytes. What is longer is the server's, too.
const LONGEST_KILL: usize = 4 << 10;

/// Clocks of several machines run apart a little between two looks at the server's. A statement that has come so shortly behind a KILL of the one
/// before is ended with it, as it would be on a busy server.
const CLOCKS_DIFFER: Duration = Duration::from_millis(50);

/// The client of ours that is named by its id.
fn named(target: KillTarget) -> Option<u32> {
    let Whom::Id(id) = target.whom else { return None };
    u32::try_from(id).ok().filter(|id| (FIRST_ID..FIRST_ID + IDS).contains(id))
}

/// The KILL that a text of several statements begins with, and where the rest begins.
fn first_kill(text: &[u8], mode: LexMode) -> Option<(KillTarget, usize)> {
    let end = steps::all(&text[..text.len().min(LONGEST_KILL)]).iter().position(|&byte| byte == b';')?;
    let first = &text[..end];
    // A semicolon in a string or a comment in two signs leaves that open, and that is not plain; these end with the line.
    if first.contains(&b'#') || first.windows(2).any(|pair| pair == b"--") {
        return None;
    }
    let target = only_kill(first, mode)?;
    steps::add(first.len());
    let rest = text[end + 1..].trim_ascii_start();
    (!rest.is_empty()).then_some((target, text.len() - rest.len()))
}

/// The KILL of a client of ours that a text is.
fn only_kill(text: &[u8], mode: LexMode) -> Option<KillTarget> {
    let found = sql::classify(text, mode);
    match found.kind {
        Kind::Kill(target) if !found.several && found.effects.is_empty() => {
            Some(target).filter(|&target| named(target).is_some())
        }
        _ => None,
    }
}

/// Whose clients have ids like this one; 0 is nobody's.
pub(crate) fn slot_of(id: u64) -> u64 {
    id.checked_sub(FIRST_ID.into()).map_or(0, |place| place / u64::from(IDS_OF_SLOT) + 1)
}

impl Pool {
    /// The slot of the other Onramp whose client has this id, where none of ours has it.
    pub(crate) fn peer_of(&self, id: u32) -> Option<u32> {
        let slot = u32::try_from(slot_of(id.into())).ok()?;
        self.workers.onramps.is_of_another(slot).then_some(slot)
    }

    /// The worker that has the client with this id, if any has.
    fn worker_of(&self, id: u32) -> usize {
        (id.wrapping_sub(FIRST_ID) % IDS_OF_SLOT % self.workers.count()) as usize
    }
}

impl Engine {
    /// An id that no client has now. Ids of one worker are a pool's number of workers apart, so that an id says whose it is.
    pub(crate) fn next_client_id(&mut self) -> u32 {
        let count = self.pool.workers.count();
        let worker = u32::try_from(self.pool.worker).expect("one of a u32");
        let own = self.pool.workers.onramps.slot().unwrap_or(NO_SLOT) - 1;
        let of_slot = IDS_OF_SLOT / count;
        // Of very many workers one might come to have more clients than that.
        let slots = if self.ids.keys.len() < of_slot as usize { 1 } else { PARTS };
        loop {
            self.ids.last = self.ids.last.wrapping_add(1) % (of_slot * PARTS);
            let place = self.ids.last.wrapping_add(self.ids.first) % (of_slot * slots);
            let slot = (own + place / of_slot) % PARTS;
            let id = FIRST_ID + slot * IDS_OF_SLOT + place % of_slot * count + worker;
            if !self.ids.keys.contains_key(&id) {
                return id;
            }
        }
    }

    /// Clients that came before it was known which slot this one has get ids of that. Nobody has been told theirs yet.
    pub(crate) fn renew_ids(&mut self, waiting: &[ClientKey]) {
        let Some(slot) = self.pool.workers.onramps.slot() else { return };
        let mut renewed = BTreeMap::new();
        for &key in waiting {
            let former = self.clients[key].id;
            if slot_of(former.into()) == u64::from(slot) {
                continue;
            }
            // The same place in the slot, so that nobody is counted twice.
            let same = FIRST_ID + (slot - 1) * IDS_OF_SLOT + (former - FIRST_ID) % IDS_OF_SLOT;
            let id = if self.ids.keys.contains_key(&same) { self.next_client_id() } else { same };
            self.clients[key].id = id;
            self.ids.keys.remove(&former);
            self.ids.keys.insert(id, key);
            renewed.insert(former, id);
        }
        self.logins.ids_are_renewed(&renewed);
    }

    /// COM_PROCESS_KILL.
    pub(crate) fn kill_command(&mut self, key: ClientKey, id: u64, answer: u8) {
        let target = KillTarget { query_only: false, whom: Whom::Id(id) };
        if !self.kill_statement(key, target, answer, None) {
            self.queue_kill(key, Ending { thread_id: id, query_only: false }, None);
        }
    }

    /// A text of several statements that begins with a KILL of a client of ours. False for any other.
    pub(crate) fn kill_and_go_on(&mut self, key: ClientKey, text: &[u8], answer: u8) -> bool {
        let several = self.clients[key].capabilities.contains(Capabilities::MULTI_STATEMENTS);
        let found = if several { first_kill(text, self.lex_mode(key)) } else { None };
        let Some((target, from)) = found else { return false };
        self.kill_statement(
            key,
            target,
            answer,
            Some(Box::new(Behind { killed: 0, text: text.into(), from })),
        )
    }

    /// Does what a KILL of a client of ours asks for. False where it concerns none: then the server decides.
    pub(crate) fn kill_statement(
        &mut self,
        key: ClientKey,
        target: KillTarget,
        answer: u8,
        rest: Rest,
    ) -> bool {
        let own = self.clients[key].id;
        let named = if target.whom == Whom::Oneself { Some(own) } else { named(target) };
        let Some(victim) = named else { return false };
        let query_only = target.query_only;
        if victim == own {
            self.kill_itself(key, query_only, answer);
            return true;
        }
        let Some(identity) = self.clients[key].identity else { return false };
        let rights = self.rights_of(identity);
        let owner = self.pool.worker_of(victim);
        let killing = Killing { answer, victim, query_only, since: self.now, rest, peer: None };
        if owner == self.pool.worker {
            let outcome = self.kill_victim(victim, query_only, &rights, Duration::ZERO);
            self.kill_settled(key, killing, outcome);
        } else {
            self.clients[key].kill_elsewhere(killing);
            let killer = Killer::Client(self.clients.ref_to(key));
            let age = Duration::ZERO;
            let kill = Kill { from: self.pool.worker, killer, victim, query_only, rights, age };
            self.pool.write_letter(owner, Letter::Kill(kill));
        }
        true
    }

    /// By what the server knows whose own a client is.
    fn own_by(&self) -> OwnBy {
        let facts = self.servers.primary().facts.as_ref();
        if facts.is_some_and(|facts| facts.version.is_mariadb()) { OwnBy::Account } else { OwnBy::Name }
    }

    fn rights_of(&self, identity: IdentityId) -> Rights {
        let identity = self.logins.identities.identity(identity);
        Rights::of(self.own_by(), &identity.user, &identity.account)
    }

    /// No client of ours has the id. The Onramp with that slot may have one.
    fn ask_peer(&mut self, key: ClientKey, killing: Killing, slot: u32) {
        let Some(identity) = self.clients[key].identity else { return };
        let kill = Kill {
            from: self.pool.worker,
            killer: Killer::Client(self.clients.ref_to(key)),
            victim: killing.victim,
            query_only: killing.query_only,
            rights: self.rights_of(identity),
            age: Duration::ZERO,
        };
        self.clients[key].kill_elsewhere(Killing { since: self.now, peer: Some(slot), ..killing });
        if self.pool.worker == 0 {
            self.kill_at_peer(kill);
        } else {
            self.pool.write_letter(0, Letter::KillAtPeer(kill));
        }
    }

    /// This worker, the first, corresponds with other Onramps for all.
    pub(crate) fn kill_at_peer(&mut self, kill: Kill) {
        let slot = self.pool.peer_of(kill.victim).unwrap_or(0);
        let server = self.servers.primary().key;
        self.servers[server].kill_at_peer(self.now, slot, kill);
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
                let owner = self.pool.worker_of(victim);
                if owner == self.pool.worker {
                    self.kill_for_worker(&kill);
                } else {
                    self.pool.write_letter(owner, Letter::Kill(kill));
                }
            }
            Delivery::Outcome(Kill { from, killer, victim, .. }, outcome) => {
                self.tell_killer(from, Killed { killer, victim, outcome });
            }
        }
    }

    pub(crate) fn tell_killer(&mut self, worker: usize, killed: Killed) {
        if worker == self.pool.worker {
            self.killed_by_worker(&killed);
        } else {
            self.pool.write_letter(worker, Letter::Killed(killed));
        }
    }

    /// A client that kills itself hears of it as the servers say it.
    fn kill_itself(&mut self, key: ClientKey, query_only: bool, answer: u8) {
        if query_only {
            return self.answer_error(key, answer, &MySqlError::interrupted());
        }
        self.answer_error(key, answer, &MySqlError::killed());
        self.close_client(key, ClosedFor::Killed, "killed");
    }

    /// A client of another worker, or somebody at another Onramp, wants one of ours killed.
    pub(crate) fn kill_for_worker(&mut self, kill: &Kill) {
        let outcome = self.kill_victim(kill.victim, kill.query_only, &kill.rights, kill.age);
        let killed = |outcome| Killed { killer: kill.killer, victim: kill.victim, outcome };
        let outcome = match (kill.killer, outcome) {
            // That one has no client here who could ask the server.
            (Killer::Peer(..) | Killer::Operator(_), Outcome::AskServer(ending)) => {
                let told = Some((kill.from, killed(Outcome::Done)));
                return self.end_by_its_user(kill.victim, kill.query_only, ending, told);
            }
            (Killer::Peer(..) | Killer::Operator(_), Outcome::OfServer(_)) => Outcome::NoSuchClient,
            (_, outcome) => outcome,
        };
        self.tell_killer(kill.from, killed(outcome));
    }

    /// Another worker or Onramp has done what a client of ours asked for, unless that has gone meanwhile.
    pub(crate) fn killed_by_worker(&mut self, killed: &Killed) {
        let killer = match killed.killer {
            Killer::Client(killer) => killer,
            Killer::Peer(server, sender) => {
                return self.servers[server].settle_kill_of_peer(sender, killed.outcome);
            }
            Killer::Operator(order) => return self.settle_kill_of_operator(order, killed),
        };
        let Some(client) = self.clients.find(killer) else { return };
        let answered = matches!(client.phase(), Phase::Killing(killing) if killing.victim == killed.victim);
        if answered {
            self.end_killing(killer.key, killed.outcome);
        }
    }

    fn end_killing(&mut self, key: ClientKey, outcome: Outcome) {
        if let Some(killing) = self.clients[key].end_killing() {
            self.resume.push(key);
            self.kill_settled(key, killing, outcome);
        }
    }

    /// A worker that does not answer has ended, and its clients with it.
    pub(crate) fn give_up_killing(&mut self, key: ClientKey) {
        let of_peer = matches!(self.clients[key].phase(), Phase::Killing(killing) if killing.peer.is_some());
        let outcome =
            if of_peer { Outcome::Undelivered(Undelivered::NoAnswer) } else { Outcome::NoSuchClient };
        self.end_killing(key, outcome);
    }

    fn kill_settled(&mut self, killer: ClientKey, killing: Killing, outcome: Outcome) {
        if matches!(outcome, Outcome::NoSuchClient | Outcome::OfServer(_))
            && killing.peer.is_none()
            && let Some(slot) = self.pool.peer_of(killing.victim)
        {
            return self.ask_peer(killer, killing, slot);
        }
        let Killing { answer, victim, query_only, rest, peer, .. } = killing;
        let outcome = match outcome {
            // Nor has that one such a client.
            Outcome::NoSuchClient if peer.is_some() => self.of_nobody(victim, query_only),
            outcome => outcome,
        };
        let victim = u64::from(victim);
        match (outcome, rest) {
            (Outcome::Done, None) => self.answer_ok(killer, answer),
            (Outcome::Done, Some(mut behind)) => {
                behind.killed = behind.killed.saturating_add(1);
                self.go_on_behind_kill(killer, behind, answer);
            }
            (Outcome::AskServer(ending), None) => {
                let own = self.outside_kill(killing.victim, query_only, ending, killing.since);
                let kills = own.map_or(Kills::OfOtherWorker, |kill| Kills::Own(Box::new(kill)));
                self.queue_kill(killer, ending, Some(kills));
            }
            (Outcome::OfServer(ending), None) => self.queue_kill(killer, ending, None),
            (Outcome::AskServer(ending) | Outcome::OfServer(ending), Some(behind)) => {
                let kill = ending.text() + ";";
                self.query_behind_kill(killer, &behind, kill.as_bytes(), answer);
            }
            (Outcome::NoSuchClient, rest) => {
                self.kill_failed(killer, rest, answer, &MySqlError::no_such_client(victim));
            }
            (Outcome::Undelivered(why), rest) => {
                let error = MySqlError::kill_undelivered(victim, slot_of(victim), why);
                self.kill_failed(killer, rest, answer, &error);
            }
            (Outcome::Denied, rest) => {
                self.kill_failed(killer, rest, answer, &MySqlError::kill_denied(victim));
            }
        }
    }

    /// A KILL of a text has been done here: what stands behind it may be another one.
    fn go_on_behind_kill(&mut self, key: ClientKey, mut behind: Box<Behind>, answer: u8) {
        let mode = self.lex_mode(key);
        let rest = behind.rest();
        let short = rest.len() <= self.settings.large_statement_size;
        let next = match first_kill(rest, mode) {
            Some((target, from)) => Some((target, behind.from + from)),
            // A longer one says more than that.
            None if short => only_kill(rest, mode).map(|target| (target, behind.text.len())),
            None => None,
        };
        match next.filter(|_| behind.killed < MOST_KILLS) {
            Some((target, from)) => {
                behind.from = from;
                let ours = self.kill_statement(key, target, answer, Some(behind));
                debug_assert!(ours, "a client's id, of somebody who has logged in");
            }
            None => self.query_behind_kill(key, &behind, b"", answer),
        }
    }

    /// The server answers the whole text: what was done here is nothing for it to do, with the same answer.
    fn query_behind_kill(&mut self, key: ClientKey, behind: &Behind, first: &[u8], answer: u8) {
        let done = b"DO 0;".repeat(behind.killed as usize);
        let mut raw = Vec::with_capacity(TEXT_AT + done.len() + first.len() + behind.rest().len());
        let start = wire::begin_packet(&mut raw);
        raw.push(CommandKind::Query as u8);
        for part in [&done, first, behind.rest()] {
            raw.extend_from_slice(part);
        }
        wire::end_packet(&mut raw, start, &mut 0);
        if raw.len() > TEXT_AT + self.settings.large_statement_size {
            return self.read_elsewhere(key, RequestKind::Query, raw, answer, QueryAttributes::None);
        }
        self.query(key, &raw[TEXT_AT..], &raw, answer, QueryAttributes::None);
    }

    /// The text ends with this error, behind the answers to the KILLs before it.
    fn kill_failed(&mut self, key: ClientKey, rest: Rest, answer: u8, error: &MySqlError) {
        let killed = rest.map_or(0, |behind| behind.killed);
        let status = self.clients[key].reader().status().with(StatusFlags::MORE_RESULTS_EXISTS);
        let mut sequence = answer;
        for _ in 0..killed {
            self.answer_this_ok(key, sequence, &OkPacket::plain(status));
            sequence = sequence.wrapping_add(1);
        }
        self.answer_error(key, sequence, error);
    }

    fn kill_victim(&mut self, id: u32, query_only: bool, rights: &Rights, age: Duration) -> Outcome {
        let Some(&victim) = self.ids.keys.get(&id) else { return self.of_nobody(id, query_only) };
        let client = &self.clients[victim];
        let identity = client.identity.map(|identity| self.logins.identities.identity(identity));
        // Who is still logging in is nobody's yet (find_thread_by_id, `user_matches`: without a user it is not one's own).
        if !identity
            .map_or(rights.all, |identity| rights.cover(self.own_by(), &identity.user, &identity.account))
        {
            return Outcome::Denied;
        }
        // What was to be ended has ended by itself.
        if query_only && client.command_age(self.now) + CLOCKS_DIFFER < age {
            return Outcome::Done;
        }
        self.end_for_client(victim, query_only)
    }

    /// No client has this id. The server has, where its own have come so far.
    fn of_nobody(&self, id: u32, query_only: bool) -> Outcome {
        let ending = Ending { thread_id: u64::from(id), query_only };
        let reached = self.pool.workers.serving.has_reached(FIRST_ID);
        if reached { Outcome::OfServer(ending) } else { Outcome::NoSuchClient }
    }

    /// Ends what a client does, or the client itself, as far as that can be done here.
    pub(crate) fn end_for_client(&mut self, victim: ClientKey, query_only: bool) -> Outcome {
        match *self.clients[victim].phase() {
            Phase::Preparing | Phase::Running(_) => self.kill_running(victim, query_only),
            Phase::Queued | Phase::Following { .. } if query_only => {
                self.scheduling.note_abandoned_wait(self.now, &self.settings, victim, &self.clients[victim]);
                self.cancel_queued(victim, &MySqlError::interrupted());
                Outcome::Done
            }
            Phase::Reading(_) if query_only => {
                self.cancel_reading(victim, &MySqlError::interrupted());
                Outcome::Done
            }
            Phase::Lent(_) => {
                self.end_lent(victim, query_only);
                Outcome::Done
            }
            _ if query_only => Outcome::Done,
            _ => {
                self.close_client(victim, ClosedFor::Killed, "killed");
                Outcome::Done
            }
        }
    }

    /// The server ends the statement, or all that the client has there, asked by the killer's own account. The backend is not
    /// used again afterwards: a late KILL must not hit the statement of another client.
    fn kill_running(&mut self, victim: ClientKey, query_only: bool) -> Outcome {
        if !query_only && self.waits_for_its_client(victim) {
            // Such a server notices no KILL QUERY, but that its connection has ended (my_net_read, net_write_packet).
            let backend = self.clients[victim].backend;
            self.close_client(victim, ClosedFor::Killed, "killed");
            if let Some(backend) = backend.filter(|&backend| self.servers.contains(backend)) {
                self.close_backend(backend, "its client was killed, for which the server waited");
            }
            return Outcome::Done;
        }
        if self.coalescing().hand_over(victim) {
            // Others wait for the same answer; only the victim goes without.
            self.clients[victim].hand_over();
            match query_only {
                true => self.cancel_queued(victim, &MySqlError::interrupted()),
                false => self.close_client(victim, ClosedFor::Killed, "killed"),
            }
            return Outcome::Done;
        }
        let Some(key) = self.clients[victim].backend else { return Outcome::Done };
        if self.is_on_former_server(key) {
            // Its number means another thread on the server that would be asked. What has not arrived there is not to.
            self.clients[victim].loss.killed |= !query_only;
            self.give_up_backend(key, "its client was killed");
            return Outcome::Done;
        }
        let backend = &mut self.servers[key];
        let others = backend
            .in_flight
            .iter()
            .any(|other| matches!(other.owner, Owner::Client { client, .. } if client != victim));
        let stuck = backend.answers(victim) && self.now.since(backend.first.since) > STUCK;
        if others && !stuck {
            // Short reads share this backend; a KILL could hit any of them, and most end by themselves at once.
            match query_only {
                true => self.cancel_later(victim, key),
                false => self.close_client(victim, ClosedFor::Killed, "killed"),
            }
            return Outcome::Done;
        }
        backend.afterwards = Afterwards::Close;
        // What others have in flight there goes on: then all of it are plain reads, of one statement each.
        let only_its_own = backend
            .in_flight
            .iter()
            .all(|statement| statement.owner.client().is_none_or(|client| client == victim));
        let thread_id = u64::from(backend.login.thread_id);
        self.clients[victim].loss.killed |= !query_only;
        Outcome::AskServer(Ending { thread_id, query_only: query_only || !only_its_own })
    }

    /// The server waits for a client that sends no more of a file, or takes no more of its reply, and for nobody else.
    fn waits_for_its_client(&self, client: ClientKey) -> bool {
        let state = &self.clients[client];
        let Some(backend) = state.backend.map(|backend| &self.servers[backend]) else { return false };
        let Some(statement) = backend.in_flight.front().filter(|_| backend.answers(client)) else {
            return false;
        };
        let is_only = backend.in_flight.len() == 1 && statement.group.is_none();
        let stalls = state.activity.stalled_since.is_some() && statement.summary.relayed > 0;
        is_only && (stalls || matches!(state.phase(), Phase::Running(Running::Uploading { .. })))
    }

    fn queue_kill(&mut self, killer: ClientKey, ending: Ending, kills: Option<Kills>) {
        let request = Request::query(&ending.text());
        self.queue_request(killer, Request { kills, ..request }.urgently());
    }
}

#[cfg(test)]
mod tests;
