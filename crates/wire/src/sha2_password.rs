//! The methods that stand on SHA-256: `caching_sha2_password`, MySQL's default since 8.0, and `sha256_password`.
//!
//! `caching_sha2_password` begins like `mysql_native_password`: the server sends a scramble of 20 bytes, the client
//! answers with digest1 XOR SHA256(digest2, scramble), where digest 1 is SHA256(password) and digest 2 is
//! SHA256(digest 1). A server that has seen the password lately knows digest 2 and says [`FAST_AUTHENTICATION`]. Any other
//! says [`FULL_AUTHENTICATION`], and the client sends the password itself: with a zero byte behind it where nobody can listen
//! (TLS, a Unix socket), else encrypted for the server's RSA key (OAEP with SHA-1) after [`mix_with_scramble`]. A client that
//! does not know that key asks for it with [`REQUEST_PUBLIC_KEY`]. `sha256_password` knows the second half alone, and asks
//! with [`REQUEST_PUBLIC_KEY_SHA256`].
//!
//! The server's stored form is SHA-256-crypt of the password: thousands of rounds, which take milliseconds.
//!
//! Source: `sql/auth/sha2_password.cc`, `sql/auth/sql_authentication.cc`, `sql-common/client_authentication.cc` (MySQL).

mod crypt;

use sha2::{Digest, Sha256};
use zeroize::Zeroize;

/// SHA256(password): enough to log in where the server remembers the password. Wipe it after use.
pub type Digest1 = [u8; 32];

/// SHA256(SHA256(password)): what a server remembers.
pub type Digest2 = [u8; 32];

/// The first byte of a message in the middle of a login that is neither OK, error nor a change of method.
pub const MORE_DATA_HEADER: u8 = 0x01;

/// Behind [`MORE_DATA_HEADER`]: the answer to the scramble was right, an OK follows.
pub const FAST_AUTHENTICATION: u8 = 3;

/// Behind [`MORE_DATA_HEADER`]: the password itself is asked for.
pub const FULL_AUTHENTICATION: u8 = 4;

/// A client's whole message: it asks for the public key. The answer is [`MORE_DATA_HEADER`] and the key as PEM.
pub const REQUEST_PUBLIC_KEY: u8 = 2;

/// The same in `sha256_password`.
pub const REQUEST_PUBLIC_KEY_SHA256: u8 = 1;

/// Longer passwords are refused by the servers (CRYPT_MAX_PASSWORD_SIZE), bytes.
pub const LONGEST_PASSWORD: usize = 256;

/// SHA256(password).
pub fn digest1(password: &[u8]) -> Digest1 {
    Sha256::digest(password).into()
}

/// SHA256(digest 1).
pub fn digest2(digest1: &Digest1) -> Digest2 {
    Sha256::digest(digest1).into()
}

/// The answer to a server's scramble.
pub fn token(digest1: &Digest1, scramble: &[u8; 20]) -> [u8; 32] {
    let mut mask = mask(scramble, &digest2(digest1));
    let token = std::array::from_fn(|index| digest1[index] ^ mask[index]);
    mask.zeroize();
    token
}

/// Checks a client's answer to a scramble of ours; whether it is right. Takes the same time however much of it is.
pub fn verify(token: &[u8], scramble: &[u8; 20], known: &Digest2) -> bool {
    let Ok(token) = <&[u8; 32]>::try_from(token) else { return false };
    let mut mask = mask(scramble, known);
    let mut claimed: Digest1 = std::array::from_fn(|index| token[index] ^ mask[index]);
    let right = same(&digest2(&claimed), known);
    mask.zeroize();
    claimed.zeroize();
    right
}

/// A password with its zero byte XOR the scramble, again and again: what is encrypted for the other side's RSA key, and,
/// applied once more, what decryption gives (`xor_string`).
pub fn mix_with_scramble(bytes: &mut [u8], scramble: &[u8; 20]) {
    for (byte, mask) in bytes.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= mask;
    }
}

/// The stored form in a server's account table, for one of the two methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    rounds: u32,
    salt: &'a [u8],
    hash: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Reads `$A$005$` (thousands of rounds, hexadecimal), 20 bytes of salt and 43 of hash, as `caching_sha2_password` has
    /// it, or `$5$`, the salt, `$` and the hash, as `sha256_password` has it. `None` for anything else.
    pub fn parse(stored: &'a [u8]) -> Option<Self> {
        if let Some(rest) = stored.strip_prefix(b"$A$") {
            let (thousands, rest) = rest.split_first_chunk::<3>()?;
            let thousands = u32::from_str_radix(std::str::from_utf8(thousands).ok()?, 16).ok()?;
            let (salt, hash) = rest.strip_prefix(b"$")?.split_at_checked(SALT_LEN)?;
            (thousands > 0).then_some(())?;
            return Self::of(thousands * 1000, salt, hash);
        }
        let (salt, hash) = stored.strip_prefix(b"$5$")?.split_at_checked(SALT_LEN)?;
        Self::of(DEFAULT_ROUNDS, salt, hash.strip_prefix(b"$")?)
    }

    fn of(rounds: u32, salt: &'a [u8], hash: &'a [u8]) -> Option<Self> {
        (hash.len() == HASH_LEN).then_some(Self { rounds, salt, hash })
    }

    /// Says whether this is the password. Takes milliseconds: not for an event loop.
    pub fn matches(&self, password: &[u8]) -> bool {
        if password.len() > LONGEST_PASSWORD {
            return false;
        }
        let mut computed = crypt::sha256_crypt(password, self.salt, self.rounds);
        let right = same(&computed, self.hash);
        computed.zeroize();
        right
    }
}

/// Returns the form in which a server would store this password for `caching_sha2_password`; for servers that are played, and for whoever
/// needs something that takes as long to guess. Takes milliseconds.
pub fn stored_form(password: &[u8], salt: &[u8; SALT_LEN]) -> Vec<u8> {
    let hash = crypt::sha256_crypt(password, salt, DEFAULT_ROUNDS);
    [&b"$A$005$"[..], salt, &hash].concat()
}

/// Bytes of salt (CRYPT_SALT_LENGTH).
const SALT_LEN: usize = 20;

/// Digits of a hash: 32 bytes, six bits each.
const HASH_LEN: usize = 43;

/// SHA-256-crypt's own (ROUNDS_DEFAULT).
const DEFAULT_ROUNDS: u32 = 5000;

fn mask(scramble: &[u8; 20], digest2: &Digest2) -> [u8; 32] {
    Sha256::new().chain_update(digest2).chain_update(scramble).finalize().into()
}

/// Compares all bytes always. `black_box` keeps the compiler from leaving the loop early.
fn same(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b));
    left.len() == right.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAMBLE: [u8; 20] = *b"abcdefghijklmnopqrst";

    #[test]
    fn the_right_token_and_no_other_is_right() {
        let known = digest2(&digest1(b"secret"));
        let right = token(&digest1(b"secret"), &SCRAMBLE);
        assert!(verify(&right, &SCRAMBLE, &known));
        assert!(!verify(&token(&digest1(b"Secret"), &SCRAMBLE), &SCRAMBLE, &known));
        assert!(!verify(&right, b"tsrqponmlkjihgfedcba", &known));
        assert!(!verify(&right[..31], &SCRAMBLE, &known));
        assert!(!verify(b"", &SCRAMBLE, &known));
    }

    #[test]
    fn mixing_twice_changes_nothing() {
        let mut bytes = b"a password that is longer than a scramble\0".to_vec();
        mix_with_scramble(&mut bytes, &SCRAMBLE);
        assert_ne!(bytes[20..22], b" t"[..]);
        mix_with_scramble(&mut bytes, &SCRAMBLE);
        assert_eq!(bytes, b"a password that is longer than a scramble\0");
    }

    #[test]
    fn a_stored_form_knows_its_password() {
        let stored = stored_form(b"secret", b"12345678901234567890");
        assert_eq!(stored.len(), 70, "what MySQL's column holds");
        let stored = Stored::parse(&stored).unwrap();
        assert!(stored.matches(b"secret"));
        assert!(!stored.matches(b"Secret") && !stored.matches(b"") && !stored.matches(&[b'x'; 300]));
    }

    /// As MySQL 9.7 stores them: 10,000 rounds by default, and control characters in the salt.
    #[test]
    fn what_a_server_stores_is_understood() {
        let caching =
            b"$A$00A$\x1d(\x06\x0c_\x0eY2\x0c=uC.14PF~G4JG1dNMWCq6YBh72lFTaY3EcreHaUQikRxyfeoH9BeG4";
        assert!(Stored::parse(caching).unwrap().matches(b"admin-secret"));
        let plain =
            b"$5$^Q\x07J<m{;x\x7fA\x03\x07\x12tj\x19\x12LJ$AX683AWg0TPIUeq6Gk/OW1g2IEYGV5MmcxzWqcYWqU5";
        assert!(Stored::parse(plain).unwrap().matches(b"sha-secret"));
    }

    #[test]
    fn other_forms_are_none() {
        let right = stored_form(b"secret", b"12345678901234567890");
        for wrong in
            [&b""[..], b"$A$", b"$A$005$short", b"$5$short", b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"]
        {
            assert_eq!(Stored::parse(wrong), None);
        }
        assert_eq!(Stored::parse(&right[..69]), None);
        assert_eq!(Stored::parse(&[&b"$A$000$"[..], &right[7..]].concat()), None);
        assert_eq!(Stored::parse(&[&b"$A$-01$"[..], &right[7..]].concat()), None);
    }
}
