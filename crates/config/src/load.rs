//! From arguments, environment and file to a checked configuration.

use std::path::{Path, PathBuf};

use engine::Profile;

use crate::defaults::{defaults_of, groups_by_default};
use crate::error::{Instead, Misplaced};
use crate::live::Source;
use crate::options::{FILE_OPTION, NAMES_OF_CLIENTS, OPTIONS, OptionSpec};
use crate::together::check_together;
use crate::value::Given;
use crate::{Configuration, Error, Fault, Place, file, nearest};

/// Reads `arguments` (those after `onramp serve`), the variables of `environment` that start with `ONRAMP_`, and the
/// file that one of them names, and checks all of it.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn load<'a>(
    arguments: &'a [String],
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Configuration, Error> {
    let sources = Sources::new(arguments, environment)?;
    let mut configuration = sources.apply(Configuration::default())?;
    let profile = configuration.engine.profile;
    if profile != Profile::Native {
        // The profile's defaults stand below what is given, and one of them follows from how many groups there are in the end.
        let groups = sources.apply(defaults_of(profile, groups_by_default(profile), 1))?.workers;
        configuration = sources.apply(defaults_of(profile, groups_by_default(profile), groups))?;
    }
    configuration.engine.server_tls = configuration.tls.backend.of_engine();
    check_together(&configuration)?;
    Ok(configuration)
}

/// All that was given, the lowest rank first.
struct Sources<'a> {
    file: Option<(PathBuf, zeroize::Zeroizing<String>)>,
    variables: Vec<GivenOption<'a>>,
    flags: Vec<GivenOption<'a>>,
}

impl<'a> Sources<'a> {
    fn new(
        arguments: &'a [String],
        environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let flags = flags(arguments)?;
        let variables = variables(environment)?;
        // The file ranks below the environment and the flags, but one of them names it.
        let mut named = variables.iter().chain(&flags).filter(|given| given.option.name == FILE_OPTION);
        let file = match named.next_back() {
            Some(given) => {
                let mut configuration = Configuration::default();
                given.apply(&mut configuration)?;
                let text =
                    read(&configuration.file).map_err(|fault| Error::new(given.place.clone(), fault))?;
                Some((configuration.file, text))
            }
            None => None,
        };
        Ok(Self { file, variables, flags })
    }

    fn apply(&self, mut configuration: Configuration) -> Result<Configuration, Error> {
        if let Some((path, text)) = &self.file {
            file::apply(&mut configuration, path, text)?;
        }
        for given in self.variables.iter().chain(&self.flags) {
            given.apply(&mut configuration)?;
        }
        Ok(configuration)
    }
}

/// The words of flags or of a variable about one option.
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
            .map_err(|wrong| Error::new(self.place.clone(), wrong))
    }
}

/// `--name value` and `--name=value`, with `-` or `_` in the name.
fn flags(arguments: &[String]) -> Result<Vec<GivenOption<'_>>, Error> {
    let mut found: Vec<GivenOption<'_>> = Vec::new();
    let count = arguments.len();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let place = count - arguments.len();
        // Not repeated in the message: it may be a URL with a password.
        let stray = || Error::new(Place::CommandLine, Fault::Misplaced(Misplaced::Word(place)));
        let argument = argument.strip_prefix("--").ok_or_else(stray)?;
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let option = OptionSpec::find(name).ok_or_else(|| unknown_flag(name))?;
        // By the name that was given: an option may have others.
        let flag = format!("--{}", name.replace('_', "-"));
        let place = Place::Flag(flag.clone());
        let value = match value {
            Some(value) => value,
            None => arguments.as_slice().first().filter(|next| !next.starts_with("--")).ok_or_else(|| {
                let example = format!("{flag} {}", option.example);
                Error::new(place.clone(), Fault::Missing { example })
            })?,
        };
        if !argument.contains('=') {
            arguments.next();
        }
        match found.iter_mut().find(|given| given.option.name == option.name) {
            None => found.push(GivenOption { option, place, values: vec![value] }),
            Some(given) if option.kind.repeatable() => given.values.push(value),
            Some(_) => return Err(Error::new(place, Fault::Twice)),
        }
    }
    Ok(found)
}

fn unknown_flag(name: &str) -> Error {
    let instead = match nearest(name, OPTIONS.iter().map(|option| option.name)) {
        _ if NAMES_OF_CLIENTS.contains(&name.replace('-', "_").as_str()) => {
            Instead::Addresses { listen: "--listen", backend: "--backend" }
        }
        Some(name) => Instead::Option(format!("--{}", name.replace('_', "-"))),
        None => Instead::Nothing,
    };
    Error::new(Place::Flag(format!("--{name}")), Fault::UnknownOption { name: None, instead })
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
                    let instead = Instead::Option(option.environment());
                    return Err(Error::new(place, Fault::UnknownOption { name: None, instead }));
                }
            }
        };
        let values = if option.kind.repeatable() { value.split(',').collect() } else { vec![value] };
        found.push(GivenOption { option, place, values });
    }
    Ok(found)
}

/// The one thing that is opened here.
fn read(path: &Path) -> Result<zeroize::Zeroizing<String>, Fault> {
    std::fs::read_to_string(path)
        .map(zeroize::Zeroizing::new)
        .map_err(|error| Fault::Unreadable { path: path.into(), reason: error.to_string() })
}
