//! How the service account asks for stored code, and what it makes of the answers.
//!
//! MariaDB shows triggers to those with TRIGGER, routines in `mysql.proc` to those who may read that table, and the text of
//! views to those with SHOW VIEW and SELECT; MySQL likewise, but routines to those with SHOW_ROUTINE or SELECT (manuals, "The
//! INFORMATION_SCHEMA TRIGGERS Table" and its like). Who has not the rights gets fewer rows and no error, so the rights are asked for
//! first. What the servers brought along themselves belongs to accounts that nobody can log in to, and is left out.
//!
//! MariaDB, and MySQL up to 5.7, open a file for each table to find triggers, views and columns, and look at their limit of time only where
//! they have found something. So they are asked for some schemas at a time.

use std::borrow::Cow;

use sql::{CodeEffects, CodeKind, LexMode, StoredCode, folded_name, stored_code};

use super::{Base, Known, Object, Runs};
use crate::backend::from_server::own_answers::{Row, each_row_of, sum_of_counters};

/// The questions about stored code, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeQuestion {
    /// How many definitions there have been.
    Counts,
    /// The rights of the service account.
    Rights,
    /// The names of the schemas, where code is asked for by these.
    Schemas,
    Routines,
    Triggers,
    Views,
    Columns,
}

/// Reading goes through the definitions of all tables; a server that takes longer than this is asked less by it than it would
/// be disturbed.
macro_rules! mariadb {
    ($text:expr) => {
        concat!("SET STATEMENT max_statement_time = 2 FOR SELECT ", $text)
    };
}

/// The same on MySQL, which takes the time in milliseconds.
macro_rules! mysql {
    ($text:expr) => {
        concat!("SELECT /*+ MAX_EXECUTION_TIME(2000) */ ", $text)
    };
}

/// Definitions of tables are counted apart: they are many on some servers.
macro_rules! counters_of_tables {
    () => {
        "'Com_create_table', 'Com_alter_table', 'Com_rename_table'"
    };
}

/// The servers' counters of definitions, with the names of both.
macro_rules! counters {
    () => {
        concat!(
            "('Com_create_trigger', 'Com_drop_trigger', 'Com_create_function', 'Com_create_procedure', \
             'Com_create_spfunction', 'Com_drop_function', 'Com_drop_procedure', 'Com_alter_function', \
             'Com_alter_procedure', 'Com_create_package', 'Com_create_package_body', 'Com_drop_package', \
             'Com_drop_package_body', 'Com_create_view', 'Com_drop_view', 'Com_create_sequence', ",
            counters_of_tables!(),
            ")"
        )
    };
}

const MARIADB_COUNTS: &str = concat!(
    "SELECT SUM(IF(VARIABLE_NAME IN (",
    counters_of_tables!(),
    "), 0, VARIABLE_VALUE)), SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ",
    counters!()
);

/// MySQL's tables of its status have none of these counters.
const MYSQL_COUNTS: &str = concat!("SHOW GLOBAL STATUS WHERE Variable_name IN ", counters!());

/// The counts of definitions in the answer to [`CodeQuestion::Counts`], of code and of tables too; `None` where it tells none.
pub(super) fn counts(rows: &[Row], is_mariadb: bool) -> Option<[Vec<u8>; 2]> {
    if is_mariadb {
        let [Some(code), Some(all)] = rows.first()?.as_slice() else { return None };
        return Some([code.clone(), all.clone()]);
    }
    let of_code = |name: &[u8]| !name.ends_with(b"_table");
    Some([sum_of_counters(rows, of_code)?, sum_of_counters(rows, |_| true)?])
}

/// The service account's own row in one of the tables of accounts. The servers' own question for rights, USER_PRIVILEGES, lists those of all
/// accounts while nobody can log in, which for 100,000 accounts takes seconds.
macro_rules! own_row {
    () => {
        "Host = SUBSTRING_INDEX(CURRENT_USER(), '@', -1) AND User = LEFT(CURRENT_USER(), \
         CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)) - 1)"
    };
}

/// Says of MySQL since 8.0.20 whether the service account has the right to see all routines.
macro_rules! shows_routines {
    () => {
        concat!("EXISTS (SELECT 1 FROM mysql.global_grants WHERE PRIV = 'SHOW_ROUTINE' AND ", own_row!(), ")")
    };
}

pub(crate) use {own_row, shows_routines};

/// MariaDB keeps rights on everything as a mask: SELECT is bit 0, SHOW VIEW bit 22, TRIGGER bit 27 (privilege.h).
const MARIADB_RIGHTS: &str = concat!(
    "SELECT access & 1 <> 0, access & (1 << 22) <> 0, 0, access & (1 << 27) <> 0 FROM \
     (SELECT CAST(IFNULL(JSON_VALUE(Priv, '$.access'), 0) AS UNSIGNED) AS access FROM mysql.global_priv WHERE ",
    own_row!(),
    ") own"
);

macro_rules! mysql_rights {
    ($show_routine:expr) => {
        concat!(
            "SELECT Select_priv = 'Y', Show_view_priv = 'Y', ",
            $show_routine,
            ", Trigger_priv = 'Y' FROM mysql.user WHERE ",
            own_row!()
        )
    };
}

const MYSQL_RIGHTS: &str = mysql_rights!(shows_routines!());
const MYSQL_57_RIGHTS: &str = mysql_rights!("0");

/// The schemas that can hold code of users.
const SCHEMAS: &str = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA \
    WHERE SCHEMA_NAME NOT IN ('information_schema', 'performance_schema')";

/// The accounts that own what the servers brought along.
macro_rules! of_others {
    () => {
        " WHERE DEFINER NOT IN ('mariadb.sys@localhost', 'mysql.sys@localhost')"
    };
}

/// Routines without a readable body are of another language than SQL. Packages have their routines in their bodies.
macro_rules! proc_routines {
    () => {
        concat!(
            "db, name, param_list, IFNULL(body_utf8, body), sql_mode FROM mysql.proc",
            of_others!(),
            " AND type <> 'PACKAGE'"
        )
    };
}

macro_rules! triggers {
    () => {
        concat!(
            "EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, NULL, ACTION_STATEMENT, SQL_MODE FROM information_schema.TRIGGERS",
            of_others!()
        )
    };
}

macro_rules! views {
    () => {
        concat!(
            "TABLE_SCHEMA, TABLE_NAME, NULL, VIEW_DEFINITION, NULL FROM information_schema.VIEWS",
            of_others!()
        )
    };
}

/// Neither defaults nor computed columns can call stored functions. MySQL's can use no variables either.
macro_rules! columns {
    () => {
        "TABLE_SCHEMA, TABLE_NAME, NULL, COLUMN_DEFAULT, GENERATION_EXPRESSION FROM information_schema.COLUMNS \
         WHERE (COLUMN_DEFAULT LIKE '%nextval(%' OR COLUMN_DEFAULT LIKE '%@%' OR GENERATION_EXPRESSION LIKE '%@%')"
    };
}

const MYSQL_ROUTINES: &str = mysql!(concat!(
    "ROUTINE_SCHEMA, ROUTINE_NAME, (SELECT GROUP_CONCAT(PARAMETER_NAME) FROM information_schema.PARAMETERS p \
     WHERE p.SPECIFIC_SCHEMA = r.ROUTINE_SCHEMA AND p.SPECIFIC_NAME = r.SPECIFIC_NAME), \
     IF(ROUTINE_BODY = 'SQL', ROUTINE_DEFINITION, NULL), SQL_MODE FROM information_schema.ROUTINES r",
    of_others!()
));

/// The question for what these schemas hold, of columns of a table of information_schema whose name for the schema is `schema`. The name is
/// written in hexadecimal digits, so that no mode of the session reads it otherwise.
fn of_schemas(is_mariadb: bool, columns: &str, schema: &str, schemas: &[Vec<u8>]) -> String {
    let mut text = String::from(if is_mariadb { mariadb!("") } else { mysql!("") });
    for (place, name) in schemas.iter().enumerate() {
        if place > 0 {
            text.push_str(" UNION ALL SELECT ");
        }
        let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{columns} AND {schema} = _utf8 x'{digits}'"));
    }
    text
}

impl CodeQuestion {
    /// Says whether the server is asked for some schemas at a time.
    pub(crate) fn is_by_schema(self, is_mariadb: bool, major_version: u32) -> bool {
        (is_mariadb || major_version < 8) && matches!(self, Self::Triggers | Self::Views | Self::Columns)
    }

    /// Says whether there is such a question to this server.
    pub(crate) fn exists(self, is_mariadb: bool, major_version: u32) -> bool {
        match self {
            Self::Schemas => is_mariadb || major_version < 8,
            Self::Columns => is_mariadb,
            _ => true,
        }
    }

    /// The text of the question, of these schemas where it is [by schema](Self::is_by_schema).
    pub(crate) fn text(self, is_mariadb: bool, major_version: u32, schemas: &[Vec<u8>]) -> Cow<'static, str> {
        let has_proc = is_mariadb || major_version < 8;
        let by_schema = |columns, schema| Cow::Owned(of_schemas(is_mariadb, columns, schema, schemas));
        let text = match self {
            Self::Counts if is_mariadb => MARIADB_COUNTS,
            Self::Counts => MYSQL_COUNTS,
            Self::Rights if is_mariadb => MARIADB_RIGHTS,
            Self::Rights if has_proc => MYSQL_57_RIGHTS,
            Self::Rights => MYSQL_RIGHTS,
            Self::Schemas => SCHEMAS,
            Self::Routines if is_mariadb => mariadb!(proc_routines!()),
            Self::Routines if has_proc => mysql!(proc_routines!()),
            Self::Routines => MYSQL_ROUTINES,
            Self::Triggers if has_proc => return by_schema(triggers!(), "EVENT_OBJECT_SCHEMA"),
            Self::Triggers => mysql!(triggers!()),
            Self::Views if has_proc => return by_schema(views!(), "TABLE_SCHEMA"),
            Self::Views => mysql!(views!()),
            Self::Columns => return by_schema(columns!(), "TABLE_SCHEMA"),
        };
        Cow::Borrowed(text)
    }

    /// Returns the next question.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Self::Counts => Some(Self::Rights),
            Self::Rights => Some(Self::Schemas),
            Self::Schemas => Some(Self::Routines),
            Self::Routines => Some(Self::Triggers),
            Self::Triggers => Some(Self::Views),
            Self::Views => Some(Self::Columns),
            Self::Columns => None,
        }
    }

    /// Notes whether the server has said all that there is.
    pub(crate) fn note_known(self, known: &mut Known, all: bool) {
        match self {
            Self::Counts | Self::Rights | Self::Schemas => {}
            Self::Routines => known.routines = all,
            Self::Triggers => known.triggers = all,
            Self::Views => known.views = all,
            Self::Columns => known.columns = all,
        }
    }

    /// The code in a row of its answer. `mode` is that of new connections, in which views are written out.
    fn objects_of_row(self, row: &[Option<Vec<u8>>], mode: LexMode) -> Vec<Object> {
        let [schema, Some(name), parameters, body, last] = row else { return Vec::new() };
        let parameters = parameters.as_deref().unwrap_or_default();
        let object = |runs, kind, body: Option<&[u8]>, mode| {
            let code = match body {
                Some(body) if !body.is_empty() => stored_code(kind, parameters, body, mode),
                _ => StoredCode { effects: CodeEffects::ALL, ..StoredCode::default() },
            };
            let schema = schema.as_deref().map(folded_name);
            Object { runs, schema, name: folded_name(name), code, defaults: Vec::new() }
        };
        let body = body.as_deref();
        let own_mode = || last.as_deref().map_or(mode, crate::session::lex_mode);
        match self {
            Self::Counts | Self::Rights | Self::Schemas => Vec::new(),
            Self::Routines => vec![object(Runs::Called, CodeKind::Routine, body, own_mode())],
            Self::Triggers => vec![object(Runs::Written, CodeKind::Routine, body, own_mode())],
            Self::Views => vec![object(Runs::Used, CodeKind::Expression, body, mode)],
            Self::Columns => {
                let default = body.map(|body| object(Runs::Written, CodeKind::Expression, Some(body), mode));
                let computed = last.as_deref();
                let computed =
                    computed.map(|body| object(Runs::Used, CodeKind::Expression, Some(body), mode));
                default.into_iter().chain(computed).collect()
            }
        }
    }
}

/// The rights of the service account on everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    select: bool,
    show_view: bool,
    show_routine: bool,
    trigger: bool,
}

plain!(struct Rights { select, show_view, show_routine, trigger });

impl Rights {
    /// Reads the rights from the answer to [`CodeQuestion::Rights`].
    pub(crate) fn of_rows(rows: &[Row]) -> Self {
        let has = |place: usize| {
            let right = rows.first().and_then(|row| row.get(place)?.as_deref());
            right == Some(b"1")
        };
        Self { select: has(0), show_view: has(1), show_routine: has(2), trigger: has(3) }
    }

    /// Says whether there are some that `before` lacks.
    pub(crate) fn are_more_than(self, before: Self) -> bool {
        let each =
            |Self { select, show_view, show_routine, trigger }| [select, show_view, show_routine, trigger];
        each(self).into_iter().zip(each(before)).any(|(has, had)| has && !had)
    }

    /// Says whether the server shows all that a question asks for. `mysql.proc` refuses accounts that may not read it.
    pub(crate) fn allow(self, question: CodeQuestion, is_mariadb: bool, major_version: u32) -> bool {
        match question {
            CodeQuestion::Counts | CodeQuestion::Rights | CodeQuestion::Schemas => true,
            CodeQuestion::Routines => is_mariadb || major_version < 8 || self.select || self.show_routine,
            CodeQuestion::Triggers => self.trigger,
            CodeQuestion::Views => self.select && self.show_view,
            CodeQuestion::Columns => self.select || !is_mariadb,
        }
    }
}

/// The server's answers about its code, to be read on another thread than a worker's.
#[derive(Debug)]
pub struct CodeAnswers {
    pub(super) answers: Vec<(CodeQuestion, Vec<u8>)>,
    /// The lexer's mode for new connections.
    pub(super) mode: LexMode,
}

/// The code that has been read.
#[derive(Debug)]
pub struct ReadCode(pub(super) Base);

impl CodeAnswers {
    /// Reads them, which takes some ten microseconds for each piece of code.
    pub fn read(self) -> ReadCode {
        let objects = self.answers.iter().flat_map(|(question, answer)| {
            each_row_of(answer).flat_map(|row| question.objects_of_row(&row, self.mode))
        });
        ReadCode(Base::new(objects))
    }
}
