//! SHOW PROCESSLIST: a client finds itself and others by the ids that they know, where a backend serves them.
//!
//! The server lists its threads, of which some are backends. The answer is held here to its end, and in the first column of its
//! rows the id of a client stands in the place of its backend's: of those that a backend has served from before the
//! statement until its end, so that none is named for what another one did.

use crate::engine::Engine;
use crate::request::Request;

/// Longer answers are passed on as they come, with the server's ids: so much are some thousand threads.
pub(crate) const LARGEST_LIST: usize = 1 << 20;

/// Digits of the largest thread id (a BIGINT).
const LONGEST_ID: u8 = 20;

/// Threads of the server with the clients that they serve.
pub(crate) type Served = Box<[(u32, u32)]>;

/// Whether a text is `SHOW [FULL] PROCESSLIST` and nothing else.
pub(crate) fn is_asked_for(text: &[u8]) -> bool {
    let mut words =
        text.split(|byte| byte.is_ascii_whitespace() || *byte == b';').filter(|word| !word.is_empty());
    let is = |word: Option<&[u8]>, known: &str| {
        word.is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()))
    };
    if !is(words.next(), "show") {
        return false;
    }
    let mut list = words.next();
    if is(list, "full") {
        list = words.next();
    }
    is(list, "processlist") && words.next().is_none()
}

impl Engine {
    /// The statement is about to be sent.
    pub(crate) fn note_served(&self, request: &mut Request) {
        if let Some(served) = &mut request.served {
            *served = self.workers.serving.now().into();
        }
    }

    /// The whole answer is there: it goes to its client.
    pub(crate) fn answer_process_list(&mut self, client: usize, before: &[(u32, u32)], answer: &[u8]) {
        let now = self.workers.serving.now();
        let stayed: Vec<_> = before.iter().filter(|pair| now.contains(pair)).copied().collect();
        self.outbox.send(self.clients[client].connection, &with_clients(answer, &stayed));
    }
}

/// The packets of an answer, with clients' ids in the place of these threads'.
fn with_clients(answer: &[u8], served: &[(u32, u32)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(answer.len() + 10 * served.len());
    let mut rest = answer;
    // The number of columns, and a definition of each.
    let mut head = 1 + usize::from(answer.get(wire::HEADER_LEN).copied().unwrap_or(0));
    while let Some((&[a, b, c, mut sequence], behind)) = rest.split_first_chunk::<{ wire::HEADER_LEN }>() {
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let Some((payload, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        match client_of_row(payload, served).filter(|_| head == 0) {
            Some((client, behind_id)) => {
                let digits = client.to_string();
                let mut row = Vec::with_capacity(payload.len() + digits.len());
                row.push(u8::try_from(digits.len()).expect("ten digits at most"));
                row.extend_from_slice(digits.as_bytes());
                row.extend_from_slice(behind_id);
                wire::put_message(&mut out, &mut sequence, &row);
            }
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

/// The client that a row's thread serves, and what stands behind the thread's id. What ends the rows begins with no length of
/// an id.
fn client_of_row<'a>(row: &'a [u8], served: &[(u32, u32)]) -> Option<(u32, &'a [u8])> {
    let (&length, rest) = row.split_first()?;
    let (digits, behind) = rest.split_at_checked(usize::from(length)).filter(|_| length <= LONGEST_ID)?;
    let thread: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let (_, client) = served.iter().find(|(served, _)| *served == thread)?;
    Some((*client, behind))
}

#[cfg(test)]
mod tests {
    use wire::{Capabilities, Column, ResultSetWriter, StatusFlags};

    use super::*;

    #[test]
    fn only_a_list_alone_is_one() {
        for text in ["SHOW PROCESSLIST", "show full\n processlist ;", " Show Processlist;"] {
            assert!(is_asked_for(text.as_bytes()), "{text}");
        }
        for text in ["SHOW PROCESSLIST; SELECT 1", "SHOW FULL TABLES", "SHOW", "SELECT PROCESSLIST", ""] {
            assert!(!is_asked_for(text.as_bytes()), "{text}");
        }
    }

    fn answer(ids: &[&str], capabilities: Capabilities) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        let columns = [Column::integer("Id"), Column::text("User"), Column::text("Info")];
        let mut rows =
            ResultSetWriter::begin(&mut out, &mut sequence, &columns, StatusFlags::AUTOCOMMIT, capabilities);
        for id in ids {
            rows.row(&[Some(id.as_bytes()), Some(b"7"), None]);
        }
        rows.finish();
        out
    }

    #[test]
    fn the_first_column_has_clients_ids() {
        let served = [(7, 2_147_483_650), (4_000_000_000, 2_147_483_651)];
        for capabilities in [Capabilities::NONE, Capabilities::DEPRECATE_EOF, Capabilities::CACHE_METADATA] {
            let before = answer(&["7", "77", "5", "4000000000"], capabilities);
            let after = answer(&["2147483650", "77", "5", "2147483651"], capabilities);
            assert_eq!(with_clients(&before, &served), after);
            assert_eq!(with_clients(&before, &[]), before);
        }
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        let mut error = Vec::new();
        wire::put_message(&mut error, &mut 1, b"\xff\x48\x04#HY000no");
        assert_eq!(with_clients(&error, &[(7, 8)]), error);
        let whole = answer(&["7"], Capabilities::DEPRECATE_EOF);
        for cut in 0..whole.len() {
            with_clients(&whole[..cut], &[(7, 8)]);
        }
    }
}
