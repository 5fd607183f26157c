//! The lines of the log on their way to the standard error stream, which a thread of their own writes: where nobody reads that (a
//! pipe whose reader sleeps, a stopped terminal), no other thread has to wait.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::LogFormat;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::Failure;
use crate::json_line::JsonLine;

/// Lines that may wait to be written: some hundred kilobytes. Further ones are counted and dropped.
const MOST: usize = 1024;

/// At the end of the process its last lines have this long to be written: a reader that is there needs milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes lines and never waits; all clones are the same.
#[derive(Clone)]
pub(crate) struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// A line has come, or all have been written.
    changed: Condvar,
    /// They are objects of JSON.
    are_json: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// How many found no place since the last that did.
    dropped: u64,
    /// One has been taken out and is being written.
    writing: bool,
}

impl Lines {
    /// Starts the thread that writes them to `out`.
    ///
    /// # Errors
    /// Where the system has no threads left.
    pub(crate) fn write_to(out: impl Write + Send + 'static) -> Result<Self, Failure> {
        let lines = Self(Arc::default());
        let shared = Arc::clone(&lines.0);
        std::thread::Builder::new()
            .name(String::from("log"))
            .spawn(move || shared.write_all_to(out))
            .map_err(|error| format!("no thread for the log: {error}"))?;
        Ok(lines)
    }

    /// Lines look like this from here on.
    pub(crate) fn change_format(&self, format: LogFormat) {
        self.0.are_json.store(format == LogFormat::Json, Relaxed);
    }

    /// Whether they are to be objects of JSON.
    pub(super) fn are_json(&self) -> bool {
        self.0.are_json.load(Relaxed)
    }

    /// Takes what panics say, too, which would else wait for the reader: an event loop that panics could not tell of its end.
    pub(super) fn take_panics(&self) {
        let lines = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let backtrace = Backtrace::capture();
            match backtrace.status() {
                BacktraceStatus::Captured => lines.put_panic(&format_args!("{panic}\n{backtrace}")),
                _ => lines.put_panic(panic),
            }
        }));
    }

    /// The main thread may be the one that panics, and the process ends then: so the line is waited for, as at the end.
    fn put_panic(&self, panic: &dyn Display) {
        let json = self.are_json();
        let line = line_of("ERROR", &panic.to_string(), json);
        self.0.lock().put(line.as_bytes(), json);
        self.0.changed.notify_all();
        self.finish();
    }

    /// Waits until all are written, or for as long as the end of the process may take for it.
    pub(crate) fn finish(&self) {
        let waiting = self.0.lock();
        let unwritten = |waiting: &mut Waiting| waiting.writing || !waiting.lines.is_empty();
        // What is not written by then is not read either.
        drop(self.0.changed.wait_timeout_while(waiting, END_TIMEOUT, unwritten));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all_to(&self, mut out: impl Write) {
        loop {
            let line = self.next();
            // A reader that has closed the stream wants to hear nothing.
            let _ = out.write_all(&line);
        }
    }

    /// Waits for the next line.
    fn next(&self) -> Vec<u8> {
        let mut waiting = self.lock();
        waiting.writing = false;
        loop {
            if waiting.lines.is_empty() {
                waiting.say_what_was_dropped(self.are_json.load(Relaxed));
            }
            if let Some(line) = waiting.lines.pop_front() {
                waiting.writing = true;
                return line;
            }
            self.changed.notify_all();
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Waiting {
    fn put(&mut self, line: &[u8], json: bool) {
        // One place is for the line that tells what was dropped before this one.
        if self.lines.len() + 1 >= MOST {
            self.dropped += 1;
            return;
        }
        self.say_what_was_dropped(json);
        self.lines.push_back(line.to_vec());
    }

    fn say_what_was_dropped(&mut self, json: bool) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let message = format!("{count} lines of the log were lost: it is read too slowly");
            let line = line_of("WARN", &message, json);
            self.lines.push_back(line.into_bytes());
        }
    }
}

/// A line like the others.
fn line_of(level: &str, message: &str, json: bool) -> String {
    if !json {
        return format!("{} {level:>5} {message}\n", time_now());
    }
    let mut line = JsonLine::new();
    line.text("timestamp", &time_now()).text("level", level).text("message", message);
    line.end()
}

/// The time as lines have it: RFC 3339, in UTC, with microseconds.
pub(crate) fn time_now() -> String {
    let mut time = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

impl Write for Lines {
    /// One line, whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().put(line, self.are_json());
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Says what is to be written, and goes on when it is let.
    struct Reader {
        lines: Sender<String>,
        lets: Receiver<()>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.lines.send(String::from_utf8_lossy(line).into_owned());
            let _ = self.lets.recv();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let (lines, read) = channel();
        let (lets, let_go) = channel();
        let mut log = Lines::write_to(Reader { lines, lets: let_go }).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(read.recv().unwrap(), "first\n");
        // Its reader sleeps.
        for number in 0..MOST + 9 {
            log.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        drop(lets);
        log.finish();
        let read: Vec<_> = read.try_iter().collect();
        assert_eq!(read.len(), MOST);
        assert_eq!(read[MOST - 2], format!("line {}\n", MOST - 2));
        assert!(read[MOST - 1].ends_with("WARN 10 lines of the log were lost: it is read too slowly\n"));
        log.write_all(b"last\n").unwrap();
        log.finish();
        assert_eq!(log.0.lock().dropped, 0);
    }

    #[test]
    fn panics_wait_for_no_reader() {
        let (lines, read) = channel();
        let (lets, let_go) = channel();
        let mut log = Lines::write_to(Reader { lines, lets: let_go }).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(read.recv().unwrap(), "first\n");
        // Its reader sleeps.
        log.put_panic(&"panicked at here.rs:1:1:\na defect");
        drop(lets);
        assert!(read.recv().unwrap().ends_with("Z ERROR panicked at here.rs:1:1:\na defect\n"));
    }

    #[test]
    fn what_is_said_beside_the_log_is_in_its_format() {
        let (lines, read) = channel();
        let (lets, let_go) = channel();
        let log = Lines::write_to(Reader { lines, lets: let_go }).unwrap();
        drop(lets);
        log.change_format(LogFormat::Json);
        log.put_panic(&"panicked at here.rs:1:1:\na \"defect\"");
        log.0.lock().dropped = 3;
        log.0.changed.notify_all();
        let next = || -> serde_json::Value { serde_json::from_str(&read.recv().unwrap()).unwrap() };
        let panic = next();
        assert_eq!(
            (&panic["level"], &panic["message"]),
            (&"ERROR".into(), &"panicked at here.rs:1:1:\na \"defect\"".into())
        );
        let lost = next();
        assert_eq!(lost["level"], "WARN");
        assert_eq!(lost["message"], "3 lines of the log were lost: it is read too slowly");
        assert_eq!(time_now().len(), "2026-01-31T12:34:56.789012Z".len());
    }

    #[test]
    fn the_loss_is_said_where_it_was() {
        let mut waiting = Waiting::default();
        for _ in 0..MOST + 1 {
            waiting.put(b"before\n", false);
        }
        assert_eq!((waiting.lines.len(), waiting.dropped), (MOST - 1, 2));
        waiting.lines.drain(..2);
        waiting.put(b"behind\n", false);
        let end: Vec<_> =
            waiting.lines.iter().skip(MOST - 3).map(|line| String::from_utf8_lossy(line)).collect();
        assert!(end[0].contains("WARN 2 lines"), "{end:?}");
        assert_eq!(end[1], "behind\n");
    }
}
