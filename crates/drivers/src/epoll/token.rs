//! The subject of an epoll event, as the 64 bits that epoll keeps for us.

use rustix::event::epoll::EventData;
use seam::{ConnectionId, ListenerId};

/// The owner of a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The generation is part of it, so that an event for a connection that is gone finds nobody.
    Connection(ConnectionId),
    Listener(ListenerId),
    Signal,
}

/// The index that no connection has (see [`crate::slots::Slots`]); the other half says what it is instead.
const NO_CONNECTION: u32 = u32::MAX;
/// Beyond the numbers of listeners.
const SIGNAL: u32 = u32::MAX;

impl From<Token> for EventData {
    fn from(token: Token) -> Self {
        let (index, rest) = match token {
            Token::Connection(id) => (id.index, id.generation),
            Token::Listener(ListenerId(listener)) => (NO_CONNECTION, u32::from(listener)),
            Token::Signal => (NO_CONNECTION, SIGNAL),
        };
        Self::new_u64(u64::from(rest) << 32 | u64::from(index))
    }
}

impl From<EventData> for Token {
    fn from(data: EventData) -> Self {
        let (index, rest) = (data.u64() as u32, (data.u64() >> 32) as u32);
        match (index, u16::try_from(rest)) {
            (NO_CONNECTION, Ok(listener)) => Self::Listener(ListenerId(listener)),
            (NO_CONNECTION, Err(_)) => Self::Signal,
            (index, _) => Self::Connection(ConnectionId { index, generation: rest }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_epoll() {
        for token in [
            Token::Connection(ConnectionId { index: 0, generation: 0 }),
            Token::Connection(ConnectionId { index: u32::MAX - 1, generation: u32::MAX }),
            Token::Connection(ConnectionId { index: 7, generation: 9 }),
            Token::Listener(ListenerId(0)),
            Token::Listener(ListenerId(u16::MAX)),
            Token::Signal,
        ] {
            assert_eq!(Token::from(EventData::from(token)), token);
        }
    }
}
