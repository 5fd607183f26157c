//! The options of `onramp serve`: one table, from which follow the flags, the environment names, the file's keys, the help text
//! and the reference page.
//!
//! [`load()`] turns arguments, environment, credentials and the file into a checked [`Configuration`], and [`check()`] says all that is
//! wrong with them. They open nothing else; names are resolved and sockets opened by the caller, after everything here has been found right.
//!
//! A flag outranks the environment, which outranks credentials, which outrank the file, which outranks the default.

mod admin_peers;
mod backend_url;
mod configuration;
mod content;
mod credentials;
mod defaults;
mod error;
mod file;
mod limits;
mod listen_address;
mod live;
mod load;
mod nearest;
mod no_value;
mod options;
mod reference;
mod server_values;
mod together;
mod units;
mod value;

pub use admin_peers::{AdminPeer, AdminPeers, NoAdminPeers};
pub use backend_url::{BackendTarget, BackendUrl, NoBackend};
pub use configuration::{
    BackendTls, Configuration, LogFormat, LogLevel, MOST_BACKENDS, OWN_FILES, TlsOptions,
};
pub use content::content;
pub use error::{Error, Fault, Instead, Misplaced, Place};
pub use limits::{Counted, Limit, LimitRow, Scope, Unit};
pub use listen_address::{ListenAddress, NoListener};
pub use live::{NotSet, Setting, Source};
pub use load::{check, load};
pub use nearest::nearest;
pub use no_value::NoValue;
pub use reference::{OptionText, default_file, help, option_texts, reference_page};
pub use server_values::NoServerValues;
pub use together::Conflict;
pub use units::duration as time;

#[cfg(test)]
mod tests;
