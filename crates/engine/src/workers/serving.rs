//! The client that each backend serves, for questions about the server's threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The client that a backend serves alone, by the id that it sees; 0 for none. Written at the beginning and the end of
/// statements, read by any worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedClient(Arc<AtomicU32>);

impl ServedClient {
    pub(crate) fn set(&self, client: u32) {
        // Nothing else is told by it.
        self.0.store(client, Ordering::Relaxed);
    }

    /// The backend serves nobody that could be named.
    pub(crate) fn nobody(&self) {
        self.set(0);
    }
}

/// The backends of all workers.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// Backends by the server's thread ids. Entries of backends that are closed end by themselves.
    backends: Mutex<Vec<(u32, Weak<AtomicU32>)>>,
}

impl Serving {
    /// A backend has logged in.
    pub(crate) fn add(&self, thread_id: u32, serves: &ServedClient) {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.retain(|(_, serves)| serves.strong_count() > 0);
        backends.push((thread_id, Arc::downgrade(&serves.0)));
    }

    /// Says whether the server's ids have come as far as this one.
    pub(crate) fn has_reached(&self, id: u32) -> bool {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.iter().any(|(thread_id, _)| *thread_id >= id)
    }

    /// Threads with the clients that they serve at this moment, in the order of the threads' ids.
    pub(crate) fn now(&self) -> Vec<(u32, u32)> {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let served = backends.iter().filter_map(|(thread_id, serves)| {
            let client = serves.upgrade()?.load(Ordering::Relaxed);
            (client != 0).then_some((*thread_id, client))
        });
        let mut served: Vec<_> = served.collect();
        served.sort_unstable();
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_backends_and_those_that_serve_nobody_are_not_there() {
        let serving = Serving::default();
        let (one, other, idle) = (ServedClient::default(), ServedClient::default(), ServedClient::default());
        for (thread_id, serves) in [(7, &one), (5, &other), (6, &idle)] {
            serving.add(thread_id, serves);
        }
        one.set(71);
        other.set(51);
        assert_eq!(serving.now(), [(5, 51), (7, 71)]);
        one.nobody();
        drop(other);
        assert_eq!(serving.now(), []);
        one.set(72);
        serving.add(8, &idle);
        assert_eq!(serving.now(), [(7, 72)]);
        assert_eq!(serving.backends.lock().unwrap().len(), 3);
    }
}
