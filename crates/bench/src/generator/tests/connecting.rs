//! Everything before the load: connecting, logging in, and what may go wrong there.

use super::*;

fn answer_all(_: u32, _: &str) -> Answer {
    Answer::Bytes(row("c"))
}

#[test]
fn all_connections_stand_before_the_load_begins() {
    let options = options("point_select --connections 5000 --time 0.01");
    let mut world = World::new(&options, answer_all);
    // Some are reset on the way, and made again.
    world.admit = |index, _| match index % 10 {
        3 => Admission::Errno(Errno::CONNRESET),
        7 => Admission::Dropped,
        _ => Admission::In,
    };
    world.run();
    let first_statement = world.log[0].0;
    assert!(world.connections.len() > 5000 && first_statement < 5000);
    let outcome = world.generator.into_outcome();
    assert!(outcome.failure.is_none());
    assert_eq!(outcome.connected, 5000);
    let codes: Vec<_> =
        outcome.connecting_errors.iter().map(|(code, count, _)| (code, count > 100)).collect();
    assert_eq!(codes, [(2002, true), (2013, true)]);
    assert_eq!(outcome.statistics.errors.total(), 0, "they are no errors of the load");
    assert_eq!(outcome.fairness.map(|fairness| fairness.min > 0), Some(true));
}

#[test]
fn a_run_without_all_its_connections_fails_and_counts_them() {
    let options = options("point_select --connections 1000 --time 1");
    let mut world = World::new(&options, answer_all);
    world.admit = |index, _| if index < 900 { Admission::In } else { Admission::Refused(1040) };
    world.run();
    assert!(world.log.is_empty(), "nothing is measured");
    let outcome = world.generator.into_outcome();
    let failure = outcome.failure.unwrap();
    assert_eq!(failure.code, 1040);
    assert!(
        failure
            .text
            .contains("100 of 1,000 connections could not be made, 900 were; the first one: something"),
        "{failure}"
    );
    assert_eq!(outcome.connecting_errors.iter().collect::<Vec<_>>(), [(1040, 100, "something")]);
    assert_eq!((outcome.connected, outcome.measured), (900, Duration::ZERO));
}

#[test]
fn a_full_server_is_not_asked_100_000_times() {
    let options = options("point_select --connections 100000 --time 1");
    let mut world = World::new(&options, answer_all);
    world.admit = |index, _| if index < 500 { Admission::In } else { Admission::Refused(1040) };
    world.run();
    assert!(world.connections.len() < 1500, "{}", world.connections.len());
    let text = world.generator.into_outcome().failure.unwrap().text;
    assert!(
        text.contains("of 100,000 connections could not be made, 500 were, and the rest was not tried"),
        "{text}"
    );
}

#[test]
fn a_refusal_of_everybody_ends_the_run_at_once() {
    let options = options("point_select --connections 1000 --time 1");
    let mut world = World::new(&options, answer_all);
    world.admit = |_, _| Admission::Refused(1045);
    world.run();
    let failure = world.generator.into_outcome().failure.unwrap();
    assert!(failure.code == 1045 && failure.text.contains("connection 1 of 1000"), "{failure}");
}

#[test]
fn a_server_that_drops_whom_it_lets_in_comes_to_an_end() {
    // More than are under way at a time, so that they never stand all together.
    let options = options("point_select --connections 1000 --time 1");
    let mut world = World::new(&options, answer_all);
    world.admit = |_, _| Admission::Dropped;
    world.run();
    let outcome = world.generator.into_outcome();
    let failure = outcome.failure.unwrap();
    assert!(
        failure.code == 2013 && failure.text.contains("of 1,000 connections could not be made"),
        "{failure}"
    );
    assert!(outcome.connecting_errors.total() <= 1000 * 9);
}

fn local(number: u8) -> Address {
    Address::Tcp {
        remote: ([127, 0, 0, 1], 3306).into(),
        local: Some(std::net::Ipv4Addr::new(127, 0, 0, number).into()),
    }
}

#[test]
fn an_address_without_ports_is_left_for_the_next() {
    let options = options("point_select --connections 90 --time 0.01");
    let mut world = World::new(&options, answer_all);
    world.generator.addresses = vec![local(1), local(2), local(3)];
    world.admit = |_, address| {
        if *address == local(2) { Admission::Errno(Errno::ADDRNOTAVAIL) } else { Admission::In }
    };
    world.run();
    let used = |number| world.addresses.iter().filter(|address| **address == local(number)).count();
    assert_eq!([used(1), used(2), used(3)], [30, 30, 60]);
    let outcome = world.generator.into_outcome();
    assert!(outcome.failure.is_none() && outcome.connecting_errors.total() == 0);
    assert_eq!(outcome.connected, 90);
}

#[test]
fn no_ports_at_all_end_the_run_with_what_to_do() {
    let options = options("point_select --connections 90 --time 1");
    let mut world = World::new(&options, answer_all);
    world.generator.addresses = vec![local(1), local(2), local(3)];
    world.admit = |_, _| Admission::Errno(Errno::ADDRNOTAVAIL);
    world.run();
    let failure = world.generator.into_outcome().failure.unwrap();
    assert!(failure.code == 2003 && failure.text.contains("--local-address"), "{failure}");
}

#[test]
fn an_interrupt_while_connecting_ends_the_run() {
    let options = options("point_select --connections 1000 --time 1");
    let mut world = World::new(&options, answer_all);
    world.generator.handle(world.now, Input::TurnEnd);
    world.carry_out();
    world.generator.handle(world.now, Input::Signal(Signal::Drain));
    world.run();
    assert!(world.now <= Instant::START + HOP);
    let outcome = world.generator.into_outcome();
    assert!(outcome.interrupted && outcome.failure.is_none());
    assert_eq!((outcome.connected, outcome.measured), (0, Duration::ZERO));
}

#[test]
fn a_run_without_an_answer_fails() {
    let options = options("point_select --connections 2 --time 1");
    let mut world = World::new(&options, |_, _| Answer::Silence);
    world.run();
    let failure = world.generator.into_outcome().failure.unwrap();
    assert!(failure.text.contains("no event ended in the measured time of 1s"), "{failure}");
}
