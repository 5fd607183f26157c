//! Statements that are sent a second time.

use crate::errors::ServerError;

/// The earlier sending of a statement that waits to be sent once more.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum SentBefore {
    #[default]
    No,
    /// The statement's backend was lost.
    Lost,
    /// The server has refused the statement because of its role. The client gets this error where the refusal says nothing of the server.
    Refused(Box<ServerError>),
}

plain!(enum SentBefore { 0 => No, 1 => Lost, 2 => Refused(error) });

impl SentBefore {
    pub(crate) fn is_so(&self) -> bool {
        !matches!(self, Self::No)
    }
}
