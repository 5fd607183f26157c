//! How many connections are of use: the search for the point from which on more of them bring nothing but longer answers.
//!
//! The number doubles until, twice in a row, throughput no longer grows and latency does; then the interval in which it
//! stopped growing is halved twice. The useful maximum is the smallest number measured that gives nearly the best throughput.

use serde::{Deserialize, Serialize};

use crate::report::text;

/// Throughput that grows by less than this share has stopped growing: smaller steps are noise on a busy machine.
const GROWTH: f64 = 0.05;
/// Doublings in a row that bring nothing: one alone may be a moment at which the machine was busy.
const VAIN_DOUBLINGS: u32 = 2;
/// How often the last interval is halved: two steps give the knee within a fifth, which is about the noise.
const BISECTIONS: u32 = 2;

/// What was measured at one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// How many there were.
    pub(crate) connections: u32,
    /// Queries per second.
    pub(crate) throughput: f64,
    /// p95 in milliseconds.
    pub(crate) latency: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Knee {
    /// The useful maximum.
    pub(crate) connections: u32,
    /// Queries per second there.
    pub(crate) throughput: f64,
    /// p95 there, in milliseconds.
    pub(crate) latency: f64,
    /// Why it is this number, in a sentence or two.
    pub(crate) reason: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Measure this many connections.
    Measure(u32),
    /// The search is over.
    Found(Knee),
    /// Nothing was measured, so there is nothing to say.
    Nothing,
}

/// Says what to measure next after `points`, which are in the order in which they were measured. It begins with `first`
/// connections and goes no further than `last`.
pub(crate) fn next(points: &[Point], first: u32, last: u32) -> Next {
    let (first, last) = (first.min(last), last.max(1));
    // The measurements are walked through again from the start, as the search would have asked for them.
    let mut asked = points.iter();
    let Some(mut low) = asked.next().copied() else { return Next::Measure(first.max(1)) };
    let mut last_asked = low;
    let mut vain: Vec<Point> = Vec::new();
    while vain.len() < VAIN_DOUBLINGS as usize {
        let connections = last_asked.connections.saturating_mul(2).min(last);
        if connections <= last_asked.connections {
            break;
        }
        let Some(point) = asked.next().copied() else { return Next::Measure(connections) };
        if grows(&low, &point) || point.latency <= low.latency {
            low = point;
            vain.clear();
        } else {
            vain.push(point);
        }
        last_asked = point;
    }
    let Some(mut high) = vain.first().copied() else { return found(points, None) };
    for _ in 0..BISECTIONS {
        let connections = between(low.connections, high.connections);
        if connections == low.connections || connections == high.connections {
            break;
        }
        let Some(point) = asked.next().copied() else { return Next::Measure(connections) };
        if grows(&low, &point) {
            low = point;
        } else {
            high = point;
        }
    }
    found(points, Some(high))
}

/// The knee of what has been measured, where the search cannot go on.
pub(crate) fn of(points: &[Point]) -> Next {
    found(points, None)
}

fn grows(from: &Point, to: &Point) -> bool {
    to.throughput >= from.throughput * (1.0 + GROWTH)
}

/// The middle on a scale of factors, as the numbers double.
fn between(low: u32, high: u32) -> u32 {
    (f64::from(low) * f64::from(high)).sqrt().round() as u32
}

/// `beyond` is the smallest number known to bring nothing more.
fn found(points: &[Point], beyond: Option<Point>) -> Next {
    let Some(best) = points.iter().copied().max_by(|a, b| a.throughput.total_cmp(&b.throughput)) else {
        return Next::Nothing;
    };
    let enough = points.iter().copied().filter(|point| !grows(point, &best));
    let Some(knee) = enough.min_by_key(|point| point.connections) else { return Next::Nothing };
    let percent = 100.0 * knee.throughput / best.throughput.max(f64::MIN_POSITIVE);
    let mut reason = if knee.connections == best.connections {
        format!("{} gave the most throughput of all that were measured.", text::connections(knee.connections))
    } else {
        format!(
            "{} gave {percent:.0} % of the best throughput, which took {}.",
            text::connections(knee.connections),
            text::grouped(u64::from(best.connections))
        )
    };
    match beyond {
        Some(beyond) if beyond.connections > knee.connections => reason.push_str(&format!(
            " At {} throughput was {:.2} times as high and p95 {:.1} times as long: more connections only wait.",
            text::grouped(u64::from(beyond.connections)),
            beyond.throughput / knee.throughput.max(f64::MIN_POSITIVE),
            beyond.latency / knee.latency.max(f64::MIN_POSITIVE)
        )),
        Some(_) => {}
        None => reason.push_str(" The search ended before throughput stopped growing."),
    }
    Next::Found(Knee {
        connections: knee.connections,
        throughput: knee.throughput,
        latency: knee.latency,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server whose throughput at `n` connections is `throughput(n)`, in a closed loop.
    fn search(first: u32, last: u32, throughput: impl Fn(u32) -> f64) -> (Vec<u32>, Knee) {
        let mut points = Vec::new();
        for _ in 0..64 {
            match next(&points, first, last) {
                Next::Measure(connections) => {
                    let throughput = throughput(connections);
                    let latency = f64::from(connections) / throughput * 1000.0;
                    points.push(Point { connections, throughput, latency });
                }
                Next::Found(knee) => {
                    return (points.iter().map(|point| point.connections).collect(), knee);
                }
                Next::Nothing => panic!("something was measured"),
            }
        }
        panic!("the search does not end: {points:?}");
    }

    #[test]
    fn a_server_that_is_full_at_a_number_is_found_out() {
        let (asked, knee) = search(16, 100_000, |n| 1000.0 * f64::from(n.min(100)));
        assert_eq!(asked, [16, 32, 64, 128, 256, 512, 181, 152]);
        assert_eq!(knee.connections, 128);
        assert!(knee.reason.contains("more connections only wait"), "{}", knee.reason);
    }

    #[test]
    fn a_server_that_collapses_is_best_before() {
        let (asked, knee) =
            search(1, 100_000, |n| if n <= 40 { 500.0 * f64::from(n) } else { 800_000.0 / f64::from(n) });
        assert_eq!(asked, [1, 2, 4, 8, 16, 32, 64, 128, 45, 54]);
        assert_eq!(knee.connections, 45);
    }

    #[test]
    fn a_server_that_is_full_at_once_needs_no_more_than_the_first() {
        let (asked, knee) = search(16, 100_000, |_| 5000.0);
        assert_eq!(asked, [16, 32, 64, 23, 19]);
        assert_eq!(knee.connections, 16);
    }

    #[test]
    fn one_bad_moment_is_not_the_end() {
        let (asked, knee) = search(1, 64, |n| if n == 2 { 900.0 } else { 1000.0 * f64::from(n) });
        assert_eq!(asked, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(knee.connections, 64);
    }

    #[test]
    fn growth_up_to_the_end_is_said() {
        let (asked, knee) = search(16, 100, f64::from);
        assert_eq!(asked, [16, 32, 64, 100]);
        assert_eq!(knee.connections, 100);
        assert!(knee.reason.ends_with("ended before throughput stopped growing."), "{}", knee.reason);
    }

    #[test]
    fn one_connection_may_be_all() {
        let (asked, knee) = search(16, 1, f64::from);
        assert_eq!((asked, knee.connections), (vec![1], 1));
        assert_eq!(of(&[]), Next::Nothing);
    }
}
