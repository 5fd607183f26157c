//! What the lexer finds in a statement's text.

use std::collections::BTreeSet;

use sql::{CharsetSetting, Classification, Effects, Kind, LexMode, Reads, SessionCall, TransactionCommand};

/// The lexer's answer, without what only matters there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) kind: Kind,
    pub(crate) effects: Effects,
    pub(crate) reads: Reads,
    pub(crate) plain_read: bool,
    pub(crate) repeatable: bool,
    pub(crate) fingerprint: u64,
    pub(crate) calls: Vec<SessionCall>,
    pub(crate) charset: CharsetSetting,
    pub(crate) sets_last_insert_id: bool,
    /// COMMIT RELEASE and its like: the server closes the connection after its answer.
    pub(crate) releases_connection: bool,
    pub(crate) sets_pool_variable: bool,
    pub(crate) rows_of_select: bool,
    pub(crate) comment_at_end: bool,
    pub(crate) inserts: bool,
    /// See [`Classification::parses_while_it_runs`].
    pub(crate) parses_while_it_runs: bool,
    pub(crate) unreported: BTreeSet<Box<[u8]>>,
    pub(crate) assigned: BTreeSet<Box<[u8]>>,
    pub(crate) sets_for_itself: bool,
    /// See [`sql::Classification::without_tables`].
    pub(crate) without_tables: bool,
    /// More than one statement, or not sure.
    pub(crate) several: bool,
    /// See [`sql::Classification::statements`].
    pub(crate) statements: u32,
    /// It begins or ends a transaction, and does nothing else.
    pub(crate) transaction: Option<TransactionCommand>,
}

plain!(struct Statement {
    kind, effects, reads, plain_read, repeatable, fingerprint, calls, charset, sets_last_insert_id, releases_connection,
    sets_pool_variable, rows_of_select, comment_at_end, inserts, parses_while_it_runs, unreported, assigned,
    sets_for_itself, without_tables, several, statements, transaction,
});

impl Statement {
    /// For commands without a text.
    pub(crate) fn none() -> Self {
        Self {
            kind: Kind::Other,
            effects: Effects::NONE,
            reads: Reads::NONE,
            plain_read: false,
            repeatable: false,
            fingerprint: 0,
            calls: Vec::new(),
            charset: CharsetSetting::Untouched,
            sets_last_insert_id: false,
            releases_connection: false,
            sets_pool_variable: false,
            rows_of_select: false,
            comment_at_end: false,
            inserts: false,
            parses_while_it_runs: false,
            unreported: BTreeSet::new(),
            assigned: BTreeSet::new(),
            sets_for_itself: false,
            without_tables: false,
            several: false,
            statements: 1,
            transaction: None,
        }
    }

    /// On the heap: what has been found in a text, which may be more than the text. The nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.unreported.iter().chain(&self.assigned);
        names.map(|name| name.len() + 2 * size_of::<Box<[u8]>>()).sum::<usize>()
            + self.calls.len() * size_of::<SessionCall>()
    }

    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Self {
        let found: Classification = sql::classify(text, mode);
        let ends_or_begins = matches!(found.kind, Kind::Begin | Kind::Commit | Kind::Rollback);
        let plain = ends_or_begins && !found.several && found.effects.is_empty();
        Self {
            kind: found.kind,
            effects: found.effects,
            reads: found.reads,
            plain_read: found.plain_read,
            repeatable: found.repeatable,
            fingerprint: found.fingerprint,
            calls: found.calls,
            charset: found.charset,
            sets_last_insert_id: found.sets_last_insert_id,
            releases_connection: found.releases_connection,
            sets_pool_variable: found.sets_pool_variable,
            rows_of_select: found.rows_of_select,
            comment_at_end: found.comment_at_end,
            inserts: found.inserts,
            parses_while_it_runs: found.parses_while_it_runs,
            unreported: found.unreported,
            assigned: found.assigned,
            sets_for_itself: found.sets_for_itself,
            without_tables: found.without_tables,
            several: found.several,
            statements: found.statements,
            transaction: plain.then(|| sql::transaction_command(text)).flatten(),
        }
    }
}

impl Statement {
    /// Whether it may write to tables: of those that cannot, no trigger runs.
    pub(crate) fn may_write(&self) -> bool {
        self.several || !matches!(self.kind, Kind::Select | Kind::Show | Kind::Do)
    }
}
