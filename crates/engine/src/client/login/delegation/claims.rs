//! Passwords that the server is being asked about, and the clients that wait for that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use seam::{Instant, Peer};

use super::line::{Line, LoginOrigin};
use crate::accounts::secret::Password;
use crate::client::login::attempt::{Attempt, PasswordQuestion};
use crate::ids::ClientRef;
use crate::workers::account_connections::AccountConnection;

/// Claims of one worker that are with the server at a time. A right password takes PAM and LDAP milliseconds to tens of them, a
/// wrong one seconds (`pam_unix` waits for two, by `pam_fail_delay`). With more claims, guesses would take places from statements.
pub(super) const MOST: usize = 4;

/// Claims from one network that are with the server at a time. The rest is for other networks, which so wait for no
/// wrong passwords but their own.
pub(super) const MOST_OF_NETWORK: usize = 2;

/// Passwords that the server is being asked about, and clients that wait for that.
#[derive(Default)]
pub(crate) struct Claims {
    /// Claims that are with the server, by the token of the backend that logs in with them. Where few connections of the account are left, each
    /// has the account's only turn, for as long as it stands here.
    pub(super) asking: BTreeMap<u64, (Claim, Option<AccountConnection>)>,
    /// The time at which the latest of these turns ended.
    pub(super) turn_ended: Option<Instant>,
    /// Clients that wait for their turn.
    pub(super) line: Line,
    /// Clients that get into line later, after wrong passwords.
    pub(super) held: BTreeMap<(Instant, u64), (LoginOrigin, ClientRef)>,
    pub(super) last_held: u64,
    /// Clients of a user that has just proved a password, which may be theirs.
    pub(super) again: VecDeque<(LoginOrigin, ClientRef)>,
    /// Set where the turn of the next client may have come, because another's claim has ended, or some time has passed.
    pub(super) may_go_on: bool,
}

impl Claims {
    /// Notes that the turn of some clients may have come.
    pub(crate) fn look_again(&mut self) {
        self.may_go_on = true;
    }

    /// Takes out a client that has gone while it waited for its turn.
    pub(crate) fn leave(&mut self, client: ClientRef, peer: &Peer, attempt: &Attempt) {
        match attempt.held_at {
            Some(place) => drop(self.held.remove(&place)),
            None => self.line.remove(&LoginOrigin::new(peer, &attempt.user), client),
        }
    }

    /// Returns the time at which there is something to be done about the claims.
    pub(crate) fn next_turn(&self, now: Instant) -> Option<Instant> {
        if self.may_go_on || !self.again.is_empty() {
            return Some(now);
        }
        self.held.keys().next().map(|&(at, _)| at)
    }

    /// Says whether the backend with this token logs in for a claim.
    pub(crate) fn has_asked(&self, token: u64) -> bool {
        self.asking.contains_key(&token)
    }

    /// Notes that the backend with this token asks the server.
    pub(crate) fn asks(&mut self, token: u64, claim: Claim, turn: Option<AccountConnection>) {
        self.asking.insert(token, (claim, turn));
    }

    /// Holds a client back until then: it gets into line again at that time.
    pub(super) fn hold_back(
        &mut self,
        until: Instant,
        attempt: &mut Attempt,
        (guest, client): (LoginOrigin, ClientRef),
    ) {
        self.last_held += 1;
        let place = (until, self.last_held);
        attempt.held_at = Some(place);
        self.held.insert(place, (guest, client));
    }

    /// Puts the next client back: there is no place to ask about it.
    pub(crate) fn lack_place(&mut self, guest: LoginOrigin, client: ClientRef) {
        self.line.put_back(guest, client);
        self.may_go_on = false;
    }

    pub(super) fn end(&mut self, token: u64, now: Instant) -> Option<Claim> {
        let (claim, turn) = self.asking.remove(&token)?;
        if turn.is_some() {
            self.turn_ended = Some(now);
        }
        self.look_again();
        Some(claim)
    }

    /// Takes the next client in line. Of one user from one network one password is asked about at a time: of a crowd
    /// that has the same, one asks.
    pub(super) fn next(&mut self) -> Option<(LoginOrigin, ClientRef)> {
        if self.asking.len() >= MOST {
            return None;
        }
        let asking = || self.asking.values().map(|(claim, _)| claim);
        self.line.take(|guest| {
            let same_network = |claim: &&Claim| claim.guest.network == guest.network;
            asking().filter(same_network).count() < MOST_OF_NETWORK
                && asking().all(|claim| claim.guest != *guest)
        })
    }
}

/// A password that is with the server.
pub(crate) struct Claim {
    pub(crate) client: ClientRef,
    pub(crate) guest: LoginOrigin,
    pub(crate) password: Arc<Password>,
    pub(crate) question: PasswordQuestion,
}
