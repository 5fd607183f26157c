//! The schemas whose code a server is asked for, some at a time.

use std::time::Duration;

/// An answer that comes within this time leaves room for more schemas in the next question. While the server looks for it, nothing else can be
/// asked on the service account's connection: neither accounts nor how far a replica is.
const SHORT: Duration = Duration::from_millis(10);

/// After an answer that took longer than this the next question is of fewer schemas.
const LONG: Duration = Duration::from_millis(40);

/// Most schemas in one question, which has some 300 bytes for each.
const MOST: usize = 256;

/// The names of the schemas, and those that are asked for next.
#[derive(Debug)]
pub(super) struct Schemas {
    names: Vec<Vec<u8>>,
    next: usize,
    at_a_time: usize,
}

impl Schemas {
    pub(super) fn new(names: Vec<Vec<u8>>) -> Self {
        Self { names, next: 0, at_a_time: 1 }
    }

    /// The schemas that are asked for now.
    pub(super) fn asked(&self) -> &[Vec<u8>] {
        let end = self.names.len().min(self.next + self.at_a_time);
        &self.names[self.next..end]
    }

    /// Notes that the server has answered for these after so long.
    pub(super) fn answered(&mut self, took: Duration) {
        self.next += self.asked().len();
        if took < SHORT {
            self.at_a_time = (2 * self.at_a_time).min(MOST);
        } else if took > LONG {
            self.at_a_time = (self.at_a_time / 2).max(1);
        }
    }

    /// Goes on with another kind of code.
    pub(super) fn begin_again(&mut self) {
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_asked_for_and_as_many_at_a_time_as_the_server_answers_soon() {
        let names: Vec<_> = (0..1000_u32).map(|number| number.to_string().into_bytes()).collect();
        let mut schemas = Schemas::new(names.clone());
        let (mut seen, mut questions) = (Vec::new(), Vec::new());
        while !schemas.asked().is_empty() {
            let asked = schemas.asked().to_vec();
            questions.push(asked.len());
            // A tenth of a millisecond for each.
            schemas.answered(Duration::from_micros(100) * u32::try_from(asked.len()).unwrap());
            seen.extend(asked);
        }
        assert_eq!(seen, names);
        assert_eq!(questions[..9], [1, 2, 4, 8, 16, 32, 64, 128, 128]);
        schemas.begin_again();
        schemas.answered(Duration::from_secs(1));
        assert_eq!(schemas.asked().len(), 64);
    }

    #[test]
    fn there_may_be_none() {
        assert!(Schemas::new(Vec::new()).asked().is_empty());
    }
}
