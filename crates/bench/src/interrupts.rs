//! Ctrl-C ends a run early, with its summary; a second one at once.

use drivers::{Driver, Signaller};
use seam::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::errors::{ClientError, Failure};

/// Forwards SIGINT and SIGTERM to a driver until it is dropped.
pub struct Interrupts {
    handle: Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Begins to forward. The default action of the signals, which would end the process, is off from here on.
///
/// # Errors
/// Where the system gives no descriptor or no thread.
pub fn forward(driver: &Driver) -> Result<Interrupts, Failure> {
    let failed = |error| Failure::new(ClientError::Lost, format!("signals cannot be watched: {error}"));
    let signaller = driver.signaller().map_err(failed)?;
    let signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let handle = signals.handle();
    let thread = std::thread::spawn(move || relay(signals, &signaller));
    Ok(Interrupts { handle, thread: Some(thread) })
}

fn relay(mut signals: Signals, signaller: &Signaller) {
    let mut next = Signal::Drain;
    for _ in signals.forever() {
        signaller.send(next);
        next = Signal::Stop;
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It holds nothing that a panic could have left half done.
            let _ = thread.join();
        }
    }
}
