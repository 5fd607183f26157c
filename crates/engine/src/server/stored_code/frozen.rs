//! Knowledge of stored code as plain data ([`crate::frozen`]), and back. The reach follows from the pieces, and is made again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use sql::{CodeEffects, StoredCode};

use super::{Base, Change, Known, Object, Runs, SharedCode, State, Unknown};

/// [`SharedCode`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenCode {
    version: u64,
    wanted: bool,
    /// The server's pieces.
    read: Vec<Object>,
    known: Known,
    changes: BTreeMap<u64, Change>,
    unknown: Unknown,
    last_change: u64,
    beyond: CodeEffects,
}

plain!(struct FrozenCode { version, wanted, read, known, changes, unknown, last_change, beyond });
plain!(struct Object { runs, schema, name, code, defaults });
plain!(enum Runs { 0 => Called, 1 => Written, 2 => Used, 3 => Anyhow });
plain!(struct StoredCode { effects, names });
plain!(struct Known { routines, triggers, views, columns });
plain!(struct Change { objects, ended });
plain!(struct Unknown { under_way, begun, read, in_reading });

impl SharedCode {
    /// Takes all of it out.
    pub(crate) fn freeze(&self) -> FrozenCode {
        let Self { version, wanted, state: _ } = self; // taken next
        let State { read, known, changes, unknown, last_change, library: _, beyond } =
            std::mem::take(&mut *self.state());
        FrozenCode {
            version: version.swap(0, SeqCst),
            wanted: wanted.swap(false, SeqCst),
            read: read.objects().collect(),
            known,
            changes,
            unknown,
            last_change,
            beyond,
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&self, frozen: FrozenCode) {
        let FrozenCode { version, wanted, read, known, changes, unknown, last_change, beyond } = frozen;
        let (read, library) = (Arc::new(Base::new(read)), Arc::default());
        let mut state = State { read, known, changes, unknown, last_change, library, beyond };
        state.library = Arc::new(state.make_library());
        *self.state() = state;
        self.version.store(version, SeqCst);
        self.wanted.store(wanted, SeqCst);
    }
}

#[cfg(test)]
mod tests;
