//! How much of what there may be.

use engine::Limit;

use super::{ByEngine, Not, OFF_ON, OptionSpec, Scope, Section, Unit, always, setting, when_reached};
use crate::configuration::MOST_BACKENDS;
use crate::value::{Kind, Words};

/// How much of what there may be.
pub(super) const LIMITS: &[OptionSpec] = &[
    OptionSpec {
        name: "max_connections",
        // 64 bytes of table per possible client make 64 MiB at the upper end.
        kind: Kind::Count(1..=1_000_000, setting!(engine.max_connections)),
        example: "20000",
        doc: "Clients at the same time; one more gets error 1040. With epoll (see driver) each takes one open file, so \
              that the limit of the process (ulimit -n, LimitNOFILE) has to be higher by max_backends and some; with \
              io_uring none does.",
        section: Section::Limits,
        limit: always(ByEngine(Limit::MaxConnections), "clients", Unit::Clients, Scope::Process),
    },
    OptionSpec {
        name: "max_backends",
        kind: Kind::Count(0..=MOST_BACKENDS, setting!(engine.max_backends)),
        example: "64",
        doc: "Connections to the server at most, the service account's aside. They are opened as statements need them. Clients \
              with open transactions, locks, temporary tables or cursors hold one each. With 0 as many as the server allows: \
              its max_connections, less what others have open, less a sixteenth (at least 8) that stays free for them, and half of that \
              below a quarter of the server's connections; that is looked at every accounts_refresh. Several Onramps divide them (peers). A number has to be below the server's max_connections by a few.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::MaxBackends),
            "connections to the server",
            Unit::Backends,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "peers",
        kind: Kind::Word(&Words {
            slot: setting!(engine.counts_peers),
            words: &[("auto", true), ("off", false)],
        }),
        example: "off",
        doc: "Whether several Onramps in front of one server divide it among them (docs/CLUSTERS.md). auto: each takes a named lock on \
              the server, onramp.slot.1 to onramp.slot.16, by its service account, and asks every second who holds the others. The permits \
              and the backends for shared reads that are found (permits, shared_backends) are divided by how many have statements that wait, \
              and of the server's connections (max_backends = 0) each gets its even part, and more where the others leave it. Numbers \
              that are given are this Onramp's, and stay. A KILL reaches clients of the others. off: none of that, nor do the others count this one.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "backend_change_user",
        kind: Kind::Word(&Words { slot: setting!(engine.change_accounts), words: OFF_ON }),
        example: "off",
        doc: "Whether an idle backend becomes another account's by COM_CHANGE_USER where all places are taken (max_backends) \
              and that account's statements lack one, instead of being closed for a new connection. The server does a half to a \
              third of the work of a login then, and inside TLS a thirtieth. Where something of the former account would stay, such \
              as a default role on a MariaDB, or a login does more, as with init_connect, backends log in all the same \
              (docs/ACCOUNTS.md). What audits logins on the server sees changes of user instead.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "user_backends_share",
        kind: Kind::Count(1..=100, setting!(engine.user_backends_share)),
        example: "50",
        doc: "How many percent of the backends that other users do not use one user may use. Alone it has that much of \
              max_backends; a second user then that much of the rest, and so on. New work (see queue_limit) of a user who uses as \
              many waits until one is free where it would keep a backend (it begins a transaction, runs in one, or pins), and \
              others' goes on; after backend_connect_timeout it gets error 1205, which names this option. A statement that gives \
              its backend back at its end does not wait: permits bound how many of these run. Parts of a backend are rounded up, so that \
              of fewer than ten none is kept. 100 for no such bound.",
        section: Section::Limits,
        limit: when_reached(
            Limit::UserBackendsShare,
            "the backends that other users leave",
            Unit::Percent,
            Scope::User,
        ),
    },
    OptionSpec {
        name: "max_allowed_packet",
        // The range of the servers' variable of this name.
        kind: Kind::Size(1 << 10..=1 << 30, setting!(engine.max_allowed_packet)),
        example: "16MiB",
        doc: "The largest statement; a larger one gets error 1153. Where values of the session take the place of their names in it \
              (CONNECTION_ID(), @@session_track_system_variables), it counts with them. No use in more than the server's \
              own limit of this name.",
        section: Section::Limits,
        limit: always(ByEngine(Limit::MaxAllowedPacket), "a statement", Unit::Bytes, Scope::Statement),
    },
    OptionSpec {
        name: "large_statement_size",
        kind: Kind::Size(1 << 10..=1 << 30, setting!(engine.large_statement_size)),
        example: "256KiB",
        doc: "Statements with a longer text are read by the threads that check passwords, so that they hold up nobody else: \
              what a worker reads itself takes a millisecond at most then. Handing a text over costs some ten microseconds, \
              much less than the server takes for one of this size.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "statement_memory",
        kind: Kind::Size(1 << 20..=1 << 40, setting!(engine.statement_memory)),
        example: "1GiB",
        doc: "Memory for the waiting statements of all clients together, for what is found in them, and for large ones that the server has not taken yet; beyond it new ones get error 1041. Before that those \
              clients do, and are closed, that hold most of it with half a statement, or with long data for one. At least \
              max_allowed_packet. What compressed clients have sent of packets that are not whole has a bound of its own, of the \
              same size, and 32 MiB at least on each worker.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::StatementMemory),
            "statements that wait, with what is found in them, or are not whole",
            Unit::Bytes,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "login_memory",
        kind: Kind::Size(1 << 20..=1 << 40, setting!(engine.login_memory)),
        example: "64MiB",
        doc: "Memory for what clients have sent that have not logged in: the beginning of a login request, and with TLS, as much again, \
              handshakes that are not over. Each worker has an even share. Beyond it those end that hold most, with error 1041 where TLS has \
              not begun: of those with 2 KiB at most, which is more than a usual login keeps, the ones that have been at it for the \
              longest time.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::LoginMemory),
            "what clients have sent that have not logged in, and as much of TLS handshakes",
            Unit::Bytes,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "session_memory",
        kind: Kind::Size(1 << 20..=1 << 40, setting!(engine.session_memory)),
        example: "1GiB",
        doc: "Memory for what clients have set and hold: session states that differ, user variables, what they want to hear of their \
              sessions (session_track_system_variables), names of temporary tables and locks, and the answers that lazy_set knows, which go first. Each worker has an even share. \
              Beyond it those clients get error 1041, and are closed, that hold most; of one client nobody keeps more than 1 MiB.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::SessionMemory),
            "what clients have set and hold: session states, user variables, trackers, names, and known answers",
            Unit::Bytes,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "held_answer_memory",
        kind: Kind::Size(4 << 20..=1 << 40, setting!(engine.held_answer_memory)),
        example: "256MiB",
        doc: "Memory for answers that are kept until they are whole: lists of threads (SHOW PROCESSLIST), SHOW STATUS, and what the server \
              says of a statement that is prepared. Each worker has an even share, and 4 MiB at least. Beyond it, as beyond 1 MiB of one, lists go to their \
              clients as the server gives them, with its backends in place of clients; a statement that is prepared gets error 1041. What has \
              64 KiB at most always has its place.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::HeldAnswerMemory),
            "answers that are kept until they are whole: lists of threads, counters, of prepared statements",
            Unit::Bytes,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "queue_limit",
        // Each client has one statement waiting at most, so no more than max_connections can be reached.
        kind: Kind::Count(0..=1_000_000, setting!(engine.overload.queue_limit)),
        example: "5000",
        doc: "Statements that may wait for a permit in the high and the low queue, on all workers together; beyond it the \
              latest new work gets error 1205 at once. New work is what commits by itself, and the first statement of a \
              transaction; statements of open transactions and of clients that hold a backend are never refused. 0 for no \
              bound but max_connections, as each client has one statement waiting at most.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::QueueLimit),
            "statements that wait in the high and the low queue",
            Unit::Statements,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "long_queue_limit",
        kind: Kind::Count(0..=1_000_000, setting!(engine.overload.long_queue_limit)),
        example: "100",
        doc: "The same for statements that wait in the long lane (see long_statement_time).",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::LongQueueLimit),
            "statements that wait in the long lane",
            Unit::Statements,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "kill_abandoned",
        kind: Kind::Word(&Words { slot: setting!(engine.overload.kill_abandoned), words: OFF_ON }),
        example: "on",
        doc: "Whether a statement whose client has gone while it ran is ended with KILL QUERY. A server runs it to its end \
              for nobody, since it does not look. What it wrote is rolled back, unless the table is of an engine without \
              transactions; of a text or a procedure of several statements, those that had ended stay. COMMIT and ROLLBACK \
              go on.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "max_prepared_stmt_count",
        kind: Kind::Count(1..=100_000_000, setting!(engine.max_prepared_stmt_count)),
        example: "100000",
        doc: "Prepared statements of all clients at the same time; one more gets error 1461. Each takes 56 bytes; those of \
              the same text and session state share all else. The server's own limit of this name bounds what is \
              prepared on backends: where it is reached, those that were used longest ago are closed.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::MaxPreparedStmtCount),
            "prepared statements of clients",
            Unit::Statements,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "prepared_statement_memory",
        kind: Kind::Size(1 << 20..=1 << 40, setting!(engine.prepared_statement_memory)),
        example: "256MiB",
        doc: "Memory for the texts of different prepared statements, for what is found in them, and for the types of their parameters (two bytes each for \
              each client's statement), on each worker; beyond it new ones get error 1041.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::PreparedStatementMemory),
            "texts of prepared statements, with what is found in them",
            Unit::Bytes,
            Scope::Worker,
        ),
    },
    OptionSpec {
        name: "kept_warnings_memory",
        kind: Kind::Size(1 << 20..=1 << 40, setting!(engine.kept_warnings_memory)),
        example: "256MiB",
        doc: "Memory for the warnings and errors of clients' latest statements, which are kept for SHOW WARNINGS when the backend \
              is given back, on each worker. Beyond it the longest lists go: of these SHOW WARNINGS says how many there were, as \
              SHOW COUNT(*) WARNINGS and @@warning_count do. The list of one client is kept up to 64 KiB.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::KeptWarningsMemory),
            "warnings kept for SHOW WARNINGS",
            Unit::Bytes,
            Scope::Worker,
        ),
    },
    OptionSpec {
        name: "backend_prepared_statements",
        kind: Kind::Count(1..=65_536, setting!(engine.backend_prepared_statements)),
        example: "64",
        doc: "Statements that stay prepared on a backend for whoever executes them next. The one that was used longest ago \
              is closed for one more, and prepared again when it is needed.",
        section: Section::Limits,
        limit: always(Not, "statements that stay prepared on a backend", Unit::Statements, Scope::Backend),
    },
    OptionSpec {
        name: "failed_login_threshold",
        kind: Kind::Count(0..=1_000_000, setting!(engine.failed_logins.threshold)),
        example: "10",
        doc: "So many wrong passwords in a row, of one address or of one user from there, are refused at once; further ones \
              after failed_login_delay. A right password forgets the wrong ones of its user from its address, ten minutes \
              without a wrong one forget them all.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "failed_logins_size",
        kind: Kind::Count(16..=10_000_000, setting!(engine.failed_logins.size)),
        example: "100000",
        doc: "How many addresses, and users of addresses, with wrong passwords are remembered (see failed_login_delay); beyond \
              it the one that has been quiet for the longest time is forgotten.",
        section: Section::Limits,
        limit: always(Not, "addresses and users with wrong passwords", Unit::Addresses, Scope::Process),
    },
    OptionSpec {
        name: "digests_size",
        // The range of the servers' performance_schema_digests_size; each takes 0.4 kB and its text.
        kind: Kind::Count(0..=1_048_576, setting!(engine.digests_size)),
        example: "50000",
        doc: "Statements that differ in more than their literals and are counted apart, on each worker; what comes after \
              them is counted together, and nothing is known of how long it runs. As performance_schema_digests_size.",
        section: Section::Limits,
        limit: always(
            ByEngine(Limit::DigestsSize),
            "digests that are counted apart",
            Unit::Digests,
            Scope::Worker,
        ),
    },
    OptionSpec {
        name: "logins_per_turn",
        // 256 is as many accepts as io_uring has armed at a time.
        kind: Kind::Count(1..=256, setting!(logins_per_turn)),
        example: "64",
        doc: "New connections that a worker takes in one turn of its loop; the others wait in the kernel's queue (back_log). \
              Between two turns it serves the clients that are there, so that a storm of logins costs these no more than \
              so many logins' time a turn, some 30 microseconds each.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "receive_buffer",
        // Below a page nothing is gained; 16 MiB is the longest packet.
        kind: Kind::Size(4 << 10..=16 << 20, setting!(receive_buffer)),
        example: "256KiB",
        doc: "Bytes that one connection may bring in at a time, before the others' turn. What they are received into is \
              each worker's, not each client's.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "client_output_buffer",
        kind: Kind::Size(16 << 10..=1 << 30, setting!(client_output_buffer)),
        example: "1MiB",
        doc: "Unsent bytes of one connection from which on its sender is paused: a client that reads slowly slows its \
              backend down instead of filling memory.",
        section: Section::Limits,
        limit: always(
            Not,
            "what a client or the server has not taken, before its sender is paused",
            Unit::Bytes,
            Scope::Client,
        ),
    },
];
