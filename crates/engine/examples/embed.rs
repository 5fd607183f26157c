//! The engine without a driver: this program tells it what has happened, and prints what it asks for.
//!
//! A driver repeats one turn. It hands in all that has happened, then [`Input::TurnEnd`]; it carries out each [`Output`] until there is
//! none left; and it comes back when something happens, or [`Program::next_timeout`] has passed. Here nothing is carried out. What
//! happens is made up, and so is the time: each run prints the same.
//!
//! `cargo run --package engine --example embed` runs it. `crates/drivers` has the loop on real sockets, and `crates/simulator` has it
//! under a virtual clock, with clients and a server that answer.

use engine::{Engine, Settings};
use seam::{Address, ConnectionId, Input, Instant, ListenerId, Output, Peer, Program, Signal};

/// ECONNREFUSED.
const REFUSED: i32 = 111;

fn main() {
    let server = Address::Tcp { remote: ([127, 0, 0, 1], 3306).into(), local: None };
    let mut engine = Engine::new(Settings { server: vec![server], ..Settings::default() });
    let connection = ConnectionId { index: 0, generation: 0 };
    let peer = Peer::Tcp(([192, 0, 2, 7], 40_000).into());
    let mut now = Instant::START;

    let accepted = Input::Accepted { connection, listener: ListenerId(0), peer };
    let token = turn(&mut engine, now, "a client connects", accepted).expect("the server is needed");
    turn(&mut engine, now, "the server refuses", Input::ConnectFailed { token, errno: REFUSED });

    now = engine.next_timeout().expect("another attempt is to be made");
    turn(&mut engine, now, "that time has come", Input::TurnEnd);
    turn(&mut engine, now, "SIGTERM", Input::Signal(Signal::Drain));
}

/// A turn in which one thing happens. Gives the token of the connection that the engine asks for.
fn turn(engine: &mut Engine, now: Instant, what: &str, input: Input<'_>) -> Option<u64> {
    println!("{} us: {what}", now.as_micros());
    engine.handle(now, input);
    engine.handle(now, Input::TurnEnd);
    let mut asked = None;
    while let Some(output) = engine.poll_output() {
        println!("    would do: {output:?}");
        if let Output::Connect { token, .. } = output {
            asked = Some(token);
        }
    }
    while let Some(event) = engine.poll_event() {
        println!("    would log: {event}");
    }
    asked
}
