//! What there is, for whoever opens the port in a browser.

use web::{Answer, ContentType};

/// The page at `/`.
pub(super) fn page() -> Answer {
    Answer::of(ContentType::Html, include_bytes!("overview.html").as_slice())
}
