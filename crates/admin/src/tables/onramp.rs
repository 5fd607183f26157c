//! Onramp's own tables. Times are as of the moment when the worker was asked.

use super::table;

table! {
    /// A backend: a connection of Onramp to a server, those to replicas that are read from (`read_split`) among them.
    Backend in Onramp as "backends" {
        /// The address of its server.
        server: String,
        /// Its thread id on the server, as the server's own PROCESSLIST shows it; NULL while it logs in.
        thread_id: Option<u32>,
        /// The worker that has it, from 0.
        worker: u32,
        /// The user as whom it is logged in.
        user: String,
        /// `connecting`, `logging_in`, `setting_up`, `idle`, `running`, `held` (by a client that runs nothing now),
        /// `resetting`.
        state: &'static str,
        /// The client that holds it, for a transaction, a pin or a statement of its own; its id.
        client: Option<u32>,
        /// Statements sent and not yet answered.
        in_flight: u32,
        /// `held`, `lent` (a stalled statement, or one whose client is slow to read) or `none`.
        permit: &'static str,
        /// How long the first statement in flight has been running, in microseconds.
        running_us: Option<u64>,
        /// Since when it has been idle, connecting or logging in, in microseconds; NULL where it is in use.
        idle_us: Option<u64>,
        /// The schema that it is in.
        schema_name: Option<String>,
        /// The number of its session state within the worker and, where reads go to replicas, its server.
        session_state: u32,
        /// Whether the client that holds it has an open transaction.
        in_transaction: bool,
        /// Not read from, because the client whose answer comes is slow to take it.
        paused: bool,
    }
}

table! {
    /// A client for whose row locks others have waited on the server, as far as that was asked (`lock_wait_interval`): those of
    /// the last thousand clients that there were for each worker.
    Blocker in Onramp as "blockers" {
        /// The client's id. It may have gone.
        client: u32,
        /// Statements that waited.
        waits: u64,
        /// How long, all together, from each statement's beginning on, in microseconds.
        time_us: u64,
        /// How long the one that waited longest did, in microseconds.
        max_us: u64,
    }
}

table! {
    /// A client: a connection of an application.
    Client in Onramp as "clients" {
        /// Its id, which it saw in its greeting, CONNECTION_ID() gives and KILL takes.
        id: u32,
        /// The worker that has it, from 0.
        worker: u32,
        /// The user name that it logged in with; NULL before that.
        user: Option<String>,
        /// The account that the server chose, as user@host.
        account: Option<String>,
        /// Where it comes from: address and port, or `localhost` for a Unix socket.
        address: String,
        /// Its default schema.
        schema_name: Option<String>,
        /// `connecting`, `logging_in`, `idle`, `reading` (its large statement is read by another thread), `queued`, `preparing` (its session state is set on its backend),
        /// `running`, `following` (it gets the answer to another client's identical read), `settling` (what its statement left is
        /// saved), `killing` (its KILL is under way) or `on_replica` (a replica has its read, `server` says which, or it waits for
        /// one that has all that it is to see).
        state: &'static str,
        /// Whether it has an open transaction.
        in_transaction: bool,
        /// How long that has been open, in microseconds.
        transaction_us: Option<u64>,
        /// Whether it has changed or locked something, in its transaction or beyond, as far as Onramp can tell.
        holds_locks: bool,
        /// Whether others were last seen to wait for what it holds (`lock_wait_interval`).
        blocks_others: bool,
        /// The client for whose row lock its statement was last seen to wait on the server; NULL where it was not, or that is not
        /// a client of Onramp.
        waits_for_client: Option<u32>,
        /// The thread id of whoever holds that lock.
        waits_for_thread: Option<u32>,
        /// How long its statement has run so far that was seen to wait for a lock, in microseconds.
        lock_wait_us: Option<u64>,
        /// The thread id of the backend that it holds or that runs its statement.
        backend: Option<u32>,
        /// The address of that backend's server, or of the replica in whose queue its statement waits.
        server: Option<String>,
        /// Why it holds its backend beyond a transaction: names from `pins`, separated by commas.
        pins: Option<String>,
        /// The queue that its statement waits in, see `queues`.
        queue: Option<&'static str>,
        /// How long its statement has waited so far, in microseconds; without a queue it waits for a replica.
        queued_us: Option<u64>,
        /// How long it has been since the first statement on its backend began, where that is this client's, in
        /// microseconds.
        running_us: Option<u64>,
        /// Time since it was last heard of, or its last statement ended, in microseconds.
        idle_us: u64,
        /// How long it has not taken any of its reply, in microseconds; NULL where it keeps up.
        stalled_us: Option<u64>,
        /// The digest of the statement that waits or runs: a key of `statements`.
        digest: Option<String>,
        /// The statement's text while it waits, its first 1,024 bytes. Once it is sent Onramp does not keep it, but for reads on
        /// replicas.
        statement: Option<String>,
        /// Bytes that it has sent and that wait here.
        input_bytes: u64,
        /// The number of its session state within the worker; equal numbers are equal states.
        session_state: Option<u32>,
    }
}

table! {
    /// A line of the log: the last 1,000. Those about clients, backends, the server and limits are here whatever `log_level`
    /// says.
    Event in Onramp as "events" {
        /// Counts up from 1; those that are missing have made room.
        number: u64,
        /// When, in UTC.
        time: String,
        /// The worker that it is about, from 0; NULL where it is about the program, or an order from the admin port.
        worker: Option<u32>,
        /// `error`, `warn`, `info`, `debug` or `trace`.
        level: &'static str,
        /// Which event: `server_found`, `server_lost`, `client_closed`, `login_refused` and so on, or `log` for any other line.
        event: &'static str,
        /// The line.
        message: String,
    }
}

table! {
    /// A bound, with how near it is: all bounds of memory, and those others that were reached or can be counted.
    Limit in Onramp as "limits" {
        /// The option that sets it.
        option: &'static str,
        /// Of what there may be no more.
        bounds: &'static str,
        /// What is counted: `bytes`, `ms`, `s`, `percent`, or things.
        unit: &'static str,
        /// What has the bound: the `process` as a whole, each `worker`, each `backend`, `client` or `user`, or each `statement`.
        scope: &'static str,
        /// How much of it is used now, of a worker's or backend's bound where it is most; NULL where that is not a number that is kept.
        in_use: Option<u64>,
        /// The bound, in this unit. NULL where there is none.
        bound: Option<u64>,
        /// How often it was reached: something had to wait, or was refused.
        reached: u64,
    }
}

table! {
    /// Memory by what it is for, counted from the capacities of what holds it.
    MemoryPart in Onramp as "memory" {
        /// The worker, from 0; NULL for the whole process.
        worker: Option<u32>,
        /// What it is for.
        part: &'static str,
        /// Bytes.
        bytes: u64,
    }
}

table! {
    /// An option of `onramp serve`; docs/OPTIONS.md says what each does.
    Setting in Onramp as "options" {
        /// Its name.
        name: &'static str,
        /// What it is set to; NULL where it has no value or is a secret.
        value: Option<String>,
        /// What it is set to where nobody says anything.
        default_value: Option<String>,
        /// `live` (SET GLOBAL and RELOAD change it) or `start`.
        scope: &'static str,
        /// Where the value comes from: `default`, `file`, `credential`, `environment`, `flag`, `socket` (handed over by systemd) or `admin`.
        source: &'static str,
    }
}

table! {
    /// A kind of statement that has pinned clients, by reason.
    PinCause in Onramp as "pin_causes" {
        /// The reason: a name from `pins`.
        reason: &'static str,
        /// The digest: a key of `statements`. NULL for what has none, and for all those together that found no place.
        digest: Option<String>,
        /// The text with `?` in the place of literals; NULL where it is not known.
        text: Option<String>,
        /// How often it pinned a client for this reason.
        times: u64,
    }
}

table! {
    /// A reason for which a client holds its backend beyond a transaction, one row for each client and reason.
    PinnedClient in Onramp as "pinned_clients" {
        /// The client's id.
        client: u32,
        /// Its worker, from 0.
        worker: u32,
        /// Its user.
        user: Option<String>,
        /// Where it comes from, without the port; `localhost` for a Unix socket.
        host: String,
        /// The reason: a name from `pins`.
        reason: &'static str,
        /// The thread id of the backend that it holds.
        backend: Option<u32>,
        /// Time since it was last heard of, or its last statement ended, in microseconds.
        idle_us: u64,
    }
}

table! {
    /// A reason to hold a backend beyond a transaction. Reasons that have never held are left out.
    Pin in Onramp as "pins" {
        /// Its name.
        reason: &'static str,
        /// Clients for whom it holds now.
        clients: u64,
        /// How often it began to hold for a client.
        times: u64,
        /// Statements that ran on their client's own backend for this reason, perhaps among others.
        statements: u64,
    }
}

table! {
    /// A statement that waits.
    Queued in Onramp as "queues" {
        /// The worker in whose queue it is, from 0.
        worker: u32,
        /// `urgent` (a KILL or the end of a transaction, which needs no permit), `blocking` (others wait for what its client
        /// holds), `holding` (its client holds locks), `high`, `low` or `long`, the first to be served first.
        queue: &'static str,
        /// Its place in about the order in which the statements of all workers would run, from 1.
        position: u64,
        /// Its client's id.
        client: u32,
        /// Its client's user.
        user: Option<String>,
        /// Whether its client holds a backend already, for a transaction or a pin.
        holds_backend: bool,
        /// How long it has waited, in microseconds.
        queued_us: u64,
        /// What the queues of its worker lack at the moment, of its server, the long one or the others: a reason from `waits`; NULL
        /// where they are about to be served.
        waits_for: Option<&'static str>,
        /// Its digest: a key of `statements`.
        digest: Option<String>,
        /// Its text, the first 1,024 bytes.
        statement: Option<String>,
    }
}

table! {
    /// A kind of statement: all texts that differ in their literals only.
    StatementKind in Onramp as "statements" {
        /// Sixteen hexadecimal digits that name the kind; NULL for all those together that found no place (`digests_size`).
        digest: Option<String>,
        /// The text with `?` in the place of literals, at most 1,024 bytes; NULL where it is not known for sure.
        text: Option<String>,
        /// Executions that have ended.
        count: u64,
        /// Those that ended in an error.
        errors: u64,
        /// Further ones that were answered by the execution of another one (`coalesce_reads`).
        coalesced: u64,
        /// Rows sent to clients.
        rows_sent: u64,
        /// Rows changed.
        rows_affected: u64,
        /// Time on the server, to the end of the reply, all executions together, in microseconds.
        time_us: u64,
        /// The shortest execution, in microseconds.
        min_time_us: u64,
        /// The longest execution, in microseconds.
        max_time_us: u64,
        /// Half of the executions were faster, in microseconds, give or take an eighth.
        p50_us: u64,
        /// 99 of 100 executions were faster, in microseconds, give or take an eighth.
        p99_us: u64,
        /// Time before the server, all executions together, in microseconds.
        wait_us: u64,
        /// The longest wait, in microseconds.
        max_wait_us: u64,
        /// When the first one came, in UTC.
        first_seen: String,
        /// When the latest one ended, in UTC.
        last_seen: String,
        /// What some worker takes the kind for, by how it has been lately, with commas between: `short` (5 ms or less, with small answers and without
        /// diagnostics: plain reads of it may follow others on a backend, see `statements_in_flight`), `long` (`long_statement_time` or
        /// more: it waits for one of `long_permits`), `contended` (half and more of it wait for locks, in some schema: few are in work at a time),
        /// `stuck` (one took 20 ms and more, less than eight times as long ago and in the last ten seconds, or has not ended yet: it shares with its like
        /// alone), `waiting` (it takes as long whatever runs beside it, see `permit_percent`); NULL for none of these.
        taken_for: Option<String>,
        /// What a statement of the kind counts for, in percent of a permit, with the worker that counts it least: 100, or down to 25 where
        /// `permits` is 0, it takes a millisecond or more, and `recent_us` is less than twice `least_us`.
        permit_percent: u32,
        /// The time that the latest executions have taken on average, less the way to a server that is far away, in microseconds.
        recent_us: u64,
        /// The least that this has been; it follows `recent_us` while few statements run. In microseconds.
        least_us: u64,
    }
}

table! {
    /// A counter or a measure: what SHOW STATUS shows.
    Status in Onramp as "status" {
        /// Its name, the servers' where they have one.
        variable_name: &'static str,
        /// Its value.
        variable_value: String,
        /// What it says.
        description: &'static str,
    }
}

table! {
    /// What SHOW VARIABLES shows: the options, and what client libraries ask a server for.
    Variable in Onramp as "variables" {
        /// Its name.
        variable_name: String,
        /// Its value.
        variable_value: String,
    }
}

table! {
    /// Why statements waited: a histogram for each reason.
    Wait in Onramp as "waits" {
        /// What they waited for.
        reason: &'static str,
        /// How many did.
        count: u64,
        /// How long all of them together, in microseconds.
        total_us: u64,
        /// The longest, in microseconds.
        max_us: u64,
        /// Half waited less, in microseconds.
        p50_us: u64,
        /// 90 of 100 waited less, in microseconds.
        p90_us: u64,
        /// 99 of 100 waited less, in microseconds.
        p99_us: u64,
        /// 999 of 1,000 waited less, in microseconds.
        p999_us: u64,
    }
}

table! {
    /// Connections that the kernel holds until a worker accepts them, at each socket that clients connect to. What did not fit is
    /// in `Onramp_accept_queue_overflows` and `Onramp_accept_queue_drops` of the table `status`.
    AcceptQueue in Onramp as "accept_queues" {
        /// Where clients connect to.
        address: String,
        /// The worker that accepts there; NULL where all of them do, at one socket.
        worker: Option<u32>,
        /// Connections that nobody has accepted yet; NULL for a Unix socket, and where the kernel does not say.
        waiting: Option<u64>,
        /// How many may wait: `back_log`, or less where net.core.somaxconn was less at the start. The kernel takes one more.
        bound: u32,
    }
}

table! {
    /// A worker: an event loop with its clients, backends and queues.
    Worker in Onramp as "workers" {
        /// Its number, from 0.
        worker: u32,
        /// What it runs on: `epoll` or `uring`.
        driver: String,
        /// Its clients.
        clients: u64,
        /// Its backends on all servers, those that are being opened included; what follows is of all servers, too.
        backends: u64,
        /// Its backends that nobody holds and on which nothing runs.
        idle_backends: u64,
        /// Permits that it holds.
        permits: u32,
        /// Statements in its high queue, and in those before it: urgent, blocking, holding.
        queued_high: u64,
        /// Statements in its low queue.
        queued_low: u64,
        /// Statements in its long queue.
        queued_long: u64,
        /// Different session states of its clients and backends.
        session_states: u64,
        /// Connections accepted since the start.
        connections: u64,
        /// Logins refused.
        refused_logins: u64,
        /// Statements that had to go to the server.
        statements: u64,
        /// Statements refused before they reached the server, or whose client went while they waited.
        cancelled: u64,
        /// Statements that lent their permit because they ran for longer than `thread_pool_stall_limit`.
        stalls: u64,
        /// Statements that moved from the low to the high queue.
        kick_ups: u64,
        /// Backends opened.
        backends_opened: u64,
        /// How often an idle backend was to change its account (`backend_change_user`).
        account_changes: u64,
        /// How often that did not work, so that the backend was lost.
        failed_account_changes: u64,
        /// Turns of the event loop.
        turns: u64,
        /// How long the longest of the last minute, or of up to two, has taken, in microseconds: meanwhile it served nobody else.
        longest_turn_us: u64,
        /// The digest of the largest statement that came in that turn; NULL where none came.
        longest_turn_digest: Option<String>,
        /// The text of that digest, where it is known.
        longest_turn_statement: Option<String>,
        /// Bytes received, from clients and servers.
        bytes_received: u64,
        /// Bytes sent, to clients and servers.
        bytes_sent: u64,
        /// Whether PAUSE holds for it.
        paused: bool,
    }
}

table! {
    /// A server, at one of its addresses. Empty where `backend` is given once: then there is no check.
    Server in Onramp as "servers" {
        /// Where it is.
        address: String,
        /// What tells it from others, `server_uuid` on MySQL: two addresses with the same lead to one server. NULL while it is
        /// not known.
        identity: Option<String>,
        /// `primary`, `replica`, `node` (of Galera) or `unknown`.
        role: &'static str,
        /// `untried`, `up`, `unfit` (it says itself that it serves nobody) or `down`. One failed check changes nothing, but that a primary of a group gets nothing new until the next.
        state: &'static str,
        /// Whether it is up and takes writes.
        writable: bool,
        /// Whether it is the one that statements go to.
        in_use: bool,
        /// Whether it is drained: an operator has taken it out of the choice (DRAIN).
        drained: bool,
        /// Why, by its last check.
        reason: String,
        /// How far it is behind, in seconds, as it says itself; NULL where it does not replicate or does not say.
        lag_seconds: Option<u64>,
        /// Its GTIDs, as it writes them; of a MariaDB those of `gtid_current_pos` and `gtid_slave_pos`, and in their domains of `gtid_binlog_state`, each once.
        position: Option<String>,
        /// Since when it has had this role and state, in UTC.
        since: String,
        /// How long that is, in microseconds.
        since_us: u64,
        /// Whether reads go there as to a replica: 1 or 0. NULL where `read_split` is `off`, as all that follows.
        readable: Option<bool>,
        /// Why not: `primary` (it takes reads as it takes all else), `drained`, `unfit` (by its checks it is not up, or it is there under
        /// another address too), `apart` (by its checks it does not get, or does not carry out, what the primary writes; as a reader of Aurora it does not say that it is at most `replica_max_lag` behind), `not_connected` (some worker has not connected to it, or read its accounts, yet),
        /// `no_trackers` (it has no session trackers, so that each read would cost a backend of its own),
        /// `no_position` (it, or the primary, does not say how far it is, or what they say cannot be compared), `too_old` (it may lack what
        /// is older than `replica_max_lag`), `no_weight` (its weight is 0) or `other_zone` (it could take them, and servers in Onramp's own zone do); NULL where they go there.
        unreadable_for: Option<&'static str>,
        /// Its weight beside others (`read_weights`).
        weight: Option<u32>,
        /// Its zone (`server_zones`); NULL where that was not said, too.
        zone: Option<String>,
        /// All that the primary had so long ago is known to be there: how old what is read there can be at most, with the worker that knows
        /// least, in microseconds; NULL for the primary, and where nothing is known.
        data_age_us: Option<u64>,
        /// Permits that statements have there, of all workers.
        permits_in_use: Option<u64>,
        /// How many there are for it now; NULL where nothing bounds them, too.
        permits: Option<u64>,
        /// Backends there, those that are being opened included.
        backends: Option<u64>,
        /// Reads on it as a replica that wait for a permit or a backend there; likewise what follows.
        reads_waiting: Option<u64>,
        /// Reads that run there.
        reads_running: Option<u64>,
        /// Reads that were sent there since the start.
        reads: Option<u64>,
        /// What a read there took on average, the way there and back included, in microseconds; NULL where none has been answered.
        read_mean_us: Option<u64>,
        /// 99 of 100 took less, in microseconds.
        read_p99_us: Option<u64>,
    }
}

table! {
    /// Where the statements of a kind went, where reads go to replicas; empty where `read_split` is `off`. A statement is counted when it is
    /// sent to one or waits for one, and when it goes to the primary: after that, too, it is there under `to_primary`.
    Route in Onramp as "routing" {
        /// The kind: a key of `statements`; NULL for all those together that have none, or found no place (`digests_size`).
        digest: Option<String>,
        /// The text with `?` in the place of literals; NULL where it is not known.
        text: Option<String>,
        /// How many were sent to replicas.
        to_replicas: u64,
        /// How many waited for a replica to have what they had to see.
        waited: u64,
        /// How many went to the primary after they had waited, or had been on a replica.
        came_back: u64,
        /// How many went to the primary, those that came back among them.
        to_primary: u64,
        /// Why most of these went there: `as_wanted`, `no_plain_read`, `of_session`, `of_server`, `transaction`, `holds_state`,
        /// `functions`, `stored_code`, `no_replica`, `no_weight`, `other_zone`, `behind`, `sooner`, `not_in_time` or `came_back`; NULL where none did.
        reason: Option<&'static str>,
        /// How many did for that reason.
        for_reason: u64,
        /// The reason in a sentence.
        explanation: Option<&'static str>,
    }
}

table! {
    /// A check of a server: the last 60 of each address.
    ServerCheck in Onramp as "server_checks" {
        /// Where it is.
        address: String,
        /// When the check ended, in UTC.
        time: String,
        /// How long ago that is, in microseconds.
        age_us: u64,
        /// How long it took, in microseconds.
        took_us: u64,
        /// The role that it found; `unknown` where it failed.
        role: &'static str,
        /// Whether the server answered, and is a part of what it belongs to.
        well: bool,
        /// Why.
        reason: String,
    }
}

table! {
    /// An Onramp in front of the server: this one, and each of the others that it knows of. Empty where `peers` is `off`.
    Peer in Onramp as "peers" {
        /// Its slot, the number of the lock `onramp.slot.N` that it holds on the server, from 1; NULL where this one has none.
        slot: Option<u32>,
        /// Whether it is this one.
        own: bool,
        /// The id of its service account's connection on the server.
        connection_id: u64,
        /// Where that comes from, as the server's list of threads has it; NULL of this one.
        host: Option<String>,
        /// Whether its statements wait, or have in the last ten seconds: among those where they do, permits are divided.
        at_work: bool,
        /// Since when it has been known, in UTC.
        since: String,
        /// How long that is, in microseconds.
        since_us: u64,
    }
}

table! {
    /// A time without a primary, or a change from one to another: the last 100, the latest first. Empty where `backend` is given once.
    Failover in Onramp as "failovers" {
        /// When the former primary was given up, in UTC.
        time: String,
        /// How long ago that is, in microseconds.
        age_us: u64,
        /// The former primary.
        from_server: String,
        /// The new one, which may be the same; NULL while there is none.
        to_server: Option<String>,
        /// How long there was none, in microseconds; NULL while that lasts.
        took_us: Option<u64>,
        /// GTIDs that the new one lacked of what the former one was known to have, the first few; empty where none, NULL where they
        /// could not be compared, or the former one is the new one.
        lacks: Option<String>,
        /// Statements that waited and went to the new one.
        held: u64,
        /// How long the one that waited longest did, in microseconds.
        longest_hold_us: u64,
        /// Open transactions of which clients were told that they are rolled back (error 1213).
        rolled_back: u64,
        /// Statements in flight that were lost, so that nobody knows whether they ran (error 2013).
        unknown: u64,
    }
}
