//! What clients do in a run: they connect, send their statements one after the other, and give up when it takes too long.

use std::borrow::Cow;

use super::client::{self, Client, Heard, Phase, ROLLBACK};
use super::scenario::{Accounts, Group, Place, Row};
use super::server::user_of_account;
use super::statement::{Action, Origin, Statement};
use super::worker::{Arrival, End};
use super::world::{ClientEvent, Happening, LATENCY, World, micros};

/// How long a client waits before it connects again after a refusal: what drivers and frameworks do when told to.
const RECONNECT: u64 = 100_000;

/// How long a client waits after an error before it begins anew, where its own pauses are shorter.
const AFTER_ERROR: u64 = 10_000;

/// Draws that are for a client's own choices, apart from those of the server.
const ROW: u64 = 11;
const THINK: u64 = 12;
const PAUSE: u64 = 13;
const ACCOUNT: u64 = 14;

impl World<'_> {
    /// A client connects, for the first time or again.
    pub(super) fn client_connects(&mut self, id: u32) {
        let place = self.group_of(id).place;
        let workers = self.workers.len();
        let turn = self.accepted as usize;
        self.accepted += 1;
        let worker = match place {
            Place::Everywhere => turn % workers,
            Place::Worker(worker) => worker as usize,
            Place::NotWorker(without) => {
                let at = turn % (workers - 1);
                if at >= without as usize { at + 1 } else { at }
            }
        };
        let connection = self.workers[worker].open(End::Client(id));
        let client = &mut self.clients[id as usize];
        client.worker = u16::try_from(worker).expect("few workers");
        client.connection = connection;
        client.connected = self.now;
        client.phase = Phase::Connecting;
        client.stamp = client.stamp.wrapping_add(1);
        self.send_to_worker(worker, Arrival::Login(connection));
    }

    /// The engine has sent something to a client.
    pub(super) fn client_hears(&mut self, id: u32, bytes: &[u8]) {
        let schema = self.group_of(id).schema;
        // Nothing but the greeting is answered with it.
        let greeted = self.clients[id as usize].phase == Phase::Connecting;
        let user = if greeted { self.user_of(id) } else { Cow::Borrowed("") };
        let client = &mut self.clients[id as usize];
        let stamp = client.stamp;
        let event = match (client::hear(client.phase, &user, schema, bytes), client.phase) {
            (Heard::Greeting(answer), _) => {
                client.phase = Phase::LoggingIn;
                let worker = usize::from(client.worker);
                let connection = client.connection;
                // There and back; what it takes to get here is left out.
                return self.send_to_worker(worker, Arrival::Bytes(connection, answer));
            }
            (Heard::Part, _) => return client.phase = Phase::Reading,
            (Heard::Ok, Phase::LoggingIn) => ClientEvent::LoggedIn,
            (Heard::Error(_), Phase::Connecting | Phase::LoggingIn) => ClientEvent::Closed,
            (Heard::Ok, _) => ClientEvent::Answer(0),
            (Heard::Error(code), _) => ClientEvent::Answer(code),
        };
        self.plan(self.now + LATENCY, Happening::Client(id, stamp, event));
    }

    /// The engine has closed a client's connection.
    pub(super) fn client_is_closed(&mut self, id: u32) {
        let stamp = self.clients[id as usize].stamp;
        self.plan(self.now + LATENCY, Happening::Client(id, stamp, ClientEvent::Closed));
    }

    pub(super) fn client_event(&mut self, id: u32, stamp: u16, event: ClientEvent) {
        if self.clients[id as usize].stamp != stamp {
            return;
        }
        match event {
            ClientEvent::LoggedIn => self.logged_in(id),
            ClientEvent::Send => self.send_next(id),
            ClientEvent::Answer(code) => self.answered(id, code),
            ClientEvent::Impatient => self.give_up(id),
            ClientEvent::Closed => self.closed(id),
        }
    }

    /// A statement has begun on the server.
    pub(super) fn statement_begins(&mut self, origin: Origin) {
        let counts = self.now >= self.measure_from;
        self.outcome.begun += u64::from(counts);
        // One that any client may have sent is followed to nobody.
        let Some(client) = self.clients.get_mut(origin.client as usize) else { return };
        let waits = matches!(client.phase, Phase::Waiting | Phase::Reading) && client.number == origin.number;
        if !waits {
            self.outcome.for_nobody += u64::from(counts);
        } else if client.begun == 0 {
            client.begun = self.now;
        }
    }

    /// A statement that is not answered at the end of the run.
    pub(super) fn note_unanswered(&mut self, client: &Client) {
        let Some(class) = self.class_of(client) else { return };
        let so_far = self.end - client.sent;
        let class = &mut self.outcome.classes[class];
        class.unanswered += 1;
        class.note(client.sent.saturating_sub(self.start), None, so_far);
        if client.begun == 0 {
            class.waited.record(so_far);
        }
    }

    fn group_of(&self, id: u32) -> &Group {
        &self.scenario.groups[usize::from(self.clients[id as usize].group)]
    }

    /// As whom a client logs in.
    fn user_of(&self, id: u32) -> Cow<'static, str> {
        match self.group_of(id).accounts {
            Accounts::One(user) => Cow::Borrowed(user),
            several => Cow::Owned(user_of_account(several.of_client(self.seed, id).unwrap_or_default())),
        }
    }

    /// Under which class the client's present statement is measured.
    fn class_of(&self, client: &Client) -> Option<usize> {
        self.class_of[usize::from(client.group)].get(usize::from(client.step)).copied()
    }

    fn logged_in(&mut self, id: u32) {
        let group = self.group_of(id);
        let (from, spread, clients) = (micros(group.from), micros(group.spread), u64::from(group.clients));
        let first = self.first_of_group(id);
        let client = &mut self.clients[id as usize];
        self.outcome.logins += 1;
        self.outcome.longest_login = self.outcome.longest_login.max(self.now - client.connected);
        let place = u64::from(id - first);
        let at = if client.number == 0 { self.start + from + spread * place / clients } else { self.now };
        let at = at.max(self.now);
        self.wait_until(id, at);
    }

    /// The id of the first client of a client's group.
    fn first_of_group(&self, id: u32) -> u32 {
        let group = usize::from(self.clients[id as usize].group);
        self.scenario.groups[..group].iter().map(|group| group.clients).sum()
    }

    /// The client sends its next statement at a time.
    fn wait_until(&mut self, id: u32, at: u64) {
        let client = &mut self.clients[id as usize];
        client.stamp = client.stamp.wrapping_add(1);
        client.phase = Phase::Thinking;
        let stamp = client.stamp;
        if at <= self.end {
            self.plan(at, Happening::Client(id, stamp, ClientEvent::Send));
        }
    }

    fn send_next(&mut self, id: u32) {
        let group = self.group_of(id);
        let (until, times, patience) = (micros(group.until), group.times, group.patience.map(micros));
        let program_step = group.program.get(usize::from(self.clients[id as usize].step)).copied();
        let client = &mut self.clients[id as usize];
        let over = self.now.saturating_sub(self.start) >= until || client.rounds >= times;
        if client.step == 0 && over {
            client.phase = Phase::Finished;
            return;
        }
        client.number += 1;
        client.sent = self.now;
        client.begun = 0;
        client.stamp = client.stamp.wrapping_add(1);
        client.phase = Phase::Waiting;
        let client = *client;
        let origin = Origin { client: id, number: client.number };
        let statement = match program_step {
            Some(step) => {
                let row = match step.row {
                    Row::Own => u64::from(id),
                    Row::Same(row) => row,
                    Row::Among(count) => origin.bits(self.seed, ROW) % count,
                    Row::Popular(count) => popular(origin.bits(self.seed, ROW), count),
                };
                Statement { action: step.action, table: step.table, row }
            }
            None => Statement { action: Action::Rollback, table: 0, row: 0 },
        };
        let common = program_step.is_some_and(|step| matches!(step.row, Row::Popular(_)));
        let origin = if common { Origin::NOBODY } else { origin };
        let bytes = client::query(&statement.text(origin));
        let worker = usize::from(client.worker);
        self.send_to_worker(worker, Arrival::Bytes(client.connection, bytes));
        if let Some(patience) = patience {
            let impatient = Happening::Client(id, client.stamp, ClientEvent::Impatient);
            self.plan(self.now + patience, impatient);
        }
    }

    fn answered(&mut self, id: u32, code: u16) {
        let client = self.clients[id as usize];
        self.note_answer(&client, code);
        let origin = Origin { client: id, number: client.number };
        let group = self.group_of(id);
        let think = group.think.draw(origin.bits(self.seed, THINK));
        let (last, step) = (group.program.len() - 1, usize::from(client.step));
        let pause = group.program.get(step).map_or(0, |step| step.then.draw(origin.bits(self.seed, PAUSE)));
        let inside = step != usize::from(ROLLBACK) && step > 0;
        let (next, rounds, wait) = match code {
            // The rest of a transaction is pointless.
            1.. if inside => (ROLLBACK, 0, 0),
            1.. => (0, 0, think.max(AFTER_ERROR)),
            0 if step >= last => (0, u32::from(client.step != ROLLBACK), pause + think),
            0 => (client.step + 1, 0, pause),
        };
        let known = &mut self.clients[id as usize];
        known.step = next;
        known.rounds += rounds;
        self.wait_until(id, self.now + wait);
    }

    fn note_answer(&mut self, client: &Client, code: u16) {
        let (from, end) = (self.measure_from, self.end);
        if self.now < from || self.now > end {
            return;
        }
        let Some(class) = self.class_of(client) else { return };
        let class = &mut self.outcome.classes[class];
        let (response, sent, now) = (self.now - client.sent, client.sent, self.now);
        if code != 0 {
            *class.errors.entry(code).or_default() += 1;
            return;
        }
        class.response.record(response);
        // The way to the server is no waiting.
        let ways = LATENCY + self.scenario.server.distance;
        let begun = if client.begun == 0 { now } else { client.begun };
        class.waited.record((begun - sent).saturating_sub(ways));
        class.note(sent.saturating_sub(self.start), Some(now - self.start), response);
    }

    /// The client hangs up, connects again and repeats its statement, or the whole of what it belonged to.
    fn give_up(&mut self, id: u32) {
        let client = self.clients[id as usize];
        if self.now >= self.measure_from
            && let Some(class) = self.class_of(&client)
        {
            let class = &mut self.outcome.classes[class];
            class.given_up += 1;
            class.note(client.sent.saturating_sub(self.start), None, self.now - client.sent);
            self.outcome.left += u64::from(client.begun > 0);
        }
        let worker = usize::from(client.worker);
        if self.workers[worker].end(client.connection) == End::Client(id) {
            self.workers[worker].hang_up(client.connection);
            self.send_to_worker(worker, Arrival::Closed(client.connection));
        }
        self.clients[id as usize].step = 0;
        self.client_connects(id);
    }

    /// The client was refused, or its connection has ended: it comes again a little later.
    fn closed(&mut self, id: u32) {
        let client = &mut self.clients[id as usize];
        if matches!(client.phase, Phase::Connecting | Phase::LoggingIn) {
            self.outcome.refused_logins += 1;
        }
        client.phase = Phase::Away;
        client.step = 0;
        client.stamp = client.stamp.wrapping_add(1);
        // A refusal is followed by a close: whichever comes first.
        let (worker, connection) = (usize::from(client.worker), client.connection);
        if self.workers[worker].end(connection) == End::Client(id) {
            self.workers[worker].hang_up(connection);
            self.send_to_worker(worker, Arrival::Closed(connection));
        }
        self.plan(self.now + RECONNECT, Happening::Arrive(id));
    }
}

impl Accounts {
    /// The number of a client's account; `None` where all have the same.
    pub(super) fn of_client(self, seed: u64, client: u32) -> Option<u32> {
        match self {
            Self::One(_) => None,
            Self::InTurn(count) => Some(client % count),
            Self::Popular(count) => {
                let bits = Origin { client, number: 0 }.bits(seed, ACCOUNT);
                Some(u32::try_from(popular(bits, u64::from(count))).expect("below a u32"))
            }
        }
    }
}

/// A row below `count`: all powers of two of it are drawn as often, and within one all rows.
fn popular(bits: u64, count: u64) -> u64 {
    let powers = u64::from(count.max(1).ilog2()) + 1;
    let first = 1 << ((bits >> 32) % powers);
    (first - 1 + (bits & u64::from(u32::MAX)) % first).min(count - 1)
}
