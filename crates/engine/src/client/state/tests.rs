use super::{At, MOVES, Phase, Running, check};

/// The table as text, one move a line.
fn rendered() -> String {
    let names = |all: &[At]| all.iter().map(|at| format!("{at:?}")).collect::<Vec<_>>().join(" | ");
    MOVES.iter().map(|it| format!("{}: {} -> {}\n", it.by, names(it.from), names(it.to))).collect()
}

#[test]
fn the_table_of_moves_is_as_written_down() {
    let (now, written) = (rendered(), include_str!("moves.txt"));
    assert_eq!(now, written, "\nmoves.txt has to be:\n{now}");
}

#[test]
fn no_function_has_two_lines_and_no_phase_is_a_dead_end() {
    for (place, it) in MOVES.iter().enumerate() {
        assert!(MOVES[..place].iter().all(|before| before.by != it.by), "{} is there twice", it.by);
        for reached in it.to {
            assert!(MOVES.iter().any(|next| next.from.contains(reached)), "nothing leads out of {reached:?}");
        }
    }
}

#[test]
fn a_move_that_is_in_the_table_passes() {
    check("run", &Phase::Queued, &Phase::Running(Running::OnServer));
}

#[test]
#[should_panic(expected = "a client must not `run` from Idle to OnServer")]
fn a_statement_cannot_begin_without_its_turn() {
    check("run", &Phase::Idle, &Phase::Running(Running::OnServer));
}

#[test]
#[should_panic(expected = "a client must not `cancel` from OnServer to Idle")]
fn what_the_server_has_is_not_cancelled_here() {
    check("cancel", &Phase::Running(Running::OnServer), &Phase::Idle);
}
