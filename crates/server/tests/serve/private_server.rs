//! The private server: first start, restart, and every way to die.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Signal, kill_process};

use crate::harness::{Onramp, TestFolder, query_directly, query_through_onramp, server_pid};

#[test]
fn the_first_start_creates_a_server_and_the_second_finds_its_data() {
    let folder = TestFolder::new();
    let mut onramp = Onramp::ready(&folder, &[]);
    let log = onramp.log();
    assert!(log.contains("creating a private MariaDB"), "{log}");
    assert!(log.contains("connect with: mariadb --defaults-file=./onramp-data/client.cnf"), "{log}");
    query_directly(
        &folder,
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); INSERT INTO shop.orders VALUES (7)",
    );
    onramp.end();
    assert!(server_pid(&folder.data_dir()).is_none(), "the server has ended with Onramp");

    let secrets = |name: &str| std::fs::read_to_string(folder.data_dir().join(name)).unwrap();
    let before = [secrets("admin.password"), secrets("service.password")];
    let mut onramp = Onramp::ready(&folder, &[]);
    let log = onramp.log();
    assert!(log.contains("starting the private MariaDB"), "{log}");
    assert_eq!([secrets("admin.password"), secrets("service.password")], before);
    assert!(before.iter().all(|secret| !log.contains(secret)));
    assert_eq!(query_directly(&folder, "SELECT id FROM shop.orders"), "7\n");
    onramp.end();
}

#[test]
fn clients_reach_the_private_server() {
    let folder = TestFolder::new();
    let socket = folder.path().join("clients.sock");
    let onramp = Onramp::ready(&folder, &["--listen", socket.to_str().unwrap()]);
    assert_eq!(query_through_onramp(&folder, "SELECT 6 * 7"), "42\n");
    onramp.end();
}

#[test]
fn secrets_are_for_their_owner_alone() {
    let folder = TestFolder::new();
    let onramp = Onramp::ready(&folder, &[]);
    for name in
        ["admin.password", "service.password", "client.cnf", "server.log", "onramp.lock", "server.lock"]
    {
        let mode = std::fs::metadata(folder.data_dir().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(
        std::fs::metadata(folder.data_dir().join("data")).unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert!(
        !folder.data_dir().join("data/accounts.sql").exists(),
        "it is removed once the server has read it"
    );
    onramp.end();
}

#[test]
fn the_accounts_have_the_rights_they_need_and_no_more() {
    let folder = TestFolder::new();
    let onramp = Onramp::ready(&folder, &[]);
    let service = query_directly(&folder, "SHOW GRANTS FOR 'onramp'@'localhost'");
    let mut rights: Vec<_> = service.lines().filter_map(|line| line.split(" TO ").next()).collect();
    // The server gives them in no particular order.
    rights.sort_unstable();
    let tables = ["db", "func", "global_priv", "proc", "roles_mapping"]
        .map(|table| format!("GRANT SELECT ON `mysql`.`{table}`"));
    assert_eq!(rights.pop(), Some("GRANT SELECT, PROCESS, SHOW VIEW, TRIGGER ON *.*"));
    assert_eq!(rights, tables);
    let admin = query_directly(&folder, "SHOW GRANTS");
    assert!(admin.starts_with("GRANT ALL PRIVILEGES ON *.* TO `admin`@`%`"), "{admin}");
    assert_eq!(query_directly(&folder, "SELECT COUNT(*) FROM mysql.global_priv WHERE User = ''"), "0\n");
    onramp.end();
}

#[test]
fn a_killed_onramp_takes_its_server_along_and_loses_nothing() {
    let folder = TestFolder::new();
    let mut onramp = Onramp::ready(&folder, &[]);
    query_directly(
        &folder,
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); INSERT INTO shop.orders VALUES (8)",
    );
    onramp.signal(Signal::KILL);
    onramp.wait();
    // At once: the server may still be stopping, and the new start waits for it.
    let onramp = Onramp::ready(&folder, &[]);
    assert_eq!(query_directly(&folder, "SELECT id FROM shop.orders"), "8\n");
    onramp.end();
}

#[test]
fn a_server_that_dies_is_started_again() {
    let folder = TestFolder::new();
    let mut onramp = Onramp::ready(&folder, &[]);
    query_directly(
        &folder,
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); INSERT INTO shop.orders VALUES (9)",
    );
    let first = server_pid(&folder.data_dir()).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    onramp.wait_for("the private server has ended");
    onramp.wait_for("the private server is back");
    assert_ne!(server_pid(&folder.data_dir()), Some(first));
    assert_eq!(query_directly(&folder, "SELECT id FROM shop.orders"), "9\n");
    onramp.end();
}

#[test]
fn a_folder_serves_one_onramp_at_a_time() {
    let folder = TestFolder::new();
    let first = Onramp::ready(&folder, &[]);
    let mut second = Onramp::start(&folder, &[]);
    second.wait_for("is in use by another onramp (process ");
    assert_eq!(second.wait().code(), Some(1));
    first.end();
}

#[test]
fn an_interrupted_first_start_is_simply_repeated() {
    let folder = TestFolder::new();
    let unfinished = folder.data_dir().join("data.unfinished");
    std::fs::create_dir_all(&unfinished).unwrap();
    std::fs::write(unfinished.join("ibdata1"), "half").unwrap();
    let onramp = Onramp::ready(&folder, &[]);
    assert!(!unfinished.exists());
    assert_eq!(query_directly(&folder, "SELECT 1"), "1\n");
    onramp.end();
}

#[test]
fn a_signal_during_the_first_start_ends_it() {
    let folder = TestFolder::new();
    let mut onramp = Onramp::start(&folder, &[]);
    onramp.wait_for("creating a private");
    onramp.end();
    assert!(server_pid(&folder.data_dir()).is_none());
}

#[test]
fn a_server_that_does_not_come_up_is_quoted() {
    let folder = TestFolder::new();
    Onramp::ready(&folder, &[]).end();
    std::fs::write(folder.data_dir().join("data/ibdata1"), "not a tablespace").unwrap();
    let mut onramp = Onramp::start(&folder, &[]);
    let line = onramp.wait_for("the private server does not come up");
    assert!(line.contains("server.log"), "{line}");
    onramp.wait_for("ibdata1");
    assert_eq!(onramp.wait().code(), Some(1));
}

#[test]
fn a_path_too_long_for_a_socket_gets_a_short_one() {
    let folder = TestFolder::new();
    let long = folder.path().join("x".repeat(100));
    let mut onramp = Onramp::ready(&folder, &["--data-dir", long.to_str().unwrap()]);
    let log = onramp.log();
    assert!(log.contains("creating a private"), "{log}");
    assert!(!long.join("data/server.sock").exists());
    onramp.end();
}
