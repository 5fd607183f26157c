use std::collections::BTreeMap;
use std::time::Duration;

use seam::{Input, Instant, Program};

use super::settings::{FairShare, SharesSettings};
use super::table::Flow;
use super::*;
use crate::client::commands::command::tests::{connection, engine};
use crate::ids::{ClientKey, Key, client_key};
use crate::settings::Settings;
use crate::{Engine, steps};

mod cost;
mod gates;

const ALONE: u32 = 1;

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn flow(user: &str) -> Flow {
    Flow { user: user.as_bytes().into(), ..Flow::default() }
}

fn fair(weights: &str) -> SharesSettings {
    let fair_weights = NamedNumbers::parse(weights).unwrap();
    SharesSettings { fair_share: FairShare::User, fair_weights, ..SharesSettings::default() }
}

fn unshared() -> SharesSettings {
    SharesSettings { fair_share: FairShare::Off, ..SharesSettings::default() }
}

fn limited(limits: &str) -> SharesSettings {
    SharesSettings { user_permits: NamedNumbers::parse(limits).unwrap(), ..unshared() }
}

/// A server that runs one statement at a time, and clients that each want the next one at once.
struct Bench {
    settings: SharesSettings,
    shares: Shares,
    now: Instant,
    /// Clients: the user of each, and how long its statements take.
    clients: Vec<(&'static str, Duration)>,
    had: BTreeMap<&'static str, Duration>,
}

impl Bench {
    fn new(settings: SharesSettings) -> Self {
        let (shares, now) = (Shares::default(), Instant::START);
        Self { settings, shares, now, clients: Vec::new(), had: BTreeMap::new() }
    }

    fn add(&mut self, count: u32, user: &'static str, millis: u64) {
        for _ in 0..count {
            self.clients.push((user, Duration::from_millis(millis)));
            self.ask(self.clients.len() - 1);
        }
    }

    fn ask(&mut self, client: usize) {
        let (user, _) = self.clients[client];
        let standing = Standing::default();
        self.shares.park(
            &self.settings,
            flow(user),
            self.now,
            ClientKey::at((), client),
            Lane::Low,
            standing,
        );
    }

    /// The statement that goes next, where there is room for a short statement or not.
    fn next(&mut self, room_for_short: bool) -> Option<Parked> {
        self.next_with(RoomByClass { short: room_for_short, long: true })
    }

    fn next_with(&mut self, room: RoomByClass) -> Option<Parked> {
        let turn =
            ShareTurn { now: self.now, workers: ALONE, room, overdue_after: Some(Duration::from_secs(1)) };
        self.shares.next(&self.settings, &turn)
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let parked = self.next(true).expect("somebody wants something");
            let client = parked.client.slot();
            let (user, takes) = self.clients[client];
            self.shares.started(parked.client, self.now);
            self.now = self.now + takes;
            *self.had.entry(user).or_default() += takes;
            self.shares.ended(&self.settings, parked.client, self.now);
            self.ask(client);
        }
    }

    /// The part of the server that a user has had since the last question, in whole percent.
    fn percent(&mut self, user: &str) -> u128 {
        let all: Duration = self.had.values().sum();
        let had = self.had.get(user).copied().unwrap_or_default();
        self.had.clear();
        had.as_micros() * 100 / all.as_micros()
    }
}

#[test]
fn users_have_even_shares_of_time_and_not_of_statements() {
    let mut bench = Bench::new(fair(""));
    bench.add(200, "crowd", 1);
    bench.add(2, "report", 40);
    bench.add(1, "app", 5);
    bench.run(Duration::from_secs(20));
    let shares = ["crowd", "report", "app"].map(|user| {
        let had = bench.had.clone();
        let percent = bench.percent(user);
        bench.had = had;
        percent
    });
    assert!(shares.iter().all(|share| (31..=35).contains(share)), "{shares:?}");
}

#[test]
fn weights_count() {
    let mut bench = Bench::new(fair("app=3"));
    bench.add(50, "crowd", 2);
    bench.add(50, "app", 7);
    bench.run(Duration::from_secs(20));
    let share = bench.percent("app");
    assert!((73..=77).contains(&share), "{share}");
}

#[test]
fn who_was_away_has_saved_nothing_up() {
    let mut bench = Bench::new(fair(""));
    bench.add(10, "steady", 1);
    bench.run(Duration::from_secs(10));
    bench.percent("steady");
    bench.add(10, "late", 1);
    bench.run(Duration::from_secs(1));
    let share = bench.percent("late");
    assert!((48..=52).contains(&share), "{share}");
}

#[test]
fn without_fair_shares_the_first_goes_first() {
    let mut bench = Bench::new(limited("*=4096"));
    bench.add(3, "b", 1);
    bench.add(3, "a", 1);
    let order: Vec<_> = std::iter::from_fn(|| bench.next(true)).map(|next| next.client.number()).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn names_that_are_no_utf_8_are_told_apart() {
    let settings = limited("*=1");
    let mut shares = Shares::default();
    for (client, user) in [(0, b"caf\xe9"), (1, b"caf\xe8")] {
        let flow = Flow { user: user[..].into(), ..Flow::default() };
        shares.park(&settings, flow, at(0), client_key(client), Lane::Low, Standing::default());
    }
    let turn = ShareTurn { now: at(0), workers: ALONE, room: RoomByClass::ALL, overdue_after: None };
    assert!(shares.next(&settings, &turn).is_some() && shares.next(&settings, &turn).is_some());
}

#[test]
fn nobody_has_more_under_way_than_its_limit() {
    let mut bench = Bench::new(limited("report=2"));
    bench.add(5, "report", 1);
    bench.add(1, "app", 1);
    let next = |bench: &mut Bench| bench.next(true).map(|next| next.client.number());
    assert_eq!([next(&mut bench), next(&mut bench), next(&mut bench)], [Some(0), Some(1), Some(5)]);
    assert_eq!(next(&mut bench), None);
    bench.shares.ended(&bench.settings, client_key(0), bench.now);
    assert_eq!((next(&mut bench), next(&mut bench)), (Some(2), None));
    // A statement of an open transaction does not wait, but counts.
    bench.shares.pass(&bench.settings, flow("report"), client_key(9));
    bench.shares.ended(&bench.settings, client_key(1), bench.now);
    assert_eq!(next(&mut bench), None);
    bench.shares.ended(&bench.settings, client_key(9), bench.now);
    assert_eq!(next(&mut bench), Some(3));
}

#[test]
fn a_limit_that_is_lifted_while_statements_run_leaves_no_trace() {
    let mut bench = Bench::new(limited("app=1"));
    bench.add(2, "app", 1);
    assert_eq!(bench.next(true).map(|next| next.client.number()), Some(0));
    bench.settings = fair("");
    bench.shares.ended(&bench.settings, client_key(0), bench.now);
    bench.settings = limited("app=1");
    assert_eq!(bench.next(true).map(|next| next.client.number()), Some(1));
}

#[test]
fn those_that_have_gone_do_not_go_and_take_no_room() {
    let mut bench = Bench::new(limited("app=1"));
    bench.add(1, "app", 1);
    assert!(bench.next(true).is_some());
    for _ in 0..1_000 {
        bench.add(2, "app", 1);
        let [first, second] = [2, 1].map(|from_end| ClientKey::at((), bench.clients.len() - from_end));
        bench.shares.ended(&bench.settings, second, bench.now);
        bench.shares.ended(&bench.settings, first, bench.now);
    }
    bench.add(1, "app", 1);
    let last = ClientKey::at((), bench.clients.len() - 1);
    assert_eq!(bench.shares.waiting(Class::Short), 1);
    assert_eq!(bench.shares.oldest(Class::Short), Some((last, bench.now)));
    assert_eq!(bench.shares.latest(Class::Short).next(), Some(last));
    assert!(bench.shares.places() < 10, "{}", bench.shares.places());
    bench.shares.ended(&bench.settings, client_key(0), bench.now);
    assert_eq!(bench.next(true).map(|next| next.client.number()), Some(last.number()));
    assert_eq!(bench.shares.waiting(Class::Short), 0);
}

#[test]
fn long_statements_wait_for_room_of_their_own_and_hold_up_no_short_ones() {
    let mut bench = Bench::new(fair(""));
    for client in 0..9 {
        let lane = if client < 6 { Lane::Long } else { Lane::Low };
        bench.shares.park(
            &bench.settings,
            flow("app"),
            bench.now,
            client_key(client),
            lane,
            Standing::default(),
        );
    }
    let mut next =
        |short, long| bench.next_with(RoomByClass { short, long }).map(|next| next.client.number());
    assert_eq!([next(false, false), next(false, false), next(false, false)], [Some(0), Some(6), None]);
    assert_eq!([next(true, false), next(false, true), next(true, true)], [Some(7), Some(1), Some(2)]);
    assert_eq!([next(true, false), next(true, false)], [Some(8), None], "only long ones are left");
}

#[test]
fn users_take_turns_among_long_statements() {
    let mut bench = Bench::new(fair(""));
    for client in 0..20 {
        let user = if client < 15 { "crowd" } else { "app" };
        bench.shares.park(
            &bench.settings,
            flow(user),
            bench.now,
            client_key(client),
            Lane::Long,
            Standing::default(),
        );
    }
    let mut order = Vec::new();
    while let Some(parked) = bench.next_with(RoomByClass { short: false, long: true }) {
        bench.shares.started(parked.client, bench.now);
        bench.now = bench.now + Duration::from_millis(100);
        bench.shares.ended(&bench.settings, parked.client, bench.now);
        order.push(parked.client.number());
    }
    assert_eq!(order[..10].iter().filter(|&&client| client >= 15).count(), 5, "{order:?}");
}

/// A client's statement has been handed on, and waits for its share again.
pub(super) fn park_again(engine: &mut Engine, client: ClientKey, since: Instant, lane: Lane) {
    let (scheduling, parties, clients, _) = engine.queues();
    let again = Arriving { since, client, lane, need: Need::Any, standing: Standing::default() };
    scheduling.park_again(&parties, &clients[client], again);
}

#[test]
fn what_waits_among_long_statements_and_has_turned_out_short_waits_with_those() {
    let mut engine = engine(2, Settings { shares: fair(""), ..Settings::default() });
    for client in 0..2 {
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03SELECT 1 FROM t");
        engine.handle(Instant::START, Input::Bytes { connection: connection(client), bytes: &query });
        engine.scheduling.change_lane(
            engine.now,
            client_key(client),
            &mut engine.clients[client_key(client)],
            Lane::Long,
        );
        park_again(&mut engine, client_key(client), at(0), Lane::Long);
    }
    assert_eq!(Class::ALL.map(|class| engine.scheduling.shares.waiting(class)), [0, 2]);
    let (scheduling, parties, clients, _) = engine.queues();
    assert_eq!(scheduling.leave_long_lane_of_shares(&parties, clients), 2, "their like have never been long");
    assert_eq!(Class::ALL.map(|class| engine.scheduling.shares.waiting(class)), [2, 0]);
}

#[test]
fn a_user_whose_statements_find_no_backend_does_not_hold_up_others() {
    let mut bench = Bench::new(fair(""));
    bench.add(2, "stuck", 1);
    bench.add(2, "app", 1);
    let mut next = || bench.next(false).map(|next| next.client.number());
    assert_eq!([next(), next(), next()], [Some(0), Some(2), None], "one of each where there is no room");
    bench.shares.started(client_key(2), bench.now);
    assert_eq!(bench.next(false).map(|next| next.client.number()), Some(3));
    bench.shares.ended(&bench.settings, client_key(0), bench.now);
    assert_eq!(bench.next(false).map(|next| next.client.number()), Some(1));
}

#[test]
fn a_user_whose_clients_hang_up_has_its_newest_go_first_and_nobody_else() {
    let mut bench = Bench::new(fair(""));
    bench.add(20, "storm", 1);
    bench.add(20, "calm", 1);
    bench.now = bench.now + Duration::from_millis(500);
    for client in 0..4 {
        bench.shares.abandoned(bench.now, client_key(client), Duration::from_millis(500));
        bench.shares.ended(&bench.settings, client_key(client), bench.now);
    }
    let order: Vec<_> = std::iter::from_fn(|| bench.next(true)).map(|next| next.client.number()).collect();
    let of = |users: std::ops::Range<u32>| {
        order.iter().copied().filter(|client| users.contains(client)).collect::<Vec<_>>()
    };
    assert_eq!(of(0..20), (4..20).rev().collect::<Vec<_>>());
    assert_eq!(of(20..40), (20..40).collect::<Vec<_>>());
}

#[test]
fn the_oldest_of_a_user_has_one_of_eight_turns_once_it_has_waited_too_long() {
    let mut bench = Bench::new(fair(""));
    bench.add(4, "storm", 1);
    bench.now = bench.now + Duration::from_millis(1_500);
    bench.add(24, "storm", 1);
    for client in [0, 1, 2, 27] {
        bench.shares.abandoned(bench.now, client_key(client), Duration::from_millis(750));
        bench.shares.ended(&bench.settings, client_key(client), bench.now);
    }
    let order: Vec<_> = std::iter::from_fn(|| bench.next(true)).map(|next| next.client.number()).collect();
    assert_eq!(order[..8], [26, 25, 24, 23, 22, 21, 20, 3]);
    assert_eq!(order.len(), 24);
}

/// Else a thousand customers' statements would cost each other a millisecond each.
#[test]
fn whose_turn_it_is_is_found_without_looking_at_everybody() {
    [1_000, 1_001, 5_000].into_iter().for_each(all_take_turns);
}

fn all_take_turns(users: u32) {
    let settings = SharesSettings { fair_share: FairShare::Crowding, ..SharesSettings::default() };
    let mut shares = Shares::default();
    for client in 0..10 * users {
        let user = format!("customer{}", client % users);
        shares.park(
            &settings,
            flow(&user),
            at(u64::from(client)),
            client_key(client),
            Lane::Low,
            Standing::default(),
        );
    }
    let before = steps::taken();
    let mut turns = BTreeMap::<_, u32>::new();
    for millis in 0..5 * u64::from(users) {
        let turn = ShareTurn { now: at(millis), workers: ALONE, room: RoomByClass::ALL, overdue_after: None };
        let parked = shares.next(&settings, &turn).expect("there are enough");
        shares.started(parked.client, at(millis));
        shares.ended(&settings, parked.client, at(millis + 1));
        *turns.entry(parked.client.number() % users).or_default() += 1;
    }
    assert!(turns.values().all(|&turns| turns == 5), "all have taken turns");
    assert!(steps::taken() - before <= 30 * 5 * u64::from(users));
}

#[test]
fn everybody_has_a_turn_where_the_rule_changes_in_between() {
    let mut bench = Bench::new(unshared());
    bench.add(2, "a", 10);
    bench.add(2, "b", 10);
    let next = |bench: &mut Bench| bench.next(true).map(|parked| bench.clients[parked.client.slot()].0);
    assert_eq!(next(&mut bench), Some("a"));
    bench.settings.fair_share = FairShare::User;
    bench.add(1, "c", 10);
    assert_eq!((next(&mut bench), next(&mut bench)), (Some("a"), Some("b")));
    bench.settings.fair_share = FairShare::Off;
    assert_eq!([next(&mut bench), next(&mut bench), next(&mut bench)], [Some("b"), Some("c"), None]);
}
