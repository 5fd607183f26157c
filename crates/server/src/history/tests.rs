use engine::{EnumMap, Histogram, Lack, Queue};

use super::*;

/// A moment at this second, after so many statements in all that took `micros` each.
fn moment(second: u64, statements: u64, micros: u64, waiting: u64) -> Together {
    let mut times = Histogram::default();
    (0..statements).for_each(|_| times.record(Duration::from_micros(micros)));
    Together {
        waited: times.clone(),
        served: times,
        queued: EnumMap::from_fn(|queue| if queue == Queue::Low { waiting } else { 0 }),
        lacking: EnumMap::from_fn(|lack| if lack == Lack::Permit { waiting } else { 0 }),
        ..Together::of_nothing(Duration::from_secs(second))
    }
}

fn place(name: &str) -> usize {
    COLUMNS.iter().position(|column| column.name == name).unwrap()
}

fn read(history: &History, span: Span, since: u64) -> serde_json::Value {
    let mut text = String::new();
    history.write(span, since, &mut text);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn names_are_there_once() {
    for (number, column) in COLUMNS.iter().enumerate() {
        assert_eq!(place(column.name), number);
    }
}

#[test]
fn each_queue_and_each_lack_has_its_column() {
    let before = Together::of_nothing(Duration::ZERO);
    let after = Together {
        queued: EnumMap::from_fn(|queue| 1 + queue as u64),
        lacking: EnumMap::from_fn(|lack| 1 + lack as u64),
        ..Together::of_nothing(SECOND)
    };
    let step = Step::new(&before, &after);
    let holds = |place: usize, name: String, figure: u64| {
        let column = &COLUMNS[place];
        assert_eq!((column.name, (column.value)(&step)), (name.as_str(), figure as f64));
    };
    for &queue in Queue::ALL {
        holds(columns::place_of_queue(queue), format!("queue_{}", queue.name()), after.queued[queue]);
    }
    for &lack in Lack::ALL {
        let name = if lack == Lack::Paused { "resume" } else { lack.name() };
        holds(columns::place_of_lack(lack), format!("lacks_{name}"), after.lacking[lack]);
    }
}

#[test]
fn the_latest_figure_is_there_when_the_moment_is_the_last_one() {
    let history = History::empty();
    assert_eq!(history.refused(), 0.0);
    for (second, refused) in [(0, 5), (1, 12)] {
        let moment = Together { refused, ..moment(second, 0, 0, 0) };
        history.kept().add(moment);
    }
    assert_eq!(history.refused(), 7.0);
}

#[test]
fn samples_are_of_what_has_happened_in_between() {
    let history = History::empty();
    for (second, statements, waiting) in [(0, 100, 0), (1, 150, 9), (2, 150, 1)] {
        history.kept().add(moment(second, statements, 1000, waiting));
    }
    let seen = read(&history, Span::Minutes, 0);
    assert_eq!(seen["at"], serde_json::json!([1000, 2000]));
    assert_eq!(seen["statements"], serde_json::json!([50, 0]));
    assert_eq!(seen["queue_low"], serde_json::json!([9, 1]));
    assert_eq!(seen["permits"], serde_json::json!([null, null]), "without a bound");
    // Within a sixteenth; and nothing is said of a second in which nothing has ended.
    let p99 = seen["server_p99"][0].as_f64().unwrap();
    assert!((p99 - 1000.0).abs() < 70.0 && seen["server_p99"][1].is_null(), "{seen}");
    assert_eq!(read(&history, Span::Minutes, 1000)["at"], serde_json::json!([2000]));
    assert_eq!(read(&history, Span::Day, 0)["at"], serde_json::json!([]));
}

#[test]
fn a_minute_keeps_what_went_by_in_a_second() {
    let history = History::empty();
    let ends: Vec<bool> = (0..=120)
        .map(|second| {
            let waiting = if second == 30 { 500 } else { 0 };
            history.kept().add(moment(second, 10 * second, 100, waiting))
        })
        .collect();
    assert_eq!(ends.iter().filter(|ended| **ended).count(), 2);
    let seen = read(&history, Span::Day, 0);
    assert_eq!(seen["at"], serde_json::json!([60_000, 120_000]));
    assert_eq!(seen["queue_low"], serde_json::json!([500, 0]));
    assert_eq!(seen["statements"], serde_json::json!([10, 10]));
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut samples = VecDeque::new();
    for at in 0..10 {
        push(&mut samples, 4, Sample { at, figures: [0.0; COLUMNS.len()] });
    }
    assert_eq!(samples.iter().map(|sample| sample.at).collect::<Vec<_>>(), [6, 7, 8, 9]);
}

#[test]
fn numbers_are_short() {
    let mut text = String::new();
    for figure in [0.0, 3.0, 0.123_456, 12_345.678, f32::NAN, f32::INFINITY] {
        number(&mut text, figure);
        text.push(' ');
    }
    assert_eq!(text, "0 3 0.12 12346 null null ");
}

#[test]
fn minutes_say_what_was_slow_in_them() {
    let history = History::empty();
    let add = |together| history.kept().add(together);
    add(moment(43_200, 0, 0, 0));
    add(moment(43_230, 300, 5_000, 7));
    add(moment(43_260, 600, 5_000, 0));
    history.kept().costs.add(
        Duration::from_secs(43_261),
        &[DigestCost { fingerprint: 0xab, time: 9, count: 1, ..DigestCost::default() }],
    );
    add(moment(43_270, 600, 5_000, 0));
    let minutes = history.minutes();
    let times: Vec<_> = minutes.iter().map(|minute| minute.time.as_str()).collect();
    assert_eq!(times, ["1970-01-01 12:01:00", "1970-01-01 12:00:00"]);
    assert_eq!((minutes[0].slow_by, minutes[0].server_p99_us, minutes[0].statements), (None, None, 0.0));
    let busy = &minutes[1];
    assert_eq!((busy.waiting, busy.waits_for, busy.statements), (7, Some("permit"), 10.0));
    // The histogram gives times to an eighth.
    assert!(busy.server_p99_us.is_some_and(|us| (4_400..5_700).contains(&us)), "{busy:?}");
    assert_eq!((busy.digest.as_deref(), busy.digest_us), (Some("00000000000000ab"), Some(9)));
    assert_eq!(busy.server_p99_us, busy.wait_p99_us, "the moments of this test have one time for both");
    assert_eq!(busy.slow_by, Some("server"));
}
