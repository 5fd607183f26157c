//! Tables of how things have gone: in the last half minute, since the start, and in each minute of the last day.

use super::table;

table! {
    /// A figure that is half as much again as before, or two thirds of it or less: the last half minute beside the five minutes before (of a
    /// process younger than 40 s: its second half beside its first), those first that grew most.
    Change in Onramp as "changes" {
        /// Which one.
        figure: &'static str,
        /// Its unit: `us` (microseconds), `bytes`, `share` (from 0 to 1), `/s` (a second), or things.
        unit: &'static str,
        /// Its mean in the last half minute.
        now: f64,
        /// Its mean in the five minutes before; NULL where there was none.
        before: Option<f64>,
        /// `now` by `before`, where what is too small to matter counts as the least that does.
        times: f64,
    }
}

table! {
    /// A stage of a client's way from its connection to its first statement on a backend.
    Login in Onramp as "logins" {
        /// `greeting`, `tls`, `request`, `password`, `first_backend`; `whole` is a login from its beginning to its end.
        stage: &'static str,
        /// Clients that are at it now.
        clients: u64,
        /// How often it came to its end, since the start.
        count: u64,
        /// Half took less, in microseconds.
        p50_us: u64,
        /// 95 of 100 took less, in microseconds.
        p95_us: u64,
        /// 99 of 100 took less, in microseconds.
        p99_us: u64,
        /// The longest, in microseconds.
        max_us: u64,
        /// What happens in it.
        what: &'static str,
    }
}

table! {
    /// A minute: those of the last day, as long as this process has run. The latest is under way.
    Minute in Onramp as "minutes" {
        /// When it began, in UTC.
        time: String,
        /// Where more of the slowest statements' time went: `server` or `waiting` (before it); `server_down` and `paused` where they were
        /// at some moment of it; NULL where nothing ran.
        slow_by: Option<&'static str>,
        /// Statements that started, a second.
        statements: f64,
        /// 99 of 100 statements took less on the server, the way there and back included, in microseconds; NULL where none ran.
        server_p99_us: Option<u64>,
        /// 99 of 100 waited less before the server, in microseconds; NULL where none started.
        wait_p99_us: Option<u64>,
        /// Half took less on the server, in microseconds.
        server_p50_us: Option<u64>,
        /// Half waited less, in microseconds.
        wait_p50_us: Option<u64>,
        /// Statements that waited, where they were most.
        waiting: u64,
        /// What most of them lacked then: a reason from `waits`; NULL where none waited.
        waits_for: Option<&'static str>,
        /// Statements that waited for locks on the server, where they were most.
        lock_waits: u64,
        /// Clients for whose locks others waited, where they were most.
        blocking: u64,
        /// Statements that ended in an error, a second.
        errors: f64,
        /// Statements and clients that were refused since a limit was reached, a second.
        refused: f64,
        /// Statements whose clients gave up on them, or that were answered with an error while they waited, a second.
        cancelled: f64,
        /// Permits in use, where they were most.
        permits_in_use: u64,
        /// Permits that there were, where they were most; NULL where nothing bounds them.
        permits: Option<u64>,
        /// Clients, where they were most.
        clients: u64,
        /// Clients that were pinned, where they were most.
        pinned: u64,
        /// Logins that were done, a second.
        logins: f64,
        /// 95 of 100 logins took less, in microseconds; NULL where there was none.
        login_p95_us: Option<u64>,
        /// Logins that were refused, a second.
        refused_logins: f64,
        /// The kind of statement that took most of the server's time: a key of `statements`; NULL where none ran, and for the minute that
        /// is under way.
        digest: Option<String>,
        /// What that took, all executions together, in microseconds.
        digest_us: Option<u64>,
    }
}

table! {
    /// A sentence on how things stand: what an operator has to know first, the worst of it first.
    Note in Onramp as "notes" {
        /// Its place, from 1.
        place: u64,
        /// `bad` (somebody is not served), `told` (somebody has ordered it so), `warn` (somebody waits, or soon will not be served),
        /// `well`, and `says` (neither good nor bad).
        level: &'static str,
        /// What it is about: `time` (whether time is lost on the server or before it), `restart` (what one would break off now), `top`
        /// (all of it, where all is well), or where more is to be found: `clients`, `events`, `limits`, `locks`, `options`, `server`,
        /// `waiting`, `workers`.
        about: &'static str,
        /// The sentence.
        text: String,
    }
}

table! {
    /// Somebody who was refused something, since a limit was reached or a login was not let in, since the start: the last two hundred of
    /// each worker, and all others of a reason together.
    Refusal in Onramp as "refusals" {
        /// The option that sets the limit; of a login why it was refused.
        reason: &'static str,
        /// `limit` or `login`.
        kind: &'static str,
        /// The user, as the client named itself; NULL where it had not, and for all others together.
        user: Option<String>,
        /// Where it came from, without the port; `localhost` for a Unix socket, NULL for all others together.
        host: Option<String>,
        /// How often.
        times: u64,
    }
}
