//! The accounts of the private server: one for Onramp itself, one for whoever started it. Their passwords are random,
//! live in files that their owner alone can read, and are the same at every start.

use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use super::folder::{Folder, write_private};
use super::programs::{Flavour, Programs};
use crate::error::{Error, FileUse};

/// The account that Onramp uses.
pub(crate) const SERVICE_USER: &str = "onramp";
/// The account with all rights, for whoever started Onramp.
pub(crate) const ADMIN_USER: &str = "admin";

/// The passwords of one start.
pub(crate) struct Accounts {
    /// The service account's.
    pub(crate) service_password: Zeroizing<String>,
    admin: Admin,
}

/// The administrator's account is created once; afterwards it belongs to its user, who may change or drop it.
enum Admin {
    /// Still to be created, with this password.
    New(Zeroizing<String>),
    /// Created by an earlier start with this password.
    Kept(Zeroizing<String>),
}

impl Accounts {
    /// Reads the passwords, or makes new ones.
    pub(crate) fn prepare(folder: &Folder) -> Result<Self, Error> {
        let service_file = folder.password_file("service");
        let service_password = match read(&service_file)? {
            Some(password) => password,
            None => {
                let password = random_password()?;
                write_private(&service_file, &password)?;
                password
            }
        };
        let admin = match read(&folder.password_file("admin"))? {
            Some(password) => Admin::Kept(password),
            None => Admin::New(random_password()?),
        };
        Ok(Self { service_password, admin })
    }

    /// What the server runs before it takes its first client, one statement a line. One of several that replicate does that for itself
    /// alone: each of them has these statements, and its own may not be taken for what it has replicated.
    pub(crate) fn statements(&self, programs: &Programs, replicates: bool) -> Zeroizing<String> {
        let dialect = Dialect::of(programs);
        let service = format!("'{SERVICE_USER}'@'localhost'");
        let plain = |line: String| Zeroizing::new(line);
        // Anew each time, so that it has these rights and no others, whatever an earlier version gave it.
        let mut lines = Vec::new();
        if replicates {
            lines.push(plain(String::from("SET SESSION sql_log_bin = 0;\n")));
        }
        lines.extend([
            plain(format!("DROP USER IF EXISTS {service};\n")),
            dialect.account("CREATE USER", &service, &self.service_password),
        ]);
        if replicates {
            // To see from whom it replicates, and how far it is.
            lines
                .push(plain(format!("GRANT {} ON *.* TO {service};\n", programs.right_to_see_replication())));
        }
        for tables in dialect.read {
            lines.push(plain(format!("GRANT SELECT ON {tables} TO {service};\n")));
        }
        // To see who waits for whose locks.
        lines.push(plain(format!("GRANT PROCESS ON *.* TO {service};\n")));
        // To know that there are no functions; older versions do not have this right.
        if programs.flavour == Flavour::MySql && programs.numbers >= (8, 0, 20) {
            lines.push(plain(format!("GRANT SHOW_ROUTINE ON *.* TO {service};\n")));
        }
        // To read stored code, so that what it leaves behind is for nobody else. All tables with it: whoever can read this account's
        // password can read the administrator's.
        lines.push(plain(format!("GRANT TRIGGER, SELECT, SHOW VIEW ON *.* TO {service};\n")));
        if let Admin::New(password) = &self.admin {
            let admin = format!("'{ADMIN_USER}'@'%'");
            lines.push(dialect.account("CREATE USER IF NOT EXISTS", &admin, password));
            lines.push(dialect.account("ALTER USER", &admin, password));
            lines.push(plain(format!("GRANT ALL PRIVILEGES ON *.* TO {admin} WITH GRANT OPTION;\n")));
            // MySQL creates it without a password, for whoever comes from this machine: Onramp's clients too.
            if programs.flavour == Flavour::MySql {
                lines.push(plain(String::from("ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n")));
            }
        }
        let mut all = Zeroizing::new(String::with_capacity(lines.iter().map(|line| line.len()).sum()));
        for line in &lines {
            all.push_str(line);
        }
        all
    }

    /// Remembers the administrator's password, now that the server has the account; returns it.
    pub(crate) fn keep(&self, folder: &Folder) -> Result<Zeroizing<String>, Error> {
        match &self.admin {
            Admin::Kept(password) => Ok(password.clone()),
            Admin::New(password) => {
                write_private(&folder.password_file("admin"), password)?;
                Ok(password.clone())
            }
        }
    }
}

/// How the two families write the same.
struct Dialect {
    /// How a password is set, before and behind it.
    password: (&'static str, &'static str),
    /// All that the service account reads: docs/ACCOUNTS.md has the same lists.
    read: &'static [&'static str],
}

impl Dialect {
    fn of(programs: &Programs) -> Self {
        match programs.flavour {
            Flavour::MariaDb { .. } => Self {
                password: ("VIA mysql_native_password USING PASSWORD('", "')"),
                read: &["mysql.global_priv", "mysql.db", "mysql.roles_mapping", "mysql.proc", "mysql.func"],
            },
            // Neither roles nor the newer login method, which is the only one since 9.0.
            Flavour::MySql if programs.numbers.0 < 8 => Self {
                password: ("WITH mysql_native_password BY '", "'"),
                read: &["mysql.user", "mysql.db", "mysql.proc", "mysql.func"],
            },
            Flavour::MySql => Self {
                password: ("WITH caching_sha2_password BY '", "'"),
                read: &[
                    "mysql.user",
                    "mysql.db",
                    "mysql.global_grants",
                    "mysql.default_roles",
                    "mysql.role_edges",
                    "mysql.func",
                    "performance_schema.*",
                ],
            },
        }
    }

    fn account(&self, verb: &str, account: &str, password: &str) -> Zeroizing<String> {
        let (before, behind) = self.password;
        Zeroizing::new(format!("{verb} {account} IDENTIFIED {before}{password}{behind};\n"))
    }
}

fn read(path: &std::path::Path) -> Result<Option<Zeroizing<String>>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let text = Zeroizing::new(text);
            let password = text.trim();
            // It goes between quotes: nothing but what we ourselves write.
            if password.is_empty() || !password.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(Error::NoPassword(path.into()));
            }
            Ok(Some(Zeroizing::new(String::from(password))))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path, FileUse::Read)(error)),
    }
}

/// 192 random bits as hexadecimal digits: nothing that would need quoting anywhere.
fn random_password() -> Result<Zeroizing<String>, Error> {
    let mut random = Zeroizing::new([0_u8; 24]);
    getrandom(&mut random[..], GetRandomFlags::empty())
        .map_err(|error| Error::NoRandomBytes(error.into()))?;
    let mut password = Zeroizing::new(String::with_capacity(2 * random.len()));
    for byte in random.iter() {
        for digit in [byte >> 4, byte & 15] {
            password.push(char::from_digit(u32::from(digit), 16).expect("four bits are a digit"));
        }
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(flavour: Flavour, major: u32, admin: Admin) -> Zeroizing<String> {
        statements_of_one(flavour, major, admin, false)
    }

    fn statements_of_one(flavour: Flavour, major: u32, admin: Admin, replicates: bool) -> Zeroizing<String> {
        let programs = Programs {
            server: "/s".into(),
            flavour,
            version: String::new(),
            numbers: (major, 0, 0),
            setpriv: None,
        };
        Accounts { service_password: Zeroizing::new(String::from("aa")), admin }
            .statements(&programs, replicates)
    }

    fn password() -> Zeroizing<String> {
        Zeroizing::new(String::from("bb"))
    }

    #[test]
    fn the_administrator_is_created_once() {
        let first = statements(Flavour::MariaDb { install: "/i".into() }, 10, Admin::New(password()));
        assert_eq!(
            first.lines().collect::<Vec<_>>(),
            [
                "DROP USER IF EXISTS 'onramp'@'localhost';",
                "CREATE USER 'onramp'@'localhost' IDENTIFIED VIA mysql_native_password USING PASSWORD('aa');",
                "GRANT SELECT ON mysql.global_priv TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.db TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.roles_mapping TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.proc TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.func TO 'onramp'@'localhost';",
                "GRANT PROCESS ON *.* TO 'onramp'@'localhost';",
                "GRANT TRIGGER, SELECT, SHOW VIEW ON *.* TO 'onramp'@'localhost';",
                "CREATE USER IF NOT EXISTS 'admin'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('bb');",
                "ALTER USER 'admin'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('bb');",
                "GRANT ALL PRIVILEGES ON *.* TO 'admin'@'%' WITH GRANT OPTION;",
            ]
        );
        let later = statements(Flavour::MariaDb { install: "/i".into() }, 10, Admin::Kept(password()));
        assert!(!later.contains("admin"), "{}", later.as_str());
    }

    #[test]
    fn what_a_replica_does_for_itself_is_not_in_its_log() {
        for (flavour, right) in [
            (Flavour::MariaDb { install: "/i".into() }, "REPLICA MONITOR"),
            (Flavour::MySql, "REPLICATION CLIENT"),
        ] {
            let all = statements_of_one(flavour, 11, Admin::New(password()), true);
            assert!(all.starts_with("SET SESSION sql_log_bin = 0;\n"), "{}", all.as_str());
            let grant = format!("GRANT {right} ON *.* TO 'onramp'@'localhost';\n");
            assert!(all.contains(&grant), "{}", all.as_str());
        }
    }

    #[test]
    fn mysql_is_spoken_to_in_its_own_way() {
        let old = statements(Flavour::MySql, 5, Admin::Kept(password()));
        assert_eq!(
            old.lines().collect::<Vec<_>>(),
            [
                "DROP USER IF EXISTS 'onramp'@'localhost';",
                "CREATE USER 'onramp'@'localhost' IDENTIFIED WITH mysql_native_password BY 'aa';",
                "GRANT SELECT ON mysql.user TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.db TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.proc TO 'onramp'@'localhost';",
                "GRANT SELECT ON mysql.func TO 'onramp'@'localhost';",
                "GRANT PROCESS ON *.* TO 'onramp'@'localhost';",
                "GRANT TRIGGER, SELECT, SHOW VIEW ON *.* TO 'onramp'@'localhost';",
            ]
        );
        let new = statements(Flavour::MySql, 9, Admin::New(password()));
        assert!(new.ends_with("ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"), "{}", new.as_str());
        assert!(new.contains("IDENTIFIED WITH caching_sha2_password BY 'aa'"), "{}", new.as_str());
        assert!(new.contains("GRANT SELECT ON mysql.role_edges TO"), "{}", new.as_str());
        assert!(new.contains("GRANT SHOW_ROUTINE ON *.* TO"), "{}", new.as_str());
        assert!(new.contains("GRANT TRIGGER, SELECT, SHOW VIEW ON *.* TO"), "{}", new.as_str());
    }

    #[test]
    fn passwords_differ_and_need_no_quoting() {
        let (one, other) = (random_password().unwrap(), random_password().unwrap());
        assert_ne!(*one, *other);
        assert_eq!(one.len(), 48);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
