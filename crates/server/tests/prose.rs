//! What the project asks of its comments: a newcomer reads each sentence once.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at the first surprise")]

use std::path::Path;

/// Of 1,000 lines of documentation in the engine so many may begin with one of [`LATE`]: the subject comes late there, or was named in the
/// line before. Some are right; many are hard to read.
const MOST_BEGIN_LATE: usize = 5;
const LATE: [&str; 4] = ["What", "Whether", "It", "Those"];

/// And so many may have one of [`ABOUT`] in them, in the place of a noun.
const MOST_ABOUT: usize = 5;
const ABOUT: [&str; 3] = ["whom", "whoever", "whose"];

/// The lines of documentation in a folder, with their places.
fn lines_of(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines_of(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines =
                text.lines().enumerate().filter_map(|(number, line)| Some((number, of_documentation(line)?)));
            into.extend(
                lines.map(|(number, line)| (format!("{}:{}", path.display(), number + 1), line.to_owned())),
            );
        }
    }
}

fn of_documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
        .map(str::trim_start)
        .filter(|line| !line.is_empty())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn begins_late(line: &str) -> bool {
    words(line).next().is_some_and(|word| LATE.contains(&word) && line.starts_with(word))
}

fn is_about(line: &str) -> bool {
    words(line).any(|word| ABOUT.iter().any(|about| word.eq_ignore_ascii_case(about)))
}

#[test]
fn documentation_names_its_subjects() {
    let mut lines = Vec::new();
    lines_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src"), &mut lines);
    for (most, is_one, words) in
        [(MOST_BEGIN_LATE, begins_late as fn(&str) -> bool, &LATE[..]), (MOST_ABOUT, is_about, &ABOUT)]
    {
        let found: Vec<_> =
            lines.iter().filter(|(_, line)| is_one(line)).map(|(at, line)| format!("{at}: {line}")).collect();
        let of_thousand = found.len() * 1000 / lines.len();
        assert!(
            of_thousand <= most,
            "{} of {} lines ({of_thousand} of 1,000, {most} are allowed) have {words:?}: name the subject\n{}",
            found.len(),
            lines.len(),
            found.join("\n")
        );
    }
}

#[test]
fn lines_that_name_no_subject_are_found() {
    assert!(begins_late("It is one.") && begins_late("What it has.") && begins_late("Whether it is."));
    assert!(!begins_late("Items of it.") && !begins_late("`It` is a type.") && !begins_late("The one."));
    assert!(is_about("The one whose backend it is.") && is_about("Whoever comes.") && !is_about("Whole."));
    assert_eq!(of_documentation("    /// One."), Some("One."));
    assert_eq!(of_documentation("    // One."), None);
    assert_eq!(of_documentation("///"), None);
}
