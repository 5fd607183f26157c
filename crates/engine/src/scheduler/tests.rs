//! Properties of the scheduler against a plain model.

use std::time::Duration;

use proptest::prelude::*;
use seam::Instant;

use super::{Lane, Need, Scheduler};
use crate::settings::{HighPrioMode, Settings};
use crate::workers::Workers;

fn scheduler(permits: u32, mode: HighPrioMode, tickets: u32) -> Scheduler {
    let settings = Settings {
        high_prio_mode: mode,
        high_prio_tickets: tickets,
        prio_kickup_timer: Duration::from_millis(1000),
        ..Settings::default()
    };
    Scheduler::new(&settings, Workers::new(&Settings { permits, ..settings.clone() }, 1), 0)
}

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

/// Starts all that may start and says who.
fn run(scheduler: &mut Scheduler, backend_free: bool) -> Vec<u32> {
    let mut started = Vec::new();
    while let Some(client) = scheduler.peek(backend_free)
        && scheduler.take_permit(client)
    {
        scheduler.start(client);
        started.push(client);
    }
    started
}

#[test]
fn the_high_queue_goes_first_and_each_is_first_come_first_served() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    s.enqueue(at(0), 1, Lane::Low, Need::Any);
    s.enqueue(at(1), 2, Lane::High, Need::Holds);
    s.enqueue(at(2), 3, Lane::Low, Need::Holds);
    s.enqueue(at(3), 4, Lane::High, Need::Any);
    assert_eq!(run(&mut s, true), [2, 4, 1, 3]);
}

#[test]
fn without_a_free_backend_those_who_hold_one_go_on() {
    let mut s = scheduler(8, HighPrioMode::Transactions, u32::MAX);
    s.enqueue(at(0), 1, Lane::Low, Need::Any);
    s.enqueue(at(1), 2, Lane::Low, Need::Holds);
    assert_eq!(run(&mut s, false), [2]);
    assert_eq!(s.oldest_in_need(), Some((1, at(0))));
    assert_eq!(run(&mut s, true), [1]);
}

#[test]
fn a_long_wait_leads_to_the_high_queue() {
    let mut s = scheduler(1, HighPrioMode::Transactions, u32::MAX);
    s.enqueue(at(0), 1, Lane::Low, Need::Any);
    s.enqueue(at(900), 2, Lane::High, Need::Holds);
    assert_eq!(s.next_kick_up(), Some(at(1000)));
    s.kick_up(at(999));
    assert_eq!(s.peek(true), Some(2));
    s.kick_up(at(1000));
    // Both are high now; client 1 came into that queue last.
    assert_eq!(run(&mut s, true), [2]);
    assert_eq!(s.peek(true), Some(1));
    assert_eq!(s.next_kick_up(), None);
}

#[test]
fn tickets_run_out_and_come_back_with_the_low_queue() {
    let s = scheduler(1, HighPrioMode::Transactions, 2);
    let mut tickets = s.full_tickets();
    let lanes: Vec<_> = (0..6).map(|_| s.lane(true, &mut tickets)).collect();
    assert_eq!(lanes, [Lane::High, Lane::High, Lane::Low, Lane::High, Lane::High, Lane::Low]);
    assert_eq!(s.lane(false, &mut tickets), Lane::Low);
    let all = scheduler(1, HighPrioMode::Statements, 0);
    assert_eq!(all.lane(false, &mut 0), Lane::High);
    let none = scheduler(1, HighPrioMode::None, u32::MAX);
    assert_eq!(none.lane(true, &mut u32::MAX.clone()), Lane::Low);
}

/// What can happen to a scheduler.
#[derive(Clone, Debug)]
enum Step {
    Enqueue { client: u32, high: bool, holds: bool },
    Remove { client: u32 },
    Start { backend_free: bool },
    Finish,
    KickUp,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..40, any::<bool>(), any::<bool>())
            .prop_map(|(client, high, holds)| Step::Enqueue { client, high, holds }),
        1 => (0u32..40).prop_map(|client| Step::Remove { client }),
        4 => any::<bool>().prop_map(|backend_free| Step::Start { backend_free }),
        3 => Just(Step::Finish),
        1 => Just(Step::KickUp),
    ]
}

/// The same rules over a plain vector: (client, high, holds, since), in order of arrival.
#[derive(Default)]
struct Model {
    waiting: Vec<(u32, bool, bool, Instant)>,
}

impl Model {
    fn first(&self, backend_free: bool) -> Option<u32> {
        let may = |entry: &&(u32, bool, bool, Instant)| entry.2 || backend_free;
        let high = self.waiting.iter().filter(may).find(|entry| entry.1);
        high.or_else(|| self.waiting.iter().find(may)).map(|entry| entry.0)
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(steps in prop::collection::vec(step(), 1..400)) {
        let mut s = scheduler(3, HighPrioMode::Transactions, u32::MAX);
        let mut model = Model::default();
        let mut running = 0;
        for (tick, step) in steps.into_iter().enumerate() {
            let now = at(tick as u64 * 100);
            match step {
                Step::Enqueue { client, high, holds } => {
                    if model.waiting.iter().all(|entry| entry.0 != client) {
                        let lane = if high { Lane::High } else { Lane::Low };
                        s.enqueue(now, client, lane, if holds { Need::Holds } else { Need::Any });
                        model.waiting.push((client, high, holds, now));
                    }
                }
                Step::Remove { client } => {
                    let waited = model.waiting.iter().any(|entry| entry.0 == client);
                    model.waiting.retain(|entry| entry.0 != client);
                    prop_assert_eq!(s.remove(client), waited);
                }
                Step::Start { backend_free } => {
                    let expected = model.first(backend_free);
                    prop_assert_eq!(s.peek(backend_free), expected);
                    if let Some(client) = expected && s.take_permit(client) {
                        s.start(client);
                        model.waiting.retain(|entry| entry.0 != client);
                        running += 1;
                    }
                }
                Step::Finish if running > 0 => {
                    s.finish();
                    running -= 1;
                }
                Step::Finish => {}
                Step::KickUp => {
                    s.kick_up(now);
                    for holds in [true, false] {
                        let due = |e: &(u32, bool, bool, Instant)| {
                            !e.1 && e.2 == holds && now.since(e.3) >= Duration::from_millis(1000)
                        };
                        let (moved, kept): (Vec<_>, Vec<_>) = model.waiting.into_iter().partition(due);
                        model.waiting = kept;
                        model.waiting.extend(moved.into_iter().map(|(client, _, holds, since)| (client, true, holds, since)));
                    }
                }
            }
            prop_assert_eq!(s.running(), running);
            prop_assert!(s.running() <= 3);
            prop_assert_eq!(s.waiting(), model.waiting.len());
            prop_assert_eq!(s.in_need(), model.waiting.iter().filter(|entry| !entry.2).count());
        }
    }
}
