//! The one table of options. Everything else about them (flags, environment names, the file's keys, the help text, the
//! reference page) follows from it.

use std::time::Duration;

use drivers::DriverChoice;
use engine::{HighPrioMode, Profile, ThreadHandling};

use crate::LogLevel;
use crate::value::Kind;

/// One option, declared once.
pub(crate) struct OptionSpec {
    /// Its name as the file's key. The flag is `--` and the name with `-` for `_`; the environment name is `ONRAMP_`
    /// and the name in capitals.
    pub(crate) name: &'static str,
    /// What kind of value, its range, and where it goes.
    pub(crate) kind: Kind,
    /// The default, in the words a user would write; empty for none.
    pub(crate) default: &'static str,
    /// A value that somebody might really use.
    pub(crate) example: &'static str,
    /// The first sentence is the summary of `onramp serve --help`.
    pub(crate) doc: &'static str,
    /// Under which heading it stands.
    pub(crate) section: Section,
}

impl OptionSpec {
    /// The flag, with its dashes.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// The environment variable.
    pub(crate) fn environment(&self) -> String {
        format!("ONRAMP_{}", self.name.to_ascii_uppercase())
    }

    /// The option of this name, with `-` or `_`.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        let known = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = known.map_or(&*name, |(_, name)| name);
        OPTIONS.iter().find(|option| option.name == name)
    }
}

/// Headings of the help text and the reference page, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Addresses,
    Scheduling,
    Limits,
    Timeouts,
    AdminPort,
    PrivateServer,
    Program,
}

impl Section {
    pub(crate) const ALL: [Self; 7] = [
        Self::Addresses,
        Self::Scheduling,
        Self::Limits,
        Self::Timeouts,
        Self::AdminPort,
        Self::PrivateServer,
        Self::Program,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Addresses => "Addresses",
            Self::Scheduling => "Scheduling",
            Self::Limits => "Limits",
            Self::Timeouts => "Timeouts",
            Self::AdminPort => "Admin port",
            Self::PrivateServer => "Private server",
            Self::Program => "Program",
        }
    }
}

/// Names under which some options are known from in-server thread pools.
pub(crate) const OTHER_NAMES: [(&str, &str); 3] = [
    ("thread_pool_size", "workers"),
    ("admin_port", "admin_listen"),
    ("thread_pool_idle_timeout", "backend_idle_timeout"),
];

/// The option that names the file itself, and so cannot stand in it.
pub(crate) const FILE_OPTION: &str = "config";

const SECOND: Duration = Duration::from_secs(1);
/// As far as the servers' own time variables go (`wait_timeout`, `net_write_timeout`: 31536000 s).
const YEAR: Duration = Duration::from_secs(31_536_000);

pub(crate) static OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "backend",
        kind: Kind::Backends,
        default: "",
        example: "mysql://onramp:secret@10.0.0.5:3306/",
        doc: "The server, as mysql://user:password@host:port/ or mysql://user:password@localhost/?socket=/path. \
              Without one, a private server is started (see data_dir). User and password are the service account's, \
              which reads the server's accounts; parts that hold one of `:/?#[]@%` are percent-encoded. Given more \
              than once, these are addresses of one and the same server, tried in order, from the one that answered \
              last; all carry the same user and password. A host name stands for all of its addresses; it is looked \
              up once, at the start. Put a password into the file or the environment rather than on the command \
              line, where everybody on the machine can read it.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "listen",
        kind: Kind::Listeners(|configuration| &mut configuration.listen),
        default: "127.0.0.1:3306",
        example: "0.0.0.0:3306",
        doc: "Where clients connect. What starts with / or unix: is the path of a Unix socket. Port 0 lets the system \
              choose one; the ready line says which.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "back_log",
        // A 16-bit number in the kernel's interface; 1 is the least that works.
        kind: Kind::Count(1..=65_535, |configuration| &mut configuration.back_log),
        // The kernel caps it to net.core.somaxconn, 4096 since Linux 5.4.
        default: "4096",
        example: "16384",
        doc: "Connections that the kernel holds until they are accepted, per address. The kernel caps it to \
              net.core.somaxconn.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "thread_handling",
        kind: Kind::Word(&[
            ("pool-of-threads", |configuration| {
                configuration.engine.thread_handling = ThreadHandling::PoolOfThreads;
            }),
            ("one-thread-per-connection", |configuration| {
                configuration.engine.thread_handling = ThreadHandling::OneThreadPerConnection;
            }),
        ]),
        default: "pool-of-threads",
        example: "one-thread-per-connection",
        doc: "How clients share the server: few backends with permits and queues, or a backend per client and no \
              queue. The second is there for comparison.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "workers",
        // More loops than cores would only wait for each other; 1024 is what in-server pools allow.
        kind: Kind::Count(1..=1024, |configuration| &mut configuration.workers),
        default: "1",
        example: "4",
        doc: "Event loops, each a thread with its own share of the clients and backends; permits and all limits are \
              common to them. One serves over 100,000 short statements a second; \
              where Onramp has cores to itself and needs more than one of them, raise it. Known as thread_pool_size too.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_profile",
        kind: Kind::Word(&[
            ("native", |configuration| configuration.engine.profile = Profile::Native),
            ("percona", |configuration| configuration.engine.profile = Profile::Percona),
            ("mariadb", |configuration| configuration.engine.profile = Profile::MariaDb),
            ("mysql", |configuration| configuration.engine.profile = Profile::MySql),
        ]),
        default: "native",
        example: "percona",
        doc: "Whose rules decide which statement runs when: Onramp's own, or those of a server's thread pool with that               pool's defaults for all options of this section. There each worker is one of that pool's groups, with               permits of its own (thread_pool_size of them: as many as cores, half as many in MySQL). docs/SCHEDULING.md               compares them.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_oversubscribe",
        // Percona's range is 1 to 1000, MariaDB's goes to 65536.
        kind: Kind::Count(1..=65_536, |configuration| &mut configuration.engine.oversubscribe),
        default: "3",
        example: "10",
        doc: "In the profiles percona and mariadb: a worker executes so many statements at a time beyond the first.               Onramp's own rules have permits in its place.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_max_threads",
        kind: Kind::Count(1..=100_000, |configuration| &mut configuration.engine.max_threads),
        default: "100000",
        example: "500",
        doc: "In the profiles percona and mariadb: statements that execute at a time in all, those that are stalled               included. Onramp's own rules have max_backends in its place, which holds in every profile.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_query_threads_per_group",
        kind: Kind::Count(1..=4096, |configuration| &mut configuration.engine.query_threads_per_group),
        default: "2",
        example: "4",
        doc: "In the profile mysql, where thread_pool_max_transactions_limit is 0: statements that a worker executes at a               time (one more, as in that pool).",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_max_transactions_limit",
        kind: Kind::Count(0..=1_000_000, |configuration| &mut configuration.engine.max_transactions_limit),
        default: "0",
        example: "512",
        doc: "In the profile mysql: transactions that are open at a time, a single statement being one; the others wait.               0 for no such limit. That profile's default is 32 for each worker, 512 at most.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_longrun_trx_limit",
        // The range of MySQL's variable, in milliseconds as there.
        kind: Kind::Milliseconds(Duration::from_millis(10)..=Duration::from_secs(86_400), |configuration| {
            &mut configuration.engine.longrun_trx_limit
        }),
        default: "2000",
        example: "500",
        doc: "In the profile mysql: where as many transactions as may be open have lasted for this long, that limit is \
              suspended for some seconds. Milliseconds.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "permits",
        // A server with more running threads than this spends its time switching between them.
        kind: Kind::Count(1..=4096, |configuration| &mut configuration.engine.permits),
        default: "16",
        example: "32",
        doc: "Statements that execute on the server at the same time; the others wait in the queues. What in-server \
              pools call active threads. A good start is twice to four times the server's cores.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "statements_in_flight",
        // Beyond this, one slow statement at the head keeps too many clients waiting.
        kind: Kind::Count(1..=1024, |configuration| &mut configuration.engine.statements_in_flight),
        default: "16",
        example: "1",
        doc: "Statements that are sent to one backend before the first of them is answered. 1 turns that off.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "shared_backends",
        kind: Kind::Count(1..=4096, |configuration| &mut configuration.engine.shared_backends),
        default: "4",
        example: "8",
        doc: "Backends on which the short reads of one user and session state run, several in flight on each (see \
              statements_in_flight). As many as the server has cores is a good start: more make its threads sleep and \
              wake more often for the same work.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_high_prio_mode",
        kind: Kind::Word(&[
            ("transactions", |configuration| {
                configuration.engine.high_prio_mode = HighPrioMode::Transactions;
            }),
            ("statements", |configuration| {
                configuration.engine.high_prio_mode = HighPrioMode::Statements;
            }),
            ("none", |configuration| {
                configuration.engine.high_prio_mode = HighPrioMode::None;
            }),
        ]),
        default: "transactions",
        example: "none",
        doc: "Which statements wait in the high queue, as in Percona Server: those of open transactions, all, or none.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_high_prio_tickets",
        kind: Kind::Count(0..=u32::MAX, |configuration| &mut configuration.engine.high_prio_tickets),
        default: "4294967295",
        example: "100",
        doc: "How many times in a row a client may enter the high queue, as in Percona Server.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_stall_limit",
        // MySQL's range starts at 40 ms (4 units of 10 ms), Percona's at 10 ms.
        kind: Kind::Milliseconds(Duration::from_millis(10)..=Duration::from_secs(600), |configuration| {
            &mut configuration.engine.stall_limit
        }),
        default: "60",
        example: "500",
        doc: "A statement that has run this long lends its permit to others until its end: it may be waiting for a lock \
              that they hold. Milliseconds, as in MariaDB; the default is MySQL's.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "long_statement_time",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.long_statement_time
        }),
        // The longest stall limit of the servers' own pools (MariaDB's and Percona's): what runs longer is a stall to each
        // of them.
        default: "500ms",
        example: "2s",
        doc: "Statements whose like has run for this long or longer lately (their digest's p99) wait in a queue of their \
              own, the long lane, so that they never take all permits; those of open transactions and of clients that may \
              hold locks do not. 0s turns the lane off.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "long_permits",
        kind: Kind::Count(0..=4096, |configuration| &mut configuration.engine.long_permits),
        // With two to four permits for each core of the server, a quarter of them still keeps half of the cores or all of
        // them at work where nothing but long statements comes.
        default: "0",
        example: "2",
        doc: "How many permits the statements of the long lane may have at a time, on all workers together. 0 stands for a \
              quarter of the permits, and at least 1.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_transaction_delay",
        // The range of MySQL's variable, in milliseconds as there.
        kind: Kind::Milliseconds(Duration::ZERO..=Duration::from_secs(300), |configuration| {
            &mut configuration.engine.transaction_delay
        }),
        default: "0",
        example: "50",
        doc: "The first statement of each transaction, and a statement outside of one, is queued after this long, to slow new \
              work down. Milliseconds, as in MySQL; there the delay occupies a thread, here nothing.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "lock_wait_interval",
        // InnoDB makes its tables of lock waits anew every 100 ms at most.
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.lock_wait_interval
        }),
        default: "100ms",
        example: "0s",
        doc: "How often the server is asked, at most, who waits for whose row locks: only while a statement takes longer than \
              its like does and others wait. Who is waited for then goes first. The service account needs PROCESS for it, on \
              MySQL 8 also SELECT on performance_schema. 0s never asks.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "thread_pool_prio_kickup_timer",
        kind: Kind::Milliseconds(Duration::ZERO..=Duration::from_millis(u32::MAX as u64), |configuration| {
            &mut configuration.engine.prio_kickup_timer
        }),
        default: "1000",
        example: "200",
        doc: "After this long in the low queue a statement moves to the high one. Milliseconds, as in MariaDB and \
              MySQL.",
        section: Section::Scheduling,
    },
    OptionSpec {
        name: "max_connections",
        // 64 bytes of table per possible client make 64 MiB at the upper end.
        kind: Kind::Count(1..=1_000_000, |configuration| &mut configuration.engine.max_connections),
        default: "100000",
        example: "20000",
        doc: "Clients at the same time; one more gets error 1040. Each takes one open file, so the limit of the \
              process (ulimit -n, LimitNOFILE) has to be higher by max_backends and some.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "max_backends",
        kind: Kind::Count(1..=16_384, |configuration| &mut configuration.engine.max_backends),
        default: "128",
        example: "64",
        doc: "Connections to the server, the service account's aside. The server's own max_connections has to be \
              higher by a few. Clients with open transactions, locks, temporary tables or prepared statements hold \
              one each.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "max_allowed_packet",
        // The range of the servers' variable of this name.
        kind: Kind::Size(1 << 10..=1 << 30, |configuration| &mut configuration.engine.max_allowed_packet),
        default: "64MiB",
        example: "16MiB",
        doc: "The largest statement; a larger one gets error 1153. No use in more than the server's own limit of this \
              name.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "statement_memory",
        kind: Kind::Size(1 << 20..=1 << 40, |configuration| &mut configuration.engine.statement_memory),
        default: "256MiB",
        example: "1GiB",
        doc: "Memory for the waiting statements of all clients together; beyond it new ones get error 1041. At least \
              max_allowed_packet.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "queue_limit",
        // Each client has one statement waiting at most, so no more than max_connections can be reached.
        kind: Kind::Count(0..=1_000_000, |configuration| &mut configuration.engine.overload.queue_limit),
        default: "0",
        example: "5000",
        doc: "Statements that may wait for a permit in the high and the low queue, on all workers together; beyond it the \
              latest new work gets error 1205 at once. New work is what commits by itself, and the first statement of a \
              transaction; statements of open transactions and of clients that hold a backend are never refused. 0 for no \
              bound but max_connections, as each client has one statement waiting at most.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "long_queue_limit",
        kind: Kind::Count(0..=1_000_000, |configuration| &mut configuration.engine.overload.long_queue_limit),
        default: "0",
        example: "100",
        doc: "The same for statements that wait in the long lane (see long_statement_time).",
        section: Section::Limits,
    },
    OptionSpec {
        name: "kill_abandoned",
        kind: Kind::Word(&[
            ("off", |configuration| configuration.engine.overload.kill_abandoned = false),
            ("on", |configuration| configuration.engine.overload.kill_abandoned = true),
        ]),
        default: "off",
        example: "on",
        doc: "Whether a statement whose client has gone while it ran is ended with KILL QUERY. A server runs it to its end \
              for nobody, since it does not look. What it wrote is rolled back, unless the table is of an engine without \
              transactions; of a text or a procedure of several statements, those that had ended stay. COMMIT and ROLLBACK \
              go on.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "digests_size",
        // The range of the servers' performance_schema_digests_size; each takes 0.4 kB and its text.
        kind: Kind::Count(0..=1_048_576, |configuration| &mut configuration.engine.digests_size),
        default: "10000",
        example: "50000",
        doc: "Statements that differ in more than their literals and are counted apart, on each worker; what comes after \
              them is counted together, and nothing is known of how long it runs. As performance_schema_digests_size.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "receive_buffer",
        // Below a page nothing is gained; 16 MiB is the longest packet.
        kind: Kind::Size(4 << 10..=16 << 20, |configuration| &mut configuration.receive_buffer),
        default: "64KiB",
        example: "256KiB",
        doc: "Bytes that one receive may bring. There is one such buffer, not one per client.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "client_output_buffer",
        kind: Kind::Size(16 << 10..=1 << 30, |configuration| &mut configuration.client_output_buffer),
        default: "256KiB",
        example: "1MiB",
        doc: "Unsent bytes of one connection from which on its sender is paused: a client that reads slowly slows its \
              backend down instead of filling memory.",
        section: Section::Limits,
    },
    OptionSpec {
        name: "queue_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.queue_wait_limit
        }),
        default: "0s",
        example: "2s",
        doc: "New work (see queue_limit) that has waited this long in the high or low queue gets error 1205 instead of \
              going on to wait for a permit or a backend. Best a little less than what the clients' own patience is: what \
              runs later than that, runs for nobody. 0s for as long as it takes.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "long_queue_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.long_queue_wait_limit
        }),
        default: "0s",
        example: "1m",
        doc: "The same for the long lane (see long_statement_time).",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "queue_delay_target",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.queue_delay_target
        }),
        default: "0s",
        example: "100ms",
        doc: "The delay that may stand. Where each statement that started within queue_delay_interval had waited longer \
              than this, more comes than the server can do: from then on new work (see queue_limit) that has waited for \
              this long gets error 1205, until nothing has had to be refused for an interval. Bursts that are over within an \
              interval cause no errors. The estimate is that of CoDel (RFC 8289). 0s turns it off.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "queue_delay_interval",
        // Below some turns of an event loop there is nothing to judge by.
        kind: Kind::Duration(Duration::from_millis(1)..=YEAR, |configuration| {
            &mut configuration.engine.overload.queue_delay_interval
        }),
        default: "100ms",
        example: "500ms",
        doc: "How long a burst may last, see queue_delay_target. The default is CoDel's.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "connect_timeout",
        kind: Kind::Duration(SECOND..=YEAR, |configuration| &mut configuration.engine.connect_timeout),
        default: "10s",
        example: "5s",
        doc: "How long a login may take, from the greeting on.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "backend_connect_timeout",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, |configuration| {
            &mut configuration.engine.backend_connect_timeout
        }),
        default: "10s",
        example: "30s",
        doc: "How long a statement waits for a server that cannot be reached, or for a free backend. Then its client \
              gets an error.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "query_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.query_timeout
        }),
        default: "0s",
        example: "30s",
        doc: "A statement that has run on the server for this long is ended with KILL QUERY; its client gets the server's \
              error 1317. Its time in a queue does not count, nor does COMMIT or ROLLBACK end this way. 0s for as long as \
              it takes.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "transaction_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.transaction_timeout
        }),
        default: "0s",
        example: "5m",
        doc: "A transaction that has been open for this long is rolled back and its connection ended: a running statement \
              with KILL QUERY and error 1317, else with error 1927 in answer to the next one. COMMIT and ROLLBACK under way \
              go on. Looked at once a second. 0s for as long as it takes.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "idle_transaction_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.overload.idle_transaction_timeout
        }),
        default: "0s",
        example: "30s",
        doc: "A transaction whose client has sent nothing for this long is rolled back at once, so that nobody waits for its \
              locks any more; the client's next command gets error 1159, and its connection ends. As MariaDB's variable of \
              this name, which closes the connection at once. Looked at once a second. 0s for as long as it takes.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "backend_idle_timeout",
        kind: Kind::Duration(SECOND..=YEAR, |configuration| &mut configuration.engine.backend_idle_timeout),
        default: "1m",
        example: "5m",
        doc: "Idle backends are closed after this long. Keep it below the server's wait_timeout.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "wait_timeout",
        kind: Kind::Duration(SECOND..=YEAR, |configuration| &mut configuration.engine.wait_timeout),
        default: "8h",
        example: "10m",
        doc: "A client that sends nothing for this long is closed.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "net_write_timeout",
        kind: Kind::Duration(SECOND..=YEAR, |configuration| &mut configuration.engine.net_write_timeout),
        default: "1m",
        example: "30s",
        doc: "A client that takes none of its reply for this long is closed.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "shutdown_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, |configuration| {
            &mut configuration.engine.shutdown_timeout
        }),
        default: "30s",
        example: "5m",
        doc: "How long open transactions may go on after the first SIGTERM or SIGINT.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "accounts_refresh",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, |configuration| {
            &mut configuration.engine.accounts_refresh
        }),
        default: "1s",
        example: "10s",
        doc: "The server's accounts are read again after this long. A login that fails asks for a fresh copy by itself.",
        section: Section::Timeouts,
    },
    OptionSpec {
        name: "admin_listen",
        kind: Kind::Listeners(|configuration| &mut configuration.admin_listen),
        default: "",
        example: "127.0.0.1:33062",
        doc: "Where the admin port is: every MySQL client can look into Onramp there with real SQL, and give it orders \
              (docs/ADMIN.md). As listen. Without one there is none. It speaks no TLS: keep it to this machine or to a \
              network of your own. Known as admin_port too.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_user",
        kind: Kind::Text(|configuration| &mut configuration.admin_user),
        default: "admin",
        example: "operator",
        doc: "The one user that may log in to the admin port. It has nothing to do with the server's accounts.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_password",
        kind: Kind::Secret(|configuration| &mut configuration.admin_password),
        default: "",
        example: "correct-horse",
        doc: "The password of admin_user. Without one, that of the private server's account admin counts (see data_dir); \
              with a server of your own, one has to be set. Put it into the file or the environment rather than on the \
              command line, where everybody on the machine can read it.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_max_connections",
        // Each is a thread that may hold a result of 64 MiB.
        kind: Kind::Count(1..=1000, |configuration| &mut configuration.admin_max_connections),
        default: "10",
        example: "3",
        doc: "Connections to the admin port at the same time; one more gets error 1040.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "data_dir",
        kind: Kind::Path(|configuration| &mut configuration.data_dir),
        default: "./onramp-data",
        example: "/var/lib/onramp",
        doc: "Where the private server keeps its data, its log and the passwords of its accounts. Created by the \
              first start. Not used where a backend is given.",
        section: Section::PrivateServer,
    },
    OptionSpec {
        name: "server_directory",
        kind: Kind::Path(|configuration| &mut configuration.server_directory),
        default: "",
        example: "/opt/mariadb/bin",
        doc: "The folder with the private server's programs (mariadbd and mariadb-install-db, or mysqld). Without it \
              they are looked for in PATH, /usr/sbin, /usr/bin and /usr/libexec.",
        section: Section::PrivateServer,
    },
    OptionSpec {
        name: FILE_OPTION,
        kind: Kind::Path(|configuration| &mut configuration.file),
        default: "",
        example: "/etc/onramp.toml",
        doc: "A file with options, one `name = value` a line (TOML). No file is read unless one is named here.",
        section: Section::Program,
    },
    OptionSpec {
        name: "driver",
        kind: Kind::Word(&[
            ("auto", |configuration| configuration.driver = DriverChoice::Auto),
            ("uring", |configuration| configuration.driver = DriverChoice::Uring),
            ("epoll", |configuration| configuration.driver = DriverChoice::Epoll),
        ]),
        default: "auto",
        example: "epoll",
        doc: "What the event loops run on. With uring (io_uring) clients cost no file descriptors, so that 100,000 of them \
              fit under any limit of open files. auto takes it where the kernel allows it, else epoll, and says why.",
        section: Section::Program,
    },
    OptionSpec {
        name: "log_level",
        kind: Kind::Word(&[
            ("error", |configuration| {
                configuration.log_level = LogLevel::Error;
            }),
            ("warn", |configuration| {
                configuration.log_level = LogLevel::Warn;
            }),
            ("info", |configuration| {
                configuration.log_level = LogLevel::Info;
            }),
            ("debug", |configuration| {
                configuration.log_level = LogLevel::Debug;
            }),
            ("trace", |configuration| {
                configuration.log_level = LogLevel::Trace;
            }),
        ]),
        default: "info",
        example: "debug",
        doc: "The least important lines that are still logged, to the standard error stream.",
        section: Section::Program,
    },
];
