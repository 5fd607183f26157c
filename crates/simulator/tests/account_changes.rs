//! Backends that change their account: runs meet that, whether or not the server takes it, and nothing of it shows.

use simulator::accounts::AccountParameters;
use simulator::{Parameters, run_engine};

/// As many as run in a few seconds without optimisation.
const SEEDS: u64 = 40;

/// How often backends were to change in runs of 24 clients of three accounts, one of which has a role, over a few backends.
fn changes(refused_percent: u64, workers: u32) -> u64 {
    (1..=SEEDS).map(|seed| changes_with(seed, AccountParameters::default(), refused_percent, workers)).sum()
}

fn changes_with(seed: u64, accounts: AccountParameters, refused_percent: u64, workers: u32) -> u64 {
    let mut parameters = Parameters::draw(seed, 3_000).with_workers(workers);
    parameters.accounts = accounts;
    parameters.max_backends = parameters.max_backends.min(workers.max(4));
    // Many of each account, so that some wait while a backend is theirs; some of them hold another one.
    parameters.clients = 24;
    parameters.max_connections = parameters.max_connections.max(24);
    parameters.habits.popular = false;
    parameters.change_accounts = true;
    parameters.speed.refused_change_percent = refused_percent;
    let outcome = run_engine(parameters, false);
    assert_eq!(outcome.violation, None, "seed {seed}, {workers} workers");
    outcome.account_changes
}

#[test]
fn backends_change_their_accounts() {
    for workers in [1, 2, 3] {
        let [taken, refused] = [0, 100].map(|percent| changes(percent, workers));
        assert!(taken > 200, "{workers} workers: {taken}");
        // Each worker leaves a user alone after a refusal.
        assert!(refused > 10 && refused < taken, "{workers} workers: {refused} of {taken}");
    }
}

#[test]
fn many_accounts_by_zipf_share_few_backends() {
    let accounts = AccountParameters { more: 44, by_zipf: true, unlike_percent: 20 };
    for workers in [1, 3] {
        let taken: u64 = (1..=SEEDS / 2).map(|seed| changes_with(seed, accounts, 0, workers)).sum();
        assert!(taken > 200, "{workers} workers: {taken}");
    }
}
