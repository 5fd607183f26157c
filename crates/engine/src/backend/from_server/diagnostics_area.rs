//! The traces of the last client on a backend, and the client that may look at them.
//!
//! The server's list of warnings and errors, ROW_COUNT() and FOUND_ROWS() stay on a connection until a statement replaces them. A text
//! that asks for them itself is answered from the copy that is kept for each client ([`crate::session::aftermath`]). Other questions
//! reach the backend: from a later statement of a text, a routine, or a prepared statement. They must not find another client's traces
//! there.

use sql::{Classification, Effects, Kind, Reads};

use crate::backend::{Backend, Summary};
use crate::request::{Request, RequestKind};

/// Clears the list of warnings and leaves nothing of its own but an OK. On both servers a statement with a table does so (MariaDB's
/// and MySQL's `mysql_execute_command`). DO or SET without one may not.
pub(in crate::backend) const CLEAR: &[u8] = b"DO (SELECT 1 FROM information_schema.ENGINES LIMIT 0)";

/// The owners of the traces on a backend, by the id that the client sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiagnosticsArea {
    /// The client that had the last statement; 0 before the first one.
    last: u32,
    /// The client that the warnings or errors there may belong to; 0 where there are none.
    diagnostics: u32,
}

plain!(struct DiagnosticsArea { last, diagnostics });

/// Id of a client that has gone. No client has it: ids begin with 1073741824.
const GONE: u32 = 1;

/// The questions that a request may ask the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Nothing,
    /// ROW_COUNT() and FOUND_ROWS() alone.
    Counts,
    /// Warnings and errors too.
    Everything,
}

impl DiagnosticsArea {
    /// Says whether a client would find traces of another one.
    fn are_of_others(self, client: u32, asks: Asks) -> bool {
        match asks {
            Asks::Nothing => false,
            Asks::Counts => self.last != client,
            Asks::Everything => self.last != client || ![0, client].contains(&self.diagnostics),
        }
    }
}

impl Backend {
    /// Notes that a statement of the client with this id is sent.
    pub(in crate::backend) fn note_last(&mut self, client: u32) {
        self.session.diagnostics_area.last = client;
    }

    /// Notes that no traces of others are left: the client with this id has seen to that.
    pub(in crate::backend) fn diagnostics_area_is_cleared(&mut self, client: u32) {
        self.session.diagnostics_area = DiagnosticsArea { last: client, diagnostics: 0 };
    }

    /// Notes that a statement has ended: one of the client with this id, if it is still there.
    pub(in crate::backend) fn note_diagnostics_area(&mut self, client: Option<u32>, summary: &Summary) {
        if summary.error.is_some() || summary.warnings > 0 {
            self.session.diagnostics_area.diagnostics = client.unwrap_or(GONE);
        }
    }

    /// Says whether the server's list of warnings and errors is empty.
    pub(crate) fn has_no_diagnostics(&self) -> bool {
        self.session.diagnostics_area.diagnostics == 0
    }

    /// Says whether [`CLEAR`] has to go ahead of a client's request.
    pub(in crate::backend) fn must_be_cleared(&self, client: u32, request: &Request) -> bool {
        self.session.diagnostics_area.are_of_others(client, asks(request))
    }

    /// Notes that a client's statement has ended without a warning. A statement that is sure to have used a table has replaced the list.
    pub(super) fn note_replaced_list(&mut self, statement: &Classification) {
        const USES_A_TABLE: [Kind; 6] =
            [Kind::Insert, Kind::Replace, Kind::Update, Kind::Delete, Kind::Load, Kind::Ddl];
        if USES_A_TABLE.contains(&statement.kind) && !statement.several {
            self.session.diagnostics_area.diagnostics = 0;
        }
    }
}

/// Returns the traces of the statement before that a request may ask the server for.
fn asks(request: &Request) -> Asks {
    const RUNS_WHAT_NO_LEXER_SEES: Effects =
        Effects::ROUTINE.union(Effects::TEXT_PREPARE).union(Effects::UNKNOWN);
    let statement = &request.statement;
    let unseen = !statement.effects.intersection(RUNS_WHAT_NO_LEXER_SEES).is_empty();
    let counts = [Reads::ROW_COUNT, Reads::FOUND_ROWS].into_iter().any(|read| statement.reads.contains(read));
    let diagnostics = statement.reads.contains(Reads::DIAGNOSTICS);
    // What a text reads by itself has been replaced in it, unless another statement stands in front.
    let (unseen, itself) = match request.command {
        RequestKind::Query => (unseen, statement.several),
        RequestKind::Prepare => (false, true),
        RequestKind::Execute => (unseen, true),
        _ => (false, false),
    };
    if unseen || (itself && diagnostics) {
        Asks::Everything
    } else if itself && counts {
        Asks::Counts
    } else {
        Asks::Nothing
    }
}
