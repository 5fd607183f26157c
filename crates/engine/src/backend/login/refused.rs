//! A server refuses a login of ours: for want of room, because of the account, or because it lets nobody in.

use std::time::Duration;

use seam::Instant;

use crate::accounts::IdentityId;
use crate::backend::login::full::{OFFLINE, SERVER_FULL, SHUTDOWN, ServerFull};
use crate::backend::pool::full_accounts::ALL_ARE_OURS;
use crate::backend::{Backend, Phase, Successor};
use crate::client::login::delegation::Unproved;
use crate::client::{Client, Phase as ClientPhase};
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ServerKey, Table};
use crate::logins::Logins;
use crate::outside::event::Event;
use crate::pool::Pool;
use crate::servers::Servers;
use crate::workers::letter::Letter;
use crate::workers::places::Origin;

/// ER_TOO_MANY_USER_CONNECTIONS: the server takes no more of this user.
const USER_FULL: u16 = 1203;

/// ER_USER_LIMIT_REACHED: a limit of the account, on connections at a time, or on its work in an hour, which nobody waits for.
const USER_LIMITED: u16 = 1226;

/// Name of the former limit in both servers (check_for_max_user_connections).
const AT_A_TIME: &str = "max_user_connections";

/// ER_ACCESS_DENIED_ERROR, and ER_ACCESS_DENIED_NO_PASSWORD_ERROR of plugins that say nothing of passwords.
const WRONG_PASSWORD: u16 = 1045;
const WRONG_PASSWORD_UNSAID: u16 = 1698;

/// A server that takes no more is left alone for this time. Connections of others end all the time, so it is short.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Pause where another worker has closed a backend so that we may open one, and the server has not noticed yet. That takes a fraction of
/// a millisecond, or longer where the server is busy.
const SOON: Duration = Duration::from_millis(20);

/// Most attempts with a granted place before it is given back: somebody else has taken it. They take a second in all, as the pause does.
const TRIES: u32 = 50;

/// Returns the SQLSTATE of an error with which a server refuses a login, by the servers' lists of errors. An error in the place of a
/// greeting comes without one.
fn state_of_refusal(code: u16) -> &'static [u8; 5] {
    match code {
        WRONG_PASSWORD | WRONG_PASSWORD_UNSAID => b"28000",
        // Also ER_DBACCESS_DENIED_ERROR and ER_BAD_DB_ERROR.
        USER_FULL | USER_LIMITED | 1044 | 1049 => b"42000",
        SERVER_FULL => b"08004",
        _ => b"HY000",
    }
}

/// A server's error in the place of a login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerRefusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl ServerRefusal {
    /// Says whether the server lets nobody in.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self.code, OFFLINE | SHUTDOWN)
    }

    /// Says whether the server takes as many of this user as it may at a time, so that room comes when one ends.
    pub(super) fn has_room_soon(&self) -> bool {
        self.code == USER_FULL || (self.code == USER_LIMITED && self.message.contains(AT_A_TIME))
    }

    /// Returns the verdict on a client's password, where the login was to find out whether it is right.
    pub(super) fn of_claim(&self, backend: &Backend) -> Unproved {
        match self.code {
            SERVER_FULL => Unproved::NotNow,
            // Once it is logged in, only the account can be the wrong one.
            WRONG_PASSWORD | WRONG_PASSWORD_UNSAID if matches!(backend.phase(), Phase::LoggingIn(_)) => {
                Unproved::Wrong
            }
            code => {
                let sql_state = state_of_refusal(code);
                Unproved::Refused(MySqlError { code, sql_state, message: self.message.clone() })
            }
        }
    }
}

impl From<ServerRefusal> for MySqlError {
    fn from(ServerRefusal { code, message }: ServerRefusal) -> Self {
        Self { code, sql_state: state_of_refusal(code), message }
    }
}

/// The reason for which a login was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The server has as many connections as it takes. The backend had got its place in this way.
    ServerIsFull(Origin),
    /// The server takes no more of this account now, or others of the account stand: those go on. The event says so, where that is news.
    NoRoom(Option<Event>),
    /// The server does not let this account in.
    Account(IdentityId),
}

/// Backends with logins that were refused, and the clients that wait for them.
pub(super) struct RefusedLogins<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) pool: &'a mut Pool,
    pub(in crate::backend) logins: &'a mut Logins,
    pub(in crate::backend) clients: &'a Table<ClientKey, Client>,
    pub(in crate::backend) servers: &'a mut Servers,
}

impl RefusedLogins<'_> {
    /// Returns the reason for which a backend's login was refused. For want of room the account is left alone for a while.
    pub(in crate::backend) fn reason(&mut self, key: BackendKey, refusal: &ServerRefusal) -> Reason {
        let backend = &self.servers[key];
        let identity = backend.account.identity();
        // Those that there are go on, as logged-in connections do; others wait for them, or for the server to take more.
        if refusal.code == SERVER_FULL {
            return Reason::ServerIsFull(backend.opened.origin);
        }
        let has_others = self.servers.of(key).backends.iter().any(|(_, other)| {
            other.is_ready() && other.account.identity() == identity && !other.place.is_former()
        });
        if !(refusal.has_room_soon() || has_others) {
            return Reason::Account(identity);
        }
        self.servers[key].account.successor = Successor::Nobody;
        if refusal.has_room_soon() {
            return Reason::NoRoom(self.note_full_account(key.server(), identity, Some(&refusal.message)));
        }
        self.logins.identities.refuse_until(identity, self.now + NO_ROOM_PAUSE);
        // The account's room is for others, whose passwords may be newer.
        self.pool.tell_of_room(self.now, &self.logins.identities, identity);
        Reason::NoRoom(Some(Event::NoRoom { reason: refusal.message.clone() }))
    }

    /// Notes that an account has all connections that the server takes of it, and that one lacks here: the server has said so, or they are counted.
    /// Other workers are told. Returns the event that says so, where it is news.
    pub(super) fn note_full_account(
        &mut self,
        server: ServerKey,
        identity: IdentityId,
        refusal: Option<&str>,
    ) -> Option<Event> {
        let is_news = self.logins.identities.takes_no_more(identity, self.now, refusal.is_none());
        if self.pool.workers.count() > 1 && !self.logins.identities.is_claimed(identity) {
            let has = self.servers[server].passing_backends(identity, self.clients);
            let (account, worker) = (self.logins.identities.name(identity), self.pool.worker);
            self.pool.workers.users.full_accounts.lacks(self.now, account.clone(), worker, has);
            self.pool.write_to_others(&Letter::AccountIsFull(account));
        }
        let account = self.logins.identities.identity(identity).account.shown();
        let reason = String::from(refusal.unwrap_or(ALL_ARE_OURS));
        is_news.then_some(Event::AccountIsFull { account, reason })
    }

    /// Notes that the server has as many connections as it takes. The number that stands is our limit now, and others share it. False where
    /// nobody has to hear of that, since a place that another worker has given up is tried again.
    pub(super) fn note_full(&mut self, server: ServerKey, origin: Origin) -> bool {
        let (places, full) = (&self.pool.workers.places, &mut self.servers[server].full);
        let tries = full.as_ref().map_or(0, |full| full.tries) + 1;
        if origin == Origin::Granted && tries < TRIES {
            places.grant(self.pool.worker);
            *full = Some(ServerFull { until: self.now + SOON, tries });
            return false;
        }
        let none_stands = places.refused(self.now);
        *full = none_stands.then(|| ServerFull { until: self.now + NO_ROOM_PAUSE, tries: 0 });
        true
    }

    /// Returns the clients that hear of their account's refusal. None, where another backend is opened by a password that was proved before.
    pub(super) fn who_hears(&mut self, server: ServerKey, identity: IdentityId, code: u16) -> Vec<ClientKey> {
        self.servers[server].control.ask_for_accounts();
        if code == WRONG_PASSWORD && self.logins.identities.go_back(identity) {
            return Vec::new();
        }
        let waits = |client: &Client| {
            client.identity() == Some(identity)
                && client.backend.is_none()
                && matches!(client.phase(), ClientPhase::Queued | ClientPhase::Following { .. })
        };
        self.clients.iter().filter(|(_, client)| waits(client)).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::settings::Settings;

    fn refusal(code: u16) -> ServerRefusal {
        ServerRefusal {
            code,
            message: String::from("User 'app' has exceeded the 'max_user_connections' resource"),
        }
    }

    #[test]
    fn an_account_is_refused_where_nobody_of_it_stands_and_none_will_end() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let keys = open_backends(&mut engine, &[server; 2]);
        let identity = engine.servers[keys[0]].account.identity();
        assert_eq!(engine.refused_logins().reason(keys[0], &refusal(1045)), Reason::Account(identity));
        assert!(engine.logins.identities.refused_until(identity).is_none());
        let full = engine.refused_logins().reason(keys[0], &refusal(1226));
        let Reason::NoRoom(Some(event)) = full else { panic!("{full:?}") };
        assert!(event.to_string().contains("ALTER USER 'app'@'%' WITH MAX_USER_CONNECTIONS"), "{event}");
        assert_eq!(engine.refused_logins().reason(keys[0], &refusal(1226)), Reason::NoRoom(None));
        engine.servers[keys[1]].set_phase(Phase::Ready);
        let stands = engine.refused_logins().reason(keys[0], &refusal(1045));
        assert!(matches!(stands, Reason::NoRoom(Some(Event::NoRoom { .. }))), "{stands:?}");
        let full = engine.refused_logins().reason(keys[0], &refusal(SERVER_FULL));
        assert!(matches!(full, Reason::ServerIsFull(_)));
    }

    #[test]
    fn a_place_that_was_granted_is_tried_for_a_while_before_anybody_hears_of_it() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let mut told = || engine.refused_logins().note_full(server, Origin::Granted);
        assert!((1..TRIES).all(|_| !told()) && told());
        assert!(engine.refused_logins().note_full(server, Origin::Free), "it has been taken by us alone");
    }
}
