//! HTTP for operators and their programs: pages, and orders by a password.
//!
//! A [`Router`] holds what there is, each page with a handler of its own and with who may see it ([`Access`]). [`serve`] has one
//! thread with an event loop for all connections and a few for handlers, which may block: nothing here runs on a worker.
//!
//! One request, as a straight line: `listener.rs` bounds how many connections there are and how long one lasts; `guard.rs` says
//! whether its method, host and password will do, `guesses.rs` when it looks; `router.rs` finds the handler; `answer.rs` is what comes back.
//!
//! A connection is for one request. Whoever asks does so every few seconds, so that keeping it would save nothing worth the
//! timeouts that idle connections need.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "sockets, threads and their time, off the data path"
)]

mod answer;
mod guard;
mod guesses;
mod listener;
mod router;

pub use answer::{Answer, ContentType};
pub use listener::{Settings, serve};
pub use router::{Access, Request, Router};
