//! All session states in use.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{SessionState, high_blank, lex_mode};

/// The number of a stored session state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(u32);

impl SessionId {
    /// The number itself, for people to compare.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A hold on a stored session state. Whoever gives the hold up gives it to [`Sessions::release`], and has it no more: nobody can give up
/// one twice. A hold that nobody has given up is found where holds are counted (`engine/invariants.rs`).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hold that nobody gives up keeps its state for ever"]
pub(crate) struct SessionHold(SessionId);

impl SessionHold {
    /// Returns the number of the state, which says no more than that once the hold is given up.
    pub(crate) fn id(&self) -> SessionId {
        self.0
    }
}

/// All session states. Each is stored once and counted.
#[derive(Default)]
pub(crate) struct Sessions {
    entries: slab::Slab<Entry>,
    ids: BTreeMap<Rc<SessionState>, SessionId>,
    /// Bytes of all states.
    bytes: usize,
}

struct Entry {
    state: Rc<SessionState>,
    holders: u32,
    /// See [`Sessions::lex_mode`].
    lex_mode: Option<sql::LexMode>,
    /// See [`high_blank`].
    high_blank: Option<u8>,
}

impl Entry {
    fn new(state: SessionState, holders: u32) -> Self {
        let lex_mode = state.variables.get(&b"sql_mode"[..]).map(|sql_mode| lex_mode(sql_mode));
        let high_blank = high_blank(&state.charset.client);
        Self { state: Rc::new(state), holders, lex_mode, high_blank }
    }
}

impl Sessions {
    /// Holds a state.
    pub(crate) fn hold(&mut self, state: SessionState) -> SessionHold {
        if let Some(&id) = self.ids.get(&state) {
            return self.hold_again(id);
        }
        let entry = Entry::new(state, 1);
        self.bytes += entry.state.bytes();
        let state = Rc::clone(&entry.state);
        let index = self.entries.insert(entry);
        let id = SessionId(u32::try_from(index).expect("fewer states than clients and backends"));
        self.ids.insert(state, id);
        SessionHold(id)
    }

    /// Holds a state once more that is held already.
    pub(crate) fn hold_again(&mut self, id: SessionId) -> SessionHold {
        self.entries[id.0 as usize].holders += 1;
        SessionHold(id)
    }

    /// Gives up one hold on a state. The last one frees the state.
    pub(crate) fn release(&mut self, SessionHold(id): SessionHold) {
        let entry = &mut self.entries[id.0 as usize];
        entry.holders -= 1;
        if entry.holders == 0 {
            let entry = self.entries.remove(id.0 as usize);
            self.bytes -= entry.state.bytes();
            // Of two that have become equal (`keep_values`) one has the place.
            if self.ids.get(&entry.state) == Some(&id) {
                self.ids.remove(&entry.state);
            }
        }
    }

    /// Gives each state that is held the values which not to have these variables has meant so far.
    pub(crate) fn keep_values(&mut self, values: &[(Vec<u8>, Vec<u8>)]) {
        self.ids.clear();
        for (index, entry) in &mut self.entries {
            let mut state = SessionState::clone(&entry.state);
            state.keep_values(values);
            self.bytes -= entry.state.bytes();
            *entry = Entry::new(state, entry.holders);
            self.bytes += entry.state.bytes();
            let id = SessionId(u32::try_from(index).expect("fewer states than clients and backends"));
            self.ids.entry(Rc::clone(&entry.state)).or_insert(id);
        }
    }

    /// The number of holders of each state.
    pub(crate) fn holder_counts(&self) -> BTreeMap<SessionId, u32> {
        let id = |index| SessionId(u32::try_from(index).expect("fewer states than clients and backends"));
        self.entries.iter().map(|(index, entry)| (id(index), entry.holders)).collect()
    }

    /// The state behind an id.
    pub(crate) fn state(&self, id: SessionId) -> &SessionState {
        &self.entries[id.0 as usize].state
    }

    /// The state behind an id, for one who keeps it beyond the id's life.
    pub(crate) fn shared_state(&self, id: SessionId) -> &Rc<SessionState> {
        &self.entries[id.0 as usize].state
    }

    /// How a state has the lexer read, with `servers` where it has no `sql_mode` of its own.
    pub(crate) fn lex_mode(&self, id: SessionId, servers: sql::LexMode) -> sql::LexMode {
        let entry = &self.entries[id.0 as usize];
        let mode = entry.lex_mode.unwrap_or(servers);
        sql::LexMode {
            high_blank: entry.high_blank,
            server: servers.server,
            version: servers.version,
            ..mode
        }
    }

    /// Bytes of all states, and of their table.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes
    }

    /// Bytes of all states.
    pub(crate) fn state_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many of a state's bytes count for each holder.
    pub(crate) fn share_of_each(&self, id: SessionId) -> usize {
        let entry = &self.entries[id.0 as usize];
        entry.state.bytes() / entry.holders.max(1) as usize
    }

    /// How many different states are in use.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_become_equal_are_freed_each() {
        let mut sessions = Sessions::default();
        let plain = sessions.hold(SessionState::default());
        let mut set = SessionState::default();
        set.set_variable(b"sql_mode", b"ANSI_QUOTES");
        let has_it = sessions.hold(set);
        sessions.keep_values(&[(b"sql_mode".to_vec(), b"ANSI_QUOTES".to_vec())]);
        assert_eq!(sessions.state(plain.id()), sessions.state(has_it.id()));
        assert!(sessions.lex_mode(plain.id(), sql::LexMode::default()).ansi_quotes);
        let fresh = sessions.hold(SessionState::default());
        assert!(fresh != plain && fresh != has_it);
        for id in [plain, has_it, fresh] {
            sessions.release(id);
        }
        assert_eq!((sessions.len(), sessions.ids.len(), sessions.bytes), (0, 0, 0));
    }

    #[test]
    fn equal_states_are_stored_once_and_freed_with_the_last_holder() {
        let mut sessions = Sessions::default();
        let mut state = SessionState::default();
        state.set_variable(b"sql_mode", b"ANSI");
        let first = sessions.hold(state.clone());
        let second = sessions.hold(state.clone());
        assert_eq!(first, second);
        assert_eq!(sessions.len(), 1);
        sessions.release(first);
        assert_eq!(sessions.state(second.id()), &state);
        sessions.release(second);
        assert_eq!(sessions.len(), 0);
    }
}
