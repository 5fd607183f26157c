//! Verdicts on answers of real servers of RDS. Where a server's variables are not among the answers, they are as in the manual: a read
//! replica is read_only (`{TrueIfReplica}`), and nothing else is.

use std::time::Duration;

use seam::Instant;

use super::*;
use crate::cluster::choice::{NoPrimary, choose};
use crate::cluster::chosen::Chosen;
use crate::cluster::position::Behind;
use crate::cluster::reading::CheckQuestion;
use crate::cluster::standing::{Checked, ServerStanding};
use crate::cluster::testing::{address, answer, at, judged, two_servers};
use crate::cluster::verdict::{Follows, ServerVerdict};
use crate::cluster::{Cluster, Event};
use crate::outside::named::ServerRole;

type Answer = Result<Vec<u8>, &'static str>;

/// Returns the lines below a heading of the file of recorded answers.
fn recorded(name: &str) -> Vec<&'static str> {
    let all = include_str!("recorded.txt");
    let heading = format!("== {name}\n");
    let section = all.split_once(&heading).expect("it is in the file").1;
    let section = section.split("\n== ").next().expect("the first part");
    section.lines().filter(|line| !line.starts_with('#')).collect()
}

/// Returns one row, as the mysql client prints it behind `\G`.
fn status(name: &str) -> Answer {
    let lines = recorded(name).into_iter().filter_map(|line| line.split_once(':'));
    let (names, values): (Vec<&str>, Vec<&str>) =
        lines.map(|(name, value)| (name.trim(), value.trim())).unzip();
    Ok(answer(&names, &[&values]))
}

const NOBODY: fn() -> Answer = || Ok(answer(&["Source_Host", "Source_Port"], &[]));

/// The error in the words of MariaDB 10.11.
const NO_RIGHT_TO_SHOW: &str =
    "Access denied; you need (at least one of) the SUPER, SLAVE MONITOR privilege(s) for this operation";
const NO_RIGHT_TO_CALL: &str =
    "execute command denied to user 'onramp'@'10.0.0.7' for routine 'mysql.rds_replica_status'";

fn variables(rows: &[[&str; 2]]) -> Answer {
    let rows: Vec<&[&str]> = rows.iter().map(|row| row.as_slice()).collect();
    Ok(answer(&["Variable_name", "Value"], &rows))
}

/// Returns the verdict on an RDS for MariaDB with these answers to both questions for its sources.
fn mariadb(read_only: &str, shown: Answer, called: Option<Answer>) -> ServerVerdict {
    let own = variables(&[
        ["basedir", "/rdsdbbin/mariadb-10.11.9.R1/"],
        ["datadir", "/rdsdbdata/db/"],
        ["gtid_current_pos", "0-807509301-3980"],
        ["hostname", "ip-10-4-0-27"],
        ["read_only", read_only],
    ]);
    let mut answers = vec![(CheckQuestion::Variables, own), (CheckQuestion::Replication, shown)];
    answers.extend(called.map(|called| (CheckQuestion::ReplicaStatus, called)));
    judged("5.5.5-10.11.9-MariaDB-log", &answers)
}

/// Returns the verdict on an RDS for MySQL of this `server_uuid`, with these GTIDs.
fn mysql(id: &str, read_only: &str, gtids: &str, sources: Answer) -> ServerVerdict {
    let mode = if gtids.is_empty() { "OFF_PERMISSIVE" } else { "ON" };
    let own = variables(&[
        ["basedir", "/rdsdbbin/mysql-8.0.42.R1/"],
        ["gtid_mode", mode],
        ["innodb_read_only", "OFF"],
        ["read_only", read_only],
        ["server_uuid", id],
        ["super_read_only", "OFF"],
    ]);
    let position = Ok(answer(&["@@global.gtid_executed"], &[&[gtids]]));
    judged(
        "8.0.42",
        &[
            (CheckQuestion::Variables, own),
            (CheckQuestion::Position, position),
            (CheckQuestion::Replication, sources),
        ],
    )
}

fn is_primary(verdict: &ServerVerdict) -> bool {
    (verdict.role, verdict.is_well, verdict.is_writable) == (ServerRole::Primary, true, true)
}

fn is_replica(verdict: &ServerVerdict) -> bool {
    (verdict.role, verdict.is_well, verdict.is_writable) == (ServerRole::Replica, true, false)
}

/// Returns the server that is the primary.
fn primary(verdicts: &[&ServerVerdict]) -> Result<usize, NoPrimary> {
    let standing = |verdict: &&ServerVerdict| {
        let mut standing = ServerStanding::new();
        let verdict = ServerVerdict::clone(verdict);
        standing.take(Checked { at: Instant::START, took: Duration::ZERO, verdict });
        standing
    };
    let standings: Vec<ServerStanding> = verdicts.iter().map(standing).collect();
    choose(&standings, &vec![false; standings.len()], None)
}

#[test]
fn a_server_of_rds_is_told_by_where_its_programs_are() {
    let table = recorded("where the programs are");
    let rows = table.iter().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')?.split_once('|'));
    let rows: Vec<_> = rows.skip(1).map(|(basedir, is)| (basedir.trim(), is.trim() == "yes")).collect();
    assert_eq!(rows.iter().filter(|(_, is)| *is).count(), 2);
    for (basedir, is) in rows {
        assert_eq!(is_of_rds(basedir), is, "{basedir}");
    }
}

#[test]
fn a_mariadb_that_refuses_to_show_its_source_is_asked_by_the_procedure() {
    for edition in ["", ", in an earlier edition"] {
        let said = status(&format!("a read replica of MariaDB, by the procedure{edition}"));
        let replica = mariadb("ON", Err(NO_RIGHT_TO_SHOW), Some(said));
        assert!(is_replica(&replica), "{replica:?}");
        assert_eq!(replica.reason, "read_only is on, it replicates from XX.XX.XX.XXX:3306");
        assert_eq!((replica.follows, replica.lag), (Follows::All, Some(Duration::ZERO)));
        assert_eq!(replica.position, "0-807509301-3980");
    }
    // Where it has the right it is not asked twice.
    let said = status("a read replica of MariaDB 10.1 that was stopped");
    let stopped = mariadb("ON", said, None);
    assert_eq!(stopped.reason, "read_only is on, replication from 10.0.0.189:3306 has stopped");
    assert_eq!((stopped.follows, stopped.lag), (Follows::Nobody, None));
    // One that replicates from nobody.
    let writer = mariadb("OFF", Err(NO_RIGHT_TO_SHOW), Some(NOBODY()));
    assert!(is_primary(&writer));
    assert_eq!(writer.reason, "read_only is off");
}

#[test]
fn without_the_right_to_either_the_reason_names_the_one_that_can_be_given() {
    let replica = mariadb("ON", Err(NO_RIGHT_TO_SHOW), Some(Err(NO_RIGHT_TO_CALL)));
    assert!(is_replica(&replica));
    assert_eq!((replica.follows, replica.lag), (Follows::Nobody, None));
    let grant = "grant EXECUTE ON PROCEDURE mysql.rds_replica_status, on MySQL REPLICATION CLIENT";
    assert!(
        replica.reason.contains(grant) && replica.reason.contains("execute command denied"),
        "{}",
        replica.reason
    );
    assert!(is_primary(&mariadb("OFF", Err(NO_RIGHT_TO_SHOW), Some(Err(NO_RIGHT_TO_CALL)))));
}

#[test]
fn a_mysql_that_refuses_to_show_its_source_has_no_such_procedure() {
    let denied = "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s)";
    let replica = mysql("u-2", "ON", "", Err(denied));
    assert!(is_replica(&replica) && replica.follows == Follows::Nobody);
    assert!(replica.reason.contains("on MySQL REPLICATION CLIENT): error 1227"), "{}", replica.reason);
}

/// Its source is at an address that no `backend` has.
#[test]
fn the_writer_is_the_primary_and_its_read_replica_is_none() {
    let log = recorded("what the source of that replica says of its log");
    assert!(log[3].ends_with("|                   |"), "no GTIDs: {}", log[3]);
    let writer = mysql("u-1", "OFF", "", NOBODY());
    let replica = mysql("u-2", "ON", "", status("a read replica of MySQL"));
    assert!(is_primary(&writer) && is_replica(&replica));
    assert!(replica.reason.starts_with("read_only is on, it replicates from 172.23.1.176:"));
    assert_eq!(replica.follows, Follows::All);
    assert_eq!(primary(&[&replica, &writer]), Ok(1));
}

#[test]
fn a_replica_that_cannot_go_on_behind_its_sources_failover_says_why() {
    let replica =
        mysql("u-2", "ON", "", status("a read replica of MySQL whose source has failed over to its standby"));
    assert!(is_replica(&replica));
    assert_eq!((replica.follows, replica.lag), (Follows::AppliesRest, None));
    let why = "replication from myhost.XXXXXXXXXXXXXXX.rr-rrrr-1.rds.amazonaws.com:3306 has stopped: Got fatal error 1236";
    assert!(replica.reason.contains(why), "{}", replica.reason);
}

/// RDS cuts a replica that is promoted off from its source, and leaves the source as it is.
#[test]
fn of_a_promoted_replica_and_its_former_source_neither_is_written_to() {
    let promoted = mysql("u-2", "OFF", "", NOBODY());
    assert_eq!(
        primary(&[&mysql("u-1", "OFF", "", NOBODY()), &promoted]),
        Err(NoPrimary::Several(vec![0, 1]))
    );
    assert_eq!(primary(&[&mysql("u-1", "ON", "", NOBODY()), &promoted]), Ok(1));
    // One whose parameter group has read_only = 0 is no better.
    let open = mysql("u-2", "OFF", "", status("a read replica of MySQL"));
    assert!(is_primary(&open) && open.reason.contains("set read_only there"), "{}", open.reason);
}

/// The name leads to the standby then, which has the same volume. So it is the same server for everybody who asks.
#[test]
fn an_instance_that_has_failed_over_to_its_standby_is_the_primary_again() {
    let settings = two_servers();
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    let replica = || mysql("u-2", "ON", "", status("a read replica of MySQL"));
    cluster.seen(at(1), 0, mysql("u-1", "OFF", "", NOBODY()));
    cluster.seen(at(1), 1, replica());
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    cluster.seen(at(2), 0, ServerVerdict::unreached("connection refused"));
    cluster.seen(at(3), 0, ServerVerdict::unreached("connection refused"));
    let news = cluster.choose_confirmed(at(3), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
    cluster.standings[0].begin_anew(at(60), "its name leads elsewhere");
    cluster.seen(at(61), 1, replica());
    assert_eq!(cluster.choose_confirmed(at(61), &chosen, &settings), None);
    for second in [62, 63] {
        cluster.seen(at(second), 0, mysql("u-1", "OFF", "", NOBODY()));
    }
    let found = cluster.choose_confirmed(at(63), &chosen, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { former: None, .. })), "{found:?}");
    assert_eq!(chosen.get().place, Some(0));
}

#[test]
fn a_reader_of_a_cluster_that_has_become_the_writer_is_the_primary() {
    let settings = two_servers();
    let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
    let reader = |id, gtids| {
        let columns = [
            "Source_Host",
            "Source_Port",
            "Replica_IO_Running",
            "Replica_SQL_Running",
            "Seconds_Behind_Source",
        ];
        mysql(id, "ON", gtids, Ok(answer(&columns, &[&["10.4.0.27", "3306", "Yes", "Yes", "0"]])))
    };
    cluster.seen(at(1), 0, mysql("u-1", "OFF", "u-1:1-10", NOBODY()));
    cluster.seen(at(1), 1, reader("u-2", "u-1:1-10"));
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    for second in [2, 3] {
        cluster.seen(at(second), 0, ServerVerdict::unreached("connection refused"));
    }
    cluster.seen(at(4), 1, mysql("u-2", "OFF", "u-1:1-12", NOBODY()));
    let found = cluster.choose_confirmed(at(4), &chosen, &settings);
    let (new, former) = (address(2), Some(address(1)));
    assert_eq!(found, Some(Event::PrimaryFound { address: new, former, behind: Behind::Nothing }));
    // The former one comes back as a reader.
    cluster.seen(at(30), 0, reader("u-1", "u-1:1-12,u-2:1"));
    assert_eq!(cluster.choose_confirmed(at(30), &chosen, &settings), None);
    assert_eq!(chosen.get().place, Some(1));
}
