//! The report for programs.

use serde_json::{Value, json};

use crate::report::{Bound, Choice, Kind, Measure, Notice, Pin, Reached, Refused, Report, User};
use crate::tables::Backends;

impl Report {
    /// As one object of JSON, for people to read as well. Times are in microseconds where a name ends in `_us`, and milliseconds since
    /// 1970 where it ends in `_ms`.
    pub fn to_json(&self) -> String {
        let seen = &self.transactions.seen;
        let report = json!({
            "version": self.version,
            "pool": self.backends == Backends::Pool,
            "since_ms": self.since,
            "until_ms": self.until,
            "looks": self.looks,
            "clients": measure(&self.clients),
            "backends_needed": measure(&self.needed),
            "statements_running": measure(&self.running),
            "pinned_clients": measure(&self.pinned),
            "users": self.users.iter().map(user).collect::<Vec<_>>(),
            "further_users": self.further_users,
            "transactions": {
                "open": measure(&self.transactions.at_once),
                "idle": measure(&self.transactions.idle_at_once),
                "idle_share": self.transactions.idle_share,
                "seen": seen.count,
                "seen_idle": seen.idle,
                "longest_us": seen.longest,
                "longest_idle_us": seen.longest_idle,
            },
            "statements_by_backend": {
                "any": self.shares.any,
                "transaction": self.shares.transaction,
                "pinned": self.shares.pinned,
                "doubtful": self.shares.doubtful,
            },
            "pins": self.pins.iter().map(pin).collect::<Vec<_>>(),
            "limits": self.bounds.iter().map(bound).collect::<Vec<_>>(),
            "refused_logins": self.refused.iter().map(refused).collect::<Vec<_>>(),
            "options": self.options.iter().map(choice).collect::<Vec<_>>(),
            "differences": self.differences.iter().map(notice).collect::<Vec<_>>(),
            "load": {
                "statements": self.load.statements,
                "errors": self.load.errors,
                "kinds": self.load.kinds,
                "time_us": self.load.time_us,
                "per_second": self.load.rate,
                "at_a_time": self.load.at_a_time,
                "dearest": self.load.dearest.iter().map(kind).collect::<Vec<_>>(),
            },
            "notes": self.notes,
        });
        // With names of text as keys it always can be written.
        serde_json::to_string_pretty(&report).unwrap_or_else(|_| report.to_string()) + "\n"
    }
}

fn measure(measure: &Measure) -> Value {
    json!({ "max": measure.max, "p99": measure.p99, "median": measure.median, "mean": measure.mean })
}

fn user(user: &User) -> Value {
    json!({
        "user": user.name,
        "clients": measure(&user.clients),
        "backends_needed": measure(&user.needed),
        "idle_transactions": user.idle_transactions,
    })
}

fn kind(kind: &Kind) -> Value {
    json!({
        "digest": kind.digest,
        "text": kind.text,
        "count": kind.count,
        "errors": kind.errors,
        "time_us": kind.time_us,
        "p50_us": kind.p50_us,
        "p99_us": kind.p99_us,
    })
}

/// Of a cause no more is known than how often.
fn cause(cause: &Kind) -> Value {
    json!({ "digest": cause.digest, "text": cause.text, "times": cause.count })
}

fn pin(pin: &Pin) -> Value {
    json!({
        "reason": pin.reason,
        "times": pin.times,
        "statements": pin.statements,
        "clients_now": pin.clients,
        "from": pin.advice.map(|advice| advice.from),
        "avoid": pin.advice.map(|advice| advice.avoid),
        "causes": pin.causes.iter().map(cause).collect::<Vec<_>>(),
    })
}

fn bound(bound: &Bound) -> Value {
    let (times, too_few) = match bound.reached {
        Reached::Times(times) => (Some(times), None),
        Reached::TooFew(backends) => (None, Some(backends)),
    };
    json!({
        "option": bound.option,
        "value": bound.value,
        "count": times,
        "backends_too_few": too_few,
        "users": bound.who,
        "what": bound.what,
    })
}

fn refused(refused: &Refused) -> Value {
    json!({ "user": refused.user, "from": refused.from, "why": refused.why, "count": refused.count })
}

fn choice(choice: &Choice) -> Value {
    json!({ "option": choice.option, "value": choice.value, "why": choice.why })
}

fn notice(notice: &Notice) -> Value {
    json!({
        "what": notice.what,
        "section": notice.section,
        "count": notice.count,
        "kinds": notice.kinds,
        "examples": notice.examples.iter().map(kind).collect::<Vec<_>>(),
    })
}
