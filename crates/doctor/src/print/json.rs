//! For programs. Keys and words never change their meaning; new ones may come.

use serde_json::{Value, json};

use crate::finding::Amount;
use crate::{Finding, Machine, Remedy, Request, Verdict};

/// The layout's number; it grows where a key changes its meaning.
const VERSION: u32 = 1;

pub(crate) fn render(machine: &Machine, request: &Request, findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let document = json!({
        "version": VERSION,
        "request": {
            "connections": request.connections,
            "role": request.role.to_string(),
            "driver": request.driver.to_string(),
            "workers": request.workers,
            "max_backends": request.max_backends,
            "back_log": request.back_log,
            "address_pairs": request.address_pairs,
        },
        "machine": {
            "kernel": machine.release,
            "cores": machine.cores,
            "memory_bytes": machine.memory.total,
        },
        "counts": {
            "short": count(Verdict::Short),
            "hint": count(Verdict::Hint),
            "unknown": count(Verdict::Unknown),
            "ok": count(Verdict::Ok),
        },
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn finding(finding: &Finding) -> Value {
    json!({
        "check": finding.check.key(),
        "subject": finding.subject,
        "verdict": finding.verdict.word(),
        "found": amount(&finding.found),
        "needed": amount(&finding.needed),
        "why": finding.why,
        "line": finding.to_string(),
        "remedies": finding.remedies.iter().map(remedy).collect::<Vec<_>>(),
    })
}

/// A number (bytes in bytes), a word, or null for what could not be read or is not needed.
fn amount(amount: &Amount) -> Value {
    match (amount.number(), amount) {
        (Some(number), _) => json!(number),
        (None, Amount::Unread) => Value::Null,
        (None, other) => json!(other.to_string()),
    }
}

fn remedy(remedy: &Remedy) -> Value {
    let lasting = remedy.lasting();
    let mut value = json!({
        "kind": remedy.kind(),
        "now": remedy.now(),
        "lasting": lasting.as_ref().map(|(line, _)| line),
        "place": lasting.as_ref().map(|(_, place)| place).filter(|place| !place.is_empty()),
    });
    if let Remedy::Sysctl { key, value: setting } = remedy {
        value["key"] = json!(key);
        value["value"] = json!(setting);
    }
    value
}
