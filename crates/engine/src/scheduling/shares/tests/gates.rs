//! Tests that nobody is forgotten at a gate: where nobody goes any more, nobody may.

use std::net::IpAddr;

use super::*;
use crate::scheduling::shares::line::Way;
use crate::scheduling::shares::table::{Flow, Name};
use crate::workers::users::Users;

const CLIENTS: u32 = 60;

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        // D. Knuth's MMIX generator; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// How far a client is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Idle,
    Parked,
    Underway,
}

fn all_limits(fair_share: FairShare) -> SharesSettings {
    let limit = |text| NamedNumbers::parse(text).unwrap();
    SharesSettings {
        fair_share,
        user_permits: limit("*=4"),
        schema_permits: limit("*=5"),
        address_permits: limit("*=3"),
        ..SharesSettings::default()
    }
}

fn some_flow(numbers: &mut Numbers) -> Flow {
    Flow {
        user: format!("u{}", numbers.below(5)).as_bytes().into(),
        class: Class::default(),
        schema: Some(format!("s{}", numbers.below(3)).as_bytes().into()),
        address: Some(IpAddr::from([10, 0, 0, numbers.below(5) as u8])),
    }
}

fn nobody_could_go(shares: &Shares, settings: &SharesSettings, room: RoomByClass) -> bool {
    shares.flows.iter().all(|(flow, queue)| {
        let no_room = queue
            .stand
            .as_ref()
            .is_some_and(|stand| matches!(stand.way, Way::NeedsRoom(class) if !room.is_for(class)));
        shares.stops(settings, flow).is_some() || no_room
    })
}

fn try_with(seed: u64, settings: &SharesSettings) {
    let (mut numbers, users) = (Numbers(seed), Users::new(ALONE));
    let (mut shares, mut clients) = (Shares::default(), [At::Idle; CLIENTS as usize]);
    for millis in 0..3_000 {
        let client = numbers.below(CLIENTS);
        let state = &mut clients[client as usize];
        match (numbers.below(10), *state) {
            (0..6, At::Idle) => {
                let lane = if numbers.below(4) == 0 { Lane::Long } else { Lane::Low };
                let flow = some_flow(&mut numbers);
                shares.park(settings, flow, at(millis), client_key(client), lane, Standing::default());
                *state = At::Parked;
            }
            (6, At::Idle) => {
                shares.pass(settings, some_flow(&mut numbers), client_key(client));
                *state = At::Underway;
            }
            (0..4, At::Underway) => shares.started(client_key(client), at(millis)),
            (4..8, At::Underway) | (0, At::Parked) => {
                shares.ended(settings, client_key(client), at(millis));
                *state = At::Idle;
            }
            (8, _) => {
                let user: Name = format!("u{}", numbers.below(5)).as_bytes().into();
                match numbers.below(3) {
                    0 => shares.hold_up(&user, users.usage_of(&user), at(millis)),
                    _ => shares.let_go_on(&user),
                }
            }
            _ => {}
        }
        let room = RoomByClass { short: numbers.below(4) == 0, long: numbers.below(4) == 0 };
        let turn = ShareTurn { now: at(millis), workers: ALONE, room, overdue_after: None };
        while let Some(parked) = shares.next(settings, &turn) {
            clients[parked.client.slot()] = At::Underway;
        }
        assert!(nobody_could_go(&shares, settings, room), "seed {seed}, at {millis} ms, {settings:?}");
    }
}

#[test]
fn whoever_may_go_goes() {
    for seed in 0..8 {
        for fair_share in [FairShare::Off, FairShare::User, FairShare::Schema] {
            try_with(seed, &all_limits(fair_share));
        }
    }
}
