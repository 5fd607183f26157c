//! Processes of members that die and are started anew, at once or later, with their group or without it.

use std::time::Duration;

use super::super::World;
use super::super::agreement::ASKED_AGAIN;
use super::super::cluster::Act;
use super::GroupAct;
use crate::schedule::Happening;
use crate::subject::Subject;

/// Of 100 members that die so many are back at once, as a process is that something watches over.
const AT_ONCE: u64 = 50;

/// Then it takes so many microseconds at most: less than there are between two checks.
const AT_ONCE_WITHIN: u64 = 150_000;

/// Of 100 that are back at once, so many times its checks' connections say nothing of that for a while: they are another thread's than the clients',
/// or come by another way.
const UNHEARD: u64 = 50;

/// For so many microseconds at most.
const UNHEARD_FOR: u64 = 400_000;

/// Of 100 members that die so many take another one with them.
const TWO_AT_ONCE: u64 = 15;

/// Of 100 that are started anew without taking part by themselves so many have no plugin: somebody has changed the configuration.
const WITHOUT_PLUGIN: u64 = 25;

impl<P: Subject> World<P> {
    /// A member has died: when it is back, where that is at once.
    pub(in crate::world) fn back_at_once(&mut self, at: usize) -> Option<u64> {
        let group = self.group.as_mut()?;
        let random = &mut group.random;
        if random.percent(TWO_AT_ONCE) {
            let other = random.index(3);
            let pause = random.between(300_000, 8_000_000);
            if self.is_up[other] {
                self.say(other, "dies too");
                self.crash(other);
                self.schedule.at(self.now + pause, Happening::ServerUp(other));
            }
        }
        let random = &mut self.group().random;
        if !random.percent(AT_ONCE) {
            return None;
        }
        let pause = random.between(5_000, AT_ONCE_WITHIN);
        if random.percent(UNHEARD) {
            let lasts = random.between(10_000, UNHEARD_FOR);
            self.cut_checks(at, lasts);
        }
        Some(pause)
    }

    /// A process has been started anew.
    pub(in crate::world) fn restart_member(&mut self, at: usize) {
        self.say(at, "is back, and out of its group");
        let (now, calm) = (self.now, self.calm);
        let group = self.group();
        group.started[at] = now;
        let boots = group.drawn.boots;
        let is_plain = !boots && !calm && group.random.percent(WITHOUT_PLUGIN);
        self.seat_mut(at).restart(!is_plain);
        // Its configuration has not read_only: the group sets that. One that takes part by itself begins with it.
        self.member_mut(at).read_only = boots;
        self.plan_join(at);
    }

    /// An operator has the plugin back in the configuration, and starts the server anew.
    pub(super) fn start_with_plugin(&mut self, at: usize) {
        self.be_started_with_plugin(at);
        self.plan_join(at);
    }

    pub(super) fn be_started_with_plugin(&mut self, at: usize) {
        self.say(at, "is started with its plugin");
        self.crash(at);
        self.is_up[at] = true;
        let now = self.now;
        self.group().started[at] = now;
        self.seat_mut(at).restart(true);
    }

    /// Whether a server without a plugin is all that there is for whoever asks: no other one has taken itself for a member, and was reached,
    /// for a while, or roles have just changed. A program may take it then: a group that is ended on purpose looks so. It is of no group for whoever has taken it,
    /// also as it comes back with its plugin, until it says something else.
    pub(super) fn is_all_there_is(&self, at: usize) -> bool {
        let Some(cluster) = self.cluster.as_ref().filter(|_| self.seat(at).is_or_was_plain()) else {
            return false;
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).expect("seconds");
        let (interval, timeout) = (micros(cluster.drawn.check_interval), micros(cluster.drawn.check_timeout));
        let has_just_changed = cluster.changed + 3 * interval + timeout > self.now;
        let is_there = |other: usize| {
            self.seat(other).takes_part()
                && self.is_reached(other)
                && cluster.disturbed[other] + ASKED_AGAIN + timeout < self.now
        };
        has_just_changed || !(0..self.servers.len()).any(|other| other != at && is_there(other))
    }

    pub(super) fn plan_join(&mut self, at: usize) {
        let calm = self.calm;
        let group = self.group();
        let longest = if calm { 500_000 } else { 5_000_000 };
        let pause = group.random.between(100_000, longest);
        self.plan(pause, Act::Group(GroupAct::Join(at)));
    }
}
