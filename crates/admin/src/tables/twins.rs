//! Twins: of each table one that has the rows of all Onramps. Their declarations follow from the tables'.

use std::sync::LazyLock;

use super::{ALL, ColumnRow, SchemaRow, TableRow};
use crate::row::{Column, Kind, Row as _, Table};

/// What a twin's name begins with; in capitals where the table's name is.
pub(crate) const PREFIX: &str = "cluster_";

/// The first column of each.
static WHOSE: Column = Column {
    name: "onramp",
    kind: Kind::Text,
    nullable: false,
    doc: " The Onramp whose row it is: its address in `admin_peers`; of this one, where that does not name it, its `admin_listen`.",
};

static TWINS: LazyLock<Vec<Table>> = LazyLock::new(|| {
    // What these say is the same for all, or about this one's tables.
    let without = [ColumnRow::TABLE.name, SchemaRow::TABLE.name, TableRow::TABLE.name];
    ALL.into_iter().filter(|table| !without.contains(&table.name)).map(twin).collect()
});

/// It is made once and stays, as if it had been declared.
fn twin(table: &'static Table) -> Table {
    let is_in_capitals = table.name.starts_with(|first: char| first.is_ascii_uppercase());
    let prefix = if is_in_capitals { PREFIX.to_ascii_uppercase() } else { String::from(PREFIX) };
    let columns = [WHOSE].into_iter().chain(table.columns.iter().copied()).collect::<Vec<_>>();
    let doc = format!("`{}` of this Onramp and of those that `admin_peers` names.", table.name);
    Table {
        schema: table.schema,
        name: String::leak(format!("{prefix}{}", table.name)),
        doc: String::leak(doc),
        columns: Vec::leak(columns),
        twin_of: Some(table),
    }
}

/// All of them, in the order of their tables.
pub fn all() -> impl Iterator<Item = &'static Table> {
    TWINS.iter()
}

/// The column that each has in front of its table's.
pub fn first_column() -> &'static Column {
    &WHOSE
}
