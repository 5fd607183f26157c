//! A copy of a server's accounts, as its answer tells them.

use std::fmt;

use sql::ServerKind;

use super::{Account, Accounts};
use crate::backend::from_server::own_answers::each_row_of;

/// Bytes of an answer up to which a worker reads it itself: of some thousand accounts, which takes a few milliseconds.
const SHORT: usize = 256 << 10;

/// The server's answer about its accounts, to be read on another thread than a worker's where it is long.
pub struct AccountRows {
    pub(crate) answer: Vec<u8>,
    pub(crate) server: ServerKind,
}

/// The accounts that have been read, with the answer that tells them.
pub struct ReadAccounts {
    pub(crate) answer: Vec<u8>,
    pub(crate) accounts: Accounts,
}

impl AccountRows {
    /// Says whether a worker reads it itself.
    pub(crate) fn is_short(&self) -> bool {
        self.answer.len() <= SHORT
    }

    /// Reads it, which takes some microseconds for each account.
    pub fn read(self) -> ReadAccounts {
        let Self { answer, server } = self;
        let accounts = each_row_of(&answer)
            .filter_map(|row| Account::of_row(&row.iter().map(Option::as_deref).collect::<Vec<_>>()))
            .collect();
        ReadAccounts { accounts: Accounts::new(accounts, server), answer }
    }
}

impl fmt::Debug for AccountRows {
    /// Writes the length alone: the answer tells the stored forms of passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountRows").field("bytes", &self.answer.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadAccounts {
    /// Writes the number of the accounts alone: they hold the stored forms of passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAccounts").field("accounts", &self.accounts.len()).finish_non_exhaustive()
    }
}
