//! The session states in which a backend may be when it begins with the next statement.
//!
//! Reads that follow each other on one backend may be in session states of their own. Each state goes ahead of its read in one text.
//! As long as such texts are in flight, nobody knows which of them succeed, and each SET may have been done in part. So a read that
//! follows them counts on none. It sets each part that differs from its own state in any of them.

use std::rc::Rc;

use crate::backend::Backend;
use crate::session::{SessionId, SessionState, SessionTables};

impl SessionTables {
    /// Says whether a text in flight there brings another state than the one that stands.
    pub(in crate::backend) fn others_come(&self, backend: &Backend) -> bool {
        let standing = self.states.shared_state(backend.session.id());
        let mut brought = backend.in_flight.iter().filter_map(|statement| statement.brings.as_ref());
        brought.any(|brought| !Rc::ptr_eq(brought, standing))
    }

    /// Returns the states in which the next statement may find a backend, each once: the one that stands, and all that come.
    pub(super) fn found_on<'a>(&'a self, backend: &'a Backend) -> Vec<&'a SessionState> {
        let mut found = vec![self.states.state(backend.session.id())];
        for brought in backend.in_flight.iter().filter_map(|statement| statement.brings.as_deref()) {
            if !found.iter().any(|&known| std::ptr::eq(known, brought)) {
                found.push(brought);
            }
        }
        found
    }

    /// Says whether a read can bring this state along to a backend at work. A session with a schema can never be without one again, so both
    /// must have a schema or both none. `schema_alone`: nothing but the schema may differ.
    pub(in crate::backend) fn can_be_brought(
        &self,
        session: SessionId,
        backend: &Backend,
        schema_alone: bool,
    ) -> bool {
        let wanted = self.states.state(session);
        backend.session.trackers
            && self.found_on(backend).iter().all(|found| {
                found.schema.is_some() == wanted.schema.is_some()
                    && !wanted.changes_behind_text(found)
                    && (!schema_alone || found.is_but_for_schema(wanted))
            })
    }
}
