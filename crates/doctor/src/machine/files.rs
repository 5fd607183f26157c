//! Reading small files below a folder.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The folder that holds `proc` and `sys`.
pub(super) struct Root(PathBuf);

/// What stands for no limit: more than any machine has of anything (`fs.file-max` is 2^63 - 1 on new systems), and little
/// enough to be reckoned with.
pub(crate) const ENDLESS: u64 = 1 << 56;

/// A number, at most [`ENDLESS`]. One beyond 64 bits does not count as one.
pub(super) fn number(word: &str) -> Option<u64> {
    word.parse().ok().map(|number: u64| number.min(ENDLESS))
}

/// The longest of the files, slabinfo, has 30 KiB; a copied folder may hold anything.
const LONGEST_FILE: u64 = 1 << 20;

impl Root {
    pub(super) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// What a file holds. `path` may start with a slash; it stays below the folder all the same.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.0.join(path.trim_start_matches('/'))).ok()?;
        let mut bytes = Vec::new();
        file.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The one number that a file holds, at most [`ENDLESS`].
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        number(self.text(path)?.trim())
    }

    /// The numbers that a file holds; none where one of its words is something else.
    pub(super) fn numbers(&self, path: &str) -> Vec<u64> {
        let text = self.text(path).unwrap_or_default();
        text.split_whitespace().map(number).collect::<Option<_>>().unwrap_or_default()
    }
}
