//! How wrong passwords are held up.

use std::time::Duration;

settings! {
    /// How wrong passwords are held up.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FailedLoginSettings / FailedLoginChange {
        /// So many wrong answers in a row are told at once.
        pub threshold: u32 = 3, live;
        /// The next one after this long, and each further one after twice as long; zero never delays.
        pub delay: Duration = Duration::from_millis(100), live;
        /// But no longer than this.
        pub delay_max: Duration = Duration::from_secs(5), live;
        /// How many addresses, and users of addresses, are counted; beyond it the one that has been quiet longest is forgotten.
        pub size: u32 = 10_000, live;
    }
}
