//! What must hold in every run. The first thing that does not hold ends it.

use std::collections::BTreeMap;
use std::rc::Rc;

use memchr::memmem;

use crate::client::oracle::Expected;
use crate::client::promise::{Promise, Question};
use crate::client::reply::Part;
use crate::client::{moments, versions};
use crate::kills::{self, Counts, Kills};
use crate::ledger::{self, Fates, Ledger, Row};
use crate::server::database::Execution;
use crate::server::member::Committed;
use crate::token::{ClientKey, Token};
use crate::trace::Shown;

/// Connections to the server without a statement in between that count as a storm: more than all clients of a run could
/// ask for while the server is down or turns everybody away.
const IDLE_CONNECTS: u64 = 1_000;

/// What was checked of reads that may go to replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadChecks {
    /// Reads of what their own login had been told to have written, to which it was promised to see that, and which a replica has answered or could
    /// have: outside of transactions, of a login that holds nothing on a server.
    pub own: u64,
    /// Own reads that a replica has answered.
    pub own_on_replicas: u64,
    /// As they were asked, some replica lacked what had been written.
    pub own_behind: u64,
    /// Reads of what other logins had been told to be written, with the promise of `global`.
    pub others: u64,
}

impl ReadChecks {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            own: self.own + other.own,
            own_on_replicas: self.own_on_replicas + other.own_on_replicas,
            own_behind: self.own_behind + other.own_behind,
            others: self.others + other.others,
        }
    }
}

/// Watches all parts of a run.
#[derive(Debug)]
pub struct Checkers {
    violation: Option<String>,
    tolerates_losses: bool,
    tolerates_notices: bool,
    statements: BTreeMap<Token, Record>,
    /// In which turn the program was told of a client's end.
    told_of_end: BTreeMap<ClientKey, u64>,
    /// A client's transactions, by the oracle's number, and where they ran.
    transactions: BTreeMap<(ClientKey, u64), (u32, u64)>,
    /// Connections to the server since a statement ran.
    idle_connects: u64,
    /// Statements that ran.
    pub executed: u64,
    /// Statements that were answered as on a connection of their own.
    pub answered: u64,
    /// How many statements have run on the server, those of the program's own included.
    pub moment: u64,
    /// How many of them were reads of what everybody wants.
    pub popular_runs: u64,
    /// How often clients have had an answer to the latter.
    pub popular_answers: u64,
    /// Plain reads that ran once more.
    pub repeated: u64,
    ledger: Option<Ledger>,
    /// Where there are several Onramps.
    kills: Option<Kills>,
    /// Reads of rows that a login has written itself which have been sent since somebody looked last: the row, and its version.
    pub asked: Vec<(Row, u32)>,
    /// What was checked of reads.
    pub reads: ReadChecks,
}

/// What is known of one statement.
#[derive(Debug)]
struct Record {
    expected: Execution,
    /// When it was sent, and what it was promised to see.
    sent_at: u64,
    promise: Promise,
    /// The transaction in which it was sent may be rolled back before it runs.
    may_leave: bool,
    ran: Option<Execution>,
    /// The statement ran for a reader of a replica.
    on_replica: bool,
}

impl Checkers {
    /// With `tolerates_losses`, clients may get errors that tell of a lost server, a kill or a limit.
    ///
    /// With `tolerates_notices`, they see the server's own last words, since nobody stands between.
    pub fn new(tolerates_losses: bool, tolerates_notices: bool) -> Self {
        Self {
            violation: None,
            tolerates_losses,
            tolerates_notices,
            statements: BTreeMap::new(),
            told_of_end: BTreeMap::new(),
            transactions: BTreeMap::new(),
            idle_connects: 0,
            executed: 0,
            answered: 0,
            moment: 0,
            popular_runs: 0,
            popular_answers: 0,
            repeated: 0,
            ledger: None,
            kills: None,
            asked: Vec::new(),
            reads: ReadChecks::default(),
        }
    }

    /// There are several servers, for one of which to take writes clients wait for so many microseconds.
    #[must_use]
    pub fn with_ledger(mut self, hold: u64) -> Self {
        self.ledger = Some(Ledger::new(hold));
        self
    }

    /// There are several Onramps.
    #[must_use]
    pub fn with_kills(mut self) -> Self {
        self.kills = Some(Kills::default());
        self
    }

    /// What is known of KILLs, where there are several Onramps.
    pub fn kills(&mut self) -> Option<&mut Kills> {
        self.kills.as_mut()
    }

    /// Holds what has happened against the KILLs that were said, where there are several Onramps.
    pub fn with_kill(&mut self, check: impl FnOnce(&mut Kills) -> Result<(), kills::Breach>) {
        if let Some(Err(breach)) = self.kills.as_mut().map(check) {
            self.violation(breach.to_string());
        }
    }

    /// How KILLs ended.
    pub fn killed(&self) -> Counts {
        self.kills.as_ref().map_or(Counts::default(), |kills| kills.counts)
    }

    /// Something that must not be.
    pub fn violation(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// The first violation.
    pub fn found(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Whether this run has faults, kills or scarce limits.
    pub fn tolerates_losses(&self) -> bool {
        self.tolerates_losses
    }

    /// Whether ERR packets may come with any sequence number.
    pub fn tolerates_notices(&self) -> bool {
        self.tolerates_notices
    }

    /// From here on errors and closes are part of the plan: the program is being stopped.
    pub fn accept_losses(&mut self) {
        self.tolerates_losses = true;
    }

    /// A client has sent statements at this time, which should run like this, and were promised to see this.
    pub fn sent(&mut self, executions: Vec<Execution>, sent_at: u64, promise: Promise) {
        for expected in executions {
            let token = expected.token;
            let record =
                Record { expected, sent_at, promise, may_leave: false, ran: None, on_replica: false };
            self.statements.insert(token, record);
        }
    }

    /// The program has been told that this login of a client is over.
    pub fn told_of_end(&mut self, key: ClientKey, turn: u64) {
        self.told_of_end.insert(key, turn);
    }

    /// The program connects to the server once more.
    pub fn connects(&mut self) {
        self.idle_connects += 1;
        if self.idle_connects > IDLE_CONNECTS {
            self.violation(format!(
                "{IDLE_CONNECTS} connections to the server, and no statement ran on them"
            ));
        }
    }

    /// Where there are several Onramps, their connections are counted in another way.
    pub fn forget_connects(&mut self) {
        self.idle_connects = 0;
    }

    /// A statement ran on the server, having left the program in this turn; on a replica where that was read from.
    pub fn executed(&mut self, mut ran: Execution, sent_in_turn: Option<u64>, on_replica: bool) {
        self.executed += 1;
        self.idle_connects = 0;
        let token = ran.token;
        if let Some(foreign) = ran.foreign_state {
            self.violation(format!(
                "{token} ran on thread {} among the state of client {foreign}",
                ran.thread_id
            ));
        }
        // Invariant 2: a statement whose client has gone while it was queued never reaches the server.
        if let (Some(&end), Some(sent)) = (self.told_of_end.get(&token.key), sent_in_turn) {
            if sent > end {
                self.violation(format!(
                    "{token} was sent in turn {sent}; its client's end was told in turn {end}"
                ));
            }
        }
        if on_replica {
            self.check_on_replica(&mut ran);
        }
        match self.statements.get_mut(&token) {
            None => self.violation(format!("{token} ran on thread {} and was never sent", ran.thread_id)),
            // One that stood behind a stuck one has been sent again, under the same state.
            Some(Record { ran: Some(first), on_replica: before, .. })
                if ran.harmless && first.harmless && ran.fingerprint == first.fingerprint =>
            {
                self.repeated += 1;
                *before = on_replica;
            }
            Some(Record { ran: Some(first), .. }) => {
                let text =
                    format!("{token} ran twice: on thread {} and on {}", first.thread_id, ran.thread_id);
                self.violation(text);
            }
            Some(record) => (record.ran, record.on_replica) = (Some(ran), on_replica),
        }
    }

    /// An answer is there, to a question sent when so many statements had run: it may be of nothing that was before. Each
    /// client sees what it would see on a connection of its own, where its statement runs after it was sent.
    pub fn answers_with_moments(&mut self, found: &[Part], floor: u64, question: Shown<'_>) {
        if let Some(moment) = moments::stale(found, floor) {
            self.violation(format!(
                "{question} was sent after moment {floor}, and its answer is of {moment}"
            ));
        }
        self.popular_answers +=
            u64::from(found.len() > 1 && memmem::find(question.0, b"SELECT moment").is_some());
    }

    /// So many statements have run on the server, and so many of them for clients without being named.
    pub fn moment_is(&mut self, moment: u64, popular_runs: u64) {
        if popular_runs > self.popular_runs {
            self.idle_connects = 0;
        }
        self.moment = moment;
        self.popular_runs = popular_runs;
    }

    /// A client has received the answer that it expected. What is known of the statements' executions must fit: before
    /// that, an error might still have told the client that things went another way.
    pub fn answered(&mut self, tokens: &[Token]) {
        self.answered += 1;
        for token in tokens {
            let Some(record) = self.statements.get(token) else { continue };
            if record.on_replica && record.promise == Promise::Primary {
                return self
                    .violation(format!("what is for the primary alone was answered by a replica: {token}"));
            }
            let Record { expected, ran, .. } = record;
            if (expected.writes && !ran.as_ref().is_some_and(|ran| ran.writes))
                || (expected.commits && !ran.as_ref().is_some_and(|ran| ran.commits))
            {
                self.violation(format!("{token} was acknowledged, and has changed nothing on a server"));
                return;
            }
            let acknowledged = self.ledger.as_mut().map(|ledger| ledger.acknowledged(expected));
            if let Some(Err(breach)) = acknowledged {
                return self.violation(breach.to_string());
            }
            let Some(ran) = ran else { continue };
            if expected.fingerprint != ran.fingerprint {
                let text = format!(
                    "{token} ran on thread {} under\n    {}\n  and should have run under\n    {}",
                    ran.thread_id, ran.fingerprint, expected.fingerprint
                );
                self.violation(text);
                return;
            }
            let place = ran.transaction.map(|transaction| (ran.thread_id, transaction));
            if let (Some(own), Some(place)) = (expected.transaction, place) {
                let first = *self.transactions.entry((token.key, own)).or_insert(place);
                if first != place {
                    let text = format!("{token} ran in transaction {place:?}, its predecessor in {first:?}");
                    self.violation(text);
                    return;
                }
            }
        }
    }
}

/// Where there are several servers.
impl Checkers {
    /// Whether there are.
    pub fn has_several(&self) -> bool {
        self.ledger.is_some()
    }

    /// For how many microseconds clients wait for a server that takes writes, where there are several.
    pub fn hold(&self) -> Option<u64> {
        self.ledger.as_ref().map(|ledger| ledger.hold)
    }

    /// What became of clients.
    pub fn fates(&self) -> Fates {
        self.ledger.as_ref().map_or(Fates::default(), |ledger| ledger.fates)
    }

    /// The program has turned to another primary.
    pub fn turned(&mut self) {
        if let Some(ledger) = &mut self.ledger {
            ledger.fates.turns += 1;
        }
    }

    /// Several Onramps have the same primary, as they should.
    pub fn agreed(&mut self) {
        if let Some(ledger) = &mut self.ledger {
            ledger.fates.agreed += 1;
        }
    }

    /// See [`Ledger::committed`].
    pub fn committed(&mut self, committed: &Committed, is_lost: bool) {
        self.in_ledger(|ledger| ledger.committed(committed, is_lost));
    }

    /// See [`Ledger::lost`].
    pub fn lost(&mut self, tokens: Vec<Token>) {
        self.in_ledger(|ledger| {
            ledger.lost(tokens);
            Ok(())
        });
    }

    /// See [`Ledger::overwritten`].
    pub fn overwritten(&mut self, row: &Row, older: Token, newer: Token) {
        self.in_ledger(|ledger| {
            ledger.overwritten(row, older, newer);
            Ok(())
        });
    }

    /// See [`Ledger::sent_to_server`].
    pub fn sent_to_server(&mut self, tokens: &[Token]) {
        if let Some(ledger) = &mut self.ledger {
            ledger.sent_to_server(tokens);
        }
    }

    /// A client was told that nothing of these has run.
    pub fn refused(&mut self, code: u16, tokens: &[Token]) {
        self.in_ledger(|ledger| {
            ledger.fates.refused += 1;
            ledger.refused(code, tokens)
        });
    }

    /// A client was told that its transaction is rolled back, in which statements stand that it has had answers to.
    pub fn rolled_back(&mut self, key: ClientKey, transaction: Option<u64>, tokens: &[Token]) {
        self.in_ledger(|ledger| {
            ledger.fates.rolled_back += 1;
            let before = transaction.map_or(Vec::new(), |transaction| ledger.changed_in(key, transaction));
            ledger.refused(1213, &before)?;
            ledger.refused(1213, tokens)
        });
    }

    /// A client was told that nobody knows what became of its statement: it was in flight, or its client had a server's connection of its
    /// own.
    pub fn unknown(&mut self, tokens: &[Token], holds: bool, shown: Shown<'_>) {
        let Some(ledger) = &mut self.ledger else { return };
        ledger.fates.unknown += 1;
        if tokens.first().is_some_and(|&first| !holds && !ledger.was_sent(first)) {
            self.violation(format!("{shown} was answered with error 2013, and was never sent to a server"));
        }
    }

    fn in_ledger(&mut self, note: impl FnOnce(&mut Ledger) -> Result<(), ledger::Breach>) {
        if let Some(Err(breach)) = self.ledger.as_mut().map(note) {
            self.violation(breach.to_string());
        }
    }
}

/// Of reads, wherever they run.
impl Checkers {
    /// These are bound to the primary by an open transaction alone. Where that is rolled back before they run they are outside of it, and replicas may read them: their client
    /// hears of the rollback first, and waits for no answer to them.
    pub fn may_leave_transaction(&mut self, tokens: &[Token]) {
        for token in tokens {
            if let Some(record) = self.statements.get_mut(token) {
                record.may_leave = true;
            }
        }
    }

    /// Whether a statement may be sent to a replica: it reads, and nobody wants the primary for it. One that may be outside of its transaction by then is judged by its answer.
    pub fn may_run_on_replica(&self, token: Token) -> bool {
        let may = |record: &Record| record.expected.harmless && record.promise != Promise::Primary;
        self.statements.get(&token).is_some_and(|record| record.may_leave || may(record))
    }

    /// When a client has sent a statement, and what it was promised to see.
    pub fn read_is_of(&self, token: Token) -> Option<(u64, Promise)> {
        self.statements.get(&token).map(|record| (record.sent_at, record.promise))
    }

    /// A statement ran on a replica: it has written nothing, in a session that cannot. All else is as it would be on the primary.
    fn check_on_replica(&mut self, ran: &mut Execution) {
        const READ_ONLY: &str = " tx_read_only=Some(\"ON\")";
        if ran.writes || ran.commits {
            return self.violation(format!("a write on a replica: {} on server {:?}", ran.token, ran.server));
        }
        match ran.fingerprint.replacen(READ_ONLY, "", 1) {
            state if state.len() < ran.fingerprint.len() => ran.fingerprint = state,
            state => {
                let text =
                    format!("{} ran on a replica in a session that may write, under {state}", ran.token);
                self.violation(text);
            }
        }
    }

    /// A read of a row's version leaves a client; `is_free` where its login holds nothing on a server, and its command does nothing but read.
    pub fn asks(
        &mut self,
        key: ClientKey,
        (row, owner): (Row, ClientKey),
        promise: Promise,
        is_free: bool,
    ) -> Question {
        // An Onramp promises what it has told its own clients.
        let is_here = |kills: &Kills| {
            kills.login(owner).map(|login| login.program) == kills.login(key).map(|login| login.program)
        };
        let is_told = self.kills.as_ref().is_none_or(is_here);
        let known = self.ledger.as_ref().filter(|_| is_told).map_or(0, |ledger| ledger.told(&row));
        let is_check = is_free && owner == key && known > 0 && promise.covers_own_writes();
        if is_check {
            self.asked.push((row.clone(), known));
        }
        Question { row, owner, promise, known, is_check }
    }

    /// The rows that were written last, as clients have been told.
    pub fn recent_rows(&self) -> Rc<Vec<Row>> {
        self.ledger.as_ref().map_or_else(Rc::default, Ledger::recent)
    }

    /// An answer with versions of rows of this login: see [`Ledger::read`] and [`Ledger::read_others`]. `question` where it is known to have been about one row.
    pub fn read(
        &mut self,
        key: ClientKey,
        question: Option<&Question>,
        expected: &Expected,
        (found, tokens): (&[Part], &[Token]),
        shown: Shown<'_>,
    ) {
        let Some(ledger) = &mut self.ledger else { return };
        let on_replica =
            tokens.iter().any(|token| self.statements.get(token).is_some_and(|it| it.on_replica));
        let promise = question.map_or(Promise::Primary, |question| question.promise);
        let checked = match question.filter(|question| question.owner != key) {
            None => ledger.read(key, expected, found, promise).map(|checked| {
                if question.is_some_and(|question| question.is_check) {
                    self.reads.own += checked;
                    self.reads.own_on_replicas += if on_replica { checked } else { 0 };
                }
            }),
            Some(question) => versions::of(found).into_iter().try_for_each(|version| {
                self.reads.others += u64::from(promise == Promise::Global && question.known > 0);
                ledger.read_others(question, version)
            }),
        };
        if let Err(breach) = checked {
            let place = if on_replica { "a replica" } else { "the primary" };
            self.violation(format!("client {key}: {shown}, answered by {place}: {breach}"));
        }
    }
}

#[cfg(test)]
mod tests;
