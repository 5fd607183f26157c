//! The command line of `onramp serve`.

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

fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn pairs(variables: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
