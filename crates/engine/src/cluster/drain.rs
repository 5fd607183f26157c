//! Servers that an operator has taken out of the choice, for as long as this process runs: none of them is chosen until the operator puts it
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
    /// The server is drained from now on, or put back.
    pub drains: bool,
    /// Whoever orders it has all ready for a change of the primary: new transactions wait, and open ones have ended.
    pub is_planned: bool,
}

/// What an order to drain a server, or to put it back, has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// The server was drained, or was not, before.
    AlreadySo,
    /// The order holds, and the primary is the same as before.
    Done,
    /// Nothing has changed yet: another server would be the primary by it, so that it takes a change of the primary by plan.
    Moves {
        /// The places of both in the list of addresses.
        from: usize,
        /// See `from`.
        to: usize,
    },
}

/// Why a server is not drained, or not put back, and what to do.
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
    /// Put back, it would leave the servers without a primary.
    NoPrimary {
        /// The server that was to be put back.
        with: Address,
        /// In the words that the table `servers` has for it.
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

/// What orders have said of the address at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Ordered {
    /// Nothing.
    #[default]
    Nothing,
    /// It is drained, and with it the server there by whatever address.
    Drained,
    /// It was, and its name has come to lead elsewhere. By that name no server is used; what was drained is the one with this identity, where
    /// that was known, and not the one that is there now by its other addresses.
    Left(String),
}

/// What is drained.
#[derive(Debug, Default)]
pub(super) struct Drains {
    /// By the places of addresses.
    ordered: Vec<Ordered>,
    /// Since when nobody takes writes but what is drained.
    without_others: Option<Instant>,
}

impl Drains {
    pub(super) fn new(count: usize) -> Self {
        Self { ordered: vec![Ordered::Nothing; count], without_others: None }
    }

    /// When a drained server is used for want of others, should none come.
    pub(super) fn ends(&self, hold: Duration) -> Option<Instant> {
        self.without_others.map(|since| since + patience(hold))
    }
}

/// How long nobody else may take writes before a drained server is used. A failover is over by then as a rule; and what has waited since its
/// beginning still has as long again.
fn patience(hold: Duration) -> Duration {
    hold / 2
}

impl Cluster {
    /// Whether the server there is drained, by this address or by another one of the same server.
    pub(crate) fn is_drained(&self, place: usize) -> bool {
        self.drain_it(place, &self.drains.ordered).next().is_some()
    }

    /// The places by whose orders the server there is drained.
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

    /// The name of the address at a place leads elsewhere, where nobody has been asked yet.
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

    /// The orders without those by which the server there is drained.
    fn without(&self, place: usize) -> Vec<Ordered> {
        let mut ordered = self.drains.ordered.clone();
        self.drain_it(place, &self.drains.ordered).for_each(|other| ordered[other] = Ordered::Nothing);
        ordered
    }

    /// Takes a server out of the choice, or puts it back, unless that changes the primary, which is `present`, and nothing is ready for it.
    ///
    /// # Errors
    /// Why it may not be, and what to do.
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

    /// Whether a server is up that is not among these.
    fn remains(&self, drained: &[bool]) -> bool {
        self.standings
            .iter()
            .zip(drained)
            .any(|(server, drained)| !drained && server.state() == ServerState::Up)
    }

    /// Why the primary cannot be drained.
    fn nobody_instead(&self, place: usize, after: &[bool], addresses: &[Address]) -> NotDrained {
        let replica = self.standings.iter().zip(after).position(|(server, drained)| {
            !drained && server.state() == ServerState::Up && server.believed().role == ServerRole::Replica
        });
        let replica = replica.map(|replica| addresses[replica].clone());
        NotDrained::OnlyWriter { primary: addresses[place].clone(), replica }
    }

    /// The primary by how all of them stand, drained ones left out. Where nobody else takes writes for long, a drained one is drained no more:
    /// a drain is there to save clients from errors, and without any server each of them would get one.
    pub(super) fn choose_undrained(
        &mut self,
        now: Instant,
        hold: Duration,
        addresses: &[Address],
    ) -> Result<usize, NoPrimary> {
        let drained = self.drained(&self.drains.ordered);
        let found = choose(&self.standings, &drained, self.primary);
        let lacks_one = matches!(found, Err(NoPrimary::None | NoPrimary::Outside(_)));
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
