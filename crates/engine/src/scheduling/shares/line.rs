//! The order in which flows have their turns.
//!
//! Flows that cannot go stand apart, so that nobody looks at them in each turn: those that wait for room with the scheduler, and those
//! that are stopped at a gate. Who is stopped is found out when its turn comes. As soon as the gate is open, one of those that stand
//! there goes back into the line, and as soon as that one has gone, or has left the line otherwise, the next one: where many stand at a
//! gate that lets one through, the others are not looked at.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::queue::{Arrival, RoomByClass};
use super::settings::FairShare;
use super::table::{Flow, Name};
use crate::scheduling::scheduler::lane::Class;
use crate::steps;

/// A place where new work waits even in its turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gate {
    /// The gate of a user that has to use fewer backends first.
    Backends(Name),
    /// The gate of a user that is at a limit.
    User(Name),
    Schema(Name),
    Address(IpAddr),
}

/// The other obstacle in a flow's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing.
    Free,
    /// The flow needs room with the scheduler, among those of its class.
    NeedsRoom(Class),
}

/// The stand of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    /// The gate that stops the flow; `None` where it may have its turn.
    pub(super) gate: Option<Gate>,
    pub(super) way: Way,
    /// The arrival of the flow's oldest statement.
    pub(super) arrival: Arrival,
}

/// A flow's place in the order of turns: first the user or schema that has had the least, then the flow with the oldest
/// statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Server time by weight.
    pub(super) had: u64,
    arrival: Arrival,
}

/// Some flows in the order of their turns.
#[derive(Default)]
struct Row {
    /// Users or schemas, by the first of their flows.
    names: BTreeMap<Place, Name>,
    flows: BTreeMap<Name, Named>,
}

/// The flows of a user or schema. They move together when what it has had is another number.
#[derive(Default)]
struct Named {
    had: u64,
    flows: BTreeMap<Arrival, Rc<Flow>>,
}

/// The flows that stand at a gate, by the other obstacle in their way.
struct Stopped {
    /// Statements that may be under way there.
    most: u32,
    rows: [Row; Way::ALL.len()],
}

/// All flows that have something parked.
#[derive(Default)]
pub(super) struct Line {
    /// Users or schemas: between these the time is shared out.
    pub(super) by: FairShare,
    rows: [Row; Way::ALL.len()],
    stopped: BTreeMap<Gate, Stopped>,
}

impl Way {
    pub(super) const ALL: [Self; 3] =
        [Self::Free, Self::NeedsRoom(Class::Short), Self::NeedsRoom(Class::Long)];

    /// The row for this way.
    fn row(self) -> usize {
        match self {
            Self::Free => 0,
            Self::NeedsRoom(Class::Short) => 1,
            Self::NeedsRoom(Class::Long) => 2,
        }
    }

    fn is_free(self, room: RoomByClass) -> bool {
        match self {
            Self::Free => true,
            Self::NeedsRoom(class) => room.is_for(class),
        }
    }
}

impl Line {
    /// An empty one.
    pub(super) fn by(by: FairShare) -> Self {
        Self { by, ..Self::default() }
    }

    /// Returns the user or schema that a flow's turn belongs to.
    pub(super) fn name_of(&self, flow: &Flow) -> Name {
        self.by.name_of(flow).unwrap_or_default()
    }

    /// A flow stands elsewhere, for the first time or for the last.
    pub(super) fn move_to(&mut self, flow: &Rc<Flow>, had: u64, from: Option<&Stand>, to: Option<&Stand>) {
        let name = self.name_of(flow);
        if from == to {
            to.into_iter().for_each(|stand| self.row(stand).set_had(&name, had));
            return;
        }
        if let Some(to) = to {
            self.row(to).change(&name, |named| {
                named.had = had;
                named.flows.insert(to.arrival, Rc::clone(flow));
            });
        }
        if let Some(from) = from {
            self.row(from).change(&name, |named| {
                named.flows.remove(&from.arrival);
            });
            if let Some(gate) = &from.gate
                && self.stopped[gate].rows.iter().all(|row| row.flows.is_empty())
            {
                self.stopped.remove(gate);
            }
        }
    }

    fn row(&mut self, stand: &Stand) -> &mut Row {
        let rows = match &stand.gate {
            None => &mut self.rows,
            Some(gate) => {
                let nobody = || Stopped { most: 0, rows: Default::default() };
                &mut self.stopped.entry(gate.clone()).or_insert_with(nobody).rows
            }
        };
        &mut rows[stand.way.row()]
    }

    /// Notes how much a user or schema has had. At gates this is seen when one of its flows may be let through.
    pub(super) fn set_had(&mut self, name: &Name, had: u64) {
        self.rows.iter_mut().for_each(|row| row.set_had(name, had));
    }

    /// The same for its flows at a gate.
    pub(super) fn set_had_at(&mut self, gate: &Gate, name: &Name, had: u64) {
        if let Some(stopped) = self.stopped.get_mut(gate) {
            stopped.rows.iter_mut().for_each(|row| row.set_had(name, had));
        }
    }

    /// Returns the flow that has its turn, where there is that room.
    pub(super) fn first(&self, room: RoomByClass) -> Option<(Place, &Rc<Flow>)> {
        let ways = Way::ALL.into_iter().filter(|way| way.is_free(room));
        let firsts = ways.filter_map(|way| self.rows[way.row()].first());
        firsts.min_by_key(|&(place, _)| place)
    }

    /// Some users or schemas that may be next, those that have had the least first.
    pub(super) fn next_names(&self, count: usize) -> impl Iterator<Item = &Name> {
        self.rows.iter().flat_map(move |row| row.names.values().take(count))
    }

    /// How many may be under way at a gate, where somebody stands there.
    pub(super) fn most_at(&self, gate: &Gate) -> Option<u32> {
        steps::add(usize::from(!self.stopped.is_empty()));
        self.stopped.get(gate).map(|stopped| stopped.most)
    }

    /// Sets the number of statements that may be under way at a gate where flows stand.
    pub(super) fn set_most_at(&mut self, gate: &Gate, most: u32) {
        if let Some(stopped) = self.stopped.get_mut(gate) {
            stopped.most = most;
        }
    }

    /// Says whether nobody is stopped.
    pub(super) fn stops_nobody(&self) -> bool {
        self.stopped.is_empty()
    }

    /// Returns the first flow in the order of turns among those that stand at a gate. `had` says how much users and schemas have
    /// had since they were stopped. One that was charged more than it has used elsewhere since then may have its turn a statement
    /// late: looking for it would cost more.
    pub(super) fn first_at(&mut self, gate: &Gate, way: Way, had: impl Fn(&Name) -> u64) -> Option<Rc<Flow>> {
        let row = &mut self.stopped.get_mut(gate)?.rows[way.row()];
        loop {
            let (place, name) = row.names.first_key_value()?;
            let (name, had) = (name.clone(), had(&name.clone()));
            if had <= place.had || row.names.len() == 1 {
                return row.first().map(|(_, flow)| Rc::clone(flow));
            }
            row.set_had(&name, had);
        }
    }
}

impl Row {
    fn first(&self) -> Option<(Place, &Rc<Flow>)> {
        steps::add(1);
        let (&place, name) = self.names.first_key_value()?;
        let (_, flow) = self.flows[name].flows.first_key_value()?;
        Some((place, flow))
    }

    fn set_had(&mut self, name: &Name, had: u64) {
        if self.flows.get(name).is_some_and(|named| named.had != had) {
            self.change(name, |named| named.had = had);
        }
    }

    fn change(&mut self, name: &Name, change: impl FnOnce(&mut Named)) {
        steps::add(1);
        let named = self.flows.entry(name.clone()).or_default();
        let before = named.place();
        change(named);
        let after = named.place();
        if named.flows.is_empty() {
            self.flows.remove(name);
        }
        if before != after {
            before.map(|place| self.names.remove(&place));
            after.map(|place| self.names.insert(place, name.clone()));
        }
    }
}

impl Named {
    fn place(&self) -> Option<Place> {
        let (&arrival, _) = self.flows.first_key_value()?;
        Some(Place { had: self.had, arrival })
    }
}
