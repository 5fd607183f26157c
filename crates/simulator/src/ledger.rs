//! What several servers have stored, what clients have been told of it, and what may have been lost: all that must fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use crate::client::oracle::Expected;
use crate::client::promise::{Promise, Question};
use crate::client::reply::Part;
use crate::client::versions;
use crate::server::database::Execution;
use crate::server::member::Committed;
use crate::token::{ClientKey, Token};

/// A row: its table and number.
pub type Row = (String, u64);

/// So many rows are known to all clients, those that were written last: few, so that several clients ask for the same one while replicas lack it.
const RECENT: usize = 6;

/// How often clients were told what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// The program has turned to another primary.
    pub turns: u64,
    /// A statement was refused, since it found no primary or one that takes no writes.
    pub refused: u64,
    /// A transaction was rolled back.
    pub rolled_back: u64,
    /// Nobody knows what became of a statement.
    pub unknown: u64,
    /// A read has shown a row as it was before what is lost.
    pub older_reads: u64,
    /// A read to which nothing was promised has shown a row as it was before.
    pub eventual_reads: u64,
    /// Statements of which the servers that clients were led to have no trace.
    pub lost: u64,
    /// Several Onramps were to have the same primary, and had it.
    pub agreed: u64,
}

impl Fates {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            turns: self.turns + other.turns,
            refused: self.refused + other.refused,
            rolled_back: self.rolled_back + other.rolled_back,
            unknown: self.unknown + other.unknown,
            older_reads: self.older_reads + other.older_reads,
            eventual_reads: self.eventual_reads + other.eventual_reads,
            lost: self.lost + other.lost,
            agreed: self.agreed + other.agreed,
        }
    }
}

/// What does not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A statement is stored of which its client has been told with this error that it is not.
    Stored {
        /// The statement.
        token: Token,
        /// The error.
        code: u16,
    },
    /// A client is told with this error that a statement is not stored which is.
    Refused {
        /// The statement.
        token: Token,
        /// The error.
        code: u16,
    },
    /// A client is told that its transaction is committed, of which this is not stored.
    NotCommitted {
        /// The statement that commits it.
        commit: Token,
        /// What has written.
        written: Token,
    },
    /// A client is told that a statement has run which is not stored.
    NotStored(Token),
    /// A read shows another version than the one that its login has written, and no older one.
    OtherVersion {
        /// What it shows.
        found: u32,
        /// What it should.
        expected: u32,
    },
    /// A read shows a version that nobody has written.
    NoVersion(u32),
    /// A read shows an older version than promised.
    Older {
        /// What was promised.
        promise: Promise,
        /// What it shows.
        found: u32,
        /// What was stored since and is not lost.
        kept: Token,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored { token, code } => {
                write!(f, "{token} is stored, and its client was told error {code}")
            }
            Self::Refused { token, code } => {
                write!(f, "{token} was answered with error {code}, and is stored")
            }
            Self::NotCommitted { commit, written } => {
                write!(f, "{commit} has committed {written}, which no server has stored")
            }
            Self::NotStored(token) => write!(f, "{token} is acknowledged, and no server has stored it"),
            Self::OtherVersion { found, expected } => {
                write!(f, "a read shows version {found}, and should show {expected}")
            }
            Self::NoVersion(found) => {
                write!(f, "a read shows version {found}, which no server has stored")
            }
            Self::Older { promise, found, kept } => write!(
                f,
                "a read is older than promised ({}): it shows version {found}, and {kept} has been stored since and is not lost",
                promise.word()
            ),
        }
    }
}

impl std::error::Error for Breach {}

/// The ledger of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// `failover_hold`, in microseconds.
    pub hold: u64,
    /// Statements whose changes a server has committed.
    stored: BTreeSet<Token>,
    /// Statements of which a client has been told that nothing of them has run, or is left.
    refused: BTreeMap<Token, u16>,
    /// What was stored where those servers do not have it that clients were led to.
    lost: BTreeSet<Token>,
    /// Statements that have been sent to a server.
    sent: BTreeSet<Token>,
    /// The row that a statement has written last.
    rows: BTreeMap<Token, Row>,
    /// Who has written a row, by the numbers of their statements.
    writers: BTreeMap<Row, BTreeSet<u32>>,
    /// Of each row the latest version of which a client has been told that it is written.
    told: BTreeMap<Row, u32>,
    /// The rows of these, the latest last.
    recent: Rc<Vec<Row>>,
    /// What became of clients.
    pub fates: Fates,
    /// Statements of a client's transaction that have changed something, by the oracle's number.
    open: BTreeMap<(ClientKey, u64), Vec<Token>>,
}

impl Ledger {
    /// An empty one.
    pub fn new(hold: u64) -> Self {
        Self { hold, ..Self::default() }
    }

    /// A server has committed a transaction; one that `is_lost` from the start did so as another one was the primary.
    ///
    /// # Errors
    /// A client has been told that it is not.
    pub fn committed(&mut self, committed: &Committed, is_lost: bool) -> Result<(), Breach> {
        for token in &committed.tokens {
            self.stored.insert(*token);
            if is_lost {
                self.lost.insert(*token);
            }
            if let Some(code) = self.refused.get(token) {
                return Err(Breach::Stored { token: *token, code: *code });
            }
        }
        for (row, token) in committed.rows() {
            self.writers.entry(row.clone()).or_default().insert(token.number);
            self.rows.insert(token, row);
        }
        Ok(())
    }

    /// The servers that clients are led to do not have these.
    pub fn lost(&mut self, tokens: Vec<Token>) {
        self.lost.extend(tokens);
        self.fates.lost = self.lost.len() as u64;
    }

    /// A server that has had this row's version by `newer` shows the one by `older` from now on, which another server had alone until then. GTIDs say
    /// that it has both, so that nobody who is led to it can know: for clients all behind the older one, up to the newer, is lost.
    pub fn overwritten(&mut self, row: &Row, older: Token, newer: Token) {
        let between =
            self.writers.get(row).into_iter().flat_map(|it| it.range(older.number + 1..=newer.number));
        let tokens = between.map(|&number| Token { number, ..older }).collect();
        self.lost(tokens);
    }

    /// Statements have left for a server.
    pub fn sent_to_server(&mut self, tokens: &[Token]) {
        self.sent.extend(tokens);
    }

    /// Whether a statement has been sent to a server.
    pub fn was_sent(&self, token: Token) -> bool {
        self.sent.contains(&token)
    }

    /// A client has been told that nothing of these has run, or is left.
    ///
    /// # Errors
    /// One of them is stored.
    pub fn refused(&mut self, code: u16, tokens: &[Token]) -> Result<(), Breach> {
        for &token in tokens {
            if self.stored.contains(&token) {
                return Err(Breach::Refused { token, code });
            }
            self.refused.insert(token, code);
        }
        Ok(())
    }

    /// The statements of a client's open transaction that have changed something.
    pub fn changed_in(&self, key: ClientKey, transaction: u64) -> Vec<Token> {
        self.open.get(&(key, transaction)).cloned().unwrap_or_default()
    }

    /// A statement was acknowledged that was to run like this, and ran like that.
    ///
    /// # Errors
    /// What is acknowledged is not stored.
    pub fn acknowledged(&mut self, expected: &Execution) -> Result<(), Breach> {
        let token = expected.token;
        match expected.transaction.map(|transaction| (token.key, transaction)) {
            Some(transaction) if expected.commits => {
                for written in self.open.remove(&transaction).unwrap_or_default() {
                    if !self.stored.contains(&written) {
                        return Err(Breach::NotCommitted { commit: token, written });
                    }
                    self.tell(written);
                }
            }
            Some(transaction) if expected.writes => self.open.entry(transaction).or_default().push(token),
            None if expected.writes && !self.stored.contains(&token) => {
                return Err(Breach::NotStored(token));
            }
            None if expected.writes => self.tell(token),
            _ => {}
        }
        Ok(())
    }

    /// A client has been told that this is written.
    fn tell(&mut self, token: Token) {
        let Some(row) = self.rows.get(&token) else { return };
        self.told.insert(row.clone(), token.number);
        let recent = Rc::make_mut(&mut self.recent);
        recent.retain(|known| known != row);
        recent.push(row.clone());
        if recent.len() > RECENT {
            recent.remove(0);
        }
    }

    /// The rows that were written last, as clients have been told.
    pub fn recent(&self) -> Rc<Vec<Row>> {
        Rc::clone(&self.recent)
    }

    /// The latest version of a row that any client has been told of; 0 where there is none.
    pub fn told(&self, row: &Row) -> u32 {
        self.told.get(row).copied().unwrap_or(0)
    }

    /// An answer shows versions of rows of this login: each must be the one that is expected, or an older one where all that
    /// was written since is lost, or where no more was promised. This is the place for what is promised of reads, wherever they run. Returns
    /// how many were at least as new as the login's own write.
    ///
    /// # Errors
    /// It is older than that, or nobody can have written it.
    pub fn read(
        &mut self,
        key: ClientKey,
        expected: &Expected,
        found: &[Part],
        promise: Promise,
    ) -> Result<u64, Breach> {
        let Expected::Reply(expected) = expected else { return Ok(0) };
        let mut checked = 0;
        for (expected, found) in versions::of(expected).into_iter().zip(versions::of(found)) {
            checked += u64::from(expected > 0);
            if expected == found {
                continue;
            }
            let missing = Token { key, number: expected };
            let Some(row) = self.rows.get(&missing).filter(|_| found < expected).cloned() else {
                return Err(Breach::OtherVersion { found, expected });
            };
            self.check_older(&row, key, promise, found, expected)?;
        }
        Ok(checked)
    }

    /// An answer shows the version of another login's row.
    ///
    /// # Errors
    /// It is older than promised, or nobody has written it.
    pub fn read_others(&mut self, question: &Question, found: u32) -> Result<(), Breach> {
        // A session's promise is of what it has written itself.
        let promise = match question.promise {
            Promise::Session => Promise::Eventual,
            promise => promise,
        };
        // Whatever was written meanwhile may be there.
        if found < question.known {
            return self.check_older(&question.row, question.owner, promise, found, question.known);
        }
        self.check_existed(&question.row, found)
    }

    fn check_existed(&self, row: &Row, found: u32) -> Result<(), Breach> {
        let existed = found == 0 || self.writers.get(row).is_some_and(|writers| writers.contains(&found));
        if existed { Ok(()) } else { Err(Breach::NoVersion(found)) }
    }

    /// A version is older than what was known to be written.
    fn check_older(
        &mut self,
        row: &Row,
        key: ClientKey,
        promise: Promise,
        found: u32,
        known: u32,
    ) -> Result<(), Breach> {
        self.check_existed(row, found)?;
        let between = self.writers[row].range(found + 1..=known).map(|&number| Token { key, number });
        let Some(kept) = between.into_iter().find(|token| !self.lost.contains(token)) else {
            self.fates.older_reads += 1;
            return Ok(());
        };
        if promise == Promise::Eventual {
            self.fates.eventual_reads += 1;
            return Ok(());
        }
        Err(Breach::Older { promise, found, kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::database::Database;
    use crate::server::member::Member;

    const KEY: ClientKey = ClientKey { client: 1, incarnation: 0 };

    fn token(number: u32) -> Token {
        Token { key: KEY, number }
    }

    /// What a server commits as these statements write a row, one after the other.
    fn commits(numbers: impl IntoIterator<Item = u32>) -> Vec<Rc<Committed>> {
        let mut database = Database::default();
        database.member = Some(Member::new(1));
        for number in numbers {
            let table = database.tables.entry("versions_1_0".to_owned()).or_default();
            table.rows.insert(1, token(number).to_string());
            database.commit(vec![("versions_1_0".to_owned(), 1)], vec![token(number)]);
        }
        database.news
    }

    fn execution(number: u32, transaction: Option<u64>, writes: bool, commits: bool) -> Execution {
        Execution {
            token: token(number),
            server: None,
            thread_id: 1,
            sent_at: (0, 0),
            transaction,
            fingerprint: String::new(),
            foreign_state: None,
            harmless: false,
            writes,
            commits,
        }
    }

    fn shows(number: u32) -> Vec<Part> {
        vec![Part::Packet(versions::shown(number).into_bytes())]
    }

    #[test]
    fn a_read_may_be_older_only_by_what_is_lost() {
        let mut ledger = Ledger::default();
        for committed in commits([3, 5, 8]) {
            ledger.committed(&committed, false).expect("nobody was told otherwise");
        }
        let expected = Expected::Reply(shows(8));
        let read =
            |ledger: &mut Ledger, found| ledger.read(KEY, &expected, &shows(found), Promise::Session).is_ok();
        assert_eq!([8, 5, 9].map(|found| read(&mut ledger, found)), [true, false, false]);
        ledger.lost(vec![token(8)]);
        assert_eq!([8, 5, 3].map(|found| read(&mut ledger, found)), [true, true, false]);
        ledger.lost(vec![token(5)]);
        assert!(read(&mut ledger, 3));
        assert_eq!(ledger.fates.older_reads, 2);
    }

    #[test]
    fn of_a_row_that_is_overwritten_that_is_lost_which_is_behind_the_older_version() {
        let mut ledger = Ledger::default();
        for committed in commits([3, 5, 8, 9]) {
            ledger.committed(&committed, false).expect("nobody was told otherwise");
        }
        ledger.overwritten(&("versions_1_0".to_owned(), 1), token(5), token(8));
        let read = |ledger: &mut Ledger, written, found| {
            let expected = Expected::Reply(shows(written));
            ledger.read(KEY, &expected, &shows(found), Promise::Primary).is_ok()
        };
        assert_eq!([8, 5, 3].map(|found| read(&mut ledger, 8, found)), [true, true, false]);
        assert_eq!(
            [9, 8, 5].map(|found| read(&mut ledger, 9, found)),
            [true, false, false],
            "that came later"
        );
    }

    fn question(ledger: &Ledger, promise: Promise) -> Question {
        let row = ("versions_1_0".to_owned(), 1);
        Question { known: ledger.told(&row), row, owner: KEY, promise, is_check: false }
    }

    /// A row of which the first client has been told that its fifth statement has written it, and not yet of its eighth.
    fn ledger_of_others() -> Ledger {
        let mut ledger = Ledger::default();
        for (number, committed) in [3, 5, 8].into_iter().zip(commits([3, 5, 8])) {
            ledger.committed(&committed, false).expect("nobody was told otherwise");
            if number < 8 {
                ledger.acknowledged(&execution(number, None, true, false)).expect("it is stored");
            }
        }
        ledger
    }

    #[test]
    fn each_promise_has_its_oldest_version_of_ones_own_rows() {
        let expected = Expected::Reply(shows(5));
        let read = |promise, found| ledger_of_others().read(KEY, &expected, &shows(found), promise);
        for promise in Promise::ALL {
            assert_eq!(read(promise, 5), Ok(1));
            assert!(
                read(promise, 4).is_err() && read(promise, 8).is_err(),
                "nobody has written that by then"
            );
        }
        for promise in [Promise::Primary, Promise::Session, Promise::Global] {
            assert_eq!(read(promise, 3), Err(Breach::Older { promise, found: 3, kept: token(5) }));
        }
        assert_eq!((read(Promise::Eventual, 3), read(Promise::Eventual, 0)), (Ok(1), Ok(1)));
    }

    #[test]
    fn of_others_rows_what_was_told_is_there() {
        let read = |promise, found| {
            let mut ledger = ledger_of_others();
            let question = question(&ledger, promise);
            ledger.read_others(&question, found).is_ok()
        };
        assert_eq!(
            [8, 5, 3, 4, 0].map(|found| read(Promise::Global, found)),
            [true, true, false, false, false]
        );
        assert_eq!(
            [8, 5, 3, 4, 0].map(|found| read(Promise::Eventual, found)),
            [true, true, true, false, true]
        );
        assert_eq!(*ledger_of_others().recent(), [("versions_1_0".to_owned(), 1)]);
    }

    #[test]
    fn what_was_refused_is_not_stored_before_or_later() {
        let mut ledger = Ledger::default();
        let [first, second] = <[_; 2]>::try_from(commits([1, 2])).expect("two");
        ledger.committed(&first, false).expect("nobody was told otherwise");
        let refused = Breach::Refused { token: token(1), code: 1290 };
        assert_eq!(ledger.refused(1290, &[token(1)]), Err(refused));
        assert_eq!(ledger.refused(1213, &[token(2)]), Ok(()));
        let stored = Breach::Stored { token: token(2), code: 1213 };
        assert_eq!(ledger.committed(&second, false), Err(stored));
    }

    #[test]
    fn what_is_acknowledged_is_stored() {
        let mut ledger = Ledger::default();
        let not_stored = Breach::NotStored(token(1));
        assert_eq!(ledger.acknowledged(&execution(1, None, true, false)), Err(not_stored));
        ledger.committed(&commits([1])[0], false).expect("nobody was told otherwise");
        assert_eq!(ledger.acknowledged(&execution(1, None, true, false)), Ok(()));
        assert_eq!(ledger.acknowledged(&execution(2, Some(7), true, false)), Ok(()));
        assert_eq!(ledger.changed_in(KEY, 7), [token(2)]);
        let not_committed = Breach::NotCommitted { commit: token(3), written: token(2) };
        assert_eq!(ledger.acknowledged(&execution(3, Some(7), false, true)), Err(not_committed));
    }
}
