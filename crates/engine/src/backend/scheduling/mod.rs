//! Statements that hold others up, and statements that share a backend.

pub(crate) mod contended;
pub(crate) mod contention;
pub(crate) mod long;
pub(crate) mod rescue;
pub(crate) mod shared_backends;
pub(crate) mod sharing;
pub(crate) mod stall;
