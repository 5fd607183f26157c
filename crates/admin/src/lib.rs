//! The admin port: a listener of its own that speaks MySQL's protocol, so that every MySQL client can look into a running
//! Onramp and give it orders.
//!
//! A `SELECT` is real SQL. It runs in an SQLite database in memory that exists for that one statement and holds just the
//! tables that the statement names, filled at that moment ([`Pool::fill`]). It cannot write, open a file, run longer than
//! ten seconds or take more than a fixed amount of memory (`database.rs`). `SHOW` is a `SELECT` in other words (`show.rs`);
//! `KILL`, `PAUSE`, `RESUME`, `RELOAD`, `SET GLOBAL` and `SHUTDOWN` go to the [`Pool`].
//!
//! Each connection has a blocking thread, and there are few of them: nothing here runs on a worker's event loop.
//!
//! One statement, as a straight line: `session.rs` reads a command; `tokens.rs` cuts the text; `statement.rs` says what it
//! asks for; `dialect.rs` turns MySQL's way of writing a `SELECT` into SQLite's; `database.rs` finds out which tables it
//! reads, has them filled and runs it; `reply.rs` writes the rows.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "blocking sockets, threads and a clock, off the data path"
)]

mod catalog;
mod cluster;
mod database;
mod dialect;
mod errors;
mod listener;
mod login;
mod logins;
mod pool;
mod question;
mod reply;
mod row;
mod session;
mod show;
mod statement;
mod stream;
pub mod tables;
mod tokens;
mod variables;

pub use listener::{Encryption, Listener, Settings, serve};
pub use pool::{Peer, Peers, Pool, Refusal};
pub use question::{Answer, Unanswered, ask};
pub use row::{Column, Field, Kind, Row, Rows, Schema, Table, Value};
