//! `SET` statements of which nothing but the session state before decides what they do.

/// Session variables that anybody may set, that trackers report, and whose new value follows from the literal alone
/// (sys_vars.cc of both servers). `optimizer_switch` is none: it keeps what is not named.
const VARIABLES: [&[u8]; 19] = [
    b"autocommit",
    b"foreign_key_checks",
    b"group_concat_max_len",
    b"innodb_lock_wait_timeout",
    b"interactive_timeout",
    b"lock_wait_timeout",
    b"max_execution_time",
    b"max_statement_time",
    b"net_read_timeout",
    b"net_write_timeout",
    b"sql_mode",
    b"sql_safe_updates",
    b"time_zone",
    b"transaction_isolation",
    b"transaction_read_only",
    b"tx_isolation",
    b"tx_read_only",
    b"unique_checks",
    b"wait_timeout",
];

/// Words that are values. Others may be functions that are written without parentheses (CURRENT_USER), or DEFAULT, which
/// is the server's global value of the moment.
const VALUES: [&[u8]; 5] = [b"false", b"off", b"on", b"system", b"true"];

/// Longer texts are not looked at: no client says so much of its own accord.
const LONGEST: usize = 512;

/// A `SET` of session variables to literals, of `NAMES`, or `SET SESSION TRANSACTION`, in one form for all that mean the same:
/// without comments, in lower case outside of strings, one blank between tokens. `None` for anything else, and for whatever
/// reads something beside the session state: other variables, DEFAULT, functions.
///
/// The result may still be wrong; that is for the server to say.
pub fn plain_set(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() > LONGEST {
        return None;
    }
    let mut tokens = Tokens { rest: text };
    let mut plain = Vec::with_capacity(text.len());
    let mut words = Vec::new();
    while let Some(token) = tokens.next_token()? {
        if !plain.is_empty() {
            plain.push(b' ');
        }
        match token {
            Token::Word(word) => plain.extend(word.iter().map(u8::to_ascii_lowercase)),
            Token::SystemVariable(name) => {
                plain.extend_from_slice(b"@@session.");
                plain.extend(name.iter().map(u8::to_ascii_lowercase));
            }
            // What it sets, trackers do not tell.
            Token::WithoutScope(_) => return None,
            Token::String(bytes) | Token::Number(bytes) => plain.extend_from_slice(bytes),
            Token::Equals => plain.push(b'='),
            Token::Comma => plain.push(b','),
        }
        words.push(token);
    }
    let (Token::Word(first), rest) = words.split_first()? else { return None };
    let accepted = first.eq_ignore_ascii_case(b"set")
        && (is_transaction(rest) || rest.split(|token| *token == Token::Comma).all(is_assignment));
    accepted.then_some(plain)
}

/// The variables, in lower case, that a SELECT of nothing else shows: `SELECT @@session.a [AS b], ...`, of those that
/// [`plain_set`] takes. `None` for anything else.
pub fn shown_variables(text: &[u8]) -> Option<Vec<Box<[u8]>>> {
    if text.len() > LONGEST {
        return None;
    }
    let mut tokens = Tokens { rest: text };
    if !tokens.next_token()??.is(b"select") {
        return None;
    }
    let mut items = Vec::new();
    while let Some(token) = tokens.next_token()? {
        // Nearly all begin with something else, and are not read on.
        if items.is_empty() && !matches!(token, Token::SystemVariable(_) | Token::WithoutScope(_)) {
            return None;
        }
        items.push(token);
    }
    let shown = |item: &[Token<'_>]| match item {
        [Token::SystemVariable(name) | Token::WithoutScope(name)] => Some(name.to_ascii_lowercase().into()),
        [Token::SystemVariable(name) | Token::WithoutScope(name), as_word, Token::Word(_)]
            if as_word.is(b"as") =>
        {
            Some(name.to_ascii_lowercase().into())
        }
        _ => None,
    };
    let names: Vec<Box<[u8]>> =
        items.split(|token| *token == Token::Comma).map(shown).collect::<Option<_>>()?;
    names.iter().all(|name| VARIABLES.contains(&&**name)).then_some(names)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    /// With its quotes, of which there is none inside, nor a backslash.
    String(&'a [u8]),
    Number(&'a [u8]),
    /// The name of `@@session.name`.
    SystemVariable(&'a [u8]),
    /// The name of `@@name`.
    WithoutScope(&'a [u8]),
    /// `=` or `:=`.
    Equals,
    Comma,
}

impl Token<'_> {
    fn is(self, known: &[u8]) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(known))
    }

    fn is_one_of(self, known: &[&[u8]]) -> bool {
        known.iter().any(|known| self.is(known))
    }
}

struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The outer `None` for what is not understood, the inner one for the end.
    fn next_token(&mut self) -> Option<Option<Token<'a>>> {
        self.pass_blanks()?;
        let (token, length) = match self.rest {
            [] => return Some(None),
            // At the end, and nothing behind.
            [b';', ..] => {
                let ends = self.rest.iter().all(|byte| *byte == b';' || byte.is_ascii_whitespace());
                return ends.then_some(None);
            }
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let word = word(self.rest);
                (Token::Word(word), word.len())
            }
            [b'0'..=b'9', ..] => {
                let number = word(self.rest);
                // 1.5, 0x10 and 1e3 are the server's to read.
                let whole =
                    number.iter().all(u8::is_ascii_digit) && self.rest.get(number.len()) != Some(&b'.');
                (whole.then_some(Token::Number(number))?, number.len())
            }
            [quote @ (b'\'' | b'"'), inside @ ..] => {
                let length = inside.iter().position(|byte| byte == quote)? + 2;
                let string = &self.rest[..length];
                let plain = |byte: &u8| (byte.is_ascii_graphic() || *byte == b' ') && *byte != b'\\';
                // Two in a row are one quote inside, or two strings that are joined.
                let joined = matches!(self.rest.get(length), Some(b'\'' | b'"'));
                ((!joined && string.iter().all(plain)).then_some(Token::String(string))?, length)
            }
            [b'@', b'@', rest @ ..] => {
                let first = word(rest);
                match rest[first.len()..].strip_prefix(b".") {
                    Some(rest) if is_session(first) => {
                        let name = word(rest);
                        (Token::SystemVariable(name), b"@@.".len() + first.len() + name.len())
                    }
                    Some(_) => return None,
                    None => (Token::WithoutScope(first), b"@@".len() + first.len()),
                }
            }
            [b'=', ..] => (Token::Equals, 1),
            [b':', b'=', ..] => (Token::Equals, 2),
            [b',', ..] => (Token::Comma, 1),
            _ => return None,
        };
        self.rest = &self.rest[length..];
        Some(Some(token))
    }

    /// Blanks and plain comments; `None` for the kinds of comments that servers execute, and an open one.
    fn pass_blanks(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            let Some(comment) = self.rest.strip_prefix(b"/*") else { return Some(()) };
            if matches!(comment.first(), Some(b'!' | b'+' | b'M')) {
                return None;
            }
            let end = comment.windows(2).position(|pair| pair == b"*/")?;
            self.rest = &comment[end + 2..];
        }
    }
}

fn is_session(scope: &[u8]) -> bool {
    scope.eq_ignore_ascii_case(b"session") || scope.eq_ignore_ascii_case(b"local")
}

/// The letters, digits and underscores that a text begins with.
fn word(text: &[u8]) -> &[u8] {
    let length = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    &text[..length]
}

/// `SESSION TRANSACTION` and what words follow: without a scope it is about the next transaction only.
fn is_transaction(tokens: &[Token<'_>]) -> bool {
    let [scope, transaction, rest @ ..] = tokens else { return false };
    scope.is_one_of(&[b"session", b"local"])
        && transaction.is(b"transaction")
        && rest.first().is_some_and(|token| token.is_one_of(&[b"isolation", b"read"]))
        && rest.iter().all(|token| matches!(token, Token::Word(_) | Token::Comma))
}

/// `NAMES charset [COLLATE collation]`, or a variable that is given a literal.
fn is_assignment(tokens: &[Token<'_>]) -> bool {
    let (name, value) = match tokens {
        [names, rest @ ..] if names.is(b"names") => return is_names(rest),
        [Token::SystemVariable(name), Token::Equals, value] => (*name, value),
        [scope, Token::Word(name), Token::Equals, value] if scope.is_one_of(&[b"session", b"local"]) => {
            (*name, value)
        }
        [Token::Word(name), Token::Equals, value] => (*name, value),
        _ => return false,
    };
    let literal = matches!(value, Token::String(_) | Token::Number(_)) || value.is_one_of(&VALUES);
    literal && VARIABLES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn is_names(tokens: &[Token<'_>]) -> bool {
    let name = |token: &Token<'_>| match token {
        Token::Word(_) => !token.is(b"default"),
        Token::String(_) => true,
        _ => false,
    };
    match tokens {
        [charset] => name(charset),
        [charset, collate, collation] => name(charset) && collate.is(b"collate") && name(collation),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_of_their_own_accord_is_plain() {
        for (text, plain) in [
            ("SET autocommit=1", "set autocommit = 1"),
            ("/* a driver */ set AutoCommit = 1 ;", "set autocommit = 1"),
            ("SET NAMES utf8mb4", "set names utf8mb4"),
            (
                "set names 'utf8mb4' collate 'utf8mb4_unicode_ci'",
                "set names 'utf8mb4' collate 'utf8mb4_unicode_ci'",
            ),
            (
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "set session transaction isolation level read committed",
            ),
            ("SET SESSION TRANSACTION READ ONLY", "set session transaction read only"),
            ("SET @@session.autocommit = OFF", "set @@session.autocommit = off"),
            (
                "SET SESSION sql_mode='ANSI', time_zone := '+00:00'",
                "set session sql_mode = 'ANSI' , time_zone = '+00:00'",
            ),
        ] {
            let found = plain_set(text.as_bytes()).map(|found| String::from_utf8(found).unwrap());
            assert_eq!(found.as_deref(), Some(plain), "{text}");
        }
    }

    #[test]
    fn selections_of_variables_alone_are_known() {
        let shown = |text: &str| {
            let names = shown_variables(text.as_bytes())?;
            Some(
                names
                    .iter()
                    .map(|name| String::from_utf8(name.to_vec()).unwrap())
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        for (text, names) in [
            ("SELECT @@session.autocommit", "autocommit"),
            ("SELECT @@autocommit, @@session.sql_mode AS m", "autocommit sql_mode"),
            (
                "/* a driver */ select @@session.TX_Isolation AS level, @@local.time_zone;",
                "tx_isolation time_zone",
            ),
        ] {
            assert_eq!(shown(text).as_deref(), Some(names), "{text}");
        }
        for text in [
            "SELECT",
            "SELECT 1",
            "SELECT @@session.autocommit FROM t",
            "SELECT @@session.autocommit + 1",
            "SELECT @@session.autocommit, 1",
            "SELECT @@session.autocommit,",
            "SELECT @@session.autocommit LIMIT 1",
            "SELECT @@session.autocommit INTO x",
            "SELECT @@session.max_connections",
            "SELECT @@global.autocommit",
            "SELECT @@session.autocommit; SELECT 1",
            "SELECT SQL_NO_CACHE @@session.autocommit",
            "SET @@session.autocommit = 1",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn what_reads_anything_else_is_not() {
        for text in [
            "",
            "SET",
            "SELECT 1",
            "SET autocommit",
            "SET autocommit=",
            "SET autocommit=DEFAULT",
            "SET NAMES DEFAULT",
            "SET NAMES utf8mb4 COLLATE DEFAULT",
            "SET sql_mode=@@global.sql_mode",
            "SET sql_mode=concat(@@sql_mode,',ANSI')",
            "SET time_zone=CURRENT_USER",
            "SET autocommit=(SELECT 1)",
            "SET @a=1",
            "SET @@autocommit=1",
            "SET @ @session.autocommit=1",
            "SET @@session .autocommit=1",
            "SET autocommit : = 1",
            "SET a.autocommit=1",
            "SET @@global.autocommit=1",
            "SET GLOBAL autocommit=1",
            "SET PERSIST autocommit=1",
            "SET autocommit=1, GLOBAL wait_timeout=5",
            "SET autocommit=1, @a=2",
            "SET TRANSACTION READ ONLY",
            "SET GLOBAL TRANSACTION READ ONLY",
            "SET CHARACTER SET utf8mb4",
            "SET character_set_results=NULL",
            "SET optimizer_switch='mrr=on'",
            "SET timestamp=1",
            "SET lock_wait_timeout=-1",
            "SET max_statement_time=1.5",
            "SET wait_timeout=1e3",
            "SET wait_timeout=0x10",
            "SET sql_mode='a''b'",
            "SET sql_mode='a' 'b'",
            "SET sql_mode='a\\'b'",
            "SET sql_mode='ä'",
            "SET sql_mode='open",
            "SET `autocommit`=1",
            "SET autocommit=1; SELECT 1",
            "SET /*!50000 autocommit=1 */",
            "/*!40101 SET NAMES utf8 */",
            "SET autocommit=1 -- a",
            "SET autocommit=1 /* open",
            "SET STATEMENT max_statement_time=1 FOR SELECT 1",
            "SET PASSWORD='x'",
            "SET ROLE admin",
        ] {
            assert_eq!(plain_set(text.as_bytes()), None, "{text}");
        }
    }
}
