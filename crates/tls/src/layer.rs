//! The layer itself: which connections have TLS, and what of theirs goes where.

use std::cell::Cell;
use std::cmp::Reverse;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use rustls::Error;
use rustls_pki_types::ServerName;
use seam::{ConnectionId, Input, Instant, Output, Program, TlsSession, TlsSide};

use crate::handshake::{Handshake, Outcome, Step};
use crate::outbox::Outbox;
use crate::session::{Buffers, LARGEST_HANDSHAKE, Session};
use crate::turns::Turns;
use crate::{Acceptor, Connector};

/// Handshakes of clients that are away at a time: enough to keep two threads busy from turn to turn. The others wait here, where
/// those that have closed are passed over.
const MOST_AWAY: usize = 4;

/// Said of a peer that sends more than a handshake can have.
const ENDLESS: &str = "its handshake has no end";

/// Said of one that was not worked out.
const LOST: &str = "its handshake met a defect of onramp";

/// A client's first message in TLS has no more, those with keys against quantum computers included; who keeps more than this goes
/// first where there is no memory left.
const USUAL: usize = 2 << 10;

/// A program, with TLS on those of its connections for which it asks.
///
/// In addition to what [`seam`] says: [`Input::Bytes`] and [`Output::Send`] of such a connection are what is inside TLS.
/// [`Input::Stalled`] and [`Input::Drained`] are about what is outside, [`Output::PauseReading`] stops what is outside. A peer
/// that says in TLS that it says no more has closed its connection.
///
/// The long steps of a client's handshake are not done here. At the end of each turn the caller asks [`Tls::poll_handshake`]
/// until there is none. It brings back the outcome of each with [`Tls::take_outcome`] before a turn ends.
pub struct Tls<P> {
    inner: P,
    table: Table,
    outbox: Outbox,
    buffers: Buffers,
    now: Instant,
}

/// The connections that have TLS.
struct Table {
    acceptor: Option<Arc<Acceptor>>,
    connector: Option<Arc<Connector>>,
    /// By the connection's index.
    entries: Vec<Option<Box<Entry>>>,
    /// Handshakes of clients that have something to answer.
    waiting: Turns<ConnectionId>,
    /// Bytes that are kept of clients' handshakes, and the most that there may be.
    held: Rc<Cell<usize>>,
    most: usize,
    /// Handshakes that were handed out and not brought back.
    away: usize,
    /// Connections of which the program is to be told in the next turn that they are of no more use.
    broken: Vec<ConnectionId>,
    /// Connections that the driver has been told to close in this turn. Until its end, bytes that the program still sends are not
    /// to get out in the clear.
    closed: Vec<ConnectionId>,
}

struct Entry {
    generation: u32,
    state: State,
    /// True if the connection is in `waiting`.
    waits: bool,
    /// When it began.
    since: Instant,
    /// Of its bytes, what has been added to the sum.
    counted: usize,
    /// Where the peer is, if it is a client.
    network: Option<IpAddr>,
}

#[allow(clippy::large_enum_variant, reason = "the others are for moments, and it is in a box as it is")]
enum State {
    /// Encrypting, or about to.
    Up(Session),
    /// A step of its handshake is being done elsewhere; meanwhile these bytes have come.
    Away(Vec<u8>),
    /// TLS could not even begin, or broke off while something was sent. The program is told in the next turn.
    Broken(String),
    /// The program has been told of its end; the driver closes it in this turn.
    Over,
}

impl<P: Program> Tls<P> {
    /// A layer around `inner`. Where it asks for a side that is absent here, its connection ends.
    pub fn new(inner: P, acceptor: Option<Arc<Acceptor>>, connector: Option<Arc<Connector>>) -> Self {
        Self {
            inner,
            table: Table {
                acceptor,
                connector,
                entries: Vec::new(),
                waiting: Turns::default(),
                held: Rc::default(),
                most: usize::MAX,
                away: 0,
                broken: Vec::new(),
                closed: Vec::new(),
            },
            outbox: Outbox::default(),
            buffers: Buffers::default(),
            now: Instant::START,
        }
    }

    /// With a bound on the bytes that are kept of clients' handshakes, which `held` tells: beyond it those end that hold most
    /// ([`CloseReason::TooMuchHeld`](seam::CloseReason::TooMuchHeld)).
    #[must_use]
    pub fn bounded(mut self, held: Rc<Cell<usize>>, most: usize) -> Self {
        self.table.held = held;
        self.table.most = most;
        self
    }

    /// The program inside.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// The program inside, without the layer.
    pub fn into_inner(self) -> P {
        self.inner
    }

    /// The next handshake, where one may go out: of each network one in turn.
    pub fn poll_handshake(&mut self) -> Option<Handshake> {
        let Table { waiting, entries, away, .. } = &mut self.table;
        while *away < MOST_AWAY {
            // It may have closed in the meantime.
            let connection = waiting.pop(|&connection| find(entries, connection).is_some())?;
            let entry = find(entries, connection)?;
            entry.waits = false;
            let state = std::mem::replace(&mut entry.state, State::Away(Vec::new()));
            if let State::Up(session) = state {
                *away += 1;
                self.table.count(connection);
                return Some(Handshake::new(connection, session));
            }
            entry.state = state;
        }
        None
    }

    /// A handshake comes back. A turn has to follow, with an end.
    pub fn take_outcome(&mut self, now: Instant, outcome: Outcome) {
        self.now = now;
        self.table.away -= 1;
        let Outcome { connection, step } = outcome;
        let Some(entry) = self.table.entry(connection) else { return };
        let State::Away(arrived) = &mut entry.state else { return };
        let arrived = std::mem::take(arrived);
        let Some(Step { session, buffers, read, secured }) = step else {
            return self.fail(now, connection, LOST);
        };
        entry.state = State::Up(session);
        self.table.count(connection);
        self.buffers = buffers;
        self.deliver(now, connection, secured, read);
        if !arrived.is_empty() {
            self.received(now, connection, &arrived);
        }
    }

    /// Bytes of a connection that has TLS.
    fn received(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        match self.table.keep(connection, bytes) {
            Kept::Yes => self.keep_to_memory(now),
            Kept::TooMuch => self.fail(now, connection, ENDLESS),
            Kept::No => self.decrypt(now, connection, bytes),
        }
    }

    /// Takes in what has come and hands on what was inside.
    fn decrypt(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        let Some(entry) = self.table.entry(connection) else { return };
        let State::Up(session) = &mut entry.state else { return };
        let was_handshaking = session.is_handshaking();
        self.buffers.plain.clear();
        self.buffers.sealed.clear();
        let read = session.read(bytes, &mut self.buffers);
        let secured = (was_handshaking && !session.is_handshaking()).then(|| session.agreed());
        self.deliver(now, connection, secured, read);
    }

    /// Delivers the bytes that a session has left in the buffers, in the order in which they came about, also where the session
    /// has ended.
    fn deliver(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        secured: Option<TlsSession>,
        read: Result<bool, Error>,
    ) {
        self.outbox.send(connection, &self.buffers.sealed);
        if let Some(session) = secured {
            self.inner.handle(now, Input::Secured { connection, session });
        }
        if !self.buffers.plain.is_empty() {
            self.inner.handle(now, Input::Bytes { connection, bytes: &self.buffers.plain });
        }
        match read {
            Ok(false) => {}
            Ok(true) => self.peer_closed(now, connection),
            Err(error) => self.fail(now, connection, &error.to_string()),
        }
    }

    /// The peer says no more: for MySQL's protocol that is the end.
    fn peer_closed(&mut self, now: Instant, connection: ConnectionId) {
        let Some(entry) = self.table.entry(connection) else { return };
        if let State::Up(session) = &mut entry.state {
            self.buffers.sealed.clear();
            session.close(&mut self.buffers);
            self.outbox.send(connection, &self.buffers.sealed);
        }
        entry.state = State::Over;
        self.table.count(connection);
        self.outbox.close(connection);
        self.inner.handle(now, Input::Closed { connection, reason: seam::CloseReason::EndOfStream });
    }

    /// The connection is of no more use; what is to be said of it to the peer is in the outbox.
    fn fail(&mut self, now: Instant, connection: ConnectionId, reason: &str) {
        let Some(entry) = self.table.entry(connection) else { return };
        entry.state = State::Over;
        self.table.count(connection);
        self.outbox.close(connection);
        self.inner.handle(now, Input::TlsFailed { connection, reason });
    }

    /// Ends handshakes where they hold too much together, until a quarter is free, so that all of them are gone through seldom: those
    /// that hold most, and of the usual ones those that began first.
    fn keep_to_memory(&mut self, now: Instant) {
        let Table { held, most, .. } = &self.table;
        if held.get() <= *most {
            return;
        }
        let mut holders = self.table.holders();
        while self.table.held.get() > self.table.most / 4 * 3 {
            let Some((.., connection)) = holders.pop() else { return };
            let Some(entry) = self.table.entry(connection) else { continue };
            entry.state = State::Over;
            self.table.count(connection);
            self.outbox.close(connection);
            let reason = seam::CloseReason::TooMuchHeld;
            self.inner.handle(now, Input::Closed { connection, reason });
        }
    }

    /// Tells the program what has broken since the last turn.
    fn tell_broken(&mut self, now: Instant) {
        for connection in std::mem::take(&mut self.table.broken) {
            // It may have closed in the meantime.
            let Some(entry) = self.table.entry(connection) else { continue };
            if let State::Broken(reason) = &mut entry.state {
                let reason = std::mem::take(reason);
                self.fail(now, connection, &reason);
            }
        }
    }
}

/// The treatment of a connection's bytes.
enum Kept {
    /// They wait for the handshake to go on.
    Yes,
    /// There are too many for a handshake.
    TooMuch,
    /// They can be decrypted at once.
    No,
}

impl Entry {
    /// Bytes of a client's handshake that wait.
    fn kept(&self) -> usize {
        match &self.state {
            State::Up(session) if session.is_server() && session.is_handshaking() => session.kept(),
            State::Away(arrived) => arrived.capacity(),
            State::Up(_) | State::Broken(_) | State::Over => 0,
        }
    }
}

fn find(entries: &mut [Option<Box<Entry>>], connection: ConnectionId) -> Option<&mut Entry> {
    let entry = entries.get_mut(connection.index as usize)?.as_deref_mut()?;
    (entry.generation == connection.generation).then_some(entry)
}

impl Table {
    fn entry(&mut self, connection: ConnectionId) -> Option<&mut Entry> {
        find(&mut self.entries, connection)
    }

    /// Brings the sum up to date.
    fn count(&mut self, connection: ConnectionId) {
        let Some(entry) = find(&mut self.entries, connection) else { return };
        let bytes = entry.kept();
        self.held.set(self.held.get() - entry.counted + bytes);
        entry.counted = bytes;
    }

    /// Returns the connections that something is kept of, the one that is to go first last.
    fn holders(&self) -> Vec<(usize, Reverse<Instant>, ConnectionId)> {
        let entries = self.entries.iter().zip(0_u32..);
        let holders = entries.filter_map(|(entry, index)| {
            let entry = entry.as_deref().filter(|entry| entry.counted > 0)?;
            let connection = ConnectionId { index, generation: entry.generation };
            Some((entry.counted.max(USUAL), Reverse(entry.since), connection))
        });
        let mut holders: Vec<_> = holders.collect();
        holders.sort_unstable();
        holders
    }

    /// The driver closes it in this turn, whatever was said.
    fn abort(&mut self, connection: ConnectionId) {
        if let Some(entry) = self.entry(connection) {
            entry.state = State::Over;
            self.count(connection);
            self.closed.push(connection);
        }
    }

    fn remove(&mut self, connection: ConnectionId) {
        if let Some(entry) = find(&mut self.entries, connection) {
            self.held.set(self.held.get() - entry.counted);
            self.entries[connection.index as usize] = None;
        }
    }

    fn sweep(&mut self) {
        while let Some(connection) = self.closed.pop() {
            self.remove(connection);
        }
    }

    /// Keeps what belongs to a client's handshake.
    fn keep(&mut self, connection: ConnectionId, bytes: &[u8]) -> Kept {
        let Some(entry) = self.entry(connection) else { return Kept::Yes };
        let fits = match &mut entry.state {
            State::Up(session) if session.is_server() && session.is_handshaking() => {
                let fits = session.keep(bytes);
                let (waited, network) = (std::mem::replace(&mut entry.waits, true), entry.network);
                if !waited {
                    self.waiting.push(network, connection);
                }
                fits
            }
            State::Up(_) => return Kept::No,
            State::Away(arrived) => {
                arrived.extend_from_slice(bytes);
                arrived.len() <= LARGEST_HANDSHAKE
            }
            State::Broken(_) | State::Over => true,
        };
        self.count(connection);
        if fits { Kept::Yes } else { Kept::TooMuch }
    }

    /// Keeps what comes ahead of what will come.
    fn keep_for_later(&mut self, connection: ConnectionId, bytes: &[u8]) {
        if let Some(Entry { state: State::Up(session), .. }) = self.entry(connection)
            && !session.keep(bytes)
        {
            self.break_off(connection, String::from(ENDLESS));
        }
    }

    /// Hands on the encrypted form of many bytes as it is, and the buffer with it.
    fn send_whole(
        &mut self,
        connection: ConnectionId,
        bytes: Vec<u8>,
        buffers: &mut Buffers,
    ) -> Output<'static> {
        let Some(entry) = self.entry(connection) else { return Output::SendWhole { connection, bytes } };
        let written = match &mut entry.state {
            State::Up(session) => session.write(&bytes, buffers),
            State::Away(_) => Err(Error::HandshakeNotComplete),
            State::Broken(_) | State::Over => return Output::Send { connection, bytes: &[] },
        };
        if let Err(error) = written {
            self.break_off(connection, error.to_string());
        }
        Output::SendWhole { connection, bytes: std::mem::take(&mut buffers.sealed) }
    }

    /// To be told to the program in the next turn.
    fn break_off(&mut self, connection: ConnectionId, reason: String) {
        if let Some(entry) = self.entry(connection) {
            entry.state = State::Broken(reason);
            self.count(connection);
            self.broken.push(connection);
        }
    }

    /// The program wants TLS from here on. What that sends first is put into the buffers.
    fn start(&mut self, now: Instant, connection: ConnectionId, side: TlsSide<'_>, buffers: &mut Buffers) {
        let (made, network) = match side {
            TlsSide::Server { network } => (self.server_session(), network),
            TlsSide::Client { server_name } => (self.client_session(server_name, buffers), None),
        };
        let index = connection.index as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        let (state, broken) = match made {
            Ok(session) => (State::Up(session), None),
            Err(reason) => (State::Over, Some(reason)),
        };
        self.entries[index] = Some(Box::new(Entry {
            generation: connection.generation,
            state,
            waits: false,
            since: now,
            counted: 0,
            network,
        }));
        if let Some(reason) = broken {
            self.break_off(connection, reason.to_string());
        }
    }

    fn server_session(&self) -> Result<Session, crate::Error> {
        let acceptor = self.acceptor.as_ref().ok_or(crate::Error::NoCertificate)?;
        Ok(Session::server(acceptor.shown())?)
    }

    fn client_session(&self, name: &str, buffers: &mut Buffers) -> Result<Session, crate::Error> {
        let connector = self.connector.as_ref().ok_or(crate::Error::NoConnector)?;
        let name = ServerName::try_from(name).map_err(|_| crate::Error::NoHost(String::from(name)))?;
        let mut session = Session::client(connector.config(), name.to_owned())?;
        session.begin(buffers)?;
        Ok(session)
    }
}

impl<P: Program> Program for Tls<P> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = now;
        match input {
            Input::Bytes { connection, bytes } if self.table.entry(connection).is_some() => {
                self.received(now, connection, bytes);
            }
            Input::Closed { connection, .. } => {
                self.table.remove(connection);
                self.inner.handle(now, input);
            }
            Input::TurnEnd => {
                self.tell_broken(now);
                self.keep_to_memory(now);
                self.inner.handle(now, Input::TurnEnd);
            }
            input => self.inner.handle(now, input),
        }
    }

    /// One output for each of the program's: nothing of the two is collected. What is left of a request that only this layer
    /// is concerned with is a send of no bytes.
    fn poll_output(&mut self) -> Option<Output<'_>> {
        if !self.outbox.is_empty() {
            let output = self.outbox.poll();
            if let Some(Output::Close { connection }) = output {
                self.table.closed.push(connection);
            }
            return output;
        }
        self.outbox.poll();
        self.buffers.sealed.clear();
        let Some(output) = self.inner.poll_output() else {
            self.buffers.shrink();
            self.table.sweep();
            return None;
        };
        let nothing = |connection| Some(Output::Send { connection, bytes: &[] });
        match output {
            Output::StartTls { connection, side } => {
                self.table.start(self.now, connection, side, &mut self.buffers);
                Some(Output::Send { connection, bytes: &self.buffers.sealed })
            }
            Output::Send { connection, bytes } => {
                let Some(entry) = self.table.entry(connection) else { return Some(output) };
                let session = match &mut entry.state {
                    State::Up(session) => session,
                    State::Away(_) => {
                        self.table.break_off(connection, Error::HandshakeNotComplete.to_string());
                        return nothing(connection);
                    }
                    State::Broken(_) | State::Over => return nothing(connection),
                };
                if let Err(error) = session.write(bytes, &mut self.buffers) {
                    self.table.break_off(connection, error.to_string());
                }
                Some(Output::Send { connection, bytes: &self.buffers.sealed })
            }
            Output::SendWhole { connection, bytes } => {
                Some(self.table.send_whole(connection, bytes, &mut self.buffers))
            }
            Output::Unread { connection, bytes } => {
                if self.table.entry(connection).is_none() {
                    return Some(output);
                }
                match self.table.keep(connection, bytes) {
                    Kept::Yes => {}
                    Kept::TooMuch => self.table.break_off(connection, String::from(ENDLESS)),
                    // A server's: it has more to say until the handshake is over, and is heard then.
                    Kept::No => self.table.keep_for_later(connection, bytes),
                }
                nothing(connection)
            }
            Output::Close { connection } => {
                let Some(entry) = self.table.entry(connection) else { return Some(output) };
                if let State::Up(session) = &mut entry.state {
                    session.close(&mut self.buffers);
                }
                entry.state = State::Over;
                self.table.count(connection);
                self.outbox.close(connection);
                Some(Output::Send { connection, bytes: &self.buffers.sealed })
            }
            // Without a word to the peer.
            Output::Abort { connection } => {
                self.table.abort(connection);
                Some(output)
            }
            output => Some(output),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let handshakes = !self.table.waiting.is_empty() && self.table.away < MOST_AWAY;
        match handshakes || !self.table.broken.is_empty() {
            true => Some(self.now),
            false => self.inner.next_timeout(),
        }
    }
}

#[cfg(test)]
mod tests;
