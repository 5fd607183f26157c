//! Where a system-call filter forbids io_uring, as in most containers, epoll is taken and the reason given.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test with a thread of its own, and a filter that no wrapper installs"
)]

use std::io::ErrorKind;
use std::thread;

use drivers::{Driver, DriverChoice, DriverKind, Settings, probe_uring};

#[test]
fn a_filter_that_forbids_is_named() {
    with_filter(libc::EPERM, || {
        let opened = Driver::open(DriverChoice::Auto, Settings::default()).unwrap();
        assert_eq!(opened.driver.kind(), DriverKind::Epoll);
        let reason = opened.fallback.unwrap();
        // On a machine where it is switched off, that is the reason.
        assert!(reason.contains("seccomp") || reason.contains("io_uring_disabled"), "{reason}");
        let error = Driver::open(DriverChoice::Uring, Settings::default()).err().unwrap();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unsupported, reason));
    });
}

#[test]
fn a_kernel_without_io_uring_is_named() {
    with_filter(libc::ENOSYS, || {
        let reason = probe_uring().unwrap_err();
        assert!(reason.contains("no io_uring"), "{reason}");
        let opened = Driver::open(DriverChoice::Epoll, Settings::default()).unwrap();
        assert_eq!((opened.driver.kind(), opened.fallback), (DriverKind::Epoll, None));
    });
}

/// Runs `check` on a thread for which `io_uring_setup` fails with `errno` (seccomp(2)).
fn with_filter(errno: i32, check: impl FnOnce() + Send + 'static) {
    let filtered = thread::spawn(move || {
        forbid_io_uring(errno);
        check();
    });
    filtered.join().unwrap();
}

fn forbid_io_uring(errno: i32) {
    let load_number = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let skip_unless_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give_back = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    // The number is the first field of struct seccomp_data.
    let mut program = [
        instruction(load_number, 0, 0),
        instruction(skip_unless_equal, libc::SYS_io_uring_setup as u32, 1),
        instruction(give_back, libc::SECCOMP_RET_ERRNO | errno as u32, 0),
        instruction(give_back, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it; both calls change this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}
