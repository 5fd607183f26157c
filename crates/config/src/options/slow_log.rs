//! Which statements are written down because they took long, and where.

use std::time::Duration;

use super::{OFF_ON, OptionSpec, Section, YEAR, setting};
use crate::value::{Kind, Words};

/// The slow log.
pub(super) const SLOW_LOG: &[OptionSpec] = &[
    OptionSpec {
        name: "slow_log",
        kind: Kind::Path(setting!(slow_log)),
        example: "/var/log/onramp/slow.log",
        doc: "The file to which slow statements are written (see slow_statement_time), one object of JSON a line; stderr for the \
              standard error stream. It is opened anew by SIGUSR2, by SIGHUP and by RELOAD. A file that cannot be written is a warning, \
              and its lines are counted (Onramp_slow_log_lost): statements go on. It is fixed at the start, since whoever may \
              choose it can have others' words written to any file that Onramp may write.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "slow_statement_time",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.slow_log.statement_time)),
        example: "1s",
        doc: "Statements that the server takes this long for, to the end of their answer, are written to slow_log; 0s for none. It is \
              off by default since lines hold the names of users, schemas, tables and columns: whoever turns it on says who may \
              read them.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "slow_wait_time",
        kind: Kind::Duration(Duration::ZERO..=YEAR, setting!(engine.slow_log.wait_time)),
        example: "500ms",
        doc: "Statements that wait this long in Onramp's queues before they start, or do not start at all, are written to slow_log; \
              0s for none.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "slow_log_per_second",
        // At 1 kB a line, 100,000 are what a fast disk writes.
        kind: Kind::Count(1..=100_000, setting!(engine.slow_log.per_second)),
        example: "10",
        doc: "Lines of slow_log in a second, of all workers together, each of which has an even share (1 at least). What is left \
              out is counted: in the next line of that worker (left_out), and as Onramp_slow_log_left_out.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "slow_log_literals",
        kind: Kind::Word(&Words { slot: setting!(engine.slow_log.literals), words: OFF_ON }),
        example: "on",
        doc: "Whether lines of slow_log have texts as clients sent them, too, 4 KiB of each. They hold what clients read and write. \
              Texts that may hold a password of an account are never written (CREATE USER, SET PASSWORD, and all that \
              mention one), nor those of which not all is understood. Each statement is looked through once more for that.",
        section: Section::Program,
        limit: None,
    },
];
