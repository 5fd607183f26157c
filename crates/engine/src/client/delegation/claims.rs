//! Whose passwords the server is being asked about, and who waits for that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use seam::{Instant, Peer};

use super::line::{Guest, Line};
use crate::accounts::secret::Password;
use crate::client::attempt::{Attempt, Question};
use crate::ids::ClientRef;

/// So many claims of one worker are with the server at a time. A right password takes PAM and LDAP milliseconds to tens of them, a
/// wrong one seconds (`pam_unix` waits for two, by `pam_fail_delay`); with more, guesses would take places from statements.
pub(super) const MOST: usize = 4;

/// And so many of those from one network: the other half is for others, who so wait for nobody's wrong passwords but their own.
pub(super) const MOST_OF_NETWORK: usize = 2;

/// Whose passwords the server is being asked about.
#[derive(Default)]
pub(crate) struct Claims {
    /// By the token of the backend that logs in with it.
    pub(super) asking: BTreeMap<u64, Claim>,
    /// Those whose turn has not come.
    pub(super) line: Line,
    /// Those who get into line later, after wrong passwords.
    pub(super) held: BTreeMap<(Instant, u64), (Guest, ClientRef)>,
    pub(super) last_held: u64,
    /// Those whose user has just proved a password, which may be theirs.
    pub(super) again: VecDeque<(Guest, ClientRef)>,
    /// The next one's turn may have come, because another's claim has ended, or some time has passed.
    pub(super) may_go_on: bool,
}

impl Claims {
    /// The turn of some may have come.
    pub(crate) fn look_again(&mut self) {
        self.may_go_on = true;
    }

    /// A client that waits for its turn has gone.
    pub(crate) fn leave(&mut self, client: ClientRef, peer: &Peer, attempt: &Attempt) {
        match attempt.held_at {
            Some(place) => drop(self.held.remove(&place)),
            None => self.line.remove(&Guest::new(peer, &attempt.user), client),
        }
    }

    /// When there is something to be done about them.
    pub(crate) fn next_turn(&self, now: Instant) -> Option<Instant> {
        if self.may_go_on || !self.again.is_empty() {
            return Some(now);
        }
        self.held.keys().next().map(|&(at, _)| at)
    }

    /// Whether the backend with this token logs in for a claim.
    pub(crate) fn has_asked(&self, token: u64) -> bool {
        self.asking.contains_key(&token)
    }

    /// The server is being asked by the backend with this token.
    pub(crate) fn asks(&mut self, token: u64, claim: Claim) {
        self.asking.insert(token, claim);
    }

    /// There is no place to ask about the next one, who is put back.
    pub(crate) fn lack_place(&mut self, guest: Guest, client: ClientRef) {
        self.line.put_back(guest, client);
        self.may_go_on = false;
    }

    pub(super) fn end(&mut self, token: u64) -> Option<Claim> {
        let claim = self.asking.remove(&token)?;
        self.look_again();
        Some(claim)
    }

    /// Of one user from one network one password is asked about at a time: of a crowd that has the same, one asks.
    pub(super) fn next(&mut self) -> Option<(Guest, ClientRef)> {
        if self.asking.len() >= MOST {
            return None;
        }
        let asking = &self.asking;
        self.line.take(|guest| {
            let same_network = |claim: &&Claim| claim.guest.network == guest.network;
            asking.values().filter(same_network).count() < MOST_OF_NETWORK
                && asking.values().all(|claim| claim.guest != *guest)
        })
    }
}

/// A password with the server.
pub(crate) struct Claim {
    pub(crate) client: ClientRef,
    pub(crate) guest: Guest,
    pub(crate) password: Arc<Password>,
    pub(crate) question: Question,
}
