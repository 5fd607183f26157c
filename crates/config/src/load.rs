//! From arguments, environment and file to a checked configuration.

use std::path::Path;

use crate::live::Source;
use crate::options::{FILE_OPTION, OPTIONS, OptionSpec};
use crate::value::Given;
use crate::{Configuration, Error, Place, file, nearest};

/// Reads `arguments` (those after `onramp serve`), the variables of `environment` that start with `ONRAMP_`, and the
/// file that one of them names, and checks all of it.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn load<'a>(
    arguments: &[String],
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Configuration, Error> {
    let flags = flags(arguments)?;
    let variables = variables(environment)?;
    let mut configuration = Configuration::blank();
    for option in OPTIONS.iter().filter(|option| !option.default.is_empty()) {
        let applied = option.kind.apply(&mut configuration, &[Given::Bare(option.default)]);
        applied.expect("a test applies every default");
    }
    // The file's name first: the file ranks below the environment and the flags, but one of them names it.
    let mut named = variables.iter().chain(&flags).filter(|given| given.option.name == FILE_OPTION);
    if let Some(given) = named.next_back() {
        given.apply(&mut configuration)?;
        let path = configuration.file.clone();
        file::apply(&mut configuration, &path, &read(&path)?)?;
    }
    for given in variables.iter().chain(&flags) {
        given.apply(&mut configuration)?;
    }
    check_together(&configuration)?;
    Ok(configuration)
}

/// What flags or a variable say about one option.
struct GivenOption<'a> {
    option: &'static OptionSpec,
    place: Place,
    values: Vec<&'a str>,
}

impl GivenOption<'_> {
    fn apply(&self, configuration: &mut Configuration) -> Result<(), Error> {
        let values: Vec<_> = self.values.iter().map(|value| Given::Bare(value)).collect();
        let source = match self.place {
            Place::Environment(_) => Source::Environment,
            _ => Source::Flag,
        };
        configuration
            .choose(self.option, &values, source)
            .map_err(|message| Error::new(self.place.clone(), message))
    }
}

/// `--name value` and `--name=value`, with `-` or `_` in the name.
fn flags(arguments: &[String]) -> Result<Vec<GivenOption<'_>>, Error> {
    let mut found: Vec<GivenOption<'_>> = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        // Not repeated in the message: it may be a URL with a password.
        let stray =
            || Error::new(Place::CommandLine, "options start with --, such as --backend mysql://user@host/");
        let argument = argument.strip_prefix("--").ok_or_else(stray)?;
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let option = OptionSpec::find(name).ok_or_else(|| unknown_flag(name))?;
        let place = Place::Flag(option.flag());
        let value = match value {
            Some(value) => value,
            None => arguments.as_slice().first().filter(|next| !next.starts_with("--")).ok_or_else(|| {
                let example = format!("no value given, such as {} {}", option.flag(), option.example);
                Error::new(place.clone(), example)
            })?,
        };
        if !argument.contains('=') {
            arguments.next();
        }
        match found.iter_mut().find(|given| given.option.name == option.name) {
            None => found.push(GivenOption { option, place, values: vec![value] }),
            Some(given) if option.kind.repeatable() => given.values.push(value),
            Some(_) => return Err(Error::new(place, "given twice")),
        }
    }
    Ok(found)
}

fn unknown_flag(name: &str) -> Error {
    let message = match nearest(name, OPTIONS.iter().map(|option| option.name)) {
        Some(name) => format!("unknown option; did you mean --{}?", name.replace('_', "-")),
        None => String::from("unknown option; `onramp serve --help` lists them all"),
    };
    Error::new(Place::Flag(format!("--{name}")), message)
}

/// Variables that name an option; an empty one counts as not set. Lists are separated by commas. A name that is merely
/// near to an option's is taken for a slip; others may belong to somebody else.
fn variables<'a>(
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<GivenOption<'a>>, Error> {
    let mut found = Vec::new();
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix("ONRAMP_") else { continue };
        if value.is_empty() {
            continue;
        }
        let place = Place::Environment(String::from(variable));
        let name = name.to_ascii_lowercase();
        // In capitals: `ONRAMP_permits` is a slip.
        let written = variable.bytes().all(|byte| !byte.is_ascii_lowercase());
        let Some(option) = OptionSpec::find(&name).filter(|_| written) else {
            match nearest(&name, OPTIONS.iter().map(|option| option.name)).and_then(OptionSpec::find) {
                None => continue,
                Some(option) => {
                    let message = format!("unknown option; did you mean {}?", option.environment());
                    return Err(Error::new(place, message));
                }
            }
        };
        let values = if option.kind.repeatable() { value.split(',').collect() } else { vec![value] };
        found.push(GivenOption { option, place, values });
    }
    Ok(found)
}

/// The one thing that is opened here.
fn read(path: &Path) -> Result<zeroize::Zeroizing<String>, Error> {
    std::fs::read_to_string(path).map(zeroize::Zeroizing::new).map_err(|error| {
        Error::new(Place::File { path: path.into(), line: 0 }, format!("the file cannot be read: {error}"))
    })
}

pub(crate) fn check_together(configuration: &Configuration) -> Result<(), Error> {
    let engine = &configuration.engine;
    if engine.statement_memory < engine.max_allowed_packet {
        return Err(Error::new(
            Place::Together,
            format!(
                "statement_memory ({} bytes) is below max_allowed_packet ({} bytes): the largest statement would never fit",
                engine.statement_memory, engine.max_allowed_packet
            ),
        ));
    }
    if configuration.workers > engine.max_backends {
        return Err(Error::new(
            Place::Together,
            format!(
                "workers ({}) is above max_backends ({}): each worker needs a backend of its own",
                configuration.workers, engine.max_backends
            ),
        ));
    }
    let private = configuration.backends.is_empty();
    if !configuration.admin_listen.is_empty() && configuration.admin_password.is_empty() && !private {
        return Err(Error::new(
            Place::Together,
            "admin_listen is given without admin_password: whoever reaches the admin port could do as they like; set \
             one, best in the file or the environment",
        ));
    }
    let same_account =
        |pair: &[crate::BackendUrl]| pair[0].user == pair[1].user && pair[0].password == pair[1].password;
    if !configuration.backends.windows(2).all(same_account) {
        return Err(Error::new(
            Place::Together,
            "backend: the addresses are those of one server, so all carry the same user and password",
        ));
    }
    Ok(())
}
