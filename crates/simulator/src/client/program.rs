//! What virtual clients do: random programs over the virtual server's language.

use std::collections::VecDeque;
use std::rc::Rc;

use super::oracle::Oracle;
use super::promise::Promise;
use crate::ledger::Row;
use crate::protocol::command;
use crate::random::Random;
use crate::server::database::SCHEMAS;
use crate::server::prepared::{READ_ONLY_CURSOR, TYPES, execute_payload, long_data_payload};
use crate::server::statements::VERSIONS;
use crate::token::{ClientKey, Token};

/// Which kinds of statements a client uses.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Changes of session state that can be moved.
    pub settings: bool,
    /// Transactions.
    pub transactions: bool,
    /// Changes a row that others change too.
    pub contends: bool,
    /// State that cannot be moved: user variables, temporary tables, locks.
    pub pins: bool,
    /// Prepared statements.
    pub prepared: bool,
    /// Asks for what the statement before left behind: warnings, ROW_COUNT(), FOUND_ROWS().
    pub diagnostics: bool,
    /// Asks for that at any time, not only right behind the statement that it is about.
    pub strict: bool,
    /// Change of user, reset, local files, unknown commands.
    pub rare: bool,
    /// KILL of others.
    pub kills: bool,
    /// Sends commands before the one before is answered.
    pub pipelines: bool,
    /// Sends nonsense and breaks off.
    pub hostile: bool,
    /// Reads slowly now and then.
    pub slow: bool,
    /// Asks for what everybody asks for.
    pub popular: bool,
    /// Asks for that in one schema after the other.
    pub moves: bool,
    /// Writes and reads versions of rows in the place of what its oracle alone knows, such as how many rows there are.
    pub versions: bool,
    /// Reads may go to replicas, and are promised this: it reads what it has just written, and what others have, and asks for other promises.
    pub promise: Option<Promise>,
    /// So many times as often as else it writes and reads versions of rows.
    pub rows: u64,
    /// And so many times as often it reads those of others, and says what it wants of its reads.
    pub others: u64,
    /// So many reads of its own rows follow each of its writes at most; with 0 one, mostly.
    pub reads_back: u64,
    /// Has a connection of its own to the server.
    pub holds: bool,
    /// Thinks so many times as long between statements.
    pub pace: u64,
    /// In so many of 100 cases it does so for long.
    pub pauses: u64,
    /// Does so many times as much in one login.
    pub stays: u64,
}

/// Of a table of versions a login uses these rows, so few that each is written again and again.
const ROWS: u64 = 4;

/// One thing that a client does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a command.
    Command {
        /// Its payload.
        payload: Vec<u8>,
        /// The same for the oracle, whose prepared statements have ids of their own.
        shadow: Vec<u8>,
    },
    /// COM_CHANGE_USER.
    ChangeUser,
    /// COM_KILL or KILL of some connection: the answer depends on others.
    Kill(Vec<u8>),
}

/// A prepared statement.
#[derive(Clone, Copy, Debug)]
struct Statement {
    /// The server's number for it.
    id: u32,
    /// The oracle's.
    shadow: u32,
    parameters: usize,
    /// What the latest execution has said of its parameters.
    kind: Option<u8>,
    /// A cursor has been asked for.
    cursor: bool,
}

/// Writes a client's statements.
#[derive(Clone, Debug)]
pub struct Author {
    /// Whose.
    pub key: ClientKey,
    habits: Habits,
    random: Random,
    number: u32,
    /// Statements that are prepared.
    prepared: Vec<Statement>,
    prepared_count: u32,
    /// What is being prepared, in order: the parameters that it has, or none where it will fail.
    preparing: VecDeque<Option<usize>>,
    text_prepared: bool,
    /// The row of its own that it has just written.
    just_written: Option<u64>,
    /// So many reads of its own rows follow.
    reads_back: u64,
    /// The rows that were written last, by anybody.
    pub recent_rows: Rc<Vec<Row>>,
    /// Ids of clients of several Onramps.
    pub known_ids: Vec<u32>,
}

impl Author {
    /// An author for one login.
    pub fn new(key: ClientKey, habits: Habits, random: Random) -> Self {
        Self {
            key,
            habits,
            random,
            number: 0,
            prepared: Vec::new(),
            prepared_count: 0,
            preparing: VecDeque::new(),
            text_prepared: false,
            just_written: None,
            reads_back: 0,
            recent_rows: Rc::default(),
            known_ids: Vec::new(),
        }
    }

    /// A new token.
    fn token(&mut self) -> Token {
        self.number += 1;
        Token { key: self.key, number: self.number }
    }

    /// COM_STMT_PREPARE was answered: the server's id for the statement, if there is one.
    pub fn note_prepared(&mut self, id: Option<u32>) {
        let parameters = self.preparing.pop_front().flatten();
        self.prepared_count += 1; // failures count too
        if let (Some(id), Some(parameters)) = (id, parameters) {
            let shadow = self.prepared_count;
            self.prepared.push(Statement { id, shadow, parameters, kind: None, cursor: false });
        }
    }

    /// Everything that was prepared is gone.
    pub fn forget_prepared(&mut self) {
        self.prepared.clear();
        self.preparing.clear();
        self.text_prepared = false;
    }

    /// The next thing to do.
    pub fn next_step(&mut self, oracle: &Oracle) -> Step {
        let habits = self.habits;
        let enders = oracle.session.transaction.is_some() && self.random.percent(25);
        if enders {
            let verb = *self.random.pick(&["COMMIT", "COMMIT", "ROLLBACK"]);
            return query(&format!("{verb} /* {} */", self.token()));
        }
        if let Some(id) =
            self.just_written.take_if(|_| habits.promise.is_some()).filter(|_| self.random.percent(70))
        {
            return self.read_of_row(&(self.versions(), id));
        }
        if self.reads_back > 0 {
            self.reads_back -= 1;
            let id = self.random.between(1, ROWS);
            return self.read_of_row(&(self.versions(), id));
        }
        let groups = [
            (20 * habits.rows, habits.versions, Self::version as fn(&mut Self, &Oracle) -> Step),
            (25 * habits.others, habits.promise.is_some(), Self::promised_read),
            (40, true, Self::read),
            (20, !habits.versions, Self::write),
            (12, habits.transactions, Self::transaction),
            (20, habits.settings, Self::setting),
            (15, habits.pins, Self::pin),
            (15, habits.prepared, Self::prepared),
            (5, true, Self::simple),
            (4, habits.rare, Self::rare),
            (if self.known_ids.is_empty() { 4 } else { 30 }, habits.kills, Self::kill),
            (120, habits.popular, Self::popular),
            (60, habits.moves, Self::read_in_a_schema),
        ];
        let total = groups.iter().filter(|(_, wanted, _)| *wanted).map(|(weight, _, _)| weight).sum();
        let mut draw = self.random.below(total);
        for (weight, _, make) in groups.into_iter().filter(|(_, wanted, _)| *wanted) {
            if draw < weight {
                return make(self, oracle);
            }
            draw -= weight;
        }
        self.read(oracle)
    }

    /// A harmless statement whose answer shows the session's state.
    pub fn probe(&mut self) -> Step {
        query(&format!(
            "SELECT '{}', DATABASE(), @@sql_mode, @@time_zone, @@character_set_client, @@character_set_results, \
             @@collation_connection, @@autocommit",
            self.token()
        ))
    }

    fn table(&self) -> String {
        format!("ledger_{}", self.key)
    }

    fn read(&mut self, oracle: &Oracle) -> Step {
        let (token, table) = (self.token(), self.table());
        // Right after the statement that the question is about; at any time only where that is asked for.
        let (asks, fresh, strict) = (self.habits.diagnostics, oracle.session.fresh, self.habits.strict);
        let (few, many) = (self.random.between(1, 9), self.random.between(20, 110));
        query(&match self.random.below(18) {
            0..=3 => return self.probe(),
            4 => {
                let isolation = oracle.session.kind.name_of("tx_isolation");
                format!("SELECT '{token}', @@{isolation}, @@group_concat_max_len, @@foreign_key_checks")
            }
            5 | 6 => return self.count_or_version(token),
            7 => format!("SELECT '{token}', seq FROM rows_{few}"),
            8 => format!("SELECT '{token}', REPEAT('x', {many}), seq FROM rows_{many}"),
            9 => format!("SELECT '{token}', 1/0"),
            10 => format!("SELECT '{token}' FROM missing"),
            11 => format!("SELECT '{token}', CONNECTION_ID(), CURRENT_USER(), CURRENT_ROLE()"),
            12 => format!("SELECT '{token}', SLEEP(0.1)"),
            13 => format!("SELECT '{token}', LAST_INSERT_ID()"),
            14 if asks && (strict || fresh.row_count) => format!("SELECT '{token}', ROW_COUNT()"),
            15 if asks && fresh.found_rows => format!("SELECT '{token}', FOUND_ROWS()"),
            16 if asks && (strict || fresh.warnings) => "SHOW WARNINGS".to_owned(),
            _ => {
                let (second, third) = (self.token(), self.token());
                let (write, last) = if self.habits.versions {
                    let rows = self.versions();
                    let write = format!("UPDATE {rows} SET value = '{second}' WHERE id = 1");
                    (write, format!("SELECT '{third}', version FROM {rows} WHERE id = 1"))
                } else {
                    let write = format!("INSERT INTO {table} (value) VALUES ('{second}')");
                    (write, format!("SELECT '{third}', COUNT(*) FROM {table}"))
                };
                let middle = match self.random.below(3) {
                    0 => write,
                    1 => format!("SELECT '{second}' FROM missing"),
                    _ => format!("SELECT '{second}', seq FROM rows_{few}"),
                };
                format!("SELECT '{token}', 1; {middle}; {last}")
            }
        })
    }

    fn count_or_version(&mut self, token: Token) -> Step {
        if !self.habits.versions {
            return query(&format!("SELECT '{token}', COUNT(*) FROM {}", self.table()));
        }
        let id = self.random.between(1, ROWS);
        query(&format!("SELECT '{token}', version FROM {} WHERE id = {id}", self.versions()))
    }

    fn versions(&self) -> String {
        format!("{VERSIONS}{}", self.key)
    }

    /// Writes a row of this login's own, or reads which of its statements wrote it last.
    fn version(&mut self, _oracle: &Oracle) -> Step {
        let token = self.token();
        if self.random.percent(40) {
            return self.count_or_version(token);
        }
        let id = self.random.between(1, ROWS);
        if self.habits.contends && self.random.percent(15) {
            return query(&format!("UPDATE hot SET value = '{token}' WHERE id = 1"));
        }
        self.just_written = Some(id);
        if self.habits.reads_back > 0 {
            self.reads_back = self.random.below(self.habits.reads_back);
        }
        query(&format!("UPDATE {} SET value = '{token}' WHERE id = {id}", self.versions()))
    }

    /// Reads what was written lately, by whomever, or says what it wants of its reads from now on.
    fn promised_read(&mut self, _oracle: &Oracle) -> Step {
        if self.random.percent(10) {
            let wanted = self.random.percent(60).then(|| *self.random.pick(&Promise::ALL));
            return query(&Promise::setting(wanted));
        }
        let own = (self.versions(), self.random.between(1, ROWS));
        let row = match self.recent_rows.len() {
            0 => own,
            _ => self.random.pick(&self.recent_rows).clone(),
        };
        self.read_of_row(&row)
    }

    /// Now and then with a word of its own of where it may go.
    fn read_of_row(&mut self, (table, id): &Row) -> Step {
        let (token, comment) = (self.token(), self.comment());
        query(&format!("{comment}SELECT '{token}', version FROM {table} WHERE id = {id}"))
    }

    fn comment(&mut self) -> String {
        let wanted = self.habits.promise.is_some() && self.random.percent(20);
        if wanted { self.random.pick(&Promise::ALL).comment() } else { String::new() }
    }

    /// The same texts from all clients, so that they may be answered together; see [`super::moments`].
    fn popular(&mut self, oracle: &Oracle) -> Step {
        query(match self.random.below(40) {
            0..=24 => "SELECT moment",
            25..=30 => "SELECT moment, seq FROM rows_3",
            31 | 32 => "SELECT moment, 1/0",
            33 | 34 => "SELECT moment FROM missing",
            35 => "SELECT moment, SLEEP(0.1)",
            36 | 37 => "SELECT moment, CONNECTION_ID()",
            // More than is collected for many: 70 kB.
            38 => "SELECT moment, REPEAT('popular ', 80), seq FROM rows_110",
            _ if oracle.session.fresh.warnings => "SHOW WARNINGS",
            _ => "SELECT moment, 1/0, seq FROM rows_2",
        })
    }

    /// What everybody asks for in a schema, short and the same in all of them, so that one can follow the other on a backend.
    fn read_in_a_schema(&mut self, _oracle: &Oracle) -> Step {
        match self.random.below(20) {
            0 => self.choice_of_schema(),
            1..=9 => query("SELECT moment, DATABASE()"),
            _ => query(&format!("SELECT '{}', DATABASE()", self.token())),
        }
    }

    fn choice_of_schema(&mut self) -> Step {
        let (token, schema) = (self.token(), *self.random.pick(&SCHEMAS));
        query(&format!("USE {schema} /* {token} */"))
    }

    fn write(&mut self, _oracle: &Oracle) -> Step {
        let (token, table) = (self.token(), self.table());
        let id = self.random.between(1, 12);
        if self.habits.contends && self.random.percent(30) {
            return query(&format!("UPDATE hot SET value = '{token}' WHERE id = 1"));
        }
        query(&match self.random.below(6) {
            0..=2 => format!("INSERT INTO {table} (value) VALUES ('{token}')"),
            3 => format!("INSERT INTO {table} (value) VALUES ('{token}'), ('second'), ('third')"),
            4 => format!("UPDATE {table} SET value = '{token}' WHERE id = {id}"),
            _ => format!("DELETE FROM {table} /* {token} */ WHERE id = {id}"),
        })
    }

    fn transaction(&mut self, _oracle: &Oracle) -> Step {
        let token = self.token();
        query(&match self.random.below(9) {
            0..=4 => format!("BEGIN /* {token} */"),
            5 => format!("START TRANSACTION /* {token} */"),
            6 => format!("SET autocommit={} /* {token} */", self.random.below(2)),
            7 => format!("COMMIT /* {token} */"),
            _ => format!("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE /* {token} */"),
        })
    }

    fn setting(&mut self, _oracle: &Oracle) -> Step {
        let token = self.token();
        let mode = *self.random.pick(&["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES"]);
        let zone = *self.random.pick(&["+03:00", "-05:30", "SYSTEM", "UTC"]);
        let schema = *self.random.pick(&SCHEMAS);
        let names = *self.random.pick(&[
            "latin1",
            "utf8mb4",
            "utf8",
            "latin1 COLLATE latin1_bin",
            "utf8mb4 COLLATE utf8mb4_unicode_ci",
        ]);
        let level = *self.random.pick(&["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]);
        let number = self.random.between(4, 5000);
        query(&match self.random.below(16) {
            0 | 1 => format!("SET sql_mode='{mode}' /* {token} */"),
            2 | 3 => format!("SET time_zone = '{zone}' /* {token} */"),
            4 | 5 => format!("USE {schema} /* {token} */"),
            6 => return command(command::INIT_DB, schema.as_bytes()),
            7 => format!("SET NAMES {names} /* {token} */"),
            8 => format!("SET SESSION collation_connection = utf8mb4_unicode_ci /* {token} */"),
            9 => format!("SET character_set_results = NULL /* {token} */"),
            10 => format!("SET SESSION TRANSACTION ISOLATION LEVEL {level} /* {token} */"),
            11 => format!("SET @@session.group_concat_max_len={number}, time_zone='{zone}' /* {token} */"),
            12 => format!("SET sql_mode=DEFAULT, foreign_key_checks={} /* {token} */", number % 2),
            13 => format!("SET time_zone='bogus' /* {token} */"),
            14 => format!("USE missing_schema /* {token} */"),
            _ => format!("SET sql_mode='{mode}', bogus=1 /* {token} */"),
        })
    }

    fn pin(&mut self, oracle: &Oracle) -> Step {
        let (token, table) = (self.token(), self.table());
        let session = &oracle.session;
        let temporary = session.temporary_tables.contains_key("scratch");
        query(&match self.random.below(12) {
            // A value of this client's that comes again with other statements.
            0 => format!("SET @tag = 'tag_{}_{}' /* {token} */", self.key, self.random.below(1000)),
            1 => format!("SELECT '{token}', @tag"),
            2 if temporary => format!("DROP TEMPORARY TABLE scratch /* {token} */"),
            3 | 4 if temporary => format!("INSERT INTO scratch (value) VALUES ('{token}')"),
            5 | 6 if temporary => format!("SELECT '{token}', value FROM scratch"),
            2..=4 => format!("CREATE TEMPORARY TABLE scratch (value INT) /* {token} */"),
            5 if self.random.percent(20) => format!("SELECT '{token}', GET_LOCK('lock_{}', 0)", self.key),
            5 => format!("SELECT GET_LOCK('lock_{}', 0) /* {token} */", self.key),
            6 => format!("SELECT RELEASE_LOCK('lock_{}') /* {token} */", self.key),
            7 if session.locked_tables => format!("UNLOCK TABLES /* {token} */"),
            7 if session.transaction.is_none() => format!("LOCK TABLES {table} WRITE /* {token} */"),
            8 if self.text_prepared => format!("EXECUTE saved /* {token} */"),
            9 if self.text_prepared => {
                self.text_prepared = false;
                format!("DEALLOCATE PREPARE saved /* {token} */")
            }
            8 | 9 => {
                self.text_prepared = true;
                format!("PREPARE saved FROM 'SELECT 7, DATABASE()' /* {token} */")
            }
            10 => format!("CALL two_results('{token}')"),
            _ => format!("SELECT '{token}', @tag, LAST_INSERT_ID()"),
        })
    }

    fn prepared(&mut self, oracle: &Oracle) -> Step {
        if self.prepared.is_empty() || self.random.percent(25) {
            return self.prepare(oracle);
        }
        let place = self.random.index(self.prepared.len());
        let Statement { id, shadow, parameters, .. } = self.prepared[place];
        let both = |make: &dyn Fn(u32) -> Vec<u8>| Step::Command { payload: make(id), shadow: make(shadow) };
        match self.random.below(10) {
            0 if parameters > 1 => both(&|id| long_data_payload(id, 1, b"long data in pieces ")),
            1 => {
                self.prepared[place].cursor = false;
                both(&|id| [&[command::STMT_RESET][..], &id.to_le_bytes()].concat())
            }
            2 => {
                self.prepared.remove(place);
                both(&|id| [&[command::STMT_CLOSE][..], &id.to_le_bytes()].concat())
            }
            3..=5 if self.prepared[place].cursor => {
                let rows = u32::try_from(self.random.between(1, 4)).unwrap_or(1);
                both(&|id| [&[command::STMT_FETCH][..], &id.to_le_bytes(), &rows.to_le_bytes()].concat())
            }
            _ => self.execute(place),
        }
    }

    fn execute(&mut self, place: usize) -> Step {
        let Statement { id, shadow, parameters, kind, .. } = self.prepared[place];
        let token = (parameters > 0).then(|| self.token().to_string());
        let mut values = vec![None; parameters];
        if let Some(first) = values.first_mut() {
            *first = token;
        }
        if let Some(second) = values.get_mut(1).filter(|_| self.random.percent(50)) {
            *second = Some("a value".to_owned());
        }
        // Libraries name the types in the first execution and whenever they change.
        let again = kind.is_some() && self.random.percent(60);
        let kind = kind.filter(|_| again).unwrap_or(*self.random.pick(&TYPES));
        let flags = if self.random.percent(15) { READ_ONLY_CURSOR } else { 0 };
        self.prepared[place].kind = Some(kind);
        self.prepared[place].cursor = flags != 0;
        let make = |id| execute_payload(id, flags, &values, kind, !again);
        Step::Command { payload: make(id), shadow: make(shadow) }
    }

    /// Texts that are the same for all clients, so that these share what is prepared, and some of its own.
    fn prepare(&mut self, _oracle: &Oracle) -> Step {
        let (token, table) = (self.token(), self.table());
        let (versions, own) = (self.versions(), self.habits.versions);
        let text = match self.random.below(16) {
            11 | 12 if own => format!("UPDATE {versions} SET value = ? WHERE id = 3"),
            13 if own => format!("{}SELECT ?, version, ? FROM {versions} WHERE id = 3", self.comment()),
            14 | 15 if self.habits.promise.is_some() => {
                format!("{}SELECT ?, version, ? FROM {versions} WHERE id = 3", self.comment())
            }
            0..=2 => "SELECT ?, ?, @@prepared_schema_and_state".to_owned(),
            3 => "SELECT ?, seq, ? FROM rows_9".to_owned(),
            4 => "SELECT ?, @@sql_mode, @@time_zone, @@autocommit, ?, @@prepared_schema_and_state".to_owned(),
            5 => "SELECT ?, LAST_INSERT_ID()".to_owned(),
            6 => "SELECT ?, 1/0, ?".to_owned(),
            7 => "SELECT ? FROM missing".to_owned(),
            8 => "BEGIN".to_owned(),
            9 => "COMMIT".to_owned(),
            10 => "SET time_zone='+03:00'".to_owned(),
            11 => format!("INSERT INTO {table} (value) VALUES (?)"),
            12 => format!("UPDATE {table} SET value = ? WHERE id = 3"),
            13 => format!("SELECT ?, COUNT(*), ? FROM {table}"),
            14 => "nonsense".to_owned(),
            _ => format!("SELECT ?, ?, CONNECTION_ID() /* {token} */"),
        };
        self.preparing.push_back((text != "nonsense").then(|| text.matches('?').count()));
        command(command::STMT_PREPARE, text.as_bytes())
    }

    fn simple(&mut self, _oracle: &Oracle) -> Step {
        match self.random.below(5) {
            0..=2 => command(command::PING, b""),
            3 => command(command::STATISTICS, b""),
            _ => query(""),
        }
    }

    fn rare(&mut self, _oracle: &Oracle) -> Step {
        let (token, table) = (self.token(), self.table());
        match self.random.below(10) {
            0..=2 => Step::ChangeUser,
            3 | 4 => command(command::RESET_CONNECTION, b""),
            5 => command(0x77, b"unknown"),
            6 => command(command::SET_OPTION, &[u8::from(self.random.percent(50)), 0]),
            7 => command(command::STMT_RESET, &99u32.to_le_bytes()),
            // The ids that it generates are the table's.
            _ if self.habits.versions => command(command::PING, b""),
            _ => query(&format!("LOAD DATA LOCAL INFILE '{token}' INTO TABLE {table}")),
        }
    }

    fn kill(&mut self, oracle: &Oracle) -> Step {
        let token = self.token();
        // Ids near one's own belong to others most of the time.
        let own = oracle.session.thread_id;
        let id = match own.saturating_add_signed(i32::try_from(self.random.below(9)).unwrap_or(0) - 4) {
            id if id == own => own + 1,
            id => id,
        };
        let id = if self.known_ids.is_empty() || self.random.percent(10) {
            id
        } else {
            *self.random.pick(&self.known_ids)
        };
        Step::Kill(match self.random.below(3) {
            0 => [&[command::PROCESS_KILL][..], &id.to_le_bytes()].concat(),
            1 => payload(command::QUERY, format!("KILL QUERY {id} /* {token} */").as_bytes()),
            _ => payload(command::QUERY, format!("KILL {id} /* {token} */").as_bytes()),
        })
    }
}

fn payload(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], body].concat()
}

fn command(kind: u8, body: &[u8]) -> Step {
    let payload = payload(kind, body);
    Step::Command { shadow: payload.clone(), payload }
}

fn query(text: &str) -> Step {
    command(command::QUERY, text.as_bytes())
}
