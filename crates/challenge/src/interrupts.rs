//! Ctrl-C and SIGTERM: a flag that everything which waits looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Lack};

/// Whether somebody wants this to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// Watches the signals from here on; their default action, which would end the process at once, is off.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn watch() -> Result<Self, Error> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag.0))
                .map_err(|error| Error::Machine(Lack::Signals(error)))?;
        }
        Ok(flag)
    }

    /// Whether one of them came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
