//! The lines at the top: how much is done, what waits, how old all this is; and the tabs.

mod figures;

use super::pen::Pen;
use crate::format::{clean, count, utc};
use crate::onramps;
use crate::snapshot::Snapshot;
use crate::tabs::Tab;
use crate::view::{Source, View};
use figures::{Sentences, bound, missing, multiplexed, permits, sentences_of, up, way, who};

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
        Some(alarm) => (format!("{}  {alarm}", title(view, !view.is_of_several())), pen.warning()),
        None => (title(view, true), pen.strong()),
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
    let Some(look) = view.look.as_ref().filter(|look| !look.notes().is_empty() && end >= TALL) else {
        return first;
    };
    let selected = view.selected_onramp();
    let Sentences { stands, is_well, time, restart } = sentences_of(look, selected.as_deref());
    pen.line(first, &clean(&stands), if is_well { pen.plain() } else { pen.warning() });
    pen.line(first + 1, &clean(&time), pen.plain());
    pen.line(first + 2, &clean(&restart), pen.plain());
    first + SENTENCES
}

/// What is looked at. Why one of several does not answer needs the room of how long they have been up.
fn title(view: &View, with_up: bool) -> String {
    let up = view.look.as_ref().filter(|_| with_up).map_or_else(String::new, up);
    let several = view.look.as_ref().filter(|look| look.is_of_several());
    let of = several.map_or_else(String::new, |look| match (look.each().len(), look.parts.len()) {
        (there, all) if there == all => format!("{all} Onramps"),
        (there, all) => format!("{there} of {all} Onramps"),
    });
    match &view.source {
        Source::Live { target, recording } => {
            let recording =
                recording.as_ref().map_or_else(String::new, |file| format!("  recording to {file}"));
            format!("onramp top  {target}{of}{up}{recording}")
        }
        Source::Replay { file, position, count, playing } => {
            let at = view.look.as_ref().map_or_else(String::new, |look| format!("{} UTC", utc(look.at)));
            let way = if *playing { "playing" } else { "stopped" };
            let of = if of.is_empty() { of } else { format!("  {of}") };
            format!("replay {at}  {} of {count}, {way}{of}{up}  {file}", (position + 1).min(*count))
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
        if let Some(who) = who(look, |look| look.number("Onramp_paused") == Some(1)) {
            words.push(format!("[PAUSE: no statement goes to the server{who}]"));
        }
        words.extend(look.troubles_of("workers").into_iter().map(|text| format!("[{text}]")));
        let age = now.saturating_sub(look.at);
        if matches!(view.source, Source::Live { .. })
            && !view.paused
            && (age >= OLD || view.failure.is_some())
        {
            words.push(format!("[no data for {} s]", age / 1000));
        }
        words.extend(missing(look));
        words.extend(onramps::twice(look));
        if look.is_of_several() && view.table().is_some() {
            words.extend(look.troubles_of(view.tab.name()).into_iter().map(|text| format!("[{text}]")));
        }
    }
    words.extend(view.failure.clone());
    (!words.is_empty()).then(|| words.join(" "))
}

fn work(view: &View, look: &Snapshot) -> String {
    let number = |name: &str| look.sum(name).map_or_else(|| String::from("?"), count);
    let rate = view.rate().map_or_else(|| String::from("-"), |rate| count(rate.round() as i64));
    format!(
        "{rate} statements/s  running {} of {} permits{}  waiting {}+{}+{} (high+low+long){}",
        number("Onramp_permits_in_use"),
        number("Onramp_permits"),
        permits(look),
        number("Onramp_queued_high"),
        number("Onramp_queued_low"),
        number("Onramp_queued_long"),
        way(look),
    )
}

fn stock(look: &Snapshot) -> String {
    let number = |name: &str| look.sum(name).map_or_else(|| String::from("?"), count);
    let of =
        |option: &str| bound(look, option).map_or_else(String::new, |bound| format!(" of {}", count(bound)));
    format!(
        "clients {}{}  backends {}{} ({} idle)  multiplexed {}%  refused logins {}",
        number("Threads_connected"),
        of("max_connections"),
        number("Onramp_backends"),
        of("max_backends"),
        number("Threadpool_idle_threads"),
        multiplexed(look),
        number("Aborted_connects"),
    )
}

fn tabs(pen: &mut Pen<'_>, view: &View, y: u16) {
    let tabs = view.tabs();
    let filter = match view.filter.as_str() {
        "" => String::new(),
        filter => format!(" filter: {}", clean(filter)),
    };
    // The last one needs no blank behind it. That there is a filter matters more than names do.
    let width_of = |label: fn(Tab) -> String| tabs.iter().map(|tab| label(*tab).len()).sum::<usize>() - 1;
    let room = usize::from(pen.width()).saturating_sub(filter.chars().count());
    let fits = |label: fn(Tab) -> String| width_of(label) <= room;
    let others = if fits(key_and_name) {
        key_and_name
    } else if fits(name) {
        name
    } else {
        key
    };
    let mut x = 0;
    for tab in tabs {
        let here = tab == view.tab;
        let label = if here && others(tab) == key(tab) { key_and_name(tab) } else { others(tab) };
        let style = if here { pen.bar() } else { pen.plain() };
        pen.text(x, y, pen.width(), &label, style);
        x = x.saturating_add(label.len() as u16);
    }
    pen.text(x, y, pen.width(), &filter, pen.strong());
}

fn key_and_name(tab: Tab) -> String {
    format!("{} {} ", tab.key_to_it(), tab.name())
}

/// The name alone where it begins with the key.
fn name(tab: Tab) -> String {
    match tab.name().starts_with(tab.key_to_it()) {
        true => format!("{} ", tab.name()),
        false => key_and_name(tab),
    }
}

/// In a narrow terminal.
fn key(tab: Tab) -> String {
    format!("{} ", tab.key_to_it())
}
