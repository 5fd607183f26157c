//! Other Onramps in front of the same server: its peers.
//!
//! They share nothing but the server. Each takes a *slot* there, a named lock that goes with the service account's connection, so that one
//! that dies or is cut off has left its slot as soon as the server has noticed. Who holds the slots is asked every second. Anybody can take a
//! named lock, so a holder counts only where its connection is the service account's as well: the server's list of threads is asked for
//! that, once for each connection.
//!
//! An Onramp takes a second lock while its statements wait. The permits that a server is good for are divided among the Onramps that have
//! this lock. So one that stands by takes nothing away from another.
//!
//! KILLs of each other's clients they send by [`mail`].

mod frozen;
pub(crate) mod mail;
mod of_server;
pub(crate) mod questions;
pub(crate) mod sealed;
mod texts;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seam::Instant;

pub(crate) use frozen::FrozenPeers;

use crate::backend::from_server::own_answers::{Row, number, rows_of};
use crate::cluster::foreign;
use crate::errors::Undelivered;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::server::control::answer::NoAnswer;
use crate::server::control::peers::mail::Mail;
use crate::server::control::peers::questions::{AT_WORK, NAMES, PeersQuestion, SLOT};
use crate::server::control::peers::sealed::LetterKey;
use crate::server::control::peers::work::{Told, Work};
use crate::workers::letter::Kill;
use crate::workers::onramps::{Census, Onramps, SLOTS};

/// The holders of the slots are asked for this often: what a peer leaves is given to others within seconds, and one short question a
/// second is little beside the accounts, which are asked for as often.
const EVERY: Duration = Duration::from_secs(1);

/// A peer that has not been seen so many times in a row is gone: its service account's connection may be lost and come back.
const GONE: u32 = 3;

/// The pause before a server that refuses is asked again: the refusal may be a matter of its configuration. Where the server refuses what comes
/// behind [`questions::SILENCE`], nothing else may be asked for longer than that. Otherwise the server would close the connection.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Knowledge of the Onramps in front of the server.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// The number of our connection on the server.
    own: u64,
    slot: Option<u32>,
    /// The slot on a former connection, which is taken again where it is free: ids of clients have it in them.
    former: Option<u32>,
    /// True where a program in between gives connections numbers of its own, so that nobody here can be told from anybody else.
    is_behind_other: bool,
    /// True once the server has been told how long this connection may be silent.
    is_short_lived: bool,
    /// The time since which the slot is held.
    since: Instant,
    asked: Option<Instant>,
    refused: Option<Instant>,
    work: Work,
    /// The peers by their slots.
    peers: BTreeMap<u32, Peer>,
    /// Connections of others that hold a slot.
    strangers: BTreeSet<u64>,
    /// The latest answer about slots, until the owners of their connections are known.
    holders: Vec<Holder>,
    mail: Mail,
    /// Obstacles that the log has told of.
    said: BTreeSet<Obstacle>,
}

/// Another Onramp.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    /// The number of the peer's service account's connection on the server.
    connection: u64,
    /// True once that connection has been seen since our own login.
    is_confirmed: bool,
    /// The host that the connection comes from, as the server says it; empty where the server does not.
    host: String,
    since: Instant,
    at_work: bool,
    saturated: bool,
    /// Looks in a row that have not found the peer.
    missed: u32,
}

/// A connection that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    slot: u32,
    connection: u64,
    at_work: bool,
    saturated: bool,
}

/// The reason why not all are counted. Each is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    Refused,
    Strangers,
    NoSlot,
    AtWorkTaken,
    BehindOther,
}

/// An Onramp in front of the server as it looks from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The Onramp's slot, from 1; `None` where this one has none.
    pub slot: Option<u32>,
    /// True for this Onramp itself.
    pub is_own: bool,
    /// The number of its service account's connection on the server.
    pub connection: u64,
    /// The host that the connection comes from, as the server says it; empty of this Onramp, and where the server does not say.
    pub host: String,
    /// True where the Onramp's statements wait, or have waited lately.
    pub at_work: bool,
    /// The time for which the Onramp has been known.
    pub since: Duration,
}

/// The parts that are at hand where an answer is taken in.
struct Hearing<'a> {
    now: Instant,
    service_user: &'a str,
    onramps: &'a Onramps,
    /// Times that our statements have waited at each of the servers, in microseconds.
    saturated_for: Vec<u64>,
    views: &'a mut Views,
}

impl Peers {
    /// The service account has logged in anew, maybe to another server. With the key letters are written and read.
    pub(crate) fn asked_anew(&mut self, key: Option<&LetterKey>) {
        self.former = self.slot.take().or(self.former);
        self.is_behind_other = false;
        self.is_short_lived = false;
        self.work.is_forgotten();
        self.asked = None;
        self.refused = None;
        self.strangers.clear();
        self.mail.asked_anew(key);
        // Numbers of connections are another server's, maybe.
        self.peers.values_mut().for_each(|peer| peer.is_confirmed = false);
    }

    /// `None` as long as this connection lasts, where that is of no use.
    fn next(&self, now: Instant) -> Option<Instant> {
        let after_refusal = self.refused.map(|at| at + REFUSED_FOR);
        let usual = after_refusal.or(self.asked.map(|at| at + EVERY)).unwrap_or(Instant::START);
        let next = match self.mail.due(now) {
            _ if self.refused.is_some() || self.slot.is_none() => usual,
            Some(_) => Instant::START,
            None => self.mail.next_look(now).map_or(usual, |at| at.min(usual)),
        };
        (!self.is_behind_other).then_some(next)
    }

    /// The question with which a look begins.
    pub(crate) fn first_question(&self, now: Instant) -> PeersQuestion {
        let is_due = self.asked.is_none_or(|at| now >= at + EVERY);
        match self.slot {
            _ if !self.is_short_lived => PeersQuestion::Silence,
            None => PeersQuestion::Slot,
            Some(_) => match self.mail.due(now) {
                Some(question) => question,
                None if is_due => PeersQuestion::Holders,
                None => PeersQuestion::Mail,
            },
        }
    }

    /// The server is asked this now.
    pub(crate) fn is_asked(&mut self, now: Instant, question: PeersQuestion) {
        self.mail.is_asked(now, self.own, question);
        if !question.is_of_mail() {
            self.asked = Some(now);
            self.refused = None;
        }
    }

    fn send(&mut self, now: Instant, slot: u32, kill: Kill) {
        match self.peers.get(&slot) {
            _ if self.slot.is_none() => self.mail.undelivered(kill, Undelivered::NoSlot),
            Some(peer) if peer.is_confirmed => self.mail.send(now, peer.connection, kill),
            _ => self.mail.undelivered(kill, Undelivered::PeerGone),
        }
    }

    /// Takes in an answer. Returns the question that comes next, if any.
    fn take(
        &mut self,
        hearing: &mut Hearing<'_>,
        question: PeersQuestion,
        answer: Result<&[u8], NoAnswer>,
    ) -> Option<PeersQuestion> {
        let rows = match answer {
            Ok(bytes) => rows_of(bytes),
            // Locks of a machine that vanishes stay for longer then.
            Err(_) if question == PeersQuestion::Silence => Vec::new(),
            Err(_) if question.is_of_mail() => {
                self.mail.take(hearing.now, self.own, question, None);
                return None;
            }
            Err(refusal) => {
                self.say(hearing.views, Obstacle::Refused, refusal.to_string());
                self.refused = Some(hearing.now);
                // Nobody is seen there, as at a server to which a failover has led.
                self.holders.clear();
                self.settle(hearing, &BTreeMap::new());
                return None;
            }
        };
        let row = rows.first().map(Vec::as_slice).unwrap_or_default();
        match question {
            PeersQuestion::Slot => {
                self.take_slot(hearing, row);
                Some(PeersQuestion::Holders)
            }
            PeersQuestion::Silence => {
                self.is_short_lived = true;
                Some(PeersQuestion::Slot)
            }
            PeersQuestion::Holders => {
                self.take_holders(hearing, row);
                if self.is_behind_other {
                    return Some(PeersQuestion::Leave);
                }
                if self.unknown().next().is_some() {
                    return Some(PeersQuestion::Accounts);
                }
                self.settle(hearing, &BTreeMap::new());
                self.change_of_work()
            }
            PeersQuestion::Accounts => {
                self.take_accounts(hearing, &rows);
                self.change_of_work()
            }
            PeersQuestion::Tell(Told::AtWork(at_work)) => {
                let is_said = at_work && number(row.first()) == Some(1);
                if at_work && !is_said {
                    let slot = self.slot.unwrap_or(0);
                    let reason = format!(
                        "another connection holds the named lock {AT_WORK}{slot}: the other Onramps do not know that statements wait here"
                    );
                    self.say(hearing.views, Obstacle::AtWorkTaken, reason);
                }
                self.work.say_at_work(is_said).map(PeersQuestion::Tell)
            }
            PeersQuestion::Tell(Told::Saturated(is_so)) => {
                self.work.say_saturated(is_so && number(row.first()) == Some(1));
                None
            }
            PeersQuestion::Leave => Some(PeersQuestion::UsualSilence),
            PeersQuestion::UsualSilence => None,
            PeersQuestion::Mail => {
                self.mail.take_looks(row);
                None
            }
            of_mail => {
                let field = row.first().map(|field| field.as_deref().unwrap_or_default());
                self.mail.take(hearing.now, self.own, of_mail, field);
                None
            }
        }
    }

    fn take_slot(&mut self, hearing: &mut Hearing<'_>, row: &[Option<Vec<u8>>]) {
        self.own = number(row.get(1)).unwrap_or(0);
        // Ids of clients follow from it, and whatever answers here may say anything.
        self.slot = number(row.first())
            .and_then(|slot| u32::try_from(slot).ok())
            .filter(|slot| (1..=SLOTS).contains(slot));
        self.since = hearing.now;
        hearing.onramps.set_slot(self.slot.unwrap_or(0));
        if self.slot.is_none() {
            self.say(hearing.views, Obstacle::NoSlot, format!("all {SLOTS} slots are taken"));
        }
    }

    fn take_holders(&mut self, hearing: &mut Hearing<'_>, row: &[Option<Vec<u8>>]) {
        let holder = |place: u32| number(row.get(place as usize));
        let slots = (1..=SLOTS).filter_map(|slot| {
            let connection = holder(slot - 1)?;
            let says = |lock: u32| holder(lock * SLOTS + slot - 1) == Some(connection);
            Some(Holder { slot, connection, at_work: says(1), saturated: says(2) })
        });
        self.holders = slots.collect();
        let behind = row.get(NAMES.len() * SLOTS as usize..).unwrap_or_default();
        let (mail, clock) = behind.split_at(self.mail.width().min(behind.len()));
        self.mail.take_looks(mail);
        if let Some(millis) = clock.first().and_then(millis) {
            hearing.onramps.set_clock(hearing.now, millis);
            self.mail.set_clock(self.asked.unwrap_or(hearing.now), hearing.now, millis);
        }
        let of_own = self.holders.iter().find(|holder| Some(holder.slot) == self.slot);
        match of_own.map(|holder| holder.connection) {
            Some(connection) if connection == self.own => {}
            // A lock that this connection has got is no other's as long as it lasts.
            Some(connection) => return self.is_behind(hearing, connection),
            // Whatever has become of it: it is taken anew at the next look.
            None => {
                self.slot = None;
                self.work.is_forgotten();
            }
        }
        self.holders.retain(|holder| holder.connection != self.own);
        self.strangers.retain(|stranger| self.holders.iter().any(|holder| holder.connection == *stranger));
        // One that has ended meanwhile is nobody's.
        if !self.strangers.is_empty() {
            let reason = format!(
                "{} of the named locks {SLOT}1 to {SLOT}{SLOTS} are held by connections of other accounts, which are not \
                 counted: Onramps in front of one server need the same service account",
                self.strangers.len()
            );
            self.say(hearing.views, Obstacle::Strangers, reason);
        }
        self.work.look(hearing.now, hearing.onramps.have_waited(), &hearing.saturated_for);
    }

    /// The server knows this connection by another number than what stands between has told.
    fn is_behind(&mut self, hearing: &mut Hearing<'_>, connection: u64) {
        let reason = format!(
            "the server knows connection {} by the number {connection}: something between, another Onramp for one, gives numbers of its \
             own, so that nobody is counted",
            self.own
        );
        self.say(hearing.views, Obstacle::BehindOther, reason);
        self.is_behind_other = true;
        self.former = self.slot.take();
        self.work.is_forgotten();
        hearing.onramps.set_slot(0);
        self.holders.clear();
        self.strangers.clear();
        self.peers.clear();
    }

    /// Connections that hold a slot, and that are not known to be a peer's or a stranger's.
    fn unknown(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(|holder| {
            let is_known = self
                .peers
                .get(&holder.slot)
                .is_some_and(|peer| peer.is_confirmed && peer.connection == holder.connection);
            !is_known && !self.strangers.contains(&holder.connection)
        })
    }

    /// Takes in the server's list of these connections' accounts. The server shows others' connections only to an account with the right to see
    /// them.
    fn take_accounts(&mut self, hearing: &mut Hearing<'_>, rows: &[Row]) {
        let hosts: BTreeMap<u64, String> = rows
            .iter()
            .filter(|row| row.get(1).and_then(Option::as_deref) == Some(hearing.service_user.as_bytes()))
            .filter_map(|row| {
                let host = row.get(2)?.as_deref().unwrap_or_default();
                Some((number(row.first())?, foreign::reason(&String::from_utf8_lossy(host))))
            })
            .collect();
        let strangers: Vec<u64> = self
            .unknown()
            .map(|holder| holder.connection)
            .filter(|connection| !hosts.contains_key(connection))
            .collect();
        self.strangers.extend(strangers);
        self.settle(hearing, &hosts);
    }

    /// Takes in the list of peers, which is complete by now. Notes the Onramps that have come and gone.
    fn settle(&mut self, hearing: &mut Hearing<'_>, hosts: &BTreeMap<u64, String>) {
        for peer in self.peers.values_mut() {
            peer.missed += 1;
        }
        for Holder { slot, connection, at_work, saturated } in std::mem::take(&mut self.holders) {
            if self.strangers.contains(&connection) {
                continue;
            }
            let peer = self.peers.entry(slot).or_insert_with(|| {
                let host = hosts.get(&connection).cloned().unwrap_or_default();
                hearing.views.event(Event::PeerCame { slot, connection, host });
                Peer {
                    connection,
                    is_confirmed: false,
                    host: String::new(),
                    since: hearing.now,
                    at_work: false,
                    saturated: false,
                    missed: 0,
                }
            });
            if !peer.is_confirmed || peer.connection != connection {
                peer.connection = connection;
                peer.is_confirmed = true;
                peer.host = hosts.get(&connection).cloned().unwrap_or_default();
            }
            peer.at_work = at_work;
            peer.saturated = saturated;
            peer.missed = 0;
        }
        self.peers.retain(|&slot, peer| {
            let stays = peer.missed < GONE;
            if !stays {
                hearing.views.event(Event::PeerWent { slot, connection: peer.connection });
            }
            stays
        });
        let confirmed = self.peers.iter().filter(|(_, peer)| peer.is_confirmed);
        self.mail.know(&confirmed.map(|(_, peer)| peer.connection).collect());
    }

    /// The news of our work that the server is to be told.
    fn change_of_work(&self) -> Option<PeersQuestion> {
        self.slot.and(self.work.change()).map(PeersQuestion::Tell)
    }

    /// Counts the Onramps, once the owners of all slots are known.
    fn census(&self, next: Option<PeersQuestion>) -> Option<Census> {
        if matches!(next, Some(PeersQuestion::Accounts | PeersQuestion::Slot | PeersQuestion::Holders)) {
            return None;
        }
        let count_of = |slots: &mut dyn Iterator<Item = u32>| slots.map(|_| 1).sum::<u32>();
        Some(Census {
            present: 1 + count_of(&mut self.peers.keys().copied()),
            at_work: 1 + count_of(&mut self.working()),
            saturated: 1 + count_of(&mut self.working().filter(|slot| self.peers[slot].saturated)),
            rank: count_of(&mut self.working().filter(|&slot| self.slot.is_none_or(|own| slot < own))),
            others: self.peers.keys().fold(0, |others, slot| others | 1 << (slot - 1)),
        })
    }

    /// The slots of peers that are at work.
    fn working(&self) -> impl Iterator<Item = u32> {
        self.peers.iter().filter(|(_, peer)| peer.at_work).map(|(&slot, _)| slot)
    }

    /// Says an obstacle once.
    fn say(&mut self, views: &mut Views, obstacle: Obstacle, reason: String) {
        if self.said.insert(obstacle) {
            views.event(Event::PeersHidden { reason });
        }
    }

    fn views(&self, now: Instant) -> Vec<PeerView> {
        let own = PeerView {
            slot: self.slot,
            is_own: true,
            connection: self.own,
            host: String::new(),
            at_work: self.work.is_at_work(),
            since: now.since(self.since),
        };
        let others = self.peers.iter().map(|(&slot, peer)| PeerView {
            slot: Some(slot),
            is_own: false,
            connection: peer.connection,
            host: peer.host.clone(),
            at_work: peer.at_work,
            since: now.since(peer.since),
        });
        let mut all: Vec<_> = std::iter::once(own).chain(others).collect();
        all.sort_by_key(|view| view.slot.unwrap_or(u32::MAX));
        all
    }
}

/// A field with seconds and a fraction, in milliseconds.
fn millis(field: &Option<Vec<u8>>) -> Option<u64> {
    let text = std::str::from_utf8(field.as_deref()?).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{fraction:0<3}");
    Some(seconds.parse::<u64>().ok()?.checked_mul(1000)? + fraction.get(..3)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod mail_tests;
#[cfg(test)]
mod tests;
