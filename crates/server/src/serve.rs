//! `onramp serve`, from the options to the exit code.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use config::Configuration;
use private_server::{Access, ClientPlace, PrivateServer, Report};
use seam::{Address, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::addresses::Resolved;
use crate::admin_port::AdminPort;
use crate::arguments::Arguments;
use crate::control::glance::Glances;
use crate::control::{Control, Program};
use crate::ending::Ending;
use crate::happening::{Happening, QUEUE_LENGTH};
use crate::history::History;
use crate::http_port::HttpPort;
use crate::logging::{EventLog, Kept, Log};
use crate::memory::Reports;
use crate::names::Name;
use crate::slow_log::SlowLog;
use crate::supervisor::{Sockets, Supervisor};
use crate::tls_files::TlsFiles;
use crate::trial::{Plan, Watching};
use crate::workers::{Reach, Workers};
use crate::{addresses, check, core_dumps, logging, names as host_names, open_files, supervisor, tls_files};

/// Runs `onramp serve` with the arguments after that word. Exit code 2 for options that cannot be used, 1 where
/// something else prevents serving, 0 after an orderly end. With [`check::FLAG`] it only says whether it would.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return crate::print(&config::help());
    }
    serve_with(arguments, None)
}

/// The same behind the help, and with somebody who watches where that is wanted.
pub(crate) fn serve_with(arguments: &[String], trial: Option<Plan>) -> ExitCode {
    let (checks, arguments): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == check::FLAG);
    let arguments = Arguments::new(&arguments);
    if !checks.is_empty() {
        return check::command(&arguments);
    }
    // First of all, while nothing else has one of their numbers.
    let sockets = match Sockets::take() {
        Ok(sockets) => sockets,
        Err(failure) => {
            eprintln!("onramp: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let configuration = match arguments.load() {
        Ok(configuration) => configuration,
        Err(error) => {
            // What is said on the terminal is in a journal that not everybody may read.
            Supervisor::of_environment().status(&error.to_string());
            return crate::usage_error(&error.to_string());
        }
    };
    drivers::give_large_blocks_back();
    let log = match logging::start(configuration.log_level, configuration.log_format) {
        Ok(started) => started,
        Err(message) => {
            eprintln!("onramp: {message}");
            return ExitCode::FAILURE;
        }
    };
    let lines = log.lines.clone();
    if !configuration.core_dumps {
        core_dumps::forbid();
    }
    for doubt in configuration.doubts() {
        tracing::warn!("{doubt}");
    }
    let supervisor = Supervisor::of_environment();
    let served = serve(configuration, arguments, log, &supervisor, sockets, trial).inspect_err(|message| {
        tracing::error!("{message}");
        supervisor.status(&message.to_string());
    });
    lines.finish();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Where the servers are, and as whom they are asked. Returns those that are given by name.
fn name_servers(configuration: &mut Configuration) -> Result<Vec<Name>, Failure> {
    let resolved = addresses::resolve(&configuration.backends)?;
    resolved.warnings(configuration.lookup_interval).iter().for_each(|warning| tracing::warn!("{warning}"));
    let Resolved { found, names, .. } = resolved;
    (configuration.engine.server, configuration.engine.server_names) = found.into_iter().unzip();
    // A name with two addresses is one server.
    configuration.engine.cluster.several = configuration.backends.len() > 1;
    if let Some(backend) = configuration.backends.first() {
        configuration.engine.service_user.clone_from(&backend.user);
        configuration.engine.service_password = backend.password.clone();
    }
    configuration.engine.server_keys = tls_files::server_keys(&configuration.tls)?.into();
    Ok(names)
}

fn serve(
    mut configuration: Configuration,
    arguments: Arguments,
    log: Log,
    supervisor: &Supervisor,
    mut sockets: Sockets,
    trial: Option<Plan>,
) -> Result<(), Failure> {
    let handed_over = sockets.addresses();
    handed_over.replace(&mut configuration)?;
    handed_over.say();
    open_files::raise(&configuration);
    let names = name_servers(&mut configuration)?;
    let tls = Arc::new(TlsFiles::read(&configuration)?);
    let slow_log = SlowLog::start(&configuration.slow_log, log.lines.clone())
        .map_err(|error| format!("no thread for the slow log: {error}"))?;
    let (sender, happenings) = sync_channel(QUEUE_LENGTH);
    forward_signals(sender.clone())?;
    // Listening comes before the private server, which takes seconds: a port in use is said at once, and clients that
    // come early wait in the kernel's queue.
    let workers = Workers::listen(&configuration, sockets.take_of("listen"), &sender)?;
    configuration.engine.client_tls = workers.client_tls().to_vec();
    let admin_port = AdminPort::listen(&configuration, sockets.take_of("admin_listen"))?;
    let http_port = HttpPort::listen(&configuration, sockets.take_of("http_listen").pop())?;
    configuration.engine.most_backends = open_files::backends(&configuration, workers.driver());
    say_what_is_started(&configuration, &workers);
    say_what_is_short(&configuration, &workers);

    let mut private_server = None;
    let mut access = None;
    if configuration.backends.is_empty() {
        supervisor.status("the private server is being started");
        let server = start_private_server(&configuration, sender.clone())?;
        match wait_for_server(&happenings)? {
            Some(ready) => access = Some(ready),
            None => {
                supervisor.stopping(configuration.shutdown_timeout());
                return stop_server(&server, &happenings);
            }
        }
        private_server = Some(server);
    }
    let ending = Arc::new(AtomicBool::new(false));
    let running = Running {
        workers: &workers,
        access: access.as_ref(),
        kept: log.kept.clone(),
        slow_log: slow_log.clone(),
        tls: Arc::clone(&tls),
        http: http_port.as_ref().map(|port| String::from(port.name())),
        supervisor: supervisor.clone(),
        ending: Arc::clone(&ending),
    };
    let open_ports = |configuration: &Configuration, reach| {
        let program = Program {
            configuration: configuration.clone(),
            arguments,
            reach,
            driver: workers.driver(),
            accept_queues: workers.accept_queues(),
            happenings: sender,
            log,
            slow_log: slow_log.clone(),
            tls,
            supervisor: supervisor.clone(),
            handed_over,
            ending,
        };
        let glances = Arc::new(Glances::new(Arc::new(Control::new(program))));
        if admin_port.is_there() || http_port.is_some() {
            open_history(&glances, http_port)?;
        }
        admin_port.open(Arc::clone(&glances.control), access.as_ref())?;
        host_names::watch(names, Arc::clone(&glances.control))?;
        Ok(glances)
    };
    let served = run(configuration, &running, &happenings, open_ports, trial);
    running.slow_log.finish();
    let stopped = private_server.as_ref().map_or(Ok(()), |server| stop_server(server, &happenings));
    served.and(stopped)
}

/// Keeps the history from here on, and serves it by HTTP where there is a port for that.
fn open_history(glances: &Arc<Glances>, http_port: Option<HttpPort>) -> Result<(), Failure> {
    let history =
        History::start(Arc::clone(glances)).map_err(|error| format!("no thread for the history: {error}"))?;
    http_port.map_or(Ok(()), |port| port.open(Arc::clone(glances), Arc::clone(&history)))?;
    // Nobody else has set it.
    let _ = glances.control.history.set(history);
    Ok(())
}

fn say_what_is_started(configuration: &Configuration, workers: &Workers) {
    let servers: Vec<_> = configuration.backends.iter().map(ToString::to_string).collect();
    let engine = &configuration.engine;
    let permits = match (engine.permits, engine.permits_max) {
        (0, 0) => format!("0 (found from {} on)", engine.permits_min),
        (0, most) => format!("0 (found between {} and {most})", engine.permits_min),
        (permits, _) => permits.to_string(),
    };
    let backends = match engine.max_backends {
        0 => String::from("0 (as many as the server allows)"),
        backends => backends.to_string(),
    };
    tracing::info!(
        "onramp {} in front of {}: workers = {}, driver = {}, permits = {}, max_backends = {}, max_connections = {}",
        env!("CARGO_PKG_VERSION"),
        if servers.is_empty() { String::from("a private server") } else { servers.join(", ") },
        workers.count(),
        workers.driver(),
        permits,
        backends,
        engine.max_connections
    );
}

/// Says which limits of this machine do not suffice for as many clients as may come.
fn say_what_is_short(configuration: &Configuration, workers: &Workers) {
    let request = doctor::Request {
        connections: configuration.engine.max_connections,
        role: doctor::Role::Serve,
        driver: workers.driver().into(),
        workers: configuration.workers,
        max_backends: configuration.engine.max_backends,
        back_log: configuration.back_log,
        ..doctor::Request::default()
    };
    for finding in doctor::short(&request) {
        tracing::warn!("{finding}");
    }
}

/// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP become happenings, on a thread of their own: a signal handler may do next to nothing.
fn forward_signals(happenings: SyncSender<Happening>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])
        .map_err(|error| format!("signals cannot be received: {error}"))?;
    let forward = move || {
        for signal in signals.forever() {
            let _ = happenings.send(match signal {
                SIGUSR1 => Happening::AskedToReport,
                SIGUSR2 => Happening::AskedForSlowLog,
                SIGHUP => Happening::AskedForFiles,
                _ => Happening::AskedToEnd,
            });
        }
    };
    std::thread::Builder::new()
        .name(String::from("signals"))
        .spawn(forward)
        .map(|_| ())
        .map_err(|error| format!("no thread for signals: {error}").into())
}

/// A private server is there to try things out: several times what its clients come to need, and little memory.
const CONNECTIONS_OF_PRIVATE_SERVER: u32 = 512;

fn start_private_server(
    configuration: &Configuration,
    happenings: SyncSender<Happening>,
) -> Result<PrivateServer, Failure> {
    let settings = private_server::Settings {
        programs: configuration.server_directory.clone(),
        max_connections: match configuration.engine.max_backends {
            0 => CONNECTIONS_OF_PRIVATE_SERVER,
            // Each worker has a connection of the service account.
            backends => backends.saturating_add(configuration.workers),
        },
        max_allowed_packet: configuration.engine.max_allowed_packet,
        ..private_server::Settings::new(configuration.data_dir.clone())
    };
    let report = move |report| {
        let happening = match report {
            Report::Ready(access) => Happening::ServerReady(access),
            Report::Failed(reason) => Happening::ServerFailed(reason.to_string()),
            Report::Stopped => Happening::ServerStopped,
        };
        let _ = happenings.send(happening);
    };
    Ok(PrivateServer::start(settings, report)?)
}

/// Until the private server answers. `None` where we are asked to end before it does.
fn wait_for_server(happenings: &Receiver<Happening>) -> Result<Option<Access>, Failure> {
    loop {
        match happenings.recv().map_err(|_| String::from("the private server's thread has gone"))? {
            Happening::ServerReady(access) => return Ok(Some(access)),
            Happening::ServerFailed(reason) => return Err(reason.into()),
            Happening::AskedToEnd => return Ok(None),
            Happening::Event(..)
            | Happening::AskedToReport
            | Happening::AskedForFiles
            | Happening::AskedForSlowLog
            | Happening::Memory(..)
            | Happening::EventsLost(_)
            | Happening::CrowdLeft
            | Happening::WorkerEnded(..)
            | Happening::ServerStopped => {}
        }
    }
}

/// The parts that run.
struct Running<'a> {
    workers: &'a Workers,
    access: Option<&'a Access>,
    kept: Kept,
    slow_log: SlowLog,
    tls: Arc<TlsFiles>,
    /// Where HTTP is answered.
    http: Option<String>,
    supervisor: Supervisor,
    /// For operators' ports to see.
    ending: Arc<AtomicBool>,
}

/// Serves until the event loops end, which takes signals or a defect.
fn run(
    mut configuration: Configuration,
    running: &Running<'_>,
    happenings: &Receiver<Happening>,
    open_ports: impl FnOnce(&Configuration, Reach) -> Result<Arc<Glances>, Failure>,
    trial: Option<Plan>,
) -> Result<(), Failure> {
    let Running { workers, access, .. } = *running;
    if let Some(access) = access {
        configuration.engine.server = vec![Address::Unix(access.socket.clone())];
        configuration.engine.service_user.clone_from(&access.service_user);
        configuration.engine.service_password = access.service_password.clone();
    }
    if let Some(access) = access {
        access.write_client_file(workers.listening().first().map(client_place).as_ref())?;
    }
    let ending = Ending::new(configuration.drain_wait, configuration.shutdown_timeout());
    let reach = workers.begin(&configuration.engine, &running.tls, &running.slow_log)?;
    let glances = open_ports(&configuration, reach)?;
    say_ready(workers.listening(), running.http.as_deref(), access);
    running.supervisor.ready();
    supervisor::watch(&running.supervisor, Arc::clone(&glances))?;
    let watching = trial.map(|plan| Watching::start(plan, Arc::clone(&glances.control))).transpose()?;
    wait_for_workers(happenings, running, &glances.control, ending, watching)
}

fn client_place(listening: &drivers::ListenAddress) -> ClientPlace {
    match (addresses::reachable(listening), listening) {
        (Some(tcp), _) => ClientPlace::Tcp(tcp),
        (None, drivers::ListenAddress::Unix(socket)) => ClientPlace::Unix(socket.clone()),
        (None, drivers::ListenAddress::Tcp(tcp)) => ClientPlace::Tcp(*tcp),
    }
}

fn say_ready(listening: &[drivers::ListenAddress], http: Option<&str>, access: Option<&Access>) {
    let names: Vec<_> = listening.iter().map(ToString::to_string).collect();
    let http = http.map_or_else(String::new, |name| format!("; http://{name}/"));
    tracing::info!("ready: listening on {}{http}", names.join(", "));
    for (position, address) in listening.iter().enumerate() {
        let place = match addresses::reachable(address) {
            Some(tcp) => format!("--protocol=tcp --host={} --port={}", tcp.ip(), tcp.port()),
            None => format!("--protocol=socket --socket={address}"),
        };
        match access.map(Access::client_option) {
            // The file holds the first address, so that the shortest command is enough.
            Some(file) if position == 0 => tracing::info!("connect with: mariadb {file}"),
            Some(file) => tracing::info!("or with: mariadb {file} {place}"),
            None => tracing::info!("connect with: mariadb {place} --user=NAME --password"),
        }
    }
}

fn wait_for_workers(
    happenings: &Receiver<Happening>,
    running: &Running<'_>,
    control: &Control,
    mut ending: Ending,
    mut watching: Option<Watching>,
) -> Result<(), Failure> {
    let workers = running.workers;
    let mut left = workers.count();
    let mut outcome = Ok(());
    let mut reports = Reports::of(workers.count());
    let mut log = EventLog::new(running.kept.clone());
    while left > 0 {
        let left_of_stage = ending.until().map(|until| until.saturating_duration_since(Instant::now()));
        let happening = match left_of_stage {
            None => happenings.recv().ok(),
            // However much there is to log.
            Some(Duration::ZERO) => None,
            Some(left) => happenings.recv_timeout(left).ok(),
        };
        match happening {
            None => match ending.time_is_up() {
                Some(signal) => workers.signal(signal),
                None => return outcome.and(Err("an event loop does not end; giving up".into())),
            },
            Some(Happening::WorkerEnded(number, result)) => {
                left -= 1;
                reports.ended(number);
                if let Err(error) = result {
                    // The loop's clients are gone, and what of its state the others share is in doubt: nothing to go on with.
                    outcome = outcome.and(Err(format!("an event loop has ended: {error}").into()));
                    workers.signal(ending.stop(Instant::now()));
                }
            }
            Some(Happening::Event(number, event)) => log.event(number, &event),
            Some(Happening::EventsLost(count)) => {
                tracing::warn!("{count} lines of the log were lost: it is read too slowly");
            }
            Some(Happening::CrowdLeft) => drivers::give_back_freed_memory(),
            Some(Happening::ServerFailed(reason)) => tracing::error!("{reason}"),
            Some(Happening::ServerReady(_) | Happening::ServerStopped) => {}
            Some(Happening::AskedForFiles) => control.reload_and_say(),
            Some(Happening::AskedForSlowLog) => running.slow_log.reopen(),
            Some(Happening::AskedToReport) => {
                reports.begin();
                workers.signal(Signal::Report);
                if let Some(watching) = &watching {
                    watching.report();
                }
            }
            Some(Happening::Memory(number, memory)) => reports.take(number, memory, &workers.counters()),
            Some(Happening::AskedToEnd) => {
                running.ending.store(true, Ordering::Relaxed);
                running.supervisor.stopping(
                    ending.longest() + watching.as_ref().map_or(Duration::ZERO, Watching::longest_end),
                );
                // While the clients are still there.
                if let Some(watching) = watching.take() {
                    outcome = outcome.and(watching.finish());
                }
                if let Some(signal) = ending.asked(Instant::now()) {
                    workers.signal(signal);
                }
            }
        }
    }
    outcome
}

/// Stops the private server and waits for it, or not, where we are asked once more to end.
fn stop_server(server: &PrivateServer, happenings: &Receiver<Happening>) -> Result<(), Failure> {
    server.stop();
    loop {
        match happenings.recv().map_err(|_| String::from("the private server's thread has gone"))? {
            Happening::ServerStopped => return Ok(()),
            Happening::ServerFailed(reason) => return Err(reason.into()),
            Happening::AskedToEnd => {
                tracing::info!("not waiting for the private server: it goes on stopping by itself");
                return Ok(());
            }
            Happening::Event(..)
            | Happening::AskedToReport
            | Happening::AskedForFiles
            | Happening::AskedForSlowLog
            | Happening::Memory(..)
            | Happening::EventsLost(_)
            | Happening::CrowdLeft
            | Happening::WorkerEnded(..)
            | Happening::ServerReady(_) => {}
        }
    }
}
