use std::time::Duration;

use seam::Instant;

use super::*;
use crate::accounts::secret::Secret;

fn account(user: &str, host: &str) -> Account {
    Account::of_test(user, host, Credential::Empty)
}

#[test]
fn whoever_logs_in_with_other_rights_is_another() {
    let with_rights = |rights: &[u8]| Account { rights: rights.to_vec(), ..account("app", "%") };
    let hold = |identities: &mut Identities, rights: &[u8], secret: &[u8]| {
        identities.hold(&Arc::new(with_rights(rights)), b"app", Secret::of(secret))
    };
    let mut identities = Identities::default();
    let first = hold(&mut identities, b"1", b"one");
    identities.compare(&Accounts::new(vec![with_rights(b"1")], ServerKind::MySql));
    assert_eq!(hold(&mut identities, b"1", b"one"), first);
    assert!(!identities.is_former(first.id()));
    identities.compare(&Accounts::new(vec![with_rights(b"2")], ServerKind::MySql));
    assert!(identities.is_former(first.id()));
    let second = hold(&mut identities, b"2", b"two");
    assert_ne!(second, first);
    assert!(
        identities.identity(first.id()).secret == Secret::of(b"two"),
        "new backends of both need the latest"
    );
    identities.compare(&Accounts::new(Vec::new(), ServerKind::MySql));
    let third = hold(&mut identities, b"2", b"two");
    assert!(third != first && third != second, "an account that was dropped and made again");
    assert_eq!(identities.holders(first.id()), 2);
}

#[test]
fn one_of_many_comes_and_goes_without_a_look_at_all_others() {
    let mut identities = Identities::default();
    let secret = || Secret::of(b"secret");
    let many: Vec<_> = (0..10_000)
        .map(|number| {
            identities.hold(&Arc::new(account("customer", &number.to_string())), b"customer", secret())
        })
        .collect();
    let before = steps::taken();
    let app = Arc::new(account("app", "%"));
    let held = identities.hold(&app, b"app", secret());
    identities.renew(&Proved { identity: app.identity_key(b"app"), secret: Secret::of(b"another") });
    assert!(identities.secret_of(b"app", &app) == Some(&Secret::of(b"another")));
    assert!(identities.release(held).is_some());
    assert!(identities.secret_of(b"app", &app).is_none());
    assert!(steps::taken() - before < 10, "not one identity after the other");
    assert!(many.into_iter().all(|id| identities.release(id).is_some()));
    assert!(identities.holder_counts().is_empty());
}

#[test]
fn an_account_that_is_full_is_asked_for_again_by_one_attempt_after_growing_pauses() {
    let (mut identities, mut now) = (Identities::default(), Instant::START);
    let held = identities.hold(&Arc::new(account("app", "%")), b"app", Secret::of(b"secret"));
    let id = held.id();
    assert!(!identities.was_full(id));
    assert!(identities.takes_no_more(id, now, false));
    assert!(!identities.takes_no_more(id, now, false), "another attempt that was under way");
    let mut pauses = Vec::new();
    for _ in 0..4 {
        assert_eq!(identities.opens_at_a_time(id), 1);
        let until = identities.refused_until(id).unwrap();
        pauses.push(until.since(now).as_secs());
        now = until;
        assert!(!identities.takes_no_more(id, now, false));
    }
    assert_eq!(pauses, [1, 2, 2, 2]);
    // One of them ends.
    identities.one_has_ended(id, now);
    assert_eq!(identities.refused_until(id), Some(now + Duration::from_millis(5)));
    now = now + Duration::from_millis(5);
    // The server may not have noticed yet, and nobody says when it has.
    assert!(!identities.takes_no_more(id, now, false) && !identities.has_no_room(id, now));
    assert_eq!(identities.refused_until(id), Some(now + Duration::from_millis(20)));
    // One more is let in, and the next is not.
    identities.has_one_more(id, now);
    now = now + Duration::from_millis(5);
    assert!(!identities.takes_no_more(id, now, false) && identities.has_no_room(id, now));
    assert_eq!(identities.refused_until(id), Some(now + Duration::from_secs(1)));
    // Where they are counted there is nothing to notice.
    identities.room_comes(id, now);
    now = now + Duration::from_millis(5);
    assert!(!identities.takes_no_more(id, now, true) && identities.has_no_room(id, now));
    assert_eq!(identities.refused_until(id), Some(now + Duration::from_secs(1)));
}

#[test]
fn an_account_that_has_room_again_opens_more_and_more_at_a_time() {
    let (mut identities, now) = (Identities::default(), Instant::START);
    let held = identities.hold(&Arc::new(account("app", "%")), b"app", Secret::of(b"secret"));
    let id = held.id();
    identities.takes_no_more(id, now, false);
    let mut at_a_time = Vec::new();
    while identities.was_full(id) {
        at_a_time.push(identities.opens_at_a_time(id));
        (0..at_a_time[at_a_time.len() - 1]).for_each(|_| identities.has_one_more(id, now));
    }
    assert_eq!(at_a_time, [1, 1, 2, 4, 8]);
    assert!(identities.refused_until(id).is_none());
    identities.takes_no_more(id, now, false);
    (0..3).for_each(|_| identities.has_one_more(id, now));
    assert_eq!(identities.opens_at_a_time(id), 3);
    identities.takes_no_more(id, now, false);
    assert_eq!(identities.opens_at_a_time(id), 1, "it has said so again");
}

#[test]
fn accounts_are_found_by_their_whole_names() {
    let names =
        [("app", "%"), ("web", "%"), ("app", "10.0.0.%"), ("", "%"), ("app", "localhost"), ("", "10.0.0.1")];
    for server in [ServerKind::MariaDb, ServerKind::MySql] {
        let accounts = Accounts::new(names.iter().map(|(user, host)| account(user, host)).collect(), server);
        for (user, host) in names {
            let found = accounts.named(user.as_bytes(), host).map(|account| account.name());
            assert_eq!(found, Some((user.as_bytes(), host)));
        }
        for (user, host) in [("web", "localhost"), ("app", "10.0.0.1"), ("ap", "%"), ("apps", "%"), ("", "")]
        {
            assert!(accounts.named(user.as_bytes(), host).is_none(), "{user}@{host}");
        }
    }
    assert!(Accounts::default().named(b"app", "%").is_none());
}

#[test]
fn the_first_account_that_matches_is_found_among_many_by_its_name() {
    let peer = Peer::Tcp(([10, 0, 0, 1], 1).into());
    for server in [ServerKind::MariaDb, ServerKind::MySql] {
        let many = (0..10_000).map(|number| account(&format!("customer{number}"), "%"));
        let few = [("app", "%"), ("app", "10.0.0.1"), ("app", "10.0.0.%"), ("", "10.0.0.1"), ("web", "%")];
        let few = few.map(|(user, host)| account(user, host));
        let accounts = Accounts::new(many.chain(few).collect(), server);
        let walk = |user: &[u8]| {
            let is_it = |account: &&Arc<Account>| {
                (account.user == user || account.user.is_empty())
                    && host_matches(&account.host, &peer, true, server)
            };
            accounts.sorted.iter().find(is_it).map(|account| account.name())
        };
        for user in ["app", "web", "customer0", "customer9999", "nobody", ""] {
            let user = user.as_bytes();
            let before = steps::taken();
            let found = accounts.find(user, &peer, true).map(|account| account.name());
            assert!(steps::taken() - before < 10, "not one account after the other");
            assert_eq!(found, walk(user), "{server:?}");
        }
    }
    assert!(Accounts::default().find(b"app", &peer, true).is_none());
}

#[test]
fn nobodys_password_takes_as_many_rounds_as_most() {
    let of = |rounds: &str, count: usize| {
        let stored = NOBODY.to_vec();
        let stored = [&stored[..3], rounds.as_bytes(), &stored[6..]].concat();
        vec![Account::of_test("u", "%", Credential::CachingSha2(stored)); count]
    };
    let accounts = |accounts: Vec<Account>| Accounts::new(accounts, ServerKind::MySql).nobody().to_vec();
    assert_eq!(accounts(Vec::new()), NOBODY);
    assert_eq!(accounts(vec![account("app", "%")]), NOBODY);
    let mixed = accounts([of("005", 1), of("00A", 2), of("xyz", 3)].concat());
    assert_eq!(&mixed[..7], b"$A$00A$");
    assert!(sha2_password::Stored::parse(&mixed).is_some());
}

#[test]
fn public_keys_are_read() {
    // What MariaDB's manual shows for the password "secret".
    let stored = b"ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
    let Credential::Ed25519(key) = Credential::new(b"ed25519", stored) else { panic!("no key") };
    assert_eq!((key[0], key[31]), (0x64, 0x96));
    for wrong in [&stored[..42], b"", b"ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJ!"] {
        assert_eq!(Credential::new(b"ed25519", wrong), Credential::Unmatchable);
    }
}

#[test]
fn stored_strings_become_credentials() {
    assert_eq!(Credential::new(b"mysql_native_password", b""), Credential::Empty);
    assert_eq!(Credential::new(b"mysql_native_password", b"invalid"), Credential::Unmatchable);
    assert_eq!(Credential::new(b"dialog", b""), Credential::Other(b"dialog".to_vec()));
    let stored = b"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"; // PASSWORD('password')
    let stage2 = wire::native_password::stage2(&wire::native_password::stage1(b"password"));
    assert_eq!(Credential::new(b"", stored), Credential::Native(stage2));
}

#[test]
fn a_refused_password_makes_way_for_the_one_before_it_once() {
    let account = Arc::new(Account::of_test("app", "%", Credential::Empty));
    let mut identities = Identities::default();
    let held = identities.hold(&account, b"app", Secret::of(b"new"));
    let id = held.id();
    identities.renew(&Proved { identity: account.identity_key(b"app"), secret: Secret::of(b"old") });
    assert!(identities.go_back(id));
    assert!(identities.identity(id).secret == Secret::of(b"new"));
    assert!(!identities.go_back(id));
}
