//! The pool's verdict on a kind of statements, by how it has been lately: the ground on which it decides about the next one.

use std::ops::BitOrAssign;

use seam::Instant;

use crate::scheduling::Scheduling;
use crate::server::Server;
use crate::servers::Servers;
use crate::settings::{Settings, ThreadHandling};

/// The pool's verdict on a kind of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenFor(u8);

impl TakenFor {
    /// Short, with small answers and without diagnostics: reads of it may follow others on a backend.
    const SHORT: Self = Self(1);
    /// The kind takes `long_statement_time` or more: it waits for one of the long statements' permits.
    const LONG: Self = Self(1 << 1);
    /// The kind waits for locks, in some schema: few of it are in work at a time.
    const CONTENDED: Self = Self(1 << 2);
    /// A statement of the kind was stuck while others waited behind it: the kind shares a backend with its like alone.
    const STUCK: Self = Self(1 << 3);
    /// A statement of the kind takes as long whatever runs beside it: it counts for a part of a permit.
    const WAITING: Self = Self(1 << 4);

    const NAMES: [(Self, &'static str); 5] = [
        (Self::SHORT, "short"),
        (Self::LONG, "long"),
        (Self::CONTENDED, "contended"),
        (Self::STUCK, "stuck"),
        (Self::WAITING, "waiting"),
    ];

    /// The names of all verdicts that hold for the kind.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(one, _)| self.0 & one.0 != 0).map(|(_, name)| name)
    }
}

impl BitOrAssign for TakenFor {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Scheduling {
    /// Returns this worker's verdict on a kind.
    pub(super) fn taken_for(
        &self,
        now: Instant,
        settings: &Settings,
        servers: &Servers,
        fingerprint: u64,
    ) -> TakenFor {
        let pools = self.scheduler.is_native() && settings.thread_handling == ThreadHandling::PoolOfThreads;
        let is_contended = |server: &Server| server.contention.has_in_some_schema(fingerprint, now);
        let contended = pools && servers.iter().any(is_contended);
        let found = [
            (self.history.is_harmless(fingerprint), TakenFor::SHORT),
            (pools && self.is_long_kind(settings, fingerprint), TakenFor::LONG),
            (contended, TakenFor::CONTENDED),
            (self.digests.may_be_stuck(now, fingerprint), TakenFor::STUCK),
            (self.spared_by_kind(settings, fingerprint) > 0, TakenFor::WAITING),
        ];
        let mut taken = TakenFor::default();
        found.into_iter().filter(|&(is_so, _)| is_so).for_each(|(_, one)| taken |= one);
        taken
    }
}
