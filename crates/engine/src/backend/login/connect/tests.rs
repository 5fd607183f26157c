use seam::{Input, Output, Program};
use wire::StatusFlags;

use super::*;
use crate::backend::login::refused::ServerRefusal;
use crate::client::Phase as ClientPhase;
use crate::client::commands::command::tests::{connection, engine, engine_among, open_backends};
use crate::ids::client_key;
use crate::session::aftermath::Diagnostics;
use crate::settings::Settings;

/// Returns the error code of a client's statement that finds no backend in time. `begin` acts on the backend that was begun for it.
fn error_code(begin: impl FnOnce(&mut Engine, u64)) -> u16 {
    let mut engine = engine(2, Settings::default());
    engine.servers.primary_mut().reachability.answered();
    let mut query = Vec::new();
    wire::put_message(&mut query, &mut 0, b"\x03SELECT 1");
    engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
    engine.handle(Instant::START, Input::TurnEnd);
    let mut begun = None;
    while let Some(output) = engine.poll_output() {
        if let Output::Connect { token: token @ 1.., .. } = output {
            begun = Some(token);
        }
    }
    begin(&mut engine, begun.expect("a backend is begun for it"));
    engine.handle(Instant::START + engine.settings.backend_connect_timeout, Input::TurnEnd);
    while let Some(output) = engine.poll_output() {
        if let Output::Send { connection: to, bytes } = output
            && to == connection(0)
        {
            assert_eq!(bytes[wire::HEADER_LEN], 0xff, "{bytes:?}");
            return u16::from_le_bytes([bytes[5], bytes[6]]);
        }
    }
    panic!("no answer")
}

/// The backend is lost between the answer to a statement and the answer to our SHOW WARNINGS.
#[test]
fn warnings_that_were_told_of_are_not_denied_with_their_backend_lost() {
    let mut engine = engine(1, Settings::default());
    let mut counted = |diagnostics| {
        engine.clients[client_key(0)].set_phase(ClientPhase::Settling);
        engine.clients[client_key(0)].session.aftermath.leaves(diagnostics);
        engine.holder_lost(client_key(0));
        let diagnostics = engine.clients[client_key(0)].session.aftermath.diagnostics();
        let reply = diagnostics.reply(engine.clients[client_key(0)].reader());
        (diagnostics.counts(), reply.map_or(0, |reply| reply.len()))
    };
    let (counts, answer) = counted(Diagnostics::OnBackend { warnings: 3, errors: 1, sql_state: None });
    assert_eq!(counts, (3, 1));
    assert!(answer > 0);
    assert_eq!(counted(Diagnostics::OnBackend { warnings: 0, errors: 0, sql_state: None }), ((0, 0), 0));
    // The loss was behind it, with another question of ours.
    let saved = Diagnostics::Saved {
        warnings: 2,
        errors: 0,
        sql_state: None,
        reply: crate::session::aftermath::List::new(vec![0; 9].into()),
    };
    assert_eq!(counted(saved), ((2, 0), 9));
}

/// Returns the client's answer to a COM_STMT_PREPARE that needs values of the session state, and says whether the client is there still.
/// The client's backend was lost behind the answer to a SET, while it was asked for these values.
fn prepares_with_unreported_lost(status: StatusFlags) -> (Vec<u8>, bool) {
    let mut engine = engine(1, Settings::default());
    let client = client_key(0);
    engine.clients[client].session.note_unreported(&[].into(), [b"character_set_results"[..].into()].into());
    engine.clients[client].session.status_told(status);
    engine.clients[client].set_phase(ClientPhase::Settling);
    engine.holder_lost(client);
    let mut prepare = Vec::new();
    wire::put_message(&mut prepare, &mut 0, b"\x16SELECT 1");
    engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &prepare });
    engine.handle(Instant::START, Input::TurnEnd);
    let mut heard = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Send { connection: to, bytes } = output
            && to == connection(0)
        {
            heard.extend_from_slice(bytes);
        }
    }
    (heard, engine.clients.contains(client))
}

/// Another backend has other values, and is not asked in its place.
#[test]
fn values_that_only_a_lost_backend_knew_end_their_client() {
    let lost = MySqlError::pinned_state_lost();
    for status in [StatusFlags::AUTOCOMMIT, StatusFlags::IN_TRANS] {
        let (heard, goes_on) = prepares_with_unreported_lost(status);
        assert!(heard.ends_with(lost.message.as_bytes()) && !goes_on, "{heard:?}");
    }
}

#[test]
fn a_frozen_server_is_not_taken_for_a_full_pool() {
    let silent = error_code(|engine, token| {
        let stands = Input::Connected { token, connection: connection(7) };
        engine.handle(Instant::START, stands);
    });
    assert_eq!(silent, 1158);
    let held = error_code(|engine, _| {
        for (key, backend) in engine.servers.primary_mut().backends.iter_mut() {
            backend.set_phase(Phase::Ready);
            engine.clients[client_key(1)].backend = Some(key);
            backend.holder = Some(client_key(1));
        }
    });
    assert_eq!(held, 1040);
}

/// The time after which the account's room is looked at again here, and the worker that hears of it, behind the end of a login by `end`.
fn told_of_room(end: impl FnOnce(&mut Engine, BackendKey)) -> (Option<Instant>, Option<usize>) {
    let mut engine = engine_among(2, 1, Settings::default());
    let server = engine.servers.primary().key;
    let key = open_backends(&mut engine, &[server])[0];
    let identity = engine.servers[key].account.identity();
    let account = engine.logins.identities.name(identity);
    engine.logins.identities.takes_no_more(identity, engine.now, true);
    engine.pool.workers.users.full_accounts.lacks(engine.now, account.clone(), 1, 0);
    end(&mut engine, key);
    let mut told = None;
    while let Some((worker, letter)) = engine.poll_letter() {
        if matches!(&letter, Letter::AccountHasRoom(of) if *of == account) {
            told = Some(worker);
        }
    }
    (engine.logins.identities.refused_until(identity), told)
}

/// A login counts as a connection of its account: one that fails leaves its room.
#[test]
fn who_waits_for_an_account_hears_of_a_login_that_has_failed() {
    let soon = Instant::START + std::time::Duration::from_millis(5);
    let failed = told_of_room(|engine, key| {
        let token = engine.servers[key].token;
        engine.backend_connect_failed(token, 111);
    });
    assert_eq!(failed, (Some(soon), Some(1)));
    let lost = told_of_room(|engine, key| engine.backend_gone(key, "it is gone"));
    assert_eq!(lost, (Some(soon), Some(1)));
    let refused = |code| {
        told_of_room(move |engine, key| {
            let message = String::from("User 'app' has exceeded the 'max_user_connections' resource");
            engine.backend_refused(key, ServerRefusal { code, message });
        })
    };
    assert_eq!(refused(1045), (Some(soon), Some(1)));
    let (until, told) = refused(1226);
    assert!(until.is_some_and(|until| until > soon) && told.is_none(), "it had no room: {until:?}, {told:?}");
}
