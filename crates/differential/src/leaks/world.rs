//! The server, Onramp with a single backend in front of it, and the tables, views and routines that programs use.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::connection::{Connection, Reply};
use crate::program::Setting;
use crate::sites::{Onramp, Server};
use crate::step::Step;

use super::rules::{OBJECTS, OBJECTS_OF_MARIADB, OBJECTS_OF_MYSQL, SCHEMAS};
use super::witness::{BACKENDS, Witness, rows};

/// What the server is started with, so that it tells of its connections' locks, and no program waits for long.
pub(crate) const ARGUMENTS: [&str; 7] = [
    "--performance-schema=ON",
    "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON",
    "--performance-schema-instrument=transaction=ON",
    "--performance-schema-consumer-events-transactions-current=ON",
    "--lock-wait-timeout=3",
    "--loose-max-statement-time=20",
    "--event-scheduler=OFF",
];

/// Nobody waits for the only backend longer than this: who holds it keeps it.
const PATIENCE_OF_ONRAMP: &str = "3s";

/// What the account of programs may do beside everything in its schemas, on both servers.
const RIGHTS: [&str; 6] = [
    "CREATE ROLE IF NOT EXISTS leak_role",
    "GRANT SELECT ON mysql.* TO leak_role",
    "GRANT leak_role TO app@'%'",
    "GRANT RELOAD, PROCESS ON *.* TO app@'%'",
    "GRANT ALL ON forbidden.* TO leak_role",
    "GRANT SELECT ON performance_schema.* TO app@'%'",
];
const RIGHTS_OF_MYSQL: [&str; 1] = ["GRANT BACKUP_ADMIN, RESOURCE_GROUP_USER ON *.* TO app@'%'"];

/// The server, and Onramp in front of it.
pub(crate) struct World<'a> {
    pub(crate) server: &'a Server,
    pub(crate) inspector: Connection,
    program: &'a Path,
    folder: &'a Path,
    onramp: Option<Onramp>,
    /// The server has ended, by a defect of its own: it is started again.
    pub(crate) lost: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(server: &'a Server, program: &'a Path, folder: &'a Path) -> Result<Self, Failure> {
        server.order(&RIGHTS.map(String::from))?;
        if server.is_mysql() {
            server.order(&RIGHTS_OF_MYSQL.map(String::from))?;
        }
        let inspector = server.administrator()?;
        Ok(Self { server, inspector, program, folder, onramp: None, lost: false })
    }

    /// A new Onramp over schemas as new. Whatever the one before has left ends with it.
    pub(crate) fn renew(&mut self) -> Result<(), Failure> {
        self.stop()?;
        if self.prepare_patiently().is_err() {
            // MariaDB 10.11 now and then keeps a transaction of no connection (thread 0 in INNODB_TRX), which is no branch either.
            let left = ["SHOW FULL PROCESSLIST", "XA RECOVER", "SELECT * FROM information_schema.innodb_trx"];
            for question in left {
                eprintln!(
                    "the schemas cannot be made anew, so the server is ended. {question}: {:?}",
                    self.ask(question)
                );
            }
            self.end_server()?;
            self.prepare_patiently()?;
        }
        self.start()
    }

    fn prepare_patiently(&mut self) -> Result<(), Failure> {
        let mut trouble = String::new();
        // A branch of a connection that is just ending cannot be rolled back yet, and keeps its tables.
        wait_for(|| {
            self.end_branches();
            self.remove_stray_files();
            self.prepare().map_err(|error| trouble = error.to_string()).ok()
        })
        .ok_or(trouble.into())
    }

    /// Whoever keeps the server starts it again.
    fn end_server(&mut self) -> Result<(), Failure> {
        let file = self.ask("SELECT @@pid_file").concat();
        let pid = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let ended = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
        ended.map_err(|error| format!("kill: {error}"))?;
        self.lost = true;
        self.stop()
    }

    /// DROP DATABASE fails while a file of no table is in the schema's folder, and has then dropped the tables.
    fn remove_stray_files(&mut self) {
        let [data] = &self.ask("SELECT @@datadir")[..] else { return };
        for schema in SCHEMAS {
            let tables = self.ask(&format!(
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{schema}'"
            ));
            let folder = Path::new(data).join(schema);
            let Ok(files) = std::fs::read_dir(&folder) else { continue };
            for file in files.flatten().filter(|file| tables == ["0"] && file.file_name() != "db.opt") {
                eprintln!("{} was left by a table that is no more", file.path().display());
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// A new Onramp over the schemas as they are.
    pub(crate) fn restart(&mut self) -> Result<(), Failure> {
        self.stop()?;
        self.start()
    }

    fn stop(&mut self) -> Result<(), Failure> {
        self.onramp = None;
        if self.lost {
            self.inspector =
                wait_for(|| self.server.administrator().ok()).ok_or("the server does not come back")?;
            self.lost = false;
        }
        self.wait_for_the_end_of_backends()?;
        self.end_branches();
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        let setting = Setting {
            backends: 1,
            permits: 1,
            in_flight: 1,
            workers: 1,
            epoll: true,
            coalesce: false,
            at_once: false,
            unsteady: true, // with an admin port
        };
        self.onramp =
            Some(Onramp::start(self.program, self.folder, self.server, &setting, PATIENCE_OF_ONRAMP)?);
        Witness::warm_up(self)
    }

    pub(crate) fn onramp(&mut self) -> &mut Onramp {
        self.onramp.as_mut().expect("programs run after renew()")
    }

    /// What the administrator is answered: the first row's cells, and so on.
    pub(crate) fn ask(&mut self, text: &str) -> Vec<String> {
        let replies = self.inspector.perform(&Step::Query(text.as_bytes().to_vec()));
        if let Some(broken) = replies.iter().find_map(|reply| reply.broken.as_ref()) {
            self.lost = true;
            return vec![broken.clone()];
        }
        replies.iter().flat_map(rows).collect()
    }

    /// Rolls back what XA PREPARE has left: it outlives its connection on the server too.
    pub(crate) fn end_branches(&mut self) {
        if !self.server.is_mysql() {
            for row in self.ask("XA RECOVER FORMAT = 'SQL'") {
                let branch = row.rsplit('|').next().unwrap_or_default();
                self.ask(&format!("XA ROLLBACK {branch}"));
            }
            return;
        }
        for row in self.ask("XA RECOVER CONVERT XID") {
            let cells: Vec<&str> = row.split('|').collect();
            let [format, length, _, data] = cells[..] else { continue };
            let Ok(length) = length.parse::<usize>() else { continue };
            let Some((one, two)) = data.strip_prefix("0x").and_then(|it| it.split_at_checked(2 * length))
            else {
                continue;
            };
            self.ask(&format!("XA ROLLBACK X'{one}', X'{two}', {format}"));
        }
    }

    fn wait_for_the_end_of_backends(&mut self) -> Result<(), Failure> {
        wait_for(|| (self.ask(BACKENDS) == ["0"]).then_some(()))
            .ok_or_else(|| "backends outlive Onramp".into())
    }

    fn prepare(&self) -> Result<(), Failure> {
        let mysql = self.server.is_mysql();
        let own: &[&str] = if mysql { &OBJECTS_OF_MYSQL } else { &OBJECTS_OF_MARIADB };
        let mut statements = Vec::new();
        for schema in SCHEMAS {
            statements.push(format!("DROP DATABASE IF EXISTS {schema}"));
            statements.push(format!("CREATE DATABASE {schema}"));
            statements.push(format!("USE {schema}"));
            statements.extend(OBJECTS.iter().chain(own).map(ToString::to_string));
        }
        self.server.order(&statements)
    }
}

/// Whether there is an answer at all.
pub(crate) fn is_broken(replies: &[Reply]) -> bool {
    replies.iter().any(|reply| reply.broken.is_some())
}

/// Looks until there is something; `None` where that takes longer than anything does.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(there) = look() {
            return Some(there);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
