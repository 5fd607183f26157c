//! Clients that become plain data and clients again in the middle of a run: the run goes as it goes without that.

use engine::NotFrozen;
use simulator::freezing::Frozen;
use simulator::{Parameters, run_engine};

/// In so many of 1,000 turns: often enough that each client's every state comes under it within a run, and little enough that it does not take
/// most of the time.
const PER_THOUSAND: u64 = 200;

/// Runs them with and without, and returns what was frozen.
fn frozen(runs: impl IntoIterator<Item = Parameters>) -> Frozen {
    let mut all = Frozen::default();
    for parameters in runs {
        let seed = parameters.seed;
        let without = run_engine(parameters.clone(), false);
        let with = run_engine(parameters.with_freezing(PER_THOUSAND), false);
        assert_eq!(without.frozen, Frozen::default());
        assert_eq!(with.violation, None, "seed {seed}");
        assert_eq!(
            (with.trace.hash(), with.trace.count()),
            (without.trace.hash(), without.trace.count()),
            "seed {seed} goes another way: compare what `simulate --seed {seed}` prints with and without --freeze {PER_THOUSAND}"
        );
        all = all.and(&with.frozen);
    }
    all
}

#[test]
fn nobody_notices_that_a_client_has_been_frozen() {
    let frozen = frozen((1..=8).map(|seed| Parameters::draw(seed, 0)));
    assert!(frozen.queued > 100, "{frozen}");
    assert!(frozen.clients > 300 && frozen.backends > 100, "{frozen}");
    assert!(frozen.servers > 50 && frozen.service_accounts > 10, "{frozen}");
    for why in [NotFrozen::LogsIn, NotFrozen::Waits, NotFrozen::Runs, NotFrozen::Asks] {
        assert!(frozen.not.contains_key(&why), "{frozen}");
    }
}

#[test]
fn nobody_notices_it_of_several_workers_and_servers() {
    let several = (1..=2).map(|seed| Parameters::draw(seed, 0).with_workers(3));
    let clusters = (1..=2).map(|seed| Parameters::of_cluster(seed, 0));
    let frozen = frozen(several.chain(clusters));
    assert!(frozen.clients > 100, "{frozen}");
}
