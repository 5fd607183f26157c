//! Which statements are worth a line of the slow log.

use std::time::Duration;

settings! {
    /// Which statements are worth a line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SlowLogSettings / SlowLogChange {
        /// The time at the server, until the client has taken the answer, from which on a statement is slow; zero for none.
        pub statement_time: Duration = Duration::ZERO, live;
        /// The wait before its start from which on a statement is slow; zero for none.
        pub wait_time: Duration = Duration::ZERO, live;
        /// Whether texts are given as they were sent, too.
        pub literals: bool = false, live;
        /// How many lines there may be in a second, from 1. Each worker has an even share, of 1 at least.
        // 100 kB/s: a day of overload is 9 GB at most, and its reasons are in the first few lines.
        pub per_second: u32 = 100, live;
    }
}

impl SlowLogSettings {
    pub(super) fn is_on(&self) -> bool {
        !self.statement_time.is_zero() || !self.wait_time.is_zero()
    }

    pub(super) fn is_slow(&self, waited: Duration, took: Duration) -> bool {
        (!self.statement_time.is_zero() && took >= self.statement_time)
            || (!self.wait_time.is_zero() && waited >= self.wait_time)
    }
}
