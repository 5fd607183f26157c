//! The lines at the top: how much is done, what waits, how old all this is; and the tabs.

use super::pen::Pen;
use crate::format::{clean, count, duration, utc};
use crate::snapshot::Snapshot;
use crate::tabs::Tab;
use crate::view::{Source, View};

/// Lines of the header, that of the tabs included and those of sentences not.
pub const LINES: u16 = 4;

/// Lines of sentences: whether all is well, where time is lost, what a restart would break off.
pub const SENTENCES: u16 = 3;

/// With so many lines above the foot, which has one at least, there are sentences: half of the screen is the table's then.
const TALL: u16 = 20;

/// From this age on, in milliseconds, it is said how old the figures are. A look comes each second unless it takes long.
const OLD: u64 = 5_000;

/// Draws it, at most to the line `end`. Returns the line below it.
pub fn draw(pen: &mut Pen<'_>, view: &View, now: u64, end: u16) -> u16 {
    // Where there is hardly any room, the table has it.
    if end < LINES + 2 {
        return 0;
    }
    let (first, style) = match alarm(view, now) {
        Some(alarm) => (format!("{}  {alarm}", title(view)), pen.warning()),
        None => (title(view), pen.strong()),
    };
    pen.line(0, &clean(&first), style);
    if let Some(look) = &view.look {
        pen.line(1, &clean(&work(view, look)), pen.plain());
        pen.line(2, &clean(&stock(look)), pen.plain());
    }
    let tabs_at = sentences(pen, view, end);
    tabs(pen, view, tabs_at);
    tabs_at + 1
}

/// Draws the sentences, where there are any and room for them. Returns the line below.
fn sentences(pen: &mut Pen<'_>, view: &View, end: u16) -> u16 {
    let first = LINES - 1;
    let notes = view.look.as_ref().map_or_else(Vec::new, Snapshot::notes);
    if notes.is_empty() || end < TALL {
        return first;
    }
    let stands = || notes.iter().filter(|note| note.level != "says");
    let is_well = stands().all(|note| note.level == "well");
    let text: Vec<&str> = stands().map(|note| note.text).collect();
    let about = |about: &str| notes.iter().find(|note| note.about == about).map_or("", |note| note.text);
    pen.line(first, &clean(&text.join("  ")), if is_well { pen.plain() } else { pen.warning() });
    pen.line(first + 1, &clean(about("time")), pen.plain());
    pen.line(first + 2, &clean(about("restart")), pen.plain());
    first + SENTENCES
}

fn title(view: &View) -> String {
    let up = |look: &Snapshot| {
        look.number("Uptime").map(|seconds| format!("  up {}", duration(seconds.saturating_mul(1_000_000))))
    };
    let up = view.look.as_ref().and_then(up).unwrap_or_default();
    match &view.source {
        Source::Live { target, recording } => {
            let recording =
                recording.as_ref().map_or_else(String::new, |file| format!("  recording to {file}"));
            format!("onramp top  {target}{up}{recording}")
        }
        Source::Replay { file, position, count, playing } => {
            let at = view.look.as_ref().map_or_else(String::new, |look| format!("{} UTC", utc(look.at)));
            let way = if *playing { "playing" } else { "stopped" };
            format!("replay {at}  {} of {count}, {way}{up}  {file}", (position + 1).min(*count))
        }
    }
}

/// What somebody has to know before the figures.
fn alarm(view: &View, now: u64) -> Option<String> {
    let mut words = Vec::new();
    if view.paused {
        words.push(String::from("[screen paused]"));
    }
    if let Some(look) = &view.look {
        if look.number("Onramp_paused") == Some(1) {
            words.push(String::from("[PAUSE: no statement goes to the server]"));
        }
        if let Some(text) = look.troubles.get("workers") {
            words.push(format!("[{text}]"));
        }
        let age = now.saturating_sub(look.at);
        if matches!(view.source, Source::Live { .. })
            && !view.paused
            && (age >= OLD || view.failure.is_some())
        {
            words.push(format!("[no data for {} s]", age / 1000));
        }
    }
    words.extend(view.failure.clone());
    (!words.is_empty()).then(|| words.join(" "))
}

fn work(view: &View, look: &Snapshot) -> String {
    let number = |name: &str| look.number(name).map_or_else(|| String::from("?"), count);
    let rate = view.rate.map_or_else(|| String::from("-"), |rate| count(rate.round() as i64));
    let limit = match look.options.get("permits").map(String::as_str) {
        Some("0") => " (found)",
        Some(_) => " (fixed)",
        None => "",
    };
    let way = match look.options.get("thread_handling").map(String::as_str) {
        Some("one-thread-per-connection") => "  one-thread-per-connection",
        _ => "",
    };
    format!(
        "{rate} statements/s  running {} of {} permits{limit}  waiting {}+{}+{} (high+low+long){way}",
        number("Onramp_permits_in_use"),
        number("Onramp_permits"),
        number("Onramp_queued_high"),
        number("Onramp_queued_low"),
        number("Onramp_queued_long"),
    )
}

fn stock(look: &Snapshot) -> String {
    let number = |name: &str| look.number(name).map_or_else(|| String::from("?"), count);
    let of = |option: &str| match look.options.get(option).and_then(|text| text.parse().ok()) {
        Some(bound) if bound > 0 => format!(" of {}", count(bound)),
        _ => String::new(),
    };
    format!(
        "clients {}{}  backends {}{} ({} idle)  multiplexed {}%  refused logins {}",
        number("Threads_connected"),
        of("max_connections"),
        number("Onramp_backends"),
        of("max_backends"),
        number("Threadpool_idle_threads"),
        look.status.get("Onramp_multiplexed_percent").map_or("?", String::as_str),
        number("Aborted_connects"),
    )
}

fn tabs(pen: &mut Pen<'_>, view: &View, y: u16) {
    let widths: u16 = Tab::ALL.iter().map(|tab| tab.name().len() as u16 + 3).sum();
    let mut x = 0;
    for tab in Tab::ALL {
        let here = tab == view.tab;
        // In a narrow terminal the others are their numbers.
        let label = match here || widths <= pen.width() {
            true => format!("{} {} ", tab.key_to_it(), tab.name()),
            false => format!("{} ", tab.key_to_it()),
        };
        let style = if here { pen.bar() } else { pen.plain() };
        pen.text(x, y, pen.width(), &label, style);
        x = x.saturating_add(label.len() as u16);
    }
    if !view.filter.is_empty() {
        pen.text(x + 1, y, pen.width(), &format!("filter: {}", clean(&view.filter)), pen.strong());
    }
}
