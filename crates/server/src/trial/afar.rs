//! A trial of an Onramp that runs elsewhere, or beside: over its admin port, as `onramp top`.

use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};

use config::{LogFormat, LogLevel};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use top::{Failure, NoAnswer, Remote};
use trial::{NoTable, Source, Table, questions};

use super::{Order, Plan, Serving, watch};
use crate::logging;

/// Looks until the time is over, or a signal, writes the report and ends. Exit code 1 where the admin port or a file cannot be used, 2
/// where the words about the former are wrong.
pub(super) fn command(plan: &Plan, address: &str, words: &[String]) -> ExitCode {
    let words = [place(address), words.to_vec()].concat();
    let mut afar = match Remote::new(&words) {
        Ok(remote) => Afar(remote),
        Err(wrong) => return crate::usage_error(&wrong.to_string()),
    };
    // What would fail for an hour is said now.
    if let Err(reason) = afar.ask(questions::OPTIONS) {
        eprintln!("onramp: --from {address}: {reason}");
        return ExitCode::FAILURE;
    }
    let log = match logging::start(LogLevel::Info, LogFormat::Text) {
        Ok(log) => log,
        Err(message) => {
            eprintln!("onramp: {message}");
            return ExitCode::FAILURE;
        }
    };
    let (orders, given) = sync_channel(1);
    if let Err(reason) = forward_signals(orders) {
        eprintln!("onramp: signals cannot be received: {reason}");
        return ExitCode::FAILURE;
    }
    let written = watch(plan, &mut afar, &given, Serving::Elsewhere);
    log.lines.finish();
    if written { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// As `onramp top` is told of it: a path, or a host with its port.
fn place(address: &str) -> Vec<String> {
    let words = match address.rsplit_once(':') {
        _ if address.contains('/') => vec!["--socket", address],
        Some((host, port)) => vec!["--host", host.trim_matches(['[', ']']), "--port", port],
        None => vec!["--host", address],
    };
    words.into_iter().map(String::from).collect()
}

fn forward_signals(orders: SyncSender<Order>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])?;
    let forward = move || {
        for signal in signals.forever() {
            let _ = match signal {
                SIGUSR1 => orders.try_send(Order::Report).is_ok(),
                // Nobody waits for the word that it is written but the program's end.
                _ => orders.send(Order::End(sync_channel(1).0)).is_ok(),
            };
        }
    };
    std::thread::Builder::new().name(String::from("signals")).spawn(forward).map(|_| ())
}

/// An Onramp over its admin port.
struct Afar(Remote);

impl Source for Afar {
    fn ask(&mut self, question: &str) -> Result<Table, NoTable> {
        let reason = match self.0.ask(question) {
            Ok((columns, rows)) => return Ok(Table { columns, rows }),
            Err(reason) => reason,
        };
        let text = reason.to_string();
        Err(match reason {
            NoAnswer::Failed(Failure::Refused { .. }) => NoTable::Refused(text),
            NoAnswer::Failed(Failure::Lost(_) | Failure::Denied(_) | Failure::Own) => {
                NoTable::Unreachable(text)
            }
            NoAnswer::Incomplete => NoTable::Incomplete(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports_and_paths() {
        assert_eq!(place("db1:33063").join(" "), "--host db1 --port 33063");
        assert_eq!(place("[::1]:5").join(" "), "--host ::1 --port 5");
        assert_eq!(place("db1").join(" "), "--host db1");
        assert_eq!(place("/run/onramp/admin").join(" "), "--socket /run/onramp/admin");
    }
}
