use super::database::Database;
use super::member::Member;
use super::*;

/// The time that a server of a cluster, on which every statement is slow, takes for this text.
fn takes(text: &str) -> u64 {
    let mut database = Database::new(Vec::new());
    database.member = Some(Member::new(1));
    let speed = Speed {
        usual: 10_000,
        slow_percent: 100,
        switch_percent: 0,
        refused_change_percent: 0,
        keeps_roles: true,
    };
    let mut server = Server::new(database, Random::new(1), speed, 1);
    server.accept(1);
    server.take_actions();
    let session = Session::new(server.next_thread, SERVICE_USER, 0, None, 45);
    server.conversations.get_mut(&1).expect("it is there").phase = Phase::Ready(Box::new(session));
    server.receive(1, &crate::protocol::packet(0, &[b"\x03", text.as_bytes()].concat()));
    match server.take_actions()[..] {
        [(1, Action::WakeAfter(time))] => time,
        ref others => panic!("{text}: {others:?}"),
    }
}

#[test]
fn all_that_a_check_asks_is_answered_soon_also_by_a_slow_server() {
    // In this order on a new connection.
    for text in [
        "SET @@session.wsrep_sync_wait = 0",
        "SHOW GLOBAL VARIABLES",
        "SHOW ALL SLAVES STATUS",
        "SELECT @@global.gtid_executed",
    ] {
        assert!(takes(text) <= 20, "{text}");
    }
    assert!(takes("SELECT 1") > 20, "a client's");
}
