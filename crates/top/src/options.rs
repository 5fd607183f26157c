//! The command line: one declaration per option, from which parsing, help and suggestions come.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin_client::Target;
use clap::Parser;
use zeroize::Zeroizing;

use crate::targets::{names, of_host};
use crate::trouble::{Trouble, WrongOptions};

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
        onramp top --host db1,db2,db3:33063       # several Onramps on one screen\n  \
        onramp top --record incident.jsonl        # then: onramp top --replay incident.jsonl\n\n\
        Exit codes: 0 done, 1 the admin port or a file cannot be used, 2 wrong options.",
    max_term_width = 110,
    disable_version_flag = true
)]
pub struct Options {
    /// Name or address of the machine whose admin port is asked; NAME:PORT, or a socket's path. Several, as a list or one after the other, are shown as one
    #[arg(long, default_value = "127.0.0.1", value_delimiter = ',')]
    pub host: Vec<String>,
    /// TCP port of the admin port, where --host names none
    #[arg(long, default_value_t = 33062, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Unix socket of the admin port, in place of host and port; may be given several times
    #[arg(long, value_name = "PATH")]
    pub socket: Vec<PathBuf>,
    /// User name: the Onramp's `admin_user`. Once for all, or once for each admin port in their order
    #[arg(long, default_value = "admin")]
    pub user: Vec<String>,
    /// File whose first line is the password; once for all, or once for each admin port in their order [default: what ONRAMP_ADMIN_PASSWORD holds]
    #[arg(long, value_name = "FILE")]
    pub password_file: Vec<PathBuf>,
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

/// How many admin ports are looked at at a time: four times as many as there are slots for Onramps in front of a server.
const MOST_TARGETS: usize = 64;

/// An admin port, and as whom it is asked.
pub struct Wanted {
    /// Where it is.
    pub target: Target,
    /// What it is called on the screen, where there are others.
    pub name: String,
    /// The user.
    pub user: String,
    /// The file with the password; `None` where the environment has it.
    pub password_file: Option<PathBuf>,
}

impl Options {
    /// The admin ports, one at least, in the order in which they are given.
    ///
    /// # Errors
    /// Which of them make no sense.
    pub fn wanted(&self) -> Result<Vec<Wanted>, WrongOptions> {
        let targets = self.targets()?;
        let users = in_turn("--user", &self.user, targets.len())?;
        let files = in_turn("--password-file", &self.password_file, targets.len())?;
        let names = names(&targets);
        let rest = names.into_iter().zip(users).zip(files);
        let wanted = targets.into_iter().zip(rest).map(|(target, ((name, user), file))| {
            let user = user.map_or_else(String::new, Clone::clone);
            Wanted { target, name, user, password_file: file.cloned() }
        });
        Ok(wanted.collect())
    }

    fn targets(&self) -> Result<Vec<Target>, WrongOptions> {
        let targets: Vec<Target> = match self.socket.as_slice() {
            [] => self.host.iter().map(|host| of_host(host, self.port)).collect::<Result<_, _>>()?,
            paths => paths.iter().cloned().map(Target::Socket).collect(),
        };
        if targets.len() > MOST_TARGETS {
            return Err(WrongOptions::TooMany { given: targets.len(), most: MOST_TARGETS });
        }
        let mut seen = BTreeSet::new();
        for target in &targets {
            // Names of machines have no case; what is counted twice would be wrong in every sum.
            let text = target.text();
            let same = if matches!(target, Target::Tcp(..)) { text.to_lowercase() } else { text.clone() };
            if !seen.insert(same) {
                return Err(WrongOptions::Twice(text));
            }
            if matches!(target, Target::Socket(_)) && (self.tls || self.tls_ca.is_some()) {
                return Err(WrongOptions::TlsOnSocket(text));
            }
        }
        Ok(targets)
    }
}

/// One for all, one for each, or none.
fn in_turn<'v, T>(
    option: &'static str,
    values: &'v [T],
    targets: usize,
) -> Result<Vec<Option<&'v T>>, WrongOptions> {
    match values {
        [] => Ok(vec![None; targets]),
        [one] => Ok(vec![Some(one); targets]),
        values if values.len() == targets => Ok(values.iter().map(Some).collect()),
        values => Err(WrongOptions::NotInTurn { option, given: values.len(), targets }),
    }
}

impl Wanted {
    /// The password, empty where none is given.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn password(&self) -> Result<Zeroizing<String>, Trouble> {
        match &self.password_file {
            Some(path) => first_line(path),
            None => Ok(Zeroizing::new(std::env::var(PASSWORD_VARIABLE).unwrap_or_default())),
        }
    }
}

fn first_line(path: &Path) -> Result<Zeroizing<String>, Trouble> {
    let text = std::fs::read_to_string(path).map_err(|error| Trouble::File {
        option: "--password-file",
        path: path.to_owned(),
        error,
    })?;
    let text = Zeroizing::new(text);
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// The shortest time between two looks, in seconds: below, a person sees no difference and the admin port does.
const SHORTEST: f64 = 0.2;
/// The longest, half an hour: a connection that is silent for an hour is closed by the admin port.
const LONGEST: f64 = 1800.0;

/// A text that is no time between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NoInterval;

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be from {SHORTEST} to {LONGEST} seconds")
    }
}

impl std::error::Error for NoInterval {}

fn interval(text: &str) -> Result<Duration, NoInterval> {
    match text.parse::<f64>() {
        Ok(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(NoInterval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("onramp top").chain(words.split_whitespace()))
    }

    /// What is asked, or why nothing is.
    fn asked(words: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        Ok(parsed(words)?.wanted()?.iter().map(|wanted| wanted.target.text()).collect())
    }

    #[test]
    fn defaults_are_an_admin_port_of_this_machine() {
        let options = parsed("").unwrap();
        assert_eq!((options.interval, options.rows), (Duration::from_secs(1), 200));
        assert_eq!(asked("").unwrap(), ["127.0.0.1:33062"]);
        assert_eq!(asked("--host ::1 --port 5").unwrap(), ["[::1]:5"]);
        assert_eq!(asked("--socket /run/admin").unwrap(), ["/run/admin"]);
        // A socket is in place of host and port.
        assert_eq!(asked("--socket /run/a,b --host db1").unwrap(), ["/run/a,b"]);
        let wanted = options.wanted().unwrap();
        assert_eq!((wanted[0].user.as_str(), &wanted[0].password_file), ("admin", &None));
    }

    #[test]
    fn several_are_a_list_or_one_after_the_other() {
        let three = ["db1:33062", "db2:5", "[::1]:6"];
        assert_eq!(asked("--host db1,db2:5,[::1]:6").unwrap(), three);
        assert_eq!(asked("--host db1 --host db2:5 --host [::1]:6").unwrap(), three);
        assert_eq!(asked("--port 7 --host a,b:8").unwrap(), ["a:7", "b:8"]);
        assert_eq!(asked("--socket /a --socket /b").unwrap(), ["/a", "/b"]);
        assert_eq!(asked("--host db1,/run/b").unwrap(), ["db1:33062", "/run/b"]);
    }

    #[test]
    fn users_and_passwords_are_for_all_or_for_each() {
        let of = |words: &str| -> Vec<(String, Option<String>)> {
            let wanted = parsed(words).unwrap().wanted().unwrap();
            let file = |wanted: &Wanted| wanted.password_file.as_ref().map(|path| path.display().to_string());
            wanted.iter().map(|wanted| (wanted.user.clone(), file(wanted))).collect()
        };
        let all = |user: &str, file: Option<&str>| (user.to_owned(), file.map(str::to_owned));
        assert_eq!(of("--host a,b"), [all("admin", None), all("admin", None)]);
        assert_eq!(of("--host a,b --user u --password-file f"), [all("u", Some("f")), all("u", Some("f"))]);
        let each = "--host a --password-file f --host b --password-file g --user u --user v";
        assert_eq!(of(each), [all("u", Some("f")), all("v", Some("g"))]);
        for words in ["--host a,b,c --password-file f --password-file g", "--user u --user v"] {
            let wrong = asked(words).unwrap_err().to_string();
            assert!(wrong.contains("once for all, or once for each"), "{wrong}");
        }
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
            "--host db1,DB1:33062",
            "--host a,,b",
            "--host a:0",
            "--host /run/a --tls",
            "--socket /a --socket /a",
        ] {
            assert!(asked(words).is_err(), "{words}");
        }
        let many: Vec<String> = (0..65).map(|number| format!("db{number}")).collect();
        assert!(asked(&format!("--host {}", many.join(","))).unwrap_err().to_string().contains("at most 64"));
        assert!(asked(&format!("--host {}", many[..64].join(","))).is_ok());
    }

    #[test]
    fn a_missing_password_file_is_named() {
        let wanted = parsed("--password-file /nowhere/at/all").unwrap().wanted().unwrap();
        assert!(wanted[0].password().unwrap_err().to_string().contains("/nowhere/at/all"));
    }
}
