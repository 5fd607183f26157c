//! How several servers are looked after.

use std::time::Duration;

settings! {
    /// Several servers, and how they are looked after.
    #[derive(Clone, Debug)]
    pub struct ClusterSettings / ClusterChange {
        /// Whether the addresses may be those of several servers: somebody has given more than one.
        pub several: bool = false, found;
        /// Each server is checked this often.
        // A primary that has gone is known as that after two checks, and a new one after one: about a second in all where connections
        // are refused. One that hangs takes twice check_timeout.
        pub check_interval: Duration = Duration::from_millis(500), live;
        /// A check that takes longer has failed.
        pub check_timeout: Duration = Duration::from_secs(2), live;
        /// How long statements wait for a primary.
        // A script for failover takes some seconds, and clients wait about as long for an answer before they give up.
        pub hold: Duration = Duration::from_secs(20), live;
        /// Whether a new primary is used that lacks transactions of the former one. Whoever promotes may not have known that, and what is
        /// written there makes it the harder to get them back.
        pub takes_behind: bool = false, live;
    }
}
