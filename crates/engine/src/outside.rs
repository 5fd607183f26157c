//! How the pool looks from outside, and the orders that come from there.

pub(crate) mod enum_map;
pub(crate) mod event;
pub(crate) mod histogram;
pub(crate) mod holders;
pub(crate) mod kills;
pub(crate) mod kills_under_way;
pub(crate) mod limits_reached;
pub(crate) mod measures;
pub(crate) mod memory;
pub(crate) mod named;
pub(crate) mod neighbours;
mod of_clients;
pub(crate) mod orders;
pub(crate) mod refusals;
pub(crate) mod shown_text;
pub(crate) mod slow_log;
pub(crate) mod snapshot;
mod states;
pub(crate) mod taken_for;
pub(crate) mod tallies;
pub(crate) mod totals;
pub(crate) mod turns;
pub(crate) mod views;
pub(crate) mod waits;
