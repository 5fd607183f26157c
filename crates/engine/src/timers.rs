//! When the engine has something to do by itself: one closed list.
//!
//! A timer that is forgotten here is a hang, since nobody comes back for it. One that stays in the past is a spin: the next turn
//! comes at once, and finds it there again. So each turn of a debug build looks at its end what it has left there.

use seam::Instant;

use crate::engine::Engine;

/// Declares the timers and the list of them in one, so that none is missing there.
macro_rules! timers {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What a turn is due for. Each says what the turn does then.
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
    /// A client whose login is refused hears of it.
    LateRefusal,
    /// A statement that has waited too long in the low queue gets into the high one.
    KickUp,
    /// A statement that was held back is queued.
    EndOfDelay,
    /// In the profile of a server's own pool, the timers of that look.
    GroupTurn,
    /// A statement that has found no backend in time gets an error.
    LackOfBackends,
    /// New work that has waited too long for a permit gets an error.
    Overload,
    /// More of what waits for its share is looked at.
    Shares,
    /// A statement that is over its time, or that nobody waits for any more, is ended.
    Overdue,
    /// A command that waits for the server's answer to a KILL has waited for long enough.
    KillUnderWay,
    /// A statement that takes longer than its like lends its permit.
    Stall,
    /// Reads behind one that is stuck go on elsewhere.
    Rescue,
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
    /// Clients whose passwords the server has to judge get into line, or have their turn.
    Claim,
    /// A reader of a replica has something to do, or a read has waited for a replica for long enough.
    Readers,
    /// Clients that have sent ahead go on: they had their share of the turn that ends.
    Resume,
}

impl Timer {
    /// Whether it is not due while the pool is paused: nothing starts then, so that nothing would come of it.
    const fn rests_while_paused(self) -> bool {
        match self {
            Self::GroupTurn
            | Self::LackOfBackends
            | Self::Overload
            | Self::Shares
            | Self::Stall
            | Self::Rescue
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

    /// Whether a turn may leave it in the past, for the next one: what makes it due may come up behind the step that carries it
    /// out. What goes on at once ([`Self::Shares`], [`Self::Claim`], [`Self::Resume`]) is due now, not in the past.
    const fn may_stay_due(self, workers: u32) -> bool {
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

impl Engine {
    /// When this is due, if it is going to be.
    pub(crate) fn timer(&self, timer: Timer) -> Option<Instant> {
        if self.orders.paused && timer.rests_while_paused() {
            return None;
        }
        match timer {
            Timer::Sweep => Some(self.next_sweep),
            Timer::ServiceAccount => self.next_control_turn(),
            Timer::ServerCheck => self.next_cluster_turn(),
            Timer::LoginTimeout => self.logins.by_deadline.front().map(|&(deadline, _)| deadline),
            Timer::LateRefusal => self.logins.next_refusal_to_tell(),
            Timer::KickUp => self.scheduling.scheduler.next_kick_up(),
            Timer::EndOfDelay => self.scheduling.delayed.next_end(),
            Timer::GroupTurn => self.scheduling.scheduler.next_group_turn(),
            Timer::LackOfBackends => self.next_giving_up(),
            Timer::Overload => self.scheduling.next_refusal(self.now, &self.settings),
            Timer::Shares => self.scheduling.next_release(self.now),
            Timer::Overdue => self.next_ending(),
            Timer::KillUnderWay => self.orders.kills_under_way.next_end(),
            Timer::Stall => {
                let identities = &self.logins.identities;
                let (settings, servers) = (&self.settings, &self.servers);
                self.scheduling.next_stall(self.now, settings, &self.pool, servers, &self.clients, identities)
            }
            Timer::Rescue => self.servers.next_rescue(self.now, &self.settings, &self.clients),
            Timer::Standing => self.scheduling.next_look_at_standing(self.now),
            Timer::Place => self.servers.iter().filter_map(|server| server.opening.next_look(self.now)).min(),
            Timer::OtherWorkers => self.pool.next_asking(&self.settings),
            Timer::Draining => self.orders.draining,
            // An attempt that was due has been made in this turn, and its answer will come by itself.
            Timer::Reconnect => self
                .servers
                .iter()
                .filter_map(|server| server.reachability.next_attempt())
                .filter(|&retry| retry > self.now && self.scheduling.scheduler.in_need() > 0)
                .min(),
            Timer::ServerFull => {
                let until = self.servers.iter().filter_map(|server| Some(server.full.as_ref()?.until));
                until.filter(|&until| until > self.now).min()
            }
            Timer::Claim => self.next_claim(),
            Timer::Readers => self.readers.next_turn(self.now, self),
            Timer::Resume => (!self.resume.is_empty()).then_some(self.now),
        }
    }

    /// A turn has ended: nothing that was due is still to be done.
    ///
    /// # Panics
    ///
    /// Where that is not so.
    pub(crate) fn check_timers(&self) {
        if self.orders.draining.is_some() && self.clients.is_empty() {
            return; // it has finished, and nobody asks it any more
        }
        let workers = self.pool.workers.count();
        for &timer in Timer::ALL.iter().filter(|timer| !timer.may_stay_due(workers)) {
            let at = self.timer(timer);
            assert!(
                at.is_none_or(|at| at >= self.now),
                "{timer:?} was due at {at:?}, {:?} is over",
                self.now
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::commands::tests::engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    #[test]
    fn what_rests_while_paused_is_not_due() {
        let mut engine = engine(1, Settings::default());
        engine.scheduling.urgent.push((engine.clients.ref_to(client_key(0)), engine.now));
        assert!(engine.timer(Timer::LackOfBackends).is_some());
        engine.orders.paused = true;
        assert_eq!(engine.timer(Timer::LackOfBackends), None);
        assert!(engine.timer(Timer::Sweep).is_some());
    }

    #[test]
    #[should_panic(expected = "Sweep was due")]
    fn a_turn_that_leaves_a_timer_in_the_past_is_found_out() {
        let mut engine = engine(1, Settings::default());
        engine.now = engine.next_sweep + Duration::from_micros(1);
        engine.check_timers();
    }
}
