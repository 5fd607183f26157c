//! Takes the parts of an answer to their places as it comes: to the client, to others that wait for the same answer, and to the summary of
//! its statement.

use std::borrow::Cow;

use wire::{ReplyEvent, ReplySink, StatusFlags};

use crate::backend::{Summary, TrackedChange};
use crate::client::Client;
use crate::client::answers::buffered_answer::LARGEST_HELD;
use crate::client::commands::known_answers::LARGEST_REMEMBERED;
use crate::cluster::refusal::is_refusal_by_role;
use crate::errors::ServerError;
use crate::outbox::Outbox;
use crate::scheduling::coalescing::group::CoalescedGroup;
use crate::session::known_answers::KnownQuestion;
use crate::session::trackers::{self, ToldChanges};

/// Largest answer to a question of our own, in bytes. Such answers are small: the warnings of one statement (max_error_count, 64 by default).
pub(in crate::backend) const LARGEST_KEPT: usize = 64 << 10;

/// Takes the findings of a reply reader to their places.
pub(super) struct Relay<'a> {
    pub(super) outbox: &'a mut Outbox,
    /// The client's connection; `None` where the answer is for us or for nobody.
    pub(super) to: Option<seam::ConnectionId>,
    /// Number of bytes that may be kept here.
    pub(in crate::backend) keep: usize,
    /// True where the kept bytes go to the client at the end, if there are no more than `keep`.
    pub(super) holds: bool,
    pub(in crate::backend) group: Option<&'a mut CoalescedGroup>,
    /// Filter for the changes of its session that the client hears of.
    pub(super) told: Option<ToldChanges<'a>>,
    /// True where the changes are kept here as they come.
    pub(super) keeps_changes: bool,
    /// The errors that do not go to the client, since its statement goes to another server.
    pub(super) withholds: Withholds,
    pub(super) summary: &'a mut Summary,
}

impl Client {
    /// Returns the number of bytes of its statement's answer that are kept here.
    pub(in crate::backend) fn keeps(&self) -> usize {
        match self.request.as_ref().and_then(|request| request.remember.as_ref()) {
            _ if self.awaits_lock() => LARGEST_KEPT,
            _ if self.holds_answer() => LARGEST_HELD,
            Some(KnownQuestion::Show(_)) => LARGEST_REMEMBERED,
            _ => 0,
        }
    }

    /// Says whether the answer to its statement is held until it is whole.
    pub(super) fn holds_answer(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.held_for.is_some() || request.kills.is_some())
    }

    /// Says whether its statement's changes of the session are remembered.
    pub(super) fn keeps_changes(&self) -> bool {
        let remember = self.request.as_ref().and_then(|request| request.remember.as_ref());
        matches!(remember, Some(KnownQuestion::Set(_)))
    }
}

/// ER_QUERY_INTERRUPTED, MariaDB's ER_CONNECTION_KILLED and ER_STATEMENT_TIMEOUT, and MySQL's ER_QUERY_TIMEOUT.
const ENDED: [u16; 4] = [1317, 1927, 1969, 3024];

/// Errors that a client does not hear.
#[derive(Clone, Copy)]
pub(super) enum Withholds {
    Nothing,
    /// Errors by which a server says that it takes no writes.
    Refusals,
    /// All errors of the statement itself, but for its interruption, which is meant for the client.
    Errors,
}

impl ReplySink for Relay<'_> {
    fn relay(&mut self, bytes: &[u8]) {
        if self.summary.withheld {
            return;
        }
        let all_kept = self.summary.has_kept_all();
        self.summary.relayed += bytes.len() as u64;
        if self.summary.kept_answer.len() + bytes.len() <= self.keep {
            self.summary.kept_answer.extend_from_slice(bytes);
            if self.holds && all_kept {
                return;
            }
        }
        if let Some(connection) =
            self.to.filter(|_| self.holds && all_kept && !self.summary.kept_answer.is_empty())
        {
            // More than is held: what there is goes ahead.
            self.outbox.send(connection, &std::mem::take(&mut self.summary.kept_answer));
        }
        if let Some(group) = &mut self.group {
            group.collect(bytes);
        } else if let Some(connection) = self.to {
            self.outbox.send(connection, bytes);
        }
    }

    fn told<'c>(&mut self, changes: &'c [u8]) -> Cow<'c, [u8]> {
        let told = self.told.map_or(Cow::Borrowed(&[][..]), |told| told.of(changes));
        if !told.is_empty() {
            let mut length = Vec::new();
            wire::put_lenenc_bytes(&mut length, &told);
            // The length of an empty info stands before it.
            self.summary.told += 1 + length.len() as u64;
        }
        told
    }

    fn event(&mut self, event: ReplyEvent<'_>) {
        let summary = &mut *self.summary;
        match event {
            ReplyEvent::Ok(ok) => {
                summary.take_status(ok.status);
                summary.warnings = ok.warnings;
                if ok.header == 0x00 {
                    summary.affected_rows = ok.affected_rows;
                    summary.counts.changed = summary.counts.changed.saturating_add(ok.affected_rows);
                    summary.counts.copied = number_behind(b"Records: ", ok.info);
                    summary.counts.matched = number_behind(b"Rows matched: ", ok.info);
                    summary.counts.results = summary.counts.results.saturating_add(1);
                    summary.counts.rows = None;
                }
                if ok.last_insert_id != 0 {
                    summary.last_insert_id = ok.last_insert_id;
                }
                if self.keeps_changes {
                    summary.raw_changes = trackers::without_counter(ok.session_changes);
                }
                summary.take_changes(ok.session_changes);
            }
            ReplyEvent::Eof(eof) => {
                summary.take_status(eof.status);
                summary.warnings = eof.warnings;
            }
            ReplyEvent::Err(error) | ReplyEvent::PreludeErr(error) => {
                summary.prelude_failed = matches!(event, ReplyEvent::PreludeErr(_));
                let is_first = summary.relayed == 0;
                summary.withheld = is_first
                    && match self.withholds {
                        Withholds::Nothing => false,
                        Withholds::Refusals => is_refusal_by_role(error.code, error.message),
                        Withholds::Errors => !summary.prelude_failed && !ENDED.contains(&error.code),
                    };
                summary.error = Some(ServerError {
                    code: error.code,
                    sql_state: error.sql_state,
                    message: error.message.to_vec(),
                });
            }
            ReplyEvent::PreludeOk(_) => summary.preludes_done += 1,
            ReplyEvent::LocalInfile { sequence } => summary.file.asked = Some(sequence),
            ReplyEvent::LogBegins => summary.log_begun = true,
            ReplyEvent::ResultSetEnd { rows } => {
                summary.counts.results = summary.counts.results.saturating_add(1);
                summary.counts.rows = Some(rows);
                summary.counts.sent = summary.counts.sent.saturating_add(rows);
                summary.counts.found = Some(rows);
            }
            ReplyEvent::Metadata(digest) => summary.metadata = Some(digest),
            ReplyEvent::Prepared { statement, parameters, .. } => {
                summary.counts.rows = None;
                summary.prepared = Some((statement, parameters));
            }
        }
    }
}

/// Returns the first number in `Records: 3  Duplicates: 0  Warnings: 0` (ER_INSERT_INFO) or `Rows matched: 3  Changed: 1  Warnings: 0`
/// (ER_UPDATE_INFO).
fn number_behind(words: &[u8], info: &[u8]) -> Option<u64> {
    let number = info.strip_prefix(words)?.split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

impl Summary {
    /// Returns the number of results, an error among them.
    pub(crate) fn answers(&self) -> u32 {
        self.counts.results.saturating_add(u32::from(self.error.is_some()))
    }

    fn take_status(&mut self, status: StatusFlags) {
        self.status = Some(status);
        self.in_read_only |= status.contains(StatusFlags::IN_TRANS_READONLY);
    }

    fn take_changes(&mut self, raw: &[u8]) {
        for change in wire::session_changes(raw).flatten() {
            match change {
                // A change of every statement's would make none harmless, and none may share a backend then.
                wire::SessionChange::SystemVariable { name: trackers::COUNTER, .. } => {}
                wire::SessionChange::SystemVariable { name, value } => {
                    self.changes.push(TrackedChange::Variable { name: name.into(), value: value.into() });
                }
                wire::SessionChange::Schema(name) => self.changes.push(TrackedChange::Schema(name.into())),
                wire::SessionChange::StateChange => self.changes.push(TrackedChange::State),
                _ => {}
            }
        }
    }
}
