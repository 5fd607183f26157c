//! The common parts of tests: two servers and their checks' outcomes, and answers of servers.

use std::time::Duration;

use seam::{Address, Instant};

use super::Cluster;
use super::chosen::Chosen;
use super::reading::{CheckQuestion, Round};
use super::standing::Checked;
use super::verdict::{Membership, ServerVerdict};
use crate::outside::event::Event;
use crate::outside::named::ServerRole;
use crate::server::control::answer::NoAnswer;
use crate::server::control::version::Version;
use crate::settings::Settings;

pub(super) fn at(seconds: u64) -> Instant {
    Instant::START + Duration::from_secs(seconds)
}

pub(super) fn address(port: u16) -> Address {
    Address::Tcp { remote: ([127, 0, 0, 1], port).into(), local: None }
}

pub(super) fn two_servers() -> Settings {
    let mut settings = Settings { server: vec![address(1), address(2)], ..Settings::default() };
    settings.cluster.several = true;
    settings
}

/// The verdict on the server at a place, which is well.
pub(super) fn writes(place: usize, is_writable: bool) -> ServerVerdict {
    ServerVerdict {
        role: if is_writable { ServerRole::Primary } else { ServerRole::Replica },
        is_well: true,
        is_writable,
        identity: place.to_string(),
        ..ServerVerdict::unreached("")
    }
}

/// The verdict on a node of a Galera of three, with this place among them.
pub(super) fn member(place: usize, index: u32) -> ServerVerdict {
    let cluster = String::from("c");
    let membership = Membership { cluster, view: (0, 3), members: 3, place: Some(index), takes_part: true };
    ServerVerdict { role: ServerRole::Node, membership: Some(membership), ..writes(place, true) }
}

/// The verdict on a member of a group of three with one primary.
pub(super) fn of_group(place: usize, is_primary: bool) -> ServerVerdict {
    let cluster = String::from("g");
    let membership = Membership { cluster, view: (7, 3), members: 3, place: None, takes_part: true };
    ServerVerdict { membership: Some(membership), ..writes(place, is_primary) }
}

impl Cluster {
    /// Takes in a check that has begun and ended at this time.
    pub(super) fn seen(&mut self, at: Instant, place: usize, verdict: ServerVerdict) {
        self.asked(place, at, Checked { at, took: Duration::ZERO, verdict });
    }

    /// Chooses. Where that has a server asked once more, takes in the same answer again, and chooses by that.
    pub(super) fn choose_confirmed(
        &mut self,
        now: Instant,
        chosen: &Chosen,
        settings: &Settings,
    ) -> Option<Event> {
        let news = self.choose(now, chosen, settings);
        let Some((place, _)) = self.next else { return news };
        let verdict = self.standings[place].verdict().clone();
        self.seen(now, place, verdict);
        self.choose(now, chosen, settings).or(news)
    }
}

/// Makes an answer with columns and rows as a server sends it, for [`crate::backend::from_server::own_answers`].
pub(super) fn answer(columns: &[&str], rows: &[&[&str]]) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    let definitions: Vec<_> = columns.iter().map(|name| wire::Column::text(name)).collect();
    let mut set = wire::ResultSetWriter::begin(
        &mut out,
        &mut sequence,
        &definitions,
        wire::StatusFlags::default(),
        wire::Capabilities::DEPRECATE_EOF,
    );
    for row in rows {
        let row: Vec<_> = row.iter().map(|field| (*field != "NULL").then_some(field.as_bytes())).collect();
        set.row(&row);
    }
    set.finish();
    out
}

pub(super) fn refused(message: &str) -> NoAnswer {
    NoAnswer::Refused { code: 1227, message: String::from(message) }
}

/// Returns the verdict of a round against a server with these answers, in the order of its questions.
pub(super) fn judged(version: &str, answers: &[(CheckQuestion, Result<Vec<u8>, &str>)]) -> ServerVerdict {
    let version = Version::new(version.into());
    let mut round = Round::default();
    let mut next = Some(CheckQuestion::Variables);
    for (question, answer) in answers {
        assert_eq!(next, Some(*question), "the round asks in another order");
        let answer = answer.as_ref().map(Vec::as_slice).map_err(|error| refused(error));
        next = round.take(&version, *question, answer).expect("it can be judged");
    }
    assert_eq!(next, None, "the round is not over");
    ServerVerdict::of(&round.finish())
}
