//! Knowledge of the servers that may be read from, which all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};

use super::settings::ReadSplit;
use crate::settings::Settings;
use crate::workers::Workers;
use crate::workers::onramps::Onramps;

/// How a server stands for reads, as far as checks tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fitness {
    /// True where readers may connect: the server is up, is another one than the primary, and nobody has taken it out of use.
    pub(crate) is_open: bool,
    /// True where the server answers, so that statements that run there come to their end.
    pub(crate) is_up: bool,
    /// True where the server gets what the primary writes.
    pub(crate) is_fit: bool,
    /// True where the server is a node of Galera.
    pub(crate) is_node: bool,
}

/// The same in a byte.
const OPEN: u8 = 1;
const FIT: u8 = 2;
const OF_GALERA: u8 = 4;
const UP: u8 = 8;

/// The first worker's findings on each server, and the parts that the workers share for reading from them.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    found: Box<[AtomicU8]>,
    shared: Box<[Arc<Workers>]>,
    primary_is_node: AtomicBool,
}

impl Replicas {
    /// Makes the state of these servers, for so many workers, with these Onramps in front of them; of none where reads are not split.
    pub(crate) fn new(onramps: &Arc<Onramps>, settings: &Settings, count: u32) -> Self {
        if !are_split(settings) {
            return Self::default();
        }
        let places = 0..settings.server.len();
        let share = |place| Workers::among(Arc::clone(onramps), &settings_at(settings, place), count);
        Self {
            found: places.clone().map(|_| AtomicU8::new(0)).collect(),
            shared: places.map(share).collect(),
            primary_is_node: AtomicBool::new(false),
        }
    }

    /// The state that the workers share for each server.
    pub(crate) fn shared(&self) -> &[Arc<Workers>] {
        &self.shared
    }

    /// Has the servers' permits divided anew: other Onramps are at work by now.
    pub(crate) fn divide_anew(&self, settings: &Settings) {
        for (place, workers) in self.shared.iter().enumerate() {
            workers.change_permits(&settings_at(settings, place));
        }
    }

    /// Says what has been found out of a server. True where that is news.
    pub(crate) fn say(&self, place: usize, fitness: Fitness) -> bool {
        let of = |is_so: bool, bit: u8| if is_so { bit } else { 0 };
        let open = of(fitness.is_open, OPEN) | of(fitness.is_up, UP);
        let word = open | of(fitness.is_fit, FIT) | of(fitness.is_node, OF_GALERA);
        self.found.get(place).is_some_and(|before| before.swap(word, SeqCst) != word)
    }

    /// The findings on the server at this place.
    pub(crate) fn of(&self, place: usize) -> Fitness {
        let word = self.found[place].load(SeqCst);
        let has = |bit| word & bit != 0;
        Fitness { is_open: has(OPEN), is_up: has(UP), is_fit: has(FIT), is_node: has(OF_GALERA) }
    }

    /// Says whether the primary is a node of Galera.
    pub(crate) fn say_of_primary(&self, is_node: bool) {
        self.primary_is_node.store(is_node, SeqCst);
    }

    /// Says whether the primary is a node of Galera.
    pub(crate) fn primary_is_node(&self) -> bool {
        self.primary_is_node.load(SeqCst)
    }
}

/// Says whether the servers at these addresses have readers.
fn are_split(settings: &Settings) -> bool {
    settings.cluster.several && settings.reads.split != ReadSplit::Off
}

/// The settings of the reader at the server with this address: of a server by itself, of which all clients are lent.
pub(crate) fn settings_at(settings: &Settings, place: usize) -> Settings {
    let mut own = settings.clone();
    own.server = vec![settings.server[place].clone()];
    own.server_names = settings.server_names.get(place).cloned().into_iter().collect();
    own.cluster.several = false;
    own.reads.split = ReadSplit::Off;
    // Slots, and with them the ids of clients, are of the primary.
    own.counts_peers = false;
    // They have been counted where they came in.
    own.max_connections = u32::MAX;
    own
}

#[cfg(test)]
mod tests {
    use seam::Address;

    use super::super::ReadSplit;
    use super::*;
    use crate::workers::onramps::Census;

    #[test]
    fn permits_of_all_servers_are_divided_among_the_onramps_at_work() {
        let mut settings = Settings { permits_min: 8, permits_max: 8, ..Settings::default() };
        settings.cluster.several = true;
        settings.reads.split = ReadSplit::All;
        settings.server = vec![Address::Unix("/nowhere".into()); 3];
        let workers = Workers::new(&settings, 1);
        let permits = || workers.replicas.shared().iter().map(|shared| shared.permits()).collect::<Vec<_>>();
        assert_eq!(permits(), [8; 3]);
        assert!(workers.onramps.take(Census { present: 2, at_work: 2, saturated: 2, rank: 0, others: 0b10 }));
        workers.replicas.divide_anew(&settings);
        assert_eq!(permits(), [4; 3]);
    }
}
