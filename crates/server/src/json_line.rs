//! Lines for programs to read: an object of JSON (RFC 8259) each.

use std::fmt::{Display, Write as _};

/// An object that is being written. Names are ours, and need no escapes.
pub(crate) struct JsonLine(String);

impl JsonLine {
    /// Without members.
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    /// A member that is a string.
    pub(crate) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.0.push('"');
        for letter in value.chars() {
            match letter {
                '"' | '\\' => self.0.extend(['\\', letter]),
                // Beside those that have to be: what moves a terminal's cursor, or ends a line for some readers.
                _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                    // Writing to a String does not fail.
                    let _ = write!(self.0, "\\u{:04x}", u32::from(letter));
                }
                _ => self.0.push(letter),
            }
        }
        self.0.push('"');
        self
    }

    /// A member that is a whole number, `true` or `false`.
    pub(crate) fn plain(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    /// The object, and the end of its line.
    pub(crate) fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{name}\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_can_be_read() {
        let odd = "a\"b\\c\nd\0e\u{1b}[31m\u{9b}\u{2028}\u{fffd}é𝄞";
        let mut line = JsonLine::new();
        line.text("odd", odd).plain("number", u64::MAX).plain("yes", true).text("empty", "");
        let line = line.end();
        assert_eq!(line.matches(|letter: char| letter.is_control()).collect::<Vec<_>>(), ["\n"], "{line:?}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["odd"], odd);
        assert_eq!((read["number"].as_u64(), read["yes"].as_bool()), (Some(u64::MAX), Some(true)));
        assert_eq!(read["empty"], "");
        assert_eq!(JsonLine::new().end(), "{}\n");
    }
}
