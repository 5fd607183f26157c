//! The place where a client's statement waits: a lane, or the statements that wait for no permit.

use sql::Kind;

use super::Client;
use crate::ids::{ClientKey, ClientRef, Table};
use crate::request::{Request, RequestKind};
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::scheduling::shares::Parties;
use crate::servers::Servers;

impl Scheduling {
    /// Admits a client's statement, which is about to wait. Returns its lane, and how it stands there. `None` where it
    /// is urgent, which is noted.
    pub(super) fn admit(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
        key: ClientKey,
        request: &mut Request,
    ) -> Option<(Lane, Standing)> {
        let client = &mut clients[key];
        let ends_transaction = matches!(request.statement.kind, Kind::Commit | Kind::Rollback);
        let unlocks = request.statement.kind == Kind::UnlockTables && client.session.pins.may_hold_locks();
        let urgent = request.turn.is_urgent()
            || (ends_transaction && client.backend.is_some() && client.in_transaction())
            || (unlocks && client.backend.is_some())
            || client.has_kept_permit(servers);
        let standing = client.standing(&self.scheduler, request);
        request.turn.comes_from(&standing);
        let contends = self.note_contender(parties, servers, client, request);
        let contended = contends && !urgent;
        let urgent = urgent || (contended && servers.passes_contended_lane(client, request));
        let (now, settings, workers) = (parties.now, parties.settings, &parties.pool.workers);
        let long = !urgent && !contended && self.joins_long_lane(now, settings, workers, client, request);
        request.turn.arrives(self.holdups.arrival(now, long), urgent);
        if urgent {
            self.urgent.push((ClientRef { key, id: client.id }, now));
            return None;
        }
        let asks_for_schema = request.command == RequestKind::LoginSchema;
        let lane = match long {
            true => Lane::Long,
            false if contended => Lane::Contended,
            // One such question is asked for all clients that log in at a time. They should not wait behind a crowd.
            false if asks_for_schema && self.scheduler.is_native() => Lane::High,
            false => self.scheduler.lane(standing, client.priority, &mut client.tickets),
        };
        request.turn.joins(lane);
        Some((lane, standing))
    }
}
