//! What programs are drawn from: the rules in the files beside this one, and what there is in the schemas.

use std::collections::BTreeMap;

/// The schemas of programs, with the same inside.
pub(super) const SCHEMAS: [&str; 2] = ["onramp_a", "onramp_b"];

/// What there is in each schema.
pub(super) const OBJECTS: [&str; 24] = [
    "CREATE TABLE words (id INT PRIMARY KEY, w VARCHAR(40) CHARACTER SET utf8mb4)",
    "INSERT INTO words VALUES (1, DATABASE()), (2, '\u{e9}'), (3, 'stra\u{df}e')",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "INSERT INTO t (v) VALUES (1), (2)",
    "CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE TABLE w (id INT, v INT)",
    "INSERT INTO w VALUES (1, 1)",
    "CREATE TABLE numbered (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE FUNCTION f_lock() RETURNS INT RETURN GET_LOCK('leak2', 0)",
    "CREATE FUNCTION f_var() RETURNS INT BEGIN SET @seen = 5; RETURN 1; END",
    "CREATE FUNCTION f_temp() RETURNS INT BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS tmp1 (i INT); RETURN 1; END",
    "CREATE FUNCTION f_insert() RETURNS INT BEGIN INSERT INTO u (v) VALUES (LAST_INSERT_ID(77)); RETURN 1; END",
    "CREATE PROCEDURE p_lock() DO GET_LOCK('leak1', 0)",
    "CREATE PROCEDURE p_var(IN n INT) SET @a = n",
    "CREATE PROCEDURE p_out(OUT n INT) SET n = 5",
    "CREATE PROCEDURE p_mode() SET SESSION sql_mode = 'ANSI_QUOTES', SESSION time_zone = '+09:00'",
    "CREATE PROCEDURE p_temp() CREATE TEMPORARY TABLE tmp1 (i INT)",
    "CREATE PROCEDURE p_role() SET ROLE leak_role",
    "CREATE PROCEDURE p_prepare() PREPARE ps1 FROM 'DO 1'",
    "CREATE PROCEDURE p_run(IN s TEXT) BEGIN SET @run = s; PREPARE ps2 FROM @run; EXECUTE ps2; SET @run = NULL; END",
    "CREATE PROCEDURE variables() SELECT @a, @b, @c, @@sql_mode, @@time_zone, @@autocommit",
    "CREATE VIEW v_lock AS SELECT GET_LOCK('leak1', 0) AS l",
    "CREATE VIEW v_var AS SELECT f_var() AS l",
    "CREATE TRIGGER seen BEFORE INSERT ON w FOR EACH ROW SET @seen = GET_LOCK('leak2', 0)",
];

pub(super) const OBJECTS_OF_MARIADB: [&str; 3] = [
    "CREATE SEQUENCE seq",
    "CREATE VIEW v_next AS SELECT NEXTVAL(seq) AS n",
    "CREATE PROCEDURE p_block() BEGIN EXECUTE IMMEDIATE 'SET ROLE leak_role'; END",
];
pub(super) const OBJECTS_OF_MYSQL: [&str; 1] = ["CREATE TABLE seq (n INT)"];

/// For logins, beside utf8mb4_general_ci: latin1, big5, sjis, gbk, cp932, gb2312, ujis, euckr, gb18030 (MySQL's alone), binary,
/// utf8mb3, cp1251, armscii8, greek, hebrew, keybcs2, koi8r, utf8mb4_bin.
pub(super) const COLLATIONS: [u8; 18] =
    [8, 1, 13, 28, 95, 24, 12, 19, 248, 63, 33, 51, 32, 25, 16, 37, 7, 46];

/// Words that one of the servers knows as a keyword or a function of its own, and the other may not.
pub(super) const WORDS: [&str; 76] = [
    "lateral",
    "minus",
    "begin",
    "end",
    "label",
    "empty",
    "member",
    "of",
    "system",
    "cube",
    "groups",
    "rank",
    "lead",
    "row_number",
    "recursive",
    "except",
    "intersect",
    "json_table",
    "function",
    "window",
    "over",
    "values",
    "value",
    "returning",
    "offset",
    "rownum",
    "sequence",
    "nextval",
    "nowait",
    "skip",
    "locked",
    "visible",
    "admin",
    "array",
    "clone",
    "component",
    "delayed",
    "grouping",
    "ifnull",
    "interval",
    "left",
    "master",
    "names",
    "none",
    "oj",
    "old",
    "qualify",
    "manual",
    "parallel",
    "tablesample",
    "period",
    "body",
    "elsif",
    "exception",
    "goto",
    "history",
    "package",
    "raise",
    "rowtype",
    "versioning",
    "without",
    "within",
    "nested",
    "ordinality",
    "path",
    "url",
    "vcpu",
    "reuse",
    "user",
    "session_user",
    "stored",
    "persist",
    "to_char",
    "sys_guid",
    "uuid_v7",
    "st_collect",
];

/// The choices of each rule, for one kind of server.
#[derive(Debug)]
pub(super) struct Rules(BTreeMap<&'static str, Vec<&'static str>>);

impl Rules {
    pub(super) fn new(mysql: bool) -> Self {
        let own = if mysql { include_str!("mysql.txt") } else { include_str!("mariadb.txt") };
        let mut rules = BTreeMap::<_, Vec<_>>::new();
        let mut name = "";
        for line in include_str!("both.txt").lines().chain(own.lines()) {
            match line.strip_prefix(' ') {
                Some(choice) => rules.entry(name).or_default().push(choice.trim()),
                None if line.starts_with('#') || line.is_empty() => {}
                None => name = line,
            }
        }
        Self(rules)
    }

    pub(super) fn choices(&self, name: &str) -> &[&'static str] {
        self.0.get(name).unwrap_or_else(|| panic!("there is a rule <{name}>"))
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}
