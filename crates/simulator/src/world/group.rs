//! The members of a group (Group Replication, single-primary mode), and what befalls them: whom they hear of, whom they leave out, whom they elect, and
//! what operators do.
//!
//! There is one view of the members at a time, which a majority of them has agreed on, and one order of all transactions: that is what their protocol gives
//! them, and it is taken for granted here. Each hears of both later, and some not at all.

mod kept;
mod operators;
mod restarts;

use std::rc::Rc;

use self::kept::Kept;
use super::World;
use super::agreement::ASKED_AGAIN;
use super::cluster::Act;
use super::servers::Way;
use crate::clusters::{GroupParameters, Trouble};
use crate::random::Random;
use crate::server::Link;
use crate::server::group::{Said, Seat, State, View};
use crate::server::member::{Committed, Member, ServerNumber};
use crate::subject::Subject;
use crate::token::Token;

/// So often each looks whom it hears of.
const TICK: u64 = 50_000;

/// Of 100 looks in so many a member takes in what the others have agreed on: after 50 milliseconds mostly, and half a second at times.
const TAKES_IN: u64 = 60;

/// Operators begin a group anew that has lost its majority for good when this has lasted for so long, in microseconds.
const LOST_FOR_GOOD: u64 = 4_000_000;

/// Something that happens to members of a group.
#[derive(Clone, Copy, Debug)]
pub enum GroupAct {
    /// All that run look whom they hear of.
    Look,
    /// The member at this place hears of the others again.
    Meet(usize),
    /// The server at this place is to take part again.
    Join(usize),
    /// A secondary that somebody has made writable by mistake is that no more.
    Correct(usize),
}

/// The group, as it is.
#[derive(Debug)]
pub(super) struct Group {
    drawn: GroupParameters,
    random: Random,
    view: View,
    /// All that it has agreed on.
    log: Vec<Rc<Committed>>,
    /// Of each member, how much of that has come to it.
    received: Vec<usize>,
    /// The members at these places hear of none of the others.
    apart: Vec<bool>,
    /// When each has heard of each other one last.
    heard: Vec<Vec<u64>>,
    /// Since when each has no majority.
    alone_since: Vec<Option<u64>>,
    /// Since when no majority of the view agrees on anything.
    lost_since: Option<u64>,
    /// Operators take the member that has least for the one to begin anew with, and do not wait for long.
    is_hasty: bool,
    /// The member at this place is to be the primary, by plan (`group_replication_set_as_primary`).
    next_primary: Option<usize>,
    /// Since when the primary takes writes.
    writes_since: Option<u64>,
    /// When each process was started.
    started: Vec<u64>,
    /// Since when the primary has been as it is, for whoever asks, and which programs have had it since.
    kept: Kept,
}

fn number(place: usize) -> ServerNumber {
    u32::try_from(place + 1).expect("few servers")
}

fn place(number: ServerNumber) -> usize {
    number as usize - 1
}

impl Group {
    pub(super) fn new(drawn: GroupParameters, count: usize, seed: u64) -> Self {
        Self {
            drawn,
            random: Random::new(seed),
            view: Seat::new(number(count - 1)).said.view,
            log: Vec::new(),
            received: vec![0; count],
            apart: vec![false; count],
            heard: vec![vec![0; count]; count],
            alone_since: vec![None; count],
            lost_since: None,
            next_primary: None,
            writes_since: Some(0),
            is_hasty: false,
            started: vec![0; count],
            kept: Kept::default(),
        }
    }

    /// The place of the primary, as the members have agreed.
    pub(super) fn primary(&self) -> Option<usize> {
        self.view.primary.map(place)
    }

    fn members(&self) -> Vec<usize> {
        self.view.members.keys().map(|&number| place(number)).collect()
    }

    fn has(&self, at: usize) -> bool {
        self.view.members.contains_key(&number(at))
    }
}

impl<P: Subject> World<P> {
    pub(super) fn is_group(&self) -> bool {
        self.group.is_some()
    }

    fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect("the servers are a group")
    }

    fn seat(&self, at: usize) -> &Seat {
        self.member(at).seat.as_ref().expect("the servers are a group")
    }

    fn seat_mut(&mut self, at: usize) -> &mut Seat {
        self.member_mut(at).seat.as_mut().expect("the servers are a group")
    }

    pub(super) fn begin_group(&mut self) {
        if self.is_group() {
            self.plan(TICK, Act::Group(GroupAct::Look));
        }
    }

    pub(super) fn act_in_group(&mut self, act: GroupAct) {
        match act {
            GroupAct::Look => {
                self.look();
                self.plan(TICK, Act::Group(GroupAct::Look));
            }
            GroupAct::Meet(at) => {
                if std::mem::replace(&mut self.group().apart[at], false) {
                    self.say(at, "hears of the others again");
                }
            }
            GroupAct::Join(at) => self.join(at),
            GroupAct::Correct(at) => {
                if self.group().primary() != Some(at) {
                    self.member_mut(at).read_only = true;
                }
            }
        }
    }

    /// Whether a member's process runs and its messages come to others.
    fn is_in_touch(&self, at: usize) -> bool {
        self.is_reached(at) && self.group.as_ref().is_some_and(|group| !group.apart[at])
    }

    fn hear(&self, one: usize, other: usize) -> bool {
        one == other || (self.is_in_touch(one) && self.is_in_touch(other))
    }

    /// Whether a majority of the members would agree to what this one has to say: they need not be ONLINE.
    fn is_heard(&self, at: usize) -> bool {
        let Some(group) = &self.group else { return true };
        let takes_part = |other: &usize| self.is_up[*other] && self.seat(*other).takes_part();
        let heard =
            group.members().into_iter().filter(|&other| self.hear(at, other)).filter(takes_part).count();
        let runs = takes_part(&at) && !self.hangs(at);
        group.has(at) && runs && group.view.is_majority(heard)
    }

    /// What happens on a server now may have to wait for the others.
    pub(super) fn note_alone(&mut self, at: usize) {
        if self.is_group() {
            let is_alone = !self.is_heard(at);
            let is_primary = self.seat(at).said.view.primary == Some(number(at));
            let has_backlog = is_primary && !is_alone && !self.has_all(at);
            let seat = self.seat_mut(at);
            (seat.is_alone, seat.has_backlog) = (is_alone, has_backlog);
        }
    }

    /// A member has committed what the others have agreed to: it has come to those that it hears.
    pub(super) fn share(&mut self, from: usize, committed: &Rc<Committed>) {
        if self.is_group() && !self.is_heard(from) && !self.is_all_there_is(from) {
            let tokens = &committed.tokens;
            let text = format!(
                "server {} has committed {tokens:?}, and no majority of its group has agreed to that",
                from + 1
            );
            self.checkers.violation(text);
        }
        let to: Vec<usize> = (0..self.servers.len()).filter(|&to| self.hear(from, to)).collect();
        let Some(group) = &mut self.group else { return };
        group.log.push(Rc::clone(committed));
        for to in to.into_iter().filter(|&to| group.view.members.contains_key(&number(to))) {
            group.received[to] = group.log.len();
        }
    }

    /// What a member carries out next of what has come to it.
    pub(super) fn next_in_group(&self, at: usize, most: usize) -> Option<Vec<Rc<Committed>>> {
        let group = self.group.as_ref()?;
        let runs = self.is_up[at] && !self.hangs(at) && self.seat(at).takes_part();
        let come = &group.log[..group.received[at].min(group.log.len())];
        Some(if runs { self.member(at).next_of_log(come, most) } else { Vec::new() })
    }

    fn has_all(&self, at: usize) -> bool {
        self.group.as_ref().is_some_and(|group| self.member(at).next_of_log(&group.log, 1).is_empty())
    }

    fn look(&mut self) {
        for at in 0..self.servers.len() {
            self.listen(at);
        }
        self.leave_out();
        self.change_as_planned();
        for at in 0..self.servers.len() {
            if self.is_up[at] && !self.hangs(at) && self.seat(at).takes_part() {
                if self.is_heard(at) { self.take_in(at) } else { self.be_alone(at) }
            }
        }
        self.begin_anew_if_lost();
        self.check_kept();
    }

    /// A member notes of whom it hears.
    fn listen(&mut self, at: usize) {
        if !self.is_up[at] || self.hangs(at) {
            return;
        }
        let now = self.now;
        for other in 0..self.servers.len() {
            let hears = self.hear(at, other) && self.seat(other).takes_part();
            if hears {
                self.group().heard[at][other] = now;
            }
        }
        let group = self.group.as_ref().expect("the servers are a group");
        let view = &self.seat(at).said.view;
        let silent = |other: &ServerNumber| now - group.heard[at][place(*other)] > group.drawn.suspects;
        let unreachable =
            view.members.keys().copied().filter(|other| *other != number(at)).filter(silent).collect();
        self.seat_mut(at).said.unreachable = unreachable;
    }

    /// The members that go on leave out who has not been heard of for too long, and elect another primary where it was that one.
    fn leave_out(&mut self) {
        let now = self.now;
        let Some(leader) = (0..self.servers.len()).find(|&at| self.is_heard(at)) else { return };
        let group = self.group();
        let patience = group.drawn.suspects + group.drawn.expels;
        let lost = |other: &usize| now - group.heard[leader][*other] > patience;
        let gone: Vec<usize> =
            group.members().into_iter().filter(|&other| other != leader).filter(lost).collect();
        if !gone.is_empty() {
            self.change_members(|view| view.members.retain(|number, _| !gone.contains(&place(*number))));
            gone.into_iter().for_each(|at| self.say(at, "is left out by the others"));
        }
    }

    /// The members agree on another view.
    fn change_members(&mut self, change: impl FnOnce(&mut View)) {
        let group = self.group();
        change(&mut group.view);
        group.view.changes += 1;
        let is_there = group.view.primary.is_some_and(|primary| group.view.members.contains_key(&primary));
        if !is_there {
            group.view.primary = None;
            self.elect();
        }
    }

    /// The first by its `server_uuid` of those that are ONLINE, where all have the same weight.
    fn elect(&mut self) {
        let group = self.group();
        let online = group.view.members.iter().find(|(_, state)| **state == State::Online);
        if let Some(at) = online.map(|(number, _)| place(*number)) {
            self.has_primary(at);
        }
    }

    /// The members have agreed on a primary. It takes writes as soon as it has all that was agreed on before.
    fn has_primary(&mut self, at: usize) {
        let group = self.group();
        group.view.primary = Some(number(at));
        (group.next_primary, group.writes_since) = (None, None);
        self.say(at, "is the group's primary");
        if let Some(cluster) = &mut self.cluster {
            cluster.named = at;
        }
    }

    /// A member takes in what the others have agreed on, and does what follows for it.
    fn take_in(&mut self, at: usize) {
        let group = self.group();
        group.alone_since[at] = None;
        group.received[at] = group.log.len();
        if !group.random.percent(TAKES_IN) {
            return;
        }
        let (view, changes) = (group.view.clone(), group.next_primary.is_some());
        let is_primary = view.primary == Some(number(at));
        let state = view.members[&number(at)];
        self.plan_replication(at);
        let is_news = self.seat(at).said.view != view;
        let said = &mut self.seat_mut(at).said;
        (said.state, said.view) = (state, view);
        if is_news && !is_primary {
            self.member_mut(at).read_only = true;
        }
        if state == State::Recovering && self.has_all(at) {
            self.say(at, "has recovered");
            self.group().view.members.insert(number(at), State::Online);
            if self.group().view.primary.is_none() {
                self.elect();
            }
        }
        // The election ends when the backlog is carried out (BEFORE_ON_PRIMARY_FAILOVER): it says PRIMARY before, and takes no writes.
        if is_primary && !is_news && !changes && self.has_all(at) {
            if std::mem::replace(&mut self.member_mut(at).read_only, false) {
                self.say(at, "takes writes");
            }
            let now = self.now;
            self.group().writes_since.get_or_insert(now);
        }
    }

    /// A member whom no majority hears, or that the others have left out.
    fn be_alone(&mut self, at: usize) {
        let now = self.now;
        let is_left_out = !self.group().has(at);
        let hears_some = self.group().members().into_iter().any(|other| other != at && self.hear(at, other));
        let group = self.group();
        let hears_of_that = is_left_out && hears_some && group.random.percent(group.drawn.hears_left_out);
        // Its time begins when it is aware of that.
        let knows = !self.seat(at).said.has_majority();
        let group = self.group();
        group.alone_since[at] = knows.then(|| group.alone_since[at].unwrap_or(now));
        let lasts = group.alone_since[at].map_or(0, |since| now - since);
        let gives_up = group.drawn.gives_up.is_some_and(|limit| lasts > limit);
        if hears_of_that || gives_up {
            self.say(at, if hears_of_that { "hears that it is left out" } else { "gives up" });
            self.lose_group(at);
        }
    }

    /// A member is none any more, against its will: it takes no writes, and lets nobody log in, perhaps.
    fn lose_group(&mut self, at: usize) {
        self.seat_mut(at).said.state = State::Error;
        self.member_mut(at).read_only = true;
        let group = self.group();
        let drawn = group.drawn;
        group.alone_since[at] = None;
        if drawn.goes_offline && !drawn.rejoins {
            self.seat_mut(at).is_offline = true;
            let links: Vec<Link> = self.servers[at].links().collect();
            links.into_iter().for_each(|link| self.servers[at].close(link));
            self.carry_out_server(at);
        }
        self.plan_join(at);
    }

    /// A server is to take part again: by itself, or as an operator has it.
    fn join(&mut self, at: usize) {
        if !self.is_up[at] || self.hangs(at) || self.seat(at).takes_part() {
            return;
        }
        let goes_on = |other: &usize| self.is_heard(*other) && self.hear(at, *other);
        if !(0..self.servers.len()).any(|other| goes_on(&other)) || !self.is_in_touch(at) {
            return self.plan_join(at);
        }
        if self.seat(at).is_plain {
            return self.start_with_plugin(at);
        }
        if self.group().has(at) {
            // Its former self is a member still: it is taken in once that has been left out.
            return self.plan_join(at);
        }
        self.member_mut(at).read_only = true;
        let log = self.group().log.clone();
        let has = self.member(at).log();
        if has.iter().any(|committed| log.iter().all(|other| other.gtid != committed.gtid)) {
            // It is refused as it is ("This member has more executed transactions than those present in the group"): a copy of another takes its place.
            self.say(at, "is made a copy of another");
            self.crash(at);
            self.is_up[at] = true;
            self.servers[at].database.become_copy(log);
        }
        self.say(at, "comes into the group");
        self.change_members(|view| {
            view.members.insert(number(at), State::Recovering);
        });
        let (now, count) = (self.now, self.servers.len());
        let group = self.group();
        (0..count).for_each(|other| group.heard[other][at] = now);
        group.heard[at].fill(now);
        group.received[at] = group.log.len();
        let view = group.view.clone();
        let seat = self.seat_mut(at);
        (seat.said.state, seat.said.view, seat.is_offline) = (State::Recovering, view, false);
        seat.said.unreachable.clear();
    }

    /// The primary is changed by plan: the present one takes no writes any more, and once the next one has all the roles change.
    fn change_as_planned(&mut self) {
        let Some(next) = self.group().next_primary else { return };
        let (former, online) = {
            let group = self.group();
            (group.primary(), group.view.members.get(&number(next)) == Some(&State::Online))
        };
        let goes_on = |at: usize| self.is_heard(at) && self.seat(at).said.state == State::Online;
        match former {
            Some(former) if former != next && online && goes_on(former) && goes_on(next) => {
                if self.has_all(next) {
                    self.has_primary(next);
                }
            }
            _ => self.give_up_change(),
        }
    }

    /// Who is the primary by then takes writes again.
    pub(super) fn give_up_change(&mut self) {
        if let Some(group) = &mut self.group {
            group.next_primary = None;
        }
    }

    /// A statement has been sent to a member: not to one that has said again and again that it is no part of a group that goes on, and writes to no other
    /// than the primary where that has been there for long.
    pub(super) fn check_sent_in_group(&mut self, program: usize, way: Way, token: Token) {
        let Some(group) = &self.group else { return };
        let (at, now) = (way.server, self.now);
        let seat = self.seat(at);
        // What was connected to the process before this one does not arrive.
        let is_of_this = way.since > group.started[at];
        let fault = match way.origin.is_reader {
            _ if seat.is_known_unfit(program) => Some("that it is no part of its group"),
            false if seat.is_known_secondary(program) => Some("that it is not the primary of its group"),
            false if is_of_this && !seat.has_said_twice(program) => {
                Some("no more than once that it is the primary of its group and takes writes")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            let said = &seat.said;
            let text = format!("{token} was sent to server {}, which has said {fault}: {said:?}", at + 1);
            return self.checkers.violation(text);
        }
        let Some(cluster) = self.cluster.as_ref().filter(|_| !way.origin.is_reader) else { return };
        let primary = group.primary().filter(|&primary| primary != at);
        let Some((primary, since)) = primary.zip(group.writes_since) else { return };
        let drains = cluster.drawn.troubles.contains(&Trouble::Drain) && !self.calm;
        let check = 3 * cluster.drawn.check_interval + 2 * cluster.drawn.check_timeout;
        let known = since.max(cluster.disturbed[primary]).max(self.drivers[program].since);
        let time = ASKED_AGAIN + u64::try_from(check.as_micros()).expect("seconds");
        if !drains && known + time < now && self.takes_behind() {
            let text = format!(
                "{token} was sent to server {}, and server {} has been the primary of the group for long",
                at + 1,
                primary + 1
            );
            self.checkers.violation(text);
        }
    }

    /// What a member says that decides what it is to others.
    pub(super) fn claims(member: &Member) -> (bool, Option<Said>) {
        (member.read_only, member.seat.as_ref().map(|seat| seat.said.clone()))
    }
}
