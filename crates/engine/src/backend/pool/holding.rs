//! Which client holds a backend, and what becomes of the backend behind that.

use std::rc::Rc;

use seam::{Address, Instant};

use crate::backend::{Afterwards, Backend, Owner, ServerPlace};
use crate::ids::ClientKey;
use crate::workers::serving::ServedClient;

impl Backend {
    /// Returns the client that holds it, for a transaction, a pin, or a statement that it does not share.
    pub(crate) fn holder(&self) -> Option<ClientKey> {
        self.holder
    }

    /// The client holds it from now on.
    pub(crate) fn goes_to(&mut self, client: ClientKey) {
        self.holder = Some(client);
    }

    /// Whoever held it does no longer.
    pub(crate) fn leaves_holder(&mut self) {
        self.holder = None;
    }

    /// What this client holds of it, the next one does from now on, whose id others see.
    pub(crate) fn hand_over(&mut self, client: ClientKey, (next, id): (ClientKey, u32)) {
        if self.holder == Some(client) {
            self.holder = Some(next);
            self.shown.serves.set(id);
        }
    }

    /// A client has gone whose statements are in flight here. Nobody hears their answers.
    pub(crate) fn is_abandoned(&mut self, now: Instant, client: ClientKey) {
        for statement in &mut self.in_flight {
            if statement.owner.client() == Some(client) {
                statement.owner = Owner::Abandoned;
                statement.group = None;
            }
        }
        self.abandoned_since = Some(now);
        if !self.shares() {
            // Not only reset: what went ahead of the statement may or may not have changed the schema.
            self.afterwards = Afterwards::Close;
        }
        self.holder = None;
        self.shown.serves.nobody();
    }

    /// Returns the time since which what runs here first runs, and nobody waits for it, where its client has gone.
    pub(crate) fn unheard_since(&self) -> Instant {
        self.abandoned_since.map_or(self.first.since, |since| since.max(self.first.since))
    }

    /// The server has refused what ran here because of its role. The backend is closed, and nothing there is anybody's.
    pub(crate) fn is_refused(&mut self) {
        self.afterwards = Afterwards::Close;
        self.holder = None;
    }

    /// Statements go elsewhere from now on. The number of its thread is another one's there.
    pub(crate) fn is_left(&mut self) {
        self.afterwards = Afterwards::Close;
        self.shown.serves = ServedClient::default();
    }

    /// Its server is at another address from now on. The backend ends what it has at the former one.
    pub(crate) fn is_left_at(&mut self, former: &Rc<Address>) {
        self.place = ServerPlace::Former(Rc::clone(former));
        self.is_left();
    }

    /// Returns where its connection leads to.
    pub(crate) fn place(&self) -> &ServerPlace {
        &self.place
    }

    /// Nobody else gets the backend: it is closed once nothing runs there.
    pub(crate) fn close_afterwards(&mut self) {
        self.afterwards = Afterwards::Close;
    }

    /// The backend is cleaned so far at least before anybody else gets it.
    pub(crate) fn clean_afterwards(&mut self, so_far: Afterwards) {
        self.afterwards = self.afterwards.max(so_far);
    }

    /// Says whether the backend is closed once nothing runs there.
    pub(crate) fn is_closed_afterwards(&self) -> bool {
        self.afterwards == Afterwards::Close
    }

    /// Collects bytes for the server, until the end of the turn.
    pub(crate) fn collect(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}
