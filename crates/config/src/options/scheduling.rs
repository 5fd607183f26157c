//! Which statement runs when.

use std::time::Duration;

use engine::{HighPrioMode, Limit, PoolPriority, Profile, ThreadHandling};

use super::{ByEngine, Not, OFF_ON, OptionSpec, Scope, Section, Unit, YEAR, always, setting};
use crate::value::{Kind, Words};

/// Which statement runs when.
pub(super) const SCHEDULING: &[OptionSpec] = &[
    OptionSpec {
        name: "thread_handling",
        kind: Kind::Word(&Words {
            slot: setting!(engine.thread_handling),
            words: &[
                ("pool-of-threads", ThreadHandling::PoolOfThreads),
                ("one-thread-per-connection", ThreadHandling::OneThreadPerConnection),
            ],
        }),
        example: "one-thread-per-connection",
        doc: "How clients share the server: few backends with permits and queues, or a backend per client and no \
              queue. The second is there for comparison, and for a look ahead: the admin port's tables pins and \
              pin_causes and Onramp_multiplexed_percent then say what would be multiplexed, and why the rest would not.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "workers",
        // More loops than cores would only wait for each other; 1024 is what in-server pools allow.
        kind: Kind::Count(1..=1024, setting!(workers)),
        example: "4",
        doc: "Event loops, each a thread with its own share of the clients and backends; permits and all limits are \
              common to them. One serves over 100,000 short statements a second; \
              where Onramp has cores to itself and needs more than one of them, raise it. Known as thread_pool_size too.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_profile",
        kind: Kind::Word(&Words {
            slot: setting!(engine.profile),
            words: &[
                ("native", Profile::Native),
                ("percona", Profile::Percona),
                ("mariadb", Profile::MariaDb),
                ("mysql", Profile::MySql),
            ],
        }),
        example: "percona",
        doc: "Whose rules decide which statement runs when: Onramp's own, or those of a server's thread pool with that pool's \
              defaults for all options of this section. There each worker is one of that pool's groups, with permits of its \
              own (thread_pool_size of them: as many as cores, half as many in MySQL). docs/SCHEDULING.md compares them.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_oversubscribe",
        // Percona's range is 1 to 1000, MariaDB's goes to 65536.
        kind: Kind::Count(1..=65_536, setting!(engine.oversubscribe)),
        example: "10",
        doc: "In the profiles percona and mariadb: a worker executes so many statements at a time beyond the first. Onramp's \
              own rules have permits in its place.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_max_threads",
        kind: Kind::Count(1..=100_000, setting!(engine.max_threads)),
        example: "500",
        doc: "In the profiles percona and mariadb: statements that execute at a time in all, those that are stalled included. \
              Onramp's own rules have max_backends in its place, which holds in every profile.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_query_threads_per_group",
        kind: Kind::Count(1..=4096, setting!(engine.query_threads_per_group)),
        example: "4",
        doc: "In the profile mysql, where thread_pool_max_transactions_limit is 0: statements that a worker executes at a \
              time (one more, as in that pool).",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_max_transactions_limit",
        kind: Kind::Count(0..=1_000_000, setting!(engine.max_transactions_limit)),
        example: "512",
        doc: "In the profile mysql: transactions that are open at a time, a single statement being one; the others wait. 0 \
              for no such limit. That profile's default is 32 for each worker, 512 at most.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_longrun_trx_limit",
        // The range of MySQL's variable, in milliseconds as there.
        kind: Kind::Milliseconds(
            Duration::from_millis(10)..=Duration::from_secs(86_400),
            setting!(engine.longrun_trx_limit),
        ),
        example: "500",
        doc: "In the profile mysql: where as many transactions as may be open have lasted for this long, that limit is \
              suspended for some seconds. Milliseconds.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "permits",
        kind: Kind::Count(0..=4096, setting!(engine.permits)),
        example: "32",
        doc: "Statements that execute on the server at the same time; the others wait in the queues. What in-server \
              pools call active threads. With 0 the limit finds itself between permits_min and permits_max: it begins with 16, is moved a \
              step for a moment, back, and to where the most work is done, and follows when the load or the server changes. Of a server that \
              is half a millisecond away or more, there and back, it is how many may be there at a time: what is on the way comes on top. Kinds of \
              statements that take a millisecond or more, and no longer than ever while others run beside them, mostly wait: they count for a \
              part of a permit, a quarter or more, so that up to four times as many run, and permits_max at most. A number \
              fixes it, and has each count in full: twice to four times the server's cores is a good start where its data are in memory. Of 16 backends and more \
              (max_backends) at most seven eighths: a lock can stop all that have permits.",
        section: Section::Scheduling,
        limit: always(ByEngine(Limit::Permits), "statements that execute", Unit::Permits, Scope::Process),
    },
    OptionSpec {
        name: "permits_min",
        kind: Kind::Count(1..=4096, setting!(engine.permits_min)),
        example: "8",
        doc: "With permits = 0: how many there are at least.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "permits_max",
        kind: Kind::Count(0..=4096, setting!(engine.permits_max)),
        example: "64",
        doc: "With permits = 0: how many there are at most. Not below permits_min. 0 stands for as many as the backends have use for \
              (max_backends), of 16 and more seven eighths.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "statements_in_flight",
        // Beyond this, one slow statement at the head keeps too many clients waiting.
        kind: Kind::Count(0..=1024, setting!(engine.statements_in_flight)),
        example: "1",
        doc: "Statements that are sent to one backend before the first of them is answered. 1 turns that off. With 0 the \
              number finds itself between 4 and 64, as permits does.",
        section: Section::Scheduling,
        limit: always(
            ByEngine(Limit::StatementsInFlight),
            "short reads on one of these",
            Unit::Statements,
            Scope::Backend,
        ),
    },
    OptionSpec {
        name: "shared_backends",
        kind: Kind::Count(0..=4096, setting!(engine.shared_backends)),
        example: "8",
        doc: "Backends on which short reads run, several in flight on each (see statements_in_flight). Those of one user and session \
              state share a backend. Where several users have reads to send, each has as many of these backends as the others, and \
              of what a user has each of its session states, at least one. Where a user has more than twice as many states, those that differ \
              in their schema alone share all of these, and a read chooses its schema in one text with it. As many as the server has cores is a good number: more make its threads sleep and wake more often for the same \
              work. A kind of read that was stuck in the last ten seconds (20 ms or more) has as many of its own. With 0 the number \
              finds itself between 4 and 64, as permits does, but that twice as many have to bring a fifth more; while half of \
              them or more are at work, permits that are found are no fewer.",
        section: Section::Scheduling,
        limit: always(
            ByEngine(Limit::SharedBackends),
            "backends that short reads share",
            Unit::Backends,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "coalesce_reads",
        kind: Kind::Word(&Words { slot: setting!(engine.coalescing.reads), words: OFF_ON }),
        example: "on",
        doc: "Whether identical reads that wait together run once: plain SELECTs outside of transactions with the same text to \
              the byte, of one user in one session state, that are still queued are answered by one execution, which begins \
              after the last of them arrived. Only those whose every function is built in and deterministic, that lock \
              nothing and read no variable. What a view calls is not seen: leave this off where reads go through views with \
              functions that write, draw lots or tell the time.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "coalesced_reads_max",
        // As many as there are clients by default; beyond it one reply would fill memory.
        kind: Kind::Count(1..=100_000, setting!(engine.coalescing.most)),
        example: "200",
        doc: "With coalesce_reads: so many statements wait for the answer to another one at most; who comes then starts the next \
              group. Times coalesced_reply_size, this is what one reply can put into the buffers of connections at a time.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "coalesced_reply_size",
        // Below a kibibyte hardly any reply is shared; beyond a mebibyte copying costs more than running again.
        kind: Kind::Size(1 << 10..=1 << 20, setting!(engine.coalescing.reply_size)),
        example: "16KiB",
        doc: "With coalesce_reads: a reply is collected up to this size. A larger one goes to the first of the group as it comes, \
              the others run by themselves, and their kind is not coalesced for 64 executions. Each backend holds so much at most.",
        section: Section::Scheduling,
        limit: always(Not, "an answer that several clients get", Unit::Bytes, Scope::Statement),
    },
    OptionSpec {
        name: "carry_user_variables",
        kind: Kind::Word(&Words { slot: setting!(engine.carry_user_variables), words: OFF_ON }),
        example: "off",
        doc: "Whether user variables that are set to literals (SET @name = 1) follow their client from backend to backend: they \
              are set again ahead of every statement but plain reads, where they differ there. Without it, and for variables that \
              are set in any other way, a client that uses them keeps its backend.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "lazy_begin",
        kind: Kind::Word(&Words { slot: setting!(engine.lazy_begin), words: OFF_ON }),
        example: "off",
        doc: "Whether BEGIN and START TRANSACTION [READ ONLY] are answered by Onramp, and go to the server ahead of the next \
              statement, in the same text. A transaction in which nothing has happened yet holds no backend then, and costs no \
              round trip.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "lazy_set",
        kind: Kind::Word(&Words { slot: setting!(engine.lazy_set), words: OFF_ON }),
        example: "off",
        doc: "Whether a SET of usual session variables to literals (SET NAMES utf8mb4, SET autocommit=0, SET SESSION TRANSACTION \
              ISOLATION LEVEL ...) is answered by Onramp where the server has answered the same to a client in the same session \
              state. What it sets goes ahead of the client's next statement, in the same text. So is a SELECT of nothing but such \
              variables (SELECT @@session.autocommit), all of which the client has set.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "rescue_reads",
        kind: Kind::Word(&Words { slot: setting!(engine.rescue_reads), words: OFF_ON }),
        example: "off",
        doc: "Whether short reads that were sent behind others (see statements_in_flight) are sent again on another backend \
              where the one before them does not answer for 20 ms, since it waits for a lock, say. The server has not begun \
              with them then; later it runs them once more, and that answer is thrown away. They are plain SELECTs outside \
              of transactions without stored functions, so that nobody sees it. What a view calls is not in the text: so it \
              is done only where the server, asked each time, has no stored or loaded functions but those of sys, and the \
              service account may see that (docs/ACCOUNTS.md). Elsewhere, and with off, they wait behind it, for as long as \
              a LOCK TABLES lasts. One in 32 such reads is sent again at most, and 64 at once.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_high_prio_mode",
        kind: Kind::Word(&Words {
            slot: setting!(engine.high_prio_mode),
            words: &[
                ("transactions", HighPrioMode::Transactions),
                ("statements", HighPrioMode::Statements),
                ("none", HighPrioMode::None),
            ],
        }),
        example: "none",
        doc: "Which statements wait in the high queue, as in Percona Server: those of open transactions, all, or none.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_high_prio_tickets",
        kind: Kind::Count(0..=u32::MAX, setting!(engine.high_prio_tickets)),
        example: "100",
        doc: "How many times in a row a client may enter the high queue, as in Percona Server.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_priority",
        kind: Kind::Word(&Words {
            slot: setting!(engine.priority),
            words: &[("auto", PoolPriority::Auto), ("high", PoolPriority::High), ("low", PoolPriority::Low)],
        }),
        example: "low",
        doc: "The queue of all statements of a client, as in MariaDB: high, low, or auto for what the other rules say. A client \
              may set it for itself; this is what holds for the others.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_high_priority_connection",
        kind: Kind::Word(&Words { slot: setting!(engine.high_priority_connection), words: OFF_ON }),
        example: "on",
        doc: "Whether all statements of a client go to the high queue, whatever thread_pool_priority says, as in MySQL. A client \
              may set it for itself; this is what holds for the others.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_stall_limit",
        // MySQL's range starts at 40 ms (4 units of 10 ms), Percona's at 10 ms.
        kind: Kind::Milliseconds(
            Duration::from_millis(10)..=Duration::from_secs(600),
            setting!(engine.stall_limit),
        ),
        example: "500",
        doc: "A statement that has run this long lends its permit to others until its end: it may be waiting for a lock \
              that they hold. Milliseconds, as in MariaDB; the default is MySQL's.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "long_statement_time",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.long_statement_time)),
        example: "2s",
        doc: "Statements whose like has run for this long or longer lately (their digest's p99) wait in a queue of their \
              own, the long lane, so that they never take all permits; those of open transactions and of clients that may \
              hold locks do not. 0s turns the lane off.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "long_permits",
        kind: Kind::Count(0..=4096, setting!(engine.long_permits)),
        example: "2",
        doc: "How many permits the statements of the long lane may have at a time, on all workers together. 0 stands for a \
              quarter of the permits, and at least 1.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "long_permits_max",
        kind: Kind::Count(0..=16_384, setting!(engine.long_permits_max)),
        example: "32",
        doc: "How many statements of the long lane may run at a time where more of them slow nobody down, because they wait for \
              a disk or sleep: found out by trying, sooner where hardly anything else runs. Those beyond long_permits take no \
              permits. 0 stands for half of max_backends; a number up to long_permits keeps the lane from \
              growing. Where long statements that wait give way to long ones that compute, the short ones suffer for a while.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_transaction_delay",
        // The range of MySQL's variable, in milliseconds as there.
        kind: Kind::Milliseconds(
            Duration::ZERO..=Duration::from_secs(300),
            setting!(engine.transaction_delay),
        ),
        example: "50",
        doc: "The first statement of each transaction, and a statement outside of one, is queued after this long, to slow new \
              work down. Milliseconds, as in MySQL; there the delay occupies a thread, here nothing.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "lock_wait_interval",
        // InnoDB makes its tables of lock waits anew every 100 ms at most.
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.lock_wait_interval)),
        example: "0s",
        doc: "How often the server is asked, at most, who waits for whose row locks, and who for other locks: while a statement \
              takes longer than its like does and others wait; where permits are short, for rows a fifth as often. Who is \
              waited for then goes first, and who waits leaves its permit to others. The service account needs PROCESS for \
              it, on MySQL 8 also SELECT on performance_schema. 0s never asks.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "thread_pool_prio_kickup_timer",
        kind: Kind::Milliseconds(
            Duration::ZERO..=Duration::from_millis(u32::MAX as u64),
            setting!(engine.prio_kickup_timer),
        ),
        example: "200",
        doc: "After this long in the low queue a statement moves to the high one. Milliseconds, as in MariaDB and \
              MySQL.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "adaptive_lifo",
        kind: Kind::Word(&Words { slot: setting!(engine.adaptive_lifo), words: OFF_ON }),
        example: "off",
        doc: "Whether new work starts newest first while clients hang up on what waits: an eighth of what leaves a queue, after a \
              tenth of a second or more. The oldest first, what starts then has used up its client's patience, and runs for nobody. \
              One of eight starts is for what has waited for thread_pool_prio_kickup_timer, and twice as long as those who \
              hang up, the oldest first. It ends when nobody has \
              hung up for as long as the last ones had waited. Statements of open transactions and of clients that hold a backend \
              keep their order. Only in the profile native; with fair shares or limits (see fair_share) within each user's queue.",
        section: Section::Scheduling,
        limit: None,
    },
];
