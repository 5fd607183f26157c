//! The thread that asks one Onramp.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use admin_client::{Connection, Failure, Place, Taker};

use super::chunk::{Chunk, too_large};
use super::manners::{self, AT_A_TIME, Turn};
use crate::database::VALUE_LIMIT;
use crate::login::is_own_greeting;
use crate::row::{Column, Table, Wanted};
use crate::variables::IDENTITY;

/// How many threads ask at a time, for all statements. A thread ends with its statement's patience, unless a name server keeps it longer:
/// so this bounds what a statement each second leaves behind while there is none.
const MOST_THREADS: usize = 256;

/// What each admin port has in its greeting's version.
const MARK: &str = "-onramp-";

/// ER_UNKNOWN_SYSTEM_VARIABLE: it is of a version that does not tell who it is.
const UNKNOWN_VARIABLE: u16 = 1193;

/// ER_NO_SUCH_TABLE.
const UNKNOWN_TABLE: u16 = 1146;

/// A table of which others' rows are wanted.
pub(crate) struct Question {
    /// Where they go.
    pub(super) twin: &'static Table,
    /// The same, as SQLite writes it.
    pub(super) name: String,
    /// The table that is asked for.
    of: &'static Table,
    /// The columns that the statement reads of it.
    pub(super) columns: Vec<&'static Column>,
}

impl Question {
    /// `None` for what is no twin.
    pub(super) fn of(wanted: &Wanted) -> Option<Self> {
        let twin = wanted.table;
        let of = twin.twin_of?;
        let is_read = |column: &&Column| {
            wanted.columns.iter().any(|read| read.eq_ignore_ascii_case(&of.column_name(column)))
        };
        let columns = of.columns.iter().filter(is_read).collect();
        Some(Self { twin, name: format!("{}.\"{}\"", twin.schema.name(), twin.name), of, columns })
    }

    fn column_names(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|column| self.of.column_name(column))
    }

    /// As SQL of an admin port, of the columns that are wanted, or of all that it has.
    fn to_sql(&self, of_all: bool) -> String {
        let names: Vec<_> = self.column_names().map(|name| format!("`{name}`")).collect();
        let columns = match names.as_slice() {
            _ if of_all => String::from("*"),
            // They are counted.
            [] => String::from("NULL"),
            names => names.join(", "),
        };
        format!("SELECT {columns} FROM {}.`{}`", self.of.schema.name(), self.of.name)
    }

    /// As SQL of SQLite, with whose the row is in front.
    pub(super) fn insert(&self) -> String {
        let columns: String = self.column_names().map(|name| format!(", \"{name}\"")).collect();
        let places = ", ?".repeat(self.columns.len());
        format!("INSERT INTO {} (onramp{columns}) VALUES (?{places})", self.name)
    }
}

/// What is said of an Onramp.
pub(crate) enum Said {
    /// Rows of the question with this number.
    Rows(usize, Chunk),
    /// It is the one that asks.
    This,
    /// It is the one with this number.
    Same(usize),
    /// What there is to know of its rows.
    Remark(String),
    /// All has been said.
    Done,
    /// Why it has not.
    Failed(String),
}

/// What all threads of a statement have in common.
pub(crate) struct Shared {
    /// Who asks.
    own_identity: String,
    /// Who is asked by which number.
    found: Mutex<BTreeMap<String, usize>>,
    until: Instant,
}

impl Shared {
    pub(super) fn new(own_identity: &str, until: Instant) -> Self {
        Self { own_identity: String::from(own_identity), found: Mutex::default(), until }
    }

    /// Who that is beside those that were found before; `None` where it is a new one.
    fn known(&self, identity: String, number: usize) -> Option<Said> {
        if identity == self.own_identity {
            return Some(Said::This);
        }
        match self.found.lock().unwrap_or_else(PoisonError::into_inner).entry(identity) {
            Entry::Occupied(entry) => Some(Said::Same(*entry.get())),
            Entry::Vacant(entry) => {
                entry.insert(number);
                None
            }
        }
    }
}

/// One of the threads that there are.
struct Thread;

static THREADS: AtomicUsize = AtomicUsize::new(0);

impl Thread {
    fn take() -> Option<Self> {
        let room = |count: usize| (count < MOST_THREADS).then_some(count + 1);
        THREADS.fetch_update(Relaxed, Relaxed, room).is_ok().then_some(Self)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
    }
}

/// Who asks one.
pub(crate) struct Asker {
    pub(super) number: usize,
    pub(super) place: Place,
    pub(super) questions: Arc<[Question]>,
    pub(super) shared: Arc<Shared>,
}

/// Nobody hears it any more, or there is no answer.
enum End {
    Unheard,
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Why another Onramp is not asked.
#[derive(Debug)]
pub(super) enum NoThread {
    /// As many are asked as may be at a time.
    TooMany,
    /// The system gives none.
    OfSystem(std::io::Error),
}

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => {
                write!(f, "{MOST_THREADS} questions to other Onramps are under way already; ask again later")
            }
            Self::OfSystem(error) => write!(f, "no thread to ask it: {error}"),
        }
    }
}

impl std::error::Error for NoThread {}

impl Asker {
    /// Asks on a thread, which ends with an answer, or once nobody hears it.
    ///
    /// # Errors
    /// Why there is no thread.
    pub(super) fn start(self, say: SyncSender<(usize, Said)>) -> Result<(), NoThread> {
        let thread = Thread::take().ok_or(NoThread::TooMany)?;
        let run = move || {
            let _thread = thread;
            let number = self.number;
            let last = match self.ask(&say) {
                Ok(last) => last,
                Err(End::Unheard) => return,
                Err(End::Failed(failure)) => Said::Failed(self.reason(&failure)),
            };
            // Nobody hears it once the statement's time is over.
            let _ = say.send((number, last));
        };
        let started = std::thread::Builder::new().name(String::from("admin peer")).spawn(run);
        started.map(|_| ()).map_err(NoThread::OfSystem)
    }

    fn reason(&self, failure: &Failure) -> String {
        let text = failure.text();
        match failure {
            Failure::Denied(_) => format!(
                "{text}; where its admin_user or admin_password is another one, name it in admin_peers as mysql://user:password@{}/",
                self.place.target()
            ),
            Failure::Lost(_) | Failure::Refused { .. } | Failure::Own => text,
        }
    }

    /// Has the questions answered, and says what is left to say.
    fn ask(&self, say: &SyncSender<(usize, Said)>) -> Result<Said, End> {
        if let Some(since) = manners::refused_since(&self.place.account()) {
            let refused = since.as_secs();
            let again = manners::ASK_AGAIN.as_secs();
            return Ok(Said::Failed(format!(
                "it has refused the login {refused} s ago, and is asked again {again} s after that, or behind RELOAD or SET GLOBAL admin_peers"
            )));
        }
        let _turn = Turn::take(self.place.target(), self.shared.until).ok_or_else(|| {
            Failure::Lost(format!(
                "{AT_A_TIME} other statements here have asked it, and it has not answered them"
            ))
        })?;
        let mut connection = match Connection::open(&self.place, self.shared.until, is_own_greeting) {
            Ok(connection) => connection,
            Err(Failure::Own) => return Ok(Said::This),
            Err(failure) => {
                if matches!(failure, Failure::Denied(_)) {
                    manners::note_refused(self.place.account());
                }
                return Err(failure.into());
            }
        };
        if !connection.version().contains(MARK) {
            let version: String = connection.version().chars().take(60).collect();
            let text = format!("it is no Onramp's admin port, but calls itself {version:?}; see admin_peers");
            return Ok(Said::Failed(text));
        }
        let mut identity = Word::default();
        match connection.query(&format!("SELECT @@{IDENTITY}"), self.shared.until, &mut identity) {
            Ok(_) => {
                if let Some(known) = identity.0.and_then(|known| self.shared.known(known, self.number)) {
                    return Ok(known);
                }
            }
            Err(Failure::Refused { code: UNKNOWN_VARIABLE, .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
        for number in 0..self.questions.len() {
            if let Some(remark) = self.ask_one(&mut connection, number, say)? {
                self.say(say, Said::Remark(remark))?;
            }
        }
        Ok(Said::Done)
    }

    /// Returns what there is to know of the rows.
    fn ask_one(
        &self,
        connection: &mut Connection,
        number: usize,
        say: &SyncSender<(usize, Said)>,
    ) -> Result<Option<String>, End> {
        let question = &self.questions[number];
        for of_all in [false, true] {
            let mut taken = Taken::new(self, number, say);
            let answer = connection.query(&question.to_sql(of_all), self.shared.until, &mut taken);
            match answer {
                Ok(warnings) => {
                    taken.hand_on().map_err(|_| End::Unheard)?;
                    let table = question.of.name;
                    return Ok((warnings > 0).then(|| {
                        format!(
                            "not all of its workers have answered in time: rows of {table} are missing; SHOW WARNINGS behind \
                             SELECT * FROM {table} there says which"
                        )
                    }));
                }
                Err(Failure::Refused { code: UNKNOWN_TABLE, .. }) => {
                    let table = question.of.name;
                    return Ok(Some(format!(
                        "it has no table {table}, being of another version: rows of it are missing"
                    )));
                }
                // One of another version, which lacks a column.
                Err(failure) if failure.is_of_a_name() && !of_all => {}
                Err(_) if taken.is_unheard => return Err(End::Unheard),
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(None)
    }

    fn say(&self, say: &SyncSender<(usize, Said)>, said: Said) -> Result<(), End> {
        say.send((self.number, said)).map_err(|_| End::Unheard)
    }
}

/// The one value of an answer.
#[derive(Default)]
struct Word(Option<String>);

impl Taker for Word {
    fn columns(&mut self, _columns: Vec<admin_client::Column>) {}

    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<(), Failure> {
        let value = values.first().copied().flatten().filter(|value| value.len() <= LONGEST_IDENTITY);
        self.0 = value.map(|value| String::from_utf8_lossy(value).into_owned());
        Ok(())
    }
}

/// A UUID has 36 characters.
const LONGEST_IDENTITY: usize = 64;

/// Rows that are handed on as they come.
struct Taken<'a> {
    asker: &'a Asker,
    question: usize,
    say: &'a SyncSender<(usize, Said)>,
    /// Of each column that is wanted, where it stands in the answer.
    places: Vec<Option<usize>>,
    chunk: Chunk,
    is_unheard: bool,
}

impl<'a> Taken<'a> {
    fn new(asker: &'a Asker, question: usize, say: &'a SyncSender<(usize, Said)>) -> Self {
        let chunk = Chunk::new(asker.questions[question].columns.len());
        Self { asker, question, say, places: Vec::new(), chunk, is_unheard: false }
    }

    fn hand_on(&mut self) -> Result<(), Failure> {
        let fresh = Chunk::new(self.places.len());
        let chunk = std::mem::replace(&mut self.chunk, fresh);
        self.asker.say(self.say, Said::Rows(self.question, chunk)).map_err(|_| {
            self.is_unheard = true;
            Failure::Lost(String::from("nobody waits for it any more"))
        })
    }
}

impl Taker for Taken<'_> {
    fn columns(&mut self, columns: Vec<admin_client::Column>) {
        let place = |name: String| columns.iter().position(|column| column.name.eq_ignore_ascii_case(&name));
        self.places = self.asker.questions[self.question].column_names().map(place).collect();
    }

    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<(), Failure> {
        let wanted = || self.places.iter().map(|place| place.and_then(|place| values[place]));
        if wanted().flatten().map(<[u8]>::len).sum::<usize>() > VALUE_LIMIT as usize {
            return Err(Failure::Lost(too_large(VALUE_LIMIT)));
        }
        let row: Vec<_> = wanted().collect();
        self.chunk.push(row.into_iter());
        if self.chunk.is_full() { self.hand_on() } else { Ok(()) }
    }
}
