use super::*;

const KEY: ClientKey = ClientKey { client: 1, incarnation: 0 };

fn execution(number: u32, transaction: Option<u64>) -> Execution {
    Execution {
        token: Token { key: KEY, number },
        server: None,
        thread_id: 7,
        sent_at: (0, 0),
        transaction,
        fingerprint: "schema=alpha".to_owned(),
        foreign_state: None,
        harmless: false,
        writes: false,
        commits: false,
    }
}

/// Statements that were sent as the second and ran as the first, all answered.
fn found(runs: &[(Execution, Execution)]) -> Option<String> {
    let mut checkers = Checkers::new(false, false);
    for (ran, expected) in runs {
        checkers.sent(vec![expected.clone()], 0, Promise::Session);
        checkers.executed(ran.clone(), Some(1), false);
        checkers.answered(&[expected.token]);
    }
    checkers.found().map(str::to_owned)
}

#[test]
fn a_transaction_on_one_session_is_right_and_a_split_one_is_not() {
    let right =
        [(execution(1, Some(40)), execution(1, Some(3))), (execution(2, Some(40)), execution(2, Some(3)))];
    assert_eq!(found(&right), None);
    let split =
        [(execution(1, Some(40)), execution(1, Some(3))), (execution(2, Some(41)), execution(2, Some(3)))];
    assert!(found(&split).is_some_and(|text| text.contains("its predecessor")));
}

#[test]
fn another_state_is_found_once_the_answer_has_come() {
    let other = Execution { fingerprint: "schema=beta".to_owned(), ..execution(1, None) };
    assert!(found(&[(other, execution(1, None))]).is_some_and(|text| text.contains("should have run under")));
}

#[test]
fn only_plain_reads_may_run_twice_and_under_the_same_state() {
    let read = Execution { harmless: true, ..execution(1, None) };
    let twice = |first: &Execution, second: &Execution| {
        let mut checkers = Checkers::new(false, false);
        checkers.sent(vec![first.clone()], 0, Promise::Session);
        checkers.executed(first.clone(), Some(1), false);
        checkers.executed(second.clone(), Some(1), false);
        (checkers.found().is_some(), checkers.repeated)
    };
    assert_eq!(twice(&read, &read), (false, 1));
    assert_eq!(twice(&execution(1, None), &execution(1, None)), (true, 0));
    let elsewhere = Execution { fingerprint: "schema=beta".to_owned(), ..read.clone() };
    assert_eq!(twice(&read, &elsewhere), (true, 0));
}

/// What is found where a statement runs on a replica under this state.
fn found_on_replica(ran: Execution) -> Option<String> {
    let mut checkers = Checkers::new(false, false);
    checkers.sent(vec![execution(1, None)], 0, Promise::Session);
    checkers.executed(ran, Some(1), true);
    checkers.answered(&[execution(1, None).token]);
    checkers.found().map(str::to_owned)
}

#[test]
fn on_a_replica_nothing_is_written_and_nothing_could_be() {
    let cannot = "schema=alpha tx_read_only=Some(\"ON\")".to_owned();
    let reads = Execution { fingerprint: cannot, ..execution(1, None) };
    assert_eq!(found_on_replica(reads.clone()), None);
    let says = |ran, what| found_on_replica(ran).is_some_and(|text| text.contains(what));
    assert!(says(Execution { writes: true, ..reads.clone() }, "a write on a replica"));
    assert!(says(Execution { commits: true, ..reads }, "a write on a replica"));
    assert!(says(execution(1, None), "in a session that may write"));
}

#[test]
fn only_reads_of_no_transaction_may_go_to_replicas() {
    let may = |expected: Execution, is_bound| {
        let mut checkers = Checkers::new(false, false);
        checkers.sent(vec![expected], 0, if is_bound { Promise::Primary } else { Promise::Session });
        checkers.may_run_on_replica(execution(1, None).token)
    };
    let read = Execution { harmless: true, ..execution(1, None) };
    assert!(may(read.clone(), false) && !may(read, true) && !may(execution(1, None), false));
    assert!(!Checkers::new(false, false).may_run_on_replica(execution(1, None).token));
}

#[test]
fn a_read_of_a_transaction_may_run_on_a_replica_where_its_client_hears_of_a_rollback_before() {
    let read = execution(1, Some(1));
    let found = |is_answered: bool| {
        let mut checkers = Checkers::new(false, false);
        checkers.sent(vec![read.clone()], 0, Promise::Primary);
        checkers.may_leave_transaction(&[read.token]);
        assert!(checkers.may_run_on_replica(read.token));
        let fingerprint = format!("{} tx_read_only=Some(\"ON\")", read.fingerprint);
        checkers.executed(Execution { fingerprint, ..read.clone() }, None, true);
        if is_answered {
            checkers.answered(&[read.token]);
        }
        checkers.found().map(str::to_owned)
    };
    assert_eq!(found(false), None);
    assert!(found(true).is_some_and(|text| text.contains("was answered by a replica")));
}

#[test]
fn foreign_state_and_unknown_statements_are_found() {
    let mut checkers = Checkers::new(true, false);
    let foreign_state = Some(ClientKey { client: 2, incarnation: 0 });
    checkers.sent(vec![execution(1, None)], 0, Promise::Session);
    checkers.executed(Execution { foreign_state, ..execution(1, None) }, None, false);
    assert!(checkers.found().is_some_and(|text| text.contains("among the state of client 2_0")));
    let mut checkers = Checkers::new(true, false);
    checkers.executed(execution(1, None), None, false);
    assert!(checkers.found().is_some_and(|text| text.contains("never sent")));
}
