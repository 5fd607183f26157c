//! `report.html`: one file that needs nothing else, light or dark as its reader likes it.

use std::fmt::Write as _;

use svg::escaped;

use super::chart::{Bar, BarChart, Line, LineChart, Marker, Point, Scale, bar_key, bars, line_key, lines};
use super::summary::{Row, Verdict, failures, rows, sentences, verdict};
use super::{Figures, Idle, Outcome, Report, Series, Setup, Usage, failover_page, table, text};
use crate::knee::Knee;

/// The whole page.
pub(crate) fn render(report: &Report) -> String {
    let rows = rows(report);
    let verdict = verdict(&rows);
    let headline = headline(report, &verdict);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{headline}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n<p class=\"kicker\">Onramp challenge</p>\n<h1>{headline}</h1>\n",
        include_str!("page.css")
    );
    page.push_str(&summary(report, &verdict));
    page.push_str(
        &report.failover.as_ref().map(|failover| failover_page::render(failover)).unwrap_or_default(),
    );
    page.push_str(&throughput(report, &rows));
    page.push_str(&latency(&rows));
    page.push_str(&memory(&rows));
    page.push_str(&report.idle.as_ref().map(silence).unwrap_or_default());
    page.push_str(&processor(&rows));
    page.push_str(&all_figures(&rows));
    page.push_str(&setup(report));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn headline(report: &Report, verdict: &Verdict) -> String {
    if let Some(failover) = &report.failover {
        return failover.headline();
    }
    match (&report.knee, &verdict.largest) {
        (Some(knee), _) => format!("Useful maximum: {}", text::connections(knee.connections)),
        (None, Some(largest)) => format!(
            "{} clients, {} queries/s",
            text::grouped(u64::from(largest.connections)),
            text::rounded(largest.queries_per_second)
        ),
        (None, None) => String::from("Nothing was measured through Onramp"),
    }
}

fn summary(report: &Report, verdict: &Verdict) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "<p class=\"quiet\">{} on {} cores, {}; {}. {} UTC.</p>\n",
        escaped(&report.setup.server),
        machine.cores,
        escaped(&machine.processor),
        text::sharing(report.setup.server_cpus),
        escaped(&report.started)
    );
    for failure in table::ending(&report.ending).into_iter().chain(failures(report)) {
        let _ = writeln!(out, "<p class=\"warning\"><strong>{}</strong></p>", escaped(&failure));
    }
    out.push_str(&tiles(report, verdict));
    for sentence in sentences(report, verdict) {
        let _ = writeln!(out, "<p>{}</p>", unbroken(&escaped(&sentence)));
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p class=\"quiet\">Note: {}</p>", escaped(note));
    }
    out
}

/// Keeps a number and its unit on one line.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
        .replace(" ms", "\u{a0}ms")
        .replace(" MB", "\u{a0}MB")
        .replace(" GB", "\u{a0}GB")
}

/// The few numbers that matter most.
fn tiles(report: &Report, verdict: &Verdict) -> String {
    let tiles = match (&report.failover, &report.knee) {
        (Some(failover), _) => failover_page::tiles(failover),
        (None, Some(knee)) => knee_tiles(knee),
        (None, None) => step_tiles(report, verdict),
    };
    if tiles.is_empty() {
        return String::new();
    }
    let tile = |(number, words): (String, String)| {
        format!(
            "<div class=\"tile\"><b>{}</b><span>{}</span></div>\n",
            escaped(&number),
            unbroken(&escaped(&words))
        )
    };
    format!("<div class=\"tiles\">\n{}</div>\n", tiles.into_iter().map(tile).collect::<String>())
}

fn knee_tiles(knee: &Knee) -> Vec<(String, String)> {
    vec![
        (text::grouped(u64::from(knee.connections)), String::from("is the useful number of connections")),
        (text::rounded(knee.throughput), String::from("queries/s with them")),
        (format!("{} ms", text::milliseconds(knee.latency)), String::from("is p95 with them")),
    ]
}

fn step_tiles(report: &Report, verdict: &Verdict) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    if let (Some(largest), Some(best), Some(kept)) = (&verdict.largest, &verdict.best, verdict.kept) {
        let clients = text::grouped(u64::from(largest.connections));
        tiles.push((
            format!("{:.0} %", 100.0 * kept),
            format!(
                "of its best throughput ({} queries/s) kept at {clients} clients",
                text::rounded(best.queries_per_second)
            ),
        ));
        tiles.push((
            format!("{:.2} ×", largest.p95_over_fair_share),
            format!("the fair share: p95 is {} ms at {clients} clients", text::milliseconds(largest.p95)),
        ));
        tiles.push((
            text::bytes(largest.onramp_resident as f64),
            format!("is all the memory that Onramp takes for {clients} clients"),
        ));
    }
    if let (Some(ratio), Some(best)) = (verdict.against_best_direct, &verdict.best_direct) {
        tiles.push((
            format!("{ratio:.2} ×"),
            format!(
                "the best of the server itself, at {} connections",
                text::grouped(u64::from(best.connections))
            ),
        ));
    } else if let Some(idle) = &report.idle {
        tiles.push((
            text::bytes(idle.bytes_per_client()),
            String::from("of Onramp's memory for a silent client"),
        ));
    }
    tiles
}

fn throughput(report: &Report, rows: &[Row]) -> String {
    let chart = LineChart {
        id: "throughput",
        title: "Queries per second against connections",
        description: "One line for each series; a line that stays level to the right keeps its throughput as \
                      connections are added. The figures are in the table below.",
        across: Scale::Logarithmic,
        moments: Vec::new(),
        scale: Scale::Linear,
        number: text::short,
        lines: series_lines(rows, |_, figures| Some(figures.queries_per_second)),
    };
    let mut out = section(
        "Throughput",
        "Queries per second over the number of connections, which is on a logarithmic axis.",
        rows,
        false,
        &lines(&chart),
    );
    if report.setup.rounds > 1 && !out.is_empty() {
        let _ = writeln!(out, "<p class=\"quiet\">Medians of up to {} rounds.</p>", report.setup.rounds);
    }
    out
}

fn latency(rows: &[Row]) -> String {
    let mut all = series_lines(rows, |_, figures| Some(figures.p95));
    let onramp = rows.iter().filter(|row| row.series == Series::Onramp);
    let share = onramp.filter_map(|row| {
        let y = row.figures()?.fair_share;
        Some(Point { x: f64::from(row.connections), y, label: String::new() })
    });
    let points: Vec<Point> = share.collect();
    let has_share = !points.is_empty();
    if has_share {
        // Behind the series.
        all.insert(0, Line { class: "share", marker: None, points });
    }
    let chart = LineChart {
        id: "latency",
        title: "95th percentile of latency against connections",
        description: "One line for each series, on logarithmic axes, and dotted the fair share of Onramp's clients: \
                      connections divided by queries per second. The figures are in the table below.",
        across: Scale::Logarithmic,
        moments: Vec::new(),
        scale: Scale::Logarithmic,
        number: text::short_time,
        lines: all,
    };
    let caption = "p95 over the number of connections, both axes logarithmic. Where each of N clients sends its next statement when the \
                   last is answered, an answer cannot take less than its fair share on average: N divided by the queries \
                   per second. p95 at the fair share means that nobody waits longer than others.";
    section("Latency", caption, rows, has_share, &lines(&chart))
}

fn memory(rows: &[Row]) -> String {
    let chart = LineChart {
        id: "memory",
        title: "Resident memory against connections",
        description: "One line for each series, on logarithmic axes: what Onramp had resident at most, and the server \
                      where it was measured by itself. The figures are in the table below.",
        across: Scale::Logarithmic,
        moments: Vec::new(),
        scale: Scale::Logarithmic,
        number: text::short_bytes,
        lines: series_lines(rows, |row, figures| table::memory(row, figures).map(|bytes| bytes as f64)),
    };
    let caption = "The most memory that was resident, over the number of connections, both axes logarithmic: Onramp's, and without Onramp the server's, \
                   which begins with its own pages of the tables.";
    section("Memory", caption, rows, false, &lines(&chart))
}

fn silence(idle: &Idle) -> String {
    let kernel = idle.kernel_bytes_per_socket().map_or_else(String::new, |bytes| {
        format!(
            " The kernel took {} more for them, {} for each of {} sockets (both ends are on this machine): all of its slab \
             caches (sockets, files, what watches them) and the buffers of TCP, the machine over.",
            text::bytes(idle.kernel.total().saturating_sub(idle.kernel_before.total()) as f64),
            text::bytes(bytes),
            text::grouped(idle.sockets)
        )
    });
    format!(
        "<p>{} clients that are logged in and silent: Onramp has {} resident, {} of it before the first one, which makes \
         {} a client.{kernel} All of them were logged in after {:.1} s.</p>\n",
        text::grouped(u64::from(idle.clients)),
        text::bytes(idle.resident as f64),
        text::bytes(idle.resident_before as f64),
        text::bytes(idle.bytes_per_client()),
        idle.connecting
    )
}

fn processor(rows: &[Row]) -> String {
    let measured = rows.iter().filter_map(|row| Some((row, row.figures()?)));
    let chart = BarChart {
        id: "processor",
        title: "Processor time per query",
        description: "One bar for each step: microseconds of Onramp, the server and the load generator. The figures are \
                      in the table below.",
        bars: measured.map(|(row, figures)| bar(row, figures)).collect(),
    };
    let svg = bars(&chart);
    if svg.is_empty() {
        return String::new();
    }
    let key = |class: &str, name: &str| format!("<li>{}{name}</li>", bar_key(class));
    format!(
        "<h2>Processor time</h2>\n<figure>\n<figcaption>Microseconds for each query, user and kernel together, from left to \
         right:</figcaption>\n<ul class=\"legend\">{}{}{}</ul>\n{svg}</figure>\n",
        key("onramp", "Onramp"),
        key("server", "server"),
        key("load", "load generator")
    )
}

fn bar(row: &Row, figures: &Figures) -> Bar {
    let part = |class: &'static str, name: &str, usage: Option<Usage>| {
        let usage = usage?;
        let label = format!(
            "{name}: {:.1} µs a query, {:.1} of them in the kernel",
            usage.per_query(),
            usage.system_per_query
        );
        Some((class, usage.per_query(), label))
    };
    let name = match row.series {
        Series::Onramp => "Onramp",
        Series::DirectThreads => "threads",
        Series::DirectPool => "own pool",
        Series::Direct => "direct",
    };
    Bar {
        name: format!("{name} {}", text::grouped(u64::from(row.connections))),
        parts: [
            part("onramp", "Onramp", figures.onramp),
            part("server", "server", figures.server),
            part("load", "load generator", figures.load),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

/// A line for each series that has points; Onramp's in front.
fn series_lines(rows: &[Row], value: impl Fn(&Row, &Figures) -> Option<f64>) -> Vec<Line> {
    let line = |series: Series| {
        let (class, marker) = look(series);
        let points: Vec<Point> = rows
            .iter()
            .filter(|row| row.series == series)
            .filter_map(|row| {
                let figures = row.figures()?;
                let y = value(row, figures)?;
                (y > 0.0).then(|| Point { x: f64::from(row.connections), y, label: label(row, figures) })
            })
            .collect();
        (!points.is_empty()).then_some(Line { class, marker: Some(marker), points })
    };
    Series::ALL.into_iter().rev().filter_map(line).collect()
}

fn look(series: Series) -> (&'static str, Marker) {
    match series {
        Series::Onramp => ("onramp", Marker::Circle),
        Series::DirectThreads => ("threads", Marker::Square),
        Series::DirectPool => ("pool", Marker::Triangle),
        Series::Direct => ("direct", Marker::Diamond),
    }
}

fn label(row: &Row, figures: &Figures) -> String {
    let memory = table::memory(row, figures)
        .map_or_else(String::new, |bytes| format!(", {} resident", text::bytes(bytes as f64)));
    format!(
        "{}, {} connections: {} queries/s, p95 {} ms ({:.2} x fair share){memory}",
        row.series.name(),
        text::grouped(u64::from(row.connections)),
        text::rounded(figures.queries_per_second),
        text::milliseconds(figures.p95),
        figures.p95_over_fair_share
    )
}

fn section(heading: &str, caption: &str, rows: &[Row], has_share: bool, svg: &str) -> String {
    if svg.is_empty() {
        return String::new();
    }
    let mut legend = String::new();
    for series in Series::ALL {
        if rows.iter().any(|row| row.series == series && row.figures().is_some()) {
            let (class, marker) = look(series);
            legend.push_str(&key(class, Some(marker), series.name()));
        }
    }
    if has_share {
        legend.push_str(&key("share", None, "fair share of Onramp's clients"));
    }
    format!(
        "<h2>{heading}</h2>\n<figure>\n<figcaption>{caption}</figcaption>\n<ul class=\"legend\">{legend}</ul>\n{svg}\
         </figure>\n"
    )
}

fn key(class: &str, marker: Option<Marker>, name: &str) -> String {
    format!("<li>{}{}</li>", line_key(class, marker), escaped(name))
}

fn all_figures(rows: &[Row]) -> String {
    const HEAD: [&str; 13] = [
        "",
        "connec&shy;tions",
        "queries/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "fair share ms",
        "p95 / fair share",
        "memory",
        "Onramp µs/query",
        "server µs/query",
        "other work, cores",
        "errors",
    ];
    if rows.is_empty() {
        return String::new();
    }
    let head: String = HEAD.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let body: String = rows.iter().map(table_row).collect();
    format!(
        "<h2>All figures</h2>\n<div class=\"wide\" role=\"region\" aria-label=\"All figures\" tabindex=\"0\">\n<table>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n<p class=\"quiet\">Memory is the most \
         that Onramp had resident, or the server where it was measured by itself; µs/query is processor time in user space \
         + kernel, and other work is what everything else on the machine took.</p>\n"
    )
}

fn table_row(row: &Row) -> String {
    let (class, _) = look(row.series);
    let mut cells = vec![String::from(row.series.name()), text::grouped(u64::from(row.connections))];
    let figures = match &row.outcome {
        Outcome::Measured(figures) => figures,
        outcome => {
            return format!(
                "<tr class=\"{class}\"><td>{}</td><td>{}</td><td class=\"words\" colspan=\"11\">{}</td></tr>\n",
                cells[0],
                cells[1],
                escaped(&text::outcome(outcome))
            );
        }
    };
    let micros = |usage: Option<Usage>| {
        usage.map_or_else(
            || String::from("–"),
            |usage| format!("{:.1} + {:.1}", usage.user_per_query, usage.system_per_query),
        )
    };
    cells.extend([
        text::rounded(figures.queries_per_second),
        text::milliseconds(figures.p50),
        text::milliseconds(figures.p95),
        text::milliseconds(figures.p99),
        text::milliseconds(figures.fair_share),
        format!("{:.2}", figures.p95_over_fair_share),
        table::memory(row, figures).map_or_else(|| String::from("–"), |bytes| text::bytes(bytes as f64)),
        micros(figures.onramp),
        micros(figures.server),
        figures.others.map_or_else(|| String::from("–"), |cores| format!("{cores:.2}")),
        match figures.starved {
            0 => text::grouped(figures.errors),
            starved => {
                format!("{}; {} without an answer", text::grouped(figures.errors), text::grouped(starved))
            }
        },
    ]);
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
    format!("<tr class=\"{class}\">{cells}</tr>\n")
}

fn load(setup: &Setup) -> String {
    let rows = text::grouped(u64::from(setup.table_size));
    if setup.servers > 1 {
        return format!("{} on {rows} accounts, uniform ids, closed loop without think time", setup.workload);
    }
    format!(
        "{} on {} tables of {rows} rows, uniform ids, closed loop without think time",
        setup.workload, setup.tables
    )
}

fn course(setup: &Setup) -> (&'static str, String) {
    if setup.servers > 1 {
        let text =
            format!("{} s of load before the primary is killed, and {0} s behind the failover", setup.time);
        return ("Course", text);
    }
    let text =
        format!("{} s measured after {} s of load; rounds: {}", setup.time, setup.warmup, setup.rounds);
    ("Each step", text)
}

fn setup(report: &Report) -> String {
    let (setup, machine) = (&report.setup, &report.machine);
    let server = if setup.private_server { "created for this run" } else { "as it was" };
    let limit = machine.open_files.map_or_else(|| String::from("unlimited"), text::grouped);
    let driver = if setup.driver.is_empty() { "not said" } else { &setup.driver };
    let entries = [
        (
            "Machine",
            format!(
                "{} cores, {}, {} of memory, {}, open files {limit}",
                machine.cores,
                machine.processor,
                text::bytes(machine.memory as f64),
                machine.kernel
            ),
        ),
        ("Server", format!("{}, {server}", setup.server)),
        ("Onramp", format!("{}, driver {driver}", report.version)),
        ("Load", load(setup)),
        course(setup),
        ("Took", format!("{} s", text::rounded(report.duration))),
    ];
    let mut out = String::from("<h2>How it was measured</h2>\n<dl>\n");
    for (name, words) in entries {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&words));
    }
    let _ = writeln!(
        out,
        "</dl>\n<p class=\"quiet\">{}same figures and more are in report.json.</p>\n<pre>{}</pre>",
        if setup.servers > 1 {
            "The "
        } else {
            "Onramp and the server itself took turns, and each step had processes of its own. The "
        },
        escaped(&setup.commands.join("\n"))
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Ending;
    use crate::report::tests::{recorded, report, with_starved_clients};

    #[test]
    fn the_page_is_as_it_was() {
        let expected = include_str!("../../tests/recorded/report.html");
        let page = render(&recorded());
        if std::env::var_os("UPDATE_RECORDED").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/report.html"), &page)
                .unwrap();
            return;
        }
        assert!(page == expected, "the page has changed: look at it, then UPDATE_RECORDED=1 writes it anew");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = render(&recorded());
        for door in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(door), "{door}");
        }
    }

    #[test]
    fn clients_without_an_answer_are_in_the_table() {
        let page = render(&with_starved_clients());
        assert!(page.contains("<td>0; 1,200 without an answer</td>"));
        assert!(page.contains("1,200 of them got no answer"));
    }

    #[test]
    fn a_report_with_nothing_in_it_is_still_a_page() {
        let mut report = report();
        report.ending = Ending::Failed(String::from("<no> server"));
        report.knee = None;
        let page = render(&report);
        assert!(page.contains("Nothing was measured through Onramp"));
        assert!(page.contains("Ended early: &lt;no&gt; server"));
        assert!(!page.contains("<figure>"));
    }
}
