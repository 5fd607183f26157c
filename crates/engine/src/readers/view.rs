//! What people are told of reads on replicas.

/// Why a statement goes to the primary whatever replicas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSplit {
    /// Its client wants it to.
    AsWanted,
    /// The text may do more than read, or may not be understood.
    NoPlainRead,
    /// It asks for something of its session.
    OfSession,
    /// It asks for something of its server: a schema that each server has of its own.
    OfServer,
    /// The client has a transaction open, or autocommit off.
    Transaction,
    /// The client holds something on the primary, or writes what replicas never get.
    HoldsState,
    /// The server has functions, which a view could call and which could write.
    Functions,
    /// The stored code behind it may change the session, or could not be read.
    StoredCode,
}
