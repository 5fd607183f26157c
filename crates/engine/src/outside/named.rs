//! Enums that outsiders see as one word. Each word is declared once, with its meaning, and the words are compared by their meaning.

use std::time::Duration;

use crate::outside::enum_map::EnumMap;

/// Declares an enum, and the name of each of its variants.
macro_rules! named {
    ($(#[$about:meta])* $Named:ident { $($(#[$doc:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $Named {
            $($(#[$doc])* $Variant,)+
        }

        impl $Named {
            /// All variants, in order.
            pub const ALL: &[Self] = &[$(Self::$Variant,)+];

            /// The name of the variant, in small letters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }

        impl $crate::outside::enum_map::Variants for $Named {
            type Array<V> = [V; $Named::ALL.len()];

            fn array<V>(mut value: impl FnMut(Self) -> V) -> Self::Array<V> {
                [$(value(Self::$Variant),)+]
            }

            fn all() -> &'static [Self] {
                Self::ALL
            }

            fn place(self) -> usize {
                self as usize
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
    /// The role of a server among the servers of its cluster.
    ServerRole {
        /// Nobody knows the role.
        Unknown = "unknown",
        /// The server takes writes, and others replicate from it.
        Primary = "primary",
        /// The server replicates, or takes no writes.
        Replica = "replica",
        /// A node of Galera, each of which may take writes.
        Node = "node",
    }
}

named! {
    /// The state of a server by its checks.
    ServerState {
        /// The server has not answered its first check yet.
        Untried = "untried",
        /// The server answers, and is a part of the cluster that it belongs to.
        Up = "up",
        /// The server answers and says itself that it serves nobody: a node that is not synced, a member without a majority.
        Unfit = "unfit",
        /// The server does not answer, or refuses us.
        Down = "down",
    }
}

named! {
    /// The state of a client.
    ClientState {
        /// The client waits for the server's greeting.
        Connecting = "connecting",
        /// The client logs in.
        LoggingIn = "logging_in",
        /// The client sends nothing.
        Idle = "idle",
        /// Another thread reads the client's large statement.
        Reading = "reading",
        /// The client's statement waits.
        Queued = "queued",
        /// The client waits for the answer to another client's identical read, and gets that.
        Following = "following",
        /// The client's session state is set on its backend.
        Preparing = "preparing",
        /// The client's statement runs.
        Running = "running",
        /// Onramp saves the aftermath of the client's statement.
        Settling = "settling",
        /// The client's KILL is under way.
        Killing = "killing",
        /// A replica answers the client's statement, or the statement waits for a replica.
        OnReplica = "on_replica",
    }
}

named! {
    /// The state of a backend.
    BackendState {
        /// The connection is being made.
        Connecting = "connecting",
        /// The backend logs in.
        LoggingIn = "logging_in",
        /// The backend's session is brought into the state in which backends begin.
        SettingUp = "setting_up",
        /// The session is put back to the state from before its last client.
        Resetting = "resetting",
        /// The backend has a statement.
        Running = "running",
        /// A client holds the backend and runs nothing now.
        Held = "held",
        /// Nothing runs on the backend, and nobody holds it.
        Idle = "idle",
    }
}

named! {
    /// The activity of a backend: its [`BackendState`], with the three steps of an opening as one.
    BackendActivity {
        /// The backend is being opened.
        Opening = "opening",
        /// The backend has a statement.
        Running = "running",
        /// A client holds the backend and runs nothing now.
        Held = "held",
        /// Nothing runs on the backend, and nobody holds it.
        Idle = "idle",
        /// The session is put back to the state from before its last client.
        Resetting = "resetting",
    }
}

impl BackendState {
    /// The activity of a backend that is in this state.
    pub const fn activity(self) -> BackendActivity {
        match self {
            Self::Connecting | Self::LoggingIn | Self::SettingUp => BackendActivity::Opening,
            Self::Running => BackendActivity::Running,
            Self::Held => BackendActivity::Held,
            Self::Idle => BackendActivity::Idle,
            Self::Resetting => BackendActivity::Resetting,
        }
    }
}

named! {
    /// The share that a backend has in the permits.
    PermitState {
        /// The backend has a permit.
        Held = "held",
        /// The backend's statement runs without counting against the limit: it is stalled, its client reads slowly, or it started without a
        /// permit.
        Lent = "lent",
        /// The backend has no permit.
        None = "none",
    }
}

named! {
    /// A queue of statements. The first is served first.
    Queue {
        /// Statements that wait for nobody.
        Urgent = "urgent",
        /// Statements of clients that others wait for.
        Blocking = "blocking",
        /// Statements of clients that hold locks.
        Holding = "holding",
        /// The high queue.
        High = "high",
        /// The low queue.
        Low = "low",
        /// Statements of a kind that has been long.
        Long = "long",
        /// Statements of a kind that waits for locks at present.
        Contended = "contended",
    }
}

named! {
    /// A stage of a client's way from its connection to its first statement on a backend.
    LoginStage {
        /// From the connection to our greeting. This stage waits where the server's accounts have not been read yet.
        Greeting = "greeting",
        /// From the request for TLS to the end of the handshake.
        Tls = "tls",
        /// From the connection to the client's login request: the network's part and the client's own, with TLS.
        Request = "request",
        /// From the login request to the proof of the password, questions and answers in between included. COM_CHANGE_USER counts here, too.
        Password = "password",
        /// The wait of the client's first statement for a backend.
        FirstBackend = "first_backend",
    }
}

/// The longest wait in each queue so far, of the statements that are still in it. `None` where no statement waits.
pub type LongestWaits = EnumMap<Queue, Option<Duration>>;

named! {
    /// A purpose for which memory is held, as far as that is known without a look at each client.
    MemoryPart {
        /// Tables with a slot for each client.
        ClientTables = "client_tables",
        /// Statements that wait, and pieces of statements.
        Statements = "statements",
        /// Bytes that clients have sent before their login is over.
        Logins = "logins",
        /// TLS handshakes that are not over.
        Handshakes = "handshakes",
        /// State that clients have set and hold.
        Sessions = "sessions",
        /// Prepared statements. Each text counts once.
        PreparedStatements = "prepared_statements",
        /// Warnings kept for SHOW WARNINGS.
        Warnings = "warnings",
        /// Backends and the statements in flight on them.
        Backends = "backends",
        /// Answers that Onramp keeps until they are whole.
        HeldAnswers = "held_answers",
        /// Digests and the numbers that are counted of them.
        Digests = "digests",
        /// Replies on their way to the driver.
        Outputs = "outputs",
        /// Compressed connections.
        Compression = "compression",
    }
}

named! {
    /// A quantity that the engine bounds, named for the option that sets the bound.
    Limit {
        /// Seconds for which a statement runs after its client has gone.
        AbandonedTimeout = "abandoned_timeout",
        /// Digests of statements that are counted apart from each other.
        DigestsSize = "digests_size",
        /// Bytes of answers that Onramp keeps until they are whole.
        HeldAnswerMemory = "held_answer_memory",
        /// The idle time of a client that holds a backend while others wait.
        IdleHoldTimeout = "idle_hold_timeout",
        /// The idle time of a client in a transaction.
        IdleTransactionTimeout = "idle_transaction_timeout",
        /// Bytes of warnings kept for SHOW WARNINGS.
        KeptWarningsMemory = "kept_warnings_memory",
        /// Bytes that clients have sent before their login is over.
        LoginMemory = "login_memory",
        /// Statements that wait in the long lane.
        LongQueueLimit = "long_queue_limit",
        /// The time that new work waits in the long lane.
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
        /// The time that a statement runs.
        QueryTimeout = "query_timeout",
        /// The standing delay of the queues.
        QueueDelayTarget = "queue_delay_target",
        /// Statements that wait in the high and the low queue.
        QueueLimit = "queue_limit",
        /// The time that new work waits.
        QueueWaitLimit = "queue_wait_limit",
        /// Bytes of the state that clients have set and hold.
        SessionMemory = "session_memory",
        /// Backends that short reads share.
        SharedBackends = "shared_backends",
        /// Bytes of statements that wait.
        StatementMemory = "statement_memory",
        /// Short reads on one of the shared backends.
        StatementsInFlight = "statements_in_flight",
        /// The time that a transaction is open.
        TransactionTimeout = "transaction_timeout",
        /// The time that new work waits while other work goes before it.
        UnfairWaitLimit = "unfair_wait_limit",
        /// Percent of the backends, of those that other users leave.
        UserBackendsShare = "user_backends_share",
    }
}

named! {
    /// The reason for which Onramp closed a client. A reason has the name of the option that set the bound, where there is one.
    ClosedFor {
        /// Somebody sent KILL.
        Killed = "killed",
        /// The client does not speak the protocol, or sends its packets out of order.
        Protocol = "protocol",
        /// TLS did not come about, or broke.
        Tls = "tls",
        /// The client's login failed, for what the server said of its schema.
        LoginRefused = "login_refused",
        /// The client took too long to log in, or the server took too long to be there.
        ConnectTimeout = "connect_timeout",
        /// The client sent nothing for too long.
        WaitTimeout = "wait_timeout",
        /// The client took nothing of its reply for too long.
        NetWriteTimeout = "net_write_timeout",
        /// The client's transaction was idle for too long.
        IdleTransactionTimeout = "idle_transaction_timeout",
        /// The client's transaction was open for too long.
        TransactionTimeout = "transaction_timeout",
        /// The client held a backend that others waited for.
        IdleHoldTimeout = "idle_hold_timeout",
        /// The client was not done when Onramp ended.
        ShutdownTimeout = "shutdown_timeout",
        /// The client held most of a bounded memory that was used up.
        Memory = "memory",
        /// The client's backend was lost, with something that cannot be had again.
        BackendLost = "backend_lost",
        /// Another kind of server is in the place of the client's own.
        ServerReplaced = "server_replaced",
        /// Onramp made a mistake.
        Defect = "defect",
    }
}

named! {
    /// The reason for which a login was refused.
    RefusedFor {
        /// There is no such account for that address, or the password was wrong.
        Denied = "denied",
        /// The account is locked.
        Locked = "locked",
        /// The password has expired.
        Expired = "expired",
        /// The account requires TLS, or another certificate.
        Tls = "tls",
        /// The account has a login method that Onramp or the client does not have.
        Method = "method",
        /// The client's character set cannot be used.
        CharacterSet = "character_set",
        /// The client does not speak the protocol.
        Protocol = "protocol",
        /// The server, which was asked, refused the login or could not be asked.
        Server = "server",
    }
}

/// A limit, how much of it is in use, and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The limit that is bounded.
    pub limit: Limit,
    /// The amount in use.
    pub in_use: u64,
    /// The bound as it is now.
    pub bound: u64,
}
