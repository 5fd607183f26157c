//! Resources that a client holds by name on its backend ([`NamedResources`]), so that its pin ends with the last of them.

use sql::{Classification, Effects, Kind, ResourceChange};
use wire::StatusFlags;

use crate::backend::Summary;
use crate::backend::from_server::own_answers::only_field;
use crate::client::Client;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::session::Sessions;
use crate::session::named_resources::{BY_NAME, Ending, NamedResources};
use crate::session::pin_counts::PinCounts;
use crate::session::pins::Pins;

/// ER_PARSE_ERROR.
const PARSE_ERROR: u16 = 1064;

/// ER_UNKNOWN_STMT_HANDLER: there is no prepared statement of this name.
const UNKNOWN_STATEMENT: u16 = 1243;

/// Errors of statements that have not done anything yet: the schema, table or right is missing (1044, 1046, 1049, 1142, 1143,
/// 1146, 1227), or what is to be freed or closed is not there (1109, 1243).
const NOTHING_DONE: [u16; 9] = [1044, 1046, 1049, 1109, 1142, 1143, 1146, 1227, UNKNOWN_STATEMENT];

/// Says whether a statement that failed left nothing. A part of its text, or of a body that it runs, may have been done before.
fn has_done_nothing(
    request: &Request,
    named_resources: Option<&NamedResources>,
    code: u16,
    summary: &Summary,
) -> bool {
    if request.command == RequestKind::Prepare {
        return true;
    }
    let statement = &request.statement;
    match request.changes.named_resource.as_deref() {
        _ if summary.status.is_some() || statement.effects.contains(Effects::ROUTINE) => false,
        // One that is there may be a CALL, of which the body has executed one that is not.
        Some(ResourceChange::Executes(name)) => {
            code == UNKNOWN_STATEMENT && named_resources.is_none_or(|held| !held.has_prepared(name))
        }
        Some(_) if statement.effects.without(BY_NAME).is_empty() => {
            // What is missing, or not understood, may be so to a trigger only.
            (code == PARSE_ERROR || NOTHING_DONE.contains(&code)) && !request.changes.hidden.is_silent()
        }
        _ => code == PARSE_ERROR && !statement.parses_while_it_runs && !request.changes.hidden.is_silent(),
    }
}

impl Client {
    /// Says whether the client has temporary tables.
    pub(crate) fn holds_tables(&self) -> bool {
        self.session.pins.effects().contains(Effects::TEMPORARY_TABLE)
    }

    /// Says whether the client's statement asks for a lock. Its answer tells whether it has the lock.
    pub(crate) fn awaits_lock(&self) -> bool {
        let change = self.request.as_ref().and_then(|request| request.changes.named_resource.as_deref());
        matches!(change, Some(ResourceChange::TakesLock(_)))
    }

    /// Says whether no transaction can be open behind a statement that succeeded. Without autocommit one may be open that has used no tables.
    fn transaction_is_over(&self, statement: &Classification, summary: &Summary) -> bool {
        // What defines temporary tables commits nothing. Dropping one that is not there pins: MariaDB reports a change of state.
        let of_temporary = statement.effects.contains(Effects::TEMPORARY_TABLE) || self.holds_tables();
        let ends = match statement.kind {
            Kind::Commit | Kind::Rollback | Kind::Begin => true,
            Kind::Ddl => !of_temporary,
            _ => false,
        };
        let open = summary.status.is_some_and(|status| status.contains(StatusFlags::IN_TRANS));
        let autocommit = summary.status.is_some_and(|status| status.contains(StatusFlags::AUTOCOMMIT));
        (ends && !statement.several) || (!open && (autocommit || self.in_transaction()))
    }

    /// Notes the metadata locks of a client behind a statement that has ended. The client's status is what the server says by
    /// then. With MySQL a table that was used without autocommit stays locked against changes of its definition to the end of the
    /// transaction. That is so even where no engine has a transaction and the status tells of none: tables of MyISAM, EXPLAIN,
    /// SHOW COLUMNS (`mysql_execute_command` in its sql_parse.cc releases metadata locks only outside of
    /// `in_multi_stmt_transaction_mode`; seen with 9.7). MariaDB keeps those alone of which its status tells.
    pub(crate) fn note_metadata_locks(&mut self, server: &Server, counts: &mut PinCounts, request: &Request) {
        let keeps_all = server.facts.as_ref().is_some_and(|facts| !facts.is_mariadb());
        let unseen = !self.session.status.contains(StatusFlags::AUTOCOMMIT) && !self.in_transaction();
        if keeps_all && unseen && request.may_open_tables() && !self.session.pins.holds_metadata_locks() {
            self.session.pins |= Pins::METADATA_LOCK;
            counts.pinned(Pins::METADATA_LOCK, request.statement.fingerprint);
        }
    }

    /// Notes that a statement has ended that pins its client for these reasons, or ends a pin. Says whether the client
    /// may hold other things by name now.
    pub(crate) fn note_pins(
        &mut self,
        sessions: &Sessions,
        counts: &mut PinCounts,
        request: &Request,
        pins: Pins,
        summary: &Summary,
    ) -> bool {
        let named_resources = self.session.named_resources.as_deref();
        let nothing_done = |code| has_done_nothing(request, named_resources, code, summary);
        let refused = summary.error.as_ref().is_some_and(|error| nothing_done(error.code));
        let statement = &request.statement;
        let succeeded = summary.error.is_none();
        let over = succeeded && self.transaction_is_over(statement, summary);
        let (before, mut noted) = (self.session.pins, false);
        if !refused {
            // FOUND_ROWS() is asked for before the backend goes to anybody else.
            self.session.pins |= pins.without(Pins::from(BY_NAME.union(Effects::FOUND_ROWS)));
            let takes = !pins.effects().intersection(BY_NAME).is_empty();
            let prepares = request.command == RequestKind::Prepare;
            if takes || (self.session.named_resources.is_some() && !prepares) {
                let session = self.session.id().expect("a client with requests has logged in");
                let schema = sessions.state(session).schema.as_deref();
                let ending = match &summary.error {
                    Some(_) => Ending::Failed,
                    // Without a row no function was called (sql_select_limit = 0).
                    None if summary.counts.rows == Some(0) => Ending::Failed,
                    None => {
                        let answer = only_field(&summary.kept_answer, self.capabilities);
                        // In whatever character set the answer is, of these alone it is certain that there is no lock.
                        let took = answer.is_none_or(|field| !matches!(field.as_deref(), None | Some(b"0")));
                        Ending::Succeeded { took }
                    }
                };
                let named_resources = self.session.named_resources.get_or_insert_default();
                named_resources.note(statement, request.changes.named_resource.as_deref(), schema, ending);
                let held = named_resources.effects();
                self.session.pins = self.session.pins.without(Pins::from(BY_NAME)).with(held.into());
                if held.is_empty() {
                    self.session.named_resources = None;
                }
                noted = true;
            }
        }
        // One that chains hands it on to the next transaction (AND CHAIN, completion_type), whose end may be another.
        let ends = matches!(statement.kind, Kind::Commit | Kind::Rollback) && !statement.several;
        let chains = summary.status.is_some_and(|status| status.contains(StatusFlags::IN_TRANS));
        if succeeded && ends && !chains {
            self.session.pins = self.session.pins.without(Effects::NEXT_TRANSACTION.into());
        }
        if over {
            self.session.pins = self.session.pins.without(Pins::SAVEPOINT.with(Pins::METADATA_LOCK));
        }
        let new = self.session.pins.without(before.with(Pins::THREAD_HANDLING));
        counts.pinned(new, statement.fingerprint);
        noted
    }
}
