//! What is asked, in the admin port's SQL.

/// Statements that a report looks through for differences and sums up, the dearest first: more than a load usually has kinds.
const MOST_KINDS: u32 = 5000;

/// Kinds of statements that pin, the most frequent first.
const MOST_CAUSES: u32 = 500;

/// The clients, at each look.
pub const CLIENTS: &str =
    "SELECT id, user, state, in_transaction, transaction_us, idle_us, pins FROM clients";

/// Logins that were refused, behind the event of this number.
pub fn refused_logins(after: u64) -> String {
    format!(
        "SELECT number, message FROM events WHERE event = 'login_refused' AND number > {after} ORDER BY number"
    )
}

/// Counters and measures.
pub const STATUS: &str = "SELECT variable_name, variable_value FROM status";

/// Options, with where they come from.
pub const OPTIONS: &str = "SELECT name, value, source FROM options";

/// Why clients were pinned.
pub const PINS: &str = "SELECT reason, clients, times, statements FROM pins ORDER BY times DESC, reason";

/// Bounds that were reached.
pub const LIMITS: &str = "SELECT option, bounds, unit, in_use, bound, reached FROM limits WHERE reached > 0 ORDER BY reached DESC, option";

/// All kinds of statements together.
pub const TOTALS: &str = "SELECT COUNT(*) AS kinds, SUM(count) AS count, SUM(errors) AS errors, SUM(time_us) AS time_us FROM statements";

/// Which statements pin.
pub fn causes() -> String {
    format!(
        "SELECT reason, digest, text, times FROM pin_causes ORDER BY times DESC, reason LIMIT {MOST_CAUSES}"
    )
}

/// Kinds of statements.
pub fn statements() -> String {
    format!(
        "SELECT digest, text, count, errors, time_us, p50_us, p99_us, max_time_us FROM statements \
         ORDER BY time_us DESC, digest LIMIT {MOST_KINDS}"
    )
}
