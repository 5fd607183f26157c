//! What a client does, one command at a time, and how that is written in a file.

use std::fmt::Write as _;

/// One command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// COM_QUERY.
    Query(Vec<u8>),
    /// Several COM_QUERY in one write.
    Burst(Vec<Vec<u8>>),
    /// COM_INIT_DB.
    InitDb(Vec<u8>),
    /// COM_PING.
    Ping,
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER. The password is the account's own if it is to succeed.
    ChangeUser { user: String, right_password: bool, schema: String },
    /// COM_FIELD_LIST, with table and pattern.
    FieldList(Vec<u8>, Vec<u8>),
    /// COM_STATISTICS.
    Statistics,
    /// COM_SET_OPTION: 0 allows several statements in a text, 1 forbids it.
    SetOption(u16),
    /// COM_STMT_PREPARE.
    Prepare(Vec<u8>),
    /// COM_STMT_EXECUTE of the client's nth statement (counted round), with parameters as strings; `None` is NULL.
    Execute { nth: usize, cursor: bool, values: Vec<Option<Vec<u8>>> },
    /// MariaDB's COM_STMT_BULK_EXECUTE: an execution for each value, of a statement with one parameter.
    Bulk { nth: usize, values: Vec<Option<Vec<u8>>> },
    /// COM_STMT_SEND_LONG_DATA to the first parameter.
    LongData { nth: usize, data: Vec<u8> },
    /// COM_STMT_RESET.
    ResetStatement(usize),
    /// COM_STMT_FETCH.
    Fetch { nth: usize, rows: u32 },
    /// COM_STMT_CLOSE.
    CloseStatement(usize),
    /// Any payload.
    Raw(Vec<u8>),
    /// COM_QUIT, then a new connection with the same login.
    Reconnect,
}

impl Step {
    /// Words separated by tabs; the first names the command.
    pub(crate) fn write(&self) -> String {
        let words: Vec<String> = match self {
            Self::Query(text) => vec!["query".into(), escape(text)],
            Self::Burst(texts) => {
                std::iter::once("burst".into()).chain(texts.iter().map(|text| escape(text))).collect()
            }
            Self::InitDb(schema) => vec!["init_db".into(), escape(schema)],
            Self::Ping => vec!["ping".into()],
            Self::Reset => vec!["reset".into()],
            Self::ChangeUser { user, right_password, schema } => {
                vec!["change_user".into(), user.clone(), right_password.to_string(), schema.clone()]
            }
            Self::FieldList(table, pattern) => vec!["field_list".into(), escape(table), escape(pattern)],
            Self::Statistics => vec!["statistics".into()],
            Self::SetOption(option) => vec!["set_option".into(), option.to_string()],
            Self::Prepare(text) => vec!["prepare".into(), escape(text)],
            Self::Execute { nth, cursor, values } => {
                let head = ["execute".into(), nth.to_string(), cursor.to_string()];
                head.into_iter().chain(values.iter().map(write_value)).collect()
            }
            Self::Bulk { nth, values } => {
                ["bulk".into(), nth.to_string()].into_iter().chain(values.iter().map(write_value)).collect()
            }
            Self::LongData { nth, data } => vec!["long_data".into(), nth.to_string(), escape(data)],
            Self::ResetStatement(nth) => vec!["reset_statement".into(), nth.to_string()],
            Self::Fetch { nth, rows } => vec!["fetch".into(), nth.to_string(), rows.to_string()],
            Self::CloseStatement(nth) => vec!["close_statement".into(), nth.to_string()],
            Self::Raw(payload) => vec!["raw".into(), escape(payload)],
            Self::Reconnect => vec!["reconnect".into()],
        };
        words.join("\t")
    }

    /// Reads what [`Self::write`] wrote; `None` for anything else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split('\t').collect();
        Some(match words[..] {
            ["query", text] => Self::Query(unescape(text)?),
            ["burst", ref texts @ ..] => {
                Self::Burst(texts.iter().map(|text| unescape(text)).collect::<Option<_>>()?)
            }
            ["init_db", schema] => Self::InitDb(unescape(schema)?),
            ["ping"] => Self::Ping,
            ["reset"] => Self::Reset,
            ["change_user", user, right, schema] => Self::ChangeUser {
                user: user.into(),
                right_password: right.parse().ok()?,
                schema: schema.into(),
            },
            ["field_list", table, pattern] => Self::FieldList(unescape(table)?, unescape(pattern)?),
            ["statistics"] => Self::Statistics,
            ["set_option", option] => Self::SetOption(option.parse().ok()?),
            ["prepare", text] => Self::Prepare(unescape(text)?),
            ["execute", nth, cursor, ref values @ ..] => Self::Execute {
                nth: nth.parse().ok()?,
                cursor: cursor.parse().ok()?,
                values: values.iter().map(|value| read_value(value)).collect::<Option<_>>()?,
            },
            ["bulk", nth, ref values @ ..] => Self::Bulk {
                nth: nth.parse().ok()?,
                values: values.iter().map(|value| read_value(value)).collect::<Option<_>>()?,
            },
            ["long_data", nth, data] => Self::LongData { nth: nth.parse().ok()?, data: unescape(data)? },
            ["reset_statement", nth] => Self::ResetStatement(nth.parse().ok()?),
            ["fetch", nth, rows] => Self::Fetch { nth: nth.parse().ok()?, rows: rows.parse().ok()? },
            ["close_statement", nth] => Self::CloseStatement(nth.parse().ok()?),
            ["raw", payload] => Self::Raw(unescape(payload)?),
            ["reconnect"] => Self::Reconnect,
            _ => return None,
        })
    }
}

fn write_value(value: &Option<Vec<u8>>) -> String {
    value.as_ref().map_or_else(|| String::from("NULL"), |value| format!("={}", escape(value)))
}

#[expect(clippy::option_option, reason = "a NULL, or a value, or a mistake in the file")]
fn read_value(word: &str) -> Option<Option<Vec<u8>>> {
    if word == "NULL" { Some(None) } else { Some(Some(unescape(word.strip_prefix('=')?)?)) }
}

/// Printable ASCII as it is, everything else (and the backslash) as `\xNN`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len()), |mut text, &byte| {
        if (b' '..=b'~').contains(&byte) && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            write!(text, "\\x{byte:02x}").expect("a string takes everything");
        }
        text
    })
}

/// Reads what [`escape`] wrote.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = escaped.strip_prefix('x')?.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &escaped[3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let steps = [
            Step::Query(b"SELECT 'a\\\\\tb', \xe9\n".to_vec()),
            Step::Burst(vec![b"SELECT 1".to_vec(), b"SELECT 2".to_vec()]),
            Step::InitDb(b"onramp_a".to_vec()),
            Step::Ping,
            Step::Reset,
            Step::ChangeUser { user: "app".into(), right_password: false, schema: String::new() },
            Step::FieldList(b"words".to_vec(), b"".to_vec()),
            Step::Statistics,
            Step::SetOption(1),
            Step::Prepare(b"SELECT ?".to_vec()),
            Step::Execute { nth: 3, cursor: true, values: vec![None, Some(b"NULL".to_vec()), Some(vec![])] },
            Step::Bulk { nth: 1, values: vec![Some(b"a".to_vec()), None] },
            Step::LongData { nth: 0, data: vec![0, 255] },
            Step::ResetStatement(1),
            Step::Fetch { nth: 1, rows: 2 },
            Step::CloseStatement(2),
            Step::Raw(vec![0x99]),
            Step::Reconnect,
        ];
        for step in steps {
            assert_eq!(Step::read(&step.write()).as_ref(), Some(&step), "{}", step.write());
        }
    }

    #[test]
    fn mistakes_are_noticed() {
        for line in [
            "",
            "querry\tSELECT 1",
            "query",
            "query\t\\x9",
            "query\t\\n",
            "set_option\tx",
            "execute\t0\ttrue\tx",
        ] {
            assert_eq!(Step::read(line), None, "{line:?}");
        }
    }
}
