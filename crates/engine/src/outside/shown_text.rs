//! The part of statements' texts that may be shown: nothing that may hold a password.

use sql::Kind;

use crate::request::{RequestKind, may_be_several};
use crate::scheduling::learned::digests::text::end_before_password;

/// Bytes of a statement's text that are shown at most: what a screen takes.
const LONGEST_TEXT: usize = 1024;

/// Says whether a statement's text is not shown. Statements of these kinds may hold a password in clear text (CREATE USER,
/// GRANT, SET PASSWORD), and commands other than these two have no text.
pub(crate) fn hides_its_text(kind: Kind, command: RequestKind) -> bool {
    use Kind::{Admin, Ddl, Execute, Other, Prepare, Set};
    matches!(kind, Admin | Ddl | Execute | Other | Prepare | Set)
        || !matches!(command, RequestKind::Query | RequestKind::Prepare)
}

/// Says whether a text may hold a password. The kind is only that of a text's first statement. Statements behind that one, or behind
/// an EXPLAIN, may be of any kind. `shown`: the beginning of the text, which is to be shown.
pub(crate) fn may_hold_password(text: &[u8], shown: &[u8]) -> bool {
    may_be_several(text) || end_before_password(&lossy(shown).to_ascii_lowercase()).is_some()
}

/// The part of a text that is shown; `None` where the text may hold a password, or is empty.
pub(crate) fn shown_text(text: &[u8]) -> Option<String> {
    let shown = &text[..text.len().min(LONGEST_TEXT)];
    (!text.is_empty() && !may_hold_password(text, shown)).then(|| lossy(shown))
}

/// Turns bytes into text. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
