//! Finds the effects of a statement on the connection it runs on, by a lexer and a look at the words that matter.
//!
//! This is no parser: it never says that a statement is wrong, because the server decides that. It answers one question:
//! may this statement run on any backend, or must the client keep the one it has? When the text leaves room for doubt the
//! answer is the careful one ([`Effects::UNKNOWN`], [`Effects::ROUTINE`], [`Classification::several`]).
//!
//! ```
//! let point_select = sql::classify(b"SELECT c FROM sbtest1 WHERE id=5000", sql::LexMode::default());
//! assert!(point_select.plain_read);
//!
//! let lock = sql::classify(b"select get_lock('a', 1)", sql::LexMode::default());
//! assert_eq!(lock.effects.names().collect::<Vec<_>>(), ["named_lock"]);
//! ```
//!
//! The grammar is the union of what MySQL 5.7 to 9 (`sql/sql_lex.cc`, `sql/sql_yacc.yy`) and MariaDB 10.4 to 11
//! (the same file names) accept.
#![forbid(unsafe_code)]

mod body;
mod classification;
mod definitions;
mod digest;
mod effects;
mod functions;
mod get_diagnostics;
mod hint;
mod keyword;
mod lexer;
mod plain_set;
mod pool;
mod quote;
mod read_hint;
mod resource_change;
mod rows_found;
mod scan;
mod select_list;
mod set;
mod statement;
mod steps;
mod stored_code;
mod system_schema;
mod system_variable;
mod trace_parent;
mod tracker;
mod transaction;
mod user_variables;
mod versions;
mod words;

pub use classification::{
    CharsetSetting, Classification, KillTarget, Kind, LexMode, ServerKind, SessionCall, SessionFunction,
    SetVariables, Whom, classify, digest_text,
};
pub use definitions::{Defines, Definitions, MOST_TOKENS, QualifiedName, definitions};
pub use effects::{Effects, Reads};
pub use get_diagnostics::{DiagnosticsItem, GetDiagnostics};
pub use plain_set::{plain_set, shown_variables};
pub use pool::{PoolSet, PoolSetError, PoolValue, PoolVariable, pool_set};
pub use quote::{quote_identifier, quote_string};
pub use read_hint::{READ_HINTS, ReadHint, read_hint};
pub use resource_change::{PreparedText, ResourceChange, TableName, resource_change};
pub use rows_found::{Offset, RowsFound};
pub use steps::steps_taken;
pub use stored_code::{CodeEffects, CodeKind, StoredCode, folded_name, has_letters_of, names, stored_code};
pub use system_schema::{is_system_schema, may_name_system_schema};
pub use trace_parent::{TraceParent, trace_parent};
pub use tracker::TrackerVariable;
pub use transaction::{TransactionCommand, transaction_command};
pub use user_variables::{Assignment, VariableUse, variable_use};
pub use versions::may_be_stored_too;
pub use words::{counts_rows, inserts_selection, plain_words, reads_no_table, says_from, sets_globals};
