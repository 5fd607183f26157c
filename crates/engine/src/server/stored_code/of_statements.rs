//! The effects that statements are to be taken for by the stored code behind them.

use std::collections::BTreeSet;

use sql::{CodeEffects, PreparedText, QualifiedName, ResourceChange};

use super::watch::KnownCode;
use super::{CodeChange, Defined, Hidden, LargeDefinition, Object, Runs, Scope};
use crate::backend::InFlight;
use crate::client::Client;
use crate::outside::snapshot::rows::StoredCodeView;
use crate::pool::Pool;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::session::SessionTables;

/// Errors with which a server refuses a definition before it has made any of it: of rights (ER_DBACCESS_DENIED_ERROR,
/// ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_PROCACCESS_DENIED_ERROR), of grammar
/// (ER_PARSE_ERROR), of what is missing (ER_NO_DB_ERROR, ER_BAD_DB_ERROR, ER_BAD_FIELD_ERROR, ER_NO_SUCH_TABLE, ER_SP_DOES_NOT_EXIST) or
/// there already (ER_TABLE_EXISTS_ERROR, ER_SP_ALREADY_EXISTS, ER_TRG_ALREADY_EXISTS).
const REFUSALS: [u16; 14] =
    [1044, 1142, 1143, 1227, 1370, 1064, 1046, 1049, 1054, 1146, 1305, 1050, 1304, 1359];

impl Pool {
    /// Has in [`Self::known_code`] all that is known now.
    pub(crate) fn take_up_code(&mut self) {
        let known = &mut self.known_code;
        if known.version != self.workers.stored_code.version() {
            (known.version, known.library, _) = self.workers.stored_code.library();
        }
    }
}

impl Pool {
    /// Takes note of what a client's statement may do by stored code of the server that takes writes: before it is queued, and again where
    /// more has become known when it is sent.
    pub(crate) fn note_hidden_code(
        &mut self,
        client: &Client,
        sessions: &SessionTables,
        primary: &Server,
        request: &mut Request,
    ) {
        let executes = matches!(request.command, RequestKind::Query | RequestKind::Execute);
        if !executes || primary.facts.is_none() {
            return;
        }
        self.take_up_code();
        let KnownCode { library, version } = &self.known_code;
        if request.changes.library == Some(*version) {
            return;
        }
        let scope = Scope::In(sessions.default_schemas(client, request));
        let writes = request.statement.may_write();
        let hidden = match (client.text_by_name(request), sessions.large_definition(request)) {
            // It is too long to be looked at once more, here: it may do whatever any code does.
            _ if request.found_ahead.is_some() => {
                Hidden { effects: request.changes.hidden.effects | library.any(), certain: false }
            }
            (_, Some(LargeDefinition { names: Some(names), .. })) => {
                library.hidden_by_names(names, writes, scope)
            }
            (_, Some(_)) => Hidden { effects: library.any(), certain: false },
            (Some(prepared), None) => library.hidden_in_text(prepared),
            (None, None) => sessions.with_text((client, primary), request, |text, mode| {
                library.hidden(text, mode, writes, scope)
            }),
        };
        request.take_hidden(hidden, *version);
    }

    /// A client's statement is about to be sent: what it defines is known from now on.
    pub(crate) fn code_change(
        &mut self,
        client: &Client,
        sessions: &SessionTables,
        primary: &Server,
        request: &Request,
    ) -> Option<CodeChange> {
        if !request.may_define() {
            return None;
        }
        let own;
        let found = match (&request.found_ahead, sessions.large_definition(request)) {
            (Some(ahead), _) => &ahead.defines,
            (None, Some(definition)) => &definition.defines,
            (None, None) => {
                own = sessions.with_text((client, primary), request, Defined::of_text);
                &own
            }
        };
        let found = match found {
            Defined::Nothing => return None,
            Defined::TooMuch => return Some(CodeChange::begin_of_unknown(&self.workers.stored_code)),
            Defined::These(found) => found.clone(),
        };
        let mut code = found.code;
        if found.only_tables {
            // A temporary table is the session's own affair.
            code.effects = code.effects.without(CodeEffects::REPORTED);
            self.take_up_code();
            let library = &self.known_code.library;
            if code.effects.is_empty() && !code.names.iter().any(|name| library.has(name)) {
                return None;
            }
        }
        let own = sessions.default_schemas(client, request).into_iter().flatten().map(sql::folded_name);
        let defaults: BTreeSet<_> = own.chain(found.uses).collect();
        let defaults: Vec<_> = defaults.into_iter().collect();
        let objects = |runs, names: BTreeSet<QualifiedName>| {
            let (code, defaults) = (code.clone(), defaults.clone());
            names.into_iter().flat_map(move |QualifiedName { schema, name }| {
                // Without a schema the server refuses it.
                let schemas = schema.map_or_else(|| defaults.clone(), |schema| vec![schema]);
                let (code, defaults) = (code.clone(), defaults.clone());
                schemas.into_iter().map(move |schema| Object {
                    runs,
                    schema: Some(schema),
                    name: name.clone(),
                    code: code.clone(),
                    defaults: defaults.clone(),
                })
            })
        };
        let objects = objects(Runs::Written, found.triggered)
            .chain(objects(Runs::Anyhow, found.relations))
            .chain(objects(Runs::Called, found.routines));
        Some(CodeChange::begin(&self.workers.stored_code, objects.collect()))
    }

    /// Returns the view of stored code from outside.
    pub(crate) fn stored_code_view(&self, primary: &Server) -> StoredCodeView {
        if self.worker != 0 {
            return StoredCodeView::default();
        }
        let (_, library, _) = self.workers.stored_code.library();
        StoredCodeView {
            readings: primary.control.code.readings(),
            unreadable: library.unreadable(),
            changing_names: library.changing_names(),
        }
    }
}

impl Client {
    /// Returns the text that an EXECUTE executes, where the client is not pinned for it anyway.
    fn text_by_name<'a>(&'a self, request: &'a Request) -> Option<&'a PreparedText> {
        match request.changes.named_resource.as_deref()? {
            ResourceChange::ExecutesHarmless(text) => Some(text),
            ResourceChange::Executes(name) => self.session.named_resources.as_ref()?.text(name),
            _ => None,
        }
    }
}

impl SessionTables {
    /// Returns the findings about a large text that is executed by its number.
    fn large_definition<'a>(&'a self, request: &'a Request) -> Option<&'a LargeDefinition> {
        let about = request.about.as_deref().filter(|_| request.command == RequestKind::Execute)?;
        self.definitions.get(about.definition).template.large.as_deref()
    }

    /// The default schema of a client, and the one in which the statement was prepared that it executes.
    fn default_schemas(&self, client: &Client, request: &Request) -> [Option<&[u8]>; 2] {
        let about = request.about.as_deref().filter(|_| request.command == RequestKind::Execute);
        let prepared = about.map(|about| self.definitions.get(about.definition).session());
        let schema_of = |session| self.states.state(session).schema.as_deref();
        [client.session.id().and_then(schema_of), prepared.and_then(schema_of)]
    }

    /// The text that a client's request executes.
    fn with_text<T>(
        &self,
        (client, primary): (&Client, &Server),
        request: &Request,
        look: impl FnOnce(&[u8], sql::LexMode) -> T,
    ) -> T {
        if let Some(about) = request.about.as_deref().filter(|_| request.command == RequestKind::Execute) {
            let definition = self.definitions.get(about.definition);
            let facts = primary.facts.as_ref().expect("nobody logs in before the server is known");
            let mode = self.states.lex_mode(definition.session(), facts.lex_mode);
            return look(&definition.text, mode);
        }
        let mode = client.lex_mode(&self.states, primary);
        match request.text() {
            Some(text) => look(text, mode),
            None => look(&request.whole_text(), mode),
        }
    }

    /// The answer to what defines something is there: what the server has refused is not.
    pub(crate) fn definition_answered(&self, client: &Client, request: &Request, statement: &mut InFlight) {
        let Some(change) = statement.take_code_change() else { return };
        let refused = statement.summary.error.as_ref().is_some_and(|error| REFUSALS.contains(&error.code));
        if refused {
            let own = self.default_schemas(client, request);
            let stood = if statement.summary.counts.results > 0 { own } else { [None; 2] };
            change.refused(&stood.into_iter().flatten().map(sql::folded_name).collect::<Vec<_>>());
        }
    }
}
