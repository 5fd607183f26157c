//! The log: lines with time and level on the standard error stream.

mod form;
mod kept;
mod lines;

use config::{LogFormat, LogLevel};
use engine::{Behind, Event, ServerState};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use form::{Fields, Form};
use kept::KEPT_ALREADY;

use crate::Failure;
pub(crate) use kept::Kept;
pub(crate) use lines::{Lines, time_now};

/// The log while it is being written.
pub(crate) struct Log {
    /// Changes what is logged.
    pub(crate) change_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    /// Its last lines.
    pub(crate) kept: Kept,
    /// Its lines on their way out.
    pub(crate) lines: Lines,
}

/// Starts logging what is at least as important as `level`, in lines that look like `format`. The process ends with [`Lines::finish`].
///
/// # Errors
/// Where the system has no threads left.
pub(crate) fn start(level: LogLevel, format: LogFormat) -> Result<Log, Failure> {
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let writer = Lines::write_to(std::io::stderr())?;
    writer.change_format(format);
    writer.take_panics();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer.clone())
        .with_ansi(rustix::termios::isatty(std::io::stderr()))
        .with_span_events(FmtSpan::NONE)
        .event_format(Form::new(writer.clone()))
        .fmt_fields(Fields);
    let kept = Kept::default();
    tracing_subscriber::registry().with(filter).with(lines).with(kept.clone()).init();
    let change_level = Box::new(move |level| {
        // It fails only where there is no log any more.
        let _ = handle.reload(filter_of(level));
    });
    Ok(Log { change_level, kept, lines: writer })
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

/// The lines about what engines report.
pub(crate) struct EventLog {
    /// The last line about the server: each worker finds and loses it, and one line is enough where they agree.
    about_server: String,
    kept: Kept,
}

impl EventLog {
    pub(crate) fn new(kept: Kept) -> Self {
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
            Level::ERROR => tracing::error!(target: KEPT_ALREADY, event = name, worker, "{event}"),
            Level::WARN => tracing::warn!(target: KEPT_ALREADY, event = name, worker, "{event}"),
            _ => tracing::info!(target: KEPT_ALREADY, event = name, worker, "{event}"),
        }
        self.kept.keep(u32::try_from(worker).ok(), level, name, event.to_string());
    }
}

/// At which level an event is logged, and its name.
fn classify(event: &Event) -> (Level, &'static str) {
    match event {
        Event::ServerFound { .. } => (Level::INFO, "server_found"),
        Event::ServerLost { .. } => (Level::ERROR, "server_lost"),
        Event::ServerMoved { .. } => (Level::WARN, "server_moved"),
        Event::ServerChanged { state: ServerState::Up, .. } => (Level::INFO, "server_changed"),
        Event::ServerChanged { .. } => (Level::WARN, "server_changed"),
        Event::PrimaryFound { behind: Behind::Lacks(_), .. } => (Level::WARN, "primary_found"),
        Event::PrimaryFound { .. } => (Level::INFO, "primary_found"),
        Event::SwitchoverBegan { .. } => (Level::INFO, "switchover"),
        Event::DrainChanged { .. } => (Level::INFO, "server_drained"),
        Event::DrainEnded { .. } => (Level::ERROR, "server_drained"),
        Event::NoPrimary { .. } => (Level::ERROR, "no_primary"),
        Event::ClientClosed { .. } => (Level::INFO, "client_closed"),
        Event::LoginRefused { .. } => (Level::WARN, "login_refused"),
        Event::BackendClosed { .. } => (Level::WARN, "backend_closed"),
        Event::NoRoom { .. } => (Level::WARN, "no_room"),
        Event::AccountIsFull { .. } => (Level::WARN, "account_is_full"),
        Event::PasswordWithheld { .. } => (Level::WARN, "password_withheld"),
        Event::LockWaitsHidden { .. } => (Level::WARN, "lock_waits_hidden"),
        Event::NoTrackers { .. } => (Level::WARN, "no_trackers"),
        Event::RightsHidden { .. } => (Level::WARN, "rights_hidden"),
        Event::StoredCodeHidden { .. } => (Level::INFO, "stored_code_hidden"),
        Event::PeerCame { .. } => (Level::INFO, "peer_came"),
        Event::PeerWent { .. } => (Level::INFO, "peer_went"),
        Event::PeersHidden { .. } => (Level::WARN, "peers_hidden"),
        Event::DefaultsChanged { .. } => (Level::INFO, "defaults_changed"),
        Event::NotCompressed { .. } => (Level::WARN, "not_compressed"),
        Event::LimitReached { .. } => (Level::WARN, "limit_reached"),
    }
}
