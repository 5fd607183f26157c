//! Decides which reads may be sent again, and how many.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;
use crate::server::stored_code::questions::{own_row, shows_routines};

/// One read may be sent again for this many that shared a backend and were answered. So a server that is slow as a whole gets a
/// thirty-second more to do by it.
const ANSWERS_FOR_ONE: u32 = 32;

/// Most reads that may be sent again at once: as many as four shared backends hold at sixteen statements each.
const AT_ONCE: u32 = 64;

/// Asks how many of these there are: functions that a view could call and that may write. The servers' own, of the schema `sys`, do not. For
/// MariaDB, and for MySQL up to 5.7: needs SELECT on `mysql.proc` and `mysql.func`.
pub(crate) const FUNCTIONS_QUERY: &str = "SELECT EXISTS (SELECT 1 FROM mysql.proc WHERE type <> 'PROCEDURE' \
    AND definer NOT IN ('mariadb.sys@localhost', 'mysql.sys@localhost')) + EXISTS (SELECT 1 FROM mysql.func)";

/// Asks MySQL since 8.0 for the same. It shows all functions only to accounts with SELECT or SHOW_ROUTINE for everything (manual, "The
/// INFORMATION_SCHEMA ROUTINES Table"). An account that has neither by itself gets a number greater by one.
pub(crate) const FUNCTIONS_QUERY_8: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_TYPE <> 'PROCEDURE' \
     AND DEFINER <> 'mysql.sys@localhost') + EXISTS (SELECT 1 FROM mysql.func) + \
     (NOT (EXISTS (SELECT 1 FROM mysql.user WHERE Select_priv = 'Y' AND ",
    own_row!(),
    ") OR ",
    shows_routines!(),
    "))"
);

/// Returns the number in the row of either question; `None` where there is none.
pub(crate) fn functions_of_rows(rows: &[Vec<Option<Vec<u8>>>]) -> Option<u64> {
    std::str::from_utf8(rows.first()?.first()?.as_deref()?).ok()?.parse().ok()
}

/// The allowance of reads that may be sent again, and the server's answer about functions.
#[derive(Debug)]
pub(crate) struct Rescues {
    /// Number of answers saved up, see [`ANSWERS_FOR_ONE`].
    saved: u32,
    /// True while a read is stuck and nobody has asked since then whether reads may call a function that writes.
    asks: bool,
    /// Time of the last question, and whether the answer was that there is no function.
    known: Option<(Instant, bool)>,
}

/// [`Rescues`] as plain data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrozenRescues {
    saved: u32,
    asks: bool,
    known: Option<(Distance, bool)>,
}

plain!(struct FrozenRescues { saved, asks, known });

impl Rescues {
    pub(crate) fn freeze(self, now: Instant) -> FrozenRescues {
        let Self { saved, asks, known } = self;
        FrozenRescues { saved, asks, known: known.map(|(at, none)| (Distance::of(at, now), none)) }
    }

    pub(crate) fn thawed(frozen: FrozenRescues, now: Instant) -> Self {
        let FrozenRescues { saved, asks, known } = frozen;
        Self { saved, asks, known: known.map(|(at, none)| (at.from(now), none)) }
    }
}

impl Default for Rescues {
    fn default() -> Self {
        Self { saved: AT_ONCE * ANSWERS_FOR_ONE, asks: false, known: None }
    }
}

impl Rescues {
    /// Notes that a read that shared a backend has been answered.
    pub(crate) fn answered(&mut self) {
        self.saved = (self.saved + 1).min(AT_ONCE * ANSWERS_FOR_ONE);
    }

    /// Says whether the server is to be asked for functions.
    pub(crate) fn asks_for_functions(&self) -> bool {
        self.asks
    }

    /// Has the server asked for functions.
    pub(crate) fn want_to_know(&mut self) {
        self.asks = true;
    }

    /// Takes the answer to a question asked at this time: the number of functions; `None` where the server did not say.
    pub(crate) fn found_functions(&mut self, asked: Instant, count: Option<u64>) {
        self.asks = false;
        self.known = Some((asked, count == Some(0)));
    }

    /// Says whether reads are known to call nothing that writes, as of this time or later. Has the server asked where that is not known.
    pub(super) fn are_harmless(&mut self, since: Instant) -> bool {
        let known = self.known.filter(|&(asked, _)| asked >= since);
        self.asks |= known.is_none();
        known.is_some_and(|(_, harmless)| harmless)
    }

    /// Says whether the server has no functions, as far as it was asked within ten times `refresh`. It is asked again after each `refresh`.
    pub(crate) fn has_no_functions(&mut self, now: Instant, refresh: Duration) -> bool {
        let Some((asked, harmless)) = self.known else {
            self.asks = true;
            return false;
        };
        self.asks |= now.since(asked) >= refresh;
        harmless && now.since(asked) <= 10 * refresh
    }

    pub(super) fn may_have_one(&self) -> bool {
        self.saved >= ANSWERS_FOR_ONE
    }

    pub(super) fn take_one(&mut self) -> bool {
        let may = self.may_have_one();
        self.saved -= if may { ANSWERS_FOR_ONE } else { 0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_sent_again_where_there_is_no_function_now() {
        let at = Instant::from_micros;
        let mut rescues = Rescues::default();
        assert!(!rescues.are_harmless(at(5)) && rescues.asks_for_functions());
        rescues.found_functions(at(5), Some(0));
        assert!(rescues.are_harmless(at(5)) && !rescues.asks_for_functions());
        assert!(!rescues.are_harmless(at(6)) && rescues.asks_for_functions(), "that was before");
        for answer in [Some(1), None] {
            rescues.found_functions(at(7), answer);
            assert!(!rescues.are_harmless(at(6)) && !rescues.asks_for_functions(), "{answer:?}");
        }
    }

    #[test]
    fn the_number_of_functions_is_read() {
        let row = |text: &str| vec![vec![Some(text.as_bytes().to_vec())]];
        assert_eq!(functions_of_rows(&row("12")), Some(12));
        for rows in [row("many"), vec![vec![None]], vec![vec![]], vec![]] {
            assert_eq!(functions_of_rows(&rows), None);
        }
    }

    #[test]
    fn few_reads_are_sent_again() {
        let mut rescues = Rescues::default();
        for _ in 0..AT_ONCE {
            assert!(rescues.take_one());
        }
        assert!(!rescues.take_one());
        for _ in 1..ANSWERS_FOR_ONE {
            rescues.answered();
            assert!(!rescues.may_have_one());
        }
        rescues.answered();
        assert!(rescues.take_one() && !rescues.take_one());
    }
}
