//! A program that we run: its lines as they come, and its end with ours.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group, waitid,
    waitpgid,
};

use crate::error::{Error, ProgramFault};

/// How often somebody who waits for a line looks at what else there is to do.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// A program that has been told to end, and does not, is killed after this long. Onramp closes 100,000 connections and
/// the load generator writes its report in a second or two.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what was killed may take to be gone. The system gives back a server's memory in less than a second; where it takes longer, a
/// disk does not answer, or the dead stay in the table of processes since nobody asks for them.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether all have ended. Short, as this is time between two steps.
const END_LOOK: Duration = Duration::from_millis(10);
/// Lines that are kept for the case that the program fails: a message is a few, a back trace some dozen.
const KEPT_LINES: usize = 50;
/// Warnings that are kept: the first ones name the cause, and what follows from it repeats itself.
const KEPT_WARNINGS: usize = 50;

/// A running program. Dropping it ends it, and all that it started.
pub(crate) struct Child {
    process: Process,
    /// It has been ended, and has been waited for.
    is_over: bool,
    lines: Receiver<(Instant, Line)>,
    said: Vec<String>,
    warnings: Vec<String>,
    streams_open: bool,
    said_at: Instant,
}

/// A line of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// On its standard output stream.
    Output(String),
    /// On its standard error stream.
    Error(String),
}

/// What came of waiting for a line.
pub(crate) enum Waited {
    /// A line.
    Line(Line),
    /// Nothing so far.
    Nothing,
    /// The program has ended.
    Ended(ExitStatus),
}

impl Child {
    /// Starts the program, in a process group of its own: Ctrl-C at the terminal is for us.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn start(mut command: Command) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut process =
            command.spawn().map_err(|error| Error::Program(ProgramFault::NotRun { program: name, error }))?;
        let (sender, lines) = channel();
        if let Some(stream) = process.stdout.take() {
            forward(stream, sender.clone(), Line::Output);
        }
        if let Some(stream) = process.stderr.take() {
            forward(stream, sender, Line::Error);
        }
        Ok(Self {
            process,
            is_over: false,
            lines,
            said: Vec::new(),
            warnings: Vec::new(),
            streams_open: true,
            said_at: Instant::now(),
        })
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line, at most for [`LOOK`].
    pub(crate) fn wait_for_line(&mut self) -> Waited {
        if self.streams_open {
            match self.lines.recv_timeout(LOOK) {
                Ok((at, line)) => {
                    self.remember(&line);
                    self.said_at = at;
                    return Waited::Line(line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.streams_open = false,
            }
        } else {
            std::thread::sleep(LOOK);
        }
        // What it said last is read first: as long as its streams are open, it has not ended for us.
        match self.status() {
            Some(status) if !self.streams_open => Waited::Ended(status),
            _ => Waited::Nothing,
        }
    }

    /// When the last line that was waited for came.
    pub(crate) fn said_at(&self) -> Instant {
        self.said_at
    }

    /// Asks the program to come to its end by itself, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::INT);
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn said(&self) -> &[String] {
        &self.said
    }

    /// The first warnings and errors in its log, oldest first, without their times.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Ends the program, and what it has started: politely, then not. A script may end before what it runs does, which still writes.
    pub(crate) fn end(&mut self) {
        self.end_within(PATIENCE);
    }

    fn end_within(&mut self, patience: Duration) {
        let Some(group) = self.group().filter(|_| !self.is_over) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        // The group's number is the program's, and nobody else's before that has been waited for.
        self.is_over = true;
        if !self.is_gone_within(group, patience) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.is_gone_within(group, DEATH_TIMEOUT);
        }
    }

    /// Whether the program and all of its group are gone in time.
    fn is_gone_within(&mut self, group: Pid, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        // The number is nobody else's as long as one of the group is there.
        while matches!(self.process.try_wait(), Ok(None)) || is_there(group) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(END_LOOK);
        }
        true
    }

    /// How the program has ended, if it has. It stays in the table of processes until [`Self::end`], which needs its number.
    fn status(&mut self) -> Option<ExitStatus> {
        if self.is_over {
            return self.process.try_wait().ok().flatten();
        }
        let ways = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.group()?), ways).ok()??;
        let raw = ended.exit_status().map(|code| code << 8).or(ended.terminating_signal())?;
        Some(ExitStatus::from_raw(raw))
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }

    fn remember(&mut self, line: &Line) {
        let (Line::Output(text) | Line::Error(text)) = line;
        if self.said.len() == KEPT_LINES {
            self.said.remove(0);
        }
        self.said.push(text.clone());
        if let Some(warning) = warning(text)
            && self.warnings.len() < KEPT_WARNINGS
        {
            self.warnings.push(warning.to_owned());
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether anybody is in the group, whose leader has been waited for.
fn is_there(group: Pid) -> bool {
    // Where we are the first process of a container, what a script leaves behind is ours to ask for.
    let _ = waitpgid(group, WaitOptions::NOHANG);
    test_kill_process_group(group).is_ok()
}

/// `2026-11-22T00:15:00Z  WARN client 5 ...`: the level is the second word. Further behind it may be a client's.
fn warning(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    ["WARN ", "ERROR "].iter().find_map(|level| rest.strip_prefix(level)).map(str::trim)
}

fn forward(stream: impl Read + Send + 'static, lines: Sender<(Instant, Line)>, kind: fn(String) -> Line) {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        // Not necessarily UTF-8: an error may quote anything.
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(1..)) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if lines.send((Instant::now(), kind(text))).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (Vec<Line>, ExitStatus) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut child = Child::start(command).unwrap();
        let mut lines = Vec::new();
        loop {
            match child.wait_for_line() {
                Waited::Line(line) => lines.push(line),
                Waited::Nothing => {}
                Waited::Ended(status) => return (lines, status),
            }
        }
    }

    #[test]
    fn what_a_script_has_started_has_ended_with_it() {
        let slow = "trap 'sleep 0.3; exit' TERM; echo ready; while :; do sleep 0.05; done";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("trap 'exit' TERM; /bin/sh -c \"{slow}\" & wait")]);
        let mut child = Child::start(command).unwrap();
        while !matches!(child.wait_for_line(), Waited::Line(_)) {}
        let group = child.group().unwrap();
        assert!(test_kill_process_group(group).is_ok());
        child.end();
        assert!(test_kill_process_group(group).is_err(), "it still runs");
    }

    #[test]
    fn what_a_script_has_left_behind_ends_too() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 >/dev/null 2>&1 & exit 4"]);
        let mut child = Child::start(command).unwrap();
        let status = loop {
            if let Waited::Ended(status) = child.wait_for_line() {
                break status;
            }
        };
        assert_eq!(status.code(), Some(4));
        let group = child.group().unwrap();
        child.end();
        assert!(test_kill_process_group(group).is_err(), "it still runs");
        assert!(matches!(child.wait_for_line(), Waited::Ended(again) if again == status));
    }

    #[test]
    fn what_has_to_be_killed_is_gone_then() {
        let mut command = Command::new("/bin/sh");
        // The system takes some time for giving back so much memory, which the script does not have.
        let script = "trap '' TERM; (head -c 500000000 /dev/zero; echo ready >&2; sleep 1000) | tail -c 500000000 >/dev/null";
        command.args(["-c", script]);
        let mut child = Child::start(command).unwrap();
        while !matches!(child.wait_for_line(), Waited::Line(_)) {}
        let group = child.group().unwrap();
        child.end_within(LOOK);
        assert!(test_kill_process_group(group).is_err(), "it is still there");
    }

    #[test]
    fn a_program_that_was_killed_has_ended_so() {
        let (_, status) = run("kill -KILL $$");
        assert_eq!((status.code(), status.signal()), (None, Some(9)));
    }

    #[test]
    fn all_lines_come_before_the_end() {
        let (lines, status) = run("echo one; echo two; exit 3");
        assert_eq!(lines, [Line::Output("one".to_owned()), Line::Output("two".to_owned())]);
        assert_eq!(status.code(), Some(3));
        let (lines, _) = run("echo wrong >&2");
        assert_eq!(lines, [Line::Error("wrong".to_owned())]);
    }

    #[test]
    fn warnings_outlast_what_is_said_after_them() {
        let mut command = Command::new("/bin/sh");
        let script = "echo '10:00Z  WARN no room' >&2; echo '10:00Z ERROR server lost' >&2; for i in $(seq 200); do echo \
                      '10:01Z  INFO client closed: ERROR 1040' >&2; done; for i in $(seq 100); do echo \
                      \"10:02Z  WARN late $i\" >&2; done";
        command.args(["-c", script]);
        let mut child = Child::start(command).unwrap();
        while !matches!(child.wait_for_line(), Waited::Ended(_)) {}
        assert_eq!(child.said().len(), KEPT_LINES);
        assert_eq!(child.warnings()[..3], ["no room", "server lost", "late 1"]);
        assert_eq!(child.warnings().len(), KEPT_WARNINGS);
    }

    #[test]
    fn a_program_ends_with_its_value_and_takes_its_own_children_along() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut child = Child::start(command).unwrap();
        let pid = loop {
            if let Waited::Line(Line::Output(text)) = child.wait_for_line() {
                break text;
            }
        };
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        drop(child);
        // Nobody waits for an orphan here but the system, which may leave it in the table a little longer.
        let gone = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
        };
        while !gone() {
            std::thread::sleep(LOOK);
        }
    }
}
