use super::*;

/// The range that Linux has unless it is told otherwise.
const DEFAULT: Ports = Ports(28_232);

fn tcp(remote: &str) -> Address {
    Address::Tcp { remote: remote.parse().unwrap(), local: None }
}

fn addresses(list: &[impl AsRef<str>]) -> Vec<IpAddr> {
    list.iter().map(|address| address.as_ref().parse().unwrap()).collect()
}

fn chosen(remotes: &[&str], given: &[&str], connections: u32) -> Result<Vec<IpAddr>, TooFewPorts> {
    let remotes: Vec<_> = remotes.iter().map(|remote| tcp(remote)).collect();
    choose(&remotes, &addresses(given), Demand::standing(connections), DEFAULT)
}

#[test]
fn the_port_range_includes_both_ends() {
    assert_eq!(Ports::between("32768\t60999\n", ""), Some(DEFAULT));
    assert_eq!(Ports::between("60999 32768", ""), None);
    assert_eq!(Ports::between("", ""), None);
}

#[test]
fn reserved_ports_are_none_of_ours() {
    assert_eq!(Ports::between("1000 1999", "1500\n"), Some(Ports(999)));
    assert_eq!(Ports::between("1000 1999", "80,990-1009,1990-3000"), Some(Ports(980)));
    assert_eq!(Ports::between("1000 1999", "1-9999"), Some(Ports(0)));
}

#[test]
fn loopback_gets_as_many_addresses_as_it_takes() {
    let eight = addresses(&[1, 2, 3, 4, 5, 6, 7, 8].map(|last| format!("127.0.0.{last}")));
    // Of 28,232 ports 12,705 are had quickly.
    assert_eq!(chosen(&["127.0.0.1:3306"], &[], 12_705), Ok(vec![]));
    assert_eq!(chosen(&["127.0.0.1:3306"], &[], 12_706), Ok(eight[..2].to_vec()));
    assert_eq!(chosen(&["127.0.0.1:3306"], &[], 100_000), Ok(eight.clone()));
    assert_eq!(chosen(&["127.0.0.1:3306", "127.0.0.9:3306"], &[], 100_000), Ok(eight[..4].to_vec()));
    assert_eq!(chosen(&["127.0.0.1:3306"], &[], 1_000_000).map(|locals| locals.len()), Ok(79));
}

#[test]
fn one_address_does_for_nine_ports_in_ten() {
    assert!(suffices_alone(1, Demand::standing(25_409), DEFAULT));
    assert!(!suffices_alone(1, Demand::standing(25_410), DEFAULT));
    assert!(suffices_alone(2, Demand::standing(50_818), DEFAULT));
}

#[test]
fn given_addresses_stand_where_they_suffice() {
    let three = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    assert_eq!(chosen(&["10.9.9.9:3306"], &three, 3 * 28_232), Ok(addresses(&three)));
    let error = chosen(&["10.9.9.9:3306"], &three, 3 * 28_232 + 1).unwrap_err().to_string();
    assert!(error.contains("84,696 in all") && error.contains("Give 4 addresses"), "{error}");
    // One of the other family makes no pair.
    assert!(chosen(&["10.9.9.9:3306"], &["10.0.0.1", "fe80::1"], 30_000).is_err());
}

#[test]
fn remote_targets_are_not_spread_by_itself() {
    assert_eq!(chosen(&["10.9.9.9:3306"], &[], 28_232), Ok(vec![]));
    let error = chosen(&["10.9.9.9:3306"], &[], 100_000).unwrap_err().to_string();
    for expected in
        ["100,000 connections", "28,232 for each pair", "Give 4 addresses", "--local-address", "sysctl -w"]
    {
        assert!(error.contains(expected), "{expected:?} is not in: {error}");
    }
    assert_eq!(chosen(&["10.9.9.9:3306", "10.9.9.8:3306"], &[], 50_000), Ok(vec![]));
    // There is but one loopback address of this family.
    assert!(chosen(&["[::1]:3306"], &[], 100_000).unwrap_err().to_string().contains("127.0.0.1"));
}

#[test]
fn a_range_that_is_too_small_for_any_number_of_addresses_is_said() {
    let remotes = [tcp("127.0.0.1:3306")];
    let error = choose(&remotes, &[], Demand::standing(1_000_000), Ports(100)).unwrap_err().to_string();
    assert!(error.contains("widen the range"), "{error}");
}

#[test]
fn unix_sockets_have_no_ports() {
    let remotes = [Address::Unix("/run/server".into())];
    assert_eq!(choose(&remotes, &[], Demand::standing(1_000_000), DEFAULT), Ok(vec![]));
}

#[test]
fn closed_connections_hold_their_ports_for_a_while() {
    let reused = TimeWait { seconds: 1.0, most: 131_072 };
    assert_eq!(Demand::reconnecting(1000, None, reused), Demand { connections: 1000, closed: 50_000 });
    assert_eq!(Demand::reconnecting(1000, Some(200.0), reused).closed, 200);
    let kept = TimeWait { seconds: 60.0, ..reused };
    assert_eq!(Demand::reconnecting(1000, Some(200.0), kept).closed, 12_000);
    assert_eq!(Demand::reconnecting(1000, None, kept).closed, 131_072);
    let locals = choose(&[tcp("127.0.0.1:1")], &[], Demand::reconnecting(1000, None, kept), DEFAULT).unwrap();
    assert_eq!(locals.len(), 11);
    // Elsewhere nothing is spread; the system says when ports run out.
    assert_eq!(
        choose(&[tcp("10.0.0.1:1")], &[], Demand::reconnecting(1000, None, kept), DEFAULT),
        Ok(vec![])
    );
}

#[test]
fn the_choice_is_described() {
    let locals = addresses(&["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    assert_eq!(
        describe(Demand::standing(100_000), &locals).unwrap(),
        "100,000 connections come from 4 local addresses: 127.0.0.1 to 127.0.0.4"
    );
    let storm = Demand { connections: 5000, closed: 50_000 };
    assert_eq!(
        describe(storm, &locals[..3]).unwrap(),
        "5,000 connections, which leave up to 50,000 ports in TIME_WAIT, come from 3 local addresses: 127.0.0.1 to 127.0.0.3"
    );
    let two = describe(Demand::standing(30_000), &locals[..2]).unwrap();
    assert_eq!(two, "30,000 connections come from 2 local addresses: 127.0.0.1 and 127.0.0.2");
    assert_eq!(describe(Demand::standing(10), &[]), None);
}

#[test]
fn thousands_are_grouped() {
    let texts = [0, 999, 1000, 12_345, 123_456, 1_234_567].map(grouped);
    assert_eq!(texts, ["0", "999", "1,000", "12,345", "123,456", "1,234,567"]);
}
