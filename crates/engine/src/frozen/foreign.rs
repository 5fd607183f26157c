//! Types of other crates, and settings, as plain data.

use seam::{ConnectionId, Peer};
use sql::{
    CharsetSetting, Classification, CodeEffects, Effects, KillTarget, Kind, LexMode, Offset, PoolVariable,
    PreparedText, ReadHint, Reads, ResourceChange, RowsFound, ServerKind, SessionCall, SessionFunction,
    SetVariables, TableName, TrackerVariable, TransactionCommand, VariableUse, Whom,
};
use wire::{Capabilities, Expect, StatusFlags};

use super::plain::Plain;
use crate::settings::{ClientTls, HighPrioMode, PoolPriority};

plain!(struct ConnectionId { index, generation });
plain!(enum Peer { 0 => Tcp(address), 1 => Unix { uid } });
plain!(struct Capabilities { 0 });
plain!(struct StatusFlags { 0 });

plain!(enum ClientTls { 0 => Off, 1 => Allowed, 2 => Required });
plain!(enum HighPrioMode { 0 => Transactions, 1 => Statements, 2 => None });
plain!(enum PoolPriority { 0 => High, 1 => Low, 2 => Auto });

plain!(struct Classification {
    kind, effects, reads, several, statements, plain_read, repeatable, fingerprint, calls, charset, without_tables,
    sets_last_insert_id, sets_pool_variable, releases_connection, rows_of_select, comment_at_end, inserts,
    parses_while_it_runs, variables, transaction,
});
plain!(enum RowsFound { 0 => Sent, 1 => Limited { offset, united }, 2 => Values });
plain!(enum Offset { 0 => Of(rows), 1 => Last, 2 => LastButOne });
plain!(struct SetVariables { all, unreported, for_its_duration });
plain!(struct LexMode { ansi_quotes, no_backslash_escapes, high_blank, server, version });
plain!(enum ServerKind { 0 => Unknown, 1 => MariaDb, 2 => MySql });
plain!(struct TableName { schema, table });
plain!(struct PreparedText { text, mode });
plain!(enum ReadHint { 0 => Primary, 1 => Session, 2 => Global, 3 => Eventual });
plain!(enum PoolVariable {
    0 => HighPrioMode, 1 => HighPrioTickets, 2 => Priority, 3 => HighPriorityConnection, 4 => Reads,
});
plain!(enum TrackerVariable { 0 => Schema, 1 => StateChange, 2 => SystemVariables });
plain!(enum TransactionCommand { 0 => Begin, 1 => Start { read_only }, 2 => Commit, 3 => Rollback });
plain!(enum CharsetSetting {
    0 => Untouched, 1 => Names { utf8, collation }, 2 => CollationConnection, 3 => UnsureConversion, 4 => Named,
    5 => Unsure,
});
plain!(struct SessionCall { function, span, names_item, left_by_text });
plain!(enum SessionFunction {
    0 => RowCount, 1 => FoundRows, 2 => ConnectionId, 3 => LastInsertId, 4 => WarningCount, 5 => ErrorCount,
    6 => Pool(variable), 7 => LastGtid, 8 => Tracker(variable),
});
plain!(struct KillTarget { query_only, whom });
plain!(enum Whom { 0 => Id(id), 1 => Oneself, 2 => Parameter, 3 => Other });
plain!(enum Kind {
    0 => Empty, 1 => Select, 2 => Insert, 3 => Replace, 4 => Update, 5 => Delete, 6 => Call, 7 => Do, 8 => Set,
    9 => Use, 10 => Show, 11 => ShowWarnings, 12 => ShowDiagnostics, 13 => Explain, 14 => Begin, 15 => Commit,
    16 => Rollback, 17 => Savepoint, 18 => LockTables, 19 => UnlockTables, 20 => Ddl, 21 => Prepare, 22 => Execute,
    23 => Deallocate, 24 => Handler, 25 => Load, 26 => Kill(target), 27 => Xa, 28 => Admin, 29 => Other,
});

plain!(enum ResourceChange {
    0 => Unchanged, 1 => CreatesTable(name), 2 => DropsTables(names), 3 => LocksTables, 4 => LocksAllTables,
    5 => LocksInstance, 6 => UnlocksTables, 7 => UnlocksInstance, 8 => TakesLock(name), 9 => FreesLock(name),
    10 => FreesAllLocks, 11 => Prepares { name, text }, 12 => Executes(name), 13 => ExecutesHarmless(text),
    14 => Deallocates(name), 15 => OpensHandler(name), 16 => ClosesHandler(name),
});
plain!(enum VariableUse { 0 => Reads, 1 => Sets(assignments) });
plain!(enum Expect {
    0 => Simple, 1 => ResultSets, 2 => Rows, 3 => Events, 4 => Prepare, 5 => FieldList, 6 => Statistics,
});

impl Plain for Effects {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_bits(u32::take(bytes)?)
    }
}

impl Plain for CodeEffects {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_bits(u8::take(bytes)?)
    }
}

impl Plain for Reads {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u8::take(bytes).map(Self::from_bits)
    }
}
