//! The thread that asks: it has the connection, makes it anew where it was lost, and gives each look to whoever waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::connection::{Answer, Connection, Failure, Place};
use crate::questions::{self, Question};
use crate::snapshot::{NOTES, Snapshot, Table};
use crate::tabs::Tab;
use crate::texts::Texts;

/// The thread, as the one that draws sees it.
pub struct Poller {
    questions: Sender<Vec<Question>>,
    looks: Receiver<Result<Snapshot, String>>,
    // It ends with the program: where it waits for an answer nobody waits for it.
    _thread: JoinHandle<()>,
}

impl Poller {
    /// Goes on with this connection, where there is one yet.
    pub fn start(place: Arc<Place>, connection: Option<Connection>) -> Self {
        let (questions, asked) = channel::<Vec<Question>>();
        let (give, looks) = channel();
        let thread = std::thread::spawn(move || {
            let mut asker = Asker::new(place, connection);
            for wanted in asked {
                #[cfg(debug_assertions)]
                crate::injected::panic_in("asking");
                if give.send(asker.look(&wanted)).is_err() {
                    return;
                }
            }
        });
        Self { questions, looks, _thread: thread }
    }

    /// Has the tables asked for; [`Self::look`] gives them later.
    pub fn ask(&self, questions: Vec<Question>) {
        // The thread ends with the receiver alone.
        let _ = self.questions.send(questions);
    }

    /// What has come since, if anything has.
    ///
    /// # Errors
    /// The thread has ended, which it does by a panic alone: the terminal has been given back then.
    pub fn look(&self) -> Result<Option<Result<Snapshot, String>>, String> {
        match self.looks.try_recv() {
            Ok(look) => Ok(Some(look)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(String::from("the thread that asks has ended")),
        }
    }
}

/// Who asks: a connection, made anew where it was lost, and what is known from earlier looks.
pub struct Asker {
    place: Arc<Place>,
    connection: Option<Connection>,
    texts: Texts,
}

impl Asker {
    /// Over this connection, or one that is yet to be made.
    pub fn new(place: Arc<Place>, connection: Option<Connection>) -> Self {
        Self { place, connection, texts: Texts::default() }
    }

    /// One look.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn look(&mut self, questions: &[Question]) -> Result<Snapshot, String> {
        let mut open = match self.connection.take() {
            Some(open) => open,
            None => Connection::open(&self.place).map_err(|failure| failure.text().to_owned())?,
        };
        match ask(&mut open, questions, &mut self.texts) {
            Ok(snapshot) => {
                self.connection = Some(open);
                Ok(snapshot)
            }
            Err(Failure::Refused(text)) => {
                self.connection = Some(open);
                Err(text)
            }
            Err(Failure::Lost(text)) => Err(text),
        }
    }
}

fn ask(connection: &mut Connection, questions: &[Question], texts: &mut Texts) -> Result<Snapshot, Failure> {
    let began = Instant::now();
    let mut snapshot = Snapshot::default();
    let status = connection.query(questions::STATUS)?;
    if status.warnings > 0 {
        snapshot.troubles.insert("workers".to_owned(), "not every worker has answered in time".to_owned());
    }
    snapshot.status = pairs(status);
    snapshot.options = pairs(connection.query(questions::OPTIONS)?);
    match connection.query(questions::NOTES) {
        Ok(answer) => {
            snapshot.tables.insert(String::from(NOTES), answer.table);
        }
        // An older Onramp has none, and the screen has no such lines then.
        Err(Failure::Refused(_)) => {}
        Err(lost) => return Err(lost),
    }
    for question in questions {
        let name = question.tab.name().to_owned();
        match connection.query(&question.to_sql()) {
            Ok(answer) => {
                snapshot.tables.insert(name, answer.table);
            }
            // Such as a table that an older Onramp does not have: the others are of use all the same.
            Err(Failure::Refused(text)) => {
                snapshot.troubles.insert(name, text);
            }
            Err(lost) => return Err(lost),
        }
    }
    fill_texts(connection, &mut snapshot, texts)?;
    snapshot.took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    snapshot.at = now();
    Ok(snapshot)
}

fn fill_texts(
    connection: &mut Connection,
    snapshot: &mut Snapshot,
    texts: &mut Texts,
) -> Result<(), Failure> {
    texts.next_look();
    let tables = [Tab::Clients, Tab::Locks, Tab::Minutes].map(Tab::name);
    let found = tables.iter().filter_map(|name| snapshot.tables.get(*name));
    let missing: BTreeSet<String> = found.flat_map(|table| texts.missing(table)).map(str::to_owned).collect();
    if !missing.is_empty() {
        match connection.query(&questions::texts(missing.iter().map(String::as_str))) {
            Ok(answer) => texts.take(&missing, &answer.table),
            Err(Failure::Refused(text)) => {
                snapshot.troubles.insert("texts".to_owned(), text);
            }
            Err(lost) => return Err(lost),
        }
    }
    for name in tables {
        if let Some(table) = snapshot.tables.get_mut(name) {
            texts.fill(table);
        }
    }
    Ok(())
}

fn pairs(answer: Answer) -> BTreeMap<String, String> {
    let Table { rows, .. } = answer.table;
    let pair = |row: Vec<crate::snapshot::Value>| Some((row.first()?.text(), row.get(1)?.text()));
    rows.into_iter().filter_map(pair).collect()
}

/// Milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
