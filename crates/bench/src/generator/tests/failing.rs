//! What becomes of events that fail, and of those that take too long.

use super::*;

#[test]
fn a_refused_event_is_dropped_where_that_is_wanted() {
    let options = options("point_select --time 1 --ignore-errors 1205 --after-error drop");
    let mut number = 0;
    let mut world = World::new(&options, |_, _| {
        number += 1;
        // Every second one is refused, late.
        if number % 2 == 0 {
            Answer::Late(Duration::from_millis(3), error(1205))
        } else {
            Answer::Bytes(row("c"))
        }
    });
    world.run();
    let outcome = world.generator.into_outcome();
    let total = &outcome.statistics.total;
    // A good one takes a millisecond and a refused one four; the time of the latter is nobody's latency.
    assert_eq!((total.latencies.count(), outcome.statistics.errors.total()), (200, 200));
    assert!(total.latencies.max() < 1.5, "{}", total.latencies.max());
    assert!(outcome.failure.is_none());
}

#[test]
fn a_transaction_that_is_dropped_is_rolled_back_first() {
    let options = options("update_non_index_trx --events 3 --time 0 --ignore-errors 1213 --after-error drop");
    let mut updates = 0;
    let mut world = World::new(&options, |_, text| {
        updates += u32::from(text.starts_with("UPDATE"));
        let refused = text.starts_with("UPDATE") && updates == 2;
        Answer::Bytes(if refused { error(1213) } else { ok(1, text != "COMMIT" && text != "ROLLBACK") })
    });
    world.run();
    let kinds: Vec<_> =
        world.texts(0).iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    let (whole, failed) = (["BEGIN", "UPDATE", "COMMIT"], ["BEGIN", "UPDATE", "ROLLBACK"]);
    assert_eq!(kinds[..9], [whole, failed, whole].concat());
    let outcome = world.generator.into_outcome();
    assert_eq!(outcome.statistics.total.latencies.count(), 2);
    assert_eq!(outcome.statistics.mismatches, 0);
}

#[test]
fn an_impatient_client_hangs_up_and_asks_again() {
    let options = options("point_select --time 1 --give-up 100");
    let mut world = World::new(&options, |index, _| {
        // Nothing is answered on the first two connections.
        if index < 2 { Answer::Silence } else { Answer::Bytes(row("c")) }
    });
    world.run();
    assert_eq!((world.texts(0).len(), world.texts(1).len()), (1, 1));
    assert_eq!(world.connections[..2], [None, None]);
    let outcome = world.generator.into_outcome();
    let errors: Vec<_> = outcome.statistics.errors.iter().map(|(code, count, _)| (code, count)).collect();
    assert_eq!(errors, [(ClientError::GivenUp as u16, 2)]);
    let latencies = &outcome.statistics.total.latencies;
    // The first event's latency counts from its first try; those after it have their answer in time.
    assert!((200.0..300.0).contains(&latencies.max()), "{}", latencies.max());
    assert!(latencies.count() > 700, "{}", latencies.count());
}

/// What a server in memory has stored, and what it has been asked to.
#[derive(Default)]
struct Stored {
    /// For good.
    markers: Vec<i64>,
    /// In the open transaction of a connection.
    open: BTreeMap<u32, Vec<i64>>,
    asked: u32,
}

impl Stored {
    /// Does what a statement says; `None` where the answer to it gets lost.
    fn execute(&mut self, connection: u32, text: &str) -> Option<Vec<u8>> {
        self.asked += 1;
        // Numbers without a common factor with the eight statements of an event, so that each of them meets all of it.
        let (lost_before, lost_behind) = (self.asked % 31 == 0, self.asked % 37 == 0);
        if lost_before {
            self.open.remove(&connection);
            return None;
        }
        if self.asked % 41 == 0 {
            self.open.remove(&connection);
            return Some(error(1213));
        }
        match text {
            "BEGIN" => drop(self.open.insert(connection, Vec::new())),
            "COMMIT" => self.markers.extend(self.open.remove(&connection).unwrap()),
            "ROLLBACK" => drop(self.open.remove(&connection)),
            _ => {
                if let Some(marker) = text.strip_prefix("INSERT INTO ledger_marker (writer) VALUES (") {
                    let marker = marker.trim_end_matches(')').parse().unwrap();
                    self.open.get_mut(&connection).unwrap_or(&mut self.markers).push(marker);
                }
            }
        }
        if lost_behind {
            self.open.remove(&connection);
            return None;
        }
        Some(if text.starts_with("SELECT") { row("0") } else { ok(1, self.open.contains_key(&connection)) })
    }
}

#[test]
fn it_is_known_what_became_of_each_marker_whatever_is_lost() {
    let options = options("ledger_mix --connections 5 --time 3 --ignore-errors all --journal FILE");
    let mut stored = Stored::default();
    let mut world = World::new(&options, |index, text| match stored.execute(index, text) {
        Some(bytes) => Answer::Bytes(bytes),
        None => Answer::Close,
    });
    world.run();
    let news = Rc::clone(&world.news);
    let sent = world.log.iter().filter(|(_, text)| text.starts_with("INSERT")).count();
    drop(world);
    let markers_of = |fate: &str| -> Vec<i64> {
        let head = format!("Marker {{ fate: {fate}, marker: ");
        let news = news.borrow();
        let told = news.iter().filter_map(|line| line.strip_prefix(&head)?.strip_suffix(" }"));
        told.map(|marker| marker.parse().unwrap()).collect()
    };
    let [acknowledged, refused, unknown] = ["Acknowledged", "Refused", "Unknown"].map(markers_of);
    let is_stored = |marker: &&i64| stored.markers.contains(marker);
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    assert_eq!(acknowledged.iter().find(|marker| !is_stored(marker)), None);
    assert_eq!(refused.iter().find(is_stored), None);
    assert!(!refused.is_empty() && unknown.iter().any(|marker| is_stored(&marker)));
    assert!(unknown.iter().any(|marker| !is_stored(&marker)));
    let mut all = [acknowledged, refused, unknown].concat();
    assert!(all.len() >= sent, "{} of {sent} markers", all.len());
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "each is told once");
    assert_eq!(stored.markers.iter().find(|marker| all.binary_search(marker).is_err()), None);
}

#[test]
fn a_lost_answer_leaves_open_only_what_it_could_have_stored() {
    use crate::journal::Fate::{self, Acknowledged, Refused, Unknown};
    let plan = crate::workload::Workload::LedgerMix.plan();
    let fates =
        |end: End| -> Vec<Option<Fate>> { (0..plan.steps.len()).map(|step| plan.fate(step, end)).collect() };
    let refused = [Some(Refused); 5];
    let with = |alone: Option<Fate>, inside: [Option<Fate>; 5], commit: Option<Fate>| {
        [&[None, alone, None][..], &inside, &[commit]].concat()
    };
    assert_eq!(fates(End::Answered), with(Some(Acknowledged), [None; 5], Some(Acknowledged)));
    assert_eq!(fates(End::Failed(1213)), with(Some(Refused), refused, Some(Refused)));
    assert_eq!(fates(End::Failed(2013)), with(Some(Unknown), refused, Some(Unknown)));
    assert_eq!(fates(End::Lost), with(Some(Unknown), refused, Some(Unknown)));
    assert_eq!(fates(End::Left), with(None, refused, None));
    assert!(!crate::workload::Workload::PointSelect.plan().has_markers());
}
