//! Room for prepared statements on a server that has too little (`max_prepared_stmt_count`).
//!
//! The server refuses one more with error 1461. Then half of the statements on each backend are closed, the one used longest ago first,
//! here and at the other workers, and the statement is prepared again. COM_STMT_CLOSE has no answer. On a backend where nothing else runs a
//! ping behind it tells when the server has come to it. On others the answer to a request in flight tells. Where that takes longer
//! than a few attempts, the statement goes back to its queue, without its permit, until some room has come.

pub(crate) mod state;

use seam::Instant;

use self::state::{MADE_WITHIN, Waiting};
use crate::backend::to_server::own_statement::OwnStatement;
use crate::backend::to_server::prepared::Removed;
use crate::backend::{InFlight, Owner};
use crate::client::commands::prepared::PreparedStatements;
use crate::client::{Client, Phase};
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::pool::Pool;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::Need;
use crate::scheduling::scheduler::lane::Standing;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::workers::letter::Letter;

/// Most attempts to prepare a statement once room has been made, since others may take that room. So many attempts take some
/// milliseconds.
const TRIES: u8 = 50;

/// After each so many attempts room is made once more, or waited for where some is to come.
const MAKE_AGAIN: u8 = 8;

/// The fate of a statement for which the server had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutRoom {
    /// The statement is tried again at once, after so many attempts.
    TriedAgain(u8),
    /// The statement waits for room, without a permit.
    Waits,
    /// The client gets the server's error.
    Refused,
}

/// The outcome of closing statements to make room.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    some: bool,
    /// True where the server comes to some of them at once, and says nothing of it.
    at_once: bool,
}

impl Server {
    /// Notes that another worker has made room.
    pub(crate) fn room_was_made(&mut self) {
        self.prepared_statement_room.awaited = less(self.prepared_statement_room.awaited);
        self.prepared_statement_room.comes();
    }

    /// Decides about a request with a statement that the server had no room for on this backend, after its attempts before.
    pub(super) fn without_room(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        (clients, sessions): (&Table<ClientKey, Client>, &mut SessionTables),
        key: BackendKey,
        request: &Request,
    ) -> WithoutRoom {
        let (tries, until) = (request.tries.prepares, request.turn.room_until());
        let may_wait = tries > 0 && until.is_none_or(|until| now < until);
        // Where the backend is to go, a KILL QUERY may be on its way there, which is to meet this statement.
        let stays = !self.backends[key].is_closed_afterwards();
        let is_due = tries % MAKE_AGAIN == 0;
        if is_due && may_wait && stays && self.prepared_statement_room.is_awaited(now) {
            return WithoutRoom::Waits;
        }
        if is_due {
            let made = self.make_room(now, clients, sessions, Some(key));
            let asked = self.ask_others_for_room(now, pool);
            // What others are preparing just now can be closed in a moment.
            let soon =
                self.backends.iter().any(|(other, _)| other != key && self.is_preparing(clients, other));
            if tries == 0 && !(made.some || asked || soon) {
                return WithoutRoom::Refused;
            }
        }
        if tries + 1 < TRIES { WithoutRoom::TriedAgain(tries + 1) } else { WithoutRoom::Refused }
    }

    /// Makes room on the server for another worker.
    pub(crate) fn make_room_for_worker(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        clients: &Table<ClientKey, Client>,
        sessions: &mut SessionTables,
        worker: usize,
    ) {
        let made = self.make_room(now, clients, sessions, None);
        self.prepared_statement_room.owed.push(worker);
        // Else the first answer tells of room.
        if made.at_once || !self.prepared_statement_room.stands_behind(now) {
            self.answer_for_room(pool);
        }
    }

    /// Notes that the server has come to the statements closed on a backend, or that the backend has gone.
    pub(crate) fn closing_ended(&mut self, pool: &mut Pool) {
        self.prepared_statement_room.closing = less(self.prepared_statement_room.closing);
        self.prepared_statement_room.comes();
        self.answer_for_room(pool);
    }

    /// Notes the answer to a statement in flight on a backend: the server has come to the statements that were closed before that answer.
    pub(in crate::backend) fn answered_before_closing(&mut self, pool: &mut Pool, key: BackendKey) {
        if self.prepared_statement_room.note_answer(key) {
            self.prepared_statement_room.comes();
            self.answer_for_room(pool);
        }
    }

    /// Notes that all statements prepared on a backend have gone, with it or with its session.
    pub(in crate::backend) fn all_is_closed(&mut self, pool: &mut Pool, key: BackendKey) {
        self.prepared_statement_room.note_gone(key);
        self.answer_for_room(pool);
    }

    fn answer_for_room(&mut self, pool: &mut Pool) {
        if self.prepared_statement_room.closing.is_none() {
            for worker in std::mem::take(&mut self.prepared_statement_room.owed) {
                pool.write_letter(worker, Letter::RoomMade { server: self.key });
            }
        }
    }

    /// Asks the other workers to make room. True where room is to come.
    fn ask_others_for_room(&mut self, now: Instant, pool: &mut Pool) -> bool {
        let others = pool.workers.count() as usize - 1;
        let from = pool.worker;
        // One that does not answer has a statement that does not end, perhaps, and may have others by now.
        if others > 0 && !self.prepared_statement_room.awaits_others(now) {
            let unanswered = self.prepared_statement_room.awaited.map_or(0, |(count, _)| count);
            self.prepared_statement_room.awaited = Some((unanswered + others, now));
            pool.write_to_others(&Letter::MakeRoom { server: self.key, from });
        }
        self.prepared_statement_room.is_awaited(now)
    }

    /// Closes half of the statements on each backend, but leaves backends alone where a client is about to execute one. Executions that are
    /// under way come before COM_STMT_CLOSE.
    fn make_room(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        sessions: &mut SessionTables,
        on: Option<BackendKey>,
    ) -> Made {
        let mut made = Made::default();
        let may_go = |&key: &BackendKey| Some(key) == on || !self.is_to_be_left_alone(clients, key);
        let all: Vec<_> = self.backends.iter().map(|(key, _)| key).filter(may_go).collect();
        for backend in all {
            let mut some = false;
            for _ in 0..self.backends[backend].session.prepared.common().div_ceil(2) {
                some |= self.close_oldest(sessions, backend);
            }
            let in_flight = self.backends[backend].in_flight.len();
            if some && self.backends[backend].is_idle() {
                self.idle.remove(backend);
                self.send_own(now, backend, &OwnStatement::ping(Owner::Closing));
                let (count, since) = self.prepared_statement_room.closing.unwrap_or((0, now));
                self.prepared_statement_room.closing = Some((count + 1, since));
            } else if some && in_flight > 0 {
                self.prepared_statement_room.note_behind(now, backend, in_flight);
            } else {
                // Its client has it, and would find a ping in what ROW_COUNT() says.
                made.at_once |= some;
            }
            made.some |= some;
        }
        made
    }

    /// Says whether nothing may be closed on a backend: its client is preparing, or may send a file, where a COM_STMT_CLOSE would stand.
    pub(super) fn is_to_be_left_alone(&self, clients: &Table<ClientKey, Client>, key: BackendKey) -> bool {
        let sends = |statement: &InFlight| match statement.owner {
            Owner::Client { client, .. } => clients.get(client).is_some_and(Client::may_send_more),
            _ => false,
        };
        self.is_preparing(clients, key) || self.backends[key].in_flight.iter().any(sends)
    }

    /// Says whether a client waits for steps on its backend before its own statement: the statements that it needs there have to stay.
    fn is_preparing(&self, clients: &Table<ClientKey, Client>, key: BackendKey) -> bool {
        let holder = self.backends[key].holder.and_then(|client| clients.get(client));
        holder.is_some_and(|client| matches!(client.phase(), Phase::Preparing))
    }

    pub(in crate::backend) fn close_oldest(&mut self, sessions: &mut SessionTables, key: BackendKey) -> bool {
        let oldest = self.backends[key].session.prepared.remove_oldest();
        let is_there = oldest.is_some();
        if let Some(oldest) = oldest {
            self.prepared_is_closed(sessions, key, oldest);
        }
        is_there
    }

    /// Closes a statement on the server that has been taken out of its backend's table.
    pub(super) fn prepared_is_closed(
        &mut self,
        sessions: &mut SessionTables,
        key: BackendKey,
        Removed { held, id }: Removed,
    ) {
        self.close_prepared(key, id);
        self.prepared_statement_room.taken -= 1;
        sessions.release_definition(held);
    }
}

impl PreparedStatements<'_> {
    /// Has a client's statement wait for room on its backend's server. The client keeps a backend that has something of its own.
    pub(in crate::backend) fn wait_for_room(&mut self, backend: BackendKey, key: ClientKey) {
        let (server, client) = (self.servers.of_mut(backend), &mut self.clients[key]);
        client.wait_for_room();
        let lets_go = !client.has_own_on(backend);
        let request = client.request.as_mut().expect("a statement that waits is there");
        // As behind the first attempt: room has been made.
        request.tries.prepares = 1;
        let until = request.turn.wait_for_room(self.now + MADE_WITHIN);
        server.prepared_statement_room.wait(Waiting { client: ClientRef { key, id: client.id }, until });
        if lets_go {
            request.prepared = false;
            client.backend = None;
            client.transaction.blocks_nobody();
            server.backends[backend].holder = None;
        }
    }
}

impl Scheduling {
    /// Returns the time at which the next statement that is delayed, or waits for room on its server, goes back to its place.
    pub(crate) fn next_end_of_delays(&self, now: Instant, servers: &Servers) -> Option<Instant> {
        let room = servers.iter().filter_map(|server| server.prepared_statement_room.next_end(now)).min();
        self.delayed.next_end().into_iter().chain(room).min()
    }

    /// Puts statements that have waited for room back into their queues, since some room may be there by now.
    pub(crate) fn end_waits_for_room(
        &mut self,
        now: Instant,
        clients: &mut Table<ClientKey, Client>,
        servers: &mut Servers,
    ) {
        let over: Vec<_> =
            servers.iter_mut().flat_map(|server| server.prepared_statement_room.take_waiting(now)).collect();
        for Waiting { client, until } in over {
            let key = client.key;
            // It may have been killed or have gone, and the client may have come to its next statement since.
            let waits = clients.find(client).is_some_and(|client| {
                let of_it = client.request.as_ref().is_some_and(|it| it.turn.room_until() == Some(until));
                of_it && matches!(client.phase(), Phase::Queued) && self.scheduler.waits_in(key).is_none()
            });
            if !waits {
                continue;
            }
            let keeps_permit = clients[key].has_kept_permit(servers);
            let client = &mut clients[key];
            let (holds, began) = (client.backend.is_some(), client.transaction.began());
            let request = client.request.as_mut().expect("looked at");
            if keeps_permit {
                request.turn.waits_for_no_permit();
            }
            if request.turn.is_urgent() {
                self.urgent.push((ClientRef { key, id: client.id }, now));
                continue;
            }
            let lane = request.turn.waits_again(&self.holdups, now);
            let need = if holds { Need::Holds } else { Need::Any };
            let standing = Standing { began, ..Standing::default() };
            self.scheduler.enqueue(now, key, lane, need, standing);
        }
    }
}

impl Client {
    /// Says whether the client cannot leave its backend: something there is the client's own, which it cannot have elsewhere. Or the client
    /// sends more than the server takes there.
    fn has_own_on(&self, backend: BackendKey) -> bool {
        self.in_transaction()
            || self.backpressure.has_slow_server()
            || !self.session.pins().is_empty()
            || self.session.unreported().is_some()
            || self.session.aftermath.left_insert_id_at(backend)
    }
}

/// Counts one down of those that are waited for.
fn less(awaited: Option<(usize, Instant)>) -> Option<(usize, Instant)> {
    awaited.map(|(count, since)| (count - 1, since)).filter(|&(count, _)| count > 0)
}

#[cfg(test)]
mod tests;
