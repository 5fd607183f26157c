//! The range in which a limit is to be found, and how a server is divided among several Onramps.

use super::differences::Worth;

/// The range in which a limit is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least value of the limit, from 1.
    pub least: u32,
    /// The largest limit, which is at least `least`.
    pub most: u32,
    /// The limit to begin with, as far as these allow.
    pub start: u32,
    /// The gain that a higher limit has to bring.
    pub worth: Worth,
    /// The Onramps that the server is divided among. The other numbers are for this one.
    pub division: Division,
}

/// Among how many Onramps a server is divided, this one counted, so that both are from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Onramps that have had statements waiting lately.
    pub at_work: u32,
    /// Onramps with statements that wait much of the time now: they send as many as they may.
    pub saturated: u32,
}

impl Division {
    /// The division where there is no other Onramp, or none that counts.
    pub const NONE: Self = Self { at_work: 1, saturated: 1 };
}

impl Range {
    pub(super) fn clamp(self, limit: u32) -> u32 {
        let least = self.least.max(1);
        limit.clamp(least, self.most.max(least))
    }

    /// The number of statements of all Onramps together at the server, where this one has `limit`. Each of the others that send as many as
    /// they may is taken to have `usual`, as many as this one has. Where others have next to none, the server is this one's.
    pub(super) fn together(self, limit: u32, usual: u32) -> u32 {
        limit.saturating_add((self.division.saturated - 1).saturating_mul(usual))
    }

    /// The gain of the whole server, as a logarithm, with `other` instead of `best`, where this Onramp's own gain is `difference`. A busy
    /// server gives each Onramp a part by its part of all statements. An Onramp that sends more gets more, however little more the server
    /// does: by its own speed alone each would send ever more.
    pub(super) fn of_server(self, best: u32, other: u32, difference: f64) -> f64 {
        let part = |limit: u32| (f64::from(limit) / f64::from(self.together(limit, best))).ln();
        difference - (part(other) - part(best))
    }

    /// The part of a limit that is right where it is shared with so many, of one that was shared with `before`.
    pub(super) fn part_of(self, limit: u32, before: u32) -> u32 {
        let part = u64::from(limit) * u64::from(before);
        u32::try_from(part.div_ceil(self.division.at_work.into())).unwrap_or(u32::MAX)
    }
}
