//! Clients and backends that are turned into plain data and back in the middle of a run, as when one process hands them to the next. Nobody may notice:
//! a run goes as it goes without that, byte for byte.

use std::collections::BTreeMap;
use std::fmt;

use engine::NotFrozen;
use seam::Instant;

use crate::random::Random;
use crate::subject::Subject;

/// Makes this stream another one than those that decide a run.
const APART: u64 = 0xf4ee_2e00;

/// A run has at most 16 clients: with so many attempts each of one worker's has had its turn.
const ATTEMPTS: u64 = 16;

/// What is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A client.
    Client,
    /// A connection to a server, with the session there.
    Backend,
    /// What is known of servers and has been learned of statements, all of it at a time: where a service account waits for an answer, its
    /// connection stays as it is.
    Servers,
}

/// When whom to freeze, from a stream of numbers of its own: no other draw may shift.
#[derive(Debug)]
pub struct Freezing {
    random: Random,
    per_thousand: u64,
    pub(crate) counts: Frozen,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Clients that went on from plain data.
    pub clients: u64,
    /// Those of them whose statements waited in a queue.
    pub queued: u64,
    /// Backends that did.
    pub backends: u64,
    /// How often what is known of servers did, and has been learned of statements.
    pub servers: u64,
    /// And how often the service accounts' connections along with that.
    pub service_accounts: u64,
    /// What could not be frozen then, by reason.
    pub not: BTreeMap<NotFrozen, u64>,
}

impl Freezing {
    /// In so many of 1,000 turns.
    pub fn new(seed: u64, per_thousand: u64) -> Self {
        Self { random: Random::new(seed ^ APART), per_thousand, counts: Frozen::default() }
    }

    /// Between two turns of a program.
    pub fn between_turns(&mut self, now: Instant, program: &mut impl Subject) {
        if self.random.below(1_000) >= self.per_thousand {
            return;
        }
        let first = self.random.below(1 << 32);
        let what = match self.random.below(100) {
            0..60 => What::Client,
            60..90 => What::Backend,
            _ => What::Servers,
        };
        for choice in first..first + ATTEMPTS {
            let Some(outcome) = program.freeze(now, what, choice) else { continue };
            self.counts.count(what, outcome);
            if outcome.is_ok() || what == What::Servers {
                return;
            }
        }
    }
}

impl Frozen {
    fn count(&mut self, what: What, outcome: Result<bool, NotFrozen>) {
        self.queued += u64::from(outcome == Ok(true));
        let frozen = u64::from(outcome.is_ok());
        match what {
            What::Client => self.clients += frozen,
            What::Backend => self.backends += frozen,
            What::Servers => {
                self.servers += 1;
                self.service_accounts += frozen;
            }
        }
        if let Err(why) = outcome {
            *self.not.entry(why).or_default() += 1;
        }
    }

    /// This and that together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.clients += other.clients;
        self.queued += other.queued;
        self.backends += other.backends;
        self.servers += other.servers;
        self.service_accounts += other.service_accounts;
        for (why, times) in &other.not {
            *self.not.entry(*why).or_default() += times;
        }
        self
    }
}

impl fmt::Display for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "clients were frozen and thawed {} times ({} while statements waited), backends {}, what is known of servers {}, service accounts \
             along with it {}",
            self.clients, self.queued, self.backends, self.servers, self.service_accounts
        )?;
        let mut between = "; not where ";
        for (why, times) in &self.not {
            write!(f, "{between}{why} ({times} times)")?;
            between = ", ";
        }
        Ok(())
    }
}
