//! The command line: one declaration per option, from which parsing, help and suggestions come.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use drivers::DriverChoice;
use keys::Secret;

use crate::crowd::MOST_SESSION_STATES;
use crate::distribution::Shape;
use crate::errors::IgnoreErrors;
use crate::workload::{Tables, Workload};

/// `onramp bench` and all that follows.
#[derive(Parser, Debug)]
#[command(
    name = "onramp bench",
    about = "A load generator for MySQL servers and proxies, on the tables of sysbench",
    after_help = "Examples:\n  \
        onramp bench prepare --tables 4 --table-size 100000\n  \
        onramp bench run point_select --tables 4 --table-size 100000 --connections 4000 --time 30\n  \
        onramp bench run ledger --connections 64 --rate 500 && onramp bench check\n  \
        onramp bench run point_select --connections 100000 --warmup 5\n\n\
        Exit codes: 0 done, 1 the run or a check failed, 2 wrong options.",
    max_term_width = 110,
    disable_version_flag = true
)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// Create the tables of a workload and fill them
    Prepare(Box<TableOptions>),
    /// Put load on the server and report
    Run(Box<RunOptions>),
    /// Drop the tables of a workload
    Cleanup(Box<TableOptions>),
    /// Compare the ledger's sum of balances with what was put in
    Check(Box<ServerOptions>),
}

/// Where the server is and who logs in.
#[derive(Args, Clone, Debug)]
pub struct ServerOptions {
    /// Server names or addresses, as a list or repeated; connections are spread over them
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1", alias = "mysql-host")]
    pub host: Vec<String>,
    /// TCP port
    #[arg(long, default_value_t = 3306, alias = "mysql-port", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Unix socket, in place of host and port
    #[arg(long, value_name = "PATH", alias = "mysql-socket")]
    pub socket: Option<PathBuf>,
    /// Local addresses to connect from, as a list or repeated: each has its own ports [default: where the server is on
    /// the loopback device, as many of 127.0.0.1, 127.0.0.2 and on as the ports require; else the system's choice]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS", conflicts_with = "socket")]
    pub local_address: Vec<IpAddr>,
    /// User name
    #[arg(long, default_value = "root", alias = "mysql-user")]
    pub user: String,
    /// Password; the environment keeps it out of the list of processes
    #[arg(
        long,
        default_value = "",
        env = "ONRAMP_BENCH_PASSWORD",
        hide_env_values = true,
        alias = "mysql-password"
    )]
    pub password: Secret,
    /// Schema that holds the tables
    #[arg(long, default_value = "sbtest", alias = "mysql-db")]
    pub db: String,
}

/// Which tables, and what is in them.
#[derive(Args, Clone, Debug)]
pub struct TableOptions {
    /// The server.
    #[command(flatten)]
    pub server: ServerOptions,
    /// What to run, or whose tables are meant [default: point_select, whose tables serve all but ledger]
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<Workload>,
    /// The same as an option
    #[arg(
        long = "workload",
        value_name = "WORKLOAD",
        conflicts_with = "workload",
        hide_possible_values = true
    )]
    pub workload_option: Option<Workload>,
    /// Number of sbtest tables
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tables: u32,
    /// Rows in each table; accounts in the ledger
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub table_size: u32,
    /// Which rows the statements touch
    #[arg(long, value_enum, default_value_t = RandType::Special)]
    pub rand_type: RandType,
    /// Exponent of the zipfian distribution
    #[arg(long, default_value_t = 0.8, value_name = "E", value_parser = exponent)]
    pub rand_zipfian_exp: f64,
    /// Share of the rows that gets the remaining share of the statements, for pareto
    #[arg(long, default_value_t = 0.2, value_name = "H", value_parser = proper_fraction)]
    pub rand_pareto_h: f64,
    /// Seed of the random numbers [default: from the clock; the report names it]
    #[arg(long, alias = "rand-seed")]
    pub seed: Option<u64>,
}

/// How much load, for how long, and what is reported.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// The tables.
    #[command(flatten)]
    pub tables: TableOptions,
    /// Client connections
    #[arg(long, alias = "threads", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    /// Log in as one of N users on each connection: `--user` with a number from 1 to N at its end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub users: Option<u32>,
    /// Use one of N schemas on each connection: `--db` with a number from 1 to N at its end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub schemas: Option<u32>,
    /// Let the n-th user and schema have connections with a weight of 1 / n in place of as many as every other
    #[arg(long)]
    pub crowd_zipfian: bool,
    /// Log in as drivers do that are unlike each other: half of the connections without CLIENT_DEPRECATE_EOF, a third with
    /// CLIENT_MULTI_STATEMENTS
    #[arg(long)]
    pub mixed_drivers: bool,
    /// Give each connection one of N session states, by a SET of its character set and time zone behind the login; 0 leaves them
    /// as the login has them
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_SESSION_STATES)))]
    pub session_states: u32,
    /// Seconds to measure; 0 is until Ctrl-C, or until --events are done
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub time: Duration,
    /// Seconds of load before the measured time
    #[arg(long, default_value = "0", value_parser = seconds, alias = "warmup-time")]
    pub warmup: Duration,
    /// Stop after this many events; 0 is no limit
    #[arg(long, default_value_t = 0)]
    pub events: u64,
    /// Seconds between two lines of figures; 0 is none
    #[arg(long, default_value = "0", value_parser = seconds)]
    pub report_interval: Duration,
    /// Milliseconds that a connection waits after each event
    #[arg(long, default_value = "0", value_name = "MS", value_parser = milliseconds)]
    pub think_time: Duration,
    /// Events per second over all connections, at random moments, whether or not the server keeps up; latency counts
    /// from the moment at which an event was due
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub rate: Option<f64>,
    /// New connections per second at most [default: as fast as the server takes them, 256 logins at a time]
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub connect_rate: Option<f64>,
    /// How to talk to the system: uring (a connection takes no file descriptor), epoll, or auto, which is uring where it
    /// can be used
    #[arg(long, default_value_t = DriverChoice::Auto, value_name = "DRIVER")]
    pub driver: DriverChoice,
    /// Encrypt the connections that are measured; whose certificate the server shows does not matter
    #[arg(long)]
    pub tls: bool,
    /// Use prepared statements (COM_STMT_PREPARE, COM_STMT_EXECUTE) in place of texts
    #[arg(long)]
    pub prepared: bool,
    /// Error numbers after which the event is tried again: a list, `all` or `none`; lost connections are always opened
    /// again, unless this is `none`
    #[arg(long, default_value = IgnoreErrors::DEFAULT, value_name = "CODES", alias = "mysql-ignore-errors")]
    pub ignore_errors: IgnoreErrors,
    /// What becomes of an event that failed with an ignored error: `retry` begins it again at once, and its latency goes
    /// on; `drop` counts the error alone, and the connection goes on to its next event
    #[arg(long, default_value = "retry", value_name = "WHAT")]
    pub after_error: AfterError,
    /// Milliseconds after which an event that has not ended is given up, as an impatient client does it: the connection
    /// is closed and made anew, and the event is begun again; 0 is never
    #[arg(long, default_value = "0", value_name = "MS", value_parser = milliseconds)]
    pub give_up: Duration,
    /// Rows in a range
    #[arg(long, default_value_t = 100, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub range_size: u32,
    /// Milliseconds that a statement of the workload `sleep` takes
    #[arg(long, default_value = "1000", value_name = "MS", value_parser = milliseconds)]
    pub sleep_time: Duration,
    /// Write a line for each marker to a file (ledger and ledger_mix): microseconds since 1970, what its client knows (a it is stored, r it
    /// is not, u it may be), and the marker. The file grows for as long as the run goes on
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Write all figures to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What becomes of an event that failed with an ignored error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AfterError {
    /// Begin it again at once
    Retry,
    /// Leave it
    Drop,
}

/// Distributions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RandType {
    /// Every row as often as every other
    Uniform,
    /// The middle rows more often
    Gaussian,
    /// sysbench's default: three in four statements on 1 % of the rows
    Special,
    /// A share of the rows gets the rest of the statements
    Pareto,
    /// The n-th row with a weight of 1 / n^exponent
    Zipfian,
}

impl TableOptions {
    /// The workload that was named, whichever way.
    pub fn workload(&self) -> Workload {
        self.workload.or(self.workload_option).unwrap_or(Workload::PointSelect)
    }

    /// The distribution that was chosen.
    pub fn shape(&self) -> Shape {
        match self.rand_type {
            RandType::Uniform => Shape::Uniform,
            RandType::Gaussian => Shape::Gaussian,
            RandType::Special => Shape::Special,
            RandType::Pareto => Shape::Pareto { h: self.rand_pareto_h },
            RandType::Zipfian => Shape::Zipfian { exponent: self.rand_zipfian_exp },
        }
    }

    /// What cannot be said by the declarations above.
    ///
    /// # Errors
    /// What makes no sense together.
    pub fn check(&self) -> Result<(), WrongOptions> {
        if self.workload().tables() == Tables::Ledger && self.table_size < 2 {
            return Err(WrongOptions::SmallLedger);
        }
        Ok(())
    }
}

impl RunOptions {
    /// What cannot be said by the declarations above.
    ///
    /// # Errors
    /// What makes no sense together.
    pub fn check(&self) -> Result<(), WrongOptions> {
        let (connections, accounts) = (self.connections, self.tables.table_size);
        if self.tables.workload() == Workload::ReadOwnWrites && connections > accounts {
            return Err(WrongOptions::FewAccounts { accounts, connections });
        }
        if self.journal.is_some() && !self.tables.workload().plan().has_markers() {
            return Err(WrongOptions::NoMarkers(self.tables.workload()));
        }
        self.tables.check()
    }

    /// How the connections are spread over users and schemas, where there are several.
    pub fn crowd_shape(&self) -> Shape {
        // Zipf's law as it was found: the n-th has a weight of 1 / n.
        if self.crowd_zipfian { Shape::Zipfian { exponent: 1.0 } } else { Shape::Uniform }
    }
}

/// What options make no sense together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongOptions {
    /// A ledger has too few accounts for a transfer.
    SmallLedger,
    /// More connections read their own writes than there are accounts.
    FewAccounts {
        /// How many there are.
        accounts: u32,
        /// How many are needed.
        connections: u32,
    },
    /// There is to be a journal of a workload that writes none.
    NoMarkers(Workload),
}

impl fmt::Display for WrongOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallLedger => f.write_str("a ledger needs a --table-size of 2 accounts or more"),
            Self::FewAccounts { accounts, connections } => write!(
                f,
                "read_own_writes: each connection needs an account of its own, and there are {accounts} for {connections}; give \
                 --table-size {connections}, to `bench prepare` too"
            ),
            Self::NoMarkers(workload) => {
                write!(f, "--journal: {} leaves no markers; ledger and ledger_mix do", workload.name())
            }
        }
    }
}

impl std::error::Error for WrongOptions {}

/// Why a text is no value of an option. The parser of options says of which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoValue {
    /// The text is no number.
    NoNumber,
    /// The text is a number out of this range, which is written as people read it.
    OutOfRange(&'static str),
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => f.write_str("not a number"),
            Self::OutOfRange(range) => write!(f, "must be {range}"),
        }
    }
}

impl std::error::Error for NoValue {}

fn number(text: &str) -> Result<f64, NoValue> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(NoValue::NoNumber),
    }
}

/// The longest time that an option takes, a year: longer ones are slips, and sums of times stay far from overflow.
const LONGEST: f64 = 366.0 * 86_400.0;

fn seconds(text: &str) -> Result<Duration, NoValue> {
    match number(text)? {
        value if (0.0..=LONGEST).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err(NoValue::OutOfRange("from 0 seconds to a year")),
    }
}

fn milliseconds(text: &str) -> Result<Duration, NoValue> {
    match number(text)? {
        value if (0.0..=LONGEST * 1000.0).contains(&value) => Ok(Duration::from_secs_f64(value / 1000.0)),
        _ => Err(NoValue::OutOfRange("from 0 milliseconds to a year")),
    }
}

fn positive(text: &str) -> Result<f64, NoValue> {
    match number(text)? {
        // Below, the next event lies years ahead; above, the clock's microseconds no longer tell events apart.
        value if (0.000_1..=10_000_000.0).contains(&value) => Ok(value),
        _ => Err(NoValue::OutOfRange("from 0.0001 to 10000000")),
    }
}

fn exponent(text: &str) -> Result<f64, NoValue> {
    match number(text)? {
        // Above 10, every draw but one in a thousand is row 1.
        value if (0.0..=10.0).contains(&value) => Ok(value),
        _ => Err(NoValue::OutOfRange("from 0 to 10")),
    }
}

fn proper_fraction(text: &str) -> Result<f64, NoValue> {
    match number(text)? {
        value if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err(NoValue::OutOfRange("between 0 and 1")),
    }
}
