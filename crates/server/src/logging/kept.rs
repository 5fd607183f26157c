//! The last lines of the log, for the admin port.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use admin::tables::Event;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How many are kept: some hundred kilobytes.
const KEPT: usize = 1000;

/// The target of lines that their writer keeps, with more than the line says.
pub(super) const KEPT_ALREADY: &str = "event";

/// The lines that were logged lately; all clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Ring>>);

#[derive(Default)]
struct Ring {
    events: VecDeque<Event>,
    count: u64,
}

impl Kept {
    /// The oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).events.iter().cloned().collect()
    }

    pub(super) fn keep(&self, worker: Option<u32>, level: Level, event: &'static str, message: String) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.count += 1;
        let number = ring.count;
        let time = admin::tables::time_text(UNIX_EPOCH.elapsed().unwrap_or_default());
        ring.events.push_back(Event { number, time, worker, level: name(level), event, message });
    }
}

impl<S: Subscriber> Layer<S> for Kept {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target() != KEPT_ALREADY {
            let mut line = Line::default();
            event.record(&mut line);
            self.keep(None, *metadata.level(), "log", line.0);
        }
    }
}

/// The message of a line.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[test]
    fn the_last_lines_are_kept() {
        let kept = Kept::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(kept.clone()), || {
            for number in 0..KEPT + 5 {
                tracing::warn!("line {number}");
            }
            tracing::info!(target: KEPT_ALREADY, "kept by its writer");
        });
        kept.keep(Some(3), Level::ERROR, "server_lost", String::from("gone"));
        let events = kept.events();
        assert_eq!(events.len(), KEPT);
        assert_eq!((events[0].number, events[0].message.as_str()), (7, "line 6"));
        let line = &events[KEPT - 2];
        assert_eq!((line.worker, line.level, line.event), (None, "warn", "log"));
        let last = &events[KEPT - 1];
        assert_eq!((last.worker, last.level, last.event), (Some(3), "error", "server_lost"));
    }
}
