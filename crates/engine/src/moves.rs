//! Tables of the ways from one state of a thing to another: which function leads from where to where.

use std::fmt::Debug;

/// A function, and where it may lead.
pub(crate) struct Move<At: 'static> {
    pub(crate) by: &'static str,
    pub(crate) from: &'static [At],
    pub(crate) to: &'static [At],
}

/// Looks a move up where debug assertions are on; elsewhere this costs nothing.
///
/// # Panics
///
/// Where the table has no such move. `thing` is who moves, with its article.
pub(crate) fn check<At: Copy + Debug + PartialEq>(
    moves: &[Move<At>],
    thing: &str,
    by: &str,
    from: At,
    to: At,
) {
    if cfg!(debug_assertions) {
        let is_it = |it: &Move<At>| it.by == by && it.from.contains(&from) && it.to.contains(&to);
        assert!(moves.iter().any(is_it), "{thing} must not `{by}` from {from:?} to {to:?}");
    }
}

/// A table as text, one move a line.
#[cfg(test)]
pub(crate) fn rendered<At: Debug>(moves: &[Move<At>]) -> String {
    let names = |all: &[At]| all.iter().map(|at| format!("{at:?}")).collect::<Vec<_>>().join(" | ");
    moves.iter().map(|it| format!("{}: {} -> {}\n", it.by, names(it.from), names(it.to))).collect()
}

/// # Panics
///
/// Where a function has two lines, or nothing leads out of a place that something leads to, but for `ends`.
#[cfg(test)]
pub(crate) fn check_table<At: Debug + PartialEq>(moves: &[Move<At>], ends: &[At]) {
    for (place, it) in moves.iter().enumerate() {
        assert!(moves[..place].iter().all(|before| before.by != it.by), "{} is there twice", it.by);
        for reached in it.to.iter().filter(|reached| !ends.contains(reached)) {
            assert!(moves.iter().any(|next| next.from.contains(reached)), "nothing leads out of {reached:?}");
        }
    }
}
