//! Who had which id when, and who has wanted whom killed: a KILL ends who is named by it and nobody else, and its answer is true.

use std::collections::BTreeMap;
use std::fmt;

use crate::protocol::command;
use crate::token::ClientKey;
use crate::trace::Shown;

/// Clocks of several Onramps run apart a little: a statement that comes so shortly behind a KILL QUERY of the one before may be ended with it.
const CLOCKS_DIFFER: u64 = 50_000;

/// What is said to one worker is known to another one, and to the one that corresponds with other Onramps, a turn or two later.
const TURNS: u64 = 5_000;

/// Who may end everybody's clients, where there are several Onramps.
pub const MAY_KILL: &str = "carol";

/// So many of the latest ids clients know of.
const KNOWN: usize = 24;

/// One login of a client.
#[derive(Clone, Debug)]
pub struct Login {
    /// Whose.
    pub key: ClientKey,
    /// The id that its greeting has.
    pub id: u32,
    /// The place of the program that has given it.
    pub program: usize,
    /// When that was.
    pub given: u64,
    /// Whose user it is, and was, each with the time since when.
    pub users: Vec<(u64, String)>,
    /// Whose it will be, as long as the login is not done.
    pub tries: Option<String>,
    /// Since when the client has left, or the program has closed its connection.
    pub left: Option<u64>,
}

/// A KILL.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Who has said it.
    pub killer: ClientKey,
    /// The id that it names.
    pub victim: u32,
    /// Only the statement is meant.
    pub query_only: bool,
    /// When its client has sent it.
    pub sent: u64,
    /// When the program has got all of it.
    pub heard: Option<u64>,
    /// When its client has had an answer, and which error that was, with its text; 0 for none.
    pub answered: Option<(u64, u16, String)>,
}

/// What is known of all of them.
#[derive(Debug, Default)]
pub struct Kills {
    logins: Vec<Login>,
    by_key: BTreeMap<ClientKey, usize>,
    kills: Vec<Kill>,
    /// The KILL that a login waits for.
    waiting: BTreeMap<ClientKey, usize>,
    /// Logins whose ids nobody has looked at yet, by their places.
    pub unseen: Vec<usize>,
    /// KILLs with answers nobody has judged yet.
    pub settled: Vec<Kill>,
    /// For so long at most each of the latest questions for the server's clock has taken, in microseconds.
    pub clock_took: u64,
    /// What was found, for a summary.
    pub counts: Counts,
}

/// How KILLs ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients of other Onramps were named, and that was answered with OK.
    pub done_elsewhere: u64,
    /// Clients of the same Onramp were, likewise.
    pub done_here: u64,
    /// Nobody has the id.
    pub nobody: u64,
    /// The killer has no right to it.
    pub denied: u64,
    /// The KILL could not be told to the other Onramp.
    pub undelivered: u64,
    /// Statements that were interrupted.
    pub interrupted: u64,
    /// Clients that were closed for it.
    pub closed: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            done_elsewhere: self.done_elsewhere + other.done_elsewhere,
            done_here: self.done_here + other.done_here,
            nobody: self.nobody + other.nobody,
            denied: self.denied + other.denied,
            undelivered: self.undelivered + other.undelivered,
            interrupted: self.interrupted + other.interrupted,
            closed: self.closed + other.closed,
        }
    }
}

impl Login {
    /// Whether it is nobody else than it has always been, and is not about to be.
    pub fn has_one_user(&self) -> bool {
        let mut names = self.names();
        let first = names.next();
        names.all(|other| Some(other) == first)
    }

    /// All users that it is, was or may be.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.users.iter().map(|(_, user)| user).chain(&self.tries)
    }
}

impl Kills {
    /// The program has greeted a client with this id.
    pub fn given(&mut self, key: ClientKey, program: usize, id: u32, now: u64) {
        self.by_key.insert(key, self.logins.len());
        self.unseen.push(self.logins.len());
        self.logins.push(Login { key, id, program, given: now, users: Vec::new(), tries: None, left: None });
    }

    /// A client logs in as this user, or changes to it.
    pub fn tries(&mut self, key: ClientKey, user: &str) {
        if let Some(&place) = self.by_key.get(&key) {
            self.logins[place].tries = Some(user.to_owned());
        }
    }

    /// A login is done, or has changed its user.
    pub fn has_user(&mut self, key: ClientKey, user: &str, now: u64) {
        if let Some(&place) = self.by_key.get(&key) {
            self.logins[place].users.push((now, user.to_owned()));
        }
    }

    /// The client has gone, or the program has closed its connection.
    pub fn left(&mut self, key: ClientKey, now: u64) {
        if let Some(&place) = self.by_key.get(&key) {
            self.logins[place].left.get_or_insert(now);
        }
    }

    /// The logins that have, or have had, this id.
    pub fn with_id(&self, id: u32) -> impl Iterator<Item = &Login> {
        self.logins.iter().filter(move |login| login.id == id)
    }

    /// The login of this key.
    pub fn login(&self, key: ClientKey) -> Option<&Login> {
        self.by_key.get(&key).map(|&place| &self.logins[place])
    }

    /// All logins.
    pub fn logins(&self) -> &[Login] {
        &self.logins
    }

    /// Ids that clients may think of: mostly of those that are there.
    pub fn known_ids(&self) -> Vec<u32> {
        let latest = self.logins.iter().rev().take(KNOWN);
        latest.flat_map(|login| vec![login.id; if login.left.is_none() { 4 } else { 1 }]).collect()
    }

    /// Whether one was said since then.
    pub fn was_said_since(&self, since: u64) -> bool {
        self.kills.last().is_some_and(|kill| kill.sent >= since)
    }

    /// A client sends a KILL.
    pub fn said(&mut self, killer: ClientKey, payload: &[u8], now: u64) {
        let Some((victim, query_only)) = parse(payload) else { return };
        self.waiting.insert(killer, self.kills.len());
        self.kills.push(Kill { killer, victim, query_only, sent: now, heard: None, answered: None });
    }

    /// The program gets bytes of this client.
    pub fn heard(&mut self, key: ClientKey, now: u64) {
        if let Some(&place) = self.waiting.get(&key) {
            self.kills[place].heard = Some(now);
        }
    }

    /// A client's KILL is answered.
    pub fn answered(&mut self, key: ClientKey, code: u16, message: &str, now: u64) {
        if let Some(place) = self.waiting.remove(&key) {
            self.kills[place].answered = Some((now, code, message.to_owned()));
            self.settled.push(self.kills[place].clone());
        }
    }

    /// Whether the one may end the other, as far as one of their users has let them.
    pub fn may_kill(&self, killer: ClientKey, victim: &Login) -> bool {
        let Some(killer) = self.login(killer) else { return false };
        killer.names().any(|user| user == MAY_KILL || victim.names().any(|own| own == user))
    }

    /// A statement that this login has sent at that time was interrupted.
    pub fn interrupted(&mut self, key: ClientKey, sent_at: u64, shown: Shown<'_>) -> Result<(), Breach> {
        self.counts.interrupted += 1;
        let Some(login) = self.login(key) else { return Ok(()) };
        let is_meant = |kill: &&Kill| {
            let killer = self.login(kill.killer);
            let is_here = killer.is_some_and(|killer| killer.program == login.program);
            let late = if is_here { TURNS } else { TURNS + CLOCKS_DIFFER + 2 * self.clock_took };
            // At the same Onramp, as on a server, it is done at some time between its coming and its answer.
            let is_under_way = is_here && kill.answered.as_ref().is_none_or(|(at, ..)| sent_at <= *at);
            kill.victim == login.id && kill.heard.is_some_and(|heard| is_under_way || sent_at <= heard + late)
        };
        let mut kills = self.kills.iter().filter(is_meant);
        match kills.any(|kill| self.may_kill(kill.killer, login)) {
            true => Ok(()),
            false => {
                let latest = self.kills.iter().rev().find(|kill| kill.victim == login.id);
                let latest = latest.cloned().map(Box::new);
                Err(Breach::Interrupted { key, id: login.id, shown: shown.to_string(), sent_at, latest })
            }
        }
    }

    /// The program has closed the client with this id as one that was killed.
    pub fn closed(&mut self, program: usize, id: u32) -> Result<(), Breach> {
        self.counts.closed += 1;
        let is_meant = |kill: &&Kill| kill.victim == id && !kill.query_only && kill.heard.is_some();
        let victim = self.with_id(id).find(|login| login.program == program);
        let mut kills = self.kills.iter().filter(is_meant);
        match kills.any(|kill| victim.is_none_or(|victim| self.may_kill(kill.killer, victim))) {
            true => Ok(()),
            false => Err(Breach::Closed { program, id }),
        }
    }

    /// A statement that this login has sent at that time was answered.
    pub fn served(&self, key: ClientKey, sent_at: u64, shown: Shown<'_>) -> Result<(), Breach> {
        let Some(login) = self.login(key) else { return Ok(()) };
        let has_ended = |kill: &&Kill| {
            let done = kill.answered.as_ref().is_some_and(|(at, code, _)| *code == 0 && *at <= sent_at);
            kill.victim == login.id && !kill.query_only && done && kill.sent >= login.given
        };
        match self.kills.iter().find(has_ended) {
            None => Ok(()),
            Some(kill) => {
                let kill = Box::new(kill.clone());
                Err(Breach::Served { key, kill, shown: shown.to_string(), sent_at })
            }
        }
    }
}

/// What must not become of a client.
#[derive(Clone, Debug)]
pub enum Breach {
    /// A statement was interrupted, which nobody had asked for who may.
    Interrupted {
        /// The client.
        key: ClientKey,
        /// The client's id.
        id: u32,
        /// The statement, as it is shown.
        shown: String,
        /// When it was sent, in microseconds.
        sent_at: u64,
        /// The latest KILL that has named the client.
        latest: Option<Box<Kill>>,
    },
    /// A client was closed as one that was killed, which nobody had asked for who may.
    Closed {
        /// The Onramp that has closed it.
        program: usize,
        /// The client's id.
        id: u32,
    },
    /// A client was killed, and a statement that it sent later is answered.
    Served {
        /// The client.
        key: ClientKey,
        /// The KILL that has ended it.
        kill: Box<Kill>,
        /// The statement, as it is shown.
        shown: String,
        /// When it was sent, in microseconds.
        sent_at: u64,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted { key, id, shown, sent_at, latest } => write!(
                f,
                "client {key} with the id {id} was interrupted in {shown}, sent at {sent_at} us, and nobody had asked for that who may; \
                 the latest that has named it: {latest:?}"
            ),
            Self::Closed { program, id } => write!(
                f,
                "Onramp {program} has killed its client {id}, and nobody had asked for that who may"
            ),
            Self::Served { key, kill, shown, sent_at } => write!(
                f,
                "client {key} was killed by {kill:?}, and {shown}, sent at {sent_at} us, is answered"
            ),
        }
    }
}

impl std::error::Error for Breach {}

/// The id that a KILL names, and whether it is one of a statement.
fn parse(payload: &[u8]) -> Option<(u32, bool)> {
    let (&kind, body) = payload.split_first()?;
    if kind == command::PROCESS_KILL {
        return Some((u32::from_le_bytes(body.get(..4)?.try_into().ok()?), false));
    }
    let text = std::str::from_utf8(body).ok()?.strip_prefix("KILL ")?;
    let (query_only, id) = text.strip_prefix("QUERY ").map_or((false, text), |id| (true, id));
    Some((id.split(' ').next()?.parse().ok()?, query_only))
}
