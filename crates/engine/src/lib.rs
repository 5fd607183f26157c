//! The thread pool as a state machine, without I/O.
//!
//! One statement, as a straight line. Bytes of a client come in as [`seam::Input::Bytes`]. `client/commands/command.rs` cuts
//! commands from them and asks the lexer (crate `sql`) what a text does. `scheduler` decides who goes next. At the end of the turn
//! `backend/to_server/dispatch.rs` gives the statement a permit and a backend, and sends ahead the missing parts of the client's
//! session state. The server's bytes come in, and `backend/from_server/reply.rs` relays them to the client whose statement is first
//! in flight. At the reply's end `backend/from_server/settle.rs` takes in the changes, and keeps the backend for the client or lets
//! it go. ARCHITECTURE.md has all steps.
//!
//! | modules | hold |
//! |---|---|
//! | `engine`, `timers` | the parts that follow, the turn; when the next one is due |
//! | `io` | the driver's side of the engine, with `outbox`, what the driver is asked to do |
//! | `ids` | the names of clients, servers and backends in their tables |
//! | `client`, `request` | a client from its greeting to its end (`login`, `commands`, `session`, `memory`, `answers`), and a command of it until it is dispatched |
//! | `backend` | a connection to the server: its `login`; the `pool` of all of them; the way `to_server` and back `from_server`; and in `scheduling`, statements that hold up others or share a backend |
//! | `scheduling` | which statement runs next (`scheduler`); what is refused (`overload`); who gets how much (`shares`); reads that run once (`coalescing`); what is learned about statements, and follows from it for those that come (`learned`) |
//! | `session` | what statements leave for later ones (state, prepared statements, pins), and what of it can move to another backend |
//! | `accounts`, `logins` | who may log in, and how that is proved; logins under way, and what they wait for |
//! | `server`, `servers` | what is known of a server: the service account's connection (`control`), logins there (`login`), what triggers and functions may do behind a statement's text (`stored_code`); all servers, each with its backends |
//! | `cluster` | which servers there are, what each is to the others, and which of them is the primary |
//! | `readers` | servers that are read from, and which of them a read goes to |
//! | `pool`, `workers` | this worker among the others; what the workers of one pool share, and tell each other |
//! | `outside` | how all of this looks from outside (snapshots, events, counts), and orders from there |
//! | `frozen` | what a process hands to the next one, as plain data |
//! | `invariants`, `moves`, `steps` | what must agree at the end of a turn; which phase leads where; how much is looked at |
//! | `declared`, `settings`, `errors` | how settings are declared; bounds and choices; errors of our own |

#![forbid(unsafe_code)]

#[macro_use]
mod declared;
#[macro_use]
mod frozen;

mod accounts;
mod backend;
mod client;
mod cluster;
mod engine;
mod errors;
mod ids;
mod invariants;
mod io;
mod logins;
mod moves;
mod outbox;
mod outside;
mod pool;
mod readers;
mod request;
mod scheduling;
mod server;
mod servers;
mod session;
mod settings;
mod steps;
mod timers;
mod workers;

pub use accounts::failed_logins::settings::FailedLoginSettings;
pub use accounts::proof::Proof;
pub use accounts::secret::Password;
pub use accounts::task::{Finding, Task, Work};
pub use client::commands::reading::{LargeText, ReadText};
pub use cluster::drain::{DrainOrder, DrainOutcome, NotDrained};
pub use cluster::position::{Behind, compare as compare_positions};
pub use cluster::settings::ClusterSettings;
pub use cluster::switchover::SwitchStep;
pub use cluster::view::{FailoverView, ServerCheckView, ServerView};
pub use declared::{Change, Declared};
pub use engine::Engine;
pub use frozen::NotFrozen;
pub use outside::enum_map::{EnumMap, Variants};
pub use outside::event::Event;
pub use outside::histogram::Histogram;
pub use outside::holders::Holders;
pub use outside::measures::{Command, Ended, Measures};
pub use outside::memory::{HoldersOfMemory, Memory, MemoryParts};
pub use outside::named::{
    BackendActivity, BackendState, ClientState, ClosedFor, Limit, LoginStage, LongestWaits, MemoryPart,
    PermitState, Queue, RefusedFor, ServerRole, ServerState, Use,
};
pub use outside::neighbours::Neighbours;
pub use outside::orders::KILL_AT_PEER_TIMEOUT;
pub use outside::orders::given::KilledAtPeer;
pub use outside::refusals::{Reason, Refused};
pub use outside::slow_log::settings::SlowLogSettings;
pub use outside::slow_log::{SlowEnd, SlowStatement};
pub use outside::snapshot::{
    BackendView, ClientView, DigestView, Figures, LockWaitView, Piece, RoutedView, Snapshot, StoredCodeView,
    Tables, WorkerView,
};
pub use outside::taken_for::TakenFor;
pub use outside::tallies::{Tallies, TalliesByName, Tally};
pub use outside::totals::{Total, Totals};
pub use outside::turns::LongestTurn;
pub use outside::waits::{HeldUpBy, Lack, WaitReason, Waits};
pub use readers::routing::{NotSplit, Routed};
pub use readers::view::{Readable, ReaderView};
pub use readers::{ByServer, NoZone, ReadConsistency, ReadSettings, ReadSplit, ServerName, Zone};
pub use scheduling::coalescing::settings::CoalescingSettings;
pub use scheduling::learned::digests::{Digest, DigestCost, Digests, Times};
pub use scheduling::learned::lock_waits::told::{Blocker, LockWaits};
pub use scheduling::overload::settings::OverloadSettings;
pub use scheduling::shares::settings::{FairShare, SharesSettings};
pub use scheduling::shares::{NamedNumbers, NoNamedNumber, named_parts};
pub use server::control::peers::PeerView;
pub use server::control::peers::sealed::LetterKey;
pub use session::pin_counts::{PinCause, PinReason, PinReport};
pub use session::pins::Pins;
pub use settings::{
    ClientTls, HighPrioMode, PoolPriority, Profile, ServerCompression, ServerTls, Settings, ThreadHandling,
};
pub use sql::TraceParent;
pub use workers::Workers;
pub use workers::letter::{Kill, Killed, Letter};
