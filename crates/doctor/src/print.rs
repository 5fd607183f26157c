//! Ways of showing findings.

pub(crate) mod json;
pub(crate) mod sysctl;
pub(crate) mod table;
