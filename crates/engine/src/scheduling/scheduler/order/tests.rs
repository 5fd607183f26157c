//! The order by itself, and queues that it turns round.

use std::time::Duration;

use proptest::prelude::*;
use seam::Instant;

use super::super::tests::{at, put, run, scheduler};
use super::super::{Need, Scheduler};
use super::*;
use crate::ids::client_key;
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::settings::{HighPrioMode, Profile, Settings};
use crate::workers::Workers;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn abandoned(order: &mut Order, times: u32, now: Instant, waited: Duration) {
    for _ in 0..times {
        order.abandoned(now, waited);
    }
}

#[test]
fn an_eighth_that_is_abandoned_turns_the_queue_round() {
    let mut order = Order::default();
    for _ in 0..100 {
        // Three in 32 at most.
        (0..10).for_each(|_| order.started(false));
        order.abandoned(at(5), millis(500));
        assert!(!order.is_newest_first(at(5)));
    }
    let mut order = Order::default();
    abandoned(&mut order, 3, at(5), millis(500));
    assert!(!order.is_newest_first(at(5)));
    (0..28).for_each(|_| order.started(false));
    abandoned(&mut order, 1, at(5), millis(500));
    assert!(order.is_newest_first(at(5)), "the fourth of 32");
}

#[test]
fn it_lasts_as_long_as_those_who_hung_up_had_waited() {
    let mut order = Order::default();
    abandoned(&mut order, 4, at(1_000), millis(500));
    assert!(order.is_newest_first(at(1_499)) && !order.is_newest_first(at(1_500)));
    abandoned(&mut order, 1, at(1_200), millis(700));
    assert!(order.is_newest_first(at(1_899)) && !order.is_newest_first(at(1_900)));
    // Too few of many do not keep it up.
    (0..32).for_each(|_| order.started(false));
    abandoned(&mut order, 1, at(1_800), millis(700));
    assert!(!order.is_newest_first(at(1_900)));
    // And what was known before says nothing then.
    abandoned(&mut order, 3, at(2_000), millis(700));
    assert!(!order.is_newest_first(at(2_000)));
    abandoned(&mut order, 1, at(2_000), millis(60_000));
    assert!(order.is_newest_first(at(11_999)) && !order.is_newest_first(at(12_000)));
}

#[test]
fn who_hangs_up_at_once_changes_nothing() {
    let mut order = Order::default();
    abandoned(&mut order, 1_000, at(5), millis(99));
    assert!(!order.is_newest_first(at(5)));
}

#[test]
fn every_eighth_start_is_for_the_oldest() {
    let mut order = Order::default();
    for _ in 0..NEWEST_IN_A_ROW {
        assert!(!order.is_turn_of_oldest());
        order.started(false);
    }
    assert!(order.is_turn_of_oldest());
    order.started(true);
    assert!(!order.is_turn_of_oldest());
}

#[test]
fn the_oldest_keeps_its_turn_when_clients_begin_to_hang_up_again() {
    let mut order = Order::default();
    abandoned(&mut order, 4, at(500), millis(500));
    (0..NEWEST_IN_A_ROW).for_each(|_| order.started(false));
    abandoned(&mut order, 4, at(2_000), millis(500));
    assert!(order.is_newest_first(at(2_000)) && order.is_turn_of_oldest());
}

/// Clients hang up on statements of theirs that wait.
fn hang_up(scheduler: &mut Scheduler, now: Instant, clients: std::ops::Range<u32>) {
    for client in clients {
        scheduler.note_abandoned_wait(now, client_key(client));
        assert!(scheduler.remove(client_key(client)));
    }
}

/// Starts one statement after the other and says who.
fn run_one_by_one(scheduler: &mut Scheduler) -> Vec<u32> {
    let mut started = Vec::new();
    while let [client] = run(scheduler, true)[..] {
        started.push(client);
        scheduler.finish(0);
    }
    started
}

#[test]
fn while_clients_hang_up_the_newest_goes_first() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    for client in 0..10 {
        put(&mut s, at(u64::from(client)), client, Lane::Low, Need::Any);
    }
    put(&mut s, at(20), 20, Lane::Low, Need::Holds);
    put(&mut s, at(21), 21, Lane::High, Need::Holds);
    put(&mut s, at(22), 22, Lane::High, Need::Holds);
    hang_up(&mut s, at(500), 0..3);
    s.kick_up(at(500));
    assert_eq!(s.first_in_need(3), [3, 4, 5].map(client_key), "three say nothing");
    hang_up(&mut s, at(500), 3..4);
    assert_eq!(s.first_in_need(3), [9, 8, 7].map(client_key));
    // What holds a backend keeps its order, and goes behind new work of which some is older.
    assert_eq!(run_one_by_one(&mut s), [21, 22, 9, 8, 7, 6, 5, 4, 20]);
    assert_eq!(s.newest_starts, 5);
}

#[test]
fn when_nobody_hangs_up_any_more_the_oldest_goes_first_again() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    (0..8).for_each(|client| put(&mut s, at(0), client, Lane::Low, Need::Any));
    hang_up(&mut s, at(300), 0..4);
    s.kick_up(at(599));
    assert_eq!(s.peek(true), Some(client_key(7)));
    s.kick_up(at(600));
    assert_eq!(run_one_by_one(&mut s), [4, 5, 6, 7]);
    assert_eq!(s.newest_starts, 0);
}

#[test]
fn what_has_waited_too_long_has_one_of_eight_starts_and_the_rest_where_nothing_newer_waits() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    (4..7).for_each(|client| put(&mut s, at(0), client, Lane::Low, Need::Any));
    s.kick_up(at(1_000));
    (0..4).for_each(|client| put(&mut s, at(1_000), client, Lane::Low, Need::Any));
    hang_up(&mut s, at(1_600), 0..4);
    (10..26).for_each(|client| put(&mut s, at(1_600), client, Lane::Low, Need::Any));
    s.kick_up(at(1_199));
    for _ in 0..NEWEST_IN_A_ROW {
        s.orders[0].started(false);
    }
    assert_eq!(s.peek(true), Some(client_key(25)), "twice as long as those who hang up");
    s.kick_up(at(1_600));
    s.orders[0].newest_in_a_row = 0;
    let started = run_one_by_one(&mut s);
    assert_eq!(started[..8], [25, 24, 23, 22, 21, 20, 19, 4]);
    assert_eq!(started[8..16], [18, 17, 16, 15, 14, 13, 12, 5]);
    assert_eq!(started[16..], [11, 10, 6]);
}

#[test]
fn hanging_up_on_statements_that_wait_for_locks_or_are_long_turns_their_queue_round_alone() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    for (first, lane) in [(0, Lane::Low), (10, Lane::Contended), (20, Lane::Long)] {
        (first..first + 8).for_each(|client| put(&mut s, at(0), client, lane, Need::Any));
    }
    s.kick_up(at(500));
    hang_up(&mut s, at(500), 10..14);
    assert_eq!(s.peek_contended(true), Some(client_key(17)));
    assert_eq!(s.peek(true), Some(client_key(0)));
    hang_up(&mut s, at(500), 0..8);
    assert_eq!(s.peek(true), Some(client_key(20)));
    hang_up(&mut s, at(500), 20..24);
    assert_eq!(s.peek(true), Some(client_key(27)));
}

#[test]
fn in_the_profile_of_another_pool_the_order_is_that_pools() {
    let settings = Settings::default().of_profile(Profile::MariaDb, 1);
    let mut s = Scheduler::new(&settings, Workers::new(&settings, 1), 0);
    (0..8).for_each(|client| put(&mut s, at(0), client, Lane::Low, Need::Any));
    hang_up(&mut s, at(500), 0..6);
    s.kick_up(at(500));
    assert_eq!(s.peek(true), Some(client_key(6)));
    let mut off = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    off.change_settings(&Settings { adaptive_lifo: false, ..Settings::default() });
    (0..8).for_each(|client| put(&mut off, at(0), client, Lane::Low, Need::Any));
    hang_up(&mut off, at(500), 0..6);
    off.kick_up(at(500));
    assert_eq!(off.peek(true), Some(client_key(6)));
}

/// A queue goes by the place of its oldest statement, whichever of them starts.
#[test]
fn a_worker_whose_newest_go_first_has_as_much_of_the_server_as_before() {
    let workers = Workers::new(&Settings { permits: 1, ..Settings::default() }, 2);
    let [mut storm, mut calm] =
        [0, 1].map(|worker| Scheduler::new(&Settings::default(), workers.clone(), worker));
    (0..8).for_each(|client| put(&mut storm, at(0), client, Lane::Low, Need::Any));
    // Far enough behind it that the order counts.
    (0..100).for_each(|_| assert!(calm.arrival() > 0));
    put(&mut calm, at(1), 9, Lane::Low, Need::Any);
    (10..12).for_each(|client| put(&mut storm, at(2), client, Lane::Low, Need::Any));
    hang_up(&mut storm, at(500), 0..4);
    storm.kick_up(at(500));
    storm.want(storm.peek(true));
    assert_eq!(run(&mut calm, true), [], "the other has waited longer");
    assert_eq!(run(&mut storm, true), [11]);
}

#[test]
fn what_comes_again_or_is_joined_is_as_good_as_new() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    let early = s.arrival();
    (0..8).for_each(|client| put(&mut s, at(0), client, Lane::Low, Need::Any));
    hang_up(&mut s, at(500), 0..4);
    s.kick_up(at(500));
    s.renew(client_key(5));
    assert_eq!(s.peek(true), Some(client_key(5)));
    s.enqueue(at(0), client_key(9), Lane::Low, Need::Any, Standing { began: early, ..Standing::default() });
    assert_eq!(run_one_by_one(&mut s), [9, 5, 7, 6, 4]);
}

proptest! {
    /// Whatever comes and goes, nothing that waits is lost, and what has waited too long has its turn.
    #[test]
    fn with_clients_that_hang_up_everything_still_has_its_turn(
        steps in prop::collection::vec((0u32..4, 0u64..60), 200..600),
    ) {
        let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
        let (mut now, mut next, mut waiting) = (1_000, 1, std::collections::BTreeMap::new());
        // Somebody who never hangs up.
        put(&mut s, at(now), 0, Lane::Low, Need::Any);
        let (mut starts_since_due, mut patience) = (0, 0);
        for (kind, pause) in steps {
            now += pause;
            s.kick_up(at(now));
            match kind {
                0 | 1 => {
                    put(&mut s, at(now), next, Lane::Low, Need::Any);
                    waiting.insert(next, now);
                    next += 1;
                }
                2 => {
                    if let Some((client, since)) = waiting.pop_first() {
                        patience = patience.max(now - since);
                        hang_up(&mut s, at(now), client..client + 1);
                    }
                }
                _ => {
                    let started = s.peek(true);
                    prop_assert_eq!(started.is_some(), s.waiting() > 0);
                    let Some(client) = started else { break };
                    prop_assert!(s.take_permit(client).is_some());
                    s.start(client, true);
                    s.finish(0);
                    if client.number() == 0 {
                        break;
                    }
                    prop_assert!(waiting.remove(&client.number()).is_some());
                    // Nobody is older than the first client: its turn is the first that the oldest has.
                    let due = now >= 1_000 + (2 * patience).max(1_000);
                    starts_since_due = if due { starts_since_due + 1 } else { 0 };
                    prop_assert!(starts_since_due <= 8, "it starves");
                }
            }
        }
    }
}
