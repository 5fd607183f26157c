//! A backend logs in: the server's messages until statements may run on it, and the knowledge of the server that follows.

use seam::Instant;

use crate::accounts::task::{Asker, Finding, Work};
use crate::backend::from_server::own_answers::rows_of;
use crate::backend::login::refused::ServerRefusal;
use crate::backend::to_server::own_statement::TRACKERS_ON;
use crate::backend::{Backend, Summary};
use crate::ids::{BackendKey, ServerKey};
use crate::io::Io;
use crate::logins::Logins;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::server::Server;
use crate::server::control::facts::Facts;
use crate::server::login::{Established, LoginOutcome};
use crate::servers::Servers;
use crate::settings::Settings;

/// ER_ACCESS_DENIED_ERROR: a client must not get another account's rights.
const ANOTHER_ACCOUNT: u16 = 1045;

/// The next step of a backend's login, by the server's latest message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::backend) enum LoginStep {
    /// Nothing to do for now.
    GoesOn,
    /// The login is over. The server is asked this next. So many results come before the one that counts.
    Asks(String, u8),
    /// The server is not the known one but another, of this version.
    AnotherServer(String),
    /// The server refuses the login, or would have to get the password and does not.
    Refused(ServerRefusal),
    /// The server broke the protocol, as the text says.
    Broken(String),
}

impl Server {
    /// Takes a backend's password that has been encrypted for the server.
    pub(crate) fn backend_finding(&mut self, key: BackendKey, finding: Finding) {
        let Finding::Encrypted(bytes) = finding else { return };
        let backend = &mut self.backends[key];
        if let Some((login, out)) = backend.login() {
            login.encrypted(bytes.as_deref(), out);
            self.mark_dirty(key);
        }
    }

    /// Returns the text behind a login, and the number of results before the one that counts. The text turns the trackers on. Then it asks for
    /// the account that the server takes us for, since the server sees our address and not the client's, and for a role of that account.
    fn setup(&self, settings: &Settings) -> (String, u8) {
        let facts = self.facts.as_ref();
        let has_trackers = facts.is_some_and(Facts::has_trackers);
        let who = if facts.is_some_and(Facts::is_mariadb) || !has_trackers {
            "CURRENT_USER()"
        } else {
            // A MySQL server that maps proxy users (check_proxy_users) tells their own account here, in quotes.
            "IFNULL(REPLACE(@@proxy_user,0x27,''),CURRENT_USER())"
        };
        let asks = settings.change_accounts && facts.is_some_and(Facts::has_roles);
        let role = if asks { ",CURRENT_ROLE()" } else { "" };
        let (ahead, skipped) = if has_trackers { (&*format!("{TRACKERS_ON};"), 1) } else { ("", 0) };
        (format!("{ahead}SELECT {who}{role}"), skipped)
    }
}

/// Backends that log in, and the parts that take in the servers' messages.
pub(in crate::backend) struct LoggingIn<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) settings: &'a Settings,
    pub(in crate::backend) pool: &'a Pool,
    pub(in crate::backend) logins: &'a mut Logins,
    pub(in crate::backend) servers: &'a mut Servers,
    pub(super) views: &'a mut Views,
    pub(in crate::backend) io: &'a mut Io,
}

impl LoggingIn<'_> {
    /// Takes the server's bytes for a backend that is logging in.
    pub(in crate::backend) fn read(&mut self, key: BackendKey, bytes: &[u8]) -> LoginStep {
        let backend = &mut self.servers[key];
        let Some((login, out)) = backend.login() else { return LoginStep::GoesOn };
        let outcome = match login.read(bytes, out) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                self.servers.of_mut(key).mark_dirty(key);
                return LoginStep::GoesOn;
            }
            Err(error) => return LoginStep::Broken(format!("its login broke the protocol: {error}")),
        };
        let greeted = login.found().cloned();
        let found = match &outcome {
            LoginOutcome::Established(established) => Some(established),
            // Another server may not know the account, or not by this method.
            LoginOutcome::Refused { .. } | LoginOutcome::Withheld(_) => greeted.as_ref(),
            LoginOutcome::StartTls | LoginOutcome::Encrypt { .. } => None,
        };
        if let Some(version) = found.and_then(|found| self.servers.of(key).is_replaced_by(found)) {
            return LoginStep::AnotherServer(version);
        }
        match outcome {
            LoginOutcome::Established(established) => self.is_in(key, established),
            LoginOutcome::Encrypt { bytes, public_key } => {
                let asker = Asker::Backend(self.servers[key].token);
                self.io.tasks.give(asker, Work::Encrypt { bytes, public_key }, None);
                LoginStep::GoesOn
            }
            LoginOutcome::StartTls => {
                let backend = &mut self.servers[key];
                let (connection, out) = (backend.connection, std::mem::take(&mut backend.out));
                let connection = connection.expect("its bytes have just come");
                self.servers.of(key).start_tls(self.settings, self.io, connection, &out);
                LoginStep::GoesOn
            }
            LoginOutcome::Refused { code, message } => LoginStep::Refused(ServerRefusal {
                code,
                message: String::from_utf8_lossy(&message).into_owned(),
            }),
            LoginOutcome::Withheld(why) => {
                let user = &self.logins.identities.identity(self.servers[key].account.identity()).user;
                if let Some(event) = self.servers.of_mut(key).note_withheld(self.now, user, why) {
                    self.views.event(event);
                }
                LoginStep::Refused(ServerRefusal { code: why.code(), message: why.message().to_owned() })
            }
        }
    }

    /// Notes that the server has let a backend in.
    fn is_in(&mut self, key: BackendKey, established: Established) -> LoginStep {
        let server = self.servers.of_mut(key);
        let backend = &mut server.backends[key];
        backend.login.thread_id = established.thread_id;
        self.pool.workers.serving.add(established.thread_id, &backend.shown.serves);
        backend.login.capabilities = established.capabilities;
        backend.state.set_up();
        let connection = backend.connection.expect("its bytes have just come");
        self.io.start_server_compression(connection, established.capabilities);
        backend.login.established = Some(established);
        server.reachability.answered();
        let (text, skipped) = server.setup(self.settings);
        LoginStep::Asks(text, skipped)
    }

    /// Takes the answer to the questions behind the login.
    ///
    /// # Errors
    ///
    /// Where the server refuses the questions, or the backend would have other rights than its account.
    pub(super) fn take_setup(&mut self, key: BackendKey, summary: &Summary) -> Result<(), ServerRefusal> {
        if let Some(error) = &summary.error {
            let message = String::from_utf8_lossy(&error.message).into_owned();
            return Err(ServerRefusal { code: error.code, message });
        }
        let row = rows_of(&summary.kept_answer).into_iter().next().unwrap_or_default();
        let mut fields = row.into_iter();
        let found = fields.next().flatten().unwrap_or_default();
        if self.note_role(key, fields.next()) && self.servers[key].is_changing() {
            let message = String::from("it has a role, which may be the former account's");
            return Err(ServerRefusal { code: 0, message });
        }
        let backend = &self.servers[key];
        let account = &self.logins.identities.identity(backend.account.identity()).account;
        let expected = [account.user.as_slice(), b"@", account.host.as_bytes()].concat();
        if found.eq_ignore_ascii_case(&expected) {
            return Ok(());
        }
        let message = format!(
            "the client's account is {}, but for a connection from Onramp the server chooses {}: give both the \
             same rights by using one account whose host covers both",
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(&found)
        );
        Err(ServerRefusal { code: ANOTHER_ACCOUNT, message })
    }

    /// Notes a backend's answer about its role, where it was asked. True where it has one.
    fn note_role(&mut self, key: BackendKey, answer: Option<Option<Vec<u8>>>) -> bool {
        // MySQL's word for none; MariaDB says NULL.
        let is_role = |role: Vec<u8>| !role.is_empty() && role != b"NONE";
        let has_roles = self.servers.of(key).facts.as_ref().is_some_and(Facts::has_roles);
        let backend = &mut self.servers[key];
        let has_role = answer.map(|role| role.is_some_and(is_role));
        backend.login.has_no_role = has_role.map_or(!has_roles, |has_role| !has_role);
        if let Some(has_role) = has_role {
            self.logins.identities.note_role(backend.account.identity(), has_role);
        }
        has_role == Some(true)
    }

    /// Notes that statements may run on a backend from now on.
    pub(in crate::backend) fn ready(&mut self, key: BackendKey) {
        let server = self.servers.of_mut(key);
        let changed = server.backends[key].is_changing();
        if changed {
            server.opening.failed_changes.one_worked();
        } else {
            server.full = None;
        }
        let backend = &mut server.backends[key];
        let identity = backend.account.identity();
        self.logins.identities.has_one_more(identity, self.now);
        let full_accounts = &self.pool.workers.users.full_accounts;
        if full_accounts.any() {
            full_accounts.has_one_more(&self.logins.identities.name(identity), self.pool.worker);
        }
        backend.account.held_since = self.now;
        backend.state.be_ready();
        backend.session.trackers = true;
        let took = self.now.since(backend.since);
        server.opening.took(took, changed);
        if !changed {
            self.views.measures.backend_connects.record(took);
        }
        let until = server.affinity_ends(self.now, changed);
        server.backends[key].opened.affinity_until = until;
    }

    /// Returns the backends that have taken longer than `backend_connect_timeout`.
    pub(super) fn too_slow(&self) -> Vec<BackendKey> {
        let limit = self.settings.backend_connect_timeout;
        let is_over = |backend: &Backend| !backend.is_ready() && self.now.since(backend.since) > limit;
        self.servers.backends().filter(|(_, backend)| is_over(backend)).map(|(key, _)| key).collect()
    }

    /// See [`Servers::change_failed`].
    pub(in crate::backend) fn change_failed(&mut self, key: BackendKey) -> bool {
        let failed = self.servers.change_failed(self.now, key, &self.logins.identities);
        self.views.totals.failed_account_changes += u64::from(failed);
        failed
    }

    /// Notes that a server could not be reached, or hung up on a login.
    pub(in crate::backend) fn server_failed(&mut self, server: ServerKey, reason: String) {
        let server = &mut self.servers[server];
        self.views.measures.connect_failures += 1;
        let address = self.settings.server[server.reachability.address].clone();
        // Without checks the addresses are those of one server: the next address gets its turn only when nothing stands on this one.
        let is_there = |it: &Backend| !it.place.is_former() && (it.is_ready() || it.is_changing());
        let stands = server.backends.iter().any(|(_, backend)| is_there(backend));
        let next = (server.reachability.address + 1) % self.settings.server.len();
        // Among several servers the checks say which one is next.
        let next = (!stands && !self.settings.cluster.several).then_some(next);
        if server.reachability.failed(self.now, reason.clone(), next) {
            self.pool.workers.way.forget();
            self.views.event(Event::ServerLost { address, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::engine::Engine;
    use crate::workers::places::Origin;
    use wire::Capabilities;

    /// Makes an engine with a backend that has been begun.
    fn with_backend(version: &str) -> (Engine, BackendKey) {
        let mut engine = engine(1, Settings::default());
        let facts = Facts::new(&Established::of_test(version, Capabilities(u64::MAX)));
        engine.servers.primary_mut().facts = Some(facts);
        let server = engine.servers.primary().key;
        let key = open_backends(&mut engine, &[server])[0];
        (engine, key)
    }

    /// Makes an answer with a row of these fields.
    fn answer(fields: &[Option<&str>]) -> Summary {
        let (mut kept, mut sequence, mut row) = (Vec::new(), 0, Vec::new());
        let columns = [u8::try_from(fields.len()).unwrap()];
        wire::put_message(&mut kept, &mut sequence, &columns);
        for field in fields {
            wire::put_message(&mut kept, &mut sequence, b"a definition");
            match field {
                Some(field) => wire::put_lenenc_bytes(&mut row, field.as_bytes()),
                None => row.push(0xfb),
            }
        }
        wire::put_message(&mut kept, &mut sequence, &row);
        Summary { kept_answer: kept, ..Summary::default() }
    }

    #[test]
    fn who_the_server_takes_us_for_is_asked_in_its_own_words() {
        let setup = |version, settings: &Settings| {
            let (engine, _) = with_backend(version);
            engine.servers.primary().setup(settings)
        };
        let changes = Settings { change_accounts: true, ..Settings::default() };
        let (text, skipped) = setup("11.4-MariaDB", &changes);
        assert!(
            text.starts_with("SET ") && text.ends_with(";SELECT CURRENT_USER(),CURRENT_ROLE()"),
            "{text}"
        );
        assert_eq!(skipped, 1, "the answer to SET");
        let (text, _) = setup("8.0.40", &Settings { change_accounts: false, ..changes });
        assert!(text.contains("proxy_user") && !text.contains("CURRENT_ROLE"), "{text}");
    }

    #[test]
    fn a_server_that_cannot_tell_of_changes_is_asked_for_none() {
        let (mut engine, _) = with_backend("5.6.51");
        let bare = Capabilities(u64::MAX).without(Capabilities::SESSION_TRACK);
        engine.servers.primary_mut().facts = Some(Facts::new(&Established::of_test("5.6.51", bare)));
        let setup = engine.servers.primary().setup(&Settings::default());
        assert_eq!(setup, (String::from("SELECT CURRENT_USER()"), 0));
    }

    #[test]
    fn a_backend_has_the_rights_of_its_clients_and_no_others() {
        let (mut engine, key) = with_backend("11.4-MariaDB");
        let mut take = |fields: &[Option<&str>]| engine.logging_in().take_setup(key, &answer(fields));
        assert_eq!(take(&[Some("app@%"), None]), Ok(()));
        assert_eq!(take(&[Some("APP@%"), None]), Ok(()), "hosts are compared without case");
        let refused = take(&[Some("app@10.0.0.%"), None]).unwrap_err();
        assert_eq!(refused.code, 1045);
        assert!(refused.message.contains("app@%") && refused.message.contains("app@10.0.0.%"));
        assert!(take(&[]).is_err(), "it says nothing");
    }

    #[test]
    fn no_role_of_a_former_account_stays() {
        let (mut engine, key) = with_backend("8.0.40");
        let role = answer(&[Some("app@%"), Some("`admin`@`%`")]);
        assert_eq!(engine.logging_in().take_setup(key, &role), Ok(()), "a new one has its own account's");
        assert!(!engine.servers[key].login.has_no_role);
        engine.servers[key].opened.origin = Origin::Changed;
        assert!(engine.logging_in().take_setup(key, &role).is_err());
        let none = answer(&[Some("app@%"), Some("NONE")]);
        assert_eq!(engine.logging_in().take_setup(key, &none), Ok(()));
        assert!(engine.servers[key].login.has_no_role);
    }

    #[test]
    fn attempts_are_given_up_when_their_time_is_over() {
        let (mut engine, key) = with_backend("8.0.40");
        let limit = engine.settings.backend_connect_timeout;
        engine.now = engine.now + limit;
        assert!(engine.logging_in().too_slow().is_empty());
        engine.now = engine.now + Duration::from_micros(1);
        assert_eq!(engine.logging_in().too_slow(), [key]);
    }

    #[test]
    fn another_address_is_tried_where_nothing_stands_on_this_one() {
        let (mut engine, key) = with_backend("8.0.40");
        engine.settings.server.push(seam::Address::Unix("/elsewhere".into()));
        let server = key.server();
        for (stands, next) in [(false, 1), (true, 1), (false, 0)] {
            engine.servers[key].opened.origin = if stands { Origin::Changed } else { Origin::Free };
            engine.logging_in().server_failed(server, String::from("gone"));
            assert_eq!(engine.servers[server].reachability.address, next);
        }
        assert_eq!(engine.views.measures.connect_failures, 3);
    }
}
