//! The accounts of a run: which there are, and how clients choose among them.

use crate::faults::SERVICE_PASSWORD;
use crate::random::Random;
use crate::server::SERVICE_USER;
use crate::server::database::Account;

/// Mixed into the seed, so that all else of a run stays as it was. None of the seeds in `seeds` has more accounts by it.
const OF_ACCOUNTS: u64 = 0x2ee0;

/// How many accounts there are, and how clients choose one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountParameters {
    /// So many beside the three that there are in each run.
    pub more: u32,
    /// Account, schema and character set are chosen by Zipf's law, else each as often as any other.
    pub by_zipf: bool,
    /// In so many of 100 logins a capability is missing that the others have, so that they share no backend with these.
    pub unlike_percent: u64,
}

impl AccountParameters {
    /// What this seed decides: in most runs there are three accounts, each chosen as often as another.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ OF_ACCOUNTS);
        if !random.percent(25) {
            return Self::default();
        }
        // More than there are places for backends, in many runs, and than there are clients in the last two.
        let more = *random.pick(&[2, 7, 20, 44]);
        Self { more, by_zipf: random.percent(60), unlike_percent: *random.pick(&[0, 0, 10, 50]) }
    }

    /// The accounts on the server: the service account comes last.
    pub fn on_server(self) -> Vec<Account> {
        let mut all = self.of_clients();
        all.push(account(SERVICE_USER, SERVICE_PASSWORD));
        all
    }

    /// Those that clients have, in the order in which Zipf's law has them.
    fn of_clients(self) -> Vec<Account> {
        let usual = [("alice", "secret"), ("bob", ""), ("carol", "pass word")];
        let more =
            (0..self.more).map(|number| account(&format!("user{number}"), &format!("secret {number}")));
        usual.into_iter().map(|(user, password)| account(user, password)).chain(more).collect()
    }
}

fn account(user: &str, password: &str) -> Account {
    Account { user: user.to_owned(), password: password.to_owned(), may_kill: user == SERVICE_USER }
}

/// What a client chooses from as it logs in.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The accounts that it may have.
    pub accounts: Vec<Account>,
    drawn: AccountParameters,
}

impl Choices {
    /// All accounts of a run, or the first alone.
    pub fn new(drawn: AccountParameters, first_alone: bool) -> Self {
        let mut accounts = drawn.of_clients();
        if first_alone {
            accounts.truncate(1);
        }
        Self { accounts, drawn }
    }

    /// One of these.
    pub fn pick<'a, T>(&self, from: &'a [T], random: &mut Random) -> &'a T {
        if self.drawn.by_zipf { &from[random.zipf(from.len())] } else { random.pick(from) }
    }

    /// Draws whether this login lacks a capability.
    pub fn is_unlike(&self, random: &mut Random) -> bool {
        self.drawn.unlike_percent > 0 && random.percent(self.drawn.unlike_percent)
    }
}
