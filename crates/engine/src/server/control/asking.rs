//! The times at which the service account asks a server its questions.

use seam::Instant;
use wire::{CommandKind, ReplyReader};

use super::answer::Kept;
use super::backend_limit;
use super::defaults;
use super::facts::{COLLATIONS_QUERY, NO_LIMITS};
use super::question::Question;
use super::state::State;
use crate::backend::to_server::message::reply_options;
use crate::cluster::reading::NO_SYNC_WAIT;
use crate::pool::Pool;
use crate::scheduling::learned::lock_waits::told::GATE_QUERY;
use crate::server::Server;
use crate::settings::Settings;

impl Server {
    pub(super) fn next_look_at_defaults(&self, settings: &Settings) -> Option<Instant> {
        self.control.defaults.next(settings.accounts_refresh)
    }

    pub(super) fn next_look_at_backend_limit(&self, settings: &Settings, pool: &Pool) -> Option<Instant> {
        self.control.backend_limit.next_look(settings, pool)
    }

    /// The server's answer to that; `None` where it has refused to give one.
    pub(super) fn take_limit(&self, settings: &Settings, pool: &Pool, answer: Option<&[u8]>) {
        backend_limit::take(settings, pool, self.facts.as_ref().expect("known before it is asked"), answer);
    }

    /// The question that is due now, as far as the server alone decides that.
    pub(super) fn due_question(&self, now: Instant, settings: &Settings, pool: &Pool) -> Option<Question> {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        // Clients wait for the answer.
        if self.control.position.comes_first(now) {
            return Some(Question::Position);
        }
        if is_due(self.control.next_refresh(settings.accounts_refresh)) {
            return Some(if self.doubts_rights() { Question::Changes } else { Question::Probe });
        }
        if is_due(self.next_look_at_defaults(settings)) {
            return Some(Question::Defaults);
        }
        if is_due(self.next_look_at_backend_limit(settings, pool)) {
            return Some(Question::Backends);
        }
        if is_due(self.next_look_at_peers(now, settings, pool)) {
            return Some(Question::Peers(self.control.peers.first_question(now)));
        }
        self.rescues.asks_for_functions().then_some(Question::Functions)
    }

    /// Sends a question; the server has nothing else to answer.
    pub(super) fn ask(&mut self, now: Instant, question: Question) {
        let facts = self.pending_facts.as_ref().or(self.facts.as_ref()).expect("known since the login");
        let (of_peers, of_code);
        let text = match question {
            Question::Limits => NO_LIMITS,
            Question::NoSyncWait => NO_SYNC_WAIT,
            Question::Collations => COLLATIONS_QUERY,
            Question::Server => facts.server_query(),
            Question::Changes => facts.changes_query(),
            Question::Accounts => facts.accounts_query(),
            Question::Probe => facts.accounts_probe(),
            Question::Defaults => defaults::QUERY,
            Question::Backends => {
                backend_limit::query(self.facts.as_ref().expect("asked for once the server is known"))
            }
            Question::LockGate => GATE_QUERY,
            Question::LockWaits => facts.lock_waits_query(),
            Question::OtherWaiters => facts.waiters_query(),
            Question::Functions => facts.functions_query(),
            Question::Code(question) => {
                of_code = self.code_text(question);
                &of_code
            }
            Question::Position => self.control.position.query(facts),
            Question::Peers(question) => {
                of_peers = self.control.peers.text(question);
                &of_peers
            }
        };
        let options = reply_options(self.control.capabilities, wire::Capabilities::DEPRECATE_EOF, 0, 1);
        self.control.position.is_asked(now, question == Question::Position);
        if question == Question::Changes {
            self.note_question_for_changes();
        }
        let control = &mut self.control;
        if matches!(question, Question::Accounts | Question::Probe) {
            control.copies.is_asked_for();
        }
        match question {
            Question::Defaults => control.defaults.are_asked_for(now),
            Question::Backends => control.backend_limit.is_asked_for(now),
            Question::Peers(question) => control.peers.is_asked(now, question),
            _ => {}
        }
        let start = wire::begin_packet(&mut control.out);
        control.out.push(CommandKind::Query as u8);
        control.out.extend_from_slice(text.as_bytes());
        wire::end_packet(&mut control.out, start, &mut 0);
        control.since = now;
        let reader = Box::new(ReplyReader::new(wire::Expect::ResultSets, options));
        let of_code = matches!(question, Question::Code(_));
        control.state = State::Asking { question, reader, answer: Kept { of_code, ..Kept::default() } };
    }
}
