//! Scrambles for logins: 20 random-looking bytes from the seed that the program got from the system.

use sha1::{Digest, Sha1};
use zeroize::Zeroize;

/// SHA-1 of seed and counter: nobody who has not the seed can foretell the next scramble, and the engine stays a
/// function of its inputs.
pub(crate) struct Entropy {
    seed: [u8; 32],
    counter: u64,
}

impl Entropy {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0 }
    }

    /// 20 bytes without NUL and without `$`, both of which have a meaning of their own in handshakes
    /// (generate_user_salt in the servers' password code).
    pub(crate) fn scramble(&mut self) -> [u8; 20] {
        self.counter += 1;
        let mut hash: [u8; 20] =
            Sha1::new().chain_update(self.seed).chain_update(self.counter.to_le_bytes()).finalize().into();
        for byte in &mut hash {
            *byte &= 0x7f;
            if matches!(*byte, 0 | b'$') {
                *byte += 1;
            }
        }
        hash
    }

    /// A number that is the same each time, and says nothing of the scrambles.
    pub(crate) fn number(&self) -> u32 {
        let hash: [u8; 20] =
            Sha1::new().chain_update(self.seed).chain_update(u64::MAX.to_le_bytes()).finalize().into();
        u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
    }
}

impl Drop for Entropy {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrambles_differ_and_hold_no_special_byte() {
        let mut entropy = Entropy::new([7; 32]);
        let scrambles: std::collections::BTreeSet<_> = (0..1000).map(|_| entropy.scramble()).collect();
        assert_eq!(scrambles.len(), 1000);
        assert!(scrambles.iter().flatten().all(|b| !matches!(b, 0 | b'$') && *b < 0x80));
    }
}
