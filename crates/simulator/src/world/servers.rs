//! The servers' side of a run: who connects to them, what they do, and what becomes of it.

use super::World;
use super::driver::{Life, News};
use crate::faults::Parameters;
use crate::kills::MAY_KILL;
use crate::network::{Owner, Parcel};
use crate::random::Random;
use crate::schedule::Happening;
use crate::server::database::Database;
use crate::server::group::Seat;
use crate::server::locks::EPOCH;
use crate::server::member::Member;
use crate::server::{Action, Link, Server, Speed};
use crate::subject::{Origin, Subject};

/// So few that statements are closed and prepared again, and enough for those that are wanted at the same moment: with 6 a client
/// is refused now and then, and rightly.
const MOST_PREPARED_STATEMENTS: usize = 8;

/// The way of a connection to a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The place of the server.
    pub(super) server: usize,
    pub(super) origin: Origin,
    /// When it came about.
    pub(super) since: u64,
    /// The program has ended it while the server was the primary: what is in flight there may arrive whenever it will.
    pub(super) is_left_to_it: bool,
}

/// The servers of a run, of which the first takes writes.
pub(super) fn new_servers(parameters: &Parameters, direct: bool, random: &mut Random) -> Vec<Server> {
    let mut database = Database::new(parameters.accounts.on_server());
    // A client of its own would be refused, where a pool makes room.
    if parameters.onramps.is_some() {
        database.clock = Some(EPOCH);
        // Some who may end everybody's sessions.
        database.accounts.iter_mut().for_each(|account| account.may_kill |= account.user == MAY_KILL);
    }
    // Nor does one make room for the clients of another, nor for sessions whose commit a group holds up: they keep what they have when their
    // connection has gone.
    let of_group = parameters.cluster.as_ref().is_some_and(|cluster| cluster.group.is_some());
    let makes_room = !direct && parameters.onramps.is_none() && !of_group;
    database.most_prepared_statements = makes_room.then_some(MOST_PREPARED_STATEMENTS);
    // Clients of its own would see what only a pool has to know.
    let speed = match direct {
        true => Speed { refused_change_percent: 0, keeps_roles: false, ..parameters.speed },
        // A MySQL gives each account its own roles.
        false => {
            Speed { keeps_roles: parameters.speed.keeps_roles && !parameters.has_mysql(), ..parameters.speed }
        }
    };
    let mut server = |database| Server::new(database, random.fork(), speed, parameters.server_connections);
    let Some(cluster) = &parameters.cluster else { return vec![server(database)] };
    let member = |number: u8| {
        let mut member = Member::new(u32::from(number));
        (member.kind, member.has_tags) = (cluster.kind, cluster.has_tags);
        (member.read_only, member.source) = (number > 1, (number > 1).then_some(1));
        if cluster.group.is_some() {
            (member.seat, member.source) = (Some(Seat::new(cluster.servers.into())), None);
        }
        let mut database = database.clone();
        database.member = Some(member);
        database.kind = cluster.kind;
        server(database)
    };
    (1..=cluster.servers).map(member).collect()
}

impl<P: Subject> World<P> {
    pub(super) fn connect_done(&mut self, token: u64, server: usize, origin: Origin) {
        if self.drivers[origin.program].life == Life::Gone {
            return;
        }
        let unlucky = self.parameters.faults.connect_failures && !self.calm && self.random.percent(10);
        let full = self.parameters.faults.refusals && !self.calm && self.random.percent(10);
        let way = Way { server, origin, since: self.now, is_left_to_it: false };
        if self.is_cut(way) {
            let happening = Happening::ConnectDone { token, server, origin };
            return self.schedule.at(self.now + super::cluster::LOOK, happening);
        }
        if self.is_up[server] && !unlucky {
            let (link, connection) = self.network.open(Owner::Server, origin.program);
            self.ways.insert(link, way);
            self.drivers[origin.program].news.push(News::Connected(token, connection));
            if full {
                self.servers[server].turn_away(link);
                self.carry_out_server(server);
            } else {
                self.greet(link);
            }
        } else {
            self.drivers[origin.program].news.push(News::ConnectFailed(token));
        }
        self.wake_program(origin.program, 0);
    }

    /// Whoever has connected is greeted, as soon as the server runs.
    pub(super) fn greet(&mut self, link: Link) {
        let Some(&way) = self.ways.get(&link) else { return };
        if self.hangs(way.server) {
            return self.schedule.at(self.now + super::cluster::LOOK, Happening::Greet(link));
        }
        if self.is_up[way.server] {
            self.with_server(way.server, |server| server.accept(link));
        }
    }

    pub(super) fn server_wakes(&mut self, link: Link) {
        let Some(&way) = self.ways.get(&link) else { return };
        if self.hangs(way.server) {
            return self.schedule.at(self.now + super::cluster::LOOK, Happening::ServerWake(link));
        }
        if self.is_up[way.server] {
            self.with_server(way.server, |server| {
                server.database.asker = way.origin.program;
                server.wake(link);
            });
        }
    }

    pub(super) fn arrive_at_server(&mut self, link: Link, parcel: Parcel) {
        let Some(&way) = self.ways.get(&link) else { return };
        self.with_server(way.server, |server| {
            server.database.asker = way.origin.program;
            match parcel {
                Parcel::Bytes(bytes) => server.receive(link, &bytes),
                Parcel::End | Parcel::Reset => server.lost(link),
            }
        });
    }

    /// Something happens on a server: statements that run there are numbered with those of all others.
    pub(super) fn with_server(&mut self, place: usize, act: impl FnOnce(&mut Server)) {
        let clock = self.clock();
        self.note_alone(place);
        let server = &mut self.servers[place];
        server.database.clock = clock;
        server.database.moment = self.checkers.moment;
        server.database.popular_runs = self.checkers.popular_runs;
        act(server);
        self.carry_out_server(place);
    }

    pub(super) fn carry_out_server(&mut self, place: usize) {
        let strict = self.program().keeps_limits(); // others pass a client's nonsense on
        for complaint in std::mem::take(&mut self.servers[place].complaints).into_iter().filter(|_| strict) {
            self.checkers.violation(format!("the server complains: {}", complaint.0));
        }
        for ran in std::mem::take(&mut self.servers[place].database.executions) {
            let turn = self.network.turn_of(ran.sent_at.0, ran.sent_at.1);
            match ran.server {
                None => self.note(format_args!("{} runs on thread {}", ran.token, ran.thread_id)),
                Some(server) => {
                    self.note(format_args!(
                        "{} runs on server {server}, thread {}",
                        ran.token, ran.thread_id
                    ));
                }
            }
            let on_replica = self.ways.get(&ran.sent_at.0).is_some_and(|way| way.origin.is_reader);
            self.checkers.executed(ran, turn, on_replica);
        }
        self.take_commits(place);
        let database = &self.servers[place].database;
        if self.cluster.is_none() || database.moment > self.checkers.moment {
            self.checkers.moment_is(database.moment, database.popular_runs);
        }
        for (link, action) in self.servers[place].take_actions() {
            match action {
                Action::Send(bytes) => {
                    self.network.peer_sends(self.now, &mut self.schedule, link, &bytes);
                }
                Action::Close => self.network.peer_closes(self.now, &mut self.schedule, link),
                Action::WakeAfter(delay) => {
                    self.schedule.at(self.now + delay, Happening::ServerWake(link));
                }
            }
        }
        self.check_permits();
    }

    fn check_permits(&mut self) {
        if !self.program().keeps_limits() || !self.parameters.counts_permits() {
            return;
        }
        let permits = self.parameters.permits;
        // A quarter more is kept for clients that hold locks, and at least one.
        let most = permits + (permits / 4).max(1);
        for program in (0..self.drivers.len()).filter(|&program| self.drivers[program].life != Life::Gone) {
            // What a server goes on with that is given up, or is the primary no more, counts for nobody.
            let primary = self.drivers[program].program.primary();
            let counts = |link: Link, way: &Way| {
                let is_there = self.cluster.is_none() || primary == Some(way.server);
                way.origin.program == program
                    && is_there
                    && !way.origin.is_reader
                    && self.network.is_open(link)
            };
            let is_its = |link: Link| self.ways.get(&link).is_some_and(|way| counts(link, way));
            let running: usize = self.servers.iter().map(|server| server.running_statements(is_its)).sum();
            if running > most as usize {
                self.checkers.violation(format!("{running} statements run at once, permits = {permits}"));
            }
        }
    }

    pub(super) fn fault(&mut self) {
        if self.calm {
            return;
        }
        let faults = self.parameters.faults;
        if faults.crashes
            && self.is_up[0]
            && self.random.percent(if faults.backend_losses { 20 } else { 100 })
        {
            self.note(format_args!("the server crashes"));
            self.crash(0);
            let pause = self.random.between(1_000, 5_000_000);
            self.schedule.at(self.now + pause, Happening::ServerUp(0));
        } else if faults.backend_losses {
            let links: Vec<Link> = self.servers.iter().flat_map(Server::links).collect();
            if !links.is_empty() {
                let link = *self.random.pick(&links);
                self.note(format_args!("backend {link} is lost"));
                let place = self.ways.get(&link).map_or(0, |way| way.server);
                self.note_disturbed(place);
                if self.random.percent(50) {
                    self.servers[place].close(link);
                    self.carry_out_server(place);
                } else {
                    self.servers[place].drop_link(link);
                    self.network.peer_resets(self.now, &mut self.schedule, link);
                }
            }
        }
        let pause = self.random.between(1, self.parameters.fault_interval);
        self.schedule.at(self.now + pause, Happening::Fault);
    }

    /// A server's process dies.
    pub(super) fn crash(&mut self, place: usize) {
        let links: Vec<Link> = self.servers[place].links().collect();
        self.servers[place].crash();
        self.is_up[place] = false;
        for link in links {
            self.network.peer_resets(self.now, &mut self.schedule, link);
        }
    }
}
