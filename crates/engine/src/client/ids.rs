//! The ids that clients see, and which client has one.

use std::collections::BTreeMap;

use super::Client;
use crate::ids::{ClientKey, Table};
use crate::pool::Pool;
use crate::workers::onramps::SLOTS;

/// The id of the first client. Behind it there are as many ids as in front of it. All together are what a signed INT
/// can hold: applications keep CONNECTION_ID() in one, and drivers the id of a greeting.
pub(crate) const FIRST_ID: u32 = 1 << 30;

/// The number of ids for clients, of all workers and of all Onramps in front of the server.
pub(super) const IDS: u32 = 1 << 30;

/// The number of ids of each slot (see [`crate::server::control::peers`]), so that clients of different Onramps have different
/// ids. The second half is for Onramps without a slot: nobody asks another Onramp about one of those.
pub(super) const IDS_OF_SLOT: u32 = IDS / PARTS;
pub(super) const PARTS: u32 = 2 * SLOTS;

/// The part of Onramps without a slot, as slots are numbered.
const NO_SLOT: u32 = SLOTS + 1;

/// The ids of clients.
#[derive(Debug)]
pub(crate) struct ClientIds {
    pub(super) keys: BTreeMap<u32, ClientKey>,
    /// How many clients have been given, the first of which stands at this place of the slot's. It is another one with each start: an id of
    /// a former one, or of an Onramp whose slot this is now, is hardly one of ours.
    pub(super) last: u32,
    pub(super) first: u32,
}

impl ClientIds {
    /// None has been given; the first will be at this place.
    pub(crate) fn from(first: u32) -> Self {
        Self { keys: BTreeMap::new(), last: 0, first }
    }

    /// Returns the client that has this id, if one has.
    pub(crate) fn client_with(&self, id: u32) -> Option<ClientKey> {
        self.keys.get(&id).copied()
    }

    /// The clients that have an id.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    /// How many have been given.
    pub(crate) fn given(&self) -> u32 {
        self.last
    }

    /// A client has come that has this id.
    pub(crate) fn come(&mut self, id: u32, key: ClientKey) {
        self.keys.insert(id, key);
    }

    /// The client with this id has gone.
    pub(crate) fn gone(&mut self, id: u32) {
        self.keys.remove(&id);
    }

    /// Returns an id that no client has now. Ids of one worker are a pool's number of workers apart, so that an id tells its worker.
    pub(crate) fn next(&mut self, pool: &Pool) -> u32 {
        let count = pool.workers.count();
        let worker = u32::try_from(pool.worker).expect("one of a u32");
        let own = pool.workers.onramps.slot().unwrap_or(NO_SLOT) - 1;
        let of_slot = IDS_OF_SLOT / count;
        // Of very many workers one might come to have more clients than that.
        let slots = if self.keys.len() < of_slot as usize { 1 } else { PARTS };
        loop {
            self.last = self.last.wrapping_add(1) % (of_slot * PARTS);
            let place = self.last.wrapping_add(self.first) % (of_slot * slots);
            let slot = (own + place / of_slot) % PARTS;
            let id = FIRST_ID + slot * IDS_OF_SLOT + place % of_slot * count + worker;
            if !self.keys.contains_key(&id) {
                return id;
            }
        }
    }

    /// Gives ids of this Onramp's slot to clients that came before the slot was known. Nobody has been told theirs yet.
    /// Returns the new ids by the former ones.
    pub(crate) fn renew(
        &mut self,
        pool: &Pool,
        clients: &mut Table<ClientKey, Client>,
        waiting: &[ClientKey],
    ) -> BTreeMap<u32, u32> {
        let mut renewed = BTreeMap::new();
        let Some(slot) = pool.workers.onramps.slot() else { return renewed };
        for &key in waiting {
            let former = clients[key].id;
            if slot_of(former.into()) == u64::from(slot) {
                continue;
            }
            // The same place in the slot, so that nobody is counted twice.
            let same = FIRST_ID + (slot - 1) * IDS_OF_SLOT + (former - FIRST_ID) % IDS_OF_SLOT;
            let id = if self.keys.contains_key(&same) { self.next(pool) } else { same };
            clients[key].id = id;
            self.keys.remove(&former);
            self.keys.insert(id, key);
            renewed.insert(former, id);
        }
        renewed
    }
}

/// Returns the slot of the Onramp that has clients with ids like this one. 0 is nobody's.
pub(crate) fn slot_of(id: u64) -> u64 {
    id.checked_sub(FIRST_ID.into()).map_or(0, |place| place / u64::from(IDS_OF_SLOT) + 1)
}
