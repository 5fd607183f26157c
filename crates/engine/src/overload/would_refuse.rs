//! Counts what options that are off would have refused, so that their effect can be seen before one is turned on.

use std::time::Duration;

use seam::Instant;

use super::Delay;
use crate::request::Request;
use crate::scheduler::lane::Class;
use crate::scheduling::Scheduling;
use crate::settings::Settings;

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
}

impl Scheduling {
    /// New work starts after it has waited for so long.
    pub(super) fn note_would_refuse(
        &mut self,
        now: Instant,
        settings: &Settings,
        class: Class,
        request: &Request,
    ) {
        let (overload, would) = (&settings.overload, &mut self.new_work.would_refuse);
        let waited = request.turn.waited;
        if class == Class::Long {
            would.long_queue_wait_limit +=
                u64::from(overload.long_queue_wait_limit.is_zero() && waited >= LONG_WAIT);
            return;
        }
        would.queue_wait_limit += u64::from(overload.queue_wait_limit.is_zero() && waited >= WAIT);
        if overload.queue_delay_target.is_zero() {
            let late = waited > DELAY;
            let interval = overload.queue_delay_interval;
            would.delay.note_start(now, late, interval);
            if would.delay.is_standing() && late {
                would.delay.note_refusal(now);
                would.queue_delay_target += 1;
            }
            would.delay.pass(now, interval);
        }
    }
}
