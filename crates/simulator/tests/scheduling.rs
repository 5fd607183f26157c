//! What must hold under Onramp's own rules, in small versions of the scheduling scenarios. Time is virtual: the figures are
//! the same on every machine.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use simulator::scheduling::accounts::Case;
use simulator::scheduling::scenario::{Accounts, Time};
use simulator::scheduling::scenarios::{self, Scale};
use simulator::scheduling::{self, Profile, Run, Scenario};

/// A millisecond and a second, in microseconds.
const MS: u64 = 1_000;
const S: u64 = 1_000_000;

fn native(scenario: fn(Scale) -> Scenario) -> Run {
    under(Profile::Native, scenario)
}

fn under(profile: Profile, scenario: fn(Scale) -> Scenario) -> Run {
    under_seed(profile, &scenario(Scale::Small), 1)
}

fn under_seed(profile: Profile, scenario: &Scenario, seed: u64) -> Run {
    let result = scheduling::run(scenario, profile, seed);
    assert_eq!(
        result.outcome.unknown,
        Vec::<String>::new(),
        "the modelled server knows all that it is asked"
    );
    result
}

fn figure(result: &Run, name: &str) -> f64 {
    result.figures.iter().find(|figure| figure.name == name).unwrap().value
}

#[test]
fn a_new_statement_does_not_starve_behind_long_ones() {
    // The small one has no more of them than may lend their permits, the other one has.
    for scale in [Scale::Small, Scale::Full] {
        let result = under_seed(Profile::Native, &scenarios::starvation(scale), 1);
        assert_eq!(result.outcome.class("new").done(), 1);
        assert!(result.outcome.class("new").waited.longest() < S);
    }
}

#[test]
fn unlock_tables_runs_at_once_beside_waiting_writers() {
    let result = native(scenarios::flush_tables);
    assert_eq!(result.outcome.class("UNLOCK TABLES").done(), 1);
    assert!(result.outcome.class("FLUSH TABLES").slowest_response() < 100 * MS);
    assert!(result.outcome.class("UNLOCK TABLES").slowest_response() < 10 * MS);
    assert!(result.outcome.class("read").waited.longest() < 100 * MS, "readers need not wait for writers");
}

#[test]
fn readers_go_on_beside_writers_that_could_take_every_backend() {
    // Which connection is in which schema when the lock comes is chance.
    for seed in 2..=3 {
        let scenario = scenarios::flush_tables_few_backends(Scale::Small);
        let result = under_seed(Profile::Native, &scenario, seed);
        assert!(result.outcome.class("UNLOCK TABLES").slowest_response() < 10 * MS);
        assert!(result.outcome.class("read").waited.longest() < 200 * MS, "seed {seed}");
    }
}

#[test]
fn a_locked_table_does_not_hold_up_its_namesake_in_another_schema() {
    let result = native(scenarios::lock_tables_other_schema);
    assert!(result.outcome.class("UNLOCK TABLES").slowest_response() < 10 * MS);
    assert!(result.outcome.class("other").waited.longest() < 200 * MS);
}

#[test]
fn a_table_can_be_unlocked_whoever_waits_for_it() {
    let result = native(scenarios::lock_tables);
    assert_eq!(result.outcome.class("UNLOCK TABLES").done(), 1);
    assert!(result.outcome.class("UNLOCK TABLES").slowest_response() < 10 * MS);
    // 20 ms behind one that meets the lock, and the rest of what permits are lent in.
    assert!(result.outcome.class("other").waited.longest() < 100 * MS);
}

#[test]
fn the_holder_of_a_row_commits_without_waiting() {
    let result = native(scenarios::queued_holder);
    assert!(figure(&result, "transactions") > 300.0);
    assert!(result.outcome.class("COMMIT").waited.longest() < MS);
}

#[test]
fn the_holder_of_a_user_lock_can_release_it() {
    let result = native(scenarios::user_lock);
    // A turn takes a millisecond and a half where its holder waits for nothing.
    assert!(figure(&result, "turns") > 500.0);
    assert!(result.outcome.class("RELEASE_LOCK").waited.longest() < MS);
}

#[test]
fn one_worker_with_long_statements_does_not_slow_its_other_clients() {
    let result = native(scenarios::imbalance);
    assert!(figure(&result, "it is the worse by") < 1.5);
}

#[test]
fn transactions_keep_the_throughput_of_few_clients() {
    let result = native(scenarios::convoy);
    assert!(figure(&result, "of what the cores have time for") >= 90.0);
}

#[test]
fn long_statements_do_not_slow_short_ones() {
    let result = native(scenarios::one_second);
    assert!(figure(&result, "the long ones make it") <= 2.0);
}

/// What users of the servers' pools report is there in their profiles; that it is gone is what the other tests say.
#[test]
fn the_known_weaknesses_are_there_in_the_profiles() {
    use Profile::{MariaDb, Percona};
    let starved = under(Percona, scenarios::starvation);
    assert_eq!((starved.outcome.class("new").done(), starved.outcome.class("new").unanswered), (0, 1));
    let locked = under(Percona, scenarios::lock_tables);
    assert!(locked.outcome.class("other").waited.longest() > S, "as long as somebody locks another table");
    let holders = under(MariaDb, scenarios::queued_holder);
    assert!(figure(&holders, "transactions") < 10.0, "the holder waits for a stall");
    let unlucky = under(MariaDb, scenarios::imbalance);
    assert!(figure(&unlucky, "it is the worse by") > 10.0);
    let slow = under(Percona, scenarios::one_second);
    assert!(figure(&slow, "the long ones make it") > 10.0);
}

#[test]
fn a_storm_of_logins_does_not_slow_what_runs() {
    let result = native(scenarios::login_storm);
    assert_eq!(result.outcome.logins, u64::from(scenarios::login_storm(Scale::Small).clients()));
    assert!(result.outcome.class("read").response.longest() < 50 * MS);
}

#[test]
fn a_crowd_does_not_cost_throughput() {
    let result = native(scenarios::flash_crowd);
    assert!(figure(&result, "goodput during the crowd, of capacity") >= 90.0);
}

#[test]
fn a_users_crowd_does_not_slow_another_user_where_shares_are_fair() {
    let fair = under(Profile::Fair, scenarios::fair_share);
    let (alone, with) = (figure(&fair, "p99 without the crowd"), figure(&fair, "p99 of the light user"));
    // Ahead of it are the crowd's statements that have been handed on: the worker's part of the permits, and as many in flight.
    assert!(with <= 20.0 * alone, "{with} s, {alone} s alone");
    // By default it has its share as soon as it is crowded out.
    let usual = figure(&native(scenarios::fair_share), "p99 of the light user");
    assert!(usual <= 30.0 * alone, "{usual} s, {alone} s alone");
    let unfair = under(Profile::Percona, scenarios::fair_share);
    assert!(figure(&unfair, "p99 of the light user") > 10.0 * with);
    let [fair, unfair] = [fair, unfair].map(|result| result.outcome.goodput());
    assert!(fair >= 0.9 * unfair, "{fair} of {unfair} a second");
}

#[test]
fn service_comes_back_after_a_storm_and_nothing_runs_for_nobody() {
    let (normal, nobody) = ("until service is normal again", "run for nobody, of all that ran");
    let result = native(scenarios::repeat_storm);
    assert!(figure(&result, normal) < 2.0, "{}", figure(&result, normal));
    assert!(figure(&result, nobody) < 1.0, "{}", figure(&result, nobody));
}

#[test]
fn many_workers_and_clients_are_served_evenly() {
    let scenario = scenarios::million(Scale::Small);
    let result = native(scenarios::million);
    assert_eq!(result.outcome.logins, u64::from(scenario.clients()));
    assert!(result.outcome.goodput() > 9_500.0, "1,000 clients every tenth of a second");
    assert!(result.outcome.class("read").response.per_mille(990) < 5 * MS);
}

/// Nothing changes: what logs in then does so for want of a backend alone. `scheduling --accounts` prints all of it.
#[test]
fn logins_are_bounded_while_nothing_changes() {
    let kinds = [(64, false, 1), (2_000, false, 1)];
    for (clients, pauses, workers) in kinds {
        for accounts in [Accounts::InTurn(47), Accounts::Popular(1_000)] {
            check_logins(Case { clients, accounts, pauses, workers }, 1);
        }
    }
}

fn check_logins(case: Case, seed: u64) {
    let found = case.find(1, seed);
    let (logins, bound) = (found.per_statement(), found.bound());
    assert!(logins <= bound, "{found:?}: {logins} logins for each statement, at most {bound}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = |seed| scheduling::run(&scenarios::queued_holder(Scale::Small), Profile::Native, seed).outcome;
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

/// `make quick` and `make test` leave these out.
mod at_length {
    use super::*;

    #[test]
    fn logins_are_bounded_with_few_and_many_accounts() {
        // All 54 take six minutes here; `scheduling --accounts` runs them. Nine with each number of accounts follow each other, so that these are of all
        // kinds and numbers.
        Case::all().into_iter().step_by(5).for_each(|case| check_logins(case, 2));
    }

    #[test]
    fn readers_go_on_where_there_are_as_many_permits_as_backends() {
        for (scenario, class) in [
            (scenarios::flush_tables_few_backends as fn(Scale) -> Scenario, "read"),
            (scenarios::lock_tables_other_schema, "other"),
        ] {
            for (seed, permits, workers, disk) in
                [(1, 128, 1, 300), (4, 128, 1, 60_000), (5, 64, 2, 60_000), (16, 128, 2, 60_000)]
            {
                let mut scenario = Scenario {
                    adjust: match permits {
                        64 => |_, settings| (settings.max_backends, settings.permits) = (128, 64),
                        _ => |_, settings| (settings.max_backends, settings.permits) = (128, 128),
                    },
                    workers,
                    ..scenario(Scale::Small)
                };
                // With a slow disk, as many writes as there are permits are under way when the lock comes.
                scenario.server.sync = Time::about(disk);
                let result = under_seed(Profile::Native, &scenario, seed);
                let waited = result.outcome.class(class).waited.longest();
                // At worst the longer time from one question who waits to the next, of the seconds that the lock is held.
                assert!(
                    waited < 600 * MS,
                    "{}, {permits} permits, {workers} workers, {disk}: {waited}",
                    scenario.name
                );
            }
        }
    }

    #[test]
    fn a_crowd_at_one_row_does_not_slow_others() {
        for scenario in [scenarios::pile_up, scenarios::pile_up_of_updates] {
            let result = native(scenario);
            assert!(figure(&result, "of those without the others") > 80.0);
            assert!(result.outcome.class("read").waited.longest() < 100 * MS);
            // The row changes hands as often as it can.
            assert!(figure(&result, "transactions") > 1_400.0);
        }
    }
}
