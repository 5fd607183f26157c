//! Answers that the server has given to statements about session state, by their texts and the states in which they were asked.

use std::collections::BTreeMap;
use std::rc::Rc;

use wire::StatusFlags;

use crate::session::table::{SessionHold, SessionId, Sessions};
use crate::session::wait_timeout::WaitTimeout;

/// The number of answers that are remembered. An application says a few texts in each of a few states, and a host of
/// tenants with a schema each has as many states. An answer takes about 200 bytes, and what is peculiar to its states.
pub(crate) const MOST: usize = 1024;

/// The server's answers.
#[derive(Default)]
pub(crate) struct KnownAnswers {
    /// Answers by [`KnownQuestion::text`].
    by_text: BTreeMap<Box<[u8]>, Vec<KnownAnswer>>,
    count: usize,
    /// See [`Self::bytes`].
    bytes: usize,
    /// The number of answers that were asked for, which tells what was used longest ago.
    uses: u64,
}

/// A statement with an answer that will be remembered.
#[derive(Debug, PartialEq)]
pub(crate) enum KnownQuestion {
    /// A SET in the form of [`sql::plain_set`].
    Set(Box<[u8]>),
    /// A SELECT: the client's capabilities, which decide on the form of its answer, and its text as it is, which gives the
    /// columns their names.
    Show(Box<[u8]>),
}

plain!(enum KnownQuestion { 0 => Set(text), 1 => Show(text) });

impl KnownQuestion {
    pub(crate) fn text(&self) -> &[u8] {
        let (Self::Set(text) | Self::Show(text)) = self;
        text
    }
}

/// The answer to a statement in one state. The states in it are held for it.
struct KnownAnswer {
    before: HeldState,
    answer: HeldAnswer,
    used: u64,
}

/// An answer as it is kept, with a hold on its state.
enum HeldAnswer {
    Set { after: HeldState, changes: Rc<[u8]> },
    Show(Rc<[u8]>),
}

impl HeldAnswer {
    fn of(answer: Answer, sessions: &mut Sessions) -> Self {
        match answer {
            Answer::Set { after, changes } => Self::Set { after: after.held(sessions), changes },
            Answer::Show(packets) => Self::Show(packets),
        }
    }

    fn answer(&self) -> Answer {
        match self {
            Self::Set { after, changes } => Answer::Set { after: after.state(), changes: Rc::clone(changes) },
            Self::Show(packets) => Answer::Show(Rc::clone(packets)),
        }
    }
}

/// An answer that a statement has got.
pub(crate) enum Answer {
    /// An OK that tells of these changes, and this state.
    Set { after: AnswerState, changes: Rc<[u8]> },
    /// The packets.
    Show(Rc<[u8]>),
}

/// The state that an answer depends on, and that it changes: session state, and the flags that are about the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerState {
    pub(crate) session: SessionId,
    pub(crate) status: StatusFlags,
    pub(crate) wait_timeout: WaitTimeout,
}

impl AnswerState {
    /// Holds the state, for as long as an answer depends on it.
    pub(crate) fn held(self, sessions: &mut Sessions) -> HeldState {
        let Self { session, status, wait_timeout } = self;
        HeldState { session: sessions.hold_again(session), status, wait_timeout }
    }
}

/// A state that is held, see [`AnswerState`].
#[must_use = "a state that nobody gives up stays for ever"]
pub(crate) struct HeldState {
    session: SessionHold,
    status: StatusFlags,
    wait_timeout: WaitTimeout,
}

impl HeldState {
    /// Returns the state without the hold on it.
    pub(crate) fn state(&self) -> AnswerState {
        AnswerState { session: self.session.id(), status: self.status, wait_timeout: self.wait_timeout }
    }

    /// Gives the hold on the state up.
    pub(crate) fn release(self, sessions: &mut Sessions) {
        sessions.release(self.session);
    }
}

impl KnownAnswer {
    fn release(self, sessions: &mut Sessions) {
        self.before.release(sessions);
        if let HeldAnswer::Set { after, .. } = self.answer {
            after.release(sessions);
        }
    }

    fn bytes(&self) -> usize {
        let said = match &self.answer {
            HeldAnswer::Set { changes, .. } => changes.len(),
            HeldAnswer::Show(packets) => packets.len(),
        };
        // Vectors that grow are at least half full.
        said + 2 * size_of::<Self>()
    }
}

/// Bytes of an entry. The nodes of a B-tree are at least half full, too.
fn bytes_of_text(text: &[u8]) -> usize {
    text.len() + 2 * size_of::<(Box<[u8]>, Vec<KnownAnswer>)>()
}

impl KnownAnswers {
    /// The server's answer to this text in this state.
    pub(crate) fn get(&mut self, text: &[u8], before: AnswerState) -> Option<Answer> {
        let known = self.by_text.get_mut(text)?.iter_mut().find(|known| known.before.state() == before)?;
        self.uses += 1;
        known.used = self.uses;
        Some(known.answer.answer())
    }

    /// Remembers the answer in a state.
    pub(crate) fn insert(&mut self, sessions: &mut Sessions, text: &[u8], before: HeldState, answer: Answer) {
        if self.get(text, before.state()).is_some() {
            return before.release(sessions);
        }
        if self.count == MOST {
            self.forget_oldest(sessions);
        }
        self.count += 1;
        self.uses += 1;
        let known = KnownAnswer { before, answer: HeldAnswer::of(answer, sessions), used: self.uses };
        self.bytes += known.bytes();
        match self.by_text.get_mut(text) {
            Some(others) => others.push(known),
            None => {
                self.bytes += bytes_of_text(text);
                self.by_text.insert(text.into(), vec![known]);
            }
        }
    }

    /// The session states that are held for answers, each as often as it is.
    pub(crate) fn states(&self) -> impl Iterator<Item = SessionId> {
        let known = self.by_text.values().flatten();
        let states = known.flat_map(|it| match &it.answer {
            HeldAnswer::Set { after, .. } => [Some(&it.before), Some(after)],
            HeldAnswer::Show(_) => [Some(&it.before), None],
        });
        states.flatten().map(|state| state.session.id())
    }

    fn forget_oldest(&mut self, sessions: &mut Sessions) {
        let oldest = self.by_text.values().flatten().map(|known| known.used).min();
        self.retain(sessions, |known| Some(known.used) != oldest);
    }

    fn retain(&mut self, sessions: &mut Sessions, keep: impl Fn(&KnownAnswer) -> bool) {
        self.by_text.retain(|_, list| {
            // Most lists stay as they are.
            if list.iter().all(&keep) {
                return true;
            }
            for known in std::mem::take(list) {
                if keep(&known) {
                    list.push(known);
                } else {
                    known.release(sessions);
                }
            }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::session::SessionState;

    pub(crate) fn state(sessions: &mut Sessions, value: &str) -> HeldState {
        let mut state = SessionState::default();
        state.set_variable(b"time_zone", value.as_bytes());
        HeldState { session: sessions.hold(state), status: StatusFlags::AUTOCOMMIT, wait_timeout: None }
    }

    pub(crate) fn set(after: &HeldState) -> Answer {
        Answer::Set { after: after.state(), changes: (*b"changes").into() }
    }

    #[test]
    fn an_answer_holds_for_its_text_and_its_state() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let (held, after) = (state(&mut sessions, "+01:00"), state(&mut sessions, "+02:00"));
        let (one, two) = (held.state(), after.state());
        known.insert(&mut sessions, b"to two", held, set(&after));
        after.release(&mut sessions);
        assert!(matches!(known.get(b"to two", one), Some(Answer::Set { after, .. }) if after == two));
        assert!(known.get(b"to two", two).is_none() && known.get(b"to one", one).is_none());
        let other_status = AnswerState { status: StatusFlags(0), ..one };
        assert!(known.get(b"to two", other_status).is_none());
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_gives_its_states_back() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let mut first = None;
        for number in 0..=MOST {
            let (before, after) =
                (state(&mut sessions, &number.to_string()), state(&mut sessions, &format!("after {number}")));
            let first = *first.get_or_insert(before.state());
            known.insert(&mut sessions, b"set", before, set(&after));
            after.release(&mut sessions);
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
            known.insert(&mut sessions, b"set", before, set(&after));
            after.release(&mut sessions);
        }
        assert_eq!(known.count, 1);
        known.clear(&mut sessions);
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn what_is_shown_holds_one_state() {
        let (mut sessions, mut known) = (Sessions::default(), KnownAnswers::default());
        let held = state(&mut sessions, "+01:00");
        let one = held.state();
        known.insert(&mut sessions, b"select", held, Answer::Show((*b"packets").into()));
        assert!(matches!(known.get(b"select", one), Some(Answer::Show(packets)) if *packets == *b"packets"));
        assert!(known.bytes() > b"select".len() + b"packets".len());
        known.clear(&mut sessions);
        assert_eq!(sessions.len(), 0);
    }
}
