//! Where a client wants a read to go: a comment in front of a statement, `/* onramp: primary */`.

/// What a client says of its reads, by a comment or by the variable `onramp_reads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadHint {
    /// They go to the server that takes writes.
    Primary,
    /// They may go to a replica that has what the session has written.
    Session,
    /// They may go to a replica that has what anybody had been told to be written when they came.
    Global,
    /// They may go to any replica.
    Eventual,
}

/// The words, by the numbers that stand for them where a variable is set to one.
pub const READ_HINTS: [(&str, ReadHint); 4] = [
    ("primary", ReadHint::Primary),
    ("session", ReadHint::Session),
    ("global", ReadHint::Global),
    ("eventual", ReadHint::Eventual),
];

/// The hint that a text begins with: the first thing in it, blanks aside, in a comment of its own. Others say nothing.
pub fn read_hint(text: &[u8]) -> Option<ReadHint> {
    let comment = text.trim_ascii_start().strip_prefix(b"/*")?;
    // Longer ones are somebody's notes, which nobody needs to search for their end.
    const LONGEST: usize = 64;
    let comment = &comment[..comment.len().min(LONGEST)];
    let end = comment.windows(2).position(|pair| pair == b"*/")?;
    let (name, word) = std::str::from_utf8(&comment[..end]).ok()?.split_once(':')?;
    let is_ours = name.trim().eq_ignore_ascii_case("onramp");
    let known = READ_HINTS.iter().find(|(known, _)| word.trim().eq_ignore_ascii_case(known));
    known.filter(|_| is_ours).map(|&(_, hint)| hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_first_comment_and_nothing_else() {
        assert_eq!(read_hint(b"/* onramp: primary */ SELECT 1"), Some(ReadHint::Primary));
        assert_eq!(read_hint(b" \n/*ONRAMP:Eventual*/SELECT 1"), Some(ReadHint::Eventual));
        for text in [
            &b"SELECT 1 /* onramp: primary */"[..],
            b"/* onramp: somewhere */ SELECT 1",
            b"/* onramp primary */ SELECT 1",
            b"/*! onramp: primary */ SELECT 1",
            b"/*+ onramp: primary */ SELECT 1",
            b"/* other: primary */ SELECT 1",
            b"/* onramp: primary",
            b"/* \xff: primary */",
            b"/*",
            b"",
        ] {
            assert_eq!(read_hint(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
