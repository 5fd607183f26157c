//! RSA and Ed25519 as logins use them, and a type for passwords that are given as text.
//!
//! RSA as MySQL's password methods use it, on either side of a login: a client's password is encrypted for the server's public
//! key (OAEP with SHA-1, `RSA_PKCS1_OAEP_PADDING` in MySQL's `sql/auth/sha2_password_common.cc` and
//! `sql-common/client_authentication.cc`), which travels as PEM. Ed25519 as MariaDB's `ed25519` does, to check signatures.
//!
//! Everything here takes a good part of a millisecond, or, for new keys, a good part of a second: not for an event loop.

#![forbid(unsafe_code)]

mod secret;

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
    PublicEncryptingKey,
};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use pem::{EncodeConfig, LineEnding, Pem};
use zeroize::Zeroizing;

pub use secret::Secret;

/// How PEM calls a public key.
const PUBLIC_KEY: &str = "PUBLIC KEY";

/// A key pair that was made here and is stored nowhere.
pub struct KeyPair {
    decrypting: OaepPrivateDecryptingKey,
    public_key: Vec<u8>,
}

impl KeyPair {
    /// A new pair of 2,048 bits, which is what MySQL makes for itself (`sql_authentication.cc`, RSA key generation).
    ///
    /// # Errors
    ///
    /// Where the system has no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| KeyError::NotMade)?;
        let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(&private.public_key())
            .map_err(|_| KeyError::NotMade)?;
        let public_key = as_pem(der.as_ref());
        let decrypting = OaepPrivateDecryptingKey::new(private).map_err(|_| KeyError::NotMade)?;
        Ok(Self { decrypting, public_key })
    }

    /// Returns the key that clients are given: `-----BEGIN PUBLIC KEY-----`.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Decrypts bytes that somebody encrypted for [`Self::public_key`]; `None` for anything else.
    pub fn decrypt(&self, encrypted: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if encrypted.len() != self.decrypting.key_size_bytes() {
            return None;
        }
        let mut room = Zeroizing::new(vec![0; self.decrypting.min_output_size()]);
        let length = self.decrypting.decrypt(&OAEP_SHA1_MGF1SHA1, encrypted, &mut room, None).ok()?.len();
        room.truncate(length);
        Some(room)
    }
}

/// Encrypts a few bytes for the owner of a public key.
///
/// # Errors
///
/// Where it is no RSA public key as PEM, or too small for so many bytes.
pub fn encrypt(public_key: &[u8], bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
    let found = pem::parse(public_key).ok().filter(|found| found.tag() == PUBLIC_KEY);
    let der = found.ok_or(KeyError::NotUnderstood)?;
    let key = PublicEncryptingKey::from_der(der.contents()).map_err(|_| KeyError::NotUnderstood)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| KeyError::NotUnderstood)?;
    let mut encrypted = vec![0; key.ciphertext_size()];
    let length =
        key.encrypt(&OAEP_SHA1_MGF1SHA1, bytes, &mut encrypted, None).map_err(|_| KeyError::TooSmall)?.len();
    encrypted.truncate(length);
    Ok(encrypted)
}

/// The RSA public keys of a text, each as PEM of its own.
///
/// # Errors
///
/// Where there is none, or one is not understood.
pub fn public_keys(text: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
    let found = pem::parse_many(text).map_err(|_| KeyError::NotUnderstood)?;
    let keys: Vec<_> = found.iter().filter(|found| found.tag() == PUBLIC_KEY).collect();
    for key in &keys {
        PublicEncryptingKey::from_der(key.contents()).map_err(|_| KeyError::NotUnderstood)?;
    }
    let keys: Vec<_> = keys.iter().map(|key| as_pem(key.contents())).collect();
    if keys.is_empty() { Err(KeyError::NotUnderstood) } else { Ok(keys) }
}

/// With the line ends that servers write.
fn as_pem(der: &[u8]) -> Vec<u8> {
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(PUBLIC_KEY, der), lines).into_bytes()
}

/// Whether an Ed25519 signature (64 bytes) of these bytes is that of a public key's owner. MariaDB's `ed25519` method makes its secret
/// keys in a way of its own, from passwords of any length; its signatures are those of RFC 8032.
pub fn verify_ed25519(public_key: &[u8; 32], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(bytes, signature).is_ok()
}

/// Why a key is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The system gave no key.
    NotMade,
    /// The bytes are not a key in the expected form.
    NotUnderstood,
    /// The key cannot take so many bytes.
    TooSmall,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMade => "no RSA key could be made",
            Self::NotUnderstood => "the RSA public key is not understood",
            Self::TooSmall => "the RSA public key is too small for the password",
        })
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_servers_stand_in_one_text() {
        let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        let text = [b"# one\n", keys[0].public_key(), b"# another\r\n", keys[1].public_key()].concat();
        let found = public_keys(&text).unwrap();
        assert_eq!(found.len(), 2);
        for (key, found) in keys.iter().zip(&found) {
            assert_eq!(found, key.public_key());
            assert_eq!(key.decrypt(&encrypt(found, b"x").unwrap()).unwrap().as_slice(), b"x");
        }
        for wrong in [&b""[..], b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", b"\xff"] {
            assert_eq!(public_keys(wrong), Err(KeyError::NotUnderstood));
        }
    }

    #[test]
    fn what_is_encrypted_is_decrypted() {
        let pair = KeyPair::generate().unwrap();
        assert!(pair.public_key().starts_with(b"-----BEGIN PUBLIC KEY-----\n"));
        let encrypted = encrypt(pair.public_key(), b"a password").unwrap();
        assert_eq!(encrypted.len(), 256);
        assert_eq!(pair.decrypt(&encrypted).unwrap().as_slice(), b"a password");
        assert_ne!(encrypt(pair.public_key(), b"a password").unwrap(), encrypted, "OAEP is random");
    }

    #[test]
    fn other_bytes_are_not_decrypted() {
        let pair = KeyPair::generate().unwrap();
        let mut encrypted = encrypt(pair.public_key(), b"a password").unwrap();
        encrypted[100] ^= 1;
        assert!(pair.decrypt(&encrypted).is_none());
        assert!(pair.decrypt(b"").is_none() && pair.decrypt(&[0; 256]).is_none());
    }

    /// RFC 8032, section 7.1, TEST 1: the signature of no bytes.
    #[test]
    fn a_published_signature_is_right() {
        let hex = |text: &str| -> Vec<u8> {
            let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            (0..text.len()).step_by(2).map(digits).collect()
        };
        let key = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let key: [u8; 32] = key.try_into().unwrap();
        let signature = hex(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2\
             4655141438e7a100b",
        );
        assert!(verify_ed25519(&key, b"", &signature));
        assert!(!verify_ed25519(&key, b"x", &signature));
        assert!(!verify_ed25519(&key, b"", &signature[..63]) && !verify_ed25519(&[7; 32], b"", &signature));
    }

    #[test]
    fn bad_keys_are_errors() {
        let pair = KeyPair::generate().unwrap();
        assert_eq!(encrypt(b"", b"x"), Err(KeyError::NotUnderstood));
        assert_eq!(encrypt(&pair.public_key()[..200], b"x"), Err(KeyError::NotUnderstood));
        // 2,048 bits hold 256 bytes, of which OAEP with SHA-1 takes 42.
        assert_eq!(encrypt(pair.public_key(), &[b'x'; 215]), Err(KeyError::TooSmall));
        assert!(encrypt(pair.public_key(), &[b'x'; 214]).is_ok());
    }
}
