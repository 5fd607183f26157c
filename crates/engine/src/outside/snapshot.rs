//! A worker as it looks from outside: plain data, for tables that people read.
//!
//! A worker's tables are those of its engine and, where reads go to replicas, of its readers ([`crate::readers`]) behind that: a client
//! that is lent to one of these is shown once, by what its statement does there.
//!
//! Clients, backends and digests may be many. They are looked at in pieces, so that no turn takes long: a piece says where
//! the next begins. Who is there all the time appears exactly once.

use seam::{Address, Instant};

use crate::accounts::Account;
use crate::backend::{Backend, Owner, Phase as BackendPhase, ServerPlace};
use crate::client::ids::ClientIds;
use crate::client::{Client, Phase};
use crate::engine::Engine;
use crate::ids::{ClientKey, Table};
use crate::logins::Logins;
use crate::outside::enum_map::EnumMap;
use crate::outside::named::{BackendState, ClientState, LoginStage, PermitState, Queue};
use crate::outside::shown_text::{hides_its_text, lossy, shown_text};
use crate::outside::taken_for::TakenFor;
use crate::readers::Readers;
use crate::readers::routing::Routed;
use crate::scheduling::Scheduling;
use crate::scheduling::learned::digests::{Digest, DigestCost};
use crate::scheduling::learned::waiting::WHOLE;
use crate::scheduling::scheduler::lane::Class;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;

pub use self::figures::Figures;
pub use self::rows::{
    BackendView, ClientView, DigestView, LockWaitView, RoutedView, Snapshot, StoredCodeView, WorkerView,
};

/// A part of a table.
#[derive(Clone, Debug)]
pub struct Piece<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<usize>,
}

impl Backend {
    /// The state of the backend. `held`: a client holds it.
    pub(crate) fn state(&self, held: bool) -> BackendState {
        match self.phase() {
            BackendPhase::Connecting => BackendState::Connecting,
            BackendPhase::LoggingIn(_) => BackendState::LoggingIn,
            BackendPhase::SettingUp => BackendState::SettingUp,
            BackendPhase::Ready => match self.in_flight.front().map(|statement| statement.owner) {
                Some(Owner::Reset | Owner::RestoreWaitTimeout) => BackendState::Resetting,
                Some(_) => BackendState::Running,
                None if held => BackendState::Held,
                None => BackendState::Idle,
            },
        }
    }

    /// Says whether the client that holds the backend is in a transaction.
    fn holds_transaction(&self, clients: &Table<ClientKey, Client>) -> bool {
        let holder = self.holder().and_then(|client| clients.get(client));
        holder.is_some_and(Client::in_transaction)
    }
}

impl Scheduling {
    /// How many statements wait.
    pub(crate) fn queued(&self) -> EnumMap<Queue, usize> {
        let mut queued = EnumMap::default();
        queued[Queue::Urgent] += self.urgent.len();
        for (lane, count) in self.scheduler.waiting_by_lane() {
            queued[Queue::of(Some(lane))] += count;
        }
        for class in Class::ALL {
            queued[Queue::of(Some(class.lane()))] += self.shares.waiting(class);
        }
        queued
    }
}

/// Where a piece begins says in its upper half in which engine's table: 0 is that of the clients, readers follow.
const SLOT_BITS: u32 = usize::BITS / 2;

/// A worker's tables, row by row: those of its engine and, behind them, of its readers. Nothing is changed by a look.
pub struct Tables<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) clients: &'a Table<ClientKey, Client>,
    pub(super) ids: &'a ClientIds,
    pub(super) logins: &'a Logins,
    pub(super) sessions: &'a SessionTables,
    pub(super) scheduling: &'a Scheduling,
    pub(super) servers: &'a Servers,
    pub(super) readers: &'a Readers,
}

impl Tables<'_> {
    /// The clients in `count` slots of the table from slot `from` on.
    pub fn clients_from(&self, from: usize, count: usize) -> Piece<ClientView> {
        let rows = self.clients.in_slots(from, count);
        let rows = rows.map(|(key, client)| self.client_view(key, client)).collect();
        let next = from.saturating_add(count);
        Piece { rows, next: (next < self.clients.capacity()).then_some(next) }
    }

    /// The clients in `count` slots of the table from slot `from` on that want or hold something: those that have a statement, or
    /// keep a backend, or that others wait for. Most clients of most pools are none of these.
    pub fn busy_clients_from(&self, from: usize, count: usize) -> Piece<ClientView> {
        let is_busy = |client: &Client| {
            let has_statement = client.request.is_some() || matches!(client.phase(), Phase::Lent(_));
            has_statement || client.backend.is_some() || client.transaction.blocks_others()
        };
        let rows = self.clients.in_slots(from, count).filter(|(_, client)| is_busy(client));
        let rows = rows.map(|(key, client)| self.client_view(key, client)).collect();
        let next = from.saturating_add(count);
        Piece { rows, next: (next < self.clients.capacity()).then_some(next) }
    }

    /// The backends in `count` slots from where a piece says that the next one begins; at first from 0 on.
    pub fn backends_from(&self, from: usize, count: usize) -> Piece<BackendView> {
        self.piece_of_all(from, |tables, from| {
            let rows = tables.servers.in_slots(from, count);
            let rows = rows.map(|(_, backend)| tables.backend_view(backend)).collect();
            let end = from.saturating_add(count);
            Piece { rows, next: (end < tables.servers.backend_slots()).then_some(end) }
        })
    }

    /// `count` digests from where a piece says that the next one begins; at first from 0 on. A digest of several servers is there for each
    /// of them.
    pub fn digests_from(&self, from: usize, count: usize) -> Piece<DigestView> {
        self.piece_of_all(from, |tables, from| {
            let digests = tables.scheduling.digests.iter().skip(from).take(count);
            let rows: Vec<_> = digests.map(|digest| tables.digest_view(digest)).collect();
            Piece { next: (rows.len() == count).then_some(from.saturating_add(count)), rows }
        })
    }

    /// Returns what `count` digests from number `from` on have cost: 40 bytes each, without texts.
    pub fn digest_costs_from(&self, from: usize, count: usize) -> Piece<DigestCost> {
        self.piece_of_all(from, |tables, from| {
            let rows: Vec<_> =
                tables.scheduling.digests.iter().skip(from).take(count).map(Digest::cost).collect();
            Piece { next: (rows.len() == count).then_some(from.saturating_add(count)), rows }
        })
    }

    /// Where the statements of `count` digests went, where reads go to replicas.
    pub fn routing_from(&self, from: usize, count: usize) -> Piece<RoutedView> {
        let text = |digest| {
            let of_readers = self.readers.engines().map(Engine::digests);
            let all = std::iter::once(&self.scheduling.digests).chain(of_readers);
            all.filter_map(|digests| digests.text(digest)).map(String::from).next()
        };
        let view = |(digest, routed): (u64, &Routed)| RoutedView {
            digest: Some(digest).filter(|&digest| digest != 0),
            text: text(digest),
            routed: *routed,
        };
        let rows: Vec<_> = self.readers.routing().piece(from as u64, count).map(view).collect();
        let last = rows.last().filter(|_| rows.len() == count).map(|row| row.digest.unwrap_or(0));
        let next = last.and_then(|last| last.checked_add(1)).and_then(|next| usize::try_from(next).ok());
        Piece { rows, next }
    }

    /// A piece of a table that is this engine's and, behind it, its readers'.
    fn piece_of_all<T>(&self, from: usize, piece: impl Fn(&Self, usize) -> Piece<T>) -> Piece<T> {
        let (place, slot) = (from >> SLOT_BITS, from & ((1 << SLOT_BITS) - 1));
        let reader = |place: usize| self.readers.engine(place.checked_sub(1)?);
        let piece = match reader(place) {
            Some(reader) => piece(&reader.tables(), slot),
            None if place == 0 => piece(self, slot),
            None => return Piece { rows: Vec::new(), next: None },
        };
        let begin = |place: usize| place << SLOT_BITS;
        let behind = reader(place + 1).map(|_| begin(place + 1));
        Piece { rows: piece.rows, next: piece.next.map(|slot| begin(place) | slot).or(behind) }
    }

    fn digest_view(&self, digest: &Digest) -> DigestView {
        DigestView {
            digest: digest.clone(),
            first_seen: self.now.since(digest.first_seen),
            last_seen: self.now.since(digest.last_seen),
            taken_for: digest.fingerprint.map_or_else(TakenFor::default, |kind| {
                self.scheduling.taken_for(self.now, self.settings, self.servers, kind)
            }),
            permit_percent: digest
                .fingerprint
                .map_or(100, |kind| 100 - 100 * self.scheduling.spared_by_kind(self.settings, kind) / WHOLE),
        }
    }

    fn client_view(&self, key: ClientKey, client: &Client) -> ClientView {
        let identity = client.identity().map(|identity| self.logins.identities.identity(identity));
        let backend = client.backend.and_then(|backend| self.servers.get(backend));
        let waits = matches!(client.phase(), Phase::Queued | Phase::Following { .. });
        let request = client.request.as_deref();
        let answers = backend.filter(|backend| backend.answers(key));
        let session =
            client.session.id().map(|session| (session.number(), self.sessions.states.state(session)));
        let schema = session.as_ref().and_then(|(_, state)| state.schema.as_deref());
        let by = self.scheduling.holdups.now();
        let lacks = |queue| if queue == Queue::Long { by.long } else { by.others };
        let queue = request.filter(|_| waits).map(|request| Queue::of(request.turn.lane()));
        let mut view = ClientView {
            id: client.id,
            peer: client.peer,
            user: identity.map(|identity| lossy(&identity.user)),
            account: identity.map(|identity| account_name(&identity.account)),
            schema: schema.map(lossy),
            state: ClientState::of(client.phase()),
            login: LoginStage::of(client.phase()),
            in_transaction: client.in_transaction(),
            transaction: client.in_transaction().then(|| self.now.since(client.transaction.since())),
            backend: backend.map(|backend| backend.login.thread_id).filter(|&id| id > 0),
            server: backend.map(|backend| self.server_of(backend)),
            pins: client.session.pins(),
            queue,
            lacks: queue.and_then(lacks),
            queued: request.filter(|_| waits).map(|request| self.now.since(request.turn.arrived_at())),
            running: answers.map(|backend| self.now.since(backend.first.since)),
            idle: self.now.since(client.activity.last_heard()),
            stalled: client.activity.stalled_since().map(|since| self.now.since(since)),
            digest: request.map(|request| request.statement.fingerprint).filter(|&digest| digest != 0),
            statement: request
                .filter(|request| waits && !hides_its_text(request.statement.kind, request.command))
                .and_then(|request| request.text())
                .and_then(shown_text),
            input: client.input.len() + request.map_or(0, |request| request.bytes()),
            session_state: session.map(|(number, _)| number),
            holds_locks: client.transaction.holds_locks() || client.session.pins().may_hold_locks(),
            blocks_others: client.transaction.blocks_others(),
            lock_wait: answers.and_then(|backend| self.lock_wait_view(backend)),
            killed: client.loss.killed,
        };
        if let Phase::Lent(lent) = client.phase() {
            let guest =
                lent.place().and_then(|place| self.readers.engine(place)?.tables().guest_view(client.id));
            view.take_lent(self.now, lent, guest);
        }
        view
    }

    /// A client of a reader.
    fn guest_view(&self, id: u32) -> Option<ClientView> {
        let key = self.ids.client_with(id)?;
        let view = self.client_view(key, &self.clients[key]);
        Some(ClientView { server: Some(self.settings.server[0].clone()), ..view })
    }

    fn server_of(&self, backend: &Backend) -> Address {
        match backend.place() {
            ServerPlace::At(place) => self.settings.server[*place].clone(),
            ServerPlace::Former(address) => Address::clone(address),
        }
    }

    fn backend_view(&self, backend: &Backend) -> BackendView {
        let holder = backend.holder().and_then(|client| self.clients.get(client));
        let busy = !backend.in_flight.is_empty();
        let state = backend.state(holder.is_some());
        let session = self.sessions.states.state(backend.session.id());
        BackendView {
            server: self.server_of(backend),
            thread_id: Some(backend.login.thread_id).filter(|&id| id > 0),
            user: lossy(&self.logins.identities.identity(backend.account.identity()).user),
            state,
            client: holder.map(|client| client.id),
            in_flight: backend.in_flight.len(),
            permit: PermitState::of(backend.permit()),
            running: (busy && backend.is_ready()).then(|| self.now.since(backend.first.since)),
            idle: (!busy && holder.is_none() || !backend.is_ready()).then(|| self.now.since(backend.since)),
            schema: session.schema.as_deref().map(lossy),
            session_state: backend.session.id().number(),
            paused: backend.paused,
            in_transaction: backend.holds_transaction(self.clients),
            lock_wait: self.lock_wait_view(backend),
        }
    }

    fn lock_wait_view(&self, backend: &Backend) -> Option<LockWaitView> {
        let wait = backend.locks.seen?;
        Some(LockWaitView { time: self.now.since(wait.since), thread: wait.thread, client: wait.client })
    }
}

fn account_name(account: &Account) -> String {
    format!("{}@{}", String::from_utf8_lossy(&account.user), account.host)
}

mod figures;
pub(crate) mod rows;
mod together;

#[cfg(test)]
mod tests;
