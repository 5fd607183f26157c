//! The command line of `onramp challenge`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches as _, Parser};
use keys::Secret;

use crate::cpu_share;
use crate::error::{Error, WrongOptions};

/// `onramp challenge` and all that follows.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "onramp challenge",
    about = "100,000 clients on this machine: Onramp in front of a server, and the same server without it, measured \
             alternately; writes report.html and report.json",
    after_help = "Examples:\n  \
        onramp challenge\n  \
        onramp challenge --steps 1000,4000,10000 --time 5\n  \
        onramp challenge --backend mysql://onramp:secret@10.0.0.5/ --user app --db sbtest --skip-direct\n  \
        onramp challenge --find-knee --direct\n  \
        onramp challenge --servers 3\n\n\
        Without --backend it creates a MariaDB server in a temporary folder, which is gone afterwards, as is everything \
        it starts.\n\n\
        Exit codes: 0 every step through Onramp was reached without errors, or the ledger of a failover is right, 1 not so, \
        2 wrong options. Direct steps may \
        fail: how far the server gets by itself is part of the result. The report is written in any case.",
    max_term_width = 110,
    disable_version_flag = true
)]
pub(crate) struct Options {
    /// With more than one: a primary and replicas that replicate from it, and in place of the steps a failover. The primary is killed
    /// (kill -9) while clients go on, and the replica that has most takes its place; afterwards what clients were told is held
    /// against what is stored. 2 is one replica, and no second one behind the new primary; 3 is the usual
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_SERVERS))]
    pub(crate) servers: u32,
    /// Clients of Onramp with several --servers
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=LARGEST_STEP))]
    pub(crate) clients: u32,
    /// Clients of Onramp, step by step
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1000,10000,25000,50000,75000,100000",
          value_parser = clap::value_parser!(u32).range(1..=LARGEST_STEP))]
    pub(crate) steps: Vec<u32>,
    /// Connections to the server without Onramp, step by step
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "4,16,64,256,1024,4000,15000",
          value_parser = clap::value_parser!(u32).range(1..=LARGEST_STEP))]
    pub(crate) direct_steps: Vec<u32>,
    /// Measure nothing without Onramp
    #[arg(long)]
    pub(crate) skip_direct: bool,
    /// How often everything is measured; the report shows medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Seconds that each step is measured for; with several --servers, before the primary is killed, and once more after the new one serves
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = measured_time)]
    pub(crate) time: Duration,
    /// Seconds of load before that
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// What each client does, as `onramp bench run --help` lists it
    #[arg(long, default_value = "point_select")]
    pub(crate) workload: String,
    /// Number of tables
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tables: u32,
    /// Rows in each table; with several --servers, accounts
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub(crate) table_size: u32,
    /// Event loops of Onramp [default: what `onramp serve` chooses]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// How Onramp and the load generator talk to the kernel [default: what they choose]
    #[arg(long, value_parser = ["auto", "uring", "epoll"])]
    pub(crate) driver: Option<String>,
    /// More options for `onramp serve`, such as "--permits 8"
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub(crate) serve_options: String,
    /// An existing server, in place of a private one: the URL of Onramp's service account, as for `onramp serve`
    #[arg(long, value_name = "URL", env = "ONRAMP_BACKEND", hide_env_values = true)]
    pub(crate) backend: Option<Secret>,
    /// Who the clients log in as [default: the account in --backend]
    #[arg(long, requires = "backend")]
    pub(crate) user: Option<String>,
    /// Their password; the environment keeps it out of the list of processes
    #[arg(long, env = "ONRAMP_BENCH_PASSWORD", hide_env_values = true)]
    pub(crate) password: Option<Secret>,
    /// The schema with the tables
    #[arg(long, default_value = "sbtest")]
    pub(crate) db: String,
    /// Create the tables on the server of --backend; without this they have to be there
    #[arg(long, requires = "backend")]
    pub(crate) prepare: bool,
    /// Hold each private server to so many cores, such as 0.4: then it is what is short, and not the machine that it shares
    /// with the load generator. Takes root and the cpu controller of control groups
    #[arg(long, value_name = "CORES", conflicts_with = "backend", value_parser = cores)]
    pub(crate) server_cpus: Option<f64>,
    /// The folder with the private server's programs [default: PATH and the system's folders]
    #[arg(long, value_name = "FOLDER", conflicts_with = "backend")]
    pub(crate) server_directory: Option<PathBuf>,
    /// Where the temporary folder is made [default: TMPDIR, or /tmp]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) work_directory: Option<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "FOLDER", default_value = "./challenge-report")]
    pub(crate) report: PathBuf,
    /// How long all of it may take, such as 90s or 10m; what no longer fits is left out, direct steps first
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = measured_time)]
    pub(crate) time_limit: Duration,
    /// Instead of the steps: double the connections until more of them bring nothing but longer answers, and name the
    /// useful maximum
    #[arg(long)]
    pub(crate) find_knee: bool,
    /// Find the knee of the server without Onramp
    #[arg(long, requires = "find_knee")]
    pub(crate) direct: bool,
}

/// Ten times what this is for; the range of `max_connections`.
const LARGEST_STEP: i64 = 1_000_000;

/// A failover among more shows nothing else, and takes their memory.
const MOST_SERVERS: i64 = 5;

/// Options that say something about steps alone, by their names in the struct, which are clap's.
const OF_STEPS: [&str; 9] =
    ["steps", "direct_steps", "skip_direct", "rounds", "warmup", "workload", "tables", "find_knee", "direct"];

/// Options that say something about a failover alone, likewise.
const OF_A_FAILOVER: [&str; 1] = ["clients"];

/// Why a text is no value of an option. The parser of options says of which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoValue {
    /// The text is no number of cores, or one out of range.
    NoCores,
    /// The text is no time, or a longer one than is taken for no slip.
    NoTime,
    /// The text is a time in which nothing can be measured.
    ZeroTime,
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCores => {
                let (least, most) = (cpu_share::RANGE.start(), cpu_share::RANGE.end());
                write!(f, "not a number of cores from {least} to {most}")
            }
            Self::NoTime => f.write_str("a time from 0 to a day is written as 10, 90s, 10m or 1h"),
            Self::ZeroTime => f.write_str("must be more than 0"),
        }
    }
}

impl std::error::Error for NoValue {}

fn cores(text: &str) -> Result<f64, NoValue> {
    let cores = text.parse::<f64>().ok().filter(|cores| cpu_share::RANGE.contains(cores));
    cores.ok_or(NoValue::NoCores)
}

impl Options {
    /// Reads the words, the program's name first.
    ///
    /// # Errors
    /// What clap says; and that an option has no part in what is asked for.
    pub(crate) fn read(words: impl IntoIterator<Item = String>) -> Result<Result<Self, Error>, clap::Error> {
        let matches = <Self as CommandFactory>::command().try_get_matches_from(words)?;
        let options = Self::from_arg_matches(&matches)?;
        let is_given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let no_part = |name: &str, instead| {
            let option = format!("--{}", name.replace('_', "-"));
            Ok(Err(Error::Options(WrongOptions::NoPart { option, instead })))
        };
        if options.servers == 1 {
            return match OF_A_FAILOVER.iter().find(is_given) {
                Some(name) => no_part(
                    name,
                    "with one server: name the numbers of clients with --steps, or give --servers 3",
                ),
                None => Ok(Ok(options)),
            };
        }
        if options.backend.is_some() {
            return no_part(
                "backend",
                "with several --servers, which are started for the run: leave it out (ONRAMP_BACKEND too), or leave out --servers",
            );
        }
        match OF_STEPS.iter().find(is_given) {
            Some(name) => no_part(
                name,
                "with several --servers: say with --clients how many clients there are, with --time how long they go on before \
                 the primary is killed and after, and with --table-size how many accounts they write to",
            ),
            None => Ok(Ok(options)),
        }
    }

    /// The most connections that anything here opens to Onramp.
    pub(crate) fn most_clients(&self) -> u32 {
        if self.servers > 1 {
            return self.clients;
        }
        self.steps.iter().copied().max().unwrap_or(1)
    }

    /// The most connections that anything here opens to the server itself.
    pub(crate) fn most_direct(&self) -> u32 {
        if self.skip_direct { 1 } else { self.direct_steps.iter().copied().max().unwrap_or(1) }
    }
}

/// A time of more than nothing.
fn measured_time(text: &str) -> Result<Duration, NoValue> {
    match duration(text)? {
        Duration::ZERO => Err(NoValue::ZeroTime),
        time => Ok(time),
    }
}

/// Seconds, or a number with `s`, `m` or `h` behind it.
fn duration(text: &str) -> Result<Duration, NoValue> {
    /// A day: longer ones are slips.
    const LONGEST: f64 = 86_400.0;
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if (0.0..=LONGEST).contains(&(number * unit)) => {
            Ok(Duration::from_secs_f64(number * unit))
        }
        _ => Err(NoValue::NoTime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        let words = std::iter::once("onramp challenge").chain(words.iter().copied());
        Options::try_parse_from(words)
    }

    #[test]
    fn the_defaults_are_the_challenge() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.steps, [1_000, 10_000, 25_000, 50_000, 75_000, 100_000]);
        assert_eq!(options.most_clients(), 100_000);
        assert_eq!(options.most_direct(), 15_000);
        assert_eq!((options.time, options.warmup), (Duration::from_secs(10), Duration::from_secs(2)));
        assert_eq!(options.time_limit, Duration::from_secs(600));
    }

    #[test]
    fn wrong_options_are_named_with_what_is_right() {
        for (words, said) in [
            (&["--steps", "0"][..], "0 is not in 1..=1000000"),
            (&["--steps", "10,many"], "invalid value 'many'"),
            (&["--time", "0"], "must be more than 0"),
            (&["--time-limit", "2 days"], "10, 90s, 10m or 1h"),
            (&["--driver", "kqueue"], "[possible values: auto, uring, epoll]"),
            (&["--direct"], "--find-knee"),
            (&["--user", "app"], "--backend"),
            (&["--stepps", "10"], "--steps"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("1h", 3600.0), ("0.5", 0.5)] {
            assert_eq!(duration(text).map(|time| time.as_secs_f64()), Ok(seconds), "{text}");
        }
        for text in ["", "m", "-1", "ten", "25h", "nan", "1é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_has_no_part_in_a_failover_is_said() {
        let read = |line: &str| {
            let words = std::iter::once("onramp challenge").chain(line.split(' ')).map(String::from);
            match Options::read(words) {
                Ok(Ok(options)) => Ok((options.servers, options.most_clients())),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        assert_eq!(read("--servers 3"), Ok((3, 1_000)));
        assert_eq!(read("--servers 2 --clients 50 --time 3 --table-size 10"), Ok((2, 50)));
        assert_eq!(read("--servers 1 --steps 5"), Ok((1, 5)));
        for (line, names) in [
            ("--servers 0", "--servers"),
            ("--servers 6", "1..=5"),
            ("--servers 3 --clients 0", "--clients"),
            ("--servers 3 --steps 5", "--steps has no part with several --servers: say with --clients"),
            ("--servers 3 --find-knee", "--find-knee has no part"),
            ("--servers 3 --backend mysql://a@b/", "leave it out (ONRAMP_BACKEND too)"),
            (
                "--clients 5",
                "--clients has no part with one server: name the numbers of clients with --steps",
            ),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(names), "{line}: {error}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let options = parse(&["--backend", "mysql://a:hidden@b/", "--password", "hidden"]).unwrap();
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
