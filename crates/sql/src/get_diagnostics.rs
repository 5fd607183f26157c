//! `GET DIAGNOSTICS`, as far as what is kept of a statement can answer it.

/// What a GET DIAGNOSTICS asks for. The rest (CLASS_ORIGIN, ROW_NUMBER, COLUMN_NAME and their like) SHOW WARNINGS
/// does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticsItem {
    /// `NUMBER`: how many conditions there are.
    Number,
    /// `ROW_COUNT`.
    RowCount,
    /// `RETURNED_SQLSTATE` of a condition.
    State,
    /// `MYSQL_ERRNO` of a condition.
    Code,
    /// `MESSAGE_TEXT` of a condition.
    Message,
}

impl DiagnosticsItem {
    fn named(name: &[u8], of_condition: bool) -> Option<Self> {
        let item = match &name.to_ascii_uppercase()[..] {
            b"NUMBER" => Self::Number,
            b"ROW_COUNT" => Self::RowCount,
            b"RETURNED_SQLSTATE" => Self::State,
            b"MYSQL_ERRNO" => Self::Code,
            b"MESSAGE_TEXT" => Self::Message,
            _ => return None,
        };
        let is_of_condition = !matches!(item, Self::Number | Self::RowCount);
        (is_of_condition == of_condition).then_some(item)
    }
}

/// A `GET DIAGNOSTICS` of the plain form: `[CURRENT]`, a condition by a number in digits, user variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetDiagnostics {
    /// From 1 on; `None` where it asks for the statement.
    pub condition: Option<u16>,
    /// Variables, in lower case, and what they are to hold.
    pub targets: Vec<(Box<[u8]>, DiagnosticsItem)>,
}

impl GetDiagnostics {
    /// `None` for any other form, and anything else.
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut words = Words(text);
        words.word(b"GET")?;
        let _ = words.word(b"CURRENT");
        words.word(b"DIAGNOSTICS")?;
        let condition = match words.word(b"CONDITION") {
            Some(()) => Some(std::str::from_utf8(words.name()?).ok()?.parse().ok()?),
            None => None,
        };
        let mut targets = Vec::new();
        loop {
            words.sign(b'@')?;
            let name = words.variable()?.to_ascii_lowercase().into();
            words.sign(b'=')?;
            targets.push((name, DiagnosticsItem::named(words.name()?, condition.is_some())?));
            if words.sign(b',').is_none() {
                break;
            }
        }
        let _ = words.sign(b';');
        words.0.trim_ascii().is_empty().then_some(Self { condition, targets })
    }
}

/// The rest of a text, word by word.
struct Words<'t>(&'t [u8]);

impl<'t> Words<'t> {
    fn sign(&mut self, sign: u8) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(&[sign])?;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let rest = self.0;
        if self.name().is_some_and(|name| name.eq_ignore_ascii_case(word)) {
            return Some(());
        }
        self.0 = rest;
        None
    }

    /// A word or a number.
    fn name(&mut self) -> Option<&'t [u8]> {
        self.0 = self.0.trim_ascii_start();
        self.run(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    /// The name of a user variable, right behind its sign.
    fn variable(&mut self) -> Option<&'t [u8]> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
        let Some(rest) = self.0.strip_prefix(b"`") else { return self.run(is_of_name) };
        self.0 = rest;
        let name = self.run(is_of_name)?;
        self.0 = self.0.strip_prefix(b"`")?;
        Some(name)
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> Option<&'t [u8]> {
        let length = self.0.iter().take_while(|&&byte| belongs(byte)).count();
        let (run, rest) = self.0.split_at(length);
        self.0 = rest;
        (!run.is_empty()).then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms_are_left_to_the_server() {
        for text in [
            "GET STACKED DIAGNOSTICS @n = NUMBER",
            "GET DIAGNOSTICS CONDITION @i @m = MESSAGE_TEXT",
            "GET DIAGNOSTICS CONDITION 1 @m = COLUMN_NAME",
            "GET DIAGNOSTICS CONDITION 1 @m = NUMBER",
            "GET DIAGNOSTICS @m = MESSAGE_TEXT",
            "GET DIAGNOSTICS n = NUMBER",
            "GET DIAGNOSTICS @'a b' = NUMBER",
            "GET DIAGNOSTICS @n = NUMBER, ",
            "GET DIAGNOSTICS @n = NUMBER; SELECT 1",
            "GET DIAGNOSTICS /* */ @n = NUMBER",
            "GET DIAGNOSTICS",
            "SHOW WARNINGS",
        ] {
            assert_eq!(GetDiagnostics::of(text.as_bytes()), None, "{text}");
        }
    }
}
