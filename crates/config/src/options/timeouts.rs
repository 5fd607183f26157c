//! How long things may take.

use std::time::Duration;

use engine::Limit;

use super::{OptionSpec, SECOND, Scope, Section, Unit, YEAR, setting, when_reached};
use crate::value::{Kind, Words};

/// How long things may take.
pub(super) const TIMEOUTS: &[OptionSpec] = &[
    OptionSpec {
        name: "queue_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.queue_wait_limit)),
        example: "2s",
        doc: "New work (see queue_limit) that has waited this long in the high or low queue gets error 1205 instead of \
              going on to wait for a permit or a backend. Best a little less than what the clients' own patience is: what \
              runs later than that, runs for nobody. 0s for as long as it takes.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::QueueWaitLimit,
            "the wait of new work",
            Unit::Milliseconds,
            Scope::Statement,
        ),
    },
    OptionSpec {
        name: "unfair_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.unfair_wait_limit)),
        example: "30s",
        doc: "New work (see queue_limit) gets error 1205 that has waited this long and twice as long as it takes to serve all \
              that waits: others go before it, since its user brings a crowd (see fair_share) or since clients hang up (see \
              adaptive_lifo). Where everybody waits for as long, nobody is refused, however long that is, nor what waits \
              in the long lane; time in which nothing starts does not count. Only with fair_share = crowding and without \
              limits by user, schema or address. 0s turns it off.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::UnfairWaitLimit,
            "the wait of new work while others go before it",
            Unit::Milliseconds,
            Scope::Statement,
        ),
    },
    OptionSpec {
        name: "long_queue_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.long_queue_wait_limit)),
        example: "1m",
        doc: "The same for the long lane (see long_statement_time).",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::LongQueueWaitLimit,
            "the wait of new work in the long lane",
            Unit::Milliseconds,
            Scope::Statement,
        ),
    },
    OptionSpec {
        name: "queue_delay_target",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.queue_delay_target)),
        example: "100ms",
        doc: "The delay that may stand. Where each statement that started within queue_delay_interval had waited longer \
              than this, more comes than the server can do: from then on new work (see queue_limit) that has waited for \
              this long gets error 1205, until nothing has had to be refused for an interval. Bursts that are over within an \
              interval cause no errors. The estimate is that of CoDel (RFC 8289). 0s turns it off.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::QueueDelayTarget,
            "the standing delay of the queues",
            Unit::Milliseconds,
            Scope::Process,
        ),
    },
    OptionSpec {
        name: "queue_delay_interval",
        // Below some turns of an event loop there is nothing to judge by.
        kind: Kind::Duration(Duration::from_millis(1)..=YEAR, setting!(engine.overload.queue_delay_interval)),
        example: "500ms",
        doc: "How long a burst may last, see queue_delay_target. The default is CoDel's.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "connect_timeout",
        kind: Kind::Duration(SECOND..=YEAR, setting!(engine.connect_timeout)),
        example: "5s",
        doc: "How long a login may take, from the greeting on.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "backend_connect_timeout",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(engine.backend_connect_timeout)),
        example: "30s",
        doc: "How long a statement waits for a server that cannot be reached, or for a free backend. Then its client \
              gets an error.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "query_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.query_timeout)),
        example: "30s",
        doc: "A statement that has run on the server for this long is ended with KILL QUERY; its client gets the server's \
              error 1317. Its time in a queue does not count, nor does COMMIT or ROLLBACK end this way. 0s for as long as \
              it takes.",
        section: Section::Timeouts,
        limit: when_reached(Limit::QueryTimeout, "a statement's time", Unit::Milliseconds, Scope::Statement),
    },
    OptionSpec {
        name: "abandoned_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.abandoned_timeout)),
        example: "1h",
        doc: "The backend of a statement that still runs this long after its client has gone is closed, so that another takes its \
              place. The server goes on with it as it does when a client of its own goes away. 0s for no end. See \
              kill_abandoned.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::AbandonedTimeout,
            "how long a statement runs whose client has gone",
            Unit::Seconds,
            Scope::Statement,
        ),
    },
    OptionSpec {
        name: "transaction_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.transaction_timeout)),
        example: "5m",
        doc: "A transaction that has been open for this long is rolled back and its connection ended: a running statement, \
              with what stands behind it in its text or procedure, by KILL CONNECTION, else with error 1927 in answer to the \
              next one. COMMIT and ROLLBACK under way go on. Looked at once a second. 0s for as long as it takes.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::TransactionTimeout,
            "a transaction's time",
            Unit::Milliseconds,
            Scope::Client,
        ),
    },
    OptionSpec {
        name: "idle_transaction_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.idle_transaction_timeout)),
        example: "30s",
        doc: "A transaction whose client has sent nothing for this long is rolled back at once, so that nobody waits for its \
              locks any more; the client's next command gets error 1159, and its connection ends. As MariaDB's variable of \
              this name, which closes the connection at once. Looked at once a second. 0s for as long as it takes.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::IdleTransactionTimeout,
            "how long a client in a transaction is idle",
            Unit::Milliseconds,
            Scope::Client,
        ),
    },
    OptionSpec {
        name: "idle_hold_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.overload.idle_hold_timeout)),
        example: "5m",
        doc: "Where statements wait for a backend and none is left, or none is left for their user (user_backends_share), clients that \
              hold one and have sent nothing for this long give it back, and lose their transactions, locks and temporary tables: \
              first of the user that uses the most backends, the longest idle first. So do those of an account of which the server \
              takes no more connections (MAX_USER_CONNECTIONS), where statements of that account wait. The client's next command gets error 1159, \
              which names this option, and its connection ends. As long as there are backends for all, nobody is ended. Looked at \
              once a second. 0s for never.",
        section: Section::Timeouts,
        limit: when_reached(
            Limit::IdleHoldTimeout,
            "how long a client that holds a backend is idle while others wait",
            Unit::Milliseconds,
            Scope::Client,
        ),
    },
    OptionSpec {
        name: "backend_idle_timeout",
        kind: Kind::Duration(SECOND..=YEAR, setting!(engine.backend_idle_timeout)),
        example: "5m",
        doc: "Idle backends are closed after this long. Keep it below the server's wait_timeout.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "wait_timeout",
        kind: Kind::Duration(SECOND..=YEAR, setting!(engine.wait_timeout)),
        example: "10m",
        doc: "A client that sends nothing for this long is closed, an open transaction rolled back; one that has said SET \
              wait_timeout itself after as long as that. So it is within a command, as with both servers: one that stops in the \
              middle of a packet has this long for each further byte (net_read_timeout is only for the files of LOAD DATA \
              LOCAL; there the server heeds it, and a client's own SET of it). MySQL's clients get error 4031 from servers since \
              8.0.24, and here, or 1159 in the middle of a packet; MariaDB's hear nothing. Looked at once a second.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "net_write_timeout",
        kind: Kind::Duration(SECOND..=YEAR, setting!(engine.net_write_timeout)),
        example: "30s",
        doc: "A client that takes none of its reply for this long is closed.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "drain_wait",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(drain_wait)),
        example: "10s",
        doc: "How long clients, new ones too, are served as before after the first SIGTERM or SIGINT, while /readyz says 503: balancers \
              take that long to notice, and whoever they send meanwhile should not be refused. Give it a little more than \
              two of their probes. After that nobody new is served, and shutdown_timeout begins. 0s where nobody probes.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "shutdown_timeout",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.shutdown_timeout)),
        example: "5m",
        doc: "How long open transactions may go on after the first SIGTERM or SIGINT, or after drain_wait where that is set.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "failed_login_delay",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.failed_logins.delay)),
        example: "1s",
        doc: "Wrong passwords beyond failed_login_threshold are refused after this long, and each further one after twice as \
              long, so that guessing takes its time; the client waits and no worker does. Right ones are never held up, \
              but those of PAM and LDAP behind wrong ones (docs/ACCOUNTS.md). 0s for never.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "failed_login_delay_max",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.failed_logins.delay_max)),
        example: "1m",
        doc: "The longest such delay.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "backend_lookup_interval",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(lookup_interval)),
        example: "30s",
        doc: "Host names in backend are looked up this often. Where two look-ups in a row say that a name leads to another \
              address, new statements go there (docs/CLUSTERS.md). 0s looks them up at the start alone.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "server_check_interval",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(engine.cluster.check_interval)),
        example: "1s",
        doc: "Where backend is given more than once, each server is asked this often what it is to the others and whether it \
              takes writes, on a connection of its own (docs/CLUSTERS.md). A server that was up is down after two checks in \
              a row that failed, and up again after two that worked.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "server_check_timeout",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(engine.cluster.check_timeout)),
        example: "5s",
        doc: "Such a check has failed that takes longer, its connection and login included.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "failover_hold",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.cluster.hold)),
        example: "1m",
        doc: "Where backend is given more than once: how long what clients have sent waits while no server is known to be the \
              primary, before it gets an error (docs/CLUSTERS.md). What runs on a server that is up and not the primary any \
              more may go on for as long.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "failover_behind",
        kind: Kind::Word(&Words {
            slot: setting!(engine.cluster.takes_behind),
            words: &[("hold", false), ("allow", true)],
        }),
        example: "allow",
        doc: "What becomes of a new primary that lacks transactions which the former one was known to have, by their GTIDs \
              (docs/CLUSTERS.md). hold: nothing is sent there, as long as it lacks them; the log says which. allow: it is used \
              all the same, for instance where replication is asynchronous, and whoever promotes accepts that; the log and the \
              table failovers say what it lacks. SET GLOBAL failover_behind = 'allow' at the admin port lets one go on that is \
              held.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "switchover_command",
        kind: Kind::Path(setting!(switchover_command)),
        example: "/usr/local/sbin/change-primary",
        doc: "The program that SWITCHOVER TO at the admin port runs to change the roles of servers, as the user that Onramp \
              runs as, without a shell between: it gets the address of the primary and that of the new one as its two \
              arguments, as they stand in backend, and none of Onramp's own environment variables. It makes the former one \
              read-only, promotes the new one, and ends with 0 (docs/CLUSTERS.md has one). Empty: there is no such order.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "switchover_wait",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(switchover_wait)),
        example: "10s",
        doc: "How long SWITCHOVER TO waits for open transactions to end, and for the new primary to have what the former one \
              has, while new transactions wait. DRAIN and UNDRAIN, where they change the primary, wait as long for all that \
              clients hold there. Transactions that are open after it are rolled back.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "switchover_timeout",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(switchover_timeout)),
        example: "30s",
        doc: "Behind switchover_wait, both servers have to say how far they are and switchover_command has to end within this time; it is \
              killed then, with what it has started, and statements go on at the former primary, if that still takes writes. Together \
              with switchover_wait it should be less than failover_hold, which is how long statements wait. The new primary has as long \
              again to take writes.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "accounts_refresh",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(engine.accounts_refresh)),
        example: "10s",
        doc: "The server's accounts, and the global values that sessions begin with, are read again after this long, and \
              the accounts after twenty times as long as the server took for them, if that is more. A login that fails asks for a fresh \
              copy of the accounts by itself.",
        section: Section::Timeouts,
        limit: None,
    },
];
