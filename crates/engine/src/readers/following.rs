//! The servers that may be read from, and how far they are.

use std::rc::Rc;

use seam::Instant;

use super::Readers;
use super::replicas::Fitness;
use crate::io::Io;
use crate::pool::Pool;
use crate::server::control::position::Said;
use crate::servers::Servers;
use crate::settings::Settings;

/// The readers, and what is known of their servers and of the primary.
pub(super) struct FollowingReplicas<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) pool: &'a Pool,
    pub(super) servers: &'a mut Servers,
    pub(super) readers: &'a mut Readers,
    pub(super) io: &'a mut Io,
}

impl FollowingReplicas<'_> {
    /// Takes up which servers may be read from. True where that has changed.
    pub(super) fn fitness(&mut self) -> bool {
        let mut has_news = std::mem::take(&mut self.readers.has_moved);
        for place in 0..self.readers.all.len() {
            let Fitness { is_open, is_up, is_fit, is_node } = self.pool.workers.replicas.of(place);
            let reader = &mut self.readers.all[place];
            reader.engine.servers.primary_mut().control.position.of_galera = is_node;
            let primary = &self.servers.primary().control.defaults;
            reader.given.learn(primary, &reader.engine.servers.primary().control.defaults);
            has_news |= std::mem::replace(&mut reader.is_fit, is_fit) != is_fit;
            // Guests may be there whom nobody follows: the server was drained, or has become the primary, before it was lost.
            let is_lost = std::mem::replace(&mut reader.is_up, is_up) && !is_up;
            let changes = reader.engine.takes_guests() != is_open;
            has_news |= changes;
            if changes || is_lost {
                self.readers.enter(place, self.now, self.io, |reader| {
                    reader.welcome_guests(is_open);
                    if is_lost {
                        reader.give_up_server();
                    }
                });
            }
        }
        has_news
    }

    /// Takes in how far servers are, and asks again. True where a replica is known to have more than before.
    pub(super) fn positions(&mut self) -> bool {
        let (now, every) = (self.now, self.settings.cluster.check_interval);
        let latest_need = self.readers.waiting.latest_need();
        let primary = &mut self.servers.primary_mut().control.position;
        primary.of_galera = self.pool.workers.replicas.primary_is_node();
        if let Some(Said { asked, position, .. }) = primary.take() {
            let position = Rc::from(position);
            for reader in &mut self.readers.all {
                reader.freshness.primary_had(asked, now, &position);
            }
        }
        primary.keep(every);
        if latest_need.is_some_and(|needs| primary.latest().is_none_or(|asked| asked <= needs)) {
            primary.want(now);
        }
        let mut has_news = false;
        for reader in self.readers.all.iter_mut().filter(|reader| reader.engine.takes_guests()) {
            let control = &mut reader.engine.servers.primary_mut().control;
            if std::mem::replace(&mut reader.asked_on, control.connection()) != control.connection() {
                // A server that comes up again may have less than before.
                reader.freshness.forget_replica();
                control.position.take();
            }
            let watch = &mut control.position;
            if let Some(Said { asked, position, of_node }) = watch.take() {
                has_news |= reader.freshness.replica_has(&position, if of_node { asked } else { now });
            }
            watch.keep(every);
            if latest_need.is_some() && reader.stand.takes_reads() && reader.freshness.awaits() {
                watch.want(now);
            }
        }
        has_news
    }
}

#[cfg(test)]
mod tests {
    use seam::Address;

    use super::*;
    use crate::engine::Engine;
    use crate::readers::ReadSplit;

    #[test]
    fn what_is_found_of_a_replica_is_news_once() {
        let server = ["/one", "/two"].map(|path| Address::Unix(path.into())).into();
        let mut settings = Settings { server, ..Settings::default() };
        settings.cluster.several = true;
        settings.reads.split = ReadSplit::All;
        let mut engine = Engine::new(settings);
        let up = Fitness { is_open: true, is_up: true, is_fit: true, is_node: false };
        assert!(!engine.follow_replicas().fitness());
        engine.pool.workers.replicas.say(1, up);
        assert_eq!([0; 2].map(|_| engine.follow_replicas().fitness()), [true, false]);
        let takes_guests: Vec<_> = engine.readers.engines_mut().map(|reader| reader.takes_guests()).collect();
        assert_eq!(takes_guests, [false, true]);
        engine.pool.workers.replicas.say(1, Fitness::default());
        assert_eq!([0; 2].map(|_| engine.follow_replicas().fitness()), [true, false]);
    }
}
