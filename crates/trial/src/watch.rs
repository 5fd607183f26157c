//! What looks at the clients have shown: how many backends they would have needed at a time, whose transactions stand idle, and whose
//! logins are refused.

use std::collections::BTreeMap;

use crate::questions;
use crate::table::{NoTable, Row, Source, Table};
use crate::tally::Tally;

/// Users that are told apart; those who come later are counted together. Some bytes each.
const MOST_USERS: usize = 1000;

/// Refused logins that are told apart, by user, address and reason: more are somebody who tries names.
const MOST_REFUSED: usize = 200;

/// A transaction in which nothing has run for this long is one in which its application does something else. The way there and back
/// between a statement and the next takes a small part of it.
const THINKS_FROM: u64 = 100_000;

/// Who is counted together with others.
const OTHERS: &str = "(others)";

/// A pin that each client has while none shares backends; it says nothing.
const OF_THE_TRIAL: &str = "thread_handling";

/// States in which a client needs no backend, whatever its application does.
const NEEDS_NONE: [&str; 4] = ["connecting", "logging_in", "idle", "reading"];

/// What has been seen so far.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Milliseconds since 1970: the beginning, and the last look.
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) looks: u64,
    /// Looks that could not be taken.
    pub(crate) missed: u64,
    pub(crate) clients: Tally,
    pub(crate) needed: Tally,
    pub(crate) running: Tally,
    pub(crate) transactions: Tally,
    pub(crate) idle_transactions: Tally,
    pub(crate) pinned: Tally,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) seen: Transactions,
    pub(crate) refused: BTreeMap<Refused, u64>,
    /// What had been counted at the first look.
    pub(crate) first: Option<Totals>,
    open: BTreeMap<u64, Open>,
    last_event: u64,
}

/// What has been counted of all statements since the start of the Onramp that is watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// When, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) statements: u64,
    pub(crate) time_us: u64,
}

/// What a user's clients have shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) clients: Tally,
    pub(crate) needed: Tally,
    pub(crate) seen: Transactions,
}

/// Transactions that were open at a look or several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    pub(crate) count: u64,
    /// In which nothing ran for a while; for a second; for ten; for a minute.
    pub(crate) idle: u64,
    pub(crate) idle_1s: u64,
    pub(crate) idle_10s: u64,
    pub(crate) idle_1m: u64,
    /// In microseconds.
    pub(crate) longest: u64,
    pub(crate) longest_idle: u64,
}

/// Who was refused, from where, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refused {
    pub(crate) user: String,
    pub(crate) from: String,
    pub(crate) why: String,
}

/// A transaction that was open at the last look.
#[derive(Clone, Debug)]
struct Open {
    user: String,
    age: u64,
    idle: u64,
    /// The look at which it was seen last.
    look: u64,
}

/// What one look has counted of somebody.
#[derive(Clone, Copy, Default)]
struct Count {
    clients: u32,
    needed: u32,
}

impl Watch {
    /// Nothing seen yet, at this time, in milliseconds since 1970.
    pub fn new(now: u64) -> Self {
        Self { since: now, until: now, ..Self::default() }
    }

    /// Looks once, and counts what is seen for the time since the last look.
    ///
    /// # Errors
    /// Why the look could not be taken. It is counted, and the next one counts for the time in between.
    pub fn look(&mut self, now: u64, source: &mut dyn Source) -> Result<(), NoTable> {
        let asked = source
            .ask(questions::CLIENTS)
            .and_then(|clients| Ok((clients, source.ask(&questions::refused_logins(self.last_event))?)));
        let first = match self.first {
            Some(first) => Ok(first),
            None => source.ask(questions::TOTALS).map(|totals| Totals::of(&totals, now)),
        };
        let answers = asked.and_then(|(clients, refused)| Ok((clients, refused, first?)));
        let (clients, refused, first) = answers.inspect_err(|_| self.missed += 1)?;
        self.first = Some(first);
        self.looks += 1;
        // At least one, so that a look counts for something.
        let time = now.saturating_sub(self.until).max(1);
        self.until = now.max(self.until);
        let mut whole = Whole::default();
        for client in clients.rows() {
            self.see(&client, &mut whole);
        }
        self.count(&whole, time);
        self.close_transactions();
        refused.rows().for_each(|event| self.note_refused(&event));
        Ok(())
    }

    fn see(&mut self, client: &Row<'_>, whole: &mut Whole) {
        // Who has not logged in may never do so.
        let Some(name) = client.text("user") else { return };
        let user = self.user_of(name);
        let state = client.text("state").unwrap_or_default();
        let at_work = !NEEDS_NONE.contains(&state);
        let in_transaction = client.is_set("in_transaction");
        let mut pins = client.text("pins").unwrap_or_default().split(',');
        let pinned = pins.any(|pin| !pin.is_empty() && pin != OF_THE_TRIAL);
        let count = whole.users.entry(user.clone()).or_default();
        let needs = u32::from(at_work || in_transaction || pinned);
        for count in [count, &mut whole.all] {
            count.clients += 1;
            count.needed += needs;
        }
        whole.running += u32::from(at_work);
        whole.pinned += u32::from(pinned);
        if in_transaction {
            whole.transactions += 1;
            let idle = if state == "idle" { client.number("idle_us") } else { 0 };
            whole.idle_transactions += u32::from(idle >= THINKS_FROM);
            self.see_transaction(client.number("id"), user, client.number("transaction_us"), idle);
        }
    }

    fn user_of(&mut self, name: &str) -> String {
        let known = self.users.len() < MOST_USERS || self.users.contains_key(name);
        let user = String::from(if known { name } else { OTHERS });
        self.users.entry(user.clone()).or_default();
        user
    }

    /// One that is younger than at the last look is another one.
    fn see_transaction(&mut self, client: u64, user: String, age: u64, idle: u64) {
        let look = self.looks;
        match self.open.get_mut(&client) {
            Some(open) if age >= open.age => {
                (open.age, open.idle, open.look) = (age, open.idle.max(idle), look);
            }
            _ => {
                if let Some(before) = self.open.insert(client, Open { user, age, idle, look }) {
                    self.end_transaction(&before);
                }
            }
        }
    }

    fn close_transactions(&mut self) {
        let look = self.looks;
        let (still, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, open)| open.look == look);
        self.open = still;
        gone.values().for_each(|open| self.end_transaction(open));
    }

    fn end_transaction(&mut self, open: &Open) {
        self.seen.add(open);
        if let Some(user) = self.users.get_mut(&open.user) {
            user.seen.add(open);
        }
    }

    /// With those that are open still counted as far as they have come: what a report tells.
    pub(crate) fn so_far(&self) -> Self {
        let mut watch = self.clone();
        let open = std::mem::take(&mut watch.open);
        open.values().for_each(|open| watch.end_transaction(open));
        watch
    }

    fn count(&mut self, whole: &Whole, time: u64) {
        self.clients.add(whole.all.clients, time);
        self.needed.add(whole.all.needed, time);
        self.running.add(whole.running, time);
        self.transactions.add(whole.transactions, time);
        self.idle_transactions.add(whole.idle_transactions, time);
        self.pinned.add(whole.pinned, time);
        for (name, user) in &mut self.users {
            let count = whole.users.get(name).copied().unwrap_or_default();
            user.clients.add(count.clients, time);
            user.needed.add(count.needed, time);
        }
    }

    fn note_refused(&mut self, event: &Row<'_>) {
        self.last_event = self.last_event.max(event.number("number"));
        let Some(refused) = event.text("message").and_then(Refused::parse) else { return };
        let known = self.refused.len() < MOST_REFUSED || self.refused.contains_key(&refused);
        *self.refused.entry(if known { refused } else { Refused::others() }).or_default() += 1;
    }
}

impl Totals {
    /// From the answer to that question, at this time, in milliseconds since 1970.
    pub(crate) fn of(totals: &Table, at: u64) -> Self {
        let of_row =
            |row: Row<'_>| Self { at, statements: row.number("count"), time_us: row.number("time_us") };
        totals.rows().next().map_or(Self { at, ..Self::default() }, of_row)
    }

    /// What came since. Where there is less than before, it has started again, and everything came since.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let before = if self.statements < before.statements { Self::default() } else { *before };
        Self {
            statements: self.statements - before.statements,
            time_us: self.time_us.saturating_sub(before.time_us),
            ..*self
        }
    }
}

/// What one look has counted.
#[derive(Default)]
struct Whole {
    all: Count,
    running: u32,
    transactions: u32,
    idle_transactions: u32,
    pinned: u32,
    users: BTreeMap<String, Count>,
}

impl Transactions {
    fn add(&mut self, open: &Open) {
        self.count += 1;
        self.idle += u64::from(open.idle >= THINKS_FROM);
        self.idle_1s += u64::from(open.idle >= 1_000_000);
        self.idle_10s += u64::from(open.idle >= 10_000_000);
        self.idle_1m += u64::from(open.idle >= 60_000_000);
        self.longest = self.longest.max(open.age);
        self.longest_idle = self.longest_idle.max(open.idle);
    }
}

impl Refused {
    /// From the line of the log: `login of "USER" from ADDRESS refused: WHAT THE CLIENT HEARS; WHY`. Anybody may have chosen the
    /// name. Quotes and backslashes in it stand behind a backslash, so that it ends at the first quote that does not; what the
    /// client hears may hold it again.
    fn parse(line: &str) -> Option<Self> {
        let (user, rest) = until_quote(line.strip_prefix("login of \"")?)?;
        let (from, why) = rest.strip_prefix(" from ")?.split_once(" refused: ")?;
        // Each connection has a port of its own.
        let host = from.rsplit_once(':').map_or(from, |(host, _)| host);
        let why = if user.contains("; ") { why } else { why.split_once("; ").map_or(why, |(_, why)| why) };
        Some(Self { user: user.into(), from: host.into(), why: why.into() })
    }

    fn others() -> Self {
        Self { user: OTHERS.into(), from: String::new(), why: String::from("not told apart any more") }
    }
}

/// What stands in front of the quote that ends an escaped text, and what follows that quote.
fn until_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let (at, _) = text.char_indices().find(|&(_, sign)| {
        let ends = sign == '"' && !escaped;
        escaped = sign == '\\' && !escaped;
        ends
    })?;
    Some((&text[..at], &text[at + 1..]))
}
