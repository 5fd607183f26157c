//! The password as a client sends it.

use std::fmt;
use std::sync::Arc;

use wire::sha2_password;
use zeroize::Zeroizing;

use crate::accounts::secret::Password;

/// A password as a client sent it. It is no [`Password`] yet: another thread decrypts it, since that takes a good part of a millisecond.
pub enum Proof {
    /// The password as it is.
    Clear(Arc<Password>),
    /// Mixed with our scramble, and encrypted with the public key that clients are given.
    Encrypted {
        /// The bytes that the client sent.
        bytes: Vec<u8>,
        /// The scramble that we had sent.
        scramble: [u8; 20],
    },
}

impl fmt::Debug for Proof {
    /// Writes the kind of the proof, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clear(_) => "Clear",
            Self::Encrypted { .. } => "Encrypted",
        })
    }
}

impl Proof {
    /// The password; `decrypt` is asked for what was encrypted with the public key that clients are given.
    pub fn open(self, decrypt: impl FnOnce(&[u8]) -> Option<Zeroizing<Vec<u8>>>) -> Option<Arc<Password>> {
        match self {
            Self::Clear(password) => Some(password),
            Self::Encrypted { bytes, scramble } => {
                let mut clear = decrypt(&bytes)?;
                sha2_password::mix_with_scramble(&mut clear, &scramble);
                // The zero byte behind it went along.
                (clear.pop() == Some(0)).then(|| Arc::new(Password::new(clear)))
            }
        }
    }
}
