//! What a client holds by name on its backend, so that its pin ends with the last of it.
//!
//! The rule is that what is noted here is never less than what the server holds: where it is not certain that something has been
//! given back, or was never taken, it stays, and the client with its backend.

use std::collections::{BTreeMap, BTreeSet};

use sql::{Effects, Kind, LexMode, PreparedText, ResourceChange, TableName};
use wire::StatusFlags;

use super::Client;
use crate::backend::Summary;
use crate::backend::own_answers::only_field;
use crate::request::statement::Statement;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::session::Sessions;
use crate::session::pin_counts::PinCounts;
use crate::session::pins::Pins;
use crate::stored_code::is_sys;

/// The reasons to pin of which the single things are known.
const BY_NAME: Effects = Effects::TEMPORARY_TABLE
    .union(Effects::LOCK_TABLES)
    .union(Effects::NAMED_LOCK)
    .union(Effects::TEXT_PREPARE)
    .union(Effects::HANDLER);

/// So many names are kept of one client, each of at most 64 bytes and a schema's; whoever holds more keeps its backend.
const MOST_NAMES: usize = 128;

/// So many bytes of the texts of prepared statements are kept of one client. Whoever executes one of another text keeps its
/// backend.
pub(super) const MOST_TEXT: usize = 16 << 10;

/// ER_PARSE_ERROR.
const PARSE_ERROR: u16 = 1064;

/// ER_UNKNOWN_STMT_HANDLER: there is no prepared statement of this name.
const UNKNOWN_STATEMENT: u16 = 1243;

/// Errors of statements that have not done anything yet: the schema, table or right is missing (1044, 1046, 1049, 1142, 1143,
/// 1146, 1227), or what is to be freed or closed is not there (1109, 1243).
const NOTHING_DONE: [u16; 9] = [1044, 1046, 1049, 1109, 1142, 1143, 1146, 1227, UNKNOWN_STATEMENT];

/// What one client holds.
#[derive(Debug, Default)]
pub(crate) struct NamedResources {
    tables: BTreeSet<TableName>,
    /// How often each lock has been taken.
    locks: BTreeMap<Box<[u8]>, u32>,
    /// With their texts, where executing them leaves nothing behind but by stored code.
    statements: BTreeMap<Box<[u8]>, Option<PreparedText>>,
    handlers: BTreeSet<Box<[u8]>>,
    /// LOCK TABLES.
    locks_tables: bool,
    /// FLUSH TABLES WITH READ LOCK.
    locks_all_tables: bool,
    /// LOCK INSTANCE FOR BACKUP.
    locks_instance: bool,
    /// Reasons of which something is held without a name: they end with the session's state.
    nameless: Effects,
}

/// How a statement ended, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// `took`: it has not said that it did not take the lock that it asked for.
    Succeeded { took: bool },
    /// Something of it may have happened.
    Failed,
}

impl NamedResources {
    /// The reasons to pin.
    fn effects(&self) -> Effects {
        let locks_tables = self.locks_tables || self.locks_all_tables || self.locks_instance;
        let held = [
            (Effects::TEMPORARY_TABLE, !self.tables.is_empty()),
            (Effects::LOCK_TABLES, locks_tables),
            (Effects::NAMED_LOCK, !self.locks.is_empty()),
            (Effects::TEXT_PREPARE, !self.statements.is_empty()),
            (Effects::HANDLER, !self.handlers.is_empty()),
        ];
        let named = held.into_iter().filter(|&(_, held)| held);
        named.fold(self.nameless, |effects, (effect, _)| effects | effect)
    }

    /// Takes in the end of a statement with these effects. `schema` is the session's.
    fn note(
        &mut self,
        statement: &Statement,
        change: Option<&ResourceChange>,
        schema: Option<&[u8]>,
        ending: Ending,
    ) {
        let Some(change) = change else {
            self.nameless |= statement.effects.intersection(BY_NAME);
            // A table may have another name now.
            if !self.tables.is_empty() && (statement.several || statement.kind == Kind::Ddl) {
                self.nameless |= Effects::TEMPORARY_TABLE;
            }
            if ending != Ending::Failed && statement.kind == Kind::Begin && !statement.several {
                // LOCK TABLES ends with it, FLUSH TABLES WITH READ LOCK does not (sql/transaction.cc: trans_begin).
                self.locks_tables = false;
            }
            return;
        };
        if ending != Ending::Failed {
            self.give(change, schema);
        }
        self.take(change, schema, ending);
        if self.names() > MOST_NAMES {
            self.nameless |= self.effects().intersection(BY_NAME);
            self.tables.clear();
            self.locks.clear();
            self.statements.clear();
            self.handlers.clear();
        }
    }

    /// What a statement that succeeded gives back.
    fn give(&mut self, change: &ResourceChange, schema: Option<&[u8]>) {
        match change {
            ResourceChange::DropsTables(names) => {
                for name in names.iter().filter_map(|name| full_name(name, schema)) {
                    self.tables.remove(&name);
                }
            }
            ResourceChange::UnlocksTables => {
                self.locks_tables = false;
                self.locks_all_tables = false;
            }
            ResourceChange::UnlocksInstance => self.locks_instance = false,
            // Whatever it answers: it is held once less now, or was not held.
            ResourceChange::FreesLock(name) => {
                if let Some(count) = self.locks.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        self.locks.remove(name);
                    }
                }
            }
            ResourceChange::FreesAllLocks => self.locks.clear(),
            ResourceChange::Deallocates(name) => {
                self.statements.remove(name);
            }
            ResourceChange::ClosesHandler(name) => {
                self.handlers.remove(name);
            }
            _ => {}
        }
    }

    /// What a statement takes, or may have taken before it failed.
    fn take(&mut self, change: &ResourceChange, schema: Option<&[u8]>, ending: Ending) {
        let failed = ending == Ending::Failed;
        match change {
            ResourceChange::CreatesTable(name) => match full_name(name, schema) {
                Some(name) => {
                    self.tables.insert(name);
                }
                None => self.nameless |= Effects::TEMPORARY_TABLE,
            },
            ResourceChange::LocksTables => self.locks_tables = true,
            ResourceChange::LocksAllTables => self.locks_all_tables = true,
            ResourceChange::LocksInstance => self.locks_instance = true,
            ResourceChange::TakesLock(name) if ending != (Ending::Succeeded { took: false }) => {
                *self.locks.entry(name.clone()).or_default() += 1;
            }
            // One that cannot be prepared leaves none of that name (the manuals on PREPARE).
            ResourceChange::Prepares { name, text } if !failed => {
                self.statements.remove(name);
                let room = MOST_TEXT.saturating_sub(self.texts());
                // It is of the schema that was in use here, whichever is when it is executed.
                let kept = text.as_ref().filter(|text| text.text.len() <= room && !is_sys(schema));
                self.statements.insert(name.clone(), kept.cloned());
            }
            ResourceChange::Executes(name) if self.text(name).is_none() => {
                self.nameless |= Effects::TEXT_PREPARE;
            }
            ResourceChange::OpensHandler(name) if !failed => {
                self.handlers.insert(name.clone());
            }
            _ => {}
        }
    }

    fn names(&self) -> usize {
        self.tables.len() + self.locks.len() + self.statements.len() + self.handlers.len()
    }

    /// What executing a prepared statement executes; `None` where that is not known, or leaves something behind by itself.
    pub(crate) fn text(&self, name: &[u8]) -> Option<&PreparedText> {
        self.statements.get(name)?.as_ref()
    }

    /// Whether there is a prepared statement of this name.
    pub(crate) fn has_prepared(&self, name: &[u8]) -> bool {
        self.statements.contains_key(name)
    }

    fn texts(&self) -> usize {
        self.statements.values().flatten().map(|text| text.text.len()).sum()
    }

    /// Bytes of it; the nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        const NAME: usize = 2 * (size_of::<TableName>() + 64);
        size_of::<Self>() + self.names() * NAME + self.texts()
    }
}

/// What a text does to what its client holds, where its form tells all of it: not of CREATE TABLE ... SELECT GET_LOCK(...).
fn whole_resource_change(statement: &Statement, text: &[u8], mode: LexMode) -> Option<ResourceChange> {
    let found = sql::resource_change(text, mode)?;
    let more = statement.effects.intersection(BY_NAME).without(told_by(&found, statement.kind));
    more.is_empty().then_some(found)
}

/// The effects that this tells all of.
fn told_by(change: &ResourceChange, kind: Kind) -> Effects {
    match change {
        ResourceChange::CreatesTable(_) => Effects::TEMPORARY_TABLE,
        ResourceChange::LocksTables | ResourceChange::LocksAllTables | ResourceChange::LocksInstance => {
            Effects::LOCK_TABLES
        }
        ResourceChange::TakesLock(_) | ResourceChange::FreesLock(_) | ResourceChange::FreesAllLocks => {
            Effects::NAMED_LOCK
        }
        ResourceChange::Prepares { .. }
        | ResourceChange::Executes(_)
        | ResourceChange::ExecutesHarmless(_)
        | ResourceChange::Deallocates(_) => Effects::TEXT_PREPARE,
        ResourceChange::OpensHandler(_) | ResourceChange::ClosesHandler(_) => Effects::HANDLER,
        // HANDLER ... READ.
        ResourceChange::Unchanged if kind == Kind::Handler => Effects::HANDLER,
        ResourceChange::Unchanged
        | ResourceChange::DropsTables(_)
        | ResourceChange::UnlocksTables
        | ResourceChange::UnlocksInstance => Effects::NONE,
    }
}

/// A table with its schema; `None` where neither says one.
fn full_name(name: &TableName, schema: Option<&[u8]>) -> Option<TableName> {
    let schema = name.schema.as_deref().or(schema)?;
    Some(TableName { schema: Some(schema.into()), table: name.table.clone() })
}

/// Whether a statement that failed left nothing. A part of its text, or of a body that it runs, may have been done before.
fn has_done_nothing(
    request: &Request,
    named_resources: Option<&NamedResources>,
    code: u16,
    summary: &Summary,
) -> bool {
    if request.command == RequestKind::Prepare {
        return true;
    }
    let statement = &request.statement;
    match request.changes.named_resource.as_deref() {
        _ if summary.status.is_some() || statement.effects.contains(Effects::ROUTINE) => false,
        // One that is there may be a CALL, of which the body has executed one that is not.
        Some(ResourceChange::Executes(name)) => {
            code == UNKNOWN_STATEMENT
                && named_resources.is_none_or(|held| !held.statements.contains_key(name))
        }
        Some(_) if statement.effects.without(BY_NAME).is_empty() => {
            // What is missing, or not understood, may be so to a trigger only.
            (code == PARSE_ERROR || NOTHING_DONE.contains(&code)) && !request.changes.hidden.is_silent()
        }
        _ => code == PARSE_ERROR && !statement.parses_while_it_runs && !request.changes.hidden.is_silent(),
    }
}

impl Client {
    /// It has temporary tables.
    pub(crate) fn holds_tables(&self) -> bool {
        self.session.pins.effects().contains(Effects::TEMPORARY_TABLE)
    }

    /// Its statement asks for a lock, and the answer tells whether it has it.
    pub(crate) fn awaits_lock(&self) -> bool {
        let change = self.request.as_ref().and_then(|request| request.changes.named_resource.as_deref());
        matches!(change, Some(ResourceChange::TakesLock(_)))
    }
}

/// What a statement will do to what its client holds, where that can matter. `holds`: that is anything.
pub(crate) fn resource_change_of(
    statement: &Statement,
    text: &[u8],
    mode: LexMode,
    holds: bool,
) -> Option<ResourceChange> {
    let takes = !statement.effects.intersection(BY_NAME).is_empty();
    let gives = holds && matches!(statement.kind, Kind::Ddl | Kind::UnlockTables);
    if statement.several || !(takes || gives) {
        return None;
    }
    whole_resource_change(statement, text, mode)
}

impl Client {
    /// Whether no transaction can be open behind a statement that succeeded, one without autocommit and tables included.
    fn transaction_is_over(&self, statement: &Statement, summary: &Summary) -> bool {
        // What defines temporary tables commits nothing. Dropping one that is not there pins: MariaDB reports a change of state.
        let of_temporary = statement.effects.contains(Effects::TEMPORARY_TABLE) || self.holds_tables();
        let ends = match statement.kind {
            Kind::Commit | Kind::Rollback | Kind::Begin => true,
            Kind::Ddl => !of_temporary,
            _ => false,
        };
        let open = summary.status.is_some_and(|status| status.contains(StatusFlags::IN_TRANS));
        let autocommit = summary.status.is_some_and(|status| status.contains(StatusFlags::AUTOCOMMIT));
        (ends && !statement.several) || (!open && (autocommit || self.in_transaction()))
    }

    /// A statement has ended, and the client's status is what the server says. With MySQL a table that was used without autocommit
    /// stays locked against changes of its definition to the end of the transaction, also where no engine has one and the status
    /// tells of none: tables of MyISAM, EXPLAIN, SHOW COLUMNS (`mysql_execute_command` in its sql_parse.cc releases metadata locks
    /// only outside of `in_multi_stmt_transaction_mode`; seen with 9.7). MariaDB keeps those alone of which its status tells.
    pub(crate) fn note_metadata_locks(&mut self, server: &Server, counts: &mut PinCounts, request: &Request) {
        let keeps_all = server.facts.as_ref().is_some_and(|facts| !facts.is_mariadb());
        let unseen = !self.session.status.contains(StatusFlags::AUTOCOMMIT) && !self.in_transaction();
        if keeps_all && unseen && request.may_open_tables() && !self.session.pins.holds_metadata_locks() {
            self.session.pins |= Pins::METADATA_LOCK;
            counts.pinned(Pins::METADATA_LOCK, request.statement.fingerprint);
        }
    }

    /// A statement has ended that pins its client for these reasons, or ends a pin. Says whether the client holds something else now.
    pub(crate) fn note_pins(
        &mut self,
        sessions: &Sessions,
        counts: &mut PinCounts,
        request: &Request,
        pins: Pins,
        summary: &Summary,
    ) -> bool {
        let named_resources = self.session.named_resources.as_deref();
        let nothing_done = |code| has_done_nothing(request, named_resources, code, summary);
        let refused = summary.error.as_ref().is_some_and(|error| nothing_done(error.code));
        let statement = &request.statement;
        let succeeded = summary.error.is_none();
        let over = succeeded && self.transaction_is_over(statement, summary);
        let (before, mut noted) = (self.session.pins, false);
        if !refused {
            // FOUND_ROWS() is asked for before the backend goes to anybody else.
            self.session.pins |= pins.without(Pins::from(BY_NAME.union(Effects::FOUND_ROWS)));
            let takes = !pins.effects().intersection(BY_NAME).is_empty();
            let prepares = request.command == RequestKind::Prepare;
            if takes || (self.session.named_resources.is_some() && !prepares) {
                let session = self.session.id.expect("a client with requests has logged in");
                let schema = sessions.state(session).schema.as_deref();
                let ending = match &summary.error {
                    Some(_) => Ending::Failed,
                    // Without a row no function was called (sql_select_limit = 0).
                    None if summary.counts.rows == Some(0) => Ending::Failed,
                    None => {
                        let answer = only_field(&summary.kept, self.capabilities);
                        // In whatever character set the answer is, of these alone it is certain that there is no lock.
                        let took = answer.is_none_or(|field| !matches!(field.as_deref(), None | Some(b"0")));
                        Ending::Succeeded { took }
                    }
                };
                let named_resources = self.session.named_resources.get_or_insert_default();
                named_resources.note(statement, request.changes.named_resource.as_deref(), schema, ending);
                let held = named_resources.effects();
                self.session.pins = self.session.pins.without(Pins::from(BY_NAME)).with(held.into());
                if held.is_empty() {
                    self.session.named_resources = None;
                }
                noted = true;
            }
        }
        // One that chains hands it on to the next transaction (AND CHAIN, completion_type), whose end may be another.
        let ends = matches!(statement.kind, Kind::Commit | Kind::Rollback) && !statement.several;
        let chains = summary.status.is_some_and(|status| status.contains(StatusFlags::IN_TRANS));
        if succeeded && ends && !chains {
            self.session.pins = self.session.pins.without(Effects::NEXT_TRANSACTION.into());
        }
        if over {
            self.session.pins = self.session.pins.without(Pins::SAVEPOINT.with(Pins::METADATA_LOCK));
        }
        let new = self.session.pins.without(before.with(Pins::THREAD_HANDLING));
        counts.pinned(new, statement.fingerprint);
        noted
    }
}

#[cfg(test)]
mod tests;
