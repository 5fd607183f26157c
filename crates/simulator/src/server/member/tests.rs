use super::*;
use crate::server::statements;
use crate::token::ClientKey;

const TABLE: &str = "versions_1_0";

fn server(number: ServerNumber) -> Database {
    let mut database = Database::new(Vec::new());
    database.member = Some(Member { read_only: number > 1, ..Member::new(number) });
    database
}

fn session() -> Session {
    Session::new(1, "alice", 0, None, 45)
}

fn write(session: &mut Session, database: &mut Database, number: u32) {
    let token = Token { key: ClientKey { client: 1, incarnation: 0 }, number };
    let text = format!("UPDATE {TABLE} SET value = '{token}' WHERE id = 1");
    statements::execute(session, database, &text, None).expect("the server takes writes");
}

fn run(session: &mut Session, database: &mut Database, text: &str) {
    statements::execute(session, database, text, None).expect("a good statement");
}

#[test]
fn a_session_sees_its_own_changes_and_what_others_have_committed() {
    let mut primary = server(1);
    let (mut own, other) = (session(), session());
    write(&mut own, &mut primary, 1);
    run(&mut own, &mut primary, "BEGIN");
    write(&mut own, &mut primary, 2);
    let seen = |primary: &Database, own: &Session| [own, &other].map(|it| primary.version_for(it, TABLE, 1));
    assert_eq!(seen(&primary, &own), [2, 1]);
    run(&mut own, &mut primary, "ROLLBACK");
    assert_eq!(seen(&primary, &own), [1, 1]);
}

#[test]
fn a_replica_says_what_it_has_got_and_may_come_back_with_less() {
    let (mut primary, mut replica, mut own) = (server(1), server(2), session());
    for number in 1..=3 {
        write(&mut own, &mut primary, number);
    }
    let position = |database: &Database, text: &str| database.select_position(text);
    const OF_REPLICA: &str = "SELECT @@global.gtid_slave_pos";
    assert_eq!(position(&primary, OF_REPLICA).as_deref(), Some(""), "nobody has sent it anything");
    assert_eq!(position(&primary, "SELECT CONCAT(@@global.gtid_current_pos)").as_deref(), Some("0-1-3"));
    replica.replicate(std::mem::take(&mut primary.news));
    assert_eq!(
        (position(&replica, OF_REPLICA).as_deref(), replica.committed_version(TABLE, 1)),
        (Some("0-1-3"), 3)
    );
    assert_eq!((replica.lose_latest(2), position(&replica, OF_REPLICA).as_deref()), (2, Some("0-1-1")));
    assert_eq!((replica.committed_version(TABLE, 1), replica.lose_latest(9)), (1, 1));
    assert_eq!((replica.committed_version(TABLE, 1), primary.lose_latest(9)), (0, 0), "it wrote that itself");
}

#[test]
fn what_it_has_shown_is_known_once_the_same_session_asks_again() {
    const QUESTION: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('gtid_current_pos')";
    let (mut primary, mut own) = (server(1), session());
    let mut ask_after_a_write = |thread_id: u32, number: u32| {
        write(&mut own, &mut primary, number);
        let asking = Session::new(thread_id, "onramp", 0, None, 45);
        assert!(primary.show_member(&asking, QUESTION).is_some());
        primary.member.as_ref().map(|member| member.known(0).last)
    };
    // It hangs, and each answer comes too late for a session that was given up.
    assert_eq!([1, 2, 3].map(|number| ask_after_a_write(number, number)), [Some(0); 3]);
    assert_eq!([4, 5, 6].map(|number| ask_after_a_write(3, number)), [Some(0), Some(3), Some(4)]);
}

#[test]
fn one_that_gets_nothing_any_more_says_that_all_is_well() {
    let mut member = Member { source: Some(1), replication: Replication::Starved, ..Member::new(2) };
    let starved = member.replication();
    member.resume();
    assert_eq!((&member.replication, member.replication()), (&Replication::Runs, starved));
}

#[test]
fn a_session_that_may_only_read_writes_nothing() {
    let (mut primary, mut own) = (server(1), session());
    run(&mut own, &mut primary, "SET tx_read_only = ON");
    let refused =
        statements::execute(&mut own, &mut primary, "UPDATE versions_1_0 SET value = 'a' WHERE id = 1", None);
    assert_eq!(refused.map_err(|error| error.code), Err(1792));
}

/// Two MySQLs that have each written what the other lacks, and become a replica of the other as they are: who carries out the older version behind
/// the newer one shows the older one, and says that it has both.
#[test]
fn a_replica_that_keeps_its_own_may_put_an_older_version_in_the_place_of_a_newer_one() {
    let (mut first, mut second, mut own) = (server(1), server(2), session());
    second.member.as_mut().expect("it is one of several").read_only = false;
    write(&mut own, &mut second, 1);
    let older = std::mem::take(&mut second.news);
    write(&mut own, &mut first, 2);
    let newer = std::mem::take(&mut first.news);
    let overwrites = |replica: &Database, source: &Database, next: &[Rc<Committed>]| {
        let source = source.member.as_ref().expect("it is one of several");
        let found = replica.overwrites(source, next).into_iter();
        found.map(|(_, older, newer)| (older.number, newer.number)).collect::<Vec<_>>()
    };
    assert_eq!(overwrites(&second, &first, &newer), [], "the newer one comes behind the older one");
    assert_eq!(overwrites(&first, &second, &older), [(1, 2)]);
    second.replicate(newer.clone());
    assert_eq!(overwrites(&first, &second, &older), [(1, 2)], "the source has them in the other order");
    first.replicate(older.clone());
    let versions = [&first, &second].map(|it| it.committed_version(TABLE, 1));
    let has = [&first, &second].map(|it| it.member.as_ref().map(Member::mysql_position));
    assert_eq!((versions, &has[0]), ([1, 2], &has[1]));
    let mut copy = server(3);
    copy.replicate(newer);
    assert_eq!(overwrites(&copy, &first, &older), [], "the source itself has the older one behind the newer");
}
