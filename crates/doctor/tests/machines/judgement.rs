//! What is short where, and that each check is short for its own reason alone.

use doctor::{Amount, Check, Machine, NoAnswer, Remedy, Request, Role, ServerAnswer, Verdict, examine};
use drivers::{DriverChoice, NoUring};

use crate::support::{Copy, finding, keys, machine};

fn bench() -> Request {
    Request { role: Role::Bench, ..Request::default() }
}

fn epoll() -> Request {
    Request { driver: DriverChoice::Epoll, ..Request::default() }
}

#[test]
fn a_tuned_machine_lacks_nothing() {
    for role in [Role::Serve, Role::Both] {
        for driver in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Epoll] {
            let request = Request { role, driver, ..Request::default() };
            let findings = examine(&machine("tuned"), &request);
            assert!(keys(&findings, Verdict::Short).is_empty(), "{findings:#?}");
            assert!(keys(&findings, Verdict::Hint).is_empty(), "{findings:#?}");
            // Only the server was not asked.
            assert_eq!(keys(&findings, Verdict::Unknown), ["server_connections"]);
        }
    }
}

#[test]
fn a_default_debian_serves_100_000_with_epoll() {
    let findings = examine(&machine("debian"), &epoll());
    assert!(keys(&findings, Verdict::Short).is_empty(), "{findings:#?}");
    assert_eq!(keys(&findings, Verdict::Hint), ["huge_pages", "swap"]);
    // The kernel is too old for io_uring, so that this is what comes by itself.
    let findings = examine(&machine("debian"), &Request::default());
    assert!(keys(&findings, Verdict::Short).is_empty(), "{findings:#?}");
    assert_eq!(keys(&findings, Verdict::Hint), ["io_uring", "huge_pages", "swap"]);
}

#[test]
fn a_small_container_is_short_of_files_memory_and_threads() {
    let findings = examine(&machine("container"), &Request::default());
    assert_eq!(keys(&findings, Verdict::Short), ["open_files", "memory", "threads"]);
    assert_eq!(keys(&findings, Verdict::Hint), ["io_uring"]);
    assert_eq!(keys(&findings, Verdict::Unknown), ["tcp_memory", "server_connections"]);
    // The machine has room for a hundredth.
    let few = Request { connections: 1000, max_backends: 32, ..Request::default() };
    let findings = examine(&machine("container"), &few);
    assert_eq!(keys(&findings, Verdict::Short), ["threads"]);
}

#[test]
fn a_squeezed_machine_is_short_of_everything() {
    let findings = examine(&machine("squeezed"), &Request::default());
    let expected = [
        "open_files",
        "open_files_ceiling",
        "open_files_system",
        "accept_queue",
        "syn_queue",
        "local_ports",
        "tcp_memory",
        "conntrack",
        "memory",
        "threads",
        "memory_maps",
    ];
    assert_eq!(keys(&findings, Verdict::Short), expected);
    let expected = ["io_uring", "packet_queue", "conntrack_buckets", "huge_pages", "cpu_quota", "swap"];
    assert_eq!(keys(&findings, Verdict::Hint), expected);
}

/// A change of the tuned machine, and the one check that sees it.
struct Change {
    check: Check,
    request: Request,
    files: &'static [(&'static str, &'static str)],
    verdict: Verdict,
}

fn limits(open_files: &str) -> String {
    format!("Max open files            {open_files}            {open_files}                files\n")
}

fn changes() -> Vec<Change> {
    let serve = Request::default;
    let short = |check, request, files| Change { check, request, files, verdict: Verdict::Short };
    let hint = |check, files| Change { check, request: serve(), files, verdict: Verdict::Hint };
    vec![
        short(Check::OpenFilesCeiling, epoll(), &[("proc/sys/fs/nr_open", "100191")]),
        short(Check::OpenFilesSystem, serve(), &[("proc/sys/fs/file-max", "102285")]),
        short(Check::AcceptQueue, serve(), &[("proc/sys/net/core/somaxconn", "4095")]),
        short(
            Check::SynQueue,
            serve(),
            &[("proc/sys/net/ipv4/tcp_syncookies", "0"), ("proc/sys/net/ipv4/tcp_max_syn_backlog", "5461")],
        ),
        short(Check::LocalPorts, serve(), &[("proc/sys/net/ipv4/ip_local_port_range", "40000 40127")]),
        short(
            Check::LocalPorts,
            serve(),
            &[
                ("proc/sys/net/ipv4/ip_local_port_range", "40000 40200"),
                ("proc/sys/net/ipv4/ip_local_reserved_ports", "40000-40099"),
            ],
        ),
        short(Check::TcpMemory, serve(), &[("proc/sys/net/ipv4/tcp_mem", "60000 80000 99999")]),
        hint(Check::TcpMemory, &[("proc/sys/net/ipv4/tcp_mem", "60000 99999 120000")]),
        short(Check::Conntrack, serve(), &[("proc/sys/net/netfilter/nf_conntrack_max", "100439")]),
        hint(Check::ConntrackBuckets, &[("proc/sys/net/netfilter/nf_conntrack_buckets", "25109")]),
        short(Check::Memory, serve(), &[("proc/meminfo", "MemAvailable:  500000 kB\n")]),
        short(
            Check::Memory,
            serve(),
            &[("sys/fs/cgroup/system.slice/onramp.service/memory.max", "536870912")],
        ),
        short(Check::Memory, serve(), &[("sys/fs/cgroup/system.slice/memory.max", "536870912")]),
        short(Check::Threads, serve(), &[("proc/sys/kernel/threads-max", "16")]),
        short(Check::Threads, serve(), &[("proc/sys/kernel/pid_max", "16")]),
        short(Check::Threads, serve(), &[("sys/fs/cgroup/system.slice/pids.max", "16")]),
        short(Check::MemoryMaps, serve(), &[("proc/sys/vm/max_map_count", "527")]),
        short(
            Check::IoUring,
            Request { driver: DriverChoice::Uring, ..serve() },
            &[("proc/sys/kernel/io_uring_disabled", "2")],
        ),
        hint(Check::IoUring, &[("proc/sys/kernel/osrelease", "6.12.48")]),
        hint(Check::IoUring, &[("proc/sys/kernel/io_uring_disabled", "2")]),
        hint(
            Check::PacketQueue,
            &[
                ("proc/net/softnet_stat", "00000001 00000001 00000000\n"),
                ("proc/sys/net/core/netdev_max_backlog", "8191"),
            ],
        ),
        hint(Check::HugePages, &[("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")]),
        hint(Check::CpuQuota, &[("sys/fs/cgroup/system.slice/onramp.service/cpu.max", "99999 100000")]),
        hint(
            Check::Swap,
            &[
                ("proc/sys/vm/swappiness", "11"),
                ("proc/meminfo", "MemAvailable: 9000000 kB\nSwapTotal: 4 kB\n"),
            ],
        ),
    ]
}

#[test]
fn each_check_sees_its_own_limit_and_no_other_does() {
    for Change { check, request, files, verdict } in changes() {
        let fine = examine(&machine("tuned"), &request);
        assert_eq!(finding(&machine("tuned"), &request, check).verdict, Verdict::Ok, "{files:?}");
        let copy = Copy::of("tuned");
        for (path, text) in files {
            copy.write(path, text.as_bytes());
        }
        let changed = examine(&copy.machine(), &request);
        for (before, after) in fine.iter().zip(&changed) {
            let expected = if before.check == check { verdict } else { before.verdict };
            assert_eq!(after.verdict, expected, "{files:?} changed {after:#?}");
        }
        let found = finding(&copy.machine(), &request, check);
        assert!(!found.remedies.is_empty(), "{found:#?}");
        assert!(!found.why.is_empty(), "{found:#?}");
    }
}

#[test]
fn the_limit_of_open_files_is_the_clients_only_with_epoll() {
    let copy = Copy::of("tuned");
    copy.write("proc/self/limits", limits("20000").as_bytes());
    copy.write("proc/self/status", b"CapEff:\t0000000000000000\n");
    let uring = finding(&copy.machine(), &Request::default(), Check::OpenFiles);
    assert_eq!((uring.verdict, uring.needed), (Verdict::Ok, Amount::Count(215 + 2 * 7)));
    assert!(uring.why.ends_with("rings needed here: 7"), "{}", uring.why);

    // Small tables work, but there are many of them.
    copy.write("proc/self/limits", limits("1024").as_bytes());
    let small = finding(&copy.machine(), &Request::default(), Check::OpenFiles);
    assert_eq!((small.verdict, small.needed), (Verdict::Hint, Amount::Count(16_384)));
    assert!(small.why.ends_with("rings needed here: 98"), "{}", small.why);
    assert_eq!(small.remedies[0].now(), "ulimit -Hn 16384 && ulimit -n 16384");
    copy.write("proc/self/limits", limits("300").as_bytes());
    let none = finding(&copy.machine(), &Request::default(), Check::OpenFiles);
    assert_eq!((none.verdict, none.needed), (Verdict::Short, Amount::Count(215 + 2 * 334)));

    copy.write("proc/self/limits", limits("20000").as_bytes());
    let found = finding(&copy.machine(), &epoll(), Check::OpenFiles);
    assert_eq!((found.verdict, &found.needed), (Verdict::Short, &Amount::Count(100_215)));
    assert_eq!(
        found.to_string(),
        "RLIMIT_NOFILE is 20,000, 100,215 needed: ulimit -Hn 100215 && ulimit -n 100215"
    );
    // A process that may raise its limits goes as far as fs.nr_open.
    copy.write("proc/self/status", b"CapEff:\t0000000001000000\n");
    assert_eq!(finding(&copy.machine(), &epoll(), Check::OpenFiles).verdict, Verdict::Ok);
}

#[test]
fn what_was_tried_outranks_the_settings() {
    let refused = || machine("tuned").with_uring(Err(NoUring::Filtered));
    let found = finding(&refused(), &Request::default(), Check::IoUring);
    assert_eq!(found.verdict, Verdict::Hint);
    assert!(found.why.ends_with(&NoUring::Filtered.to_string()), "{}", found.why);
    let files = finding(&refused(), &Request::default(), Check::OpenFiles);
    assert_eq!(files.needed, Amount::Count(100_215));
    let asked = Request { driver: DriverChoice::Uring, ..Request::default() };
    assert_eq!(finding(&refused(), &asked, Check::IoUring).verdict, Verdict::Short);
    let granted = machine("container").with_uring(Ok(()));
    assert_eq!(finding(&granted, &Request::default(), Check::IoUring).verdict, Verdict::Ok);
    // The 4,096 places a ring mean many rings, but nobody is refused.
    assert_eq!(finding(&granted, &Request::default(), Check::OpenFiles).verdict, Verdict::Hint);
}

#[test]
fn a_load_generator_needs_ports_and_no_queues() {
    let findings = examine(&machine("debian"), &bench());
    assert_eq!(keys(&findings, Verdict::Short), ["local_ports"]);
    for check in [Check::AcceptQueue, Check::SynQueue, Check::ServerConnections] {
        assert!(findings.iter().all(|finding| finding.check != check), "{check:?}");
    }
    // 28,232 ports, of which nine in ten count.
    for (pairs, verdict) in [(3, Verdict::Short), (4, Verdict::Ok)] {
        let request = Request { address_pairs: Some(pairs), ..bench() };
        let found = finding(&machine("debian"), &request, Check::LocalPorts);
        assert_eq!((found.verdict, found.found), (verdict, Amount::Count(u64::from(pairs) * 25_409)));
    }
    // Where both ends are on one machine, the loopback device has addresses enough.
    let both = Request { role: Role::Both, ..Request::default() };
    assert_eq!(finding(&machine("debian"), &both, Check::LocalPorts).verdict, Verdict::Ok);
}

#[test]
fn both_ends_on_one_machine_take_twice_the_memory_and_files() {
    let both = Request { role: Role::Both, ..Request::default() };
    for check in [Check::Memory, Check::TcpMemory] {
        let needed = |request| finding(&machine("debian"), request, check).needed.number().unwrap();
        assert_eq!(needed(&both), 2 * needed(&Request::default()), "{check:?}");
    }
    let files =
        |request| finding(&machine("tuned"), request, Check::OpenFilesSystem).needed.number().unwrap();
    let open_now = 2080;
    assert_eq!(files(&both) - open_now, 2 * (files(&Request::default()) - open_now));
}

#[test]
fn sizes_of_sockets_come_from_the_kernel_where_it_tells() {
    let request = Request { connections: 1_000_000, ..Request::default() };
    let measured = finding(&machine("tuned"), &request, Check::Memory);
    let each = 1024 + 32_768 / 13 + 16_384 / 19 + 2 * (4096 / 21) + 256;
    let rings = 62;
    assert_eq!(measured.needed, Amount::Bytes((64 << 20) + rings * (3 << 20) + 1_000_000 * each));
    let known = finding(&machine("debian"), &request, Check::Memory);
    assert_eq!(known.needed, Amount::Bytes((64 << 20) + 1_000_000 * (1024 + 4608)));
}

#[test]
fn what_the_server_takes_is_compared_with_the_backends() {
    let with = |max_connections| {
        let max_connections = format!("{max_connections}");
        in_front_of(&[("max_connections", &max_connections), ("version", "10.11.19-MariaDB")], &[])
    };
    let judged = |machine: &Machine, request: &Request| finding(machine, request, Check::ServerConnections);
    let serve = Request { max_backends: 128, ..Request::default() };
    assert_eq!(judged(&with(136), &serve).verdict, Verdict::Ok);
    let short = judged(&with(100), &serve);
    assert_eq!(
        short.to_string(),
        "max_connections of the server is 100, 136 needed: SET GLOBAL max_connections = 136;"
    );
    assert!(short.remedies.iter().any(|remedy| remedy.now().contains("max_backends of Onramp to 92")));
    // Where the server says how many backends there may be, few are too few, and lowering a number is no remedy.
    let found = Request { max_backends: 0, ..Request::default() };
    assert_eq!(judged(&with(40), &found).verdict, Verdict::Ok);
    let short = judged(&with(39), &found);
    assert_eq!((short.verdict, short.remedies.len()), (Verdict::Short, 1));
    // A load generator on its own meets the server itself.
    assert_eq!(judged(&with(10_000), &bench()).needed, Amount::Count(100_008));
    assert_eq!(judged(&with(10_000), &bench()).verdict, Verdict::Short);

    let failed = machine("tuned")
        .with_server(Err(NoAnswer::Refused { code: 1045, message: "Access denied".to_owned() }));
    let unknown = judged(&failed, &serve);
    assert_eq!(unknown.verdict, Verdict::Unknown);
    assert!(unknown.why.contains("1045"), "{}", unknown.why);
}

/// A machine, and a server with these system and status variables.
fn in_front_of(variables: &[(&str, &str)], status: &[(&str, &str)]) -> Machine {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    machine("tuned").with_server(ServerAnswer::of(owned(variables), owned(status)))
}

/// The verdict on a variable of the server, and the first thing to do.
fn of_server(variable: &str, value: &str, max_backends: u32, check: Check) -> (Verdict, String) {
    let usual = [
        ("max_connections", "1000"),
        ("table_open_cache", "2000"),
        ("thread_handling", "one-thread-per-connection"),
    ];
    let others = usual.into_iter().filter(|&(other, _)| other != variable);
    let variables: Vec<_> = others.chain([(variable, value)]).collect();
    let request = Request { max_backends, ..Request::default() };
    let found = finding(&in_front_of(&variables, &[]), &request, check);
    (found.verdict, found.remedies.first().map(Remedy::now).unwrap_or_default())
}

#[test]
fn limits_of_the_server_without_which_there_would_be_errors() {
    for (variable, value, backends, check) in [
        ("max_user_connections", "0", 500, Check::ServerUserConnections),
        ("max_user_connections", "50", 0, Check::ServerUserConnections),
        ("open_files_limit", "5010", 0, Check::ServerOpenFiles),
        ("back_log", "80", 0, Check::ServerBackLog),
        ("wait_timeout", "61", 0, Check::ServerWaitTimeout),
    ] {
        assert_eq!(of_server(variable, value, backends, check), (Verdict::Ok, String::new()), "{variable}");
    }
    for (variable, value, check, remedy) in [
        ("max_user_connections", "50", Check::ServerUserConnections, "SET GLOBAL max_user_connections = 0;"),
        ("open_files_limit", "5009", Check::ServerOpenFiles, "open_files_limit = 5010 under [mysqld]"),
        ("back_log", "499", Check::ServerBackLog, "back_log = 500 under [mysqld]"),
        ("wait_timeout", "60", Check::ServerWaitTimeout, "SET GLOBAL wait_timeout = 28800;"),
    ] {
        let (verdict, first) = of_server(variable, value, 500, check);
        assert_eq!(verdict, Verdict::Short, "{variable}");
        assert!(first.contains(remedy), "{first}");
    }
}

#[test]
fn what_costs_the_server_more_than_it_has_to() {
    for (variable, value, backends, check) in [
        ("max_prepared_stmt_count", "16382", 0, Check::ServerPreparedStatements),
        ("thread_cache_size", "8", 0, Check::ServerThreads),
        ("innodb_thread_concurrency", "0", 0, Check::ServerConcurrency),
    ] {
        assert_eq!(of_server(variable, value, backends, check), (Verdict::Ok, String::new()), "{variable}");
    }
    for (variable, value, check, remedy) in [
        ("max_prepared_stmt_count", "16382", Check::ServerPreparedStatements, "128000"),
        ("thread_cache_size", "8", Check::ServerThreads, "13"),
        ("innodb_thread_concurrency", "16", Check::ServerConcurrency, "0"),
    ] {
        let set = format!("SET GLOBAL {variable} = {remedy};");
        assert_eq!(of_server(variable, value, 500, check), (Verdict::Hint, set));
    }
    let (verdict, _) = of_server("max_prepared_stmt_count", "0", 0, Check::ServerPreparedStatements);
    assert_eq!(verdict, Verdict::Short, "none can be prepared");
}

#[test]
fn what_a_server_does_not_have_is_not_judged() {
    let machine = in_front_of(
        &[("max_connections", "1000"), ("thread_handling", "pool-of-threads"), ("thread_cache_size", "0")],
        &[],
    );
    let findings = examine(&machine, &Request::default());
    let of_server = findings.iter().filter(|finding| finding.check.key().starts_with("server_"));
    assert_eq!(of_server.map(|finding| finding.check.key()).collect::<Vec<_>>(), ["server_connections"]);
}

#[test]
fn a_table_cache_is_small_where_it_is_full_and_tables_are_opened_all_the_time() {
    let judged = |open: &str, opened: &str| {
        let status = [("Uptime", "1000"), ("Open_tables", open), ("Opened_tables", opened)];
        let variables = [("max_connections", "151"), ("table_open_cache", "2000")];
        finding(&in_front_of(&variables, &status), &Request::default(), Check::ServerTables)
    };
    assert_eq!(judged("2000", "900").verdict, Verdict::Ok, "it has become full once");
    assert_eq!(judged("500", "90000").verdict, Verdict::Ok, "others than the cache have closed them");
    let hint = judged("1900", "5000");
    assert_eq!((hint.verdict, &hint.needed), (Verdict::Hint, &Amount::Count(4000)));
    assert!(hint.why.starts_with("5 tables a second"), "{}", hint.why);
    assert_eq!(hint.remedies[0].now(), "SET GLOBAL table_open_cache = 4000;");
}

#[test]
fn what_is_short_here_is_all_that_a_start_reports() {
    let greedy = Request { connections: 4_000_000_000, driver: DriverChoice::Epoll, ..Request::default() };
    let found = doctor::short(&greedy);
    // No machine has so many open files for a process: fs.nr_open ends at 2^30.
    assert!(found.iter().any(|finding| finding.check == Check::OpenFiles));
    assert!(found.iter().all(|finding| finding.verdict == Verdict::Short));
    assert!(found.iter().all(|finding| !finding.to_string().contains('\n')));
}
