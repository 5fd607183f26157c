//! What goes between the engine and whoever runs it: requests to the driver, tasks for other threads, and whose connections are whose.

use crate::accounts::entropy::Entropy;
use crate::accounts::task::Tasks;
use crate::control::CONTROL_TOKEN;
use crate::engine::Role;
use crate::outbox::Outbox;

/// The engine's side of the driver.
pub(crate) struct Io {
    pub(crate) outbox: Outbox,
    /// Work for other threads.
    pub(crate) tasks: Tasks,
    /// Who is behind a connection, by the connection's index.
    pub(crate) roles: Vec<(u32, Role)>,
    /// The latest name of a connection that was asked for.
    pub(crate) last_token: u64,
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
            entropy: Entropy::new(entropy),
        }
    }
}
