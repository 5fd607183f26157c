//! Clients that keep `statement_memory` from all others: they have sent half a statement, or pieces of long data, and do not go on.
//!
//! A statement that waits for its turn goes when its turn comes. A statement that is not whole goes only when its client wants it.
//! A few clients that want nothing could have the statements of all others refused until `wait_timeout`. So where the memory is
//! used up, the clients are closed that hold most of it in this way.

use std::cmp::Reverse;
use std::time::Duration;

use seam::Instant;

use crate::client::memory::bytes_held::{ClientMemory, LOOK_AGAIN};
use crate::client::memory::session_memory::MOST_OF_ONE;
use crate::client::{Client, Phase};
use crate::ids::{ClientKey, Table};
use crate::pool::Pool;
use crate::request::Request;
use crate::session::SessionTables;

/// The reason that the log gives for a client that has to go.
pub(in crate::client) const MEMORY_USED_UP: &str =
    "statement_memory is used up, and it holds most of that with half a statement";

/// The reason that the log gives for a client that has to go before it has logged in.
pub(in crate::client) const LOGIN_MEMORY_USED_UP: &str =
    "login_memory is used up, and it holds most of that without having logged in";

/// Bytes that a login usually does not exceed: a request has some hundred bytes, and comes in one piece.
const USUAL_LOGIN: usize = 2 << 10;

/// Bytes of a statement of the usual size. Nobody is closed for so few.
const USUAL: usize = 4 << 10;

/// The time after which a silent client goes before others: it is hardly about to go on.
const QUIET: Duration = Duration::from_secs(1);

impl Client {
    /// Returns all bytes that the client has of [`crate::client::memory::bytes_held::ClientMemory::statements`].
    pub(crate) fn counted_statements(&self) -> usize {
        let reading = if let Phase::Reading(reading) = self.phase() { reading.counted.bytes() } else { 0 };
        let lent = if let Phase::Lent(lent) = self.phase() { lent.counted().bytes() } else { 0 };
        self.memory.statements.bytes()
            + reading
            + lent
            + self.request.as_ref().map_or(0, |request| request.bytes.counted.bytes())
            + self.session.statements.as_ref().map_or(0, |statements| statements.long_data_bytes())
    }

    /// Returns the bytes that the client holds until it goes on by itself.
    fn incomplete_bytes(&self) -> usize {
        match *self.phase() {
            Phase::Idle => {
                self.memory.statements.bytes()
                    + self.session.statements.as_ref().map_or(0, |statements| statements.long_data_bytes())
            }
            _ => 0,
        }
    }
}

impl ClientMemory {
    /// Takes a client's input off the account. The input is with its owner, or gone.
    pub(in crate::client) fn count_off_input(&mut self, client: &mut Client) {
        self.statements.give_back(&mut client.memory.statements);
        self.logins.give_back(&mut client.memory.login);
    }

    /// Lifts a client's request out, with its bytes taken off the account. Where it goes on, [`Self::put_request_back`] is next.
    pub(crate) fn lift_request(&mut self, client: &mut Client) -> Option<Box<Request>> {
        let mut request = client.request.take()?;
        self.statements.give_back(&mut request.bytes.counted);
        Some(request)
    }

    /// Puts back a request that was lifted, and counts its bytes, which may have become others.
    pub(crate) fn put_request_back(&mut self, client: &mut Client, mut request: Box<Request>) {
        debug_assert!(client.request.is_none(), "a client has one request");
        let bytes = request.bytes();
        self.statements.set(&mut request.bytes.counted, bytes);
        client.request = Some(request);
    }

    /// Returns the logins to be ended, in this order, until all hold three quarters of `most` together, so that all are gone through
    /// seldom. The largest go first and, of the usual ones, those that began first. A client that is quick is so the last to go.
    pub(in crate::client) fn logins_to_end(
        &self,
        clients: &Table<ClientKey, Client>,
        most: usize,
    ) -> Vec<ClientKey> {
        let holders = clients.iter().filter(|(_, client)| client.memory.login.bytes() > 0);
        let mut holders: Vec<_> = holders
            .map(|(key, client)| (client.memory.login.bytes().max(USUAL_LOGIN), Reverse(client.id), key))
            .collect();
        holders.sort_unstable();
        let mut held = self.logins.bytes();
        let mut to_end = Vec::new();
        while held > most / 4 * 3
            && let Some((.., key)) = holders.pop()
        {
            held -= clients[key].memory.login.bytes();
            to_end.push(key);
        }
        to_end
    }

    /// Returns the idle clients that hold more of `session_memory` than one may have. A client in the middle of
    /// something is looked at when it is idle.
    pub(in crate::client) fn beyond_ones_share(
        &mut self,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<ClientKey> {
        let mut beyond = Vec::new();
        self.beyond_share.retain(|&holder| {
            let Some(client) = clients.find(holder) else { return false };
            let is_idle = matches!(client.phase(), Phase::Idle);
            if is_idle && client.memory.session.bytes() > MOST_OF_ONE {
                beyond.push(holder.key);
            }
            !is_idle
        });
        beyond
    }

    /// Says whether clients hold more than `most` of `session_memory`, and nothing but the end of some of them helps.
    pub(in crate::client) fn lacks_session_memory(
        &mut self,
        now: Instant,
        sessions: &mut SessionTables,
        most: usize,
    ) -> bool {
        if self.session_memory_held(sessions) <= most || !self.may_look_for_sessions(now) {
            return false;
        }
        // Nobody misses what the server can be asked once more, and it holds states that nobody has now.
        sessions.known_answers.clear(&mut sessions.states);
        self.session_memory_held(sessions) > most
    }

    /// Returns the bytes that count against `statement_memory`, of all workers. The bytes of others are known as of their last turn.
    pub(in crate::client) fn statement_memory_held(&self, pool: &Pool) -> usize {
        self.statements.bytes() + pool.workers.others_hold_bytes(pool.worker)
    }

    /// Returns the clients to be closed, in this order, until three quarters of `statement_memory` are held. Clients that have
    /// been quiet for a while go first, the largest holders before others. With `others_too` the rest follow, in the same order.
    pub(in crate::client) fn holders_to_close(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        (mut held, limit): (usize, usize),
        others_too: bool,
    ) -> Vec<ClientKey> {
        if self.nobody_at.is_some_and(|at| now.since(at) < LOOK_AGAIN) {
            return Vec::new();
        }
        let incomplete = |(key, client): (ClientKey, &Client)| {
            let bytes = Some(client.incomplete_bytes()).filter(|&bytes| bytes > USUAL)?;
            let is_quiet = now.since(client.activity.last_heard) >= QUIET;
            (is_quiet || others_too).then_some((is_quiet, bytes, key))
        };
        let mut holders: Vec<_> = clients.iter().filter_map(incomplete).collect();
        holders.sort_unstable();
        let mut to_close = Vec::new();
        while held > limit / 4 * 3 {
            let Some((_, bytes, key)) = holders.pop() else {
                // Those that are still heard of can be closed as soon as they are missed.
                self.nobody_at = others_too.then_some(now);
                break;
            };
            held -= bytes;
            to_close.push(key);
        }
        to_close
    }
}

#[cfg(test)]
mod tests;
