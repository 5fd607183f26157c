//! The two servers, which are given the same, and Onramp in front of one of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use private_server::{Access, PrivateServer, Report, Settings, tied_to_us};

use crate::Failure;
use crate::connection::{Connection, Login, Role, plain_capabilities};
use crate::dialect;
use crate::orders;
use crate::program::Setting;
use crate::statements::preparation;
use crate::step::{Step, escape};

/// A server on a slow disk needs seconds to come up; whoever needs longer than this never does.
const PATIENCE: Duration = Duration::from_secs(120);

/// As many backends and direct clients as the largest program has, more than twice: those of a program before may still be
/// there.
const MOST_CONNECTIONS: u32 = 1000;

/// How long clients that go on by themselves wait for a backend that others hold, and for their turn in a crowd of logins: less
/// than their patience with an answer, so that it is Onramp that says so.
/// A crowd logs in at once, and a debug build takes its time over each proof of a password.
pub(crate) const PATIENCE_WITH_OTHERS: &str = "50s";

/// What `app` and `other` may do: everything inside the schemas of programs.
const ACCOUNTS: [&str; 7] = [
    "CREATE USER app@'%' IDENTIFIED BY 'app-secret'",
    "GRANT ALL ON `onramp\\_%`.* TO app@'%'",
    "CREATE USER other@'%' IDENTIFIED BY 'other-secret'",
    "GRANT ALL ON `onramp\\_%`.* TO other@'%'",
    "CREATE DATABASE forbidden",
    // Statistics are gathered in the background at times of the server's own choice, and plans follow them.
    "SET GLOBAL innodb_stats_auto_recalc = OFF",
    "SET GLOBAL local_infile = ON",
];

/// Nobody without a name.
const ACCOUNTS_OF_MARIADB: [&str; 2] = ["DELETE FROM mysql.global_priv WHERE User = ''", "FLUSH PRIVILEGES"];

/// Programs set timestamp and insert_id, which are anybody's on MariaDB.
const ACCOUNTS_OF_MYSQL: [&str; 2] =
    ["GRANT SESSION_VARIABLES_ADMIN ON *.* TO app@'%'", "GRANT SESSION_VARIABLES_ADMIN ON *.* TO other@'%'"];

/// The first one to set a locale gets an error from a MySQL that has no messages in that language, and nobody after that.
const LOCALES: [&str; 2] = ["SET lc_time_names = 'de_DE'", "SET lc_time_names = 'fr_FR'"];

/// A folder that goes with the value.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new one, which the server's own user may enter.
    pub(crate) fn new() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("onramp-differential-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o755)
            .create(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A MariaDB or MySQL of our own.
pub(crate) struct Server {
    server: PrivateServer,
    reports: Mutex<Receiver<Report>>,
    access: Access,
}

impl Server {
    /// Starts one of those programs, with its data in `folder` and these arguments too, and creates the accounts.
    pub(crate) fn start(folder: &Path, programs: &Path, more: &[&str]) -> Result<Self, Failure> {
        let settings = Settings {
            arguments: [
                // Nothing has to survive; commits need not wait for the disk.
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-flush-method=nosync",
                "--loose-sync-frm=OFF", // MariaDB's alone
                "--log-bin-trust-function-creators=1",
                "--innodb-buffer-pool-size=128M",
                // Two for each client: a table that had to make room is another one to prepared statements.
                "--table-definition-cache=4000",
                "--table-open-cache=4000",
                "--innodb-lock-wait-timeout=5", // seconds: no program waits for a row in order
            ]
            .iter()
            .chain(more)
            .map(ToString::to_string)
            .collect(),
            max_connections: MOST_CONNECTIONS,
            programs: programs.to_path_buf(),
            ..Settings::new(folder.to_path_buf())
        };
        let (sender, reports) = channel();
        let server = PrivateServer::start(settings, move |report| {
            let _ = sender.send(report);
        })?;
        let access = match reports.recv_timeout(PATIENCE) {
            Ok(Report::Ready(access)) => access,
            Ok(Report::Failed(reason)) => return Err(reason.into()),
            Ok(Report::Stopped) | Err(_) => return Err("the server did not come up".into()),
        };
        let server = Self { server, reports: Mutex::new(reports), access };
        server.order(&ACCOUNTS.map(String::from))?;
        let more = if server.is_mysql() { ACCOUNTS_OF_MYSQL } else { ACCOUNTS_OF_MARIADB };
        server.order(&more.map(String::from))?;
        for locale in LOCALES {
            let _ = server.order(&[String::from(locale)]);
        }
        Ok(server)
    }

    pub(crate) fn is_mysql(&self) -> bool {
        self.access.version.starts_with("MySQL")
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.access.socket
    }

    /// The schemas of programs, as new, with tables for these clients.
    pub(crate) fn prepare(&self, clients: &BTreeSet<usize>) -> Result<(), Failure> {
        let statements = preparation(clients);
        self.order(&if self.is_mysql() { dialect::prepared_for_mysql(statements) } else { statements })
    }

    /// A connection with all rights.
    pub(crate) fn administrator(&self) -> Result<Connection, Failure> {
        let login = Login {
            user: self.access.admin_user.clone(),
            schema: String::new(),
            collation: 45, // utf8mb4_general_ci
            capabilities: plain_capabilities().0,
        };
        Connection::open(self.socket(), &login, &self.access.admin_password)
            .map(|(connection, _)| connection)
            .map_err(|error| format!("{}: {error}", self.socket().display()).into())
    }

    /// Has the administrator say these.
    pub(crate) fn order(&self, statements: &[String]) -> Result<(), Failure> {
        let mut connection = self.administrator()?;
        for statement in statements {
            let replies = connection.perform(&Step::Query(statement.clone().into_bytes()));
            if replies[0].packets.first().is_none_or(|packet| packet.role != Role::Ok) {
                let answer = replies[0].packets.first().map(|packet| escape(&packet.payload));
                return Err(format!("{statement}: {answer:?}").into());
            }
        }
        connection.quit();
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.server.stop();
        if let Ok(reports) = self.reports.lock() {
            let _ = reports.recv_timeout(PATIENCE);
        }
    }
}

/// A running `onramp serve`.
pub(crate) struct Onramp {
    child: Child,
    pub(crate) socket: PathBuf,
    /// The admin port's, where there is one.
    pub(crate) admin: Option<PathBuf>,
    pub(crate) log: PathBuf,
}

impl Onramp {
    /// Starts the program in front of the server and waits until it greets. `patience` is how long its clients wait for a
    /// backend that others hold.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        server: &Server,
        setting: &Setting,
        patience: &str,
    ) -> Result<Self, Failure> {
        let (socket, log) = (folder.join("clients.sock"), folder.join("onramp.log"));
        let _ = std::fs::remove_file(&socket);
        let file = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = tied_to_us(program);
        command.arg("serve").current_dir(folder);
        let options = [
            ("listen", socket.display().to_string()),
            // Several run at a time, and the port is the same for all.
            ("http-listen", String::from("off")),
            ("driver", String::from(if setting.epoll { "epoll" } else { "auto" })),
            ("workers", setting.workers.to_string()),
            ("max-backends", setting.backends.to_string()),
            // The clients of a program hold all backends but one at times, mostly those of one user.
            ("user-backends-share", String::from("100")),
            ("permits", setting.permits.to_string()),
            ("statements-in-flight", setting.in_flight.to_string()),
            // With one, reads in all schemas follow each other there.
            ("shared-backends", String::from(if setting.permits <= 2 { "1" } else { "0" })),
            ("coalesce-reads", String::from(if setting.coalesce { "on" } else { "off" })),
            ("connect-timeout", String::from(patience)),
        ];
        for (name, value) in options {
            command.arg(format!("--{name}")).arg(value);
        }
        let admin = setting.unsteady.then(|| folder.join("admin.sock"));
        if let Some(admin) = &admin {
            command.arg("--admin-listen").arg(admin);
        }
        if setting.at_once {
            command.args(["--backend-connect-timeout", PATIENCE_WITH_OTHERS]);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("ONRAMP_")) {
                command.env_remove(name);
            }
        }
        let access = &server.access;
        let backend = format!(
            "mysql://{}:{}@localhost/?socket={}",
            access.service_user,
            access.service_password.as_str(),
            access.socket.display()
        );
        command.env("ONRAMP_BACKEND", backend);
        command.env("ONRAMP_ADMIN_USER", orders::USER).env("ONRAMP_ADMIN_PASSWORD", orders::PASSWORD);
        let errors = file.try_clone()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut onramp = Self { child, socket, admin, log };
        onramp.wait()?;
        Ok(onramp)
    }

    /// Whether it still runs.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned()
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let login = Login {
            user: String::from("app"),
            schema: String::new(),
            collation: 45,
            capabilities: plain_capabilities().0,
        };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && self.lives() {
            if let Ok((mut connection, reply)) =
                Connection::open(&self.socket, &login, &crate::connection::password(&login.user))
            {
                if reply.packets.first().is_some_and(|packet| packet.role == Role::Ok) {
                    connection.quit();
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("onramp did not come up:\n{}", self.last_words()).into())
    }
}

impl Drop for Onramp {
    fn drop(&mut self) {
        // Nobody is left who would miss an answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
