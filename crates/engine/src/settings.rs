//! Every bound and choice of the engine. The program's one table of options fills this in; the engine asks nobody else.

use std::sync::Arc;
use std::time::Duration;

use proxy_protocol::Networks;
use seam::Address;
use zeroize::Zeroizing;

use crate::accounts::failed_logins::settings::FailedLoginSettings;
use crate::cluster::settings::ClusterSettings;
use crate::outside::slow_log::settings::SlowLogSettings;
use crate::readers::settings::ReadSettings;
use crate::scheduling::coalescing::settings::CoalescingSettings;
use crate::scheduling::learned::limit::{Division, Range, Worth};
use crate::scheduling::overload::settings::OverloadSettings;
use crate::scheduling::shares::settings::{FairShare, SharesSettings};
use crate::server::control::peers::sealed::LetterKey;

settings! {
    /// What the engine is told at its start. By default without a server and without entropy.
    #[derive(Clone)]
    pub struct Settings / SettingsChange {
        /// Where the server is. Tried in order, from the one that answered last.
        pub server: Vec<Address> = Vec::new(), found;
        /// The host of each of these, which its certificate has to be for where that is checked; those beyond are `localhost`.
        pub server_names: Vec<Arc<str>> = Vec::new(), found;
        /// Whether these may be addresses of several servers, and how those are checked.
        pub cluster: ClusterSettings = ClusterSettings::default(), parts;
        /// Which reads go to replicas.
        pub reads: ReadSettings = ReadSettings::default(), parts;
        /// Whether the server is told, by a header of the PROXY protocol, from which address the client comes whose account a
        /// connection is for: the latest that has logged in to it.
        pub proxy_to_server: bool = false, start;
        /// Whether connections to the server use TLS. What of its certificate is checked, and the check itself, are others' affair.
        pub server_tls: ServerTls = ServerTls::Preferred, found;
        /// Where nobody but the server answers, so that it gets passwords without more proof than that.
        pub trusted_servers: Networks = Networks::default(), start;
        /// The servers' RSA public keys, where they are known (PEM, one each): passwords that go without TLS are encrypted with none but
        /// these.
        pub server_keys: Arc<[Vec<u8>]> = Arc::default(), found;
        /// The service account: reads the accounts table and asks the server for its version and limits.
        pub service_user: String = String::from("root"), found;
        /// Its password; empty for none or for `unix_socket`.
        pub service_password: Zeroizing<String> = Zeroizing::default(), found;
        /// With what backends log in for accounts whose own method cannot be passed on; empty for nothing.
        pub mapped_password: Zeroizing<String> = Zeroizing::default(), start;
        /// How clients share the server.
        pub thread_handling: ThreadHandling = ThreadHandling::PoolOfThreads, start;
        /// Whose rules the scheduler follows.
        pub profile: Profile = Profile::Native, live;
        /// Statements executing on the server at the same time (what in-server pools call active threads); 0 to find out how
        /// many are best. In the other pools' profiles [`Self::group_limit`] stands in its place.
        // What is right for a small server whose data are in memory is a tenth of what one with cold data can do.
        pub permits: u32 = 0, live;
        /// Where that is found out: at least so many, from 1.
        // With fewer, one or two statements that wait for something else than they compute leave the server idle.
        pub permits_min: u32 = 4, live;
        /// And at most so many, not less; 0 for as many as the backends have use for.
        pub permits_max: u32 = 0, live;
        /// `percona` and `mariadb`: so many statements beyond the first execute at a time, on each worker.
        pub oversubscribe: u32 = 3, live;
        /// `percona` and `mariadb`: statements that execute at a time in all, those that are stalled included.
        pub max_threads: u32 = 100_000, live;
        /// `mysql`: statements that execute at a time on each worker, where `max_transactions_limit` is zero.
        pub query_threads_per_group: u32 = 2, live;
        /// `mysql`: transactions that are open at a time, a single statement being one; zero for no limit.
        pub max_transactions_limit: u32 = 0, live;
        /// `mysql`: where so many transactions as may be open have lasted for this long, the limit is suspended.
        pub longrun_trx_limit: Duration = Duration::from_secs(2), live;
        /// Whether clients may or must use TLS, by the listener by which they come. Those beyond are not offered it.
        pub client_tls: Vec<ClientTls> = Vec::new(), found;
        /// Whether clients may have their packets compressed.
        pub compression: bool = true, start;
        /// How connections to the server are compressed, where it offers that.
        pub server_compression: ServerCompression = ServerCompression::Off, start;
        /// Statements sent to one backend before the first is answered; 1 turns pipelining off, 0 finds out how many are best.
        pub statements_in_flight: u32 = 16, live;
        /// Backends on which short reads of one user and session state run, several in flight on each; more make the server's
        /// threads sleep and wake more often for the same work. 0 finds out how many are best.
        // As many as a large server has cores are too many for a small one, and as few as that has are a bound for short reads that wait.
        pub shared_backends: u32 = 0, live;
        /// Connections to the server, the service account's aside; 0 for as many as it allows.
        // Who knows how many connections the server has for others is who knows a better number.
        pub max_backends: u32 = 0, start;
        /// So many at most in that case: what else sets a bound, such as open files. From 1.
        pub most_backends: u32 = 16_384, found;
        /// Whether other Onramps in front of the server are counted, and what the server is good for is divided among them.
        pub counts_peers: bool = true, start;
        /// What these know each other's letters by, made of the service account's password; none without one.
        pub letter_key: Option<LetterKey> = None, found;
        /// Whether idle backends change their account where another account needs their place.
        pub change_accounts: bool = true, live;
        /// How many percent of the backends that other users do not use one user may use for what keeps one, from 1 to 100.
        // Of 128 backends twelve are left: enough for others' statements one after the other, little to do without.
        pub user_backends_share: u32 = 90, live;
        /// Clients at the same time; one more gets error 1040.
        pub max_connections: u32 = 100_000, start;
        /// Which statements go to the high queue.
        pub high_prio_mode: HighPrioMode = HighPrioMode::Transactions, live;
        /// Whether identical plain reads of one user and session state that wait together are answered by one execution.
        pub coalescing: CoalescingSettings = CoalescingSettings::default(), parts;
        /// Whether short reads that stand behind a stuck one on a backend are sent again elsewhere.
        pub rescue_reads: bool = true, live;
        /// Whether a BEGIN goes to the server only with the next statement.
        pub lazy_begin: bool = true, live;
        /// Whether user variables that are set to literals follow their client, instead of keeping it on its backend.
        pub carry_user_variables: bool = true, start;
        /// Whether a SET whose answer is known is answered without a backend.
        pub lazy_set: bool = true, live;
        /// The lane of all statements of clients that have not said anything else themselves.
        pub priority: PoolPriority = PoolPriority::Auto, live;
        /// Whether all statements of clients that have not said anything else themselves go to the high queue.
        pub high_priority_connection: bool = false, live;
        /// How many times in a row a client may enter the high queue.
        pub high_prio_tickets: u32 = u32::MAX, live;
        /// After this long in the low queue a statement moves to the high one.
        pub prio_kickup_timer: Duration = Duration::from_millis(1000), live;
        /// Whether new work starts newest first while clients hang up on what waits; in the native profile only.
        pub adaptive_lifo: bool = true, live;
        /// A statement whose like has been this long lately goes to the long lane; zero turns that lane off.
        // The longest stall limit of the servers' own pools (MariaDB's and Percona's): what runs longer is a stall to each
        // of them.
        pub long_statement_time: Duration = Duration::from_millis(500), live;
        /// How many permits the statements of the long lane may have at a time; 0 for a quarter of the permits, but at least 1.
        // With two to four permits for each core of the server, a quarter of them still keeps half of the cores or all of
        // them at work where nothing but long statements comes.
        pub long_permits: u32 = 0, live;
        /// What is refused or ended rather than waited for.
        pub overload: OverloadSettings = OverloadSettings::default(), parts;
        /// How many statements of the long lane may run at a time where more of them do not slow each other down; those beyond
        /// `long_permits` take no permits. 0 for half of `max_backends`.
        // Half of the backends are for the others, whatever happens.
        pub long_permits_max: u32 = 0, live;
        /// Who gets how much of the server.
        pub shares: SharesSettings = SharesSettings::default(), parts;
        /// A statement that has run this long lends its permit to others: it may be waiting for what they hold.
        pub stall_limit: Duration = Duration::from_millis(60), live;
        /// The first statement of each transaction, and a statement outside of one, is queued after this long.
        pub transaction_delay: Duration = Duration::ZERO, live;
        /// Who waits for whose row locks is asked of the server this often at most; zero for never.
        pub lock_wait_interval: Duration = Duration::from_millis(100), live;
        /// How long a login may take, from the greeting on.
        pub connect_timeout: Duration = Duration::from_secs(10), live;
        /// How long a statement waits for a server that cannot be reached, or for a free backend.
        pub backend_connect_timeout: Duration = Duration::from_secs(10), live;
        /// Idle backends are closed after this long (below the server's `wait_timeout`).
        pub backend_idle_timeout: Duration = Duration::from_secs(60), live;
        /// A client that sends nothing for this long is closed.
        pub wait_timeout: Duration = Duration::from_secs(28_800), live;
        /// A client that takes none of its reply for this long is closed.
        pub net_write_timeout: Duration = Duration::from_secs(60), live;
        /// How long open transactions may go on after [`seam::Signal::Drain`].
        pub shutdown_timeout: Duration = Duration::from_secs(30), live;
        /// The accounts are read again after this long; a login that fails asks for a fresh copy by itself.
        pub accounts_refresh: Duration = Duration::from_secs(1), live;
        /// How wrong passwords are held up.
        pub failed_logins: FailedLoginSettings = FailedLoginSettings::default(), parts;
        /// The largest statement, in bytes; more gets error 1153 and a close.
        pub max_allowed_packet: usize = 64 << 20, live;
        /// Statements with a longer text, in bytes, are read by other threads than the workers'.
        pub large_statement_size: usize = 64 << 10, live;
        /// Bytes of waiting statements of all clients together; beyond it new ones get error 1041.
        pub statement_memory: usize = 256 << 20, live;
        /// Bytes of unfinished logins of all clients together; beyond it those end that hold most. TLS handshakes have as much of their own.
        // 100,000 connections of 2.6 KiB each. A login request has some 200 bytes, and is kept only where it comes in pieces; what a client says
        // first in TLS has up to 2 KiB.
        pub login_memory: usize = 256 << 20, start;
        /// Bytes of what is kept of clients' sessions, of all together; beyond it those end that hold most.
        // 100,000 clients with 2.6 KiB each. Of usual sessions hundreds have the same state, which is stored once.
        pub session_memory: usize = 256 << 20, live;
        /// Bytes of answers that are kept until they are whole, of all together; beyond it those go on as they come that can, and the others
        /// become error 1041.
        // A list of 1,000 threads has some 100 KiB, and what is said of a prepared statement some hundred bytes.
        pub held_answer_memory: usize = 64 << 20, live;
        /// Prepared statements of all clients at the same time; one more gets error 1461. Each worker has an even share.
        pub max_prepared_stmt_count: u32 = 4_000_000, live;
        /// Bytes of the texts of different prepared statements, on each worker; beyond it new ones get error 1041.
        pub prepared_statement_memory: usize = 64 << 20, live;
        /// Bytes of the warnings that are kept for clients, on each worker; beyond it the longest lists go, and only their counts stay.
        pub kept_warnings_memory: usize = 64 << 20, live;
        /// Statements that stay prepared on a backend for whoever executes them next, from 1; the one that was used longest ago
        /// is closed for one more.
        pub backend_prepared_statements: u32 = 256, live;
        /// Digests of statements that are counted apart from each other, on each worker; the rest is counted together.
        pub digests_size: u32 = 10_000, start;
        /// Users, and schemas, that are shown by name among the metrics, those that have most work done; 0 counts nothing by name.
        pub metrics_top: u32 = 0, live;
        /// Which statements are worth a line of the slow log.
        pub slow_log: SlowLogSettings = SlowLogSettings::default(), parts;
        /// 32 random bytes from the system: the scrambles sent to clients are drawn from them.
        pub entropy: [u8; 32] = [0; 32], found;
    }
}

/// How clients share the server: the server's own names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadHandling {
    /// Few backends, permits and queues.
    PoolOfThreads,
    /// A backend per client and no queue, for comparison.
    OneThreadPerConnection,
}

/// Says whether clients of a listener may use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientTls {
    /// TLS is not offered.
    #[default]
    Off,
    /// As they like.
    Allowed,
    /// They must, but for those of a Unix socket, which nobody else can read: `require_secure_transport` of the servers.
    Required,
}

/// Says whether connections to the server use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTls {
    /// They do not.
    Disabled,
    /// Where the server offers it, but for Unix sockets and loopback addresses, which nobody else can read.
    Preferred,
    /// Always, or not at all.
    Required,
    /// Connections use TLS, and nobody else can pass for the server: its certificate is checked.
    Verified,
}

/// How connections to the server are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCompression {
    /// Not at all.
    Off,
    /// By zlib, which all servers have unless they are told otherwise.
    Zlib,
    /// By zstd (MySQL since 8.0.18).
    Zstd,
}

/// Percona Server's `thread_pool_high_prio_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighPrioMode {
    /// Statements of open transactions, while the client has tickets.
    Transactions,
    /// Every statement.
    Statements,
    /// None.
    None,
}

/// MariaDB's `thread_pool_priority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolPriority {
    /// All statements of a client go to the high queue.
    High,
    /// All go to the low one.
    Low,
    /// As the other rules say.
    Auto,
}

/// The scheduling rules that are followed: Onramp's own, or those of the thread pool of a server, each worker being one of its
/// groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Onramp's own: one pool for all workers.
    Native,
    /// Percona Server's thread pool (`sql/threadpool_unix.cc`).
    Percona,
    /// MariaDB's thread pool (`sql/threadpool_generic.cc`).
    MariaDb,
    /// MySQL's thread pool (`plugin/thread_pool`, 9.7).
    MySql,
}

impl Settings {
    /// These settings with the rules, and all the defaults, of another pool.
    #[must_use]
    pub fn of_profile(self, profile: Profile, workers: u32) -> Self {
        let other = Self {
            profile,
            // What no server's pool does.
            statements_in_flight: 1,
            long_statement_time: Duration::ZERO,
            lazy_begin: false,
            lazy_set: false,
            ..self.clone()
        };
        match profile {
            Profile::Native => Self { profile, ..self },
            Profile::Percona => {
                Self { stall_limit: Duration::from_millis(500), max_threads: 100_000, ..other }
            }
            Profile::MariaDb => {
                Self { stall_limit: Duration::from_millis(500), max_threads: 65_536, ..other }
            }
            Profile::MySql => Self {
                stall_limit: Duration::from_millis(60),
                max_transactions_limit: (32 * workers).clamp(1, 512),
                ..other
            },
        }
    }

    /// How many long statements may run at a time at all, of so many backends.
    pub(crate) fn most_long_statements(&self, backends: u32) -> u32 {
        match self.long_permits_max {
            0 => backends / 2,
            most => most,
        }
    }

    /// As many permits as may be found with so many backends.
    pub(crate) fn most_permits(&self, backends: u32) -> u32 {
        self.permits_range(backends, Division::NONE).map_or(u32::MAX, |range| range.most)
    }

    /// How many permits are of use with so many backends: a lock stops as many statements as there are permits, and some backends have to be
    /// left for those that need no lock. With few backends there is nothing to leave.
    fn useful_permits(backends: u32) -> u32 {
        if backends < 16 { backends } else { backends - backends / 8 }
    }

    /// How many permits there are where their number is given.
    pub(crate) fn given_permits(&self, backends: u32) -> u32 {
        match self.thread_handling {
            // Without a permit nothing would ever run.
            ThreadHandling::PoolOfThreads => self.permits.min(Self::useful_permits(backends)).max(1),
            ThreadHandling::OneThreadPerConnection => u32::MAX,
        }
    }

    /// Where the number of permits is to be found, with so many backends, and among how many Onramps the server is divided; `None` where
    /// it is given. It begins with four for each core of a small server. Where it begins, and the least that keeps a server busy, are the
    /// server's, and so divided; backends are divided where they are counted, and `permits_max` is this Onramp's.
    pub(crate) fn permits_range(&self, backends: u32, division: Division) -> Option<Range> {
        let most = match self.permits_max {
            0 => Self::useful_permits(backends),
            given => given.min(Self::useful_permits(backends)),
        };
        let least = self.permits_min.div_ceil(division.at_work).min(most);
        let range =
            Range { least, most, start: 16_u32.div_ceil(division.at_work), worth: Worth::Little, division };
        self.finds_permits().then_some(range)
    }

    /// Likewise that of backends for shared reads: up to as many as a large server has cores, or as its disk does things at a time. Each
    /// makes the server's threads sleep and wake more often, and where these have few cores a wrong step costs a quarter.
    /// They are divided likewise among Onramps.
    pub(crate) fn shared_backends_range(&self, division: Division) -> Option<Range> {
        let [least, most] = [4_u32, 64].map(|of_server| of_server.div_ceil(division.at_work));
        let range = Range { least, most, start: least, worth: Worth::Much, division };
        (self.shared_backends == 0 && self.is_own_pool()).then_some(range)
    }

    /// Likewise that of statements in flight on each. With fewer than 4 most of what sharing is good for is lost, and 64 are
    /// some milliseconds of short reads, which is how long one of them may have to wait for those before it.
    pub(crate) fn in_flight_range(&self) -> Option<Range> {
        let range = Range { least: 4, most: 64, start: 16, worth: Worth::Little, division: Division::NONE };
        (self.statements_in_flight == 0 && self.is_own_pool()).then_some(range)
    }

    /// Says whether new work may start newest first in the scheduler's queues: where the server's time is shared out, the order
    /// is decided in front of them.
    pub(crate) fn newest_may_go_first(&self) -> bool {
        self.adaptive_lifo && self.is_own_pool() && !self.shares.is_on()
    }

    /// Says whether users have shares while one crowds out another.
    pub(crate) fn shares_by_crowding(&self) -> bool {
        self.shares.fair_share == FairShare::Crowding && self.is_own_pool() && !self.shares.is_on()
    }

    /// Says whether new work may start newest first in front of the queues, within each share, where there are any.
    pub(crate) fn newest_of_share_may_go_first(&self) -> bool {
        self.adaptive_lifo && self.is_own_pool()
    }

    /// Whether the number of permits is to be found.
    pub(crate) fn finds_permits(&self) -> bool {
        self.permits == 0 && self.is_own_pool()
    }

    fn is_own_pool(&self) -> bool {
        self.profile == Profile::Native && self.thread_handling == ThreadHandling::PoolOfThreads
    }

    /// How many statements each of so many workers may execute at a time, where these are groups.
    pub fn group_limit(&self, workers: u32) -> Option<u32> {
        if self.thread_handling == ThreadHandling::OneThreadPerConnection {
            return None;
        }
        match self.profile {
            Profile::Native => None,
            Profile::Percona | Profile::MariaDb => Some(self.oversubscribe.saturating_add(1)),
            // One more in either case: the plugin compares with <= (`is_credit_available`).
            Profile::MySql if self.max_transactions_limit == 0 => Some(self.query_threads_per_group + 1),
            Profile::MySql => Some(self.max_transactions_limit.div_ceil(workers) + 1),
        }
    }
}
