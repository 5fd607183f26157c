//! The facts that the service account has learned about the server.

use std::collections::BTreeMap;

use sql::{LexMode, ServerKind, TrackerVariable};
use wire::{Capabilities, StatusFlags};

use crate::accounts::Accounts;
use crate::accounts::method::Method;
use crate::accounts::queries::{self, Depth};
use crate::backend::from_server::own_answers::{first_field, rows_of, sum_of_counters};
use crate::backend::scheduling::rescue::allowance::{FUNCTIONS_QUERY, FUNCTIONS_QUERY_8};
use crate::scheduling::learned::lock_waits::told::{
    WAITERS_QUERY, WAITERS_QUERY_8, WAITS_QUERY, WAITS_QUERY_8,
};
use crate::server::control::version::Version;
use crate::server::login::Established;
use crate::session::Charset;
use crate::session::aftermath::ANSI_QUOTES;
use crate::session::trackers::Trackers;

/// The server as it was when the service account last logged in; the accounts are read again and again.
pub(crate) struct Facts {
    pub(crate) version: Version,
    pub(crate) capabilities: Capabilities,
    /// The method that the server greets with, and expects of users that it does not know.
    pub(crate) method: Method,
    /// True if the server looks up names of peers (`skip_name_resolve` is off), which decides what `localhost` means.
    pub(crate) name_resolution: bool,
    /// The part of the global `sql_mode` that matters to the lexer. A new connection starts with that mode.
    pub(crate) lex_mode: LexMode,
    /// The global `sql_mode`.
    sql_mode: Box<[u8]>,
    pub(super) max_connections: u32,
    /// True if a new connection commits each statement by itself.
    autocommit: bool,
    pub(crate) max_allowed_packet: usize,
    /// Prepared statements that it takes, of all connections together.
    pub(crate) max_prepared_stmt_count: u32,
    /// The trackers of a new connection: which changes of its session it hears of, and whether of its transactions.
    pub(crate) trackers: Trackers,
    pub(crate) tracks_transactions: bool,
    pub(crate) accounts: Accounts,
    /// How much of the accounts the service account may read.
    pub(super) depth: Depth,
    collations: BTreeMap<u8, (Vec<u8>, Vec<u8>)>,
    default_collation: u8,
    /// The server's `collation_server`, which may have a number that fits no handshake.
    collation_server: Vec<u8>,
}

plain!(struct Facts {
    version, capabilities, method, name_resolution, lex_mode, sql_mode, max_connections, autocommit, max_allowed_packet,
    max_prepared_stmt_count, trackers, tracks_transactions, accounts, depth, collations, default_collation,
    collation_server,
});

/// The query for one row about the server. The names are the same in MySQL and MariaDB.
macro_rules! server_query {
    ($trackers:expr) => {
        concat!(
            "SELECT @@global.skip_name_resolve, @@global.sql_mode, @@global.max_connections, \
             @@global.max_allowed_packet, @@global.collation_server, @@global.autocommit, \
             @@global.max_prepared_stmt_count, ",
            $trackers
        )
    };
}

const SERVER_QUERY: &str = server_query!(
    "@@global.session_track_schema, @@global.session_track_state_change, \
     @@global.session_track_system_variables, @@global.session_track_transaction_info"
);

const SERVER_QUERY_WITHOUT_TRACKERS: &str = server_query!("'OFF', 'OFF', '', 'OFF'");

/// The trackers, in the order in which they are asked for.
const TRACKERS: [TrackerVariable; 3] =
    [TrackerVariable::Schema, TrackerVariable::StateChange, TrackerVariable::SystemVariables];

/// The global values of both hold for new connections: an account that is left out could not log in, and a question of many
/// rows would be refused (ER_TOO_BIG_SELECT). A server that knows neither goes on without. No table has as many rows as the
/// largest signed number; with the largest unsigned one, their default, servers that count rows in signed numbers refuse all
/// questions behind it. Seen with go-mysql-server 0.20.0.
pub(crate) const NO_LIMITS: &str =
    "SET @@session.sql_select_limit = 9223372036854775807, @@session.sql_big_selects = 1";

/// Collations that fit the one byte of a handshake. MariaDB's context-independent ones have no id.
pub(crate) const COLLATIONS_QUERY: &str = "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME \
    FROM information_schema.COLLATIONS WHERE ID IS NOT NULL AND ID < 256";

/// The collation of the servers' own names, on all of them.
const UTF8MB3_GENERAL_CI: u8 = 33;

/// A row of a control query, and what was wrong with it.
type Row<'a> = [Option<&'a [u8]>];

impl Facts {
    pub(crate) fn new(established: &Established) -> Self {
        Self {
            version: Version::new(established.version.clone()),
            capabilities: established.offered,
            method: established.method,
            name_resolution: true,
            lex_mode: LexMode::default(),
            sql_mode: Box::default(),
            max_connections: 0,
            autocommit: true,
            max_allowed_packet: 16 << 20,
            max_prepared_stmt_count: 0,
            trackers: Trackers::default(),
            tracks_transactions: false,
            accounts: Accounts::default(),
            depth: Depth::Rights,
            collations: BTreeMap::new(),
            default_collation: UTF8MB4_GENERAL_CI,
            collation_server: b"utf8mb4_general_ci".to_vec(),
        }
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.version.is_mariadb()
    }

    /// Says whether the server can tell what a statement changes of its session, as MySQL from 5.7 and MariaDB from 10.2 on do.
    /// Others that speak their protocol may not, whatever version they say.
    pub(crate) fn has_trackers(&self) -> bool {
        self.capabilities.contains(Capabilities::SESSION_TRACK)
    }

    /// Says whether a tracker's report of a variable may mean another one. MariaDB from 11.1 on (where `tx_isolation` and
    /// `transaction_isolation` became two names of one variable) tells variables apart by where they are stored. Of all that are
    /// bits of one word, autocommit and foreign_key_checks among them, it reports one. Of storage engines' own, such as
    /// innodb_lock_wait_timeout, it reports none. Seen with 11.4.5.
    pub(crate) fn has_vague_trackers(&self) -> bool {
        self.is_mariadb() && self.version.major() >= 11
    }

    /// Says whether a connection is still in BEGIN after an error that has rolled its transaction back, so that its next
    /// statement opens another one, although the server says that none is open. Seen with MariaDB 11.4.5 (and not 10.11.19)
    /// behind a deadlock.
    pub(crate) fn begins_again_after_deadlocks(&self) -> bool {
        self.is_mariadb() && self.version.major() >= 11
    }

    /// Says whether clients that have been idle for too long hear why: those of MySQL since 8.0.24.
    pub(crate) fn tells_idle_clients(&self) -> bool {
        let mut numbers =
            self.version.text().split(|byte| !byte.is_ascii_digit()).map(|digits| number(Some(digits)));
        let mut next = || numbers.next().flatten().unwrap_or(0_u32);
        !self.is_mariadb() && [next(), next(), next()] >= [8, 0, 24]
    }

    pub(crate) fn accounts_query(&self) -> &'static str {
        queries::accounts(self.is_mariadb(), self.version.major(), self.depth)
    }

    /// Returns the question: has any account changed?
    pub(crate) fn accounts_probe(&self) -> &'static str {
        queries::probe(self.is_mariadb(), self.version.major(), self.depth)
    }

    /// How many statements have changed accounts.
    pub(crate) fn changes_query(&self) -> &'static str {
        queries::changes(self.is_mariadb())
    }

    /// Returns the count in the answer to that question; `None` where it tells nothing.
    pub(crate) fn count_of_changes(&self, answer: &[u8]) -> Option<Vec<u8>> {
        if self.is_mariadb() { first_field(answer) } else { sum_of_counters(&rows_of(answer), |_| true) }
    }

    /// See [`crate::scheduling::learned::lock_waits`].
    pub(crate) fn lock_waits_query(&self) -> &'static str {
        if self.is_mysql_since_8() { WAITS_QUERY_8 } else { WAITS_QUERY }
    }

    /// Likewise.
    pub(crate) fn waiters_query(&self) -> &'static str {
        if self.is_mysql_since_8() { WAITERS_QUERY_8 } else { WAITERS_QUERY }
    }

    /// See [`crate::backend::scheduling::rescue`].
    pub(crate) fn functions_query(&self) -> &'static str {
        if self.is_mysql_since_8() { FUNCTIONS_QUERY_8 } else { FUNCTIONS_QUERY }
    }

    /// Says whether the server knows CURRENT_ROLE(): each MariaDB that tracks sessions (from 10.2 on) does. Servers that call
    /// themselves MySQL 8 and have no trackers may not.
    pub(crate) fn has_roles(&self) -> bool {
        self.has_trackers() && (self.is_mariadb() || self.is_mysql_since_8())
    }

    /// Asks for everything but the accounts.
    pub(crate) fn server_query(&self) -> &'static str {
        if self.has_trackers() { SERVER_QUERY } else { SERVER_QUERY_WITHOUT_TRACKERS }
    }

    pub(crate) fn is_mysql_since_8(&self) -> bool {
        self.version.major() >= 8 && !self.is_mariadb()
    }

    /// The row of [`Self::server_query`].
    pub(crate) fn take_server_row(&mut self, row: &Row<'_>) -> Option<()> {
        let [skip_names, sql_mode, connections, packet, collation, autocommit, prepared, trackers @ ..] = row
        else {
            return None;
        };
        let [schema, state_change, variables, transactions] = trackers else { return None };
        // NULL is an empty list.
        let values = [(*schema)?, (*state_change)?, variables.unwrap_or_default()];
        for (tracker, value) in TRACKERS.into_iter().zip(values) {
            self.trackers.set(tracker, value);
        }
        self.tracks_transactions = !(*transactions)?.eq_ignore_ascii_case(b"OFF");
        self.autocommit = !matches!((*autocommit)?, b"0" | b"OFF");
        self.name_resolution = !matches!((*skip_names)?, b"1" | b"ON");
        self.sql_mode = (*sql_mode)?.into();
        let server = if self.is_mariadb() { ServerKind::MariaDb } else { ServerKind::MySql };
        self.lex_mode =
            LexMode { server, version: self.version.number(), ..crate::session::lex_mode(&self.sql_mode) };
        self.max_connections = number(*connections)?;
        self.max_allowed_packet = number(*packet)?;
        self.max_prepared_stmt_count = number(*prepared)?;
        let collation = (*collation)?;
        if let Some((&id, _)) = self.collations.iter().find(|(_, (name, _))| name == collation) {
            self.default_collation = id;
        }
        self.collation_server = collation.to_vec();
        Some(())
    }

    /// A row of [`COLLATIONS_QUERY`].
    pub(crate) fn take_collation_row(&mut self, row: &Row<'_>) -> Option<()> {
        let [id, name, charset] = row else { return None };
        self.collations.insert(number(*id)?, ((*name)?.to_vec(), (*charset)?.to_vec()));
        Some(())
    }

    /// Takes that row once more, on the same connection. The row's collations were true of sessions when the server
    /// started; `SET GLOBAL collation_server` changes no character set of theirs.
    pub(crate) fn take_server_row_again(&mut self, row: &Row<'_>) -> Option<()> {
        let collation_server = std::mem::take(&mut self.collation_server);
        let default_collation = self.default_collation;
        let taken = self.take_server_row(row);
        (self.collation_server, self.default_collation) = (collation_server, default_collation);
        taken
    }

    /// The status flags that a new connection has. Client libraries escape values by those of `sql_mode`.
    pub(crate) fn fresh_status(&self) -> StatusFlags {
        let autocommit = if self.autocommit { StatusFlags::AUTOCOMMIT.0 } else { 0 };
        StatusFlags(autocommit | self.status_of_sql_mode())
    }

    /// Returns the status flags of a greeting. MySQL says there that a connection commits each statement by itself, also where it
    /// does not.
    pub(crate) fn greeting_status(&self) -> StatusFlags {
        if self.is_mariadb() {
            return self.fresh_status();
        }
        StatusFlags(StatusFlags::AUTOCOMMIT.0 | self.status_of_sql_mode())
    }

    /// Returns the flags by which both servers tell of the global `sql_mode` (THD::init in their sql_class.cc).
    fn status_of_sql_mode(&self) -> u16 {
        let escapes =
            if self.lex_mode.no_backslash_escapes { StatusFlags::NO_BACKSLASH_ESCAPES.0 } else { 0 };
        let quotes = if self.is_mariadb() && self.lex_mode.ansi_quotes { ANSI_QUOTES } else { 0 };
        escapes | quotes
    }

    /// The `sql_mode` after the login of a client with `CLIENT_IGNORE_SPACE`. The servers put it into the session's at the login
    /// alone (`prepare_new_connection_state` in MariaDB's and MySQL's `sql/sql_connect.cc`): a reset takes it out again.
    pub(crate) fn sql_mode_with_ignore_space(&self) -> Box<[u8]> {
        let modes = self.sql_mode.split(|&byte| byte == b',').filter(|mode| !mode.is_empty());
        let others = modes.filter(|mode| !mode.eq_ignore_ascii_case(b"IGNORE_SPACE"));
        others.chain([&b"IGNORE_SPACE"[..]]).collect::<Vec<_>>().join(&b","[..]).into()
    }

    /// Returns the character set that a login with this collation number gives. An unknown number means the server's own default,
    /// as the servers have it (thd_init_client_charset).
    pub(crate) fn charset_of_login(&self, collation: u8) -> (u8, Charset) {
        let known = if self.collations.contains_key(&collation) { collation } else { self.default_collation };
        match self.collations.get(&known) {
            Some((name, charset)) => (known, Charset::of_login(charset, name)),
            None => (UTF8MB4_GENERAL_CI, Charset::of_login(b"utf8mb4", b"utf8mb4_general_ci")),
        }
    }

    /// The collation of texts in results under these character sets, as far as its number fits one byte, and the most bytes that a
    /// character has there.
    pub(crate) fn collation_of_results(&self, charset: &Charset) -> (u8, u8) {
        // Without conversion names are sent as they are on the server.
        let results = if charset.results.is_empty() { &b"utf8mb3"[..] } else { &charset.results };
        let own = (charset.connection == charset.results).then(|| self.number_of(&charset.collation));
        let number = own.flatten().or_else(|| self.default_collation_of(results));
        (number.unwrap_or(UTF8MB3_GENERAL_CI), widest_character(results))
    }

    fn number_of(&self, collation: &[u8]) -> Option<u8> {
        self.collations.iter().find(|(_, (name, _))| **name == *collation).map(|(&number, _)| number)
    }

    /// Returns the collation that `SET NAMES` with this name gives: for most character sets the only one with the name of a
    /// language that is not that of a country.
    fn default_collation_of(&self, charset: &[u8]) -> Option<u8> {
        const DEFAULTS: [&[u8]; 10] = [
            b"_0900_ai_ci", // MySQL's utf8mb4
            b"_swedish_ci", // before general_ci: latin1 has both
            b"_general_ci",
            b"_chinese_ci",
            b"_japanese_ci",
            b"_korean_ci",
            b"_english_ci",
            b"_turkish_ci",
            b"_thai_ci",
            b"", // binary
        ];
        let of_unicode = charset.starts_with(b"utf") || charset == b"ucs2";
        let defaults = DEFAULTS.into_iter().filter(|&end| {
            // Those of Unicode have a collation of each language beside it.
            !of_unicode || end == b"_general_ci" || (end == b"_0900_ai_ci" && !self.is_mariadb())
        });
        defaults.into_iter().find_map(|end| self.number_of(&[charset, end].concat()))
    }

    /// The character set of a collation's number, where no client may talk in it: its characters have two bytes at least
    /// (is_supported_parser_charset).
    pub(crate) fn unusable_charset(&self, collation: u8) -> Option<&str> {
        let (_, charset) = self.collations.get(&collation)?;
        ["ucs2", "utf16", "utf16le", "utf32"].into_iter().find(|name| name.as_bytes() == &**charset)
    }

    /// Returns the character set that COM_RESET_CONNECTION gives a client that has logged in with this collation number. MariaDB
    /// brings back that of the login. MySQL takes the global values, which are those of `collation_server` unless somebody sets
    /// them otherwise.
    pub(crate) fn charset_of_reset(&self, collation: u8) -> Charset {
        if self.is_mariadb() {
            return self.charset_of_login(collation).1;
        }
        // The names of collations begin with their character set's; `binary` is both.
        let name = &self.collation_server;
        let charset = name.split(|&byte| byte == b'_').next().unwrap_or_default();
        Charset::of_login(charset, name)
    }
}

/// The most bytes of a character (information_schema.CHARACTER_SETS, MAXLEN).
fn widest_character(charset: &[u8]) -> u8 {
    match charset {
        b"utf8mb4" | b"gb18030" | b"utf16" | b"utf16le" | b"utf32" => 4,
        b"utf8" | b"utf8mb3" | b"ujis" | b"eucjpms" => 3,
        b"big5" | b"cp932" | b"euckr" | b"gb2312" | b"gbk" | b"sjis" | b"ucs2" => 2,
        _ => 1,
    }
}

fn number<T: std::str::FromStr>(field: Option<&[u8]>) -> Option<T> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}

/// A collation that libmysqlclient 5.5.3 and later, and MariaDB's connectors, can all speak.
const UTF8MB4_GENERAL_CI: u8 = 45;

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_ROW: [&[u8]; 11] = [
        b"1",
        b"ANSI_QUOTES",
        b"151",
        b"16777216",
        b"latin1_swedish_ci",
        b"1",
        b"16382",
        b"1",
        b"0",
        b"time_zone",
        b"OFF",
    ];

    fn facts() -> Facts {
        let mut facts =
            Facts::new(&Established::of_test("5.5.5-10.11.14-MariaDB-0+deb12u2", Capabilities(0)));
        facts.take_collation_row(&[Some(b"8"), Some(b"latin1_swedish_ci"), Some(b"latin1")]).unwrap();
        facts.take_collation_row(&[Some(b"45"), Some(b"utf8mb4_general_ci"), Some(b"utf8mb4")]).unwrap();
        let row = SERVER_ROW.map(Some);
        facts.take_server_row(&row).unwrap();
        facts
    }

    #[test]
    fn trackers_are_vague_from_mariadb_11_on() {
        let vague =
            |version| Facts::new(&Established::of_test(version, Capabilities(0))).has_vague_trackers();
        assert!(vague("11.4.5-MariaDB") && vague("12.0.2-MariaDB"));
        assert!(
            !vague("5.5.5-10.11.14-MariaDB-0+deb12u2") && !vague("9.7.4-2") && !vague("8.0.11-TiDB-v8.5.0")
        );
    }

    #[test]
    fn a_server_without_trackers_is_asked_for_nothing_that_comes_with_them() {
        let of = |capabilities| Facts::new(&Established::of_test("8.0.33", capabilities));
        let (with, mut without) = (of(Capabilities::SESSION_TRACK), of(Capabilities::DEPRECATE_EOF));
        assert!(with.has_trackers() && with.has_roles() && with.server_query().contains("session_track"));
        assert!(!without.has_trackers() && !without.has_roles());
        assert!(!without.server_query().contains("session_track"));
        // Its row is of the same form.
        let mut row = SERVER_ROW.map(Some);
        row[7..].copy_from_slice(&[Some(b"OFF"), Some(b"OFF"), Some(b""), Some(b"OFF")]);
        assert_eq!(without.take_server_row(&row), Some(()));
    }

    #[test]
    fn the_limit_of_answers_fits_a_signed_number() {
        let digits = NO_LIMITS.split(|sign: char| !sign.is_ascii_digit());
        let largest = digits.filter_map(|digits| digits.parse::<u64>().ok()).max();
        assert!(largest.is_some_and(|largest| i64::try_from(largest).is_ok()));
    }

    #[test]
    fn the_server_row_is_taken_in() {
        let facts = facts();
        assert!(facts.is_mariadb());
        assert!(!facts.name_resolution);
        assert_eq!(facts.max_connections, 151);
        assert_eq!(facts.trackers.literal(TrackerVariable::SystemVariables), "'time_zone'");
        assert!(!facts.tracks_transactions);
        assert!(facts.accounts_query().contains("FROM mysql.global_priv"));
    }

    #[test]
    fn a_new_connection_is_told_of_its_sql_mode() {
        let mut facts = facts();
        assert_eq!(facts.fresh_status(), StatusFlags(2 | 1 << 15));
        let mut row = SERVER_ROW.map(Some);
        row[1] = Some(b"ANSI_QUOTES,NO_BACKSLASH_ESCAPES");
        row[5] = Some(b"0");
        facts.take_server_row(&row).unwrap();
        assert_eq!(facts.fresh_status(), StatusFlags(1 << 9 | 1 << 15));
        assert_eq!(facts.greeting_status(), facts.fresh_status());
        facts.version = Version::new(b"9.7.4".to_vec());
        assert_eq!(facts.greeting_status(), StatusFlags(2 | 1 << 9));
    }

    #[test]
    fn a_client_may_add_a_mode_at_its_login() {
        assert_eq!(*facts().sql_mode_with_ignore_space(), *b"ANSI_QUOTES,IGNORE_SPACE");
        let plain = Facts::new(&Established::of_test("9.7.0", Capabilities(0)));
        assert_eq!(*plain.sql_mode_with_ignore_space(), *b"IGNORE_SPACE");
    }

    #[test]
    fn an_unknown_collation_means_the_servers_default() {
        let (id, charset) = facts().charset_of_login(255);
        assert_eq!((id, &*charset.client), (8, &b"latin1"[..]));
        assert_eq!(facts().charset_of_login(45).0, 45);
    }

    #[test]
    fn wide_characters_are_for_no_client() {
        let mut facts = facts();
        facts.take_collation_row(&[Some(b"35"), Some(b"ucs2_general_ci"), Some(b"ucs2")]).unwrap();
        assert_eq!(facts.unusable_charset(35), Some("ucs2"));
        assert_eq!((facts.unusable_charset(45), facts.unusable_charset(255)), (None, None));
    }

    #[test]
    fn a_reset_brings_back_the_logins_character_sets_or_the_servers() {
        let mut facts = facts();
        assert_eq!(&*facts.charset_of_reset(45).collation, b"utf8mb4_general_ci");
        facts.version = Version::new(b"9.7.4".to_vec());
        let of = |facts: &Facts| {
            let charset = facts.charset_of_reset(45);
            (charset.client.to_vec(), charset.collation.to_vec())
        };
        assert_eq!(of(&facts), (b"latin1".to_vec(), b"latin1_swedish_ci".to_vec()));
        let mut row = SERVER_ROW.map(Some);
        row[4] = Some(b"utf8mb4_general_ci");
        facts.take_server_row_again(&row).unwrap();
        assert_eq!(of(&facts), (b"latin1".to_vec(), b"latin1_swedish_ci".to_vec()));
        facts.collation_server = b"utf8mb4_0900_bin".to_vec(); // number 309
        assert_eq!(of(&facts), (b"utf8mb4".to_vec(), b"utf8mb4_0900_bin".to_vec()));
        facts.collation_server = b"binary".to_vec();
        assert_eq!(of(&facts), (b"binary".to_vec(), b"binary".to_vec()));
    }
}
