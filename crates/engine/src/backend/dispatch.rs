//! From the queue to the server: who runs next, on which backend, and what goes ahead of the statement.

use sql::{CharsetSetting, Effects, Kind, Reads};
use wire::{Capabilities, CommandKind, Expect, ReplyOptions, ReplyReader};

use super::{Backend, InFlight, Owner, Permit, Summary};
use crate::aftermath::Diagnostics;
use crate::client::commands::key_u32;
use crate::client::{Client, Phase, Running};
use crate::engine::Engine;
use crate::pins::Pins;
use crate::request::{Request, RequestKind, may_be_several};
use crate::settings::ThreadHandling;

/// Larger texts are not joined with what goes ahead of them: the copy would cost more than a round trip, and the sum
/// might exceed the server's max_allowed_packet.
const LARGEST_JOINED: usize = 1 << 20;

/// How a statement stands towards backends that others share.
enum Sharing {
    /// It has been sent to one.
    Started,
    /// It belongs to one, and all are full: they will have room in a moment.
    Full,
    /// It goes on its own.
    Alone,
}

impl Engine {
    /// Starts all that may start. Once per turn, so that what arrived together is put in order first and leaves in as few
    /// writes as there are backends.
    pub(crate) fn dispatch(&mut self) {
        self.start_urgent();
        let mut backend_free = true;
        while let Some(key) = self.scheduler.peek(backend_free) {
            let key = key as usize;
            match self.start_shared(key) {
                Sharing::Started => continue,
                Sharing::Full => break,
                Sharing::Alone if !self.scheduler.has_permit() => break,
                Sharing::Alone => {}
            }
            let held = self.clients[key].backend;
            match held.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => {
                    self.scheduler.start(key_u32(key));
                    self.backends[backend].permit = Permit::Held;
                    self.send_request(key, backend);
                }
                None => {
                    self.open_backends_for(key);
                    backend_free = false;
                }
            }
        }
        self.note_lack_of_backends(!backend_free);
    }

    /// KILLs, without a permit.
    fn start_urgent(&mut self) {
        for (key, id) in std::mem::take(&mut self.urgent) {
            if self
                .clients
                .get(key)
                .is_none_or(|client| client.id != id || !matches!(client.phase, Phase::Queued))
            {
                continue;
            }
            let held = self.clients[key].backend;
            match held.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => self.send_request(key, backend),
                None => {
                    self.open_backends_for(key);
                    self.urgent.push((key, id));
                }
            }
        }
    }

    /// A short read follows others on a backend that is reading already, where there are enough of those or no permit is
    /// left: it shares that backend's permit.
    fn start_shared(&mut self, key: usize) -> Sharing {
        let client = &self.clients[key];
        let request = client.request.as_ref().expect("a queued client has a request");
        if client.backend.is_some() || !self.may_share(request) || self.settings.statements_in_flight < 2 {
            return Sharing::Alone;
        }
        let shared = self.shared_backends_for(key);
        let enough = shared.running >= self.settings.shared_backends as usize;
        match shared.with_room {
            Some(backend) if enough || !self.scheduler.has_permit() => {
                self.scheduler.start_shared(key_u32(key));
                self.send_request(key, backend);
                Sharing::Started
            }
            None if enough => Sharing::Full,
            _ => Sharing::Alone,
        }
    }

    /// Reads whose like have been short lately; their client has no state that needs attention.
    fn may_share(&self, request: &Request) -> bool {
        request.statement.plain_read
            && request.command == RequestKind::Query
            && request.text().is_some()
            && self.history.is_harmless(request.statement.fingerprint)
    }

    /// Sends a client's request to a backend; what is missing of its session state goes ahead of it.
    pub(crate) fn send_request(&mut self, key: usize, backend_key: usize) {
        let mut request = self.take_request(key).expect("a client that starts has a request");
        self.begin_on(key, backend_key, &request);
        self.rewrite_calls(key, backend_key, &mut request);
        let ahead = if request.prepared { Vec::new() } else { self.preludes(key, backend_key, &request) };
        let several = request.text().is_some_and(may_be_several) && request.command == RequestKind::Query;
        let client_several = self.clients[key].capabilities.contains(Capabilities::MULTI_STATEMENTS);
        let joined = !ahead.is_empty() && can_be_joined(&request) && (client_several || !several);
        if !ahead.is_empty() && !joined {
            request.prepared = true;
            self.buffered += request.raw.len();
            self.clients[key].request = Some(request);
            self.clients[key].phase = Phase::Preparing;
            self.set_multi_statements(backend_key, true);
            let preludes = u8::try_from(ahead.len()).expect("five kinds of preludes");
            let text = ahead.join(&b';');
            let owner = Owner::ApplyState { client: key };
            return self.send_own(
                backend_key,
                owner,
                CommandKind::Query,
                &text,
                Expect::ResultSets,
                preludes - 1,
            );
        }
        if joined || several {
            self.set_multi_statements(backend_key, joined || client_several);
        }
        self.put_request(key, backend_key, &request, &ahead);
        self.clients[key].phase = Phase::Running(Running::OnServer);
        request.raw = Vec::new();
        self.clients[key].request = Some(request);
    }

    /// The client takes the backend, alone or beside others.
    fn begin_on(&mut self, key: usize, backend_key: usize, request: &Request) {
        let shared = self.may_share(request) && self.clients[key].backend.is_none();
        let backend = &mut self.backends[backend_key];
        if backend.is_idle() {
            self.idle.retain(|&idle| idle != backend_key);
            if shared && !self.sharing.contains(&backend_key) {
                self.sharing.push(backend_key);
            }
        }
        if !shared {
            backend.holder = Some(key);
        }
        self.clients[key].backend = Some(backend_key);
    }

    /// What has to be true on the backend before the request, as statements; empty where it is true already.
    fn preludes(&self, key: usize, backend_key: usize, request: &Request) -> Vec<Vec<u8>> {
        let (client, backend) = (&self.clients[key], &self.backends[backend_key]);
        let mut preludes = Vec::new();
        if request.command == RequestKind::ResetConnection {
            return preludes;
        }
        if !backend.trackers {
            preludes.push(super::connect::TRACKERS_ON.as_bytes().to_vec());
        }
        if client.session != Some(backend.session) {
            let wanted = self.sessions.state(client.session.expect("a client with requests has logged in"));
            let found = self.sessions.state(backend.session);
            let mut set = Vec::new();
            wanted.put_set(found, &mut set);
            if !set.is_empty() {
                preludes.push(set);
            }
            if let Some(schema) = wanted.schema.as_ref().filter(|_| wanted.schema != found.schema) {
                let mut statement = b"USE ".to_vec();
                sql::quote_identifier(&mut statement, schema);
                preludes.push(statement);
            }
        }
        // A pin makes the backend the client's own: LAST_INSERT_ID() has to be right there from now on.
        let pins = !request.statement.effects.is_empty() || request.command == RequestKind::Prepare;
        let reads_id = request.statement.reads.contains(Reads::LAST_INSERT_ID);
        if (pins || reads_id) && client.aftermath.insert_id_at != Some(backend_key) {
            preludes.push(format!("SET last_insert_id={}", client.aftermath.last_insert_id).into_bytes());
        }
        // Another client's warnings must not be seen: any successful statement clears them.
        let shows = matches!(request.statement.kind, Kind::ShowWarnings | Kind::ShowDiagnostics);
        if shows && matches!(client.aftermath.diagnostics, Diagnostics::None) && preludes.is_empty() {
            preludes.push(b"DO 0".to_vec());
        }
        preludes
    }

    /// Puts literals in the place of functions whose answer the client carries with it.
    fn rewrite_calls(&self, key: usize, backend_key: usize, request: &mut Request) {
        if request.statement.calls.is_empty() || request.prepared {
            return;
        }
        let Some(text) = request.text() else { return };
        let client = &self.clients[key];
        // On a backend that it has held since its last statement the server knows better.
        let own = self.backends[backend_key].holder == Some(key) && client.settled_on == Some(backend_key);
        let rewritten = client.aftermath.rewrite(text, &request.statement.calls, client.id, own);
        if let Some(text) = rewritten {
            let command = request.raw[wire::HEADER_LEN];
            let mut raw = Vec::with_capacity(wire::HEADER_LEN + 1 + text.len());
            let mut payload = vec![command];
            payload.extend_from_slice(&text);
            wire::put_message(&mut raw, &mut 0, &payload);
            request.raw = raw;
        }
    }

    /// COM_SET_OPTION, where the backend's setting is another one.
    fn set_multi_statements(&mut self, backend_key: usize, on: bool) {
        if self.backends[backend_key].multi_statements != on {
            self.backends[backend_key].multi_statements = on;
            let option = u16::from(!on).to_le_bytes();
            self.send_own(backend_key, Owner::SetOption, CommandKind::SetOption, &option, Expect::Simple, 0);
        }
    }

    /// Writes the request, in one text with what goes ahead of it: a failure of the latter then stops the former.
    fn put_request(&mut self, key: usize, backend_key: usize, request: &Request, ahead: &[Vec<u8>]) {
        let shared = self.sharing.contains(&backend_key) && self.backends[backend_key].holder.is_none();
        let Client { capabilities, .. } = self.clients[key];
        let backend = &mut self.backends[backend_key];
        match request.text().filter(|_| !ahead.is_empty()) {
            Some(text) => {
                let start = wire::begin_packet(&mut backend.out);
                backend.out.push(CommandKind::Query as u8);
                for prelude in ahead {
                    backend.out.extend_from_slice(prelude);
                    backend.out.push(b';');
                }
                backend.out.extend_from_slice(text);
                wire::end_packet(&mut backend.out, start, &mut 0);
            }
            None => backend.out.extend_from_slice(&request.raw),
        }
        let preludes = u8::try_from(ahead.len()).expect("five kinds of preludes");
        let deprecate_eof = capabilities.contains(Capabilities::DEPRECATE_EOF);
        let options = reply_options(backend.capabilities, deprecate_eof, preludes, request.answer);
        backend.put_in_flight(
            self.now,
            InFlight {
                owner: Owner::Client { client: key, command: request.command },
                reader: ReplyReader::new(request.expect, options),
                summary: Summary::default(),
                preludes,
                fingerprint: request.statement.fingerprint,
                shared,
            },
        );
        self.mark_dirty(backend_key);
    }

    /// The reasons for which a client will hold its backend beyond the end of this request.
    pub(crate) fn pins_of(&self, key: usize, request: &Request) -> Pins {
        let mut pins = Pins::from(request.statement.effects);
        if request.command == RequestKind::Prepare {
            pins |= Pins::PREPARED_STATEMENT;
        }
        if self.settings.thread_handling == ThreadHandling::OneThreadPerConnection {
            pins |= Pins::THREAD_HANDLING;
        }
        if request.statement.charset == CharsetSetting::Unsure {
            pins |= Pins::from(Effects::SESSION_VARIABLE);
        }
        let session = self.clients[key].session.map(|session| self.sessions.state(session));
        if session.is_some_and(|state| is_unsafe_charset(&state.charset.client)) {
            pins |= Pins::CHARACTER_SET;
        }
        pins
    }
}

/// A COM_QUERY whose text can stand behind others in one packet. An empty statement would be swallowed behind a
/// semicolon, and LOAD DATA LOCAL counts packets in both directions.
fn can_be_joined(request: &Request) -> bool {
    request.command == RequestKind::Query
        && !matches!(request.statement.kind, Kind::Empty | Kind::Load)
        && !request.statement.effects.contains(Effects::UNKNOWN)
        && request.text().is_some_and(|text| text.len() <= LARGEST_JOINED)
}

/// Character sets in which a byte of `\` or `'` may be the second half of a character.
fn is_unsafe_charset(name: &[u8]) -> bool {
    matches!(name, b"big5" | b"cp932" | b"gb18030" | b"gbk" | b"sjis")
}

/// How answers on a backend are to be read for a client.
pub(crate) fn reply_options(
    backend: Capabilities,
    client_deprecate_eof: bool,
    skip_results: u8,
    first_sequence: u8,
) -> ReplyOptions {
    ReplyOptions {
        first_sequence,
        backend_deprecate_eof: backend.contains(Capabilities::DEPRECATE_EOF),
        backend_session_track: backend.contains(Capabilities::SESSION_TRACK),
        client_deprecate_eof,
        client_session_track: false,
        skip_results,
    }
}

impl Backend {
    /// Whether this client's statement is the one being answered now.
    pub(crate) fn answers(&self, client: usize) -> bool {
        self.in_flight.front().is_some_and(|statement| statement.owner.client() == Some(client))
    }
}
