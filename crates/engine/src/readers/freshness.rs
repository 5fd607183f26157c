//! How old a replica's data can be at most: what the primary had at some moment, and the replica has too.
//!
//! No client's writes are followed by their GTIDs. The primary is asked how far it is; what any client was told to be written before that
//! question is in the answer, whatever the server reports of single statements. As soon as the replica says that it has all of an answer,
//! it has whatever was written before the question. Pure functions.

use std::collections::VecDeque;
use std::rc::Rc;

use seam::Instant;

use crate::cluster::position::has_all_of_primary;

/// Answers of the primary that wait for a replica to have them. An answer that has newer ones ahead of it is passed over. With a question a
/// millisecond they are those of the last hundredth of a second. The oldest of all is kept besides.
const KEPT: usize = 10;

/// A position that the primary had.
#[derive(Debug)]
struct Had {
    asked: Instant,
    /// The time at which the primary's answer came, the first of several with this position.
    heard: Instant,
    position: Rc<str>,
}

/// The part of the primary's data that a replica is known to have.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    /// Positions of the primary that the replica is not known to have reached yet.
    awaited: VecDeque<Had>,
    as_of: Option<Instant>,
}

impl Freshness {
    /// The primary had this position when it was asked; the answer has been heard at the second time.
    pub(crate) fn primary_had(&mut self, asked: Instant, heard: Instant, position: &Rc<str>) {
        if let Some(last) = self.awaited.back_mut().filter(|last| last.position == *position) {
            // Whoever has the one has the other.
            last.asked = asked;
            return;
        }
        if self.awaited.len() == KEPT {
            // A replica that is far behind reaches the oldest first.
            self.awaited.remove(1);
        }
        self.awaited.push_back(Had { asked, heard, position: Rc::clone(position) });
    }

    /// The replica has this. It says nothing of what the primary was heard to have after `until`. True where more is known of it than before.
    pub(crate) fn replica_has(&mut self, position: &str, until: Instant) -> bool {
        let has = |had: &Had| had.heard <= until && has_all_of_primary(&had.position, position);
        let Some(latest) = self.awaited.iter().rposition(has) else { return false };
        let reached = self.awaited.drain(..=latest).next_back().map(|had| had.asked);
        self.as_of = self.as_of.max(reached);
        true
    }

    /// Says whether the primary has had something that the replica is not known to have.
    pub(crate) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The time before which all writes are on the replica; `None` where nothing is known.
    pub(crate) fn as_of(&self) -> Option<Instant> {
        self.as_of
    }

    /// Says whether the replica has all that was written up to then. A write at the very moment of a question may not have been in the answer.
    pub(crate) fn has_all_until(&self, written: Instant) -> bool {
        self.as_of.is_some_and(|as_of| as_of > written)
    }

    /// Forgets what the replica has.
    pub(crate) fn forget_replica(&mut self) {
        self.as_of = None;
    }

    /// Forgets everything: another server is the primary.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000 * millis)
    }

    fn had(freshness: &mut Freshness, millis: u64, position: &str) {
        freshness.primary_had(at(millis), at(millis), &Rc::from(position));
    }

    /// Notes that the replica has this position, and has just been asked.
    fn has(freshness: &mut Freshness, position: &str) -> bool {
        freshness.replica_has(position, at(10_000))
    }

    #[test]
    fn a_replica_is_as_fresh_as_the_latest_answer_that_it_has_all_of() {
        let mut freshness = Freshness::default();
        assert!(!freshness.has_all_until(Instant::START) && !has(&mut freshness, "0-1-9"));
        had(&mut freshness, 1, "0-1-5");
        had(&mut freshness, 2, "0-1-7");
        had(&mut freshness, 3, "0-1-9");
        assert!(!has(&mut freshness, "0-1-4"));
        assert!(has(&mut freshness, "0-1-8"));
        assert_eq!(freshness.as_of(), Some(at(2)));
        assert!(freshness.has_all_until(at(1)) && !freshness.has_all_until(at(2)));
        assert!(has(&mut freshness, "0-1-12") && !has(&mut freshness, "0-1-12"), "nothing new is asked");
        assert_eq!(freshness.as_of(), Some(at(3)));
    }

    #[test]
    fn while_nothing_is_written_each_question_makes_it_fresher() {
        let mut freshness = Freshness::default();
        for millis in 1..100 {
            had(&mut freshness, millis, "0-1-5");
        }
        assert!(has(&mut freshness, "0-1-5"));
        assert_eq!(freshness.as_of(), Some(at(99)));
    }

    #[test]
    fn one_that_is_far_behind_reaches_the_oldest_answer_of_many() {
        let mut freshness = Freshness::default();
        for millis in 1..1_000 {
            had(&mut freshness, millis, &format!("0-1-{millis}"));
        }
        assert!(has(&mut freshness, "0-1-3"));
        assert_eq!(freshness.as_of(), Some(at(1)));
        assert!(has(&mut freshness, "0-1-995"));
        assert_eq!(freshness.as_of(), Some(at(995)));
    }

    #[test]
    fn more_of_the_former_primary_is_nothing_of_the_present_one() {
        let mut freshness = Freshness::default();
        had(&mut freshness, 1, "0-2-14");
        assert!(!has(&mut freshness, "0-1-17"), "the present one was promoted with less");
        assert!(has(&mut freshness, "0-2-14"));
    }

    #[test]
    fn what_cannot_be_compared_is_never_reached() {
        let mut freshness = Freshness::default();
        had(&mut freshness, 1, "");
        assert!(!has(&mut freshness, "") && !has(&mut freshness, "0-1-5"));
        had(&mut freshness, 2, "0-1-5");
        assert!(!has(&mut freshness, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"));
        assert!(has(&mut freshness, "0-1-5"));
        freshness.forget_replica();
        assert_eq!(freshness.as_of(), None, "it may have less when it comes up again");
        had(&mut freshness, 3, "0-1-6");
        assert!(has(&mut freshness, "0-1-6"));
        freshness.forget();
        assert_eq!(freshness.as_of(), None, "it says nothing of another primary");
    }

    #[test]
    fn what_was_heard_behind_a_nodes_question_is_not_in_its_answer() {
        let mut freshness = Freshness::default();
        freshness.primary_had(at(1), at(2), &Rc::from("c-1:1-5"));
        freshness.primary_had(at(3), at(5), &Rc::from("c-1:1-6"));
        assert!(!freshness.replica_has("c-1:1-6", at(1)), "it was asked before anything was known");
        assert!(freshness.replica_has("c-1:1-6", at(4)), "it counts what is not to be seen there yet");
        assert_eq!(freshness.as_of(), Some(at(1)));
        freshness.primary_had(at(6), at(7), &Rc::from("c-1:1-6"));
        assert!(freshness.replica_has("c-1:1-6", at(5)), "it had that when the first of both answers came");
        assert_eq!(freshness.as_of(), Some(at(6)));
    }
}
