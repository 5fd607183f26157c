//! The tab of Onramps: what each of those that are looked at has, and which others these know in front of their servers.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{ONRAMP, PEERS, Snapshot, Table, Value};
use crate::tabs::Tab;

/// Two looks that say of one connection that it began at times no further apart, in milliseconds, speak of the same: how long the looks
/// themselves take lies between.
const SAME: u64 = 1_000;

/// A row of the table `peers`.
struct Peer<'l> {
    /// Who says so.
    by: &'l str,
    own: bool,
    slot: &'l Value,
    connection: &'l Value,
    host: &'l Value,
    at_work: &'l Value,
    known_us: &'l Value,
    max_backends: &'l Value,
}

impl Peer<'_> {
    /// What names it in front of a server.
    fn id(&self) -> Option<(i64, i64)> {
        Some((self.slot.integer()?, self.connection.integer()?))
    }
}

/// Whether there is more than one Onramp to tell of.
pub fn are_several(look: &Snapshot) -> bool {
    look.is_of_several() || look.tables.get(PEERS).is_some_and(|peers| peers.rows.len() > 1)
}

/// The table, from the looks and from the statements a second of each.
pub fn table(look: &Snapshot, rates: &BTreeMap<String, f64>) -> Table {
    let peers = peers(look);
    let mut columns = vec![String::from(ONRAMP)];
    columns.extend(Tab::Onramps.columns().iter().map(|column| column.name.to_owned()));
    let mut rows = Vec::new();
    let mut own = BTreeSet::new();
    let each: BTreeMap<&str, &Snapshot> = look.each().into_iter().collect();
    let parts = look.parts.iter().map(|part| {
        let failure = part.look.as_ref().err().map(String::as_str);
        (part.name.as_str(), part.target.as_str(), failure)
    });
    let alone = (!look.is_of_several()).then_some(("", "", None));
    for (name, target, failure) in alone.into_iter().chain(parts) {
        let peer = peers.iter().find(|peer| peer.own && peer.by == name);
        own.extend(peer.and_then(Peer::id));
        let host = || peers.iter().find(|other| !other.own && other.id() == peer.and_then(Peer::id));
        let figures = Figures { look: each.get(name).copied(), rate: rates.get(name).copied() };
        let value = |column: &String| match (column.as_str(), peer) {
            (ONRAMP, _) => text(name),
            ("address", _) => text(target),
            ("stands", _) => text(&failure.map_or_else(|| stands(look, name), str::to_owned)),
            ("host", Some(peer)) if peer.id().is_some() => {
                host().map_or(Value::Null, |other| other.host.clone())
            }
            (column, peer) => {
                figures.value(column).or(peer.map(|peer| of_peer(peer, column))).unwrap_or(Value::Null)
            }
        };
        rows.push(columns.iter().map(value).collect());
    }
    for peer in peers.iter().filter(|peer| !peer.own) {
        // Known by several it has one row.
        if peer.id().is_none_or(|id| !own.insert(id)) {
            continue;
        }
        let value = |column: &String| match column.as_str() {
            "stands" if look.is_of_several() => text("not asked, or it does not answer; others know it"),
            "stands" => text("another one, which this one knows"),
            column => of_peer(peer, column),
        };
        rows.push(columns.iter().map(value).collect());
    }
    if !look.is_of_several() {
        columns.remove(0);
        rows.iter_mut().for_each(|row: &mut Vec<Value>| drop(row.remove(0)));
    }
    Table { columns, rows }
}

/// Onramps that are asked twice, by two names, which their figures are counted for.
pub fn twice(look: &Snapshot) -> Vec<String> {
    let peers = peers(look);
    let began = |peer: &Peer<'_>| {
        let look = look.each().into_iter().find(|(name, _)| *name == peer.by)?.1;
        Some(look.at.saturating_sub(u64::try_from(peer.known_us.integer()?).ok()? / 1000))
    };
    let own: Vec<_> = peers
        .iter()
        .filter(|peer| peer.own)
        .filter_map(|peer| Some((peer.by, peer.id()?, began(peer)?)))
        .collect();
    let mut texts = Vec::new();
    for (place, (name, id, began)) in own.iter().enumerate() {
        let same = own[..place].iter().find(|(_, other, at)| other == id && at.abs_diff(*began) < SAME);
        texts.extend(
            same.map(|(other, ..)| format!("[{other} and {name} seem to be one Onramp, which counts twice]")),
        );
    }
    texts
}

/// Pairs of Onramps that know each other, and so are in front of the same server; each pair both ways.
pub fn pairs(peers: Option<&Table>) -> BTreeSet<(String, String)> {
    let peers = peers.map_or_else(Vec::new, rows_of);
    let own: Vec<(&str, (i64, i64))> =
        peers.iter().filter(|peer| peer.own).filter_map(|peer| Some((peer.by, peer.id()?))).collect();
    let knows = |name: &str, id: (i64, i64)| {
        peers.iter().any(|peer| !peer.own && peer.by == name && peer.id() == Some(id))
    };
    let mut pairs = BTreeSet::new();
    for (name, id) in &own {
        for (other, other_id) in &own {
            if knows(name, *other_id) && knows(other, *id) {
                pairs.insert(((*name).to_owned(), (*other).to_owned()));
            }
        }
    }
    pairs
}

fn peers(look: &Snapshot) -> Vec<Peer<'_>> {
    look.tables.get(PEERS).map_or_else(Vec::new, rows_of)
}

fn rows_of<'l>(table: &'l Table) -> Vec<Peer<'l>> {
    let peer = |row: &'l Vec<Value>| {
        let value = |name: &str| table.column(name).and_then(|place| row.get(place)).unwrap_or(&Value::Null);
        let by = match value(ONRAMP) {
            Value::Text(name) => name.as_str(),
            _ => "",
        };
        Peer {
            by,
            own: value("own").integer() == Some(1),
            slot: value("slot"),
            connection: value("connection_id"),
            host: value("host"),
            at_work: value("at_work"),
            known_us: value("since_us"),
            max_backends: value("max_backends"),
        }
    };
    table.rows.iter().map(peer).collect()
}

fn of_peer(peer: &Peer<'_>, column: &str) -> Value {
    let value = match column {
        "slot" => peer.slot,
        "at_work" => peer.at_work,
        "host" => peer.host,
        "since_us" => peer.known_us,
        "max_backends" if peer.own => peer.max_backends,
        _ => &Value::Null,
    };
    value.clone()
}

/// What an Onramp that answers says of itself.
struct Figures<'l> {
    look: Option<&'l Snapshot>,
    rate: Option<f64>,
}

impl Figures<'_> {
    fn value(&self, column: &str) -> Option<Value> {
        let number = |name: &str| self.look?.number(name);
        let number = match column {
            "rate" => self.rate.map(|rate| rate.round() as i64),
            "clients" => number("Threads_connected"),
            "running" => number("Onramp_permits_in_use"),
            "permits" => number("Onramp_permits"),
            "waiting" => {
                let queues = ["Onramp_queued_high", "Onramp_queued_low", "Onramp_queued_long"];
                queues.into_iter().filter_map(number).reduce(i64::saturating_add)
            }
            "backends" => number("Onramp_backends"),
            "uptime_us" => number("Uptime").map(|seconds| seconds.saturating_mul(1_000_000)),
            _ => None,
        };
        number.map(Value::Integer)
    }
}

/// How it stands: its sentences, but for what a restart would break off.
fn stands(look: &Snapshot, name: &str) -> String {
    let notes = look.notes();
    let own = notes.iter().filter(|note| note.onramp == name && note.about != "restart");
    own.map(|note| note.text).collect::<Vec<_>>().join("  ")
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::Text(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Part;

    /// Rows of who says so, slot, whether it is that one, connection, host, whether it is at work, and since when in seconds.
    fn look(several: &[&str], peers: &[(&str, i64, bool, i64, &str, bool, i64)]) -> Snapshot {
        let columns =
            ["onramp", "slot", "own", "connection_id", "host", "at_work", "since_us", "max_backends"];
        let row =
            |(by, slot, own, connection, host, at_work, since): &(&str, i64, bool, i64, &str, bool, i64)| {
                vec![
                    text(by),
                    if *slot == 0 { Value::Null } else { Value::Integer(*slot) },
                    Value::Integer(i64::from(*own)),
                    Value::Integer(*connection),
                    text(host),
                    Value::Integer(i64::from(*at_work)),
                    Value::Integer(since * 1_000_000),
                    Value::Integer(60),
                ]
            };
        let table =
            Table { columns: columns.map(String::from).to_vec(), rows: peers.iter().map(row).collect() };
        let status = [
            ("Threads_connected", "7"),
            ("Onramp_queued_high", "2"),
            ("Onramp_queued_low", "3"),
            ("Uptime", "9"),
        ];
        let status = status.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let own = Snapshot { at: 100_000, status, ..Snapshot::default() };
        let part = |name: &&str| {
            let look = if name.starts_with("gone") { Err("refused".to_owned()) } else { Ok(own.clone()) };
            Part { name: (*name).to_owned(), target: format!("{name}:33062"), look }
        };
        let parts = several.iter().map(part).collect();
        Snapshot { tables: BTreeMap::from([(PEERS.to_owned(), table)]), parts, ..own.clone() }
    }

    fn shown(look: &Snapshot, columns: &[&str]) -> Vec<String> {
        let table = table(look, &BTreeMap::from([("a".to_owned(), 12.4), (String::new(), 5.0)]));
        let cell = |row: &Vec<Value>, name: &&str| {
            table.column(name).map_or_else(String::new, |place| row[place].text())
        };
        table
            .rows
            .iter()
            .map(|row| columns.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn one_says_what_it_has_and_whom_it_knows() {
        let alone = look(&[], &[("", 1, true, 40, "", true, 5)]);
        assert!(!are_several(&alone) && !are_several(&Snapshot::default()));
        let both = look(&[], &[("", 1, true, 40, "", true, 5), ("", 2, false, 41, "10.0.0.7", false, 3)]);
        assert!(are_several(&both));
        let columns = ["slot", "at_work", "clients", "waiting", "max_backends", "rate", "host"];
        assert_eq!(shown(&both, &columns), ["1 1 7 5 60 5 ", "2 0     10.0.0.7"]);
        assert_eq!(table(&both, &BTreeMap::new()).column(ONRAMP), None);
        // With `peers = off` there is this one all the same.
        assert_eq!(shown(&look(&[], &[]), &columns), ["  7 5  5 "]);
    }

    #[test]
    fn several_have_a_row_each_and_others_that_they_know_one_too() {
        let look = look(
            &["a", "b", "gone"],
            &[
                ("a", 1, true, 40, "", true, 9),
                ("a", 2, false, 41, "host-b", false, 9),
                ("a", 3, false, 42, "host-c", true, 9),
                ("b", 1, false, 40, "host-a", true, 9),
                ("b", 2, true, 41, "", false, 9),
                ("b", 3, false, 42, "host-c", true, 9),
            ],
        );
        assert_eq!(
            shown(&look, &["onramp", "slot", "at_work", "host", "clients", "rate", "address"]),
            [
                "a 1 1 host-a 7 12 a:33062",
                "b 2 0 host-b 7  b:33062",
                "gone      gone:33062",
                " 3 1 host-c   "
            ]
        );
        let stands = shown(&look, &["stands"]);
        assert_eq!((stands[2].as_str(), stands[3].starts_with("not asked")), ("refused", true));
        assert!(twice(&look).is_empty());
    }

    #[test]
    fn one_that_is_asked_by_two_names_is_said() {
        let same = |since: i64| {
            look(&["a", "b"], &[("a", 1, true, 40, "", true, 9), ("b", 1, true, 40, "", true, since)])
        };
        assert_eq!(twice(&same(9)), ["[a and b seem to be one Onramp, which counts twice]"]);
        // In front of two servers slots and ids may be the same.
        assert!(twice(&same(11)).is_empty());
        let slotless = look(&["a", "b"], &[("a", 0, true, 40, "", true, 9), ("b", 0, true, 40, "", true, 9)]);
        assert!(twice(&slotless).is_empty());
    }
}
