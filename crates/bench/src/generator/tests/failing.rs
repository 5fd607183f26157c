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
