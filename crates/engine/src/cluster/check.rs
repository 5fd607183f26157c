//! The check of one address: a connection of the service account, and a round of questions again and again.

use std::sync::Arc;
use std::time::Duration;

use seam::{ConnectionId, Instant};
use wire::{Capabilities, CommandKind, ReplyReader};
use zeroize::Zeroize;

use super::reading::{CheckQuestion, Round};
use super::standing::Checked;
use super::verdict::ServerVerdict;
use super::{Cluster, Effect, Step};
use crate::accounts::secret::Secret;
use crate::accounts::task::{Finding, Work};
use crate::backend::login::full::{OFFLINE, SERVER_FULL, SHUTDOWN};
use crate::backend::login::reachability::connect_error;
use crate::backend::login::security::{proxy_header, server_name, wanted_tls, way_to};
use crate::server::control::answer::Kept;
use crate::server::control::version::Version;
use crate::server::login::{Credentials, LoginOutcome, OF_SERVICE_ACCOUNT, ServerLogin};
use crate::settings::ServerCompression;

/// First number that names a check's connection towards the driver. Backends do not count so far.
const FIRST_TOKEN: u64 = 1 << 63;

/// Largest answer, in bytes. The members of a large group, or the GTIDs of many servers, are some kilobytes.
const LARGEST_ANSWER: usize = 1 << 20;

/// Shortest time between two checks. A server that hangs up between two is checked at once, but it may go on doing that.
const SOONEST: Duration = Duration::from_millis(100);

/// After a wait of so many pauses one more pause is added: that adds a hundredth to the wait, and all are asked less often.
const PART_OF_WAIT: u32 = 100;

/// The longest pause after checks that failed in a row. A server that is asked in vain counts that as attempts that were broken off. After
/// 100 of them (max_connect_errors) it lets nobody in from here.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pause after the server has refused the service account. More frequent attempts may lock it (failed_login_attempts of MySQL).
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Refusals that say nothing of the account, and that end by themselves.
const OF_THE_SERVER: [u16; 3] = [SERVER_FULL, SHUTDOWN, OFFLINE];

/// Says whether a connection that the driver tells of is that of a check.
pub(crate) fn is_of_check(token: u64) -> bool {
    token >= FIRST_TOKEN
}

/// The state of a check, and the time of the next one.
pub(crate) struct Check {
    state: State,
    token: u64,
    connection: Option<ConnectionId>,
    version: Version,
    capabilities: Capabilities,
    /// Time at which the round under way began, or the last one.
    began: Instant,
    due: Instant,
    /// The pause after the last round, where that failed.
    pause: Duration,
    /// Number of the last backend that was connected as the round or question under way began.
    covers: u64,
    out: Vec<u8>,
}

enum State {
    /// Between two rounds.
    Resting,
    Connecting,
    LoggingIn(Box<ServerLogin>),
    Asking {
        question: CheckQuestion,
        round: Box<Round>,
        reader: Box<ReplyReader>,
        answer: Kept,
    },
}

impl Check {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Resting,
            token: 0,
            connection: None,
            version: Version::new(Vec::new()),
            capabilities: Capabilities::NONE,
            began: Instant::START,
            due: Instant::START,
            pause: Duration::ZERO,
            covers: 0,
            out: Vec::new(),
        }
    }

    /// Makes the next round due.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.due.min(now);
    }

    /// Returns the time at which the check has something to do by itself.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Instant> {
        Some(if matches!(self.state, State::Resting) { self.due } else { self.began + timeout })
    }
}

impl Cluster {
    /// Begins a round that is due, gives up one that takes too long, and sends the waiting bytes.
    pub(super) fn check_turn(&mut self, step: &mut Step<'_>, place: usize) {
        let check = &self.checks[place];
        match check.state {
            State::Resting if check.due <= step.now => self.begin_round(step, place),
            State::Resting if check.connection.is_some() && self.is_to_prove(place) => {
                self.begin(step.now, place);
                self.put_question(place, CheckQuestion::Alive, Box::default());
            }
            State::Resting => {}
            _ if check.began + step.settings.cluster.check_timeout <= step.now => {
                self.check_failed(step, place, "no answer within server_check_timeout", Duration::ZERO);
            }
            _ => {}
        }
        let check = &mut self.checks[place];
        if let Some(connection) = check.connection.filter(|_| !check.out.is_empty()) {
            step.outbox.send(connection, &check.out);
            // The password may be among it.
            check.out.zeroize();
        }
    }

    fn begin(&mut self, now: Instant, place: usize) {
        let check = &mut self.checks[place];
        (check.began, check.covers) = (now, self.connected);
    }

    fn begin_round(&mut self, step: &mut Step<'_>, place: usize) {
        self.begin(step.now, place);
        let check = &mut self.checks[place];
        if check.connection.is_some() {
            return self.put_question(place, CheckQuestion::Variables, Box::default());
        }
        check.state = State::Connecting;
        self.last_token += 1;
        check.token = FIRST_TOKEN + self.last_token;
        step.outbox.connect(check.token, step.settings.server[place].clone());
    }

    fn check_of(&self, token: u64) -> Option<usize> {
        let is_it = |check: &Check| check.token == token && matches!(check.state, State::Connecting);
        self.checks.iter().position(is_it)
    }

    /// Begins the login on a check's connection, which stands.
    pub(crate) fn check_connected(&mut self, step: &mut Step<'_>, token: u64, connection: ConnectionId) {
        let Some(place) = self.check_of(token) else { return step.outbox.close(connection) };
        step.effects.push(Effect::Serves { connection, place });
        let credentials = Credentials {
            user: step.settings.service_user.clone().into_bytes(),
            secret: Secret::of(step.settings.service_password.as_bytes()),
            methods: OF_SERVICE_ACCOUNT.into(),
            way: way_to(step.settings, place),
            known_keys: Arc::clone(&step.settings.server_keys),
            tls: wanted_tls(step.settings, place),
            collation: 45, // utf8mb4_general_ci
            // Without it no procedure may answer with rows (error 1312).
            extra: Capabilities::MULTI_RESULTS,
            compression: ServerCompression::Off,
        };
        let header = proxy_header(step.settings, place, None);
        let check = &mut self.checks[place];
        check.out = header;
        check.connection = Some(connection);
        check.state = State::LoggingIn(Box::new(ServerLogin::new(credentials)));
    }

    /// Notes that the connection did not come about.
    pub(crate) fn check_connect_failed(&mut self, step: &mut Step<'_>, token: u64, errno: i32) {
        if let Some(place) = self.check_of(token) {
            self.check_failed(step, place, &connect_error(errno), Duration::ZERO);
        }
    }

    /// Takes bytes of a server for its check.
    pub(crate) fn check_bytes(&mut self, step: &mut Step<'_>, place: usize, bytes: &[u8]) {
        let check = &mut self.checks[place];
        match &mut check.state {
            State::LoggingIn(login) => {
                let outcome = login.read(bytes, &mut check.out);
                match outcome {
                    Ok(None) => {}
                    Ok(Some(outcome)) => self.check_logs_in(step, place, outcome),
                    Err(error) => {
                        self.check_failed(
                            step,
                            place,
                            &format!("its login broke the protocol: {error}"),
                            Duration::ZERO,
                        );
                    }
                }
            }
            State::Asking { reader, answer, .. } => match reader.read(bytes, answer) {
                Ok(progress) if progress.done => self.check_answered(step, place),
                Ok(_) if answer.bytes.len() > LARGEST_ANSWER => {
                    self.check_failed(step, place, "its answer has no end", Duration::ZERO);
                }
                Ok(_) => {}
                Err(error) => {
                    self.check_failed(
                        step,
                        place,
                        &format!("it broke the protocol: {error}"),
                        Duration::ZERO,
                    );
                }
            },
            // The server says why it is about to hang up.
            State::Resting | State::Connecting => {
                self.check_closed(step, place, "the server closed the connection");
            }
        }
    }

    fn check_logs_in(&mut self, step: &mut Step<'_>, place: usize, outcome: LoginOutcome) {
        let check = &mut self.checks[place];
        let connection = check.connection.expect("its bytes have just come");
        match outcome {
            LoginOutcome::Established(established) => {
                check.capabilities = established.capabilities;
                check.version = Version::new(established.version);
                self.put_question(place, CheckQuestion::NoSyncWait, Box::default());
            }
            LoginOutcome::StartTls => {
                let out = std::mem::take(&mut check.out);
                step.outbox.send(connection, &out);
                step.outbox.start_tls(connection, server_name(step.settings, place));
            }
            LoginOutcome::Encrypt { bytes, public_key } => {
                step.effects.push(Effect::Encrypt { connection, work: Work::Encrypt { bytes, public_key } });
            }
            LoginOutcome::Refused { code, message } => {
                let message = String::from_utf8_lossy(&message);
                let user = &step.settings.service_user;
                let reason = format!("it refused the service account '{user}' with error {code}: {message}");
                let pause = if OF_THE_SERVER.contains(&code) { Duration::ZERO } else { REFUSED_PAUSE };
                self.check_failed(step, place, &reason, pause);
            }
            LoginOutcome::Withheld(why) => {
                let reason = format!("the service account cannot log in: {}", why.message());
                self.check_failed(step, place, &reason, REFUSED_PAUSE);
            }
        }
    }

    /// Takes the service account's password that has been encrypted for a server.
    pub(crate) fn check_finding(&mut self, connection: ConnectionId, finding: Finding) {
        let Finding::Encrypted(bytes) = finding else { return };
        let is_it = |check: &&mut Check| check.connection == Some(connection);
        let Some(check) = self.checks.iter_mut().find(is_it) else { return };
        if let State::LoggingIn(login) = &mut check.state {
            login.encrypted(bytes.as_deref(), &mut check.out);
        }
    }

    /// Notes that TLS stands on the connection of a check.
    pub(crate) fn check_secured(&mut self, step: &mut Step<'_>, place: usize) {
        let check = &mut self.checks[place];
        if let State::LoggingIn(login) = &mut check.state
            && let Err(error) = login.secured(&mut check.out)
        {
            self.check_failed(step, place, &format!("its login broke the protocol: {error}"), Duration::ZERO);
        }
    }

    fn put_question(&mut self, place: usize, question: CheckQuestion, round: Box<Round>) {
        let check = &mut self.checks[place];
        let (own, form) = (check.capabilities, Capabilities::DEPRECATE_EOF);
        let options = crate::backend::to_server::message::reply_options(own, form, 0, 1);
        let start = wire::begin_packet(&mut check.out);
        check.out.push(CommandKind::Query as u8);
        check.out.extend_from_slice(question.text(&check.version).as_bytes());
        wire::end_packet(&mut check.out, start, &mut 0);
        let reader = Box::new(ReplyReader::new(wire::Expect::ResultSets, options));
        check.state = State::Asking { question, round, reader, answer: Kept::default() };
    }

    fn check_answered(&mut self, step: &mut Step<'_>, place: usize) {
        let check = &mut self.checks[place];
        let State::Asking { question, mut round, answer, .. } =
            std::mem::replace(&mut check.state, State::Resting)
        else {
            return;
        };
        if question == CheckQuestion::Alive {
            let covers = check.covers;
            return match answer.error {
                None => self.proves(place, covers),
                // It may have been a farewell, sent before the question came.
                Some(_) => self.check_closed(step, place, "the server refused to answer DO 0"),
            };
        }
        let said = answer.error.map_or(Ok(answer.bytes.as_slice()), Err);
        match round.take(&check.version, question, said) {
            Ok(Some(next)) => self.put_question(place, next, round),
            Ok(None) => {
                check.pause = Duration::ZERO;
                self.round_ended(step, place, ServerVerdict::of(&round.finish()), Duration::ZERO);
            }
            Err(reason) => self.check_failed(step, place, &reason.to_string(), Duration::ZERO),
        }
    }

    /// Notes that the connection of a check has ended. Between two rounds that is a reason to look at once.
    pub(crate) fn check_closed(&mut self, step: &mut Step<'_>, place: usize, reason: &str) {
        let check = &mut self.checks[place];
        match check.state {
            State::Resting => {}
            State::Asking { question: CheckQuestion::Alive, .. } => check.state = State::Resting,
            _ => return self.check_failed(step, place, reason, Duration::ZERO),
        }
        check.due = check.due.min(step.now.max(check.began + SOONEST));
        self.standings[place].cut_off();
        self.end_check_connection(step, place);
    }

    fn check_failed(&mut self, step: &mut Step<'_>, place: usize, reason: &str, pause: Duration) {
        self.end_check_connection(step, place);
        self.round_ended(step, place, ServerVerdict::unreached(reason), pause);
    }

    /// Moves the check to the server's new address. The server is asked there at once, and is nothing before it has answered.
    pub(crate) fn check_elsewhere(&mut self, step: &mut Step<'_>, place: usize) {
        if !self.is_watching() {
            return;
        }
        self.end_check_connection(step, place);
        self.checks[place] = Check { due: step.now, ..Check::new() };
        let address = &step.settings.server[place];
        let reason = format!("its name leads to {address} now, where it has not answered yet");
        self.begin_elsewhere(step.now, place, &reason);
        self.has_news = true;
        step.effects.push(Effect::Changed { place });
    }

    fn end_check_connection(&mut self, step: &mut Step<'_>, place: usize) {
        let check = &mut self.checks[place];
        check.out.zeroize();
        if let Some(connection) = check.connection.take() {
            step.outbox.close(connection);
            step.effects.push(Effect::Ended { connection });
        }
    }

    /// Says whether clients wait for a server to take writes, or are about to, and it may be this one. Nodes of Galera say which nodes have gone
    /// before they do. Their news is counted in checks at the usual interval ([`super::standing`]).
    fn may_take_over(&self, place: usize, verdict: &ServerVerdict) -> bool {
        let has_ended = |primary: usize| {
            let last = self.standings[primary].verdict();
            primary != place && !(last.is_well && last.is_writable)
        };
        let is_awaited = self.failovers.under_way_since().is_some() || self.primary.is_some_and(has_ended);
        let is_node = verdict.membership.as_ref().is_some_and(|own| own.place.is_some());
        is_awaited && !verdict.identity.is_empty() && !is_node
    }

    /// Returns the interval between looks at a server that may take over. The interval grows with the time without a primary. Where nothing
    /// takes writes for a night, it is the usual one.
    fn interval_without(&self, now: Instant, usual: Duration) -> Duration {
        let lasts = self.failovers.under_way_since().map_or(Duration::ZERO, |began| now.since(began));
        (lasts / PART_OF_WAIT).min(usual).max(SOONEST)
    }

    /// Ends a round. The next one begins an interval after this one has, or later.
    fn round_ended(&mut self, step: &mut Step<'_>, place: usize, verdict: ServerVerdict, pause: Duration) {
        // While clients wait for a switchover, or for this server to take writes, as soon as may be.
        let usual = step.settings.cluster.check_interval;
        let interval = match self.switching.is_some() {
            true => SOONEST,
            false if self.may_take_over(place, &verdict) => self.interval_without(step.now, usual),
            false => usual,
        };
        let check = &mut self.checks[place];
        check.state = State::Resting;
        if !verdict.is_well && verdict.identity.is_empty() {
            // The second attempt comes as soon as any, so that a server that has gone is known as that.
            let doubled = if check.pause.is_zero() { interval } else { check.pause * 2 };
            check.pause = doubled.min(LONGEST_PAUSE).max(pause).max(interval);
        }
        check.due = (check.began + interval.max(check.pause)).max(step.now + SOONEST);
        let (began, covers) = (check.began, check.covers);
        let checked = Checked { at: step.now, took: step.now.since(began), verdict };
        if self.asked(place, began, checked) {
            step.effects.push(Effect::Changed { place });
        }
        if self.standings[place].is_writable() {
            self.proves(place, covers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::chosen::Chosen;
    use crate::cluster::testing::{at, member, of_group, two_servers, writes};
    use crate::outbox::Outbox;
    use crate::settings::Settings;

    /// Returns the pause behind a check of the second server that ends with this verdict.
    fn pause(cluster: &mut Cluster, verdict: ServerVerdict) -> Duration {
        pause_at(cluster, at(9), verdict)
    }

    fn pause_at(cluster: &mut Cluster, now: Instant, verdict: ServerVerdict) -> Duration {
        let (settings, mut outbox) = (two_servers(), Outbox::default());
        let mut step = Step { now, settings: &settings, outbox: &mut outbox, effects: Vec::new() };
        (cluster.checks[1].began, cluster.checks[1].pause) = (now, Duration::ZERO);
        cluster.round_ended(&mut step, 1, verdict, Duration::ZERO);
        cluster.checks[1].due.since(now)
    }

    #[test]
    fn who_may_be_promoted_is_looked_at_soon_while_there_is_no_primary() {
        let settings = two_servers();
        let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
        let usual = settings.cluster.check_interval;
        cluster.seen(at(1), 0, writes(0, true));
        assert_eq!(pause(&mut cluster, writes(1, false)), usual, "it is there");
        cluster.choose_confirmed(at(1), &chosen, &settings);
        assert_eq!(pause(&mut cluster, writes(1, false)), usual, "it is the primary");
        cluster.seen(at(2), 0, ServerVerdict::unreached("connection refused"));
        assert_eq!(pause(&mut cluster, writes(1, false)), SOONEST, "it does not answer");
        assert_eq!(pause(&mut cluster, member(1, 0)), usual, "its place among the nodes is settled first");
        let mut of_group = member(1, 0);
        of_group.membership.as_mut().expect("a member").place = None;
        assert_eq!(pause(&mut cluster, of_group), SOONEST, "it may have been elected");
        assert_eq!(
            pause(&mut cluster, ServerVerdict::unreached("connection refused")),
            usual,
            "nothing is gained by that"
        );
        // Two that take writes are none.
        cluster.seen(at(3), 0, writes(0, true));
        cluster.seen(at(3), 1, writes(1, true));
        cluster.choose_confirmed(at(3), &chosen, &settings);
        assert_eq!(chosen.get().place, None);
        assert_eq!(pause(&mut cluster, writes(1, true)), SOONEST, "clients wait until one is read-only");
        let later = |cluster: &mut Cluster, seconds: u64| pause_at(cluster, at(3 + seconds), writes(1, true));
        assert_eq!(later(&mut cluster, 10), SOONEST);
        assert_eq!(later(&mut cluster, 30), 3 * SOONEST, "a hundredth of what it has lasted");
        assert_eq!(later(&mut cluster, 3_600), usual, "nobody floods servers for a night");
        cluster.seen(at(4), 0, writes(0, false));
        cluster.choose_confirmed(at(4), &chosen, &settings);
        assert_eq!(pause(&mut cluster, writes(1, true)), usual, "it is the primary now");
    }

    /// COM_QUERY's OK.
    const OK: &[u8] = &[7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];

    /// Makes two members. By these verdicts the first is the primary. Each check has a connection, and its next round is far away.
    fn followed(settings: &Settings, verdict: impl Fn(usize, bool) -> ServerVerdict) -> (Cluster, Chosen) {
        let (mut cluster, chosen) = (Cluster::new(settings, 0), Chosen::default());
        cluster.seen(at(1), 0, verdict(0, true));
        cluster.seen(at(1), 1, verdict(1, false));
        cluster.choose_confirmed(at(1), &chosen, settings);
        for check in &mut cluster.checks {
            (check.connection, check.due) = (Some(ConnectionId { index: 1, generation: 1 }), at(60));
        }
        (cluster, chosen)
    }

    /// Returns how often the first server's check is asked whether it is alive, and the number of the last backend that is proved. The first of
    /// two servers is the primary. `connected`: the number of the last backend as each step begins. An answer comes in each step.
    fn asked_and_proved(verdict: impl Fn(usize, bool) -> ServerVerdict, connected: &[u64]) -> (usize, u64) {
        let (settings, mut outbox) = (two_servers(), Outbox::default());
        let (mut cluster, _) = followed(&settings, verdict);
        let mut step = Step { now: at(2), settings: &settings, outbox: &mut outbox, effects: Vec::new() };
        let mut asked = 0;
        for &connected in connected {
            cluster.connected = connected;
            cluster.turn(&mut step);
            for place in 0..2 {
                if matches!(cluster.checks[place].state, State::Asking { question: CheckQuestion::Alive, .. })
                {
                    asked += 1;
                    // Those that are connected while a question is under way wait for the next one.
                    cluster.connected += 1000;
                    cluster.turn(&mut step);
                    cluster.check_bytes(&mut step, place, OK);
                }
            }
        }
        (asked, cluster.proved)
    }

    #[test]
    fn a_groups_primary_is_asked_whether_it_is_alive_while_backends_wait_for_that() {
        assert_eq!(asked_and_proved(of_group, &[0]), (0, 0), "none has been opened");
        assert_eq!(asked_and_proved(of_group, &[1, 1]), (1, 1), "once, and not of the other member");
        assert_eq!(asked_and_proved(of_group, &[1000]), (1, 1000), "once for all of them");
        assert_eq!(
            asked_and_proved(of_group, &[1, 2, 2]),
            (2, 2),
            "an answer is for those before the question"
        );
        assert_eq!(asked_and_proved(writes, &[1]), (0, 0), "it is of no group");
        assert_eq!(asked_and_proved(|place, _| member(place, 0), &[1]), (0, 0), "a node of Galera");
    }

    /// Each answer would prove nothing, and the next question follow at once.
    #[test]
    fn a_primary_that_is_not_certain_is_not_asked_between_rounds() {
        let (settings, mut outbox) = (two_servers(), Outbox::default());
        let (mut cluster, _) = followed(&settings, of_group);
        cluster.standings[0].cut_off();
        cluster.connected = 1;
        let mut step = Step { now: at(2), settings: &settings, outbox: &mut outbox, effects: Vec::new() };
        cluster.turn(&mut step);
        assert!(matches!(cluster.checks[0].state, State::Resting));
    }

    #[test]
    fn a_farewell_in_place_of_the_answer_proves_nothing() {
        let (settings, mut outbox) = (two_servers(), Outbox::default());
        let (mut cluster, _) = followed(&settings, of_group);
        cluster.connected = 1;
        let mut step = Step { now: at(2), settings: &settings, outbox: &mut outbox, effects: Vec::new() };
        cluster.turn(&mut step);
        cluster.check_bytes(&mut step, 0, b"\x0d\0\0\x01\xff\x1d\x04#08S01Bye.");
        assert_eq!((cluster.proved, cluster.checks[0].connection), (0, None));
    }

    /// Its process may be another one by then.
    #[test]
    fn a_check_that_ends_while_it_is_asked_proves_nothing() {
        let (settings, mut outbox) = (two_servers(), Outbox::default());
        let (mut cluster, chosen) = followed(&settings, of_group);
        cluster.connected = 1;
        let mut step = Step { now: at(2), settings: &settings, outbox: &mut outbox, effects: Vec::new() };
        cluster.turn(&mut step);
        cluster.check_closed(&mut step, 0, "the server closed the connection");
        assert_eq!((cluster.proved, cluster.checks[0].due), (0, at(2) + SOONEST), "it is looked at soon");
        cluster.choose(at(2), &chosen, &settings);
        assert_eq!(chosen.get().place, None);
    }
}
