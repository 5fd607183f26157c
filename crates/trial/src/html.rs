//! The report as a page: one file that needs nothing else, light or dark as its reader likes it. Whatever came from users stands in it as
//! text; it has no script, and its policy allows none.

use std::fmt::Write as _;

use crate::report::{Kind, Report};
use crate::text::{clean, counted, micros, times};

impl Report {
    /// The whole page.
    pub fn to_html(&self) -> String {
        let headline = escaped(&self.headline());
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, \
             initial-scale=1\">\n<title>{headline}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<p class=\"kicker\">Onramp \
             trial</p>\n<h1>{headline}</h1>\n<p class=\"quiet\">onramp {}, {}.</p>\n",
            include_str!("page.css"),
            escaped(&self.version),
            escaped(&self.time_sentence())
        );
        self.tiles(&mut page);
        self.backends(&mut page);
        self.pins(&mut page);
        self.bounds(&mut page);
        self.options(&mut page);
        self.differences(&mut page);
        self.load(&mut page);
        section(&mut page, "About this report");
        let notes = self.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note)));
        let _ = write!(page, "<ul>\n{}</ul>\n</main>\n</body>\n</html>\n", notes.collect::<String>());
        page
    }

    fn tiles(&self, page: &mut String) {
        let shares = &self.shares;
        let any = if shares.all() == 0 { 100.0 } else { 100.0 * shares.any as f64 / shares.all() as f64 };
        let tiles = [
            (
                self.needed.max.to_string(),
                format!("backends at most, {} for 99 % of the time", self.needed.p99),
            ),
            (
                self.clients.max.to_string(),
                format!("clients at most, {} for half of the time", self.clients.median),
            ),
            (
                format!("{any:.0} %"),
                format!("of the statements {} on any backend", self.backends.word("could have run", "ran")),
            ),
            (self.pins.len().to_string(), String::from("reasons to pin a client were seen")),
        ];
        page.push_str("<div class=\"tiles\">\n");
        for (number, words) in tiles {
            let _ = writeln!(
                page,
                "<div class=\"tile\"><b>{}</b><span>{}</span></div>",
                escaped(&number),
                escaped(&words)
            );
        }
        page.push_str("</div>\n");
    }

    fn backends(&self, page: &mut String) {
        section(page, self.backends_title());
        let rows = self.measures().map(|(name, measure)| {
            vec![
                String::from(name),
                measure.max.to_string(),
                measure.p99.to_string(),
                measure.median.to_string(),
                format!("{:.1}", measure.mean),
            ]
        });
        table(page, &["", "at most", "99 % of the time", "half of the time", "mean"], rows);
        paragraph(page, &self.transactions_sentence());
        let users = self.users.iter().map(|user| {
            vec![
                user.name.clone(),
                user.clients.max.to_string(),
                user.needed.max.to_string(),
                user.idle_transactions.to_string(),
            ]
        });
        table(page, &["user", "clients", "backends", "transactions with idle time inside"], users);
        if self.further_users > 0 {
            paragraph(page, &format!("And {} further users.", self.further_users));
        }
    }

    fn pins(&self, page: &mut String) {
        section(page, self.pins_title());
        paragraph(page, &self.shares_sentence());
        if self.pins.is_empty() {
            paragraph(page, "Nothing.");
        }
        for pin in &self.pins {
            let _ = writeln!(page, "<h3>{}</h3>", escaped(&pin.reason));
            paragraph(page, &format!("{}.", pin.sentence()));
            if let Some(advice) = pin.advice {
                paragraph(page, &format!("From: {}.", advice.from));
                paragraph(page, &format!("To avoid it: {}.", advice.avoid));
            }
            let causes = pin.causes.iter().map(|cause| with_statement(vec![cause.count.to_string()], cause));
            table(page, &["times", "digest", "statement"], causes);
        }
    }

    fn bounds(&self, page: &mut String) {
        section(page, "What limits have refused, or would have");
        if self.bounds.is_empty() && self.refused.is_empty() {
            paragraph(page, "Nothing.");
        }
        let bounds = self.bounds.iter().map(|bound| {
            vec![
                format!("{} = {}", bound.option, bound.value),
                bound.reached.to_string(),
                bound.who.join(", "),
                bound.what.clone(),
            ]
        });
        table(page, &["option", "reached", "users", "it"], bounds);
        let refused = self.refused.iter().map(|refused| {
            vec![refused.user.clone(), refused.from.clone(), refused.count.to_string(), refused.why.clone()]
        });
        table(page, &["login of", "from", "refused", "why"], refused);
    }

    fn options(&self, page: &mut String) {
        section(page, "Options to set");
        let options = self
            .options
            .iter()
            .map(|choice| vec![format!("{} = {}", choice.option, choice.value), choice.why.clone()]);
        table(page, &["option", "why"], options);
    }

    fn differences(&self, page: &mut String) {
        section(page, "Where clients would notice a difference");
        if self.differences.is_empty() {
            paragraph(page, "In nothing that was seen, pins aside.");
        }
        for notice in &self.differences {
            let _ = writeln!(page, "<h3>{}</h3>", escaped(notice.what));
            paragraph(
                page,
                &format!(
                    "{}, by {} of statements; docs/DIFFERENCES.md#{} tells more.",
                    times(notice.count),
                    counted(notice.kinds as u64, "kind"),
                    notice.section
                ),
            );
            let examples =
                notice.examples.iter().map(|kind| with_statement(vec![kind.count.to_string()], kind));
            table(page, &["times", "digest", "statement"], examples);
        }
    }

    fn load(&self, page: &mut String) {
        section(page, "The load");
        paragraph(page, &self.load_sentence());
        let kinds = self.load.dearest.iter().map(|kind| {
            let numbers = vec![
                format!("{:.1}", kind.time_us as f64 / 1e6),
                kind.count.to_string(),
                micros(kind.p50_us),
                micros(kind.p99_us),
            ];
            with_statement(numbers, kind)
        });
        table(page, &["seconds", "count", "p50", "p99", "digest", "statement"], kinds);
    }
}

fn with_statement(mut cells: Vec<String>, kind: &Kind) -> Vec<String> {
    cells.push(kind.digest.clone().unwrap_or_else(|| String::from("-")));
    cells.push(kind.text.clone().unwrap_or_else(|| String::from("(its text is not known)")));
    cells
}

fn section(page: &mut String, title: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escaped(title));
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "<p>{}</p>", escaped(text));
}

/// A table, where it has rows.
fn table(page: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return;
    }
    let head: String = head.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
    let _ = writeln!(page, "<div class=\"wide\"><table>\n<tr>{head}</tr>");
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        let _ = writeln!(page, "<tr>{cells}</tr>");
    }
    page.push_str("</table></div>\n");
}

/// Text that a page shows as it is.
fn escaped(text: &str) -> String {
    svg::escaped(&clean(text))
}
