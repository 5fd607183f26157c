use super::*;
use crate::backend::Summary;
use crate::client::Running;
use crate::client::commands::command::tests::{engine, open_backends};
use crate::errors::ServerError;
use crate::ids::client_key;
use crate::request::Request;
use crate::server::control::position::tests::asking_node;
use crate::settings::Settings;

#[test]
fn what_a_node_that_is_down_was_asked_is_not_waited_for() {
    let mut engine = asking_node(true);
    assert!(engine.servers.primary().control.waits_for_cluster());
    engine.give_up_server();
    assert!(!engine.servers.primary().control.waits_for_cluster());
}

/// A prelude that sets the session state runs first, and may be what the server ends.
#[test]
fn a_guest_that_is_killed_ahead_of_its_statement_does_not_go_on() {
    let mut engine = engine(1, Settings::default());
    engine.be_reader(1 << 48);
    let client = client_key(0);
    let primary = engine.servers.primary().key;
    let backend = open_backends(&mut engine, &[primary])[0];
    engine.clients[client].set_phase(Phase::Running(Running::OnServer));
    engine.clients[client].loss.killed = true;
    let message = b"Connection was killed".to_vec();
    let error = Some(ServerError { code: 1927, sql_state: *b"70100", message });
    let summary = Summary { error, prelude_failed: true, ..Summary::default() };
    engine.prelude_failed(backend, client, &Request::query("SELECT a FROM t"), &summary);
    let returned = engine.guests.as_mut().map(Guests::take_returned).unwrap_or_default();
    let ended: Vec<GuestEnd> = returned.into_iter().map(|returned| returned.ended).collect();
    assert_eq!(ended, [GuestEnd::Broken]);
}
