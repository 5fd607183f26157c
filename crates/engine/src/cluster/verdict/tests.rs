//! Verdicts on answers of servers.

use super::*;
use crate::cluster::reading::{CheckQuestion, NotJudged, Round};
use crate::cluster::testing::{answer, judged, refused};
use crate::server::control::version::Version;

fn variables(rows: &[(&str, &str)]) -> (CheckQuestion, Result<Vec<u8>, &'static str>) {
    let rows: Vec<Vec<&str>> = rows.iter().map(|&(name, value)| vec![name, value]).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    (CheckQuestion::Variables, Ok(answer(&["Variable_name", "Value"], &rows)))
}

fn named(question: CheckQuestion, rows: &[(&str, &str)]) -> (CheckQuestion, Result<Vec<u8>, &'static str>) {
    (question, variables(rows).1)
}

fn position(gtids: &str) -> (CheckQuestion, Result<Vec<u8>, &'static str>) {
    (CheckQuestion::Position, Ok(answer(&["@@global.gtid_executed"], &[&[gtids]])))
}

/// Answers as MariaDB 10.11 does to SHOW ALL SLAVES STATUS, with the columns that matter.
fn slaves(rows: &[[&str; 7]]) -> (CheckQuestion, Result<Vec<u8>, &'static str>) {
    let columns = [
        "Master_Host",
        "Master_Port",
        "Slave_IO_Running",
        "Slave_SQL_Running",
        "Seconds_Behind_Master",
        "Last_IO_Error",
        "Last_SQL_Error",
    ];
    let rows: Vec<&[&str]> = rows.iter().map(<[&str; 7]>::as_slice).collect();
    (CheckQuestion::Replication, Ok(answer(&columns, &rows)))
}

/// Answers as MySQL 8.0.22 and newer do to SHOW REPLICA STATUS.
fn replicas(rows: &[[&str; 7]]) -> (CheckQuestion, Result<Vec<u8>, &'static str>) {
    let columns = [
        "Source_Host",
        "Source_Port",
        "Replica_IO_Running",
        "Replica_SQL_Running",
        "Seconds_Behind_Source",
        "Last_IO_Error",
        "Last_SQL_Error",
    ];
    let rows: Vec<&[&str]> = rows.iter().map(<[&str; 7]>::as_slice).collect();
    (CheckQuestion::Replication, Ok(answer(&columns, &rows)))
}

const MARIADB: &str = "5.5.5-10.11.14-MariaDB-log";
const OF_MARIADB: [(&str, &str); 6] = [
    ("datadir", "/var/lib/mysql/"),
    ("gtid_current_pos", "0-1-17"),
    ("hostname", "db1"),
    ("port", "3306"),
    ("read_only", "OFF"),
    ("server_id", "1"),
];
const OF_MYSQL: [(&str, &str); 4] =
    [("innodb_read_only", "OFF"), ("read_only", "OFF"), ("server_uuid", "u-1"), ("super_read_only", "OFF")];

fn with<'a>(base: &[(&'a str, &'a str)], changed: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = base.iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    kept.chain(changed).copied().collect()
}

#[test]
fn a_server_that_takes_writes_and_replicates_from_nobody_is_the_primary() {
    let verdict = judged(MARIADB, &[variables(&OF_MARIADB), slaves(&[])]);
    assert_eq!((verdict.role, verdict.is_well, verdict.is_writable), (ServerRole::Primary, true, true));
    assert_eq!(verdict.identity, "db1 3306 1 /var/lib/mysql/");
    assert_eq!((verdict.position.as_str(), verdict.lag), ("0-1-17", None));
    let verdict = judged("9.7.0", &[variables(&OF_MYSQL), position("u-1:1-5,\nu-2:1"), replicas(&[])]);
    assert_eq!((verdict.role, verdict.is_writable), (ServerRole::Primary, true));
    assert_eq!((verdict.identity.as_str(), verdict.position.as_str()), ("u-1", "u-1:1-5,u-2:1"));
}

#[test]
fn a_mysql_that_gives_no_gtids_says_so_by_its_mode() {
    for (mode, gives_none) in
        [("OFF", true), ("OFF_PERMISSIVE", true), ("ON_PERMISSIVE", false), ("ON", false), ("", false)]
    {
        let own = with(&OF_MYSQL, &[("gtid_mode", mode)]);
        let verdict = judged("8.0.42", &[variables(&own), position("u-1:1-5"), replicas(&[])]);
        assert_eq!(
            (verdict.writes_without_gtids, verdict.position.as_str()),
            (gives_none, "u-1:1-5"),
            "{mode}"
        );
    }
    assert!(!judged(MARIADB, &[variables(&OF_MARIADB), slaves(&[])]).writes_without_gtids);
}

#[test]
fn a_replica_says_how_far_it_is_behind() {
    let read_only = with(&OF_MARIADB, &[("read_only", "ON")]);
    let verdict =
        judged(MARIADB, &[variables(&read_only), slaves(&[["db1", "3306", "Yes", "Yes", "7", "", ""]])]);
    assert_eq!((verdict.role, verdict.is_well, verdict.is_writable), (ServerRole::Replica, true, false));
    assert_eq!(verdict.lag, Some(Duration::from_secs(7)));
    assert_eq!(verdict.reason, "read_only is on, it replicates from db1:3306");
}

/// The lag is NULL then, which is not 0. The server is not down for that.
#[test]
fn a_replica_that_has_stopped_says_why_and_is_no_lag_behind() {
    let read_only = with(&OF_MARIADB, &[("read_only", "ON")]);
    let rows = [
        ["db1", "3306", "Yes", "Yes", "0", "", ""],
        ["db9", "3307", "Yes", "No", "NULL", "", "Duplicate entry '1'"],
    ];
    let verdict = judged(MARIADB, &[variables(&read_only), slaves(&rows)]);
    assert_eq!((verdict.is_well, verdict.lag), (true, None));
    assert_eq!(verdict.reason, "read_only is on, replication from db9:3307 has stopped: Duplicate entry '1'");
}

#[test]
fn a_replica_that_takes_writes_is_one_more_primary_and_the_reason_says_what_to_do() {
    let verdict =
        judged(MARIADB, &[variables(&OF_MARIADB), slaves(&[["db1", "3306", "Yes", "Yes", "0", "", ""]])]);
    assert_eq!((verdict.role, verdict.is_writable), (ServerRole::Primary, true));
    assert!(verdict.reason.contains("set read_only there"), "{}", verdict.reason);
}

#[test]
fn what_the_service_account_may_not_see_is_named_and_the_rest_counts() {
    let denied = (CheckQuestion::Replication, Err("error 1227: Access denied"));
    let read_only = with(&OF_MARIADB, &[("read_only", "NO_LOCK_NO_ADMIN")]);
    let verdict = judged(MARIADB, &[variables(&read_only), denied]);
    assert_eq!((verdict.role, verdict.is_well, verdict.is_writable), (ServerRole::Replica, true, false));
    assert!(
        verdict.reason.contains("REPLICA MONITOR") && verdict.reason.contains("1227"),
        "{}",
        verdict.reason
    );
}

#[test]
fn an_instance_of_aurora_whose_table_cannot_be_read_is_known_by_what_it_takes() {
    let denied = || (CheckQuestion::Aurora, Err("error 1142: SELECT command denied"));
    let judge = |read_only: &str| {
        let with_own = with(&OF_MYSQL, &[("innodb_read_only", read_only), ("aurora_server_id", "db-9")]);
        let utc = (CheckQuestion::Utc, Ok(Vec::new()));
        judged("8.0.32", &[variables(&with_own), utc, denied()])
    };
    assert!(judge("OFF").is_writable && !judge("ON").is_writable);
    assert_eq!(judge("ON").follows, Follows::Nobody);
}

#[test]
fn a_node_of_galera_serves_where_it_is_synced_and_in_the_primary_component() {
    let on =
        with(&OF_MARIADB, &[("wsrep_on", "ON"), ("wsrep_desync", "OFF"), ("wsrep_reject_queries", "NONE")]);
    let status = [
        ("wsrep_ready", "ON"),
        ("wsrep_cluster_status", "Primary"),
        ("wsrep_local_state", "4"),
        ("wsrep_local_state_comment", "Synced"),
        ("wsrep_local_index", "2"),
        ("wsrep_cluster_state_uuid", "c"),
        ("wsrep_cluster_conf_id", "5"),
        ("wsrep_cluster_size", "3"),
        ("wsrep_last_committed", "42"),
    ];
    let judge = |variables_: &[(&str, &str)], status: &[(&str, &str)]| {
        let verdict =
            judged(MARIADB, &[variables(variables_), slaves(&[]), named(CheckQuestion::Galera, status)]);
        assert_eq!(verdict.role, ServerRole::Node);
        verdict
    };
    let verdict = judge(&on, &status);
    assert!(verdict.is_well && verdict.is_writable);
    let cluster = String::from("c");
    let membership = Membership { cluster, view: (0, 5), members: 3, place: Some(2), takes_part: true };
    assert_eq!(verdict.membership, Some(membership));
    assert_eq!(verdict.position, "c:1-42", "GTIDs of several writers cannot be compared");
    for (changed, reason) in [
        (("wsrep_cluster_status", "non-Primary"), "primary component"),
        (("wsrep_local_state", "1"), "not synced"),
        (("wsrep_ready", "OFF"), "wsrep_ready"),
    ] {
        let verdict = judge(&on, &with(&status, &[changed]));
        assert!(!verdict.is_well && !verdict.is_writable && verdict.reason.contains(reason), "{verdict:?}");
    }
    let rejecting = with(&on, &[("wsrep_reject_queries", "ALL")]);
    assert!(!judge(&rejecting, &status).is_well);
    let donor = with(&status, &[("wsrep_local_state", "2"), ("wsrep_local_state_comment", "Donor/Desynced")]);
    assert!(judge(&with(&on, &[("wsrep_desync", "ON")]), &donor).is_well, "it serves while it gives");
    let closed = with(&on, &[("wsrep_sst_donor_rejects_queries", "ON")]);
    assert!(!judge(&closed, &donor).is_well);
}

#[test]
fn a_member_of_a_group_counts_with_a_majority() {
    let of_group = with(&OF_MYSQL, &[("group_replication_group_name", "g")]);
    let group = |rows: &[[&str; 4]]| {
        let rows: Vec<&[&str]> = rows.iter().map(<[&str; 4]>::as_slice).collect();
        let columns = ["MEMBER_ID", "MEMBER_STATE", "MEMBER_ROLE", "VIEW_ID"];
        judged(
            "9.7.0",
            &[
                variables(&of_group),
                position("u-1:1"),
                replicas(&[]),
                (CheckQuestion::Group, Ok(answer(&columns, &rows))),
            ],
        )
    };
    let member = |id, state, role| [id, state, role, "17958073367566443:4"];
    let verdict = group(&[
        member("u-1", "ONLINE", "PRIMARY"),
        member("u-2", "ONLINE", "SECONDARY"),
        member("u-3", "UNREACHABLE", "SECONDARY"),
    ]);
    assert_eq!((verdict.role, verdict.is_well, verdict.is_writable), (ServerRole::Primary, true, true));
    let view = (17_958_073_367_566_443, 4);
    let cluster = String::from("g");
    let membership = Membership { cluster, view, members: 3, place: None, takes_part: true };
    assert_eq!(verdict.membership, Some(membership));
    let verdict = group(&[member("u-1", "ONLINE", "PRIMARY"), member("u-2", "UNREACHABLE", "SECONDARY")]);
    assert_eq!((verdict.is_well, verdict.is_writable), (false, false));
    assert_eq!(verdict.reason, "1 of 2 members of the group are alive: no majority");
    // Of itself alone it says these.
    let verdict = group(&[["u-1", "OFFLINE", "", ""]]);
    assert_eq!((verdict.is_well, verdict.is_writable), (false, false));
    assert!(verdict.reason.starts_with("OFFLINE, not in its group"), "{}", verdict.reason);
    let verdict = group(&[member("u-1", "ERROR", "")]);
    assert_eq!((verdict.is_well, verdict.reason.as_str()), (false, "its state in the group is ERROR"));
    let verdict = group(&[member("u-1", "RECOVERING", "SECONDARY"), member("u-2", "ONLINE", "PRIMARY")]);
    assert_eq!((verdict.role, verdict.is_well), (ServerRole::Replica, false));
    let verdict = group(&[member("u-1", "ONLINE", "SECONDARY"), member("u-2", "ONLINE", "PRIMARY")]);
    assert_eq!((verdict.role, verdict.is_well, verdict.is_writable), (ServerRole::Replica, true, false));
}

#[test]
fn a_server_that_hides_whether_it_is_read_only_is_not_judged() {
    let version = Version::new(MARIADB.into());
    let (question, answer) = variables(&[("hostname", "x")]);
    let answer = answer.as_deref().map_err(|error| refused(error));
    assert_eq!(Round::default().take(&version, question, answer), Err(NotJudged::NoReadOnly));
}

/// A replica's error, its state and its name are a server's own words.
#[test]
fn what_a_server_says_is_shown_as_a_part_of_a_line() {
    let channel = Channel {
        source: String::from("10.0.0.5\n:3306"),
        error: format!("no\u{1b}[31m\r\n2026-01-01 ERROR all is lost{}", "!".repeat(5_000)),
        ..Channel::default()
    };
    let reading = Reading {
        read_only: true,
        identity: String::from("a\tb"),
        position: String::from("0-1-7\n"),
        replication: Replication::From(vec![channel]),
        ..Reading::default()
    };
    let verdict = ServerVerdict::of(&reading);
    assert!(
        verdict.reason.starts_with(
            "read_only is on, replication from 10.0.0.5 :3306 has stopped: no\u{fffd}[31m  2026"
        )
    );
    assert!(verdict.reason.chars().count() < 600);
    assert_eq!((verdict.identity.as_str(), verdict.position.as_str()), ("a b", "0-1-7 "));
    assert_eq!(ServerVerdict::unreached("a\0b").reason, "a\u{fffd}b");
}
