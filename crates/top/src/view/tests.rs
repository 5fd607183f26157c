use super::*;
use crate::questions::Question;
use crate::together::{Answered, together};

/// Looks that a real Onramp gave, in front of MariaDB: someone keeps a row lock, two wait behind it one after the other, and a load
/// generator has more connections than there are permits.
pub(crate) fn recorded() -> Vec<Snapshot> {
    let lines = include_str!("../../tests/fixtures/locks.jsonl").lines();
    lines.map(|line| Snapshot::from_json(&serde_json::from_str(line).unwrap()).unwrap()).collect()
}

/// A view of the first of them.
pub(crate) fn view() -> View {
    let source = Source::Live { target: "db1:33062".to_owned(), recording: None };
    let mut view = View::new(source, false);
    view.take(recorded().remove(0));
    view
}

/// Two Onramps: the one that was recorded, a look later each time, and another that has the same ids for its clients.
pub(crate) fn several(number: usize) -> Snapshot {
    let first = recorded().remove(number);
    let mut second = first.clone();
    second.at += 40;
    let number = |look: &Snapshot, name: &str| look.number(name).unwrap();
    let queries = number(&second, "Queries") * 2;
    for (name, value) in
        [("Queries", queries), ("Threads_connected", 7), ("Uptime", 9), ("Onramp_queued_high", 90)]
    {
        second.status.insert(name.to_owned(), value.to_string());
    }
    let answered = |name, look| Answered { name, target: "host:33062".to_owned(), look };
    let all = [
        answered("db1", Ok(&first)),
        answered("db2", Ok(&second)),
        answered("db3", Err("connection refused".into())),
    ];
    let questions: Vec<_> = Tab::ALL.map(|tab| Question::usual(tab, 200)).into();
    together(&all, &questions, 0)
}

/// A view of them.
pub(crate) fn view_of_several() -> View {
    let source = Source::Live { target: String::new(), recording: None };
    let mut view = View::new(source, false);
    view.take(several(0));
    view
}

fn replay() -> View {
    let source = Source::Replay { file: "f".to_owned(), position: 0, count: 3, playing: false };
    let mut view = View::new(source, false);
    view.show(None, recorded().remove(0));
    view
}

fn press(view: &mut View, keys: &str) -> Action {
    keys.chars().map(|key| view.press(Key::Char(key))).last().unwrap()
}

fn selected(view: &View, column: &str) -> Value {
    view.value(&view.lines()[view.cursor().line], column).unwrap().clone()
}

#[test]
fn the_help_names_each_tab_beside_its_key() {
    let tabs = &HELP[1..3];
    let keys = tabs.iter().flat_map(|(keys, _)| keys.split(' ').map(String::from));
    let names = tabs.iter().flat_map(|(_, names)| names.split(", ").map(String::from));
    let wanted = Tab::ALL.map(|tab| (tab.key_to_it().to_string(), tab.name().to_owned()));
    assert!(keys.eq(wanted.iter().map(|(key, _)| key.clone())), "{tabs:?}");
    assert!(names.eq(wanted.iter().map(|(_, name)| name.clone())), "{tabs:?}");
    let in_line = |(keys, names): &(&str, &str)| (keys.split(' ').count(), names.split(", ").count());
    assert!(tabs.iter().map(in_line).all(|(keys, names)| keys == names), "each name in the line of its key");
}

#[test]
fn tabs_go_round_and_by_their_numbers() {
    let mut view = view();
    // That of Onramps is not there where there is one.
    for tab in Tab::ALL.into_iter().filter(|tab| *tab != Tab::Onramps) {
        assert_eq!(view.tab, tab);
        assert_eq!(view.press(Key::Tab), Action::Ask);
    }
    assert_eq!(view.tab, Tab::Clients);
    view.press(Key::BackTab);
    assert_eq!(view.tab, Tab::Refused);
    press(&mut view, "4");
    assert_eq!(view.tab, Tab::Locks);
    for tab in Tab::ALL {
        assert_eq!(view.press(Key::Char(tab.key_to_it())), Action::Ask);
        assert_eq!(view.tab, tab);
    }
    assert_eq!(press(&mut view, "y"), Action::None);
}

#[test]
fn onramps_have_a_tab_where_there_are_several() {
    let mut view = view_of_several();
    view.press(Key::BackTab);
    assert_eq!(view.tab, Tab::Onramps);
    let names: Vec<String> =
        view.lines().iter().map(|line| view.value(line, "onramp").unwrap().text()).collect();
    assert_eq!(names, ["db1", "db2", "db3"]);
    press(&mut view, "k");
    assert!(view.message.as_ref().unwrap().contains("KILL is for clients"));
    view.press(Key::Tab);
    assert_eq!(view.tab, Tab::Clients);
    let mut alone = self::view();
    press(&mut alone, "o");
    assert_eq!((alone.tab, alone.lines().len(), alone.tabs().len()), (Tab::Onramps, 1, 13));
    press(&mut alone, "1");
    assert_eq!(alone.tabs().len(), 12);
}

#[test]
fn a_selected_row_stays_selected_where_it_moves() {
    let mut view = view();
    view.press(Key::Down);
    view.press(Key::Down);
    let id = selected(&view, "id");
    let mut next = recorded().remove(0);
    let table = next.tables.get_mut("clients").unwrap();
    let mut busiest = table.rows[0].clone();
    busiest[table.column("id").unwrap()] = Value::Integer(7);
    busiest[table.column("busy_us").unwrap()] = Value::Integer(i64::MAX);
    table.rows.push(busiest);
    view.take(next.clone());
    assert_eq!((selected(&view, "id"), view.cursor().line), (id, 3));
    // At the top one sees what comes to the top.
    view.press(Key::Home);
    view.take(recorded().remove(0));
    view.take(next);
    assert_eq!((selected(&view, "id"), view.cursor().line), (Value::Integer(7), 0));
}

#[test]
fn selections_stay_within_the_lines_when_rows_go() {
    let mut view = view();
    view.press(Key::End);
    let mut next = recorded().remove(1);
    next.tables.get_mut("clients").unwrap().rows.truncate(2);
    view.take(next);
    assert!(view.cursor().line < 2);
    view.take(Snapshot { at: u64::MAX, ..Snapshot::default() });
    assert_eq!(view.cursor().line, 0);
    for key in [Key::Down, Key::End, Key::PageDown, Key::Home, Key::PageUp, Key::Up, Key::Left, Key::Right] {
        assert_eq!(view.press(key), Action::None);
    }
}

#[test]
fn columns_order_rows_both_ways() {
    let mut view = view();
    press(&mut view, "3");
    assert_eq!(view.tab.columns()[view.order().sort.unwrap()].name, "time_us");
    assert_eq!(press(&mut view, ">"), Action::Ask);
    let counts = |view: &View| -> Vec<i64> {
        view.lines().iter().map(|line| view.value(line, "count").unwrap().integer().unwrap()).collect()
    };
    let down = counts(&view);
    assert!(down.is_sorted_by(|a, b| a >= b) && down.first() != down.last(), "{down:?}");
    press(&mut view, "I");
    assert!(counts(&view).is_sorted());
    for _ in 0..50 {
        press(&mut view, ">");
    }
    assert_eq!(view.order().sort, Some(view.tab.columns().len() - 1));
}

#[test]
fn a_filter_is_written_kept_and_taken_back() {
    let mut view = view();
    let all = view.lines().len();
    press(&mut view, "3/SELECT");
    assert!(!view.lines().is_empty());
    let shown = view.lines().len();
    // Letters are the filter's now, no orders.
    press(&mut view, "q");
    assert_eq!(view.filter, "SELECTq");
    view.press(Key::Backspace);
    assert_eq!((view.filter.as_str(), view.lines().len()), ("SELECT", shown));
    assert_eq!(view.press(Key::Enter), Action::Ask);
    press(&mut view, "/x");
    assert_eq!(view.press(Key::Escape), Action::Ask);
    assert_eq!(view.filter, "SELECT");
    assert_eq!(view.press(Key::Escape), Action::Ask);
    press(&mut view, "1");
    assert_eq!((view.filter.as_str(), view.lines().len()), ("", all));
    press(&mut view, "/");
    press(&mut view, "a\u{1b}\u{202e}");
    assert_eq!(view.filter, "a");
    press(&mut view, &"x".repeat(500));
    assert_eq!(view.filter.len(), 80);
}

#[test]
fn an_order_needs_a_yes_and_is_about_who_was_seen() {
    let mut view = view();
    view.press(Key::Down);
    let client = selected(&view, "id").integer().unwrap();
    for no in [Key::Char('n'), Key::Enter, Key::Escape, Key::Char('k'), Key::Char('q')] {
        press(&mut view, "k");
        assert!(matches!(&view.mode, Mode::Question(kill) if kill.client == client && !kill.query_only));
        assert_eq!(view.press(no), Action::None, "{no:?}");
        assert_eq!(view.mode, Mode::Normal);
        assert_eq!(view.message.as_deref(), Some("nothing was killed"));
    }
    press(&mut view, "k");
    let mut next = recorded().remove(1);
    next.tables.get_mut("clients").unwrap().rows.clear();
    view.take(next);
    let Action::Kill(kill) = press(&mut view, "y") else { panic!("{:?}", view.mode) };
    assert_eq!(kill.to_sql(), format!("KILL {client}"));
    assert!(kill.who.contains("10.0.0.7:"), "{}", kill.who);
}

#[test]
fn orders_are_for_lines_with_a_client() {
    let mut view = view();
    press(&mut view, "2x");
    assert!(matches!(&view.mode, Mode::Question(kill) if kill.to_sql().starts_with("KILL QUERY 1")));
    view.press(Key::Escape);
    for tab in "3578".chars() {
        view.press(Key::Char(tab));
        view.press(Key::F(9));
        assert_eq!(view.mode, Mode::Normal);
        assert!(view.message.as_ref().unwrap().contains("KILL is for clients"), "{:?}", view.message);
    }
    let mut view = replay();
    press(&mut view, "k");
    assert!(view.message.unwrap().contains("recording"));
}

#[test]
fn ctrl_c_ends_whatever_is_on() {
    for keys in ["1", "/", "k", "h"] {
        let mut view = view();
        press(&mut view, keys);
        assert_eq!(view.press(Key::Ctrl('c')), Action::Quit, "{keys}");
    }
    for key in [Key::Char('q'), Key::F(10)] {
        assert_eq!(view().press(key), Action::Quit);
    }
}

#[test]
fn rates_are_of_two_looks() {
    let mut view = view();
    assert_eq!(view.rate(), None);
    let (first, second) = (recorded().remove(0), recorded().remove(1));
    let statements = (second.number("Queries").unwrap() - first.number("Queries").unwrap()) as f64;
    let expected = statements * 1000.0 / (second.at - first.at) as f64;
    view.take(second.clone());
    assert_eq!(view.rate(), Some(expected));
    assert!(expected > 0.0);
    // Started anew: nothing is known, and what was known stays.
    let mut anew = second;
    anew.at += 1000;
    anew.status.insert("Queries".to_owned(), "1".to_owned());
    view.take(anew);
    assert_eq!(view.rate(), Some(expected));
}

#[test]
fn a_pause_keeps_the_screen_and_a_recording_plays() {
    let mut live = view();
    press(&mut live, "Z");
    assert!(live.paused);
    press(&mut live, "p");
    assert!(!live.paused);
    let mut view = replay();
    press(&mut view, " ");
    assert!(!view.paused && matches!(view.source, Source::Replay { playing: true, .. }));
    assert_eq!(press(&mut view, "["), Action::Step(-1));
    assert_eq!(press(&mut view, "}"), Action::Step(60));
}

#[test]
fn an_order_goes_to_the_onramp_whose_row_it_is() {
    let mut view = view_of_several();
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..view.lines().len() {
        let (name, id) = (selected(&view, "onramp"), selected(&view, "id").integer());
        press(&mut view, "k");
        let Mode::Question(kill) = view.mode.clone() else { panic!("{:?}", view.message) };
        assert_eq!((kill.onramp.clone().map(Value::Text), Some(kill.client)), (Some(name), id));
        assert!(kill.text().ends_with(&format!(" at {}", kill.onramp.clone().unwrap())));
        asked.insert((kill.onramp, kill.client));
        view.press(Key::Escape);
        view.press(Key::Down);
    }
    // The same ids at both.
    assert_eq!(asked.len(), 2 * recorded()[0].tables["clients"].rows.len());
}

#[test]
fn a_selected_row_is_one_onramps() {
    let mut view = view_of_several();
    press(&mut view, "/db2");
    view.press(Key::Enter);
    let of_one = recorded()[0].tables["clients"].rows.len();
    assert_eq!(view.lines().len(), of_one);
    view.press(Key::Down);
    view.press(Key::Down);
    let id = selected(&view, "id");
    view.press(Key::Escape);
    let place = view.lines().iter().position(|line| {
        view.value(line, "id") == Some(&id) && view.value(line, "onramp").unwrap().text() == "db2"
    });
    for _ in 0..place.unwrap() {
        view.press(Key::Down);
    }
    // The one before it goes.
    let line = view.cursor().line;
    let mut next = several(0);
    next.tables.get_mut("clients").unwrap().rows.remove(line - 1);
    view.take(next);
    assert_eq!(view.cursor().line, line - 1);
    assert_eq!((selected(&view, "id"), selected(&view, "onramp").text().as_str()), (id, "db2"));
}

#[test]
fn rows_of_several_are_ordered_by_whose_they_are_too() {
    let mut view = view_of_several();
    for _ in 0..20 {
        press(&mut view, "<");
    }
    assert_eq!(view.order().sort, None);
    let names = |view: &View| -> Vec<String> {
        view.lines().iter().map(|line| view.value(line, "onramp").unwrap().text()).collect()
    };
    press(&mut view, "I");
    let mut expected = names(&view);
    expected.sort();
    assert_eq!(names(&view), expected);
    press(&mut view, ">");
    assert_eq!(view.order().sort, Some(0));
    for _ in 0..50 {
        press(&mut view, ">");
    }
    assert_eq!(view.order().sort, Some(view.tab.columns().len() - 1));
}

#[test]
fn rates_of_several_are_summed_where_they_are_known() {
    let mut view = view_of_several();
    assert_eq!(view.rate(), None);
    view.take(several(1));
    let (first, second) = (recorded().remove(0), recorded().remove(1));
    let statements = (second.number("Queries").unwrap() - first.number("Queries").unwrap()) as f64;
    let one = statements * 1000.0 / (second.at - first.at) as f64;
    assert_eq!(view.rate(), Some(one + 2.0 * one));
    // One that has gone takes its rate along, and has none when it is back.
    let mut gone = several(1);
    gone.parts[1].look = Err("gone".to_owned());
    view.take(gone);
    assert_eq!(view.rate(), Some(one));
    view.take(several(1));
    assert_eq!(view.rate(), Some(one));
}

#[test]
fn a_rate_is_made_of_any_numbers() {
    let look = |at: u64, queries: i64| {
        let status = BTreeMap::from([("Queries".to_owned(), queries.to_string())]);
        Snapshot { at, status, ..Snapshot::default() }
    };
    assert_eq!(rate(&look(1_000, 5), &look(2_000, 9)), Some(4.0));
    assert!(rate(&look(1_000, i64::MIN), &look(2_000, i64::MAX)).is_some_and(f64::is_finite));
    assert_eq!(rate(&look(1_000, i64::MAX), &look(2_000, i64::MIN)), None);
}
