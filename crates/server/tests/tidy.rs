//! What the project asks of its own sources: sizes, who may depend on whom, that the core has no door to the world, and that pages
//! about the sources say what is there.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test stops at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beyond this a file holds more than one thing.
const LONGEST_FILE: usize = 600;

/// So many files of the engine have methods on the engine as a whole, which see all of it. A method that needs one part of it
/// belongs to that part; this number only falls.
const WITH_THE_WHOLE_ENGINE: usize = 10;

/// So many files of the engine import each other in one circle, so that none of them can be read without the others. A type that others
/// need has a file on a lower floor, without what the whole engine does with it; this number only falls.
const LARGEST_CIRCLE: usize = 5;

/// So many fields of the engine's structs may be touched by all of the engine, but for what is borrowed together for one call. A field is
/// its part's own: others ask that part, or tell it what has happened. This number only falls.
const VISIBLE_TO_THE_WHOLE_ENGINE: usize = 440;

/// A struct of the engine with more fields than this holds more than one thing: they are grouped by what they are for.
/// Options aside, and what is told outside as a row or a line.
const MOST_FIELDS: usize = 20;

/// So many lines, but for tests, say that a function fails with a sentence: nobody can tell its faults apart but by words. An error is
/// a type with a variant for each fault; this number only falls. What is left: why a recording of `onramp top` has no look, which is
/// kept as it was read.
const FAIL_WITH_A_SENTENCE: usize = 1;

/// Which of our crates each crate may use. What is absent here must not appear.
const ALLOWED: [(&str, &[&str]); 25] = [
    ("seam", &[]),
    ("wire", &[]),
    ("sql", &[]),
    ("svg", &[]),
    ("engine", &["proxy_protocol", "seam", "sql", "wire"]),
    ("admin", &["admin_client", "tls", "wire"]),
    ("admin_client", &["login", "tls", "wire"]),
    ("config", &["drivers", "engine", "proxy_protocol"]),
    ("differential", &["private_server", "wire"]),
    ("drivers", &["seam"]),
    ("bench", &["drivers", "keys", "login", "seam", "tls", "wire"]),
    ("tls", &["seam"]),
    ("top", &["admin_client", "tls"]),
    ("compression", &["seam"]),
    ("proxy_protocol", &["seam"]),
    ("doctor", &["config", "drivers", "wire"]),
    ("challenge", &["config", "doctor", "drivers", "keys", "login", "private_server", "svg", "wire"]),
    ("keys", &[]),
    ("trial", &["svg"]),
    ("web", &[]),
    ("login", &["keys", "wire"]),
    ("private_server", &[]),
    ("simulator", &["engine", "seam", "svg", "wire"]),
    (
        "server",
        &[
            "admin",
            "admin_client",
            "bench",
            "challenge",
            "compression",
            "config",
            "doctor",
            "drivers",
            "engine",
            "keys",
            "private_server",
            "proxy_protocol",
            "seam",
            "simulator",
            "sql",
            "tls",
            "trial",
            "web",
            "top",
            "wire",
        ],
    ),
    ("fuzz", &["engine", "seam", "sql", "wire"]),
];

/// The core: state machines that take time, bytes and addresses as input.
const PURE: [&str; 4] = ["seam", "wire", "sql", "engine"];

/// Doors to the world. `std::net` is one but for its addresses and `std::io` but for its errors, which are plain data.
const DOORS: [&str; 19] = [
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::io::std",
    "std::io::Read",
    "std::io::Write",
    "print!(",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::sync::mpsc",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "ToSocketAddrs",
    "libc::",
    "rustix::",
];

/// Crates from elsewhere that the core may use: none of them touches the system.
const PURE_DEPENDENCIES: [&str; 9] =
    ["memchr", "sha1", "sha2", "slab", "zeroize", "proxy_protocol", "seam", "sql", "wire"];

#[test]
fn files_hold_one_thing() {
    let mut long = Vec::new();
    for (path, text) in sources() {
        let is_test = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs");
        let lines = text.lines().count();
        if !is_test && lines > LONGEST_FILE {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "longer than {LONGEST_FILE} lines:\n{}", long.join("\n"));
}

#[test]
fn methods_of_the_whole_engine_become_fewer() {
    let is_of_engine = |(path, text): &(PathBuf, String)| {
        path.starts_with("crates/engine/src")
            && text.lines().any(|line| line.starts_with("impl") && line.ends_with(" Engine {"))
    };
    let count = sources().into_iter().filter(is_of_engine).count();
    assert!(
        count <= WITH_THE_WHOLE_ENGINE,
        "{count} files have methods of the whole engine, {WITH_THE_WHOLE_ENGINE} had: give the new ones to a part of it, or pass \
         what they need"
    );
    assert!(
        count == WITH_THE_WHOLE_ENGINE,
        "only {count} are left: write that down in WITH_THE_WHOLE_ENGINE"
    );
}

#[test]
fn the_circle_of_the_engine_becomes_smaller() {
    let mut files = BTreeMap::new();
    for (path, text) in sources() {
        let Ok(inner) = path.strip_prefix("crates/engine/src") else { continue };
        let name = inner.with_extension("");
        let mut module: Vec<_> = name.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_test = |part: &String| part.ends_with("tests") || part == "testing";
        if module.iter().any(is_test) || module == ["lib"] {
            continue;
        }
        module.pop_if(|last| last == "mod");
        files.insert(module, text);
    }
    let leads_to = |(module, text): (&Vec<String>, &String)| -> BTreeSet<Vec<String>> {
        let found = imports(text).into_iter().filter_map(|import| imported_file(&files, module, &import));
        found.filter(|found| found != module).collect()
    };
    let direct: BTreeMap<_, _> = files.iter().map(|file| (file.0.clone(), leads_to(file))).collect();
    let reached = |from: &Vec<String>| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            open.extend(direct[next].iter().filter(|&file| reached.insert(file.clone())));
        }
        reached
    };
    let all: BTreeMap<_, _> = files.keys().map(|file| (file, reached(file))).collect();
    let circle_of =
        |(file, to): (&&Vec<String>, &BTreeSet<_>)| to.iter().filter(|to| all[to].contains(*file)).count();
    let largest = all.iter().map(circle_of).max().unwrap_or_default();
    assert!(
        largest <= LARGEST_CIRCLE,
        "{largest} files of the engine import each other in a circle, {LARGEST_CIRCLE} did: give what the new import needs a file \
         on a lower floor"
    );
    assert!(largest == LARGEST_CIRCLE, "only {largest} are left: write that down in LARGEST_CIRCLE");
}

/// The paths that a file's code names, but for those of its tests; a list in braces as a path for each part of it.
fn imports(text: &str) -> Vec<String> {
    let text = text.split("mod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    // Who may see an item is no import.
    let code: String =
        lines.flat_map(|line| [line, "\n"]).collect::<String>().replace("pub(in crate::", "pub(in ");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let begins = |word: &&str| {
            statement.trim_start().starts_with(word) || statement.contains(&format!("\n{word}"))
        };
        let Some(word) = ["use ", "pub use ", "pub(crate) use "].into_iter().find(|word| begins(word)) else {
            continue;
        };
        let at = statement.rfind(word).unwrap() + word.len();
        let path: String = statement[at..].split_whitespace().collect();
        match path.split_once('{') {
            Some((base, parts)) => {
                found.extend(parts.trim_end_matches('}').split(',').map(|part| format!("{base}{part}")));
            }
            None => found.push(path),
        }
    }
    for base in ["crate::", "super::"] {
        let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
        for (at, _) in code.match_indices(base) {
            let path = code[at..].split(|character| !is_of_path(character)).next().unwrap_or_default();
            found.push(path.to_owned());
        }
    }
    found
}

/// The file that has what a path names in a module: the last of its parts that is one.
fn imported_file(
    files: &BTreeMap<Vec<String>, String>,
    module: &[String],
    import: &str,
) -> Option<Vec<String>> {
    let mut parts = import.split("::").filter(|part| !part.is_empty()).peekable();
    let mut base = match *parts.peek()? {
        "crate" => Vec::new(),
        _ => module.to_vec(),
    };
    while let Some(&part) = parts.peek().filter(|part| ["crate", "self", "super"].contains(part)) {
        if part == "super" {
            base.pop();
        }
        parts.next();
    }
    let mut file = Some(base.clone()).filter(|base| base != module && files.contains_key(base));
    for part in parts {
        base.push(part.to_owned());
        if !files.contains_key(&base) {
            break;
        }
        file = Some(base.clone());
    }
    file
}

#[test]
fn structs_of_the_engine_hold_one_thing() {
    let mut larger = BTreeSet::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("crates/engine/src")) {
        let told = ["crates/engine/src/outside/snapshot", "crates/engine/src/outside/slow_log.rs"];
        if told.iter().any(|told| path.starts_with(told)) || path.ends_with("settings.rs") {
            continue;
        }
        let mut name = None;
        let mut fields = 0;
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("struct ").filter(|_| line.ends_with(" {")) {
                (name, fields) = (rest.split([' ', '<']).next().map(String::from), 0);
            } else if line == "}" {
                larger.extend(name.take().filter(|_| fields > MOST_FIELDS));
            } else if line.starts_with("    ") && !line.starts_with("     ") && line.ends_with(',') {
                fields += 1;
            }
        }
    }
    assert!(
        larger.is_empty(),
        "structs with more than {MOST_FIELDS} fields: group them by what they are for: {larger:?}"
    );
}

#[test]
fn fields_that_all_of_the_engine_sees_become_fewer() {
    let mut count = 0;
    for (path, text) in sources() {
        let Ok(inner) = path.strip_prefix("crates/engine/src") else { continue };
        if inner.iter().any(|part| part.to_string_lossy().trim_end_matches(".rs").ends_with("tests")) {
            continue;
        }
        let parts = inner.iter().filter(|part| part.to_string_lossy() != "mod.rs").count();
        count += visible_fields(&text, parts == 1);
    }
    assert!(
        count <= VISIBLE_TO_THE_WHOLE_ENGINE,
        "{count} fields of the engine are visible to all of it, {VISIBLE_TO_THE_WHOLE_ENGINE} were: keep the new ones to their \
         part, with methods that say what happens"
    );
    assert!(
        count == VISIBLE_TO_THE_WHOLE_ENGINE,
        "only {count} are left: write that down in VISIBLE_TO_THE_WHOLE_ENGINE"
    );
}

/// The number of fields that the whole crate may touch, but for those of structs that borrow. In a file directly under the crate's root
/// the module above is the crate.
fn visible_fields(text: &str, is_under_root: bool) -> usize {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let (mut counts, mut is_own) = (false, false);
    let mut found = 0;
    for line in text.lines() {
        if let Some((before, name)) = line.split_once("struct ").filter(|_| line.ends_with(" {")) {
            counts = !name.contains("<'");
            is_own = !before.starts_with("pub ");
        } else if line == "}" {
            counts = false;
        } else if let Some(field) = line.strip_prefix("    ").filter(|_| counts) {
            found += usize::from(
                field.starts_with("pub(crate) ")
                    || (is_under_root && field.starts_with("pub(super) "))
                    || (is_own && field.starts_with("pub ")),
            );
        }
    }
    found
}

#[test]
fn a_visible_field_is_found() {
    let text = "pub(crate) struct Own {\n    pub(crate) a: u8,\n    pub(super) b: u8,\n    pub c: u8,\n    d: u8,\n}\n\
                pub struct Told {\n    pub a: u8,\n}\npub(crate) struct Lent<'a> {\n    pub(crate) a: &'a u8,\n}\n";
    assert_eq!((visible_fields(text, false), visible_fields(text, true)), (2, 3));
}

#[test]
fn sentences_as_errors_become_fewer() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        let is_test = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("tests.rs"));
        if is_test {
            continue;
        }
        for (number, _) in code(&text).into_iter().filter(|(_, line)| fails_with_a_sentence(line)) {
            found.push(format!("{}:{number}", path.display()));
        }
    }
    let (count, lines) = (found.len(), found.join("\n"));
    assert!(
        count <= FAIL_WITH_A_SENTENCE,
        "{count} lines have a String as an error, {FAIL_WITH_A_SENTENCE} had: give the new ones a type with a variant for each \
         fault\n{lines}"
    );
    assert!(count == FAIL_WITH_A_SENTENCE, "only {count} are left: write that down in FAIL_WITH_A_SENTENCE");
}

/// Whether a line has a `Result<_, String>`, whatever the first part is, or says that what is parsed fails so.
fn fails_with_a_sentence(line: &str) -> bool {
    let is_of_string = |(at, found): (usize, &str)| error_of(&line[at + found.len()..]) == Some("String");
    line.trim_start().starts_with("type Err = String") || line.match_indices("Result<").any(is_of_string)
}

/// What stands behind the first comma that is in no brackets, up to the bracket that closes all.
fn error_of(arguments: &str) -> Option<&str> {
    let (mut depth, mut comma) = (0, None);
    for (at, character) in arguments.char_indices() {
        match character {
            // An arrow.
            '>' if arguments[..at].ends_with('-') => {}
            '>' if depth == 0 => return comma.map(|comma: usize| arguments[comma + 1..at].trim()),
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => comma = comma.or(Some(at)),
            _ => {}
        }
    }
    None
}

#[test]
fn a_sentence_as_an_error_is_found() {
    for line in [
        "fn a() -> Result<(u16, String), String> {",
        "    b: Option<Result<&[u8], String>>,",
        "type Err = String;",
    ] {
        assert!(fails_with_a_sentence(line), "{line}");
    }
    for line in ["fn a() -> Result<BTreeMap<String, String>, Wrong> {", "fn b() -> io::Result<String> {"] {
        assert!(!fails_with_a_sentence(line), "{line}");
    }
}

#[test]
fn crates_depend_only_on_what_they_may() {
    let ours: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (name, manifest) in manifests() {
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
            panic!("the crate {name} is new: say in this test what it may depend on");
        };
        for dependency in dependencies(&manifest, "dependencies") {
            let fine = !ours.contains(&dependency.as_str()) || allowed.contains(&dependency.as_str());
            assert!(fine, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_core_uses_nothing_that_touches_the_system() {
    for (name, manifest) in manifests().into_iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        for dependency in dependencies(&manifest, "dependencies") {
            assert!(
                PURE_DEPENDENCIES.contains(&dependency.as_str()),
                "{name} uses {dependency}: is it free of I/O?"
            );
        }
    }
    let mut found = Vec::new();
    for (path, text) in sources() {
        let is_pure = PURE.iter().any(|name| path.starts_with(Path::new("crates").join(name).join("src")));
        if !is_pure {
            continue;
        }
        for (number, line) in code(&text) {
            for door in DOORS.iter().filter(|door| line.contains(**door)) {
                found.push(format!("{}:{number}: {door}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "the core has no door to the world:\n{}", found.join("\n"));
}

/// The proof, where the target is installed: on it there is no operating system to call.
#[test]
fn the_core_is_built_without_an_operating_system() {
    let targets = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = targets
        .is_ok_and(|targets| String::from_utf8_lossy(&targets.stdout).contains("wasm32-unknown-unknown"));
    if !installed {
        eprintln!(
            "skipped: `rustup target add wasm32-unknown-unknown` lets this run; the check of sources stands"
        );
        return;
    }
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["check", "--quiet", "--target", "wasm32-unknown-unknown"]);
    for name in PURE {
        build.args(["--package", name]);
    }
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn unsafe_code_lives_in_the_drivers_with_its_reason() {
    for (path, text) in sources() {
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        let mut lines = code(&text).into_iter();
        if path.starts_with("crates/drivers") {
            for (number, _) in lines.filter(|(_, line)| line.contains("unsafe {")) {
                let before: Vec<&str> = text.lines().take(number).collect();
                let explained = before.iter().rev().take(6).any(|line| line.contains("SAFETY"));
                assert!(explained, "{}:{number}: say why it is safe", path.display());
            }
        } else if let Some((number, _)) = lines.find(|(_, line)| line.contains("unsafe {")) {
            panic!("{}:{number}: unsafe code belongs to the drivers", path.display());
        }
    }
}

/// ARCHITECTURE.md's rule: a path begins with a crate's name and leaves out `crates/` and `src/`, or begins at the root.
#[test]
fn architecture_names_paths_that_exist() {
    let text = page("ARCHITECTURE.md");
    let crates = manifests();
    let is_path = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        name.bytes().all(plain) && (name.contains('/') || name.ends_with(".rs") || name.ends_with(".md"))
    };
    let (mut looked_at, mut missing) = (0, Vec::new());
    for name in quoted(&text).filter(|name| is_path(name)) {
        looked_at += 1;
        let path = match name.split_once('/') {
            Some((first, rest)) if crates.contains_key(first) => format!("crates/{first}/src/{rest}"),
            _ => String::from(name),
        };
        if !root().join(path).exists() {
            missing.push(name);
        }
    }
    assert!(looked_at > 50, "the paths were not found");
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
}

#[test]
fn architecture_maps_the_crates_as_they_are() {
    let text = page("ARCHITECTURE.md");
    let (_, map) =
        text.split_once("| crate | responsibility | depends on |").expect("the map has this header");
    let mut mapped = BTreeMap::new();
    for row in map.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [name, _, uses] = cells[..] else { panic!("a row has three cells: {row}") };
        let name = quoted(name).next().expect("a row begins with a crate");
        mapped.insert(String::from(name), quoted(uses).map(String::from).collect::<Vec<_>>());
    }
    let crates = manifests();
    let mut real = BTreeMap::new();
    for (name, manifest) in &crates {
        let mut uses = dependencies(manifest, "dependencies");
        uses.retain(|dependency| crates.contains_key(dependency));
        uses.sort();
        real.insert(name.clone(), uses);
    }
    assert_eq!(mapped, real, "the map of ARCHITECTURE.md on the left, the manifests on the right");
}

/// Each file of end-to-end tests has its row, and each row its files; those in front of a MySQL server share one.
#[test]
fn the_readme_of_tests_names_each_file_of_them() {
    const SHARED: &str = "test_mysql_...";
    let text = page("tests/README.md");
    let (_, table) = text.split_once("| file | what |").expect("the table has this header");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let named: BTreeSet<String> = rows
        .filter_map(|row| row.trim_matches('|').split(" | ").next())
        .flat_map(|files| quoted(files).map(String::from).collect::<Vec<_>>())
        .filter(|name| name.starts_with("test_") && name != SHARED)
        .collect();
    let files = std::fs::read_dir(root().join("tests/drivers")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let are_there: BTreeSet<String> = names
        .filter_map(|name| name.strip_suffix(".py").map(String::from))
        .filter(|name| name.starts_with("test_"))
        .filter(|name| named.contains(name) || !name.starts_with(SHARED.trim_end_matches('.')))
        .collect();
    assert_eq!(named, are_there, "tests/README.md on the left, tests/drivers on the right");
}

/// Programs of tests put each other's folders on Python's path, where the first module of a name hides every other.
#[test]
fn python_modules_of_tests_have_names_of_their_own() {
    let mut of_a_name: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for folder in ["benchmark", "drivers", "ledger", "suites"] {
        for file in std::fs::read_dir(root().join("tests").join(folder)).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|ends| ends == "py") {
                of_a_name.entry(file.file_name().unwrap().to_owned()).or_default().push(file);
            }
        }
    }
    assert!(of_a_name.len() > 100, "this test has lost its files: {of_a_name:?}");
    of_a_name.retain(|_, files| files.len() > 1);
    assert!(of_a_name.is_empty(), "{of_a_name:?}");
}

/// A page with lines that a terminal shows, and links within it that lead somewhere.
#[test]
fn differences_can_be_read() {
    const LONGEST_LINE: usize = 160;
    let text = page("docs/DIFFERENCES.md");
    for (number, line) in text.lines().enumerate() {
        let length = line.chars().count();
        assert!(length <= LONGEST_LINE, "DIFFERENCES.md:{}: {length} characters", number + 1);
    }
    // As GitHub makes them of headings.
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|sign| sign.is_alphanumeric() || *sign == '-').collect::<String>()
    };
    let headings = text.lines().filter(|line| line.starts_with("##"));
    let anchors: Vec<String> =
        headings.map(|line| anchor(line.trim_start_matches('#').trim_start())).collect();
    let links: Vec<&str> = text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 5, "the links were not found");
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "DIFFERENCES.md has no heading for #{link}");
    }
}

/// A page of the documentation, by its path from the root.
fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// What stands in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The lines of a file that hold code, with their numbers. Remarks and everything from the unit tests on are left out.
fn code(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// All our Rust files, by their path from the root.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "fuzz/fuzz_targets"] {
        collect(&root().join(folder), &mut found);
    }
    assert!(found.len() > 10, "the sources were not found");
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_path_buf(), text));
        }
    }
}

/// The manifests of our crates, by the name of their folder.
fn manifests() -> BTreeMap<String, toml::Table> {
    let mut found = BTreeMap::new();
    let folders = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.chain([root().join("fuzz")]) {
        let Ok(text) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = folder.file_name().unwrap().to_str().unwrap();
        found.insert(String::from(name), text.parse().unwrap());
    }
    assert!(found.len() >= PURE.len(), "the manifests were not found");
    found
}

fn dependencies(manifest: &toml::Table, kind: &str) -> Vec<String> {
    let table = manifest.get(kind).and_then(toml::Value::as_table);
    table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}
