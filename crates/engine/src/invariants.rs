//! What must agree between clients and backends. Looked at behind each turn of a debug build, in the simulator first of all.

use crate::backend::{Owner, Permit};
use crate::engine::Engine;

/// All clients are looked at where there are no more: tests with crowds would take their time for nothing else.
const FEW: usize = 1000;

impl Engine {
    /// A client and the backend that it holds know of each other, and what is idle is so, and is there once.
    ///
    /// # Panics
    ///
    /// Where that is not so.
    pub(crate) fn check_invariants(&self) {
        for (key, backend) in self.backends.iter() {
            if let Some(holder) = backend.holder {
                let held = self.clients.get(holder).map(|client| client.backend);
                assert_eq!(held, Some(Some(key)), "{key:?} is held by {holder:?}");
            }
        }
        let mut idle = self.idle.clone();
        idle.sort_unstable();
        assert!(idle.windows(2).all(|two| two[0] != two[1]), "one is idle twice: {idle:?}");
        for key in idle {
            assert!(self.backends.get(key).is_some_and(|backend| backend.is_idle()), "{key:?} is not idle");
        }
        // The common count of what permits are left to others is that of all workers.
        if self.workers.count() == 1 {
            let held = self.backends.iter().filter(|(_, backend)| backend.permit == Permit::Held);
            let spared: u32 = held.map(|(_, backend)| backend.spared).sum();
            assert_eq!(spared, self.workers.spared(), "parts of permits that are left to others");
        }
        if self.clients.len() <= FEW {
            self.check_clients();
        }
    }

    fn check_clients(&self) {
        for (key, client) in self.clients.iter() {
            let Some(held) = client.backend else { continue };
            let backend = self.backends.get(held).expect("a client's backend is there");
            let shares = backend
                .in_flight
                .iter()
                .any(|statement| matches!(statement.owner, Owner::Client { client, .. } if client == key));
            assert!(backend.holder == Some(key) || shares, "{key:?} is on {held:?}");
        }
    }
}
