//! Questions of a client about the warnings and errors of its statement before, once its backend has been given back.

use sql::{Assignment, GetDiagnostics, VariableUse};

use crate::client::Client;
use crate::client::commands::reading::Wants;
use crate::client::memory::bytes_held::ClientMemory;
use crate::ids::{ClientKey, Table};
use crate::request::Request;
use crate::server::control::facts::Facts;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::session::aftermath::{self, Diagnostics, List, Reader, Selection};
use crate::session::conditions::{self, DiagnosticsAnswer, LastStatement};
use crate::session::literals;
use crate::session::sql_states::SqlState;
use crate::settings::Settings;

impl ClientMemory {
    /// Keeps the diagnostics that a client's statement has left, within the bound for all clients. True where that bound is reached.
    pub(in crate::client) fn keep_diagnostics(
        &mut self,
        clients: &mut Table<ClientKey, Client>,
        key: ClientKey,
        diagnostics: Diagnostics,
        limit: usize,
    ) -> bool {
        self.diagnostics += diagnostics.bytes();
        let before = clients[key].session.aftermath.leaves(diagnostics);
        self.diagnostics = self.diagnostics.saturating_sub(before.bytes());
        self.diagnostics > limit && self.forget_longest_diagnostics(clients, limit)
    }

    /// Counts what is kept, since the part of clients that have gone has not been taken off. True where that is nearly all that may be kept:
    /// the longest lists go then until a quarter is free. So all clients are gone through again only when an eighth at least has been added.
    fn forget_longest_diagnostics(&mut self, clients: &mut Table<ClientKey, Client>, limit: usize) -> bool {
        let kept =
            |(key, client): (ClientKey, &Client)| (client.session.aftermath.diagnostics().bytes(), key);
        let mut lists: Vec<_> = clients.iter().map(kept).filter(|&(bytes, _)| bytes > 0).collect();
        let mut held = lists.iter().map(|(bytes, _)| bytes).sum::<usize>();
        let is_reached = held > limit / 8 * 7;
        if is_reached {
            lists.sort_unstable();
            while held > limit / 4 * 3
                && let Some((bytes, key)) = lists.pop()
            {
                clients[key].session.aftermath.forget_texts();
                held -= bytes;
            }
        }
        self.diagnostics = held;
        is_reached
    }
}

/// Conditions beyond which no error about one that is not there is added to the list: the least default of
/// `max_error_count` (MariaDB's; MySQL's is 1024).
const MOST_CONDITIONS: u16 = 64;

/// The answer to a client that asks about its statement before.
pub(in crate::client) enum Shown {
    /// Nothing from here: the server knows.
    ByServer,
    /// These packets.
    Packets(Vec<u8>),
    /// A refusal: nobody knows any more what the client asks for.
    Refusal,
    /// The server's answer to this request.
    AnswerTo(Box<Request>),
    /// The answer that there is no condition of this number. The question leaves these diagnostics behind.
    NoSuchCondition(Diagnostics),
}

/// A client that asks about its statement before, and all that is looked at for an answer.
pub(in crate::client) struct SavedDiagnostics<'a> {
    pub(in crate::client) client: &'a Client,
    pub(in crate::client) settings: &'a Settings,
    pub(in crate::client) sessions: &'a Sessions,
    pub(in crate::client) servers: &'a Servers,
}

impl SavedDiagnostics<'_> {
    /// Answers SHOW WARNINGS about a statement that has given its backend back, with the server's own answer, saved
    /// then. The server is asked only about what it is known to keep for this client: anything else would be another's.
    pub(in crate::client) fn warnings(&self) -> Shown {
        if self.shows_nothing_in_doubt() {
            return Shown::ByServer;
        }
        let reader = self.reader();
        let diagnostics = self.client.session.aftermath.diagnostics();
        if matches!(diagnostics, Diagnostics::OnBackend { .. }) && self.client.backend.is_some() {
            return Shown::ByServer;
        }
        Shown::Packets(match diagnostics.reply(reader) {
            Some(reply) => aftermath::with_status(&reply, reader.status()),
            None => aftermath::no_warnings(reader),
        })
    }

    fn reader(&self) -> Reader {
        self.client.reader_of(self.sessions, self.servers.primary())
    }

    /// Says whether the list is empty on the client's backend too, and shown there in a character set that only the server knows.
    fn shows_nothing_in_doubt(&self) -> bool {
        let session = &self.client.session;
        let nothing = session.unreported.is_some() && session.aftermath.diagnostics().counts() == (0, 0);
        nothing && self.client.backend.is_some_and(|backend| self.servers[backend].has_no_diagnostics())
    }

    /// Answers the other statements about diagnostics. Counts become literals. The saved rows that are asked for are
    /// shown. GET DIAGNOSTICS sets its variables to what the rows say. A question beyond the rows is refused, and so is
    /// a text that is too long to be looked at (`None`).
    pub(in crate::client) fn asked_for(&self, text: Option<&[u8]>, answer: u8) -> Shown {
        let (client, diagnostics) = (self.client, self.client.session.aftermath.diagnostics());
        let asks_server = matches!(diagnostics, Diagnostics::OnBackend { .. });
        if client.backend.is_some() && asks_server {
            return Shown::ByServer;
        }
        let Some(text) = text else { return Shown::Refusal };
        if let Some(shown) = GetDiagnostics::of(text).and_then(|asked| self.get(&asked, answer)) {
            return shown;
        }
        if client.backend.is_some() && text.to_ascii_uppercase().starts_with(b"GET") {
            return Shown::ByServer;
        }
        let (warnings, errors) = diagnostics.counts();
        let upper = text.to_ascii_uppercase();
        let has = |word: &[u8]| upper.windows(word.len()).any(|part| part == word);
        let (counts, of_errors) = (has(b"COUNT"), has(b"ERRORS"));
        let selection = Selection::of(text);
        if has(b"GET") || (warnings > 0 && !counts && selection.is_none()) {
            return Shown::Refusal;
        }
        let reader = self.reader();
        if let (Some(selection), Some(reply)) = (selection, diagnostics.reply(reader)) {
            return Shown::Packets(aftermath::with_status(&selection.from(&reply), reader.status()));
        }
        if !counts {
            return self.warnings();
        }
        let (count, name) = if of_errors { (errors, "error") } else { (warnings, "warning") };
        let count = literals::variable(count.into());
        let text = format!("SELECT {count} AS `@@session.{name}_count`");
        let mut request = Request::query(&text);
        request.statement.reads = sql::Reads::DIAGNOSTICS;
        // A count of warnings is a SELECT for the servers.
        request.rows.are_counted = true;
        Shown::AnswerTo(Box::new(request))
    }

    /// Answers GET DIAGNOSTICS. `None` where the kept diagnostics do not tell.
    fn get(&self, asked: &GetDiagnostics, answer: u8) -> Option<Shown> {
        let session = self.client.session.id().expect("a client with commands has logged in");
        let aftermath = &self.client.session.aftermath;
        let reply = match aftermath.diagnostics() {
            Diagnostics::None => None,
            Diagnostics::Saved { reply, .. } => Some(&*reply.0),
            Diagnostics::OnBackend { .. } | Diagnostics::Counted { .. } => return None,
        };
        let left = LastStatement {
            reply,
            sql_state: aftermath.diagnostics().sql_state(),
            row_count: aftermath.row_count(),
            charset: &self.sessions.state(session).charset,
            is_mariadb: self.servers.primary().facts.as_ref().is_some_and(Facts::is_mariadb),
        };
        Some(match left.answer(asked)? {
            DiagnosticsAnswer::Sets(sets) => self.set_to(sets, answer),
            DiagnosticsAnswer::NoSuchCondition => self.no_such_condition(),
        })
    }

    /// Has the server set the variables, as it would have done. That leaves the diagnostics that are asked for as they are.
    fn set_to(&self, sets: Vec<Assignment>, answer: u8) -> Shown {
        let text = conditions::set_text(&sets);
        let wants = Wants { variables: false, ..self.client.wants(self.settings) };
        let mode = self.client.lex_mode(self.sessions, self.servers.primary());
        let mut request = Request::of_query(&text, mode, wants, answer);
        let mut payload = vec![wire::CommandKind::Query as u8];
        payload.extend_from_slice(&text);
        wire::put_message(&mut request.raw, &mut 0, &payload);
        request.statement.kind = sql::Kind::ShowDiagnostics;
        request.statement.reads = sql::Reads::DIAGNOSTICS;
        request.changes.variables =
            self.settings.carry_user_variables.then(|| Box::new(VariableUse::Sets(sets)));
        Shown::AnswerTo(Box::new(request))
    }

    fn no_such_condition(&self) -> Shown {
        let error = conditions::no_such_condition();
        Shown::NoSuchCondition(match self.client.session.aftermath.diagnostics() {
            Diagnostics::Saved { warnings, errors, reply, .. } => Diagnostics::Saved {
                warnings: warnings.saturating_add(1),
                errors: errors.saturating_add(1),
                sql_state: SqlState::of(error.sql_state),
                // The servers keep no more of them either; each of these questions would make the list longer.
                reply: List::new(match *warnings < MOST_CONDITIONS {
                    true => conditions::with_error(&reply.0, &error),
                    false => reply.0.clone(),
                }),
            },
            _ => Diagnostics::of_error(&error, self.reader()),
        })
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Instant, Output, Program as _};

    use super::*;
    use crate::client::commands::command::tests::{connection, engine};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::outside::event::Event;
    use crate::outside::named::Limit;

    const LIMIT: usize = 1 << 20;

    /// A list of so many bytes, which is no answer of a server.
    fn list(bytes: usize) -> Diagnostics {
        Diagnostics::Saved {
            warnings: 64,
            errors: 2,
            sql_state: None,
            reply: List::new(vec![0; bytes - size_of::<List>()].into()),
        }
    }

    fn is_counted(engine: &Engine, key: ClientKey) -> bool {
        matches!(engine.clients[key].session.aftermath.diagnostics(), Diagnostics::Counted { .. })
    }

    fn of_limits() -> Engine {
        engine(100, Settings { kept_warnings_memory: LIMIT, ..Settings::default() })
    }

    #[test]
    fn the_longest_lists_go_and_their_counts_stay() {
        let mut engine = of_limits();
        for (number, bytes) in (0..50).zip(20_000..) {
            engine.answers().keep_diagnostics(client_key(number), list(bytes));
        }
        assert!((0..50).all(|number| !is_counted(&engine, client_key(number))));
        for number in 50..53 {
            engine.answers().keep_diagnostics(client_key(number), list(17_000));
        }
        let held = engine.holders_of_memory().memory().diagnostics;
        assert!((LIMIT / 2..=LIMIT / 4 * 3).contains(&held), "{held} bytes");
        assert_eq!(engine.client_memory.diagnostics, held);
        assert!(
            is_counted(&engine, client_key(49))
                && !is_counted(&engine, client_key(0))
                && !is_counted(&engine, client_key(52))
        );
        assert!(
            (0..53).all(|number| engine.clients[client_key(number)].session.aftermath.diagnostics().counts()
                == (64, 2))
        );
        let said = std::iter::from_fn(|| engine.poll_event())
            .filter(|event| matches!(event, Event::LimitReached { option: Limit::KeptWarningsMemory, .. }));
        assert_eq!(said.count(), 1);
    }

    /// The same clients get ever new lists, and clients go that have some: the kept bytes do not grow by that.
    #[test]
    fn what_is_replaced_or_gone_does_not_count() {
        let mut engine = of_limits();
        for _ in 0..100 {
            engine.answers().keep_diagnostics(client_key(0), list(60_000));
        }
        for number in 1..90 {
            engine.answers().keep_diagnostics(client_key(number), list(60_000));
            engine.client_gone(client_key(number));
        }
        assert!(!is_counted(&engine, client_key(0)));
        assert_eq!(engine.holders_of_memory().memory().diagnostics, 60_000);
        assert!(engine.client_memory.diagnostics <= LIMIT);
    }

    fn said(engine: &mut Engine, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::put_message(&mut bytes, &mut 0, &[b"\x03", text.as_bytes()].concat());
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &bytes });
        let mut answer = Vec::new();
        while let Some(output) = engine.poll_output() {
            if let Output::Send { bytes, .. } = output {
                answer.extend_from_slice(bytes);
            }
        }
        answer
    }

    /// Each question about a condition that is not there leaves an error behind.
    #[test]
    fn the_list_of_conditions_does_not_grow_for_ever() {
        let mut engine = of_limits();
        let kept = |engine: &Engine| engine.clients[client_key(0)].session.aftermath.diagnostics().clone();
        let mut longest = 0;
        for count in 1..=500 {
            assert!(!said(&mut engine, "GET DIAGNOSTICS CONDITION 0 @a = MYSQL_ERRNO").is_empty());
            assert_eq!(kept(&engine).counts(), (count, count));
            if count == MOST_CONDITIONS {
                longest = kept(&engine).bytes();
            }
        }
        assert_eq!(kept(&engine).bytes(), longest);
    }

    #[test]
    fn who_asks_hears_how_many_there_were() {
        let mut engine = of_limits();
        engine.answers().keep_diagnostics(client_key(0), Diagnostics::Counted { warnings: 64, errors: 2 });
        let has = |answer: &[u8], part: &[u8]| answer.windows(part.len()).any(|window| window == part);
        for text in ["SHOW WARNINGS", "SHOW WARNINGS LIMIT 1", "SHOW ERRORS"] {
            let answer = said(&mut engine, text);
            assert!(has(&answer, b"\x05Error\x041105"), "{text}");
            assert!(has(&answer, b"64 warnings; their texts were not kept"), "{text}");
        }
        assert!(!has(&said(&mut engine, "SHOW WARNINGS LIMIT 0"), b"their texts"));
        let reader: Reader = engine.answers().reader(client_key(0));
        let only_warnings = Diagnostics::Counted { warnings: 3, errors: 0 };
        assert!(has(&only_warnings.reply(reader).unwrap(), b"\x07Warning\x041105"));
    }
}
