//! SHOW PROCESSLIST: a client finds itself and others by the ids that they know, where a backend serves them.
//!
//! The server lists its threads, of which some are backends. The answer is held to its end. In the first column of its
//! rows the id of a client then stands in the place of its backend's. That is so for a client that a backend has served
//! from before the statement until its end, so that none is named for what another one did.

/// Digits of the largest thread id (a BIGINT).
const LONGEST_ID: u8 = 20;

/// Threads of the server with the clients that they serve, in the order of the threads' ids.
pub(crate) type ServedThreads = Box<[(u32, u32)]>;

/// Says whether a text is `SHOW [FULL] PROCESSLIST` and nothing else.
pub(crate) fn is_asked_for(text: &[u8]) -> bool {
    let mut words = sql::plain_words(text);
    if words.next().as_deref() != Some(b"show") {
        return false;
    }
    let mut list = words.next();
    if list.as_deref() == Some(b"full") {
        list = words.next();
    }
    list.as_deref() == Some(b"processlist") && words.next().is_none()
}

/// Returns a row with a client's id in the place of its thread's. `None` where the thread serves none.
pub(in crate::client) fn row_of_client(row: &[u8], served: &[(u32, u32)]) -> Option<Vec<u8>> {
    let (client, behind_id) = client_of_row(row, served)?;
    let digits = client.to_string();
    let mut out = Vec::with_capacity(row.len() + digits.len());
    wire::put_lenenc_bytes(&mut out, digits.as_bytes());
    out.extend_from_slice(behind_id);
    Some(out)
}

/// Returns the client that a row's thread serves, and the bytes behind the thread's id. The packets that end the rows
/// begin with no length of an id.
fn client_of_row<'a>(row: &'a [u8], served: &[(u32, u32)]) -> Option<(u32, &'a [u8])> {
    let (&length, rest) = row.split_first()?;
    let (digits, behind) = rest.split_at_checked(usize::from(length)).filter(|_| length <= LONGEST_ID)?;
    let thread: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let place = served.binary_search_by_key(&thread, |(served, _)| *served).ok()?;
    Some((served[place].1, behind))
}

#[cfg(test)]
mod tests {
    use wire::{Capabilities, Column, ResultSetWriter, StatusFlags};

    use super::*;
    use crate::client::answers::buffered_answer::with_rows;

    fn with_clients(answer: &[u8], served: &[(u32, u32)]) -> Vec<u8> {
        with_rows(answer, |row| row_of_client(row, served))
    }

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
