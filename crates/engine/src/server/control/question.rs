//! Questions of the service account to a server.

use super::peers::questions::PeersQuestion;
use crate::server::stored_code::questions::CodeQuestion;

/// A question that the service account asks after its login: the first six in this order, the probe, the defaults and the limit
/// again and again, the others when there is a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Sees to it that the answers that follow leave nothing out, and that none is refused for its size.
    Limits,
    /// Sees to it that the answers that follow are given at once.
    NoSyncWait,
    Collations,
    Server,
    /// How many statements have changed the accounts; before these are read.
    Changes,
    Accounts,
    /// Have the accounts changed?
    Probe,
    /// Which values does a new session begin with?
    Defaults,
    /// How many backends there may be.
    Backends,
    /// How many statements wait for locks.
    LockGate,
    /// Which statements wait for the row locks of which others?
    LockWaits,
    /// Which statements wait for other locks than those of rows?
    OtherWaiters,
    /// How many functions there are that a view could call.
    Functions,
    /// Which stored code is there?
    Code(CodeQuestion),
    /// How far is the server?
    Position,
    /// Which other Onramps are in front of the server? The slot before the collations, the rest again and again.
    Peers(PeersQuestion),
}
