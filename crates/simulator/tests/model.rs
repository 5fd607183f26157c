//! The virtual server against packets captured from a MariaDB 10.11.19.

use simulator::protocol::{PacketBuffer, capability};
use simulator::server::commands::{self, Reply};
use simulator::server::database::Database;
use simulator::server::session::Session;

const CAPABILITIES: u32 = capability::DEPRECATE_EOF
    | capability::SESSION_TRACK
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS;

const TRACKERS_ON: &str = "SET session_track_system_variables='*', session_track_state_change=1, \
    session_track_schema=1, session_track_transaction_info='CHARACTERISTICS'";

struct Connection {
    session: Session,
    database: Database,
}

impl Connection {
    fn new() -> Self {
        let session = Session::new(9, "alice", CAPABILITIES, Some("alpha".to_owned()), 45);
        Self { session, database: Database::new(Vec::new()) }
    }

    /// The payloads of a command's reply.
    fn command(&mut self, payload: &[u8]) -> Vec<Vec<u8>> {
        let Reply::Packets(bytes) = commands::run(&mut self.session, &mut self.database, payload) else {
            return Vec::new();
        };
        let mut buffer = PacketBuffer::default();
        buffer.push(&bytes);
        std::iter::from_fn(|| buffer.next_packet()).map(|packet| packet.payload).collect()
    }

    fn query(&mut self, text: &str) -> Vec<Vec<u8>> {
        self.command(&[b"\x03", text.as_bytes()].concat())
    }

    /// The only row of a result set, as text without the lengths of single digits.
    fn row(&mut self, text: &str) -> String {
        let packets = self.query(text);
        let row = &packets[packets.len() - 2];
        String::from_utf8_lossy(row).chars().filter(|c| !c.is_control()).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn trackers_report_as_mariadb_does() {
    let mut connection = Connection::new();
    connection.query(TRACKERS_ON);
    for (text, expected) in [
        ("BEGIN", "000000034000000020050908545f5f5f5f5f5f5f0413125354415254205452414e53414354494f4e3b"),
        ("COMMIT", "00000002400000000e0509085f5f5f5f5f5f5f5f040100"),
        ("COMMIT", "00000002000000"),
        ("SET @x=1", "000000024000000003020131"),
        ("USE beta", "00000002400000000a01050462657461020131"),
        ("SET autocommit=0", "000000004000000014000f0a6175746f636f6d6d6974034f4646020131"),
        ("SET autocommit=1", "000000024000000013000e0a6175746f636f6d6d6974024f4e020131"),
        ("CREATE TEMPORARY TABLE t (a INT)", "000000024000000003020131"),
        ("LOCK TABLES a READ", "00000002400000000b0509085f5f5f5f5f5f5f4c"),
        ("UNLOCK TABLES", "00000002400000000b0509085f5f5f5f5f5f5f5f"),
    ] {
        assert_eq!(hex(&connection.query(text)[0]), expected, "{text}");
    }
}

#[test]
fn an_implicit_transaction_ends_with_autocommit() {
    let mut connection = Connection::new();
    connection.query(TRACKERS_ON);
    connection.query("SET autocommit=0");
    let end = connection.query("SELECT 1 FROM ledger_1").pop().unwrap();
    assert_eq!(hex(&end), "fe000001400000000b050908495f525f5f5f535f");
    assert_eq!(
        hex(&connection.query("SET autocommit=1")[0]),
        "00000002400000001e000e0a6175746f636f6d6d6974024f4e0201310509085f5f5f5f5f5f5f5f"
    );
}

#[test]
fn several_statements_carry_their_flags() {
    let mut connection = Connection::new();
    connection.query(TRACKERS_ON);
    let packets = connection.query("SELECT 1;SET time_zone='+03:00';SELECT 2");
    assert_eq!(hex(&packets[3]), "fe00000a000000");
    assert_eq!(
        hex(&packets[4]),
        "0000000a4000000016001109".to_owned() + "74696d655f7a6f6e65062b30333a3030020131"
    );
    assert_eq!(hex(packets.last().unwrap()), "fe000002000000");
}

#[test]
fn row_counts_and_found_rows_are_left_behind() {
    const ASK: &str = "SELECT ROW_COUNT(), FOUND_ROWS()";
    let insert = "INSERT INTO ledger_1 (value) VALUES ('a'), ('b')";
    for (before, then, row_count) in [
        ("", &b"\x0e"[..], "0"), // COM_PING
        (insert, b"\x03SELECT 1", "-1"),
        (insert, b"\x0e", "0"),
        (insert, b"\x02beta", "0"),      // COM_INIT_DB
        (insert, b"\x0d", "-1"),         // COM_DEBUG
        (insert, b"\x1b\x00\x00", "-1"), // COM_SET_OPTION
        (insert, b"\x09", "2"),          // COM_STATISTICS
        (insert, b"\x16select ?", "2"),  // COM_STMT_PREPARE
        (insert, b"\x77", "-1"),         // unknown
        (insert, b"\x03SET bogus=1", "-1"),
        (insert, b"\x03BEGIN", "0"),
        (insert, b"\x03SHOW WARNINGS", "-1"),
    ] {
        let mut connection = Connection::new();
        connection.query("SELECT seq FROM rows_3");
        if !before.is_empty() {
            connection.query(before);
        }
        connection.command(then);
        let found = if then == b"\x03SELECT 1" { "1" } else { "3" };
        assert_eq!(connection.row(ASK), format!("{row_count}{found}"), "{}", String::from_utf8_lossy(then));
    }
}

#[test]
fn warnings_outlive_statements_without_tables() {
    for (then, kept) in [
        (&b"\x0e"[..], true),
        (b"\x03SELECT 1", true),
        (b"\x03SET @a=1", true),
        (b"\x03BEGIN", true),
        (b"\x02beta", true),
        (b"\x16select ?", true),
        (b"\x03SELECT COUNT(*) FROM ledger_1", false),
        (b"\x03INSERT INTO ledger_1 (value) VALUES ('a')", false),
        (b"\x1f", false), // COM_RESET_CONNECTION
    ] {
        let mut connection = Connection::new();
        connection.query("SELECT 1/0");
        connection.command(then);
        let rows = connection.query("SHOW WARNINGS").len() - 5;
        assert_eq!(rows, usize::from(kept), "{}", String::from_utf8_lossy(then));
    }
}
