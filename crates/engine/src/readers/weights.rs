//! The choice among several servers with unlike weights. Reads go in proportion to the weights among the servers that would answer about as
//! soon, with a count of the reads that each got before.

use std::time::Duration;

use seam::Instant;

use super::load::{Load, QUICKEST};

/// A turn of a read at the weight 1. A read at a greater weight counts a whole fraction of it, as nearly as makes no difference up to the
/// greatest weight.
const TURN: u128 = 1 << 32;

/// A server that would take up to so many times as long as the quickest is taken to answer alike: reads of one kind differ by as much.
const ALIKE: u128 = 2;

/// The turns of one server among others (start-time fair queueing, Goyal and others, 1996): when its next one comes, by a clock that goes on
/// with each read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    next: u128,
}

/// The clock of all turns. Who was out for a while gets no more than its part when it is back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TurnClock {
    now: u128,
}

impl TurnClock {
    /// A read goes to the server of these turns, which has this weight, from 1.
    pub(super) fn take(&mut self, turns: &mut Turns, weight: u32) {
        self.now = self.now.max(turns.next);
        turns.next = self.now + TURN / u128::from(weight.max(1));
    }
}

/// A server that may take a read.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// The server's weight, from 1.
    pub(super) weight: u32,
    pub(super) load: &'a Load,
    pub(super) turns: Turns,
}

/// Chooses the candidate that has its turn next, the first of several. Only candidates that would answer about as
/// soon as the quickest one count. The load of each counts by its weight: a server of twice the weight is as busy
/// with twice as much.
pub(super) fn by_weight<'a, T: Copy>(
    now: Instant,
    clock: TurnClock,
    candidates: &(impl Iterator<Item = (T, Candidate<'a>)> + Clone),
) -> Option<T> {
    let all = || candidates.clone().map(|(_, candidate)| candidate);
    let lightest = all().map(|one| one.weight).min()?;
    // Of whom nothing is known yet is taken for as quick as the quickest.
    let unknown = all().filter_map(|one| one.load.usual()).min().unwrap_or(QUICKEST);
    let expected = |one: &Candidate<'_>, usual: Option<Duration>| {
        one.load.beside(usual.unwrap_or(unknown), one.weight, lightest)
    };
    let least = all().map(|one| expected(&one, one.load.usual())).min()?;
    // One that was slow is tried again; that one was not heard of for a while makes it no quicker than it was.
    let is_alike = |one: &Candidate<'_>| expected(one, one.load.usual_by_now(now)) <= least * ALIKE;
    let alike = candidates.clone().filter(|(_, one)| is_alike(one));
    alike.min_by_key(|(_, one)| one.turns.next.max(clock.now)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Server {
        weight: u32,
        /// The time that a read takes there.
        takes: Duration,
        load: Load,
        turns: Turns,
        /// The times at which the reads under way end, and how long they take.
        ends: Vec<(Instant, Duration)>,
        got: u32,
    }

    struct Servers {
        now: Instant,
        clock: TurnClock,
        all: Vec<Server>,
    }

    impl Servers {
        fn new<const COUNT: usize>(servers: [(u32, u64); COUNT]) -> Self {
            let server = |(weight, millis)| Server {
                weight,
                takes: Duration::from_millis(millis),
                load: Load::default(),
                turns: Turns::default(),
                ends: Vec::new(),
                got: 0,
            };
            let all = servers.into_iter().map(server).collect();
            Self { now: Instant::from_micros(5_000_000), clock: TurnClock::default(), all }
        }

        fn send(&mut self) {
            let candidates = self.all.iter().enumerate().map(|(place, server)| {
                (place, Candidate { weight: server.weight, load: &server.load, turns: server.turns })
            });
            let place = by_weight(self.now, self.clock, &candidates).unwrap();
            let server = &mut self.all[place];
            self.clock.take(&mut server.turns, server.weight);
            server.load.begin();
            server.ends.push((self.now + server.takes, server.takes));
            server.got += 1;
        }

        /// Time goes on to the end of the next read.
        fn wait(&mut self) {
            let ends = self.all.iter().flat_map(|server| &server.ends);
            self.now = ends.min().unwrap().0;
            for server in &mut self.all {
                let (ended, rest) = server.ends.iter().partition(|(end, _)| *end <= self.now);
                server.ends = rest;
                let ended: Vec<(Instant, Duration)> = ended;
                ended.into_iter().for_each(|(_, took)| server.load.end(self.now, took));
            }
        }

        /// Sends so many reads, of which so many are under way at any time, and returns how many each server has got.
        fn share(&mut self, reads: u32, at_once: usize) -> Vec<u32> {
            self.all.iter_mut().for_each(|server| server.got = 0);
            for _ in 0..reads {
                while self.all.iter().map(|server| server.ends.len()).sum::<usize>() >= at_once {
                    self.wait();
                }
                self.send();
            }
            self.all.iter().map(|server| server.got).collect()
        }
    }

    #[test]
    fn two_to_one_is_two_to_one_where_both_are_alike() {
        for at_once in [1, 2, 3, 30] {
            assert_eq!(Servers::new([(2, 3), (1, 3)]).share(3_000, at_once), [2_000, 1_000], "{at_once}");
        }
        assert_eq!(
            Servers::new([(3, 4), (1, 3), (2, 3)]).share(6_000, 1),
            [3_000, 1_000, 2_000],
            "not the first always"
        );
        let shares = Servers::new([(1, 2), (1_000, 2)]).share(100_100, 1);
        assert!(shares[0].abs_diff(100) <= 1, "{shares:?}");
    }

    #[test]
    fn a_weight_sends_nothing_to_where_it_would_wait() {
        // Each read that is tried there takes a hundred times as long.
        let mut servers = Servers::new([(9, 100), (1, 1)]);
        let shares = servers.share(2_000, 1);
        assert!(shares[0] < 20, "{shares:?}");
        let shares = servers.share(2_000, 8);
        assert!(shares[0] < 100, "{shares:?}");
        // It hangs, whatever it took before.
        let mut servers = Servers::new([(2, 1), (1, 1)]);
        servers.share(30, 1);
        servers.all[0].takes = Duration::from_secs(3_600);
        let shares = servers.share(3_000, 50);
        let stuck = servers.all[0].ends.len();
        // Twice as many count as much there, and twice as much is alike; all others go on.
        assert!(stuck < 43 && shares[1] > 2_900, "{stuck} of {shares:?}");
    }

    #[test]
    fn who_was_out_gets_its_part_again_and_no_more() {
        let mut servers = Servers::new([(1, 1), (1, 1), (2, 1)]);
        servers.share(400, 1);
        let out = servers.all.pop().unwrap();
        assert_eq!(servers.share(1_000, 1), [500, 500]);
        servers.all.push(out);
        assert_eq!(servers.share(400, 1), [100, 100, 200]);
    }

    #[test]
    fn one_slow_read_takes_a_server_not_out() {
        let mut servers = Servers::new([(2, 1), (1, 1)]);
        servers.share(30, 1);
        servers.all[0].takes = Duration::from_millis(20);
        while servers.share(1, 1)[0] == 0 {}
        servers.all[0].takes = Duration::from_millis(1);
        let shares = servers.share(300, 1);
        assert!((199..=201).contains(&shares[0]), "{shares:?}");
    }
}
