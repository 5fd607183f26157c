//! What a run with several servers has stored where, and what it has been sent: seen from outside of the program.

use std::rc::Rc;

use engine::{Behind, compare_positions};

use super::World;
use super::driver::Life;
use crate::network::Parcel;
use crate::server::Link;
use crate::server::kind::Kind;
use crate::server::member::{Committed, Shown};
use crate::subject::Subject;
use crate::token::Token;

impl<P: Subject> World<P> {
    /// A server has committed something.
    pub(super) fn take_commits(&mut self, place: usize) {
        let news = std::mem::take(&mut self.servers[place].database.news);
        let Some(cluster) = self.cluster.as_ref().filter(|_| !news.is_empty()) else { return };
        // What another one commits than the one that operators have named is lost as that becomes its source. What a former one commits that is
        // the primary again, before its program knows of that, is not to be seen where the program leads clients.
        let program = self.servers[place].database.asker;
        let is_lost = cluster.named != place || self.drivers[program].led_to != Some(place);
        for committed in news {
            self.share(place, &committed);
            self.checkers.committed(&committed, is_lost);
        }
        for other in 0..self.servers.len() {
            self.plan_replication(other);
        }
        self.has_committed(place);
    }

    /// The server there has been promoted: what it does not have is lost.
    pub(super) fn note_lost(&mut self, place: usize) {
        for other in (0..self.servers.len()).filter(|&other| other != place) {
            self.check_comparison(place, other);
        }
        self.note_missing(place);
    }

    /// Clients are led to a server that does not have this.
    fn note_missing(&mut self, place: usize) {
        let own = self.member(place);
        let others = (0..self.servers.len()).flat_map(|other| self.member(other).log());
        let missing = others.filter(|committed| !own.has(committed.gtid));
        let lost: Vec<Token> = missing.flat_map(|committed| committed.tokens.iter().copied()).collect();
        self.checkers.lost(lost);
    }

    /// A replica is about to carry this out of its source.
    pub(super) fn note_overwritten(&mut self, place: usize, source: usize, next: &[Rc<Committed>]) {
        let overwritten = self.servers[place].database.overwrites(self.member(source), next);
        for (row, older, newer) in overwritten {
            self.note(format_args!(
                "server {} has {newer} in {} {}, and puts {older} there, which is older",
                place + 1,
                row.0,
                row.1
            ));
            self.checkers.overwritten(&row, older, newer);
        }
    }

    /// GTIDs say of two servers what is so, in the forms of both kinds of servers.
    fn check_comparison(&mut self, own: usize, other: usize) {
        let (own, other) = (self.member(own), self.member(other));
        let has_all = own.has_all_of(other);
        let mysql = compare_positions(&other.mysql_position(), &own.mysql_position());
        let mariadb = compare_positions(&other.logged_positions(), &own.logged_positions());
        // What MariaDBs tell of each writer does not tell what they have in the place of others' numbers.
        let is_wrong = |said: &Behind, is_exact: bool| match said {
            Behind::Nothing => is_exact && !has_all,
            Behind::Lacks(_) => has_all,
            Behind::Unknown => !other.log().is_empty(),
        };
        let is_of_one_line = own.log().iter().zip(other.log()).all(|(own, other)| own.gtid == other.gtid);
        // Nor does anything there where replicas carry out what comes in another order.
        let is_in_order = own.kind == Kind::MariaDb;
        if is_wrong(&mysql, true) || (is_in_order && is_wrong(&mariadb, is_of_one_line)) {
            let text = format!(
                "of what server {} has, server {} is said to lack {mysql:?} by {} and {}, and {mariadb:?} by {} and {}",
                other.number,
                own.number,
                other.mysql_position(),
                own.mysql_position(),
                other.logged_positions(),
                own.logged_positions()
            );
            self.checkers.violation(text);
        }
    }

    /// A program turns to another primary: what that lacks is lost to clients. That may be more than what the former one was known to
    /// have only where an operator has said so.
    fn turns_to(&mut self, program: usize, place: usize) {
        let former = self.drivers[program].led_to.filter(|_| !self.takes_behind());
        let known = former.map(|former| self.member(former).known(program));
        let (own, shows) = (self.member(place), self.member(place).shows().last);
        let lacks = |known: &Shown| match own.kind {
            Kind::MariaDb => !own.seems_to_have_last_of(&known.all),
            Kind::MySql => !own.has_all(&known.all),
        };
        if let Some(known) = known.filter(lacks) {
            let text = format!(
                "server {} has transactions up to {shows}, the primary before it had shown {} and all before it, and it is taken for the primary",
                place + 1,
                known.last
            );
            self.checkers.violation(text);
        }
        self.note_missing(place);
        self.checkers.turned();
    }

    pub(super) fn takes_behind(&self) -> bool {
        self.calm || self.cluster.as_ref().is_some_and(|cluster| cluster.drawn.takes_behind)
    }

    /// What was sent on a connection that the program has ended does not arrive at a server once the program knows another one as the
    /// primary; where it was ended while the server was the primary, it does.
    pub(super) fn check_arrival(&mut self, link: Link, parcel: &Parcel) {
        let (Parcel::Bytes(bytes), Some(way)) = (parcel, self.ways.get(&link)) else { return };
        // A read may arrive late, where it is only read from.
        if way.origin.is_reader || way.is_left_to_it {
            return;
        }
        // What one that has died had sent its system goes on to deliver.
        let driver = &self.drivers[way.origin.program];
        let primary = driver.program.primary().filter(|_| driver.life != Life::Gone);
        let other = primary.filter(|&primary| primary != way.server);
        let Some(other) = other.filter(|_| self.cluster.is_some() && !self.network.is_open(link)) else {
            return;
        };
        if let Some(token) = Token::find_all(bytes).first() {
            let text = format!(
                "{token} arrives at server {} by a connection that is closed, and the primary is server {}",
                way.server + 1,
                other + 1
            );
            self.checkers.violation(text);
        }
    }

    /// A statement has been sent to a server that is read from.
    fn check_sent_to_reader(&mut self, place: usize, token: Token) {
        if !self.checkers.may_run_on_replica(token) {
            let text =
                format!("what is for the primary alone went to a replica: {token} to server {}", place + 1);
            self.checkers.violation(text);
        }
    }

    /// Clients have asked for what they have written.
    pub(super) fn note_asked(&mut self) {
        for ((table, id), version) in std::mem::take(&mut self.checkers.asked) {
            let lacks = |place: usize| {
                let is_replica = self.member(place).source.is_some() || self.is_group();
                is_replica && self.servers[place].database.committed_version(&table, id) < version
            };
            self.checkers.reads.own_behind += u64::from((0..self.servers.len()).any(lacks));
        }
    }

    /// At the end of a turn of a program all its workers know the same primary: nothing has been sent to another server in that turn.
    pub(super) fn check_sent(&mut self, program: usize) {
        let driver = &self.drivers[program];
        let (primary, former) = (driver.program.primary(), driver.led_to);
        if let Some(place) = primary.filter(|_| primary != former) {
            self.turns_to(program, place);
        }
        self.drivers[program].led_to = primary.or(former);
        let since = self.drivers[program].without.unwrap_or(self.now);
        self.drivers[program].without = primary.is_none().then_some(since);
        for link in std::mem::take(&mut self.left_in_turn) {
            if let Some(way) = self.ways.get_mut(&link) {
                way.is_left_to_it = primary == Some(way.server);
            }
        }
        if let Some(cluster) = self.cluster.as_mut().filter(|_| primary.is_some()) {
            cluster.gave_up.remove(&program);
        }
        let goes_on = self.transactions_go_on(program);
        let several = self.cluster.is_some() && self.several_are_known(program);
        let near = self.near_takes_reads(program);
        for (way, token) in std::mem::take(&mut self.sent) {
            let place = way.server;
            if !goes_on {
                self.check_sent_in_group(program, way, token);
            }
            if way.origin.is_reader {
                self.check_sent_to_reader(place, token);
                self.check_rules(way, token, &near);
                continue;
            }
            if several {
                let text =
                    format!("{token} was sent to server {}, and several servers take writes", place + 1);
                self.checkers.violation(text);
            }
            // A process of a group that it is connected to since before is what it was: only what is connected later may be another one.
            let is_as_before =
                self.is_group() && primary.is_none() && former == Some(place) && way.since < since;
            if primary != Some(place) && !goes_on && !is_as_before {
                let known = primary.map_or("none".to_owned(), |known| format!("server {}", known + 1));
                self.checkers.violation(format!(
                    "{token} was sent to server {} in turn {}, in which the primary was {known}",
                    place + 1,
                    self.turn
                ));
            }
        }
    }
}
