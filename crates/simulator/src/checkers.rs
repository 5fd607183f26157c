//! What must hold in every run. The first thing that does not hold ends it.

use std::collections::BTreeMap;

use crate::client::moments;
use crate::client::oracle::Expected;
use crate::client::reply::Part;
use crate::ledger::{Fates, Ledger};
use crate::server::database::Execution;
use crate::server::member::Committed;
use crate::token::{ClientKey, Token};

/// Connections to the server without a statement in between that count as a storm: more than all clients of a run could
/// ask for while the server is down or turns everybody away.
const IDLE_CONNECTS: u64 = 1_000;

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
}

/// What is known of one statement.
#[derive(Debug)]
struct Record {
    expected: Execution,
    ran: Option<Execution>,
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
        }
    }

    /// There are several servers.
    #[must_use]
    pub fn with_ledger(mut self) -> Self {
        self.ledger = Some(Ledger::default());
        self
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

    /// A client has sent statements, which should run like this.
    pub fn sent(&mut self, executions: Vec<Execution>) {
        for expected in executions {
            self.statements.insert(expected.token, Record { expected, ran: None });
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

    /// A statement ran on the server, having left the program in this turn.
    pub fn executed(&mut self, ran: Execution, sent_in_turn: Option<u64>) {
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
        match self.statements.get_mut(&token) {
            None => self.violation(format!("{token} ran on thread {} and was never sent", ran.thread_id)),
            // One that stood behind a stuck one has been sent again, under the same state.
            Some(Record { ran: Some(first), .. })
                if ran.harmless && first.harmless && ran.fingerprint == first.fingerprint =>
            {
                self.repeated += 1;
            }
            Some(Record { ran: Some(first), .. }) => {
                let text =
                    format!("{token} ran twice: on thread {} and on {}", first.thread_id, ran.thread_id);
                self.violation(text);
            }
            Some(record) => record.ran = Some(ran),
        }
    }

    /// An answer is there, to a question sent when so many statements had run: it may be of nothing that was before. Each
    /// client sees what it would see on a connection of its own, where its statement runs after it was sent.
    pub fn answers_with_moments(&mut self, found: &[Part], floor: u64, question: &str) {
        if let Some(moment) = moments::stale(found, floor) {
            self.violation(format!(
                "{question} was sent after moment {floor}, and its answer is of {moment}"
            ));
        }
        self.popular_answers += u64::from(question.contains("SELECT moment") && found.len() > 1);
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
            let Some(Record { expected, ran }) = self.statements.get(token) else { continue };
            if (expected.writes && !ran.as_ref().is_some_and(|ran| ran.writes))
                || (expected.commits && !ran.as_ref().is_some_and(|ran| ran.commits))
            {
                self.violation(format!("{token} was acknowledged, and has changed nothing on a server"));
                return;
            }
            let acknowledged = self.ledger.as_mut().map(|ledger| ledger.acknowledged(expected));
            if let Some(Err(text)) = acknowledged {
                return self.violation(text);
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
    pub fn unknown(&mut self, tokens: &[Token], holds: bool, shown: &str) {
        self.in_ledger(|ledger| {
            ledger.fates.unknown += 1;
            match tokens.first() {
                Some(&first) if !holds && !ledger.was_sent(first) => {
                    Err(format!("{shown} was answered with error 2013, and was never sent to a server"))
                }
                _ => Ok(()),
            }
        });
    }

    /// See [`Ledger::read`].
    pub fn read(&mut self, key: ClientKey, expected: &Expected, found: &[Part], shown: &str) {
        self.in_ledger(|ledger| {
            ledger.read(key, expected, found).map_err(|text| format!("client {key}: {shown}: {text}"))
        });
    }

    fn in_ledger(&mut self, note: impl FnOnce(&mut Ledger) -> Result<(), String>) {
        if let Some(Err(text)) = self.ledger.as_mut().map(note) {
            self.violation(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ClientKey = ClientKey { client: 1, incarnation: 0 };

    fn execution(number: u32, transaction: Option<u64>) -> Execution {
        Execution {
            token: Token { key: KEY, number },
            server: None,
            thread_id: 7,
            sent_at: (0, 0),
            transaction,
            fingerprint: "schema=alpha".to_owned(),
            foreign_state: None,
            harmless: false,
            writes: false,
            commits: false,
        }
    }

    /// Statements that were sent as the second and ran as the first, all answered.
    fn found(runs: &[(Execution, Execution)]) -> Option<String> {
        let mut checkers = Checkers::new(false, false);
        for (ran, expected) in runs {
            checkers.sent(vec![expected.clone()]);
            checkers.executed(ran.clone(), Some(1));
            checkers.answered(&[expected.token]);
        }
        checkers.found().map(str::to_owned)
    }

    #[test]
    fn a_transaction_on_one_session_is_right_and_a_split_one_is_not() {
        let right = [
            (execution(1, Some(40)), execution(1, Some(3))),
            (execution(2, Some(40)), execution(2, Some(3))),
        ];
        assert_eq!(found(&right), None);
        let split = [
            (execution(1, Some(40)), execution(1, Some(3))),
            (execution(2, Some(41)), execution(2, Some(3))),
        ];
        assert!(found(&split).is_some_and(|text| text.contains("its predecessor")));
    }

    #[test]
    fn another_state_is_found_once_the_answer_has_come() {
        let other = Execution { fingerprint: "schema=beta".to_owned(), ..execution(1, None) };
        assert!(
            found(&[(other, execution(1, None))]).is_some_and(|text| text.contains("should have run under"))
        );
    }

    #[test]
    fn only_plain_reads_may_run_twice_and_under_the_same_state() {
        let read = Execution { harmless: true, ..execution(1, None) };
        let twice = |first: &Execution, second: &Execution| {
            let mut checkers = Checkers::new(false, false);
            checkers.sent(vec![first.clone()]);
            checkers.executed(first.clone(), Some(1));
            checkers.executed(second.clone(), Some(1));
            (checkers.found().is_some(), checkers.repeated)
        };
        assert_eq!(twice(&read, &read), (false, 1));
        assert_eq!(twice(&execution(1, None), &execution(1, None)), (true, 0));
        let elsewhere = Execution { fingerprint: "schema=beta".to_owned(), ..read.clone() };
        assert_eq!(twice(&read, &elsewhere), (true, 0));
    }

    #[test]
    fn foreign_state_and_unknown_statements_are_found() {
        let mut checkers = Checkers::new(true, false);
        let foreign_state = Some(ClientKey { client: 2, incarnation: 0 });
        checkers.sent(vec![execution(1, None)]);
        checkers.executed(Execution { foreign_state, ..execution(1, None) }, None);
        assert!(checkers.found().is_some_and(|text| text.contains("among the state of client 2_0")));
        let mut checkers = Checkers::new(true, false);
        checkers.executed(execution(1, None), None);
        assert!(checkers.found().is_some_and(|text| text.contains("never sent")));
    }
}
