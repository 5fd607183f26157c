//! The load against a server in memory, under a virtual clock: every answer is the test's.

mod connecting;
mod failing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use clap::Parser as _;
use rustix::io::Errno;
use wire::{Capabilities, Greeting, StatusFlags};

use super::*;
use crate::crowd::Crowd;
use crate::distribution::{Distribution, Random};
use crate::options::{Action, CommandLine};
use crate::report::interval_line;
use login::Credentials;

/// How long bytes take in either direction, and how long an answer takes unless it says otherwise.
const HOP: Duration = Duration::from_micros(500);

/// What the server does with a statement.
enum Answer {
    Bytes(Vec<u8>),
    /// The same after a while.
    Late(Duration, Vec<u8>),
    Close,
    Silence,
}

enum Delivery {
    Connected { token: u64, index: u32 },
    ConnectFailed { token: u64, errno: i32 },
    Bytes { connection: ConnectionId, bytes: Vec<u8> },
    Closed { connection: ConnectionId },
}

/// The server, and a driver between it and the generator.
struct World<'a, F> {
    generator: Generator<'a>,
    now: Instant,
    deliveries: BTreeMap<(Instant, u64), Delivery>,
    sent: u64,
    /// By index: where it was to go.
    addresses: Vec<Address>,
    /// By index: whether it is logged in; `None` when it is closed.
    connections: Vec<Option<bool>>,
    /// Statements in the order of their arrival, with the connection.
    log: Vec<(u32, String)>,
    /// What the run has told.
    news: Rc<RefCell<Vec<String>>>,
    answer: F,
    /// What becomes of the connect with this number, counted from 0, to this address.
    admit: fn(u32, &Address) -> Admission,
}

/// What becomes of a connect.
enum Admission {
    In,
    /// The system says no.
    Errno(Errno),
    /// The server says no in place of its greeting.
    Refused(u16),
    /// The login is accepted and the connection closed right after it.
    Dropped,
}

impl<'a, F: FnMut(u32, &str) -> Answer> World<'a, F> {
    fn new(options: &'a RunOptions, answer: F) -> Self {
        let tables = &options.tables;
        let rows = Distribution::new(tables.shape(), tables.table_size);
        let source = Source::new(Random::new(1), rows, tables.tables, 0xabc);
        let crowd = Crowd::drawn(Credentials::new("root", "", None, false), None, None, tables.shape(), 1)
            .with_session_states(options.session_states);
        let address = Address::Unix("/server".into());
        let news = Rc::new(RefCell::new(Vec::new()));
        let told = Rc::clone(&news);
        let tell = move |news: News<'_>| {
            told.borrow_mut().push(match news {
                News::Interval(interval) => interval_line(&interval),
                other => format!("{other:?}"),
            });
        };
        let generator = Generator::new(options, crowd, vec![address], source, tell);
        Self {
            generator,
            now: Instant::START,
            deliveries: BTreeMap::new(),
            sent: 0,
            addresses: Vec::new(),
            connections: Vec::new(),
            log: Vec::new(),
            news,
            answer,
            admit: |_, _| Admission::In,
        }
    }

    /// Runs to the end.
    fn run(&mut self) {
        loop {
            let arrival = self.deliveries.first_key_value().map(|((due, _), _)| *due);
            let due = [arrival, self.generator.next_timeout()].into_iter().flatten().min();
            self.now = self.now.max(due.expect("something is due until the run ends"));
            assert!(self.now < Instant::from_micros(1_000_000_000), "the run does not end");
            while let Some(entry) = self.deliveries.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let delivery = entry.remove();
                self.deliver(delivery);
            }
            self.generator.handle(self.now, Input::TurnEnd);
            if self.carry_out() {
                return;
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Connected { token, index } => {
                let connection = id(index);
                self.generator.handle(self.now, Input::Connected { token, connection });
                let bytes = match (self.admit)(index, &self.addresses[index as usize]) {
                    Admission::Refused(code) => refusal(code),
                    _ => greeting(),
                };
                self.post(Duration::ZERO, Delivery::Bytes { connection, bytes });
            }
            Delivery::ConnectFailed { token, errno } => {
                self.generator.handle(self.now, Input::ConnectFailed { token, errno });
            }
            Delivery::Bytes { connection, bytes } => {
                if self.connections[connection.index as usize].is_some() {
                    self.generator.handle(self.now, Input::Bytes { connection, bytes: &bytes });
                }
            }
            Delivery::Closed { connection } => {
                if self.connections[connection.index as usize].take().is_some() {
                    let reason = CloseReason::EndOfStream;
                    self.generator.handle(self.now, Input::Closed { connection, reason });
                }
            }
        }
    }

    fn carry_out(&mut self) -> bool {
        let mut asked = Vec::new();
        let mut received = Vec::new();
        let mut finished = false;
        while let Some(output) = self.generator.poll_output() {
            match output {
                Output::Connect { token, address } => asked.push((token, address)),
                Output::Send { connection, bytes } => received.push((connection, bytes.to_vec())),
                Output::Close { connection } => self.connections[connection.index as usize] = None,
                Output::Finished => finished = true,
                other => panic!("{other:?}"),
            }
        }
        for (token, address) in asked {
            self.connect(token, &address);
        }
        for (connection, bytes) in received {
            self.serve(connection, &bytes);
        }
        finished
    }

    fn connect(&mut self, token: u64, address: &Address) {
        let index = self.connections.len() as u32;
        self.connections.push(Some(false));
        let delivery = match (self.admit)(index, address) {
            Admission::Errno(errno) => Delivery::ConnectFailed { token, errno: errno.raw_os_error() },
            _ => Delivery::Connected { token, index },
        };
        self.sent += 1;
        self.deliveries.insert((self.now + HOP, self.sent), delivery);
        self.addresses.push(address.clone());
    }

    fn serve(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let Some(logged_in) = &mut self.connections[connection.index as usize] else { return };
        if !std::mem::replace(logged_in, true) {
            self.post(HOP, Delivery::Bytes { connection, bytes: ok(2, false) });
            let address = &self.addresses[connection.index as usize];
            if matches!((self.admit)(connection.index, address), Admission::Dropped) {
                self.post(2 * HOP, Delivery::Closed { connection });
            }
            return;
        }
        let text = String::from_utf8(bytes[5..].to_vec()).unwrap();
        self.log.push((connection.index, text.clone()));
        match (self.answer)(connection.index, &text) {
            Answer::Bytes(bytes) => self.post(HOP, Delivery::Bytes { connection, bytes }),
            Answer::Late(delay, bytes) => self.post(HOP + delay, Delivery::Bytes { connection, bytes }),
            Answer::Close => self.post(HOP, Delivery::Closed { connection }),
            Answer::Silence => {}
        }
    }

    fn post(&mut self, delay: Duration, delivery: Delivery) {
        self.sent += 1;
        self.deliveries.insert((self.now + HOP + delay, self.sent), delivery);
    }

    fn texts(&self, index: u32) -> Vec<&str> {
        self.log
            .iter()
            .filter(|(connection, _)| *connection == index)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

fn id(index: u32) -> ConnectionId {
    ConnectionId { index, generation: 1 }
}

fn options(line: &str) -> RunOptions {
    let words = ["onramp bench", "run"].into_iter().chain(line.split_whitespace());
    match CommandLine::try_parse_from(words).unwrap().action {
        Action::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 1;
    for payload in payloads {
        wire::put_message(&mut out, &mut sequence, payload);
    }
    out
}

fn greeting() -> Vec<u8> {
    let mut payload = Vec::new();
    Greeting {
        server_version: b"8.0.36",
        connection_id: 1,
        scramble: [7; 20],
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::DEPRECATE_EOF,
        collation: 45,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: b"mysql_native_password",
    }
    .put(&mut payload);
    let mut out = Vec::new();
    wire::put_message(&mut out, &mut 0, &payload);
    out
}

fn ok(sequence: u8, in_transaction: bool) -> Vec<u8> {
    vec![7, 0, 0, sequence, 0, 0, 0, 2 | u8::from(in_transaction), 0, 0, 0]
}

fn error(code: u16) -> Vec<u8> {
    packets(&[&[b"\xff".as_slice(), &code.to_le_bytes(), b"#HY000something"].concat()])
}

/// In place of a greeting.
fn refusal(code: u16) -> Vec<u8> {
    let mut bytes = error(code);
    bytes[3] = 0;
    bytes
}

/// One row with one column.
fn row(value: &str) -> Vec<u8> {
    let column = b"\x03def\0\0\0\x01t\0\x0c\x2d\0\x0b\0\0\0\xfd\0\0\0\0\0";
    let value = [&[value.len() as u8], value.as_bytes()].concat();
    packets(&[&[1], column, &value, &[0xfe, 0, 0, 2, 0, 0, 0]])
}

/// The text between the quotes of an echo statement.
fn token(statement: &str) -> &str {
    statement.split('\'').nth(1).unwrap()
}

#[test]
fn every_connection_goes_on_as_soon_as_it_is_answered() {
    let options = options("point_select --connections 3 --time 1");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("c")));
    world.run();
    let outcome = world.generator.into_outcome();
    let total = &outcome.statistics.total;
    // There and back takes a millisecond, of which a thousand fit in the second.
    assert_eq!(total.latencies.count(), 3 * 1000);
    assert!((total.latencies.max() - 1.0).abs() < 0.001);
    assert_eq!((total.queries.read, total.rows), (3000, 3000));
    assert_eq!(outcome.fairness, Some(Fairness { min: 1000, median: 1000, max: 1000 }));
    assert_eq!((outcome.measured, outcome.unfinished), (Duration::from_secs(1), 3));
    assert!(outcome.failure.is_none());
}

#[test]
fn the_warm_up_does_not_count() {
    let options = options("point_select --time 1 --warmup 2");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("c")));
    world.run();
    // The last answer comes after the end.
    assert!((3000..=3001).contains(&world.log.len()), "{}", world.log.len());
    let outcome = world.generator.into_outcome();
    assert!((1000..=1001).contains(&outcome.statistics.total.latencies.count()));
}

#[test]
fn a_run_tells_how_it_goes() {
    let options = options("point_select --connections 2 --time 2 --warmup 1 --report-interval 1");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("c")));
    world.run();
    let news = world.news.take();
    let (connecting, figures) = news.split_at(4);
    assert_eq!(
        connecting,
        ["Connecting { up: 0 }", "Connecting { up: 1 }", "Connecting { up: 2 }", "Opened"]
    );
    let beginnings: Vec<_> = figures.iter().map(|line| line.split(" qps").next().unwrap()).collect();
    // There and back takes a millisecond, of which a thousand fit in a second.
    let expected = [1, 2, 3].map(|second| format!("[ {second}s ] conns: 2 tps: 2000.00"));
    assert_eq!(beginnings, expected);
    let warming_up: Vec<_> = figures.iter().map(|line| line.ends_with(" (warm-up)")).collect();
    assert_eq!(warming_up, [true, false, false]);
}

#[test]
fn events_are_a_limit() {
    let options = options("echo --connections 7 --events 100 --time 0");
    let mut world = World::new(&options, |_, text| Answer::Bytes(row(token(text))));
    world.run();
    let statements = world.log.iter().filter(|(_, text)| text.starts_with("SELECT")).count();
    assert_eq!(statements, 100);
    let outcome = world.generator.into_outcome();
    assert_eq!((outcome.statistics.total.latencies.count(), outcome.statistics.mismatches), (100, 0));
}

#[test]
fn an_answer_that_belongs_to_another_is_found() {
    let options = options("echo --connections 2 --time 0.1");
    let mut last = String::from("none");
    let mut world = World::new(&options, |_, text| {
        // Everybody gets what was asked before.
        Answer::Bytes(row(&std::mem::replace(&mut last, token(text).to_owned())))
    });
    world.run();
    let outcome = world.generator.into_outcome();
    assert_eq!(
        outcome.statistics.mismatches,
        outcome.statistics.total.queries.read + u64::from(outcome.unfinished)
    );
    assert!(outcome.statistics.mismatch.unwrap().contains("connection 0"));
}

#[test]
fn bytes_beyond_a_reply_are_found() {
    let options = options("point_select --time 0.1");
    let mut first = true;
    let mut world = World::new(&options, |_, _| {
        let twice = std::mem::replace(&mut first, false);
        Answer::Bytes(if twice { [row("c"), row("c")].concat() } else { row("c") })
    });
    world.run();
    let outcome = world.generator.into_outcome();
    assert_eq!(outcome.statistics.mismatches, 1);
    assert_eq!(outcome.statistics.total.reconnects, 1, "the connection is not used any more");
}

#[test]
fn a_deadlock_is_rolled_back_and_tried_again() {
    let options = options("update_non_index_trx --time 0.05");
    let mut updates = 0;
    let mut world = World::new(&options, |_, text| {
        if text.starts_with("UPDATE") {
            updates += 1;
            if updates == 2 {
                return Answer::Bytes(error(1213));
            }
        }
        Answer::Bytes(ok(1, !text.starts_with("COMMIT") && text != "ROLLBACK"))
    });
    world.run();
    let words: Vec<_> = world.texts(0).iter().map(|text| text.split(' ').next().unwrap()).collect();
    assert_eq!(
        words[..10],
        ["BEGIN", "UPDATE", "COMMIT", "BEGIN", "UPDATE", "ROLLBACK", "BEGIN", "UPDATE", "COMMIT", "BEGIN"]
    );
    let outcome = world.generator.into_outcome();
    assert!(outcome.failure.is_none());
    assert_eq!(outcome.statistics.errors.iter().collect::<Vec<_>>(), [(1213, 1, "something")]);
    // The event that met the deadlock took two statements, a ROLLBACK and three statements more.
    assert!((outcome.statistics.total.latencies.max() - 6.0).abs() < 0.01);
}

#[test]
fn an_error_that_is_not_ignored_ends_the_run() {
    let options = options("oltp_write_only --connections 2 --time 10");
    let mut world = World::new(&options, |_, text| {
        Answer::Bytes(if text.starts_with("INSERT") { error(1062) } else { ok(1, true) })
    });
    world.run();
    assert!(world.now < Instant::from_micros(1_000_000));
    assert_eq!(world.generator.into_outcome().failure.unwrap().code, 1062);
}

#[test]
fn each_connection_takes_up_its_session_state_first() {
    let options = options("point_select --connections 3 --time 1 --session-states 2 --prepared");
    let mut world = World::new(&options, |_, text| {
        Answer::Bytes(if text.starts_with("SET") { ok(1, false) } else { error(1295) })
    });
    world.run();
    let firsts: Vec<_> = (0..3).map(|index| world.texts(index)[0].to_owned()).collect();
    assert_eq!(firsts[0], "SET NAMES utf8mb4, time_zone = '-11:00'");
    assert_eq!(firsts[1], "SET NAMES latin1, time_zone = '-11:00'");
    assert_eq!(firsts[2], firsts[0]);
    assert_eq!(
        world.generator.into_outcome().failure.unwrap().code,
        1295,
        "what is prepared comes behind it"
    );
}

#[test]
fn a_refused_session_state_ends_the_run() {
    let options = options("point_select --connections 2 --time 10 --session-states 2");
    let mut world = World::new(&options, |_, text| {
        Answer::Bytes(if text.starts_with("SET") { error(1115) } else { row("c") })
    });
    world.run();
    assert_eq!(world.generator.into_outcome().failure.unwrap().code, 1115);
}

#[test]
fn a_lost_connection_is_made_again_and_its_event_begun_again() {
    let options = options("oltp_read_only --time 1");
    let mut statements = 0;
    let mut world = World::new(&options, |_, text| {
        statements += 1;
        match statements {
            5 => Answer::Close,
            _ if text == "BEGIN" || text == "COMMIT" => Answer::Bytes(ok(1, text == "BEGIN")),
            _ => Answer::Bytes(row("c")),
        }
    });
    world.run();
    assert_eq!(world.texts(0).len(), 5);
    assert_eq!(world.texts(1)[0], "BEGIN");
    let outcome = world.generator.into_outcome();
    let total = &outcome.statistics.total;
    assert_eq!((total.reconnects, total.errors), (1, 1));
    assert_eq!(outcome.statistics.errors.iter().next().map(|(code, ..)| code), Some(2013));
    assert!(outcome.failure.is_none() && total.latencies.count() > 50);
}

#[test]
fn nothing_works_for_ten_seconds() {
    let options = options("point_select --connections 4 --time 600");
    let mut answered = 0;
    let mut world = World::new(&options, |_, _| {
        answered += 1;
        if answered < 100 { Answer::Bytes(row("c")) } else { Answer::Close }
    });
    world.run();
    assert!((10_000_000..13_000_000).contains(&world.now.as_micros()), "{:?}", world.now);
    assert!(world.generator.into_outcome().failure.unwrap().text.contains("nothing has worked"));
}

#[test]
fn open_loop_latency_counts_from_when_an_event_was_due() {
    // One connection that takes 11 ms for each of 200 events a second: the queue grows by about 109 a second.
    let options = options("point_select --rate 200 --time 4");
    let mut world = World::new(&options, |_, _| Answer::Late(Duration::from_millis(10), row("c")));
    world.run();
    let outcome = world.generator.into_outcome();
    let latencies = &outcome.statistics.total.latencies;
    assert!((360..=364).contains(&latencies.count()), "{}", latencies.count());
    // 800 were due, give or take five times the root.
    let due = latencies.count() + outcome.not_begun;
    assert!((660..=940).contains(&due), "{due}");
    // The last one that was done had been due when about as many were done as come in half the time.
    assert!(latencies.max() > 1500.0, "{}", latencies.max());
    assert!(latencies.quantile(0.5) > 500.0, "{}", latencies.quantile(0.5));
}

#[test]
fn open_loop_without_a_queue_sees_the_servers_time() {
    let options = options("point_select --connections 50 --rate 100 --time 10");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("c")));
    world.run();
    let outcome = world.generator.into_outcome();
    assert!((outcome.statistics.total.latencies.max() - 1.0).abs() < 0.01);
    assert_eq!(outcome.not_begun, 0);
}

#[test]
fn connect_events_log_in_each_time() {
    let options = options("connect --connections 3 --time 0.1");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("1")));
    world.run();
    let connected = world.connections.len() as u64;
    let outcome = world.generator.into_outcome();
    let events = outcome.statistics.total.latencies.count();
    assert_eq!(connected, events + u64::from(outcome.unfinished));
    // Connect and greeting, request and OK, statement and answer.
    assert!((outcome.statistics.total.latencies.max() - 3.0).abs() < 0.01);
}

#[test]
fn a_pause_follows_each_event() {
    let options = options("point_select --connections 10 --think-time 99 --time 10");
    let mut world = World::new(&options, |_, _| Answer::Bytes(row("c")));
    world.run();
    let outcome = world.generator.into_outcome();
    // 1 ms for the answer and 99 for the pause: 100 events, or 99 where the first pause was long.
    let fairness = outcome.fairness.unwrap();
    assert!(fairness.min >= 99 && fairness.max <= 100, "{fairness:?}");
}

#[test]
fn a_login_without_an_answer_is_given_up() {
    let options = options("point_select --time 1 --prepared");
    let mut world = World::new(&options, |_, _| Answer::Silence);
    world.run();
    let outcome = world.generator.into_outcome();
    assert!(outcome.failure.unwrap().text.contains("no login within 10s"));
    assert!((10_000_000..11_000_000).contains(&world.now.as_micros()));
}

#[test]
fn statements_that_never_come_back_do_not_hold_up_the_end() {
    let options = options("point_select --connections 2 --time 1");
    let mut world =
        World::new(&options, |index, _| if index == 0 { Answer::Silence } else { Answer::Bytes(row("c")) });
    world.run();
    assert_eq!(world.now.as_micros() / 1_000_000, 6, "a second and the grace");
    let outcome = world.generator.into_outcome();
    assert_eq!(outcome.unfinished, 2);
    assert!(outcome.oldest > Duration::from_millis(990));
    assert_eq!(outcome.starved, 1);
    assert_eq!(outcome.fairness.map(|fairness| fairness.min), Some(0));
}

#[test]
fn nobody_has_starved_where_a_fair_share_is_hardly_an_event() {
    let late = || Answer::Late(Duration::from_millis(400), row("c"));
    for (time, starved) in [(2, 0), (3, 1)] {
        let options = options(&format!("point_select --connections 2 --time {time}"));
        let mut world = World::new(&options, |index, _| if index == 0 { Answer::Silence } else { late() });
        world.run();
        let outcome = world.generator.into_outcome();
        assert_eq!((outcome.starved, outcome.unfinished), (starved, 2), "{time} s");
    }
}
