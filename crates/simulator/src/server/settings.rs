//! `SET` on the virtual server: all values are checked before the first one takes effect, as MariaDB does it.

use super::database::Database;
use super::expression::{Parser, Source};
use super::lexer::Lexeme;
use super::reply::{Answer, ServerError, Value};
use super::session::Session;
use super::variables::{self, Kind, Variable};

/// One assignment, checked.
enum Assignment {
    System(&'static Variable, Value),
    /// Read and ignored: a global one, nobody here depends on it.
    Ignored,
    User(String, Value),
    Names(&'static str, &'static str),
    NextIsolation(String),
}

/// `SET assignment, ...` behind the verb.
pub fn set(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
) -> Result<Answer, ServerError> {
    let mut assignments = Vec::new();
    loop {
        assignments.push(assignment(session, database, parser)?);
        if !parser.symbol(',') {
            break;
        }
    }
    if parser.peek().is_some_and(|lexeme| *lexeme != Lexeme::Symbol(';')) {
        return Err(ServerError::syntax("set"));
    }
    for assignment in assignments {
        match assignment {
            Assignment::System(variable, value) if variable.name == "last_insert_id" => {
                session.last_insert_id = value.and_then(|id| id.parse().ok()).unwrap_or(0);
            }
            Assignment::System(variable, value) => session.set_variable(database, variable.name, value),
            Assignment::Ignored => {}
            Assignment::User(name, value) => {
                session.user_variables.insert(name, value);
                session.mark_state();
            }
            Assignment::Names(charset, collation) => session.set_names(charset, collation),
            Assignment::NextIsolation(level) => session.next_isolation = Some(level),
        }
    }
    Ok(Answer::done())
}

fn assignment(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
) -> Result<Assignment, ServerError> {
    match parser.next_lexeme() {
        Some(Lexeme::UserVariable(name)) => {
            equals(parser)?;
            Ok(Assignment::User(name, parser.value(session, database, &Source::None)?))
        }
        Some(Lexeme::SystemVariable { global, name }) => system(session, database, parser, &name, global),
        Some(Lexeme::Word(word)) => match word.as_str() {
            "names" => names(session, parser),
            "transaction" if session.transaction.is_some() => {
                let message =
                    "Transaction characteristics can't be changed while a transaction is in progress";
                Err(ServerError::new(1568, "25001", message))
            }
            "transaction" => Ok(Assignment::NextIsolation(isolation(parser)?)),
            "session" | "local" | "global" => {
                let name = parser.name()?;
                if name == "transaction" {
                    let level = isolation(parser)?;
                    let variable = variables::find("tx_isolation").expect("it is in the table");
                    return Ok(Assignment::System(variable, Some(level)));
                }
                system(session, database, parser, &name, word == "global")
            }
            name => system(session, database, parser, name, false),
        },
        _ => Err(ServerError::syntax("set")),
    }
}

/// `name = value`.
fn system(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
    name: &str,
    global: bool,
) -> Result<Assignment, ServerError> {
    // Onramp's own, which only a client's own private server takes for one: none of several ever sees it.
    if name == "onramp_reads" && database.member.is_none() {
        equals(parser)?;
        value(session, database, parser)?;
        return Ok(Assignment::Ignored);
    }
    let variable = session.find(name)?;
    equals(parser)?;
    let given = value(session, database, parser)?;
    let checked = check(variable, given)?;
    Ok(if global { Assignment::Ignored } else { Assignment::System(variable, checked) })
}

fn equals(parser: &mut Parser<'_>) -> Result<(), ServerError> {
    parser.symbol(':');
    if parser.symbol('=') { Ok(()) } else { Err(ServerError::syntax("set")) }
}

/// What stands behind the equals sign.
enum Given {
    Default,
    Null,
    Number(String),
    Text(String),
}

fn value(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
) -> Result<Given, ServerError> {
    Ok(match parser.peek() {
        Some(Lexeme::Word(word)) => {
            let word = word.clone();
            parser.next_lexeme();
            match word.as_str() {
                "default" => Given::Default,
                "null" => Given::Null,
                _ => Given::Text(word),
            }
        }
        Some(Lexeme::Number(digits)) => {
            let digits = digits.clone();
            parser.next_lexeme();
            Given::Number(digits)
        }
        _ => match parser.value(session, database, &Source::None)? {
            Some(text) => Given::Text(text),
            None => Given::Null,
        },
    })
}

/// The value as the variable keeps it.
fn check(variable: &'static Variable, given: Given) -> Result<Value, ServerError> {
    let wrong_type = || {
        ServerError::new(1232, "42000", format!("Incorrect argument type to variable '{}'", variable.name))
    };
    let wrong_value = |value: &str| {
        ServerError::new(
            1231,
            "42000",
            format!("Variable '{}' can't be set to the value of '{value}'", variable.name),
        )
    };
    let text = match (variable.kind, given) {
        (Kind::ReadOnly, _) => {
            let message = format!("Variable '{}' is a read only variable", variable.name);
            return Err(ServerError::new(1238, "HY000", message));
        }
        (_, Given::Default) => return Ok(Some(variable.initial.to_owned())),
        (Kind::CharacterSet, Given::Null) if variable.name == "character_set_results" => return Ok(None),
        (_, Given::Null) => return Err(wrong_value("NULL")),
        (Kind::Number, Given::Text(_)) => return Err(wrong_type()),
        (_, Given::Number(text) | Given::Text(text)) => text,
    };
    let kept = match variable.kind {
        Kind::Switch => match text.to_ascii_uppercase().as_str() {
            "1" | "ON" | "TRUE" => "ON".to_owned(),
            "0" | "OFF" | "FALSE" => "OFF".to_owned(),
            _ => return Err(wrong_value(&text)),
        },
        Kind::CharacterSet => match variables::default_collation(&text) {
            Some((charset, _)) => charset.to_owned(),
            None => return Err(ServerError::new(1115, "42000", format!("Unknown character set: '{text}'"))),
        },
        Kind::Collation => match variables::collation_by_name(&text) {
            Some((_, collation)) => collation.to_owned(),
            None => return Err(ServerError::new(1273, "HY000", format!("Unknown collation: '{text}'"))),
        },
        _ if variable.name == "sql_mode" => text.to_ascii_uppercase(),
        _ if text == "bogus" => return Err(wrong_value(&text)),
        _ => text,
    };
    Ok(Some(kept))
}

/// `NAMES charset [COLLATE collation]` and `NAMES DEFAULT`.
fn names(session: &Session, parser: &mut Parser<'_>) -> Result<Assignment, ServerError> {
    let mut text = || match parser.next_lexeme() {
        Some(Lexeme::Word(text) | Lexeme::Text(text)) => Ok(text),
        _ => Err(ServerError::syntax("names")),
    };
    let wanted = text()?;
    if wanted == "default" {
        return Ok(Assignment::Names("latin1", "latin1_swedish_ci"));
    }
    let (charset, default) = variables::default_collation(&wanted)
        .ok_or_else(|| ServerError::new(1115, "42000", format!("Unknown character set: '{wanted}'")))?;
    if !parser.keyword("collate") {
        return Ok(Assignment::Names(charset, default));
    }
    let wanted = match parser.next_lexeme() {
        Some(Lexeme::Word(text) | Lexeme::Text(text)) => text,
        _ => return Err(ServerError::syntax("collate")),
    };
    match variables::collation_by_name(&wanted) {
        Some((of, collation)) if of == charset => Ok(Assignment::Names(charset, collation)),
        Some(_) => {
            let message = format!("COLLATION '{wanted}' is not valid for CHARACTER SET '{charset}'");
            Err(ServerError::new(1253, "42000", message))
        }
        None => {
            let message = format!("Unknown collation: '{wanted}' for {}", session.user);
            Err(ServerError::new(1273, "HY000", message))
        }
    }
}

/// `ISOLATION LEVEL x y`, as `X-Y`.
fn isolation(parser: &mut Parser<'_>) -> Result<String, ServerError> {
    if !(parser.keyword("isolation") && parser.keyword("level")) {
        return Err(ServerError::syntax("transaction"));
    }
    let words: Vec<String> = std::iter::from_fn(|| parser.word()).collect();
    Ok(words.join("-").to_ascii_uppercase())
}
