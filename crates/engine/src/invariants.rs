//! What must agree between clients and backends. Looked at behind each turn of a debug build, in the simulator first of all.

use crate::backend::Owner;
use crate::engine::Engine;

impl Engine {
    /// A client and the backend that it holds know of each other, and each free backend is idle once.
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
            let times = self.idle.iter().filter(|&&idle| idle == key).count();
            assert!(times <= usize::from(backend.is_idle()), "{key:?} is idle {times} times");
        }
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
