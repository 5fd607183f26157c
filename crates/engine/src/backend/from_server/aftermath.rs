//! The aftermath of a statement for its client's next one: ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID() and the diagnostics.

use sql::{Effects, Kind, Offset, RowsFound};
use wire::Expect;

use crate::backend::{InFlight, Owner, Summary};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::session::aftermath::Diagnostics;
use crate::session::sql_states::SqlState;

/// Effects of statements that return rows which FOUND_ROWS() counts like the rows of any other.
const COUNT_NOTHING: Effects = Effects::NAMED_LOCK.union(Effects::USER_VARIABLE);

/// Effects of statements that may select rows without telling of it in the answer.
const MAY_SELECT: Effects = Effects::ROUTINE.union(Effects::UNKNOWN);

/// Effects of statements that may set LAST_INSERT_ID() without saying so.
const MAY_INSERT: Effects = Effects::TEXT_PREPARE.union(Effects::ROUTINE).union(Effects::UNKNOWN);

impl Client {
    /// Notes the aftermath of a statement on its backend, for the client's next one. Returns the diagnostics, where there are new ones.
    pub(crate) fn note_aftermath(
        &mut self,
        (own, key): (ClientKey, BackendKey),
        servers: &mut Servers,
        sessions: &Sessions,
        request: &Request,
        statement: &InFlight,
    ) -> Option<Diagnostics> {
        if request.command == RequestKind::LoginSchema {
            return None;
        }
        let summary = &statement.summary;
        let is_mariadb = servers.of(key).is_mariadb();
        let aftermath = &mut self.session.aftermath;
        if let Some(rows) = row_count(request, summary) {
            aftermath.changed_rows(rows);
        }
        // What others share cannot be asked about.
        let shared = servers[key].holder != Some(own);
        match found_rows(request, summary, is_mariadb, shared) {
            FoundRows::AsBefore => {}
            FoundRows::Known(rows) => aftermath.found(rows),
            FoundRows::OnServer => aftermath.found_rows_is_on_server(),
        }
        if may_change_insert_id(request, summary) {
            aftermath.insert_id_may_change(summary.last_insert_id, key);
        }
        let nothing_new = summary.error.is_none() && summary.warnings == 0;
        if nothing_new {
            servers[key].note_replaced_list(&request.statement);
        }
        self.diagnostics_behind(request, statement, is_mariadb, sessions, servers.primary())
    }

    /// Returns the new diagnostics behind a statement, where there are some.
    fn diagnostics_behind(
        &mut self,
        request: &Request,
        statement: &InFlight,
        is_mariadb: bool,
        sessions: &Sessions,
        server: &Server,
    ) -> Option<Diagnostics> {
        let summary = &statement.summary;
        let nothing_new = summary.error.is_none() && summary.warnings == 0;
        let diagnostics = self.session.aftermath.diagnostics();
        // Which statements leave the list of those before them, the server knows best.
        let kept = matches!(diagnostics, Diagnostics::OnBackend { .. }) && !self.session.pins().is_empty();
        let leaves = request.is_about_diagnostics() || request.leaves_diagnostics(is_mariadb);
        if nothing_new && leaves {
            return None;
        }
        if nothing_new && kept {
            // Most empty it: how many there are, the list itself says where it has to be saved.
            let emptied = Diagnostics::OnBackend { warnings: 0, errors: 0, sql_state: None };
            self.session.aftermath.leaves(emptied);
            return None;
        }
        Some(match (&summary.error, summary.warnings) {
            (Some(error), _) if statement.shared || summary.refused_here => {
                Diagnostics::of_error(error, self.reader_of(sessions, server))
            }
            // Short reads of other clients were behind it, so that the texts are gone. It is not run again for them: by
            // now it might be told of other rows than its client has seen. Its kind goes alone for long, see `history.rs`.
            (None, warnings) if statement.shared && warnings > 0 => {
                Diagnostics::Counted { warnings, errors: 0 }
            }
            (Some(error), warnings) => Diagnostics::OnBackend {
                warnings: warnings.max(1),
                errors: 1,
                sql_state: SqlState::of(error.sql_state),
            },
            (None, 0) => Diagnostics::None,
            (None, warnings) => Diagnostics::OnBackend { warnings, errors: 0, sql_state: None },
        })
    }
}

impl Server {
    /// Makes a backend its client's alone behind a read that others might have followed and none has. The aftermath of that read is still there,
    /// and stays until the client's worker has asked for it.
    pub(super) fn take_over_emptied(
        &mut self,
        key: BackendKey,
        statement: &mut InFlight,
        clients: &Table<ClientKey, Client>,
    ) {
        let summary = &statement.summary;
        let Owner::Client { client, .. } = statement.owner else { return };
        let is_mariadb = self.is_mariadb();
        let request = clients[client].request.as_ref();
        let found = |rows| request.is_some_and(|request| request.rows.found.is_unsure(rows, is_mariadb));
        let leaves = summary.error.is_some()
            || summary.warnings > 0
            || !summary.changes.is_empty()
            || summary.counts.found.is_some_and(found);
        if leaves && self.backends[key].in_flight.is_empty() {
            statement.shared = false;
            let backend = &mut self.backends[key];
            backend.holder = Some(client);
            backend.shown.serves.set(clients[client].id);
        }
    }
}

/// Returns ROW_COUNT() behind a statement; `None` where the value stays as before.
fn row_count(request: &Request, summary: &Summary) -> Option<i64> {
    // SHOW COUNT(*) WARNINGS has rows, GET DIAGNOSTICS has none.
    let sets = request.sets_row_count() || summary.counts.rows.is_some();
    let failed_to_prepare = request.command == RequestKind::Prepare && summary.error.is_some();
    if !sets && !failed_to_prepare {
        return None;
    }
    Some(match (&summary.error, summary.counts.rows) {
        // Definitions without rows are a result all the same.
        (None, None) if request.expect != Expect::FieldList => {
            i64::try_from(summary.affected_rows).unwrap_or(i64::MAX)
        }
        _ => -1,
    })
}

/// The fate of FOUND_ROWS() behind a statement.
enum FoundRows {
    AsBefore,
    Known(u64),
    /// A number that only the server knows.
    OnServer,
}

fn found_rows(request: &Request, summary: &Summary, is_mariadb: bool, shared: bool) -> FoundRows {
    let effects = effects_of_running(request);
    // What pins may do anything (SQL_CALC_FOUND_ROWS, a CALL, CREATE ... SELECT), and the rows of a cursor are still to
    // come: then only the server knows, and the client stays there.
    // What runs no selection of its own leaves the number as it was: SET, LOCK TABLES, CREATE TEMPORARY TABLE.
    let rows_tell = summary.counts.found.is_some();
    let may_count = if rows_tell { effects.without(COUNT_NOTHING) } else { effects };
    let selects = rows_tell
        || summary.counts.copied.is_some()
        || request.statement.kind == Kind::Select
        || !effects.intersection(MAY_SELECT).is_empty();
    if (selects && !may_count.is_empty()) || request.wants_cursor() {
        return if summary.error.is_none() { FoundRows::OnServer } else { FoundRows::AsBefore };
    }
    // CREATE TABLE ... SELECT counts what it read from tables; other definitions that copy rows do not.
    let copies = request.rows.inserts_selection && summary.counts.copied.is_some() && summary.error.is_none();
    if request.statement.kind == Kind::Ddl && copies {
        return FoundRows::OnServer;
    }
    let several = request.statement.several;
    let counts = if several { request.statement.rows_of_select } else { request.rows.are_counted };
    let found = match (summary.counts.found.filter(|_| counts), request.rows.found) {
        (Some(_), RowsFound::Values) if is_mariadb && !several => return FoundRows::AsBefore,
        (Some(rows), RowsFound::Limited { offset, .. }) => {
            if request.rows.found.is_unsure(rows, is_mariadb) && !shared && summary.error.is_none() {
                return FoundRows::OnServer;
            }
            let offset = if let Offset::Of(offset) = offset { offset } else { 0 };
            Some(if rows == 0 { 0 } else { rows.saturating_add(offset) })
        }
        (found, _) => found,
    };
    let copied = summary.counts.copied.filter(|_| request.rows.inserts_selection);
    // SELECT ... INTO has no result set and finds nothing, so to say.
    let into = matches!(request.command, RequestKind::Query | RequestKind::Execute)
        && request.statement.kind == Kind::Select
        && !several
        && summary.error.is_none()
        && summary.counts.rows.is_none();
    let of_change = if is_mariadb { None } else { found_by_change(request, summary) };
    found.or(copied).or(of_change).or(into.then_some(0)).map_or(FoundRows::AsBefore, FoundRows::Known)
}

/// Returns MySQL's number for a statement without rows: the rows that an UPDATE has matched, and 1 for DO.
fn found_by_change(request: &Request, summary: &Summary) -> Option<u64> {
    let statement = &request.statement;
    let counts = request.rows.are_counted && !statement.several && summary.error.is_none();
    match statement.kind {
        _ if !counts => None,
        Kind::Update => summary.counts.matched,
        Kind::Do => Some(1),
        _ => None,
    }
}

/// Says whether a statement may change LAST_INSERT_ID().
fn may_change_insert_id(request: &Request, summary: &Summary) -> bool {
    // RETURNING hides the id behind rows, an error hides it altogether. LOAD DATA sets it and does not say so, and of several
    // statements not all are heard of.
    let silent = request.statement.kind == Kind::Load || request.statement.several;
    let told = !silent && summary.counts.rows.is_none() && summary.error.is_none();
    let inserts = request.statement.inserts && request.command != RequestKind::Prepare;
    let unseen = !effects_of_running(request).intersection(MAY_INSERT).is_empty();
    summary.last_insert_id != 0 || unseen || (inserts && !told) || request.statement.sets_last_insert_id
}

/// Returns the effects of a statement that ran. A statement that was only prepared has none.
fn effects_of_running(request: &Request) -> Effects {
    if request.command == RequestKind::Prepare { Effects::NONE } else { request.statement.effects }
}
