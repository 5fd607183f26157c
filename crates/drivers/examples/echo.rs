//! What an echo costs with each driver, and what an idle connection does. Two processes:
//!
//!     echo serve auto|uring|epoll PORT
//!     echo load auto|uring|epoll PORT CONNECTIONS ACTIVE SECONDS
//!
//! The load connects, from as many loopback addresses as the ports need, and then keeps ACTIVE of the connections busy:
//! each sends 64 bytes, and again when they have come back. The server ends when its last peer has gone. Both say what
//! they did and what they held; `perf stat` around the server says what it cost.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a measurement, to be read from top to bottom"
)]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use drivers::{Counters, Driver, ListenAddress, Settings};
use seam::{Address, ConnectionId, Input, Instant, Output, Program};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().unwrap();
    let opened = Driver::open(arguments[1].parse().unwrap(), Settings::default()).unwrap();
    let mut driver = opened.driver;
    eprintln!(
        "{} on {}{}",
        arguments[0],
        driver.kind(),
        opened.fallback.map(|reason| format!(": {reason}")).unwrap_or_default()
    );
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, number(2) as u16));
    match arguments[0].as_str() {
        "serve" => {
            driver.listen(&ListenAddress::Tcp(address), 4096).unwrap();
            let mut server = Server::default();
            driver.run(&mut server).unwrap();
            eprintln!("{} echoes, at most {} connections", server.echoes, server.most);
        }
        "load" => {
            let seconds = Duration::from_secs(number(5) as u64);
            let mut load = Load::new(address, number(3), number(4), seconds);
            driver.run(&mut load).unwrap();
        }
        other => panic!("{other} is neither serve nor load"),
    }
    say(&driver.counters());
}

/// Time that this thread had a processor, as /proc/self/schedstat says.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn say(counters: &Counters) {
    eprintln!("{counters:#?}");
    if let Some(each) = processor_time().as_nanos().checked_div(u128::from(counters.receives)) {
        eprintln!("{each} ns of a processor for each receive, connecting included");
    }
    eprintln!("memory of the driver: {} KiB, {}", counters.memory_bytes() >> 10, resident());
}

/// The process's memory as the kernel counts it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.collect::<Vec<_>>().join(", ")
}

/// Sends back what it is sent.
#[derive(Default)]
struct Server {
    /// Bytes of this turn, and whose they are.
    bytes: Vec<u8>,
    echo: VecDeque<(ConnectionId, usize)>,
    given: usize,
    open: usize,
    most: usize,
    echoes: u64,
    finished: bool,
}

impl Program for Server {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            Input::Accepted { .. } => {
                self.open += 1;
                self.most = self.most.max(self.open);
                if self.open % 10_000 == 0 {
                    eprintln!("{} connections, {}", self.open, resident());
                }
            }
            Input::Bytes { connection, bytes } => {
                self.echoes += 1;
                self.bytes.extend_from_slice(bytes);
                self.echo.push_back((connection, bytes.len()));
            }
            Input::Closed { .. } => {
                self.open -= 1;
                self.finished = self.open == 0;
            }
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        let Some((connection, length)) = self.echo.pop_front() else {
            self.bytes.clear();
            self.given = 0;
            return std::mem::take(&mut self.finished).then_some(Output::Finished);
        };
        self.given += length;
        Some(Output::Send { connection, bytes: &self.bytes[self.given - length..self.given] })
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

const MESSAGE: [u8; 64] = [7; 64];

/// Connects, then keeps some of the connections busy.
struct Load {
    address: SocketAddr,
    wanted: usize,
    active: usize,
    asked: usize,
    connected: Vec<ConnectionId>,
    /// Bytes still to come back, by slot.
    missing: Vec<usize>,
    send: VecDeque<ConnectionId>,
    seconds: Duration,
    begun: Option<Instant>,
    echoes: u64,
    finished: bool,
    timeout: Option<Instant>,
}

impl Load {
    fn new(address: SocketAddr, wanted: usize, active: usize, seconds: Duration) -> Self {
        Self {
            address,
            wanted,
            active,
            asked: 0,
            connected: Vec::new(),
            missing: Vec::new(),
            send: VecDeque::new(),
            seconds,
            begun: None,
            echoes: 0,
            finished: false,
            timeout: Some(Instant::START),
        }
    }
}

impl Program for Load {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Connected { connection, .. } => {
                self.connected.push(connection);
                if self.connected.len() % 10_000 == 0 {
                    eprintln!("{} connected after {:?}, {}", self.connected.len(), now, resident());
                }
                if self.connected.len() == self.wanted {
                    let highest = self.connected.iter().map(|connection| connection.index).max().unwrap_or(0);
                    self.missing = vec![MESSAGE.len(); highest as usize + 1];
                    // Spread over the rings.
                    let step = self.wanted / self.active.max(1);
                    self.send.extend(self.connected.iter().step_by(step.max(1)).take(self.active));
                    self.begun = Some(now);
                    self.timeout = Some(now + self.seconds);
                }
            }
            Input::ConnectFailed { errno, .. } => {
                panic!("errno {errno} with {} connected", self.connected.len())
            }
            Input::Bytes { connection, bytes } => {
                let missing = &mut self.missing[connection.index as usize];
                *missing -= bytes.len();
                if *missing == 0 {
                    *missing = MESSAGE.len();
                    self.echoes += 1;
                    self.send.push_back(connection);
                }
            }
            Input::TurnEnd => match self.begun {
                Some(begun) if now >= begun + self.seconds && !self.finished => {
                    let rate = self.echoes as f64 / now.since(begun).as_secs_f64();
                    eprintln!("{rate:.0} echoes a second, {}", resident());
                    self.finished = true;
                }
                Some(_) => {}
                None => self.timeout = None,
            },
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        if self.finished {
            return Some(Output::Finished).filter(|_| std::mem::take(&mut self.finished));
        }
        // As many at a time as a listener's queue holds.
        if self.asked < self.wanted && self.asked < self.connected.len() + 512 {
            self.asked += 1;
            // Of the 28,232 ports of an address, connect(2) looks at every other first. Beyond those it takes 0.5 ms for each.
            let local = Ipv4Addr::new(127, 0, 1, 1 + (self.asked / 14_000) as u8).into();
            let address = Address::Tcp { remote: self.address, local: Some(local) };
            return Some(Output::Connect { token: 0, address });
        }
        self.send.pop_front().map(|connection| Output::Send { connection, bytes: &MESSAGE })
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timeout
    }
}
