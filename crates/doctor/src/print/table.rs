//! For people: one short line for each limit, then what to do about those that are not enough.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use crate::finding::{Amount, grouped};
use crate::{Finding, Machine, Remedy, Request, Role, Verdict};

/// Whether somebody looks at the standard output stream who wants colours (<https://no-color.org>).
pub(crate) fn wanted_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    std::io::stdout().is_terminal() && !refused && !dumb
}

pub(crate) fn render(machine: &Machine, request: &Request, findings: &[Finding], colours: bool) -> String {
    let paint = Paint { colours };
    let mut text = String::new();
    put(&mut text, &paint.bold(&heading(request)));
    put(&mut text, &paint.dim(&description(machine)));
    put(&mut text, "");
    let width =
        |of: fn(&Finding) -> String| findings.iter().map(|f| of(f).chars().count()).max().unwrap_or(0);
    let title = width(|finding| finding.check.title().to_owned());
    let found = width(|finding| finding.found.to_string());
    for finding in findings {
        let needed = match &finding.needed {
            Amount::Unread => String::new(),
            Amount::Words(words) => words.clone(),
            needed => format!("{needed} needed"),
        };
        let line = format!("{:title$}  {:>found$}  {needed}", finding.check.title(), finding.found);
        put(&mut text, &format!("  {}  {}", paint.verdict(finding.verdict), line.trim_end()));
    }
    put_details(&mut text, paint, findings, Verdict::Short);
    put_details(&mut text, paint, findings, Verdict::Hint);
    put_details(&mut text, paint, findings, Verdict::Unknown);
    put(&mut text, "");
    put(&mut text, &summary(request, findings, paint));
    text
}

fn heading(request: &Request) -> String {
    let clients = grouped(u64::from(request.connections));
    match request.role {
        Role::Serve => format!("Onramp for {clients} clients"),
        Role::Bench => format!("A load generator with {clients} connections"),
        Role::Both => format!("Onramp and a load generator with {clients} connections"),
    }
}

fn description(machine: &Machine) -> String {
    let mut parts = Vec::new();
    if !machine.release.is_empty() {
        parts.push(format!("Linux {}", machine.release));
    }
    if let Some(cores) = machine.cores {
        parts.push(format!("{cores} core{}", if cores == 1 { "" } else { "s" }));
    }
    if let Some(memory) = machine.memory.total {
        parts.push(Amount::Bytes(memory).to_string());
    }
    if parts.is_empty() { "a machine of which nothing can be read".to_owned() } else { parts.join(", ") }
}

fn put_details(text: &mut String, paint: Paint, findings: &[Finding], verdict: Verdict) {
    for finding in findings.iter().filter(|finding| finding.verdict == verdict) {
        put(text, "");
        let compared = match verdict {
            Verdict::Unknown => format!("{} is unknown", finding.subject),
            _ => format!("{} is {}{}", finding.subject, finding.found, finding.comparison()),
        };
        put(text, &format!("{}  {compared}", paint.of(verdict, finding.check.title())));
        put(text, &paint.dim(&wrapped(&finding.why, "  ")));
        for remedy in &finding.remedies {
            put_remedy(text, paint, remedy);
        }
    }
}

fn put_remedy(text: &mut String, paint: Paint, remedy: &Remedy) {
    if let Remedy::Advice(words) = remedy {
        put(text, &wrapped(words, "  - "));
        return;
    }
    put(text, &format!("  now      {}", paint.bold(&remedy.now())));
    if let Some((line, place)) = remedy.lasting() {
        let place = if place.is_empty() { place } else { format!("  {place}") };
        put(text, &format!("  lasting  {line}{}", paint.dim(&place)));
    }
}

fn summary(request: &Request, findings: &[Finding], paint: Paint) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let clients = grouped(u64::from(request.connections));
    match count(Verdict::Short) {
        0 if count(Verdict::Unknown) > 0 => {
            paint.of(Verdict::Ok, &format!("Nothing that can be read here is short for {clients} clients."))
        }
        0 => paint.of(Verdict::Ok, &format!("Nothing is short for {clients} clients.")),
        short => {
            let limits = if short == 1 { "One limit is".to_owned() } else { format!("{short} limits are") };
            let settings = findings
                .iter()
                .filter(|finding| finding.verdict == Verdict::Short)
                .flat_map(|finding| &finding.remedies)
                .any(|remedy| matches!(remedy, Remedy::Sysctl { .. }));
            let more = if settings { "; --print-sysctl writes all settings as one file." } else { "." };
            let line = paint.of(Verdict::Short, &format!("{limits} short for {clients} clients."));
            format!("{line}\nThe commands are for root{more}")
        }
    }
}

/// Breaks a sentence into lines, the first of which begins with `front` and the others below its text.
fn wrapped(sentence: &str, front: &str) -> String {
    // What a terminal shows at its usual width.
    const WIDTH: usize = 100;
    let indent = " ".repeat(front.len());
    let mut lines = vec![front.to_owned()];
    let mut is_empty = true;
    for word in sentence.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.join("\n")
}

fn put(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// Colours, or none.
#[derive(Clone, Copy)]
struct Paint {
    colours: bool,
}

impl Paint {
    /// The word of a verdict, in a column of its own.
    fn verdict(self, verdict: Verdict) -> String {
        let word = match verdict {
            Verdict::Short => "SHORT",
            other => other.word(),
        };
        self.of(verdict, &format!("{word:7}"))
    }

    fn of(self, verdict: Verdict, text: &str) -> String {
        // Red, yellow, cyan, green.
        let code = match verdict {
            Verdict::Short => "1;31",
            Verdict::Hint => "33",
            Verdict::Unknown => "36",
            Verdict::Ok => "32",
        };
        self.with(code, text)
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words() {
        let text = wrapped(&"word ".repeat(40), "  - ");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.starts_with("  - word"));
        assert!(text.lines().nth(1).unwrap().starts_with("    word"));
        assert_eq!(wrapped("", "  "), "  ");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        assert_eq!(Paint { colours: false }.of(Verdict::Short, "x"), "x");
        assert_eq!(Paint { colours: true }.of(Verdict::Short, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
