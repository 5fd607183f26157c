//! How the modelled server runs a command.

use std::collections::VecDeque;

use super::super::locks::{Key, Mode};
use super::super::scenario::Time;
use super::super::statement::{Action, Origin, Statement};
use super::command::{Command, Part, SLOT_HOLDERS};
use super::disks::Wait;
use super::reply::{self, Reply};
use super::{Question, Server, Session, Wake};
use crate::protocol::status;

/// A command that runs.
#[derive(Debug)]
pub struct Execution {
    parts: VecDeque<Part>,
    reply: Reply,
    stage: Stage,
    /// Locks that the present part still needs, the last one first.
    needs: Vec<(Key, Mode)>,
    /// Locks of the present part alone.
    statement_locks: Vec<Key>,
    is_login: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first part has not begun.
    Begin,
    /// It takes its locks.
    Locking,
    /// It waits for this one.
    WaitsFor { key: Key, stage: u64 },
    /// A core works on it; then it waits for so many microseconds.
    OnCore { then: u64 },
    /// It is off the cores.
    Asleep { stage: u64 },
    /// The part is done.
    Done,
}

/// Below so many bits of a lock's table stands the number that its statements have, above them its schema's.
const TABLE_BITS: u16 = 8;

/// What draws of a statement are for.
const CPU: u64 = 1;
const WAIT: u64 = 2;
const SYNC: u64 = 3;

impl Execution {
    /// The work of a connection's beginning.
    pub fn login() -> Self {
        Self { is_login: true, ..Self::new(VecDeque::new()) }
    }

    fn new(parts: VecDeque<Part>) -> Self {
        Self {
            parts,
            reply: Reply::new(),
            stage: Stage::Begin,
            needs: Vec::new(),
            statement_locks: Vec::new(),
            is_login: false,
        }
    }
}

impl Server {
    /// Runs a session as far as it goes.
    pub(super) fn advance(&mut self, now: u64, id: u32) {
        loop {
            let Some(session) = self.sessions[id as usize].as_mut() else { return };
            let Some(execution) = session.execution.as_mut() else {
                if session.closing {
                    return self.remove(id);
                }
                match session.commands.pop_front() {
                    Some(command) => self.begin(id, command),
                    None => return,
                }
                continue;
            };
            match execution.stage {
                Stage::Begin => self.begin_part(now, id),
                Stage::Locking => {
                    if !self.take_locks(now, id) {
                        return;
                    }
                }
                Stage::WaitsFor { key, .. } => {
                    if !self.has_lock(id, key) {
                        return;
                    }
                }
                Stage::OnCore { .. } | Stage::Asleep { .. } => return,
                Stage::Done => self.end_part(now, id),
            }
        }
    }

    /// A core is done with a session's statement.
    pub(super) fn core_done(&mut self, now: u64, id: u32) {
        let stage = self.next_stage();
        let Some(execution) = self.execution(id) else { return };
        let Stage::OnCore { then } = execution.stage else { return };
        if then == 0 {
            execution.stage = Stage::Done;
            self.ready.push(id);
        } else {
            execution.stage = Stage::Asleep { stage };
            self.take_disk(now, Wait { session: id, stage, micros: then });
        }
    }

    /// A wait is over: of a disk, or the patience with a lock.
    pub(super) fn wait_ended(&mut self, id: u32, stage: u64) {
        let Some(execution) = self.execution(id) else { return };
        match execution.stage {
            Stage::Asleep { stage: present } if present == stage => {
                execution.stage = Stage::Done;
                self.ready.push(id);
            }
            Stage::WaitsFor { stage: present, key: Key::User(_) } if present == stage => {
                // GET_LOCK answers 0, for which nobody here looks.
                execution.stage = Stage::Done;
                self.give_up_waiting(id);
                self.ready.push(id);
            }
            Stage::WaitsFor { stage: present, .. } if present == stage => {
                self.fail(id, 1205, "HY000", "Lock wait timeout exceeded; try restarting transaction");
            }
            _ => {}
        }
    }

    fn execution(&mut self, id: u32) -> Option<&mut Execution> {
        self.sessions[id as usize].as_mut()?.execution.as_mut()
    }

    fn next_stage(&mut self) -> u64 {
        self.stages += 1;
        self.stages
    }

    fn begin(&mut self, id: u32, command: Command) {
        let Some(session) = self.sessions[id as usize].as_mut() else { return };
        match command {
            Command::Query(parts) => session.execution = Some(Execution::new(parts.into())),
            Command::Quit => session.closing = true,
            Command::InitDb(schema) => {
                session.execution = Some(Execution::new(VecDeque::from([Part::Use(schema)])));
            }
            // It may cost less than a login, never more.
            Command::ChangeUser(user) => {
                self.effects.changed += 1;
                (session.user, session.schema) = (Some(user), 0);
                session.execution = Some(Execution::login());
            }
            Command::Other => session.execution = Some(Execution::new(VecDeque::from([Part::Nothing]))),
            Command::Reset => {
                let kept = std::mem::take(&mut session.session_locks);
                session.execution = Some(Execution::new(VecDeque::from([Part::Nothing])));
                for key in kept {
                    self.locks.give(id, key, &mut self.ready);
                }
                self.end_transaction(id);
            }
        }
    }

    /// The first of the parts that are left begins: it needs locks, then a core.
    fn begin_part(&mut self, now: u64, id: u32) {
        let session = self.sessions[id as usize].as_mut().expect("only a session runs");
        let execution = session.execution.as_mut().expect("checked by the caller");
        if execution.is_login {
            let micros = self.model.login.mean();
            execution.stage = Stage::OnCore { then: 0 };
            return self.cores.start(now, id, micros);
        }
        execution.stage = Stage::Locking;
        match execution.parts.front() {
            Some(Part::Work(statement, origin)) => {
                self.effects.begun.push(*origin);
                let table = session.schema << TABLE_BITS | statement.table;
                // They are taken from the end.
                execution.needs = match statement.action {
                    Action::Read => vec![(Key::Table(table), Mode::Shared)],
                    Action::Write => vec![
                        (Key::Row(table, statement.row), Mode::Exclusive),
                        (Key::Table(table), Mode::Shared),
                        (Key::Global, Mode::Shared),
                    ],
                    Action::Commit if session.wrote => vec![(Key::Global, Mode::Shared)],
                    Action::GlobalReadLock => vec![(Key::Global, Mode::Exclusive)],
                    Action::LockTable => vec![(Key::Table(table), Mode::Exclusive)],
                    Action::GetLock { .. } => vec![(Key::User(statement.row), Mode::Exclusive)],
                    Action::Begin
                    | Action::Commit
                    | Action::Rollback
                    | Action::Unlock
                    | Action::ReleaseLock => Vec::new(),
                };
            }
            Some(Part::Kill(thread)) => {
                if let Some(&victim) = self.by_thread.get(thread) {
                    self.interrupt(now, victim);
                }
            }
            _ => {}
        }
    }

    /// Takes what locks a statement still needs, then starts it on a core. False where it has to wait.
    fn take_locks(&mut self, now: u64, id: u32) -> bool {
        let stage = self.next_stage();
        let session = self.sessions[id as usize].as_mut().expect("only a session runs");
        let execution = session.execution.as_mut().expect("checked by the caller");
        while let Some(&(key, mode)) = execution.needs.last() {
            if self.locks.take(id, key, mode) {
                execution.needs.pop();
                keep_lock(
                    session.in_transaction,
                    &mut session.transaction_locks,
                    &mut session.session_locks,
                    execution,
                    key,
                );
                continue;
            }
            execution.stage = Stage::WaitsFor { key, stage };
            let patience = match (key, execution.parts.front()) {
                (Key::Row(..), _) => Some(self.model.lock_wait_timeout.as_micros()),
                (_, Some(Part::Work(Statement { action: Action::GetLock { timeout }, .. }, _))) => {
                    Some(u128::from(*timeout) * 1_000_000)
                }
                _ => None,
            };
            if let Some(patience) = patience {
                let until = now + u64::try_from(patience).expect("a few minutes");
                self.effects.planned.push((until, Wake::Session { session: id, stage }));
            }
            return false;
        }
        let (cpu, then) = match execution.parts.front() {
            Some(Part::Work(statement, origin)) => {
                costs(&self.model, self.seed, *statement, *origin, session.in_transaction, session.wrote)
            }
            _ => (self.model.trivial.mean(), 0),
        };
        execution.stage = Stage::OnCore { then };
        self.cores.start(now, id, cpu);
        false
    }

    /// Whether a session that waited has its lock now; then it goes on with the next.
    fn has_lock(&mut self, id: u32, key: Key) -> bool {
        let session = self.sessions[id as usize].as_mut().expect("only a session runs");
        let execution = session.execution.as_mut().expect("checked by the caller");
        if !self.locks.is_held_by(id, key, execution.needs.last().map_or(Mode::Shared, |need| need.1)) {
            return false;
        }
        execution.needs.pop();
        keep_lock(
            session.in_transaction,
            &mut session.transaction_locks,
            &mut session.session_locks,
            execution,
            key,
        );
        execution.stage = Stage::Locking;
        true
    }

    /// The first part has had its time: its effects, its result, and then the next one or the answer.
    fn end_part(&mut self, _now: u64, id: u32) {
        let mut execution = self.sessions[id as usize]
            .as_mut()
            .and_then(|session| session.execution.take())
            .expect("checked by the caller");
        if execution.is_login {
            return self.effects.sent.push((id, reply::logged_in()));
        }
        for key in execution.statement_locks.drain(..) {
            self.locks.give(id, key, &mut self.ready);
        }
        let part = execution.parts.pop_front().expect("the part that ran");
        match &part {
            Part::Work(statement, _) => self.take_effect(id, *statement),
            Part::Use(schema) => {
                let schema = self.schema(schema);
                self.sessions[id as usize].as_mut().expect("it runs").schema = schema;
            }
            _ => {}
        }
        let more = !execution.parts.is_empty();
        self.put_result(id, &part, more, &mut execution.reply);
        let failed = matches!(part, Part::Unknown(_));
        if more && !failed {
            execution.stage = Stage::Begin;
            self.sessions[id as usize].as_mut().expect("it runs").execution = Some(execution);
        } else {
            self.effects.sent.push((id, execution.reply.into_bytes()));
        }
    }

    fn put_result(&mut self, id: u32, part: &Part, more: bool, reply: &mut Reply) {
        let session = self.sessions[id as usize].as_ref().expect("it runs");
        let mut flags = status::AUTOCOMMIT;
        if session.in_transaction {
            flags |= status::IN_TRANS;
        }
        if more {
            flags |= status::MORE_RESULTS;
        }
        match part {
            Part::Work(Statement { action: Action::Read, .. }, _) => {
                reply.rows(1, &[vec!["0123456789".to_owned()]], flags);
            }
            Part::Work(Statement { action: Action::GetLock { .. } | Action::ReleaseLock, .. }, _) => {
                reply.rows(1, &[vec!["1".to_owned()]], flags);
            }
            Part::Work(..) | Part::Nothing | Part::Use(_) | Part::Kill(_) => reply.ok(flags),
            Part::Question(question) => {
                let rows = self.answer(session, *question);
                reply.rows(question.width(), &rows, flags);
            }
            Part::Unknown(text) => {
                reply.error(1064, "42000", "the model does not know this statement");
                self.unknown.insert(text.clone());
            }
        }
    }

    fn answer(&self, session: &Session, question: Question) -> Vec<Vec<String>> {
        let thread = |id: u32| {
            let session = self.sessions[id as usize].as_ref();
            session.map_or(0, |session| session.thread).to_string()
        };
        match question {
            Question::LockWaitCount => {
                let rows = self.locks.waits().filter(|(key, ..)| matches!(key, Key::Row(..)));
                vec![vec!["Innodb_row_lock_current_waits".to_owned(), rows.count().to_string()]]
            }
            Question::LockWaits => self
                .locks
                .waits()
                .filter(|(key, ..)| matches!(key, Key::Row(..)))
                .map(|(_, waiter, holder)| vec![thread(waiter), thread(holder)])
                .collect(),
            Question::OtherWaiters => self
                .locks
                .waits()
                .filter(|(key, ..)| !matches!(key, Key::Row(..)))
                .map(|(_, waiter, _)| vec![thread(waiter)])
                .collect(),
            // There is one Onramp, which gets the first.
            Question::Slot => vec![vec!["1".to_owned(), session.thread.to_string()]],
            Question::SlotHolders => {
                let mut holders = vec![String::new(); SLOT_HOLDERS];
                holders[0] = session.thread.to_string();
                vec![holders]
            }
            question => {
                let user = session.user.as_deref().unwrap_or_default();
                question.fixed_answer(user, self.model.accounts)
            }
        }
    }

    /// What a statement changes of its session, once it has run.
    fn take_effect(&mut self, id: u32, statement: Statement) {
        let session = self.sessions[id as usize].as_mut().expect("it runs");
        match statement.action {
            Action::Begin => {
                self.end_transaction(id);
                self.sessions[id as usize].as_mut().expect("it runs").in_transaction = true;
            }
            Action::Commit | Action::Rollback => self.end_transaction(id),
            Action::Write => session.wrote = session.in_transaction,
            Action::Unlock => {
                let (kept, given): (Vec<_>, _) =
                    session.session_locks.drain(..).partition(|key| matches!(key, Key::User(_)));
                session.session_locks = kept;
                for key in given {
                    self.locks.give(id, key, &mut self.ready);
                }
            }
            Action::ReleaseLock => {
                session.session_locks.retain(|&key| key != Key::User(statement.row));
                self.locks.give(id, Key::User(statement.row), &mut self.ready);
            }
            Action::Read | Action::GlobalReadLock | Action::LockTable | Action::GetLock { .. } => {}
        }
    }

    fn end_transaction(&mut self, id: u32) {
        let session = self.sessions[id as usize].as_mut().expect("it runs");
        session.in_transaction = false;
        session.wrote = false;
        for key in std::mem::take(&mut session.transaction_locks) {
            self.locks.give(id, key, &mut self.ready);
        }
    }

    /// KILL QUERY.
    fn interrupt(&mut self, now: u64, victim: u32) {
        let Some(execution) = self.execution(victim) else { return };
        if execution.is_login || matches!(execution.stage, Stage::Begin | Stage::Done) {
            return;
        }
        if matches!(execution.stage, Stage::OnCore { .. }) {
            self.cores.stop(now, victim);
        }
        self.fail(victim, 1317, "70100", "Query execution was interrupted");
    }

    /// A statement ends with an error; what else was in its text does not run.
    fn fail(&mut self, id: u32, code: u16, state: &str, message: &str) {
        self.give_up_waiting(id);
        let session = self.sessions[id as usize].as_mut();
        let Some(mut execution) = session.and_then(|session| session.execution.take()) else { return };
        for key in execution.statement_locks.drain(..) {
            self.locks.give(id, key, &mut self.ready);
        }
        execution.reply.error(code, state, message);
        self.effects.sent.push((id, execution.reply.into_bytes()));
        self.ready.push(id);
    }

    fn give_up_waiting(&mut self, id: u32) {
        let need = self.execution(id).and_then(|execution| execution.needs.pop());
        let Some((key, _)) = need else { return };
        self.locks.give_up(id, key, &mut self.ready);
        // Granted a moment ago, and not yet noticed.
        let session = self.sessions[id as usize].as_ref().expect("it runs");
        if !session.transaction_locks.contains(&key) && !session.session_locks.contains(&key) {
            self.locks.give(id, key, &mut self.ready);
        }
    }
}

/// Notes until when a lock is kept that has just been taken.
fn keep_lock(
    in_transaction: bool,
    transaction_locks: &mut Vec<Key>,
    session_locks: &mut Vec<Key>,
    execution: &mut Execution,
    key: Key,
) {
    let action = match execution.parts.front() {
        Some(Part::Work(statement, _)) => statement.action,
        _ => return,
    };
    let until = match action {
        Action::GlobalReadLock | Action::LockTable | Action::GetLock { .. } => session_locks,
        // The right to write is for as long as the statement runs, or the COMMIT.
        Action::Read | Action::Write if in_transaction && key != Key::Global => transaction_locks,
        // A table that was locked by LOCK TABLES stays locked.
        _ if session_locks.contains(&key) => return,
        _ => &mut execution.statement_locks,
    };
    if !until.contains(&key) {
        until.push(key);
    }
}

/// What a statement costs: microseconds of a core, and behind them.
fn costs(
    model: &super::ServerModel,
    seed: u64,
    statement: Statement,
    origin: Origin,
    in_transaction: bool,
    wrote: bool,
) -> (u64, u64) {
    let draw = |time: Time, purpose| time.draw(origin.bits(seed, purpose));
    let sync = |applies: bool| if applies { draw(model.sync, SYNC) } else { 0 };
    match statement.action {
        Action::Read | Action::Write => {
            let table = model.tables[usize::from(statement.table)];
            let commits = statement.action == Action::Write && !in_transaction;
            (draw(table.cpu, CPU), draw(table.wait, WAIT) + sync(commits))
        }
        Action::Commit => (draw(model.commit, CPU), sync(wrote)),
        _ => (draw(model.trivial, CPU), 0),
    }
}
