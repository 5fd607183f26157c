//! Answers that are held to their end.

use sql::{Classification, Kind};

use crate::client::commands::process_list::{self, ServedThreads};

/// The reason for which an answer is held.
pub(crate) enum HeldFor {
    /// The answer lists the server's threads. The value names the clients that they served when it was asked for.
    ProcessList(ServedThreads),
    /// The answer shows the session's counters.
    Counters,
    /// The session's counters are 0 behind the answer, where it is OK.
    NoCounters,
}

impl HeldFor {
    /// Returns the reason for which a text's answer is held. `None` where the answer is passed on as it comes.
    pub(in crate::client) fn of_text(statement: &Classification, text: &[u8]) -> Option<Self> {
        if !matches!(statement.kind, Kind::Show | Kind::Admin) {
            return None;
        }
        if process_list::is_asked_for(text) {
            return Some(Self::ProcessList(ServedThreads::default()));
        }
        if statement.several {
            return None;
        }
        let mut words = sql::plain_words(text);
        match (words.next()?.as_slice(), words.next()?.as_slice()) {
            (b"show", b"status") => Some(Self::Counters),
            (b"show", b"session" | b"local") if words.next()? == b"status" => Some(Self::Counters),
            (b"flush", b"status") => Some(Self::NoCounters),
            (b"flush", b"local" | b"no_write_to_binlog") if words.next()? == b"status" => {
                Some(Self::NoCounters)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sql::LexMode;

    use super::*;

    #[test]
    fn the_sessions_counters_alone_are_held() {
        let held = |text: &str| {
            HeldFor::of_text(&sql::classify(text.as_bytes(), LexMode::default()), text.as_bytes())
        };
        for text in [
            "SHOW STATUS",
            "show session\nstatus like 'Com_stmt_close';",
            "SHOW LOCAL STATUS WHERE Value > 1",
        ] {
            assert!(matches!(held(text), Some(HeldFor::Counters)), "{text}");
        }
        for text in ["FLUSH STATUS", "flush local status ;", "FLUSH NO_WRITE_TO_BINLOG STATUS"] {
            assert!(matches!(held(text), Some(HeldFor::NoCounters)), "{text}");
        }
        for text in
            ["SHOW GLOBAL STATUS", "SHOW STATUS; SELECT 1", "SHOW SLAVE STATUS", "FLUSH TABLES", "SHOW", ""]
        {
            assert!(held(text).is_none(), "{text}");
        }
    }
}
