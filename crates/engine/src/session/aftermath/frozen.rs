//! A client's latest results as plain data.

use super::{Aftermath, Diagnostics, InsertId};
use crate::ids::{BackendKey, BackendName};
use crate::session::gtid::Gtid;

/// See [`Aftermath`].
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenAftermath {
    last_insert_id: u64,
    insert_id_at: Option<BackendName>,
    insert_id: InsertId,
    row_count: i64,
    found_rows: Option<u64>,
    last_gtid: Option<Box<Gtid>>,
    diagnostics: Diagnostics,
}

plain!(struct FrozenAftermath {
    last_insert_id, insert_id_at, insert_id, row_count, found_rows, last_gtid, diagnostics,
});

impl Aftermath {
    pub(crate) fn freeze(self, name_of: impl FnOnce(BackendKey) -> Option<BackendName>) -> FrozenAftermath {
        let Self { last_insert_id, insert_id_at, insert_id, row_count, found_rows, last_gtid, diagnostics } =
            self;
        FrozenAftermath {
            last_insert_id,
            insert_id_at: insert_id_at.and_then(name_of),
            insert_id,
            row_count,
            found_rows,
            last_gtid,
            diagnostics,
        }
    }
}

impl FrozenAftermath {
    pub(crate) fn thaw(self, backend_of: impl FnOnce(BackendName) -> Option<BackendKey>) -> Aftermath {
        let Self { last_insert_id, insert_id_at, insert_id, row_count, found_rows, last_gtid, diagnostics } =
            self;
        Aftermath {
            last_insert_id,
            insert_id_at: insert_id_at.and_then(backend_of),
            insert_id,
            row_count,
            found_rows,
            last_gtid,
            diagnostics,
        }
    }

    /// See [`Diagnostics::bytes`].
    pub(crate) fn diagnostics_bytes(&self) -> usize {
        self.diagnostics.bytes()
    }
}
