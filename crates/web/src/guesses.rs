//! Guessing takes its time: from a network that has just given a wrong password, one password a second is looked at, whether it is
//! right or wrong, and whether or not who sent it is still there to hear. A delay of the answer alone would hold up nobody who
//! hangs up and takes the next connection: what is late is wrong.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// From one password that is looked at to the next of a network: 86,400 guesses a day.
const PACE: Duration = Duration::from_secs(1);

/// As long as a password may wait for its turn: half of what a connection lasts. Behind that it is not looked at.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Networks that are paced at the same time, each for some seconds. For one more the one that is over first is let go.
const MOST_NETWORKS: usize = 1024;

/// Wrong passwords are told of this often at most: enough to see who, and for how long.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The networks from which wrong passwords have come, and what is told of them.
#[derive(Default)]
pub(crate) struct Guesses {
    /// When the next password from there may be looked at. Addresses of IPv6 count by their first 64 bits, of which a site's each host
    /// has 2^64.
    paced: BTreeMap<IpAddr, Instant>,
    told_at: Option<Instant>,
    untold: u64,
}

/// When a password is looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once.
    Now,
    /// After so long.
    After(Duration),
    /// Not at all: too many wait already.
    Never,
}

impl Guesses {
    /// A password has come from this address. The turn is taken, whatever becomes of it.
    pub(crate) fn turn(&mut self, now: Instant, peer: IpAddr) -> Turn {
        let Some(next) = self.paced.get_mut(&network(peer)) else { return Turn::Now };
        let wait = next.saturating_duration_since(now);
        if wait > LONGEST_WAIT {
            return Turn::Never;
        }
        // With the wait over, only a wrong one makes the next wait.
        if wait.is_zero() {
            return Turn::Now;
        }
        *next += PACE;
        Turn::After(wait)
    }

    /// It was wrong. Returns how many there have been since the last that was told of, with it, where it is to be told.
    pub(crate) fn wrong(&mut self, now: Instant, peer: IpAddr) -> Option<u64> {
        let network = network(peer);
        if !self.paced.contains_key(&network) && self.paced.len() >= MOST_NETWORKS {
            self.paced.retain(|_, next| *next > now);
            if self.paced.len() >= MOST_NETWORKS {
                let first = self.paced.iter().min_by_key(|(_, next)| **next).map(|(network, _)| *network);
                first.map(|network| self.paced.remove(&network));
            }
        }
        let next = self.paced.entry(network).or_insert(now);
        *next = (*next).max(now + PACE);
        self.tell(now)
    }

    /// It was not looked at. Likewise.
    pub(crate) fn tell(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told_at.is_some_and(|at| now.saturating_duration_since(at) < TELL_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    /// It was right: its owner is there, whose page asks more often than the pace. What guesses gain by each right answer is one more.
    pub(crate) fn right(&mut self, peer: IpAddr) {
        self.paced.remove(&network(peer));
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_password_a_second_is_looked_at_once_one_was_wrong() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        let peer = ip("192.0.2.1");
        assert_eq!(guesses.turn(start, peer), Turn::Now);
        guesses.wrong(start, peer);
        let turns: Vec<_> = (0..1000).map(|_| guesses.turn(start, peer)).collect();
        for (turn, seconds) in turns.iter().zip(1..=5) {
            assert_eq!(*turn, Turn::After(Duration::from_secs(seconds)));
        }
        assert!(turns[5..].iter().all(|turn| *turn == Turn::Never));
        // Others come through, and so does this one, once those that waited have had their turns.
        assert_eq!(guesses.turn(start, ip("192.0.2.2")), Turn::Now);
        assert_eq!(guesses.turn(start + Duration::from_secs(6), peer), Turn::Now);
        // In three seconds with a wrong one at each turn, three.
        let later = start + Duration::from_secs(60);
        let looked_at = (0..3000).filter(|millis| {
            let now = later + Duration::from_millis(*millis);
            let is_now = guesses.turn(now, ip("198.51.100.1")) == Turn::Now;
            if is_now {
                guesses.wrong(now, ip("198.51.100.1"));
            }
            is_now
        });
        assert_eq!(looked_at.count(), 1, "those that wait take the turns");
    }

    #[test]
    fn a_right_one_ends_it_and_a_site_of_ipv6_is_one() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        guesses.wrong(start, ip("2001:db8::1"));
        assert_eq!(guesses.turn(start, ip("2001:db8::ffff:2")), Turn::After(PACE));
        assert_eq!(guesses.turn(start, ip("2001:db8:0:1::1")), Turn::Now);
        guesses.right(ip("2001:db8::2"));
        assert_eq!(guesses.turn(start, ip("2001:db8::1")), Turn::Now);
        guesses.wrong(start, ip("::ffff:192.0.2.1"));
        assert_eq!(guesses.turn(start, ip("192.0.2.1")), Turn::After(PACE));
    }

    #[test]
    fn networks_and_lines_are_bounded() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        let told: Vec<_> =
            (0..5000).filter_map(|n| guesses.wrong(start, Ipv6Addr::from_bits(n << 64).into())).collect();
        assert_eq!((told, guesses.paced.len()), (vec![1], MOST_NETWORKS));
        let later = start + TELL_EVERY;
        assert_eq!((guesses.tell(later), guesses.tell(later)), (Some(5000), None));
    }
}
