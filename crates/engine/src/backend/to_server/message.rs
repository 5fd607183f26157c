//! A client's command in the form that its backend reads.
//!
//! Query attributes are agreed on at a login. Backends have the capability wherever the server has it. Clients' commands are kept in the form
//! without it, unless they have attributes.

use sql::{Effects, Kind};
use wire::{Capabilities, ClientMetadata, CommandKind, NO_QUERY_ATTRIBUTES, ReplyOptions, StatusFlags};
use zeroize::Zeroize;

use crate::backend::Backend;
use crate::backend::login::compression::is_compressed;
use crate::client::Client;
use crate::client::memory::bytes_held::ClientMemory;
use crate::outbox::Outbox;
use crate::request::{QueryAttributes, Request, RequestKind};
use crate::server::Server;
use crate::session::SessionTables;

/// The command's byte, the statement's number, the flags and the iteration count of COM_STMT_EXECUTE.
const BEFORE_VALUES: usize = 1 + 4 + 1 + 4;

/// Largest buffer that a backend keeps, in bytes: one large statement must not stay in the resident size.
const BUFFER_KEPT: usize = 64 << 10;

/// Largest text that is joined with its preludes, in bytes. A copy of a larger one would cost more than a round trip, and the sum might
/// exceed the server's max_allowed_packet.
pub(crate) const LARGEST_JOINED: usize = 1 << 20;

/// Says whether a request is a COM_QUERY with a text that can stand behind others in one packet. An empty statement would be swallowed
/// behind a semicolon, and LOAD DATA LOCAL counts packets in both directions.
pub(in crate::backend) fn can_be_joined(request: &Request) -> bool {
    request.command == RequestKind::Query
        && !matches!(request.statement.kind, Kind::Empty | Kind::Load)
        && !request.statement.effects.contains(Effects::UNKNOWN)
        && request.text().is_some_and(|text| text.len() <= LARGEST_JOINED)
}

impl Server {
    /// Sends the bytes that a turn has collected for backends, in one write for each of them.
    pub(crate) fn send_to_backends(&mut self, outbox: &mut Outbox) {
        for key in std::mem::take(&mut self.dirty) {
            let backend = &mut self.backends[key];
            if let Some(connection) = backend.connection {
                if backend.is_ready() && backend.out.len() > BUFFER_KEPT {
                    outbox.send_whole(connection, std::mem::take(&mut backend.out));
                    continue;
                }
                outbox.send(connection, &backend.out);
                if !backend.is_ready() {
                    // Its password may be among it.
                    backend.out.zeroize();
                }
                backend.out.clear();
                backend.out.shrink_to(BUFFER_KEPT);
            }
        }
    }
}

impl SessionTables {
    /// Returns the number of parameters of the statement that a request executes.
    pub(super) fn parameters_of(&self, request: &Request) -> u16 {
        let about = request.about.as_deref().filter(|_| request.command == RequestKind::Execute);
        about.map_or(0, |about| self.definitions.get(about.definition).parameters)
    }
}

impl Backend {
    /// Appends a request to the bytes for the backend, in one text with its preludes. `parameters` is the prepared statement's number of them.
    /// Returns the number of the answer's first packet.
    pub(super) fn put_message(&mut self, parameters: u16, request: &Request, ahead: &[Vec<u8>]) -> u8 {
        let query = request.command == RequestKind::Query;
        if let Some(text) = request.text().filter(|_| !ahead.is_empty()) {
            let mut preludes = Vec::new();
            for prelude in ahead {
                preludes.extend_from_slice(prelude);
                preludes.push(b';');
            }
            return self.put_text(&request.attributes, &preludes, text);
        }
        if query && self.takes_attributes() {
            return match request.text() {
                Some(text) => self.put_text(&request.attributes, &[], text),
                None => self.put_text(&request.attributes, &[], &request.whole_text()),
            };
        }
        let among_values = request.attributes == QueryAttributes::AmongValues;
        if parameters > 0 && self.takes_attributes() && !among_values {
            return self.put_named(&request.raw, usize::from(parameters));
        }
        if among_values && !self.takes_attributes() {
            return self.put_malformed(&request.raw);
        }
        self.out.extend_from_slice(&request.raw);
        request.server_answer()
    }

    /// Hands a large request that is not needed here any more to the driver as it is, behind the bytes that are there already. Returns the
    /// number of the answer's first packet; `None` where the request has to be put together first.
    pub(super) fn hand_on(
        &mut self,
        outbox: &mut Outbox,
        request: &mut Request,
        ahead: &[Vec<u8>],
    ) -> Option<u8> {
        let (takes, among_values) =
            (self.takes_attributes(), request.attributes == QueryAttributes::AmongValues);
        let as_it_is = match request.command {
            RequestKind::Query | RequestKind::Other => true,
            RequestKind::Execute => takes == among_values,
            _ => false,
        };
        let large = request.raw.len() > BUFFER_KEPT && ahead.is_empty() && as_it_is;
        let connection = self.connection.filter(|_| large && self.is_ready())?;
        if takes && request.command == RequestKind::Query {
            wire::unpack_message(&mut request.raw);
            request.raw.splice(1..1, in_front(&request.attributes).iter().copied());
            wire::pack_message(&mut request.raw, &mut 0);
        }
        let answer = request.server_answer();
        let raw = std::mem::take(&mut request.raw);
        outbox.send(connection, &self.out);
        self.out.clear();
        request.bytes.on_its_way = raw.len();
        outbox.send_whole(connection, raw);
        Some(answer)
    }
}

impl ClientMemory {
    /// Notes that the server takes the bytes of a client's statement: they are not on their way any more.
    pub(crate) fn has_arrived(&mut self, client: &mut Client) {
        if let Some(request) = client.request.as_mut()
            && std::mem::take(&mut request.bytes.on_its_way) > 0
        {
            let bytes = request.bytes();
            self.statements.set(&mut request.bytes.counted, bytes);
        }
    }
}

impl Client {
    /// Returns the flags in front of a result set that this request adds to the client's former ones, as far as they can be known there. The
    /// server tells the rest at the end.
    pub(super) fn foreseen(&self, request: &Request) -> StatusFlags {
        let statement = &request.statement;
        let autocommit = self.session.status().contains(StatusFlags::AUTOCOMMIT);
        // Reading a table begins a transaction then, unless its engine has none.
        let reads_tables = !matches!(statement.kind, Kind::Show | Kind::Explain)
            && !request.rows.without_tables
            && (!statement.several || request.text().is_some_and(first_says_from));
        let begins = if !autocommit && reads_tables { StatusFlags::IN_TRANS } else { StatusFlags::NONE };
        // An OK follows the result sets of a procedure.
        let calls = statement.kind == Kind::Call && !statement.several;
        begins | if calls { StatusFlags::MORE_RESULTS_EXISTS } else { StatusFlags::NONE }
    }
}

impl Request {
    /// Returns the fewest results that its text has where none of them is an error; 0 where that is not known.
    pub(super) fn results(&self) -> u32 {
        self.statement.statements + u32::from(self.statement.comment_at_end)
    }
}

impl Backend {
    fn takes_attributes(&self) -> bool {
        self.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    /// Puts the bytes of the attributes in front of the text of a COM_QUERY.
    pub(super) fn put_attributes(&mut self, attributes: &QueryAttributes) {
        if self.takes_attributes() {
            self.out.extend_from_slice(in_front(attributes));
        }
    }

    fn put_text(&mut self, attributes: &QueryAttributes, preludes: &[u8], text: &[u8]) -> u8 {
        let start = wire::begin_packet(&mut self.out);
        self.out.push(CommandKind::Query as u8);
        self.put_attributes(attributes);
        self.out.extend_from_slice(preludes);
        self.out.extend_from_slice(text);
        let mut sequence = 0;
        wire::end_packet(&mut self.out, start, &mut sequence);
        sequence
    }

    /// Puts an execution with query attributes for a server without them, which has replaced the server of its client's login. That server
    /// would take other bytes for the values. So the execution has no values, which the servers refuse (`mysqld_stmt_execute`).
    fn put_malformed(&mut self, raw: &[u8]) -> u8 {
        let mut rest = raw;
        let mut number = [0; 4];
        while let Ok(Some(message)) = wire::read_message(rest, 0, usize::MAX) {
            if let Some(said) = message.payload.get(1..5) {
                number.copy_from_slice(said);
            }
            rest = &rest[message.consumed..];
        }
        let mut sequence = 0;
        let payload = [&[CommandKind::StmtExecute as u8][..], &number].concat();
        wire::put_message(&mut self.out, &mut sequence, &payload);
        sequence
    }

    /// Puts an execution in the form where values are counted and named, and the long data that goes ahead of it.
    fn put_named(&mut self, raw: &[u8], parameters: usize) -> u8 {
        let mut rest = raw;
        let mut sequence = 0;
        while let Ok(Some(message)) = wire::read_message(rest, 0, usize::MAX) {
            let payload = &message.payload;
            let execution = payload.first() == Some(&(CommandKind::StmtExecute as u8));
            sequence = 0;
            match payload.split_at_checked(BEFORE_VALUES).filter(|_| execution) {
                Some((front, values)) => {
                    let start = wire::begin_packet(&mut self.out);
                    self.out.extend_from_slice(front);
                    wire::put_named_values(&mut self.out, parameters, values);
                    wire::end_packet(&mut self.out, start, &mut sequence);
                }
                None => wire::put_message(&mut self.out, &mut sequence, payload),
            }
            rest = &rest[message.consumed..];
        }
        sequence
    }
}

/// Returns the bytes that a backend that takes attributes finds in front of a text.
fn in_front(attributes: &QueryAttributes) -> &[u8] {
    match attributes {
        QueryAttributes::OfText(attributes) => attributes,
        QueryAttributes::None | QueryAttributes::AmongValues => &NO_QUERY_ATTRIBUTES,
    }
}

/// Says whether the first of several statements names a table, as far as its text tells. A long text has been read on another thread. This
/// look is on the worker.
fn first_says_from(text: &[u8]) -> bool {
    /// Bytes that are looked at. A SELECT names its tables sooner.
    const MOST: usize = 16 << 10;
    text[..text.len().min(MOST)].split(|&byte| byte == b';').next().is_some_and(sql::says_from)
}

/// Returns the way in which answers on a backend are read for a client.
pub(crate) fn reply_options(
    backend: Capabilities,
    client: Capabilities,
    skip_results: u8,
    first_sequence: u8,
) -> ReplyOptions {
    ReplyOptions {
        first_sequence,
        backend_deprecate_eof: backend.contains(Capabilities::DEPRECATE_EOF),
        backend_session_track: backend.contains(Capabilities::SESSION_TRACK),
        may_open_cursor: false,
        backend_compressed: is_compressed(backend),
        client_deprecate_eof: client.contains(Capabilities::DEPRECATE_EOF),
        client_session_track: client.contains(Capabilities::SESSION_TRACK),
        client_progress: client.contains(Capabilities::PROGRESS),
        client_metadata: match client.contains(Capabilities::CACHE_METADATA) {
            true => ClientMetadata::Announced,
            false => ClientMetadata::Bare,
        },
        skip_results,
    }
}
