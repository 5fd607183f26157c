//! Where admin ports are, as they are written on the command line, and short names that tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, PathBuf};

use admin_client::Target;

/// The longest name of an Onramp, in characters: the column of names is to leave room for the rest. Of a longer one the end is shown,
/// which tells machines apart more often than the beginning does.
const LONGEST_NAME: usize = 20;

/// A `--host` that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTarget {
    host: String,
    fault: HostFault,
}

/// What is wrong with a `--host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostFault {
    Empty,
    BehindBracket,
    NoBracket,
    NoPort,
    NoName,
}

impl fmt::Display for NoTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            HostFault::Empty => "there is no name in it",
            HostFault::BehindBracket => "behind ] there can be a colon and a port, and nothing else",
            HostFault::NoBracket => "[ has no ]",
            HostFault::NoPort => "a port is a number from 1 to 65535",
            HostFault::NoName => "there is no name before the port",
        };
        write!(f, "--host '{}': {fault}", self.host)
    }
}

impl std::error::Error for NoTarget {}

/// As `--host` has it: `NAME`, `NAME:PORT`, `::1`, `[::1]`, `[::1]:PORT`, or the path of a socket. `port` is that of one without.
///
/// # Errors
/// Why the text is none.
pub fn of_host(text: &str, port: u16) -> Result<Target, NoTarget> {
    let wrong = |fault| Err(NoTarget { host: text.to_owned(), fault });
    if text.is_empty() {
        return wrong(HostFault::Empty);
    }
    if text.starts_with('/') {
        return Ok(Target::Socket(PathBuf::from(text)));
    }
    let (host, after) = match text.strip_prefix('[').map(|inner| inner.split_once(']')) {
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, after))) => match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None => return wrong(HostFault::BehindBracket),
        },
        Some(None) => return wrong(HostFault::NoBracket),
        // With two colons it is an address of IPv6, which has its port behind brackets.
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let port = match after.map(str::parse) {
        None => port,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return wrong(HostFault::NoPort),
    };
    if host.is_empty() {
        return wrong(HostFault::NoName);
    }
    Ok(Target::Tcp(host.to_owned(), port))
}

/// A short name for each, in their order. No two are alike, since no two targets are.
pub fn names(targets: &[Target]) -> Vec<String> {
    let hosts: BTreeSet<&str> = targets.iter().filter_map(host_of).collect();
    let short = short_hosts(&hosts);
    let sockets = short_paths(targets);
    let name = |target: &Target| match target {
        Target::Socket(_) => sockets.get(&target.text()).cloned().unwrap_or_default(),
        Target::Tcp(host, port) => {
            let of_host = targets.iter().filter(|other| host_of(other) == Some(host)).count();
            let short = short.get(host.as_str()).map_or(host.as_str(), String::as_str);
            match of_host {
                1 => short.to_owned(),
                // Where they are all of one machine its name says nothing.
                count if count == targets.len() => format!(":{port}"),
                _ => Target::Tcp(short.to_owned(), *port).text(),
            }
        }
    };
    let whole: Vec<String> = targets.iter().map(Target::text).collect();
    let names: Vec<String> = targets.iter().map(name).collect();
    let cut: Vec<String> = names.iter().map(|name| end_of(name)).collect();
    [cut, names].into_iter().find(|names| all_differ(names)).unwrap_or(whole)
}

fn all_differ(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

fn host_of(target: &Target) -> Option<&str> {
    match target {
        Target::Tcp(host, _) => Some(host),
        Target::Socket(_) => None,
    }
}

/// Of each name as many labels as tell all of them apart: what is behind those is the domain of all. Addresses stay whole.
fn short_hosts<'t>(hosts: &BTreeSet<&'t str>) -> BTreeMap<&'t str, String> {
    let named = || hosts.iter().filter(|host| host.parse::<IpAddr>().is_err());
    let first = |host: &str, labels: usize| host.split('.').take(labels).collect::<Vec<_>>().join(".");
    let most = named().map(|host| host.split('.').count()).max().unwrap_or(0);
    let of = |labels: usize| named().map(move |host| (*host, first(host, labels)));
    let differ = |labels: &usize| all_differ(&of(*labels).map(|(_, short)| short).collect::<Vec<_>>());
    (1..=most).find(differ).map_or_else(BTreeMap::new, |labels| of(labels).collect())
}

/// Of each path as many parts from its end as tell all of them apart, without those at the end that all have.
fn short_paths(targets: &[Target]) -> BTreeMap<String, String> {
    let parts = |target: &Target| match target {
        Target::Socket(path) => {
            let normal = path.components().filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            });
            Some((target.text(), normal.collect::<Vec<_>>()))
        }
        Target::Tcp(..) => None,
    };
    let paths: Vec<(String, Vec<String>)> = targets.iter().filter_map(parts).collect();
    let most = paths.iter().map(|(_, parts)| parts.len()).max().unwrap_or(0);
    let last = |skipped: usize, count: usize| -> Vec<String> {
        let of = |(_, parts): &(String, Vec<String>)| {
            let end = parts.len().saturating_sub(skipped).max(1).min(parts.len());
            parts[end.saturating_sub(count)..end].join("/")
        };
        paths.iter().map(of).collect()
    };
    // The shortest first: one part, then two.
    let mut tries = (1..=most).flat_map(|count| (0..most).map(move |skipped| (skipped, count)));
    let found = tries.find(|(skipped, count)| all_differ(&last(*skipped, *count)));
    let Some((skipped, count)) = found else { return BTreeMap::new() };
    paths.iter().map(|(text, _)| text.clone()).zip(last(skipped, count)).collect()
}

fn end_of(name: &str) -> String {
    let length = name.chars().count();
    if length <= LONGEST_NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - (LONGEST_NAME - 2)).collect();
    format!("..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        of_host(text, 33062).unwrap()
    }

    fn named(texts: &str) -> Vec<String> {
        names(&texts.split(' ').map(target).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_are_written_as_people_do() {
        let tcp = |host: &str, port| Target::Tcp(host.to_owned(), port);
        assert_eq!(target("db1"), tcp("db1", 33062));
        assert_eq!(target("db1:5"), tcp("db1", 5));
        assert_eq!(target("::1"), tcp("::1", 33062));
        assert_eq!(target("[::1]"), tcp("::1", 33062));
        assert_eq!(target("[fe80::1%eth0]:65535"), tcp("fe80::1%eth0", 65535));
        assert_eq!(target("/run/a.sock"), Target::Socket(PathBuf::from("/run/a.sock")));
        for (text, shown) in [("db1", "db1:33062"), ("::1", "[::1]:33062"), ("/run/a", "/run/a")] {
            assert_eq!(target(text).text(), shown);
        }
        for text in ["", ":5", "db1:", "db1:0", "db1:65536", "db1:x", "[::1", "[::1]5", "[]:5", "db1:+"] {
            let wrong = of_host(text, 1).unwrap_err().to_string();
            assert!(wrong.starts_with(&format!("--host '{text}': ")), "{wrong}");
        }
    }

    #[test]
    fn names_are_short_and_tell_all_apart() {
        assert_eq!(named("127.0.0.1:33062 127.0.0.1:33063"), [":33062", ":33063"]);
        assert_eq!(named("10.0.0.1 10.0.0.2 ::1"), ["10.0.0.1", "10.0.0.2", "::1"]);
        assert_eq!(named("onramp1.db.example.com onramp2.db.example.com"), ["onramp1", "onramp2"]);
        assert_eq!(named("a.eu.example.com a.us.example.com b"), ["a.eu", "a.us", "b"]);
        assert_eq!(named("db1.example.com:1 db1.example.com:2 db2.example.com"), ["db1:1", "db1:2", "db2"]);
        assert_eq!(named("[::1]:1 [::1]:2 db2"), ["[::1]:1", "[::1]:2", "db2"]);
        // One is the beginning of the other.
        assert_eq!(named("db1.eu db1"), ["db1.eu", "db1"]);
        assert_eq!(named("/run/a/admin.sock /run/b/admin.sock"), ["a", "b"]);
        assert_eq!(named("/run/a.sock /srv/b.sock db1"), ["a.sock", "b.sock", "db1"]);
        assert_eq!(named("/a/x/s /b/x/s /a/y/s"), ["a/x", "b/x", "a/y"]);
        // A socket may be called as a machine is.
        assert_eq!(named("/run/db1 db1"), ["/run/db1", "db1:33062"]);
        let ten: Vec<String> =
            (0..10).map(|number| format!("onramp-{number}.pool.prod.example.com")).collect();
        assert_eq!(named(&ten.join(" "))[9], "onramp-9");
    }

    #[test]
    fn a_long_name_is_cut_where_its_end_tells_it_apart() {
        let long = "x".repeat(60);
        assert_eq!(
            named(&format!("{long}1 {long}2")),
            [1, 2].map(|end| format!("..{}{end}", "x".repeat(17)))
        );
        assert_eq!(named(&format!("a{long} b{long}")), [format!("a{long}"), format!("b{long}")]);
    }
}
