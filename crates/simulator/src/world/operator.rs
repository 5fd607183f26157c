//! Operators who change the primary by way of the program: what SWITCHOVER and DRAIN do beside the workers, step by step.

use std::time::Duration;

use engine::{Behind, DrainOrder, DrainOutcome, NotDrained, ServerView, SwitchStep, compare_positions};

use super::World;
use super::cluster::Act;
use super::driver::Life;
use crate::subject::Subject;

/// So often somebody looks whether the next step may begin.
const LOOK: u64 = 20_000;

/// `switchover_wait` and `switchover_timeout`, of which a run has few.
const WAIT: u64 = 1_000_000;
const TIMEOUT: u64 = 2_000_000;

/// An operator whose order was refused gives it again after so long.
const UNDRAINED_AGAIN: u64 = 500_000;

/// A change of the primary under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The place of the program that does it.
    pub(super) program: usize,
    from: usize,
    to: usize,
    /// The order is a drain: nobody changes roles.
    drains: Option<DrainOrder>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Until what is open has ended, or this time.
    Ending(u64),
    /// Until the next primary has what the present one has; since when, and until when.
    Following(u64, u64),
    /// The operator's command runs until this time. It may change nothing.
    Running(u64, bool),
}

impl<P: Subject> World<P> {
    /// Whether clients that hold a backend of the former primary go on there.
    pub(super) fn transactions_go_on(&self, program: usize) -> bool {
        let Some(cluster) = &self.cluster else { return false };
        let order = cluster.order.filter(|order| order.program == program);
        cluster.gave_up.contains(&program)
            || order.is_some_and(|order| !matches!(order.stage, Stage::Running(..)))
    }

    /// An operator has a program change the primary.
    pub(super) fn order_switchover(&mut self) {
        let program = self.program_for_operator();
        let Some(from) = self.drivers[program].program.primary() else { return };
        let count = self.servers.len();
        let Some(cluster) = &mut self.cluster else { return };
        let to = cluster.random.index(count);
        if cluster.order.is_none() && to != from && from == cluster.named && self.is_reached(to) {
            self.note(format_args!("SWITCHOVER TO server {}", to + 1));
            self.begin(Order { program, from, to, drains: None, stage: Stage::Ending(self.now + WAIT) });
        }
    }

    /// An operator drains a server, and puts it back after a while.
    pub(super) fn order_drain(&mut self, place: usize) {
        let order = DrainOrder { place, drains: true, is_planned: false };
        let program = self.program_for_operator();
        match self.give_drain(program, order) {
            Some(Ok(DrainOutcome::Moves { from, to })) => {
                let stage = Stage::Ending(self.now + WAIT);
                self.begin(Order { program, from, to, drains: Some(order), stage });
            }
            Some(Ok(DrainOutcome::Done | DrainOutcome::AlreadySo)) => self.plan(3_000_000, Act::Undrain),
            Some(Err(_)) | None => {}
        }
    }

    fn give_drain(&mut self, program: usize, order: DrainOrder) -> Option<Result<DrainOutcome, NotDrained>> {
        let outcome = self.drivers[program].program.workers().first_mut()?.drain_server(order);
        self.note(format_args!("{order:?}: {outcome:?}"));
        self.wake_program(program, 0);
        outcome
    }

    pub(super) fn undrain(&mut self) {
        let mut refused = false;
        for program in self.programs_that_are_there() {
            for place in 0..self.servers.len() {
                let order = DrainOrder { place, drains: false, is_planned: false };
                refused |= matches!(self.give_drain(program, order), Some(Err(_)));
            }
        }
        // The program knows the servers as they were a moment ago.
        if let Some(cluster) = self.cluster.as_mut().filter(|_| self.calm && refused) {
            cluster.changed = self.now;
            self.plan(UNDRAINED_AGAIN, Act::Undrain);
        }
    }

    fn begin(&mut self, order: Order) {
        let lasts = Duration::from_micros(WAIT + 2 * TIMEOUT);
        self.switch(order.program, SwitchStep::Begin { to: order.to, lasts });
        if let Some(cluster) = &mut self.cluster {
            cluster.order = Some(order);
        }
        self.plan(LOOK, Act::Operate);
    }

    fn switch(&mut self, program: usize, step: SwitchStep) {
        self.note(format_args!("{step:?}"));
        if let Some(first) = self.drivers[program].program.workers().first_mut() {
            first.switch_over(step);
        }
        self.wake_program(program, 0);
    }

    pub(super) fn views(&mut self, program: usize) -> Vec<ServerView> {
        self.drivers[program]
            .program
            .workers()
            .first()
            .map_or(Vec::new(), |first| first.neighbours().servers())
    }

    /// Looks whether the next step may begin.
    pub(super) fn operate(&mut self) {
        let Some(mut order) = self.cluster.as_ref().and_then(|cluster| cluster.order) else { return };
        if self.drivers[order.program].life == Life::Frozen {
            return self.plan(LOOK, Act::Operate);
        }
        match order.stage {
            Stage::Ending(until) => {
                let workers = self.drivers[order.program].program.workers();
                let is_open = workers.iter().any(|worker| {
                    let view = worker.figures().overview();
                    if order.drains.is_some() { view.leaves_server } else { view.transactions > 0 }
                });
                if !is_open || self.now >= until {
                    order.stage = Stage::Following(self.now, self.now + TIMEOUT);
                }
            }
            Stage::Following(since, until) => {
                let within = Duration::from_micros(self.now - since);
                let views = self.views(order.program);
                let asked = |place: usize| {
                    let last = views.get(place)?.checks.last()?;
                    (last.is_well && last.age + last.took < within).then(|| &views[place].position)
                };
                let behind =
                    asked(order.from).zip(asked(order.to)).map(|(from, to)| compare_positions(from, to));
                match behind {
                    Some(Behind::Nothing | Behind::Unknown) => return self.change(order),
                    _ if self.now >= until => return self.end_order(),
                    _ => {}
                }
            }
            Stage::Running(until, _) if self.now < until => {}
            Stage::Running(_, works) => {
                if works && !self.is_group() && self.is_reached(order.from) && self.is_reached(order.to) {
                    self.change_roles(order);
                }
                return self.end_order();
            }
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.order = Some(order);
        }
        self.plan(LOOK, Act::Operate);
    }

    /// All is ready: what is open still is rolled back, and the operator's command begins, or the drain takes place.
    fn change(&mut self, mut order: Order) {
        self.switch(order.program, SwitchStep::EndTransactions);
        if let Some(drain) = order.drains {
            self.give_drain(order.program, DrainOrder { is_planned: true, ..drain });
            self.plan(3_000_000, Act::Undrain);
            return self.end_order();
        }
        let Some(cluster) = &mut self.cluster else { return };
        let takes = cluster.random.between(10_000, TIMEOUT / 2);
        let works = cluster.random.percent(80);
        order.stage = Stage::Running(self.now + takes, works);
        cluster.order = Some(order);
        // As its first step, the command sets the present one to read_only.
        if works && self.is_group() {
            self.set_as_primary(order.to);
        } else if works && self.is_reached(order.from) {
            self.member_mut(order.from).read_only = true;
        }
        self.plan(takes, Act::Operate);
    }

    fn change_roles(&mut self, order: Order) {
        let is_as_it_was = self.cluster.as_ref().is_some_and(|cluster| cluster.named == order.from);
        if is_as_it_was && self.member(order.to).has_all_of(self.member(order.from)) {
            self.promote(order.to);
            self.mend();
        } else if is_as_it_was {
            // The operator undoes what the order began.
            self.member_mut(order.from).read_only = false;
        }
    }

    fn end_order(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        let Some(order) = cluster.order.take() else { return };
        let gives_up = !matches!(order.stage, Stage::Running(..));
        cluster.gave_up.extend(gives_up.then_some(order.program));
        if self.group.is_some() {
            self.give_up_change();
        } else if cluster.named == order.from {
            self.member_mut(order.from).read_only = false;
        }
        if self.drivers[order.program].life != Life::Gone {
            self.switch(order.program, SwitchStep::Over);
        }
    }

    /// A program has gone with what it was doing for an operator, who undoes that.
    pub(super) fn order_goes_with(&mut self, program: usize) {
        if self.cluster.as_ref().is_some_and(|cluster| cluster.order.is_some_and(|it| it.program == program))
        {
            self.end_order();
        }
    }

    /// The place of the program that an operator has do something.
    fn program_for_operator(&mut self) -> usize {
        let there = self.programs_that_are_there();
        match &mut self.cluster {
            Some(cluster) if there.len() > 1 => *cluster.random.pick(&there),
            _ => there.first().copied().unwrap_or(0),
        }
    }

    /// The places of those programs that do something when they are told to.
    pub(super) fn programs_that_are_there(&self) -> Vec<usize> {
        (0..self.drivers.len()).filter(|&program| self.drivers[program].life == Life::Runs).collect()
    }

    /// An operator who has mended all takes the primary that there is, whatever it lacks, and leaves nothing drained.
    pub(super) fn accept_what_lacks(&mut self) {
        if self.cluster.as_ref().is_some_and(|cluster| cluster.order.is_some()) {
            self.end_order();
        }
        self.undrain();
        if let Some(cluster) = &mut self.cluster {
            cluster.drawn.takes_behind = true;
        }
        self.tell_settings();
    }
}
