//! The neighbours of a worker: the servers behind it, where there may be several, and the other Onramps before them.

use seam::Instant;

use crate::cluster::Cluster;
use crate::cluster::view::{FailoverView, ServerView};
use crate::pool::Pool;
use crate::readers::Readers;
use crate::readers::view::ReaderView;
use crate::server::Server;
use crate::server::control::peers::PeerView;
use crate::settings::Settings;

/// The servers behind a worker, and the other Onramps before them. A look changes nothing.
pub struct Neighbours<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) pool: &'a Pool,
    pub(super) cluster: &'a Cluster,
    /// The one that takes writes.
    pub(super) server: &'a Server,
    pub(super) readers: &'a Readers,
}

impl Neighbours<'_> {
    /// The servers, where there may be several; empty on all workers but the first.
    pub fn servers(&self) -> Vec<ServerView> {
        self.cluster.views(self.now, &self.settings.server, self.pool.workers.chosen.get().place)
    }

    /// The Onramps in front of the server, this one among them, by their slots; empty where they are not counted, and on all workers but
    /// the first.
    pub fn peers(&self) -> Vec<PeerView> {
        self.server.peer_views(self.now, self.settings, self.pool)
    }

    /// The changes of the primary, the latest first; empty on all workers but the first.
    pub fn failovers(&self) -> Vec<FailoverView> {
        self.cluster.failover_views(self.now, &self.settings.server, &self.pool.workers.chosen)
    }

    /// The servers that reads may go to, as this worker sees them; empty where reads are not split.
    pub fn reader_views(&self) -> Vec<ReaderView> {
        let primary = self.pool.workers.chosen.get().place;
        let is_drained = |place| self.cluster.is_drained(place);
        self.readers.views(self.now, &self.settings.reads, primary, is_drained)
    }
}
