//! What all workers know of the servers that may be read from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use super::{ReadSettings, settings_at};
use crate::settings::Settings;
use crate::workers::Workers;

/// A server answers its checks, is a replica or a node beside the primary, and nobody has taken it out of use.
const FIT: u8 = 1;
/// The server is a node of Galera.
const OF_GALERA: u8 = 2;

/// What the first worker has found out of each server, and what the workers share for reading from it.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    found: Box<[AtomicU8]>,
    shared: Box<[Arc<Workers>]>,
    /// The primary is a node of Galera.
    primary: AtomicU8,
}

impl Replicas {
    /// Of these servers, for so many workers; of none where reads are not split.
    pub(crate) fn new(settings: &Settings, count: u32) -> Self {
        if !ReadSettings::are_split(settings) {
            return Self::default();
        }
        let places = 0..settings.server.len();
        Self {
            found: places.clone().map(|_| AtomicU8::new(0)).collect(),
            shared: places.map(|place| Workers::new(&settings_at(settings, place), count)).collect(),
            primary: AtomicU8::new(0),
        }
    }

    /// For each server what the workers have in common for it.
    pub(crate) fn shared(&self) -> &[Arc<Workers>] {
        &self.shared
    }

    /// Says of a server whether it may be read from, and whether it is a node of Galera. True where that is news.
    pub(crate) fn say(&self, place: usize, is_fit: bool, is_node: bool) -> bool {
        let now = (u8::from(is_fit) * FIT) | (u8::from(is_node) * OF_GALERA);
        self.found.get(place).is_some_and(|found| found.swap(now, SeqCst) != now)
    }

    /// Says whether the primary is a node of Galera.
    pub(crate) fn say_of_primary(&self, is_node: bool) {
        self.primary.store(u8::from(is_node), SeqCst);
    }

    pub(crate) fn primary_is_node(&self) -> bool {
        self.primary.load(SeqCst) != 0
    }

    pub(crate) fn is_fit(&self, place: usize) -> bool {
        self.found[place].load(SeqCst) & FIT != 0
    }

    pub(crate) fn is_node(&self, place: usize) -> bool {
        self.found[place].load(SeqCst) & OF_GALERA != 0
    }
}
