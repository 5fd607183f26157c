//! Letters between Onramps on a server of tests.

use std::collections::BTreeSet;

use super::mail::PEER_TIMEOUT;
use super::tests::{Locks, Onramp};
use super::*;
use crate::accounts::{Account, Credential};
use crate::ids::{ClientRef, client_key};
use crate::workers::letter::{Killer, Rights};

const MILLI: Duration = Duration::from_millis(1);

fn kill(victim: u32) -> Kill {
    let rights = Rights::of(&Account::of_test("app", "10.%", Credential::Empty));
    let killer = Killer::Client(ClientRef { key: client_key(3), id: 5 });
    Kill { from: 0, killer, victim, query_only: victim % 2 == 0, rights }
}

/// Two that know each other.
fn two(server: &mut Locks) -> [Onramp; 2] {
    let mut both = [Onramp::new(server, 7), Onramp::new(server, 8)];
    for _ in 0..2 {
        both.iter_mut().for_each(|onramp| onramp.look(server));
    }
    both
}

fn together(server: &mut Locks, both: &mut [Onramp; 2], millis: u32) {
    for _ in 0..millis {
        both.iter_mut().for_each(|onramp| onramp.go_on(server, MILLI));
    }
}

/// The letters that have come, with what stands in them.
fn letters(onramp: &mut Onramp) -> Vec<(Sender, Kill)> {
    let letter = |delivery| match delivery {
        Delivery::Kill { sender, victim, query_only, rights } => {
            Some((sender, Kill { query_only, rights, ..kill(victim) }))
        }
        Delivery::Outcome(..) => None,
    };
    onramp.deliveries().into_iter().filter_map(letter).collect()
}

fn mail_locks(server: &Locks) -> usize {
    server
        .held
        .keys()
        .filter(|name| name.starts_with("onramp.letter") || name.starts_with("onramp.answer"))
        .count()
}

#[test]
fn a_kill_arrives_whole_and_its_outcome_comes_back() {
    for outcome in [Outcome::Done, Outcome::NoSuchClient, Outcome::Denied] {
        let mut server = Locks::default();
        let mut both = two(&mut server);
        for victim in [u32::MAX, 0x4400_0007] {
            both[0].peers.send(both[0].now, 2, kill(victim));
            together(&mut server, &mut both, 1100);
            let [(sender, came)] = &letters(&mut both[1])[..] else { panic!("one letter") };
            assert_eq!(*came, kill(victim));
            both[1].peers.mail.settle(*sender, outcome);
            together(&mut server, &mut both, 50);
            assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(victim), outcome)]);
            together(&mut server, &mut both, 50);
            assert_eq!(mail_locks(&server), 0, "{:?}", server.held);
        }
        together(&mut server, &mut both, 2000);
        server.asked.clear();
        together(&mut server, &mut both, 5000);
        assert_eq!(server.asked.len(), 10, "with nothing under way each asks once a second");
    }
}

#[test]
fn many_arrive_one_after_the_other_each_once_and_both_ways() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    for number in 0..50 {
        both[0].peers.send(both[0].now, 2, kill(number));
        both[1].peers.send(both[1].now, 1, kill(100 + number));
    }
    let (mut came, mut told) = ([Vec::new(), Vec::new()], 0);
    for _ in 0..4000 {
        together(&mut server, &mut both, 1);
        for (onramp, came) in both.iter_mut().zip(&mut came) {
            for delivery in onramp.deliveries() {
                match delivery {
                    Delivery::Kill { sender, victim, .. } => {
                        came.push(victim);
                        onramp.peers.mail.settle(sender, Outcome::Done);
                    }
                    Delivery::Outcome(_, outcome) => {
                        assert_eq!(outcome, Outcome::Done);
                        told += 1;
                    }
                }
            }
        }
    }
    assert_eq!(came, [(100..150).collect::<Vec<_>>(), (0..50).collect()]);
    assert_eq!((told, mail_locks(&server)), (100, 0));
}

#[test]
fn locks_of_others_forge_no_letter_and_no_answer() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    // Another account's connection has all that a letter to the second could be made of, but for what the first holds.
    server.threads.insert(20, "app");
    let names = |to: u64, from: u32| (0..208).map(move |bit| format!("onramp.letter.{to}.{from}.{bit}"));
    for from in 1..=SLOTS {
        server.held.insert(format!("onramp.letter.8.{from}"), 20);
        server.held.extend(names(8, from).map(|name| (name, 20)));
    }
    together(&mut server, &mut both, 3000);
    assert_eq!(letters(&mut both[1]), []);
    // The first cannot send any, and says why.
    both[0].peers.send(both[0].now, 2, kill(4));
    together(&mut server, &mut both, 50);
    let why = Outcome::Undelivered(Undelivered::LocksTaken);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(4), why)]);
    server.end(20);
    // Answers of others say nothing.
    for (number, verdict) in (0..4).flat_map(|number| (0..3).map(move |verdict| (number, verdict))) {
        server.held.insert(format!("onramp.answer.7.1.{number}.{verdict}"), 20);
    }
    both[0].peers.send(both[0].now, 2, kill(4));
    together(&mut server, &mut both, 1100);
    assert_eq!(both[0].deliveries(), []);
    assert_eq!(letters(&mut both[1]).len(), 1);
}

#[test]
fn a_letter_that_lacks_bits_is_none() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(u32::MAX));
    together(&mut server, &mut both, 1);
    let bits: Vec<_> =
        server.held.keys().filter(|name| name.starts_with("onramp.letter.8.1.")).cloned().collect();
    assert!(bits.len() > 60);
    for lost in 0..bits.len() {
        // As a connection ends, its locks go in some order.
        let mut partly =
            Locks { threads: server.threads.clone(), held: server.held.clone(), ..Locks::default() };
        bits.iter().cycle().skip(lost * 7).step_by(5).take(lost).for_each(|name| {
            partly.held.remove(name);
        });
        let mut second = Onramp::new(&mut partly, 8);
        partly.held.remove("onramp.slot.2");
        second.look(&mut partly);
        second.look(&mut partly);
        second.look(&mut partly);
        assert_eq!(letters(&mut second).len(), usize::from(lost == 0), "{lost} of {} bits lost", bits.len());
    }
}

#[test]
fn nothing_is_carried_out_behind_the_bound() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    both[0].go_on(&mut server, PEER_TIMEOUT + Duration::from_secs(1));
    let why = Outcome::Undelivered(Undelivered::NoAnswer);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(4), why)]);
    both[1].go_on(&mut server, Duration::from_secs(3));
    assert_eq!((letters(&mut both[1]), mail_locks(&server)), (Vec::new(), 0));
}

#[test]
fn a_late_answer_is_no_answer_to_the_next_letter() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    together(&mut server, &mut both, 1100);
    let [(first, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
    both[0].go_on(&mut server, PEER_TIMEOUT);
    assert_eq!(both[0].deliveries().len(), 1);
    both[0].peers.send(both[0].now, 2, kill(6));
    both[0].go_on(&mut server, MILLI);
    both[1].peers.mail.settle(first, Outcome::Done);
    together(&mut server, &mut both, 1100);
    let [(second, ref came)] = letters(&mut both[1])[..] else { panic!("the next letter") };
    assert_eq!((came, both[0].deliveries()), (&kill(6), Vec::new()));
    both[1].peers.mail.settle(second, Outcome::Denied);
    together(&mut server, &mut both, 50);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(6), Outcome::Denied)]);
}

#[test]
fn one_that_loses_its_connection_hears_so_and_nothing_is_done_twice() {
    for lost in [0, 1] {
        for after in (0..1200).step_by(50) {
            let mut server = Locks::default();
            let mut both = two(&mut server);
            both[0].peers.send(both[0].now, 2, kill(4));
            together(&mut server, &mut both, after);
            let mut came = letters(&mut both[1]);
            let connection = both[lost].connection;
            server.end(connection);
            both[lost].log_in(&mut server, 30);
            together(&mut server, &mut both, 6000);
            came.extend(letters(&mut both[1]));
            assert!(came.len() <= 1, "{lost} after {after}: {came:?}");
            let told = both[0].deliveries();
            assert!(
                matches!(told[..], [Delivery::Outcome(_, Outcome::Undelivered(_))]),
                "{lost} after {after}: {told:?}"
            );
            assert_eq!(mail_locks(&server), 0);
            // They write to each other again.
            both[0].peers.send(both[0].now, 2, kill(6));
            together(&mut server, &mut both, 1100);
            let [(sender, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
            both[1].peers.mail.settle(sender, Outcome::Done);
            together(&mut server, &mut both, 50);
            assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(6), Outcome::Done)]);
        }
    }
}

#[test]
fn without_a_slot_or_a_peer_it_is_said_at_once() {
    let mut server = Locks::default();
    let mut one = Onramp::new(&mut server, 7);
    one.peers.send(one.now, 2, kill(4));
    one.look(&mut server);
    one.peers.send(one.now, 2, kill(6));
    let why: BTreeSet<_> = one.deliveries().iter().map(|delivery| format!("{delivery:?}")).collect();
    assert_eq!(why.len(), 2);
    assert!(
        why.iter().any(|text| text.contains("NoSlot")) && why.iter().any(|text| text.contains("PeerGone"))
    );
}

#[test]
fn a_crowd_is_refused() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    for number in 0..300 {
        both[0].peers.send(both[0].now, 2, kill(number));
    }
    let refused = both[0].deliveries();
    assert_eq!(refused.len(), 44);
    let why = Outcome::Undelivered(Undelivered::TooMany);
    assert!(
        refused.iter().all(|delivery| matches!(delivery, Delivery::Outcome(_, outcome) if *outcome == why))
    );
}
