//! Tables named and shaped as the servers have them. A thread group of theirs is a worker here, a thread of a group is a
//! backend. What has no counterpart is 0.
//!
//! Sources: MariaDB `sql/thread_pool_info.cc` and `sql/sql_show.cc`; MySQL's manual, "Performance Schema Thread Pool
//! Tables".

use super::table;

table! {
    /// A column of a table, as in every server.
    ColumnRow in InformationSchema as "COLUMNS" {
        /// Always `def`.
        table_catalog: &'static str,
        /// The schema.
        table_schema: &'static str,
        /// The table.
        table_name: &'static str,
        /// The column.
        column_name: String,
        /// Its place, from 1.
        ordinal_position: u32,
        /// Always NULL.
        column_default: Option<&'static str>,
        /// `YES` or `NO`.
        is_nullable: &'static str,
        /// Its type.
        data_type: &'static str,
        /// The same.
        column_type: &'static str,
        /// Always empty.
        column_key: &'static str,
        /// Always empty.
        extra: &'static str,
        /// What it says.
        column_comment: String,
    }
}

table! {
    /// A client, as SHOW PROCESSLIST shows it.
    Process in InformationSchema as "PROCESSLIST" {
        /// The id that KILL takes.
        id: u32,
        /// The user, or `unauthenticated user`.
        user: String,
        /// Where it comes from.
        host: String,
        /// Its default schema.
        db: Option<String>,
        /// `Connect`, `Sleep`, `Query` or `Killed`.
        command: &'static str,
        /// Seconds since its statement came, or its last one ended.
        time: u64,
        /// `queued (high)`, `queued (low)` and so on, `running`, `idle`, `idle in transaction`, `pinned: ...` and so on.
        state: String,
        /// The statement's text while it waits.
        info: Option<String>,
        /// The same as TIME, in milliseconds.
        time_ms: f64,
    }
}

table! {
    /// A schema, as in every server.
    SchemaRow in InformationSchema as "SCHEMATA" {
        /// Always `def`.
        catalog_name: &'static str,
        /// Its name.
        schema_name: &'static str,
        /// Always `utf8mb4`.
        default_character_set_name: &'static str,
        /// Always `utf8mb4_general_ci`.
        default_collation_name: &'static str,
    }
}

table! {
    /// A table, as in every server.
    TableRow in InformationSchema as "TABLES" {
        /// Always `def`.
        table_catalog: &'static str,
        /// The schema.
        table_schema: &'static str,
        /// The table.
        table_name: &'static str,
        /// Always `SYSTEM VIEW`.
        table_type: &'static str,
        /// What its rows are.
        table_comment: String,
    }
}

table! {
    /// MariaDB's table of thread groups: a row for each worker.
    PoolGroup in InformationSchema as "THREAD_POOL_GROUPS" {
        /// The worker, from 0.
        group_id: u32,
        /// Its clients.
        connections: u64,
        /// Its backends.
        threads: u64,
        /// Permits that it holds.
        active_threads: u32,
        /// Its idle backends.
        standby_threads: u64,
        /// Statements that wait.
        queue_length: u64,
        /// Always 1: the event loop listens.
        has_listener: bool,
        /// Whether statements have waited for a permit for longer than `thread_pool_stall_limit`.
        is_stalled: bool,
    }
}

table! {
    /// MariaDB's table of queues: a row for each statement that waits.
    PoolQueue in InformationSchema as "THREAD_POOL_QUEUES" {
        /// The worker, from 0.
        group_id: u32,
        /// Its place in the queue, from 0.
        position: u64,
        /// 0 for the high queue and those before it, 1 for the low and the long one.
        priority: u32,
        /// The client's id.
        connection_id: u32,
        /// How long it has waited, in microseconds.
        queueing_time_microseconds: u64,
    }
}

table! {
    /// MariaDB's counters of thread groups: a row for each worker.
    PoolStats in InformationSchema as "THREAD_POOL_STATS" {
        /// The worker, from 0.
        group_id: u32,
        /// Backends opened.
        thread_creations: u64,
        /// Always 0: a stall lends a permit and opens no backend by itself.
        thread_creations_due_to_stall: u64,
        /// Always 0: workers wake each other without counting.
        wakes: u64,
        /// Always 0.
        wakes_due_to_stall: u64,
        /// Always 0: opening backends is bounded, not slowed.
        throttles: u64,
        /// Statements that lent their permit because they ran for longer than `thread_pool_stall_limit`.
        stalls: u64,
        /// Turns of the event loop.
        polls_by_listener: u64,
        /// Always 0: only the event loop waits for bytes.
        polls_by_worker: u64,
        /// Statements that went from a queue to the server.
        dequeues_by_listener: u64,
        /// Always 0.
        dequeues_by_worker: u64,
    }
}

table! {
    /// MariaDB's table of reasons to wait; `waits` has more of them, with their times.
    PoolWait in InformationSchema as "THREAD_POOL_WAITS" {
        /// What statements waited for.
        reason: String,
        /// How often.
        count: u64,
    }
}

table! {
    /// MySQL's table of the pool's connections: a row for each client.
    TpConnection in PerformanceSchema as "tp_connections" {
        /// The client's id.
        connection_id: u32,
        /// Its worker, from 0.
        tp_group_id: u32,
        /// The thread id of the backend that runs its statement, or that it holds.
        tp_processing_thread_number: Option<u32>,
        /// `ESTABLISHED` (logging in), `ARMED` (idle), `QUEUED`, `WAITING_FOR_CREDIT` (it holds a backend and waits for a
        /// permit) or `ATTACHED` (running).
        state: &'static str,
        /// Whether a statement of it waits or runs.
        active_flag: bool,
        /// `User`.
        r#type: &'static str,
    }
}

table! {
    /// MySQL's table of thread groups: a row for each worker.
    TpGroupState in PerformanceSchema as "tp_thread_group_state" {
        /// The worker, from 0.
        tp_group_id: u32,
        /// Its backends at work.
        consumer_threads: u64,
        /// Its idle backends.
        reserve_threads: u64,
        /// Its backends that are being opened.
        connect_thread_count: u64,
        /// Its clients.
        connection_count: u64,
        /// Statements in its high queue and those before it.
        queued_queries: u64,
        /// Statements in its low and long queues.
        queued_transactions: u64,
        /// `thread_pool_stall_limit`, in milliseconds (MySQL's own unit is 10 ms).
        stall_limit: u64,
        /// `thread_pool_prio_kickup_timer`, in milliseconds.
        prio_kickup_timer: u64,
        /// Its backends.
        thread_count: u64,
        /// Permits that it holds.
        active_thread_count: u32,
        /// Statements that run and have lent their permit.
        stalled_thread_count: u64,
        /// How long the first statement of its queues has waited, in milliseconds; NULL where none waits.
        oldest_queued: Option<u64>,
        /// Its backends that a client holds for a transaction.
        threads_bound_to_transaction: u64,
    }
}

table! {
    /// MySQL's counters of thread groups: a row for each worker.
    TpGroupStats in PerformanceSchema as "tp_thread_group_stats" {
        /// The worker, from 0.
        tp_group_id: u32,
        /// Connections accepted.
        connections_started: u64,
        /// Those of them that have ended.
        connections_closed: u64,
        /// Statements that went to the server.
        queries_executed: u64,
        /// Statements that went into a queue, be it for a moment.
        queries_queued: u64,
        /// Backends opened.
        threads_started: u64,
        /// Statements that moved from the low to the high queue.
        prio_kickups: u64,
        /// Statements that lent their permit because they ran for longer than `thread_pool_stall_limit`.
        stalled_queries_executed: u64,
    }
}

table! {
    /// MySQL's table of the pool's threads: a row for each backend.
    TpThreadState in PerformanceSchema as "tp_thread_state" {
        /// The worker, from 0.
        tp_group_id: u32,
        /// The backend's thread id on the server; NULL while it logs in.
        tp_thread_number: Option<u32>,
        /// In which 10 ms interval of its execution the statement is that it runs; 0 where it runs none.
        process_count: u64,
        /// `THD_WAIT_ROW_LOCK` where the statement was last seen to wait for a row lock; NULL else: what other waits there are
        /// cannot be seen from outside the server.
        wait_type: Option<&'static str>,
        /// `QUERY_WORKER_THREAD`, or `CONNECTION_HANDLER_WORKER_THREAD` while the backend is being opened.
        tp_thread_type: &'static str,
        /// The same as `tp_thread_number`.
        thread_id: Option<u32>,
        /// Whether the statement that it runs has lent its permit.
        marked_stalled: bool,
        /// `PROCESSING_QUEUED`, `SLEEPING_CONSUMER` (a client holds it and runs nothing), `SLEEPING_RESERVE` (idle) or `MANAGING`
        /// (it is being opened or reset).
        state: &'static str,
        /// The client that holds it.
        connection_id: Option<u32>,
    }
}
