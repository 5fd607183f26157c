//! Clients that keep `statement_memory` from all others: they have sent half a statement, or pieces of long data, and do not go on.
//!
//! What waits for its turn goes when its turn comes. What is not whole goes only when its client wants it, and a few clients that
//! want nothing could have everybody else's statements refused until `wait_timeout`. So where the memory is used up, those go that
//! hold most of it in this way.

use std::time::Duration;

use seam::Instant;

use super::{Client, Phase};
use crate::engine::Engine;
use crate::errors::MySqlError;

/// Said of a client that has to go.
pub(super) const MEMORY_USED_UP: &str =
    "statement_memory is used up, and it holds most of that with half a statement";

/// As many bytes as a statement of the usual size has, which nobody is closed for.
const USUAL: usize = 4 << 10;

/// Where nobody is left that could be closed, all clients are not gone through again before this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whoever has not said anything for so long goes first: it is hardly about to go on.
const QUIET: Duration = Duration::from_secs(1);

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Hoards {
    /// When nobody was found the last time.
    nobody_at: Option<Instant>,
    /// No fewer bytes than the warnings have that are kept for clients.
    pub(super) diagnostics: usize,
}

impl Client {
    /// Bytes that it holds until it goes on by itself.
    fn hoard(&self) -> usize {
        match self.phase {
            Phase::Idle => {
                self.counted + self.statements.as_ref().map_or(0, |statements| statements.long_data_bytes())
            }
            _ => 0,
        }
    }
}

impl Engine {
    /// Whether one more statement is too much, whoever has to go for it: there is no room where this says so. `key` may have gone.
    pub(crate) fn lacks_statement_memory(&mut self) -> bool {
        if !self.statement_memory_is_used_up() {
            return false;
        }
        self.limit_reached("statement_memory", self.settings.statement_memory as u64);
        self.close_hoarders(true);
        self.statement_memory_is_used_up()
    }

    /// Now and then: other workers' clients cannot be closed from where they are missed.
    pub(crate) fn sweep_hoards(&mut self) {
        if self.statement_memory_held() > self.settings.statement_memory / 8 * 7 {
            self.close_hoarders(false);
        }
    }

    /// Closes those that hold most, until a quarter is free: first those that have been quiet for a while, then the others, or not.
    fn close_hoarders(&mut self, others_too: bool) {
        if self.hoards.nobody_at.is_some_and(|at| self.now.since(at) < LOOK_AGAIN) {
            return;
        }
        let hoard = |(key, client): (usize, &Client)| {
            let hoard = Some(client.hoard()).filter(|&hoard| hoard > USUAL)?;
            let is_quiet = self.now.since(client.last_heard) >= QUIET;
            (is_quiet || others_too).then_some((is_quiet, hoard, key))
        };
        let mut hoarders: Vec<_> = self.clients.iter().filter_map(hoard).collect();
        hoarders.sort_unstable();
        let limit = self.settings.statement_memory;
        while self.statement_memory_held() > limit / 4 * 3 {
            let Some((.., key)) = hoarders.pop() else {
                // Those that are still heard of can be closed as soon as they are missed.
                self.hoards.nobody_at = others_too.then_some(self.now);
                return;
            };
            self.answer_error(key, 1, &MySqlError::statement_memory(limit));
            self.close_client(key, MEMORY_USED_UP);
        }
    }
}

#[cfg(test)]
mod tests;
