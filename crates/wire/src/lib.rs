//! MySQL bytes to typed packets and back.

#![forbid(unsafe_code)]

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
mod status;

pub use capabilities::*;
pub use codec::*;
pub use commands::*;
pub use error::WireError;
pub use framing::*;
pub use handshake::*;
pub use replies::*;
pub use reply_end::{Expect, Progress, ReplyEvent, ReplyOptions, ReplyReader, ReplySink};
pub use result_set::*;
pub use status::StatusFlags;
