//! Findings in a large text, from the thread that reads it anyway.

use crate::server::stored_code::Defined;

/// The findings that later looks at a large text would make.
pub(crate) struct FoundAhead {
    pub(crate) defines: Defined,
    /// The text's digest, as far as operators may see that.
    pub(crate) digest: Option<String>,
}
