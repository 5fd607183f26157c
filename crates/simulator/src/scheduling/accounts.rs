//! Clients of few and of many accounts over the places that there are for backends: how many logins the server has for its statements while
//! nothing changes.
//!
//! Once there were 7,000 logins a second for 700 statements: the need of each account had as many backends opened as the needs of all, each in
//! the place of another account's idle one. What the engine holds against that is in its `backend/pool/opening.rs`, and [`Found::bound`] follows from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use engine::Settings;

use super::scenario::{Accounts, Group, Row, ServerModel, Step, Table, Time};
use super::statement::Action;
use super::{Profile, Scenario, run};

/// Clients that read a row again and again, and their accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// How many clients.
    pub clients: u32,
    /// As whom they log in: as accounts that the server has for this.
    pub accounts: Accounts,
    /// They pause between two reads, [`PAUSE`] on average.
    pub pauses: bool,
    /// Workers of the pool.
    pub workers: u32,
}

/// What came of a case, in the time in which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The case.
    pub case: Case,
    /// The seed, which decides who has which account.
    pub seed: u64,
    /// Statements that began on the server.
    pub statements: u64,
    /// Connections that logged in there.
    pub opened: u64,
    /// Connections that changed their account there.
    pub changed: u64,
}

/// Places for backends: the first number where no other is given, and fewer than many accounts need.
pub const BACKENDS: u32 = 128;

/// As many as in docs/BENCHMARKS.md, "Accounts that fit".
const ACCOUNTS: [u32; 5] = [1, 10, 47, 100, 1_000];

/// How many clients, fewer than places and more; whether they pause; and how many workers.
const KINDS: [(u32, bool, u32); 6] =
    [(64, false, 1), (64, false, 2), (64, true, 2), (2_000, false, 1), (2_000, false, 2), (2_000, true, 2)];

/// 64 clients that pause for as long ask for 640 statements a second, which leaves almost all of the server to logins; 2,000 for as many as it can do.
pub const PAUSE: Time = Time::about(100_000);

/// The engine's own figure (`backend/pool/opening.rs`): what a place has to bring, in logins, before it changes hands.
const WORTH: u64 = 4;

/// A point select on a core of the server.
const READ: Time = Time::about(100);

/// All clients have sent their first statement after a tenth of this. The rest is for the limit to find itself, and for the backends that come by and by.
const WARM_UP: Duration = Duration::from_secs(1);

fn all_accounts() -> Vec<Accounts> {
    // Of one account there is nothing to draw.
    let drawn = ACCOUNTS[1..].iter().map(|&count| Accounts::Popular(count));
    ACCOUNTS.into_iter().map(Accounts::InTurn).chain(drawn).collect()
}

impl Case {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let kinds = KINDS.into_iter();
        let case = |(clients, pauses, workers), accounts| Self { clients, accounts, pauses, workers };
        kinds.flat_map(|kind| all_accounts().into_iter().map(move |accounts| case(kind, accounts))).collect()
    }

    /// Runs it for so many seconds in which nothing changes.
    pub fn find(self, seconds: u64, seed: u64) -> Found {
        let outcome = run(&self.scenario(seconds), Profile::Native, seed).outcome;
        assert_eq!(outcome.unknown, Vec::<String>::new(), "the modelled server knows all that it is asked");
        assert_eq!(outcome.logins, u64::from(self.clients), "{self:?}: each client comes once");
        Found {
            case: self,
            seed,
            statements: outcome.begun,
            opened: outcome.server_logins,
            changed: outcome.server_changes,
        }
    }

    fn scenario(self, seconds: u64) -> Scenario {
        let read = Table { cpu: READ, wait: Time::NONE };
        let mut server = ServerModel::of_cores(2, &[read]);
        server.accounts = self.count();
        let program = vec![Step::new("read", Action::Read, 0, Row::Among(1_000))];
        let group = Group {
            accounts: self.accounts,
            think: if self.pauses { PAUSE } else { Time::NONE },
            ..Group::new("clients", self.clients, program)
        };
        Scenario {
            workers: self.workers,
            groups: vec![group],
            warm_up: WARM_UP,
            length: WARM_UP + Duration::from_secs(seconds),
            adjust: by_default,
            ..Scenario::of("accounts", "", server)
        }
    }

    /// How many clients each login has: an account of a worker, since each worker has backends of its own.
    fn clients_of_logins(self, seed: u64) -> BTreeMap<(u32, Option<u32>), u64> {
        let mut logins = BTreeMap::new();
        for client in 0..self.clients {
            // They connect in this order, and go to the workers in turn.
            *logins.entry((client % self.workers, self.accounts.of_client(seed, client))).or_default() += 1;
        }
        logins
    }

    /// How many accounts there are.
    fn count(self) -> u32 {
        match self.accounts {
            Accounts::One(_) => 1,
            Accounts::InTurn(count) | Accounts::Popular(count) => count,
        }
    }
}

impl Found {
    /// Logins of either kind for each statement.
    pub fn per_statement(&self) -> f64 {
        (self.opened + self.changed) as f64 / self.statements as f64
    }

    /// The most logins for each statement that the engine's own rules allow.
    ///
    /// - With no more clients than places, nobody lacks more backends than it has clients, and no place has to change hands. So each client
    ///   has one login made at most, however many statements it sends.
    /// - With no more logins than places (one for each account of a worker), each has a backend to wait for. It gets another one's place where
    ///   that is worth it, which keeps logins to half of the server's work: they take no more of it than statements do.
    /// - Else one that has none gets a place at once, and keeps it until the statement has run for which that was. So each statement has one
    ///   login made at most.
    /// - In the last two cases clients without pauses wait at any time. Those of an account go first on its new backend, for as long as `WORTH`
    ///   logins take. So there is one login for that many statements of an account, or for as many as it has clients.
    pub fn bound(&self) -> f64 {
        let Case { clients, pauses, .. } = self.case;
        if clients <= BACKENDS {
            return f64::from(clients) / self.statements as f64;
        }
        let (login, read) = (ServerModel::of_cores(1, &[]).login.mean(), READ.mean());
        let logins = self.case.clients_of_logins(self.seed);
        let fit = logins.len() <= BACKENDS as usize;
        let by_worth = if fit { read as f64 / login as f64 } else { 1.0 };
        if pauses {
            return by_worth;
        }
        let in_turn = logins.values().map(|&clients| clients.div_ceil(WORTH * login / read));
        by_worth.min(in_turn.sum::<u64>() as f64 / f64::from(clients))
    }
}

/// A table: a line for each number of accounts, a column for each kind of clients, and logins for each 1,000 statements with the bound in brackets.
pub fn to_markdown(found: &[Found]) -> String {
    let mut text = String::from("| accounts |");
    for (clients, pauses, workers) in KINDS {
        let (pauses, s) = (if pauses { " that pause" } else { "" }, if workers == 1 { "" } else { "s" });
        let _ = write!(text, " {clients} clients{pauses}, {workers} worker{s} |");
    }
    let _ = write!(text, "\n| --- |{}", " --- |".repeat(KINDS.len()));
    for accounts in all_accounts() {
        let (count, law) = match accounts {
            Accounts::One(_) => continue,
            Accounts::InTurn(count) => (count, ""),
            Accounts::Popular(count) => (count, " by Zipf"),
        };
        let _ = write!(text, "\n| {count}{law} |");
        // In the order of the kinds.
        for found in found.iter().filter(|found| found.case.accounts == accounts) {
            let [logins, bound] = [found.per_statement(), found.bound()].map(|each| 1_000.0 * each);
            let _ = write!(text, " {logins:.2} ({bound:.2}) |");
        }
    }
    text.push('\n');
    text
}

fn by_default(_: Profile, settings: &mut Settings) {
    (settings.permits, settings.max_backends) = (Settings::default().permits, BACKENDS);
}
