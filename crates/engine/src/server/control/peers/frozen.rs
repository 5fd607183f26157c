//! Knowledge of peers as plain data ([`crate::frozen`]), and back. The service account's connection stays, and with it its locks.

use seam::Instant;

use super::mail::FrozenMail;
use super::work::FrozenWork;
use super::{Holder, Obstacle, Peer, Peers};
use crate::frozen::Distance;

/// [`Peers`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenPeers {
    own: u64,
    slot: Option<u32>,
    former: Option<u32>,
    is_behind_other: bool,
    is_short_lived: bool,
    since: Distance,
    asked: Option<Distance>,
    refused: Option<Distance>,
    work: FrozenWork,
    /// The peers by their slots.
    peers: Vec<(u32, FrozenPeer)>,
    strangers: Vec<u64>,
    holders: Vec<Holder>,
    mail: FrozenMail,
    said: Vec<Obstacle>,
}

/// See [`Peer`].
#[derive(Debug, PartialEq)]
struct FrozenPeer {
    connection: u64,
    is_confirmed: bool,
    host: String,
    since: Distance,
    at_work: bool,
    saturated: bool,
    missed: u32,
}

plain!(struct FrozenPeers {
    own, slot, former, is_behind_other, is_short_lived, since, asked, refused, work, peers, strangers, holders, mail,
    said,
});
plain!(struct FrozenPeer { connection, is_confirmed, host, since, at_work, saturated, missed });
plain!(struct Holder { slot, connection, at_work, saturated });
plain!(enum Obstacle { 0 => Refused, 1 => Strangers, 2 => NoSlot, 3 => AtWorkTaken, 4 => BehindOther });

impl Peers {
    /// Says whether nothing is on its way to a peer, or from one.
    pub(crate) fn rest(&self) -> bool {
        self.mail.rests()
    }

    /// Takes all of it out, where they [rest](Self::rest).
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenPeers {
        let Self {
            own,
            slot,
            former,
            is_behind_other,
            is_short_lived,
            since,
            asked,
            refused,
            work,
            peers,
            strangers,
            holders,
            mail,
            said,
        } = self;
        let distance = |at| Distance::of(at, now);
        FrozenPeers {
            own: std::mem::take(own),
            slot: slot.take(),
            former: former.take(),
            is_behind_other: std::mem::take(is_behind_other),
            is_short_lived: std::mem::take(is_short_lived),
            since: distance(std::mem::take(since)),
            asked: asked.take().map(distance),
            refused: refused.take().map(distance),
            work: std::mem::take(work).freeze(now),
            peers: std::mem::take(peers).into_iter().map(|(slot, peer)| (slot, peer.freeze(now))).collect(),
            strangers: std::mem::take(strangers).into_iter().collect(),
            holders: std::mem::take(holders),
            mail: mail.freeze(now),
            said: std::mem::take(said).into_iter().collect(),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenPeers, now: Instant) {
        let FrozenPeers {
            own,
            slot,
            former,
            is_behind_other,
            is_short_lived,
            since,
            asked,
            refused,
            work,
            peers,
            strangers,
            holders,
            mail,
            said,
        } = frozen;
        let instant = |at: Distance| at.from(now);
        self.own = own;
        self.slot = slot;
        self.former = former;
        self.is_behind_other = is_behind_other;
        self.is_short_lived = is_short_lived;
        self.since = instant(since);
        self.asked = asked.map(instant);
        self.refused = refused.map(instant);
        self.work = work.thaw(now);
        self.peers = peers.into_iter().map(|(slot, peer)| (slot, peer.thaw(now))).collect();
        self.strangers = strangers.into_iter().collect();
        self.holders = holders;
        self.mail.thaw(mail, now);
        self.said = said.into_iter().collect();
    }
}

impl Peer {
    fn freeze(self, now: Instant) -> FrozenPeer {
        let Self { connection, is_confirmed, host, since, at_work, saturated, missed } = self;
        let since = Distance::of(since, now);
        FrozenPeer { connection, is_confirmed, host, since, at_work, saturated, missed }
    }
}

impl FrozenPeer {
    fn thaw(self, now: Instant) -> Peer {
        let Self { connection, is_confirmed, host, since, at_work, saturated, missed } = self;
        Peer { connection, is_confirmed, host, since: since.from(now), at_work, saturated, missed }
    }
}

#[cfg(test)]
mod tests;
