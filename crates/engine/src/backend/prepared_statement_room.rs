//! Room for prepared statements on a server that has too little (`max_prepared_stmt_count`).
//!
//! The server refuses one more with error 1461. Then half of what is prepared on each backend is closed, the one that was used
//! longest ago first, here and at the other workers, and the statement is prepared again. COM_STMT_CLOSE has no answer: on
//! backends where nothing else runs a ping behind it tells when the server has come to it.

use seam::Instant;
use wire::{CommandKind, Expect};

use super::Owner;
use crate::engine::Engine;
use crate::ids::{BackendKey, ServerKey};
use crate::server::Server;
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
}

impl Engine {
    /// The server had no room for a statement, after so many attempts before this one: with which count to go on, if one more
    /// makes sense.
    pub(crate) fn room_may_come(&mut self, key: BackendKey, tries: u8) -> Option<u8> {
        if tries > 0 && self.servers.of(key).room.is_awaited(self.now) {
            return Some(tries);
        }
        if tries % MAKE_AGAIN == 0 {
            let closed = self.make_room(key.server(), Some(key));
            let asked = self.ask_others_for_room(key.server());
            // What others are preparing just now can be closed in a moment.
            let soon = self
                .servers
                .of(key)
                .backends
                .iter()
                .any(|(other, _)| other != key && self.is_preparing(other));
            if tries == 0 && !(closed || asked || soon) {
                return None;
            }
        }
        (tries + 1 < TRIES).then_some(tries + 1)
    }

    /// Another worker needs room on a server.
    pub(crate) fn make_room_for_worker(&mut self, server: ServerKey, worker: usize) {
        self.make_room(server, None);
        self.servers[server].room.owed.push(worker);
        self.answer_for_room(server);
    }

    /// A server has come to what was closed on a backend, or that has gone.
    pub(crate) fn closing_ended(&mut self, server: ServerKey) {
        let room = &mut self.servers[server].room;
        room.closing = less(room.closing);
        self.answer_for_room(server);
    }

    fn answer_for_room(&mut self, server: ServerKey) {
        let room = &mut self.servers[server].room;
        if room.closing.is_none() {
            for worker in std::mem::take(&mut room.owed) {
                self.pool.write_letter(worker, Letter::RoomMade { server });
            }
        }
    }

    /// False where there are no others.
    fn ask_others_for_room(&mut self, server: ServerKey) -> bool {
        let others = self.pool.workers.count() as usize - 1;
        let from = self.pool.worker;
        let room = &mut self.servers[server].room;
        if others > 0 && room.awaited.is_none() {
            room.awaited = Some((others, self.now));
            self.pool.write_to_others(&Letter::MakeRoom { server, from });
        }
        room.is_awaited(self.now)
    }

    /// Half of the statements on each backend of a server go, but for what clients need that are about to execute one. Executions that are
    /// under way come before COM_STMT_CLOSE. False where there are none.
    fn make_room(&mut self, server: ServerKey, on: Option<BackendKey>) -> bool {
        let mut closed = false;
        let may_go = |&key: &BackendKey| Some(key) == on || !self.is_preparing(key);
        let all: Vec<_> = self.servers[server].backends.iter().map(|(key, _)| key).filter(may_go).collect();
        for backend in all {
            let mut some = false;
            for _ in 0..self.servers[backend].session.prepared.common().div_ceil(2) {
                some |= self.close_oldest(backend);
            }
            // On the others what runs there comes first.
            if some && self.servers[backend].is_idle() {
                self.servers[server].idle.remove(backend);
                self.send_own(backend, Owner::Closing, CommandKind::Ping, b"", Expect::Simple, 0);
                let room = &mut self.servers[server].room;
                let (count, since) = room.closing.unwrap_or((0, self.now));
                room.closing = Some((count + 1, since));
            }
            closed |= some;
        }
        closed
    }
}

/// One less to wait for.
fn less(awaited: Option<(usize, Instant)>) -> Option<(usize, Instant)> {
    awaited.map(|(count, since)| (count - 1, since)).filter(|&(count, _)| count > 0)
}
