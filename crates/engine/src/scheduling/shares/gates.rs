//! Gates stop a flow although its turn has come: limits, and users that have all their backends in use.
//!
//! Where a gate is open and flows stand there that need no room, one that may go through it is in the line, or is about to be put
//! there. The same holds for flows that need room. So nobody is forgotten: each event that opens a gate, and each flow that goes
//! or leaves the line, lets the next one through.

use seam::Instant;

use super::line::{Gate, Way};
use super::settings::SharesSettings;
use super::table::{Flow, Name, Shares, had_of};
use crate::workers::users::Usage;

impl Shares {
    /// The gate that stops a flow now, and how many statements may be under way there.
    pub(super) fn stops(&self, settings: &SharesSettings, flow: &Flow) -> Option<(Gate, u32)> {
        if self.holds_up(&flow.user) {
            return Some((Gate::Backends(flow.user.clone()), 0));
        }
        let workers = self.turn.workers.max(1);
        let mut limits = settings.limits_of(flow).map(|(gate, limit)| (gate, limit.div_ceil(workers)));
        limits.find(|(gate, most)| self.underway_at(gate) >= *most)
    }

    /// Says whether one more may go through a gate, as far as somebody stands there.
    pub(super) fn is_open(&self, gate: &Gate) -> bool {
        match gate {
            Gate::Backends(user) => !self.holds_up(user),
            Gate::User(_) | Gate::Schema(_) | Gate::Address(_) => {
                self.line.most_at(gate).is_none_or(|most| self.underway_at(gate) < most)
            }
        }
    }

    fn underway_at(&self, gate: &Gate) -> u32 {
        self.underway.get(gate).copied().unwrap_or(0)
    }

    /// A gate may be open now. Who is next there is seen when somebody is to go.
    fn open(&mut self, gate: Gate) {
        if self.line.most_at(&gate).is_some() && self.is_open(&gate) {
            self.opened.insert(gate);
        }
    }

    /// Puts the next ones of all gates that have been opened into the line.
    pub(super) fn let_through(&mut self) {
        while let Some(gate) = self.opened.pop_first() {
            if !self.is_open(&gate) {
                continue;
            }
            for way in Way::ALL {
                let (by, meters) = (self.line.by, &self.meters);
                if let Some(flow) = self.line.first_at(&gate, way, |name| had_of(by, meters, name)) {
                    self.stand(&flow, None);
                }
            }
        }
    }

    /// A flow has gone through its gates, or stands in the line no more.
    pub(super) fn open_gates_of(&mut self, flow: &Flow) {
        if !self.line.stops_nobody() {
            flow.gates().for_each(|gate| self.open(gate));
        }
    }

    /// Lines up a user's or schema's flows anew, since it has had more or less of the server than before.
    pub(super) fn line_up_all_of(&mut self, name: &Name, flow: &Flow) {
        let had = had_of(self.line.by, &self.meters, name);
        self.line.set_had(name, had);
        if !self.line.stops_nobody() {
            flow.gates().for_each(|gate| self.line.set_had_at(&gate, name, had));
        }
    }

    /// Counts one more statement of a flow that is under way.
    pub(super) fn count(&mut self, settings: &SharesSettings, flow: &Flow) -> Vec<Gate> {
        let counted: Vec<_> = settings.limits_of(flow).map(|(gate, _)| gate).collect();
        for gate in &counted {
            *self.underway.entry(gate.clone()).or_default() += 1;
        }
        counted
    }

    pub(super) fn count_off(&mut self, counted: &[Gate]) {
        for gate in counted {
            let underway = self.underway.get_mut(gate).expect("it was counted");
            *underway -= 1;
            if *underway == 0 {
                self.underway.remove(gate);
            }
            self.open(gate.clone());
        }
    }

    /// New work of a user waits from now on until it uses fewer backends.
    pub(super) fn hold_up(&mut self, user: &Name, usage: Usage, now: Instant) {
        let since = self.held_up.add(user, usage, now);
        self.ages.hold_up(user, Some(since));
    }

    /// The user waits for backends no more.
    pub(super) fn let_go_on(&mut self, user: &Name) {
        self.held_up.remove(user);
        self.ages.hold_up(user, None);
        self.open(Gate::Backends(user.clone()));
    }
}

impl Flow {
    /// The gates at which the flow may be stopped.
    fn gates(&self) -> impl Iterator<Item = Gate> {
        let user = [Gate::Backends(self.user.clone()), Gate::User(self.user.clone())];
        let schema = self.schema.iter().cloned().map(Gate::Schema);
        user.into_iter().chain(schema).chain(self.address.map(Gate::Address))
    }
}

impl SharesSettings {
    /// The limits that hold for a flow.
    fn limits_of(&self, flow: &Flow) -> impl Iterator<Item = (Gate, u32)> {
        let user = self.user_permits.of_bytes(&flow.user).map(|limit| (Gate::User(flow.user.clone()), limit));
        let schema = flow.schema.as_ref().and_then(|schema| {
            let limit = self.schema_permits.of_bytes(schema);
            limit.map(|limit| (Gate::Schema(schema.clone()), limit))
        });
        let address = flow.address.filter(|_| !self.address_permits.is_empty()).and_then(|address| {
            let limit = self.address_permits.of(&address.to_string());
            limit.map(|limit| (Gate::Address(address), limit))
        });
        [user, schema, address].into_iter().flatten()
    }
}
