//! What is left on the backend when its client has gone: asked of the server about the backend, and by another client
//! that gets the backend next and compares what it sees with a direct connection.

use std::collections::BTreeMap;

use wire::{ErrPacket, OkPacket, parse_text_row};

use crate::Failure;
use crate::connection::{Connection, Login, Reply, Role, password, plain_capabilities};
use crate::orders;
use crate::step::{Step, escape};

use super::rules::SCHEMAS;
use super::world::{World, is_broken, wait_for};

/// Locks of backends. Between statements there are none.
const LOCKS: &str = "SELECT m.object_type, m.object_schema, m.object_name, m.lock_type, m.lock_duration \
     FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.thread_id = m.owner_thread_id \
     WHERE t.processlist_user IN ('app', 'other') AND m.lock_status = 'GRANTED'";

/// The accounts' connections, as long as they hold anything: MySQL's process list leaves out those whose socket is closed already.
pub(crate) const BACKENDS: &str =
    "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_user IN ('app', 'other')";

/// What they do.
const BUSY: &str = "SELECT id, command, time, state, info FROM information_schema.processlist WHERE user IN ('app', 'other')";

/// The transaction that [`FIRST`] was: what SET TRANSACTION has left for the next one shows in that one alone.
const TRANSACTIONS: &str = "SELECT e.state, e.isolation_level, e.access_mode, e.autocommit \
     FROM performance_schema.events_transactions_current e JOIN performance_schema.threads t USING (thread_id) \
     WHERE t.processlist_user IN ('app', 'other')";

/// Asked first: whoever gets an answer has the backend.
const FIRST: &str = "SELECT w FROM words WHERE id = 1";

/// Each tells of something that a connection can have.
const QUESTIONS: [&str; 31] = [
    "SHOW PROFILES",
    "SELECT LAST_INSERT_ID()",
    "SELECT ROW_COUNT()",
    "SELECT @@warning_count, @@error_count",
    "SHOW WARNINGS",
    "SELECT DATABASE(), CURRENT_ROLE(), CURRENT_USER()",
    "SELECT COUNT(*) > 0 FROM information_schema.tables WHERE table_schema IN ('mysql', 'forbidden')",
    "SELECT @a, @b, @c, @A1, @`odd name`, @seen",
    "CALL variables()",
    "SHOW SESSION VARIABLES",
    "SELECT HEX('\u{e9}'), CHARSET('x'), COLLATION('x'), 'a' || 'b', 'a\\\\b', \"x\"",
    "SELECT ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) > 1000",
    "SELECT 1/3, DATE_FORMAT('2026-05-04', '%W'), WEEK('2026-01-01'), FROM_UNIXTIME(0)",
    "INSERT INTO numbered (v) VALUES (1)",
    "SELECT LAST_INSERT_ID() >= 900000000",
    "SELECT * FROM t WHERE 0",
    "SHOW COLUMNS FROM t",
    "SHOW COLUMNS FROM u",
    "SHOW COLUMNS FROM tmp1",
    "SHOW COLUMNS FROM tmp2",
    "SHOW COLUMNS FROM words",
    "SHOW COLUMNS FROM numbered",
    "EXECUTE ps1",
    "EXECUTE ps2",
    "HANDLER t READ FIRST",
    "HANDLER h1 READ FIRST",
    "SELECT LASTVAL(seq)",
    "SELECT COUNT(*) FROM tmpseq",
    "SELECT IS_USED_LOCK('leak1'), IS_USED_LOCK('leak2'), IS_USED_LOCK('1')",
    "SELECT COUNT(*) FROM words",
    "DO 0",
];

/// What is another one on each connection, or at each time.
const PASSED_OVER: [&str; 8] = [
    "timestamp",
    "pseudo_thread_id",
    "last_insert_id",
    "identity",
    "rand_seed1",
    "rand_seed2",
    "statement_id",
    "warning_count",
];

/// `RAND()` behind the seeds that programs set.
const SEEDS: &str = "SET rand_seed1 = 11, rand_seed2 = 22";
/// As many of those numbers as programs may have drawn.
const DRAWN: usize = 8;

/// Something that was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What kind of thing it is: the same cause leaves the same.
    pub(crate) kind: String,
    /// It, in words.
    pub(crate) what: String,
}

impl Finding {
    fn new(kind: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: kind.into(), what: what.into() }
    }

    /// Whether the next client was not served at all, as it is where somebody holds the backend.
    pub(crate) fn is_no_answer(&self) -> bool {
        self.kind == "first"
    }
}

/// What a client sees, by question and line, or by the name of the variable.
type Seen = BTreeMap<String, String>;

/// Compares what clients see, and knows what a client sees where nothing has been left.
#[derive(Default)]
pub(crate) struct Witness {
    /// For each collation of a login: through Onramp and directly, where nobody has been before.
    unspoilt: BTreeMap<u8, (Seen, Seen)>,
    transactions: Vec<String>,
    random: Vec<String>,
}

impl Witness {
    /// What is left on the backend, which belongs to nobody.
    pub(crate) fn look(&mut self, world: &mut World<'_>, login: &Login) -> Result<Option<Finding>, Failure> {
        let mut through = match open(&world.onramp().socket, login) {
            Ok(through) => through,
            Err(reason) => return Ok(Some(Finding::new("login", format!("a login is refused: {reason}")))),
        };
        let first = ask(&mut through, FIRST);
        if first != ["onramp_a"] && first != ["onramp_b"] {
            return Ok(Some(Finding::new("first", format!("{FIRST}: {first:?}"))));
        }
        let locks = world.ask(LOCKS);
        let locks = if locks.is_empty() {
            locks
        } else {
            // Those of a backend that has been closed go with it.
            let closed = wait_for(|| (world.ask(BACKENDS) == ["1"]).then_some(()));
            if closed.is_none() {
                let busy = world.ask(BUSY);
                return Ok(Some(Finding::new(
                    "busy",
                    format!("a backend does not come to its end: {busy:?}"),
                )));
            }
            world.ask(LOCKS)
        };
        if let Some(lock) = locks.first() {
            let kind = lock.split('|').next().unwrap_or_default();
            return Ok(Some(Finding::new(format!("lock {kind}"), format!("locks are held: {locks:?}"))));
        }
        let transactions = transaction_of_the_backend(world, &mut through);
        if transactions != self.transactions {
            let what = format!("the next transaction is {transactions:?} instead of {:?}", self.transactions);
            return Ok(Some(Finding::new("transaction", what)));
        }
        let mut direct = open(world.server.socket(), login)?;
        ask(&mut direct, FIRST);
        if world.lost {
            return Ok(None);
        }
        let now = (see(&mut through), see(&mut direct));
        let found = self.compare(login.collation, now);
        let found = found.or_else(|| self.random(&mut through, &mut direct));
        through.quit();
        direct.quit();
        Ok(found)
    }

    /// Has a client come and go, so that Onramp has a backend and has read what there is of stored code.
    pub(crate) fn warm_up(world: &mut World<'_>) -> Result<(), Failure> {
        let login = Login {
            user: String::from("app"),
            schema: SCHEMAS[0].into(),
            collation: 45, // utf8mb4_general_ci
            capabilities: plain_capabilities().0,
        };
        let mut client = open(&world.onramp().socket, &login)?;
        ask(&mut client, FIRST);
        ask(&mut client, "CALL variables()");
        client.quit();
        let admin = world.onramp().admin.clone().ok_or("Onramp has no admin port")?;
        let mut admin = orders::open(&admin)?;
        let has_read = wait_for(|| {
            let readings = ask(&mut admin, "SHOW STATUS LIKE 'Onramp_stored_code_read'");
            let number = readings.first()?.strip_prefix("Onramp_stored_code_read|")?;
            (number != "0").then_some(())
        });
        admin.quit();
        has_read.ok_or_else(|| "Onramp does not read the server's stored code".into())
    }

    /// Learns what there is to see where nothing has been left. Onramp is new.
    pub(crate) fn learn(&mut self, world: &mut World<'_>, login: &Login) -> Result<(), Failure> {
        if self.unspoilt.contains_key(&login.collation) {
            return Ok(());
        }
        let mut through = open(&world.onramp().socket, login)?;
        ask(&mut through, FIRST);
        self.transactions = transaction_of_the_backend(world, &mut through);
        let mut direct = open(world.server.socket(), login)?;
        ask(&mut direct, FIRST);
        self.unspoilt.insert(login.collation, (see(&mut through), see(&mut direct)));
        if self.random.is_empty() {
            ask(&mut direct, SEEDS);
            self.random = (0..DRAWN).flat_map(|_| ask(&mut direct, "SELECT RAND()")).collect();
        }
        through.quit();
        direct.quit();
        Ok(())
    }

    fn compare(&self, collation: u8, (through, direct): (Seen, Seen)) -> Option<Finding> {
        let (unspoilt, expected) = self.unspoilt.get(&collation)?;
        let names = through.keys().chain(direct.keys());
        names.into_iter().find_map(|name| {
            // What is Onramp's own is what it was.
            let own = unspoilt.get(name) != expected.get(name);
            let expected = if own { unspoilt.get(name) } else { direct.get(name) };
            let seen = through.get(name);
            (seen != expected).then(|| {
                Finding::new(format!("sees {name}"), format!("{name}: {seen:?} instead of {expected:?}"))
            })
        })
    }

    fn random(&self, through: &mut Connection, direct: &mut Connection) -> Option<Finding> {
        let [number] = &ask(through, "SELECT RAND()")[..] else { return None };
        let is_known = self.random.contains(number) && !ask(direct, "SELECT RAND()").contains(number);
        is_known.then(|| Finding::new("rand", format!("RAND() gives {number}, from another's seeds")))
    }
}

/// What [`TRANSACTIONS`] says of the one backend: another that has been closed takes its time to end, and the server leaves out a row
/// that is just being written. Behind a change of stored code the backend itself is closed, with whatever was left there: then it is
/// asked anew.
fn transaction_of_the_backend(world: &mut World<'_>, through: &mut Connection) -> Vec<String> {
    let seen = wait_for(|| {
        let rows = world.ask(TRANSACTIONS);
        if rows.is_empty() {
            ask(through, FIRST);
        }
        (rows.len() == 1 || world.lost).then_some(rows)
    });
    seen.unwrap_or_default()
}

fn open(socket: &std::path::Path, login: &Login) -> Result<Connection, Failure> {
    let (connection, reply) = Connection::open(socket, login, &password(&login.user))
        .map_err(|error| format!("{}: {error}", socket.display()))?;
    match reply.packets.first() {
        Some(packet) if packet.role == Role::Ok => Ok(connection),
        _ => Err(format!("{:?} {:?}", rows(&reply), reply.broken).into()),
    }
}

fn ask(connection: &mut Connection, text: &str) -> Vec<String> {
    let replies = connection.perform(&Step::Query(text.as_bytes().to_vec()));
    let mut lines: Vec<String> = replies.iter().flat_map(rows).collect();
    if is_broken(&replies) {
        lines.push(String::from("the connection has ended"));
    }
    lines
}

fn see(connection: &mut Connection) -> Seen {
    let mut seen = Seen::new();
    for question in QUESTIONS {
        let lines = ask(connection, question);
        if question != "SHOW SESSION VARIABLES" {
            seen.insert(question.to_owned(), lines.join("\n"));
            continue;
        }
        for line in lines {
            let (name, value) = line.split_once('|').unwrap_or((&line, ""));
            if !PASSED_OVER.contains(&name) {
                seen.insert(format!("@@{name}"), value.to_owned());
            }
        }
    }
    seen
}

/// A reply in lines: rows as cells, errors as codes, OKs as status flags.
pub(crate) fn rows(reply: &Reply) -> Vec<String> {
    let line = |packet: &crate::connection::Packet| match packet.role {
        Role::TextRow => parse_text_row(&packet.payload).ok().map(|cells| {
            let cells = cells.iter().map(|cell| cell.map_or_else(|| String::from("NULL"), escape));
            cells.collect::<Vec<_>>().join("|")
        }),
        Role::Err => ErrPacket::parse(&packet.payload).ok().map(|error| format!("error {}", error.code)),
        Role::Ok => OkPacket::parse(&packet.payload, true).ok().map(|ok| format!("{:?}", ok.status)),
        _ => None,
    };
    reply.packets.iter().filter_map(line).collect()
}
