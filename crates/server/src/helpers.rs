//! The threads that do what takes too long for a worker: check passwords against thousands of rounds of hashing, and RSA.

use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use drivers::Signaller;
use engine::{Finding, Task, Work};
use keys::KeyPair;
use seam::Signal;
use zeroize::Zeroizing;

/// A hash takes 2 to 5 ms, and each user's first login needs one: two threads check some hundred new users a second, and a
/// flood of bad logins takes two processors at most from those who are in.
const THREADS: usize = 2;

/// Takes tasks of all workers. The threads end when the last of its copies has gone.
#[derive(Clone)]
pub(crate) struct Helpers {
    tasks: Sender<Job>,
}

/// A task, and where its finding goes.
struct Job {
    task: Task,
    findings: Sender<(u64, Finding)>,
    signaller: Signaller,
}

/// One worker's end.
pub(crate) struct HelpDesk {
    helpers: Helpers,
    to_us: Sender<(u64, Finding)>,
    findings: Receiver<(u64, Finding)>,
    signaller: Signaller,
}

impl Helpers {
    /// Starts the threads.
    ///
    /// # Errors
    /// Where the system has no threads left.
    pub(crate) fn start() -> Result<Self, String> {
        let (tasks, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let key = Arc::new(OnceLock::new());
        for _ in 0..THREADS {
            let (jobs, key) = (Arc::clone(&jobs), Arc::clone(&key));
            std::thread::Builder::new()
                .name(String::from("logins"))
                .spawn(move || help(&jobs, &key))
                .map_err(|error| format!("no thread for logins: {error}"))?;
        }
        Ok(Self { tasks })
    }

    /// A worker's end, which is woken by this.
    pub(crate) fn desk(&self, signaller: Signaller) -> HelpDesk {
        let (to_us, findings) = channel();
        HelpDesk { helpers: self.clone(), to_us, findings, signaller }
    }
}

impl HelpDesk {
    /// Has something done. What comes of it comes with [`Signal::Wake`].
    pub(crate) fn give(&self, task: Task) {
        let job = Job { task, findings: self.to_us.clone(), signaller: self.signaller.clone() };
        // The threads live as long as we do.
        let _ = self.helpers.tasks.send(job);
    }

    /// The next thing that has been found.
    pub(crate) fn finding(&self) -> Option<(u64, Finding)> {
        self.findings.try_recv().ok()
    }
}

/// The key pair of this process, made when it is first needed: servers whose accounts all use other methods, and clients that
/// come by Unix sockets, never need it.
type Key = OnceLock<Option<KeyPair>>;

fn help(jobs: &Mutex<Receiver<Job>>, key: &Key) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { task, findings, signaller }) = job else { return };
        // A worker that has ended needs no answer.
        if findings.send((task.number, carry_out(task.work, key))).is_ok() {
            signaller.send(Signal::Wake);
        }
    }
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
        Work::UserName { uid } => Finding::UserName(user_name(uid)),
        Work::Encrypt { bytes, public_key } => Finding::Encrypted(encrypt(&bytes, &public_key)),
    }
}

/// From the system's list of users or, where it is not on that (LDAP and the like), from whoever answers `getent`.
fn user_name(uid: u32) -> Option<Vec<u8>> {
    let listed = std::fs::read("/etc/passwd").unwrap_or_default();
    name_in(&listed, uid).or_else(|| {
        let answer = Command::new("getent").args(["passwd", &uid.to_string()]).output().ok()?;
        name_in(&answer.stdout, uid)
    })
}

/// Lines of `name:password:uid:...`.
fn name_in(lines: &[u8], uid: u32) -> Option<Vec<u8>> {
    let uid = uid.to_string();
    let mut lines = lines.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b':'));
    lines.find_map(|mut fields| {
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid.as_bytes()).then(|| name.to_vec())
    })
}

fn encrypt(bytes: &Zeroizing<Vec<u8>>, public_key: &[u8]) -> Option<Vec<u8>> {
    keys::encrypt(public_key, bytes)
        .inspect_err(|error| tracing::warn!("a login on the server fails: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Password, Proof};

    use super::*;

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

    #[test]
    fn users_have_names() {
        let lines = b"root:x:0:0:root:/root:/bin/bash\nbroken\napp:x:1001:1001::/home/app:/bin/sh\n";
        assert_eq!(name_in(lines, 0).as_deref(), Some(&b"root"[..]));
        assert_eq!(name_in(lines, 1001).as_deref(), Some(&b"app"[..]));
        assert_eq!(name_in(lines, 100), None);
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
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
