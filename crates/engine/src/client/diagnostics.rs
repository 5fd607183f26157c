//! What a client asks about the warnings and errors of its statement before, once its backend has been given back.

use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::request::Request;
use crate::session::aftermath::{self, Diagnostics, Selection};

impl Engine {
    /// SHOW WARNINGS about a statement whose backend has been given back: the server's own answer, saved then. The server
    /// is asked only about what it is known to keep for this client: anything else would be another's.
    pub(super) fn show_saved_warnings(&mut self, key: usize) -> bool {
        let client = &mut self.clients[key];
        match &client.aftermath.diagnostics {
            Diagnostics::OnBackend { .. } if client.backend.is_some() => return false,
            Diagnostics::Saved { reply, .. } => {
                let reply = aftermath::with_status(reply, client.reader().status());
                self.outbox.send(client.connection, &reply);
            }
            Diagnostics::None | Diagnostics::OnBackend { .. } => {
                let reply = aftermath::no_warnings(client.reader());
                self.outbox.send(client.connection, &reply);
            }
        }
        client.aftermath.row_count = -1;
        true
    }

    /// The other statements about diagnostics: counts become literals, and of the saved rows those are shown that are asked
    /// for. GET DIAGNOSTICS, of which nothing is saved, is refused.
    pub(super) fn show_saved_diagnostics(&mut self, key: usize, text: &[u8], answer: u8) -> bool {
        let client = &mut self.clients[key];
        let asks_server = matches!(client.aftermath.diagnostics, Diagnostics::OnBackend { .. });
        if client.backend.is_some() && (asks_server || text.to_ascii_uppercase().starts_with(b"GET")) {
            return false;
        }
        let (warnings, errors) = client.aftermath.diagnostics.counts();
        let upper = text.to_ascii_uppercase();
        let has = |word: &[u8]| upper.windows(word.len()).any(|part| part == word);
        let (counts, of_errors) = (has(b"COUNT"), has(b"ERRORS"));
        let selection = Selection::of(text);
        if has(b"GET") || (warnings > 0 && !counts && selection.is_none()) {
            self.answer_error(key, answer, &MySqlError::diagnostics_moved());
            return true;
        }
        if let (Some(selection), Diagnostics::Saved { reply, .. }) =
            (selection, &client.aftermath.diagnostics)
        {
            let reply = aftermath::with_status(&selection.from(reply), client.reader().status());
            self.outbox.send(client.connection, &reply);
            client.aftermath.row_count = -1;
            return true;
        }
        if !counts {
            return self.show_saved_warnings(key);
        }
        let (count, name) = if of_errors { (errors, "error") } else { (warnings, "warning") };
        let text = format!("SELECT {count} AS `@@session.{name}_count`");
        let mut request = Request::query(&text);
        request.statement.reads = sql::Reads::DIAGNOSTICS;
        // A count of warnings is a SELECT for the servers.
        request.counts_rows = true;
        self.queue_request(key, request);
        true
    }
}
