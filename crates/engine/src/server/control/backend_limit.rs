//! How many backends there may be where no number is given (`max_backends = 0`): as many connections as the server allows, less those of
//! others, and some that stay free.
//!
//! Connections of other Onramps are among those of others: nothing is taken off for them a second time. The number
//! of Onramps says how much each gives way. Of the connections that nobody has, each Onramp takes its part at each
//! look. So all of them may begin to need many at the same moment, and take no more together than there are. An
//! Onramp that needs few leaves the rest to the others. While statements of others wait, none keeps more than its
//! even part of the server's connections.

use seam::Instant;

use crate::backend::from_server::own_answers::rows_of;
use crate::frozen::Distance;
use crate::pool::Pool;
use crate::server::control::facts::Facts;
use crate::settings::{Settings, ThreadHandling};

/// A sixteenth of the server's connections stays free, eight at least: for people, backups and replicas. Several of these may come
/// between two looks.
const FREE: u32 = 16;
const LEAST_FREE: u32 = 8;

/// Up to this part of the server's connections half of those that stay free may be taken, too. Of several Onramps in front of one server
/// one that comes later, or has long needed few, gets that much in this way, however much the others need: they see its backends, and give
/// up as many, so that there is something free again at its next look. Where it is known how many there are, it is half of the even part.
const SURE: u32 = 4;

/// The servers' limit, and how many connections there are.
const MARIADB_QUERY: &str = "SELECT @@global.max_connections, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME = 'THREADS_CONNECTED'";

/// Likewise.
const MYSQL_QUERY: &str = "SELECT @@global.max_connections, VARIABLE_VALUE FROM performance_schema.global_status \
    WHERE VARIABLE_NAME = 'Threads_connected'";

/// The time of the latest question about the limit.
#[derive(Debug, Default)]
pub(crate) struct BackendLimit {
    asked: Option<Instant>,
}

/// [`BackendLimit`] as plain data ([`crate::frozen`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrozenBackendLimit {
    asked: Option<Distance>,
}

plain!(struct FrozenBackendLimit { asked });

impl BackendLimit {
    pub(super) fn freeze(self, now: Instant) -> FrozenBackendLimit {
        let Self { asked } = self;
        FrozenBackendLimit { asked: asked.map(|at| Distance::of(at, now)) }
    }

    pub(super) fn thawed(frozen: FrozenBackendLimit, now: Instant) -> Self {
        let FrozenBackendLimit { asked } = frozen;
        Self { asked: asked.map(|at| at.from(now)) }
    }
}

impl BackendLimit {
    /// The service account has logged in anew, maybe to another server, or other Onramps are there.
    pub(crate) fn asked_anew(&mut self) {
        self.asked = None;
    }

    pub(crate) fn is_asked_for(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// The time at which the server is to be asked next. One worker asks for all.
    pub(super) fn next_look(&self, settings: &Settings, pool: &Pool) -> Option<Instant> {
        let has_pool = settings.thread_handling == ThreadHandling::PoolOfThreads;
        let finds = pool.worker == 0 && settings.max_backends == 0 && has_pool;
        finds.then(|| self.asked.map_or(Instant::START, |asked| asked + settings.accounts_refresh))
    }
}

/// The connections of a server by their owners.
#[derive(Clone, Copy, Debug)]
struct Connections {
    /// Connections that the server allows.
    most: u32,
    /// Backends of ours.
    ours: u32,
    /// Connections that others have.
    others: u32,
    /// The number of Onramps, from 1.
    onramps: u32,
    /// True where statements of another Onramp wait.
    are_wanted: bool,
}

/// How many backends there may be.
fn backend_limit(Connections { most, ours, others, onramps, are_wanted }: Connections) -> u32 {
    // A server for a handful of connections keeps half of them.
    let free = (most / FREE).max(LEAST_FREE).min(most / 2);
    let beside = |free: u32| most.saturating_sub(others).saturating_sub(free);
    let wanted = ours.saturating_add(others).saturating_add(free);
    // Each of them takes its part of what is left, and gives up its part of what is too much.
    let part = match most.checked_sub(wanted) {
        Some(left) => ours + left / onramps,
        None => ours.saturating_sub((wanted - most).div_ceil(onramps)),
    };
    let usual = if are_wanted { part.min((most - free) / onramps) } else { part };
    // All of those that are short of it may come at the same moment.
    let of_free = free.div_ceil(onramps.max(2));
    let sure = beside(free - of_free).min(match onramps {
        1 => most / SURE,
        _ => (most / (2 * onramps)).min(part + of_free),
    });
    usual.max(sure).max(1)
}

/// The query that asks the server.
pub(super) fn query(facts: &Facts) -> &'static str {
    if facts.is_mariadb() { MARIADB_QUERY } else { MYSQL_QUERY }
}

/// The server's answer; `None` where it has refused to give one.
pub(super) fn take(settings: &Settings, pool: &Pool, facts: &Facts, answer: Option<&[u8]>) {
    let rows = rows_of(answer.unwrap_or_default());
    let number = |field: usize| {
        let text = rows.first()?.get(field)?.as_deref()?;
        std::str::from_utf8(text).ok()?.parse::<u32>().ok()
    };
    let max_connections = number(0).unwrap_or(facts.max_connections);
    // Each worker has a connection of the service account. Those that have just begun or ended make no difference that lasts.
    let ours = pool.workers.places.taken();
    let all_ours = ours.saturating_add(pool.workers.count());
    let others = number(1).map_or(0, |connected| connected.saturating_sub(all_ours));
    let onramps = &pool.workers.onramps;
    let limit = backend_limit(Connections {
        most: max_connections,
        ours,
        others,
        onramps: onramps.present(),
        are_wanted: onramps.at_work() > 1,
    });
    let limit = limit.min(settings.most_backends);
    // Each worker needs one.
    let limit = limit.max(pool.workers.count());
    if limit != pool.workers.places.most() {
        pool.workers.change_places(settings, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of one Onramp that knows of no other.
    fn alone(most: u32, others: u32) -> u32 {
        backend_limit(Connections { most, ours: 0, others, onramps: 1, are_wanted: false })
    }

    #[test]
    fn some_connections_stay_free() {
        assert_eq!(alone(151, 0), 142, "the servers' default is 151, a sixteenth of which is 9");
        assert_eq!(alone(151, 100), 42);
        assert_eq!(alone(151, 151), 1);
        assert_eq!(alone(151, 140), 7, "some of those that are free, where there is little");
        assert_eq!(alone(151, 112), 35, "up to a quarter");
        assert_eq!(alone(151, 105), 37, "of which there may be more without them");
        assert_eq!(alone(1000, 10), 1000 - 10 - 62);
        assert_eq!(alone(10, 0), 5);
        assert_eq!(alone(1, 0), 1);
    }

    #[test]
    fn who_comes_later_gets_a_quarter() {
        for most in [40, 151, 1_000, 10_000] {
            // Both need all that they can get; each sees what the other has had a moment ago, and takes it for anybody's.
            let (mut first, mut second) = (alone(most, 0), 0);
            for _ in 0..60 {
                second = alone(most, first);
                first = alone(most, second);
                assert!(first + second <= most, "{first} and {second} of {most}");
            }
            assert!(second >= most / 4 - 1, "{second} of {most}");
        }
    }

    /// Onramps that know of each other, on a server that has so many other connections. Each needs so many backends, and uses what it may have.
    struct Together {
        most: u32,
        strangers: u32,
        needs: Vec<u32>,
        have: Vec<u32>,
    }

    impl Together {
        fn new(most: u32, strangers: u32, needs: &[u32]) -> Self {
            Self { most, strangers, needs: needs.to_vec(), have: vec![0; needs.len()] }
        }

        fn all(&self) -> u32 {
            self.strangers + self.have.iter().sum::<u32>()
        }

        /// Has each Onramp look `times` times, all at the same moment. An Onramp gives up at once the connections that it has beyond
        /// its limit. An Onramp that needs more than anybody has is at work.
        fn look(&mut self, times: u32) {
            let onramps = u32::try_from(self.needs.len()).unwrap();
            let at_work = |needs: &u32| *needs > self.most;
            for _ in 0..times {
                let all = self.all();
                for (number, have) in self.have.iter_mut().enumerate() {
                    let (most, ours) = (self.most, *have);
                    let mut others = self.needs.iter().enumerate().filter(|&(other, _)| other != number);
                    let are_wanted = others.any(|(_, needs)| at_work(needs));
                    let connections = Connections { most, ours, others: all - ours, onramps, are_wanted };
                    *have = backend_limit(connections).min(self.needs[number]);
                }
            }
        }
    }

    #[test]
    fn all_that_begin_at_once_do_not_take_more_than_there_is() {
        for most in [151, 1_000, 10_000] {
            for onramps in [2, 3, 5, 16] {
                for strangers in [0, most / 5, most / 2] {
                    let mut together = Together::new(most, strangers, &vec![u32::MAX; onramps]);
                    for _ in 0..100 {
                        together.look(1);
                        let rounding = onramps as u32;
                        assert!(
                            together.all() <= most + rounding,
                            "{:?} of {most}, {strangers}",
                            together.have
                        );
                    }
                    let even = (most - strangers - most / FREE) / onramps as u32;
                    let least = together.have.iter().min().unwrap();
                    assert!(*least >= even / 2, "{:?} of {most}, {strangers}", together.have);
                    let before = together.have.clone();
                    together.look(1);
                    assert!(together.have == before || strangers == most / 2, "it comes to rest");
                }
            }
        }
    }

    #[test]
    fn who_is_idle_leaves_the_rest_to_others() {
        let mut together = Together::new(1_000, 0, &[u32::MAX, 10, 10]);
        together.look(1);
        assert_eq!(together.have[0], 312, "a third of what nobody has yet");
        together.look(30);
        assert_eq!(together.have[0], 1_000 - 62 - 20 - 2, "all that is left, but for what cannot be divided");
        together.needs[2] = u32::MAX;
        together.look(20);
        assert_eq!(together.have, [312, 10, 312], "of two at work none keeps more than its part");
    }

    #[test]
    fn who_comes_later_gets_something_though_nobody_knows_that_it_waits() {
        for onramps in [2, 3, 5] {
            let mut together = Together::new(1_000, 0, &vec![1_000; onramps]);
            (together.needs[0], together.have[0]) = (1_000, 938);
            together.look(60);
            let least = together.have.iter().min().unwrap();
            assert!(*least >= 300 / onramps as u32, "{:?}", together.have);
        }
    }
}
