//! What the header says of one Onramp, and of several: what can be summed is summed, and of the rest it says whose it is.

use crate::format::duration;
use crate::snapshot::{Level, Note, Snapshot};

/// From this difference on, in milliseconds, one of several is said to be behind the latest of them.
const BEHIND: u64 = 5_000;

/// How long it has been up; of several the one that was started last, with its name.
pub fn up(look: &Snapshot) -> String {
    let ups = look.each().into_iter().filter_map(|(name, look)| Some((look.number("Uptime")?, name)));
    let Some((seconds, name)) = ups.min() else { return String::new() };
    let whose = if look.is_of_several() { format!(" ({name}, the latest)") } else { String::new() };
    format!("  up {}{whose}", duration(seconds.saturating_mul(1_000_000)))
}

/// Of whom that holds: nothing to say where it is all of them, or the one; otherwise their names. `None` where it is nobody.
pub fn who(look: &Snapshot, holds: impl Fn(&Snapshot) -> bool) -> Option<String> {
    let all = look.each();
    let names: Vec<&str> = all.iter().filter(|(_, look)| holds(look)).map(|(name, _)| *name).collect();
    match names.len() {
        0 => None,
        count if count == all.len() => Some(String::new()),
        _ => Some(format!(" ({})", names.join(", "))),
    }
}

/// Why each that is missing is, and how far behind the others one is.
pub fn missing(look: &Snapshot) -> Vec<String> {
    let of = |part: &crate::snapshot::Part| match &part.look {
        Err(failure) => Some(format!("[{}: {failure}]", part.name)),
        Ok(own) => {
            let behind = look.at.saturating_sub(own.at);
            (behind >= BEHIND).then(|| format!("[{}: no data for {} s]", part.name, behind / 1000))
        }
    };
    look.parts.iter().filter_map(of).collect()
}

/// Whether permits are found or given.
pub fn permits(look: &Snapshot) -> &'static str {
    let options = look.each().into_iter().filter_map(|(_, look)| look.options.get("permits"));
    let found: Vec<bool> = options.map(|permits| permits == "0").collect();
    match (found.contains(&true), found.contains(&false)) {
        (true, true) => " (found and fixed)",
        (true, false) => " (found)",
        (false, true) => " (fixed)",
        (false, false) => "",
    }
}

/// Those that have no pool of backends.
pub fn way(look: &Snapshot) -> String {
    const WAY: &str = "one-thread-per-connection";
    let has_it = |look: &Snapshot| look.options.get("thread_handling").is_some_and(|way| way == WAY);
    who(look, has_it).map_or_else(String::new, |who| format!("  {WAY}{who}"))
}

/// A bound that each of them has.
pub fn bound(look: &Snapshot, option: &str) -> Option<i64> {
    let of = |look: &Snapshot| look.options.get(option)?.parse::<i64>().ok().filter(|bound| *bound > 0);
    let bounds: Option<Vec<i64>> = look.each().into_iter().map(|(_, look)| of(look)).collect();
    Some(bounds?.into_iter().fold(0, i64::saturating_add))
}

/// Of 100 statements how many ran on any backend. Of several it is made anew from what it is made of: a mean of shares would be none of
/// all statements.
pub fn multiplexed(look: &Snapshot) -> String {
    if !look.is_of_several() {
        return look.status.get("Onramp_multiplexed_percent").map_or_else(|| String::from("?"), Clone::clone);
    }
    let Some(multiplexed) = look.sum("Onramp_statements_multiplexed") else { return String::from("?") };
    let others = ["Onramp_statements_in_transactions", "Onramp_statements_pinned"];
    let all = others.iter().filter_map(|name| look.sum(name)).fold(multiplexed, i64::saturating_add);
    multiplexed.saturating_mul(100).checked_div(all).unwrap_or(100).to_string()
}

/// The lines of sentences.
pub struct Sentences {
    /// How it stands.
    pub stands: String,
    /// Whether that is well.
    pub is_well: bool,
    /// Where time is lost.
    pub time: String,
    /// What a restart would break off.
    pub restart: String,
}

/// Of several: what stands, the worst first, with whose it is; where time is lost of the one at which most statements wait; restarts of
/// each. Of one that is `selected` among them its own in the place of these two.
pub fn sentences_of(look: &Snapshot, selected: Option<&str>) -> Sentences {
    let notes = look.notes();
    let several = look.is_of_several();
    let mut stands: Vec<&Note<'_>> = notes.iter().filter(|note| note.level != Some(Level::Says)).collect();
    let is_well = stands.iter().all(|note| note.level == Some(Level::Well));
    if several {
        stands.sort_by_key(|note| note.level);
        // Where all is well with one of them, that is no news beside what is not well with another.
        stands.retain(|note| is_well || note.level != Some(Level::Well));
    }
    let said = |note: &&Note<'_>| match several && !is_well {
        true => format!("{}: {}", note.onramp, note.text),
        false => note.text.to_owned(),
    };
    let mut stands: Vec<String> = stands.iter().map(said).collect();
    if is_well {
        stands.dedup();
    }
    let is_meant = |note: &&Note<'_>| selected.is_none_or(|name| note.onramp == name);
    let about = |about: &str| -> Vec<&Note<'_>> {
        notes.iter().filter(|note| note.about == about).filter(is_meant).collect()
    };
    let of_it = |note: &&Note<'_>| format!("{}: {}", note.onramp, note.text);
    let first = |notes: &[&Note<'_>]| notes.first().map_or_else(String::new, |note| note.text.to_owned());
    let (times, restarts) = (about("time"), about("restart"));
    let (time, restart) = match several {
        false => (first(&times), first(&restarts)),
        true => {
            // Of equal ones the first.
            let most = times.iter().rev().max_by_key(|note| waiting(look, note.onramp));
            let time = most.map_or_else(String::new, |note| {
                let is_most = selected.is_none() && waiting(look, note.onramp) > 0;
                let why = if is_most { ", where most wait" } else { "" };
                format!("{}{why}: {}", note.onramp, note.text)
            });
            (time, restarts.iter().map(of_it).collect::<Vec<_>>().join("  "))
        }
    };
    Sentences { stands: stands.join("  "), is_well, time, restart }
}

/// Statements that wait at an Onramp.
fn waiting(look: &Snapshot, onramp: &str) -> i64 {
    let all = look.each();
    let own = all.iter().find(|(name, _)| *name == onramp);
    let queues = ["Onramp_queued_high", "Onramp_queued_low", "Onramp_queued_long"];
    let waits = own.into_iter().flat_map(|(_, look)| queues.iter().filter_map(|queue| look.number(queue)));
    waits.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::snapshot::Part;

    #[test]
    fn bounds_that_nobody_has_are_summed_as_well_as_others() {
        let part = |bound: i64| {
            let options = BTreeMap::from([("max_backends".to_owned(), bound.to_string())]);
            let look = Snapshot { options, ..Snapshot::default() };
            Part { name: bound.to_string(), target: String::new(), look: Ok(look) }
        };
        let of = |bounds: &[i64]| {
            let look = Snapshot { parts: bounds.iter().copied().map(part).collect(), ..Snapshot::default() };
            bound(&look, "max_backends")
        };
        assert_eq!((of(&[3, 4]), of(&[3, 0])), (Some(7), None));
        assert_eq!(of(&[i64::MAX, 1]), Some(i64::MAX), "whatever stands in an Onramp's place may say so");
    }
}
