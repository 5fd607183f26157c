//! `onramp serve --check`: says what keeps `serve` from starting with these options, all in one go, and serves nobody.
//!
//! Looked at are the options, from wherever they come, the names of servers, and the files of TLS. Nothing is listened on, no server is
//! asked and no file written, so that it can be asked beside an Onramp that serves, and as another user.

use std::process::ExitCode;

use config::Configuration;

use crate::arguments::Arguments;
use crate::tls_files::{self, TlsFiles};
use crate::{Failure, addresses};

/// The flag that asks for it.
pub(crate) const FLAG: &str = "--check";

/// Exit code 0 and a line where all is well, else 1 and a line for each fault.
pub(crate) fn command(arguments: &Arguments) -> ExitCode {
    let faults = match arguments.check() {
        Ok(configuration) => match outside(&configuration) {
            faults if faults.is_empty() => return crate::print(&well(&configuration)),
            faults => faults.iter().map(ToString::to_string).collect(),
        },
        Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    for fault in &faults {
        eprintln!("onramp: {fault}");
    }
    ExitCode::FAILURE
}

/// What is wrong with that to which the options point.
fn outside(configuration: &Configuration) -> Vec<Failure> {
    let names = configuration.backends.chunks(1).map(|backend| addresses::resolve(backend).map(drop));
    let files =
        [TlsFiles::read(configuration).map(drop), tls_files::server_keys(&configuration.tls).map(drop)];
    names.chain(files).filter_map(Result::err).collect()
}

fn well(configuration: &Configuration) -> String {
    let settings = configuration.settings();
    let given = settings.iter().filter(|setting| setting.source != config::Source::Default).count();
    let servers: Vec<_> = configuration.backends.iter().map(|backend| backend.target.to_string()).collect();
    let servers = if servers.is_empty() { String::from("a private server") } else { servers.join(", ") };
    format!("well: {given} options are given, of {}; in front of {servers}\n", settings.len())
}
