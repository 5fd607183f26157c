//! The thread that asks: it has the connection, makes it anew where it was lost, and gives each look to whoever waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::connection::{Answer, Connection, Failure, Place};
use crate::questions::{self, Has, Question};
use crate::snapshot::{NOTES, PEERS, Snapshot, Table};
use crate::tabs::Tab;
use crate::texts::Texts;
use crate::trouble::Trouble;

/// The thread, as the one that draws sees it.
pub struct Poller {
    questions: Sender<Vec<Question>>,
    looks: Receiver<Result<Snapshot, Failure>>,
    // The thread ends with the program: where it waits for an answer nobody waits for it.
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
    pub fn look(&self) -> Result<Option<Result<Snapshot, Failure>>, Trouble> {
        match self.looks.try_recv() {
            Ok(look) => Ok(Some(look)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Trouble::ThreadEnded),
        }
    }
}

/// Who asks: a connection, made anew where it was lost, and what is known from earlier looks.
pub struct Asker {
    place: Arc<Place>,
    connection: Option<Connection>,
    texts: Texts,
    /// What it has of a tab, where that is not all; by what the connection's Onramp has said.
    has: BTreeMap<Tab, Has>,
    /// The Onramps that it knew last.
    peers: Option<Table>,
}

impl Asker {
    /// Over this connection, or one that is yet to be made.
    pub fn new(place: Arc<Place>, connection: Option<Connection>) -> Self {
        Self { place, connection, texts: Texts::default(), has: BTreeMap::new(), peers: None }
    }

    /// One look.
    ///
    /// # Errors
    /// Why there is none.
    pub fn look(&mut self, questions: &[Question]) -> Result<Snapshot, Failure> {
        let mut open = match self.connection.take() {
            Some(open) => open,
            None => {
                // The Onramp may have been updated since.
                self.has.clear();
                self.peers = None;
                Connection::open(&self.place)?
            }
        };
        let look = self.ask(&mut open, questions);
        if matches!(look, Ok(_) | Err(Failure::Refused { .. })) {
            self.connection = Some(open);
        }
        look
    }

    fn ask(&mut self, connection: &mut Connection, questions: &[Question]) -> Result<Snapshot, Failure> {
        let began = Instant::now();
        let mut snapshot = Snapshot::default();
        let status = connection.query(questions::STATUS)?;
        let all_answer = status.warnings == 0;
        if !all_answer {
            snapshot
                .troubles
                .insert("workers".to_owned(), "not every worker has answered in time".to_owned());
        }
        snapshot.status = pairs(status);
        snapshot.options = pairs(connection.query(questions::OPTIONS)?);
        if let Some(notes) = where_it_has_them(connection.query(questions::NOTES))? {
            snapshot.tables.insert(String::from(NOTES), notes);
        }
        // Each question waits for a worker that does not answer; who is there beside it can be told of later.
        if all_answer {
            self.peers = where_it_has_them(connection.query(questions::PEERS))?;
        }
        if let Some(peers) = &self.peers {
            snapshot.tables.insert(String::from(PEERS), peers.clone());
        }
        for question in questions {
            let name = question.tab.name().to_owned();
            match ask_of_a_tab(connection, question, &mut self.has) {
                Ok(answer) => {
                    snapshot.tables.insert(name, answer.table);
                }
                // Such as a table that an older Onramp does not have: the others are of use all the same.
                Err(refused @ Failure::Refused { .. }) => {
                    snapshot.troubles.insert(name, refused.text());
                }
                Err(lost) => return Err(lost),
            }
        }
        fill_texts(connection, &mut snapshot, &mut self.texts)?;
        snapshot.took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        snapshot.at = now();
        Ok(snapshot)
    }
}

/// A table that an older Onramp does not have; the screen has nothing of it then.
fn where_it_has_them(answer: Result<Answer, Failure>) -> Result<Option<Table>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer.table)),
        Err(Failure::Refused { .. }) => Ok(None),
        Err(lost) => Err(lost),
    }
}

/// What an older Onramp lacks loses nothing else: where it says that a name is not there, it is asked which are, and then for these.
fn ask_of_a_tab(
    connection: &mut Connection,
    question: &Question,
    has: &mut BTreeMap<Tab, Has>,
) -> Result<Answer, Failure> {
    let known = has.get(&question.tab);
    let answer = connection.query(&question.to_sql(&known.cloned().unwrap_or_default()));
    if known.is_some() || !matches!(&answer, Err(failure) if failure.is_of_a_name()) {
        return answer;
    }
    has.insert(question.tab, Has::default());
    let columns = match connection.query(&question.describe()) {
        Ok(Answer { table, .. }) => table.rows.iter().filter_map(|row| Some(row.first()?.text())).collect(),
        Err(Failure::Refused { .. }) => return answer,
        Err(lost) => return Err(lost),
    };
    let mut fewer = Has { columns: Some(columns), no_expressions: false };
    for no_expressions in [false, true] {
        fewer.no_expressions = no_expressions;
        match connection.query(&question.to_sql(&fewer)) {
            Ok(answer) => {
                has.insert(question.tab, fewer);
                return Ok(answer);
            }
            Err(Failure::Refused { .. }) => {}
            Err(lost) => return Err(lost),
        }
    }
    answer
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
            Err(refused @ Failure::Refused { .. }) => {
                snapshot.troubles.insert("texts".to_owned(), refused.text());
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
