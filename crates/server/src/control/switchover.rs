//! The planned change of the primary (SWITCHOVER TO): new transactions wait, open ones end, the operator's command changes the roles,
//! and statements go on. Whatever fails, they go on at the former primary, if that still takes writes.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Behind, ServerState, ServerView, SwitchStep, compare_positions};
use rustix::process::{Pid, kill_process_group};
use seam::Signal;

use super::Control;
use super::no_change::{CommandFault, NoChange, NotAnswered, NotReady, WrongOrder};
use crate::ask::{Ask, Look, Sight, Whole};

/// So often somebody looks whether the next step may begin: a part of the second that clients may notice.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// So much of what a command writes to each of its two outputs is kept, for a line of the log: a reason, and no dump of a table.
const KEPT: usize = 1_000;

type Said = Arc<Mutex<Vec<u8>>>;

/// What a command has said is waited for so long when it has ended: another process may have its end of the pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How the names of variables begin that are Onramp's own, the service account's password and the way to others among them, and those by
/// which a supervisor speaks with it.
const OWN_VARIABLES: [&str; 5] =
    ["ONRAMP_", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_"];

/// Who changes with whom, by what, and how long each step may take.
struct Plan {
    from: usize,
    to: usize,
    names: [String; 2],
    command: PathBuf,
    wait: Duration,
    timeout: Duration,
}

/// How things stand while it goes on.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) servers: Vec<ServerView>,
    /// Open transactions, of all workers.
    pub(super) transactions: usize,
    /// A worker has clients or statements on a server that is not the primary.
    pub(super) leaves_server: bool,
    is_paused: bool,
}

/// The place of the server with this address.
///
/// # Errors
/// There is none; which one may be meant.
pub(super) fn place_of(servers: &[ServerView], address: &str) -> Result<usize, WrongOrder> {
    let names: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
    let place = names.iter().position(|name| name == address);
    place.ok_or_else(|| {
        let nearest = config::nearest(address, names.iter().map(String::as_str)).map(String::from);
        WrongOrder::NoServer { nearest }
    })
}

impl Control {
    /// Changes the primary for the server with this address. Returns what there is to say of it.
    ///
    /// # Errors
    /// Why it has not been changed.
    pub(crate) fn switch_over(&self, to: &str) -> Result<String, NoChange> {
        let _alone = self.alone()?;
        let plan = self.plan(to)?;
        let [from, to] = &plan.names;
        let began = Instant::now();
        let outcome = self.carry_out(&plan);
        let took = began.elapsed().as_millis();
        match &outcome {
            Ok(said) => tracing::info!("switchover from {from} to {to} took {took} ms; {said}"),
            Err(reason) => tracing::error!("switchover from {from} to {to} failed after {took} ms: {reason}"),
        }
        outcome
    }

    /// One change by plan at a time.
    ///
    /// # Errors
    /// Another one is under way.
    pub(super) fn alone(&self) -> Result<MutexGuard<'_, ()>, WrongOrder> {
        match self.switching.try_lock() {
            Ok(alone) => Ok(alone),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(WrongOrder::NotAlone),
        }
    }

    fn plan(&self, to: &str) -> Result<Plan, WrongOrder> {
        let (command, wait, timeout) = {
            let configuration = self.configuration();
            (
                configuration.switchover_command.clone(),
                configuration.switchover_wait,
                configuration.switchover_timeout,
            )
        };
        if command.as_os_str().is_empty() {
            return Err(WrongOrder::NoCommand);
        }
        let servers = self.look_at_servers().servers;
        let name = |place: usize| servers[place].address.to_string();
        let to = place_of(&servers, to)?;
        let from =
            (0..servers.len()).find(|&place| servers[place].is_primary).ok_or(WrongOrder::NoPrimary)?;
        if servers[from].identity == servers[to].identity {
            return Err(WrongOrder::IsPrimary(name(to)));
        }
        if servers[to].state != ServerState::Up {
            let (state, reason) = (servers[to].state, servers[to].reason.clone());
            return Err(WrongOrder::NotUp { server: name(to), state, reason });
        }
        if servers[to].is_drained {
            return Err(WrongOrder::IsDrained(name(to)));
        }
        Ok(Plan { from, to, names: [name(from), name(to)], command, wait, timeout })
    }

    fn carry_out(&self, plan: &Plan) -> Result<String, NoChange> {
        // Should this thread be held up, the workers go on by themselves: later than it would.
        let lasts = plan.wait + 2 * plan.timeout;
        self.begin(plan.to, lasts)?;
        let said = self.change_roles(plan);
        // From here on the checks say who the primary is, whatever has become of it.
        self.step(SwitchStep::Over)?;
        let said = said?;
        let deadline = Instant::now() + plan.timeout;
        loop {
            let servers = self.look_at_servers().servers;
            if servers.get(plan.to).is_some_and(|server| server.is_primary) {
                return Ok(said);
            }
            if Instant::now() >= deadline {
                let primary = servers.iter().find(|server| server.is_primary);
                let primary = primary.map(|server| server.address.to_string());
                return Err(NotReady::OtherPrimary { primary, said }.into());
            }
            thread::sleep(LOOK);
        }
    }

    /// Has all workers begin. Where one does not answer, those go on at once that have begun.
    pub(super) fn begin(&self, to: usize, lasts: Duration) -> Result<(), NotAnswered> {
        let begun = self.step(SwitchStep::Begin { to, lasts });
        if begun.is_err() {
            // Behind the other, whenever they come to it; who has not answered may not answer now either.
            let _ = self.step(SwitchStep::Over);
        }
        begun
    }

    /// From the first transaction that waits to the end of the command. Returns what that has said.
    fn change_roles(&self, plan: &Plan) -> Result<String, NoChange> {
        let [from, to] = &plan.names;
        let deadline = Instant::now() + plan.wait;
        self.until_it_has_ended(deadline, |seen| seen.transactions > 0)?;
        let ended = Instant::now();
        let last = ended + plan.timeout;
        loop {
            let servers = self.look_at_servers().servers;
            none_has_moved(&servers, [(plan.from, from), (plan.to, to)])?;
            let asked = |place: usize| servers.get(place).filter(|server| was_asked(server, ended.elapsed()));
            let behind = asked(plan.from)
                .zip(asked(plan.to))
                .map(|(from, to)| compare_positions(&from.position, &to.position));
            match behind {
                Some(Behind::Nothing | Behind::Unknown) => break,
                Some(Behind::Lacks(what)) if Instant::now() >= deadline => {
                    let (to, of) = (to.clone(), from.clone());
                    return Err(NotReady::Lacks { to, of, limit: "switchover_wait", what }.into());
                }
                None if Instant::now() >= last => {
                    return Err(NotReady::Unknown { servers: format!("{from} and {to}") }.into());
                }
                _ => thread::sleep(LOOK),
            }
        }
        self.step(SwitchStep::EndTransactions)?;
        let left = last.saturating_duration_since(Instant::now());
        let program = plan.command.display().to_string();
        let said = run(&plan.command, from, to, left);
        said.map(|said| format!("{program} said: {said}"))
            .map_err(|fault| NoChange::Command { program, fault })
    }

    /// Waits until nothing is open any more, or may be ended since it has had until then.
    ///
    /// # Errors
    /// PAUSE holds statements without which it cannot end, and nobody but the operator can change that.
    pub(super) fn until_it_has_ended(
        &self,
        deadline: Instant,
        is_open: impl Fn(&Seen) -> bool,
    ) -> Result<(), NotReady> {
        loop {
            // A worker may be starting something in the turn in which it hears of this.
            thread::sleep(LOOK);
            let seen = self.look_at_servers();
            if !is_open(&seen) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return if seen.is_paused { Err(NotReady::Paused) } else { Ok(()) };
            }
        }
    }

    pub(super) fn look_at_servers(&self) -> Seen {
        let what = Look { servers: true, ..Look::default() };
        let mut answers = self.ask(Signal::Wake, |answer| Ask::Look { what, answer });
        let mut seen = Seen::default();
        while let Some((_, sight)) = answers.next() {
            if let Sight::Whole(whole) = sight {
                let Whole { view, servers, .. } = *whole;
                seen.transactions += view.transactions;
                seen.leaves_server |= view.leaves_server;
                seen.is_paused |= view.paused;
                seen.servers.extend(servers);
            }
        }
        seen
    }

    pub(super) fn step(&self, step: SwitchStep) -> Result<(), NotAnswered> {
        self.order(|answer| Ask::Switch { step, answer })
    }
}

/// Holds servers at their places against the addresses that they had as an order began.
///
/// # Errors
/// Where one is at another address: nobody has judged what is there.
pub(super) fn none_has_moved(servers: &[ServerView], names: [(usize, &str); 2]) -> Result<(), NotReady> {
    for (place, name) in names {
        let now = servers.get(place).map(|server| server.address.to_string());
        if let Some(to) = now.filter(|now| now != name) {
            return Err(NotReady::Moved { from: name.to_owned(), to });
        }
    }
    Ok(())
}

/// Whether a server's last check has begun within this time, and says how far it is.
pub(super) fn was_asked(server: &ServerView, within: Duration) -> bool {
    server.checks.last().is_some_and(|check| check.is_well && check.age + check.took < within)
}

/// Runs a program with the addresses of both servers, as they stand in the configuration, and no shell between. Returns what it says.
fn run(program: &Path, from: &str, to: &str, timeout: Duration) -> Result<String, CommandFault> {
    let mut command = Command::new(program);
    // In a group of its own: what it has started ends with it.
    command
        .args([from, to])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if OWN_VARIABLES.iter().any(|own| name.starts_with(own)) {
            command.env_remove(variable);
        }
    }
    let mut child = command.spawn().map_err(CommandFault::NotRun)?;
    // Of each apart, so that much of the one does not hide the other.
    let said: [Said; 2] = Default::default();
    let pipes = [child.stdout.take().map(boxed), child.stderr.take().map(boxed)];
    let readers: Result<Vec<_>, _> =
        pipes.into_iter().zip(&said).filter_map(|(pipe, said)| Some(hear(pipe?, Arc::clone(said)))).collect();
    let readers = match readers {
        Ok(readers) => readers,
        // Nobody would take what it says, which would hold it up.
        Err(error) => {
            kill(&mut child).map_err(CommandFault::NotKilled)?;
            return Err(CommandFault::NotHeard(error));
        }
    };
    let ended = wait(&mut child, timeout);
    let deadline = Instant::now() + LAST_WORDS;
    while readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
        thread::sleep(LOOK / 4);
    }
    let both = said.map(|said| said.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let said = one_line(&both.join(&b' '));
    match ended {
        Ok(Some(status)) if status.success() => Ok(said),
        Ok(Some(status)) => Err(CommandFault::Failed { status, said }),
        Ok(None) => Err(CommandFault::Late { said }),
        Err(error) => Err(CommandFault::NotWaitedFor { error, said }),
    }
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

fn hear(pipe: Box<dyn Read + Send>, said: Said) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(String::from("switchover")).spawn(move || listen(pipe, &said))
}

/// Reads to the end, and keeps the beginning.
fn listen(mut pipe: Box<dyn Read + Send>, said: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = pipe.read(&mut bytes) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(said.len());
        said.extend_from_slice(&bytes[..count.min(room)]);
    }
}

/// The program's end; `None` where it has been killed, for it took too long.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return kill(child).map(|()| None);
        }
        thread::sleep(LOOK / 4);
    }
}

/// Ends it at once, with what it has started.
fn kill(child: &mut Child) -> std::io::Result<()> {
    // The number is its own until it has been waited for.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::NotFound)?;
    kill_process_group(group, rustix::process::Signal::KILL)?;
    child.wait().map(drop)
}

/// What a program has said, as a part of a line.
fn one_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let words: Vec<_> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { String::from("nothing") } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A script of its own for each test.
    struct Script(PathBuf);

    impl Drop for Script {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn script(name: &str, text: &str) -> Script {
        use std::os::unix::fs::PermissionsExt;
        let program = std::env::temp_dir().join(format!("onramp-{name}-{}", std::process::id()));
        // By another process: a file that one of ours has open for writing as another thread forks cannot be run for a moment.
        let write = "cat > \"$1\"";
        let mut writer =
            Command::new("sh").args(["-c", write, "sh"]).arg(&program).stdin(Stdio::piped()).spawn().unwrap();
        let text = format!("#!/bin/sh\n{text}\n");
        std::io::Write::write_all(&mut writer.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Script(program)
    }

    #[test]
    fn a_command_gets_both_addresses_and_what_it_says_is_kept() {
        let program = script("says", "echo \"$1 to\"; echo \"$2\" >&2; yes | head -c 100000");
        let said = run(&program.0, "a;id", "$(b)", LONG).unwrap();
        assert!(said.contains("a;id to") && said.contains("$(b)") && said.len() < 2 * KEPT, "{said}");
    }

    #[test]
    fn a_command_that_fails_or_does_not_end_is_an_error() {
        let program = script("fails", "echo no; exit 3");
        let fault = run(&program.0, "a", "b", LONG).unwrap_err();
        let reason = NoChange::Command { program: "/change".to_owned(), fault }.to_string();
        assert_eq!(reason, "/change ended with exit status: 3 and said: no");
        let program = script("hangs", "echo begun; exec sleep 1000");
        let fault = run(&program.0, "a", "b", Duration::from_millis(300)).unwrap_err();
        assert!(matches!(fault, CommandFault::Late { .. }), "{fault:?}");
        let program = script("leaves", "sleep 1000 & echo \"at $!\"; wait");
        // As long as a busy machine takes to get there.
        let mut said = (0..).map(|times| {
            match run(&program.0, "a", "b", Duration::from_millis(300 << times)).unwrap_err() {
                CommandFault::Late { said } => said,
                other => panic!("{other:?}"),
            }
        });
        let said = said.find(|said| said.contains("at ")).expect("it tries on");
        let left = said.split("at ").nth(1).expect("it has said who").trim();
        // Whoever takes its place as a parent may not have waited for it yet.
        let state = || std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
        let runs = |stat: String| {
            stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
        };
        let deadline = Instant::now() + LONG;
        while runs(state()) {
            assert!(Instant::now() < deadline, "what it has started runs on");
            thread::sleep(LOOK);
        }
        let fault = run(Path::new("/nowhere/change"), "a", "b", LONG).unwrap_err();
        assert!(matches!(fault, CommandFault::NotRun(_)), "{fault:?}");
    }
}
