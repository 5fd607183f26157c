//! `mysql_native_password`: a challenge and response with SHA-1, the one method that all servers in use know.
//!
//! The server stores stage 2, SHA1(SHA1(password)), as `*` and 40 hexadecimal digits. It sends a scramble of 20 bytes; the client
//! answers with the token stage1 XOR SHA1(scramble, stage2), where stage 1 is SHA1(password). A party that knows stage 2 and sees
//! a token can recover stage 1, and with it log in elsewhere as the same user.
//!
//! Source: `sql/auth/password.cc` (MySQL), `sql/password.c` (MariaDB).

use sha1::{Digest, Sha1};
use sha2::Sha256;
use zeroize::Zeroize;

/// SHA1(password): as good as the password for logging in. Wipe it after use.
pub type Stage1 = [u8; 20];

/// SHA1(SHA1(password)): what the server's account table holds.
pub type Stage2 = [u8; 20];

/// SHA1(password). An empty password has no stage 1: its token is empty, which callers check first.
pub fn stage1(password: &[u8]) -> Stage1 {
    Sha1::digest(password).into()
}

/// SHA1(stage 1).
pub fn stage2(stage1: &Stage1) -> Stage2 {
    Sha1::digest(stage1).into()
}

/// The answer to a server's scramble.
pub fn token(stage1: &Stage1, scramble: &[u8; 20]) -> [u8; 20] {
    let mut mask = mask(scramble, &stage2(stage1));
    let token = xor(stage1, &mask);
    mask.zeroize();
    token
}

/// Checks a client's answer to a scramble of ours. Right: the client's stage 1, with which one can log in to a server
/// as the same user. Takes the same time however much of the token is right.
pub fn verify(token: &[u8], scramble: &[u8; 20], stored: &Stage2) -> Option<Stage1> {
    let token: &[u8; 20] = token.try_into().ok()?;
    let mut mask = mask(scramble, stored);
    let mut claimed = xor(token, &mask);
    mask.zeroize();
    if same(&stage2(&claimed), stored) {
        return Some(claimed);
    }
    claimed.zeroize();
    None
}

/// Returns MariaDB's proof of its certificate, which comes with the OK of a login from 11.4 on. Only the holder of the password's
/// hash can make it, and it holds for this certificate (its SHA-256 digest) alone. By it a client tells the server from somebody
/// in between, though nobody vouches for the certificate. It is a byte 1, and the hexadecimal digits of SHA256(stage 2, scramble,
/// digest).
///
/// Source: MDEV-31855; <https://mariadb.com/docs/server/security/encryption/data-in-transit-encryption/zero-configuration-ssl>.
pub fn certificate_proof(stored: &Stage2, scramble: &[u8; 20], certificate: &[u8; 32]) -> Vec<u8> {
    let digest =
        Sha256::new().chain_update(stored).chain_update(scramble).chain_update(certificate).finalize();
    format!("\u{1}{digest:X}").into_bytes()
}

/// Stage 2 as the account table writes it: `*` and 40 hexadecimal digits. `None` for anything else, an empty string
/// (no password) included.
pub fn parse_stored(stored: &[u8]) -> Option<Stage2> {
    let (&b'*', digits) = stored.split_first()? else { return None };
    if digits.len() != 40 {
        return None;
    }
    let mut stage2 = [0; 20];
    for (byte, pair) in stage2.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex(pair[0])? << 4 | hex(pair[1])?;
    }
    Some(stage2)
}

fn mask(scramble: &[u8; 20], stage2: &Stage2) -> [u8; 20] {
    Sha1::new().chain_update(scramble).chain_update(stage2).finalize().into()
}

fn xor(left: &[u8; 20], right: &[u8; 20]) -> [u8; 20] {
    std::array::from_fn(|i| left[i] ^ right[i])
}

/// Compares all bytes always. `black_box` keeps the compiler from leaving the loop early.
fn same(left: &[u8; 20], right: &[u8; 20]) -> bool {
    let difference = left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What MariaDB 11.4.5 has said.
    #[test]
    fn a_certificate_is_proved_as_the_server_does() {
        let scramble = b"O.5`cOEJ$r3HN1GSJZfo";
        let digits = "3c923035fdecc73c6d388b06d932b9ca2e766b54959638b705a1079abe1ef015";
        let certificate: Vec<u8> =
            (0..32).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
        assert_eq!(
            certificate_proof(&stage2(&stage1(b"app-secret")), scramble, &certificate.try_into().unwrap()),
            b"\x018F8328AF12B8C1152EC8CA0445CAFDF1545EA2577CA3108D7A523E0AB9891FD2"
        );
    }

    /// What `SELECT PASSWORD('secret')` prints.
    const STORED: &[u8] = b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
    const SCRAMBLE: [u8; 20] = *b"abcdefghijklmnopqrst";

    #[test]
    fn stored_form_is_what_the_server_prints() {
        let stored = parse_stored(STORED).unwrap();
        assert_eq!(stored, stage2(&stage1(b"secret")));
        assert_eq!(parse_stored(&STORED.to_ascii_lowercase()), Some(stored));
    }

    #[test]
    fn other_stored_forms_are_none() {
        for stored in
            [&b""[..], b"*", b"invalid", &STORED[..40], b"*14E65567ABDB5135D0CFD9A70B3032C179A49EEG"]
        {
            assert_eq!(parse_stored(stored), None);
        }
        assert_eq!(parse_stored(&[STORED, b"0"].concat()), None);
    }

    #[test]
    fn the_right_token_gives_stage_1_back() {
        let stored = parse_stored(STORED).unwrap();
        let right = token(&stage1(b"secret"), &SCRAMBLE);
        assert_eq!(verify(&right, &SCRAMBLE, &stored), Some(stage1(b"secret")));
    }

    #[test]
    fn wrong_tokens_are_refused() {
        let stored = parse_stored(STORED).unwrap();
        let right = token(&stage1(b"secret"), &SCRAMBLE);
        assert_eq!(verify(&token(&stage1(b"Secret"), &SCRAMBLE), &SCRAMBLE, &stored), None);
        assert_eq!(verify(&right, b"tsrqponmlkjihgfedcba", &stored), None);
        assert_eq!(verify(b"", &SCRAMBLE, &stored), None);
        assert_eq!(verify(&right[..19], &SCRAMBLE, &stored), None);
        for i in 0..20 {
            let mut token = right;
            token[i] ^= 1;
            assert_eq!(verify(&token, &SCRAMBLE, &stored), None);
        }
    }
}
