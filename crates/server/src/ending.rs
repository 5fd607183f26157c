//! How the program ends: first `/readyz` says so and everybody is served on (`drain_wait`), then nobody new is taken and the others
//! finish (`shutdown_timeout`), then everything is closed.

use std::time::{Duration, Instant};

use seam::Signal;

/// After the second signal the event loop has this long to end. It closes everything at once and needs milliseconds;
/// one that hangs must not keep the process.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody has asked for it.
    Serving,
    /// Clients come and are served, and those who ask are told that it is about to end.
    Unready { until: Instant },
    /// The workers take nobody new, and end by themselves.
    Draining,
    /// The workers have been told to drop everything.
    Stopping { until: Instant },
}

/// See the module. It says what the workers are to be told; its caller tells them.
pub(crate) struct Ending {
    stage: Stage,
    drain_wait: Duration,
    shutdown_timeout: Duration,
}

impl Ending {
    /// Of a program that serves.
    pub(crate) fn new(drain_wait: Duration, shutdown_timeout: Duration) -> Self {
        Self { stage: Stage::Serving, drain_wait, shutdown_timeout }
    }

    /// Somebody asks for the end: for the first time, or once more, which breaks off what is under way.
    pub(crate) fn asked(&mut self, now: Instant) -> Option<Signal> {
        let shutdown_timeout = self.shutdown_timeout.as_secs();
        match self.stage {
            Stage::Serving if self.drain_wait > Duration::ZERO => {
                tracing::info!(
                    "ending: not ready any more, and for {} s (drain_wait) clients are served as before; then nobody new is, and \
                     open transactions have {shutdown_timeout} s (shutdown_timeout). Once more (Ctrl-C, SIGTERM) ends at once",
                    self.drain_wait.as_secs_f64()
                );
                self.stage = Stage::Unready { until: now + self.drain_wait };
                None
            }
            Stage::Serving => Some(self.drain()),
            Stage::Unready { .. } | Stage::Draining | Stage::Stopping { .. } => Some(self.stop(now)),
        }
    }

    /// How long the end takes at most, once somebody has asked for it.
    pub(crate) fn longest(&self) -> Duration {
        self.drain_wait + self.shutdown_timeout + STOP_TIMEOUT
    }

    /// Everything is to be closed at once.
    pub(crate) fn stop(&mut self, now: Instant) -> Signal {
        if !matches!(self.stage, Stage::Stopping { .. }) {
            self.stage = Stage::Stopping { until: now + STOP_TIMEOUT };
        }
        Signal::Stop
    }

    /// When [`Ending::time_is_up`] is to be called.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Serving | Stage::Draining => None,
            Stage::Unready { until } | Stage::Stopping { until } => Some(until),
        }
    }

    /// The next stage; `None` where there is none, since workers that were told to drop everything hang.
    pub(crate) fn time_is_up(&mut self) -> Option<Signal> {
        match self.stage {
            Stage::Serving | Stage::Draining | Stage::Unready { .. } => Some(self.drain()),
            Stage::Stopping { .. } => None,
        }
    }

    fn drain(&mut self) -> Signal {
        self.stage = Stage::Draining;
        tracing::info!(
            "ending: no new clients; open transactions have {} s (shutdown_timeout). Once more (Ctrl-C, SIGTERM) ends at once",
            self.shutdown_timeout.as_secs()
        );
        Signal::Drain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    #[test]
    fn it_waits_then_drains_and_stops_when_asked_again() {
        let now = Instant::now();
        let mut ending = Ending::new(WAIT, Duration::from_secs(30));
        assert_eq!(ending.until(), None);
        assert_eq!(ending.asked(now), None);
        assert_eq!(ending.until(), Some(now + WAIT));
        assert_eq!(ending.time_is_up(), Some(Signal::Drain));
        // From here on the workers look at the clock.
        assert_eq!(ending.until(), None);
        assert_eq!(ending.asked(now), Some(Signal::Stop));
        assert_eq!(ending.until(), Some(now + STOP_TIMEOUT));
        assert_eq!(ending.time_is_up(), None, "they hang");
    }

    #[test]
    fn without_a_wait_it_drains_at_once() {
        let mut ending = Ending::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(ending.asked(Instant::now()), Some(Signal::Drain));
        assert_eq!(ending.until(), None);
    }

    #[test]
    fn a_second_order_ends_the_wait_and_a_third_puts_nothing_off() {
        let now = Instant::now();
        let mut ending = Ending::new(WAIT, Duration::ZERO);
        assert_eq!(ending.asked(now), None);
        assert_eq!(ending.asked(now), Some(Signal::Stop));
        assert_eq!(ending.asked(now + WAIT), Some(Signal::Stop));
        assert_eq!(ending.until(), Some(now + STOP_TIMEOUT));
    }
}
