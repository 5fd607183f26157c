//! Rows on their way from one thread to another, in one piece of memory.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::row::Kind;

/// How many bytes are gathered before they are handed on: enough that handing on costs little beside reading them.
const FULL: usize = 64 << 10;

/// What NULL has in the place of an end.
const NULL: u32 = u32::MAX;

/// Some rows of one table, with the columns that were asked for.
#[derive(Default)]
pub(crate) struct Chunk {
    values: Vec<u8>,
    /// Where each value ends, one row after the other.
    ends: Vec<u32>,
    /// Where each row begins in `values`.
    starts: Vec<u32>,
    width: usize,
}

/// Why a row is not taken.
pub(super) fn too_large(limit: i32) -> String {
    format!("a row of it is larger than {} KiB, which no row of an admin port is", limit >> 10)
}

impl Chunk {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Adds a row, with a value for each column.
    pub(super) fn push<'a>(&mut self, row: impl Iterator<Item = Option<&'a [u8]>>) {
        self.starts.push(self.at());
        for value in row {
            self.values.extend_from_slice(value.unwrap_or_default());
            self.ends.push(if value.is_some() { self.at() } else { NULL });
        }
    }

    fn at(&self) -> u32 {
        // What is full is handed on, and a row is bounded.
        u32::try_from(self.values.len()).unwrap_or(NULL)
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes() + (self.ends.len() + self.starts.len()) * size_of::<u32>() >= FULL
    }

    /// Bytes of values.
    pub(super) fn bytes(&self) -> usize {
        self.values.len()
    }

    pub(super) fn rows(&self) -> usize {
        self.starts.len()
    }

    /// A value, of a column of this kind. What cannot be that stays the text that it is.
    pub(super) fn value(&self, row: usize, column: usize, kind: Kind) -> Owned {
        let ends = &self.ends[row * self.width..][..self.width];
        let end = ends[column];
        if end == NULL {
            return Owned::Null;
        }
        let before = ends[..column].iter().rfind(|end| **end != NULL);
        let start = before.copied().unwrap_or(self.starts[row]);
        let text = String::from_utf8_lossy(&self.values[start as usize..end as usize]);
        let number = match kind {
            Kind::Integer => text.parse().ok().map(Owned::Integer),
            Kind::Real => text.parse().ok().map(Owned::Real),
            Kind::Text => None,
        };
        number.unwrap_or_else(|| Owned::Text(text.into_owned()))
    }
}

/// A value by itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl ToSql for Owned {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
