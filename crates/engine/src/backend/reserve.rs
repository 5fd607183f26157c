//! Backends that are kept for kinds of statements that get on.
//!
//! A lock that many want (FLUSH TABLES WITH READ LOCK, LOCK TABLES) stops within milliseconds as many statements as there are
//! permits, before any of them has run for longer than its like and the server is asked what it waits for. Where there are about
//! as many permits as there may be backends, those would be all of them, and nothing else could run until the lock is given back.
//! So once most of a worker's share is in use, a kind takes no more of it than half while it *stands*: while none of it has
//! ended since the oldest one that runs began, or for as long as it usually takes. What stands waits in the lane of contended kinds ([`super::contended`]), but needs
//! permits as others do: it may be slow rather than wait.
//!
//! Where a lock comes while many statements of a kind are on their way to the disk, these still end one after the other, and hide that
//! the next ones wait. So the very last backends are for kinds of which none is known to wait.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use super::contended::{KindInSchema, holds};
use super::{Backend, InFlight};
use crate::engine::Engine;
use crate::ids::ClientKey;
use crate::request::Request;
use crate::settings::ThreadHandling;

/// One backend of so many is kept for kinds that get on. Those that stand may have half of them and half of the rest at once
/// before that is noticed.
const KEPT: u32 = 4;

/// One of so many, and one at least, is for kinds of which none is known to wait for a lock.
const LAST: u32 = 16;

/// How long a kind is taken to stand where nothing happens that says otherwise: long enough that its statements do not move to
/// and fro, short enough that nobody waits for long where a kind is slow and its turn has come.
const LONGEST: Duration = Duration::from_secs(1);

/// So many kinds are remembered, of which most backends run a few at a time. With more, all of them are forgotten: a kind may then be
/// taken to stand until the next one of it ends.
const KINDS: usize = 1024;

/// The record of kinds while many backends are in use.
#[derive(Default)]
pub(crate) struct Reserve {
    /// When the latest statement of each kind ended.
    ended: BTreeMap<KindInSchema, Instant>,
    /// Kinds that stand, and until when that is believed.
    standing: BTreeMap<KindInSchema, Instant>,
}

impl Reserve {
    /// Notes that a statement has ended. True where its kind was taken to stand.
    fn note_end(&mut self, now: Instant, fingerprint: u64, schema: Option<&[u8]>) -> bool {
        let mut of_text = self.ended.range_mut((fingerprint, None)..(fingerprint.saturating_add(1), None));
        if let Some((_, ended)) = of_text.find(|((_, of), _)| of.as_deref() == schema) {
            *ended = now;
        } else {
            if self.ended.len() >= KINDS {
                self.ended.clear();
            }
            self.ended.insert((fingerprint, schema.map(Into::into)), now);
        }
        let before = self.standing.len();
        self.standing.retain(|(of, in_schema), _| *of != fingerprint || in_schema.as_deref() != schema);
        self.standing.len() < before
    }

    /// Says whether no statement of a kind has ended since then.
    fn none_ended_since(&self, kind: &KindInSchema, since: Instant) -> bool {
        self.ended.get(kind).is_none_or(|&ended| ended < since)
    }

    /// Forgets all. True where something was taken to stand.
    fn clear(&mut self) -> bool {
        let stood = !self.standing.is_empty();
        *self = Self::default();
        stood
    }
}

impl Engine {
    /// A statement has ended on a backend.
    pub(crate) fn note_progress(&mut self, statement: &InFlight) {
        // What ends is noted from half of the reserve's mark on, so that it is known there who gets on.
        let mut reserve = std::mem::take(&mut self.scheduling.reserve);
        let released = if self.servers.backends_in_use() < self.reserve_mark() / 2 {
            (!reserve.ended.is_empty() || !reserve.standing.is_empty()) && reserve.clear()
        } else {
            let kind = self.kind_of(statement);
            kind.is_some_and(|(fingerprint, schema)| reserve.note_end(self.now, fingerprint, schema))
        };
        self.scheduling.reserve = reserve;
        if released {
            self.leave_contended_lanes();
        }
    }

    /// Says whether a client's request is of a kind that was found to stand.
    pub(crate) fn is_of_standing_kind(&self, key: ClientKey, request: &Request) -> bool {
        !self.scheduling.reserve.standing.is_empty()
            && holds(&self.scheduling.reserve.standing, request.fingerprint(), self.schema_of(key), self.now)
    }

    /// Says whether the statement on a backend is of such a kind.
    pub(crate) fn runs_standing_kind(&self, backend: &Backend) -> bool {
        !self.scheduling.reserve.standing.is_empty()
            && backend.in_flight.front().and_then(|statement| self.kind_of(statement)).is_some_and(
                |(fingerprint, schema)| {
                    holds(&self.scheduling.reserve.standing, fingerprint, schema, self.now)
                },
            )
    }

    /// Says whether a statement that needs a backend is of a kind that stands, which is remembered then.
    pub(crate) fn finds_kind_standing(&mut self, key: ClientKey) -> bool {
        let client = &self.clients[key];
        let fingerprint = client.request.as_ref().map_or(0, |request| request.fingerprint());
        if fingerprint == 0 || client.backend.is_some() || !self.is_reserve_reached() {
            return false;
        }
        let kind = (fingerprint, self.schema_of(key).map(Into::into));
        let alike = self.servers.backends().filter(|(_, backend)| {
            let running = backend.in_flight.front().and_then(|statement| self.kind_of(statement));
            running == Some((kind.0, kind.1.as_deref()))
        });
        let waits = alike.clone().any(|(_, backend)| backend.waits_for_lock);
        let oldest = alike.map(|(_, backend)| backend.first_since).min();
        // What began before the lock came may be older than the last that ended: then it takes as long as it usually takes.
        let stalled = self.scheduling.stalled_since(self.now, &self.settings, kind.0);
        let stands = (waits && self.only_last_backends_are_left())
            || oldest
                .is_some_and(|oldest| self.scheduling.reserve.none_ended_since(&kind, oldest.max(stalled)));
        if stands {
            let now = self.now;
            self.scheduling.reserve.standing.retain(|_, until| *until > now);
            self.scheduling.reserve.standing.insert(kind, now + LONGEST);
        }
        stands
    }

    /// When kinds that stand are looked at again, if any do.
    pub(crate) fn next_look_at_standing(&self) -> Option<Instant> {
        let waits = self.scheduling.scheduler.peek_contended(true).is_some();
        self.scheduling.reserve.standing.values().copied().filter(|&until| waits && until > self.now).min()
    }

    /// Says whether so many of the backends that this worker may have are in use that the rest is kept.
    pub(crate) fn is_reserve_reached(&self) -> bool {
        self.servers.backends_in_use() >= self.reserve_mark()
    }

    /// Says whether the last of the backends that this worker may have are for kinds of which none is known to wait for a lock.
    pub(crate) fn only_last_backends_are_left(&self) -> bool {
        let share = self.pool.workers.places.most() / self.pool.workers.count();
        self.is_reserve_reached() && self.servers.backends_in_use() >= share - (share / LAST).max(1)
    }

    /// From how many backends on the rest is kept.
    fn reserve_mark(&self) -> u32 {
        let pool = self.settings.thread_handling == ThreadHandling::PoolOfThreads;
        let share = self.pool.workers.places.most() / self.pool.workers.count();
        // With fewer there is nothing to keep.
        if pool && self.scheduling.scheduler.is_native() && share >= KEPT {
            share - share / KEPT
        } else {
            u32::MAX
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_until_one_of_it_ends() {
        let at = |millis: u64| Instant::from_micros(millis * 1000);
        let kind = |fingerprint| (fingerprint, Some(b"shop"[..].into()));
        let mut reserve = Reserve::default();
        assert!(reserve.none_ended_since(&kind(7), at(5)));
        reserve.standing.insert(kind(7), at(1000));
        let shop = Some(&b"shop"[..]);
        assert!(!reserve.note_end(at(6), 7, None), "in another schema");
        assert!(reserve.note_end(at(6), 7, shop) && !reserve.note_end(at(6), 7, shop), "once");
        assert!(!reserve.none_ended_since(&kind(7), at(5)) && reserve.none_ended_since(&kind(7), at(7)));
        assert!(reserve.none_ended_since(&kind(8), at(5)), "another one");
        assert!(!reserve.clear());
        assert!(reserve.none_ended_since(&kind(7), at(5)), "forgotten");
    }
}
