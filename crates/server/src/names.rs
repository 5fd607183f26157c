//! Looks the names of servers up again and again: behind a name another address may stand than at the start, as after the failover of a
//! managed server, or where a container has been started anew.
//!
//! A name has as many places in the engine's list of addresses as it had addresses at the start, and one where it had none. An address
//! that the name still leads to keeps its place. The others are taken by new ones, or where there are too few by one that it still leads to,
//! once two look-ups in a row say so: an answer that was there for a moment drives nobody from server to server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use seam::Address;

use crate::Failure;
use crate::addresses::look_up;
use crate::ask::Ask;
use crate::control::Control;

/// A change of the option, and the end of the program, are noticed after so long.
const GLANCE: Duration = Duration::from_secs(1);

/// The host of a server that was given by its name.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    host: String,
    port: u16,
    /// The first of its places in the list of addresses.
    first: usize,
    /// Where it leads to, by its places. `None` where it has led nowhere so far.
    addresses: Vec<Option<SocketAddr>>,
    /// What the last look-up has found, where a place would change by it.
    doubt: Option<BTreeSet<SocketAddr>>,
    /// The last look-up has found nothing.
    is_lost: bool,
}

/// An address that takes the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    place: usize,
    to: SocketAddr,
}

impl Name {
    pub(crate) fn new(host: &str, port: u16, first: usize, addresses: &[SocketAddr]) -> Self {
        let addresses = addresses.iter().copied().map(Some).collect();
        Self { host: String::from(host), port, first, addresses, doubt: None, is_lost: false }
    }

    /// One that leads nowhere so far.
    pub(crate) fn not_found(host: &str, port: u16, place: usize) -> Self {
        Self { addresses: vec![None], is_lost: true, ..Self::new(host, port, place, &[]) }
    }

    /// Takes in what a look-up has found. Returns what changes by it.
    fn take(&mut self, found: &[SocketAddr]) -> Vec<Move> {
        let mut new = found.iter().filter(|&&address| !self.addresses.contains(&Some(address)));
        let mut kept = BTreeSet::new();
        let mut moves = Vec::new();
        for (place, address) in self.addresses.iter().enumerate() {
            let is_gone = address.is_none_or(|address| !found.contains(&address));
            if !is_gone && kept.insert(address) {
                continue;
            }
            // A place that has another one's address is free for a new one.
            if let Some(&to) = new.next().or(found.first().filter(|_| is_gone)) {
                moves.push(Move { place: self.first + place, to });
            }
        }
        let set: BTreeSet<_> = found.iter().copied().collect();
        // Who has been nowhere so far is driven from nowhere.
        let leads_somewhere = self.addresses.iter().any(Option::is_some);
        if moves.is_empty() || !leads_somewhere {
            self.doubt = None;
        } else if self.doubt.as_ref() != Some(&set) {
            self.doubt = Some(set);
            return Vec::new();
        }
        moves
    }

    fn has_moved(&mut self, moved: Move) {
        self.addresses[moved.place - self.first] = Some(moved.to);
    }

    /// Notes whether a look-up has found anything, and says in the log where that has changed.
    fn note(&mut self, error: Option<&Failure>) {
        match (error, self.is_lost) {
            (Some(error), false) => tracing::warn!(
                event = "name_lost",
                "backend: the host {:?} cannot be found any more: {error}; the server is taken to be where it was",
                self.host
            ),
            (None, true) => {
                tracing::info!(event = "name_found", "backend: the host {:?} is found now", self.host);
            }
            _ => {}
        }
        self.is_lost = error.is_some();
        if self.is_lost {
            // The next one that finds something is not the second in a row.
            self.doubt = None;
        }
    }
}

/// Begins to look names up every `backend_lookup_interval`, on a thread of its own: the system may take its time with each.
///
/// # Errors
/// Where there is no thread to be had.
pub(crate) fn watch(mut names: Vec<Name>, control: Arc<Control>) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let run = move || {
        let mut last = Instant::now();
        while !control.is_ending() {
            let interval = control.configuration().lookup_interval;
            let due = last + interval;
            let now = Instant::now();
            if interval.is_zero() || due > now {
                let pause = if interval.is_zero() { GLANCE } else { (due - now).min(GLANCE) };
                thread::sleep(pause);
                continue;
            }
            names.iter_mut().for_each(|name| look_at(name, &control));
            last = Instant::now();
        }
    };
    thread::Builder::new()
        .name(String::from("names"))
        .spawn(run)
        .map(|_| ())
        .map_err(|error| format!("no thread for the names of servers: {error}").into())
}

fn look_at(name: &mut Name, control: &Control) {
    let found = look_up(&name.host, name.port);
    name.note(found.as_ref().err());
    for moved in found.map(|found| name.take(&found)).unwrap_or_default() {
        let to = Address::Tcp { remote: moved.to, local: None };
        match control.order(|answer| Ask::MoveServer { place: moved.place, to: to.clone(), answer }) {
            Ok(()) => name.has_moved(moved),
            // The next look-up says the same.
            Err(error) => tracing::warn!("backend: {} leads to {} now, but {error}", name.host, moved.to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 3306))
    }

    /// What a name of these addresses, from place 3 on, makes of answers, one after the other.
    fn moves(name: &mut Name, found: &[u8]) -> Vec<(usize, u8)> {
        let found: Vec<_> = found.iter().map(|&last| address(last)).collect();
        let moves = name.take(&found);
        moves.iter().for_each(|&moved| name.has_moved(moved));
        let last = |to: SocketAddr| match to {
            SocketAddr::V4(to) => to.ip().octets()[3],
            SocketAddr::V6(_) => unreachable!("none here"),
        };
        moves.iter().map(|moved| (moved.place, last(moved.to))).collect()
    }

    fn name(addresses: &[u8]) -> Name {
        let addresses: Vec<_> = addresses.iter().map(|&last| address(last)).collect();
        Name::new("db", 3306, 3, &addresses)
    }

    #[test]
    fn a_name_that_led_nowhere_leads_somewhere_with_the_first_look_up_that_finds_it() {
        let mut name = Name::not_found("db", 3306, 3);
        assert_eq!(moves(&mut name, &[1, 2]), [(3, 1)]);
        assert_eq!(
            (moves(&mut name, &[2]), moves(&mut name, &[2])),
            (vec![], vec![(3, 2)]),
            "as any from then on"
        );
    }

    #[test]
    fn an_address_changes_once_two_look_ups_agree() {
        let mut name = name(&[1]);
        assert_eq!(moves(&mut name, &[2]), []);
        assert_eq!(moves(&mut name, &[2]), [(3, 2)]);
        assert_eq!(moves(&mut name, &[2]), []);
        assert_eq!((moves(&mut name, &[1]), moves(&mut name, &[1])), (vec![], vec![(3, 1)]), "and back");
    }

    #[test]
    fn answers_that_differ_each_time_change_nothing() {
        let mut name = name(&[1]);
        for found in [[2], [3], [2], [1], [2], [3]] {
            assert_eq!(moves(&mut name, &found), []);
        }
    }

    #[test]
    fn a_look_up_that_finds_nothing_stands_between() {
        let mut name = name(&[1]);
        assert_eq!(moves(&mut name, &[2]), []);
        name.note(Some(&Failure::from("no answer")));
        assert_eq!(moves(&mut name, &[2]), []);
        assert_eq!(moves(&mut name, &[2]), [(3, 2)]);
    }

    #[test]
    fn addresses_that_stay_keep_their_places() {
        let mut name = name(&[1, 2, 3]);
        for order in [[3, 2, 1], [2, 3, 1]] {
            assert_eq!(moves(&mut name, &order), [], "their order says nothing");
        }
        let found = [3, 4, 1];
        assert_eq!((moves(&mut name, &found), moves(&mut name, &found)), (vec![], vec![(4, 4)]));
    }

    #[test]
    fn a_name_may_lead_to_fewer_addresses_and_to_more_again() {
        let mut name = name(&[1, 2]);
        assert_eq!((moves(&mut name, &[2]), moves(&mut name, &[2])), (vec![], vec![(3, 2)]));
        assert_eq!(moves(&mut name, &[2]), []);
        assert_eq!((moves(&mut name, &[1, 2]), moves(&mut name, &[1, 2])), (vec![], vec![(4, 1)]));
        let found = [5, 6, 7];
        assert_eq!((moves(&mut name, &found), moves(&mut name, &found)), (vec![], vec![(3, 5), (4, 6)]));
        assert_eq!((moves(&mut name, &found), moves(&mut name, &found)), (vec![], vec![]), "7 has no place");
    }
}
