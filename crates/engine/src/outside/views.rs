//! Counts and measurements for people who look in from outside.

use std::collections::BTreeMap;

use seam::Instant;

use crate::outside::event::{Event, Reports};
use crate::outside::limits_reached::LimitReached;
use crate::outside::measures::Measures;
use crate::outside::named::Limit;
use crate::outside::refusals::Refusals;
use crate::outside::tallies::TalliesByName;
use crate::outside::totals::Totals;
use crate::session::pin_counts::PinCounts;

/// All of it. Nothing here decides anything.
#[derive(Default)]
pub(crate) struct Views {
    pub(super) reports: Reports,
    pub(crate) totals: Totals,
    pub(crate) measures: Measures,
    pub(crate) tallies: TalliesByName,
    /// The limits that were reached.
    pub(super) limits_reached: BTreeMap<Limit, LimitReached>,
    /// The refused parties.
    pub(crate) refusals: Refusals,
    pub(crate) pin_counts: PinCounts,
}

impl Views {
    /// The oldest event not yet reported.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.reports.events.pop_front()
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.totals.count(&event);
        self.measures.count(&event);
        self.refusals.count(&event);
        // Nobody reads along: the newest matter most.
        if self.reports.events.len() == 1024 {
            self.reports.events.pop_front();
        }
        self.reports.events.push_back(event);
    }

    /// Says that a limit was reached, unless it was said a moment ago.
    pub(crate) fn limit_reached(&mut self, now: Instant, option: Limit, limit: u64) {
        let reached = self.limits_reached.entry(option).or_insert_with(|| LimitReached::new(now, limit));
        if reached.note(now, limit) {
            self.event(Event::LimitReached { option, limit });
        }
    }
}
