use std::time::Duration;

use super::*;
use crate::protocol::packet;
use crate::scheduling::scenario::{Table, Time};
use crate::scheduling::statement::{Action, Origin, Statement};

/// A server with its own clock, and what it has answered.
struct Bench {
    server: Server,
    now: u64,
    planned: Vec<(u64, Wake)>,
    answers: Vec<(u32, Vec<u8>)>,
}

impl Bench {
    fn new() -> Self {
        let table = Table { cpu: Time::micros(100), wait: Time::NONE };
        let model = ServerModel {
            trivial: Time::micros(10),
            sync: Time::micros(50),
            lock_wait_timeout: Duration::from_secs(5),
            ..ServerModel::of_cores(2, &[table])
        };
        Self { server: Server::new(model, 1), now: 0, planned: Vec::new(), answers: Vec::new() }
    }

    fn session(&mut self) -> u32 {
        let id = self.server.accept();
        let mut login = vec![0; 32];
        login.extend_from_slice(b"app\0");
        self.server.receive(self.now, id, &packet(1, &login));
        self.run_for(1_000);
        self.answers.clear();
        id
    }

    fn say(&mut self, id: u32, text: &str) {
        let payload = [b"\x03", text.as_bytes()].concat();
        self.server.receive(self.now, id, &packet(0, &payload));
        self.run_for(0);
    }

    fn ask(&mut self, id: u32, action: Action, row: u64) {
        let statement = Statement { action, table: 0, row };
        self.say(id, &statement.text(Origin { client: id, number: 1 }));
    }

    fn run_for(&mut self, micros: u64) {
        let until = self.now + micros;
        loop {
            let effects = self.server.effects();
            self.planned.append(&mut effects.planned);
            self.answers.append(&mut effects.sent);
            self.planned.sort_by_key(|(at, _)| *at);
            if self.planned.first().is_none_or(|(at, _)| *at > until) {
                break;
            }
            let (at, wake) = self.planned.remove(0);
            self.now = at;
            self.server.wake(at, wake);
        }
        self.now = until;
    }

    /// The sessions that have been answered since, each with whether it was an error.
    fn answered(&mut self) -> Vec<(u32, bool)> {
        self.answers.drain(..).map(|(id, bytes)| (id, bytes[4] == 0xff)).collect()
    }
}

#[test]
fn a_row_is_its_writers_until_the_commit() {
    let mut bench = Bench::new();
    let (one, two) = (bench.session(), bench.session());
    bench.ask(one, Action::Begin, 0);
    bench.run_for(100);
    bench.ask(one, Action::Write, 7);
    bench.ask(two, Action::Write, 7);
    bench.run_for(1_000);
    assert_eq!(bench.answered(), [(one, false), (one, false)]);
    bench.ask(one, Action::Commit, 0);
    bench.run_for(1_000);
    assert_eq!(bench.answered(), [(one, false), (two, false)]);
}

#[test]
fn waiting_for_a_row_ends_after_a_time() {
    let mut bench = Bench::new();
    let (one, two) = (bench.session(), bench.session());
    bench.ask(one, Action::Begin, 0);
    bench.run_for(100);
    bench.ask(one, Action::Write, 7);
    bench.run_for(1_000);
    bench.ask(two, Action::Write, 7);
    bench.run_for(4_999_000);
    assert_eq!(bench.answered(), [(one, false), (one, false)]);
    bench.run_for(2_000);
    assert_eq!(bench.answered(), [(two, true)]);
}

#[test]
fn the_global_read_lock_stops_writes_and_not_reads() {
    let mut bench = Bench::new();
    let (one, two) = (bench.session(), bench.session());
    bench.ask(one, Action::GlobalReadLock, 0);
    bench.run_for(100);
    bench.ask(two, Action::Write, 1);
    bench.run_for(60_000_000);
    bench.ask(one, Action::Read, 1);
    bench.run_for(1_000);
    assert_eq!(bench.answered(), [(one, false), (one, false)]);
    bench.ask(one, Action::Unlock, 0);
    bench.run_for(1_000);
    assert_eq!(bench.answered(), [(one, false), (two, false)]);
}

#[test]
fn a_killed_statement_ends_and_leaves_its_place() {
    let mut bench = Bench::new();
    let (one, two, three) = (bench.session(), bench.session(), bench.session());
    bench.ask(one, Action::GetLock { timeout: 60 }, 1);
    bench.run_for(100);
    bench.ask(two, Action::GetLock { timeout: 60 }, 1);
    bench.ask(three, Action::GetLock { timeout: 60 }, 1);
    bench.answered();
    // Threads count from 1.
    bench.say(one, "KILL QUERY 2");
    bench.run_for(100);
    assert_eq!(bench.answered(), [(two, true), (one, false)]);
    bench.ask(one, Action::ReleaseLock, 1);
    bench.run_for(100);
    assert_eq!(bench.answered(), [(one, false), (three, false)]);
}

#[test]
fn a_session_that_hangs_up_gives_back_what_it_held_at_the_end_of_its_statement() {
    let mut bench = Bench::new();
    let (one, two) = (bench.session(), bench.session());
    bench.ask(one, Action::LockTable, 0);
    bench.run_for(100);
    bench.ask(two, Action::Read, 0);
    bench.run_for(1_000);
    assert_eq!(bench.answered(), [(one, false)]);
    bench.ask(one, Action::Read, 0);
    bench.server.hang_up(bench.now, one);
    assert_eq!(bench.server.sessions(), 2);
    bench.run_for(1_000);
    assert_eq!((bench.answered(), bench.server.sessions()), (vec![(one, false), (two, false)], 1));
}

#[test]
fn what_runs_beside_clients_statements_is_answered() {
    let mut bench = Bench::new();
    let one = bench.session();
    bench.say(one, "SET a=1;SELECT CURRENT_USER()");
    bench.run_for(1_000);
    let (_, bytes) = bench.answers.pop().unwrap();
    assert!(bytes.windows(5).any(|part| part == b"app@%"));
    assert_eq!(bench.server.unknown().count(), 0);
}
