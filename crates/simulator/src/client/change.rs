//! COM_CHANGE_USER.

use super::login::Credentials;
use super::{Client, Phase};
use crate::checkers::Checkers;
use crate::protocol::{capability, native_token};
use crate::server::commands::change_user_payload;

impl Client {
    /// The command with which the client becomes another user, and who that is; `None` where it cannot say it now.
    pub(super) fn change_of_user(&mut self, checkers: &mut Checkers) -> Option<(Vec<u8>, Credentials)> {
        let Phase::Working(work) = &self.phase else { return None };
        // A client of old would have to prove its password for a scramble that only its library knows.
        if work.capabilities & capability::PLUGIN_AUTH == 0 || !work.awaited.is_empty() {
            return None;
        }
        let has_attributes = work.capabilities & capability::CONNECT_ATTRS != 0;
        let mut credentials = Credentials::draw(&self.choices, true, &mut self.random);
        credentials.wrong = false;
        let schema = credentials.schema.clone().unwrap_or_default();
        let stale = native_token(credentials.password.as_bytes(), b"a scramble of old...");
        let mut payload = change_user_payload(&credentials.user, &stale, &schema, credentials.collation);
        if has_attributes {
            payload.push(0); // none
        }
        if let Some(kills) = checkers.kills() {
            kills.tries(self.key, &credentials.user);
        }
        Some((payload, credentials))
    }
}
