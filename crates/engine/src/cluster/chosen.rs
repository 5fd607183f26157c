//! The address of the primary, as all workers know it, and the cost of the last change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seam::Instant;

use super::process_proof::ProcessProof;

/// A refusal may turn out to say nothing of the server. Others then count as such for this time. Anybody who may call a routine, or has a
/// trigger, can make the server refuse (SIGNAL), and each doubt costs a check.
const DISBELIEF: Duration = Duration::from_secs(10);

/// The first worker's choice, which the others follow. A few atomic numbers, as all that workers share.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Number of changes in the upper half, and in the lower half the primary's place, from 1; 0 for none.
    word: AtomicU64,
    /// True where the former primary is up, so that statements there may come to their end.
    may_end: AtomicBool,
    /// The place where open transactions may go on, from 1; 0 for none.
    transactions_go_on: AtomicU64,
    /// The reason for which there is no primary, for people.
    why: Mutex<Arc<str>>,
    /// The state of each server and its reason, for clients, while there is no primary.
    servers: Mutex<Arc<str>>,
    /// Number of the latest choice that is doubted, above the lowest bit. That bit is set once a check has found that the choice holds.
    doubt: AtomicU64,
    /// Time at which a doubt was last settled, in microseconds.
    settled: AtomicU64,
    /// Proofs for backends that are opened at the primary.
    pub(crate) proof: ProcessProof,
    pub(crate) tally: FailoverTally,
}

/// A choice, and its number, which tells two choices of the same place apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) number: u32,
    pub(crate) place: Option<usize>,
}

/// The counts of clients' fates since the start, and the longest wait since there was last no primary.
#[derive(Debug, Default)]
pub(crate) struct FailoverTally {
    held: AtomicU64,
    longest: AtomicU64,
    rolled_back: AtomicU64,
    unknown: AtomicU64,
}

/// The counts of a [`FailoverTally`] as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailoverCounts {
    /// Number of statements that waited and went to the new primary.
    pub(super) held: u64,
    /// The longest wait of these.
    pub(super) longest: Duration,
    /// Number of open transactions that were rolled back, as their clients were told.
    pub(super) rolled_back: u64,
    /// Number of statements of which nobody knows whether they ran.
    pub(super) unknown: u64,
}

impl Choice {
    /// Returns the choice as a word of [`Chosen::doubt`].
    fn in_doubt(self) -> u64 {
        u64::from(self.number) << 1
    }
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(0),
            may_end: AtomicBool::new(false),
            transactions_go_on: AtomicU64::new(0),
            why: Mutex::new(Arc::from("not all servers have been asked yet")),
            servers: Mutex::default(),
            doubt: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            proof: ProcessProof::default(),
            tally: FailoverTally::default(),
        }
    }
}

impl Chosen {
    pub(crate) fn get(&self) -> Choice {
        let word = self.word.load(SeqCst);
        let place = usize::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        Choice { number: u32::try_from(word >> 32).unwrap_or(0), place: place.checked_sub(1) }
    }

    /// Sets the primary's place from now on; `None` for nowhere. `may_end` says whether statements on the former one may come to their end.
    pub(crate) fn set(&self, place: Option<usize>, may_end: bool) {
        self.end_transactions();
        self.change(place, may_end);
    }

    /// Makes nobody the primary, by plan or for a moment. Transactions on the former one, which is up, go on until [`Self::end_transactions`].
    pub(super) fn give_way(&self, former: usize) {
        self.transactions_go_on.store(former as u64 + 1, SeqCst);
        self.change(None, true);
    }

    /// Notes that statements on the former primary do not come to their end, since it is down by now.
    pub(super) fn former_is_lost(&self) {
        self.may_end.store(false, SeqCst);
    }

    /// Ends the time in which transactions go on.
    pub(super) fn end_transactions(&self) {
        self.transactions_go_on.store(0, SeqCst);
    }

    /// Returns the place where clients that hold a backend go on: that of the former primary, and not of one before it.
    pub(crate) fn transactions_go_on(&self) -> Option<usize> {
        usize::try_from(self.transactions_go_on.load(SeqCst)).unwrap_or(0).checked_sub(1)
    }

    /// Returns all that workers follow beside the choice itself.
    pub(super) fn what_goes_on(&self) -> (bool, bool, Option<usize>) {
        (self.is_settled(self.get()), self.may_end(), self.transactions_go_on())
    }

    fn change(&self, place: Option<usize>, may_end: bool) {
        self.may_end.store(may_end, SeqCst);
        let place = place.map_or(0, |place| place as u64 + 1);
        let number = (self.word.load(SeqCst) >> 32) + 1;
        self.word.store(number << 32 | place, SeqCst);
    }

    /// Raises a doubt about a choice, since a worker has been refused a statement there: the server is to be asked whether it is still the
    /// primary. False where that is so already, or another choice has been made meanwhile.
    pub(crate) fn doubt(&self, choice: Choice) -> bool {
        let raise = |doubt: u64| (doubt != choice.in_doubt()).then(|| choice.in_doubt());
        choice == self.get() && self.doubt.fetch_update(SeqCst, SeqCst, raise).is_ok()
    }

    pub(crate) fn is_in_doubt(&self, choice: Choice) -> bool {
        choice.place.is_some() && self.doubt.load(SeqCst) == choice.in_doubt()
    }

    /// Notes that a check that began later has found that the choice holds.
    pub(crate) fn settle(&self, now: Instant, choice: Choice) {
        self.settled.store(now.as_micros(), SeqCst);
        // It is this one that is doubted, or there is nothing to settle.
        let _ = self.doubt.compare_exchange(choice.in_doubt(), choice.in_doubt() | 1, SeqCst, SeqCst);
    }

    /// Says whether the choice was doubted and holds.
    pub(crate) fn is_settled(&self, choice: Choice) -> bool {
        self.doubt.load(SeqCst) == choice.in_doubt() | 1
    }

    /// Says whether refusals are believed: none has lately turned out to say nothing of the server.
    pub(crate) fn believes_refusals(&self, now: Instant, choice: Choice) -> bool {
        let since = Instant::from_micros(self.settled.load(SeqCst));
        !self.is_settled(choice) || now.since(since) >= DISBELIEF
    }

    pub(crate) fn may_end(&self) -> bool {
        self.may_end.load(SeqCst)
    }

    pub(crate) fn say(&self, why: Arc<str>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Sets the states of the servers. Apart from [`Self::say`], since each new text there is a line of the log.
    pub(super) fn say_servers(&self, servers: Arc<str>) {
        *self.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Returns the reason for which there is no primary, and the state of each server, in few words.
    pub(crate) fn why_for_clients(&self) -> String {
        let servers = Arc::clone(&self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        let why = self.why();
        if servers.is_empty() { String::from(&*why) } else { format!("{why}: {servers}") }
    }

    /// Returns the reason for which there is no primary.
    pub(crate) fn why(&self) -> Arc<str> {
        Arc::clone(&self.why.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FailoverCounts {
    /// Returns the counts since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            held: self.held.saturating_sub(before.held),
            longest: self.longest,
            rolled_back: self.rolled_back.saturating_sub(before.rolled_back),
            unknown: self.unknown.saturating_sub(before.unknown),
        }
    }
}

impl FailoverTally {
    /// Notes that there is no primary any more.
    pub(crate) fn begin(&self) {
        self.longest.store(0, SeqCst);
    }

    /// Counts statements of a worker that go on. The oldest of them has waited for `longest`.
    pub(crate) fn held(&self, statements: u64, longest: Duration) {
        self.held.fetch_add(statements, SeqCst);
        let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(longest, SeqCst);
    }

    pub(crate) fn rolled_back(&self) {
        self.rolled_back.fetch_add(1, SeqCst);
    }

    pub(crate) fn unknown(&self) {
        self.unknown.fetch_add(1, SeqCst);
    }

    pub(crate) fn counts(&self) -> FailoverCounts {
        FailoverCounts {
            held: self.held.load(SeqCst),
            longest: Duration::from_micros(self.longest.load(SeqCst)),
            rolled_back: self.rolled_back.load(SeqCst),
            unknown: self.unknown.load(SeqCst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_about_one_choice_and_is_settled_once() {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let chosen = Chosen::default();
        assert!(!chosen.doubt(chosen.get()), "there is none");
        assert!(!chosen.is_in_doubt(chosen.get()));
        chosen.set(Some(0), true);
        let first = chosen.get();
        assert!(chosen.believes_refusals(at(1), first) && !chosen.is_in_doubt(first));
        assert!(chosen.doubt(first));
        assert!(!chosen.doubt(first), "it is doubted already");
        assert!(chosen.is_in_doubt(first) && chosen.get() == first, "and holds until a check says otherwise");
        chosen.settle(at(20), first);
        assert!(chosen.is_settled(first) && !chosen.is_in_doubt(first));
        assert!(!chosen.believes_refusals(at(29), first) && chosen.believes_refusals(at(30), first));
        chosen.set(Some(1), true);
        let second = chosen.get();
        assert!(!chosen.doubt(first), "that was before");
        assert!(
            !chosen.is_in_doubt(second)
                && !chosen.is_settled(second)
                && chosen.believes_refusals(at(21), second)
        );
        assert!(chosen.doubt(second));
        chosen.settle(at(22), first);
        assert!(chosen.is_in_doubt(second), "that was about another one");
    }

    #[test]
    fn each_change_has_a_number_of_its_own() {
        let chosen = Chosen::default();
        chosen.set(Some(3), false);
        let first = chosen.get();
        chosen.set(None, false);
        chosen.set(Some(3), false);
        assert_eq!(chosen.get().place, first.place);
        assert_ne!(chosen.get(), first);
    }
}
