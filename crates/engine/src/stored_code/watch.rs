//! When stored code is read, and what statements are to be taken for by it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seam::Instant;
use sql::{CodeEffects, PreparedText, QualifiedName, ResourceChange};

use super::questions::{self, CodeAnswers, CodeQuestion, ReadCode, Rights};
use super::{CodeChange, Defined, Hidden, Known, LargeDefinition, Library, Object, Runs, Scope};
use crate::accounts::task::{Asker, Work};
use crate::backend::own_answers::{Row, rows_of};
use crate::backend::{Afterwards, InFlight};
use crate::client::Client;
use crate::ids::BackendKey;
use crate::io::Io;
use crate::outside::event::Event;
use crate::outside::snapshot::rows::StoredCodeView;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::session::SessionTables;
use crate::settings::Settings;

/// The servers count a definition before they make it, and it may wait for a lock in between. So a server whose count has
/// changed is read again after this time, and after four times as long, and so on.
const FIRST_AGAIN: Duration = Duration::from_secs(1);

/// And no more after this long.
const LAST_AGAIN: Duration = Duration::from_secs(64);

/// Reading may take a twentieth of the service account's time, and of what the server does for it.
const PAUSE: u32 = 20;

/// Tables are defined more often than code, and hold it seldom.
const PAUSE_OF_TABLES: Duration = Duration::from_secs(5);

/// Where the server does not tell how many definitions there have been, it is asked again after this long.
const PAUSE_OF_REFUSAL: Duration = Duration::from_secs(60);

/// Errors with which a server refuses a definition before it has made any of it: of rights (ER_DBACCESS_DENIED_ERROR,
/// ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_PROCACCESS_DENIED_ERROR), of grammar
/// (ER_PARSE_ERROR), of what is missing (ER_NO_DB_ERROR, ER_BAD_DB_ERROR, ER_BAD_FIELD_ERROR, ER_NO_SUCH_TABLE, ER_SP_DOES_NOT_EXIST) or
/// there already (ER_TABLE_EXISTS_ERROR, ER_SP_ALREADY_EXISTS, ER_TRG_ALREADY_EXISTS).
const REFUSALS: [u16; 14] =
    [1044, 1142, 1143, 1227, 1370, 1064, 1046, 1049, 1054, 1146, 1305, 1050, 1304, 1359];

/// A worker's knowledge of stored code; one of the workers reads it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// When the server is asked for its counts next.
    next: Instant,
    /// Its latest counts: of code, and of tables too.
    counts: Option<[Vec<u8>; 2]>,
    /// When it may be read next.
    not_before: Instant,
    /// The time of the next reading.
    due: Option<Instant>,
    /// Once more, after how long.
    again: Option<(Instant, Duration)>,
    reading: Option<Reading>,
    /// What the service account was found to have first since its login. Rights on everything that come later are not those of its
    /// connection (manuals, "When privilege changes take effect").
    rights: Option<Rights>,
    /// True once a log line has said that not all can be read.
    said: bool,
    readings: u64,
}

/// The library that all workers know, as of this number, as one of them has it.
#[derive(Default)]
pub(crate) struct KnownCode {
    pub(crate) library: Arc<Library>,
    pub(crate) version: u64,
}

/// Reading that is under way.
#[derive(Debug)]
struct Reading {
    began: Instant,
    question: CodeQuestion,
    rights: Rights,
    known: Known,
    /// The answers that the server has given to their end.
    answers: Vec<(CodeQuestion, Vec<u8>)>,
    /// All is there, and is looked through.
    task: Option<u64>,
    /// Definitions that went through here and were over when it began.
    covered: Vec<u64>,
    /// The server's reason for a refusal.
    refusal: Option<String>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            next: Instant::START,
            counts: None,
            not_before: Instant::START,
            due: None,
            again: None,
            reading: None,
            rights: None,
            said: false,
            readings: 0,
        }
    }
}

impl Watch {
    /// The service account has logged in anew: it may be another server, or see more.
    pub(crate) fn asked_anew(&mut self) {
        let Self { said, readings, .. } = *self;
        *self = Self { said, readings, ..Self::default() };
    }

    /// Takes in the counts.
    fn take_counts(&mut self, now: Instant, counts: [Vec<u8>; 2], wanted: bool) {
        let before = self.counts.replace(counts);
        let after = self.counts.as_ref().expect("set above");
        let code = before.as_ref().is_none_or(|before| before[0] != after[0]);
        let tables = before.as_ref().is_none_or(|before| before[1] != after[1]);
        let again = self.again.is_some_and(|(at, _)| at <= now);
        if code || wanted || again {
            self.due = Some(now);
        } else if tables {
            self.due = self.due.or(Some(now + PAUSE_OF_TABLES));
        }
        if code && before.is_some() {
            self.again = Some((now + FIRST_AGAIN, FIRST_AGAIN));
        } else if let Some((_, pause)) = self.again.filter(|_| again) {
            self.again = (pause < LAST_AGAIN).then_some((now + 4 * pause, 4 * pause));
        }
    }

    /// Says whether a reading is due now.
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now) && self.not_before <= now
    }
}

impl Server {
    pub(crate) fn code_text(&self, question: CodeQuestion) -> &'static str {
        let facts = self.facts.as_ref().expect("asked for once the server is known");
        // What there is no question for is not asked, see `go_on_reading`.
        question.text(facts.is_mariadb(), facts.version.major()).unwrap_or("SELECT NULL")
    }

    /// Says whether code with these effects leaves the session with another role, which no reset undoes: in MariaDB the role goes
    /// with the code.
    pub(crate) fn takes_roles(&self, effects: CodeEffects) -> bool {
        effects.contains(CodeEffects::ROLE) && self.facts.as_ref().is_some_and(|facts| !facts.is_mariadb())
    }
}

impl Pool {
    /// Has in [`Self::known_code`] all that is known now.
    pub(crate) fn take_up_code(&mut self) {
        let known = &mut self.known_code;
        if known.version != self.workers.stored_code.version() {
            (known.version, known.library, _) = self.workers.stored_code.library();
        }
    }
}

/// What reading a server's code has at hand beside the server.
pub(crate) struct AtHand<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a Pool,
    pub(crate) io: &'a mut Io,
    pub(crate) views: &'a mut Views,
}

impl Server {
    /// Returns the question to ask it of its stored code now; one worker asks for all.
    pub(crate) fn next_code_question(&self, now: Instant, pool: &Pool) -> Option<CodeQuestion> {
        if pool.worker != 0 {
            return None;
        }
        let watch = &self.control.code;
        match &watch.reading {
            Some(reading) => reading.task.is_none().then_some(reading.question),
            None => (watch.next <= now).then_some(CodeQuestion::Counts),
        }
    }

    /// When there will be something to ask.
    pub(crate) fn next_code_turn(&self, now: Instant, pool: &Pool) -> Option<Instant> {
        if pool.worker != 0 {
            return None;
        }
        let watch = &self.control.code;
        match &watch.reading {
            Some(reading) => reading.task.is_none().then_some(now),
            None => Some(watch.next),
        }
    }

    /// It has answered, or refused to. True where the service account may see more than its connection shows: it is to log in anew, and
    /// the code is read then. Nothing is wrong with the server.
    pub(crate) fn code_answered(
        &mut self,
        at_hand: &mut AtHand<'_>,
        question: CodeQuestion,
        answer: Vec<u8>,
        refusal: Option<String>,
    ) -> bool {
        if question == CodeQuestion::Counts {
            self.take_code_counts(at_hand, &rows_of(&answer), refusal);
            return false;
        }
        let watch = &mut self.control.code;
        let Some(reading) = watch.reading.as_mut() else { return false };
        if question == CodeQuestion::Rights {
            reading.rights = Rights::of_rows(&rows_of(&answer));
            if reading.rights.are_more_than(*watch.rights.get_or_insert(reading.rights)) {
                watch.reading = None;
                return true;
            }
        }
        question.note_known(&mut reading.known, refusal.is_none());
        reading.refusal = reading.refusal.take().or(refusal);
        reading.answers.push((question, answer));
        self.go_on_reading(at_hand.io, question);
        false
    }

    fn take_code_counts(&mut self, at_hand: &mut AtHand<'_>, rows: &[Row], refusal: Option<String>) {
        let (now, stored_code) = (at_hand.now, &at_hand.pool.workers.stored_code);
        let is_mariadb = self.is_mariadb();
        let watch = &mut self.control.code;
        let Some(counts) = questions::counts(rows, is_mariadb) else {
            watch.next = now + PAUSE_OF_REFUSAL;
            watch.counts = None;
            watch.say_what_is_missing(at_hand.views, vec!["counts of definitions"], refusal);
            return stored_code.forget();
        };
        watch.next = now + at_hand.settings.accounts_refresh;
        watch.take_counts(now, counts, stored_code.is_wanted());
        if watch.is_due(now) {
            watch.due = None;
            watch.reading = Some(Reading {
                began: now,
                question: CodeQuestion::Rights,
                rights: Rights::default(),
                known: Known::default(),
                answers: Vec::new(),
                task: None,
                covered: stored_code.begin_reading(),
                refusal: None,
            });
        }
    }

    /// Behind an answer: the next question that has an answer, or the end.
    fn go_on_reading(&mut self, io: &mut Io, answered: CodeQuestion) {
        let facts = self.facts.as_ref().expect("known since the login");
        let (is_mariadb, version) = (facts.is_mariadb(), facts.version.major());
        let Some(reading) = self.control.code.reading.as_mut() else { return };
        let mut next = answered.next();
        while let Some(question) = next {
            if !reading.rights.allow(question, is_mariadb, version) {
                question.note_known(&mut reading.known, false);
            } else if question.text(is_mariadb, version).is_none() {
                question.note_known(&mut reading.known, true);
            } else {
                reading.question = question;
                return;
            }
            next = question.next();
        }
        // It has said all. Of tens of thousands of pieces a look at that would make a worker's turn long.
        let (answers, mode) = (std::mem::take(&mut reading.answers), facts.lex_mode);
        let work = Work::ReadCode(CodeAnswers { answers, mode });
        reading.task = Some(io.give_task(Asker::StoredCode(self.key), work, None));
    }

    /// The answers have been looked through, or that met a defect. Since then the service account may have logged in anew. True where
    /// code is known now of which backends that are there may have run some.
    pub(crate) fn code_is_read(
        &mut self,
        at_hand: &mut AtHand<'_>,
        task: u64,
        read: Option<ReadCode>,
    ) -> bool {
        let (now, stored_code) = (at_hand.now, &at_hand.pool.workers.stored_code);
        let watch = &mut self.control.code;
        let Some(reading) = watch.reading.take_if(|reading| reading.task == Some(task)) else { return false };
        watch.not_before = now + PAUSE * now.since(reading.began);
        let Some(ReadCode(base)) = read else {
            // It is read again with the next look at the counts.
            watch.counts = None;
            stored_code.forget();
            return false;
        };
        watch.readings += 1;
        let Known { routines, triggers, views, columns } = reading.known;
        let all = routines && triggers && views && columns;
        if !all {
            let missing = [
                (routines, "routines"),
                (triggers, "triggers"),
                (views, "views"),
                (columns, "columns' defaults"),
            ];
            let missing = missing.iter().filter(|(known, _)| !known).map(|&(_, name)| name).collect();
            watch.say_what_is_missing(at_hand.views, missing, reading.refusal);
        }
        stored_code.take(base, reading.known, &reading.covered)
    }

    /// The end of a statement: what code has become known while it ran may have run in it. Which of it, its text would tell, which is gone.
    /// To pin its client for what most likely has not run would hold the backends of all who are served when a server is first read,
    /// so the backend is reset behind it: what such code has set is lost to the client then, and reaches nobody else. A text of several
    /// statements that defines code itself (`defines`) may well go on to run it, and pins.
    pub(crate) fn note_hidden_code_at_end(
        &mut self,
        pool: &Pool,
        key: BackendKey,
        request: &mut Request,
        defines: bool,
    ) {
        let stored_code = &pool.workers.stored_code;
        let Some(version) = request.changes.library.filter(|&version| version != stored_code.version())
        else {
            return;
        };
        let (latest, library, beyond) = stored_code.library();
        let more = if version + 1 == latest { beyond } else { library.any() };
        request.changes.hidden.certain = false;
        if defines && request.statement.several {
            request.changes.hidden.effects |= more;
        } else if more.contains(CodeEffects::SILENT) {
            let clean = if self.takes_roles(more) { Afterwards::Close } else { Afterwards::Reset };
            let backend = &mut self.backends[key];
            backend.afterwards = backend.afterwards.max(clean);
        }
    }
}

impl Watch {
    /// Once.
    fn say_what_is_missing(&mut self, views: &mut Views, missing: Vec<&'static str>, reason: Option<String>) {
        if !std::mem::replace(&mut self.said, true) {
            views.event(Event::StoredCodeHidden { missing, reason });
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
            Defined::TooMuch => return Some(CodeChange::begin_of_unknown(&self.workers)),
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
        Some(CodeChange::begin(&self.workers, objects.collect()))
    }

    /// Returns the view of stored code from outside.
    pub(crate) fn stored_code_view(&self, primary: &Server) -> StoredCodeView {
        if self.worker != 0 {
            return StoredCodeView::default();
        }
        let (_, library, _) = self.workers.stored_code.library();
        StoredCodeView {
            readings: primary.control.code.readings,
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
        let prepared = about.map(|about| self.definitions.get(about.definition).session);
        let schema_of = |session| self.states.state(session).schema.as_deref();
        [client.session.id.and_then(schema_of), prepared.and_then(schema_of)]
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
            let mode = self.states.lex_mode(definition.session, facts.lex_mode);
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
        let Some(change) = statement.code_change.take() else { return };
        let refused = statement.summary.error.as_ref().is_some_and(|error| REFUSALS.contains(&error.code));
        if refused {
            let own = self.default_schemas(client, request);
            let stood = if statement.summary.counts.results > 0 { own } else { [None; 2] };
            change.refused(&stood.into_iter().flatten().map(sql::folded_name).collect::<Vec<_>>());
        }
    }
}
