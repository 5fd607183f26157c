//! The things that the engine does by itself when they are due: one closed list.

/// Declares the timers and the list of them in one, so that none is missing there.
macro_rules! timers {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A reason for which a turn is due. Each says what the turn does then.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Timer {
            $($(#[doc = $doc])* $name,)*
        }

        impl Timer {
            /// All of them, in the order of their declaration.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

timers! {
    /// Idle clients and backends are looked through for those that have been there for too long.
    Sweep,
    /// The service account connects, asks the server something, or gives its connection up, which says nothing any more.
    ServiceAccount,
    /// A server of several is checked, or a check has taken too long.
    ServerCheck,
    /// A client that has not logged in within `connect_timeout` is closed.
    LoginTimeout,
    /// A client with a refused login hears of the refusal.
    LateRefusal,
    /// A statement that has waited too long in the low queue gets into the high one.
    KickUp,
    /// A statement that was held back is queued.
    EndOfDelay,
    /// The timers of the group's look are due, in the profile of a server's own pool.
    GroupTurn,
    /// A statement that has found no backend in time gets an error.
    LackOfBackends,
    /// New work that has waited too long for a permit gets an error.
    Overload,
    /// More statements that wait for their share are looked at.
    Shares,
    /// A statement that is over its time, or that nobody waits for any more, is ended.
    Overdue,
    /// A command that waits for the server's answer to a KILL has waited for long enough.
    KillUnderWay,
    /// A statement that takes longer than its like lends its permit.
    Stall,
    /// Reads behind one that is stuck go on elsewhere.
    Rescue,
    /// A backend that reads share has said nothing for so long that those that wait for room there go elsewhere.
    SilentReads,
    /// Kinds of statements of which none seems to end are looked at again.
    Standing,
    /// A login that lacks a backend may take the place of one of another login.
    Place,
    /// The other workers are asked for a permit once more.
    OtherWorkers,
    /// Clients that are still there when `shutdown_timeout` is over are closed.
    Draining,
    /// A server that was down is tried again.
    Reconnect,
    /// A server that took no more backends is tried again.
    ServerFull,
    /// Clients with passwords that the server has to judge get into line, or have their turn.
    Claim,
    /// A reader of a replica has something to do, or a read has waited for a replica for long enough.
    Readers,
    /// Clients that have sent ahead go on: they had their share of the turn that ends.
    Resume,
}

impl Timer {
    /// Says whether the timer is not due while the pool is paused: nothing starts then, so that nothing would come of it.
    pub(crate) const fn rests_while_paused(self) -> bool {
        match self {
            Self::GroupTurn
            | Self::LackOfBackends
            | Self::Overload
            | Self::Shares
            | Self::Stall
            | Self::Rescue
            | Self::SilentReads
            | Self::Standing
            | Self::Place
            | Self::OtherWorkers
            | Self::Reconnect
            | Self::ServerFull => true,
            Self::Sweep
            | Self::ServiceAccount
            | Self::ServerCheck
            | Self::LoginTimeout
            | Self::LateRefusal
            | Self::KickUp
            | Self::EndOfDelay
            | Self::Overdue
            | Self::KillUnderWay
            | Self::Draining
            | Self::Claim
            | Self::Readers
            | Self::Resume => false,
        }
    }

    /// Says whether a turn may leave the timer in the past, for the next turn: the reason for it may come up behind the step that
    /// carries it out. Timers that go on at once ([`Self::Shares`], [`Self::Claim`], [`Self::Resume`]) are due now, not in the past.
    pub(super) const fn may_stay_due(self, workers: u32) -> bool {
        match self {
            // Statements keep their age when they get into the low queue behind that step: from their share, from the long lane,
            // or in the place of one that they have followed.
            Self::KickUp => true,
            // Permits run short while statements are dispatched, which is behind the look at what is stalled.
            Self::Stall => true,
            // The others give permits for long statements back at any time, and what waits for these counts from then on.
            Self::LackOfBackends => workers > 1,
            _ => false,
        }
    }
}
