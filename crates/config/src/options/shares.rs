//! Options that share out the server.

use engine::FairShare;

use super::{OptionSpec, Section, setting};
use crate::value::{Kind, Words};

/// The parties that it is shared out between.
pub(super) const FAIR_SHARES: &[OptionSpec] = &[
    OptionSpec {
        name: "fair_share",
        kind: Kind::Word(&Words {
            slot: setting!(engine.shares.fair_share),
            words: &[
                ("off", FairShare::Off),
                ("crowding", FairShare::Crowding),
                ("user", FairShare::User),
                ("schema", FairShare::Schema),
            ],
        }),
        example: "user",
        doc: "Between whom the server's time is shared out: users, or default schemas; or users only while one of them crowds out \
              another (crowding): new work of many users waits, and of one of them far less than of the others. That one has \
              twice the weight of the others then, and nobody else is treated otherwise than without shares. Where more comes than the server can \
              do, new work (see queue_limit) of whoever has had the least of the server's time goes first, by time and not \
              by number of statements; who wants less than its share leaves the rest to others. Statements of open \
              transactions do not wait for this, but count. Each worker does this for its own clients.",
        section: Section::Scheduling,
        limit: None,
    },
    OptionSpec {
        name: "fair_weights",
        kind: Kind::Numbers(setting!(engine.shares.fair_weights)),
        example: "app=4,report=1",
        doc: "How much of the server's time users, or schemas, have in proportion to others (see fair_share). * stands for \
              all that are not named; whoever has no weight has 1.",
        section: Section::Scheduling,
        limit: None,
    },
];

/// How much of it anybody may have.
pub(super) const LIMITS: &[OptionSpec] = &[
    OptionSpec {
        name: "user_permits",
        kind: Kind::Numbers(setting!(engine.shares.user_permits)),
        example: "report=2,*=12",
        doc: "How many statements of a user may be under way; its new work (see queue_limit) waits until there are fewer, \
              while that of others goes on. Statements of open transactions do not wait, but count. * stands for each user \
              that is not named; without it those have no limit. With several workers each has an even share of the number, \
              rounded up.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "schema_permits",
        kind: Kind::Numbers(setting!(engine.shares.schema_permits)),
        example: "warehouse=4",
        doc: "The same for clients by their default schema.",
        section: Section::Limits,
        limit: None,
    },
    OptionSpec {
        name: "address_permits",
        kind: Kind::Numbers(setting!(engine.shares.address_permits)),
        example: "10.0.0.7=2,*=8",
        doc: "The same for clients by their IP address. Those on a Unix socket have none.",
        section: Section::Limits,
        limit: None,
    },
];
