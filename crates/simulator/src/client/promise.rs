//! What a read was promised to see: by the run's settings, by the client's `onramp_reads`, or by a comment in front of its text. Where reads
//! are not split, and inside of transactions, the primary answers, which has everything.

use engine::{ReadConsistency, ReadSettings, ReadSplit};

use super::Work;
use crate::ledger::Row;
use crate::protocol::{Cursor, command};
use crate::server::statements::{VERSIONS, is_plain_read};
use crate::token::ClientKey;

/// What a read has to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All that is committed: the primary answers.
    Primary,
    /// All that its own login has been told to be written.
    Session,
    /// All that any client had been told to be written when it was sent.
    Global,
    /// Something that has been written.
    Eventual,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Primary, Self::Session, Self::Global, Self::Eventual];

    /// What holds for who has said nothing; `None` where reads are not split.
    pub fn of_settings(settings: &ReadSettings) -> Option<Self> {
        match (settings.split, settings.consistency) {
            (ReadSplit::Off, _) => None,
            (_, ReadConsistency::Session) => Some(Self::Session),
            (_, ReadConsistency::Global) => Some(Self::Global),
            (_, ReadConsistency::Eventual) => Some(Self::Eventual),
        }
    }

    /// Whether a replica may answer, and has to have what the login has written.
    pub fn covers_own_writes(self) -> bool {
        matches!(self, Self::Session | Self::Global)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Session => "session",
            Self::Global => "global",
            Self::Eventual => "eventual",
        }
    }

    /// The comment that asks for it.
    pub fn comment(self) -> String {
        format!("/* onramp: {} */ ", self.word())
    }

    /// What a text asks for that begins with such a comment.
    pub fn of_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|promise| text.starts_with(&promise.comment()))
    }

    /// The text by which a client asks for it from then on, or for nothing any more.
    pub fn setting(promise: Option<Self>) -> String {
        match promise {
            Some(promise) => format!("SET onramp_reads = '{}'", promise.word()),
            None => String::from("SET onramp_reads = DEFAULT"),
        }
    }

    /// What a client asks for by this text, where it is such a one.
    pub fn set_by(text: &str) -> Option<Option<Self>> {
        let choices = Self::ALL.into_iter().map(Some).chain([None]);
        choices.into_iter().find(|&choice| text == Self::setting(choice))
    }
}

/// The row of which a text reads the version, and the login whose it is.
pub fn row_of(text: &str) -> Option<(Row, ClientKey)> {
    let places = ["version", "version, ?"].map(|items| format!("{items} FROM {VERSIONS}"));
    let (_, behind) = places.iter().find_map(|place| text.split_once(place))?;
    let (owner, id) = behind.split_once(" WHERE id = ")?;
    let (client, incarnation) = owner.split_once('_')?;
    let key = ClientKey { client: client.parse().ok()?, incarnation: incarnation.parse().ok()? };
    Some(((format!("{VERSIONS}{owner}"), id.parse().ok()?), key))
}

impl Work {
    /// What the statement of a command is promised, which has not run on the oracle yet. Takes in what it says of those that follow.
    pub(super) fn promise_of(&mut self, text: &str, shadow: &[u8]) -> Promise {
        if let Some(wanted) = Promise::set_by(text) {
            self.wanted = wanted;
        }
        let session = &self.oracle.session;
        if session.transaction.is_some() || !session.autocommit() {
            return Promise::Primary;
        }
        self.promise_outside(text, shadow)
    }

    /// The same outside of a transaction.
    fn promise_outside(&self, text: &str, shadow: &[u8]) -> Promise {
        let hint = Promise::of_text(self.text_of(text, shadow));
        match self.promise {
            Promise::Primary => Promise::Primary,
            promise => hint.or(self.wanted).unwrap_or(promise),
        }
    }

    /// Whether only the transaction that is open binds the statement of a command to the primary, and may be rolled back before that runs: those
    /// before it have no answer yet.
    pub(super) fn may_leave_transaction(&self, text: &str, shadow: &[u8]) -> bool {
        let session = &self.oracle.session;
        !self.awaited.is_empty()
            && session.transaction.is_some()
            && session.autocommit()
            && is_plain_read(self.text_of(text, shadow).as_bytes())
            && self.promise_outside(text, shadow) != Promise::Primary
    }

    /// The row of which the statement of a command reads the version.
    pub(super) fn row_read_by(&self, text: &str, shadow: &[u8]) -> Option<(Row, ClientKey)> {
        row_of(self.text_of(text, shadow))
    }

    /// The text that a command brings, or has had prepared.
    fn text_of<'a>(&'a self, text: &'a str, shadow: &[u8]) -> &'a str {
        let id = match shadow.split_first() {
            Some((&command::STMT_EXECUTE, body)) => Cursor(body).long(),
            _ => None,
        };
        let prepared = id.and_then(|id| self.oracle.session.prepared.get(&id));
        prepared.map_or(text, |prepared| &prepared.text)
    }
}

/// A read of a row's version that has been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The row.
    pub row: Row,
    /// The login whose it is.
    pub owner: ClientKey,
    /// What it has to see.
    pub promise: Promise,
    /// The latest version that any client had been told to be written.
    pub known: u32,
    /// A replica may answer it, and has to have what the login itself was told to have written there: what counts as a check.
    pub is_check: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_is_understood() {
        for promise in Promise::ALL {
            assert_eq!(Promise::of_text(&format!("{}SELECT 1", promise.comment())), Some(promise));
            assert_eq!(Promise::set_by(&Promise::setting(Some(promise))), Some(Some(promise)));
        }
        assert_eq!(Promise::set_by(&Promise::setting(None)), Some(None));
        assert_eq!((Promise::of_text("SELECT 1"), Promise::set_by("SET autocommit=1")), (None, None));
    }

    #[test]
    fn the_row_that_is_read_is_found() {
        let row = Some((("versions_3_1".to_owned(), 2), ClientKey { client: 3, incarnation: 1 }));
        assert_eq!(row_of("SELECT 'a', version FROM versions_3_1 WHERE id = 2"), row);
        assert_eq!(row_of("SELECT ?, version, ? FROM versions_3_1 WHERE id = 2"), row);
        assert_eq!(row_of("UPDATE versions_3_1 SET value = 'a' WHERE id = 2"), None);
    }
}
