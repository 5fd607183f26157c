use super::*;
use crate::workers::onramps::{Census, Onramps};

/// A server as a formula: how many statements it ends in a second, given how many it has at a time.
type Server = fn(f64) -> f64;

/// Eight cores, 100 microseconds a statement; 275 threads more than a core lose half of the work.
fn bound_by_cores(threads: f64) -> f64 {
    80_000.0 * (threads / 8.0).min(1.0) / (1.0 + (threads - 8.0).max(0.0) / (8.0 * 275.0))
}

/// The more wait for the same rows, the more is spent on finding deadlocks: best with six.
fn bound_by_locks(threads: f64) -> f64 {
    3_000.0 * threads.min(6.0) / (1.0 + ((threads - 6.0).max(0.0) / 12.0).powi(2))
}

/// Five milliseconds off the cores a statement, and a disk that does 64 things at a time.
fn bound_by_disk(threads: f64) -> f64 {
    200.0 * threads.min(64.0) / (1.0 + (threads - 64.0).max(0.0) / 500.0)
}

/// A server that gets slower by each thread, and never quite stops getting more done.
fn bound_by_both(threads: f64) -> f64 {
    40_000.0 * threads / (threads + 3.0)
}

fn range(least: u32, most: u32) -> Range {
    Range { least, most, start: 16, worth: Worth::Little, division: Division::NONE }
}

/// Time, counts, and a limit that looks at them every 10 ms.
struct Bench {
    limit: Limit,
    now: Instant,
    counts: Counts,
    /// Statements, with fractions.
    ended: f64,
    /// How much a stretch of 10 ms may be faster or slower by chance.
    noise: f64,
    /// Logarithms by which the machine itself is faster or slower for some hundred milliseconds: usually, and now.
    unrest: f64,
    machine: f64,
    /// How many seconds of the undisturbed machine there have been.
    machine_time: f64,
    random: u64,
    /// The kind of statement that runs.
    kind: u64,
    /// Statements that there may be at a time: with a larger limit none waits.
    clients: f64,
    changes: Vec<(Instant, u32)>,
    /// Statements that run for each permit.
    for_a_permit: f64,
    /// True where this Onramp has its turn to try another limit.
    may_try: bool,
}

impl Bench {
    fn new(noise: f64, seed: u64) -> Self {
        Self {
            limit: Limit::new(range(2, 256)),
            now: Instant::START,
            counts: Counts::default(),
            ended: 0.0,
            noise,
            unrest: 0.0,
            machine: 0.0,
            machine_time: 0.0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            kind: 0,
            clients: f64::INFINITY,
            changes: Vec::new(),
            for_a_permit: 1.0,
            may_try: true,
        }
    }

    /// A random number from -1 to 1.
    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Runs for so long, waiting for permits for `used` of the time, and says how many statements ended in a second.
    fn run(&mut self, server: Server, time: Duration, used: f64) -> f64 {
        let (until, before) = (self.now + time, self.ended);
        while self.now < until {
            let speed = server(f64::from(self.limit.in_force()).min(self.clients));
            self.stretch(speed, used);
        }
        (self.ended - before) / time.as_secs_f64()
    }

    /// 10 ms at this speed.
    fn stretch(&mut self, speed: f64, used: f64) {
        const STRETCH: Duration = Duration::from_millis(10);
        let in_force = self.limit.in_force();
        // Half of it is left after 200 ms.
        let keeps = 0.5f64.powf(STRETCH.as_secs_f64() / 0.2);
        let push: f64 = (0..3).map(|_| self.random()).sum();
        self.machine = self.machine * keeps + self.unrest * (1.0 - keeps * keeps).sqrt() * push;
        self.machine_time += self.machine.exp() * STRETCH.as_secs_f64();
        let chance = (1.0 + self.noise * self.random()) * self.machine.exp();
        self.ended += speed * used * chance * STRETCH.as_secs_f64();
        self.now = self.now + STRETCH;
        self.counts.statements = self.ended as u64;
        self.counts.work = UsualTimes::default();
        self.counts.work.add(self.kind << 59, (self.ended * 100.0) as u64);
        if f64::from(in_force) < self.clients {
            self.counts.saturated += (STRETCH.as_micros() as f64 * used) as u64;
        }
        let next = self.limit.look(self.now, self.counts, Duration::ZERO, self.for_a_permit, self.may_try);
        if next != in_force {
            self.changes.push((self.now, next));
        }
    }
}

fn best_of(server: Server) -> f64 {
    (2..=256).map(|limit| server(f64::from(limit))).fold(0.0, f64::max)
}

const SERVERS: [(&str, Server); 4] =
    [("cores", bound_by_cores), ("locks", bound_by_locks), ("disk", bound_by_disk), ("both", bound_by_both)];

/// Measurements after a change within which the limit is where it should be: 15 seconds.
const UNTIL_FOUND: u32 = 150;

fn until_found() -> Duration {
    INTERVAL * UNTIL_FOUND
}

#[test]
fn it_comes_within_5_percent_of_the_best_fixed_limit() {
    for (name, server) in SERVERS {
        for seed in 1..=20 {
            let mut bench = Bench::new(0.1, seed);
            bench.run(server, until_found(), 1.0);
            // With all the trying that goes on.
            let speed = bench.run(server, Duration::from_secs(120), 1.0);
            let share = speed / best_of(server);
            assert!(share > 0.95, "{name}, seed {seed}: {share:.3} of the best at {}", bench.limit.best);
        }
    }
}

#[test]
fn of_limits_that_are_as_good_it_takes_a_small_one() {
    let mut bench = Bench::new(0.02, 1);
    bench.run(bound_by_cores, until_found(), 1.0);
    assert!((8..=11).contains(&bench.limit.best), "{}", bench.limit.best);
}

#[test]
fn it_finds_the_limit_again_after_a_change() {
    for (before, first) in SERVERS {
        for (after, second) in SERVERS.into_iter().filter(|(name, _)| *name != before) {
            let mut bench = Bench::new(0.05, 7);
            bench.run(first, Duration::from_secs(60), 1.0);
            bench.run(second, until_found(), 1.0);
            let share = bench.run(second, Duration::from_secs(60), 1.0) / best_of(second);
            assert!(share > 0.95, "{before}, then {after}: {share:.3} of the best at {}", bench.limit.best);
        }
    }
}

/// Statements that wait: five milliseconds each, whatever runs beside them.
fn bound_by_nothing(threads: f64) -> f64 {
    200.0 * threads
}

/// Within three seconds, of which trying costs a part.
#[test]
fn another_mix_finds_its_limit_soon_and_at_once_when_it_comes_back() {
    let soon = Duration::from_secs(3);
    for seed in 1..=20 {
        let mut bench = Bench::new(0.05, seed);
        bench.run(bound_by_cores, Duration::from_secs(60), 1.0);
        bench.kind = 1;
        bench.run(bound_by_nothing, soon, 1.0);
        let share = bench.run(bound_by_nothing, Duration::from_secs(20), 1.0) / best_of(bound_by_nothing);
        assert!(share > 0.95, "seed {seed}, statements that wait: {share:.3} at {}", bench.limit.best);
        for (kind, server) in [(0, bound_by_cores as Server), (1, bound_by_nothing), (0, bound_by_cores)] {
            bench.kind = kind;
            bench.run(server, Duration::from_millis(500), 1.0);
            let share = bench.run(server, Duration::from_secs(20), 1.0) / best_of(server);
            assert!(share > 0.95, "seed {seed}, kind {kind} again: {share:.3} at {}", bench.limit.best);
        }
    }
}

#[test]
fn a_limit_that_was_raised_for_others_is_taken_back_also_where_it_is_not_reached() {
    let mut bench = Bench::new(0.05, 4);
    bench.run(bound_by_cores, Duration::from_secs(20), 1.0);
    let found = bench.limit.best;
    bench.kind = 1;
    bench.run(bound_by_nothing, Duration::from_secs(10), 1.0);
    assert!(bench.limit.best > 200, "{}", bench.limit.best);
    bench.kind = 0;
    bench.clients = 100.0;
    bench.run(bound_by_cores, 4 * INTERVAL, 1.0);
    assert_eq!(bench.limit.best, found, "as it was for them");
    bench.kind = 1;
    bench.clients = f64::INFINITY;
    bench.run(bound_by_nothing, Duration::from_secs(1), 1.0);
    assert!(bench.limit.best > 200, "{}", bench.limit.best);
    bench.kind = 2;
    bench.clients = 100.0;
    bench.run(bound_by_cores, 4 * INTERVAL, 1.0);
    assert!(
        bench.limit.best <= 32,
        "not known: as at the start, or a step from there, but {}",
        bench.limit.best
    );
}

#[test]
fn a_limit_that_is_not_reached_stays() {
    let mut bench = Bench::new(0.1, 3);
    let start = bench.limit.in_force();
    bench.run(bound_by_disk, Duration::from_secs(60), 0.2);
    assert_eq!((bench.changes.as_slice(), bench.limit.in_force()), ([].as_slice(), start));
}

#[test]
fn a_trial_ends_when_the_limit_is_not_reached_any_more() {
    let mut bench = Bench::new(0.0, 3);
    while bench.limit.in_force() == bench.limit.best {
        bench.run(bound_by_cores, Duration::from_millis(10), 1.0);
    }
    let best = bench.limit.best;
    bench.run(bound_by_cores, IDLE + INTERVAL * 2, 0.0);
    assert_eq!(bench.limit.in_force(), best);
}

#[test]
fn it_grows_to_where_nobody_waits() {
    for clients in [20.0, 40.0, 64.0, 100.0, 200.0] {
        for seed in 1..=20 {
            let mut bench = Bench { clients, ..Bench::new(0.05, seed) };
            bench.run(bound_by_nothing, Duration::from_secs(10), 1.0);
            let share = bench.run(bound_by_nothing, Duration::from_secs(20), 1.0) / bound_by_nothing(clients);
            assert!(share > 0.95, "{clients} clients, seed {seed}: {share:.3} at {}", bench.limit.best);
        }
    }
}

#[test]
fn where_each_permit_counts_in_full_it_grows_in_a_second_and_a_half() {
    for seed in 1..=20 {
        let mut bench = Bench { limit: Limit::new(range(2, 512)), ..Bench::new(0.05, seed) };
        bench.run(bound_by_nothing, Duration::from_millis(1_500), 1.0);
        assert!(bench.limit.best >= 256, "seed {seed}: {}", bench.limit.best);
    }
}

/// Statements that sleep 50 ms, more and more of them for each permit: a sixteenth of a permit each 100 ms, as the engine has it.
#[test]
fn while_sleepers_grow_into_their_parts_of_permits_the_limit_grows_too() {
    for seed in 1..=20 {
        let mut bench = Bench { limit: Limit::new(range(2, 512)), ..Bench::new(0.05, seed) };
        // What has begun in each 10 ms of the last 50.
        let mut begun = std::collections::VecDeque::from([0.0; 5]);
        for stretch in 0..250 {
            bench.for_a_permit = 16.0 / (16.0 - f64::from((stretch / 10).min(12)));
            let ended = begun.pop_front().expect("five");
            let running: f64 = begun.iter().sum();
            let may_run = f64::from(bench.limit.in_force()) * bench.for_a_permit;
            begun.push_back((may_run - running).max(0.0));
            bench.stretch(ended * 100.0, 1.0);
        }
        assert!(bench.limit.best >= 256, "seed {seed}: {}", bench.limit.best);
    }
}

#[test]
fn it_tries_less_and_less_as_long_as_nothing_changes() {
    let mut bench = Bench::new(0.05, 5);
    bench.run(bound_by_cores, Duration::from_secs(60), 1.0);
    bench.changes.clear();
    let best = bench.limit.best;
    bench.run(bound_by_cores, Duration::from_secs(300), 1.0);
    let elsewhere = bench.changes.iter().filter(|(_, limit)| *limit != best).count();
    // Ten rests, two steps after each, and as many measurements as a decision takes.
    assert!((10..100).contains(&elsewhere), "{elsewhere}");
}

#[test]
fn it_never_leaves_its_range() {
    for (least, most) in [(1, 1), (3, 5), (30, 40), (1, 4096)] {
        let mut bench = Bench { limit: Limit::new(range(least, most)), ..Bench::new(0.5, 9) };
        for (_, server) in SERVERS {
            bench.run(server, Duration::from_secs(20), 1.0);
        }
        let (lowest, highest) = bench
            .changes
            .iter()
            .fold((most, least), |(low, high), &(_, limit)| (low.min(limit), high.max(limit)));
        assert!(lowest >= least && highest <= most, "{lowest} to {highest}, not {least} to {most}");
    }
}

#[test]
fn another_range_keeps_what_was_found_as_far_as_it_can() {
    let mut bench = Bench::new(0.02, 6);
    bench.run(bound_by_nothing, until_found(), 1.0);
    assert!(bench.limit.best > 100, "{}", bench.limit.best);
    let found = bench.limit.best;
    bench.limit.change_range(range(2, 300));
    assert_eq!(bench.limit.best, found);
    bench.limit.change_range(range(2, 50));
    assert_eq!((bench.limit.best, bench.limit.in_force()), (50, 50));
    bench.changes.clear();
    bench.run(bound_by_nothing, Duration::from_secs(20), 1.0);
    assert!(bench.changes.iter().all(|&(_, limit)| limit <= 50), "{:?}", bench.changes);
    // Also in the middle of a trial of what is out of the range then.
    while bench.limit.in_force() == bench.limit.best {
        bench.run(bound_by_nothing, Duration::from_millis(10), 1.0);
    }
    let best = bench.limit.best;
    bench.limit.change_range(range(best, best));
    assert_eq!(bench.limit.in_force(), best);
}

#[test]
fn statements_of_seconds_are_waited_for() {
    // One and a half a second, whatever the limit is below 64: what a measurement needs comes in minutes.
    let slow: Server = |threads| threads.min(64.0) / 2.0;
    let mut bench = Bench::new(0.1, 2);
    bench.run(slow, Duration::from_secs(1200), 1.0);
    assert!(bench.limit.best >= 45, "{}", bench.limit.best);
}

#[test]
fn a_server_that_drowns_is_not_waited_for() {
    // Beyond 20 it does nothing at all, to speak of.
    let brittle: Server = |threads| if threads > 20.0 { 0.5 } else { 1_000.0 };
    let mut bench = Bench::new(0.02, 4);
    while bench.limit.in_force() <= 20 {
        bench.run(brittle, Duration::from_millis(10), 1.0);
    }
    let since = bench.now;
    while bench.limit.in_force() > 20 {
        bench.run(brittle, Duration::from_millis(10), 1.0);
    }
    assert!(bench.now.since(since) <= 2 * INTERVAL, "{:?}", bench.now.since(since));
}

/// The part of the best fixed limit's work that is done, on machines with a speed that varies by itself, as that of a cloud's does.
fn share_on_a_restless_machine(server: Server, unrest: f64, seed: u64) -> f64 {
    let mut bench = Bench { unrest, ..Bench::new(0.1, seed) };
    bench.run(server, until_found(), 1.0);
    let (ended, machine_time) = (bench.ended, bench.machine_time);
    bench.run(server, Duration::from_secs(120), 1.0);
    (bench.ended - ended) / (bench.machine_time - machine_time) / best_of(server)
}

#[test]
fn a_restless_machine_does_not_lead_it_astray() {
    for (name, server) in SERVERS {
        for (unrest, least) in [(0.05, 0.98), (0.15, 0.97), (0.3, 0.96)] {
            let shares = (1..=20).map(|seed| share_on_a_restless_machine(server, unrest, seed));
            let mean = shares.sum::<f64>() / 20.0;
            assert!(mean > least, "{name}, unrest {unrest}: {mean:.3} of the best");
        }
    }
}

#[test]
fn with_another_server_it_starts_low_and_finds_itself_again() {
    let server: Server = |permits| permits.min(100.0) * 100.0;
    let mut bench = Bench::new(0.02, 1);
    bench.run(server, Duration::from_secs(60), 1.0);
    assert!(bench.limit.in_force() >= 64, "{}", bench.limit.in_force());
    bench.limit.begin_elsewhere(bench.now);
    assert_eq!(bench.limit.in_force(), bench.limit.range.start);
    bench.run(server, Duration::from_secs(60), 1.0);
    assert!(bench.limit.in_force() >= 64, "{}", bench.limit.in_force());
    // Nor with more than it had.
    let small: Server = |permits| permits.min(4.0) * 100.0 - permits;
    bench.run(small, Duration::from_secs(120), 1.0);
    let before = bench.limit.in_force();
    assert!(before < bench.limit.range.start, "{before}");
    bench.limit.begin_elsewhere(bench.now);
    assert_eq!(bench.limit.in_force(), before);
}

/// Several Onramps in front of one server, each of which gets what part of its statements there are its own.
struct Together {
    benches: Vec<Bench>,
    turns: Vec<Onramps>,
}

impl Together {
    fn new(onramps: u32, noise: f64, seed: u64) -> Self {
        let bench = |number: u32| {
            let mut bench = Bench::new(noise, seed * 100 + u64::from(number));
            bench.limit.change_range(divided(onramps));
            bench
        };
        let turns = |rank: u32| {
            let turns = Onramps::default();
            turns.take(Census { present: onramps, at_work: onramps, saturated: onramps, rank, others: 0 });
            turns
        };
        Self { benches: (0..onramps).map(bench).collect(), turns: (0..onramps).map(turns).collect() }
    }

    fn limits(&self) -> Vec<u32> {
        self.benches.iter().map(|bench| bench.limit.in_force()).collect()
    }

    /// Runs for so long, and says how many statements ended in a second.
    fn run(&mut self, server: Server, time: Duration) -> f64 {
        let before: f64 = self.benches.iter().map(|bench| bench.ended).sum();
        let until = self.benches[0].now + time;
        while self.benches[0].now < until {
            let all: u32 = self.limits().iter().sum();
            let speed = server(f64::from(all)) / f64::from(all);
            let now = self.benches[0].now;
            for (bench, turns) in self.benches.iter_mut().zip(&self.turns) {
                bench.may_try = turns.may_try(now);
                bench.stretch(f64::from(bench.limit.in_force()) * speed, 1.0);
            }
        }
        let after: f64 = self.benches.iter().map(|bench| bench.ended).sum();
        (after - before) / time.as_secs_f64()
    }

    /// Checks that the limits that are found do hardly less than the best ones.
    fn come_near(mut self, best: f64, server: Server, what: &str) {
        self.run(server, until_found());
        let share = self.run(server, Duration::from_secs(60)) / best;
        assert!(share > 0.9, "{what}: {share:.3} with {:?}", self.limits());
    }
}

/// The range of one of so many Onramps, as the settings have it for a server that takes 256.
fn divided(onramps: u32) -> Range {
    let part = |limit: u32| limit.div_ceil(onramps);
    Range {
        least: part(2),
        most: part(256),
        start: part(16),
        worth: Worth::Little,
        division: Division { at_work: onramps, saturated: onramps },
    }
}

#[test]
fn several_come_near_the_best_together() {
    for onramps in [2, 3, 5, 16] {
        for (name, server) in SERVERS {
            // Each has one at least.
            let best = (onramps..=256).map(|limit| server(f64::from(limit))).fold(0.0, f64::max);
            for seed in 1..=4 {
                let together = Together::new(onramps, 0.1, seed);
                together.come_near(best, server, &format!("{onramps}, {name}, seed {seed}"));
            }
        }
    }
}

#[test]
fn one_beside_others_that_send_nothing_comes_near_the_best_alone() {
    for (name, server) in SERVERS {
        for onramps in [2, 5] {
            let range = Range { division: Division { at_work: onramps, saturated: 1 }, ..divided(onramps) };
            let best = (range.least..=range.most).map(|limit| server(f64::from(limit))).fold(0.0, f64::max);
            for seed in 1..=4 {
                let mut bench = Bench::new(0.1, seed);
                bench.limit.change_range(range);
                let together = Together { benches: vec![bench], turns: vec![Onramps::default()] };
                together.come_near(best, server, &format!("{onramps}, {name}, seed {seed}"));
            }
        }
    }
}

#[test]
fn nothing_is_compared_beyond_a_change_of_those_that_send() {
    let mut bench = Bench::new(0.1, 1);
    bench.limit.change_range(divided(2));
    while !bench.limit.is_trying() {
        bench.run(bound_by_disk, INTERVAL, 1.0);
    }
    let best = bench.limit.best;
    let State::Trying(Trial { other, .. }) = bench.limit.state else { panic!("it is trying") };
    bench.limit.change_range(Range { division: Division { at_work: 2, saturated: 1 }, ..divided(2) });
    assert_eq!((bench.limit.is_trying(), bench.limit.in_force()), (false, best));
    assert!(bench.limit.undecided.is_empty());
    while !bench.limit.is_trying() {
        bench.run(bound_by_disk, INTERVAL, 1.0);
    }
    assert!(matches!(bench.limit.state, State::Trying(Trial { other: again, .. }) if again == other));
}

#[test]
fn what_is_found_is_divided_and_made_whole_again() {
    let mut bench = Bench::new(0.02, 1);
    bench.limit.change_range(divided(1));
    bench.run(bound_by_disk, until_found(), 1.0);
    let whole = bench.limit.best;
    assert!((45..=91).contains(&whole), "{whole}");
    bench.limit.change_range(divided(3));
    assert_eq!(bench.limit.in_force(), whole.div_ceil(3));
    bench.limit.change_range(divided(1));
    assert!((whole..=whole + 2).contains(&bench.limit.in_force()), "rounded up: {}", bench.limit.in_force());
}
