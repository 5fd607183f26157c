//! The tables, each declared once.

mod history;
mod onramp;
mod servers;
mod twins;

pub use history::{Change, Login, Minute, Note, Refusal};
pub use onramp::{
    AcceptQueue, Backend, Blocker, Client, Event, Failover, Limit, MemoryPart, Peer, Pin, PinCause,
    PinnedClient, Queued, Route, Server, ServerCheck, Setting, StatementKind, Status, Variable, Wait, Worker,
};
pub use servers::{
    ColumnRow, PoolGroup, PoolQueue, PoolStats, PoolWait, Process, SchemaRow, TableRow, TpConnection,
    TpGroupState, TpGroupStats, TpThreadState,
};

pub(crate) use twins::PREFIX;
pub use twins::{all as twins, first_column as twins_first_column};

use time::OffsetDateTime;

use crate::Table;
use crate::row::Row;

/// All of them but for [`twins()`], by schema and name.
pub static ALL: [&Table; 39] = [
    AcceptQueue::TABLE,
    Backend::TABLE,
    Blocker::TABLE,
    Change::TABLE,
    Client::TABLE,
    Event::TABLE,
    Failover::TABLE,
    Limit::TABLE,
    Login::TABLE,
    MemoryPart::TABLE,
    Minute::TABLE,
    Note::TABLE,
    Setting::TABLE,
    Peer::TABLE,
    PinCause::TABLE,
    PinnedClient::TABLE,
    Pin::TABLE,
    Queued::TABLE,
    Refusal::TABLE,
    Route::TABLE,
    ServerCheck::TABLE,
    Server::TABLE,
    StatementKind::TABLE,
    Status::TABLE,
    Variable::TABLE,
    Wait::TABLE,
    Worker::TABLE,
    ColumnRow::TABLE,
    Process::TABLE,
    SchemaRow::TABLE,
    TableRow::TABLE,
    PoolGroup::TABLE,
    PoolQueue::TABLE,
    PoolStats::TABLE,
    PoolWait::TABLE,
    TpConnection::TABLE,
    TpGroupState::TABLE,
    TpGroupStats::TABLE,
    TpThreadState::TABLE,
];

/// The table of this name, whatever its case.
pub fn find(name: &str) -> Option<&'static Table> {
    ALL.into_iter().chain(twins()).find(|table| table.name.eq_ignore_ascii_case(name))
}

/// A time as a server writes it, in UTC: `2026-01-31 23:59:59`. `since` is the time since 1970; what is beyond the year 9999 is its last
/// second.
pub fn time_text(since: std::time::Duration) -> String {
    let time = OffsetDateTime::UNIX_EPOCH.checked_add(since.try_into().unwrap_or(time::Duration::MAX));
    let time = time.unwrap_or_else(|| time::PrimitiveDateTime::MAX.assume_utc());
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Declares a table and the struct that is a row of it.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $row:ident in $schema:ident as $name:literal {
            $( $(#[doc = $column_doc:literal])+ $column:ident: $kind:ty, )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $( $(#[doc = $column_doc])+ pub $column: $kind, )+
        }

        impl $crate::row::Row for $row {
            const TABLE: &'static $crate::row::Table = &$crate::row::Table {
                schema: $crate::row::Schema::$schema,
                name: $name,
                doc: concat!($($doc),+),
                columns: &[$(
                    $crate::row::Column {
                        name: stringify!($column),
                        kind: <$kind as $crate::row::Field>::KIND,
                        nullable: <$kind as $crate::row::Field>::NULLABLE,
                        doc: concat!($($column_doc),+),
                    },
                )+],
                twin_of: None,
            };

            fn values<'a>(&'a self, into: &mut Vec<$crate::row::Value<'a>>) {
                $( into.push($crate::row::Field::value(&self.$column)); )+
            }
        }
    };
}
pub(crate) use table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_order() {
        let names: Vec<_> = ALL.iter().map(|table| (table.schema, table.name)).collect();
        let mut sorted = names.clone();
        sorted.sort_by_key(|(schema, name)| (*schema, name.to_ascii_lowercase()));
        assert_eq!(names, sorted);
        for table in ALL.into_iter().chain(twins()) {
            let found = find(&table.name.to_ascii_uppercase()).unwrap();
            assert!(std::ptr::eq(found, table), "{} is there once", table.name);
            let mut columns: Vec<_> = table.columns.iter().map(|column| column.name).collect();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        }
    }

    #[test]
    fn rows_have_a_value_for_each_column() {
        let row = Limit {
            option: "permits",
            bounds: "statements that execute",
            unit: "things",
            scope: "process",
            in_use: Some(3),
            bound: Some(u64::MAX),
            reached: 0,
        };
        let mut values = Vec::new();
        row.values(&mut values);
        assert_eq!(values.len(), Limit::TABLE.columns.len());
        assert_eq!(values[5], crate::Value::Integer(i64::MAX), "as far as SQL's numbers go");
    }

    #[test]
    fn times_are_the_calendars() {
        let text = |seconds| time_text(std::time::Duration::from_secs(seconds));
        assert_eq!(text(0), "1970-01-01 00:00:00");
        assert_eq!(text(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(text(1_798_761_599), "2026-12-31 23:59:59");
        assert_eq!(text(u64::MAX), "9999-12-31 23:59:59");
    }
}
