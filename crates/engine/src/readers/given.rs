//! Values that a session is given on a replica, so that its reads give there what they give on the primary, and write nothing.

use crate::server::control::defaults::{Defaults, Values};
use crate::session::SessionState;

/// Values for sessions of the primary on one replica.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The versions of both servers' answers that the values come from; `None` where one of them is not known.
    versions: Option<(u64, u64)>,
    values: Values,
    read_only: Option<&'static [u8]>,
}

impl Given {
    /// Takes up with what new sessions begin on both servers.
    pub(super) fn learn(&mut self, primary: &Defaults, replica: &Defaults) {
        let versions = primary.version().zip(replica.version());
        if versions == self.versions {
            return;
        }
        self.versions = versions;
        self.values = versions.map(|_| primary.of_reads_at(replica)).unwrap_or_default();
        self.read_only = versions.and_then(|_| replica.read_only());
    }

    /// Says whether it is known.
    pub(super) fn is_known(&self) -> bool {
        self.versions.is_some()
    }

    /// The session as it is to be on the replica.
    pub(super) fn give(&self, state: &mut SessionState) {
        state.keep_values(&self.values);
        // A function that a view calls writes with the rights of whoever has made it, which may be those to write in spite of read_only.
        if let Some(name) = self.read_only {
            state.set_variable(name, b"ON");
        }
    }
}
