use super::*;
use crate::accounts::{Account, Accounts, Credential};

fn accounts(server: ServerKind, names: &[(&str, &str)]) -> Accounts {
    let account = |&(user, host): &(&str, &str)| Account::of_test(user, host, Credential::Empty);
    Accounts::new(names.iter().map(account).collect(), server)
}

fn apps(hosts: &[&str]) -> Accounts {
    accounts(ServerKind::MariaDb, &hosts.iter().map(|&host| ("app", host)).collect::<Vec<_>>())
}

fn tcp(ip: &str) -> Peer {
    Peer::Tcp((ip.parse::<IpAddr>().unwrap(), 1).into())
}

fn found<'a>(accounts: &'a Accounts, user: &str, peer: &Peer) -> &'a str {
    accounts.find(user.as_bytes(), peer, true).map_or("none", |account| &account.host)
}

#[test]
fn the_most_specific_host_wins() {
    let accounts = apps(&["%", "10.%", "10.1.%", "localhost", "10.1.2.3"]);
    assert_eq!(found(&accounts, "app", &tcp("10.1.2.3")), "10.1.2.3");
    assert_eq!(found(&accounts, "app", &tcp("10.1.9.9")), "10.1.%");
    assert_eq!(found(&accounts, "app", &tcp("10.9.9.9")), "10.%");
    assert_eq!(found(&accounts, "app", &tcp("192.0.2.1")), "%");
    assert_eq!(found(&accounts, "app", &tcp("127.0.0.1")), "localhost");
    assert_eq!(found(&accounts, "app", &Peer::Unix { uid: 0 }), "localhost");
    assert_eq!(found(&accounts, "other", &tcp("10.1.2.3")), "none");
}

#[test]
fn without_name_resolution_loopback_is_an_address() {
    let accounts = apps(&["localhost"]);
    assert!(accounts.find(b"app", &tcp("127.0.0.1"), true).is_some());
    assert!(accounts.find(b"app", &tcp("127.0.0.1"), false).is_none());
    assert_eq!(host_name(&tcp("127.0.0.1"), false), "127.0.0.1");
    assert_eq!(host_name(&tcp("127.0.0.1"), true), "localhost");
}

#[test]
fn no_other_loopback_address_is_localhost() {
    let accounts = apps(&["localhost", "%"]);
    for (ip, host) in [("127.0.0.1", "localhost"), ("::1", "localhost"), ("127.0.0.2", "%")] {
        assert_eq!(found(&accounts, "app", &tcp(ip)), host, "{ip}");
    }
    assert_eq!(found(&accounts, "app", &tcp("::ffff:127.0.0.1")), "localhost");
    assert_eq!(host_name(&tcp("127.0.0.2"), true), "127.0.0.2");
}

#[test]
fn an_anonymous_account_on_a_closer_host_shadows_a_named_one() {
    let accounts = accounts(ServerKind::MySql, &[("app", "%"), ("", "localhost")]);
    assert_eq!(found(&accounts, "app", &Peer::Unix { uid: 0 }), "localhost");
}

#[test]
fn networks_and_wildcards() {
    for (host, ip, mariadb, mysql) in [
        ("192.168.1.0/255.255.255.0", "192.168.1.77", true, true),
        ("192.168.1.0/255.255.255.0", "192.168.2.77", false, false),
        ("10.0._.5", "10.0.7.5", true, true),
        ("10.0._.5", "10.0.77.5", false, false),
        ("%", "::ffff:10.0.0.1", true, true),
        ("10.0.0.1", "::ffff:10.0.0.1", true, true),
        // All as MariaDB 10.11 and MySQL 9.7 have them.
        ("127.0.0.0/8", "127.0.0.5", false, true),
        ("127.0.0.0/08", "127.0.0.5", false, true),
        ("127.0.0.4/30", "127.0.0.5", false, true),
        ("127.0.0.5/32", "127.0.0.5", false, true),
        ("127.0.0.5/32", "127.0.0.4", false, false),
        ("127.0.0.5/24", "127.0.0.5", false, false),
        ("127.0.0.0/33", "127.0.0.5", false, false),
        ("127.0.0.0/", "127.0.0.5", false, false),
        ("0.0.0.0/0", "127.0.0.5", false, false),
        ("127.0.0.0/0.0.0.0", "127.0.0.5", false, false),
        ("127.0.0/24", "127.0.0.5", false, false),
        ("::1/128", "::1", false, false),
        ("127.0.0.5 ", "127.0.0.5", false, false),
    ] {
        assert_eq!(host_matches(host, &tcp(ip), false, ServerKind::MariaDb), mariadb, "{host} {ip}");
        assert_eq!(host_matches(host, &tcp(ip), false, ServerKind::MySql), mysql, "{host} {ip}");
    }
    assert!(!host_matches("0.0.0.0/0.0.0.0", &tcp("127.0.0.5"), false, ServerKind::MariaDb));
}

/// The hosts of a user who comes from this address, in the order in which the server takes them.
fn taken(server: ServerKind, ip: &str, hosts: &[&str]) -> Vec<String> {
    let mut left: Vec<_> = hosts.iter().map(|&host| ("t", host)).collect();
    let mut taken = Vec::new();
    while let Some(account) = accounts(server, &left).find(b"t", &tcp(ip), true) {
        left.retain(|&(_, host)| host != account.host);
        taken.push(account.host.clone());
    }
    taken
}

/// The hosts that MariaDB 10.11 took, one after the other, whatever the order in which they were made.
#[test]
fn the_order_of_mariadb() {
    for (ip, hosts) in [
        (
            "127.0.0.5",
            &[
                "127.0.0.5",
                "127.0.0.4/255.255.255.252",
                "127.0.0.0/255.255.255.0",
                "127.0.0.0/255.0.0.0",
                "127.0.0._",
                "127.0.0.%5",
                "127.0.0.5%",
                "%.0.0.5",
                "127.0.%",
                "127.%",
                "_27.%",
                "%.5",
                "%.%",
                "%",
            ][..],
        ),
        (
            "127.0.0.1",
            &[
                "localhost",
                "127.0.0.1",
                "127.0.0.0/255.0.0.0",
                "_ocalhost",
                "localhos_",
                "127.0.0.%",
                "local%",
                "%host",
                "127.%",
                "%",
            ][..],
        ),
        (
            "127.0.0.5",
            &[
                "127.0.0.0/255.255.255.0",
                "127.0.0.0/255.255.0.0",
                "1_7.0.0.5",
                "127._._._",
                "%127.0.0.5",
                "1%7.0.0.5",
                "127.%.%.%",
                "%.0.%",
                "12%",
                "_%",
                "%_",
                "%%",
            ][..],
        ),
        ("::1", &["localhost", "::1", "::_", "local%", "::%", "%1", "%"][..]),
    ] {
        assert_eq!(taken(ServerKind::MariaDb, ip, hosts), hosts);
        let backwards: Vec<_> = hosts.iter().rev().copied().collect();
        assert_eq!(taken(ServerKind::MariaDb, ip, &backwards), hosts);
    }
}

/// The hosts that MySQL 9.7 took, but for patterns that it takes in the order in which they were made.
#[test]
fn the_order_of_mysql() {
    for (ip, hosts) in [
        (
            "127.0.0.5",
            &[
                "127.0.0.5",
                "127.0.0.5/32",
                "127.0.0.4/30",
                "127.0.0.0/24",
                "127.0.0.0/8",
                "127.0.0.4/255.255.255.252",
                "127.0.0.0/255.255.255.0",
                "127.0.0.0/255.0.0.0",
                "127.0.0.%5",
                "127.0.%",
                "127.%",
                "%.0.0.5",
                "%",
            ][..],
        ),
        (
            "127.0.0.1",
            &[
                "127.0.0.1",
                "127.0.0.1/32",
                "127.0.0.0/8",
                "127.0.0.0/255.0.0.0",
                "localhost",
                "localhos_",
                "local%",
                "127.%",
                "_ocalhost",
                "%",
            ][..],
        ),
    ] {
        assert_eq!(taken(ServerKind::MySql, ip, hosts), hosts);
        let backwards: Vec<_> = hosts.iter().rev().copied().collect();
        assert_eq!(taken(ServerKind::MySql, ip, &backwards), hosts);
    }
}

#[test]
fn anonymous_accounts_have_their_place_by_their_hosts() {
    for server in [ServerKind::MariaDb, ServerKind::MySql] {
        let mut left = vec![
            ("t", "%"),
            ("", "127.0.0.5"),
            ("", "%"),
            ("t", "127.%"),
            ("", "127.0.%"),
            ("", "127.0.0.0/255.0.0.0"),
        ];
        let mut taken = Vec::new();
        while let Some(account) = accounts(server, &left).find(b"t", &tcp("127.0.0.5"), true) {
            let found = left
                .iter()
                .position(|&(user, host)| (user.as_bytes(), host) == (&account.user, &account.host));
            taken.push(left.remove(found.expect("one of them")));
        }
        let wanted = [
            ("", "127.0.0.5"),
            ("", "127.0.0.0/255.0.0.0"),
            ("", "127.0.%"),
            ("t", "127.%"),
            ("t", "%"),
            ("", "%"),
        ];
        assert_eq!(taken, wanted);
    }
}

#[test]
fn many_wildcards_take_no_time() {
    let long = [vec![b'%'; 200], b"x".to_vec()].concat();
    assert!(!matches_wildcards(&long, b"192.168.100.200"));
    let mixed = [b"%1".repeat(60), b"x".to_vec()].concat();
    assert!(!matches_wildcards(&mixed, &[b'1'; 45]));
    for (pattern, text, matches) in [
        ("%.0.0.1", "127.0.0.1", true),
        ("1%0%1", "127.0.0.1", true),
        ("1%0%2", "127.0.0.1", false),
        ("127.0.0.1%", "127.0.0.1", true),
        ("127.0.0.1_", "127.0.0.1", false),
        ("%a%ab", "aaab", true),
        (r"a\_b", "a_b", true),
        (r"a\_b", "axb", false),
        ("", "x", false),
    ] {
        assert_eq!(matches_wildcards(pattern.as_bytes(), text.as_bytes()), matches, "{pattern} {text}");
    }
}
