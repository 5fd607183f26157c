//! Verdicts on answers of real instances, and on answers that people report.

use super::*;
use crate::cluster::choice::{NoPrimary, choose};
use crate::cluster::reading::CheckQuestion;
use crate::cluster::standing::{Checked, ServerStanding};
use crate::cluster::testing::{answer, judged};
use crate::cluster::verdict::{Follows, ServerVerdict};
use crate::outside::named::ServerRole;

/// Rows of fields, behind the names of the columns.
type Table = Vec<Vec<String>>;

/// Returns an answer as the mysql client prints it, from the file of recorded ones.
fn recorded(name: &str) -> Table {
    let all = include_str!("recorded.txt");
    let heading = format!("== {name}\n");
    let section = all.split_once(&heading).expect("it is in the file").1;
    let section = section.split("\n== ").next().expect("the first part");
    let fields = |line: &str| line.split('|').map(|field| String::from(field.trim())).collect::<Vec<_>>();
    let lines = section.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    lines.map(fields).collect()
}

/// Returns the microseconds of the day, of a time as the server writes it.
fn of_day(time: &str) -> i64 {
    let (_, time) = time.split_once(' ').expect("a day and a time");
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().expect("a number")).collect();
    ((parts[0] * 3_600.0 + parts[1] * 60.0 + parts[2]) * 1e6) as i64
}

/// Returns the table as the server answers our question at this time of the same day, by its clock. Rows without a published time count as
/// half a second old.
fn asked_at(table: &Table, now: &str) -> Table {
    let time = table[0].iter().position(|column| column == "LAST_UPDATE_TIMESTAMP");
    let age = |row: &Vec<String>| time.map_or(500_000, |time| of_day(now) - of_day(&row[time])).to_string();
    let with = |row: &Vec<String>, last: String| row.iter().cloned().chain([last]).collect();
    let (columns, rows) = table.split_first().expect("the columns");
    let first = with(columns, String::from("AGE"));
    std::iter::once(first).chain(rows.iter().map(|row| with(row, age(row)))).collect()
}

/// Returns the verdict on an instance of this name and table. A reader cannot write.
fn instance(own: &str, is_reader: bool, table: &Table) -> ServerVerdict {
    let row = |row: &'static [&'static str]| row;
    let writes = if is_reader { "ON" } else { "OFF" };
    // As recorded, read_only says nothing.
    let variables = [
        &["server_uuid", "u"][..],
        row(&["read_only", "OFF"]),
        &["innodb_read_only", writes],
        &["aurora_server_id", own],
    ];
    let table: Vec<Vec<&str>> = table.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let table: Vec<&[&str]> = table.iter().map(Vec::as_slice).collect();
    judged(
        "8.0.32",
        &[
            (CheckQuestion::Variables, Ok(answer(&["Variable_name", "Value"], &variables))),
            (CheckQuestion::Utc, Ok(Vec::new())),
            (CheckQuestion::Aurora, Ok(answer(table[0], &table[1..]))),
        ],
    )
}

/// Returns the instance that is the primary.
fn primary(verdicts: &[&ServerVerdict]) -> Result<usize, NoPrimary> {
    let standing = |verdict: &&ServerVerdict| {
        let mut standing = ServerStanding::new();
        let verdict = ServerVerdict::clone(verdict);
        standing.take(Checked { at: seam::Instant::START, took: Duration::ZERO, verdict });
        standing
    };
    let standings: Vec<ServerStanding> = verdicts.iter().map(standing).collect();
    choose(&standings, &vec![false; standings.len()], None)
}

fn is_primary(verdict: &ServerVerdict) -> bool {
    assert_eq!(verdict.lag, None, "the writer's lag means nothing");
    (verdict.role, verdict.is_well, verdict.is_writable) == (ServerRole::Primary, true, true)
}

fn is_reader(verdict: &ServerVerdict) -> bool {
    (verdict.role, verdict.is_well, verdict.is_writable) == (ServerRole::Replica, true, false)
}

#[test]
fn the_writer_and_the_readers_of_recorded_clusters_are_found() {
    for (name, instances, lags) in [
        ("before 1.23 and 2.09", ["node1", "node2", "node3"], [19, 19]),
        (
            "with an autoscaled reader",
            [
                "xxxx-serverless-db-dev-0",
                "application-autoscaling-a7e5c2e8-5a9c-4d6c-836d-0d640e50b172",
                "xxxx-serverless-db-dev-1",
            ],
            [21, 18],
        ),
    ] {
        let table = asked_at(&recorded(name), "");
        let verdicts: Vec<_> =
            instances.iter().enumerate().map(|(place, own)| instance(own, place > 0, &table)).collect();
        let [writer, readers @ ..] = &verdicts[..] else { unreachable!() };
        assert!(is_primary(writer), "{writer:?}");
        assert_eq!(writer.reason, "the writer of Aurora");
        for (reader, lag) in readers.iter().zip(lags.map(Duration::from_millis)) {
            assert!(is_reader(reader), "{reader:?}");
            assert_eq!(reader.reason, format!("a reader of Aurora, whose writer is {}", instances[0]));
            assert_eq!((reader.lag, reader.follows), (Some(lag), Follows::Storage(lag)));
        }
        assert_eq!(primary(&verdicts.iter().collect::<Vec<_>>()), Ok(0));
    }
}

#[test]
fn the_lag_that_a_writer_has_of_itself_means_nothing() {
    let table = asked_at(&recorded("since 1.23"), "");
    assert!(is_primary(&instance("rds-aurora", false, &table)));
    // It has been the writer, is a reader by now, and has not heard of the new one.
    let former = instance("rds-aurora", true, &table);
    assert!(is_reader(&former));
    assert_eq!((former.lag, former.follows), (None, Follows::Nobody));
    // As a reader's it would be 584,942,420 years.
    let mut of_a_reader = table;
    of_a_reader[1][1] = String::from("c3p3f337");
    let reader = instance("rds-aurora", true, &of_a_reader);
    assert_eq!(reader.lag.map(|lag| lag.as_secs()), Some(18_446_744_949_882));
}

#[test]
fn the_rows_of_a_former_cluster_are_passed_over() {
    let table = asked_at(&recorded("restored from a backup"), "2022-08-31 11:27:12.100000");
    let [writer, reader] = [instance("instance-one", false, &table), instance("instance-two", true, &table)];
    assert!(is_primary(&writer) && is_reader(&reader));
    assert_eq!(reader.reason, "a reader of Aurora, whose writer is instance-one");
    assert_eq!(reader.follows, Follows::Nobody, "its lag was not published");
    assert_eq!(primary(&[&reader, &writer]), Ok(1));
    // In whatever order they come.
    let mut turned = table.clone();
    turned[1..].reverse();
    assert!(is_primary(&instance("instance-one", false, &turned)));
    // Before it has heard of itself it says what it takes: the other one's writer is gone for nine hours.
    let of_the_other = table[..3].to_vec();
    let writer = instance("instance-one", false, &of_the_other);
    assert!(is_primary(&writer), "{writer:?}");
    let reader = instance("instance-two", true, &of_the_other);
    assert!(is_reader(&reader) && reader.lag.is_none());
    assert_eq!(reader.reason, "a reader of Aurora (innodb_read_only is on)");
    // Names are the same whatever their case.
    let writer = instance("Instance-One", false, &table);
    assert!(is_primary(&writer), "{writer:?}");
}

/// Makes a table with our columns, as in the server's answer.
fn of(rows: &[[&str; 4]]) -> Table {
    let columns = ["SERVER_ID", "SESSION_ID", "REPLICA_LAG_IN_MILLISECONDS", "AGE"];
    std::iter::once(&columns).chain(rows).map(|row| row.map(String::from).to_vec()).collect()
}

/// The second of both is not published: it is the one that the first gave way to, some seconds later.
#[test]
fn of_two_writers_the_one_heard_of_last_writes() {
    let mut table = recorded("while it fails over");
    let mut new = table[1].clone();
    new[0] = String::from("test-instance-2");
    new[2] = String::from("2023-04-27 02:43:14.787288");
    table.push(new);
    let table = asked_at(&table, "2023-04-27 02:43:15.000000");
    let [former, new] =
        [instance("test-instance-1", false, &table), instance("test-instance-2", false, &table)];
    assert!(is_reader(&former) && is_primary(&new));
    assert!(former.reason.contains("the writer of Aurora is test-instance-2"), "{}", former.reason);
    assert_eq!(primary(&[&former, &new]), Ok(1));
    // The former one has not heard of it: nobody writes until one of both says that it does not.
    let alone = asked_at(&recorded("while it fails over"), "2023-04-27 02:43:15.000000");
    let former = instance("test-instance-1", false, &alone);
    assert_eq!(primary(&[&former, &new]), Err(NoPrimary::Several(vec![0, 1])));
    assert_eq!(primary(&[&instance("test-instance-1", true, &alone), &new]), Ok(1));
}

#[test]
fn of_two_writers_heard_of_at_once_neither_is_believed() {
    let both = of(&[["a", "MASTER_SESSION_ID", "0", "700000"], ["b", "MASTER_SESSION_ID", "0", "700000"]]);
    let [a, b] = ["a", "b"].map(|own| instance(own, false, &both));
    assert_eq!(primary(&[&a, &b]), Err(NoPrimary::Several(vec![0, 1])));
    assert_eq!(primary(&[&instance("a", true, &both), &b]), Ok(1), "one says that it cannot write");
    let ahead = of(&[["a", "MASTER_SESSION_ID", "0", "-1000"], ["b", "MASTER_SESSION_ID", "0", "-2000"]]);
    assert!(is_reader(&instance("a", false, &ahead)) && is_primary(&instance("b", false, &ahead)));
    // Times that the server does not have are older than all others.
    let first = of(&[["a", "MASTER_SESSION_ID", "0", "NULL"], ["b", "MASTER_SESSION_ID", "0", "900000"]]);
    assert!(is_reader(&instance("a", false, &first)) && is_primary(&instance("b", false, &first)));
    let alone = of(&[["a", "MASTER_SESSION_ID", "NULL", "NULL"]]);
    assert!(is_primary(&instance("a", false, &alone)));
    // A writer alone, whose row is not written anew while it changes its size.
    let old = of(&[["a", "MASTER_SESSION_ID", "0", "360000000"]]);
    assert!(is_primary(&instance("a", false, &old)) && is_reader(&instance("b", true, &old)));
}

#[test]
fn a_former_writer_that_is_cut_off_is_none_however_long_ago_it_heard_of_the_new_one() {
    for own in [["a", "MASTER_SESSION_ID", "0", "700000000"], ["a", "x", "20", "600000000"]] {
        let table = of(&[own, ["b", "MASTER_SESSION_ID", "0", "600000000"]]);
        let former = instance("a", false, &table);
        assert!(is_reader(&former), "{former:?}");
        let present = of(&[own, ["b", "MASTER_SESSION_ID", "0", "100000"]]);
        assert_eq!(primary(&[&former, &instance("b", false, &present)]), Ok(1));
    }
}

/// A secondary cluster of a global database has no writer. A reader that forwards writes cannot write either.
#[test]
fn where_nobody_can_write_there_is_no_primary() {
    let table = of(&[["a", "e41d7b1a", "16.4390007019043", "100"], ["b", "0b5f7c9e", "21", "200"]]);
    let [a, b] = ["a", "b"].map(|own| instance(own, true, &table));
    assert!(is_reader(&a) && is_reader(&b));
    assert_eq!(primary(&[&a, &b]), Err(NoPrimary::None));
    assert_eq!(a.lag, Some(Duration::from_nanos(16_439_001)));
}

#[test]
fn a_lag_counts_as_long_as_its_row_comes() {
    let lag = |rows: &[[&str; 4]]| {
        let verdict = instance("b", true, &of(rows));
        assert!(is_reader(&verdict));
        assert_eq!(verdict.follows, verdict.lag.map_or(Follows::Nobody, Follows::Storage));
        verdict.lag.map(|lag| lag.as_millis())
    };
    let writer = ["a", "MASTER_SESSION_ID", "0", "100000"];
    assert_eq!(lag(&[writer, ["b", "x", "20.5", "900000"]]), Some(20));
    assert_eq!(lag(&[writer, ["b", "x", "20.5", "-40000"]]), Some(20), "another clock");
    assert_eq!(lag(&[writer, ["b", "x", "20.5", "60000000"]]), Some(60_020), "it has not come for a minute");
    assert_eq!(
        lag(&[["a", "MASTER_SESSION_ID", "0", "60100000"], ["b", "x", "20.5", "60000000"]]),
        Some(60_020)
    );
    assert_eq!(lag(&[writer, ["b", "x", "900000", "100"]]), Some(900_000), "as of one that is deleted");
    for unknown in ["NULL", "-1", "nan", ""] {
        assert_eq!(lag(&[writer, ["b", "x", unknown, "100"]]), None);
    }
    assert_eq!(lag(&[writer, ["b", "x", "20", "NULL"]]), None, "as old as may be");
    let former = ["b", "MASTER_SESSION_ID", "0", "700000000"];
    for rows in [[writer, former, ["b", "x", "20", "100"]], [writer, ["b", "x", "20", "100"], former]] {
        assert_eq!(lag(&rows), Some(20), "it has been started anew as a reader");
    }
    assert_eq!(lag(&[writer, ["c", "x", "20", "100"]]), None, "its row is gone");
}

#[test]
fn read_only_alone_does_not_tell_a_reader() {
    let table = recorded("variables of a reader");
    assert_eq!(table, [["@@innodb_read_only", "@@read_only"], ["1", "0"]].map(|row| row.map(String::from)));
    assert!(is_reader(&instance("b", true, &of(&[]))));
}
