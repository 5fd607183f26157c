//! The log: lines with time and level on the standard error stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use admin::tables::Event as Row;
use config::LogLevel;
use engine::Event;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Changes what is logged while it is being logged.
pub(crate) type ChangeLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

/// Starts logging what is at least as important as `level`.
pub(crate) fn start(level: LogLevel) -> ChangeLevel {
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(rustix::termios::isatty(std::io::stderr()))
        .with_target(false)
        .with_span_events(FmtSpan::NONE);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // It fails only where there is no log any more.
    Box::new(move |level| {
        let _ = handle.reload(filter_of(level));
    })
}

fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// How many events are kept for the admin port.
const KEPT: usize = 1000;

/// The last events, for whoever looks.
#[derive(Default)]
pub(crate) struct Kept {
    events: VecDeque<Row>,
    count: u64,
}

impl Kept {
    /// The oldest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.events.iter()
    }
}

/// The lines about what engines report.
pub(crate) struct EventLog {
    /// The last line about the server: each worker finds and loses it, and one line is enough where they agree.
    about_server: String,
    kept: Arc<Mutex<Kept>>,
}

impl EventLog {
    pub(crate) fn new(kept: Arc<Mutex<Kept>>) -> Self {
        Self { about_server: String::new(), kept }
    }

    /// Logs what a worker's engine reports, at the level at which somebody should look at it.
    pub(crate) fn event(&mut self, worker: usize, event: &Event) {
        if matches!(event, Event::ServerFound { .. } | Event::ServerLost { .. }) {
            let line = event.to_string();
            if worker > 0 && line == self.about_server {
                return;
            }
            self.about_server = line;
        }
        let (level, name) = classify(event);
        match level {
            "error" => tracing::error!("{event}"),
            "warn" => tracing::warn!("{event}"),
            _ => tracing::info!("{event}"),
        }
        self.keep(worker, level, name, event);
    }

    fn keep(&self, worker: usize, level: &'static str, name: &'static str, event: &Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.count += 1;
        let row = Row {
            number: kept.count,
            time: admin::tables::time_text(UNIX_EPOCH.elapsed().unwrap_or_default()),
            worker: u32::try_from(worker).unwrap_or(u32::MAX),
            level,
            event: name,
            message: event.to_string(),
        };
        kept.events.push_back(row);
    }
}

/// At which level an event is logged, and its name.
fn classify(event: &Event) -> (&'static str, &'static str) {
    match event {
        Event::ServerFound { .. } => ("info", "server_found"),
        Event::ServerLost { .. } => ("error", "server_lost"),
        Event::ClientClosed { .. } => ("info", "client_closed"),
        Event::LoginRefused { .. } => ("warn", "login_refused"),
        Event::BackendClosed { .. } => ("warn", "backend_closed"),
        Event::NoRoom { .. } => ("warn", "no_room"),
        Event::LockWaitsHidden { .. } => ("warn", "lock_waits_hidden"),
        Event::LimitReached { .. } => ("warn", "limit_reached"),
    }
}
