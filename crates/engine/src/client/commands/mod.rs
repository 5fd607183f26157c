//! The commands that clients send: what is done with each, and what is answered here.

pub(crate) mod attributes;
pub(crate) mod command;
pub(crate) mod counters;
pub(crate) mod diagnostics;
pub(crate) mod execution;
pub(crate) mod kill;
pub(crate) mod killing;
pub(crate) mod known_answers;
pub(crate) mod last_gtid;
pub(in crate::client) mod late_begin;
pub(in crate::client) mod pool_set;
pub(crate) mod prepared;
pub(crate) mod process_list;
pub(crate) mod reading;
pub(crate) mod statement_counters;
pub(crate) mod statements;
pub(crate) mod victims;
