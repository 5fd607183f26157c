//! Counters for people who look in from outside. Each is declared once, with its name at the admin port, its name among the metrics, and what
//! is counted.

use crate::outside::event::Event;

/// A counter of [`Totals`].
#[derive(Clone, Copy, Debug)]
pub struct Total {
    /// The name in SHOW STATUS.
    pub name: &'static str,
    /// The name among the metrics, without the prefix that all of these share, and without `_total`. `None` where
    /// another metric with labels covers the counter.
    pub metric: Option<&'static str>,
    /// The label, with its value, that tells this counter from others of the same metric: none, or one.
    pub labels: &'static [(&'static str, &'static str)],
    /// The text that says in one sentence what is counted.
    pub help: &'static str,
    /// Reads the counter's value.
    pub value: fn(&Totals) -> u64,
}

/// The name of a metric, or none for `_`.
macro_rules! metric {
    (_) => {
        None
    };
    ($metric:ident) => {
        Some(stringify!($metric))
    };
}

/// Declares the counters: the doc comment is what users read, too.
macro_rules! totals {
    ($(#[doc = $help:literal] $field:ident as $name:literal and $metric:tt $({ $label:ident = $of:literal })?,)*) => {
        /// Counted since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $(#[doc = $help] pub $field: u64,)*
        }

        impl Totals {
            /// All of them.
            pub const ALL: &[Total] = &[
                $(Total {
                    name: $name,
                    metric: metric!($metric),
                    labels: &[$((stringify!($label), $of))?],
                    help: $help,
                    value: |totals| totals.$field,
                },)*
            ];
        }

        impl std::ops::AddAssign<&Self> for Totals {
            /// Several engines together.
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

totals! {
    /// Logins refused.
    refused_logins as "Aborted_connects" and _,
    /// Clients that Onramp closed, or that broke off in the middle of something.
    closed_clients as "Aborted_clients" and _,
    /// Backends opened.
    opened_backends as "Onramp_backends_opened" and backends_opened,
    /// Idle backends that were to change their account (`backend_change_user`).
    account_changes as "Onramp_account_changes" and account_changes,
    /// Backends that were lost since they could not change their account.
    failed_account_changes as "Onramp_failed_account_changes" and account_changes_failed,
    /// Backends lost or given up.
    closed_backends as "Onramp_backends_closed" and backends_closed,
    /// Statements that `queue_wait_limit = 10s` would have refused, where that is off.
    would_refuse_by_queue_wait_limit as "Onramp_would_refuse_queue_wait_limit" and would_refuse { option = "queue_wait_limit" },
    /// Statements that `queue_delay_target = 1s` would have refused, where that is off.
    would_refuse_by_queue_delay_target as "Onramp_would_refuse_queue_delay_target" and would_refuse { option = "queue_delay_target" },
    /// Statements that `long_queue_wait_limit = 1m` would have refused, where that is off.
    would_refuse_by_long_queue_wait_limit as "Onramp_would_refuse_long_queue_wait_limit" and would_refuse { option = "long_queue_wait_limit" },
    /// Statements that were answered with an error of Onramp while they waited, or whose client went meanwhile.
    cancelled as "Onramp_cancelled" and statements_cancelled,
    /// Statements that were prepared again, on another backend than the client's COM_STMT_PREPARE.
    prepared_again as "Onramp_prepared_again" and statements_prepared_again,
    /// Statements that lent their permit because they ran too long.
    stalls as "Onramp_stalls" and stalls,
    /// Reads that were sent behind others on their backend.
    shared_reads as "Onramp_shared_reads" and reads_shared,
    /// Reads that were sent behind others, each with its SET or USE in the same text.
    schemas_brought as "Onramp_schemas_brought" and schemas_brought,
    /// Reads that were sent again on another backend, since the one before them was stuck.
    rescues as "Onramp_rescued_reads" and reads_rescued,
    /// Statements that moved from the low to the high queue.
    kick_ups as "Onramp_kick_ups" and kick_ups,
    /// Statements that started before older ones, since clients hung up on those.
    newest_starts as "Onramp_newest_first" and newest_first,
    /// Statements that were answered by the execution of another one.
    coalesced as "Onramp_coalesced" and statements_coalesced,
    /// Statements that only set session state, and whose answer was known: they ran on no backend.
    answered_sets as "Onramp_sets_answered" and sets_answered,
    /// Statements whose client held no backend: they ran on any.
    multiplexed_statements as "Onramp_statements_multiplexed" and statements_by_backend { how = "any" },
    /// Statements of open transactions of clients that were not pinned.
    statements_in_transactions as "Onramp_statements_in_transactions" and statements_by_backend { how = "transaction" },
    /// Statements of pinned clients.
    pinned_statements as "Onramp_statements_pinned" and statements_by_backend { how = "pinned" },
    /// Statements above `slow_statement_time` or `slow_wait_time`.
    slow_statements as "Slow_queries" and slow_statements,
    /// Of these, those that have no line in the slow log, since there were too many (`slow_log_per_second`).
    slow_left_out as "Onramp_slow_log_left_out" and slow_log_left_out,
    /// Reads that were sent to replicas (`read_split`).
    replica_reads as "Onramp_replica_reads" and replica_reads,
    /// Reads that waited for a replica to have what they had to see.
    replica_reads_waited as "Onramp_replica_reads_waited" and replica_reads_waited,
    /// Reads that went to the primary after all: no replica had in time what they had to see, or the one that had them did not answer.
    replica_reads_returned as "Onramp_replica_reads_returned" and replica_reads_returned,
    /// Times that the primary was another server than before.
    failovers as "Onramp_failovers" and failovers,
    /// Times that no server was the primary.
    missing_primaries as "Onramp_missing_primaries" and missing_primaries,
    /// Statements of which not all was understood: whatever they may leave does not reach another client.
    doubtful_statements as "Onramp_statements_doubtful" and statements_doubtful,
}

impl Totals {
    /// Counts what is an event anyway.
    pub(crate) fn count(&mut self, event: &Event) {
        match event {
            Event::LoginRefused { .. } => self.refused_logins += 1,
            Event::ClientClosed { .. } => self.closed_clients += 1,
            Event::BackendClosed { .. } => self.closed_backends += 1,
            Event::PrimaryFound { former: Some(_), .. } => self.failovers += 1,
            Event::NoPrimary { .. } => self.missing_primaries += 1,
            _ => {}
        }
    }
}
