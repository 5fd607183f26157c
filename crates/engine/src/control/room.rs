//! How many backends there may be where no number is given (`max_backends = 0`): as many connections as the server allows, less those of
//! others, and some that stay free.

use std::time::Duration;

use seam::Instant;

use crate::backend::kept::rows_of;
use crate::pool::Pool;
use crate::server::Server;
use crate::settings::{Settings, ThreadHandling};

/// A sixteenth of the server's connections stays free, eight at least: for people, backups and replicas, of whom several may come between
/// two looks.
const FREE: u32 = 16;
const LEAST_FREE: u32 = 8;

/// Up to this part of the server's connections half of those that stay free may be taken, too. Of several Onramps in front of one server
/// one that comes later, or has long needed few, gets that much in this way, however much the others need: they see its backends, and give
/// up as many, so that there is something free again at its next look.
const SURE: u32 = 4;

/// The servers' limit, and how many connections there are.
const MARIADB_QUERY: &str = "SELECT @@global.max_connections, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME = 'THREADS_CONNECTED'";

/// Likewise.
const MYSQL_QUERY: &str = "SELECT @@global.max_connections, VARIABLE_VALUE FROM performance_schema.global_status \
    WHERE VARIABLE_NAME = 'Threads_connected'";

/// When the server is asked.
#[derive(Debug, Default)]
pub(crate) struct Room {
    asked: Option<Instant>,
}

impl Room {
    /// The service account has logged in anew, maybe to another server.
    pub(crate) fn asked_anew(&mut self) {
        self.asked = None;
    }

    pub(crate) fn is_asked_for(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    fn next(&self, every: Duration) -> Instant {
        self.asked.map_or(Instant::START, |asked| asked + every)
    }
}

/// How many backends there may be on a server that allows so many connections, of which others have so many.
fn room(max_connections: u32, others: u32) -> u32 {
    // A server for a handful of connections keeps half of them.
    let free = (max_connections / FREE).max(LEAST_FREE).min(max_connections / 2);
    let beside = |free: u32| max_connections.saturating_sub(others).saturating_sub(free);
    beside(free).max(beside(free / 2).min(max_connections / SURE)).max(1)
}

impl Server {
    pub(crate) fn room_query(&self) -> &'static str {
        let facts = self.facts.as_ref().expect("asked for once the server is known");
        if facts.is_mariadb() { MARIADB_QUERY } else { MYSQL_QUERY }
    }

    /// When the server is to be asked next; one worker asks for all.
    pub(crate) fn next_look_at_room(&self, settings: &Settings, pool: &Pool) -> Option<Instant> {
        let has_pool = settings.thread_handling == ThreadHandling::PoolOfThreads;
        let finds = pool.worker == 0 && settings.max_backends == 0 && has_pool;
        finds.then(|| self.control.room.next(settings.accounts_refresh))
    }

    /// The server's answer; `None` where it has refused to give one.
    pub(crate) fn take_room(&self, settings: &Settings, pool: &Pool, answer: Option<&[u8]>) {
        let rows = rows_of(answer.unwrap_or_default());
        let number = |field: usize| {
            let text = rows.first()?.get(field)?.as_deref()?;
            std::str::from_utf8(text).ok()?.parse::<u32>().ok()
        };
        let facts = self.facts.as_ref().expect("known before it is asked");
        let max_connections = number(0).unwrap_or(facts.max_connections);
        // Each worker has a connection of the service account. Those that have just begun or ended make no difference that lasts.
        let ours = pool.workers.places.taken().saturating_add(pool.workers.count());
        let others = number(1).map_or(0, |connected| connected.saturating_sub(ours));
        let room = room(max_connections, others).min(settings.most_backends);
        // Each worker needs one.
        let room = room.max(pool.workers.count());
        if room != pool.workers.places.most() {
            pool.workers.change_places(settings, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_stay_free() {
        assert_eq!(room(151, 0), 142, "the servers' default is 151, a sixteenth of which is 9");
        assert_eq!(room(151, 100), 42);
        assert_eq!(room(151, 151), 1);
        assert_eq!(room(151, 140), 7, "some of those that are free, where there is little");
        assert_eq!(room(151, 112), 35, "up to a quarter");
        assert_eq!(room(151, 105), 37, "of which there may be more without them");
        assert_eq!(room(1000, 10), 1000 - 10 - 62);
        assert_eq!(room(10, 0), 5);
        assert_eq!(room(1, 0), 1);
    }

    #[test]
    fn who_comes_later_gets_a_quarter() {
        for max_connections in [40, 151, 1_000, 10_000] {
            // Both need all that they can get; each sees what the other has had a moment ago.
            let (mut first, mut second) = (room(max_connections, 0), 0);
            for _ in 0..60 {
                second = room(max_connections, first);
                first = room(max_connections, second);
                assert!(first + second <= max_connections, "{first} and {second} of {max_connections}");
            }
            assert!(second >= max_connections / 4 - 1, "{second} of {max_connections}");
        }
    }
}
