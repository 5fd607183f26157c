//! Settings of the reads that go to replicas, and of what these reads have to see.

use std::time::Duration;

use sql::ReadHint;

use super::by_server::{ByServer, Zone};

settings! {
    /// Which reads go to replicas.
    #[derive(Clone, Debug)]
    pub struct ReadSettings / ReadChange {
        /// Whether any do.
        pub split: ReadSplit = ReadSplit::Off, start;
        /// What they have to see.
        pub consistency: ReadConsistency = ReadConsistency::Session, live;
        /// How long a read waits for a replica to have what it has to see. Then it goes to the primary.
        // A replica that keeps up takes milliseconds. One that does not keeps a page waiting for so long at most.
        pub wait_limit: Duration = Duration::from_secs(1), live;
        /// A replica whose data may be older is not read from.
        // Two of the usual checks late is no fault yet; a replica that has stopped is left out before users notice.
        pub max_lag: Duration = Duration::from_secs(10), live;
        /// In proportion to what servers get reads; 1 for one that is not named, and 0 for none at all.
        pub weights: ByServer<u32> = ByServer::default(), live;
        /// Where this Onramp is: reads stay there while a server there may take them.
        pub zone: Option<Zone> = None, live;
        /// Where servers are.
        pub zones: ByServer<Zone> = ByServer::default(), live;
    }
}

/// The servers that take reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSplit {
    /// The primary takes all.
    Off,
    /// Replicas take those that may go there; the primary only where there is none for it.
    Replicas,
    /// Replicas and the primary take them, whichever is likely to answer first.
    All,
}

/// The writes that a read on a replica has to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadConsistency {
    /// All writes of the read's own session.
    Session,
    /// All writes that any client of this Onramp had been told of when the read came.
    Global,
    /// Whatever the replica has.
    Eventual,
}

impl ReadSettings {
    /// The hint that holds where a client has given none.
    pub(crate) fn hint(&self) -> ReadHint {
        match (self.split, self.consistency) {
            (ReadSplit::Off, _) => ReadHint::Primary,
            (_, ReadConsistency::Session) => ReadHint::Session,
            (_, ReadConsistency::Global) => ReadHint::Global,
            (_, ReadConsistency::Eventual) => ReadHint::Eventual,
        }
    }
}
