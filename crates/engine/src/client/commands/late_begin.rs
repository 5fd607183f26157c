//! Transactions that nobody but the client knows of yet.
//!
//! A BEGIN alone makes the server do nothing but remember it. So Onramp answers it, and sends it ahead of the client's
//! next statement, in the same text as session state. A transaction in which nothing has happened holds no backend, and
//! costs no round trip. A transaction that ends like that never reaches the server at all.

use sql::{Kind, TransactionCommand};
use wire::StatusFlags;

use crate::backend::{Summary, TrackedChange};
use crate::client::Client;
use crate::client::session::transaction::Unstarted;
use crate::request::Request;
use crate::server::Server;
use crate::session::Sessions;
use crate::settings::{Settings, ThreadHandling};

impl Client {
    /// Notes that a statement begins or ends a transaction, of which no backend has to hear. Returns whether the client
    /// was in one that had not begun anywhere. `None` where a backend has to hear of it.
    pub(in crate::client) fn begin_or_end_late(
        &mut self,
        settings: &Settings,
        sessions: &Sessions,
        server: &Server,
        command: TransactionCommand,
    ) -> Option<bool> {
        if !self.transactions_begin_late(settings, sessions, server, command) {
            return None;
        }
        let read_only = match command {
            TransactionCommand::Begin => Some(false),
            TransactionCommand::Start { read_only } => Some(read_only),
            TransactionCommand::Commit | TransactionCommand::Rollback => None,
        };
        let before = self.session.unstarted().is_some();
        self.session.unstarted = read_only.map(|read_only| {
            let session = self.session.id().map(|session| sessions.state(session));
            let mut status = StatusFlags::IN_TRANS;
            if read_only || session.is_some_and(|state| state.begins_read_only()) {
                status |= StatusFlags::IN_TRANS_READONLY;
            }
            Unstarted::new(read_only, status)
        });
        self.session.aftermath.changed_no_rows();
        Some(before)
    }

    /// Says whether the client holds nothing on any backend, and nothing that is known of it makes these statements do more than usual.
    fn transactions_begin_late(
        &self,
        settings: &Settings,
        sessions: &Sessions,
        server: &Server,
        command: TransactionCommand,
    ) -> bool {
        let plain = self.session.id().is_some_and(|session| {
            let state = sessions.state(session);
            state.has_plain_transactions()
                && (command != TransactionCommand::Begin || !state.is_oracle_mode())
        });
        settings.lazy_begin
            && settings.thread_handling == ThreadHandling::PoolOfThreads
            && self.backend.is_none()
            && self.session.pins.is_empty()
            && !self.in_transaction()
            && plain
            && !self.hears_of_transactions(sessions, server.facts.as_ref())
    }

    /// Says whether the server may begin the session's next transaction in another way than its variables say. Nothing
    /// tells the next client of that. COMMIT, ROLLBACK and statements that commit implicitly take the values of the
    /// variables up. `SET autocommit`, which ends a transaction too, does not (`fix_autocommit` and the
    /// `session_update` of these variables in sys_vars.cc of both servers). It takes up neither the values that were
    /// set in the transaction nor, where `START TRANSACTION` has said whether it only reads, that of the session.
    pub(crate) fn leaves_other_transactions(
        &self,
        sessions: &Sessions,
        request: &Request,
        summary: &Summary,
    ) -> bool {
        let may_be_open = self.in_transaction() || request.statement.several;
        let set = may_be_open && summary.changes.iter().any(TrackedChange::is_of_transactions);
        set || self.leaves_access_mode(sessions, request, summary)
    }

    /// Says whether a transaction has ended that was read-only where its session is not, or the other way round, and
    /// not by COMMIT, ROLLBACK or DDL.
    fn leaves_access_mode(&self, sessions: &Sessions, request: &Request, summary: &Summary) -> bool {
        let statement = &request.statement;
        let ends_in_order = matches!(statement.kind, Kind::Commit | Kind::Rollback | Kind::Ddl);
        let is_over = summary.status.is_none_or(|after| !after.contains(StatusFlags::IN_TRANS));
        if !is_over || (ends_in_order && !statement.several) {
            return false;
        }
        let usual = self.session.id().is_some_and(|session| sessions.state(session).begins_read_only());
        match self.in_transaction() {
            true => usual != self.session.status.contains(StatusFlags::IN_TRANS_READONLY),
            // A text of several has begun and ended it.
            false => summary.in_read_only && !usual,
        }
    }
}
