//! Room for prepared statements on a server that has too little (`max_prepared_stmt_count`).
//!
//! The server refuses one more with error 1461. Then half of what is prepared on each backend is closed, the one that was used
//! longest ago first, here and at the other workers, and the statement is prepared again. COM_STMT_CLOSE has no answer: on
//! backends where nothing else runs a ping behind it tells when the server has come to it.

use seam::Instant;

use super::Owner;
use super::own_statement::OwnStatement;
use crate::client::{Client, Phase};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::pool::Pool;
use crate::server::Server;
use crate::session::SessionTables;
use crate::session::statements::DefinitionId;
use crate::workers::letter::Letter;

/// How often a statement is tried again once room has been made, of which others may have taken what there was: so many take some
/// milliseconds.
const TRIES: u8 = 50;

/// After so many more attempts room is made once more.
const MAKE_AGAIN: u8 = 8;

impl Server {
    /// Another worker has made room.
    pub(crate) fn room_was_made(&mut self) {
        self.room.awaited = less(self.room.awaited);
    }

    /// The server had no room for a statement on a backend, after so many attempts before this one: with which count to go on, if one more
    /// makes sense.
    pub(super) fn room_may_come(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        clients: &Table<ClientKey, Client>,
        sessions: &mut SessionTables,
        key: BackendKey,
        tries: u8,
    ) -> Option<u8> {
        if tries > 0 && self.room.is_awaited(now) {
            return Some(tries);
        }
        if tries % MAKE_AGAIN == 0 {
            let closed = self.make_room(now, clients, sessions, Some(key));
            let asked = self.ask_others_for_room(now, pool);
            // What others are preparing just now can be closed in a moment.
            let soon =
                self.backends.iter().any(|(other, _)| other != key && self.is_preparing(clients, other));
            if tries == 0 && !(closed || asked || soon) {
                return None;
            }
        }
        (tries + 1 < TRIES).then_some(tries + 1)
    }

    /// Another worker needs room on the server.
    pub(crate) fn make_room_for_worker(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        clients: &Table<ClientKey, Client>,
        sessions: &mut SessionTables,
        worker: usize,
    ) {
        self.make_room(now, clients, sessions, None);
        self.room.owed.push(worker);
        self.answer_for_room(pool);
    }

    /// The server has come to what was closed on a backend, or that has gone.
    pub(crate) fn closing_ended(&mut self, pool: &mut Pool) {
        self.room.closing = less(self.room.closing);
        self.answer_for_room(pool);
    }

    fn answer_for_room(&mut self, pool: &mut Pool) {
        if self.room.closing.is_none() {
            for worker in std::mem::take(&mut self.room.owed) {
                pool.write_letter(worker, Letter::RoomMade { server: self.key });
            }
        }
    }

    /// False where there are no others.
    fn ask_others_for_room(&mut self, now: Instant, pool: &mut Pool) -> bool {
        let others = pool.workers.count() as usize - 1;
        let from = pool.worker;
        if others > 0 && self.room.awaited.is_none() {
            self.room.awaited = Some((others, now));
            pool.write_to_others(&Letter::MakeRoom { server: self.key, from });
        }
        self.room.is_awaited(now)
    }

    /// Half of the statements on each backend go, but for what clients need that are about to execute one. Executions that are under way
    /// come before COM_STMT_CLOSE. False where there are none.
    fn make_room(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        sessions: &mut SessionTables,
        on: Option<BackendKey>,
    ) -> bool {
        let mut closed = false;
        let may_go = |&key: &BackendKey| Some(key) == on || !self.is_preparing(clients, key);
        let all: Vec<_> = self.backends.iter().map(|(key, _)| key).filter(may_go).collect();
        for backend in all {
            let mut some = false;
            for _ in 0..self.backends[backend].session.prepared.common().div_ceil(2) {
                some |= self.close_oldest(sessions, backend);
            }
            // On the others what runs there comes first.
            if some && self.backends[backend].is_idle() {
                self.idle.remove(backend);
                self.send_own(now, backend, &OwnStatement::ping(Owner::Closing));
                let (count, since) = self.room.closing.unwrap_or((0, now));
                self.room.closing = Some((count + 1, since));
            }
            closed |= some;
        }
        closed
    }

    /// Whether a client waits for what is done on its backend before its own statement: what it needs there has to stay.
    pub(super) fn is_preparing(&self, clients: &Table<ClientKey, Client>, key: BackendKey) -> bool {
        let holder = self.backends[key].holder.and_then(|client| clients.get(client));
        holder.is_some_and(|client| matches!(client.phase(), Phase::Preparing))
    }

    pub(super) fn close_oldest(&mut self, sessions: &mut SessionTables, key: BackendKey) -> bool {
        let oldest = self.backends[key].session.prepared.remove_oldest();
        if let Some((definition, id)) = oldest {
            self.prepared_is_closed(sessions, key, definition, id);
        }
        oldest.is_some()
    }

    /// A statement that stood on a backend has been taken out of its table.
    pub(super) fn prepared_is_closed(
        &mut self,
        sessions: &mut SessionTables,
        key: BackendKey,
        definition: DefinitionId,
        id: u32,
    ) {
        self.close_prepared(key, id);
        self.room.taken -= 1;
        sessions.release_definition(definition);
    }
}

/// One less to wait for.
fn less(awaited: Option<(usize, Instant)>) -> Option<(usize, Instant)> {
    awaited.map(|(count, since)| (count - 1, since)).filter(|&(count, _)| count > 0)
}
