//! What the modelled server understands of what is sent to it.

use super::super::statement::{Origin, Statement};
use crate::protocol::{Cursor, command, stored_text};

/// The service account: reads the other accounts.
pub const SERVICE_USER: &str = "onramp";
/// The user of clients where nothing else is said.
pub const USER: &str = "app";
/// Another user.
pub const OTHER_USER: &str = "batch";
/// The password of all but the service account.
pub const PASSWORD: &str = "a password";

/// The user of one of [`super::ServerModel::accounts`].
pub fn user_of_account(number: u32) -> String {
    format!("{USER}{number}")
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// COM_QUERY: statements that run one after the other.
    Query(Vec<Part>),
    /// COM_INIT_DB.
    InitDb(String),
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER: to this user.
    ChangeUser(String),
    /// COM_QUIT.
    Quit,
    /// Anything else, which is answered with an OK.
    Other,
}

/// One statement of a COM_QUERY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of a client of the model.
    Work(Statement, Origin),
    /// SET and the like: answered with an OK.
    Nothing,
    /// USE.
    Use(String),
    /// A question about the connection or the server itself.
    Question(Question),
    /// KILL QUERY or KILL, which here both end the statement.
    Kill(u32),
    /// Nothing that is known here.
    Unknown(String),
}

/// What is asked beside clients' statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// CURRENT_USER() and CURRENT_ROLE(); nobody has a role.
    CurrentUser,
    /// LAST_INSERT_ID(), which nothing here changes.
    LastInsertId,
    /// SHOW WARNINGS; there are none.
    Warnings,
    /// The table of collations.
    Collations,
    /// Global variables.
    Server,
    /// Those that new sessions begin with, which never change.
    Defaults,
    /// A sum over the table of accounts.
    AccountsChanged,
    /// How many statements have changed them; none has.
    Changes,
    /// The table of accounts.
    Accounts,
    /// How many statements wait for a row: a status variable, with its name.
    LockWaitCount,
    /// Who waits for whom.
    LockWaits,
    /// Who waits for another lock than that of a row.
    OtherWaiters,
    /// How many functions there are; there are none.
    Functions,
    /// How much of stored code was defined; nothing.
    CodeCounts,
    /// What the service account may see of it.
    CodeRights,
    /// The schemas that may hold some.
    CodeSchemas,
    /// A kind of stored code; there is none.
    Code,
    /// Onramp's first free slot, and the connection's number.
    Slot,
    /// Who holds the slots, who is at work, and what time it is.
    SlotHolders,
    /// A lock that tells whether it is at work, taken or given back.
    AtWork,
}

/// Slots twice over, and the time.
pub const SLOT_HOLDERS: usize = 2 * 16 + 1;

impl Command {
    /// Reads a packet.
    pub fn parse(payload: &[u8]) -> Self {
        match payload.split_first() {
            Some((&command::QUERY, text)) => {
                let text = String::from_utf8_lossy(text);
                Self::Query(text.split(';').map(|part| Part::parse(part.trim())).collect())
            }
            Some((&command::INIT_DB, schema)) => Self::InitDb(String::from_utf8_lossy(schema).into_owned()),
            Some((&command::RESET_CONNECTION, _)) => Self::Reset,
            Some((&command::CHANGE_USER, body)) => {
                let user = Cursor(body).until_nul().unwrap_or_default();
                Self::ChangeUser(String::from_utf8_lossy(user).into_owned())
            }
            Some((&command::QUIT, _)) => Self::Quit,
            _ => Self::Other,
        }
    }
}

impl Part {
    fn parse(text: &str) -> Self {
        if let Some((statement, origin)) = Statement::parse(text) {
            return Self::Work(statement, origin);
        }
        if let Some(target) = text.strip_prefix("KILL ") {
            let id = target.strip_prefix("QUERY ").unwrap_or(target).parse();
            return id.map_or_else(|_| Self::Unknown(text.to_owned()), Self::Kill);
        }
        if let Some(schema) = text.strip_prefix("USE ") {
            return Self::Use(schema.trim_matches('`').to_owned());
        }
        match Question::find(text) {
            Some(question) => Self::Question(question),
            None if text.starts_with("SET ") => Self::Nothing,
            None => Self::Unknown(text.to_owned()),
        }
    }
}

impl Question {
    /// By words that only this question has. Who waits for whom stands in tables with other names in MariaDB and in MySQL.
    fn find(text: &str) -> Option<Self> {
        const WORDS: [(&str, Question); 25] = [
            ("CASE WHEN GET_LOCK(", Question::Slot),
            ("IS_USED_LOCK(", Question::SlotHolders),
            ("LOCK('onramp.", Question::AtWork),
            ("mysql.func", Question::Functions),
            ("Com_create_trigger", Question::CodeCounts),
            ("CURRENT_USER(), '@', -1)", Question::CodeRights),
            ("information_schema.SCHEMATA", Question::CodeSchemas),
            ("mysql.proc", Question::Code),
            ("information_schema.TRIGGERS", Question::Code),
            ("information_schema.VIEWS", Question::Code),
            ("information_schema.COLUMNS", Question::Code),
            ("CURRENT_USER()", Question::CurrentUser),
            ("LAST_INSERT_ID()", Question::LastInsertId),
            ("SHOW WARNINGS", Question::Warnings),
            ("information_schema.COLLATIONS", Question::Collations),
            ("@@global.skip_name_resolve", Question::Server),
            ("SUM(CRC32(", Question::AccountsChanged),
            ("Com_grant", Question::Changes),
            ("mysql.global_priv", Question::Accounts),
            ("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'", Question::LockWaitCount),
            ("SHOW GLOBAL VARIABLES", Question::Defaults),
            ("information_schema.INNODB_LOCK_WAITS", Question::LockWaits),
            ("performance_schema.data_lock_waits", Question::LockWaits),
            ("information_schema.PROCESSLIST", Question::OtherWaiters),
            ("performance_schema.threads", Question::OtherWaiters),
        ];
        WORDS.into_iter().find(|(word, _)| text.contains(word)).map(|(_, question)| question)
    }

    /// How many columns its answer has.
    pub fn width(self) -> usize {
        match self {
            Self::LastInsertId
            | Self::OtherWaiters
            | Self::Functions
            | Self::Changes
            | Self::CodeSchemas
            | Self::AtWork => 1,
            Self::SlotHolders => SLOT_HOLDERS,
            Self::Slot
            | Self::CurrentUser
            | Self::LockWaitCount
            | Self::LockWaits
            | Self::CodeCounts
            | Self::Defaults => 2,
            Self::Code | Self::CodeRights => 4,
            Self::Warnings | Self::Collations | Self::AccountsChanged => 3,
            Self::Accounts => 10,
            Self::Server => 11,
        }
    }

    /// The answer where it does not depend on what happens: to this user of a server with so many accounts beside those that there are in any
    /// case.
    pub fn fixed_answer(self, user: &str, accounts: u32) -> Vec<Vec<String>> {
        let row = |fields: &[&str]| fields.iter().map(|&field| field.to_owned()).collect();
        match self {
            Self::CurrentUser => vec![vec![format!("{user}@%"), String::new()]],
            Self::LastInsertId | Self::Functions | Self::Changes => vec![row(&["0"])],
            Self::CodeCounts => vec![row(&["0", "0"])],
            Self::Defaults => vec![row(&["autocommit", "ON"])],
            // SELECT, SHOW VIEW and TRIGGER.
            Self::CodeRights => vec![row(&["1", "1", "0", "1"])],
            Self::CodeSchemas => vec![row(&["app"])],
            Self::AtWork => vec![row(&["1"])],
            Self::Warnings
            | Self::LockWaitCount
            | Self::LockWaits
            | Self::OtherWaiters
            | Self::Code
            | Self::Slot
            | Self::SlotHolders => Vec::new(),
            Self::Collations => vec![row(&["45", "utf8mb4_general_ci", "utf8mb4"])],
            // Names are not resolved; an ordinary sql_mode; room for as many connections as anybody wants.
            Self::Server => {
                let usual =
                    ["1", "", "100000", "67108864", "utf8mb4_general_ci", "1", "16382", "1", "0", "", "OFF"];
                vec![row(&usual)]
            }
            // They never do.
            Self::AccountsChanged => vec![row(&["3", "1", "1"])],
            Self::Accounts => {
                let [none, usual] = ["", PASSWORD].map(|password| stored_text(password.as_bytes()));
                let account = |user: &str, stored: &str| {
                    row(&[user, "%", "mysql_native_password", stored, "0", "0", "", "", "", ""])
                };
                let fixed = [(SERVICE_USER, &none), (USER, &usual), (OTHER_USER, &usual)];
                let fixed = fixed.map(|(user, stored)| account(user, stored));
                let more = (0..accounts).map(|number| account(&user_of_account(number), &usual));
                fixed.into_iter().chain(more).collect()
            }
        }
    }
}

/// The user of a login packet.
pub fn user_of_login(payload: &[u8]) -> Option<String> {
    let mut cursor = Cursor(payload);
    cursor.take(32)?;
    Some(String::from_utf8_lossy(cursor.until_nul()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::super::statement::Action;
    use super::*;

    #[test]
    fn a_text_of_several_statements_is_taken_apart() {
        let statement = Statement { action: Action::Read, table: 1, row: 2 };
        let origin = Origin { client: 3, number: 4 };
        let text = format!("\x03SET a=1;USE `b`;{}", statement.text(origin));
        let Command::Query(parts) = Command::parse(text.as_bytes()) else { panic!("a COM_QUERY") };
        assert_eq!(parts, [Part::Nothing, Part::Use("b".to_owned()), Part::Work(statement, origin)]);
        assert_eq!(Command::parse(b"\x03KILL QUERY 7"), Command::Query(vec![Part::Kill(7)]));
        assert_eq!(Command::parse(b"\x1f"), Command::Reset);
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(Part::parse("SELECT 1"), Part::Unknown("SELECT 1".to_owned()));
    }
}
