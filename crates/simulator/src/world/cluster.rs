//! What befalls several servers in a run, and what operators do about it who know nothing of the program.

mod cuts;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::World;
use super::group::GroupAct;
use super::operator::Order;
use crate::clusters::{ClusterParameters, Trouble};
use crate::random::Random;
use crate::schedule::Happening;
use crate::server::group::Said;
use crate::server::member::{Committed, Member, Replication};
use crate::server::mysql::in_any_order;
use crate::subject::Subject;

/// What cannot go on now is tried again after so many microseconds: short beside all that a failover takes.
pub(super) const LOOK: u64 = 10_000;

/// A replica that comes back with less than it had lacks so many transactions at most.
const MOST_LOST: usize = 30;

/// It comes back in so small a part of the time that other troubles of replicas last: after 5 milliseconds to 0.4 seconds.
const RESTART: u64 = 20;

/// One that was away is asked again after two seconds at most, and counts as up after two checks.
const STEADY: u64 = 6_000_000;

/// Mixed into the seed for all that befalls servers.
const OF_TROUBLES: u64 = 0x0b57_ac1e;

/// Something that happens to servers.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// The next trouble begins.
    Trouble,
    /// The replica at this place gets what is next.
    Replicate(usize),
    /// A replica is promoted, whatever it has.
    Promote,
    /// The replica at this place is promoted once it has all, or the change is given up at this time.
    PromoteWhole(usize, u64),
    /// All servers but the primary become its replicas.
    Mend,
    /// The oldest cut ends.
    Heal,
    /// The replica at this place goes on.
    Resume(usize),
    /// Whoever leads a change of the primary by way of the program looks whether the next step may begin.
    Operate,
    /// An operator ends all drains.
    Undrain,
    /// An operator says something else of servers that are read from: the rules at this place.
    Rule(usize),
    /// Something happens among the members of a group.
    Group(GroupAct),
}

/// Whose connections to a server pass nothing on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    All,
    Checks,
    /// Those of this worker, its checks apart.
    Worker(usize),
}

/// A network that passes nothing on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// The place of the server.
    server: usize,
    whose: Whose,
    /// Only for the Onramps that are, one after the other, at this site; for everybody where there is none.
    site: Option<usize>,
}

impl Cut {
    /// Nobody reaches the server.
    fn of_all(server: usize) -> Self {
        Self { server, whose: Whose::All, site: None }
    }
}

/// How the servers of a run stand.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) drawn: ClusterParameters,
    pub(super) random: Random,
    /// The place of the one that operators have named the primary.
    pub(super) named: usize,
    /// Until when each hangs.
    hangs_until: Vec<u64>,
    cuts: Vec<Cut>,
    /// Of each server when it was last not reached by everybody, and when anybody's role changed.
    pub(super) disturbed: Vec<u64>,
    pub(super) changed: u64,
    /// What each server was when somebody looked last: whether it takes writes, and what it says of its group.
    pub(super) roles: Vec<(bool, Option<Said>)>,
    /// What the program is doing for an operator.
    pub(super) order: Option<Order>,
    /// What these programs were to do was given up before roles changed, and they have not said again which is the primary: what is open
    /// goes on there.
    pub(super) gave_up: BTreeSet<usize>,
    /// A replica is about to get what is next.
    replicates: Vec<bool>,
    /// The server there dies as soon as it has committed something, before anybody hears of that.
    dies_at_commit: Option<usize>,
    /// Since when all of them are reached by everybody.
    steady_since: Option<u64>,
    /// Since when several of them take writes.
    several_since: Option<u64>,
    /// When an operator said something of servers that are read from, last and in mid-run.
    pub(super) ruled_since: Option<u64>,
    /// Of each program by its place, and of each of its workers and servers, since when that takes reads, and is of the own zone.
    pub(super) take_reads: BTreeMap<usize, Vec<Vec<Option<u64>>>>,
}

impl Cluster {
    pub(super) fn new(drawn: ClusterParameters, seed: u64) -> Self {
        let count = usize::from(drawn.servers);
        Self {
            drawn,
            random: Random::new(seed ^ OF_TROUBLES),
            named: 0,
            hangs_until: vec![0; count],
            cuts: Vec::new(),
            disturbed: vec![0; count],
            changed: 0,
            roles: Vec::new(),
            order: None,
            gave_up: BTreeSet::new(),
            replicates: vec![false; count],
            dies_at_commit: None,
            steady_since: Some(0),
            several_since: None,
            ruled_since: None,
            take_reads: BTreeMap::new(),
        }
    }
}

impl<P: Subject> World<P> {
    pub(super) fn begin_cluster(&mut self) {
        self.plan_trouble();
        let rules = self.cluster.as_ref().map_or(&[][..], |cluster| &cluster.drawn.rules);
        let times: Vec<u64> = rules.iter().map(|rules| rules.from).collect();
        for (place, from) in times.into_iter().enumerate().filter(|(_, from)| *from > 0) {
            self.plan(from, Act::Rule(place));
        }
    }

    fn plan_trouble(&mut self) {
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| !cluster.drawn.troubles.is_empty()) else {
            return;
        };
        let pause = cluster.random.between(1, cluster.drawn.fault_interval);
        self.plan(pause, Act::Trouble);
    }

    pub(super) fn plan(&mut self, delay: u64, act: Act) {
        self.schedule.at(self.now + delay, Happening::Cluster(act));
    }

    fn plan_between(&mut self, low: u64, high: u64, act: Act) {
        let Some(cluster) = &mut self.cluster else { return };
        let delay = cluster.random.between(low, high);
        self.plan(delay, act);
    }

    /// Notes what is not as it was when somebody looked last.
    pub(super) fn note_disturbances(&mut self) {
        if self.cluster.is_none() {
            return;
        }
        self.note_writers();
        let is_well = |place: usize| self.is_up[place] && !self.hangs(place);
        let well: Vec<bool> = (0..self.servers.len()).map(is_well).collect();
        let roles: Vec<_> = (0..self.servers.len()).map(|place| Self::claims(self.member(place))).collect();
        let now = self.now;
        let Some(cluster) = &mut self.cluster else { return };
        for (place, disturbed) in cluster.disturbed.iter_mut().enumerate() {
            if !well[place] || cluster.cuts.iter().any(|cut| cut.server == place) {
                *disturbed = now;
            }
        }
        if cluster.roles != roles || cluster.order.is_some() {
            (cluster.roles, cluster.changed) = (roles, now);
        }
    }

    pub(super) fn hangs(&self, place: usize) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.hangs_until[place] > self.now)
    }

    /// Whether an operator, or another server, reaches this one.
    pub(super) fn is_reached(&self, place: usize) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        self.is_up[place] && !self.hangs(place) && !cluster.cuts.contains(&Cut::of_all(place))
    }

    /// Whether several servers take writes, and a program that asks them has had the time to find that out. A drained one does not count.
    pub(super) fn several_are_known(&mut self, program: usize) -> bool {
        // In a group the others know which of them is to write.
        if self.is_group() {
            return false;
        }
        self.note_writers();
        let now = self.now;
        let is_awake = now >= self.drivers[program].since + STEADY;
        let Some(cluster) = &self.cluster else { return false };
        let interval = u64::try_from(cluster.drawn.check_interval.as_micros()).expect("short");
        let has_passed = |since: Option<u64>, time: u64| since.is_some_and(|since| now >= since + time);
        is_awake
            && !cluster.drawn.troubles.contains(&Trouble::Drain)
            && has_passed(cluster.steady_since, STEADY)
            && has_passed(cluster.several_since, 2 * interval + LOOK)
    }

    /// Notes since when all servers are there, and several of them take writes.
    fn note_writers(&mut self) {
        let is_steady = (0..self.servers.len()).all(|place| self.is_up[place] && !self.hangs(place));
        let writers = (0..self.servers.len()).filter(|&place| !self.member(place).read_only).count();
        let now = self.now;
        let Some(cluster) = &mut self.cluster else { return };
        let keep = |since: &mut Option<u64>, holds: bool| *since = holds.then(|| since.unwrap_or(now));
        keep(&mut cluster.steady_since, is_steady && cluster.cuts.is_empty());
        keep(&mut cluster.several_since, writers > 1);
    }

    pub(super) fn member(&self, place: usize) -> &Member {
        self.servers[place].database.member.as_ref().expect("there are several")
    }

    pub(super) fn member_mut(&mut self, place: usize) -> &mut Member {
        self.servers[place].database.member.as_mut().expect("there are several")
    }

    pub(super) fn act(&mut self, act: Act) {
        self.carry_out_act(act);
        self.note_disturbances();
    }

    fn carry_out_act(&mut self, act: Act) {
        match act {
            Act::Replicate(place) => self.replicate(place),
            Act::Operate => self.operate(),
            Act::Heal => self.heal(),
            Act::Undrain => self.undrain(),
            Act::Group(act) => self.act_in_group(act),
            _ if self.calm => {}
            Act::Trouble => self.trouble(),
            Act::Promote => self.promote_someone(),
            Act::PromoteWhole(place, until) => self.promote_whole(place, until),
            Act::Mend => self.mend(),
            Act::Resume(place) => {
                self.member_mut(place).resume();
                self.plan_replication(place);
            }
            Act::Rule(place) => self.change_rules(place),
        }
    }

    /// What has come, in the log of the run.
    pub(super) fn say(&mut self, place: usize, what: &str) {
        self.note(format_args!("server {} {what}", place + 1));
    }

    fn trouble(&mut self) {
        self.plan_trouble();
        let Some(cluster) = &mut self.cluster else { return };
        let trouble = *cluster.random.pick(&cluster.drawn.troubles);
        let named = cluster.named;
        let of_primary = cluster.random.percent(65);
        let other = cluster.random.index(usize::from(cluster.drawn.servers));
        let place = if of_primary { named } else { other };
        let seconds = cluster.random.between(100_000, 8_000_000);
        let at_commit = cluster.random.percent(50);
        match trouble {
            Trouble::Replica | Trouble::Mistake | Trouble::Change if self.group.is_some() => {
                self.trouble_group(trouble, place, seconds);
            }
            Trouble::Kill if at_commit => cluster.dies_at_commit = Some(place),
            Trouble::Kill => self.kill_server(place),
            Trouble::Hang if self.is_up[place] => {
                self.say(place, "hangs");
                let until = self.now + seconds;
                if let Some(cluster) = &mut self.cluster {
                    cluster.hangs_until[place] = until;
                }
                self.may_be_replaced(place);
            }
            Trouble::Cut => self.cut(place, seconds),
            Trouble::Replica if other != named => self.trouble_replica(other, seconds),
            Trouble::Mistake => {
                self.promote_someone();
                self.plan_between(300_000, 4_000_000, Act::Mend);
            }
            Trouble::Change if self.is_reached(named) => {
                self.say(named, "is set to read_only by plan");
                self.member_mut(named).read_only = true;
                let until = self.now + 2_000_000;
                if let Some(next) = self.longest_of_others() {
                    self.plan(LOOK, Act::PromoteWhole(next, until));
                } else {
                    self.member_mut(named).read_only = false;
                }
            }
            Trouble::Switchover => self.order_switchover(),
            Trouble::Drain => self.order_drain(other),
            Trouble::Hang | Trouble::Replica | Trouble::Change => {}
        }
    }

    /// A server has committed something.
    pub(super) fn has_committed(&mut self, place: usize) {
        let Some(cluster) = &mut self.cluster else { return };
        if !self.calm && cluster.dies_at_commit.take_if(|dying| *dying == place).is_some() {
            self.kill_server(place);
        }
    }

    fn kill_server(&mut self, place: usize) {
        if !self.is_up[place] {
            return;
        }
        self.say(place, "dies");
        self.crash(place);
        let at_once = self.back_at_once(place);
        let Some(cluster) = &mut self.cluster else { return };
        let pause = cluster.random.between(300_000, 8_000_000);
        let pause = at_once.unwrap_or(pause);
        self.schedule.at(self.now + pause, Happening::ServerUp(place));
        self.may_be_replaced(place);
    }

    /// Somebody may notice that the primary is away, and promote another one.
    fn may_be_replaced(&mut self, place: usize) {
        let Some(cluster) = &mut self.cluster else { return };
        if self.group.is_none() && place == cluster.named && cluster.random.percent(70) {
            self.plan_between(200_000, 5_000_000, Act::Promote);
        }
    }

    fn trouble_replica(&mut self, place: usize, lasts: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        let (kind, lag) = (cluster.random.below(3), cluster.random.below(1_000));
        if !self.is_up[place] {
            return;
        }
        let member = self.member_mut(place);
        match kind {
            0 if member.replication == Replication::Runs => member.replication = Replication::Stopped,
            _ => member.said_lag = Some(lag),
        }
        self.say(place, "stops to replicate, or says what it likes of its lag");
        self.plan(lasts, Act::Resume(place));
        self.trouble_reads(place, lasts);
    }

    /// What matters to those who read from a replica.
    fn trouble_reads(&mut self, place: usize, lasts: u64) {
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.drawn.splits_reads()) else {
            return;
        };
        let (kind, most) = (cluster.random.below(3), cluster.random.index(MOST_LOST) + 1);
        let is_followed = self.member(place).source.is_some();
        match kind {
            0 if self.member(place).replication == Replication::Runs => {
                self.say(place, "gets nothing any more, and does not know it");
                self.member_mut(place).replication = Replication::Starved;
            }
            1 if is_followed => {
                self.kill_server(place);
                let lost = self.servers[place].database.lose_latest(most);
                self.say(
                    place,
                    &format!("will come back without the latest {lost} transactions that it had"),
                );
                // As a process that is started again does, sooner than a machine.
                self.schedule.at(self.now + lasts / RESTART, Happening::ServerUp(place));
            }
            _ => {}
        }
    }

    /// The place of the other server that is reached and has most.
    fn longest_of_others(&self) -> Option<usize> {
        let named = self.cluster.as_ref()?.named;
        let others = (0..self.servers.len()).filter(|&place| place != named && self.is_reached(place));
        others.max_by_key(|&place| self.member(place).log().len())
    }

    fn promote_someone(&mut self) {
        let Some(longest) = self.longest_of_others() else { return };
        let Some(cluster) = &mut self.cluster else { return };
        let (named, any) = (cluster.named, cluster.random.index(self.servers.len()));
        let takes_any = cluster.random.percent(20);
        let place = if takes_any && any != named && self.is_reached(any) { any } else { longest };
        self.promote(place);
        self.plan_between(50_000, 3_000_000, Act::Mend);
    }

    /// The server there takes writes from now on.
    pub(super) fn promote(&mut self, place: usize) {
        self.say(place, "is promoted");
        let member = self.member_mut(place);
        (member.read_only, member.source) = (false, None);
        if let Some(cluster) = &mut self.cluster {
            cluster.named = place;
        }
        self.note_lost(place);
    }

    fn promote_whole(&mut self, place: usize, until: u64) {
        let Some(cluster) = &self.cluster else { return };
        let named = cluster.named;
        if named == place {
            return;
        }
        let is_whole = self.is_reached(place) && self.member(place).has_all_of(self.member(named));
        if is_whole && self.is_up[named] {
            self.promote(place);
            self.plan_between(50_000, 1_000_000, Act::Mend);
        } else if self.now < until {
            self.plan(LOOK, Act::PromoteWhole(place, until));
        } else {
            self.say(named, "takes writes again: the change is given up");
            self.member_mut(named).read_only = false;
        }
    }

    /// All servers that are reached become replicas of the primary. One that has what the primary lacks becomes a copy of it.
    pub(super) fn mend(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let named = cluster.named;
        if !self.is_up[named] {
            return;
        }
        let mut waits = false;
        for place in (0..self.servers.len()).filter(|&place| place != named) {
            if !self.is_reached(place) {
                waits |= self.is_up[place];
                continue;
            }
            self.make_replica(place, named);
        }
        if waits {
            self.plan_between(100_000, 1_000_000, Act::Mend);
        }
    }

    pub(super) fn make_replica(&mut self, place: usize, named: usize) {
        let source = u32::try_from(named + 1).expect("few servers");
        let member = self.member_mut(place);
        member.read_only = true;
        member.source = Some(source);
        let primary = self.member(named);
        let keeps = self.cluster.as_ref().is_some_and(|cluster| cluster.drawn.keeps_own);
        let is_other = !keeps && !primary.has_all_of(self.member(place));
        if is_other || self.member(place).next_of(primary, 0).is_err() {
            let log = primary.log().to_vec();
            self.say(place, "is made a copy of the primary");
            self.crash(place);
            self.is_up[place] = true;
            self.servers[place].database.become_copy(log);
        } else if matches!(self.member(place).replication, Replication::Failed(_)) {
            self.member_mut(place).replication = Replication::Runs;
        }
        self.plan_replication(place);
    }

    pub(super) fn server_up(&mut self, place: usize) {
        if std::mem::replace(&mut self.is_up[place], true) {
            return;
        }
        self.note(format_args!("server up"));
        if self.is_group() {
            return self.restart_member(place);
        }
        let Some(cluster) = &mut self.cluster else { return };
        let (named, as_it_was) = (cluster.named, cluster.random.percent(50));
        self.say(place, "is back");
        if place == named {
            return self.plan_all_replication();
        }
        // A configuration that has read_only, or nobody who has thought of it.
        if !as_it_was {
            self.member_mut(place).read_only = true;
        }
        self.plan_between(100_000, 5_000_000, Act::Mend);
    }

    pub(super) fn plan_all_replication(&mut self) {
        for place in 0..self.servers.len() {
            self.plan_replication(place);
        }
    }

    /// The replica there gets what is next after a while, unless it is about to.
    pub(super) fn plan_replication(&mut self, place: usize) {
        let is_replica = self.member(place).source.is_some() || self.is_group();
        let Some(cluster) = &mut self.cluster else { return };
        if !is_replica || std::mem::replace(&mut cluster.replicates[place], true) {
            return;
        }
        let lag = cluster.random.between(1, cluster.drawn.lag);
        self.plan(lag, Act::Replicate(place));
    }

    fn replicate(&mut self, place: usize) {
        if let Some(cluster) = &mut self.cluster {
            cluster.replicates[place] = false;
        }
        let at_once = self.cluster.as_ref().map_or(0, |cluster| cluster.drawn.at_once);
        if let Some(next) = self.next_in_group(place, at_once) {
            return self.carry_out(place, next);
        }
        let member = self.member(place);
        let Some(source) = member.source.map(|number| number as usize - 1) else { return };
        if !self.is_reached(place) || !self.is_reached(source) || member.replication != Replication::Runs {
            return;
        }
        match self.member(place).next_of(self.member(source), at_once) {
            Ok(next) if !next.is_empty() => {
                let next = match &mut self.cluster {
                    Some(cluster) if cluster.drawn.any_order => in_any_order(next, &mut cluster.random),
                    _ => next,
                };
                self.note_overwritten(place, source, &next);
                self.carry_out(place, next);
            }
            Ok(_) => {}
            Err(why) => self.member_mut(place).replication = Replication::Failed(why),
        }
    }

    /// A replica has got this.
    fn carry_out(&mut self, place: usize, next: Vec<Rc<Committed>>) {
        if !next.is_empty() {
            self.servers[place].database.replicate(next);
            let has = self.member(place).log().len();
            self.note(format_args!("server {} has {has} transactions", place + 1));
            self.plan_replication(place);
        }
    }

    /// All troubles end, and operators mend what is left of them.
    pub(super) fn calm_cluster(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.cuts.clear();
        cluster.hangs_until.fill(0);
        let named = cluster.named;
        if self.is_group() {
            self.calm_group();
            return self.accept_what_lacks();
        }
        self.is_up.fill(true);
        self.member_mut(named).read_only = false;
        for place in 0..self.servers.len() {
            self.member_mut(place).resume();
        }
        self.mend();
        self.accept_what_lacks();
    }
}
