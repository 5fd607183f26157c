//! Clients that are lent to a reader for one statement: what goes there, what comes back, and what the reader knows of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use seam::{ConnectionId, Instant, Peer};
use wire::{Capabilities, StatusFlags};

use crate::accounts::secret::Secret;
use crate::accounts::{Account, IdentityHold};
use crate::client::Client;
use crate::client::commands::statements::LentStatement;
use crate::client::session::priority::Priority;
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::request::Request;
use crate::server::Server;
use crate::session::aftermath::Aftermath;
use crate::session::{SessionHold, SessionState};

/// A client and its statement, as plain data: all that another engine needs to know of them.
pub(crate) struct Guest {
    pub(super) connection: ConnectionId,
    pub(super) peer: Peer,
    pub(super) id: u32,
    pub(super) capabilities: Capabilities,
    pub(super) collation: u8,
    pub(super) account: Arc<Account>,
    pub(super) user: Vec<u8>,
    pub(super) secret: Secret,
    pub(super) session: SessionState,
    pub(super) aftermath: Aftermath,
    pub(super) status: StatusFlags,
    pub(super) priority: Priority,
    /// True where a statement of the client has gone to a backend before.
    pub(super) has_begun: bool,
    pub(super) request: Request,
    /// The definition that the statement executes, where that is a prepared statement.
    pub(super) statement: Option<LentStatement>,
}

impl Guest {
    /// Makes a client of the reader, with holds on its identity and on its session state there.
    pub(super) fn as_client(
        &mut self,
        now: Instant,
        identity: IdentityHold,
        session: SessionHold,
        tickets: u32,
    ) -> Client {
        let mut client = Client::new(self.connection, self.peer, self.id, now);
        client.capabilities = self.capabilities;
        client.login.collation = self.collation;
        client.logs_in(identity);
        client.session.begins(session);
        client.session.aftermath = std::mem::take(&mut self.aftermath);
        client.session.status_told(self.status);
        client.priority = self.priority;
        client.tickets = tickets;
        if self.has_begun {
            client.activity.begins();
        }
        client.be_lent();
        client
    }
}

/// How a guest's statement has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuestEnd {
    /// The client has the server's answer.
    Answered,
    /// Nothing of the statement has run, for this reason.
    NotRun(MySqlError),
    /// The statement may have run, and its client has heard nothing.
    Lost(MySqlError),
    /// The client cannot go on: it has had a part of the answer, does not take it, or was killed.
    Broken,
}

/// A client on its way back.
pub(crate) struct Returned {
    pub(super) id: u32,
    pub(super) status: StatusFlags,
    pub(super) aftermath: Aftermath,
    pub(super) ended: GuestEnd,
    /// True where the reader has the client's connection read no more.
    pub(super) is_paused: bool,
}

/// A reader's knowledge of its guests, beyond what any engine knows of clients.
#[derive(Default)]
pub(crate) struct Guests {
    /// True while other guests may come.
    pub(super) are_welcome: bool,
    /// Errors that clients of this engine would have been told.
    pub(super) errors: BTreeMap<ClientKey, MySqlError>,
    pub(super) returned: Vec<Returned>,
}

impl Server {
    /// The server's own account of this name, where it is as the lender knows it.
    pub(super) fn own_account(&self, account: &Account) -> Option<&Arc<Account>> {
        let accounts = &self.facts.as_ref()?.accounts;
        let own = accounts.named(&account.user, &account.host)?;
        (own.credential == account.credential && !own.locked && !own.expired).then_some(own)
    }

    /// Says whether the server lets this account in, as far as its accounts tell.
    pub(super) fn admits(&self, account: &Account) -> bool {
        self.own_account(account).is_some()
    }
}

impl Guests {
    /// Says whether others may come.
    pub(crate) fn are_welcome(&self) -> bool {
        self.are_welcome
    }

    /// Notes an error that a guest's client would be told.
    pub(crate) fn note_error(&mut self, guest: ClientKey, error: &MySqlError) {
        self.errors.insert(guest, error.clone());
    }

    /// How a guest's statement has ended, which is over; `broken` where its client cannot go on.
    pub(super) fn end_of(&mut self, guest: ClientKey, broken: bool) -> GuestEnd {
        match self.errors.remove(&guest) {
            _ if broken => GuestEnd::Broken,
            None => GuestEnd::Answered,
            Some(error) if error.is_clients() => GuestEnd::Lost(error),
            Some(error) => GuestEnd::NotRun(error),
        }
    }

    /// Clients that go back.
    pub(super) fn take_returned(&mut self) -> Vec<Returned> {
        std::mem::take(&mut self.returned)
    }
}
