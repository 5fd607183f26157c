//! Which statements have been prepared on a backend: their executions come without a text, and count under its digest.

/// So many are known on a backend. A client with more of them open at a time (the servers allow 16,382 on all connections
/// together by default, `max_prepared_stmt_count`) has its further ones executed like any, but not counted by digest.
const MOST: usize = 1024;

/// MariaDB's name for the statement that was prepared last (`LAST_STMT_ID`, sql_prepare.cc).
const LAST: u32 = u32::MAX;

/// The fingerprints of a backend's prepared statements, by their id there, in order.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    statements: Vec<(u32, u64)>,
}

impl Prepared {
    /// A statement has been prepared.
    pub(crate) fn add(&mut self, id: u32, fingerprint: u64) {
        // Ids grow on a connection, so that this is the end.
        let place = self.statements.partition_point(|&(known, _)| known < id);
        if self.statements.len() < MOST {
            self.statements.insert(place, (id, fingerprint));
        }
    }

    /// The fingerprint of a statement's text; 0 where it is not known.
    pub(crate) fn fingerprint(&self, id: u32) -> u64 {
        let found = match id {
            LAST => self.statements.last(),
            id => self
                .statements
                .binary_search_by_key(&id, |&(known, _)| known)
                .ok()
                .map(|at| &self.statements[at]),
        };
        found.map_or(0, |&(_, fingerprint)| fingerprint)
    }

    /// A statement has been closed.
    pub(crate) fn remove(&mut self, id: u32) {
        self.statements.retain(|&(known, _)| known != id);
    }

    /// The connection has been reset: none is left.
    pub(crate) fn clear(&mut self) {
        self.statements = Vec::new();
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.statements.capacity() * size_of::<(u32, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_known_until_they_are_closed() {
        let mut prepared = Prepared::default();
        prepared.add(3, 30);
        prepared.add(5, 50);
        assert_eq!([3, 4, 5, LAST].map(|id| prepared.fingerprint(id)), [30, 0, 50, 50]);
        prepared.remove(5);
        assert_eq!([3, 5, LAST].map(|id| prepared.fingerprint(id)), [30, 0, 30]);
        prepared.clear();
        assert_eq!([3, LAST].map(|id| prepared.fingerprint(id)), [0, 0]);
    }

    #[test]
    fn there_is_a_bound() {
        let mut prepared = Prepared::default();
        (0..5000).for_each(|id| prepared.add(id, 7));
        assert_eq!((prepared.fingerprint(1023), prepared.fingerprint(1024)), (7, 0));
        assert!(prepared.bytes() <= 32 << 10);
    }
}
