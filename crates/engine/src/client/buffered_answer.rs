//! Answers that are held to their end, and go to their client as that is to see them: what a backend says there of itself is put
//! in terms of the client.

use sql::Kind;

use super::process_list::{self, Served};
use super::{Client, counters};
use crate::pool::Pool;
use crate::request::Request;
use crate::request::statement::Statement;
use crate::steps;

/// Longer answers are passed on as they come: so much are some thousand threads, or the whole SHOW STATUS thirty times.
pub(crate) const LARGEST_HELD: usize = 1 << 20;

/// What becomes of an answer that is held.
pub(crate) enum Held {
    /// It lists the server's threads: which of them served whom when it was asked for.
    ProcessList(Served),
    /// It shows the session's counters.
    Counters,
    /// Where it is OK, the session's counters are 0 behind it.
    NoCounters,
}

impl Held {
    /// The kind of a text's answer; `None` where that is passed on as it comes.
    pub(super) fn of_text(statement: &Statement, text: &[u8]) -> Option<Self> {
        if !matches!(statement.kind, Kind::Show | Kind::Admin) {
            return None;
        }
        if process_list::is_asked_for(text) {
            return Some(Self::ProcessList(Served::default()));
        }
        if statement.several {
            return None;
        }
        let mut words = words_of(text);
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

/// What stands between spaces and semicolons, in lower case.
pub(super) fn words_of(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let words = steps::all(text).split(|byte| byte.is_ascii_whitespace() || *byte == b';');
    words.filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase)
}

impl Pool {
    /// The statement is about to be sent.
    pub(crate) fn note_served(&self, request: &mut Request) {
        if let Some(Held::ProcessList(served)) = &mut request.held {
            *served = self.workers.serving.now().into();
        }
    }
}

impl Client {
    /// The whole answer is there: what of it goes to the client.
    pub(crate) fn answer_as_seen(&mut self, pool: &Pool, held: Held, failed: bool, answer: &[u8]) -> Vec<u8> {
        match held {
            Held::ProcessList(before) => {
                // Those that have stayed until the end, so that none is named for what another one did.
                let now = pool.workers.serving.now();
                let stayed: Vec<_> = before.iter().filter(|pair| now.contains(pair)).copied().collect();
                with_rows(answer, |row| process_list::row_of_client(row, &stayed))
            }
            Held::Counters => {
                let own = counters::Own::of(self);
                with_rows(answer, |row| counters::row_of_client(row, &own))
            }
            Held::NoCounters => {
                if let Some(statements) = self.session.statements.as_mut().filter(|_| !failed) {
                    statements.counters = counters::Counters::default();
                }
                answer.to_vec()
            }
        }
    }
}

/// The packets of an answer, with other rows in the place of those for which there are some. What ends the rows must be none.
pub(super) fn with_rows(answer: &[u8], other: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(answer.len() + answer.len() / 8);
    let mut rest = answer;
    // The number of columns, and a definition of each.
    let mut head = 1 + usize::from(answer.get(wire::HEADER_LEN).copied().unwrap_or(0));
    while let Some((&[a, b, c, mut sequence], behind)) = rest.split_first_chunk::<{ wire::HEADER_LEN }>() {
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let Some((payload, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        match if head == 0 { other(payload) } else { None } {
            Some(row) => wire::put_message(&mut out, &mut sequence, &row),
            None => {
                out.extend_from_slice(&[a, b, c, sequence]);
                out.extend_from_slice(payload);
            }
        }
        head = head.saturating_sub(1);
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use sql::LexMode;

    use super::*;

    #[test]
    fn the_sessions_counters_alone_are_held() {
        let held = |text: &str| {
            Held::of_text(&Statement::of_text(text.as_bytes(), LexMode::default()), text.as_bytes())
        };
        for text in [
            "SHOW STATUS",
            "show session\nstatus like 'Com_stmt_close';",
            "SHOW LOCAL STATUS WHERE Value > 1",
        ] {
            assert!(matches!(held(text), Some(Held::Counters)), "{text}");
        }
        for text in ["FLUSH STATUS", "flush local status ;", "FLUSH NO_WRITE_TO_BINLOG STATUS"] {
            assert!(matches!(held(text), Some(Held::NoCounters)), "{text}");
        }
        for text in
            ["SHOW GLOBAL STATUS", "SHOW STATUS; SELECT 1", "SHOW SLAVE STATUS", "FLUSH TABLES", "SHOW", ""]
        {
            assert!(held(text).is_none(), "{text}");
        }
    }
}
