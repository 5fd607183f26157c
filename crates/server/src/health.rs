//! `onramp health`: asks the Onramp beside it, by HTTP, how it is. For container engines, whose checks run a command, in images
//! that have no other program.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use config::ListenAddress;

use crate::Failure;
use crate::addresses;
use crate::arguments::Arguments;

/// For connecting, for sending, and for each piece of the answer. Onramp itself gives a silent worker two seconds before it says
/// which one it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answer is a line with its headers.
const LONGEST_ANSWER: u64 = 16 << 10;

const USAGE: &str = "\
Usage: onramp health [--ready] [options of serve]

Asks the Onramp that http_listen belongs to whether its loops turn (/livez), or with --ready whether it serves new
clients (/readyz), and prints what it says. The options are read as serve reads them, from flags, environment and file,
so that in a container none have to be repeated.

Exit codes: 0 it is well; 1 it is not, or does not answer; 2 an option is wrong.
";

/// Runs `onramp health` with the arguments after that word.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return crate::print(USAGE);
    }
    let (ready, others): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == "--ready");
    let path = if ready.is_empty() { "/livez" } else { "/readyz" };
    let configuration = match Arguments::new(&others).load() {
        Ok(configuration) => configuration,
        Err(error) => return crate::usage_error(&error.to_string()),
    };
    let Some(ListenAddress::Tcp { host, port, .. }) = &configuration.http_listen else {
        return crate::usage_error(
            "health: http_listen is off, and there is nobody to ask; give it an address",
        );
    };
    if *port == 0 {
        return crate::usage_error(
            "health: http_listen has port 0, and which one the system chose is not known here; name one",
        );
    }
    match ask(host, *port, path) {
        Ok((200, said)) => crate::print(&format!("{said}\n")),
        Ok((_, said)) => failed(&said),
        Err(error) => failed(&format!("health: {host}:{port} (http_listen) does not answer {path}: {error}")),
    }
}

fn failed(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// Why an Onramp does not say how it is.
#[derive(Debug)]
enum NoAnswer {
    /// Nobody knows the host that `http_listen` names.
    Unknown(Failure),
    /// The host has no address.
    NoAddress,
    /// Nobody answers there.
    Unreachable(io::Error),
    /// Somebody answers there, and does not speak HTTP.
    NotHttp,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(failure) => failure.fmt(f),
            Self::NoAddress => f.write_str("there is no address"),
            Self::Unreachable(error) => error.fmt(f),
            Self::NotHttp => f.write_str("what it says is not HTTP; somebody else may be at that port"),
        }
    }
}

/// The status, and the first line of what is said.
fn ask(host: &str, port: u16, path: &str) -> Result<(u16, String), NoAnswer> {
    let mut last = NoAnswer::NoAddress;
    for address in addresses::look_up(host, port).map_err(NoAnswer::Unknown)? {
        match ask_at(from_here(address), path) {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whoever listens on all addresses is asked on this machine's own.
fn from_here(address: SocketAddr) -> SocketAddr {
    addresses::reachable(&drivers::ListenAddress::Tcp(address)).unwrap_or(address)
}

fn ask_at(address: SocketAddr, path: &str) -> Result<(u16, String), NoAnswer> {
    let answer = exchange(address, path).map_err(NoAnswer::Unreachable)?;
    let answer = String::from_utf8_lossy(&answer);
    read(&answer).ok_or(NoAnswer::NotHttp)
}

fn exchange(address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // By version 1.0 the answer ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

fn read(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, String::from(body.lines().next().unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_status_and_a_line() {
        assert_eq!(read("HTTP/1.0 200 OK\r\na: b\r\n\r\nlive\nmore"), Some((200, String::from("live"))));
        assert_eq!(read("HTTP/1.1 503 Service Unavailable\r\n\r\n"), Some((503, String::new())));
        for wrong in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 x\r\n\r\n"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn all_addresses_are_asked_at_this_machines_own() {
        let from = |text: &str| from_here(text.parse().unwrap()).to_string();
        assert_eq!(from("0.0.0.0:9126"), "127.0.0.1:9126");
        assert_eq!(from("[::]:9126"), "[::1]:9126");
        assert_eq!(from("192.0.2.1:9126"), "192.0.2.1:9126");
    }
}
