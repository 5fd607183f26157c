//! Kinds of statements, as all workers together know them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::DigestView;

/// By their fingerprints; `None` is all those that are counted together.
#[derive(Default)]
pub(crate) struct Kinds(BTreeMap<Option<u64>, DigestView>);

impl Kinds {
    /// Adds what a worker knows of one.
    pub(crate) fn add(&mut self, view: DigestView) {
        match self.0.entry(view.digest.fingerprint) {
            Entry::Vacant(entry) => {
                entry.insert(view);
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.digest += &view.digest;
                known.first_seen = known.first_seen.max(view.first_seen);
                known.last_seen = known.last_seen.min(view.last_seen);
                known.taken_for |= view.taken_for;
                known.permit_percent = known.permit_percent.min(view.permit_percent);
            }
        }
    }

    /// What is known of one.
    pub(crate) fn get(&self, fingerprint: Option<u64>) -> Option<&DigestView> {
        self.0.get(&fingerprint)
    }

    /// All of them, by fingerprint.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DigestView> {
        self.0.values()
    }
}
