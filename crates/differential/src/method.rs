//! How accounts prove who they are.

use wire::{native_password, sha2_password};

/// MariaDB's usual way, and MySQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Native,
    CachingSha2,
}

impl Method {
    const NAME_OF_SHA2: &[u8] = b"caching_sha2_password";

    pub(crate) fn of_name(name: &[u8]) -> Self {
        if name == Self::NAME_OF_SHA2 { Self::CachingSha2 } else { Self::Native }
    }

    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            Self::Native => b"mysql_native_password",
            Self::CachingSha2 => Self::NAME_OF_SHA2,
        }
    }

    pub(crate) fn token(self, password: &str, scramble: &[u8; 20]) -> Vec<u8> {
        let password = password.as_bytes();
        match self {
            Self::Native => native_password::token(&native_password::stage1(password), scramble).to_vec(),
            Self::CachingSha2 => sha2_password::token(&sha2_password::digest1(password), scramble).to_vec(),
        }
    }
}
