//! One admin connection, from its greeting to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::{Command, ErrPacket, OkPacket};

use crate::cluster::{self, Asked};
use crate::database::{self, Caller, TIME_LIMIT};
use crate::errors::SqlError;
use crate::listener::{Caller as Connected, Place, Port};
use crate::login::{self, Failed};
use crate::reply::{Cell, ResultSet, STATUS};
use crate::statement::{Assignment, Show, Shown, Statement, parse};
use crate::stream::{IDLE_TIMEOUT, NoMessage, Stream};
use crate::tokens::{Placed, tokens};
use crate::{Refusal, Rows, Schema, catalog, dialect, show, tables, variables};

/// The version in the greeting: the protocol of a server of this version, as far as libraries decide by it.
pub(crate) const VERSION: &str = concat!("8.0.11-onramp-", env!("CARGO_PKG_VERSION"));

/// A login that failed is answered after this, so that passwords cannot be tried quickly.
const REFUSAL_DELAY: Duration = Duration::from_secs(1);

/// ER_UNKNOWN_ERROR: the code of warnings, which have none of their own.
const WARNING_CODE: i64 = 1105;

/// A connection that has logged in.
pub(crate) struct Session<'p> {
    port: &'p Port,
    /// `user@host`.
    who: String,
    id: u32,
    deprecate_eof: bool,
    schema: Option<Schema>,
    /// The rows of SHOW WARNINGS.
    warnings: Vec<Warning>,
    /// SHUTDOWN was said, and whether with IMMEDIATE: done once it has been answered, since the process may end at once.
    shutdown: Option<bool>,
}

/// The level of a row of SHOW WARNINGS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
        }
    }
}

struct Warning {
    level: Level,
    code: i64,
    message: String,
}

/// The answer to a command.
enum Reply {
    Ok {
        info: String,
    },
    Rows(ResultSet),
    /// Bytes of a payload of its own.
    Text(String),
    Error(SqlError),
    /// None: the client wants the connection to end.
    End,
}

impl<'p> Session<'p> {
    /// Serves a connection to its end.
    pub(crate) fn run(mut stream: Stream, caller: Connected, id: u32, port: &'p Arc<Port>) {
        let Connected { host, encryption, logging_in } = caller;
        let logged_in =
            login::log_in(&mut stream, port, encryption, VERSION, id, &host).and_then(|logged_in| {
                Ok((Place::take(port).map_err(|full| Failed::Full(full, logged_in.answer))?, logged_in))
            });
        let (_place, logged_in) = match logged_in {
            Ok(logged_in) => logged_in,
            Err(Failed::Gone) => return,
            Err(Failed::Full(error, answer)) => {
                let _ = stream.send(&error_packet(&error, answer));
                return;
            }
            Err(Failed::Refused(error, answer)) => {
                tracing::warn!("admin: login from {host} refused: {}", error.message.escape_debug());
                if stream.linger(REFUSAL_DELAY) {
                    let _ = stream.send(&error_packet(&error, answer));
                }
                return;
            }
        };
        drop(logging_in);
        stream.has_logged_in();
        let who = format!("{}@{host}", port.account.user);
        let mut session = Session {
            port,
            who,
            id,
            deprecate_eof: logged_in.deprecate_eof,
            schema: logged_in.schema,
            warnings: Vec::new(),
            shutdown: None,
        };
        let info = String::from_utf8_lossy(&logged_in.proof).into_owned();
        let welcome = session.packets(Reply::Ok { info }, logged_in.answer);
        if stream.send(&welcome).is_ok() {
            session.serve(&mut stream);
        }
    }

    fn serve(&mut self, stream: &mut Stream) {
        loop {
            let received = match stream.receive(0, IDLE_TIMEOUT) {
                Ok(received) => received,
                Err(NoMessage::Ended) => return,
                Err(NoMessage::Malformed(_)) => {
                    let _ = stream.send(&error_packet(&SqlError::packet_too_large(), 1));
                    return;
                }
            };
            let reply = match self.command(&received.payload) {
                Reply::End => return,
                reply => self.packets(reply, received.answer),
            };
            let sent = stream.send(&reply);
            if let Some(immediate) = self.shutdown.take() {
                tracing::info!("admin: {}: SHUTDOWN{}", self.who, if immediate { " IMMEDIATE" } else { "" });
                self.port.pool.shutdown(immediate);
            }
            if sent.is_err() {
                return;
            }
        }
    }

    fn command(&mut self, payload: &[u8]) -> Reply {
        let done = || Reply::Ok { info: String::new() };
        match Command::parse(payload) {
            Ok(Command::Quit) => Reply::End,
            Ok(Command::Query(text)) => self.query(text).unwrap_or_else(|error| self.refuse(error)),
            Ok(Command::InitDb(name)) => match self.choose(&String::from_utf8_lossy(name)) {
                Ok(()) => done(),
                Err(error) => self.refuse(error),
            },
            Ok(Command::Ping) => done(),
            Ok(Command::ResetConnection) => {
                self.warnings.clear();
                done()
            }
            Ok(Command::Statistics) => Reply::Text(self.port.pool.statistics()),
            Ok(Command::ProcessKill(id)) => match self.kill(u64::from(id), false) {
                Ok(()) => done(),
                Err(error) => self.refuse(error),
            },
            Ok(Command::StmtPrepare(_)) => self.refuse(SqlError::no_prepared_statements()),
            _ => self.refuse(SqlError::unknown_command()),
        }
    }

    fn refuse(&mut self, error: SqlError) -> Reply {
        let (code, message) = (i64::from(error.code), error.message.clone());
        self.warnings = vec![Warning { level: Level::Error, code, message }];
        Reply::Error(error)
    }

    fn query(&mut self, text: &[u8]) -> Result<Reply, SqlError> {
        let text = std::str::from_utf8(text).map_err(|_| SqlError::not_utf8())?;
        let tokens = tokens(text).ok_or_else(SqlError::not_closed)?;
        let statement = parse(&tokens)?;
        if let Statement::Show(Show { what: Shown::Warnings | Shown::Errors, .. }) = &statement {
            return Ok(Reply::Rows(self.show_warnings(&statement)));
        }
        self.warnings.clear();
        let mut info = String::new();
        match statement {
            Statement::Empty => return Err(SqlError::empty()),
            Statement::Select => {
                let text = dialect::to_sqlite(&tokens, |name| self.variable(name))?;
                return self.select(&text);
            }
            Statement::Show(show) => return self.show(&show, &tokens),
            Statement::Help => return Ok(Reply::Rows(self.help())),
            Statement::Nothing => {}
            Statement::Use(name) => self.choose(&name)?,
            Statement::Set(assignments) => {
                for assignment in &assignments {
                    self.set(assignment)?;
                }
            }
            Statement::Kill { id, query_only } => self.kill(id, query_only)?,
            Statement::Pause => {
                self.order("PAUSE", self.port.pool.pause())?;
                info = String::from("No new statement is sent to the server; RESUME goes on");
            }
            Statement::Switchover { to } => {
                info = self.order("SWITCHOVER", self.port.pool.switch_over(&to))?;
            }
            Statement::Drain { address, drains } => {
                let name = if drains { "DRAIN" } else { "UNDRAIN" };
                info = self.order(name, self.port.pool.drain_server(&address, drains))?;
            }
            Statement::Resume => self.order("RESUME", self.port.pool.resume())?,
            Statement::Reload => {
                let warnings = self.order("RELOAD", self.port.pool.reload())?;
                cluster::forget();
                self.warn(warnings);
            }
            Statement::Shutdown { immediate } => self.shutdown = Some(immediate),
        }
        Ok(Reply::Ok { info })
    }

    fn variable(&self, name: &str) -> Option<String> {
        variables::value(name, VERSION, &*self.port.pool)
    }

    fn select(&mut self, text: &str) -> Result<Reply, SqlError> {
        let caller =
            Caller { user: self.who.clone(), schema: self.schema, connection: self.id, version: VERSION };
        let pool = &*self.port.pool;
        let fill = |rows: &mut Rows<'_>| {
            rows.note_connections(self.port.connections());
            let asked = Asked::begin(rows, || pool.peers());
            catalog::fill(rows, VERSION, pool);
            pool.fill(rows);
            if let Some(asked) = asked {
                asked.take_in(rows);
            }
        };
        let deadline = Instant::now() + TIME_LIMIT;
        let selected = database::select(text, &caller, self.deprecate_eof, deadline, fill)?;
        self.warn(selected.warnings);
        Ok(Reply::Rows(selected.rows))
    }

    fn show(&mut self, show: &Show, tokens: &[Placed<'_>]) -> Result<Reply, SqlError> {
        if let Shown::CreateTable(name) = &show.what {
            let table = tables::find(name).ok_or_else(|| SqlError::unknown_table(name))?;
            let mut result = ResultSet::new(["Table", "Create Table"].map(String::from), self.deprecate_eof);
            result.row([Cell::from(table.name), Cell::from(&*catalog::create_table(table))]);
            return Ok(Reply::Rows(result));
        }
        let text = show::to_select(show, tokens, self.schema, |name| self.variable(name))?;
        self.select(&text)
    }

    fn show_warnings(&self, statement: &Statement<'_>) -> ResultSet {
        let only_errors = matches!(statement, Statement::Show(Show { what: Shown::Errors, .. }));
        let mut result = ResultSet::new(["Level", "Code", "Message"].map(String::from), self.deprecate_eof);
        for warning in self.warnings.iter().filter(|warning| !only_errors || warning.level == Level::Error) {
            result.row([
                Cell::from(warning.level.name()),
                Cell::Integer(warning.code),
                Cell::from(&*warning.message),
            ]);
        }
        result
    }

    fn help(&self) -> ResultSet {
        let mut result = ResultSet::new(["Statement", "Meaning"].map(String::from), self.deprecate_eof);
        for (statement, meaning) in show::HELP {
            result.row([Cell::from(statement), Cell::from(meaning)]);
        }
        result
    }

    fn choose(&mut self, name: &str) -> Result<(), SqlError> {
        self.schema = Some(Schema::find(name).ok_or_else(|| SqlError::unknown_schema(name))?);
        Ok(())
    }

    /// Options are global. What libraries set for their own session is taken without an effect.
    fn set(&self, assignment: &Assignment<'_>) -> Result<(), SqlError> {
        let name = assignment.name.to_ascii_lowercase();
        if !assignment.global {
            let settings = self.port.pool.settings();
            let own = variables::own_name(&name, &*self.port.pool);
            let is_option = settings.iter().any(|setting| setting.name == own);
            if is_option && !variables::is_sessions_own(&name) {
                return Err(SqlError::only_global(&name));
            }
            return Ok(());
        }
        let Some(value) = &assignment.value else {
            let reason = String::from("a value is wanted, not an expression");
            return Err(SqlError::refusal(&name, &Refusal::WrongValue { reason }));
        };
        let outcome = self.port.pool.set(&name, value);
        outcome.map_err(|refusal| SqlError::refusal(&name, &refusal))?;
        cluster::forget();
        // As it is shown: a value may have passwords in it.
        let shown = variables::value_of_option(&name, &*self.port.pool).unwrap_or_default();
        tracing::info!("admin: {}: SET GLOBAL {name} = {}", self.who, shown.escape_debug());
        Ok(())
    }

    fn kill(&self, id: u64, query_only: bool) -> Result<(), SqlError> {
        let outcome = self.port.pool.kill(id, query_only);
        outcome.map_err(|refusal| SqlError::refusal(&id.to_string(), &refusal))?;
        tracing::info!("admin: {}: KILL {}{id}", self.who, if query_only { "QUERY " } else { "" });
        Ok(())
    }

    /// Logs an order that was carried out.
    fn order<T>(&self, name: &str, outcome: Result<T, Refusal>) -> Result<T, SqlError> {
        let done = outcome.map_err(|refusal| SqlError::refusal(name, &refusal))?;
        tracing::info!("admin: {}: {name}", self.who);
        Ok(done)
    }

    fn warn(&mut self, messages: Vec<String>) {
        let warning = |message| Warning { level: Level::Warning, code: WARNING_CODE, message };
        self.warnings = messages.into_iter().map(warning).collect();
    }

    fn packets(&self, reply: Reply, sequence: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let warnings = u16::try_from(self.warnings.len()).unwrap_or(u16::MAX);
        match reply {
            Reply::Rows(rows) => rows.put(&mut out, warnings),
            Reply::Ok { info } => {
                let mut payload = Vec::new();
                OkPacket { info: info.as_bytes(), warnings, ..OkPacket::plain(STATUS) }
                    .put(&mut payload, false);
                wire::put_message(&mut out, &mut { sequence }, &payload);
            }
            Reply::Text(text) => wire::put_message(&mut out, &mut { sequence }, text.as_bytes()),
            Reply::Error(error) => return error_packet(&error, sequence),
            Reply::End => {}
        }
        out
    }
}

fn error_packet(error: &SqlError, sequence: u8) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    ErrPacket { code: error.code, sql_state: error.sql_state, message: error.message.as_bytes() }
        .put(&mut payload);
    wire::put_message(&mut out, &mut { sequence }, &payload);
    out
}
