//! The times at which a server is asked for peers, and what follows from its answers.

use seam::Instant;

use super::mail::Delivery;
use super::questions::PeersQuestion;
use super::{Hearing, PeerView};
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::server::Server;
use crate::server::control::answer::NoAnswer;
use crate::server::control::question::Question;
use crate::settings::Settings;
use crate::workers::letter::{Kill, KillOutcome, Sender};

impl Server {
    /// Says whether this worker counts peers: one does for all.
    pub(in crate::server::control) fn counts_peers(settings: &Settings, pool: &Pool) -> bool {
        settings.counts_peers && pool.worker == 0
    }

    /// The time at which the server is to be asked for peers.
    pub(in crate::server::control) fn next_look_at_peers(
        &self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
    ) -> Option<Instant> {
        self.control.peers.next(now).filter(|_| Self::counts_peers(settings, pool))
    }

    /// The server has answered a question about peers, or refused it. Limits are divided anew where that says so.
    pub(in crate::server::control) fn take_peers(
        &mut self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
        views: &mut Views,
        question: PeersQuestion,
        answer: Result<&[u8], NoAnswer>,
    ) {
        let onramps = &pool.workers.onramps;
        let mut hearing = Hearing {
            now,
            service_user: &settings.service_user,
            onramps,
            saturated_for: pool.workers.saturated_for(now),
            views,
        };
        let next = self.control.peers.take(&mut hearing, question, answer);
        if let Some(census) = self.control.peers.census(next)
            && onramps.take(census)
        {
            pool.workers.change_permits(settings);
            pool.workers.replicas.divide_anew(settings);
        }
        // The slot is taken before clients are greeted, whose ids have it in them; what is left of the login goes first.
        if self.pending_facts.is_some() && next != Some(PeersQuestion::Slot) {
            self.ask(now, Question::Collations);
        } else if let Some(next) = next {
            self.ask(now, Question::Peers(next));
        }
    }

    /// A KILL of a client of the Onramp with that slot. What comes of it is delivered later.
    pub(crate) fn kill_at_peer(&mut self, now: Instant, slot: u32, kill: Kill) {
        self.control.peers.send(now, slot, kill);
    }

    /// Notes the outcome of a peer's KILL.
    pub(crate) fn settle_kill_of_peer(&mut self, sender: Sender, outcome: KillOutcome) {
        self.control.peers.mail.settle(sender, outcome);
    }

    /// Takes the next delivery from peers that has not been taken in.
    pub(crate) fn next_from_peers(&mut self, now: Instant) -> Option<Delivery> {
        self.control.peers.mail.expire(now);
        self.control.peers.mail.next_delivery()
    }

    /// The Onramps in front of the server, by their slots; empty where they are not counted, and on all workers but the first.
    pub(crate) fn peer_views(&self, now: Instant, settings: &Settings, pool: &Pool) -> Vec<PeerView> {
        if Self::counts_peers(settings, pool) { self.control.peers.views(now) } else { Vec::new() }
    }
}
