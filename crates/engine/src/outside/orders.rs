//! Orders from outside: an operator's, who is nobody's client.

use seam::Instant;
use wire::{CommandKind, Expect};

use crate::backend::{Owner, Permit};
use crate::client::Phase;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientRef};
use crate::settings::Settings;
use crate::workers::letter::{Ending, Outcome};

/// What the server has to end. It is asked by the victim's own user, whom it lets end what is its own.
pub(crate) struct OutsideKill {
    victim: ClientRef,
    ending: Ending,
    /// Whether the client stays.
    query_only: bool,
    since: Instant,
}

impl Engine {
    /// Takes up what can change while the engine runs: whose rules are followed, permits, queue rules, bounds of statements, times. Everything else in
    /// `new` is ignored. Permits are common to all workers, so that the first of them changes them for all. A turn has to
    /// follow, with an end.
    pub fn change_settings(&mut self, new: &Settings) {
        let now = &mut self.settings;
        now.profile = new.profile;
        now.permits = new.permits;
        now.permits_min = new.permits_min;
        now.permits_max = new.permits_max;
        now.statements_in_flight = new.statements_in_flight;
        now.shared_backends = new.shared_backends;
        now.coalescing = new.coalescing;
        now.rescue_reads = new.rescue_reads;
        now.lazy_begin = new.lazy_begin;
        now.lazy_set = new.lazy_set;
        now.high_prio_mode = new.high_prio_mode;
        now.priority = new.priority;
        now.high_priority_connection = new.high_priority_connection;
        now.high_prio_tickets = new.high_prio_tickets;
        now.prio_kickup_timer = new.prio_kickup_timer;
        now.adaptive_lifo = new.adaptive_lifo;
        now.long_statement_time = new.long_statement_time;
        now.long_permits = new.long_permits;
        now.lock_wait_interval = new.lock_wait_interval;
        now.overload = new.overload;
        now.long_permits_max = new.long_permits_max;
        now.shares = new.shares.clone();
        self.shares.settings_changed();
        now.change_accounts = new.change_accounts;
        now.user_backends_share = new.user_backends_share;
        now.stall_limit = new.stall_limit;
        now.oversubscribe = new.oversubscribe;
        now.max_threads = new.max_threads;
        now.query_threads_per_group = new.query_threads_per_group;
        now.max_transactions_limit = new.max_transactions_limit;
        now.longrun_trx_limit = new.longrun_trx_limit;
        now.transaction_delay = new.transaction_delay;
        let latest = self.now + new.transaction_delay;
        self.delayed.iter_mut().for_each(|delayed| delayed.end_by(latest));
        now.connect_timeout = new.connect_timeout;
        now.backend_connect_timeout = new.backend_connect_timeout;
        now.backend_idle_timeout = new.backend_idle_timeout;
        now.wait_timeout = new.wait_timeout;
        now.net_write_timeout = new.net_write_timeout;
        now.shutdown_timeout = new.shutdown_timeout;
        now.accounts_refresh = new.accounts_refresh;
        now.failed_logins.clone_from(&new.failed_logins);
        now.max_allowed_packet = new.max_allowed_packet;
        now.statement_memory = new.statement_memory;
        now.session_memory = new.session_memory;
        now.held_answer_memory = new.held_answer_memory;
        now.max_prepared_stmt_count = new.max_prepared_stmt_count;
        now.prepared_statement_memory = new.prepared_statement_memory;
        now.kept_warnings_memory = new.kept_warnings_memory;
        now.backend_prepared_statements = new.backend_prepared_statements;
        self.end_logins_by(self.now + new.connect_timeout);
        self.scheduler.change_settings(&self.settings);
        self.workers.change_permits(new);
        if !self.scheduler.keeps_permits() {
            self.give_kept_permits();
        }
    }

    /// Under other rules open transactions may have kept their permits between their statements.
    fn give_kept_permits(&mut self) {
        for (_, backend) in self.backends.iter_mut() {
            if backend.permit == Permit::Held && backend.in_flight.is_empty() {
                backend.permit = Permit::None;
                self.scheduler.finish(backend.spared);
            }
        }
    }

    /// From now on no statement leaves the queues. What the server has goes on; clients wait, and may come and go. A turn has
    /// to follow, with an end.
    pub fn pause(&mut self) {
        self.paused = true;
        // Nobody leaves a permit to us meanwhile.
        self.note_want_of_permits(false);
        self.workers.note_saturation(self.worker, self.now, false, false);
        self.scheduler.want_no_long();
    }

    /// The queues move again. A turn has to follow, with an end.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Ends a client's connection, or only its statement. What waits is answered at once; of what runs the server is asked to
    /// end it, and the client hears the server's answer. False where this worker has no such client. A turn has to follow,
    /// with an end.
    pub fn kill(&mut self, id: u32, query_only: bool) -> bool {
        let Some(&victim) = self.client_ids.get(&id) else { return false };
        if let Outcome::AskServer(ending) = self.end_for_client(victim, query_only) {
            self.kills.push(OutsideKill {
                victim: ClientRef { key: victim, id },
                ending,
                query_only,
                since: self.now,
            });
        }
        true
    }

    /// Asks the server to end what is to be ended, as soon as there is a backend of the victim's user to ask on.
    pub(crate) fn carry_out_kills(&mut self) {
        for kill in std::mem::take(&mut self.kills) {
            let victim = kill.victim.key;
            let runs_on = self
                .clients
                .find(kill.victim)
                .filter(|client| matches!(client.phase, Phase::Preparing | Phase::Running(_)))
                .and_then(|client| self.backends.get(client.backend?))
                .map(|backend| u64::from(backend.thread_id));
            if runs_on != Some(kill.ending.thread_id) {
                continue; // it has ended by itself
            }
            if let Some(backend) = self.idle_backend_for(victim) {
                self.send_kill(backend, kill.ending);
            } else if self.now.since(kill.since) >= self.settings.backend_connect_timeout {
                self.give_up_kill(&kill);
            } else {
                self.open_backend_for_urgent(victim);
                self.kills.push(kill);
            }
        }
    }

    /// Asks the server to end something, on an idle backend of the same user.
    pub(crate) fn send_kill(&mut self, backend: BackendKey, ending: Ending) {
        self.idle.retain(|&idle| idle != backend);
        let text = ending.text();
        let owner = Owner::Abandoned;
        self.send_own(backend, owner, CommandKind::Query, text.as_bytes(), Expect::ResultSets, 0);
    }

    /// There is no way to the server: at least the client goes.
    fn give_up_kill(&mut self, kill: &OutsideKill) {
        if !kill.query_only {
            self.close_client(
                kill.victim.key,
                "killed; its statement goes on, for want of a backend to end it",
            );
        }
    }
}
