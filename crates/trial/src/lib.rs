//! `onramp trial`: what a load would be behind a pool of backends, seen while each client still has a backend of its own.
//!
//! | module | holds |
//! |---|---|
//! | `table` | the answer to a question, and who answers |
//! | `questions` | what is asked, in the admin port's SQL |
//! | `watch`, `tally` | what looks at the clients have shown, in bounded memory |
//! | `tables` | the tables at the end |
//! | `report` | what follows from both |
//! | `pins`, `differences` | what can be said of a reason to pin, and of a statement |
//! | `text`, `json`, `html` | the report for a terminal, for programs, and as a page |
//!
//! All of it is a function of its input: no clock, no connection, no file. Statements appear by their kind alone, without literals.

#![forbid(unsafe_code)]

mod differences;
mod html;
mod json;
pub mod pins;
pub mod questions;
mod report;
mod table;
mod tables;
mod tally;
mod text;
mod watch;

pub use report::Report;
pub use table::{NoTable, Source, Table};
pub use watch::Watch;

#[cfg(test)]
mod tests;
