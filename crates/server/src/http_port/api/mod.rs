//! What the page asks for, as JSON: how things stand with what the history keeps, once a second, and the tables of who and what, more
//! seldom. All answers are bounded, whatever the number of clients: the first few of each kind are found here.

mod crowd;
mod digests;
mod locks;
mod pins;
mod query;
mod standing;
mod top;

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use seam::Signal;
use serde_json::{Value, json};
use web::{Answer, ContentType, Request};

use super::health;
use crate::ask::{Ask, Look, Sight};
use crate::control::glance::Glances;
use crate::history::together::Together;
use crate::history::{History, Span, millis, notes};
use crate::kinds::Kinds;
use crowd::{Crowd, Filter};

/// Digests are compared over so long, where nobody says since when.
const LATELY: u64 = 600_000;

/// The tables serve everybody who wants the same of them for so long.
const KEPT: Duration = Duration::from_secs(2);

/// They take a fifth of the workers' time at most, and of ours: after a look, four times as long passes until the next.
const PAUSES: u32 = 4;

/// Whoever wants others than have been made lately waits; as many kinds of them are kept. A few people look at a time.
const KINDS_KEPT: usize = 8;

/// Answers what is under /api/.
pub(super) struct Api {
    glances: Arc<Glances>,
    history: Arc<History>,
    tables: Mutex<Tables>,
}

/// Tables that were made lately.
struct Tables {
    made: VecDeque<(Wanted, Instant, Arc<str>)>,
    /// Before that there is no further look.
    next: Instant,
}

/// Which tables are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    filter: Filter,
    /// A window for digests, in milliseconds since 1970; none for the last ten minutes.
    window: Option<(u64, u64)>,
}

impl Api {
    pub(super) fn new(glances: Arc<Glances>, history: Arc<History>) -> Self {
        let tables = Tables { made: VecDeque::new(), next: Instant::now() };
        Self { glances, history, tables: Mutex::new(tables) }
    }

    /// `/api/now?span=minutes&since=0`: how things stand, and the samples later than `since`, in milliseconds since 1970; `span` is
    /// `minutes` or `day`.
    pub(super) fn now(&self, request: &Request) -> Answer {
        let span = match query::value(&request.query, "span").as_deref() {
            Some("day") => Span::Day,
            _ => Span::Minutes,
        };
        let since = query::number(&request.query, "since").unwrap_or(0);
        let control = &self.glances.control;
        let glance = self.glances.now();
        let together = Together::of(control, &glance);
        let refused = self.history.refused();
        let notes = notes::of(control, &together, &glance.silent, refused);
        let notes: Vec<_> = notes.iter().map(notes::Note::json).collect();
        let state = json!({
            "version": env!("CARGO_PKG_VERSION"), "at": millis(UNIX_EPOCH.elapsed().unwrap_or_default()),
            "seen": millis(glance.at), "began": millis(control.began), "live": health::is_live(control, &glance),
            "ready": health::is_ready(control, &glance), "draining": control.is_ending(), "paused": together.paused,
            "server_up": together.server_is_up, "reloaded": control.reloaded(), "server": notes::server(control),
            "clients": together.clients, "transactions": together.transactions, "pinned": together.holders.pinned,
            "notes": notes,
        });
        let mut text = state.to_string();
        text.truncate(text.len() - 1);
        // Writing to a String does not fail.
        let _ =
            write!(text, ",\"span\":\"{}\",\"series\":", if span == Span::Day { "day" } else { "minutes" });
        self.history.write(span, since, &mut text);
        text.push('}');
        Answer::of(ContentType::Json, text.into_bytes())
    }

    /// `/api/tables?q=&from=&to=`: who and what. `q` is a text that rows of clients and digests have in them; `from` and `to`, in
    /// milliseconds since 1970, are the minutes of which digests are told.
    pub(super) fn tables(&self, request: &Request) -> Answer {
        let number = |name| query::number(&request.query, name);
        let wanted = Wanted {
            filter: Filter::new(&query::value(&request.query, "q").unwrap_or_default()),
            window: number("from").zip(number("to")),
        };
        let mut tables = match self.tables.try_lock() {
            Ok(tables) => tables,
            Err(TryLockError::Poisoned(tables)) => tables.into_inner(),
            Err(TryLockError::WouldBlock) => return busy(),
        };
        let made = tables.made.iter().find(|(of, when, _)| *of == wanted && when.elapsed() < KEPT);
        if let Some((.., text)) = made {
            return json_of(text);
        }
        let begun = Instant::now();
        if begun < tables.next {
            return busy();
        }
        let text: Arc<str> = self.look(&wanted).to_string().into();
        tables.next = Instant::now() + PAUSES * begun.elapsed();
        tables.made.retain(|(of, ..)| *of != wanted);
        if tables.made.len() == KINDS_KEPT {
            tables.made.pop_front();
        }
        tables.made.push_back((wanted, Instant::now(), Arc::clone(&text)));
        json_of(&text)
    }

    fn look(&self, wanted: &Wanted) -> Value {
        let control = &self.glances.control;
        let begun = Instant::now();
        let what = Look { busy_clients: true, digests: true, pins: true, ..Look::default() };
        let mut answers = control.ask(Signal::Look, |answer| Ask::Look { what, answer });
        let mut crowd = Crowd::new(wanted.filter.clone());
        let (mut kinds, mut reports) = (Kinds::default(), Vec::new());
        while let Some((_, sight)) = answers.next() {
            match sight {
                Sight::Whole(whole) => reports.extend(whole.pins),
                Sight::Clients(clients) => clients.iter().for_each(|client| crowd.put(client)),
                Sight::Digests(digests) => digests.into_iter().for_each(|kind| kinds.add(kind)),
                _ => {}
            }
        }
        let at = millis(UNIX_EPOCH.elapsed().unwrap_or_default());
        let (from, to) = wanted.window.unwrap_or((at.saturating_sub(LATELY), at));
        let digests =
            digests::json(&kinds, &self.history, &wanted.filter, (from, to), wanted.window.is_none());
        let pins = pins::json(&crowd.pins, reports.iter());
        let glance = self.glances.now();
        let together = Together::of(control, &glance);
        let mut tables = json!({
            "at": at, "from": from, "to": to, "missing": answers.missing(),
            "crowd": crowd.json(), "digests": digests, "pins": pins, "events": standing::events(control),
            "options": standing::options(control), "limits": standing::limits(&together.limits, &glance),
            "workers": standing::workers(control, &glance), "server": standing::server(control, &together),
            "logins": standing::logins(control, &together),
        });
        let mut named = HashSet::new();
        digests_in(&tables["crowd"], &mut named);
        tables["texts"] = digests::texts(&kinds, &named);
        tables["took_us"] = json!(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        tables
    }
}

/// The names of digests anywhere in it.
fn digests_in(value: &Value, into: &mut HashSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| digests_in(one, into)),
        Value::Object(all) => {
            if let Some(Value::String(name)) = all.get("digest") {
                into.insert(name.clone());
            }
            all.values().for_each(|one| digests_in(one, into));
        }
        _ => {}
    }
}

fn json_of(text: &str) -> Answer {
    Answer::of(ContentType::Json, text.as_bytes().to_vec())
}

/// Another look is under way, or has just been.
fn busy() -> Answer {
    Answer::line(503, "others are being looked at: ask again in a second")
}
