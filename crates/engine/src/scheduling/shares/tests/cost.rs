//! The cost of a statement does not grow with the number that wait. Otherwise a thousand customers' statements would cost each other
//! a millisecond each.

use std::collections::VecDeque;

use super::*;
use crate::scheduling::shares::table::{Flow, Name};
use crate::workers::users::Users;

/// Users, or whatever else there are many of: below and above the number at which meters are looked through.
const MANY: [u32; 2] = [1_001, 5_000];

/// Steps that a statement may cost from its arrival to its end, with all questions that are asked in a turn. Each look at a
/// flow, a user, a gate or a statement is a step.
const STEPS: u64 = 100;

/// Many clients that each want the next statement as soon as one has ended.
struct Crowd {
    settings: SharesSettings,
    shares: Shares,
    flow_of: fn(u32, u32) -> Flow,
    many: u32,
    mixed: bool,
    millis: u64,
    overdue_after: Option<Duration>,
    handed_on: VecDeque<u32>,
}

fn customer(number: u32) -> String {
    format!("customer{number}")
}

impl Crowd {
    fn new(settings: SharesSettings, many: u32, flow_of: fn(u32, u32) -> Flow) -> Self {
        let (shares, handed_on) = (Shares::default(), VecDeque::new());
        Self { settings, shares, flow_of, many, mixed: false, millis: 0, overdue_after: None, handed_on }
    }

    /// Four statements for each of the many.
    fn arrive(mut self) -> Self {
        (0..4 * self.many).for_each(|client| self.park(client));
        self
    }

    fn park(&mut self, client: u32) {
        self.millis += 1;
        self.park_at_once(client);
    }

    fn park_at_once(&mut self, client: u32) {
        let lane = if self.mixed && client >= self.many { Lane::Long } else { Lane::Low };
        let flow = (self.flow_of)(client, self.many);
        self.shares.park(
            &self.settings,
            flow,
            at(self.millis),
            client_key(client),
            lane,
            Standing::default(),
        );
    }

    /// Hands on so many statements at most, or all that may go.
    fn hand_on(&mut self, most: usize, short: bool) {
        let room = RoomByClass { short, long: true };
        let turn =
            ShareTurn { now: at(self.millis), workers: ALONE, room, overdue_after: self.overdue_after };
        for _ in 0..most {
            let Some(parked) = self.shares.next(&self.settings, &turn) else { break };
            self.handed_on.push_back(parked.client.number());
        }
    }

    /// Runs one statement. Then others go that there is room for, and all questions of a turn are asked.
    fn run_one(&mut self, room: bool) {
        let client = self.handed_on.pop_front().expect("something goes on");
        self.shares.started(client_key(client), at(self.millis));
        self.millis += 1;
        self.shares.ended(&self.settings, client_key(client), at(self.millis));
        self.park(client);
        self.hand_on(1, room);
        self.hand_on(usize::MAX, false);
        for class in Class::ALL {
            let _ = (self.shares.oldest(class), self.shares.latest(class).next());
        }
        let _ = (self.shares.oldest_held_up(), self.shares.is_newest_first(at(self.millis)));
    }

    /// Checks the cost of each of so many statements.
    fn cost(&mut self, room: bool) {
        self.hand_on(4, true);
        self.hand_on(usize::MAX, false);
        let rounds = u64::from(self.many);
        let before = steps::taken();
        (0..rounds).for_each(|_| self.run_one(room));
        self.check(before, rounds);
    }

    fn check(&self, before: u64, rounds: u64) {
        let each = (steps::taken() - before) / rounds;
        assert!(each <= STEPS, "{each} steps where there are {}, {:?}", self.many, self.settings);
    }
}

fn fair_share(fair_share: FairShare) -> SharesSettings {
    SharesSettings { fair_share, ..SharesSettings::default() }
}

fn of_a_user_each(client: u32, many: u32) -> Flow {
    flow(&customer(client % many))
}

fn in_one_schema(client: u32, many: u32) -> Flow {
    Flow { schema: Some((*b"shop").into()), ..of_a_user_each(client, many) }
}

fn from_an_address_each(client: u32, many: u32) -> Flow {
    Flow { address: Some(std::net::Ipv4Addr::from(client % many).into()), ..flow("app") }
}

#[test]
fn users_take_turns() {
    for many in MANY {
        let crowd = || Crowd::new(fair_share(FairShare::Crowding), many, of_a_user_each);
        crowd().arrive().cost(true);
        crowd().arrive().cost(false);
    }
}

#[test]
fn flows_of_one_name_stand_together() {
    for many in MANY {
        let schema = || Crowd::new(fair_share(FairShare::Schema), many, in_one_schema);
        schema().arrive().cost(true);
        schema().arrive().cost(false);
        let user = || Crowd::new(fair_share(FairShare::User), many, from_an_address_each);
        user().arrive().cost(true);
        user().arrive().cost(false);
    }
}

#[test]
fn who_is_at_a_limit_is_not_looked_at() {
    let one = || NamedNumbers::parse("*=1").unwrap();
    let by_user = fair_share(FairShare::User);
    for many in MANY {
        let users = SharesSettings { user_permits: one(), ..by_user.clone() };
        Crowd::new(users.clone(), many, of_a_user_each).arrive().cost(true);
        Crowd::new(users, many, from_an_address_each).arrive().cost(true);
        let schemas = SharesSettings { schema_permits: one(), ..by_user.clone() };
        Crowd::new(schemas, many, in_one_schema).arrive().cost(true);
        let addresses = SharesSettings { address_permits: one(), ..by_user.clone() };
        Crowd::new(addresses, many, from_an_address_each).arrive().cost(true);
    }
}

#[test]
fn who_is_held_up_is_not_looked_at() {
    for many in MANY {
        let mut crowd = Crowd::new(fair_share(FairShare::Crowding), many, of_a_user_each).arrive();
        let users = Users::new(ALONE);
        let names: Vec<Name> = (0..many).map(|number| customer(number).as_bytes().into()).collect();
        for name in &names[2..] {
            crowd.shares.hold_up(name, users.usage_of(name), at(0));
        }
        crowd.cost(true);
        let before = steps::taken();
        for name in &names[2..] {
            crowd.shares.let_go_on(name);
            crowd.shares.hold_up(name, users.usage_of(name), at(0));
            crowd.run_one(true);
            assert!(crowd.shares.has_parked(name) && crowd.shares.oldest_of(name).is_some());
        }
        crowd.check(before, u64::from(many));
    }
}

#[test]
fn the_oldest_and_the_newest_of_a_class_are_found_behind_many_of_the_other() {
    let mut crowd = Crowd::new(fair_share(FairShare::Crowding), 1, |_, _| flow("app"));
    crowd.mixed = true;
    (1..50_000).for_each(|client| crowd.park(client));
    crowd.park(0);
    (50_000..100_000).for_each(|client| crowd.park(client));
    let before = steps::taken();
    assert_eq!(crowd.shares.oldest(Class::Short).map(|(client, _)| client), Some(client_key(0)));
    assert_eq!(crowd.shares.latest(Class::Short).next(), Some(client_key(0)));
    crowd.check(before, 1);
    for client in (1..100_000).rev() {
        crowd.shares.ended(&crowd.settings, client_key(client), at(0));
        let before = Some(client - 1).filter(|&before| before > 0);
        assert_eq!(crowd.shares.latest(Class::Long).next(), before.map(client_key));
    }
    crowd.check(before, 100_000);
}

#[test]
fn users_take_turns_where_clients_hang_up() {
    for many in MANY {
        let mut crowd = Crowd::new(fair_share(FairShare::Crowding), many, of_a_user_each);
        (crowd.mixed, crowd.overdue_after) = (true, Some(Duration::from_secs(1)));
        crowd = crowd.arrive();
        let hang_up = |crowd: &mut Crowd, client: u32| {
            crowd.shares.abandoned(at(crowd.millis), client_key(client), Duration::from_secs(5));
            crowd.shares.ended(&crowd.settings, client_key(client), at(crowd.millis));
            crowd.park_at_once(client);
        };
        // Often enough for the newest long ones to go first.
        (0..8 * many).for_each(|number| hang_up(&mut crowd, number % (4 * many)));
        assert!(crowd.shares.is_newest_first(at(crowd.millis)));
        crowd.cost(true);
        (0..many).for_each(|client| {
            let parked = crowd.handed_on.iter().all(|&handed_on| handed_on != client);
            parked.then(|| hang_up(&mut crowd, client));
        });
        crowd.cost(false);
    }
}
