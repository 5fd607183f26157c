//! The figures of a sample, each declared once.

use engine::{BackendActivity, Histogram, Lack, LoginStage, Queue, WaitReason};

use super::together::Together;

/// A figure of a sample.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// It is how things stand: of a minute the highest is kept, so that what went by in a second is seen a day later. Else it is what has
    /// happened since the sample before.
    pub(super) stands: bool,
    pub(super) value: fn(&Step<'_>) -> f64,
}

/// From one moment to another.
pub(super) struct Step<'a> {
    before: &'a Together,
    after: &'a Together,
    seconds: f64,
    /// Of what has happened in between.
    waited: Histogram,
    served: Histogram,
    logins: Histogram,
}

impl<'a> Step<'a> {
    pub(super) fn new(before: &'a Together, after: &'a Together) -> Self {
        Self {
            before,
            after,
            seconds: after.at.saturating_sub(before.at).as_secs_f64().max(0.001),
            waited: after.waited.since(&before.waited),
            served: after.served.since(&before.served),
            logins: after.measures.logins.since(&before.measures.logins),
        }
    }

    fn rate(&self, of: impl Fn(&Together) -> u64) -> f64 {
        of(self.after).saturating_sub(of(self.before)) as f64 / self.seconds
    }

    /// Seconds of waiting in each second: how many waited on average, as those who have come to an end tell.
    fn waited_for(&self, reason: WaitReason) -> f64 {
        let of = |together: &Together| together.waits.of(reason).sum();
        of(self.after).saturating_sub(of(self.before)).as_secs_f64() / self.seconds
    }
}

fn stage(step: &Step<'_>, stage: LoginStage) -> f64 {
    let of = |together: &'_ Together| together.measures.login_stage(stage).clone();
    quantile(&of(step.after).since(&of(step.before)), 0.95)
}

/// Microseconds; nothing where nothing has happened.
fn quantile(times: &Histogram, share: f64) -> f64 {
    if times.count() == 0 { f64::NAN } else { times.quantile(share).as_micros() as f64 }
}

/// A second.
const fn rate(name: &'static str, value: fn(&Step<'_>) -> f64) -> Column {
    Column { name, stands: false, value }
}

/// In microseconds.
const fn time(name: &'static str, value: fn(&Step<'_>) -> f64) -> Column {
    Column { name, stands: false, value }
}

/// From 0 on; seconds in each second.
const fn share(name: &'static str, value: fn(&Step<'_>) -> f64) -> Column {
    Column { name, stands: false, value }
}

const fn things(name: &'static str, value: fn(&Step<'_>) -> f64) -> Column {
    Column { name, stands: true, value }
}

fn queue(step: &Step<'_>, queue: Queue) -> f64 {
    step.after.queued[queue] as f64
}

fn lacks(step: &Step<'_>, lack: Lack) -> f64 {
    step.after.lacking[lack] as f64
}

fn backends(step: &Step<'_>, activity: BackendActivity) -> f64 {
    step.after.holders.backends[activity] as f64
}

/// All of them, in the order in which samples hold them.
pub(crate) const COLUMNS: [Column; 55] = [
    rate("statements", |step| step.rate(|all| all.waited.count())),
    rate("errors", |step| step.rate(|all| all.errors)),
    rate("refused", |step| step.rate(|all| all.refused)),
    rate("cancelled", |step| step.rate(|all| all.cancelled)),
    rate("connections", |step| step.rate(|all| all.connections)),
    rate("logins", |step| step.rate(|all| all.measures.logins.count())),
    rate("refused_logins", |step| step.rate(|all| all.refused_logins)),
    rate("connect_failures", |step| step.rate(|all| all.measures.connect_failures)),
    time("wait_p50", |step| quantile(&step.waited, 0.5)),
    time("wait_p95", |step| quantile(&step.waited, 0.95)),
    time("wait_p99", |step| quantile(&step.waited, 0.99)),
    time("server_p50", |step| quantile(&step.served, 0.5)),
    time("server_p95", |step| quantile(&step.served, 0.95)),
    time("server_p99", |step| quantile(&step.served, 0.99)),
    time("login_p95", |step| quantile(&step.logins, 0.95)),
    time("login_greeting_p95", |step| stage(step, LoginStage::Greeting)),
    time("login_tls_p95", |step| stage(step, LoginStage::Tls)),
    time("login_request_p95", |step| stage(step, LoginStage::Request)),
    time("login_password_p95", |step| stage(step, LoginStage::Password)),
    time("login_first_backend_p95", |step| stage(step, LoginStage::FirstBackend)),
    things("permits", |step| step.after.permits.map_or(f64::NAN, |permits| permits as f64)),
    things("permits_in_use", |step| step.after.permits_in_use as f64),
    things("queue_urgent", |step| queue(step, Queue::Urgent)),
    things("queue_blocking", |step| queue(step, Queue::Blocking)),
    things("queue_holding", |step| queue(step, Queue::Holding)),
    things("queue_high", |step| queue(step, Queue::High)),
    things("queue_low", |step| queue(step, Queue::Low)),
    things("queue_long", |step| queue(step, Queue::Long)),
    things("queue_contended", |step| queue(step, Queue::Contended)),
    things("lacks_permit", |step| lacks(step, Lack::Permit)),
    things("lacks_long_permits", |step| lacks(step, Lack::LongPermits)),
    things("lacks_statements_in_flight", |step| lacks(step, Lack::StatementsInFlight)),
    things("lacks_backend_connect", |step| lacks(step, Lack::BackendConnect)),
    things("lacks_max_backends", |step| lacks(step, Lack::MaxBackends)),
    things("lacks_resume", |step| lacks(step, Lack::Paused)),
    things("lacks_lock", |step| step.after.holders.lock_waits as f64),
    share("waited_permit", |step| step.waited_for(WaitReason::Permit)),
    share("waited_backend", |step| {
        step.waited_for(WaitReason::BackendConnect) + step.waited_for(WaitReason::MaxBackends)
    }),
    share("waited_lock", |step| step.waited_for(WaitReason::RowLock)),
    Column {
        // Microseconds.
        name: "oldest_queued",

        stands: true,
        value: |step| step.after.oldest_queued.unwrap_or_default().as_micros() as f64,
    },
    things("clients", |step| step.after.clients as f64),
    things("logging_in", |step| {
        step.after.clients.saturating_sub(u64::from(step.after.measures.logged_in)) as f64
    }),
    things("running", |step| step.after.holders.running as f64),
    things("holding", |step| step.after.holders.holding as f64),
    things("pinned", |step| step.after.holders.pinned as f64),
    things("lock_holders", |step| step.after.holders.lock_holders as f64),
    things("blocking", |step| step.after.holders.blocking as f64),
    things("backends_opening", |step| backends(step, BackendActivity::Opening)),
    things("backends_running", |step| backends(step, BackendActivity::Running)),
    things("backends_held", |step| backends(step, BackendActivity::Held)),
    things("backends_idle", |step| backends(step, BackendActivity::Idle)),
    things("server_down", |step| f64::from(u8::from(!step.after.server_is_up))),
    things("paused", |step| f64::from(u8::from(step.after.paused))),
    share("busiest_worker", |step| {
        let busy = step.after.busiest.saturating_sub(step.before.busiest);
        (busy.as_secs_f64() / step.seconds).min(1.0)
    }),
    Column {
        // Bytes.
        name: "resident",

        stands: true,
        value: |_| crate::memory::resident().map_or(f64::NAN, |bytes| bytes as f64),
    },
];

/// Where a column stands in a sample; at compile time, so that a wrong name is no program.
pub(super) const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < COLUMNS.len() {
        if is_same(COLUMNS[place].name.as_bytes(), name.as_bytes()) {
            return place;
        }
        place += 1;
    }
    panic!("there is no such column")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut place = 0;
    while place < one.len() {
        if one[place] != other[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// Where the column of a queue stands in a sample.
pub(super) const fn place_of_queue(queue: Queue) -> usize {
    match queue {
        Queue::Urgent => const { place("queue_urgent") },
        Queue::Blocking => const { place("queue_blocking") },
        Queue::Holding => const { place("queue_holding") },
        Queue::High => const { place("queue_high") },
        Queue::Low => const { place("queue_low") },
        Queue::Long => const { place("queue_long") },
        Queue::Contended => const { place("queue_contended") },
    }
}

/// Where the column of a lack stands in a sample.
pub(super) const fn place_of_lack(lack: Lack) -> usize {
    match lack {
        Lack::Permit => const { place("lacks_permit") },
        Lack::LongPermits => const { place("lacks_long_permits") },
        Lack::StatementsInFlight => const { place("lacks_statements_in_flight") },
        Lack::BackendConnect => const { place("lacks_backend_connect") },
        Lack::MaxBackends => const { place("lacks_max_backends") },
        // The column is named for what ends a pause.
        Lack::Paused => const { place("lacks_resume") },
    }
}
