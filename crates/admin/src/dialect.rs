//! MySQL's way of writing a SELECT, in SQLite's.

use crate::errors::SqlError;
use crate::tokens::{Placed, Token};

/// Writes tokens as SQLite reads them: strings and names in its quotes, `@@name` as what `variable` says it is, and without
/// `FROM DUAL`.
///
/// # Errors
/// [`SqlError::unknown_variable`] where `variable` knows none of that name.
pub(crate) fn to_sqlite(
    tokens: &[Placed<'_>],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, SqlError> {
    let mut text = String::new();
    let mut rest = tokens;
    while let Some((placed, after)) = rest.split_first() {
        if placed.token.is("from") && after.first().is_some_and(|next| next.token.is("dual")) {
            rest = &after[1..];
            continue;
        }
        // A WHERE of a SHOW begins here, behind the blank that its own text has.
        if placed.apart && !text.is_empty() {
            text.push(' ');
        }
        match &placed.token {
            Token::Word(word) => text.push_str(word),
            Token::Text(value) => push_quoted(&mut text, value, '\''),
            Token::Name(name) => push_quoted(&mut text, name, '"'),
            Token::UserVariable => text.push_str("NULL"),
            Token::SystemVariable { name, .. } => {
                let value = variable(name).ok_or_else(|| SqlError::unknown_variable(name))?;
                push_quoted(&mut text, &value, '\'');
                if is_whole_column(tokens, tokens.len() - rest.len()) {
                    text.push_str(" AS ");
                    push_quoted(&mut text, &format!("@@{name}"), '"');
                }
            }
            Token::Symbol("<=>") => text.push_str(" IS "),
            Token::Symbol("&&") => text.push_str(" AND "),
            Token::Symbol(symbol) => text.push_str(symbol),
        }
        rest = after;
    }
    Ok(text)
}

/// Says whether a token is a column of a result by itself, without a name: then it gets the servers' name for it.
fn is_whole_column(tokens: &[Placed<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| tokens.get(at)).map(|placed| &placed.token);
    let after = tokens.get(at + 1).map(|placed| &placed.token);
    let brackets = |symbol: &str| tokens[..at].iter().filter(|placed| placed.token.is_symbol(symbol)).count();
    brackets("(") == brackets(")")
        && before.is_some_and(|before| before.is("select") || before.is_symbol(","))
        && after.is_none_or(|after| after.is_symbol(",") || after.is("from") || after.is("limit"))
}

/// A quote inside is doubled. A zero byte would end the text for SQLite.
pub(crate) fn push_quoted(text: &mut String, value: &str, quote: char) {
    text.push(quote);
    for character in value.chars().filter(|&character| character != '\0') {
        if character == quote {
            text.push(quote);
        }
        text.push(character);
    }
    text.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn translated(text: &str) -> String {
        let variable = |name: &str| (name == "version_comment").then(|| String::from("it's Onramp"));
        to_sqlite(&tokens(text).unwrap(), variable).unwrap_or_else(|error| error.message)
    }

    #[test]
    fn strings_and_names_get_the_other_quotes() {
        assert_eq!(
            translated(r#"SELECT `a``b`, "x'y", 'it\'s' FROM `t`"#),
            r#"SELECT "a`b", 'x''y', 'it''s' FROM "t""#
        );
        assert_eq!(translated("SELECT 1/*x*/FROM clients # end"), "SELECT 1 FROM clients");
    }

    #[test]
    fn variables_become_their_values() {
        assert_eq!(
            translated("select @@version_comment limit 1"),
            "select 'it''s Onramp' AS \"@@version_comment\" limit 1"
        );
        assert_eq!(translated("select @@version_comment AS v, 1"), "select 'it''s Onramp' AS v, 1");
        assert_eq!(
            translated("select concat('', @@version_comment, '')"),
            "select concat('', 'it''s Onramp', '')"
        );
        assert_eq!(translated("select @@nope"), "Unknown system variable 'nope'; SHOW VARIABLES lists all");
        assert_eq!(translated("select @x <=> NULL"), "select NULL  IS  NULL");
    }

    #[test]
    fn dual_is_left_out() {
        assert_eq!(translated("SELECT 1 FROM DUAL WHERE 1"), "SELECT 1 WHERE 1");
    }
}
