use super::*;
use crate::scheduling::learned::waiting::{FOR_A_PERMIT, WHOLE};

fn two_workers(permits: u32) -> Arc<Workers> {
    Workers::new(&Settings { permits, max_backends: 2, max_connections: 2, ..Settings::default() }, 2)
}

#[test]
fn a_permit_is_left_to_a_statement_that_has_waited_much_longer() {
    let workers = two_workers(1);
    let (old, young) = (QueuePlace::low(10), QueuePlace::low(10 + workers.slack() + 1));
    assert!(workers.take_permit(0, young, Extra::None));
    assert!(!workers.take_permit(1, old, Extra::None));
    workers.want(1, Some(old));
    workers.give_permit(0);
    assert_eq!(workers.next_to_wake(0), Some(1));
    assert_eq!(workers.next_to_wake(0), None, "once is enough");
    assert!(!workers.take_permit(0, young, Extra::None), "it is promised");
    assert!(workers.take_permit(0, QueuePlace::low(10 + workers.slack()), Extra::None), "about as old");
    workers.give_permit(0);
    let high = QueuePlace::high(u64::from(u32::MAX));
    assert!(workers.take_permit(0, high, Extra::None), "the high queue goes first");
    workers.give_permit(0);
    workers.awake(1);
    assert!(workers.take_permit(1, old, Extra::None));
    workers.want(1, None);
    assert!(!workers.others_want(0));
    assert_eq!(workers.running(), 1);
}

/// How many statements start that leave as much of their permits as any may.
fn starts_of_waiting_ones(max_backends: u32, permits_max: u32) -> u32 {
    let settings = Settings { permits: 0, permits_max, max_backends, ..Settings::default() };
    let workers = Workers::new(&settings, 1);
    let part = WHOLE - WHOLE / FOR_A_PERMIT;
    let started = (0..10_000).take_while(|&arrival| {
        let starts = workers.take_permit(0, QueuePlace::low(arrival), Extra::None);
        if starts {
            workers.spare(part);
        }
        starts
    });
    let started = u32::try_from(started.count()).unwrap();
    assert_eq!((workers.running(), workers.spared(), workers.free_permits()), (started, started * part, 0));
    (0..started).for_each(|_| workers.give_permit(part));
    assert_eq!((workers.running(), workers.spared(), workers.free_permits()), (0, 0, workers.permits()));
    started
}

#[test]
fn however_little_statements_count_there_is_a_bound() {
    let most = 16 * FOR_A_PERMIT;
    assert!((most - FOR_A_PERMIT..=most).contains(&starts_of_waiting_ones(1_000, 0)));
    assert_eq!(starts_of_waiting_ones(40, 0), 35, "some backends are left");
    assert_eq!(starts_of_waiting_ones(1_000, 20), 20, "permits_max is of statements");
}

#[test]
fn max_connections_holds_for_all_together() {
    let workers = two_workers(1);
    assert!(workers.take_client() && workers.take_client() && !workers.take_client());
    workers.give_client();
    assert!(workers.take_client());
}

#[test]
fn idle_workers_leave_their_share_of_shared_backends() {
    let workers = two_workers(1);
    assert_eq!(workers.shared_backends(0), 4);
    workers.shares(1, 1);
    assert_eq!(workers.shared_backends(0), 3);
    workers.shares(1, 4);
    assert_eq!(workers.shared_backends(0), 2);
}
