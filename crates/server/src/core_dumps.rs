//! Decides what becomes of the process's memory, in which there are passwords, when it crashes.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Has no core dump written, and no other process of the same user read the memory (PR_SET_DUMPABLE of prctl(2)). The limit
/// serves a user who turns the former on again; a private server, which inherits it, may raise its own. `/proc/self` stays
/// readable to ourselves.
pub(crate) fn forbid() {
    let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    let done =
        set_dumpable_behavior(DumpableBehavior::NotDumpable).and_then(|()| setrlimit(Resource::Core, limit));
    if let Err(error) = done {
        tracing::warn!("core dumps cannot be turned off (core_dumps): {error}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn nothing_is_dumped_and_our_own_figures_can_be_read() {
        forbid();
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert!(crate::memory::resident().is_some());
        for name in ["status", "limits", "cgroup", "stat"] {
            assert!(std::fs::read_to_string(format!("/proc/self/{name}")).is_ok(), "{name}");
        }
        assert!(std::fs::read_dir("/proc/self/fd").is_ok());
    }
}
