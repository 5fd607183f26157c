//! Rows of other Onramps, for statements about all of them.
//!
//! Each is asked by a thread of its own for the tables themselves, never for their twins, so that no question goes on from one to the
//! next. Rows come by one channel to the thread of the statement, which puts them beside this Onramp's. Of an Onramp that fails on the way
//! none stay: what is there of one is all that it has. Why others are missing, warnings say.

mod asking;
mod chunk;
mod manners;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::{ErrorCode, Statement, ToSql};

use crate::database::{MEMORY_LIMIT, VALUE_LIMIT};
use crate::tables::Peer as PeerRow;
use crate::{Peer, Peers, Row as _, Rows, Table, variables};
use asking::{Asker, Question, Said, Shared};
use chunk::Chunk;

/// The memory that rows of others may take for one statement, as [`cost`] counts it: half of what all statements have, so that one
/// that says too much leaves the rows of this Onramp room.
const LARGEST: usize = MEMORY_LIMIT / 2;

/// What SQLite keeps of a row beside its values, in bytes: its length, its number and its place on the page.
const ROW_OVERHEAD: usize = 16;

/// Options have changed: what was found out by the former ones does not count.
pub(crate) fn forget() {
    manners::forget_refused();
}

/// The others, while they are asked.
pub(crate) struct Asked {
    own_name: String,
    questions: Arc<[Question]>,
    others: Vec<Other>,
    said: Receiver<(usize, Said)>,
    until: Instant,
    /// How long they had.
    patience: Duration,
    /// Why none is asked.
    failure: Option<String>,
}

/// One of them.
struct Other {
    name: String,
    /// The memory that its rows take.
    cost: usize,
    stands: Stands,
}

/// How it stands with one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stands {
    /// It is asked.
    Asked,
    /// All has been said.
    Answered,
    /// It is this Onramp.
    This,
    /// It is the same as the one with this number.
    Same(usize),
    /// Why there is nothing of it.
    Failed(String),
}

impl Asked {
    /// Asks them, where the statement is about all; `None` where it is not.
    pub(crate) fn begin(rows: &mut Rows<'_>, peers: impl FnOnce() -> Peers) -> Option<Self> {
        let questions: Arc<[Question]> = rows.twins().filter_map(Question::of).collect();
        if questions.is_empty() {
            return None;
        }
        let peers = peers();
        rows.note_own_name(peers.own_name.clone());
        let (others, failure) = match peers.others {
            Ok(others) => (others, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let until = rows.deadline().min(Instant::now() + peers.patience);
        // Where it is full the others wait, and with them the Onramps that they ask: what is on the way is bounded.
        let (say, said) = sync_channel(1);
        let shared = Arc::new(Shared::new(variables::identity(), until));
        let ask = |(number, peer): (usize, Peer)| {
            let questions = Arc::clone(&questions);
            let asker = Asker { number, place: peer.place, questions, shared: Arc::clone(&shared) };
            let stands = match asker.start(say.clone()) {
                Ok(()) => Stands::Asked,
                Err(failure) => Stands::Failed(failure.to_string()),
            };
            Other { name: peer.name, cost: 0, stands }
        };
        let others = others.into_iter().enumerate().map(ask).collect();
        Some(Self {
            own_name: peers.own_name,
            questions,
            others,
            said,
            until,
            patience: peers.patience,
            failure: failure.map(|failure| failure.to_string()),
        })
    }

    /// Puts their rows beside this Onramp's, until all have answered or the time is over.
    pub(crate) fn take_in(mut self, rows: &mut Rows<'_>) {
        let mut inserts = BTreeMap::new();
        while rows.is_well() && self.others.iter().any(|other| other.stands == Stands::Asked) {
            let left = self.until.saturating_duration_since(Instant::now());
            // Somebody who never ends would be heard for ever.
            if left.is_zero() {
                break;
            }
            let Ok((number, said)) = self.said.recv_timeout(left) else { break };
            if self.others[number].stands == Stands::Asked {
                self.hear(number, said, rows, &mut inserts);
            }
        }
        for number in 0..self.others.len() {
            if self.others[number].stands == Stands::Asked {
                let reason = format!(
                    "it has not said all within {:?}, see admin_peers_timeout: it hangs, is cut off, or has much to say; look whether it is \
                     well, or name fewer columns",
                    self.patience
                );
                self.fail(number, reason, rows);
            }
        }
        self.rename(rows);
        self.warn(rows);
    }

    fn hear<'c>(
        &mut self,
        number: usize,
        said: Said,
        rows: &mut Rows<'c>,
        inserts: &mut BTreeMap<usize, Statement<'c>>,
    ) {
        match said {
            Said::Rows(question, chunk) => self.put(number, question, &chunk, rows, inserts),
            Said::This => self.others[number].stands = Stands::This,
            Said::Same(as_number) => self.others[number].stands = Stands::Same(as_number),
            Said::Remark(remark) => rows.warn(format!("{}: {remark}", self.others[number].name)),
            Said::Done => self.others[number].stands = Stands::Answered,
            Said::Failed(reason) => self.fail(number, reason, rows),
        }
    }

    fn put<'c>(
        &mut self,
        number: usize,
        question: usize,
        chunk: &Chunk,
        rows: &mut Rows<'c>,
        inserts: &mut BTreeMap<usize, Statement<'c>>,
    ) {
        let table = self.questions[question].twin;
        self.others[number].cost += cost(chunk, table);
        if self.others.iter().map(|other| other.cost).sum::<usize>() > LARGEST {
            let mebibytes = LARGEST >> 20;
            let reason = format!(
                "with its rows those of all take more than {mebibytes} MiB; name fewer columns, or ask at its own admin port"
            );
            return self.fail(number, reason, rows);
        }
        match insert(&self.others[number].name, &self.questions[question], chunk, rows, inserts, question) {
            Ok(()) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
                self.fail(number, chunk::too_large(VALUE_LIMIT), rows);
            }
            Err(error) => rows.fail(error),
        }
    }

    /// Takes back what there is of one.
    fn fail(&mut self, number: usize, reason: String, rows: &mut Rows<'_>) {
        let other = &mut self.others[number];
        other.cost = 0;
        other.stands = Stands::Failed(reason);
        let name = &self.others[number].name;
        self.in_each_table(rows, |table| format!("DELETE FROM {table} WHERE onramp = ?1"), &[name]);
    }

    /// Where an address leads to this Onramp it is its name; of two that lead to the same other one the first is.
    fn rename(&self, rows: &mut Rows<'_>) {
        let update = |table: &str| format!("UPDATE {table} SET onramp = ?1 WHERE onramp = ?2");
        if let Some(own) = self.others.iter().find(|other| other.stands == Stands::This) {
            if own.name != self.own_name {
                self.in_each_table(rows, update, &[&own.name, &self.own_name]);
            }
        }
        for (number, other) in self.others.iter().enumerate() {
            if let Some(first) = self.first_name_of(number).filter(|first| **first != other.name) {
                self.in_each_table(rows, update, &[first, &other.name]);
            }
        }
    }

    /// The name of the first address that leads where this one does, where that is in front of it.
    fn first_name_of(&self, number: usize) -> Option<&String> {
        let first = self.others[..number].iter().find(|other| other.stands == Stands::Same(number));
        first.map(|first| &first.name)
    }

    fn in_each_table(&self, rows: &mut Rows<'_>, text: impl Fn(&str) -> String, values: &[&dyn ToSql]) {
        for question in self.questions.iter() {
            if let Err(error) = rows.connection().execute(&text(&question.name), values) {
                rows.fail(error);
            }
        }
    }

    /// Says whose rows are missing, and why.
    fn warn(&self, rows: &mut Rows<'_>) {
        if let Some(failure) = &self.failure {
            rows.warn(format!("rows of other Onramps are missing, since none is asked: {failure}"));
        }
        for other in &self.others {
            match &other.stands {
                Stands::Failed(reason) => rows.warn(format!("{}: its rows are missing: {reason}", other.name)),
                Stands::Same(number) => rows.warn(format!(
                    "{} leads to the same Onramp as {}, whose rows are there once; name each once in admin_peers",
                    other.name, self.others[*number].name
                )),
                Stands::Asked | Stands::Answered | Stands::This => {}
            }
        }
        let counted = "SELECT COUNT(*) FROM onramp.peers WHERE NOT own";
        let known = rows.connection().query_row(counted, [], |row| row.get::<_, u32>(0));
        let is_another = |other: &&Other| !matches!(other.stands, Stands::This | Stands::Same(_));
        let named = u32::try_from(self.others.iter().filter(is_another).count()).unwrap_or(u32::MAX);
        match known {
            Ok(known) if known > named => rows.warn(format!(
                "beside this one {known} Onramp{} in front of the server, and admin_peers leads to {named}: rows of the rest are missing; \
                 name their admin ports there",
                if known == 1 { " is" } else { "s are" }
            )),
            Ok(_) => {}
            Err(error) => rows.fail(error),
        }
    }
}

/// The memory that a table takes for these rows.
fn cost(chunk: &Chunk, table: &Table) -> usize {
    chunk.bytes() + chunk.rows() * (table.columns.len() + ROW_OVERHEAD)
}

fn insert<'c>(
    name: &str,
    question: &Question,
    chunk: &Chunk,
    rows: &Rows<'c>,
    inserts: &mut BTreeMap<usize, Statement<'c>>,
    number: usize,
) -> rusqlite::Result<()> {
    let statement = match inserts.entry(number) {
        std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(rows.connection().prepare(&question.insert())?)
        }
    };
    for row in 0..chunk.rows() {
        statement.raw_bind_parameter(1, name)?;
        for (column, place) in question.columns.iter().zip(2..) {
            statement.raw_bind_parameter(place, chunk.value(row, place - 2, column.kind))?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}

/// The table of Onramps in front of the server, which says whether more are there than are asked.
pub(crate) const KNOWN: &Table = PeerRow::TABLE;

#[cfg(test)]
mod tests;
