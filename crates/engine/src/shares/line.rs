//! In which order flows have their turns.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seam::Instant;

use super::table::Name;
use super::{FairShare, Flow};

/// Where a flow stands: first whose user or schema has had the least, then whose oldest statement came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Server time by weight.
    pub(super) had: u64,
    pub(super) since: Instant,
    pub(super) number: u64,
}

/// All flows that have something parked: whose turn it is is found without looking at each of them.
#[derive(Default)]
pub(super) struct Line {
    /// Between whom the time is shared out.
    pub(super) by: FairShare,
    places: BTreeSet<(Place, Rc<Flow>)>,
    /// The flows of each user or schema.
    names: BTreeMap<Name, BTreeSet<Rc<Flow>>>,
}

impl Line {
    /// An empty one.
    pub(super) fn by(by: FairShare) -> Self {
        Self { by, ..Self::default() }
    }

    /// A flow stands in another place, for the first time or for the last.
    pub(super) fn move_to(&mut self, flow: &Rc<Flow>, from: Option<Place>, to: Option<Place>) {
        if let Some(from) = from {
            self.places.remove(&(from, Rc::clone(flow)));
        }
        if let Some(to) = to {
            self.places.insert((to, Rc::clone(flow)));
        }
        let Some(name) = self.by.name_of(flow).filter(|_| from.is_some() != to.is_some()) else { return };
        if to.is_some() {
            self.names.entry(name.into()).or_default().insert(Rc::clone(flow));
        } else if let Some(flows) = self.names.get_mut(name) {
            flows.remove(flow);
            if flows.is_empty() {
                self.names.remove(name);
            }
        }
    }

    /// From the first on.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &Rc<Flow>)> {
        self.places.iter().map(|(place, flow)| (*place, flow))
    }

    /// Those of a user or schema.
    pub(super) fn flows_of(&self, name: &[u8]) -> Vec<Rc<Flow>> {
        self.names.get(name).into_iter().flatten().map(Rc::clone).collect()
    }
}
