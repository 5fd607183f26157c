//! Clients that are lent to a reader for one statement: what goes there, what comes back, and what the reader knows of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use seam::{ConnectionId, Peer};
use wire::{Capabilities, StatusFlags};

use crate::accounts::Account;
use crate::accounts::secret::Secret;
use crate::client::priority::Priority;
use crate::client::statements::LentStatement;
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::request::Request;
use crate::session::SessionState;
use crate::session::aftermath::Aftermath;

/// A client and its statement, as plain data: all that another engine needs to know of them.
pub(crate) struct Guest {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: Peer,
    pub(crate) id: u32,
    pub(crate) capabilities: Capabilities,
    pub(crate) collation: u8,
    pub(crate) account: Rc<Account>,
    pub(crate) user: Vec<u8>,
    pub(crate) secret: Secret,
    pub(crate) session: SessionState,
    pub(crate) aftermath: Aftermath,
    pub(crate) status: StatusFlags,
    pub(crate) priority: Priority,
    pub(crate) wants_end_for_loss: bool,
    /// A statement of it has gone to a backend before.
    pub(crate) has_begun: bool,
    pub(crate) request: Request,
    /// What it executes, where that is a prepared statement.
    pub(crate) statement: Option<LentStatement>,
}

/// How a guest's statement has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has the server's answer.
    Answered,
    /// Nothing of it has run, for this reason.
    NotRun(MySqlError),
    /// It may have run, and its client has heard nothing.
    Lost(MySqlError),
    /// The client cannot go on: it has had a part of the answer, does not take it, or was killed.
    Broken,
}

/// A client on its way back.
pub(crate) struct Returned {
    pub(crate) id: u32,
    pub(crate) status: StatusFlags,
    pub(crate) aftermath: Aftermath,
    pub(crate) ended: Ended,
    /// The reader has its client's connection read no more.
    pub(crate) is_paused: bool,
}

/// What a reader knows of its guests beyond what any engine knows of clients.
#[derive(Default)]
pub(crate) struct Guests {
    /// Others may come.
    pub(super) are_welcome: bool,
    /// What would have been said to clients.
    pub(super) errors: BTreeMap<ClientKey, MySqlError>,
    pub(super) returned: Vec<Returned>,
}

impl Guests {
    /// Clients that go back.
    pub(super) fn take_returned(&mut self) -> Vec<Returned> {
        std::mem::take(&mut self.returned)
    }
}
