//! Clients that wait for somebody else to carry out their KILL: another worker or another Onramp that has the victim,
//! or the server, where more of the text stands behind the KILL.

use std::rc::Rc;
use std::time::Duration;

use seam::Instant;

use crate::workers::letter::PEER_TIMEOUT;

/// The time that another worker may take to answer a KILL. Its turns are milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The time that the first worker may take to say what has come of a letter to another Onramp. The worker gives letters up by itself before.
pub(crate) const PEER_ANSWER_TIMEOUT: Duration = PEER_TIMEOUT.saturating_add(ANSWER_TIMEOUT);

/// The KILL of a client that waits for somebody else to carry it out.
#[derive(Debug)]
pub(crate) struct Killing {
    /// The sequence number of the answer.
    pub(super) answer: u8,
    pub(super) victim: u32,
    pub(super) query_only: bool,
    pub(in crate::client) since: Instant,
    pub(in crate::client) rest: RestOfText,
    /// The slot of the Onramp that has been asked, where it is another one.
    pub(super) peer: Option<u32>,
}

impl Killing {
    /// Returns the victim, and whether the KILL is of its statement alone.
    pub(crate) fn whom(&self) -> (u32, bool) {
        (self.victim, self.query_only)
    }

    /// Says whether another Onramp has been asked.
    pub(crate) fn is_of_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// True where nobody has answered in time. The server may take `of_server` to carry out a KILL, from when it is ordered.
    pub(crate) fn is_over(&self, now: Instant, of_server: Duration) -> bool {
        let most = match (self.peer, &self.rest) {
            (Some(_), _) => PEER_ANSWER_TIMEOUT,
            (None, None) => ANSWER_TIMEOUT,
            // The server is asked before the rest goes on.
            (None, Some(_)) => ANSWER_TIMEOUT + of_server,
        };
        now.since(self.since) >= most
    }
}

/// The rest of a text behind a KILL, where there is one.
pub(crate) type RestOfText = Option<Box<TextBehindKill>>;

/// See [`RestOfText`].
#[derive(Debug)]
pub(crate) struct TextBehindKill {
    /// The number of KILLs at the text's beginning that have been done.
    pub(super) killed: u32,
    /// The whole text, and the place in it where the KILL that is under way has ended.
    pub(super) text: Rc<[u8]>,
    pub(in crate::client) from: usize,
}

impl TextBehindKill {
    pub(in crate::client) fn rest(&self) -> &[u8] {
        &self.text[self.from..]
    }
}
