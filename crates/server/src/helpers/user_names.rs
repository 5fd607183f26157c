//! The names of this machine's users, for clients that come by Unix sockets.
//!
//! Users on the system's list are found at once. The others (LDAP and the like) are asked for with `getent`, on a thread of its
//! own: the directory that answers may be slow, or not there, and passwords and handshakes are not to wait for it.

use std::collections::VecDeque;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use engine::{Finding, Task};

use super::Asker;

use crate::Failure;

/// A user who is not on the system's list, and who wants to know the name.
pub(super) struct Unlisted {
    pub(super) uid: u32,
    pub(super) task: Task,
    pub(super) asker: Asker,
}

/// Finds the name of a user, for as long as somebody waits for it.
pub(super) type LookUp = fn(uid: u32, is_wanted: &dyn Fn() -> bool) -> Option<Vec<u8>>;

/// The time between two looks for the end of `getent`, which takes some milliseconds itself.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Starts the thread, which ends with the last of the senders.
///
/// # Errors
/// Where the system has no threads left.
pub(super) fn start(look_up: LookUp) -> Result<Sender<Unlisted>, Failure> {
    let (names, asked) = channel();
    std::thread::Builder::new()
        .name(String::from("user names"))
        .spawn(move || answer(&asked, look_up))
        .map_err(|error| format!("no thread for the names of users: {error}"))?;
    Ok(names)
}

/// One after the other; who asks for the same one meanwhile gets the same answer. A client waits for `connect_timeout` at most, so
/// that a user who cannot be found holds up the others for no longer.
fn answer(asked: &Receiver<Unlisted>, look_up: LookUp) {
    let mut waiting = VecDeque::new();
    loop {
        let Some(first) = waiting.pop_front().or_else(|| asked.recv().ok()) else { return };
        let Unlisted { uid, ref task, .. } = first;
        let name = task.is_wanted().then(|| look_up(uid, &|| task.is_wanted())).flatten();
        let given_up = !task.is_wanted();
        waiting.push_front(first);
        waiting.extend(asked.try_iter());
        waiting.retain(|one| {
            let answered = one.uid == uid && !given_up;
            if answered {
                one.asker.tell(one.task.number, Finding::UserName(name.clone()));
            }
            one.task.is_wanted() && !answered
        });
    }
}

/// The name of a user on the system's list.
pub(super) fn listed(uid: u32) -> Option<Vec<u8>> {
    name_in(&std::fs::read("/etc/passwd").unwrap_or_default(), uid)
}

/// Returns the answer of `getent`.
pub(super) fn ask_system(uid: u32, is_wanted: &dyn Fn() -> bool) -> Option<Vec<u8>> {
    let mut command = Command::new("getent");
    command.args(["passwd", &uid.to_string()]);
    name_in(&output_of(&mut command, is_wanted)?, uid)
}

/// Returns the output of a program, which is ended when nobody wants it any more.
fn output_of(command: &mut Command, is_wanted: &dyn Fn() -> bool) -> Option<Vec<u8>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    while let Ok(None) = child.try_wait() {
        if !is_wanted() {
            return end(&mut child);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let mut printed = Vec::new();
    child.stdout.take()?.read_to_end(&mut printed).ok()?;
    Some(printed)
}

fn end(child: &mut Child) -> Option<Vec<u8>> {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    None
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn users_have_names() {
        let lines = b"root:x:0:0:root:/root:/bin/bash\nbroken\napp:x:1001:1001::/home/app:/bin/sh\n";
        assert_eq!(name_in(lines, 0).as_deref(), Some(&b"root"[..]));
        assert_eq!(name_in(lines, 1001).as_deref(), Some(&b"app"[..]));
        assert_eq!(name_in(lines, 100), None);
        assert_eq!(listed(0).as_deref(), Some(&b"root"[..]));
        assert_eq!(ask_system(0, &|| true).as_deref(), Some(&b"root"[..]));
    }

    #[test]
    fn programs_are_not_waited_for_without_end() {
        let looks = Cell::new(0);
        let wanted_twice = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        assert_eq!(output_of(Command::new("sleep").arg("1000"), &wanted_twice), None);
        assert_eq!(looks.get(), 3);
        assert_eq!(output_of(Command::new("echo").arg("a"), &|| true).as_deref(), Some(&b"a\n"[..]));
    }
}
