//! Answers that are held to their end, and go to their client as it is to see them. The parts that a backend says of
//! itself are put in terms of the client.

use crate::client::answers::held_answer::HeldFor;
use crate::client::commands::statement_counters::Counters;
use crate::client::{Client, commands::counters, commands::process_list};
use crate::pool::Pool;
use crate::request::Request;

/// Bytes of the longest answer that is held. Longer ones are passed on as they come: so much are some thousand threads,
/// or the whole SHOW STATUS thirty times.
pub(crate) const LARGEST_HELD: usize = 1 << 20;

impl Pool {
    /// Notes which clients the server's threads serve, where a list of them is about to be asked for.
    pub(crate) fn note_served(&self, request: &mut Request) {
        if let Some(HeldFor::ProcessList(served)) = &mut request.held_for {
            *served = self.workers.serving.now().into();
        }
    }
}

impl Client {
    /// Returns the answer that goes to the client, now that the whole answer is there.
    pub(crate) fn answer_as_seen(
        &mut self,
        pool: &Pool,
        held: HeldFor,
        failed: bool,
        answer: &[u8],
    ) -> Vec<u8> {
        match held {
            HeldFor::ProcessList(before) => {
                // Those that have stayed until the end, so that none is named for what another one did.
                let now = pool.workers.serving.now();
                let stayed: Vec<_> =
                    before.iter().filter(|pair| now.binary_search(pair).is_ok()).copied().collect();
                with_rows(answer, |row| process_list::row_of_client(row, &stayed))
            }
            HeldFor::Counters => {
                let own = counters::Own::of(self);
                with_rows(answer, |row| counters::row_of_client(row, &own))
            }
            HeldFor::NoCounters => {
                if let Some(statements) = self.session.statements.as_mut().filter(|_| !failed) {
                    statements.counters = Counters::default();
                }
                answer.to_vec()
            }
        }
    }
}

/// Replaces the rows of an answer for which `other` gives another row. It must give none for the packets that end the rows.
pub(in crate::client) fn with_rows(answer: &[u8], other: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
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
