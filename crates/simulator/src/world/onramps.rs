//! What befalls several Onramps in front of one server, or of several, in a run, and what each must know of the others.

use std::collections::BTreeMap;

use super::World;
use super::driver::{Driver, Life};
use crate::faults::Parameters;
use crate::network::Owner;
use crate::onramps::{OnrampParameters, Trouble};
use crate::random::Random;
use crate::schedule::Happening;
use crate::server::locks::{EPOCH, OF_PROGRAM};
use crate::server::{Link, Server};
use crate::subject::Subject;

/// Mixed into the seed for all that befalls Onramps.
const OF_TROUBLES: u64 = 0x5e7e_4a1f;

/// What Onramps know is looked at this often, four times in the time after which they look themselves.
pub(super) const LOOK: u64 = 250_000;

/// What one knows of others may be so old: it looks every second, and a look takes some questions.
pub(super) const NEW: u64 = 4_000_000;

/// One that is not there any more is forgotten after three looks.
pub(super) const GONE: u64 = 7_000_000;

/// The slot of one that has gone is free again: the server closes a connection that has been silent for a minute.
pub(super) const FREED: u64 = 61_000_000;

/// When the troubles have ended, all count each other within so much time.
pub(super) const COUNTED: u64 = 15_000_000;

/// In front of several servers they have to find the same primary first.
pub(super) const COUNTED_IN_CLUSTER: u64 = 30_000_000;

/// So many questions about locks one may have in the time of [`LOOK`] while letters are under way, each of which takes some beside a look in
/// 5 milliseconds; and so many at other times.
pub(super) const MOST_QUESTIONS: u64 = 200;
pub(super) const MOST_IDLE_QUESTIONS: u64 = 15;

/// Letters are under way for so long behind a KILL: 5 seconds, a second in which others are expected, and a freeze.
pub(super) const LETTERS: u64 = 20_000_000;

/// So often each worker tries to connect within [`LOOK`], at most: all its clients may come anew at once.
pub(super) const MOST_CONNECTS: u64 = 60;

/// So often the service account logs in within [`LOOK`], for each worker, at most.
pub(super) const MOST_LOGINS: u64 = 8;

/// Numbers of sessions of those who come to the server directly: of nobody else.
const DIRECT: u32 = 50_000_000;

/// So many slots there are.
const SLOTS: u64 = 16;

/// Something that happens to Onramps.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// The next trouble begins.
    Trouble,
    /// Another Onramp is started in the place of one that has gone.
    Start(usize),
    /// The frozen program at this place goes on.
    Thaw(usize),
    /// Whoever has this connection to a program that has gone finds that out.
    Notice(Link),
    /// Somebody who has come to the server directly goes.
    Leave(u32),
    /// The server looks for connections that are silent, and what Onramps know is looked at.
    Look,
}

/// A slot that somebody holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The place of the program.
    pub(super) program: usize,
    /// That of the server.
    pub(super) server: usize,
    /// The connection on which it has that: sessions of a server that was started anew may have the numbers of those before.
    pub(super) link: Link,
    /// Since when it has that, and goes on.
    pub(super) since: u64,
    /// Whether it says that its statements wait, and since when that is so.
    pub(super) at_work: (bool, u64),
}

/// The Onramps of a run.
#[derive(Debug)]
pub(super) struct Onramps<P> {
    pub(super) drawn: OnrampParameters,
    random: Random,
    make: fn(&Parameters, usize) -> P,
    /// The places of those that are there, or were last.
    pub(super) sites: Vec<usize>,
    /// Of each that has ever been there its site: the place of its own among these.
    site_of: Vec<usize>,
    direct: u32,
    /// When somebody has last been seen with locks that are not his.
    pub(super) squatted: u64,
    /// Who holds which slot, by the place of the server, its number and that of the session.
    pub(super) slots: BTreeMap<(usize, u32, u32), Slot>,
    /// And who has held it until when.
    pub(super) former: BTreeMap<(usize, u32, u32), u64>,
    /// Since when the calm has come, and whether all count each other since.
    /// Since when a program that has gone has.
    pub(super) gone: BTreeMap<usize, u64>,
    pub(super) calm_since: u64,
    pub(super) are_counted: bool,
    /// All of them are being stopped.
    pub(super) ends: bool,
}

impl<P> Onramps<P> {
    /// The slot of the program at this place, on the server where it has taken one last.
    pub(super) fn slot_of(&self, program: usize) -> Option<(u32, Slot)> {
        let of_it = self.slots.iter().filter(|(_, held)| held.program == program);
        of_it.max_by_key(|(_, held)| held.since).map(|((_, slot, _), held)| (*slot, *held))
    }

    pub(super) fn new(drawn: OnrampParameters, seed: u64, make: fn(&Parameters, usize) -> P) -> Self {
        let sites: Vec<usize> = (0..usize::from(drawn.count)).collect();
        Self {
            site_of: sites.clone(),
            drawn,
            random: Random::new(seed ^ OF_TROUBLES),
            make,
            sites,
            direct: DIRECT,
            squatted: 0,
            slots: BTreeMap::new(),
            former: BTreeMap::new(),
            gone: BTreeMap::new(),
            calm_since: 0,
            are_counted: false,
            ends: false,
        }
    }
}

impl<P: Subject> World<P> {
    pub(super) fn begin_onramps(&mut self) {
        if self.onramps.is_some() {
            self.plan_fate(LOOK, Fate::Look);
            self.plan_trouble_of_onramps();
        }
    }

    fn plan_fate(&mut self, delay: u64, fate: Fate) {
        self.schedule.at(self.now + delay, Happening::Onramps(fate));
    }

    fn plan_trouble_of_onramps(&mut self) {
        let Some(onramps) = &mut self.onramps else { return };
        if !onramps.drawn.troubles.is_empty() {
            let pause = onramps.random.between(1, onramps.drawn.fault_interval);
            self.plan_fate(pause, Fate::Trouble);
        }
    }

    /// The site of a program, where there are several.
    pub(super) fn site_of(&self, program: usize) -> Option<usize> {
        self.onramps.as_ref().map(|onramps| onramps.site_of[program])
    }

    /// What the server's clock shows.
    pub(super) fn clock(&self) -> Option<u64> {
        self.onramps.as_ref().map(|_| EPOCH + self.now)
    }

    /// Where a client that connects comes to; nobody listens there where that is `None`.
    pub(super) fn program_for(&mut self, client: u32) -> Option<usize> {
        let program = match &mut self.onramps {
            None => 0,
            Some(onramps) if onramps.drawn.balances => *onramps.random.pick(&onramps.sites),
            Some(onramps) => onramps.sites[client as usize % onramps.sites.len()],
        };
        Some(program).filter(|&program| self.drivers[program].listening)
    }

    pub(super) fn meet(&mut self, fate: Fate) {
        match fate {
            Fate::Notice(link) => self.notice(link),
            Fate::Thaw(program) => self.thaw(program),
            Fate::Start(site) => self.start(site),
            Fate::Leave(session) => {
                self.with_server(0, |server| server.end_directly(session));
                if let Some(onramps) = &mut self.onramps {
                    onramps.squatted = self.now;
                }
            }
            Fate::Look => {
                let clock = EPOCH + self.now;
                for place in 0..self.servers.len() {
                    if self.is_up[place] && !self.hangs(place) {
                        self.with_server(place, |server| server.close_silent(clock));
                    }
                }
                self.check_peers();
                self.check_agreement();
                self.plan_fate(LOOK, Fate::Look);
            }
            Fate::Trouble if !self.calm => self.trouble_of_onramps(),
            Fate::Trouble => {}
        }
    }

    fn trouble_of_onramps(&mut self) {
        self.plan_trouble_of_onramps();
        let Some(onramps) = &mut self.onramps else { return };
        let random = &mut onramps.random;
        let trouble = *random.pick(&onramps.drawn.troubles);
        let site = random.index(onramps.sites.len());
        let program = onramps.sites[site];
        let pause = if random.percent(50) {
            random.between(1_000, 50_000)
        } else {
            random.between(50_000, 5_000_000)
        };
        let lives = self.drivers[program].life == Life::Runs;
        match trouble {
            Trouble::Die | Trouble::Vanish if lives => {
                self.end_of_onramp(program, trouble == Trouble::Vanish);
                self.plan_fate(pause, Fate::Start(site));
            }
            Trouble::Freeze if lives => self.freeze(program, pause),
            Trouble::Connection => self.end_service_connection(program),
            Trouble::Server if self.is_up[0] => {
                self.note(format_args!("the server crashes"));
                self.crash(0);
                self.schedule.at(self.now + pause, Happening::ServerUp(0));
            }
            Trouble::Squat if self.is_up[0] => self.squat(pause),
            Trouble::Die | Trouble::Vanish | Trouble::Freeze | Trouble::Server | Trouble::Squat => {}
        }
    }

    /// Its process dies, or its machine vanishes, and the others hear of it at once, later, or as their own time is over.
    fn end_of_onramp(&mut self, program: usize, vanishes: bool) {
        let Some(onramps) = &mut self.onramps else { return };
        let at_once = !vanishes && onramps.random.percent(60);
        let boots = onramps.random.between(100_000, 5_000_000);
        onramps.gone.insert(program, self.now);
        self.note(format_args!("Onramp {program} {}", if vanishes { "vanishes" } else { "dies" }));
        let driver = &mut self.drivers[program];
        (driver.life, driver.listening, driver.finished) = (Life::Gone, false, true);
        driver.news.clear();
        self.order_goes_with(program);
        self.tasks.retain(|_, (of, ..)| *of != program);
        for link in self.network.links_of(program) {
            if at_once {
                self.network.program_closes(self.now, &mut self.schedule, link);
                continue;
            }
            self.network.program_vanishes(link);
            let is_client = matches!(self.network.owner(link), Some(Owner::Client(_)));
            if !vanishes {
                self.plan_fate(boots, Fate::Notice(link));
            } else if is_client {
                let patience = self.random.between(100_000, 10_000_000);
                self.plan_fate(patience, Fate::Notice(link));
            }
        }
    }

    fn notice(&mut self, link: Link) {
        let owner = self.network.owner(link);
        self.network.forget(link);
        match owner {
            Some(Owner::Client(client)) if self.client_links.get(&client) == Some(&link) => {
                self.client_links.remove(&client);
                self.clients[client as usize].lost(self.now, &mut self.checkers);
                self.carry_out_client(client as usize);
            }
            Some(Owner::Server) => {
                let place = self.ways.get(&link).map_or(0, |way| way.server);
                self.with_server(place, |server| server.drop_link(link));
            }
            _ => {}
        }
    }

    fn start(&mut self, site: usize) {
        let parameters = self.parameters_now();
        let Some(onramps) = &mut self.onramps else { return };
        if self.drivers[onramps.sites[site]].life != Life::Gone {
            return;
        }
        let program = self.drivers.len();
        onramps.sites[site] = program;
        onramps.site_of.push(site);
        self.drivers.push(Driver::new((onramps.make)(&parameters, program), self.now));
        self.note(format_args!("Onramp {program} is started"));
        self.wake_program(program, 1);
    }

    fn freeze(&mut self, program: usize, pause: u64) {
        let Some(onramps) = &mut self.onramps else { return };
        // For longer than the server keeps a slot for it.
        let is_long = onramps.drawn.is_long() && onramps.random.percent(30);
        let pause = if is_long { onramps.random.between(58_000_000, 65_000_000) } else { pause };
        self.note(format_args!("Onramp {program} is frozen"));
        self.drivers[program].life = Life::Frozen;
        self.plan_fate(pause, Fate::Thaw(program));
    }

    fn thaw(&mut self, program: usize) {
        if self.drivers[program].life == Life::Frozen {
            self.note(format_args!("Onramp {program} goes on"));
            (self.drivers[program].life, self.drivers[program].since) = (Life::Runs, self.now);
            self.begins_anew(program);
            self.wake_program(program, 0);
        }
    }

    fn end_service_connection(&mut self, program: usize) {
        let is_its = |server: &Server, link: &Link| {
            server.is_service(*link) && self.ways.get(link).is_some_and(|way| way.origin.program == program)
        };
        let of_one = |server| Server::links(server).filter(move |link| is_its(server, link));
        let links: Vec<Link> = self.servers.iter().flat_map(of_one).collect();
        let Some(onramps) = self.onramps.as_mut().filter(|_| !links.is_empty()) else { return };
        let link = *onramps.random.pick(&links);
        let is_killed = onramps.random.percent(50);
        self.note(format_args!("backend {link} is lost, of the service account"));
        let place = self.ways.get(&link).map_or(0, |way| way.server);
        self.note_disturbed(place);
        if is_killed {
            self.with_server(place, |server| server.close(link));
        } else {
            self.servers[place].drop_link(link);
            self.network.peer_resets(self.now, &mut self.schedule, link);
        }
    }

    /// Somebody who has nothing to do with Onramps takes locks with the names of theirs.
    fn squat(&mut self, pause: u64) {
        let letters: Vec<String> =
            self.servers[0].database.locks.held().map(|(name, _)| name.to_owned()).collect();
        let letters: Vec<&String> =
            letters.iter().filter(|name| name.starts_with("onramp.letter.")).collect();
        let Some(onramps) = &mut self.onramps else { return };
        let random = &mut onramps.random;
        let names: Vec<String> = match random.below(4) {
            0 => (1..=SLOTS).map(|slot| format!("{OF_PROGRAM}slot.{slot}")).collect(),
            1 if !letters.is_empty() => {
                let name = random.pick(&letters).trim_end_matches(|end: char| end.is_ascii_digit());
                (0..random.between(1, 100))
                    .map(|bit| format!("{}.{bit}", name.trim_end_matches('.')))
                    .collect()
            }
            1 => {
                let name = *random.pick(&["at_work", "saturated"]);
                (1..=4).map(|slot| format!("{OF_PROGRAM}{name}.{slot}")).collect()
            }
            _ => (1..=random.between(1, 6)).map(|slot| format!("{OF_PROGRAM}slot.{slot}")).collect(),
        };
        onramps.direct += 1;
        onramps.squatted = self.now;
        let session = onramps.direct;
        self.note(format_args!("somebody takes {}, session {session}", names.join(", ")));
        self.with_server(0, |server| {
            for name in names {
                server.take_directly(session, "mallory", &name);
            }
        });
        self.plan_fate(pause, Fate::Leave(session));
    }

    /// All troubles end: who has gone is started again, and what is left of it is found out.
    pub(super) fn calm_onramps(&mut self) {
        let Some(onramps) = &mut self.onramps else { return };
        onramps.calm_since = self.now;
        let (sites, direct) = (onramps.sites.clone(), onramps.direct);
        for program in 0..self.drivers.len() {
            self.thaw(program);
            if self.drivers[program].life == Life::Gone {
                self.find_out(program);
            }
        }
        (0..sites.len()).for_each(|site| self.start(site));
        for session in DIRECT + 1..=direct {
            self.with_server(0, |server| server.end_directly(session));
        }
        // Those that were frozen have not heard of it.
        if self.cluster.is_some() {
            self.undrain();
        }
    }

    /// The system's keepalive finds out that this one has gone.
    fn find_out(&mut self, program: usize) {
        let left: Vec<Link> = self.servers.iter().flat_map(Server::links).collect();
        for link in left {
            if self.ways.get(&link).is_some_and(|way| way.origin.program == program) {
                self.notice(link);
            }
        }
    }
}
