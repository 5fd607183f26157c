//! The admin port of the real program, with the mariadb client.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Onramp, TestFolder, WATCHDOG, run};

/// An Onramp with a private server and an admin port.
struct Site {
    folder: TestFolder,
    onramp: Onramp,
    port: String,
    password: String,
}

impl Site {
    fn new(options: &[&str]) -> Self {
        let folder = TestFolder::new();
        Self::in_folder(folder, options)
    }

    fn in_folder(folder: TestFolder, options: &[&str]) -> Self {
        let options = [&["--admin-listen", "127.0.0.1:0"], options].concat();
        let mut onramp = Onramp::ready(&folder, &options);
        let log = onramp.log();
        let line = log.lines().find(|line| line.contains("admin port: listening on 127.0.0.1:")).unwrap();
        let port = line.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
        let password = std::fs::read_to_string(folder.data_dir().join("admin.password")).unwrap();
        Self { port: port.into(), password: password.trim().into(), folder, onramp }
    }

    /// What the admin port answers, without column names, columns separated by tabs.
    fn ask(&self, statement: &str) -> String {
        let output = self.try_to_ask(statement);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error that it answers with.
    fn refusal(&self, statement: &str) -> String {
        let output = self.try_to_ask(statement);
        assert!(!output.status.success(), "{statement} is refused");
        String::from_utf8_lossy(&output.stderr).lines().find(|line| line.contains("ERROR")).unwrap().into()
    }

    fn try_to_ask(&self, statement: &str) -> Output {
        let port = format!("--port={}", self.port);
        Command::new("mariadb")
            .args([
                "--no-defaults",
                "--protocol=tcp",
                "--host=127.0.0.1",
                &port,
                "--user=admin",
                "--skip-ssl",
            ])
            .env("MYSQL_PWD", &self.password)
            .args(["--batch", "--skip-column-names", "--execute", statement])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Asks until the answer is another one than this.
    fn wait_while(&self, statement: &str, answer: &str) -> String {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            let found = self.ask(statement);
            if found != answer {
                return found;
            }
            assert!(Instant::now() < deadline, "{statement}: still {answer:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A client of Onramp that runs statements, in the background.
    fn client(&self, statements: &str) -> Child {
        Command::new("mariadb")
            .arg(format!("--defaults-file={}", self.folder.data_dir().join("client.cnf").display()))
            .args(["--batch", "--skip-column-names", "--execute", statements])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// What a client has printed at its end, and whether all was well.
fn printed(client: Child) -> (bool, String) {
    let output = client.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

const RUNNING: &str = "SELECT id FROM clients WHERE state = 'running' ORDER BY id";

#[test]
fn tables_show_clients_and_what_they_wait_for() {
    let site = Site::new(&["--permits", "1", "--thread-pool-stall-limit", "600000"]);
    let first = site.client("SELECT GET_LOCK('a', 0); SELECT SLEEP(600)");
    let id = site.wait_while(RUNNING, "");
    let second = site.client("SELECT 'second'");
    let queued = site.wait_while("SELECT queue, user, statement FROM queues", "");
    assert_eq!(queued, "low\tadmin\tSELECT 'second'\n");
    let id = id.trim();
    assert_eq!(site.ask("SELECT client, reason FROM pinned_clients"), format!("{id}\tnamed_lock\n"));
    assert_eq!(site.ask("SHOW PINS"), "named_lock\t1\t1\t1\n");
    assert_eq!(
        site.ask("SELECT reason, text, times FROM pin_causes"),
        "named_lock\tselect get_lock (?)\t1\n"
    );
    assert_eq!(site.ask("SHOW STATUS LIKE 'Onramp_statements_pinned'"), "Onramp_statements_pinned\t1\n");
    assert_eq!(site.ask("SHOW STATUS LIKE 'Onramp_statements_doubtful'"), "Onramp_statements_doubtful\t0\n");
    assert_eq!(
        site.ask("SELECT option, in_use, bound FROM limits WHERE option = 'permits'"),
        "permits\t1\t1\n"
    );
    assert_eq!(site.ask("SELECT SUM(QUEUE_LENGTH) FROM information_schema.thread_pool_groups"), "1\n");
    assert_eq!(site.ask("SELECT COUNT(*) FROM information_schema.THREAD_POOL_QUEUES"), "1\n");
    let states = site.ask("SELECT state FROM performance_schema.tp_connections ORDER BY 1");
    assert_eq!(states, "ATTACHED\nQUEUED\n");
    let transactions = site.ask("SELECT in_transaction, transaction_us FROM clients WHERE state = 'running'");
    assert_eq!(transactions, "0\tNULL\n");
    let held = site.ask(
        "SELECT b.client = c.id, b.state, b.permit FROM backends b JOIN clients c ON c.backend = b.thread_id",
    );
    assert_eq!(held, "1\trunning\theld\n");
    let list = site.ask("SHOW FULL PROCESSLIST");
    assert!(list.contains("queued (low)\tSELECT 'second'\n"), "{list}");
    assert_eq!(site.ask("SHOW STATUS LIKE 'Threads_connected'"), "Threads_connected\t2\n");
    assert_eq!(site.ask("SELECT COUNT(*) FROM events WHERE event = 'server_found'"), "1\n");

    site.ask(&format!("KILL QUERY {id}"));
    let (fine, text) = printed(first);
    assert!(!fine && text.contains("ERROR 1317 (70100)"), "{text}");
    assert_eq!(printed(second), (true, String::from("second\n")));
    let counted = site.ask("SELECT text, count, errors FROM statements WHERE text LIKE '%sleep%'");
    assert_eq!(counted, "select sleep (?)\t1\t1\n");
    let waited = site.ask("SELECT count, max_us > 0 FROM waits WHERE reason = 'permit'");
    assert_eq!(waited, "1\t1\n");
    site.onramp.end();
}

#[test]
fn a_pause_holds_statements_back_until_it_is_over() {
    let site = Site::new(&["--workers", "2"]);
    assert_eq!(site.ask("PAUSE; SELECT SUM(paused) FROM workers"), "2\n");
    let client = site.client("SELECT 'at last'");
    assert_eq!(site.wait_while("SELECT statement FROM queues", ""), "SELECT 'at last'\n");
    // It is not for want of a permit.
    assert_eq!(site.ask("SHOW STATUS LIKE 'Onramp_permits_in_use'"), "Onramp_permits_in_use\t0\n");
    site.ask("RESUME");
    assert_eq!(printed(client), (true, String::from("at last\n")));
    site.onramp.end();
}

#[test]
fn a_killed_client_is_gone_and_so_is_its_statement() {
    let site = Site::new(&[]);
    let client = site.client("SELECT SLEEP(600)");
    let id = site.wait_while(RUNNING, "");
    site.ask(&format!("KILL {id}"));
    let (fine, text) = printed(client);
    assert!(!fine || text == "1\n", "{text}");
    site.wait_while("SELECT COUNT(*) FROM clients", "1\n");
    assert_eq!(site.ask("SELECT COUNT(*) FROM backends WHERE state = 'running'"), "0\n");
    let refusal = site.refusal(&format!("KILL {id}"));
    assert!(
        refusal.contains(&format!("ERROR 1094 (HY000) at line 1: Unknown thread id: {}", id.trim())),
        "{refusal}"
    );
    site.onramp.end();
}

#[test]
fn options_change_live_or_say_why_not() {
    let folder = TestFolder::new();
    let file = folder.path().join("onramp.toml");
    std::fs::write(&file, "permits = 4\nmax_backends = 50\n").unwrap();
    let site = Site::in_folder(folder, &["--config", file.to_str().unwrap()]);
    let permits = "SELECT o.value, o.source, l.bound FROM options o, limits l WHERE o.name = 'permits' AND l.option = o.name";
    assert_eq!(site.ask(permits), "4\tfile\t4\n");
    site.ask("SET GLOBAL permits = 9");
    let order = site.ask("SELECT worker, event, message FROM events WHERE message LIKE '%SET GLOBAL%'");
    assert_eq!(order, "NULL\tlog\tadmin: admin@localhost: SET GLOBAL permits = 9\n");
    assert_eq!(site.ask(permits), "9\tadmin\t9\n");
    assert_eq!(site.ask("SHOW VARIABLES LIKE 'permit_'"), "permits\t9\n");
    assert_eq!(site.ask("SHOW VARIABLES LIKE 'thread_pool_size'"), "thread_pool_size\t1\n");
    assert_eq!(site.ask("SELECT @@global.thread_pool_size, @@permits"), "1\t9\n");
    std::fs::write(&file, "permits = 5\nmax_backends = 60\n").unwrap();
    assert_eq!(
        site.ask("RELOAD; SHOW WARNINGS"),
        "Warning\t1105\tmax_backends stays 50 until the next start, which makes it 60\n"
    );
    assert_eq!(site.ask(permits), "5\tfile\t5\n");
    std::fs::write(&file, "permits = many\n").unwrap();
    assert!(site.refusal("RELOAD").contains("onramp.toml:1:"), "{}", site.refusal("RELOAD"));
    assert_eq!(site.ask(permits), "5\tfile\t5\n");
    for (statement, error) in [
        ("SET GLOBAL workers = 2", "ERROR 1238 (HY000)"),
        ("SET GLOBAL thread_pool_size = 2", "ERROR 1238 (HY000)"),
        ("SET GLOBAL permits_min = 0", "ERROR 1231 (42000)"),
        ("SET GLOBAL nothing = 0", "ERROR 1193 (HY000)"),
        ("SET permits = 3", "ERROR 1229 (HY000)"),
        ("SET thread_pool_size = 3", "ERROR 1229 (HY000)"),
        ("DROP TABLE clients", "ERROR 1064 (42000)"),
        ("SELECT * FROM mysql.user", "ERROR 1146 (42S02)"),
    ] {
        let refusal = site.refusal(statement);
        assert!(refusal.starts_with(error), "{statement}: {refusal}");
    }
    let secret =
        site.ask("SELECT value FROM options WHERE name IN ('admin_password', 'permits') ORDER BY name");
    assert_eq!(secret, "NULL\n5\n");
    site.onramp.end();
}

#[test]
fn a_shutdown_is_an_orderly_end() {
    let mut site = Site::new(&[]);
    site.ask("SHUTDOWN");
    assert!(site.onramp.wait().success(), "{}", site.onramp.log());
    let client = Site::new(&["--shutdown-timeout", "10m"]);
    let running = client.client("BEGIN; SELECT SLEEP(600)");
    client.wait_while(RUNNING, "");
    let mut site = client;
    site.ask("SHUTDOWN IMMEDIATE");
    assert!(site.onramp.wait().success(), "{}", site.onramp.log());
    assert!(!printed(running).0);
}

#[test]
fn nobody_gets_in_without_the_password() {
    let mut site = Site::new(&["--admin-max-connections", "2"]);
    let right = std::mem::replace(&mut site.password, String::from("wrong"));
    let refusal = site.refusal("SELECT 1");
    assert!(refusal.contains("ERROR 1045 (28000): Access denied for user 'admin'@'localhost'"), "{refusal}");
    site.password = String::new();
    assert!(site.refusal("SELECT 1").contains("(using password: NO)"));
    site.password = right;
    // Those that say nothing take no place of those who know it.
    let held: Vec<_> =
        (0..20).map(|_| std::net::TcpStream::connect(format!("127.0.0.1:{}", site.port)).unwrap()).collect();
    assert_eq!(site.ask("SELECT 1"), "1\n");
    drop(held);
    site.onramp.end();
}

#[test]
fn with_a_server_of_ones_own_a_password_has_to_be_given() {
    let folder = TestFolder::new();
    let arguments = ["serve", "--backend", "mysql://onramp@127.0.0.1:1/", "--admin-listen", "127.0.0.1:0"];
    let output = run(&folder, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("admin_listen is given without admin_password"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}
