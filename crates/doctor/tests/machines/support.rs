//! Recorded machines, and copies of them that may be changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use doctor::{Check, Finding, Machine, Request, Verdict, examine};

pub(crate) const ALL: [&str; 4] = ["container", "debian", "squeezed", "tuned"];

/// Where a machine was recorded.
pub(crate) fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn machine(name: &str) -> Machine {
    Machine::read(&recorded(name))
}

/// A copy of a machine that is gone after the test.
pub(crate) struct Copy(PathBuf);

impl Copy {
    pub(crate) fn of(name: &str) -> Self {
        let copy = Self::empty();
        for path in files(&recorded(name)) {
            copy.write(&path, &fs::read(recorded(name).join(&path)).unwrap());
        }
        copy
    }

    pub(crate) fn empty() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onramp-doctor-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).unwrap();
    }

    /// Sets a system setting, as `sysctl -w` would.
    pub(crate) fn set(&self, key: &str, value: &str) {
        self.write(&format!("proc/sys/{}", key.replace('.', "/")), format!("{value}\n").as_bytes());
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::read(&self.0)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All files below a folder, by their path from it.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{} holds nothing", root.display());
    found
}

/// What one check says.
pub(crate) fn finding(machine: &Machine, request: &Request, check: Check) -> Finding {
    let mut findings = examine(machine, request);
    findings.retain(|finding| finding.check == check);
    assert_eq!(findings.len(), 1, "{check:?}");
    findings.remove(0)
}

/// The keys of all checks with a verdict.
pub(crate) fn keys(findings: &[Finding], verdict: Verdict) -> Vec<&'static str> {
    findings.iter().filter(|finding| finding.verdict == verdict).map(|finding| finding.check.key()).collect()
}
