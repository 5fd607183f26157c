//! A client's login: what it has settled for the connection's life, and what goes with its end.

use seam::{Compression, Instant};

/// Facts that a client's login has given, and the login itself while it is under way.
#[derive(Debug, Default)]
pub(crate) struct ClientLogin {
    /// The scramble of the greeting, or of a later switch of methods; COM_CHANGE_USER may refer to it.
    pub(in crate::client) scramble: [u8; 20],
    /// The collation's number, as the server reads it.
    pub(crate) collation: u8,
    /// The login with which the connection begins, or a COM_CHANGE_USER once further packets of it are awaited. `None` once that has ended.
    under_way: Option<Box<LoginUnderWay>>,
}

/// A login that has begun and has not ended. The login may outlive its phase: its question about a schema waits as a statement does.
#[derive(Debug)]
pub(in crate::client) struct LoginUnderWay {
    /// The time at which the login will have taken too long.
    pub(in crate::client) until: Instant,
    /// The compression that the login asked for. Compression begins at the login's end.
    pub(in crate::client) compression: Option<Compression>,
}

impl ClientLogin {
    /// Makes what a login has settled, long after its end.
    pub(in crate::client) fn ended(scramble: [u8; 20], collation: u8) -> Self {
        Self { scramble, collation, under_way: None }
    }

    /// Takes a login apart that has ended: the scramble and the collation are all there is of it.
    pub(in crate::client) fn into_ended(self) -> ([u8; 20], u8) {
        let Self { scramble, collation, under_way } = self;
        debug_assert!(under_way.is_none(), "a login that is under way is not frozen");
        (scramble, collation)
    }

    /// Begins a login that has up to then. False where one is under way already, which keeps its time.
    pub(crate) fn begin(&mut self, until: Instant) -> bool {
        let begins = self.under_way.is_none();
        if begins {
            self.under_way = Some(Box::new(LoginUnderWay { until, compression: None }));
        }
        begins
    }

    /// Returns the time at which the login will have taken too long. `None` where no login is under way.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|login| login.until)
    }

    /// Gives the login that is under way up to then.
    pub(crate) fn end_by(&mut self, until: Instant) {
        if let Some(login) = self.login_under_way() {
            login.until = until;
        }
    }

    /// Notes the compression that the login asks for.
    pub(in crate::client) fn asks_for(&mut self, compression: Option<Compression>) {
        if let Some(login) = self.login_under_way() {
            login.compression = compression;
        }
    }

    /// Ends the login. Returns what was known of it; `None` where a COM_CHANGE_USER had all in one packet.
    pub(in crate::client) fn end(&mut self) -> Option<Box<LoginUnderWay>> {
        self.under_way.take()
    }

    fn login_under_way(&mut self) -> Option<&mut LoginUnderWay> {
        debug_assert!(self.under_way.is_some(), "only a login that is under way is asked");
        self.under_way.as_deref_mut()
    }
}
