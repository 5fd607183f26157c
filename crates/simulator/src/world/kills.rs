//! KILLs in front of which there are several Onramps: what is heard of them on the way, and whether their answers are true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use memchr::memmem;

use super::World;
use super::driver::Life;
use crate::kills::{Kill, Kills, Login};
use crate::protocol::Cursor;
use crate::server::Link;
use crate::subject::Subject;
use crate::token::ClientKey;

/// Ids of clients begin here, and each slot has so many.
const FIRST_ID: u32 = 1 << 30;
const IDS_OF_SLOT: u32 = 1 << 25;

/// The server's clock counts as it was said lately: a letter is carried out for 5 seconds, and was dated by the look before it, of which there
/// is one each second where the server answers.
const LATEST: u64 = 10_000_000;

/// ER_NO_SUCH_THREAD, ER_KILL_DENIED_ERROR and ER_UNKNOWN_ERROR.
const NO_SUCH_THREAD: u16 = 1094;
const DENIED: u16 = 1095;
const UNKNOWN: u16 = 1105;

/// Two Onramps that have been there for so long without a trouble know of each other, and answer letters.
const STEADY: u64 = 7_000_000;

/// What is heard on the way between a program and its clients and server.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    greeted: BTreeSet<Link>,
    /// When a question for the server's clock was sent, and for how long its answer has taken so far.
    clocks: BTreeMap<Link, (u64, u64)>,
    /// When answers came, and how long they took.
    took: VecDeque<(u64, u64)>,
    /// Questions about locks, and logins of the service account, of each program since somebody looked.
    pub(super) questions: BTreeMap<usize, u64>,
    pub(super) logins: BTreeMap<usize, u64>,
    /// And attempts to connect.
    pub(super) connects: BTreeMap<usize, u64>,
}

impl Overheard {
    /// A program sends this.
    pub(super) fn sent(
        &mut self,
        kills: &mut Kills,
        keys: &BTreeMap<Link, ClientKey>,
        (program, link, bytes): (usize, Link, &[u8]),
        now: u64,
    ) {
        if let Some(&key) = keys.get(&link) {
            if self.greeted.insert(link)
                && let Some(id) = greeted_as(bytes)
            {
                kills.given(key, program, id, now);
            }
            return;
        }
        if let Some((_, took)) = self.clocks.remove(&link) {
            self.took.push_back((now, took));
            self.took.retain(|&(at, _)| now - at <= LATEST);
            kills.clock_took = self.took.iter().map(|&(_, took)| took).max().unwrap_or(0);
        }
        let says = |what: &[u8]| memmem::find(bytes, what).is_some();
        if says(b"_LOCK('") {
            *self.questions.entry(program).or_default() += 1;
        }
        if says(b"onramp\0") {
            *self.logins.entry(program).or_default() += 1;
        }
        if says(b"UNIX_TIMESTAMP(NOW(6))") {
            self.clocks.insert(link, (now, 0));
        }
    }

    /// A program gets something on this connection.
    fn heard(&mut self, link: Link, now: u64) {
        if let Some((asked, took)) = self.clocks.get_mut(&link) {
            *took = now - *asked;
        }
    }
}

/// An answer to a KILL that is not true.
#[derive(Debug)]
enum Untrue {
    /// The answer is OK, and nobody has the id whom the client may end.
    Done,
    /// The answer is that there is no such client, and this one has been there all the time.
    NoSuchThread(Box<Login>),
    /// The answer is that the client may not end this one, whom it may.
    Denied(Box<Login>),
    /// The answer is that the KILL cannot be told to this one's Onramp, from which nothing keeps it.
    Undelivered {
        /// Who should have been ended.
        victim: Box<Login>,
        /// The answer.
        message: String,
    },
}

impl fmt::Display for Untrue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => {
                f.write_str("a KILL is answered with OK, and nobody has the id whom its client may end")
            }
            Self::NoSuchThread(victim) => write!(f, "there is such a client all the time, {victim:?}"),
            Self::Denied(victim) => write!(f, "its client may end {victim:?}"),
            Self::Undelivered { victim, message } => {
                write!(f, "nothing keeps it from {victim:?}, and it is not told: {message}")
            }
        }
    }
}

/// The id in a greeting.
fn greeted_as(bytes: &[u8]) -> Option<u32> {
    let mut cursor = Cursor(bytes.get(4..)?);
    if cursor.byte()? != 10 {
        return None;
    }
    cursor.until_nul()?;
    cursor.long()
}

/// The slot that an id is of.
pub(super) fn slot_of(id: u32) -> u32 {
    id.checked_sub(FIRST_ID).map_or(0, |place| place / IDS_OF_SLOT + 1)
}

impl<P: Subject> World<P> {
    /// A program has got something on this connection.
    pub(super) fn note_heard(&mut self, link: Link) {
        let now = self.now;
        let Some(kills) = self.checkers.kills() else { return };
        match self.link_keys.get(&link) {
            Some(&key) => kills.heard(key, now),
            None => self.overheard.heard(link, now),
        }
    }

    /// A client has gone, or the program has closed its connection.
    pub(super) fn note_left(&mut self, link: Link) {
        let now = self.now;
        if let (Some(kills), Some(&key)) = (self.checkers.kills(), self.link_keys.get(&link)) {
            kills.left(key, now);
        }
    }

    /// Clients that a program has closed as killed.
    pub(super) fn check_killed(&mut self, program: usize) {
        for id in self.drivers[program].program.killed() {
            self.checkers.with_kill(|kills| kills.closed(program, id));
        }
    }

    /// Holds the answers that KILLs have had against what is so.
    pub(super) fn judge_kills(&mut self) {
        let Some(kills) = self.checkers.kills() else { return };
        let settled = std::mem::take(&mut kills.settled);
        if settled.is_empty() {
            return;
        }
        self.look_at_slots();
        for kill in settled {
            if let Err(untrue) = self.judge(&kill) {
                self.checkers.violation(format!("{untrue}: {kill:?}"));
            }
        }
    }

    fn judge(&mut self, kill: &Kill) -> Result<(), Untrue> {
        let Some((at, code, message)) = kill.answered.clone() else { return Ok(()) };
        let Some(kills) = self.checkers.kills() else { return Ok(()) };
        let Some(killer) = kills.login(kill.killer).cloned() else { return Ok(()) };
        let victims: Vec<Login> = kills.with_id(kill.victim).cloned().collect();
        let may = |kills: &Kills, victim: &Login| kills.may_kill(kill.killer, victim);
        // Somebody who is there all the time, and was logged in before.
        let is_there = |victim: &&Login| {
            victim.users.first().is_some_and(|(since, _)| *since < kill.sent)
                && victim.left.is_none_or(|left| left > at)
        };
        let there = victims.iter().find(is_there).filter(|victim| victim.key != kill.killer).cloned();
        match code {
            0 => {
                let is_here = victims.iter().any(|victim| victim.program == killer.program);
                if is_here {
                    kills.counts.done_here += 1;
                } else {
                    kills.counts.done_elsewhere += 1;
                }
                match victims.iter().any(|victim| may(kills, victim)) {
                    true => Ok(()),
                    false => Err(Untrue::Done),
                }
            }
            NO_SUCH_THREAD => {
                kills.counts.nobody += 1;
                match there {
                    Some(victim) if self.knows(&killer, &victim, kill) => {
                        Err(Untrue::NoSuchThread(Box::new(victim)))
                    }
                    _ => Ok(()),
                }
            }
            DENIED => {
                kills.counts.denied += 1;
                let sure = |victim: &Login| victim.has_one_user() && killer.has_one_user();
                match there.filter(sure).filter(|victim| may(kills, victim)) {
                    Some(victim) => Err(Untrue::Denied(Box::new(victim))),
                    None => Ok(()),
                }
            }
            UNKNOWN => {
                kills.counts.undelivered += 1;
                match there {
                    Some(victim)
                        if victim.program == killer.program || self.knows(&killer, &victim, kill) =>
                    {
                        Err(Untrue::Undelivered { victim: Box::new(victim), message })
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether the killer's Onramp has the client, or knows for sure of the one that has it and reaches it.
    fn knows(&self, killer: &Login, victim: &Login, kill: &Kill) -> bool {
        if killer.program == victim.program {
            return true;
        }
        let Some(onramps) = &self.onramps else { return false };
        let holds = |program: usize| {
            let (slot, held) = onramps.slot_of(program)?;
            let is_steady =
                held.since + STEADY < kill.sent && self.has_been_steady(program, held.server, kill.sent);
            (self.drivers[program].life == Life::Runs && is_steady).then_some((slot, held.server))
        };
        let is_quiet = onramps.squatted + STEADY < kill.sent;
        let (from, to) = (holds(killer.program), holds(victim.program));
        let are_together = from.zip(to).is_some_and(|(from, to)| from.1 == to.1);
        is_quiet && are_together && to.is_some_and(|(slot, _)| slot == slot_of(kill.victim))
    }
}
