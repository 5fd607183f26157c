//! Compares how far servers are, by their GTIDs. Pure functions.
//!
//! MariaDB writes `domain-server-number` for the last GTID of each domain. The numbers of a domain only grow. The variables are the last one
//! that a server has written or got (gtid_current_pos), has got (gtid_slave_pos), and has in its binary log from each writer
//! (gtid_binlog_state). MySQL writes sets, `uuid:1-5:7` or with a tag `uuid:tag:1-5` (gtid_executed). A node of Galera has one such
//! range, see [`super::reading`].

use std::collections::BTreeMap;

/// Number of missing ranges that are named: enough to find the rest by.
const NAMED: usize = 4;

/// Numbers from the first to the last.
type Interval = (u64, u64);

/// The part of the former primary's known position that a new one lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    /// The new one lacks nothing.
    Nothing,
    /// The new one lacks these GTIDs, of which the first few are named.
    Lacks(String),
    /// One of both does not say, or they say it in different ways.
    #[default]
    Unknown,
}

/// Says what a server lacks of another one's position, both as the servers write them.
pub fn compare(wanted: &str, own: &str) -> Behind {
    let missing = match (domains(wanted), sets(wanted)) {
        // One that has nothing lacks everything.
        (Some(wanted), _) if !wanted.is_empty() => domains(own).map(|own| lacks_of_domains(&wanted, &own)),
        (_, Some(wanted)) if !wanted.is_empty() => sets(own).map(|own| lacks_of_sets(&wanted, &own)),
        _ => None,
    };
    match missing {
        None => Behind::Unknown,
        Some(missing) if missing.is_empty() => Behind::Nothing,
        Some(missing) => Behind::Lacks(said(&missing)),
    }
}

/// Says whether a replica has all that the primary had. The number of a GTID of MariaDB tells that only where one server has written both. A
/// replica may have got more of the former primary than the present one did. It has the larger number then, and lacks the present one's writes.
pub(crate) fn has_all_of_primary(wanted: &str, own: &str) -> bool {
    let is_of_one_line = match (domains(wanted), domains(own)) {
        (Some(wanted), Some(own)) => {
            let writer = |servers: &Servers| latest(servers).map(|(server, _)| server);
            wanted
                .iter()
                .all(|(domain, servers)| own.get(domain).is_some_and(|own| writer(own) == writer(servers)))
        }
        _ => true,
    };
    is_of_one_line && compare(wanted, own) == Behind::Nothing
}

fn said(missing: &[String]) -> String {
    let mut text = missing[..missing.len().min(NAMED)].join(", ");
    if missing.len() > NAMED {
        text.push_str(&format!(" and {} ranges more", missing.len() - NAMED));
    }
    text
}

/// The servers that have written in a domain, and the last number of each.
type Servers = BTreeMap<u64, u64>;

/// Returns the server that wrote last, and its number.
fn latest(servers: &Servers) -> Option<(u64, u64)> {
    servers.iter().map(|(&server, &number)| (server, number)).max_by_key(|&(_, number)| number)
}

/// Reads a position of MariaDB, by domain. `None` where the text is none.
fn domains(position: &str) -> Option<BTreeMap<u64, Servers>> {
    let of_domain = |gtid: &str| {
        let mut numbers = gtid.split('-').map(|number| number.parse::<u64>().ok());
        let found = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(found)
    };
    let mut found: BTreeMap<u64, Servers> = BTreeMap::new();
    for gtid in position.split(',').filter(|gtid| !gtid.is_empty()) {
        let (domain, server, number) = of_domain(gtid)?;
        let last = found.entry(domain).or_default().entry(server).or_default();
        *last = number.max(*last);
    }
    Some(found)
}

/// Returns the missing GTIDs of a MariaDB. Of each domain the last GTID counts. Where the other server's number for the same writer is known,
/// that tells. Else the numbers of the domain have to do: a larger one by another writer may stand for more than there is.
fn lacks_of_domains(wanted: &BTreeMap<u64, Servers>, own: &BTreeMap<u64, Servers>) -> Vec<String> {
    let lack = |(domain, servers): (&u64, &Servers)| {
        let (server, number) = latest(servers)?;
        let gtid = format!("{domain}-{server}-{number}");
        let Some((other, last)) = own.get(domain).and_then(latest) else {
            return Some(format!("{gtid} and all before it"));
        };
        let of_writer = own[domain].get(&server).copied();
        match of_writer.unwrap_or(last) {
            // Of an equal number by another server it has one of its own in the place of this one.
            last if last == number && of_writer.is_none() => {
                Some(format!("{gtid} (it has {domain}-{other}-{last})"))
            }
            last if number.checked_sub(1) == Some(last) => Some(gtid),
            last if last < number => Some(format!("{domain}-{server}-{} to {number}", last + 1)),
            _ => None,
        }
    };
    wanted.iter().filter_map(lack).collect()
}

/// Reads a position of MySQL: of each id the numbers, in order. `None` where the text is none.
fn sets(position: &str) -> Option<BTreeMap<String, Vec<Interval>>> {
    let mut found: BTreeMap<String, Vec<Interval>> = BTreeMap::new();
    for set in position.split(',').map(str::trim).filter(|set| !set.is_empty()) {
        let (id, parts) = set.split_once(':').filter(|(id, _)| id.contains('-'))?;
        let mut name = String::from(id);
        for part in parts.split(':') {
            match interval(part) {
                Some(interval) => found.entry(name.clone()).or_default().push(interval),
                // A tag, for the numbers behind it.
                None if !part.is_empty() => name = format!("{id}:{part}"),
                None => return None,
            }
        }
    }
    found.values_mut().for_each(|intervals| intervals.sort_unstable());
    Some(found)
}

fn interval(part: &str) -> Option<Interval> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn lacks_of_sets(
    wanted: &BTreeMap<String, Vec<Interval>>,
    own: &BTreeMap<String, Vec<Interval>>,
) -> Vec<String> {
    let nothing = Vec::new();
    let mut missing = Vec::new();
    for (name, intervals) in wanted {
        let present = own.get(name).unwrap_or(&nothing);
        for &interval in intervals {
            let rests = without(interval, present);
            missing.extend(rests.into_iter().map(|(first, last)| match first == last {
                true => format!("{name}:{first}"),
                false => format!("{name}:{first}-{last}"),
            }));
        }
    }
    missing
}

/// Returns the rest of an interval without others, which are in order.
fn without((first, last): Interval, others: &[Interval]) -> Vec<Interval> {
    let (mut rests, mut next) = (Vec::new(), first);
    let begin = others.partition_point(|&(_, to)| to < first);
    for &(from, to) in others[begin..].iter().take_while(|&&(from, _)| from <= last) {
        if from > next {
            rests.push((next, from - 1));
        }
        if to >= last {
            return rests;
        }
        next = next.max(to + 1);
    }
    if next <= last {
        rests.push((next, last));
    }
    rests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(wanted: &str, own: &str) -> String {
        match compare(wanted, own) {
            Behind::Lacks(what) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_mariadb_each_domain_counts_by_its_number() {
        assert_eq!(compare("0-1-17", "0-1-17"), Behind::Nothing);
        assert_eq!(compare("0-1-17,1-1-3", "1-1-3,0-2-20,7-7-7"), Behind::Nothing);
        assert_eq!(lacks("0-1-17", "0-1-12"), "0-1-13 to 17");
        assert_eq!(lacks("0-1-17,1-1-3", "0-1-17"), "1-1-3 and all before it");
        assert_eq!(lacks("0-1-17", "0-2-17"), "0-1-17 (it has 0-2-17)");
        // It was the primary behind the sixteenth, and has written as many by itself.
        assert_eq!(lacks("0-1-17", "0-2-18,0-1-15"), "0-1-16 to 17");
        assert_eq!(lacks("0-1-17,0-9-3", "0-2-17,0-1-16,0-9-3"), "0-1-17");
        assert_eq!(compare("0-1-17,0-9-3", "0-2-18,0-1-17"), Behind::Nothing);
        for both in ["0-1-12,0-99-17", "0-99-17,0-1-12"] {
            assert_eq!(lacks(both, "0-1-16"), "0-99-17");
        }
    }

    #[test]
    fn a_replica_has_what_the_primary_had_by_numbers_of_one_server() {
        assert!(has_all_of_primary("0-1-17,1-1-3", "0-1-18,1-1-3,7-7-7"));
        assert!(!has_all_of_primary("0-2-14", "0-1-17"), "it had got more of the former primary");
        assert!(!has_all_of_primary("0-1-17,1-2-3", "0-1-18,1-1-9") && !has_all_of_primary("0-1-17", ""));
        let id = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        assert!(has_all_of_primary(&format!("{id}:1-5"), &format!("{id}:1-7")));
        assert!(
            !has_all_of_primary(&format!("{id}:1-9"), &format!("{id}:1-7")) && !has_all_of_primary("", "")
        );
    }

    #[test]
    fn of_mysql_each_number_counts() {
        let (a, b) = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563");
        let of = |set: &str| set.replace('A', a).replace('B', b);
        assert_eq!(compare(&of("A:1-5:7"), &of("A:1-9,B:1")), Behind::Nothing);
        assert_eq!(compare(&of("A:1-5:6-7"), &of("A:1-3:4-7")), Behind::Nothing);
        assert_eq!(lacks(&of("A:1-9"), &of("A:2-3:5-7")), of("A:1, A:4, A:8-9"));
        assert_eq!(lacks(&of("A:1-9,B:4"), &of("A:1-9")), of("B:4"));
        assert_eq!(lacks(&of("A:1-9,A:tag:1-4"), &of("A:1-9:tag:1-3")), of("A:tag:4"));
        assert_eq!(lacks(&of("A:1:3:5:7:9:11"), &of("A:2")), of("A:1, A:3, A:5, A:7 and 2 ranges more"));
    }

    #[test]
    fn who_has_nothing_lacks_all_and_what_is_of_another_kind_is_not_compared() {
        let id = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5";
        for (wanted, own) in [("", ""), ("", "0-1-17"), ("0-1-17", id), (id, "0-1-17"), (id, "x-y:z:")] {
            assert_eq!(compare(wanted, own), Behind::Unknown, "{wanted} {own}");
        }
        assert_eq!(lacks("0-1-17", ""), "0-1-17 and all before it");
        assert_eq!((lacks(id, "").as_str(), lacks(id, "5e11fa47-7:1").as_str()), (id, id));
        let largest = format!("u-1:1-{}", u64::MAX);
        assert_eq!(compare(&largest, &largest), Behind::Nothing);
    }
}
