//! The choice of the server that a read goes to.

use std::time::Duration;

use seam::Instant;

use super::routing::NotSplit;
use super::settings::{ReadSettings, ReadSplit};
use super::view::Readable;
use super::weights::{Candidate, by_weight};
use super::{Reader, Readers};
use crate::accounts::Account;

/// The time that a read waits for a replica of Onramp's own zone alone, where one of another zone may have what the read has to see.
// A replica that keeps up has it within some milliseconds, since it is asked each millisecond meanwhile. One that does not is to cost a
// read no more than the way to a zone far away would.
pub(super) const HEAD_START: Duration = Duration::from_millis(10);

/// The place that a read goes to.
pub(super) enum Route {
    Reader(usize),
    Primary(NotSplit),
    /// Replicas could take it, and none has yet what it has to see.
    Wait,
}

/// A read that is to go somewhere.
pub(super) struct Asked<'a> {
    pub(super) now: Instant,
    /// The read has to see all that was written up to then.
    pub(super) needs: Instant,
    /// The time that the read has waited for a replica.
    pub(super) waited: Duration,
    pub(super) account: &'a Account,
    /// The place of the primary, where there is one.
    pub(super) primary: Option<usize>,
}

/// The servers of Onramp's own zone, or all others, as far as they may take a read.
struct Area {
    is_near: bool,
    /// True where a replica may take the read, now or later.
    has_replica: bool,
    /// The server of those that may take a read now that is likely to answer first, and after how long.
    best: Option<(Duration, usize)>,
    /// The least weight of these and of the primary, and the greatest.
    weights: Option<(u32, u32)>,
    /// The primary, where that is among them: its weight, and its place if that is known.
    primary: Option<(u32, Option<usize>)>,
}

impl Area {
    fn new(is_near: bool) -> Self {
        Self { is_near, has_replica: false, best: None, weights: None, primary: None }
    }

    fn takes_now(&self) -> bool {
        self.best.is_some() || self.primary.is_some()
    }

    fn offer(&mut self, expected: Duration, place: usize, weight: u32) {
        if self.best.is_none_or(|(least, _)| expected < least) {
            self.best = Some((expected, place));
        }
        self.weigh(weight);
    }

    fn weigh(&mut self, weight: u32) {
        let (least, most) = self.weights.unwrap_or((weight, weight));
        self.weights = Some((least.min(weight), most.max(weight)));
    }

    fn differs_in_weight(&self) -> bool {
        self.weights.is_some_and(|(least, most)| least < most)
    }
}

impl Readers {
    /// Chooses the place that a read goes to.
    pub(super) fn route(&self, asked: &Asked<'_>, settings: &ReadSettings) -> Route {
        let (mut near, mut far) = (Area::new(true), Area::new(false));
        for (place, reader) in self.all.iter().enumerate() {
            if !reader.may_take(asked, settings) {
                continue;
            }
            let area = if reader.stand.is_near { &mut near } else { &mut far };
            area.has_replica = true;
            if reader.freshness.has_all_until(asked.needs) {
                area.offer(reader.load.expected(asked.now), place, reader.stand.weight);
            }
        }
        let with_primary = self.add_primary(asked, settings, [&mut near, &mut far]);
        let waits = !with_primary && !settings.wait_limit.is_zero();
        if near.takes_now() {
            return self.choose(asked, settings, &near, || self.why_no_replica(asked, settings, &near, &far));
        }
        if near.has_replica && waits && asked.waited < HEAD_START.min(settings.wait_limit) {
            return Route::Wait;
        }
        if far.takes_now() {
            return self.choose(asked, settings, &far, || self.why_no_replica(asked, settings, &near, &far));
        }
        if waits && (near.has_replica || far.has_replica) {
            return Route::Wait;
        }
        Route::Primary(self.why_no_replica(asked, settings, &near, &far))
    }

    /// The reason why the primary takes a read that no replica of its area may take now.
    fn why_no_replica(
        &self,
        asked: &Asked<'_>,
        settings: &ReadSettings,
        near: &Area,
        far: &Area,
    ) -> NotSplit {
        let is_kept_free =
            |reader: &Reader| reader.is_readable(asked.now, settings.max_lag) == Readable::NoWeight;
        match (near.has_replica, far.has_replica) {
            (false, true) if near.primary.is_some() => NotSplit::OtherZone,
            (true, _) | (false, true) => NotSplit::Behind,
            (false, false) if self.all.iter().any(is_kept_free) => NotSplit::NoWeight,
            (false, false) => NotSplit::NoReplica,
        }
    }

    /// Has the primary take reads as replicas do, where it is to. True where it does.
    fn add_primary(&self, asked: &Asked<'_>, settings: &ReadSettings, [near, far]: [&mut Area; 2]) -> bool {
        let stand = asked.primary.and_then(|place| self.all.get(place)).map(|reader| &reader.stand);
        let weight = stand.map_or(1, |stand| stand.weight);
        let takes = settings.split == ReadSplit::All && weight > 0;
        if takes {
            // Where it is unknown, nothing is said of it.
            let is_near = stand.map_or(settings.zone.is_none(), |stand| stand.is_near);
            let area = if is_near { near } else { far };
            area.primary = Some((weight, asked.primary));
            area.weigh(weight);
        }
        takes
    }

    /// The server of an area in which one takes the read. `why` says why that is the primary where no replica does.
    fn choose(
        &self,
        asked: &Asked<'_>,
        settings: &ReadSettings,
        area: &Area,
        why: impl FnOnce() -> NotSplit,
    ) -> Route {
        let Some((expected, place)) = area.best else { return Route::Primary(why()) };
        if area.differs_in_weight() {
            let to = by_weight(asked.now, self.clock, &self.candidates(asked, settings, area)).flatten();
            return to.map_or(Route::Primary(NotSplit::Sooner), Route::Reader);
        }
        let is_sooner = area.primary.is_some() && self.primary.expected(asked.now) <= expected;
        if is_sooner { Route::Primary(NotSplit::Sooner) } else { Route::Reader(place) }
    }

    /// The servers of an area that take the read now, by their places; the primary without one.
    fn candidates<'a>(
        &'a self,
        asked: &'a Asked<'_>,
        settings: &'a ReadSettings,
        area: &'a Area,
    ) -> impl Iterator<Item = (Option<usize>, Candidate<'a>)> + Clone {
        let primary = area.primary.map(|(weight, place)| {
            let turns = place.and_then(|place| self.all.get(place)).map(|reader| reader.turns);
            (None, Candidate { weight, load: &self.primary, turns: turns.unwrap_or_default() })
        });
        let replicas = self.all.iter().enumerate().filter(|(_, reader)| {
            reader.stand.is_near == area.is_near
                && reader.freshness.has_all_until(asked.needs)
                && reader.may_take(asked, settings)
        });
        let candidate = |(place, reader): (usize, &'a Reader)| {
            let Reader { stand, load, turns, .. } = reader;
            (Some(place), Candidate { weight: stand.weight, load, turns: *turns })
        };
        replicas.map(candidate).chain(primary)
    }
}

impl Reader {
    /// True where a read may go to the server, or may as soon as the server has what the read is to see.
    fn may_take(&self, asked: &Asked<'_>, settings: &ReadSettings) -> bool {
        self.is_readable(asked.now, settings.max_lag) == Readable::Yes
            && self.engine.servers.primary().admits(asked.account)
    }
}
