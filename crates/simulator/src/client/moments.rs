//! When an answer was made: `moment` in a SELECT gives the number of statements that had run on the server by then. No answer
//! may be older than its question, whoever else was given the same one.

use memchr::memmem;

use super::reply::Part;
use super::versions;

/// What stands before the twelve digits.
pub const MARK: &str = "moment_";

const DIGITS: usize = 12;

/// As the server writes it: always as long, so that replies differ in the digits only.
pub fn shown(moment: u64) -> String {
    format!("{MARK}{moment:012}")
}

/// A moment in an answer that is not later than `floor`, what had run when the question was sent.
pub fn stale(parts: &[Part], floor: u64) -> Option<u64> {
    let packets = parts.iter().filter_map(|part| match part {
        Part::Packet(bytes) => Some(bytes),
        _ => None,
    });
    packets
        .flat_map(|bytes| places(bytes).into_iter().filter_map(|at| read(&bytes[at..])))
        .find(|&m| m <= floor)
}

/// Whether two replies are the same but for their moments, and the versions of rows.
pub fn same(expected: &[Part], found: &[Part]) -> bool {
    let alike = |(a, b): (&Part, &Part)| match (a, b) {
        (Part::Packet(a), Part::Packet(b)) => a == b || without(a) == without(b),
        _ => a == b,
    };
    expected.len() == found.len() && expected.iter().zip(found).all(alike)
}

/// Where the digits begin.
fn places(bytes: &[u8]) -> Vec<usize> {
    let digits = memmem::find_iter(bytes, MARK).map(|at| at + MARK.len());
    digits.filter(|at| at + DIGITS <= bytes.len()).collect()
}

fn read(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes.get(..DIGITS)?).ok()?.parse().ok()
}

fn without(bytes: &[u8]) -> Vec<u8> {
    let mut masked = bytes.to_vec();
    for at in places(bytes) {
        masked[at..at + DIGITS].fill(b'?');
    }
    for range in versions::places(bytes) {
        masked[range].fill(b'?');
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(moment: u64) -> Vec<Part> {
        vec![Part::Packet([b"\x13".as_slice(), shown(moment).as_bytes(), b"\x011"].concat())]
    }

    #[test]
    fn replies_differ_in_their_moments_only() {
        assert!(same(&reply(1), &reply(77)));
        assert!(!same(&reply(1), &[Part::Packet(b"\x01a".to_vec())]));
        assert!(!same(&reply(1), &[]));
    }

    #[test]
    fn an_answer_from_before_the_question_is_found() {
        assert_eq!(stale(&reply(5), 4), None);
        assert_eq!(stale(&reply(5), 5), Some(5));
    }
}
