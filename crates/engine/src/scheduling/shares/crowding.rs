//! Shares that act only where they have to: `fair_share = crowding`, the default.
//!
//! As long as one user is there alone, or users want about as much of each other, first come is first served, and nothing here
//! costs anything: statements go to the scheduler's queues as if there were no shares. *Crowding* calls for shares: new work
//! waits, and much less waits of one user than of the others, so that a few crowd it out. The worker looks for that in the
//! scheduler's queues, now and then, and only while something stands there. Then the waiting statements move in front of the
//! queues, users take turns ([`super`]), and a light user has twice the weight of the others. So a user who brings a crowd gets
//! no more for it than one who does not, and one who asks for about half of the server has it while a crowd asks for all of it.
//! Crowding ends once no light user has come for a while, and none waits.
//!
//! Crowding is common to all workers, since permits go to the statement that has the earliest place, on whatever worker.

use std::collections::BTreeMap;
use std::time::Duration;

use super::crowding_state::is_light;
use super::settings::FairShare;
use super::table::Shares;
use super::{AT_ONCE, Parties, RoomByClass};
use crate::accounts::Identities;
use crate::client::Client;
use crate::ids::{ClientKey, Table};
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::{Class, Standing};
use crate::servers::Servers;
use crate::settings::Settings;

/// The least time that somebody has to have waited: shorter waits are no queue that anybody notices, but the order of a turn or two.
const STANDS: Duration = Duration::from_millis(20);

/// How often the queues are looked into while something stands there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waiting statements that are looked at: among a dozen users who want the same, chance makes none of them look light.
const LOOKED_AT: usize = 256;

/// The number of statements that are counted where one user looks light among these, which takes some milliseconds: statements of a user that
/// have been served together come back together, and stand where nobody has looked.
const COUNTED: usize = 16_384;

/// The number of counted statements, in all queues together, for one usual pause. After more of them the pause is as many times longer: counting
/// takes a two-hundredth of the time then.
const COUNTED_FOR_A_LOOK: u64 = 512;

/// The exponent of the chance that a user looks light who wants the same as the others: e to the power of minus this. Of a hundred users,
/// counted for an hour, one does in one second or two. That is for queues of more than [`LOOKED_AT`], in which statements that have been
/// served together make chance greater than that.
const BEYOND_CHANCE: f64 = 18.0;

/// The part of the time in which shares may be there for nothing in shorter queues, where users want the same. To take turns costs next to
/// nothing there, and a user who is alone beside dozens has to be seen.
const FOR_NOTHING: f64 = 0.01;

/// Shares last for so long after the last light user has come, or has waited: users pause between their statements.
const LASTS: Duration = Duration::from_secs(1);

impl Scheduling {
    /// Says whether new work waits for its share now.
    pub(crate) fn shares_are_on(&self, settings: &Settings) -> bool {
        settings.shares.is_on() || self.shares.crowding.engaged
    }

    /// Says whether something of a light user waits, as far as that is seen without looking at each user: the user that has had
    /// the least is next.
    fn a_light_user_waits(&self) -> bool {
        let next = self.shares.line.next_names(LOOKED_AT).any(|name| self.shares.is_light_user(name));
        let handed_on =
            || Class::ALL.into_iter().flat_map(|class| self.scheduler.some_plain(class, LOOKED_AT));
        next || handed_on().any(|client| self.shares.is_light(client))
    }

    /// Begins and ends it: before dispatching.
    pub(crate) fn follow_crowding(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
    ) {
        let (now, workers) = (parties.now, &parties.pool.workers);
        let wanted = parties.settings.shares_by_crowding();
        if wanted && !self.shares.crowding.engaged {
            self.look_for_crowding(parties, clients, servers);
        }
        if wanted
            && self.shares.crowding.engaged
            && now >= workers.crowded_until()
            && self.a_light_user_waits()
        {
            workers.prolong_crowding(now + LASTS);
        }
        let engaged = wanted && now < workers.crowded_until();
        if engaged != self.shares.crowding.engaged {
            self.shares.crowding.engaged = engaged;
            self.scheduler.hold_order(engaged);
            self.shares.crowding.moving = true;
        }
        if self.shares.crowding.moving {
            let moved = match engaged {
                true => self.park_what_waits(parties, clients),
                false if parties.settings.shares.is_on() => 0,
                false => self.hand_back(parties, clients, servers),
            };
            self.shares.crowding.moving = moved == AT_ONCE;
        }
    }

    /// A statement has come that waits for its share.
    pub(super) fn prolong_crowding(&self, parties: &Parties<'_>, client: ClientKey) {
        let (now, workers) = (parties.now, &parties.pool.workers);
        if now + LASTS / 2 < workers.crowded_until() || !self.shares.is_light(client) {
            return;
        }
        let stands = |(_, since)| now.since(since) >= STANDS;
        if Class::ALL.into_iter().filter_map(|class| self.shares.oldest(class)).any(stands) {
            workers.prolong_crowding(now + LASTS);
        }
    }

    fn look_for_crowding(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &Servers,
    ) {
        let now = parties.now;
        if now < self.shares.crowding.look_at {
            return;
        }
        let (mut stands, mut counted) = (false, 0);
        // Each queue for itself: who waits for long ones to end is not crowded out by short ones.
        for class in Class::ALL {
            let oldest = self.scheduler.oldest_plain(class);
            let waited = oldest.map_or(Duration::ZERO, |(_, since)| now.since(since));
            if waited < STANDS {
                continue;
            }
            stands = true;
            let identities = &parties.logins.identities;
            let of_users = |most| OfUsers::new(self.scheduler.some_plain(class, most), clients, identities);
            if !of_users(LOOKED_AT).has(is_light) {
                continue;
            }
            let mut users = of_users(COUNTED);
            counted += users.all();
            users.add_in_flight(servers, identities);
            if users.has(|of_user, all, users| stands_out(of_user, all, users, waited)) {
                parties.pool.workers.prolong_crowding(now + LASTS);
            }
        }
        if stands {
            self.shares.crowding.look_at = now + until_next_look(counted);
        }
    }

    /// Moves statements that wait with the scheduler to wait for their share: at most [`AT_ONCE`] of them in a turn. Returns how
    /// many were moved.
    fn park_what_waits(&mut self, parties: &Parties<'_>, clients: &Table<ClientKey, Client>) -> usize {
        let mut moved = 0;
        for class in Class::ALL {
            // Beside those are some that have had their turn here, and wait for a backend.
            for client in self.scheduler.some_plain(class, 4 * AT_ONCE) {
                if moved == AT_ONCE
                    || self.shares.counts(client)
                    || parties.logins.schemas.is_asked_for(client)
                {
                    continue;
                }
                let Some(since) = self.scheduler.take_plain(class, client) else { continue };
                let flow = parties.flow_of(&clients[client]);
                let settings = &parties.settings.shares;
                self.shares.park(settings, flow, since, client, class.lane(), Standing::default());
                moved += 1;
            }
        }
        moved
    }

    /// Moves statements that wait for their share back to the scheduler, as many in a turn. Returns how many were moved.
    fn hand_back(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
    ) -> usize {
        let mut moved = 0;
        while moved < AT_ONCE
            && let Some(parked) = self.shares.next_of(parties, RoomByClass::ALL, None)
        {
            // Should it have to wait for its share again, it is like all others.
            self.shares.ended(&parties.settings.shares, parked.client, parties.now);
            self.enqueue_parked(parties.now, clients, servers, parked);
            moved += 1;
        }
        moved
    }
}

/// Statements by the names of their users.
#[derive(Default)]
struct OfUsers<'a>(BTreeMap<&'a [u8], u64>);

impl<'a> OfUsers<'a> {
    /// Counts the statements of each user that these clients have.
    fn new(waiting: Vec<ClientKey>, clients: &Table<ClientKey, Client>, identities: &'a Identities) -> Self {
        let mut users = Self::default();
        for client in waiting {
            if let Some(identity) = clients[client].identity() {
                *users.0.entry(&identities.identity(identity).account.user).or_default() += 1;
            }
        }
        users
    }

    /// Counts statements in flight, too, for users with something that waits. A user who has few waiting, since all of his have been sent
    /// together, is not crowded out.
    fn add_in_flight(&mut self, servers: &Servers, identities: &Identities) {
        for (_, backend) in servers.backends() {
            let user = &identities.identity(backend.account.identity()).account.user;
            if let Some(count) = self.0.get_mut(&**user) {
                *count += backend.in_flight.len() as u64;
            }
        }
    }

    /// The number of all users' statements together.
    fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Says whether one of several users has so few, by how many all have together, and how many users there are.
    fn has(&self, so_few: impl Fn(u64, u64, u64) -> bool) -> bool {
        let (all, users) = (self.all(), self.0.len() as u64);
        users > 1 && self.0.values().any(|&of_user| so_few(of_user, all, users))
    }
}

/// How long the queues are left alone, where so many statements have been counted there.
fn until_next_look(counted: u64) -> Duration {
    let looks = u32::try_from(counted / COUNTED_FOR_A_LOOK).expect("few are counted");
    looks.max(1) * LOOK_AGAIN
}

/// Says whether a user's statements are few, and hardly ever as few where users want the same: by Chernoff's bound for the lower tail of a
/// Poisson distribution. The first in the queue has waited for `waited`. After as long the queue is another one, in which chance may have it
/// otherwise.
fn stands_out(of_user: u64, all: u64, users: u64, waited: Duration) -> bool {
    let (few, usual) = (of_user as f64, all as f64 / users as f64);
    let beyond_chance = if all > LOOKED_AT as u64 {
        BEYOND_CHANCE
    } else {
        // Each user may be met so in each such queue, and shares last.
        let queues = (LASTS.as_secs_f64() / waited.as_secs_f64()).max(1.0);
        (users as f64 * queues / FOR_NOTHING).ln()
    };
    is_light(of_user, all, users) && usual - few + few * (few / usual).ln() >= beyond_chance
}

impl Shares {
    /// Says whether a client's statement counts here.
    pub(crate) fn counts(&self, client: ClientKey) -> bool {
        self.flow_of_ticket(client).is_some()
    }

    /// Says whether a client's statement is a light user's.
    fn is_light(&self, client: ClientKey) -> bool {
        let name = self.flow_of_ticket(client).and_then(|flow| FairShare::Crowding.name_of(flow));
        name.is_some_and(|name| self.is_light_user(&name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seam::Instant;

    use super::*;
    use crate::accounts::secret::Secret;
    use crate::accounts::{Account, Credential};
    use crate::client::commands::command::tests::engine;
    use crate::ids::client_key;
    use crate::scheduling::scheduler::Need;
    use crate::scheduling::scheduler::lane::Lane;

    #[test]
    fn a_user_is_light_beside_a_crowd_and_not_beside_its_equals() {
        assert!(is_light(10, 210, 2) && is_light(1, 256, 2));
        assert!(!is_light(1, 1, 1), "who is alone is not light");
        assert!(!is_light(1, 100, 100) && !is_light(60, 256, 4) && !is_light(64, 256, 2));
        // Two crowds do not make each other's share the usual one.
        assert!(is_light(6, 130, 3));
    }

    /// The probability of no more than so many where that many are usual: of a Poisson distribution.
    fn tail(usual: f64, few: u64) -> f64 {
        let mut term = (-usual).exp();
        let mut tail = term;
        for count in 1..=few {
            term *= usual / count as f64;
            tail += term;
        }
        tail
    }

    #[test]
    fn chance_makes_nobody_light() {
        let so = |of_user, all, users| stands_out(of_user, all, users, STANDS);
        assert!(so(10, 210, 2) && so(1, 256, 2) && so(6, 130, 3));
        assert!(!so(1, 256, 40), "one of six that there should be");
        assert!(so(2, 1_200, 40) && !so(2, 1_200, 100));
        // The tail itself, for means at which so few are light: not met in a hundred million looks.
        for (usual, few) in [(24_u64, 1_u64), (40, 4), (60, 12)] {
            assert!(so(few, 100 * usual, 100));
            let tail = tail(usual as f64, few);
            assert!(tail < 1e-8, "{tail} at {few} of {usual}");
        }
    }

    #[test]
    fn short_queues_have_shares_for_nothing_in_a_hundredth_of_the_time() {
        for (users, all, millis) in (2..13_u64)
            .flat_map(|users| (users..=256).flat_map(move |all| [20, 200, 5_000].map(|ms| (users, all, ms))))
        {
            let waited = Duration::from_millis(millis);
            let met = (1..=all).take_while(|&few| stands_out(few, all, users, waited)).last();
            let queues = (1_000.0 / millis as f64).max(1.0);
            let time = met.map_or(0.0, |few| users as f64 * queues * tail(all as f64 / users as f64, few));
            assert!(time <= FOR_NOTHING, "{time} with {all} of {users}, {millis} ms");
        }
    }

    #[test]
    fn who_is_alone_beside_dozens_stands_out() {
        let [soon, later] = [20, 1_000].map(Duration::from_millis);
        assert!(stands_out(1, 31, 2, soon) && stands_out(1, 21, 2, later));
        assert!(!stands_out(1, 21, 2, soon) && !stands_out(1, 9, 2, later), "which may be chance");
    }

    #[test]
    fn the_more_are_counted_the_seldomer() {
        let looks = [0, 512, 1_535, 4 * COUNTED as u64].map(until_next_look);
        assert_eq!(looks, [1, 1, 2, 128].map(|looks| looks * LOOK_AGAIN));
    }

    #[test]
    fn queues_are_left_alone_for_what_has_been_counted_in_any_of_them() {
        let mut engine = engine(1_202, Settings::default());
        let other = Arc::new(Account::of_test("other", "%", Credential::Empty));
        let other = engine.logins.identities.hold(&other, b"other", Secret::None);
        let former = engine.clients[client_key(0)].logs_out().expect("all have logged in");
        engine.release_identity(former);
        engine.clients[client_key(0)].logs_in(other);
        for number in 0..1_202 {
            let lane = if number == 1_201 { Lane::Long } else { Lane::Low };
            let standing = Standing::default();
            engine.scheduling.scheduler.enqueue(
                Instant::START,
                client_key(number),
                lane,
                Need::Any,
                standing,
            );
        }
        engine.now = Instant::START + STANDS;
        let (scheduling, parties, clients, servers) = engine.queues();
        scheduling.look_for_crowding(&parties, clients, servers);
        assert_eq!(engine.pool.workers.crowded_until(), engine.now + LASTS);
        assert_eq!(engine.scheduling.shares.crowding.look_at, engine.now + 2 * LOOK_AGAIN);
    }
}
