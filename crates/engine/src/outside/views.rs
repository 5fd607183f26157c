//! What is counted and measured for those who look in from outside.

use std::collections::BTreeMap;

use crate::outside::event::Reports;
use crate::outside::limits_reached::LimitReached;
use crate::outside::measures::Measures;
use crate::outside::named::Limit;
use crate::outside::totals::Totals;
use crate::session::pin_counts::PinCounts;

/// All of it. Nothing here decides anything.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) reports: Reports,
    pub(crate) totals: Totals,
    pub(crate) measures: Measures,
    /// The limits that were reached.
    pub(crate) limits_reached: BTreeMap<Limit, LimitReached>,
    pub(crate) pin_counts: PinCounts,
}
