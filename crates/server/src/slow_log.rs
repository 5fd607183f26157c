//! The slow log on its way out. Its lines are made and written by a thread of their own: workers hand statements over and never wait,
//! whatever becomes of the file.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use engine::SlowStatement;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::json_line::JsonLine;
use crate::logging::{Lines, time_now};

/// Statements that may wait to be written: some megabytes where they have their texts. Further ones are counted and dropped.
const MOST: usize = 1024;

/// What the file cannot take is said once in this time, and how much that was.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// A file that cannot be opened is tried again this often at most, while there are lines.
const RETRY: Duration = Duration::from_secs(1);

/// A pipe that is full is read within this time by whoever reads it at all. Behind one that is not, no line waits.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// At the end of the process the last lines have this long to be written: a disk needs milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Those who collect logs are in the file's group, and nobody else has to know what is slow.
const MODE: u32 = 0o640;

/// The name of the standard error stream among files.
const STDERR: &str = "stderr";

/// Takes slow statements and never waits; all clones are the same.
#[derive(Clone)]
pub(crate) struct SlowLog {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How often the file was to be opened, for the first time or anew.
    openings: AtomicU64,
    /// Lines that were dropped here, or that the file did not take.
    lost: AtomicU64,
    /// How many of these no line has told of yet.
    untold: AtomicU64,
}

enum Order {
    Write {
        worker: usize,
        time: String,
        statement: Box<SlowStatement>,
    },
    /// There is something else to look for.
    Wake,
    /// All before has been written.
    Tell(Sender<()>),
}

impl SlowLog {
    /// Starts the thread that writes to this file, or to the log's own `lines`.
    ///
    /// # Errors
    /// Where the system has no threads left.
    pub(crate) fn start(path: &Path, lines: Lines) -> io::Result<Self> {
        let (orders, taken) = sync_channel(MOST);
        let log = Self { orders, shared: Arc::default() };
        let (shared, path) = (Arc::clone(&log.shared), path.to_path_buf());
        std::thread::Builder::new()
            .name(String::from("slow log"))
            .spawn(move || Out::new(path, shared, lines).carry_out(&taken))?;
        // A file that cannot be opened is to be heard of before there is something to write.
        log.reopen();
        Ok(log)
    }

    /// Opens the file anew: the one that was may have another name by now.
    pub(crate) fn reopen(&self) {
        self.shared.openings.fetch_add(1, Relaxed);
        // Where there are too many orders, the thread looks before the next of them.
        let _ = self.orders.try_send(Order::Wake);
    }

    /// Writes a statement of this worker, unless too many wait.
    pub(crate) fn put(&self, worker: usize, statement: SlowStatement) {
        let order = Order::Write { worker, time: time_now(), statement: Box::new(statement) };
        let sent = self.orders.try_send(order);
        if let Err(
            TrySendError::Full(Order::Write { statement, .. })
            | TrySendError::Disconnected(Order::Write { statement, .. }),
        ) = sent
        {
            self.shared.lose(statement.left_out);
        }
    }

    /// Lines that were dropped for want of a place, or that the file did not take.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Relaxed)
    }

    /// Waits until all is written, or for as long as the end of the process may take for it.
    pub(crate) fn finish(&self) {
        let (tell, told) = channel();
        if self.orders.try_send(Order::Tell(tell)).is_ok() {
            let _ = told.recv_timeout(END_TIMEOUT);
        }
    }
}

impl Shared {
    /// A line is lost, and with it how many had been left out before it.
    fn lose(&self, left_out: u64) {
        self.lost.fetch_add(1, Relaxed);
        self.untold.fetch_add(1 + left_out, Relaxed);
    }
}

/// The thread's own.
struct Out {
    shared: Arc<Shared>,
    /// The log, which the standard error stream is left to.
    lines: Lines,
    path: PathBuf,
    /// `None` for the standard error stream, and where it cannot be opened.
    file: Option<File>,
    /// As of this opening.
    opening: u64,
    opened_at: Instant,
    /// The last line was written in part.
    is_torn: bool,
    /// The file took nothing for as long as it had.
    is_stuck: bool,
    complained_at: Option<Instant>,
    /// Lines that were lost by the last complaint.
    told: u64,
}

impl Out {
    fn new(path: PathBuf, shared: Arc<Shared>, lines: Lines) -> Self {
        Self {
            shared,
            lines,
            path,
            file: None,
            opening: 0,
            opened_at: Instant::now(),
            is_torn: false,
            is_stuck: false,
            complained_at: None,
            told: 0,
        }
    }

    fn carry_out(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            self.open_where_asked();
            match order {
                Order::Write { worker, time, statement } => self.write(worker, &time, &statement),
                Order::Wake => {}
                Order::Tell(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    fn is_stderr(&self) -> bool {
        self.path.as_os_str().is_empty() || self.path == Path::new(STDERR)
    }

    fn open_where_asked(&mut self) {
        let opening = self.shared.openings.load(Relaxed);
        if opening != self.opening {
            self.opening = opening;
            // A new reason is to be heard of at once.
            self.complained_at = None;
            self.open();
        }
    }

    fn open(&mut self) {
        self.opened_at = Instant::now();
        self.file = None;
        if self.is_stderr() {
            return;
        }
        match open(&self.path) {
            Ok(file) => {
                // The disk may have been full at the last line, of this Onramp or of one before it.
                self.is_torn = ends_torn(&self.path, &file);
                self.file = Some(file);
            }
            Err(error) if error == Errno::NXIO => {
                self.complain("opened", &"it is a FIFO, and nobody reads it");
            }
            Err(error) => self.complain("opened", &io::Error::from(error)),
        }
    }

    fn write(&mut self, worker: usize, time: &str, statement: &SlowStatement) {
        let left_out = statement.left_out + self.shared.untold.swap(0, Relaxed);
        let line = line_of(worker, time, statement, left_out);
        if self.is_stderr() {
            // The log takes all, and tells by itself of what is not read.
            let _ = self.lines.write(line.as_bytes());
            return;
        }
        if self.file.is_none() && self.opened_at.elapsed() >= RETRY {
            self.open();
        }
        let Some(file) = &mut self.file else {
            return self.shared.lose(left_out);
        };
        let before: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let mut file = Patient { file, waits: !self.is_stuck };
        let result = write_whole(&mut file, &[before, line.as_bytes()].concat());
        self.is_torn = matches!(result, Err((_, true))) || (self.is_torn && result.is_err());
        self.is_stuck = matches!(&result, Err((error, _)) if error.kind() == io::ErrorKind::WouldBlock);
        match result {
            Err((error, _)) => {
                self.shared.lose(left_out);
                self.complain("written", &error);
            }
            Ok(()) if self.shared.lost.load(Relaxed) > self.told => {
                self.complain("written fast enough", &"lines had to wait too long");
            }
            Ok(()) => {}
        }
    }

    fn complain(&mut self, what: &str, reason: &dyn Display) {
        if self.complained_at.is_some_and(|at| at.elapsed() < COMPLAINTS) {
            return;
        }
        self.complained_at = Some(Instant::now());
        let all = self.shared.lost.load(Relaxed);
        let lost = all - std::mem::replace(&mut self.told, all);
        tracing::warn!(
            "slow_log: {} cannot be {what}: {reason}; {lost} lines were lost, and statements go on. It is tried again with \
             lines to come, once a second at most, and at SIGHUP and RELOAD",
            self.path.display()
        );
    }
}

/// Where a FIFO is not read by anybody, that is an error: nobody is waited for.
fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from(MODE)).map(File::from)
}

/// What may be a pipe, and full.
struct Patient<'a> {
    file: &'a File,
    waits: bool,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file;
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.waits => {
                let mut waiting = [PollFd::new(file, PollFlags::OUT)];
                retry_on_intr(|| poll(&mut waiting, Some(&PATIENCE)))?;
                file.write(bytes)
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the last line of a file has no end. What cannot be read is taken to be well.
fn ends_torn(path: &Path, file: &File) -> bool {
    let length = file.metadata().map_or(0, |known| if known.is_file() { known.len() } else { 0 });
    let mut last = [0];
    length > 0
        && File::open(path).and_then(|file| file.read_exact_at(&mut last, length - 1)).is_ok()
        && last != *b"\n"
}

/// An error says whether a part was written.
fn write_whole(file: &mut impl Write, line: &[u8]) -> Result<(), (io::Error, bool)> {
    let mut written = 0;
    while written < line.len() {
        match file.write(&line[written..]) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), written > 0)),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((error, written > 0)),
        }
    }
    Ok(())
}

/// The line of a statement. Members without a value are absent.
fn line_of(worker: usize, time: &str, slow: &SlowStatement, left_out: u64) -> String {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut line = JsonLine::new();
    line.text("timestamp", time).text("level", "INFO").text("event", "slow_statement");
    line.plain("worker", worker).plain("client", slow.client).text("user", &slow.user);
    line.text("address", &slow.peer.to_string());
    if let Some(schema) = &slow.schema {
        line.text("schema", schema);
    }
    line.text("command", slow.command);
    if let Some(digest) = slow.digest {
        line.text("digest", &format!("{digest:016x}"));
    }
    for (name, text) in [("text", &slow.text), ("sent_text", &slow.sent_text)] {
        if let Some(text) = text {
            line.text(name, text);
        }
    }
    line.plain("wait_us", micros(slow.waited)).text("queue", slow.queue.name());
    if let Some((reason, waited)) = slow.wait_reason {
        line.text("wait_reason", reason.name()).plain("wait_reason_us", micros(waited));
    }
    line.plain("server_us", micros(slow.took)).text("end", slow.end.name());
    line.plain("rows_sent", slow.rows_sent).plain("rows_affected", slow.rows_affected);
    if let Some(error) = slow.error {
        line.plain("error", error);
    }
    if let Some((in_use, permits)) = slow.permits {
        line.plain("permits_in_use", in_use).plain("permits", permits);
    }
    if let Some(backend) = slow.backend {
        line.plain("backend", backend);
    }
    line.plain("shared", slow.shared).plain("coalesced", slow.coalesced);
    if let Some(trace) = &slow.trace {
        line.text("traceparent", trace.as_str());
        line.text("trace_id", trace.trace_id()).text("span_id", trace.span_id());
    }
    if left_out > 0 {
        line.plain("left_out", left_out);
    }
    line.end()
}

#[cfg(test)]
mod tests {
    use engine::{SlowEnd, WaitReason};
    use seam::Peer;

    use super::*;

    fn slow(user: &str) -> SlowStatement {
        SlowStatement {
            client: 7,
            peer: Peer::Tcp("127.0.0.1:5".parse().unwrap()),
            user: String::from(user),
            schema: None,
            command: "query",
            digest: Some(0xab),
            text: Some(String::from("select ?")),
            sent_text: None,
            waited: Duration::from_micros(20),
            queue: engine::Queue::Low,
            wait_reason: Some((WaitReason::Permit, Duration::from_micros(15))),
            took: Duration::from_millis(3),
            end: SlowEnd::Answered,
            rows_sent: 1,
            rows_affected: 0,
            error: None,
            permits: Some((4, 8)),
            backend: Some(99),
            shared: false,
            coalesced: false,
            trace: None,
            left_out: 0,
        }
    }

    #[test]
    fn a_line_says_what_is_known() {
        let read = |slow: &SlowStatement, left_out| -> serde_json::Value {
            serde_json::from_str(&line_of(2, "now", slow, left_out)).unwrap()
        };
        let plain = read(&slow("a\"\u{1b}\u{fffd}"), 0);
        assert_eq!(
            (&plain["user"], &plain["digest"]),
            (&"a\"\u{1b}\u{fffd}".into(), &"00000000000000ab".into())
        );
        assert_eq!((&plain["wait_reason"], &plain["wait_reason_us"]), (&"permit".into(), &15.into()));
        assert_eq!((&plain["server_us"], &plain["permits_in_use"]), (&3000.into(), &4.into()));
        for absent in ["schema", "sent_text", "error", "traceparent", "left_out"] {
            assert!(plain.get(absent).is_none(), "{absent}");
        }
        let trace = engine_trace();
        let more = SlowStatement { schema: Some(String::from("s")), trace, error: Some(1205), ..slow("a") };
        let more = read(&more, 3);
        assert_eq!(
            (&more["schema"], &more["error"], &more["left_out"]),
            (&"s".into(), &1205.into(), &3.into())
        );
        assert_eq!(more["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    fn engine_trace() -> Option<engine::TraceParent> {
        engine::TraceParent::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    }

    /// A path of its own; what is there is gone with the value.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("onramp-slow-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Takes so many bytes, then is full.
    struct Disk {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_torn_is_known_to_be() {
        let mut disk = Disk { taken: Vec::new(), room: 5 };
        assert!(write_whole(&mut disk, b"abc").is_ok());
        assert!(matches!(write_whole(&mut disk, b"abc"), Err((_, true))));
        assert!(matches!(write_whole(&mut disk, b"abc"), Err((_, false))));
        assert_eq!(disk.taken, b"abcab");
    }

    #[test]
    fn a_line_that_was_torn_before_the_file_was_opened_is_ended() {
        let path = Temporary::new("torn");
        let written = |before: &str| {
            std::fs::write(&path.0, before).unwrap();
            let mut out = out_to(&path.0);
            out.open();
            out.write(0, "now", &slow("a"));
            std::fs::read_to_string(&path.0).unwrap()
        };
        let (torn, whole) = (written("{\"torn"), written("{}\n"));
        let first = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
        assert_eq!((first(&torn)[0].as_str(), first(&torn).len()), ("{\"torn", 2));
        assert_eq!((first(&whole)[0].as_str(), first(&whole).len()), ("{}", 2));
    }

    #[test]
    fn nobody_is_waited_for_who_does_not_read_a_fifo() {
        let path = Temporary::new("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path.0, rustix::fs::FileType::Fifo, Mode::from(0o600), 0)
            .unwrap();
        let mut out = out_to(&path.0);
        out.open();
        assert!(out.file.is_none() && out.complained_at.is_some(), "that nobody reads it is told");
        // Of itself, a process may open both ends; it reads nothing here.
        let reader = File::options().read(true).write(true).open(&path.0).unwrap();
        out.open();
        let before = out.shared.lost.load(Relaxed);
        let long = "a".repeat(60_000);
        for _ in 0..3 {
            out.write(0, "now", &slow(&long));
        }
        assert!(out.is_stuck && out.is_torn && out.shared.lost.load(Relaxed) > before);
        drop(reader);
    }

    #[test]
    fn what_was_dropped_while_lines_waited_is_complained_of_too() {
        let path = Temporary::new("late");
        let mut out = out_to(&path.0);
        out.open();
        out.shared.lose(0);
        out.write(0, "now", &slow("a"));
        assert!(out.complained_at.is_some() && out.told == 1);
    }

    fn out_to(path: &Path) -> Out {
        Out::new(path.into(), Arc::default(), Lines::write_to(io::sink()).unwrap())
    }

    #[test]
    fn what_finds_no_place_is_counted_and_told_with_the_next_line() {
        let (orders, taken) = sync_channel(1);
        let log = SlowLog { orders, shared: Arc::default() };
        log.put(0, slow("a"));
        log.put(0, SlowStatement { left_out: 4, ..slow("b") });
        assert_eq!((log.lost(), log.shared.untold.load(Relaxed)), (1, 5));
        drop(taken);
        // Nobody writes any more.
        log.put(0, slow("c"));
        assert_eq!(log.lost(), 2);
        log.finish();
    }
}
