//! A copy of a server's accounts has come, and with it what the server is.

use seam::Instant;

use crate::accounts::copy::ReadAccounts;
use crate::ids::{BackendKey, ServerKey};
use crate::logins::Logins;
use crate::servers::Servers;
use crate::session::SessionTables;

/// Changes that a fresh copy of the accounts has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// True where the server has come back, or is known for the first time.
    pub(crate) is_found: bool,
    /// True where the server is another one than before.
    pub(crate) is_another: bool,
    /// True where the server is not of the kind that clients were greeted as.
    pub(crate) disappoints: bool,
}

/// A copy of a server's accounts, and those who are known by the former one.
pub(crate) struct FreshAccounts<'a> {
    pub(crate) now: Instant,
    pub(crate) logins: &'a mut Logins,
    pub(crate) sessions: &'a mut SessionTables,
    pub(crate) servers: &'a mut Servers,
}

impl FreshAccounts<'_> {
    /// Takes what has come.
    pub(crate) fn take(&mut self, key: ServerKey, read: ReadAccounts) -> Fresh {
        let server = &mut self.servers[key];
        let fresh = server.pending_facts.take();
        let is_found = fresh.is_some();
        let before = fresh.and_then(|fresh| server.facts.replace(fresh));
        if is_found {
            // Not at the login: a server of which too little may be read would be tried again and again without a pause.
            server.reachability.answered();
            self.sessions.known_answers.clear(&mut self.sessions.states);
        }
        self.logins.identities.compare(&read.accounts);
        server.control.accounts_seen = read.answer;
        server.facts.as_mut().expect("set above or earlier").accounts = read.accounts;
        let both = before.as_ref().zip(server.facts.as_ref());
        Fresh {
            is_found,
            is_another: both.is_some_and(|(before, facts)| before.is_another(facts)),
            disappoints: both.is_some_and(|(before, facts)| before.disappoints_clients(facts)),
        }
    }

    /// Notes that the present copy is as good as a new one. Returns the backends that no longer have the rights that they had.
    pub(crate) fn are_fresh(&mut self, key: ServerKey) -> Vec<BackendKey> {
        let server = &mut self.servers[key];
        let took = self.now.since(server.control.since);
        server.control.copies.came(self.now, took);
        server.judge_rights(self.now, &self.logins.identities)
    }
}

#[cfg(test)]
mod tests {
    use sql::ServerKind;

    use super::*;
    use crate::accounts::copy::AccountRows;
    use crate::client::commands::command::tests::engine;
    use crate::server::control::facts::Facts;
    use crate::server::login::Established;
    use crate::settings::Settings;

    #[test]
    fn a_copy_of_the_accounts_says_what_has_changed_of_the_server() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let mut fresh = |version: Option<&str>| {
            engine.servers[server].pending_facts = version
                .map(|version| Facts::new(&Established::of_test(version, wire::Capabilities(u64::MAX))));
            let (now, logins, sessions) = (engine.now, &mut engine.logins, &mut engine.sessions);
            FreshAccounts { now, logins, sessions, servers: &mut engine.servers }
                .take(server, AccountRows { answer: Vec::new(), server: ServerKind::MariaDb }.read())
        };
        assert_eq!(fresh(None), Fresh::default(), "it is the same as before");
        let same = Fresh { is_found: true, ..Fresh::default() };
        assert_eq!(fresh(Some("11.4-MariaDB")), same);
        assert_eq!(fresh(Some("8.0.36")), Fresh { is_another: true, disappoints: true, ..same });
    }
}
