use super::*;
use crate::cluster::chosen::Chosen;
use crate::cluster::testing::{address, at, member, two_servers, writes};
use crate::settings::Settings;

/// Two servers. The first takes writes and has been chosen.
fn primary_and_replica() -> (Cluster, Settings, Chosen) {
    let settings = two_servers();
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    seen(&mut cluster, 1, [true, false]);
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    (cluster, settings, chosen)
}

/// Three nodes of one Galera. The second has the lowest place and has been chosen.
fn nodes() -> (Cluster, Settings, Chosen) {
    let mut settings = two_servers();
    settings.server.push(address(3));
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    for (place, index) in [1, 0, 2].into_iter().enumerate() {
        cluster.seen(at(1), place, member(place, index));
    }
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    assert_eq!(chosen.get().place, Some(1));
    (cluster, settings, chosen)
}

fn seen(cluster: &mut Cluster, second: u64, writable: [bool; 2]) {
    for (place, writable) in writable.into_iter().enumerate() {
        cluster.seen(at(second), place, writes(place, writable));
    }
}

fn drain(place: usize) -> DrainOrder {
    DrainOrder { place, drains: true, is_planned: false }
}

fn undrain(place: usize) -> DrainOrder {
    DrainOrder { drains: false, ..drain(place) }
}

fn planned(order: DrainOrder) -> DrainOrder {
    DrainOrder { is_planned: true, ..order }
}

fn order(
    cluster: &mut Cluster,
    chosen: &Chosen,
    settings: &Settings,
    order: DrainOrder,
) -> Result<DrainOutcome, NotDrained> {
    cluster.drain(order, chosen.get().place, &settings.server)
}

#[test]
fn a_drained_replica_is_not_chosen_until_it_is_put_back() {
    let (mut cluster, settings, chosen) = primary_and_replica();
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(1)), Ok(DrainOutcome::Done));
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(1)), Ok(DrainOutcome::AlreadySo));
    assert_eq!(cluster.told, [Event::DrainChanged { address: address(2), is_drained: true }]);
    assert!(
        cluster.reason_of(1, &settings.server).starts_with("drained by an operator")
            && !cluster.is_drained(0)
    );
    // A second server that takes writes would end the choice, were it not passed over.
    seen(&mut cluster, 2, [true, true]);
    assert_eq!(cluster.choose_confirmed(at(2), &chosen, &settings), None);
    let refused = order(&mut cluster, &chosen, &settings, undrain(1)).unwrap_err();
    assert!(
        matches!(&refused, NotDrained::NoPrimary { reason, .. } if reason.contains("set read_only")),
        "{refused}"
    );
    seen(&mut cluster, 3, [true, false]);
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(1)), Ok(DrainOutcome::Done));
    assert!(!cluster.is_drained(1));
}

#[test]
fn a_primary_without_another_writer_and_the_last_server_are_not_drained() {
    let (mut cluster, settings, chosen) = primary_and_replica();
    let refused = order(&mut cluster, &chosen, &settings, drain(0)).unwrap_err();
    assert!(refused.to_string().contains("SWITCHOVER TO '127.0.0.1:2'"), "{refused}");
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(1)), Ok(DrainOutcome::Done));
    let refused = order(&mut cluster, &chosen, &settings, drain(0)).unwrap_err();
    assert_eq!(refused, NotDrained::Last(address(1)));
    // Whoever is down is no other one.
    let (mut cluster, settings, chosen) = primary_and_replica();
    cluster.seen(at(2), 1, super::super::verdict::ServerVerdict::unreached(""));
    cluster.seen(at(3), 1, super::super::verdict::ServerVerdict::unreached(""));
    assert!(order(&mut cluster, &chosen, &settings, drain(0)).is_err());
}

#[test]
fn the_writer_of_several_moves_by_plan_and_back_where_the_rule_says_so() {
    let (mut cluster, settings, chosen) = nodes();
    let moves = Ok(DrainOutcome::Moves { from: 1, to: 0 });
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(1)), moves);
    assert!(!cluster.is_drained(1) && cluster.told.is_empty(), "nothing has changed yet");
    chosen.give_way(1);
    assert_eq!(order(&mut cluster, &chosen, &settings, planned(drain(1))), Ok(DrainOutcome::Done));
    assert!(cluster.choose_confirmed(at(2), &chosen, &settings).is_some());
    assert_eq!(chosen.get().place, Some(0));
    // The third has a higher place than the second.
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(2)), Ok(DrainOutcome::Done));
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(2)), Ok(DrainOutcome::Done));
    let moves = Ok(DrainOutcome::Moves { from: 0, to: 1 });
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(1)), moves);
    assert!(cluster.is_drained(1));
}

#[test]
fn a_drain_is_one_of_the_server_by_whatever_address() {
    let mut settings = two_servers();
    settings.server.push(address(3));
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    let same = |place: usize| writes(place.min(1), place == 0);
    (0..3).for_each(|place| cluster.seen(at(1), place, same(place)));
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(2)), Ok(DrainOutcome::Done));
    assert!(cluster.is_drained(1) && cluster.is_drained(2));
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(1)), Ok(DrainOutcome::Done));
    assert!(!cluster.is_drained(1) && !cluster.is_drained(2));
}

/// The name of a cluster, which leads to the server that writes, and the names of its servers.
fn names() -> (Cluster, Settings, Chosen) {
    let mut settings = two_servers();
    settings.server.push(address(3));
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    for (place, server) in [0, 0, 1].into_iter().enumerate() {
        cluster.seen(at(1), place, writes(server, server == 0));
    }
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    (cluster, settings, chosen)
}

/// Has a name lead to another server, which has not answered there.
fn moves(cluster: &mut Cluster, second: u64, place: usize) {
    cluster.begin_elsewhere(at(second), place, "its name leads elsewhere now");
}

#[test]
fn a_drain_does_not_go_along_with_another_name_of_the_server() {
    let (mut cluster, settings, chosen) = names();
    assert_eq!(order(&mut cluster, &chosen, &settings, planned(drain(1))), Ok(DrainOutcome::Done));
    assert_eq!([0, 1, 2].map(|place| cluster.is_drained(place)), [true, true, false]);
    moves(&mut cluster, 2, 0);
    cluster.seen(at(3), 1, writes(0, false));
    cluster.seen(at(3), 0, writes(1, true));
    cluster.seen(at(3), 2, writes(1, true));
    assert_eq!([0, 1, 2].map(|place| cluster.is_drained(place)), [false, true, false]);
    let found = cluster.choose_confirmed(at(3), &chosen, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { .. })), "{found:?}");
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(1)), Ok(DrainOutcome::Done));
    assert!(!cluster.is_drained(1));
}

/// An operator who has drained a name has it out of use, wherever it leads. An example is the name of the readers, which leads to the
/// writer where there are no others.
#[test]
fn a_drain_goes_along_with_the_name_that_was_drained_and_takes_no_other_server_away() {
    let (mut cluster, settings, chosen) = names();
    let drained = |cluster: &Cluster| [0, 1, 2].map(|place| cluster.is_drained(place));
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(2)), Ok(DrainOutcome::Done));
    moves(&mut cluster, 2, 2);
    assert_eq!(drained(&cluster), [false, false, true]);
    cluster.seen(at(3), 2, writes(2, true));
    assert_eq!(drained(&cluster), [false, false, true]);
    assert_eq!(cluster.choose_confirmed(at(3), &chosen, &settings), None, "it is no second primary");
    moves(&mut cluster, 4, 2);
    cluster.seen(at(5), 2, writes(0, true));
    assert_eq!(drained(&cluster), [false, false, true]);
    assert_eq!(cluster.choose_confirmed(at(5), &chosen, &settings), None, "the writer goes on");
    // What was drained is that still, by another name of it too.
    moves(&mut cluster, 6, 1);
    cluster.seen(at(7), 1, writes(1, false));
    assert_eq!(drained(&cluster), [false, true, true]);
    assert_eq!(order(&mut cluster, &chosen, &settings, undrain(1)), Ok(DrainOutcome::Done));
    assert_eq!(drained(&cluster), [false; 3]);
}

#[test]
fn a_worker_that_checks_nothing_knows_of_no_drain() {
    let cluster = Cluster::new(&two_servers(), 1);
    assert!(!cluster.is_drained(0) && !cluster.is_drained(1));
}

/// The drained name stands in front of the writer's own name in the list.
#[test]
fn a_drained_name_that_comes_to_lead_to_the_writer_is_passed_over() {
    let (mut cluster, settings, chosen) = primary_and_replica();
    assert_eq!(order(&mut cluster, &chosen, &settings, planned(drain(0))), Ok(DrainOutcome::Done));
    moves(&mut cluster, 2, 0);
    for second in [3, 4] {
        cluster.seen(at(second), 0, writes(1, true));
        cluster.seen(at(second), 1, writes(1, true));
    }
    let found = cluster.choose_confirmed(at(4), &chosen, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { .. })), "{found:?}");
    assert_eq!(chosen.get().place, Some(1));
}

/// Statements wait for half of the time that they have, and then a drain saves nobody any more.
#[test]
fn a_drained_server_is_used_where_nobody_else_takes_writes_for_long() {
    let (mut cluster, mut settings, chosen) = primary_and_replica();
    settings.cluster.hold = Duration::from_secs(20);
    assert_eq!(order(&mut cluster, &chosen, &settings, drain(1)), Ok(DrainOutcome::Done));
    cluster.told.clear();
    seen(&mut cluster, 2, [false, true]);
    let news = cluster.choose_confirmed(at(2), &chosen, &settings);
    let Some(Event::NoPrimary { reason }) = news else { panic!("{news:?}") };
    assert!(reason.contains("127.0.0.1:2 is drained no more"), "{reason}");
    let checks = std::mem::take(&mut cluster.checks);
    assert_eq!(cluster.next_turn(&settings), Some(at(12)), "where nobody else wakes it");
    cluster.checks = checks;
    // Somebody else has taken writes in between.
    seen(&mut cluster, 3, [true, true]);
    assert!(cluster.choose_confirmed(at(3), &chosen, &settings).is_some());
    seen(&mut cluster, 4, [false, true]);
    assert!(cluster.choose_confirmed(at(4), &chosen, &settings).is_some());
    assert_eq!(cluster.choose_confirmed(at(13), &chosen, &settings), None);
    let found = cluster.choose_confirmed(at(14), &chosen, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { .. })), "{found:?}");
    assert_eq!(cluster.told, [Event::DrainEnded { address: address(2) }]);
    assert!(!cluster.is_drained(1));
    // Two that take writes are none, as ever.
    seen(&mut cluster, 15, [true, true]);
    assert!(matches!(cluster.choose_confirmed(at(15), &chosen, &settings), Some(Event::NoPrimary { .. })));
}
