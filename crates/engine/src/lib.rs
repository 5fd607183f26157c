//! The thread pool as a state machine, without I/O.
//!
//! One statement, as a straight line: bytes of a client come in as [`seam::Input::Bytes`]; `client/commands.rs` cuts
//! commands from them and asks the lexer (crate `sql`) what a text does; `scheduler` decides who goes next; at the end of
//! the turn `backend/dispatch.rs` gives the statement a permit and a backend, and sends ahead what is missing of the
//! client's session state; the server's bytes come in, `backend/reply.rs` relays them to the client whose statement is
//! first in flight; at the reply's end `backend/settle.rs` takes in what has changed, and keeps the backend for the client or
//! lets it go.
//!
//! | modules | hold |
//! |---|---|
//! | `engine` | the tables of all that follows, the turn, the timers |
//! | `client`, `request` | a client from its greeting to its end, and a command of it until it is dispatched |
//! | `backend` | a connection to the server: opening, choosing, sending, relaying, settling, giving back |
//! | `scheduler`, `overload`, `shares`, `coalescing` | which statement runs next; what is refused; who gets how much; reads that run once |
//! | `digests`, `history`, `limit`, `long_permits`, `lock_waits` | what is learned about statements, and what follows from it for those that come |
//! | `session`, `statements`, `aftermath`, `pins`, `pin_counts` | what statements leave for later ones, and what of it can move to another backend |
//! | `accounts`, `account_queries`, `method`, `requirement`, `secret`, `failed_logins`, `entropy`, `task` | who may log in, and how that is proved |
//! | `control`, `facts`, `server_login` | the service account's connection, what it learns, and logins on the server |
//! | `workers`, `places`, `letter` | what the workers of one pool share, and tell each other |
//! | `snapshot`, `memory`, `event`, `limits_reached`, `waits`, `histogram`, `outside` | how all of this looks from outside, and orders from there |
//! | `settings`, `errors`, `outbox` | bounds and choices; errors of our own; what the driver is asked to do |

#![forbid(unsafe_code)]

mod account_queries;
mod accounts;
mod aftermath;
mod backend;
mod client;
mod coalescing;
mod control;
mod digests;
mod engine;
mod entropy;
mod errors;
mod event;
mod facts;
mod failed_logins;
mod histogram;
mod history;
mod letter;
mod limit;
mod limits_reached;
mod lock_waits;
mod long_permits;
mod memory;
mod method;
mod outbox;
mod outside;
mod overload;
mod pin_counts;
mod pins;
mod places;
mod request;
mod requirement;
mod scheduler;
mod secret;
mod server_login;
mod session;
mod settings;
mod shares;
mod snapshot;
mod statements;
mod task;
mod waits;
mod workers;

pub use coalescing::CoalescingSettings;
pub use digests::{Digest, Digests, Times};
pub use engine::{Engine, Snapshot};
pub use event::Event;
pub use failed_logins::FailedLoginSettings;
pub use histogram::Histogram;
pub use letter::{Kill, Killed, Letter};
pub use lock_waits::{Blocker, LockWaits};
pub use memory::Memory;
pub use overload::OverloadSettings;
pub use pin_counts::{PinCause, PinReason, PinReport};
pub use pins::Pins;
pub use secret::Password;
pub use settings::{
    ClientTls, HighPrioMode, PoolPriority, Profile, ServerCompression, ServerTls, Settings, ThreadHandling,
};
pub use shares::{FairShare, NamedNumbers, SharesSettings};
pub use snapshot::{BackendView, ClientView, DigestView, LockWaitView, Piece, Totals, WorkerView};
pub use task::{Finding, Proof, Task, Work};
pub use waits::{WaitReason, Waits};
pub use workers::Workers;
