//! What is shown of statements' texts: nothing that may hold a password.

use sql::Kind;

use crate::learned::digests::text::end_before_password;
use crate::request::{RequestKind, may_be_several};

/// Of a statement's text so many bytes are shown at most: what a screen takes.
const LONGEST_TEXT: usize = 1024;

/// Statements of these kinds may hold a password in clear text (CREATE USER, GRANT, SET PASSWORD), and commands other than
/// these two have no text.
pub(crate) fn hides_its_text(kind: Kind, command: RequestKind) -> bool {
    use Kind::{Admin, Ddl, Execute, Other, Prepare, Set};
    matches!(kind, Admin | Ddl | Execute | Other | Prepare | Set)
        || !matches!(command, RequestKind::Query | RequestKind::Prepare)
}

/// The kind is that of a text's first statement; what follows, or stands behind an EXPLAIN, may be of any. What is shown of it is its
/// beginning.
pub(crate) fn may_hold_password(text: &[u8], shown: &[u8]) -> bool {
    may_be_several(text) || end_before_password(&lossy(shown).to_ascii_lowercase()).is_some()
}

/// What is shown of a text.
pub(crate) fn shown_text(text: &[u8]) -> Option<String> {
    let shown = &text[..text.len().min(LONGEST_TEXT)];
    (!text.is_empty() && !may_hold_password(text, shown)).then(|| lossy(shown))
}

/// What is not UTF-8 is shown as U+FFFD.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
