//! The real program, with a real server, from the first start to the end.

mod harness;
mod options;
mod private_server;
