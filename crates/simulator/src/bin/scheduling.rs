//! `scheduling`: the thread pool's scenarios, on the terminal.

use std::process::ExitCode;

use simulator::scheduling::report::table::Table;
use simulator::scheduling::scenarios::{self, Scale};
use simulator::scheduling::{self, Profile};

const USAGE: &str = "usage: scheduling [--small] [--seed N] [--profile NAME] [SCENARIO]...";

fn main() -> ExitCode {
    let mut scale = Scale::Full;
    let mut seed = 1;
    let mut profiles = Profile::ALL.to_vec();
    let mut names = Vec::new();
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--small" => scale = Scale::Small,
            "--seed" => seed = given.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            "--profile" => {
                let name = given.next().unwrap_or_default();
                profiles.retain(|profile| profile.name() == name);
            }
            name if !name.starts_with('-') => names.push(name.to_owned()),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    for scenario in scenarios::all(scale) {
        if !names.is_empty() && !names.iter().any(|name| name == scenario.name) {
            continue;
        }
        println!("\n{}\n", scenario.title);
        let results: Vec<_> =
            profiles.iter().map(|&profile| scheduling::run(&scenario, profile, seed)).collect();
        println!("{}", Table::of_figures(&results).to_text());
        println!("{}", Table::of_classes(&results).to_text());
        for result in &results {
            let o = &result.outcome;
            println!(
                "logins {} refused {} backends {} turns {} begun {} unknown {:?}",
                o.logins, o.refused_logins, o.backends, o.turns, o.begun, o.unknown
            );
        }
    }
    ExitCode::SUCCESS
}
