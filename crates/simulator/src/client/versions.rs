//! Which version of a row an answer shows: the number of the client's own statement that wrote it last. Each login has rows of its own, so
//! that it knows which version it has to see.

use std::ops::Range;

use memchr::memmem;

use super::reply::Part;

/// What stands before the twelve digits.
const MARK: &str = "version_";

const DIGITS: usize = 12;

/// As the server writes it: always as long, so that replies differ in the digits only.
pub fn shown(number: u32) -> String {
    format!("{MARK}{number:012}")
}

/// Where the digits stand.
pub(super) fn places(bytes: &[u8]) -> Vec<Range<usize>> {
    let digits = memmem::find_iter(bytes, MARK).map(|at| at + MARK.len()..at + MARK.len() + DIGITS);
    digits.filter(|range| range.end <= bytes.len()).collect()
}

/// The versions in a reply, in order.
pub fn of(parts: &[Part]) -> Vec<u32> {
    let packets = parts.iter().filter_map(|part| match part {
        Part::Packet(bytes) => Some(bytes),
        _ => None,
    });
    packets.flat_map(|bytes| places(bytes).into_iter().filter_map(|range| read(&bytes[range]))).collect()
}

fn read(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::moments;

    fn reply(number: u32) -> Vec<Part> {
        vec![Part::Packet([b"\x14".as_slice(), shown(number).as_bytes(), b"\x011"].concat())]
    }

    #[test]
    fn versions_are_read_and_do_not_make_replies_differ() {
        let both = [reply(7), reply(12)].concat();
        assert_eq!(of(&both), [7, 12]);
        assert!(moments::same(&reply(7), &reply(12)));
        assert!(!moments::same(&reply(7), &both));
    }
}
