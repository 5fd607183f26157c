//! Finds where a server's reply ends, and relays it to a client on the way, without decoding rows.
//!
//! A reply is one or more packets, and only their contents say which is the last: an OK, an ERR, an EOF, or the last of
//! a known number of column definitions. What it looks like also depends on what each side agreed to speak, so backend
//! and client may need different bytes:
//!
//! * With `DEPRECATE_EOF` no EOF follows column definitions, and an OK with the header 0xfe stands where an EOF ended
//!   the rows. [`ReplyReader`] converts both ways and numbers the packets anew.
//! * With `SESSION_TRACK` an OK may carry changes of session state. They are cut out for clients that did not ask; of the others,
//!   each hears what [`ReplySink::told`] leaves.
//! * A server that compresses numbers packets by the compressed ones, whenever it has flushed (`net_flush`), so that these
//!   numbers say nothing. The client's count on, as they would without compression.
//!
//! A cursor's result set is column definitions and one end packet in both forms. Servers announce it with
//! `CURSOR_EXISTS`, but MariaDB also leaves that flag set in every result set that a procedure sends while a cursor of
//! its own is open. Results of procedures always announce a further result, and a cursor's never do: that tells them
//! apart.
//!
//! Sources: `send_result_set_metadata`, `send_eof`, `send_prep_stmt` and `sql/sql_cursor.cc` of both servers, checked
//! against a MariaDB 10.11 server; `cli_read_query_result` and `mysql_stmt_execute` of the client libraries.

use std::borrow::Cow;

use crate::framing::{HEADER_LEN, Header, MAX_PAYLOAD};
use crate::replies::{EOF_HEADER, ERR_HEADER, OK_HEADER};
use crate::{EofPacket, ErrPacket, OkPacket, StatusFlags, WireError};

mod decide;
mod metadata;
mod outlet;
pub use metadata::digest_of_prepared;
use outlet::{Front, HeldRows, Outlet};

/// Which kind of reply a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// One OK, EOF or ERR: ping, init_db, set_option, reset_connection, debug, stmt_reset, process_kill.
    Simple,
    /// Any number of results, each an OK or a result set: query, stmt_execute.
    ResultSets,
    /// Rows up to an EOF or OK, or an ERR: stmt_fetch.
    Rows,
    /// Events up to an EOF, which is one in every client's form, or an ERR: binlog_dump, binlog_dump_gtid
    /// (`net_send_eof` in both servers).
    Events,
    /// stmt_prepare.
    Prepare,
    /// Column definitions up to an EOF or OK, or an ERR: field_list.
    FieldList,
    /// One packet that is a bare string, or an ERR: statistics.
    Statistics,
}

/// The capabilities that backend and client each agreed on, and the parts of the reply that are not the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyOptions {
    /// The number of the reply's first packet; 1 unless the command took several packets.
    pub first_sequence: u8,
    /// True if the backend has `DEPRECATE_EOF`.
    pub backend_deprecate_eof: bool,
    /// True if the backend has `SESSION_TRACK`.
    pub backend_session_track: bool,
    /// True if the execution asked for a cursor. Elsewhere the flag of one means nothing: MySQL leaves it standing behind a
    /// stored function that has used a cursor (seen with 9.7.4).
    pub may_open_cursor: bool,
    /// True if the backend's packets come inside compressed ones.
    pub backend_compressed: bool,
    /// True if the client has `DEPRECATE_EOF`.
    pub client_deprecate_eof: bool,
    /// True if the client has `SESSION_TRACK`.
    pub client_session_track: bool,
    /// True if the client has MariaDB's `PROGRESS`: progress reports are for it.
    pub client_progress: bool,
    /// How much the client hears about column definitions.
    pub client_metadata: ClientMetadata,
    /// How many results at the front of [`Expect::ResultSets`] are the OKs of a prelude of our own, which the client
    /// must not see. Without effect for the other kinds.
    pub skip_results: u8,
}

impl Default for ReplyOptions {
    /// Two sides that speak all there is.
    fn default() -> Self {
        Self {
            first_sequence: 1,
            backend_deprecate_eof: true,
            backend_session_track: true,
            may_open_cursor: false,
            backend_compressed: false,
            client_deprecate_eof: true,
            client_session_track: true,
            client_progress: true,
            client_metadata: ClientMetadata::Bare,
            skip_results: 0,
        }
    }
}

/// How the head of a result set is for a client. No backend has MariaDB's `CACHE_METADATA`: what it has sent last for a
/// statement may have been for another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMetadata {
    /// The number of columns alone: the client lacks `CACHE_METADATA`.
    Bare,
    /// The number of columns, and that definitions follow.
    Announced,
    /// The same, but definitions whose digest is this one are left out, since the client has them. For replies to executions; a
    /// digest comes with [`ReplyEvent::Metadata`].
    Known(Option<u64>),
}

/// Takes what a [`ReplyReader`] finds.
pub trait ReplySink {
    /// Bytes for the client, headers included, in order.
    fn relay(&mut self, bytes: &[u8]);

    /// Returns the changes of session state that the client hears of, out of those that an OK carries, as
    /// [`crate::session_changes`] reads them. Asked for each OK where both sides have `SESSION_TRACK`, also where it carries
    /// none.
    fn told<'c>(&mut self, changes: &'c [u8]) -> Cow<'c, [u8]> {
        Cow::Borrowed(changes)
    }

    /// Something the reply said. May come before the bytes that said it: these are all relayed when
    /// [`ReplyReader::read`] returns.
    fn event(&mut self, event: ReplyEvent<'_>);
}

/// A reply's news about the statement and the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyEvent<'a> {
    /// A statement's OK, or the end of a result set where the backend has `DEPRECATE_EOF`.
    Ok(OkPacket<'a>),
    /// The end of a result set where the backend lacks `DEPRECATE_EOF`. The EOF between column definitions and rows is
    /// none.
    Eof(EofPacket),
    /// The statement failed; the reply ends here.
    Err(ErrPacket<'a>),
    /// The OK of a prelude's statement; the client does not see it.
    PreludeOk(OkPacket<'a>),
    /// A statement of the prelude failed: the reply ends here, and the client has seen nothing of it.
    PreludeErr(ErrPacket<'a>),
    /// The server wants a file from the client. The reply goes on after [`ReplyReader::local_infile_sent`].
    LocalInfile {
        /// Of the request, as the backend counts.
        sequence: u8,
    },
    /// The first event of the binary log comes ([`Expect::Events`]): the server has not refused to send it. May come more
    /// than once.
    LogBegins,
    /// A result set is at its end. Comes right before the [`Self::Ok`] or [`Self::Eof`] that ends it.
    ResultSetEnd {
        /// How many rows it had; none where a cursor was opened.
        rows: u64,
    },
    /// The client has column definitions of this digest now; only where [`ClientMetadata::Known`] asks for it.
    Metadata(u64),
    /// A statement was prepared. Column definitions may still follow.
    Prepared {
        /// The backend's id for it.
        statement: u32,
        /// Columns of its result set.
        columns: u16,
        /// Its parameters.
        parameters: u16,
    },
}

/// How far a call of [`ReplyReader::read`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken. Fewer than given only where `done`: the others belong to the next reply.
    pub consumed: usize,
    /// True if the reply is at its end.
    pub done: bool,
}

/// Reads one reply, in pieces cut anywhere.
///
/// Rows and column definitions pass through as they come; at most seven bytes of one are held back, but for definitions that
/// the client may have ([`ClientMetadata::Known`]). A packet that
/// decides something (OK, ERR, EOF and the like) is held back until it is whole, which takes at most 16 MiB. Where both
/// sides speak the same, the bytes of one call are relayed in one piece, or a few.
///
/// Between two replies there is nothing to keep: make a new reader for each.
#[derive(Debug)]
pub struct ReplyReader {
    expect: Expect,
    options: ReplyOptions,
    stage: Stage,
    flow: Flow,
    /// The number that the backend's next packet must have.
    sequence: u8,
    /// The number to add to the backend's number for the client's, modulo 256.
    shift: u8,
    prelude_left: u8,
    /// The last status that was seen, for EOFs of our own.
    status: StatusFlags,
    /// See [`Self::with_foreseen`].
    foreseen: StatusFlags,
    /// See [`Self::with_results`].
    results_to_come: u32,
    /// The front of a packet of which too little is there to decide.
    carry: Vec<u8>,
    /// Head and column definitions of a result set, until it is known whether the client has these.
    held: Option<Vec<u8>>,
    /// The first rows of a result set, until its end says what the EOF before them has to say.
    held_rows: Option<HeldRows>,
    /// Of [`Expect::Events`] of a backend that compresses.
    acknowledgement: Acknowledgement,
}

/// Definitions are held back up to this size: 4,096 columns (`MAX_FIELDS`) with names of 40 characters, five in each. Longer ones the client
/// gets each time.
const LARGEST_HELD: usize = 1 << 20;

/// How an event begins: a byte that is 0, and where the replica acknowledges events, two more (`kPacketMagicNum` and
/// `kPacketFlagSync` of `semisync.h`).
const EVENT_HEAD: usize = 3;
const ACKNOWLEDGED_EVENTS: u8 = 0xef;

/// Says whether a replica acknowledges events that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledgement {
    /// None of them.
    Never,
    /// Some, but not the one that passes.
    OfOthers,
    /// The one that passes too.
    OfThis,
}

/// Where in the reply the next packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// First packet of a result.
    Head,
    /// Column definitions of a result set, so many still to come.
    Definitions { left: u64 },
    /// The backend's EOF after column definitions.
    DefinitionsEnd,
    /// Rows, or their end.
    Rows { count: u64, middle: Middle },
    /// Definitions of a prepared statement's parameters, or (`columns` is 0) of its columns.
    PreparedDefinitions { left: u16, columns: u16 },
    /// The backend's EOF after these.
    PreparedEnd { columns: u16 },
    /// Column definitions of a field list, or their end.
    FieldDefinitions,
    /// The client sends a file; then comes an OK or ERR.
    LocalInfile,
    /// The reply is at its end.
    Done,
}

/// The treatment of the EOF between column definitions and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// Nothing.
    Settled,
    /// The client needs one that the backend did not send. It waits for the next packet, because a cursor has none.
    Due,
    /// Rows follow behind it, so it waits for their end, whose status is known.
    Waiting,
    /// The backend sent one that the client does not need. Its status counts for the end of the rows too.
    Dropped(StatusFlags),
}

/// Where in a packet the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// At the header of a packet that starts a message.
    Start,
    /// Inside a payload that is passed on.
    Passing { left: usize, continues: bool },
    /// At the header of a packet that continues a message, and so is never looked into.
    Continuation,
}

impl ReplyReader {
    /// A reader for the reply to one command.
    pub fn new(expect: Expect, options: ReplyOptions) -> Self {
        let stage = match expect {
            Expect::Rows | Expect::Events => Stage::Rows { count: 0, middle: Middle::Settled },
            Expect::FieldList => Stage::FieldDefinitions,
            Expect::Simple | Expect::ResultSets | Expect::Prepare | Expect::Statistics => Stage::Head,
        };
        Self {
            expect,
            options,
            stage,
            flow: Flow::Start,
            sequence: options.first_sequence,
            shift: 0,
            prelude_left: if expect == Expect::ResultSets { options.skip_results } else { 0 },
            status: StatusFlags::AUTOCOMMIT,
            foreseen: StatusFlags::NONE,
            results_to_come: 0,
            carry: Vec::new(),
            held: None,
            held_rows: None,
            acknowledgement: Acknowledgement::Never,
        }
    }

    /// The session's status before this reply. An EOF that only the client's protocol has carries it where nothing
    /// newer is known; without this call it is `AUTOCOMMIT` alone.
    #[must_use]
    pub fn with_status(mut self, status: StatusFlags) -> Self {
        self.status = status;
        self
    }

    /// Sets the flags that an EOF in front of a result set has beside the status before it, where that set is too large to wait
    /// for its end.
    #[must_use]
    pub fn with_foreseen(mut self, foreseen: StatusFlags) -> Self {
        self.foreseen = foreseen;
        self
    }

    /// There will be so many results at least, unless one of them is an error: those before the last one say so in front of
    /// their rows.
    #[must_use]
    pub fn with_results(mut self, results: u32) -> Self {
        self.results_to_come = results.saturating_sub(1);
        self
    }

    /// The number with which the answer begins for the client, where that sent its command in fewer or more packets than
    /// the backend got.
    #[must_use]
    pub fn with_client_sequence(mut self, first_sequence: u8) -> Self {
        self.shift = first_sequence.wrapping_sub(self.options.first_sequence);
        self
    }

    /// Bytes that have come and are held back here.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let rows = self.held_rows.as_ref().map_or(0, HeldRows::len);
        self.carry.len() + self.held.as_ref().map_or(0, Vec::len) + rows
    }

    /// Reads on. No bytes at all are allowed, and nothing happens then.
    ///
    /// # Errors
    ///
    /// Anything that a server would not send, with the position in the stream lost: the backend must be closed. Bytes
    /// may have been relayed before.
    pub fn read(&mut self, bytes: &[u8], sink: &mut impl ReplySink) -> Result<Progress, WireError> {
        let mut outlet = Outlet::new(bytes, sink, self.held_rows.take());
        let mut at = 0;
        loop {
            match self.flow {
                Flow::Passing { left, continues } => {
                    let taken = left.min(bytes.len() - at);
                    match &mut self.held {
                        Some(held) => held.extend_from_slice(&bytes[at..at + taken]),
                        None => outlet.input(at..at + taken),
                    }
                    at += taken;
                    if taken < left {
                        self.flow = Flow::Passing { left: left - taken, continues };
                        break;
                    }
                    self.packet_passed(continues, &mut outlet);
                }
                Flow::Start if self.stage == Stage::Done => break,
                Flow::Start | Flow::Continuation => {
                    if !self.packet_begins(&mut at, &mut outlet)? {
                        break;
                    }
                }
            }
        }
        self.held_rows = outlet.end();
        Ok(Progress { consumed: at, done: self.stage == Stage::Done && self.flow == Flow::Start })
    }

    /// The client has sent the whole file that [`ReplyEvent::LocalInfile`] asked for. `last_sequence`: the number of its
    /// last packet, as the backend counts.
    pub fn local_infile_sent(&mut self, last_sequence: u8) {
        if self.stage == Stage::LocalInfile {
            self.sequence = last_sequence.wrapping_add(1);
        }
    }

    /// Returns the number to add (modulo 256) to the number of a packet as the client counts, for the number as the backend
    /// counts. Not 0 where packets were hidden from the client or inserted for it.
    pub fn sequence_shift_to_backend(&self) -> u8 {
        self.shift.wrapping_neg()
    }

    /// Takes the front of the next packet from the carried bytes and those at `at`, as far as is needed to decide, and
    /// decides. False where there is too little.
    fn packet_begins<S: ReplySink>(
        &mut self,
        at: &mut usize,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<bool, WireError> {
        let input = &outlet.bytes()[*at..];
        if self.carry.is_empty() {
            let need = self.needed(input)?;
            if let Some(bytes) = input.get(..need) {
                let place = Some(*at);
                *at += need;
                self.packet(bytes, place, outlet)?;
                return Ok(true);
            }
            self.carry.extend_from_slice(input);
            *at += input.len();
            return Ok(false);
        }
        // The carried bytes are always fewer than were needed; what is needed may grow with what is seen.
        let missing = self.needed(&self.carry)? - self.carry.len();
        let taken = missing.min(input.len());
        self.carry.extend_from_slice(&input[..taken]);
        *at += taken;
        if taken < missing {
            return Ok(false);
        }
        if self.needed(&self.carry)? == self.carry.len() {
            let carry = std::mem::take(&mut self.carry);
            self.packet(&carry, None, outlet)?;
        }
        Ok(true)
    }

    /// How many bytes of the packet at the front of `view` must be there to decide about it.
    fn needed(&self, view: &[u8]) -> Result<usize, WireError> {
        let Some(header) = Header::parse(view) else { return Ok(HEADER_LEN) };
        // Where a replica acknowledges events, the server begins to count anew (`Repl_semi_sync_master::flush_net`).
        if self.expect != Expect::Events && !self.options.backend_compressed {
            header.check_sequence(self.sequence)?;
        }
        if self.flow == Flow::Continuation {
            return Ok(HEADER_LEN);
        }
        if header.length == 0 {
            return Err(WireError::Malformed { what: "empty packet in a reply" });
        }
        let Some(&first) = view.get(HEADER_LEN) else { return Ok(HEADER_LEN + 1) };
        if self.passes(header, first) {
            Ok(HEADER_LEN + if self.reads_event_heads() { header.length.min(EVENT_HEAD) } else { 1 })
        } else if header.length == MAX_PAYLOAD {
            Err(WireError::TooLarge { limit: MAX_PAYLOAD - 1 })
        } else {
            Ok(HEADER_LEN + header.length)
        }
    }

    /// Says whether a packet is a row or a column definition. A definition starts with the catalog "def". A row may start with
    /// 0xfe, where its first value has 16 MiB or more; an end packet is always shorter than such a row's packets.
    fn passes(&self, header: Header, first: u8) -> bool {
        match self.stage {
            Stage::Definitions { .. } | Stage::PreparedDefinitions { .. } => {
                first != EOF_HEADER && first != ERR_HEADER
            }
            Stage::FieldDefinitions => !matches!(first, OK_HEADER | EOF_HEADER | ERR_HEADER),
            Stage::Rows { .. } => match first {
                ERR_HEADER => false,
                // The byte in front of each event (`reset_transmit_packet`).
                _ if self.expect == Expect::Events => first == OK_HEADER,
                EOF_HEADER if self.options.backend_deprecate_eof => header.length == MAX_PAYLOAD,
                // An EOF has 5 bytes; clients since 3.23 tell it by fewer than 9, the length of an 8-byte integer.
                EOF_HEADER => header.length >= 9,
                _ => true,
            },
            _ => false,
        }
    }

    /// A packet of which enough is there: passes it on or looks into it. `place` is where in the input its front lies.
    fn packet<S: ReplySink>(
        &mut self,
        bytes: &[u8],
        place: Option<usize>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let header = Header::parse(bytes).expect("the front of a packet holds its header");
        let sequence = if self.options.backend_compressed { self.sequence } else { header.sequence };
        let front = Front { bytes, place, sequence };
        self.sequence = sequence.wrapping_add(1);
        // Of a continuation only the header was needed: there is no first byte to look at.
        let first = front.bytes.get(HEADER_LEN).copied();
        if first.is_none_or(|first| self.passes(header, first)) {
            if self.expect == Expect::Events && matches!(self.stage, Stage::Rows { count: 0, .. }) {
                outlet.event(ReplyEvent::LogBegins);
            }
            if self.reads_event_heads() {
                self.note_event(front.payload());
            }
            self.note_row(header.length, sequence, outlet);
            match &mut self.held {
                Some(held) => held.extend_from_slice(front.bytes),
                None => outlet.packet(front, self.shift),
            }
            let left = HEADER_LEN + header.length - front.bytes.len();
            self.flow = Flow::Passing { left, continues: header.length == MAX_PAYLOAD };
            return Ok(());
        }
        self.decide(front, outlet)
    }

    /// Says whether the numbers of events have to be found out from their contents.
    fn reads_event_heads(&self) -> bool {
        self.expect == Expect::Events && self.options.backend_compressed
    }

    /// Numbers begin anew behind an event that the replica acknowledges: with 1, as both sides count then
    /// (`Repl_semi_sync_master::flush_net`, `ReplSemiSyncMaster::readSlaveReply`). With replicas that do, each event has a head
    /// that says whether it is one (`reserve_sync_header`).
    fn note_event(&mut self, payload: &[u8]) {
        if matches!(self.stage, Stage::Rows { count: 0, .. }) && self.flow == Flow::Start {
            // The first event is the server's own (`fake_rotate_event`), and its first four bytes, a time, are 0.
            if payload.get(1) == Some(&ACKNOWLEDGED_EVENTS) {
                self.acknowledgement = Acknowledgement::OfOthers;
            }
        }
        let is_one = matches!(payload, [0, ACKNOWLEDGED_EVENTS, flags, ..] if *flags != 0);
        if is_one && self.acknowledgement == Acknowledgement::OfOthers {
            self.acknowledgement = Acknowledgement::OfThis;
        }
    }

    /// The last byte of a row's or definition's packet is through.
    fn packet_passed<S: ReplySink>(&mut self, continues: bool, outlet: &mut Outlet<'_, S>) {
        if continues {
            self.flow = Flow::Continuation;
            return;
        }
        self.flow = Flow::Start;
        if self.acknowledgement == Acknowledgement::OfThis {
            self.acknowledgement = Acknowledgement::OfOthers;
            self.sequence = 1;
        }
        match &mut self.stage {
            Stage::Rows { count, .. } => *count += 1,
            Stage::Definitions { left: 1 } => {
                self.stage = self.after_definitions();
                self.release_held(outlet);
            }
            Stage::Definitions { left } => {
                *left -= 1;
                if self.held.as_ref().is_some_and(|held| held.len() > LARGEST_HELD) {
                    self.release_held(outlet);
                }
            }
            Stage::PreparedDefinitions { left: 1, columns } => {
                let columns = *columns;
                self.after_prepared_definitions(columns, outlet);
            }
            Stage::PreparedDefinitions { left, .. } => *left -= 1,
            _ => {}
        }
    }

    fn after_definitions(&self) -> Stage {
        match (self.options.backend_deprecate_eof, self.options.client_deprecate_eof) {
            (false, _) => Stage::DefinitionsEnd,
            (true, true) => Stage::Rows { count: 0, middle: Middle::Settled },
            (true, false) => Stage::Rows { count: 0, middle: Middle::Due },
        }
    }

    fn after_prepared_definitions<S: ReplySink>(&mut self, columns: u16, outlet: &mut Outlet<'_, S>) {
        if !self.options.backend_deprecate_eof {
            self.stage = Stage::PreparedEnd { columns };
            return;
        }
        if !self.options.client_deprecate_eof {
            self.put_middle(Middle::Due, self.sequence, self.before_rows(), 0, outlet);
        }
        self.stage = prepared_definitions(columns, 0);
    }
}

/// The next group of definitions in the reply to a prepare. Groups without members are left out altogether.
fn prepared_definitions(parameters: u16, columns: u16) -> Stage {
    match (parameters, columns) {
        (0, 0) => Stage::Done,
        (0, left) => Stage::PreparedDefinitions { left, columns: 0 },
        (left, columns) => Stage::PreparedDefinitions { left, columns },
    }
}

#[cfg(test)]
mod tests;
