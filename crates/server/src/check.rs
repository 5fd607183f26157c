//! `onramp serve --check`: says what keeps `serve` from starting with these options, all in one go, and serves nobody.
//!
//! Looked at are the options, from wherever they come, the names of servers, and the files of TLS. Nothing is listened on, no server is
//! asked and no file written, so that it can be asked beside an Onramp that serves, and as another user.

use std::process::ExitCode;

use config::Configuration;

use crate::addresses;
use crate::arguments::Arguments;
use crate::tls_files::{Findings, TlsFiles};

/// The flag that asks for it.
pub(crate) const FLAG: &str = "--check";

/// Exit code 0 and a line where all is well, else 1 and a line for each fault. What is doubtful, and keeps `serve` from nothing, is a
/// warning and changes no exit code.
pub(crate) fn command(arguments: &Arguments) -> ExitCode {
    let (well, faults, doubts) = match arguments.check() {
        Ok(configuration) => {
            let Findings { faults, doubts } = outside(&configuration);
            (well(&configuration), lines(&faults), doubts)
        }
        Err(faults) => (String::new(), lines(&faults), Vec::new()),
    };
    for fault in &faults {
        eprintln!("onramp: {fault}");
    }
    for doubt in &doubts {
        eprintln!("onramp: warning: {doubt}");
    }
    if faults.is_empty() { crate::print(&well) } else { ExitCode::FAILURE }
}

fn lines(faults: &[impl ToString]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// What is wrong with that to which the options point.
fn outside(configuration: &Configuration) -> Findings {
    let mut faults = Vec::new();
    let mut doubts = configuration.doubts();
    match addresses::resolve(&configuration.backends) {
        Ok(resolved) => doubts.extend(resolved.warnings(configuration.lookup_interval)),
        Err(fault) => faults.push(fault),
    }
    let files = TlsFiles::look(configuration);
    faults.extend(files.faults);
    doubts.extend(files.doubts);
    Findings { faults, doubts }
}

fn well(configuration: &Configuration) -> String {
    let settings = configuration.settings();
    let given = settings.iter().filter(|setting| setting.source != config::Source::Default).count();
    let servers: Vec<_> = configuration.backends.iter().map(|backend| backend.target.to_string()).collect();
    let servers = if servers.is_empty() { String::from("a private server") } else { servers.join(", ") };
    format!("well: {given} options are given, of {}; in front of {servers}\n", settings.len())
}
