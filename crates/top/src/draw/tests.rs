use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

use super::*;
use crate::snapshot::{Snapshot, Table, Value};
use crate::tabs::Tab;
use crate::view::tests::{recorded, several, view, view_of_several};
use crate::view::{Action, Key};

fn drawn(view: &View, now: u64, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(view, now, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn screen(view: &View, width: u16, height: u16) -> Vec<String> {
    drawn(view, view.look.as_ref().map_or(0, |look| look.at), width, height)
}

#[test]
fn the_header_says_how_much_is_done() {
    let mut view = view();
    view.take(recorded().remove(1));
    let lines = screen(&view, 80, 24);
    assert!(lines[0].starts_with("onramp top  db1:33062  up 1m"), "{}", lines[0]);
    assert!(
        lines[1].contains("statements/s  running ") && lines[1].contains(" of 4 permits (fixed)"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("clients 20 of 100.0k  backends 20"), "{}", lines[2]);
    assert!(lines[3].contains("1 clients 2 3 ") && lines[3].ends_with(" 9 0 c r"), "{}", lines[3]);
    assert!(lines[4].starts_with("ID         USER"), "{}", lines[4]);
    assert!(lines[5].starts_with("10737418"), "{}", lines[5]);
    assert!(lines[23].starts_with("q quit  h help"), "{}", lines[23]);
}

#[test]
fn old_figures_are_called_old() {
    let mut view = view();
    let at = view.look.as_ref().unwrap().at;
    assert!(!drawn(&view, at + 2_000, 100, 24)[0].contains("no data"));
    assert!(drawn(&view, at + 7_300, 100, 24)[0].contains("[no data for 7 s]"));
    view.fail("connection refused\x1b[2J".to_owned());
    let first = &drawn(&view, at + 1_000, 100, 24)[0];
    assert!(first.contains("[no data for 1 s] connection refused?[2J"), "{first}");
    // Figures stay, so that they can be read meanwhile.
    assert!(drawn(&view, at + 1_000, 100, 24)[5].starts_with("10737418"));
}

#[test]
fn holders_stand_above_those_who_wait() {
    let mut view = view();
    view.press(Key::Char('4'));
    let lines = screen(&view, 80, 24);
    let rows: Vec<&str> = lines[5..8].iter().map(|line| &line[..20]).collect();
    assert!(rows[0].starts_with("1073741828 "), "{rows:?}");
    assert!(rows[1].starts_with("`- 1073741838"), "{rows:?}");
    assert!(rows[2].starts_with("   `- 1073741839"), "{rows:?}");
}

#[test]
fn a_selected_row_is_on_the_screen() {
    let mut view = view();
    view.press(Key::Char('3'));
    view.press(Key::End);
    let last = view.lines().len() - 1;
    assert!(last > 4, "the recording has statements");
    assert_eq!(view.cursor().line, last);
    let count = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let all = screen(&view, 100, 40);
    let few = screen(&view, 100, 8);
    // Two lines for rows remain between headings and foot.
    assert_eq!(count(&few[6]), count(&all[5 + last]));
}

#[test]
fn no_size_is_too_small() {
    for tab in Tab::ALL.map(Tab::key_to_it) {
        for keys in ["", "h", "k", "/x"] {
            let mut view = view();
            view.press(Key::Char(tab));
            for key in keys.chars() {
                view.press(Key::Char(key));
            }
            for (width, height) in
                [(1, 1), (2, 30), (300, 1), (10, 3), (40, 12), (40, 24), (80, 24), (200, 60), (20, 6)]
            {
                drawn(&view, u64::MAX, width, height);
                for _ in 0..20 {
                    view.press(Key::Right);
                }
                drawn(&view, 0, width, height);
            }
        }
    }
}

#[test]
fn narrow_screens_have_what_matters_most() {
    let lines = screen(&view(), 40, 24);
    assert!(lines.iter().all(|line| line.chars().count() <= 40));
    assert!(lines[4].starts_with("ID         USER         STATE"), "{}", lines[4]);
    assert!(lines[3].contains("1 clients") && lines[3].contains(" 8"), "{}", lines[3]);
}

#[test]
fn statements_are_on_the_screen_where_it_is_wide_enough() {
    let mut view = view();
    for tab in "123".chars() {
        view.press(Key::Char(tab));
        let heading = &screen(&view, 80, 24)[4];
        assert!(heading.ends_with("STATEMENT") || heading.ends_with("TEXT"), "{heading}");
        assert!(!screen(&view, 50, 24)[4].contains("TEXT"));
    }
    let heading = &screen(&view, 300, 24)[4];
    assert!(heading.contains("CHANGED DIGEST") && heading.ends_with("TEXT"), "{heading}");
}

#[test]
fn columns_on_the_right_come_with_an_arrow_key() {
    let mut view = view();
    assert!(!screen(&view, 80, 24)[4].contains("DIGEST"));
    for _ in 0..13 {
        view.press(Key::Right);
    }
    let heading = &screen(&view, 80, 24)[4];
    assert!(
        heading.starts_with("ID ") && heading.contains("DIGEST") && heading.contains("STATEMENT"),
        "{heading}"
    );
}

#[test]
fn a_question_says_who_it_is_about() {
    let mut view = view();
    view.press(Key::Char('k'));
    let Mode::Question(kill) = view.mode.clone() else { panic!("no question") };
    let text = screen(&view, 40, 24).join(" ");
    assert!(text.contains(&format!("KILL client {}", kill.client)), "{text}");
    assert!(text.contains("y: yes, any other key: no"), "{text}");
    assert!(matches!(view.press(Key::Char('y')), Action::Kill(_)));
    assert!(screen(&view, 80, 24)[23].starts_with("KILL 10737418"));
}

#[test]
fn nothing_that_came_over_the_network_is_obeyed() {
    let hostile = "\x1b]0;title\x07\x1b[2J\u{9b}31m\r\nDROP\u{202e}\u{200b}\x7f";
    let mut look = Snapshot { at: 1, ..Snapshot::default() };
    for tab in Tab::ALL {
        let columns: Vec<String> = tab.columns().iter().map(|column| column.name.to_owned()).collect();
        let row = |_| columns.iter().map(|_| Value::Text(hostile.to_owned())).collect();
        look.tables.insert(tab.name().to_owned(), Table { rows: (0..3).map(row).collect(), columns });
    }
    for name in ["Uptime", "Onramp_multiplexed_percent", "Queries"] {
        look.status.insert(name.to_owned(), hostile.to_owned());
    }
    look.options.insert("permits".to_owned(), hostile.to_owned());
    look.troubles.insert("workers".to_owned(), hostile.to_owned());
    let plain = |text: &str| !text.chars().any(crate::format::is_hostile);
    assert!(crate::once::text(&look).lines().all(plain));
    assert!(crate::once::json(&look).lines().all(plain));
    let mut view =
        View::new(Source::Live { target: hostile.to_owned(), recording: Some(hostile.to_owned()) }, true);
    view.take(look);
    view.message = Some(hostile.to_owned());
    for tab in Tab::ALL.map(Tab::key_to_it) {
        for line in screen(&view, 200, 30) {
            assert!(plain(&line), "{line:?}");
        }
        view.press(Key::Char(tab));
    }
    view.press(Key::Char('/'));
    view.fail(hostile.to_owned());
    assert!(screen(&view, 200, 30).iter().all(|line| plain(line)));
}

#[test]
fn without_colours_there_are_none() {
    let coloured = |colours: bool| {
        let mut view = view();
        view.colours = colours;
        view.fail("gone".to_owned());
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| draw(&view, 0, frame.area(), frame.buffer_mut())).unwrap();
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.fg != ratatui_core::style::Color::Reset).count()
    };
    assert_eq!(coloured(false), 0);
    assert!(coloured(true) > 0);
}

#[test]
fn a_recording_says_where_it_is() {
    let source = Source::Replay { file: "night.jsonl".to_owned(), position: 1, count: 3, playing: true };
    let mut view = View::new(source, false);
    let looks = recorded();
    view.show(Some(&looks[0]), looks[1].clone());
    let lines = drawn(&view, u64::MAX, 100, 24);
    assert!(lines[0].contains(" UTC  2 of 3, playing") && lines[0].ends_with("night.jsonl"), "{}", lines[0]);
    assert!(!lines[0].contains("no data"));
    assert!(lines[1].contains("statements/s") && !lines[1].starts_with('-'), "{}", lines[1]);
}

#[test]
fn once_has_every_table_as_text_and_as_json() {
    let look = recorded().remove(0);
    let text = crate::once::text(&look);
    for tab in Tab::ALL {
        // One alone is no news.
        let is_there = text.contains(&format!("\n# {}\n", tab.name()));
        assert_eq!(is_there, tab != Tab::Onramps, "{}", tab.name());
    }
    assert!(text.contains("`- 1073741838"));
    let json: serde_json::Value = serde_json::from_str(&crate::once::json(&look)).unwrap();
    assert_eq!(Snapshot::from_json(&json).unwrap(), look);
}

#[test]
fn sentences_stand_above_the_tabs_where_there_is_room() {
    let mut view = view();
    let mut look = recorded().remove(0);
    let word = |word: &str| Value::Text(word.to_owned());
    let note = |level, about, text| vec![Value::Integer(1), word(level), word(about), word(text)];
    let mut notes = Table {
        columns: ["place", "level", "about", "text"].map(String::from).to_vec(),
        rows: vec![
            note("warn", "locks", "1 client blocks others."),
            note("warn", "waiting", "5 statements wait."),
            note("says", "time", "It is the server."),
            note("says", "restart", "A restart now breaks off nothing."),
        ],
    };
    look.tables.insert("notes".to_owned(), notes.clone());
    view.take(look.clone());
    let lines = screen(&view, 120, 24);
    assert_eq!(lines[3], "1 client blocks others.  5 statements wait.");
    assert_eq!(lines[4..6], ["It is the server.", "A restart now breaks off nothing."]);
    assert!(
        lines[6].starts_with("1 clients 2 queue ") && lines[6].ends_with(" c changes r refused"),
        "{}",
        lines[6]
    );
    assert!(lines[7].starts_with("ID ") && lines[8].starts_with("10737418"), "{lines:?}");
    assert!(screen(&view, 120, 20)[4].starts_with("ID "), "a low screen is the table's");
    notes.rows.splice(..2, [note("well", "top", "All is well.")]);
    look.tables.insert("notes".to_owned(), notes);
    view.take(look);
    assert_eq!(screen(&view, 120, 24)[3], "All is well.");
}

#[test]
fn who_blocks_most_stands_first_with_how_many() {
    let columns: Vec<String> = Tab::Locks.columns().iter().map(|column| column.name.to_owned()).collect();
    let row = |id: i64, waits_for: Option<i64>, blocks: bool| {
        let value = |column: &String| match column.as_str() {
            "id" => Value::Integer(id),
            "blocks_others" => Value::Integer(i64::from(blocks)),
            "waits_for_client" => waits_for.map_or(Value::Null, Value::Integer),
            _ => Value::Null,
        };
        columns.iter().map(value).collect::<Vec<_>>()
    };
    let rows = vec![
        row(1, None, true),
        row(2, None, true),
        row(11, Some(1), false),
        row(21, Some(2), true),
        row(22, Some(21), false),
        row(23, Some(2), false),
    ];
    let mut look = Snapshot { at: 1, ..Snapshot::default() };
    look.tables.insert("locks".to_owned(), Table { columns: columns.clone(), rows });
    let mut view = view();
    view.press(Key::Char('4'));
    view.take(look);
    let lines = screen(&view, 120, 24);
    let shown: Vec<_> =
        lines[5..11].iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(shown, ["2 3", "`- 21 1", "`- 22", "`- 23", "1 1", "`- 11"]);
}

#[test]
fn the_header_of_several_sums_what_can_be_summed_and_says_whose_the_rest_is() {
    let mut view = view_of_several();
    view.take(several(1));
    let lines = screen(&view, 140, 24);
    let first = "onramp top  2 of 3 Onramps  [db3: connection refused]";
    assert_eq!(lines[0], first);
    let mut both = several(1);
    both.parts.truncate(2);
    view.take(both);
    assert_eq!(screen(&view, 140, 24)[0], "onramp top  2 Onramps  up 9.0s (db2, the latest)");
    view.take(several(1));
    let look = recorded().remove(1);
    let (in_use, high) =
        (look.number("Onramp_permits_in_use").unwrap(), look.number("Onramp_queued_high").unwrap());
    assert!(lines[1].contains(&format!("running {} of 8 permits (fixed)", 2 * in_use)), "{}", lines[1]);
    assert!(lines[1].contains(&format!("waiting {}+", high + 90)), "{}", lines[1]);
    assert!(lines[2].starts_with("clients 27 of 200.0k  backends 40 ("), "{}", lines[2]);
    assert!(lines[2].contains("multiplexed 5%"), "a share of all statements, not a sum: {}", lines[2]);
    assert!(lines[4].starts_with("ONRAMP  ID         USER"), "{}", lines[4]);
    assert!(
        lines[5].starts_with("db1     10737418") && lines[6].starts_with("db2     10737418"),
        "{lines:?}"
    );
    assert_eq!(drawn(&view, several(1).at, 140, 24)[0], first);
    assert!(drawn(&view, several(1).at + 5_000, 140, 24)[0].contains("[no data for 5 s]"));
    let mut late = several(1);
    late.parts[0].look.as_mut().unwrap().at -= 8_000;
    view.take(late);
    assert!(screen(&view, 140, 24)[0].contains("[db1: no data for 8 s] [db3: connection"));
}

#[test]
fn what_differs_among_several_is_said_with_names() {
    let mut view = view_of_several();
    let mut look = several(0);
    {
        let first = look.parts[0].look.as_mut().unwrap();
        first.status.insert("Onramp_paused".to_owned(), "1".to_owned());
        first.options.insert("permits".to_owned(), "0".to_owned());
        first.options.insert("thread_handling".to_owned(), "one-thread-per-connection".to_owned());
        first.options.remove("max_connections");
        first.troubles.insert("workers".to_owned(), "worker 1 is silent".to_owned());
        first.troubles.insert("clients".to_owned(), "error 1054".to_owned());
    }
    view.take(look.clone());
    let lines = screen(&view, 200, 24);
    for text in
        ["[PAUSE: no statement goes to the server (db1)]", "[db1: worker 1 is silent]", "[db1: error 1054]"]
    {
        assert!(lines[0].contains(text), "{}", lines[0]);
    }
    assert!(
        lines[1].contains("permits (found and fixed)")
            && lines[1].ends_with("one-thread-per-connection (db1)")
    );
    assert!(lines[2].starts_with("clients 27  backends"), "{}", lines[2]);
    look.parts[1].look.as_mut().unwrap().status.insert("Onramp_paused".to_owned(), "1".to_owned());
    look.tables.clear();
    view.take(look);
    let lines = screen(&view, 200, 24);
    assert!(lines[0].contains("[PAUSE: no statement goes to the server]"), "all of them: {}", lines[0]);
    assert_eq!(lines[5], "db1: error 1054");
}

#[test]
fn sentences_of_several_say_whose_they_are() {
    let word = |word: &str| Value::Text(word.to_owned());
    let note = |onramp, level, about, text| vec![word(onramp), word(level), word(about), word(text)];
    let mut rows = vec![
        note("db1", "well", "top", "All is well."),
        note("db1", "says", "time", "It is the server: A."),
        note("db1", "says", "restart", "A restart now breaks off nothing."),
        note("db2", "warn", "locks", "1 client blocks others."),
        note("db2", "bad", "server", "The server does not answer."),
        note("db2", "says", "time", "It is the waiting: B."),
        note("db2", "says", "restart", "A restart now breaks off 2 statements."),
    ];
    let columns: Vec<String> = ["onramp", "level", "about", "text"].map(String::from).into();
    let mut look = several(0);
    look.tables.insert("notes".to_owned(), Table { columns: columns.clone(), rows: rows.clone() });
    let mut view = view_of_several();
    view.take(look.clone());
    let lines = screen(&view, 140, 24);
    assert_eq!(lines[3], "db2: The server does not answer.  db2: 1 client blocks others.");
    // 90 statements more wait there.
    assert_eq!(lines[4], "db2, where most wait: It is the waiting: B.");
    assert_eq!(
        lines[5],
        "db1: A restart now breaks off nothing.  db2: A restart now breaks off 2 statements."
    );
    // In the tab of Onramps those of the selected one.
    view.press(Key::Char('o'));
    let second = |view: &View| screen(view, 140, 24)[4..6].to_vec();
    assert_eq!(second(&view), ["db1: It is the server: A.", "db1: A restart now breaks off nothing."]);
    view.press(Key::Down);
    assert_eq!(second(&view), ["db2: It is the waiting: B.", "db2: A restart now breaks off 2 statements."]);
    rows.splice(3..5, [note("db2", "well", "top", "All is well.")]);
    look.tables.insert("notes".to_owned(), Table { columns, rows });
    view.take(look);
    assert_eq!(screen(&view, 140, 24)[3], "All is well.");
}

#[test]
fn a_question_of_several_names_the_onramp() {
    let mut view = view_of_several();
    view.press(Key::Down);
    view.press(Key::Char('k'));
    let Mode::Question(kill) = view.mode.clone() else { panic!("no question") };
    let text = screen(&view, 140, 24).join(" ");
    assert!(text.contains(&format!("KILL client {} of db2 (", kill.client)), "{text}");
    view.press(Key::Char('y'));
    assert!(screen(&view, 80, 24)[23].ends_with(" at db2 ..."));
}

#[test]
fn once_has_the_figures_of_several_beside_each_other() {
    let look = several(0);
    let text = crate::once::text(&look);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert_eq!(line("db3 "), "db3  host:33062  connection refused");
    let words = |start: &str| line(start).split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(words("Threads_connected"), ["Threads_connected", "20", "7"]);
    assert_eq!(words("permits "), ["permits", "4", "4"]);
    assert!(text.contains("\n# clients\nONRAMP ID"), "{text}");
    assert!(
        text.contains("\n# onramps\nONRAMP ")
            && text.contains("\n# locks\n")
            && text.contains("`- 1073741838")
    );
    let json: serde_json::Value = serde_json::from_str(&crate::once::json(&look)).unwrap();
    let of_one = recorded()[0].tables["clients"].rows.len();
    assert_eq!(json["tables"]["clients"].as_array().unwrap().len(), 2 * of_one);
    assert!(json.get("status").is_none());
    assert_eq!(Snapshot::from_json(&json).unwrap().to_json(), json);
}

#[test]
fn no_size_is_too_small_for_several() {
    let mut view = view_of_several();
    for tab in Tab::ALL.map(Tab::key_to_it) {
        view.press(Key::Char(tab));
        for (width, height) in [(1, 1), (2, 30), (8, 30), (9, 30), (40, 12), (80, 24), (200, 60)] {
            drawn(&view, u64::MAX, width, height);
        }
    }
}

#[test]
fn tabs_have_room_where_there_is_one_more() {
    let mut view = view_of_several();
    let tabs = |view: &View, width| screen(view, width, 24)[3].clone();
    assert!(tabs(&view, 130).ends_with(" 0 logins c changes r refused o onramps"));
    // Those whose names begin with their keys go without them before all do without names.
    assert!(tabs(&view, 120).ends_with(" 0 logins changes refused onramps"));
    assert!(tabs(&view, 100).ends_with(" 0 c r o"));
    view.filter = "db2".to_owned();
    assert!(tabs(&view, 120).ends_with(" 0 c r o  filter: db2"), "{}", tabs(&view, 120));
    assert!(tabs(&view, 140).ends_with(" o onramps  filter: db2"), "{}", tabs(&view, 140));
    view.filter.clear();
    view.press(Key::Char('o'));
    assert!(tabs(&view, 100).ends_with(" 0 c r o onramps"));
    let lines = screen(&view, 200, 24);
    assert!(lines[4].starts_with("ONRAMP  SLOT↑ WORKS STMTS/S CLIENTS"), "{}", lines[4]);
    assert!(lines[5].starts_with("db1 ") && lines[7].starts_with("db3 "), "{lines:?}");
    assert!(lines[7].ends_with("connection refused"), "{}", lines[7]);
}
