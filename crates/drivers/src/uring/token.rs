//! The subject of a completion, as the 64 bits that the kernel keeps for us with each request.

use seam::{ConnectionId, ListenerId};

/// The owner of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A request whose outcome does not matter (a cancellation).
    Nobody,
    /// The mailbox has become readable.
    Mailbox,
    /// Another ring has something for us.
    Rings,
    /// An armed accept: the listener, and which of its places.
    Accept(ListenerId, u16),
    /// One of a connection's requests. The generation is part of it, so that a completion for a connection that is gone
    /// finds nobody.
    Connection(Request, ConnectionId),
}

/// The request that was made for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Request {
    /// Bytes, again and again.
    Receive,
    /// To send.
    Send,
    /// To connect, socket and options included.
    Connect,
    /// The question for the peer of a Unix socket.
    Identify,
    /// To be told when the peer hangs up, while the connection is paused.
    HangUp,
    /// The error that the socket has, after a hang-up.
    SocketError,
    /// The first byte, or the end in its place, after a hang-up.
    Peek,
    /// Bytes to throw away.
    Discard,
    /// To shut down our direction.
    ShutDown,
    /// To close.
    Close,
}

/// In the order of their numbers.
const REQUESTS: [Request; 10] = [
    Request::Receive,
    Request::Send,
    Request::Connect,
    Request::Identify,
    Request::HangUp,
    Request::SocketError,
    Request::Peek,
    Request::Discard,
    Request::ShutDown,
    Request::Close,
];

/// Bits of a token that hold the connection's index, above 32 of its generation. The four highest hold the kind. No
/// driver has as many connections: see [`super::ring::MAX_RINGS`].
pub(super) const INDEX_BITS: u32 = 28;

const KIND_SHIFT: u32 = 32 + INDEX_BITS;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// The kinds above those of [`REQUESTS`].
const ACCEPT: u64 = 10;
const NOBODY: u64 = 11;
const MAILBOX: u64 = 12;
const RINGS: u64 = 13;

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        let (kind, high, low) = match token {
            Token::Nobody => (NOBODY, 0, 0),
            Token::Mailbox => (MAILBOX, 0, 0),
            Token::Rings => (RINGS, 0, 0),
            Token::Accept(ListenerId(listener), place) => (ACCEPT, u32::from(listener), u32::from(place)),
            Token::Connection(request, id) => (request as Self, id.index, id.generation),
        };
        kind << KIND_SHIFT | (Self::from(high) & INDEX_MASK) << 32 | Self::from(low)
    }
}

impl From<u64> for Token {
    fn from(data: u64) -> Self {
        let (high, low) = ((data >> 32 & INDEX_MASK) as u32, data as u32);
        match data >> KIND_SHIFT {
            ACCEPT => Self::Accept(ListenerId(high as u16), low as u16),
            MAILBOX => Self::Mailbox,
            RINGS => Self::Rings,
            kind => match REQUESTS.get(kind as usize) {
                Some(request) => Self::Connection(*request, ConnectionId { index: high, generation: low }),
                None => Self::Nobody,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let last = ConnectionId { index: (1 << INDEX_BITS) - 1, generation: u32::MAX };
        let requests = REQUESTS.iter().flat_map(|request| {
            [last, ConnectionId { index: 7, generation: 9 }].map(|id| Token::Connection(*request, id))
        });
        let others = [
            Token::Nobody,
            Token::Mailbox,
            Token::Rings,
            Token::Accept(ListenerId(0), 0),
            Token::Accept(ListenerId(u16::MAX), u16::MAX),
        ];
        for token in requests.chain(others) {
            assert_eq!(Token::from(u64::from(token)), token);
        }
    }

    #[test]
    fn requests_are_listed_under_their_numbers() {
        for (number, request) in REQUESTS.iter().enumerate() {
            assert_eq!(*request as usize, number);
        }
    }
}
