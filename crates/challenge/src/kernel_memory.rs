//! What the kernel uses for sockets, as far as it says (proc_meminfo(5), Documentation/networking/proc_net_tcp).

use crate::process_usage::kilobytes;
use crate::report::KernelMemory;

impl KernelMemory {
    /// At this moment, of the whole machine: a difference holds whatever else happens on it.
    pub(crate) fn now() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let sockstat = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
        Self {
            slab: kilobytes(&meminfo, "Slab:").unwrap_or(0),
            buffers: tcp_pages(&sockstat).unwrap_or(0) * rustix::param::page_size() as u64,
        }
    }
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`: the last number counts pages.
fn tcp_pages(sockstat: &str) -> Option<u64> {
    let mut words = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_tcp_are_found() {
        let text = "sockets: used 30\nTCP: inuse 5 orphan 0 tw 12 alloc 7 mem 31\nUDP: inuse 1 mem 9\n";
        assert_eq!(tcp_pages(text), Some(31));
        assert_eq!(tcp_pages("UDP: inuse 1 mem 9\n"), None);
        assert!(KernelMemory::now().slab > 0);
    }
}
