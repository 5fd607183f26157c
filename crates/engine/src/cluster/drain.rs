//! Servers that an operator has taken out of the choice, for as long as this process runs. None of them is chosen until the operator puts it
//! back, or nobody else takes writes for too long.

use std::fmt;
use std::time::Duration;

use seam::{Address, Instant};

use super::Cluster;
use super::choice::{NoPrimary, choose};
use crate::outside::event::Event;
use crate::outside::named::{ServerRole, ServerState};

/// An order to drain a server, or to put it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOrder {
    /// The server's place in the list of addresses.
    pub place: usize,
    /// True where the server is drained from now on, false where it is put back.
    pub drains: bool,
    /// True where all is ready for a change of the primary: new transactions wait, and open ones have ended.
    pub is_planned: bool,
}

/// The outcome of an order to drain a server, or to put it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// The server was as ordered before.
    AlreadySo,
    /// The order holds, and the primary is the same as before.
    Done,
    /// Nothing has changed yet. Another server would be the primary by the order, so that it takes a planned change of the primary.
    Moves {
        /// The place of the present primary in the list of addresses.
        from: usize,
        /// The place of the next primary in the list of addresses.
        to: usize,
    },
}

/// The reason for which a server is not drained, or not put back, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDrained {
    /// Nobody else is left: this is the last server that is up and not drained.
    Last(Address),
    /// The server is the primary, and none of the others that are left takes writes.
    OnlyWriter {
        /// The primary.
        primary: Address,
        /// A server that could be the primary by SWITCHOVER.
        replica: Option<Address>,
    },
    /// The servers would have no primary with this one put back.
    NoPrimary {
        /// The server that was to be put back.
        with: Address,
        /// The reason in the words that the table `servers` has for it.
        reason: String,
    },
}

impl fmt::Display for NotDrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last(address) => write!(
                f,
                "{address} is the last server that is up and not drained: UNDRAIN another one first, or wait until one is up"
            ),
            Self::OnlyWriter { primary, replica } => {
                write!(
                    f,
                    "{primary} is the primary, and no other server that is not drained takes writes: "
                )?;
                match replica {
                    Some(replica) => write!(
                        f,
                        "SWITCHOVER TO '{replica}' makes another one the primary, and then this one can be drained"
                    ),
                    None => f.write_str("SELECT address, state, reason FROM servers says why not"),
                }
            }
            Self::NoPrimary { with, reason } => {
                write!(f, "with {with} there would be no primary: {reason}")
            }
        }
    }
}

impl std::error::Error for NotDrained {}

/// The orders about the address at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Ordered {
    /// No order.
    #[default]
    Nothing,
    /// The address is drained, and with it the server there by whatever address.
    Drained,
    /// The address is drained, and its name has come to lead elsewhere. No server is used by that name. The drained server is the one with this
    /// identity, where that was known. The server that is there now is not drained by its other addresses.
    Left(String),
}

/// The drained servers.
#[derive(Debug, Default)]
pub(super) struct Drains {
    /// Orders by the places of addresses.
    ordered: Vec<Ordered>,
    /// Time since which nobody takes writes but drained servers.
    without_others: Option<Instant>,
}

impl Drains {
    pub(super) fn new(count: usize) -> Self {
        Self { ordered: vec![Ordered::Nothing; count], without_others: None }
    }

    /// Returns the time at which a drained server is used for want of others, should none come.
    pub(super) fn ends(&self, hold: Duration) -> Option<Instant> {
        self.without_others.map(|since| since + patience(hold))
    }
}

/// Returns how long nobody else may take writes before a drained server is used. A failover is over by then as a rule. Statements that have
/// waited since its beginning still have as long again.
fn patience(hold: Duration) -> Duration {
    hold / 2
}

impl Cluster {
    /// Says whether the server there is drained, by this address or by another one of the same server.
    pub(crate) fn is_drained(&self, place: usize) -> bool {
        self.drain_it(place, &self.drains.ordered).next().is_some()
    }

    /// Returns the places with orders that drain the server there.
    fn drain_it<'a>(&'a self, place: usize, ordered: &'a [Ordered]) -> impl Iterator<Item = usize> + 'a {
        // Workers but the first know of no order, and of no server.
        let is =
            move |identity: &str| !identity.is_empty() && identity == self.standings[place].last_identity();
        let drains = move |&(other, ordered): &(usize, &Ordered)| match ordered {
            Ordered::Nothing => false,
            Ordered::Drained => self.is_same(place, other),
            Ordered::Left(identity) => place == other || is(identity),
        };
        ordered.iter().enumerate().filter(drains).map(|(other, _)| other)
    }

    /// Notes that the name of the address at a place leads elsewhere, where nobody has been asked yet.
    pub(super) fn begin_elsewhere(&mut self, now: Instant, place: usize, reason: &str) {
        let standing = &mut self.standings[place];
        let ordered = self.drains.ordered.get_mut(place);
        if let Some(ordered) = ordered.filter(|ordered| **ordered == Ordered::Drained) {
            *ordered = Ordered::Left(standing.last_identity().to_owned());
        }
        standing.begin_anew(now, reason);
    }

    pub(super) fn is_same(&self, place: usize, other: usize) -> bool {
        let identity = self.standings[place].last_identity();
        place == other || (!identity.is_empty() && identity == self.standings[other].last_identity())
    }

    fn drained(&self, ordered: &[Ordered]) -> Vec<bool> {
        let is_drained = |place| self.drain_it(place, ordered).next().is_some();
        (0..self.standings.len()).map(is_drained).collect()
    }

    /// Returns the orders without those that drain the server there.
    fn without(&self, place: usize) -> Vec<Ordered> {
        let mut ordered = self.drains.ordered.clone();
        self.drain_it(place, &self.drains.ordered).for_each(|other| ordered[other] = Ordered::Nothing);
        ordered
    }

    /// Takes a server out of the choice, or puts it back. Does neither where that changes the primary, which is `present`, and nothing is ready
    /// for it.
    ///
    /// # Errors
    /// The reason for which the order is refused, and what to do.
    pub(super) fn drain(
        &mut self,
        order: DrainOrder,
        present: Option<usize>,
        addresses: &[Address],
    ) -> Result<DrainOutcome, NotDrained> {
        let DrainOrder { place, drains, is_planned } = order;
        if self.is_drained(place) == drains {
            return Ok(DrainOutcome::AlreadySo);
        }
        let mut ordered = self.without(place);
        if drains {
            ordered[place] = Ordered::Drained;
        }
        let after = self.drained(&ordered);
        let address = &addresses[place];
        if drains && !self.remains(&after) {
            return Err(NotDrained::Last(address.clone()));
        }
        if let Some(from) = present.filter(|_| !is_planned) {
            match choose(&self.standings, &after, self.primary) {
                Ok(to) if self.is_same(from, to) => {}
                Ok(to) => return Ok(DrainOutcome::Moves { from, to }),
                Err(_) if drains => return Err(self.nobody_instead(place, &after, addresses)),
                Err(why) => {
                    let reason = self.say(&why, addresses);
                    return Err(NotDrained::NoPrimary { with: address.clone(), reason });
                }
            }
        }
        self.drains.ordered = ordered;
        self.told.push(Event::DrainChanged { address: address.clone(), is_drained: drains });
        Ok(DrainOutcome::Done)
    }

    /// Says whether a server is up that is not among these.
    fn remains(&self, drained: &[bool]) -> bool {
        self.standings
            .iter()
            .zip(drained)
            .any(|(server, drained)| !drained && server.state() == ServerState::Up)
    }

    /// Returns the reason for which the primary cannot be drained.
    fn nobody_instead(&self, place: usize, after: &[bool], addresses: &[Address]) -> NotDrained {
        let replica = self.standings.iter().zip(after).position(|(server, drained)| {
            !drained && server.state() == ServerState::Up && server.believed().role == ServerRole::Replica
        });
        let replica = replica.map(|replica| addresses[replica].clone());
        NotDrained::OnlyWriter { primary: addresses[place].clone(), replica }
    }

    /// Says whether several servers take writes, as the choice sees it. The former primary counts, though it may be drained for this.
    pub(super) fn several_take_writes(&self) -> bool {
        let mut drained = self.drained(&self.drains.ordered);
        if let Some(former) = self.primary {
            drained[former] = false;
        }
        matches!(choose(&self.standings, &drained, self.primary), Err(NoPrimary::Several(_)))
    }

    /// Chooses the primary by all standings, drained servers left out. Where nobody else takes writes for long, a drained server is drained no
    /// more: a drain is there to save clients from errors, and without any server each of them would get one.
    pub(super) fn choose_undrained(
        &mut self,
        now: Instant,
        hold: Duration,
        addresses: &[Address],
    ) -> Result<usize, NoPrimary> {
        let drained = self.drained(&self.drains.ordered);
        let found = choose(&self.standings, &drained, self.primary);
        let lacks_one = matches!(found, Err(NoPrimary::None | NoPrimary::Outside(_) | NoPrimary::LeftOut(_)));
        if !lacks_one || !drained.contains(&true) {
            self.drains.without_others = None;
            return found;
        }
        let place = choose(&self.standings, &vec![false; drained.len()], self.primary).inspect_err(|_| {
            self.drains.without_others = None;
        })?;
        let since = *self.drains.without_others.get_or_insert(now);
        if now.since(since) < patience(hold) {
            return Err(NoPrimary::Drained(place));
        }
        self.drains.without_others = None;
        self.drains.ordered = self.without(place);
        self.told.push(Event::DrainEnded { address: addresses[place].clone() });
        Ok(place)
    }
}

#[cfg(test)]
#[path = "drain/tests.rs"]
mod tests;
