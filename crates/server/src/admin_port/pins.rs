//! Reasons to pin, and what causes them, of all workers together.

use std::collections::BTreeMap;

use admin::Rows;
use admin::tables::{Pin, PinCause};
use engine::PinReport;

use super::values::digest_name;

/// Fills the tables. `clients` are those for whom a reason holds now.
pub(super) fn put<'a>(
    rows: &mut Rows<'_>,
    clients: BTreeMap<&'static str, u64>,
    reports: impl Iterator<Item = &'a PinReport>,
) {
    let mut pins: BTreeMap<&'static str, Pin> = BTreeMap::new();
    let mut causes: BTreeMap<(&'static str, Option<u64>), PinCause> = BTreeMap::new();
    let none = |reason| Pin { reason, clients: 0, times: 0, statements: 0 };
    for (reason, clients) in clients {
        pins.entry(reason).or_insert_with(|| none(reason)).clients = clients;
    }
    for report in reports {
        for found in &report.reasons {
            let pin = pins.entry(found.reason).or_insert_with(|| none(found.reason));
            pin.times += found.times;
            pin.statements += found.statements;
        }
        for found in &report.causes {
            let (reason, digest) = (found.reason, found.fingerprint.map(digest_name));
            let cause = causes.entry((reason, found.fingerprint)).or_insert_with(|| PinCause {
                reason,
                digest,
                text: None,
                times: 0,
            });
            cause.times += found.times;
            cause.text = cause.text.take().or_else(|| found.text.as_deref().map(String::from));
        }
    }
    pins.values().for_each(|pin| rows.put(pin));
    causes.values().for_each(|cause| rows.put(cause));
}
