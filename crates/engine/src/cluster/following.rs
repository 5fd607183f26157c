//! What a worker knows of the choice of a primary, and what it has to do yet.

use std::rc::Rc;
use std::time::Duration;

use seam::{Address, ConnectionId, Instant};

use super::chosen::{Choice, Chosen};
use crate::backend::Place;
use crate::backend::reachability::Reachability;
use crate::ids::ClientRef;
use crate::readers::guests::Guests;
use crate::settings::Settings;

/// All connections of a server that dies end at once. Whoever has the server end his own again and again (KILL) is not to have everybody's
/// connected anew each time.
const TRUST_AGAIN: Duration = Duration::from_secs(1);

/// What a worker knows of the choice.
pub(crate) struct Following {
    /// The one that it has taken up.
    pub(super) choice: Choice,
    /// There may be backends on a server that is not the primary, since then.
    pub(super) leaves: Option<Instant>,
    /// Since when there is no primary.
    pub(crate) held_since: Option<Instant>,
    /// The service account has found out what the primary is: backends may be opened there.
    pub(super) is_known: bool,
    /// Clients whose reads were in flight when their backend was lost, and that run once more unless the primary has functions, which
    /// a view may call.
    pub(super) repeated: Vec<ClientRef>,
    /// Statements that the primary has refused for what it is: they wait until it has been asked whether it is that.
    pub(super) refused: Vec<ClientRef>,
    /// When idle backends were closed last, since a busy one was lost.
    distrusted: Option<Instant>,
    /// There was no primary that could be reached at the end of the last turn.
    pub(super) failed_over: bool,
    /// When there was one again.
    pub(super) found_at: Instant,
    /// Connections that were lost with their server, with something in flight, and the place of that. They are nobody's any more, and end
    /// with the next choice. No more than there were backends: without a primary none are opened.
    left_open: Vec<(ConnectionId, Place)>,
    /// Up to which number backends may be used, see [`super::proof`].
    pub(super) proved: u64,
    /// The tokens of those that wait for that, their logins being over.
    unproved: Vec<u64>,
}

impl Following {
    /// Of a worker that has not heard of any; with one server it never will, and what that is it finds out before anybody is let in.
    pub(crate) fn new(several: bool) -> Self {
        Self {
            choice: Choice::default(),
            leaves: None,
            held_since: Some(Instant::START),
            is_known: !several,
            repeated: Vec::new(),
            refused: Vec::new(),
            distrusted: None,
            failed_over: false,
            found_at: Instant::START,
            left_open: Vec::new(),
            proved: 0,
            unproved: Vec::new(),
        }
    }

    /// Whether a server is the primary, as far as this worker has heard.
    pub(crate) fn has_primary(&self) -> bool {
        self.choice.place.is_some()
    }

    /// Whether the service account may connect: with several servers, once one is the primary; to one that is read from, where its guests are
    /// welcome.
    pub(crate) fn may_connect(&self, several: bool, guests: Option<&Guests>) -> bool {
        guests.is_none_or(Guests::are_welcome) && (!several || self.has_primary())
    }

    /// Whether backends may be opened.
    pub(crate) fn knows_primary(&self, several: bool) -> bool {
        self.is_known && (!several || self.has_primary())
    }

    /// Whether a statement that was sent before may be sent now: not while it has to be found out what became of the primary.
    pub(crate) fn may_send_again(&self, several: bool, chosen: &Chosen) -> bool {
        self.knows_primary(several) && !chosen.is_in_doubt(self.choice)
    }

    /// Whether a backend at this place stands on a server that is not the primary.
    pub(crate) fn is_former(&self, several: bool, place: &Place) -> bool {
        let is_left = || !self.choice.place.is_some_and(|primary| place.is(primary));
        place.is_former() || (several && is_left())
    }

    /// Whether there is no primary that can be reached, and another one may come.
    pub(super) fn fails_over(&self, several: bool, primary: &Reachability) -> bool {
        several && (self.held_since.is_some() || !primary.is_up())
    }

    /// Until when a statement waits for a backend that has done so since then. What it has waited for a primary does not count once there is
    /// one: no backend could be opened before.
    pub(crate) fn waits_until(&self, since: Instant, settings: &Settings, primary: &Reachability) -> Instant {
        if self.fails_over(settings.cluster.several, primary) {
            since + settings.cluster.hold
        } else {
            since.max(self.found_at) + settings.backend_connect_timeout
        }
    }

    /// A client's read is sent once more, unless the primary has functions: that has to be found out.
    pub(super) fn repeats(&mut self, client: ClientRef) {
        self.repeated.push(client);
        self.is_known = false;
    }

    /// The service account has found out what the primary is, and whether it has functions. Returns those whose reads have waited for that.
    pub(crate) fn found_out(&mut self) -> Vec<ClientRef> {
        if std::mem::replace(&mut self.is_known, true) {
            return Vec::new();
        }
        std::mem::take(&mut self.repeated)
    }

    /// Whoever was refused something, which was the statement's own affair.
    pub(crate) fn take_refused(&mut self) -> Vec<ClientRef> {
        std::mem::take(&mut self.refused)
    }

    /// Whether backends of this worker are left on a server that is not the primary, or may be, where that is the choice by now.
    pub(crate) fn leaves_server(&self, several: bool, chosen: Choice) -> bool {
        several && (self.choice != chosen || self.leaves.is_some())
    }

    /// A busy backend is lost: says whether the idle ones are to be closed too.
    pub(crate) fn distrusts_idle(&mut self, now: Instant) -> bool {
        let does = self.distrusted.is_none_or(|at| now.since(at) >= TRUST_AGAIN);
        if does {
            self.distrusted = Some(now);
        }
        does
    }

    /// The server at this place is not where it was: what was left open there leads to no server that is asked now.
    pub(crate) fn server_moves(&mut self, place: usize, from: &Rc<Address>) {
        let left = self.left_open.iter_mut().filter(|(_, left)| left.is(place));
        left.for_each(|(_, left)| *left = Place::Former(Rc::clone(from)));
    }

    /// There are backends where the primary is not.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.leaves = Some(now);
    }

    /// What becomes of a connection to the server at this place follows from which one is chosen next.
    pub(crate) fn leave_open(&mut self, connection: ConnectionId, place: Place) {
        self.left_open.push((connection, place));
    }

    pub(crate) fn take_left_open(&mut self) -> Vec<(ConnectionId, Place)> {
        std::mem::take(&mut self.left_open)
    }

    /// Whether a backend may be used that has this number. Where it may not yet, its turn comes with [`Self::take_unproved`].
    pub(crate) fn may_use(&mut self, number: Option<u64>, token: u64) -> bool {
        let may = number.is_none_or(|number| number <= self.proved);
        if !may {
            self.unproved.push(token);
        }
        may
    }

    /// Whether a backend is ready but for that.
    pub(crate) fn waits_for_proof(&self, token: u64) -> bool {
        self.unproved.contains(&token)
    }

    /// The tokens of backends whose logins are over.
    pub(crate) fn take_unproved(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unproved)
    }

    /// When backends that were to come to their end have had the time.
    pub(crate) fn next_turn(&self, hold: Duration) -> Option<Instant> {
        self.leaves.map(|since| since + hold)
    }
}

#[cfg(test)]
pub(super) mod tests;
