//! Others that answer by a script, in front of the real thing.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use admin_client::{Encryption, Names, Place, Target};
use wire::{Capabilities, Greeting, OkPacket};

use super::*;
use crate::database::{self, Caller, TIME_LIMIT, Taker};
use crate::errors::SqlError;
use crate::reply::{Cell, ResultSet, STATUS};
use crate::tables::{Limit, Pin};

const NAMES: Names = Names { host: "admin_peers", socket: "admin_peers", all: "admin_peers" };

/// What a script answers with.
enum Answer {
    /// Names of columns, and rows, each value as text.
    Table(&'static [&'static str], Vec<Vec<Option<String>>>),
    /// The same, with a warning.
    Warned(&'static [&'static str], Vec<Vec<Option<String>>>),
    Error(SqlError),
    Bytes(Vec<u8>),
}

/// One value.
fn word(text: &str) -> Answer {
    Answer::Table(&["x"], vec![vec![Some(String::from(text))]])
}

fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|row| row.iter().map(|value| Some(String::from(*value))).collect()).collect()
}

fn packets(answer: Answer) -> Vec<u8> {
    let mut out = Vec::new();
    let warnings = u16::from(matches!(answer, Answer::Warned(..)));
    match answer {
        Answer::Table(columns, rows) | Answer::Warned(columns, rows) => {
            let mut result = ResultSet::new(columns.iter().copied().map(String::from), false);
            for row in &rows {
                result.row(row.iter().map(|value| value.as_deref().map_or(Cell::Null, Cell::from)));
            }
            result.put(&mut out, warnings);
        }
        Answer::Error(error) => {
            let mut payload = Vec::new();
            let (code, sql_state, message) = (error.code, error.sql_state, error.message.as_bytes());
            wire::ErrPacket { code, sql_state, message }.put(&mut payload);
            wire::put_message(&mut out, &mut 1, &payload);
        }
        Answer::Bytes(bytes) => out = bytes,
    }
    out
}

/// Serves connections, and tells of each statement.
fn scripted(
    version: &'static str,
    answer: impl Fn(&str) -> Answer + Send + 'static,
    asked: Sender<String>,
) -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let greeting = Greeting {
                server_version: version.as_bytes(),
                connection_id: 1,
                scramble: *b"12345678901234567890",
                capabilities: Capabilities::PROTOCOL_41
                    | Capabilities::SECURE_CONNECTION
                    | Capabilities::PLUGIN_AUTH,
                collation: 45,
                status: STATUS,
                auth_plugin: b"mysql_native_password",
            };
            let (mut payload, mut out) = (Vec::new(), Vec::new());
            greeting.put(&mut payload);
            wire::put_message(&mut out, &mut 0, &payload);
            socket.write_all(&out).unwrap();
            let (mut received, mut logged_in) = (Vec::new(), false);
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = socket.read(&mut piece) {
                received.extend_from_slice(&piece[..count]);
                let sequence = u8::from(!logged_in);
                let Some(message) = wire::read_message(&received, sequence, 1 << 20).unwrap() else {
                    continue;
                };
                let text = String::from_utf8_lossy(message.payload.get(1..).unwrap_or_default()).into_owned();
                received.clear();
                let out = if logged_in {
                    let _ = asked.send(text.clone());
                    packets(answer(&text))
                } else {
                    let (mut payload, mut out) = (Vec::new(), Vec::new());
                    OkPacket::plain(STATUS).put(&mut payload, false);
                    wire::put_message(&mut out, &mut 2, &payload);
                    out
                };
                logged_in = true;
                if socket.write_all(&out).is_err() {
                    break;
                }
            }
        }
    };
    std::thread::spawn(serve);
    let target = Target::Tcp(String::from("127.0.0.1"), port);
    Place::new(target, "admin", "secret", Encryption::Off, NAMES)
}

/// One of this version, which says who it is and answers all else so.
fn onramp(identity: &str, answer: impl Fn(&str) -> Answer + Send + 'static) -> Place {
    let identity = String::from(identity);
    let answer = move |text: &str| if text.contains("@@") { word(&identity) } else { answer(text) };
    scripted("8.0.11-onramp-0.1.0", answer, channel().0)
}

/// Its table of limits, of which two columns are read.
fn limits(identity: &str, rows: &[&[&str]]) -> Place {
    let rows = texts(rows);
    onramp(identity, move |_| Answer::Table(&["option", "bound"], rows.clone()))
}

/// The rows of a statement, each value as text, in their order.
#[derive(Default)]
struct Found(Vec<Vec<String>>);

impl Taker for Found {
    fn take<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) {
        let text = |cell: Cell<'_>| match cell {
            Cell::Null => String::from("NULL"),
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => format!("{number:?}"),
            Cell::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.0.push(cells.map(text).collect());
    }

    fn bytes(&self) -> usize {
        0
    }
}

fn limit(option: &'static str, bound: u64) -> Limit {
    let (in_use, bound) = (Some(0), Some(bound));
    Limit { option, bounds: "", unit: "", scope: "", in_use, bound, reached: 0 }
}

/// Asks these others, and this Onramp, which is called `own` and has one limit.
fn ask(text: &str, others: Vec<(&str, Place)>) -> (Vec<Vec<String>>, Vec<String>) {
    let caller = Caller { user: String::new(), schema: None, connection: 1, version: "" };
    let others = others.into_iter().map(|(name, place)| Peer { name: String::from(name), place }).collect();
    let peers = Peers { own_name: String::from("own"), others: Ok(others), patience: Duration::from_secs(5) };
    let fill = |rows: &mut Rows<'_>| {
        let asked = Asked::begin(rows, || peers).expect("it is about all");
        rows.put(&limit("permits", 8));
        asked.take_in(rows);
    };
    let deadline = Instant::now() + TIME_LIMIT;
    let (found, warnings) = database::select_into(text, &caller, deadline, fill, |_| Found::default())
        .map_err(|error| error.message)
        .unwrap();
    (found.0, warnings)
}

const BOUNDS: &str = "SELECT onramp, option, bound FROM cluster_limits ORDER BY 1, 2";

#[test]
fn rows_of_all_stand_beside_each_other() {
    let others =
        || vec![("a", limits("1", &[&["permits", "4"], &["workers", "2"]])), ("b", limits("2", &[]))];
    let (rows, warnings) = ask(BOUNDS, others());
    assert_eq!(rows, [["a", "permits", "4"], ["a", "workers", "2"], ["own", "permits", "8"]]);
    assert_eq!(warnings, [""; 0]);
    let (rows, _) = ask(
        "SELECT option, SUM(bound), COUNT(*) FROM onramp.CLUSTER_limits GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
        others(),
    );
    assert_eq!(rows, [["permits", "12", "2"]]);
    let (rows, _) = ask(
        "SELECT c.onramp, COUNT(l.option) FROM cluster_limits c LEFT JOIN limits l USING (option) GROUP BY 1 ORDER BY 1",
        others(),
    );
    assert_eq!(rows, [["a", "1"], ["own", "1"]], "the table itself has this one's rows alone");
}

#[test]
fn others_are_asked_for_the_table_and_for_what_is_read_of_it() {
    let asked_for = |text: &str| {
        let (say, said) = channel();
        let answer = |text: &str| {
            if text.contains("@@") { word("1") } else { Answer::Table(&["x"], texts(&[&["1"]])) }
        };
        let place = scripted("8.0.11-onramp-9", answer, say);
        let (rows, warnings) = ask(text, vec![("a", place)]);
        assert_eq!(warnings, [""; 0]);
        (rows, said.try_iter().filter(|text| text.contains("FROM")).collect::<Vec<_>>())
    };
    let (_, asked) = asked_for("SELECT bound FROM cluster_limits WHERE option = 'x'");
    assert_eq!(asked, ["SELECT `option`, `bound` FROM onramp.`limits`"]);
    let (rows, asked) = asked_for("SELECT onramp, COUNT(*) FROM cluster_limits GROUP BY 1 ORDER BY 1");
    assert_eq!(
        (rows, asked),
        (texts_of(&[&["a", "1"], &["own", "1"]]), vec![String::from("SELECT NULL FROM onramp.`limits`")])
    );
    let (_, asked) = asked_for("SELECT TP_GROUP_ID FROM cluster_tp_thread_state");
    assert_eq!(asked, ["SELECT `TP_GROUP_ID` FROM performance_schema.`tp_thread_state`"]);
}

fn texts_of(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().copied().map(String::from).collect()).collect()
}

#[test]
fn one_of_another_version_has_what_it_has() {
    // It calls none of its columns `bound`, has another order of them, and does not say who it is.
    let older = |text: &str| match text {
        _ if text.contains("@@") => Answer::Error(SqlError::unknown_variable("server_uuid")),
        _ if text.contains('*') => Answer::Table(&["news", "OPTION"], texts(&[&["1", "permits"]])),
        _ if text.contains("pins") => Answer::Error(SqlError::unknown_table("pins")),
        _ => {
            let error = rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(1),
                Some(String::from("no such column: bound")),
            );
            Answer::Error(SqlError::sqlite(&error))
        }
    };
    let place = || scripted("8.0.11-onramp-0.0.1", older, channel().0);
    let (rows, warnings) = ask(BOUNDS, vec![("a", place()), ("b", place())]);
    assert_eq!(rows, [["a", "permits", "NULL"], ["b", "permits", "NULL"], ["own", "permits", "8"]]);
    assert_eq!(warnings, [""; 0]);
    let both = "SELECT l.onramp, option, reason FROM cluster_limits l LEFT JOIN cluster_pins p USING (onramp) ORDER BY 1";
    let (rows, warnings) = ask(both, vec![("a", place())]);
    assert_eq!(rows, [["a", "permits", "NULL"], ["own", "permits", "NULL"]]);
    assert_eq!(
        warnings,
        [format!("a: it has no table {}, being of another version: rows of it are missing", Pin::TABLE.name)]
    );
}

#[test]
fn who_is_there_twice_is_shown_once_by_the_first_of_its_names() {
    let one = || limits("1", &[&["permits", "4"]]);
    let (rows, warnings) =
        ask(BOUNDS, vec![("a", one()), ("b", one()), ("c", limits("2", &[&["permits", "2"]]))]);
    assert_eq!(rows, [["a", "permits", "4"], ["c", "permits", "2"], ["own", "permits", "8"]]);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("leads to the same Onramp as"), "{warnings:?}");
    let (rows, warnings) = ask(BOUNDS, vec![("me", limits(variables::identity(), &[&["permits", "8"]]))]);
    assert_eq!((rows, warnings), (texts_of(&[&["me", "permits", "8"]]), Vec::new()));
}

#[test]
fn of_who_fails_on_the_way_nothing_stays() {
    let good =
        packets(Answer::Table(&["option", "bound"], vec![texts(&[&["permits", "4"]])[0].clone(); 9_000]));
    let cut = good.len() - 20;
    let cases: Vec<(Answer, &str)> = vec![
        (Answer::Bytes([&good[..cut], b"garbage that is no packet of any kind"].concat()), "not understood"),
        (Answer::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(9)), "not understood"),
        (
            Answer::Bytes(b"\x09\0\0\x01\xfe\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec()),
            "malformed packet: column count",
        ),
        (Answer::Error(SqlError::took_too_long(TIME_LIMIT)), "error 3024"),
        (
            Answer::Table(&["option", "bound"], texts(&[&["a", "1"], &[&"x".repeat(70_000), "1"]])),
            "larger than 64 KiB",
        ),
        (
            Answer::Table(&["option", "bound"], texts(&[&["a", "1"], &[&"x".repeat(65_530), "1"]])),
            "larger than 64 KiB",
        ),
    ];
    for (answer, reason) in cases {
        let bytes = packets(answer);
        let bad = onramp("1", move |_| Answer::Bytes(bytes.clone()));
        let (rows, warnings) = ask(BOUNDS, vec![("bad", bad), ("good", limits("2", &[&["permits", "2"]]))]);
        assert_eq!(rows, [["good", "permits", "2"], ["own", "permits", "8"]], "{reason}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("bad: its rows are missing: ") && warnings[0].contains(reason),
            "{warnings:?}"
        );
    }
}

#[test]
fn what_is_no_admin_port_is_named() {
    let server = scripted("8.0.36", |_| word("1"), channel().0);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let refused = Place::new(Target::Tcp(String::from("127.0.0.1"), port), "a", "b", Encryption::Off, NAMES);
    let (rows, warnings) = ask(BOUNDS, vec![("server", server), ("gone", refused)]);
    assert_eq!(rows, [["own", "permits", "8"]]);
    assert!(
        warnings[0].starts_with(
            "server: its rows are missing: it is no Onramp's admin port, but calls itself \"8.0.36\""
        ),
        "{warnings:?}"
    );
    assert!(
        warnings[1].starts_with("gone: its rows are missing: ") && warnings[1].contains("see admin_peers"),
        "{warnings:?}"
    );
}

#[test]
fn values_are_of_the_columns_kinds() {
    let strange = limits("1", &[&["7", "not a number"], &["\u{fffd}", "-3"]]);
    let text = "SELECT option, typeof(option), bound, typeof(bound) FROM cluster_limits WHERE onramp = 'a' ORDER BY 1";
    let (rows, _) = ask(text, vec![("a", strange)]);
    assert_eq!(rows, [["7", "text", "not a number", "text"], ["\u{fffd}", "text", "-3", "integer"]]);
}

#[test]
fn one_whose_workers_have_not_all_answered_has_the_rows_of_the_rest() {
    let rows = texts(&[&["permits", "4"]]);
    let place = onramp("1", move |_| Answer::Warned(&["option", "bound"], rows.clone()));
    let (rows, warnings) = ask(BOUNDS, vec![("a", place)]);
    assert_eq!(rows, [["a", "permits", "4"], ["own", "permits", "8"]]);
    assert!(
        warnings.len() == 1
            && warnings[0]
                .starts_with("a: not all of its workers have answered in time: rows of limits are missing")
    );
}

/// What is read by a column that nobody names, too.
#[test]
fn all_that_a_statement_reads_is_asked_for() {
    let values = |name: &str| match name {
        "option" => Some("permits"),
        "in_use" | "reached" => Some("0"),
        "bound" => Some("8"),
        _ => Some(""),
    };
    let answer = move |text: &str| {
        let Some((list, _)) = text.strip_prefix("SELECT ").and_then(|text| text.split_once(" FROM")) else {
            return word("a farewell");
        };
        let names: Vec<_> = list.split(", ").map(|name| name.trim_matches('`')).collect();
        let columns: Vec<&'static str> = names.iter().map(|name| &*String::from(*name).leak()).collect();
        let row = names.iter().map(|name| values(name).map(String::from)).collect();
        Answer::Table(columns.leak(), vec![row])
    };
    for value in [
        "(SELECT SUM(bound) FROM cluster_limits b WHERE b.onramp = a.onramp)",
        "(SELECT COUNT(*) FROM limits b JOIN cluster_limits c USING (option) WHERE c.onramp = a.onramp)",
        "(SELECT COUNT(*) FROM (SELECT option FROM limits) NATURAL JOIN (SELECT * FROM cluster_limits) c WHERE c.onramp = a.onramp)",
        "SUM(bound) OVER (PARTITION BY onramp, option ORDER BY reached)",
        "(option, bound) IN (SELECT option, bound FROM limits)",
        "EXISTS (SELECT 1 FROM limits b WHERE (b.option, b.reached) = (a.option, a.reached))",
        "(WITH c AS (SELECT * FROM cluster_limits) SELECT MAX(bound) FROM c WHERE c.onramp = a.onramp)",
        "(SELECT group_concat(x) FROM (SELECT bound AS x, onramp AS o FROM cluster_limits ORDER BY option) WHERE o = a.onramp)",
        "(SELECT COUNT(*) FILTER (WHERE reached = 0) FROM cluster_limits b WHERE b.onramp = a.onramp GROUP BY option HAVING MIN(bound) = 8)",
        "(SELECT x FROM (SELECT onramp AS o, bound AS x FROM cluster_limits UNION SELECT onramp, reached FROM cluster_limits) WHERE o = a.onramp ORDER BY x DESC LIMIT 1)",
        "(SELECT COUNT(bound) FROM (SELECT * FROM cluster_limits LIMIT 9) b WHERE b.onramp = a.onramp)",
        "CASE WHEN option = 'permits' AND in_use IS NOT NULL THEN bound END",
    ] {
        let text = format!("SELECT onramp, {value} FROM cluster_limits a ORDER BY 1");
        let (rows, warnings) = ask(&text, vec![("a", onramp("1", answer))]);
        assert_eq!(warnings, [""; 0], "{value}");
        assert!(
            rows.len() == 2 && rows[0][1] == rows[1][1] && !["NULL", "0"].contains(&&*rows[0][1]),
            "{value}: {rows:?}"
        );
    }
}
