//! Clients that keep `statement_memory` from all others: they have sent half a statement, or pieces of long data, and do not go on.
//!
//! What waits for its turn goes when its turn comes. What is not whole goes only when its client wants it, and a few clients that
//! want nothing could have everybody else's statements refused until `wait_timeout`. So where the memory is used up, those go that
//! hold most of it in this way.

use std::cmp::Reverse;
use std::time::Duration;

use super::attempt::Login;
use super::bytes_held::LOOK_AGAIN;
use super::session_memory::{MOST_OF_ONE, ONES_SHARE, USED_UP as SESSION_MEMORY_USED_UP};
use super::{Client, Phase};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::outside::named::{ClosedFor, Limit};

/// Said of a client that has to go.
pub(super) const MEMORY_USED_UP: &str =
    "statement_memory is used up, and it holds most of that with half a statement";

/// Said of one that has not logged in.
pub(super) const LOGIN_MEMORY_USED_UP: &str =
    "login_memory is used up, and it holds most of that without having logged in";

/// Whoever logs in keeps no more than this: a request has some hundred bytes, and comes in one piece.
const USUAL_LOGIN: usize = 2 << 10;

/// As many bytes as a statement of the usual size has, which nobody is closed for.
const USUAL: usize = 4 << 10;

/// Whoever has not said anything for so long goes first: it is hardly about to go on.
const QUIET: Duration = Duration::from_secs(1);

impl Client {
    /// All that it has of [`super::bytes_held::ClientMemory::statements`].
    pub(crate) fn counted_statements(&self) -> usize {
        let reading = if let Phase::Reading(reading) = self.phase() { reading.counted.bytes() } else { 0 };
        let lent = if let Phase::Lent(lent) = self.phase() { lent.counted().bytes() } else { 0 };
        self.memory.statements.bytes()
            + reading
            + lent
            + self.request.as_ref().map_or(0, |request| request.bytes.counted.bytes())
            + self.session.statements.as_ref().map_or(0, |statements| statements.long_data_bytes())
    }

    /// Bytes that it holds until it goes on by itself.
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

impl Engine {
    /// What has come of a client is with its owner, or gone.
    pub(super) fn count_off_input(&mut self, key: ClientKey) {
        let client = &mut self.clients[key];
        self.client_memory.statements.give_back(&mut client.memory.statements);
        self.client_memory.logins.give_back(&mut client.memory.login);
    }

    /// Ends logins where they hold too much together, until a quarter is free, so that all of them are gone through seldom: those that hold
    /// most, and of the usual ones those that began first. Who is quick is so the last to go.
    pub(super) fn keep_to_login_memory(&mut self) {
        let most = self.pool.login_memory(&self.settings);
        if self.client_memory.logins.bytes() <= most {
            return;
        }
        self.views.limit_reached(self.now, Limit::LoginMemory, self.settings.login_memory as u64);
        let holders = self.clients.iter().filter(|(_, client)| client.memory.login.bytes() > 0);
        let mut holders: Vec<_> = holders
            .map(|(key, client)| (client.memory.login.bytes().max(USUAL_LOGIN), Reverse(client.id), key))
            .collect();
        holders.sort_unstable();
        while self.client_memory.logins.bytes() > most / 4 * 3 {
            let Some((.., key)) = holders.pop() else { return };
            let error = MySqlError::login_memory(self.settings.login_memory);
            let client = &self.clients[key];
            match *client.phase() {
                Phase::AwaitingServer => self.io.send_early_error(client.connection, &error),
                Phase::Login(Login::StartingTls) => {}
                // The number that the packet has of which this is the beginning.
                _ => {
                    let next = client.input.get(wire::HEADER_LEN - 1).map_or(1, |last| last.wrapping_add(1));
                    self.answer_error(key, next, &error);
                }
            }
            self.close_client(key, ClosedFor::Memory, LOGIN_MEMORY_USED_UP);
        }
    }

    /// Ends clients where they hold too much together, until a quarter of this worker's share is free, so that all are gone through seldom;
    /// and those that hold too much alone. Who is in the middle of something has his turn behind it.
    pub(crate) fn keep_to_session_memory(&mut self) {
        for holder in std::mem::take(&mut self.client_memory.beyond_share) {
            let Some(client) = self.clients.find(holder) else { continue };
            if !matches!(client.phase(), Phase::Idle) {
                self.client_memory.beyond_share.push(holder);
            } else if client.memory.session.bytes() > MOST_OF_ONE {
                self.end_for_session(holder.key, ONES_SHARE);
            }
        }
        let most = self.settings.session_memory / self.pool.workers.count() as usize;
        if self.client_memory.session_memory_held(&self.sessions) <= most
            || !self.client_memory.may_look_for_sessions(self.now)
        {
            return;
        }
        // Nobody misses what the server can be asked once more, and it holds states that nobody has now.
        self.sessions.known_answers.clear(&mut self.sessions.states);
        if self.client_memory.session_memory_held(&self.sessions) <= most {
            return;
        }
        let mut holders = self.sessions.states.holders(&self.clients);
        while self.client_memory.session_memory_held(&self.sessions) > most / 4 * 3 {
            let Some((_, key)) = holders.pop() else { return };
            self.end_for_session(key, SESSION_MEMORY_USED_UP);
        }
    }

    fn end_for_session(&mut self, key: ClientKey, reason: &str) {
        let limit = self.settings.session_memory;
        let reached = (Limit::SessionMemory, limit as u64);
        self.views.note_refused(self.now, reached, &self.clients[key], &self.logins.identities);
        self.answer_error(key, 1, &MySqlError::session_memory(limit));
        self.close_client(key, ClosedFor::Memory, reason);
    }

    /// Whether one more statement is too much, whoever has to go for it: there is no room where this says so. `key` may have gone.
    pub(crate) fn lacks_statement_memory(&mut self) -> bool {
        if !self.statement_memory_is_used_up() {
            return false;
        }
        self.views.limit_reached(self.now, Limit::StatementMemory, self.settings.statement_memory as u64);
        self.close_holders_of_incomplete(true);
        self.statement_memory_is_used_up()
    }

    /// It is common to all workers; what others hold is known as of their last turn.
    pub(crate) fn statement_memory_is_used_up(&self) -> bool {
        self.statement_memory_held() > self.settings.statement_memory
    }

    pub(crate) fn statement_memory_held(&self) -> usize {
        self.client_memory.statements.bytes() + self.pool.workers.others_hold_bytes(self.pool.worker)
    }

    /// Now and then: other workers' clients cannot be closed from where they are missed.
    pub(crate) fn close_largest_holders(&mut self) {
        let limit = self.settings.statement_memory;
        if self.statement_memory_held() > limit / 8 * 7 && self.close_holders_of_incomplete(false) {
            self.views.limit_reached(self.now, Limit::StatementMemory, limit as u64);
        }
    }

    /// Closes those that hold most, until a quarter is free: first those that have been quiet for a while, then the others, or not.
    /// Whether there were any.
    fn close_holders_of_incomplete(&mut self, others_too: bool) -> bool {
        if self.client_memory.nobody_at.is_some_and(|at| self.now.since(at) < LOOK_AGAIN) {
            return false;
        }
        let mut closed = false;
        let incomplete = |(key, client): (ClientKey, &Client)| {
            let bytes = Some(client.incomplete_bytes()).filter(|&bytes| bytes > USUAL)?;
            let is_quiet = self.now.since(client.activity.last_heard) >= QUIET;
            (is_quiet || others_too).then_some((is_quiet, bytes, key))
        };
        let mut holders: Vec<_> = self.clients.iter().filter_map(incomplete).collect();
        holders.sort_unstable();
        let limit = self.settings.statement_memory;
        while self.statement_memory_held() > limit / 4 * 3 {
            let Some((.., key)) = holders.pop() else {
                // Those that are still heard of can be closed as soon as they are missed.
                self.client_memory.nobody_at = others_too.then_some(self.now);
                break;
            };
            closed = true;
            self.answer_error(key, 1, &MySqlError::statement_memory(limit));
            self.close_client(key, ClosedFor::Memory, MEMORY_USED_UP);
        }
        closed
    }
}

#[cfg(test)]
mod tests;
