//! The content of a letter between Onramps, and the names of the locks that a letter is made of. Only holders of the service account's password
//! can make or read both.

use std::fmt;

use wire::sha2_password::{digest1, digest2, stored_form};
use zeroize::{Zeroize, Zeroizing};

use crate::workers::letter::{Kill, KillRights};

/// How the locks' names begin. What follows is [`LetterKey::name`]: with a bit's number behind it they fit a lock of MySQL (64 characters).
pub(super) const LETTER: &str = "onramp.letter.";
pub(super) const ANSWER: &str = "onramp.answer.";

/// The bytes of the letter's number, the client's id, the kind of the KILL, the killer, and the time. Another
/// meaning of these bytes needs another word in the seal ([`LetterKey::seal`]): during an upgrade Onramps of two
/// versions read each other's letters.
const CONTENT: usize = 4 + 4 + 1 + 16 + 4;

/// Bytes of the seal: of bits that are read by chance or by mistake, one letter in 2^64 is taken for whole.
const SEAL: usize = 8;

const LETTER_BYTES: usize = CONTENT + SEAL;
pub(super) const BITS: usize = LETTER_BYTES * 8;

/// The bits of a letter, in bytes.
pub(super) type Bits = [u8; LETTER_BYTES];

/// Half of a digest is in a name: nobody finds two inputs with the same one, by 2^64 of work, before the connections in them have ended.
const NAME_BYTES: usize = 16;

/// A key that only Onramps with the same service account share: it is made of that account's password.
///
/// Names of locks can be tried by any account of the server, and are seen by those who may see more. So each try at the password by them takes
/// the 5,000 rounds that a server's own `caching_sha2_password` has. The key is no password: nobody logs in with it.
#[derive(Clone)]
pub struct LetterKey(Zeroizing<[u8; 32]>);

impl LetterKey {
    /// `None` without a password, which everybody knows. Takes milliseconds: not for an event loop.
    pub fn of(password: &str) -> Option<Self> {
        if password.is_empty() {
            return None;
        }
        let mut stretched = stored_form(password.as_bytes(), b"letters of Onramps: ");
        let key = digest1(&stretched);
        stretched.zeroize();
        Some(Self(Zeroizing::new(key)))
    }

    /// Twice SHA-256, so that nobody can go on from a digest that he has seen.
    fn digest(&self, about: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut bytes = Zeroizing::new(self.0.to_vec());
        bytes.extend_from_slice(about.as_bytes());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        digest2(&digest1(&bytes))
    }

    fn name(&self, about: &str, numbers: &[u64]) -> String {
        let numbers: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let parts: Vec<_> = numbers.iter().map(|bytes| &bytes[..]).collect();
        let digest = self.digest(about, &parts);
        let digits: String = digest[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{about}{digits}")
    }

    /// The lock of a letter from one connection to another.
    pub(super) fn letter(&self, from: u64, to: u64) -> String {
        self.name(LETTER, &[from, to])
    }

    /// The lock that answers a letter of that connection to another.
    pub(super) fn answer(&self, from: u64, to: u64, number: u32, verdict: usize) -> String {
        self.name(ANSWER, &[from, to, u64::from(number), verdict as u64])
    }

    fn seal(&self, from: u64, to: u64, content: &[u8]) -> [u8; SEAL] {
        let digest = self.digest("seal", &[&from.to_le_bytes(), &to.to_le_bytes(), content]);
        std::array::from_fn(|index| digest[index])
    }

    /// The bits of a letter from one connection to another.
    pub(super) fn encode(&self, from: u64, to: u64, content: &Content) -> Bits {
        let Content { number, victim, query_only, ref rights, said } = *content;
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(QUERY_ONLY, query_only)
            | flag(OF_ALL, rights.all)
            | flag(BY_SYSTEM_USER, rights.is_system_user);
        let mut bits = [0; LETTER_BYTES];
        bits[..4].copy_from_slice(&number.to_le_bytes());
        bits[4..8].copy_from_slice(&victim.to_le_bytes());
        bits[8] = flags;
        bits[9..25].copy_from_slice(&rights.owner);
        bits[25..CONTENT].copy_from_slice(&said.to_le_bytes());
        let seal = self.seal(from, to, &bits[..CONTENT]);
        bits[CONTENT..].copy_from_slice(&seal);
        bits
    }

    /// Reads the content of a letter, a digit for each bit; `None` where the letter is not whole, or not from there.
    pub(super) fn decode(&self, from: u64, to: u64, text: &[u8]) -> Option<Content> {
        if text.len() != BITS {
            return None;
        }
        let mut bits: Bits = [0; LETTER_BYTES];
        for (bit, _) in text.iter().enumerate().filter(|&(_, &digit)| digit == b'1') {
            bits[bit / 8] |= 1 << (bit % 8);
        }
        let (content, seal) = bits.split_at(CONTENT);
        if seal != self.seal(from, to, content) {
            return None;
        }
        let flags = content[8];
        let four = |at: usize| content[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        Some(Content {
            number: four(0)?,
            victim: four(4)?,
            query_only: flags & QUERY_ONLY != 0,
            rights: KillRights {
                all: flags & OF_ALL != 0,
                is_system_user: flags & BY_SYSTEM_USER != 0,
                owner: content[9..25].try_into().ok()?,
            },
            said: four(25)?,
        })
    }
}

impl fmt::Debug for LetterKey {
    /// Writes nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LetterKey")
    }
}

/// The bits of these bytes that are set.
pub(super) fn set(bytes: &Bits) -> impl Iterator<Item = usize> {
    (0..BITS).filter(|bit| bytes[bit / 8] & (1 << (bit % 8)) != 0)
}

const QUERY_ONLY: u8 = 1;
const OF_ALL: u8 = 2;
const BY_SYSTEM_USER: u8 = 4;

/// The content of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) number: u32,
    pub(super) victim: u32,
    pub(super) query_only: bool,
    pub(super) rights: KillRights,
    /// The time at which the KILL was said: milliseconds by the server's clock, the last 32 bits.
    pub(super) said: u32,
}

impl Content {
    pub(super) fn new(number: u32, kill: &Kill, said: u32) -> Self {
        let Kill { victim, query_only, ref rights, .. } = *kill;
        Self { number, victim, query_only, rights: rights.clone(), said }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Content {
        let rights = KillRights { all: true, is_system_user: false, owner: [7; 16] };
        Content { number: 3, victim: 0x4400_0007, query_only: true, rights, said: u32::MAX - 2 }
    }

    fn digits(bits: &Bits) -> Vec<u8> {
        let set: Vec<_> = set(bits).collect();
        (0..BITS).map(|bit| if set.contains(&bit) { b'1' } else { b'0' }).collect()
    }

    #[test]
    fn names_fit_a_lock_of_mysql_and_are_each_letters_own() {
        let key = LetterKey::of("secret").unwrap();
        let names = [
            key.letter(7, 8),
            key.letter(8, 7),
            key.letter(7, 9),
            LetterKey::of("other").unwrap().letter(7, 8),
            key.answer(7, 8, 1, 0),
            key.answer(7, 8, 1, 1),
            key.answer(7, 8, 2, 0),
            key.answer(8, 7, 1, 0),
        ];
        assert!(names.iter().all(|name| format!("{name}.{BITS}").len() <= 64), "{names:?}");
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        assert_eq!(names[0], LetterKey::of("secret").unwrap().letter(7, 8), "both sides find it");
    }

    #[test]
    fn without_a_password_there_is_no_key() {
        assert!(LetterKey::of("").is_none());
    }

    #[test]
    fn a_letter_is_read_with_the_key_and_between_these_two_alone() {
        let key = LetterKey::of("secret").unwrap();
        let text = digits(&key.encode(7, 8, &content()));
        assert_eq!(key.decode(7, 8, &text), Some(content()));
        assert_eq!(key.decode(8, 7, &text), None);
        assert_eq!(key.decode(7, 9, &text), None);
        assert_eq!(LetterKey::of("other").unwrap().decode(7, 8, &text), None);
        assert_eq!(key.decode(7, 8, &text[1..]), None);
    }

    #[test]
    fn one_bit_more_or_less_is_no_letter() {
        let key = LetterKey::of("secret").unwrap();
        let text = digits(&key.encode(7, 8, &content()));
        for bit in 0..BITS {
            let mut changed = text.clone();
            changed[bit] ^= 1;
            assert_eq!(key.decode(7, 8, &changed), None, "{bit}");
        }
    }

    /// A look takes time, in which one letter may give way to the next.
    #[test]
    fn a_part_of_one_letter_and_a_part_of_the_next_are_none() {
        let key = LetterKey::of("secret").unwrap();
        for number in 1..200 {
            let [one, next] = [number, number + 1].map(|number| {
                let kill = Content { number, victim: number.wrapping_mul(0x9E37_79B9), ..content() };
                digits(&key.encode(7, 8, &kill))
            });
            for at in 1..BITS {
                let mixed = [&one[..at], &next[at..]].concat();
                let read = key.decode(7, 8, &mixed);
                assert!(
                    mixed == one || mixed == next || read.is_none(),
                    "{number} and the next, from {at} on"
                );
            }
        }
    }
}
