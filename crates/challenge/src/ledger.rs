//! What clients were told of their writes, held against what the servers have in the end.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Lack, NoAnswer};
use crate::report::Ledger;

/// What clients were told of each marker: the journal of `onramp bench run --journal`.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    fates: HashMap<i64, Fate>,
    /// When markers were acknowledged, since 1970.
    acknowledged_at: Vec<Duration>,
}

/// What a client was told of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Refused,
    Unknown,
}

impl Journal {
    /// Reads the file that the load generator has left.
    ///
    /// # Errors
    /// It is not there, or something else.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Machine(Lack::File { path: path.into(), error });
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text).map_err(|line| {
            failed(std::io::Error::other(format!("{line:?} says of no marker what its client was told")))
        })
    }

    fn parse(text: &str) -> Result<Self, &str> {
        let mut journal = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(at), Some(fate), Some(marker)) = (words.next(), words.next(), words.next()) else {
                return Err(line);
            };
            let (Ok(at), Ok(marker)) = (at.parse(), marker.parse()) else { return Err(line) };
            let fate = match fate {
                "a" => Fate::Acknowledged,
                "r" => Fate::Refused,
                "u" => Fate::Unknown,
                _ => return Err(line),
            };
            if fate == Fate::Acknowledged {
                journal.acknowledged_at.push(Duration::from_micros(at));
            }
            // Told twice, and differently, would be the load generator's own mistake.
            if journal.fates.insert(marker, fate).is_some() {
                return Err(line);
            }
        }
        Ok(journal)
    }

    /// When the first marker was acknowledged from this moment on; since 1970, as that is.
    pub(crate) fn first_acknowledged_from(&self, moment: Duration) -> Option<Duration> {
        self.acknowledged_at.iter().copied().filter(|at| *at >= moment).min()
    }

    /// The same up to this moment, and the last.
    pub(crate) fn last_acknowledged_before(&self, moment: Duration) -> Option<Duration> {
        self.acknowledged_at.iter().copied().filter(|at| *at < moment).max()
    }

    /// Holds what is stored against it, marker by marker.
    pub(crate) fn compare(&self, stored: impl IntoIterator<Item = i64>) -> Ledger {
        let mut ledger = Ledger::default();
        let mut times: HashMap<i64, u64> = HashMap::with_capacity(self.fates.len());
        for marker in stored {
            ledger.stored += 1;
            let times = times.entry(marker).or_default();
            *times += 1;
            match (*times, self.fates.get(&marker)) {
                (2, _) => ledger.stored_twice += 1,
                (1, Some(Fate::Refused)) => ledger.refused_and_stored += 1,
                (1, None) => ledger.stored_by_nobody += 1,
                _ => {}
            }
        }
        for (marker, fate) in &self.fates {
            let is_stored = times.contains_key(marker);
            match fate {
                Fate::Acknowledged => {
                    ledger.acknowledged += 1;
                    ledger.lost += u64::from(!is_stored);
                }
                Fate::Refused => ledger.refused += 1,
                Fate::Unknown => {
                    ledger.unknown += 1;
                    ledger.unknown_and_stored += u64::from(is_stored);
                }
            }
        }
        ledger
    }
}

/// A number of an answer.
///
/// # Errors
/// It is none.
pub(crate) fn number<N: std::str::FromStr>(
    of: &str,
    wanted: &'static str,
    value: Option<&String>,
) -> Result<N, Error> {
    value.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Answer {
        of: of.to_owned(),
        wanted,
        reason: NoAnswer::Unexpected(value.map_or_else(|| String::from("NULL"), |text| format!("{text:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_held_against_what_is_stored() {
        let journal = Journal::parse("100 a 1\n200 a 2\n300 r 3\n400 r 4\n500 u 5\n600 u 6\n").unwrap();
        let whole = journal.compare([1, 2, 5]);
        assert_eq!(
            whole,
            Ledger {
                acknowledged: 2,
                refused: 2,
                unknown: 2,
                stored: 3,
                unknown_and_stored: 1,
                ..Ledger::default()
            }
        );
        let broken = journal.compare([1, 1, 1, 3, 9]);
        assert_eq!(
            (broken.lost, broken.refused_and_stored, broken.stored_twice, broken.stored_by_nobody),
            (1, 1, 1, 1)
        );
        let at = |micros| Some(Duration::from_micros(micros));
        assert_eq!(journal.first_acknowledged_from(Duration::from_micros(101)), at(200));
        assert_eq!(journal.first_acknowledged_from(Duration::from_micros(201)), None);
        assert_eq!(journal.last_acknowledged_before(Duration::from_micros(200)), at(100));
    }

    #[test]
    fn a_line_that_says_nothing_is_found() {
        for line in ["1 a", "x a 1", "1 q 1", "1 a x", "1 a 1\n2 u 1"] {
            assert!(Journal::parse(line).is_err(), "{line}");
        }
    }
}
