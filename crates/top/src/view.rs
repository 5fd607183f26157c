//! What is looked at and how: the state behind the screen. Looks and keys go in, what is to be done comes out; no clock, no terminal.

mod keys;

use std::collections::BTreeMap;
use std::fmt;

use crate::onramps;
use crate::rows::{Line, Order, lines};
use crate::snapshot::{ONRAMP, Snapshot, Table, Value};
use crate::tabs::Tab;

pub use keys::{Action, HELP, Key};

/// Where the looks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A running Onramp, by its address, or several.
    Live {
        /// For people; empty for several, which the looks name.
        target: String,
        /// The file that all looks are written to.
        recording: Option<String>,
    },
    /// A recording.
    Replay {
        /// The file.
        file: String,
        /// Which look is shown, from 0.
        position: usize,
        /// How many there are.
        count: usize,
        /// Whether it goes on by itself.
        playing: bool,
    },
}

/// What keys are for at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Moving around.
    Normal,
    /// Writing the filter; what it was before stands here.
    Filter(String),
    /// Deciding about an order.
    Question(Kill),
    /// Reading the help.
    Help,
}

/// An order to end something. It is about the client that was selected when the question was asked, whatever the screen shows since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Whose client it is, where several Onramps are looked at; the order goes there and nowhere else.
    pub onramp: Option<String>,
    /// The client's id.
    pub client: i64,
    /// Whether only its statement is ended.
    pub query_only: bool,
    /// Who it is, for people.
    pub who: String,
}

impl Kill {
    /// As SQL of the admin port.
    pub fn to_sql(&self) -> String {
        format!("KILL {}{}", if self.query_only { "QUERY " } else { "" }, self.client)
    }

    /// The order, and where it goes, for people.
    pub fn text(&self) -> String {
        let at = self.onramp.as_ref().map_or_else(String::new, |onramp| format!(" at {onramp}"));
        self.to_sql() + &at
    }
}

/// What is selected on a tab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The selected line, from 0.
    pub line: usize,
    /// What names its row, so that it is found again where it has moved.
    key: Option<String>,
    /// How many columns are left out on the left side, behind the first.
    pub shift: usize,
}

/// The state.
#[derive(Clone, Debug)]
pub struct View {
    /// The tab that is shown.
    pub tab: Tab,
    /// What rows have to hold.
    pub filter: String,
    /// What keys are for.
    pub mode: Mode,
    /// Whether what is on the screen stays.
    pub paused: bool,
    /// The look that is shown.
    pub look: Option<Snapshot>,
    /// Why the last look failed, where it did.
    pub failure: Option<String>,
    /// What there is to say until the next key.
    pub message: Option<String>,
    /// Where looks come from.
    pub source: Source,
    /// Whether colours help; they never say anything alone.
    pub colours: bool,
    /// Lines that the table has on the screen, for going by pages.
    pub page: usize,
    /// Statements in a second of each Onramp, between the two last looks at it.
    rates: BTreeMap<String, f64>,
    orders: [Order; Tab::ALL.len()],
    cursors: [Cursor; Tab::ALL.len()],
}

impl View {
    /// Before the first look.
    pub fn new(source: Source, colours: bool) -> Self {
        Self {
            tab: Tab::Clients,
            filter: String::new(),
            mode: Mode::Normal,
            paused: false,
            look: None,
            rates: BTreeMap::new(),
            failure: None,
            message: None,
            source,
            colours,
            page: 1,
            orders: Tab::ALL.map(Order::usual),
            cursors: Tab::ALL.map(|_| Cursor::default()),
        }
    }

    /// The tabs that there are: that of Onramps where there are several, or where it is shown.
    pub fn tabs(&self) -> Vec<Tab> {
        let several = self.look.as_ref().is_some_and(onramps::are_several);
        let is_there = |tab: &Tab| *tab != Tab::Onramps || several || self.tab == Tab::Onramps;
        Tab::ALL.into_iter().filter(is_there).collect()
    }

    /// The order of the tab that is shown.
    pub fn order(&self) -> &Order {
        &self.orders[self.tab.index()]
    }

    /// What is selected on the tab that is shown.
    pub fn cursor(&self) -> &Cursor {
        &self.cursors[self.tab.index()]
    }

    /// The table of the tab that is shown, where the look has it.
    pub fn table(&self) -> Option<&Table> {
        self.look.as_ref()?.tables.get(self.tab.name())
    }

    /// The lines of the tab that is shown.
    pub fn lines(&self) -> Vec<Line> {
        self.table().map_or_else(Vec::new, |table| lines(self.tab, table, self.order(), &self.filter))
    }

    /// Whether several Onramps are looked at, so that each row says whose it is.
    pub fn is_of_several(&self) -> bool {
        self.look.as_ref().is_some_and(Snapshot::is_of_several)
    }

    /// Statements in a second, of all Onramps of which it is known; `None` where it is of none.
    pub fn rate(&self) -> Option<f64> {
        self.rates.values().copied().reduce(|sum, rate| sum + rate)
    }

    /// Takes a look; with the one before it makes a rate.
    pub fn take(&mut self, look: Snapshot) {
        let known = std::mem::take(&mut self.rates);
        self.rates = rates(self.look.as_ref(), &look, &known);
        self.failure = None;
        self.put(look);
    }

    /// Shows a look of a recording, behind the one before it.
    pub fn show(&mut self, before: Option<&Snapshot>, look: Snapshot) {
        self.rates = rates(before, &look, &BTreeMap::new());
        self.put(look);
    }

    fn put(&mut self, mut look: Snapshot) {
        look.tables.insert(Tab::Onramps.name().to_owned(), onramps::table(&look, &self.rates));
        self.look = Some(look);
        self.follow();
    }

    /// Notes that there was no look.
    pub fn fail(&mut self, reason: String) {
        self.failure = Some(reason);
    }

    /// Selects the row again that was selected, wherever it stands now; where it has gone, the line stays.
    fn follow(&mut self) {
        let lines = self.lines();
        let cursor = self.cursor();
        let found = cursor
            .key
            .as_ref()
            .and_then(|key| lines.iter().position(|line| self.key_of(line).as_ref() == Some(key)));
        let line = found.unwrap_or(cursor.line).min(lines.len().saturating_sub(1));
        let key = lines.get(line).and_then(|line| self.key_of(line));
        let cursor = &mut self.cursors[self.tab.index()];
        cursor.line = line;
        // Only who has moved the selection follows a row: at the top one sees what comes to the top.
        cursor.key = cursor.key.take().and(key);
    }

    /// Selects a line.
    fn select(&mut self, line: usize) {
        let lines = self.lines();
        let line = line.min(lines.len().saturating_sub(1));
        let key = lines.get(line).and_then(|line| self.key_of(line)).filter(|_| line > 0);
        let cursor = &mut self.cursors[self.tab.index()];
        cursor.line = line;
        cursor.key = key;
    }

    fn key_of(&self, line: &Line) -> Option<String> {
        let values: Vec<_> =
            self.tab.key().iter().map(|column| self.value(line, column)).collect::<Option<_>>()?;
        let is_named = values.iter().any(|value| **value != Value::Null);
        let whose = self.value(line, ONRAMP).into_iter();
        is_named.then(|| whose.chain(values).map(Value::text).collect::<Vec<_>>().join(" "))
    }

    /// What stands in a column of a line's row.
    fn value(&self, line: &Line, column: &str) -> Option<&Value> {
        let table = self.table()?;
        table.rows.get(line.row?)?.get(table.column(column)?)
    }

    /// The Onramp of several that is selected in their tab.
    pub fn selected_onramp(&self) -> Option<String> {
        let lines = (self.tab == Tab::Onramps).then(|| self.lines())?;
        let name = self.value(lines.get(self.cursor().line)?, ONRAMP)?.text();
        (!name.is_empty()).then_some(name)
    }

    /// The question about the client of the selected line, or why there is none.
    fn kill(&self, query_only: bool) -> Result<Kill, NoKill> {
        if matches!(self.source, Source::Replay { .. }) {
            return Err(NoKill::Recording);
        }
        let Some(column) = self.tab.client() else {
            return Err(NoKill::NoClients(self.tab));
        };
        let lines = self.lines();
        let line = lines.get(self.cursor().line).ok_or(NoKill::NothingSelected)?;
        let client = self.value(line, column).and_then(Value::integer);
        let client = client.ok_or(NoKill::NoClient)?;
        let word = |column: &str| {
            let value = self.value(line, column).filter(|value| **value != Value::Null)?;
            Some(crate::format::clean(&value.text()))
        };
        let who: Vec<String> = ["user", "address", "state", "queue"].into_iter().filter_map(word).collect();
        let onramp = self.value(line, ONRAMP).map(Value::text);
        Ok(Kill { onramp, client, query_only, who: who.join(", ") })
    }
}

/// Why there is nobody to KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoKill {
    /// What is shown has been.
    Recording,
    /// This tab shows no clients.
    NoClients(Tab),
    /// No line is selected.
    NothingSelected,
    /// The selected line is of no client of this Onramp.
    NoClient,
}

impl fmt::Display for NoKill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording => f.write_str("this is a recording: there is nothing to KILL"),
            Self::NoClients(tab) => write!(f, "KILL is for clients: the tab {} has none", tab.name()),
            Self::NothingSelected => f.write_str("no client is selected"),
            Self::NoClient => f.write_str("there is no client of this Onramp on this line"),
        }
    }
}

/// Of each Onramp that is there now; what is known of it stays where nothing newer is.
fn rates(
    before: Option<&Snapshot>,
    after: &Snapshot,
    known: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let before: BTreeMap<&str, &Snapshot> = before.into_iter().flat_map(Snapshot::each).collect();
    let of = |(name, after): (&str, &Snapshot)| {
        let new = before.get(name).and_then(|before| rate(before, after));
        Some((name.to_owned(), new.or(known.get(name).copied())?))
    };
    after.each().into_iter().filter_map(of).collect()
}

fn rate(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let statements = after.number("Queries")?.saturating_sub(before.number("Queries")?);
    let milliseconds = after.at.checked_sub(before.at).filter(|milliseconds| *milliseconds > 0)?;
    // An Onramp that was started anew counts from 0.
    (statements >= 0).then(|| statements as f64 * 1000.0 / milliseconds as f64)
}

#[cfg(test)]
pub(crate) mod tests;
