//! What runs found, for people and for programs.

mod chart;
pub mod json;
pub mod page;
pub mod table;
