//! Where a client's session stands: why it stays on its backend, what only that backend knows, and what the server has told of it.

use std::collections::BTreeSet;

use sql::Effects;
use wire::StatusFlags;

use crate::client::ClientSession;
use crate::client::session::transaction::Unstarted;
use crate::session::pins::Pins;
use crate::session::unreported::cannot_wait;

/// Most variables that are asked for at a time. The texts of programs leave a handful. With more, which nobody sets by accident, the client
/// keeps its backend.
const MOST_UNREPORTED: usize = 64;

impl ClientSession {
    /// Returns the reasons for which the client holds its backend beyond a transaction.
    pub(crate) fn pins(&self) -> Pins {
        self.pins
    }

    /// The client holds its backend for these reasons too.
    pub(crate) fn pinned_for(&mut self, pins: Pins) {
        self.pins |= pins;
    }

    /// The server has reset the session. Of what pinned it before, a reset leaves the role.
    pub(crate) fn keeps_role_of(&mut self, before: Pins) {
        self.pins = before.effects().intersection(Effects::ROLE).into();
    }

    /// The client leaves its backend, and with it all that is not in the session state.
    pub(crate) fn loses_what_only_backend_has(&mut self) {
        self.pins = Pins::NONE;
        self.unreported = None;
    }

    /// Returns the session variables that only the client's backend knows, where there are any.
    pub(crate) fn unreported(&self) -> Option<&BTreeSet<Box<[u8]>>> {
        self.unreported.as_deref()
    }

    /// Says whether their values have to be asked for before the next statement.
    pub(crate) fn has_to_ask(&self) -> bool {
        cannot_wait(&self.unreported)
    }

    /// A statement has set these variables without a report. The values of those that are settled are known.
    pub(crate) fn note_unreported(
        &mut self,
        settled: &BTreeSet<Box<[u8]>>,
        mut unreported: BTreeSet<Box<[u8]>>,
    ) {
        if let Some(before) = self.unreported.take() {
            unreported.extend(before.into_iter().filter(|name| !settled.contains(name)));
        }
        // A new one brings its default collation with it, unless the answer says which there is.
        if unreported.contains(&b"character_set_connection"[..]) {
            unreported.insert(b"collation_connection"[..].into());
        }
        if unreported.len() > MOST_UNREPORTED {
            self.pins |= Effects::SESSION_VARIABLE.into();
            unreported.clear();
        }
        self.unreported = (!unreported.is_empty()).then(|| Box::new(unreported));
    }

    /// The server has answered the question for the variables in doubt: none is any longer. Returns those that there were.
    pub(crate) fn take_unreported(&mut self) -> BTreeSet<Box<[u8]>> {
        *self.unreported.take().unwrap_or_default()
    }

    /// The server has refused the question for so many variables, and named some of them. The rest are asked for once more.
    pub(crate) fn question_refused(&mut self, asked: usize, rest: BTreeSet<Box<[u8]>>) {
        if rest.len() == asked {
            // Killed, most likely: the client stays where its values are.
            self.pins |= Effects::SESSION_VARIABLE.into();
        }
        self.unreported = (!rest.is_empty() && rest.len() < asked).then(|| Box::new(rest));
    }

    /// Returns the server's latest flags about the session.
    pub(crate) fn status(&self) -> StatusFlags {
        self.status
    }

    /// Returns the transaction that the client has begun, and that no backend knows of yet.
    pub(crate) fn unstarted(&self) -> Option<Unstarted> {
        self.unstarted
    }

    /// Notes that the server knows of the client's transaction now.
    pub(crate) fn transaction_started(&mut self) {
        if let Some(unstarted) = self.unstarted.take() {
            self.status |= unstarted.status();
        }
    }

    /// Notes that the session is in no transaction any more, whether its server knew of the transaction or not.
    pub(in crate::client) fn is_rolled_back(&mut self) {
        self.unstarted = None;
        self.status = self.status.without(StatusFlags::IN_TRANS).without(StatusFlags::IN_TRANS_READONLY);
    }

    /// Takes in the server's flags about the session. Flags about the answer itself are left out.
    pub(crate) fn status_told(&mut self, status: StatusFlags) {
        self.status =
            status.without(StatusFlags::MORE_RESULTS_EXISTS).without(StatusFlags::SESSION_STATE_CHANGED);
    }
}
