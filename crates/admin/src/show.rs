//! SHOW and DESCRIBE as SELECTs.

use crate::dialect::{push_quoted, to_sqlite};
use crate::errors::SqlError;
use crate::statement::{Filter, Show, Shown};
use crate::tokens::Placed;
use crate::{Schema, tables};

/// How many characters of a statement SHOW PROCESSLIST shows without FULL, as the servers (PROCESS_LIST_WIDTH).
const INFO_WIDTH: usize = 100;

/// A SHOW as a SELECT for SQLite. `tokens` are those of the whole statement, `schema` the one in use.
///
/// # Errors
/// For a table or schema that there is not.
pub(crate) fn to_select(
    show: &Show,
    tokens: &[Placed<'_>],
    schema: Option<Schema>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, SqlError> {
    let (columns, order) = columns(&show.what, schema)?;
    let mut text = format!("SELECT * FROM ({columns})");
    match &show.filter {
        Filter::All => {}
        Filter::Like(pattern) => {
            // The first column is what LIKE is about, in every SHOW that has it.
            let first = first_column(&show.what, schema);
            text.push_str(" WHERE ");
            push_quoted(&mut text, &first, '"');
            text.push_str(" LIKE ");
            push_quoted(&mut text, pattern, '\'');
            text.push_str(" ESCAPE '\\'");
        }
        Filter::Where(from) => {
            text.push_str(" WHERE ");
            text.push_str(&to_sqlite(&tokens[*from..], variable)?);
        }
    }
    text.push_str(order);
    Ok(text)
}

/// The SELECT behind a SHOW, and in what order its rows come.
fn columns(what: &Shown, schema: Option<Schema>) -> Result<(String, &'static str), SqlError> {
    let by_name = " ORDER BY 1";
    Ok(match what {
        Shown::Variables => (named_values("variables"), by_name),
        Shown::Status => (named_values("status"), by_name),
        Shown::Processlist { full, cluster } => {
            let info = if *full { String::from("INFO") } else { format!("substr(INFO, 1, {INFO_WIDTH})") };
            let (whose, from) =
                if *cluster { ("ONRAMP AS Onramp, ", "CLUSTER_PROCESSLIST") } else { ("", "PROCESSLIST") };
            let text = format!(
                "SELECT {whose}ID AS Id, USER AS User, HOST AS Host, DB AS db, COMMAND AS Command, TIME AS Time, \
                 STATE AS State, {info} AS Info FROM information_schema.{from}"
            );
            (text, if *cluster { " ORDER BY 1, 2" } else { by_name })
        }
        Shown::Tables { full, .. } => {
            let schema = schema_of(what, schema)?;
            let kind = if *full { ", TABLE_TYPE AS Table_type" } else { "" };
            let name = schema.name();
            let text = format!(
                "SELECT TABLE_NAME AS \"Tables_in_{name}\"{kind} FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = '{name}'"
            );
            (text, by_name)
        }
        Shown::Schemas => {
            (String::from("SELECT SCHEMA_NAME AS \"Database\" FROM information_schema.SCHEMATA"), by_name)
        }
        Shown::Columns { full, table } => {
            let found = tables::find(table).ok_or_else(|| SqlError::unknown_table(table))?;
            let more = if *full { ", COLUMN_COMMENT AS Comment" } else { "" };
            let text = format!(
                "SELECT COLUMN_NAME AS Field, COLUMN_TYPE AS Type, IS_NULLABLE AS \"Null\", COLUMN_KEY AS \"Key\", \
                 COLUMN_DEFAULT AS \"Default\", EXTRA AS Extra{more} FROM information_schema.COLUMNS \
                 WHERE TABLE_NAME = '{}' ORDER BY ORDINAL_POSITION",
                found.name
            );
            (text, "")
        }
        Shown::Table(table) => {
            let found = tables::find(table).ok_or_else(|| SqlError::unknown_table(table))?;
            (format!("SELECT * FROM {}.\"{}\"", found.schema.name(), found.name), "")
        }
        Shown::CreateTable(_) | Shown::Warnings | Shown::Errors => {
            unreachable!("answered without a SELECT")
        }
    })
}

fn named_values(table: &str) -> String {
    format!("SELECT variable_name AS Variable_name, variable_value AS Value FROM onramp.{table}")
}

fn first_column(what: &Shown, schema: Option<Schema>) -> String {
    match what {
        Shown::Variables | Shown::Status => String::from("Variable_name"),
        Shown::Processlist { cluster: false, .. } => String::from("Id"),
        Shown::Processlist { cluster: true, .. } => String::from("Onramp"),
        Shown::Tables { .. } => {
            let name = schema_of(what, schema).map_or("", Schema::name);
            format!("Tables_in_{name}")
        }
        Shown::Schemas => String::from("Database"),
        Shown::Columns { .. } => String::from("Field"),
        Shown::Table(table) => {
            let found = tables::find(table);
            found.map(|table| table.column_name(&table.columns[0])).unwrap_or_default()
        }
        Shown::CreateTable(_) | Shown::Warnings | Shown::Errors => String::new(),
    }
}

/// The schema that SHOW TABLES is about: the one named, the one in use, or Onramp's own.
fn schema_of(what: &Shown, in_use: Option<Schema>) -> Result<Schema, SqlError> {
    match what {
        Shown::Tables { schema: Some(name), .. } => {
            Schema::find(name).ok_or_else(|| SqlError::unknown_schema(name))
        }
        _ => Ok(in_use.unwrap_or(Schema::Onramp)),
    }
}

/// The rows of HELP: each statement, and its effect.
pub(crate) const HELP: [(&str, &str); 21] = [
    ("SELECT ...", "Real SQL (SQLite's) over the tables of SHOW TABLES, as they are at that moment"),
    ("SHOW TABLES [FROM schema]", "Tables; the schemas are onramp, information_schema, performance_schema"),
    ("DESCRIBE table", "A table's columns; SHOW CREATE TABLE says what each means"),
    ("SHOW table", "All of a table: SHOW clients, SHOW workers ..."),
    ("SHOW VARIABLES [LIKE pattern]", "Options and what they are set to"),
    ("SHOW STATUS [LIKE pattern]", "Counters"),
    ("SHOW [FULL] PROCESSLIST", "Clients, with the ids that KILL takes"),
    ("SHOW [FULL] CLUSTER PROCESSLIST", "Likewise, of this Onramp and of those that admin_peers names"),
    ("SELECT ... FROM cluster_table", "A table's rows of all these Onramps, each with whose it is"),
    ("SHOW WARNINGS", "What there was to say about the statement before"),
    ("KILL [CONNECTION] id", "Closes a client, and ends its statement"),
    ("KILL QUERY id", "Ends a client's statement"),
    ("PAUSE", "Sends the server no new statement; what runs ends, clients wait"),
    ("RESUME", "Goes on"),
    (
        "SWITCHOVER TO 'address'",
        "Changes the primary for another server by switchover_command, while transactions wait",
    ),
    (
        "DRAIN 'address'",
        "Takes a server out of the choice of a primary; where it is that, another one takes its place",
    ),
    ("UNDRAIN 'address'", "Puts it back"),
    ("SET GLOBAL option = value", "Changes an option until the next start or RELOAD"),
    ("RELOAD", "Reads the configuration file again; warnings say what a start is needed for"),
    ("SHUTDOWN [IMMEDIATE]", "Ends Onramp: open transactions have shutdown_timeout, or none"),
    ("SHOW HELP, HELP", "This"),
];

const _: () = {
    // SHOW LIKE relies on every table having a first column.
    let mut at = 0;
    while at < tables::ALL.len() {
        assert!(!tables::ALL[at].columns.is_empty());
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row as _;
    use crate::statement::{Statement, parse};
    use crate::tables::{Status, Worker};
    use crate::tokens::tokens;

    fn select(text: &str) -> Result<String, u16> {
        let tokens = tokens(text).unwrap();
        let Statement::Show(show) = parse(&tokens).unwrap() else { panic!("{text} is a SHOW") };
        to_select(&show, &tokens, None, |_| None).map_err(|error| error.code)
    }

    #[test]
    fn patterns_and_conditions_are_about_what_is_shown() {
        assert_eq!(
            select(r"SHOW STATUS LIKE 'Threadpool\_%'").unwrap(),
            format!(
                "SELECT * FROM (SELECT variable_name AS Variable_name, variable_value AS Value FROM onramp.{}) \
                 WHERE \"Variable_name\" LIKE 'Threadpool\\_%' ESCAPE '\\' ORDER BY 1",
                Status::TABLE.name
            )
        );
        assert_eq!(
            select("SHOW workers WHERE `queued_low` > 0").unwrap(),
            format!(
                "SELECT * FROM (SELECT * FROM onramp.\"{}\") WHERE \"queued_low\" > 0",
                Worker::TABLE.name
            )
        );
    }

    #[test]
    fn what_there_is_not_is_said() {
        assert_eq!(select("SHOW TABLES FROM mysql"), Err(1049));
        assert_eq!(select("DESCRIBE mysql.user"), Err(1146));
    }
}
