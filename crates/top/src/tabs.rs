//! The tabs: what each asks of the admin port, and how its columns are shown.

use crate::snapshot::ONRAMP;

/// What is shown at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// Clients, those at work first.
    Clients,
    /// Statements that wait.
    Queue,
    /// Kinds of statements, with what they cost.
    Statements,
    /// Who holds locks, and who waits behind them.
    Locks,
    /// Why clients keep backends.
    Pins,
    /// Connections to the server.
    Backends,
    /// The log's last lines.
    Events,
    /// How near the bounds are.
    Limits,
    /// Each minute of the last day.
    Minutes,
    /// How far logins get, and where they hang.
    Logins,
    /// What is otherwise than some minutes ago.
    Changes,
    /// Who is refused, and by what.
    Refused,
    /// Onramps: those that are looked at, and those that they know. It is asked for with each look, and made of that
    /// ([`crate::onramps`]).
    Onramps,
}

/// How a column's values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As they are.
    Text,
    /// Whole numbers that name something: in full.
    Id,
    /// Whole numbers that count something: shortened.
    Count,
    /// Numbers that may have a fraction.
    Rate,
    /// Microseconds.
    Time,
    /// 0 or 1: nothing or `yes`.
    Flag,
}

/// A column of a tab.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in the result, and in the table where `expression` is `None`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How its values are shown.
    pub kind: Kind,
    /// Columns of the terminal; the last column of a tab takes all that are left.
    pub width: u16,
    /// SQL that makes it, where it is no column of the table.
    pub expression: Option<&'static str>,
}

/// The column that says whose a row is: before the others, where several Onramps are looked at.
pub const WHOSE: Column = column(ONRAMP, "ONRAMP", Kind::Text, 7);

const fn column(name: &'static str, title: &'static str, kind: Kind, width: u16) -> Column {
    Column { name, title, kind, width, expression: None }
}

impl Tab {
    /// All of them, in their order.
    pub const ALL: [Self; 13] = [
        Self::Clients,
        Self::Queue,
        Self::Statements,
        Self::Locks,
        Self::Pins,
        Self::Backends,
        Self::Events,
        Self::Limits,
        Self::Minutes,
        Self::Logins,
        Self::Changes,
        Self::Refused,
        Self::Onramps,
    ];

    /// Its name on the screen, in snapshots and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Queue => "queue",
            Self::Statements => "statements",
            Self::Locks => "locks",
            Self::Pins => "pins",
            Self::Backends => "backends",
            Self::Events => "events",
            Self::Limits => "limits",
            Self::Minutes => "minutes",
            Self::Logins => "logins",
            Self::Changes => "changes",
            Self::Refused => "refused",
            Self::Onramps => "onramps",
        }
    }

    /// The key that shows it: its number, and for those behind the tenth the first letter of their names.
    pub fn key_to_it(self) -> char {
        match self {
            Self::Logins => '0',
            Self::Changes => 'c',
            Self::Refused => 'r',
            Self::Onramps => 'o',
            // There are nine of these.
            tab => char::from(b'1' + tab as u8),
        }
    }

    /// The one that this key shows.
    pub fn of_key(key: char) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.key_to_it() == key)
    }

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// What it selects from, with a condition where not all rows are wanted.
    pub fn source(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Queue => "queues",
            Self::Statements => "statements",
            Self::Locks => {
                "clients WHERE (holds_locks OR blocks_others OR waits_for_client IS NOT NULL \
                 OR waits_for_thread IS NOT NULL)"
            }
            Self::Pins => "pins",
            Self::Backends => "backends",
            Self::Events => "events",
            Self::Limits => "limits",
            Self::Minutes => "minutes",
            Self::Logins => "logins",
            Self::Changes => "changes",
            Self::Refused => "refusals",
            Self::Onramps => "peers",
        }
    }

    /// Whether it is a question of its own.
    pub fn is_asked(self) -> bool {
        self != Self::Onramps
    }

    /// Its columns, the most important first: narrow terminals show fewer.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Clients => &CLIENTS,
            Self::Queue => &QUEUE,
            Self::Statements => &STATEMENTS,
            Self::Locks => &LOCKS,
            Self::Pins => &PINS,
            Self::Backends => &BACKENDS,
            Self::Events => &EVENTS,
            Self::Limits => &LIMITS,
            Self::Minutes => &MINUTES,
            Self::Logins => &LOGINS,
            Self::Changes => &CHANGES,
            Self::Refused => &REFUSED,
            Self::Onramps => &ONRAMPS,
        }
    }

    /// The column that orders it at first, and whether the largest values come first.
    pub fn order(self) -> (usize, bool) {
        let by = |name: &str, descending| {
            let place = self.columns().iter().position(|column| column.name == name);
            (place.unwrap_or(0), descending)
        };
        match self {
            Self::Clients => by("busy_us", true),
            Self::Queue => by("position", false),
            Self::Onramps => by("slot", false),
            Self::Statements => by("time_us", true),
            Self::Locks => by("blocks_others", true),
            Self::Pins => by("clients", true),
            Self::Backends => by("running_us", true),
            Self::Events => by("number", true),
            Self::Limits => by("percent", true),
            Self::Minutes => by("time", true),
            // Those at which clients are now; the others stay as they follow each other.
            Self::Logins => by("clients", true),
            Self::Changes | Self::Refused => by("times", true),
        }
    }

    /// The columns that name a row from one look to the next.
    pub fn key(self) -> &'static [&'static str] {
        match self {
            Self::Clients | Self::Locks => &["id"],
            Self::Queue => &["client"],
            Self::Statements => &["digest"],
            Self::Pins => &["reason"],
            Self::Backends => &["server", "thread_id"],
            Self::Events => &["number"],
            Self::Limits => &["bounds"],
            Self::Minutes => &["time"],
            Self::Logins => &["stage"],
            Self::Changes => &["figure"],
            Self::Refused => &["reason", "user", "host"],
            Self::Onramps => &["slot"],
        }
    }

    /// The column with the client that KILL is about, where rows have one.
    pub fn client(self) -> Option<&'static str> {
        match self {
            Self::Clients | Self::Locks => Some("id"),
            Self::Queue | Self::Backends => Some("client"),
            Self::Statements
            | Self::Pins
            | Self::Events
            | Self::Limits
            | Self::Minutes
            | Self::Logins
            | Self::Changes
            | Self::Refused
            | Self::Onramps => None,
        }
    }
}

/// How long whatever a client does has taken: waiting and running count, idling does not.
const BUSY: Column = Column {
    name: "busy_us",
    title: "BUSY",
    kind: Kind::Time,
    width: 7,
    expression: Some("coalesce(running_us, queued_us)"),
};

/// The text of the digest, with `?` in the place of literals. It is asked for apart, for the rows that came and once for each digest
/// ([`crate::texts`]): the table of digests is as long as that of clients.
const TEXT: Column =
    Column { name: "text", title: "STATEMENT", kind: Kind::Text, width: 60, expression: Some("NULL") };

const CLIENTS: [Column; 17] = [
    column("id", "ID", Kind::Id, 10),
    column("user", "USER", Kind::Text, 12),
    column("state", "STATE", Kind::Text, 9),
    BUSY,
    column("transaction_us", "TRX", Kind::Time, 7),
    column("idle_us", "IDLE", Kind::Time, 7),
    column("pins", "PINS", Kind::Text, 12),
    column("address", "ADDRESS", Kind::Text, 21),
    column("schema_name", "SCHEMA", Kind::Text, 12),
    column("queue", "QUEUE", Kind::Text, 8),
    column("holds_locks", "LOCKS", Kind::Flag, 5),
    column("blocks_others", "BLOCKS", Kind::Flag, 6),
    column("waits_for_client", "WAITS FOR", Kind::Id, 10),
    column("backend", "BACKEND", Kind::Id, 8),
    column("server", "SERVER", Kind::Text, 21),
    column("digest", "DIGEST", Kind::Text, 16),
    TEXT,
];

const QUEUE: [Column; 9] = [
    column("position", "POS", Kind::Id, 6),
    column("client", "CLIENT", Kind::Id, 10),
    column("queue", "QUEUE", Kind::Text, 8),
    column("queued_us", "WAITED", Kind::Time, 7),
    column("waits_for", "FOR", Kind::Text, 15),
    column("user", "USER", Kind::Text, 12),
    column("holds_backend", "HOLDS", Kind::Flag, 5),
    column("digest", "DIGEST", Kind::Text, 16),
    column("statement", "STATEMENT", Kind::Text, 60),
];

const STATEMENTS: [Column; 13] = [
    column("time_us", "TIME", Kind::Time, 7),
    column("count", "COUNT", Kind::Count, 7),
    Column {
        name: "share",
        title: "%",
        kind: Kind::Count,
        width: 3,
        expression: Some(
            "CAST(round(100.0 * time_us / max(1, (SELECT sum(time_us) FROM statements))) AS INTEGER)",
        ),
    },
    column("p50_us", "P50", Kind::Time, 7),
    column("p99_us", "P99", Kind::Time, 7),
    column("max_time_us", "MAX", Kind::Time, 7),
    column("wait_us", "WAITED", Kind::Time, 7),
    column("max_wait_us", "MAX WT", Kind::Time, 7),
    column("errors", "ERRORS", Kind::Count, 7),
    column("rows_sent", "SENT", Kind::Count, 7),
    column("rows_affected", "CHANGED", Kind::Count, 7),
    column("digest", "DIGEST", Kind::Text, 16),
    column("text", "TEXT", Kind::Text, 60),
];

const LOCKS: [Column; 14] = [
    column("id", "CLIENT", Kind::Id, 20),
    column("user", "USER", Kind::Text, 12),
    column("state", "STATE", Kind::Text, 9),
    column("lock_wait_us", "WAITS", Kind::Time, 7),
    column("transaction_us", "TRX", Kind::Time, 7),
    column("idle_us", "IDLE", Kind::Time, 7),
    column("blocks_others", "BLOCKS", Kind::Flag, 6),
    column("holds_locks", "LOCKS", Kind::Flag, 5),
    column("address", "ADDRESS", Kind::Text, 21),
    column("waits_for_client", "WAITS FOR", Kind::Id, 10),
    column("waits_for_thread", "THREAD", Kind::Id, 8),
    column("backend", "BACKEND", Kind::Id, 8),
    column("digest", "DIGEST", Kind::Text, 16),
    TEXT,
];

const PINS: [Column; 6] = [
    column("clients", "CLIENTS", Kind::Count, 7),
    column("times", "TIMES", Kind::Count, 7),
    column("statements", "STMTS", Kind::Count, 7),
    column("reason", "REASON", Kind::Text, 20),
    Column {
        name: "who",
        title: "WHO, NOW",
        kind: Kind::Text,
        width: 36,
        expression: Some(
            "(SELECT group_concat(one, ', ') FROM (SELECT coalesce(user, '') || '@' || host || ' ' || count(*) AS one FROM pinned_clients \
             WHERE pinned_clients.reason = pins.reason GROUP BY user, host ORDER BY count(*) DESC LIMIT 3))",
        ),
    },
    Column {
        name: "cause",
        title: "USUAL CAUSE",
        kind: Kind::Text,
        width: 60,
        expression: Some(
            "(SELECT text FROM pin_causes WHERE pin_causes.reason = pins.reason ORDER BY times DESC LIMIT 1)",
        ),
    },
];

const BACKENDS: [Column; 13] = [
    column("thread_id", "THREAD", Kind::Id, 8),
    column("state", "STATE", Kind::Text, 10),
    column("user", "USER", Kind::Text, 12),
    column("client", "CLIENT", Kind::Id, 10),
    column("running_us", "RUNS", Kind::Time, 7),
    column("idle_us", "IDLE", Kind::Time, 7),
    column("in_flight", "FLIGHT", Kind::Count, 6),
    column("permit", "PERMIT", Kind::Text, 6),
    column("in_transaction", "TRX", Kind::Flag, 4),
    column("paused", "PAUSED", Kind::Flag, 6),
    column("worker", "WORKER", Kind::Id, 6),
    column("schema_name", "SCHEMA", Kind::Text, 16),
    column("server", "SERVER", Kind::Text, 21),
];

const EVENTS: [Column; 6] = [
    column("number", "NUMBER", Kind::Id, 7),
    column("time", "TIME", Kind::Text, 27),
    column("level", "LEVEL", Kind::Text, 5),
    column("event", "EVENT", Kind::Text, 18),
    column("worker", "WORKER", Kind::Id, 6),
    column("message", "MESSAGE", Kind::Text, 60),
];

const LIMITS: [Column; 7] = [
    Column {
        name: "percent",
        title: "%",
        kind: Kind::Count,
        width: 4,
        expression: Some("CAST(round(100.0 * in_use / bound) AS INTEGER)"),
    },
    column("option", "OPTION", Kind::Text, 30),
    column("in_use", "IN USE", Kind::Count, 8),
    column("bound", "BOUND", Kind::Count, 8),
    column("reached", "REACHED", Kind::Count, 8),
    column("scope", "SCOPE", Kind::Text, 9),
    column("bounds", "OF WHAT", Kind::Text, 60),
];

const MINUTES: [Column; 20] = [
    column("time", "MINUTE", Kind::Text, 19),
    column("slow_by", "SLOW BY", Kind::Text, 8),
    column("server_p99_us", "SRV P99", Kind::Time, 7),
    column("wait_p99_us", "WT P99", Kind::Time, 7),
    column("statements", "STMTS/S", Kind::Rate, 7),
    column("waiting", "WAITING", Kind::Count, 7),
    column("waits_for", "FOR", Kind::Text, 15),
    column("lock_waits", "LOCKS", Kind::Count, 5),
    column("errors", "ERR/S", Kind::Rate, 6),
    column("refused", "REF/S", Kind::Rate, 6),
    column("clients", "CLIENTS", Kind::Count, 7),
    column("pinned", "PINNED", Kind::Count, 6),
    column("permits_in_use", "RUN", Kind::Count, 5),
    column("permits", "PERMITS", Kind::Count, 7),
    column("server_p50_us", "SRV P50", Kind::Time, 7),
    column("wait_p50_us", "WT P50", Kind::Time, 7),
    column("login_p95_us", "LOGIN95", Kind::Time, 7),
    column("digest_us", "DEAREST", Kind::Time, 7),
    column("digest", "DIGEST", Kind::Text, 16),
    TEXT,
];

const LOGINS: [Column; 8] = [
    column("stage", "STAGE", Kind::Text, 14),
    column("clients", "AT IT", Kind::Count, 7),
    column("count", "DONE", Kind::Count, 7),
    column("p50_us", "P50", Kind::Time, 7),
    column("p95_us", "P95", Kind::Time, 7),
    column("p99_us", "P99", Kind::Time, 7),
    column("max_us", "LONGEST", Kind::Time, 7),
    column("what", "WHAT", Kind::Text, 60),
];

/// A figure in its unit, as people read it.
macro_rules! in_its_unit {
    ($column:literal) => {
        concat!(
            "CASE unit WHEN 'us' THEN printf('%.1f ms', ",
            $column,
            " / 1000.0) WHEN 'bytes' THEN printf('%.0f MiB', ",
            $column,
            " / 1048576.0) WHEN 'share' THEN printf('%.0f %%', 100.0 * ",
            $column,
            ") WHEN '/s' THEN printf('%.1f/s', ",
            $column,
            ") ELSE printf('%.0f', ",
            $column,
            ") END"
        )
    };
}

const CHANGES: [Column; 4] = [
    column("times", "TIMES", Kind::Rate, 7),
    column("figure", "FIGURE", Kind::Text, 32),
    Column { name: "now", title: "NOW", kind: Kind::Text, width: 12, expression: Some(in_its_unit!("now")) },
    Column {
        name: "before",
        title: "BEFORE",
        kind: Kind::Text,
        width: 12,
        expression: Some(in_its_unit!("before")),
    },
];

const REFUSED: [Column; 5] = [
    column("times", "TIMES", Kind::Count, 7),
    column("reason", "REASON", Kind::Text, 24),
    column("kind", "KIND", Kind::Text, 6),
    column("user", "USER", Kind::Text, 16),
    column("host", "HOST", Kind::Text, 39),
];

const ONRAMPS: [Column; 14] = [
    column("slot", "SLOT", Kind::Id, 5),
    column("at_work", "WORKS", Kind::Flag, 5),
    column("rate", "STMTS/S", Kind::Count, 7),
    column("clients", "CLIENTS", Kind::Count, 7),
    column("running", "RUN", Kind::Count, 5),
    column("permits", "PERMITS", Kind::Count, 7),
    column("waiting", "WAITING", Kind::Count, 7),
    column("backends", "BACKENDS", Kind::Count, 8),
    column("max_backends", "OF", Kind::Count, 7),
    column("host", "FROM", Kind::Text, 21),
    column("uptime_us", "UP", Kind::Time, 7),
    column("since_us", "KNOWN", Kind::Time, 7),
    column("address", "ADDRESS", Kind::Text, 21),
    column("stands", "STANDS", Kind::Text, 60),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_name_columns_of_their_own() {
        for tab in Tab::ALL {
            assert_eq!(Tab::ALL[tab.index()], tab);
            let names: Vec<&str> = tab.columns().iter().map(|column| column.name).collect();
            assert!(tab.key().iter().all(|key| names.contains(key)), "{tab:?}");
            assert!(tab.client().is_none_or(|client| names.contains(&client)), "{tab:?}");
            // The column that is named, and not the first for want of it.
            assert!(tab.order().1 || tab.order().0 == 0, "{tab:?}");
        }
    }
}
