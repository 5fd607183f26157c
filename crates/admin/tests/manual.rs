//! The part of docs/ADMIN.md that lists the tables is written from their declarations.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at the first surprise")]

use std::fmt::Write as _;
use std::path::PathBuf;

use admin::{Schema, tables};

/// Where the written part begins; everything before it is written by hand.
const MARK: &str = "<!-- From here on written from crates/admin/src/tables: `make docs-admin`. -->";

/// It is written by this test when UPDATE_DOCS is set, and compared with the declarations otherwise.
#[test]
fn the_manual_lists_the_tables() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ADMIN.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (by_hand, _) = page.split_once(MARK).expect("docs/ADMIN.md has the mark");
    let wanted = format!("{by_hand}{MARK}\n{}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == wanted, "docs/ADMIN.md is not that of the tables: run `make docs-admin`");
}

fn reference() -> String {
    let mut text = String::new();
    for schema in Schema::ALL {
        write!(text, "\n## Tables of `{}`\n", schema.name()).unwrap();
        for table in tables::ALL.into_iter().filter(|table| table.schema == schema) {
            write!(text, "\n### {}\n\n{}\n\n", table.name, table.doc.trim()).unwrap();
            text.push_str("| column | type | what it says |\n|---|---|---|\n");
            for column in table.columns {
                let name = table.column_name(column);
                let null = if column.nullable { ", or NULL" } else { "" };
                let doc = column.doc.trim();
                writeln!(text, "| `{name}` | {}{null} | {doc} |", column.kind.name()).unwrap();
            }
        }
    }
    text
}
