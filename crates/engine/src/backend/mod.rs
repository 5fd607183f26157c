//! A backend: one connection of ours to the server, logged in as one of the server's users.

mod account_affinity;
pub(crate) mod aftermath;
mod ahead;
mod beliefs;
mod brought;
pub(crate) mod building;
mod change;
mod cleaning;
pub(crate) mod compression;
pub(crate) mod connect;
pub(crate) mod contended;
pub(crate) mod contention;
pub(crate) mod diagnostics_area;
mod difference;
pub(crate) mod dispatch;
mod end_of_statement;
mod executed;
pub(crate) mod flow_control;
mod frozen;
pub(crate) mod full;
mod held_answers;
pub(crate) mod lack;
mod literals;
mod logging_in;
pub(crate) mod long;
pub(crate) mod message;
pub(crate) mod moving;
pub(crate) mod opening;
pub(crate) mod own_answers;
mod own_statement;
pub(crate) mod pool;
pub(crate) mod prepared;
pub(crate) mod prepared_statement_room;
pub(crate) mod preparing;
pub(crate) mod reachability;
pub(crate) mod refused;
mod relay;
pub(crate) mod replaced;
pub(crate) mod reply;
pub(crate) mod rescue;
pub(crate) mod reserved_backends;
pub(crate) mod rights;
pub(crate) mod room;
pub(crate) mod security;
pub(crate) mod sending;
pub(crate) mod settle;
pub(crate) mod shared_backends;
pub(crate) mod sharing;
pub(crate) mod stall;
mod state;
mod taking_places;
pub(crate) mod unreported_variables;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use seam::{Address, ConnectionId, Instant};
use wire::{Capabilities, ReplyReader, StatusFlags};

use crate::accounts::IdentityId;
use crate::coalescing::group::Group;
use crate::errors::ServerError;
use crate::ids::ClientKey;
use crate::learned::lock_waits::told::SeenWait;
use crate::learned::long_permits::Allowed;
use crate::outside::measures::Command;
use crate::request::RequestKind;
use crate::scheduler::Scheduler;
use crate::server_login::{Established, ServerLogin};
use crate::session::user_variables::Variables;
use crate::session::wait_timeout::WaitTimeout;
use crate::session::{Charset, SessionId, SessionState};
use crate::stored_code::{CodeChange, Hidden};
use crate::workers::places::Origin;
use crate::workers::serving::Serves;
use crate::workers::users::Used;
use rights::taken_up::Rights;
use state::State;

pub(crate) use state::{Idle, Permit, Phase};

/// One connection to the server.
pub(crate) struct Backend {
    /// Names the request for this connection towards the driver; never used twice.
    pub(crate) token: u64,
    pub(crate) connection: Option<ConnectionId>,
    state: State,
    /// Where its server is.
    pub(crate) place: Place,
    pub(crate) opened: Opened,
    /// Since when it is in this phase, or was last used.
    pub(crate) since: Instant,
    pub(crate) account: BackendAccount,
    pub(crate) login: BackendLogin,
    pub(crate) session: BackendSession,
    /// What has been sent and not yet answered, in order: each byte that comes belongs to the first.
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) first: First,
    /// Since when a client has gone whose statement was in flight.
    pub(crate) abandoned_since: Option<Instant>,
    pub(crate) shown: Shown,
    /// The client that holds it, for a transaction, a pin, or a statement that it does not share.
    pub(crate) holder: Option<ClientKey>,
    /// The right by which a long statement runs on it, to its end.
    pub(crate) runs_long: Option<Allowed>,
    pub(crate) locks: Locks,
    /// Only reads of this kind share it, see [`crate::learned::digests::Digests::may_be_stuck`].
    pub(crate) only_kind: Option<u64>,
    /// Not read from, because the client whose answer comes is slow to take it.
    pub(crate) paused: bool,
    pub(crate) afterwards: Afterwards,
    /// Bytes for the server, collected over a turn so that all statements of the turn leave in one write.
    pub(crate) out: Vec<u8>,
}

/// What a backend was opened for.
pub(crate) struct Opened {
    /// How we came by its place.
    pub(crate) origin: Origin,
    /// No client's statement has run on it yet.
    pub(crate) fresh: bool,
    /// Its number, where it has to be proved which process it leads to ([`crate::cluster::proof`]).
    unproved: Option<u64>,
    /// Until then it serves others of its account before those in front of them.
    affinity_until: Option<Instant>,
}

/// The account of a backend.
pub(crate) struct BackendAccount {
    /// Whose rights it has.
    pub(crate) identity: IdentityId,
    /// Whether it still has them.
    pub(crate) rights: Rights,
    /// How many changes of accounts had been seen when the first of those began on it whose statements are there.
    pub(crate) began_at: u64,
}

/// What a backend's login asked for, and was answered.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendLogin {
    /// The capabilities that its clients must share.
    pub(crate) class: Capabilities,
    pub(crate) thread_id: u32,
    pub(crate) capabilities: Capabilities,
    /// What was agreed on, once it is over.
    established: Option<Established>,
    /// Its session had no role at the end; false where the server was not asked.
    has_no_role: bool,
    /// The collation number.
    pub(crate) collation: u8,
    /// What that stands for, and COM_RESET_CONNECTION brings back.
    pub(crate) charset: Charset,
}

/// What stands on the server's side of a backend.
pub(crate) struct BackendSession {
    /// The session state.
    pub(crate) id: SessionId,
    /// The user variables, as far as they are carried.
    pub(crate) variables: Variables,
    /// What its holder has set; none on one that nobody holds.
    pub(crate) wait_timeout: WaitTimeout,
    /// Whether the session trackers are on; a reset turns them off.
    pub(crate) trackers: bool,
    /// Whether the server takes several statements in one text (COM_SET_OPTION).
    pub(crate) multi_statements: bool,
    /// What is prepared on it.
    pub(crate) prepared: prepared::Prepared,
    /// What a statement that has failed may have done by stored code, as long as the server has not told.
    pub(crate) failed: Hidden,
    /// Whose warnings may be there.
    pub(crate) diagnostics_area: diagnostics_area::DiagnosticsArea,
}

/// Of what is in flight on a backend, the first.
pub(crate) struct First {
    /// Since when the server can have been busy with it.
    pub(crate) since: Instant,
    /// Nothing was in flight when it was sent: what it took is the way to the server and back, and its work there.
    pub(crate) is_alone: bool,
}

/// Whom a backend serves, for all workers to know.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) serves: Serves,
    /// It counts among those that its user uses, from its first statement on until it is free again.
    pub(crate) used: Option<Used>,
}

/// What is known of locks that what runs on a backend wants.
#[derive(Default)]
pub(crate) struct Locks {
    /// What the first statement in flight was last seen to wait for on the server.
    pub(crate) seen: Option<SeenWait>,
    /// What is first in flight is known to wait for a lock.
    pub(crate) waits: bool,
    /// It is in work for a statement of a contended kind, see [`contended`], until its transaction ends.
    pub(crate) contends: bool,
}

/// Where a backend's connection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the server at this place in the list of addresses.
    At(usize),
    /// To an address that stood there before: what runs there ends there, and nobody else is given the backend. What a thread's number means
    /// there it does not mean on the server that is asked now.
    Former(Rc<Address>),
}

impl Place {
    pub(crate) fn is(&self, place: usize) -> bool {
        *self == Self::At(place)
    }

    pub(crate) fn is_former(&self) -> bool {
        matches!(self, Self::Former(_))
    }
}

/// What happens to a backend once nothing runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Afterwards {
    Keep,
    /// COM_RESET_CONNECTION: a client left with a transaction or other state.
    Reset,
    Close,
}

/// One thing sent to the server and not yet answered.
pub(crate) struct InFlight {
    pub(crate) owner: Owner,
    pub(crate) reader: ReplyReader,
    pub(crate) summary: Summary,
    /// How many statements of our own stand before it in the same text.
    pub(crate) preludes: u8,
    /// Its digest, which is 0 where it has none.
    pub(crate) fingerprint: u64,
    /// From its arrival to its start.
    pub(crate) waited: Duration,
    /// A read that others may follow at once, see [`Backend::shares`].
    pub(crate) shared: bool,
    pub(crate) ends: Ends,
    /// The session state that stands behind them, where others may follow before they have been answered.
    pub(crate) brings: Option<Rc<SessionState>>,
    /// What has happened on the backend once they are done.
    pub(crate) prelude_effects: PreludeEffects,
    /// Others that get the same answer.
    pub(crate) group: Option<Box<Group>>,
    /// It chooses a schema, so that the client's former one was not put ahead of it.
    pub(crate) chooses_schema: bool,
    /// What it defines of stored code, until it is over.
    pub(crate) code_change: Option<CodeChange>,
    /// The version of what was known of stored code when it was sent; none where it runs none.
    pub(crate) library: Option<u64>,
}

/// What the statements of our own that go ahead of a client's do, beside setting its session state.
#[derive(Clone, Copy, Default)]
pub(crate) struct PreludeEffects {
    /// They set LAST_INSERT_ID().
    pub(crate) set_insert_id: bool,
    /// They begin the client's transaction.
    pub(crate) begin: bool,
    /// They clear what others have left.
    pub(crate) clear: bool,
    /// They choose the client's schema.
    pub(crate) schema: bool,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A client's statement: relayed.
    Client { client: ClientKey, command: RequestKind },
    /// A client's statement whose client has gone.
    Abandoned,
    /// Trackers on, and who we are: the end of a backend's login.
    Setup,
    /// A client's session state, sent apart from its statement.
    ApplyState { client: ClientKey },
    /// The session state for a statement that is to be prepared, where that is not the client's.
    ApplyDefinition { client: ClientKey },
    /// COM_STMT_PREPARE ahead of an execution.
    Prepare { client: ClientKey },
    /// SHOW WARNINGS for the client whose statement was the last.
    SaveDiagnostics { client: ClientKey },
    /// SELECT LAST_INSERT_ID() likewise.
    SaveInsertId { client: ClientKey },
    /// COM_PING behind an error of the holder's.
    ReadStatus { client: ClientKey },
    /// Session variables that the trackers do not report in full, for the holder.
    ReadVariables { client: ClientKey },
    /// COM_RESET_CONNECTION.
    Reset,
    /// SET wait_timeout = DEFAULT behind a client that has set it.
    RestoreWaitTimeout,
    /// COM_PING behind statements that were closed to make room for others.
    Closing,
    /// COM_SET_OPTION ahead of a statement; it cannot fail.
    SetOption,
}

/// What ends a statement before it has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Nothing has been asked for.
    ByItself,
    /// A KILL QUERY that has to wait: it could hit others' reads on the same backend.
    WhenAlone,
    /// The server has been asked to end it.
    Asked,
}

impl Owner {
    /// Whether a client hears the answer as it comes, and not once it is whole, or not at all.
    pub(crate) fn is_heard(self) -> bool {
        let Self::Client { command, .. } = self else { return false };
        !matches!(command, RequestKind::LoginSchema | RequestKind::ChangeUser | RequestKind::Prepare)
    }

    /// By what command a client's statement came, whose client is still there.
    pub(crate) fn command(self) -> Option<Command> {
        let Self::Client { command, .. } = self else { return None };
        Some(command.as_measured())
    }

    pub(crate) fn client(self) -> Option<ClientKey> {
        match self {
            Self::Client { client, .. }
            | Self::ApplyState { client }
            | Self::ApplyDefinition { client }
            | Self::Prepare { client }
            | Self::SaveDiagnostics { client }
            | Self::SaveInsertId { client }
            | Self::ReadStatus { client }
            | Self::ReadVariables { client } => Some(client),
            Self::Abandoned
            | Self::Setup
            | Self::Reset
            | Self::RestoreWaitTimeout
            | Self::Closing
            | Self::SetOption => None,
        }
    }
}

/// What an answer has said so far.
#[derive(Default)]
pub(crate) struct Summary {
    /// From the latest OK or EOF.
    pub(crate) status: Option<StatusFlags>,
    /// Some OK or EOF came from within a transaction that only reads.
    pub(crate) in_read_only: bool,
    pub(crate) affected_rows: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) warnings: u16,
    pub(crate) counts: AnswerCounts,
    /// A statement was prepared, under this id, with so many parameters.
    pub(crate) prepared: Option<(u32, u16)>,
    /// The digest of the column definitions that the client has got, where that remembers them.
    pub(crate) metadata: Option<u64>,
    pub(crate) error: Option<ServerError>,
    /// The error is not for the client: the statement goes to another server.
    pub(crate) withheld: bool,
    /// The error is not the server's.
    pub(crate) refused_here: bool,
    /// The error came from what we had put ahead of the statement: the statement did not run.
    pub(crate) prelude_failed: bool,
    /// All of what we had put ahead has been answered.
    pub(crate) preludes_done: u8,
    pub(crate) changes: Vec<Change>,
    pub(crate) file: FileOfClient,
    /// An event of the binary log has come.
    pub(crate) log_begun: bool,
    /// Bytes relayed to the client, or kept here where the answer is for us.
    pub(crate) relayed: u64,
    /// How many of these tell the client of changes of its session.
    pub(crate) told: u64,
    /// The changes of the latest OK, where they will be remembered.
    pub(crate) raw_changes: Vec<u8>,
    pub(crate) kept: Vec<u8>,
}

/// A file that LOAD DATA LOCAL wants of a client.
#[derive(Debug, Default)]
pub(crate) struct FileOfClient {
    /// It was asked for, in a packet of this number.
    pub(crate) asked: Option<u8>,
    /// It was sent.
    pub(crate) uploaded: bool,
}

/// Results and rows of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounts {
    /// Results with success: result sets, and OK packets in the place of one.
    pub(crate) results: u32,
    /// The last result was a result set, of so many rows.
    pub(crate) rows: Option<u64>,
    /// The rows that an `INSERT ... SELECT` read, as the OK says in words.
    pub(crate) copied: Option<u64>,
    /// How many rows an UPDATE has found, changed or not.
    pub(crate) matched: Option<u64>,
    /// The rows of the latest result set, whatever came after it.
    pub(crate) found: Option<u64>,
    /// Rows of all its result sets.
    pub(crate) sent: u64,
    /// Rows changed by all its statements.
    pub(crate) changed: u64,
}

/// A change of session state that the server's trackers reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Variable {
        name: Box<[u8]>,
        value: Box<[u8]>,
    },
    Schema(Box<[u8]>),
    /// Something, without saying what.
    State,
}

impl Change {
    /// It says how transactions begin: their isolation, and whether they only read. MySQL and MariaDB have other names for these.
    pub(crate) fn is_of_transactions(&self) -> bool {
        const NAMES: [&[u8]; 4] =
            [b"transaction_isolation", b"transaction_read_only", b"tx_isolation", b"tx_read_only"];
        matches!(self, Self::Variable { name, .. } if NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)))
    }
}

impl Backend {
    pub(crate) fn phase(&self) -> &Phase {
        self.state.phase()
    }

    pub(crate) fn permit(&self) -> Permit {
        self.state.permit()
    }

    /// Since when it has had its permit, if it has one.
    pub(crate) fn permit_since(&self) -> Instant {
        self.state.permit_since()
    }

    /// What of its permit is left to others, in parts of [`crate::learned::waiting::WHOLE`]; nothing where it holds none.
    pub(crate) fn spared(&self) -> u32 {
        self.state.spared()
    }

    /// Its login, and where what that says to the server goes; none where it does not log in.
    fn login(&mut self) -> Option<(&mut ServerLogin, &mut Vec<u8>)> {
        self.state.login().map(|login| (login, &mut self.out))
    }

    /// A statement begins on it; the scheduler has counted its permit, if it has one. Of that it leaves so much to others.
    pub(crate) fn begin_with_permit(
        &mut self,
        now: Instant,
        scheduler: &mut Scheduler,
        has_permit: bool,
        spared: u32,
    ) {
        self.state.begin_with_permit(now, scheduler, has_permit, spared);
        if self.place.is_former() {
            self.lend_permit(scheduler);
        }
    }

    /// Another statement may run as long as the server does nothing for this one, or another server does it.
    pub(crate) fn lend_permit(&mut self, scheduler: &mut Scheduler) {
        self.state.lend_permit(scheduler);
    }

    /// The server goes on with its statement. What runs at a former address does without a permit.
    pub(crate) fn take_permit_back(&mut self, scheduler: &mut Scheduler) {
        if !self.place.is_former() {
            self.state.take_permit_back(scheduler);
        }
    }

    /// Nothing runs there any more.
    pub(crate) fn give_permit(&mut self, scheduler: &mut Scheduler) {
        self.state.give_permit(scheduler);
    }

    /// As if it had come there.
    #[cfg(test)]
    pub(crate) fn set_phase(&mut self, phase: Phase) {
        self.state.set_phase(phase);
    }

    /// Whether this client's statement is the one being answered now.
    pub(crate) fn answers(&self, client: ClientKey) -> bool {
        self.in_flight.front().is_some_and(|statement| statement.owner.client() == Some(client))
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), Phase::Ready)
    }

    /// Nobody holds it and nothing runs on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_ready() && self.in_flight.is_empty() && self.holder.is_none()
    }

    /// Something has been sent.
    pub(crate) fn put_in_flight(&mut self, now: Instant, statement: InFlight) {
        if self.in_flight.is_empty() {
            self.first.since = now;
            self.first.is_alone = true;
        }
        self.in_flight.push_back(statement);
    }

    /// Whether all that runs on it are short reads that leave nothing behind, so that one more may follow.
    pub(crate) fn shares(&self) -> bool {
        !self.in_flight.is_empty() && self.in_flight.iter().all(|statement| statement.shared)
    }
}
