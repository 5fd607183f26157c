//! The phase of a client, and its way there: nothing else sets a client's phase.
//!
//! Each way from one phase to another has a function named for what happens, and a line of [`MOVES`], which says from
//! where to where it may lead. A debug build looks there at each move: a statement that begins twice, or a login that goes
//! on behind its end, stops the run at the place where it goes wrong. `moves.txt` shows the table.

use super::Client;
use super::commands::killing::Killing;
use super::commands::reading::LargeTextReading;
use super::login::attempt::{Attempt, Login};
use crate::moves::{self, Move};
use crate::readers::lent::Lent;

/// The phase of a client.
#[derive(Debug)]
pub(crate) enum Phase {
    AwaitingServer,
    Login(Login),
    Idle,
    Reading(Box<LargeTextReading>),
    Queued,
    Following {
        /// The number of the group.
        group: u64,
    },
    Preparing,
    Running(Running),
    Settling,
    Killing(Box<Killing>),
    Lent(Box<Lent>),
}

/// The state of a running statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// The server has the statement.
    OnServer,
    /// The client has asked for the binary log.
    Replicating {
        /// True once the first event has come: the client may acknowledge events (semi-synchronous replication). Before
        /// that the server may refuse, and read what the client sends as commands.
        begun: bool,
    },
    /// The server asked for a local file (LOAD DATA LOCAL INFILE); the client sends it.
    Uploading {
        /// True where the last packet was full, so that the next one is a part of it even if it is empty.
        continues: bool,
        /// The number of the next packet, as the client counts.
        next: u8,
    },
}

/// A client's phase, which only this module can set.
#[derive(Debug)]
pub(super) struct State(Phase);

impl State {
    /// Makes the first phase: the server has not said yet what a greeting has to repeat.
    pub(super) fn new() -> Self {
        Self(Phase::AwaitingServer)
    }
}

/// A phase as the table of moves names it: steps of a login, and what a running statement does, are told apart there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    AwaitingServer,
    Greeted,
    StartingTls,
    Secured,
    Judged,
    Switched,
    PasswordAsked,
    AwaitingFinding,
    AwaitingAccounts,
    AwaitingVerdict,
    Refused,
    AwaitingSchema,
    Idle,
    Reading,
    Queued,
    Following,
    Preparing,
    OnServer,
    Replicating,
    Uploading,
    Settling,
    Killing,
    Lent,
}

impl At {
    fn of(phase: &Phase) -> Self {
        match phase {
            Phase::AwaitingServer => Self::AwaitingServer,
            Phase::Login(login) => Self::of_login(login),
            Phase::Idle => Self::Idle,
            Phase::Reading(_) => Self::Reading,
            Phase::Queued => Self::Queued,
            Phase::Following { .. } => Self::Following,
            Phase::Preparing => Self::Preparing,
            Phase::Running(Running::OnServer) => Self::OnServer,
            Phase::Running(Running::Replicating { .. }) => Self::Replicating,
            Phase::Running(Running::Uploading { .. }) => Self::Uploading,
            Phase::Settling => Self::Settling,
            Phase::Killing(_) => Self::Killing,
            Phase::Lent(_) => Self::Lent,
        }
    }

    fn of_login(login: &Login) -> Self {
        match login {
            Login::Greeted => Self::Greeted,
            Login::StartingTls => Self::StartingTls,
            Login::Secured => Self::Secured,
            Login::Judged => Self::Judged,
            Login::Switched(_) => Self::Switched,
            Login::PasswordAsked(_) => Self::PasswordAsked,
            Login::AwaitingFinding(_) => Self::AwaitingFinding,
            Login::AwaitingAccounts(_) => Self::AwaitingAccounts,
            Login::AwaitingServer(_) => Self::AwaitingVerdict,
            Login::Refused(_) => Self::Refused,
            Login::AwaitingSchema { .. } => Self::AwaitingSchema,
        }
    }
}

/// All moves there are. A client may end anywhere.
const MOVES: &[Move<At>] = &[
    Move { by: "greet", from: &[At::AwaitingServer], to: &[At::Greeted] },
    Move {
        by: "take_login",
        from: &[
            At::Greeted,
            At::Secured,
            At::Switched,
            At::PasswordAsked,
            At::AwaitingFinding,
            At::AwaitingAccounts,
            At::AwaitingVerdict,
        ],
        to: &[At::Judged],
    },
    Move { by: "await_tls", from: &[At::Judged], to: &[At::StartingTls] },
    Move { by: "note_tls", from: &[At::StartingTls], to: &[At::Secured] },
    // An idle one wants to be somebody else (COM_CHANGE_USER).
    Move {
        by: "wait_in_login",
        from: &[At::Judged, At::Idle],
        to: &[
            At::Switched,
            At::PasswordAsked,
            At::AwaitingFinding,
            At::AwaitingAccounts,
            At::AwaitingVerdict,
            At::Refused,
        ],
    },
    Move { by: "await_schema", from: &[At::Idle], to: &[At::AwaitingSchema] },
    Move {
        by: "end_login",
        from: &[At::Judged, At::Idle, At::AwaitingVerdict, At::Refused, At::AwaitingSchema],
        to: &[At::Idle],
    },
    Move { by: "read_elsewhere", from: &[At::Idle], to: &[At::Reading] },
    Move { by: "end_reading", from: &[At::Reading], to: &[At::Idle] },
    Move { by: "kill_elsewhere", from: &[At::Idle], to: &[At::Killing] },
    Move { by: "end_killing", from: &[At::Killing], to: &[At::Idle] },
    // Of an engine that lends it, and in the one that it is lent to.
    Move { by: "lend", from: &[At::Idle], to: &[At::Lent] },
    Move { by: "come_back", from: &[At::Lent], to: &[At::Idle] },
    Move { by: "be_lent", from: &[At::AwaitingServer], to: &[At::Idle] },
    // It was idle in another process, or in this one.
    Move { by: "be_thawed", from: &[At::AwaitingServer], to: &[At::Idle] },
    // One that waits to hear of its schema asks by itself where the client that asked has gone.
    Move { by: "queue", from: &[At::Idle, At::AwaitingSchema], to: &[At::Queued] },
    Move { by: "follow", from: &[At::Idle], to: &[At::Following] },
    Move { by: "go_alone", from: &[At::Following], to: &[At::Queued] },
    Move { by: "prepare", from: &[At::Queued, At::Preparing], to: &[At::Preparing] },
    Move { by: "try_again", from: &[At::OnServer], to: &[At::Preparing] },
    // Nobody has been sent to the server in vain: it has refused what was to be prepared.
    Move { by: "wait_for_room", from: &[At::OnServer, At::Preparing], to: &[At::Queued] },
    Move { by: "run", from: &[At::Queued, At::Preparing], to: &[At::OnServer, At::Replicating] },
    Move { by: "take_over", from: &[At::Following], to: &[At::OnServer, At::Settling] },
    Move { by: "hand_over", from: &[At::OnServer], to: &[At::Queued] },
    // Of one that prepares nothing has been sent.
    Move { by: "queue_again", from: &[At::OnServer, At::Preparing], to: &[At::Queued] },
    Move { by: "begin_log", from: &[At::Replicating], to: &[At::Replicating] },
    Move { by: "upload", from: &[At::OnServer, At::Uploading], to: &[At::Uploading] },
    Move { by: "end_upload", from: &[At::Uploading], to: &[At::OnServer] },
    // Of an idle one a cursor is closed that was its last pin.
    Move {
        by: "settle",
        from: &[At::Idle, At::Preparing, At::OnServer, At::Replicating, At::Settling],
        to: &[At::Settling],
    },
    Move { by: "cancel", from: &[At::Queued, At::Following], to: &[At::Idle] },
    Move {
        by: "end_statement",
        from: &[
            At::Idle,
            At::Following,
            At::Preparing,
            At::OnServer,
            At::Replicating,
            At::Uploading,
            At::Settling,
        ],
        to: &[At::Idle],
    },
];

impl Client {
    pub(crate) fn phase(&self) -> &Phase {
        &self.state.0
    }

    /// Notes that our greeting goes out.
    pub(crate) fn greet(&mut self) {
        self.go("greet", Phase::Login(Login::Greeted));
    }

    /// Notes that the client has asked for TLS.
    pub(crate) fn await_tls(&mut self) {
        self.go("await_tls", Phase::Login(Login::StartingTls));
    }

    /// Notes that TLS stands.
    pub(crate) fn note_tls(&mut self) {
        self.go("note_tls", Phase::Login(Login::Secured));
    }

    /// Takes the client's login out, to be judged, if it is at a step of which `is_wanted` is true.
    pub(crate) fn take_login(&mut self, is_wanted: impl FnOnce(&Login) -> bool) -> Option<Login> {
        if !matches!(&self.state.0, Phase::Login(login) if is_wanted(login)) {
            return None;
        }
        match self.go("take_login", Phase::Login(Login::Judged)) {
            Phase::Login(login) => Some(login),
            _ => None,
        }
    }

    /// Lets the client's login wait: for its own next packet, or for others.
    pub(crate) fn wait_in_login(&mut self, login: Login) {
        self.go("wait_in_login", Phase::Login(login));
    }

    /// Returns the attempt that waits for the server's word on its password.
    pub(crate) fn attempt_at_server(&mut self) -> Option<&mut Attempt> {
        match &mut self.state.0 {
            Phase::Login(Login::AwaitingServer(attempt)) => Some(attempt),
            _ => None,
        }
    }

    /// Lets the client wait for another one, which asks the server about the schema that both have named. The packet of this
    /// number will end its login.
    pub(crate) fn await_schema(&mut self, sequence: u8) {
        self.go("await_schema", Phase::Login(Login::AwaitingSchema { sequence }));
    }

    /// Ends the client's login: the client has logged in, or stays who it was.
    pub(crate) fn end_login(&mut self) {
        self.go("end_login", Phase::Idle);
    }

    /// Notes that the client's text is read by another thread.
    pub(crate) fn read_elsewhere(&mut self, reading: LargeTextReading) {
        self.go("read_elsewhere", Phase::Reading(Box::new(reading)));
    }

    /// Returns the client's text that is read elsewhere, where one is.
    pub(crate) fn reading_mut(&mut self) -> Option<&mut LargeTextReading> {
        if let Phase::Reading(reading) = &mut self.state.0 { Some(reading) } else { None }
    }

    /// Ends the reading of the client's text: the outcome is there, or nobody wants it any more.
    pub(crate) fn end_reading(&mut self) {
        self.go("end_reading", Phase::Idle);
    }

    /// Lets the client wait for somebody else to carry out its KILL: another worker or Onramp, or the server before the
    /// rest of its text goes on.
    pub(crate) fn kill_elsewhere(&mut self, killing: Killing) {
        self.go("kill_elsewhere", Phase::Killing(Box::new(killing)));
    }

    /// Ends the wait for a KILL, which has been answered, or will not be.
    pub(crate) fn end_killing(&mut self) -> Option<Killing> {
        if !matches!(self.state.0, Phase::Killing(_)) {
            return None;
        }
        match self.go("end_killing", Phase::Idle) {
            Phase::Killing(killing) => Some(*killing),
            _ => None,
        }
    }

    /// Notes that the client's statement goes to a replica.
    pub(crate) fn lend(&mut self, lent: Lent) {
        self.go("lend", Phase::Lent(Box::new(lent)));
    }

    /// Takes the client back: its statement is over at the replica, or goes elsewhere.
    pub(crate) fn come_back(&mut self) -> Option<Lent> {
        if !matches!(self.state.0, Phase::Lent(_)) {
            return None;
        }
        match self.go("come_back", Phase::Idle) {
            Phase::Lent(lent) => Some(*lent),
            _ => None,
        }
    }

    /// Notes that the client is lent to this engine by another one, for one statement.
    pub(crate) fn be_lent(&mut self) {
        self.go("be_lent", Phase::Idle);
    }

    /// Makes the client as it was when it was frozen: idle.
    pub(crate) fn be_thawed(&mut self) {
        self.go("be_thawed", Phase::Idle);
    }

    /// Lets the client's statement wait for a permit and a backend.
    pub(crate) fn queue(&mut self) {
        self.go("queue", Phase::Queued);
    }

    /// Lets the client's statement wait for the answer to another client's.
    pub(crate) fn follow(&mut self, group: u64) {
        self.go("follow", Phase::Following { group });
    }

    /// Lets the client's statement wait by itself from here on.
    pub(crate) fn go_alone(&mut self) {
        self.go("go_alone", Phase::Queued);
    }

    /// Notes that something goes ahead of the client's statement, and its answer is waited for.
    pub(crate) fn prepare(&mut self) {
        self.go("prepare", Phase::Preparing);
    }

    /// Notes that COM_STMT_PREPARE goes to the same backend once more: the server had no room for what it prepares.
    pub(crate) fn try_again(&mut self) {
        self.go("try_again", Phase::Preparing);
    }

    /// Lets the client's statement wait for room: the server had none for what it prepares.
    pub(crate) fn wait_for_room(&mut self) {
        self.go("wait_for_room", Phase::Queued);
    }

    /// Notes that the client's statement is on its way to the server. `dumps_log` says whether that is to send its binary log.
    pub(crate) fn run(&mut self, dumps_log: bool) {
        let running = if dumps_log { Running::Replicating { begun: false } } else { Running::OnServer };
        self.go("run", Phase::Running(running));
    }

    /// Lets the client go on in the place of the one with the answer that it waits for: that one runs, or is being settled.
    pub(crate) fn take_over(&mut self, settles: bool) {
        self.go("take_over", if settles { Phase::Settling } else { Phase::Running(Running::OnServer) });
    }

    /// Lets another client go on in this one's place. This one waits as if it had not begun.
    pub(crate) fn hand_over(&mut self) {
        self.go("hand_over", Phase::Queued);
    }

    /// Lets the client's statement wait again, to go to another backend.
    pub(crate) fn queue_again(&mut self) {
        self.go("queue_again", Phase::Queued);
    }

    /// Notes that the first event of the binary log has come. False where it had come before, or the client has not asked for the log.
    pub(crate) fn begin_log(&mut self) -> bool {
        let waits = matches!(self.state.0, Phase::Running(Running::Replicating { begun: false }));
        if waits {
            self.go("begin_log", Phase::Running(Running::Replicating { begun: true }));
        }
        waits
    }

    /// Notes that the client sends a file. `next` is the number of its next packet; `continues` says whether the last one was full.
    pub(crate) fn upload(&mut self, continues: bool, next: u8) {
        self.go("upload", Phase::Running(Running::Uploading { continues, next }));
    }

    /// Notes that the client's file has come to its end.
    pub(crate) fn end_upload(&mut self) {
        self.go("end_upload", Phase::Running(Running::OnServer));
    }

    /// Notes that Onramp asks for what the client's statement has left behind.
    pub(crate) fn settle(&mut self) {
        self.go("settle", Phase::Settling);
    }

    /// Ends the wait of the client's statement, which will not run.
    pub(crate) fn cancel(&mut self) {
        self.go("cancel", Phase::Idle);
    }

    /// Ends the client's statement.
    pub(crate) fn end_statement(&mut self) {
        self.go("end_statement", Phase::Idle);
    }

    /// Sets the phase, which nothing else does. Returns the one before.
    fn go(&mut self, by: &str, to: Phase) -> Phase {
        moves::check(MOVES, "a client", by, At::of(&self.state.0), At::of(&to));
        std::mem::replace(&mut self.state.0, to)
    }

    /// Sets the phase, as if the client had come there.
    #[cfg(test)]
    pub(crate) fn set_phase(&mut self, phase: Phase) {
        self.state.0 = phase;
    }
}

#[cfg(test)]
mod tests;
