//! Reads on replicas, as all workers together see them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use engine::{BackendActivity, EnumMap, Histogram, Limit, Readable, ReaderView, RoutedView, Use, Zone};
use seam::Address;

use crate::admin_port::counters::Wholes;

/// A server that reads may go to.
pub(crate) struct ReadServer {
    pub(crate) address: Address,
    /// Whether they go there, and if not, why: what keeps most from it where workers differ.
    pub(crate) readable: Readable,
    /// How old what is read there can be at most, with the worker that knows least.
    pub(crate) age: Option<Duration>,
    /// In proportion to it the server gets reads.
    pub(crate) weight: u32,
    pub(crate) zone: Option<Zone>,
    /// Permits in use, and how many there are.
    pub(crate) permits: (u64, u64),
    /// Backends for reads as on a replica.
    pub(crate) backends: EnumMap<BackendActivity, u64>,
    /// All backends there.
    pub(crate) backend_count: u64,
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) sent: u64,
    /// What reads took there.
    pub(crate) times: Histogram,
}

impl ReadServer {
    fn of(view: &ReaderView) -> Self {
        Self {
            address: view.address.clone(),
            readable: view.readable,
            age: view.age,
            weight: view.weight,
            zone: view.zone.clone(),
            // What workers have in common each of them knows.
            permits: permits(&view.shares),
            backends: view.backends,
            backend_count: view.backends.total(),
            waiting: view.waiting as u64,
            running: view.running,
            sent: view.sent,
            times: view.times.clone(),
        }
    }

    fn add(&mut self, view: &ReaderView) {
        self.readable = self.readable.max(view.readable);
        self.age = self.age.zip(view.age).map(|(one, other)| one.max(other));
        self.backends += &view.backends;
        self.backend_count += view.backends.total();
        self.waiting += view.waiting as u64;
        self.running += view.running;
        self.sent += view.sent;
        self.times += &view.times;
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.readable == Readable::Yes
    }

    /// How many permits there are, where that is bounded.
    pub(crate) fn permits(&self) -> Option<u64> {
        Some(self.permits.1).filter(|&bound| bound < u64::MAX)
    }

    /// What a read took on average.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.times.count()).unwrap_or(u32::MAX);
        self.times.sum().checked_div(count)
    }
}

fn permits(shares: &[Use]) -> (u64, u64) {
    let permits = shares.iter().find(|share| share.limit == Limit::Permits);
    permits.map_or((0, u64::MAX), |permits| (permits.in_use, permits.bound))
}

/// All of them, in the order of their addresses; none where reads do not go to replicas.
pub(crate) struct ReadServers(Vec<ReadServer>);

impl ReadServers {
    /// As the workers have said.
    pub(crate) fn of(wholes: &Wholes) -> Self {
        let mut all: Vec<ReadServer> = Vec::new();
        for view in wholes.values().flat_map(|whole| &whole.readers) {
            match all.iter_mut().find(|known| known.address == view.address) {
                Some(known) => known.add(view),
                None => all.push(ReadServer::of(view)),
            }
        }
        let mut all = Self(all);
        all.note_primary(wholes);
        all
    }

    /// The clients' own engine has permits and backends at the primary.
    fn note_primary(&mut self, wholes: &Wholes) {
        let on_all: u64 = wholes.values().map(|whole| whole.view.backends as u64).sum();
        let on_replicas: u64 = self.0.iter().map(|server| server.backends.total()).sum();
        let Some(primary) = self.0.iter_mut().find(|server| server.readable == Readable::Primary) else {
            return;
        };
        primary.backend_count += on_all.saturating_sub(on_replicas);
        if let Some(whole) = wholes.values().next() {
            primary.permits = permits(&whole.shares);
        }
    }

    pub(crate) fn at(&self, address: &Address) -> Option<&ReadServer> {
        self.0.iter().find(|server| server.address == *address)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ReadServer> {
        self.0.iter()
    }
}

/// Where statements went, by digest; first those without.
#[derive(Default)]
pub(crate) struct Routes(BTreeMap<Option<u64>, RoutedView>);

impl Routes {
    /// Adds what a worker has counted.
    pub(crate) fn add(&mut self, found: Vec<RoutedView>) {
        for view in found {
            match self.0.entry(view.digest) {
                Entry::Vacant(free) => {
                    free.insert(view);
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.routed += &view.routed;
                    known.text = known.text.take().or(view.text);
                }
            }
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RoutedView> {
        self.0.values()
    }
}
