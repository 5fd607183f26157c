//! The list of `session_track_system_variables`, and how a name is looked up in it.

use std::cmp::Ordering;

use crate::frozen::plain::Plain;
use crate::steps;

/// The names of variables that a client wants to hear of.
///
/// MySQL keeps names of no variable in the list, as often as they are there. A client's list may have a megabyte: walked through for each
/// report it would take a millisecond each time.
#[derive(Clone, Debug)]
pub(crate) struct TrackedNames {
    /// The list as the server shows it: names with commas between them, or `*`.
    text: Box<[u8]>,
    /// The ends of each name in the text, without blanks, in the order of the names in lower case and each once.
    sorted: Box<[(u32, u32)]>,
}

impl TrackedNames {
    pub(crate) fn new(text: &[u8]) -> Self {
        steps::add(text.len());
        let mut sorted = Vec::new();
        let mut begin = 0;
        for part in text.split(|&byte| byte == b',') {
            let name = part.trim_ascii_start();
            let from = begin + part.len() - name.len();
            let ends = (u32::try_from(from), u32::try_from(from + name.trim_ascii_end().len()));
            // A list beyond 4 GiB is no server's.
            if let (Ok(from), Ok(to)) = ends
                && from < to
            {
                sorted.push((from, to));
            }
            begin += part.len() + 1;
        }
        let name = |&(from, to): &(u32, u32)| &text[from as usize..to as usize];
        sorted.sort_unstable_by(|one, other| by_letters(name(one), name(other)));
        sorted.dedup_by(|one, other| by_letters(name(one), name(other)).is_eq());
        Self { text: text.into(), sorted: sorted.into() }
    }

    /// The list as the server shows it.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Says whether a name stands in the list, in letters of any case.
    pub(crate) fn contains(&self, wanted: &[u8]) -> bool {
        let found = self.sorted.binary_search_by(|&(from, to)| {
            steps::add(1);
            by_letters(&self.text[from as usize..to as usize], wanted)
        });
        found.is_ok()
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.sorted)
    }
}

fn by_letters(one: &[u8], other: &[u8]) -> Ordering {
    one.iter().map(u8::to_ascii_lowercase).cmp(other.iter().map(u8::to_ascii_lowercase))
}

impl PartialEq for TrackedNames {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TrackedNames {}

impl Plain for TrackedNames {
    fn put(&self, out: &mut Vec<u8>) {
        self.text.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self::new(&<Box<[u8]>>::take(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frozen::plain::{bytes_of, read};

    #[test]
    fn names_are_found_in_any_case_and_wherever_they_stand() {
        let names = TrackedNames::new(b" time_zone , SQL_MODE,,autocommit,sql_mode");
        for name in ["time_zone", "Sql_Mode", "autocommit"] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        for name in ["", "time", "time_zone ", "*", "zone"] {
            assert!(!names.contains(name.as_bytes()), "{name}");
        }
        assert_eq!(names.sorted.len(), 3);
        let again: TrackedNames = read(&bytes_of(&names)).expect("it is whole");
        assert!(again == names && again.contains(b"autocommit"));
        assert!(TrackedNames::new(b"*").contains(b"*") && !TrackedNames::new(b"").contains(b""));
    }

    #[test]
    fn a_list_of_a_megabyte_is_read_once() {
        let text: Vec<u8> = (0..150_000).flat_map(|number| format!("x{number},").into_bytes()).collect();
        let names = TrackedNames::new(&text);
        let before = steps::taken();
        (0..1_000).for_each(|_| assert!(!names.contains(b"autocommit")));
        assert!(steps::taken() - before < 1_000 * 20, "{}", steps::taken() - before);
        let same = TrackedNames::new(&b"x,".repeat(500_000));
        assert_eq!(same.sorted.len(), 1);
    }
}
