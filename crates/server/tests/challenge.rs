//! `onramp challenge` with a real server: small runs, and what is left behind when they are ended.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs, wait for them and stop at the first surprise"
)]

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Only ends a test that hangs; nothing is measured by it.
const WATCHDOG: Duration = Duration::from_secs(300);

/// As little as there can be.
const SMALL: [&str; 8] = ["--tables", "1", "--table-size", "1000", "--time", "1", "--warmup", "0.5"];

/// A folder for each test, with the temporary folder and the report in it; gone with the value.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("onramp-challenge-test-{}-{number}", std::process::id()));
        // Open to the server's own user.
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        std::fs::DirBuilder::new().mode(0o755).create(path.join("work")).unwrap();
        Self(path)
    }

    fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    fn json(&self) -> Value {
        let text = std::fs::read_to_string(self.0.join("report/report.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Processes that name our folder on their command line or in their environment: the servers, and what else was started on it.
    fn processes(&self) -> Vec<Pid> {
        let folder = self.work();
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let of_ours = |number: &i32| {
            let read = |of: &str| std::fs::read(format!("/proc/{number}/{of}")).unwrap_or_default();
            let [line, environment] =
                ["cmdline", "environ"].map(|of| String::from_utf8_lossy(&read(of)).into_owned());
            let names = [&line, &environment].iter().any(|text| text.contains(folder.to_str().unwrap()));
            // The command under test names it too.
            names && !line.contains("challenge\0--work-directory")
        };
        numbers.filter(of_ours).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &TestFolder, options: &[&str]) -> Running {
    start_in(folder, &[&SMALL, options].concat())
}

fn start_in(folder: &TestFolder, options: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onramp"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ONRAMP_")) {
            command.env_remove(name);
        }
    }
    let child = command
        .current_dir(&folder.0)
        .args(["challenge", "--work-directory"])
        .arg(folder.work())
        .args(["--report", "report"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Running(child)
}

/// A command under test; killed with the value, where a test fails before its end.
struct Running(Child);

impl Running {
    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits, and gives all that it has written.
    fn finish(mut self) -> Output {
        let stdout = read_on_a_thread(self.0.stdout.take().unwrap());
        let stderr = read_on_a_thread(self.0.stderr.take().unwrap());
        let status = self.wait();
        Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn read_on_a_thread(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        read
    })
}

/// Reads the standard error stream up to a line with `text`, and lets a thread read the rest: nobody waits for us.
fn wait_for_line(running: &mut Running, text: &str) {
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
    assert!(found, "it ended before it said {text:?}");
    std::thread::spawn(move || lines.for_each(drop));
}

fn wait_until_gone(folder: &TestFolder) {
    let deadline = Instant::now() + WATCHDOG;
    while !folder.processes().is_empty() {
        assert!(Instant::now() < deadline, "{:?} still run", folder.processes());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn an_interrupted_run_writes_what_it_has_and_ends_what_it_started() {
    let folder = TestFolder::new();
    let mut running = start(&folder, &["--steps", "10,20,30,40,50,60", "--skip-direct"]);
    wait_for_line(&mut running, " is ready");
    kill_process(Pid::from_child(&running.0), Signal::INT).unwrap();
    assert_eq!(running.wait().code(), Some(1));
    assert_eq!(folder.json()["ending"]["how"], "interrupted");
    let page = std::fs::read_to_string(folder.0.join("report/report.html")).unwrap();
    assert!(page.contains("Interrupted: the report holds what was measured until then."));
    assert!(is_empty(&folder.work()));
    assert!(folder.processes().is_empty());
}

#[test]
fn a_killed_run_takes_everything_along() {
    let folder = TestFolder::new();
    let mut running = start(&folder, &["--steps", "10,20,30,40", "--skip-direct"]);
    wait_for_line(&mut running, " is ready");
    assert!(!folder.processes().is_empty());
    running.0.kill().unwrap();
    running.wait();
    wait_until_gone(&folder);
}

#[test]
fn an_interrupted_failover_ends_all_of_its_servers() {
    // While they are created, and while clients write.
    for moment in ["creating 3 servers", "servers with"] {
        let folder = TestFolder::new();
        let mut running = start_in(&folder, &["--servers", "3", "--clients", "20", "--time", "60"]);
        if moment.starts_with("creating") {
            let deadline = Instant::now() + WATCHDOG;
            while folder.processes().is_empty() {
                assert!(Instant::now() < deadline, "no server is started");
                std::thread::sleep(Duration::from_millis(20));
            }
        } else {
            wait_for_line(&mut running, moment);
        }
        kill_process(Pid::from_child(&running.0), Signal::INT).unwrap();
        assert_eq!(running.wait().code(), Some(1), "{moment}");
        assert_eq!(folder.json()["ending"]["how"], "interrupted", "{moment}");
        assert!(is_empty(&folder.work()), "{moment}");
        assert!(folder.processes().is_empty(), "{moment}");
    }
}

#[test]
fn options_of_steps_beside_several_servers_are_said_at_once() {
    let folder = TestFolder::new();
    let output = start_in(&folder, &["--servers", "3", "--steps", "10"]).finish();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--steps has no part with several --servers"), "{error}");
    assert!(is_empty(&folder.work()) && !folder.0.join("report").exists());
}

#[test]
fn the_knee_is_found_and_named() {
    let folder = TestFolder::new();
    let output = start(&folder, &["--find-knee", "--direct", "--steps", "2"]).finish();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{out}", output.status);
    assert!(out.contains("Useful maximum: "), "{out}");
    let report = folder.json();
    assert_eq!(report["steps"][0]["series"], "direct_threads");
    let knee = report["knee"]["connections"].as_u64().unwrap();
    assert!((1..=2).contains(&knee), "{knee}");
}

#[test]
fn a_time_limit_leaves_steps_out_and_says_so() {
    let folder = TestFolder::new();
    let output = start(&folder, &["--steps", "10", "--skip-direct", "--time-limit", "1s"]).finish();
    assert_eq!(output.status.code(), Some(1));
    let report = folder.json();
    assert_eq!(report["ending"]["how"], "time_limit");
    assert!(report["steps"][0]["outcome"]["skipped"].as_str().unwrap().contains("--time-limit"));
}

#[test]
fn a_server_that_is_not_there_is_the_end_with_a_report() {
    let folder = TestFolder::new();
    let options = ["--server-directory", "/proc/self/fdinfo"];
    let output = start(&folder, &options).finish();
    assert_eq!(output.status.code(), Some(1));
    let reason = folder.json()["ending"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("apt install mariadb-server"), "{reason}");
}

#[test]
fn wrong_options_are_said_at_once() {
    let folder = TestFolder::new();
    let output = start(&folder, &["--steps", "0"]).finish();
    assert_eq!(output.status.code(), Some(2));
    assert!(is_empty(&folder.work()) && !folder.0.join("report").exists());
}

/// `make test` leaves these out.
mod at_length {
    use super::*;

    #[test]
    fn a_small_run_measures_everything_and_leaves_only_its_report() {
        let folder = TestFolder::new();
        let output = start(&folder, &["--steps", "10,50", "--direct-steps", "4"]).finish();
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{error}\n{out}", output.status);
        assert!(error.contains("[5/5] Onramp, 50 silent clients"), "{error}");
        assert!(out.contains("With 50 clients Onramp answers"), "{out}");

        let report = folder.json();
        assert_eq!(report["ending"]["how"], "complete");
        let steps = report["steps"].as_array().unwrap();
        let names: Vec<_> = steps
            .iter()
            .map(|step| format!("{} {}", step["series"].as_str().unwrap(), step["connections"]))
            .collect();
        assert_eq!(names, ["onramp 10", "direct_threads 4", "direct_pool 4", "onramp 50"]);
        for step in steps {
            let figures = &step["outcome"]["measured"];
            assert!(figures["queries_per_second"].as_f64().unwrap() > 0.0, "{step:#}");
            assert!(figures["p95"].as_f64().unwrap() > 0.0, "{step:#}");
            assert_eq!(figures["errors"], 0, "{step:#}");
            assert!(figures["server"]["resident"].as_u64().unwrap() > 0, "{step:#}");
            assert_eq!(figures["onramp"].is_null(), step["series"] != "onramp", "{step:#}");
        }
        assert_eq!(report["idle"]["clients"], 50);
        let page = std::fs::read_to_string(folder.0.join("report/report.html")).unwrap();
        assert!(page.contains("id=\"latency-title\"") && page.ends_with("</html>\n"));
        assert!(is_empty(&folder.work()), "the temporary folder is gone");
        assert!(folder.processes().is_empty());
    }

    #[test]
    fn a_killed_primary_loses_nothing_that_was_acknowledged() {
        for servers in ["2", "3"] {
            let folder = TestFolder::new();
            let options = ["--servers", servers, "--clients", "100", "--table-size", "1000", "--time", "1"];
            let output = start_in(&folder, &options).finish();
            let (out, error) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{}\n{error}\n{out}", output.status);
            let report = folder.json();
            assert_eq!(report["verdict"]["good"], true, "{report:#}");
            let failover = &report["failover"];
            let ledger = &failover["ledger"];
            assert!(ledger["acknowledged"].as_u64().unwrap() > 100, "{ledger:#}");
            assert_eq!(
                (&ledger["lost"], &ledger["refused_and_stored"]),
                (&0.into(), &0.into()),
                "{ledger:#}"
            );
            assert_eq!(ledger["replicas"], servers.parse::<u64>().unwrap() - 2);
            let [killed, writable, back] =
                ["killed", "writable", "back"].map(|moment| failover[moment].as_f64().unwrap());
            assert!(killed < writable && writable <= back, "{failover:#}");
            let last = failover["curve"].as_array().unwrap().last().unwrap();
            assert!(last["at"].as_f64().unwrap() > back, "{last:#}");
            let page = std::fs::read_to_string(folder.0.join("report/report.html")).unwrap();
            assert!(page.contains("id=\"statements-title\"") && page.contains(">primary killed</text>"));
            assert!(out.contains("the replica that had most took writes"), "{out}");
            assert!(is_empty(&folder.work()), "the temporary folder is gone");
            assert!(folder.processes().is_empty());
        }
    }

    /// Where there are no control groups, or no rights to make one, the challenge says what to do instead.
    #[test]
    fn a_server_can_be_held_to_a_part_of_the_cores() {
        const HELD_TO: f64 = 0.5;
        let folder = TestFolder::new();
        let running = start(&folder, &["--steps", "10", "--skip-direct", "--server-cpus", "0.5"]);
        let group = format!("onramp-challenge-{}", running.0.id());
        let output = running.finish();
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if error.contains("the server cannot be held to 0.5 cores") {
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains("systemd-run -p CPUQuota=50%"), "{error}");
            return;
        }
        assert!(output.status.success(), "{}\n{error}\n{out}", output.status);
        assert!(out.contains("The server was held to 0.5 cores"), "{out}");
        let report = folder.json();
        assert_eq!(report["setup"]["server_cpus"], HELD_TO);
        let usage = &report["steps"][0]["outcome"]["measured"]["server"];
        let [user, system, over] = ["user", "system", "over"].map(|key| usage[key].as_f64().unwrap());
        // A tenth more for ticks of 10 ms, and for what was left over of the period before.
        assert!(user > 0.0 && (user + system) / over <= HELD_TO * 1.1, "{usage:#}");
        let left: Vec<_> =
            std::fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(
            !left.iter().any(|folder| folder.ends_with(&group) || folder.join(&group).exists()),
            "{left:?}"
        );
    }
}
