//! Makes a failing program small: leaves out steps as long as it fails in the same way.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::differences::Tally;
use crate::program::{Move, Program};
use crate::run::{Bench, Difference, run};

/// A smaller program that fails as `difference` says, found within `patience`.
pub(crate) fn shrink(
    bench: &Bench<'_>,
    program: &Program,
    difference: &Difference,
    patience: Duration,
) -> Result<(Program, Difference), Failure> {
    let deadline = Instant::now() + patience;
    let mut best = (program.clone(), difference.clone());
    if let Some(place) = difference.place {
        let cut = Program { moves: program.moves[..=place].to_vec(), ..program.clone() };
        try_instead(bench, &mut best, cut)?;
        // In a crowd the others seldom have a part in it.
        let client = program.moves[place].client;
        let kept: Vec<bool> = best.0.moves.iter().map(|own| own.client == client).collect();
        let alone = without(&best.0, &kept);
        if alone.moves.len() < best.0.moves.len() {
            try_instead(bench, &mut best, alone)?;
        }
    }
    let mut piece = best.0.moves.len().div_ceil(2);
    while piece > 0 && Instant::now() < deadline {
        let mut from = 0;
        while from < best.0.moves.len() && Instant::now() < deadline {
            let asked_about = asked_about(&best.0);
            let kept: Vec<bool> = (0..best.0.moves.len())
                .map(|place| place < from || place >= from + piece || Some(place) == asked_about)
                .collect();
            let smaller = without(&best.0, &kept);
            if smaller.moves.len() >= best.0.moves.len() || !try_instead(bench, &mut best, smaller)? {
                from += piece;
            }
        }
        piece /= 2;
    }
    Ok(best)
}

/// The step before the last one, of the same client: what the last one shows is mostly about that, and of another one it would
/// be another difference.
fn asked_about(program: &Program) -> Option<usize> {
    let (last, before) = program.moves.split_last()?;
    before.iter().rposition(|own| own.client == last.client)
}

fn try_instead(
    bench: &Bench<'_>,
    best: &mut (Program, Difference),
    program: Program,
) -> Result<bool, Failure> {
    match run(bench, &program, &mut Tally::new())? {
        Some(difference) if difference.is_like(&best.1) => {
            *best = (program, difference);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The program without some of its steps. The last step of a section stays as long as another of it does: it lets the
/// backend go, and without it clients would wait for ever.
fn without(program: &Program, kept: &[bool]) -> Program {
    let needed: BTreeSet<usize> = program
        .moves
        .iter()
        .zip(kept)
        .filter(|(_, kept)| **kept)
        .filter_map(|(own, _)| own.section)
        .collect();
    let is_last = |place: usize, own: &Move| {
        own.section.is_some_and(|section| {
            needed.contains(&section)
                && program.moves[place + 1..].iter().all(|later| later.section != Some(section))
        })
    };
    let moves = program
        .moves
        .iter()
        .enumerate()
        .filter(|(place, own)| kept[*place] || is_last(*place, own))
        .map(|(_, own)| own.clone())
        .collect();
    Program { moves, ..program.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Step;

    #[test]
    fn what_lets_a_backend_go_stays_as_long_as_it_is_held() {
        let own = |section, step| Move { client: 0, section, step };
        let program = Program {
            moves: vec![
                own(None, Step::Ping),
                own(Some(1), Step::Query(b"BEGIN".to_vec())),
                own(Some(1), Step::Ping),
                own(Some(1), Step::Query(b"COMMIT".to_vec())),
            ],
            ..Program::draw(1, 0, 16)
        };
        assert_eq!(
            without(&program, &[false, true, false, false]).moves,
            [program.moves[1].clone(), program.moves[3].clone()]
        );
        assert_eq!(without(&program, &[true, false, false, false]).moves, [program.moves[0].clone()]);
    }
}
