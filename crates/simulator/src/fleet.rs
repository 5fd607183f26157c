//! Several workers of one pool as one program: what a process with as many threads does, one turn after the other.

use std::collections::{BTreeMap, VecDeque};

use engine::{
    ClosedFor, Engine, Event, Finding, Histogram, Letter, NotFrozen, PeerView, Routed, Settings, Task,
    WaitReason, Workers,
};
use seam::{ConnectionId, Input, Instant, Output, Program};

use crate::faults::place_of;
use crate::freezing::What;
use crate::subject::{Origin, Owned, Subject};

/// The engine names connections of checks by numbers from here on.
const OF_CHECKS: u64 = 1 << 63;

/// And those of readers by numbers between these.
const OF_READERS: std::ops::Range<u64> = 1 << 48..1 << 62;

/// Engines that share their permits. New clients go to them in turn; letters arrive a turn later.
pub struct Fleet {
    engines: Vec<Engine>,
    /// Whose a connection is.
    owners: BTreeMap<ConnectionId, usize>,
    /// What connections are called that somebody waits for, with the worker and its own name for it.
    tokens: BTreeMap<u64, (usize, u64)>,
    last_token: u64,
    /// The place of the server that statements go to.
    primary: Option<usize>,
    /// Clients that were closed as killed, by their ids.
    killed: Vec<u32>,
    accepted: usize,
    letters: VecDeque<(usize, Letter)>,
    finished: Vec<bool>,
    /// Connections that a worker which has ended leaves behind.
    closing: Vec<ConnectionId>,
    /// The end of all has been said.
    told: bool,
    stopped_listening: bool,
    now: Instant,
    /// Which engine is being asked for outputs.
    asking: usize,
    current: Option<Owned>,
}

impl Fleet {
    /// `count` workers.
    pub fn new(settings: &Settings, count: u32) -> Self {
        let workers = Workers::new(settings, count);
        let join = |worker: u32| {
            let mut settings = settings.clone();
            settings.entropy[0] ^= worker.to_le_bytes()[0];
            Engine::join(settings, workers.clone(), worker as usize)
        };
        Self {
            engines: (0..count).map(join).collect(),
            owners: BTreeMap::new(),
            tokens: BTreeMap::new(),
            last_token: 0,
            primary: None,
            killed: Vec::new(),
            accepted: 0,
            letters: VecDeque::new(),
            finished: vec![false; count as usize],
            closing: Vec::new(),
            told: false,
            stopped_listening: false,
            now: Instant::START,
            asking: 0,
            current: None,
        }
    }

    /// Tokens of all engines in one space.
    fn outer_token(&mut self, worker: usize, token: u64) -> u64 {
        self.last_token += 1;
        self.tokens.insert(self.last_token, (worker, token));
        self.last_token
    }

    fn turn_end(&mut self) {
        // Letters to a worker that has ended are lost, as its thread is.
        for (worker, letter) in std::mem::take(&mut self.letters) {
            if !self.finished[worker] {
                self.engines[worker].read_letter(self.now, &letter);
            }
        }
        for (engine, _) in self.engines.iter_mut().zip(&self.finished).filter(|(_, finished)| !**finished) {
            engine.handle(self.now, Input::TurnEnd);
            self.letters.extend(std::iter::from_fn(|| engine.poll_letter()));
        }
        self.asking = 0;
    }
}

impl Program for Fleet {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = now;
        let (worker, input) = match input {
            Input::TurnEnd => return self.turn_end(),
            Input::Signal(signal) => {
                for (engine, _) in
                    self.engines.iter_mut().zip(&self.finished).filter(|(_, finished)| !**finished)
                {
                    engine.handle(now, Input::Signal(signal));
                }
                return;
            }
            Input::Accepted { connection, .. } => {
                let worker = self.accepted % self.engines.len();
                self.accepted += 1;
                self.owners.insert(connection, worker);
                (worker, input)
            }
            Input::Connected { token, connection } => {
                let Some((worker, token)) = self.tokens.remove(&token) else { return };
                self.owners.insert(connection, worker);
                (worker, Input::Connected { token, connection })
            }
            Input::ConnectFailed { token, errno } => {
                let Some((worker, token)) = self.tokens.remove(&token) else { return };
                (worker, Input::ConnectFailed { token, errno })
            }
            Input::Closed { connection, reason } => {
                let Some(worker) = self.owners.remove(&connection) else { return };
                (worker, Input::Closed { connection, reason })
            }
            Input::Bytes { connection, .. }
            | Input::Announced { connection, .. }
            | Input::Secured { connection, .. }
            | Input::TlsFailed { connection, .. }
            | Input::Stalled { connection }
            | Input::Drained { connection } => match self.owners.get(&connection) {
                Some(&worker) => (worker, input),
                None => return,
            },
        };
        if self.finished[worker] {
            // Came about too late for a worker that has ended.
            if let Input::Connected { connection, .. } | Input::Accepted { connection, .. } = input {
                self.closing.push(connection);
            }
            return;
        }
        self.engines[worker].handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        while self.asking < self.engines.len() {
            let worker = self.asking;
            let output = self.engines[worker].poll_output().map(|output| Owned::copy(&output));
            match output {
                None => self.asking += 1,
                Some(Owned::Finished) => {
                    self.finished[worker] = true;
                    let left = self.owners.iter().filter(|(_, owner)| **owner == worker);
                    self.closing.extend(left.map(|(connection, _)| *connection));
                }
                Some(Owned::StopListening) if self.stopped_listening => {}
                Some(output) => {
                    self.stopped_listening |= matches!(output, Owned::StopListening);
                    self.current = Some(match output {
                        Owned::Connect(token, address) => {
                            Owned::Connect(self.outer_token(worker, token), address)
                        }
                        output => output,
                    });
                    return self.current.as_ref().map(Owned::output);
                }
            }
        }
        // A driver whose program has finished closes what is left.
        if let Some(connection) = self.closing.pop() {
            self.owners.remove(&connection);
            return Some(Output::Close { connection });
        }
        if !self.told && self.finished.iter().all(|&finished| finished) {
            self.told = true;
            return Some(Output::Finished);
        }
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        let letters = (!self.letters.is_empty()).then_some(self.now);
        let running = self.engines.iter().zip(&self.finished).filter(|(_, finished)| !**finished);
        running.filter_map(|(engine, _)| engine.next_timeout()).chain(letters).min()
    }
}

impl Subject for Fleet {
    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        for (worker, engine) in self.engines.iter_mut().enumerate() {
            while engine.poll_slow().is_some() {}
            while let Some(event) = engine.poll_event() {
                match &event {
                    Event::PrimaryFound { address, .. } => self.primary = place_of(address),
                    Event::NoPrimary { .. } | Event::SwitchoverBegan { .. } => self.primary = None,
                    Event::ClientClosed { client, closed_for: ClosedFor::Killed, .. } => {
                        self.killed.push(*client);
                    }
                    _ => {}
                }
                events.push(format!("{worker}: {event}"));
            }
        }
        events
    }

    fn tasks(&mut self) -> Vec<(usize, Task)> {
        let engines = self.engines.iter_mut().enumerate();
        engines
            .flat_map(|(worker, engine)| {
                std::iter::from_fn(|| engine.poll_task()).map(move |task| (worker, task)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn found(&mut self, worker: usize, number: u64, finding: Finding) {
        self.engines[worker].take_finding(number, finding);
    }

    fn freeze(&mut self, now: Instant, what: What, choice: u64) -> Option<Result<bool, NotFrozen>> {
        let count = self.engines.len() as u64;
        let worker = usize::try_from(choice % count).unwrap_or_default();
        let runs = !self.finished[worker];
        runs.then(|| self.engines[worker].freeze(now, what, choice / count)).flatten()
    }

    fn workers(&mut self) -> Vec<&mut Engine> {
        self.engines.iter_mut().collect()
    }

    fn primary(&self) -> Option<usize> {
        self.primary
    }

    fn killed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.killed)
    }

    fn peers(&self) -> Vec<PeerView> {
        self.engines[0].neighbours().peers()
    }

    fn origin(&self, token: u64) -> Origin {
        let found = self.tokens.get(&token);
        found.map_or(Origin::default(), |&(worker, token)| Origin {
            program: 0,
            worker,
            is_check: token >= OF_CHECKS,
            is_reader: OF_READERS.contains(&token),
        })
    }

    fn read_waits(&self) -> Histogram {
        let mut all = Histogram::default();
        self.engines.iter().for_each(|engine| all += engine.figures().waits().of(WaitReason::Replica));
        all
    }

    fn routed(&self) -> Routed {
        let mut all = Routed::default();
        self.engines.iter().for_each(|engine| all += &engine.figures().overview().routed);
        all
    }

    fn rescues(&self) -> u64 {
        self.engines.iter().map(|engine| engine.figures().overview().totals.rescues).sum()
    }

    fn account_changes(&self) -> u64 {
        self.engines.iter().map(Subject::account_changes).sum()
    }

    fn shared_reads(&self) -> (u64, u64) {
        let of_each = self.engines.iter().map(Subject::shared_reads);
        of_each.fold((0, 0), |(reads, schemas), (more, brought)| (reads + more, schemas + brought))
    }

    fn keeps_limits(&self) -> bool {
        true
    }
}
