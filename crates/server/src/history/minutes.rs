//! The minutes of the last day as rows of a table.

use std::time::Duration;

use admin::tables::{Minute, time_text};
use engine::{Lack, Queue};

use super::columns::{Step, place, place_of_lack, place_of_queue};
use super::costs::Measure;
use super::lacks::most_lacked;
use super::{Figures, History, Kept, figures};
use crate::admin_port::values::digest_name;

/// In milliseconds.
const MINUTE: u64 = 60_000;

impl History {
    /// All of them, the one that is under way included, the latest first.
    pub(crate) fn minutes(&self) -> Vec<Minute> {
        let kept = self.kept();
        let now = kept.now().map(|(at, figures)| row(minute_begun(at), &figures));
        let past = kept.minutes.iter().rev().map(|sample| {
            let dearest = kept.costs.dearest(Measure::Time, sample.at, MINUTE / 2);
            Minute {
                digest: dearest.map(|costly| digest_name(costly.fingerprint)),
                digest_us: dearest.map(|costly| costly.cost as u64),
                // It was looked at when it had ended.
                ..row(minute_begun(sample.at.saturating_sub(MINUTE)), &sample.figures)
            }
        });
        now.into_iter().chain(past).collect()
    }
}

impl Kept {
    /// The minute that is under way, and when that was looked at.
    fn now(&self) -> Option<(u64, Figures)> {
        let (from, to) = (self.minute.as_ref()?, self.last.as_ref()?);
        let figures = figures(&Step::new(from, to), self.highest.as_ref());
        (to.at > from.at).then_some((super::millis(to.at), figures))
    }
}

/// Of a moment in milliseconds since 1970.
fn minute_begun(at: u64) -> String {
    time_text(Duration::from_millis(at / MINUTE * MINUTE))
}

fn row(time: String, figures: &Figures) -> Minute {
    let real = |place: usize| tenths(figures[place]);
    let count = |place: usize| figures[place].max(0.0) as u64;
    let known = |place: usize| figures[place].is_finite().then(|| count(place));
    let (server, wait) = (const { place("server_p99") }, const { place("wait_p99") });
    Minute {
        time,
        slow_by: slow_by(figures),
        statements: real(const { place("statements") }),
        server_p99_us: known(server),
        wait_p99_us: known(wait),
        server_p50_us: known(const { place("server_p50") }),
        wait_p50_us: known(const { place("wait_p50") }),
        waiting: Queue::ALL.iter().map(|&queue| count(place_of_queue(queue))).sum(),
        waits_for: most_lacked(|lack| f64::from(figures[place_of_lack(lack)])).map(Lack::name),
        lock_waits: count(const { place("lacks_lock") }),
        blocking: count(const { place("blocking") }),
        errors: real(const { place("errors") }),
        refused: real(const { place("refused") }),
        cancelled: real(const { place("cancelled") }),
        permits_in_use: count(const { place("permits_in_use") }),
        permits: known(const { place("permits") }),
        clients: count(const { place("clients") }),
        pinned: count(const { place("pinned") }),
        logins: real(const { place("logins") }),
        login_p95_us: known(const { place("login_p95") }),
        refused_logins: real(const { place("refused_logins") }),
        digest: None,
        digest_us: None,
    }
}

/// A digit behind the point says enough, and what is less than half of that happened all the same.
fn tenths(figure: f32) -> f64 {
    let tenths = (f64::from(figure) * 10.0).round() / 10.0;
    if figure > 0.0 { tenths.max(0.1) } else { 0.0 }
}

fn slow_by(figures: &Figures) -> Option<&'static str> {
    let of = |place: usize| figures[place];
    let (server, wait) = (of(const { place("server_p99") }), of(const { place("wait_p99") }));
    if of(const { place("server_down") }) > 0.0 {
        return Some("server_down");
    }
    if of(const { place("paused") }) > 0.0 {
        return Some("paused");
    }
    match (server.is_finite(), wait.is_finite()) {
        (false, false) if of(const { place("oldest_queued") }) > 0.0 => Some("waiting"),
        (false, false) if of(const { place("running") }) > 0.0 => Some("server"),
        (false, false) => None,
        // What has started and has not ended is on the server.
        (false, true) => Some("server"),
        _ if wait > server => Some("waiting"),
        _ => Some("server"),
    }
}
