//! Text that is nobody's to read.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

/// A text that no debug output shows and no memory keeps.
///
/// Options that a command line is parsed into have it, since they derive `Debug`. A struct without `Debug` keeps a password as
/// `Zeroizing` alone. The engine has a type of its own (`Password`): its passwords are bytes, and the core does not use this crate.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::from("hush");
        assert_eq!((secret.reveal(), format!("{secret:?}")), ("hush", String::from("Secret")));
    }
}
