//! Statements about session state whose answer is known.
//!
//! What a plain SET does follows from its text and from the session state before it. So the server is asked once, and what its
//! trackers and its OK have said holds for everybody in the same state: the client's state changes here, and goes ahead of its
//! next statement as ever. A SELECT of nothing but variables that the client itself has set shows what is in that state: the
//! server's own packets are sent again. What libraries say with each connection or transaction costs no backend then.

use std::collections::BTreeMap;
use std::rc::Rc;

use sql::{CharsetSetting, Kind};
use wire::StatusFlags;

use super::Client;
use super::wait_timeout::WaitTimeout;
use crate::backend::Summary;
use crate::request::Request;
use crate::request::statement::Statement;
use crate::session::{SessionId, SessionTables, Sessions, WAIT_TIMEOUT, other_name};
use crate::settings::{Settings, ThreadHandling};

/// So many are remembered: a few texts in each of a few states are what an application says, and a host of tenants with a
/// schema each has as many states. About 200 bytes each, and what is peculiar to its states.
const MOST: usize = 1024;

/// A packet's header and an OK with nothing in it: no counts, no id, no warnings, no words.
const BARE_OK: u64 = wire::HEADER_LEN as u64 + 7;

/// Larger answers are not remembered: so much is a dozen variables.
pub(crate) const LARGEST_REMEMBERED: usize = 2048;

/// What the server has said.
#[derive(Default)]
pub(crate) struct KnownAnswers {
    /// By [`Question::text`].
    by_text: BTreeMap<Box<[u8]>, Vec<KnownAnswer>>,
    count: usize,
    /// See [`Self::bytes`].
    bytes: usize,
    /// How many have been asked for, which tells what was used longest ago.
    uses: u64,
}

/// A statement whose answer will be remembered.
pub(crate) enum Question {
    /// A SET in the form of [`sql::plain_set`].
    Set(Box<[u8]>),
    /// A SELECT: the client's capabilities, which decide on the form of its answer, and its text as it is, which gives the
    /// columns their names.
    Show(Box<[u8]>),
}

impl Question {
    fn text(&self) -> &[u8] {
        let (Self::Set(text) | Self::Show(text)) = self;
        text
    }
}

/// What a statement does in one state. It holds the states.
struct KnownAnswer {
    before: State,
    answer: Answer,
    used: u64,
}

#[derive(Clone)]
enum Answer {
    /// An OK that tells of these changes, and this state.
    Set { after: State, changes: Rc<[u8]> },
    /// The packets.
    Show(Rc<[u8]>),
}

impl Answer {
    fn state(&self) -> Option<State> {
        match self {
            Self::Set { after, .. } => Some(*after),
            Self::Show(_) => None,
        }
    }
}

/// What an answer depends on, and what it changes: session state, and the flags that are about the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    session: SessionId,
    status: StatusFlags,
    wait_timeout: WaitTimeout,
}

impl KnownAnswer {
    fn bytes(&self) -> usize {
        let said = match &self.answer {
            Answer::Set { changes, .. } => changes.len(),
            Answer::Show(packets) => packets.len(),
        };
        // Vectors that grow are at least half full.
        said + 2 * size_of::<Self>()
    }
}

/// As are the nodes of a B-tree.
fn bytes_of_text(text: &[u8]) -> usize {
    text.len() + 2 * size_of::<(Box<[u8]>, Vec<KnownAnswer>)>()
}

impl KnownAnswers {
    fn get(&mut self, text: &[u8], before: State) -> Option<Answer> {
        let known = self.by_text.get_mut(text)?.iter_mut().find(|known| known.before == before)?;
        self.uses += 1;
        known.used = self.uses;
        Some(known.answer.clone())
    }

    /// Remembers an answer; `before` is held for us already.
    fn insert(&mut self, sessions: &mut Sessions, text: &[u8], before: State, answer: Answer) {
        if self.get(text, before).is_some() {
            return sessions.release(before.session);
        }
        if self.count == MOST {
            self.forget_oldest(sessions);
        }
        self.count += 1;
        self.uses += 1;
        if let Some(after) = answer.state() {
            sessions.hold_again(after.session);
        }
        let known = KnownAnswer { before, answer, used: self.uses };
        self.bytes += known.bytes();
        match self.by_text.get_mut(text) {
            Some(others) => others.push(known),
            None => {
                self.bytes += bytes_of_text(text);
                self.by_text.insert(text.into(), vec![known]);
            }
        }
    }

    fn forget_oldest(&mut self, sessions: &mut Sessions) {
        let oldest = self.by_text.values().flatten().map(|known| known.used).min();
        self.retain(sessions, |known| Some(known.used) != oldest);
    }

    fn retain(&mut self, sessions: &mut Sessions, keep: impl Fn(&KnownAnswer) -> bool) {
        for known in self.by_text.values().flatten().filter(|known| !keep(known)) {
            sessions.release(known.before.session);
            if let Some(after) = known.answer.state() {
                sessions.release(after.session);
            }
        }
        self.by_text.retain(|_, list| {
            list.retain(&keep);
            !list.is_empty()
        });
        self.count = self.by_text.values().map(Vec::len).sum();
        let texts = self.by_text.keys().map(|text| bytes_of_text(text));
        let answers = self.by_text.values().flatten().map(KnownAnswer::bytes);
        self.bytes = texts.chain(answers).sum();
    }

    /// Another server may say something else.
    pub(crate) fn clear(&mut self, sessions: &mut Sessions) {
        self.retain(sessions, |_| false);
    }

    /// Bytes of it, which count against `session_memory`, as the states do that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl SessionTables {
    /// Whether nothing has changed that the text of a SET does not name: a server may report with it what a statement before it
    /// has done.
    fn is_what_the_text_sets(&self, statement: &Statement, before: State, after: State) -> bool {
        let timeout = before.wait_timeout != after.wait_timeout;
        let (before, after) = (self.states.state(before.session), self.states.state(after.session));
        let of_transaction = |name: &[u8]| name.starts_with(b"tx_") || name.starts_with(b"transaction_");
        // SET SESSION TRANSACTION assigns to nothing by name.
        let none = statement.assigned.is_empty() && statement.charset == CharsetSetting::Untouched;
        let named = |name: &[u8]| {
            let other = other_name(name);
            statement.assigned.iter().any(|set| **set == *name || other == Some(&**set))
                || (none && of_transaction(name))
        };
        let charset = statement.charset != CharsetSetting::Untouched || before.charset == after.charset;
        let timeout = timeout.then_some(WAIT_TIMEOUT);
        charset && before.schema == after.schema && before.changed_variables(after).chain(timeout).all(named)
    }
}

/// What is known of a statement's answer.
pub(super) enum Known {
    /// The server has to be asked.
    Nothing,
    /// Likewise, and its answer is to be remembered.
    NotYet(Question),
    /// An OK that tells of these changes: the client is in the state behind it already.
    Set(Rc<[u8]>),
    /// These packets.
    Show(Rc<[u8]>),
}

impl SessionTables {
    /// Answers a statement whose answer is known, by which its client's state changes.
    pub(super) fn known_answer(
        &mut self,
        settings: &Settings,
        client: &mut Client,
        statement: &Statement,
        text: &[u8],
        answer: u8,
    ) -> Known {
        let Some(question) = client.question(settings, &self.states, statement, text, answer) else {
            return Known::Nothing;
        };
        let before = client.state_of_session();
        match self.known_answers.get(question.text(), before) {
            Some(Answer::Set { after, changes }) => {
                let charset = |session| &self.states.state(session).charset;
                if client.variables_depend_on(charset(before.session), charset(after.session)) {
                    // They keep their client where they are.
                    return Known::Nothing;
                }
                self.states.hold_again(after.session);
                if let Some(before) = client.session.id.replace(after.session) {
                    self.states.release(before);
                }
                client.session.status = after.status;
                client.session.wait_timeout = after.wait_timeout;
                client.session.aftermath.row_count = 0;
                Known::Set(changes)
            }
            Some(Answer::Show(packets)) => {
                client.session.aftermath.row_count = -1;
                client.session.aftermath.found_rows = Some(1);
                Known::Show(packets)
            }
            None => Known::NotYet(question),
        }
    }

    /// The state before a client's statement whose answer may be remembered, held for that.
    pub(crate) fn state_to_remember(&mut self, client: &Client, request: &Request) -> Option<State> {
        request.remember.as_ref()?;
        let state = client.state_of_session();
        self.states.hold_again(state.session);
        Some(state)
    }

    /// Remembers what a client's statement has done, if that is all of it.
    pub(crate) fn remember_answer(
        &mut self,
        client: &Client,
        request: &mut Request,
        before: State,
        summary: &Summary,
    ) {
        let after = client.state_of_session();
        let plain = summary.error.is_none()
            && summary.warnings == 0
            && client.session.pins.is_empty()
            && client.session.unreported.is_none()
            && !client.in_transaction();
        match request.remember.take() {
            Some(Question::Set(text))
                if plain
                    && summary.relayed == BARE_OK + summary.told
                    && self.is_what_the_text_sets(&request.statement, before, after) =>
            {
                let changes = summary.raw_changes.as_slice().into();
                let answer = Answer::Set { after, changes };
                self.known_answers.insert(&mut self.states, &text, before, answer);
            }
            // With other flags, such as that it was slow, it is an answer to this execution alone.
            Some(Question::Show(text))
                if plain
                    && summary.counts.rows == Some(1)
                    && summary.has_kept_all()
                    && summary.told == 0
                    && after == before
                    && summary.status == Some(before.status) =>
            {
                let answer = Answer::Show(summary.kept.as_slice().into());
                self.known_answers.insert(&mut self.states, &text, before, answer);
            }
            _ => self.states.release(before.session),
        }
    }
}

impl Client {
    /// The question that a statement is, if the session state alone decides on its answer.
    fn question(
        &self,
        settings: &Settings,
        sessions: &Sessions,
        statement: &Statement,
        text: &[u8],
        answer: u8,
    ) -> Option<Question> {
        let alone = statement.effects.is_empty() && statement.unreported.is_empty() && !statement.several;
        match statement.kind {
            _ if !alone || !self.holds_nothing(settings) => None,
            Kind::Set => {
                let told =
                    matches!(statement.charset, CharsetSetting::Untouched | CharsetSetting::Names { .. });
                let plain = if told { sql::plain_set(text) } else { None };
                plain.map(|plain| Question::Set(plain.into()))
            }
            Kind::Select if statement.calls.is_empty() && answer == 1 => {
                let shown = sql::shown_variables(text)?;
                let variables = &sessions.state(self.session.id?).variables;
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
                Some(Question::Show(question.into()))
            }
            _ => None,
        }
    }

    /// It holds nothing on any backend.
    fn holds_nothing(&self, settings: &Settings) -> bool {
        settings.lazy_set
            && settings.thread_handling == ThreadHandling::PoolOfThreads
            && self.backend.is_none()
            && self.session.pins.is_empty()
            && self.transaction.unstarted.is_none()
            && !self.in_transaction()
    }

    fn state_of_session(&self) -> State {
        let session = self.session.id.expect("a client with commands has logged in");
        State { session, status: self.reader().status(), wait_timeout: self.session.wait_timeout }
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Program as _};

    use super::*;
    use crate::client::commands::tests::engine;
    use crate::session::SessionState;
    use crate::settings::Settings;

    fn state(sessions: &mut Sessions, value: &str) -> State {
        let mut state = SessionState::default();
        state.set_variable(b"time_zone", value.as_bytes());
        State { session: sessions.hold(state), status: StatusFlags::AUTOCOMMIT, wait_timeout: None }
    }

    fn set(after: State) -> Answer {
        Answer::Set { after, changes: (*b"changes").into() }
    }

    #[test]
    fn an_answer_holds_for_its_text_and_its_state() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let (one, two) = (state(&mut sessions, "+01:00"), state(&mut sessions, "+02:00"));
        known.insert(&mut sessions, b"to two", one, set(two));
        assert!(known.get(b"to two", one).and_then(|answer| answer.state()) == Some(two));
        assert!(known.get(b"to two", two).is_none() && known.get(b"to one", one).is_none());
        let other_status = State { status: StatusFlags(0), ..one };
        assert!(known.get(b"to two", other_status).is_none());
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_gives_its_states_back() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let mut first = None;
        for number in 0..=MOST {
            let (before, after) =
                (state(&mut sessions, &number.to_string()), state(&mut sessions, &format!("after {number}")));
            known.insert(&mut sessions, b"set", before, set(after));
            sessions.release(after.session);
            let first = *first.get_or_insert(before);
            assert!(known.get(b"set", first).is_some(), "what is used stays");
        }
        assert_eq!((known.count, sessions.len()), (MOST, 2 * MOST));
        known.clear(&mut sessions);
        assert_eq!((known.count, sessions.len()), (0, 0));
    }

    #[test]
    fn an_answer_that_is_known_already_holds_nothing_more() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        for _ in 0..3 {
            let (before, after) = (state(&mut sessions, "before"), state(&mut sessions, "after"));
            known.insert(&mut sessions, b"set", before, set(after));
            sessions.release(after.session);
        }
        assert_eq!(known.count, 1);
        known.clear(&mut sessions);
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn what_is_shown_holds_one_state() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let one = state(&mut sessions, "+01:00");
        known.insert(&mut sessions, b"select", one, Answer::Show((*b"packets").into()));
        assert!(matches!(known.get(b"select", one), Some(Answer::Show(packets)) if *packets == *b"packets"));
        assert!(known.bytes() > b"select".len() + b"packets".len());
        known.clear(&mut sessions);
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn they_go_before_a_client_does_where_session_memory_is_used_up() {
        let mut engine = engine(8, Settings { session_memory: 1 << 20, ..Settings::default() });
        for number in 0..MOST {
            let states = &mut engine.sessions.states;
            let (before, after) = (state(states, &format!("{number:1024}")), state(states, "after"));
            engine.sessions.known_answers.insert(states, b"set", before, set(after));
            states.release(after.session);
        }
        let (now, clients) = (engine.now, engine.clients.len());
        assert!(engine.client_memory.session_memory_held(&engine.sessions) > 1 << 20);
        engine.handle(now, Input::TurnEnd);
        assert!(engine.client_memory.session_memory_held(&engine.sessions) < 10_000);
        assert_eq!((engine.sessions.known_answers.bytes(), engine.clients.len()), (0, clients));
    }
}
