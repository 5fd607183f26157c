//! The report for a terminal, and how numbers and names read in all forms of it.

use std::fmt::{self, Write as _};

use crate::report::{Bound, Kind, Measure, Pin, Reached, Report};

/// As long as a line of a report gets before a statement in it is cut.
const LONGEST_STATEMENT: usize = 110;

impl Report {
    /// For a terminal. What users have named themselves or written cannot move its cursor.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "Onramp trial: {}", self.headline());
        let _ = writeln!(out, "onramp {}, {}", self.version, self.time_sentence());
        self.backends_text(&mut out);
        self.pins_text(&mut out);
        self.bounds_text(&mut out);
        heading(&mut out, "Options to set");
        for choice in &self.options {
            let _ = writeln!(out, "  {} = {}", choice.option, choice.value);
            let _ = writeln!(out, "      {}", choice.why);
        }
        self.differences_text(&mut out);
        self.load_text(&mut out);
        heading(&mut out, "About this report");
        for note in &self.notes {
            let _ = writeln!(out, "  - {note}");
        }
        out
    }

    /// For how long what was watched, and from when on.
    pub(crate) fn time_sentence(&self) -> String {
        let what = self.backends.word("of one backend for each client", "of a pool of backends");
        format!("{} {what}, from {} UTC on", duration(self.seconds()), utc(self.since))
    }

    pub(crate) fn backends_title(&self) -> &'static str {
        self.backends.word("How many backends would have done", "How many backends were needed")
    }

    pub(crate) fn pins_title(&self) -> &'static str {
        self.backends.word("What would have pinned clients to a backend", "What pinned clients to a backend")
    }

    fn backends_text(&self, out: &mut String) {
        heading(out, self.backends_title());
        let _ = writeln!(out, "  {:<34}{:>8}{:>8}{:>8}{:>8}", "", "at most", "p99", "half", "mean");
        for (name, measure) in self.measures() {
            let Measure { max, p99, median, mean } = measure;
            let _ = writeln!(out, "  {name:<34}{max:>8}{p99:>8}{median:>8}{mean:>8.1}");
        }
        let _ = writeln!(out, "  {}", self.transactions_sentence());
        if !self.users.is_empty() {
            let _ = writeln!(
                out,
                "\n  {:<24}{:>12}{:>12}{:>24}",
                "user", "clients", "backends", "idle in transaction"
            );
        }
        for user in &self.users {
            let name = clean(&user.name);
            let (clients, needed) = (user.clients.max, user.needed.max);
            let _ = writeln!(out, "  {name:<24}{clients:>12}{needed:>12}{:>24}", user.idle_transactions);
        }
        if self.further_users > 0 {
            let _ = writeln!(out, "  and {} further users", self.further_users);
        }
    }

    /// What was measured over time, by name.
    pub(crate) fn measures(&self) -> [(&'static str, Measure); 6] {
        [
            ("clients", self.clients),
            ("backends that they needed", self.needed),
            ("statements that ran", self.running),
            ("open transactions", self.transactions.at_once),
            ("of these, with nothing running", self.transactions.idle_at_once),
            ("pinned clients", self.pinned),
        ]
    }

    pub(crate) fn transactions_sentence(&self) -> String {
        let open = &self.transactions;
        let seen = &open.seen;
        if seen.count == 0 {
            return String::from("No transaction was seen open at a look.");
        }
        format!(
            "Of {} that {} seen open, {} had a time inside in which nothing ran (a tenth of a second and \
             more); so it was for {:.0} % of the time that transactions were open. The longest was open for {}, and idle for \
             {}.",
            counted(seen.count, "transaction"),
            if seen.count == 1 { "was" } else { "were" },
            seen.idle,
            100.0 * open.idle_share,
            micros(seen.longest),
            micros(seen.longest_idle)
        )
    }

    fn pins_text(&self, out: &mut String) {
        heading(out, self.pins_title());
        let _ = writeln!(out, "  {}", self.shares_sentence());
        if self.pins.is_empty() {
            let _ = writeln!(out, "  Nothing.");
        }
        for pin in &self.pins {
            let _ = writeln!(out, "\n  {}: {}", pin.reason, pin.sentence());
            if let Some(advice) = pin.advice {
                let _ = writeln!(out, "      from:  {}\n      avoid: {}", advice.from, advice.avoid);
            }
            for cause in &pin.causes {
                let _ = writeln!(out, "      {:>8} x {}", cause.count, statement(cause));
            }
        }
    }

    pub(crate) fn shares_sentence(&self) -> String {
        let shares = &self.shares;
        let percent =
            |part: u64| if shares.all() == 0 { 0.0 } else { 100.0 * part as f64 / shares.all() as f64 };
        let mut sentence = format!(
            "Of {} statements {:.1} % {} on any backend, {:.1} % belonged to a transaction, and {:.1} % to a pinned \
             client.",
            shares.all(),
            percent(shares.any),
            self.backends.word("could have run", "ran"),
            percent(shares.transaction),
            percent(shares.pinned)
        );
        if shares.doubtful > 0 {
            let _ = write!(sentence, " {} were not understood for sure.", shares.doubtful);
        }
        sentence
    }

    fn bounds_text(&self, out: &mut String) {
        heading(out, "What limits have refused, or would have");
        if self.bounds.is_empty() && self.refused.is_empty() {
            let _ = writeln!(out, "  Nothing.");
        }
        for bound in &self.bounds {
            let _ = writeln!(out, "  {} = {}: {}{}", bound.option, bound.value, bound.reached, who(bound));
            let _ = writeln!(out, "      {}", bound.what);
        }
        for refused in &self.refused {
            let (user, from, why) = (clean(&refused.user), clean(&refused.from), clean(&refused.why));
            let _ = writeln!(out, "  login of {user} from {from} refused: {}\n      {why}", refused.count);
        }
    }

    fn differences_text(&self, out: &mut String) {
        heading(out, "Where clients would notice a difference");
        if self.differences.is_empty() {
            let _ = writeln!(out, "  In nothing that was seen, pins aside.");
        }
        for notice in &self.differences {
            let _ = writeln!(
                out,
                "  {} ({}, by {} of statements; docs/DIFFERENCES.md#{})",
                notice.what,
                times(notice.count),
                counted(notice.kinds as u64, "kind"),
                notice.section
            );
            for example in &notice.examples {
                let _ = writeln!(out, "      {:>8} x {}", example.count, statement(example));
            }
        }
    }

    fn load_text(&self, out: &mut String) {
        heading(out, "The load");
        let _ = writeln!(out, "  {}", self.load_sentence());
        let _ = writeln!(out, "  {:>10}{:>10}{:>10}{:>10}  statement", "seconds", "count", "p50", "p99");
        for kind in &self.load.dearest {
            let _ = writeln!(
                out,
                "  {:>10.1}{:>10}{:>10}{:>10}  {}",
                kind.time_us as f64 / 1e6,
                kind.count,
                micros(kind.p50_us),
                micros(kind.p99_us),
                statement(kind)
            );
        }
    }

    pub(crate) fn load_sentence(&self) -> String {
        let load = &self.load;
        format!(
            "{} statements of {} kinds, {} of them with an error; the server worked {:.1} s for them. While it was watched: {:.1} \
             a second, {:.2} at a time on average.",
            load.statements,
            load.kinds,
            load.errors,
            load.time_us as f64 / 1e6,
            load.rate,
            load.at_a_time
        )
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(count) => f.write_str(&times(*count)),
            Self::TooFew(backends) => {
                write!(f, "{} too few at the peak", counted((*backends).into(), "backend"))
            }
        }
    }
}

impl Pin {
    /// How often, and for how many.
    pub(crate) fn sentence(&self) -> String {
        let (statements, clients) = (counted(self.statements, "statement"), counted(self.clients, "client"));
        format!("{}, {statements} behind it; {clients} now", times(self.times))
    }
}

/// `1 client`, `2 clients`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `once`, `2 times`.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { String::from("once") } else { format!("{count} times") }
}

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n{text}\n");
}

fn who(bound: &Bound) -> String {
    if bound.who.is_empty() { String::new() } else { format!(" (of {})", clean(&bound.who.join(", "))) }
}

/// A kind of statement in a line.
fn statement(kind: &Kind) -> String {
    let text = kind.text.as_deref().map_or_else(|| String::from("(its text is not known)"), clean);
    let cut: String = text.chars().take(LONGEST_STATEMENT).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("{}  {cut}{dots}", kind.digest.as_deref().unwrap_or("-"))
}

/// Without what a terminal obeys: control characters, and marks that turn the direction of text.
pub(crate) fn clean(text: &str) -> String {
    let turns = |sign: char| matches!(sign, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|sign| if sign.is_control() || turns(sign) { '\u{fffd}' } else { sign }).collect()
}

/// A time in microseconds, as people read it.
pub(crate) fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => duration(micros as f64 / 1e6),
    }
}

/// A time in seconds, as people read it.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// A time in milliseconds since 1970 as a date and a time of the day.
pub(crate) fn utc(milliseconds: u64) -> String {
    let seconds = i64::try_from(milliseconds / 1000).unwrap_or(0);
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp(seconds) else { return String::from("?") };
    let (date, time) = (at.date(), at.time());
    format!("{date} {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}
