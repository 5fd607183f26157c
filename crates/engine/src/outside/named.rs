//! What outsiders are told in a word: each word is declared once, with what it stands for, and compared by that.

use std::time::Duration;

/// Declares an enum, and the name of each of its variants.
macro_rules! named {
    ($(#[$about:meta])* $Named:ident { $($(#[$doc:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $Named {
            $($(#[$doc])* $Variant,)+
        }

        impl $Named {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$Variant,)+];

            /// Its name, in small letters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $Named {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use named;

named! {
    /// What a server is to the others of its cluster.
    ServerRole {
        /// Nobody knows.
        Unknown = "unknown",
        /// It takes writes, and others replicate from it.
        Primary = "primary",
        /// It replicates, or takes no writes.
        Replica = "replica",
        /// A node of Galera, each of which may take writes.
        Node = "node",
    }
}

named! {
    /// How a server stands by its checks.
    ServerState {
        /// It has not answered its first check yet.
        Untried = "untried",
        /// It answers, and is a part of what it belongs to.
        Up = "up",
        /// It answers, and says itself that it serves nobody: a node that is not synced, a member without a majority.
        Unfit = "unfit",
        /// It does not answer, or refuses us.
        Down = "down",
    }
}

named! {
    /// What a client does.
    ClientState {
        /// It waits for the server's greeting.
        Connecting = "connecting",
        /// It logs in.
        LoggingIn = "logging_in",
        /// It says nothing.
        Idle = "idle",
        /// Its large statement is read by another thread.
        Reading = "reading",
        /// Its statement waits.
        Queued = "queued",
        /// It gets the answer to another client's identical read.
        Following = "following",
        /// Its session state is set on its backend.
        Preparing = "preparing",
        /// Its statement runs.
        Running = "running",
        /// What its statement left is saved.
        Settling = "settling",
        /// Its KILL is under way.
        Killing = "killing",
        /// A replica answers its statement, or is waited for.
        OnReplica = "on_replica",
    }
}

named! {
    /// What a backend does.
    BackendState {
        /// Its connection is being made.
        Connecting = "connecting",
        /// It logs in.
        LoggingIn = "logging_in",
        /// Its session is brought into the state in which backends begin.
        SettingUp = "setting_up",
        /// What its last client left is put back.
        Resetting = "resetting",
        /// It has a statement.
        Running = "running",
        /// A client holds it that runs nothing now.
        Held = "held",
        /// Nothing runs on it, and nobody holds it.
        Idle = "idle",
    }
}

named! {
    /// What a backend has of the permits.
    PermitState {
        /// One.
        Held = "held",
        /// One that others use meanwhile: its statement is stalled, or its client slow to read.
        Lent = "lent",
        /// None.
        None = "none",
    }
}

named! {
    /// A queue. The first is served first.
    Queue {
        /// Of what waits for nobody.
        Urgent = "urgent",
        /// Of those that others wait for.
        Blocking = "blocking",
        /// Of clients that hold locks.
        Holding = "holding",
        /// The high queue.
        High = "high",
        /// The low queue.
        Low = "low",
        /// Of statements whose like has been long.
        Long = "long",
        /// Of statements whose like wait for locks at present.
        Contended = "contended",
    }
}

named! {
    /// A stage of a client's way from its connection to its first statement on a backend.
    LoginStage {
        /// From the connection to our greeting. It waits where the server's accounts have not been read yet.
        Greeting = "greeting",
        /// From the request for TLS to where that stands.
        Tls = "tls",
        /// From the connection to what the client says of itself: the network's part and its own, with TLS.
        Request = "request",
        /// From there to where its password is known to be right, questions and answers in between included; COM_CHANGE_USER, too.
        Password = "password",
        /// What its first statement waited for until it had a backend.
        FirstBackend = "first_backend",
    }
}

/// How many statements wait in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued([usize; Queue::ALL.len()]);

impl Queued {
    pub(super) fn add(&mut self, queue: Queue, count: usize) {
        self.0[queue as usize] += count;
    }

    /// In this one.
    pub fn of(&self, queue: Queue) -> usize {
        self.0[queue as usize]
    }

    /// Those of several engines together.
    pub(crate) fn take_in(&mut self, other: &Self) {
        Queue::ALL.iter().for_each(|&queue| self.add(queue, other.of(queue)));
    }

    /// In any of them.
    pub fn all(&self) -> usize {
        self.0.iter().sum()
    }
}

/// How long the statement has waited that has waited longest in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestWaits([Option<Duration>; Queue::ALL.len()]);

impl LongestWaits {
    pub(super) fn note(&mut self, queue: Queue, waited: Duration) {
        let longest = &mut self.0[queue as usize];
        *longest = (*longest).max(Some(waited));
    }

    /// Those of several engines together.
    pub(crate) fn take_in(&mut self, other: &Self) {
        for (longest, more) in self.0.iter_mut().zip(other.0) {
            *longest = (*longest).max(more);
        }
    }

    /// In this one; `None` where none waits.
    pub fn of(&self, queue: Queue) -> Option<Duration> {
        self.0[queue as usize]
    }
}

named! {
    /// What memory is held for, as far as it is known without a look at each client.
    MemoryPart {
        /// The tables with a place for each client.
        ClientTables = "client_tables",
        /// Statements that wait, and pieces of some.
        Statements = "statements",
        /// What clients have sent that have not logged in.
        Logins = "logins",
        /// TLS handshakes that are not over.
        Handshakes = "handshakes",
        /// What clients have set and hold.
        Sessions = "sessions",
        /// Prepared statements, each text once.
        PreparedStatements = "prepared_statements",
        /// Warnings kept for SHOW WARNINGS.
        Warnings = "warnings",
        /// Backends, and what is in flight on them.
        Backends = "backends",
        /// Answers that are kept until they are whole.
        HeldAnswers = "held_answers",
        /// What is known of statements by digest.
        Digests = "digests",
        /// Replies on their way to the driver.
        Outputs = "outputs",
        /// Compressed connections.
        Compression = "compression",
    }
}

named! {
    /// What the engine bounds, by the option that sets the bound.
    Limit {
        /// How long a statement runs whose client has gone, in seconds.
        AbandonedTimeout = "abandoned_timeout",
        /// Digests of statements that are counted apart.
        DigestsSize = "digests_size",
        /// Bytes of answers that are kept until they are whole.
        HeldAnswerMemory = "held_answer_memory",
        /// How long a client that holds a backend is idle while others wait.
        IdleHoldTimeout = "idle_hold_timeout",
        /// How long a client in a transaction is idle.
        IdleTransactionTimeout = "idle_transaction_timeout",
        /// Bytes of warnings kept for SHOW WARNINGS.
        KeptWarningsMemory = "kept_warnings_memory",
        /// Bytes of what clients have sent that have not logged in.
        LoginMemory = "login_memory",
        /// Statements that wait in the long lane.
        LongQueueLimit = "long_queue_limit",
        /// How long new work waits in the long lane.
        LongQueueWaitLimit = "long_queue_wait_limit",
        /// Bytes of a statement.
        MaxAllowedPacket = "max_allowed_packet",
        /// Connections to the server.
        MaxBackends = "max_backends",
        /// Clients.
        MaxConnections = "max_connections",
        /// Prepared statements of clients.
        MaxPreparedStmtCount = "max_prepared_stmt_count",
        /// Statements that execute.
        Permits = "permits",
        /// Bytes of the texts of prepared statements.
        PreparedStatementMemory = "prepared_statement_memory",
        /// How long a statement runs.
        QueryTimeout = "query_timeout",
        /// The standing delay of the queues.
        QueueDelayTarget = "queue_delay_target",
        /// Statements that wait in the high and the low queue.
        QueueLimit = "queue_limit",
        /// How long new work waits.
        QueueWaitLimit = "queue_wait_limit",
        /// Bytes of what clients have set and hold.
        SessionMemory = "session_memory",
        /// Backends that short reads share.
        SharedBackends = "shared_backends",
        /// Bytes of statements that wait.
        StatementMemory = "statement_memory",
        /// Short reads on one of the shared backends.
        StatementsInFlight = "statements_in_flight",
        /// How long a transaction is open.
        TransactionTimeout = "transaction_timeout",
        /// How long new work waits while others go before it.
        UnfairWaitLimit = "unfair_wait_limit",
        /// Percent of the backends that other users leave.
        UserBackendsShare = "user_backends_share",
    }
}

named! {
    /// Why a client was closed by Onramp. Options are named where they have it so.
    ClosedFor {
        /// Somebody said KILL.
        Killed = "killed",
        /// It does not speak the protocol, or not in order.
        Protocol = "protocol",
        /// TLS did not come about, or broke.
        Tls = "tls",
        /// Its login failed for what the server said of its schema.
        LoginRefused = "login_refused",
        /// It took too long to log in, or the server did to be there.
        ConnectTimeout = "connect_timeout",
        /// It said nothing for too long.
        WaitTimeout = "wait_timeout",
        /// It took nothing of its reply for too long.
        NetWriteTimeout = "net_write_timeout",
        /// Its transaction was idle for too long.
        IdleTransactionTimeout = "idle_transaction_timeout",
        /// Its transaction was open for too long.
        TransactionTimeout = "transaction_timeout",
        /// It held a backend that others waited for.
        IdleHoldTimeout = "idle_hold_timeout",
        /// It was not done when Onramp ended.
        ShutdownTimeout = "shutdown_timeout",
        /// It held most of a bounded memory that was used up.
        Memory = "memory",
        /// Its backend went with something that cannot be had again.
        BackendLost = "backend_lost",
        /// There is another kind of server in the place of its own.
        ServerReplaced = "server_replaced",
        /// Onramp made a mistake.
        Defect = "defect",
    }
}

named! {
    /// Why a login was refused.
    RefusedFor {
        /// There is no such account for that address, or the password was wrong.
        Denied = "denied",
        /// The account is locked.
        Locked = "locked",
        /// The password has expired.
        Expired = "expired",
        /// It has to come by TLS, or with another certificate.
        Tls = "tls",
        /// The account has a login method that Onramp or the client does not have.
        Method = "method",
        /// The client's character set cannot be used.
        CharacterSet = "character_set",
        /// The client does not speak the protocol.
        Protocol = "protocol",
        /// The server, which was asked, refused it or could not be asked.
        Server = "server",
    }
}

/// How much of what a limit bounds is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Of what.
    pub limit: Limit,
    /// So much.
    pub in_use: u64,
    /// And the bound as it is now.
    pub bound: u64,
}
