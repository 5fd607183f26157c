//! Wrong passwords are answered later and later, so that guessing takes its time.
//!
//! Counted are wrong answers of each user from each address, and of each address. A right one forgets those of its user from
//! its address, and no others: whoever has an account of his own cannot use it to guess on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seam::{Instant, Peer};

use crate::client::Phase;
use crate::client::login::Login;
use crate::engine::Engine;
use crate::errors::MySqlError;

/// How wrong passwords are held up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLoginSettings {
    /// So many wrong answers in a row are told at once.
    pub threshold: u32,
    /// The next one after this long, and each further one after twice as long; zero never delays.
    pub delay: Duration,
    /// But no longer than this.
    pub delay_max: Duration,
    /// How many addresses, and users of addresses, are counted; beyond it the one that has been quiet longest is forgotten.
    pub size: u32,
}

impl Default for FailedLoginSettings {
    fn default() -> Self {
        let delay = Duration::from_millis(100);
        Self { threshold: 3, delay, delay_max: Duration::from_secs(5), size: 10_000 }
    }
}

/// Who has given wrong answers, on all workers.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    table: Mutex<BTreeMap<Whom, Failures>>,
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

/// Whoever has been quiet for so long begins anew: the usual time for which addresses are locked out elsewhere.
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
        let count =
            count(&mut table, now, of_user, settings).max(count(&mut table, now, of_address, settings));
        delay(count, settings)
    }

    /// A right answer.
    pub(crate) fn succeeded(&self, peer: &Peer, user: &[u8]) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.is_empty() {
            return;
        }
        let [of_user, of_address] = whom(peer, user);
        let forgiven = table.remove(&of_user).map_or(0, |failures| failures.count);
        if let Some(failures) = table.get_mut(&of_address) {
            failures.count = failures.count.saturating_sub(forgiven);
        }
    }
}

fn whom(peer: &Peer, user: &[u8]) -> [Whom; 2] {
    let address = match peer {
        Peer::Tcp(address) => Some(address.ip().to_canonical()),
        Peer::Unix { .. } => None,
    };
    [(address, Some(user[..user.len().min(LONGEST_NAME)].to_vec())), (address, None)]
}

fn count(
    table: &mut BTreeMap<Whom, Failures>,
    now: Instant,
    whom: Whom,
    settings: &FailedLoginSettings,
) -> u32 {
    if !table.contains_key(&whom) && table.len() >= settings.size as usize {
        table.retain(|_, failures| now.since(failures.last) < FORGOTTEN_AFTER);
        let oldest = table.iter().min_by_key(|(_, failures)| failures.last).map(|(whom, _)| whom.clone());
        if let Some(oldest) = oldest.filter(|_| table.len() >= settings.size as usize) {
            table.remove(&oldest);
        }
    }
    let failures = table.entry(whom).or_insert(Failures { count: 0, last: now });
    if now.since(failures.last) >= FORGOTTEN_AFTER {
        failures.count = 0;
    }
    failures.count = failures.count.saturating_add(1);
    failures.last = now;
    failures.count
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

/// A refusal that is told later.
pub(crate) struct LateRefusal {
    pub(crate) client: (usize, u32),
    pub(crate) sequence: u8,
    pub(crate) error: MySqlError,
}

impl Engine {
    /// Tells a client later that its login is refused; it waits without any work.
    pub(crate) fn refuse_later(&mut self, delay: Duration, refusal: LateRefusal) {
        self.clients[refusal.client.0].phase = Phase::Login(Login::Refused);
        self.last_refusal += 1;
        self.late_refusals.insert((self.now + delay, self.last_refusal), refusal);
    }

    /// Tells those whose time has come.
    pub(crate) fn tell_refusals(&mut self) {
        while let Some(first) = self.late_refusals.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            let refusal = first.remove();
            let (key, id) = refusal.client;
            let waits = self.clients.get(key).is_some_and(|client| {
                client.id == id && matches!(client.phase, Phase::Login(Login::Refused))
            });
            if waits {
                self.tell_refusal(key, refusal.sequence, &refusal.error);
            }
        }
    }

    /// When the next one's time has come.
    pub(crate) fn next_refusal_to_tell(&self) -> Option<Instant> {
        self.late_refusals.keys().next().map(|&(at, _)| at)
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
        assert_eq!(logins.table.lock().unwrap().len(), 10);
        for _ in 0..4 {
            logins.failed(at(100), &tcp(99), b"app", &settings);
        }
        assert!(!logins.failed(at(100), &tcp(99), b"app", &settings).is_zero(), "the latest are kept");
    }

    #[test]
    fn it_can_be_turned_off() {
        let settings = FailedLoginSettings { delay: Duration::ZERO, ..FailedLoginSettings::default() };
        let logins = FailedLogins::default();
        assert!((0..100).all(|_| logins.failed(at(0), &tcp(1), b"app", &settings).is_zero()));
        assert!(logins.table.lock().unwrap().is_empty());
    }
}
