//! Reading everything again: at SIGHUP, and at RELOAD.

use super::Control;
use super::no_change::{NoOptions, NotReloaded};

impl Control {
    /// Reads the options and the files that they name again, and opens the slow log anew. Returns what stays as it is until the
    /// next start.
    ///
    /// # Errors
    /// All that is wrong. That stays as it was; the rest is taken up.
    pub(crate) fn reload(&self) -> Result<Vec<String>, NotReloaded> {
        self.program.supervisor.reloading();
        // Files that have changed hold whatever else does not.
        self.program.slow_log.reopen();
        let files = self.program.tls.read_again();
        let options = self.read_options_again();
        let worked = files.is_ok() && options.is_ok();
        self.reloaded.store(worked, std::sync::atomic::Ordering::Relaxed);
        self.program.supervisor.ready();
        match (options, files) {
            (Ok(left), Ok(())) => Ok(left),
            (Err(options), Err(files)) => Err(NotReloaded::Both(options, files)),
            (Err(options), Ok(())) => Err(NotReloaded::Options(options)),
            (Ok(_), Err(files)) => Err(NotReloaded::Files(files)),
        }
    }

    /// [`Self::reload`], for nobody but the log.
    pub(crate) fn reload_and_say(&self) {
        match self.reload() {
            Ok(left) => {
                tracing::info!("options, certificates and keys have been read again");
                for line in left {
                    tracing::warn!("{line}");
                }
            }
            Err(reason) => {
                tracing::error!(
                    "read again, but for what stays as it was because it cannot be used: {reason}"
                );
            }
        }
    }

    fn read_options_again(&self) -> Result<Vec<String>, NoOptions> {
        let mut fresh = self.program.arguments.load().map_err(|error| NoOptions::Wrong(Box::new(error)))?;
        self.program.handed_over.replace(&mut fresh).map_err(NoOptions::Sockets)?;
        // Held to the end, so that two changes do not cross.
        let mut configuration = self.configuration();
        let left = configuration.take_up(&fresh);
        self.take_effect(&configuration).map_err(NoOptions::NotAnswered)?;
        Ok(left)
    }
}
