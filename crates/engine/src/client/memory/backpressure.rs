//! Clients that are not read from for a while, so that what they send does not pile up here.

/// The reasons for which a client is not read from.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Backpressure {
    /// True where the client has sent more than its turn allows.
    pub(in crate::client) too_far_ahead: bool,
    /// True where the server does not take the client's statement or file as fast as it comes.
    pub(in crate::client) server_is_slow: bool,
    /// True while the client is not read from, for one of the two reasons above.
    pub(in crate::client) paused: bool,
}

impl Backpressure {
    /// The server does not take the client's large statement or file as fast as it comes.
    pub(crate) fn server_stalls(&mut self) {
        self.server_is_slow = true;
    }

    /// The server has caught up with the client, or has nothing to do with it any more. True where the server was behind.
    pub(crate) fn server_keeps_up(&mut self) -> bool {
        std::mem::take(&mut self.server_is_slow)
    }

    /// A reader has stopped to read from the client, and gives the client back.
    pub(crate) fn paused_elsewhere(&mut self) {
        self.paused = true;
    }

    /// Pauses or resumes where the reasons have changed. True where the client is not to be read from any more, false where it is again.
    pub(crate) fn changed(&mut self) -> Option<bool> {
        let pause = self.too_far_ahead || self.server_is_slow;
        (std::mem::replace(&mut self.paused, pause) != pause).then_some(pause)
    }

    /// Says whether the server does not take the client's statement or file as fast as it comes.
    pub(crate) fn has_slow_server(&self) -> bool {
        self.server_is_slow
    }

    /// Says whether the client is not read from.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }
}
