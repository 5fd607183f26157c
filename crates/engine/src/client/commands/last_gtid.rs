//! MariaDB's `@@last_gtid`: the GTID of a client's own last commit.
//!
//! The server reports it with the answer to a commit, where it has a binary log (`THD::set_last_commit_gtid`), as a
//! change of a session variable that nobody can set. So Onramp keeps it here, and puts it in the place of the variable:
//! the one on a backend is that of the client that committed there last.

use sql::Kind;

use crate::backend::TrackedChange;
use crate::client::Client;
use crate::request::Request;
use crate::server::control::facts::Facts;
use crate::session::gtid::Gtid;

/// The variable's name.
const NAME: &[u8] = b"last_gtid";

impl Client {
    /// Takes in the GTID that an answer reports. A statement that failed after it had written is told of with a later
    /// answer, maybe another client's. So plain reads and SETs, which commit nothing, are not believed.
    pub(crate) fn note_last_gtid(&mut self, request: &Request, changes: &[TrackedChange]) {
        let statement = &request.statement;
        let of_session = matches!(statement.kind, Kind::Set | Kind::Use)
            && !statement.several
            && statement.effects.is_empty();
        if statement.plain_read || (of_session && !self.in_transaction()) {
            return;
        }
        for change in changes {
            if let TrackedChange::Variable { name, value } = change
                && name.eq_ignore_ascii_case(NAME)
                && let Some(gtid) = Gtid::parse(value)
            {
                self.session.aftermath.wrote(gtid);
            }
        }
    }

    /// Returns the variable as a literal. `None` where it is the affair of the server with these facts: MySQL does not
    /// have it, and MariaDB from 11.1 on reports it under other names, like all that is not stored as a variable.
    pub(crate) fn last_gtid_literal(&self, facts: &Facts) -> Option<String> {
        let is_reported = facts.is_mariadb() && !facts.has_vague_trackers();
        let last = self.session.aftermath.last_gtid();
        is_reported.then(|| format!("'{}'", last.map_or_else(String::new, ToString::to_string)))
    }
}
