//! The peers that an account's host stands for, and which of several hosts a server prefers.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use seam::Peer;
use sql::ServerKind;

/// The host as the server would print it in "Access denied for user 'u'@'host'".
pub(crate) fn host_name(peer: &Peer, name_resolution: bool) -> String {
    match peer {
        Peer::Unix { .. } => "localhost".into(),
        Peer::Tcp(address) if name_resolution && is_localhost(canonical(address.ip())) => "localhost".into(),
        Peer::Tcp(address) => canonical(address.ip()).to_string(),
    }
}

/// Says whether a peer falls under an account's host. Host names other than `localhost` are not resolved: a look-up must not hold
/// up an event loop.
pub(super) fn host_matches(pattern: &str, peer: &Peer, name_resolution: bool, server: ServerKind) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    if pattern.is_empty() || pattern == "%" {
        return true;
    }
    let Peer::Tcp(address) = peer else {
        return matches_wildcards(pattern.as_bytes(), b"localhost");
    };
    let ip = canonical(address.ip());
    if name_resolution && is_localhost(ip) && matches_wildcards(pattern.as_bytes(), b"localhost") {
        return true;
    }
    match Network::parse(&pattern, server) {
        Some(network) => network.holds(ip),
        None => matches_wildcards(pattern.as_bytes(), ip.to_string().as_bytes()),
    }
}

/// True for the addresses that the servers take for `localhost` unless name resolution is off: these two, and not
/// the rest of 127.0.0.0/8 (ip_to_hostname, by `INADDR_LOOPBACK` and `IN6_IS_ADDR_LOOPBACK`).
fn is_localhost(ip: IpAddr) -> bool {
    ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST
}

/// An IPv4 address that came in over an IPv6 socket is an IPv4 address, for the servers too.
fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// Some IPv4 addresses; the servers have no notation for networks of IPv6.
struct Network {
    address: u32,
    mask: u32,
    notation: Notation,
}

/// How a network is written. MySQL prefers these in this order (manual, "Access Control, Stage 1").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Notation {
    /// A single address.
    Address,
    /// `192.168.1.0/24`: MySQL since 8.0.23. No server that is older makes anything of it, nor does MariaDB.
    Cidr,
    /// `192.168.1.0/255.255.255.0`.
    Netmask,
    /// A name or a pattern, which is no network.
    None,
}

impl Network {
    fn parse(host: &str, server: ServerKind) -> Option<Self> {
        let bits = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
        let Some((address, mask)) = host.split_once('/') else {
            return Some(Self { address: bits(host)?, mask: u32::MAX, notation: Notation::Address });
        };
        let address = bits(address)?;
        if let Some(mask) = bits(mask) {
            return Some(Self { address, mask, notation: Notation::Netmask });
        }
        let is_number = server != ServerKind::MariaDb && mask.bytes().all(|byte| byte.is_ascii_digit());
        let length: u32 = mask.parse().ok().filter(|&length| is_number && length <= u32::BITS)?;
        let mask = u32::MAX.checked_shl(u32::BITS - length).unwrap_or(0);
        Some(Self { address, mask, notation: Notation::Cidr })
    }

    /// Says whether the network holds an address. A network with bits beyond its mask holds nothing, nor does one of all addresses
    /// (compare_hostname).
    fn holds(&self, ip: IpAddr) -> bool {
        matches!(ip, IpAddr::V4(ip) if self.mask != 0 && u32::from(ip) & self.mask == self.address)
    }
}

/// Says whether a text matches a pattern of SQL's LIKE with `%`, `_` and backslash, as the servers compare hosts
/// (wild_case_compare). Only the part that stands for the latest `%` is ever tried again, so that no pattern takes long.
pub(super) fn matches_wildcards(mut pattern: &[u8], mut text: &[u8]) -> bool {
    let mut latest: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match (pattern, text) {
            ([], []) => return true,
            ([b'%', rest @ ..], _) => {
                latest = Some((rest, text));
                Some((rest, text))
            }
            ([b'\\', literal, rest @ ..], [first, after @ ..]) => (first == literal).then_some((rest, after)),
            ([b'_', rest @ ..], [_, after @ ..]) => Some((rest, after)),
            ([literal, rest @ ..], [first, after @ ..]) => (first == literal).then_some((rest, after)),
            _ => None,
        };
        (pattern, text) = match (step, latest) {
            (Some(step), _) => step,
            (None, Some((rest, [_, after @ ..]))) => {
                latest = Some((rest, after));
                (rest, after)
            }
            (None, _) => return false,
        };
    }
}

/// The place of a host and a user among all accounts: a server takes the first that matches.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    notation: Notation,
    /// Larger masks first.
    mask: Reverse<u32>,
    generality: u64,
    is_anonymous: bool,
    /// The name, backwards, by which MariaDB goes where all else is equal: `localhost` before `127.0.0.1`.
    name: Reverse<Vec<u8>>,
}

impl Place {
    pub(super) fn of(user: &[u8], host: &str, server: ServerKind) -> Self {
        let place = Self {
            notation: Notation::None,
            mask: Reverse(0),
            generality: 0,
            is_anonymous: user.is_empty(),
            name: Reverse(Vec::new()),
        };
        if server == ServerKind::MariaDb {
            let name = Reverse(host.as_bytes().to_vec());
            return Self { generality: generality_for_mariadb(host.as_bytes()), name, ..place };
        }
        // Addresses and networks go ahead of all names (ACL_compare).
        match Network::parse(host, server) {
            Some(network) => Self { notation: network.notation, mask: Reverse(network.mask), ..place },
            None => Self { generality: generality_for_mysql(host.as_bytes()), ..place },
        }
    }
}

/// MySQL's order among names and patterns (get_sort): first those without wildcards, then patterns by the place of their first
/// wildcard, the later before the earlier, then `%`, then the empty host.
fn generality_for_mysql(host: &[u8]) -> u64 {
    let mut at = 0;
    while let Some(&byte) = host.get(at) {
        match byte {
            b'\\' if at + 1 < host.len() => at += 1,
            b'%' if host.len() == 1 => return 128,
            // It tells no wildcards apart beyond the 126th place.
            b'%' | b'_' => return 128 - (at as u64 + 2).min(127),
            _ => {}
        }
        at += 1;
    }
    if host.is_empty() { 129 } else { 0 }
}

/// MariaDB's order (get_magic_sort, since 10.4): how many names a pattern could match at most.
fn generality_for_mariadb(host: &[u8]) -> u64 {
    /// HOSTNAME_LENGTH.
    const LONGEST: u64 = 255;
    let (mut literal, mut ones, mut many, mut prefix) = (0_u64, 0_u64, 0_u64, 0);
    let mut rest = host;
    while let [byte, after @ ..] = rest {
        if matches!(byte, b'%' | b'_') && ones + many == 0 {
            prefix = literal;
        }
        rest = match (byte, after) {
            (b'%', [b'%', ..]) => after,
            (b'%', _) => {
                many += 1;
                after
            }
            (b'_', _) => {
                ones += 1;
                after
            }
            (b'\\', [_, after @ ..]) | (_, after) => {
                literal += 1;
                after
            }
        };
    }
    let (ones, many) = (ones.min(31), many.min(31));
    let freely = if many > 0 { LONGEST.saturating_sub(literal + ones) } else { 0 };
    let digits =
        if freely > ones { [2 * freely + 1, many, ones, prefix] } else { [2 * ones, freely, many, prefix] };
    digits.into_iter().fold(0, |number, digit| number * (LONGEST + 1) + digit)
}

#[cfg(test)]
mod tests;
