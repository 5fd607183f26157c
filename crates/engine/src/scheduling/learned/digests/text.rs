//! The text of a digest, as far as it may be shown to others than the client that sent it.

use sql::{Classification, Effects, Kind, LexMode};

use super::LONGEST_TEXT;
use crate::request::may_be_several;
use crate::steps;

/// The normalised form of `text`, without literals. `None` where the lexer is not sure where they begin and end. A statement
/// that may be about accounts ends where its password would follow, since a password that somebody forgot to quote is no
/// literal.
pub(crate) fn shown(text: &[u8], statement: &Classification, mode: LexMode) -> Option<String> {
    if statement.effects.contains(Effects::UNKNOWN) {
        return None;
    }
    let mut shown = sql::digest_text(text, mode, LONGEST_TEXT);
    let accounts = matches!(statement.kind, Kind::Ddl | Kind::Admin | Kind::Set) || may_be_several(text);
    if accounts && let Some(end) = end_before_password(&shown) {
        shown.truncate(end);
    }
    Some(shown)
}

/// Returns the end of the first word after which the servers' grammar has a password: `IDENTIFIED`, `PASSWORD`,
/// `MASTER_PASSWORD`, `SOURCE_PASSWORD` and their like.
pub(crate) fn end_before_password(shown: &str) -> Option<usize> {
    let mut start = 0;
    steps::add(shown.len());
    for word in shown.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if name == "identified" || name.ends_with("password") {
            return Some(start + name.len());
        }
        start += word.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_of(text: &str) -> Option<String> {
        let statement = sql::classify(text.as_bytes(), LexMode::default());
        shown(text.as_bytes(), &statement, LexMode::default())
    }

    #[test]
    fn literals_are_not_shown() {
        assert_eq!(
            shown_of("SELECT password FROM users WHERE name = 'bob' AND age > 3").as_deref(),
            Some("select password from users where name = ? and age > ?")
        );
    }

    /// The texts are as MySQL 9 and MariaDB 11 write them, right or wrong.
    #[test]
    fn passwords_are_not_shown() {
        for text in [
            "CREATE USER 'bob'@'%' IDENTIFIED BY 'secret'",
            "CREATE USER bob IDENTIFIED BY \"secret\"",
            "CREATE USER bob IDENTIFIED BY secret",
            "CREATE USER bob IDENTIFIED BY PASSWORD '*secret'",
            "CREATE USER bob IDENTIFIED WITH ed25519 AS 'secret' OR unix_socket",
            "CREATE USER bob IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')",
            "CREATE USER /*!40101 bob IDENTIFIED BY 'secret' */",
            "CREATE USER bob IDENTIFIED BY 'secret",
            "CREATE USER bob /* ' */ IDENTIFIED BY 'secret'",
            "ALTER USER bob IDENTIFIED BY 'secret' REPLACE 'secret'",
            "ALTER USER USER() IDENTIFIED BY N'secret'",
            "GRANT ALL ON *.* TO bob IDENTIFIED BY 'secret' WITH GRANT OPTION",
            "SET PASSWORD = 'secret'",
            "SET PASSWORD = secret",
            "SET PASSWORD FOR 'bob'@'localhost' = PASSWORD('secret')",
            "SET autocommit = 1, PASSWORD = OLD_PASSWORD('secret')",
            "CHANGE MASTER TO MASTER_USER = 'bob', MASTER_PASSWORD = secret",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'secret'",
            "START REPLICA USER = 'bob' PASSWORD = 'secret'",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'bob', PASSWORD 'secret')",
            "SELECT 1; SET PASSWORD = secret",
        ] {
            let shown = shown_of(text).unwrap_or_default();
            assert!(!shown.contains("secret"), "{text}: {shown}");
        }
    }

    #[test]
    fn doubtful_texts_are_not_shown() {
        assert_eq!(shown_of("SELECT 'a"), None);
    }

    #[test]
    fn what_is_cut_is_cut_behind_the_word() {
        assert_eq!(
            shown_of("CREATE USER bob IDENTIFIED BY 'secret'").as_deref(),
            Some("create user bob identified")
        );
    }
}
