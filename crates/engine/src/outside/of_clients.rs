//! Counts of single clients: of their statements that start, and of what they are refused.

use seam::Instant;
use sql::Effects;

use crate::accounts::Identities;
use crate::client::Client;
use crate::outside::named::{Limit, LoginStage};
use crate::outside::refusals::Reason;
use crate::outside::views::Views;
use crate::request::Request;
use crate::session::pins::Pins;

impl Views {
    /// A client's statement starts.
    pub(crate) fn note_start(&mut self, client: &mut Client, request: &Request) {
        if client.activity.begins() {
            self.measures.note_login_stage(LoginStage::FirstBackend, request.turn.waited());
        }
        self.count_multiplexing(client);
        let is_doubtful = request.statement.effects.contains(Effects::UNKNOWN);
        self.totals.doubtful_statements += u64::from(is_doubtful);
    }

    /// Counts whether the client's statement is multiplexed and, if not, why.
    fn count_multiplexing(&mut self, client: &Client) {
        let pins = client.session.pins().without(Pins::THREAD_HANDLING);
        if !pins.is_empty() {
            self.totals.pinned_statements += 1;
            self.pin_counts.kept(pins);
        } else if client.in_transaction() {
            self.totals.statements_in_transactions += 1;
        } else {
            self.totals.multiplexed_statements += 1;
        }
    }

    /// A client is refused something, or loses something, since a bound is reached.
    pub(crate) fn note_refused(
        &mut self,
        now: Instant,
        (option, limit): (Limit, u64),
        client: &Client,
        identities: &Identities,
    ) {
        self.limit_reached(now, option, limit);
        let identity = client.identity().map(|identity| identities.identity(identity));
        let user = identity.map(|identity| String::from_utf8_lossy(&identity.user));
        self.refusals.note(Reason::Limit(option), user.as_deref(), &client.peer);
    }
}
