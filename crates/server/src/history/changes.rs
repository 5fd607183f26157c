//! What changed: the last half minute beside the five minutes before it, and whether time is lost on the server or in front of it.

use admin::tables::Change;

use super::columns::{place, place_of_lack};
use super::lacks::{most_lacked, said};
use super::{History, Kept};

/// Seconds that are compared, and those before them that they are compared with.
const HERE: usize = 30;
const BEFORE: usize = 300;

/// Half as much again is a change that somebody notices.
const NOTICED: f64 = 1.5;

/// A figure that is compared.
struct Compared {
    place: usize,
    name: &'static str,
    unit: &'static str,
    /// Below that it does not matter.
    matters: f64,
}

const fn compared(column: &str, name: &'static str, unit: &'static str, matters: f64) -> Compared {
    Compared { place: place(column), name, unit, matters }
}

/// The page compares the same (http_port/page/charts.js); a test holds the two together.
const COMPARED: [Compared; 25] = [
    compared("server_p99", "p99 on the server", "us", 1000.0),
    compared("server_p95", "p95 on the server", "us", 1000.0),
    compared("wait_p99", "p99 of waiting", "us", 1000.0),
    compared("wait_p95", "p95 of waiting", "us", 1000.0),
    compared("statements", "statements", "/s", 5.0),
    compared("errors", "errors", "/s", 1.0),
    compared("refused", "refused", "/s", 1.0),
    compared("cancelled", "given up", "/s", 1.0),
    compared("permits", "the limit of permits", "", 2.0),
    compared("lacks_permit", "waiting for permits", "", 2.0),
    compared("lacks_long_permits", "waiting for long permits", "", 2.0),
    compared("lacks_backend_connect", "waiting for connections", "", 2.0),
    compared("lacks_max_backends", "waiting for free backends", "", 2.0),
    compared("lacks_resume", "waiting for RESUME", "", 1.0),
    compared("lacks_lock", "waiting for locks on the server", "", 1.0),
    compared("holding", "idle holders of backends", "", 2.0),
    compared("pinned", "pinned clients", "", 2.0),
    compared("blocking", "clients that block others", "", 1.0),
    compared("clients", "clients", "", 5.0),
    compared("logins", "logins", "/s", 2.0),
    compared("refused_logins", "refused logins", "/s", 1.0),
    compared("connect_failures", "failed connections to the server", "/s", 0.2),
    compared("server_down", "server away", "share", 0.1),
    compared("busiest_worker", "the busiest worker", "share", 0.2),
    compared("resident", "memory", "bytes", 50e6),
];

impl History {
    /// Those that rose, the most first, and then those that fell.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let kept = self.kept();
        let (now, before) = kept.windows();
        let mut found: Vec<_> = COMPARED
            .iter()
            .filter_map(|of| change(of, kept.mean(of.place, &now), kept.mean(of.place, &before)))
            .collect();
        let rank = |change: &Change| if change.times > 1.0 { 1e9 + change.times } else { 1.0 / change.times };
        found.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        found
    }
}

impl Kept {
    /// Where statements' time goes, in a sentence. The page says the same of any moment (http_port/page/moment.js).
    pub(super) fn verdict(&self) -> String {
        let (now, _) = self.windows();
        let mean = |place: usize| self.mean(place, &now);
        if self.last(const { place("server_down") }) > 0.5 {
            return String::from("It is the server: it does not answer.");
        }
        if self.last(const { place("paused") }) > 0.5 {
            return String::from("It is an operator's PAUSE: nothing new goes to the server.");
        }
        let lack = most_lacked(|lack| mean(place_of_lack(lack)).unwrap_or(0.0))
            .map_or_else(String::new, |lack| format!("; most wait for {}", said(lack).short));
        let locks = mean(const { place("lacks_lock") }).unwrap_or(0.0).round();
        let behind = if locks >= 1.0 { format!(", where {locks} wait for locks") } else { String::new() };
        let wait = mean(const { place("wait_p95") }).unwrap_or(0.0);
        let Some(server) = mean(const { place("server_p95") }) else {
            let running = self.last(const { place("running") });
            let oldest = self.last(const { place("oldest_queued") });
            return match (running > 0.0, oldest > 0.0) {
                (true, _) => format!("It is the server: nothing ended on it lately{behind}."),
                (false, true) => {
                    format!("It is the waiting: the longest has waited for {}{lack}.", time(oldest))
                }
                (false, false) => String::from("Nothing ran on the server lately."),
            };
        };
        if wait > server {
            return format!(
                "It is the waiting: p95 {} before the server, {} on it{lack}.",
                time(wait),
                time(server)
            );
        }
        format!("It is the server: p95 {} on it{behind}, {} waiting before it.", time(server), time(wait))
    }

    /// The places of the samples that are compared, and of those before. Of a young process half is compared with the other half.
    fn windows(&self) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let count = self.seconds.len();
        let here = if count >= HERE + HERE / 3 { HERE } else { count.div_ceil(2) };
        let from = count - here;
        (from..count, from.saturating_sub(BEFORE)..from)
    }

    fn mean(&self, place: usize, of: &std::ops::Range<usize>) -> Option<f64> {
        let figures = self.seconds.range(of.clone()).map(|sample| f64::from(sample.figures[place]));
        let (sum, count) = figures
            .filter(|figure| figure.is_finite())
            .fold((0.0, 0.0), |(sum, count), figure| (sum + figure, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }

    /// How it was in the last second; 0 where that is not known.
    pub(super) fn last(&self, place: usize) -> f64 {
        let last = self.seconds.back().map(|sample| f64::from(sample.figures[place]));
        last.filter(|figure| figure.is_finite()).unwrap_or(0.0)
    }
}

fn change(of: &Compared, now: Option<f64>, before: Option<f64>) -> Option<Change> {
    let now = now.filter(|now| now.max(before.unwrap_or(0.0)) >= of.matters)?;
    let least = of.matters / 10.0;
    let times = now.max(least) / before.unwrap_or(0.0).max(least);
    let is_noticed = times >= NOTICED || times <= 1.0 / NOTICED;
    is_noticed.then_some(Change { figure: of.name, unit: of.unit, now, before, times })
}

/// Microseconds, in two digits or three.
fn time(us: f64) -> String {
    let units = [(60e6, "min"), (1e6, "s"), (1e3, "ms")];
    let (size, unit) = units.into_iter().find(|(size, _)| us >= *size).unwrap_or((1.0, "us"));
    let number = us / size;
    if number < 10.0 && size > 1.0 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{COLUMNS, Sample};

    /// Samples of so many seconds each, with these figures by name, nothing for the rest.
    fn history(parts: &[(usize, &[(&str, f32)])]) -> History {
        let history = History::empty();
        for (seconds, given) in parts {
            let mut figures = [f32::NAN; COLUMNS.len()];
            given.iter().for_each(|(name, figure)| figures[place(name)] = *figure);
            for _ in 0..*seconds {
                history.kept().seconds.push_back(Sample { at: 0, figures });
            }
        }
        history
    }

    #[test]
    fn the_page_compares_the_same() {
        let page = include_str!("../http_port/page/charts.js");
        let own: Vec<_> = COMPARED
            .iter()
            .map(|of| (String::from(COLUMNS[of.place].name), String::from(of.name), of.matters))
            .collect();
        let list = page.split("COMPARED = [").nth(1).unwrap().split("];").next().unwrap();
        let theirs: Vec<_> = list
            .split('[')
            .skip(1)
            .map(|entry| {
                let words: Vec<_> = entry.trim_end_matches([',', '\n', ' ', ']']).split(", ").collect();
                let word = |place: usize| words[place].trim_matches('"').to_owned();
                (word(0), word(1), word(2).trim_end_matches(']').parse::<f64>().unwrap())
            })
            .collect();
        assert_eq!(own, theirs);
    }

    #[test]
    fn what_rose_most_comes_first_and_what_fell_last() {
        let calm = &[("server_p99", 2000.0), ("statements", 1000.0), ("clients", 50.0), ("pinned", 0.0)];
        let then = &[("server_p99", 9000.0), ("statements", 100.0), ("clients", 60.0), ("pinned", 40.0)];
        let changes = history(&[(400, calm), (HERE, then)]).changes();
        let said: Vec<_> = changes.iter().map(|change| (change.figure, change.now)).collect();
        assert_eq!(said, [("pinned clients", 40.0), ("p99 on the server", 9000.0), ("statements", 100.0)]);
        assert!(history(&[(400, calm)]).changes().is_empty());
        assert!(history(&[]).changes().is_empty());
    }

    #[test]
    fn whose_fault_it_is_is_said() {
        let of = |given: &[(&str, f32)]| history(&[(HERE, given)]).kept().verdict();
        let waits = [("server_p95", 900.0), ("wait_p95", 2_500_000.0), ("lacks_max_backends", 3.0)];
        assert_eq!(
            of(&waits),
            "It is the waiting: p95 2.5 s before the server, 900 us on it; most wait for free backends."
        );
        let locks = [("server_p95", 90_000.0), ("wait_p95", 10.0), ("lacks_lock", 2.0)];
        assert_eq!(
            of(&locks),
            "It is the server: p95 90 ms on it, where 2 wait for locks, 10 us waiting before it."
        );
        assert_eq!(of(&[("server_down", 1.0)]), "It is the server: it does not answer.");
        assert_eq!(of(&[]), "Nothing ran on the server lately.");
        // What has not ended has no time yet.
        let stuck = [("wait_p95", 10.0), ("running", 12.0), ("lacks_lock", 11.0), ("oldest_queued", 9e6)];
        assert_eq!(of(&stuck), "It is the server: nothing ended on it lately, where 11 wait for locks.");
        let held = [("oldest_queued", 9e6), ("lacks_max_backends", 3.0)];
        assert_eq!(
            of(&held),
            "It is the waiting: the longest has waited for 9.0 s; most wait for free backends."
        );
    }
}
