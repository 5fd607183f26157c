//! Logins that are refused: what the log and their clients are told, and when.

use std::time::Duration;

use crate::accounts::hosts::host_name;
use crate::accounts::method::Method;
use crate::client::login::attempt::{Attempt, Login, LoginAnswer, LoginVerdict};
use crate::client::login::authentication::Authentication;
use crate::client::login::late_refusals::LateRefusal;
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::outside::event::Event;
use crate::outside::named::RefusedFor;
use crate::server::control::facts::Facts;
use crate::session::is_utf8;

/// The refusal of a login.
#[derive(Debug)]
pub(in crate::client) struct LoginRefusal {
    pub(super) event: Event,
    /// The error that the client is told now. `None` where it is told later.
    pub(super) told: Option<MySqlError>,
}

impl Authentication<'_> {
    /// Refuses a character set in which no client may talk, ahead of everything else, as both servers do
    /// (thd_init_client_charset): they would refuse every backend of this client. Refuses a name beyond ASCII in
    /// another character set than UTF-8, too: the servers convert it, and its bytes may be the name of somebody else.
    pub(super) fn refuses_charset(&self, key: ClientKey, collation: u8, user: &[u8]) -> Option<LoginRefusal> {
        let facts = self.server.facts.as_ref()?;
        let peer = self.clients[key].peer;
        let (error, why) = if let Some(charset) = facts.unusable_charset(collation) {
            (MySqlError::charset_of_client(charset), "")
        } else if !user.is_ascii() && !is_utf8(&facts.charset_of_login(collation).1.client) {
            let host = host_name(&peer, facts.name_resolution);
            let why = ": a name beyond ASCII is known where the login's character set is UTF-8";
            (MySqlError::access_denied(user, &host, true), why)
        } else {
            return None;
        };
        let user = String::from_utf8_lossy(user).into_owned();
        let (refused_for, reason) = (RefusedFor::CharacterSet, format!("{}{why}", error.message));
        let event = Event::LoginRefused { peer, user, refused_for, reason };
        Some(LoginRefusal { event, told: Some(error) })
    }

    /// Refuses a login in the clear where TLS is required.
    pub(in crate::client) fn refuse_plain(&self, key: ClientKey, user: &[u8]) -> LoginRefusal {
        let error = MySqlError::tls_required();
        let (peer, user) = (self.clients[key].peer, String::from_utf8_lossy(user).into_owned());
        let (refused_for, reason) = (RefusedFor::Tls, error.message.clone());
        let event = Event::LoginRefused { peer, user, refused_for, reason };
        LoginRefusal { event, told: Some(error) }
    }

    /// Refuses a login by this verdict. A client that gives a wrong password again and again hears of it later each time.
    pub(super) fn refuse(
        &mut self,
        key: ClientKey,
        attempt: &Attempt,
        verdict: &LoginVerdict,
    ) -> LoginRefusal {
        let (peer, facts) = (self.clients[key].peer, self.server.facts.as_ref());
        let host = host_name(&peer, facts.is_none_or(|facts| facts.name_resolution));
        let error = match verdict {
            LoginVerdict::Unsupported(plugin) => MySqlError::unsupported_plugin(&attempt.user, plugin),
            LoginVerdict::TooOld => MySqlError::client_too_old(),
            LoginVerdict::Locked if facts.is_some_and(Facts::is_mariadb) => {
                MySqlError::account_locked_mariadb()
            }
            LoginVerdict::Locked => MySqlError::account_locked(&attempt.user, &host),
            LoginVerdict::Expired => MySqlError::password_expired(),
            LoginVerdict::InTheOpen => MySqlError::clear_password_in_the_open(),
            LoginVerdict::NotThatUser => MySqlError::access_denied_by_name(&attempt.user, &host),
            _ if is_malformed(attempt) => MySqlError::handshake(),
            _ => MySqlError::access_denied(&attempt.user, &host, !attempt.answer.is_empty()),
        };
        let user = String::from_utf8_lossy(&attempt.user).into_owned();
        let reason = format!("{}{}", error.message, self.server.why_refused(&peer, &attempt.user, verdict));
        let refused_for = verdict.refused_for(is_malformed(attempt));
        let event = Event::LoginRefused { peer, user, refused_for, reason };
        let delay = match verdict {
            LoginVerdict::Denied => {
                let failed = &self.pool.workers.failed_logins;
                let delay = failed.failed(self.now, &peer, &attempt.user, &self.settings.failed_logins);
                delay.saturating_sub(attempt.held_back)
            }
            _ => Duration::ZERO,
        };
        if delay.is_zero() {
            return LoginRefusal { event, told: Some(error) };
        }
        let client = self.clients.ref_to(key);
        let refusal = LateRefusal { client, sequence: attempt.sequence, error };
        let place = self.logins.late_refusals.add(self.now + delay, refusal);
        self.clients[key].wait_in_login(Login::Refused(place));
        LoginRefusal { event, told: None }
    }
}

/// Says whether the answer is one that its method does not have (native_password_authenticate).
fn is_malformed(attempt: &Attempt) -> bool {
    matches!(&attempt.answer, LoginAnswer::Token(token)
        if attempt.method == Some(Method::Native) && !matches!(token.len(), 0 | 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    fn attempt() -> Attempt {
        let token = [7; 20];
        Attempt::new(b"app", Some(b"mysql_native_password"), &token, [0; 20], 1)
    }

    #[test]
    fn a_name_beyond_ascii_is_known_in_utf8_alone() {
        let mut engine = engine(1, Settings::default());
        let refusal = |engine: &mut crate::engine::Engine, collation, user: &str| {
            let refusal = engine.authentication().refuses_charset(client_key(0), collation, user.as_bytes());
            refusal.and_then(|refusal| refusal.told).map(|error| error.code)
        };
        let facts = engine.servers.primary_mut().facts.as_mut().expect("they are known");
        let known = [("8", "latin1_swedish_ci"), ("45", "utf8mb4_general_ci"), ("35", "ucs2_general_ci")];
        for (number, name) in known {
            let charset = name.split('_').next();
            facts.take_collation_row(&[
                Some(number.as_bytes()),
                Some(name.as_bytes()),
                charset.map(str::as_bytes),
            ]);
        }
        assert_eq!(refusal(&mut engine, 8, "app"), None);
        assert_eq!(refusal(&mut engine, 45, "\u{e4}pp"), None);
        assert_eq!(refusal(&mut engine, 8, "\u{e4}pp"), Some(1045));
        // No client may talk in it.
        assert_eq!(refusal(&mut engine, 35, "app"), Some(1231));
    }

    #[test]
    fn an_answer_of_another_length_is_none_of_the_method() {
        let mut engine = engine(1, Settings::default());
        let mut code = |attempt: &Attempt| {
            let refusal = engine.authentication().refuse(client_key(0), attempt, &LoginVerdict::Expired);
            refusal.told.expect("it is told at once").code
        };
        assert_eq!(code(&attempt()), 1862, "the verdict says more than that");
        let mut other = attempt();
        assert!(!is_malformed(&other));
        other.answer = LoginAnswer::Token(vec![7; 19].into());
        assert!(is_malformed(&other));
    }
}
