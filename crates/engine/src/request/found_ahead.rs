//! What is found in a large text while another thread reads it anyway.

use crate::stored_code::Defined;

/// What later looks at a large text would find.
pub(crate) struct FoundAhead {
    pub(crate) defines: Defined,
    /// What operators may see of it.
    pub(crate) digest: Option<String>,
}
