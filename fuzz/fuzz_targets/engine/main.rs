//! The engine between clients and a server that do as they please: it stays within its bounds, gives nobody what is
//! another's, and nothing is left of those who have gone.
#![no_main]

mod client;
mod server;
mod world;

use std::time::Duration;

use arbitrary::Arbitrary;
use engine::{HighPrioMode, Settings, ThreadHandling};
use libfuzzer_sys::fuzz_target;
use seam::{Address, Signal};

use self::client::{Form, Use};
use self::server::{Answer, Kind, SERVICE_USER};
use self::world::{Side, World};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    setup: Setup,
    steps: Vec<Step<'a>>,
}

#[derive(Arbitrary, Debug)]
struct Setup {
    permits: u8,
    statements_in_flight: u8,
    shared_backends: u8,
    max_backends: u8,
    max_connections: u8,
    /// Bits of choices.
    choices: u8,
    memory: u8,
    packet: u8,
    /// Clients that are there from the beginning, and their capabilities.
    clients: u8,
    extra: u8,
    /// What the server is.
    kind: Kind,
}

#[derive(Arbitrary, Debug)]
struct Step<'a> {
    /// The turn goes on behind it.
    batched: bool,
    operation: Operation<'a>,
}

#[derive(Arbitrary, Debug)]
enum Operation<'a> {
    /// A client connects and logs in.
    Arrive {
        user: u8,
        extra: u8,
        schema: bool,
    },
    /// It only connects.
    Accept,
    Login {
        client: u8,
        user: u8,
        extra: u8,
        schema: bool,
    },
    /// A statement that the engine has something to do with, cut in two.
    Statement {
        client: u8,
        which: u8,
        other: u8,
        form: Form,
        filler: u8,
        cut: u8,
    },
    /// Something about a prepared statement.
    Prepared {
        client: u8,
        what: Use,
        number: u8,
        body: &'a [u8],
    },
    RegisterReplica {
        client: u8,
    },
    /// A replica asks for the binary log.
    Dump {
        client: u8,
        gtid: bool,
    },
    /// All clients send the same one.
    Crowd {
        which: u8,
    },
    /// From now on another server answers at the address.
    Replace(Kind),
    ChangeUser {
        client: u8,
        user: u8,
    },
    /// Any message.
    Message {
        client: u8,
        sequence: u8,
        payload: &'a [u8],
    },
    ClientGarbage {
        client: u8,
        bytes: &'a [u8],
    },
    ClientCloses {
        client: u8,
    },
    /// The server answers a command, but for the end.
    Answer {
        server: u8,
        how: Answer,
        held_back: u8,
    },
    /// It answers whatever it has been asked, everywhere.
    AnswerAll,
    Deliver {
        server: u8,
        bytes: u8,
    },
    ServerGarbage {
        server: u8,
        bytes: &'a [u8],
    },
    ServerCloses {
        server: u8,
    },
    Connect {
        succeeds: bool,
    },
    StallOrDrain {
        server: bool,
        which: u8,
    },
    Wait {
        millis: u16,
    },
    WaitForTimeout,
    Automatic(bool),
    Signal {
        drain: u8,
    },
}

/// Beyond this an input only takes longer.
const STEPS: usize = 200;

fuzz_target!(|input: Input<'_>| {
    let mut world = World::new(settings(&input.setup), input.setup.choices & 1 == 0, input.setup.kind);
    world.end_turn();
    for _ in 0..input.setup.clients % 5 {
        operate(&mut world, &Operation::Arrive { user: 1, extra: input.setup.extra, schema: false });
        world.end_turn();
    }
    for step in input.steps.iter().take(STEPS) {
        if world.finished {
            break;
        }
        operate(&mut world, &step.operation);
        if !step.batched {
            world.end_turn();
        }
    }
    world.end_turn();
    if !world.finished && input.setup.choices & 2 == 0 {
        world.close_everything();
    }
    world.drain();
});

fn settings(setup: &Setup) -> Settings {
    let remote = ([10, 0, 0, 2], 3306).into();
    let one_of = |choice: u8, sizes: [usize; 4]| sizes[usize::from(choice) % sizes.len()];
    Settings {
        server: vec![Address::Tcp { remote, local: None }],
        service_user: String::from(SERVICE_USER),
        thread_handling: match setup.choices & 0x1c {
            0x1c => ThreadHandling::OneThreadPerConnection,
            _ => ThreadHandling::PoolOfThreads,
        },
        permits: u32::from(setup.permits % 3) + 1,
        statements_in_flight: u32::from(setup.statements_in_flight % 4) + 1,
        shared_backends: u32::from(setup.shared_backends % 2) + 1,
        max_backends: u32::from(setup.max_backends % 4) + 1,
        max_connections: u32::from(setup.max_connections % 6) + 2,
        high_prio_mode: match setup.choices >> 5 & 3 {
            0 | 1 => HighPrioMode::Transactions,
            2 => HighPrioMode::Statements,
            _ => HighPrioMode::None,
        },
        high_prio_tickets: if setup.choices & 0x80 == 0 { u32::MAX } else { 1 },
        // Short, so that the times of operations reach all of them.
        prio_kickup_timer: Duration::from_millis(100),
        stall_limit: if setup.memory & 0x80 == 0 { Duration::from_millis(60) } else { Duration::MAX },
        connect_timeout: Duration::from_secs(3),
        backend_connect_timeout: Duration::from_secs(2),
        backend_idle_timeout: Duration::from_secs(4),
        wait_timeout: Duration::from_secs(30),
        net_write_timeout: Duration::from_secs(5),
        shutdown_timeout: Duration::from_secs(6),
        max_allowed_packet: one_of(setup.packet, [64, 1024, 65_536, 131_072]),
        statement_memory: one_of(setup.memory, [128, 2048, 100_000, 1 << 20]),
        entropy: [7; 32],
        ..Settings::default()
    }
}

fn operate(world: &mut World, operation: &Operation<'_>) {
    match *operation {
        Operation::Signal { drain } => match drain {
            0..4 => world.signal(Signal::Drain),
            4 => world.signal(Signal::Stop),
            _ => {}
        },
        Operation::Connect { succeeds } => world.connect(succeeds),
        Operation::Wait { millis } => world.wait(Duration::from_millis(u64::from(millis))),
        Operation::WaitForTimeout => world.wait_for_timeout(),
        Operation::Automatic(automatic) => world.automatic = automatic,
        Operation::Replace(kind) => world.kind = kind,
        Operation::StallOrDrain { server, which } => {
            let side = if server { Side::Servers } else { Side::Clients };
            if let Some(id) = world.find(side, which) {
                world.stall_or_drain(id);
            }
        }
        Operation::Answer { .. }
        | Operation::AnswerAll
        | Operation::Deliver { .. }
        | Operation::ServerGarbage { .. }
        | Operation::ServerCloses { .. } => operate_server(world, operation),
        _ => operate_client(world, operation),
    }
}

fn operate_server(world: &mut World, operation: &Operation<'_>) {
    let (Operation::Answer { server, .. }
    | Operation::Deliver { server, .. }
    | Operation::ServerGarbage { server, .. }
    | Operation::ServerCloses { server }) = *operation
    else {
        return answer_all(world);
    };
    let Some(id) = world.find(Side::Servers, server) else { return };
    match *operation {
        Operation::Answer { how, held_back, .. } => world.answer(id, how, usize::from(held_back)),
        Operation::Deliver { bytes, .. } => world.deliver(id, usize::from(bytes)),
        Operation::ServerGarbage { bytes, .. } => world.garbage(id, bytes),
        _ => world.close(id),
    }
}

fn answer_all(world: &mut World) {
    for id in world.all(Side::Servers) {
        world.answer(id, Answer::default(), usize::MAX);
    }
}

fn operate_client(world: &mut World, operation: &Operation<'_>) {
    match *operation {
        Operation::Accept => world.accept(),
        Operation::Arrive { user, extra, schema } => {
            world.accept();
            world.end_turn();
            if let Some(id) = world.newest_client() {
                world.bytes(id, &client::login(user, extra, schema));
            }
        }
        Operation::Crowd { which } => {
            for id in world.all(Side::Clients) {
                let statement = client::statement(which, Form::Text, &world.mark(id), 0, 0);
                world.bytes(id, &statement);
            }
        }
        Operation::Login { client, user, extra, schema } => {
            send(world, client, &client::login(user, extra, schema));
        }
        Operation::ChangeUser { client, user } => send(world, client, &client::change_user(user)),
        Operation::Message { client, sequence, payload } => {
            if let Some(id) = world.find(Side::Clients, client) {
                world.garbage(id, &client::framed(sequence, payload));
            }
        }
        Operation::Prepared { client, what, number, body } => {
            if let Some(id) = world.find(Side::Clients, client) {
                world.garbage(id, &client::prepared(what, number % 5, body));
            }
        }
        Operation::RegisterReplica { client } => send(world, client, &client::register_replica()),
        Operation::Dump { client, gtid } => {
            if let Some(id) = world.find(Side::Clients, client) {
                let dump = client::dump(gtid, &world.mark(id));
                world.bytes(id, &dump);
            }
        }
        Operation::ClientGarbage { client, bytes } => {
            if let Some(id) = world.find(Side::Clients, client) {
                world.garbage(id, bytes);
            }
        }
        Operation::ClientCloses { client } => {
            if let Some(id) = world.find(Side::Clients, client) {
                world.close(id);
            }
        }
        Operation::Statement { client, which, other, form, filler, cut } => {
            let Some(id) = world.find(Side::Clients, client) else { return };
            // Clients are numbered from this on.
            let other = 1 << 30 | u32::from(other % 8);
            let filler = usize::from(filler) * usize::from(filler);
            let bytes = client::statement(which, form, &world.mark(id), other, filler);
            let (front, rest) = bytes.split_at(bytes.len().min(usize::from(cut)));
            world.bytes(id, front);
            world.bytes(id, rest);
        }
        _ => {}
    }
}

fn send(world: &mut World, client: u8, bytes: &[u8]) {
    if let Some(id) = world.find(Side::Clients, client) {
        world.bytes(id, bytes);
    }
}
