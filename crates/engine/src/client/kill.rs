//! KILL, by the ids that clients see.
//!
//! Ids of clients start at [`FIRST_ID`], above any thread id that a server reaches in practice, so that an id read from
//! the server's own PROCESSLIST means the server's thread: such a KILL goes to the server as it is. Where the server's count has come
//! that far all the same, an id that no client has is the server's.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;
use sql::{KillTarget, Kind, LexMode, Whom};
use wire::{Capabilities, CommandKind, OkPacket, StatusFlags};

use super::answer::Answers;
use super::killing::{Behind, Killing, Rest};
use super::{Client, Phase};
use crate::accounts::IdentityId;
use crate::errors::MySqlError;
use crate::ids::{ClientIds, ClientKey, ClientRef, Table};
use crate::logins::Logins;
use crate::outside::orders::to_be_ended::{Kills, OutsideKill};
use crate::pool::Pool;
use crate::request::TEXT_AT;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::Settings;
use crate::steps;
use crate::workers::letter::{Ending, Kill, Killer, Letter, Outcome, OwnBy, Rights};
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

    /// A KILL of a client of this Onramp's. Returns it where this worker has the client, else it goes to the one that has.
    pub(crate) fn hand_on_kill(&mut self, kill: Kill) -> Option<Kill> {
        let owner = self.worker_of(kill.victim);
        if owner == self.worker {
            return Some(kill);
        }
        self.write_letter(owner, Letter::Kill(kill));
        None
    }
}

impl ClientIds {
    /// An id that no client has now. Ids of one worker are a pool's number of workers apart, so that an id says whose it is.
    pub(crate) fn next(&mut self, pool: &Pool) -> u32 {
        let count = pool.workers.count();
        let worker = u32::try_from(pool.worker).expect("one of a u32");
        let own = pool.workers.onramps.slot().unwrap_or(NO_SLOT) - 1;
        let of_slot = IDS_OF_SLOT / count;
        // Of very many workers one might come to have more clients than that.
        let slots = if self.keys.len() < of_slot as usize { 1 } else { PARTS };
        loop {
            self.last = self.last.wrapping_add(1) % (of_slot * PARTS);
            let place = self.last.wrapping_add(self.first) % (of_slot * slots);
            let slot = (own + place / of_slot) % PARTS;
            let id = FIRST_ID + slot * IDS_OF_SLOT + place % of_slot * count + worker;
            if !self.keys.contains_key(&id) {
                return id;
            }
        }
    }

    /// Clients that came before it was known which slot this one has get ids of that. Nobody has been told theirs yet. Returns the new ones by
    /// the former.
    pub(crate) fn renew(
        &mut self,
        pool: &Pool,
        clients: &mut Table<ClientKey, Client>,
        waiting: &[ClientKey],
    ) -> BTreeMap<u32, u32> {
        let mut renewed = BTreeMap::new();
        let Some(slot) = pool.workers.onramps.slot() else { return renewed };
        for &key in waiting {
            let former = clients[key].id;
            if slot_of(former.into()) == u64::from(slot) {
                continue;
            }
            // The same place in the slot, so that nobody is counted twice.
            let same = FIRST_ID + (slot - 1) * IDS_OF_SLOT + (former - FIRST_ID) % IDS_OF_SLOT;
            let id = if self.keys.contains_key(&same) { self.next(pool) } else { same };
            clients[key].id = id;
            self.keys.remove(&former);
            self.keys.insert(id, key);
            renewed.insert(former, id);
        }
        renewed
    }
}

/// What a client's KILL is.
pub(crate) enum Begun {
    /// The server's: it concerns no client of ours.
    OfServer,
    /// One of itself, or of its own statement.
    Oneself { query_only: bool },
    /// One of a client that this worker may have, by somebody with these rights.
    Here(Killing, Rights),
    /// The same, with more of the text behind it: the client waits until that KILL has been carried out.
    InFront(Kill),
    /// Another worker has been asked.
    Elsewhere,
}

/// What a client's KILL has come to.
pub(crate) enum Settled {
    /// The other workers have no such client. The Onramp with that slot may have one: the first worker asks it, which is this one where the
    /// letter is here.
    AsksPeer(Option<Kill>),
    /// It is done: an OK with this number.
    Done { answer: u8 },
    /// It is done, and what stands behind it in its text is next.
    GoesOn { behind: Box<Behind>, answer: u8 },
    /// The server has to do it, which may be the KILL of a client of this Onramp's.
    ByServer { ending: Ending, kills: Option<Kills> },
    /// An error, behind the answers to so many KILLs before it in its text.
    Failed { killed: u32, answer: u8, error: MySqlError },
}

/// Clients that kill others, and what says whether they may.
pub(crate) struct Killers<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a mut Pool,
    pub(crate) ids: &'a ClientIds,
    pub(crate) logins: &'a Logins,
    pub(crate) sessions: &'a Sessions,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) servers: &'a Servers,
}

impl Killers<'_> {
    /// A text of several statements that begins with a KILL of a client of ours: that, and what stands behind it.
    pub(crate) fn first_of_several(&self, key: ClientKey, text: &[u8]) -> Option<(KillTarget, Box<Behind>)> {
        if !self.clients[key].capabilities.contains(Capabilities::MULTI_STATEMENTS) {
            return None;
        }
        let (target, from) = first_kill(text, self.lex_mode(key))?;
        Some((target, Box::new(Behind { killed: 0, text: text.into(), from })))
    }

    /// A KILL of a text has been done here: the one that stands behind it, and behind which the rest is then. `None` where the rest is the
    /// server's.
    pub(crate) fn next_behind(&self, key: ClientKey, behind: &mut Behind) -> Option<KillTarget> {
        let mode = self.lex_mode(key);
        let rest = behind.rest();
        let short = rest.len() <= self.settings.large_statement_size;
        let next = match first_kill(rest, mode) {
            Some((target, from)) => Some((target, behind.from + from)),
            // A longer one says more than that.
            None if short => only_kill(rest, mode).map(|target| (target, behind.text.len())),
            None => None,
        };
        let (target, from) = next.filter(|_| behind.killed < MOST_KILLS)?;
        behind.from = from;
        Some(target)
    }

    fn lex_mode(&self, key: ClientKey) -> LexMode {
        self.clients[key].lex_mode(self.sessions, self.servers.primary())
    }

    /// A client's KILL begins, with what stands behind it.
    pub(crate) fn begin(&mut self, key: ClientKey, target: KillTarget, answer: u8, rest: Rest) -> Begun {
        let own = self.clients[key].id;
        let named = if target.whom == Whom::Oneself { Some(own) } else { named(target) };
        let Some(victim) = named else { return Begun::OfServer };
        let query_only = target.query_only;
        if victim == own {
            return Begun::Oneself { query_only };
        }
        let Some(identity) = self.clients[key].identity else { return Begun::OfServer };
        let rights = self.rights_of(identity);
        let killing = Killing { answer, victim, query_only, since: self.now, rest, peer: None };
        if killing.rest.is_none() && self.pool.worker_of(victim) == self.pool.worker {
            return Begun::Here(killing, rights);
        }
        let kill = self.letter_of(key, &killing, rights);
        self.clients[key].kill_elsewhere(killing);
        self.pool.hand_on_kill(kill).map_or(Begun::Elsewhere, Begun::InFront)
    }

    fn letter_of(&self, key: ClientKey, killing: &Killing, rights: Rights) -> Kill {
        let killer = self.clients.ref_to(key);
        let killer =
            if killing.rest.is_some() { Killer::ClientWithRest(killer) } else { Killer::Client(killer) };
        let (victim, query_only) = killing.whom();
        Kill { from: self.pool.worker, killer, victim, query_only, rights, age: Duration::ZERO }
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

    /// The client with this id, which is to be ended by somebody with these rights who has said so that long ago.
    ///
    /// # Errors
    /// What is to be said where nothing is to be ended.
    pub(crate) fn victim(
        &self,
        id: u32,
        query_only: bool,
        rights: &Rights,
        age: Duration,
    ) -> Result<ClientKey, Outcome> {
        let Some(&victim) = self.ids.keys.get(&id) else { return Err(self.of_nobody(id, query_only)) };
        let client = &self.clients[victim];
        let identity = client.identity.map(|identity| self.logins.identities.identity(identity));
        // Who is still logging in is nobody's yet (find_thread_by_id, `user_matches`: without a user it is not one's own).
        if !identity
            .map_or(rights.all, |identity| rights.cover(self.own_by(), &identity.user, &identity.account))
        {
            return Err(Outcome::Denied);
        }
        // What was to be ended has ended by itself.
        if query_only && client.command_age(self.now) + CLOCKS_DIFFER < age {
            return Err(Outcome::Done);
        }
        Ok(victim)
    }

    /// No client has this id. The server has, where its own have come so far.
    fn of_nobody(&self, id: u32, query_only: bool) -> Outcome {
        let ending = Ending { thread_id: u64::from(id), query_only };
        let reached = self.pool.workers.serving.has_reached(FIRST_ID);
        if reached { Outcome::OfServer(ending) } else { Outcome::NoSuchClient }
    }

    /// Says whether a client waits for others to kill the one with this id.
    pub(crate) fn waits_for(&self, killer: ClientRef, victim: u32) -> bool {
        let client = self.clients.find(killer);
        client.is_some_and(
            |client| matches!(client.phase(), Phase::Killing(killing) if killing.victim == victim),
        )
    }

    /// What a client's KILL has come to, of whose victim this was found out.
    pub(crate) fn settle(&mut self, killer: ClientKey, killing: Killing, outcome: Outcome) -> Settled {
        if matches!(outcome, Outcome::NoSuchClient | Outcome::OfServer(_))
            && killing.peer.is_none()
            && let Some(slot) = self.pool.peer_of(killing.victim)
        {
            return Settled::AsksPeer(self.ask_peer(killer, killing, slot));
        }
        let Killing { answer, victim, query_only, rest, peer, since } = killing;
        let outcome = match outcome {
            // Nor has that one such a client.
            Outcome::NoSuchClient if peer.is_some() => self.of_nobody(victim, query_only),
            outcome => outcome,
        };
        let id = u64::from(victim);
        let (rest, error) = match (outcome, rest) {
            (Outcome::Done, None) => return Settled::Done { answer },
            (Outcome::Done, Some(mut behind)) => {
                behind.killed = behind.killed.saturating_add(1);
                return Settled::GoesOn { behind, answer };
            }
            (Outcome::AskServer(ending), None) => {
                let own = self.ids.keys.get(&victim).map(|&key| ClientRef { key, id: victim });
                let own = own.map(|victim| OutsideKill::new(victim, ending, query_only, since));
                let choice = self.pool.workers.chosen.get().number;
                let kills = own.map_or(Kills::OfOtherWorker { choice }, |kill| Kills::Own(Box::new(kill)));
                return Settled::ByServer { ending, kills: Some(kills) };
            }
            (Outcome::OfServer(ending), None) => return Settled::ByServer { ending, kills: None },
            // Where the server's own numbers are like clients', a KILL of one goes to it alone: in a text it would be taken for a client's
            // once more, without end. (With a rest it is the victim's user who asks the server, and this one hears that it is done.)
            (Outcome::NoSuchClient | Outcome::AskServer(_) | Outcome::OfServer(_), rest) => {
                (rest, MySqlError::no_such_client(id))
            }
            (Outcome::Undelivered(why), rest) => (rest, MySqlError::kill_undelivered(id, slot_of(id), why)),
            (Outcome::Denied, rest) => (rest, MySqlError::kill_denied(id)),
        };
        Settled::Failed { killed: rest.map_or(0, |behind| behind.killed), answer, error }
    }

    /// No client of ours has the id. The Onramp with that slot may have one. Returns the letter where this worker is the one that writes to others.
    fn ask_peer(&mut self, key: ClientKey, killing: Killing, slot: u32) -> Option<Kill> {
        let rights = self.rights_of(self.clients[key].identity?);
        let kill = self.letter_of(key, &killing, rights);
        self.clients[key].kill_elsewhere(Killing { since: self.now, peer: Some(slot), ..killing });
        if self.pool.worker == 0 {
            return Some(kill);
        }
        self.pool.write_letter(0, Letter::KillAtPeer(kill));
        None
    }
}

impl Behind {
    /// The server answers the whole text: what was done here is nothing for it to do, with the same answer.
    pub(crate) fn as_query(&self) -> Vec<u8> {
        let done = b"DO 0;".repeat(self.killed as usize);
        let mut raw = Vec::with_capacity(TEXT_AT + done.len() + self.rest().len());
        let start = wire::begin_packet(&mut raw);
        raw.push(CommandKind::Query as u8);
        raw.extend_from_slice(&done);
        raw.extend_from_slice(self.rest());
        wire::end_packet(&mut raw, start, &mut 0);
        raw
    }
}

impl Answers<'_> {
    /// A text ends with this error, behind the answers to so many KILLs before it.
    pub(crate) fn error_behind_kills(&mut self, key: ClientKey, killed: u32, answer: u8, error: &MySqlError) {
        let status = self.clients[key].reader().status().with(StatusFlags::MORE_RESULTS_EXISTS);
        let mut sequence = answer;
        for _ in 0..killed {
            self.this_ok(key, sequence, &OkPacket::plain(status));
            sequence = sequence.wrapping_add(1);
        }
        self.error(key, sequence, error);
    }
}

#[cfg(test)]
mod tests;
