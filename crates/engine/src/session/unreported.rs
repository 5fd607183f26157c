//! Variables whose values only the server knows: trackers do not report them.

use std::collections::BTreeSet;

use sql::TrackerVariable;

/// The names of such variables of a client, in lower case, and [`SCHEMA`].
pub(crate) type Unreported = Option<Box<BTreeSet<Box<[u8]>>>>;

/// Stands for the default schema, which is asked for like a variable.
pub(crate) const SCHEMA: &[u8] = b"database()";

/// Whether they have to be asked for before the next statement: trackers are among them, of which ours are set anew ahead of it, or
/// the schema, which no reset brings back.
pub(crate) fn cannot_wait(unreported: &Unreported) -> bool {
    let cannot = |name: &[u8]| name == SCHEMA || TrackerVariable::of(name).is_some();
    unreported.as_ref().is_some_and(|names| names.iter().any(|name| cannot(name)))
}
