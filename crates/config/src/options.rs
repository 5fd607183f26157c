//! The one table of options. Everything else about them (flags, environment names, the file's keys, the help text, the
//! reference page) follows from it.

mod http;
mod limits;
mod places;
mod program;
mod reads;
mod scheduling;
mod shares;
mod slow_log;
mod timeouts;
mod tls;

use std::time::Duration;

use engine::Change;

use crate::Configuration;
use crate::limits::Counted::{ByAdminPort, ByEngine, Not};
use crate::limits::{Limit, Scope, Unit, always, when_reached};
use crate::value::Kind;

/// One option, declared once.
pub(crate) struct OptionSpec {
    /// Its name as the file's key. The flag is `--` and the name with `-` for `_`; the environment name is `ONRAMP_`
    /// and the name in capitals.
    pub(crate) name: &'static str,
    /// What kind of value, its range, and where it goes; by that also its default, and whether it can change while Onramp runs.
    pub(crate) kind: Kind,
    /// A value that somebody might really use.
    pub(crate) example: &'static str,
    /// The first sentence is the summary of `onramp serve --help`.
    pub(crate) doc: &'static str,
    /// Under which heading it stands.
    pub(crate) section: Section,
    /// What it bounds, where it is a limit: its row in the admin port's table of that name.
    pub(crate) limit: Option<Limit>,
}

impl OptionSpec {
    /// The flag, with its dashes.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// The environment variable.
    pub(crate) fn environment(&self) -> String {
        format!("ONRAMP_{}", self.name.to_ascii_uppercase())
    }

    /// The default, of these, as somebody would write it; `None` where there is none, and for a secret.
    pub(crate) fn default(&self, defaults: &mut Configuration) -> Option<String> {
        self.kind.current(defaults).filter(|default| !default.is_empty())
    }

    /// Whether a running Onramp takes up a new value at once.
    pub(crate) fn is_live(&self) -> bool {
        self.kind.place().1 == Change::Live
    }

    /// The option of this name, with `-` or `_`.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        let known = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = known.map_or(&*name, |(_, name)| name);
        OPTIONS.iter().find(|option| option.name == name)
    }
}

/// Headings of the help text and the reference page, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Addresses,
    Tls,
    Scheduling,
    Limits,
    Timeouts,
    AdminPort,
    Http,
    PrivateServer,
    Program,
}

impl Section {
    pub(crate) const ALL: [Self; 9] = [
        Self::Addresses,
        Self::Tls,
        Self::Scheduling,
        Self::Limits,
        Self::Timeouts,
        Self::AdminPort,
        Self::Http,
        Self::PrivateServer,
        Self::Program,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Addresses => "Addresses",
            Self::Tls => "TLS",
            Self::Scheduling => "Scheduling",
            Self::Limits => "Limits",
            Self::Timeouts => "Timeouts",
            Self::AdminPort => "Admin port",
            Self::Http => "HTTP",
            Self::PrivateServer => "Private server",
            Self::Program => "Program",
        }
    }
}

/// Names under which some options are known from in-server thread pools.
pub(crate) const OTHER_NAMES: [(&str, &str); 3] = [
    ("thread_pool_size", "workers"),
    ("admin_port", "admin_listen"),
    ("thread_pool_idle_timeout", "backend_idle_timeout"),
];

/// MySQL's clients call the place that they connect to, and the user whom they connect as, by these names. Here these are parts
/// of two addresses, and an error has to say so to a user who tries one of the names.
pub(crate) const NAMES_OF_CLIENTS: [&str; 7] =
    ["host", "port", "socket", "user", "password", "server", "bind_address"];

/// The option that names the file itself, and so cannot stand in it.
pub(crate) const FILE_OPTION: &str = "config";

/// The place of an option's value: `setting!(engine.permits)`. Its default, and whether it can change while Onramp runs, are declared there.
macro_rules! setting {
    ($($path:ident).+) => {
        crate::value::Slot {
            path: stringify!($($path).+),
            change: <crate::Configuration as engine::Declared>::CHANGES.$($path).+,
            place: |configuration| &mut configuration.$($path).+,
        }
    };
}
use setting;

/// The words of what is off or on.
const OFF_ON: &[(&str, bool)] = &[("off", false), ("on", true)];

const SECOND: Duration = Duration::from_secs(1);
/// As far as the servers' own time variables go (`wait_timeout`, `net_write_timeout`: 31536000 s).
const YEAR: Duration = Duration::from_secs(31_536_000);

/// All options, in the order of the help text and the reference page.
pub(crate) const OPTIONS: Options = Options(&[
    places::ADDRESSES,
    tls::TLS,
    scheduling::SCHEDULING,
    reads::SPLIT,
    shares::FAIR_SHARES,
    limits::LIMITS,
    shares::LIMITS,
    timeouts::TIMEOUTS,
    reads::BOUNDS,
    places::ADMIN_PORT,
    http::HTTP,
    places::PRIVATE_SERVER,
    program::PROGRAM,
    slow_log::SLOW_LOG,
]);

/// The table, by section.
#[derive(Clone, Copy)]
pub(crate) struct Options(&'static [&'static [OptionSpec]]);

impl Options {
    /// One after the other.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static OptionSpec> {
        self.into_iter()
    }
}

impl IntoIterator for Options {
    type Item = &'static OptionSpec;
    type IntoIter = std::iter::Flatten<std::iter::Copied<std::slice::Iter<'static, &'static [OptionSpec]>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().copied().flatten()
    }
}
