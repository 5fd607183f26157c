//! All that decides which statement runs next.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::Instant;

use crate::backend::Backend;
use crate::backend::reserved_backends::Reserve;
use crate::backend::stall::Stalls;
use crate::client::Client;
use crate::client::delay::Delayed;
use crate::coalescing::Coalescer;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::learned::digests::Digests;
use crate::learned::history::History;
use crate::learned::limit::Served;
use crate::learned::long_permits::Pace;
use crate::outside::waits::{Holdups, Waits};
use crate::overload::{Abandoned, NewWork};
use crate::scheduler::{Grant, Scheduler};
use crate::settings::Settings;
use crate::shares::Shares;
use crate::workers::Workers;

/// Statements that wait, in the order of the places in which they do, and what has been learned of those that have run.
pub(crate) struct Scheduling {
    /// Statements that are not in a queue yet.
    pub(crate) delayed: VecDeque<Delayed>,
    pub(crate) shares: Shares,
    pub(crate) scheduler: Scheduler,
    /// KILLs that wait for a backend, and since when.
    pub(crate) urgent: Vec<(ClientRef, Instant)>,
    /// Since when statements have waited for a backend without a break.
    pub(crate) lacking_since: Option<Instant>,
    /// Statements that take longer than their like.
    pub(crate) stalls: Stalls,
    /// The kinds that stand where most backends are in use.
    pub(crate) reserve: Reserve,
    pub(crate) coalescer: Coalescer,
    pub(crate) new_work: NewWork,
    /// Statements whose clients have gone, and that are to be ended.
    pub(crate) abandoned: Vec<Abandoned>,
    /// Backends on which a statement is to be ended by KILL QUERY as soon as that hits nobody else.
    pub(crate) to_be_cancelled: Vec<BackendKey>,
    pub(crate) history: History,
    pub(crate) digests: Digests,
    /// What this turn has to say about limits that are to be found.
    pub(crate) served: Served,
    /// What statements have taken since the last long one ended.
    pub(crate) others_pace: Pace,
    pub(crate) waits: Waits,
    pub(crate) holdups: Holdups,
}

impl Scheduling {
    pub(crate) fn new(settings: &Settings, workers: Arc<Workers>, worker: usize) -> Self {
        Self {
            delayed: VecDeque::new(),
            shares: Shares::default(),
            scheduler: Scheduler::new(settings, workers, worker),
            urgent: Vec::new(),
            lacking_since: None,
            stalls: Stalls::default(),
            reserve: Reserve::default(),
            coalescer: Coalescer::default(),
            new_work: NewWork::default(),
            abandoned: Vec::new(),
            to_be_cancelled: Vec::new(),
            history: History::default(),
            digests: Digests::new(settings.digests_size),
            served: Served::default(),
            others_pace: Pace::default(),
            waits: Waits::default(),
            holdups: Holdups::default(),
        }
    }

    /// Takes a permit for a waiting statement, or tells the other workers that it waits for nothing else. Said first and
    /// tried again then: whoever gives a permit back in between looks at who wants one.
    pub(crate) fn take_permit_or_want_it(&mut self, key: ClientKey) -> Option<Grant> {
        self.scheduler.take_permit(key).or_else(|| {
            self.scheduler.want(Some(key));
            self.scheduler.take_permit(key)
        })
    }

    /// What of its permit a client's statement leaves to others.
    pub(crate) fn spared_by(&self, settings: &Settings, client: &Client, grant: Grant) -> u32 {
        match (&client.request, grant) {
            (Some(request), Grant::Permit) => self.spared_by_kind(settings, request.statement.fingerprint),
            _ => 0,
        }
    }

    /// What a statement of this kind leaves of its permit, because its kind mostly waits, in parts of [`crate::learned::waiting::WHOLE`].
    /// Nothing where the number of permits is given: that is one of statements.
    pub(crate) fn spared_by_kind(&self, settings: &Settings, fingerprint: u64) -> u32 {
        if !settings.finds_permits() {
            return 0;
        }
        self.digests.spares(fingerprint)
    }

    /// A backend that was opened for a statement of ours runs one before it goes to another worker. Otherwise workers that
    /// have less than one each would hand it round for ever.
    pub(crate) fn keeps_for_us(&self, backend: &Backend) -> bool {
        backend.opened.fresh && self.scheduler.in_need() > 0
    }
}
