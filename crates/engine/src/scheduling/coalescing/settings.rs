//! Bounds of the groups of reads that run once.

settings! {
    /// What bounds the groups of reads that run once.
    ///
    /// By default there is none. One execution for a thousand statements costs the server as good as nothing, and 64 KiB fit into a socket's
    /// send buffer as they are, so that a slow reader costs no more than that.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CoalescingSettings / CoalescingChange {
        /// Whether there are any.
        pub reads: bool = false, live;
        /// So many statements wait for the answer to another one at most, from 1. With `reply_size` this bounds what one reply can put
        /// into the buffers of connections at a time.
        pub most: u32 = 1000, live;
        /// So many bytes of a reply are collected at most before it goes to the first of a group alone.
        pub reply_size: usize = 64 << 10, live;
    }
}
