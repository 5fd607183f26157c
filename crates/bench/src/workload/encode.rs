//! Statements as the bytes of commands: COM_QUERY with the values in the text, COM_STMT_PREPARE, COM_STMT_EXECUTE.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

use std::io::Write as _;
use std::time::Duration;

use super::statement::{Parameter, Statement};
use super::{Draw, Expected};
use crate::distribution::{Distribution, Random};

/// What one connection's statements are about at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject {
    /// Which `sbtest` table, from 1.
    pub table: u32,
    /// The row of it, or the lower account.
    pub row: u32,
    /// The higher account.
    pub other_account: u32,
    /// What is transferred.
    pub amount: i32,
    /// Counts the connection's tokens.
    pub counter: u32,
}

/// Where drawn values come from; one for all connections.
#[derive(Debug)]
pub struct Source {
    /// Random numbers.
    pub random: Random,
    /// Which rows.
    pub rows: Distribution,
    /// How many `sbtest` tables, from 1.
    pub tables: u32,
    /// Part of every text token, so that two runs at the same time do not share tokens.
    pub run: u32,
    /// How many rows a range has.
    pub range_rows: u32,
    /// How long the statement of the workload `sleep` takes.
    pub sleep_time: Duration,
    /// Holds one text value at a time.
    scratch: Vec<u8>,
}

impl Source {
    /// Draws from `random`. Ranges have sysbench's 100 rows and a sleep takes a second, until told otherwise.
    pub fn new(random: Random, rows: Distribution, tables: u32, run: u32) -> Self {
        let sleep_time = Duration::from_secs(1);
        Self { random, rows, tables, run, range_rows: 100, sleep_time, scratch: Vec::with_capacity(128) }
    }

    /// Draws what a step asks for.
    pub fn redraw(&mut self, draw: Draw, subject: &mut Subject) {
        match draw {
            Draw::Nothing => {}
            Draw::Row => subject.row = self.rows.draw(&mut self.random),
            Draw::TableAndRow => {
                subject.table = 1 + self.random.below(self.tables);
                subject.row = self.rows.draw(&mut self.random);
            }
            Draw::Token => subject.counter = subject.counter.wrapping_add(1),
            Draw::Transfer => {
                subject.counter = subject.counter.wrapping_add(1);
                let (first, second) = self.two_rows();
                subject.row = first.min(second);
                subject.other_account = first.max(second);
                // 1 to 10 either way: money flows in both directions although the lower account is always first.
                let amount = 1 + self.random.below(10) as i32;
                subject.amount = if self.random.next() & 1 == 0 { amount } else { -amount };
            }
        }
    }

    /// Two different rows; the second moves on by one where both draws hit the same.
    fn two_rows(&mut self) -> (u32, u32) {
        let first = self.rows.draw(&mut self.random);
        let second = self.rows.draw(&mut self.random);
        if first == second { (first, second % self.rows.rows() + 1) } else { (first, second) }
    }

    fn value(&mut self, parameter: Parameter, subject: &Subject, connection: u32) -> Value<'_> {
        self.scratch.clear();
        match parameter {
            Parameter::Row | Parameter::LowerAccount => Value::Integer(i64::from(subject.row)),
            // The first account is the first connection's.
            Parameter::OwnAccount => Value::Integer(i64::from(connection) + 1),
            Parameter::RangeEnd => Value::Integer(i64::from(subject.row) + i64::from(self.range_rows) - 1),
            Parameter::AnotherRow => Value::Integer(i64::from(self.rows.draw(&mut self.random))),
            Parameter::HigherAccount => Value::Integer(i64::from(subject.other_account)),
            Parameter::Amount => Value::Integer(i64::from(subject.amount)),
            Parameter::Token => Value::Integer(token(subject, connection)),
            Parameter::DigitsForC => {
                self.random.put_digit_groups(&mut self.scratch, 10);
                Value::Text(&self.scratch)
            }
            Parameter::DigitsForPad => {
                self.random.put_digit_groups(&mut self.scratch, 5);
                Value::Text(&self.scratch)
            }
            Parameter::TokenText => {
                put_token_text(&mut self.scratch, self.run, subject, connection);
                Value::Text(&self.scratch)
            }
            Parameter::SleepTime => {
                // Writing to a Vec cannot fail.
                let _ = write!(self.scratch, "{}", self.sleep_time.as_secs_f64());
                Value::Decimal(&self.scratch)
            }
        }
    }

    /// Whether an answer with `rows` rows, the first of them `row` (its payload), is what was expected.
    pub fn verify(
        &mut self,
        expected: Expected,
        rows: u32,
        row: Row<'_>,
        subject: &Subject,
        connection: u32,
    ) -> bool {
        self.scratch.clear();
        match expected {
            Expected::Anything => return true,
            Expected::Token if row.binary => {
                self.scratch.extend_from_slice(&BINARY_ROW);
                self.scratch.extend_from_slice(&token(subject, connection).to_le_bytes());
            }
            Expected::Token => {
                self.scratch.push(0);
                put_integer(&mut self.scratch, token(subject, connection));
                self.scratch[0] = (self.scratch.len() - 1) as u8;
            }
            Expected::TokenText => {
                if row.binary {
                    self.scratch.extend_from_slice(&BINARY_ROW);
                }
                let length_at = self.scratch.len();
                self.scratch.push(0);
                put_token_text(&mut self.scratch, self.run, subject, connection);
                self.scratch[length_at] = (self.scratch.len() - length_at - 1) as u8;
            }
        }
        rows == 1 && row.payload == self.scratch
    }
}

/// How a row of the binary protocol with one column that is not NULL begins: the header and an empty NULL map.
const BINARY_ROW: [u8; 2] = [0, 0];

/// One row as it came.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Without the packet's header.
    pub payload: &'a [u8],
    /// Whether it answers COM_STMT_EXECUTE.
    pub binary: bool,
}

enum Value<'a> {
    Integer(i64),
    Decimal(&'a [u8]),
    Text(&'a [u8]),
}

/// A number that only this statement of this connection sends during a run.
pub fn token(subject: &Subject, connection: u32) -> i64 {
    (i64::from(connection) << 32) | i64::from(subject.counter)
}

fn put_token_text(out: &mut Vec<u8>, run: u32, subject: &Subject, connection: u32) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{run:08x}-{connection}-{}", subject.counter);
}

/// COM_QUERY with every `%` and `?` filled in; the payload without the packet's header.
pub fn put_query(
    out: &mut Vec<u8>,
    statement: &Statement,
    source: &mut Source,
    subject: &Subject,
    connection: u32,
) {
    out.push(wire::CommandKind::Query as u8);
    let mut parameters = statement.parameters.iter();
    for byte in statement.text.bytes() {
        match byte {
            b'%' => put_integer(out, i64::from(subject.table)),
            b'?' => {
                let parameter = parameters.next().expect("a statement has a parameter for each ?");
                match source.value(*parameter, subject, connection) {
                    Value::Integer(value) => put_integer(out, value),
                    Value::Decimal(digits) => out.extend_from_slice(digits),
                    Value::Text(text) => {
                        // Only digits, letters and dashes: nothing to escape.
                        out.push(b'\'');
                        out.extend_from_slice(text);
                        out.push(b'\'');
                    }
                }
            }
            _ => out.push(byte),
        }
    }
}

/// COM_STMT_PREPARE of the statement on one table.
pub fn put_prepare(out: &mut Vec<u8>, statement: &Statement, table: u32) {
    out.push(wire::CommandKind::StmtPrepare as u8);
    for byte in statement.text.bytes() {
        match byte {
            b'%' => put_integer(out, i64::from(table)),
            _ => out.push(byte),
        }
    }
}

/// A prepared statement of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prepared {
    /// What the server calls it.
    pub id: u32,
    /// Whether the types of its parameters have been sent: they go with the first execution only, as client
    /// libraries do it, and the server remembers them.
    pub types_sent: bool,
}

/// COM_STMT_EXECUTE with the statement's values.
pub fn put_execute(
    out: &mut Vec<u8>,
    prepared: &mut Prepared,
    statement: &Statement,
    source: &mut Source,
    subject: &Subject,
    connection: u32,
) {
    out.push(wire::CommandKind::StmtExecute as u8);
    out.extend_from_slice(&prepared.id.to_le_bytes());
    out.push(0); // no cursor
    out.extend_from_slice(&1_u32.to_le_bytes()); // the iteration count, always 1
    if statement.parameters.is_empty() {
        return;
    }
    // The NULL map, a bit each: nothing is NULL.
    out.resize(out.len() + statement.parameters.len().div_ceil(8), 0);
    out.push(u8::from(!prepared.types_sent));
    if !prepared.types_sent {
        for parameter in statement.parameters {
            // The second byte would mark an unsigned number.
            out.extend_from_slice(&[if is_text(*parameter) { TYPE_VAR_STRING } else { TYPE_LONGLONG }, 0]);
        }
        prepared.types_sent = true;
    }
    for parameter in statement.parameters {
        match source.value(*parameter, subject, connection) {
            Value::Integer(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Decimal(text) | Value::Text(text) => {
                // At most 119 bytes, so the length is one byte (below 251).
                out.push(text.len() as u8);
                out.extend_from_slice(text);
            }
        }
    }
}

/// `MYSQL_TYPE_LONGLONG` and `MYSQL_TYPE_VAR_STRING` of `include/field_types.h`.
const TYPE_LONGLONG: u8 = 8;
const TYPE_VAR_STRING: u8 = 253;

fn is_text(parameter: Parameter) -> bool {
    matches!(
        parameter,
        Parameter::DigitsForC | Parameter::DigitsForPad | Parameter::TokenText | Parameter::SleepTime
    )
}

/// A number in decimal digits; faster than the formatting machinery.
pub fn put_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let mut rest = value.unsigned_abs();
    let start = out.len();
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[start..].reverse();
}
