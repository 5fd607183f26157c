//! Marks that make every statement and every answer of a run recognisable in any byte stream.

use std::fmt;

use memchr::memmem;

/// One login of one virtual client. A client that comes back after a lost connection is somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientKey {
    /// Which client.
    pub client: u32,
    /// Which of its logins.
    pub incarnation: u32,
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.client, self.incarnation)
    }
}

/// One statement of one client: written as `tok_<client>_<incarnation>_<number>_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// Whose.
    pub key: ClientKey,
    /// Counts the statements of this login.
    pub number: u32,
}

const START: &[u8] = b"tok_";

impl Token {
    /// All tokens in these bytes, in order. A token cut off at the end is not found.
    pub fn find_all(bytes: &[u8]) -> Vec<Self> {
        memmem::find_iter(bytes, START).filter_map(|at| Self::parse(&bytes[at + START.len()..])).collect()
    }

    /// The token whose numbers begin here.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut at = 0;
        for number in &mut numbers {
            let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            *number = std::str::from_utf8(&bytes[at..at + digits]).ok()?.parse().ok()?;
            at += digits;
            if bytes.get(at) != Some(&b'_') {
                return None;
            }
            at += 1;
        }
        let [client, incarnation, number] = numbers;
        Some(Self { key: ClientKey { client, incarnation }, number })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tok_{}_{}_", self.key, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_whole_and_in_order() {
        let one = Token { key: ClientKey { client: 3, incarnation: 0 }, number: 12 };
        let two = Token { key: ClientKey { client: 14, incarnation: 2 }, number: 7 };
        let text = format!("x{one}tok_{two}y tok_1_2");
        assert_eq!(Token::find_all(text.as_bytes()), [one, two]);
    }
}
