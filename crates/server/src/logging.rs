//! The log: lines with time and level on the standard error stream.

use config::LogLevel;
use engine::Event;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging what is at least as important as `level`.
pub(crate) fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(rustix::termios::isatty(std::io::stderr()))
        .with_max_level(level)
        .with_target(false)
        .with_span_events(FmtSpan::NONE)
        .init();
}

/// The lines about what engines report.
#[derive(Default)]
pub(crate) struct EventLog {
    /// The last line about the server: each worker finds and loses it, and one line is enough where they agree.
    about_server: String,
}

impl EventLog {
    /// Logs what a worker's engine reports, at the level at which somebody should look at it.
    pub(crate) fn event(&mut self, worker: usize, event: &Event) {
        if matches!(event, Event::ServerFound { .. } | Event::ServerLost { .. }) {
            let line = event.to_string();
            if worker > 0 && line == self.about_server {
                return;
            }
            self.about_server = line;
        }
        match event {
            Event::ServerFound { .. } | Event::ClientClosed { .. } => tracing::info!("{event}"),
            Event::ServerLost { .. } => tracing::error!("{event}"),
            Event::LoginRefused { .. }
            | Event::BackendClosed { .. }
            | Event::NoRoom { .. }
            | Event::LockWaitsHidden { .. }
            | Event::LimitReached { .. } => tracing::warn!("{event}"),
        }
    }
}
