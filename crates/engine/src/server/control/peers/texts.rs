//! The texts in which the service account asks the server about peers.

use std::fmt::Write as _;

use super::Peers;
use super::questions::{AT_WORK, CLOCK, NAMES, PeersQuestion, SATURATED, SILENCE, SLOT, USUAL_SILENCE};
use super::work::Told;
use crate::workers::onramps::SLOTS;

impl Peers {
    /// A question, as the server is asked.
    pub(crate) fn text(&self, question: PeersQuestion) -> String {
        match question {
            PeersQuestion::Slot => self.slot_text(),
            PeersQuestion::Silence => String::from(SILENCE),
            PeersQuestion::Holders => {
                let holders =
                    |name: &'static str| (1..=SLOTS).map(move |slot| format!("IS_USED_LOCK('{name}{slot}')"));
                let all: Vec<_> = NAMES.into_iter().flat_map(holders).collect();
                format!("SELECT {}, {}{CLOCK}", all.join(", "), self.mail.columns(self.own))
            }
            PeersQuestion::Accounts => {
                let ids: Vec<_> = self.unknown().map(|holder| holder.connection.to_string()).collect();
                // Of each account the server shows its own threads, whatever else it may not see.
                format!(
                    "SELECT ID, USER, HOST FROM information_schema.PROCESSLIST WHERE ID IN ({})",
                    ids.join(", ")
                )
            }
            PeersQuestion::Tell(Told::AtWork(is_so)) => self.tell_text(AT_WORK, is_so),
            PeersQuestion::Tell(Told::Saturated(is_so)) => self.tell_text(SATURATED, is_so),
            PeersQuestion::Leave => format!("SELECT RELEASE_LOCK('{SLOT}{}')", self.former.unwrap_or(0)),
            PeersQuestion::UsualSilence => String::from(USUAL_SILENCE),
            of_mail => self.mail.text(self.own, of_mail),
        }
    }

    /// Tells the others by the lock of this name whether that is so.
    fn tell_text(&self, name: &str, is_so: bool) -> String {
        let slot = self.slot.unwrap_or(0);
        if is_so {
            format!("SELECT GET_LOCK('{name}{slot}', 0)")
        } else {
            format!("SELECT RELEASE_LOCK('{name}{slot}')")
        }
    }

    /// The server takes the first that is free, and no second one: CASE goes no further than to what is true.
    fn slot_text(&self) -> String {
        let mut text = String::from("SELECT CASE");
        for slot in self.former.into_iter().chain((1..=SLOTS).filter(|&slot| Some(slot) != self.former)) {
            let _ = write!(text, " WHEN GET_LOCK('{SLOT}{slot}', 0) THEN {slot}");
        }
        text + " END, CONNECTION_ID()"
    }
}
