//! Counts what options that are off would have refused, so that their effect can be seen before one is turned on.

use std::time::Duration;

use seam::Instant;

use super::delay::Delay;
use super::settings::OverloadSettings;
use crate::scheduling::scheduler::lane::Class;

/// Counts by option.
#[derive(Debug)]
pub(crate) struct WouldRefuse {
    delay: Delay,
    pub(crate) queue_wait_limit: u64,
    pub(crate) queue_delay_target: u64,
    pub(crate) long_queue_wait_limit: u64,
}

/// The time limit that is counted with: most clients' own patience is ten seconds and more.
const WAIT: Duration = Duration::from_secs(10);

/// A standing delay of this much is felt by everybody.
const DELAY: Duration = Duration::from_secs(1);

/// Long statements are seconds long themselves.
const LONG_WAIT: Duration = Duration::from_secs(60);

impl WouldRefuse {
    pub(crate) const NONE: Self =
        Self { delay: Delay::NONE, queue_wait_limit: 0, queue_delay_target: 0, long_queue_wait_limit: 0 };

    /// New work of a class starts after it has waited for so long.
    pub(super) fn note(&mut self, now: Instant, options: &OverloadSettings, class: Class, waited: Duration) {
        if class == Class::Long {
            self.long_queue_wait_limit +=
                u64::from(options.long_queue_wait_limit.is_zero() && waited >= LONG_WAIT);
            return;
        }
        self.queue_wait_limit += u64::from(options.queue_wait_limit.is_zero() && waited >= WAIT);
        if options.queue_delay_target.is_zero() {
            let late = waited > DELAY;
            let interval = options.queue_delay_interval;
            self.delay.note_start(now, late, interval);
            if self.delay.is_standing() && late {
                self.delay.note_refusal(now);
                self.queue_delay_target += 1;
            }
            self.delay.pass(now, interval);
        }
    }
}
