//! What runs found, for people and for programs.

pub mod table;
