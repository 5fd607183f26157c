//! What operators do with a group: a planned change of its primary, members that are stopped, mistakes, and a group that is begun anew.

use super::super::World;
use super::super::cluster::Act;
use super::kept::Kept;
use super::{GroupAct, LOST_FOR_GOOD, number};
use crate::clusters::Trouble;
use crate::server::group::{State, View};
use crate::subject::Subject;

/// Of 100 groups that are lost so many are begun anew with the first server that is there, by somebody who has not looked what the others had.
const HASTY: u64 = 30;

impl<P: Subject> World<P> {
    /// An operator changes the primary (`group_replication_set_as_primary`).
    pub(in crate::world) fn set_as_primary(&mut self, next: usize) {
        let Some(former) = self.group().primary() else { return };
        if former != next && self.is_heard(former) && self.seat(next).said.state == State::Online {
            self.say(next, "is to be the primary");
            self.member_mut(former).read_only = true;
            // Which may be given up before anybody looks: it has said that it takes no writes.
            (self.group().next_primary, self.group().kept) = (Some(next), Kept::default());
        }
    }

    /// No majority of the members is left: an operator begins the group anew with the server that has most, once nobody of the former one runs elsewhere.
    pub(super) fn begin_anew_if_lost(&mut self) {
        let (now, calm) = (self.now, self.calm);
        let all = 0..self.servers.len();
        if all.clone().any(|at| self.is_heard(at)) {
            self.group().lost_since = None;
            return;
        }
        let group = self.group();
        if group.lost_since.is_none() {
            group.is_hasty = group.random.percent(HASTY);
        }
        let since = *group.lost_since.get_or_insert(now);
        let is_hasty = group.is_hasty;
        let is_sure = all.clone().all(|at| !self.is_up[at] || self.is_in_touch(at));
        let running: Vec<usize> = all.filter(|&at| self.is_up[at]).collect();
        let patience = if calm { 0 } else { LOST_FOR_GOOD / if is_hasty { 4 } else { 1 } };
        let members = self.group().members();
        let takes_part = |at: &&usize| self.is_up[**at] && self.seat(**at).takes_part();
        let is_lost = !self
            .group
            .as_ref()
            .is_some_and(|group| group.view.is_majority(members.iter().filter(takes_part).count()));
        if now < since + patience || !is_sure || !is_lost {
            return;
        }
        // What has come to one that runs is carried out first.
        for &at in &running {
            if let Some(next) = self.next_in_group(at, usize::MAX) {
                self.servers[at].database.replicate(next);
            }
        }
        let most = |at: &&usize| (self.member(**at).log().len(), usize::MAX - **at);
        let first = if is_hasty { running.iter().min_by_key(most) } else { running.iter().max_by_key(most) };
        if let Some(&first) = first {
            self.begin_anew(first, &running);
        }
    }

    pub(super) fn begin_anew(&mut self, first: usize, running: &[usize]) {
        if self.seat(first).is_plain {
            self.be_started_with_plugin(first);
        }
        self.say(first, "begins the group anew");
        let log = self.member(first).log().to_vec();
        for &at in running.iter().filter(|&&at| at != first) {
            if self.seat(at).takes_part() {
                self.lose_group(at);
            }
        }
        let (now, count) = (self.now, self.servers.len());
        let group = self.group();
        group.view = View {
            began: group.view.began + 1,
            changes: 1,
            members: [(number(first), State::Online)].into(),
            primary: None,
        };
        group.received = vec![0; count];
        group.received[first] = log.len();
        (group.log, group.lost_since) = (log, None);
        group.heard.iter_mut().for_each(|heard| heard.fill(now));
        let seat = self.seat_mut(first);
        (seat.said.state, seat.is_offline) = (State::Online, false);
        self.elect();
        self.note_lost(first);
    }

    pub(in crate::world) fn trouble_group(&mut self, trouble: Trouble, at: usize, lasts: u64) {
        let random = &mut self.group().random;
        let (kind, other) = (random.below(3), random.index(3));
        match trouble {
            Trouble::Replica => {
                self.say(at, "hears of no other member");
                self.group().apart[at] = true;
                self.plan(lasts, Act::Group(GroupAct::Meet(at)));
            }
            Trouble::Mistake if kind == 0 => self.make_writable(at, lasts),
            Trouble::Mistake => self.stop_member(at),
            Trouble::Change => self.set_as_primary(other),
            _ => {}
        }
    }

    /// Somebody has a secondary take writes, by mistake.
    fn make_writable(&mut self, at: usize, lasts: u64) {
        let is_primary = self.group().primary() == Some(at);
        if !is_primary && self.is_up[at] && self.seat(at).said.state == State::Online {
            self.say(at, "is made writable by mistake");
            self.member_mut(at).read_only = false;
            self.plan(lasts, Act::Group(GroupAct::Correct(at)));
        }
    }

    /// STOP GROUP_REPLICATION: the others hear of it at once. It stays read only.
    pub(super) fn stop_member(&mut self, at: usize) {
        if self.is_reached(at) && self.is_heard(at) && self.group().members().len() > 1 {
            self.say(at, "leaves the group");
            self.member_mut(at).read_only = true;
            self.seat_mut(at).said.state = State::Offline;
            self.seat_mut(at).said.unreachable.clear();
            self.change_members(|view| view.members.retain(|member, _| *member != number(at)));
            self.plan_join(at);
        }
    }

    /// All troubles have ended: who was away is started, and who is out of the group comes back.
    pub(in crate::world) fn calm_group(&mut self) {
        self.group().kept.count_from_now();
        self.group().apart.fill(false);
        self.give_up_change();
        for at in 0..self.servers.len() {
            if !std::mem::replace(&mut self.is_up[at], true) {
                self.restart_member(at);
            } else if !self.seat(at).takes_part() {
                self.plan_join(at);
            }
            let is_primary = self.group().primary() == Some(at);
            if !is_primary {
                self.member_mut(at).read_only = true;
            }
        }
    }
}
