//! What lifts a limit: for now, and for good.

use std::fmt::Display;

/// Where lasting system settings go.
pub(crate) const SYSCTL_FILE: &str = "/etc/sysctl.d/90-onramp.conf";

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A system setting.
    Sysctl {
        /// Its name, with dots.
        key: &'static str,
        /// What it has to be.
        value: String,
    },
    /// A line of the `[Service]` section of a systemd unit, and what does the same for a start from a shell.
    Unit {
        /// The line.
        line: String,
        /// The command.
        shell: String,
    },
    /// A command of any other kind.
    Command {
        /// The command, which lasts until the next start of the machine or of the server.
        now: String,
        /// What to write where so that it lasts.
        lasting: String,
    },
    /// What can only be said.
    Advice(String),
}

impl Remedy {
    pub(crate) fn sysctl(key: &'static str, value: impl Display) -> Self {
        Self::Sysctl { key, value: value.to_string() }
    }

    pub(crate) fn unit(line: impl Into<String>, shell: impl Into<String>) -> Self {
        Self::Unit { line: line.into(), shell: shell.into() }
    }

    /// Its name in JSON. Never changes.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sysctl { .. } => "sysctl",
            Self::Unit { .. } => "unit",
            Self::Command { .. } => "command",
            Self::Advice(_) => "advice",
        }
    }

    /// What to do at once, as a command wherever there is one.
    pub fn now(&self) -> String {
        match self {
            Self::Sysctl { key, value } if value.contains(' ') => format!("sysctl -w {key}=\"{value}\""),
            Self::Sysctl { key, value } => format!("sysctl -w {key}={value}"),
            Self::Unit { shell, .. } => shell.clone(),
            Self::Command { now, .. } => now.clone(),
            Self::Advice(words) => words.clone(),
        }
    }

    /// What makes it last: the line, and where it goes.
    pub fn lasting(&self) -> Option<(String, String)> {
        match self {
            Self::Sysctl { key, value } => Some((format!("{key} = {value}"), format!("in {SYSCTL_FILE}"))),
            Self::Unit { line, .. } => Some((line.clone(), "in the systemd unit, [Service]".to_owned())),
            Self::Command { lasting, .. } => Some((lasting.clone(), String::new())),
            Self::Advice(_) => None,
        }
    }
}
