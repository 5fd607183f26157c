//! What a connection of its own would have answered: a private server with one session, asked the same things.

use super::reply::{Part, Progress, ReplyReader};
use crate::protocol::PacketBuffer;
use crate::server::commands::{self, Reply};
use crate::server::database::{Database, Execution};
use crate::server::session::{Fresh, Session};

/// A client's own private server.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// The session as it should be.
    pub session: Session,
    database: Database,
}

/// What a command must lead to.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Exactly this reply.
    Reply(Vec<Part>),
    /// A request for a file to be loaded into this table, then a reply.
    File(Vec<Part>, String),
    /// Any whole reply: its content depends on others.
    Anything,
    /// Nothing at all.
    Silence,
}

impl Expected {
    /// Whether the reply ends with an error.
    pub fn fails(&self) -> bool {
        matches!(self, Self::Reply(parts) if matches!(parts.last(), Some(Part::Error(..))))
    }
}

impl Oracle {
    /// The private server of a client that has just logged in.
    pub fn new(session: Session) -> Self {
        let mut database = Database::new(Vec::new());
        database.threads.push(session.thread_id);
        Self { session, database }
    }

    /// Runs the command. Also returns how the statements in it should run.
    pub fn run(&mut self, payload: &[u8]) -> (Expected, Vec<Execution>) {
        let command = payload.first().copied().unwrap_or(0);
        let expected = match commands::run(&mut self.session, &mut self.database, payload) {
            Reply::Packets(bytes) => Expected::Reply(self.parts(command, &bytes)),
            Reply::WantsFile { packets, table } => Expected::File(self.parts(command, &packets), table),
            Reply::Silence | Reply::Quit => Expected::Silence,
            Reply::ChangeUser => Expected::Anything,
        };
        (expected, std::mem::take(&mut self.database.executions))
    }

    /// A KILL, of whose outcome the private server knows nothing: [`Self::note_kill`] follows.
    pub fn run_kill(&mut self, payload: &[u8]) -> (Expected, Vec<Execution>) {
        let before = self.session.clone();
        let (_, executions) = self.run(payload);
        self.session = before;
        (Expected::Anything, executions)
    }

    /// The reply to a file that was sent.
    pub fn finish_load(&mut self, table: &str, contents: &[u8]) -> Vec<Part> {
        let bytes = commands::finish_load(&mut self.session, &mut self.database, table, contents, 1);
        self.parts(crate::protocol::command::PING, &bytes)
    }

    /// The account has changed.
    pub fn change_user(&mut self, user: &str, schema: Option<String>, collation: u8) {
        self.session.change_user(&mut self.database, user, schema, collation);
    }

    /// A KILL was answered like this: what the next statement may ask about it.
    pub fn note_kill(&mut self, found: &[Part]) {
        if let [Part::Error(code, message)] = found {
            self.session.fail(*code, message);
        } else {
            self.session.begin_statement();
            self.session.row_count = 0;
        }
    }

    /// Whether the session holds what keeps its client on one connection.
    pub fn holds(&self) -> bool {
        self.session.holds_state(&self.database)
    }

    /// A statement has failed for what became of servers; `rolls_back` the transaction with it. What may be asked about it is told apart
    /// from what a server itself would say.
    pub fn fails(&mut self, code: u16, message: &str, rolls_back: bool) {
        if rolls_back {
            self.session.rollback(&mut self.database);
        }
        self.session.fail(code, message);
        self.session.fresh = Fresh::default();
    }

    fn parts(&self, command: u8, bytes: &[u8]) -> Vec<Part> {
        let mut buffer = PacketBuffer::default();
        buffer.push(bytes);
        let mut reader = ReplyReader::new(self.session.capabilities, command);
        while let Some(packet) = buffer.next_packet() {
            let progress = reader.push(packet.sequence, &packet.payload);
            assert!(
                !matches!(progress, Progress::Broken(_)),
                "the model reads its own replies: {progress:?}"
            );
        }
        reader.parts
    }
}

/// Where two replies differ, for people.
pub fn difference(expected: &[Part], found: &[Part]) -> String {
    let place = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let shown = |parts: &[Part]| match parts.get(place) {
        Some(Part::Packet(bytes)) => crate::trace::Shown(bytes).to_string(),
        Some(part) => format!("{part:?}"),
        None => "nothing".to_owned(),
    };
    format!("packet {place} should be {} and is {}", shown(expected), shown(found))
}
