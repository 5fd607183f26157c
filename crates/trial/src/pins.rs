//! What can be said of a reason to pin.

/// What a reason is, and how an application avoids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Where it comes from.
    pub from: &'static str,
    /// How to do without it.
    pub avoid: &'static str,
}

/// By the names of the admin port's table `pins`; the reasons that hold for each client of a trial are left out.
const ALL: [(&str, Advice); 21] = [
    (
        "user_variable",
        Advice {
            from: "a user variable that got its value from an expression, a SELECT or a routine",
            avoid: "set it to a literal, or keep the value in the application; a reset of the connection ends it",
        },
    ),
    (
        "temporary_table",
        Advice {
            from: "CREATE TEMPORARY TABLE",
            avoid: "drop it as soon as it is done with, or use WITH in its place",
        },
    ),
    (
        "lock_tables",
        Advice {
            from: "LOCK TABLES or FLUSH TABLES WITH READ LOCK",
            avoid: "a transaction in its place; UNLOCK TABLES ends it",
        },
    ),
    (
        "named_lock",
        Advice {
            from: "GET_LOCK",
            avoid: "RELEASE_LOCK as soon as the work is done, or a row that is locked FOR UPDATE in a transaction",
        },
    ),
    (
        "text_prepare",
        Advice {
            from: "PREPARE in text",
            avoid: "the protocol's prepared statements, which libraries use, or DEALLOCATE PREPARE behind it",
        },
    ),
    ("handler", Advice { from: "HANDLER ... OPEN", avoid: "HANDLER ... CLOSE when done, or a SELECT" }),
    (
        "found_rows",
        Advice {
            from: "SQL_CALC_FOUND_ROWS or what FOUND_ROWS() would have to know",
            avoid: "a second SELECT with COUNT(*)",
        },
    ),
    (
        "session_variable",
        Advice {
            from: "a session variable that cannot be carried from one connection to another",
            avoid: "set it for the server, or not at all; a reset of the connection ends it",
        },
    ),
    ("role", Advice { from: "SET ROLE", avoid: "give the account that role as its default" }),
    (
        "next_transaction",
        Advice {
            from: "SET TRANSACTION for the next transaction alone",
            avoid: "START TRANSACTION with what is wanted, or SET SESSION TRANSACTION",
        },
    ),
    (
        "xa",
        Advice {
            from: "XA",
            avoid: "XA COMMIT or XA ROLLBACK soon; a transaction without XA does not need it",
        },
    ),
    (
        "routine",
        Advice {
            from: "CALL, or a function that may leave something behind",
            avoid: "let the service account read stored code (docs/ACCOUNTS.md), so that it is known what it does",
        },
    ),
    (
        "sequence",
        Advice {
            from: "a sequence whose last value the server keeps for a connection",
            avoid: "INSERT ... RETURNING",
        },
    ),
    (
        "unknown",
        Advice {
            from: "a statement that is not understood",
            avoid: "look at the statement; a reset of the connection ends it, where that can",
        },
    ),
    (
        "prepared_statement",
        Advice {
            from: "a prepared statement that only its connection can execute",
            avoid: "close it when done; DATABASE(), SHOW WARNINGS and user variables in it are the reasons",
        },
    ),
    (
        "character_set",
        Advice {
            from: "a character set in which texts cannot be read for sure (such as sjis, gbk, big5)",
            avoid: "utf8mb4 for the connection",
        },
    ),
    (
        "state_change",
        Advice {
            from: "a change of the session that only its connection has: by triggers, functions, SET STATEMENT, hints",
            avoid: "let the service account read stored code (docs/ACCOUNTS.md); a reset of the connection ends it",
        },
    ),
    ("cursor", Advice { from: "a cursor that is open", avoid: "read all its rows, or close it" }),
    (
        "savepoint",
        Advice { from: "SAVEPOINT outside of a transaction that can be seen", avoid: "BEGIN before it" },
    ),
    (
        "metadata_lock",
        Advice {
            from: "tables used with autocommit off and no transaction",
            avoid: "COMMIT behind it, or autocommit",
        },
    ),
    (
        "no_trackers",
        Advice {
            from: "the server, which does not report what statements change of their session",
            avoid: "a server that has CLIENT_SESSION_TRACK; else as many backends as clients are at work",
        },
    ),
];

/// A replica keeps its backend for good, and should.
const REPLICATION: (&str, Advice) = (
    "replication",
    Advice {
        from: "a replica, or a program that reads the binary log",
        avoid: "nothing: it keeps one backend for as long as it reads",
    },
);

/// What can be said of a reason by its name; `None` where nothing can.
pub fn advice(reason: &str) -> Option<Advice> {
    let mut all = ALL.iter().chain([&REPLICATION]);
    all.find(|(name, _)| *name == reason).map(|(_, advice)| *advice)
}
