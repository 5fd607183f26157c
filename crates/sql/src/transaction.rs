//! Statements about transactions that say nothing out of the ordinary.

/// A statement that begins or ends a transaction, in one of the forms of which everything is known that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN [WORK]`. In `sql_mode=ORACLE` MariaDB takes it for the beginning of a block.
    Begin,
    /// `START TRANSACTION [READ ONLY]`.
    Start {
        /// True if the text says so.
        read_only: bool,
    },
    /// `COMMIT [WORK]`.
    Commit,
    /// `ROLLBACK [WORK]`.
    Rollback,
}

/// Which of these a text is: nothing but the words, blanks, plain comments and semicolons at its end. `None` for anything
/// else, `START TRANSACTION READ WRITE` among it, which a server that only reads refuses.
pub fn transaction_command(text: &[u8]) -> Option<TransactionCommand> {
    let mut words = [const { Vec::new() }; LONGEST];
    let mut count = 0;
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(comment) = rest.strip_prefix(b"/*") {
            // Of the three kinds that servers execute.
            if matches!(comment.first(), Some(b'!' | b'+' | b'M')) {
                return None;
            }
            let end = comment.windows(2).position(|pair| pair == b"*/")?;
            rest = &comment[end + 2..];
            continue;
        }
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if length == 0 {
            break;
        }
        *words.get_mut(count)? = rest[..length].to_ascii_lowercase();
        count += 1;
        rest = &rest[length..];
    }
    if !rest.iter().all(|byte| *byte == b';' || byte.is_ascii_whitespace()) {
        return None;
    }
    let words: [&[u8]; LONGEST] = std::array::from_fn(|place| words[place].as_slice());
    match words {
        [b"begin", b"" | b"work", b"", b""] => Some(TransactionCommand::Begin),
        [b"start", b"transaction", b"", b""] => Some(TransactionCommand::Start { read_only: false }),
        [b"start", b"transaction", b"read", b"only"] => Some(TransactionCommand::Start { read_only: true }),
        [b"commit", b"" | b"work", b"", b""] => Some(TransactionCommand::Commit),
        [b"rollback", b"" | b"work", b"", b""] => Some(TransactionCommand::Rollback),
        _ => None,
    }
}

/// `START TRANSACTION READ ONLY`.
const LONGEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::TransactionCommand::{Begin, Commit, Rollback, Start};
    use super::*;

    #[test]
    fn plain_forms_are_known() {
        for (text, command) in [
            ("BEGIN", Begin),
            ("begin work ;", Begin),
            (" /* of a driver */ Begin/* two */ ;; ", Begin),
            ("START TRANSACTION", Start { read_only: false }),
            ("start\ttransaction\nread only", Start { read_only: true }),
            ("COMMIT", Commit),
            ("commit work", Commit),
            ("rollback", Rollback),
            ("ROLLBACK WORK;", Rollback),
        ] {
            assert_eq!(transaction_command(text.as_bytes()), Some(command), "{text}");
        }
    }

    #[test]
    fn all_others_are_the_servers() {
        for text in [
            "",
            ";",
            "BEGIN NOT ATOMIC SELECT 1; END",
            "START TRANSACTION READ WRITE",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "START TRANSACTION READ ONLY, READ ONLY",
            "START TRANSACTION; SELECT 1",
            "START SLAVE",
            "COMMIT AND CHAIN",
            "COMMIT RELEASE",
            "COMMIT WORK NO RELEASE",
            "ROLLBACK TO s",
            "ROLLBACK WORK TO SAVEPOINT s",
            "/*!BEGIN*/",
            "BEGIN /*!50000 WORK*/",
            "BEGIN /*M!100000 WORK*/",
            "BEGIN /* open",
            "BEGIN -- comment",
            "BEGIN 'x'",
            "BEGIN1",
            "WORK",
        ] {
            assert_eq!(transaction_command(text.as_bytes()), None, "{text}");
        }
    }
}
