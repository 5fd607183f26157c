//! Which reads go to replicas.

use std::time::Duration;

use engine::{ReadConsistency, ReadSplit};

use super::{OptionSpec, Section, YEAR, setting};
use crate::value::{Kind, Words};

/// Which go there, and what they see.
pub(super) const SPLIT: &[OptionSpec] = &[
    OptionSpec {
        name: "read_split",
        kind: Kind::Word(&Words {
            slot: setting!(engine.reads.split),
            words: &[("off", ReadSplit::Off), ("replicas", ReadSplit::Replicas), ("all", ReadSplit::All)],
        }),
        example: "replicas",
        doc: "Where backend is given more than once: whether plain SELECTs outside of transactions, with autocommit on, go to \
              replicas (docs/CLUSTERS.md). off: the primary takes all. replicas: replicas take them, and the primary only where \
              there is no replica for them. all: the replica or the primary that is likely to answer first. Each server has \
              backends, permits and limits of its own.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "read_consistency",
        kind: Kind::Word(&Words {
            slot: setting!(engine.reads.consistency),
            words: &[
                ("session", ReadConsistency::Session),
                ("global", ReadConsistency::Global),
                ("eventual", ReadConsistency::Eventual),
            ],
        }),
        example: "global",
        doc: "With read_split: what a read on a replica sees at least. session: all that its own connection has written. global: \
              all that any client of this Onramp had been told to be written when the read came. eventual: whatever the \
              replica has, which replica_max_lag bounds.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "read_weights",
        kind: Kind::Weights(setting!(engine.reads.weights)),
        example: "10.0.0.2=2,10.0.0.3:3307=0",
        doc: "With read_split: in what proportion servers get reads that they would answer about as soon. A server is written as backend \
              has it, host, host:port (3306 where there is none), [IPv6]:port or the path of a socket; * stands for all that are not named, \
              and whoever has no weight has 1. One that answers less soon gets less, whatever its weight. A server of weight 0 gets no \
              reads at all, also where no other one is left: what it is kept for (backups, reports) is not disturbed. The \
              primary has its weight among others with read_split = all, and takes what nobody else may take.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "zone",
        kind: Kind::Zone(setting!(engine.reads.zone)),
        example: "a",
        doc: "With read_split: the zone in which this Onramp is. Reads stay in it as long as a server there may take them, by its \
              checks, replica_max_lag and read_weights; otherwise they go to the others, as they all do without a zone. \
              Where servers are, server_zones says.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "server_zones",
        kind: Kind::Zones(setting!(engine.reads.zones)),
        example: "10.0.0.2=a,10.0.0.3:3307=b",
        doc: "In which zones servers are (see zone). They are written as in read_weights; one that has none is in no Onramp's own zone.",
        section: Section::Scheduling,
        limit: None,
    },
];

/// How long they wait, and how old what they see may be.
pub(super) const BOUNDS: &[OptionSpec] = &[
    OptionSpec {
        name: "read_wait_limit",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.reads.wait_limit)),
        example: "100ms",
        doc: "With read_split: how long a read waits for a replica to have what it has to see, before it goes to the primary. It \
              waits in Onramp, without a backend or a permit. With 0s, and with read_split = all, it goes there at once.",
        section: Section::Timeouts,
        limit: None,
    },
    OptionSpec {
        name: "replica_max_lag",
        kind: Kind::Duration(Duration::from_millis(100)..=YEAR, setting!(engine.reads.max_lag)),
        example: "1m",
        doc: "With read_split: a replica is not read from while it may lack what the primary had so long ago. Onramp finds that \
              out by the GTIDs of both, and does not ask the replica how far behind it is. It looks every server_check_interval, \
              so that less than a few of these leaves no replica.",
        section: Section::Timeouts,
        limit: None,
    },
];
