//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Random programs against a server, direct and through Onramp, compared packet by packet.
#[derive(Debug, PartialEq, Eq, Parser)]
#[command(name = "differential")]
pub(crate) struct Options {
    /// The program under test.
    #[arg(long, value_name = "PROGRAM", default_value_os_t = beside())]
    pub(crate) onramp: PathBuf,
    /// The first seed; the next ones follow.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// No new program is begun after this long.
    #[arg(long = "seconds", value_name = "N", default_value = "120", value_parser = seconds)]
    pub(crate) duration: Duration,
    /// This many programs, however long they take, instead of --seconds.
    #[arg(long, value_name = "N")]
    pub(crate) programs: Option<u64>,
    /// Steps of a program, of all clients together.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) steps: usize,
    /// Of programs with a crowd, up to this many; a crowd is two.
    #[arg(long, value_name = "N", default_value = "400", value_parser = crowd)]
    pub(crate) clients: usize,
    /// Stop after this many programs with differences.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) stop_at: usize,
    /// A folder with programs that run first.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) kept: Option<PathBuf>,
    /// Where programs with differences are written.
    #[arg(long, value_name = "FOLDER", default_value = "target/differential")]
    pub(crate) found: PathBuf,
    /// Run this program alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// No programs in which all clients go on at once: the same happens in each run.
    #[arg(long)]
    pub(crate) in_order: bool,
    /// Without Onramp: what differs between the two servers is a mistake in the programs.
    #[arg(long)]
    pub(crate) twins: bool,
    /// The other test: programs of one client each, and what is left on its backend when it has gone.
    #[arg(long)]
    pub(crate) leaks: bool,
    /// Of those, none that has this in it, in letters of any case: what is known already; can be given again.
    #[arg(long, value_name = "WORD", value_parser = lower_case)]
    pub(crate) without: Vec<String>,
    /// Where mysqld or mariadbd is [default: as installed].
    #[arg(long, value_name = "FOLDER", default_value = "", hide_default_value = true, value_parser = path)]
    pub(crate) server_directory: PathBuf,
}

/// Onramp, as it was built with this program.
fn beside() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("onramp")));
    beside.unwrap_or_else(|| PathBuf::from("onramp"))
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

fn crowd(text: &str) -> Result<usize, std::num::ParseIntError> {
    text.parse().map(|clients: usize| clients.max(2))
}

/// Which may be empty.
fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

fn lower_case(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_mistakes_are_named() {
        let parse = |words: &[&str]| {
            Options::try_parse_from(std::iter::once(&"differential").chain(words))
                .map_err(|error| error.to_string())
        };
        let options = parse(&["--seed", "7", "--seconds", "60", "--replay", "a.txt"]).unwrap();
        assert_eq!((options.seed, options.duration), (7, Duration::from_secs(60)));
        assert_eq!(options.replay, Some(PathBuf::from("a.txt")));
        assert_eq!(parse(&["--clients", "1"]).unwrap().clients, 2, "a crowd is two");
        let options = parse(&["--in-order", "--programs", "5", "--without", "SLEEP"]).unwrap();
        assert!(options.in_order && !options.twins && options.programs == Some(5));
        assert_eq!(
            (options.without, options.server_directory),
            (vec![String::from("sleep")], PathBuf::new())
        );
        assert!(parse(&["--seed"]).is_err_and(|error| error.contains("value is required")));
        assert!(parse(&["--seed", "x"]).is_err_and(|error| error.contains("invalid digit")));
        assert!(parse(&["--sede", "1"]).is_err_and(|error| error.contains("--seed")), "a slip");
    }
}
