//! The parties to the shares: the flow of each client's statement, and how many backends its user may use.

use seam::{Instant, Peer};

use super::settings::FairShare;
use super::table::Flow;
use crate::client::Client;
use crate::ids::ClientKey;
use crate::logins::Logins;
use crate::pool::Pool;
use crate::scheduling::scheduler::lane::Class;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;
use crate::workers::users::Bound;

/// Parts of the engine that are looked at, and not changed, where statements wait for their shares.
pub(crate) struct Parties<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a Pool,
    pub(crate) logins: &'a Logins,
    pub(crate) sessions: &'a SessionTables,
}

impl<'a> Parties<'a> {
    pub(crate) fn new(
        now: Instant,
        settings: &'a Settings,
        pool: &'a Pool,
        logins: &'a Logins,
        sessions: &'a SessionTables,
    ) -> Self {
        Self { now, settings, pool, logins, sessions }
    }

    /// The flow that a client's statement belongs to.
    pub(super) fn flow_of(&self, client: &Client) -> Flow {
        let settings = &self.settings.shares;
        let user = client
            .identity()
            .map(|identity| (*self.logins.identities.identity(identity).account.user).into());
        let by_schema = settings.fair_share == FairShare::Schema || !settings.schema_permits.is_empty();
        let session = client.session.id().filter(|_| by_schema);
        let schema =
            session.and_then(|session| self.sessions.states.state(session).schema.as_deref().map(Into::into));
        let address = match client.peer {
            Peer::Tcp(address) if !settings.address_permits.is_empty() => Some(address.ip()),
            _ => None,
        };
        // Of which class it is, its lane says where it is parked.
        Flow { user: user.unwrap_or_default(), schema, address, class: Class::default() }
    }

    /// How many backends each user may use.
    pub(super) fn bound_of_users(&self) -> Bound {
        let percent = self.settings.user_backends_share;
        Bound { limit: self.pool.workers.places.limit(), percent }
    }

    /// Says whether a client's waiting statement gives its backend back at its end.
    pub(super) fn keeps_no_backend(&self, client: &Client, servers: &Servers) -> bool {
        client.keeps_no_backend(self.settings, servers, &self.sessions.states)
    }

    /// Says whether a client's user may use one more backend for the statement that waits. A question for the schema of logins
    /// counts for nobody.
    pub(crate) fn user_may_use_one_more(&self, key: ClientKey, client: &Client, servers: &Servers) -> bool {
        let (Some(identity), Some(request)) = (client.identity(), &client.request) else { return true };
        let since = request.turn.arrived_at();
        let usage = self.logins.identities.usage(identity, &self.pool.workers.users);
        usage.may_have_one_more(self.bound_of_users(), self.pool.worker, since)
            || self.logins.schemas.is_asked_for(key)
            || self.keeps_no_backend(client, servers)
    }
}
