//! SHA-256-crypt, as Ulrich Drepper wrote it down ("Unix crypt using SHA-256 and SHA-512", 2008), but for salts of any
//! length: MySQL's have 20 bytes where the description cuts them to 16 (`sql/auth/crypt_genhash_impl.cc`).

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// The 43 digits of the hash.
pub(super) fn sha256_crypt(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 43] {
    let mut state = first_digest(password, salt);
    // Steps 13 to 16: as many copies of the password as it has bytes, as one digest, cut to the password's length.
    let mut all = Sha256::new();
    for _ in 0..password.len() {
        all.update(password);
    }
    let passwords = stretch(&all.finalize().into(), password.len());
    // Steps 17 to 20: likewise of the salt, 16 + the first byte of the digest so far times.
    let mut all = Sha256::new();
    for _ in 0..16 + usize::from(state[0]) {
        all.update(salt);
    }
    let salts = stretch(&all.finalize().into(), salt.len());
    for round in 0..rounds {
        let mut next = Sha256::new();
        next.update(if round % 2 == 1 { &passwords[..] } else { &state[..] });
        if round % 3 != 0 {
            next.update(&*salts);
        }
        if round % 7 != 0 {
            next.update(&*passwords);
        }
        next.update(if round % 2 == 1 { &state[..] } else { &passwords[..] });
        *state = next.finalize().into();
    }
    digits(&state)
}

/// Steps 1 to 12.
fn first_digest(password: &[u8], salt: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut other: [u8; 32] =
        Sha256::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut digest = Sha256::new().chain_update(password).chain_update(salt);
    digest.update(&*stretch(&other, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        digest.update(if bits & 1 == 1 { &other[..] } else { password });
        bits >>= 1;
    }
    other.zeroize();
    Zeroizing::new(digest.finalize().into())
}

/// The digest again and again, so many bytes of it.
fn stretch(digest: &[u8; 32], length: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(digest.iter().copied().cycle().take(length).collect())
}

/// Step 22: three bytes become four digits, the lowest six bits first, in an order that mixes the bytes.
fn digits(digest: &[u8; 32]) -> [u8; 43] {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut out = [0; 43];
    let mut places = out.iter_mut();
    let mut put = |mut bits: u32, count: usize| {
        for place in places.by_ref().take(count) {
            *place = DIGITS[(bits & 63) as usize];
            bits >>= 6;
        }
    };
    // Each group takes the bytes one further on, in turns: (0, 10, 20), (21, 1, 11), (12, 22, 2), ...
    let (mut first, mut second, mut third) = (0, 10, 20);
    for _ in 0..10 {
        let byte = |index: usize| u32::from(digest[index]);
        put(byte(first) << 16 | byte(second) << 8 | byte(third), 4);
        (first, second, third) = (third + 1, first + 1, second + 1);
    }
    put(u32::from(digest[31]) << 8 | u32::from(digest[30]), 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &[u8] =
        b"a very much longer text to encrypt.  This one even stretches over morethan one line.";

    /// Salt, rounds, password, hash.
    type Example = (&'static [u8], u32, &'static [u8], &'static [u8]);

    /// From the description's own test program; its rounds are those of the `rounds=` in front.
    #[test]
    fn published_examples() {
        let examples: [Example; 5] = [
            (b"saltstring", 5000, b"Hello world!", b"5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (b"saltstringsaltst", 10_000, b"Hello world!", b"3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA"),
            (
                b"toolongsaltstrin",
                5000,
                b"This is just a test",
                b"Un/5jzAHMgOGZ5.mWJpuVolil07guHPvOW8mGRcvxa5",
            ),
            (b"anotherlongsalts", 1400, LONG, b"Rx.j8H.h8HjEDGomFU8bDkXm3XIUnzyxf12oP84Bnq1"),
            (
                b"roundstoolow",
                1000,
                b"the minimum number is still observed",
                b"yfvwcWrQ8l/K0DAWyuPMDNHpIVlTQebY9l/gL972bIC",
            ),
        ];
        for (salt, rounds, password, hash) in examples {
            assert_eq!(sha256_crypt(password, salt, rounds), hash, "{}", String::from_utf8_lossy(salt));
        }
    }
}
