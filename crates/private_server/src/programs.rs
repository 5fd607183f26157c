//! The server's programs: which there are, and which server they are.

use crate::error::{Error, NoPrograms};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where server programs lie on Debian, Fedora and their kin beside PATH, which often lacks the folders of `root`.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin"];

/// The first MariaDB with mysql.global_priv, from which accounts are read.
/// <https://mariadb.com/kb/en/mysql-global_priv-table/>
const OLDEST_MARIADB: (u32, u32, u32) = (10, 4, 0);

/// The programs of one server.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The server itself.
    pub(crate) server: PathBuf,
    /// Which it is, and what creates its data.
    pub(crate) flavour: Flavour,
    /// Its name and version, as people say it: `MariaDB 10.11.19`.
    pub(crate) version: String,
    /// Major, minor and patch number.
    pub(crate) numbers: (u32, u32, u32),
    /// `setpriv` of util-linux, where it can tie the server's life to ours.
    pub(crate) setpriv: Option<PathBuf>,
}

/// The two families of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// MariaDB; its data is created by this script.
    MariaDb {
        /// `mariadb-install-db`.
        install: PathBuf,
    },
    /// MySQL; the server itself creates its data.
    MySql,
}

/// The first MariaDB with a right of its own for this.
/// <https://mariadb.com/docs/server/reference/sql-statements/account-management-sql-statements/grant#replica-monitor>
const REPLICA_MONITOR: (u32, u32, u32) = (10, 5, 9);

/// The first MySQL with the statements, variables and plugins of replication by the names that all later ones have.
/// <https://dev.mysql.com/doc/relnotes/mysql/8.0/en/news-8-0-26.html>
const OLDEST_REPLICATING_MYSQL: (u32, u32, u32) = (8, 0, 26);

impl Programs {
    /// The right that shows from whom a server replicates.
    pub(crate) fn right_to_see_replication(&self) -> &'static str {
        match self.flavour {
            Flavour::MariaDb { .. } if self.numbers >= REPLICA_MONITOR => "REPLICA MONITOR",
            Flavour::MariaDb { .. } | Flavour::MySql => "REPLICATION CLIENT",
        }
    }

    /// Whether it replicates as it is asked to here.
    ///
    /// # Errors
    /// It is too old for that.
    pub(crate) fn may_replicate(&self) -> Result<(), Error> {
        if self.flavour == Flavour::MySql && self.numbers < OLDEST_REPLICATING_MYSQL {
            let (server, version) = (self.server.clone(), self.numbers);
            return Err(NoPrograms::TooOldToReplicate { server, version }.into());
        }
        Ok(())
    }

    /// Looks in `directory`, or, where that is empty, in PATH and the system's folders.
    ///
    /// # Errors
    /// A line that says what to install.
    pub(crate) fn find(directory: &Path) -> Result<Self, Error> {
        let folders = if directory.as_os_str().is_empty() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from)).collect()
        } else {
            vec![directory.to_path_buf()]
        };
        let server = find_program(&folders, &["mariadbd", "mysqld"])
            .ok_or_else(|| NoPrograms::Nowhere(directory.into()))?;
        let answer = Command::new(&server)
            .args(["--no-defaults", "--version"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| Error::NotRun { program: server.clone(), error })?;
        let answer = String::from_utf8_lossy(&answer.stdout);
        let (name, numbers) = parse_version(&answer).ok_or_else(|| NoPrograms::NoVersion(server.clone()))?;
        let flavour = match name {
            "MariaDB" if numbers < OLDEST_MARIADB => {
                return Err(NoPrograms::TooOld { server, version: (numbers.0, numbers.1) }.into());
            }
            "MariaDB" => Flavour::MariaDb {
                install: find_program(&folders, &["mariadb-install-db", "mysql_install_db"])
                    .ok_or_else(|| NoPrograms::Incomplete(server.clone()))?,
            },
            _ => Flavour::MySql,
        };
        let version = format!("{name} {}.{}.{}", numbers.0, numbers.1, numbers.2);
        Ok(Self { server, flavour, version, numbers, setpriv: setpriv() })
    }
}

fn find_program(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(runs)
}

/// `mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)` or
/// `/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)`.
fn parse_version(answer: &str) -> Option<(&'static str, (u32, u32, u32))> {
    let (_, rest) = answer.split_once("Ver ")?;
    let version = rest.split_whitespace().next()?;
    let digits = version.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut numbers = digits.split('.').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let numbers = (next()?, next()?, next()?);
    Some((if answer.contains("MariaDB") { "MariaDB" } else { "MySQL" }, numbers))
}

/// The shell in which a program that is tied to us begins.
pub(crate) const SHELL: &str = "/bin/sh";

/// `setpriv`, if it knows `--pdeathsig` (util-linux 2.33; busybox does not) and there is a shell beside it.
pub(crate) fn setpriv() -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin"].map(PathBuf::from);
    let setpriv = find_program(&folders, &["setpriv"])?;
    let probe = Command::new(&setpriv)
        .args(["--pdeathsig=TERM", "--", SHELL, "-c", "exit 0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success()).then_some(setpriv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (answer, expected) in [
            (
                "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64",
                Some(("MariaDB", (10, 11, 19))),
            ),
            (
                "/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)",
                Some(("MySQL", (8, 4, 3))),
            ),
            ("mysqld Ver 8", None),
            ("sh: not found", None),
        ] {
            assert_eq!(parse_version(answer), expected, "{answer}");
        }
    }

    #[test]
    fn what_to_install_is_said() {
        let message = Programs::find("/proc/self/fdinfo".as_ref()).unwrap_err().to_string();
        assert_eq!(
            message,
            "no --backend is given and no server is installed: neither mariadbd nor mysqld is in /proc/self/fdinfo \
             (server_directory); install one with `apt install mariadb-server` or `dnf install mariadb-server`"
        );
    }
}
