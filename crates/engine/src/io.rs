//! What goes between the engine and whoever runs it: requests to the driver, tasks for other threads, and whose connections are whose.

use seam::ConnectionId;

use crate::accounts::entropy::Entropy;
use crate::accounts::task::Tasks;
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::outbox::Outbox;

/// What a connection is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Free,
    Client(ClientKey),
    Backend(BackendKey),
    /// The service account's connection to this server.
    Control(ServerKey),
    /// The check of the server at this place.
    Check(usize),
}

/// Names the service account's connection towards the driver; backends count up from 1.
pub(crate) const CONTROL_TOKEN: u64 = 0;

/// The engine's side of the driver.
pub(crate) struct Io {
    pub(crate) outbox: Outbox,
    /// Work for other threads.
    pub(crate) tasks: Tasks,
    /// Who is behind a connection, by the connection's index.
    roles: Vec<(u32, Role)>,
    /// The latest name of a connection that was asked for.
    last_token: u64,
    /// Where they began.
    first_token: u64,
    pub(crate) entropy: Entropy,
}

impl Io {
    /// With 32 bytes that nobody else knows.
    pub(crate) fn new(entropy: [u8; 32]) -> Self {
        Self {
            outbox: Outbox::default(),
            tasks: Tasks::default(),
            roles: Vec::new(),
            last_token: CONTROL_TOKEN,
            first_token: CONTROL_TOKEN,
            entropy: Entropy::new(entropy),
        }
    }

    /// Names of connections that are asked for, and of tasks, begin here.
    pub(crate) fn begin_names(&mut self, first: u64) {
        (self.last_token, self.first_token) = (first, first);
        self.tasks.begin_numbers(first);
    }

    /// Returns a name for a connection that is about to be asked for.
    pub(crate) fn next_name(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Returns the latest name of a connection that was asked for.
    pub(crate) fn last_name(&self) -> u64 {
        self.last_token
    }

    /// How many connections have been asked for, and changes of an account, which have names too.
    pub(crate) fn names_given(&self) -> u64 {
        self.last_token - self.first_token
    }

    /// Bytes behind an SSLRequest, or of a client that is about to be understood as compressed, come again as the layer below reads them.
    /// Returns how many were used: all.
    pub(crate) fn unread(&mut self, connection: ConnectionId, bytes: &[u8]) -> usize {
        self.outbox.unread(connection, bytes);
        bytes.len()
    }

    pub(crate) fn set_role(&mut self, connection: ConnectionId, role: Role) {
        let index = connection.index as usize;
        if self.roles.len() <= index {
            self.roles.resize(index + 1, (0, Role::Free));
        }
        // A late message about an earlier use of the slot must not free the present one.
        if role != Role::Free || self.roles[index].0 == connection.generation {
            self.roles[index] = (connection.generation, role);
        }
    }

    pub(crate) fn role(&self, connection: ConnectionId) -> Role {
        match self.roles.get(connection.index as usize) {
            Some(&(generation, role)) if generation == connection.generation => role,
            _ => Role::Free,
        }
    }

    pub(crate) fn roles_capacity(&self) -> usize {
        self.roles.capacity()
    }
}
