use super::encode::{
    Prepared, Row, Source, Subject, put_execute, put_integer, put_prepare, put_query, token,
};
use super::statement::Kind;
use super::*;
use crate::distribution::{Distribution, Random, Shape};

fn source() -> Source {
    Source::new(Random::new(3), Distribution::new(Shape::Uniform, 1000), 4, 0xabcd)
}

fn subject() -> Subject {
    Subject { table: 3, row: 42, other_account: 77, amount: -5, counter: 9 }
}

fn text_of(statement: &Statement) -> String {
    let mut out = Vec::new();
    put_query(&mut out, statement, &mut source(), &subject(), 6);
    assert_eq!(out[0], 3, "COM_QUERY");
    String::from_utf8(out[1..].to_vec()).unwrap()
}

fn texts(workload: Workload) -> Vec<&'static str> {
    let plan = workload.plan();
    plan.steps.iter().map(|step| plan.statements[step.statement].text).collect()
}

#[test]
fn texts_have_table_and_values() {
    assert_eq!(text_of(&Statement::POINT_SELECT), "SELECT c FROM sbtest3 WHERE id=42");
    assert_eq!(text_of(&Statement::SUM_RANGE), "SELECT SUM(k) FROM sbtest3 WHERE id BETWEEN 42 AND 141");
    assert_eq!(
        text_of(&Statement::WITHDRAW),
        format!("UPDATE ledger SET balance=balance - -5, writer={} WHERE id=42", (6_i64 << 32) + 9)
    );
    assert_eq!(text_of(&Statement::ECHO), "SELECT '0000abcd-6-9' AS t");
    assert_eq!(text_of(&Statement::READ_OWN), "SELECT writer FROM ledger WHERE id=7");
    assert_eq!(text_of(&Statement::SLEEP), "SELECT SLEEP(1)");
    let update = text_of(&Statement::UPDATE_NON_INDEX);
    let (head, tail) = update.split_at("UPDATE sbtest3 SET c='".len());
    assert_eq!(head, "UPDATE sbtest3 SET c='");
    assert_eq!(&tail[119..], "' WHERE id=42");
}

#[test]
fn every_statement_has_a_parameter_for_each_mark() {
    for workload in Workload::value_variants() {
        for statement in workload.plan().statements {
            assert_eq!(statement.text.matches('?').count(), statement.parameters.len(), "{}", statement.text);
        }
    }
}

#[test]
fn transactions_are_those_of_sysbench() {
    let count = |workload: Workload, kind: Kind| {
        let plan = workload.plan();
        plan.steps.iter().filter(|step| plan.statements[step.statement].kind == kind).count()
    };
    // sysbench prints 14 reads, 4 writes and 2 others per transaction of oltp_read_write.
    assert_eq!(count(Workload::OltpReadWrite, Kind::Read), 14);
    assert_eq!(count(Workload::OltpReadWrite, Kind::Write), 4);
    assert_eq!(count(Workload::OltpReadWrite, Kind::Other), 2);
    assert_eq!(count(Workload::OltpReadOnly, Kind::Read), 14);
    assert_eq!(count(Workload::OltpWriteOnly, Kind::Write), 4);
    assert_eq!(texts(Workload::UpdateNonIndexTrx)[0], "BEGIN");
    assert_eq!(texts(Workload::UpdateNonIndexTrx).len(), 3);
    assert_eq!(Workload::OltpReadWrite.plan().statements.len(), 11);
}

#[test]
fn a_sleep_needs_no_table() {
    assert_eq!(texts(Workload::Sleep), ["SELECT SLEEP(?)"]);
    assert_eq!(Workload::Sleep.tables(), Tables::None);
    assert!(Workload::Sleep.plan().transaction.is_empty());
}

#[test]
fn the_insert_puts_back_the_deleted_row() {
    let plan = Workload::OltpWriteOnly.plan();
    let mut source = source();
    let mut subject = Subject::default();
    let mut deleted = 0;
    for step in &plan.steps {
        source.redraw(step.draw, &mut subject);
        match plan.statements[step.statement].text {
            text if text == Statement::DELETE.text => deleted = subject.row,
            text if text == Statement::INSERT_ROW.text => assert_eq!(subject.row, deleted),
            _ => {}
        }
    }
    assert_ne!(deleted, 0);
}

#[test]
fn transfers_are_between_two_accounts_lower_first() {
    let mut source = Source::new(Random::new(1), Distribution::new(Shape::Uniform, 2), 1, 0);
    let mut subject = Subject::default();
    for _ in 0..100 {
        source.redraw(Draw::Transfer, &mut subject);
        assert_eq!((subject.row, subject.other_account), (1, 2));
        assert!(subject.amount != 0 && subject.amount.abs() <= 10);
    }
}

#[test]
fn the_first_execution_carries_types_the_next_do_not() {
    let mut prepared = Prepared { id: 7, types_sent: false };
    let mut first = Vec::new();
    put_execute(&mut first, &mut prepared, &Statement::POINT_SELECT, &mut source(), &subject(), 6);
    assert_eq!(first, [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 42, 0, 0, 0, 0, 0, 0, 0]);
    let mut second = Vec::new();
    put_execute(&mut second, &mut prepared, &Statement::POINT_SELECT, &mut source(), &subject(), 6);
    assert_eq!(second, [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0]);
    let mut text = Vec::new();
    put_prepare(&mut text, &Statement::POINT_SELECT, 4);
    assert_eq!(text, b"\x16SELECT c FROM sbtest4 WHERE id=?");
}

#[test]
fn answers_are_checked_against_the_own_token() {
    let mut source = source();
    let mine = b"\x0c0000abcd-6-9";
    let other = b"\x0c0000abcd-6-8";
    let mut check = |payload: &[u8], rows, connection, binary| {
        source.verify(Expected::TokenText, rows, Row { payload, binary }, &subject(), connection)
    };
    assert!(check(mine, 1, 6, false));
    assert!(!check(other, 1, 6, false), "an older answer");
    assert!(!check(mine, 1, 5, false), "another connection's answer");
    assert!(!check(mine, 2, 6, false), "one row too many");
    assert!(!check(b"", 0, 6, false), "no row");
    assert!(check(&[b"\0\0".as_slice(), mine].concat(), 1, 6, true));
    assert!(!check(mine, 1, 6, true), "a text row for a binary one");

    let number = token(&subject(), 6).to_string();
    let text = [&[number.len() as u8], number.as_bytes()].concat();
    assert!(source.verify(Expected::Token, 1, Row { payload: &text, binary: false }, &subject(), 6));
    let binary = [&[0, 0], token(&subject(), 6).to_le_bytes().as_slice()].concat();
    assert!(source.verify(Expected::Token, 1, Row { payload: &binary, binary: true }, &subject(), 6));
    assert!(!source.verify(Expected::Token, 1, Row { payload: &binary, binary: true }, &subject(), 7));
}

#[test]
fn integers_are_written_in_full() {
    for value in [0, 7, 10, -1, 1_234_567_890, i64::MAX, i64::MIN] {
        let mut out = Vec::new();
        put_integer(&mut out, value);
        assert_eq!(out, value.to_string().as_bytes());
    }
}
