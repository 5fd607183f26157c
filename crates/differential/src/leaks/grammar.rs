//! Programs from a seed, by the rules of [`super::rules`].

use wire::Capabilities;

use crate::connection::{Login, plain_capabilities};
use crate::random::Random;
use crate::step::{Step, unescape};

use super::program::{Ending, Program, Visit};
use super::rules::{COLLATIONS, Rules, WORDS};

/// Beyond this depth every rule gives its first choice, which ends.
const DEEPEST: usize = 12;

/// A program of one client.
pub(crate) fn draw(seed: u64, mysql: bool) -> Program {
    let mut draft = Draft { random: Random::new(seed), rules: Rules::new(mysql) };
    let collation = if draft.random.chance(60) { 45 } else { *draft.random.one_of(&COLLATIONS) };
    let login = Login {
        user: String::from("app"),
        schema: (*draft.random.one_of(&["onramp_a", "onramp_a", "onramp_b"])).into(),
        collation,
        capabilities: draft.capabilities().0,
    };
    let mut steps = Vec::new();
    for _ in 0..=draft.random.below(3) {
        draft.steps(&mut steps);
    }
    let ending = *draft.random.one_of(&Ending::ALL);
    Program { visits: vec![Visit { login, steps, ending }] }
}

struct Draft {
    random: Random,
    rules: Rules,
}

impl Draft {
    fn capabilities(&mut self) -> Capabilities {
        let mut capabilities = plain_capabilities();
        for (flag, percent) in [
            (Capabilities::DEPRECATE_EOF, 50),
            (Capabilities::MULTI_STATEMENTS, 80),
            (Capabilities::FOUND_ROWS, 20),
            (Capabilities::SESSION_TRACK, 10),
        ] {
            if self.random.chance(percent) {
                capabilities |= flag;
            }
        }
        capabilities
    }

    fn steps(&mut self, steps: &mut Vec<Step>) {
        match self.random.below(100) {
            0..=9 => {
                steps.push(Step::Prepare(self.text("<prepared>")));
                let values = vec![Some(b"1".to_vec()); self.random.below(2)];
                steps.push(Step::Execute { nth: 0, cursor: self.random.chance(30), values });
                if self.random.chance(30) {
                    steps.push(Step::Reset);
                }
            }
            10..=13 => {
                let count = 2 + self.random.below(2);
                steps.push(Step::Burst((0..count).map(|_| self.text("<text>")).collect()));
            }
            14..=15 => steps.push(Step::InitDb(b"onramp_b".to_vec())),
            16..=17 => steps.push(Step::Reset),
            18..=25 => {
                // What is made by one text and used by the next.
                let word = (*self.random.one_of(&WORDS)).to_owned();
                for text in ["<made>", "<use>"] {
                    let text = String::from_utf8_lossy(&self.text(text)).replace("WORD", &word);
                    steps.push(Step::Query(text.into_bytes()));
                }
            }
            _ => steps.push(Step::Query(self.text("<text>"))),
        }
    }

    fn text(&mut self, rule: &str) -> Vec<u8> {
        let mut text = self.expand(rule, 0);
        if self.random.chance(15) {
            text = self.respaced(&text);
        }
        if self.random.chance(15) {
            text = self.hidden_in_version(&text);
        }
        if self.random.chance(8) {
            text = self.damaged(&text);
        }
        if self.random.chance(10) {
            text = text
                .iter()
                .map(|&byte| if self.random.chance(50) { byte.to_ascii_lowercase() } else { byte })
                .collect();
        }
        text
    }

    /// Replaces `<name>` by one of its rule's choices; `<'name>` is the same as a string literal, and `<#name>` one in
    /// hexadecimal digits.
    fn expand(&mut self, pattern: &str, depth: usize) -> Vec<u8> {
        let mut text = Vec::new();
        let mut rest = pattern;
        while let Some(begin) = rest.find('<') {
            let end = begin + rest[begin..].find('>').unwrap_or(0);
            let name = &rest[begin + 1..end.max(begin + 1)];
            let is_rule =
                name.starts_with(|letter: char| letter.is_ascii_lowercase() || "'#".contains(letter));
            if !is_rule {
                text.extend(literal(&rest[..=begin]));
                rest = &rest[begin + 1..];
                continue;
            }
            text.extend(literal(&rest[..begin]));
            match name.split_at(1) {
                ("'", name) => text.extend(quoted(&self.choice(name, depth))),
                ("#", name) => text.extend(in_digits(&self.choice(name, depth))),
                _ => text.extend(self.choice(name, depth)),
            }
            rest = &rest[end + 1..];
        }
        text.extend(literal(rest));
        text
    }

    fn choice(&mut self, name: &str, depth: usize) -> Vec<u8> {
        let choices = self.rules.choices(name);
        let choice = if depth > DEEPEST { choices[0] } else { *self.random.one_of(choices) };
        self.expand(choice, depth + 1)
    }

    /// Other blanks in the place of some.
    fn respaced(&mut self, text: &[u8]) -> Vec<u8> {
        let blanks = [
            "/**/",
            "\n",
            "\t",
            "-- x\n",
            "#'\n",
            "/*! */",
            "/*'*/",
            "\x0b",
            "\x0c",
            "\r",
            "/*!99999 ' */",
            "  ",
            "--\n",
        ];
        let mut spaced = Vec::new();
        for &byte in text {
            if byte == b' ' && self.random.chance(30) {
                spaced.extend_from_slice(self.random.one_of(&blanks).as_bytes());
            } else {
                spaced.push(byte);
            }
        }
        spaced
    }

    /// Some words in a comment that the server reads.
    fn hidden_in_version(&mut self, text: &[u8]) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = text.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
        let from = self.random.below(words.len());
        let to = from + self.random.below(words.len() - from);
        let begin = *self.random.one_of(&[
            "/*!",
            "/*!50000 ",
            "/*M!100000 ",
            "/*!100100",
            "/*M! ",
            "/*!80000 ",
            "/*!050700 ",
        ]);
        words[from].splice(0..0, begin.bytes());
        words[to].extend_from_slice(b" */");
        words.join(&b' ')
    }

    /// A word left out, moved, or put in.
    fn damaged(&mut self, text: &[u8]) -> Vec<u8> {
        let strays = [
            "begin",
            "end",
            "'",
            "\"",
            "`",
            "/*",
            "*/",
            ";",
            "--",
            "{",
            "}",
            "@",
            "\\",
            "(",
            ")",
            "delimiter //",
            "$$",
            "then",
            "loop",
            "case",
            "\0",
            "\u{a0}",
            "<>",
        ];
        let mut words: Vec<Vec<u8>> = text.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
        let place = self.random.below(words.len());
        match self.random.below(3) {
            0 => drop(words.remove(place)),
            1 => {
                let other = self.random.below(words.len());
                words.swap(place, other);
            }
            _ => words.insert(place, self.random.one_of(&strays).as_bytes().to_vec()),
        }
        words.join(&b' ')
    }
}

/// Bytes that a rule spells as `\xNN`.
fn literal(text: &str) -> Vec<u8> {
    unescape(text).expect("rules are spelled as files are")
}

fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in text {
        quoted.extend_from_slice(match byte {
            b'\'' => b"''",
            b'\\' => b"\\\\",
            _ => std::slice::from_ref(&byte),
        });
    }
    quoted.push(b'\'');
    quoted
}

fn in_digits(text: &[u8]) -> Vec<u8> {
    let digits: String = text.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{digits}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_is_named_is_there() {
        for mysql in [false, true] {
            let mut draft = Draft { random: Random::new(1), rules: Rules::new(mysql) };
            for name in draft.rules.names() {
                for choice in draft.rules.choices(name).to_vec() {
                    // The first choice of each rule is the one that deep texts end with.
                    draft.expand(choice, DEEPEST);
                }
            }
        }
    }

    #[test]
    fn quotes_hold_what_is_in_them() {
        assert_eq!(quoted(b"a'b\\"), b"'a''b\\\\'");
        assert_eq!(in_digits(b"DO"), b"0x444F");
    }
}
