//! The requests that a statement can make.

use crate::errors::SqlError;
use crate::tokens::{Placed, Token};

/// A statement that the admin port understands.
#[derive(Debug, PartialEq)]
pub(crate) enum Statement<'a> {
    /// Nothing but comments.
    Empty,
    /// SELECT, WITH or VALUES: SQLite's.
    Select,
    /// SHOW, DESCRIBE: the tokens behind the first word.
    Show(Show),
    /// SET, one assignment after the other.
    Set(Vec<Assignment<'a>>),
    /// USE.
    Use(String),
    /// KILL.
    Kill {
        id: u64,
        query_only: bool,
    },
    Pause,
    /// SWITCHOVER TO, with the address of the new primary.
    Switchover {
        to: String,
    },
    /// DRAIN or UNDRAIN, with the address of a server.
    Drain {
        address: String,
        drains: bool,
    },
    Resume,
    Reload,
    Shutdown {
        immediate: bool,
    },
    Help,
    /// BEGIN, COMMIT and the like: there are no transactions, and libraries send them all the same.
    Nothing,
}

/// A SHOW.
#[derive(Debug, PartialEq)]
pub(crate) struct Show {
    pub(crate) what: Shown,
    pub(crate) filter: Filter,
}

/// The subject of a SHOW.
#[derive(Debug, PartialEq)]
pub(crate) enum Shown {
    Variables,
    Status,
    Processlist { full: bool, cluster: bool },
    Tables { full: bool, schema: Option<String> },
    Schemas,
    Columns { full: bool, table: String },
    CreateTable(String),
    Warnings,
    Errors,
    Table(String),
}

/// Which rows of it.
#[derive(Debug, PartialEq)]
pub(crate) enum Filter {
    All,
    /// LIKE, with its pattern.
    Like(String),
    /// WHERE: from this token on.
    Where(usize),
}

/// One assignment of a SET.
#[derive(Debug, PartialEq)]
pub(crate) struct Assignment<'a> {
    pub(crate) global: bool,
    pub(crate) name: &'a str,
    pub(crate) value: Option<String>,
}

/// Says what a statement is.
///
/// # Errors
/// [`SqlError::syntax`] for what is none of these.
pub(crate) fn parse<'a>(tokens: &'a [Placed<'a>]) -> Result<Statement<'a>, SqlError> {
    let mut words = Words { tokens, at: 0 };
    let Some(first) = words.next() else { return Ok(Statement::Empty) };
    let first = match first {
        Token::Word(word) => word.to_ascii_lowercase(),
        token if token.is_symbol("(") => return Ok(Statement::Select),
        _ => return Err(words.unexpected(0)),
    };
    let statement = match first.as_str() {
        "select" | "with" | "values" => return Ok(Statement::Select),
        // The command line clients answer HELP themselves.
        "show" if words.skip("help") => Statement::Help,
        "show" => Statement::Show(show(&mut words)?),
        "describe" | "desc" | "explain" => {
            let table = words.table()?;
            Statement::Show(Show { what: Shown::Columns { full: false, table }, filter: Filter::All })
        }
        "set" => return set(words),
        "use" => Statement::Use(words.name()?),
        "kill" => kill(&mut words)?,
        "pause" => Statement::Pause,
        "switchover" => switchover(&mut words)?,
        "drain" | "undrain" => Statement::Drain { address: words.address()?, drains: first == "drain" },
        "resume" => Statement::Resume,
        "reload" => Statement::Reload,
        "shutdown" => Statement::Shutdown { immediate: words.skip("immediate") },
        "help" => Statement::Help,
        "begin" | "commit" | "rollback" | "start" => return Ok(Statement::Nothing),
        _ => return Err(words.unexpected(0)),
    };
    words.end()?;
    Ok(statement)
}

fn switchover<'a>(words: &mut Words<'a>) -> Result<Statement<'a>, SqlError> {
    let at = words.at;
    if !words.skip("to") {
        return Err(words.unexpected(at));
    }
    Ok(Statement::Switchover { to: words.address()? })
}

fn kill<'a>(words: &mut Words<'a>) -> Result<Statement<'a>, SqlError> {
    let _ = words.skip("hard") || words.skip("soft");
    let query_only = words.skip("query");
    if !query_only {
        words.skip("connection");
    }
    let at = words.at;
    let id = words.next().and_then(Token::said).and_then(|id| id.parse().ok());
    id.map(|id| Statement::Kill { id, query_only }).ok_or_else(|| words.unexpected(at))
}

fn show(words: &mut Words<'_>) -> Result<Show, SqlError> {
    let _ = words.skip("global") || words.skip("session") || words.skip("local");
    let full = words.skip("full");
    let at = words.at;
    let Some(Token::Word(word)) = words.next() else { return Err(words.unexpected(at)) };
    let what = match word.to_ascii_lowercase().as_str() {
        "variables" => Shown::Variables,
        // A table of ours too, and the same in other words.
        "status" => Shown::Status,
        "processlist" => Shown::Processlist { full, cluster: false },
        "cluster" if words.skip("processlist") => Shown::Processlist { full, cluster: true },
        "tables" => {
            let named = words.skip("from") || words.skip("in");
            Shown::Tables { full, schema: if named { Some(words.name()?) } else { None } }
        }
        "databases" | "schemas" => Shown::Schemas,
        "columns" | "fields" => {
            let _ = words.skip("from") || words.skip("in");
            let table = words.table()?;
            Shown::Columns {
                full,
                table: if words.skip("from") { words.name().map(|_| table)? } else { table },
            }
        }
        "create" => {
            words.skip("table");
            Shown::CreateTable(words.table()?)
        }
        "warnings" => Shown::Warnings,
        "errors" => Shown::Errors,
        table if crate::tables::find(table).is_some() => Shown::Table(String::from(table)),
        _ => return Err(words.unexpected(at)),
    };
    let filter = if words.skip("like") {
        let at = words.at;
        match words.next() {
            Some(Token::Text(pattern)) => Filter::Like(pattern.clone()),
            _ => return Err(words.unexpected(at)),
        }
    } else if words.skip("where") {
        let from = words.at;
        words.at = words.tokens.len();
        Filter::Where(from)
    } else {
        Filter::All
    };
    // `SHOW WARNINGS LIMIT 5` of some tools: all of them are few.
    if matches!(what, Shown::Warnings | Shown::Errors) && words.skip("limit") {
        words.at = words.tokens.len();
    }
    Ok(Show { what, filter })
}

/// SET NAMES and SET CHARACTER SET have no assignment; the admin port speaks utf8mb4 whatever they say.
fn set(mut words: Words<'_>) -> Result<Statement<'_>, SqlError> {
    if words.skip("names") || words.skip("character") || words.skip("charset") || words.skip("transaction") {
        return Ok(Statement::Nothing);
    }
    let mut assignments = Vec::new();
    loop {
        let mut global = words.skip("global");
        let _ = !global && (words.skip("session") || words.skip("local"));
        if words.skip("transaction") {
            return Ok(Statement::Nothing);
        }
        let at = words.at;
        let name = match words.next() {
            Some(Token::Word(word)) => word,
            Some(Token::Name(name)) => name.as_str(),
            Some(Token::SystemVariable { scope, name }) => {
                global |= scope.is_some_and(|scope| scope.eq_ignore_ascii_case("global"));
                name
            }
            // What a user variable holds is of no use here: it is taken and forgotten.
            Some(Token::UserVariable) => "",
            _ => return Err(words.unexpected(at)),
        };
        // Tools set NAMES behind other assignments.
        if !name.eq_ignore_ascii_case("names") {
            words.symbol(&["=", ":="])?;
        }
        assignments.push(Assignment { global, name, value: words.value()? });
        if words.tokens.get(words.at).is_none() {
            return Ok(Statement::Set(assignments));
        }
        words.symbol(&[","])?;
    }
}

/// Goes through tokens.
struct Words<'a> {
    tokens: &'a [Placed<'a>],
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a Token<'a>> {
        let token = self.tokens.get(self.at).map(|placed| &placed.token);
        self.at += usize::from(token.is_some());
        token
    }

    /// Skips a keyword; false where it does not come next.
    fn skip(&mut self, keyword: &str) -> bool {
        let there = self.tokens.get(self.at).is_some_and(|placed| placed.token.is(keyword));
        self.at += usize::from(there);
        there
    }

    fn symbol(&mut self, any: &[&str]) -> Result<(), SqlError> {
        match self.next() {
            Some(token) if any.iter().any(|symbol| token.is_symbol(symbol)) => Ok(()),
            Some(_) => Err(self.unexpected(self.at - 1)),
            None => Err(self.unexpected(self.at)),
        }
    }

    fn name(&mut self) -> Result<String, SqlError> {
        let at = self.at;
        self.next().and_then(Token::said).map(String::from).ok_or_else(|| self.unexpected(at))
    }

    /// A server's address, as text.
    fn address(&mut self) -> Result<String, SqlError> {
        let at = self.at;
        match self.next() {
            Some(Token::Text(address)) => Ok(address.clone()),
            _ => Err(self.unexpected(at)),
        }
    }

    /// A table's name; its schema, if any, does not matter, since names are unique.
    fn table(&mut self) -> Result<String, SqlError> {
        let first = self.name()?;
        if !self.tokens.get(self.at).is_some_and(|placed| placed.token.is_symbol(".")) {
            return Ok(first);
        }
        self.at += 1;
        self.name()
    }

    /// The value of an assignment, up to a comma outside of brackets; `None` for an expression.
    fn value(&mut self) -> Result<Option<String>, SqlError> {
        let start = self.at;
        let mut depth = 0_u32;
        while let Some(placed) = self.tokens.get(self.at) {
            match &placed.token {
                token if token.is_symbol("(") => depth += 1,
                token if token.is_symbol(")") => depth = depth.saturating_sub(1),
                token if token.is_symbol(",") && depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        match &self.tokens[start..self.at] {
            [] => Err(self.unexpected(start)),
            [one] => Ok(one.token.said().map(String::from)),
            [sign, one] if sign.token.is_symbol("-") => Ok(one.token.said().map(|said| format!("-{said}"))),
            // A word with dashes in it, such as pool-of-threads.
            several if several.iter().skip(1).all(|placed| !placed.apart) => {
                let said = several.iter().map(|placed| match &placed.token {
                    Token::Symbol("-") => Some("-"),
                    token => token.said(),
                });
                Ok(said.collect::<Option<String>>())
            }
            _ => Ok(None),
        }
    }

    fn end(&mut self) -> Result<(), SqlError> {
        if self.at < self.tokens.len() { Err(self.unexpected(self.at)) } else { Ok(()) }
    }

    fn unexpected(&self, at: usize) -> SqlError {
        SqlError::syntax(self.tokens.get(at).map(|placed| &placed.token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn parsed(text: &str) -> String {
        let tokens = tokens(text).unwrap();
        match parse(&tokens) {
            Ok(statement) => format!("{statement:?}"),
            Err(error) => format!("error {}: {}", error.code, error.message),
        }
    }

    #[test]
    fn commands() {
        assert_eq!(parsed("kill 5"), "Kill { id: 5, query_only: false }");
        assert_eq!(parsed("KILL HARD QUERY 2147483649;"), "Kill { id: 2147483649, query_only: true }");
        assert_eq!(parsed("shutdown immediate"), "Shutdown { immediate: true }");
        assert_eq!(parsed("/* hi */ PAUSE"), "Pause");
        assert_eq!(parsed("switchover to '10.0.0.7:3306'"), "Switchover { to: \"10.0.0.7:3306\" }");
        assert_eq!(parsed("DRAIN 'db-1:3306'"), "Drain { address: \"db-1:3306\", drains: true }");
        assert_eq!(parsed("undrain '/s'"), "Drain { address: \"/s\", drains: false }");
        assert_eq!(parsed("-- nothing"), "Empty");
        assert_eq!(parsed("SHOW HELP"), "Help");
        assert_eq!(parsed("START TRANSACTION READ ONLY"), "Nothing");
        assert_eq!(parsed("(SELECT 1)"), "Select");
        assert_eq!(parsed("use `onramp`"), "Use(\"onramp\")");
    }

    #[test]
    fn shows() {
        assert_eq!(
            parsed("SHOW GLOBAL VARIABLES LIKE 'thread%'"),
            "Show(Show { what: Variables, filter: Like(\"thread%\") })"
        );
        assert_eq!(
            parsed("show full processlist"),
            "Show(Show { what: Processlist { full: true, cluster: false }, filter: All })"
        );
        assert_eq!(
            parsed("show cluster processlist"),
            "Show(Show { what: Processlist { full: false, cluster: true }, filter: All })"
        );
        assert_eq!(
            parsed("SHOW cluster_CLIENTS"),
            "Show(Show { what: Table(\"cluster_clients\"), filter: All })"
        );
        assert_eq!(
            parsed("SHOW STATUS WHERE Variable_name = 'x'"),
            "Show(Show { what: Status, filter: Where(3) })"
        );
        assert_eq!(
            parsed("DESCRIBE onramp.clients"),
            "Show(Show { what: Columns { full: false, table: \"clients\" }, filter: All })"
        );
        assert_eq!(parsed("SHOW Clients"), "Show(Show { what: Table(\"clients\"), filter: All })");
    }

    #[test]
    fn assignments() {
        assert_eq!(
            parsed("SET GLOBAL permits = 8, @@global.log_level = 'debug'"),
            "Set([Assignment { global: true, name: \"permits\", value: Some(\"8\") }, \
             Assignment { global: true, name: \"log_level\", value: Some(\"debug\") }])"
        );
        assert_eq!(
            parsed("SET autocommit=1, sql_mode=(SELECT CONCAT(@@sql_mode, ',STRICT'))"),
            "Set([Assignment { global: false, name: \"autocommit\", value: Some(\"1\") }, \
             Assignment { global: false, name: \"sql_mode\", value: None }])"
        );
        assert_eq!(
            parsed("SET GLOBAL thread_handling = pool-of-threads"),
            "Set([Assignment { global: true, name: \"thread_handling\", value: Some(\"pool-of-threads\") }])"
        );
        assert_eq!(parsed("SET NAMES utf8mb4 COLLATE utf8mb4_bin"), "Nothing");
        assert_eq!(parsed("SET SESSION TRANSACTION READ ONLY"), "Nothing");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(SHOW|SET|KILL|SELECT|USE|DESC|LIKE|FULL|FROM|GLOBAL|@@a|@b|[ -~\\n]|é){0,12}") {
            if let Some(tokens) = tokens(&text) {
                let _ = parse(&tokens);
                let _ = crate::dialect::to_sqlite(&tokens, |_| Some(String::from("'\0\"")));
            }
        }
    }

    #[test]
    fn everything_else_is_a_syntax_error() {
        for text in [
            "DELETE FROM clients",
            "kill",
            "kill x",
            "kill 1 2",
            "SHOW",
            "SHOW MASTER",
            "SHOW CLUSTER",
            "SHOW CLUSTER STATUS",
            "SET",
            "SET GLOBAL permits",
            "SET permits =",
            "pause all",
            "switchover",
            "switchover 'a:1'",
            "switchover to a",
            "switchover to 'a:1' now",
            "drain",
            "drain a",
            "undrain 'a:1' 'b:1'",
            "'text'",
            "ATTACH 'x' AS y",
            "PRAGMA x",
        ] {
            assert!(parsed(text).starts_with("error 1064: "), "{text}: {}", parsed(text));
        }
    }
}
