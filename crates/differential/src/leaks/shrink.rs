//! Makes a program small: leaves out clients, steps, statements and words as long as the same is found.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::step::Step;

use super::Bench;
use super::program::Program;
use super::witness::Finding;

/// A smaller program after which the same is left, found within `patience`.
pub(crate) fn shrink(
    bench: &mut Bench<'_>,
    program: &Program,
    found: &Finding,
    patience: Duration,
) -> Result<(Program, Finding), Failure> {
    let mut tries = Tries {
        bench,
        best: program.clone(),
        found: found.clone(),
        spoilt: true,
        deadline: Instant::now() + patience,
    };
    tries.leave_out(
        |program| program.visits.len(),
        |program, from, to| drop(program.visits.drain(from..to)),
    )?;
    for visit in 0..tries.best.visits.len() {
        tries.leave_out(
            |program| program.visits[visit].steps.len(),
            |program, from, to| drop(program.visits[visit].steps.drain(from..to)),
        )?;
        for step in 0..tries.best.visits[visit].steps.len() {
            for separators in [&b";"[..], b" \t\n(),"] {
                tries.leave_out(
                    |program| pieces(text(&program.visits[visit].steps[step]), separators).len(),
                    |program, from, to| {
                        let step = &mut program.visits[visit].steps[step];
                        let mut pieces = pieces(text(step), separators);
                        pieces.drain(from..to);
                        let shorter = pieces.concat();
                        if let Step::Query(text) | Step::Prepare(text) = step {
                            *text = shorter;
                        }
                    },
                )?;
            }
        }
    }
    Ok((tries.best, tries.found))
}

struct Tries<'a, 'b> {
    bench: &'a mut Bench<'b>,
    best: Program,
    found: Finding,
    /// Whether the last try has left something.
    spoilt: bool,
    deadline: Instant,
}

impl Tries<'_, '_> {
    /// Leaves out larger and smaller pieces of what `count` counts.
    fn leave_out(
        &mut self,
        count: impl Fn(&Program) -> usize,
        cut: impl Fn(&mut Program, usize, usize),
    ) -> Result<(), Failure> {
        let mut piece = count(&self.best).div_ceil(2);
        while piece > 0 {
            let mut from = 0;
            while from < count(&self.best) {
                if Instant::now() > self.deadline {
                    return Ok(());
                }
                let mut smaller = self.best.clone();
                cut(&mut smaller, from, (from + piece).min(count(&self.best)));
                let tried = self.bench.run_again(&smaller, self.spoilt)?;
                self.spoilt = tried.is_some();
                match tried {
                    Some(found) if found.kind == self.found.kind => {
                        self.best = smaller;
                        self.found = found;
                    }
                    _ => from += piece,
                }
            }
            piece /= 2;
        }
        Ok(())
    }
}

fn text(step: &Step) -> &[u8] {
    match step {
        Step::Query(text) | Step::Prepare(text) => text,
        _ => b"",
    }
}

/// The text behind each separator.
fn pieces(text: &[u8], separators: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| separators.contains(byte)).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text() {
        let text = b"DO 1; SELECT (2);;x";
        assert_eq!(pieces(text, b";").len(), 4);
        assert_eq!(pieces(text, b" (").concat(), text);
        assert!(pieces(b"", b";").is_empty());
    }
}
