//! KILL, by the ids that clients see.
//!
//! Ids of clients start at [`FIRST_ID`], above any thread id that a server reaches in practice, so that an id read from
//! the server's own PROCESSLIST means the server's thread: such a KILL goes to the server as it is.

use sql::KillTarget;
use wire::Expect;

use super::Phase;
use crate::backend::{Afterwards, Owner};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::request::{Request, RequestKind};

/// The id of the first client: half of what the four bytes of a greeting can say.
pub(crate) const FIRST_ID: u32 = 1 << 31;

/// A shared read that has not moved for so long is held up by a lock; it will not end in the moment that a KILL takes.
const STUCK: std::time::Duration = std::time::Duration::from_secs(1);

impl Engine {
    /// An id that no client has now.
    pub(crate) fn next_client_id(&mut self) -> u32 {
        loop {
            let id = FIRST_ID | (self.last_client_id.wrapping_add(1) & (FIRST_ID - 1));
            self.last_client_id = id;
            if !self.client_ids.contains_key(&id) {
                return id;
            }
        }
    }

    /// COM_PROCESS_KILL.
    pub(crate) fn kill_command(&mut self, key: usize, id: u64, answer: u8) {
        let target = KillTarget { query_only: false, id: Some(id) };
        if !self.kill_statement(key, target, answer) {
            self.queue_kill(key, id, false);
        }
    }

    /// A KILL statement.
    pub(crate) fn kill_query(&mut self, key: usize, target: KillTarget, raw: &[u8], answer: u8) {
        if !self.kill_statement(key, target, answer) {
            let request = Request::plain(raw.to_vec(), Expect::ResultSets, RequestKind::Query);
            self.queue_request(key, Request { urgent: true, answer, ..request });
        }
    }

    /// Does what a KILL of a client of ours asks for. False where it concerns none: then the server decides.
    fn kill_statement(&mut self, key: usize, target: KillTarget, answer: u8) -> bool {
        let Some(id) = target.id.filter(|&id| id >= u64::from(FIRST_ID) && id <= u64::from(u32::MAX)) else {
            return false;
        };
        let victim = u32::try_from(id).ok().and_then(|id| self.client_ids.get(&id).copied());
        let Some(victim) = victim else {
            self.answer_error(key, answer, &MySqlError::no_such_client(id));
            return true;
        };
        if !self.may_kill(key, victim) {
            self.answer_error(key, answer, &MySqlError::kill_denied(id));
            return true;
        }
        self.kill_client(key, victim, target.query_only, answer);
        true
    }

    /// The servers' rule: one's own connections, or all with SUPER or CONNECTION ADMIN.
    fn may_kill(&self, killer: usize, victim: usize) -> bool {
        let account = |key: usize| {
            self.clients[key].identity.map(|identity| &self.identities.identity(identity).account)
        };
        let (Some(killer), Some(victim)) = (account(killer), account(victim)) else { return false };
        killer.may_kill || (killer.user == victim.user && killer.host == victim.host)
    }

    fn kill_client(&mut self, killer: usize, victim: usize, query_only: bool, answer: u8) {
        match self.clients[victim].phase {
            Phase::Queued => {
                if query_only {
                    self.cancel_queued(victim, &MySqlError::interrupted());
                } else {
                    self.close_client(victim, "killed");
                }
                self.kill_done(killer, victim, query_only, answer);
            }
            Phase::Preparing | Phase::Running(_) if killer != victim => {
                self.kill_running(killer, victim, query_only, answer);
            }
            _ => {
                self.kill_done(killer, victim, query_only, answer);
                if !query_only && self.clients.contains(victim) {
                    self.close_client(victim, "killed");
                }
            }
        }
    }

    /// A client that kills itself hears of it as the servers say it.
    fn kill_done(&mut self, killer: usize, victim: usize, query_only: bool, answer: u8) {
        match (killer == victim, query_only) {
            (false, _) => self.answer_ok(killer, answer),
            (true, true) => self.answer_error(killer, answer, &MySqlError::interrupted()),
            (true, false) => self.answer_error(killer, answer, &MySqlError::killed()),
        }
    }

    /// The server ends the statement, asked by the killer's own account. The backend is not used again afterwards: a
    /// late KILL must not hit the statement of another client.
    fn kill_running(&mut self, killer: usize, victim: usize, query_only: bool, answer: u8) {
        let Some(backend) = self.clients[victim].backend else {
            return self.answer_ok(killer, answer);
        };
        let backend = &mut self.backends[backend];
        let others = backend
            .in_flight
            .iter()
            .any(|other| matches!(other.owner, Owner::Client { client, .. } if client != victim));
        let stuck = backend.answers(victim) && self.now.since(backend.first_since) > STUCK;
        if others && !stuck {
            // Short reads share this backend; a KILL could hit any of them, and they end by themselves at once.
            if !query_only {
                self.close_client(victim, "killed");
            }
            return self.answer_ok(killer, answer);
        }
        backend.afterwards = Afterwards::Close;
        let thread_id = u64::from(backend.thread_id);
        self.clients[victim].killed = !query_only;
        self.queue_kill(killer, thread_id, true);
    }

    fn queue_kill(&mut self, killer: usize, thread_id: u64, query_only: bool) {
        let text = format!("KILL {}{thread_id}", if query_only { "QUERY " } else { "" });
        let request = Request::query(&text);
        self.queue_request(killer, Request { urgent: true, ..request });
    }
}
