//! The changes of its session that a client is told of (`CLIENT_SESSION_TRACK`).
//!
//! The trackers of a backend are on for us, whatever its clients want to hear. Its reports are cut down to what the client's
//! own `session_track_...` ask for. Two of these are session state like any other, since we have no use for them: the backend
//! has what the client wants, and all that it says of GTIDs and transactions is the client's.
//!
//! Where a client sets one of the others, the server sees that as it is, and so says what is wrong with it. The rest of that
//! statement is reported by the client's own list. The value is then asked for, and ours go ahead of the next statement there.
//!
//! Sources: `sql/session_tracker.cc` of both servers; their manuals' pages of the variables.

use sql::{SessionFunction, TrackerVariable};
use wire::{Capabilities, SessionChange};

use crate::client::Client;
use crate::server::control::facts::Facts;
use crate::session::Sessions;
use crate::session::trackers::{ToldChanges, Trackers, is_on, sets_list};
use crate::settings::Settings;

/// The trackers of a client: its own, or those of a new connection.
pub(crate) fn trackers_of<'a>(client: &'a Client, facts: Option<&'a Facts>) -> Option<&'a Trackers> {
    client.session.trackers.as_deref().or_else(|| facts.map(|facts| &facts.trackers))
}

/// Returns which changes a client is told, if it has agreed to hear anything.
pub(crate) fn told<'a>(
    client: &'a Client,
    facts: Option<&'a Facts>,
    sessions: &Sessions,
) -> Option<ToldChanges<'a>> {
    if !client.capabilities.contains(Capabilities::SESSION_TRACK) {
        return None;
    }
    let statement = client.request.as_ref().map(|request| &request.statement);
    let by_own_list = statement.is_some_and(|statement| !statement.several && sets_list(statement));
    let has_others = client.session.id().is_some_and(|session| sessions.state(session).has_own_trackers());
    let is_mariadb = facts.is_some_and(Facts::is_mariadb);
    trackers_of(client, facts).map(|trackers| ToldChanges { trackers, by_own_list, is_mariadb, has_others })
}

impl Client {
    /// Notes that a tracker of the client's has this value now, and so has its backend. False where we need another one
    /// there: ours are set anew ahead of the next statement.
    pub(crate) fn set_tracker(&mut self, facts: &Facts, tracker: TrackerVariable, value: &[u8]) -> bool {
        let mut trackers = self.session.trackers.as_deref().unwrap_or(&facts.trackers).clone();
        trackers.set(tracker, value);
        self.session.trackers = (trackers != facts.trackers).then(|| Box::new(trackers));
        tracker != TrackerVariable::SystemVariables && is_on(value)
    }

    /// Returns the client's own value of a variable, as a literal, where no backend knows it.
    pub(crate) fn own_literal(
        &self,
        function: SessionFunction,
        facts: Option<&Facts>,
        settings: &Settings,
    ) -> Option<String> {
        match function {
            SessionFunction::Pool(variable) => Some(self.priority.literal(variable, settings)),
            SessionFunction::Tracker(tracker) => {
                trackers_of(self, facts).map(|trackers| trackers.literal(tracker))
            }
            SessionFunction::LastGtid => self.last_gtid_literal(facts?),
            _ => None,
        }
    }

    /// Returns the change that a login tells: the schema that it has chosen.
    pub(crate) fn schema_of_login(&self, sessions: &Sessions) -> Vec<u8> {
        let session = self.session.id().map(|session| sessions.state(session));
        let mut changes = Vec::new();
        if let Some(schema) = session.and_then(|session| session.schema.as_ref()) {
            wire::put_session_change(&mut changes, &SessionChange::Schema(schema));
        }
        changes
    }

    /// Says whether the client hears of its transactions: then the server, with these facts, has to say what there is to hear.
    pub(crate) fn hears_of_transactions(&self, sessions: &Sessions, facts: Option<&Facts>) -> bool {
        let tracked = |session| sessions.state(session).tracks_transactions();
        let default = facts.is_some_and(|facts| facts.tracks_transactions);
        self.capabilities.contains(Capabilities::SESSION_TRACK)
            && self.session.id().and_then(tracked).unwrap_or(default)
    }
}
