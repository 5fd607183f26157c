//! The statements that programs are drawn from. Whatever they show follows from the client's own program: tables are
//! each client's own or never written, and nothing tells the time or the server's name.

use std::collections::BTreeSet;

use crate::random::Random;

/// Two schemas with the same names inside and different content.
pub(crate) const SCHEMAS: [&str; 2] = ["onramp_a", "onramp_b"];

/// Session variables with values that are allowed, and in the end one that is not.
const VARIABLES: &[(&str, &[&str])] = &[
    (
        "sql_mode",
        &[
            "''",
            "'STRICT_ALL_TABLES,ANSI_QUOTES'",
            "'NO_BACKSLASH_ESCAPES'",
            "'ANSI'",
            "'TRADITIONAL'",
            "CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
            "(SELECT 'IGNORE_SPACE')",
            "0",
            "'NONSENSE'",
        ],
    ),
    ("time_zone", &["'+05:30'", "'-08:00'", "'SYSTEM'", "'nowhere'"]),
    ("tx_isolation", &["'REPEATABLE-READ'", "'SERIALIZABLE'", "'READ-COMMITTED'", "'SOMETIMES'"]),
    ("sql_select_limit", &["2", "3", "18446744073709551615", "'x'"]),
    ("group_concat_max_len", &["5", "1024", "1", "NULL"]),
    ("lc_time_names", &["'de_DE'", "'en_US'", "'fr_FR'", "'xx_XX'"]),
    ("div_precision_increment", &["8", "4", "0", "99"]),
    ("max_sort_length", &["64", "1024", "-1"]),
    ("sql_safe_updates", &["0", "1", "ON", "2"]),
    ("unique_checks", &["0", "1", "'maybe'"]),
    ("foreign_key_checks", &["0", "1", "OFF", "'maybe'"]),
    ("check_constraint_checks", &["0", "1", "'maybe'"]),
    ("auto_increment_increment", &["1", "5", "2", "0"]),
    ("auto_increment_offset", &["1", "2", "'x'"]),
    ("sql_warnings", &["ON", "OFF", "3"]),
    ("sql_notes", &["0", "1", "'x'"]),
    ("max_error_count", &["64", "100", "'x'"]),
    ("default_week_format", &["3", "0", "9"]),
    ("sql_big_selects", &["0", "1", "'x'"]),
    ("sql_quote_show_create", &["0", "1", "'x'"]),
    ("net_write_timeout", &["77", "60", "'x'"]),
    ("wait_timeout", &["1234", "28800", "'x'"]),
    ("old_mode", &["''", "'UTF8_IS_UTF8MB3'", "'x'"]),
    ("optimizer_switch", &["'mrr=on'", "'default'", "'derived_merge=off'", "'nonsense=on'"]),
    ("collation_connection", &["utf8mb4_german2_ci", "'latin1_swedish_ci'", "'utf8mb4_bin'", "'nowhere_ci'"]),
    ("collation_server", &["utf8mb4_bin", "'latin1_german1_ci'", "'nowhere_ci'"]),
    ("character_set_results", &["utf8mb4", "latin1", "'utf8mb3'", "NULL", "'x'"]),
    ("character_set_client", &["utf8mb4", "latin1", "'ucs2'"]),
    ("character_set_connection", &["utf8mb4", "latin1", "NULL"]),
    ("storage_engine", &["InnoDB", "'MyISAM'", "'NoSuchEngine'"]),
    ("lock_wait_timeout", &["50", "86400", "'x'"]),
    ("max_statement_time", &["0", "100", "'x'"]),
    ("completion_type", &["0", "'NO_CHAIN'", "7"]),
    ("updatable_views_with_limit", &["YES", "NO", "3"]),
    ("explicit_defaults_for_timestamp", &["0", "1", "'x'"]),
    ("standard_compliant_cte", &["0", "1", "'x'"]),
    ("eq_range_index_dive_limit", &["0", "200", "'x'"]),
    ("no_such_variable", &["1"]),
    ("max_connections", &["5"]),
    ("version", &["'x'"]),
];

/// SET statements of other forms than `SET name = value`, which [`setting`] makes.
const SETTINGS: &[&str] = &[
    "SET NAMES utf8mb4",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES 'utf8mb3'",
    "SET NAMES utf8mb3 COLLATE utf8mb3_unicode_ci",
    "SET NAMES DEFAULT",
    "SET NAMES nonsense",
    "SET NAMES latin1 COLLATE utf8mb4_bin",
    "set names UTF8MB4",
    "/* c */ SET /* d */ NAMES latin1 -- e",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION READ WRITE, ISOLATION LEVEL READ UNCOMMITTED",
    "SET autocommit = 1",
    "SET autocommit = ON",
    "SET GLOBAL max_connections = 5",
    "",
    " ",
    ";",
    "-- nothing",
    "SET PASSWORD FOR nobody = ''",
    "SET DEFAULT ROLE none_such",
    "SET @@sql_mode = 'ANSI_QUOTES', @@session.sql_notes = 1",
    // Carried from backend to backend.
    "SET @n = 3",
    "SET @n := 1",
    "SET @N = -7, @m = 2",
    "SET @m = 1.50",
    "SET @n = 2e3",
    "SET @n = NULL",
    "SET @m = TRUE, @`n` = FALSE",
];

/// Each names what it reads, so that state of another client shows.
const PROBES: &[&str] = &[
    "SELECT DATABASE()",
    "SELECT SCHEMA() AS s",
    "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection",
    "SELECT @@sql_mode",
    "SELECT @@time_zone, FROM_UNIXTIME(0)",
    "SELECT @@tx_isolation, @@tx_read_only, @@autocommit, @@in_transaction",
    "SELECT @@sql_select_limit, @@group_concat_max_len, @@lc_time_names, @@div_precision_increment",
    "SELECT @@sql_safe_updates, @@unique_checks, @@foreign_key_checks, @@auto_increment_increment, @@sql_warnings, @@sql_notes",
    "SELECT @@max_error_count, @@default_week_format, @@wait_timeout, @@net_write_timeout",
    "SELECT @@optimizer_switch",
    "SELECT @@collation_server, @@character_set_server, @@old_mode",
    "SELECT @@storage_engine, @@lock_wait_timeout, @@completion_type",
    "SELECT w FROM words ORDER BY id",
    "SELECT 'a\\\\b', \"x\"",
    "SELECT * FROM words ORDER BY id",
    "SELECT id, w AS other FROM words AS v ORDER BY 1 DESC",
    "SELECT 1/3, DATE_FORMAT('2026-05-04', '%W')",
    "SELECT GROUP_CONCAT(w ORDER BY id) FROM words",
    "SELECT HEX('\u{e9}'), CHARSET('x'), COLLATION('x')",
    "SELECT '\u{e9}' = 'e', 'ss' = '\u{df}'",
    "SELECT 'a' || 'b'",
    "SELECT CURRENT_USER(), USER(), SESSION_USER()",
    "SELECT UNIX_TIMESTAMP('2026-01-01 00:00:00')",
    "SELECT COUNT(*) FROM words",
    "SHOW VARIABLES LIKE 'collation_connection'",
    "SELECT LAST_INSERT_ID()",
    "SELECT @@identity",
    "SELECT @@last_insert_id",
    "SELECT LAST_INSERT_ID() + 1 AS next",
    "SELECT IFNULL(LAST_INSERT_ID(), 0), 5",
    "SHOW SESSION VARIABLES LIKE 'sql_%'",
    "SHOW CREATE TABLE words",
    "SHOW TABLES LIKE 'w%'",
    "SHOW COLUMNS FROM onramp_a.words",
    "SELECT CURRENT_ROLE()",
    "DO 1",
    "SELECT WEEK('2026-01-01')",
    "SELECT CONNECTION_ID()",
    "SELECT CONNECTION_ID() AS `my connection_id()`, 1",
    "SELECT w FROM onramp_b.words WHERE id = 1",
    "(SELECT 1) UNION (SELECT 2) ORDER BY 1",
    "WITH c AS (SELECT id FROM words) SELECT id FROM c ORDER BY id",
    "SELECT NULL",
    "SELECT ''",
    "SELECT REPEAT('x', 300)",
    "SELECT id FROM words WHERE w IS NULL",
    "SELECT CAST('2026-01-01' AS DATE), CAST(1.5 AS DECIMAL(5,2)), 1e0, TRUE",
    "SELECT DATE_FORMAT(0, '%M')",
    "SELECT id FROM words ORDER BY id LIMIT 1",
    "SHOW STATUS LIKE 'no_such_status'",
    "SELECT /* c */ 1 -- d",
    "SELECT 1 # e",
    "SELECT 1;",
    "/*!50000 SELECT */ 5",
    "SHOW DATABASES LIKE 'onramp\\_%'",
    "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'onramp\\_%' ORDER BY 1",
    "CHECKSUM TABLE words",
    "SELECT w FROM words WHERE id = @n",
    "SELECT @n, @m AS m, @n + 1",
    "SELECT w, @m FROM words WHERE id < @n ORDER BY id",
    "SELECT REPEAT('y', 70000)",
    "SELECT a.id, b.w FROM words a, words b, words c, words d ORDER BY a.id, b.id, c.id, d.id",
    "SET STATEMENT sql_mode = 'ANSI', time_zone = '+02:00' FOR SELECT @@sql_mode, @@time_zone",
];

const DIAGNOSTICS: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW WARNINGS LIMIT 1",
    "SHOW ERRORS LIMIT 1, 2",
    "SHOW COUNT(*) ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count",
    "SELECT @@error_count, @@warning_count",
    "GET DIAGNOSTICS @n = NUMBER, @m = ROW_COUNT",
    "GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT, @n = MYSQL_ERRNO",
    "GET CURRENT DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT;",
];

/// Those that fail in some modes only use a table, so that they leave no list of those before them.
const FAILING: &[&str] = &[
    "SELEC",
    "SELECT missing",
    "SELECT * FROM no_such_table",
    "SELECT CAST('12x' AS INT)",
    "SELECT 1/0 FROM words",
    "DROP TABLE IF EXISTS no_such_table",
    "SELECT CAST('x' AS INT), CAST('y' AS INT), CAST('z' AS DATE)",
    "SIGNAL SQLSTATE '01234' SET MESSAGE_TEXT = 'a warning'",
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an error', MYSQL_ERRNO = 9999",
    "DROP DATABASE no_such_schema",
    "CREATE TABLE words (a INT)",
    "SELECT 1 FROM forbidden.t",
    "INSERT INTO no_such_table VALUES (1)",
    "SELECT * FROM words WHERE",
    "SELECT 'unterminated",
    "GRANT ALL ON *.* TO nobody",
    "USE no_such_schema",
    "SELECT UNHEX('zz') + 1 FROM words",
    "SELECT * FROM words LIMIT -1",
    "KILL 999999999",
    "SHOW GRANTS FOR nobody",
    "SELECT id FROM words HAVING missing > 1",
    "FLUSH NONSENSE",
    "SHOW CREATE TABLE no_such_table",
];

const COUNTS: &[&str] = &[
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT(), FOUND_ROWS()",
    "SELECT ROW_COUNT() AS `own row_count()`",
    "SELECT FOUND_ROWS() AS `own found_rows()`, 2 AS two",
];

/// What leaves something on the connection, and its uses. `{t}` is the client's table, `{n}` its number. Autocommit is on, so that
/// no SET autocommit ends a transaction that only reads (docs/DIFFERENCES.md).
const PINNING: &[&str] = &[
    "LOAD DATA LOCAL INFILE 'malformed' IGNORE INTO TABLE {t} FIELDS TERMINATED BY ',' (v, n)",
    "SET @a = 1",
    "SET @a = @a + 1, @b = 'x'",
    "SELECT @a, @b",
    "SET @s = 'carried'",
    "SET @s = 'by its client', @n = 5",
    "SELECT @s, CHARSET(@s), COLLATION(@s)",
    "SELECT @a := IFNULL(@a, 0) + 1",
    "SELECT 7 INTO @a",
    "SELECT @remembered, @bumped",
    "CALL remember(5)",
    "SELECT bump()",
    "SELECT onramp_b.bump()",
    "CALL modes()",
    "CALL warn()",
    "CALL fails()",
    "SELECT LASTVAL(no_such_sequence)",
    "BEGIN NOT ATOMIC SET sql_mode = 'TRADITIONAL'; SELECT @@sql_mode; END",
    "EXECUTE IMMEDIATE 'SET sql_mode = \'TRADITIONAL\''",
    "EXECUTE IMMEDIATE 'CALL warn()'",
    "CALL several()",
    "CALL answers(@a)",
    "CREATE TEMPORARY TABLE scratch (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(10))",
    "INSERT INTO scratch (v) VALUES ('c{n}')",
    "SELECT * FROM scratch",
    "DROP TEMPORARY TABLE scratch",
    "CREATE OR REPLACE TEMPORARY TABLE words (w VARCHAR(10)) SELECT 'temporary' AS w",
    "DROP TEMPORARY TABLE IF EXISTS words",
    "SELECT GET_LOCK('lock{n}', 0)",
    "SELECT RELEASE_LOCK('lock{n}')",
    "SELECT RELEASE_ALL_LOCKS()",
    "SELECT IS_USED_LOCK('lock{n}') IS NULL",
    "SELECT IS_FREE_LOCK('lock{n}')",
    "LOCK TABLES {t} WRITE, words READ",
    "UNLOCK TABLES",
    "PREPARE p FROM 'SELECT w FROM words WHERE id = ?'",
    "EXECUTE p USING @a",
    "EXECUTE no_such_statement",
    "DEALLOCATE PREPARE no_such_statement",
    "DEALLOCATE PREPARE p",
    "EXECUTE IMMEDIATE 'SET @a = 9'",
    "SELECT SQL_CALC_FOUND_ROWS * FROM words LIMIT 1",
    "HANDLER words OPEN",
    "HANDLER words READ FIRST",
    "HANDLER words CLOSE",
    "SET timestamp = 86400",
    "SELECT IF(@@timestamp < 1e9, NOW(), 'now')",
    "SET timestamp = DEFAULT",
    "SET insert_id = {n}500",
    "SET last_insert_id = 77",
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET TRANSACTION READ ONLY",
    "SET STATEMENT sql_mode = '' FOR SELECT 1/0",
    "SET STATEMENT max_statement_time = 50 FOR SELECT 1",
    "SELECT LAST_INSERT_ID(42)",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "SAVEPOINT s",
    "RELEASE SAVEPOINT s",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "SET profiling = 0",
    "SET @@sql_mode = ''",
    "SET @@local.time_zone = '+03:00'",
    "SET @@session.lc_time_names = 'de_DE', @c = 5",
    "SELECT @c",
    "SET rand_seed1 = 1, rand_seed2 = 2, @seeded = 1",
    "SELECT IF(@seeded, RAND(), 0)",
    "SET ROLE NONE",
    "SET ROLE none_such",
    "ROLLBACK TO no_such_savepoint",
    "RELEASE SAVEPOINT no_such_savepoint",
    "SELECT 1; SELEC; SELECT 2",
    "SET sql_auto_is_null = 1",
    "SET sql_auto_is_null = 'x'",
    "CALL no_such_procedure()",
    "SELECT no_such_function()",
    "SELECT JSON_VALUE(@a, '$')",
    "SET @e = '\u{e9}', @f = _latin1 0xe9",
    "SELECT @e, HEX(@f)",
];

/// Statements on the client's own table.
const WRITES: &[&str] = &[
    "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {t} FIELDS TERMINATED BY ',' (v, n)",
    "INSERT INTO {t} (v) VALUES ('one')",
    "INSERT INTO {t} (v) VALUES ('one'),('two'),('three')",
    "INSERT INTO {t} VALUES (NULL, 'null', 1)",
    "INSERT INTO {t} VALUES ({n}900, 'explicit', 1)",
    "INSERT IGNORE INTO {t} VALUES ({n}001, 'ignored', 1)",
    "INSERT INTO {t} VALUES ({n}001, 'dup', 2)",
    "INSERT INTO {t} (v, n) VALUES ('too large', 1000)",
    "INSERT INTO {t} (v) VALUES (REPEAT('x', 50))",
    "INSERT INTO {t} (v) VALUES ('\u{e9}'), (_latin1 0xe9)",
    "UPDATE {t} SET v = 'changed' WHERE id > 0 ORDER BY id LIMIT 3",
    "UPDATE {t} SET v = 'changed'",
    "DELETE FROM {t} WHERE v = 'two'",
    "REPLACE INTO {t} VALUES ({n}001, 'replaced', 3)",
    "SELECT * FROM {t} ORDER BY id LIMIT 5",
    "INSERT INTO {t} (v) SELECT w FROM words WHERE w IS NOT NULL ORDER BY id",
    "INSERT INTO {t} (id, v) VALUES (LAST_INSERT_ID(5), 'set') ON DUPLICATE KEY UPDATE n = 1",
    "INSERT INTO {t} (v) VALUES ('r') RETURNING v, id",
    "DELETE FROM {t}",
    "TRUNCATE TABLE {t}",
    "INSERT INTO {t} VALUES ({n}001, 'x', 0) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), n = IFNULL(n, 0) + 1",
    "UPDATE {t} SET n = LAST_INSERT_ID(17) ORDER BY id LIMIT 1",
    "ALTER TABLE {t} COMMENT 'altered'",
    "DELETE FROM {t} WHERE id > 0 ORDER BY id LIMIT 1 RETURNING id",
    "SELECT COUNT(*), SUM(n) FROM {t}",
    "SELECT * FROM {t} WHERE id IS NULL",
    "SELECT v FROM {t} ORDER BY id FOR UPDATE",
    "LOAD DATA LOCAL INFILE 'empty' INTO TABLE {t}",
    "INSERT INTO {t} () VALUES ()",
    "UPDATE {t} SET id = id",
    "INSERT INTO {t} (v, n) VALUES (@m, @n)",
    "UPDATE {t} SET n = @m WHERE id > @n ORDER BY id LIMIT 2",
];

/// What statements are for; [`draw`] makes one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Setting,
    Probe,
    Write,
    Failing,
    Diagnostics,
    Counts,
    Pinning,
}

impl Kind {
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Setting => SETTINGS,
            Self::Probe => PROBES,
            Self::Write => WRITES,
            Self::Failing => FAILING,
            Self::Diagnostics => DIAGNOSTICS,
            Self::Counts => COUNTS,
            Self::Pinning => PINNING,
        }
    }
}

/// After DDL and another collation the server describes columns again, and behind these variables it does not, although they are
/// others (docs/DIFFERENCES.md): where clients keep what they have heard of columns, there is none of it.
const DESCRIBED_AGAIN: [&str; 8] = [
    "ALTER",
    "TRUNCATE",
    " COLLATE ",
    "collation_connection",
    "character_set_results",
    // Alone, so that SET NAMES changes one of the two before and not this one.
    "character_set_client",
    "character_set_connection",
    // In the place of a table that statements have been prepared for.
    "TEMPORARY TABLE words",
];

/// Whether statements are described again behind this one, or not though they would have to be.
pub(crate) fn describes_again(text: &str) -> bool {
    DESCRIBED_AGAIN.iter().any(|word| text.contains(word))
}

/// A statement of this kind for this client.
pub(crate) fn draw(kind: Kind, client: usize, random: &mut Random) -> String {
    match kind {
        Kind::Setting if random.chance(70) => return setting(random),
        Kind::Probe if random.chance(15) => return read_variable(random),
        _ => {}
    }
    filled_in(random.one_of::<&str>(kind.texts()), client)
}

/// All that programs may say, each assignment with the first of its values.
#[cfg(test)]
pub(crate) fn every_text() -> Vec<String> {
    let kinds = [
        Kind::Setting,
        Kind::Probe,
        Kind::Write,
        Kind::Failing,
        Kind::Diagnostics,
        Kind::Counts,
        Kind::Pinning,
    ];
    let texts = kinds.iter().flat_map(|kind| kind.texts()).map(ToString::to_string);
    let assignments = VARIABLES.iter().flat_map(|(name, values)| {
        values.iter().flat_map(move |value| ["=", ":="].map(|sign| format!("SET {name} {sign} {value}")))
    });
    texts.chain(assignments).collect()
}

/// One assignment, or two in a statement.
fn setting(random: &mut Random) -> String {
    let first = assignment(random);
    if random.chance(20) { format!("SET {first}, {}", assignment(random)) } else { format!("SET {first}") }
}

fn assignment(random: &mut Random) -> String {
    let (name, values) = random.one_of(VARIABLES);
    // Values in order: the wrong one is drawn less often, or nothing would ever be set.
    let value = match random.below(10) {
        0 => "DEFAULT",
        1 => values[values.len() - 1],
        _ => values[random.below(values.len().max(2) - 1)],
    };
    let forms = ["{}", "{}", "SESSION {}", "@@session.{}", "LOCAL {}", "@@LOCAL.{}", "`{}`", "@@{}"];
    let form = match random.one_of(&forms) {
        // That would be about the next transaction.
        &"@@{}" if *name == "tx_isolation" => "{}",
        form => form,
    };
    format!("{} {} {value}", form.replace("{}", name), random.one_of(&["=", ":="]))
}

/// What all clients of a program say now and then, as applications do: to most of them the answer is known.
pub(crate) fn habits(random: &mut Random) -> Vec<String> {
    let mut name_and_value = || {
        let (name, values) = random.one_of(VARIABLES);
        // The last one is wrong.
        (*name, values[random.below(values.len().max(2) - 1)])
    };
    let ((one, first), (two, second)) = (name_and_value(), name_and_value());
    vec![
        format!("SET {one} = {first}"),
        format!("SET SESSION {two} = {second}, SESSION {one} = {first}"),
        String::from("SET NAMES utf8mb4"),
        String::from("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        format!("SELECT @@session.{one}"),
        format!("SELECT @@session.{one} AS a, @@session.{two} AS b"),
    ]
}

/// What is prepared and leaves nothing on a backend but itself.
pub(crate) fn prepared(client: usize, random: &mut Random) -> String {
    let texts = [
        "SELECT ?, @@sql_mode",
        "SELECT ? + 1, FROM_UNIXTIME(0), 1 / 3",
        "SELECT w FROM words WHERE id = ?",
        "SELECT id, w FROM words ORDER BY id",
        "SELECT LAST_INSERT_ID(), ?",
        "SELECT ROW_COUNT(), ?",
        "SELECT * FROM {t} WHERE id > ? ORDER BY id LIMIT 3",
        "SELECT id FROM words ORDER BY id LIMIT ?, 2",
        "SELECT id FROM words ORDER BY id LIMIT 2 OFFSET ?",
        "INSERT INTO {t} (v) VALUES (?)",
        "INSERT INTO {t} (v, n) VALUES (?, ?)",
        "INSERT INTO {t} (n) VALUES (?) RETURNING id, n",
        "UPDATE {t} SET v = ? ORDER BY id LIMIT 2",
        "REPLACE INTO {t} (id, v) VALUES ({n}001, ?)",
        "DELETE FROM {t} WHERE v = ?",
        "SELEC ?",
        "SELECT missing FROM words WHERE id = ?",
    ];
    filled_in(random.one_of::<&str>(&texts), client)
}

fn filled_in(text: &str, client: usize) -> String {
    text.replace("{t}", &format!("t{client}")).replace("{n}", &(client + 1).to_string())
}

fn read_variable(random: &mut Random) -> String {
    let (name, _) = random.one_of(VARIABLES);
    random
        .one_of(&[
            "SELECT @@{}",
            "SELECT @@session.{}",
            "SELECT @@{} AS v",
            "SHOW VARIABLES LIKE '{}'",
            "SHOW SESSION VARIABLES WHERE Variable_name = '{}'",
        ])
        .replace("{}", name)
}

/// What both servers are given before each program, for this many clients.
pub(crate) fn preparation(clients: &BTreeSet<usize>) -> Vec<String> {
    let mut statements = vec![];
    for (number, schema) in SCHEMAS.iter().enumerate() {
        statements.extend([
            format!("DROP DATABASE IF EXISTS {schema}"),
            format!("CREATE DATABASE {schema}"),
            format!("CREATE TABLE {schema}.words (id INT PRIMARY KEY, w VARCHAR(40) CHARACTER SET utf8mb4)"),
            format!("INSERT INTO {schema}.words VALUES (1,'{schema}'),(2,'\u{e9}'),(3,'stra\u{df}e'),(4,NULL)"),
            format!("CREATE PROCEDURE {schema}.warn() BEGIN DECLARE a TINYINT; SET sql_mode=''; SET a = 1000; SELECT a, {number}; END"),
            format!("CREATE PROCEDURE {schema}.remember(IN v INT) SET @remembered = v + {number}"),
            format!("CREATE PROCEDURE {schema}.modes() SET SESSION time_zone = '+09:00', lc_time_names = 'fr_FR'"),
            format!("CREATE PROCEDURE {schema}.several() BEGIN SELECT 1; SELECT w FROM {schema}.words ORDER BY id; SELECT 3 FROM DUAL WHERE 0; END"),
            format!("CREATE PROCEDURE {schema}.fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it fails'; END"),
            format!("CREATE PROCEDURE {schema}.answers(OUT v INT) SET v = 42 + {number}"),
            format!("CREATE FUNCTION {schema}.bump() RETURNS INT BEGIN SET @bumped = IFNULL(@bumped, {number}) + 1; RETURN @bumped; END"),
        ]);
        for client in clients {
            let first = (client + 1) * 1000 + 1;
            statements.push(format!(
                "CREATE TABLE {schema}.t{client} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), n TINYINT) AUTO_INCREMENT = {first}"
            ));
        }
    }
    statements
}
