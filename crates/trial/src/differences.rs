//! What can be said of a statement: whether its application would notice that it is behind Onramp.

/// Something that is not as on a connection of one's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    /// The words that a statement of this sort has, one behind the other.
    words: &'static [&'static str],
    /// Only where they are the first ones.
    begins: bool,
    /// What is different.
    pub(crate) what: &'static str,
    /// The heading of docs/DIFFERENCES.md that tells more.
    pub(crate) section: &'static str,
}

const IDS: &str = "show-kill-processlist-and-ids";
const RESULTS: &str = "results-warnings-and-counts";
const STATE: &str = "session-state";
const LOGIN: &str = "login-and-accounts";
const PINS: &str = "what-keeps-a-clients-backend";

const fn with(words: &'static [&'static str], what: &'static str, section: &'static str) -> Difference {
    Difference { words, begins: false, what, section }
}

const fn beginning(words: &'static [&'static str], what: &'static str, section: &'static str) -> Difference {
    Difference { words, begins: true, what, section }
}

/// By the words of a statement. What pins is told apart from these.
pub(crate) const ALL: [Difference; 19] = [
    with(&["connection_id"], "CONNECTION_ID() is Onramp's own id of the client, from 1073741824 on", IDS),
    beginning(&["show", "processlist"], "SHOW PROCESSLIST shows backends, and clients that have one", IDS),
    beginning(
        &["show", "full", "processlist"],
        "SHOW PROCESSLIST shows backends, and clients that have one",
        IDS,
    ),
    with(&["information_schema", "processlist"], "information_schema.PROCESSLIST shows backends", IDS),
    with(&["performance_schema"], "performance_schema shows backends in the place of clients", IDS),
    beginning(&["show", "status"], "SHOW STATUS counts what all clients have done on a backend", IDS),
    beginning(
        &["show", "session", "status"],
        "SHOW STATUS counts what all clients have done on a backend",
        IDS,
    ),
    beginning(&["flush", "status"], "FLUSH STATUS sets no client's counters to 0", IDS),
    beginning(&["kill"], "KILL takes a client's id or a server's; of an expression it gets error 1094", IDS),
    with(&["is_used_lock"], "IS_USED_LOCK() gives the id of a backend", IDS),
    with(&["explain", "for", "connection"], "EXPLAIN FOR CONNECTION wants the server's id", IDS),
    beginning(
        &["get", "diagnostics"],
        "GET DIAGNOSTICS outside of a transaction: some forms get error 1235",
        RESULTS,
    ),
    beginning(&["show", "warnings"], "SHOW WARNINGS of a long list tells how many there were", RESULTS),
    beginning(&["show", "errors"], "SHOW ERRORS of a long list tells how many there were", RESULTS),
    with(&["lastval"], "LASTVAL() is right only where stored code is read, or the sequence was named", PINS),
    beginning(
        &["set", "global"],
        "SET GLOBAL takes up to accounts_refresh to hold for those who log in",
        STATE,
    ),
    with(&["wait_timeout"], "wait_timeout is Onramp's option, unless a client has set its own", STATE),
    beginning(&["alter", "user"], "changed accounts hold for new logins after up to accounts_refresh", LOGIN),
    beginning(
        &["set", "password"],
        "changed accounts hold for new logins after up to accounts_refresh",
        LOGIN,
    ),
];

impl Difference {
    /// Whether a kind of statement, by the words of its text, is of this sort.
    pub(crate) fn is_in(&self, words: &[String]) -> bool {
        let matches = |found: &[String]| found.iter().zip(self.words).all(|(one, other)| one == other);
        let mut places = words.windows(self.words.len());
        if self.begins { places.next().is_some_and(matches) } else { places.any(matches) }
    }
}

/// The words of a text, in small letters.
pub(crate) fn words(text: &str) -> Vec<String> {
    let of_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    text.split(move |sign: char| !of_word(sign))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&'static str> {
        ALL.iter()
            .filter(|difference| difference.is_in(&words(text)))
            .map(|difference| difference.what)
            .collect()
    }

    #[test]
    fn statements_are_known_by_whole_words_in_their_place() {
        assert_eq!(found("select connection_id (), a from t").len(), 1);
        assert_eq!(found("show full processlist").len(), 1);
        assert_eq!(found("kill ?").len(), 1);
        assert!(found("select skill, my_connection_id from kill_list where show = ?").is_empty());
        assert!(found("insert into t values (?)").is_empty());
        assert_eq!(found("set session wait_timeout = ?").len(), 1);
    }

    /// The page has a heading for each.
    #[test]
    fn sections_are_there() {
        let page = include_str!("../../../docs/DIFFERENCES.md");
        for difference in ALL {
            assert!(page.contains(&format!("(#{})", difference.section)), "{}", difference.section);
        }
    }
}
