use engine::Histogram;

use super::*;

/// A moment at this second, after so many statements in all that took `micros` each.
fn moment(second: u64, statements: u64, micros: u64, waiting: u64) -> Together {
    let mut times = Histogram::default();
    (0..statements).for_each(|_| times.record(Duration::from_micros(micros)));
    Together {
        waited: times.clone(),
        served: times,
        queued: [0, 0, 0, 0, waiting, 0, 0],
        lacking: [waiting, 0, 0, 0, 0, 0],
        ..Together::of_nothing(Duration::from_secs(second))
    }
}

fn place(name: &str) -> usize {
    COLUMNS.iter().position(|column| column.name == name).unwrap()
}

fn read(ring: &Ring, span: Span, since: u64) -> serde_json::Value {
    let mut text = String::new();
    ring.write(span, since, &mut text);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn names_are_there_once() {
    for (number, column) in COLUMNS.iter().enumerate() {
        assert_eq!(place(column.name), number);
    }
}

#[test]
fn the_latest_figure_is_there_when_the_moment_is_the_last_one() {
    let ring = Ring { kept: Mutex::new(Kept::default()) };
    assert_eq!(ring.latest("refused"), None);
    for (second, refused) in [(0, 5), (1, 12)] {
        let moment = Together { refused, ..moment(second, 0, 0, 0) };
        ring.kept.lock().unwrap().add(moment);
    }
    assert_eq!(ring.latest("refused"), Some(7.0));
    assert_eq!(ring.latest("none"), None);
}

#[test]
fn samples_are_of_what_has_happened_in_between() {
    let ring = Ring { kept: Mutex::new(Kept::default()) };
    for (second, statements, waiting) in [(0, 100, 0), (1, 150, 9), (2, 150, 1)] {
        ring.kept.lock().unwrap().add(moment(second, statements, 1000, waiting));
    }
    let seen = read(&ring, Span::Minutes, 0);
    assert_eq!(seen["at"], serde_json::json!([1000, 2000]));
    assert_eq!(seen["statements"], serde_json::json!([50, 0]));
    assert_eq!(seen["queue_low"], serde_json::json!([9, 1]));
    assert_eq!(seen["permits"], serde_json::json!([null, null]), "without a bound");
    // Within a sixteenth; and nothing is said of a second in which nothing has ended.
    let p99 = seen["server_p99"][0].as_f64().unwrap();
    assert!((p99 - 1000.0).abs() < 70.0 && seen["server_p99"][1].is_null(), "{seen}");
    assert_eq!(read(&ring, Span::Minutes, 1000)["at"], serde_json::json!([2000]));
    assert_eq!(read(&ring, Span::Day, 0)["at"], serde_json::json!([]));
}

#[test]
fn a_minute_keeps_what_went_by_in_a_second() {
    let ring = Ring { kept: Mutex::new(Kept::default()) };
    let ends: Vec<bool> = (0..=120)
        .map(|second| {
            let waiting = if second == 30 { 500 } else { 0 };
            ring.kept.lock().unwrap().add(moment(second, 10 * second, 100, waiting))
        })
        .collect();
    assert_eq!(ends.iter().filter(|ended| **ended).count(), 2);
    let seen = read(&ring, Span::Day, 0);
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
