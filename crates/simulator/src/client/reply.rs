//! Finds the end of a reply as a client does, and keeps what can be compared.

use crate::protocol::{Cursor, capability, command, status};

/// One packet of a reply. Packets that carry status flags and session changes are taken apart, since those may differ
/// from a direct connection's; the rest is compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// OK, also the one that ends a result set, and EOF.
    End {
        /// 0x00 or 0xfe.
        header: u8,
        /// Rows that changed.
        affected: u64,
        /// The first id that was generated.
        insert_id: u64,
        /// Status flags without SESSION_STATE_CHANGED.
        status: u16,
        /// Number of warnings.
        warnings: u16,
        /// Text for people.
        info: Vec<u8>,
    },
    /// ERR: number and text.
    Error(u16, String),
    /// The head of a prepare's answer, without the statement's id.
    Prepared(u16, u16),
    /// A column's name. Types and lengths of answers that need no server may differ.
    Column(String),
    /// Anything else.
    Packet(Vec<u8>),
}

/// What a packet leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More packets follow.
    More,
    /// The reply is complete.
    Done,
    /// The server wants a file; its answer to that follows.
    SendFile,
    /// The packet fits no reply.
    Broken(&'static str),
}

/// Reads one reply.
#[derive(Clone, Debug)]
pub struct ReplyReader {
    capabilities: u32,
    command: u8,
    state: State,
    /// The sequence number that the next packet must have.
    sequence: u8,
    /// What came so far.
    pub parts: Vec<Part>,
    /// The id of a statement that was prepared.
    pub prepared: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Definitions { left: u64, then: After },
    DefinitionsEof { then: After },
    Rows,
}

/// What follows a list of column definitions.
#[derive(Clone, Copy, Debug)]
enum After {
    Rows,
    /// The columns of a prepared statement, so many.
    Columns(u64),
    Nothing,
}

impl ReplyReader {
    /// For the reply to this command.
    pub fn new(capabilities: u32, command: u8) -> Self {
        let has_no_head = matches!(command, command::FIELD_LIST | command::STMT_FETCH);
        let state = if has_no_head { State::Rows } else { State::Head };
        Self { capabilities, command, state, sequence: 1, parts: Vec::new(), prepared: None }
    }

    /// The client has sent packets of its own up to this sequence number (a file, an answer to a scramble).
    pub fn sent(&mut self, last_sequence: u8) {
        self.sequence = last_sequence.wrapping_add(1);
    }

    /// Takes in a packet.
    pub fn push(&mut self, sequence: u8, payload: &[u8]) -> Progress {
        if sequence != self.sequence {
            return Progress::Broken("a sequence number is wrong");
        }
        self.sequence = self.sequence.wrapping_add(1);
        match self.state {
            State::Head => self.head(payload),
            State::Definitions { left, then } => {
                let Some(name) = column_name(payload) else {
                    return Progress::Broken("a column definition is malformed");
                };
                self.parts.push(Part::Column(name));
                self.state = State::Definitions { left: left.saturating_sub(1), then };
                if left > 1 {
                    return Progress::More;
                }
                if self.deprecate_eof() {
                    self.after_definitions(then)
                } else {
                    self.state = State::DefinitionsEof { then };
                    Progress::More
                }
            }
            State::DefinitionsEof { then } => match self.end(payload) {
                // A cursor's rows are fetched: this is the end.
                Some(flags) if flags & status::CURSOR_EXISTS != 0 => Progress::Done,
                Some(_) => {
                    // Nobody reads its flags, and where the server sends none it cannot be known what they would be.
                    self.parts.pop();
                    self.after_definitions(then)
                }
                None => Progress::Broken("column definitions do not end"),
            },
            State::Rows => self.row(payload),
        }
    }

    fn deprecate_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }

    fn head(&mut self, payload: &[u8]) -> Progress {
        let first = payload.first().copied();
        match (self.command, first) {
            (_, Some(0xff)) => self.error(payload),
            (command::STATISTICS, _) => {
                self.parts.push(Part::Packet(payload.to_vec()));
                Progress::Done
            }
            (command::STMT_PREPARE, Some(0x00)) => self.prepare(payload),
            (command::CHANGE_USER, Some(0xfe)) => {
                self.parts.push(Part::Packet(vec![0xfe]));
                Progress::SendFile
            }
            (command::QUERY, Some(0xfb)) => {
                self.parts.push(Part::Packet(payload.to_vec()));
                Progress::SendFile
            }
            (_, Some(0x00)) => self.ending(payload),
            (command::QUERY | command::STMT_EXECUTE, _) => match Cursor(payload).length() {
                Some(left) if payload.len() <= 9 && left > 0 => {
                    self.parts.push(Part::Packet(payload.to_vec()));
                    self.state = State::Definitions { left, then: After::Rows };
                    Progress::More
                }
                _ => Progress::Broken("a column count is wrong"),
            },
            (_, Some(0xfe)) => self.ending(payload),
            _ => Progress::Broken("a reply begins with something unknown"),
        }
    }

    fn prepare(&mut self, payload: &[u8]) -> Progress {
        let mut cursor = Cursor(&payload[1..]);
        let (Some(id), Some(columns), Some(parameters)) = (cursor.long(), cursor.short(), cursor.short())
        else {
            return Progress::Broken("a prepare's answer is too short");
        };
        self.prepared = Some(id);
        self.parts.push(Part::Prepared(columns, parameters));
        let columns = u64::from(columns);
        if parameters > 0 {
            self.state = State::Definitions { left: parameters.into(), then: After::Columns(columns) };
            return Progress::More;
        }
        self.after_definitions(After::Columns(columns))
    }

    fn after_definitions(&mut self, then: After) -> Progress {
        self.state = match then {
            After::Rows => State::Rows,
            After::Columns(left) if left > 0 => State::Definitions { left, then: After::Nothing },
            After::Columns(_) | After::Nothing => return Progress::Done,
        };
        Progress::More
    }

    fn row(&mut self, payload: &[u8]) -> Progress {
        match payload.first() {
            Some(0xff) => self.error(payload),
            // An OK that ends rows may be as long as a packet gets; an EOF has five bytes. A row that begins with 0xfe
            // would be longer than 16 MiB.
            Some(0xfe) => self.ending(payload),
            _ => {
                self.parts.push(Part::Packet(payload.to_vec()));
                Progress::More
            }
        }
    }

    /// An OK or EOF at the end of a result: the reply goes on where its status says so.
    fn ending(&mut self, payload: &[u8]) -> Progress {
        match self.end(payload) {
            Some(flags) if flags & status::MORE_RESULTS != 0 => {
                self.state = State::Head;
                Progress::More
            }
            Some(_) => Progress::Done,
            None => Progress::Broken("an OK or EOF packet is malformed"),
        }
    }

    fn end(&mut self, payload: &[u8]) -> Option<u16> {
        let mut cursor = Cursor(payload);
        let header = cursor.byte()?;
        if header == 0xfe && !self.deprecate_eof() {
            let (warnings, status) = (cursor.short()?, cursor.short()?);
            if !cursor.0.is_empty() {
                return None;
            }
            self.parts.push(Part::End {
                header,
                affected: 0,
                insert_id: 0,
                status,
                warnings,
                info: Vec::new(),
            });
            return Some(status);
        }
        let (affected, insert_id) = (cursor.length()?, cursor.length()?);
        let (flags, warnings) = (cursor.short()?, cursor.short()?);
        let info = if cursor.0.is_empty() { &[] } else { cursor.string()? };
        if flags & status::SESSION_STATE_CHANGED != 0 {
            if self.capabilities & capability::SESSION_TRACK == 0 {
                return None;
            }
            cursor.string()?;
        }
        if !cursor.0.is_empty() {
            return None;
        }
        let status = flags & !status::SESSION_STATE_CHANGED;
        self.parts.push(Part::End { header, affected, insert_id, status, warnings, info: info.to_vec() });
        Some(flags)
    }

    fn error(&mut self, payload: &[u8]) -> Progress {
        let mut cursor = Cursor(payload);
        cursor.byte();
        let (Some(code), Some([b'#', ..])) = (cursor.short(), cursor.take(6)) else {
            return Progress::Broken("an ERR packet is malformed");
        };
        self.parts.push(Part::Error(code, String::from_utf8_lossy(cursor.0).into_owned()));
        Progress::Done
    }
}

/// Protocol::ColumnDefinition41: catalogue, schema, table and original table come before the name.
fn column_name(payload: &[u8]) -> Option<String> {
    let mut cursor = Cursor(payload);
    for _ in 0..4 {
        cursor.string()?;
    }
    cursor.string().map(|name| String::from_utf8_lossy(name).into_owned())
}
