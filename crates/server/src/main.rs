//! The onramp program.

fn main() {}
