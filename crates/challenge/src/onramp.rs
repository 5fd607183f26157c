//! `onramp serve` as a process of its own, in front of the server.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::child::{Child, Line, Waited};
use crate::error::{Error, ProgramFault};
use crate::interrupts::Interrupts;
use crate::options::Options;
use crate::server::Place;

/// Onramp needs milliseconds to listen; its server answers already.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Clients beside those of a step: the load generator's look before a run.
const OTHER_CLIENTS: u32 = 100;

/// The user of the admin port: what `admin_user` is by default.
pub(crate) const ADMIN_USER: &str = "admin";

/// How its admin port is reached.
pub(crate) struct Admin {
    /// On 127.0.0.1.
    pub(crate) port: u16,
    /// Of [`ADMIN_USER`].
    pub(crate) password: Zeroizing<String>,
}

/// A running Onramp. Dropping it ends it.
pub(crate) struct Onramp {
    child: Child,
    place: Place,
    driver: String,
}

impl Onramp {
    /// Starts it in front of `url`, which may be several with commas between, and waits until it listens. With `admin` it has an admin port
    /// there.
    ///
    /// # Errors
    /// It serves nobody.
    pub(crate) fn start(
        program: &Path,
        options: &Options,
        url: &Zeroizing<String>,
        admin: Option<&Admin>,
        interrupts: &Interrupts,
    ) -> Result<Self, Error> {
        let mut command = private_server::tied_to_us(program);
        forget_our_options(&mut command);
        // Its port may be another Onramp's, and nobody asks there; who wants it says so with --serve-options.
        command.env("ONRAMP_HTTP_LISTEN", "off");
        command.args(arguments(options)).env("ONRAMP_BACKEND", url.as_str());
        if let Some(Admin { port, password }) = admin {
            command.env("ONRAMP_ADMIN_LISTEN", format!("127.0.0.1:{port}"));
            command.env("ONRAMP_ADMIN_PASSWORD", password.as_str());
        }
        let mut child = Child::start(command)?;
        let deadline = Instant::now() + START_TIMEOUT;
        let mut driver = String::new();
        loop {
            match child.wait_for_line() {
                Waited::Line(Line::Error(text)) => {
                    if let Some(word) = driver_word(&text) {
                        driver = word.to_owned();
                    }
                    if let Some(port) = listening_port(&text) {
                        let place = Place::Tcp(String::from("127.0.0.1"), port);
                        return Ok(Self { child, place, driver });
                    }
                }
                Waited::Line(Line::Output(_)) => {}
                Waited::Ended(status) => {
                    let said = child.said().join("; ");
                    return Err(Error::Program(ProgramFault::Ended { status, said }));
                }
                Waited::Nothing if interrupts.came() => return Err(Error::Interrupted),
                Waited::Nothing if Instant::now() >= deadline => {
                    let said = child.said().join("; ");
                    return Err(Error::Program(ProgramFault::NotListening { said }));
                }
                Waited::Nothing => {}
            }
        }
    }

    /// Where clients reach it.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The process's number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it said about its driver; empty where it said nothing.
    pub(crate) fn driver(&self) -> &str {
        &self.driver
    }

    /// The first warnings and errors that it logged, without their times.
    pub(crate) fn warnings(&mut self) -> &[String] {
        while matches!(self.child.wait_for_line(), Waited::Line(_)) {}
        self.child.warnings()
    }
}

/// What comes after the program's name.
pub(crate) fn arguments(options: &Options) -> Vec<String> {
    let most = options.most_clients().saturating_add(OTHER_CLIENTS);
    let mut arguments: Vec<String> =
        ["serve", "--listen", "127.0.0.1:0", "--max-connections"].map(String::from).to_vec();
    arguments.push(most.to_string());
    if let Some(workers) = options.workers {
        arguments.extend([String::from("--workers"), workers.to_string()]);
    }
    if let Some(driver) = &options.driver {
        arguments.extend([String::from("--driver"), driver.clone()]);
    }
    arguments.extend(options.serve_options.split_whitespace().map(String::from));
    arguments
}

/// Environment variables are options of Onramp too; what is measured is what the command line says.
pub(crate) fn forget_our_options(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ONRAMP_")) {
            command.env_remove(name);
        }
    }
}

/// `... ready: listening on 127.0.0.1:35279`
fn listening_port(line: &str) -> Option<u16> {
    let (_, addresses) = line.split_once("ready: listening on ")?;
    let first = addresses.split([',', ';', ' ']).next()?;
    first.rsplit_once(':')?.1.parse().ok()
}

/// `... workers = 1, driver = uring, permits = 16, ...`
fn driver_word(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("driver = ")?;
    rest.split([',', ';', ' ']).next().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_found_in_the_log() {
        assert_eq!(
            driver_word("INFO onramp 0.1.0: workers = 1, driver = uring, permits = 16"),
            Some("uring")
        );
        assert_eq!(driver_word("INFO ready"), None);
    }

    #[test]
    fn the_port_is_found_in_the_log() {
        let line = "2026-11-22T00:15:00Z  INFO ready: listening on 127.0.0.1:35279";
        assert_eq!(listening_port(line), Some(35_279));
        assert_eq!(listening_port("ready: listening on 127.0.0.1:1, [::1]:1"), Some(1));
        assert_eq!(listening_port("ready: listening on 127.0.0.1:1; http://127.0.0.1:9126/"), Some(1));
        assert_eq!(listening_port("INFO onramp 0.1.0 in front of mysql://a@b:3306/"), None);
    }
}
