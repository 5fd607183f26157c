//! What is measured, in which order, and what has to give way when time runs out.

use std::time::Duration;

use crate::options::Options;
use crate::report::Series;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A series at a number of connections.
    Step {
        /// What the clients connect to.
        series: Series,
        /// From 1.
        round: u32,
        /// How many.
        connections: u32,
    },
    /// Clients that are logged in and silent.
    Idle {
        /// How many.
        clients: u32,
    },
}

/// What the options ask for, in order. Onramp and the server itself take turns, so that what else happens on the machine
/// hits them alike. Every second turn goes the other way round: the series that was last comes first, and a server need
/// not be started anew for it.
pub(crate) fn items(options: &Options) -> Vec<Item> {
    let clients = sorted(&options.steps);
    let direct = if options.skip_direct { Vec::new() } else { sorted(&options.direct_steps) };
    let mut items = Vec::new();
    for round in 1..=options.rounds {
        for turn in 0..clients.len().max(direct.len()) {
            let mut series = vec![(Series::Onramp, &clients)];
            if options.backend.is_some() {
                series.push((Series::Direct, &direct));
            } else {
                series.extend([(Series::DirectThreads, &direct), (Series::DirectPool, &direct)]);
            }
            if turn % 2 == 1 {
                series.reverse();
            }
            for (series, steps) in series {
                if let Some(connections) = steps.get(turn).copied() {
                    items.push(Item::Step { series, round, connections });
                }
            }
        }
    }
    items.extend(clients.last().map(|clients| Item::Idle { clients: *clients }));
    items
}

fn sorted(steps: &[u32]) -> Vec<u32> {
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    steps.dedup();
    steps
}

impl Item {
    /// Whether it is what this is all about, and so comes before the rest when time is short.
    fn is_essential(self) -> bool {
        matches!(self, Self::Step { series: Series::Onramp, .. } | Self::Idle { .. })
    }

    /// How long it takes, roughly.
    pub(crate) fn estimate(self, options: &Options) -> Duration {
        /// Programs start and end, a server is started anew.
        const AROUND: Duration = Duration::from_secs(3);
        /// Logins per second, on a slow day.
        const LOGINS: f64 = 5_000.0;
        let connecting = |count: u32| Duration::from_secs_f64(f64::from(count) / LOGINS);
        match self {
            Self::Step { connections, .. } => {
                AROUND + connecting(connections) + options.warmup + options.time
            }
            Self::Idle { clients } => AROUND + connecting(clients) + SILENCE,
        }
    }
}

/// How long silent clients are watched: the kernel frees what logins needed within a second or two.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// Whether there is time for `item`, with what matters more among `rest` still to come.
pub(crate) fn fits(item: Item, rest: &[Item], left: Duration, options: &Options) -> bool {
    let reserved: Duration = if item.is_essential() {
        Duration::ZERO
    } else {
        rest.iter().filter(|later| later.is_essential()).map(|later| later.estimate(options)).sum()
    };
    item.estimate(options) + reserved <= left
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn options(words: &[&str]) -> Options {
        Options::try_parse_from(std::iter::once("onramp challenge").chain(words.iter().copied())).unwrap()
    }

    fn shown(items: &[Item]) -> Vec<String> {
        let show = |item: &Item| match item {
            Item::Step { series, round, connections } => format!("{round} {series:?} {connections}"),
            Item::Idle { clients } => format!("idle {clients}"),
        };
        items.iter().map(show).collect()
    }

    #[test]
    fn series_take_turns_and_go_the_other_way_round_every_second_time() {
        let items = items(&options(&["--steps", "100,10", "--direct-steps", "4,8,8,16"]));
        assert_eq!(
            shown(&items),
            [
                "1 Onramp 10",
                "1 DirectThreads 4",
                "1 DirectPool 4",
                "1 DirectPool 8",
                "1 DirectThreads 8",
                "1 Onramp 100",
                "1 DirectThreads 16",
                "1 DirectPool 16",
                "idle 100",
            ]
        );
    }

    #[test]
    fn a_given_server_is_measured_as_it_is_and_rounds_repeat() {
        let words = ["--backend", "mysql://a@b/", "--steps", "10", "--direct-steps", "4", "--rounds", "2"];
        assert_eq!(
            shown(&items(&options(&words))),
            ["1 Onramp 10", "1 Direct 4", "2 Onramp 10", "2 Direct 4", "idle 10"]
        );
        assert_eq!(shown(&items(&options(&["--steps", "7", "--skip-direct"]))), ["1 Onramp 7", "idle 7"]);
    }

    #[test]
    fn when_time_is_short_direct_steps_give_way() {
        let options = options(&["--steps", "100000", "--direct-steps", "4"]);
        let items = items(&options);
        let [onramp, direct, pool, idle] = items[..] else { panic!("{items:?}") };
        // 3 + 20 + 12 s, and 3 + 20 + 5 s.
        assert!(fits(onramp, &[direct, pool, idle], Duration::from_secs(36), &options));
        assert!(!fits(onramp, &[direct, pool, idle], Duration::from_secs(34), &options));
        assert!(!fits(direct, &[pool, idle], Duration::from_secs(40), &options));
        assert!(fits(direct, &[pool, idle], Duration::from_secs(44), &options));
        assert!(fits(pool, &[], Duration::from_secs(16), &options));
    }
}
