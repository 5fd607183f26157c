//! Numbers by digest: how often statements of one kind ran, for how long, how long they waited, and how long such a
//! statement has to be expected to run now.
//!
//! MySQL's `performance_schema.events_statements_summary_by_digest` counts by schema and digest. Here the counts go by digest
//! alone, a worker at a time. As there, statements that do not fit into `digests_size` are counted under one digest without a
//! name.

pub(crate) mod frozen;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod text;

use std::time::Duration;

use seam::Instant;

use crate::outside::histogram::{SmallHistogram, micros};
use crate::scheduling::learned::history::STUCK;
use crate::scheduling::learned::stuck::Stuck;
use crate::scheduling::learned::waiting::Waiting;

/// Bytes of a digest's text that are kept at most, as by the servers' `performance_schema_max_digest_length`.
pub(crate) const LONGEST_TEXT: usize = 1024;

/// The least number of executions for a p99. With fewer a p99 says too little: a time that was exceeded once in 20 is the p90 as well.
const FEWEST: u32 = 20;

/// A kind of statement, and the numbers that have been counted of it since the worker's start.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The hash of the normalised text; `None` for all that found no place.
    pub fingerprint: Option<u64>,
    /// The normalised text, without literals, at most 1,024 bytes. `None` where there is none to show: of a statement that
    /// came in several packets, or that the lexer was not sure of.
    pub text: Option<Box<str>>,
    /// Executions that have ended.
    pub count: u64,
    /// Executions among them that ended with an error.
    pub errors: u64,
    /// Further ones that were answered by the execution of another one. The server had no work with them, and nothing else
    /// here counts them.
    pub coalesced: u64,
    /// Rows of result sets.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// Times from the start on the server to the end of the reply.
    pub execution: Times,
    /// Times from the arrival to the start on the server.
    pub wait: Times,
    /// The time at which the first execution began.
    pub first_seen: Instant,
    /// The time at which the latest execution ended.
    pub last_seen: Instant,
    histogram: SmallHistogram,
    stuck: Stuck,
    recent: Recent,
    waiting: Waiting,
    /// The time that it takes in the long lane with few at a time, in microseconds; 0 where that is not known.
    usual_long: u32,
    /// The time that it takes from its arrival on with few long ones at a time, in microseconds; 0 where that is not known.
    usual_response: f32,
}

/// The cost of a digest so far, for callers that look at all of them again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestCost {
    /// The digest's fingerprint; 0 for all together that found no place.
    pub fingerprint: u64,
    /// Executions that have ended.
    pub count: u64,
    /// Executions among them that ended with an error.
    pub errors: u64,
    /// Microseconds on the server, all together.
    pub time: u64,
    /// Microseconds of waiting before that, all together.
    pub wait: u64,
}

/// The sum of times and their extremes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    sum: u64,
    min: u64,
    max: u64,
}

/// An execution that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedExecution {
    pub(crate) fingerprint: u64,
    /// Time since the statement's start on the server.
    pub(crate) time: Duration,
    /// Time that the statement waited until its start.
    pub(crate) waited: Duration,
    pub(crate) rows_sent: u64,
    pub(crate) rows_affected: u64,
    pub(crate) error: bool,
    /// The way to the server and back is so much of its time, where the server is far away.
    pub(crate) round_trip: Duration,
    /// True where most permits were free at the statement's end.
    pub(crate) few: bool,
}

/// The digests of a worker.
#[derive(Debug)]
pub struct Digests {
    limit: usize,
    digests: Vec<Digest>,
    /// Open addressing, at most half full: one more than a digest's place, 0 where there is none. Nothing is ever taken
    /// out by itself.
    index: Vec<u32>,
    /// Statements that found no place, all together.
    others: Digest,
}

impl Digests {
    /// Room for `limit` of them, taken as they come.
    pub(crate) fn new(limit: u32) -> Self {
        let others = Digest::new(None, None, Instant::START);
        Self { limit: limit as usize, digests: Vec::new(), index: vec![0; 64], others }
    }

    /// All digests, in the order in which they were first seen; last the one without a name, where anything was counted
    /// under it.
    pub fn iter(&self) -> impl Iterator<Item = &Digest> {
        self.digests.iter().chain(Some(&self.others).filter(|others| others.count > 0))
    }

    /// The number of digests that have a place of their own.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// Says whether no statement has been seen yet.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// The text of a digest, where it has a place and the text is known.
    pub fn text(&self, fingerprint: u64) -> Option<&str> {
        self.digests[self.find(fingerprint).ok()?].text.as_deref()
    }

    /// The time that all but one in a hundred of the latest executions did not exceed: of the last 64 to 128, all but one.
    /// `None` for a digest that has no place, or fewer than 20 executions behind it.
    pub fn p99(&self, fingerprint: u64) -> Option<Duration> {
        let digest = &self.digests[self.find(fingerprint).ok()?];
        (digest.recent.executions() >= FEWEST).then(|| Duration::from_micros(digest.recent.p99().into()))
    }

    /// Says whether such a statement has to be expected to run for `limit` or longer, by its p99. Two executions that did are
    /// enough to know, whatever comes after them: they make up more than one in a hundred until they are forgotten.
    pub fn is_long(&self, fingerprint: u64, limit: Duration) -> bool {
        self.find(fingerprint)
            .is_ok_and(|place| u64::from(self.digests[place].recent.p99()) >= micros(limit).max(1))
    }

    /// Says whether such a statement was stuck a while ago, and may be again.
    pub(crate) fn may_be_stuck(&self, now: Instant, fingerprint: u64) -> bool {
        self.find(fingerprint).is_ok_and(|place| self.digests[place].stuck.may_be(now))
    }

    /// Such a statement is stuck now, and has not ended.
    pub(crate) fn note_stuck(&mut self, now: Instant, fingerprint: u64) {
        if let Ok(place) = self.find(fingerprint) {
            self.digests[place].stuck.found(now);
        }
    }

    /// Says whether this is the first statement of its kind and there is room for its digest.
    pub(crate) fn is_news(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_err() && self.digests.len() < self.limit
    }

    /// Returns the usual time of such a statement where `few` long ones run at a time, before this execution is taken in, which
    /// took `time`. `None` where nothing was known of that.
    pub(crate) fn usual_long_time(
        &mut self,
        fingerprint: u64,
        time: Duration,
        few: bool,
    ) -> Option<Duration> {
        let place = self.find(fingerprint).ok()?;
        let usual = &mut self.digests[place].usual_long;
        let before = *usual;
        let time = u32::try_from(micros(time)).unwrap_or(u32::MAX);
        if before == 0 && few {
            *usual = time;
        } else if few {
            // A sixteenth each: within a tenth of the mean where times differ by half either way.
            *usual = before - before / 16 + time / 16;
        }
        (before > 0).then(|| Duration::from_micros(before.into()))
    }

    /// Says whether the time of such a statement is known where few long ones run at a time.
    pub(crate) fn knows_long_time(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_ok_and(|place| self.digests[place].usual_long > 0)
    }

    /// Says whether such statements take no longer than with few long ones at a time, as those do that wait for a disk or sleep.
    pub(crate) fn keeps_long_time(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_ok_and(|place| {
            let digest = &self.digests[place];
            let (time, with_few) = (micros(digest.usual_and_least().0), u64::from(digest.usual_long));
            // As from a quarter longer on they slow each other down, see `long_permits/measurement.rs`.
            time * 4 < with_few * 5
        })
    }

    /// Returns the usual time of such a statement from its arrival on where `few` long ones run at a time; `time` where nothing
    /// was known. Both are in microseconds.
    pub(crate) fn usual_response(&mut self, fingerprint: u64, time: u64, few: bool) -> u64 {
        let Ok(place) = self.find(fingerprint) else { return time };
        let usual = &mut self.digests[place].usual_response;
        if *usual == 0.0 {
            *usual = time as f32;
        } else if few {
            // Over some hundred of them, so that single ones do not show.
            *usual += (time as f32 - *usual) / 256.0;
        }
        *usual as u64
    }

    /// The part of its permit that such a statement leaves to others, in parts of [`crate::scheduling::learned::waiting::WHOLE`].
    pub(crate) fn spares(&self, fingerprint: u64) -> u32 {
        self.find(fingerprint).map_or(0, |place| self.digests[place].waiting.spares())
    }

    /// Makes a place for a digest, if [`Self::is_news`].
    pub(crate) fn add(&mut self, now: Instant, fingerprint: u64, text: Option<String>) {
        if self.is_news(fingerprint) {
            self.put(Digest::new(Some(fingerprint), text.map(Into::into), now));
        }
    }

    /// Gives a digest the next place, where it has none yet.
    fn put(&mut self, digest: Digest) {
        let Some(Err(free)) = digest.fingerprint.map(|fingerprint| self.find(fingerprint)) else { return };
        self.digests.push(digest);
        self.index[free] = u32::try_from(self.digests.len()).expect("digests_size is a u32");
        if self.digests.len() * 2 > self.index.len() {
            self.grow();
        }
    }

    /// Counts an execution that has ended, under its digest or among the others: which it yields.
    pub(crate) fn record(&mut self, now: Instant, execution: &EndedExecution) -> &Digest {
        let digest = match self.find(execution.fingerprint) {
            Ok(place) => &mut self.digests[place],
            Err(_) => &mut self.others,
        };
        digest.record(now, execution);
        digest
    }

    /// Counts statements that one execution has answered beside its own.
    pub(crate) fn record_coalesced(&mut self, fingerprint: u64, count: u64) {
        let digest = match self.find(fingerprint) {
            Ok(place) => &mut self.digests[place],
            Err(_) => &mut self.others,
        };
        digest.coalesced += count;
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::new(u32::try_from(self.limit).expect("made from a u32"));
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.digests.iter().filter_map(|digest| digest.text.as_ref());
        self.digests.capacity() * size_of::<Digest>()
            + self.index.capacity() * size_of::<u32>()
            + texts.map(|text| text.len()).sum::<usize>()
    }

    /// The place of a digest, or the slot of the index that is free for it.
    fn find(&self, fingerprint: u64) -> Result<usize, usize> {
        let mask = self.index.len() - 1;
        // A fingerprint is a hash whose bits are all equally good.
        let mut slot = fingerprint as usize & mask;
        loop {
            match self.index[slot] as usize {
                0 => return Err(slot),
                place if self.digests[place - 1].fingerprint == Some(fingerprint) => return Ok(place - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        self.index = vec![0; self.index.len() * 2];
        for place in 0..self.digests.len() {
            let fingerprint = self.digests[place].fingerprint.expect("only the others have none");
            // Places that are not in the index yet are not found, and all are different.
            if let Err(free) = self.find(fingerprint) {
                self.index[free] = u32::try_from(place + 1).expect("digests_size is a u32");
            }
        }
    }
}

impl Digest {
    fn new(fingerprint: Option<u64>, text: Option<Box<str>>, now: Instant) -> Self {
        Self {
            fingerprint,
            text,
            count: 0,
            errors: 0,
            coalesced: 0,
            rows_sent: 0,
            rows_affected: 0,
            execution: Times::default(),
            wait: Times::default(),
            first_seen: now,
            last_seen: now,
            stuck: Stuck::default(),
            histogram: SmallHistogram::default(),
            recent: Recent::default(),
            waiting: Waiting::default(),
            usual_long: 0,
            usual_response: 0.0,
        }
    }

    /// The execution time that this share of all, from 0 to 1, does not exceed, give or take an eighth. Of a digest with very
    /// many executions the older ones count less.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(self.histogram.quantile(share)).min(self.execution.max())
    }

    /// Returns the average time of an execution.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.execution.sum / self.count.max(1))
    }

    /// The digest's cost so far.
    pub(crate) fn cost(&self) -> DigestCost {
        DigestCost {
            fingerprint: self.fingerprint.unwrap_or(0),
            count: self.count,
            errors: self.errors,
            time: self.execution.sum,
            wait: self.wait.sum,
        }
    }

    /// The p99 of the digest's executions, as of [`Digests::p99`].
    pub fn p99(&self) -> Option<Duration> {
        (self.recent.executions() >= FEWEST).then(|| Duration::from_micros(self.recent.p99().into()))
    }

    /// The time that the latest executions have taken on average, without the way, and the least that this has been: by these it is judged
    /// whether the kind mostly waits. Zero where there was none.
    pub fn usual_and_least(&self) -> (Duration, Duration) {
        self.waiting.usual_and_least()
    }

    fn record(&mut self, now: Instant, execution: &EndedExecution) {
        let (time, waited) = (micros(execution.time), micros(execution.waited));
        self.execution.record(time, self.count == 0);
        self.wait.record(waited, self.count == 0);
        self.count += 1;
        self.errors += u64::from(execution.error);
        self.rows_sent += execution.rows_sent;
        self.rows_affected += execution.rows_affected;
        self.last_seen = now;
        if execution.time >= STUCK {
            self.stuck.ended(now, execution.time);
        }
        self.histogram.record(time);
        self.recent.record(time);
        if !execution.error {
            self.waiting.record(now, time, execution.round_trip, execution.few);
        }
    }
}

impl std::ops::AddAssign<&Self> for Digest {
    /// The same digest of several workers. Which executions were the latest of all is not known: [`Digest::p99`] is that of
    /// the first.
    fn add_assign(&mut self, other: &Self) {
        self.execution.add(other.execution, self.count == 0, other.count == 0);
        self.wait.add(other.wait, self.count == 0, other.count == 0);
        self.count += other.count;
        self.errors += other.errors;
        self.coalesced += other.coalesced;
        self.rows_sent += other.rows_sent;
        self.rows_affected += other.rows_affected;
        self.histogram += &other.histogram;
        if self.text.is_none() {
            self.text.clone_from(&other.text);
        }
    }
}

impl Times {
    /// The sum of the times.
    pub fn sum(self) -> Duration {
        Duration::from_micros(self.sum)
    }

    /// The shortest; zero where there was none.
    pub fn min(self) -> Duration {
        Duration::from_micros(self.min)
    }

    /// The longest.
    pub fn max(self) -> Duration {
        Duration::from_micros(self.max)
    }

    fn add(&mut self, other: Self, first: bool, nothing: bool) {
        if nothing {
            return;
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.min = if first { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
    }

    fn record(&mut self, micros: u64, first: bool) {
        self.sum = self.sum.saturating_add(micros);
        self.min = if first { micros } else { self.min.min(micros) };
        self.max = self.max.max(micros);
    }
}

/// The longest two of the last executions, which is all that a p99 of them needs: of 64 to 128, one may be longer. A single
/// one that was unlucky thus changes nothing, and a kind that has become faster is known to be after 128 at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Recent {
    /// The longest two of the generation that is being filled.
    longest: [u32; 2],
    /// The longest two of the generation before.
    longest_before: [u32; 2],
    in_generation: u8,
    has_before: bool,
}

/// Executions of a generation. With two of them, "all but one" is 98.4 to 99.2 %.
const GENERATION: u8 = 64;

impl Recent {
    fn record(&mut self, micros: u64) {
        // 71 minutes are as long as any number above.
        insert(&mut self.longest, u32::try_from(micros).unwrap_or(u32::MAX));
        self.in_generation += 1;
        if self.in_generation == GENERATION {
            self.longest_before = self.longest;
            self.longest = [0; 2];
            self.in_generation = 0;
            self.has_before = true;
        }
    }

    /// Microseconds; 0 with less than two executions.
    fn p99(&self) -> u32 {
        let mut both = self.longest;
        for time in self.longest_before {
            insert(&mut both, time);
        }
        both[1]
    }

    fn executions(&self) -> u32 {
        u32::from(self.in_generation) + u32::from(self.has_before) * u32::from(GENERATION)
    }
}

fn insert(longest: &mut [u32; 2], time: u32) {
    if time > longest[0] {
        *longest = [time, longest[0]];
    } else if time > longest[1] {
        longest[1] = time;
    }
}
