//! The programs that a run can have in its middle.

use std::collections::{BTreeMap, VecDeque};

use engine::{Engine, Finding, Histogram, NotFrozen, PeerView, Routed, Task};
use seam::{Address, ConnectionId, Input, Instant, Output, Program, Signal};

use crate::faults::server_address;
use crate::freezing::What;

/// Whose connection to a server it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The place of the program; what that knows nothing of.
    pub program: usize,
    /// The worker.
    pub worker: usize,
    /// It is that of a check.
    pub is_check: bool,
    /// It is that of a reader, which has a server for its reads alone.
    pub is_reader: bool,
}

/// A program under test.
pub trait Subject: Program {
    /// What it reports about itself since last asked, for the trace.
    fn events(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// How many reads it has sent again, see `rescue_reads`.
    fn rescues(&self) -> u64 {
        0
    }

    /// How many it has sent behind others on their backend, and how many of these with their schema.
    fn shared_reads(&self) -> (u64, u64) {
        (0, 0)
    }

    /// How often a backend of it was to change its account.
    fn account_changes(&self) -> u64 {
        0
    }

    /// How long reads have waited for a replica to have what they were to see.
    fn read_waits(&self) -> Histogram {
        Histogram::default()
    }

    /// Where statements went, and why to the primary.
    fn routed(&self) -> Routed {
        Routed::default()
    }

    /// What is to be done on other threads than its own, with the worker that wants it.
    fn tasks(&mut self) -> Vec<(usize, Task)> {
        Vec::new()
    }

    /// What came of such a task of a worker. A turn follows.
    fn found(&mut self, _worker: usize, _number: u64, _finding: Finding) {}

    /// Its workers, the first of which looks after the servers; nobody where it is no engine.
    fn workers(&mut self) -> Vec<&mut Engine> {
        Vec::new()
    }

    /// The place of the server that it takes for the primary, as its events up to now say it.
    fn primary(&self) -> Option<usize> {
        None
    }

    /// Clients that it has closed as killed since last asked, by their ids, as its events up to now say it.
    fn killed(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// The Onramps in front of the server, as this one sees them.
    fn peers(&self) -> Vec<PeerView> {
        Vec::new()
    }

    /// Whose connection it is that it has asked for by this token.
    fn origin(&self, _token: u64) -> Origin {
        Origin::default()
    }

    /// Freezes and thaws the client or backend of it that this number chooses, or what is known of servers; `None` where it has none. Says
    /// whether a statement of a client waits.
    fn freeze(&mut self, _now: Instant, _what: What, _choice: u64) -> Option<Result<bool, NotFrozen>> {
        None
    }

    /// Whether it promises to keep `permits`, `max_backends` and an orderly end.
    fn keeps_limits(&self) -> bool;
}

impl Subject for Engine {
    fn events(&mut self) -> Vec<String> {
        // Nobody reads them: they are made, and room for more.
        while self.poll_slow().is_some() {}
        std::iter::from_fn(|| self.poll_event()).map(|event| event.to_string()).collect()
    }

    fn rescues(&self) -> u64 {
        self.figures().overview().totals.rescues
    }

    fn shared_reads(&self) -> (u64, u64) {
        let totals = self.figures().overview().totals;
        (totals.shared_reads, totals.schemas_brought)
    }

    fn account_changes(&self) -> u64 {
        self.figures().overview().totals.account_changes
    }

    fn tasks(&mut self) -> Vec<(usize, Task)> {
        std::iter::from_fn(|| self.poll_task()).map(|task| (0, task)).collect()
    }

    fn found(&mut self, _worker: usize, number: u64, finding: Finding) {
        self.take_finding(number, finding);
    }

    fn freeze(&mut self, now: Instant, what: What, choice: u64) -> Option<Result<bool, NotFrozen>> {
        let place = usize::try_from(choice).unwrap_or_default();
        match what {
            What::Client => self.freeze_and_thaw_client(now, place),
            What::Backend => self.freeze_and_thaw_backend(now, place).map(|outcome| outcome.map(|()| false)),
            What::Servers => Some(self.freeze_and_thaw_servers(now).map(|()| false)),
        }
    }

    fn keeps_limits(&self) -> bool {
        true
    }
}

/// Gives each client a connection to the server and passes bytes on as they are: what the simulation is tested with.
#[derive(Debug, Default)]
pub struct PassThrough {
    outputs: VecDeque<Owned>,
    current: Option<Owned>,
    /// The other end of each connection.
    partners: BTreeMap<ConnectionId, ConnectionId>,
    /// Clients that wait for their connection to the server, with what they sent meanwhile.
    waiting: BTreeMap<u64, (ConnectionId, Vec<u8>)>,
    next_token: u64,
}

/// An output that owns its bytes.
#[derive(Clone, Debug)]
pub enum Owned {
    /// [`Output::Connect`].
    Connect(u64, Address),
    /// [`Output::Send`].
    Send(ConnectionId, Vec<u8>),
    /// [`Output::Close`].
    Close(ConnectionId),
    /// [`Output::Abort`].
    Abort(ConnectionId),
    /// [`Output::PauseReading`].
    Pause(ConnectionId),
    /// [`Output::ResumeReading`].
    Resume(ConnectionId),
    /// [`Output::StopListening`].
    StopListening,
    /// [`Output::Finished`].
    Finished,
}

impl Owned {
    /// A copy of what another program asks for.
    pub fn copy(output: &Output<'_>) -> Self {
        match output {
            Output::Connect { token, address } => Self::Connect(*token, address.clone()),
            Output::Send { connection, bytes } => Self::Send(*connection, bytes.to_vec()),
            Output::SendWhole { connection, bytes } => Self::Send(*connection, bytes.clone()),
            Output::Close { connection } => Self::Close(*connection),
            Output::Abort { connection } => Self::Abort(*connection),
            Output::PauseReading { connection } => Self::Pause(*connection),
            Output::ResumeReading { connection } => Self::Resume(*connection),
            Output::StartTls { .. } | Output::StartCompression { .. } | Output::Unread { .. } => {
                unreachable!("neither TLS nor compression here")
            }
            Output::StopListening => Self::StopListening,
            Output::Finished => Self::Finished,
        }
    }

    /// The output itself.
    pub fn output(&self) -> Output<'_> {
        match self {
            Self::Connect(token, address) => Output::Connect { token: *token, address: address.clone() },
            Self::Send(connection, bytes) => Output::Send { connection: *connection, bytes },
            Self::Close(connection) => Output::Close { connection: *connection },
            Self::Abort(connection) => Output::Abort { connection: *connection },
            Self::Pause(connection) => Output::PauseReading { connection: *connection },
            Self::Resume(connection) => Output::ResumeReading { connection: *connection },
            Self::StopListening => Output::StopListening,
            Self::Finished => Output::Finished,
        }
    }
}

impl Subject for PassThrough {
    fn keeps_limits(&self) -> bool {
        false
    }
}

impl Program for PassThrough {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            Input::Accepted { connection, .. } => {
                self.next_token += 1;
                self.waiting.insert(self.next_token, (connection, Vec::new()));
                self.outputs.push_back(Owned::Connect(self.next_token, server_address(1)));
            }
            Input::Connected { token, connection } => match self.waiting.remove(&token) {
                Some((client, bytes)) => {
                    self.partners.insert(client, connection);
                    self.partners.insert(connection, client);
                    if !bytes.is_empty() {
                        self.outputs.push_back(Owned::Send(connection, bytes));
                    }
                }
                None => self.outputs.push_back(Owned::Close(connection)),
            },
            Input::ConnectFailed { token, .. } => {
                if let Some((client, _)) = self.waiting.remove(&token) {
                    self.outputs.push_back(Owned::Close(client));
                }
            }
            Input::Bytes { connection, bytes } => match self.partners.get(&connection) {
                Some(&partner) => self.outputs.push_back(Owned::Send(partner, bytes.to_vec())),
                None => {
                    let found = self.waiting.values_mut().find(|(client, _)| *client == connection);
                    if let Some((_, waiting)) = found {
                        waiting.extend_from_slice(bytes);
                    }
                }
            },
            Input::Stalled { connection } => {
                if let Some(&partner) = self.partners.get(&connection) {
                    self.outputs.push_back(Owned::Pause(partner));
                }
            }
            Input::Drained { connection } => {
                if let Some(&partner) = self.partners.get(&connection) {
                    self.outputs.push_back(Owned::Resume(partner));
                }
            }
            Input::Closed { connection, .. } => {
                self.waiting.retain(|_, (client, _)| *client != connection);
                if let Some(partner) = self.partners.remove(&connection) {
                    self.partners.remove(&partner);
                    self.outputs.push_back(Owned::Close(partner));
                }
            }
            Input::Signal(Signal::Drain | Signal::Stop) => self.outputs.push_back(Owned::Finished),
            Input::Announced { .. } | Input::Secured { .. } | Input::TlsFailed { .. } => {}
            Input::Signal(Signal::Wake | Signal::Report | Signal::Look) | Input::TurnEnd => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.current = self.outputs.pop_front();
        self.current.as_ref().map(Owned::output)
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
