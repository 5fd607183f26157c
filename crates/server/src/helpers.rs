//! The threads that do what takes too long for a worker: check passwords against thousands of rounds of hashing, RSA, what
//! clients' TLS handshakes have to work out, and reading large statements and the server's stored code.

mod user_names;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use drivers::Signaller;
use engine::{Finding, Task, Work};
use keys::KeyPair;
use seam::Signal;
use tls::{Handshake, Outcome, Turns};
use zeroize::Zeroizing;

use user_names::{LookUp, Unlisted};

use crate::Failure;

/// A hash takes 2 to 5 ms, and each user's first login needs one; a handshake 0.1 to 1 ms: two threads check some hundred new users
/// a second, and a flood of logins takes two processors at most from those who are in.
const THREADS: usize = 2;

/// Takes tasks of all workers. The threads end when the last of its copies has gone.
#[derive(Clone)]
pub(crate) struct Helpers {
    queue: Arc<Mutex<Queue>>,
    /// One for each job.
    calls: Sender<()>,
}

/// The work of the threads: tasks and handshakes in turn, so that no crowd of the one holds up the other.
struct Queue {
    tasks: Jobs<Asker>,
    /// Large statements, and stored code. One thread reads them at a time, so that a login always has another one.
    texts: Jobs<Asker>,
    reading: bool,
    /// Of each worker [`tls::Tls`] lets out some at a time.
    handshakes: VecDeque<(Handshake, HandshakeAsker)>,
    /// A task is next, if there is one.
    after_handshake: bool,
}

#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
enum Job {
    Task(Task, Asker),
    Handshake(Handshake, HandshakeAsker),
}

/// Ends with the text that is read, whatever becomes of that.
struct ReadingText<'a>(&'a Mutex<Queue>);

impl Drop for ReadingText<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reading = false;
    }
}

impl Queue {
    fn take(&mut self) -> Option<Job> {
        if !self.reading
            && let Some((text, asker)) = self.texts.take()
        {
            self.reading = true;
            return Some(Job::Task(text, asker));
        }
        if !std::mem::take(&mut self.after_handshake)
            && let Some((handshake, asker)) = self.handshakes.pop_front()
        {
            self.after_handshake = true;
            return Some(Job::Handshake(handshake, asker));
        }
        let task = self.tasks.take().map(|(task, asker)| Job::Task(task, asker));
        task.or_else(|| {
            self.handshakes.pop_front().map(|(handshake, asker)| Job::Handshake(handshake, asker))
        })
    }
}

/// The work that waits. A client has one job at most, so that there are no more than clients and backends. Of small jobs there are as many
/// again that nobody waits for any more; of texts those are taken out with the next one that comes.
struct Jobs<A> {
    /// Of connections to the server: these go first.
    own: VecDeque<(Task, A)>,
    /// Of clients that log in.
    clients: Turns<(Task, A)>,
    /// With so many, those that nobody waits for are taken out.
    tidy_at: usize,
    /// With fewer, tidying is not worth it.
    few: usize,
}

/// See [`Jobs::few`]: of small jobs, each of which takes some hundred bytes.
const FEW: usize = 1024;

impl<A> Jobs<A> {
    fn new() -> Self {
        Self { own: VecDeque::new(), clients: Turns::default(), tidy_at: FEW, few: FEW }
    }

    /// Jobs with a text of megabytes each, which counts against `statement_memory` only as long as its client waits: nothing else is kept.
    fn of_texts() -> Self {
        Self { tidy_at: 0, few: 0, ..Self::new() }
    }

    fn put(&mut self, task: Task, asker: A) {
        if task.is_our_own() {
            return self.own.push_back((task, asker));
        }
        if self.clients.len() >= self.tidy_at {
            self.clients.retain(|(task, _)| task.is_wanted());
            // Doubling keeps its cost small for each that is put in.
            self.tidy_at = if self.few == 0 { 0 } else { (self.clients.len() * 2).max(self.few) };
        }
        self.clients.push(task.network, (task, asker));
    }

    /// The next one that somebody waits for.
    fn take(&mut self) -> Option<(Task, A)> {
        while let Some(job) = self.own.pop_front() {
            if job.0.is_wanted() {
                return Some(job);
            }
        }
        self.clients.pop(|(task, _)| task.is_wanted())
    }
}

/// Where findings go.
struct Asker {
    findings: Sender<(u64, Finding)>,
    signaller: Signaller,
}

impl Asker {
    /// A worker that has ended needs no answer.
    fn tell(&self, number: u64, finding: Finding) {
        if self.findings.send((number, finding)).is_ok() {
            self.signaller.send(Signal::Wake);
        }
    }
}

/// Where a handshake goes back to.
struct HandshakeAsker {
    outcomes: Sender<Outcome>,
    signaller: Signaller,
}

impl HandshakeAsker {
    /// Likewise.
    fn tell(&self, outcome: Outcome) {
        if self.outcomes.send(outcome).is_ok() {
            self.signaller.send(Signal::Wake);
        }
    }
}

/// One worker's end.
pub(crate) struct HelpDesk {
    helpers: Helpers,
    to_us: Sender<(u64, Finding)>,
    findings: Receiver<(u64, Finding)>,
    signaller: Signaller,
}

/// One worker's end for the handshakes of its clients.
pub(crate) struct HandshakeDesk {
    helpers: Helpers,
    to_us: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
    signaller: Signaller,
}

impl Helpers {
    /// Starts the threads.
    ///
    /// # Errors
    /// Where the system has no threads left.
    pub(crate) fn start() -> Result<Self, Failure> {
        Self::start_with(user_names::ask_system)
    }

    /// Likewise; users that the system's list does not name are looked up by this.
    fn start_with(look_up: LookUp) -> Result<Self, Failure> {
        let names = user_names::start(look_up)?;
        let (calls, called) = channel();
        let called = Arc::new(Mutex::new(called));
        let (tasks, texts, handshakes) = (Jobs::new(), Jobs::of_texts(), VecDeque::new());
        let queue = Queue { tasks, texts, reading: false, handshakes, after_handshake: false };
        let queue = Arc::new(Mutex::new(queue));
        let key = Arc::new(OnceLock::new());
        for _ in 0..THREADS {
            let (called, queue, key) = (Arc::clone(&called), Arc::clone(&queue), Arc::clone(&key));
            let names = names.clone();
            std::thread::Builder::new()
                .name(String::from("logins"))
                .spawn(move || help(&called, &queue, &key, &names))
                .map_err(|error| format!("no thread for logins: {error}"))?;
        }
        Ok(Self { queue, calls })
    }

    /// A worker's end, which is woken by this.
    pub(crate) fn desk(&self, signaller: Signaller) -> HelpDesk {
        let (to_us, findings) = channel();
        HelpDesk { helpers: self.clone(), to_us, findings, signaller }
    }

    /// A worker's end for handshakes, which is woken by this.
    pub(crate) fn handshake_desk(&self, signaller: Signaller) -> HandshakeDesk {
        let (to_us, outcomes) = channel();
        HandshakeDesk { helpers: self.clone(), to_us, outcomes, signaller }
    }

    fn call(&self, put: impl FnOnce(&mut Queue)) {
        put(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        // The threads live as long as we do.
        let _ = self.calls.send(());
    }
}

impl HelpDesk {
    /// Has something done. What comes of it comes with [`Signal::Wake`].
    pub(crate) fn give(&self, task: Task) {
        let asker = Asker { findings: self.to_us.clone(), signaller: self.signaller.clone() };
        let reads = is_reading(&task.work);
        self.helpers.call(|queue| if reads { &mut queue.texts } else { &mut queue.tasks }.put(task, asker));
    }

    /// The next thing that has been found.
    pub(crate) fn finding(&self) -> Option<(u64, Finding)> {
        self.findings.try_recv().ok()
    }
}

impl HandshakeDesk {
    /// Has a handshake go on. What comes of it comes with [`Signal::Wake`].
    pub(crate) fn give(&self, handshake: Handshake) {
        let asker = HandshakeAsker { outcomes: self.to_us.clone(), signaller: self.signaller.clone() };
        self.helpers.call(|queue| queue.handshakes.push_back((handshake, asker)));
    }

    /// The next one that comes back.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }
}

/// The key pair of this process, made when it is first needed: servers whose accounts all use other methods, and clients that
/// come by Unix sockets, never need it.
type Key = OnceLock<Option<KeyPair>>;

fn help(called: &Mutex<Receiver<()>>, queue: &Mutex<Queue>, key: &Key, names: &Sender<Unlisted>) {
    loop {
        let call = called.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(()) = call else { return };
        // To the last: a text may have been left behind while another one was read. There may be none, where those before it were
        // passed over.
        let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        while let Some(job) = take() {
            match job {
                Job::Task(task, asker) => match task.work {
                    Work::UserName { uid } => match user_names::listed(uid) {
                        Some(name) => asker.tell(task.number, Finding::UserName(Some(name))),
                        // Who is asked then may take minutes.
                        None => drop(names.send(Unlisted { uid, task, asker })),
                    },
                    work => {
                        let _reading = is_reading(&work).then_some(ReadingText(queue));
                        let place = match work {
                            Work::ReadAccounts(_) => "accounts",
                            Work::ReadCode(_) => "code",
                            _ => "task",
                        };
                        let finding = survive(place, || carry_out(work, key)).unwrap_or(Finding::Lost);
                        asker.tell(task.number, finding);
                    }
                },
                Job::Handshake(handshake, asker) => {
                    let lost = handshake.lost();
                    asker.tell(survive("handshake", || handshake.carry_out()).unwrap_or(lost));
                }
            }
        }
    }
}

/// A panic here is a defect, and has been logged as such. A job works on things of its own, so that only its own client is lost:
/// neither the thread, nor the place among those that are away.
fn survive<T>(place: &str, job: impl FnOnce() -> T) -> Option<T> {
    let job = || {
        #[cfg(debug_assertions)]
        crate::injected::panic_in(place);
        let _ = place;
        job()
    };
    catch_unwind(AssertUnwindSafe(job)).ok()
}

/// Says whether the work may take as long as some hundred logins.
fn is_reading(work: &Work) -> bool {
    matches!(work, Work::Read(_) | Work::ReadAccounts(_) | Work::ReadCode(_))
}

fn carry_out(work: Work, key: &Key) -> Finding {
    match work {
        Work::Check { stored, proof } => {
            let password = proof.open(|bytes| key.get().and_then(Option::as_ref)?.decrypt(bytes));
            Finding::Password(password.map(|password| {
                let right = password.matches(&stored);
                (password, right)
            }))
        }
        Work::PublicKey => {
            let pair = key.get_or_init(|| {
                KeyPair::generate()
                    .inspect_err(|error| tracing::error!("clients cannot log in: {error}"))
                    .ok()
            });
            Finding::PublicKey(pair.as_ref().map(|pair| pair.public_key().into()))
        }
        Work::Verify { public_key, nonce, signature } => {
            Finding::Signature(keys::verify_ed25519(&public_key, &nonce, &signature))
        }
        Work::UserName { uid } => Finding::UserName(user_names::listed(uid)),
        Work::Encrypt { bytes, public_key } => Finding::Encrypted(encrypt(&bytes, &public_key)),
        Work::Read(text) => Finding::Text(text.read()),
        Work::ReadAccounts(rows) => Finding::Accounts(rows.read()),
        Work::ReadCode(answers) => Finding::Code(answers.read()),
    }
}

fn encrypt(bytes: &Zeroizing<Vec<u8>>, public_key: &[u8]) -> Option<Vec<u8>> {
    keys::encrypt(public_key, bytes)
        .inspect_err(|error| tracing::warn!("a login on the server fails: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use engine::{Password, Proof};

    use super::*;

    #[test]
    fn a_job_that_panics_is_survived() {
        assert_eq!(survive("task", || 1), Some(1));
        assert_eq!(survive("task", || -> u32 { panic!("on purpose") }), None);
    }

    #[test]
    fn a_password_that_comes_encrypted_is_checked() {
        let key = Key::new();
        let Finding::PublicKey(Some(public_key)) = carry_out(Work::PublicKey, &key) else { panic!("no key") };
        let scramble = *b"abcdefghijklmnopqrst";
        let mut mixed = b"secret\0".to_vec();
        wire::sha2_password::mix_with_scramble(&mut mixed, &scramble);
        let bytes = keys::encrypt(&public_key, &mixed).unwrap();
        let stored = wire::sha2_password::stored_form(b"secret", b"12345678901234567890");
        let proof = Proof::Encrypted { bytes: bytes.clone(), scramble };
        let found = carry_out(Work::Check { stored: stored.clone(), proof }, &key);
        assert!(matches!(found, Finding::Password(Some((_, true)))));
        let proof = Proof::Encrypted { bytes, scramble: [b'x'; 20] };
        let found = carry_out(Work::Check { stored, proof }, &key);
        assert!(!matches!(found, Finding::Password(Some((_, true)))), "for another scramble");
    }

    fn order(jobs: &mut Jobs<()>) -> Vec<u64> {
        std::iter::from_fn(|| jobs.take()).map(|(task, ())| task.number).collect()
    }

    #[test]
    fn connections_to_the_server_go_first() {
        let own = || Work::Encrypt { bytes: Zeroizing::default(), public_key: Vec::new() };
        let mut jobs = Jobs::new();
        for (number, work) in
            [Work::PublicKey, own(), Work::UserName { uid: 0 }, own()].into_iter().enumerate()
        {
            jobs.put(Task::new(number as u64, work, None), ());
        }
        assert_eq!(order(&mut jobs), [1, 3, 0, 2]);
    }

    fn from(number: u64, last: u8) -> Task {
        Task::new(number, Work::PublicKey, Some(IpAddr::from([10, 0, 0, last])))
    }

    #[test]
    fn networks_take_turns() {
        let mut jobs = Jobs::new();
        for (number, last) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            jobs.put(from(number, last), ());
        }
        assert_eq!(order(&mut jobs), [0, 3, 5, 1, 4, 2]);
        assert!(jobs.clients.is_empty());
    }

    #[test]
    fn what_nobody_waits_for_does_not_heap_up() {
        let mut jobs = Jobs::new();
        jobs.put(from(0, 1), ());
        for number in 1..10 * FEW as u64 {
            let task = from(number, 2);
            task.give_up();
            jobs.put(task, ());
        }
        assert!(jobs.clients.len() <= FEW, "{} are kept", jobs.clients.len());
        assert_eq!(order(&mut jobs), [0]);
    }

    #[test]
    fn no_text_is_kept_that_nobody_waits_for() {
        let mut jobs = Jobs::of_texts();
        for number in 0..10 {
            let task = from(number, 2);
            if number > 0 {
                task.give_up();
            }
            jobs.put(task, ());
            assert!(jobs.clients.len() <= 2, "{} are kept", jobs.clients.len());
        }
        assert_eq!(order(&mut jobs), [0]);
    }

    /// They never come back, and all of them are asked for at once; then one that is listed, and a key.
    #[test]
    fn names_that_are_slow_to_come_hold_up_nothing_else() {
        let settings = drivers::Settings::default();
        let opened = drivers::Driver::open(drivers::DriverChoice::Epoll, settings).unwrap();
        let never = |_, _: &dyn Fn() -> bool| loop {
            std::thread::park();
        };
        let helpers = Helpers::start_with(never).unwrap();
        let desk = helpers.desk(opened.driver.signaller().unwrap());
        for number in 0..4 {
            desk.give(Task::new(number, Work::UserName { uid: u32::MAX - 1 }, None));
        }
        desk.give(Task::new(4, Work::UserName { uid: 0 }, None));
        desk.give(Task::new(5, Work::PublicKey, None));
        let mut found: Vec<_> = (0..2).map(|_| desk.findings.recv().unwrap().0).collect();
        found.sort_unstable();
        assert_eq!(found, [4, 5]);
    }

    #[test]
    fn a_password_in_the_clear_is_checked() {
        let stored = wire::sha2_password::stored_form(b"secret", b"12345678901234567890");
        for (text, right) in [("secret", true), ("Secret", false), ("", false)] {
            let proof = Proof::Clear(Arc::new(Password::new(Zeroizing::new(text.into()))));
            let found = carry_out(Work::Check { stored: stored.clone(), proof }, &Key::new());
            assert!(matches!(found, Finding::Password(Some((_, found))) if found == right));
        }
    }
}
