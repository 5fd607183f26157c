//! Ctrl-C and SIGTERM: a flag that everything which waits looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether somebody wants this to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// Watches the signals from here on; their default action, which would end the process at once, is off.
    ///
    /// # Errors
    /// A line for the user, where the system does not allow it.
    pub(crate) fn watch() -> Result<Self, String> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag.0))
                .map_err(|error| format!("signals cannot be watched: {error}"))?;
        }
        Ok(flag)
    }

    /// Whether one of them came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
