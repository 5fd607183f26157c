//! The admin port's descriptions of its own tables.

use crate::dialect::push_quoted;
use crate::tables::{self, ColumnRow, SchemaRow, Setting, TableRow, Variable};
use crate::{Pool, Rows, Schema, Table};

/// Fills the tables that need no worker.
pub(crate) fn fill(rows: &mut Rows<'_>, version: &str, pool: &dyn Pool) {
    if rows.wants::<Setting>() {
        for setting in pool.settings() {
            rows.put(&setting);
        }
    }
    if rows.wants::<Variable>() {
        for variable in crate::variables::all(version, pool) {
            rows.put(&variable);
        }
    }
    for schema in Schema::ALL {
        rows.put(&SchemaRow {
            catalog_name: "def",
            schema_name: schema.name(),
            default_character_set_name: "utf8mb4",
            default_collation_name: "utf8mb4_general_ci",
        });
    }
    for table in tables::ALL.into_iter().chain(tables::twins()) {
        rows.put(&TableRow {
            table_catalog: "def",
            table_schema: table.schema.name(),
            table_name: table.name,
            table_type: "SYSTEM VIEW",
            table_comment: String::from(table.doc.trim()),
        });
        if rows.wants::<ColumnRow>() {
            fill_columns(rows, table);
        }
    }
}

fn fill_columns(rows: &mut Rows<'_>, table: &'static Table) {
    for (column, ordinal_position) in table.columns.iter().zip(1..) {
        rows.put(&ColumnRow {
            table_catalog: "def",
            table_schema: table.schema.name(),
            table_name: table.name,
            column_name: table.column_name(column),
            ordinal_position,
            column_default: None,
            is_nullable: if column.nullable { "YES" } else { "NO" },
            data_type: column.kind.name(),
            column_type: column.kind.name(),
            column_key: "",
            extra: "",
            column_comment: String::from(column.doc.trim()),
        });
    }
}

/// Answers SHOW CREATE TABLE: no server would make this table, but people look for columns there.
pub(crate) fn create_table(table: &Table) -> String {
    let mut text = format!("CREATE TABLE `{}` (\n", table.name);
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|column| {
            let null = if column.nullable { "" } else { " NOT NULL" };
            let mut line = format!("  `{}` {}{null} COMMENT ", table.column_name(column), column.kind.name());
            push_quoted(&mut line, column.doc.trim(), '\'');
            line
        })
        .collect();
    text.push_str(&columns.join(",\n"));
    text.push_str("\n) COMMENT=");
    push_quoted(&mut text, table.doc.trim(), '\'');
    text
}
