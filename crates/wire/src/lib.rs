//! MySQL bytes to typed packets and back.
//!
//! This crate knows what MySQL and MariaDB servers and their clients say to each other, and nothing else: bytes come in
//! as slices and go out into vectors. It has no sockets, no clock and no threads, borrows what it reads, and takes
//! hostile bytes: every reader returns a [`WireError`] for what it cannot take.
//!
//! # What a newcomer must know
//!
//! * Everything travels in *packets*: a length of three bytes, a sequence number, a payload. A payload of 16 MiB or more
//!   takes several packets; together they are a *message* ([`read_message`], [`put_message`]).
//! * The server speaks first ([`Greeting`]), the client answers ([`LoginRequest`]); the [`Capabilities`] in both decide
//!   what later packets look like. [`AuthSwitch`] and [`native_password`] are the rest of a login.
//! * Then the client sends a [`Command`], and the server a reply, one after the other; sequence numbers start at 0 with
//!   each command and run on through the reply.
//! * Nothing in a reply's first bytes says how long it is. [`ReplyReader`] finds its end, relays it, and converts it
//!   where backend and client agreed to speak differently. It reports what it sees as [`ReplyEvent`]s.
//! * [`OkPacket`], [`EofPacket`] and [`ErrPacket`] end statements. They carry the [`StatusFlags`], and an OK may carry
//!   [`session_changes`].
//!
//! Only the protocol since MySQL 4.1 is spoken; what is older is [`WireError::Unsupported`]. Compressed packets and TLS
//! are other layers.
//!
//! ```
//! use wire::{Command, read_message};
//!
//! let bytes = b"\x09\0\0\0\x03select 1";
//! let message = read_message(bytes, 0, 1 << 20)?.expect("all of it is there");
//! assert_eq!(Command::parse(&message.payload)?, Command::Query(b"select 1"));
//! # Ok::<(), wire::WireError>(())
//! ```

#![forbid(unsafe_code)]

#[macro_use]
mod flags;

mod attributes;
mod capabilities;
mod codec;
mod commands;
mod error;
mod framing;
mod handshake;
pub mod native_password;
mod replies;
mod reply_end;
mod result_set;
pub mod sha2_password;
mod status;

pub use attributes::*;
pub use capabilities::*;
pub use codec::*;
pub use commands::*;
pub use error::WireError;
pub use framing::*;
pub use handshake::*;
pub use replies::*;
pub use reply_end::{
    ClientMetadata, Expect, Progress, ReplyEvent, ReplyOptions, ReplyReader, ReplySink, digest_of_prepared,
};
pub use result_set::*;
pub use status::StatusFlags;
