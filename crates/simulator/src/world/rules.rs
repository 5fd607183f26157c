//! Weights and zones of servers that are read from: operators change them, and reads follow what they have said.

use std::time::Duration;

use engine::{ReadSplit, Readable};

use super::World;
use super::servers::Way;
use crate::client::promise::Promise;
use crate::faults::Parameters;
use crate::rules::{is_near, weight_at};
use crate::subject::Subject;
use crate::token::Token;

/// So long a read that has to see something waits for a server of Onramp's own zone, as docs/CLUSTERS.md has it.
const HEAD_START: Duration = Duration::from_millis(10);

impl<P: Subject> World<P> {
    /// An operator says something else of servers.
    pub(super) fn change_rules(&mut self, place: usize) {
        let now = self.now;
        let Some(cluster) = &mut self.cluster else { return };
        let Some(rules) = cluster.drawn.rules.get(place) else { return };
        rules.apply(&mut cluster.drawn.reads);
        cluster.ruled_since = Some(now);
        let text = format!("{rules:?}");
        self.note(format_args!("an operator says {text}"));
        self.tell_settings();
    }

    /// All workers hear of the options as they are now.
    pub(super) fn tell_settings(&mut self) {
        let parameters = self.parameters_now();
        for program in 0..self.drivers.len() {
            let settings = parameters.settings_of(program);
            for worker in self.drivers[program].program.workers() {
                worker.change_settings(&settings);
            }
            self.wake_program(program, 0);
        }
    }

    /// What a program that is started now is told.
    pub(super) fn parameters_now(&self) -> Parameters {
        let cluster = self.cluster.as_ref().map(|cluster| cluster.drawn.clone());
        Parameters { cluster, ..self.parameters.clone() }
    }

    /// A read has been sent to a server that is read from. `near` says of each worker since when a server of its own zone has taken reads.
    pub(super) fn check_rules(&mut self, way: Way, token: Token, near: &[Option<u64>]) {
        let Some(cluster) = &self.cluster else { return };
        let reads = &cluster.drawn.reads;
        let Some((sent_at, promise)) = self.checkers.read_is_of(token) else { return };
        // Where it goes may have been decided before somebody said something else.
        if cluster.ruled_since.is_some_and(|since| sent_at <= since) {
            return;
        }
        if weight_at(reads, way.server) == 0 {
            let text = format!("{token} went to server {}, whose weight is 0", way.server + 1);
            return self.checkers.violation(text);
        }
        let waited = Duration::from_micros(self.now - sent_at);
        let has_waited = reads.split == ReadSplit::All || waited >= HEAD_START.min(reads.wait_limit);
        let may_leave = has_waited && promise != Promise::Eventual;
        // Where it goes may have been decided as soon as it was sent.
        let took_reads = near.get(way.origin.worker).copied().flatten().is_some_and(|since| since < sent_at);
        if !is_near(reads, way.server) && !may_leave && took_reads {
            let text = format!(
                "{token} went to server {} in another zone after {waited:?}, and a server of the own zone took reads",
                way.server + 1
            );
            self.checkers.violation(text);
        }
    }

    /// Says of each worker of a program since when some server of its own zone takes reads; nobody looks where nobody has said anything of
    /// zones.
    pub(super) fn near_takes_reads(&mut self, program: usize) -> Vec<Option<u64>> {
        let now = self.now;
        let Some(cluster) = &mut self.cluster else { return Vec::new() };
        if cluster.drawn.rules.iter().all(|rules| rules.zone.is_none()) {
            return Vec::new();
        }
        let reads = &cluster.drawn.reads;
        let take_reads = cluster.take_reads.entry(program).or_default();
        let program = &mut self.drivers[program].program;
        let primary = program.primary().filter(|_| reads.split == ReadSplit::All);
        let takes = |(place, readable): (usize, Readable)| {
            let is_replica = matches!(readable, Readable::Yes | Readable::OtherZone);
            is_near(reads, place)
                && weight_at(reads, place) > 0
                && (is_replica || (readable == Readable::Primary && primary == Some(place)))
        };
        let workers = program.workers();
        take_reads.resize(workers.len(), Vec::new());
        for (worker, since) in workers.into_iter().zip(&mut *take_reads) {
            let views = worker.neighbours().reader_views();
            since.resize(views.len(), None);
            let taking = views.iter().map(|view| view.readable).enumerate().map(takes);
            for (since, takes) in since.iter_mut().zip(taking) {
                *since = takes.then(|| since.unwrap_or(now));
            }
        }
        take_reads.iter().map(|since| since.iter().copied().flatten().min()).collect()
    }
}
