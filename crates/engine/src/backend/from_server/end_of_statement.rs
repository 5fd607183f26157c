//! Conclusions from a statement's answer: about the client and its connection, and about mistakes of the lexer.

use sql::{Effects, TransactionCommand};
use wire::StatusFlags;

use crate::backend::Summary;
use crate::backend::from_server::own_answers::{number, rows_of};
use crate::client::Client;
use crate::request::{Request, RequestKind};
use crate::session::aftermath::OF_SQL_MODE;
use crate::session::{SessionState, Sessions};

/// Effects of statements that may have several results each.
const ANSWERS_OFTEN: Effects = Effects::ROUTINE.union(Effects::TEXT_PREPARE).union(Effects::UNKNOWN);

impl Client {
    /// Says whether the server closes the connection behind a statement that has succeeded.
    pub(in crate::backend) fn ends_connection(&self, sessions: &Sessions, request: &Request) -> bool {
        let session = self.session.id().map(|session| sessions.state(session));
        let plain_end = matches!(
            request.statement.transaction,
            Some(TransactionCommand::Commit | TransactionCommand::Rollback)
        );
        request.statement.releases_connection
            || (plain_end && session.is_some_and(SessionState::ends_with_transactions))
    }

    /// Takes in the server's flags about the session.
    pub(super) fn note_status(&mut self, request: &Request, summary: &Summary) {
        let Some(status) = summary.status else { return };
        // What it says of sql_mode was true for the statement alone.
        let own = if request.statement.variables.for_its_duration { OF_SQL_MODE } else { 0 };
        self.session.status_told(StatusFlags((status.0 & !own) | (self.session.status().0 & own)));
    }

    /// Takes in the backend's LAST_INSERT_ID() and FOUND_ROWS(). False where the former is missing; it is lost then.
    pub(super) fn take_insert_id(&mut self, summary: &Summary) -> bool {
        let row = rows_of(&summary.kept_answer).into_iter().next().unwrap_or_default();
        let aftermath = &mut self.session.aftermath;
        aftermath.found_rows_told(number(row.get(2)));
        let told = number(row.first());
        match told {
            Some(value) => aftermath.insert_id_told(value),
            None => aftermath.insert_id_lost(),
        }
        told.is_some()
    }
}

impl Request {
    /// Says whether a text of one statement, as far as the lexer could tell, has had the answers of several.
    pub(super) fn was_taken_for_one(&self, summary: &Summary) -> bool {
        self.command == RequestKind::Query
            && !self.statement.several
            && self.statement.effects.intersection(ANSWERS_OFTEN).is_empty()
            && summary.answers() > 1 + u32::from(self.statement.comment_at_end)
    }
}

#[cfg(test)]
mod tests {
    use wire::Expect;

    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    #[test]
    fn what_a_server_says_of_sql_mode_for_one_statement_is_not_kept() {
        let mut engine = engine(1, Settings::default());
        let client = &mut engine.clients[client_key(0)];
        client.session.status_told(StatusFlags::AUTOCOMMIT);
        let said = StatusFlags(StatusFlags::IN_TRANS.0 | StatusFlags::MORE_RESULTS_EXISTS.0 | OF_SQL_MODE);
        let summary = Summary { status: Some(said), ..Summary::default() };
        let mut request = Request::plain(Vec::new(), Expect::Simple, RequestKind::Query);
        request.statement.variables.for_its_duration = true;
        client.note_status(&request, &summary);
        assert_eq!(client.session.status(), StatusFlags::IN_TRANS);
        request.statement.variables.for_its_duration = false;
        client.note_status(&request, &summary);
        assert_eq!(client.session.status(), StatusFlags(StatusFlags::IN_TRANS.0 | OF_SQL_MODE));
    }

    #[test]
    fn an_id_that_nobody_tells_is_lost() {
        let mut engine = engine(1, Settings::default());
        let client = &mut engine.clients[client_key(0)];
        assert!(!client.take_insert_id(&Summary::default()));
        assert!(client.session.aftermath.knows_found_rows());
    }
}
