//! The private server's command line: each setting with its reason.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::folder::{Folder, RunAs};
use super::programs::{Flavour, Programs, SHELL, setpriv};
use super::settings::{Replication, Settings, ThreadHandling};

/// Connections beside the backends: the service account's, and people's who connect past Onramp.
const OTHER_CONNECTIONS: u32 = 32;

/// A quarter of memory: enough for a server to be fast, little enough for a machine that has other work.
const BUFFER_POOL_SHARE: u64 = 4;
/// InnoDB's own default; less makes even small tables slow.
const SMALLEST_BUFFER_POOL: u64 = 128 << 20;
/// A private server is for first steps; whoever has more data than this sets up a server of their own.
const LARGEST_BUFFER_POOL: u64 = 8 << 30;

/// The command that runs the server.
pub(crate) fn server(
    programs: &Programs,
    folder: &Folder,
    settings: &Settings,
    init_file: Option<&Path>,
) -> Command {
    let mut command = as_user(programs, folder.run_as(), &programs.server);
    // First of all, as the server wants it: no configuration files. The same on every machine.
    command.arg("--no-defaults").arg(data_dir_argument(folder));
    command.arg(with_path("--tmpdir=", &folder.temporary()));
    command.arg(with_path("--socket=", folder.socket()));
    command.arg(with_path("--pid-file=", &folder.pid_file()));
    if folder.run_as() == &RunAs::Root {
        command.arg("--user=root");
    }
    if let Some(init_file) = init_file {
        command.arg(with_path("--init-file=", init_file));
    }
    command.args(arguments(settings, memory()));
    command.args(match settings.replication {
        // Nothing would read a log of changes; each commit is one flush cheaper.
        None => vec![String::from("--skip-log-bin")],
        Some(replication) => replicating(&programs.flavour, replication),
    });
    match programs.flavour {
        Flavour::MariaDb { .. } => {}
        // Its second protocol would listen on a port of its own, and the folder for files that statements read and write
        // is one of the system's, without which it does not start.
        Flavour::MySql => {
            command.args(["--loose-mysqlx=OFF", "--secure-file-priv=NULL"]);
        }
    }
    command.args(&settings.arguments);
    command
}

/// `--datadir=...`, by which a running server is also recognised.
pub(crate) fn data_dir_argument(folder: &Folder) -> OsString {
    with_path("--datadir=", &folder.data())
}

/// Runs a program as the server's user and, where `setpriv` can do that, ends it in an orderly way when we are gone,
/// whatever the reason. `setpriv` sets the signal after it has changed the user, which would clear it (prctl(2)).
pub(crate) fn as_user(programs: &Programs, run_as: &RunAs, program: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;
    let Some(setpriv) = &programs.setpriv else {
        let mut command = without_our_supervisor(program);
        if let RunAs::User(user) = run_as {
            command.uid(user.uid).gid(user.gid);
        }
        return command;
    };
    let mut command = without_our_supervisor(setpriv);
    if let RunAs::User(user) = run_as {
        command
            .arg(format!("--reuid={}", user.uid))
            .arg(format!("--regid={}", user.gid))
            .arg("--init-groups");
    }
    end_with_us(&mut command, program);
    command
}

/// What a supervisor such as systemd says to whom it starts. MariaDB and MySQL speak its protocol too, and would answer in our place.
const OF_A_SUPERVISOR: [&str; 6] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

fn without_our_supervisor(program: &Path) -> Command {
    let mut command = Command::new(program);
    OF_A_SUPERVISOR.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// A command that runs `program` and, where `setpriv` can see to it, has the system end the program in an orderly way
/// (SIGTERM) when the thread that started it is gone, whatever the reason.
pub fn tied_to_us(program: &Path) -> Command {
    let Some(setpriv) = setpriv() else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    end_with_us(&mut command, program);
    command
}

/// Runs the rest of its arguments unless its parent is no longer the process of the first one.
const UNLESS_WE_ARE_GONE: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// The arguments of `setpriv` that have the system end `program` when we are gone. The signal is for an end that comes later: where we
/// were gone already as `setpriv` asked for it, the program does not begin at all.
fn end_with_us(setpriv: &mut Command, program: &Path) {
    let us = std::process::id().to_string();
    setpriv.args(["--pdeathsig=TERM", "--", SHELL, "-c", UNLESS_WE_ARE_GONE, &us]).arg(program);
}

fn arguments(settings: &Settings, memory: u64) -> Vec<String> {
    let connections = settings.max_connections.saturating_add(OTHER_CONNECTIONS);
    let share = (memory / BUFFER_POOL_SHARE).clamp(SMALLEST_BUFFER_POOL, LARGEST_BUFFER_POOL);
    let mut arguments = network(settings.port);
    arguments.extend([
        // Backends, and some for the service account and for people.
        format!("--max-connections={connections}"),
        // A backend that is closed leaves its thread to the next.
        format!("--thread-cache-size={}", settings.max_connections.min(16_384)),
        // A statement that Onramp lets pass must not be refused here. The server rounds down to 1024.
        format!("--max-allowed-packet={}", settings.max_allowed_packet),
        format!("--innodb-buffer-pool-size={}", settings.buffer_pool.unwrap_or(share)),
        // A commit that was acknowledged is on disk.
        String::from("--innodb-flush-log-at-trx-commit=1"),
        // Costs memory and some per cent of throughput; off in MariaDB's own default too.
        String::from("--performance-schema=OFF"),
        // What Debian's and Fedora's packages and newer versions set: all of Unicode.
        String::from("--character-set-server=utf8mb4"),
        String::from("--collation-server=utf8mb4_general_ci"),
    ]);
    match settings.thread_handling {
        // The default, which some builds of MySQL take no other word for.
        ThreadHandling::OneThreadPerConnection => {}
        handling @ ThreadHandling::PoolOfThreads => {
            arguments.push(format!("--thread-handling={}", handling.name()));
        }
    }
    arguments
}

/// How long a commit waits for a replica, in milliseconds: for longer than any of these servers runs. A server that gives up waiting
/// acknowledges what its end would lose.
const ACKNOWLEDGED_BY_A_REPLICA: u32 = 4_000_000_000;

/// With names of logs that do not depend on the machine's.
fn replicating(flavour: &Flavour, Replication { server_id, read_only }: Replication) -> Vec<String> {
    let on = |is_on: bool| if is_on { "ON" } else { "OFF" };
    let mut arguments = vec![
        format!("--server-id={server_id}"),
        format!("--read-only={}", on(read_only)),
        String::from("--log-bin=log"),
        String::from("--relay-log=relay"),
        String::from("--binlog-format=ROW"),
    ];
    // What waits for a replica is whoever has some: a replica's own commits would wait for ever.
    match flavour {
        // <https://mariadb.com/docs/server/ha-and-performance/standard-replication/semisynchronous-replication>
        Flavour::MariaDb { .. } => arguments.extend([
            String::from("--log-slave-updates"),
            String::from("--skip-slave-start"),
            String::from("--rpl-semi-sync-slave-enabled=ON"),
            format!("--rpl-semi-sync-master-enabled={}", on(!read_only)),
            String::from("--rpl-semi-sync-master-wait-point=AFTER_SYNC"),
            format!("--rpl-semi-sync-master-timeout={ACKNOWLEDGED_BY_A_REPLICA}"),
        ]),
        // <https://dev.mysql.com/doc/refman/8.4/en/replication-semisync-installation.html>. AFTER_SYNC is the default.
        Flavour::MySql => arguments.extend([
            String::from("--gtid-mode=ON"),
            String::from("--enforce-gtid-consistency=ON"),
            String::from("--skip-replica-start=ON"),
            String::from("--plugin-load-add=semisync_source.so"),
            String::from("--plugin-load-add=semisync_replica.so"),
            String::from("--rpl-semi-sync-replica-enabled=ON"),
            format!("--rpl-semi-sync-source-enabled={}", on(!read_only)),
            format!("--rpl-semi-sync-source-timeout={ACKNOWLEDGED_BY_A_REPLICA}"),
        ]),
    }
    arguments
}

/// Names are never looked up, and without --skip-name-resolve a client on 127.0.0.1 counts as `localhost`, as people
/// expect.
fn network(port: Option<u16>) -> Vec<String> {
    match port {
        // The Unix socket alone: nobody reaches the server past Onramp from another machine.
        None => vec![String::from("--skip-networking")],
        Some(port) => vec![String::from("--bind-address=127.0.0.1"), format!("--port={port}")],
    }
}

fn with_path(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}

/// Bytes of memory for this process: the machine's, or the container's limit (cgroup 2) where that is lower.
fn memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    let container =
        std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    match (machine, container) {
        (Some(machine), Some(container)) => u64::min(machine, container),
        (machine, container) => machine.or(container).unwrap_or(0),
    }
}

/// `MemTotal:       24590964 kB` (proc_meminfo(5))
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_pool_follows_memory_within_bounds() {
        let settings = Settings { max_connections: 128, ..Settings::new("/d".into()) };
        for (memory, expected) in [(0, 128 << 20), (4 << 30, 1 << 30), (1 << 40, 8_u64 << 30)] {
            let argument = format!("--innodb-buffer-pool-size={expected}");
            assert!(arguments(&settings, memory).contains(&argument), "{memory}");
        }
        assert!(arguments(&settings, 0).contains(&String::from("--max-connections=160")));
    }

    #[test]
    fn what_is_asked_for_reaches_the_command_line() {
        let plain = arguments(&Settings::new("/d".into()), 0);
        assert!(plain.contains(&String::from("--skip-networking")), "{plain:?}");
        assert!(!plain.iter().any(|argument| argument.starts_with("--thread-handling")), "{plain:?}");
        let asked = Settings {
            port: Some(3310),
            buffer_pool: Some(512 << 20),
            thread_handling: ThreadHandling::PoolOfThreads,
            ..Settings::new("/d".into())
        };
        let asked = arguments(&asked, 0);
        for argument in ["--port=3310", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=536870912"] {
            assert!(asked.contains(&String::from(argument)), "{asked:?}");
        }
        assert!(asked.contains(&String::from("--thread-handling=pool-of-threads")), "{asked:?}");
        assert!(!asked.contains(&String::from("--skip-networking")), "{asked:?}");
    }

    #[test]
    fn a_program_runs_as_its_user_and_ends_with_us_where_that_is_possible() {
        let mut programs = Programs {
            server: "/s".into(),
            flavour: Flavour::MySql,
            version: String::new(),
            numbers: (8, 4, 0),
            setpriv: Some("/usr/bin/setpriv".into()),
        };
        let user = crate::passwd::User { name: String::from("mysql"), uid: 102, gid: 105 };
        let line = |programs: &Programs, run_as: &RunAs| {
            let command = as_user(programs, run_as, Path::new("/s"));
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let end = format!("--pdeathsig=TERM -- /bin/sh -c {UNLESS_WE_ARE_GONE} {} /s", std::process::id());
        assert_eq!(
            line(&programs, &RunAs::User(user)),
            format!("/usr/bin/setpriv --reuid=102 --regid=105 --init-groups {end}")
        );
        assert_eq!(line(&programs, &RunAs::Ourselves), format!("/usr/bin/setpriv {end}"));
        programs.setpriv = None;
        assert_eq!(line(&programs, &RunAs::Ourselves), "/s");
    }

    #[test]
    fn a_program_does_not_begin_where_we_are_gone() {
        let says = |us: u32| {
            let us = us.to_string();
            Command::new(SHELL).args(["-c", UNLESS_WE_ARE_GONE, &us, "echo", "it runs"]).output().unwrap()
        };
        let ours = says(std::process::id());
        assert_eq!((ours.status.success(), ours.stdout.as_slice()), (true, &b"it runs\n"[..]));
        // This test is not the kernel's first process, so that one is a parent that the shell does not have.
        let orphan = says(1);
        assert_eq!((orphan.status.success(), orphan.stdout.as_slice()), (false, &b""[..]));
    }

    #[test]
    fn our_supervisor_is_not_the_servers() {
        let command = without_our_supervisor(Path::new("/s"));
        let without: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert_eq!(without.len(), OF_A_SUPERVISOR.len());
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(total_memory("MemTotal:       24590964 kB\nMemFree: 1 kB\n"), Some(24_590_964 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
        assert!(memory() > 0);
    }
}
