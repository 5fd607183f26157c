//! Waiting for the workers.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::ask::{Answer, Sight};

/// A worker that has said nothing for so long is stuck, or has ended. Its turns are milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What workers answer to one question, as it comes.
pub(crate) struct Answers {
    answers: Receiver<Answer>,
    /// Workers that have not said everything.
    left: BTreeSet<usize>,
    patience: Duration,
}

impl Answers {
    /// From this many workers.
    pub(crate) fn new(answers: Receiver<Answer>, workers: usize) -> Self {
        Self { answers, left: (0..workers).collect(), patience: PATIENCE }
    }

    /// For an order on which a worker waits for somebody else, who may take so long.
    pub(crate) fn with_time_for_others(self, time: Duration) -> Self {
        Self { patience: PATIENCE + time, ..self }
    }

    /// The next answer; `None` once all have said everything, or none says anything any more.
    pub(crate) fn next(&mut self) -> Option<Answer> {
        if self.left.is_empty() {
            return None;
        }
        let answer = self.answers.recv_timeout(self.patience).ok()?;
        if matches!(answer.1, Sight::Done | Sight::NotHere | Sight::Drain(_) | Sight::Killed(_)) {
            self.left.remove(&answer.0);
        }
        Some(answer)
    }

    /// Those that have not said everything.
    pub(crate) fn missing(&self) -> Vec<usize> {
        self.left.iter().copied().collect()
    }
}

/// `worker 1 has`, `workers 1, 2 have`.
pub(crate) fn have(workers: &[usize]) -> String {
    let numbers: Vec<_> = workers.iter().map(ToString::to_string).collect();
    match numbers.as_slice() {
        [one] => format!("worker {one} has"),
        several => format!("workers {} have", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_does_not_answer_is_named() {
        let (sender, answers) = channel();
        sender.send((1, Sight::Done)).unwrap();
        drop(sender);
        let mut answers = Answers::new(answers, 3);
        assert!(matches!(answers.next(), Some((1, Sight::Done))));
        assert!(answers.next().is_none());
        assert_eq!(have(&answers.missing()), "workers 0, 2 have");
        assert_eq!(have(&[1]), "worker 1 has");
    }
}
