//! The connections that Onramp has to each server under each account, on all workers together.
//!
//! Servers take so many of an account at a time (`MAX_USER_CONNECTIONS`). Where Onramp has them all, no login is tried in vain.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::names::Names;
use crate::accounts::Account;

/// A server's place in the list of addresses, and the account's user and host.
type Key = (usize, Box<[u8]>, Box<str>);

/// The connections by server and account.
#[derive(Debug, Default)]
pub(super) struct AccountConnections {
    /// Looked into where a connection is begun, or lacks.
    by_account: Mutex<Names<Key, AtomicU32>>,
}

/// A connection that stands or is begun, for as long as this is there.
#[derive(Debug)]
pub(crate) struct AccountConnection(Arc<AtomicU32>);

impl AccountConnections {
    /// Counts one more connection to the server at this place in the list of addresses.
    pub(super) fn begin(&self, place: usize, account: &Account) -> AccountConnection {
        let count = self.table().get_or_insert(key(place, account), AtomicU32::default);
        count.fetch_add(1, SeqCst);
        AccountConnection(count)
    }

    /// Counts a connection where there is none.
    pub(super) fn begin_alone(&self, place: usize, account: &Account) -> Option<AccountConnection> {
        let count = self.table().get_or_insert(key(place, account), AtomicU32::default);
        count.compare_exchange(0, 1, SeqCst, SeqCst).is_ok().then(|| AccountConnection(count))
    }

    /// The number of the account's connections to that server.
    pub(super) fn count(&self, place: usize, account: &Account) -> u32 {
        self.table().get(&key(place, account)).map_or(0, |count| count.load(SeqCst))
    }

    fn table(&self) -> MutexGuard<'_, Names<Key, AtomicU32>> {
        self.by_account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(place: usize, account: &Account) -> Key {
    (place, account.user.as_slice().into(), account.host.as_str().into())
}

impl Drop for AccountConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Credential;

    #[test]
    fn connections_count_for_their_server_and_account_as_long_as_they_are_there() {
        let connections = AccountConnections::default();
        let [app, local] = ["%", "localhost"].map(|host| Account::of_test("app", host, Credential::Empty));
        let counts =
            || [(0, &app), (1, &app), (0, &local)].map(|(place, account)| connections.count(place, account));
        let first = connections.begin(0, &app);
        let second = connections.begin(0, &app);
        assert_eq!(counts(), [2, 0, 0]);
        let third = connections.begin(1, &app);
        drop(first);
        assert_eq!(counts(), [1, 1, 0]);
        drop((second, third));
        assert_eq!(counts(), [0, 0, 0]);
        let alone = connections.begin_alone(0, &app);
        assert!(alone.is_some() && connections.begin_alone(0, &app).is_none());
        drop(alone);
        assert!(connections.begin_alone(0, &app).is_some());
    }
}
