//! The command line: one declaration per option, from which parsing, help and suggestions come.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use zeroize::Zeroizing;

/// The variable that holds the password where no file is named; `onramp serve` reads the same.
pub const PASSWORD_VARIABLE: &str = "ONRAMP_ADMIN_PASSWORD";

/// `onramp top` and all that follows.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "onramp top",
    about = "What a running Onramp does, live, over its admin port (`admin_listen`)",
    after_help = "The password comes from --password-file or the environment (ONRAMP_ADMIN_PASSWORD).\n\n\
        Examples:\n  \
        onramp top --password-file onramp-data/admin.password\n  \
        onramp top --host db1 --tls --once --json | jq '.tables.clients[] | select(.holds_locks == 1)'\n  \
        onramp top --record incident.jsonl        # then: onramp top --replay incident.jsonl\n\n\
        Exit codes: 0 done, 1 the admin port or a file cannot be used, 2 wrong options.",
    max_term_width = 110,
    disable_version_flag = true
)]
pub struct Options {
    /// Name or address of the machine whose admin port is asked
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// TCP port of the admin port
    #[arg(long, default_value_t = 33062, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Unix socket of the admin port, in place of host and port
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// User name: the Onramp's `admin_user`
    #[arg(long, default_value = "admin")]
    pub user: String,
    /// File whose first line is the password [default: what ONRAMP_ADMIN_PASSWORD holds]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Encrypt the connection; whose certificate is shown does not matter
    #[arg(long, conflicts_with = "socket")]
    pub tls: bool,
    /// Encrypt the connection, and take only a certificate for --host from one of the authorities in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub tls_ca: Option<PathBuf>,
    /// Seconds from one look to the next; where a look takes long, the next one comes four times as long after it
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = interval)]
    pub interval: Duration,
    /// Rows of a table that are asked for at a time, the first in its order
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rows: u32,
    /// Print everything once, as text
    #[arg(long, conflicts_with_all = ["record", "replay"])]
    pub once: bool,
    /// With --once: as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Write each look to a file, as a line of JSON; without a terminal nothing else is done
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// MiB that a recording may take on disk: at half of it, FILE becomes FILE.1, and what was FILE.1 is gone
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub record_size: u64,
    /// Show a recording in place of a running Onramp
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

impl Options {
    /// What is asked, for people: a host with its port, or a path.
    pub fn target(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// The password, empty where none is given.
    ///
    /// # Errors
    /// A sentence for the user, where the file cannot be read.
    pub fn password(&self) -> Result<Zeroizing<String>, String> {
        match &self.password_file {
            Some(path) => first_line(path),
            None => Ok(Zeroizing::new(std::env::var(PASSWORD_VARIABLE).unwrap_or_default())),
        }
    }
}

fn first_line(path: &Path) -> Result<Zeroizing<String>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--password-file {}: {error}", path.display()))?;
    let text = Zeroizing::new(text);
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// The shortest time between two looks, in seconds: below, a person sees no difference and the admin port does.
const SHORTEST: f64 = 0.2;
/// The longest, half an hour: a connection that is silent for an hour is closed by the admin port.
const LONGEST: f64 = 1800.0;

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("must be from {SHORTEST} to {LONGEST} seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, String> {
        let words = std::iter::once("onramp top").chain(words.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_an_admin_port_of_this_machine() {
        let options = parsed("").unwrap();
        assert_eq!(options.target(), "127.0.0.1:33062");
        assert_eq!((options.interval, options.rows), (Duration::from_secs(1), 200));
        assert_eq!(parsed("--host ::1 --port 5").unwrap().target(), "[::1]:5");
        assert_eq!(parsed("--socket /run/admin").unwrap().target(), "/run/admin");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for words in [
            "--interval 0.1",
            "--interval x",
            "--rows 0",
            "--json",
            "--once --replay f",
            "--record a --replay b",
            "--socket s --tls",
            "--password secret",
        ] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_missing_password_file_is_named() {
        let options = parsed("--password-file /nowhere/at/all").unwrap();
        assert!(options.password().unwrap_err().contains("/nowhere/at/all"));
    }
}
