//! Reasons to pin: whom they hold, which statements cause them, and how to do without.

use std::collections::BTreeMap;

use engine::PinReport;
use serde_json::{Value, json};

use super::top::Top;
use crate::admin_port::values::digest_name;

/// Causes of each reason that are shown: an application has few places that pin.
const CAUSES: usize = 5;

/// What to do instead, by reason; docs/DIFFERENCES.md says why each of them pins.
const ADVICE: [(&str, &str); 23] = [
    (
        "user_variable",
        "Pass values as parameters. Plain SET @x = literal travels with its client and pins nothing.",
    ),
    (
        "temporary_table",
        "DROP TEMPORARY TABLE as soon as it is read; the pin ends with it. Or use a CTE or a derived table.",
    ),
    ("lock_tables", "Use a transaction with SELECT ... FOR UPDATE; else UNLOCK TABLES early."),
    (
        "named_lock",
        "RELEASE_LOCK('name'), with a literal, as soon as it will do. A lock in a table's row needs no pin outside of its transaction.",
    ),
    (
        "text_prepare",
        "Prepare by the driver (COM_STMT_PREPARE) instead of PREPARE in a text; else DEALLOCATE PREPARE.",
    ),
    ("handler", "HANDLER ... CLOSE when done, or a SELECT by index."),
    ("found_rows", "SELECT COUNT(*) instead of SQL_CALC_FOUND_ROWS and FOUND_ROWS()."),
    (
        "session_variable",
        "SET it to a literal, which travels; or let the account or the server have it by default.",
    ),
    ("role", "Give the account a default role (SET DEFAULT ROLE) instead of SET ROLE."),
    (
        "next_transaction",
        "START TRANSACTION with its characteristics, or SET SESSION TRANSACTION, which travels.",
    ),
    ("xa", "It ends with XA COMMIT or XA ROLLBACK: keep the time between small."),
    (
        "routine",
        "COM_RESET_CONNECTION when done: most pools of connections can send it on return. Or let Onramp read stored code \
         (docs/ACCOUNTS.md), so that harmless routines do not pin.",
    ),
    ("sequence", "INSERT ... RETURNING instead of NEXTVAL and LASTVAL."),
    ("unknown", "The statement is not understood for sure: see its text. COM_RESET_CONNECTION ends it."),
    (
        "prepared_statement",
        "Prepare no statement that reads ROW_COUNT(), FOUND_ROWS() or warnings; close it when done.",
    ),
    ("thread_handling", "thread_handling = one-thread-per-connection asks for it: pool-of-threads pools."),
    (
        "character_set",
        "Connect with utf8mb4: in this character set no reader of statements can be sure of them.",
    ),
    ("state_change", "A trigger, a routine or a hint has changed the session. COM_RESET_CONNECTION ends it."),
    ("cursor", "Read it to its end or close it; without cursors (useCursorFetch=false) nothing pins."),
    ("savepoint", "It ends with COMMIT or ROLLBACK."),
    ("replication", "Readers of the binary log keep a connection of their own; so it is on the server, too."),
    ("metadata_lock", "COMMIT behind reads too, or use autocommit."),
    (
        "no_trackers",
        "The server does not report what statements change of their session (CLIENT_SESSION_TRACK): raise max_backends.",
    ),
];

/// By fingerprint how often, and the text.
type Causes<'a> = BTreeMap<Option<u64>, (u64, Option<&'a str>)>;

/// Reasons that hold now or have held, the one with most clients first. `clients` are those for whom one holds now.
pub(super) fn json<'a>(
    clients: &BTreeMap<&'static str, u64>,
    reports: impl Iterator<Item = &'a PinReport>,
) -> Value {
    let mut pins: BTreeMap<&str, (u64, u64)> = clients.keys().map(|&reason| (reason, (0, 0))).collect();
    let mut causes: BTreeMap<&str, Causes<'a>> = BTreeMap::new();
    for report in reports {
        for found in &report.reasons {
            let (times, statements) = pins.entry(found.reason).or_default();
            *times += found.times;
            *statements += found.statements;
        }
        for found in &report.causes {
            let (times, text) = causes.entry(found.reason).or_default().entry(found.fingerprint).or_default();
            *times += found.times;
            *text = text.or(found.text.as_deref());
        }
    }
    let mut top = Top::new(ADVICE.len());
    for (reason, (times, statements)) in pins {
        let now = clients.get(reason).copied().unwrap_or_default();
        // Clients that hold count before what has gone.
        top.put((now << 40) | times.min(1 << 39), || {
            json!({
                "reason": reason, "clients": now, "times": times, "statements": statements, "advice": advice(reason),
                "causes": causes.remove(reason).map(first_causes),
            })
        });
    }
    Value::from(top.finish())
}

fn first_causes(all: Causes<'_>) -> Vec<Value> {
    let mut top = Top::new(CAUSES);
    for (fingerprint, (times, text)) in all {
        top.put(times, || json!({ "digest": fingerprint.map(digest_name), "text": text, "times": times }));
    }
    top.finish()
}

fn advice(reason: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(known, _)| *known == reason).map(|&(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_advice() {
        let page = include_str!("../../../../../crates/sql/src/effects.rs");
        let named = page.lines().filter_map(|line| line.trim().strip_prefix("(Self::")?.split('"').nth(1));
        let reasons: Vec<_> = named.take_while(|reason| *reason != "all").collect();
        assert!(reasons.len() >= 14, "{reasons:?}");
        for reason in reasons.iter().take(14) {
            assert!(advice(reason).is_some(), "{reason}");
        }
    }

    #[test]
    fn those_that_hold_now_come_first() {
        let report = PinReport {
            reasons: vec![
                engine::PinReason { reason: "named_lock", times: 900, statements: 5 },
                engine::PinReason { reason: "cursor", times: 2, statements: 1 },
            ],
            causes: vec![
                engine::PinCause {
                    reason: "cursor",
                    fingerprint: Some(7),
                    text: Some("select ?".into()),
                    times: 2,
                },
                engine::PinCause { reason: "cursor", fingerprint: None, text: None, times: 9 },
            ],
        };
        let clients = BTreeMap::from([("cursor", 1)]);
        let found = json(&clients, [&report, &report].into_iter());
        assert_eq!(found[0]["reason"], "cursor");
        assert_eq!((&found[0]["times"], &found[0]["clients"]), (&json!(4), &json!(1)));
        assert_eq!(found[0]["causes"][0]["times"], 18);
        assert_eq!(found[0]["causes"][1]["text"], "select ?");
        assert_eq!(found[1]["reason"], "named_lock");
    }
}
