//! What follows from a watch and from the tables at its end.

use crate::differences;
use crate::pins::{Advice, advice};
use crate::table::{NoTable, Row, Source};
use crate::tables::{Backends, POOL, Tables};
use crate::tally::Tally;
use crate::watch::{Totals, Transactions, Watch};

/// Kinds of statements that a report shows, the dearest first; users; causes of a pin; examples of a difference. A screen or two each.
const MOST_KINDS: usize = 20;
const MOST_USERS: usize = 10;
const MOST_CAUSES: usize = 5;
const MOST_EXAMPLES: usize = 3;

/// What `Onramp_would_refuse_...` counts with, where an option is off: as the reference of the admin port says.
const WOULD_REFUSE_WITH: [(&str, &str); 3] =
    [("queue_wait_limit", "10s"), ("queue_delay_target", "1s"), ("long_queue_wait_limit", "1m")];

/// With fewer backends than this the rules that keep some free for others come to nothing.
const LEAST_BACKENDS: u32 = 16;

/// The report, as data.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) version: String,
    pub(crate) backends: Backends,
    /// Milliseconds since 1970.
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) looks: u64,
    pub(crate) clients: Measure,
    pub(crate) needed: Measure,
    pub(crate) running: Measure,
    pub(crate) pinned: Measure,
    pub(crate) users: Vec<User>,
    pub(crate) further_users: usize,
    pub(crate) transactions: Open,
    pub(crate) shares: Shares,
    pub(crate) pins: Vec<Pin>,
    pub(crate) bounds: Vec<Bound>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) options: Vec<Choice>,
    pub(crate) differences: Vec<Notice>,
    pub(crate) load: Load,
    /// What has to be known of the report itself.
    pub(crate) notes: Vec<String>,
}

/// A number over the time of the trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measure {
    pub(crate) max: u32,
    pub(crate) p99: u32,
    pub(crate) median: u32,
    pub(crate) mean: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) clients: Measure,
    pub(crate) needed: Measure,
    pub(crate) idle_transactions: u64,
}

/// Transactions, and what is in them beside statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    pub(crate) at_once: Measure,
    pub(crate) idle_at_once: Measure,
    /// Of the time that transactions were open, the share in which nothing ran, from 0 to 1.
    pub(crate) idle_share: f64,
    pub(crate) seen: Transactions,
}

/// Statements by where they could have run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) any: u64,
    pub(crate) transaction: u64,
    pub(crate) pinned: u64,
    pub(crate) doubtful: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) reason: String,
    pub(crate) times: u64,
    pub(crate) statements: u64,
    pub(crate) clients: u64,
    pub(crate) advice: Option<Advice>,
    pub(crate) causes: Vec<Kind>,
}

/// A kind of statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    pub(crate) digest: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) time_us: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

/// A bound that was reached, or would have been.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) option: String,
    pub(crate) value: String,
    pub(crate) reached: Reached,
    pub(crate) who: Vec<String>,
    pub(crate) what: String,
}

/// How far a bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// So often.
    Times(u64),
    /// At the worst moment it was so many backends below what was needed.
    TooFew(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) user: String,
    pub(crate) from: String,
    pub(crate) why: String,
    pub(crate) count: u64,
}

/// An option to set.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) option: String,
    pub(crate) value: String,
    pub(crate) why: String,
}

/// A difference that clients would notice.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) what: &'static str,
    pub(crate) section: &'static str,
    pub(crate) count: u64,
    pub(crate) kinds: usize,
    pub(crate) examples: Vec<Kind>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    pub(crate) statements: u64,
    pub(crate) errors: u64,
    pub(crate) kinds: u64,
    pub(crate) time_us: u64,
    /// While it was watched: statements a second, and on how many the server worked at a time. The rest is since the start of the
    /// Onramp that was watched.
    pub(crate) rate: f64,
    pub(crate) at_a_time: f64,
    pub(crate) dearest: Vec<Kind>,
}

impl Report {
    /// Of what was seen so far, with the tables as they are now.
    ///
    /// # Errors
    /// Why a table could not be had.
    pub fn of(watch: &Watch, source: &mut dyn Source, version: &str) -> Result<Self, NoTable> {
        let tables = Tables::ask(source)?;
        let watch = watch.so_far();
        let users = users(&watch);
        let mut bounds = reached(&tables);
        bounds.extend(for_want_of_backends(&watch, &tables));
        bounds.extend(held_idle(&watch, &tables));
        let mut report = Self {
            version: version.into(),
            backends: tables.backends(),
            since: watch.since,
            until: watch.until,
            looks: watch.looks,
            clients: Measure::of(&watch.clients),
            needed: Measure::of(&watch.needed),
            running: Measure::of(&watch.running),
            pinned: Measure::of(&watch.pinned),
            further_users: watch.users.len().saturating_sub(MOST_USERS),
            users,
            transactions: open(&watch),
            shares: Shares {
                any: tables.counted("Onramp_statements_multiplexed"),
                transaction: tables.counted("Onramp_statements_in_transactions"),
                pinned: tables.counted("Onramp_statements_pinned"),
                doubtful: tables.counted("Onramp_statements_doubtful"),
            },
            pins: pins(&tables),
            bounds,
            refused: refused(&watch),
            options: Vec::new(),
            differences: notices(&tables),
            load: load(&watch, &tables),
            notes: Vec::new(),
        };
        report.options = choices(&report, &tables);
        report.notes = notes(&watch, &tables);
        Ok(report)
    }

    /// How long was watched, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.until.saturating_sub(self.since) as f64 / 1e3
    }

    /// The most important of it, in a sentence.
    pub(crate) fn headline(&self) -> String {
        let s = |count: u32| if count == 1 { "" } else { "s" };
        format!(
            "{} backend{} {} for {} client{}",
            self.needed.max,
            s(self.needed.max),
            match self.backends {
                Backends::Own => "would have done",
                Backends::Pool if self.needed.max == 1 => "was needed",
                Backends::Pool => "were needed",
            },
            self.clients.max,
            s(self.clients.max)
        )
    }
}

impl Measure {
    fn of(tally: &Tally) -> Self {
        Self { max: tally.max(), p99: tally.quantile(0.99), median: tally.quantile(0.5), mean: tally.mean() }
    }
}

impl Shares {
    pub(crate) fn all(&self) -> u64 {
        self.any + self.transaction + self.pinned
    }
}

fn users(watch: &Watch) -> Vec<User> {
    let user = |(name, user): (&String, &crate::watch::User)| User {
        name: name.clone(),
        clients: Measure::of(&user.clients),
        needed: Measure::of(&user.needed),
        idle_transactions: user.seen.idle,
    };
    let mut users: Vec<User> = watch.users.iter().map(user).collect();
    users.sort_by(|one, other| other.needed.max.cmp(&one.needed.max).then_with(|| one.name.cmp(&other.name)));
    users.truncate(MOST_USERS);
    users
}

fn open(watch: &Watch) -> Open {
    let (open, idle) = (watch.transactions.mean(), watch.idle_transactions.mean());
    Open {
        at_once: Measure::of(&watch.transactions),
        idle_at_once: Measure::of(&watch.idle_transactions),
        idle_share: if open > 0.0 { idle / open } else { 0.0 },
        seen: watch.seen.clone(),
    }
}

fn kind(row: Row<'_>) -> Kind {
    Kind {
        digest: row.text("digest").map(String::from),
        text: row.text("text").map(String::from),
        count: row.optional("count").unwrap_or_else(|| row.number("times")),
        errors: row.number("errors"),
        time_us: row.number("time_us"),
        p50_us: row.number("p50_us"),
        p99_us: row.number("p99_us"),
    }
}

fn pins(tables: &Tables) -> Vec<Pin> {
    let pin = |row: Row<'_>| {
        let reason = row.text("reason")?;
        let advice = advice(reason);
        let causes = tables.causes.rows().filter(|cause| cause.text("reason") == Some(reason));
        Some(Pin {
            reason: reason.into(),
            times: row.number("times"),
            statements: row.number("statements"),
            clients: row.number("clients"),
            advice,
            causes: causes.take(MOST_CAUSES).map(kind).collect(),
        })
    };
    // Under this one stands what holds for everybody in a trial.
    let is_real = |pin: &Pin| pin.reason != "thread_handling" && pin.times > 0;
    tables.pins.rows().filter_map(pin).filter(is_real).collect()
}

/// Bounds that were reached in the trial itself, and those that are off and would have been.
fn reached(tables: &Tables) -> Vec<Bound> {
    let limit = |row: Row<'_>| Bound {
        option: row.text("option").unwrap_or_default().into(),
        value: row.text("bound").unwrap_or("none").into(),
        reached: Reached::Times(row.number("reached")),
        who: Vec::new(),
        what: format!(
            "was reached{} ({}, in {})",
            tables.backends().word(" in the trial too", ""),
            row.text("bounds").unwrap_or_default(),
            row.text("unit").unwrap_or("things")
        ),
    };
    let would = |(name, &count): (&String, &u64)| {
        let option = name.strip_prefix("Onramp_would_refuse_")?;
        let value = WOULD_REFUSE_WITH.iter().find(|(name, _)| *name == option)?.1;
        (count > 0).then(|| Bound {
            option: option.into(),
            value: value.into(),
            reached: Reached::Times(count),
            who: Vec::new(),
            what: String::from("is off; with this it would have refused statements"),
        })
    };
    tables.limits.rows().map(limit).chain(tables.status.iter().filter_map(would)).collect()
}

/// What the bounds on backends would have kept waiting, where they are numbers.
fn for_want_of_backends(watch: &Watch, tables: &Tables) -> Vec<Bound> {
    let Some(most) = u32::try_from(tables.option("max_backends")).ok().filter(|&most| most > 0) else {
        return Vec::new();
    };
    let mut bounds = Vec::new();
    let above = watch.needed.above(most);
    if above > 0.0 {
        bounds.push(Bound {
            option: String::from("max_backends"),
            value: most.to_string(),
            reached: Reached::TooFew(watch.needed.max() - most),
            who: Vec::new(),
            what: format!(
                "{} statements wait for {:.1} % of the time; error 1040 behind backend_connect_timeout",
                tables.backends().word("would have had", "had"),
                100.0 * above
            ),
        });
    }
    let share = tables.option("user_backends_share").clamp(1, 100);
    let users_most = u32::try_from(u64::from(most) * share / 100).unwrap_or(most).max(1);
    let over: Vec<_> =
        watch.users.iter().filter(|(_, user)| share < 100 && user.needed.max() > users_most).collect();
    if let Some(worst) = over.iter().map(|(_, user)| user.needed.max()).max() {
        bounds.push(Bound {
            option: String::from("user_backends_share"),
            value: share.to_string(),
            reached: Reached::TooFew(worst - users_most),
            who: over.iter().take(MOST_USERS).map(|(name, _)| (*name).clone()).collect(),
            what: format!(
                "{} new work of a user wait beyond {users_most} backends; error 1205 then",
                tables.backends().word("would have had", "had")
            ),
        });
    }
    bounds
}

/// Transactions that stood idle for longer than options would have let them.
fn held_idle(watch: &Watch, tables: &Tables) -> Vec<Bound> {
    let bound = |option: &str, value: &str, of: fn(&Transactions) -> u64, what: &str| {
        let users = watch.users.iter().filter(|(_, user)| of(&user.seen) > 0);
        let who = users.take(MOST_USERS).map(|(name, _)| name.clone()).collect();
        let count = of(&watch.seen);
        let (option, value, what) = (option.into(), value.into(), what.into());
        (count > 0).then_some(Bound { option, value, reached: Reached::Times(count), who, what })
    };
    let off = "is off; with this it would have ended transactions in which nothing ran";
    let is_off = |_: &Bound| !tables.ends_idle_transactions();
    let scarce = "with this they are ended, but only while others wait for a backend and there is none";
    [
        bound("idle_transaction_timeout", "1s", |seen| seen.idle_1s, off).filter(is_off),
        bound("idle_transaction_timeout", "10s", |seen| seen.idle_10s, off).filter(is_off),
        bound("idle_hold_timeout", "1m", |seen| seen.idle_1m, scarce),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn refused(watch: &Watch) -> Vec<Refused> {
    let refused = |(who, &count): (&crate::watch::Refused, &u64)| Refused {
        user: who.user.clone(),
        from: who.from.clone(),
        why: who.why.clone(),
        count,
    };
    let mut all: Vec<Refused> = watch.refused.iter().map(refused).collect();
    all.sort_by_key(|refused| std::cmp::Reverse(refused.count));
    all
}

fn notices(tables: &Tables) -> Vec<Notice> {
    let mut found: [Vec<Kind>; differences::ALL.len()] = Default::default();
    for row in tables.statements.rows() {
        // Each text is cut into words once, and held against all of them.
        let words = differences::words(row.text("text").unwrap_or_default());
        let all = differences::ALL.iter().zip(&mut found);
        all.filter(|(difference, _)| difference.is_in(&words)).for_each(|(_, found)| found.push(kind(row)));
    }
    let mut notices: Vec<Notice> = Vec::new();
    for (difference, found) in differences::ALL.iter().zip(found) {
        let count = found.iter().map(|kind| kind.count).sum();
        let kinds = found.len();
        match notices.iter_mut().find(|notice| notice.what == difference.what) {
            _ if kinds == 0 => {}
            Some(notice) => {
                notice.count += count;
                notice.kinds += kinds;
                notice.examples.extend(found);
                // As they are found of each, and for the same reason.
                notice.examples.sort_by_key(|kind| std::cmp::Reverse(kind.time_us));
                notice.examples.truncate(MOST_EXAMPLES);
            }
            None => notices.push(Notice {
                what: difference.what,
                section: difference.section,
                count,
                kinds,
                examples: found.into_iter().take(MOST_EXAMPLES).collect(),
            }),
        }
    }
    notices
}

fn load(watch: &Watch, tables: &Tables) -> Load {
    let Some(totals) = tables.totals.rows().next() else { return Load::default() };
    let first = watch.first.unwrap_or_default();
    let watched = Totals::of(&tables.totals, watch.until).since(&first);
    // At least a millisecond, as between looks.
    let seconds = (watch.until.saturating_sub(first.at).max(1)) as f64 / 1e3;
    Load {
        rate: watched.statements as f64 / seconds,
        at_a_time: watched.time_us as f64 / 1e6 / seconds,
        statements: totals.number("count"),
        errors: totals.number("errors"),
        kinds: totals.number("kinds"),
        time_us: totals.number("time_us"),
        dearest: tables.statements.rows().take(MOST_KINDS).map(kind).collect(),
    }
}

/// The options to set, each with its reason.
fn choices(report: &Report, tables: &Tables) -> Vec<Choice> {
    let choice = |option: &str, value: String, why: String| Choice { option: option.into(), value, why };
    let mut choices = Vec::new();
    if report.backends == Backends::Own {
        let why = format!("the default: {} at a time", report.headline());
        choices.push(choice("thread_handling", String::from(POOL), why));
    }
    // A quarter more than was seen, since a trial is short.
    let enough = (report.needed.max + report.needed.max.div_ceil(4)).max(LEAST_BACKENDS);
    choices.push(match tables.option("max_backends") {
        0 => choice(
            "max_backends",
            String::from("0"),
            format!(
                "the default, as many as the server allows; where its connections are scarce, {enough} {} enough for all that \
                 was seen, with a quarter to spare",
                report.backends.word("would have been", "are")
            ),
        ),
        set => choice(
            "max_backends",
            enough.max(u32::try_from(set).unwrap_or(u32::MAX)).to_string(),
            format!("{} were needed at most; it is {set}", report.needed.max),
        ),
    });
    if report.transactions.seen.idle_10s > 0 && !tables.ends_idle_transactions() {
        choices.push(choice(
            "idle_transaction_timeout",
            String::from("1m"),
            format!(
                "transactions stand open with nothing running, {} for more than ten seconds: each keeps its locks, and a \
                 backend",
                report.transactions.seen.idle_10s
            ),
        ));
    }
    for bound in reached(tables).iter().filter(|bound| bound.value != "none") {
        let known = choices.iter().any(|choice| choice.option == bound.option);
        if !known && !bound.option.starts_with("queue") && !bound.option.starts_with("long_queue") {
            let why = format!("it was reached {} at {}", bound.reached, bound.value);
            choices.push(choice(&bound.option, String::from("more"), why));
        }
    }
    choices
}

fn notes(watch: &Watch, tables: &Tables) -> Vec<String> {
    let mut notes = vec![
        String::from(
            "Counts of pins, statements and limits are since the start of the Onramp that was watched.",
        ),
        format!(
            "Clients were looked at {} times; a moment between two looks in which more of them needed a backend has not been \
             seen.",
            watch.looks
        ),
        match tables.backends() {
            Backends::Pool => String::from(
                "This Onramp has a pool already: who waited in a queue counts as one who needed a backend, and what limits have \
                 refused they did refuse.",
            ),
            Backends::Own => String::from(
                "In a trial no statement waits: queue_limit, queue_wait_limit, queue_delay_target and those of the long lane have \
                 had nothing to refuse. Behind the pool, onramp_would_refuse_total counts what they would.",
            ),
        },
    ];
    if watch.missed > 0 {
        notes.push(format!("{} looks could not be taken in time.", watch.missed));
    }
    if tables.counted("Onramp_stored_code_unreadable") > 0 {
        notes.push(String::from(
            "The service account may not read all stored code: what triggers, functions and views leave behind is not in this \
             report (docs/ACCOUNTS.md, \"Stored code\").",
        ));
    }
    notes
}
