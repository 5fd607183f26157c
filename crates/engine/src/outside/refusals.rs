//! Refusals by party, and by what refused it: a bound, or the judgement of a login.

use std::collections::BTreeMap;
use std::net::IpAddr;

use seam::Peer;

use crate::outside::event::Event;
use crate::outside::named::{Limit, RefusedFor};

/// The number of refused parties that a worker tells apart, in some 30 KiB: an operator reads the first few. The party that was refused longest
/// ago makes room. So strangers with ever new names do not hide who is refused now.
const MOST: usize = 200;

/// Characters of a user's name that are kept: as many as a name has on MariaDB. The name that a stranger gives may be longer.
const LONGEST_NAME: usize = 80;

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A bound was reached.
    Limit(Limit),
    /// The login was not let in.
    Login(RefusedFor),
}

/// A party that was refused, or all parties of a reason that are not told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub reason: Reason,
    /// The user, where one was named.
    pub user: Option<String>,
    /// The host; `None` for a Unix socket, and for those who are not told apart.
    pub host: Option<IpAddr>,
    /// True for a single party that is told apart.
    pub is_one: bool,
    /// The number of times.
    pub times: u64,
}

type Who = (Reason, Option<Box<str>>, Option<IpAddr>);

#[derive(Clone, Copy, Default)]
struct Count {
    times: u64,
    /// Counts up with each refusal.
    latest: u64,
}

/// All of a worker.
#[derive(Default)]
pub(crate) struct Refusals {
    named: BTreeMap<Who, Count>,
    rest: BTreeMap<Reason, u64>,
    all: u64,
}

impl Refusals {
    /// Counts a refusal.
    pub(crate) fn note(&mut self, reason: Reason, user: Option<&str>, peer: &Peer) {
        let host = match peer {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Unix { .. } => None,
        };
        let name = |user: &str| user.chars().take(LONGEST_NAME).collect();
        let who = (reason, user.filter(|user| !user.is_empty()).map(name), host);
        self.all += 1;
        if self.named.len() == MOST && !self.named.contains_key(&who) {
            self.make_room();
        }
        let count = self.named.entry(who).or_default();
        count.times += 1;
        count.latest = self.all;
    }

    fn make_room(&mut self) {
        let oldest = self.named.iter().min_by_key(|(_, count)| count.latest).map(|(who, _)| who.clone());
        if let Some((who, count)) = oldest.and_then(|who| self.named.remove_entry(&who)) {
            *self.rest.entry(who.0).or_default() += count.times;
        }
    }

    /// All of them, by reason.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Refused> {
        let named = self.named.iter().map(|((reason, user, host), count)| Refused {
            reason: *reason,
            user: user.as_deref().map(String::from),
            host: *host,
            is_one: true,
            times: count.times,
        });
        let rest = self.rest.iter().map(|(&reason, &times)| Refused {
            reason,
            user: None,
            host: None,
            is_one: false,
            times,
        });
        named.chain(rest)
    }

    /// Counts what is an event anyway.
    pub(crate) fn count(&mut self, event: &Event) {
        if let Event::LoginRefused { peer, user, refused_for, .. } = event {
            self.note(Reason::Login(*refused_for), Some(user), peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::Tcp((std::net::Ipv4Addr::new(10, 0, 0, last), 40_000).into())
    }

    #[test]
    fn who_is_refused_now_is_told_apart_whoever_came_before() {
        let mut refusals = Refusals::default();
        let (limit, login) = (Reason::Limit(Limit::QueueLimit), Reason::Login(RefusedFor::ALL[0]));
        refusals.note(limit, Some("app"), &peer(1));
        for number in 0..3 * MOST {
            refusals.note(login, Some(&format!("{number}é").repeat(200)), &peer(9));
            refusals.note(limit, Some("app"), &peer(1));
        }
        let all: Vec<_> = refusals.iter().collect();
        assert_eq!(all.len(), MOST + 1);
        let app = all.iter().find(|refused| refused.user.as_deref() == Some("app")).unwrap();
        assert_eq!((app.reason, app.times), (limit, 3 * MOST as u64 + 1));
        let rest = all.iter().find(|refused| !refused.is_one).unwrap();
        assert_eq!((rest.reason, rest.times), (login, 2 * MOST as u64 + 1));
        assert!(
            all.iter().flat_map(|refused| &refused.user).all(|user| user.chars().count() <= LONGEST_NAME)
        );
    }
}
