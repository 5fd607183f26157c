//! Knowledge of letters as plain data ([`crate::frozen`]), and back, while no letter is under way.

use seam::Instant;

use super::{Incoming, Look, Mail, Outgoing};
use crate::frozen::Distance;
use crate::workers::letter::ClientOwner;
use crate::workers::onramps::millis_of;

/// [`Mail`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenMail {
    /// The server's clock now, in milliseconds: at least and at most.
    clock: Option<(u64, u64)>,
    number: u32,
    /// The owner that had the latest turn at each peer, by the peer's connection.
    outgoing: Vec<(u64, Option<ClientOwner>)>,
    incoming: Vec<(u64, Incoming)>,
    looked: Option<Distance>,
    looks: Vec<Look>,
    lively_until: Option<Distance>,
    refused: Option<Distance>,
}

plain!(struct FrozenMail { clock, number, outgoing, incoming, looked, looks, lively_until, refused });
plain!(struct Incoming { latest, is_there, was_there, verdict, answered });
plain!(enum Look { 0 => Letter(connection), 1 => Answer { connection, number, verdict } });

impl Mail {
    /// Says whether nothing is on its way to anybody, or from anybody.
    pub(crate) fn rests(&self) -> bool {
        self.deliveries.is_empty()
            && self.outgoing.values().all(Outgoing::rests)
            && self.incoming.values().all(Incoming::rests)
    }

    /// Takes all of it out, where it [rests](Self::rests).
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenMail {
        let Self {
            key: _, // made of the service account's password by whoever thaws it
            clock,
            number,
            outgoing,
            incoming,
            looked,
            looks,
            lively_until,
            refused,
            deliveries: _, // none
        } = self;
        let of_now = |clock: u64| clock.wrapping_add(millis_of(now));
        let distance = |at| Distance::of(at, now);
        let turns = std::mem::take(outgoing).into_iter().map(|(connection, outgoing)| {
            let Outgoing { waiting: _, turn, sent: _ } = outgoing; // none
            (connection, turn)
        });
        FrozenMail {
            clock: clock.take().map(|(least, most)| (of_now(least), of_now(most))),
            number: std::mem::take(number),
            outgoing: turns.collect(),
            incoming: std::mem::take(incoming).into_iter().collect(),
            looked: looked.take().map(distance),
            looks: std::mem::take(looks),
            lively_until: lively_until.take().map(distance),
            refused: refused.take().map(distance),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenMail, now: Instant) {
        let FrozenMail { clock, number, outgoing, incoming, looked, looks, lively_until, refused } = frozen;
        let from_now = |clock: u64| clock.wrapping_sub(millis_of(now));
        let instant = |at: Distance| at.from(now);
        let turns = outgoing.into_iter();
        self.clock = clock.map(|(least, most)| (from_now(least), from_now(most)));
        self.number = number;
        self.outgoing = turns.map(|(to, turn)| (to, Outgoing { turn, ..Outgoing::default() })).collect();
        self.incoming = incoming.into_iter().collect();
        self.looked = looked.map(instant);
        self.looks = looks;
        self.lively_until = lively_until.map(instant);
        self.refused = refused.map(instant);
    }
}

impl Outgoing {
    fn rests(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_none()
    }
}

impl Incoming {
    /// True where the outcome of a letter has been told, and nothing is to be read.
    fn rests(&self) -> bool {
        !self.is_there && self.verdict.is_none() && self.answered.is_none()
    }
}
