//! The real program, with a real server, from the first start to the end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs, wait for them and stop at the first surprise"
)]

mod admin;
mod harness;
mod http;
mod log;
mod options;
mod private_server;
