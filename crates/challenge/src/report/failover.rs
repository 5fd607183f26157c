//! A failover: what clients noticed of it, whether their ledger is right, and what is said of both.

use serde::{Deserialize, Serialize};

use super::text;

/// The primary was killed while clients went on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failover {
    /// Servers, the primary among them.
    pub(crate) servers: u32,
    /// Clients.
    pub(crate) clients: u32,
    /// When the primary was killed. This and what follows in seconds since the clients began.
    pub(crate) killed: f64,
    /// When the new one took writes.
    pub(crate) writable: f64,
    /// When the last write was acknowledged before that.
    pub(crate) last_before: Option<f64>,
    /// When the first one was acknowledged after that.
    pub(crate) back: Option<f64>,
    /// Statements and errors over time.
    pub(crate) curve: Vec<Instantaneous>,
    /// What Onramp says of it.
    pub(crate) held: Held,
    /// All errors that clients got, by number.
    pub(crate) errors: Vec<ErrorCount>,
    /// Answers that were somebody else's.
    pub(crate) wrong_answers: u64,
    /// The first of them.
    pub(crate) wrong_answer: String,
    /// Why the clients gave up before they were told to.
    pub(crate) failure: Option<String>,
    /// What they were told, and what is stored.
    pub(crate) ledger: Ledger,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instantaneous {
    /// Seconds since the clients began.
    pub(crate) at: f64,
    /// Statements that were answered without an error, a second.
    pub(crate) queries_per_second: f64,
    /// Errors a second.
    pub(crate) errors_per_second: f64,
}

/// What Onramp says of the change of the primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Statements that waited for the new primary.
    pub(crate) statements: u64,
    /// The longest of these waits, in seconds.
    pub(crate) longest: f64,
    /// Open transactions of which clients were told that they are rolled back.
    pub(crate) rolled_back: u64,
    /// Statements that were in flight, so that nobody knows whether they ran.
    pub(crate) in_doubt: u64,
    /// GTIDs that the new primary lacked; empty where none.
    pub(crate) lacked: String,
}

/// Errors with one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorCount {
    /// The number.
    pub(crate) code: u64,
    /// How many.
    pub(crate) count: u64,
    /// What the first said.
    pub(crate) example: String,
}

/// Markers, each of which one client writes once, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// Of which a client was told that they are stored.
    pub(crate) acknowledged: u64,
    /// Of these, not stored.
    pub(crate) lost: u64,
    /// Of which a client was told, or has seen to it, that they are not.
    pub(crate) refused: u64,
    /// Of these, stored.
    pub(crate) refused_and_stored: u64,
    /// Of which no client knows.
    pub(crate) unknown: u64,
    /// Of these, stored.
    pub(crate) unknown_and_stored: u64,
    /// Rows with a marker on the new primary.
    pub(crate) stored: u64,
    /// Markers with two rows or more: a statement ran twice.
    pub(crate) stored_twice: u64,
    /// Markers that no client has sent.
    pub(crate) stored_by_nobody: u64,
    /// Accounts between which clients moved money.
    pub(crate) accounts: u64,
    /// By how much the sum of their balances is off: a number, as a text for it may be a long one.
    pub(crate) off_balance: String,
    /// Servers that follow the new primary.
    pub(crate) replicas: u64,
    /// Of these, those that have another number of markers.
    pub(crate) replicas_that_differ: u64,
}

/// What a failover may tell clients: that a transaction is rolled back, as for a deadlock, and that a connection was lost with a statement
/// that may have run (docs/CLUSTERS.md).
const OF_A_FAILOVER: [u64; 2] = [1213, 2013];

impl Failover {
    /// How long no write was acknowledged, in seconds.
    pub(crate) fn silence(&self) -> Option<f64> {
        Some(self.back? - self.last_before?)
    }

    /// In a line.
    pub(crate) fn headline(&self) -> String {
        let ledger = if self.faults().is_empty() { "the ledger is right" } else { "AND NOT ALL IS RIGHT" };
        match self.silence() {
            Some(silence) => {
                format!("Primary killed: no write was acknowledged for {silence:.2} s, {ledger}")
            }
            None => format!("Primary killed: no write was acknowledged any more, {ledger}"),
        }
    }

    /// All that should not be; the verdict is good where there is none.
    pub(crate) fn faults(&self) -> Vec<String> {
        let ledger = &self.ledger;
        let of = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}.", text::grouped(count)));
        let mut faults: Vec<String> = [
            of(ledger.lost, "writes were acknowledged and are not stored"),
            of(ledger.refused_and_stored, "writes were refused and are stored"),
            of(ledger.stored_twice, "writes are stored more than once"),
            of(ledger.stored_by_nobody, "writes are stored that no client has sent"),
            of(ledger.replicas_that_differ, "replicas have other writes than the new primary"),
            of(self.wrong_answers, &format!("answers were wrong, such as: {}", self.wrong_answer)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if ledger.unknown > self.held.in_doubt {
            faults.push(format!(
                "Of {} writes no client knows whether they are stored, and only {} statements were in flight.",
                text::grouped(ledger.unknown),
                text::grouped(self.held.in_doubt)
            ));
        }
        if ledger.off_balance != "0" {
            faults.push(format!("The sum of all balances is off by {}.", ledger.off_balance));
        }
        if self.last_before.is_none() {
            faults.push(String::from("No write was acknowledged before the primary was killed."));
        }
        if self.back.is_none() {
            faults.push(String::from("No write was acknowledged after the new primary took writes."));
        }
        if let Some(failure) = &self.failure {
            faults.push(format!("The clients gave up: {}.", failure.trim_end_matches('.')));
        }
        for error in self.errors.iter().filter(|error| !OF_A_FAILOVER.contains(&error.code)) {
            faults.push(format!(
                "Clients got error {} {} times, which no failover takes: {}.",
                error.code,
                text::grouped(error.count),
                error.example.trim_end_matches('.')
            ));
        }
        faults
    }

    /// What is to be said of it, in sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.course(), self.waits()];
        sentences.extend(self.errors.iter().map(|error| {
            format!("Error {}: {} times, such as: {}", error.code, text::grouped(error.count), error.example)
        }));
        sentences.push(self.account());
        sentences
    }

    fn course(&self) -> String {
        let back = match (self.back, self.silence()) {
            (Some(back), Some(silence)) => format!(
                "the first write was acknowledged {:.2} s after that. No write was acknowledged for {silence:.2} s in all",
                back - self.writable
            ),
            _ => String::from("no write was acknowledged after that"),
        };
        format!(
            "With {} clients in front of {} servers the primary was killed after {:.1} s; the replica that had most took writes \
             {:.2} s later; {back}.",
            text::grouped(u64::from(self.clients)),
            self.servers,
            self.killed,
            self.writable - self.killed
        )
    }

    fn waits(&self) -> String {
        let held = &self.held;
        format!(
            "{} statements waited for the new primary, the longest for {:.2} s; {} open transactions were rolled back (1213), and \
             of {} statements in flight nobody knows whether they ran (2013).",
            text::grouped(held.statements),
            held.longest,
            text::grouped(held.rolled_back),
            text::grouped(held.in_doubt)
        )
    }

    fn account(&self) -> String {
        let ledger = &self.ledger;
        let count = text::grouped;
        format!(
            "Ledger: {} writes acknowledged, {} of them not stored; {} refused, {} of them stored; {} unknown, {} of them stored; {} \
             stored in all, {} of them twice; the balances of {} accounts are off by {}; {} of {} replicas of the new primary differ \
             from it.",
            count(ledger.acknowledged),
            count(ledger.lost),
            count(ledger.refused),
            count(ledger.refused_and_stored),
            count(ledger.unknown),
            count(ledger.unknown_and_stored),
            count(ledger.stored),
            count(ledger.stored_twice),
            count(ledger.accounts),
            ledger.off_balance,
            ledger.replicas_that_differ,
            ledger.replicas
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One with which all is well.
    pub(crate) fn good() -> Failover {
        let point = |at: f64, queries_per_second, errors_per_second| Instantaneous {
            at,
            queries_per_second,
            errors_per_second,
        };
        Failover {
            servers: 3,
            clients: 1_000,
            killed: 10.0,
            writable: 13.25,
            last_before: Some(9.99),
            back: Some(13.5),
            curve: vec![point(9.0, 9_000.0, 0.0), point(10.1, 100.0, 64.0), point(12.0, 0.0, 0.0)],
            held: Held { statements: 990, longest: 3.5, rolled_back: 6, in_doubt: 4, ..Held::default() },
            errors: vec![ErrorCount { code: 2013, count: 4, example: String::from("Lost connection") }],
            wrong_answers: 0,
            wrong_answer: String::new(),
            failure: None,
            ledger: Ledger {
                acknowledged: 20_000,
                refused: 6,
                unknown: 4,
                unknown_and_stored: 1,
                stored: 20_001,
                accounts: 100_000,
                off_balance: String::from("0"),
                replicas: 1,
                ..Ledger::default()
            },
        }
    }

    #[test]
    fn each_thing_that_should_not_be_is_a_fault() {
        assert_eq!(good().faults(), Vec::<String>::new());
        assert_eq!(
            good().headline(),
            "Primary killed: no write was acknowledged for 3.51 s, the ledger is right"
        );
        type Breaks = fn(&mut Failover);
        let broken: [(Breaks, &str); 12] = [
            (|failover| failover.ledger.lost = 1, "1 writes were acknowledged and are not stored."),
            (|failover| failover.ledger.refused_and_stored = 2, "2 writes were refused and are stored."),
            (|failover| failover.ledger.stored_twice = 3, "3 writes are stored more than once."),
            (|failover| failover.ledger.stored_by_nobody = 1, "1 writes are stored that no client has sent."),
            (|failover| failover.ledger.replicas_that_differ = 1, "1 replicas have other writes"),
            (
                |failover| failover.ledger.unknown = 5,
                "Of 5 writes no client knows whether they are stored, and only 4",
            ),
            (|failover| failover.ledger.off_balance = String::from("-7"), "off by -7."),
            (|failover| failover.wrong_answers = 1, "1 answers were wrong"),
            (|failover| failover.last_before = None, "No write was acknowledged before"),
            (|failover| failover.back = None, "No write was acknowledged after"),
            (|failover| failover.failure = Some(String::from("nothing works")), "gave up: nothing works."),
            (|failover| failover.errors[0].code = 1290, "Clients got error 1290 4 times"),
        ];
        for (breaks, says) in broken {
            let mut failover = good();
            breaks(&mut failover);
            let faults = failover.faults();
            assert!(faults.len() == 1 && faults[0].contains(says), "{says}: {faults:?}");
            assert!(failover.headline().ends_with("AND NOT ALL IS RIGHT"), "{}", failover.headline());
        }
    }

    #[test]
    fn the_course_the_waits_and_the_ledger_are_said() {
        let said = good().sentences().join("\n");
        for part in [
            "killed after 10.0 s; the replica that had most took writes 3.25 s later; the first write was acknowledged 0.25 s after \
             that. No write was acknowledged for 3.51 s in all.",
            "990 statements waited for the new primary, the longest for 3.50 s",
            "Error 2013: 4 times, such as: Lost connection",
            "20,000 writes acknowledged, 0 of them not stored; 6 refused, 0 of them stored; 4 unknown, 1 of them stored",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
}
