//! The command line.

use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "\
differential [--onramp PROGRAM] [--seed N] [--seconds N | --minutes N] [--steps N] [--stop-at N] [--kept FOLDER]
             [--programs N] [--clients N] [--found FOLDER] [--replay FILE] [--in-order] [--twins]
             [--server-directory FOLDER] [--leaks] [--without WORD]

  --onramp    the program under test; default: onramp beside this program
  --seed      the first seed; the next ones follow; default 1
  --seconds   no new program is begun after this long; default 120
  --programs  this many programs, however long they take, instead of --seconds
  --steps     steps of a program, of all clients together; default 300
  --clients   of programs with a crowd, up to this many; default 400
  --stop-at   stop after this many programs with differences; default 3
  --kept      a folder with programs that run first
  --found     where programs with differences are written; default: target/differential
  --replay    run this program alone
  --in-order  no programs in which all clients go on at once: the same happens in each run
  --twins     without Onramp: what differs between the two servers is a mistake in the programs
  --server-directory  where mysqld or mariadbd is; default: as installed
  --leaks     the other test: programs of one client each, and what is left on its backend when it has gone
  --without   of those, none that has this in it, in letters of any case: what is known already; can be given again";

/// What a run is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) onramp: PathBuf,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) programs: Option<u64>,
    pub(crate) steps: usize,
    pub(crate) clients: usize,
    pub(crate) stop_at: usize,
    pub(crate) kept: Option<PathBuf>,
    pub(crate) found: PathBuf,
    pub(crate) replay: Option<PathBuf>,
    pub(crate) in_order: bool,
    pub(crate) twins: bool,
    pub(crate) leaks: bool,
    pub(crate) without: Vec<String>,
    /// Empty for the system's server.
    pub(crate) server_directory: PathBuf,
}

impl Options {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// What is wrong, and how it is used.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("onramp")));
        let mut options = Self {
            onramp: beside.unwrap_or_else(|| PathBuf::from("onramp")),
            seed: 1,
            duration: Duration::from_secs(120),
            programs: None,
            steps: 300,
            clients: 400,
            stop_at: 3,
            kept: None,
            found: PathBuf::from("target/differential"),
            replay: None,
            in_order: false,
            twins: false,
            leaks: false,
            without: Vec::new(),
            server_directory: PathBuf::new(),
        };
        while let Some(name) = arguments.next() {
            let switch = match name.as_str() {
                "--twins" => Some(&mut options.twins),
                "--leaks" => Some(&mut options.leaks),
                "--in-order" => Some(&mut options.in_order),
                _ => None,
            };
            if let Some(switch) = switch {
                *switch = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} has no value\n\n{USAGE}"))?;
            let number =
                || value.parse::<u32>().map_err(|_| format!("{name} {value}: not a number\n\n{USAGE}"));
            match name.as_str() {
                "--onramp" => options.onramp = PathBuf::from(&value),
                "--seed" => options.seed = u64::from(number()?),
                "--seconds" => options.duration = Duration::from_secs(u64::from(number()?)),
                "--minutes" => options.duration = Duration::from_secs(60 * u64::from(number()?)),
                "--programs" => options.programs = Some(u64::from(number()?)),
                "--steps" => options.steps = number()? as usize,
                "--clients" => options.clients = (number()? as usize).max(2),
                "--stop-at" => options.stop_at = number()? as usize,
                "--kept" => options.kept = Some(PathBuf::from(&value)),
                "--found" => options.found = PathBuf::from(&value),
                "--replay" => options.replay = Some(PathBuf::from(&value)),
                "--without" => options.without.push(value.to_ascii_lowercase()),
                "--server-directory" => options.server_directory = PathBuf::from(&value),
                _ => return Err(format!("{name} is not known\n\n{USAGE}")),
            }
        }
        options.onramp = std::path::absolute(&options.onramp).map_err(|error| error.to_string())?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_mistakes_are_named() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(ToString::to_string));
        let options = parse(&["--seed", "7", "--minutes", "2", "--replay", "a.txt"]).unwrap();
        assert_eq!((options.seed, options.duration), (7, Duration::from_secs(120)));
        assert_eq!(options.replay, Some(PathBuf::from("a.txt")));
        assert_eq!(parse(&["--clients", "1"]).unwrap().clients, 2, "a crowd is two");
        let options = parse(&["--in-order", "--programs", "5"]).unwrap();
        assert!(options.in_order && !options.twins && options.programs == Some(5));
        assert!(parse(&["--seed"]).is_err_and(|error| error.contains("no value")));
        assert!(parse(&["--seed", "x"]).is_err_and(|error| error.contains("not a number")));
        assert!(parse(&["--sede", "1"]).is_err_and(|error| error.contains("not known")));
    }
}
