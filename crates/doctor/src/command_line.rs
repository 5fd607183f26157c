//! The command line: one declaration per option, from which parsing, help and suggestions come.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use config::BackendUrl;
use drivers::DriverChoice;

use crate::{Request, Role};

/// `onramp doctor` and all that follows.
#[derive(Parser)]
#[command(
    name = "onramp doctor",
    about = "What limits this machine, and the server, for so many clients, and the command that lifts it",
    after_help = "Examples:\n  \
        onramp doctor --connections 100000\n  \
        onramp doctor --role both --connections 30000 --print-sysctl > /etc/sysctl.d/90-onramp.conf\n  \
        ONRAMP_BACKEND=mysql://onramp:PASSWORD@10.0.0.5/ onramp doctor --json\n\n\
        Exit codes: 0 all is enough, 1 something is short, 2 wrong options.",
    max_term_width = 110,
    disable_version_flag = true
)]
pub(crate) struct CommandLine {
    /// Clients at the same time
    // As far as max_connections goes.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// What runs here: Onramp, the load generator, or both
    #[arg(long, value_enum, default_value_t = RoleWord::Serve)]
    role: RoleWord,
    /// How sockets are driven: auto, uring or epoll
    #[arg(long, default_value_t = DriverChoice::Auto)]
    driver: DriverChoice,
    /// Event loops of one process, as for `onramp serve`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// The server to ask for its limits, as for `onramp serve`; the environment keeps the password out of the
    /// list of processes
    #[arg(long, value_name = "URL", env = "ONRAMP_BACKEND", hide_env_values = true)]
    backend: Option<String>,
    /// Connections to the server, as for `onramp serve`; 0 for as many as it allows
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16_384))]
    max_backends: u32,
    /// Connections that wait to be accepted, as for `onramp serve`
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    back_log: u32,
    /// Pairs of a local and a remote address over which the load generator spreads its connections [default: one, or as
    /// many as it takes where both ends are here]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    address_pairs: Option<u32>,
    /// Print JSON
    #[arg(long, conflicts_with = "print_sysctl")]
    json: bool,
    /// Print a file for /etc/sysctl.d and, as remarks, the lines of a systemd unit
    #[arg(long)]
    print_sysctl: bool,
    /// Read proc and sys of a copied machine from this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
}

/// What is printed.
pub(crate) enum Output {
    Table,
    Json,
    Sysctl,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleWord {
    Serve,
    Bench,
    Both,
}

impl CommandLine {
    pub(crate) fn request(&self) -> Request {
        Request {
            connections: self.connections,
            role: match self.role {
                RoleWord::Serve => Role::Serve,
                RoleWord::Bench => Role::Bench,
                RoleWord::Both => Role::Both,
            },
            driver: self.driver,
            workers: self.workers,
            max_backends: self.max_backends,
            back_log: self.back_log,
            address_pairs: self.address_pairs,
        }
    }

    pub(crate) fn output(&self) -> Output {
        match (self.json, self.print_sysctl) {
            (true, _) => Output::Json,
            (_, true) => Output::Sysctl,
            _ => Output::Table,
        }
    }

    /// The server to ask.
    ///
    /// # Errors
    /// What is wrong with the URL, without repeating it: it holds a password.
    pub(crate) fn backend(&self) -> Result<Option<BackendUrl>, config::Error> {
        let Some(url) = &self.backend else { return Ok(None) };
        let configuration = config::load(&[format!("--backend={url}")], [])?;
        Ok(configuration.backends.into_iter().next())
    }
}
