use std::sync::OnceLock;
use std::time::Duration;

use super::*;
use crate::server::control::peers::mail::Delivery;

/// A server with named locks and a list of threads.
#[derive(Default)]
pub(super) struct Locks {
    pub(super) held: BTreeMap<String, u64>,
    /// Users by the numbers of connections, where the user is to be seen.
    pub(super) threads: BTreeMap<u64, &'static str>,
    /// Questions that it refuses, by what is in them.
    pub(super) refuses: Option<&'static str>,
    /// The questions that the server was asked.
    pub(super) asked: Vec<String>,
    /// The number that a program in between adds to numbers of connections.
    pub(super) between: u64,
    /// The time at which the server is asked, by the clocks of all.
    pub(super) now: Instant,
    /// The time by which the Onramp's own clock is ahead of those.
    pub(super) ahead: Duration,
}

impl Locks {
    /// Answers with a row of texts, or several.
    pub(super) fn answer(&mut self, connection: u64, text: &str) -> Result<Vec<u8>, NoAnswer> {
        self.asked.push(text.to_owned());
        if let Some(word) = self.refuses.filter(|word| text.contains(word)) {
            let message = format!("FUNCTION {word} does not exist");
            return Err(NoAnswer::Refused { code: 1305, message });
        }
        let rows = if let Some(row) = self.of_mail(connection, text) {
            vec![vec![Some(row)]]
        } else if text.starts_with("SELECT CASE") {
            vec![vec![self.first_free(connection, text), Some((connection + self.between).to_string())]]
        } else if text.contains("IS_USED_LOCK") {
            let names = text.split("IS_USED_LOCK('").skip(1).map(|part| part.split('\'').next().unwrap());
            let holders = names.map(|name| self.held.get(name).map(u64::to_string));
            let clock = text.contains("UNIX_TIMESTAMP").then(|| {
                let micros = (self.now + self.ahead).as_micros();
                Some(format!("{}.{:06}", 1_769_860_800 + micros / 1_000_000, micros % 1_000_000))
            });
            vec![holders.chain(clock).collect()]
        } else if text.contains("PROCESSLIST") {
            let ids = text.split(['(', ')']).nth(1).unwrap().split(", ").map(|id| id.parse::<u64>().unwrap());
            let seen = ids.filter_map(|id| {
                let user = self.threads.get(&id)?;
                Some([id.to_string(), (*user).to_owned(), format!("10.0.0.{id}:4000")].map(Some).to_vec())
            });
            seen.collect()
        } else if let Some(name) = text.split('\'').nth(1) {
            let is_others = |held: &BTreeMap<String, u64>| held.get(name).is_some_and(|&it| it != connection);
            let done = match text.contains("RELEASE") {
                true => self.held.remove(name).is_some(),
                false => !is_others(&self.held) && self.held.insert(name.to_owned(), connection).is_none(),
            };
            vec![vec![Some(u64::from(done).to_string())]]
        } else {
            Vec::new()
        };
        Ok(bytes_of(&rows))
    }

    /// Statements about letters with many locks each.
    fn of_mail(&mut self, connection: u64, text: &str) -> Option<String> {
        let names: Vec<_> =
            text.split('\'').skip(1).step_by(2).filter(|name| name.starts_with("onramp.")).collect();
        if text.starts_with("SELECT CONCAT(") {
            let from: u64 = text.split(" = ").nth(1)?.split(',').next()?.parse().ok()?;
            return Some(
                names
                    .iter()
                    .map(|&name| if self.held.get(name) == Some(&from) { '1' } else { '0' })
                    .collect(),
            );
        }
        if text.starts_with("SELECT CONCAT_WS(") {
            for name in names {
                if self.held.get(name) == Some(&connection) {
                    self.held.remove(name);
                }
            }
            return Some(String::new());
        }
        if text.starts_with("SELECT IF(") {
            let mut all = true;
            for (place, name) in names.iter().enumerate() {
                if place + 1 == names.len() && !all {
                    return Some(String::from("0"));
                }
                all &= *self.held.entry((*name).to_owned()).or_insert(connection) == connection;
            }
            return Some(u8::from(all).to_string());
        }
        None
    }

    fn first_free(&mut self, connection: u64, text: &str) -> Option<String> {
        let name = text.split('\'').skip(1).step_by(2).find(|&name| !self.held.contains_key(name))?;
        self.held.insert(name.to_owned(), connection);
        name.strip_prefix(SLOT).map(str::to_owned)
    }

    /// A connection ends, and its locks go with it.
    pub(super) fn end(&mut self, connection: u64) {
        self.held.retain(|_, holder| *holder != connection);
        self.threads.remove(&connection);
    }
}

/// An answer as it is kept.
fn bytes_of(rows: &[Vec<Option<String>>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |payload: &[u8]| {
        let start = wire::begin_packet(&mut out);
        out.extend_from_slice(payload);
        wire::end_packet(&mut out, start, &mut 0);
    };
    // Without definitions of columns, at which nobody looks.
    put(&[0]);
    for row in rows {
        let mut payload = Vec::new();
        for field in row {
            match field {
                None => payload.push(0xfb),
                Some(text) => {
                    match u8::try_from(text.len()) {
                        Ok(length) if length < 251 => payload.push(length),
                        _ => {
                            payload.push(0xfc);
                            payload.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
                        }
                    }
                    payload.extend_from_slice(text.as_bytes());
                }
            }
        }
        put(&payload);
    }
    put(&[0xfe, 0, 0, 0, 0]);
    out
}

/// An Onramp's service account.
pub(super) struct Onramp {
    pub(super) peers: Peers,
    pub(super) connection: u64,
    onramps: Onramps,
    /// Microseconds for which the Onramp's statements have waited.
    saturated_for: u64,
    views: Views,
    pub(super) now: Instant,
    changes: u32,
    key: Option<LetterKey>,
}

/// Making one takes a while.
pub(super) fn key(password: &str) -> Option<LetterKey> {
    static USUAL: OnceLock<Option<LetterKey>> = OnceLock::new();
    match password {
        "onramp-secret" => USUAL.get_or_init(|| LetterKey::of(password)).clone(),
        _ => LetterKey::of(password),
    }
}

impl Onramp {
    pub(super) fn new(server: &mut Locks, connection: u64) -> Self {
        Self::with_password(server, connection, "onramp-secret")
    }

    pub(super) fn with_password(server: &mut Locks, connection: u64, password: &str) -> Self {
        let mut onramp = Self {
            key: key(password),
            peers: Peers::default(),
            connection,
            onramps: Onramps::default(),
            saturated_for: 0,
            views: Views::default(),
            now: Instant::START + Duration::from_secs(1),
            changes: 0,
        };
        onramp.log_in(server, connection);
        onramp
    }

    pub(super) fn log_in(&mut self, server: &mut Locks, connection: u64) {
        self.connection = connection;
        server.threads.insert(connection, "onramp");
        self.peers.asked_anew(self.key.as_ref());
    }

    /// Asks all questions once it is time, until nothing more follows.
    pub(super) fn look(&mut self, server: &mut Locks) {
        self.now = self.peers.next(self.now).expect("it counts").max(self.now);
        self.ask(server);
    }

    /// The same, without waiting.
    fn ask(&mut self, server: &mut Locks) {
        let mut question = Some(self.peers.first_question(self.now));
        while let Some(asked) = question {
            let text = self.peers.text(asked);
            self.peers.is_asked(self.now, asked);
            server.now = self.now;
            let answer = server.answer(self.connection, &text);
            let mut hearing = Hearing {
                now: self.now,
                service_user: "onramp",
                onramps: &self.onramps,
                saturated_for: vec![self.saturated_for],
                views: &mut self.views,
            };
            let answer = answer.as_deref().map_err(Clone::clone);
            question = self.peers.take(&mut hearing, asked, answer);
            if let Some(census) = self.peers.census(question) {
                self.changes += u32::from(self.onramps.take(census));
            }
        }
    }

    /// Goes on for as long as that takes; with letters under way it looks more often.
    pub(super) fn go_on(&mut self, server: &mut Locks, time: Duration) {
        let until = self.now + time;
        while self.peers.next(self.now).expect("it counts") <= until {
            self.look(server);
            self.peers.mail.expire(self.now);
        }
        self.now = until;
    }

    pub(super) fn deliveries(&mut self) -> Vec<Delivery> {
        std::iter::from_fn(|| self.peers.mail.next_delivery()).collect()
    }

    fn counts(&self) -> [u32; 2] {
        [self.onramps.present(), self.onramps.at_work()]
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.views.next_event()).collect()
    }
}

#[test]
fn one_alone_asks_one_question_a_second() {
    let mut server = Locks::default();
    let mut onramp = Onramp::new(&mut server, 7);
    assert_eq!(onramp.peers.next(onramp.now), Some(Instant::START), "at once");
    onramp.look(&mut server);
    assert_eq!((onramp.onramps.slot(), onramp.counts()), (Some(1), [1, 1]));
    assert_eq!(server.asked.len(), 3, "{:?}", server.asked);
    server.asked.clear();
    for _ in 0..10 {
        let before = onramp.now;
        onramp.look(&mut server);
        assert_eq!(onramp.now.since(before), Duration::from_secs(1));
    }
    assert_eq!(server.asked.len(), 10);
    assert!(server.asked.iter().all(|text| text.starts_with("SELECT IS_USED_LOCK('onramp.slot.1'), ")));
    assert_eq!((onramp.changes, onramp.events()), (0, Vec::new()));
}

#[test]
fn names_fit_a_lock_of_mysql() {
    for name in NAMES {
        assert!(format!("{name}{SLOTS}").len() <= 64);
    }
}

#[test]
fn two_see_each_other_and_one_that_dies_is_forgotten() {
    let mut server = Locks::default();
    let (mut one, mut two) = (Onramp::new(&mut server, 7), Onramp::new(&mut server, 8));
    one.look(&mut server);
    two.look(&mut server);
    one.look(&mut server);
    assert_eq!([one.onramps.slot(), two.onramps.slot()], [Some(1), Some(2)]);
    assert_eq!([one.counts(), two.counts()], [[2, 1], [2, 1]], "neither has anything to do");
    assert!(one.onramps.is_of_another(2) && two.onramps.is_of_another(1));
    let came = Event::PeerCame { slot: 2, connection: 8, host: String::from("10.0.0.8:4000") };
    assert_eq!(one.events(), [came]);
    let asked = server.asked.len();
    one.look(&mut server);
    assert_eq!(server.asked.len(), asked + 1, "whose connection it is, is known");
    server.end(8);
    for looks in 1..GONE {
        one.look(&mut server);
        assert_eq!(one.counts(), [2, 1], "{looks}: it may come back");
    }
    one.look(&mut server);
    assert_eq!(one.counts(), [1, 1]);
    assert_eq!(one.events(), [Event::PeerWent { slot: 2, connection: 8 }]);
}

fn two_that_know_each_other() -> (Locks, Onramp, Onramp) {
    let mut server = Locks::default();
    let (mut one, mut two) = (Onramp::new(&mut server, 7), Onramp::new(&mut server, 8));
    for _ in 0..2 {
        one.look(&mut server);
        two.look(&mut server);
    }
    (server, one, two)
}

#[test]
fn those_are_counted_whose_statements_wait_much_of_the_time() {
    let (mut server, mut one, mut two) = two_that_know_each_other();
    let mut saturated = |of_one: u64, of_two: u64| {
        // Each sees what the other has said at its look before.
        for _ in 0..2 {
            for (onramp, waits) in [(&mut one, of_one), (&mut two, of_two)] {
                onramp.saturated_for += waits * 1_000;
                onramp.onramps.wait();
                onramp.look(&mut server);
            }
        }
        [one.onramps.division().saturated, two.onramps.division().saturated]
    };
    assert_eq!(saturated(900, 100), [1, 2], "one has waited, the other hardly");
    assert_eq!(saturated(900, 900), [2, 2]);
    assert_eq!(saturated(900, 0), [1, 2], "at work it still is");
    assert_eq!(saturated(0, 0), [1, 1]);
    assert_eq!([one.counts(), two.counts()], [[2, 2], [2, 2]]);
}

#[test]
fn permits_are_divided_among_those_that_are_at_work() {
    let (mut server, mut one, mut two) = two_that_know_each_other();
    one.onramps.wait();
    one.look(&mut server);
    two.look(&mut server);
    assert_eq!([one.counts(), two.counts()], [[2, 1], [2, 2]], "the idle one is to begin with its part");
    two.onramps.wait();
    two.look(&mut server);
    one.onramps.wait();
    one.look(&mut server);
    assert_eq!([one.counts(), two.counts()], [[2, 2], [2, 2]]);
    let at_work =
        |onramp: &Onramp| onramp.peers.views(onramp.now).iter().map(|view| view.at_work).collect::<Vec<_>>();
    assert_eq!([at_work(&one), at_work(&two)], [[true, true], [true, true]]);
    for _ in 0..11 {
        one.onramps.wait();
        one.look(&mut server);
        two.look(&mut server);
    }
    one.look(&mut server);
    assert_eq!([one.counts(), two.counts()], [[2, 1], [2, 2]], "the other has had nothing to do for long");
}

#[test]
fn a_slot_that_there_is_not_is_none() {
    for said in ["0", "17", "33", "4294967295", "18446744073709551615", "a"] {
        let mut onramp = Onramp::new(&mut Locks::default(), 7);
        let mut hearing = Hearing {
            now: onramp.now,
            service_user: "onramp",
            onramps: &onramp.onramps,
            saturated_for: vec![0],
            views: &mut onramp.views,
        };
        let row = bytes_of(&[vec![Some(said.to_owned()), Some(String::from("7"))]]);
        onramp.peers.take(&mut hearing, PeersQuestion::Slot, Ok(&row));
        assert_eq!((onramp.peers.slot, onramp.onramps.slot()), (None, None), "{said}");
    }
}

#[test]
fn peers_are_gone_at_a_server_that_shows_none() {
    let (_server, mut one, _two) = two_that_know_each_other();
    assert_eq!(one.counts()[0], 2);
    one.events();
    // The next primary has its own numbers of connections, and no such locks.
    let mut next = Locks { refuses: Some("LOCK"), ..Locks::default() };
    one.log_in(&mut next, 3);
    for look in 1..=GONE {
        one.look(&mut next);
        assert_eq!(one.counts()[0], if look < GONE { 2 } else { 1 }, "look {look}");
    }
    let went = Event::PeerWent { slot: 2, connection: 8 };
    assert!(one.events().contains(&went), "with the number that it had");
}

#[test]
fn a_connection_that_comes_back_is_the_same_onramp() {
    let (mut server, mut one, mut two) = two_that_know_each_other();
    one.events();
    server.end(8);
    one.look(&mut server);
    two.log_in(&mut server, 9);
    two.look(&mut server);
    one.look(&mut server);
    assert_eq!([one.onramps.slot(), two.onramps.slot()], [Some(1), Some(2)], "its former slot was free");
    assert_eq!(([one.counts(), two.counts()], one.events()), ([[2, 1], [2, 1]], Vec::new()));
    let connections: Vec<_> = one.peers.views(one.now).iter().map(|view| view.connection).collect();
    assert_eq!(connections, [7, 9]);
    // The slot may be another's by now.
    server.end(7);
    server.held.insert(String::from("onramp.slot.1"), 8);
    server.threads.insert(8, "onramp");
    one.log_in(&mut server, 10);
    one.look(&mut server);
    assert_eq!((one.onramps.slot(), one.counts()), (Some(3), [3, 1]));
}

#[test]
fn locks_of_others_count_for_nothing() {
    let mut server = Locks::default();
    server.threads.extend([(20, "app"), (21, "app")]);
    server.held.extend([(String::from("onramp.slot.1"), 20), (String::from("onramp.slot.2"), 21)]);
    // That one cannot be seen.
    server.held.insert(String::from("onramp.slot.3"), 22);
    let mut onramp = Onramp::new(&mut server, 7);
    for _ in 0..5 {
        onramp.look(&mut server);
    }
    assert_eq!((onramp.onramps.slot(), onramp.counts()), (Some(4), [1, 1]));
    assert!(!onramp.onramps.is_of_another(1));
    let lists = server.asked.iter().filter(|text| text.contains("PROCESSLIST")).count();
    assert_eq!(lists, 1, "once for each of them");
    let [Event::PeersHidden { reason }] = &onramp.events()[..] else { panic!("it is said once") };
    assert!(reason.starts_with("3 of the named locks"), "{reason}");
    // Somebody else's lock of being at work says nothing of who holds the slot.
    let mut peer = Onramp::new(&mut server, 8);
    peer.look(&mut server);
    server.held.insert(String::from("onramp.at_work.5"), 20);
    onramp.look(&mut server);
    assert_eq!((peer.onramps.slot(), onramp.counts()), (Some(5), [2, 1]));
}

#[test]
fn a_lock_of_being_at_work_that_somebody_else_holds_is_tried_again() {
    let mut server = Locks::default();
    server.held.insert(String::from("onramp.at_work.1"), 20);
    let (mut one, mut two) = (Onramp::new(&mut server, 7), Onramp::new(&mut server, 8));
    for _ in 0..3 {
        one.onramps.wait();
        one.look(&mut server);
        two.look(&mut server);
    }
    assert_eq!(two.counts(), [2, 1], "it cannot be known");
    let hidden =
        |event: &Event| matches!(event, Event::PeersHidden { reason } if reason.contains("onramp.at_work.1"));
    assert_eq!(one.events().iter().filter(|event| hidden(event)).count(), 1, "once");
    server.end(20);
    one.look(&mut server);
    two.look(&mut server);
    assert_eq!(two.counts(), [2, 2]);
}

#[test]
fn behind_something_with_numbers_of_its_own_nobody_is_counted() {
    let mut server = Locks::default();
    let (mut inner, mut outer) = (Onramp::new(&mut server, 7), Onramp::new(&mut server, 8));
    inner.look(&mut server);
    server.between = 1 << 30;
    outer.look(&mut server);
    assert_eq!((outer.onramps.slot(), outer.counts()), (None, [1, 1]));
    assert_eq!(server.held.keys().collect::<Vec<_>>(), ["onramp.slot.1"], "it has given its slot back");
    assert_eq!(outer.peers.next(outer.now), None);
    let [Event::PeersHidden { reason }] = &outer.events()[..] else { panic!("it is said once") };
    assert!(reason.contains("connection 1073741832 by the number 8"), "{reason}");
    assert_eq!(server.asked.last().map(String::as_str), Some(questions::USUAL_SILENCE));
    for _ in 0..GONE {
        inner.look(&mut server);
    }
    assert_eq!(inner.counts(), [1, 1]);
    // Another connection may lead to the server itself.
    server.between = 0;
    outer.log_in(&mut server, 9);
    outer.look(&mut server);
    assert_eq!((outer.onramps.slot(), outer.counts()), (Some(2), [2, 1]));
}

#[test]
fn without_a_slot_others_are_counted_all_the_same() {
    let mut server = Locks::default();
    let mut all: Vec<_> = (1..=18).map(|connection| Onramp::new(&mut server, connection)).collect();
    for _ in 0..2 {
        all.iter_mut().for_each(|onramp| onramp.look(&mut server));
    }
    let slots: Vec<_> = all.iter().map(|onramp| onramp.onramps.slot()).collect();
    assert_eq!(slots[..16], (1..=16).map(Some).collect::<Vec<_>>(), "each another one");
    assert_eq!(slots[16..], [None, None]);
    assert_eq!([all[0].counts(), all[17].counts()], [[16, 1], [17, 1]]);
    let hidden =
        |event: &Event| matches!(event, Event::PeersHidden { reason } if reason.contains("all 16 slots"));
    let events = all[17].events();
    assert_eq!(events.iter().filter(|event| hidden(event)).count(), 1, "{events:?}");
    server.end(3);
    all[17].look(&mut server);
    assert_eq!(all[17].onramps.slot(), Some(3), "as soon as one is free");
}

#[test]
fn a_server_that_refuses_is_asked_seldom_and_it_is_said_once() {
    for word in ["GET_LOCK", "IS_USED_LOCK", "PROCESSLIST"] {
        let mut server = Locks { refuses: Some(word), ..Locks::default() };
        server.held.insert(String::from("onramp.slot.9"), 99);
        let mut onramp = Onramp::new(&mut server, 7);
        onramp.look(&mut server);
        for _ in 0..3 {
            let before = onramp.now;
            onramp.look(&mut server);
            assert_eq!(onramp.now.since(before), REFUSED_FOR, "{word}");
        }
        assert_eq!(onramp.counts(), [1, 1]);
        let events = onramp.events();
        assert!(
            matches!(&events[..], [Event::PeersHidden { reason }] if reason.contains("1305")),
            "{events:?}"
        );
    }
    // That one is not needed.
    let mut server = Locks { refuses: Some("wait_timeout"), ..Locks::default() };
    let mut onramp = Onramp::new(&mut server, 7);
    onramp.look(&mut server);
    onramp.look(&mut server);
    assert_eq!((onramp.onramps.slot(), onramp.events()), (Some(1), Vec::new()));
}

#[test]
fn the_servers_clock_is_read() {
    let field = |text: &str| Some(text.as_bytes().to_vec());
    for (text, expected) in [
        ("1769860800.250000", Some(1_769_860_800_250)),
        ("1769860800", Some(1_769_860_800_000)),
        ("1769860800.5", Some(1_769_860_800_500)),
        ("99999999999999999999", None),
        ("1.x", None),
        ("", None),
    ] {
        assert_eq!(millis(&field(text)), expected, "{text}");
    }
    assert_eq!(millis(&None), None);
}
