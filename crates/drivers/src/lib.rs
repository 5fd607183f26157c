//! Every system call of the event loops: what stands between a [`seam::Program`] and the kernel.
//!
//! A driver owns sockets, buffers and the clock, and runs a program turn by turn. [`EpollDriver`] is the reference
//! and runs everywhere, [`UringDriver`] holds more connections for less; the conformance suite in `tests/` says what both
//! have to do. [`Driver`] is one of the two. Linux only.

// The rest of the workspace takes time, bytes and addresses as input. They come from here.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the crate that talks to the system"
)]

mod clock;
mod close_times;
mod counters;
mod driver;
mod epoll;
mod freed_memory;
mod inherited;
mod listen_address;
mod listen_socket;
mod no_uring;
mod outputs;
mod settings;
mod signaller;
mod slots;
mod socket_options;
mod unix_listener;
mod uring;

pub use counters::Counters;
pub use driver::{Driver, DriverChoice, DriverKind, Opened, UnknownDriver, probe_uring};
pub use epoll::EpollDriver;
pub use freed_memory::{give_back_freed_memory, give_large_blocks_back};
pub use inherited::InheritedSocket;
pub use listen_address::ListenAddress;
pub use listen_socket::ListenSocket;
pub use no_uring::{EchoFault, NoUring};
pub use settings::Settings;
pub use signaller::Signaller;
pub use uring::UringDriver;
