//! KILL, by the ids that clients see.
//!
//! Ids of clients start at [`FIRST_ID`], above any thread id that a server reaches in practice. So an id read from the
//! server's own PROCESSLIST means the server's thread, and such a KILL goes to the server as it is. Where the server's
//! count has come that far all the same, an id that no client has is the server's.

use std::time::Duration;

use seam::Instant;
use sql::{KillTarget, Kind, LexMode, Whom};
use wire::{Capabilities, CommandKind, OkPacket, StatusFlags};

use crate::accounts::IdentityId;
use crate::client::answers::answer::Answers;
use crate::client::commands::killing::{Killing, RestOfText, TextBehindKill};
use crate::client::ids::{ClientIds, FIRST_ID, IDS, IDS_OF_SLOT, slot_of};
use crate::client::{Client, Phase};
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef, Table};
use crate::logins::Logins;
use crate::outside::orders::to_be_ended::{Kills, OutsideKill};
use crate::pool::Pool;
use crate::request::TEXT_AT;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::Settings;
use crate::steps;
use crate::workers::letter::{Kill, KillOutcome, KillRights, Killer, Letter, OwnBy, ServerKill};

/// KILLs at the beginning of a text that are done here. Any further one is the server's, which knows no clients.
const MOST_KILLS: u32 = 64;

/// Bytes of the longest KILL in front of others that is done here: one takes a few dozen. A longer one is the server's, too.
const LONGEST_KILL: usize = 4 << 10;

/// The time by which clocks of several machines may run apart between two looks at the server's clock. A statement that
/// has come so shortly behind a KILL of the one before is ended with it, as it would be on a busy server.
const CLOCKS_DIFFER: Duration = Duration::from_millis(50);

/// Returns the id of the client of ours that a KILL names.
fn named(target: KillTarget) -> Option<u32> {
    let Whom::Id(id) = target.whom else { return None };
    u32::try_from(id).ok().filter(|id| (FIRST_ID..FIRST_ID + IDS).contains(id))
}

/// Returns the KILL that a text of several statements begins with, and where the rest begins.
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

/// Returns the KILL of a client of ours, where the text is nothing else.
fn only_kill(text: &[u8], mode: LexMode) -> Option<KillTarget> {
    let found = sql::classify(text, mode);
    match found.kind {
        Kind::Kill(target) if !found.several && found.effects.is_empty() => {
            Some(target).filter(|&target| named(target).is_some())
        }
        _ => None,
    }
}

impl Pool {
    /// Returns the slot of the other Onramp that has the client with this id, where none of ours has it.
    pub(crate) fn peer_of(&self, id: u32) -> Option<u32> {
        let slot = u32::try_from(slot_of(id.into())).ok()?;
        self.workers.onramps.is_of_another(slot).then_some(slot)
    }

    /// Returns the worker that has the client with this id, if any has.
    fn worker_of(&self, id: u32) -> usize {
        (id.wrapping_sub(FIRST_ID) % IDS_OF_SLOT % self.workers.count()) as usize
    }

    /// Hands on a KILL of a client of this Onramp's. Returns the KILL where this worker has the client; otherwise it
    /// goes to the worker that has.
    pub(crate) fn hand_on_kill(&mut self, kill: Kill) -> Option<Kill> {
        let owner = self.worker_of(kill.victim);
        if owner == self.worker {
            return Some(kill);
        }
        self.write_letter(owner, Letter::Kill(kill));
        None
    }
}

/// A client's KILL, as it has begun.
pub(crate) enum Begun {
    /// The KILL is the server's: it concerns no client of ours.
    OfServer,
    /// The KILL is of the killer itself, or of its own statement.
    Oneself { query_only: bool },
    /// The KILL is of a client that this worker may have, by somebody with these rights.
    Here(Killing, KillRights),
    /// The KILL is of such a client, with more of the text behind it. The killer waits until the KILL has been carried out.
    InFront(Kill),
    /// Another worker has been asked for the KILL.
    Elsewhere,
}

/// The outcome of a client's KILL.
pub(crate) enum Settled {
    /// The other workers have no such client. Another Onramp may have one, by the slot of the id. The first worker asks
    /// that Onramp: this worker, where the letter is here.
    AsksPeer(Option<Kill>),
    /// The KILL is done: an OK with this number.
    Done { answer: u8 },
    /// The KILL is done, and the rest of its text is next.
    GoesOn { behind: Box<TextBehindKill>, answer: u8 },
    /// The server has to do the KILL, which may be of a client of this Onramp's.
    ByServer { ending: ServerKill, kills: Option<Kills> },
    /// The KILL has failed: an error, behind the answers to so many KILLs before it in its text.
    Failed { killed: u32, answer: u8, error: MySqlError },
}

/// Clients that kill others, and the state that says whether they may.
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
    /// Returns the KILL of a client of ours that a text of several statements begins with, and the rest of the text.
    pub(crate) fn first_of_several(
        &self,
        key: ClientKey,
        text: &[u8],
    ) -> Option<(KillTarget, Box<TextBehindKill>)> {
        if !self.clients[key].capabilities.contains(Capabilities::MULTI_STATEMENTS) {
            return None;
        }
        let (target, from) = first_kill(text, self.lex_mode(key))?;
        Some((target, Box::new(TextBehindKill { killed: 0, text: text.into(), from })))
    }

    /// Returns the KILL that stands next in a text, behind one that has been done here. `behind` goes on to what stands
    /// behind it. `None` where the rest is the server's.
    pub(crate) fn next_behind(&self, key: ClientKey, behind: &mut TextBehindKill) -> Option<KillTarget> {
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

    /// Begins a client's KILL, with the rest of its text.
    pub(crate) fn begin(
        &mut self,
        key: ClientKey,
        target: KillTarget,
        answer: u8,
        rest: RestOfText,
    ) -> Begun {
        let own = self.clients[key].id;
        let named = if target.whom == Whom::Oneself { Some(own) } else { named(target) };
        let Some(victim) = named else { return Begun::OfServer };
        let query_only = target.query_only;
        if victim == own {
            return Begun::Oneself { query_only };
        }
        let Some(identity) = self.clients[key].identity() else { return Begun::OfServer };
        let rights = self.rights_of(identity);
        let killing = Killing { answer, victim, query_only, since: self.now, rest, peer: None };
        if killing.rest.is_none() && self.pool.worker_of(victim) == self.pool.worker {
            return Begun::Here(killing, rights);
        }
        let kill = self.letter_of(key, &killing, rights);
        self.clients[key].kill_elsewhere(killing);
        self.pool.hand_on_kill(kill).map_or(Begun::Elsewhere, Begun::InFront)
    }

    fn letter_of(&self, key: ClientKey, killing: &Killing, rights: KillRights) -> Kill {
        let killer = self.clients.ref_to(key);
        let killer =
            if killing.rest.is_some() { Killer::ClientWithRest(killer) } else { Killer::Client(killer) };
        let (victim, query_only) = killing.whom();
        Kill { from: self.pool.worker, killer, victim, query_only, rights, age: Duration::ZERO }
    }

    /// Returns the rule by which the server takes a client for the killer's own.
    fn own_by(&self) -> OwnBy {
        let facts = self.servers.primary().facts.as_ref();
        if facts.is_some_and(|facts| facts.version.is_mariadb()) { OwnBy::Account } else { OwnBy::Name }
    }

    fn rights_of(&self, identity: IdentityId) -> KillRights {
        let identity = self.logins.identities.identity(identity);
        KillRights::of(self.own_by(), &identity.user, &identity.account)
    }

    /// Returns the client with this id, which somebody with these rights wants to end. `age` is the time since the KILL was said.
    ///
    /// # Errors
    ///
    /// The outcome to be told where nothing is to be ended.
    pub(crate) fn victim(
        &self,
        id: u32,
        query_only: bool,
        rights: &KillRights,
        age: Duration,
    ) -> Result<ClientKey, KillOutcome> {
        let Some(victim) = self.ids.client_with(id) else { return Err(self.of_nobody(id, query_only)) };
        let client = &self.clients[victim];
        let identity = client.identity().map(|identity| self.logins.identities.identity(identity));
        // Who is still logging in is nobody's yet (find_thread_by_id, `user_matches`: without a user it is not one's own).
        if !identity
            .map_or(rights.all, |identity| rights.cover(self.own_by(), &identity.user, &identity.account))
        {
            return Err(KillOutcome::Denied);
        }
        // What was to be ended has ended by itself.
        if query_only && client.activity.command_age(self.now) + CLOCKS_DIFFER < age {
            return Err(KillOutcome::Done);
        }
        Ok(victim)
    }

    /// Returns the outcome for an id that no client has. The server has the id, where its own ids have come so far.
    fn of_nobody(&self, id: u32, query_only: bool) -> KillOutcome {
        let ending = ServerKill { thread_id: u64::from(id), query_only };
        let reached = self.pool.workers.serving.has_reached(FIRST_ID);
        if reached { KillOutcome::OfServer(ending) } else { KillOutcome::NoSuchClient }
    }

    /// Says whether a client waits for others to kill the one with this id.
    pub(crate) fn waits_for(&self, killer: ClientRef, victim: u32) -> bool {
        let client = self.clients.find(killer);
        client.is_some_and(
            |client| matches!(client.phase(), Phase::Killing(killing) if killing.victim == victim),
        )
    }

    /// Returns the outcome of a client's KILL, by what was found out about its victim.
    pub(crate) fn settle(&mut self, killer: ClientKey, killing: Killing, outcome: KillOutcome) -> Settled {
        if matches!(outcome, KillOutcome::NoSuchClient | KillOutcome::OfServer(_))
            && killing.peer.is_none()
            && let Some(slot) = self.pool.peer_of(killing.victim)
        {
            return Settled::AsksPeer(self.ask_peer(killer, killing, slot));
        }
        let Killing { answer, victim, query_only, rest, peer, since } = killing;
        let outcome = match outcome {
            // Nor has that one such a client.
            KillOutcome::NoSuchClient if peer.is_some() => self.of_nobody(victim, query_only),
            outcome => outcome,
        };
        let id = u64::from(victim);
        let (rest, error) = match (outcome, rest) {
            (KillOutcome::Done, None) => return Settled::Done { answer },
            (KillOutcome::Done, Some(mut behind)) => {
                behind.killed = behind.killed.saturating_add(1);
                return Settled::GoesOn { behind, answer };
            }
            (KillOutcome::AskServer(ending), None) => {
                let own = self.ids.client_with(victim).map(|key| ClientRef { key, id: victim });
                let own = own.map(|victim| OutsideKill::new(victim, ending, query_only, since));
                let choice = self.pool.workers.chosen.get().number;
                let kills = own.map_or(Kills::OfOtherWorker { choice }, |kill| Kills::Own(Box::new(kill)));
                return Settled::ByServer { ending, kills: Some(kills) };
            }
            (KillOutcome::OfServer(ending), None) => return Settled::ByServer { ending, kills: None },
            // Where the server's own numbers are like clients', a KILL of one goes to it alone: in a text it would be taken for a client's
            // once more, without end. (With a rest it is the victim's user who asks the server, and this one hears that it is done.)
            (KillOutcome::NoSuchClient | KillOutcome::AskServer(_) | KillOutcome::OfServer(_), rest) => {
                (rest, MySqlError::no_such_client(id))
            }
            (KillOutcome::Undelivered(why), rest) => {
                (rest, MySqlError::kill_undelivered(id, slot_of(id), why))
            }
            (KillOutcome::Denied, rest) => (rest, MySqlError::kill_denied(id)),
        };
        Settled::Failed { killed: rest.map_or(0, |behind| behind.killed), answer, error }
    }

    /// Asks the Onramp with this slot for the client, which none of ours is. Returns the letter where this worker is
    /// the one that writes to others.
    fn ask_peer(&mut self, key: ClientKey, killing: Killing, slot: u32) -> Option<Kill> {
        let rights = self.rights_of(self.clients[key].identity()?);
        let kill = self.letter_of(key, &killing, rights);
        self.clients[key].kill_elsewhere(Killing { since: self.now, peer: Some(slot), ..killing });
        if self.pool.worker == 0 {
            return Some(kill);
        }
        self.pool.write_letter(0, Letter::KillAtPeer(kill));
        None
    }
}

impl TextBehindKill {
    /// Makes a query of the text that is left, which the server answers as a whole. Each KILL that was done here
    /// becomes a statement that does nothing, with the same answer.
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
    /// Ends a text with this error, behind the answers to so many KILLs before it.
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
