//! Knowledge of statements that is learned while they run, and what follows from it for statements to come.

pub(crate) mod digests;
pub(crate) mod history;
pub(crate) mod limit;
pub(crate) mod lock_waits;
pub(crate) mod long_permits;
mod stuck;
pub(crate) mod waiting;
pub(crate) mod way;
