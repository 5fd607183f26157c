use super::*;
use crate::accounts::task::Task;
use crate::client::commands::command::tests::{connection, engine};
use crate::engine::Engine;

#[test]
fn the_service_account_is_given_up_where_its_server_says_nothing() {
    let mut engine = engine(1, Settings::default());
    let server = engine.servers.primary().key;
    assert!(matches!(engine.service_accounts().turn(server, false), Heard::Nothing));
    assert!(engine.io.outbox.poll().is_none(), "it may not connect");
    assert!(matches!(engine.service_accounts().turn(server, true), Heard::Nothing));
    assert!(engine.io.outbox.poll().is_some());
    engine.service_accounts().connected(server, connection(7));
    engine.now = engine.now + engine.settings.backend_connect_timeout;
    assert!(matches!(engine.service_accounts().turn(server, true), Heard::Nothing));
    engine.now = engine.now + std::time::Duration::from_micros(1);
    let heard = engine.service_accounts().turn(server, true);
    assert!(matches!(heard, Heard::Lost(reason) if reason == NO_ANSWER));
    engine.service_accounts().leave(server);
    assert_eq!(
        (engine.io.role(connection(7)), engine.servers[server].control.connection()),
        (Role::Free, None)
    );
}

#[test]
fn what_a_server_says_out_of_turn_ends_the_connection() {
    let mut engine = engine(1, Settings::default());
    let server = engine.servers.primary().key;
    engine.service_accounts().turn(server, true);
    let heard = engine.service_accounts().bytes(server, b"?");
    assert!(matches!(heard, Heard::Nothing), "it does not stand yet");
    engine.service_accounts().connected(server, connection(7));
    // A greeting by a protocol that nobody speaks.
    let heard = engine.service_accounts().bytes(server, &[2, 0, 0, 0, 9, 0]);
    assert!(matches!(heard, Heard::Lost(_)), "{heard:?}");
    engine.servers[server].control.state = State::Idle;
    assert!(matches!(engine.service_accounts().bytes(server, b"?"), Heard::Lost(_)));
}

#[test]
fn many_accounts_are_read_elsewhere() {
    let mut engine = engine(1, Settings::default());
    let server = engine.servers.primary().key;
    let (present, former) = (connection(7), connection(8));
    engine.servers[server].control.connection = Some(present);
    let answer = |engine: &mut Engine, accounts: u32| {
        let mut answer = Vec::new();
        let mut packet = |payload: &[u8]| {
            let start = wire::begin_packet(&mut answer);
            answer.extend_from_slice(payload);
            wire::end_packet(&mut answer, start, &mut 0);
        };
        // Ten columns, the definitions of which nobody looks at.
        packet(&[10]);
        (0..10).for_each(|_| packet(b"?"));
        for number in 0..accounts {
            let fields =
                [&format!("customer{number:06}"), "%", "mysql_native_password", "", "0", "0", "", "", "", ""];
            let length = |field: &str| u8::try_from(field.len()).unwrap();
            packet(
                &fields
                    .iter()
                    .flat_map(|field| [&[length(field)], field.as_bytes()].concat())
                    .collect::<Vec<_>>(),
            );
        }
        engine.service_accounts().accounts_told(server, answer)
    };
    assert!(matches!(answer(&mut engine, 3), Heard::Accounts(read) if read.accounts.len() == 3));
    for accounts in [10_000, 20_000] {
        assert!(matches!(answer(&mut engine, accounts), Heard::Nothing));
        assert!(engine.servers[server].control.can_refresh(), "whoever wants a fresh copy waits for it");
        assert!(engine.servers[server].control.can_be_frozen().is_err());
    }
    let Some(Task { work: Work::ReadAccounts(rows), .. }) = engine.io.tasks.next() else { panic!("none") };
    let read = || Finding::Accounts(AccountRows { answer: rows.answer.clone(), server: rows.server }.read());
    let stale = engine.service_accounts().found(server, former, read());
    assert!(matches!(stale, Heard::Nothing), "of a connection that is no more");
    let heard = engine.service_accounts().found(server, present, read());
    assert!(matches!(heard, Heard::Accounts(read) if read.accounts.len() == 10_000));
    assert!(matches!(engine.service_accounts().found(server, present, read()), Heard::Nothing));
    assert!(matches!(answer(&mut engine, 10_000), Heard::Nothing));
    let lost = engine.service_accounts().found(server, present, Finding::Lost);
    assert!(matches!(lost, Heard::Lost(reason) if reason.contains("defect")));
}
