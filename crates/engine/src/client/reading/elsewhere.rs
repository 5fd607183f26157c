//! Clients whose large text is read by another thread.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sql::Kind;
use wire::{Capabilities, CommandKind, Extent};

use super::{LargeText, ReadText, Reading, with_text_of};
use crate::accounts::failed_logins::network;
use crate::accounts::task::{Asker, Work};
use crate::client::Phase;
use crate::client::bytes_held::Counted;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef};
use crate::request::{QueryAttributes, RequestKind};

/// The first bytes of the commands that have texts.
const QUERY: u8 = CommandKind::Query as u8;
const PREPARE: u8 = CommandKind::StmtPrepare as u8;

impl Engine {
    /// How far the first command goes, where it is a whole one with a large text: its memory goes with it from then on.
    pub(in crate::client) fn large_text(&self, key: ClientKey, input: &[u8]) -> Option<Extent> {
        let client = &self.clients[key];
        let has_text = [QUERY, PREPARE].contains(input.get(wire::HEADER_LEN)?);
        let large = has_text
            && input.len() > self.settings.large_statement_size
            && matches!(client.phase(), Phase::Idle)
            && client.activity.stalled_since.is_none()
            && client.loss.lost.is_none()
            && !self.waits_for_kill(key)
            && !self.io.outbox.is_about_to_compress(client.connection);
        if !large {
            return None;
        }
        // What is wrong with it is said elsewhere.
        let extent =
            wire::message_extent(input, 0, self.servers.primary().max_allowed_packet(&self.settings))
                .ok()
                .flatten();
        extent.filter(|extent| extent.length > self.settings.large_statement_size + 1)
    }

    /// One of those.
    pub(in crate::client) fn take_large_text(&mut self, key: ClientKey, mut raw: Vec<u8>, answer: u8) {
        self.clients[key].takes_command(self.now);
        let client = &self.clients[key];
        let (command, attributes) = match raw[wire::HEADER_LEN] {
            PREPARE => (RequestKind::Prepare, QueryAttributes::None),
            _ if client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) => {
                match take_attributes(&mut raw) {
                    Some(attributes) => (RequestKind::Query, attributes),
                    None => return self.answer_error(key, answer, &MySqlError::malformed_packet()),
                }
            }
            _ => (RequestKind::Query, QueryAttributes::None),
        };
        self.read_elsewhere(key, command, raw, answer, attributes);
    }

    /// Has a large text read elsewhere; what was found comes to [`Self::text_is_read`].
    pub(in crate::client) fn read_elsewhere(
        &mut self,
        key: ClientKey,
        command: RequestKind,
        raw: Vec<u8>,
        answer: u8,
        attributes: QueryAttributes,
    ) {
        self.pool.take_up_code();
        let known = &self.pool.known_code;
        let is_known = self.servers.primary().facts.is_some();
        let code = is_known.then(|| (Arc::clone(&known.library), known.version));
        let client = &self.clients[key];
        let (asker, network) = (Asker::Client(self.clients.ref_to(key)), network(&client.peer));
        let schema = client.session.id.and_then(|session| self.sessions.states.state(session).schema.clone());
        let mut counted = Counted::default();
        self.client_memory.statements.set(&mut counted, raw.len() + attributes.bytes());
        let (mode, wants) = (self.lex_mode(key), self.clients[key].wants(&self.settings));
        let text = LargeText { command, raw, answer, attributes, mode, wants, schema, code };
        let task = self.io.tasks.give(asker, Work::Read(Box::new(text)), network);
        self.clients[key].read_elsewhere(Reading { task, counted, answer });
        if self.lacks_statement_memory() {
            self.cancel_reading(key, &MySqlError::statement_memory(self.settings.statement_memory));
        }
    }

    /// What was to be read is not to run.
    pub(crate) fn cancel_reading(&mut self, key: ClientKey, error: &MySqlError) {
        let Phase::Reading(reading) = self.clients[key].phase() else { return };
        let answer = reading.answer;
        self.forget_reading(key);
        self.clients[key].end_reading();
        self.answer_error(key, answer, error);
        self.resume.push(key);
    }

    /// Nobody waits for it any more.
    pub(in crate::client) fn forget_reading(&mut self, key: ClientKey) {
        let Some(reading) = self.clients[key].reading_mut() else { return };
        self.client_memory.statements.give_back(&mut reading.counted);
        let task = reading.task;
        self.io.tasks.give_up(task);
    }

    /// Its client's statement goes on.
    pub(crate) fn text_is_read(&mut self, client: ClientRef, read: ReadText) {
        let key = client.key;
        let Some(client) = self.clients.find_mut(client) else { return };
        let Some(reading) = client.reading_mut() else { return };
        self.client_memory.statements.give_back(&mut reading.counted);
        let answer = reading.answer;
        client.end_reading();
        self.resume.push(key);
        let mut request = *read.0;
        if let Some(lost) = self.clients[key].loss.lost {
            return self.answer_lost(key, lost, answer);
        }
        let mut raw = std::mem::take(&mut request.raw);
        let goes_on = match (request.command, request.statement.kind) {
            (RequestKind::Prepare, _) => self.may_prepare(key, &request, raw.len()),
            (_, Kind::Kill(_)) => {
                with_text_of(&mut raw, |text| self.is_for_the_server(key, &mut request, text))
            }
            // Nobody else looks at a large text any more, which may have to be put together for that.
            _ => self.is_for_the_server(key, &mut request, b""),
        };
        if goes_on {
            request.raw = raw;
            self.queue_request(key, request);
        }
        if self.clients.contains(key) && matches!(self.clients[key].phase(), Phase::Idle) {
            self.drain_client(key);
        }
    }
}

/// Takes its query attributes off a COM_QUERY; `None` where they cannot be read.
fn take_attributes(raw: &mut Vec<u8>) -> Option<QueryAttributes> {
    wire::unpack_message(raw);
    let (attributes, text) = wire::split_query_attributes(&raw[1..]).ok()?;
    let before = raw.len() - text.len();
    raw.drain(1..before);
    wire::pack_message(raw, &mut 0);
    Some(attributes.map_or(QueryAttributes::None, |attributes| QueryAttributes::OfText(attributes.into())))
}
