//! The thread that asks: it has the connection, makes it anew where it was lost, and gives each look to whoever waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::connection::{Answer, Connection, Failure, Place};
use crate::questions::{self, Question};
use crate::snapshot::{Snapshot, Table};

/// The thread, as the one that draws sees it.
pub struct Poller {
    questions: Sender<Vec<Question>>,
    looks: Receiver<Result<Snapshot, String>>,
    // It ends with the program: where it waits for an answer nobody waits for it.
    _thread: JoinHandle<()>,
}

impl Poller {
    /// Goes on with this connection.
    pub fn start(place: Arc<Place>, connection: Connection) -> Self {
        let (questions, asked) = channel::<Vec<Question>>();
        let (give, looks) = channel();
        let thread = std::thread::spawn(move || {
            let mut connection = Some(connection);
            for wanted in asked {
                #[cfg(debug_assertions)]
                crate::injected::panic_in("asking");
                if give.send(look(&place, &mut connection, &wanted)).is_err() {
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

/// One look over a connection, which is made where there is none, and is gone where it was lost.
///
/// # Errors
/// Why there is none, for people.
pub fn look(
    place: &Place,
    connection: &mut Option<Connection>,
    questions: &[Question],
) -> Result<Snapshot, String> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::open(place).map_err(|failure| failure.text().to_owned())?,
    };
    match ask(&mut open, questions) {
        Ok(snapshot) => {
            *connection = Some(open);
            Ok(snapshot)
        }
        Err(Failure::Refused(text)) => {
            *connection = Some(open);
            Err(text)
        }
        Err(Failure::Lost(text)) => Err(text),
    }
}

fn ask(connection: &mut Connection, questions: &[Question]) -> Result<Snapshot, Failure> {
    let began = Instant::now();
    let mut snapshot = Snapshot::default();
    let status = connection.query(questions::STATUS)?;
    if status.warnings > 0 {
        snapshot.troubles.insert("workers".to_owned(), "not every worker has answered in time".to_owned());
    }
    snapshot.status = pairs(status);
    snapshot.options = pairs(connection.query(questions::OPTIONS)?);
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
    snapshot.took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    snapshot.at = now();
    Ok(snapshot)
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
