//! Properties of the scheduler against a plain model.

use std::time::Duration;

use proptest::prelude::*;
use seam::Instant;

use super::{Grant, Need, Scheduler};
use crate::client::session::priority::Priority;
use crate::ids::client_key;
use crate::scheduling::learned::long_permits::{Allowed, LongEnd, Pace};
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::settings::{HighPrioMode, Settings};
use crate::workers::Workers;

pub(super) fn scheduler(permits: u32, mode: HighPrioMode, tickets: u32) -> Scheduler {
    let settings = Settings {
        high_prio_mode: mode,
        high_prio_tickets: tickets,
        prio_kickup_timer: Duration::from_millis(1000),
        ..Settings::default()
    };
    Scheduler::new(&settings, Workers::new(&Settings { permits, ..settings.clone() }, 1), 0)
}

/// Queues a statement of a client that holds nothing.
pub(super) fn put(scheduler: &mut Scheduler, now: Instant, client: u32, lane: Lane, need: Need) {
    let standing = Standing { began: scheduler.arrival(), ..Standing::default() };
    scheduler.enqueue(now, client_key(client), lane, need, standing);
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

/// Starts all that may start and says who.
pub(super) fn run(scheduler: &mut Scheduler, backend_free: bool) -> Vec<u32> {
    let mut started = Vec::new();
    while let Some(client) = scheduler.peek(backend_free)
        && scheduler.take_permit(client).is_some()
    {
        scheduler.start(client, true);
        started.push(client.number());
    }
    started
}

#[test]
fn the_high_queue_goes_first_and_each_is_first_come_first_served() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    put(&mut s, at(1), 2, Lane::High, Need::Holds);
    put(&mut s, at(2), 3, Lane::Low, Need::Holds);
    put(&mut s, at(3), 4, Lane::High, Need::Any);
    assert_eq!(run(&mut s, true), [2, 4, 1, 3]);
}

#[test]
fn without_a_free_backend_those_who_hold_one_go_on() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    put(&mut s, at(1), 2, Lane::Low, Need::Holds);
    assert_eq!(run(&mut s, false), [2]);
    assert_eq!(s.oldest_in_need(), Some((client_key(1), at(0))));
    assert_eq!(run(&mut s, true), [1]);
}

#[test]
fn a_long_wait_leads_to_the_high_queue() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    put(&mut s, at(900), 2, Lane::High, Need::Holds);
    assert_eq!(s.next_kick_up(), Some(at(1000)));
    s.kick_up(at(999));
    assert_eq!(s.peek(true), Some(client_key(2)));
    s.kick_up(at(1000));
    // Both are high now; client 1 came into that queue last.
    assert_eq!(run(&mut s, true), [2]);
    assert_eq!(s.peek(true), Some(client_key(1)));
    assert_eq!(s.next_kick_up(), None);
}

#[test]
fn tickets_run_out_and_come_back_with_the_low_queue() {
    let s = scheduler(1, HighPrioMode::Transactions, 2);
    let mut tickets = s.full_tickets();
    let lanes: Vec<_> = (0..6)
        .map(|_| {
            s.lane(
                Standing { in_transaction: true, ..Standing::default() },
                Priority::default(),
                &mut tickets,
            )
        })
        .collect();
    assert_eq!(lanes, [Lane::High, Lane::High, Lane::Low, Lane::High, Lane::High, Lane::Low]);
    assert_eq!(s.lane(Standing::default(), Priority::default(), &mut tickets), Lane::Low);
    let all = scheduler(1, HighPrioMode::Statements, 0);
    assert_eq!(all.lane(Standing::default(), Priority::default(), &mut 0), Lane::High);
    let none = scheduler(1, HighPrioMode::None, u32::MAX);
    assert_eq!(
        none.lane(
            Standing { in_transaction: true, ..Standing::default() },
            Priority::default(),
            &mut u32::MAX.clone()
        ),
        Lane::Low
    );
}

#[test]
fn long_statements_leave_the_other_permits_alone() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    for client in 0..4 {
        put(&mut s, at(0), client, Lane::Long, Need::Any);
    }
    put(&mut s, at(1), 4, Lane::Low, Need::Any);
    // A quarter of eight.
    assert_eq!(run(&mut s, true), [0, 1, 4]);
    assert_eq!(s.peek_long(), Some(client_key(2)));
    assert_eq!((s.free_permits(), s.in_need(), s.waiting()), (5, 0, 2));
    assert_eq!(s.oldest_in_need(), None, "they wait for no backend");
    put(&mut s, at(2), 5, Lane::Low, Need::Any);
    assert_eq!(run(&mut s, true), [5]);
    s.finish(0);
    assert_eq!(run(&mut s, true), [], "a permit alone is not enough");
    s.finish_long(Allowed::WithPermit);
    assert_eq!(s.first_in_need(10), [2].map(client_key));
    assert_eq!(run(&mut s, true), [2]);
}

#[test]
fn a_long_statement_stands_at_its_place_in_the_low_queue() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    put(&mut s, at(1), 2, Lane::Long, Need::Any);
    put(&mut s, at(2), 3, Lane::Low, Need::Any);
    put(&mut s, at(3), 4, Lane::High, Need::Any);
    assert_eq!(run(&mut s, true), [4, 1, 2, 3]);
}

#[test]
fn a_long_statement_does_not_starve() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Long, Need::Any);
    put(&mut s, at(1), 2, Lane::High, Need::Holds);
    s.kick_up(at(999));
    assert_eq!(s.peek(true), Some(client_key(2)));
    s.kick_up(at(1000));
    assert_eq!(s.peek(true), Some(client_key(1)));
}

#[test]
fn a_statement_that_changes_its_lane_keeps_its_arrival() {
    let mut s = scheduler(4, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Holds);
    put(&mut s, at(1), 2, Lane::Low, Need::Any);
    put(&mut s, at(2), 3, Lane::Long, Need::Any);
    s.change_lane(client_key(1), Lane::Long);
    s.change_lane(client_key(3), Lane::Low);
    assert_eq!(s.in_need(), 2);
    assert_eq!(run(&mut s, true), [1, 2, 3]);
}

#[test]
fn a_long_statement_without_a_backend_gives_back_what_it_took() {
    let mut s = scheduler(4, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Long, Need::Any);
    let grant = s.take_permit(client_key(1)).expect("permits are free");
    s.put_back(grant);
    assert_eq!((s.free_permits(), s.running()), (4, 0));
    assert!(s.take_permit(client_key(1)).is_some_and(|grant| grant.long().is_some()));
    s.start(client_key(1), true);
    put(&mut s, at(1), 2, Lane::Long, Need::Any);
    assert!(s.take_permit(client_key(2)).is_none() && s.waits_for_long(client_key(2)));
    assert_eq!(s.running(), 1);
}

#[test]
fn a_long_statement_of_another_worker_is_woken_for_the_next_place() {
    let settings = Settings { permits: 4, ..Settings::default() };
    let workers = Workers::new(&settings, 2);
    let [mut one, mut other] = [0, 1].map(|worker| Scheduler::new(&settings, workers.clone(), worker));
    put(&mut one, at(0), 1, Lane::Long, Need::Any);
    assert_eq!(run(&mut one, true), [1]);
    put(&mut other, at(1), 2, Lane::Long, Need::Any);
    other.want_long(true, false);
    assert_eq!(run(&mut other, true), []);
    put(&mut one, at(2), 3, Lane::Long, Need::Any);
    assert_eq!(workers.next_to_wake(0), None, "there is nothing for it yet");
    one.finish(0);
    one.finish_long(Allowed::WithPermit);
    assert_eq!(workers.next_to_wake(0), Some(1));
    assert_eq!(run(&mut one, true), [], "the other has waited longer");
    assert_eq!(run(&mut other, true), [2]);
}

#[test]
fn a_long_statement_that_needs_no_permit_waits_for_nobody_who_wants_one() {
    let settings = Settings { permits: 4, ..Settings::default() };
    let workers = Workers::new(&settings, 2);
    let [mut one, mut other] = [0, 1].map(|worker| Scheduler::new(&settings, workers.clone(), worker));
    put(&mut one, at(0), 1, Lane::Long, Need::Any);
    for client in 2..=5 {
        put(&mut one, at(0), client, Lane::Low, Need::Any);
    }
    assert_eq!(run(&mut one, true), [1, 2, 3, 4], "there are four permits");
    put(&mut one, at(1), 6, Lane::Long, Need::Any);
    assert_eq!(one.peek_long(), Some(client_key(6)), "one of them is for long ones");
    assert_eq!(one.peek_beyond(true), None);
    // Four of them have slept for a second, as they do alone: one more is tried.
    let second = Duration::from_secs(1);
    let others = Pace { time: 200_000, usual: 200_000 };
    for _ in 0..4 {
        workers.measure_long(&LongEnd { at: at(5_000), time: second, usual: Some(second), others });
    }
    assert_eq!(one.peek_beyond(true), Some(client_key(6)));
    let grant = one.take_beyond(client_key(6)).unwrap();
    assert_eq!(grant, Grant::Long(Allowed::Beyond));
    one.start(client_key(6), false);
    put(&mut other, at(2), 7, Lane::Low, Need::Any);
    put(&mut other, at(2), 8, Lane::Long, Need::Any);
    other.want(Some(client_key(7)));
    other.want_long(true, true);
    assert_eq!((other.peek_beyond(true), workers.next_to_wake(0)), (None, None));
    one.finish_long(Allowed::Beyond);
    other.want_long(true, false);
    assert_eq!(workers.next_to_wake(0), None, "it would find that it can start none");
    other.want_long(true, true);
    assert_eq!(
        workers.next_to_wake(0),
        Some(1),
        "it waits for a permit, and one of its statements needs none"
    );
    assert_eq!(other.peek_beyond(true), Some(client_key(8)));
}

#[test]
fn what_starts_out_of_turn_leaves_the_turn_to_what_has_waited_too_long() {
    let settings = Settings { permits: 16, ..Settings::default() };
    let mut s = Scheduler::new(&settings, Workers::new(&settings, 1), 0);
    put(&mut s, at(0), 1, Lane::High, Need::Any);
    for client in 2..=6 {
        put(&mut s, at(1), client, Lane::Holding, Need::Holds);
    }
    put(&mut s, at(1), 7, Lane::Long, Need::Any);
    put(&mut s, at(1), 8, Lane::Contended, Need::Any);
    s.kick_up(at(600_000));
    for client in 2..=4 {
        assert_eq!(s.peek(true), Some(client_key(client)));
        s.start(client_key(client), true);
    }
    assert_eq!(s.peek(true), Some(client_key(1)), "three of them have started in a row");
    for (client, grant) in [(7, Grant::Long(Allowed::Beyond)), (8, Grant::Contended)] {
        s.start(client_key(client), grant.has_permit());
        assert_eq!(s.peek(true), Some(client_key(1)));
    }
}

/// An event in the life of a scheduler.
#[derive(Clone, Debug)]
enum Step {
    Enqueue { client: u32, lane: Lane, holds: bool },
    Remove { client: u32 },
    Start { backend_free: bool },
    Finish,
    KickUp,
}

fn step() -> impl Strategy<Value = Step> {
    let lane = prop_oneof![Just(Lane::High), Just(Lane::Low), Just(Lane::Long)];
    prop_oneof![
        4 => (0u32..40, lane, any::<bool>())
            .prop_map(|(client, lane, holds)| Step::Enqueue { client, lane, holds }),
        1 => (0u32..40).prop_map(|client| Step::Remove { client }),
        4 => any::<bool>().prop_map(|backend_free| Step::Start { backend_free }),
        3 => Just(Step::Finish),
        1 => Just(Step::KickUp),
    ]
}

/// A waiting statement.
#[derive(Clone, Copy, Debug)]
struct Entry {
    client: u32,
    lane: Lane,
    holds: bool,
    since: Instant,
}

/// The same rules over plain vectors.
#[derive(Default)]
struct Model {
    /// Waiting statements, in order of arrival in their queue.
    waiting: Vec<Entry>,
    /// For each running statement, true where it is a long one.
    running: Vec<bool>,
    /// The latest kick-up.
    now: Instant,
}

impl Model {
    /// Says whether a long statement may start: one at a time may. That is one permit in four, and at least one.
    fn may_start_long(&self) -> bool {
        !self.running.contains(&true)
    }

    fn is_overdue(&self, entry: &Entry) -> bool {
        self.now.since(entry.since) >= Duration::from_millis(1000)
    }

    fn first(&self, backend_free: bool) -> Option<Entry> {
        let may = |entry: &&Entry| {
            (entry.holds || backend_free) && (entry.lane != Lane::Long || self.may_start_long())
        };
        let rank = |entry: &&Entry| match entry.lane {
            Lane::Blocking | Lane::Holding | Lane::High | Lane::KickedUp => 0,
            Lane::Long if self.is_overdue(entry) => 0,
            Lane::Low | Lane::Long | Lane::Contended => 1,
        };
        self.waiting.iter().filter(may).min_by_key(rank).copied()
    }

    fn kick_up(&mut self, now: Instant) {
        self.now = now;
        for holds in [true, false] {
            let due = |entry: &Entry| entry.lane == Lane::Low && entry.holds == holds;
            let (moved, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(|entry| due(entry) && self.is_overdue(entry));
            self.waiting = kept;
            self.waiting.extend(moved.into_iter().map(|entry| Entry { lane: Lane::High, ..entry }));
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(steps in prop::collection::vec(step(), 1..400)) {
        let mut s = scheduler(3, HighPrioMode::Transactions, u32::MAX);
        let mut model = Model::default();
        for (tick, step) in steps.into_iter().enumerate() {
            let now = at(tick as u64 * 100);
            match step {
                Step::Enqueue { client, lane, holds } => {
                    if model.waiting.iter().all(|entry| entry.client != client) {
                        put(&mut s, now, client, lane, if holds { Need::Holds } else { Need::Any });
                        model.waiting.push(Entry { client, lane, holds, since: now });
                    }
                }
                Step::Remove { client } => {
                    let waited = model.waiting.iter().any(|entry| entry.client == client);
                    model.waiting.retain(|entry| entry.client != client);
                    prop_assert_eq!(s.remove(client_key(client)), waited);
                }
                Step::Start { backend_free } => {
                    let expected = model.first(backend_free);
                    prop_assert_eq!(s.peek(backend_free), expected.map(|entry| client_key(entry.client)));
                    if let Some(entry) = expected && let Some(grant) = s.take_permit(client_key(entry.client)) {
                        s.start(client_key(entry.client), true);
                        let long = grant.long().is_some();
                        prop_assert_eq!(long, entry.lane == Lane::Long);
                        model.waiting.retain(|waiting| waiting.client != entry.client);
                        model.running.push(long);
                    }
                }
                Step::Finish => {
                    if let Some(long) = model.running.pop() {
                        s.finish(0);
                        if long {
                            s.finish_long(Allowed::WithPermit);
                        }
                    }
                }
                Step::KickUp => {
                    s.kick_up(now);
                    model.kick_up(now);
                }
            }
            prop_assert_eq!(s.running() as usize, model.running.len());
            prop_assert!(s.running() <= 3);
            prop_assert!(model.running.iter().filter(|long| **long).count() <= 1);
            prop_assert_eq!(s.waiting(), model.waiting.len());
            let in_need = |long| {
                model.waiting.iter().filter(|entry| !entry.holds && (entry.lane == Lane::Long) == long).count()
            };
            let long = in_need(true).min(usize::from(model.may_start_long()));
            prop_assert_eq!(s.in_need(), in_need(false) + long);
        }
    }
}

#[test]
fn who_holds_locks_goes_first_and_the_oldest_of_them() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    let mut tickets = u32::MAX;
    let reads = Standing { in_transaction: true, began: 1, ..Standing::default() };
    let wrote = Standing { holds_locks: true, began: 3, ..reads };
    let wrote_before = Standing { began: 2, ..wrote };
    let blocks = Standing { blocks_others: true, began: 9, ..wrote };
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    for (client, standing) in [(2, reads), (3, wrote), (4, wrote_before), (5, blocks)] {
        let lane = s.lane(standing, Priority::default(), &mut tickets);
        s.enqueue(at(1), client_key(client), lane, Need::Holds, standing);
    }
    assert_eq!(run(&mut s, true), [5, 4], "one permit, and one more that is kept for who holds locks");
    s.finish(0);
    s.finish(0);
    assert_eq!(run(&mut s, true), [3]);
    s.finish(0);
    assert_eq!(run(&mut s, true), [2]);
    s.finish(0);
    assert_eq!(run(&mut s, true), [1]);
}

#[test]
fn others_that_wait_for_a_client_move_it_to_the_front_past_all_permits() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 1, Lane::Low, Need::Any);
    assert_eq!(run(&mut s, true), [1]);
    put(&mut s, at(0), 2, Lane::High, Need::Holds);
    put(&mut s, at(0), 3, Lane::High, Need::Holds);
    assert_eq!(run(&mut s, true), []);
    s.goes_first(client_key(3));
    assert_eq!(run(&mut s, true), [3]);
}

/// Clients that hold locks for ever, and always have a next statement.
#[test]
fn who_holds_locks_does_not_starve_the_others() {
    for lane in [Lane::Low, Lane::Long] {
        holders_do_not_starve(lane);
    }
}

fn holders_do_not_starve(lane: Lane) {
    let mut s = scheduler(4, HighPrioMode::Transactions, u32::MAX);
    put(&mut s, at(0), 100, lane, Need::Any);
    let holds = |client: u32| Standing {
        in_transaction: true,
        holds_locks: true,
        began: u64::from(client),
        ..Standing::default()
    };
    for client in 0..10 {
        s.enqueue(at(0), client_key(client), Lane::Holding, Need::Holds, holds(client));
    }
    let mut running = std::collections::VecDeque::new();
    let mut started_at = None;
    for step in 0..10_000 {
        s.kick_up(at(step));
        let started = run(&mut s, true);
        if started.contains(&100) {
            started_at = Some(step);
            break;
        }
        running.extend(started);
        if let Some(client) = running.pop_front() {
            s.finish(0);
            s.enqueue(at(step), client_key(client), Lane::Holding, Need::Holds, holds(client));
        }
    }
    assert!(started_at.is_some_and(|at| (1_000..1_100).contains(&at)), "{lane:?}: {started_at:?}");
}

#[test]
fn whoever_gives_a_permit_back_wakes_who_may_take_a_kept_one() {
    let workers = Workers::new(&Settings { permits: 1, ..Settings::default() }, 2);
    let [mut one, mut other] =
        [0, 1].map(|worker| Scheduler::new(&Settings::default(), workers.clone(), worker));
    let holds = Standing { in_transaction: true, holds_locks: true, ..Standing::default() };
    for client in 0..2 {
        one.enqueue(at(0), client_key(client), Lane::Holding, Need::Holds, holds);
    }
    assert_eq!(run(&mut one, true), [0, 1], "a usual permit and a kept one");
    other.enqueue(at(0), client_key(7), Lane::Holding, Need::Holds, holds);
    assert_eq!(run(&mut other, true), []);
    other.want(Some(client_key(7)));
    one.finish(0);
    assert_eq!(workers.next_to_wake(0), Some(1));
    assert_eq!(run(&mut other, true), [7]);
}

#[test]
fn late_comers_find_their_places() {
    let mut s = scheduler(64, HighPrioMode::Transactions, u32::MAX);
    for client in 0..20 {
        put(&mut s, at(0), client, Lane::Low, Need::Any);
    }
    for client in 20..40 {
        put(&mut s, at(0), client, Lane::High, Need::Any);
    }
    // From both ends and the middle, some leaving in between.
    for client in [5, 7, 0, 19, 6, 12, 3] {
        s.change_lane(client_key(client), Lane::High);
    }
    s.remove(client_key(6));
    for client in [8, 1, 18] {
        s.change_lane(client_key(client), Lane::High);
    }
    let first = run(&mut s, true);
    assert_eq!(first[..9], [0, 1, 3, 5, 7, 8, 12, 18, 19]);
}
