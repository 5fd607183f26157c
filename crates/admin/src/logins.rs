//! Connections that have not logged in. They take no place of those that have.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many at a time: each is a thread, and who knows the password needs one for some milliseconds.
const MOST: usize = 16;

/// That some have given way is said this often.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Logins(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    /// In the order in which they came.
    entries: BTreeMap<u64, Entry>,
    last: u64,
    said: Option<Instant>,
}

struct Entry {
    network: Option<IpAddr>,
    socket: Ending,
}

/// Ends a connection whose thread waits for it.
pub(crate) enum Ending {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Ending {
    /// A socket that is closed already needs no end.
    fn end(&self) {
        let _: io::Result<()> = match self {
            Self::Tcp(tcp) => tcp.shutdown(Shutdown::Both),
            Self::Unix(unix) => unix.shutdown(Shutdown::Both),
        };
    }
}

/// One that is logging in, until this is dropped.
pub(crate) struct LoggingIn {
    logins: Logins,
    number: u64,
}

impl Drop for LoggingIn {
    fn drop(&mut self) {
        self.logins.0.lock().unwrap_or_else(PoisonError::into_inner).entries.remove(&self.number);
    }
}

impl Logins {
    /// One more, from this address; none for Unix sockets. Where there is no room, the oldest gives way, of the network that has most:
    /// so a crowd from one place holds up nobody from elsewhere, and nobody holds a place by saying nothing.
    pub(crate) fn begin(&self, address: Option<IpAddr>, socket: Ending) -> LoggingIn {
        let network = address.map(network);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while table.entries.len() >= MOST {
            table.make_room(network);
        }
        table.last += 1;
        let number = table.last;
        table.entries.insert(number, Entry { network, socket });
        LoggingIn { logins: self.clone(), number }
    }
}

impl Table {
    fn make_room(&mut self, newcomer: Option<IpAddr>) {
        let mut counts = BTreeMap::from([(newcomer, 1)]);
        for entry in self.entries.values() {
            *counts.entry(entry.network).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self.entries.iter().find(|(_, entry)| counts.get(&entry.network).copied() == most);
        let Some((&number, _)) = oldest else { return };
        if let Some(entry) = self.entries.remove(&number) {
            entry.socket.end();
        }
        let now = Instant::now();
        if self.said.is_none_or(|said| now - said >= SAY_AGAIN) {
            self.said = Some(now);
            tracing::warn!(
                "admin: {MOST} connections are logging in; for each further one the oldest is closed"
            );
        }
    }
}

/// Of IPv6 the first half, since each site has at least a /64 (RFC 6177).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    struct Peer {
        _place: LoggingIn,
        socket: UnixStream,
    }

    fn begin(logins: &Logins, last: u8) -> Peer {
        let (ours, socket) = UnixStream::pair().unwrap();
        let _place = logins.begin(Some(IpAddr::from([10, 0, 0, last])), Ending::Unix(ours));
        socket.set_nonblocking(true).unwrap();
        Peer { _place, socket }
    }

    impl Peer {
        fn has_ended(&mut self) -> bool {
            matches!(self.socket.read(&mut [0]), Ok(0))
        }
    }

    #[test]
    fn a_crowd_gives_way_to_those_from_elsewhere() {
        let logins = Logins::default();
        let mut first = begin(&logins, 1);
        let mut crowd: Vec<_> = (0..100).map(|_| begin(&logins, 2)).collect();
        assert!(!first.has_ended(), "older than all of the crowd");
        let mut later = begin(&logins, 3);
        let standing: Vec<_> = crowd.iter_mut().map(|peer| !peer.has_ended()).collect();
        assert_eq!(standing.iter().filter(|&&stands| stands).count(), MOST - 2);
        assert!(standing[100 - (MOST - 2)..].iter().all(|&stands| stands), "the oldest go first");
        assert!(!first.has_ended() && !later.has_ended());
    }

    #[test]
    fn where_each_comes_from_elsewhere_the_oldest_gives_way() {
        let logins = Logins::default();
        let mut peers: Vec<_> = (0..=MOST as u8).map(|last| begin(&logins, last)).collect();
        let ended: Vec<_> = peers.iter_mut().map(Peer::has_ended).collect();
        assert!(ended[0] && ended[1..].iter().all(|&ended| !ended));
        drop(peers);
        assert!(logins.0.lock().unwrap().entries.is_empty());
    }
}
