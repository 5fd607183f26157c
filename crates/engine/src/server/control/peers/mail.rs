//! Letters between Onramps: a KILL that has come to another Onramp than the one that has the client.
//!
//! A letter is a set of named locks on the server, which the sender's service account takes: one for each bit of it that is set, and then one
//! that says that it is there. Its recipient asks for that one along with the slots. It reads the bits in one statement, does what they say, and
//! takes a lock that says what has come of it. Then the sender gives its locks back, and the recipient its own. Nothing is left of
//! one that dies, since locks go with their connection.
//!
//! - Anybody can take a named lock. A lock counts only where its holder is the connection of a peer, which the server has said to be the service
//!   account's. That has the user's name alone, by which an anonymous account lets anybody in. So a letter ends with a seal, and the names of
//!   its locks cannot be guessed: both are made with a key that takes the service account's password ([`super::sealed`]). Who has not got that
//!   can neither forge letters nor take their locks first.
//! - The key goes with the numbers of both connections: what was meant for a former one is never read by the next one.
//! - A look takes time. Bits that vanish meanwhile, with the sender's connection or with its next letter, break the seal.
//! - Letters have numbers, and the lock of an answer has its letter's number in its name: no answer is taken for another letter's, and no
//!   letter is carried out twice.
//! - A letter says when its KILL was said, by the server's clock: what comes late ends no statement that has come since, and what is older than
//!   anybody waits for ends nothing.

mod frozen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::ops::Bound;
use std::time::Duration;

use seam::Instant;

pub(crate) use frozen::FrozenMail;

use super::questions::PeersQuestion;
use super::sealed::{BITS, Bits, Content, LetterKey, set};
use crate::backend::from_server::own_answers::number;
use crate::errors::Undelivered;
use crate::workers::letter::{ClientOwner, Kill, KillOutcome, KillRights, PEER_TIMEOUT, Sender};
use crate::workers::onramps::millis_of;

/// The time between two looks of either side while letters are under way. Where one statement is cancelled hundreds may be, and such a
/// look takes the server less than a tenth of a millisecond.
const QUICK: Duration = Duration::from_millis(5);

/// The recipient looks as often for so long behind the latest letter and its answer: where one is cancelled, others are.
const LIVELY: Duration = Duration::from_secs(1);

/// A letter without an answer is taken back, and then its sender is told: a letter that is taken back cannot be
/// read any more. Taking it back may last this long, where the server answers late or has refused. This is less
/// than the second that [`PEER_TIMEOUT`] leaves of a killer's wait.
const TAKEN_BACK_WITHIN: Duration = Duration::from_millis(500);

/// The time in which the peer carries a letter out. Its sender waits a second longer. Both reckon by the server's
/// clock, which they know as well as the quickest answer tells. No letter is to be carried out after its sender
/// has told that nobody answers.
const CARRIED_OUT_FOR: Duration = PEER_TIMEOUT.saturating_sub(Duration::from_secs(1));

/// The number of KILLs that may wait for one peer: about as many as are done within [`PEER_TIMEOUT`], at two for each [`QUICK`] or so.
const MOST_WAITING: usize = 512;

/// The pause before the server is asked again to give a lock back, which it has refused.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Outcomes of a letter, as a lock says them.
const VERDICTS: [KillOutcome; 3] = [KillOutcome::Done, KillOutcome::NoSuchClient, KillOutcome::Denied];

/// News that has come by mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// A peer wants a client of ours killed, and waits to hear what has come of it.
    Kill {
        sender: Sender,
        victim: u32,
        query_only: bool,
        rights: KillRights,
        /// The time since the KILL was said.
        age: Duration,
    },
    /// The outcome of a KILL of ours.
    Outcome(Kill, KillOutcome),
}

/// The letters of this Onramp on one server.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// The key of the letters. Without a key nothing is sent or read.
    key: Option<LetterKey>,
    /// The server's clock at the beginning of ours, in milliseconds: at least and at most, since a question takes time.
    clock: Option<(u64, u64)>,
    /// The number of the latest letter.
    number: u32,
    /// Letters to peers, by the peers' connections.
    outgoing: BTreeMap<u64, Outgoing>,
    /// Letters from peers, by the peers' connections: each peer has an entry.
    incoming: BTreeMap<u64, Incoming>,
    looked: Option<Instant>,
    /// The latest looks, in the order of the answer's columns.
    looks: Vec<Look>,
    lively_until: Option<Instant>,
    /// The time at which the server has refused something that it will be asked for again.
    refused: Option<Instant>,
    deliveries: VecDeque<Delivery>,
}

/// Letters for one peer.
#[derive(Debug, Default)]
struct Outgoing {
    /// KILLs by owner, so that an owner with very many keeps nobody else waiting.
    waiting: BTreeMap<ClientOwner, VecDeque<Order>>,
    /// The owner that had the latest turn.
    turn: Option<ClientOwner>,
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Order {
    kill: Kill,
    since: Instant,
}

/// A letter with locks that are held, or about to be taken.
#[derive(Debug)]
struct Sent {
    number: u32,
    bits: Bits,
    /// `None` once it is of no use any more: its locks are to be given back.
    order: Option<Order>,
    /// An order that nobody has answered in time. This is told once its locks are given back.
    given_up: Option<Order>,
}

/// Letters from one peer.
#[derive(Debug, Default, PartialEq)]
struct Incoming {
    /// The number of the latest letter; they begin at 1.
    latest: u32,
    /// True where a letter is there, and is to be read: it may be the latest one still.
    is_there: bool,
    /// True where there was a letter at the last look.
    was_there: bool,
    /// The outcome of the latest letter, as long as the sender has not been told.
    verdict: Option<usize>,
    /// The lock that tells the sender.
    answered: Option<(u32, usize)>,
}

/// A column of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Is a letter there from this connection?
    Letter(u64),
    /// Has this connection answered the letter, and so?
    Answer { connection: u64, number: u32, verdict: usize },
}

impl Mail {
    /// The service account has another connection: nothing that was under way is any more.
    pub(super) fn asked_anew(&mut self, key: Option<&LetterKey>) {
        self.key = key.cloned();
        self.clock = None;
        self.refused = None;
        let outgoing = std::mem::take(&mut self.outgoing);
        for kill in outgoing.into_values().flat_map(|mut outgoing| outgoing.take_kills()) {
            self.undelivered(kill, Undelivered::PeerGone);
        }
        self.incoming.clear();
        self.looks.clear();
        self.looked = None;
    }

    /// The server's clock has said so many milliseconds, at some time between these two. An answer that took long leaves what is known better.
    /// Where it cannot be so any more, the clock has been set or has drifted.
    pub(super) fn set_clock(&mut self, asked: Instant, answered: Instant, millis: u64) {
        let said = (millis.wrapping_sub(millis_of(answered)), millis.wrapping_sub(millis_of(asked)));
        let both = self.clock.map_or(said, |known| (known.0.max(said.0), known.1.min(said.1)));
        self.clock = Some(if both.0 <= both.1 { both } else { said });
    }

    /// The server's time at least, the last 32 bits of its milliseconds: letters live for seconds, and these are seven weeks.
    pub(super) fn earliest(&self, at: Instant) -> u32 {
        self.clock.map_or(0, |clock| clock.0).wrapping_add(millis_of(at)) as u32
    }

    /// The same at most. So no KILL is taken for older than it is, and misses what it means.
    pub(super) fn latest(&self, at: Instant) -> u32 {
        self.clock.map_or(0, |clock| clock.1).wrapping_add(millis_of(at)) as u32
    }

    /// The peers that are there, by their connections. What was for others comes back, and what was from them is forgotten.
    pub(super) fn know(&mut self, peers: &BTreeSet<u64>) {
        let none = BTreeSet::new();
        let peers = if self.key.is_some() { peers } else { &none };
        for &connection in peers {
            self.incoming.entry(connection).or_default();
        }
        self.incoming.retain(|connection, incoming| {
            let stays = peers.contains(connection);
            if !stays {
                (incoming.is_there, incoming.was_there, incoming.verdict) = (false, false, None);
            }
            stays || incoming.answered.is_some()
        });
        let mut lost = Vec::new();
        self.outgoing.retain(|connection, outgoing| {
            if !peers.contains(connection) {
                lost.extend(outgoing.take_kills());
            }
            outgoing.sent.is_some() || peers.contains(connection)
        });
        for kill in lost {
            self.undelivered(kill, Undelivered::PeerGone);
        }
    }

    /// A KILL for the peer with this connection.
    pub(super) fn send(&mut self, now: Instant, connection: u64, kill: Kill) {
        if self.key.is_none() {
            return self.undelivered(kill, Undelivered::NoPassword);
        }
        let outgoing = self.outgoing.entry(connection).or_default();
        if let Some(order) = outgoing.push(Order { kill, since: now }) {
            self.undelivered(order.kill, Undelivered::TooMany);
        }
    }

    pub(super) fn undelivered(&mut self, kill: Kill, why: Undelivered) {
        self.deliveries.push_back(Delivery::Outcome(kill, KillOutcome::Undelivered(why)));
    }

    /// The oldest that has not been taken in.
    pub(super) fn next_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Notes the outcome of a peer's letter.
    pub(super) fn settle(&mut self, sender: Sender, outcome: KillOutcome) {
        if let Some(incoming) = self.incoming.get_mut(&sender.connection)
            && incoming.latest == sender.number
        {
            incoming.verdict = VERDICTS.iter().position(|&verdict| verdict == outcome);
        }
    }

    /// Gives up letters that nobody has answered in time. They shall not be carried out once their senders have been told.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |order: &Order| now.since(order.since) >= PEER_TIMEOUT;
        let is_late = |order: &mut Order| now.since(order.since) >= PEER_TIMEOUT + TAKEN_BACK_WITHIN;
        let mut over = Vec::new();
        for outgoing in self.outgoing.values_mut() {
            if let Some(sent) = &mut outgoing.sent {
                let given_up = sent.order.take_if(|order| is_over(order));
                sent.given_up = given_up.or(sent.given_up.take());
                over.extend(sent.given_up.take_if(is_late));
            }
            for orders in outgoing.waiting.values_mut() {
                // The oldest is the first.
                while orders.front().is_some_and(is_over) {
                    over.extend(orders.pop_front());
                }
            }
            outgoing.waiting.retain(|_, orders| !orders.is_empty());
        }
        for order in over {
            self.undelivered(order.kill, Undelivered::NoAnswer);
        }
    }

    /// The question that is to be asked at once, if any.
    pub(super) fn due(&self, now: Instant) -> Option<PeersQuestion> {
        if self.refused.is_some_and(|at| now < at + REFUSED_FOR) {
            return None;
        }
        let of_incoming = self.incoming.iter().find_map(|(&connection, incoming)| match incoming {
            _ if incoming.has_old_answer() => Some(PeersQuestion::ForgetAnswer(connection)),
            _ if incoming.verdict.is_some() => Some(PeersQuestion::Answer(connection)),
            _ if incoming.is_there => Some(PeersQuestion::ReadLetter(connection)),
            _ => None,
        });
        of_incoming.or_else(|| {
            self.outgoing.iter().find_map(|(&connection, outgoing)| match &outgoing.sent {
                Some(sent) => sent.order.is_none().then_some(PeersQuestion::Withdraw(connection)),
                None => (!outgoing.waiting.is_empty()).then_some(PeersQuestion::Post(connection)),
            })
        })
    }

    /// The time of the next look, where that is sooner than usual.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let is_lively = self.lively_until.is_some_and(|until| now < until) && !self.incoming.is_empty();
        let waits = self.outgoing.values().any(|outgoing| outgoing.sent.is_some());
        (is_lively || waits).then(|| self.looked.map_or(now, |at| at + QUICK))
    }

    pub(super) fn is_asked(&mut self, now: Instant, own: u64, question: PeersQuestion) {
        match question {
            PeersQuestion::Holders | PeersQuestion::Mail => {
                self.looked = Some(now);
                self.looks = self.looks().collect();
            }
            PeersQuestion::Post(connection) => self.begin(connection, own),
            _ => {}
        }
    }

    fn looks(&self) -> impl Iterator<Item = Look> {
        let letters = self.incoming.keys().map(|&connection| Look::Letter(connection));
        letters.chain(self.outgoing.iter().flat_map(|(&connection, outgoing)| {
            let number = outgoing.sent.as_ref().filter(|sent| sent.order.is_some()).map(|sent| sent.number);
            let verdicts = number.map(|number| {
                (0..VERDICTS.len()).map(move |verdict| Look::Answer { connection, number, verdict })
            });
            verdicts.into_iter().flatten()
        }))
    }

    /// The columns of a look, each with a comma behind it.
    pub(super) fn columns(&self, own: u64) -> String {
        let Some(key) = &self.key else { return String::new() };
        let mut text = String::new();
        for look in self.looks() {
            let name = match look {
                Look::Letter(from) => key.letter(from, own),
                Look::Answer { connection, number, verdict } => key.answer(own, connection, number, verdict),
            };
            let _ = write!(text, "IS_USED_LOCK('{name}'), ");
        }
        text
    }

    /// The other questions, as the server is asked by the connection `own`.
    pub(super) fn text(&self, own: u64, question: PeersQuestion) -> String {
        self.key
            .as_ref()
            .and_then(|key| self.text_of(key, own, question))
            .unwrap_or_else(|| String::from("DO 0"))
    }

    fn text_of(&self, key: &LetterKey, own: u64, question: PeersQuestion) -> Option<String> {
        Some(match question {
            PeersQuestion::ReadLetter(from) => {
                let name = key.letter(from, own);
                let bits: Vec<_> = (0..BITS)
                    .map(|bit| format!("IFNULL(IS_USED_LOCK('{name}.{bit}') = {from}, 0)"))
                    .collect();
                format!("SELECT CONCAT({}) AS letter", bits.join(", "))
            }
            PeersQuestion::Post(to) => {
                let name = key.letter(own, to);
                let order = self.outgoing.get(&to)?.next()?;
                let bits = key.encode(own, to, &self.content(self.number.wrapping_add(1), order));
                let taken: Vec<_> = set(&bits).map(|bit| format!("GET_LOCK('{name}.{bit}', 0)")).collect();
                let (all, count) = (taken.join(", "), taken.len());
                format!("SELECT IF(CONCAT({all}) = REPEAT('1', {count}), GET_LOCK('{name}', 0), 0) AS sent")
            }
            PeersQuestion::Withdraw(to) => {
                let name = key.letter(own, to);
                let mut text = format!("SELECT CONCAT_WS('', RELEASE_LOCK('{name}')");
                for bit in set(&self.outgoing.get(&to)?.sent.as_ref()?.bits) {
                    let _ = write!(text, ", RELEASE_LOCK('{name}.{bit}')");
                }
                text + ") AS withdrawn"
            }
            PeersQuestion::Answer(from) => {
                let incoming = self.incoming.get(&from)?;
                let name = key.answer(from, own, incoming.latest, incoming.verdict?);
                format!("SELECT GET_LOCK('{name}', 0)")
            }
            PeersQuestion::ForgetAnswer(from) => {
                let (number, verdict) = self.incoming.get(&from)?.answered?;
                let name = key.answer(from, own, number, verdict);
                format!("SELECT RELEASE_LOCK('{name}')")
            }
            _ => format!("SELECT {}1", self.columns(own)),
        })
    }

    fn content(&self, number: u32, order: &Order) -> Content {
        Content::new(number, &order.kill, self.latest(order.since))
    }

    /// The next that waits is on its way.
    fn begin(&mut self, to: u64, own: u64) {
        let Some(order) = self.outgoing.get_mut(&to).and_then(Outgoing::pop) else { return };
        self.number = self.number.wrapping_add(1);
        let Some(key) = &self.key else { return };
        let bits = key.encode(own, to, &self.content(self.number, &order));
        let sent = Some(Sent { number: self.number, bits, order: Some(order), given_up: None });
        self.outgoing.entry(to).or_default().sent = sent;
    }

    /// The number of columns that a look has.
    pub(super) fn width(&self) -> usize {
        self.looks.len()
    }

    /// Takes in a look: who holds each of the locks.
    pub(super) fn take_looks(&mut self, columns: &[Option<Vec<u8>>]) {
        for (look, column) in std::mem::take(&mut self.looks).into_iter().zip(columns) {
            let holder = number(Some(column));
            match look {
                Look::Letter(connection) => {
                    let Some(incoming) = self.incoming.get_mut(&connection) else { continue };
                    incoming.is_there = holder == Some(connection);
                    incoming.was_there = incoming.is_there;
                }
                Look::Answer { connection, number, verdict } if holder == Some(connection) => {
                    let sent = self.outgoing.get_mut(&connection).and_then(|outgoing| outgoing.sent.as_mut());
                    let order = sent.filter(|sent| sent.number == number).and_then(|sent| sent.order.take());
                    if let Some(order) = order {
                        self.deliveries.push_back(Delivery::Outcome(order.kill, VERDICTS[verdict]));
                    }
                }
                Look::Answer { .. } => {}
            }
        }
    }

    /// Takes in the answer to one of the other questions, of the connection `own`; `None` where the server has refused it.
    pub(super) fn take(&mut self, now: Instant, own: u64, question: PeersQuestion, field: Option<&[u8]>) {
        let done = field == Some(b"1");
        match question {
            PeersQuestion::ReadLetter(connection) => self.take_letter(now, own, connection, field),
            PeersQuestion::Post(connection) => {
                let sent = self.outgoing.get_mut(&connection).and_then(|outgoing| outgoing.sent.as_mut());
                if let Some(order) = sent.filter(|_| !done).and_then(|sent| sent.order.take()) {
                    self.undelivered(order.kill, Undelivered::NoLocks);
                }
            }
            // What is still held would be a part of the next letter.
            _ if field.is_none() => self.refused = Some(now),
            PeersQuestion::Withdraw(connection) => {
                let sent = self.outgoing.get_mut(&connection).and_then(|outgoing| outgoing.sent.take());
                if let Some(order) = sent.and_then(|sent| sent.given_up) {
                    self.undelivered(order.kill, Undelivered::NoAnswer);
                }
            }
            PeersQuestion::Answer(connection) => {
                let Some(incoming) = self.incoming.get_mut(&connection) else { return };
                // Where somebody else holds the lock, the sender hears nothing.
                let verdict = incoming.verdict.take();
                incoming.answered = verdict.filter(|_| done).map(|verdict| (incoming.latest, verdict));
                self.lively_until = Some(now + LIVELY);
            }
            PeersQuestion::ForgetAnswer(connection) => {
                if let Some(incoming) = self.incoming.get_mut(&connection) {
                    incoming.answered = None;
                }
            }
            _ => {}
        }
    }

    fn take_letter(&mut self, now: Instant, own: u64, from: u64, field: Option<&[u8]>) {
        let (earliest, latest) = (self.earliest(now), self.latest(now));
        let Some(incoming) = self.incoming.get_mut(&from) else { return };
        incoming.is_there = false;
        let read = self.key.as_ref().zip(field).and_then(|(key, field)| key.decode(from, own, field));
        let Some(Content { number, victim, query_only, rights, said }) = read else { return };
        if number <= incoming.latest {
            return;
        }
        incoming.latest = number;
        incoming.verdict = None;
        self.lively_until = Some(now + LIVELY);
        // By such clocks it may have been said a little later than now.
        let age_at = |time: u32| {
            let age = Some(time.wrapping_sub(said)).filter(|&age| age <= u32::MAX / 2).unwrap_or(0);
            Duration::from_millis(age.into())
        };
        if age_at(latest) <= CARRIED_OUT_FOR {
            let age = age_at(earliest);
            let sender = Sender { connection: from, number };
            self.deliveries.push_back(Delivery::Kill { sender, victim, query_only, rights, age });
        }
    }
}

impl Outgoing {
    /// Adds one more order. Returns an order that there is no room for.
    fn push(&mut self, order: Order) -> Option<Order> {
        self.waiting.entry(order.kill.rights.owner).or_default().push_back(order);
        if self.waiting.values().map(VecDeque::len).sum::<usize>() <= MOST_WAITING {
            return None;
        }
        // It is the crowd that loses its newest.
        let crowd = self.waiting.values_mut().max_by_key(|orders| orders.len())?;
        let newest = crowd.pop_back();
        self.waiting.retain(|_, orders| !orders.is_empty());
        newest
    }

    /// The owner that has the next turn.
    fn next_owner(&self) -> Option<ClientOwner> {
        let behind = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.waiting.range((behind, Bound::Unbounded)).next();
        next.or_else(|| self.waiting.first_key_value()).map(|(&owner, _)| owner)
    }

    fn next(&self) -> Option<&Order> {
        self.waiting.get(&self.next_owner()?)?.front()
    }

    /// Takes [`Self::next`].
    fn pop(&mut self) -> Option<Order> {
        let owner = self.next_owner()?;
        let orders = self.waiting.get_mut(&owner)?;
        let order = orders.pop_front();
        if orders.is_empty() {
            self.waiting.remove(&owner);
        }
        self.turn = Some(owner);
        order
    }

    /// Takes the KILLs that nobody has answered.
    fn take_kills(&mut self) -> Vec<Kill> {
        let sent = self.sent.as_mut().and_then(|sent| sent.order.take().or(sent.given_up.take()));
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        sent.into_iter().chain(waiting).map(|order| order.kill).collect()
    }
}

impl Incoming {
    /// True where the sender has read the answer, or does not wait for it any more.
    fn has_old_answer(&self) -> bool {
        self.answered.is_some_and(|(number, _)| !self.was_there || number != self.latest)
    }
}
