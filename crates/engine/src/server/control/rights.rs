//! Rights that the service account may not read, and how often the server says that rights have changed.

use seam::Instant;

use crate::accounts::queries::Depth;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::server::Server;
use crate::server::control::answer::NoAnswer;
use crate::server::control::question::Question;

impl Server {
    /// Goes on with fewer rights, since the service account may not read all that decides about rights. Returns false where it had gone on so
    /// before.
    pub(super) fn rights_cannot_be_read(
        &mut self,
        pool: &Pool,
        views: &mut Views,
        refusal: &NoAnswer,
    ) -> bool {
        let facts = self.pending_facts.as_mut().or(self.facts.as_mut()).expect("known since the login");
        if facts.depth == Depth::Logins {
            return false;
        }
        facts.depth = Depth::Logins;
        self.control.probe_seen.clear();
        self.say_rights_are_hidden(pool, views, refusal.to_string());
        true
    }

    /// Says once that rights cannot be read.
    fn say_rights_are_hidden(&mut self, pool: &Pool, views: &mut Views, reason: String) {
        if !std::mem::replace(&mut self.control.rights_hidden, true) && pool.worker == 0 {
            views.event(Event::RightsHidden { reason });
        }
    }

    /// The accounts follow, so that what was taken up before is compared with accounts that are at least as new.
    pub(super) fn take_changes(
        &mut self,
        now: Instant,
        pool: &Pool,
        views: &mut Views,
        answer: Result<&[u8], NoAnswer>,
    ) {
        let facts = self.pending_facts.as_ref().or(self.facts.as_ref()).expect("known since the login");
        let count = match answer {
            Ok(answer) => facts
                .count_of_changes(answer)
                .ok_or_else(|| "the server does not count changes of accounts".to_owned()),
            Err(refusal) => Err(refusal.to_string()),
        };
        let count = count.map_err(|reason| self.say_rights_are_hidden(pool, views, reason)).ok();
        self.control.changes.take(count);
        self.ask(now, if self.pending_facts.is_some() { Question::Accounts } else { Question::Probe });
    }
}
