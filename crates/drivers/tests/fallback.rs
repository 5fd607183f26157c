//! Where a system-call filter forbids io_uring, as in most containers, epoll is taken and the reason given.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test with a thread of its own, and a filter that no wrapper installs"
)]

use std::io::ErrorKind;
use std::thread;

use drivers::{Driver, DriverChoice, DriverKind, NoUring, Settings, probe_uring};

#[test]
fn a_filter_that_forbids_is_named() {
    with_filter(Forbidden::ring_setup(libc::EPERM), || {
        let opened = Driver::open(DriverChoice::Auto, Settings::default()).unwrap();
        assert_eq!(opened.driver.kind(), DriverKind::Epoll);
        let reason = opened.fallback.unwrap();
        // On a machine where it is switched off, that is the reason.
        assert!(
            matches!(reason, NoUring::Filtered | NoUring::SwitchedOff | NoUring::ForPrivileged),
            "{reason}"
        );
        let error = Driver::open(DriverChoice::Uring, Settings::default()).err().unwrap();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unsupported, reason.to_string()));
    });
}

#[test]
fn a_driver_that_needs_more_than_the_probe_is_not_insisted_on() {
    if let Err(reason) = probe_uring() {
        eprintln!("skipped: {reason}");
        return;
    }
    // 32 buffers of 8 KiB each; the probe has fewer.
    let settings = Settings { receive_buffer: 8 << 10, buffers_per_ring: 32, ..Settings::default() };
    let no_memory =
        Forbidden { call: libc::SYS_mmap, argument: Some((1, 32 * (8 << 10))), errno: libc::ENOMEM };
    with_filter(no_memory, move || {
        assert_eq!(probe_uring(), Ok(()));
        let opened = Driver::open(DriverChoice::Auto, settings.clone()).unwrap();
        assert_eq!(opened.driver.kind(), DriverKind::Epoll);
        let reason = opened.fallback.unwrap();
        assert_eq!(reason, NoUring::NoMemory);
        let error = Driver::open(DriverChoice::Uring, settings).err().unwrap();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unsupported, reason.to_string()));
    });
}

#[test]
fn settings_out_of_range_are_no_reason_to_fall_back() {
    for choice in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Epoll] {
        let error =
            Driver::open(choice, Settings { receive_buffer: 0, ..Settings::default() }).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{choice}");
    }
}

#[test]
fn a_kernel_without_io_uring_is_named() {
    with_filter(Forbidden::ring_setup(libc::ENOSYS), || {
        let reason = probe_uring().unwrap_err();
        assert_eq!(reason, NoUring::Absent);
        let opened = Driver::open(DriverChoice::Epoll, Settings::default()).unwrap();
        assert_eq!((opened.driver.kind(), opened.fallback), (DriverKind::Epoll, None));
    });
}

/// A system call that fails.
struct Forbidden {
    call: libc::c_long,
    /// The place of an argument from 0, and the value (of 32 bits) that alone makes it fail.
    argument: Option<(u32, u32)>,
    errno: i32,
}

impl Forbidden {
    fn ring_setup(errno: i32) -> Self {
        Self { call: libc::SYS_io_uring_setup, argument: None, errno }
    }
}

/// Runs `check` on a thread for which a system call fails (seccomp(2)).
fn with_filter(forbidden: Forbidden, check: impl FnOnce() + Send + 'static) {
    let filtered = thread::spawn(move || {
        forbid(&forbidden);
        check();
    });
    filtered.join().unwrap();
}

fn forbid(forbidden: &Forbidden) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let skip_unless_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give_back = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    // The number is the first field of struct seccomp_data; the arguments are there from byte 16, 8 bytes each, of which
    // these machines have the lower half first.
    let (place, value) =
        forbidden.argument.map_or((0, forbidden.call as u32), |(place, value)| (16 + 8 * place, value));
    let mut program = [
        instruction(load, 0, 0),
        instruction(skip_unless_equal, forbidden.call as u32, 3),
        instruction(load, place, 0),
        instruction(skip_unless_equal, value, 1),
        instruction(give_back, libc::SECCOMP_RET_ERRNO | forbidden.errno as u32, 0),
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
