//! A connection to an Onramp's admin port, as MySQL's clients make it, on a thread that may block: for `onramp top`, and for an Onramp
//! that asks others.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "blocking sockets and a clock")]

mod channel;
mod connection;
mod place;

pub use connection::{Column, Connection, Failure, Taker};
pub use place::{Encryption, Names, Place, Target};
