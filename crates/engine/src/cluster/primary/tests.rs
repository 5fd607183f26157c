use std::time::Duration;

use super::*;
use crate::cluster::standing::Checked;
use crate::cluster::switchover::Switching;
use crate::cluster::testing::{address, at, member, of_group, two_servers, writes};

fn two() -> (Cluster, Settings) {
    let settings = two_servers();
    (Cluster::new(&settings, 0), settings)
}

fn seen(cluster: &mut Cluster, at: Instant, place: usize, writable: bool) {
    cluster.seen(at, place, writes(place, writable));
}

#[test]
fn a_change_is_told_to_all_and_remembered_with_what_it_has_cost() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen(&mut cluster, at(1), 0, true);
    assert_eq!(cluster.choose_confirmed(at(1), &chosen, &settings), None, "the other one has not been asked");
    seen(&mut cluster, at(1), 1, false);
    let found = cluster.choose_confirmed(at(1), &chosen, &settings);
    assert_eq!(
        found,
        Some(Event::PrimaryFound { address: address(1), former: None, behind: Behind::Unknown })
    );
    assert_eq!((chosen.get().place, cluster.failovers.iter(&chosen).count()), (Some(0), 0));
    cluster.choose_confirmed(at(2), &chosen, &settings);
    // Lost with the server, before a check has found out.
    chosen.tally.unknown();
    seen(&mut cluster, at(3), 0, false);
    let news = cluster.choose_confirmed(at(3), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
    assert_eq!(chosen.get().place, None);
    assert_eq!(cluster.choose_confirmed(at(4), &chosen, &settings), None, "once is enough");
    seen(&mut cluster, at(5), 1, true);
    let found = cluster.choose_confirmed(at(5), &chosen, &settings);
    assert_eq!(
        found,
        Some(Event::PrimaryFound { address: address(2), former: Some(address(1)), behind: Behind::Unknown })
    );
    let (failover, counts) = cluster.failovers.iter(&chosen).next().expect("it is remembered");
    assert_eq!((failover.from, failover.to, failover.ended), (0, Some(1), Some(at(5))));
    assert_eq!(counts.unknown, 1);
}

#[test]
fn one_that_is_away_is_not_said_to_be_read_only() {
    let mut settings = two_servers();
    // The host of the other one has not been found.
    settings.server.truncate(1);
    let mut cluster = Cluster::new(&settings, 0);
    cluster.seen(at(1), 0, ServerVerdict::unreached("connection refused"));
    let Some(Event::NoPrimary { reason }) = cluster.choose_confirmed(at(1), &Chosen::default(), &settings)
    else {
        panic!("there is none");
    };
    assert_eq!(reason, "no server is up and takes writes");
}

/// Takes in a check with a position as MariaDB writes it.
fn seen_with(cluster: &mut Cluster, at: Instant, place: usize, writable: bool, number: u32) {
    let position = format!("0-1-{number}");
    cluster.seen(at, place, ServerVerdict { position, ..writes(place, writable) });
}

/// The server may be back with less than it has said, and read-only.
#[test]
fn one_that_was_lost_since_it_was_asked_is_not_turned_to() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen_with(&mut cluster, at(1), 0, true, 10);
    seen_with(&mut cluster, at(1), 1, false, 10);
    cluster.choose_confirmed(at(1), &chosen, &settings);
    // Two that take writes are none.
    seen_with(&mut cluster, at(2), 1, true, 12);
    cluster.choose_confirmed(at(2), &chosen, &settings);
    let mut lost = |at: Instant| {
        cluster.seen(at, 1, ServerVerdict::unreached("connection refused"));
        seen_with(&mut cluster, at, 0, false, 10);
        cluster.choose_confirmed(at, &chosen, &settings)
    };
    let Some(Event::NoPrimary { reason }) = lost(at(3)) else { panic!("it does not answer") };
    assert!(reason.contains("took writes when it was asked last"), "{reason}");
    assert_eq!(chosen.get().place, None);
    seen_with(&mut cluster, at(4), 1, true, 12);
    cluster.standings[1].cut_off();
    assert!(cluster.choose_confirmed(at(4), &chosen, &settings).is_none() && chosen.get().place.is_none());
    seen_with(&mut cluster, at(5), 1, true, 12);
    cluster.choose_confirmed(at(5), &chosen, &settings);
    assert_eq!(chosen.get().place, Some(1));
    // It is the present one: one failed check is no failure.
    cluster.seen(at(6), 1, ServerVerdict::unreached("connection refused"));
    assert!(cluster.choose_confirmed(at(6), &chosen, &settings).is_none() && chosen.get().place == Some(1));
}

#[test]
fn a_new_primary_that_lacks_something_is_held_until_it_has_it_or_may_lack_it() {
    let (mut cluster, mut settings) = two();
    let chosen = Chosen::default();
    seen_with(&mut cluster, at(1), 0, true, 10);
    seen_with(&mut cluster, at(1), 1, false, 9);
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    seen_with(&mut cluster, at(2), 0, true, 12);
    seen_with(&mut cluster, at(3), 0, true, 13);
    seen(&mut cluster, at(4), 0, false);
    // What it had for a while counts, and not what was on its way.
    seen_with(&mut cluster, at(5), 1, true, 11);
    let news = cluster.choose_confirmed(at(5), &chosen, &settings);
    let Some(Event::NoPrimary { reason }) = news else { panic!("{news:?}") };
    assert!(reason.contains("lacks") && reason.contains("0-1-12"), "{reason}");
    assert!(reason.contains("failover_behind") && cluster.reason_of(1, &settings.server).contains("0-1-12"));
    assert_eq!(chosen.get().place, None);
    assert_eq!(cluster.choose_confirmed(at(5), &chosen, &settings), None, "once is enough");
    let mut caught_up = cluster;
    let another = Chosen::default();
    seen_with(&mut caught_up, at(6), 1, true, 12);
    let found = caught_up.choose_confirmed(at(6), &another, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { behind: Behind::Nothing, .. })), "{found:?}");
    assert!(!caught_up.reason_of(1, &settings.server).contains("lacks"));
    seen_with(&mut caught_up, at(7), 0, true, 5);
    seen(&mut caught_up, at(7), 1, false);
    assert!(caught_up.choose_confirmed(at(7), &another, &settings).is_some());
    settings.cluster.takes_behind = true;
    let found = caught_up.choose_confirmed(at(8), &another, &settings);
    let lacks = Behind::Lacks(String::from("0-1-6 to 12"));
    assert!(matches!(&found, Some(Event::PrimaryFound { behind, .. }) if *behind == lacks), "{found:?}");
    let (failover, _) = caught_up.failovers.iter(&another).next().expect("it is remembered");
    assert_eq!(failover.behind, lacks);
}

#[test]
fn the_same_server_comes_back_with_whatever_it_has() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen_with(&mut cluster, at(1), 0, true, 10);
    seen_with(&mut cluster, at(1), 1, false, 10);
    cluster.choose_confirmed(at(1), &chosen, &settings);
    seen(&mut cluster, at(2), 0, false);
    assert!(cluster.choose_confirmed(at(2), &chosen, &settings).is_some());
    seen_with(&mut cluster, at(3), 0, true, 8);
    let found = cluster.choose_confirmed(at(3), &chosen, &settings);
    // That is told.
    let lost = Behind::Lacks(String::from("0-1-9 to 10"));
    let found = found.expect("there is one");
    assert!(
        matches!(&found, Event::PrimaryFound { former: None, behind, .. } if *behind == lost),
        "{found:?}"
    );
    assert!(found.to_string().contains("no more of what it was known to have: 0-1-9 to 10"), "{found}");
    let (failover, _) = cluster.failovers.iter(&chosen).next().expect("it is remembered");
    assert_eq!(failover.behind, lost);
    // It is in use: what it has now is what another one has to have.
    assert_eq!(cluster.choose_confirmed(at(3), &chosen, &settings), None);
    seen(&mut cluster, at(4), 0, false);
    seen_with(&mut cluster, at(4), 1, true, 8);
    let found = cluster.choose_confirmed(at(4), &chosen, &settings);
    assert!(matches!(found, Some(Event::PrimaryFound { behind: Behind::Nothing, .. })), "{found:?}");
}

/// The GTIDs that the server had before would do for all that it has written since.
#[test]
fn what_was_written_without_gtids_is_not_taken_for_there() {
    let of_mysql = |place: usize, is_writable, last: u32, writes_without_gtids| ServerVerdict {
        position: format!("3e11fa47-71ca-11e1-9e33-c80aa9429501:1-{last}"),
        writes_without_gtids,
        ..writes(place, is_writable)
    };
    for (is_ended, wanted) in [(false, Behind::Nothing), (true, Behind::Unknown)] {
        let (mut cluster, settings) = two();
        let chosen = Chosen::default();
        cluster.seen(at(1), 0, of_mysql(0, true, 10, false));
        // What it has got it has, whatever the mode says of its own.
        cluster.seen(at(1), 1, of_mysql(1, false, 10, true));
        assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
        cluster.seen(at(2), 0, of_mysql(0, true, 10, is_ended));
        seen(&mut cluster, at(3), 0, false);
        cluster.seen(at(4), 1, of_mysql(1, true, 10, true));
        let found = cluster.choose_confirmed(at(4), &chosen, &settings);
        assert!(matches!(&found, Some(Event::PrimaryFound { behind, .. }) if *behind == wanted), "{found:?}");
    }
}

/// The transactions before that were written with GTIDs, and are known.
#[test]
fn a_server_that_comes_back_without_gtids_is_told_what_it_has_lost() {
    let of_mysql = |place: usize, is_writable, last: u32, writes_without_gtids| ServerVerdict {
        position: format!("3e11fa47-71ca-11e1-9e33-c80aa9429501:1-{last}"),
        writes_without_gtids,
        ..writes(place, is_writable)
    };
    let lost = |from: u32| Behind::Lacks(format!("3e11fa47-71ca-11e1-9e33-c80aa9429501:{from}-10"));
    for seen_before in [false, true] {
        let (mut cluster, settings) = two();
        let chosen = Chosen::default();
        cluster.seen(at(1), 0, of_mysql(0, true, 10, false));
        cluster.seen(at(1), 1, of_mysql(1, false, 9, false));
        assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
        seen(&mut cluster, at(2), 0, false);
        assert!(cluster.choose_confirmed(at(2), &chosen, &settings).is_some());
        if seen_before {
            cluster.seen(at(3), 0, of_mysql(0, false, 8, false));
        }
        cluster.seen(at(4), 0, of_mysql(0, true, 8, true));
        let found = cluster.choose_confirmed(at(4), &chosen, &settings);
        let is_told = matches!(&found, Some(Event::PrimaryFound { behind, .. }) if *behind == lost(9));
        assert!(is_told, "{found:?}");
    }
    // One that is made anew, as a replica of the other, takes nothing from what was acknowledged.
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    cluster.seen(at(1), 0, of_mysql(0, true, 10, false));
    cluster.seen(at(1), 1, of_mysql(1, false, 8, false));
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    seen(&mut cluster, at(2), 0, false);
    cluster.seen(at(3), 1, of_mysql(1, true, 8, false));
    cluster.seen(at(3), 0, of_mysql(0, false, 8, true));
    let news = cluster.choose_confirmed(at(3), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
    assert_eq!(chosen.get().place, None);
}

/// An operator who has made the server anew may not have known which transactions only it had, and Onramp least of all.
#[test]
fn a_former_primary_that_is_made_anew_takes_nothing_from_what_was_acknowledged() {
    let held = || {
        let (mut cluster, settings) = two();
        let chosen = Chosen::default();
        seen_with(&mut cluster, at(1), 0, true, 10);
        seen_with(&mut cluster, at(1), 1, false, 9);
        assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
        (2..4).for_each(|second| seen_with(&mut cluster, at(second), 0, true, 12));
        seen(&mut cluster, at(4), 0, false);
        seen_with(&mut cluster, at(4), 1, true, 11);
        let news = cluster.choose_confirmed(at(4), &chosen, &settings);
        assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
        (cluster, settings, chosen)
    };
    let copy = |identity: &str, is_writable| ServerVerdict {
        position: String::from("0-1-11"),
        identity: String::from(identity),
        ..writes(0, is_writable)
    };
    // As a replica of the new one, with its own name or another one.
    for identity in ["0", "another"] {
        let (mut cluster, mut settings, chosen) = held();
        (5..8).for_each(|second| cluster.seen(at(second), 0, copy(identity, false)));
        assert_eq!(cluster.choose_confirmed(at(8), &chosen, &settings), None);
        assert_eq!(chosen.get().place, None);
        assert!(cluster.reason_of(1, &settings.server).contains("lacks of"));
        let own = cluster.reason_of(0, &settings.server);
        assert_eq!(own.contains("has no more of what"), identity == "0", "{own}");
        settings.cluster.takes_behind = true;
        let found = cluster.choose_confirmed(at(8), &chosen, &settings);
        let lacks = Behind::Lacks(String::from("0-1-12"));
        assert!(matches!(&found, Some(Event::PrimaryFound { behind, .. }) if *behind == lacks), "{found:?}");
    }
    // Another server at its address, which takes writes.
    let (mut cluster, settings, chosen) = held();
    seen_with(&mut cluster, at(5), 1, false, 11);
    (5..8).for_each(|second| cluster.seen(at(second), 0, copy("another", true)));
    let news = cluster.choose_confirmed(at(8), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
}

/// Two names of one server that is read-only: it is not asked twice which of them is the primary.
#[test]
fn one_server_by_several_addresses_is_said_to_be_one() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    for place in 0..2 {
        cluster.seen(at(1), place, writes(0, false));
    }
    let news = cluster.choose_confirmed(at(1), &chosen, &settings);
    let Some(Event::NoPrimary { reason }) = news else { panic!("{news:?}") };
    assert!(reason.contains("lead to one server") && reason.contains("give backend once"), "{reason}");
    assert!(cluster.reason_of(1, &settings.server).starts_with("the same server as 127.0.0.1:1; "));
    assert!(!cluster.reason_of(0, &settings.server).contains("same"));
    // As far as is known.
    let (mut cluster, settings) = two();
    cluster.seen(at(1), 0, writes(0, false));
    cluster.seen(at(1), 1, ServerVerdict::unreached(""));
    let news = cluster.choose_confirmed(at(1), &Chosen::default(), &settings);
    let Some(Event::NoPrimary { reason }) = news else { panic!("{news:?}") };
    assert_eq!(reason, "no server is up and takes writes");
}

/// Another node of the Galera has the lowest place, and is behind the one that writes: nobody waits until it has caught up.
#[test]
fn the_writer_stays_as_long_as_the_next_one_lacks_something() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    let node = |place, index, number: u32| ServerVerdict {
        position: format!("{}-0:1-{number}", "6b9c0a0e"),
        ..member(place, index)
    };
    cluster.seen(at(1), 0, node(0, 0, 10));
    cluster.seen(at(1), 1, node(1, 1, 10));
    assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
    // What it has had for a check's interval counts.
    (2..4).for_each(|second| cluster.seen(at(second), 0, node(0, 0, 100)));
    for second in 4..100 {
        cluster.seen(at(second), 0, node(0, 1, 100));
        cluster.seen(at(second), 1, node(1, 0, 99));
        assert_eq!(cluster.choose_confirmed(at(second), &chosen, &settings), None);
    }
    assert_eq!(chosen.get().place, Some(0));
    assert!(cluster.reason_of(1, &settings.server).contains("it lacks of"));
    cluster.seen(at(100), 1, node(1, 0, 100));
    assert!(cluster.choose_confirmed(at(100), &chosen, &settings).is_some());
    assert_eq!(chosen.get().place, Some(1));
}

#[test]
fn two_that_take_writes_end_the_choice() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen(&mut cluster, at(1), 0, true);
    seen(&mut cluster, at(1), 1, false);
    cluster.choose_confirmed(at(1), &chosen, &settings);
    seen(&mut cluster, at(2), 1, true);
    let news = cluster.choose_confirmed(at(2), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
    assert_eq!(chosen.get().place, None);
    assert!(chosen.may_end(), "the former one is up");
    assert!(chosen.why().contains("take writes"), "{}", chosen.why());
}

/// The doubt ends when a check that began later has found the server to take writes after all, or not to.
#[test]
fn a_doubt_changes_nothing_before_the_server_has_been_asked_again() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen(&mut cluster, at(1), 0, true);
    seen(&mut cluster, at(1), 1, false);
    cluster.choose_confirmed(at(1), &chosen, &settings);
    let first = chosen.get();
    let ask = |cluster: &mut Cluster, seconds, writable| {
        assert!(chosen.doubt(first));
        assert_eq!(cluster.choose_confirmed(at(seconds), &chosen, &settings), None);
        // A check that began before it says nothing.
        seen(cluster, at(seconds - 1), 0, true);
        assert_eq!(cluster.choose_confirmed(at(seconds), &chosen, &settings), None);
        assert!(chosen.is_in_doubt(first) && chosen.get() == first);
        // Nor does one of another server.
        seen(cluster, at(seconds + 1), 1, false);
        assert_eq!(cluster.choose_confirmed(at(seconds + 1), &chosen, &settings), None);
        assert!(chosen.is_in_doubt(first));
        seen(cluster, at(seconds + 1), 0, writable);
        cluster.choose_confirmed(at(seconds + 1), &chosen, &settings)
    };
    assert_eq!(ask(&mut cluster, 2, true), None);
    assert!(chosen.is_settled(first) && chosen.get() == first);
    assert_eq!(cluster.failovers.iter(&chosen).count(), 0);
    assert!(ask(&mut cluster, 20, false).is_some());
    assert_eq!(chosen.get().place, None);
    assert!(!chosen.is_settled(first));
}

/// The server takes no writes, whatever it says next.
#[test]
fn a_doubt_holds_nothing_up_of_a_server_that_says_itself_that_it_takes_no_writes() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen(&mut cluster, at(1), 0, true);
    seen(&mut cluster, at(1), 1, false);
    cluster.choose_confirmed(at(1), &chosen, &settings);
    let first = chosen.get();
    assert!(chosen.doubt(first));
    assert_eq!(cluster.choose(at(3), &chosen, &settings), None);
    // By a check that had begun before.
    seen(&mut cluster, at(2), 0, false);
    assert!(cluster.choose(at(3), &chosen, &settings).is_some());
    assert_eq!(chosen.get().place, None);
}

/// The other server has said that it takes writes, and does not answer since: it may have been made a copy of a third one by now.
#[test]
fn nobody_is_taken_by_what_it_said_before_that_was_the_choice() {
    let (mut cluster, settings) = two();
    let chosen = Chosen::default();
    seen(&mut cluster, at(1), 0, true);
    seen(&mut cluster, at(1), 1, false);
    assert_eq!((cluster.choose(at(2), &chosen, &settings), chosen.get().place), (None, None));
    seen(&mut cluster, at(2), 0, true);
    assert!(cluster.choose(at(2), &chosen, &settings).is_some() && chosen.get().place == Some(0));
    // Two that take writes are none, and then the other one alone is left.
    seen(&mut cluster, at(3), 1, true);
    assert!(cluster.choose(at(3), &chosen, &settings).is_some());
    seen(&mut cluster, at(5), 0, false);
    assert_eq!(cluster.choose(at(5), &chosen, &settings), None, "that is over in a moment");
    assert!(chosen.why().contains("is asked once more"), "{}", chosen.why());
    // A check that began before says nothing.
    let late = Checked { at: at(6), took: Duration::from_secs(2), verdict: writes(1, true) };
    cluster.asked(1, at(4), late);
    assert_eq!((cluster.choose(at(6), &chosen, &settings), chosen.get().place), (None, None));
    seen(&mut cluster, at(7), 1, false);
    let news = cluster.choose(at(7), &chosen, &settings);
    assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
    // What it was asked for is over with that.
    seen(&mut cluster, at(7), 1, true);
    assert_eq!((cluster.choose(at(8), &chosen, &settings), chosen.get().place), (None, None));
    seen(&mut cluster, at(9), 1, true);
    assert!(cluster.choose(at(9), &chosen, &settings).is_some() && chosen.get().place == Some(1));
}

/// Makes a primary and another server. The first is chosen.
fn with_primary(verdict: impl Fn(usize, bool) -> ServerVerdict) -> (Cluster, Settings, Chosen) {
    let ((mut cluster, settings), chosen) = (two(), Chosen::default());
    cluster.seen(at(1), 0, verdict(0, true));
    cluster.seen(at(1), 1, verdict(1, false));
    cluster.choose_confirmed(at(1), &chosen, &settings);
    assert_eq!(chosen.get().place, Some(0));
    (cluster, settings, chosen)
}

/// Makes nodes of a Galera that have agreed on another writer than the chosen one.
fn with_another_writer() -> (Cluster, Settings, Chosen) {
    let (mut cluster, settings, chosen) = with_primary(|place, is_first| member(place, u32::from(!is_first)));
    cluster.seen(at(2), 1, member(1, 0));
    cluster.seen(at(2), 0, member(0, 1));
    (cluster, settings, chosen)
}

/// The present writer goes on while that is asked.
#[test]
fn the_writer_goes_on_while_the_next_one_is_asked() {
    let (mut cluster, settings, chosen) = with_another_writer();
    let first = chosen.get();
    assert_eq!((cluster.choose(at(3), &chosen, &settings), chosen.get()), (None, first));
    cluster.seen(at(3), 1, member(1, 0));
    assert!(cluster.choose(at(3), &chosen, &settings).is_some() && chosen.get().place == Some(1));
}

/// An operator begins a switchover to the next one before it is asked once more.
#[test]
fn what_the_next_one_said_during_a_switchover_does_not_count() {
    let (mut cluster, settings, chosen) = with_another_writer();
    assert_eq!(cluster.choose(at(3), &chosen, &settings), None, "the next one is asked");
    cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
    assert!(cluster.choose(at(4), &chosen, &settings).is_some());
    cluster.seen(at(5), 1, member(1, 0));
    cluster.switching_ends(at(6));
    cluster.seen(at(7), 0, member(0, 1));
    assert_eq!((cluster.choose(at(8), &chosen, &settings), chosen.get().place), (None, None));
    cluster.seen(at(9), 1, member(1, 0));
    assert!(cluster.choose(at(9), &chosen, &settings).is_some() && chosen.get().place == Some(1));
}

/// The primary's process may be another one by now, which is in no group and takes writes all the same.
#[test]
fn a_primary_of_a_group_gets_nothing_new_between_the_loss_of_its_check_and_its_next_word() {
    let is_refused =
        |cluster: &mut Cluster| cluster.seen(at(2), 0, ServerVerdict::unreached("connection refused"));
    let is_cut_off = |cluster: &mut Cluster| cluster.standings[0].cut_off();
    let losses: [&dyn Fn(&mut Cluster); 2] = [&is_refused, &is_cut_off];
    for lose in losses {
        let (mut cluster, settings, chosen) = with_primary(of_group);
        lose(&mut cluster);
        assert_eq!(cluster.choose(at(2), &chosen, &settings), None, "it is over in a moment");
        assert_eq!(chosen.get().place, None);
        assert!(chosen.transactions_go_on().is_some() && chosen.may_end(), "who is connected goes on");
        assert!(cluster.reason_of(0, &settings.server).contains("it may be out of its group"));
        cluster.seen(at(3), 0, of_group(0, true));
        cluster.choose(at(4), &chosen, &settings);
        assert!(
            chosen.get().place.is_none() && chosen.transactions_go_on().is_some(),
            "it is asked once more"
        );
        cluster.seen(at(4), 0, of_group(0, true));
        assert!(cluster.choose(at(4), &chosen, &settings).is_some());
        assert_eq!(chosen.get().place, Some(0));
        assert!(!cluster.reason_of(0, &settings.server).contains("out of its group"));
        lose(&mut cluster);
        cluster.choose(at(5), &chosen, &settings);
        let offline = ServerVerdict { is_well: false, is_writable: false, ..of_group(0, true) };
        cluster.seen(at(5), 0, offline);
        assert!(cluster.choose(at(5), &chosen, &settings).is_some(), "it says that it is in no group");
        assert!(chosen.transactions_go_on().is_none() && !chosen.may_end());
    }
}

#[test]
fn a_primary_of_a_group_that_is_refused_twice_is_down_and_what_runs_there_has_no_end() {
    let (mut cluster, settings, chosen) = with_primary(of_group);
    for second in 2..4 {
        cluster.seen(at(second), 0, ServerVerdict::unreached("connection refused"));
        cluster.choose(at(second), &chosen, &settings);
    }
    assert!(chosen.get().place.is_none() && chosen.transactions_go_on().is_none() && !chosen.may_end());
    assert_eq!(&*chosen.why(), "no server is up and takes writes");
}

#[test]
fn a_primary_of_no_group_goes_on_between_the_loss_of_its_check_and_its_next_word() {
    let node = |place, is_first: bool| member(place, u32::from(!is_first));
    for verdict in [writes as fn(usize, bool) -> ServerVerdict, node] {
        let (mut cluster, settings, chosen) = with_primary(verdict);
        let first = chosen.get();
        cluster.standings[0].cut_off();
        cluster.choose(at(2), &chosen, &settings);
        cluster.seen(at(2), 0, ServerVerdict::unreached("connection refused"));
        cluster.choose(at(2), &chosen, &settings);
        cluster.seen(at(3), 0, verdict(0, true));
        cluster.choose(at(3), &chosen, &settings);
        assert_eq!(chosen.get(), first);
    }
}

/// A doubt of the same moment waits for the next check. A primary that may be out of its group does not.
#[test]
fn a_primary_of_a_group_that_is_in_doubt_gets_nothing_new_as_its_check_is_lost() {
    let (mut cluster, settings, chosen) = with_primary(of_group);
    assert!(chosen.doubt(chosen.get()));
    cluster.standings[0].cut_off();
    cluster.choose(at(2), &chosen, &settings);
    assert_eq!(chosen.get().place, None);
}

/// The server was started without the plugin. Its group never gets the writes that it takes.
#[test]
fn one_that_has_left_its_group_is_no_primary_as_long_as_others_are_members() {
    let (mut cluster, settings, chosen) = with_primary(of_group);
    cluster.seen(at(2), 0, writes(0, true));
    let Some(Event::NoPrimary { reason }) = cluster.choose_confirmed(at(2), &chosen, &settings) else {
        panic!("it is in no group");
    };
    assert!(reason.contains("is in no group any more"), "{reason}");
    cluster.seen(at(3), 1, of_group(1, true));
    cluster.choose_confirmed(at(3), &chosen, &settings);
    assert_eq!(chosen.get().place, Some(1), "the group has elected it");
    // It has lost its majority for now, and goes on once that is back.
    let without_majority = ServerVerdict { is_well: false, is_writable: false, ..of_group(1, true) };
    cluster.seen(at(4), 1, without_majority.clone());
    cluster.choose_confirmed(at(4), &chosen, &settings);
    assert_eq!(chosen.get().place, None);
    // The group is ended on purpose, or has left out that one, too.
    let mut stopped = without_majority;
    stopped.membership.as_mut().expect("a member").takes_part = false;
    cluster.seen(at(5), 1, stopped);
    cluster.choose_confirmed(at(5), &chosen, &settings);
    assert_eq!(chosen.get().place, Some(0));
    cluster.seen(at(6), 1, writes(1, false));
    cluster.choose_confirmed(at(6), &chosen, &settings);
    assert_eq!(chosen.get().place, Some(0));
}
