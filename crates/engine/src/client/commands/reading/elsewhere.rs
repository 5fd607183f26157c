//! Clients with a large text that is read by another thread.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use wire::{Capabilities, CommandKind, Extent, StatusFlags};

use super::{LargeText, LargeTextReading, ReadText, Wants};
use crate::accounts::failed_logins::network;
use crate::accounts::task::{Asker, Tasks, Work};
use crate::client::memory::bytes_held::{ClientMemory, Counted};
use crate::client::{Client, Phase};
use crate::ids::ClientRef;
use crate::request::{QueryAttributes, Request, RequestKind};
use crate::server::Server;
use crate::server::stored_code::watch::KnownCode;
use crate::session::Sessions;
use crate::session::aftermath::Diagnostics;
use crate::settings::Settings;

/// The first bytes of the commands that have texts.
const QUERY: u8 = CommandKind::Query as u8;
const PREPARE: u8 = CommandKind::StmtPrepare as u8;

impl Client {
    /// Returns the facts that have to be found about the client's text.
    pub(crate) fn wants(&self, settings: &Settings) -> Wants {
        Wants {
            tables: !matches!(self.session.aftermath.diagnostics(), Diagnostics::None)
                || !self.session.status.contains(StatusFlags::AUTOCOMMIT),
            gives: self.session.named_resources.is_some(),
            variables: settings.carry_user_variables,
        }
    }

    /// Returns how far the first command goes, where it is whole, has a large text and may be taken up. Its memory goes with it from then on.
    pub(in crate::client) fn large_text(
        &self,
        settings: &Settings,
        server: &Server,
        input: &[u8],
    ) -> Option<Extent> {
        let has_text = [QUERY, PREPARE].contains(input.get(wire::HEADER_LEN)?);
        let large = has_text
            && input.len() > settings.large_statement_size
            && matches!(self.phase(), Phase::Idle)
            && self.activity.stalled_since.is_none()
            && self.loss.kind.is_none();
        if !large {
            return None;
        }
        // What is wrong with it is said elsewhere.
        let extent = wire::message_extent(input, 0, server.max_allowed_packet(settings)).ok().flatten();
        extent.filter(|extent| extent.length > settings.large_statement_size + 1)
    }

    /// Returns the kind of such a command, and takes its query attributes off it. `None` where they cannot be read.
    pub(in crate::client) fn large_command(
        &self,
        raw: &mut Vec<u8>,
    ) -> Option<(RequestKind, QueryAttributes)> {
        match raw[wire::HEADER_LEN] {
            PREPARE => Some((RequestKind::Prepare, QueryAttributes::None)),
            _ if self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) => {
                Some((RequestKind::Query, take_attributes(raw)?))
            }
            _ => Some((RequestKind::Query, QueryAttributes::None)),
        }
    }

    /// Returns the client's text, with all that is looked at while it is read.
    pub(in crate::client) fn text_to_read(
        &self,
        (settings, known): (&Settings, &KnownCode),
        sessions: &Sessions,
        server: &Server,
        (command, raw, attributes): (RequestKind, Vec<u8>, QueryAttributes),
        answer: u8,
    ) -> LargeText {
        let code = server.facts.as_ref().map(|_| (Arc::clone(&known.library), known.version));
        let schema = self.session.id().and_then(|session| sessions.state(session).schema.clone());
        let (mode, wants) = (self.lex_mode(sessions, server), self.wants(settings));
        LargeText { command, raw, answer, attributes, mode, wants, schema, code }
    }
}

impl ClientMemory {
    /// Has another thread read a client's text.
    pub(in crate::client) fn begin_reading(
        &mut self,
        asker: ClientRef,
        client: &mut Client,
        text: LargeText,
        tasks: &mut Tasks,
    ) {
        let mut counted = Counted::default();
        self.statements.set(&mut counted, text.raw.len() + text.attributes.bytes());
        let answer = text.answer;
        let task = tasks.give(Asker::Client(asker), Work::Read(Box::new(text)), network(&client.peer));
        client.read_elsewhere(LargeTextReading { task, counted, answer });
    }

    /// Ends a client's wait for its text. Returns the number of the answer.
    pub(in crate::client) fn end_reading(&mut self, client: &mut Client) -> Option<u8> {
        let reading = client.reading_mut()?;
        self.statements.give_back(&mut reading.counted);
        let answer = reading.answer;
        client.end_reading();
        Some(answer)
    }

    /// Gives up the reading of a client's text: nobody waits for it any more.
    pub(in crate::client) fn forget_reading(&mut self, client: &mut Client, tasks: &mut Tasks) {
        let Some(reading) = client.reading_mut() else { return };
        self.statements.give_back(&mut reading.counted);
        tasks.give_up(reading.task);
    }
}

impl ReadText {
    /// Returns the request that the client asks for.
    pub(in crate::client) fn into_request(self) -> Request {
        *self.0
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
