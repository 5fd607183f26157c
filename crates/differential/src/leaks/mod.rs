//! The leak test: clients that leave behind whatever a connection can keep, one after the other over a single backend,
//! and after each a look at what is there while the backend is nobody's.
//!
//! It knows nothing of how Onramp decides what a text does: texts are drawn from a grammar of everything that leaves
//! something ([`rules`]), hidden in everything that can hide it; the server and the next client are asked ([`witness`]).
//! A program after which something is found is made small, printed and written to a file, which `--replay` runs again.

mod grammar;
mod program;
mod rules;
mod shrink;
mod witness;
mod world;

use std::time::{Duration, Instant};

use crate::Failure;
use crate::connection::{Connection, Login, password, plain_capabilities};
use crate::options::Options;
use crate::sites::{Folder, Server};
use crate::step::Step;

use self::program::{Ending, Program, Visit};
use self::shrink::shrink;
use self::witness::{Finding, Witness};
use self::world::{World, is_broken};

/// Time to make one program small. Every try takes half a second or less.
const SHRINKING: Duration = Duration::from_secs(60);

/// After so many programs the schemas are as new again, with a new Onramp.
const PROGRAMS_OF_A_WORLD: u64 = 100;

/// So often a program runs alone before what was found is taken for one of those before it.
const TRIES: usize = 3;

/// A line tells how far a run is, so often.
const TELLING: Duration = Duration::from_secs(60);

/// Runs the programs; whether nothing was found.
pub(crate) fn search(options: &Options) -> Result<bool, Failure> {
    let folder = Folder::new()?;
    let server = Server::start(&folder.0.join("server"), &options.server_directory, &world::ARGUMENTS)?;
    let world = World::new(&server, &options.onramp, &folder.0)?;
    let mut search = Search {
        options,
        bench: Bench { world, witness: Witness::default(), definitions_changed: false },
        began: Instant::now(),
        programs: 0,
        recent: Program::default(),
        found: Vec::new(),
        seen: Vec::new(),
    };
    search.kept()?;
    if options.replay.is_none() {
        search.seeds()?;
    }
    println!("{}", search.so_far());
    for name in &search.found {
        println!("  {name}");
    }
    Ok(search.found.is_empty())
}

/// What programs run on.
pub(crate) struct Bench<'a> {
    world: World<'a>,
    witness: Witness,
    /// What is defined in the world may not be what it began with.
    definitions_changed: bool,
}

impl Bench<'_> {
    /// Runs the program from a fresh start.
    pub(crate) fn run_alone(&mut self, program: &Program) -> Result<Option<Finding>, Failure> {
        self.renew()?;
        self.run(program)
    }

    /// Runs the program after another one has been run; `spoilt` is what that has left.
    fn run_again(&mut self, program: &Program, spoilt: bool) -> Result<Option<Finding>, Failure> {
        match (self.definitions_changed, spoilt || self.world.lost) {
            (true, _) => self.renew()?,
            (false, true) => self.world.restart()?,
            (false, false) => {}
        }
        self.run(program)
    }

    fn renew(&mut self) -> Result<(), Failure> {
        self.definitions_changed = false;
        self.world.renew()
    }

    fn run(&mut self, program: &Program) -> Result<Option<Finding>, Failure> {
        self.definitions_changed |= program.changes_definitions();
        for visit in &program.visits {
            match self.visit(visit)? {
                None if !self.world.lost => {}
                found => return Ok(found),
            }
        }
        Ok(None)
    }

    fn visit(&mut self, visit: &Visit) -> Result<Option<Finding>, Failure> {
        let prober = prober(&visit.login);
        self.witness.learn(&mut self.world, &prober)?;
        let opened =
            Connection::open(&self.world.onramp().socket, &visit.login, &password(&visit.login.user));
        let (mut client, _) = opened.map_err(|error| format!("login: {error}"))?;
        for step in &visit.steps {
            if is_broken(&client.perform(step)) {
                break;
            }
        }
        let stays = self.let_go(client, visit);
        self.world.end_branches();
        if self.world.lost {
            return Ok(None);
        }
        let mut found = self.witness.look(&mut self.world, &prober)?;
        // Who stays may be bound to the backend still, by a role say: then it is left when that client has gone.
        if let Some(mut client) = stays {
            client.quit();
            if found.as_ref().is_some_and(Finding::is_no_answer) {
                found = self.witness.look(&mut self.world, &prober)?;
            }
        }
        if self.world.lost {
            return Ok(None);
        }
        if !self.world.onramp().lives() {
            let what = format!("onramp has ended:\n{}", self.world.onramp().last_words());
            return Ok(Some(Finding { kind: String::from("end"), what }));
        }
        Ok(found)
    }

    /// Ends what binds the client to its backend. The client is given back where it stays.
    fn let_go(&mut self, mut client: Connection, visit: &Visit) -> Option<Connection> {
        match visit.ending {
            Ending::Quit => client.quit(),
            Ending::Drop => {}
            Ending::Reset => {
                client.perform(&Step::Reset);
                return Some(client);
            }
            Ending::ChangeUser => {
                let Login { user, schema, .. } = visit.login.clone();
                client.perform(&Step::ChangeUser { user, right_password: true, schema });
                return Some(client);
            }
        }
        None
    }
}

/// How the client logs in that comes next: as the one before, so that nothing needs to be changed on the backend.
fn prober(login: &Login) -> Login {
    Login { capabilities: plain_capabilities().0, ..login.clone() }
}

struct Search<'a> {
    options: &'a Options,
    bench: Bench<'a>,
    began: Instant,
    programs: u64,
    /// All since the world was new: what is found may be of an earlier one.
    recent: Program,
    /// The names of the programs after which something was found.
    found: Vec<String>,
    /// What has been made small already, to be told once.
    seen: Vec<(String, Vec<Vec<String>>)>,
}

impl Search<'_> {
    fn kept(&mut self) -> Result<(), Failure> {
        let mut files = match (&self.options.replay, &self.options.kept) {
            (Some(file), _) => vec![file.clone()],
            (None, Some(folder)) => crate::files(folder)?,
            (None, None) => Vec::new(),
        };
        files.sort();
        for file in files {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
            let program = Program::read(&text).map_err(|error| format!("{name}: {error}"))?;
            self.programs += 1;
            if let Some(found) = self.bench.run_alone(&program)? {
                println!("{name}\n{}", tell(&program, &found));
                self.found.push(name);
            }
        }
        Ok(())
    }

    fn seeds(&mut self) -> Result<(), Failure> {
        let end = self.began + self.options.duration;
        let mut left = self.options.programs;
        let mut seed = self.options.seed;
        let mut told = self.began;
        let mysql = self.bench.world.server.is_mysql();
        let mut until_new = 0;
        while left.map_or_else(|| Instant::now() < end, |left| left > 0)
            && self.found.len() < self.options.stop_at
        {
            if until_new == 0 {
                self.bench.renew().map_err(|error| format!("before seed {seed}: {error}"))?;
                self.recent.visits.clear();
                until_new = PROGRAMS_OF_A_WORLD;
            }
            let program = grammar::draw(seed, mysql);
            let text = program.write().to_ascii_lowercase();
            if self.options.without.iter().any(|known| text.contains(known)) {
                seed += 1;
                continue;
            }
            self.programs += 1;
            until_new -= 1;
            self.recent.visits.extend(program.visits.iter().cloned());
            let found = self.bench.run(&program).map_err(|error| format!("seed {seed}: {error}"))?;
            if let Some(found) = found {
                self.note(&format!("seed {seed}"), &program, &found)?;
                until_new = 0;
            }
            if self.bench.world.lost {
                println!("seed {seed}: the server has ended");
                until_new = 0;
            }
            left = left.map(|left| left - 1);
            seed += 1;
            if told.elapsed() >= TELLING {
                told = Instant::now();
                println!("{}", self.so_far());
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &str, program: &Program, found: &Finding) -> Result<(), Failure> {
        println!("{name}: {}", found.what);
        // What hangs on who comes first may need more than one try.
        let mut alone = None;
        for _ in 0..TRIES {
            alone = alone.map_or_else(|| self.bench.run_alone(program), |found| Ok(Some(found)))?;
        }
        let (program, found) = match alone {
            Some(found) => (program.clone(), found),
            None => (self.recent.clone(), found.clone()),
        };
        let (small, found) = shrink(&mut self.bench, &program, &found, SHRINKING)?;
        let words = (found.kind.clone(), words(&small));
        if self.seen.contains(&words) {
            println!("  like one before");
            return Ok(());
        }
        self.seen.push(words);
        self.found.push(name.to_owned());
        let told = tell(&small, &found);
        println!("{told}");
        let file = self.options.found.join(format!("leak-{}.txt", name.replace(' ', "-")));
        let server = if self.bench.world.server.is_mysql() { "MySQL" } else { "MariaDB" };
        let comment: String = found.what.lines().map(|line| format!("# {line}\n")).collect();
        std::fs::create_dir_all(&self.options.found)
            .and_then(|()| std::fs::write(&file, format!("# {server}\n{comment}{}", small.write())))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("  again: differential --leaks --replay {}", file.display());
        Ok(())
    }

    fn so_far(&self) -> String {
        let (seconds, found) = (self.began.elapsed().as_secs(), self.found.len());
        format!("{} programs in {seconds} s, {found} with something left", self.programs)
    }
}

/// The texts of a program without their numbers: what is alike but for those is told once.
fn words(program: &Program) -> Vec<Vec<String>> {
    let of_step = |step: &Step| -> Vec<String> {
        let text = step.write();
        let words = text.split(|letter: char| !letter.is_alphabetic());
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    program.visits.iter().flat_map(|visit| visit.steps.iter().map(of_step)).collect()
}

fn tell(program: &Program, found: &Finding) -> String {
    let lines: String =
        program.write().lines().map(|line| format!("    {}\n", line.replace('\t', " "))).collect();
    format!("{lines}  left: {}", found.what)
}
