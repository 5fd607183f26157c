//! Questions of the service account about peers.

use super::work::Told;

/// The names of the locks of an Onramp but for the slot's number. A server's lock may have 64 characters (MySQL).
pub(super) const SLOT: &str = "onramp.slot.";
pub(super) const AT_WORK: &str = "onramp.at_work.";
pub(super) const SATURATED: &str = "onramp.saturated.";
/// The names of the locks, in the order in which they are asked for, each of all slots.
pub(super) const NAMES: [&str; 3] = [SLOT, AT_WORK, SATURATED];

/// The server closes a connection that has been silent for a minute, where that is the one with the slot, which is never silent for longer than
/// [`super::EVERY`]. Without that the locks of a machine that has vanished would stay for hours.
pub(super) const SILENCE: &str = "SET @@session.wait_timeout = 60";

/// Puts back the state from before [`SILENCE`]: where nobody is counted, nothing is asked every second.
pub(super) const USUAL_SILENCE: &str = "SET @@session.wait_timeout = DEFAULT";

/// Seconds since 1970 with a fraction: by the server's clock they try other limits one after the other.
pub(super) const CLOCK: &str = "UNIX_TIMESTAMP(NOW(6))";

/// A question of the service account about peers. They are asked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeersQuestion {
    /// Has the server forget the connection soon after it falls silent.
    Silence,
    /// Asks for the first slot that is free.
    Slot,
    /// Asks who holds which slot, and who is at work.
    Holders,
    /// Asks which accounts have these connections.
    Accounts,
    /// The others are told what is waited for here.
    Tell(Told),
    /// The slot is given back.
    Leave,
    /// The connection may be silent for as long as any other.
    UsualSilence,
    /// Are there letters, or answers to ours? Asked along with the holders, and more often while letters are under way.
    Mail,
    /// Asks for the content of the letter that is from this connection.
    ReadLetter(u64),
    /// A letter is sent to this connection.
    Post(u64),
    /// A letter to it is of no use any more.
    Withdraw(u64),
    /// A letter from it has been carried out.
    Answer(u64),
    /// Drops the answer to this connection, which has read it.
    ForgetAnswer(u64),
}

impl PeersQuestion {
    /// Says whether it is about letters alone.
    pub(super) fn is_of_mail(self) -> bool {
        matches!(
            self,
            Self::Mail
                | Self::ReadLetter(_)
                | Self::Post(_)
                | Self::Withdraw(_)
                | Self::Answer(_)
                | Self::ForgetAnswer(_)
        )
    }
}
