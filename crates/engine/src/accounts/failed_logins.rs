//! Wrong passwords are answered later and later, so that guessing takes its time.
//!
//! Wrong answers are counted for each user from each address, and for each address. A right answer forgets those of its user from
//! its address, and no others: the owner of one account cannot use it to guess on. Addresses of IPv6 count by their first 64
//! bits, of which a site's each host has 2^64.

pub(crate) mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seam::{Instant, Peer};

use self::settings::FailedLoginSettings;

/// The peers that have given wrong answers, on all workers.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    table: Mutex<Table>,
}

/// The counted peers, and the order in which they were last heard of, so that no operation goes through either of them.
#[derive(Debug, Default)]
struct Table {
    failures: BTreeMap<Whom, Failures>,
    by_time: BTreeSet<(Instant, Whom)>,
}

/// An address (none for the Unix sockets of this machine), and a user from there or all of them.
type Whom = (Option<IpAddr>, Option<Vec<u8>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

/// Names are cut to what a name may be long (USERNAME_CHAR_LENGTH, in bytes of utf8mb4), so that the table's bound is one.
const LONGEST_NAME: usize = 128 * 4;

/// A peer that has been quiet for so long begins anew: the usual time for which addresses are locked out elsewhere.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

impl FailedLogins {
    /// Counts a wrong answer. Returns after how long it is to be told.
    pub(crate) fn failed(
        &self,
        now: Instant,
        peer: &Peer,
        user: &[u8],
        settings: &FailedLoginSettings,
    ) -> Duration {
        if settings.delay.is_zero() {
            return Duration::ZERO;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_user, of_address] = whom(peer, user);
        let count = table.count(now, of_user, settings.size).max(table.count(now, of_address, settings.size));
        delay(count, settings)
    }

    /// After how long one more wrong answer of this user from there would be told. What others from there got wrong does not
    /// count, since nobody knows yet whether this answer is wrong.
    pub(crate) fn expected(
        &self,
        now: Instant,
        peer: &Peer,
        user: &[u8],
        settings: &FailedLoginSettings,
    ) -> Duration {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_user, _] = whom(peer, user);
        match table.failures.get(&of_user) {
            Some(failures) if now.since(failures.last) < FORGOTTEN_AFTER => {
                delay(failures.count.saturating_add(1), settings)
            }
            _ => Duration::ZERO,
        }
    }

    /// A right answer.
    pub(crate) fn succeeded(&self, peer: &Peer, user: &[u8]) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.failures.is_empty() {
            return;
        }
        let [of_user, of_address] = whom(peer, user);
        let forgiven = table.remove(&of_user);
        if let Some(failures) = table.failures.get_mut(&of_address) {
            failures.count = failures.count.saturating_sub(forgiven);
        }
    }
}

impl Table {
    /// Counts one more wrong answer. Returns how many there have been in a row.
    fn count(&mut self, now: Instant, whom: Whom, size: u32) -> u32 {
        let before = match self.failures.get(&whom) {
            Some(failures) if now.since(failures.last) < FORGOTTEN_AFTER => failures.count,
            _ => 0,
        };
        self.remove(&whom);
        while self.failures.len() >= size.max(1) as usize {
            let Some((_, quietest)) = self.by_time.pop_first() else { break };
            self.failures.remove(&quietest);
        }
        let count = before.saturating_add(1);
        self.by_time.insert((now, whom.clone()));
        self.failures.insert(whom, Failures { count, last: now });
        count
    }

    /// Stops counting a peer. Returns how many wrong answers it had.
    fn remove(&mut self, whom: &Whom) -> u32 {
        let Some(Failures { count, last }) = self.failures.remove(whom) else { return 0 };
        self.by_time.remove(&(last, whom.clone()));
        count
    }
}

fn whom(peer: &Peer, user: &[u8]) -> [Whom; 2] {
    let network = network(peer);
    [(network, Some(cut_name(user).to_vec())), (network, None)]
}

/// Cuts a user name to the length that a name may have.
pub(crate) fn cut_name(user: &[u8]) -> &[u8] {
    &user[..user.len().min(LONGEST_NAME)]
}

/// Returns the network by which clients are told apart: an address, or the first of a /64 of IPv6, since each site has at least
/// one of these (RFC 6177). None for a client on this machine.
pub(crate) fn network(peer: &Peer) -> Option<IpAddr> {
    let Peer::Tcp(address) = peer else { return None };
    Some(match address.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    })
}

fn delay(count: u32, settings: &FailedLoginSettings) -> Duration {
    match count.checked_sub(settings.threshold) {
        None | Some(0) => Duration::ZERO,
        Some(beyond) => {
            let doubled = 2u32.checked_pow(beyond - 1).and_then(|factor| settings.delay.checked_mul(factor));
            doubled.unwrap_or(settings.delay_max).min(settings.delay_max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tcp(last: u8) -> Peer {
        Peer::Tcp(([10, 0, 0, last], 1024).into())
    }

    fn at(seconds: u32) -> Instant {
        Instant::START + SECOND * seconds
    }

    #[test]
    fn each_wrong_answer_takes_twice_as_long() {
        let (logins, settings) = (FailedLogins::default(), FailedLoginSettings::default());
        let delays: Vec<_> =
            (0..12).map(|_| logins.failed(at(0), &tcp(1), b"app", &settings).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(logins.failed(at(0), &tcp(2), b"app", &settings), Duration::ZERO, "another address");
    }

    #[test]
    fn a_right_answer_forgets_its_own_failures_only() {
        let (logins, settings) = (FailedLogins::default(), FailedLoginSettings::default());
        for _ in 0..3 {
            assert!(logins.failed(at(0), &tcp(1), b"app", &settings).is_zero());
        }
        logins.succeeded(&tcp(1), b"app");
        for _ in 0..3 {
            assert!(logins.failed(at(0), &tcp(1), b"victim", &settings).is_zero());
        }
        logins.succeeded(&tcp(1), b"app");
        assert!(!logins.failed(at(0), &tcp(1), b"victim", &settings).is_zero());
        assert!(!logins.failed(at(0), &tcp(1), b"another", &settings).is_zero(), "the address counts too");
    }

    #[test]
    fn time_forgets() {
        let (logins, settings) = (FailedLogins::default(), FailedLoginSettings::default());
        for _ in 0..8 {
            logins.failed(at(0), &tcp(1), b"app", &settings);
        }
        assert!(!logins.failed(at(599), &tcp(1), b"app", &settings).is_zero());
        assert!(logins.failed(at(1199), &tcp(1), b"app", &settings).is_zero());
    }

    #[test]
    fn the_table_has_a_bound() {
        let logins = FailedLogins::default();
        let settings = FailedLoginSettings { size: 10, ..FailedLoginSettings::default() };
        for last in 0..100 {
            logins.failed(at(u32::from(last)), &tcp(last), b"app", &settings);
        }
        assert_eq!(logins.table.lock().unwrap().failures.len(), 10);
        for _ in 0..4 {
            logins.failed(at(100), &tcp(99), b"app", &settings);
        }
        assert!(!logins.failed(at(100), &tcp(99), b"app", &settings).is_zero(), "the latest are kept");
    }

    #[test]
    fn the_quietest_are_forgotten_first() {
        let logins = FailedLogins::default();
        let settings = FailedLoginSettings { size: 4, ..FailedLoginSettings::default() };
        let fail = |seconds, last| logins.failed(at(seconds), &tcp(last), b"app", &settings);
        for seconds in 0..4 {
            fail(seconds, 1);
        }
        fail(4, 2);
        fail(5, 1);
        fail(6, 3);
        assert!(!fail(7, 1).is_zero(), "heard of after the second one");
        let table = logins.table.lock().unwrap();
        assert_eq!(table.by_time.len(), table.failures.len());
        assert!(!table.failures.contains_key(&(network(&tcp(2)), None)));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let (logins, settings) = (FailedLogins::default(), FailedLoginSettings::default());
        let fail = |address: &str| {
            let peer = Peer::Tcp((address.parse::<IpAddr>().unwrap(), 1024).into());
            logins.failed(at(0), &peer, b"app", &settings)
        };
        for last in 1..4 {
            assert!(fail(&format!("2001:db8:0:1::{last}")).is_zero());
        }
        assert!(!fail("2001:db8:0:1:ffff::1").is_zero());
        assert!(fail("2001:db8:0:2::1").is_zero());
        for _ in 0..3 {
            assert!(fail("::ffff:10.0.0.1").is_zero());
        }
        assert!(fail("::ffff:10.0.0.2").is_zero(), "these are addresses of IPv4");
    }

    #[test]
    fn it_can_be_turned_off() {
        let settings = FailedLoginSettings { delay: Duration::ZERO, ..FailedLoginSettings::default() };
        let logins = FailedLogins::default();
        assert!((0..100).all(|_| logins.failed(at(0), &tcp(1), b"app", &settings).is_zero()));
        assert!(logins.table.lock().unwrap().failures.is_empty());
    }
}
