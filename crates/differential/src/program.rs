//! Programs: what N clients do in which order, drawn from a seed or read from a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wire::Capabilities;

use crate::connection::{Login, plain_capabilities};
use crate::random::Random;
use crate::statements::{Kind, SCHEMAS, describes_again, draw, habits, prepared};
use crate::step::Step;

/// Steps of a client where there are many.
const STEPS_OF_ONE: usize = 8;

/// How Onramp is set up, and who may go when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) backends: usize,
    pub(crate) permits: usize,
    pub(crate) in_flight: usize,
    pub(crate) workers: usize,
    pub(crate) epoll: bool,
    pub(crate) coalesce: bool,
    /// Every client goes on by itself; otherwise one step follows the other, whosever it is.
    pub(crate) at_once: bool,
    /// Options change while the program runs.
    pub(crate) unsteady: bool,
}

/// A step in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) client: usize,
    /// Steps with the same number may hold a backend until the last of them, which lets it go.
    pub(crate) section: Option<usize>,
    pub(crate) step: Step,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) setting: Setting,
    pub(crate) logins: Vec<Login>,
    pub(crate) moves: Vec<Move>,
}

impl Program {
    /// Draws a program of about this many steps, more for a crowd, and of at most `most` clients.
    pub(crate) fn draw(seed: u64, steps: usize, most: usize) -> Self {
        let mut random = Random::new(seed);
        let (clients, backends) = draw_crowd(&mut random, most);
        let setting = Setting {
            backends,
            permits: *random.one_of(&[1, 2, 16, 64]),
            in_flight: *random.one_of(&[1, 4, 16]),
            workers: 1,
            epoll: random.chance(50),
            coalesce: random.chance(30),
            at_once: random.chance(50),
            unsteady: random.chance(40),
        };
        let workers = if random.chance(30) { 1 + random.below(backends.min(4)) } else { 1 };
        // In order, each run does the same.
        let unsteady = setting.unsteady && setting.at_once;
        let setting = Setting { workers, unsteady, ..setting };
        let caches = random.chance(30);
        let logins = (0..clients).map(|_| draw_login(&mut random, caches)).collect();
        let several = random.chance(50);
        let habits = habits(&mut random);
        let mut draft = Draft {
            random,
            several,
            caches,
            cursors: seed % 2 == 0,
            bulks: seed % 3 > 0,
            long_data: seed % 5 > 2,
            habits,
            setting: &setting,
            sections: vec![None; clients],
            next: vec![None; clients],
            begun: 0,
            moves: Vec::new(),
        };
        let mut active = clients;
        while draft.moves.len() < steps.max(STEPS_OF_ONE * clients) {
            // Times when all have something to say, and times when few have.
            if draft.random.chance(1) {
                active = 1 + draft.random.below(clients);
            }
            let client = draft.random.below(active);
            draft.advance(client);
        }
        let moves = draft.moves;
        Self { setting, logins, moves }
    }

    /// Those who have something to do.
    pub(crate) fn clients(&self) -> BTreeSet<usize> {
        self.moves.iter().map(|own| own.client).collect()
    }

    /// The file's text.
    pub(crate) fn write(&self) -> String {
        let Setting { backends, permits, in_flight, workers, epoll, coalesce, at_once, unsteady } =
            &self.setting;
        let mut text = format!(
            "onramp\t{backends}\t{permits}\t{in_flight}\t{workers}\t{epoll}\t{coalesce}\t{at_once}\t{unsteady}\n\
             # backends, permits, statements in flight, workers, epoll, coalesce_reads, all clients at once, options change\n"
        );
        for Login { user, schema, collation, capabilities } in &self.logins {
            let _ = writeln!(text, "client\t{user}\t{schema}\t{collation}\t{capabilities}");
        }
        for Move { client, section, step } in &self.moves {
            let section = section.map_or_else(|| String::from("-"), |section| section.to_string());
            let _ = writeln!(text, "{client}\t{section}\t{}", step.write());
        }
        text
    }

    /// Reads what [`Self::write`] wrote. Lines that begin with `#` are for people.
    ///
    /// # Errors
    /// The line that is not understood.
    pub(crate) fn read(text: &str) -> Result<Self, crate::Failure> {
        let mut setting = None;
        let (mut logins, mut moves) = (Vec::new(), Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let wrong = || format!("not understood: {line}");
            let words: Vec<&str> = line.split('\t').collect();
            match words[..] {
                ["onramp", ..] => setting = Some(read_setting(&words[1..]).ok_or_else(wrong)?),
                ["client", user, schema, collation, capabilities] => logins.push(Login {
                    user: user.into(),
                    schema: schema.into(),
                    collation: collation.parse().map_err(|_| wrong())?,
                    capabilities: capabilities.parse().map_err(|_| wrong())?,
                }),
                _ => moves.push(read_move(line, logins.len()).ok_or_else(wrong)?),
            }
        }
        Ok(Self { setting: setting.ok_or("no line that begins with onramp")?, logins, moves })
    }
}

fn read_setting(words: &[&str]) -> Option<Setting> {
    let [backends, permits, in_flight, workers, epoll, coalesce, at_once, ref rest @ ..] = *words else {
        return None;
    };
    let unsteady = match *rest {
        [] => false,
        [unsteady] => unsteady.parse().ok()?,
        _ => return None,
    };
    Some(Setting {
        unsteady,
        backends: backends.parse().ok()?,
        permits: permits.parse().ok()?,
        in_flight: in_flight.parse().ok()?,
        workers: workers.parse().ok()?,
        epoll: epoll.parse().ok()?,
        coalesce: coalesce.parse().ok()?,
        at_once: at_once.parse().ok()?,
    })
}

fn read_move(line: &str, clients: usize) -> Option<Move> {
    let (client, rest) = line.split_once('\t')?;
    let (section, step) = rest.split_once('\t')?;
    let client = client.parse().ok().filter(|&client: &usize| client < clients)?;
    let section = if section == "-" { None } else { Some(section.parse().ok()?) };
    Some(Move { client, section, step: Step::read(step)? })
}

/// How many clients there are, and backends for them: from one client for each to forty.
fn draw_crowd(random: &mut Random, most: usize) -> (usize, usize) {
    if random.chance(6) {
        let backends = *random.one_of(&[1, 2, 5, 10, 20, 50, 100, 200]);
        let clients = backends * random.one_of(&[1, 2, 5, 10, 20, 40]);
        return (clients.clamp(2, most), backends.min(most));
    }
    let clients = *random.one_of(&[2, 3, 5, 8, 16]);
    let clients = clients.min(most);
    let backends = if random.chance(10) { clients } else { 1 + random.below(4.min(clients - 1)) };
    (clients, backends)
}

fn draw_login(random: &mut Random, caches: bool) -> Login {
    let mut capabilities = plain_capabilities();
    for (flag, percent) in [
        (Capabilities::DEPRECATE_EOF, 50),
        (Capabilities::MULTI_STATEMENTS, 60),
        (Capabilities::FOUND_ROWS, 30),
        (Capabilities::LOCAL_FILES, 70),
        (Capabilities::INTERACTIVE, 15),
        (Capabilities::SESSION_TRACK, 20),
        (Capabilities::BULK_OPERATIONS, 40),
        (Capabilities::EXTENDED_METADATA, 10),
        (Capabilities::CACHE_METADATA, if caches { 60 } else { 0 }),
    ] {
        if random.chance(percent) {
            capabilities |= flag;
        }
    }
    Login {
        user: (*random.one_of(&["app", "app", "app", "other"])).into(),
        schema: (*random.one_of(&["onramp_a", "onramp_a", "onramp_a", "onramp_b", ""])).into(),
        // utf8mb4_general_ci, latin1_swedish_ci, utf8mb4_bin, utf8mb3_general_ci. SET NAMES utf8mb4 behind the third has
        // columns described again, although they are the same.
        collation: *random.one_of(&[45, 45, 45, 8, if caches { 45 } else { 46 }, 33]),
        capabilities: capabilities.0,
    }
}

/// What a client's section is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    /// A transaction; ends in COMMIT or ROLLBACK.
    Transaction,
    /// `autocommit = 0`; ends when that does.
    WithoutAutocommit,
    /// Anything that a connection can hold; ends in a reset of the session.
    Pinned,
}

#[derive(Clone, Copy)]
struct Begun {
    section: Section,
    number: usize,
    left: usize,
}

struct Draft<'a> {
    random: Random,
    /// Whether some texts hold several statements.
    several: bool,
    /// Clients keep what they have heard of columns.
    caches: bool,
    /// Some executions ask for a cursor. Statements that read ROW_COUNT() have none (docs/DIFFERENCES.md).
    cursors: bool,
    /// There are bulk executions.
    bulks: bool,
    /// Values are sent ahead, and their number is always right: what a wrong one leaves of them differs (docs/DIFFERENCES.md).
    long_data: bool,
    habits: Vec<String>,
    setting: &'a Setting,
    sections: Vec<Option<Begun>>,
    /// What a client asks after the step before.
    next: Vec<Option<Step>>,
    begun: usize,
    moves: Vec<Move>,
}

impl Draft<'_> {
    fn advance(&mut self, client: usize) {
        if let Some(step) = self.next[client].take() {
            return self.push(client, step);
        }
        match self.sections[client] {
            Some(begun) if begun.left == 0 => {
                let step = self.end(begun);
                self.push(client, step);
                self.sections[client] = None;
            }
            Some(begun) => {
                self.sections[client] = Some(Begun { left: begun.left - 1, ..begun });
                let step = self.inside(client, begun.section);
                self.push(client, step);
            }
            None if self.random.chance(if self.is_crowded() { 3 } else { 15 }) && self.may_hold() => {
                self.begin(client);
            }
            None => {
                let step = self.free(client);
                self.push(client, step);
            }
        }
    }

    /// In order, whoever waits for a backend holds up everybody: one is left over. At once, it comes back by itself.
    fn may_hold(&self) -> bool {
        self.setting.at_once || self.sections.iter().flatten().count() + 1 < self.setting.backends
    }

    /// So many clients for each backend that those who hold one must be few, and soon done.
    fn is_crowded(&self) -> bool {
        self.sections.len() > 8 * self.setting.backends
    }

    fn push(&mut self, client: usize, step: Step) {
        let section = self.sections[client].map(|begun| begun.number);
        self.moves.push(Move { client, section, step });
    }

    fn begin(&mut self, client: usize) {
        let section = *self.random.one_of(&[
            Section::Transaction,
            Section::Transaction,
            Section::WithoutAutocommit,
            Section::Pinned,
            Section::Pinned,
            Section::Pinned,
        ]);
        let long = section == Section::Pinned && !self.is_crowded();
        let left = 1 + self.random.below(if long { 40 } else { 8 });
        self.begun += 1;
        self.sections[client] = Some(Begun { section, number: self.begun, left });
        let step = match section {
            Section::Transaction => self.query_of(&[
                "BEGIN",
                "START TRANSACTION",
                "START TRANSACTION READ ONLY",
                "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                "begin work",
            ]),
            Section::WithoutAutocommit => {
                self.query_of(&["SET autocommit = 0", "SET SESSION autocommit = OFF"])
            }
            Section::Pinned => self.pinning(client),
        };
        self.push(client, step);
    }

    fn end(&mut self, begun: Begun) -> Step {
        // A role outlives COM_RESET_CONNECTION.
        let takes_role = |step: &Step| matches!(step, Step::Query(text) if text.starts_with(b"SET ROLE"));
        let mut own = self.moves.iter().filter(|own| own.section == Some(begun.number));
        let role = own.any(|own| takes_role(&own.step));
        match begun.section {
            Section::Transaction => self.query_of(&["COMMIT", "ROLLBACK", "commit work"]),
            Section::WithoutAutocommit => self.query_of(&["SET autocommit = 1", "SET autocommit = DEFAULT"]),
            Section::Pinned => match self.random.below(4) {
                0 => self.change_user(true),
                1 => Step::Reconnect,
                _ if role => Step::Reconnect,
                _ => Step::Reset,
            },
        }
    }

    fn inside(&mut self, client: usize, section: Section) -> Step {
        match section {
            Section::Pinned => match self.random.below(10) {
                0..=3 => self.pinning(client),
                4..=6 => self.prepared(client),
                _ => self.free(client),
            },
            Section::Transaction | Section::WithoutAutocommit if self.random.chance(15) => {
                self.query_of(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE SAVEPOINT s", "SAVEPOINT r"])
            }
            Section::Transaction | Section::WithoutAutocommit if self.random.chance(20) => {
                self.multiplexed(client)
            }
            _ => self.text_step(client),
        }
    }

    /// Leaves nothing that only a backend can hold.
    fn free(&mut self, client: usize) -> Step {
        match self.random.below(100) {
            0..=5 => {
                let schema = *self.random.one_of(&[
                    "onramp_a",
                    "onramp_b",
                    "information_schema",
                    "missing",
                    "forbidden",
                ]);
                if self.random.chance(50) {
                    Step::InitDb(schema.into())
                } else {
                    query(&format!("USE {schema}"))
                }
            }
            6 => Step::Ping,
            7 => Step::Reset,
            8 => self.change_user(true),
            9 => Step::Reconnect,
            10 => {
                let table = *self.random.one_of(&["words", "no_such_table"]);
                let pattern = *self.random.one_of(&["", "%", "w%", "none"]);
                Step::FieldList(table.into(), pattern.into())
            }
            11 => Step::SetOption(u16::from(self.random.chance(50))),
            12 => match self.random.below(3) {
                0 => Step::Statistics,
                1 => Step::Raw(vec![*self.random.one_of(&[0x05, 0x0b, 0x0f, 0x1d, 0x99])]),
                _ => Step::SetOption(7),
            },
            13..=16 => {
                let count = 2 + self.random.below(4);
                let texts = (0..count).map(|_| self.text(client));
                // The server would take the next command for the file.
                let texts = texts.filter(|text| !text.starts_with("LOAD DATA"));
                Step::Burst(texts.map(String::into_bytes).collect())
            }
            17..=36 => self.multiplexed(client),
            _ => self.text_step(client),
        }
    }

    fn text_step(&mut self, client: usize) -> Step {
        // Several statements in a text may hold a backend where one of them is wrong.
        let pinned = self.sections[client].is_some_and(|begun| begun.section == Section::Pinned);
        if self.several && (pinned || self.setting.at_once) && self.random.chance(10) {
            let count = 2 + self.random.below(3);
            let texts: Vec<String> = (0..count).map(|_| self.text(client)).collect();
            return query(&texts.join(";"));
        }
        // Which statements leave the list of those before them, only the server knows: it is looked at behind those that write it.
        if !self.several && self.random.chance(12) {
            let kind = *self.random.one_of(&[Kind::Failing, Kind::Write]);
            let asked = draw(Kind::Diagnostics, client, &mut self.random);
            // The server answers it there, and not as ever (docs/DIFFERENCES.md, "GET DIAGNOSTICS of a client ...").
            let on_server = self.sections[client].is_some() && asked.starts_with("GET");
            self.next[client] = Some(query(if on_server { "SHOW WARNINGS" } else { &asked }));
            let text = draw(kind, client, &mut self.random);
            return query(&self.described_once(text));
        }
        query(&self.text(client))
    }

    fn text(&mut self, client: usize) -> String {
        let text = self.any_text(client);
        self.described_once(text)
    }

    fn pinning(&mut self, client: usize) -> Step {
        let text = draw(Kind::Pinning, client, &mut self.random);
        query(&self.described_once(text))
    }

    fn described_once(&self, text: String) -> String {
        // With a cursor the server describes a UNION with each execution.
        let of_cursor = self.cursors && text.contains("UNION");
        let again = self.caches && (of_cursor || describes_again(&text));
        // It uses a table, so that it takes the place of what a write or an error would have left.
        if again { String::from("SELECT 'not described again' FROM words") } else { text }
    }

    fn any_text(&mut self, client: usize) -> String {
        let pinned = self.sections[client].is_some_and(|begun| begun.section == Section::Pinned);
        let kind = match self.random.below(76) {
            0..=5 => return self.random.one_of(&self.habits).clone(),
            6..=19 => Kind::Setting,
            20..=44 => Kind::Probe,
            45..=62 => Kind::Write,
            63..=68 => Kind::Failing,
            // FOUND_ROWS() is not known behind some of several statements, and a CALL that selects nothing
            // (docs/DIFFERENCES.md).
            _ if pinned || self.several => return String::from("SELECT ROW_COUNT()"),
            _ => Kind::Counts,
        };
        draw(kind, client, &mut self.random)
    }

    /// About a prepared statement that needs no backend of its own.
    fn multiplexed(&mut self, client: usize) -> Step {
        let nth = self.random.below(3);
        match self.random.below(16) {
            0..=4 => match prepared(client, &mut self.random) {
                text if self.cursors && (text.contains("ROW_COUNT") || ends_servers(&text)) => Step::Ping,
                text if self.long_data && text.contains("?, ?") => Step::Ping,
                // ROW_COUNT() is that of the last value then (docs/DIFFERENCES.md).
                text if self.bulks && (text.starts_with("UPDATE") || text.starts_with("DELETE")) => {
                    Step::Ping
                }
                text => Step::Prepare(text.into_bytes()),
            },
            5..=10 => {
                let count = if self.random.chance(20) && !self.long_data { 2 } else { 1 };
                Step::Execute { nth, cursor: false, values: (0..count).map(|_| self.value()).collect() }
            }
            11..=12 if self.bulks => {
                let count = 1 + self.random.below(4);
                Step::Bulk { nth, values: (0..count).map(|_| self.value()).collect() }
            }
            13 if self.long_data => Step::LongData { nth, data: b"2".to_vec() },
            14 => Step::ResetStatement(nth),
            15 => Step::CloseStatement(nth),
            _ => Step::Ping,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let values = [Some("1"), Some("2"), Some("+04:00"), Some("300"), Some(""), None];
        self.random.one_of(&values).map(|value| value.as_bytes().to_vec())
    }

    fn prepared(&mut self, client: usize) -> Step {
        let nth = self.random.below(3);
        match self.random.below(12) {
            0..=3 => Step::Prepare(
                match self.random.below(9) {
                    0 => String::from("SELECT ?, @@sql_mode"),
                    1 => String::from("SELECT w FROM words WHERE id = ?"),
                    2 => format!("INSERT INTO t{client} (v) VALUES (?)"),
                    3 => String::from("SELEC"),
                    5 => String::from("CALL answers(?)"),
                    6 => String::from("CALL several()"),
                    4 => String::from("SELECT id, w FROM words ORDER BY id"),
                    7 => String::from("SET time_zone = ?"),
                    // A binary row's id is read by its column's type, which differs.
                    // What is answered here has no cursor (docs/DIFFERENCES.md).
                    _ => match self.text(client) {
                        text if text.contains("ROW_COUNT") || ends_servers(&text) => String::from("SELECT 1"),
                        text => text.replace("CONNECTION_ID()", "1"),
                    },
                }
                .into_bytes(),
            ),
            4..=7 => {
                let count = if self.long_data { 1 } else { *self.random.one_of(&[1, 1, 1, 1, 0, 2]) };
                let values = (0..count).map(|_| self.value()).collect();
                Step::Execute { nth, cursor: self.cursors && self.random.chance(20), values }
            }
            8 if self.long_data => Step::LongData { nth, data: b"2".to_vec() },
            9 => Step::ResetStatement(nth),
            10 => Step::Fetch { nth, rows: 1 + u32::from(self.random.chance(50)) },
            _ => Step::CloseStatement(nth),
        }
    }

    fn change_user(&mut self, right_password: bool) -> Step {
        Step::ChangeUser {
            user: (*self.random.one_of(&["app", "other"])).into(),
            right_password,
            schema: (*self.random.one_of(&[SCHEMAS[0], SCHEMAS[1], ""])).into(),
        }
    }

    fn query_of(&mut self, texts: &[&str]) -> Step {
        query(self.random.one_of::<&str>(texts))
    }
}

/// MariaDB 10.11.19 ends with a segmentation fault where this is executed with a cursor.
fn ends_servers(text: &str) -> bool {
    text.starts_with("DELETE") && text.contains("RETURNING")
}

fn query(text: &str) -> Step {
    Step::Query(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_as_they_were_written() {
        for seed in 0..20 {
            let program = Program::draw(seed, 200, 40);
            assert_eq!(Program::read(&program.write()).unwrap(), program, "{seed}");
        }
    }

    #[test]
    fn in_order_one_backend_is_always_left() {
        let mut full = 0;
        for seed in 0..200 {
            let program = Program::draw(seed, 300, 400);
            if program.setting.at_once {
                continue;
            }
            let mut open = std::collections::BTreeMap::new();
            for (place, Move { section, .. }) in program.moves.iter().enumerate() {
                let last = program.moves.iter().rposition(|other| other.section == *section);
                if let Some(section) = section {
                    open.insert(*section, ());
                    assert!(open.len() < program.setting.backends, "seed {seed}");
                    full += usize::from(open.len() + 1 == program.setting.backends);
                    if last == Some(place) {
                        open.remove(section);
                    }
                }
            }
        }
        assert!(full > 0, "all backends but one are held at times");
    }

    #[test]
    fn there_are_crowds_over_few_backends_and_over_many() {
        let programs: Vec<_> = (0..400).map(|seed| Program::draw(seed, 0, 400)).collect();
        let some = |is: &dyn Fn(usize, usize) -> bool| {
            programs.iter().any(|program| is(program.logins.len(), program.setting.backends))
        };
        assert!(some(&|_, backends| backends == 200));
        assert!(some(&|clients, backends| clients == 40 * backends && backends > 1));
        assert!(some(&|clients, backends| clients == backends));
        assert!(programs.iter().all(|program| program.logins.len() <= 400));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let program = Program::draw(1, 10, 16).write() + "99\t-\tping\n";
        assert!(Program::read(&program).is_err_and(|error| error.to_string().contains("99")));
        assert!(Program::read("client\tapp\t\t45\t0\n").is_err());
    }
}
