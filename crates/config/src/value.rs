//! The kinds of values: how each is read, checked, named and put in its place.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use engine::{ByServer, Change, NamedNumbers, ServerName, Zone};
use proxy_protocol::Networks;

use crate::server_values::{self, HEAVIEST};
use crate::units::{duration, duration_text, milliseconds, milliseconds_text, size, size_text, without_unit};
use crate::{AdminPeers, BackendUrl, Configuration, ListenAddress, NoListener, NoValue, nearest};

/// Where a value of the configuration lives; made by the macro `setting!`.
pub(crate) struct Slot<T> {
    /// In words: fields with dots between them.
    pub(crate) path: &'static str,
    /// When a new value holds.
    pub(crate) change: Change,
    pub(crate) place: fn(&mut Configuration) -> &mut T,
}

impl<T> Slot<T> {
    fn of<'a>(&self, configuration: &'a mut Configuration) -> &'a mut T {
        (self.place)(configuration)
    }
}

/// The words of an option, and the value that each of them stands for.
pub(crate) struct Words<T: 'static> {
    pub(crate) slot: Slot<T>,
    pub(crate) words: &'static [(&'static str, T)],
}

/// [`Words`] of any type.
pub(crate) trait Choices {
    /// As [`Slot::path`] and [`Slot::change`].
    fn place(&self) -> (&'static str, Change);
    /// All words.
    fn words(&self) -> Vec<&'static str>;
    /// Puts the value of a word in its place. False where there is no such word.
    fn choose(&self, configuration: &mut Configuration, word: &str) -> bool;
    /// The word of what holds now.
    fn current(&self, configuration: &mut Configuration) -> Option<&'static str>;
}

impl<T: Copy + PartialEq> Choices for Words<T> {
    fn place(&self) -> (&'static str, Change) {
        (self.slot.path, self.slot.change)
    }

    fn words(&self) -> Vec<&'static str> {
        self.words.iter().map(|(word, _)| *word).collect()
    }

    fn choose(&self, configuration: &mut Configuration, word: &str) -> bool {
        let found = self.words.iter().find(|(name, _)| *name == word);
        found.map(|(_, value)| *self.slot.of(configuration) = *value).is_some()
    }

    fn current(&self, configuration: &mut Configuration) -> Option<&'static str> {
        let now = *self.slot.of(configuration);
        self.words.iter().find(|(_, value)| *value == now).map(|(word, _)| *word)
    }
}

/// The kind of an option's value, with its range and its place.
pub(crate) enum Kind {
    /// Servers; may be given more than once.
    Backends(Slot<Vec<BackendUrl>>),
    /// Listening addresses; may be given more than once.
    Listeners(Slot<Vec<ListenAddress>>),
    /// One TCP address to listen on, or none.
    TcpListener(Slot<Option<ListenAddress>>),
    /// A name.
    Text(Slot<String>),
    /// A value that must never be shown.
    Secret(Slot<Zeroizing<String>>),
    /// A file or folder; may be empty.
    Path(Slot<PathBuf>),
    /// A number of things.
    Count(RangeInclusive<u32>, Slot<u32>),
    /// Bytes, with or without a unit.
    Size(RangeInclusive<usize>, Slot<usize>),
    /// A time; the unit is always written.
    Duration(RangeInclusive<Duration>, Slot<Duration>),
    /// A time as the in-server thread pools write it: a plain number is milliseconds.
    Milliseconds(RangeInclusive<Duration>, Slot<Duration>),
    /// Numbers by name.
    Numbers(Slot<NamedNumbers>),
    /// Weights by server.
    Weights(Slot<ByServer<u32>>),
    /// Zones by server.
    Zones(Slot<ByServer<Zone>>),
    /// A zone, or none.
    Zone(Slot<Option<Zone>>),
    /// Networks.
    Networks(Slot<Networks>),
    /// Admin ports of other Onramps, with their passwords.
    AdminPeers(Slot<AdminPeers>),
    /// One of a few words.
    Word(&'static dyn Choices),
}

/// A value as it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// On the command line or in the environment, where everything is text.
    Bare(&'a str),
    /// A string in the file.
    Quoted(&'a str),
    /// A whole number in the file.
    Integer(i64),
    /// Something else in the file.
    Other(&'static str),
}

impl Kind {
    /// Says whether the option may be given more than once.
    pub(crate) fn repeatable(&self) -> bool {
        matches!(self, Self::Backends(_) | Self::Listeners(_))
    }

    /// The words that are its values, where there are a few.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        match self {
            Self::Word(words) => words.words(),
            _ => Vec::new(),
        }
    }

    /// Checks the values given for an option and puts them in their place.
    pub(crate) fn apply(
        &self,
        configuration: &mut Configuration,
        given: &[Given<'_>],
    ) -> Result<(), NoValue> {
        match self {
            Self::Backends(slot) => {
                let urls = given.iter().map(|one| Ok(BackendUrl::parse(one.text(self)?)?));
                *slot.of(configuration) = urls.collect::<Result<_, NoValue>>()?;
            }
            Self::Listeners(slot) => {
                let addresses = given.iter().map(|one| Ok(ListenAddress::parse(one.text(self)?)?));
                *slot.of(configuration) = addresses.collect::<Result<_, NoValue>>()?;
            }
            _ => {
                let [one] = given else { return Err(NoValue::NotOne) };
                return self.apply_one(configuration, *one);
            }
        }
        if given.is_empty() { Err(NoValue::EmptyList) } else { Ok(()) }
    }

    fn apply_one(&self, configuration: &mut Configuration, given: Given<'_>) -> Result<(), NoValue> {
        match self {
            Self::Backends(_) | Self::Listeners(_) => unreachable!("lists are applied as a whole"),
            Self::TcpListener(slot) => *slot.of(configuration) = tcp_address(given.text(self)?)?,
            Self::Text(slot) => match given.text(self)? {
                "" => return Err(NoValue::NoName),
                text => *slot.of(configuration) = String::from(text),
            },
            Self::Secret(slot) => *slot.of(configuration) = Zeroizing::new(String::from(given.text(self)?)),
            Self::Path(slot) => *slot.of(configuration) = PathBuf::from(given.text(self)?),
            Self::Count(range, slot) => *slot.of(configuration) = count(given, range)?,
            Self::Size(range, slot) => {
                let bytes = match given {
                    Given::Integer(number) => {
                        usize::try_from(number).map_err(|_| NoValue::Negative(number))?
                    }
                    other => size(other.text(self)?)?,
                };
                *slot.of(configuration) = within(bytes, range, size_text)?;
            }
            Self::Duration(range, slot) => {
                let time = match given {
                    Given::Integer(number) => return Err(without_unit(&number.to_string())),
                    other => duration(other.text(self)?)?,
                };
                *slot.of(configuration) = within(time, range, duration_text)?;
            }
            Self::Milliseconds(range, slot) => {
                let time = match given {
                    Given::Integer(number) => milliseconds(&number.to_string())?,
                    other => milliseconds(other.text(self)?)?,
                };
                *slot.of(configuration) = within(time, range, milliseconds_text)?;
            }
            Self::Numbers(slot) => *slot.of(configuration) = NamedNumbers::parse(given.text(self)?)?,
            Self::Weights(slot) => {
                *slot.of(configuration) = server_values::parse(given.text(self)?, server_values::weight)?;
            }
            Self::Zones(slot) => {
                *slot.of(configuration) = server_values::parse(given.text(self)?, server_values::zone)?;
            }
            Self::Zone(slot) => {
                let text = given.text(self)?;
                *slot.of(configuration) = if text.is_empty() { None } else { Some(text.parse()?) };
            }
            Self::Networks(slot) => *slot.of(configuration) = given.text(self)?.parse()?,
            Self::AdminPeers(slot) => *slot.of(configuration) = AdminPeers::parse(given.text(self)?)?,
            Self::Word(choices) => choose(*choices, configuration, given.text(self)?)?,
        }
        Ok(())
    }

    /// The values given for an option as people may read them; `None` for a secret.
    pub(crate) fn shown(&self, given: &[Given<'_>]) -> Option<String> {
        let one = |given: &Given<'_>| match given {
            Given::Bare(text) | Given::Quoted(text) => match self {
                Self::Backends(_) => BackendUrl::parse(text).map(|url| url.to_string()).unwrap_or_default(),
                Self::AdminPeers(_) => {
                    AdminPeers::parse(text).map(|peers| peers.to_string()).unwrap_or_default()
                }
                _ => String::from(*text),
            },
            Given::Integer(number) => number.to_string(),
            Given::Other(what) => String::from(*what),
        };
        let all: Vec<_> = given.iter().map(one).collect();
        (!matches!(self, Self::Secret(_))).then(|| all.join(","))
    }

    /// Whether what is never shown of it, a secret or the passwords within addresses, is the same in both, as far as it has any.
    pub(crate) fn has_same_secret(&self, one: &mut Configuration, other: &mut Configuration) -> bool {
        match self {
            Self::Secret(slot) => slot.of(one) == slot.of(other),
            Self::Backends(slot) => slot.of(one) == slot.of(other),
            Self::AdminPeers(slot) => slot.of(one) == slot.of(other),
            _ => true,
        }
    }

    /// Takes over a value from another configuration, where its text does not say all of it. False where it does.
    pub(crate) fn take_over(&self, to: &mut Configuration, from: &mut Configuration) -> bool {
        match self {
            Self::AdminPeers(slot) => slot.of(to).clone_from(slot.of(from)),
            _ => return false,
        }
        true
    }

    /// Whether it has values for single servers.
    pub(crate) fn names_servers(&self) -> bool {
        matches!(self, Self::Weights(_) | Self::Zones(_))
    }

    /// The servers that it has values for.
    pub(crate) fn servers(&self, configuration: &mut Configuration) -> Vec<ServerName> {
        match self {
            Self::Weights(slot) => slot.of(configuration).names().cloned().collect(),
            Self::Zones(slot) => slot.of(configuration).names().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Of the option's setting the path, and when a new value of it holds.
    pub(crate) fn place(&self) -> (&'static str, Change) {
        match self {
            Self::Backends(slot) => (slot.path, slot.change),
            Self::Listeners(slot) => (slot.path, slot.change),
            Self::TcpListener(slot) => (slot.path, slot.change),
            Self::Text(slot) => (slot.path, slot.change),
            Self::Secret(slot) => (slot.path, slot.change),
            Self::Path(slot) => (slot.path, slot.change),
            Self::Count(_, slot) => (slot.path, slot.change),
            Self::Size(_, slot) => (slot.path, slot.change),
            Self::Duration(_, slot) | Self::Milliseconds(_, slot) => (slot.path, slot.change),
            Self::Numbers(slot) => (slot.path, slot.change),
            Self::Weights(slot) => (slot.path, slot.change),
            Self::Zones(slot) => (slot.path, slot.change),
            Self::Zone(slot) => (slot.path, slot.change),
            Self::Networks(slot) => (slot.path, slot.change),
            Self::AdminPeers(slot) => (slot.path, slot.change),
            Self::Word(choices) => choices.place(),
        }
    }

    /// What holds now as a number, for kinds that are one.
    pub(crate) fn number(&self, configuration: &mut Configuration) -> Option<u64> {
        match self {
            Self::Count(_, slot) => Some(u64::from(*slot.of(configuration))),
            Self::Size(_, slot) => Some(*slot.of(configuration) as u64),
            _ => None,
        }
    }

    /// What holds now, as it would be written; `None` for nothing, and for what is never shown.
    pub(crate) fn current(&self, configuration: &mut Configuration) -> Option<String> {
        match self {
            Self::Count(_, slot) => Some(slot.of(configuration).to_string()),
            Self::Size(_, slot) => Some(size_text(*slot.of(configuration))),
            Self::Duration(_, slot) => Some(duration_text(*slot.of(configuration))),
            Self::Milliseconds(_, slot) => Some(milliseconds_text(*slot.of(configuration))),
            Self::Numbers(slot) => Some(slot.of(configuration).to_string()),
            Self::Weights(slot) => some(slot.of(configuration)),
            Self::Zones(slot) => some(slot.of(configuration)),
            Self::Zone(slot) => slot.of(configuration).as_ref().map(ToString::to_string),
            Self::Word(choices) => choices.current(configuration).map(String::from),
            Self::Text(slot) => some(slot.of(configuration)),
            Self::Path(slot) => some(slot.of(configuration).display()),
            Self::Networks(slot) => some(slot.of(configuration)),
            Self::AdminPeers(slot) => some(slot.of(configuration)),
            Self::Listeners(slot) => {
                let addresses: Vec<_> = slot.of(configuration).iter().map(ToString::to_string).collect();
                some(addresses.join(","))
            }
            Self::TcpListener(slot) => {
                let address = slot.of(configuration).as_ref();
                Some(address.map_or_else(|| String::from("off"), ToString::to_string))
            }
            Self::Backends(_) | Self::Secret(_) => None,
        }
    }

    /// What stands for the value in a synopsis.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Self::Backends(_) => "URL",
            Self::Listeners(_) | Self::TcpListener(_) => "ADDRESS",
            Self::Text(_) => "NAME",
            Self::Secret(_) => "PASSWORD",
            Self::Path(_) => "PATH",
            Self::Count(..) => "NUMBER",
            Self::Size(..) => "SIZE",
            Self::Duration(..) => "TIME",
            Self::Milliseconds(..) => "MILLISECONDS",
            Self::Numbers(_) => "NAME=NUMBER,...",
            Self::Weights(_) => "SERVER=NUMBER,...",
            Self::Zones(_) => "SERVER=ZONE,...",
            Self::Zone(_) => "ZONE",
            Self::Networks(_) => "NETWORK,...",
            Self::AdminPeers(_) => "ADDRESS,...",
            Self::Word(_) => "WORD",
        }
    }

    /// Type, unit and range, in words.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Backends(_) => String::from("URL, may be given more than once"),
            Self::Text(_) => String::from("text"),
            Self::Secret(_) => String::from("text, never shown"),
            Self::Listeners(_) => {
                String::from("host:port, [IPv6]:port or a Unix socket's path, may be given more than once")
            }
            Self::TcpListener(_) => String::from("host:port, [IPv6]:port or off"),
            Self::Path(_) => String::from("path"),
            Self::Count(range, _) => format!("number from {} to {}", range.start(), range.end()),
            Self::Size(range, _) => {
                format!("size from {} to {}", size_text(*range.start()), size_text(*range.end()))
            }
            Self::Duration(range, _) => {
                format!("time from {} to {}", duration_text(*range.start()), duration_text(*range.end()))
            }
            Self::Milliseconds(range, _) => {
                format!("milliseconds from {} to {}", range.start().as_millis(), range.end().as_millis())
            }
            Self::Numbers(_) => {
                String::from("name=number,..., numbers from 1 to 4096, * for all other names")
            }
            Self::Weights(_) => {
                format!("server=number,..., numbers from 0 to {HEAVIEST}, * for all other servers")
            }
            Self::Zones(_) => String::from("server=zone,..., * for all other servers"),
            Self::Zone(_) => String::from("name of a zone, up to 63 letters, digits and -_.:/"),
            Self::Networks(_) => String::from("addresses, networks, localhost or *, separated by commas"),
            Self::AdminPeers(_) => String::from(
                "host:port, [IPv6]:port, a Unix socket's path or a URL with an account, separated by commas",
            ),
            Self::Word(choices) => {
                format!("one of {}", choices.words().join(", "))
            }
        }
    }

    fn wanted(&self) -> &'static str {
        match self {
            Self::Backends(_) => "a URL in quotes",
            Self::Text(_) => "a name in quotes",
            Self::Secret(_) => "text in quotes",
            Self::Listeners(_) => "an address in quotes, such as \"127.0.0.1:3306\"",
            Self::TcpListener(_) => "an address in quotes, such as \"127.0.0.1:9126\", or \"off\"",
            Self::Path(_) => "a path in quotes",
            Self::Count(..) => "a whole number",
            Self::Size(..) => "a number of bytes, or text such as \"64MiB\"",
            Self::Duration(..) => "text such as \"10s\"",
            Self::Milliseconds(..) => "a number of milliseconds",
            Self::Numbers(_) => "text such as \"app=8,*=4\"",
            Self::Weights(_) => "text such as \"10.0.0.2=2,10.0.0.3:3307=0\"",
            Self::Zones(_) => "text such as \"10.0.0.2=a,10.0.0.3=b\"",
            Self::Zone(_) => "a name in quotes",
            Self::Networks(_) => "text such as \"10.0.0.0/8\"",
            Self::AdminPeers(_) => "text such as \"10.0.0.7:33062,10.0.0.8:33062\"",
            Self::Word(_) => "one of its words in quotes",
        }
    }
}

impl<'a> Given<'a> {
    fn text(self, kind: &Kind) -> Result<&'a str, NoValue> {
        match self {
            Self::Bare(text) | Self::Quoted(text) => Ok(text),
            Self::Integer(_) => Err(NoValue::OtherType { found: "a number", wanted: kind.wanted() }),
            Self::Other(found) => Err(NoValue::OtherType { found, wanted: kind.wanted() }),
        }
    }
}

/// `off` and nothing are none. TLS is not spoken there, so that nothing is to be said about it.
fn tcp_address(text: &str) -> Result<Option<ListenAddress>, NoValue> {
    if matches!(text, "" | "off") {
        return Ok(None);
    }
    let parsed = ListenAddress::parse(text).map_err(|wrong| match wrong {
        // It would propose the port of MySQL.
        NoListener::NoPort(text) => NoValue::NoTcpListener(text),
        other => other.into(),
    });
    match parsed? {
        address @ ListenAddress::Tcp { tls: None, .. } => Ok(Some(address)),
        ListenAddress::Tcp { .. } => Err(NoValue::TlsUnspoken(String::from(text))),
        ListenAddress::Unix(_) => Err(NoValue::NoTcpListener(String::from(text))),
    }
}

fn count(given: Given<'_>, range: &RangeInclusive<u32>) -> Result<u32, NoValue> {
    let number = match given {
        Given::Integer(number) => number,
        Given::Bare(text) => text.parse().map_err(|_| NoValue::NoNumber(String::from(text)))?,
        Given::Quoted(text) => return Err(NoValue::NumberInQuotes(String::from(text))),
        Given::Other(found) => return Err(NoValue::OtherType { found, wanted: "a whole number" }),
    };
    let range = i64::from(*range.start())..=i64::from(*range.end());
    let number = within(number, &range, |number| number.to_string())?;
    Ok(u32::try_from(number).expect("the range lies within u32"))
}

fn within<T: PartialOrd + Copy>(
    value: T,
    range: &RangeInclusive<T>,
    show: impl Fn(T) -> String,
) -> Result<T, NoValue> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(NoValue::OutOfRange { value: show(value), from: show(*range.start()), to: show(*range.end()) })
}

fn some(shown: impl Display) -> Option<String> {
    Some(shown.to_string()).filter(|text| !text.is_empty())
}

fn choose(choices: &dyn Choices, configuration: &mut Configuration, word: &str) -> Result<(), NoValue> {
    if choices.choose(configuration, word) {
        return Ok(());
    }
    let words = choices.words();
    let nearest = nearest(word, words.iter().copied());
    Err(NoValue::OtherWord { word: String::from(word), nearest, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_or_none() {
        assert_eq!((tcp_address(""), tcp_address("off")), (Ok(None), Ok(None)));
        let [near, far] = ["127.0.0.1:9126", "[::]:9126"].map(|text| tcp_address(text).unwrap().unwrap());
        assert_eq!((near.to_string(), far.to_string()), ("127.0.0.1:9126".into(), "[::]:9126".into()));
        assert!(tcp_address("nonsense").unwrap_err().to_string().contains("or off is wanted here"));
        assert!(tcp_address("/run/onramp.sock").unwrap_err().to_string().contains("or off is wanted here"));
        assert!(
            tcp_address("localhost:1?tls=required")
                .unwrap_err()
                .to_string()
                .contains("TLS is not spoken there")
        );
        assert!(tcp_address("9126").unwrap_err().to_string().contains("did you mean 127.0.0.1:9126?"));
    }
}
