//! The effects of a text are found out before it is queued. Most texts are read at once. A large one (`large_statement_size`) is read
//! by the threads that do the work of logins, so that no text makes a worker's turn long. Its client's next commands wait until then.

mod elsewhere;

use std::sync::Arc;

use sql::{Classification, Kind, LexMode, ResourceChange};
use wire::Expect;

use crate::client::answers::held_answer::HeldFor;
use crate::client::memory::bytes_held::Counted;
use crate::request::found_ahead::FoundAhead;
use crate::request::{QueryAttributes, Request, RequestChanges, RequestKind};
use crate::scheduling::learned::digests;
use crate::server::stored_code::{Defined, Hidden, LargeDefinition, Library, Scope};
use crate::session::named_resources::{MOST_TEXT, resource_change_of};
use crate::session::statements::Template;
use crate::session::user_variables::variable_use;
use crate::steps;

/// The facts about a text that have to be found beside its effects, for the client that sends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// True where it matters whether the text uses tables: there are diagnostics to keep, or a transaction that may not be seen.
    pub(super) tables: bool,
    /// True where it matters what the text gives back: the client holds something by name.
    pub(super) gives: bool,
    /// True where it matters what the text does with user variables: they are carried.
    pub(super) variables: bool,
}

/// A client's large text that is being read.
#[derive(Debug)]
pub(crate) struct LargeTextReading {
    task: u64,
    /// Bytes that the statement takes of `statement_memory`.
    pub(in crate::client) counted: Counted,
    /// The sequence number of the answer.
    answer: u8,
}

/// A large text, to be read on another thread than a worker's.
pub struct LargeText {
    command: RequestKind,
    raw: Vec<u8>,
    answer: u8,
    attributes: QueryAttributes,
    mode: LexMode,
    wants: Wants,
    schema: Option<Box<[u8]>>,
    /// The stored code of the server, and its version.
    code: Option<(Arc<Library>, u64)>,
}

/// A large text that has been read: its request.
pub struct ReadText(Box<Request>);

impl std::fmt::Debug for ReadText {
    /// Leaves out what clients have written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadText")
    }
}

impl LargeText {
    /// Reads the text, which takes some ten milliseconds for each megabyte.
    pub fn read(mut self) -> ReadText {
        let mut raw = std::mem::take(&mut self.raw);
        let mut request = with_text_of(&mut raw, |text| self.read_text(text));
        request.raw = raw;
        request.attributes = self.attributes;
        ReadText(Box::new(request))
    }

    fn read_text(&self, text: &[u8]) -> Request {
        if self.command == RequestKind::Prepare {
            let mut request = Request::of_prepare(text, self.mode, self.answer);
            let statement =
                request.changes.template.as_ref().map_or(&request.statement, |found| &found.statement);
            let digest = digests::text::shown(text, statement, self.mode);
            request.found_ahead = Some(Box::new(FoundAhead { defines: Defined::Nothing, digest }));
            if let Some(template) = &mut request.changes.template {
                template.large = Some(Arc::new(LargeDefinition::of_text(text, self.mode)));
            }
            return request;
        }
        let mut request = Request::of_query(text, self.mode, self.wants, self.answer);
        let digest = digests::text::shown(text, &request.statement, self.mode);
        let defines = match request.may_define() {
            true => Defined::of_text(text, self.mode),
            false => Defined::Nothing,
        };
        request.found_ahead = Some(Box::new(FoundAhead { defines, digest }));
        if let Some((library, version)) = &self.code {
            let scope = Scope::In([self.schema.as_deref(), None]);
            let hidden = match request.changes.named_resource.as_deref() {
                // What that is, is with the client. Whoever says so little in so many words gets the worst of it.
                Some(ResourceChange::Executes(_)) => Hidden::WORST,
                Some(ResourceChange::ExecutesHarmless(inner)) => library.hidden_in_text(inner),
                _ => library.hidden(text, self.mode, request.statement.may_write(), scope),
            };
            request.take_hidden(hidden, *version);
        }
        // Nobody keeps a text that is as long, or looks at it again.
        if let Some(ResourceChange::Prepares { text: inner, .. }) =
            request.changes.named_resource.as_deref_mut()
        {
            inner.take_if(|inner| inner.text.len() > MOST_TEXT);
        }
        if let Some(ResourceChange::ExecutesHarmless(inner)) = request.changes.named_resource.as_deref_mut() {
            inner.text = Box::default();
        }
        request
    }
}

impl Request {
    /// Makes the request of a COM_QUERY with this text, as far as the text tells, and still without its bytes.
    pub(crate) fn of_query(text: &[u8], mode: LexMode, wants: Wants, answer: u8) -> Self {
        let statement = sql::classify(text, mode);
        let (expect, command) = (Expect::ResultSets, RequestKind::Query);
        let mut request = Self::with_text(Vec::new(), expect, command, text, statement, answer);
        let statement = &request.statement;
        // What waits for a permit may wait for what it is to end.
        if matches!(statement.kind, Kind::Kill(_)) {
            request.turn.waits_for_no_permit();
        }
        request.rows.without_tables = wants.tables && sql::reads_no_table(statement.kind, text);
        request.held_for = HeldFor::of_text(statement, text);
        request.changes.globals = sql::sets_globals(statement.kind, text);
        request.rows.inserts_selection = sql::inserts_selection(statement.kind, text);
        request.changes.named_resource = resource_change_of(statement, text, mode, wants.gives).map(Box::new);
        request.changes.variables =
            wants.variables.then(|| variable_use(statement, text, mode)).flatten().map(Box::new);
        request
    }

    /// Makes the request of a COM_STMT_PREPARE, likewise.
    pub(crate) fn of_prepare(text: &[u8], mode: LexMode, answer: u8) -> Self {
        let statement = sql::classify(text, mode);
        let (expect, command) = (Expect::Prepare, RequestKind::Prepare);
        let mut found = Self::with_text(Vec::new(), expect, command, text, statement, answer);
        let calls = std::mem::take(&mut found.statement.calls);
        let mentions =
            |word: &[u8]| steps::all(text).windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        let template = Template {
            collation: found.changes.collation,
            counts_rows: found.rows.are_counted,
            found: found.rows.found,
            inserts_selection: sql::inserts_selection(found.statement.kind, text),
            without_tables: sql::reads_no_table(found.statement.kind, text),
            statement: found.statement,
            // They are places in the text, which may change until it is sent.
            calls: Vec::new(),
            mentions_schema: mentions(b"database") || mentions(b"schema"),
            large: None,
        };
        // The rest is what its executions do, which come without a text.
        let Classification { reads, fingerprint, .. } = template.statement;
        let statement = Classification { reads, fingerprint, calls, ..Classification::none() };
        Self {
            answer,
            statement,
            changes: RequestChanges { template: Some(Box::new(template)), ..RequestChanges::default() },
            ..Self::plain(Vec::new(), expect, command)
        }
    }
}

/// Looks at the text of a command, of however many packets. Their headers are away meanwhile.
pub(super) fn with_text_of<T>(raw: &mut Vec<u8>, look: impl FnOnce(&[u8]) -> T) -> T {
    if raw.len() < wire::HEADER_LEN + wire::MAX_PAYLOAD {
        return look(raw.get(wire::HEADER_LEN + 1..).unwrap_or_default());
    }
    wire::unpack_message(raw);
    let found = look(raw.get(1..).unwrap_or_default());
    wire::pack_message(raw, &mut 0);
    found
}
