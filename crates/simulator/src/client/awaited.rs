//! A command on its way, and what its answer must be.

use super::login::Credentials;
use super::oracle::{Expected, Oracle};
use super::promise::{Promise, Question};
use super::reply::{Part, ReplyReader};
use crate::kills::{Breach, Kills};
use crate::token::{ClientKey, Token};
use crate::trace::Shown;

/// A command that is not answered yet.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) sent_at: u64,
    /// Statements that had run on the server by then.
    pub(super) floor: u64,
    pub(super) payload: Vec<u8>,
    /// The text, where the command is a COM_QUERY.
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) reader: ReplyReader,
    pub(super) expected: Expected,
    pub(super) change: Option<Credentials>,
    /// A KILL: its answer depends on others, and decides what the next statement may ask about it.
    pub(super) kill: bool,
    pub(super) prepares: bool,
    /// What the client had said of its reads before, for one that is refused.
    pub(super) wanted_before: Option<Promise>,
    /// The row whose version is read.
    pub(super) question: Option<Question>,
    /// What the client's own server was before, where its statement may be refused for what becomes of the servers.
    pub(super) before: Option<Box<Oracle>>,
}

/// What a KILL QUERY leaves of a statement.
const QUERY_INTERRUPTED: u16 = 1317;

/// Errors that tell of a lost server, a limit or a kill: no direct connection would have given them at this place.
pub(super) const INTERRUPTIONS: [u16; 12] =
    [1040, 1041, 1043, 1053, 1152, 1153, 1158, 1159, 1205, 1317, 1927, 2013];

impl Awaited {
    /// The command, for people.
    pub(super) fn shown(&self) -> Shown<'_> {
        Shown(&self.payload)
    }

    /// Whether it is a command with one reply, so that another may be sent behind it.
    pub(super) fn is_plain(&self) -> bool {
        self.change.is_none() && !self.kill && !matches!(self.expected, Expected::File(..))
    }

    /// The error that ended the answer.
    pub(super) fn error(&self) -> Option<(u16, &str)> {
        match self.reader.parts.last() {
            Some(Part::Error(code, message)) => Some((*code, message)),
            _ => None,
        }
    }

    /// What its answer says of KILLs.
    pub(super) fn note(&self, key: ClientKey, now: u64, kills: &mut Kills) -> Result<(), Breach> {
        let (code, message) = self.error().unwrap_or_default();
        if self.kill {
            kills.answered(key, code, message, now);
        }
        match code {
            QUERY_INTERRUPTED => kills.interrupted(key, self.sent_at, self.shown()),
            _ if self.interrupted() => Ok(()),
            _ => kills.served(key, self.sent_at, self.shown()),
        }
    }

    pub(super) fn interrupted(&self) -> bool {
        matches!(self.reader.parts.last(), Some(Part::Error(code, _)) if INTERRUPTIONS.contains(code))
    }
}

/// Whether this is an ERR packet that tells of a loss.
pub(super) fn is_notice(payload: &[u8]) -> bool {
    let code = payload.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    payload.first() == Some(&0xff) && INTERRUPTIONS.contains(&code)
}
