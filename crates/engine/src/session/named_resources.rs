//! Resources that a client holds by name on its backend.
//!
//! The rule is that what is noted here is never less than what the server holds: where it is not certain that something has been
//! given back, or was never taken, it stays, and the client with its backend.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::stored_code::is_sys;
use sql::{Classification, Effects, Kind, LexMode, PreparedText, ResourceChange, TableName};

/// The reasons to pin of which the single things are known.
pub(crate) const BY_NAME: Effects = Effects::TEMPORARY_TABLE
    .union(Effects::LOCK_TABLES)
    .union(Effects::NAMED_LOCK)
    .union(Effects::TEXT_PREPARE)
    .union(Effects::HANDLER);

/// The number of names that are kept of one client, each of at most 64 bytes and a schema's. A client that holds more keeps its backend.
const MOST_NAMES: usize = 128;

/// Bytes of the texts of prepared statements that are kept of one client. A client that executes a statement of another
/// text keeps its backend.
pub(crate) const MOST_TEXT: usize = 16 << 10;

/// The resources that one client holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NamedResources {
    tables: BTreeSet<TableName>,
    /// The number of times that each lock has been taken.
    locks: BTreeMap<Box<[u8]>, u32>,
    /// Prepared statements by name, with their texts where executing them leaves nothing behind but by stored code.
    statements: BTreeMap<Box<[u8]>, Option<PreparedText>>,
    handlers: BTreeSet<Box<[u8]>>,
    /// True behind LOCK TABLES.
    locks_tables: bool,
    /// True behind FLUSH TABLES WITH READ LOCK.
    locks_all_tables: bool,
    /// True behind LOCK INSTANCE FOR BACKUP.
    locks_instance: bool,
    /// Reasons of which something is held without a name: they end with the session's state.
    nameless: Effects,
}

plain!(struct NamedResources {
    tables, locks, statements, handlers, locks_tables, locks_all_tables, locks_instance, nameless,
});

/// How a statement ended, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `took`: it has not said that it did not take the lock that it asked for.
    Succeeded { took: bool },
    /// The statement failed; a part of it may have happened.
    Failed,
}

impl NamedResources {
    /// The reasons to pin.
    pub(crate) fn effects(&self) -> Effects {
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
    pub(crate) fn note(
        &mut self,
        statement: &Classification,
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

    /// Takes out the resources that a statement gives back, which has succeeded.
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

    /// Notes the resources that a statement takes, or may have taken before it failed.
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

    /// The text that executing a prepared statement executes; `None` where that is not known, or leaves something behind by itself.
    pub(crate) fn text(&self, name: &[u8]) -> Option<&PreparedText> {
        self.statements.get(name)?.as_ref()
    }

    /// Says whether there is a prepared statement of this name.
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

/// The change that a text makes to its client's resources, where its form tells all of it: not of CREATE TABLE ... SELECT GET_LOCK(...).
fn whole_resource_change(statement: &Classification, text: &[u8], mode: LexMode) -> Option<ResourceChange> {
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

/// The change that a statement will make to its client's resources, where that can matter. `holds`: the client holds any.
pub(crate) fn resource_change_of(
    statement: &Classification,
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

#[cfg(test)]
mod tests;
