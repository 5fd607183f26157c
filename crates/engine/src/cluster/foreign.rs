//! Texts of servers that go into our tables, log and pages. Anybody who runs a server, or stands between, may write anything there.

/// Longest reason, in letters. It is a sentence. A server adds an error of at most 512 bytes (MYSQL_ERRMSG_SIZE), rarely over half of that.
const LONGEST_REASON: usize = 500;

/// Longest identity, in letters: an id of 36 letters, or names and a path (`PATH_MAX` is 4,096).
const LONGEST_IDENTITY: usize = 5_000;

/// Returns a reason of bounded length, without a letter that could begin another line, colour a terminal or turn the direction of a text.
pub(crate) fn reason(text: &str) -> String {
    shortened(text, LONGEST_REASON)
}

pub(super) fn identity(text: &str) -> String {
    shortened(text, LONGEST_IDENTITY)
}

/// Returns a position of any length, which the bound on answers bounds: half of a set of GTIDs would be another one.
pub(super) fn position(text: &str) -> String {
    text.chars().map(shown).collect()
}

pub(super) fn shortened(text: &str, longest: usize) -> String {
    let mut letters = text.chars().map(shown);
    let mut kept: String = letters.by_ref().take(longest).collect();
    if letters.next().is_some() {
        kept.push_str("...");
    }
    kept
}

/// Returns a letter, or the one that is shown instead. The log escapes the rest. Already escaped letters are never escaped twice.
fn shown(letter: char) -> char {
    match letter {
        '\\' | '\'' | '"' => letter,
        _ if letter.is_whitespace() => ' ',
        // By the table of what can be printed that escapes go by.
        _ if letter.escape_debug().len() > 1 => char::REPLACEMENT_CHARACTER,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_server_does_more_than_be_read() {
        let hostile = "Access\r\ndenied\u{1b}[31m for 'a\\b'\u{202e}\u{2028}\0\u{e9}\u{4e2d}";
        let wanted = "Access  denied\u{fffd}[31m for 'a\\b'\u{fffd} \u{fffd}\u{e9}\u{4e2d}";
        assert_eq!(reason(hostile), wanted);
        assert_eq!((identity(hostile).as_str(), position(hostile).as_str()), (wanted, wanted));
        assert_eq!(
            shown(char::REPLACEMENT_CHARACTER).escape_debug().len(),
            1,
            "it stays what it is in the log"
        );
    }

    #[test]
    fn a_text_without_an_end_has_one() {
        let endless = "\u{e9}".repeat(1 << 20);
        assert_eq!(reason(&endless).chars().count(), LONGEST_REASON + 3);
        assert!(reason(&endless).ends_with("..."));
        assert_eq!(identity(&endless).chars().count(), LONGEST_IDENTITY + 3);
        assert_eq!(position(&endless), endless);
        let whole = "a".repeat(LONGEST_REASON);
        assert_eq!(reason(&whole), whole);
    }
}
