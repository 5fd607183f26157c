//! Which local addresses a run connects from. Each pair of a local and a remote address has its own ports, so the number
//! of pairs bounds the number of connections.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use seam::Address;

/// How many local ports a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Connections that stand at the same time.
    pub connections: u64,
    /// Ports that closed connections still hold, because the side that closes first keeps its own in TIME_WAIT.
    pub closed: u64,
}

impl Demand {
    /// Of connections that stay.
    pub fn standing(connections: u32) -> Self {
        Self { connections: u64::from(connections), closed: 0 }
    }

    /// Of connections that are closed and made anew, `rate` times a second at most; `None` where nothing bounds it.
    pub fn reconnecting(connections: u32, rate: Option<f64>, time_wait: TimeWait) -> Self {
        // More than a machine makes over loopback, both ends together; an address too many there costs nothing.
        const FASTEST: f64 = 50_000.0;
        let rate = rate.unwrap_or(FASTEST).min(FASTEST);
        let closed = (rate * time_wait.seconds).ceil() as u64;
        Self { connections: u64::from(connections), closed: closed.min(time_wait.most) }
    }

    fn ports(self) -> u64 {
        self.connections + self.closed
    }
}

/// How long a port stays taken after its connection (ip-sysctl in the kernel's documentation).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeWait {
    /// Until it may be used again over loopback.
    pub seconds: f64,
    /// So many ports at most wait at the same time (`net.ipv4.tcp_max_tw_buckets`).
    pub most: u64,
}

impl TimeWait {
    /// What the kernel's settings say; its defaults where they cannot be read.
    pub fn read() -> Self {
        let setting = |name: &str| -> Option<u64> {
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?.trim().parse().ok()
        };
        // TCP_TIMEWAIT_LEN is 60 seconds. With tcp_tw_reuse (2, the default, is for loopback only) a new connection takes
        // the port over after tcp_tw_reuse_delay milliseconds, a second before there was such a setting.
        let reused = setting("tcp_tw_reuse").unwrap_or(2) > 0 && setting("tcp_timestamps").unwrap_or(1) > 0;
        let delay = setting("tcp_tw_reuse_delay").unwrap_or(1000) as f64 / 1000.0;
        Self {
            seconds: if reused { delay } else { 60.0 },
            most: setting("tcp_max_tw_buckets").unwrap_or(u64::MAX),
        }
    }
}

/// The local ports of each pair of a local and a remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(pub u64);

impl Ports {
    /// What the kernel's settings say; `None` where they cannot be read.
    pub fn read() -> Option<Self> {
        let reserved = std::fs::read_to_string(RESERVED).unwrap_or_default();
        Self::between(&std::fs::read_to_string(RANGE).ok()?, &reserved)
    }

    /// From the texts of the two settings: a range, and ports and ranges of ports that are not given out by themselves.
    fn between(range: &str, reserved: &str) -> Option<Self> {
        let mut words = range.split_whitespace();
        let low: u64 = words.next()?.parse().ok()?;
        let high: u64 = words.next()?.parse().ok()?;
        let taken: u64 = reserved.trim().split(',').map(|item| overlap(item, low, high)).sum();
        high.checked_sub(low).map(|span| Self((span + 1).saturating_sub(taken)))
    }

    /// What can be counted on: some are in use by others or in TIME_WAIT.
    fn dependable(self) -> u64 {
        (self.0 - self.0 / 10).max(1)
    }

    /// What can be had quickly. `connect` tries every other port of the range, all of them, before it goes on to the rest
    /// (`__inet_hash_connect` in net/ipv4/inet_hashtables.c): from half of the range on, each connect looks at thousands of
    /// ports in use. Measured: 29,000 connects a second up to there, 1,200 beyond.
    fn quick(self) -> u64 {
        Self(self.0 / 2).dependable()
    }
}

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

fn overlap(item: &str, low: u64, high: u64) -> u64 {
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else { return 0 };
    (last.min(high) + 1).saturating_sub(first.max(low))
}

/// More addresses than this are not taken by itself: a hundred times what 100,000 connections need.
const MOST_ADDRESSES: u64 = 250;

/// The local addresses to connect from. None means that the system chooses.
///
/// Those that were `given` stand. By itself it takes more than one only where all targets are on the loopback device, all of
/// whose 16 million addresses (127.0.0.0/8) belong to this machine without being set up.
///
/// # Errors
/// Where there are too few local ports.
pub fn choose(
    remotes: &[Address],
    given: &[IpAddr],
    demand: Demand,
    ports: Ports,
) -> Result<Vec<IpAddr>, TooFewPorts> {
    let targets = remotes.iter().filter_map(target_of).collect::<Vec<_>>();
    if targets.len() < remotes.len() {
        // Unix sockets have no ports.
        return Ok(Vec::new());
    }
    if !given.is_empty() {
        let pairs =
            targets.iter().map(|target| given.iter().filter(|local| same_family(local, target)).count());
        let pairs = pairs.sum::<usize>() as u64;
        return enough(pairs, targets.len(), demand, ports).map(|()| given.to_vec());
    }
    let remotes = targets.len() as u64;
    let wanted = demand.ports().div_ceil(remotes * ports.quick());
    if wanted == 1 {
        return Ok(Vec::new());
    }
    if targets.iter().all(|target| target.is_ipv4() && target.is_loopback()) && wanted <= MOST_ADDRESSES {
        return Ok((0..wanted as u32).map(loopback).collect());
    }
    enough(remotes, targets.len(), demand, ports).map(|()| Vec::new())
}

/// True where it would do to let the system choose, if more slowly.
pub fn suffices_alone(remotes: usize, demand: Demand, ports: Ports) -> bool {
    demand.ports() <= remotes as u64 * ports.dependable()
}

/// Says which addresses a run uses by itself, and why.
pub fn describe(demand: Demand, locals: &[IpAddr]) -> Option<String> {
    let (first, last) = (locals.first()?, locals.last()?);
    let waiting = match demand.closed {
        0 => String::new(),
        closed => format!(", which leave up to {} ports in TIME_WAIT,", grouped(closed)),
    };
    let between = if locals.len() == 2 { "and" } else { "to" };
    Some(format!(
        "{} connections{waiting} come from {} local addresses: {first} {between} {last}",
        grouped(demand.connections),
        locals.len(),
    ))
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn enough(pairs: u64, remotes: usize, demand: Demand, ports: Ports) -> Result<(), TooFewPorts> {
    let connections = demand.connections;
    if connections <= pairs * ports.0 {
        return Ok(());
    }
    let addresses = connections.div_ceil((remotes as u64 * ports.dependable()).max(1));
    Err(TooFewPorts { connections, pairs, ports, addresses })
}

/// There are not as many local ports as connections: the limit is [`RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewPorts {
    connections: u64,
    /// Pairs of a local and a remote address.
    pairs: u64,
    /// The ports of each.
    ports: Ports,
    /// Local addresses with which there would be enough.
    addresses: u64,
}

impl fmt::Display for TooFewPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, pairs, ports: Ports(ports), addresses } = *self;
        write!(
            f,
            "local ports: {} connections, but {RANGE} allows {} for each pair of a local and a remote address, {} in all. \
             Give {addresses} addresses of this machine with --local-address (where the target is on this machine, connect \
             to 127.0.0.1: there this is done by itself), several --host, or widen the range: sysctl -w \
             net.ipv4.ip_local_port_range=\"1024 65535\"",
            grouped(connections),
            grouped(ports),
            grouped(pairs * ports),
        )
    }
}

impl std::error::Error for TooFewPorts {}

fn target_of(address: &Address) -> Option<IpAddr> {
    match address {
        Address::Tcp { remote, .. } => Some(remote.ip()),
        Address::Unix(_) | Address::NotFound { .. } => None,
    }
}

fn same_family(local: &IpAddr, target: &IpAddr) -> bool {
    local.is_ipv4() == target.is_ipv4()
}

/// 127.0.0.1 and on.
fn loopback(index: u32) -> IpAddr {
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + index).into()
}
