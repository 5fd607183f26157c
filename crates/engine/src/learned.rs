//! What is learned about statements while they run, and what follows from it for those that come.

pub(crate) mod digests;
pub(crate) mod history;
pub(crate) mod limit;
pub(crate) mod lock_waits;
pub(crate) mod long_permits;
mod stuck;
pub(crate) mod waiting;
pub(crate) mod way;
