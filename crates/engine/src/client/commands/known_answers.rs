//! Statements about session state with answers that are known.
//!
//! The effect of a plain SET follows from its text and from the session state before it. So the server is asked once. The words
//! of its trackers and its OK hold for everybody in the same state: the client's state changes here, and goes ahead of its next
//! statement as ever. A SELECT of nothing but variables that the client itself has set shows values of that state: the server's
//! own packets are sent again. So statements that libraries send with each connection or transaction cost no backend.

use std::rc::Rc;

use sql::{CharsetSetting, Classification, Kind};

use crate::backend::Summary;
use crate::client::Client;
use crate::request::Request;
use crate::session::known_answers::{Answer, AnswerState, HeldState, KnownQuestion};
use crate::session::{SessionTables, Sessions, WAIT_TIMEOUT, other_name};
use crate::settings::{Settings, ThreadHandling};

/// Bytes of a packet's header and an OK with nothing in it: no counts, no id, no warnings, no words.
const BARE_OK: u64 = wire::HEADER_LEN as u64 + 7;

/// Bytes of the largest answer that is remembered: so much is a dozen variables.
pub(crate) const LARGEST_REMEMBERED: usize = 2048;

impl SessionTables {
    /// Says whether nothing has changed that the text of a SET does not name. A server may report with it what a
    /// statement before it has done.
    fn is_what_the_text_sets(
        &self,
        statement: &Classification,
        before: AnswerState,
        after: AnswerState,
    ) -> bool {
        let timeout = before.wait_timeout != after.wait_timeout;
        let (before, after) = (self.states.state(before.session), self.states.state(after.session));
        let of_transaction = |name: &[u8]| name.starts_with(b"tx_") || name.starts_with(b"transaction_");
        // SET SESSION TRANSACTION assigns to nothing by name.
        let none = statement.variables.all.is_empty() && statement.charset == CharsetSetting::Untouched;
        let named = |name: &[u8]| {
            let other = other_name(name);
            statement.variables.all.iter().any(|set| **set == *name || other == Some(&**set))
                || (none && of_transaction(name))
        };
        let charset = statement.charset != CharsetSetting::Untouched || before.charset == after.charset;
        let timeout = timeout.then_some(WAIT_TIMEOUT);
        charset && before.schema == after.schema && before.changed_variables(after).chain(timeout).all(named)
    }
}

/// The known answer to a statement.
pub(in crate::client) enum FoundAnswer {
    /// None: the server has to be asked.
    Nothing,
    /// None: the server has to be asked, and its answer is to be remembered.
    NotYet(KnownQuestion),
    /// An OK that tells of these changes. The client is in the state behind it already.
    Set(Rc<[u8]>),
    /// These packets.
    Show(Rc<[u8]>),
}

impl SessionTables {
    /// Answers a statement with its known answer, by which its client's state changes.
    pub(in crate::client) fn known_answer(
        &mut self,
        settings: &Settings,
        client: &mut Client,
        statement: &Classification,
        text: &[u8],
        answer: u8,
    ) -> FoundAnswer {
        let Some(question) = client.question(settings, &self.states, statement, text, answer) else {
            return FoundAnswer::Nothing;
        };
        let before = client.state_of_session();
        match self.known_answers.get(question.text(), before) {
            Some(Answer::Set { after, changes }) => {
                let charset = |session| &self.states.state(session).charset;
                if client.variables_depend_on(charset(before.session), charset(after.session)) {
                    // They keep their client where they are.
                    return FoundAnswer::Nothing;
                }
                let held = self.states.hold_again(after.session);
                client.session.becomes(held, &mut self.states);
                client.session.status = after.status;
                client.session.wait_timeout = after.wait_timeout;
                client.session.aftermath.changed_no_rows();
                FoundAnswer::Set(changes)
            }
            Some(Answer::Show(packets)) => {
                client.session.aftermath.has_no_row_count();
                client.session.aftermath.found(1);
                FoundAnswer::Show(packets)
            }
            None => FoundAnswer::NotYet(question),
        }
    }

    /// Returns the state before a client's statement, and holds it, where the answer to the statement may be remembered.
    pub(crate) fn state_to_remember(&mut self, client: &Client, request: &Request) -> Option<HeldState> {
        request.remember.as_ref()?;
        Some(client.state_of_session().held(&mut self.states))
    }

    /// Remembers the effect of a client's statement, if that is all of it.
    pub(crate) fn remember_answer(
        &mut self,
        client: &Client,
        request: &mut Request,
        held: HeldState,
        summary: &Summary,
    ) {
        let before = held.state();
        let after = client.state_of_session();
        let plain = summary.error.is_none()
            && summary.warnings == 0
            && client.session.pins.is_empty()
            && client.session.unreported.is_none()
            && !client.in_transaction();
        match request.remember.take() {
            Some(KnownQuestion::Set(text))
                if plain
                    && summary.relayed == BARE_OK + summary.told
                    && self.is_what_the_text_sets(&request.statement, before, after) =>
            {
                let changes = summary.raw_changes.as_slice().into();
                let answer = Answer::Set { after, changes };
                self.known_answers.insert(&mut self.states, &text, held, answer);
            }
            // With other flags, such as that it was slow, it is an answer to this execution alone.
            Some(KnownQuestion::Show(text))
                if plain
                    && summary.counts.rows == Some(1)
                    && summary.has_kept_all()
                    && summary.told == 0
                    && after == before
                    && summary.status == Some(before.status) =>
            {
                let answer = Answer::Show(summary.kept_answer.as_slice().into());
                self.known_answers.insert(&mut self.states, &text, held, answer);
            }
            _ => held.release(&mut self.states),
        }
    }
}

impl Client {
    /// Returns the question that a statement is, if the session state alone decides on its answer.
    fn question(
        &self,
        settings: &Settings,
        sessions: &Sessions,
        statement: &Classification,
        text: &[u8],
        answer: u8,
    ) -> Option<KnownQuestion> {
        let alone =
            statement.effects.is_empty() && statement.variables.unreported.is_empty() && !statement.several;
        match statement.kind {
            _ if !alone || !self.holds_nothing(settings) => None,
            Kind::Set => {
                let told =
                    matches!(statement.charset, CharsetSetting::Untouched | CharsetSetting::Names { .. });
                let plain = if told { sql::plain_set(text) } else { None };
                plain.map(|plain| KnownQuestion::Set(plain.into()))
            }
            Kind::Select if statement.calls.is_empty() && answer == 1 => {
                let shown = sql::shown_variables(text)?;
                let variables = &sessions.state(self.session.id()?).variables;
                // The others are as on the server when a backend connected: nobody knows for how long.
                let is_known = |name: &[u8]| {
                    variables.contains_key(name)
                        || (name == WAIT_TIMEOUT && self.session.wait_timeout.is_some())
                };
                if !shown.iter().all(|name| is_known(name)) {
                    return None;
                }
                // No SET begins with a zero.
                let mut question = vec![0];
                question.extend(self.capabilities.0.to_le_bytes());
                question.extend_from_slice(text);
                Some(KnownQuestion::Show(question.into()))
            }
            _ => None,
        }
    }

    /// Says whether the client holds nothing on any backend.
    fn holds_nothing(&self, settings: &Settings) -> bool {
        settings.lazy_set
            && settings.thread_handling == ThreadHandling::PoolOfThreads
            && self.backend.is_none()
            && self.session.pins.is_empty()
            && self.session.unstarted().is_none()
            && !self.in_transaction()
    }

    fn state_of_session(&self) -> AnswerState {
        let session = self.session.id().expect("a client with commands has logged in");
        AnswerState { session, status: self.reader().status(), wait_timeout: self.session.wait_timeout }
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Program as _};

    use crate::client::commands::command::tests::engine;
    use crate::session::known_answers::MOST;
    use crate::session::known_answers::tests::{set, state};
    use crate::settings::Settings;

    #[test]
    fn they_go_before_a_client_does_where_session_memory_is_used_up() {
        let mut engine = engine(8, Settings { session_memory: 1 << 20, ..Settings::default() });
        for number in 0..MOST {
            let states = &mut engine.sessions.states;
            let (before, after) = (state(states, &format!("{number:1024}")), state(states, "after"));
            engine.sessions.known_answers.insert(states, b"set", before, set(&after));
            after.release(states);
        }
        let (now, clients) = (engine.now, engine.clients.len());
        assert!(engine.client_memory.session_memory_held(&engine.sessions) > 1 << 20);
        engine.handle(now, Input::TurnEnd);
        assert!(engine.client_memory.session_memory_held(&engine.sessions) < 10_000);
        assert_eq!((engine.sessions.known_answers.bytes(), engine.clients.len()), (0, clients));
    }
}
