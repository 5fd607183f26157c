//! A worker's engine and its readers as one.

use super::WorkerView;
use crate::readers::view::REFUSING;

impl WorkerView {
    /// Adds a reader's figures to the worker's. The reader's guests are the worker's clients anyway. Figures about the server stay those of the
    /// primary.
    pub(super) fn take_in(&mut self, reader: Self) {
        self.backends += reader.backends;
        self.idle_backends += reader.idle_backends;
        self.opening_backends += reader.opening_backends;
        self.transactions += reader.transactions;
        self.permits += reader.permits;
        self.lent += reader.lent;
        self.queued += &reader.queued;
        self.held_up_by.long = self.held_up_by.long.or(reader.held_up_by.long);
        self.held_up_by.others = self.held_up_by.others.or(reader.held_up_by.others);
        self.oldest_queued = self.oldest_queued.max(reader.oldest_queued);
        for (queue, &longest) in reader.longest_waits.iter() {
            self.longest_waits[queue] = self.longest_waits[queue].max(longest);
        }
        self.is_stalled |= reader.is_stalled;
        self.session_states += reader.session_states;
        self.buffered += reader.buffered;
        self.totals += &reader.totals;
        self.statements += reader.statements;
        self.waited_for_permit += reader.waited_for_permit;
        self.blockers.extend(reader.blockers);
        // Each engine has the bounds for itself: what is nearest to its bound counts.
        for ((_, in_use), (_, of_reader)) in self.in_use.iter_mut().zip(reader.in_use) {
            *in_use = (*in_use).max(of_reader);
        }
        for (limit, bound, times) in reader.limits_reached {
            if REFUSING.contains(&limit) {
                continue;
            }
            match self.limits_reached.iter_mut().find(|(own, ..)| *own == limit) {
                Some((_, _, own)) => *own += times,
                None => self.limits_reached.push((limit, bound, times)),
            }
        }
    }
}
