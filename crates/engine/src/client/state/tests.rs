use super::{At, MOVES};
use crate::moves::{check, check_table, rendered};

#[test]
fn the_table_of_moves_is_as_written_down() {
    let (now, written) = (rendered(MOVES), include_str!("moves.txt"));
    assert_eq!(now, written, "\nmoves.txt has to be:\n{now}");
}

#[test]
fn no_function_has_two_lines_and_no_phase_is_a_dead_end() {
    check_table(MOVES, &[]);
}

#[test]
fn a_move_that_is_in_the_table_passes() {
    check(MOVES, "a client", "run", At::Queued, At::OnServer);
}

#[test]
#[should_panic(expected = "a client must not `run` from Idle to OnServer")]
fn a_statement_cannot_begin_without_its_turn() {
    check(MOVES, "a client", "run", At::Idle, At::OnServer);
}

#[test]
#[should_panic(expected = "a client must not `cancel` from OnServer to Idle")]
fn what_the_server_has_is_not_cancelled_here() {
    check(MOVES, "a client", "cancel", At::OnServer, At::Idle);
}
