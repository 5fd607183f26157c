//! The times at which the engine has something to do by itself: one closed list.
//!
//! A timer that is forgotten here is a hang, since nobody comes back for it. One that stays in the past is a spin: the next turn
//! comes at once, and finds it there again. So each turn of a debug build looks at its end what it has left there.

pub(crate) mod list;

use seam::Instant;

use self::list::Timer;

impl Timer {
    /// A turn has ended: nothing that was due, by what each says, is still to be done.
    ///
    /// # Panics
    ///
    /// Where that is not so.
    pub(crate) fn check_turn(now: Instant, workers: u32, due: impl Fn(Self) -> Option<Instant>) {
        for &timer in Self::ALL.iter().filter(|timer| !timer.may_stay_due(workers)) {
            let at = due(timer);
            assert!(at.is_none_or(|at| at >= now), "{timer:?} was due at {at:?}, {now:?} is over");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    #[test]
    fn what_rests_while_paused_is_not_due() {
        let mut engine = engine(1, Settings::default());
        engine.scheduling.urgent.push((engine.clients.ref_to(client_key(0)), engine.now));
        assert!(engine.timer(Timer::LackOfBackends).is_some());
        engine.pause();
        assert_eq!(engine.timer(Timer::LackOfBackends), None);
        assert!(engine.timer(Timer::Sweep).is_some());
    }

    #[test]
    #[should_panic(expected = "Sweep was due")]
    fn a_turn_that_leaves_a_timer_in_the_past_is_found_out() {
        let now = Instant::START + Duration::from_micros(1);
        Timer::check_turn(now, 1, |timer| (timer == Timer::Sweep).then_some(Instant::START));
    }

    #[test]
    fn what_is_due_now_or_may_stay_due_is_left_to_the_next_turn() {
        let now = Instant::START + Duration::from_micros(1);
        Timer::check_turn(now, 1, |timer| match timer {
            Timer::KickUp | Timer::Stall => Some(Instant::START),
            _ => Some(now),
        });
    }
}
