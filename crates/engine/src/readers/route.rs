//! Which server a read goes to.

use seam::Instant;

use super::view::NotSplit;
use super::{ReadSettings, ReadSplit, Readers};
use crate::accounts::Account;

/// Where a read goes.
pub(super) enum Route {
    Reader(usize),
    Primary(NotSplit),
    /// Replicas could take it, and none has yet what it has to see.
    Wait,
}

impl Readers {
    /// Where a read of this account goes that has to see what was written up to `needs`.
    pub(super) fn route(
        &self,
        now: Instant,
        needs: Instant,
        account: &Account,
        settings: &ReadSettings,
    ) -> Route {
        let usable = self.all.iter().enumerate();
        let usable = usable.filter(|(_, reader)| reader.is_usable(now, settings.max_lag));
        let (mut best, mut could_wait) = (None, false);
        for (place, reader) in usable.filter(|(_, reader)| reader.engine.admits(account)) {
            could_wait = true;
            if reader.freshness.has_all_until(needs) {
                let expected = reader.load.expected(now);
                if best.is_none_or(|(least, _)| expected < least) {
                    best = Some((expected, place));
                }
            }
        }
        let with_primary = settings.split == ReadSplit::All;
        match best {
            Some((expected, _)) if with_primary && self.primary.expected(now) <= expected => {
                Route::Primary(NotSplit::Sooner)
            }
            Some((_, place)) => Route::Reader(place),
            None if could_wait && !with_primary && !settings.wait_limit.is_zero() => Route::Wait,
            None if could_wait => Route::Primary(NotSplit::Behind),
            None => Route::Primary(NotSplit::NoReplica),
        }
    }
}
