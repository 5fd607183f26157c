//! Runs lists of statements over a few connections: how tables are made, dropped and checked, and how a server is
//! looked at before a run.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::io::Errno;
use seam::{Address, ConnectionId, Input, Instant, Output, Program};

use crate::errors::{ClientError, Failure};
use crate::outbox::Outbox;
use crate::progress::Progress;
use crate::reply::{Ending, Expect, ReplyReader};
use login::{Credentials, Login, Session};

/// Appends the text of a statement, which is known by its number.
pub type PutText<'a> = Box<dyn FnMut(u64, &mut Vec<u8>) + 'a>;

/// Statements that may be sent at the same time. The next stage begins when all are answered.
pub struct Stage<'a> {
    /// What a progress line calls it; `None` for what is over at once.
    pub title: Option<&'a str>,
    /// How many there are.
    pub statements: u64,
    /// How many units of progress each is worth; the last one may be worth less.
    pub units: u64,
    /// How many units there are in all.
    pub total_units: u64,
    /// Appends the text of one, counted from 0.
    pub text: PutText<'a>,
    /// Server errors that do not matter.
    pub tolerated: &'static [u16],
}

impl<'a> Stage<'a> {
    /// A stage of one statement.
    pub fn single(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            title: None,
            statements: 1,
            units: 1,
            total_units: 1,
            text: Box::new(move |_, out| out.extend_from_slice(text.as_bytes())),
            tolerated: &[],
        }
    }
}

/// What a script brought back.
#[derive(Debug, Default)]
pub struct Answers {
    /// The payload of the first row of each statement that had one, cut after 64 bytes; in the order of the answers.
    pub rows: Vec<Vec<u8>>,
    /// What the server calls itself.
    pub server_version: String,
}

impl Answers {
    /// The only column of the first row of a statement; `None` for NULL and where there is no such row.
    pub fn text(&self, statement: usize) -> Option<String> {
        let value = wire::Reader::new(self.rows.get(statement)?).lenenc_bytes_or_null().ok()??;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Runs the stages against one address over at most `connections` connections.
///
/// # Errors
/// The first failure that is not tolerated; what was sent before stays done.
pub fn execute(
    address: &Address,
    credentials: &Credentials,
    connections: usize,
    stages: Vec<Stage<'_>>,
) -> Result<Answers, Failure> {
    let mut driver = crate::new_driver()?;
    let interrupts = crate::interrupts::forward(&driver)?;
    let widest = stages.iter().map(|stage| stage.statements).max().unwrap_or(1);
    let lanes = connections.min(usize::try_from(widest).unwrap_or(usize::MAX)).max(1);
    let mut script = Script::new(address.clone(), credentials.clone(), lanes, stages);
    let ran = driver.run(&mut script);
    drop(interrupts);
    ran.map_err(|error| Failure::new(ClientError::Lost, format!("the event loop failed: {error}")))?;
    match script.failure {
        Some(failure) => Err(failure),
        None => Ok(script.answers),
    }
}

/// How long a connection may take to be made and logged in: as long as servers give clients
/// (`connect_timeout`, 10 seconds).
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

struct Script<'a> {
    address: Address,
    credentials: Credentials,
    lanes: Vec<Lane>,
    stages: VecDeque<Stage<'a>>,
    /// The next statement of the first stage.
    next: u64,
    in_flight: u64,
    progress: Option<Progress>,
    outbox: Outbox,
    answers: Answers,
    failure: Option<Failure>,
    login_deadline: Option<Instant>,
    finished: bool,
}

/// One connection of a script.
enum Lane {
    Down,
    LoggingIn { connection: ConnectionId, login: Login },
    Free { connection: ConnectionId, reply: Box<ReplyReader> },
    Busy { connection: ConnectionId, reply: Box<ReplyReader> },
}

impl Lane {
    fn connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Down => None,
            Self::LoggingIn { connection, .. }
            | Self::Free { connection, .. }
            | Self::Busy { connection, .. } => Some(*connection),
        }
    }
}

impl<'a> Script<'a> {
    fn new(address: Address, credentials: Credentials, lanes: usize, stages: Vec<Stage<'a>>) -> Self {
        let mut outbox = Outbox::default();
        for lane in 0..lanes {
            outbox.connect(lane as u64, address.clone());
        }
        let mut script = Self {
            address,
            credentials,
            lanes: std::iter::repeat_with(|| Lane::Down).take(lanes).collect(),
            stages: stages.into(),
            next: 0,
            in_flight: 0,
            progress: None,
            outbox,
            answers: Answers::default(),
            failure: None,
            login_deadline: None,
            finished: false,
        };
        script.begin_stage();
        script
    }

    fn begin_stage(&mut self) {
        self.next = 0;
        self.progress = self
            .stages
            .front()
            .and_then(|stage| stage.title.map(|title| Progress::new(title, stage.total_units)));
    }

    fn lane_of(&self, connection: ConnectionId) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.connection() == Some(connection))
    }

    fn receive(&mut self, lane: usize, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.lanes[lane] {
            Lane::LoggingIn { connection, login } => {
                let connection = *connection;
                let credentials = &self.credentials;
                let session = self.outbox.send(connection, |out| login.read(bytes, credentials, out))?;
                if let Some(session) = session {
                    self.logged_in(lane, connection, session);
                }
                Ok(())
            }
            Lane::Busy { connection, reply } => {
                let complete = reply.read(bytes).map_err(malformed)?;
                if complete.is_none() {
                    return Ok(());
                }
                let connection = *connection;
                let Lane::Busy { reply, .. } = std::mem::replace(&mut self.lanes[lane], Lane::Down) else {
                    unreachable!("the lane was just busy")
                };
                let answered = self.answered(&reply);
                self.lanes[lane] = Lane::Free { connection, reply };
                answered
            }
            Lane::Down | Lane::Free { .. } => Err(unexpected_bytes(bytes)),
        }
    }

    fn logged_in(&mut self, lane: usize, connection: ConnectionId, session: Session) {
        let reply = Box::new(ReplyReader::new(session.deprecate_eof));
        self.lanes[lane] = Lane::Free { connection, reply };
        self.answers.server_version = session.server_version;
    }

    fn answered(&mut self, reply: &ReplyReader) -> Result<(), Failure> {
        self.in_flight -= 1;
        let Some(stage) = self.stages.front() else { return Ok(()) };
        if let Ending::Error(error) = reply.ending() {
            if !stage.tolerated.contains(&error.code) {
                return Err(Failure::from(error));
            }
        }
        if reply.rows() > 0 {
            self.answers.rows.push(reply.first_row().to_vec());
        }
        if let Some(progress) = &mut self.progress {
            progress.advance(stage.units);
        }
        Ok(())
    }

    /// Gives free lanes something to do, goes on to the next stage, ends after the last.
    fn dispatch(&mut self) {
        loop {
            let Some(stage) = self.stages.front() else {
                self.finish();
                return;
            };
            if self.next == stage.statements && self.in_flight == 0 {
                self.stages.pop_front();
                self.begin_stage();
                continue;
            }
            if self.next == stage.statements || !self.send_next() {
                return;
            }
        }
    }

    /// Sends the next statement over a free lane; false where there is none.
    fn send_next(&mut self) -> bool {
        let Some(lane) = self.lanes.iter().position(|lane| matches!(lane, Lane::Free { .. })) else {
            return false;
        };
        let Lane::Free { connection, mut reply } = std::mem::replace(&mut self.lanes[lane], Lane::Down)
        else {
            return false;
        };
        let Some(stage) = self.stages.front_mut() else { return false };
        let number = self.next;
        self.outbox.send_command(connection, |out| {
            out.push(wire::CommandKind::Query as u8);
            (stage.text)(number, out);
        });
        reply.start(Expect::FirstRow);
        self.lanes[lane] = Lane::Busy { connection, reply };
        self.next += 1;
        self.in_flight += 1;
        true
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.finish();
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.progress = None;
        for lane in &self.lanes {
            match lane {
                Lane::Free { connection, .. } => self.outbox.quit(*connection),
                Lane::LoggingIn { connection, .. } | Lane::Busy { connection, .. } => {
                    self.outbox.close(*connection);
                }
                Lane::Down => {}
            }
        }
        self.outbox.finish();
    }
}

impl Program for Script<'_> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.finished {
            return;
        }
        let deadline = *self.login_deadline.get_or_insert(now + LOGIN_TIMEOUT);
        match input {
            Input::Connected { token, connection } => {
                self.lanes[token as usize] = Lane::LoggingIn { connection, login: Login::default() };
            }
            Input::ConnectFailed { errno, .. } => self.fail(connect_failure(&self.address, errno)),
            Input::Bytes { connection, bytes } => {
                if let Some(lane) = self.lane_of(connection) {
                    if let Err(failure) = self.receive(lane, bytes) {
                        self.fail(failure);
                    }
                }
            }
            Input::Closed { .. } => {
                self.fail(Failure::new(ClientError::Lost, format!("{} closed the connection", self.address)));
            }
            Input::Signal(_) => self.fail(Failure::new(ClientError::Lost, "interrupted".to_owned())),
            Input::TurnEnd => {
                let waiting =
                    self.lanes.iter().any(|lane| matches!(lane, Lane::Down | Lane::LoggingIn { .. }));
                if waiting && now >= deadline {
                    let text = format!("{} did not complete a login in {LOGIN_TIMEOUT:?}", self.address);
                    return self.fail(Failure::new(ClientError::Handshake, text));
                }
                self.dispatch();
            }
            Input::Accepted { .. } | Input::Stalled { .. } | Input::Drained { .. } => {}
            Input::Announced { .. } | Input::Secured { .. } | Input::TlsFailed { .. } => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.outbox.poll()
    }

    fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.lanes.iter().any(|lane| matches!(lane, Lane::Down | Lane::LoggingIn { .. }));
        if waiting { self.login_deadline } else { None }
    }
}

/// What a failed connect means.
pub fn connect_failure(address: &Address, errno: i32) -> Failure {
    let error = std::io::Error::from_raw_os_error(errno);
    let (code, where_to_look) = match address {
        Address::Tcp { .. } | Address::NotFound { .. } => (ClientError::Connect, "see --host and --port"),
        Address::Unix(_) => (ClientError::SocketConnect, "see --socket"),
    };
    let where_to_look = match Errno::from_raw_os_error(errno) {
        Errno::ADDRNOTAVAIL => {
            "every local port to there is in use or in TIME_WAIT (60 s after a close): more --local-address or --host, \
             fewer --connections, a lower rate, or a wider net.ipv4.ip_local_port_range"
        }
        Errno::MFILE => "the limit of open files of this process is reached: see ulimit -n",
        Errno::NFILE => "the limit of open files of this machine is reached: see sysctl fs.file-max",
        Errno::NOBUFS | Errno::NOMEM => {
            "the kernel has no memory for more sockets: see sysctl net.ipv4.tcp_mem"
        }
        _ => where_to_look,
    };
    Failure::new(code, format!("cannot connect to {address}: {error}; {where_to_look}"))
}

/// What bytes mean that are no answer to anything: the reason for a close, or somebody else's reply.
pub fn unexpected_bytes(bytes: &[u8]) -> Failure {
    // Servers say why before they close (shutdown, wait_timeout): an ERR packet with sequence number 0 or 1.
    if let Some(error) =
        bytes.get(wire::HEADER_LEN..).and_then(|payload| wire::ErrPacket::parse(payload).ok())
    {
        return Failure::from(error);
    }
    Failure::new(ClientError::Malformed, format!("{} bytes that nobody asked for", bytes.len()))
}

fn malformed(error: wire::WireError) -> Failure {
    Failure::new(ClientError::Malformed, error.to_string())
}
