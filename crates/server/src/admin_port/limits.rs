//! The table of bounds. What each bounds is declared with its option.

use std::collections::BTreeMap;

use admin::Rows;
use admin::tables::Limit as LimitRow;
use config::{Counted, Limit, Scope};
use engine::{Use, WorkerView};

use super::counters::Wholes;
use crate::ask::Whole;
use crate::control::Control;

/// A row for each, by name.
pub(super) fn put(control: &Control, rows: &mut Rows<'_>, wholes: &Wholes) {
    let admins = Some(u64::from(rows.connections()));
    all(control, wholes, admins).values().for_each(|limit| rows.put(limit));
}

/// All of them, by option. `admins` is how many have logged in to the admin port, where that is known.
pub(crate) fn all(
    control: &Control,
    wholes: &Wholes,
    admins: Option<u64>,
) -> BTreeMap<&'static str, LimitRow> {
    let configuration = control.configuration();
    let mut limits = BTreeMap::new();
    for known in configuration.limits() {
        let (option, limit) = (known.option, known.limit);
        let mut row = row(option, limit, known.bound);
        match limit.counted {
            Counted::ByEngine(of) => {
                take_use(&mut row, of, limit.scope, wholes);
                note_reached(&mut row, of, wholes.values().map(|whole| &whole.view));
            }
            Counted::ByAdminPort => row.in_use = admins,
            Counted::Not => {}
        }
        if limit.always || row.reached > 0 {
            limits.insert(option, row);
        }
    }
    limits
}

fn row(option: &'static str, limit: Limit, bound: Option<u64>) -> LimitRow {
    let (unit, scope) = (limit.unit.name(), limit.scope.name());
    LimitRow { option, bounds: limit.bounds, unit, scope, in_use: None, bound: given(bound), reached: 0 }
}

/// No bound is 0 for some and more than there can be for others.
fn given(bound: Option<u64>) -> Option<u64> {
    bound.filter(|&bound| bound > 0 && bound < u64::MAX)
}

/// How much is in use: of what is common to the workers one of them knows, of what each bounds for itself the most counts, and the
/// parts of the process's are added up. Of what each server has apart that one counts which is nearest to its bound.
fn take_use(row: &mut LimitRow, of: engine::Limit, scope: Scope, wholes: &Wholes) {
    let shares = || {
        let nearest = |whole: &Whole| nearest(whole.shares.iter().filter(|share| share.limit == of));
        wholes.values().filter_map(move |whole| nearest(whole))
    };
    let parts = || wholes.values().flat_map(|whole| whole.view.in_use).filter(|(limit, _)| *limit == of);
    let parts = || parts().map(|(_, in_use)| in_use);
    if let Some(share) = shares().next() {
        row.bound = given(Some(share.bound));
        row.in_use = match scope {
            Scope::Process => Some(share.in_use),
            _ => shares().map(|share| share.in_use).max(),
        };
    } else {
        row.in_use = match scope {
            Scope::Process => parts().reduce(|sum, part| sum + part),
            _ => parts().max(),
        };
    }
}

/// That of several servers of which the largest part is in use; of equal ones the primary's, which is the first.
fn nearest<'a>(shares: impl DoubleEndedIterator<Item = &'a Use>) -> Option<Use> {
    let part = |share: &Use| share.in_use as f64 / share.bound.max(1) as f64;
    shares.rev().copied().max_by(|one, other| part(one).total_cmp(&part(other)))
}

fn note_reached<'a>(row: &mut LimitRow, of: engine::Limit, views: impl Iterator<Item = &'a WorkerView>) {
    for view in views {
        for &(_, bound, times) in view.limits_reached.iter().filter(|(limit, ..)| *limit == of) {
            row.bound = row.bound.or(Some(bound));
            row.reached += times;
        }
        if of == engine::Limit::Permits {
            row.reached += view.waited_for_permit;
        }
    }
}
