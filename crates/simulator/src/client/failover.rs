//! What a client makes of errors that tell what becomes of servers, where there are several: its connection goes on as it was.

use super::awaited::Awaited;
use super::reply::Part;
use super::{Client, Phase};
use crate::checkers::Checkers;
use crate::server::member::commits;
use crate::token::Token;

/// ER_NET_READ_ERROR: no server has taken writes for too long.
const NO_PRIMARY: u16 = 1158;
/// ER_LOCK_DEADLOCK: the transaction is rolled back.
const ROLLED_BACK: u16 = 1213;
/// ER_OPTION_PREVENTS_STATEMENT: the server takes no writes.
const READ_ONLY: u16 = 1290;
/// ER_TRANSACTION_ROLLBACK_DURING_COMMIT: nobody knows whether the others of a group have it; the server that it was sent to has not.
const UNDECIDED: u16 = 3101;
/// CR_SERVER_LOST: nobody knows what became of the statement.
pub(super) const LOST: u16 = 2013;

impl Awaited {
    /// Whether its answer tells of what becomes of servers.
    pub(super) fn fails_with_servers(&self) -> bool {
        matches!(self.error(), Some((NO_PRIMARY | ROLLED_BACK | READ_ONLY | UNDECIDED | LOST, _)))
    }
}

impl Client {
    /// A statement has failed with its server.
    pub(super) fn fails_with_servers(&mut self, now: u64, front: Awaited, checkers: &mut Checkers) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some((code, message)) = front.error().map(|(code, message)| (code, message.to_owned())) else {
            return;
        };
        let is_whole = matches!(front.reader.parts.as_slice(), [Part::Error(..)]);
        let before = front.before.as_ref().map(|before| &before.session);
        let transaction = before.and_then(|session| session.transaction.as_ref().map(|it| it.id));
        match code {
            ROLLED_BACK => checkers.rolled_back(self.key, transaction, &front.tokens),
            // The server names the statement that it refuses; those before it in the same text have run.
            READ_ONLY => checkers.refused(code, &Token::find_all(message.as_bytes())),
            NO_PRIMARY => checkers.refused(code, &front.tokens),
            _ => {
                // Why Onramp has kept its backend is not always to be seen from here; that it did is what it says. A KILL goes to the server in
                // words of Onramp's own.
                let holds = work.has_held || front.kill || message.contains("the session state was lost");
                checkers.unknown(&front.tokens, holds, front.shown());
            }
        }
        let goes_on = is_whole && code != LOST && work.awaited.is_empty();
        let Some(before) = front.before.filter(|_| goes_on) else { return self.leave(now) };
        let rolls_back = matches!(code, ROLLED_BACK | UNDECIDED)
            || (code == READ_ONLY && commits(&before.session, &front.text));
        work.oracle = *before;
        work.wanted = front.wanted_before;
        work.oracle.fails(code, &message, rolls_back);
        self.think(now);
    }
}
