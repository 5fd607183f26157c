//! A command of a client that the server has to execute, from its arrival to its dispatch.

pub(crate) mod found_ahead;
pub(crate) mod frozen;

use std::time::Duration;

use seam::Instant;
use sql::{CharsetSetting, Classification, CodeEffects, Kind, Reads, ResourceChange, RowsFound, VariableUse};
use wire::Expect;

use crate::backend::to_server::prepared::Serves;
use crate::client::answers::held_answer::HeldFor;
use crate::client::login::attempt::Attempt;
use crate::client::memory::bytes_held::Counted;
use crate::client::session::priority::Priority;
use crate::cluster::sent_before::SentBefore;
use crate::outside::measures::Command;
use crate::outside::orders::to_be_ended::Kills;
use crate::outside::slow_log::AtStart;
use crate::outside::waits::{Arrival, Holdups};
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::server::stored_code::Hidden;
use crate::session::known_answers::KnownQuestion;
use crate::session::statements::{DefinitionId, Template};
use crate::steps;
use found_ahead::FoundAhead;

/// Offset of the text in the packet of a command that has one.
pub(crate) const TEXT_AT: usize = wire::HEADER_LEN + 1;

/// A command that waits for its turn, or is under way.
pub(crate) struct Request {
    /// The packets as the client sent them, headers included.
    pub(crate) raw: Vec<u8>,
    pub(crate) bytes: RequestBytes,
    /// How the reply ends.
    pub(crate) expect: Expect,
    /// The kind of the command.
    pub(crate) command: RequestKind,
    /// The lexer's findings in the text, where the command has one.
    pub(crate) statement: Classification,
    /// The sequence number of the answer: 1, or more where the command took several packets, or where a login ends with the answer.
    pub(crate) answer: u8,
    pub(crate) changes: RequestChanges,
    pub(crate) rows: RequestRows,
    pub(crate) turn: RequestTurn,
    /// True once the backend has the client's session state: nothing has to go ahead of the request any more.
    pub(crate) prepared: bool,
    pub(crate) tries: RequestTries,
    /// The query attributes that the client has sent along.
    pub(crate) attributes: QueryAttributes,
    /// The prepared statement that the command is about.
    pub(crate) about: Option<Box<About>>,
    /// The question under which the answer will be remembered.
    pub(crate) remember: Option<KnownQuestion>,
    /// Set where the answer is held to its end: the use that is made of it then.
    pub(crate) held_for: Option<HeldFor>,
    /// Set where the request ends a statement or connection of another client on the server.
    pub(crate) kills: Option<Kills>,
    /// Findings in a large text, which another thread has read.
    pub(crate) found_ahead: Option<Box<FoundAhead>>,
    /// The time since which the request counts for the primary's load by reads ([`crate::readers`]).
    pub(crate) counts_for_primary: Option<Instant>,
    /// Facts about the start, for the slow log where that is on.
    pub(crate) at_start: Option<Box<AtStart>>,
}

/// The size of a request, and what it grows to.
#[derive(Debug, Default)]
pub(crate) struct RequestBytes {
    /// Bytes that literals in the place of calls will add to the request.
    pub(crate) growth: usize,
    /// Bytes of the request that are on their way to the server, until the server has taken them or answers.
    pub(crate) on_its_way: usize,
    /// Bytes that the request takes of `statement_memory` as long as it is its client's, see [`Request::bytes`].
    pub(crate) counted: Counted,
}

/// Changes that a request makes to its client's session or beyond, if it succeeds.
#[derive(Default)]
pub(crate) struct RequestChanges {
    /// The collation of a `SET NAMES x COLLATE y`, which no tracker reports.
    pub(crate) collation: Option<Box<[u8]>>,
    /// The request's effect on what its client holds by name, where that is understood.
    pub(crate) named_resource: Option<Box<ResourceChange>>,
    /// The request's use of user variables, where they are carried.
    pub(crate) variables: Option<Box<VariableUse>>,
    /// The client's settings of the pool's variables behind the request.
    pub(crate) priority: Option<Priority>,
    /// Set where the request prepares a statement: what executions of that will do. The request itself does none of it.
    pub(crate) template: Option<Box<Template>>,
    /// True where the request may change the server's global values.
    pub(crate) globals: bool,
    /// Possible effects by stored code, as of this library; see [`crate::server::stored_code`].
    pub(crate) hidden: Hidden,
    pub(crate) library: Option<u64>,
    /// The login of COM_CHANGE_USER: who the client wants to be afterwards.
    pub(crate) becomes: Option<Box<Attempt>>,
}

/// The request's traces in FOUND_ROWS() and the diagnostics.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RequestRows {
    /// True where FOUND_ROWS() is the number of the request's rows.
    pub(crate) are_counted: bool,
    /// See [`RowsFound`].
    pub(crate) found: RowsFound,
    /// True for `INSERT ... SELECT`, `CREATE TABLE ... SELECT` and the like: FOUND_ROWS() counts the rows that were read.
    pub(crate) inserts_selection: bool,
    /// True where the request uses no table, as far as that matters for diagnostics that are kept.
    pub(crate) without_tables: bool,
}

/// A request's turn.
#[derive(Debug, Default)]
pub(crate) struct RequestTurn {
    /// True where the request waits for no permit: it may be what frees one.
    urgent: bool,
    /// The time at which the request came, and what had held the queue up until then.
    arrival: Arrival,
    /// The lane in which the request waits; `None` where it is urgent.
    lane: Option<Lane>,
    /// Time from the request's arrival to its start.
    waited: Duration,
    /// The hash of the group that the request leads, while it waits.
    group: Option<u64>,
    /// True where the client held locks before the request, or others waited for the client.
    holds_locks: bool,
    /// True where the request begins a transaction, and its client's last one had a statement of a contended kind.
    contends: bool,
    /// True once the request has been counted as started.
    started: bool,
    /// Set once the request has waited for the server to have room for what it prepares: the time at which that wait ends.
    room_until: Option<Instant>,
}

/// Earlier tries of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RequestTries {
    /// Says whether the request was on a server already, and runs once more.
    pub(crate) sent_before: SentBefore,
    /// Times that Onramp has made room for the request's statement, where the server had none.
    pub(crate) prepares: u8,
    /// True where a replica has not carried the request out, perhaps since it writes by a function that nobody has heard of yet.
    pub(crate) came_back: bool,
}

/// Named values beside a statement (MySQL's query attributes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryAttributes {
    None,
    /// Attributes of a COM_QUERY: the bytes that go in front of its text.
    OfText(Box<[u8]>),
    /// Attributes of a COM_STMT_EXECUTE: they are among its values, in the form for servers that know them.
    AmongValues,
}

impl RequestTurn {
    /// The request has come, and waits for a permit unless it is `urgent`.
    pub(crate) fn arrives(&mut self, arrival: Arrival, urgent: bool) {
        self.arrival = arrival;
        self.urgent = urgent;
    }

    /// The request may be what frees a permit.
    pub(crate) fn waits_for_no_permit(&mut self) {
        self.urgent = true;
    }

    /// Says whether the request waits for no permit.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// The request comes from a client with this standing.
    pub(crate) fn comes_from(&mut self, standing: &Standing) {
        self.holds_locks = standing.holds_locks || standing.blocks_others;
    }

    /// Says whether the client held locks before the request, or others waited for the client.
    pub(crate) fn holds_locks(&self) -> bool {
        self.holds_locks
    }

    /// The request begins a transaction. `behind_contended` says whether its client's last one had a statement of a contended kind.
    pub(crate) fn begins_transaction(&mut self, behind_contended: bool) {
        self.contends = behind_contended;
    }

    /// Says whether the request begins a transaction that is likely to have a statement of a contended kind.
    pub(crate) fn contends(&self) -> bool {
        self.contends
    }

    /// The request has got a lane.
    pub(crate) fn joins(&mut self, lane: Lane) {
        self.lane = Some(lane);
    }

    /// The request goes on waiting in this lane, with its age. `long` says whether what holds up the long ones counts for it from now on.
    pub(crate) fn moves_to(&mut self, lane: Lane, holdups: &Holdups, now: Instant, long: bool) {
        self.arrival = holdups.change_queue(&self.arrival, now, long);
        self.lane = Some(lane);
    }

    /// The request has had its turn in vain, and waits among the short ones for another. Returns its lane.
    pub(crate) fn waits_again(&mut self, holdups: &Holdups, now: Instant) -> Lane {
        self.arrival = holdups.change_queue(&self.arrival, now, false);
        self.lane.unwrap_or(Lane::Low)
    }

    /// Returns the time at which the request came.
    pub(crate) fn arrived_at(&self) -> Instant {
        self.arrival.at
    }

    /// Returns what had held the queue up until the request came, or came into its lane.
    pub(crate) fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    /// Returns the lane in which the request waits.
    pub(crate) fn lane(&self) -> Option<Lane> {
        self.lane
    }

    /// The request starts. Returns true where it has not been counted as started before.
    pub(crate) fn starts(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// The request waits once more, and is counted when it starts again.
    pub(crate) fn starts_anew(&mut self) {
        self.started = false;
    }

    /// Says whether the request has been counted as started.
    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    /// The request's wait ends.
    pub(crate) fn waited_until(&mut self, now: Instant) {
        self.waited = now.since(self.arrival.at);
    }

    /// Returns the time from the request's arrival to its start.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// The request leads this group, while it waits.
    pub(crate) fn lead(&mut self, group: u64) {
        self.group = Some(group);
    }

    /// The request leads no group any longer. Returns the one that it led.
    pub(crate) fn leave_group(&mut self) -> Option<u64> {
        self.group.take()
    }

    /// Returns the hash of the group that the request leads.
    pub(crate) fn group(&self) -> Option<u64> {
        self.group
    }

    /// The request waits for room on the server, until then if it has not begun to already. Returns the time at which the wait ends.
    pub(crate) fn wait_for_room(&mut self, until: Instant) -> Instant {
        *self.room_until.get_or_insert(until)
    }

    /// Returns the time at which the wait for room ends, where there was one.
    pub(crate) fn room_until(&self) -> Option<Instant> {
        self.room_until
    }
}

impl QueryAttributes {
    /// Bytes on the heap, apart from the command's own bytes.
    pub(crate) fn bytes(&self) -> usize {
        if let Self::OfText(attributes) = self { attributes.len() } else { 0 }
    }
}

/// The prepared statement that a command is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// The client's number for the statement, which the client keeps as long as the command is under way.
    pub(crate) number: u32,
    pub(crate) definition: DefinitionId,
    /// Which of a backend's statements the command can share with others. It is the client's own where the command does not give its parameters'
    /// types.
    pub(crate) serves: Serves,
    /// True where the statement is executed as it was prepared, on the backend of its preparation, see [`crate::backend::to_server::preparing::stays`].
    pub(crate) stays: bool,
    pub(crate) action: Action,
}

/// See [`About`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Execute {
        /// True where the client asks for a cursor.
        cursor: bool,
        /// True where pieces of long data go ahead of the execution.
        long_data: bool,
    },
    Fetch,
    Reset,
}

/// The engine's knowledge of a command beyond its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// COM_QUERY.
    Query,
    /// COM_STMT_PREPARE.
    Prepare,
    /// The default schema named in a login: a COM_INIT_DB of our own. Its answer becomes the login's.
    LoginSchema,
    /// COM_STMT_EXECUTE.
    Execute,
    /// COM_REGISTER_SLAVE.
    RegisterReplica,
    /// COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID. Their answers mostly have no end.
    BinlogDump,
    /// COM_RESET_CONNECTION, for a client that holds a backend.
    ResetConnection,
    /// COM_RESET_CONNECTION of our own, ahead of the COM_CHANGE_USER of such a client.
    ChangeUser,
    /// Any other, relayed as it is.
    Other,
}

impl RequestKind {
    /// The command under which the kind is measured.
    pub(crate) fn as_measured(self) -> Command {
        match self {
            Self::Query => Command::Query,
            Self::Prepare => Command::Prepare,
            Self::Execute => Command::Execute,
            _ => Command::Other,
        }
    }
}

impl Request {
    /// Makes a request for a command without a text of interest.
    pub(crate) fn plain(raw: Vec<u8>, expect: Expect, command: RequestKind) -> Self {
        let mut statement = Classification::none();
        if raw.get(wire::HEADER_LEN) == Some(&(wire::CommandKind::InitDb as u8)) {
            statement.kind = Kind::Use;
        }
        Self {
            raw,
            bytes: RequestBytes::default(),
            expect,
            command,
            statement,
            answer: 1,
            changes: RequestChanges::default(),
            rows: RequestRows::default(),
            turn: RequestTurn::default(),
            prepared: false,
            tries: RequestTries::default(),
            attributes: QueryAttributes::None,
            about: None,
            remember: None,
            held_for: None,
            kills: None,
            found_ahead: None,
            counts_for_primary: None,
            at_start: None,
        }
    }

    /// Makes the request wait for no permit.
    pub(crate) fn urgently(mut self) -> Self {
        self.turn.waits_for_no_permit();
        self
    }

    /// The sequence number of the server's answer. This is not the client's number where an execution takes one
    /// more packet with the types that are put in, or a text with its literals.
    pub(crate) fn server_answer(&self) -> u8 {
        let (mut rest, mut last) = (&self.raw[..], 0);
        while let Some((&[a, b, c, sequence], behind)) = rest.split_first_chunk::<{ wire::HEADER_LEN }>() {
            last = sequence;
            rest = behind.get(u32::from_le_bytes([a, b, c, 0]) as usize..).unwrap_or_default();
        }
        last.wrapping_add(1)
    }

    /// Makes a COM_QUERY of our own on a client's behalf.
    pub(crate) fn query(text: &str) -> Self {
        let mut payload = vec![wire::CommandKind::Query as u8];
        payload.extend_from_slice(text.as_bytes());
        let mut raw = Vec::with_capacity(wire::HEADER_LEN + payload.len());
        wire::put_message(&mut raw, &mut 0, &payload);
        Self::plain(raw, Expect::ResultSets, RequestKind::Query)
    }

    /// Makes a request for a command with a text: COM_QUERY or COM_STMT_PREPARE.
    pub(crate) fn with_text(
        raw: Vec<u8>,
        expect: Expect,
        command: RequestKind,
        text: &[u8],
        statement: Classification,
        answer: u8,
    ) -> Self {
        let are_counted = sql::counts_rows(statement.kind, text);
        let collation = match &statement.charset {
            CharsetSetting::Names { collation: Some(span), .. } => {
                Some(text[span.clone()].to_ascii_lowercase().into())
            }
            _ => None,
        };
        let plain = Self::plain(raw, expect, command);
        let found = if statement.rows_of_select { RowsFound::of_text(text) } else { RowsFound::default() };
        Self {
            statement,
            answer,
            changes: RequestChanges { collation, ..RequestChanges::default() },
            rows: RequestRows { are_counted, found, ..RequestRows::default() },
            ..plain
        }
    }

    /// Takes in what the request may do by stored code, as of this version of the library.
    pub(crate) fn take_hidden(&mut self, hidden: Hidden, version: u64) {
        self.changes.library = Some(version);
        self.changes.hidden = hidden;
        if !hidden.effects.is_empty() {
            self.statement.plain_read = false;
            self.statement.repeatable = false;
        }
        if hidden.effects.contains(CodeEffects::READS_INSERT_ID) {
            self.statement.reads |= Reads::LAST_INSERT_ID;
        }
    }

    /// True where the request leaves the session in the state of a fresh login.
    pub(crate) fn resets_session(&self) -> bool {
        matches!(self.command, RequestKind::ResetConnection | RequestKind::ChangeUser)
    }

    /// True for USE, COM_INIT_DB, and the schema of a login.
    pub(crate) fn chooses_schema(&self) -> bool {
        self.statement.kind == Kind::Use
    }

    /// True for SHOW WARNINGS and its like, which leave the diagnostics that they show as they are.
    pub(crate) fn is_about_diagnostics(&self) -> bool {
        self.statement.reads.contains(Reads::DIAGNOSTICS)
            && matches!(self.statement.kind, Kind::ShowWarnings | Kind::ShowDiagnostics | Kind::Other)
    }

    /// True where the diagnostics of the statement before outlive this request. MariaDB forgets them with the next
    /// statement that uses a table (sql_parse.cc: opt_clear_warning_info). MySQL forgets them with any statement
    /// that is not about them (its manual, "SHOW WARNINGS Statement"; BEGIN, SET, USE, DO and COM_STMT_PREPARE
    /// seen with 9.7).
    pub(crate) fn leaves_diagnostics(&self, is_mariadb: bool) -> bool {
        if !is_mariadb {
            return self.command == RequestKind::Other;
        }
        match (self.command, &self.changes.template) {
            (RequestKind::ResetConnection | RequestKind::ChangeUser, _) => false,
            (RequestKind::Other, _) => true,
            // Likewise where it is prepared (sql_prepare.cc: check_prepared_statement).
            (RequestKind::Prepare, Some(template)) => {
                template.without_tables || is_without_tables(template.statement.kind)
            }
            _ => self.rows.without_tables || is_without_tables(self.statement.kind),
        }
    }

    /// True where the request sets ROW_COUNT(). Successful preparing, COM_STATISTICS and GET DIAGNOSTICS do not touch that.
    pub(crate) fn sets_row_count(&self) -> bool {
        self.statement.kind != Kind::ShowDiagnostics
            && self.command != RequestKind::Prepare
            && self.expect != Expect::Statistics
    }

    /// Says whether the request may leave locks behind in an open transaction: all but plain reads, and what is about the session.
    pub(crate) fn may_lock(&self) -> bool {
        use Kind::{Call, Delete, Execute, Handler, Insert, Load, Other, Replace, Select, Update, Xa};
        match self.statement.kind {
            Select => !self.statement.plain_read,
            Insert | Replace | Update | Delete | Load | Call | Execute | Handler | Xa => true,
            Other => matches!(self.command, RequestKind::Query | RequestKind::Execute),
            _ => false,
        }
    }

    /// Says whether the server may have opened a table for the request, and may keep that one's metadata lock to the transaction's end.
    pub(crate) fn may_open_tables(&self) -> bool {
        use Kind::{Admin, Delete, Do, Explain, Insert, Load, Replace, Select, Show, Update};
        let executes = matches!(self.command, RequestKind::Query | RequestKind::Execute);
        let statement = &self.statement;
        executes
            && !self.rows.without_tables
            && (statement.several
                || matches!(
                    statement.kind,
                    Select | Insert | Replace | Update | Delete | Load | Do | Explain | Show | Admin
                ))
    }

    /// True for a COM_STMT_EXECUTE that asks for a cursor.
    pub(crate) fn wants_cursor(&self) -> bool {
        let action = self.about.as_ref().map(|about| about.action);
        matches!(action, Some(Action::Execute { cursor: true, .. }))
    }

    /// True for an execution that leaves nothing with its statement on the server, and comes in one packet.
    pub(crate) fn is_plain_execution(&self) -> bool {
        const PLAIN: Action = Action::Execute { cursor: false, long_data: false };
        let plain = |about: &About| about.action == PLAIN && !matches!(about.serves, Serves::Own(_));
        self.about.as_deref().is_some_and(plain) && self.is_one_packet()
    }

    /// Says whether the request's text may define an object that stored code can be in.
    pub(crate) fn may_define(&self) -> bool {
        let executes = matches!(self.command, RequestKind::Query | RequestKind::Execute);
        executes && (matches!(self.statement.kind, Kind::Ddl | Kind::Other) || self.statement.several)
    }

    /// The digest under which the request's execution counts. Returns 0 for a COM_STMT_PREPARE, which executes nothing.
    pub(crate) fn fingerprint(&self) -> u64 {
        if self.command == RequestKind::Prepare { 0 } else { self.statement.fingerprint }
    }

    /// Bytes that the request takes of `statement_memory`.
    pub(crate) fn bytes(&self) -> usize {
        let template = self.changes.template.as_ref().map_or(0, |template| template.bytes());
        let parsed =
            self.statement.heap_bytes() + template + variables_bytes(self.changes.variables.as_deref());
        let at_start = self.at_start.as_ref().map_or(0, |at_start| at_start.bytes());
        self.raw.len()
            + self.bytes.growth
            + self.bytes.on_its_way
            + self.attributes.bytes()
            + parsed
            + at_start
    }

    /// Frees the bytes of a request that has been sent, and will not be sent again.
    pub(crate) fn forget_bytes(&mut self) {
        self.raw = Vec::new();
        self.attributes = QueryAttributes::None;
    }

    /// The text of a COM_QUERY or COM_STMT_PREPARE that came in one packet; `None` where it spans several.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        let has_text = self.command != RequestKind::Execute && self.is_one_packet();
        has_text.then(|| &self.raw[wire::HEADER_LEN + 1..])
    }

    /// The text of a COM_QUERY or COM_STMT_PREPARE, which may span any number of packets.
    pub(crate) fn whole_text(&self) -> Vec<u8> {
        let sequence = self.raw.get(wire::HEADER_LEN - 1).copied().unwrap_or(0);
        let message = wire::read_message(&self.raw, sequence, usize::MAX).ok().flatten();
        message.map_or_else(Vec::new, |message| message.payload.get(1..).unwrap_or_default().to_vec())
    }

    fn is_one_packet(&self) -> bool {
        self.raw.len() < wire::HEADER_LEN + wire::MAX_PAYLOAD
    }
}

/// Bytes that are kept of a statement's assignments.
fn variables_bytes(found: Option<&VariableUse>) -> usize {
    let Some(VariableUse::Sets(sets)) = found else { return 0 };
    sets.iter().map(|(name, literal)| name.len() + literal.len() + size_of::<sql::Assignment>()).sum()
}

/// Says whether a statement of this kind uses no table, as far as MariaDB's list of diagnostics is concerned.
fn is_without_tables(kind: Kind) -> bool {
    use Kind::{Begin, Commit, Deallocate, Rollback, Savepoint, Set, UnlockTables, Use};
    matches!(kind, Set | Use | Begin | Commit | Rollback | Savepoint | UnlockTables | Deallocate)
}

/// Says whether a text may hold more than one statement: any semicolon but at its end. This is deliberately blind to quotes: a text for a client
/// without CLIENT_MULTI_STATEMENTS must never become two because of a lexer's mistake.
pub(crate) fn may_be_several(text: &[u8]) -> bool {
    let end =
        text.iter().rposition(|b| !b.is_ascii_whitespace() && !matches!(b, b';' | 0)).map_or(0, |at| at + 1);
    steps::all(&text[..end]).contains(&b';')
}

#[cfg(test)]
mod tests;
