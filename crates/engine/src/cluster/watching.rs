//! The first worker watches the servers: has them checked, chooses the primary among them, and tells all workers.

use seam::{ConnectionId, Instant};

use super::drain::{DrainOrder, DrainOutcome, NotDrained};
use super::switchover::{SwitchStep, Switching};
use super::{Cluster, Effect, Step};
use crate::accounts::task::Asker;
use crate::io::{Io, Role};
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// The servers, and the parts that their checks concern. On other workers than the first there is nothing to watch.
pub(crate) struct Watching<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a mut Pool,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) views: &'a mut Views,
    pub(crate) io: &'a mut Io,
}

impl Watching<'_> {
    /// Takes the steps that are due, and has the other workers look where something has changed.
    pub(crate) fn turn(&mut self) {
        if !self.cluster.is_watching() {
            return;
        }
        self.cluster.connected = self.pool.workers.chosen.proof.asked_for();
        self.step(Cluster::turn);
        let chosen = &self.pool.workers.chosen;
        let told = || (chosen.get(), chosen.what_goes_on(), chosen.proof.is_wanted());
        let before = told();
        let news = self.cluster.choose(self.now, chosen, self.settings);
        let is_proved = chosen.proof.proves(self.cluster.proved);
        if news.is_some() || is_proved || before != told() {
            self.pool.write_to_others(&Letter::Wake);
        }
        let (workers, max_lag) = (&self.pool.workers, self.settings.reads.max_lag);
        let replicas_have_news = self.cluster.say_replicas(&workers.chosen, &workers.replicas, max_lag);
        if replicas_have_news {
            self.pool.write_to_others(&Letter::Wake);
        }
        self.cluster.tell_clients(&self.pool.workers.chosen, &self.settings.server);
        for news in self.cluster.told.drain(..).chain(news) {
            self.views.event(news);
        }
    }

    /// Takes a step of a planned change of the primary.
    pub(crate) fn switch_over(&mut self, step: SwitchStep) {
        if !self.cluster.is_watching() {
            return;
        }
        match step {
            SwitchStep::Begin { to, lasts } => {
                self.cluster.switching = Some(Switching { to, until: self.now + lasts, over: None });
                self.cluster.hurry(self.now);
            }
            SwitchStep::EndTransactions => {
                self.pool.workers.chosen.end_transactions();
                self.pool.write_to_others(&Letter::Wake);
                self.cluster.hurry(self.now);
            }
            SwitchStep::Over => self.cluster.switching_ends(self.now),
        }
    }

    /// Takes a server out of the choice, or puts it back; `None` where there is nothing to watch.
    pub(crate) fn drain(&mut self, order: DrainOrder) -> Option<Result<DrainOutcome, NotDrained>> {
        let present = self.pool.workers.chosen.get().place;
        let is_ours = self.cluster.is_watching();
        is_ours.then(|| self.cluster.drain(order, present, &self.settings.server))
    }

    /// Begins the login on a check's connection, which stands.
    pub(crate) fn connected(&mut self, token: u64, connection: ConnectionId) {
        self.step(|cluster, step| cluster.check_connected(step, token, connection));
    }

    pub(crate) fn connect_failed(&mut self, token: u64, errno: i32) {
        self.step(|cluster, step| cluster.check_connect_failed(step, token, errno));
    }

    /// Takes bytes of the server at this place on the connection of its check.
    pub(crate) fn bytes(&mut self, place: usize, bytes: &[u8]) {
        self.step(|cluster, step| cluster.check_bytes(step, place, bytes));
    }

    /// Notes that TLS stands on that connection.
    pub(crate) fn secured(&mut self, place: usize) {
        self.step(|cluster, step| cluster.check_secured(step, place));
    }

    /// Notes that the connection has ended, for this reason.
    pub(crate) fn closed(&mut self, place: usize, reason: &str) {
        self.step(|cluster, step| cluster.check_closed(step, place, reason));
    }

    /// Notes that the server at this place is at another address by now.
    pub(crate) fn moved(&mut self, place: usize) {
        self.step(|cluster, step| cluster.check_elsewhere(step, place));
    }

    /// Takes a step of the checks, and carries out its effects.
    fn step(&mut self, take: impl FnOnce(&mut Cluster, &mut Step<'_>)) {
        let outbox = &mut self.io.outbox;
        let mut step = Step { now: self.now, settings: self.settings, outbox, effects: Vec::new() };
        take(self.cluster, &mut step);
        for effect in step.effects {
            match effect {
                Effect::Serves { connection, place } => self.io.set_role(connection, Role::Check(place)),
                Effect::Ended { connection } => self.io.set_role(connection, Role::Free),
                Effect::Encrypt { connection, work } => {
                    self.io.tasks.give(Asker::Check(connection), work, None);
                }
                Effect::Changed { place } => {
                    let address = self.settings.server[place].clone();
                    self.views.event(self.cluster.changed(place, address));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::testing::two_servers;
    use crate::engine::Engine;
    use crate::workers::Workers;

    #[test]
    fn the_first_worker_alone_has_something_to_watch() {
        let settings = two_servers();
        let workers = Workers::new(&settings, 2);
        for (worker, watches) in [(0, true), (1, false)] {
            let mut engine = Engine::join(settings.clone(), Arc::clone(&workers), worker);
            let order = DrainOrder { place: 1, drains: true, is_planned: false };
            assert_eq!(engine.watching().drain(order).is_some(), watches);
            engine.watching().turn();
            assert_eq!(engine.io.outbox.poll().is_some(), watches, "it connects");
        }
    }
}
