//! Bounds beyond which work is refused or ended rather than waited for.

use std::time::Duration;

settings! {
    /// What is refused or ended rather than waited for. Zero turns each of them off.
    ///
    /// By default there is no bound but `max_connections` where everybody waits alike: each client has one statement waiting at most, as on
    /// a connection of its own, where it would wait without an end too. Errors that nobody expects are for the user to ask for. What others
    /// go before for ten seconds is another thing: that long most clients' own patience is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OverloadSettings / OverloadChange {
        /// Statements that wait in the high and the low queue of all workers; new work beyond it is refused.
        pub queue_limit: u32 = 0, live;
        /// New work that has waited this long in the high or low queue is refused.
        pub queue_wait_limit: Duration = Duration::ZERO, live;
        /// New work that has waited this long, and twice as long as it takes to serve all that waits, is refused.
        pub unfair_wait_limit: Duration = Duration::from_secs(10), live;
        /// Statements that wait in the long lane of all workers; more are refused.
        pub long_queue_limit: u32 = 0, live;
        /// A statement that has waited this long in the long lane is refused.
        pub long_queue_wait_limit: Duration = Duration::ZERO, live;
        /// Where no statement has waited less than this for `queue_delay_interval`, new work that waits longer is refused.
        pub queue_delay_target: Duration = Duration::ZERO, live;
        /// See `queue_delay_target`; and refusing ends once nothing has had to be refused for as long.
        // RFC 8289, section 4.3: a hundred milliseconds, which let the bursts of most programs pass.
        pub queue_delay_interval: Duration = Duration::from_millis(100), live;
        /// A statement that runs is ended when its client has gone.
        pub kill_abandoned: bool = false, live;
        /// The backend of a statement that nobody has waited for so long is closed.
        // It ends nothing but the connection, as the client did, and nobody waits: longer than all but reports and DDL take.
        pub abandoned_timeout: Duration = Duration::from_secs(300), live;
        /// A statement that has run this long is ended.
        pub query_timeout: Duration = Duration::ZERO, live;
        /// A transaction that has been open this long is rolled back, and its connection ends.
        pub transaction_timeout: Duration = Duration::ZERO, live;
        /// Likewise one whose client has sent nothing for this long.
        pub idle_transaction_timeout: Duration = Duration::ZERO, live;
        /// A client that holds a backend and has sent nothing for this long gives it back, where others wait for one.
        // As long as net_write_timeout gives a client that does not take its reply.
        pub idle_hold_timeout: Duration = Duration::from_secs(60), live;
    }
}
