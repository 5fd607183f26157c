//! What operators of a simulated cluster say of the servers that are read from: weights and zones, at the start and in mid-run.

use std::collections::BTreeMap;

use engine::{ByServer, ReadSettings, ServerName, Zone};

use crate::faults::server_address;
use crate::random::Random;

/// The zones that there are. Onramp may be in one that no server is in.
const ZONES: [&str; 3] = ["near", "far", "empty"];

/// In so many of 100 runs in which reads are split somebody says something of servers.
const RULED: u64 = 50;

/// And in so many of these he says something else in mid-run.
const CHANGED: u64 = 60;

/// Options of servers that are read from, from some time on.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Microseconds from the start.
    pub from: u64,
    /// `read_weights`.
    pub weights: ByServer<u32>,
    /// `zone`.
    pub zone: Option<Zone>,
    /// `server_zones`.
    pub zones: ByServer<Zone>,
}

impl Rules {
    /// Those of a run that lasts so long with so many servers, the first of which holds from its start; none where nobody says anything.
    pub fn draw(random: &mut Random, servers: u8, lasts: u64) -> Vec<Self> {
        if !random.percent(RULED) {
            return Vec::new();
        }
        let mut all = vec![Self::draw_one(random, servers, 0)];
        let mut from = if random.percent(CHANGED) { random.between(500_000, 4_000_000) } else { lasts };
        while from < lasts {
            all.push(Self::draw_one(random, servers, from));
            from += random.between(500_000, 6_000_000);
        }
        all
    }

    fn draw_one(random: &mut Random, servers: u8, from: u64) -> Self {
        let mut weights = BTreeMap::new();
        let mut zones = BTreeMap::new();
        if random.percent(70) {
            weights.extend((1..=servers).map(|number| (name_of(number), *random.pick(&[0, 1, 1, 2, 5]))));
        }
        let zone = random.percent(60).then(|| {
            let places = (1..=servers).filter_map(|number| {
                Some((name_of(number), (*random.pick(&[Some("near"), Some("near"), Some("far"), None]))?))
            });
            zones.extend(places.map(|(server, zone)| (server, zone_of(zone))));
            zone_of(random.pick::<&str>(&[ZONES[0], ZONES[0], ZONES[0], ZONES[1], ZONES[2]]))
        });
        Self { from, weights: ByServer::new(weights, None), zone, zones: ByServer::new(zones, None) }
    }

    /// What the engine is told.
    pub fn apply(&self, reads: &mut ReadSettings) {
        reads.weights = self.weights.clone();
        reads.zone = self.zone.clone();
        reads.zones = self.zones.clone();
    }
}

/// The weight of the server at this place.
pub fn weight_at(reads: &ReadSettings, place: usize) -> u32 {
    reads.weights.of(&name_at(place)).copied().unwrap_or(1)
}

/// Whether the server at this place is in Onramp's own zone, or that is in none.
pub fn is_near(reads: &ReadSettings, place: usize) -> bool {
    reads.zone.is_none() || reads.zone.as_ref() == reads.zones.of(&name_at(place))
}

fn name_at(place: usize) -> ServerName {
    name_of(u8::try_from(place + 1).expect("few servers"))
}

/// A server as `backend` has it.
pub fn name_of(number: u8) -> ServerName {
    match server_address(number) {
        seam::Address::Tcp { remote, .. } => ServerName::tcp(&remote.ip().to_string(), remote.port()),
        seam::Address::Unix(path) => ServerName::Unix(path),
        seam::Address::NotFound { host, port } => ServerName::tcp(&host, port),
    }
}

/// A zone of this name.
pub fn zone_of(name: &str) -> Zone {
    name.parse().expect("a good name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_holds_for_the_servers_of_a_run() {
        let mut random = Random::new(3);
        let drawn: Vec<Vec<Rules>> = (0..40).map(|_| Rules::draw(&mut random, 3, 20_000_000)).collect();
        assert!(drawn.iter().any(Vec::is_empty) && drawn.iter().any(|rules| rules.len() > 3));
        let mut reads = ReadSettings::default();
        assert!((weight_at(&reads, 0), is_near(&reads, 0)) == (1, true), "nobody has said anything");
        let weights = ByServer::new(BTreeMap::from([(name_of(2), 0)]), None);
        let zones = ByServer::new(BTreeMap::from([(name_of(1), zone_of("near"))]), None);
        Rules { from: 0, weights, zone: Some(zone_of("near")), zones }.apply(&mut reads);
        assert_eq!([0, 1, 2].map(|place| weight_at(&reads, place)), [1, 0, 1]);
        assert_eq!([0, 1, 2].map(|place| is_near(&reads, place)), [true, false, false]);
    }
}
