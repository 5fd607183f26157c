//! Settings for the care of several servers.

use std::time::Duration;

settings! {
    /// Settings for the care of several servers.
    #[derive(Clone, Debug)]
    pub struct ClusterSettings / ClusterChange {
        /// True where the addresses may be those of several servers: more than one was given.
        pub several: bool = false, found;
        /// Interval between the checks of each server.
        // A primary that has gone is known as that after two checks, and a new one after one: about a second in all where connections
        // are refused. One that hangs takes twice check_timeout.
        pub check_interval: Duration = Duration::from_millis(500), live;
        /// Longest time of a check. One that takes longer has failed.
        pub check_timeout: Duration = Duration::from_secs(2), live;
        /// Longest wait of statements for a primary.
        // A script for failover takes some seconds, and clients wait about as long for an answer before they give up.
        pub hold: Duration = Duration::from_secs(20), live;
        /// True where a new primary is used that lacks transactions of the former one. The person who promoted it may not have known that.
        /// Writes on it make these transactions the harder to get back.
        pub takes_behind: bool = false, live;
    }
}
