//! Letters between Onramps on a server of tests.

use std::collections::BTreeSet;

use super::tests::{Locks, Onramp, key};
use super::*;
use crate::accounts::{Account, Credential};
use crate::ids::{ClientRef, client_key};
use crate::server::control::peers::mail::Delivery;
use crate::workers::letter::{KillOutcome, KillRights, Killer, OwnBy, PEER_TIMEOUT, Sender};

const MILLI: Duration = Duration::from_millis(1);

fn kill(victim: u32) -> Kill {
    kill_by("app", victim)
}

fn kill_by(user: &str, victim: u32) -> Kill {
    let rights =
        KillRights::of(OwnBy::Account, user.as_bytes(), &Account::of_test(user, "10.%", Credential::Empty));
    let killer = Killer::Client(ClientRef { key: client_key(3), id: 5 });
    Kill { from: 0, killer, victim, query_only: victim % 2 == 0, rights, age: Duration::ZERO }
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
        Delivery::Kill { sender, victim, query_only, rights, .. } => {
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
    for outcome in [KillOutcome::Done, KillOutcome::NoSuchClient, KillOutcome::Denied] {
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
                        onramp.peers.mail.settle(sender, KillOutcome::Done);
                    }
                    Delivery::Outcome(_, outcome) => {
                        assert_eq!(outcome, KillOutcome::Done);
                        told += 1;
                    }
                }
            }
        }
    }
    assert_eq!(came, [(100..150).collect::<Vec<_>>(), (0..50).collect()]);
    assert_eq!((told, mail_locks(&server)), (100, 0));
}

/// The locks of a letter, but the one that says that it is there.
fn bits_of_letter(server: &Locks) -> Vec<String> {
    let is_bit = |name: &&String| name.starts_with("onramp.letter.") && name.matches('.').count() == 3;
    server.held.keys().filter(is_bit).cloned().collect()
}

/// A stranger's connection sees the names of the locks, as accounts can that may see the server's own tables of locks.
#[test]
fn locks_of_others_forge_no_letter_and_no_answer() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    together(&mut server, &mut both, 1);
    let letter: Vec<_> =
        server.held.keys().filter(|name| name.starts_with("onramp.letter.")).cloned().collect();
    assert!(letter.len() > 60);
    server.threads.insert(20, "app");
    server.held.extend(letter.into_iter().map(|name| (name, 20)));
    together(&mut server, &mut both, 3000);
    assert_eq!(letters(&mut both[1]), []);
    // The first cannot send another one as long as these are held, and says why.
    together(&mut server, &mut both, 3000);
    both[0].deliveries();
    both[0].peers.send(both[0].now, 2, kill(6));
    together(&mut server, &mut both, 50);
    let why = KillOutcome::Undelivered(Undelivered::NoLocks);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(6), why)]);
    server.end(20);
    both[0].peers.send(both[0].now, 2, kill(8));
    together(&mut server, &mut both, 1100);
    let [(sender, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
    both[1].peers.mail.settle(sender, KillOutcome::Denied);
    both[1].go_on(&mut server, MILLI * 20);
    // An answer that somebody else holds says nothing.
    let answers: Vec<_> =
        server.held.keys().filter(|name| name.starts_with("onramp.answer.")).cloned().collect();
    assert_eq!(answers.len(), 1);
    server.held.insert(answers[0].clone(), 20);
    both[0].go_on(&mut server, MILLI * 100);
    assert_eq!(both[0].deliveries(), []);
}

/// An anonymous account lets in every client that calls itself as the service account.
#[test]
fn the_name_of_the_service_account_alone_is_not_enough() {
    let mut server = Locks::default();
    let mut one = Onramp::new(&mut server, 7);
    let mut forger = Onramp::with_password(&mut server, 8, "guessed");
    for _ in 0..3 {
        one.look(&mut server);
        forger.look(&mut server);
    }
    assert!(one.peers.peers.contains_key(&2), "it counts as an Onramp");
    forger.peers.send(forger.now, 1, kill(4));
    one.peers.send(one.now, 2, kill(6));
    for _ in 0..6000 {
        one.go_on(&mut server, MILLI);
        forger.go_on(&mut server, MILLI);
        assert!(letters(&mut forger).is_empty());
        let told = one.deliveries();
        let unanswered = |delivery: &Delivery| {
            *delivery == Delivery::Outcome(kill(6), KillOutcome::Undelivered(Undelivered::NoAnswer))
        };
        assert!(told.iter().all(unanswered), "{told:?}");
    }
    assert_eq!(mail_locks(&server), 0);
}

#[test]
fn without_a_password_nothing_is_written_or_read() {
    let mut server = Locks::default();
    let mut one = Onramp::new(&mut server, 7);
    let mut open = Onramp::with_password(&mut server, 8, "");
    for _ in 0..3 {
        one.look(&mut server);
        open.look(&mut server);
    }
    open.peers.send(open.now, 1, kill(4));
    let why = KillOutcome::Undelivered(Undelivered::NoPassword);
    assert_eq!(open.deliveries(), [Delivery::Outcome(kill(4), why)]);
    open.go_on(&mut server, Duration::from_secs(3));
    assert!(server.asked.iter().all(|text| !text.contains("onramp.letter") || text.contains("slot")));
    assert_eq!(mail_locks(&server), 0);
}

#[test]
fn a_letter_that_lacks_bits_is_none() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(u32::MAX));
    together(&mut server, &mut both, 1);
    let bits = bits_of_letter(&server);
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
fn a_letter_says_how_old_its_kill_is() {
    for ahead in [0, 3_000_000_000] {
        let mut server = Locks { ahead: MILLI * ahead, ..Locks::default() };
        let mut both = two(&mut server);
        both[0].peers.send(both[0].now, 2, kill(4));
        let sent = both[0].now;
        together(&mut server, &mut both, 1100);
        let deliveries = both[1].deliveries();
        let [Delivery::Kill { age, .. }] = deliveries[..] else { panic!("{deliveries:?}") };
        assert!(age > Duration::from_millis(500) && age <= both[1].now.since(sent), "{age:?}");
    }
}

/// The delivery of a KILL that one Onramp has said and that the other has read, at these times.
fn carried(from: &mut Mail, said: Instant, to: &mut Mail, read: Instant) -> Option<Delivery> {
    to.know(&BTreeSet::from([7]));
    from.send(said, 8, kill(4));
    let order = from.text(7, PeersQuestion::Post(8));
    from.is_asked(said, 7, PeersQuestion::Post(8));
    let mut server = Locks::default();
    server.answer(7, &order).unwrap();
    let question = PeersQuestion::ReadLetter(7);
    let rows = rows_of(&server.answer(8, &to.text(8, question)).unwrap());
    to.take(read, 8, question, rows[0][0].as_deref());
    to.next_delivery()
}

/// The questions for the server's clock were long under way, of either or both.
#[test]
fn no_kill_is_taken_for_older_than_it_is() {
    let second = |seconds| Instant::START + Duration::from_secs(seconds);
    let base = 1_769_860_800_000;
    for (asked, answered) in [(10, 10), (10, 14), (6, 10), (6, 14)] {
        let key = key("onramp-secret");
        let [mut from, mut to] = [Mail::default(), Mail::default()];
        [&mut from, &mut to].into_iter().for_each(|mail| mail.asked_anew(key.as_ref()));
        // What the server has said at the tenth second is heard by one at once, and by the other later.
        from.set_clock(second(asked), second(answered), base + 10_000);
        to.set_clock(second(asked), second(answered), base + 10_000);
        let delivery = carried(&mut from, second(20), &mut to, second(22));
        let Some(Delivery::Kill { age, .. }) = delivery else { panic!("it has come") };
        assert!(age <= Duration::from_secs(2), "{age:?} for {asked} and {answered}");
        assert_eq!(age == Duration::from_secs(2), asked == answered);
    }
}

/// The recipient has asked for the letter, and hangs before it reads the answer.
#[test]
fn a_letter_that_is_read_too_late_is_not_carried_out() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    both[0].go_on(&mut server, MILLI);
    let question = PeersQuestion::ReadLetter(7);
    let text = both[1].peers.text(question);
    let answer = server.answer(8, &text).unwrap();
    // By an answer that took a while it is so much earlier at least.
    let second = Duration::from_secs(1);
    for (late, took, delivered) in [
        (PEER_TIMEOUT, MILLI, 0),
        (PEER_TIMEOUT, MILLI * 800, 0),
        (PEER_TIMEOUT, second * 3, 0),
        (PEER_TIMEOUT - second - MILLI * 100, Duration::ZERO, 1),
    ] {
        let mut mail = std::mem::take(&mut both[1].peers.mail);
        mail.asked_anew(key("onramp-secret").as_ref());
        mail.set_clock(Instant::START, Instant::START + took, 1_769_860_800_000);
        mail.know(&BTreeSet::from([7]));
        let rows = rows_of(&answer);
        mail.take(both[0].now + late, 8, question, rows[0][0].as_deref());
        assert_eq!(std::iter::from_fn(|| mail.next_delivery()).count(), delivered, "{late:?} {took:?}");
    }
}

/// Either has asked for the time, and the question was four seconds on its way to the server.
#[test]
fn a_question_that_took_long_makes_no_known_clock_uncertain() {
    let second = |seconds| Instant::START + Duration::from_secs(seconds);
    let base = 1_769_860_800_000;
    let key = key("onramp-secret");
    for slow in 0..2 {
        let mut mails = [Mail::default(), Mail::default()];
        for (place, mail) in mails.iter_mut().enumerate() {
            mail.asked_anew(key.as_ref());
            mail.set_clock(second(10), second(10), base + 10_000);
            let answered = if place == slow { 15 } else { 11 };
            mail.set_clock(second(11), second(answered), base + 1000 * answered);
        }
        let [from, to] = &mut mails;
        let delivery = carried(from, second(20), to, second(20) + PEER_TIMEOUT);
        assert_eq!(delivery, None, "it is carried out when its sender has given it up");
    }
}

/// The clock of the server has been set.
#[test]
fn the_latest_word_of_the_clock_counts_where_it_disagrees() {
    let mut mail = Mail::default();
    let at = |seconds| Instant::START + Duration::from_secs(seconds);
    for (seconds, millis) in [(10, 500_000), (11, 900_000), (12, 100_000)] {
        mail.set_clock(at(seconds), at(seconds), millis);
        assert_eq!((mail.earliest(at(seconds)), mail.latest(at(seconds))), (millis as u32, millis as u32));
    }
}

/// One user has hundreds of KILLs of clients that do not exist, and another user has one KILL.
#[test]
fn a_crowd_of_one_user_keeps_others_waiting_for_no_longer_than_itself() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    for number in 0..2000 {
        both[0].peers.send(both[0].now, 2, kill_by("flood", 2 * number));
    }
    both[0].peers.send(both[0].now, 2, kill_by("app", 1));
    let refused = both[0].deliveries();
    assert!(refused.len() > 1000);
    let why = KillOutcome::Undelivered(Undelivered::TooMany);
    let flood = kill_by("flood", 0).rights.owner;
    let is_floods = |delivery: &Delivery| matches!(delivery, Delivery::Outcome(kill, outcome) if *outcome == why && kill.rights.owner == flood);
    assert!(refused.iter().all(is_floods), "the other's is not");
    let mut came = 0;
    while came < 3 {
        together(&mut server, &mut both, 1);
        for (sender, kill) in letters(&mut both[1]) {
            came += 1;
            both[1].peers.mail.settle(sender, KillOutcome::NoSuchClient);
            if kill.victim == 1 {
                return;
            }
        }
    }
    panic!("its turn has not come");
}

#[test]
fn hundreds_become_known_before_anybody_is_told_that_nobody_answers() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    for number in 0..500 {
        both[0].peers.send(both[0].now, 2, kill(number));
    }
    let mut done = 0;
    for _ in 0..6000 {
        together(&mut server, &mut both, 1);
        for (sender, _) in letters(&mut both[1]) {
            both[1].peers.mail.settle(sender, KillOutcome::Done);
        }
        for delivery in both[0].deliveries() {
            assert!(
                matches!(delivery, Delivery::Outcome(_, KillOutcome::Done)),
                "{delivery:?} behind {done}"
            );
            done += 1;
        }
    }
    assert_eq!(done, 500);
}

/// An administrator may interrupt the service account's statements.
#[test]
fn a_lock_that_is_not_given_back_is_no_part_of_the_next_letter() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    together(&mut server, &mut both, 1050);
    let [(sender, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
    both[1].peers.mail.settle(sender, KillOutcome::Done);
    server.refuses = Some("RELEASE");
    server.asked.clear();
    together(&mut server, &mut both, 3000);
    let tries = server.asked.iter().filter(|text| text.contains("RELEASE")).count();
    assert!((2..=10).contains(&tries), "{tries}");
    server.refuses = None;
    together(&mut server, &mut both, 2000);
    assert_eq!(mail_locks(&server), 0);
    both[0].deliveries();
    both[0].peers.send(both[0].now, 2, kill(7));
    together(&mut server, &mut both, 1100);
    assert_eq!(letters(&mut both[1]).into_iter().map(|(_, kill)| kill).collect::<Vec<_>>(), [kill(7)]);
}

/// The locks of the Onramp stay until the server ends its connection.
#[test]
fn a_letter_of_one_that_hangs_is_not_read_again_and_again() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    both[0].go_on(&mut server, MILLI);
    both[1].go_on(&mut server, Duration::from_secs(3));
    let [(sender, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
    both[1].peers.mail.settle(sender, KillOutcome::Done);
    both[1].go_on(&mut server, Duration::from_secs(2));
    server.asked.clear();
    both[1].go_on(&mut server, Duration::from_secs(10));
    assert!(server.asked.len() <= 30, "{}", server.asked.len());
    assert_eq!(letters(&mut both[1]), []);
}

#[test]
fn nothing_is_carried_out_behind_the_bound() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    both[0].go_on(&mut server, PEER_TIMEOUT + Duration::from_secs(1));
    let why = KillOutcome::Undelivered(Undelivered::NoAnswer);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(4), why)]);
    both[1].go_on(&mut server, Duration::from_secs(3));
    assert_eq!((letters(&mut both[1]), mail_locks(&server)), (Vec::new(), 0));
}

/// The recipient goes on at the very moment at which the sender is told, and knows nothing of the time.
#[test]
fn nobody_is_told_before_the_letter_is_taken_back() {
    let mut server = Locks::default();
    let mut both = two(&mut server);
    both[0].peers.send(both[0].now, 2, kill(4));
    both[0].go_on(&mut server, PEER_TIMEOUT - MILLI);
    assert_ne!(mail_locks(&server), 0);
    server.refuses = Some("RELEASE");
    let mut waited = 0;
    while both[0].deliveries().is_empty() {
        assert_ne!(mail_locks(&server), 0, "it is told at once");
        both[0].go_on(&mut server, MILLI * 100);
        waited += 1;
    }
    assert!((5..=7).contains(&waited), "a server that takes nothing back keeps nobody waiting: {waited}");
    server.refuses = None;
    both[0].go_on(&mut server, PEER_TIMEOUT);
    assert_eq!((both[0].deliveries(), mail_locks(&server)), (Vec::new(), 0), "it is told twice");
    both[0].peers.send(both[0].now, 2, kill(6));
    while both[0].deliveries().is_empty() {
        both[0].go_on(&mut server, MILLI);
    }
    assert_eq!(mail_locks(&server), 0, "it is told before it is taken back");
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
    both[1].peers.mail.settle(first, KillOutcome::Done);
    together(&mut server, &mut both, 1100);
    let [(second, ref came)] = letters(&mut both[1])[..] else { panic!("the next letter") };
    assert_eq!((came, both[0].deliveries()), (&kill(6), Vec::new()));
    both[1].peers.mail.settle(second, KillOutcome::Denied);
    together(&mut server, &mut both, 50);
    assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(6), KillOutcome::Denied)]);
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
                matches!(told[..], [Delivery::Outcome(_, KillOutcome::Undelivered(_))]),
                "{lost} after {after}: {told:?}"
            );
            assert_eq!(mail_locks(&server), 0);
            // They write to each other again.
            both[0].peers.send(both[0].now, 2, kill(6));
            together(&mut server, &mut both, 1100);
            let [(sender, _)] = letters(&mut both[1])[..] else { panic!("one letter") };
            both[1].peers.mail.settle(sender, KillOutcome::Done);
            together(&mut server, &mut both, 50);
            assert_eq!(both[0].deliveries(), [Delivery::Outcome(kill(6), KillOutcome::Done)]);
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
