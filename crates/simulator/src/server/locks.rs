//! Named locks, and whose a session is: what Onramps in front of the same server ask of it to know of each other.

use std::collections::BTreeMap;

use super::database::Database;
use super::reply::Value;
use super::session::Session;
use super::{Phase, Server};
use crate::server::Link;

/// The names of locks that the program takes for itself begin with this.
pub const OF_PROGRAM: &str = "onramp.";

/// How a server's clock is shown: microseconds since 1970 at the beginning of a run.
pub const EPOCH: u64 = 1_769_860_800_000_000;

/// A server gives up a login that does not go on for so long: the default of `connect_timeout`.
const LOGIN_TIMEOUT: u64 = 10_000_000;

/// A named lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The session.
    pub holder: u32,
    /// It has taken it so many times more than given it back.
    pub depth: u32,
}

/// Named locks.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    held: BTreeMap<String, Lock>,
    /// Who held them as the statement at hand began, and of how many locks it has asked by then: a look takes time.
    earlier: Option<(BTreeMap<String, Lock>, usize)>,
    /// Those of the program that somebody has had since somebody looked last, with the session.
    pub former: Vec<(String, u32)>,
}

impl Locks {
    /// Takes it for this session. Waits for nobody: one that another session holds is refused at once. Who takes one of the program's
    /// several times has to give it back as often, as on a server; the oracles' clients do not count.
    pub fn take(&mut self, name: String, session: u32) -> bool {
        let counts = name.starts_with(OF_PROGRAM);
        let lock = self.held.entry(name).or_insert(Lock { holder: session, depth: 0 });
        let is_own = lock.holder == session;
        lock.depth += u32::from(is_own && (counts || lock.depth == 0));
        is_own
    }

    /// Gives it back, once. `None` where nobody holds it.
    pub fn release(&mut self, name: &str, session: u32) -> Option<bool> {
        let lock = self.held.get_mut(name)?;
        let is_own = lock.holder == session;
        lock.depth -= u32::from(is_own);
        if lock.depth == 0 {
            self.held.remove(name);
            self.has_had(name.to_owned(), session);
        }
        Some(is_own)
    }

    /// Who holds it now.
    pub fn holder(&self, name: &str) -> Option<u32> {
        self.held.get(name).map(|lock| lock.holder)
    }

    /// All that are held, by their names.
    pub fn held(&self) -> impl Iterator<Item = (&str, u32)> {
        self.held.iter().map(|(name, lock)| (name.as_str(), lock.holder))
    }

    /// A session has ended.
    pub fn end(&mut self, session: u32) {
        let (ended, held) =
            std::mem::take(&mut self.held).into_iter().partition(|(_, lock)| lock.holder == session);
        self.held = held;
        let ended: BTreeMap<String, Lock> = ended;
        ended.into_keys().for_each(|name| self.has_had(name, session));
    }

    fn has_had(&mut self, name: String, session: u32) {
        if name.starts_with(OF_PROGRAM) {
            self.former.push((name, session));
        }
    }

    /// Says whether it holds any.
    pub fn has_any(&self, session: u32) -> bool {
        self.held.values().any(|lock| lock.holder == session)
    }

    /// The server's process has died.
    pub fn clear(&mut self) {
        let held = std::mem::take(&mut self.held);
        held.into_iter().for_each(|(name, lock)| self.has_had(name, lock.holder));
    }

    /// As they are now, for a statement that begins.
    pub(super) fn now(&self) -> BTreeMap<String, Lock> {
        self.held.clone()
    }

    /// The statement at hand has asked of so many locks when they were like this.
    pub(super) fn begin_look(&mut self, earlier: Option<(BTreeMap<String, Lock>, usize)>) {
        self.earlier = earlier;
    }

    /// Who holds it, as the statement at hand sees it.
    fn seen(&mut self, name: &str) -> Option<u32> {
        match &mut self.earlier {
            Some((held, left)) if *left > 0 => {
                *left -= 1;
                held.get(name).map(|lock| lock.holder)
            }
            _ => self.holder(name),
        }
    }
}

/// The functions of named locks; `None` for any other.
pub(super) fn function(
    name: &str,
    session: &Session,
    database: &mut Database,
    argument: &Value,
) -> Option<Value> {
    let locks = &mut database.locks;
    let lock = argument.clone().unwrap_or_default();
    let shown = |is_so: bool| u8::from(is_so).to_string();
    Some(match name {
        "get_lock" => Some(shown(locks.take(lock, session.thread_id))),
        "release_lock" => locks.release(&lock, session.thread_id).map(shown),
        "is_used_lock" => locks.seen(&lock).map(|holder| holder.to_string()),
        "is_free_lock" => Some(shown(locks.seen(&lock).is_none())),
        _ => return None,
    })
}

/// The number behind the first of these locks that nobody else holds, which is taken.
pub(super) fn first_free(session: &Session, database: &mut Database, text: &str) -> Value {
    let locks = text.split("GET_LOCK('").skip(1);
    let mut named = locks.filter_map(|lock| lock.split_once("', 0) THEN "));
    let found = named.find(|(name, _)| database.locks.take((*name).to_owned(), session.thread_id));
    found.and_then(|(_, behind)| behind.split_whitespace().next()).map(str::to_owned)
}

/// The sessions of this list that are of the same user, as the list of threads shows them to one who may see no others.
pub(super) fn own_threads(session: &Session, database: &Database, text: &str) -> Vec<Vec<Value>> {
    let Some((_, list)) = text.split_once("WHERE ID IN (") else { return Vec::new() };
    let ids = list.trim_end_matches(')').split(", ").filter_map(|id| id.parse::<u32>().ok());
    let own = ids.filter(|id| database.users.get(id) == Some(&session.user));
    own.map(|id| [id.to_string(), session.user.clone(), format!("10.0.0.9:{id}")].map(Some).to_vec())
        .collect()
}

impl Server {
    /// Sessions that somebody who is no client of the program's has there directly: `user` holds this lock from now on.
    pub fn take_directly(&mut self, thread_id: u32, user: &str, lock: &str) -> bool {
        if !self.database.threads.contains(&thread_id) {
            self.database.threads.push(thread_id);
            self.database.users.insert(thread_id, user.to_owned());
        }
        self.database.locks.take(lock.to_owned(), thread_id)
    }

    /// That session ends.
    pub fn end_directly(&mut self, thread_id: u32) {
        self.database.threads.retain(|id| *id != thread_id);
        self.database.users.remove(&thread_id);
        self.database.locks.end(thread_id);
    }

    /// Closes connections that have been silent for longer than they may.
    pub fn close_silent(&mut self, clock: u64) {
        let silent: Vec<Link> = self
            .conversations
            .iter()
            .filter(|(_, it)| it.running.is_none() && it.commands.is_empty())
            .filter(|(_, it)| {
                let most = match &it.phase {
                    Phase::LoggingIn(_) | Phase::ChangingUser(..) => LOGIN_TIMEOUT,
                    Phase::Ready(session) | Phase::Loading { session, .. } => session
                        .variable("wait_timeout")
                        .parse::<u64>()
                        .unwrap_or(u64::MAX)
                        .saturating_mul(1_000_000),
                };
                clock.saturating_sub(it.heard) > most
            })
            .map(|(link, _)| *link)
            .collect();
        for link in silent {
            self.hang_up(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_the_program_are_given_back_as_often_as_they_were_taken() {
        let mut locks = Locks::default();
        for (name, kept) in [("onramp.slot.1", true), ("lock_1_0", false)] {
            assert!(locks.take(name.to_owned(), 7) && locks.take(name.to_owned(), 7));
            assert!(!locks.take(name.to_owned(), 8));
            assert_eq!(locks.release(name, 8), Some(false));
            assert_eq!(locks.release(name, 7), Some(true));
            assert_eq!(locks.holder(name).is_some(), kept, "{name}");
        }
        assert_eq!(locks.release("onramp.slot.1", 7), Some(true));
        assert_eq!(locks.release("onramp.slot.1", 7), None);
        assert!(!locks.has_any(7));
    }

    #[test]
    fn a_look_sees_some_locks_as_they_were() {
        let mut locks = Locks::default();
        locks.take("a".to_owned(), 7);
        let before = locks.now();
        locks.end(7);
        locks.begin_look(Some((before, 1)));
        assert_eq!([locks.seen("a"), locks.seen("a")], [Some(7), None]);
    }
}
