//! Numbers by name, with one for all other names.

use std::collections::BTreeMap;
use std::fmt;

/// `app=8,report=2,*=4`: a number for each name, and one for all others. Empty: none for anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedNumbers {
    named: BTreeMap<String, u32>,
    others: Option<u32>,
}

/// The largest number: as many permits as there can be.
const LARGEST: u32 = 4096;

/// The fault of a part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoNamedNumber {
    /// This part has no `=`.
    OtherForm(String),
    /// This part has no number in the range behind its `=`.
    NoNumber(String),
    /// Before the `=` of this part is no name.
    NoName(String),
    /// This name has two numbers.
    Twice(String),
}

impl fmt::Display for NoNamedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherForm(part) => write!(f, "{part:?} is no name=number, such as app=8 or *=4"),
            Self::NoNumber(part) => write!(f, "{part:?} has no number from 1 to {LARGEST}"),
            Self::NoName(part) => write!(f, "{part:?} has no name"),
            Self::Twice(name) => write!(f, "{name} is there twice"),
        }
    }
}

impl std::error::Error for NoNamedNumber {}

/// The parts of a list `name=value,...`, each with its name and value, where it has an `=`; blanks around all of them are left out, and so
/// are parts with nothing in them.
pub fn named_parts(text: &str) -> impl Iterator<Item = (&str, Option<(&str, &str)>)> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| (part, part.split_once('=').map(|(name, value)| (name.trim(), value.trim()))))
}

impl NamedNumbers {
    /// Reads the form above. Numbers go from 1 to 4096.
    ///
    /// # Errors
    ///
    /// Where the text has another form, or a name comes twice.
    pub fn parse(text: &str) -> Result<Self, NoNamedNumber> {
        let mut numbers = Self::default();
        for (part, parts) in named_parts(text) {
            let (name, number) = parts.ok_or_else(|| NoNamedNumber::OtherForm(String::from(part)))?;
            let number = number.parse().ok().filter(|number| (1..=LARGEST).contains(number));
            let number = number.ok_or_else(|| NoNamedNumber::NoNumber(String::from(part)))?;
            let before = match name {
                "" => return Err(NoNamedNumber::NoName(String::from(part))),
                "*" => numbers.others.replace(number),
                name => numbers.named.insert(name.to_owned(), number),
            };
            if before.is_some() {
                return Err(NoNamedNumber::Twice(String::from(name)));
            }
        }
        Ok(numbers)
    }

    /// Says whether there is no number for anybody.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.others.is_none()
    }

    /// The number for a name, if there is one.
    pub fn of(&self, name: &str) -> Option<u32> {
        self.named.get(name).copied().or(self.others)
    }

    /// The number for the name of a user or schema. A name that is not UTF-8 has no number of its own.
    pub(super) fn of_bytes(&self, name: &[u8]) -> Option<u32> {
        std::str::from_utf8(name).map_or(self.others, |name| self.of(name))
    }
}

impl fmt::Display for NamedNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.others.iter().map(|number| ("*", number));
        let all = self.named.iter().map(|(name, number)| (name.as_str(), number)).chain(others);
        for (place, (name, number)) in all.enumerate() {
            write!(f, "{}{name}={number}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown() {
        let numbers = NamedNumbers::parse(" report=2, app=8 ,*=4,").unwrap();
        assert_eq!([numbers.of("app"), numbers.of("report"), numbers.of("x")], [Some(8), Some(2), Some(4)]);
        assert_eq!(numbers.to_string(), "app=8,report=2,*=4");
        let none = NamedNumbers::parse("").unwrap();
        assert_eq!((none.is_empty(), none.of("app"), none.to_string()), (true, None, String::new()));
        assert_eq!(NamedNumbers::parse("app=8").unwrap().of("x"), None);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["app", "app=", "app=0", "app=4097", "=3", "app=1,app=2", "*=1,*=2", "app=-1"] {
            assert!(NamedNumbers::parse(text).is_err(), "{text}");
        }
    }
}
