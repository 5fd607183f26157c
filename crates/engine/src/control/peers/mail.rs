//! Letters between Onramps: a KILL that has come to another Onramp than the one that has the client.
//!
//! A letter is a set of named locks on the server, which the sender's service account takes: one for each bit of it that is set, and then one
//! that says that it is there. Its recipient asks for that one along with the slots. It reads the bits in one statement, does what they say, and
//! takes a lock that says what has come of it. Then the sender gives its locks back, and the recipient its own. Nothing is left of
//! one that dies, since locks go with their connection.
//!
//! - Anybody can take a named lock. A lock counts only where its holder is the connection of a peer, which the server has said to be the service
//!   account's. Whoever takes such locks can keep letters from being sent, and can forge none.
//! - The names have the number of the recipient's connection in them. What was meant for a former connection is never read by the next one.
//! - Bits vanish one after the other when the sender's connection ends. So a letter ends with the count of its bits that are not set: a lost
//!   bit makes the one larger or the other smaller, and never both agree again (Berger's code).
//! - Letters have numbers, and the lock of an answer has its letter's number in its name: no answer is taken for another letter's, and no
//!   letter is carried out twice.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use seam::Instant;

use super::{PeersQuestion, number};
use crate::workers::letter::{Kill, Outcome, Rights, Undelivered};

/// Names of locks. With two numbers of 20 digits, a slot and a bit's or answer's number they fit a lock of MySQL (64 characters).
const LETTER: &str = "onramp.letter.";
const ANSWER: &str = "onramp.answer.";

/// As long as letters are under way, both sides look so often: a KILL is of use while somebody waits for it, and such a look takes the server
/// less than a tenth of a millisecond.
const QUICK: Duration = Duration::from_millis(20);

/// The recipient looks as often for so long behind the latest letter: where one is cancelled, others are.
const LIVELY: Duration = Duration::from_secs(1);

/// A client waits so long for a peer to answer. The peer looks once a second; the rest is for one that is busy, or whose server is.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// So many KILLs may wait for one peer: about what becomes of them within [`PEER_TIMEOUT`], at one for each [`QUICK`].
const MOST_WAITING: usize = 256;

/// The number, the client's id, what kind of KILL it is, and by whom: see [`encode`].
const LETTER_BYTES: usize = 4 + 4 + 1 + 16;
const BITS: usize = (LETTER_BYTES + 1) * 8;

/// The bits of a letter, in bytes. The last one has the count.
type Bits = [u8; LETTER_BYTES + 1];

/// What has come of a letter, as a lock says it.
const VERDICTS: [Outcome; 3] = [Outcome::Done, Outcome::NoSuchClient, Outcome::Denied];

/// Which connection of a peer's has sent a letter, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) connection: u64,
    pub(crate) number: u32,
}

/// What has come by mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// A peer wants a client of ours killed, and waits to hear what has come of it.
    Kill { sender: Sender, victim: u32, query_only: bool, rights: Rights },
    /// That has come of a KILL of ours.
    Outcome(Kill, Outcome),
}

/// This Onramp's letters on one server.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// Of the latest letter.
    number: u32,
    /// By the connections of those they are for.
    outgoing: BTreeMap<u64, Outgoing>,
    /// By the connections of those they are from: each peer has an entry.
    incoming: BTreeMap<u64, Incoming>,
    looked: Option<Instant>,
    /// What was looked for then, in the order of the answer's columns.
    looks: Vec<Look>,
    lively_until: Option<Instant>,
    deliveries: VecDeque<Delivery>,
}

/// What is for one peer.
#[derive(Debug, Default)]
struct Outgoing {
    waiting: VecDeque<Order>,
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Order {
    kill: Kill,
    since: Instant,
}

/// A letter whose locks are held, or about to be taken.
#[derive(Debug)]
struct Sent {
    number: u32,
    bits: Bits,
    /// `None` once it is of no use any more: its locks are to be given back.
    order: Option<Order>,
}

/// What is from one peer.
#[derive(Debug, Default)]
struct Incoming {
    /// The slot of the sender, which is in the names of its letters.
    slot: u32,
    /// The number of the latest letter; they begin at 1.
    latest: u32,
    /// A letter is there, and is to be read: it may be the latest one still.
    is_there: bool,
    /// There was one at the last look.
    was_there: bool,
    /// What has come of the latest, as long as the sender has not been told.
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

/// This Onramp, as its peers see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) connection: u64,
    pub(super) slot: u32,
}

impl Mail {
    /// The service account has another connection: nothing that was under way is any more.
    pub(super) fn asked_anew(&mut self) {
        let outgoing = std::mem::take(&mut self.outgoing);
        for kill in outgoing.into_values().flat_map(Outgoing::kills) {
            self.undelivered(kill, Undelivered::PeerGone);
        }
        self.incoming.clear();
        self.looks.clear();
        self.looked = None;
    }

    /// The peers that are there, with their slots. What was for others comes back, and what was from them is forgotten.
    pub(super) fn know(&mut self, peers: &BTreeMap<u64, u32>) {
        for (&connection, &slot) in peers {
            self.incoming.entry(connection).or_default().slot = slot;
        }
        self.incoming.retain(|connection, incoming| {
            let stays = peers.contains_key(connection);
            if !stays {
                (incoming.is_there, incoming.was_there, incoming.verdict) = (false, false, None);
            }
            stays || incoming.answered.is_some()
        });
        let mut lost = Vec::new();
        self.outgoing.retain(|connection, outgoing| {
            if !peers.contains_key(connection) {
                lost.extend(outgoing.take_kills());
            }
            outgoing.sent.is_some() || peers.contains_key(connection)
        });
        for kill in lost {
            self.undelivered(kill, Undelivered::PeerGone);
        }
    }

    /// A client's KILL for the peer with this connection.
    pub(super) fn send(&mut self, now: Instant, connection: u64, kill: Kill) {
        let waiting = &mut self.outgoing.entry(connection).or_default().waiting;
        if waiting.len() < MOST_WAITING {
            waiting.push_back(Order { kill, since: now });
        } else {
            self.undelivered(kill, Undelivered::TooMany);
        }
    }

    pub(super) fn undelivered(&mut self, kill: Kill, why: Undelivered) {
        self.deliveries.push_back(Delivery::Outcome(kill, Outcome::Undelivered(why)));
    }

    /// The oldest that has not been taken in.
    pub(super) fn next_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// That has come of a peer's letter.
    pub(super) fn settle(&mut self, sender: Sender, outcome: Outcome) {
        if let Some(incoming) = self.incoming.get_mut(&sender.connection)
            && incoming.latest == sender.number
        {
            incoming.verdict = VERDICTS.iter().position(|&verdict| verdict == outcome);
        }
    }

    /// Gives up letters that nobody has answered in time. They shall not be carried out once their senders have been told.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |order: &Order| now.since(order.since) >= PEER_TIMEOUT;
        let mut over = Vec::new();
        for outgoing in self.outgoing.values_mut() {
            over.extend(outgoing.sent.as_mut().and_then(|sent| sent.order.take_if(|order| is_over(order))));
            // The oldest is the first.
            while outgoing.waiting.front().is_some_and(is_over) {
                over.extend(outgoing.waiting.pop_front());
            }
        }
        for order in over {
            self.undelivered(order.kill, Undelivered::NoAnswer);
        }
    }

    /// What is to be done at once, if anything.
    pub(super) fn due(&self) -> Option<PeersQuestion> {
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

    /// When to look the next time, where that is sooner than usual.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let is_lively = self.lively_until.is_some_and(|until| now < until) && !self.incoming.is_empty();
        let waits = self.outgoing.values().any(|outgoing| outgoing.sent.is_some());
        let is_asked =
            self.incoming.values().any(|incoming| incoming.was_there || incoming.answered.is_some());
        (is_lively || waits || is_asked).then(|| self.looked.map_or(now, |at| at + QUICK))
    }

    pub(super) fn is_asked(&mut self, now: Instant, question: PeersQuestion) {
        match question {
            PeersQuestion::Holders | PeersQuestion::Mail => {
                self.looked = Some(now);
                self.looks = self.looks().collect();
            }
            PeersQuestion::Post(connection) => self.begin(connection),
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
    pub(super) fn columns(&self, own: Own) -> String {
        let mut text = String::new();
        for look in self.looks() {
            let name = match look {
                Look::Letter(from) => letter(own.connection, self.incoming[&from].slot),
                Look::Answer { number, verdict, .. } => answer(own, number, verdict),
            };
            let _ = write!(text, "IS_USED_LOCK('{name}'), ");
        }
        text
    }

    /// The other questions, as the server is asked.
    pub(super) fn text(&self, own: Own, question: PeersQuestion) -> String {
        match question {
            PeersQuestion::ReadLetter(from) => {
                let name =
                    letter(own.connection, self.incoming.get(&from).map_or(0, |incoming| incoming.slot));
                let bits: Vec<_> = (0..BITS)
                    .map(|bit| format!("IFNULL(IS_USED_LOCK('{name}.{bit}') = {from}, 0)"))
                    .collect();
                format!("SELECT CONCAT({}) AS letter", bits.join(", "))
            }
            PeersQuestion::Post(to) => {
                let name = letter(to, own.slot);
                let next = self.outgoing.get(&to).and_then(|outgoing| outgoing.waiting.front());
                let bits = next.map_or([0; _], |order| encode(self.number.wrapping_add(1), &order.kill));
                let taken: Vec<_> = set(&bits).map(|bit| format!("GET_LOCK('{name}.{bit}', 0)")).collect();
                format!(
                    "SELECT IF({} = {}, GET_LOCK('{name}', 0), 0) AS sent",
                    taken.join(" + "),
                    taken.len()
                )
            }
            PeersQuestion::Withdraw(to) => {
                let name = letter(to, own.slot);
                let sent = self.outgoing.get(&to).and_then(|outgoing| outgoing.sent.as_ref());
                let bits = sent.map_or([0; _], |sent| sent.bits);
                let mut text = format!("SELECT CONCAT_WS('', RELEASE_LOCK('{name}')");
                for bit in set(&bits) {
                    let _ = write!(text, ", RELEASE_LOCK('{name}.{bit}')");
                }
                text + ") AS withdrawn"
            }
            PeersQuestion::Answer(from) => {
                let said =
                    self.incoming.get(&from).and_then(|incoming| Some((incoming.latest, incoming.verdict?)));
                let (number, verdict) = said.unwrap_or_default();
                let name = answer(self.sender(from), number, verdict);
                format!("SELECT GET_LOCK('{name}', 0)")
            }
            PeersQuestion::ForgetAnswer(from) => {
                let said = self.incoming.get(&from).and_then(|incoming| incoming.answered);
                let (number, verdict) = said.unwrap_or_default();
                let name = answer(self.sender(from), number, verdict);
                format!("SELECT RELEASE_LOCK('{name}')")
            }
            _ => format!("SELECT {}1", self.columns(own)),
        }
    }

    fn sender(&self, connection: u64) -> Own {
        Own { connection, slot: self.incoming.get(&connection).map_or(0, |incoming| incoming.slot) }
    }

    /// The first that waits is on its way.
    fn begin(&mut self, connection: u64) {
        let Some(outgoing) = self.outgoing.get_mut(&connection) else { return };
        let Some(order) = outgoing.waiting.pop_front() else { return };
        self.number = self.number.wrapping_add(1);
        let bits = encode(self.number, &order.kill);
        outgoing.sent = Some(Sent { number: self.number, bits, order: Some(order) });
    }

    /// How many columns a look has.
    pub(super) fn width(&self) -> usize {
        self.looks.len()
    }

    /// Takes in a look: who holds each of the locks.
    pub(super) fn take_looks(&mut self, now: Instant, columns: &[Option<Vec<u8>>]) {
        for (look, column) in std::mem::take(&mut self.looks).into_iter().zip(columns) {
            let holder = number(Some(column));
            match look {
                Look::Letter(connection) => {
                    let Some(incoming) = self.incoming.get_mut(&connection) else { continue };
                    incoming.is_there = holder == Some(connection);
                    incoming.was_there = incoming.is_there;
                    if incoming.is_there {
                        self.lively_until = Some(now + LIVELY);
                    }
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

    /// Takes in the answer to one of the other questions; `None` where the server has refused it.
    pub(super) fn take(&mut self, question: PeersQuestion, field: Option<&[u8]>) {
        let done = field == Some(b"1");
        match question {
            PeersQuestion::ReadLetter(connection) => {
                let Some(incoming) = self.incoming.get_mut(&connection) else { return };
                incoming.is_there = false;
                let Some(read) = field.and_then(decode) else { return };
                if read.number > incoming.latest {
                    incoming.latest = read.number;
                    incoming.verdict = None;
                    let sender = Sender { connection, number: read.number };
                    let Read { victim, query_only, rights, .. } = read;
                    self.deliveries.push_back(Delivery::Kill { sender, victim, query_only, rights });
                }
            }
            PeersQuestion::Post(connection) => {
                let sent = self.outgoing.get_mut(&connection).and_then(|outgoing| outgoing.sent.as_mut());
                if let Some(sent) = sent.filter(|_| !done)
                    && let Some(order) = sent.order.take()
                {
                    self.undelivered(order.kill, Undelivered::LocksTaken);
                }
            }
            PeersQuestion::Withdraw(connection) => {
                if let Some(outgoing) = self.outgoing.get_mut(&connection) {
                    outgoing.sent = None;
                }
            }
            PeersQuestion::Answer(connection) => {
                let Some(incoming) = self.incoming.get_mut(&connection) else { return };
                // Where somebody else holds the lock, the sender hears nothing.
                let verdict = incoming.verdict.take();
                incoming.answered = verdict.filter(|_| done).map(|verdict| (incoming.latest, verdict));
            }
            PeersQuestion::ForgetAnswer(connection) => {
                if let Some(incoming) = self.incoming.get_mut(&connection) {
                    incoming.answered = None;
                }
            }
            _ => {}
        }
    }
}

impl Outgoing {
    /// What nobody has answered.
    fn take_kills(&mut self) -> Vec<Kill> {
        let sent = self.sent.as_mut().and_then(|sent| sent.order.take());
        sent.into_iter().chain(self.waiting.drain(..)).map(|order| order.kill).collect()
    }

    fn kills(mut self) -> Vec<Kill> {
        self.take_kills()
    }
}

impl Incoming {
    /// The sender has read it, or does not wait for it any more.
    fn has_old_answer(&self) -> bool {
        self.answered.is_some_and(|(number, _)| !self.was_there || number != self.latest)
    }
}

/// The lock of a letter for this connection, from the Onramp with that slot.
fn letter(to: u64, from: u32) -> String {
    format!("{LETTER}{to}.{from}")
}

/// The lock that answers a letter.
fn answer(sender: Own, number: u32, verdict: usize) -> String {
    format!("{ANSWER}{}.{}.{number}.{verdict}", sender.connection, sender.slot)
}

/// The bits of these bytes that are set.
fn set(bytes: &Bits) -> impl Iterator<Item = usize> {
    (0..BITS).filter(|bit| bytes[bit / 8] & (1 << (bit % 8)) != 0)
}

const QUERY_ONLY: u8 = 1;
const OF_ALL: u8 = 2;
const BY_SYSTEM_USER: u8 = 4;

fn encode(number: u32, kill: &Kill) -> Bits {
    let mut bits = [0; LETTER_BYTES + 1];
    let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
    let flags = flag(QUERY_ONLY, kill.query_only)
        | flag(OF_ALL, kill.rights.all)
        | flag(BY_SYSTEM_USER, kill.rights.is_system_user);
    bits[..4].copy_from_slice(&number.to_le_bytes());
    bits[4..8].copy_from_slice(&kill.victim.to_le_bytes());
    bits[8] = flags;
    bits[9..LETTER_BYTES].copy_from_slice(&kill.rights.owner);
    bits[LETTER_BYTES] = unset(&bits);
    bits
}

/// How many bits in front of the count are not set.
fn unset(bits: &Bits) -> u8 {
    let count = bits[..LETTER_BYTES].iter().map(|byte| byte.count_zeros()).sum::<u32>();
    u8::try_from(count).expect("there are 200 of them")
}

/// A letter that has been read.
struct Read {
    number: u32,
    victim: u32,
    query_only: bool,
    rights: Rights,
}

/// `None` where bits are missing.
fn decode(text: &[u8]) -> Option<Read> {
    if text.len() != BITS {
        return None;
    }
    let mut bits: Bits = [0; LETTER_BYTES + 1];
    for (bit, _) in text.iter().enumerate().filter(|&(_, &digit)| digit == b'1') {
        bits[bit / 8] |= 1 << (bit % 8);
    }
    if bits[LETTER_BYTES] != unset(&bits) {
        return None;
    }
    let flags = bits[8];
    Some(Read {
        number: u32::from_le_bytes(bits[..4].try_into().ok()?),
        victim: u32::from_le_bytes(bits[4..8].try_into().ok()?),
        query_only: flags & QUERY_ONLY != 0,
        rights: Rights {
            all: flags & OF_ALL != 0,
            is_system_user: flags & BY_SYSTEM_USER != 0,
            owner: bits[9..LETTER_BYTES].try_into().ok()?,
        },
    })
}
