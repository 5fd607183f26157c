//! A server as one of a primary and its replicas: what it has, by GTIDs, from whom it gets more, and whether it takes writes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::database::{Database, Table};
use super::group::{GROUP, Seat};
use super::kind::Kind;
use super::lexer::{Lexeme, pieces};
use super::mysql;
use super::reply::{Answer, ServerError, Value};
use super::session::Session;
use crate::ledger::Row;
use crate::token::Token;

/// The number of a server in its cluster, from 1: its `server_id`.
pub type ServerNumber = u32;

/// A row as a transaction leaves it: table, id, value; no value where it is gone.
type Change = (String, u64, Option<String>);

/// The name of a transaction, in the forms of both servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gtid {
    /// The server that committed it first.
    pub server: ServerNumber,
    /// MariaDB's number, which counts all transactions of a domain.
    pub of_domain: u64,
    /// MySQL's number, which counts those of the server, with a tag and without one.
    pub of_server: u64,
    /// It has a tag, on MySQL.
    pub is_tagged: bool,
}

/// A transaction that is committed and has changed something.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its name.
    pub gtid: Gtid,
    /// The statements that changed something.
    pub tokens: Vec<Token>,
    changes: Vec<Change>,
}

/// How a replica gets what its source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It goes on.
    Runs,
    /// Somebody has stopped it.
    Stopped,
    /// Nothing comes any more, and the replica does not know it: a connection to the source that is dead at the other end. It says that it
    /// goes on, and that it is not behind.
    Starved,
    /// It cannot go on.
    Failed(&'static str),
}

/// What a server is to the others.
#[derive(Clone, Debug)]
pub struct Member {
    /// Whose server it is.
    pub kind: Kind,
    /// On a MySQL every second client names its transactions with a tag.
    pub has_tags: bool,
    /// Which of them it is.
    pub number: ServerNumber,
    /// It refuses writes.
    pub read_only: bool,
    /// From whom it replicates.
    pub source: Option<ServerNumber>,
    /// How that stands.
    pub replication: Replication,
    /// What it says of how many seconds it is behind; `None` for 0, or NULL where it has stopped. That is the lie that servers tell: they
    /// reckon it by clocks and by what has come to them. Their GTIDs are what they have.
    pub said_lag: Option<u64>,
    /// Its place in a group, where it is in one.
    pub seat: Option<Seat>,
    /// All that it has, in the order in which it got it.
    log: Vec<Rc<Committed>>,
    has: Rc<BTreeSet<Gtid>>,
    /// How many it has ever committed itself, without a tag and with one. As a copy of another it goes on counting: a copy of a MySQL has a `server_uuid` of its own.
    own_commits: [u64; 2],
    /// The last that it has got from another one.
    received: Option<Gtid>,
    /// What it has shown to each program, the latest first, and is known to have come to that.
    shown: BTreeMap<usize, [Shown; 2]>,
    /// What it has shown last on each session: that it has come shows when the same one asks again.
    shown_on: BTreeMap<u32, Shown>,
}

/// What a server has shown that it has.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The last number of its domain.
    pub last: u64,
    /// All of it.
    pub all: Rc<BTreeSet<Gtid>>,
}

impl Member {
    /// A replica of nobody that has nothing.
    pub fn new(number: ServerNumber) -> Self {
        Self {
            kind: Kind::MariaDb,
            has_tags: false,
            number,
            read_only: true,
            source: None,
            replication: Replication::Runs,
            said_lag: None,
            seat: None,
            log: Vec::new(),
            has: Rc::default(),
            own_commits: [0; 2],
            received: None,
            shown: BTreeMap::new(),
            shown_on: BTreeMap::new(),
        }
    }

    /// All that it has, the oldest first.
    pub fn log(&self) -> &[Rc<Committed>] {
        &self.log
    }

    /// The next of what it lacks of its source, so many at most, or why it cannot go on there.
    ///
    /// # Errors
    /// It has something else in the place of what the source has.
    pub fn next_of(&self, source: &Self, most: usize) -> Result<Vec<Rc<Committed>>, &'static str> {
        if self.kind == Kind::MySql {
            return self.next_by_sets(source, most);
        }
        let source = source.log();
        let last = self.log.len().checked_sub(1);
        let theirs = last.map(|last| source.get(last).map(|committed| committed.gtid));
        if theirs != self.log.last().map(|committed| Some(committed.gtid)) {
            return Err("the source has not what this one has asked for");
        }
        Ok(source[self.log.len()..].iter().take(most).cloned().collect())
    }

    /// Whatever somebody did to its replication is over.
    pub fn resume(&mut self) {
        self.said_lag = None;
        if matches!(self.replication, Replication::Stopped | Replication::Starved) {
            self.replication = Replication::Runs;
        }
    }

    /// Whether it has a transaction.
    pub fn has(&self, gtid: Gtid) -> bool {
        self.has.contains(&gtid)
    }

    /// Whether it lacks nothing that another one has.
    pub fn has_all_of(&self, other: &Self) -> bool {
        self.has_all(&other.has)
    }

    /// Whether it has all of these.
    pub fn has_all(&self, others: &BTreeSet<Gtid>) -> bool {
        others.is_subset(&self.has)
    }

    /// What a program that asks it again and again knows it to have had for a while: what the last answer that has come shows may still
    /// have been on its way to replicas.
    pub fn known(&self, program: usize) -> Shown {
        self.shown.get(&program).map(|shown| shown[1].clone()).unwrap_or_default()
    }

    /// Whether this statement has written a row in what it has got before that transaction.
    fn has_written_before(&self, gtid: Gtid, row: &Row, token: Token) -> bool {
        let mut before = self.log.iter().take_while(|committed| committed.gtid != gtid);
        before.any(|committed| committed.rows().any(|(written, by)| written == *row && by == token))
    }

    /// What it shows to whoever asks.
    pub fn shows(&self) -> Shown {
        Shown { last: self.log.last().map_or(0, |last| last.gtid.of_domain), all: Rc::clone(&self.has) }
    }

    /// `gtid_current_pos` of MariaDB.
    pub fn mariadb_position(&self) -> String {
        self.log.last().map_or(String::new(), |last| last.gtid.of_mariadb())
    }

    /// `gtid_binlog_state` of MariaDB: the last of each server that has written. Replicas log what they get.
    pub fn logged_positions(&self) -> String {
        let mut last = BTreeMap::new();
        for committed in &self.log {
            last.insert(committed.gtid.server, committed.gtid);
        }
        last.into_values().map(Gtid::of_mariadb).collect::<Vec<_>>().join(",")
    }

    /// Says whether it has the last that another one has, as far as what each writer has written here last can tell: where it has nothing of
    /// that writer, whether it has as many.
    pub fn seems_to_have_last_of(&self, others: &BTreeSet<Gtid>) -> bool {
        let Some(last) = others.iter().max_by_key(|gtid| gtid.of_domain) else { return true };
        let of_writer = self.log.iter().rev().find(|own| own.gtid.server == last.server);
        let own = of_writer.or(self.log.last());
        own.is_some_and(|own| own.gtid.of_domain >= last.of_domain)
    }

    /// `gtid_slave_pos` of MariaDB: what was written here is not in it.
    fn received_position(&self) -> String {
        self.received.map_or(String::new(), Gtid::of_mariadb)
    }

    /// `gtid_executed` of MySQL.
    pub fn mysql_position(&self) -> String {
        mysql::set_of(&self.has)
    }

    fn commit(&mut self, changes: Vec<Change>, tokens: Vec<Token>) -> Rc<Committed> {
        let is_tagged = self.has_tags && tokens.first().is_some_and(|token| token.key.client % 2 == 1);
        let own_commits = &mut self.own_commits[usize::from(is_tagged)];
        *own_commits += 1;
        let (of_own, is_in_group) = (*own_commits, self.seat.is_some());
        let gtid = Gtid {
            server: if is_in_group { GROUP } else { self.number },
            of_domain: self.log.last().map_or(0, |last| last.gtid.of_domain) + 1,
            of_server: if is_in_group { self.number_in_group(of_own) } else { of_own },
            is_tagged,
        };
        let committed = Rc::new(Committed { gtid, tokens, changes });
        self.take(Rc::clone(&committed));
        committed
    }

    fn take(&mut self, committed: Rc<Committed>) {
        Rc::make_mut(&mut self.has).insert(committed.gtid);
        self.log.push(committed);
    }

    /// The answer to a question about it: a server that is one of several is asked who it is and whether it takes writes.
    fn variables(&self) -> Vec<Vec<Value>> {
        let read_only = if self.read_only { "ON" } else { "OFF" };
        let rows = [
            ("server_id", self.number.to_string()),
            ("hostname", format!("server{}", self.number)),
            ("port", "3306".to_owned()),
            ("datadir", "/var/lib/mysql/".to_owned()),
            ("read_only", read_only.to_owned()),
        ];
        let own = match self.kind {
            Kind::MariaDb => {
                vec![
                    ("gtid_current_pos", self.mariadb_position()),
                    ("gtid_slave_pos", self.received_position()),
                    ("gtid_binlog_state", self.logged_positions()),
                    ("wsrep_on", "OFF".to_owned()),
                ]
            }
            Kind::MySql => vec![
                ("server_uuid", mysql::uuid(self.number)),
                ("super_read_only", read_only.to_owned()),
                ("innodb_read_only", "OFF".to_owned()),
            ],
        };
        let rows = rows.into_iter().chain(own).chain(self.variables_of_group());
        rows.map(|(name, value)| vec![Some(name.to_owned()), Some(value)]).collect()
    }

    /// `SHOW ALL SLAVES STATUS`.
    fn replication(&self) -> Answer {
        let names = [
            "Connection_name",
            "Master_Host",
            "Master_Port",
            "Slave_IO_Running",
            "Slave_SQL_Running",
            "Seconds_Behind_Master",
            "Last_IO_Error",
            "Last_SQL_Error",
        ];
        let runs = matches!(self.replication, Replication::Runs | Replication::Starved);
        let error = match self.replication {
            Replication::Failed(why) => why,
            Replication::Runs | Replication::Stopped | Replication::Starved => "",
        };
        let row = |source: ServerNumber| {
            let running = if runs { "Yes" } else { "No" };
            let lag = runs.then(|| self.said_lag.unwrap_or(0).to_string());
            let host = format!("10.0.0.{source}");
            let texts = ["", &host, "3306", running, running].map(|text| Some(text.to_owned()));
            texts.into_iter().chain([lag, Some(error.to_owned()), Some(String::new())]).collect()
        };
        let rows = self.source.map(row).into_iter().collect();
        Answer::Rows { columns: names.map(str::to_owned).to_vec(), rows }
    }
}

impl Gtid {
    fn of_mariadb(self) -> String {
        format!("0-{}-{}", self.server, self.of_domain)
    }
}

impl Database {
    /// Answers how far a server is; `None` for all other questions.
    pub fn select_position(&self, text: &str) -> Option<String> {
        let member = self.member.as_ref()?;
        match text {
            text if self.kind == Kind::MySql => {
                text.contains("@@global.gtid_executed").then(|| member.mysql_position())
            }
            "SELECT @@global.gtid_slave_pos" => Some(member.received_position()),
            // gtid_binlog_pos is what was written here last, which is in gtid_current_pos.
            text if text.contains("@@global.gtid_current_pos") => Some(member.mariadb_position()),
            _ => None,
        }
    }

    /// The number of the statement that has written a row last, as a session sees it: its own changes, and what others have committed. 0 where
    /// there is none.
    pub fn version_for(&self, session: &Session, table: &str, id: u64) -> u32 {
        let changes = session.transaction.as_ref().map_or(&[][..], |transaction| &transaction.undo);
        let sees_all =
            self.member.is_none() || changes.iter().any(|undo| undo.table == table && undo.id == id);
        if !sees_all {
            return self.committed_version(table, id);
        }
        let value = self.tables.get(table).and_then(|table| table.rows.get(&id));
        value.map_or(0, |value| version_of(value))
    }

    /// The same of who has changed nothing.
    pub fn committed_version(&self, table: &str, id: u64) -> u32 {
        self.committed_rows.get(&(table.to_owned(), id)).map_or(0, |value| version_of(value))
    }

    /// Answers what only a server that is one of several is asked; `None` for all else.
    pub fn show_member(&mut self, session: &Session, text: &str) -> Option<Answer> {
        let member = self.member.as_mut()?;
        match (member.kind, text) {
            (Kind::MariaDb, "SHOW ALL SLAVES STATUS") => return Some(member.replication()),
            (Kind::MySql, "SHOW REPLICA STATUS") => return Some(member.replica_status()),
            _ => {}
        }
        let columns = ["Variable_name", "Value"].map(str::to_owned).to_vec();
        if !text.contains("gtid_current_pos") {
            return None;
        }
        let last = member.shows();
        let takes_writes = !member.read_only;
        if let Some(seat) = &mut member.seat {
            seat.show_writes(session.thread_id, takes_writes);
        }
        // What one says that its group has left says nothing of what that has.
        let counts = member.seat.as_ref().is_none_or(Seat::says_well);
        let came = counts.then(|| member.shown_on.insert(session.thread_id, last)).flatten();
        if let Some(came) = came {
            let shown = member.shown.entry(self.asker).or_default();
            *shown = [came, std::mem::take(&mut shown[0])];
        }
        Some(Answer::Rows { columns, rows: member.variables() })
    }

    /// A transaction has ended well that left these rows, of which some may be the same.
    pub fn commit(&mut self, mut rows: Vec<(String, u64)>, tokens: Vec<Token>) {
        self.commits += u64::from(!rows.is_empty());
        let Some(member) = self.member.as_mut().filter(|_| !rows.is_empty()) else { return };
        rows.sort_unstable();
        rows.dedup();
        let after = |(name, id): (String, u64)| {
            let value = self.tables.get(&name).and_then(|table| table.rows.get(&id)).cloned();
            (name, id, value)
        };
        let changes = rows.into_iter().map(after).collect();
        let committed = member.commit(changes, tokens);
        committed.put_committed(&mut self.committed_rows);
        self.news.push(committed);
    }

    /// The rows of which a replica that carries these out of its source comes to an older version than it has: each with the statement that wrote the older one
    /// and the one that wrote the newer. Servers look for a row by its key alone. So one of which the replica has a newer version, written where the
    /// older one was not known, is overwritten without a word. Where the source itself has them in this order it is no such row.
    pub fn overwrites(&self, source: &Member, next: &[Rc<Committed>]) -> Vec<(Row, Token, Token)> {
        let mut present: BTreeMap<Row, Token> = BTreeMap::new();
        let mut overwritten = Vec::new();
        for committed in next {
            for (row, older) in committed.rows() {
                let found = || Token::find_all(self.committed_rows.get(&row)?.as_bytes()).pop();
                if let Some(newer) = present.get(&row).copied().or_else(found)
                    && (newer.key == older.key && newer.number > older.number)
                    && !source.has_written_before(committed.gtid, &row, newer)
                {
                    overwritten.push((row.clone(), older, newer));
                }
                present.insert(row, older);
            }
        }
        overwritten
    }

    /// A replica gets what comes next of its source.
    pub fn replicate(&mut self, next: Vec<Rc<Committed>>) {
        let Some(member) = &mut self.member else { return };
        for committed in next {
            committed.put_rows(&mut self.tables);
            committed.put_committed(&mut self.committed_rows);
            member.received = Some(committed.gtid);
            member.take(committed);
        }
    }

    /// A replica comes back without the latest so many of the transactions that it has got: it was not told to have them on its disk before
    /// it says that it has them (`innodb_flush_log_at_trx_commit` and `sync_binlog` other than 1), or an older copy was put in its place. What it
    /// has written itself it keeps. Returns how many are gone.
    pub fn lose_latest(&mut self, most: usize) -> usize {
        let Some(member) = &mut self.member else { return 0 };
        let got = member.log.iter().rev().take_while(|committed| committed.gtid.server != member.number);
        let lost = got.count().min(most);
        let kept = member.log[..member.log.len() - lost].to_vec();
        self.have_only(kept);
        lost
    }

    /// It has this and nothing else.
    fn have_only(&mut self, log: Vec<Rc<Committed>>) {
        let Some(member) = &mut self.member else { return };
        (member.log, member.has, member.received) = (Vec::new(), Rc::default(), None);
        // Who asks again hears that it has less, before it is the primary.
        member.shown.clear();
        member.shown_on.clear();
        self.tables.clear();
        self.committed_rows.clear();
        self.replicate(log);
    }

    /// It becomes a copy of a server that has this, as a replica of it.
    pub fn become_copy(&mut self, log: Vec<Rc<Committed>>) {
        let Some(member) = &mut self.member else { return };
        // Whoever does that knows what goes with what it had: as the program sees it, it has what it says now.
        let Member { kind, has_tags, number, read_only, source, own_commits, .. } = *member;
        let seat = member.seat.take();
        *member = Member { kind, has_tags, read_only, source, own_commits, seat, ..Member::new(number) };
        self.have_only(log);
    }

    /// What `read_only` makes a server say to a statement: nothing has run then, and a transaction that was to be committed by it is
    /// rolled back (`ha_commit_trans` in handler.cc).
    pub fn refusal(&mut self, session: &mut Session, text: &str) -> Option<ServerError> {
        if session.variable("tx_read_only") == "ON" && matches!(what_it_does(session, text), Does::Writes) {
            let message = "Cannot execute statement in a READ ONLY transaction";
            return Some(ServerError::new(1792, "25006", message));
        }
        let undecided = self.undecided();
        if undecided.is_none() && !self.member.as_ref().is_some_and(|member| member.read_only) {
            return None;
        }
        let changed = session.transaction.as_ref().is_some_and(|it| !it.undo.is_empty());
        match what_it_does(session, text) {
            Does::Writes => {}
            Does::Commits if changed => session.rollback(self),
            Does::Commits | Does::Neither => return None,
        }
        Some(undecided.unwrap_or_else(|| ServerError::new(1290, "HY000", self.kind.read_only_message())))
    }
}

pub(super) enum Does {
    Writes,
    Commits,
    Neither,
}

/// Whether a text commits what the session's transaction has changed; where that is refused, it is rolled back.
pub fn commits(session: &Session, text: &str) -> bool {
    matches!(what_it_does(session, text), Does::Commits)
}

/// What a text does to tables that all sessions see, by the words of the virtual server's language.
pub(super) fn what_it_does(session: &Session, text: &str) -> Does {
    let words: Vec<String> = pieces(text)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|piece| match piece.lexeme {
            Lexeme::Word(word) | Lexeme::Name(word) => Some(word),
            _ => None,
        })
        .collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let table = match word(0) {
        "insert" | "delete" => word(2),
        "update" => word(1),
        "load" => return Does::Writes,
        "lock" => return Does::Writes,
        "execute" => {
            let prepared = session
                .text_prepared
                .get(word(1))
                .filter(|text| !text.to_ascii_lowercase().starts_with("execute"));
            return prepared.map_or(Does::Neither, |text| what_it_does(session, text));
        }
        "commit" | "begin" | "start" => return Does::Commits,
        "set" if text.contains("autocommit=1") => return Does::Commits,
        _ => return Does::Neither,
    };
    if session.temporary_tables.contains_key(table) { Does::Neither } else { Does::Writes }
}

/// The number of the statement that has written this value.
fn version_of(value: &str) -> u32 {
    Token::find_all(value.as_bytes()).pop().map_or(0, |token| token.number)
}

impl Committed {
    /// Whether both have changed the same row.
    pub(super) fn shares_rows_with(&self, other: &Self) -> bool {
        let has = |change: &Change| other.changes.iter().any(|it| (&it.0, it.1) == (&change.0, change.1));
        self.changes.iter().any(has)
    }

    fn put_committed(&self, rows: &mut BTreeMap<(String, u64), String>) {
        for (table, id, value) in &self.changes {
            match value {
                Some(value) => rows.insert((table.clone(), *id), value.clone()),
                None => rows.remove(&(table.clone(), *id)),
            };
        }
    }

    fn put_rows(&self, tables: &mut BTreeMap<String, Table>) {
        for (name, id, value) in &self.changes {
            let table = tables.entry(name.clone()).or_default();
            table.last_id = table.last_id.max(*id);
            match value {
                Some(value) => table.rows.insert(*id, value.clone()),
                None => table.rows.remove(id),
            };
        }
    }

    /// The rows that it wrote, each with the statement that did so last.
    pub fn rows(&self) -> impl Iterator<Item = ((String, u64), Token)> {
        let token = |value: &Option<String>| Token::find_all(value.as_deref()?.as_bytes()).pop();
        self.changes.iter().filter_map(move |(name, id, value)| Some(((name.clone(), *id), token(value)?)))
    }
}
