//! The screens of a recording.

use std::time::{Duration, Instant};

use crate::poller;
use crate::recording::Recording;
use crate::terminal::{Done, Screen, ending, has_ended};
use crate::trouble::Trouble;
use crate::view::{Action, Source, View};

/// How often signals are looked for, while no key is pressed.
const TICK: Duration = Duration::from_millis(100);

/// The longest time between two looks while it plays: where nothing was recorded for hours nobody wants to wait for it.
const LONGEST_STEP: Duration = Duration::from_secs(5);

/// Shows it until the user has enough.
///
/// # Errors
/// The terminal cannot be used, or the first look cannot be read.
pub fn show(file: &std::path::Path) -> Result<(), Trouble> {
    let recording = Recording::open(file)?;
    let ends = ending()?;
    let source = Source::Replay {
        file: file.display().to_string(),
        position: 0,
        count: recording.count(),
        playing: false,
    };
    let mut view = View::new(source, crate::colours());
    go(&mut view, &recording, 0);
    let mut screen = Screen::take()?;
    let mut due = Instant::now();
    while !has_ended(&ends) {
        screen.draw(&mut view, poller::now())?;
        if let Some(Done::Key(key)) = screen.wait(TICK)? {
            let played = is_playing(&view);
            match view.press(key) {
                Action::Quit => return Ok(()),
                Action::Step(by) => go(&mut view, &recording, by),
                _ => {}
            }
            if is_playing(&view) && !played {
                due = Instant::now();
            }
        }
        if is_playing(&view) && Instant::now() >= due {
            due = Instant::now() + step(&mut view, &recording);
        }
    }
    Ok(())
}

fn is_playing(view: &View) -> bool {
    matches!(view.source, Source::Replay { playing: true, .. })
}

/// Goes so many looks on or back, as far as there are any.
fn go(view: &mut View, recording: &Recording, by: i64) {
    let Source::Replay { position, .. } = &mut view.source else { return };
    let wanted = position.saturating_add_signed(isize::try_from(by).unwrap_or(0));
    *position = wanted.min(recording.count() - 1);
    let at = *position;
    let before = at.checked_sub(1).and_then(|before| recording.look(before).ok());
    match recording.look(at) {
        Ok(look) => {
            view.failure = None;
            view.show(before.as_ref(), look);
        }
        Err(bad) => view.fail(bad.to_string()),
    }
}

/// Goes one on, and stops at the end. Returns how long that one is to be seen.
fn step(view: &mut View, recording: &Recording) -> Duration {
    let before = view.look.as_ref().map_or(0, |look| look.at);
    go(view, recording, 1);
    if let Source::Replay { position, count, playing, .. } = &mut view.source {
        *playing = *position + 1 < *count;
    }
    let after = view.look.as_ref().map_or(0, |look| look.at);
    Duration::from_millis(after.saturating_sub(before)).clamp(TICK, LONGEST_STEP)
}
