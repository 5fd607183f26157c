//! The simulation tests itself: without a bug in the middle it finds none, and planted ones it finds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use engine::{Engine, Finding, Settings, Task};
use seam::{ConnectionId, Input, Instant, Output, Program};
use simulator::subject::Owned;
use simulator::token::Token;
use simulator::{Outcome, Parameters, PassThrough, Subject, World, run_pass_through};

#[test]
fn clients_straight_on_the_server_see_what_they_expect() {
    let mut answered = 0;
    for seed in 1..=60 {
        let outcome = pass_through(seed);
        assert_eq!(outcome.violation, None, "seed {seed}");
        answered += outcome.answered;
    }
    assert!(answered > 5_000, "the programs do something: {answered} answers");
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in [3, 4, 5] {
        let [one, two] = [(); 2].map(|()| pass_through(seed));
        assert_eq!((one.trace.hash(), one.trace.count()), (two.trace.hash(), two.trace.count()));
    }
    let other = pass_through(6).trace.hash();
    assert_ne!(other, pass_through(7).trace.hash());
}

#[test]
fn an_answer_to_the_wrong_client_is_found() {
    expect(Bug::WrongClient, "received bytes of tok_");
}

#[test]
fn a_statement_that_runs_twice_is_found() {
    expect(Bug::Repeat, "ran twice");
}

#[test]
fn a_state_change_that_gets_lost_is_found() {
    expect(Bug::LoseStateChange, "should");
}

#[test]
fn an_answer_that_never_comes_is_found() {
    expect(Bug::ForgetAnswer, "is forgotten");
}

#[test]
fn an_answer_that_misses_its_end_is_found() {
    expect(Bug::CutAnswer, "is forgotten");
}

#[test]
fn a_changed_sequence_number_is_found() {
    expect(Bug::Renumber, "a sequence number is wrong");
}

#[test]
fn an_answer_from_before_the_question_is_found() {
    expect(Bug::Stale, "and its answer is of");
}

#[test]
fn a_statement_sent_after_its_clients_end_is_found() {
    expect(Bug::SendAfterEnd, "its client's end was told");
}

#[test]
fn a_timeout_that_stays_in_the_past_is_found() {
    expect(Bug::Spin, "spins");
}

fn pass_through(seed: u64) -> Outcome {
    run_pass_through(Parameters::draw(seed, 0), false)
}

#[test]
fn session_state_that_the_engine_does_not_move_is_found() {
    let found = (1..=40).any(|seed| {
        let parameters = Parameters::draw(seed, 0);
        let engine = Engine::new(parameters.settings());
        let violation = run(engine, parameters, Bug::LosePrelude).violation;
        violation.is_some_and(|text| text.contains("should have run under") || text.contains("should be"))
    });
    assert!(found, "no seed found it");
}

/// The classic end of a thread pool: all permits wait for a row, and whoever holds it waits for a permit. One is kept for
/// holders, so that few seeds get there.
#[test]
fn permits_that_all_wait_for_a_lock_are_found() {
    let found = (1..=400).any(|seed| {
        let mut parameters = Parameters::draw(seed, 0);
        parameters.permits = 1;
        parameters.stall_limit = Duration::from_secs(3600);
        parameters.habits.transactions = true;
        parameters.habits.contends = true;
        parameters.drains_early = false;
        // Nobody is asked who waits: who does would start without a permit.
        let settings = Settings { lock_wait_interval: Duration::ZERO, ..parameters.settings() };
        let outcome = World::new(Engine::new(settings), parameters, false).run();
        outcome.violation.is_some_and(|text| text.contains("is forgotten"))
    });
    assert!(found, "no seed found it");
}

/// The bug shows in one of the first seeds, and in the way that is expected.
fn expect(bug: Bug, text: &str) {
    let found = (1..=40).any(|seed| {
        let violation = run(PassThrough::default(), Parameters::draw(seed, 0), bug).violation;
        violation.is_some_and(|violation| violation.contains(text))
    });
    assert!(found, "no seed found {bug:?}");
}

fn run<P: Subject>(inner: P, parameters: Parameters, bug: Bug) -> Outcome {
    let planted = Planted {
        inner,
        bug,
        fired: false,
        clients: BTreeMap::new(),
        held: None,
        old: None,
        late: Vec::new(),
        outputs: VecDeque::new(),
        current: None,
    };
    World::new(planted, parameters, false).run()
}

/// What is wrong with the program in the middle. Each strikes once per run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    WrongClient,
    Repeat,
    LoseStateChange,
    LosePrelude,
    ForgetAnswer,
    CutAnswer,
    Renumber,
    SendAfterEnd,
    Stale,
    Spin,
}

/// A program with a bug.
struct Planted<P> {
    inner: P,
    bug: Bug,
    fired: bool,
    /// Clients' connections, and whether they have received an answer.
    clients: BTreeMap<ConnectionId, bool>,
    /// A backend whose bytes are held back until its end.
    held: Option<(ConnectionId, Vec<u8>)>,
    /// When the first answer of all was made.
    old: Option<Vec<u8>>,
    /// Outputs for the next turn.
    late: Vec<Owned>,
    outputs: VecDeque<Owned>,
    current: Option<Owned>,
}

impl<P: Subject> Planted<P> {
    /// Passes an output on, with the bug in it when its time has come.
    fn pass_on(&mut self, output: Owned) {
        match output {
            Owned::Send(to, bytes) => self.send(to, bytes),
            Owned::Close(connection) => {
                if let Some((_, bytes)) = self.held.take_if(|(held, _)| *held == connection) {
                    // Only a later turn knows for sure that the client has gone.
                    self.late = vec![Owned::Send(connection, bytes), Owned::Close(connection)];
                    return;
                }
                self.outputs.push_back(Owned::Close(connection));
            }
            other => self.outputs.push_back(other),
        }
    }

    fn send(&mut self, mut to: ConnectionId, mut bytes: Vec<u8>) {
        let to_client = self.clients.contains_key(&to);
        let has_token = !Token::find_all(&bytes).is_empty();
        if let Some((_, held)) = self.held.as_mut().filter(|(held, _)| *held == to) {
            held.extend(bytes);
            return;
        }
        let strikes = !self.fired && has_token && whole_packets(&bytes);
        match self.bug {
            Bug::WrongClient if strikes && to_client => {
                let other = self.clients.iter().find(|(other, served)| **other != to && **served);
                if let Some((&other, _)) = other {
                    to = other;
                    self.fired = true;
                }
            }
            Bug::Repeat if strikes && !to_client => {
                bytes.extend(bytes.clone());
                self.fired = true;
            }
            Bug::LoseStateChange if !to_client => {
                if let Some(at) = find(&bytes, b"SET time_zone = '+03:00'") {
                    bytes[at..at + 24].copy_from_slice(b"DO 'nothing of that sort");
                    bytes[at + 23] = b'\'';
                }
            }
            Bug::LosePrelude if !to_client => {
                if let Some(at) = find(&bytes, b"USE `alpha`;") {
                    bytes[at..at + 12].copy_from_slice(b"DO 'nothin';");
                }
            }
            Bug::ForgetAnswer if strikes && to_client => {
                self.fired = true;
                return;
            }
            Bug::CutAnswer if strikes && to_client => {
                bytes.pop();
                self.fired = true;
            }
            Bug::Renumber if strikes && to_client => {
                bytes[3] = bytes[3].wrapping_add(1);
                self.fired = true;
            }
            Bug::Stale if to_client => {
                let digits = find(&bytes, b"moment_").map(|at| at + 7..at + 19);
                if let Some(digits) = digits.filter(|digits| digits.end <= bytes.len()) {
                    let old = self.old.get_or_insert(bytes[digits.clone()].to_vec());
                    bytes[digits].copy_from_slice(old);
                }
            }
            Bug::SendAfterEnd if strikes && !to_client => {
                self.held = Some((to, bytes));
                self.fired = true;
                return;
            }
            _ => {}
        }
        if to_client && has_token {
            self.clients.insert(to, true);
        }
        self.outputs.push_back(Owned::Send(to, bytes));
    }
}

/// Whether the bytes are whole packets, as far as lengths tell.
fn whole_packets(mut bytes: &[u8]) -> bool {
    while let Some(header) = bytes.first_chunk::<4>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        match bytes.get(4 + length..) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

impl<P: Subject> Subject for Planted<P> {
    fn tasks(&mut self) -> Vec<(usize, Task)> {
        self.inner.tasks()
    }

    fn found(&mut self, worker: usize, number: u64, finding: Finding) {
        self.inner.found(worker, number, finding);
    }

    fn keeps_limits(&self) -> bool {
        self.inner.keeps_limits()
    }
}

impl<P: Subject> Program for Planted<P> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match &input {
            Input::Accepted { connection, .. } => {
                self.clients.insert(*connection, false);
            }
            Input::Closed { connection, .. } => {
                self.clients.remove(connection);
            }
            Input::TurnEnd => self.outputs.extend(self.late.drain(..)),
            _ => {}
        }
        self.inner.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        while let Some(output) = self.inner.poll_output().as_ref().map(Owned::copy) {
            self.pass_on(output);
        }
        self.current = self.outputs.pop_front();
        self.current.as_ref().map(Owned::output)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let wrong = self.bug == Bug::Spin || !self.late.is_empty();
        wrong.then_some(Instant::START).or_else(|| self.inner.next_timeout())
    }
}
