//! The kernel's queues of connections that nobody has accepted yet: how many wait at each socket that clients connect to, and how
//! many did not fit.
//!
//! It is read when somebody looks, by whoever looks. /proc/self/net/tcp has listening sockets in front (`tcp_seq_start` of Linux's
//! `net/ipv4/tcp_ipv4.c`), so that reading stops before the first connection, however many there are. Of Unix sockets only
//! sock_diag(7) tells the same, which the unit that systemd runs lets nobody ask.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};

use drivers::ListenSocket;

use crate::addresses::Listening;

/// Listening sockets of IPv4 and of IPv6, those that take both among the latter.
const TCP: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Counters of the network namespace.
const NETSTAT: &str = "/proc/self/net/netstat";

/// What the kernel cuts every queue down to.
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";

/// How /proc writes the state of a socket that listens (TCP_LISTEN).
const LISTENS: &str = "0A";

/// Rows that are looked at in one file: more sockets than anybody listens on, and read in a few milliseconds.
const MOST_ROWS: usize = 4096;

/// All queues of an Onramp's.
pub(crate) struct AcceptQueues {
    sockets: Vec<Socket>,
    /// What had not fitted before.
    before: Lost,
}

/// A socket that clients connect to.
struct Socket {
    address: String,
    worker: Option<u32>,
    /// Its number in /proc; `None` for a Unix socket.
    inode: Option<u64>,
    bound: u32,
}

/// How one stands.
pub(crate) struct AcceptQueue<'a> {
    pub(crate) address: &'a str,
    /// Who accepts there; `None` where all workers do.
    pub(crate) worker: Option<u32>,
    /// Connections that nobody has accepted yet; `None` for a Unix socket, and where the kernel does not say.
    pub(crate) waiting: Option<u64>,
    /// As many may wait, and one more.
    pub(crate) bound: u32,
}

/// What did not fit, of any program's in the network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// How often a connection met a full queue (ListenOverflows).
    pub(crate) overflows: u64,
    /// How often one was dropped, for that or for want of memory and the like (ListenDrops).
    pub(crate) drops: u64,
}

impl AcceptQueues {
    /// Those of the sockets that workers are about to accept at, address by address. `back_log` is what they listen with.
    ///
    /// # Errors
    /// What the system says of a socket.
    pub(crate) fn of(
        shares: &[Vec<ListenSocket>],
        listening: &[Listening],
        back_log: u32,
    ) -> io::Result<Self> {
        let most = std::fs::read_to_string(SOMAXCONN).ok().and_then(|text| text.trim().parse().ok());
        let bound = most.map_or(back_log, |most: u32| most.min(back_log));
        let mut sockets: Vec<Socket> = Vec::new();
        for (at, one) in listening.iter().enumerate() {
            let is_tcp = matches!(one.actual, drivers::ListenAddress::Tcp(_));
            let address = one.actual.to_string();
            let first = sockets.len();
            for (worker, sockets_of_one) in (0..).zip(shares) {
                let inode = rustix::fs::fstat(&sockets_of_one[at])?.st_ino;
                // A socket that was handed over, or a Unix one, is there once for all.
                match sockets[first..].iter_mut().find(|known| !is_tcp || known.inode == Some(inode)) {
                    Some(known) => known.worker = None,
                    None => sockets.push(Socket {
                        address: address.clone(),
                        worker: Some(worker),
                        inode: is_tcp.then_some(inode),
                        bound,
                    }),
                }
            }
        }
        Ok(Self { sockets, before: lost().unwrap_or_default() })
    }

    /// How they stand now.
    pub(crate) fn look(&self) -> Vec<AcceptQueue<'_>> {
        let mut wanted: BTreeMap<u64, Option<u64>> =
            self.sockets.iter().filter_map(|socket| Some((socket.inode?, None))).collect();
        for path in TCP {
            // Where there is no IPv6, the second is not there.
            if let Ok(file) = File::open(path) {
                take_waiting(BufReader::new(file), &mut wanted);
            }
        }
        let sockets = self.sockets.iter().map(|socket| AcceptQueue {
            address: &socket.address,
            worker: socket.worker,
            waiting: socket.inode.and_then(|inode| wanted[&inode]),
            bound: socket.bound,
        });
        sockets.collect()
    }

    /// What did not fit since the start; nothing where the kernel does not say.
    pub(crate) fn lost(&self) -> Lost {
        let now = lost().unwrap_or(self.before);
        Lost {
            overflows: now.overflows.saturating_sub(self.before.overflows),
            drops: now.drops.saturating_sub(self.before.drops),
        }
    }
}

/// Notes how many wait at those that are wanted, by their numbers, as far as the listening sockets of this text go.
fn take_waiting(mut text: impl io::BufRead, wanted: &mut BTreeMap<u64, Option<u64>>) {
    let mut line = String::new();
    // The first line has the names of the columns.
    for row in 0..=MOST_ROWS {
        line.clear();
        if !text.read_line(&mut line).is_ok_and(|length| length > 0) {
            break;
        }
        if row == 0 {
            continue;
        }
        let mut columns = line.split_ascii_whitespace().skip(3);
        if columns.next() != Some(LISTENS) {
            break;
        }
        // Sent and received, and behind the timer, the repetitions, the user and the timeout the number.
        let received = columns.next().and_then(|queues| queues.split_once(':')).map(|(_, received)| received);
        let waiting = received.and_then(|hexadecimal| u64::from_str_radix(hexadecimal, 16).ok());
        let inode = columns.nth(4).and_then(|number| number.parse().ok());
        if let Some(known) = inode.and_then(|inode: u64| wanted.get_mut(&inode)) {
            *known = waiting;
            if wanted.values().all(Option::is_some) {
                break;
            }
        }
    }
}

fn lost() -> Option<Lost> {
    lost_of(&std::fs::read_to_string(NETSTAT).ok()?)
}

/// The file has two lines for each group of counters: their names, and their values.
fn lost_of(text: &str) -> Option<Lost> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let mut both = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        both.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(Lost { overflows: of("ListenOverflows")?, drops: of("ListenDrops")? })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::time::{Duration, Instant};

    use config::ListenAddress;

    use super::*;

    /// As Linux 6.1 writes it, with a connection behind the listeners.
    const ROWS: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000005 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:0CEA 0100007F:D2F0 01 00000000:000000FF 00:00000000 00000000     0        0 4713 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:0CEB 00000000:0000 0A 00000000:00000007 00:00000000 00000000     0        0 4714 1 0000000000000000 100 0 0 10 0
";

    fn waiting(text: &str, wanted: &[u64]) -> Vec<Option<u64>> {
        let mut found = wanted.iter().map(|&inode| (inode, None)).collect();
        take_waiting(text.as_bytes(), &mut found);
        found.into_values().collect()
    }

    #[test]
    fn listening_sockets_are_read_and_nothing_behind_them() {
        assert_eq!(waiting(ROWS, &[4711, 4712]), [Some(5), Some(0)]);
        assert_eq!(waiting(ROWS, &[4711, 4713, 4714]), [Some(5), None, None]);
        assert_eq!(waiting("", &[4711]), [None]);
        for cut in 0..ROWS.len() {
            waiting(&ROWS[..cut], &[4711, 4712, 4713, 4714]);
        }
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\nTcpExt: 1 22 333 4\n\
            IpExt: ListenDrops\nIpExt: 5\n";
        assert_eq!(lost_of(text), Some(Lost { overflows: 22, drops: 333 }));
        assert_eq!(lost_of("TcpExt: ListenOverflows\nTcpExt: 1\n"), None);
        assert_eq!(lost_of(""), None);
    }

    /// Nobody accepts at the sockets of this test.
    #[test]
    fn a_queue_fills_and_what_does_not_fit_is_counted() {
        const BACK_LOG: u32 = 4;
        /// As long as a crowded machine may take.
        const PATIENCE: Duration = Duration::from_secs(10);
        let given = ListenAddress::Tcp { host: String::from("127.0.0.1"), port: 0, tls: None };
        let (shares, actual) = listening_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), BACK_LOG);
        let drivers::ListenAddress::Tcp(address) = actual else { panic!("it is of TCP") };
        let queues = AcceptQueues::of(&shares, &[Listening { actual, given }], BACK_LOG).unwrap();
        let [before] = &queues.look()[..] else { panic!("there is one") };
        assert_eq!((before.waiting, before.bound, before.worker), (Some(0), BACK_LOG, Some(0)));
        assert_eq!(before.address, address.to_string());
        // The kernel takes one more than it is told.
        let taken: Vec<_> = (0..=BACK_LOG).map(|_| TcpStream::connect(address).unwrap()).collect();
        // A client has its connection before the kernel has put it into the queue.
        let given_up = Instant::now() + PATIENCE;
        while queues.look()[0].waiting != Some(u64::from(BACK_LOG) + 1) && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(queues.look()[0].waiting, Some(u64::from(BACK_LOG) + 1));
        let lost = queues.lost();
        // One that does not fit is not answered. The client sends again and again, and so the counters move once at least.
        let refused = TcpStream::connect_timeout(&address, Duration::from_millis(100));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let now = queues.lost();
        assert!(now.overflows > lost.overflows && now.drops > lost.drops, "{now:?} behind {lost:?}");
        drop(taken);
    }

    fn listening_at(address: SocketAddr, back_log: u32) -> (Vec<Vec<ListenSocket>>, drivers::ListenAddress) {
        let address = drivers::ListenAddress::Tcp(address);
        let (socket, actual) = ListenSocket::open_alone(&address, back_log).unwrap();
        (vec![vec![socket]], actual)
    }

    #[test]
    fn each_worker_has_a_queue_of_its_own_but_for_unix_sockets() {
        let folder = std::env::temp_dir().join(format!("onramp-accept-queues-{}", std::process::id()));
        let path = drivers::ListenAddress::Unix(folder.clone());
        let (mut shares, mut listening) = (vec![Vec::new(), Vec::new()], Vec::new());
        for address in [drivers::ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), path] {
            let (sockets, actual) = ListenSocket::open(&address, 16, 2).unwrap();
            shares.iter_mut().zip(sockets).for_each(|(own, socket)| own.push(socket));
            listening.push(Listening { actual, given: ListenAddress::Unix(folder.clone()) });
        }
        let queues = AcceptQueues::of(&shares, &listening, 16).unwrap();
        let found: Vec<_> = queues.look().iter().map(|queue| (queue.worker, queue.waiting)).collect();
        assert_eq!(found, [(Some(0), Some(0)), (Some(1), Some(0)), (None, None)]);
    }
}
