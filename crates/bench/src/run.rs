//! `onramp bench run`, step by step: a driver, what the machine allows, a server that answers, the load, the report.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use drivers::{Driver, DriverChoice, DriverKind};
use seam::Address;
use tls::{Connector, ServerCheck, Tls};

use crate::crowd::Crowd;
use crate::distribution::{Distribution, Random};
use crate::errors::{ClientError, Failure};
use crate::generator::{Generator, News, Outcome};
use crate::journal::Journal;
use crate::local_addresses::{Demand, Ports, TimeWait, choose, describe, suffices_alone};
use crate::options::{RunOptions, ServerOptions, TableOptions};
use crate::progress::Progress;
use crate::report::Context;
use crate::script::{Stage, execute};
use crate::trouble::{Lack, NoResult, Trouble};
use crate::workload::Tables;
use crate::workload::encode::Source;
use crate::{answering, credentials, interrupts, limits, machine, print, report, seed, target};
use login::Credentials;

/// Puts the load on and reports.
pub fn run_load(options: &RunOptions) -> Result<(), Trouble> {
    let tables = &options.tables;
    options.check()?;
    let mut driver = open_driver(options)?;
    // Tables are looked for in the schema; without tables there need not be one.
    let schema = (tables.workload().tables() != Tables::None).then_some(tables.server.db.as_str());
    let common = credentials(&tables.server, schema);
    let credentials = common.numbered(options.users.map(|_| 1), options.schemas.map(|_| 1));
    let remotes = answering(&tables.server, &credentials, &probe(tables))?;
    let locals = local_addresses(options, &remotes, &credentials)?;
    let addresses = target::spread(&remotes, &locals);
    let seed = seed(tables);
    let mut random = Random::new(seed);
    let run = random.next() as u32;
    let rows = Distribution::new(tables.shape(), tables.table_size);
    let mut source = Source::new(random, rows, tables.tables, run);
    source.range_rows = options.range_size;
    source.sleep_time = options.sleep_time;
    let crowd = crowd(options, common, seed);
    let mut journal =
        options.journal.as_deref().map(Journal::create).transpose().map_err(unwritable(&options.journal))?;
    let outcome = generate(&mut driver, options, crowd, addresses, source, journal.as_mut())?;
    if let Some(journal) = journal {
        journal.finish().map_err(unwritable(&options.journal))?;
    }
    let context = Context {
        options,
        seed,
        driver: driver.kind(),
        local_addresses: &locals,
        machine: machine::Machine::describe(),
        version: env!("CARGO_PKG_VERSION"),
    };
    // A run that ended before the load began has nothing to report but its errors.
    if outcome.measured.is_zero() {
        eprint!("{}", report::errors_while_connecting(&outcome));
    } else {
        print(&report::summary(&outcome, &context));
    }
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report::to_json(&outcome, &context));
        std::fs::write(path, text).map_err(unwritable(&options.json))?;
    }
    verdict(outcome)
}

fn unwritable(path: &Option<PathBuf>) -> impl Fn(std::io::Error) -> Trouble {
    let path = path.clone().unwrap_or_default();
    move |error| Lack::File { path: path.clone(), error }.into()
}

/// Who logs in, and how.
fn crowd(options: &RunOptions, common: Credentials, seed: u64) -> Crowd {
    Crowd::drawn(common, options.users, options.schemas, options.crowd_shape(), seed)
        .with_session_states(options.session_states)
        .with_mixed_drivers(options.mixed_drivers)
}

/// The driver of the load, with the descriptors that it takes.
fn open_driver(options: &RunOptions) -> Result<Driver, Trouble> {
    limits::raise_open_files();
    let opened = Driver::open(options.driver, drivers::Settings::default())
        .map_err(|error| Lack::Driver { choice: options.driver, error })?;
    if let Some(reason) = &opened.fallback {
        eprintln!("epoll in place of io_uring: {reason}");
    }
    let kind = opened.driver.kind();
    limits::allow_open_files(options.connections, kind, || match (kind, options.driver) {
        (DriverKind::Epoll, DriverChoice::Epoll) => drivers::probe_uring().err(),
        _ => opened.fallback,
    })?;
    Ok(opened.driver)
}

/// The local addresses to connect from, each of them tried. None means that the system chooses.
fn local_addresses(
    options: &RunOptions,
    remotes: &[Address],
    credentials: &Credentials,
) -> Result<Vec<IpAddr>, Trouble> {
    let given = &options.tables.server.local_address;
    // Where the range cannot be read, connecting will tell.
    let Some(ports) = Ports::read() else { return Ok(given.clone()) };
    let demand = if options.tables.workload().reconnects() {
        let rates = [options.rate, options.connect_rate].into_iter().flatten();
        Demand::reconnecting(options.connections, rates.reduce(f64::min), TimeWait::read())
    } else {
        Demand::standing(options.connections)
    };
    let locals = choose(remotes, given, demand, ports)?;
    if given.is_empty() {
        if let Some(text) = describe(demand, &locals) {
            eprintln!("{text}");
        }
    }
    match try_each(&locals, remotes, &options.tables.server, credentials) {
        Ok(()) => Ok(locals),
        Err(trouble) if given.is_empty() && suffices_alone(remotes.len(), demand, ports) => {
            eprintln!("{trouble}. One will do, more slowly");
            Ok(Vec::new())
        }
        Err(trouble) => Err(trouble),
    }
}

/// A server may know the account from one address and not from another, which had better be said before the run.
fn try_each(
    locals: &[IpAddr],
    remotes: &[Address],
    server: &ServerOptions,
    credentials: &Credentials,
) -> Result<(), Trouble> {
    for local in locals {
        let Some(address) = target::spread(remotes, &[*local]).into_iter().next() else { continue };
        if let Err(failure) = execute(&address, credentials, 1, vec![Stage::single("SELECT 1")]) {
            let (local, user) = (*local, server.user.clone());
            return Err(Trouble::Account { local, locals: locals.len(), user, failure });
        }
    }
    Ok(())
}

fn generate(
    driver: &mut Driver,
    options: &RunOptions,
    crowd: Crowd,
    addresses: Vec<Address>,
    source: Source,
    journal: Option<&mut Journal>,
) -> Result<Outcome, Failure> {
    let interrupts = interrupts::forward(driver)?;
    let failed = |reason| Failure::new(ClientError::Handshake, format!("TLS: {reason}"));
    let (crowd, connector) = if options.tls {
        let connector = Connector::new(ServerCheck::None, None, None).map_err(failed)?;
        (crowd.with_tls(), Some(Arc::new(connector)))
    } else {
        (crowd, None)
    };
    let tell = display(options.connections, journal);
    let generator = Generator::new(options, crowd, addresses, source, tell);
    let mut program = Tls::new(generator, None, connector);
    let ran = driver.run(&mut program);
    let generator = program.into_inner();
    drop(interrupts);
    ran.map_err(|error| Failure::new(ClientError::Lost, format!("the event loop failed: {error}")))?;
    Ok(generator.into_outcome())
}

/// Shows a run to people: how far the connecting is, then a line of figures now and then. What becomes of markers goes into the
/// journal.
fn display(connections: u32, mut journal: Option<&mut Journal>) -> impl FnMut(News<'_>) {
    let mut connecting = None;
    move |news| match news {
        News::Connecting { up } => connecting
            .get_or_insert_with(|| Progress::new("connecting", u64::from(connections)))
            .reach(u64::from(up)),
        News::Opened => connecting = None,
        News::Marker { fate, marker } => {
            if let Some(journal) = &mut journal {
                journal.note(fate, marker);
            }
        }
        News::Interval(interval) => print(&format!("{}\n", report::interval_line(&interval))),
    }
}

fn verdict(outcome: Outcome) -> Result<(), Trouble> {
    match outcome.failure {
        Some(failure) => Err(failure.into()),
        None if outcome.statistics.mismatches > 0 => {
            Err(NoResult::WrongAnswers(outcome.statistics.mismatches).into())
        }
        None if outcome.measured.is_zero() => {
            Err(NoResult::Interrupted { connected: outcome.connected }.into())
        }
        None => Ok(()),
    }
}

/// One statement that fails at once where the run would.
fn probe(options: &TableOptions) -> String {
    match options.workload().tables() {
        Tables::None => "SELECT 1".to_owned(),
        Tables::Sbtest => format!("SELECT id FROM sbtest{} LIMIT 1", options.tables),
        Tables::Ledger => "SELECT id FROM ledger_marker LIMIT 1".to_owned(),
    }
}
