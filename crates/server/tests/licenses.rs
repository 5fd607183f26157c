//! What we take from elsewhere: under which licenses, from where, and each crate once. A light form of deny.toml that
//! needs nothing but cargo; `cargo deny check` says the same and more.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Licenses that go with Apache-2.0 and ask for no more than a notice. The list is that of deny.toml.
const LICENSES: [&str; 7] = ["Apache-2.0", "MIT", "BSD-3-Clause", "ISC", "Unicode-3.0", "Unlicense", "Zlib"];

/// Crates that are there in two versions, each with its reason.
const TWICE: [(&str, &str); 5] = [
    ("cpufeatures", "sha1 0.10 and proptest's generator want different ones"),
    ("getrandom", "ring wants the old one; rcgen names ring and is built without it"),
    ("signal-hook", "crossterm, which reads the terminal, wants the old one"),
    ("untrusted", "as getrandom"),
    ("syn", "derive macros at build time"),
];

#[test]
fn licenses_go_with_ours() {
    for package in packages() {
        let license = package.get("license").and_then(serde_json::Value::as_str).unwrap_or("none");
        assert!(is_allowed(license), "{}: {license}", package["name"]);
    }
}

#[test]
fn crates_come_from_the_registry() {
    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
    for package in packages() {
        // Without a source it is one of our own.
        let source = package["source"].as_str().unwrap_or(REGISTRY);
        assert_eq!(source, REGISTRY, "{}", package["name"]);
    }
}

#[test]
fn each_crate_is_there_once() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        let name = String::from(package["name"].as_str().unwrap());
        versions.entry(name).or_default().push(package["version"].to_string());
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let known = TWICE.iter().any(|(twice, _)| twice == name);
        assert!(
            known,
            "{name} is there as {}: settle on one, or give the reason here",
            versions.join(" and ")
        );
    }
}

#[test]
fn license_expressions_are_understood() {
    for license in [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR MIT",
    ] {
        assert!(is_allowed(license), "{license}");
    }
    for license in [
        "none",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR Apache-2.0) AND GPL-3.0",
        "LGPL-2.1-or-later OR GPL-3.0",
    ] {
        assert!(!is_allowed(license), "{license}");
    }
}

/// Whether a license expression (SPDX, and the older `/` for OR) can be met with [`LICENSES`]. Of brackets, those of
/// `(A OR B) AND C` are understood.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ");
    let alternatives = |part: &str| {
        part.trim_matches(['(', ')', ' ']).split(" OR ").any(|license| LICENSES.contains(&license.trim()))
    };
    if expression.contains('(') {
        return expression.split(" AND ").all(alternatives);
    }
    // AND binds more closely than OR.
    expression
        .split(" OR ")
        .any(|choice| choice.split(" AND ").all(|license| LICENSES.contains(&license.trim())))
}

fn packages() -> Vec<serde_json::Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    // For Linux, which is what it runs on: crates for other systems are never built.
    let arguments =
        ["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"];
    let output = Command::new(env!("CARGO")).current_dir(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let serde_json::Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    assert!(packages.len() > 10);
    packages
}
