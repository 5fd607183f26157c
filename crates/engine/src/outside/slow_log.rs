//! Statements that took long. Each becomes a line of the slow log, for people who look for the reason.
//!
//! Some facts about a statement are known only while it starts: its text, the permits in use. Where the log is on,
//! these are kept with the statement. Where the log is off nothing is kept, and the end of a statement costs a
//! comparison of two times.

use std::collections::VecDeque;
use std::time::Duration;

use seam::{Instant, Peer};
use sql::TraceParent;

use crate::outside::named::Queue;
use crate::outside::waits::WaitReason;

pub(crate) mod noting;
pub(crate) mod settings;

/// Statements that may wait to be fetched. They are fetched behind each turn, so that only one with more of them drops any.
const MOST_WAITING: usize = 256;

/// A statement that was slow, or waited long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    /// The id that the client saw in its greeting.
    pub client: u32,
    /// Where it is.
    pub peer: Peer,
    /// The name that the client has logged in with. Bytes that are not UTF-8 are shown as U+FFFD, here as in all texts.
    pub user: String,
    /// The client's default schema.
    pub schema: Option<String>,
    /// Which command it is: `query`, `prepare`, `execute` or `other`.
    pub command: &'static str,
    /// The hash of its normalised text, where it has one.
    pub digest: Option<u64>,
    /// The normalised text, without literals; `None` where it is not known, see [`crate::Digest::text`].
    pub text: Option<String>,
    /// The text as it was sent, its first 4,096 bytes, where that is wanted and it can hold no password of an account.
    pub sent_text: Option<String>,
    /// The time that the statement waited for its start.
    pub waited: Duration,
    /// The queue in which the statement waited.
    pub queue: Queue,
    /// The reason for the longest part of the wait, and its length, as far as that is known.
    pub wait_reason: Option<(WaitReason, Duration)>,
    /// The time that the server had the statement, to the end of its answer; zero where it did not start.
    pub took: Duration,
    /// The way in which the statement ended.
    pub end: SlowEnd,
    /// Rows of result sets.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// The code of the error that was its answer.
    pub error: Option<u16>,
    /// Permits in use, this statement's included, and how many there were, at its start; `None` where the log was off then.
    pub permits: Option<(u32, u32)>,
    /// The backend's id on the server; `None` where it did not start.
    pub backend: Option<u32>,
    /// True where the statement shared its backend with other short reads.
    pub shared: bool,
    /// True where the execution of another statement answered this one. The times at the server are of that other one.
    pub coalesced: bool,
    /// The trace that it belongs to, where a comment in its text says so.
    pub trace: Option<TraceParent>,
    /// Other slow statements of this worker that have had no line since the last one, since there were too many of them.
    pub left_out: u64,
}

/// How a slow statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowEnd {
    /// The server answered the statement.
    Answered,
    /// The statement's client went before that.
    ClientGone,
    /// The statement's backend was lost.
    BackendLost,
    /// Onramp answered the statement with an error before it started.
    Cancelled,
}

impl SlowEnd {
    /// The name in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ClientGone => "client_gone",
            Self::BackendLost => "backend_lost",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The lines of a worker.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    waiting: VecDeque<SlowStatement>,
    left_out: u64,
    /// The second that is under way, and how many lines there were in it.
    second: u64,
    lines: u32,
}

impl SlowLog {
    /// Says whether one more line may be written now.
    fn may_write(&mut self, now: Instant, per_second: u32) -> bool {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        let may = self.lines < per_second && self.waiting.len() < MOST_WAITING;
        self.lines += u32::from(may);
        self.left_out += u64::from(!may);
        may
    }
}

/// Facts about a statement that are known only while it starts.
#[derive(Debug)]
pub(crate) struct AtStart {
    wait_reason: Option<(WaitReason, Duration)>,
    permits: Option<(u32, u32)>,
    trace: Option<TraceParent>,
    sent_text: Option<String>,
}

impl AtStart {
    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.sent_text.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::settings::SlowLogSettings;
    use super::*;

    #[test]
    fn either_time_is_enough_and_zero_is_none() {
        let of = |statement, wait| SlowLogSettings {
            statement_time: Duration::from_millis(statement),
            wait_time: Duration::from_millis(wait),
            ..SlowLogSettings::default()
        };
        let slow = |settings: SlowLogSettings, waited, took| {
            settings.is_slow(Duration::from_millis(waited), Duration::from_millis(took))
        };
        assert!(!of(0, 0).is_on() && !slow(of(0, 0), 1000, 1000));
        assert!(of(10, 0).is_on() && slow(of(10, 0), 0, 10) && !slow(of(10, 0), 1000, 9));
        assert!(of(0, 10).is_on() && slow(of(0, 10), 10, 0) && !slow(of(0, 10), 9, 1000));
    }

    #[test]
    fn a_second_has_so_many_lines_and_the_rest_is_counted() {
        let mut log = SlowLog::default();
        let mut written = |millis: u64, count: u32| {
            let now = Instant::from_micros(millis * 1000);
            (0..count).filter(|_| log.may_write(now, 3)).count()
        };
        assert_eq!([written(1000, 5), written(1999, 2), written(2000, 2), written(2001, 2)], [3, 0, 2, 1]);
        assert_eq!(log.left_out, 5);
    }
}
