//! A server as small as one can be: it takes what the engine sends, and answers when it is told to.

use std::collections::{BTreeMap, VecDeque};

use arbitrary::Arbitrary;
use wire::{
    AuthSwitch, BULK_UNIT_RESULTS, Capabilities, Column, CommandKind, EofPacket, ErrPacket, Greeting,
    LoginRequest, OkPacket, ResultSetWriter, StatusFlags, put_lenenc_bytes, put_message, read_message,
    split_query_attributes,
};

/// The service account's name.
pub const SERVICE_USER: &str = "onramp";

/// Who may log in without a password: name, whether the account is locked, whether it may kill.
pub const ACCOUNTS: [(&str, &str, &str); 4] =
    [(SERVICE_USER, "0", "1"), ("alice", "0", "0"), ("bob", "0", "1"), ("eve", "1", "0")];

/// How a command is to be answered.
#[derive(Arbitrary, Clone, Copy, Debug, Default)]
pub struct Answer {
    outcome: Outcome,
    warnings: u8,
    insert_id: u8,
    /// One of [`CHANGES`]; most numbers mean none.
    change: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug, Default)]
enum Outcome {
    #[default]
    AsAsked,
    /// The statement at this place of the text fails with one of [`ERRORS`].
    Fails {
        at: u8,
        error: u8,
    },
    Status(u16),
    WantsFile,
    /// At the end of a login only.
    SwitchesScramble,
}

impl Answer {
    /// Whether the client has to send a file first.
    pub fn wants_file(self) -> bool {
        matches!(self.outcome, Outcome::WantsFile)
    }
}

/// Session state that trackers report: a variable and its value, or a schema under an empty name.
const CHANGES: [(&str, &str); 9] = [
    ("", "beta"),
    ("", ""),
    ("sql_mode", "ANSI_QUOTES"),
    ("sql_mode", "NO_BACKSLASH_ESCAPES"),
    ("character_set_client", "gbk"),
    ("character_set_results", "latin1"),
    ("autocommit", "OFF"),
    ("time_zone", "it's"),
    ("max_statement_time", "1.000000"),
];

/// Lost schemas, a full server, a wrong password, a deadlock, a syntax error, an interruption, an unknown variable, no room for
/// prepared statements, a duplicate key.
const ERRORS: [u16; 11] = [1049, 1044, 1040, 1226, 1045, 1213, 1064, 1317, 1193, 1461, 1062];

/// Stands for NULL in rows.
const NULL: &str = "\0";

/// The two kinds of servers.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    MariaDb,
    MySql,
}

/// One connection, from the server's side.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    user: String,
    capabilities: Capabilities,
    status: StatusFlags,
    input: Vec<u8>,
    /// What has not been answered yet: payloads and the number of the answer.
    commands: VecDeque<(Vec<u8>, u8)>,
    /// What is prepared, by its number.
    prepared: BTreeMap<u32, String>,
    last_prepared: u32,
    /// What has been answered but not delivered.
    pub outgoing: Vec<u8>,
    /// The server closes once that is delivered.
    pub ends: bool,
}

#[derive(Debug, PartialEq)]
enum Phase {
    LoggingIn,
    Ready,
    LoadingFile,
    /// The binary log has been asked for: the number of the next packet, and the name that was given.
    Dumping(u8, Vec<u8>),
}

impl Session {
    /// A connection that has just been accepted.
    pub fn new(thread_id: u32, kind: Kind) -> Self {
        let mut payload = Vec::new();
        let of_mariadb = Capabilities::PROGRESS
            | Capabilities::BULK_OPERATIONS
            | Capabilities::EXTENDED_METADATA
            | Capabilities::CACHE_METADATA
            | Capabilities::BULK_UNIT_RESULTS;
        let (version, own, other): (&[u8], _, _) = match kind {
            Kind::MariaDb => (b"5.5.5-10.11.14-MariaDB", of_mariadb, Capabilities::LONG_PASSWORD),
            Kind::MySql => (b"9.7.0", Capabilities::QUERY_ATTRIBUTES, Capabilities::NONE),
        };
        Greeting {
            server_version: version,
            connection_id: thread_id,
            scramble: [b'x'; 20],
            capabilities: Capabilities(0x81ff_f7ff)
                .without(Capabilities::SSL)
                .without(Capabilities::COMPRESS)
                .without(other)
                .with(own),
            collation: 8,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: b"mysql_native_password",
        }
        .put(&mut payload);
        let mut outgoing = Vec::new();
        put_message(&mut outgoing, &mut 0, &payload);
        Self {
            phase: Phase::LoggingIn,
            user: String::new(),
            capabilities: Capabilities::NONE,
            status: StatusFlags::AUTOCOMMIT,
            input: Vec::new(),
            commands: VecDeque::new(),
            prepared: BTreeMap::new(),
            last_prepared: 8,
            outgoing,
            ends: false,
        }
    }

    /// Takes in what the engine sent, which must be whole messages one after the other.
    pub fn receive(&mut self, bytes: &[u8]) {
        if matches!(self.phase, Phase::Dumping(..)) {
            return; // a replica acknowledges events
        }
        self.input.extend_from_slice(bytes);
        while let Some(&sequence) = self.input.get(3) {
            let message = read_message(&self.input, sequence, usize::MAX).expect("the engine frames well");
            let Some(message) = message else { break };
            let consumed = message.consumed;
            let (payload, next) = (message.payload.to_vec(), message.last_sequence.wrapping_add(1));
            self.input.drain(..consumed);
            if self.phase != Phase::LoadingFile {
                self.commands.push_back((payload, next));
            } else if payload.is_empty() {
                self.phase = Phase::Ready;
                self.ok(next, Answer::default(), StatusFlags::NONE);
            }
        }
    }

    /// Whether something waits for [`Self::answer`].
    pub fn is_asked(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether what waits is the engine's own: a login, its setup, or a question of the service account.
    pub fn is_asked_by_the_engine(&self) -> bool {
        let Some((payload, _)) = self.commands.front() else { return false };
        let own = [&b"CURRENT_USER()"[..], b"CURRENT_USER())", b"SHOW WARNINGS", b"\x1f"];
        self.phase == Phase::LoggingIn
            || self.user == SERVICE_USER
            || own.iter().any(|text| payload.ends_with(text))
    }

    /// Answers the oldest command.
    pub fn answer(&mut self, how: Answer) {
        let Some((payload, sequence)) = self.commands.pop_front() else { return self.go_on(how) };
        if self.phase == Phase::LoggingIn {
            return self.answer_login(&payload, sequence, how);
        }
        if let Outcome::Status(flags) = how.outcome {
            let said = StatusFlags::IN_TRANS | StatusFlags::AUTOCOMMIT | StatusFlags::NO_BACKSLASH_ESCAPES;
            self.status = StatusFlags(flags & said.0);
        }
        let Some((&kind, body)) = payload.split_first() else { return self.ok(1, how, StatusFlags::NONE) };
        match CommandKind::from_byte(kind) {
            Some(CommandKind::Query) if self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) => {
                let (_, text) = split_query_attributes(body).expect("the engine writes attributes well");
                self.answer_text(text, how);
            }
            Some(CommandKind::Query) => self.answer_text(body, how),
            Some(CommandKind::StmtClose) => {
                self.prepared.remove(&number_of(body));
            }
            Some(CommandKind::StmtSendLongData) => {}
            Some(CommandKind::Quit) => self.ends = true,
            _ if matches!(how.outcome, Outcome::Fails { .. }) => self.error(sequence, how),
            Some(CommandKind::StmtPrepare) => self.prepare(sequence, body),
            Some(CommandKind::StmtExecute | CommandKind::StmtBulkExecute) => {
                self.execute(kind, sequence, body, how);
            }
            Some(CommandKind::StmtFetch) => {
                let last = if how.insert_id % 2 == 1 {
                    StatusFlags::LAST_ROW_SENT
                } else {
                    StatusFlags::CURSOR_EXISTS
                };
                self.eof(1, last);
            }
            Some(CommandKind::FieldList) => self.eof(1, StatusFlags::NONE),
            Some(CommandKind::BinlogDump | CommandKind::BinlogDumpGtid) => {
                self.phase = Phase::Dumping(sequence, body.to_vec());
                self.go_on(how);
            }
            Some(CommandKind::ResetConnection) => {
                self.prepared.clear();
                self.ok(sequence, how, StatusFlags::NONE);
            }
            Some(CommandKind::Statistics) => self.packet(&mut 1, b"Uptime: 1"),
            _ => self.ok(sequence, how, StatusFlags::NONE),
        }
    }

    /// One more event of the binary log, with what was asked for in it, or its end.
    fn go_on(&mut self, how: Answer) {
        let Phase::Dumping(mut sequence, asked) = std::mem::replace(&mut self.phase, Phase::Ready) else {
            return;
        };
        match how.outcome {
            Outcome::Fails { .. } => self.error(sequence, how),
            Outcome::Status(_) => self.eof(sequence, StatusFlags::NONE),
            _ => {
                let event = [&[0; 20], &asked[..]].concat();
                self.packet(&mut sequence, &event);
                self.phase = Phase::Dumping(sequence, asked);
            }
        }
    }

    /// A statement has as many parameters as question marks. Its columns are not described.
    fn prepare(&mut self, mut sequence: u8, text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        let parameters = u16::try_from(text.matches('?').count()).unwrap_or(u16::MAX);
        self.last_prepared += 1;
        let number = self.last_prepared.to_le_bytes();
        self.prepared.insert(self.last_prepared, text);
        let head = [&[0], &number[..], &[0, 0], &parameters.to_le_bytes(), &[0, 0, 0]].concat();
        self.packet(&mut sequence, &head);
        let mut definition = Vec::new();
        for part in [&b"def"[..], b"", b"", b"", b"?", b""] {
            put_lenenc_bytes(&mut definition, part);
        }
        if self.capabilities.contains(Capabilities::EXTENDED_METADATA) {
            definition.push(0);
        }
        // Its length, then binary, of no length, VAR_STRING, no flags, no decimals.
        definition.extend_from_slice(&[12, 63, 0, 0, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
        for _ in 0..parameters {
            self.packet(&mut sequence, &definition);
        }
        if parameters > 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            self.eof(sequence, StatusFlags::NONE);
        }
    }

    /// A SELECT gives its own text, so that it is known whose it is.
    fn execute(&mut self, kind: u8, sequence: u8, body: &[u8], how: Answer) {
        let Some(text) = self.prepared.get(&number_of(body)).cloned() else {
            return self.error(sequence, Answer { outcome: Outcome::Fails { at: 0, error: 0 }, ..how });
        };
        let bulk = kind == CommandKind::StmtBulkExecute as u8;
        let flags =
            u16::from_le_bytes([body.get(4).copied().unwrap_or(0), body.get(5).copied().unwrap_or(0)]);
        let cursor = !bulk && flags & 1 != 0 && how.insert_id % 2 == 1;
        let mut sequence = sequence;
        if bulk && flags & BULK_UNIT_RESULTS != 0 {
            self.rows(&mut sequence, &[vec![b"7".to_vec(), b"1".to_vec()]], StatusFlags::NONE);
        } else if !text.starts_with("SELECT") || bulk {
            self.ok(sequence, how, StatusFlags::NONE);
        } else if cursor {
            self.rows(&mut sequence, &[], StatusFlags::CURSOR_EXISTS);
        } else {
            self.rows(&mut sequence, &[vec![text.into_bytes()]], StatusFlags::NONE);
        }
    }

    fn answer_login(&mut self, payload: &[u8], mut sequence: u8, how: Answer) {
        match LoginRequest::parse(payload) {
            Ok(login) if self.user.is_empty() => {
                self.user = String::from_utf8_lossy(login.user).into_owned();
                self.capabilities = login.capabilities;
            }
            _ => {}
        }
        match how.outcome {
            Outcome::SwitchesScramble => {
                let mut switch = Vec::new();
                AuthSwitch { plugin: b"mysql_native_password", data: &[b'y'; 21] }.put(&mut switch);
                self.packet(&mut sequence, &switch);
            }
            Outcome::Fails { .. } => self.error(sequence, how),
            _ => {
                self.phase = Phase::Ready;
                self.ok(sequence, Answer::default(), StatusFlags::NONE);
            }
        }
    }

    /// One result for each statement of a text.
    fn answer_text(&mut self, text: &[u8], how: Answer) {
        let text = String::from_utf8_lossy(text).into_owned();
        let statements: Vec<&str> = statements(&text);
        let mut sequence = 1;
        for (place, statement) in statements.iter().enumerate() {
            match how.outcome {
                Outcome::Fails { at, .. } if usize::from(at) % statements.len() == place => {
                    return self.error(sequence, how);
                }
                Outcome::WantsFile if place + 1 == statements.len() => {
                    self.phase = Phase::LoadingFile;
                    return self.packet(&mut sequence, b"\xfbfile");
                }
                _ => {}
            }
            let last = place + 1 == statements.len();
            let more = if last { StatusFlags::NONE } else { StatusFlags::MORE_RESULTS_EXISTS };
            self.answer_statement(statement, &mut sequence, how, more);
        }
        if statements.is_empty() {
            self.error(sequence, how); // "Query was empty"
        }
    }

    fn answer_statement(&mut self, statement: &str, sequence: &mut u8, how: Answer, more: StatusFlags) {
        let upper = statement.to_ascii_uppercase();
        match upper.split_whitespace().next().unwrap_or_default() {
            "SHOW" if statement.contains("Com_grant") => {
                let count = [b"Com_grant".to_vec(), how.warnings.to_string().into_bytes()].to_vec();
                return self.rows(sequence, &[count], more);
            }
            "SHOW" => {
                let warning = [b"Warning".to_vec(), b"1264".to_vec(), b"text".to_vec()].to_vec();
                return self.rows(sequence, &vec![warning; usize::from(how.warnings % 3)], more);
            }
            "SELECT" => return self.rows(sequence, &self.selected(statement, how), more),
            "BEGIN" | "START" => self.status |= StatusFlags::IN_TRANS,
            "COMMIT" | "ROLLBACK" => self.status = self.status.without(StatusFlags::IN_TRANS),
            "SET" if upper.contains("AUTOCOMMIT=0") => {
                self.status = self.status.without(StatusFlags::AUTOCOMMIT);
            }
            "SET" if upper.contains("AUTOCOMMIT=1") => self.status |= StatusFlags::AUTOCOMMIT,
            "INSERT" if !self.status.contains(StatusFlags::AUTOCOMMIT) => {
                self.status |= StatusFlags::IN_TRANS;
            }
            _ => {}
        }
        self.ok(*sequence, how, more);
        *sequence = sequence.wrapping_add(1);
    }

    /// The rows of a SELECT. What is not known is answered with the statement's own text, by which its owner is known.
    fn selected(&self, statement: &str, how: Answer) -> Vec<Vec<Vec<u8>>> {
        let row = |fields: &[&str]| fields.iter().map(|field| field.as_bytes().to_vec()).collect::<Vec<_>>();
        if statement.contains("information_schema.COLLATIONS") {
            vec![row(&["8", "latin1_swedish_ci", "latin1"]), row(&["45", "utf8mb4_general_ci", "utf8mb4"])]
        } else if statement.contains("@@global.skip_name_resolve") {
            let trackers = ["1", "0", "autocommit,time_zone", "OFF"];
            let usual = ["1", "", "151", "65536", "latin1_swedish_ci", "1", "20"];
            vec![row(&[&usual[..], &trackers].concat())]
        } else if statement.contains("mysql.func") || statement.contains("Com_grant") {
            // Functions, and statements that have changed accounts.
            vec![row(&[&how.warnings.to_string()])]
        } else if statement.contains("SUM(CRC32(") {
            vec![row(&[&how.insert_id.to_string()])]
        } else if statement.contains("mysql.global_priv") || statement.contains("mysql.user") {
            let account = |&(user, locked, may_kill): &(&str, &str, &str)| {
                let rights = (how.insert_id % 2).to_string();
                // Nothing of TLS, no age, no second password, no other method.
                row(&[
                    user,
                    "%",
                    "mysql_native_password",
                    "",
                    locked,
                    may_kill,
                    "",
                    "",
                    "",
                    "",
                    "0",
                    "",
                    "0",
                    NULL,
                    &rights,
                ])
            };
            ACCOUNTS.iter().map(account).collect()
        } else if statement.contains("CURRENT_USER()") {
            vec![row(&[&format!("{}@%", self.user)])]
        } else if statement.ends_with(" AS BINARY)") {
            // Variables in doubt, behind FOUND_ROWS().
            let values = std::iter::repeat_n("latin1", statement.matches("CAST(").count());
            vec![row(&[&["1"], &values.collect::<Vec<_>>()[..]].concat())]
        } else if statement.starts_with("SELECT LAST_INSERT_ID(),") {
            vec![row(&["7", "0", "1"][..statement.split(',').count()])]
        } else {
            vec![row(&[statement])]
        }
    }

    fn rows(&mut self, sequence: &mut u8, rows: &[Vec<Vec<u8>>], more: StatusFlags) {
        let width = rows.first().map_or(1, Vec::len);
        let columns = vec![Column::text("column"); width];
        let (status, form) = (self.status | more, self.capabilities);
        let mut writer = ResultSetWriter::begin(&mut self.outgoing, sequence, &columns, status, form);
        for row in rows {
            let field = |field: &Vec<u8>| (*field != NULL.as_bytes()).then(|| field.clone());
            let fields: Vec<_> = row.iter().map(field).collect();
            writer.row(&fields.iter().map(Option::as_deref).collect::<Vec<_>>());
        }
        writer.finish();
    }

    fn ok(&mut self, mut sequence: u8, how: Answer, more: StatusFlags) {
        let changes = CHANGES.get(usize::from(how.change)).map(change).unwrap_or_default();
        let changed = if changes.is_empty() { StatusFlags::NONE } else { StatusFlags::SESSION_STATE_CHANGED };
        let mut payload = Vec::new();
        OkPacket {
            affected_rows: u64::from(how.insert_id),
            last_insert_id: u64::from(how.insert_id),
            warnings: u16::from(how.warnings % 3),
            session_changes: &changes,
            ..OkPacket::plain(self.status | more | changed)
        }
        .put(&mut payload, self.capabilities.contains(Capabilities::SESSION_TRACK));
        self.packet(&mut sequence, &payload);
    }

    fn eof(&mut self, mut sequence: u8, more: StatusFlags) {
        let mut payload = Vec::new();
        EofPacket { warnings: 0, status: self.status | more }.put(&mut payload);
        self.packet(&mut sequence, &payload);
    }

    fn error(&mut self, mut sequence: u8, how: Answer) {
        let code = match how.outcome {
            Outcome::Fails { error, .. } => ERRORS[usize::from(error) % ERRORS.len()],
            _ => 1065,
        };
        let mut payload = Vec::new();
        ErrPacket { code, sql_state: *b"HY000", message: b"refused by 'sql_mode'" }.put(&mut payload);
        self.packet(&mut sequence, &payload);
    }

    fn packet(&mut self, sequence: &mut u8, payload: &[u8]) {
        put_message(&mut self.outgoing, sequence, payload);
    }
}

/// The number of a prepared statement, in front of what follows a command's byte.
fn number_of(body: &[u8]) -> u32 {
    body.first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
}

/// The statements of a text, cut at semicolons outside of quotes.
fn statements(text: &str) -> Vec<&str> {
    let mut quote = None;
    let cut = |sign: char| match quote {
        Some(open) => {
            quote = quote.filter(|_| sign != open);
            false
        }
        None => {
            quote = Some(sign).filter(|sign| matches!(sign, '\'' | '`'));
            sign == ';'
        }
    };
    text.split(cut).map(str::trim).filter(|statement| !statement.is_empty()).collect()
}

/// A tracker's report: its kind, and its length-encoded body.
fn change(&(name, value): &(&str, &str)) -> Vec<u8> {
    let mut body = Vec::new();
    if !name.is_empty() {
        put_lenenc_bytes(&mut body, name.as_bytes());
    }
    put_lenenc_bytes(&mut body, value.as_bytes());
    // SESSION_TRACK_SCHEMA is 1, SESSION_TRACK_SYSTEM_VARIABLES 0 (enum_session_state_type).
    let mut report = vec![u8::from(name.is_empty())];
    put_lenenc_bytes(&mut report, &body);
    report
}
