//! What programs say to a MySQL server in the place of words that MariaDB alone knows.
//!
//! Programs are drawn in MariaDB's dialect and translated then; programs in files are left as they are, since they are the
//! translation already. A statement without a like of its own makes room for one that MySQL alone has.

use std::collections::BTreeSet;

use crate::program::Program;
use crate::step::Step;

/// Whole statements.
const STATEMENTS: &[(&str, &str)] = &[
    (
        "BEGIN NOT ATOMIC SET sql_mode = 'TRADITIONAL'; SELECT @@sql_mode; END",
        "SELECT /*+ SET_VAR(sql_mode = 'TRADITIONAL') */ @@sql_mode",
    ),
    ("EXECUTE IMMEDIATE 'SET sql_mode = 'TRADITIONAL''", "TABLE words ORDER BY id LIMIT 1"),
    ("EXECUTE IMMEDIATE 'CALL warn()'", "VALUES ROW(1, 'x'), ROW(2, 'y')"),
    ("EXECUTE IMMEDIATE 'SET @a = 9'", "SET @a = 9, @@session.default_week_format = 3"),
    ("SELECT LASTVAL(no_such_sequence)", "SET @@session.cte_max_recursion_depth = 5, @d = 1"),
    ("SET STATEMENT sql_mode = '' FOR SELECT 1/0", "SELECT /*+ SET_VAR(sql_mode = '') */ 1/0"),
    ("SET STATEMENT max_statement_time = 50 FOR SELECT 1", "SELECT /*+ MAX_EXECUTION_TIME(50000) */ 1"),
    (
        "SET STATEMENT sql_mode = 'ANSI', time_zone = '+02:00' FOR SELECT @@sql_mode, @@time_zone",
        "SELECT /*+ SET_VAR(sql_mode = 'ANSI') SET_VAR(time_zone = '+02:00') */ @@sql_mode, @@time_zone",
    ),
];

/// Words within statements. None is a part of what another becomes.
const WORDS: &[(&str, &str)] = &[
    ("tx_isolation", "transaction_isolation"),
    ("tx_read_only", "transaction_read_only"),
    (", @@in_transaction", ""),
    ("storage_engine", "default_storage_engine"),
    ("max_statement_time", "max_execution_time"),
    ("check_constraint_checks", "show_create_table_skip_secondary_engine"),
    ("standard_compliant_cte", "windowing_use_high_precision"),
    ("old_mode", "terminology_use_previous"),
    ("'UTF8_IS_UTF8MB3'", "'BEFORE_8_0_26'"),
    (" AS INT)", " AS SIGNED)"),
    ("CREATE OR REPLACE TEMPORARY", "CREATE TEMPORARY"),
    (" RETURNING v, id", ""),
    (" RETURNING id", ""),
    // InnoDB takes the increment of a table's last user for what follows an id that is given: that of another client, where that has had
    // the same entry of the server's table cache (`row_prebuilt_t::autoinc_increment`; seen with two direct connections).
    ("auto_increment_increment", "optimizer_search_depth"),
    // Of a variable that was never set it is an error (docs/DIFFERENCES.md).
    ("JSON_VALUE(@a, '$')", "JSON_VALUE('[7]', '$[0]')"),
    // Where it is NULL the number of rows that are found stays as it was.
    ("WHERE id > @n", "WHERE id > IFNULL(@n, 0)"),
];

/// The program for a MySQL server.
pub(crate) fn for_mysql(mut program: Program) -> Program {
    let has = |is: fn(&Step) -> bool| program.moves.iter().any(|own| is(&own.step));
    let long_data = has(|step| matches!(step, Step::LongData { .. }));
    let mut with_cursors = BTreeSet::new();
    for own in &mut program.moves {
        match &mut own.step {
            Step::Execute { cursor, values, .. } => {
                // MySQL 9.7 leaves the protocol where a statement is executed without a cursor that has had one before. With its
                // section a client's statements end.
                *cursor |= with_cursors.contains(&own.section);
                if *cursor {
                    with_cursors.insert(own.section);
                }
                for value in values {
                    *value = value_for_mysql(value.take(), long_data);
                }
            }
            Step::Query(text) | Step::Prepare(text) => *text = translated(text),
            Step::Burst(texts) => texts.iter_mut().for_each(|text| *text = translated(text)),
            _ => {}
        }
    }
    program
}

/// How often MySQL warns of a string that is no number, and whether NULL behind long data is an error, depends on whether the
/// statement has been prepared again since (docs/DIFFERENCES.md).
fn value_for_mysql(value: Option<Vec<u8>>, long_data: bool) -> Option<Vec<u8>> {
    match value.as_deref() {
        Some(b"+04:00") => Some(b"4".to_vec()),
        Some(b"") => Some(b"0".to_vec()),
        None if long_data => Some(b"5".to_vec()),
        _ => value,
    }
}

/// What the servers are given before each program. In its answer to a CALL MySQL counts the rows of the last statement with an OK
/// of its own, of the connection and not of the procedure where that has none (docs/DIFFERENCES.md).
pub(crate) fn prepared_for_mysql(statements: Vec<String>) -> Vec<String> {
    let with_one = |statement: String| match statement.split_once(") SET ") {
        Some((head, body)) if head.starts_with("CREATE PROCEDURE") => {
            format!("{head}) BEGIN DO 0; SET {body}; END")
        }
        _ => statement,
    };
    statements.into_iter().map(with_one).collect()
}

/// All statements of programs are text in UTF-8.
fn translated(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let replace = |text: String, (word, instead): &(&str, &str)| text.replace(word, instead);
    let statements = STATEMENTS.iter().fold(text.into_owned(), replace);
    WORDS.iter().fold(statements, replace).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::every_text;

    #[test]
    fn statements_and_words_are_replaced_in_texts_of_several() {
        let of = |text: &str| String::from_utf8(translated(text.as_bytes())).unwrap();
        assert_eq!(
            of("EXECUTE IMMEDIATE 'CALL warn()';SELECT @@tx_isolation"),
            "VALUES ROW(1, 'x'), ROW(2, 'y');SELECT @@transaction_isolation"
        );
        assert_eq!(
            of("SET SESSION storage_engine := InnoDB"),
            "SET SESSION default_storage_engine := InnoDB"
        );
        assert_eq!(of("SELECT '\u{e9}'"), "SELECT '\u{e9}'");
    }

    #[test]
    fn executions_are_told_apart_by_nothing_that_mysql_hides() {
        let text = "onramp\t1\t1\t1\t1\ttrue\tfalse\tfalse\tfalse\nclient\tapp\t\t45\t0\n\
            0\t-\texecute\t0\tfalse\tNULL\t=+04:00\n0\t-\texecute\t0\ttrue\t=1\n0\t-\tlong_data\t0\t2\n";
        let program = for_mysql(Program::read(text).unwrap()).write();
        assert!(
            program.contains("execute\t0\tfalse\t=5\t=4\n") && program.contains("execute\t0\ttrue\t=1\n")
        );
    }

    #[test]
    fn behind_a_cursor_there_are_others() {
        let text = "onramp\t1\t1\t1\t1\ttrue\tfalse\tfalse\tfalse\nclient\tapp\t\t45\t0\n\
            0\t1\texecute\t0\ttrue\t=1\n0\t1\texecute\t0\tfalse\t=2\n0\t2\texecute\t0\tfalse\t=3\n";
        let program = for_mysql(Program::read(text).unwrap()).write();
        assert!(program.contains("0\ttrue\t=2\n") && program.contains("0\tfalse\t=3\n"));
    }

    #[test]
    fn procedures_have_an_answer_of_their_own() {
        let of = |text: &str| prepared_for_mysql(vec![text.into()]).remove(0);
        assert_eq!(
            of("CREATE PROCEDURE a.p(IN v INT) SET @a = v"),
            "CREATE PROCEDURE a.p(IN v INT) BEGIN DO 0; SET @a = v; END"
        );
        assert_eq!(
            of("CREATE PROCEDURE a.p() BEGIN SET @a = 1; END"),
            "CREATE PROCEDURE a.p() BEGIN SET @a = 1; END"
        );
    }

    #[test]
    fn what_is_replaced_is_said() {
        let texts = every_text();
        for (word, _) in STATEMENTS.iter().chain(WORDS) {
            assert!(texts.iter().any(|text| text.contains(word)), "{word}");
        }
    }
}
