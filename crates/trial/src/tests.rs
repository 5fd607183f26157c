//! Reports from recorded tables.

use std::collections::BTreeMap;

use super::*;

/// Answers with the tables that were recorded, by what they are read from.
#[derive(Default)]
struct Recorded {
    tables: BTreeMap<&'static str, Table>,
}

impl Recorded {
    fn with(mut self, name: &'static str, columns: &str, rows: &[&[&str]]) -> Self {
        let value = |value: &&str| (*value != "NULL").then(|| String::from(*value));
        let rows = rows.iter().map(|row| row.iter().map(value).collect()).collect();
        let columns = columns.split_whitespace().map(String::from).collect();
        self.tables.insert(name, Table { columns, rows });
        self
    }
}

impl Source for Recorded {
    fn ask(&mut self, question: &str) -> Result<Table, NoTable> {
        let (_, from) = question.split_once(" FROM ").expect("a question says from what");
        let mut name = from.split_whitespace().next().unwrap_or_default();
        if question == questions::TOTALS {
            name = "totals";
        }
        Ok(self.tables.get(name).cloned().unwrap_or_default())
    }
}

const CLIENTS: &str = "id user state in_transaction transaction_us idle_us pins";

fn clients(rows: &[&[&str]]) -> Recorded {
    Recorded::default().with("clients", CLIENTS, rows)
}

/// What a small shop's tables say.
fn tables() -> Recorded {
    Recorded::default()
        .with(
            "status",
            "variable_name variable_value",
            &[
                &["Onramp_statements_multiplexed", "90"],
                &["Onramp_statements_in_transactions", "6"],
                &["Onramp_statements_pinned", "4"],
                &["Onramp_would_refuse_queue_wait_limit", "7"],
                &["Onramp_stored_code_unreadable", "2"],
            ],
        )
        .with(
            "options",
            "name value source",
            &[&["max_backends", "2", "file"], &["user_backends_share", "50", "default"]],
        )
        .with(
            "pins",
            "reason clients times statements",
            &[
                &["thread_handling", "9", "9", "99"],
                &["temporary_table", "1", "5", "4"],
                &["named_lock", "0", "0", "0"],
            ],
        )
        .with(
            "pin_causes",
            "reason digest text times",
            &[&["temporary_table", "00aa", "create temporary table <script>alert(?)</script> (id int)", "5"]],
        )
        .with(
            "limits",
            "option bounds unit in_use bound reached",
            &[&["session_memory", "what clients have set", "bytes", "1", "4096", "3"]],
        )
        .with("totals", "kinds count errors time_us", &[&["2", "100", "1", "5000000"]])
        .with(
            "statements",
            "digest text count errors time_us p50_us p99_us max_time_us",
            &[
                &[
                    "00bb",
                    "select left_over from stock where id = ?",
                    "99",
                    "1",
                    "4000000",
                    "50",
                    "900",
                    "1000",
                ],
                &["00cc", "show processlist", "1", "0", "1000000", "70", "70", "70"],
                &["NULL", "NULL", "3", "0", "10", "1", "1", "1"],
            ],
        )
}

/// Five looks, a second apart, at a client in a transaction with think time, one that is pinned, and one that is idle; others come for
/// a moment.
fn watched() -> Watch {
    let mut watch = Watch::new(1_000_000);
    let idle = ["9", "report", "idle", "0", "NULL", "5000000", "thread_handling"];
    let pinned = ["8", "shop", "idle", "0", "NULL", "5000000", "thread_handling,temporary_table"];
    for second in 1..=5_u64 {
        let age = (second * 1_000_000).to_string();
        let transaction = ["7", "shop", "idle", "1", age.as_str(), "900000", "thread_handling"];
        let mut rows: Vec<&[&str]> = vec![&idle, &pinned, &transaction];
        if second == 3 {
            rows.push(&["6", "shop", "running", "0", "NULL", "10", "thread_handling"]);
            rows.push(&["5", "NULL", "logging_in", "0", "NULL", "10", "NULL"]);
        }
        let events = [[
            "7",
            "login of \"shop\" from 10.0.0.9:4711 refused: Access denied; not the password of 'shop'@'%'",
        ]];
        let rows_of_events: Vec<&[&str]> = if second < 3 { vec![&events[0]] } else { Vec::new() };
        let mut source = clients(&rows).with("events", "number message", &rows_of_events);
        watch.look(1_000_000 + 1000 * second, &mut source).unwrap();
    }
    watch
}

fn report() -> Report {
    Report::of(&watched(), &mut tables(), "1.2.3").unwrap()
}

#[test]
fn backends_are_needed_by_who_runs_holds_or_is_in_a_transaction() {
    let report = report();
    assert_eq!((report.clients.max, report.clients.median), (4, 3));
    assert_eq!((report.needed.max, report.needed.median, report.running.max), (3, 2, 1));
    assert!((report.needed.mean - 2.2).abs() < 1e-9);
    let users: Vec<_> = report.users.iter().map(|user| (user.name.as_str(), user.needed.max)).collect();
    assert_eq!(users, [("shop", 3), ("report", 0)]);
    assert_eq!(report.headline(), "3 backends would have done for 4 clients");
}

#[test]
fn a_transaction_is_one_until_a_younger_one_comes() {
    let mut watch = watched();
    assert_eq!((watch.so_far().seen.count, watch.so_far().seen.idle), (1, 1));
    for age in ["10", "2000000", "5"] {
        let row = ["7", "shop", "running", "1", age, "0", "NULL"];
        watch.look(2_000_000, &mut clients(&[&row])).unwrap();
    }
    let seen = watch.so_far().seen;
    assert_eq!((seen.count, seen.idle, seen.idle_1s), (3, 1, 0));
    assert_eq!((seen.longest, seen.longest_idle), (5_000_000, 900_000));
    watch.look(3_000_000, &mut clients(&[])).unwrap();
    assert_eq!((watch.seen.count, watch.so_far().seen.count), (3, 3));
}

#[test]
fn each_finding_is_in_all_forms_of_the_report() {
    let report = report();
    let (text, json, html) = (report.to_text(), report.to_json(), report.to_html());
    for part in [
        "temporary_table",
        "drop it as soon as it is done with",
        "max_backends = 2",
        "user_backends_share = 50",
        "queue_wait_limit",
        "session_memory = 4096",
        "stored code",
        "show-kill-processlist-and-ids",
        "00bb",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["backends_needed"]["max"], 3);
    assert_eq!(read["pins"][0]["reason"], "temporary_table");
    assert_eq!(read["pins"].as_array().unwrap().len(), 1, "what holds for everybody in a trial is no reason");
    assert_eq!(read["refused_logins"][0]["from"], "10.0.0.9");
    assert_eq!(read["refused_logins"][0]["count"], 2);
    assert_eq!(read["transactions"]["seen_idle"], 1);
    assert_eq!(read["load"]["statements"], 100);
    assert_eq!(read["limits"].as_array().unwrap().len(), 4);
    for part in ["temporary_table", "max_backends = 2", "10.0.0.9", "00bb"] {
        assert!(html.contains(part), "{part} is not in the page");
    }
}

#[test]
fn what_users_have_written_is_text_wherever_it_stands() {
    let hostile = "<script>\u{1b}[2J\u{202e}&\"'";
    let mut watch = Watch::new(0);
    let row = ["1", hostile, "running", "0", "NULL", "0", "NULL"];
    let line = format!("login of {hostile:?} from 10.0.0.9:1 refused: no; {hostile}");
    let event = ["1", line.as_str()];
    let mut source = clients(&[&row]).with("events", "number message", &[&event]);
    watch.look(1, &mut source).unwrap();
    let report = Report::of(&watch, &mut tables(), "1").unwrap();
    let html = report.to_html();
    assert!(!html.to_lowercase().contains("<script"), "{html}");
    assert!(html.contains("&lt;script&gt;"));
    for text in [html, report.to_text()] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
    serde_json::from_str::<serde_json::Value>(&report.to_json()).unwrap();
}

#[test]
fn a_thousand_users_and_digests_take_bounded_memory_and_a_readable_report() {
    let mut watch = Watch::new(0);
    for look in 1..=3_u64 {
        let names: Vec<String> = (0..3000).map(|user| format!("user{}", look * 3000 + user)).collect();
        let rows: Vec<[&str; 7]> =
            names.iter().map(|name| ["1", name, "running", "0", "NULL", "0", "NULL"]).collect();
        let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..]).collect();
        let lines: Vec<String> = (0..1000)
            .map(|number| format!("login of \"x{look}{number}\" from 10.0.0.1:5 refused: no; why"))
            .collect();
        let events: Vec<[&str; 2]> = lines.iter().map(|line| ["1", line.as_str()]).collect();
        let events: Vec<&[&str]> = events.iter().map(|row| &row[..]).collect();
        watch.look(look, &mut clients(&rows).with("events", "number message", &events)).unwrap();
    }
    assert_eq!(watch.users.len(), 1001);
    assert_eq!(watch.needed.max(), 3000);
    assert!(watch.refused.len() <= 201);
    let kinds: Vec<[String; 8]> = (0..1000)
        .map(|kind| {
            let numbers = ["1", "0", "5", "1", "1", "1"].map(String::from);
            let [count, errors, time, p50, p99, max] = numbers;
            [
                format!("{kind:04x}"),
                format!("select connection_id (), c{kind}"),
                count,
                errors,
                time,
                p50,
                p99,
                max,
            ]
        })
        .collect();
    let kinds: Vec<Vec<&str>> = kinds.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let kinds: Vec<&[&str]> = kinds.iter().map(Vec::as_slice).collect();
    let mut source =
        tables().with("statements", "digest text count errors time_us p50_us p99_us max_time_us", &kinds);
    let report = Report::of(&watch, &mut source, "1").unwrap();
    assert_eq!((report.users.len(), report.further_users, report.load.dearest.len()), (10, 991, 20));
    assert_eq!((report.differences[0].kinds, report.differences[0].examples.len()), (1000, 3));
    assert!(report.to_text().lines().count() < 1000);
}

/// No name that somebody gives at a login can say something else about it.
#[test]
fn a_refused_login_is_told_as_it_was_whatever_its_name() {
    let why = "not the password of 'shop'@'%'";
    for name in
        ["x\" from 10.0.0.9:1 refused: y", "x\\", "x\\\" from 10.0.0.9:1 refused: y; z", "\"", "", "x; y"]
    {
        let denied = format!("Access denied for user '{name}'@'10.0.0.7' (using password: YES)");
        let line = format!("login of {name:?} from 10.0.0.7:4711 refused: {denied}; {why}");
        let event = ["1", line.as_str()];
        let mut watch = Watch::new(0);
        watch.look(1, &mut clients(&[]).with("events", "number message", &[&event])).unwrap();
        let refused: Vec<_> = watch.refused.keys().collect();
        let [refused] = refused[..] else { panic!("{name:?} is told as {refused:?}") };
        assert_eq!(format!("\"{}\"", refused.user), format!("{name:?}"));
        assert_eq!(refused.from, "10.0.0.7");
        // Behind a name that looks like the mark between both, the client's own error is told too.
        let told = if name.contains("; ") { format!("{denied}; {why}") } else { String::from(why) };
        assert_eq!(refused.why, told, "{name:?}");
    }
}

/// That Onramp has served for a month.
#[test]
fn rates_are_of_the_time_that_was_watched() {
    let (name, columns) = ("totals", "kinds count errors time_us");
    let mut watch = Watch::new(1_000_000);
    for second in 0..=4 {
        let mut source = clients(&[]).with(name, columns, &[&["9", "1000000", "0", "9000000000"]]);
        watch.look(1_000_000 + 1000 * second, &mut source).unwrap();
    }
    let of = |count: &str, time: &str| {
        let mut source = tables().with(name, columns, &[&["9", count, "0", time]]);
        Report::of(&watch, &mut source, "1").unwrap()
    };
    let report = of("1000040", "9002000000");
    assert_eq!((report.load.rate, report.load.at_a_time), (10.0, 0.5));
    assert_eq!(report.load.statements, 1_000_040, "as the kinds, since its start");
    assert!(report.to_text().contains("10.0 a second, 0.50 at a time"), "{}", report.to_text());
    let anew = of("20", "4000000");
    assert_eq!((anew.load.rate, anew.load.at_a_time), (5.0, 1.0), "it has started again in between");
}

#[test]
fn an_onramp_with_a_pool_is_told_from_a_trial() {
    let would = [
        "In a trial no statement waits",
        "of one backend for each client",
        "would have done",
        "would have pinned",
        "could have run",
    ];
    let forms = |report: &Report| [report.to_text(), report.to_html()];
    for form in forms(&report()) {
        would.iter().for_each(|part| assert!(form.contains(part), "{part} is not in\n{form}"));
    }
    assert_eq!(report().options[0].option, "thread_handling");
    let pool = ["thread_handling", "pool-of-threads", "default"];
    let few = ["max_backends", "2", "file"];
    let mut source = tables().with("options", "name value source", &[&pool, &few]);
    let report = Report::of(&watched(), &mut source, "1").unwrap();
    for form in forms(&report) {
        would.iter().for_each(|part| assert!(!form.contains(part), "{part} is in\n{form}"));
        for part in [
            "This Onramp has a pool already",
            "3 backends were needed for 4 clients",
            "of a pool of backends",
        ] {
            assert!(form.contains(part), "{part} is not in\n{form}");
        }
        assert!(!form.contains("in the trial"), "{form}");
    }
    assert!(report.options.iter().all(|choice| choice.option != "thread_handling"), "it is set already");
}

#[test]
fn a_bound_is_told_with_its_value_and_in_its_unit() {
    let report = report();
    let text = report.to_text();
    for line in [
        "  queue_wait_limit = 10s: 7 times\n",
        "  max_backends = 2: 1 backend too few at the peak\n",
        "  session_memory = 4096: 3 times\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let read: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let limits = read["limits"].as_array().unwrap();
    let of = |option: &str| limits.iter().find(|limit| limit["option"] == option).unwrap();
    let lacking = of("max_backends");
    assert_eq!((&lacking["count"], &lacking["backends_too_few"]), (&serde_json::Value::Null, &1.into()));
    assert_eq!(of("session_memory")["count"], 3);
}

/// The values are those that the counters are documented with.
#[test]
fn what_options_that_are_off_would_refuse_is_told_with_the_value_that_was_counted() {
    let page = include_str!("../../../docs/ADMIN.md");
    let documented = page.lines().filter(|line| line.starts_with("| `Onramp_would_refuse_"));
    let mut count = 0;
    for line in documented {
        let name = line.split('`').nth(1).unwrap();
        let mut source = tables().with("status", "variable_name variable_value", &[&[name, "7"]]);
        let report = Report::of(&watched(), &mut source, "1").unwrap();
        let told =
            report.bounds.iter().any(|bound| line.contains(&format!("`{} = {}`", bound.option, bound.value)));
        assert!(told, "{line}");
        count += 1;
    }
    assert_eq!(count, 3);
}

/// Two sorts of statements are told as one difference.
#[test]
fn examples_are_the_dearest() {
    let kinds: Vec<[String; 3]> = (0..4)
        .flat_map(|kind| {
            [("show processlist", 10), ("show full processlist", 11)].map(|(text, time)| (kind, text, time))
        })
        .map(|(kind, text, time)| {
            [format!("{kind}{time}"), format!("{text} where c{kind}"), (time * (9 - kind)).to_string()]
        })
        .collect();
    let rows: Vec<Vec<&str>> = kinds.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    let mut source = tables().with("statements", "digest text time_us", &rows);
    let report = Report::of(&watched(), &mut source, "1").unwrap();
    let times: Vec<_> = report.differences[0].examples.iter().map(|kind| kind.time_us).collect();
    assert_eq!(times, [99, 90, 88]);
}

#[test]
fn an_option_that_ends_idle_transactions_is_not_called_off() {
    let mut watch = Watch::new(0);
    let row = ["1", "shop", "idle", "1", "20000000", "20000000", "NULL"];
    watch.look(1, &mut clients(&[&row])).unwrap();
    for (value, is_told) in [("0s", true), ("30s", false)] {
        let mut source =
            tables().with("options", "name value source", &[&["idle_transaction_timeout", value, "file"]]);
        let report = Report::of(&watch, &mut source, "1").unwrap();
        assert_eq!(report.to_text().contains("idle_transaction_timeout"), is_told, "{value}");
    }
}

#[test]
fn a_look_that_fails_is_counted_and_told() {
    struct Silent;
    impl Source for Silent {
        fn ask(&mut self, _: &str) -> Result<Table, NoTable> {
            Err(NoTable::Incomplete(String::from("worker 1 has not answered in time")))
        }
    }
    let mut watch = watched();
    assert!(watch.look(2_000_000, &mut Silent).is_err());
    let report = Report::of(&watch, &mut tables(), "1").unwrap();
    assert!(report.to_text().contains("1 looks could not be taken"));
    assert!(Report::of(&watch, &mut Silent, "1").is_err());
}
