//! `SET` statements whose answer is known.
//!
//! What a plain SET does follows from its text and from the session state before it. So the server is asked once, and what its
//! trackers and its OK have said holds for everybody in the same state: the client's state changes here, and goes ahead of its
//! next statement as ever. The settings that libraries send with each connection or transaction cost no backend then.

use std::collections::BTreeMap;

use sql::{CharsetSetting, Kind};
use wire::StatusFlags;

use crate::backend::Summary;
use crate::engine::Engine;
use crate::request::{Request, Statement};
use crate::session::{SessionId, Sessions};
use crate::settings::ThreadHandling;

/// So many are remembered: a few texts in each of a few states are what an application says, and a host of tenants with a
/// schema each has as many states. About 200 bytes each, and what is peculiar to its states.
const MOST: usize = 1024;

/// A packet's header and an OK with nothing in it: no counts, no id, no warnings, no words.
const BARE_OK: u64 = wire::HEADER_LEN as u64 + 7;

/// What the server has said to plain SETs.
#[derive(Default)]
pub(crate) struct KnownSets {
    /// By their texts in the form of [`sql::plain_set`].
    by_text: BTreeMap<Box<[u8]>, Vec<KnownSet>>,
    count: usize,
    /// How many have been asked for, which tells what was used longest ago.
    uses: u64,
}

/// What a SET does in one state. It holds both states.
struct KnownSet {
    before: State,
    after: State,
    used: u64,
}

/// What an answer depends on, and what it changes: session state, and the flags that are about the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    session: SessionId,
    status: StatusFlags,
}

impl KnownSets {
    fn get(&mut self, text: &[u8], before: State) -> Option<State> {
        let known = self.by_text.get_mut(text)?.iter_mut().find(|known| known.before == before)?;
        self.uses += 1;
        known.used = self.uses;
        Some(known.after)
    }

    /// Remembers an answer; `before` is held for us already.
    fn insert(&mut self, sessions: &mut Sessions, text: Box<[u8]>, before: State, after: State) {
        if self.get(&text, before).is_some() {
            return sessions.release(before.session);
        }
        if self.count == MOST {
            self.forget_oldest(sessions);
        }
        self.count += 1;
        self.uses += 1;
        sessions.hold_again(after.session);
        self.by_text.entry(text).or_default().push(KnownSet { before, after, used: self.uses });
    }

    fn forget_oldest(&mut self, sessions: &mut Sessions) {
        let oldest = self.by_text.values().flatten().map(|known| known.used).min();
        self.retain(sessions, |known| Some(known.used) != oldest);
    }

    fn retain(&mut self, sessions: &mut Sessions, keep: impl Fn(&KnownSet) -> bool) {
        for known in self.by_text.values().flatten().filter(|known| !keep(known)) {
            sessions.release(known.before.session);
            sessions.release(known.after.session);
        }
        self.by_text.retain(|_, list| {
            list.retain(&keep);
            !list.is_empty()
        });
        self.count = self.by_text.values().map(Vec::len).sum();
    }

    /// Another server may say something else.
    pub(crate) fn clear(&mut self, sessions: &mut Sessions) {
        self.retain(sessions, |_| false);
    }

    /// Bytes of it; the nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.by_text.keys().map(|text| text.len() + 2 * size_of::<(Box<[u8]>, Vec<KnownSet>)>());
        texts.sum::<usize>() + 2 * self.count * size_of::<KnownSet>()
    }
}

impl Engine {
    /// Answers a SET whose answer is known. False where the server has to be asked; `remember` is then set to what its answer
    /// will be remembered by.
    pub(crate) fn answer_known_set(
        &mut self,
        key: usize,
        statement: &Statement,
        text: &[u8],
        answer: u8,
        remember: &mut Option<Box<[u8]>>,
    ) -> bool {
        if !self.is_set_by_state_alone(key, statement) {
            return false;
        }
        let Some(plain) = sql::plain_set(text) else { return false };
        let Some(after) = self.known_sets.get(&plain, self.state_of(key)) else {
            *remember = Some(plain.into());
            return false;
        };
        let charset = |session| &self.sessions.state(session).charset;
        if self.variables_depend_on(key, charset(self.state_of(key).session), charset(after.session)) {
            // They keep their client where they are.
            return false;
        }
        self.totals.answered_sets += 1;
        let client = &mut self.clients[key];
        self.sessions.hold_again(after.session);
        if let Some(before) = client.session.replace(after.session) {
            self.sessions.release(before);
        }
        client.status = after.status;
        client.aftermath.row_count = 0;
        self.answer_ok(key, answer);
        true
    }

    /// The client holds nothing on any backend, and this is a SET that leaves nothing there but what trackers report.
    fn is_set_by_state_alone(&self, key: usize, statement: &Statement) -> bool {
        let client = &self.clients[key];
        statement.kind == Kind::Set
            && statement.effects.is_empty()
            && statement.unreported.is_empty()
            && !statement.several
            && matches!(statement.charset, CharsetSetting::Untouched | CharsetSetting::Names { .. })
            && self.settings.lazy_set
            && self.settings.thread_handling == ThreadHandling::PoolOfThreads
            && client.backend.is_none()
            && client.pins.is_empty()
            && client.unstarted.is_none()
            && !client.in_transaction()
    }

    fn state_of(&self, key: usize) -> State {
        let client = &self.clients[key];
        let session = client.session.expect("a client with commands has logged in");
        State { session, status: client.reader().status() }
    }

    /// The state before a statement whose answer may be remembered, held for that.
    pub(crate) fn state_to_remember(&mut self, key: usize, request: &Request) -> Option<State> {
        request.remember.as_ref()?;
        let state = self.state_of(key);
        self.sessions.hold_again(state.session);
        Some(state)
    }

    /// Remembers what a SET has done, if that is all of it.
    pub(crate) fn remember_set(
        &mut self,
        key: usize,
        request: &mut Request,
        before: State,
        summary: &Summary,
    ) {
        let after = self.state_of(key);
        let client = &self.clients[key];
        let bare = summary.error.is_none() && summary.warnings == 0 && summary.relayed == BARE_OK;
        match request.remember.take() {
            Some(text)
                if bare && client.pins.is_empty() && client.doubts.is_none() && !client.in_transaction() =>
            {
                self.known_sets.insert(&mut self.sessions, text, before, after);
            }
            _ => self.sessions.release(before.session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionState;

    fn state(sessions: &mut Sessions, value: &str) -> State {
        let mut state = SessionState::default();
        state.set_variable(b"time_zone", value.as_bytes());
        State { session: sessions.hold(state), status: StatusFlags::AUTOCOMMIT }
    }

    #[test]
    fn an_answer_holds_for_its_text_and_its_state() {
        let (mut sessions, mut known) = (Sessions::default(), KnownSets::default());
        let (one, two) = (state(&mut sessions, "+01:00"), state(&mut sessions, "+02:00"));
        known.insert(&mut sessions, (*b"to two").into(), one, two);
        assert!(known.get(b"to two", one) == Some(two));
        assert!(known.get(b"to two", two).is_none() && known.get(b"to one", one).is_none());
        let other_status = State { status: StatusFlags(0), ..one };
        assert!(known.get(b"to two", other_status).is_none());
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_gives_its_states_back() {
        let (mut sessions, mut known) = (Sessions::default(), KnownSets::default());
        let mut first = None;
        for number in 0..=MOST {
            let (before, after) =
                (state(&mut sessions, &number.to_string()), state(&mut sessions, &format!("after {number}")));
            known.insert(&mut sessions, (*b"set").into(), before, after);
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
        let (mut sessions, mut known) = (Sessions::default(), KnownSets::default());
        for _ in 0..3 {
            let (before, after) = (state(&mut sessions, "before"), state(&mut sessions, "after"));
            known.insert(&mut sessions, (*b"set").into(), before, after);
            sessions.release(after.session);
        }
        assert_eq!(known.count, 1);
        known.clear(&mut sessions);
        assert_eq!(sessions.len(), 0);
    }
}
