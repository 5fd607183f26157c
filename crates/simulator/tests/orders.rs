//! An operator's orders, in the middle of everything else: clients notice a pause by nothing but the time.

use engine::{Engine, Finding, Profile, Settings, Task};
use seam::{Input, Instant, Output, Program};
use simulator::{Parameters, Subject, World};

/// Seeds that run on every change.
const SEEDS: u64 = 60;

/// How often there is a pause, in microseconds of the virtual clock. Runs take seconds.
const PERIOD: u64 = 400_000;

/// How long it lasts: longer than the stall limit and the pauses between attempts to connect, shorter than a client's patience.
const PAUSE: u64 = 150_000;

/// An engine whose operator pauses it again and again, looks at it, and takes up the settings that it has.
struct Ordered {
    engine: Engine,
    settings: Settings,
    /// Instead of pausing it, the operator chooses the next of these.
    profiles: &'static [Profile],
    paused: bool,
    now: Instant,
    seen: usize,
}

impl Ordered {
    fn give_orders(&mut self, now: Instant) {
        self.now = now;
        let pause = now.as_micros() % PERIOD >= PERIOD - PAUSE;
        if pause != self.paused {
            self.paused = pause;
            let turn = usize::try_from(now.as_micros() / PAUSE).expect("runs are short");
            match (self.profiles, pause) {
                ([], true) => self.engine.pause(),
                ([], false) => self.engine.resume(),
                (profiles, _) => self.settings.profile = profiles[turn % profiles.len()],
            }
            self.engine.change_settings(&self.settings);
        }
        let mut from = Some(0);
        while let Some(at) = from {
            let piece = self.engine.tables().clients_from(at, 2);
            self.seen += piece.rows.len();
            from = piece.next;
        }
        self.seen += self.engine.tables().backends_from(0, usize::MAX).rows.len();
        assert_eq!(self.engine.figures().overview().paused, pause && self.profiles.is_empty());
    }
}

impl Program for Ordered {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if matches!(input, Input::TurnEnd) {
            self.give_orders(now);
        }
        self.engine.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.engine.poll_output()
    }

    fn next_timeout(&self) -> Option<Instant> {
        // The end of the pause, where there is one: nothing else may happen until then.
        let end = Instant::from_micros((self.now.as_micros() / PERIOD + 1) * PERIOD);
        self.engine.next_timeout().into_iter().chain(self.paused.then_some(end)).min()
    }
}

impl Subject for Ordered {
    fn events(&mut self) -> Vec<String> {
        self.engine.events()
    }

    fn tasks(&mut self) -> Vec<(usize, Task)> {
        self.engine.tasks()
    }

    fn found(&mut self, worker: usize, number: u64, finding: Finding) {
        self.engine.found(worker, number, finding);
    }

    fn keeps_limits(&self) -> bool {
        true
    }
}

/// A run whose operator gives orders; how many answers there were, and how long it took.
fn run(seed: u64, parameters: &dyn Fn() -> Parameters, profiles: &'static [Profile]) -> (u64, u64) {
    let settings = parameters().settings();
    let engine = Engine::new(settings.clone());
    let program = Ordered { engine, settings, profiles, paused: false, now: Instant::START, seen: 0 };
    let outcome = World::new(program, parameters(), false).run();
    if let Some(violation) = outcome.violation {
        let story: Vec<&str> = outcome.trace.last_lines().collect();
        panic!("{}\nseed {seed} went wrong: {violation}", story[story.len().saturating_sub(60)..].join("\n"));
    }
    (outcome.answered, outcome.micros)
}

#[test]
fn pauses_cost_time_and_nothing_else() {
    let (mut answered, mut longer) = (0, 0);
    for seed in 1..=SEEDS {
        let parameters = || Parameters::draw(seed, 0);
        let found = run(seed, &parameters, &[]);
        answered += found.0;
        // Not each run: what waits for locks, and how long, is another thing then.
        longer += u64::from(found.1 > simulator::run_engine(parameters(), false).micros);
    }
    assert!(answered >= 10 * SEEDS, "{answered} answers");
    assert!(longer > SEEDS / 2, "{longer} runs took longer with pauses");
}

#[test]
fn profiles_change_while_statements_wait_and_run() {
    let mut answered = 0;
    for seed in 1..=SEEDS {
        // Under the rules of another pool the permits of a worker are not those of all, and are not counted from outside.
        let parameters = || Parameters { profile: Profile::MySql, ..Parameters::draw(seed, 0) };
        let profiles =
            &[Profile::Native, Profile::MySql, Profile::Percona, Profile::MariaDb, Profile::Native];
        answered += run(seed, &parameters, profiles).0;
    }
    assert!(answered >= 10 * SEEDS, "{answered} answers");
}
