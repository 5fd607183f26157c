//! Public keys between their two marks, in lines of 64 characters of base64 (RFC 7468).

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Characters of a line.
const LINE: usize = 64;

pub(crate) fn encode(der: &[u8]) -> Vec<u8> {
    let mut digits = Vec::new();
    for group in der.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            digits.push(if place > group.len() { b'=' } else { digit });
        }
    }
    let mut out = format!("{BEGIN}\n").into_bytes();
    for line in digits.chunks(LINE) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("{END}\n").as_bytes());
    out
}

/// Each public key of a text, from mark to mark.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(END).filter_map(|piece| {
        let begin = piece.find(BEGIN)?;
        piece.ends_with(END).then(|| &piece[begin..])
    })
}

/// The bytes of the first public key of a text.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once(BEGIN)?;
    let (digits, _) = rest.split_once(END)?;
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in digits.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if digit == b'=' {
            break;
        }
        let value = DIGITS.iter().position(|&known| known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length).map(|byte| (byte * 7 % 251) as u8).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn what_the_standard_shows() {
        assert_eq!(encode(b"foob"), b"-----BEGIN PUBLIC KEY-----\nZm9vYg==\n-----END PUBLIC KEY-----\n");
        assert_eq!(decode(b"-----BEGIN PUBLIC KEY-----\nZm9v!\n-----END PUBLIC KEY-----\n"), None);
        assert_eq!(decode(b"Zm9v"), None);
    }
}
