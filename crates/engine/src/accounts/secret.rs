//! The secret that a login proved. It is kept for as long as somebody needs it, and wiped then.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use seam::Instant;
use wire::sha2_password::{self, Digest1};
use zeroize::Zeroizing;

/// The user name given, and the account's user and host.
pub(crate) type IdentityKey = (Vec<u8>, Vec<u8>, String);

/// A password in the clear, from a login that sent it. Wiped when the last holder goes. Passwords are bytes, not text, and each comparison
/// needs the digest, so that the type is no wrapper of a text.
pub struct Password {
    clear: Zeroizing<Vec<u8>>,
    digest1: Zeroizing<Digest1>,
}

impl Password {
    /// Makes a password of these bytes.
    pub fn new(clear: Zeroizing<Vec<u8>>) -> Self {
        let digest1 = Zeroizing::new(sha2_password::digest1(&clear));
        Self { clear, digest1 }
    }

    /// The bytes of the password.
    pub(crate) fn clear(&self) -> &[u8] {
        &self.clear
    }

    /// The password with a zero byte behind it, as it is sent where nobody can listen.
    pub(crate) fn terminated(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.clear[..], &[0]].concat())
    }

    pub(crate) fn digest1(&self) -> &Digest1 {
        &self.digest1
    }
}

impl fmt::Debug for Password {
    /// Writes nothing of the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// The secret with which backends log in. It is not always a [`Password`]: a login by `mysql_native_password` leaves a hash alone.
#[derive(Clone)]
pub(crate) enum Secret {
    /// No password, or a method that asks for none.
    None,
    /// SHA1(password), recovered from a login by `mysql_native_password`.
    Native(Zeroizing<[u8; 20]>),
    Password(Arc<Password>),
}

impl Secret {
    /// A password that may be empty.
    pub(crate) fn of(password: &[u8]) -> Self {
        if password.is_empty() {
            return Self::None;
        }
        Self::Password(Arc::new(Password::new(Zeroizing::new(password.to_vec()))))
    }

    /// The answer of `mysql_native_password`.
    pub(crate) fn native_token(&self, scramble: &[u8; 20]) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Native(stage1) => wire::native_password::token(stage1, scramble).to_vec(),
            Self::Password(password) => {
                let stage1 = Zeroizing::new(wire::native_password::stage1(password.clear()));
                wire::native_password::token(&stage1, scramble).to_vec()
            }
        }
    }

    pub(crate) fn password(&self) -> Option<&Arc<Password>> {
        match self {
            Self::Password(password) => Some(password),
            Self::None | Self::Native(_) => None,
        }
    }
}

impl PartialEq for Secret {
    /// Says whether both are the same password in the same form.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Native(one), Self::Native(other)) => one == other,
            (Self::Password(one), Self::Password(other)) => {
                Arc::ptr_eq(one, other) || one.digest1() == other.digest1()
            }
            _ => false,
        }
    }
}

impl Eq for Secret {}

/// The passwords that some client or backend, of whichever worker, holds now: those of their accounts who log in next need not
/// send theirs, as with a server that remembers them.
#[derive(Debug, Default)]
pub(crate) struct KnownPasswords {
    table: Mutex<Table>,
}

/// The server's stored form at the time when the password was right, the password, and that time.
type Known = (Vec<u8>, Weak<Password>, Instant);

#[derive(Debug, Default)]
struct Table {
    /// The passwords by their owners: see [`crate::accounts::Account::password_key`] and [`crate::client::login::attempt::PasswordQuestion`].
    entries: BTreeMap<IdentityKey, Known>,
    /// The number of entries from which on those are taken out that have lost their password.
    tidy_at: usize,
}

impl KnownPasswords {
    /// The password that belongs to what the server stores now.
    pub(crate) fn find(&self, whose: &IdentityKey, stored: &[u8]) -> Option<Arc<Password>> {
        self.find_with_time(whose, stored).map(|(password, _)| password)
    }

    /// Finds the password likewise, and when it was found right.
    pub(crate) fn find_with_time(
        &self,
        whose: &IdentityKey,
        stored: &[u8],
    ) -> Option<(Arc<Password>, Instant)> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (checked, password, at) = table.entries.get(whose)?;
        password.upgrade().filter(|_| checked == stored).zip(Some(*at))
    }

    /// Keeps a password that was checked, here or by the server, by the knowledge of this time.
    pub(crate) fn remember(&self, whose: &IdentityKey, stored: &[u8], password: &Arc<Password>, at: Instant) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.entries.len() >= table.tidy_at {
            table.entries.retain(|_, (_, password, _)| password.strong_count() > 0);
            // Doubling keeps the cost of tidying small for each login; 64 are next to nothing.
            table.tidy_at = (table.entries.len() * 2).max(64);
        }
        // Of two copies, the one that is known is what others hold.
        if let Some((checked, known, found)) = table.entries.get_mut(whose)
            && checked == stored
            && known.upgrade().is_some_and(|known| known.digest1() == password.digest1())
        {
            *found = at;
            return;
        }
        let known = (stored.to_vec(), Arc::downgrade(password), at);
        table.entries.insert(whose.clone(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Arc<Password> {
        Arc::new(Password::new(Zeroizing::new(text.into())))
    }

    fn whose(user: &str, host: &str) -> IdentityKey {
        (user.into(), user.into(), host.to_owned())
    }

    fn app() -> IdentityKey {
        whose("app", "%")
    }

    #[test]
    fn a_password_is_known_as_long_as_somebody_holds_it() {
        let known = KnownPasswords::default();
        let held = password("secret");
        known.remember(&app(), b"stored", &held, Instant::START);
        assert!(known.find(&app(), b"stored").is_some());
        assert!(known.find(&app(), b"another password").is_none());
        assert!(known.find(&whose("app", "localhost"), b"stored").is_none());
        drop(held);
        assert!(known.find(&app(), b"stored").is_none());
    }

    #[test]
    fn a_second_copy_takes_no_place() {
        let known = KnownPasswords::default();
        let held = password("secret");
        known.remember(&app(), b"stored", &held, Instant::START);
        let later = Instant::from_micros(7);
        known.remember(&app(), b"stored", &password("secret"), later);
        let (found, at) = known.find_with_time(&app(), b"stored").expect("the first is held");
        assert!(Arc::ptr_eq(&found, &held) && at == later);
        let other = password("other");
        known.remember(&app(), b"stored", &other, later);
        assert!(known.find(&app(), b"stored").is_some_and(|found| Arc::ptr_eq(&found, &other)));
    }

    #[test]
    fn passwords_that_have_gone_leave_the_table() {
        let known = KnownPasswords::default();
        let held = password("secret");
        known.remember(&app(), b"stored", &held, Instant::START);
        for number in 0..1000 {
            known.remember(
                &whose(&format!("user{number}"), "%"),
                b"stored",
                &password("other"),
                Instant::START,
            );
        }
        assert!(known.table.lock().unwrap().entries.len() <= 65);
        assert!(known.find(&app(), b"stored").is_some());
    }

    #[test]
    fn secrets_are_told_apart() {
        assert!(Secret::of(b"one") == Secret::of(b"one"));
        assert!(Secret::of(b"one") != Secret::of(b"two"));
        assert!(Secret::of(b"") == Secret::None && Secret::of(b"one") != Secret::None);
        let stage1 = wire::native_password::stage1(b"one");
        let scramble = [7; 20];
        let native = Secret::Native(Zeroizing::new(stage1));
        assert_eq!(native.native_token(&scramble), Secret::of(b"one").native_token(&scramble));
    }
}
