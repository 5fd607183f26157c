//! The part of the page about a failover.

use std::fmt::Write as _;

use svg::escaped;

use super::chart::{Line, LineChart, Point, Scale, lines};
use super::failover::{Failover, Instantaneous};
use super::text;

/// The curves, and the ledger.
pub(crate) fn render(failover: &Failover) -> String {
    let mut out = String::from("<h2>Over time</h2>\n");
    out.push_str(&figure(
        "Statements that were answered, a second, over the seconds since the clients began.",
        &chart(failover, "statements", "Statements per second over time", |point| point.queries_per_second),
    ));
    out.push_str(&figure(
        "Errors that clients got, a second.",
        &chart(failover, "errors", "Errors per second over time", |point| point.errors_per_second),
    ));
    out.push_str(&ledger(failover));
    out
}

/// The few numbers that matter most.
pub(crate) fn tiles(failover: &Failover) -> Vec<(String, String)> {
    let held = &failover.held;
    let lost = match failover.ledger.lost {
        0 => String::from("none"),
        lost => text::grouped(lost),
    };
    let mut tiles = Vec::new();
    if let Some(silence) = failover.silence() {
        tiles.push((format!("{silence:.2} s"), String::from("without an acknowledged write")));
    }
    tiles.push((
        text::grouped(held.statements),
        format!("statements waited for the new primary, {:.2} s at most", held.longest),
    ));
    tiles.push((
        text::grouped(failover.errors.iter().map(|error| error.count).sum()),
        String::from("errors, of all numbers"),
    ));
    let acknowledged = text::grouped(failover.ledger.acknowledged);
    tiles.push((lost, format!("of {acknowledged} acknowledged writes lost")));
    tiles
}

fn chart(failover: &Failover, id: &str, title: &str, value: fn(&Instantaneous) -> f64) -> String {
    let points = failover.curve.iter().map(|point| {
        let label = format!("{:.1} s: {}", point.at, text::rounded(value(point)));
        Point { x: point.at, y: value(point), label }
    });
    let mut moments = vec![(failover.killed, "primary killed"), (failover.writable, "new one takes writes")];
    moments.extend(failover.back.map(|back| (back, "first write acknowledged")));
    lines(&LineChart {
        id,
        title,
        description: "One line, with the moments at which the primary was killed, the new one took writes, and the first \
                      write was acknowledged by it.",
        across: Scale::Linear,
        moments,
        scale: Scale::Linear,
        number: text::short,
        lines: vec![Line { class: "onramp", marker: None, points: points.collect() }],
    })
}

fn figure(caption: &str, svg: &str) -> String {
    if svg.is_empty() {
        return String::new();
    }
    format!("<figure>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n")
}

fn ledger(failover: &Failover) -> String {
    let ledger = &failover.ledger;
    let rows = [
        ("acknowledged", ledger.acknowledged, "must be stored", ledger.lost, "are not"),
        ("refused", ledger.refused, "must not be stored", ledger.refused_and_stored, "are"),
        ("unknown", ledger.unknown, "may be stored", ledger.unknown_and_stored, "are"),
        ("stored", ledger.stored, "once each", ledger.stored_twice, "more often"),
    ];
    let mut out = String::from(
        "<h2>Ledger</h2>\n<div class=\"wide\" role=\"region\" aria-label=\"Ledger\" tabindex=\"0\">\n<table>\n<thead><tr><th \
         scope=\"col\">what clients were told</th><th scope=\"col\">writes</th><th scope=\"col\">of these</th></tr></thead>\n<tbody>\n",
    );
    for (name, count, must, other, so) in rows {
        let _ = writeln!(
            out,
            "<tr><td class=\"words\">{name}: {must}</td><td>{}</td><td>{} {so}</td></tr>",
            text::grouped(count),
            text::grouped(other)
        );
    }
    for error in &failover.errors {
        let _ = writeln!(
            out,
            "<tr><td class=\"words\">error {}, such as: {}</td><td>{}</td><td></td></tr>",
            error.code,
            escaped(&error.example),
            text::grouped(error.count)
        );
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    out
}

#[cfg(test)]
mod tests {
    use crate::report::failover::tests::good;
    use crate::report::tests::report;
    use crate::report::{Ending, html, to_json};

    #[test]
    fn the_page_shows_the_curve_with_its_moments_and_the_verdict() {
        let mut report = report();
        report.ending = Ending::Complete;
        report.knee = None;
        report.setup.servers = 3;
        assert!(!report.is_good(), "a failover that was asked for and is not there is none");
        let mut failover = good();
        failover.errors[0].example = String::from("<lost>");
        report.failover = Some(Box::new(failover));
        let page = html::render(&report);
        for part in [
            "<h1>Primary killed: no write was acknowledged for 3.51 s, the ledger is right</h1>",
            "id=\"statements-title\"",
            "id=\"errors-title\"",
            ">primary killed</text>",
            ">first write acknowledged</text>",
            "acknowledged: must be stored</td><td>20,000</td><td>0 are not",
            "such as: &lt;lost&gt;",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(report.is_good());
        assert!(to_json(&report).contains("\"faults\": []"));
        report.failover.as_mut().unwrap().ledger.lost = 2;
        assert!(!report.is_good());
        assert!(
            html::render(&report).contains("<strong>2 writes were acknowledged and are not stored.</strong>")
        );
    }
}
