//! From arguments, environment and file to a checked configuration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use engine::Profile;

use crate::credentials::{self, Credential};
use crate::defaults::{defaults_of, groups_by_default};
use crate::error::{Instead, Misplaced};
use crate::live::Source;
use crate::options::{FILE_OPTION, NAMES_OF_CLIENTS, OPTIONS, OptionSpec};
use crate::together::conflicts;
use crate::value::{Given, Kind};
use crate::{Configuration, Error, Fault, Place, content, file, nearest};

/// Reads `arguments` (those after `onramp serve`), the variables of `environment` that start with `ONRAMP_`, the credentials in the
/// folder that `CREDENTIALS_DIRECTORY` names there, and the file that one of them names, and checks all of it.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn load<'a>(
    arguments: &'a [String],
    environment: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) -> Result<Configuration, Error> {
    check(arguments, environment).map_err(|mut faults| faults.remove(0))
}

/// As [`load()`].
///
/// # Errors
/// All that is wrong, each with its place; never empty. Which values do not go together is only known once each is right by
/// itself.
pub fn check<'a>(
    arguments: &'a [String],
    environment: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) -> Result<Configuration, Vec<Error>> {
    let mut faults = Vec::new();
    let sources = Sources::new(arguments, environment, &mut faults);
    let mut configuration = sources.apply(Configuration::default(), &mut faults);
    let profile = configuration.engine.profile;
    if profile != Profile::Native {
        // The profile's defaults stand below what is given, and one of them follows from how many groups there are in the end.
        // What is wrong is known by now.
        let again = |defaults| sources.apply(defaults, &mut Vec::new());
        let groups = again(defaults_of(profile, groups_by_default(profile), 1)).workers;
        configuration = again(defaults_of(profile, groups_by_default(profile), groups));
    }
    configuration.engine.server_tls = configuration.tls.backend.of_engine();
    if faults.is_empty() {
        faults = conflicts(&configuration).into_iter().map(Error::from).collect();
    }
    if faults.is_empty() { Ok(configuration) } else { Err(faults) }
}

/// All that was given, the lowest rank first.
struct Sources<'a> {
    file: Option<(PathBuf, zeroize::Zeroizing<String>)>,
    credentials: Vec<Credential>,
    variables: Vec<GivenOption<'a>>,
    flags: Vec<GivenOption<'a>>,
}

impl<'a> Sources<'a> {
    fn new(
        arguments: &'a [String],
        environment: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
        faults: &mut Vec<Error>,
    ) -> Self {
        let flags = flags(arguments, faults);
        let (variables, folder) = variables(environment, faults);
        let credentials = folder.map_or_else(Vec::new, |folder| credentials::read(folder.as_ref(), faults));
        // The file ranks below the environment and the flags, but one of them names it.
        let mut named = variables.iter().chain(&flags).filter(|given| given.option.name == FILE_OPTION);
        let file = named.next_back().and_then(|given| {
            let mut configuration = Configuration::default();
            // A name that is none is said when all values are looked at.
            given.apply(&mut configuration).ok()?;
            match read(&configuration.file) {
                Ok(text) => Some((configuration.file, text)),
                Err(fault) => {
                    faults.push(Error::new(given.place.clone(), fault));
                    None
                }
            }
        });
        Self { file, credentials, variables, flags }
    }

    fn apply(&self, mut configuration: Configuration, faults: &mut Vec<Error>) -> Configuration {
        if let Some((path, text)) = &self.file {
            file::apply(&mut configuration, path, text, faults);
        }
        for Credential { option, place, value } in &self.credentials {
            let values = values_of(option, value);
            let given = GivenOption { option, place: place.clone(), values };
            faults.extend(given.apply(&mut configuration).err());
        }
        for given in self.variables.iter().chain(&self.flags) {
            faults.extend(given.apply(&mut configuration).err());
        }
        configuration
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
            Place::Credential(_) => Source::Credential,
            _ => Source::Flag,
        };
        configuration
            .choose(self.option, &values, source)
            .map_err(|wrong| Error::new(self.place.clone(), wrong))
    }
}

/// `--name value` and `--name=value`, with `-` or `_` in the name.
fn flags<'a>(arguments: &'a [String], faults: &mut Vec<Error>) -> Vec<GivenOption<'a>> {
    let mut found: Vec<GivenOption<'_>> = Vec::new();
    let count = arguments.len();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let place = count - arguments.len();
        let Some(argument) = argument.strip_prefix("--") else {
            // Not repeated in the message: it may be a URL with a password.
            faults.push(Error::new(Place::CommandLine, Fault::Misplaced(Misplaced::Word(place))));
            continue;
        };
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => {
                let next = arguments.as_slice().first().filter(|next| !next.starts_with("--"));
                if next.is_some() {
                    arguments.next();
                }
                (argument, next.map(String::as_str))
            }
        };
        let Some(option) = OptionSpec::find(name) else {
            faults.push(unknown_flag(name));
            continue;
        };
        // By the name that was given: an option may have others.
        let flag = format!("--{}", name.replace('_', "-"));
        let place = Place::Flag(flag.clone());
        let Some(value) = value else {
            let example = format!("{flag} {}", option.example);
            faults.push(Error::new(place, Fault::Missing { example }));
            continue;
        };
        match found.iter_mut().find(|given| given.option.name == option.name) {
            None => found.push(GivenOption { option, place, values: vec![value] }),
            Some(given) if option.kind.repeatable() => given.values.push(value),
            Some(_) => faults.push(Error::new(place, Fault::Twice)),
        }
    }
    found
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

/// Variables that name an option; an empty one counts as not set. A name that is merely near to an option's is taken for a slip;
/// others may belong to somebody else. Beside them, the folder of credentials.
fn variables<'a>(
    environment: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
    faults: &mut Vec<Error>,
) -> (Vec<GivenOption<'a>>, Option<&'a OsStr>) {
    let (mut found, mut folder) = (Vec::new(), None);
    for (variable, value) in environment {
        if value.is_empty() {
            continue;
        }
        if variable == credentials::FOLDER_VARIABLE {
            folder = Some(value);
        }
        let Some(name) = variable.strip_prefix("ONRAMP_") else { continue };
        let place = Place::Environment(String::from(variable));
        let name = name.to_ascii_lowercase();
        // In capitals: `ONRAMP_permits` is a slip.
        let written = variable.bytes().all(|byte| !byte.is_ascii_lowercase());
        let Some(option) = OptionSpec::find(&name).filter(|_| written) else {
            let near = nearest(&name, OPTIONS.iter().map(|option| option.name));
            faults.extend(near.and_then(OptionSpec::find).map(|option| {
                let instead = Instead::Option(option.environment());
                Error::new(place, Fault::UnknownOption { name: None, instead })
            }));
            continue;
        };
        match value.to_str() {
            Some(text) => found.push(GivenOption { option, place, values: values_of(option, text) }),
            // What is passed over here may be the password of a port.
            None => faults.push(Error::new(place, Fault::NoText)),
        }
    }
    (found, folder)
}

/// Lists are separated by commas where they are one text. The password in a server's address may hold some itself: what is in front
/// of its `@` is one.
fn values_of<'a>(option: &OptionSpec, text: &'a str) -> Vec<&'a str> {
    let separates = |before: &str| match option.kind {
        Kind::Backends(_) => before.contains('@'),
        _ => option.kind.repeatable(),
    };
    let (mut values, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(',') {
        if separates(&text[start..at]) {
            values.push(&text[start..at]);
            start = at + 1;
        }
    }
    values.push(&text[start..]);
    values
}

/// The one thing that is opened here, beside credentials.
fn read(path: &Path) -> Result<zeroize::Zeroizing<String>, Fault> {
    content::text(path).map_err(|error| Fault::Unreadable { path: path.into(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Folder;

    #[test]
    fn a_password_may_hold_commas_where_a_list_is_one_text() {
        for (text, servers) in [
            ("mysql://app:a,b@db1/", 1),
            ("mysql://app:,,@db1/,mysql://app:,,@db2/", 2),
            ("mysql://app:a,b@db1,mysql://app:a,b@[::1]:3307", 2),
            ("mysql://app@db1/,mysql://app@db2/,mysql://app@db3/", 3),
        ] {
            let found = load(&[], [("ONRAMP_BACKEND", OsStr::new(text))]).unwrap();
            let folder = Folder(std::env::temp_dir().join(format!("onramp-commas-{}", std::process::id())));
            std::fs::create_dir(&folder.0).unwrap();
            std::fs::write(folder.0.join("onramp_backend"), text).unwrap();
            let by_credential = load(&[], [("CREDENTIALS_DIRECTORY", folder.0.as_os_str())]);
            assert_eq!(found.backends, by_credential.unwrap().backends);
            assert_eq!(found.backends.len(), servers, "{text}");
            let password = text.split(['@']).next().unwrap().strip_prefix("mysql://app").unwrap();
            for backend in &found.backends {
                assert_eq!(backend.password.as_str(), password.trim_start_matches(':'), "{text}");
            }
        }
        let refused = |text| load(&[], [("ONRAMP_BACKEND", OsStr::new(text))]).err().unwrap().to_string();
        assert!(refused("mysql://app:x@db1/,db2").contains("a server is given as mysql://"));
        assert!(refused("mysql://db1,mysql://db2").contains("no user"));
        let listen = load(&[], [("ONRAMP_LISTEN", OsStr::new("127.0.0.1:0,/run/a@b"))]).unwrap().listen;
        assert_eq!(listen.len(), 2);
    }
}
