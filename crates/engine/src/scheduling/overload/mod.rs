//! Decides what happens when more comes than the server can do.
//!
//! Work that will not start in time is refused at once instead of making everything behind it late: where more statements
//! wait than may ([`settings::OverloadSettings::queue_limit`]), where one has waited longer than it may
//! ([`settings::OverloadSettings::queue_wait_limit`]), and where there is a standing delay ([`delay`]). Only new work is refused: a
//! statement of a client that holds a backend, for a transaction or by a pin, may be what others wait for.
//!
//! The refusal is error 1205 (see [`crate::errors::MySqlError::refused`]): nothing has run, and the connection is as good as
//! before. It looks at the queues after each round of dispatching: what waits then has found no permit.

pub(crate) mod abandoned;
mod abandonment;
mod delay;
pub(crate) mod ending;
mod idle_holders;
pub(crate) mod new_work;
pub(crate) mod queue_lengths;
pub(crate) mod settings;
mod starts_lately;
mod unfair;
mod would_refuse;

use std::time::Duration;

use seam::Instant;

use crate::client::{Client, Phase};
use crate::errors::Bound;
use crate::ids::{ClientKey, Table};
use crate::outside::named::Limit;
use crate::pool::Pool;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::{Class, Lane};
use crate::settings::Settings;

impl Scheduling {
    /// How long new work of a class may wait now, and by which option.
    fn longest_wait(&self, settings: &Settings, class: Class) -> Option<(Duration, Limit)> {
        let overload = &settings.overload;
        let (time, option) = match class {
            Class::Short => (overload.queue_wait_limit, Limit::QueueWaitLimit),
            Class::Long => (overload.long_queue_wait_limit, Limit::LongQueueWaitLimit),
        };
        let target = overload.queue_delay_target;
        let standing = class == Class::Short && !target.is_zero() && self.new_work.delay.is_standing();
        if standing && (time.is_zero() || target < time) {
            return Some((target, Limit::QueueDelayTarget));
        }
        (!time.is_zero()).then_some((time, option))
    }

    /// The time at which the next statement will have waited too long.
    pub(crate) fn next_refusal(&self, now: Instant, settings: &Settings) -> Option<Instant> {
        let due = |class| {
            let (time, _) = self.longest_wait(settings, class)?;
            self.oldest_new(class).map(|(_, since)| self.new_work.starts_lately.counted_from(since) + time)
        };
        Class::ALL.into_iter().filter_map(due).chain(self.next_unfair(now, settings)).min()
    }

    /// New work of a client starts: what it has waited tells whether there is a standing delay, and how fast the queues move.
    fn note_queue_delay(&mut self, now: Instant, settings: &Settings, client: &Client, request: &Request) {
        // Who follows another's statement has not come through the queue.
        let queued = !matches!(client.phase(), Phase::Following { .. });
        let Some(lane) = request.turn.lane().filter(|_| queued && client.backend.is_none()) else { return };
        let waited = request.turn.waited();
        self.new_work.would_refuse.note(now, &settings.overload, Class::of(lane), waited);
        if Class::of(lane) == Class::Long {
            return;
        }
        if lane != Lane::Contended {
            self.new_work.starts_lately.note(now);
        }
        let (target, interval) =
            (settings.overload.queue_delay_target, settings.overload.queue_delay_interval);
        if !target.is_zero() {
            let waited = waited.max(self.passed_over_for(now, settings, request));
            self.new_work.delay.note_start(now, waited > target, interval);
        }
    }

    /// The next new work of a class to be refused since it has waited too long. To be asked until there is none.
    pub(crate) fn next_late(
        &mut self,
        now: Instant,
        settings: &Settings,
        class: Class,
    ) -> Option<(ClientKey, Bound)> {
        let (time, option) = self.longest_wait(settings, class)?;
        let late = self
            .oldest_new(class)
            .filter(|&(_, since)| self.new_work.starts_lately.counted_from(since) + time <= now);
        match late {
            Some(_) if class == Class::Short => self.new_work.delay.note_refusal(now),
            None if class == Class::Short => {
                self.new_work.delay.pass(now, settings.overload.queue_delay_interval);
            }
            _ => {}
        }
        late.map(|(client, _)| (client, Bound::time(option, time)))
    }

    /// The next new work of a class to be refused since more waits than may. To be asked until there is none.
    pub(crate) fn next_surplus(
        &self,
        settings: &Settings,
        pool: &Pool,
        clients: &Table<ClientKey, Client>,
        class: Class,
    ) -> Option<(ClientKey, Bound)> {
        let overload = &settings.overload;
        let (limit, option) = match class {
            Class::Short => (overload.queue_limit, Limit::QueueLimit),
            Class::Long => (overload.long_queue_limit, Limit::LongQueueLimit),
        };
        if limit == 0 {
            return None;
        }
        let (lengths, waiting) = (&pool.workers.queue_lengths, self.waiting_of(class));
        let too_many = waiting + lengths.others(pool.worker, class) > limit as usize;
        let surplus = if too_many { self.newest_new(clients, class) } else { None };
        if surplus.is_none() {
            lengths.note(pool.worker, class, waiting);
        }
        surplus.map(|client| (client, Bound::count(option, limit)))
    }

    /// The next new work to be refused since it has been passed over for longer than this.
    pub(crate) fn next_passed_over(
        &self,
        now: Instant,
        settings: &Settings,
        longest: Duration,
    ) -> Option<(ClientKey, Bound)> {
        let (client, since) = self.oldest_unfair(settings)?;
        let bound = Bound::time(Limit::UnfairWaitLimit, settings.overload.unfair_wait_limit);
        (since + longest <= now).then_some((client, bound))
    }
}
