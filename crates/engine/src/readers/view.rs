//! The servers that may be read from, as people are told of them.

use std::time::Duration;

use seam::{Address, Instant};

use super::by_server::Zone;
use super::routing::Routing;
use super::settings::{ReadSettings, ReadSplit};
use super::{Reader, Readers};
use crate::engine::Engine;
use crate::outside::enum_map::EnumMap;
use crate::outside::histogram::Histogram;
use crate::outside::measures::Command;
use crate::outside::named::{BackendActivity, Limit, Use, named};
use crate::outside::shown_text::shown_text;
use crate::outside::snapshot::rows::ClientView;
use crate::readers::lent::Lent;

named! {
    /// Says whether a server may be read from and, if not, why. Where workers do not agree, the value that is further down is told.
    Readable {
        /// The server may be read from.
        Yes = "yes",
        /// The server may be read from. Reads stay in Onramp's own zone as long as a server there takes them.
        OtherZone = "other_zone",
        /// The server could be read from, but its weight is 0.
        NoWeight = "no_weight",
        /// The server may lack data that the primary had longer ago than `replica_max_lag`.
        TooOld = "too_old",
        /// The server or the primary has not given its position yet, or the two positions cannot be compared.
        NoPosition = "no_position",
        /// The server does not report changes of sessions by statements. So each read would cost a backend of its own.
        NoTrackers = "no_trackers",
        /// A worker has not connected to the server yet, or has not read its accounts.
        NotConnected = "not_connected",
        /// The server's checks say that it does not get, or does not carry out, what the primary writes. A reader of Aurora is too far behind,
        /// or does not say.
        Apart = "apart",
        /// The server's checks say that it is not up, or it is there under another address too.
        Unfit = "unfit",
        /// An operator has taken the server out of use.
        Drained = "drained",
        /// The server is the primary, which takes reads as it takes all else.
        Primary = "primary",
    }
}

/// A server as the reads of a worker see it.
#[derive(Clone, Debug)]
pub struct ReaderView {
    /// The server's address.
    pub address: Address,
    /// Says whether this worker reads there.
    pub readable: Readable,
    /// The age of the latest moment of which all writes are known to be there: data that is read can be no older.
    pub age: Option<Duration>,
    /// The server gets reads in proportion to its weight.
    pub weight: u32,
    /// The server's zone, if that was said.
    pub zone: Option<Zone>,
    /// Permits and backends of the server: how many all workers together use, and how many there are.
    pub shares: [Use; 4],
    /// Reads that were sent there.
    pub sent: u64,
    /// Reads that wait there for a permit or a backend.
    pub waiting: usize,
    /// Reads that run there.
    pub running: u64,
    /// How many backends there are.
    pub backends: EnumMap<BackendActivity, u64>,
    /// Times that the server has taken for reads.
    pub times: Histogram,
}

impl Readers {
    /// The engines, to look at.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.all.iter().map(|reader| &reader.engine)
    }

    /// The engine at this place.
    pub(crate) fn engine(&self, place: usize) -> Option<&Engine> {
        self.all.get(place).map(|reader| &reader.engine)
    }

    /// The places that statements went to.
    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// How many reads wait for a replica.
    pub(crate) fn reads_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Shows the servers, where the primary is at this place, and these are drained.
    pub(crate) fn views(
        &self,
        now: Instant,
        settings: &ReadSettings,
        primary: Option<usize>,
        is_drained: impl Fn(usize) -> bool,
    ) -> Vec<ReaderView> {
        let takes_reads = |(place, reader): (usize, &Reader)| {
            let as_primary = primary == Some(place);
            let is_counted = settings.split == ReadSplit::All && as_primary && reader.stand.takes_reads();
            reader.stand.is_near && (is_counted || reader.is_readable(now, settings.max_lag) == Readable::Yes)
        };
        let none_is_near = !self.all.iter().enumerate().any(takes_reads);
        let view = |(place, reader): (usize, &Reader)| {
            let readable = match reader.is_readable(now, settings.max_lag) {
                _ if primary == Some(place) => Readable::Primary,
                _ if is_drained(place) => Readable::Drained,
                Readable::Yes if !(reader.stand.is_near || none_is_near) => Readable::OtherZone,
                readable => readable,
            };
            reader.view(now, readable)
        };
        self.all.iter().enumerate().map(view).collect()
    }
}

impl Reader {
    fn view(&self, now: Instant, readable: Readable) -> ReaderView {
        let holders = self.engine.figures().holders();
        let is_primary = readable == Readable::Primary;
        ReaderView {
            address: self.engine.settings.server[0].clone(),
            readable,
            age: self.freshness.as_of().filter(|_| !is_primary).map(|as_of| now.since(as_of)),
            weight: self.stand.weight,
            zone: self.stand.zone.clone(),
            shares: self.engine.figures().own_shares(),
            sent: self.sent,
            waiting: self.engine.scheduling.queued().total(),
            running: holders.running,
            backends: holders.backends,
            times: self.engine.figures().measures().ended(Command::Query).times.clone(),
        }
    }

    /// Says whether reads may go there, in whichever zone the server is, and if not, why.
    pub(super) fn is_readable(&self, now: Instant, max_lag: Duration) -> Readable {
        let server = self.engine.servers.primary();
        if !self.engine.takes_guests() {
            return Readable::Unfit;
        }
        if !self.is_fit {
            return Readable::Apart;
        }
        let is_known = server.facts.is_some() && server.pending_facts.is_none() && self.given.is_known();
        if !(is_known && server.reachability.is_up()) {
            return Readable::NotConnected;
        }
        if server.facts.as_ref().is_some_and(|facts| !facts.has_trackers()) {
            return Readable::NoTrackers;
        }
        match self.freshness.as_of() {
            None => Readable::NoPosition,
            Some(as_of) if now.since(as_of) > max_lag => Readable::TooOld,
            Some(_) if !self.stand.takes_reads() => Readable::NoWeight,
            Some(_) => Readable::Yes,
        }
    }
}

impl ClientView {
    /// Shows the client's statement as the engine of the replica sees it, or as one that waits for a replica.
    pub(crate) fn take_lent(&mut self, now: Instant, lent: &Lent, guest: Option<Self>) {
        self.statement = lent.text().and_then(shown_text);
        self.digest = lent.fingerprint();
        let Some(guest) = guest else {
            self.queued = Some(now.since(lent.since()));
            return;
        };
        self.queue = guest.queue;
        self.queued = guest.queued;
        self.lacks = guest.lacks;
        self.running = guest.running;
        self.backend = guest.backend;
        self.server = guest.server;
        self.digest = guest.digest;
        self.lock_wait = guest.lock_wait;
        self.input += guest.input;
    }
}

/// Options with limits that have statements refused. A reader does not refuse these: they go to the primary instead.
pub(crate) const REFUSING: [Limit; 7] = [
    Limit::LongQueueLimit,
    Limit::LongQueueWaitLimit,
    Limit::MaxConnections,
    Limit::QueueDelayTarget,
    Limit::QueueLimit,
    Limit::QueueWaitLimit,
    Limit::UnfairWaitLimit,
];
