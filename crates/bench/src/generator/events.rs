//! Events and their statements: begin, send, check, count, begin again.

use seam::Instant;

use super::connection::State;
use super::logins::Closed;
use super::schedule::{Try, counted_from};
use super::{Generator, News, Phase};
use crate::errors::{ClientError, Failure, NO_SUCH_TABLE};
use crate::journal::End;
use crate::options::AfterError;
use crate::reply::{Ending, Expect};
use crate::workload::encode::{Row, put_execute, put_query, token};
use crate::workload::statement::{Kind, Statement};
use crate::workload::{Expected, Tables};

impl Generator<'_> {
    /// Begins the events whose moment has come: at the beginning, after a pause, or as arrivals on idle connections.
    pub(super) fn begin_due_events(&mut self, now: Instant) {
        for number in self.schedule.take_starting() {
            self.become_available(now, number);
        }
        while let Some((due, number)) = self.schedule.thinking.front().copied() {
            if due > now {
                break;
            }
            self.schedule.thinking.pop_front();
            self.become_available(now, number);
        }
        while self.schedule.may_begin() && !self.schedule.idle.is_empty() {
            let Some(arrivals) = &mut self.schedule.arrivals else { break };
            let Some(due) = arrivals.take(now, &mut self.source.random) else { break };
            if let Some(number) = self.schedule.idle.pop_front() {
                self.begin_event(now, number, counted_from(due, now));
            }
        }
    }

    /// A connection has nothing to do: the next event, or idle.
    pub(super) fn become_available(&mut self, now: Instant, number: u32) {
        if !self.schedule.may_begin() {
            self.schedule.idle.push_back(number);
            return;
        }
        let due = match &mut self.schedule.arrivals {
            None => Some(now),
            Some(arrivals) => arrivals.take(now, &mut self.source.random),
        };
        match due {
            Some(due) => self.begin_event(now, number, due),
            None => self.schedule.idle.push_back(number),
        }
    }

    /// Begins an event whose latency counts from `started`.
    fn begin_event(&mut self, now: Instant, number: u32, started: Instant) {
        let connection = &mut self.connections[number as usize];
        connection.event = Some(started);
        self.schedule.open += 1;
        if let Some(remaining) = &mut self.schedule.remaining {
            *remaining -= 1;
        }
        if self.options.tables.workload().reconnects() {
            self.connector.enqueue(number);
        } else if matches!(connection.state, State::Ready { .. }) {
            self.send_first(now, number);
        }
        // A connection that was lost while it was idle begins when it is up again.
    }

    /// Sends the first statement of the open event.
    pub(super) fn send_first(&mut self, now: Instant, number: u32) {
        let connection = &mut self.connections[number as usize];
        connection.step = 0;
        if let (Some(started), false) = (connection.event, self.options.give_up.is_zero()) {
            let attempt = Try { number, attempt: connection.attempt, started };
            self.schedule.patience.push_back((now + self.options.give_up, attempt));
        }
        self.send_step(number);
    }

    fn send_step(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let Some(id) = connection.state.connection() else { return };
        let step = self.plan.steps[connection.step as usize];
        let place = step.statement;
        let statement = &self.plan.statements[place];
        let source = &mut self.source;
        source.redraw(step.draw, &mut connection.subject);
        let subject = connection.subject;
        if self.options.prepared && statement.preparable {
            let table = if statement.names_table() { subject.table as usize - 1 } else { 0 };
            let prepared = &mut connection.prepared[place * self.options.tables.tables as usize + table];
            self.outbox
                .send_command(id, |out| put_execute(out, prepared, statement, source, &subject, number));
        } else {
            self.outbox.send_command(id, |out| put_query(out, statement, source, &subject, number));
        }
        let checked = step.expected != Expected::Anything;
        connection.reply.start(if checked { Expect::FirstRow } else { Expect::Results });
        connection.state = State::Executing { connection: id };
    }

    /// The reply to a statement of the plan is complete.
    pub(super) fn statement_done(&mut self, now: Instant, number: u32) {
        let connection = &self.connections[number as usize];
        if let Ending::Error(error) = connection.reply.ending() {
            let failure = Failure::from(error);
            self.note_marker(number, End::Failed(failure.code));
            return self.statement_failed(now, number, failure);
        }
        self.note_marker(number, End::Answered);
        let connection = &self.connections[number as usize];
        let step = self.plan.steps[connection.step as usize];
        let statement = &self.plan.statements[step.statement];
        let (kind, rows) = (statement.kind, connection.reply.rows());
        if step.expected != Expected::Anything || self.options.tables.workload().tables() == Tables::Ledger {
            self.verify(number);
        }
        if !self.is_running() {
            self.note_marker(number, End::Left);
            return self.leave(number);
        }
        self.statistics.record_query(kind, rows);
        self.failing_since = None;
        let connection = &mut self.connections[number as usize];
        connection.step += 1;
        if (connection.step as usize) < self.plan.steps.len() {
            self.send_step(number);
        } else {
            self.event_done(now, number);
        }
    }

    /// Compares the answer with what only this statement can have asked for.
    fn verify(&mut self, number: u32) {
        let connection = &self.connections[number as usize];
        let step = self.plan.steps[connection.step as usize];
        let statement = &self.plan.statements[step.statement];
        let reply = &connection.reply;
        let row = Row { payload: reply.first_row(), binary: self.options.prepared && statement.preparable };
        if !self.source.verify(step.expected, reply.rows(), row, &connection.subject, number) {
            self.statistics.record_mismatch(|| {
                format!(
                    "connection {number}, {}: {} rows, the first is {:?}, the own token is number {}",
                    statement.text,
                    reply.rows(),
                    String::from_utf8_lossy(reply.first_row()),
                    connection.subject.counter
                )
            });
        }
        // Between BEGIN and COMMIT the server must say that a transaction is open, and after COMMIT that none is.
        let in_transaction = reply.status().contains(wire::StatusFlags::IN_TRANS);
        if self.plan.leaves_open(connection.step as usize).is_some_and(|open| open != in_transaction) {
            self.statistics.record_mismatch(|| {
                format!(
                    "connection {number}, {}: the status says in transaction = {in_transaction}",
                    statement.text
                )
            });
        }
    }

    /// Tells what has become of the connection's marker, where this end of its statement says that.
    pub(super) fn note_marker(&mut self, number: u32, end: End) {
        if self.options.journal.is_none() {
            return;
        }
        let connection = &self.connections[number as usize];
        if let Some(fate) = self.plan.fate(connection.step as usize, end) {
            let marker = token(&connection.subject, number);
            (self.tell)(News::Marker { fate, marker });
        }
    }

    fn statement_failed(&mut self, now: Instant, number: u32, failure: Failure) {
        if !self.is_running() {
            return self.leave(number);
        }
        if failure.code == NO_SUCH_TABLE {
            self.statistics.record_error(&failure);
            return self.fail(now, failure);
        }
        let tolerated = self.options.ignore_errors.tolerates(&failure);
        if !self.record_failure(now, failure, tolerated) {
            return;
        }
        let connection = &mut self.connections[number as usize];
        let Some(id) = connection.state.connection() else { return };
        if !self.plan.may_be_open(connection.step as usize) {
            return self.after_error(now, number);
        }
        // A deadlock has undone the transaction, a lock wait timeout only its last statement. ROLLBACK fits both; the
        // BEGIN of the next try would commit what is left.
        let subject = connection.subject;
        let source = &mut self.source;
        self.outbox.send_command(id, |out| put_query(out, &Statement::ROLLBACK, source, &subject, number));
        connection.reply.start(Expect::Results);
        connection.state = State::RollingBack { connection: id };
    }

    /// The reply to a ROLLBACK is complete: the event begins again.
    pub(super) fn rolled_back(&mut self, now: Instant, number: u32) {
        if !self.is_running() {
            return self.leave(number);
        }
        if let Ending::Error(error) = self.connections[number as usize].reply.ending() {
            let failure = Failure::from(error);
            return self.lost(now, number, failure, Closed::ByUs);
        }
        self.statistics.record_query(Kind::Other, 0);
        self.after_error(now, number);
    }

    /// The event failed and has left nothing behind.
    fn after_error(&mut self, now: Instant, number: u32) {
        match self.options.after_error {
            AfterError::Retry => self.send_first(now, number),
            AfterError::Drop => self.event_over(now, number),
        }
    }

    /// Gives up the events that have had their time. What they asked for is asked for again on a new connection, behind
    /// those that want one already.
    pub(super) fn give_up_late_events(&mut self, now: Instant) {
        while let Some((until, Try { number, attempt, started })) = self.schedule.patience.front().copied() {
            if until > now {
                break;
            }
            self.schedule.patience.pop_front();
            let connection = &self.connections[number as usize];
            let is_same = connection.attempt == attempt && connection.event == Some(started);
            if is_same && connection.state.awaits_reply() {
                let text = format!("given up after {:?} (--give-up)", self.options.give_up);
                self.lost(now, number, Failure::new(ClientError::GivenUp, text), Closed::ByUs);
            }
        }
    }

    fn event_done(&mut self, now: Instant, number: u32) {
        let connection = &mut self.connections[number as usize];
        let Some(started) = connection.event else { return };
        self.statistics.record_event(now.since(started));
        if matches!(self.phase, Phase::Measuring { .. }) {
            connection.events += 1;
        }
        self.event_over(now, number);
    }

    /// The connection has no event any more, and goes on to the next.
    fn event_over(&mut self, now: Instant, number: u32) {
        self.connections[number as usize].event = None;
        self.schedule.open -= 1;
        if self.options.tables.workload().reconnects() {
            self.leave(number);
        }
        if !self.schedule.may_begin() && self.schedule.open == 0 {
            return self.finish(now);
        }
        if self.options.think_time.is_zero() {
            self.become_available(now, number);
        } else {
            self.schedule.thinking.push_back((now + self.options.think_time, number));
        }
    }

    /// Says goodbye and closes.
    pub(super) fn leave(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        if let Some(id) = connection.state.connection() {
            self.outbox.quit(id);
            self.up -= 1;
        }
        connection.state = State::Down;
    }
}
