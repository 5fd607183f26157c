//! A client's connection that hides nothing: every packet of a reply is kept as it came.
//!
//! Where a reply ends is found here anew and not with [`wire::ReplyReader`], which is under test.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use wire::{Capabilities, ChangeUser, CommandKind, Greeting, LoginRequest, StatusFlags, sha2_password};

use crate::method::Method;
use crate::step::Step;

/// Longer than any statement of a program takes, also while others hold all backends; who gets no answer within it
/// gets none at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// In a result's first byte: what follows are parameters of the binary protocol of this type.
const TYPE_VAR_STRING: u8 = 0xfd;
const TYPE_NULL: u8 = 0x06;
/// No client prepares this many: the name of a statement that is not there.
const NO_STATEMENT: u32 = 1_000_000;

/// How a client logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) schema: String,
    pub(crate) collation: u8,
    pub(crate) capabilities: u64,
}

/// What a packet is, as its place in the reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ok,
    Err,
    ColumnCount,
    Column,
    EndOfColumns,
    TextRow,
    BinaryRow,
    EndOfRows,
    LocalInfile,
    Prepared,
    Text,
}

/// A packet of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) role: Role,
    pub(crate) sequence: u8,
    pub(crate) payload: Vec<u8>,
}

/// All packets of a reply, and how it ended where that was not as it should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) packets: Vec<Packet>,
    pub(crate) broken: Option<String>,
}

/// The password of each account of the programs.
pub(crate) fn password(user: &str) -> String {
    format!("{user}-secret")
}

/// What every client of today says it speaks.
pub(crate) fn plain_capabilities() -> Capabilities {
    Capabilities::LONG_PASSWORD
        | Capabilities::LONG_FLAG
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::MULTI_RESULTS
        | Capabilities::PS_MULTI_RESULTS
}

pub(crate) struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    scramble: [u8; 20],
    method: Method,
    /// The id that the greeting gave.
    pub(crate) id: u32,
    pub(crate) capabilities: Capabilities,
    /// Ids of the prepared statements that are open.
    statements: Vec<u32>,
}

impl Connection {
    /// Connects and logs in. The reply is the login's.
    pub(crate) fn open(socket: &Path, login: &Login, password: &str) -> io::Result<(Self, Reply)> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Self {
            stream,
            received: Vec::new(),
            scramble: [0; 20],
            method: Method::Native,
            id: 0,
            capabilities: Capabilities::NONE,
            statements: Vec::new(),
        };
        let (_, payload) = connection.receive()?;
        let greeting =
            Greeting::parse(&payload).map_err(|error| invalid(&format!("{error:?} in {payload:?}")))?;
        connection.id = greeting.connection_id;
        connection.scramble = greeting.scramble;
        connection.method = Method::of_name(greeting.auth_plugin);
        connection.capabilities = Capabilities(login.capabilities & greeting.capabilities.0);
        let mut body = Vec::new();
        LoginRequest {
            capabilities: connection.capabilities,
            max_packet_size: 1 << 24,
            collation: login.collation,
            user: login.user.as_bytes(),
            auth_response: &connection.method.token(password, &connection.scramble),
            schema: Some(login.schema.as_bytes()).filter(|schema| !schema.is_empty()),
            auth_plugin: Some(connection.method.name()),
            attributes: b"",
        }
        .put(&mut body);
        connection.send(1, &body)?;
        let reply = connection.collect(|connection, packets| connection.login_answer(packets, password));
        Ok((connection, reply))
    }

    /// Performs a step and gives every reply to it; a reconnection is the caller's.
    pub(crate) fn perform(&mut self, step: &Step) -> Vec<Reply> {
        match step {
            Step::Query(text) => vec![self.ask(CommandKind::Query, text, Self::results)],
            Step::Burst(texts) => self.burst(texts),
            Step::InitDb(schema) => vec![self.ask(CommandKind::InitDb, schema, Self::one_packet)],
            Step::Ping => vec![self.ask(CommandKind::Ping, b"", Self::one_packet)],
            Step::Reset => {
                self.statements.clear();
                vec![self.ask(CommandKind::ResetConnection, b"", Self::one_packet)]
            }
            Step::ChangeUser { user, right_password, schema } => {
                vec![self.change_user(user, *right_password, schema)]
            }
            Step::FieldList(table, pattern) => {
                let body = [table, &b"\0"[..], pattern].concat();
                vec![self.ask(CommandKind::FieldList, &body, Self::field_list)]
            }
            Step::Statistics => vec![self.ask(CommandKind::Statistics, b"", Self::line)],
            Step::SetOption(option) => {
                vec![self.ask(CommandKind::SetOption, &option.to_le_bytes(), Self::one_packet)]
            }
            Step::Prepare(text) => vec![self.ask(CommandKind::StmtPrepare, text, Self::prepared)],
            Step::Execute { nth, cursor, values } => {
                let body = execute_body(self.statement(*nth), *cursor, values);
                vec![self.ask(CommandKind::StmtExecute, &body, Self::binary_results)]
            }
            Step::Bulk { nth, values } => {
                let body = bulk_body(self.statement(*nth), values);
                vec![self.ask(CommandKind::StmtBulkExecute, &body, Self::binary_results)]
            }
            Step::LongData { nth, data } => {
                let body = [&self.statement(*nth).to_le_bytes()[..], &[0, 0], data].concat();
                vec![self.ask(CommandKind::StmtSendLongData, &body, Self::nothing)]
            }
            Step::ResetStatement(nth) => {
                let body = self.statement(*nth).to_le_bytes();
                vec![self.ask(CommandKind::StmtReset, &body, Self::one_packet)]
            }
            Step::Fetch { nth, rows } => {
                let body = [self.statement(*nth).to_le_bytes(), rows.to_le_bytes()].concat();
                vec![self.ask(CommandKind::StmtFetch, &body, |connection, packets| {
                    connection.rows(packets, Role::BinaryRow).map(drop)
                })]
            }
            Step::CloseStatement(nth) => {
                let body = self.statement(*nth).to_le_bytes();
                if !self.statements.is_empty() {
                    self.statements.remove(nth % self.statements.len());
                }
                vec![self.ask(CommandKind::StmtClose, &body, Self::nothing)]
            }
            Step::Raw(payload) => {
                vec![self.exchange(payload, Self::one_packet)]
            }
            Step::Reconnect => Vec::new(),
        }
    }

    /// COM_QUIT, and waits until the other side has closed.
    pub(crate) fn quit(&mut self) {
        // A connection that is gone already is as good.
        if self.send(0, &[CommandKind::Quit as u8]).is_ok() {
            let mut rest = Vec::new();
            let _ = self.stream.read_to_end(&mut rest);
        }
    }

    fn statement(&self, nth: usize) -> u32 {
        if self.statements.is_empty() { NO_STATEMENT } else { self.statements[nth % self.statements.len()] }
    }

    fn ask(
        &mut self,
        kind: CommandKind,
        body: &[u8],
        read: impl FnOnce(&mut Self, &mut Vec<Packet>) -> io::Result<()>,
    ) -> Reply {
        self.exchange(&[&[kind as u8], body].concat(), read)
    }

    fn exchange(
        &mut self,
        payload: &[u8],
        read: impl FnOnce(&mut Self, &mut Vec<Packet>) -> io::Result<()>,
    ) -> Reply {
        if let Err(error) = self.send(0, payload) {
            return Reply { packets: Vec::new(), broken: Some(describe(&error)) };
        }
        self.collect(read)
    }

    fn collect(&mut self, read: impl FnOnce(&mut Self, &mut Vec<Packet>) -> io::Result<()>) -> Reply {
        let mut packets = Vec::new();
        let broken = read(self, &mut packets).err().map(|error| describe(&error));
        Reply { packets, broken }
    }

    fn burst(&mut self, texts: &[Vec<u8>]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for text in texts {
            wire::put_message(&mut bytes, &mut 0, &[&[CommandKind::Query as u8], &text[..]].concat());
        }
        let sent = self.stream.write_all(&bytes);
        let mut replies = Vec::new();
        for _ in texts {
            let reply = match &sent {
                Ok(()) => self.collect(Self::results),
                Err(error) => Reply { packets: Vec::new(), broken: Some(describe(error)) },
            };
            let is_broken = reply.broken.is_some();
            replies.push(reply);
            if is_broken {
                break;
            }
        }
        replies
    }

    fn change_user(&mut self, user: &str, right_password: bool, schema: &str) -> Reply {
        self.statements.clear();
        let password = if right_password { password(user) } else { String::from("wrong") };
        let mut body = Vec::new();
        ChangeUser {
            user: user.as_bytes(),
            auth_response: &self.method.token(&password, &self.scramble),
            schema: Some(schema.as_bytes()).filter(|schema| !schema.is_empty()),
            collation: Some(45), // utf8mb4_general_ci
            auth_plugin: Some(self.method.name()),
            attributes: b"",
        }
        .put(&mut body);
        self.exchange(&body, |connection, packets| connection.login_answer(packets, &password))
    }

    /// A login's answers. What the method asks carries random bytes, or depends on who has logged in before: it is answered,
    /// but not kept.
    fn login_answer(&mut self, packets: &mut Vec<Packet>, password: &str) -> io::Result<()> {
        let mut asked = false;
        loop {
            let (sequence, payload) = self.receive()?;
            match *payload {
                [0xfe, ..] => {
                    let switch =
                        wire::AuthSwitch::parse(&payload).map_err(|error| invalid(&format!("{error:?}")))?;
                    self.scramble = switch.scramble().ok_or_else(|| invalid("no scramble"))?;
                    self.method = Method::of_name(switch.plugin);
                    let token = self.method.token(password, &self.scramble);
                    self.send(sequence.wrapping_add(1), &token)?;
                }
                [sha2_password::MORE_DATA_HEADER, sha2_password::FAST_AUTHENTICATION] => {}
                // As it is, since nobody listens to a Unix socket.
                [sha2_password::MORE_DATA_HEADER, sha2_password::FULL_AUTHENTICATION] => {
                    self.send(sequence.wrapping_add(1), &[password.as_bytes(), b"\0"].concat())?;
                }
                _ => {
                    // How much was asked is the server's choice.
                    packets.push(ok_or_err(if asked { 0 } else { sequence }, payload)?);
                    return Ok(());
                }
            }
            asked = true;
        }
    }

    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "one of several ways to read a reply")]
    fn nothing(&mut self, _packets: &mut Vec<Packet>) -> io::Result<()> {
        Ok(())
    }

    fn one_packet(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        let (sequence, payload) = self.receive()?;
        // MySQL writes it as an OK with another header to those who know that (COM_SET_OPTION).
        let ends = is_eof(&payload)
            || payload.first() == Some(&0xfe) && self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let role = if ends { Role::EndOfRows } else { ok_or_err(sequence, payload.clone())?.role };
        packets.push(Packet { role, sequence, payload });
        Ok(())
    }

    fn line(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        let (sequence, payload) = self.receive()?;
        let role = if payload.first() == Some(&0xff) { Role::Err } else { Role::Text };
        packets.push(Packet { role, sequence, payload });
        Ok(())
    }

    fn results(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        while self.result(packets, Role::TextRow)? {}
        Ok(())
    }

    fn binary_results(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        while self.result(packets, Role::BinaryRow)? {}
        Ok(())
    }

    /// Reads one result; whether another follows.
    fn result(&mut self, packets: &mut Vec<Packet>, row: Role) -> io::Result<bool> {
        let (sequence, payload) = self.receive()?;
        match payload.first() {
            Some(0x00) => {
                let status = ok_status(&payload);
                packets.push(Packet { role: Role::Ok, sequence, payload });
                Ok(more_results(status))
            }
            Some(0xff) => {
                packets.push(Packet { role: Role::Err, sequence, payload });
                Ok(false)
            }
            Some(0xfb) => {
                let content = file(&payload[1..]);
                packets.push(Packet { role: Role::LocalInfile, sequence, payload });
                let mut next = sequence.wrapping_add(1);
                let mut bytes = Vec::new();
                if !content.is_empty() {
                    wire::put_message(&mut bytes, &mut next, content);
                }
                wire::put_message(&mut bytes, &mut next, b"");
                self.stream.write_all(&bytes)?;
                self.result(packets, row)
            }
            Some(_) => {
                let (count, follow) = self.column_count(&payload)?;
                packets.push(Packet { role: Role::ColumnCount, sequence, payload });
                let definitions = if follow { count } else { 0 };
                let end = self.columns(packets, definitions, count > 0)?;
                if end.is_some_and(|status| status.contains(StatusFlags::CURSOR_EXISTS)) {
                    return Ok(false);
                }
                // Of OUT parameters MySQL says so here alone (protocol_classic.cc: `Protocol_classic::send_parameters`).
                let more = end.is_some_and(|status| {
                    status.contains(StatusFlags::PS_OUT_PARAMS) && more_results(status)
                });
                Ok(self.rows(packets, row)? || more)
            }
            None => Err(invalid("an empty packet")),
        }
    }

    /// The number of columns, and whether their definitions follow, which MariaDB says to those who keep them
    /// (`MARIADB_CLIENT_CACHE_METADATA`).
    fn column_count(&self, payload: &[u8]) -> io::Result<(u64, bool)> {
        let keeps = self.capabilities.contains(Capabilities::CACHE_METADATA);
        let (count, follow) = match payload.split_last() {
            Some((&follow, count)) if keeps => (count, follow != 0),
            _ => (payload, true),
        };
        let count = wire::parse_column_count(count).map_err(|error| invalid(&format!("{error:?}")))?;
        Ok((count, follow))
    }

    /// Reads column definitions, and the status of the packet that ends them, if one does.
    fn columns(
        &mut self,
        packets: &mut Vec<Packet>,
        count: u64,
        ends: bool,
    ) -> io::Result<Option<StatusFlags>> {
        for _ in 0..count {
            let (sequence, payload) = self.receive()?;
            packets.push(Packet { role: Role::Column, sequence, payload });
        }
        if !ends || self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            return Ok(None);
        }
        let (sequence, payload) = self.receive()?;
        if !is_eof(&payload) {
            return Err(invalid("columns do not end in an EOF"));
        }
        let status = StatusFlags(u16::from_le_bytes([payload[3], payload[4]]));
        packets.push(Packet { role: Role::EndOfColumns, sequence, payload });
        Ok(Some(status))
    }

    /// Reads rows up to their end; whether another result follows.
    fn rows(&mut self, packets: &mut Vec<Packet>, row: Role) -> io::Result<bool> {
        let deprecate_eof = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        loop {
            let (sequence, payload) = self.receive()?;
            match payload.first() {
                Some(0xff) => {
                    packets.push(Packet { role: Role::Err, sequence, payload });
                    return Ok(false);
                }
                Some(0xfe) if deprecate_eof || payload.len() < 9 => {
                    let status = if deprecate_eof {
                        ok_status(&payload)
                    } else {
                        StatusFlags(u16::from_le_bytes([payload[3], payload[4]]))
                    };
                    packets.push(Packet { role: Role::EndOfRows, sequence, payload });
                    return Ok(more_results(status));
                }
                _ => packets.push(Packet { role: row, sequence, payload }),
            }
        }
    }

    fn prepared(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        let (sequence, payload) = self.receive()?;
        if payload.first() != Some(&0) {
            packets.push(ok_or_err(sequence, payload)?);
            return Ok(());
        }
        if !(12..=13).contains(&payload.len()) || payload[9] != 0 {
            // MySQL's OK to SET GLOBAL, without the right to it, which no client takes for the reply to a prepare.
            return Err(invalid("the reply to a prepare tells of no statement"));
        }
        self.statements.push(u32::from_le_bytes([payload[1], payload[2], payload[3], payload[4]]));
        let columns = u16::from_le_bytes([payload[5], payload[6]]);
        let parameters = u16::from_le_bytes([payload[7], payload[8]]);
        packets.push(Packet { role: Role::Prepared, sequence, payload });
        for count in [parameters, columns] {
            self.columns(packets, u64::from(count), count > 0)?;
        }
        Ok(())
    }

    fn field_list(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        let deprecate_eof = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        loop {
            let (sequence, payload) = self.receive()?;
            let role = match payload.first() {
                // Without a default schema some servers say OK, and no more.
                Some(0x00) => Role::Ok,
                Some(0xff) => Role::Err,
                Some(0xfe) if deprecate_eof || payload.len() < 9 => Role::EndOfRows,
                _ => Role::Column,
            };
            packets.push(Packet { role, sequence, payload });
            if role != Role::Column {
                return Ok(());
            }
        }
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + wire::HEADER_LEN);
        wire::put_message(&mut bytes, &mut { sequence }, payload);
        self.stream.write_all(&bytes)
    }

    /// One packet. No program makes one that needs several.
    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some([low, middle, high, sequence]) = self.received.first_chunk().copied() {
                let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
                if self.received.len() >= wire::HEADER_LEN + length {
                    let payload = self.received[wire::HEADER_LEN..wire::HEADER_LEN + length].to_vec();
                    self.received.drain(..wire::HEADER_LEN + length);
                    return Ok((sequence, payload));
                }
            }
            let mut piece = [0; 16 << 10];
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&piece[..count]);
        }
    }
}

/// What the client has in the file that LOAD DATA LOCAL names.
fn file(name: &[u8]) -> &'static [u8] {
    match name {
        b"rows" => b"first,1\nsecond,2\nthird,300\n",
        b"malformed" => b"only one field\n\n,,,,,\n",
        _ => b"",
    }
}

fn execute_body(statement: u32, cursor: bool, values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut body = statement.to_le_bytes().to_vec();
    body.push(u8::from(cursor));
    body.extend_from_slice(&1_u32.to_le_bytes()); // the iteration count
    if values.is_empty() {
        return body;
    }
    let mut nulls = vec![0; values.len().div_ceil(8)];
    for (place, _) in values.iter().enumerate().filter(|(_, value)| value.is_none()) {
        nulls[place / 8] |= 1 << (place % 8);
    }
    body.extend_from_slice(&nulls);
    body.push(1); // types follow
    for value in values {
        body.extend_from_slice(&[if value.is_some() { TYPE_VAR_STRING } else { TYPE_NULL }, 0]);
    }
    for value in values.iter().flatten() {
        wire::put_lenenc_bytes(&mut body, value);
    }
    body
}

/// One parameter, and an execution for each value.
fn bulk_body(statement: u32, values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut body = statement.to_le_bytes().to_vec();
    body.extend_from_slice(&wire::BULK_SENDS_TYPES.to_le_bytes());
    body.extend_from_slice(&[TYPE_VAR_STRING, 0]);
    for value in values {
        // STMT_INDICATOR_NONE, behind which a value follows, and STMT_INDICATOR_NULL (MariaDB's `include/mysql_com.h`).
        body.push(u8::from(value.is_none()));
        if let Some(value) = value {
            wire::put_lenenc_bytes(&mut body, value);
        }
    }
    body
}

fn ok_or_err(sequence: u8, payload: Vec<u8>) -> io::Result<Packet> {
    let role = match payload.first() {
        Some(0x00) => Role::Ok,
        Some(0xff) => Role::Err,
        _ => return Err(invalid(&format!("neither OK nor ERR: {}", payload.escape_ascii()))),
    };
    Ok(Packet { role, sequence, payload })
}

fn is_eof(payload: &[u8]) -> bool {
    payload.first() == Some(&0xfe) && payload.len() == 5
}

/// The status of an OK, behind its header and two numbers.
fn ok_status(payload: &[u8]) -> StatusFlags {
    wire::OkPacket::parse(payload, true).map_or(StatusFlags::NONE, |ok| ok.status)
}

fn more_results(status: StatusFlags) -> bool {
    status.contains(StatusFlags::MORE_RESULTS_EXISTS)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Resets and ends are the same to a client; so are the two names for a time-out.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            String::from("the connection has ended")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer in {} s", PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}
