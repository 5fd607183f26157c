//! The command line of `onramp serve`.

use std::ffi::{OsStr, OsString};

use config::Configuration;

/// The words after `serve`. With the environment, the configuration follows from them, at the start and whenever the file is read
/// again.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn new(words: &[String]) -> Self {
        Self(words.to_vec())
    }

    /// Reads the configuration, and its file anew.
    pub(crate) fn load(&self) -> Result<Configuration, config::Error> {
        config::load(&self.0, pairs(&environment()))
    }

    /// Likewise, for all that is wrong.
    pub(crate) fn check(&self) -> Result<Configuration, Vec<config::Error>> {
        config::check(&self.0, pairs(&environment()))
    }
}

/// What is no text in a name makes it that of no option, and near to one it is told as a slip.
fn environment() -> Vec<(String, OsString)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value)).collect()
}

fn pairs(variables: &[(String, OsString)]) -> impl Iterator<Item = (&str, &OsStr)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_os_str()))
}
