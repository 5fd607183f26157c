//! Memory that has been freed, and that the allocator keeps.

/// Gives whole pages of freed memory back to the system, whichever thread had them. The GNU allocator does so by itself only
/// with what is freed at the very end of a heap (malloc_trim(3), "Notes"); with other allocators nothing happens. Threads that
/// allocate meanwhile may have to wait, some 0.2 ms for each MiB.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and may be called by any thread at any time (malloc_trim(3), "Attributes").
    #[allow(unsafe_code, reason = "no safe wrapper is known")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From this size on a block of memory is a mapping of its own, which goes back to the system when it is freed, and grows without being
/// copied. The GNU allocator begins with 128 KiB, and takes the size of the largest that was ever freed instead, up to 32 MiB
/// (mallopt(3), "M_MMAP_THRESHOLD"): after one large statement all further ones would stay in the resident size. Smaller ones are not
/// worth the page faults.
#[cfg(target_env = "gnu")]
const OWN_MAPPING: i32 = 1 << 20;

/// Free memory at the end of a heap goes back from this size on: twice the other, as the allocator itself has it.
#[cfg(target_env = "gnu")]
const FREE_AT_END: i32 = 2 * OWN_MAPPING;

/// Has memory of large blocks go back to the system when they are freed. To be called before there are threads.
pub fn give_large_blocks_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer (mallopt(3)); nobody else allocates meanwhile.
    #[allow(unsafe_code, reason = "no safe wrapper is known")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_AT_END);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// In KiB, of what is not backed by files (proc_pid_status(5)).
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux since 4.5");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// As after a crowd: small pieces, of which one in a thousand is still there, the last among them.
    #[test]
    fn pages_of_freed_pieces_go_back() {
        let mut pieces: Vec<_> = (0..300_000).map(|_| Some(Box::new([1_u8; 256]))).collect();
        pieces
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| place % 1000 != 999)
            .for_each(|(_, piece)| *piece = None);
        let before = resident();
        give_back_freed_memory();
        let after = resident();
        assert!(after + 40 * 1024 < before, "{before} KiB, {after} KiB afterwards");
        assert_eq!(pieces.iter().flatten().count(), 300);
    }
}
