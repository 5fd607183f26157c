//! A backend as plain data ([`crate::frozen`]), and back. Its connection to the server stays, with the session there.
//!
//! Only a backend that nobody holds and on which nothing runs can be frozen. It is taken apart without `..`, as clients are.

use std::collections::VecDeque;

use seam::{ConnectionId, Instant};
use sql::LexMode;

use super::from_server::diagnostics_area::DiagnosticsArea;
use super::login::rights::taken_up::BackendRights;
use super::state::State;
use super::to_server::prepared::Prepared;
use super::to_server::prepared::frozen::FrozenPrepared;
use super::{
    Afterwards, Backend, BackendAccount, BackendLogin, BackendSession, First, Locks, Opened, ServerPlace,
    Shown, Successor,
};
use crate::accounts::Identities;
use crate::accounts::frozen::FrozenIdentity;
use crate::frozen::{Distance, NotFrozen, NotThawed};
use crate::server::stored_code::Hidden;
use crate::session::user_variables::UserVariables;
use crate::session::wait_timeout::WaitTimeout;
use crate::session::{SessionState, SessionTables};
use crate::workers::places::Origin;
use crate::workers::users::Users;

/// One idle backend.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenBackend {
    token: u64,
    /// The connection, as the driver names it.
    connection: Option<ConnectionId>,
    /// The place of its server in the list of addresses. The list goes along.
    place: usize,
    opened: FrozenOpened,
    since: Distance,
    permit_since: Distance,
    identity: FrozenIdentity,
    rights: BackendRights,
    began_at: u64,
    held_since: Distance,
    login: BackendLogin,
    session: FrozenSession,
    first: (Distance, bool),
    abandoned_since: Option<Distance>,
    only_kind: Option<u64>,
    paused: bool,
    afterwards: Afterwards,
}

plain!(struct FrozenBackend {
    token, connection, place, opened, since, permit_since, identity, rights, began_at, held_since, login, session,
    first, abandoned_since, only_kind, paused, afterwards,
});
plain!(enum Afterwards { 0 => Keep, 1 => Reset, 2 => Close });
plain!(enum Origin { 0 => Free, 1 => Granted, 2 => Changed });
plain!(struct BackendLogin {
    class, thread_id, capabilities, established, has_no_role, collation, charset,
});

/// See [`Opened`].
#[derive(Debug, PartialEq)]
struct FrozenOpened {
    origin: Origin,
    fresh: bool,
    unproved: Option<u64>,
    affinity_until: Option<Distance>,
}

plain!(struct FrozenOpened { origin, fresh, unproved, affinity_until });

/// See [`BackendSession`].
#[derive(Debug, PartialEq)]
struct FrozenSession {
    state: SessionState,
    variables: Option<UserVariables>,
    wait_timeout: WaitTimeout,
    trackers: bool,
    multi_statements: bool,
    prepared: FrozenPrepared,
    failed: Hidden,
    diagnostics_area: DiagnosticsArea,
}

plain!(struct FrozenSession {
    state, variables, wait_timeout, trackers, multi_statements, prepared, failed, diagnostics_area,
});

/// Tables that backends share with others, and the moment of freezing or thawing.
pub(super) struct Common<'a> {
    pub(super) now: Instant,
    pub(super) sessions: &'a mut SessionTables,
    pub(super) identities: &'a mut Identities,
    pub(super) users: &'a Users,
    /// The way in which the server reads texts.
    pub(super) lex_mode: LexMode,
}

impl Backend {
    /// Checks that the backend can be frozen.
    ///
    /// # Errors
    ///
    /// Where the backend is in use.
    pub(super) fn can_be_frozen(&self) -> Result<(), NotFrozen> {
        let is_of_now = matches!(self.place, ServerPlace::At(_));
        let is_used = self.shown.used.is_some()
            || self.runs_long.is_some()
            || self.locks.contends
            || !self.out.is_empty();
        match self.is_idle() && is_of_now && !is_used {
            true => Ok(()),
            false => Err(NotFrozen::IsUsed),
        }
    }

    /// Makes plain data of an idle backend, and releases its hold on the common tables. Its place goes along.
    ///
    /// # Errors
    ///
    /// As [`Self::can_be_frozen`].
    pub(super) fn freeze(self, common: &mut Common<'_>) -> Result<FrozenBackend, NotFrozen> {
        self.can_be_frozen()?;
        let permit_since = common.distance(self.permit_since());
        let Self {
            token,
            connection,
            state: _, // ready, without a permit
            place,
            opened,
            since,
            account,
            login,
            session,
            in_flight: _, // nothing
            first,
            abandoned_since,
            shown: _,  // it serves nobody
            holder: _, // nobody
            runs_long: _,
            locks: _, // nothing waits there
            only_kind,
            paused,
            afterwards,
            out: _, // nothing
        } = self;
        let ServerPlace::At(place) = place else { return Err(NotFrozen::IsUsed) };
        let Opened { origin, fresh, unproved, affinity_until } = opened;
        let affinity_until = affinity_until.map(|until| common.distance(until));
        // What is left to somebody is closed in the same turn.
        let BackendAccount { identity, rights, began_at, held_since, connection: _, successor: _ } = account;
        let frozen_identity = FrozenIdentity::of(identity.id(), common.identities);
        common.identities.release(identity);
        let First { since: first_since, is_alone } = first;
        Ok(FrozenBackend {
            token,
            connection,
            place,
            opened: FrozenOpened { origin, fresh, unproved, affinity_until },
            since: common.distance(since),
            permit_since,
            identity: frozen_identity,
            rights,
            began_at,
            held_since: common.distance(held_since),
            login,
            session: session.freeze(common),
            first: (common.distance(first_since), is_alone),
            abandoned_since: abandoned_since.map(|since| common.distance(since)),
            only_kind,
            paused,
            afterwards,
        })
    }
}

impl FrozenBackend {
    /// Makes the backend again. The caller puts it into the tables.
    ///
    /// # Errors
    ///
    /// Where the identity is unknown.
    pub(super) fn thaw(self, common: &mut Common<'_>) -> Result<Backend, NotThawed> {
        let Self {
            token,
            connection,
            place,
            opened,
            since,
            permit_since,
            identity,
            rights,
            began_at,
            held_since,
            login,
            session,
            first,
            abandoned_since,
            only_kind,
            paused,
            afterwards,
        } = self;
        let identity = identity.thaw(common.identities).ok_or(NotThawed::UnknownIdentity)?;
        let FrozenOpened { origin, fresh, unproved, affinity_until } = opened;
        let affinity_until = affinity_until.map(|until| until.from(common.now));
        let (first_since, is_alone) = first;
        let mut backend = Backend {
            token,
            connection,
            state: State::new(permit_since.from(common.now)),
            place: ServerPlace::At(place),
            opened: Opened { origin, fresh, unproved, affinity_until },
            since: since.from(common.now),
            account: BackendAccount {
                connection: common
                    .users
                    .begin_connection(place, &common.identities.identity(identity.id()).account),
                identity,
                rights,
                began_at,
                held_since: held_since.from(common.now),
                successor: Successor::Anybody,
            },
            login,
            session: session.thaw(common),
            in_flight: VecDeque::new(),
            first: First { since: first_since.from(common.now), is_alone },
            abandoned_since: abandoned_since.map(|since| since.from(common.now)),
            shown: Shown::default(),
            holder: None,
            runs_long: None,
            locks: Locks::default(),
            only_kind,
            paused,
            afterwards,
            out: Vec::new(),
        };
        backend.state.be_thawed();
        Ok(backend)
    }
}

impl Common<'_> {
    fn distance(&self, instant: Instant) -> Distance {
        Distance::of(instant, self.now)
    }
}

impl BackendSession {
    fn freeze(self, common: &mut Common<'_>) -> FrozenSession {
        let Self {
            held,
            variables,
            wait_timeout,
            trackers,
            multi_statements,
            prepared,
            failed,
            diagnostics_area,
        } = self;
        let prepared = prepared.freeze(common.sessions);
        let state = common.sessions.states.state(held.id()).clone();
        common.sessions.states.release(held);
        FrozenSession {
            state,
            variables: variables.map(|variables| (*variables).clone()),
            wait_timeout,
            trackers,
            multi_statements,
            prepared,
            failed,
            diagnostics_area,
        }
    }
}

impl FrozenSession {
    fn thaw(self, common: &mut Common<'_>) -> BackendSession {
        let Self {
            state,
            variables,
            wait_timeout,
            trackers,
            multi_statements,
            prepared,
            failed,
            diagnostics_area,
        } = self;
        let held = common.sessions.states.hold(state);
        let prepared = Prepared::thawed(prepared, common.sessions, common.lex_mode);
        BackendSession {
            held,
            variables: variables.map(Into::into),
            wait_timeout,
            trackers,
            multi_statements,
            prepared,
            failed,
            diagnostics_area,
        }
    }
}
