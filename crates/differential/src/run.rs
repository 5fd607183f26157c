//! Runs a program on both sides and compares what its clients see.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::Capabilities;

use crate::Failure;
use crate::connection::{Connection, Login, Reply, password};
use crate::differences::{Ends, Reason, Tally, unexplained};
use crate::flags::has_flags_of_its_sql_mode;
use crate::orders;
use crate::program::{Move, Program};
use crate::sites::{Onramp, PATIENCE_WITH_OTHERS, Server};
use crate::step::Step;

/// What runs need.
pub(crate) struct Bench<'a> {
    /// The `onramp` program; without it the second server is reached directly too.
    pub(crate) onramp: Option<&'a Path>,
    /// A folder for its log and its socket.
    pub(crate) folder: &'a Path,
    /// The server that clients reach directly.
    pub(crate) direct: &'a Server,
    /// The server behind Onramp.
    pub(crate) behind: &'a Server,
}

/// The first difference of a run.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The place of the step in the program, or none where it is about no single step.
    pub(crate) place: Option<usize>,
    pub(crate) what: String,
}

impl Difference {
    /// Whether another run has failed in the same way: with the same words, but for long numbers, which are ids.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let words = |text: &str| -> Vec<String> {
            let is_id = |word: &str| word.len() > 5 && word.bytes().all(|byte| byte.is_ascii_digit());
            text.split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| !is_id(word))
                .map(String::from)
                .collect()
        };
        words(&self.what) == words(&other.what)
    }
}

/// Runs the program; `None` where both sides showed the same. The error is about what surrounds it.
pub(crate) fn run(
    bench: &Bench<'_>,
    program: &Program,
    tally: &mut Tally,
) -> Result<Option<Difference>, Failure> {
    let clients = program.clients();
    std::thread::scope(|scope| {
        let behind = scope.spawn(|| bench.behind.prepare(&clients));
        bench.direct.prepare(&clients)?;
        behind.join().expect("it does not panic")
    })?;
    let Some(onramp) = bench.onramp else {
        // Servers list changes in an order that hangs on addresses in memory.
        let mut program = program.clone();
        for login in &mut program.logins {
            login.capabilities &= !Capabilities::SESSION_TRACK.0;
        }
        return Ok(perform(&program, (bench.direct.socket(), bench.behind.socket()), tally));
    };
    let mut onramp =
        Onramp::start(onramp, bench.folder, bench.behind, &program.setting, PATIENCE_WITH_OTHERS)?;
    let sockets = (bench.direct.socket(), &*onramp.socket);
    let over = AtomicBool::new(false);
    let (difference, orders) = std::thread::scope(|scope| {
        let orders = onramp.admin.as_deref().map(|admin| {
            // The same orders for the same program, though not at the same moments.
            let (seed, over) = (program.moves.len() as u64, &over);
            scope.spawn(move || orders::give(admin, seed, over))
        });
        let difference = perform(program, sockets, tally);
        over.store(true, Ordering::Relaxed);
        (difference, orders.map_or(Ok(()), |orders| orders.join().expect("it does not panic")))
    });
    orders?;
    if !onramp.lives() {
        let place = difference.as_ref().and_then(|difference| difference.place);
        return Ok(Some(Difference { place, what: format!("onramp has ended:\n{}", onramp.last_words()) }));
    }
    Ok(difference)
}

fn perform(program: &Program, sockets: (&Path, &Path), tally: &mut Tally) -> Option<Difference> {
    if program.setting.at_once { at_once(program, sockets, tally) } else { in_order(program, sockets, tally) }
}

fn in_order(program: &Program, sockets: (&Path, &Path), tally: &mut Tally) -> Option<Difference> {
    let mut clients = BTreeMap::new();
    for client in program.clients() {
        match Pair::open(sockets, &program.logins[client], tally) {
            Ok(pair) => clients.insert(client, pair),
            Err(what) => return Some(Difference { place: None, what: what.to_string() }),
        };
    }
    for (place, Move { client, step, .. }) in program.moves.iter().enumerate() {
        let pair = clients.get_mut(client).expect("all that have a step are there");
        if let Some(what) = pair.perform(step, sockets, tally) {
            return Some(Difference { place: Some(place), what });
        }
    }
    None
}

/// The earliest difference in the program's order, whenever it was seen.
fn at_once(program: &Program, sockets: (&Path, &Path), tally: &mut Tally) -> Option<Difference> {
    let seen: Mutex<(Vec<Difference>, Tally)> = Mutex::default();
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in program.clients() {
            let (login, seen, enough) = (&program.logins[client], &seen, &enough);
            scope.spawn(move || {
                let mut own = Tally::new();
                let difference = one_client(program, client, login, sockets, enough, &mut own);
                let mut seen = seen.lock().expect("nobody panics with it");
                for (reason, count) in own {
                    *seen.1.entry(reason).or_default() += count;
                }
                if let Some(difference) = difference {
                    enough.store(true, Ordering::Relaxed);
                    seen.0.push(difference);
                }
            });
        }
    });
    let (differences, counts) = seen.into_inner().expect("nobody panics with it");
    for (reason, count) in counts {
        *tally.entry(reason).or_default() += count;
    }
    differences.into_iter().min_by_key(|difference| difference.place)
}

fn one_client(
    program: &Program,
    client: usize,
    login: &Login,
    sockets: (&Path, &Path),
    enough: &AtomicBool,
    tally: &mut Tally,
) -> Option<Difference> {
    let mut pair = match Pair::open(sockets, login, tally) {
        Ok(pair) => pair,
        Err(what) => return Some(Difference { place: None, what: what.to_string() }),
    };
    for (place, own) in program.moves.iter().enumerate().filter(|(_, own)| own.client == client) {
        if enough.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(what) = pair.perform(&own.step, sockets, tally) {
            return Some(Difference { place: Some(place), what });
        }
    }
    None
}

/// A client: its direct connection and the one through Onramp.
struct Pair<'a> {
    direct: Connection,
    through: Connection,
    login: &'a Login,
}

impl<'a> Pair<'a> {
    fn open(sockets: (&Path, &Path), login: &'a Login, tally: &mut Tally) -> Result<Self, Failure> {
        let open = |socket: &Path| {
            Connection::open(socket, login, &password(&login.user))
                .map_err(|error| format!("login over {}: {error}", socket.display()))
        };
        let (direct, first) = open(sockets.0)?;
        let (through, second) = open(sockets.1)?;
        let mut pair = Self { direct, through, login };
        match pair.compare(&Step::Reconnect, &[first], &[second], tally).or_else(|| pair.begin(tally)) {
            Some(what) => Err(format!("login: {what}").into()),
            None => Ok(pair),
        }
    }

    /// In a new session FOUND_ROWS() is whatever an earlier user of the server's thread left: a first SELECT sets it.
    fn begin(&mut self, tally: &mut Tally) -> Option<String> {
        let step = Step::Query(b"SELECT 'begin'".to_vec());
        let (direct, through) = (self.direct.perform(&step), self.through.perform(&step));
        self.compare(&step, &direct, &through, tally)
    }

    /// Performs a step on both connections, and says what differs.
    fn perform(&mut self, step: &Step, sockets: (&Path, &Path), tally: &mut Tally) -> Option<String> {
        if *step == Step::Reconnect {
            return self.reopen(sockets, tally);
        }
        let (direct, through) = (self.direct.perform(step), self.through.perform(step));
        let flags = |tally: &Tally| tally.get(&Reason::FlagsOfSqlMode).copied();
        let before = flags(tally);
        if let Some(what) = self.compare(step, &direct, &through, tally) {
            return Some(what);
        }
        if flags(tally) != before
            && let Some(what) = self.ask_sql_mode(tally)
        {
            return Some(what);
        }
        if direct.iter().any(|reply| reply.broken.is_some()) {
            return self.reopen(sockets, tally);
        }
        matches!(step, Step::Reset | Step::ChangeUser { .. }).then(|| self.begin(tally)).flatten()
    }

    /// Says what is wrong where the flags of `sql_mode` are other ones through Onramp, and not as that is.
    fn ask_sql_mode(&mut self, tally: &mut Tally) -> Option<String> {
        let step = Step::Query(b"SELECT @@sql_mode".to_vec());
        let (direct, through) = (self.direct.perform(&step), self.through.perform(&step));
        let wrong = !through.iter().all(has_flags_of_its_sql_mode);
        self.compare(&step, &direct, &through, tally)
            .or_else(|| wrong.then(|| format!("the flags are not those of sql_mode: {through:?}")))
    }

    fn reopen(&mut self, sockets: (&Path, &Path), tally: &mut Tally) -> Option<String> {
        self.direct.quit();
        self.through.quit();
        match Self::open(sockets, self.login, tally) {
            Ok(pair) => {
                *self = pair;
                None
            }
            Err(what) => Some(what.to_string()),
        }
    }

    fn compare(&self, step: &Step, direct: &[Reply], through: &[Reply], tally: &mut Tally) -> Option<String> {
        let ends = Ends {
            direct_id: self.direct.id,
            through_id: self.through.id,
            capabilities: self.through.capabilities,
        };
        unexplained(step, ends, direct, through, tally)
    }
}
