//! Variables that only the server knows the values of: trackers do not report them.

use std::collections::BTreeSet;

use sql::TrackerVariable;

/// The names of such variables of a client, in lower case, and [`SCHEMA`].
pub(crate) type Unreported = Option<Box<BTreeSet<Box<[u8]>>>>;

/// Stands for the default schema, which is asked for like a variable.
pub(crate) const SCHEMA: &[u8] = b"database()";

/// Says whether the values have to be asked for before the next statement. That is so where trackers are among them, since ours are
/// set anew ahead of it, and where the schema is, since no reset brings that back.
pub(crate) fn cannot_wait(unreported: &Unreported) -> bool {
    let cannot = |name: &[u8]| name == SCHEMA || TrackerVariable::of(name).is_some();
    unreported.as_ref().is_some_and(|names| names.iter().any(|name| cannot(name)))
}
