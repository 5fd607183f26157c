use std::time::Duration;

use super::*;
use crate::frozen::plain::{bytes_of, read};
use crate::ids::ServerKey;
use crate::server::control::question::Question;

/// A connection at rest, with something in every field.
fn used(now: Instant) -> Control {
    let mut control = Control::new(ServerKey::at(1));
    control.state = State::Idle;
    control.connection = Some(ConnectionId { index: 3, generation: 5 });
    control.token = 77;
    control.capabilities = Capabilities::DEPRECATE_EOF;
    control.since = now;
    control.copies.is_asked_for();
    control.copies.came(now, Duration::from_millis(7));
    control.copies.is_asked_for();
    control.ask_for_accounts();
    (control.accounts_seen, control.probe_seen) = (b"accounts".to_vec(), b"probe".to_vec());
    control.changes.take(Some(b"7".to_vec()));
    control.changes.take(Some(b"8".to_vec()));
    control.changes.take(None);
    control.rights_hidden = true;
    control.defaults.are_asked_for(now);
    control.defaults.are_wanted();
    control.defaults.are_refused();
    control.backend_limit.is_asked_for(now);
    control.position.of_galera = true;
    control.position.of_replica = true;
    control.position.is_asked(now, true);
    control.position.answered(b"");
    control.position.want(now + Duration::from_secs(1));
    control
}

#[test]
fn it_goes_on_by_another_clock() {
    let (then, later) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
    let mut control = used(then);
    let frozen = control.freeze(then).expect("it rests");
    assert!(matches!(control.state, State::Away) && control.connection().is_none());
    assert_eq!(control.changes.seen(), 0, "all of it is taken out");
    let read = || read::<FrozenControl>(&bytes_of(&frozen)).expect("it is whole");
    assert_eq!(read(), frozen);
    let [mut same, mut other] = [(); 2].map(|()| Control::new(ServerKey::at(1)));
    same.thaw(read(), then);
    assert_eq!(same.shown(), used(then).shown());
    other.thaw(read(), later);
    assert_eq!(other.since, later);
    assert_eq!(
        other.next_refresh(Duration::from_secs(1)),
        Some(later + Duration::from_millis(28)),
        "it is wanted"
    );
    assert!(matches!(other.state, State::Idle));
    assert_eq!((&other.accounts_seen[..], &other.probe_seen[..]), (&b"accounts"[..], &b"probe"[..]));
    assert_eq!(other.freeze(later).expect("it rests"), frozen);
}

#[test]
fn what_is_under_way_stays() {
    let now = Instant::from_micros(90_000_000);
    let mut control = used(now);
    control.out.push(1);
    assert_eq!(control.can_be_frozen(), Err(NotFrozen::Asks));
    control.out.clear();
    assert_eq!(control.can_be_frozen(), Ok(()));
    control.state = State::Connecting;
    assert_eq!(control.can_be_frozen(), Err(NotFrozen::Asks));
    let options =
        crate::backend::to_server::message::reply_options(Capabilities::NONE, Capabilities::NONE, 0, 1);
    let reader = Box::new(wire::ReplyReader::new(wire::Expect::ResultSets, options));
    control.state = State::Asking { question: Question::Probe, reader, answer: Default::default() };
    assert_eq!(control.freeze(now), Err(NotFrozen::Asks));
    control.leave();
    let away = control.freeze(now).expect("it is away");
    control.thaw(away, now);
    assert!(matches!(control.state, State::Away));
}

/// An account that is as it was before the connection was lost, and was not as the accounts were read behind that, would never be seen.
#[test]
fn what_a_probe_has_seen_counts_for_one_connection() {
    let mut control = Control::new(ServerKey::at(0));
    control.probe_seen = b"probe".to_vec();
    control.asked_anew(None);
    assert!(control.probe_seen.is_empty());
}
