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
use crate::workers::letter::{Kill, Killed, Letter, Outcome, Rights};

/// The id of the first client: half of what the four bytes of a greeting can say.
pub(crate) const FIRST_ID: u32 = 1 << 31;

/// A shared read that has not moved for so long is held up by a lock; it will not end in the moment that a KILL takes.
const STUCK: std::time::Duration = std::time::Duration::from_secs(1);

/// How long another worker may take to answer a KILL. Its turns are milliseconds.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

impl Engine {
    /// An id that no client has now. Ids of one worker are a pool's number of workers apart, so that an id says whose it is.
    pub(crate) fn next_client_id(&mut self) -> u32 {
        let count = self.workers.count();
        loop {
            let turn = self.last_client_id.wrapping_add(1) % (FIRST_ID / count);
            self.last_client_id = turn;
            let id = FIRST_ID | (turn * count + u32::try_from(self.worker).expect("one of a u32"));
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
    pub(crate) fn kill_statement(&mut self, key: usize, target: KillTarget, answer: u8) -> bool {
        let id = target.id.and_then(|id| u32::try_from(id).ok());
        let Some(victim) = id.filter(|&id| id >= FIRST_ID) else { return false };
        let query_only = target.query_only;
        if victim == self.clients[key].id {
            self.kill_itself(key, query_only, answer);
            return true;
        }
        let Some(identity) = self.clients[key].identity else { return false };
        let rights = Rights::of(&self.identities.identity(identity).account);
        let owner = ((victim - FIRST_ID) % self.workers.count()) as usize;
        if owner == self.worker {
            let outcome = self.kill_victim(victim, query_only, &rights);
            self.kill_settled(key, victim, outcome, answer);
        } else {
            self.clients[key].phase = Phase::Killing { answer, victim, since: self.now };
            let killer = (key, self.clients[key].id);
            let kill = Kill { from: self.worker, killer, victim, query_only, rights };
            self.write_letter(owner, Letter::Kill(kill));
        }
        true
    }

    /// A client that kills itself hears of it as the servers say it.
    fn kill_itself(&mut self, key: usize, query_only: bool, answer: u8) {
        if query_only {
            return self.answer_error(key, answer, &MySqlError::interrupted());
        }
        self.answer_error(key, answer, &MySqlError::killed());
        self.close_client(key, "killed");
    }

    /// Another worker's client wants one of ours killed.
    pub(crate) fn kill_for_worker(&mut self, kill: &Kill) {
        let outcome = self.kill_victim(kill.victim, kill.query_only, &kill.rights);
        let killed = Killed { killer: kill.killer, victim: kill.victim, outcome };
        self.write_letter(kill.from, Letter::Killed(killed));
    }

    /// Another worker has done what a client of ours asked for, unless that has gone meanwhile.
    pub(crate) fn killed_by_worker(&mut self, killed: &Killed) {
        let (key, id) = killed.killer;
        let Some(client) = self.clients.get_mut(key).filter(|client| client.id == id) else { return };
        let Phase::Killing { answer, victim, .. } = client.phase else { return };
        if victim == killed.victim {
            client.phase = Phase::Idle;
            self.resume.push(key);
            self.kill_settled(key, victim, killed.outcome, answer);
        }
    }

    /// A worker that does not answer has ended, and its clients with it.
    pub(crate) fn give_up_kills(&mut self) {
        let over: Vec<_> = self
            .clients
            .iter()
            .filter_map(|(key, client)| match client.phase {
                Phase::Killing { answer, victim, since } if self.now.since(since) >= ANSWER_TIMEOUT => {
                    Some((key, answer, victim))
                }
                _ => None,
            })
            .collect();
        for (key, answer, victim) in over {
            self.clients[key].phase = Phase::Idle;
            self.resume.push(key);
            self.kill_settled(key, victim, Outcome::NoSuchClient, answer);
        }
    }

    fn kill_settled(&mut self, killer: usize, victim: u32, outcome: Outcome, answer: u8) {
        let victim = u64::from(victim);
        match outcome {
            Outcome::Done => self.answer_ok(killer, answer),
            Outcome::NoSuchClient => self.answer_error(killer, answer, &MySqlError::no_such_client(victim)),
            Outcome::Denied => self.answer_error(killer, answer, &MySqlError::kill_denied(victim)),
            Outcome::AskServer(thread_id) => self.queue_kill(killer, thread_id, true),
        }
    }

    fn kill_victim(&mut self, id: u32, query_only: bool, rights: &Rights) -> Outcome {
        let Some(&victim) = self.client_ids.get(&id) else { return Outcome::NoSuchClient };
        let account =
            self.clients[victim].identity.map(|identity| &self.identities.identity(identity).account);
        if !account.is_some_and(|account| rights.cover(account)) {
            return Outcome::Denied;
        }
        self.end_for_client(victim, query_only)
    }

    /// Ends what a client does, or the client itself, as far as that can be done here.
    pub(crate) fn end_for_client(&mut self, victim: usize, query_only: bool) -> Outcome {
        match self.clients[victim].phase {
            Phase::Preparing | Phase::Running(_) => self.kill_running(victim, query_only),
            Phase::Queued | Phase::Following { .. } if query_only => {
                self.note_abandoned_wait(victim);
                self.cancel_queued(victim, &MySqlError::interrupted());
                Outcome::Done
            }
            _ if query_only => Outcome::Done,
            _ => {
                self.close_client(victim, "killed");
                Outcome::Done
            }
        }
    }

    /// The server ends the statement, asked by the killer's own account. The backend is not used again afterwards: a
    /// late KILL must not hit the statement of another client.
    fn kill_running(&mut self, victim: usize, query_only: bool) -> Outcome {
        if self.hand_over(victim) {
            // Others wait for the same answer; only the victim goes without.
            self.clients[victim].phase = Phase::Queued;
            match query_only {
                true => self.cancel_queued(victim, &MySqlError::interrupted()),
                false => self.close_client(victim, "killed"),
            }
            return Outcome::Done;
        }
        let Some(backend) = self.clients[victim].backend else { return Outcome::Done };
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
            return Outcome::Done;
        }
        backend.afterwards = Afterwards::Close;
        let thread_id = u64::from(backend.thread_id);
        self.clients[victim].killed = !query_only;
        Outcome::AskServer(thread_id)
    }

    fn queue_kill(&mut self, killer: usize, thread_id: u64, query_only: bool) {
        let text = format!("KILL {}{thread_id}", if query_only { "QUERY " } else { "" });
        let request = Request::query(&text);
        self.queue_request(killer, Request { urgent: true, ..request });
    }
}
