//! Orders on Onramp's admin port while a program runs: its options change, and its clients must not notice.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Failure;
use crate::connection::{Connection, Login, Role, plain_capabilities};
use crate::differences::show;
use crate::random::Random;
use crate::step::Step;

/// The admin port's user.
pub(crate) const USER: &str = "admin";

/// Its password here.
pub(crate) const PASSWORD: &str = "orders";

/// Between orders: long enough for some statements, short enough for some orders in each program.
const PAUSE: Duration = Duration::from_millis(5);

/// Options, and what they change to. None of these values is a bound that programs could run into.
const ORDERS: [(&str, &[&str]); 9] = [
    ("permits", &["1", "2", "16", "64"]),
    ("statements_in_flight", &["1", "4", "16"]),
    ("shared_backends", &["1", "4"]),
    ("coalesce_reads", &["on", "off"]),
    ("lazy_set", &["on", "off"]),
    ("lazy_begin", &["on", "off"]),
    ("rescue_reads", &["on", "off"]),
    ("backend_prepared_statements", &["1", "3", "100"]),
    ("backend_idle_timeout", &["'1s'", "'1m'"]),
];

/// Gives one order after the other until `over`.
///
/// # Errors
/// What the admin port has refused.
pub(crate) fn give(socket: &Path, seed: u64, over: &AtomicBool) -> Result<(), Failure> {
    let mut connection = open(socket)?;
    let mut random = Random::new(seed);
    while !over.load(Ordering::Relaxed) {
        let (option, values) = random.one_of(&ORDERS);
        let order = format!("SET GLOBAL {option} = {}", random.one_of(values));
        let replies = connection.perform(&Step::Query(order.clone().into_bytes()));
        match replies[0].packets.first() {
            Some(packet) if packet.role == Role::Ok => {}
            Some(packet) => return Err(format!("{order}: {}", show(packet)).into()),
            // Onramp has ended, which is told elsewhere.
            None => return Ok(()),
        }
        std::thread::sleep(PAUSE);
    }
    connection.quit();
    Ok(())
}

/// Opens a connection to the admin port.
///
/// # Errors
/// What is in its way.
pub(crate) fn open(socket: &Path) -> Result<Connection, Failure> {
    let login = Login {
        user: USER.into(),
        schema: String::new(),
        collation: 45, // utf8mb4_general_ci
        capabilities: plain_capabilities().0,
    };
    Connection::open(socket, &login, PASSWORD)
        .map(|(connection, _)| connection)
        .map_err(|error| format!("admin port {}: {error}", socket.display()).into())
}
